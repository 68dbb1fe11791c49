"""The options that choose the inference engine: this process, or a model server."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

from agentgym_py import distributed
from agentgym_py.checks import parameters_of, require_arguments
from agentgym_py.cli.parser import UsageError, with_option_names
from agentgym_py.cli.runtime import executor_for
from agentgym_py.cli.values import as_plain, parse_scalar
from agentgym_py.collection import Executor
from agentgym_py.collection.processes import Workers
from agentgym_py.engine import ServerKind, SyncWeights
from agentgym_py.errors import ConfigError, setting
from agentgym_py.http_client import require_limits

if TYPE_CHECKING:
    from agentgym_py.engine import Engine, ServerEngine
    from agentgym_py.policy import Policy


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The inference engine."""

    engine: Literal["hf", "server"] = "hf"
    """`hf`: this process; `server`: the model server at --base_url; see docs/guides/servers.md."""
    base_url: str | None = None
    """Address of the model server, such as http://localhost:8000. A key comes from the environment variable
    OPENAI_API_KEY."""
    server_kind: ServerKind = "vllm"
    """Kind of model server."""
    sync_weights: SyncWeights = "auto"
    """What a model server loads of a policy with LoRA adapters: `full` (merged weights), `lora` (the adapters alone),
    or `auto` (the adapters if it can, else merged weights)."""
    engine_kwargs: dict[str, Any] = field(default_factory=dict)
    """Settings for a model server, as --engine_kwargs.concurrency 64; also .timeout, .retries, .weights, .model, .push
    and .tolerance."""
    kv_cache_gib: float | None = None
    """Memory for the keys and values of live episodes, in GiB; prompts wait while it is full. By default half of a
    GPU's free memory, and without a bound on a CPU."""

    def __post_init__(self) -> None:
        if self.engine == "server" and not self.base_url:
            raise UsageError(f"{setting('engine', 'server')} needs {setting('base_url', 'ADDRESS')}")
        changed = self.engine_kwargs or self.server_kind != "vllm" or self.sync_weights != "auto"
        if self.engine == "hf" and changed:
            names = f"{setting('server_kind')}, {setting('sync_weights')} and {setting('engine_kwargs')}"
            raise UsageError(f"{names} need {setting('engine', 'server')}")
        if self.kv_cache_gib is not None and not 0 < self.kv_cache_gib < math.inf:
            raise ConfigError(f"kv_cache_gib must be above 0, got {self.kv_cache_gib:g}")
        if self.engine == "server" and self.kv_cache_gib is not None:
            needs = f"{setting('kv_cache_gib')} needs {setting('engine', 'hf')}"
            raise UsageError(f"{needs}: a model server has a setting of its own")
        self._server_settings()  # raises for a wrong one before a model is loaded

    def make_engine(self, policy: Policy, slots: int) -> Engine:
        """Return a new engine."""
        from agentgym_py.engine import HFEngine, ServerEngine

        if self.engine == "hf":
            return HFEngine(policy, slots=slots, kv_cache_gib=self.kv_cache_gib)
        settings = self._server_settings()
        try:
            require_arguments(ServerEngine, settings)
            return ServerEngine(policy, str(self.base_url), self.server_kind, **settings)
        except ConfigError as error:
            raise with_option_names(error, settings, "engine_kwargs.") from error
        except TypeError as error:
            raise UsageError(f"{setting('engine_kwargs')}: {error}") from error

    def _server_settings(self) -> dict[str, Any]:
        """Return the arguments of a model server's engine; its class is not imported, because it imports torch."""
        settings = {key: parse_scalar(value) for key, value in as_plain(self.engine_kwargs).items()}
        limits = {key: settings[key] for key in parameters_of(require_limits) if key in settings}
        try:
            require_arguments(require_limits, limits)
            require_limits(**limits)
        except ConfigError as error:
            raise with_option_names(error, settings, "engine_kwargs.") from error
        return {"sync_weights": self.sync_weights} | settings

    def engine_factory(self, base: Policy, slots: int) -> Callable[[Policy], Engine]:
        """Return a function that gives an engine for each policy of a run; a server must load `base` first.

        Raises:
            UsageError: the server cannot load other weights.
        """
        if self.engine == "hf":
            return partial(self.make_engine, slots=slots)
        server = cast("ServerEngine", self.make_engine(base, slots))
        if server.load_obstacle:
            option = setting("engine", "server")
            raise UsageError(f"{option}: the server cannot load new weights after a round: {server.load_obstacle}")
        return server.for_policy

    def executor_for(self, policy: Policy, actors: int | None) -> Executor:
        """Return the executor; one process is enough with a server."""
        if self.engine == "hf" or distributed.world_size() > 1:
            return executor_for(policy, actors)
        if actors:
            raise UsageError(f"{setting('ray')} cannot be used with {setting('engine', 'server')}: remove one of them")
        return Workers(1)

    def require_no_step_timeout(self, step_timeout: float | None) -> None:
        """Raise UsageError for a `step_timeout` with a model server, because its worlds run in this process."""
        if self.engine == "server" and step_timeout is not None:
            raise UsageError(
                f"{setting('step_timeout')} needs {setting('engine', 'hf')}, because worlds run in this process with "
                "a model server; "
                "agentgym serve --longest SECONDS limits their time, see docs/guides/serving.md"
            )
