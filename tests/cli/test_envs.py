"""`agentgym envs` and `agentgym play`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint

import pytest

from agentgym_py import registry

Run = Callable[..., tuple[int, str, str]]


def test_list_shows_what_is_installed(agentgym: Run) -> None:
    """The shop is there, by short name and by id."""
    status, out, err = agentgym("envs", "list")
    assert status == 0 and err == "" and "shop" in out and "AgentShop-v0" in out


def test_list_as_json(agentgym: Run) -> None:
    """A program reads names, targets and packages; only JSON is on stdout."""
    _, out, _ = agentgym("envs", "list", "--json")
    shop = next(each for each in json.loads(out) if each["name"] == "AgentShop-v0")
    assert shop["short_name"] == "shop" and shop["package"] == "agentgym-py" and shop["broken"] is None


def test_a_broken_plugin_is_listed_with_its_reason(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It neither breaks the list nor hides."""
    broken = {"AgentBad-v0": EntryPoint("AgentBad-v0", "no_such_module_here:Env", "agentgym.envs")}
    monkeypatch.setattr(registry, "_points", lambda group: broken if group == "agentgym.envs" else {})
    status, out, err = agentgym("envs", "list")
    assert status == 0 and err == "" and "broken: ModuleNotFoundError" in " ".join(out.split())
    assert "no_such_module_here" in json.loads(agentgym("envs", "list", "--json")[1])[0]["broken"]


def test_show_is_the_card_with_an_example(agentgym: Run) -> None:
    """Card, splits, rules by prompt, tools, and the expert's episode."""
    status, out, _ = agentgym("envs", "show", "GUESS")
    assert status == 0
    for wanted in (
        "Task: find a hidden number.",
        "guess/test/0",
        "--prompt brief",
        "Write guess[n].",
        "> guess[",
        "(reward 1)",
    ):
        assert wanted in out


def test_show_as_json(agentgym: Run) -> None:
    """The same for a program; arguments of the world go in by --env_kwargs."""
    about = json.loads(agentgym("envs", "show", "GUESS", "--json", "--env_kwargs.max_steps", "7")[1])
    assert about["name"] == "guess" and about["max_steps"] == 7 and set(about["splits"]) == {"train", "valid", "test"}
    assert about["example"]["turns"][-1] == {"observation": "Found."}


def play(agentgym: Run, monkeypatch: pytest.MonkeyPatch, lines: list[str], *argv: str) -> str:
    """What a person sees who types these lines."""
    said = iter(lines)

    def typed(_: str) -> str:
        try:
            return next(said)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", typed)
    status, out, err = agentgym("play", "GUESS", *argv)
    assert status == 0 and err == ""
    return out


def test_play_follows_the_experts_hint_to_the_end(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """`hint` shows the expert's action, which solves the task."""
    out = play(agentgym, monkeypatch, ["hint"], "--task", "guess/test/3")
    action = next(line for line in out.splitlines() if line.startswith("guess["))
    assert "Solved: reward 1 after 1 step." in play(agentgym, monkeypatch, [action], "--task", "guess/test/3")


def test_play_lists_actions_and_takes_any_text(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """`?` lists what can be done; nonsense is an observation; the end of input leaves."""
    out = play(agentgym, monkeypatch, ["?", "", "so what"], "--task", "3", "--split", "valid")
    assert (
        "guess/valid/3" in out and "guess[12]" in out and "Write guess[n]." in out and "You left after 1 step." in out
    )


def test_play_writes_what_a_pipe_says(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal echoes what is typed; where there is none, the transcript shows it all the same, and the end."""
    out = play(agentgym, monkeypatch, ["so what"], "--task", "3")
    assert "\nso what\nWrite guess[n]." in out and out.endswith("quit\nYou left after 1 step.\n")
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    assert "so what" not in play(agentgym, monkeypatch, ["so what"], "--task", "3")


def test_play_draws_a_task(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one each time, of the split that is asked for; a seed draws the same again."""
    anew = {play(agentgym, monkeypatch, [], "--split", "test").split(".")[0] for _ in range(4)}
    seeded = {play(agentgym, monkeypatch, [], "--seed", "3").split(".")[0] for _ in range(2)}
    assert len(anew) > 1 and all(each.startswith("guess/test/") for each in anew)
    assert len(seeded) == 1 and seeded.pop().startswith("guess/train/")


def test_play_says_when_it_was_not_solved(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of steps."""
    assert "Not solved: reward 0 after 10 steps." in play(agentgym, monkeypatch, ["x"] * 10)
