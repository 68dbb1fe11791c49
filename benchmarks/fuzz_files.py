"""Readers of files for `benchmarks/fuzz.py`: trajectories, evaluations, and what lies in folders beside them."""

from __future__ import annotations

import gzip
import io
import json
import tempfile
import zipfile
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_reader import Reader, as_text, flipped, in_file
from fuzz_samples import (
    CHATS,
    FORKED,
    INSPECT,
    LM_EVAL,
    PIPELINE,
    VERDICTS,
    damaged,
    raw,
    texts,
)
from hypothesis import strategies as st

from agentgym_envs.household.games import read_game
from agentgym_py.agents import ExpertAgent
from agentgym_py.cli.pipeline_file import read_file, read_stages
from agentgym_py.cli.values import load_yaml
from agentgym_py.env import EnvSpec
from agentgym_py.errors import AgentGymError
from agentgym_py.evaluation import foreign
from agentgym_py.evaluation.folder import SAME_EPISODES, differences, make_manifest, read_manifest
from agentgym_py.evolution.fork import fork_lines
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.feedback import store as feedback
from agentgym_py.feedback import verdicts
from agentgym_py.feedback.types import (
    ComparisonFeedback,
    CorrectionFeedback,
    EpisodeRef,
    Feedback,
    NoFeedback,
    ScoreFeedback,
)
from agentgym_py.files import parse_yaml
from agentgym_py.policy.loading import adapter_base
from agentgym_py.retrieval import ToolIndex
from agentgym_py.rewards.judge_client import read_pairs
from agentgym_py.rewards.process_reward_model import DIMENSIONS
from agentgym_py.training.checkpoints import Checkpoints
from agentgym_py.training.rl.constraints import ConstraintSettings, Multipliers
from agentgym_py.trajectory import Trajectory, store
from agentgym_py.trajectory.formats import agenttraj, atif, parquet
from agentgym_py.trajectory.reading import read_any, verify_any
from agentgym_py.viewer.index import Index
from agentgym_py.viewer.source import Source

ROOT = Path(__file__).parents[1]


def trajectory_readers(episode: Trajectory) -> dict[str, Reader]:
    """Readers of trajectories and evaluations."""
    line, row, document = json.loads(store.to_line(episode)), agenttraj.to_row(episode), atif.to_row(episode)
    foreign_document = json.loads((ROOT / "tests" / "fixtures" / "atif" / "example.json").read_text(encoding="utf-8"))
    manifest = make_manifest(ExpertAgent(), [EnvSpec("maze")], "test", [0, 1], 1, "full", 0)
    manifest = json.loads(json.dumps(manifest | {"options": {"env": ["maze"]}}))
    table, dataset = _tables(episode)
    index = _index_of(episode)
    return {
        "store line": Reader(raw | damaged(line), lambda data: store.to_line(store.from_line(data))),
        "store file": Reader(raw | damaged(line), in_file("a.jsonl", lambda path: list(read_any(path)))),
        "verify": Reader(raw | damaged(line) | damaged(row), in_file("v.jsonl", verify_any)),
        "AgentTraj": Reader(raw | damaged(row) | damaged([row]), in_file("a.json", lambda path: list(read_any(path)))),
        "ATIF": Reader(
            damaged(document) | damaged(foreign_document), in_file("b.json", lambda path: list(read_any(path, "atif")))
        ),
        "chats": Reader(
            st.sampled_from(CHATS).flatmap(damaged), in_file("c.json", lambda path: list(read_any(path)))
        ),
        "parquet": flipped(table, in_file("a.parquet", lambda path: list(read_any(path)))),
        "saved dataset": flipped(
            dataset["data-00000-of-00001.arrow"],
            in_file("data-00000-of-00001.arrow", lambda path: list(read_any(path.parent)), dataset),
        ),
        "viewer's index": flipped(index, in_file(".view.sqlite", _show, {"a.jsonl": store.to_line(episode)})),
        "manifest": Reader(raw | damaged(manifest), in_file("manifest.json", _manifest)),
        "Inspect's log": Reader(
            st.sampled_from(list(INSPECT)).flatmap(
                lambda name: damaged(INSPECT[name]).map(lambda data: _zip({name: data}))
            ),
            in_file("a.eval", foreign.load),
        ),
        "Inspect's archive": flipped(_zip({}), in_file("a.eval", foreign.load)),
        "lm-eval's samples": Reader(raw | damaged(LM_EVAL), in_file("samples_x.jsonl", foreign.load)),
        "YAML": Reader(texts | damaged(manifest).map(as_text), lambda text: (parse_yaml(text), load_yaml(text)),
                       (ValueError,)),
    }  # fmt: skip


def folder_readers(episode: Trajectory) -> dict[str, Reader]:
    """Readers of feedback, indexes, adapters, judges and states."""
    header, lines = _feedback_of(episode)
    index, game = _tool_index(), _game()
    state = {"format": 2, "training": "x", "split": "", "files": {"text": "ca978112ca1bbdcafac231b39a23dc4d"}}
    multipliers = Multipliers(ConstraintSettings(constraint="deletions<=0.1"))

    def read_feedback(path: Path) -> None:
        feedback.read_feedback(path)
        feedback.FeedbackFile(path, header)

    def reward_model(path: Path) -> None:
        from agentgym_py.rewards.reward_model import RewardModel  # it needs torch

        RewardModel.load(path.parent)

    def process_reward_model(path: Path) -> None:
        from agentgym_py.rewards.process_reward_model import ProcessRewardModel  # it needs torch

        ProcessRewardModel.load(path.parent)

    return {
        "run's settings": Reader(
            raw | damaged({"rounds": 2, "env": ["maze"], "trainer": {"name": "dpo"}}),
            in_file("run.yaml", lambda path: RunFolder(path.parent).config()),
        ),
        "forked run": Reader(
            raw | damaged(FORKED), in_file("provenance.json", lambda path: fork_lines(RunFolder(path.parent)))
        ),
        "household's game": Reader(
            damaged(game) | texts.map(lambda text: json.dumps({**game, "pddl_problem": text}).encode()),
            in_file("a.tw-pddl", read_game),
        ),
        "process reward model": Reader(
            damaged({"dimensions": list(DIMENSIONS), "weights": dict.fromkeys(DIMENSIONS, 1.0)}),
            in_file("process_reward.json", process_reward_model),
        ),
        "feedback": Reader(
            st.integers(0, len(lines) - 1).flatmap(
                lambda at: damaged(lines[at]).map(
                    lambda data: b"\n".join([*(json.dumps(line).encode() for line in lines[:at]), data, b""])
                )
            ),
            in_file("f.jsonl", read_feedback),
        ),
        "verdicts": Reader(
            st.sampled_from(VERDICTS).flatmap(damaged),
            in_file(verdicts.FILE, lambda path: (verdicts.read(path.parent), verdicts.judged(path.parent)),
                     {"a.jsonl": store.to_line(episode)}),
        ),
        "answers": Reader(
            raw | damaged({"key": "a", "answer": "b"}), in_file("a.jsonl", lambda path: read_pairs(path, "answer"))
        ),
        "tools' index": Reader(
            damaged(json.loads(index["index.json"])), in_file("index.json", _search, index)
        ),
        "tools' vectors": flipped(index["tools.npy"], in_file("tools.npy", _search, index)),
        "adapters": Reader(
            damaged({"base_model_name_or_path": "x", "peft_type": "LORA"}),
            in_file("adapter_config.json", lambda path: adapter_base(str(path.parent))),
        ),
        "adapters' base": Reader(
            damaged({"name": "x", "format": "float32", "digest": "0"}),
            in_file("base.json", lambda path: adapter_base(str(path.parent)), {"adapter_config.json": b"{}"}),
        ),
        "reward model": Reader(
            damaged({"heads": {"success": 1.0}, "aggregate": "mean", "std_weight": 1.0, "members": []}),
            in_file("reward_model.json", reward_model),
        ),
        "multipliers": Reader(
            damaged({"deletions": {"value": 1.0, "integral": 0.5, "last_cost": 0.1}}),
            in_file("multipliers.json", lambda path: multipliers.load(path.parent)),
        ),
        "training's state": Reader(
            raw | damaged(state),
            in_file("state-000001/state.json", lambda path: Checkpoints(path.parents[1], "x", 0.0).latest(),
                     {"state-000001/text": b"a"}),
        ),
        "pipeline": Reader(
            damaged(PIPELINE),
            in_file("p.yaml", lambda path: read_stages(read_file(str(path)), str(path))),
        ),
    }  # fmt: skip


# ---- samples, and what is done with them -----------------------------------------------------------------------------


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


def _game() -> dict[str, str]:
    """Return what is read of a game of ALFWorld."""
    with gzip.open(ROOT / "tests" / "envs" / "household" / "recorded" / "games.json.gz", "rt") as file:
        game = next(json.loads(text) for name, text in json.load(file).items() if name.endswith(".tw-pddl"))
    return {key: game[key] for key in ("pddl_problem", "grammar")}


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
