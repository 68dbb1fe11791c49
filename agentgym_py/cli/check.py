"""`agentgym check`: does a world keep the contract?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from agentgym_py.cli.common import WORLD, console, env_spec, print_json
from agentgym_py.cli.parser import Several, UsageError, add_options, listed, meant, read_options
from agentgym_py.testing.runner import CHECKS, run_checks
from agentgym_py.testing.subject import Settings

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace

FAILED = 1


@dataclass(frozen=True, slots=True)
class CheckOptions(Settings):
    """How much is tried, and how it is told."""

    json: bool = False
    """Print the report as JSON at the end; what happens meanwhile goes to stderr."""


def options(parser: ArgumentParser, argv: Sequence[str]) -> None:
    """Add what `check` takes."""
    del argv
    parser.usage = "agentgym check NAME [options]"
    parser.add_argument("name", metavar="NAME", help=WORLD)
    parser.add_argument(
        "--env_kwargs", type=dict[str, Any], default={}, metavar="NAME VALUE",
        help="Arguments of the world, as --env_kwargs.difficulty hard.",
    )  # fmt: skip
    parser.add_argument(
        "--only", action=Several, default=[], metavar="CHECK",
        help=f"These checks alone, repeated or with commas; there are {', '.join(CHECKS)}.",
    )  # fmt: skip
    add_options(parser, CheckOptions)


def run(given: Namespace) -> int:
    """Check a world; 1 where a check failed."""
    chosen = read_options(CheckOptions, given)
    only = listed(given["only"])
    unknown = [name for name in only if name not in CHECKS]
    if unknown:
        raise UsageError(f"--only: no check {unknown[0]!r}" + meant(unknown[0], CHECKS))
    spec = env_spec(given["name"], given["env_kwargs"])
    out = console(chosen.json)
    with TemporaryDirectory(prefix="agentgym") as folder:
        os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", folder)  # or it leaves a folder where it is called
        report = run_checks(spec, only or CHECKS, chosen, lambda result: out.print(result.line, soft_wrap=True))
    for each in report.failed:
        out.print("\n" + report.story(each), soft_wrap=True)
    out.print(report.verdict(), soft_wrap=True)
    if chosen.json:
        print_json(report.as_json())
    return 0 if report.ok else FAILED
