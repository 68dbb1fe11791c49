"""`agentgym check`: test whether a world keeps the contract."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from agentgym_py.cli import interrupt_status
from agentgym_py.cli.env_options import ENV_HELP, add_env_kwargs, env_spec, print_env_error
from agentgym_py.cli.interrupts import no_interrupt_lost
from agentgym_py.cli.parser import Parser, UsageError, Values, read_options, suggestion
from agentgym_py.cli.runtime import console, print_json
from agentgym_py.testing.harness import Settings
from agentgym_py.testing.report import Report, Result
from agentgym_py.testing.runner import CHECKS, Check, run_checks

if TYPE_CHECKING:
    from rich.console import Console

    from agentgym_py.env import EnvSpec

FAILED = 1


@dataclass(frozen=True, slots=True)
class CheckOptions(Settings):
    """The extent of the checks, and their output."""

    json: bool = False
    """Print the report as JSON at the end; progress goes to stderr."""


def options(parser: Parser) -> None:
    """Add the options of `check`."""
    parser.add_positional("name", ENV_HELP)
    add_env_kwargs(parser)
    add_only(parser, CHECKS)
    parser.add_dataclass(CheckOptions)


def add_only(parser: Parser, known: Mapping[str, Check]) -> None:
    """Add `--only CHECK`."""
    parser.add(
        "only", default=[], item=str, metavar="CHECK", group="The checks",
        help=f"Run only these checks; repeated, or with commas. Checks: {', '.join(known)}.",
    )  # fmt: skip


def read_only(args: Values, known: Iterable[str]) -> list[str]:
    """Return the checks of `--only`, by default all; UsageError if there is no such check."""
    names = list(known)
    for name in args["only"]:
        if name not in names:
            others = suggestion(name, names) or f"; there are {', '.join(names)}"
            raise UsageError(f"--only: no check {name!r}{others}")
    return args["only"] or names


def run(args: Values) -> int:
    """Check a world; return 1 if a check failed or timed out, 130 after Ctrl-C."""
    chosen = read_options(CheckOptions, args)
    checks = read_only(args, CHECKS)
    try:
        spec = env_spec(args["name"], args["env_kwargs"])
    except Exception as error:  # a world may raise anything
        return print_env_error(error, args["name"])
    out = console(chosen.json)
    report, status = run_and_show(spec, checks, CHECKS, chosen, out)
    out.print(report.verdict(), soft_wrap=True)
    if chosen.json:
        print_json(report.as_dict())
    return status or (0 if report.ok else FAILED)


def run_and_show(
    spec: EnvSpec, checks: Sequence[str], known: Mapping[str, Check], settings: Settings, out: Console
) -> tuple[Report, int]:
    """Run checks of `known`, print a line after each and then the failures; return the status of an interrupt or 0."""
    done, status = list[Result](), 0

    def show(result: Result) -> None:
        done.append(result)
        out.print(result.line, soft_wrap=True)

    with TemporaryDirectory(prefix="agentgym") as folder:
        os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", folder)  # not the current folder
        try:
            with no_interrupt_lost():
                run_checks(spec, checks, settings, show, known)
        except KeyboardInterrupt as stop:
            status = interrupt_status(stop)
    report = Report(spec, settings, tuple(done), not_begun=tuple(checks[len(done) :]))
    for name in report.not_begun[:1] if status else ():
        out.print(f"stopped {name}", soft_wrap=True)
    for cause in report.causes:
        out.print("\n" + report.failure_text(cause), soft_wrap=True)
    return report, status
