"""How episodes are played: `PlayConfig`, and what an executor is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

from agentgym_py.agents import Agent
from agentgym_py.checks import require_field_types
from agentgym_py.collection.job import Job
from agentgym_py.collection.watchdog import MAX_LANES, require_timeout
from agentgym_py.env import Prompt
from agentgym_py.env.arguments import require_prompt, require_seed
from agentgym_py.errors import ConfigError
from agentgym_py.multiagent.partners import PartnerSettings
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.types import require_template


class Executor(Protocol):
    """Where episodes run: `Workers`, `Ranks` or `RayWorkers`.

    Every executor returns the same trajectories, up to floating-point rounding.
    """

    number: int
    """How many processes or actors play."""

    def is_worthwhile(self, jobs: Sequence[Job]) -> bool:
        """Whether these jobs finish sooner here than in this process."""
        ...

    def stream(self, agent: Agent, config: PlayConfig, jobs: Sequence[Job]) -> Iterator[tuple[int, Trajectory]]:
        """Play every job; yield (index of the job, trajectory) as episodes end."""
        ...

    def close(self) -> None:
        """Stop everything that was started."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


@dataclass(frozen=True, slots=True)
class PlayConfig:
    """How episodes are played. Use `dataclasses.replace` for variations.

    Raises:
        ConfigError: a value is out of range.
    """

    slots: int = 64
    """Episodes that are live at once."""
    prompt: Prompt = "brief"
    """Which rules text opens an episode."""
    seed: int = 0
    """Seed of everything that envs and agents draw."""
    executor: Executor | None = None
    """Processes or Ray actors that play when there are enough jobs, or a `step_timeout`; None: this process plays."""
    step_timeout: float | None = None
    """Seconds that an env may take for make, reset, a step, close, or what an agent asks within `Episode.watch`. A late
    episode ends with an infrastructure error. An executor kills the process of a late env. Without one, an env on a
    step thread is abandoned, and an env in the loop is only noticed when it returns."""
    retries: int = 1
    """How often an episode is begun again after its env failed, was late or crashed its process."""
    step_threads: int = 0
    """Threads, in each process, that make, reset, step and close envs beside generation; for envs that take seconds.
    0 steps envs in the loop, which is fastest for fast envs.

    Each env is made, used and closed on one thread. Agents that ask the env itself, such as the expert, do so from the
    main thread between two steps. An agent that replies in batches (`act`) waits for every live env, so its batches and
    its trajectories are those of 0 threads. A batch of a streaming agent, such as a model on an `HFEngine`, holds the
    episodes that are ready: there timing decides how sums round."""

    prompt_template: str | None = None
    """Text in place of the rules, in which `{rules}` is the text of `prompt`; the first observation follows."""
    partner: PartnerSettings = field(default_factory=PartnerSettings)
    """How a checkpoint plays that is the partner in a world of several roles (`partner_model`)."""

    def __post_init__(self) -> None:
        require_prompt(self.prompt)
        require_field_types(self)
        require_template(self.prompt_template)
        require_seed(self.seed)
        if self.executor is not None and not hasattr(self.executor, "stream"):
            raise ConfigError(f"executor must be an executor such as Workers(2), not {self.executor!r:.60}")
        if self.slots < 1:
            raise ConfigError(f"slots must be at least 1, got {self.slots}")
        require_timeout(self.step_timeout)
        if self.retries < 0:
            raise ConfigError(f"retries must be at least 0, got {self.retries}")
        if not 0 <= self.step_threads <= MAX_LANES:
            raise ConfigError(f"step_threads must be from 0 to {MAX_LANES}, got {self.step_threads}")

    def per_process(self, number: int) -> PlayConfig:
        """Return the config of one of `number` processes that share the slots."""
        return replace(self, executor=None, slots=-(-self.slots // number))
