"""`agentgym evolve --resume RUN --rounds N`: a run gets more rounds than it was started with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from agentgym_py.env import EnvSpec
from agentgym_py.evolution import Evolution
from agentgym_py.evolution.run_folder import RunFolder

pytest.importorskip("trl")
Run = Callable[..., tuple[int, str, str]]
SMALL = (
    "--env", "GUESS", "--preset", "smoke", "--max_new_tokens", "8", "--expert_tasks", "8", "--explore_tasks", "4",
    "--valid_tasks", "3", "--test_tasks", "3", "--env_kwargs.max_steps", "3", "--threads", "1",
)  # fmt: skip


def episodes(folder: str) -> dict[str, bytes]:
    """Trajectories, evaluations and weights of a run's rounds, by file; not the tests of rounds that were once last."""
    kept = (*Path(folder).glob("rounds/*/*.jsonl"), *Path(folder).glob("rounds/*/checkpoint/model.safetensors"))
    return {str(each.relative_to(folder)): each.read_bytes() for each in kept}


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param((), marks=pytest.mark.slow),
        ("--explore_order", "hard", "--merge", "all", "--restart", "base"),
    ],
)
def test_a_finished_run_takes_more_rounds(agentgym: Run, small_model: str, settings: tuple[str, ...]) -> None:
    """It keeps what it has, and is bit-identical to one that was started with that many, but for one more test."""
    words = ("evolve", *SMALL, *settings, "--model", small_model)
    assert agentgym(*words, "--rounds", "3", "--out", "whole")[0] == 0
    assert agentgym(*words, "--rounds", "1", "--out", "run")[0] == 0
    before, test = episodes("run"), json.loads(Path("run/test.json").read_text())
    status, out, err = agentgym("evolve", "--resume", "run", "--rounds", "3")
    assert status == 0, err
    assert "already finished" not in out and "then 3 rounds" in out
    after, whole = episodes("run"), episodes("whole")
    assert before.items() <= after.items(), "what was there has changed"
    assert whole.items() <= after.items() and set(after) - set(whole) <= {"rounds/01/test.jsonl"}
    now, other = (json.loads(Path(each, "test.json").read_text()) for each in ("run", "whole"))
    assert (now["last"], now["best"]) == (other["last"], other["best"]) == (3, now["best"])
    assert now["rounds"].items() >= {**other["rounds"], **test["rounds"]}.items()
    assert yaml.safe_load(Path("run/run.yaml").read_text())["rounds"] == 3
    page = Path("run/report.html").read_text(encoding="utf-8")
    assert all(f"(round {number})" in page for number in {0, 1, 3, now["best"]})
    assert "already finished" in agentgym("evolve", "--resume", "run", "--rounds", "3")[1]


def test_a_run_that_is_not_over_takes_more_and_fewer(
    agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But no fewer than have begun, which is said in words and leaves the run as it is."""
    round_, words = Evolution._round, ("evolve", *SMALL, "--model", small_model)

    def stops(self: Evolution, number: int) -> None:
        if number == 2:
            self.folder.begin_round(number).joinpath("valid.jsonl.part").write_text("")
            raise KeyboardInterrupt
        round_(self, number)

    with monkeypatch.context() as patch:
        patch.setattr(Evolution, "_round", stops)
        assert agentgym(*words, "--rounds", "3", "--out", "run")[0] == 130
    for number, said in ((1, "its round 2 has begun; --rounds must be 2 or more"), (-1, "its round 2 has begun")):
        status, _, err = agentgym("evolve", "--resume", "run", f"--rounds={number}")
        assert status == 2 and f"run cannot have {number} rounds: {said}" in err and err.count("\n") == 1
    assert yaml.safe_load(Path("run/run.yaml").read_text())["rounds"] == 3
    assert agentgym("evolve", "--resume", "run", "--rounds", "2")[0] == 0
    assert json.loads(Path("run/test.json").read_text())["last"] == 2
    status, _, err = agentgym("evolve", "--resume", "run", "--rounds", "1")
    assert status == 2 and "its round 2 is over; --rounds must be 2 or more" in err
    assert RunFolder.open(Path("run")).finished, "what is refused changes nothing"


def test_what_cannot_have_more_rounds_is_said(agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that lost its patience, and a world without that many tasks; the run stays as it is."""
    words = ("evolve", *SMALL, "--model", small_model, "--patience", "1", "--rounds", "9", "--out", "run")
    assert agentgym(*words)[0] == 0
    last = json.loads(Path("run/test.json").read_text())["last"]
    assert last < 9, "the model is too good for this test"
    status, _, err = agentgym("evolve", "--resume", "run", "--rounds", "12")
    assert status == 2 and f"run stopped after round {last} because no later round was better (patience 1)" in err
    first = ("evolve", *SMALL, "--model", small_model, "--rounds", "0", "--out", "first")
    assert agentgym(*first)[0] == 0
    monkeypatch.setattr(EnvSpec, "count", lambda self, split, most: 30)
    status, _, err = agentgym("evolve", "--resume", "first", "--rounds", "12")
    assert status == 2 and "--expert_tasks 8 + --rounds 12 * --explore_tasks 4 asks for 56 train tasks" in err
    assert RunFolder.open(Path("first")).finished


def test_its_tracking_goes_on(agentgym: Run, small_model: str) -> None:
    """Although its settings are others now; the new test is logged."""
    pytest.importorskip("tensorboard")
    words = ("evolve", *SMALL, "--model", small_model, "--rounds", "0", "--track", "tensorboard", "--out", "run")
    assert agentgym(*words)[0] == 0
    status, _, err = agentgym("evolve", "--resume", "run", "--rounds", "1")
    assert status == 0, err
    held = json.loads(Path("run/tracking/state.json").read_text())
    assert held["round"] == 1 and held["test"] is True
