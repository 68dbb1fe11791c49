"""`AgentTrajDataset`: filter, split and sample trajectories, and turn them into training rows."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Literal, overload

from agentgym_py.errors import ConfigError
from agentgym_py.rng import Rng
from agentgym_py.trajectory import preferences, selectors, store
from agentgym_py.trajectory.formats import parquet, rows, trl
from agentgym_py.trajectory.reading import read_any
from agentgym_py.trajectory.types import Preference, Step, Trajectory

Predicate = Callable[[Trajectory], bool]
Weights = Callable[[Trajectory], float] | Sequence[float]


@dataclass(frozen=True, slots=True)
class DatasetCounts:
    """Counts of a dataset."""

    trajectories: int
    tasks: int
    kinds: Mapping[str, int]
    """Trajectories of each kind of task, the largest first."""
    agents: Mapping[str, int]
    tokens: int
    """Tokens that models sampled."""
    successes: int
    errors: int
    """Trajectories that an infrastructure failure ended, which are no failures of their agents."""


class AgentTrajDataset(Sequence[Trajectory]):
    """An immutable sequence of trajectories; every filter returns a new one, in the same order."""

    def __init__(self, trajectories: Iterable[Trajectory] = ()) -> None:
        self._items = tuple(trajectories)

    @classmethod
    def load(cls, *paths: str | Path, format: str | None = None) -> AgentTrajDataset:
        """Load all episodes of files; without `format`, that of each is detected by its content.

        Raises:
            ConfigError: no such format.
            DataError: no such file, or in no format that is read; names the file, the line and the key.
        """
        return cls(trajectory for path in paths for trajectory in read_any(path, format))

    @overload
    def __getitem__(self, index: int) -> Trajectory: ...
    @overload
    def __getitem__(self, index: slice) -> AgentTrajDataset: ...
    def __getitem__(self, index: int | slice) -> Trajectory | AgentTrajDataset:
        """Return one trajectory, or the dataset of a slice."""
        return AgentTrajDataset(self._items[index]) if isinstance(index, slice) else self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AgentTrajDataset) and self._items == other._items

    __hash__ = None  # type: ignore[assignment]  # as for a list: trajectories hold dicts

    def __repr__(self) -> str:
        return f"AgentTrajDataset({len(self)} trajectories)"

    def save(self, path: str | Path) -> None:
        """Write a store, or replace one."""
        store.write(path, self)

    def stats(self) -> DatasetCounts:
        """Count trajectories, tasks, kinds, agents, tokens and outcomes."""
        evidence = [trajectory for trajectory in self if trajectory.is_evidence]
        records = (record for t in self for step in t.steps for record in step.token_records)
        return DatasetCounts(
            trajectories=len(self),
            tasks=len({trajectory.provenance.task_key for trajectory in self}),
            kinds=dict(Counter(trajectory.kind for trajectory in self).most_common()),
            agents=dict(Counter(trajectory.provenance.agent for trajectory in self).most_common()),
            tokens=sum(sum(record.mask) for record in records),
            successes=sum(trajectory.success for trajectory in evidence),
            errors=len(self) - len(evidence),
        )

    # ---- filters -----------------------------------------------------------------------------------------------------

    def filter(self, predicate: Predicate) -> AgentTrajDataset:
        """Keep trajectories for which `predicate` holds."""
        return AgentTrajDataset(filter(predicate, self))

    def filter_by_type(self, *kinds: str) -> AgentTrajDataset:
        """Keep trajectories whose task is of one of these kinds."""
        return self.filter(lambda t: t.kind in kinds)

    def filter_by_reward(self, low: float = -math.inf, high: float = math.inf) -> AgentTrajDataset:
        """Keep trajectories whose reward is in [low, high]."""
        return self.filter(lambda t: low <= t.reward <= high)

    def percentile(self, p: float) -> AgentTrajDataset:
        """Keep trajectories whose reward reaches the `p`-th percentile of all rewards; p in [0, 100]."""
        return self.apply(selectors.top_percentile(p))

    def dedupe(self) -> AgentTrajDataset:
        """Keep the best trajectory with the same task and the same actions."""
        return self.apply(selectors.dedupe())

    def apply(self, selector: selectors.Selector) -> AgentTrajDataset:
        """Keep what a selector of `agentgym_py.trajectory.selectors` keeps."""
        return AgentTrajDataset(selector(self).kept)

    def quality(
        self,
        *,
        min_reward: float | None = None,
        max_steps: int | None = None,
        min_steps: int | None = None,
        require_success: bool = False,
        predicates: Mapping[str, Predicate] | None = None,
        percentile: float | None = None,
        dedupe: bool = False,
    ) -> tuple[AgentTrajDataset, selectors.Selection]:
        """Keep trajectories that pass all rules; also return how many were dropped for what reason.

        The rules apply in the order of the parameters, after episodes that an infrastructure failure ended are dropped.
        The names of `predicates` are the reasons in the report.
        """
        rules = [selectors.no_errors()]
        if min_reward is not None:
            rules.append(selectors.threshold(min_reward))
        if max_steps is not None:
            rules.append(selectors.where(lambda t: len(t.steps) <= max_steps, f"over {max_steps} steps"))
        if min_steps is not None:
            rules.append(selectors.where(lambda t: len(t.steps) >= min_steps, f"under {min_steps} steps"))
        if require_success:
            rules.append(selectors.success_only())
        rules += [selectors.where(predicate, name) for name, predicate in (predicates or {}).items()]
        if percentile is not None:
            rules.append(selectors.top_percentile(percentile))
        if dedupe:
            rules.append(selectors.dedupe())
        selection = selectors.chain(*rules)(self)
        return AgentTrajDataset(selection.kept), selection

    # ---- splitting and sampling --------------------------------------------------------------------------------------

    def split(self, shares: Mapping[str, float], seed: int = 0) -> dict[str, AgentTrajDataset]:
        """Split into parts with about these shares of the tasks; all trajectories of a task go into one part.

        Raises:
            ConfigError: a share is negative, or they do not add up to 1.
        """
        if not all(share >= 0 for share in shares.values()) or not abs(sum(shares.values()) - 1) <= 1e-9:
            raise ConfigError(f"shares must not be negative and add up to 1, got {dict(shares)}")
        tasks = sorted({trajectory.task_id for trajectory in self})
        tasks, part_of, end = Rng("split", seed).sample(tasks, len(tasks)), dict[str, str](), 0.0
        for name, share in shares.items():
            first, end = round(end * len(tasks)), end + share
            part_of |= dict.fromkeys(tasks[first : round(end * len(tasks))], name)
        return {name: AgentTrajDataset(t for t in self if part_of[t.task_id] == name) for name in shares}

    def sample(
        self, n: int, weights: Weights | None = None, *, seed: int = 0, replace: bool = False
    ) -> AgentTrajDataset:
        """Draw `n` trajectories in random order, with probabilities proportional to `weights` (default: equal).

        Without `replace`, no position is drawn twice (Efraimidis and Spirakis 2006).

        Raises:
            ConfigError: `n` is larger than the number of positive weights, or a weight is negative or not finite.
        """
        weights_N, rng = self._weights(weights), Rng("sample", seed)
        open_N = [i for i, weight in enumerate(weights_N) if weight > 0]
        if n < 0 or (n > 0 and not open_N) or (n > len(open_N) and not replace):
            raise ConfigError(f"cannot draw {n} of {len(open_N)} trajectories with a weight above 0")
        if replace:
            return AgentTrajDataset(self[i] for i in _draw(n, weights_N, open_N, rng))
        keys = {i: math.log(1.0 - rng.uniform()) / weights_N[i] for i in open_N}
        return AgentTrajDataset(self[i] for i in sorted(open_N, key=lambda i: (-keys[i], i))[:n])

    def _weights(self, weights: Weights | None) -> list[float]:
        if weights is None:
            return [1.0] * len(self)
        weights_N = list(map(weights, self)) if callable(weights) else list(weights)
        if len(weights_N) != len(self) or not all(math.isfinite(weight) and weight >= 0 for weight in weights_N):
            raise ConfigError(f"weights must be {len(self)} finite numbers, none negative")
        return weights_N

    # ---- training rows -----------------------------------------------------------------------------------------------

    def to_sft(self, form: Literal["messages", "prompt_completion"] = "messages") -> list[rows.Row]:
        """Return rows for supervised fine-tuning: one per trajectory (`messages`) or reply (`prompt_completion`).

        Each row also has `success` and `reward`. Episodes that an infrastructure failure ended are left out.
        """
        evidence = self.filter(lambda t: bool(t.steps) and t.is_evidence)
        if form == "messages":
            return [trl.messages(trajectory, with_outcome=True) for trajectory in evidence]
        if form == "prompt_completion":
            return [row for t in evidence for row in trl.prompt_completion(t, with_outcome=True)]
        raise ConfigError(f"form must be 'messages' or 'prompt_completion', got {form!r}")

    def preferences(self, *, min_gap: float = 1e-9, per_task: int = 1) -> list[Preference]:
        """Pair better and worse trajectories with the same task and opening, best with worst first.

        At most `per_task` pairs per task; their rewards differ by at least `min_gap`.
        """
        pairs, counts = list[Preference](), Counter[str]()
        for pair in preferences.build_pairs(self, max_pairs=per_task, min_gap=min_gap).pairs:
            task = self[pair.chosen].task_id
            counts[task] += 1
            id_ = task if counts[task] == 1 else f"{task}#{counts[task]}"
            pairs.append(Preference(id_, self[pair.chosen], self[pair.rejected]))
        return pairs

    def to_preferences(
        self, *, min_gap: float = 1e-9, per_task: int = 1, level: Literal["episode", "turn"] = "episode"
    ) -> list[rows.Row]:
        """Return rows `prompt`, `chosen`, `rejected` of `preferences`; `level` as for `formats.trl.preference`."""
        rows = (trl.preference(pair, level=level) for pair in self.preferences(min_gap=min_gap, per_task=per_task))
        return [row for row in rows if row is not None]

    def to_stepwise(self, label: Callable[[Trajectory, Step], bool] | None = None) -> list[rows.Row]:
        """Return rows `prompt`, `completions`, `labels`, one per trajectory; `label` as for `formats.trl.stepwise`.

        Episodes that an infrastructure failure ended are left out.
        """
        return [trl.stepwise(t, label) for t in self if t.steps and t.is_evidence]


def filter_file(source: str | Path, target: str | Path, predicate: Predicate) -> tuple[int, int]:
    """Copy the episodes for which `predicate` holds into a store, one at a time; return (copied, read).

    A `target` that ends in `.parquet` is written as parquet. `source` and `target` may be the same file.
    """
    read = 0

    def matching() -> Iterator[Trajectory]:
        nonlocal read
        for trajectory in read_any(source):
            read += 1
            if predicate(trajectory):
                yield trajectory

    write = parquet.write_parquet if Path(target).suffix == ".parquet" else store.write
    return write(target, matching()), read


def _draw(n: int, weights_N: Sequence[float], open_N: Sequence[int], rng: Rng) -> Iterator[int]:
    """Draw `n` positions of `open_N` with replacement, with probabilities proportional to their weights."""
    sums = list(accumulate(weights_N[i] for i in open_N))
    for _ in range(n):
        yield open_N[min(bisect_right(sums, rng.uniform() * sums[-1]), len(open_N) - 1)]
