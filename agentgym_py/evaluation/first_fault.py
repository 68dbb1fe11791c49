"""First faults: of each failed episode the first step that lost something, by an expert or by the agent's own forks.

An expert gives the exact answer. The episode is replayed once beside the expert's plan. While the agent follows the
plan nothing is lost. At each other step the expert plans before and after it, and each plan is played to its end on a
fork. The step is a fault if no plan succeeds after it, or if it costs at least `min_regret` steps:

    regret = 1 + steps of the plan after the step - steps of the plan before it.

The agent's own forks give an estimate: each state is continued several times, and a fault is the first step after
which the share of successes falls by more than chance explains. It needs no expert, and it does not call exploration a
fault. It costs `attempts` episodes per step.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import compress, pairwise
from statistics import median
from typing import Any, Literal, NamedTuple, TypeAlias

from agentgym_py.collection.env_pool import EnvPool
from agentgym_py.collection.expert_plans import tool_name
from agentgym_py.collection.watchdog import Watchdog
from agentgym_py.env import EnvSpec, StopReason, TextEnv
from agentgym_py.errors import AgentGymError, ConfigError, SnapshotError
from agentgym_py.evaluation.stats import Estimate, fisher_greater, success_rate
from agentgym_py.evaluation.text import format_interval
from agentgym_py.rewards.state_values import (
    DISCOUNT,
    Play,
    PlayedPlan,
    Value,
    monte_carlo,
    play_plan,
    replayable,
    try_each,
)
from agentgym_py.trajectory import Trajectory

Expert: TypeAlias = Literal["exact", "fair"]
WRONG_END, DEAD_END, TOO_FEW_STEPS = "wrong end", "dead end", "too few steps left"
DETOUR, WASTED_STEP, LOWER_CHANCE = "detour", "wasted step", "lower chance"
FAULTS = (WRONG_END, DEAD_END, TOO_FEW_STEPS, DETOUR, WASTED_STEP, LOWER_CHANCE)
"""Kinds of fault. The first four and `wasted step` come from an expert, `wrong end` and `lower chance` from forks.

- `wrong end`: the world ended the episode without success.
- `dead end`: the expert cannot succeed any more.
- `too few steps left`: the expert's plan is longer than the steps that are left.
- `detour`: the expert needs more steps than before.
- `wasted step`: the expert needs as many steps as before; a fault only with a `min_regret` of 1.
- `lower chance`: the agent's own chance of success has fallen.
"""
UNSOLVED, GAVE_UP = "whose expert does not succeed from the start", "that the agent gave up without a fault"
NO_FALL = "whose value does not fall"
TOO_FEW_FORKS = "with so few forks for its steps that even a fall from all to none would not be a fault"
"""Reasons why a failed episode has no first fault, beside those of `rewards.state_values`."""
_SEARCHED = (UNSOLVED, GAVE_UP, NO_FALL, TOO_FEW_FORKS)
MIN_REGRET = 2
ATTEMPTS = 16
LEVEL = 0.05
_FRESH = 1 << 20
"""Number of the first fork's attempt, so that no fork has the seed of a stored episode."""
_EXACT = "the exact expert"
_TOOLS = 5
"""Tools and kinds of task that a table shows."""
_LONGEST_TOOL = 24
"""Characters of a tool's name in a table."""
_CALL = re.compile(r"\s*\w+([\[(]|\s*\{)")
"""The beginning of a call, such as `click[` or `get_order {`; prose such as `Note [1] says` is none."""
_ONLY_LOST = 100
"""A `min_regret` that no detour of the worlds' episodes reaches."""
_LONGEST = 80
"""Characters of an action in a line of text."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The first step of an episode that lost something."""

    step: int
    """Its number, from 1."""
    kind: str
    """One of `FAULTS`."""
    tool: str
    """The tool that it called, or the first word of its action; empty without one.

    In a `FirstFaults` it is also empty for other text: no call, and no valid action or expert's begins so.
    """
    action: str
    better: str | None
    """What the expert would have done; None for forks."""
    before: float
    """Value of the state before it: 0.9 to the power of the steps to success, or the share of forks that succeed."""
    after: float
    regret: int | None = None
    """Steps that it cost; None if success has become impossible, and for forks."""
    p: float | None = None
    """One-sided p of the fall, for forks."""
    wasted: int | None = None
    """First earlier step after which the expert needed as many steps as before; None without one, and for forks."""

    def __str__(self) -> str:
        """Return `step 4, click[buy now]; the expert: click[red]`, or the fall of the share of forks."""
        action = f"step {self.step}, {_one_line(self.action) or 'no action'}"
        if self.better is None:
            return f"{action}; success of its forks {100 * self.before:.0f} % before, {100 * self.after:.0f} % after"
        cost = f", {self.regret} step{'s' * (self.regret > 1)} more" if self.regret else ""
        return f"{action}{cost}; the expert: {_one_line(self.better)}"


class LocatedFault(NamedTuple):
    """A failed episode with its first fault."""

    trajectory: Trajectory
    fault: Fault


@dataclass(frozen=True, slots=True)
class FaultGroup:
    """The first faults that have something in common."""

    count: int
    share: Estimate
    """Share of all first faults, clustered by task."""
    step: float
    """Median of the numbers of the steps."""
    example: str
    """Id of the first such trajectory."""


@dataclass(frozen=True, slots=True)
class FirstFaults:
    """The first faults of a batch of episodes."""

    by: str
    """What located them: `the exact expert`, `the fair expert`, or `16 forks per state`."""
    failures: int
    """Failed episodes, without those that an infrastructure failure ended."""
    located: Sequence[LocatedFault]
    without: Mapping[str, int]
    """Why the other failed episodes have no first fault, with their numbers."""
    min_regret: int | None = None
    """Steps that a step must cost to be a fault; None for forks."""

    @property
    def unsearched(self) -> int:
        """Number of failures that do not replay, or whose expert has no plan."""
        return sum(number for reason, number in self.without.items() if reason not in _SEARCHED)

    @property
    def by_kind(self) -> dict[str, FaultGroup]:
        """The faults by kind, in the order of `FAULTS`."""
        groups = self._groups(lambda located: located.fault.kind)
        return {kind: groups[kind] for kind in FAULTS if kind in groups}

    @property
    def by_tool(self) -> dict[str, FaultGroup]:
        """The faults by the tool that the step called, the most frequent first."""
        return self._groups(lambda located: located.fault.tool)

    @property
    def by_task_kind(self) -> dict[str, FaultGroup]:
        """The faults by the kind of the task, the most frequent first."""
        return self._groups(lambda located: located.trajectory.kind)

    def _groups(self, key: Callable[[LocatedFault], str]) -> dict[str, FaultGroup]:
        members = defaultdict[str, list[LocatedFault]](list)
        for located in self.located:
            members[key(located)].append(located)
        tasks = [trajectory.provenance.task_key for trajectory, _ in self.located]
        groups = {
            name: FaultGroup(
                len(group), success_rate([key(located) == name for located in self.located], tasks),
                median(fault.step for _, fault in group), group[0].trajectory.id,
            )
            for name, group in members.items()
        }  # fmt: skip
        return dict(sorted(groups.items(), key=lambda item: -item[1].count))

    def as_dict(self) -> dict[str, Any]:
        """Return the profile and every fault as JSON values."""
        groups = {name: getattr(self, name) for name in ("by_kind", "by_tool", "by_task_kind")}
        rows = [{"trajectory": t.id, "task": t.task_id, "steps": len(t.steps)} | asdict(f) for t, f in self.located]
        return {
            "by": self.by, "min_regret": self.min_regret, "failures": self.failures, "located": len(self.located),
            "without": dict(self.without),
            **{name: {key: asdict(group) for key, group in of.items()} for name, of in groups.items()}, "faults": rows,
        }  # fmt: skip

    def __str__(self) -> str:
        """Return the profile as lines of text."""
        rows = (
            f"{f'by {by}: ' if by else ''}{name}: {count}, {share}, median step {step}"
            for by, name, count, share, step in fault_rows(self)
        )
        return "\n".join([fault_title(self), *rows, *fault_notes(self)])


def first_faults(
    trajectories: Sequence[Trajectory], *, by: Expert = "exact", min_regret: int = MIN_REGRET
) -> FirstFaults:
    """Locate the first fault of each failed episode by an expert's plans.

    The exact expert knows the whole state, so it calls exploration a detour. The fair expert knows only what the
    episode has shown; its plan is what it does when it continues from a state.

    Raises:
        ConfigError: `by` is no expert, or `min_regret` is below 1.
    """
    require_settings(by, min_regret)
    failures = _failures(trajectories)

    def locate(trajectory: Trajectory, pool: EnvPool) -> Fault | str:
        with pool.lent(trajectory.replay_spec()) as env, Watchdog():  # it ends copies of this process by a world
            return fault_or_reason(trajectory, env, by, min_regret)

    return _profile(f"the {by} expert", failures, *try_each(failures, locate), min_regret=min_regret)


def require_settings(by: str, min_regret: int) -> None:
    """Raise ConfigError unless `by` is an expert and `min_regret` at least 1."""
    if by not in ("exact", "fair"):
        raise ConfigError(f"by must be exact or fair, not {by!r:.60}")
    if min_regret < 1:
        raise ConfigError(f"min_regret must be at least 1, got {min_regret}")


def find_first_fault(trajectory: Trajectory, by: Expert = "exact", min_regret: int = MIN_REGRET) -> Fault | None:
    """Return the first fault of one episode, a success or a failure; None without one, or if it does not replay."""

    def locate(trajectory: Trajectory, pool: EnvPool) -> Fault | str:
        with pool.lent(trajectory.replay_spec()) as env, Watchdog():
            return fault_or_reason(trajectory, env, by, min_regret)

    (found,), _ = try_each([trajectory], locate)
    return found if isinstance(found, Fault) else None


def fault_or_reason(trajectory: Trajectory, env: TextEnv, by: Expert, min_regret: int) -> Fault | str:
    """Replay an episode in `env` beside an expert's plan; return the first fault, or why there is none.

    The replay ends at the fault.

    Raises:
        SnapshotError: the environment behaves differently on replay.
        ExpertError: its expert failed.
    """
    observation = trajectory.restart(env)
    plan, is_new = play_plan(env, fair=by == "fair"), True
    wasted: int | None = None
    if not plan.success:
        return UNSOLVED
    observations = [*(step.observation for step in trajectory.steps), trajectory.final_observation]
    if observation != observations[0]:
        raise SnapshotError(f"{trajectory.id}: the first observation differs on replay")
    for number, step in enumerate(trajectory.steps, 1):
        follows = _follows(env, step.reply, plan)
        if not follows and not is_new:  # an expert without shortest plans may know a shorter one by now
            plan = min(plan, play_plan(env, fair=by == "fair"), key=lambda each: (not each.success, len(each.actions)))
            follows = _follows(env, step.reply, plan)
        better = env.read(plan.actions[0]) if plan.actions else None
        observation, *_ = env.step(step.reply)
        if observation != observations[number]:
            raise SnapshotError(f"{trajectory.id}: the observation after step {number} differs on replay")
        before, is_new = plan, not follows
        plan = plan._replace(actions=plan.actions[1:]) if follows else play_plan(env, fair=by == "fair")
        regret = 1 + len(plan.actions) - len(before.actions)
        if not plan.success or regret >= min_regret:
            return Fault(
                number, _kind(env, plan, regret), tool_name(step.action), _text(step.action, step.action_input),
                _text(better.action, better.action_input) if better else None, before=DISCOUNT ** len(before.actions),
                after=DISCOUNT ** len(plan.actions) if plan.success else 0.0,
                regret=regret if plan.success else None, wasted=wasted,
            )  # fmt: skip
        wasted = number if wasted is None and regret > 0 else wasted
    return GAVE_UP if trajectory.given_up else NO_FALL


def _follows(env: TextEnv, reply: str, plan: PlayedPlan) -> bool:
    """Return whether a reply is the first action of a plan."""
    if not plan.actions:
        return False
    one, other = env.read(plan.actions[0]), env.read(reply)
    return (one.action, one.action_input, one.error) == (other.action, other.action_input, other.error)


def _kind(env: TextEnv, plan: PlayedPlan, regret: int) -> str:
    """Return the kind of the fault that led to the environment's state, of which `plan` is the expert's plan."""
    if plan.success:
        return DETOUR if regret > 1 else WASTED_STEP
    if env.stop_reason is StopReason.TERMINATED:
        return WRONG_END
    return TOO_FEW_STEPS if plan.stop_reason is StopReason.TRUNCATED else DEAD_END


# ---- by forks -------------------------------------------------------------------------------------------------------


def worlds_of(trajectories: Iterable[Trajectory]) -> list[EnvSpec]:
    """Return the worlds of stored episodes, without those that name none which may be made."""
    worlds = []
    for trajectory in trajectories:
        with suppress(AgentGymError):
            worlds.append(trajectory.env_spec())
    return worlds


def first_faults_by_forks(
    trajectories: Sequence[Trajectory],
    play: Play,
    *,
    attempts: int = ATTEMPTS,
    level: float = LEVEL,
    seed: int = 0,
) -> FirstFaults:
    """Locate the first fault of each failed episode by continuations of all of its states, all played as one batch.

    A fault is the first step after which the share of successes falls by Fisher's exact test, one-sided at `level`
    divided by the number of the episode's steps (Bonferroni). Of the episodes whose value never falls, at most this
    share have a fault.

    Args:
        trajectories: Episodes; successes are left out.
        play: Continues episodes by the agent that played them. It must sample: a greedy agent repeats its failure.
        attempts: Continuations per state.
        level: Chance of a false fault per episode.
        seed: Orders the states; `play` has its own.

    Raises:
        ConfigError: fewer than two attempts, or a level that is not between 0 and 0.5.
    """
    if attempts < 2:
        raise ConfigError(f"attempts must be at least 2, got {attempts}")
    if not 0 < level < 0.5:
        raise ConfigError(f"level must be above 0 and below 0.5, got {level}")
    failures = _failures(trajectories)
    replays, reasons = replayable(failures)
    kept = list(compress(failures, replays))
    values = monte_carlo(kept, play, attempts=attempts, seed=seed, first_attempt=_FRESH) if kept else []
    found = [fault_of_values(*pair, level) for pair in zip(kept, values, strict=True)]
    return _profile(f"{attempts} forks per state", failures, found, reasons, kept)


def fault_of_values(trajectory: Trajectory, values: Sequence[Value | None], level: float = LEVEL) -> Fault | str:
    """Return the first fault by estimated values of the T + 1 states, or why there is none."""
    for number, (before, after) in enumerate(pairwise(values), 1):
        if before is None or after is None:
            continue
        if (p := _fall_p(before, after)) <= level / len(trajectory.steps):
            step = trajectory.steps[number - 1]
            ended = number == len(trajectory.steps) and trajectory.terminated
            return Fault(
                number, WRONG_END if ended else LOWER_CHANCE, tool_name(step.action),
                _text(step.action, step.action_input), None, before.mean, after.mean, p=p,
            )  # fmt: skip
    attempts = max((value.attempts for value in values if value), default=0)
    steps = len(trajectory.steps)
    if attempts and steps and fisher_greater(attempts, attempts, 0, attempts) > level / steps:
        return TOO_FEW_FORKS
    return GAVE_UP if trajectory.given_up else NO_FALL


def _fall_p(before: Value, after: Value) -> float:
    """Return the p of a fall; the end of a failure, which needs no forks, counts as many failed ones."""
    attempts = after.attempts or before.attempts
    successes = round(before.mean * before.attempts), round(after.mean * attempts)
    return fisher_greater(successes[0], before.attempts, successes[1], attempts)


# ---- tables ---------------------------------------------------------------------------------------------------------


def fault_title(faults: FirstFaults) -> str:
    """Return `first faults of 42 failures by the exact expert: 40 located`."""
    failures = f"{faults.failures} failure{'s' * (faults.failures != 1)}"
    return f"first faults of {failures} by {faults.by}: {len(faults.located)} located"


def fault_rows(faults: FirstFaults) -> list[tuple[str, str, str, str, str]]:
    """Return the rows of a table: by what it groups, group, number of faults, their share, median step.

    Each grouping shows all the faults; its first row names it. Those by tool and by task are left out if all faults
    have the same.
    """
    groupings = {"fault": faults.by_kind}
    for by, groups in (("tool", faults.by_tool), ("task", faults.by_task_kind)):
        if len(groups) > 1:
            groupings[by] = dict(list(groups.items())[:_TOOLS])
    return [
        ("" if place else by, tool_label(name), str(group.count), format_interval(group.share), f"{group.step:g}")
        for by, groups in groupings.items()
        for place, (name, group) in enumerate(groups.items())
    ]


def tool_label(name: str) -> str:
    """Return a tool's name for a table; a model can make one up that is as long as a reply."""
    return (name if len(name) <= _LONGEST_TOOL else f"{name[: _LONGEST_TOOL - 1]}…") or "(no known action)"


def fault_notes(faults: FirstFaults) -> list[str]:
    """Return an example of each kind of fault, and why other failures have none."""
    notes = []
    for kind, group in faults.by_kind.items():
        found = next(located.fault for located in faults.located if located.trajectory.id == group.example)
        notes.append(f"{kind}, for example {group.example}: {found}")
    if wasted := [fault.wasted for _, fault in faults.located if fault.kind == WRONG_END and fault.wasted]:
        number = faults.by_kind[WRONG_END].count
        notes.append(
            f"{len(wasted)} of {number} wrong ends come after a wasted step, the first of them at step "
            f"{median(wasted):g} in the median"
        )
    if faults.min_regret and DETOUR in faults.by_kind:
        least = max(2, faults.min_regret)
        notes.append(
            f"a detour costs at least {least} steps; with agentgym faults FILE --min_regret {_ONLY_LOST} only steps "
            "after which the expert cannot succeed are faults"
        )
    notes += [f"{number} failure{'s' * (number > 1)} {reason}" for reason, number in faults.without.items()]
    if faults.by == _EXACT and faults.located:
        notes.append(
            f"{_EXACT} knows what is hidden from the agent; the fair one does not: agentgym faults FILE --by fair"
        )
    return notes


def _failures(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    return [trajectory for trajectory in trajectories if trajectory.is_evidence and not trajectory.success]


def _profile(
    by: str, failures: Sequence[Trajectory], found: Sequence[Fault | str | None], reasons: Mapping[str, int],
    of: Sequence[Trajectory] | None = None, min_regret: int | None = None,
) -> FirstFaults:  # fmt: skip
    """Make a profile of what was found of each episode in `of`, by default all failures."""
    pairs = zip(failures if of is None else of, found, strict=True)
    located = _with_tools([LocatedFault(trajectory, fault) for trajectory, fault in pairs if isinstance(fault, Fault)])
    without = Counter(reasons) + Counter(reason for reason in found if isinstance(reason, str))
    return FirstFaults(by, len(failures), located, dict(without), min_regret)


def _with_tools(located: Sequence[LocatedFault]) -> list[LocatedFault]:
    """Leave out the tool of faults that are text: neither a call nor begun like a valid action or the expert's."""
    known = {tool_name(step.action) for trajectory, _ in located for step in trajectory.steps if step.valid}
    known |= {tool_name(fault.better) for _, fault in located if fault.better}
    return [
        found if found.fault.tool in known or _CALL.match(found.fault.action)
        else found._replace(fault=replace(found.fault, tool=""))
        for found in located
    ]  # fmt: skip


def _text(action: str, action_input: str | None) -> str:
    return action if action_input is None else f"{action} {action_input}"


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
