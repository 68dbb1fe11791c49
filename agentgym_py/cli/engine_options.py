"""The options that say what computes a model's replies: this process, or a model server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

from agentgym_py import distributed
from agentgym_py.checks import require_arguments
from agentgym_py.cli.parser import UsageError, with_option_names
from agentgym_py.cli.runtime import executor_for
from agentgym_py.cli.values import as_plain, scalar
from agentgym_py.collection import Executor
from agentgym_py.collection.processes import Workers
from agentgym_py.engine import ServerKind
from agentgym_py.errors import ConfigError

if TYPE_CHECKING:
    from agentgym_py.engine import Engine, ServerEngine
    from agentgym_py.policy import Policy


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What computes the replies."""

    engine: Literal["hf", "server"] = "hf"
    """`hf`: this process; `server`: the model server at --base_url, docs/servers.md."""
    base_url: str | None = None
    """Address of the model server, such as http://localhost:8000; a key is the environment variable OPENAI_API_KEY."""
    server_kind: ServerKind = "vllm"
    """What the model server is."""
    engine_kwargs: dict[str, Any] = field(default_factory=dict)
    """Settings for a model server, as --engine_kwargs.concurrency 64; also .timeout, .retries, .weights, .model, .push
    and .tolerance."""

    def __post_init__(self) -> None:
        if self.engine == "server" and not self.base_url:
            raise UsageError("--engine server needs --base_url ADDRESS")
        if self.engine == "hf" and (self.engine_kwargs or self.server_kind != "vllm"):
            raise UsageError("--server_kind and --engine_kwargs are for --engine server")

    def engine_for(self, policy: Policy, slots: int) -> Engine:
        """A new engine."""
        from agentgym_py.engine import HFEngine, ServerEngine

        if self.engine == "hf":
            return HFEngine(policy, slots=slots)
        settings = {key: scalar(value) for key, value in as_plain(self.engine_kwargs).items()}
        try:
            require_arguments(ServerEngine, settings)
            return ServerEngine(policy, str(self.base_url), self.server_kind, **settings)
        except ConfigError as error:
            raise with_option_names(error, settings, "engine_kwargs.") from error
        except TypeError as error:
            raise UsageError(f"--engine_kwargs: {error}") from error

    def engines_for(self, base: Policy, slots: int) -> Callable[[Policy], Engine]:
        """Gives an engine for each policy of a run; a server must be able to load them, and is tried with `base`.

        Raises:
            UsageError: it cannot be given other weights.
        """
        if self.engine == "hf":
            return partial(self.engine_for, slots=slots)
        served = cast("ServerEngine", self.engine_for(base, slots))
        if served.fixed:
            raise UsageError(f"--engine server: after a round it would go on with old weights: {served.fixed}")
        return served.playing

    def executor_for(self, policy: Policy, actors: int | None) -> Executor:
        """Choose the executor: one process is enough to wait for a server."""
        if self.engine == "hf" or distributed.world_size() > 1:
            return executor_for(policy, actors)
        if actors:
            raise UsageError("--ray: who waits for a model server (--engine server) needs no actors")
        return Workers(1)

    def require_here(self, step_timeout: float | None) -> None:
        """UsageError where worlds should run in a process beside this one, which waits for the server."""
        if self.engine == "server" and step_timeout is not None:
            raise UsageError(
                "--step_timeout is for --engine hf: who waits for a model server has its worlds in this process; "
                "agentgym serve --longest SECONDS times worlds, docs/serving.md"
            )
