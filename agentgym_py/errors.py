"""The errors of agentgym-py and the sentence that helps with a misspelt name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class AgentGymError(Exception):
    """Root of every error that this project raises on purpose.

    ::

        AgentGymError
        ├── ConfigError (ValueError)        a setting has a wrong value
        ├── UnknownNameError (LookupError)  no environment, trainer, agent, model or task of that name
        ├── ResetNeededError (RuntimeError)      step, snapshot or expert before the first reset
        ├── ActionError (TypeError)         step was given something that is no string
        ├── SnapshotError (ValueError)      bytes that are no snapshot of this environment
        ├── CatalogueError (ValueError)     a world's data files are missing or broken
        ├── DataError (ValueError)          a trajectory file cannot be read as what it claims to be
        ├── TemplateError (ValueError)      a chat template that rewrites earlier turns
        ├── PolicyError (RuntimeError)      a model that cannot be loaded or run
        │   └── NonFiniteError (ArithmeticError) one that says nan or infinity
        ├── RunError (RuntimeError)         a run folder that is in use, incomplete or not a run
        ├── ConformanceError (AssertionError) a world breaks the contract of `TextEnv`
        ├── WorkerError (RuntimeError)      a process that played episodes died
        ├── EndpointError (RuntimeError)    a model's endpoint refuses, or does not answer any more
        ├── ExpertError (RuntimeError)      a world's expert failed where its plan was wanted
        ├── InfrastructureError (ConnectionError) what an episode needs is gone, or does not answer in time
        ├── TrainingError (RuntimeError)    a training that went wrong: its loss is not finite
        └── NothingToTrainOnError (RuntimeError) a round in which every trajectory was selected out

    What a language model writes never raises: a bad action is an observation.
    """


class ConfigError(AgentGymError, ValueError):
    """A setting has a wrong value; the message begins with the setting's name where there is one."""


class UnknownNameError(AgentGymError, LookupError):
    """Nothing of that name is registered or stored."""


class ResetNeededError(AgentGymError, RuntimeError):
    """An environment was used before its first reset."""


class ActionError(AgentGymError, TypeError):
    """`step` was given something that is no string."""


class SnapshotError(AgentGymError, ValueError):
    """Bytes that are no snapshot of this environment."""


class CatalogueError(AgentGymError, ValueError):
    """A world's data files are missing or broken; names the file, the entry and the key."""


class DataError(AgentGymError, ValueError):
    """A trajectory file cannot be read as what it claims to be."""


class TemplateError(AgentGymError, ValueError):
    """A chat template cannot be used turn by turn."""


class PolicyError(AgentGymError, RuntimeError):
    """A model cannot be loaded or run."""


class NonFiniteError(PolicyError, ArithmeticError):
    """A model says nan or infinity where a number is wanted, so that nothing can be drawn."""


class RunError(AgentGymError, RuntimeError):
    """A run folder is in use, incomplete or not a run."""


class ConformanceError(AgentGymError, AssertionError):
    """A world breaks the contract of `TextEnv`; the message is the conformance kit's report."""


class WorkerError(AgentGymError, RuntimeError):
    """A process that played episodes died, for example of memory."""


class EndpointError(AgentGymError, RuntimeError):
    """A model's endpoint refuses what it is asked; or it, or an environment server, does not answer any more."""


class ExpertError(AgentGymError, RuntimeError):
    """A world's expert failed where its plan was wanted."""


class InfrastructureError(AgentGymError, ConnectionError):
    """A server that an episode needs is gone or does not answer, its world takes too long, or its process died.

    Such an episode is no evidence, and never reward 0.
    """


class TrainingError(AgentGymError, RuntimeError):
    """A training that went wrong, such as one whose loss is not finite; the policy is what was last good."""


class NothingToTrainOnError(AgentGymError, RuntimeError):
    """A round selected no trajectory, so that training would be a silent no-op."""


NEAR = 0.65
"""How alike two names are, by difflib's ratio, of which one may be a slip for the other: `shpo` is `shop`, `nope` is
not."""


def nearest(name: str, choices: Iterable[str], cutoff: float = NEAR) -> str | None:
    """The one of `choices` that is most like `name` in any case, if one is near."""
    known = {choice.lower(): choice for choice in sorted(choices, reverse=True)}
    near = difflib.get_close_matches(name.lower(), sorted(known), n=1, cutoff=cutoff)
    return known[near[0]] if near else None


def did_you_mean(name: str, choices: Iterable[str], there_is: str = "Installed", cutoff: float = NEAR) -> str:
    """A clause for an error message: the nearest of `choices` to `name`, and what there is."""
    known = sorted(choices)
    meant = nearest(name, known, cutoff)
    hint = f" Did you mean {meant!r}?" if meant else ""
    return f"{hint} {there_is}: {', '.join(known) or 'none'}."
