"""What `agentgym eval` prints of a result."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agentgym_py.cli.runtime import console

if TYPE_CHECKING:
    from agentgym_py.agents import Agent
    from agentgym_py.collection import PlayConfig
    from agentgym_py.evaluation import Evaluation
    from agentgym_py.evaluation.experts_comparison import ExpertsComparison
    from agentgym_py.evaluation.first_fault import FirstFaults
    from agentgym_py.evaluation.stats import Estimate
    from agentgym_py.trajectory import Trajectory


def headline(title: str, agent: Agent, play: PlayConfig, split: str, trajectories: Sequence[Trajectory]) -> str:
    """Return the line above a result: the agent's title, its settings that are not the default ones, and the tasks."""
    from agentgym_py.evaluation.text import format_setting, prompt_settings

    prompt = f"{play.prompt} prompt" if play.prompt != type(play)().prompt else ""
    settings = prompt_settings(agent.sampling, play.prompt_template)
    difficulties = ", ".join(dict.fromkeys(t.difficulty for t in trajectories if t.difficulty))
    parts = (
        title, prompt, *(format_setting(name, value) for name, value in settings.items()), f"{split} split",
        difficulties, f"{len(trajectories)} episodes",
    )  # fmt: skip
    return ", ".join(filter(None, parts))


def lost_reason(name: str, lost: int) -> str:
    """Return why a gate of CI fails an evaluation that has lost episodes."""
    return f"{name} is not whole: infrastructure failures ended {lost} episode{'s' * (lost > 1)}"


def show_result(
    summary: Evaluation, trajectories: Sequence[Trajectory], experts: ExpertsComparison, faults: FirstFaults, title: str
) -> None:
    """Print the result of an evaluation: success, the experts, means, costs, failures and first faults."""
    from agentgym_py.evaluation.text import (
        context_note,
        extra_calls_note,
        failure_note,
        format_cost,
        given_up_note,
        invalid_note,
        refused_note,
    )
    from agentgym_py.report.terminal import print_faults, print_table

    out = console()
    out.print(title, soft_wrap=True)
    print_table(out, ("", "tasks", "success [95 %]"), _success_rows(summary, trajectories))
    if expert_rows := _expert_rows(experts):
        out.print()
        print_table(out, ("compared with the experts", "tasks", "mean [95 %]"), expert_rows)
    out.print(f"\n{', '.join(_means(summary))}" if summary.success.n else "", soft_wrap=True)
    episodes = len(trajectories) - summary.errors
    if note := context_note(episodes, summary.outgrown, summary.turns_dropped, summary.summary_tokens):
        out.print(note, soft_wrap=True)
    if summary.spent:
        out.print(str(summary.spent), soft_wrap=True)
    is_model = summary.cut is not None
    for note in (
        invalid_note(trajectories) if is_model else "",
        refused_note(summary.refused), extra_calls_note(summary.extra_calls),
    ):  # fmt: skip
        if note:
            out.print(note, soft_wrap=True)
    if summary.costs:
        out.print()
        costs = [(name, format_cost(cost)) for name, cost in summary.costs.items()]
        print_table(out, ("cost", "mean per episode [95 %]"), costs)
        out.print()
    for kind, failure in summary.failures.items():
        out.print(f"failed, {kind}: {failure.count}, for example {failure.example}", soft_wrap=True)
    if faults.located:
        out.print()
        print_faults(out, faults)
    if summary.given_up:
        out.print(given_up_note(summary.given_up), soft_wrap=True)
    if summary.errors:
        out.print(failure_note(trajectories), soft_wrap=True)


def _success_rows(summary: Evaluation, trajectories: Sequence[Trajectory]) -> list[tuple[str, str, str]]:
    """Return the rows of the first table: all tasks, attempts, and each world, kind and difficulty if several."""
    from agentgym_py.evaluation.evaluate import summarise_by_env
    from agentgym_py.evaluation.text import format_rate

    rows = {"all": summary.success}
    for name, by_k in (("pass@", summary.pass_at), ("pass^", summary.pass_all)):
        rows |= {f"{name}{k}": estimate for k, estimate in by_k.items() if k > 1}
    worlds = summarise_by_env(trajectories)
    for world, part in worlds.items():
        of_world: dict[str, Estimate] = {}
        for by, groups in (("kind", part.by_kind), ("difficulty", part.by_difficulty)):
            of_world |= {f"{by} {key}": group for key, group in groups.items() if len(groups) > 1}
        if len(worlds) > 1:  # two worlds may have a kind of the same name
            of_world = {f"world {world}": part.success} | {f"{world}, {name}": row for name, row in of_world.items()}
        rows |= of_world
    return [(name, str(estimate.n), format_rate(estimate)) for name, estimate in rows.items()]


def _means(summary: Evaluation) -> Iterator[str]:
    """Yield the means over episodes, without those over nothing."""
    from agentgym_py.evaluation.text import cut_note, format_mean

    yield f"reward {format_mean(summary.reward)}"
    yield f"{summary.steps:.1f} steps per episode"
    if not math.isnan(summary.invalid):
        yield f"{100 * summary.invalid:.1f} % invalid actions"
    if summary.tokens is not None:
        yield f"{summary.tokens:.1f} tokens sampled per episode"
    if note := cut_note(summary.cut):
        yield note
    if summary.spent and summary.spent.latency_median is not None:
        yield f"{summary.spent.latency_median:.2f} s per reply (median; 95 % within {summary.spent.latency_p95:.2f} s)"


def _expert_rows(experts: ExpertsComparison) -> list[tuple[str, str, str]]:
    """Return the rows of the second table, without those over nothing."""
    from agentgym_py.evaluation.text import format_noted_mean

    rows: dict[str, Estimate] = {
        "regret": experts.regret, "success by path length": experts.weighted_success,
        "step efficiency of successes": experts.efficiency, "tool F1 (names of called tools)": experts.tool_f1,
        "called all needed tools": experts.plan_success, "timing of tool calls": experts.timing,
    }  # fmt: skip
    return [(name, str(estimate.n), format_noted_mean(estimate)) for name, estimate in rows.items() if estimate.n]
