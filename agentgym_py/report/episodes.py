"""What the page of a run shows of its episodes: tasks whose outcome changed, first faults, and episodes to read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from shlex import quote

from agentgym_py import registry
from agentgym_py.env.registration import short_name
from agentgym_py.errors import DataError
from agentgym_py.evaluation.failures import failure_kind
from agentgym_py.evaluation.first_fault import (
    FAULTS,
    Fault,
    FaultGroup,
    FirstFaults,
    find_first_fault,
    first_faults,
    tool_label,
)
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.registry import is_source
from agentgym_py.trajectory import Step, Trajectory, store

_EXAMPLES = 2
"""Number of successes that the first and the last round show, and of changed tasks in each direction."""
_MAX_READ = 2_000
"""Trajectories of a file that are searched for examples."""
_MAX_FAULTS = 100
"""Failures of a round that are searched for their first fault."""
_TOOLS = 8
"""Tools that the table of first faults has."""


def outcomes_of(path: Path) -> dict[str, float]:
    """Return success by task; empty if a task has several episodes, or without a file."""
    outcomes: dict[str, float] = {}
    for trajectory in read_episodes(path):
        if (task := task_name(trajectory)) in outcomes:
            return {}
        if trajectory.is_evidence:
            outcomes[task] = float(trajectory.success)
    return outcomes


def task_name(trajectory: Trajectory) -> str:
    """Return the id of a task, and its role in a world of several, because roles have the same ids."""
    role = trajectory.provenance.env_kwargs.get("role")
    return f"{trajectory.task_id} ({role})" if role else trajectory.task_id


def read_episodes(path: Path) -> Iterator[Trajectory]:
    """Yield a file's trajectories up to the first that cannot be read; none without a file."""
    try:
        yield from store.read(path, warn=False)
    except DataError:
        return


# ------------------------------------------------------------------------------------------------------- changed tasks


@dataclass(frozen=True, slots=True)
class ChangedTask:
    """A task that was solved in some rounds and failed in others."""

    task: str
    solved: Mapping[int, bool | None]
    """By round; None if no episode counts."""


def task_changes(outcomes: Mapping[int, Mapping[str, float]]) -> tuple[list[list[int]], list[ChangedTask]]:
    """Find the tasks whose outcome changed between rounds; `outcomes` has success by round and task.

    Returns rows of round, solved tasks, tasks solved that failed before, and tasks failed that were solved before; and
    the changed tasks.
    """
    rows = []
    for before, now in pairwise(outcomes):
        both = outcomes[before].keys() & outcomes[now].keys()
        gained, lost = (sum(outcomes[now][t] == end != outcomes[before][t] for t in both) for end in (1, 0))
        rows.append([now, int(sum(outcomes[now].values())), gained, lost])
    tasks = dict.fromkeys(task for by_task in outcomes.values() for task in by_task)
    changes = [
        ChangedTask(task, {n: bool(by_task[task]) if task in by_task else None for n, by_task in outcomes.items()})
        for task in tasks
    ]
    return rows, [change for change in changes if {True, False} <= set(change.solved.values())]


# -------------------------------------------------------------------------------------------------------- first faults


def fault_table(rounds: Mapping[int, FirstFaults]) -> list[list[str]]:
    """Return the first faults of rounds by kind and by tool as a table, the header first; empty without any."""
    if not any(faults.located for faults in rounds.values()):
        return []
    kinds, tools = Counter[str](), Counter[str]()
    for faults in rounds.values():
        kinds.update({kind: group.count for kind, group in faults.by_kind.items()})
        tools.update({tool: group.count for tool, group in faults.by_tool.items()})
    rows = [[kind, *(_fault_cell(faults.by_kind, kind) for faults in rounds.values())]
            for kind in FAULTS if kind in kinds]  # fmt: skip
    rows += [[f"tool {tool_label(tool)}", *(_fault_cell(faults.by_tool, tool) for faults in rounds.values())]
             for tool, _ in tools.most_common(_TOOLS) if len(tools) > 1]  # fmt: skip
    searched = (f"round {number}: {len(f.located)} of {f.failures} failures" for number, f in rounds.items())
    return [["first fault", *searched], *rows]


def _fault_cell(groups: Mapping[str, FaultGroup], name: str) -> str:
    """Return `12 (40 %), median step 4`."""
    if name not in groups:
        return "–"
    group = groups[name]
    return f"{group.count} ({100 * group.share.value:.0f} %), median step {group.step:g}"


def round_faults(folder: RunFolder, number: int) -> FirstFaults:
    """Return the first faults of a round's first failures on the valid split."""
    failures = (t for t in read_episodes(folder.round(number) / "valid.jsonl") if t.is_evidence and not t.success)
    return first_faults(list(islice(failures, _MAX_FAULTS)))


# ------------------------------------------------------------------------------------------------------------ examples


@dataclass(frozen=True, slots=True)
class Example:
    """A trajectory to read."""

    trajectory: Trajectory
    anchor: str
    """Its id on the page."""
    world: str
    """Its world as the command line takes it."""
    fault: Fault | None = None
    """The first fault of a failure by the exact expert, if it is known."""

    @property
    def kind(self) -> str:
        """Success, or the kind of failure."""
        return failure_kind(self.trajectory) or "success"

    @property
    def head(self) -> str:
        """The heading."""
        outcome = "success" if self.trajectory.success else f"failure ({self.kind})"
        steps = len(self.trajectory.steps)
        return f"{outcome}, reward {self.trajectory.reward:.2f}, {steps} step{'' if steps == 1 else 's'}"

    @property
    def has_credit(self) -> bool:
        """Whether it failed with a reward above 0, which a reader may take for a mistake."""
        return not self.trajectory.success and self.trajectory.reward > 0

    @property
    def shows_instruction(self) -> bool:
        """Whether the first observation contains the instruction."""
        steps = self.trajectory.steps
        first = steps[0].observation if steps else self.trajectory.final_observation
        return self.trajectory.instruction in first

    @property
    def turns(self) -> list[tuple[int, Step, int]]:
        """Each step with its number and the number of identical steps that follow, which are left out."""
        turns: list[tuple[int, Step, int]] = []
        for number, step in enumerate(self.trajectory.steps, 1):
            if turns and _content(turns[-1][1]) == _content(step):
                turns[-1] = (*turns[-1][:2], turns[-1][2] + 1)
            else:
                turns.append((number, step, 0))
        return turns


def _content(step: Step) -> tuple[object, ...]:
    """Return what the page shows of a step."""
    return step.observation, step.thought, step.action, step.action_input, step.reward, step.valid, step.cut


@dataclass(frozen=True, slots=True)
class RoundExamples:
    """The examples of a round."""

    number: int
    examples: Sequence[Example]
    failures: Sequence[tuple[str, int, str]]
    """Kind, count, and anchor of an example, if there is one, of each kind of failure."""

    def anchor(self, task: str) -> str:
        """Return the anchor of a task's example, or nothing."""
        return next((example.anchor for example in self.examples if task_name(example.trajectory) == task), "")


def choose_examples(
    folder: RunFolder, rounds: Sequence[int], changed: Sequence[ChangedTask], worlds: Sequence[str]
) -> list[RoundExamples]:
    """Choose an example of each kind of failure per round; successes and changed tasks in the first and last one."""
    ends = ends_of(rounds)
    tasks = set[str]()
    for before, now in ((False, True), (True, False)):
        same = (change.task for change in changed if [change.solved[number] for number in ends] == [before, now])
        tasks |= set(islice(same, _EXAMPLES))
    return [_round_examples(folder, number, number in ends, tasks, worlds) for number in rounds]


def ends_of(rounds: Sequence[int]) -> list[int]:
    """Return the first and the last round."""
    return sorted({rounds[0], rounds[-1]}) if rounds else []


def invalid_example(rounds: Sequence[RoundExamples]) -> str:
    """Return the anchor of the last round's first example with an invalid action, or nothing."""
    examples = rounds[-1].examples if rounds else ()
    return next((each.anchor for each in examples if any(not step.valid for step in each.trajectory.steps)), "")


def _round_examples(
    folder: RunFolder, number: int, is_end: bool, tasks: Set[str], worlds: Sequence[str]
) -> RoundExamples:
    failures = folder.metrics(number)["valid"].get("failures", {})
    path = folder.round(number) / "valid.jsonl"
    trajectories = _choose(path, failures, _EXAMPLES, tasks) if is_end else _choose(path, failures)
    examples = [
        Example(t, f"round-{number}-{place}", _world_name(t, worlds), None if t.success else find_first_fault(t))
        for place, t in enumerate(trajectories)
    ]
    anchors = {example.kind: example.anchor for example in reversed(examples)}
    counts = [(kind, failure["count"], anchors.get(kind, "")) for kind, failure in failures.items()]
    return RoundExamples(number, examples, counts)


def _world_name(trajectory: Trajectory, worlds: Sequence[str]) -> str:
    """Return what the command line takes for the world of a trajectory, which is one of the run's `worlds`."""
    env_id, sources = trajectory.provenance.env_id, [world for world in worlds if is_source(world)]
    if not sources or env_id in registry.names("agentgym.envs"):
        return short_name(env_id)
    return quote(sources[0]) if len(sources) == 1 else "FILE.py"


def _choose(path: Path, kinds: Iterable[str], successes: int = 0, tasks: Set[str] = frozenset()) -> list[Trajectory]:
    """Choose some successes, one trajectory per kind of failure, and those of `tasks`; successes come first."""
    chosen, counts = list[Trajectory](), Counter[str]()
    for trajectory in islice(read_episodes(path), _MAX_READ):
        kind = failure_kind(trajectory) or "success"
        needed = counts[kind] < (successes if trajectory.success else 1)
        if trajectory.is_evidence and (needed or task_name(trajectory) in tasks):
            chosen.append(trajectory)
            counts[kind] += 1
            if not successes and counts.keys() >= set(kinds):
                break
    return sorted(chosen, key=lambda trajectory: not trajectory.success)
