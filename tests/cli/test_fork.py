"""`agentgym fork`, and `compare` of a fork and its original, with a model of a few thousand weights."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import agentgym_py as ag
from agentgym_py.agents import ExpertAgent
from agentgym_py.collection import Job, PlayConfig
from agentgym_py.collection.episode import failed_trajectory
from agentgym_py.env import EnvSpec
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.trajectory import store

pytest.importorskip("accelerate")
Run = Callable[..., tuple[int, str, str]]
SMALL = (
    "--env", "GUESS", "--preset", "smoke", "--max_new_tokens", "8", "--expert_tasks", "8", "--explore_tasks", "4",
    "--valid_tasks", "3", "--test_tasks", "3", "--env_kwargs.max_steps", "3", "--threads", "1", "--rounds", "2",
)  # fmt: skip


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the run is kept for the other tests."""
    return tmp_path_factory.mktemp("runs") / "run"


@pytest.fixture
def run(agentgym: Run, small_model: str, original: Path) -> RunFolder:
    """A copy of a finished run of two rounds, in the folder `run`."""
    if not original.exists():
        assert agentgym("evolve", *SMALL, "--model", small_model, "--out", "run")[0] == 0
        shutil.move("run", original)
    return RunFolder.open(Path(shutil.copytree(original, "run")))


def contents(folder: RunFolder) -> dict[str, Any]:
    """Return what a run came to, by file, without times."""
    files: dict[str, Any] = {}
    for path in sorted(folder.path.glob("rounds/**/*")):
        if path.is_file():
            files[str(path.relative_to(folder.path))] = path.read_bytes()
    for name in ("test.json", *(name for name in files if name.endswith(("metrics.json", "training.json")))):
        files[name] = without_times(folder.read_json(name))
    return files


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if "seconds" not in key}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def test_a_fork_without_changes_ends_as_the_run(agentgym: Run, run: RunFolder) -> None:
    """All files are byte-equal but for times, after each round that is shared; the default folder is RUN-fork."""
    for after in (0, 1):
        status, out, err = agentgym("fork", f"run@{after}")
        assert status == 0, err
        folder = RunFolder.open(Path("run-fork" if after == 0 else "run-fork-2"))
        assert contents(folder) == contents(run) and folder.config() == run.config()
        assert f"A fork of run after round {after} with no change." in out.replace(f"{Path.cwd()}/", "")
    status, out, _ = agentgym("compare", "run-fork", "run")
    assert status == 0 and "| +0.0 [" in out and "round, valid tasks" not in out
    assert re.search(r"\| run \| Agent_v\d of filtered_bc, greedy", out)
    assert "| Agent_v0, greedy" in agentgym("compare", "run@0", "run")[1]


def test_a_fork_changes_what_comes_after(agentgym: Run, run: RunFolder) -> None:
    """The shared rounds are the run's; later ones have its tasks and random numbers, and another training."""
    before = contents(run)
    changes = ("--set", "trainer.learning_rate=0.03", "--set", "horizon=2,3", "--set", "trainer.epochs=4")
    status, out, err = agentgym("fork", "run@1", *changes, "--out", "forks/b")
    assert status == 0, err
    fork = RunFolder.open(Path("forks/b"))
    assert "agentgym compare forks/b run" in out and contents(run) == before
    after = contents(fork)
    shared = {name for name in before if name.startswith(("rounds/00", "rounds/01"))}
    assert {name: after[name] for name in shared} == {name: before[name] for name in shared}
    assert fork.metrics(2)["policy_digest"] != run.metrics(2)["policy_digest"]
    config = fork.config()
    assert (config["trainer"]["learning_rate"], config["trainer"]["epochs"], config["horizon"]) == (0.03, 4, [2, 3])
    explored = [list(store.read(folder.round(2) / "trajectories.jsonl")) for folder in (run, fork)]
    numbers = [[(t.task_id, t.provenance.seed, t.provenance.env_seed) for t in episodes] for episodes in explored]
    assert numbers[0] == numbers[1]
    page = (fork.path / "report.html").read_text(encoding="utf-8")
    assert "trainer.epochs 4 (was 1)" in page and "after round 1 with horizon [2, 3] (was [])" in page

    status, out, err = agentgym("compare", "forks/b", "run")
    assert status == 0, err
    assert "GuessForTests-v0, max_steps 3 (3 tasks); test split, brief prompt\n" in out and "| forks/b − run | " in out
    assert "forks/b: a fork of " in out and "trainer.learning_rate 0.03 (was " in out
    assert "\n| 2 | " in out and "\n| 1 | " not in out
    status, out, _ = agentgym("compare", "forks/b", "run", "--json")
    found = json.loads(out)
    assert status == 0 and list(found["rounds"]) == ["2"] and found["tasks"] == 3
    assert found["agents"][0]["fork"].startswith("A fork of ") and "fork" not in found["agents"][1]
    assert str(ag.compare(fork=fork.path, run=run.path)).count("| fork − run | ") == 1


def test_a_fork_is_forked_and_resumed(agentgym: Run, run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork that was interrupted in its round ends as one that was not, and can be forked itself."""
    from agentgym_py.evolution.episodes import RoundEpisodes

    changes = ("--set", "temperature=1.5")
    assert agentgym("fork", "run@0", *changes, "--out", "whole")[0] == 0

    def interrupted(self: RoundEpisodes, number: int) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RoundEpisodes, "explore", interrupted)
        status, _, err = agentgym("fork", "run@0", *changes, "--out", "cut")
    assert status == 130 and "agentgym evolve --resume cut" in err
    status, out, _ = agentgym("evolve", "--resume", "cut")
    assert status == 0 and "with temperature 1.5 (was 0.5)." in out and "Resuming after Agent_v0." in out
    assert contents(RunFolder.open(Path("cut"))) == contents(RunFolder.open(Path("whole")))
    status, out, err = agentgym("fork", "cut@2", "--set", "rounds=3", "--out", "again")
    assert status == 0, err
    assert "with rounds 3 (was 2), which is a fork of " in out
    status, out, err = agentgym("fork", "cut@2", "--set", "rounds=3", "--out", "again")
    assert status == 2 and "to resume it: agentgym evolve --resume again" in err


def test_a_lost_test_episode_leaves_runs_comparable(agentgym: Run, run: RunFolder) -> None:
    """It has no task's id and no version of its world, and is left out."""
    for name in ("one", "two"):
        shutil.copytree(run.path, name)
    path = Path("one/rounds/02/test.jsonl")
    first, *rest = store.read(path)
    lost = failed_trajectory(ExpertAgent(), PlayConfig(), Job(EnvSpec("maze"), 0, split="test"), "no answer")
    provenance = replace(first.provenance, task_id=lost.provenance.task_id, env_version=lost.provenance.env_version)
    store.write(path, [replace(lost, provenance=provenance), *rest])
    status, out, err = agentgym("compare", "one", "two")
    assert status == 0 and "1 tasks are left out of the differences" in out, err


def test_another_trainer_takes_the_place(agentgym: Run, run: RunFolder) -> None:
    """It has its own defaults, and what `evolve` would have set otherwise is said; what it ignores is an error."""
    changes = {"trainer": {"name": "dpo", "beta": 0.3}, "attempts": 2, "select": {"success_only": False}}
    assert ag.fork("run", 0, out="dpo", **changes)["last"] == 2
    config = RunFolder.open(Path("dpo")).config()
    assert config["trainer"]["name"] == "dpo" and config["trainer"]["beta"] == 0.3 and config["attempts"] == 2
    origin = json.loads(Path("dpo/provenance.json").read_text())["fork"]
    assert set(origin["changes"]) == {"trainer.name", "trainer.beta", "attempts"}
    status, _, err = agentgym("fork", "run@1", "--set", "trainer=grpo", "--out", "x")
    assert status == 2 and "cannot change between an offline and an on-policy one" in err
    assert "would have temperature=1.0; --set changes them" in err and not Path("x").exists()
    words = ("--set", "trainer=grpo", "--set", "merge=all", "--set", "restart=base", "--out", "x")
    status, _, err = agentgym("fork", "run@0", *words, "--set", "temperature=0", "--set", "forks=1")
    reasons = (
        "an on-policy trainer continues the last round's agent on new data: set merge=last and restart=previous. ",
        "forks needs an offline trainer; ", "temperature must be above 0 for an on-policy trainer, ",
    )  # fmt: skip
    assert status == 2 and all(reason in err for reason in reasons) and not Path("x").exists(), err
    status, _, err = agentgym("fork", "run@0", *words[:2], "--set", "explore_temperatures=0.5", "--out", "x")
    assert status == 2 and "explore_temperatures needs an offline trainer" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("run",), "run names no round to fork after: write RUN@2"),
        (("run@1", "--set", "seed=4"), "seed cannot be changed in a fork"),
        (("run@1", "--set", "attempts=4"), "fork run@0, or start a new run"),
        (("run@1", "--set", "trainer.epoch=4"), "did you mean --trainer.epochs?"),
        (("run@1", "--set", "trainer.epochs=many"), "--trainer.epochs: expected"),
        (("run@1", "--set", "epochs"), "--set takes NAME=VALUE"),
        (("run@2",), "rounds must be more than 2, the last shared round: set rounds=3"),
        (("run@1", "--out", "run"), "already holds a run"),
    ],
)
def test_mistakes_are_one_line(agentgym: Run, run: RunFolder, options: tuple[str, ...], message: str) -> None:
    """Nothing is written."""
    before = sorted(Path().iterdir())
    status, _, err = agentgym("fork", *options)
    assert status == 2 and message in err and err.count("\n") == 1
    assert sorted(Path().iterdir()) == before


def test_a_fork_needs_the_runs_inputs(agentgym: Run, run: RunFolder) -> None:
    """Other weights under the base's name would not be the run's."""
    stored = run.read_json("provenance.json")
    run.write_json("provenance.json", stored | {"base_policy": "other"})
    status, _, err = agentgym("fork", "run@1", "--out", "x")
    assert status == 2 and "run cannot be forked: its base_policy was other" in err and not Path("x").exists()


def test_a_run_is_compared_with_runs(agentgym: Run, run: RunFolder) -> None:
    """By the round that is named; an evaluation, an untested round and an unfinished run are errors."""
    status, out, _ = agentgym("compare", "run@0", "run@2")
    assert status == 0 and "| run@0 − run@2 |" in out
    assert agentgym("eval", "--env", "GUESS", "--agent", "random", "--tasks", "3", "--out", "e")[0] == 0
    for names, message in (
        (("run", "e"), "run is a run; evaluate its checkpoint by agentgym eval, or compare two runs"),
        (("run@9", "run"), "run@9: round 9 of run was not tested; tested were the rounds 0"),
    ):
        status, _, err = agentgym("compare", *names)
        assert status == 2 and message in err
    tested = run.read_json("test.json")
    run.write_json("test.json", tested | {"rounds": {}})  # as with --test_tasks 0
    status, out, _ = agentgym("compare", "run@0", "run@2")
    assert status == 0 and "(3 tasks); valid split" in out
    Path("run/test.json").unlink()
    status, _, err = agentgym("compare", "run", "e")
    assert status == 2 and "run is not finished; to resume it: agentgym evolve --resume run" in err
