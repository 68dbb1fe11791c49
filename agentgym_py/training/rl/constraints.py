"""Constraints on the costs of episodes, with a Lagrange multiplier for each.

Maximize E[R] subject to E[C_i] <= d_i, where C_i is the sum of cost i over an episode (`TextEnv.costs`). The
Lagrangian E[R] - sum_i lambda_i (E[C_i] - d_i) is maximized over the policy, by any trainer, and minimized over
lambda_i >= 0. After an iteration's episodes, whose mean cost is J_i, a PID controller moves each multiplier (Stooke et
al., arXiv:2007.03964, algorithm 2):

    delta = J_i - d_i
    I_i <- max(0, I_i + K_I delta)
    lambda_i = max(0, K_P delta + I_i + K_D max(0, J_i - J_i'))

J_i' is the mean cost of the iteration before. With K_P = K_D = 0 it is dual ascent with the step K_I. The policy learns
from (R - sum_i lambda_i C_i) / (1 + sum_i lambda_i): the division keeps the scale of the rewards (their
algorithm 1).

Deviations: K_I is inside the sum, so that a change of it does not move the multiplier; derivatives are not smoothed;
one critic values the penalized reward, where the paper has another critic for costs.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from agentgym_py import distributed
from agentgym_py.checks import is_finite, require_at_least
from agentgym_py.errors import ConfigError, DataError, did_you_mean
from agentgym_py.files import load_json, write_atomic
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.types import OMIT_DEFAULT

_FILE = "multipliers.json"
_CONSTRAINT = re.compile(r"\s*(?P<cost>[^<>=,\s]+)\s*<=\s*(?P<limit>[^<>=,\s]+)\s*")


class Constraint(NamedTuple):
    """A limit of a cost."""

    cost: str
    """Name of the cost, one of a world's `TextEnv.costs`."""
    limit: float
    """Largest mean of its sum over an episode."""


def parse_constraints(text: str) -> list[Constraint]:
    """Parse constraints such as `deletions<=0.01,wrong_purchase<=0.1`; an empty text has none.

    Raises:
        ConfigError: a part is no `COST<=LIMIT` with a limit of at least 0, or a cost occurs twice.
    """
    constraints = list[Constraint]()
    for part in text.split(",") if text.strip() else ():
        match = _CONSTRAINT.fullmatch(part)
        limit = _number(match["limit"]) if match else math.nan
        if match is None or not 0 <= limit < math.inf:
            raise ConfigError(
                f"constraint {text!r}: {part.strip()!r} is not COST<=LIMIT with a limit of at least 0, such as "
                "deletions<=0.01"
            )
        if match["cost"] in [constraint.cost for constraint in constraints]:
            raise ConfigError(f"constraint {text!r}: {match['cost']} is there twice; give it one limit")
        constraints.append(Constraint(match["cost"], limit))
    return constraints


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


@dataclass(frozen=True)  # without slots: a class has one base with slots
class ConstraintSettings:
    """Settings of a training whose episodes' costs are constrained."""

    constraint: str = field(default="", metadata=OMIT_DEFAULT)
    """Limits of a world's mean costs per episode, such as `deletions<=0.01,unasked_changes<=0.1`; see
    docs/guides/safety.md."""
    lagrange_ki: float = field(default=1.0, metadata=OMIT_DEFAULT)
    """How much a multiplier grows per iteration and unit of cost above the limit: the step of dual ascent."""
    lagrange_kp: float = field(default=0.0, metadata=OMIT_DEFAULT)
    """Proportional gain: how much larger a multiplier is per unit of cost above the limit, as long as it is above."""
    lagrange_kd: float = field(default=0.0, metadata=OMIT_DEFAULT)
    """Derivative gain: how much larger a multiplier is per unit by which a cost has grown since the last iteration."""
    multipliers: Path | None = field(default=None, metadata=OMIT_DEFAULT)
    """File of the multipliers to start from, such as runs/a/rounds/01/training/multipliers.json; `agentgym evolve`
    passes them from round to round."""

    def __post_init__(self) -> None:
        require_at_least(self, {"lagrange_ki": 0.0, "lagrange_kp": 0.0, "lagrange_kd": 0.0})
        if not self.constraints:
            changed = ("lagrange_ki", 1.0), ("lagrange_kp", 0.0), ("lagrange_kd", 0.0), ("multipliers", None)
            for name, default in changed:
                if getattr(self, name) != default:
                    raise ConfigError(f"{name} needs a constraint, such as deletions<=0.01")
        elif not self.lagrange_ki and not self.lagrange_kp:
            raise ConfigError("lagrange_ki and lagrange_kp must not both be 0: a constraint would change nothing")

    @property
    def constraints(self) -> list[Constraint]:
        """The parsed `constraint`."""
        return parse_constraints(self.constraint)

    def check_costs(self, costs: Collection[str]) -> None:
        """Raise ConfigError if a constraint is on none of these costs, which a run's worlds name."""
        for constraint in self.constraints:
            if constraint.cost not in costs:
                known = did_you_mean(constraint.cost, sorted(costs), "They name") if costs else ""
                raise ConfigError(f"constraint {self.constraint!r}: no world of the run names this cost.{known}")


@dataclass(slots=True)
class Multiplier:
    """A constraint's Lagrange multiplier under PID control."""

    value: float = 0.0
    integral: float = 0.0
    """The sum of the excesses so far, each times K_I, never below 0."""
    last_cost: float | None = None
    """Mean cost of the iteration before."""

    def update(self, cost: float, limit: float, *, ki: float, kp: float = 0.0, kd: float = 0.0) -> None:
        """Move it after an iteration whose episodes had this mean cost; see the module's formula."""
        excess = cost - limit
        rise = max(0.0, cost - self.last_cost) if self.last_cost is not None else 0.0
        self.integral = max(0.0, self.integral + ki * excess)
        self.value = max(0.0, kp * excess + self.integral + kd * rise)
        self.last_cost = cost


class Multipliers:
    """The multipliers of a training's constraints; a `Checkpointable`. Without constraints it changes nothing."""

    def __init__(self, settings: ConstraintSettings) -> None:
        self.settings = settings
        self._limits = dict(settings.constraints)
        self._by_cost = {cost: Multiplier() for cost in self._limits}
        self.logged: dict[str, float] = {}
        """Logs of the last iteration."""
        if settings.multipliers is not None:
            self._read(settings.multipliers)

    def __bool__(self) -> bool:
        return bool(self._limits)

    @property
    def values(self) -> dict[str, float]:
        """Each constraint's multiplier, by the name of its cost."""
        return {cost: multiplier.value for cost, multiplier in self._by_cost.items()}

    def update(self, trajectories: Iterable[Trajectory], *, frozen: bool = False) -> None:
        """Move the multipliers after an iteration's episodes; `frozen` only logs, because the policy is not trained.

        Episodes that infrastructure failures ended do not count.
        """
        if not self:
            return
        costs = [trajectory.costs for trajectory in trajectories if trajectory.is_evidence]
        self.logged = {}
        for cost, multiplier in self._by_cost.items():
            if costs:
                mean = fmean(episode.get(cost, 0.0) for episode in costs)
                self.logged[f"cost/{cost}"] = mean
                if not frozen:
                    gains = self.settings
                    multiplier.update(
                        mean, self._limits[cost], ki=gains.lagrange_ki, kp=gains.lagrange_kp, kd=gains.lagrange_kd
                    )
            self.logged[f"multiplier/{cost}"] = multiplier.value

    def penalize(self, reward: float, costs: Mapping[str, float]) -> float:
        """Return (reward - sum_i lambda_i cost_i) / (1 + sum_i lambda_i)."""
        penalty = math.fsum(value * costs.get(cost, 0.0) for cost, value in self.values.items())
        return (reward - penalty) / (1 + math.fsum(self.values.values()))

    def penalize_steps(self, trajectory: Trajectory) -> Trajectory:
        """Return a copy whose steps are paid the penalized reward."""
        if not self:
            return trajectory
        steps = [replace(step, reward=self.penalize(step.reward, step.costs)) for step in trajectory.steps]
        return replace(trajectory, steps=tuple(steps), reward=math.fsum(step.reward for step in steps))

    # ---- states -----------------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Write the multipliers into a folder."""
        if self and distributed.is_rank_zero():
            folder.mkdir(parents=True, exist_ok=True)
            state = {cost: asdict(multiplier) for cost, multiplier in self._by_cost.items()}
            write_atomic(folder / _FILE, json.dumps(state))

    def load(self, folder: Path) -> None:
        """Restore the multipliers that `save` wrote."""
        if self:
            self._read(folder / _FILE)

    def _read(self, path: Path) -> None:
        """Read the multipliers of a file, also of other constraints; a constraint that it lacks starts at 0.

        Raises:
            DataError: no such file, or one of something else.
        """
        try:
            stored = dict(load_json(path))
            found = {cost: Multiplier(**stored[cost]) for cost in self._by_cost if cost in stored}
            numbers = [number for m in found.values() for number in (m.value, m.integral, m.last_cost or 0.0)]
            if not found and not stored:
                raise ValueError("it has no multiplier")
            if not all(is_finite(number) and number >= 0 for number in numbers):
                raise ValueError("a number is negative or not finite")
        except (OSError, ValueError, TypeError, LookupError) as error:
            raise DataError(f"{path}: no file of multipliers: {error}") from error
        self._by_cost |= found


def continue_multipliers(trainer: Any, folders: Sequence[Path]) -> Any:
    """Return a trainer that starts from the multipliers of the last of these training folders that has some.

    A trainer without constraints, or with a file of its own and none in the folders, is returned as it is.
    """
    if not getattr(trainer, "constraint", ""):
        return trainer
    files = [path for folder in folders if (path := folder.absolute() / _FILE).is_file()]
    return replace(trainer, multipliers=files[-1]) if files else trainer
