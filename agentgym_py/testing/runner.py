"""The list of checks, and how they are run."""

from __future__ import annotations

import inspect
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from agentgym_py.env import EnvSpec, TextEnv
from agentgym_py.env.registration import registered_id
from agentgym_py.errors import ConfigError, ConformanceError, UnknownNameError, did_you_mean
from agentgym_py.testing import agents, fuzz, interface, leaks, reproducibility, resources, snapshots
from agentgym_py.testing.harness import (
    BrokenContractError,
    NotApplicableError,
    Settings,
    StoppedError,
    Subject,
    raising,
    shown_raising,
    where_raised,
)
from agentgym_py.testing.report import Failure, Report, Result, Status

Check = Callable[[Subject], None]

CHECKS: Mapping[str, Check] = {
    "gymnasium": interface.gymnasium_check,
    "vectors": interface.vectors,
    "interface": interface.interface,
    "tasks": interface.tasks,
    "card": interface.card,
    "reproducible": reproducibility.reproducible,
    "futures": snapshots.futures,
    "forks": snapshots.forks,
    "corrupt": snapshots.corrupt,
    "expert": agents.expert,
    "actions": agents.actions,
    "wanderer": agents.wanderer,
    "random_baseline": agents.random_baseline,
    "strings": fuzz.strings,
    "leaks": leaks.leaks,
    "globals": resources.global_generators,
    "memory": resources.memory,
    "speed": resources.speed,
}
"""Every check by name; its docstring says what it looks at."""


def run_check(name: str, spec: EnvSpec, settings: Settings) -> Result:
    """One check of a world.

    Raises:
        ConfigError: the world cannot be made.
        UnknownNameError: no such check, or no such world.
    """
    if name not in CHECKS:
        raise UnknownNameError(f"No check {name!r}." + did_you_mean(name, CHECKS, "There are"))
    check = CHECKS[name]
    about = (inspect.getdoc(check) or "").partition("\n")[0]
    subject = Subject(spec, settings)
    spec.make().close()
    began = time.perf_counter()
    status, why, failure = _tried(check, subject)
    seconds = time.perf_counter() - began
    notes = (why,) if why else tuple(subject.notes)
    result = Result(name, about, status, seconds, dict(subject.counts), notes, dict(subject.measured), failure)
    subject.close()
    return result


def _tried(check: Check, subject: Subject) -> tuple[Status, str, Failure | None]:
    """What came of it, why where it was not done, and what is wrong where it failed."""
    try:
        check(subject)
    except NotApplicableError as error:
        return "skipped", str(error), None
    except StoppedError as error:
        return "stopped", str(error), None
    except BrokenContractError as error:
        moves = error.moves or (subject.latest.moves if subject.latest else None)
        return "failed", "", Failure(str(error), moves, error.trace or where_raised(error.__cause__))
    except Exception as error:  # the world raised: what it must never do
        moves = shown_raising(subject.latest.moves, error) if subject.latest else None
        return "failed", "", Failure(raising(error), moves, where_raised(error))
    return "passed", "", None


def run_checks(
    world: str | type[TextEnv] | EnvSpec,
    checks: Iterable[str] = CHECKS,
    settings: Settings | None = None,
    told: Callable[[Result], object] = lambda _: None,
) -> Report:
    """Checks of a world one after another; `told` hears of each as soon as it is done."""
    spec = world if isinstance(world, EnvSpec) else EnvSpec(_named(world))
    chosen = settings or Settings()
    checks, results = list(checks), list[Result]()
    if "vectors" in checks:
        _need_guard()
    for name in checks:
        results.append(run_check(name, spec, chosen))
        told(results[-1])
    return Report(spec, chosen, tuple(results))


def _named(world: object) -> str:
    """The name of a world, whose class is registered if need be."""
    if inspect.isclass(world) and issubclass(world, TextEnv):
        return registered_id(world)
    if isinstance(world, str):
        return world
    raise ConfigError(f"a world's class or its name is wanted, such as MyWorld or 'MyWorld-v0'; got {world!r:.100}")


def _need_guard() -> None:
    """Refuse a script that would run again, up to this call, in every process that a check starts."""
    file = getattr(sys.modules["__main__"], "__file__", None)
    try:
        text = Path(file).read_text(encoding="utf-8") if file else ""
    except (OSError, ValueError):  # no file of text, as the launcher of a command
        return
    if text and not re.search(r"^if\b.*__name__", text, re.MULTILINE):
        raise ConfigError(
            f"the check starts processes, each of which runs {file} again: write what it does "
            'below `if __name__ == "__main__":`'
        )


def check_world(
    world: str | type[TextEnv],
    *checks: str,
    env_kwargs: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Report:
    """Check a world: all of `CHECKS`, or those that are named.

    Args:
        world: its class, or its short name or Gymnasium id.
        checks: names of `CHECKS`.
        env_kwargs: arguments of the world.
        settings: fields of `Settings`, such as `episodes=20`.

    Raises:
        ConformanceError: a check failed; the message is the report, with a program that shows each failure.
        ConfigError: no world, or a script that the processes of a check would run again.
        UnknownNameError: no check or world of that name.
    """
    report = run_checks(EnvSpec(_named(world), env_kwargs or {}), checks or CHECKS, Settings(**settings))
    if not report.ok:
        raise ConformanceError("\n" + report.text())
    return report
