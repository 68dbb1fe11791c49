"""Every reader of foreign bytes, by hypothesis: `python benchmarks/fuzz.py [reader …] [--seconds 60]`.

A reader gets arbitrary text and valid files of which a value or some bytes have changed. It must return, or refuse with
an error of its own. The script prints executions, seconds and findings of each reader, and fails if there is a finding.
`tests/test_fuzz.py` runs some examples of each.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis import strategies as st

from agentgym_envs.calculator.expressions import ExpressionError, evaluate
from agentgym_envs.sql.guard import GuardedDatabase, StatementError, Table
from agentgym_py.agents import ExpertAgent
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.env import EnvSpec
from agentgym_py.env.actions import parse_reply, parse_tool_call
from agentgym_py.errors import AgentGymError
from agentgym_py.evaluation.folder import SAME_EPISODES, differences, make_manifest, read_manifest
from agentgym_py.files import parse_yaml
from agentgym_py.serving.protocol import Make, Reset, Restore, Step, decode
from agentgym_py.trajectory import Trajectory, store
from agentgym_py.trajectory.formats import agenttraj, atif
from agentgym_py.trajectory.reading import read_any, verify_any

ROOT = Path(__file__).parents[1]
AWKWARD: tuple[Any, ...] = (
    None, True, -1, 0, 1 << 70, 0.5, 1e308, float("nan"), float("inf"), "", "x", "\ud800", "\x00", "9" * 5000, [],
    {}, [[]], {"a": {"b": []}}, ["x"] * 100, "../../x", "__class__", [[[[[[[[[[]]]]]]]]]],
)  # fmt: skip
"""Values that stand where others belong."""
CHATS: tuple[Any, ...] = (
    {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "q"}]},
                  {"role": "assistant", "content": "a", "weight": 1,
                   "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1]}}}]}], "reward": 0.5},
    {"conversations": [{"from": "human", "value": "q"}, {"from": "function_call", "value": '{"name": "f"}'}]},
    {"instruction": "i", "input": "j", "output": "o", "history": [["q", "a"]], "system": "s"},
    {"prompt": [{"role": "user", "content": "q"}], "completion": "a", "label": True, "id": 1},
    {"prompt": "q", "chosen": [{"role": "assistant", "content": "a"}], "rejected": "b"},
    {"id": 1, "prompt": [{"from": "human", "loss": None, "value": "r"}, {"from": "gpt", "loss": False, "value": "Ok."},
                         {"from": "human", "loss": None, "value": "o"}],
     "chosen": [{"from": "gpt", "loss": True, "value": "a"}], "rejected": [{"from": "gpt", "value": "b"}]},
)  # fmt: skip
"""A row of each format of chats."""
PIECES = (
    "{", "}", "[", "]", '"', ":", ",", "\\", "&a", "*a", "<<: *a", "!!python/object:x", "|", "-", "\n", "  ", "Action:",
    "Thought:", "Action Input:", "<tool_call>", "</tool_call>", "<think>", "SELECT", "FROM book", "WITH RECURSIVE", "(",
    ")", "*", "**", "/", "!", "9", "1e999", "sqrt", "\x00", "\ud800", "null", "NaN", "é", "\u202e",
)  # fmt: skip
texts = st.text(max_size=200) | st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=60).map("".join)
raw = st.binary(max_size=200) | texts.map(lambda text: text.encode("utf-8", "surrogatepass"))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value within a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


@st.composite
def damaged(draw: st.DrawFn, sample: Any) -> bytes:
    """Return the JSON of a sample in which values were replaced or removed, or bytes changed."""
    value = copy.deepcopy(sample)
    for _ in range(draw(st.integers(1, 3))):
        if not (paths := list(places(value))):
            break
        *above, last = draw(st.sampled_from(paths))
        parent = value
        for key in above:
            parent = parent[key]
        if draw(st.booleans()) and isinstance(parent, dict):
            del parent[last]
        else:
            parent[last] = copy.deepcopy(draw(st.sampled_from(AWKWARD)))
    data = bytearray(json.dumps(value).encode())
    for _ in range(draw(st.sampled_from((0, 0, 1, 5)))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 5))] = draw(raw)[:20]
    return bytes(data)


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


def _in_file(name: str, read: Callable[[Path], object]) -> Callable[[bytes], None]:
    """Return a reader of bytes, which are put into a file."""
    folder = tempfile.TemporaryDirectory(prefix="agentgym-fuzz")

    def reader(data: bytes) -> None:
        path = Path(folder.name) / name
        path.write_bytes(data)
        read(path)

    return reader


def _read_store(data: bytes) -> None:
    store.to_line(store.from_line(data))


def _manifest(path: Path) -> None:
    manifest = read_manifest(path)
    differences(manifest, manifest | {"seed": -1}, SAME_EPISODES)


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


def _episode() -> Trajectory:
    return Collector(ExpertAgent()).collect(jobs_for("maze", "train", [0])[0])


def _query(text: str) -> None:
    GuardedDatabase([Table("book", ("id INTEGER PRIMARY KEY", "title TEXT"), [(1, "x")])]).run(text)


def make_readers() -> dict[str, Reader]:
    """Return every reader by its name."""
    episode = _episode()
    line, row, document = json.loads(store.to_line(episode)), agenttraj.to_row(episode), atif.to_row(episode)
    foreign = json.loads((ROOT / "tests" / "fixtures" / "atif" / "example.json").read_text(encoding="utf-8"))
    manifest = make_manifest(ExpertAgent(), [EnvSpec("maze")], "test", [0, 1], 1, "full", 0)
    manifest = json.loads(json.dumps(manifest | {"options": {"env": ["maze"]}}))
    requests = ((Make, {"env": "maze", "kwargs": {"split": "test"}}), (Step, {"n": 1, "action": "x"}),
                (Reset, {"n": 1, "seed": 0, "options": {"task": 0}}), (Restore, {"n": 1, "snapshot": ""}))  # fmt: skip
    readers = {
        "action parser": Reader(texts, lambda text: (parse_reply(text), parse_tool_call(text)), ()),
        "store line": Reader(raw | damaged(line), _read_store),
        "store file": Reader(raw | damaged(line), _in_file("a.jsonl", lambda path: list(read_any(path)))),
        "verify": Reader(raw | damaged(line) | damaged(row), _in_file("v.jsonl", verify_any)),
        "AgentTraj": Reader(raw | damaged(row) | damaged([row]), _in_file("a.json", lambda path: list(read_any(path)))),
        "ATIF": Reader(
            damaged(document) | damaged(foreign), _in_file("b.json", lambda path: list(read_any(path, "atif")))
        ),
        "chats": Reader(
            st.sampled_from(CHATS).flatmap(damaged), _in_file("c.json", lambda path: list(read_any(path)))
        ),
        "manifest": Reader(raw | damaged(manifest), _in_file("manifest.json", _manifest)),
        "YAML": Reader(texts | damaged(manifest).map(lambda data: data.decode("utf-8", "replace")), parse_yaml,
                       (ValueError,)),
        "SQL guard": Reader(texts | texts.map("SELECT {}".format), _query, (StatementError,)),
        "expressions": Reader(texts, evaluate, (ExpressionError,)),
    }  # fmt: skip
    for kind, sample in requests:
        readers[f"protocol {kind.__name__}"] = Reader(raw | damaged(sample), lambda data, kind=kind: decode(kind, data))  # type: ignore[misc]  # mypy infers no lambda with a default
    for world in ("maze", "todo", "household"):
        sample, restore = _restorer(world)
        readers[f"snapshot {world}"] = Reader(raw | damaged(sample), restore)
    return readers


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


def main() -> int:
    """Print a row for each reader; return 1 if there is a finding."""
    readers = make_readers()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readers", nargs="*", metavar="READER", help=f"some of {', '.join(readers)}")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each reader")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print("| reader | executions | seconds | findings |\n|---|--:|--:|--:|")
    total = 0
    for name in args.readers or readers:
        began, count, seed, found = time.monotonic(), 0, args.seed, set[str]()
        while time.monotonic() - began < args.seconds:
            try:
                count += run(readers[name], 500, seed)
            except Exception as error:
                if repr(error)[:200] not in found:
                    print(f"{name}: {error!r:.500}\n{getattr(error, '__notes__', '')}", file=sys.stderr)
                found.add(repr(error)[:200])
            seed += 1
        total += len(found)
        print(f"| {name} | {count:,} | {time.monotonic() - began:.0f} | {len(found)} |", flush=True)
    return int(total > 0)


if __name__ == "__main__":
    sys.exit(main())
