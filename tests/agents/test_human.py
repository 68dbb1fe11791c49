"""A person as an agent: hints, commands, one episode after the other, the end of input."""

from __future__ import annotations

import io
import sys
from contextlib import suppress

import pytest

from agentgym_py.agents import ExpertAgent
from agentgym_py.agents.human import COMMANDS, PersonAgent
from agentgym_py.collection import Collector, PlayConfig, jobs_for
from agentgym_py.env import EnvSpec
from agentgym_py.env.actions import to_keyboard
from agentgym_py.trajectory import Trajectory


def play(monkeypatch: pytest.MonkeyPatch, lines: list[str], env: EnvSpec, tasks: int) -> list[Trajectory]:
    """What is played by typing these lines; slots for many episodes are there."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
    trajectories: list[Trajectory] = []
    with suppress(KeyboardInterrupt):
        trajectories.extend(
            Collector(PersonAgent(), PlayConfig(slots=8)).iter_ordered(jobs_for(env, "train", range(tasks)))
        )
    return trajectories


@pytest.mark.parametrize("world", ["maze", "tools", "calculator"])
def test_a_person_who_types_what_the_expert_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], world: str
) -> None:
    """One episode is over before the next begins; calls are typed in a line; all is said on stderr."""
    env = EnvSpec(world)
    expert = Collector(ExpertAgent(thoughts=False)).collect_batch(jobs_for(env, "train", range(3)))
    made = env.make()
    typed = []
    for trajectory in expert:
        made.reset(seed=0, options={"task": trajectory.task_id})
        while not made.stop_reason:
            typed.append(to_keyboard(made.expert()[0]))
            made.step(made.expert()[0])
    trajectories = play(monkeypatch, typed, env, 3)
    assert [[(s.action, s.action_input) for s in t.steps] for t in trajectories] == [
        [(s.action, s.action_input) for s in t.steps] for t in expert
    ]
    assert all(t.success for t in trajectories) and {t.provenance.agent for t in trajectories} == {"person"}
    output = capsys.readouterr()
    assert output.out == "" and trajectories[0].rules in output.err
    seen = [output.err.index(text) for t in trajectories for text in (t.task_id, t.steps[-1].observation)]
    assert seen == sorted(seen)


def test_hints_and_commands(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Some valid actions stand there unasked, `:actions` lists all; a command or an empty line is no step."""
    env = EnvSpec("household")
    (trajectory,) = play(monkeypatch, ["", ":actions", ":nonsense", "look", ":skip"], env, 1)
    assert [s.action for s in trajectory.steps] == ["look"] and trajectory.given_up and trajectory.error is None
    err = capsys.readouterr().err
    made = env.make()
    made.reset(seed=0, options={"task": trajectory.task_id})
    actions = made.actions() or []
    assert len(actions) > 8 and f"\n  … and {len(actions) - 8} more: :actions\n" in err
    assert "\n".join(f"  {each}" for each in actions[:8]) in err and "\n".join(actions) in err
    assert err.count(":skip     gives this episode up") == 2 and all(each in err for each in COMMANDS)


@pytest.mark.parametrize("last", [[":quit", "look"], []])
def test_the_end_of_input_ends_it(monkeypatch: pytest.MonkeyPatch, last: list[str]) -> None:
    """What was over is there; the episode that was left is not."""
    trajectories = play(monkeypatch, [":skip", "look", *last], EnvSpec("maze"), 3)
    assert len(trajectories) == 1 and trajectories[0].given_up
