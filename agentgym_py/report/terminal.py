"""A run on the terminal: progress bars and one row per round; plain lines if the output is no terminal."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import fmean
from threading import Event, Thread
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from agentgym_py.evaluation.first_fault import FirstFaults, fault_notes, fault_rows, fault_title
from agentgym_py.evaluation.text import (
    context_note,
    cut_note,
    env_summaries,
    format_interval,
    given_up_note,
    small_sample_note,
)
from agentgym_py.evolution.run_folder import read_estimate
from agentgym_py.training.coreset import coreset_line
from agentgym_py.trajectory import Trajectory

FIRST, SILENCE = 30.0, 60.0
"""Seconds after which a phase without a bar reports how far it is: the first time, and later."""
Listener = Callable[[Trajectory], None]
Steps = Callable[[int, int], None]


class Phases:
    """Phases one after another, each with a bar: count, time, and the success of the whole phase.

    There is no success rate before the end, because short episodes end first and succeed more often or less. In a file
    each phase is a line when it ends; until then, one after half a minute and one per minute, also before an episode
    has ended.
    """

    def __init__(self, console: Console | None = None, *, bars: bool = True) -> None:
        """Show phases; without `bars`, because a person types there, as a line at each end, on a terminal too."""
        self.console = console or Console(highlight=False, markup=False)
        self._progress = _bars(self.console) if bars and self.console.is_terminal else None
        self._say = partial(self.console.print, soft_wrap=True) if bars and not self._progress else None
        self._current: _Phase | None = None

    def __enter__(self) -> Phases:
        if self._progress:
            self._progress.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.end()
        elif self._current:
            self._current.over.set()
        if self._progress:
            self._progress.stop()

    def begin(self, what: str, total: int) -> Listener:
        """Begin a phase of `total` episodes and end the one before; call the result with each trajectory."""
        return self._begin(what, total).count

    def training(self, what: str, unit: str = "steps") -> Steps:
        """Begin a training and end the phase before; call the result with the steps done and their number."""
        return self._begin(what, None, unit).set_step

    def _begin(self, what: str, total: int | None, unit: str = "steps") -> _Phase:
        self.end()
        count = "" if total is None else f"0/{total}"
        task = self._progress.add_task(what, total=total, count=count, success="") if self._progress else None
        self._current = phase = _Phase(what, total, self._progress, task, self._say, unit)
        return phase

    def end(self) -> None:
        """End the phase."""
        if self._current is None:
            return
        self._current.stop()
        if self._progress is None:
            self.console.print(self._current.line, soft_wrap=True)
        self._current = None

    def clear(self) -> None:
        """Remove the bars before their content is printed as a table."""
        self.end()
        if self._progress:
            for task in self._progress.task_ids:
                self._progress.remove_task(task)
            self._progress.refresh()


class _Phase:
    def __init__(
        self,
        what: str,
        total: int | None,
        progress: Progress | None,
        task: TaskID | None,
        say: Callable[[str], object] | None,
        unit: str,
    ) -> None:
        self.unit = unit
        self.what, self.total, self._progress, self._task = what, total, progress, task
        self.began = time.monotonic()
        self.episodes = self.successes = self.counted = self.steps = 0
        self.over = Event()
        self._reports = Thread(target=self._report, args=(say,), name="progress", daemon=True) if say else None
        if self._reports:
            self._reports.start()

    def count(self, trajectory: Trajectory) -> None:
        """Count one more episode."""
        self.episodes += 1
        if trajectory.is_evidence:
            self.counted += 1
            self.successes += trajectory.success
        self._draw(self.episodes)

    def set_step(self, done: int, total: int) -> None:
        """Show the number of training steps done."""
        self.steps, self.total = done, total
        self._draw(done)

    def _draw(self, done: int) -> None:
        if self._progress and self._task is not None:
            count, success = f"{done}/{self.total}", self.success if done == self.total else ""
            self._progress.update(self._task, completed=done, total=self.total, count=count, success=success)

    def _report(self, say: Callable[[str], object]) -> None:
        """Say from time to time how far the phase is, in a thread of its own, because an episode may take minutes."""
        wait = FIRST
        with suppress(OSError, ValueError):  # the output is closed: the main thread says so
            while not self.over.wait(wait):
                done, wait = max(self.episodes, self.steps), SILENCE
                count = f"{done} {self.unit}" if self.total is None else f"{done} of {self.total}"
                if done != self.total:
                    say(f"  {self.what}: {count}, {duration(time.monotonic() - self.began)}")

    @property
    def success(self) -> str:
        """`success 43.2 %`, or nothing before the first episode."""
        return f"success {100 * self.successes / self.counted:.1f} %" if self.counted else ""

    @property
    def line(self) -> str:
        """The whole phase in a line."""
        done = f"{self.episodes} episodes, " if self.episodes else f"{self.steps} {self.unit}, " if self.steps else ""
        success = f"{self.success}, " if self.success else ""
        errors = self.episodes - self.counted
        failed = f"{errors} infrastructure error{'s' * (errors > 1)}, " if errors else ""
        return f"  {self.what}: {done}{failed}{success}{duration(time.monotonic() - self.began)}"

    def stop(self) -> None:
        """End the phase: no more episodes, steps or reports."""
        self.over.set()
        if self._reports:
            self._reports.join()
        if self._progress and self._task is not None:
            done = max(1, self.episodes, self.steps)
            self._progress.update(self._task, total=done, completed=done)
            self._progress.stop_task(self._task)


def _bars(console: Console) -> Progress:
    return Progress(
        SpinnerColumn(finished_text=" "), TextColumn("{task.description}", markup=False), BarColumn(bar_width=24),
        TextColumn("{task.fields[count]}", markup=False), TextColumn("{task.fields[success]}", markup=False),
        TimeElapsedColumn(), TimeRemainingColumn(elapsed_when_finished=False), console=console,
        refresh_per_second=4, transient=True,
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------------- evolution


_COLUMNS = (
    ("round", 5), ("explored", 14), ("kept", 5), ("loss", 12), ("valid success", 16), ("reward", 6), ("steps", 5),
    ("time", 6),
)  # fmt: skip


class TerminalReporter:
    """The `Reporter` of `agentgym evolve`; `after_round` is called once a round's row is printed."""

    def __init__(self, console: Console, after_round: Callable[[], object] | None = None) -> None:
        self.console = console
        self.phases = Phases(console)
        self._after_round = after_round
        self._headed = False

    def __enter__(self) -> TerminalReporter:
        self.phases.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.phases.__exit__(*error)

    def header(self, *lines: str) -> None:
        """Print what is about to run."""
        for line in lines:
            self.console.print(line, soft_wrap=True)
        self.console.print()

    def phase(self, round_number: int, what: str, total: int) -> Listener:
        """Begin a phase."""
        return self.phases.begin(f"round {round_number}, {what}", total)

    def training(self, round_number: int, trajectories: int) -> Steps:
        """Begin a training."""
        return self.phases.training(f"round {round_number}, train on {trajectories}")

    def round(self, number: int, metrics: dict[str, Any]) -> None:
        """Print a round's row, and what was dropped and why."""
        self.phases.clear()
        if not self._headed:
            self.console.print(Text(_cells([name for name, _ in _COLUMNS]), style="bold"), soft_wrap=True)
        self._headed = True
        self.console.print(_cells(round_cells(number, metrics)), soft_wrap=True)
        self.console.print(Text("       " + selection_line(metrics), style="dim"), soft_wrap=True)
        if self._after_round:
            self._after_round()

    def finish(self, rows: Sequence[Sequence[str]], verdict: str, report: Path, *, next_steps: str = "") -> None:
        """Print the comparison on the test split, where the report is, and what to do next."""
        self.phases.clear()
        if rows:
            self.console.print()
            print_table(self.console, ("test split", "success [95 %]", "reward [95 %]", "steps", "invalid"), rows)
        if verdict:
            self.console.print(verdict, soft_wrap=True)
        self.console.print(f"\nreport: {report}", soft_wrap=True)
        if next_steps:
            self.console.print(next_steps, soft_wrap=True)


def round_cells(number: int, metrics: Mapping[str, Any]) -> list[str]:
    """A round's metrics as the cells of its row."""
    explored, valid, training = metrics["explored"], metrics["valid"], metrics["training"]
    episodes = explored_episodes(metrics)
    return [
        str(number),
        f"{episodes} at {percent_text(explored['success']['value'])}" if episodes else "–",
        str(metrics["selection"]["kept"]),
        loss_cell(training),
        format_interval(read_estimate(valid["success"])),
        number_text(valid["reward"]["value"], 2),
        number_text(valid["steps"], 1),
        clock(metrics["seconds"]),
    ]


def explored_episodes(metrics: Mapping[str, Any]) -> int:
    """Return the number of episodes that a round explored, without the retries that are selected with them."""
    selection = metrics["selection"]
    retries = metrics.get("reflection", {}).get("retries", 0)
    return int(selection["kept"] + sum(selection["dropped"].values()) - retries)


def loss_cell(training: Mapping[str, Any] | None) -> str:
    """Return the first and last loss of a training; a dash for on-policy trainers, whose loss says nothing."""
    if training is None:
        return "not trained"
    loss = training["loss"]
    return f"{loss_text(loss[0])} → {loss_text(loss[-1])}" if loss and not on_policy_note(training) else "–"


def on_policy_note(training: Mapping[str, Any]) -> str:
    """Describe success and KL divergence of an on-policy training; empty for other trainings.

    The success is the mean over the first and over the last quarter of the iterations, because each has few tasks. The
    divergence is that from the policy as the training began, if it is logged, or else from the sampling policy.
    """
    history = training.get("history", ())
    rates = [row["success"] for row in history if row.get("success") is not None]
    if not rates:
        return ""
    quarter = max(1, len(rates) // 4)
    parts = (rates[:quarter], rates[-quarter:])[: len(rates)]
    note = f"success of the training {' → '.join(f'{100 * fmean(part):.1f}' for part in parts)} %"
    for name in ("kl_ref_k3", "kl_old_k3"):
        if values := [row[name] for row in history if row.get(name) is not None]:
            return f"{note}, KL {values[-1]:.2g}"
    return note


def selection_line(metrics: Mapping[str, Any]) -> str:
    """Summarise who explored, what was selected, dropped, trained on and given up, training and valid success.

    Valid success says if the tasks are few, and shows each environment if there are several.
    """
    training, valid, selection = metrics["training"], metrics["valid"], metrics["selection"]
    player = f"{metrics['player']}: " if "player" in metrics else ""  # older versions did not record it
    player = f"{metrics['stage']['world']}, {player}" if "stage" in metrics else player
    text = player + selection["line"] if selection["kept"] or selection["dropped"] else "no episodes"
    text += f"; trained on {training['trajectories']} in all" if training else "; not trained"
    if training and (replayed := training.get("metrics", {}).get("replay/trajectories")) is not None:
        text += f", {replayed:.0f} of them replayed from earlier worlds"
    if training and (dropped := training.get("dropped")):
        text += f", left out: {', '.join(f'{number} {why}' for why, number in dropped.items())}"
    if training and (note := on_policy_note(training) or coreset_line(training.get("metrics", {}))):
        text += f"; {note}"
    text += "".join(f"; {note}" for note in [*constraint_notes(metrics), *improvement_notes(metrics)])
    if explored := list(filter(None, [curriculum_note(metrics), *play_notes(metrics["explored"])])):
        text += f"; exploration: {', '.join(explored)}"
    notes = [small_sample_note(read_estimate(valid["success"])), *play_notes(valid)]
    notes += [f"{env} {format_interval(read_estimate(part['success']))}" for env, part in env_summaries(valid).items()]
    return text + (f"; valid: {', '.join(filter(None, notes))}" if any(notes) else "")


def curriculum_note(metrics: Mapping[str, Any]) -> str:
    """Note the levels and the horizon of a round's exploration; empty without a curriculum."""
    curriculum = metrics.get("curriculum", {})
    notes = [
        f"{world} {name} {format_interval(read_estimate(rate))} of {rate['n']}"
        for world, levels in curriculum.get("levels", {}).items() for name, rate in levels.items() if rate["n"]
    ]  # fmt: skip
    notes += [f"at most {curriculum['horizon']} steps"] if "horizon" in curriculum else []
    return ", ".join(notes)


def improvement_notes(metrics: Mapping[str, Any]) -> list[str]:
    """Note what the world says of a round's critic and of its retries; empty without these."""
    notes = list[str]()
    if critic := metrics.get("critic"):
        kept, scored = (format_interval(read_estimate(critic[f"success_of_{name}"])) for name in ("kept", "scored"))
        mean = number_text(critic["mean_score"], 2)
        notes.append(f"critic: mean score {mean}; the world counts {kept} of the kept as successes, {scored} of all")
        notes += [f"{number} without a score: {reason}" for reason, number in critic["missing"].items()]
    if reflection := metrics.get("reflection"):
        rate = format_interval(read_estimate(reflection["success"]))
        texts, retries = reflection["reflections"], reflection["retries"]
        notes.append(f"{retries} failures tried again, {texts} with a reflection: {rate} succeed" if retries else
                     "no failure to try again")  # fmt: skip
    return notes


def constraint_notes(metrics: Mapping[str, Any]) -> list[str]:
    """Note the costs of a training's episodes and the multipliers at its end; empty without constraints."""
    history, start = (metrics["training"] or {}).get("history", ()), "multiplier/"
    last = history[-1] if history else {}
    notes = list[str]()
    for name in (name.removeprefix(start) for name in last if name.startswith(start)):
        costs = [row[f"cost/{name}"] for row in history if f"cost/{name}" in row]
        if costs:
            notes.append(f"{name} {costs[0]:.3f} → {costs[-1]:.3f} per episode, multiplier {last[start + name]:.2g}")
    return notes


def play_notes(summary: Mapping[str, Any]) -> list[str]:
    """Note what went wrong in the episodes of a summary; empty texts if nothing did or an older version wrote it."""
    return [
        given_up_note(summary.get("given_up", 0)),
        cut_note(summary.get("cut")),
        context_note(
            sum(summary.get("rewards", {}).values()), summary.get("outgrown", 0), summary.get("turns_dropped", 0),
            summary.get("summary_tokens", 0),
        ),
    ]  # fmt: skip


def print_table(console: Console, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print aligned columns below a bold header; lines have no spaces at their ends, a terminal cuts long ones."""
    head, *body = columns([header, *rows])
    console.print(Text(head, style="bold"), soft_wrap=True)
    for line in map(Text, body):
        if console.is_terminal:
            line.truncate(console.width, overflow="ellipsis")
        console.print(line, soft_wrap=True)


def print_faults(console: Console, faults: FirstFaults) -> None:
    """Print a profile of first faults: title, table, and an example of each kind."""
    console.print(fault_title(faults), soft_wrap=True)
    if rows := fault_rows(faults):
        print_table(console, ("by", "", "faults", "share [95 %]", "median step"), rows)
        console.print()
    for note in fault_notes(faults):
        console.print(note, soft_wrap=True)


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines with aligned cells, two spaces apart."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(set_cell_size, row, widths)) for row in rows)
    return [line.rstrip() for line in lines]


def number_text(value: float | None, digits: int, scale: float = 1) -> str:
    """A number with this many digits after the point, or a dash for None or nan."""
    return "–" if value is None or math.isnan(value) else f"{scale * value:.{digits}f}"


def percent_text(rate: float | None) -> str:
    """A rate as `12.5 %`, or a dash for None or nan."""
    text = number_text(rate, 1, 100)
    return text if text == "–" else f"{text} %"


def loss_text(loss: float) -> str:
    """A loss with two digits after the point; a small one with its first two digits."""
    return f"{loss:.2f}" if not abs(loss) < 0.1 else f"{loss:.2g}"


def duration(seconds: float) -> str:
    """`42 s`, `3:05` or `1:02:03`."""
    return f"{seconds:.0f} s" if seconds < 99.5 else clock(seconds)


def clock(seconds: float) -> str:
    """`0:42`, `3:05` or `1:02:03`, the times of a column."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _cells(cells: Sequence[str]) -> str:
    return " ".join(f"{cell:>{width}}" for cell, (_, width) in zip(cells, _COLUMNS, strict=True)).rstrip()
