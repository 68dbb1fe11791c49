"""`agentgym judge`: judge stored trajectories by a source of feedback."""

from __future__ import annotations

import inspect
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from agentgym_py import registry
from agentgym_py.checks import Basic
from agentgym_py.cli import run_resumable
from agentgym_py.cli.argv import peek_options
from agentgym_py.cli.env_options import add_own_envs, register_own_envs
from agentgym_py.cli.episode_options import add_episode_options, read_episodes, require_episode_files
from agentgym_py.cli.interrupts import require_not_interrupted
from agentgym_py.cli.parser import Parser, UsageError, Values, add_config, read_options
from agentgym_py.cli.plugin_options import PluginOption
from agentgym_py.cli.runtime import console, print_json
from agentgym_py.errors import ConfigError, DataError
from agentgym_py.feedback import FeedbackSource, NoFeedback
from agentgym_py.files import claimed
from agentgym_py.trajectory import store

if TYPE_CHECKING:
    from agentgym_py.evaluation.stats import Estimate
    from agentgym_py.feedback.agreement import Agreement

_ADVICE = "the same command continues after the last block of episodes that was judged"


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """The judgement."""

    out: Basic[str | None] = None
    """File (required) for the feedback, with one line of JSON for each; a file that was interrupted is resumed."""
    ask_again: Basic[bool] = False
    """Ask once more about the episodes for which a model gave no answer in an earlier run of the command."""
    json: Basic[bool] = False
    """Print the agreement with the world as JSON, for a program."""


def source_class(name: str) -> type:
    """Return the dataclass of an installed feedback source."""
    is_folder = Path(name).is_dir()
    if is_folder or (len(Path(name).parts) > 1 and not registry.is_source(name)):
        raise ConfigError(
            f"the feedback source {name!r} is a {'folder' if is_folder else 'path'}: name the source, such as "
            "reward_model, and give the folder as its setting `folder`"
        )
    source = registry.load("agentgym.feedback", name)
    if not (inspect.isclass(source) and is_dataclass(source) and "feedback" in dir(source)):
        raise ConfigError(f"the feedback source {name!r} must be a dataclass with a method feedback, got {source!r}")
    return source


SOURCE = PluginOption(
    "source", "agentgym.feedback", source_class,
    "Where the feedback comes from (required): {names}, or a source file (FILE.py, FILE.py:Class, module:Class). "
    "`--source NAME --help` lists its settings; docs/guides/feedback.md explains them.", basic=True,
)  # fmt: skip


def options(parser: Parser) -> None:
    """Add the options of `judge`."""
    add_config(parser)
    add_episode_options(parser, "The judgement")
    parser.add_dataclass(JudgeOptions)
    SOURCE.add(parser, peek_options(parser.argv).get("source"))
    add_own_envs(parser)


class JudgePlan(NamedTuple):
    """What `judge` is asked for."""

    options: JudgeOptions
    source: FeedbackSource


def read_plan(args: Values) -> JudgePlan:
    """Read and check the options before anything is loaded or written."""
    chosen: JudgeOptions = read_options(JudgeOptions, args)
    require_episode_files(args, "judge")
    register_own_envs(args)
    source: FeedbackSource | None = SOURCE.read(args)
    if source is None:
        raise UsageError(f"--source NAME is needed: one of {', '.join(registry.names('agentgym.feedback'))}")
    return JudgePlan(chosen, source)


def _is_store(path: Path) -> bool:
    """Return whether a file begins with a trajectory."""
    with suppress(DataError, OSError):
        return any(True for _ in store.read(path, warn=False))
    return False


def run(args: Values) -> int:
    """Judge, and print the agreement with the world; 130 after Ctrl-C."""
    chosen, source = read_plan(args)
    if chosen.out is None:
        raise UsageError("--out FILE.jsonl is needed")
    out = Path(chosen.out)
    if out.is_dir():
        raise UsageError(f"--out {out} is a folder; name a file in it")
    if _is_store(out):
        raise UsageError(f"--out {out} holds trajectories; choose another file for the feedback")

    def work() -> int:
        with claimed(out):
            return _judge(args, out, source, chosen)

    return run_resumable(work, lambda: _ADVICE)


def _judge(args: Values, out: Path, source: FeedbackSource, chosen: JudgeOptions) -> int:
    from agentgym_py.feedback.agreement import agreement
    from agentgym_py.feedback.judging import judge_into
    from agentgym_py.report.terminal import Phases

    name, trajectories, began = args["source.name"], read_episodes(args), time.monotonic()
    with Phases(console(chosen.json)) as phases:
        show = phases.training(f"judge by {name}", "episodes")

        def progress(done: int, total: int) -> None:
            require_not_interrupted()
            show(done, total)

        feedback = judge_into(out, name, source, trajectories, progress, ask_again=chosen.ask_again)
    result = agreement(trajectories, feedback)
    if chosen.json:
        print_json({"file": str(out), "source": name, "episodes": len(trajectories), **asdict(result)})
        return 0
    print(f"{out}: {_counts(result)} on {len(trajectories)} episodes, {time.monotonic() - began:.0f} s")
    for reason, number in result.missing.items():
        print(f"  {number} episode{'s' * (number > 1)} without feedback: {reason}")
    if any(isinstance(item, NoFeedback) and item.may_succeed for item in feedback):
        print("  to ask about them once more, add --ask_again true")
    for line in agreement_lines(result):
        print(line)
    return 0


def _counts(result: Agreement) -> str:
    counts = {"score": result.scores, "comparison": result.comparisons, "correction": result.corrections}
    return ", ".join(f"{number} {noun}{'s' * (number != 1)}" for noun, number in counts.items())


def agreement_lines(result: Agreement) -> list[str]:
    """Return the agreement with the world as lines of text; empty if nothing can be compared."""
    rows = list[tuple[str, str]]()
    if result.pairwise:
        rows.append(("pairs of a task ordered as by return", _share(result.pairwise, result.pairs, "pairs")))
    if result.compared:
        rows.append(("comparisons ordered as by return", _share(result.compared, result.compared_pairs, "comparisons")))
    if result.tau is not None:
        rows.append(("Kendall tau-b of score and return", f"{result.tau:.2f}"))
    if result.calibration_error is not None and result.brier is not None:
        text = f"calibration error {result.calibration_error:.2f}, Brier score {result.brier:.2f}"
        rows.append(("score as the chance of success", text))
    width = max((len(name) for name, _ in rows), default=0)
    return ["Agreement with the world:", *(f"  {name:<{width}}  {text}" for name, text in rows)] if rows else []


def _share(estimate: Estimate, number: int, noun: str) -> str:
    from agentgym_py.evaluation.text import format_rate

    return f"{format_rate(estimate)}, {number} {noun}"
