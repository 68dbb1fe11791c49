"""Options that choose the agent and its model, and how a command shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from agentgym_py import registry
from agentgym_py.agents.human import PersonAgent
from agentgym_py.checks import Basic, parameters_of, require_arguments
from agentgym_py.cli.engine_options import EngineOptions
from agentgym_py.cli.parser import UsageError, read_options, with_option_names
from agentgym_py.cli.runtime import prepare_torch
from agentgym_py.cli.values import as_plain, scalar
from agentgym_py.collection import Executor, PlayConfig
from agentgym_py.collection.processes import Workers
from agentgym_py.collection.ray import RayWorkers
from agentgym_py.engine.sampling import SamplingParams
from agentgym_py.env import Prompt
from agentgym_py.env.base import require_seed
from agentgym_py.errors import ConfigError, UnknownNameError, did_you_mean
from agentgym_py.registry import is_source

if TYPE_CHECKING:
    from rich.console import Console

    from agentgym_py.agents import Agent
    from agentgym_py.cli.parser import Parser, Values
    from agentgym_py.policy import Policy
    from agentgym_py.report.terminal import Phases
    from agentgym_py.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """The model."""

    model: Basic[str] = "tiny"
    """`tiny`, `tiny-random`, `smollm2`, a checkpoint's folder, or a hub id (owner/name)."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Number format of the weights."""
    quantize: Literal["8bit", "4bit"] | None = None
    """Keep the linear layers' weights in 8 or 4 bits (bitsandbytes); adapters, --trainer.lora_rank, are trained."""
    chat_format: Literal["chatml", "plain"] | None = None
    """Chat format for a tokenizer whose own template is missing or unfit; the checkpoints keep it."""
    device: Basic[str | None] = None
    """Where it runs, for example `cpu` or `cuda:1`; by default on the GPU where there is one."""
    threads: Basic[int | None] = None
    """CPU threads of torch, and processes in which a model of less than ten million weights plays, on one thread each;
    by default one a physical core, 1 where the variable CI is set. Threads of each process where torchrun or accelerate
    started several, by default 1."""
    ray: int | None = None
    """Number of actors that play in a Ray cluster: that of the variable RAY_ADDRESS, the one that runs on this machine,
    or else one that is started there."""

    def __post_init__(self) -> None:
        for name in ("threads", "ray"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")

    def load(self, seed: int, folder: str | None = None) -> Policy:
        """The model, or a checkpoint of it; `seed` decides the weights of `tiny-random`."""
        from agentgym_py.policy import Policy

        return Policy.load(
            folder or self.model, seed=seed, dtype=self.dtype, device=self.device, chat_format=self.chat_format,
            quantize=self.quantize,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class AgentOptions(EngineOptions):
    """The agent and how it plays."""

    agent: Basic[str | None] = None
    """`expert`, `random`, `model` (the --model), `person` (you, at the terminal), `openai` (the --model of an
    OpenAI-compatible endpoint), another installed agent, or a source (FILE.py, FILE.py:Class, module:Class)."""
    expert: Basic[Literal["exact", "fair"] | None] = None
    """Which expert --agent expert is: `exact` (the default) knows everything; `fair` knows only what the episode has
    shown."""
    base_url: Basic[str | None] = None
    """Address of the endpoint, such as http://localhost:8000/v1, by default OpenAI's, or of --engine server; its key is
    the environment variable OPENAI_API_KEY. --agent_kwargs.tools, .prompt_price, .concurrency and others:
    docs/evaluation.md."""
    agent_kwargs: dict[str, Any] = field(default_factory=dict)
    """Arguments of an installed agent, as --agent_kwargs.NAME VALUE."""
    prompt: Prompt = "brief"
    """Which rules text opens an episode."""
    max_new_tokens: Basic[int | None] = None
    """Longest reply; by default 64 tokens of a model, 1024 of an endpoint's."""
    slots: int = 128
    """Episodes that are live at once."""
    step_timeout: float | None = None
    """Seconds that a world may take to begin or for a step; later ones are stopped, begun again once, and then left
    out as infrastructure failures. Worlds run in a process of their own then."""
    step_threads: int = 0
    """Threads, in each process that plays, for worlds that take seconds a step; 0 for fast worlds."""
    seed: Basic[int] = 0
    """Seed of everything that the agent draws, and of the weights of `tiny-random`."""

    def __post_init__(self) -> None:
        EngineOptions.__post_init__(self)
        require_seed(self.seed)
        self._params(0)  # complains of a wrong one before a model is loaded
        self.play(None)  # raises for wrong settings
        if self.expert and self.agent != "expert":
            raise UsageError(f"--expert {self.expert} is for --agent expert")
        if self.expert and "fair" in self.agent_kwargs:
            raise UsageError("--expert and --agent_kwargs.fair say the same: give one of them")
        names = ["model", *registry.names("agentgym.agents")]
        if self.agent is not None and self.agent not in names and not is_source(self.agent):
            raise UnknownNameError(f"No agent {self.agent!r} is installed." + did_you_mean(self.agent, names))

    def play(self, executor: Executor | None) -> PlayConfig:
        """Return how episodes are played."""
        return PlayConfig(
            self.slots, self.prompt, self.seed, executor, self.step_timeout, step_threads=self.step_threads
        )  # fmt: skip

    def make(self, model: ModelOptions, temperatures: Sequence[float]) -> tuple[list[Agent], Executor]:
        """The agent, a model once at each temperature with the same engine, and the executor."""
        if self.agent is None or self.agent == "model":
            return self._models(model, temperatures)
        options = {"model": model.model or None, "base_url": self.base_url, "max_new_tokens": self.max_new_tokens}
        arguments = {key: value for key, value in options.items() if value is not None and self.takes(key)}
        arguments |= {"fair": self.expert == "fair"} if self.expert else {}
        arguments |= {key: scalar(value) for key, value in as_plain(self.agent_kwargs).items()}
        executor: Executor = RayWorkers(model.ray) if model.ray else Workers(1)
        if not self.takes("temperature") or "temperature" in arguments:
            return [self._make(arguments)], executor
        return [self._make(arguments | {"temperature": each}) for each in temperatures], executor

    def takes(self, option: str) -> bool:
        """Whether the agent is given an option, such as `temperature`: its class has an argument of that name."""
        return self.agent == "model" or option in parameters_of(registry.load("agentgym.agents", str(self.agent)))

    def _make(self, arguments: dict[str, Any]) -> Agent:
        made = registry.load("agentgym.agents", str(self.agent))
        try:
            require_arguments(made, arguments)
            agent: Agent = made(**arguments)
        except ConfigError as error:
            raise with_option_names(error, as_plain(self.agent_kwargs), "agent_kwargs.") from error
        except TypeError as error:
            raise UsageError(f"the agent {self.agent} cannot be made: {error}") from error
        return agent

    def _params(self, temperature: float) -> SamplingParams:
        longest = 64 if self.max_new_tokens is None else self.max_new_tokens
        return SamplingParams(temperature=temperature, max_new_tokens=longest)

    def _models(self, model: ModelOptions, temperatures: Sequence[float]) -> tuple[list[Agent], Executor]:
        params = [self._params(each) for each in temperatures]
        prepare_torch(model.model, model.threads)
        from agentgym_py.agents import ModelAgent

        policy = model.load(self.seed)
        engine = self.engine_for(policy, self.slots)
        return [ModelAgent(policy, engine, each) for each in params], self.executor_for(policy, model.ray)


def add_agent_options(parser: Parser) -> None:
    """Add the options that choose the player: --agent, or the --model, which has no default here."""
    parser.add_dataclass(AgentOptions)
    parser.add_dataclass(ModelOptions)
    parser.set_defaults({"model": ""})


def read_agent(args: Values, default: str | None) -> tuple[AgentOptions, ModelOptions]:
    """Read who acts: the --model where one is args, else `default`; contradictions are refused."""
    model = read_options(ModelOptions, args)
    who = read_options(AgentOptions, args, agent=args["agent"] or ("model" if model.model else default))
    served = who.agent not in (None, "model") and who.takes("base_url")
    if who.agent is None or ((who.agent == "model") != bool(model.model) and not served):
        raise UsageError("choose an agent: --model NAME or --agent NAME")
    if who.agent == "person" and (model.ray or who.step_timeout is not None):
        raise UsageError("a person plays in this process: neither --ray nor --step_timeout is for --agent person")
    if who.engine == "server" and who.agent != "model":
        raise UsageError("--engine server plays a --model: --model NAME --engine server --base_url ADDRESS")
    who.require_here(who.step_timeout)
    if who.base_url and not served and who.engine != "server":
        raise UsageError("--base_url is of an endpoint: --agent openai --base_url ADDRESS --model NAME")
    return who, model


def phases_of(agent: Agent, shown_on: Console) -> Phases:
    """The phases of what this agent plays: bars would run through what a person types."""
    from agentgym_py.report.terminal import Phases

    return Phases(shown_on, bars=not isinstance(agent, PersonAgent))


def tell(agent: Agent, trajectory: Trajectory) -> None:
    """Show a person how an episode ended."""
    if isinstance(agent, PersonAgent):
        agent.show_end(trajectory)
