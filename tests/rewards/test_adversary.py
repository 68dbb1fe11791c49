from __future__ import annotations

import pytest

from agentgym_py.agents import ExpertAgent
from agentgym_py.collection import Job, PlayConfig
from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError, InfrastructureError
from agentgym_py.rewards.adversary import Attack, Generation, attack
from agentgym_py.rewards.functions import function_scorer
from agentgym_py.trajectory import Trajectory

JOBS = [Job(EnvSpec("maze", {"difficulty": "easy"}), number) for number in range(6)]


def length(trajectory: Trajectory) -> float:
    """A flawed reward: it pays for every step, and success ends an episode."""
    return float(len(trajectory.steps)) + (0.5 if trajectory.success else 0.0)


def test_it_finds_what_a_flawed_reward_overrates_and_never_lowers_the_proxy() -> None:
    """The proxy rises with the generations, and what it likes are failures; the same seed finds the same."""
    found = attack(function_scorer(length), JOBS, generations=8)
    proxies = [generation.proxy for generation in found.generations]
    assert proxies == sorted(proxies) and proxies[-1] > proxies[0] and len(proxies) == 9
    assert [generation.episodes for generation in found.generations] == [6 * n for n in range(1, 10)]
    assert found.scores == [length(trajectory) for trajectory in found.kept]
    assert found.generations[-1].truth == pytest.approx(sum(t.reward for t in found.kept) / 6)
    scores = [score for score, _ in found.overrated]
    assert scores == sorted(scores, reverse=True) and not any(t.success for _, t in found.overrated) and scores
    again = attack(function_scorer(length), JOBS, generations=8)
    assert (again.generations, again.kept) == (found.generations, found.kept)
    other = attack(function_scorer(length), JOBS, generations=8, play=PlayConfig(seed=1))
    assert other.kept != found.kept


def test_a_reward_that_is_the_truth_is_not_hacked() -> None:
    """Proxy and truth stay equal, and there is no onset."""
    found = attack(lambda episodes: [t.reward for t in episodes], JOBS, generations=4)
    assert all(row.proxy == pytest.approx(row.truth) for row in found.generations) and found.onset is None
    perfect = attack(lambda episodes: [t.reward for t in episodes], JOBS, generations=1, agent=ExpertAgent())
    assert perfect.generations[-1].success == 1 and perfect.overrated == []


def test_the_onset_is_the_last_peak_of_the_truth() -> None:
    """Where the truth is largest, if it falls afterwards."""

    def onset(*truths: float) -> int | None:
        return Attack([Generation(n, float(n), truth, 0.0) for n, truth in enumerate(truths)], [], []).onset

    assert (onset(0.1, 0.5, 0.5, 0.2), onset(0.1, 0.2), onset(0.3, 0.1), onset(0.2, 0.2)) == (2, None, 0, None)


def test_nothing_to_attack_is_said_in_one_line() -> None:
    """No task, no generation, or a reward that fails for all."""
    for jobs, generations in (([], 3), (JOBS, 0)):
        with pytest.raises(ConfigError, match="attack needs tasks and generations"):
            attack(function_scorer(length), jobs, generations=generations)

    def broken(trajectory: Trajectory) -> float:
        raise ValueError("no")

    with pytest.raises(InfrastructureError, match="no first episode of 6 has a score"), pytest.warns(UserWarning):
        attack(function_scorer(broken), JOBS)
