"""Evaluate an agent on tasks, and summarise episodes with intervals."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any, TypeAlias

import numpy as np

from agentgym_py.agents import Agent
from agentgym_py.collection import Collector, PlayConfig, jobs_for
from agentgym_py.collection.collector import Progress
from agentgym_py.env import EnvSpec
from agentgym_py.env.registration import short_name
from agentgym_py.errors import ConfigError
from agentgym_py.evaluation.failures import Failure, count_failures
from agentgym_py.evaluation.stats import Estimate, bootstrap_mean, pass_all, pass_at, success_rate
from agentgym_py.files import canonical_json
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.types import Usage

BLOCK = 16
"""Tasks that are played between two looks at a comparison."""
PassFormula: TypeAlias = Callable[[int, int, int], float]
"""`pass_at` or `pass_all`: of k, the number of successes and that of attempts."""
_LONGEST_PHRASE, _REPETITIONS = 60, 4
"""Most characters of a phrase that a reply repeats to its end, and how often it does so at least."""


@dataclass(frozen=True, slots=True)
class ApiUsage:
    """What API endpoints counted in a batch of episodes, including those with an infrastructure failure."""

    replies: int
    """Number of replies; of a repeated request only the last one counts."""
    prompt_tokens: int
    completion_tokens: int
    uncounted: int
    """Replies without both token counts; they add nothing to the sums."""
    cost: float | None
    """By the user's prices; None without them."""
    models: tuple[str, ...]
    """Names of the models that answered, as the endpoints report them."""
    latency: float | None = field(default=None, compare=False)
    """Mean seconds from a request to its reply, without waits and retries, of the replies of this process; None without
    any."""
    latency_median: float | None = field(default=None, compare=False)
    latency_p95: float | None = field(default=None, compare=False)
    """95th percentile of these seconds, interpolated linearly between two replies."""
    retries: int = field(default=0, compare=False)
    """Number of earlier attempts of these replies, which got no answer; an endpoint may charge for them."""

    def __str__(self) -> str:
        text = (
            f"{self.replies:,} replies, {self.prompt_tokens:,} prompt and {self.completion_tokens:,} completion tokens"
        )
        if self.uncounted:
            text += f", {self.uncounted} replies not counted"
        if self.retries:
            text += f", {self.retries} repeated request{'s' * (self.retries > 1)}"
        return text if self.cost is None else f"{text}, cost {self.cost:.4g}"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The summary of an agent's episodes, without those that an infrastructure failure ended."""

    success: Estimate
    """Success rate with Wilson's interval; clustered by task if tasks have several attempts."""
    reward: Estimate
    """Mean return with its bootstrap interval, which is nan if there are too few tasks for one."""
    steps: float
    """Mean number of steps of an episode; nan without episodes."""
    invalid: float
    """Share of invalid actions; nan without actions."""
    by_kind: Mapping[str, Estimate]
    """Success rate by task type."""
    by_difficulty: Mapping[str, Estimate]
    """Success rate by difficulty."""
    errors: int
    """Episodes left out."""
    given_up: int
    """Episodes that the agent ended, for example because its context was full; they count."""
    refused: int
    """Replies that an endpoint's provider refused, for example by a content filter; they are empty and count.

    They are those of all episodes, also of those left out."""
    extra_calls: int
    """Tool calls after the first one of a reply, which were not done."""
    cut: float | None
    """Share of a model's replies that reached the maximum length before their end; None without a model."""
    cut_repetitive: float | None
    """Share of these cut replies that repeat one phrase to the end, which a larger maximum length does not mend; None
    if no reply was cut."""
    outgrown: int
    """Episodes that outgrew the context and continued without their earliest turns (`--context`)."""
    turns_dropped: int
    """Number of turns that the last prompts of these episodes leave out."""
    summary_tokens: int
    """Number of tokens of the summaries that stand in their place; part of `tokens`."""
    tokens: float | None
    """Mean number of tokens that the model sampled per episode; None without a model or if its endpoint does not
    report it."""
    pass_at: Mapping[int, Estimate]
    """By k, the unbiased chance that one of k attempts at a task succeeds, over tasks with at least k attempts. Empty
    if every task has one attempt."""
    pass_all: Mapping[int, Estimate]
    """By k, pass^k: the chance that all of k attempts succeed."""
    failures: Mapping[str, Failure]
    """By kind (`failures.FAILURES`), how many episodes failed that way, and one of them."""
    spent: ApiUsage | None
    """What API endpoints counted, if one replied."""
    rewards: Mapping[float, int]
    """Number of episodes by return, rounded to two significant digits."""
    surprisal: float | None
    """Mean negative log-probability, in nats, of the tokens that a model sampled: at a temperature above 0 an estimate
    of their entropy. None without recorded tokens."""
    costs: Mapping[str, Estimate]
    """Mean of each cost per episode (`TextEnv.costs`), with bootstrap intervals; of several worlds over the episodes
    of those that name it."""

    def as_dict(self) -> dict[str, Any]:
        """Return the summary as JSON values."""
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
    is_decided: Callable[[Sequence[Trajectory]], bool] | None = None,
) -> tuple[Evaluation, list[Trajectory]]:
    """Let `agent` attempt these tasks of a split `attempts` times each; return the summary and the episodes.

    `progress` is called with each episode in order. `before` holds the first episodes of an interrupted evaluation.
    With `is_decided` the tasks are played in blocks of `BLOCK`; the first block at whose end it is true is the last.

    Raises:
        ConfigError: there are no tasks, or the agent gave up every episode before its first reply.
    """
    jobs = jobs_for(envs, split, tasks, attempts)
    if not jobs:
        raise ConfigError("nothing to evaluate: worlds, tasks and attempts must be at least 1")
    trajectories = list(before)
    collector, size = Collector(agent, play or PlayConfig()), BLOCK * attempts if is_decided else len(jobs)
    while len(trajectories) < len(jobs):
        if is_decided and len(trajectories) % size == 0 and is_decided(trajectories):
            break
        end = (len(trajectories) // size + 1) * size
        for trajectory in collector.iter_ordered(jobs[len(trajectories) : end]):
            trajectories.append(trajectory)
            if progress:
                progress(trajectory)
    if trajectories and all(t.given_up and not t.steps for t in trajectories):
        raise ConfigError(
            f"{agent.name} gave up all {len(trajectories)} episodes before its first reply, so nothing was measured; a "
            "model does so if the opening and max_new_tokens do not fit into its context"
        )
    return summarise(trajectories), trajectories


def summarise(trajectories: Sequence[Trajectory]) -> Evaluation:
    """Summarise success, reward and behaviour of one agent's episodes."""
    evidence = [t for t in trajectories if t.is_evidence]
    steps = [step for t in evidence for step in t.steps]
    return Evaluation(
        success=_success(evidence),
        reward=bootstrap_mean([t.reward for t in evidence], clusters=[t.provenance.task_key for t in evidence]),
        steps=fmean(len(t.steps) for t in evidence) if evidence else math.nan,
        invalid=fmean(not step.valid for step in steps) if steps else math.nan,
        by_kind=_success_by(evidence, lambda t: t.kind),
        by_difficulty=_success_by(evidence, lambda t: t.difficulty),
        errors=len(trajectories) - len(evidence),
        given_up=sum(t.given_up for t in evidence),
        refused=sum(bool(step.usage and step.usage.refused) for t in trajectories for step in t.steps),
        extra_calls=sum(step.usage.extra_calls for step in steps if step.usage),
        cut=cut_share(evidence),
        cut_repetitive=repetitive_share(evidence),
        outgrown=sum(t.outgrew_context for t in evidence),
        turns_dropped=sum(t.turns_dropped for t in evidence),
        summary_tokens=sum(t.summary_tokens for t in evidence),
        tokens=_tokens_per_episode(evidence),
        pass_at=_pass_rates(evidence, pass_at),
        pass_all=_pass_rates(evidence, pass_all),
        failures=count_failures(evidence),
        spent=_api_usage(trajectories),
        rewards=dict(Counter(sorted(float(f"{t.reward:.2g}") for t in evidence))),  # asdict knows no Counter
        surprisal=_surprisal(evidence),
        costs=_mean_costs(evidence),
    )


def _mean_costs(trajectories: Sequence[Trajectory]) -> dict[str, Estimate]:
    costs = defaultdict[str, list[tuple[float, Hashable]]](list)
    for trajectory in trajectories:
        for name, cost in trajectory.costs.items():
            costs[name].append((cost, trajectory.provenance.task_key))
    return {
        name: bootstrap_mean([cost for cost, _ in pairs], clusters=[task for _, task in pairs])
        for name, pairs in costs.items()
    }


def cut_share(trajectories: Iterable[Trajectory]) -> float | None:
    """Return the share of a model's replies that reached the maximum length before their end."""
    cuts = [step.cut for t in trajectories for step in t.steps if step.tokens or step.usage]
    return fmean(cuts) if cuts else None


def repetitive_share(trajectories: Iterable[Trajectory]) -> float | None:
    """Return the share of the replies that reached the maximum length which repeat one phrase to the end."""
    repetitive = [ends_in_repetition(step.reply) for t in trajectories for step in t.steps if step.cut]
    return fmean(repetitive) if repetitive else None


def ends_in_repetition(text: str) -> bool:
    """Whether a text ends with one phrase of 1 to 60 characters four times; its last time may be incomplete."""
    lengths = range(1, min(_LONGEST_PHRASE, len(text)) + 1)
    return any(text.endswith(text[-length:] * _REPETITIONS) for length in lengths)


def _surprisal(trajectories: Sequence[Trajectory]) -> float | None:
    records = [record for t in trajectories for step in t.steps for record in step.token_records]
    sampled = sum(sum(record.mask) for record in records)
    return -math.fsum(sum(record.logprobs) for record in records) / sampled if sampled else None


def _tokens_per_episode(trajectories: Sequence[Trajectory]) -> float | None:
    usage = _api_usage(trajectories)
    if usage and not usage.uncounted:
        return usage.completion_tokens / len(trajectories)
    if not any(t.has_tokens for t in trajectories):
        return None
    return fmean(sum(sum(record.mask) for step in t.steps for record in step.token_records) for t in trajectories)


def _api_usage(trajectories: Sequence[Trajectory]) -> ApiUsage | None:
    return sum_usages([step.usage for t in trajectories for step in t.steps if step.usage])


def sum_usages(usages: Sequence[Usage]) -> ApiUsage | None:
    """Sum what replies of an endpoint cost; None if there are none."""
    if not usages:
        return None
    pairs = [(u.prompt_tokens, u.completion_tokens) for u in usages]
    counted = [(prompt, completion) for prompt, completion in pairs if prompt is not None and completion is not None]
    costs = [u.cost for u in usages if u.cost is not None]
    latencies = [u.latency for u in usages if u.latency is not None]
    median, p95 = map(float, np.percentile(latencies, (50, 95))) if latencies else (None, None)
    return ApiUsage(
        replies=len(usages), prompt_tokens=sum(prompt for prompt, _ in counted), uncounted=len(usages) - len(counted),
        completion_tokens=sum(completion for _, completion in counted), cost=math.fsum(costs) if costs else None,
        models=tuple(sorted({u.model for u in usages if u.model})), latency=fmean(latencies) if latencies else None,
        latency_median=median, latency_p95=p95, retries=sum(u.retries for u in usages),
    )  # fmt: skip


def _pass_rates(trajectories: Sequence[Trajectory], formula: PassFormula) -> dict[int, Estimate]:
    """Return `pass_rate` for powers of two and the largest number of attempts as k."""
    outcomes: defaultdict[Hashable, list[bool]] = defaultdict(list)
    for trajectory in trajectories:
        outcomes[trajectory.provenance.task_key].append(trajectory.success)
    attempts = max(map(len, outcomes.values()), default=1)
    ks = sorted({*(1 << power for power in range(attempts.bit_length())), attempts} if attempts > 1 else ())
    return {k: pass_rate(formula, k, outcomes.values()) for k in ks}


def pass_rate(formula: PassFormula, k: int, outcomes: Iterable[Sequence[bool]]) -> Estimate:
    """Estimate the mean of `pass_at` or `pass_all` over tasks with at least k attempts, from the outcomes by task.

    For the interval a task counts as at most as many independent outcomes as it has disjoint groups of k attempts.
    """
    tasks = [task for task in outcomes if len(task) >= k]
    values = [formula(k, sum(task), len(task)) for task in tasks]
    return success_rate(values, range(len(values)), independent=sum(len(task) // k for task in tasks))


def _success(trajectories: Sequence[Trajectory]) -> Estimate:
    return success_rate([t.success for t in trajectories], [t.provenance.task_key for t in trajectories])


def _success_by(trajectories: Sequence[Trajectory], key: Callable[[Trajectory], str]) -> dict[str, Estimate]:
    groups: defaultdict[str, list[Trajectory]] = defaultdict(list)
    for trajectory in trajectories:
        groups[key(trajectory)].append(trajectory)
    return {name: _success(group) for name, group in sorted(groups.items())}


def group_by_env(trajectories: Sequence[Trajectory]) -> dict[str, list[Trajectory]]:
    """Group episodes by env: its short name, followed by its arguments if there are several variants."""
    groups: defaultdict[tuple[str, str], list[Trajectory]] = defaultdict(list)
    for trajectory in trajectories:
        groups[trajectory.provenance.env_id, canonical_json(trajectory.provenance.env_kwargs)].append(trajectory)
    variants = Counter(env_id for env_id, _ in groups)
    return {
        short_name(env_id) + (f" {kwargs}" if variants[env_id] > 1 else ""): group
        for (env_id, kwargs), group in groups.items()
    }


def summarise_by_env(trajectories: Sequence[Trajectory]) -> dict[str, Evaluation]:
    """Summarise each env's episodes."""
    return {name: summarise(group) for name, group in group_by_env(trajectories).items()}


def summary_dict(trajectories: Sequence[Trajectory]) -> dict[str, Any]:
    """Return the summary of all episodes as JSON values, and under `worlds` that of each env."""
    worlds = {name: summary.as_dict() for name, summary in summarise_by_env(trajectories).items()}
    return summarise(trajectories).as_dict() | {"worlds": worlds}
