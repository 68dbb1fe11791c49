"""`--sequence` of `evolve`: what is stored, said and refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

pytest.importorskip("torch")
Run = Callable[..., tuple[int, str, str]]
SMALL = (
    "--env", "GUESS", "--env", "maze", "--preset", "smoke", "--rounds", "0", "--sequence", "true", "--prompt", "none",
    "--expert_tasks", "2", "--valid_tasks", "1", "--test_tasks", "1", "--max_new_tokens", "4", "--threads", "1",
)  # fmt: skip


def test_a_sequence_is_said_and_resumes(agentgym: Run, small_model: str) -> None:
    """The plan before it, the matrix after it; run.yaml has it, and its rounds cannot be changed."""
    words = (
        "--model",
        small_model,
        "--replay_ratio",
        "0.5",
        "--trainer.ewc_lambda",
        "2",
        "--env_kwargs.maze.max_steps",
    )
    status, out, err = agentgym("evolve", *SMALL, *words, "2", "--out", "run")
    assert status == 0, err
    assert "A sequence: GuessForTests-v0, then maze, each with these rounds; 50 % of a training is replayed." in out
    assert "of them replayed from earlier worlds" in out and "after maze" in out and "success in" in out, out
    settings = yaml.safe_load(Path("run/run.yaml").read_text())
    assert settings["sequence"] is True and settings["replay_ratio"] == 0.5 and settings["trainer"]["ewc_lambda"] == 2
    result = json.loads(Path("run/test.json").read_text())
    assert set(result["rounds"]) == {"0", "1"} and len(result["sequence"]["success"]) == 2
    status, _, err = agentgym("evolve", "--resume", "run", "--rounds", "2")
    assert status == 2 and "is a sequence of worlds, which keeps its number of rounds" in err
    assert "with --model run/rounds/01/checkpoint to continue its last agent" in err
    for name in ("run/test.json", "run/rounds/01/metrics.json", "run/rounds/01/training.json"):
        Path(name).unlink()
    status, out, err = agentgym("evolve", "--resume", "run")
    assert status == 0 and "Resuming within round 1." in out, err
    again = json.loads(Path("run/test.json").read_text())
    assert {**again, "seconds": 0} == {**result, "seconds": 0}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--sequence true", "--sequence needs several worlds, each once, got maze"),
        ("--env shop --sequence true --restart base", "--restart must be previous in a sequence"),
        ("--env shop --sequence true --patience 2", "--patience must be 0 in a sequence"),
        ("--env shop --sequence true --replay_ratio 1", "--replay_ratio must be at least 0 and below 1, got 1"),
        ("--replay_ratio 0.3", "--replay_ratio needs --sequence"),
        ("--trainer.ewc_lambda 1", "--trainer.ewc_lambda needs --sequence"),
        ("--env shop --sequence true --trainer dpo --replay_ratio 0.3", "DPO compares the attempts at a task"),
        ("--env shop --sequence true --trainer grpo --replay_ratio 0.3", "GRPO learns from its own episodes"),
        ("--env shop --sequence true --trainer grpo --trainer.ewc_lambda 1", "no such option"),
    ],
)
def test_a_wrong_sequence_is_refused(agentgym: Run, words: str, message: str) -> None:
    """In one line, before anything is loaded."""
    status, _, err = agentgym("evolve", "--env", "maze", *words.split())
    assert status == 2 and message in err and err.count("\n") == 1, err


def test_train_needs_an_anchor(agentgym: Run) -> None:
    """EWC has nothing to hold on to without one."""
    Path("d.jsonl").write_text("")
    status, _, err = agentgym("train", "--data", "d.jsonl", "--trainer.ewc_lambda", "1", "--out", "x")
    assert status == 2 and "--trainer.ewc_lambda needs --trainer.ewc_anchor FILE" in err


def test_a_pipeline_checks_a_sequence(agentgym: Run) -> None:
    """With its settings in a stage."""
    for ratio, status in ((1.5, 2), (0.3, 0)):
        stage = {"stage": "rl", "env": ["maze", "shop"], "sequence": True, "replay_ratio": ratio,
                 "trainer": {"name": "filtered_bc", "ewc_lambda": 10}}  # fmt: skip
        Path("file.yaml").write_text(yaml.safe_dump({"out": "p", "stages": [stage]}))
        code, out, err = agentgym("pipeline", "file.yaml", "--list")
        assert code == status and ("replay_ratio must be at least 0 and below 1" in err) == bool(status), (out, err)


def test_a_trainer_without_ewc_is_said_to_have_none(agentgym: Run) -> None:
    """A stranger's settings are listed; no other command is recommended, because it would not help."""
    for name, fields, has in (
        ("rated", "    rate: float = 0.1\n", ", which has --trainer.rate"),
        ("plain", "", ", which has no settings"),
    ):
        text = "from dataclasses import dataclass\n\n@dataclass(frozen=True)\nclass Noop:\n"
        Path(f"{name}.py").write_text(f"{text}{fields}    def train(self, policy, trajectories, **_): ...\n")
        argv = ("--trainer", f"{name}.py", "--sequence", "true", "--env", "shop", "--trainer.ewc_lambda", "1")
        status, _, err = agentgym("evolve", "--env", "maze", *argv)
        assert (status, err) == (2, f"agentgym: --trainer.ewc_lambda: no such option of this trainer{has}\n")
