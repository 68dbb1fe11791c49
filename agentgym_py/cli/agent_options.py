"""The options that choose the agent and its model."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self

from agentgym_py import registry
from agentgym_py.agents.base import require_agent
from agentgym_py.agents.human import PersonAgent
from agentgym_py.checks import Basic, parameters_of, require_arguments
from agentgym_py.cli.engine_options import EngineOptions
from agentgym_py.cli.env_options import env_names
from agentgym_py.cli.parser import Parser, UsageError, Values, read_options, with_option_names
from agentgym_py.cli.runtime import prepare_torch
from agentgym_py.cli.values import as_plain, parse_scalar
from agentgym_py.collection import Executor, PlayConfig
from agentgym_py.collection.processes import Workers
from agentgym_py.collection.ray import RayWorkers
from agentgym_py.engine.sampling import SamplingParams
from agentgym_py.env import EnvSpec, Prompt, reply_tokens
from agentgym_py.env.arguments import require_seed
from agentgym_py.errors import ConfigError, EndpointError, UnknownNameError, did_you_mean, setting
from agentgym_py.multiagent.partners import PartnerSettings
from agentgym_py.registry import is_source
from agentgym_py.trajectory.few_shot import read_few_shot

if TYPE_CHECKING:
    from rich.console import Console

    from agentgym_py.agents import Agent
    from agentgym_py.policy import Policy
    from agentgym_py.report.terminal import Phases
    from agentgym_py.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """The model."""

    model: Basic[str] = "tiny"
    """`tiny`, `tiny-worlds`, `tiny-data`, `tiny-random`, `smollm2`, a checkpoint's folder, or a hub id (owner/name)."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Data type of the weights."""
    quantize: Literal["8bit", "4bit"] | None = None
    """Quantize the linear layers to 8 or 4 bits (bitsandbytes); training then needs adapters, --trainer.lora_rank."""
    chat_format: Literal["chatml", "plain"] | None = None
    """Chat format for a tokenizer without a usable template; checkpoints keep it."""
    context: Literal["error", "drop_oldest", "summarise"] = "error"
    """What happens to an episode that outgrows the model's context: it is given up (`error`), or continues without its
    earliest turns (`drop_oldest`), or with a summary of them that the model writes (`summarise`)."""
    max_context: int | None = None
    """Largest number of tokens of an episode; by default the model's context. The memory of playing and training grows
    with it."""
    thinking: Literal["auto", "on", "off"] = "auto"
    """Whether a model whose chat template can think does so before it acts; checkpoints keep it."""
    chat_template_kwargs: dict[str, Any] = field(default_factory=dict)
    """Variables of the model's chat template, as --chat_template_kwargs.NAME VALUE; checkpoints keep them."""
    system_prompt: str | None = None
    """System message of a model or an endpoint; checkpoints keep it."""
    few_shot: str | None = None
    """File of episodes that stand as examples before each conversation of a model or an endpoint; checkpoints keep
    them."""
    attn_implementation: str | None = None
    """Attention of the model in training, by transformers' name: `sdpa` (its default), `eager`, `flash_attention_2`."""
    exact: bool = False
    """Multiply float32 matrices exactly on an NVIDIA GPU, not in TF32, which is faster; see docs/guides/scaling.md."""
    device: Basic[str | None] = None
    """Device, for example `cpu`, `cuda:1` or `mps`; by default the GPU if there is one."""
    threads: Basic[int | None] = None
    """CPU threads of torch, and number of processes in which a model below ten million weights plays, on one thread
    each. Default: one per physical core, or 1 if the variable CI is set. With torchrun or accelerate: threads per
    process, by default 1."""
    ray: int | None = None
    """Number of actors that play in a Ray cluster: the one of the variable RAY_ADDRESS, one that runs on this machine,
    or a new one."""

    def __post_init__(self) -> None:
        for name in ("max_context", "threads", "ray"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")

    def require_room(self, max_new_tokens: int) -> None:
        """Raise UsageError if a reply alone fills `max_context`."""
        if self.max_context is not None and self.max_context <= max_new_tokens:
            needs = f"{setting('max_context', self.max_context)} must be above {setting('max_new_tokens')}"
            raise UsageError(f"{needs}, which is {max_new_tokens}")

    def load(self, seed: int, folder: str | None = None) -> Policy:
        """Load the model, or the checkpoint in `folder`; `seed` determines the weights of `tiny-random`."""
        from agentgym_py.policy import Policy
        from agentgym_py.policy.loading import set_tf32

        set_tf32(exact=self.exact)
        return Policy.load(
            folder or self.model, seed=seed, dtype=self.dtype, device=self.device, chat_format=self.chat_format,
            quantize=self.quantize, context=self.context, max_context=self.max_context, thinking=self.thinking,
            chat_template_kwargs=self.chat_template_kwargs,
            attn_implementation=self.attn_implementation, **self.prompting(),
        )  # fmt: skip

    def partner_settings(self, max_new_tokens: int | None, slots: int, kv_cache_gib: float | None) -> PartnerSettings:
        """Return how a checkpoint plays that is the partner in a world of several roles."""
        longest = {} if max_new_tokens is None else {"max_new_tokens": max_new_tokens}
        return PartnerSettings(
            self.dtype, self.quantize, self.device, slots=slots, kv_cache_gib=kv_cache_gib, **longest
        )

    def prompting(self) -> dict[str, Any]:
        """Return the arguments of a model or an agent that stand before each conversation.

        Raises:
            ConfigError, DataError: the examples cannot be read.
        """
        system = {"system_prompt": self.system_prompt} if self.system_prompt is not None else {}
        return system | ({"few_shot": read_few_shot(self.few_shot)} if self.few_shot else {})


@dataclass(frozen=True, slots=True)
class AgentOptions(EngineOptions):
    """The agent and how it plays."""

    agent: Basic[str | None] = None
    """`expert`, `random`, `model` (the --model), `person` (you, in the terminal), `openai` (the --model of an
    OpenAI-compatible endpoint), `litellm` (the --model of another provider), another installed agent, or a source
    (FILE.py, FILE.py:Class, module:Class)."""
    expert: Basic[Literal["exact", "fair"] | None] = None
    """Kind of --agent expert: `exact` (the default) knows everything; `fair` knows only what the episode has shown."""
    base_url: Basic[str | None] = None
    """Address of --engine server or of the endpoint, such as http://localhost:8000/v1; by default OpenAI's. The key
    comes from the environment variable OPENAI_API_KEY. More settings are --agent_kwargs.tools, .prompt_price,
    .concurrency and others; see docs/guides/evaluation.md."""
    agent_kwargs: dict[str, Any] = field(default_factory=dict)
    """Arguments of the agent, as --agent_kwargs.NAME VALUE."""
    prompt: Prompt = "brief"
    """Which rules text opens an episode."""
    prompt_template: str | None = None
    """Text in place of the rules, in which {rules} is the --prompt text; the first observation follows."""
    max_new_tokens: Basic[int | None] = None
    """Longest reply in tokens; by default that of `agentgym evolve` in the world for a model, 1024 for an endpoint."""
    slots: int = 128
    """Number of simultaneous episodes."""
    step_timeout: float | None = None
    """Seconds that a world may take for a reset or a step. A late episode is stopped and restarted once, then excluded
    as an infrastructure failure. Worlds then run in a separate process."""
    step_threads: int = 0
    """Threads per process for worlds that take seconds per step; 0 for fast worlds."""
    seed: Basic[int] = 0
    """Seed of the agent's sampling, and of the weights of `tiny-random`."""

    def __post_init__(self) -> None:
        EngineOptions.__post_init__(self)
        require_seed(self.seed)
        self.sampling_params(0)  # raises for wrong settings before a model is loaded
        self.play_config(None, ModelOptions())
        if self.expert and self.agent != "expert":
            raise UsageError(f"--expert {self.expert} needs --agent expert")
        if self.expert and "fair" in self.agent_kwargs:
            raise UsageError("--expert and --agent_kwargs.fair set the same: give one of them")
        names = ["model", *registry.names("agentgym.agents")]
        if self.agent is not None and self.agent not in names and not is_source(self.agent):
            raise UnknownNameError(f"No agent {self.agent!r} is installed." + did_you_mean(self.agent, names))

    def play_config(self, executor: Executor | None, model: ModelOptions) -> PlayConfig:
        """Return how episodes are played."""
        partner = model.partner_settings(self.max_new_tokens, self.slots, self.kv_cache_gib)
        return PlayConfig(
            self.slots, self.prompt, self.seed, executor, self.step_timeout, step_threads=self.step_threads,
            prompt_template=self.prompt_template, partner=partner,
        )  # fmt: skip

    def make_agents(self, model: ModelOptions, temperatures: Sequence[float]) -> tuple[list[Agent], Executor]:
        """Return the executor and the agent, once per temperature; the agents of a model share one engine."""
        if self.agent is None or self.agent == "model":
            return self._models(model, temperatures)
        options = {"model": model.model or None, "base_url": self.base_url, "max_new_tokens": self.max_new_tokens}
        arguments = {key: value for key, value in options.items() if value is not None and self.accepts(key)}
        arguments |= model.prompting()
        arguments |= {"fair": self.expert == "fair"} if self.expert else {}
        arguments |= {key: parse_scalar(value) for key, value in as_plain(self.agent_kwargs).items()}
        executor: Executor = RayWorkers(model.ray) if model.ray else Workers(1)
        if not self.accepts("temperature") or "temperature" in arguments:
            return [self._make(arguments)], executor
        return [self._make(arguments | {"temperature": t}) for t in temperatures], executor

    def accepts(self, option: str) -> bool:
        """Return whether the agent's class takes an argument, such as `temperature`."""
        return self.agent == "model" or option in parameters_of(registry.load("agentgym.agents", str(self.agent)))

    def require_sampling(self) -> None:
        """Raise UsageError if the agent does not sample: a temperature would change nothing."""
        if not self.accepts("temperature"):
            raise UsageError(f"--temperature needs a --model, because the agent {self.agent} does not sample")

    def _make(self, arguments: dict[str, Any]) -> Agent:
        agent_class = registry.load("agentgym.agents", str(self.agent))
        try:
            require_arguments(agent_class, arguments)
            return require_agent(agent_class(**arguments))
        except ConfigError as error:
            is_entry = str(error).partition(" ")[0] in as_plain(self.agent_kwargs)
            raise with_option_names(error, arguments, "agent_kwargs." * is_entry) from error
        except TypeError as error:
            raise UsageError(f"the agent {self.agent} cannot be made: {error}") from error

    def in_worlds(self, worlds: Iterable[EnvSpec]) -> Self:
        """Return these options with the length of a model's replies that suits the worlds, unless one is given."""
        if self.agent != "model" or self.max_new_tokens is not None:
            return self
        return replace(self, max_new_tokens=reply_tokens(worlds))

    def sampling_params(self, temperature: float) -> SamplingParams:
        """Return how a model's replies are sampled."""
        longest = reply_tokens(()) if self.max_new_tokens is None else self.max_new_tokens
        return SamplingParams(temperature=temperature, max_new_tokens=longest)

    def _models(self, model: ModelOptions, temperatures: Sequence[float]) -> tuple[list[Agent], Executor]:
        params = [self.sampling_params(temperature) for temperature in temperatures]
        prepare_torch(model.model, model.threads)
        from agentgym_py.agents import ModelAgent

        policy = model.load(self.seed)
        engine = self.make_engine(policy, self.slots)
        return [ModelAgent(policy, engine, p) for p in params], self.executor_for(policy, model.ray)


def add_agent_options(parser: Parser) -> None:
    """Add the options that choose the agent: --agent, or --model, which has no default here."""
    parser.add_dataclass(AgentOptions)
    parser.add_dataclass(ModelOptions)
    parser.set_defaults({"model": ""})


def read_agent(args: Values, default: str | None) -> tuple[AgentOptions, ModelOptions]:
    """Read the agent and its model: --agent, else the --model if there is one, else `default`.

    Raises:
        UsageError: options contradict each other.
    """
    model = read_options(ModelOptions, args)
    agent = read_options(AgentOptions, args, agent=args["agent"] or ("model" if model.model else default))
    uses_endpoint = agent.agent not in (None, "model") and agent.accepts("base_url")
    if agent.agent is None or ((agent.agent == "model") != bool(model.model) and not uses_endpoint):
        both = bool(model.model) and args["agent"] is not None
        raise UsageError("choose an agent: --model NAME or --agent NAME" + ", not both" * both)
    if agent.agent == "model" and agent.agent_kwargs:
        raise UsageError(
            f"--agent_kwargs.{next(iter(agent.agent_kwargs))} needs an --agent: a --model takes --temperature, "
            "--max_new_tokens and the other options of a model"
        )
    if agent.agent == "person" and (model.ray or agent.step_timeout is not None):
        raise UsageError("--agent person cannot be used with --ray or --step_timeout")
    if agent.engine == "server" and agent.agent != "model":
        raise UsageError("--engine server needs a --model: --model NAME --engine server --base_url ADDRESS")
    agent = agent.in_worlds(map(EnvSpec, env_names(args.get("env") or ())))
    if agent.agent == "model":
        model.require_room(agent.sampling_params(0).max_new_tokens)
    if (model.system_prompt is not None or model.few_shot) and not agent.accepts("system_prompt"):
        raise UsageError("--system_prompt and --few_shot need a model or an endpoint, such as --agent openai")
    agent.require_no_step_timeout(agent.step_timeout)
    if agent.base_url and not uses_endpoint and agent.engine != "server":
        raise UsageError("--base_url needs an endpoint: --agent openai --base_url ADDRESS --model NAME")
    return agent, model


def phases_for(agent: Agent, output: Console) -> Phases:
    """Return the progress display, without bars for a person, because they would disturb the typing."""
    from agentgym_py.report.terminal import Phases

    return Phases(output, bars=not isinstance(agent, PersonAgent))


@contextmanager
def showing_cost_of_stop(agents: Sequence[Agent]) -> Iterator[None]:
    """If the command is stopped, print what an endpoint's replies have cost, also in episodes that did not end."""
    try:
        yield
    except (KeyboardInterrupt, EndpointError):
        from agentgym_py.evaluation.evaluate import sum_usages

        if cost := sum_usages([usage for agent in agents for usage in getattr(agent, "usages", ())]):
            print(f"\nspent by this command: {cost}", file=sys.stderr)
        raise


def show_outcome(agent: Agent, trajectory: Trajectory) -> None:
    """Show a person how an episode ended."""
    if isinstance(agent, PersonAgent):
        agent.show_end(trajectory)
