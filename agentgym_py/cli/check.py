"""`agentgym check`: does a world keep the contract?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from agentgym_py.cli import sigterm_as_interrupt, status_of
from agentgym_py.cli.env_options import WORLD, add_env_kwargs, env_spec, print_env_error
from agentgym_py.cli.parser import UsageError, read_options, suggestion
from agentgym_py.cli.runtime import console, print_json
from agentgym_py.testing.harness import Settings
from agentgym_py.testing.report import Report, Result
from agentgym_py.testing.runner import CHECKS, run_checks

if TYPE_CHECKING:
    from agentgym_py.cli.parser import Parser, Values

FAILED = 1


@dataclass(frozen=True, slots=True)
class CheckOptions(Settings):
    """How much is tried, and how it is told."""

    json: bool = False
    """Print the report as JSON at the end; what happens meanwhile goes to stderr."""


def options(parser: Parser, argv: Sequence[str]) -> None:
    """Add what `check` takes."""
    del argv
    parser.usage = "agentgym check NAME [options]"
    parser.add_positional("name", WORLD)
    add_env_kwargs(parser)
    parser.add(
        "only", default=[], item=str, metavar="CHECK", group="The checks",
        help=f"These checks alone, repeated or with commas; there are {', '.join(CHECKS)}.",
    )  # fmt: skip
    parser.add_dataclass(CheckOptions)


def run(args: Values) -> int:
    """Check a world; 1 where a check failed or was not over in time, 130 after Ctrl-C."""
    chosen = read_options(CheckOptions, args)
    only = args["only"]
    unknown = [name for name in only if name not in CHECKS]
    if unknown:
        raise UsageError(f"--only: no check {unknown[0]!r}" + suggestion(unknown[0], CHECKS))
    try:
        spec = env_spec(args["name"], args["env_kwargs"])
    except Exception as error:  # a world may raise anything
        return print_env_error(error, args["name"])
    out = console(chosen.json)
    checks, done = only or list(CHECKS), list[Result]()

    def told(result: Result) -> None:
        done.append(result)
        out.print(result.line, soft_wrap=True)

    status = 0
    with TemporaryDirectory(prefix="agentgym") as folder:
        os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", folder)  # or it leaves a folder where it is called
        try:
            with sigterm_as_interrupt():
                run_checks(spec, checks, chosen, told)
        except KeyboardInterrupt as stop:
            status = status_of(stop)
    report = Report(spec, chosen, tuple(done), not_begun=tuple(checks[len(done) :]))
    for name in report.not_begun[:1]:
        out.print(f"stopped {name}", soft_wrap=True)
    for each in report.causes:
        out.print("\n" + report.failure_text(each), soft_wrap=True)
    out.print(report.verdict(), soft_wrap=True)
    if chosen.json:
        print_json(report.as_dict())
    return status or (0 if report.ok else FAILED)
