"""A model behind an OpenAI-compatible endpoint as an agent.

The key comes from the environment variable `OPENAI_API_KEY` and goes only into the header of a request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentgym_py.agents.chat import ChatAgent, Completion, completion
from agentgym_py.http_client import DEFAULT_ADDRESS, HttpClient, Timed, checked_address, require_key
from agentgym_py.trajectory import Trajectory


class OpenAIAgent(ChatAgent):
    """A model that answers `POST {base_url}/chat/completions` like OpenAI's; it replies to many episodes concurrently.

    A request is retried if it is refused for now (408, 409, 429, 5xx), times out, cannot connect or gets no completion:
    after `Retry-After`, or after 1, 2, 4, … seconds, randomly shortened by up to half. If all retries fail, the episode
    ends with an infrastructure failure, which is no evidence. An endpoint that never answered, or failed five requests
    in a row, raises an EndpointError; a wrong key or address does so at once. An episode whose prompt is longer than
    the model's context is given up.

    Args:
        model: The endpoint's name for the model.
        base_url: The address, up to `/v1`.
        tools: Offer the world's tools (or one called `act` if it has none) and use the first tool call of a reply;
            without a call, or if false, use its text.
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
        ConfigError: an invalid value; a password in the address; no key for OpenAI; httpx2 is not installed.
    """

    def __init__(
        self,
        model: str = "",
        base_url: str = DEFAULT_ADDRESS,
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
        super().__init__(
            model, base_url, tools=tools, temperature=temperature, max_new_tokens=max_new_tokens,
            prompt_price=prompt_price, completion_price=completion_price, seeds=seeds, extra=extra,
            system_prompt=system_prompt, few_shot=few_shot,
        )  # fmt: skip
        self.sampling["base_url"] = address = checked_address(base_url)
        self.client: HttpClient = HttpClient(
            f"{address} (model {model!r})", concurrency=concurrency, timeout=timeout, retries=retries,
            advice="An address ends in /v1 with most servers",
        )  # fmt: skip
        require_key(base_url)
        self._address = f"{address}/chat/completions"

    async def complete(self, body: dict[str, Any], seed: int) -> Timed[Completion]:
        """Post the request, with retries."""
        return await self.client.ask_timed(self._address, body, completion, "chat completion", seed)
