"""`--coreset` of `evolve` and `train`: what is stored, said and refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentgym_py.training import checkpoints
from agentgym_py.trajectory import store

pytest.importorskip("torch")
Run = Callable[..., tuple[int, str, str]]
SMALL = (
    "--env", "maze", "--preset", "smoke", "--max_new_tokens", "4", "--expert_tasks", "2", "--explore_tasks", "4",
    "--valid_tasks", "1", "--test_tasks", "0", "--env_kwargs.max_steps", "3", "--threads", "1",
)  # fmt: skip
CORESET = '''
from dataclasses import dataclass

from agentgym_py.training.coreset import Coreset

@dataclass(frozen=True, slots=True)
class Shortest(Coreset):
    """The shortest trajectories."""

    skip: int = 0
    """Trajectories left out before."""

    def rank(self, candidates, rng):
        return sorted(range(len(candidates)), key=lambda i: candidates[i].tokens)[self.skip :]
'''


def lines(path: str) -> list[dict[str, Any]]:
    """The rows of a coreset's file."""
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_a_run_has_a_coreset_of_its_own_and_resumes_with_it(
    agentgym: Run, small_model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Round 0 learns from all demonstrations, the next from the coreset; run.yaml has it, and the terminal says it.

    A run that is killed between the choice and the training ends with the same weights.
    """
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "shortest_for_tests.py").write_text(CORESET)
    words = ("--coreset", "shortest_for_tests.py", "--coreset.skip", "1", "--coreset.unit", "samples",
             "--coreset.ratio", "0.5", "--rounds", "1")  # fmt: skip
    status, out, err = agentgym("evolve", *SMALL, "--model", small_model, "--out", "run", *words)
    assert status == 0, err
    assert "coreset: 2 of 4 trajectories with" in out and "left out: 2 outside the coreset" in out, out
    source = str(Path("shortest_for_tests.py").absolute())
    assert yaml.safe_load(Path("run/run.yaml").read_text())["coreset"] == {
        "ratio": 0.5, "unit": "samples", "name": source, "skip": 1,
    }  # fmt: skip
    rows = lines("run/rounds/01/coreset.jsonl")
    explored = [t.id for t in store.read("run/rounds/01/trajectories.jsonl")]
    assert sorted(row["id"] for row in rows) == sorted(explored) and not Path("run/rounds/00/coreset.jsonl").exists()
    assert [row["chosen"] for row in rows] == [True, True, False, False]
    assert rows[3]["tokens"] <= rows[0]["tokens"] <= rows[1]["tokens"] <= rows[2]["tokens"]
    training = json.loads(Path("run/rounds/01/metrics.json").read_text())["training"]
    assert training["trajectories"] == 2 and training["metrics"]["coreset/samples"] == 2
    weights = json.loads(Path("run/rounds/01/metrics.json").read_text())["policy_digest"]
    for name in ("test.json", "rounds/01/metrics.json", "rounds/01/training.json"):
        Path("run", name).unlink()
    status, _, err = agentgym("evolve", "--resume", "run")
    assert status == 2 and f"--trust {source}" in err
    status, _, err = agentgym("evolve", "--resume", "run", "--trust", source)
    assert status == 0, err
    assert json.loads(Path("run/rounds/01/metrics.json").read_text())["policy_digest"] == weights


def test_train_takes_a_coreset_and_resumes_it(agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted training resumes from its state with the same coreset, bit-identically."""
    assert agentgym("collect", "--env", "GUESS", "--agent", "expert", "--tasks", "6", "--out", "d.jsonl")[0] == 0
    words = ("train", "--data", "d.jsonl", "--model", small_model, "--threads", "1", "--coreset", "loss_topk",
             "--trainer.checkpoint_minutes", "0", "--trainer.batch_size", "1", "--coreset.ratio", "0.7")  # fmt: skip
    status, out, err = agentgym(*words, "--out", "whole")
    assert status == 0 and "of 6 trajectories with" in out and "whole/coreset.jsonl has each of them" in out, err
    held = json.loads(Path("whole/train.json").read_text())
    assert held["settings"]["coreset"] == {"name": "loss_topk", "ratio": 0.7, "unit": "tokens", "per": "token"}
    assert held["selection"]["kept"] == 6 > held["training"]["trajectories"]
    save, saved = checkpoints.Checkpoints.save, list[int]()

    def stop(self: Any, write: Any) -> None:
        save(self, write)
        saved.append(1)
        if len(saved) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints.Checkpoints, "save", stop)
    assert agentgym(*words, "--out", "half")[0] == 130 and Path("half/coreset.jsonl").is_file()
    monkeypatch.setattr(checkpoints.Checkpoints, "save", save)
    status, out, err = agentgym(*words, "--out", "half")
    assert status == 0 and "Resuming from the saved state" in out, err
    assert json.loads(Path("half/train.json").read_text())["policy_digest"] == held["policy_digest"]
    assert Path("half/coreset.jsonl").read_text() == Path("whole/coreset.jsonl").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--coreset los_topk", "No coreset 'los_topk' is installed. Did you mean 'loss_topk'"),
        ("--coreset random --coreset.ratio 2", "--coreset.ratio must be above 0 and at most 1, got 2"),
        ("--coreset random --coreset.rato 0.5", "no such option; did you mean --coreset.ratio?"),
        ("--coreset.ratio 0.5", "--coreset.ratio needs --coreset NAME"),
        ("--coreset random --trainer grpo", "--coreset needs an offline trainer of single trajectories; GRPO learns"),
        ("--coreset random --trainer dpo", "DPO compares the attempts at a task"),
        ("--trainer weighted_bc --trainer.step_kind by_action --trainer.kind_weights.planning -1", "kind_weights must"),
    ],
)
def test_a_wrong_coreset_is_refused(agentgym: Run, words: str, message: str) -> None:
    """In one line, before anything is loaded."""
    status, _, err = agentgym("evolve", "--env", "maze", *words.split())
    assert status == 2 and message in err and err.count("\n") == 1, err


def test_a_pipeline_checks_a_coreset(agentgym: Run) -> None:
    """With its settings, in stages of both commands."""
    for stage in ({"stage": "rl", "env": "maze"}, {"stage": "sft", "data": "d.jsonl"}):
        Path("d.jsonl").write_text("")
        for ratio, status in ((2, 2), (0.5, 0)):
            stages = [{**stage, "coreset": {"name": "hybrid", "ratio": ratio}}]
            Path("file.yaml").write_text(yaml.safe_dump({"out": "p", "stages": stages}))
            code, out, err = agentgym("pipeline", "file.yaml", "--list")
            assert code == status and ("coreset.ratio must be above 0" in err) == bool(status), (out, err)
