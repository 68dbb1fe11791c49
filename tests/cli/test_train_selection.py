"""What `agentgym train` learns from: what the AgentEvol rounds of its trainer would select."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentgym_py import registry
from agentgym_py.cli import build_parser
from agentgym_py.cli.values import nest_options
from agentgym_py.training.trainer import info_of

pytest.importorskip("trl")
Run = Callable[..., tuple[int, str, str]]
GROUP: registry.Group = "agentgym.trainers"
OF_FILES = [name for name in registry.names(GROUP) if not hasattr(registry.load(GROUP, name), "improve")]


def row(task: int, reply: str, reward: float, success: bool) -> dict[str, Any]:
    """A row in AgentTraj's form."""
    turns = [{"from": "human", "value": "Guess."}, {"from": "gpt", "value": f"Action: guess[{reply}]"}]
    return {"item_id": f"guess_{task}", "conversations": turns, "reward": reward, "success": success}


ROWS = [
    row(0, "1", 1.0, True), row(0, "1", 1.0, True), row(1, "2", 1.0, True), row(1, "3", 1.0, False),
    row(1, "4", 0.7, False), row(2, "5", 0.0, False),
]  # fmt: skip
"""Two successes and one more that is a duplicate, and failures, one of which has the whole reward."""


@pytest.mark.parametrize("trainer", OF_FILES)
def test_train_selects_what_evolve_selects(trainer: str) -> None:
    """By default; a trainer that makes a judge, which evolve does not run, gets every episode."""
    argv = ["--trainer.name", trainer]
    train, evolve = (nest_options(build_parser(command, argv).parse(argv))["select"] for command in ("train", "evolve"))
    if info_of(registry.load(GROUP, trainer)).output == "policy":
        assert train == evolve
    else:
        assert not train["success_only"] and train["threshold"] == float("-inf") and not train["dedupe"]


@pytest.mark.parametrize("trainer", OF_FILES)
def test_it_says_what_it_left_out(agentgym: Run, small_model: str, trainer: str) -> None:
    """Imitation learns from distinct successes, contrasts from failures too; train.json holds it."""
    Path("rows.json").write_text(json.dumps(ROWS))
    labels = ("--trainer.labels", "outcome") if trainer == "process_reward" else ()
    words = ("train", "--trainer", trainer, "--data", "rows.json", "--model", small_model, "--threads", "1", *labels)
    status, out, err = agentgym(*words, "--trainer.epochs", "1", "--out", "x")
    assert status == 0, err
    held = json.loads(Path("x/train.json").read_text())
    failures_too = not held["settings"]["select"]["success_only"]
    kept = 6 if info_of(registry.load(GROUP, trainer)).output != "policy" else 5 if failures_too else 2
    assert held["selection"]["kept"] == kept
    measured = held["training"]["metrics"].keys() & {"logprob_before", "logprob_trained", "logprob_saved"}
    assert len(measured) == (3 if info_of(registry.load(GROUP, trainer)).output == "policy" else 0)
    if trainer == "filtered_bc":
        assert held["selection"]["dropped"] == {"below reward 1": 2, "without success": 1, "duplicates": 1}
        assert held["training"]["trajectories"] == 2
    assert ("kept" in out and "(--select)" in out) == (kept < 6), out
    assert (" trajectories, 1 pair, loss " in out) == (trainer in ("dpo", "orpo", "trl_dpo")), out


def test_the_selection_can_be_set(agentgym: Run, small_model: str) -> None:
    """On the command line and in a file; one that leaves nothing is refused before a model is loaded."""
    Path("rows.json").write_text(json.dumps(ROWS))
    words = ("train", "--data", "rows.json", "--model", small_model, "--threads", "1", "--trainer.epochs", "1")
    assert agentgym(*words, "--select.success_only", "false", "--select.threshold", "0.5", "--out", "a")[0] == 0
    assert json.loads(Path("a/train.json").read_text())["training"]["trajectories"] == 4
    for number, every in enumerate((["--select.threshold", "-inf"], ["--select.threshold=-inf"])):
        assert agentgym(*words, "--select.success_only", "false", *every, "--out", f"all{number}")[0] == 0
        assert json.loads(Path(f"all{number}/train.json").read_text())["selection"]["kept"] == 5
    Path("c.yaml").write_text("select: {per_task: 1}")
    assert agentgym(*words, "--config", "c.yaml", "--out", "b")[0] == 0
    status, _, err = agentgym(*words, "--select.threshold", "2", "--out", "c")
    assert status == 2 and "kept 0 of 6; dropped: 6 below reward 2" in err and "the best return is 1" in err
    assert "--select.success_only false" in err and err.count("\n") == 1 and not any(Path("c").glob("*"))
    status, _, err = agentgym(*words, "--select.top_ratio", "2", "--out", "c")
    assert status == 2 and "--select.top_ratio must be in (0, 1]" in err
