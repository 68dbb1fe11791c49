"""Checks with agents: the expert succeeds from anywhere, thoughtless agents stay below the random baseline."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agentgym_py.env import SPLITS, TextEnv
from agentgym_py.rng import Rng
from agentgym_py.testing.harness import BrokenContractError, Moves, NotApplicableError, Play, Subject, shown, stands_in

_SURE = 1e-4
"""How unlikely the successes of a thoughtless agent must be, under the random baseline, to count as a fault."""
_MORE = 10
_MOMENTS, _LISTED = 6, 5
"""Moments of an episode at which listed actions are tried, and how many of them."""
_LONG = 3
"""A wanderer takes at most this many times the steps of the plan, and 12."""


def expert(subject: Subject) -> None:
    """From the start of tasks of every split: success, every action valid, in `optimal_steps` where the task says them.

    Asked again before each step, it also succeeds, in no more steps if the optimum is known. A fair expert of
    the world's own may fail, and says no secret in the one of two tasks that have shown the same so far.
    """
    fair, default = _Fair(), type(subject.shared).fair_expert is TextEnv.fair_expert
    for split in SPLITS:
        for number in subject.tasks(split, subject.settings.episodes):
            play = subject.play(subject.shared)
            play.reset(0, {"task": number, "split": split})
            plan = play.expert()
            task = play.env.current_task
            optimal = task.optimal_steps if task else None
            play.need(optimal in (None, len(plan)), f"the plan has {len(plan)} actions, optimal_steps is {optimal}")
            _succeeds(play, plan)
            _asked_anew(play, number, split, optimal)
            if not default:
                fair.plays(play, number, split)
    subject.notes.append("fair_expert is the default: the exact expert" if default else fair.told)


def _succeeds(play: Play, plan: list[str]) -> None:
    last = play.follow(plan)
    play.need(last.terminated, "the expert's plan is done, and the episode has not terminated")
    play.need(last.info["success"], "the expert's plan ends without success")


def _asked_anew(play: Play, number: int, split: str, optimal: int | None) -> None:
    play.reset(0, {"task": number, "split": split})
    total = 0.0
    while not play.ended:
        plan = play.expert()
        play.need(bool(plan), "expert() is empty, and the episode is not over")
        total += play.step(plan[0]).reward
        play.require_possible(total)
    play.need(play.env.succeeded, "asked again before each step, the expert does not reach success")
    steps = len(play.moves.actions)
    play.need(
        optimal in (None, steps),
        f"asked again before each step, the expert takes {steps} steps, optimal_steps is {optimal}",
    )


@dataclass(slots=True)
class _Fair:
    """The fair expert in many tasks: where two have shown the same it must not tell their secrets apart."""

    won: int = 0
    tried: int = 0
    unshown: int = 0
    """Tasks in which it said a secret that no observation had shown."""
    _said: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    """Its action by what was to be seen, and the secrets in it that were not."""

    def plays(self, play: Play, number: int, split: str) -> None:
        """It may fail, but not raise, nor go on after the end, nor know more than was shown."""
        play.reset(0, {"task": number, "split": split})
        seen, guessed = [_instruction(play), play.observation], False
        while not play.ended:
            action = play.env.fair_expert()
            if action is None:
                break
            play.need(isinstance(action, str), f"fair_expert() gives {action!r}")
            guessed |= bool(self._secrets_in(play, action, seen))
            play.step(action)
            seen += [action, play.observation]
        self.won += play.env.succeeded
        self.tried += 1
        self.unshown += guessed

    def _secrets_in(self, play: Play, action: str, seen: Sequence[str]) -> list[str]:
        """The unshown secrets in its action, which must be what it did where the same was to be seen."""
        text = "\n".join(seen).lower()
        secrets = [each for each in play.env.secrets() or [] if stands_in(each.lower(), action.lower())]
        secrets = [each for each in secrets if not stands_in(each.lower(), text)]
        moment = json.dumps([*seen, play.env.actions()])
        other, others = self._said.setdefault(moment, (action, secrets))
        told = [*secrets, *others]
        if other != action and told:
            message = (
                f"fair_expert() says {shown(action)} here and {shown(other)} in another task that has shown the same: "
                f"no observation has shown the secret {shown(told[0])}"
            )
            raise BrokenContractError(message, replace(play.moves, after="print(env.fair_expert())"))
        return secrets

    @property
    def told(self) -> str:
        """How it did, and how far it was looked at what it knows."""
        unshown = f", in {self.unshown} by a secret that it had to find out or guess" if self.unshown else ""
        return f"the fair expert succeeds in {self.won} of {self.tried} tasks{unshown}"


def actions(subject: Subject) -> None:
    """Most of what `actions()` lists can be done, in a fork of each moment of a few episodes."""
    refused = tried = 0
    fork = subject.make()
    for seed in subject.seeds(subject.settings.few):
        play, rng = subject.play(), subject.rng("actions", seed)
        play.reset(seed)
        for _ in range(_MOMENTS):
            listed = [] if play.ended else play.env.actions()
            if listed is None:
                raise NotApplicableError("actions() lists none")
            if not listed:
                break
            before = play.snapshot()
            chosen = rng.sample(listed, min(_LISTED, len(listed)))
            wrong = [each for each in chosen if not _can_be_done(fork, before, each)]
            refused, tried = refused + len(wrong), tried + len(chosen)
            none = len(wrong) == len(chosen) > 1
            play.need(not none, f"none of {len(wrong)} listed actions can be done, such as {shown(chosen[0])}")
            play.step(rng.choice(chosen))
    told = f"{refused} of {tried} listed actions were refused"
    subject.need(2 * refused <= tried, f"{told}: list what can be done")
    subject.notes.append(told)


def _can_be_done(fork: TextEnv, before: bytes, action: str) -> bool:
    fork.restore(before)
    return bool(fork.step(action)[4]["valid_action"])


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
    "repeats one action": lambda play, rng, first: first,
    "repeats the instruction": lambda play, rng, first: _instruction(play),
}


def _instruction(play: Play) -> str:
    task = play.env.current_task
    return task.instruction if task else ""


def random_baseline(subject: Subject) -> None:
    """Agents that do not think succeed no more often than the world's `random_baseline`, 5 % by default.

    Who comes above it plays ten times as many episodes. A fault is what would come about by chance in fewer than 1 of
    10,000 runs if the agent's rate were the baseline.
    """
    numbers = subject.tasks("test", subject.settings.episodes)
    if not numbers:
        raise NotApplicableError("no test tasks")
    for name in THOUGHTLESS:
        won, tried = _wins(subject, name, numbers), len(numbers)
        if len(won) > subject.shared.random_baseline * tried:
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
    least = subject.shared.random_baseline
    chance = tail(len(won), tried, least)
    share = f"{len(won)} of {tried} episodes, the random baseline is {least:.0%}"
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
