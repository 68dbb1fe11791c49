"""The evaluator: an agent on held-out tasks, with intervals."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from agentgym_py.agents import Agent
from agentgym_py.collection import Collector, PlayConfig, jobs_for
from agentgym_py.collection.collector import Progress
from agentgym_py.env import EnvSpec
from agentgym_py.env.registration import short_name
from agentgym_py.errors import ConfigError
from agentgym_py.evaluation.failures import Failure, failures
from agentgym_py.evaluation.stats import Estimate, bootstrap_mean, pass_all, pass_at, success_rate
from agentgym_py.files import canonical_json
from agentgym_py.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class Spent:
    """What endpoints counted in a batch of episodes, those that an infrastructure failure ended included."""

    replies: int
    """How many replies they gave; of what is asked again only the last answer counts."""
    prompt_tokens: int
    completion_tokens: int
    uncounted: int
    """Replies of which the endpoint did not say both; they add nothing to the sums."""
    cost: float | None
    """By the prices that their user gave; None without them."""
    models: tuple[str, ...]
    """What the endpoints call the models that answered."""

    def __str__(self) -> str:
        tokens = f"{self.prompt_tokens:,} prompt and {self.completion_tokens:,} completion tokens"
        unknown = f", {self.uncounted} replies not counted" * bool(self.uncounted)
        return f"{self.replies:,} replies, {tokens}{unknown}" + ("" if self.cost is None else f", cost {self.cost:.4g}")


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a batch of episodes says of an agent; episodes that an infrastructure failure ended are left out."""

    success: Estimate
    """Success rate: Wilson's interval, or clustered by task where a task was played more than once."""
    reward: Estimate
    """Mean return with its bootstrap interval, which is nan where there are too few tasks for one."""
    steps: float
    """Mean length of an episode in steps."""
    invalid: float
    """Share of actions that the world could not do."""
    by_kind: Mapping[str, Estimate]
    """Success rate by task type."""
    by_difficulty: Mapping[str, Estimate]
    """Success rate by difficulty."""
    errors: int
    """Episodes left out."""
    given_up: int
    """Episodes that the agent ended, such as a model whose context was full; they count."""
    tokens: float | None
    """Mean number of tokens that the model sampled in an episode; None where the agent is none, or its endpoint did
    not say."""
    pass_at: Mapping[int, Estimate]
    """By k, the chance that one of k tries at a task succeeds, without bias; of tasks with at least k
    attempts. Empty if each was played once."""
    pass_all: Mapping[int, Estimate]
    """By k, pass^k: the chance that all of k tries succeed."""
    failures: Mapping[str, Failure]
    """By kind (`behaviour.FAILURES`): how many episodes failed so, and one of them."""
    spent: Spent | None
    """What it took, where an endpoint replied."""
    rewards: Mapping[float, int]
    """How many episodes came to each return, which is rounded to two digits."""
    surprisal: float | None
    """Mean negative log-probability, in nats, of the tokens that a model sampled: at a temperature above 0 an estimate
    of their entropy. None where no such tokens are recorded."""

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return asdict(self)


def evaluate(
    agent: Agent,
    envs: Sequence[EnvSpec | str] | EnvSpec | str,
    split: str,
    tasks: Iterable[int],
    *,
    attempts: int = 1,
    play: PlayConfig | None = None,
    progress: Progress | None = None,
    before: Sequence[Trajectory] = (),
) -> tuple[Evaluation, list[Trajectory]]:
    """Let `agent` play these tasks of a split, each `attempts` times; return the summary and the episodes.

    `progress` is called with each episode in order. `before` are the first episodes of an evaluation that was
    interrupted.

    Raises:
        ConfigError: nothing was measured, as there is nothing to play or the agent gave up every episode before its
            first reply.
    """
    jobs = jobs_for(envs, split, tasks, attempts)
    if not jobs:
        raise ConfigError("nothing to evaluate: worlds, tasks and attempts must not be none")
    played = list(before)
    for trajectory in Collector(agent, play or PlayConfig()).iter_ordered(jobs[len(played) :]):
        played.append(trajectory)
        if progress:
            progress(trajectory)
    if played and all(t.given_up and not t.steps for t in played):
        raise ConfigError(
            f"{agent.name} gave up all {len(played)} episodes before its first reply (a model does where the opening "
            "and max_new_tokens do not fit into its context): nothing was measured"
        )
    return summarise(played), played


def summarise(trajectories: Sequence[Trajectory]) -> Evaluation:
    """Success, reward and behaviour of one agent's episodes."""
    good = [t for t in trajectories if t.is_evidence]
    steps = [step for t in good for step in t.steps]
    return Evaluation(
        success=_success(good),
        reward=bootstrap_mean([t.reward for t in good], clusters=[t.provenance.task_key for t in good]),
        steps=fmean(len(t.steps) for t in good) if good else 0.0,
        invalid=fmean(not step.valid for step in steps) if steps else 0.0,
        by_kind=_grouped(good, lambda t: t.kind),
        by_difficulty=_grouped(good, lambda t: t.difficulty),
        errors=len(trajectories) - len(good),
        given_up=sum(t.given_up for t in good),
        tokens=_tokens_an_episode(good),
        pass_at=_passes(good, pass_at),
        pass_all=_passes(good, pass_all),
        failures=failures(good),
        spent=_spent(trajectories),
        rewards=dict(Counter(sorted(float(f"{t.reward:.2g}") for t in good))),  # asdict knows no Counter
        surprisal=_surprisal(good),
    )


def _surprisal(trajectories: Sequence[Trajectory]) -> float | None:
    records = [step.tokens for t in trajectories for step in t.steps if step.tokens]
    sampled = sum(sum(each.mask) for each in records)
    return -math.fsum(sum(each.logprobs) for each in records) / sampled if sampled else None


def _tokens_an_episode(trajectories: Sequence[Trajectory]) -> float | None:
    spent = _spent(trajectories)
    if spent and not spent.uncounted:
        return spent.completion_tokens / len(trajectories)
    if not any(t.has_tokens for t in trajectories):
        return None
    return fmean(sum(sum(step.tokens.mask) for step in t.steps if step.tokens) for t in trajectories)


def _spent(trajectories: Sequence[Trajectory]) -> Spent | None:
    usages = [step.usage for t in trajectories for step in t.steps if step.usage]
    if not usages:
        return None
    counted = [(u.prompt_tokens, u.completion_tokens) for u in usages]
    whole = [(asked, said) for asked, said in counted if asked is not None and said is not None]
    costs = [u.cost for u in usages if u.cost is not None]
    return Spent(
        replies=len(usages), prompt_tokens=sum(asked for asked, _ in whole), uncounted=len(usages) - len(whole),
        completion_tokens=sum(said for _, said in whole), cost=math.fsum(costs) if costs else None,
        models=tuple(sorted({u.model for u in usages if u.model})),
    )  # fmt: skip


def _passes(trajectories: Sequence[Trajectory], formula: Callable[[int, int, int], float]) -> dict[int, Estimate]:
    """`formula(k, successes, tries)` over tasks, for k the powers of two up to the most tries at a task, and that."""
    tries: defaultdict[Hashable, list[bool]] = defaultdict(list)
    for trajectory in trajectories:
        tries[trajectory.provenance.task_key].append(trajectory.success)
    most = max(map(len, tries.values()), default=1)
    found = {}
    for k in sorted({*(1 << power for power in range(most.bit_length())), most} if most > 1 else ()):
        values = [formula(k, sum(each), len(each)) for each in tries.values() if len(each) >= k]
        found[k] = success_rate(values, range(len(values)))
    return found


def _success(trajectories: Sequence[Trajectory]) -> Estimate:
    return success_rate([t.success for t in trajectories], [t.provenance.task_key for t in trajectories])


def _grouped(trajectories: Sequence[Trajectory], key: Callable[[Trajectory], str]) -> dict[str, Estimate]:
    groups: defaultdict[str, list[Trajectory]] = defaultdict(list)
    for trajectory in trajectories:
        groups[key(trajectory)].append(trajectory)
    return {name: _success(group) for name, group in sorted(groups.items())}


def by_world(played: Sequence[Trajectory]) -> dict[str, Evaluation]:
    """A summary of each world's episodes."""
    return {name: summarise(group) for name, group in in_worlds(played).items()}


def in_worlds(played: Sequence[Trajectory]) -> dict[str, list[Trajectory]]:
    """The episodes of each world, by its short name, with its arguments where it was made in several ways."""
    groups: defaultdict[tuple[str, str], list[Trajectory]] = defaultdict(list)
    for each in played:
        groups[each.provenance.env_id, canonical_json(each.provenance.env_kwargs)].append(each)
    made = Counter(env_id for env_id, _ in groups)
    return {
        short_name(env_id) + (f" {kwargs}" if made[env_id] > 1 else ""): group
        for (env_id, kwargs), group in groups.items()
    }


def as_json(played: Sequence[Trajectory]) -> dict[str, Any]:
    """The summary of all as JSON values, and under `worlds` that of each world: where several are mixed, all pools."""
    return summarise(played).as_dict() | {"worlds": {name: each.as_dict() for name, each in by_world(played).items()}}
