"""`agentgym faults`, and first faults in `agentgym eval`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym_py.trajectory import store

Run = Callable[..., tuple[int, str, str]]
MAZE = ("eval", "--env", "maze", "--env_kwargs.difficulty", "easy", "--tasks", "4", "--agent", "random", "--out", "a")


def test_an_evaluation_shows_its_first_faults(agentgym: Run) -> None:
    """As a table with an example of each kind, and in result.json; `faults` says the same of its folder and file."""
    status, out, _ = agentgym(*MAZE)
    assert status == 0 and "first faults of " in out and "\nfault  detour " in out and "; the expert: go " in out
    stored = json.loads(Path("a/result.json").read_text())["first_faults"]
    assert stored["by"] == "the exact expert" and stored["located"] == len(stored["faults"]) > 0
    shown = out[out.index("first faults of ") :]
    assert agentgym("faults", "a")[:2] == (0, shown)
    status, out, _ = agentgym("faults", "a/trajectories.jsonl", "--json")
    found = json.loads(out)
    assert status == 0 and found.pop("files") == ["a/trajectories.jsonl"] and found.pop("episodes") == 4
    assert found == stored
    status, out, _ = agentgym("faults", "a", "--by", "fair", "--min_regret", "1", "--first", "2", "--json")
    found = json.loads(out)
    assert status == 0 and found["by"] == "the fair expert" and found["failures"] == 2


def test_forks_are_continued_by_the_agent(agentgym: Run) -> None:
    """Each state of a failure several times, the same each time."""
    assert agentgym(*MAZE)[0] == 0
    argv = ("faults", "a", "--by", "forks", "--agent", "random", "--attempts", "2", "--first", "1")
    status, out, err = agentgym(*argv)
    assert status == 0 and "first faults of 1 failure by 2 forks per state: " in out, err
    assert "with so few forks" in out and "warning" not in err
    other = agentgym("faults", "a", "--by", "forks", "--agent", "expert", "--attempts", "2", "--first", "1")
    assert "continued by the agent of the episodes: agent 'random' in the episodes, 'expert' here" in other[2]
    assert agentgym(*argv)[1].partition("first faults")[2] == out.partition("first faults")[2]  # before it are seconds


def test_failures_that_do_not_replay_are_counted(agentgym: Run) -> None:
    """The status is 1 if none could be searched."""
    assert agentgym(*MAZE)[0] == 0
    played = store.read("a/trajectories.jsonl")
    changed = [replace(t, steps=(replace(t.steps[0], observation="A wood."), *t.steps[1:])) for t in played]
    store.write("changed.jsonl", changed)
    status, out, _ = agentgym("faults", "changed.jsonl")
    assert status == 1 and ": 0 located\n" in out and "whose world does not play it again" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--agent", "random"), "they need --by forks"),
        (("--by", "forks"), "choose an agent"),
        (("--by", "me"), "exact"),
        (("--attempts", "1"), "--attempts must be a number of at least 2"),
        (("--level", "0.7"), "below 0.5"),
        (("--level", "0.01"), "--level needs --by forks"),
        (("--temperature", "0.3"), "--temperature needs --by forks"),
        (("--attempts", "8"), "--attempts needs --by forks"),
        (("--by", "forks", "--agent", "random", "--min_regret", "1"), "--min_regret needs --by exact or fair"),
        (("--first", "0"), "at least 1"),
        (("--min_regret", "0"), "--min_regret must be a number of at least 1"),
    ],
)
def test_wrong_options_are_refused(agentgym: Run, options: tuple[str, ...], message: str) -> None:
    """Before a file is read."""
    status, _, err = agentgym("faults", "missing.jsonl", *options)
    assert status == 2 and message in err
