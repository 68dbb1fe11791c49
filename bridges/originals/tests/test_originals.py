"""The originals as worlds, against the real packages."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from agentgym_textworld import is_command
from originals import ALFWORLD, BABYAI, ORIGINALS, SCIENCEWORLD, TEXTWORLD, Original, write_games

from agentgym_py.env import EnvSpec, StopReason, TextEnv
from agentgym_py.errors import ConfigError, SnapshotError, UnknownNameError
from agentgym_py.rng import Rng

Make = Callable[..., TextEnv]


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder of ALFWorld's games."""
    return str(write_games(tmp_path_factory.mktemp("games")))


def spec(original: Original, games: str, **kwargs: Any) -> EnvSpec:
    """The environment; the test is skipped without its package."""
    if original.missing:
        pytest.skip(f"not installed: {original.missing}")
    folder = {"games": games} if original is ALFWORLD else {}
    return EnvSpec(original.name, {**original.kwargs, **folder, **kwargs})


def wander(env: TextEnv, rng: Rng, steps: int) -> list[str]:
    """Do random actions, listed at every fourth step, and a wrong one; return all of them."""
    actions, listed = list[str](), list[str]()
    for number in range(steps):
        if not env.stop_reason:
            listed = listed if number % 4 else env.actions() or [""]
            actions.append("fly to the moon" if number == 2 else rng.choice(listed))
            env.step(actions[-1])
    return actions


each_original = pytest.mark.parametrize("original", ORIGINALS, ids=lambda original: original.name)


@each_original
def test_the_originals_expert_solves_tasks_of_every_split(original: Original, games: str) -> None:
    """Its plan is valid to the last action, which ends the episode; the rewards add up to at most 1."""
    with closing(spec(original, games, max_steps=1_000).make()) as env:
        for split in original.splits:
            env.reset(options={"task": 1, "split": split})
            total, plan = 0.0, env.expert()
            for action in plan:
                assert env.stop_reason is None
                _, reward, _, _, info = env.step(action)
                assert info["valid_action"]
                total += reward
            assert plan and env.succeeded and env.stop_reason is StopReason.TERMINATED
            assert 0 < total <= 1 + 1e-9 and env.actions() == env.expert() == []


@each_original
def test_actions_determine_an_episode_and_a_snapshot_repeats_them(original: Original, games: str) -> None:
    """The same in another instance, and from a snapshot of the middle; the future is the same, too."""
    made = spec(original, games)
    with closing(made.make()) as env, closing(made.make()) as other:
        for task in range(2):
            first = env.reset(seed=0, options={"task": task})
            actions = wander(env, Rng("originals", original.name, task), 12)
            middle, following = env.snapshot(), env.actions() or [""]
            assert other.reset(seed=0, options={"task": task}) == first
            for action in actions:
                other.step(action)
            assert other.snapshot() == middle, "it has a digest of all answers"
            other.reset(seed=0, options={"task": task})
            other.restore(middle)
            assert other.snapshot() == middle
            if not env.stop_reason:
                assert env.step(following[0]) == other.step(following[0])


@each_original
def test_a_wrong_action_is_an_observation(original: Original, games: str) -> None:
    """Nonsense, other alphabets, nothing at all and very long texts."""
    with closing(spec(original, games).make()) as env:
        env.reset(options={"task": 0})
        for text in ("fly to the moon", "ходить", "\ud800", "", "x" * 5_000, "take\nInput: 3"):
            observation, reward, terminated, _, info = env.step(text)
            assert observation and reward == 0 and not terminated and not info["valid_action"]


@each_original
def test_a_task_is_of_one_split_and_level(original: Original, games: str) -> None:
    """Its id names both; an unknown one is an error."""
    with closing(spec(original, games).make()) as env:
        task = env.task(1, "train")
        assert task == env.task(task.id) and task.split == "train"
        for wrong in (task.id.replace("/1", "/-1"), task.id.replace("train", "dev"), f"{original.name}/train/other/1"):
            with pytest.raises(UnknownNameError):
                env.task(wrong)


@each_original
def test_a_missing_package_is_an_error_of_one_line(original: Original, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the package to install."""
    for name in [name for name in sys.modules if name.startswith(f"{original.modules[0]}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, original.modules[0], None)
    kwargs = {"games": "."} if original is ALFWORLD else {}
    with pytest.raises(ConfigError, match=f"pip install {original.modules[0]}"):
        EnvSpec(original.name, kwargs).make()


def test_babyai_has_its_own_limit_reward_and_levels(games: str) -> None:
    """The limit truncates; the reward falls with the moves; a snapshot of another level does not fit."""
    made = spec(BABYAI, games, level="GoToRedBall", max_steps=5_000)
    with closing(made.make()) as env:
        env.reset(options={"task": 0})
        while env.stop_reason is None:
            env.step("drop")
        assert env.stop_reason is StopReason.TRUNCATED and env.steps == 64
        env.reset(options={"task": 0})
        plan = env.expert()
        env.step("turn left")
        env.step("turn right")
        assert env.expert()[-1] == plan[-1], "the bot continues after actions that are not its own"
        rewards = [env.step(action)[1] for action in env.expert()]
        assert rewards[-1] == pytest.approx(1 - 0.9 * env.steps / 64)
        here = env.snapshot()
    with closing(EnvSpec("babyai", {"level": "GoToLocal"}).make()) as other, pytest.raises(SnapshotError):
        other.restore(here)


def test_scienceworld_has_its_variations_score_and_meanings(games: str) -> None:
    """Splits are its variations, a wrong focus has the score -100, and the meanings of a command are sorted."""
    with closing(spec(SCIENCEWORLD, games).make()) as env:
        env.reset(options={"task": 0, "split": "test"})
        assert [env.task_count(split) for split in SCIENCEWORLD.splits] == [150, 75, 75]  # type: ignore[attr-defined]
        for action in env.expert()[:2]:
            env.step(action)
        assert env.expert(), "on the gold path"
        observation, *_ = env.step("open door")
        options = [line.partition("\t")[2] for line in observation.splitlines()[1:]]
        assert observation.startswith("Ambiguous") and options == sorted(options) and len(options) > 1
        assert env.actions() == [str(number) for number in range(len(options))] and env.expert() == []
        assert env.step("0")[4]["valid_action"]
        focus = next(action for action in env.actions() or [] if action.startswith("focus on"))
        _, reward, terminated, _, info = env.step(focus)
        assert reward <= -1 and terminated and not info["success"]


def test_closing_ends_scienceworlds_java(games: str) -> None:
    """All processes of an environment, that of the gold path included."""
    env = spec(SCIENCEWORLD, games).make()
    before = _children()
    env.reset(options={"task": 0})
    env.expert()
    env.restore(env.snapshot())
    assert len(_children() - before) == 2
    env.close()
    assert _children() <= before
    env.reset(options={"task": 1})
    env.close()
    assert _children() <= before


def _children() -> set[int]:
    """The Java processes that this one has started."""
    found = set[int]()
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            pid, _, rest = file.read_text().partition(" (")
            name, _, fields = rest.rpartition(") ")
            if name == "java" and int(fields.split()[1]) == os.getpid():
                found.add(int(pid))
    return found


def test_a_command_of_textworld_is_one_and_none_to_the_interpreter() -> None:
    """Inform splits a line at full stops, commas and `then`, mends a command by `oops`, and reads nine letters."""
    for command in ("look", "go north", "take half-eaten bread", "unlock type 2 box with henderson's key", "g"):
        assert is_command(command)
    meta = ("save", "restore", "restart", "quit", "script", "undo")
    joined = (f"look{join}{word}" for join in (". ", ".", ", ", "; ", " then ", "\\_", "\0") for word in meta)
    for command in (*meta, *joined, "oops save", "o save", "transcripts", "save\0", "", " ", "look " * 50):
        assert not is_command(command), command


def test_textworld_reads_no_commands_to_the_interpreter(games: str) -> None:
    """Nothing is saved or taken back; settings are part of a task's id and wrong ones are an error."""
    with closing(spec(TEXTWORLD, games).make()) as env:
        env.reset(options={"task": 0})
        for command in ("save", "undo", "QUIT", "restart", "look. save", "look, restore", "look then restart"):
            observation, *_, info = env.step(command)
            assert observation.startswith("Not a command") and not info["valid_action"] and env.stop_reason is None
        assert env.task(3).id == "textworld/train/treasure_hunter:level=11/3"
    with pytest.raises(ConfigError, match="level"):
        EnvSpec("textworld", {"settings": {"levle": 3}}).make()


def test_alfworld_has_its_splits_and_handcoded_expert(games: str, tmp_path: Path) -> None:
    """Folders are splits; the handcoded expert names one action at a time; no game is an error."""
    folder = write_games(tmp_path / "data")
    stems = sorted(path.name for path in (folder / "train").iterdir())
    (folder / "train" / stems[0]).rename(folder / "valid_unseen")
    with closing(spec(ALFWORLD, str(folder), expert="handcoded").make()) as env:
        env.reset(options={"task": 0, "split": "test"})
        while env.stop_reason is None:
            (action,) = env.expert()
            env.step(action)
        assert env.succeeded and env.files_digest
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="alfworld-download"):
        EnvSpec("alfworld", {"games": str(tmp_path / "empty")}).make()
