"""`agentgym check`: test whether a world keeps the contract."""

from __future__ import annotations

import os
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from agentgym_py.cli import interrupt_status
from agentgym_py.cli.env_options import ENV_HELP, add_env_kwargs, env_spec, print_env_error
from agentgym_py.cli.interrupts import no_interrupt_lost
from agentgym_py.cli.parser import Parser, UsageError, Values, read_options, suggestion
from agentgym_py.cli.runtime import console, print_json
from agentgym_py.testing.harness import Settings
from agentgym_py.testing.report import Report, Result
from agentgym_py.testing.runner import CHECKS, run_checks

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
    parser.add(
        "only", default=[], item=str, metavar="CHECK", group="The checks",
        help=f"Run only these checks; repeated, or with commas. Checks: {', '.join(CHECKS)}.",
    )  # fmt: skip
    parser.add_dataclass(CheckOptions)


def run(args: Values) -> int:
    """Check a world; return 1 if a check failed or timed out, 130 after Ctrl-C."""
    chosen = read_options(CheckOptions, args)
    only = args["only"]
    for name in only:
        if name not in CHECKS:
            raise UsageError(f"--only: no check {name!r}{suggestion(name, CHECKS)}")
    try:
        spec = env_spec(args["name"], args["env_kwargs"])
    except Exception as error:  # a world may raise anything
        return print_env_error(error, args["name"])
    out = console(chosen.json)
    checks, done = only or list(CHECKS), list[Result]()

    def show(result: Result) -> None:
        done.append(result)
        out.print(result.line, soft_wrap=True)

    status = 0
    with TemporaryDirectory(prefix="agentgym") as folder:
        os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", folder)  # not the current folder
        try:
            with no_interrupt_lost():
                run_checks(spec, checks, chosen, show)
        except KeyboardInterrupt as stop:
            status = interrupt_status(stop)
    report = Report(spec, chosen, tuple(done), not_begun=tuple(checks[len(done) :]))
    for name in report.not_begun[:1] if status else ():
        out.print(f"stopped {name}", soft_wrap=True)
    for cause in report.causes:
        out.print("\n" + report.failure_text(cause), soft_wrap=True)
    out.print(report.verdict(), soft_wrap=True)
    if chosen.json:
        print_json(report.as_dict())
    return status or (0 if report.ok else FAILED)
