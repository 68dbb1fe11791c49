from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from agentgym_py.cli import main
from agentgym_py.errors import RunError
from agentgym_py.feedback.verdicts import Ref, rate
from agentgym_py.files import JsonFolder, claimed
from agentgym_py.trajectory import store

SOURCE = ["collect", "--env", "GUESS", "--tasks", "4", "--out", "d.jsonl", "--quiet"]
INDEX = ["tools", "index", "--env", "tools", "--tasks", "2", "--measure_tasks", "0", "--epochs", "1", "--threads", "1"]
COMMANDS: dict[str, tuple[list[str], str]] = {
    "collect": (["collect", "--env", "GUESS", "--tasks", "4", "--out", "made"], "cli.collect.jobs_for"),
    "convert": (["data", "convert", "d.jsonl", "made", "--to", "store"], "cli.data.read_trajectories"),
    "convert to rows": (["data", "convert", "d.jsonl", "made", "--to", "trl"], "cli.data.read_trajectories"),
    "salvage": (["data", "salvage", "d.jsonl", "made"], "trajectory.store.salvage"),
    "train": (["train", "--model", "MODEL", "--data", "d.jsonl", "--out", "made", "--trainer.epochs", "1"],
              "cli.train.select_training_data"),
    "export": (["export", "MODEL", "--out", "made"], "report.export._open_policy"),
    "view": (["view", "d.jsonl", "--export", "made"], "viewer.show.export_page"),
    "judged": (["view", "d.jsonl", "--judged", "made"], "trajectory.store.write"),
    "eval": (["eval", "--env", "GUESS", "--agent", "expert", "--tasks", "4", "--out", "made"], "cli.eval._result"),
    "attack": (["attack", "--env", "GUESS", "--tasks", "2", "--generations", "1", "--reward", "agent", "--out", "made"],
               "rewards.adversary.attack"),
    "index": ([*INDEX, "--out", "made"], "cli.tools._read"),
    "judge": (["judge", "--data", "d.jsonl", "--source", "environment", "--out", "made"], "cli.judge._judge"),
}  # fmt: skip
"""Commands that write `made`, and a function that each calls at work."""


@pytest.mark.parametrize("kind", COMMANDS)
def test_of_two_commands_with_one_output_the_second_is_refused(
    kind: str, agentgym: Any, small_model: str, guess_world: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that starts while another makes the same output ends with one line; the first finishes."""
    assert agentgym(*SOURCE[:-1])[0] == 0
    if kind == "judged":
        rate(Path(), Ref("d.jsonl", next(iter(store.read("d.jsonl"))).id), 1)
    words, place = COMMANDS[kind]
    argv = [word.replace("MODEL", small_model).replace("GUESS", guess_world) for word in words]
    module = import_module(f"agentgym_py.{place.rpartition('.')[0]}")
    name, second = place.rpartition(".")[2], list[int]()
    call = getattr(module, name)

    def at_work(*args: Any, **kwargs: Any) -> Any:
        if not second:
            second.append(-1)
            second[0] = main(argv)
        return call(*args, **kwargs)

    monkeypatch.setattr(module, name, at_work)
    status, _, err = agentgym(*argv)
    assert (status, second) == (0, [2]) and "made is in use: another process" in err
    assert kind == "judge" or agentgym(*argv)[0] == 2  # and it is not overwritten later; `judge` finds all judged
    assert not list(Path().glob(".made*"))


def test_a_pipeline_in_use_is_refused(agentgym: Any, guess_world: str) -> None:
    """Its folder has one process at a time."""
    stages = "[{stage: collect, agent: expert, tasks: 2}]"
    Path("p.yaml").write_text(f"{{out: made, defaults: {{env: {guess_world}}}, stages: {stages}}}")
    Path("made").mkdir()
    with JsonFolder(Path("made")).locked():
        status, _, err = agentgym("pipeline", "p.yaml")
    assert status == 2 and err.count("\n") == 1 and "made is in use" in err
    assert agentgym("pipeline", "p.yaml")[0] == 0


LOCKS = [claimed, lambda path: JsonFolder(path).locked()]


@pytest.mark.parametrize("first", LOCKS)
@pytest.mark.parametrize("second", LOCKS)
def test_whoever_writes_it_excludes_all_others(first: Any, second: Any, tmp_path: Path) -> None:
    """`evolve`, `eval` and `pipeline` lock a folder, all others claim a name: of any two the second is refused."""
    made = tmp_path / "made"
    made.mkdir()
    with first(made), pytest.raises(RunError, match="made is in use"), second(made):
        pass
    with second(made):
        pass


def test_a_claim_outlives_no_process(tmp_path: Path) -> None:
    """The claim of a killed process is taken over; one that was removed meanwhile is not held."""
    target = tmp_path / "made"
    code = (
        "import os, sys; from pathlib import Path; from agentgym_py.files import claimed\n"
        "with claimed(Path(sys.argv[1])): os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(target)], check=False).returncode == 9
    assert (tmp_path / ".made.lock").exists()
    with claimed(target), pytest.raises(RunError, match="made is in use"), claimed(target):
        pass
    assert not list(tmp_path.iterdir())
    with claimed(target):  # a process that opened the file of an earlier claim would hold nothing
        (tmp_path / ".made.lock").unlink()
        with claimed(target):
            pass
