"""The list of checks, and functions that run them."""

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
from agentgym_py.testing import agents, fuzz, interface, isolation, leaks, reproducibility, resources, snapshots
from agentgym_py.testing.failures import (
    BrokenContractError,
    NotApplicableError,
    StoppedError,
    describe_error,
    error_trace,
    moves_to_error,
)
from agentgym_py.testing.harness import Settings, Subject
from agentgym_py.testing.report import Failure, Report, Result, Status
from agentgym_py.testing.time_limits import handled_alarms

Check = Callable[[Subject], None]

CHECKS: Mapping[str, Check] = {
    "isolation": isolation.isolation,
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
"""Every check by name; its docstring says what it checks."""


def run_check(name: str, spec: EnvSpec, settings: Settings, known: Mapping[str, Check] = CHECKS) -> Result:
    """Run one check of `known`.

    Raises:
        ConfigError: the env cannot be made.
        UnknownNameError: no such check, or no such env.
    """
    if name not in known:
        raise UnknownNameError(f"No check {name!r}." + did_you_mean(name, known, "There are"))
    check = known[name]
    about = (inspect.getdoc(check) or "").partition("\n")[0]
    subject = Subject(spec, settings)
    subject.make()
    subject.close()
    began = time.perf_counter()
    with handled_alarms():
        status, reason, failure = _status(check, subject)
    seconds = time.perf_counter() - began
    notes = (reason,) if reason else tuple(subject.notes)
    result = Result(name, about, status, seconds, dict(subject.counts), notes, dict(subject.measured), failure)
    subject.close()
    return result


def _status(check: Check, subject: Subject) -> tuple[Status, str, Failure | None]:
    """Run a check; return its status, the reason if it was not done, and the failure."""
    try:
        check(subject)
    except NotApplicableError as error:
        return "skipped", str(error), None
    except StoppedError as error:
        return "stopped", str(error), None
    except BrokenContractError as error:
        moves = error.moves or (subject.latest.moves if subject.latest else None)
        failure = Failure(str(error), moves, error.trace or error_trace(error.__cause__), error.ends_process)
        return "failed", "", failure
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the env raised, which it must never do
        moves = moves_to_error(subject.latest.moves, error) if subject.latest else None
        return "failed", "", Failure(describe_error(error), moves, error_trace(error))
    return "passed", "", None


def run_checks(
    env: str | type[TextEnv] | EnvSpec,
    checks: Iterable[str] = CHECKS,
    settings: Settings | None = None,
    on_result: Callable[[Result], object] = lambda _: None,
    known: Mapping[str, Check] = CHECKS,
) -> Report:
    """Run checks of `known` on an env one after another; `on_result` is called after each.

    Raises:
        ConfigError: there are no checks, the env cannot be made, or as in `check_world`.
        UnknownNameError: no such check, or no such env.
    """
    spec, settings = spec_of(env), settings or Settings()
    checks, results = list(checks), list[Result]()
    if not checks:
        raise ConfigError(f"checks is empty; name at least one of {', '.join(known)}")
    if "vectors" in checks:
        _require_main_guard()
    for name in checks:
        results.append(run_check(name, spec, settings, known))
        on_result(results[-1])
        if (failure := results[-1].failure) and failure.ends_process:
            break  # the other checks play in this process
    return Report(spec, settings, tuple(results), tuple(checks[len(results) :]))


def spec_of(env: str | type[TextEnv] | EnvSpec, env_kwargs: Mapping[str, Any] | None = None) -> EnvSpec:
    """Return the spec of an env; a class is registered if it is not yet.

    Raises:
        ConfigError: it is neither a world's class nor a name.
    """
    return env if isinstance(env, EnvSpec) else EnvSpec(_env_name(env), env_kwargs or {})


def _env_name(env: object) -> str:
    if inspect.isclass(env) and issubclass(env, TextEnv):
        return registered_id(env)
    if isinstance(env, str):
        return env
    raise ConfigError(f"a world's class or its name is wanted, such as MyWorld or 'MyWorld-v0'; got {env!r:.100}")


def _require_main_guard() -> None:
    """Refuse a script that every process of a check would run again up to this call."""
    file = getattr(sys.modules["__main__"], "__file__", None)
    try:
        text = Path(file).read_text(encoding="utf-8") if file else ""
    except (OSError, ValueError):  # no text file, such as a command's launcher
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
    """Run all of `CHECKS`, or those that are named, on an env.

    Args:
        world: its class, or its short name or Gymnasium id.
        checks: names of `CHECKS`.
        env_kwargs: arguments of the env.
        settings: fields of `Settings`, such as `episodes=20`.

    Raises:
        ConformanceError: a check failed; the message is the report, with a program that reproduces each failure.
        ConfigError: no env, or a script that the processes of a check would run again.
        UnknownNameError: no check or env of that name.
    """
    report = run_checks(spec_of(world, env_kwargs), checks or CHECKS, Settings(**settings))
    if not report.ok:
        raise ConformanceError("\n" + report.text())
    return report
