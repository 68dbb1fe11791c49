"""Every reader of foreign bytes, by hypothesis: `python benchmarks/fuzz.py [reader …] [--seconds 60]`.

A reader gets arbitrary text and valid files of which a value or some bytes have changed. It must return, or refuse with
an error of its own. The script prints executions, seconds and findings of each reader, and fails if there is a finding.
`tests/test_fuzz.py` runs some examples of each. `benchmarks/fuzz_folders.py` damages whole folders.

With `--state FILE.jsonl` each block of executions is a line of that file. The same command continues there with the
readers that have the fewest blocks, so that `--seconds` can bound one call.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
from fuzz_samples import (
    CHATS,
    COMPLETION,
    INSPECT,
    JUDGEMENTS,
    LM_EVAL,
    PIPELINE,
    PRODUCT,
    RECIPE,
    SERVERS,
    TEMPLATE_SETTINGS,
    VERDICTS,
    damaged,
    flip,
    flips,
    raw,
    texts,
)
from hypothesis import strategies as st
from resumable import add_to_state, read_state

from agentgym_envs.calculator.expressions import ExpressionError, evaluate
from agentgym_envs.shop import catalogue
from agentgym_envs.sql.guard import GuardedDatabase, StatementError, Table
from agentgym_envs.textcraft import recipes
from agentgym_py import registry
from agentgym_py.agents import ExpertAgent
from agentgym_py.agents.chat import ChatAgent, completion
from agentgym_py.agents.openai import OpenAIAgent
from agentgym_py.cli.pipeline_file import read_file, read_stages
from agentgym_py.cli.values import load_yaml
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.engine.server_protocols import PROTOCOLS
from agentgym_py.env import EnvSpec
from agentgym_py.env.actions import parse_reply, parse_tool_call
from agentgym_py.env.registration import short_name
from agentgym_py.errors import AgentGymError
from agentgym_py.evaluation import foreign
from agentgym_py.evaluation.folder import SAME_EPISODES, differences, make_manifest, read_manifest
from agentgym_py.feedback import llm, verdicts
from agentgym_py.feedback import store as feedback
from agentgym_py.feedback.types import (
    ComparisonFeedback,
    CorrectionFeedback,
    EpisodeRef,
    Feedback,
    NoFeedback,
    ScoreFeedback,
)
from agentgym_py.files import parse_yaml
from agentgym_py.http_client import RequestFailedError, read_json
from agentgym_py.policy import chat_template
from agentgym_py.policy.loading import adapter_base
from agentgym_py.retrieval import ToolIndex
from agentgym_py.rewards.functions import parse_reward
from agentgym_py.rewards.judge_client import UnreadableError, read_pairs
from agentgym_py.rewards.llm_judge import parse_mark
from agentgym_py.rewards.relative_judge import parse_judgements
from agentgym_py.serving.client import parse_answer
from agentgym_py.serving.protocol import (
    Ask,
    ExpertThought,
    FindTask,
    Limit,
    Make,
    Read,
    Reset,
    Restore,
    Step,
    decode,
)
from agentgym_py.training.checkpoints import Checkpoints
from agentgym_py.training.rl.constraints import ConstraintSettings, Multipliers, parse_constraints
from agentgym_py.trajectory import Trajectory, store
from agentgym_py.trajectory.formats import agenttraj, atif, parquet
from agentgym_py.trajectory.reading import read_any, verify_any
from agentgym_py.viewer.index import Index
from agentgym_py.viewer.source import Source

ROOT = Path(__file__).parents[1]
BLOCK = 100
"""Executions of a line of the state file."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader, its inputs, and the errors with which it refuses them."""

    inputs: st.SearchStrategy[Any]
    read: Callable[[Any], object]
    refuses: tuple[type[Exception], ...] = (AgentGymError,)

    def accepts(self, value: Any) -> None:
        """Read a value; any error but a refusal is a finding."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with suppress(*self.refuses):
                self.read(value)


def _flipped(sample: bytes, read: Callable[[bytes], None]) -> Reader:
    """Return a reader of a sample of which some bytes have changed, or the end is missing."""
    return Reader(flips, lambda change: read(flip(sample, change)))


def _in_file(
    name: str, read: Callable[[Path], object], others: Mapping[str, bytes] | None = None
) -> Callable[[bytes], None]:
    """Return a reader of bytes, which are put into a file of a new folder, beside other files."""

    def reader(data: bytes) -> None:
        with tempfile.TemporaryDirectory(prefix="agentgym-fuzz") as folder:
            for place, content in {**(others or {}), name: data}.items():
                (Path(folder) / place).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / place).write_bytes(content)
            read(Path(folder) / name)

    return reader


def make_readers() -> dict[str, Reader]:
    """Return every reader by its name."""
    episode = _episode()
    return {
        **_text_readers(),
        **_file_readers(episode),
        **_other_files(episode),
        **_answer_readers(),
        **_world_readers(),
    }


def as_text(data: bytes) -> str:
    """Return bytes as text."""
    return data.decode("utf-8", "replace")


def _text_readers() -> dict[str, Reader]:
    """Readers of what an agent or a user writes."""

    def constraints(text: str) -> None:
        parse_constraints(text)

    return {
        "action parser": Reader(texts, lambda text: (parse_reply(text), parse_tool_call(text)), ()),
        "SQL guard": Reader(texts | texts.map("SELECT {}".format), _query, (StatementError,)),
        "expressions": Reader(texts, evaluate, (ExpressionError,)),
        "constraints": Reader(texts | texts.map("a<={}".format), constraints),
        "rewards": Reader(texts | texts.map("{}*agent".format), parse_reward),
        "judge's answer": Reader(texts | st.sampled_from(JUDGEMENTS).flatmap(damaged).map(as_text), _judgement, ()),
        "chat template": Reader(texts | damaged(TEMPLATE_SETTINGS).map(as_text), _template),
    }


def _file_readers(episode: Trajectory) -> dict[str, Reader]:
    """Readers of trajectories and evaluations."""
    line, row, document = json.loads(store.to_line(episode)), agenttraj.to_row(episode), atif.to_row(episode)
    foreign_document = json.loads((ROOT / "tests" / "fixtures" / "atif" / "example.json").read_text(encoding="utf-8"))
    manifest = make_manifest(ExpertAgent(), [EnvSpec("maze")], "test", [0, 1], 1, "full", 0)
    manifest = json.loads(json.dumps(manifest | {"options": {"env": ["maze"]}}))
    table, dataset = _tables(episode)
    index = _index_of(episode)
    return {
        "store line": Reader(raw | damaged(line), lambda data: store.to_line(store.from_line(data))),
        "store file": Reader(raw | damaged(line), _in_file("a.jsonl", lambda path: list(read_any(path)))),
        "verify": Reader(raw | damaged(line) | damaged(row), _in_file("v.jsonl", verify_any)),
        "AgentTraj": Reader(raw | damaged(row) | damaged([row]), _in_file("a.json", lambda path: list(read_any(path)))),
        "ATIF": Reader(
            damaged(document) | damaged(foreign_document), _in_file("b.json", lambda path: list(read_any(path, "atif")))
        ),
        "chats": Reader(
            st.sampled_from(CHATS).flatmap(damaged), _in_file("c.json", lambda path: list(read_any(path)))
        ),
        "parquet": _flipped(table, _in_file("a.parquet", lambda path: list(read_any(path)))),
        "saved dataset": _flipped(
            dataset["data-00000-of-00001.arrow"],
            _in_file("data-00000-of-00001.arrow", lambda path: list(read_any(path.parent)), dataset),
        ),
        "viewer's index": _flipped(index, _in_file(".view.sqlite", _show, {"a.jsonl": store.to_line(episode)})),
        "manifest": Reader(raw | damaged(manifest), _in_file("manifest.json", _manifest)),
        "Inspect's log": Reader(
            st.sampled_from(list(INSPECT)).flatmap(
                lambda name: damaged(INSPECT[name]).map(lambda data: _zip({name: data}))
            ),
            _in_file("a.eval", foreign.load),
        ),
        "Inspect's archive": _flipped(_zip({}), _in_file("a.eval", foreign.load)),
        "lm-eval's samples": Reader(raw | damaged(LM_EVAL), _in_file("samples_x.jsonl", foreign.load)),
        "YAML": Reader(texts | damaged(manifest).map(as_text), lambda text: (parse_yaml(text), load_yaml(text)),
                       (ValueError,)),
    }  # fmt: skip


def _other_files(episode: Trajectory) -> dict[str, Reader]:
    """Readers of feedback, indexes, adapters, judges and states."""
    header, lines = _feedback_of(episode)
    index = _tool_index()
    state = {"format": 2, "training": "x", "split": "", "files": {"text": "ca978112ca1bbdcafac231b39a23dc4d"}}
    multipliers = Multipliers(ConstraintSettings(constraint="deletions<=0.1"))

    def read_feedback(path: Path) -> None:
        feedback.read_feedback(path)
        feedback.FeedbackFile(path, header)

    def reward_model(path: Path) -> None:
        from agentgym_py.rewards.reward_model import RewardModel  # it needs torch

        RewardModel.load(path.parent)

    return {
        "feedback": Reader(
            st.integers(0, len(lines) - 1).flatmap(
                lambda at: damaged(lines[at]).map(
                    lambda data: b"\n".join([*(json.dumps(line).encode() for line in lines[:at]), data, b""])
                )
            ),
            _in_file("f.jsonl", read_feedback),
        ),
        "verdicts": Reader(
            st.sampled_from(VERDICTS).flatmap(damaged),
            _in_file(verdicts.FILE, lambda path: (verdicts.read(path.parent), verdicts.judged(path.parent)),
                     {"a.jsonl": store.to_line(episode)}),
        ),
        "answers": Reader(
            raw | damaged({"key": "a", "answer": "b"}), _in_file("a.jsonl", lambda path: read_pairs(path, "answer"))
        ),
        "tools' index": Reader(
            damaged(json.loads(index["index.json"])), _in_file("index.json", _search, index)
        ),
        "tools' vectors": _flipped(index["tools.npy"], _in_file("tools.npy", _search, index)),
        "adapters": Reader(
            damaged({"base_model_name_or_path": "x", "peft_type": "LORA"}),
            _in_file("adapter_config.json", lambda path: adapter_base(str(path.parent))),
        ),
        "adapters' base": Reader(
            damaged({"name": "x", "format": "float32", "digest": "0"}),
            _in_file("base.json", lambda path: adapter_base(str(path.parent)), {"adapter_config.json": b"{}"}),
        ),
        "reward model": Reader(
            damaged({"heads": {"success": 1.0}, "aggregate": "mean", "std_weight": 1.0, "members": []}),
            _in_file("reward_model.json", reward_model),
        ),
        "multipliers": Reader(
            damaged({"deletions": {"value": 1.0, "integral": 0.5, "last_cost": 0.1}}),
            _in_file("multipliers.json", lambda path: multipliers.load(path.parent)),
        ),
        "training's state": Reader(
            raw | damaged(state),
            _in_file("state-000001/state.json", lambda path: Checkpoints(path.parents[1], "x", 0.0).latest(),
                     {"state-000001/text": b"a"}),
        ),
        "pipeline": Reader(
            damaged(PIPELINE),
            _in_file("p.yaml", lambda path: read_stages(read_file(str(path)), str(path))),
        ),
    }  # fmt: skip


def _answer_readers() -> dict[str, Reader]:
    """Readers of what servers answer, and of requests to ours."""
    requests = {
        Make: {"env": "maze", "kwargs": {"split": "test"}}, Step: {"n": 1, "action": "x"},
        Reset: {"n": 1, "seed": 0, "options": {"task": 0}}, Restore: {"n": 1, "snapshot": ""},
        Limit: {"n": 1, "max_steps": 3}, Ask: {}, FindTask: {"name": "maze/test/easy/0", "split": "test"},
        Read: {"text": "x"}, ExpertThought: {"action": "x"},
    }  # fmt: skip
    readers = {
        f"protocol {kind.__name__}": Reader(raw | damaged(sample), lambda data, kind=kind: decode(kind, data))  # type: ignore[misc]  # mypy infers no lambda with a default
        for kind, sample in requests.items()
    }
    refusal = {"error": {"type": "ConfigError", "message": "x"}}
    readers["environment server"] = Reader(
        st.tuples(st.sampled_from((200, 400, 401, 404, 500)), raw | damaged(refusal)),
        lambda answer: parse_answer("http://x", *answer),
    )
    for name, sample in SERVERS.items():
        readers[f"{name} server"] = Reader(
            raw | damaged(sample), lambda data, name=name: PROTOCOLS[name].read([1, 2], read_json(data)),  # type: ignore[misc]  # as above
            (AgentGymError, RequestFailedError),
        )  # fmt: skip
    readers["completion"] = Reader(raw | damaged(COMPLETION), _play_completion)
    return readers


def _world_readers() -> dict[str, Reader]:
    """Readers of snapshots, and of the files of which worlds are made."""
    readers = {}
    for world in map(short_name, registry.names("agentgym.envs")):
        sample, restore = _restorer(world)
        readers[f"snapshot {world}"] = Reader(raw | damaged(sample), restore)
    readers["recipes"] = Reader(
        raw | damaged(RECIPE), _in_file("stick.json", _read_recipes, {"tags/item/a.json": b'{"values": ["x"]}'})
    )
    readers["catalogue"] = Reader(
        raw | damaged([PRODUCT]),
        _in_file("items_shuffle.json", lambda path: catalogue.load_catalogue(path.parent),
                 {"items_ins_v2.json": b"{}", "items_human_ins.json": b"{}"}),
    )  # fmt: skip
    return readers


# ---- samples, and what is done with them -----------------------------------------------------------------------------


def _episode() -> Trajectory:
    return Collector(ExpertAgent()).collect(jobs_for("maze", "train", [0])[0])


def _tables(episode: Trajectory) -> tuple[bytes, dict[str, bytes]]:
    """Return a parquet file and the files of a saved dataset."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        parquet.write_parquet(path / "a.parquet", [episode])
        parquet.write_dataset(path / "d", [episode])
        return (path / "a.parquet").read_bytes(), {file.name: file.read_bytes() for file in (path / "d").iterdir()}


def _index_of(episode: Trajectory) -> bytes:
    """Return the index of a folder with a store."""
    with tempfile.TemporaryDirectory() as folder:
        store.write(Path(folder) / "a.jsonl", [episode])
        _show(Path(folder) / ".view.sqlite")
        return (Path(folder) / ".view.sqlite").read_bytes()


def _tool_index() -> dict[str, bytes]:
    """Return the files of an index of tools."""
    with tempfile.TemporaryDirectory() as folder:
        ToolIndex.of({"get_weather": "the weather"}, np.ones((8, 4), np.float32)).save(folder)
        return {file.name: file.read_bytes() for file in Path(folder).iterdir()}


def _feedback_of(episode: Trajectory) -> tuple[feedback.Header, list[Any]]:
    """Return the header and the lines of a file of feedback."""
    ref, other = EpisodeRef.of(episode), EpisodeRef("b", "0" * 16)
    header = feedback.header_of("environment", {}, [ref])
    records: list[Feedback] = [
        ScoreFeedback(ref, 0.5, {"completion": 1.0}, "why"), ComparisonFeedback(ref, other),
        CorrectionFeedback(ref, 0, "go south"), NoFeedback(other, "why"),
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        feedback.write_feedback(Path(folder) / "f.jsonl", header, records)
        return header, [json.loads(line) for line in (Path(folder) / "f.jsonl").read_text().splitlines()]


def _zip(changed: Mapping[str, bytes]) -> bytes:
    """Return a log of Inspect, some of whose files are others."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {
            **{name: json.dumps(sample).encode() for name, sample in INSPECT.items()},
            **changed,
        }.items():
            archive.writestr(name, content)
    return packed.getvalue()


def _show(path: Path) -> None:
    """Read all that the viewer shows."""
    with closing(Index(Source.from_paths([path.parent]))) as index:
        index.update()
        for row in index.find()[1]:
            with suppress(AgentGymError):
                index.read(row["n"])
        index.facets()
        index.broken()


def _manifest(path: Path) -> None:
    manifest = read_manifest(path)
    differences(manifest, manifest | {"seed": -1}, SAME_EPISODES)


def _search(path: Path) -> None:
    ToolIndex.load(path.parent).search(["the weather"], 2)


def _read_recipes(path: Path) -> None:
    recipes.read_folder.cache_clear()
    recipes.read_folder(str(path.parent))


def _judgement(text: str) -> None:
    for parse in (llm.parse_judgement, lambda answer: parse_judgements(answer, 1), parse_mark):
        with suppress(UnreadableError):
            parse(text)


def _template(text: str) -> None:
    template = f"{{#- agentgym settings {text} -#}}\n{{{{ messages }}}}"
    for read in (chat_template.thinking_of, chat_template.prompting_of):
        read(template)
    chat_template.with_settings(template, "auto", {})


class _Answered(OpenAIAgent):
    """An agent whose endpoint answers the same bytes to every request."""

    content = b""

    async def complete(self, body: dict[str, Any], seed: int) -> Any:
        """Read the answer."""
        del body, seed
        if (found := completion(read_json(self.content))) is None:
            raise RequestFailedError("no completion")
        return found, 0.5


def _play_completion(content: bytes) -> None:
    """Play a step with a completion, and store it."""
    agent: ChatAgent = _AGENT
    agent.content = content  # type: ignore[attr-defined]  # an _Answered
    agent.client.answered = True  # else a failure counts as an endpoint that is down
    store.to_line(Collector(agent).collect(jobs_for(EnvSpec("todo", {"max_steps": 1}), "train", [0])[0]))


_AGENT = _Answered("m", "http://127.0.0.1:1/v1", tools=True, prompt_price=1.0, completion_price=1.0)


def _restorer(world: str) -> tuple[Any, Callable[[bytes], None]]:
    """Return a snapshot of a world and a function that restores one, and steps."""
    env = EnvSpec(world).make()
    env.reset(seed=1)
    sample = json.loads(env.snapshot())

    def restore(data: bytes) -> None:
        env.reset(seed=2)
        env.restore(data)
        env.actions()
        env.step("look")
        env.snapshot()

    return sample, restore


def _query(text: str) -> None:
    GuardedDatabase([Table("book", ("id INTEGER PRIMARY KEY", "title TEXT"), [(1, "x")])]).run(text)


# ---- all of them -----------------------------------------------------------------------------------------------------


def run(reader: Reader, examples: int, seed: int) -> int:
    """Read some examples and return their number; the first error that is no refusal is raised."""
    count = 0

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    @hypothesis.given(reader.inputs)
    def read(value: Any) -> None:
        nonlocal count
        count += 1
        reader.accepts(value)

    read()
    return count


@dataclass(slots=True)
class Block:
    """Executions of a reader, as a line of the state file."""

    reader: str
    number: int
    executions: int = 0
    seconds: float = 0.0
    findings: list[str] = field(default_factory=list)


def run_block(name: str, reader: Reader, number: int, seed: int) -> Block:
    """Read a block of examples."""
    block, began = Block(name, number), time.monotonic()
    try:
        block.executions = run(reader, BLOCK, seed + number)
    except Exception as error:
        block.findings.append(f"{error!r:.500} {' '.join(getattr(error, '__notes__', []))[:1000]}")
        print(traceback.format_exc()[:3000], file=sys.stderr)
    block.seconds = time.monotonic() - began
    return block


def main() -> int:
    """Print a row for each reader; return 1 if there is a finding."""
    readers = make_readers()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readers", nargs="*", metavar="READER", help=f"some of {', '.join(readers)}")
    parser.add_argument("--seconds", type=float, default=600.0, help="for all readers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--state", type=Path, help="file of the blocks, where this command continues")
    args = parser.parse_args()
    blocks, ends = read_state(Block, args.state), time.monotonic() + args.seconds
    done = Counter(dict.fromkeys(args.readers or readers, 0))
    done.update(block.reader for block in blocks if block.reader in done)
    while time.monotonic() < ends:
        name = min(done, key=done.__getitem__)
        blocks.append(run_block(name, readers[name], done[name], args.seed))
        done[name] += 1
        add_to_state(args.state, blocks[-1])
    print("| reader | executions | findings | seconds |\n|---|--:|--:|--:|")
    for name in (*done, "all"):
        chosen = [block for block in blocks if name in (block.reader, "all")]
        count, findings = sum(block.executions for block in chosen), sum(len(block.findings) for block in chosen)
        print(f"| {name} | {count:,} | {findings} | {sum(block.seconds for block in chosen):.0f} |")
    for block in blocks:
        for finding in block.findings:
            print(f"{block.reader}: {finding}", file=sys.stderr)
    return int(any(block.findings for block in blocks))


if __name__ == "__main__":
    sys.exit(main())
