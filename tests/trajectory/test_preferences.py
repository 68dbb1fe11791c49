from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from agentgym_py.errors import ConfigError
from agentgym_py.trajectory import Trajectory, preferences
from agentgym_py.trajectory.preferences import Pair, build_pairs, pair_sides

Make = Callable[..., Trajectory]


def graded(episode: Make, *rewards: float, task: str = "shop/train/easy/1") -> list[Trajectory]:
    """One trajectory of the task a reward; only the reward 1 is a success."""
    return [
        replace(episode(f"act {i}", task=task), id=f"t{i}", reward=reward, success=reward == 1)
        for i, reward in enumerate(rewards)
    ]


def rewards_of(result: preferences.Pairs, trajectories: list[Trajectory]) -> list[tuple[float, float]]:
    """Of each pair the better's and the worse's return."""
    return [(trajectories[pair.chosen].reward, trajectories[pair.rejected].reward) for pair in result.pairs]


def test_best_meets_worst_and_nobody_twice(episode: Make) -> None:
    """The second best meets the second worst; the one in the middle, and who ties, is in no pair and counted."""
    trajectories = graded(episode, 0.5, 1.0, 0.0, 0.5, 0.7, 0.5, 0.5)
    result = build_pairs(trajectories)
    assert rewards_of(result, trajectories) == [(1.0, 0.0), (0.7, 0.5)]
    assert result.ties == 1 and result.dropped == {"without a better or worse one of their task": 3}
    assert build_pairs(trajectories, min_gap=0.5).pairs == result.pairs[:1]


def test_success_meets_failure_whatever_their_returns(episode: Make) -> None:
    """All of them, if the task may have as many; success decides, not the return; equal outcomes are ties."""
    trajectories = graded(episode, 1.0, 0.9, 1.0, 0.0)
    trajectories[0] = replace(trajectories[0], reward=0.2)
    result = build_pairs(trajectories, match="success", max_pairs=None)
    assert {pair[:2] for pair in result.pairs} == {(0, 1), (0, 3), (2, 1), (2, 3)}
    assert result.ties == 2 and not result.dropped
    assert build_pairs(trajectories, match="success", max_pairs=None, min_gap=2.0) == result, "it is of returns"


def test_all_meet_all_that_did_worse(episode: Make) -> None:
    """Every ordered pair of one task, the better first; equal returns are ties."""
    trajectories = graded(episode, 0.5, 1.0, 0.5, 0.0)
    result = build_pairs(trajectories, match="all", max_pairs=None)
    expected = {(i, j) for i in range(4) for j in range(4) if trajectories[i].reward > trajectories[j].reward}
    assert {pair[:2] for pair in result.pairs} == expected and len(result.pairs) == 5 and result.ties == 1


@pytest.mark.parametrize("match", ["best_worst", "success", "all"])
def test_a_task_has_at_most_so_many(episode: Make, match: Any) -> None:
    """Which of too many are kept is decided by the seed, or by the gap; what that leaves out is counted."""
    trajectories = graded(episode, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.2)
    every = build_pairs(trajectories, match=match, max_pairs=None).pairs
    draws = {tuple(build_pairs(trajectories, match=match, max_pairs=2, seed=seed).pairs) for seed in range(9)}
    assert all(len(draw) == 2 and set(draw) <= set(every) for draw in draws)
    assert (len(draws) == 1) == (match == "best_worst")
    result = build_pairs(trajectories, match=match, max_pairs=1, seed=3)
    assert result == build_pairs(trajectories, match=match, max_pairs=1, seed=3)
    assert result.dropped == {"beyond the most pairs of a task": 6}


def test_only_what_opens_alike_is_compared(episode: Make) -> None:
    """Other tasks, rules or arguments of the world are not; nor is an episode that a failure of ours ended."""
    one, other = graded(episode, 1.0, 0.0)
    away = replace(other, provenance=replace(other.provenance, env_kwargs={"max_steps": 3}))
    for odd in (replace(other, rules="Shop!"), away, graded(episode, 0.0, task="shop/train/easy/2")[0]):
        result = build_pairs([one, odd])
        assert not result.pairs and result.dropped == {"alone at their task": 2}
    for broken in (replace(other, error="timeout"), replace(other, steps=())):
        assert build_pairs([one, broken]).dropped.total() == 2 and not build_pairs([one, broken]).pairs
    assert build_pairs([one, other]).pairs == [Pair(0, 1)]


@pytest.mark.parametrize("match", ["best_worst", "success", "all"])
@pytest.mark.parametrize("level", ["episode", "fork", "turn"])
def test_nothing_gets_lost(episode: Make, match: Any, level: Any) -> None:
    """Whoever is in no pair is counted; pairs do not depend on the order of the trajectories, nor on other tasks."""
    trajectories = [
        each
        for task in "abc"
        for n, each in enumerate(graded(episode, 1.0, 0.3, 0.3, 0.0, 1.0, task=task)[: {"a": 5, "b": 3, "c": 1}[task]])
    ]
    result = build_pairs(trajectories, match=match, level=level, max_pairs=2, seed=5)
    assert len({i for pair in result.pairs for i in pair[:2]}) + result.dropped.total() == len(trajectories)
    named = {
        (trajectories[p.chosen].task_id, trajectories[p.chosen].id, trajectories[p.rejected].id) for p in result.pairs
    }
    back = trajectories[::-1]
    again = build_pairs(back, match=match, level=level, max_pairs=2, seed=5).pairs
    assert {(back[p.chosen].task_id, back[p.chosen].id, back[p.rejected].id) for p in again} == named
    alone = build_pairs(trajectories[:5], match=match, level=level, max_pairs=2, seed=5).pairs
    assert [pair for pair in result.pairs if pair.chosen < 5] == alone


def test_forks_are_states_after_the_same_turns(episode: Make) -> None:
    """Two that share turns and then say different things; not those that part at once, or in what they see."""
    trajectories = [
        episode("look", "buy", "leave", reward=1.0),
        episode("look", "wait", reward=0.0),
        episode("look", "buy", "stay", reward=0.4),
        episode("run", "buy", reward=0.2),
        episode("look", reward=0.1),
    ]
    steps = trajectories[1].steps
    unlucky = replace(trajectories[1], steps=(steps[0], replace(steps[1], observation="another page")), reward=-1.0)
    other_seed = replace(trajectories[1], provenance=replace(trajectories[1].provenance, env_seed=1), reward=-2.0)
    result = build_pairs([*trajectories, unlucky, other_seed], level="fork", match="all", max_pairs=None)
    assert set(result.pairs) == {Pair(0, 1, 1), Pair(2, 1, 1), Pair(0, 2, 2)}
    assert result.dropped == {"without a better or worse one of their task after a shared turn": 4}
    assert build_pairs(trajectories, level="fork", max_pairs=1).pairs == [Pair(0, 1, 1)], (
        "the largest gap of all states"
    )


@pytest.mark.parametrize("level", ["fork", "turn"])
def test_forks_are_found_as_by_looking_at_each_two(episode: Make, level: Any) -> None:
    """On many random walks the states give the pairs that a comparison turn by turn gives; a turn may be the first."""
    from agentgym_py.rng import Rng

    rng = Rng("walks")
    trajectories = [
        replace(episode(*(rng.choice("ab") for _ in range(1 + rng.below(5)))), id=str(i), reward=rng.below(4) / 4)
        for i in range(30)
    ]
    slow = set()
    for i, j in combinations(range(30), 2):
        replies = [[step.reply for step in trajectories[k].steps] for k in (i, j)]
        n = next((n for n, (a, b) in enumerate(zip(*replies, strict=False)) if a != b), -1)
        if n >= (level == "fork") and trajectories[i].reward != trajectories[j].reward:
            slow.add(Pair(i, j, n) if trajectories[i].reward > trajectories[j].reward else Pair(j, i, n))
    result = build_pairs(trajectories, level=level, match="all", max_pairs=None)
    assert set(result.pairs) == slow and len(result.pairs) == len(slow) > 50


def test_a_level_says_which_turns_are_compared(episode: Make) -> None:
    """Whole episodes, all from the fork on, or only the two replies there; a turn not to be trained on stays so."""
    trajectories = [episode("look", "buy", "leave"), episode("look", "wait", "leave", reward=0.0)]
    never = replace(trajectories[0], steps=tuple(replace(step, trained=False) for step in trajectories[0].steps))

    def trained(each: Trajectory) -> list[bool]:
        return [step.trained for step in each.steps]

    pair = Pair(0, 1, 1)
    assert [trained(each) for each in pair_sides(trajectories, pair, "episode")] == [[True] * 3] * 2
    assert [trained(each) for each in pair_sides(trajectories, pair, "fork")] == [[False, True, True]] * 2
    assert [trained(each) for each in pair_sides(trajectories, pair, "turn")] == [[False, True]] * 2
    assert not any(trained(pair_sides([never, trajectories[1]], pair, "fork")[0]))


def test_two_first_replies_are_compared(episode: Make) -> None:
    """As turns, for all tries of a task begin in one state; not another seed's world, nor the same reply."""
    trajectories = [episode("look", "buy"), episode("run", "buy", reward=0.0), episode("look", "stay", reward=0.0)]
    elsewhere = replace(trajectories[1], provenance=replace(trajectories[1].provenance, env_seed=1))
    result = build_pairs([*trajectories, elsewhere], level="turn", max_pairs=None)
    assert result.pairs == [Pair(0, 2, 1), Pair(0, 1, 0)], "the later fork first, where both differ as much"
    assert result.dropped == {"without a better or worse one of their task in one state": 1}
    better, worse = pair_sides(trajectories, result.pairs[1], "turn")
    assert [[(s.action, s.trained) for s in each.steps] for each in (better, worse)] == [
        [("look", True)],
        [("run", True)],
    ]
    assert build_pairs(trajectories, level="fork").pairs == [Pair(0, 2, 1)]


def test_who_went_on_from_a_fork_is_no_whole_episode(episode: Make) -> None:
    """It is compared with those that went on from the same state: what led there is learnt on neither side."""

    def gone_on(*actions: str, reward: float = 1.0) -> Trajectory:
        whole = episode(*actions, reward=reward)
        return replace(whole, steps=(replace(whole.steps[0], trained=False), *whole.steps[1:]))

    trajectories = [episode("look", "buy"), gone_on("look", "stay", reward=0.0), gone_on("look", "sell", reward=0.5),
              gone_on("run", "buy", reward=0.1)]  # fmt: skip
    result = build_pairs(trajectories, match="all", max_pairs=None)
    assert result.pairs == [Pair(2, 1)] and result.dropped == {"alone at their task": 2}
    assert set(build_pairs(trajectories, match="all", level="fork").pairs) == {
        Pair(0, 1, 1),
        Pair(0, 2, 1),
        Pair(2, 1, 1),
    }


def test_too_few_pairs_are_refused(episode: Make) -> None:
    """A task may have one pair at least."""
    with pytest.raises(ConfigError, match="max_pairs"):
        build_pairs(graded(episode, 1.0, 0.0), max_pairs=0)
