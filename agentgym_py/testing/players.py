"""Checks of who plays: the expert reaches success from anywhere, who does not think stays under the world's floor."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from agentgym_py.env import SPLITS
from agentgym_py.rng import Rng
from agentgym_py.testing.subject import Moves, NotApplicableError, Play, Subject

_SURE = 1e-4
"""How unlikely the successes of a thoughtless agent must be, under the floor, to count as a fault."""
_MORE = 10
_LONG = 3
"""A wanderer takes at most so many times the steps of the plan, and 12."""


def expert(subject: Subject) -> None:
    """From the start of tasks of every split: success, every action valid, in `optimal_steps` where the task says them.

    Asked anew before each step it gets there too, and needs no more steps where the optimum is known.
    """
    fair = [0, 0]
    for split in SPLITS:
        for number in subject.tasks(split, subject.settings.episodes):
            play = subject.play(subject.shared)
            play.reset(0, {"task": number, "split": split})
            plan = play.expert()
            task = play.env.current
            optimal = task.optimal_steps if task else None
            play.need(optimal in (None, len(plan)), f"the plan has {len(plan)} actions, optimal_steps is {optimal}")
            _succeeds(play, plan)
            _asked_anew(play, number, split, optimal)
            fair[0] += _fair_success(play, number, split)
            fair[1] += 1
    subject.notes.append(f"the fair expert succeeds in {fair[0]} of {fair[1]} tasks")


def _succeeds(play: Play, plan: list[str]) -> None:
    last = play.follow(plan)
    play.need(last.terminated, "the expert's plan is done, and the episode has not terminated")
    play.need(last.info["success"], "the expert's plan ends without success")


def _asked_anew(play: Play, number: int, split: str, optimal: int | None) -> None:
    play.reset(0, {"task": number, "split": split})
    while not play.ended:
        plan = play.expert()
        play.need(bool(plan), "expert() is empty, and the episode is not over")
        play.step(plan[0])
    play.need(play.env.succeeded, "asked anew before each step, the expert does not reach success")
    steps = len(play.moves.actions)
    play.need(optimal in (None, steps), f"asked anew, the expert takes {steps} steps, optimal_steps is {optimal}")


def _fair_success(play: Play, number: int, split: str) -> bool:
    """The fair expert may fail, but not raise, nor go on after the end."""
    play.reset(0, {"task": number, "split": split})
    while not play.ended:
        action = play.env.fair_expert()
        if action is None:
            break
        play.need(isinstance(action, str), f"fair_expert() gives {action!r}")
        play.step(action)
    return play.env.succeeded


def wanderer(subject: Subject) -> None:
    """From wherever random moves, nonsense and parts of a plan lead, the expert still reaches success."""
    env = subject.roomy()
    over = 0
    for seed in subject.seeds(subject.settings.episodes):
        rng = subject.rng("wanderer", seed)
        play = subject.play(env)
        play.reset(seed)
        play.explore(rng, rng.below(_LONG * len(play.expert()) + 12))
        if play.ended:
            over += 1
        else:
            _succeeds(play, play.expert())
    subject.notes.append(f"{over} of {subject.settings.episodes} wanderers met the end")


# ------------------------------------------------------------------------------------------------------- thoughtless

Policy = Callable[[Play, Rng, str], str]
"""Play, generator and the action that it first drew in this episode: what to say next."""

THOUGHTLESS: Mapping[str, Policy] = {
    "says nothing": lambda play, rng, first: "",
    "acts at random": lambda play, rng, first: play.any_action(rng),
    "echoes the observation": lambda play, rng, first: play.observation,
    "does one action for ever": lambda play, rng, first: first,
    "repeats the instruction": lambda play, rng, first: play.env.current.instruction if play.env.current else "",
}


def floor(subject: Subject) -> None:
    """Agents that do not think succeed no more often than the world's `floor`, 5 % where it declares none.

    Who comes above it plays ten times as many episodes. A fault is what would come about by chance in fewer than 1 of
    10,000 runs if the agent's rate were the floor.
    """
    numbers = subject.tasks("test", subject.settings.episodes)
    if not numbers:
        raise NotApplicableError("no test tasks")
    for name in THOUGHTLESS:
        won, tried = _wins(subject, name, numbers), len(numbers)
        if len(won) > subject.shared.floor * tried:
            more = [each for each in subject.tasks("test", _MORE * subject.settings.episodes) if each not in numbers]
            won, tried = won + _wins(subject, name, more), tried + len(more)
            _no_more_than_luck(subject, name, won, tried)
        subject.notes.append(f"{name}: {len(won)} of {tried}")


def _wins(subject: Subject, name: str, numbers: Iterable[int]) -> list[Moves]:
    """The episodes of these test tasks in which a thoughtless agent succeeds."""
    won = []
    for number in numbers:
        play = subject.play(subject.shared)
        _thoughtless(play, THOUGHTLESS[name], number, subject.rng("floor", name, number))
        if play.env.succeeded:
            won.append(play.moves)
    return won


def _no_more_than_luck(subject: Subject, name: str, won: Sequence[Moves], tried: int) -> None:
    least = subject.shared.floor
    chance = tail(len(won), tried, least)
    share = f"{len(won)} of {tried} episodes, the floor is {least:.0%}"
    told = f"an agent that {name} succeeds in {share} (p = {chance:.1g}); one of them:"
    subject.need(chance >= _SURE, told, won[0])


def _thoughtless(play: Play, policy: Policy, number: int, rng: Rng) -> None:
    play.reset(0, {"task": number, "split": "test"})
    first = play.any_action(rng)
    while not play.ended:
        play.step(policy(play, rng, first))


def tail(hits: int, n: int, p: float) -> float:
    """P(X >= hits) of a binomial X of n tries at p."""
    if hits <= 0:
        return 1.0
    if p <= 0:
        return 0.0
    log_p, log_q = math.log(p), math.log1p(-p)
    ways = (math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in range(hits, n + 1))
    return min(1.0, sum(math.exp(way + k * log_p + (n - k) * log_q) for k, way in enumerate(ways, hits)))
