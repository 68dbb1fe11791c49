"""Potential-based shaping: it moves no optimum."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import product
from typing import Any

import gymnasium
import pytest

from agentgym_py.agents import AgentReply, Episode
from agentgym_py.collection import Collector, Job, PlayConfig
from agentgym_py.env import EnvSpec, Outcome, Reply, Task, TextEnv
from agentgym_py.errors import ConfigError
from agentgym_py.rewards.functions import build_reward
from agentgym_py.rewards.potential import Potential, shaping_rewards
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.scores import apply_scores

HORIZON = 4


def phi(trajectory: Trajectory) -> list[float]:
    """Return any number for each state, which its observation names."""
    states = [step.observation for step in trajectory.steps] + [trajectory.final_observation]
    return [sha256(state.encode()).digest()[1] / 64 for state in states]


class Ledge(TextEnv):
    """Go along positions 0 to 2 at a price; `stop` pays little at once, position 2 pays 1."""

    name = "ledge"
    rules = {"full": "", "brief": "", "none": ""}  # noqa: RUF012  # nothing changes it

    def __init__(self, *, max_steps: int = HORIZON, split: str = "train", render_mode: str | None = None) -> None:
        super().__init__(max_steps=max_steps, split=split, render_mode=render_mode)
        self.at = 0

    def task(self, name: str | int, split: str | None = None) -> Task:
        """Return the only task."""
        return Task("ledge/train/0", "train", "ledge", "easy", "Go.")

    def begin(self, task: Task) -> str:
        """Begin at 0."""
        self.at = 0
        return "0"

    def act(self, reply: Reply) -> Outcome:
        """Move, or stop."""
        if reply.action == "stop":
            return Outcome(f"stopped at {self.at}", 0.3 * self.at, terminated=True)
        self.at = max(self.at + (1 if reply.action == "right" else -1), 0)
        done = self.at == 2
        return Outcome(str(self.at), float(done) - 0.1, terminated=done, success=done)

    def state(self) -> dict[str, Any]:
        """Return the position."""
        return {"at": self.at}

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Restore the position."""
        self.at = int(state["at"])

    def expert(self) -> list[str]:
        """Go right."""
        return [] if self.stop_reason else ["right"] * (2 - self.at)


class Script:
    """Plays attempt k of a task by the k-th script."""

    name, policy_digest = "script", None

    def __init__(self, scripts: Sequence[Sequence[str]]) -> None:
        self.sampling: dict[str, Any] = {}
        self.scripts = scripts

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """Reply with the script's next word."""
        return [AgentReply(self.scripts[0][len(episode.steps)]) for episode in episodes]


@pytest.fixture(scope="module")
def every_episode() -> Iterator[list[Trajectory]]:
    """Every episode of the world."""
    world: Any = Ledge
    gymnasium.register(id="LedgeForTests-v0", entry_point=world)
    job = Job(EnvSpec("LedgeForTests-v0"), 0)
    scripts = product(("left", "right", "stop"), repeat=HORIZON)
    played = [Collector(Script([script]), PlayConfig(slots=1)).collect(job) for script in scripts]
    yield list({tuple(step.action for step in t.steps): t for t in played}.values())
    del gymnasium.registry["LedgeForTests-v0"]


def discounted(trajectory: Trajectory, gamma: float) -> float:
    """Return the discounted sum of an episode's rewards."""
    return sum(step.reward * gamma**t for t, step in enumerate(trajectory.steps))


@pytest.mark.parametrize("gamma", [1.0, 0.8])
@pytest.mark.parametrize("source", ["expert", "any_phi"])
def test_the_optimum_of_a_small_mdp_does_not_move(
    every_episode: list[Trajectory], own: Callable[..., None], source: str, gamma: float
) -> None:
    """Every episode, terminated or truncated, loses the potential of the start, so no order of policies changes.

    It would if the potential of final states counted, too.
    """
    own(any_phi=phi)
    shaped = apply_scores(every_episode, build_reward("potential", {"phi": source, "gamma": gamma}))
    plain = [discounted(t, gamma) for t in every_episode]
    loss = [before - discounted(t, gamma) for before, t in zip(plain, shaped, strict=True)]
    assert len(every_episode) > 20 and loss == pytest.approx([loss[0]] * len(loss)) and loss[0] > 0
    best = {i for i, value in enumerate(plain) if value == pytest.approx(max(plain))}
    values = [discounted(t, gamma) for t in shaped]
    assert best == {i for i, value in enumerate(values) if value == pytest.approx(max(values))}
    counted = [value + gamma ** len(t.steps) * phi(t)[-1] for value, t in zip(values, every_episode, strict=True)]
    assert best != {i for i, value in enumerate(counted) if value == pytest.approx(max(counted))}
    assert [t.success for t in shaped] == [t.success for t in every_episode]


def test_a_step_towards_the_goal_pays_and_one_back_costs(every_episode: list[Trajectory]) -> None:
    """With the exact expert's value of states, 0.9 to the power of the steps that are left."""
    by_actions = {tuple(step.action for step in t.steps): t for t in every_episode}
    parts = Potential()(by_actions["right", "left", "right", "right"])
    assert parts["shaping"] == pytest.approx([0.9 - 0.81, 0.81 - 0.9, 0.9 - 0.81, -0.9])
    assert parts["return"] == pytest.approx([-0.1, -0.1, -0.1, 0.9])
    lost = by_actions["left", "left", "left", "right"]  # after two steps there is no time left
    assert Potential(gamma=0.5, shaping_weight=2.0)(lost)["shaping"] == pytest.approx(
        [2 * (0.5 * 0.81 - 0.81), 2 * (0.5 * 0.81 - 0.81), -2 * 0.81, 0.0]
    )
    assert shaping_rewards([0.5, 0.25, 9.0], 0.5) == [0.5 * 0.25 - 0.5, -0.25]


def test_wrong_settings_are_refused_and_wrong_potentials_are_errors(
    every_episode: list[Trajectory], own: Callable[..., None]
) -> None:
    """Settings before a run; a function's error, or a changed world, is that of the episode."""
    for settings in {"gamma": 0.0}, {"gamma": 1.5}, {"discount": 0.0}, {"phi": 1}, {"gama": 1.0}:
        with pytest.raises(ConfigError, match=next(iter(settings))):
            build_reward("potential", settings)
    own(too_few=lambda trajectory: [0.0])
    scorer = build_reward("potential", {"phi": "too_few"})
    with pytest.warns(UserWarning, match=r"failed for 1 of 1 .* gave 1 potentials for 5 states"):
        (failed,) = apply_scores([t for t in every_episode if t.truncated][:1], scorer)
    assert not failed.is_evidence
    changed = replace(every_episode[0], steps=(replace(every_episode[0].steps[0], observation="elsewhere"),))
    with pytest.warns(UserWarning, match="differs on replay"):
        apply_scores([changed], build_reward("potential"))
