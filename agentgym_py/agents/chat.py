"""A model behind an API of chat completions as an agent: ReAct text or tool calls; what its clients share.

The model's text goes to the world and is never executed.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym_py.agents.base import AgentReply, Episode
from agentgym_py.agents.expert import format_expert_reply
from agentgym_py.env import TextEnv
from agentgym_py.env.actions import format_reply
from agentgym_py.errors import ConfigError, EndpointError, setting
from agentgym_py.http_client import (
    ContentFilterError,
    PromptTooLongError,
    RequestFailedError,
    RetryingClient,
    Timed,
    gather_all,
    read_json,
    run_in_loop,
)
from agentgym_py.rng import seed_of
from agentgym_py.trajectory import Step, Trajectory
from agentgym_py.trajectory.few_shot import few_shot_messages
from agentgym_py.trajectory.formats.foreign import ACT_NAME
from agentgym_py.trajectory.formats.openai import ACT_TOOL, function_call, tool_answer, tool_call
from agentgym_py.trajectory.json_values import MAX_COST, MAX_TOKENS
from agentgym_py.trajectory.types import Usage, opening_text, tool_rules

_REFUSALS = "support", "deprecated", "not allowed", "not permitted", "unknown", "unrecognized"
"""Words of an endpoint that takes no temperature."""
_FILTERED = "content_filter", "refusal", "safety"
"""Values of `finish_reason` of a reply that the provider filtered or refused."""
_MOST_REFUSAL = 300
"""Characters of a refusal that are kept."""


class ChatAgent(ABC):
    """A model that completes chats; it replies to many episodes concurrently.

    A request is retried by the rules of its client. If all retries fail, the episode ends with an infrastructure
    failure, which is no evidence. An endpoint that never answered, or failed five requests with no answered one between
    them, raises an EndpointError; a wrong key or address does so at once. An episode whose prompt is longer than the
    model's context is given up. A refusal by the provider, such as that of a content filter, is an empty reply, because
    it is the model's outcome; `Usage.refused` has its words. A subclass defines `make_client` and `complete`.

    Args:
        model: The API's name for the model.
        base_url: The address; None for the API's own.
        tools: Offer the world's tools (or one called `act` if it has none) and use the first tool call of a reply;
            without a call, or if false, use its text. Further calls of a reply are counted and not done.
        temperature: Sampling temperature; None sends none, for models that refuse it.
        max_new_tokens: Longest reply, as `max_tokens`.
        concurrency: Number of concurrent requests.
        timeout: Seconds for one response.
        retries: How often a request is retried.
        prompt_price: Price of a million prompt tokens, in any currency.
        completion_price: Price of a million completion tokens.
        seeds: Send a seed, for endpoints that support it.
        extra: More fields of every request, such as `{"top_p": 0.9}`; null removes one.
        system_prompt: System message of each conversation.
        few_shot: Episodes that stand as examples before the first user turn.

    Raises:
        ConfigError: an invalid value.
    """

    policy_digest: str | None = None
    is_async = True

    def __init__(
        self,
        model: str = "",
        base_url: str | None = None,
        *,
        tools: bool = False,
        temperature: float | None = None,
        max_new_tokens: int = 1024,
        concurrency: int = 16,
        timeout: float = 120.0,
        retries: int = 5,
        prompt_price: float | None = None,
        completion_price: float | None = None,
        seeds: bool = False,
        extra: dict[str, Any] | None = None,
        system_prompt: str | None = None,
        few_shot: Sequence[Trajectory] = (),
    ) -> None:
        if not model:
            raise ConfigError(f"{setting('model')} is missing: name one of the endpoint's models")
        if max_new_tokens < 1:
            raise ConfigError(f"max_new_tokens must be at least 1, got {max_new_tokens}")
        if (prompt_price is None) != (completion_price is None) or min(prompt_price or 0, completion_price or 0) < 0:
            raise ConfigError("prompt_price and completion_price must be set together and not be negative")
        self.name = model
        self.sampling: dict[str, Any] = {
            "base_url": base_url, "tools": tools, "temperature": temperature,
            "max_new_tokens": max_new_tokens, "seeds": seeds, "extra": extra or {},
        }  # fmt: skip
        self.sampling |= {"system_prompt": system_prompt} if system_prompt else {}
        self.sampling |= {"few_shot": few_shot_messages(few_shot)} if few_shot else {}
        self._system = [{"role": "system", "content": system_prompt}] if system_prompt else []
        self._few_shot = few_shot
        self._fixed = {"model": model, "temperature": temperature, "max_tokens": max_new_tokens, **(extra or {})}
        self._no_temperature = setting("agent_kwargs.temperature", "null")  # here, because requests have another thread
        self._no_parallel = setting("agent_kwargs.extra", """'{"parallel_tool_calls": null}'""")
        self._tools, self._seeds = tools, seeds
        self._prices = (prompt_price, completion_price or 0) if prompt_price is not None else None
        self.slots = concurrency  # more live episodes would wait for each other, so that all of them end late
        self.usages: list[Usage] = []
        """What each reply has cost, also in episodes that did not end."""
        self._waiting = 0
        """Number of pending replies; if the last one fails and none ever came, the endpoint is down."""
        self.client = self.make_client(base_url, concurrency, timeout, retries)

    @abstractmethod
    def make_client(self, base_url: str | None, concurrency: int, timeout: float, retries: int) -> RetryingClient:
        """Return what sends the requests; ConfigError if the API does not take these settings."""

    @abstractmethod
    async def complete(self, body: dict[str, Any], seed: int) -> Timed[Completion]:
        """Send a request until it is answered; `seed` is that of the waits."""

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """Reply to each episode, with `concurrency` requests at a time.

        Raises:
            EndpointError: the endpoint refuses the request or is down.
        """
        return run_in_loop(gather_all([self.areply(episode) for episode in episodes]))

    async def areply(self, episode: Episode) -> AgentReply | None:
        """Reply to one episode."""
        tools = offered_tools(episode.env) if self._tools else None
        body = {**self._fixed, "messages": self._messages(episode, tools)} | ({"tools": tools} if tools else {})
        seed = seed_of(episode.seed, len(episode.steps))
        if self._seeds:
            body["seed"] = seed >> 33  # 31 bits, which every server takes
        fields = {key: value for key, value in body.items() if value is not None}
        self._waiting += 1
        try:
            reply = await self.complete(fields, seed)
        except PromptTooLongError:
            return None
        except ContentFilterError as refusal:
            self.usages.append(usage := Usage(None, None, refused=str(refusal)[:_MOST_REFUSAL]))
            return AgentReply("", usage=usage)
        except (EndpointError, RequestFailedError) as lost:
            why = f"{lost}{self._advice(str(lost))}"
            if isinstance(lost, EndpointError):
                raise type(lost)(why) from None
            if self._waiting == 1 and not self.client.answered:
                raise EndpointError(why) from None
            return AgentReply("", error=why)
        finally:
            self._waiting -= 1
        self.usages.append(usage := self._usage(reply))
        return AgentReply("" if usage.refused else _text(reply.result.message, episode.env, tools), usage=usage)

    def _advice(self, why: str) -> str:
        """Return what the message of a failed request adds if the model refuses a setting that need not be sent."""
        if "parallel_tool_calls" in why and self._fixed.get("parallel_tool_calls") is not None:
            return f" ({self._no_parallel} sends none)"
        refused = "temperature" in why and any(word in why.lower() for word in _REFUSALS)
        return f" ({self._no_temperature} sends none)" if refused and self._fixed["temperature"] is not None else ""

    def _messages(self, episode: Episode, tools: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
        turns = list(self._system)
        for example in self._few_shot:
            turns += example_messages(example, tools, len(turns))
        return turns + messages(episode, tools, len(turns))

    def _usage(self, reply: Timed[Completion]) -> Usage:
        answer = reply.result
        sent, received = (_count(answer.usage.get(key)) for key in ("prompt_tokens", "completion_tokens"))
        cost = answer.cost
        if self._prices and sent is not None and received is not None:
            cost = (sent * self._prices[0] + received * self._prices[1]) / 1e6
        cost = cost if cost is not None and 0 <= cost <= MAX_COST else None  # a store takes no other
        return Usage(
            sent, received, cost, answer.model, answer.cut, answer.refused, answer.extra_calls if self._tools else 0,
            round(reply.latency, 3), reply.retries,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Completion:
    """The parts of a chat completion that are used."""

    message: Mapping[str, Any]
    usage: Mapping[str, Any]
    model: str
    cut: bool
    """Whether it was cut at `max_tokens`."""
    cost: float | None = None
    """Its cost, if the client knows the prices."""
    refused: str = ""
    """Why the provider refused to reply; empty if it did not."""

    @property
    def extra_calls(self) -> int:
        """Number of tool calls after the first one."""
        calls = self.message.get("tool_calls")
        return max(0, len(calls) - 1) if isinstance(calls, list) else 0

    @property
    def text(self) -> str:
        """The model's text."""
        return _content(self.message.get("content"))


# ---- what is sent ---------------------------------------------------------------------------------------------------


def messages(
    episode: Episode, tools: Sequence[Mapping[str, Any]] | None = None, first_call: int = 0
) -> list[dict[str, Any]]:
    """Return the episode so far as a conversation, to which the model replies.

    With `tools`, a step that called one, also one that does not exist (every step, if `act` is offered), becomes a tool
    call and its answer; others keep their text. A blank reply, such as a refusal, is left out, because many endpoints
    refuse it: the turns around it are one. Calls are numbered from `first_call`.
    """
    observations = [*(step.observation for step in episode.steps), episode.observation]
    return _conversation(episode.rules, episode.steps, observations, tools, first_call)


def example_messages(
    example: Trajectory, tools: Sequence[Mapping[str, Any]] | None = None, first_call: int = 0
) -> list[dict[str, Any]]:
    """Return a whole episode as a conversation, up to its last reply or the answer to its last tool call."""
    observations = [*(step.observation for step in example.steps), example.final_observation]
    turns = _conversation(example.rules, example.steps, observations, tools, first_call)
    return turns if turns[-1]["role"] == "tool" else turns[:-1]


def _conversation(
    rules: str, steps: Sequence[Step], observations: Sequence[str], tools: Sequence[Mapping[str, Any]] | None,
    first_call: int,
) -> list[dict[str, Any]]:  # fmt: skip
    opening = opening_text(tool_rules(rules) if tools else rules, observations[0])
    turns: list[dict[str, Any]] = [{"role": "user", "content": opening}]
    for number, (step, after) in enumerate(zip(steps, observations[1:], strict=True), first_call):
        is_call = step.action_input is not None and function_call(step)[0] == step.action
        if not step.reply.strip():
            turns[-1] = {**turns[-1], "content": f"{turns[-1]['content']}\n\n{after}"}
        elif tools == [ACT_TOOL] or (tools and is_call):
            turns += [tool_call(number, step), tool_answer(number, after)]
        else:
            turns += [{"role": "assistant", "content": step.reply}, {"role": "user", "content": after}]
    return turns


def offered_tools(env: TextEnv) -> list[dict[str, Any]]:
    """Return the tools of a world; `act` if it has none or, like a strict original, does not parse calls."""
    parses_calls = env.read(format_reply("name", "", "{}")).arguments == {}
    return env.tools() or [ACT_TOOL] if parses_calls else [ACT_TOOL]


# ---- what comes back, which may be anything --------------------------------------------------------------------------


def _text(message: Mapping[str, Any], env: TextEnv, tools: Sequence[Mapping[str, Any]] | None) -> str:
    """The text for the world: the message as it is, or its tool call, in ReAct form if the world parses that alike."""
    content = _content(message.get("content"))
    call = _first_call(message.get("tool_calls")) if tools else None
    if call is None:
        return content
    return call_text(env, tools, *call, content)


def call_text(
    env: TextEnv, tools: Sequence[Mapping[str, Any]] | None, name: str, arguments: str, content: str = ""
) -> str:
    """Return the call of an offered tool as the reply that `TextEnv.step` takes; `arguments` is JSON."""
    if tools == [ACT_TOOL]:
        values = read_json(arguments.encode("utf-8", "surrogatepass"))
        action = values.get("action") if isinstance(values, dict) and name == ACT_NAME else None
        return format_expert_reply(env, action, content.strip()) if isinstance(action, str) else arguments
    text = format_reply(name, content.strip(), arguments)
    reply = env.parse(text)
    if (reply.action, reply.thought, reply.action_input) == (name, content.strip(), arguments):
        return text
    function = {"name": name, "arguments": arguments}
    return json.dumps({"content": content, "tool_calls": [{"function": function}]}, ensure_ascii=False)


def _content(content: object) -> str:
    """The text of a message; some servers send it in parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _first_call(calls: object) -> tuple[str, str] | None:
    """Name and arguments of the first call, unchecked; the world reports what is wrong with them."""
    call = calls[0] if isinstance(calls, list) and calls else None
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return None
    arguments = function.get("arguments") or "{}"
    return function["name"].strip(), (arguments if isinstance(arguments, str) else json.dumps(arguments)).strip()


def completion(data: object, cost: float | None = None) -> Completion | None:
    """Read a chat completion from a server's JSON; None if it is not one."""
    try:
        choice = data["choices"][0]  # type: ignore[index]  # it may be anything
        finish = choice.get("finish_reason")
        message = choice["message"] if finish not in _FILTERED else choice.get("message") or {}
    except (KeyError, IndexError, TypeError, AttributeError):
        return None
    if not isinstance(data, dict) or not isinstance(message, dict):
        return None
    usage, model = data.get("usage"), data.get("model")
    refusal = message.get("refusal")
    if not (isinstance(refusal, str) and refusal):
        refusal = finish if finish in _FILTERED else ""
    return Completion(
        message, usage if isinstance(usage, dict) else {}, model if isinstance(model, str) else "",
        finish == "length", cost, refusal[:_MOST_REFUSAL],
    )  # fmt: skip


def _count(value: object) -> int | None:
    """Return a count of tokens that a store takes; None for any other value."""
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else None
