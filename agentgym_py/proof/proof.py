"""The proof of a trainer: what each check found, and its learning curve beside a reference's."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any, Literal

from agentgym_py import registry
from agentgym_py.errors import NothingToTrainOnError, UnknownNameError, did_you_mean
from agentgym_py.proof.bench import Bench
from agentgym_py.proof.checks import ALPHA, CHECKS, MIN_GAIN, Status
from agentgym_py.version import __version__

FORMAT = 1
Verdict = Literal["passed", "failed", "incomplete"]
REFERENCES = {True: "grpo", False: "filtered_bc"}
"""Trainer whose learning curve stands beside that of an on-policy or offline one."""
ALWAYS = {"mask", "improves"}
"""Checks that apply to every trainer; one that was skipped leaves a proof incomplete."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one check found."""

    check: str
    about: str
    """What must hold, in a sentence."""
    status: Status
    seconds: float
    text: str
    """What was found."""
    measured: Mapping[str, float] = field(default_factory=dict)

    @property
    def line(self) -> str:
        """The result in one line."""
        return f"{self.status:7} {self.check:11} {self.seconds:5.1f} s  {self.text}"


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The exact expected return at one point of a training, over the seeds."""

    share: float
    """Share of the training that is done, from 0 to 1."""
    mean: float
    low: float
    """That of the lowest seed."""
    high: float
    """That of the highest seed."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What is proven of a trainer."""

    trainer: str
    results: Sequence[Result]
    curve: Sequence[CurvePoint] = ()
    """Empty unless `improves` was asked."""
    reference: str = ""
    """Name of the trainer of `reference_curve`."""
    reference_curve: Sequence[CurvePoint] = ()
    seed: int = 0
    seeds: int = 0
    episodes: int = 0
    """Episodes of each training of the curve."""

    @property
    def failed(self) -> list[Result]:
        """The checks that failed."""
        return [result for result in self.results if result.status == "failed"]

    @property
    def verdict(self) -> Verdict:
        """`passed` if no check failed or is missing, and those of `ALWAYS` passed; `incomplete` if none failed."""
        if self.failed:
            return "failed"
        passed = {result.check for result in self.results if result.status == "passed"}
        is_whole = {result.check for result in self.results} >= CHECKS.keys() and passed >= ALWAYS
        return "passed" if is_whole else "incomplete"

    def as_dict(self) -> dict[str, Any]:
        """Return the proof as JSON values."""
        body = asdict(self)
        return {
            "proof": FORMAT, "agentgym": __version__, "verdict": self.verdict,
            "level": {"alpha": ALPHA, "min_gain": MIN_GAIN}, **body,
        }  # fmt: skip

    def curve_rows(self) -> tuple[list[str], list[list[str]]]:
        """Return the learning curves as a table."""
        header = ["training", "exact return", "lowest to highest seed"]
        known = {point.share: point for point in self.reference_curve}
        if known:
            header += [self.reference, "its seeds"]
        rows = []
        for point in self.curve:
            row = [f"{point.share:.0%}", f"{point.mean:.2f}", f"{point.low:.2f} to {point.high:.2f}"]
            if known:
                other = known.get(point.share)
                row += [f"{other.mean:.2f}", f"{other.low:.2f} to {other.high:.2f}"] if other else ["", ""]
            rows.append(row)
        return header, rows


def prove(
    trainer: Any, checks: Sequence[str] = (), *, seed: int = 0, seeds: int = 5, episodes: int | None = None,
    reference: str | None = None, on_result: Callable[[Result], object] = lambda _: None,
) -> Proof:  # fmt: skip
    """Check a trainer against exact truth on tables.

    Args:
        trainer: Its dataclass, an instance with settings, or its installed name or source (FILE.py:Class).
        checks: Names of `CHECKS` to run, by default all.
        seed: Seed of all that is drawn.
        seeds: Trainings of the learning curve, at least 2.
        episodes: Episodes of each of them; by default 640, or 160 for an offline trainer.
        reference: Trainer whose learning curve stands beside it, or `none`; by default `grpo` for an on-policy trainer
            and `filtered_bc` for an offline one.
        on_result: Called after each check.

    Raises:
        ConfigError: it makes something else than a policy, or trains adapters.
        UnknownNameError: no such trainer or check.
    """
    for name in checks:
        if name not in CHECKS:
            raise UnknownNameError(f"No check {name!r}." + did_you_mean(name, CHECKS))
    sizes: dict[str, Any] = {"seed": seed, "seeds": seeds} | ({} if episodes is None else {"episodes": episodes})
    bench = Bench(registry.load("agentgym.trainers", trainer) if isinstance(trainer, str) else trainer, **sizes)
    other = REFERENCES[bench.on_policy] if reference is None else "" if reference == "none" else reference
    beside = Bench(registry.load("agentgym.trainers", other), **sizes) if other else None
    results = list[Result]()
    for name in checks or CHECKS:
        results.append(run_check(bench, name))
        on_result(results[-1])
    measured = "curves" in vars(bench)  # `improves` was asked, and no training of it raised
    is_other = beside is not None and type(beside.trainer) is not type(bench.trainer)
    return Proof(
        trainer if isinstance(trainer, str) else bench.name, results,
        summarize(bench.curves) if measured else (),
        other if measured and is_other else "",
        summarize(beside.curves) if measured and beside and is_other else (),
        seed, seeds, bench.episodes,
    )  # fmt: skip


def run_check(bench: Bench, name: str) -> Result:
    """Run one check; what a trainer raises is a failure of it, unless its settings leave no episode to learn from."""
    began, check = time.perf_counter(), CHECKS[name]
    try:
        finding = check(bench)
        status, text, measured = finding.status, finding.text, finding.measured
    except NothingToTrainOnError as error:
        status, measured = "skipped", {}
        text = f"these settings leave it nothing to learn from: {error}"
    except Exception as error:  # a stranger's trainer may raise anything
        status, measured = "failed", {}
        text = f"the training raised {registry.describe_error(error)}"
    about = (check.__doc__ or "").partition("\n")[0]
    return Result(name, about, status, time.perf_counter() - began, text, measured)


def summarize(curves: Sequence[Sequence[tuple[float, float]]]) -> list[CurvePoint]:
    """Return mean and range over the seeds at the points that all curves have."""
    shares = [share for share, _ in curves[0] if all(share in dict(curve) for curve in curves)]
    points = []
    for share in shares:
        values = [dict(curve)[share] for curve in curves]
        points.append(CurvePoint(share, fmean(values), min(values), max(values)))
    return points
