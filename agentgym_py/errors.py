"""The errors of agentgym-py, and hints for misspelt names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class AgentGymError(Exception):
    """Root of every error that this project raises on purpose.

    ::

        AgentGymError
        ├── ConfigError (ValueError)                        a setting has a wrong value
        ├── UnknownNameError (LookupError)                  no environment, trainer, agent, model or task has that name
        ├── ResetNeededError (RuntimeError)                 step, snapshot or expert before the first reset
        ├── ActionError (TypeError)                         the action passed to step is not a string
        ├── SnapshotError (ValueError)                      bytes that are not a snapshot of this environment
        ├── CatalogueError (ValueError)                     a world's data files are missing or broken
        ├── DataError (ValueError)                          a trajectory file cannot be read
        ├── TemplateError (ValueError)                      a chat template that rewrites earlier turns
        ├── PolicyError (RuntimeError)                      a model that cannot be loaded or run
        │   └── NonFiniteError (ArithmeticError)            a model's output is nan or infinite
        ├── RunError (RuntimeError)                         a run folder is in use, incomplete or not a run
        │   └── WriteError (OSError)                        a file or folder cannot be written: the disk is full
        ├── ConformanceError (AssertionError)               a world breaks the contract of `TextEnv`
        ├── WorkerError (RuntimeError)                      a worker process died, or is busy
        ├── EndpointError (RuntimeError)                    a model's endpoint refuses, or no longer answers
        ├── ExpertError (RuntimeError)                      a world's expert failed when its plan was needed
        ├── InfrastructureError (ConnectionError)           what an episode depends on is gone, or too slow
        ├── TrainingError (RuntimeError)                    training failed, such as with a loss that is not finite
        └── NothingToTrainOnError (RuntimeError)            a round selected no trajectory

    What a language model writes never raises: a bad action leads to an observation.
    """

    of_server = False
    """Whether a server named it: then it may be anything, and is no error of the user's."""


class ConfigError(AgentGymError, ValueError):
    """A setting has a wrong value; the message begins with its name."""


class UnknownNameError(AgentGymError, LookupError):
    """Nothing with that name is registered or stored."""


class ResetNeededError(AgentGymError, RuntimeError):
    """An environment was used before its first reset."""


class ActionError(AgentGymError, TypeError):
    """The action passed to `step` is not a string."""


class SnapshotError(AgentGymError, ValueError):
    """Bytes that are not a snapshot of this environment."""


class CatalogueError(AgentGymError, ValueError):
    """A world's data files are missing or broken; the message names file, entry and key."""


class DataError(AgentGymError, ValueError):
    """A trajectory file cannot be read in the format that it claims."""


class TemplateError(AgentGymError, ValueError):
    """A chat template cannot be used turn by turn."""


class PolicyError(AgentGymError, RuntimeError):
    """A model cannot be loaded or run."""


class NonFiniteError(PolicyError, ArithmeticError):
    """A model's output is nan or infinite, so nothing can be sampled from it."""


class RunError(AgentGymError, RuntimeError):
    """A run folder is in use, incomplete or not a run."""


class WriteError(RunError, OSError):
    """A file or folder cannot be written, for example because the disk is full; what was there is unchanged."""


class ConformanceError(AgentGymError, AssertionError):
    """A world breaks the contract of `TextEnv`; the message is the report of the conformance kit."""


class WorkerError(AgentGymError, RuntimeError):
    """A worker process died, for example out of memory, or still plays other jobs."""


class EndpointError(AgentGymError, RuntimeError):
    """A model's endpoint refuses a request, or it or an environment server no longer answers."""


class ExpertError(AgentGymError, RuntimeError):
    """A world's expert failed when its plan was needed."""


class InfrastructureError(AgentGymError, ConnectionError):
    """A server that an episode depends on does not answer, its world is too slow, or its process died.

    Such an episode is no evidence about the agent, and does not count as reward 0.
    """


class TrainingError(AgentGymError, RuntimeError):
    """Training failed, for example because the loss is not finite; the policy is back at its last good weights."""


class NothingToTrainOnError(AgentGymError, RuntimeError):
    """A round selected no trajectory, so training would do nothing."""


_command_line: ContextVar[bool] = ContextVar("command_line", default=False)


@contextmanager
def naming_options(as_options: bool = True) -> Iterator[None]:
    """Let messages within name settings as options, for the command line, or as `rounds=2`."""
    before = _command_line.set(as_options)
    try:
        yield
    finally:
        _command_line.reset(before)


def setting(name: str, value: object = None) -> str:
    """Return a setting as its user writes it: `--rounds 2` on the command line, `rounds=2` in Python."""
    if _command_line.get():
        name = f"--{name.removesuffix('.name')}"
        return name if value is None else f"{name} {str(value).lower() if isinstance(value, bool) else value}"
    return name if value is None else f"{name}={value}"


NEAR = 0.65
"""difflib's ratio from which one name may be a typo of another: `shpo` of `shop`, but not `nope`."""


def nearest(name: str, choices: Iterable[str], cutoff: float = NEAR) -> str | None:
    """Return the choice most similar to `name`, ignoring case; None if none is near."""
    by_lower = {choice.lower(): choice for choice in sorted(choices, reverse=True)}
    near = difflib.get_close_matches(name.lower(), sorted(by_lower), n=1, cutoff=cutoff)
    return by_lower[near[0]] if near else None


def did_you_mean(name: str, choices: Iterable[str], there_is: str = "Installed", cutoff: float = NEAR) -> str:
    """Return a clause for an error message: the choice nearest to `name`, and all choices."""
    names = sorted(choices)
    near = nearest(name, names, cutoff)
    hint = f" Did you mean {near!r}?" if near else ""
    return f"{hint} {there_is}: {', '.join(names) or 'none'}."
