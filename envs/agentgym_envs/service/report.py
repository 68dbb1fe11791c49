"""Two tables in tau-bench's terms: pass^1 to pass^4, tool calls and violations by company, and what the tasks demand.

    agentgym eval --env service --attempts 4 --agent openai --base_url URL --model NAME --out evals/a
    python -m agentgym_envs.service.report evals/a/trajectories.jsonl

Each difficulty has rows of its own. Trajectories hold no violations, so each episode is replayed; one that differs on
replay is an error. The customer is a program without errors, so that no failure is theirs: the column `customer` is 0
by construction.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from agentgym_envs.service.env import ServiceEnv
from agentgym_envs.service.policy import VIOLATIONS
from agentgym_envs.service.puzzle import Puzzle
from agentgym_py.env import TextEnv
from agentgym_py.errors import AgentGymError, DataError
from agentgym_py.evaluation.stats import pass_all
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.reading import read_any

ATTEMPTS = (1, 2, 3, 4)
"""The numbers k of pass^k."""


DEMANDS: Mapping[str, Callable[[Puzzle], bool]] = {
    "refuse": lambda puzzle: any(wish.codes for wish in puzzle.wishes),
    "change of mind": lambda puzzle: any(wish.first for wish in puzzle.wishes),
    "facts only when asked": lambda puzzle: any(set(wish.facts) - set(wish.given) for wish in puzzle.wishes),
    "two wishes": lambda puzzle: len(puzzle.wishes) > 1,
}
"""What a task may demand: a refusal, a change of mind, a question about a wish, and both wishes."""


@dataclass(frozen=True, slots=True)
class Served:
    """What counts of an episode."""

    task: str
    domain: str
    success: bool
    calls: int
    """The tool calls that could be done."""
    violations: Mapping[str, int]
    difficulty: str = "medium"
    demands: tuple[str, ...] = ()
    """The keys of `DEMANDS` that hold for the task."""


def serve_again(trajectory: Trajectory, env: ServiceEnv) -> Served:
    """Replay an episode and count its calls and violations; DataError if an observation differs."""
    observation, _ = env.reset(seed=trajectory.provenance.env_seed, options={"task": trajectory.task_id})
    calls, violations = 0, Counter[str]()
    for number, step in enumerate(trajectory.steps):
        if step.observation != observation:
            raise DataError(f"{trajectory.id}: the observation before step {number + 1} differs on replay")
        observation, *_, info = env.step(step.reply)
        calls += info["valid_action"]
        violations.update({kind: int(count) for kind, count in info["costs"].items() if count})
    if observation != trajectory.final_observation or env.succeeded != trajectory.success:
        raise DataError(f"{trajectory.id}: the end differs on replay")
    puzzle = env.puzzle
    demands = tuple(name for name, holds in DEMANDS.items() if holds(puzzle))
    return Served(
        trajectory.task_id, puzzle.domain.name, trajectory.success, calls, violations, env.difficulty, demands
    )  # fmt: skip


def table(episodes: Sequence[Served]) -> str:
    """Return the table in Markdown: a row for each company and one for all, in each difficulty.

    pass^k is the unbiased estimate of Yao et al. (2024, arXiv:2406.12045), averaged over tasks; a dash stands for fewer
    than k episodes of a task. Violations are per episode.
    """
    kinds = tuple(VIOLATIONS)
    head = ("difficulty", "company", "tasks", "episodes", *(f"pass^{k}" for k in ATTEMPTS), "calls", *kinds, "customer")
    rows = list[tuple[str, ...]]()
    for name, group in _groups(episodes).items():
        costs = (fmean(episode.violations.get(kind, 0) for episode in group) for kind in kinds)
        rates = (_pass(group, k) for k in ATTEMPTS)
        tasks = len({episode.task for episode in group})
        calls = fmean(episode.calls for episode in group)
        rows.append(
            (*name, str(tasks), str(len(group)), *rates, f"{calls:.1f}", *(f"{cost:.2f}" for cost in costs), "0")
        )
    return _markdown(head, rows)


def demands_table(episodes: Sequence[Served]) -> str:
    """Return the shares of tasks with each demand in Markdown, in the rows of `table`."""
    rows = list[tuple[str, ...]]()
    for name, group in _groups(episodes).items():
        tasks = {episode.task: episode.demands for episode in group}.values()
        shares = (100 * fmean(demand in demands for demands in tasks) for demand in DEMANDS)
        rows.append((*name, str(len(tasks)), *(f"{share:.0f} %" for share in shares)))
    return _markdown(("difficulty", "company", "tasks", *DEMANDS), rows)


def _groups(episodes: Sequence[Served]) -> dict[tuple[str, str], list[Served]]:
    """Return difficulty and company, or `all`, to its episodes."""
    groups = dict[tuple[str, str], list[Served]]()
    for difficulty in (name for name in ServiceEnv.limits if any(each.difficulty == name for each in episodes)):
        chosen = [episode for episode in episodes if episode.difficulty == difficulty]
        for domain in sorted({episode.domain for episode in chosen}):
            groups[difficulty, domain] = [episode for episode in chosen if episode.domain == domain]
        groups[difficulty, "all"] = chosen
    return groups


def _markdown(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---", "---", *["--:"] * (len(head) - 2)), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def _pass(episodes: Iterable[Served], k: int) -> str:
    by_task: defaultdict[str, list[bool]] = defaultdict(list)
    for episode in episodes:
        by_task[episode.task].append(episode.success)
    if any(len(successes) < k for successes in by_task.values()):
        return "–"
    return f"{100 * fmean(pass_all(k, sum(successes), len(successes)) for successes in by_task.values()):.1f} %"


def main(arguments: list[str] | None = None) -> int:
    """Print the tables of trajectory files."""
    parser = argparse.ArgumentParser(
        prog="python -m agentgym_envs.service.report", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("files", nargs="+", metavar="FILE", help="trajectories of AgentService-v0")
    envs: dict[str, TextEnv] = {}
    served = []
    try:
        for file in parser.parse_args(arguments).files:
            for trajectory in read_any(file):
                spec = trajectory.env_spec()
                env = envs.setdefault(str(spec), spec.make())
                if not isinstance(env, ServiceEnv):
                    raise DataError(f"{file}: {trajectory.id} is an episode of {spec.name}, not of AgentService-v0")
                if trajectory.is_evidence:
                    served.append(serve_again(trajectory, env))
    except (AgentGymError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if not served:
        print("error: no episodes in these files", file=sys.stderr)
        return 2
    print(table(served), demands_table(served), sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
