"""A model of any provider that litellm knows as an agent: `anthropic/…`, `gemini/…`, `bedrock/…` and others.

Keys come from the provider's environment variables, such as `ANTHROPIC_API_KEY`; litellm reads them.
"""

from __future__ import annotations

import asyncio
import os
from importlib.util import find_spec
from typing import Any

from agentgym_py import trust
from agentgym_py.agents.chat import ChatAgent, Completion, completion
from agentgym_py.errors import ConfigError, EndpointError
from agentgym_py.http_client import (
    Busy,
    ContentFilterError,
    PromptTooLongError,
    RequestRefusedError,
    RetryingClient,
    Timed,
    checked_address,
    is_filtered,
    retry_after,
    without_keys,
)
from agentgym_py.registry import install_advice

_REQUEST_FIELDS = (
    "drop_params", "frequency_penalty", "logit_bias", "max_completion_tokens", "max_tokens", "min_p",
    "parallel_tool_calls", "presence_penalty", "reasoning_effort", "repetition_penalty", "response_format", "seed",
    "service_tier", "stop", "temperature", "thinking", "tool_choice", "top_k", "top_p", "user", "verbosity",
)  # fmt: skip
"""Arguments of litellm that decide how a reply is sampled. Many others decide which server gets a key."""


class LiteLLMAgent(ChatAgent):
    """A model of any provider through litellm, which translates requests and tool calls and knows prices.

    It takes the arguments of `ChatAgent`. `model` is litellm's name, `PROVIDER/MODEL`, such as
    `anthropic/claude-sonnet-4-5`. Prices are litellm's by default. `extra` are more arguments of `litellm.acompletion`
    about sampling, such as `{"top_k": 40}`; `{"drop_params": true}` leaves out what a provider refuses.

    Raises:
        ConfigError: an invalid value, or litellm is not installed.
    """

    def make_client(self, base_url: str | None, concurrency: int, timeout: float, retries: int) -> RetryingClient:
        """Return a client that knows no address, because litellm finds it."""
        if find_spec("litellm") is None:
            raise ConfigError(f"the agent litellm needs litellm, of the extra `litellm`: {install_advice('litellm')}")
        if "://" in self.name:
            raise ConfigError(f"model must be PROVIDER/MODEL, got {self.name!r}; an address is base_url")
        if wrong := next((name for name in self.sampling["extra"] if name not in _REQUEST_FIELDS), None):
            raise ConfigError(f"extra must not hold {wrong!r}: it may hold {', '.join(_REQUEST_FIELDS)}")
        if base_url is not None:
            self.sampling["base_url"] = self._fixed["base_url"] = checked_address(base_url)
        self._timeout = timeout
        where = f"the model {self.name!r}"
        return RetryingClient(where, concurrency=concurrency, timeout=timeout, retries=retries)

    async def complete(self, body: dict[str, Any], seed: int) -> Timed[Completion]:
        """Ask litellm, with retries."""
        trust.require_online(self.name)
        return await self.client.until_answered(lambda: self._send(body), seed)

    async def _send(self, body: dict[str, Any]) -> Completion | Busy:
        """Send a request once.

        Raises:
            EndpointError: key or model are wrong.
            PromptTooLongError, ContentFilterError, RequestRefusedError: this request is wrong.
        """
        litellm = _import()
        try:
            async with asyncio.timeout(self._timeout):
                response = await litellm.acompletion(**body, timeout=self._timeout, num_retries=0, max_retries=0)
            answer = completion(response.model_dump(), _cost(litellm, response))
        except TimeoutError:
            return Busy(f"no answer within {self._timeout:g} s")
        except Exception as error:  # of litellm or of a provider's client
            return self._check_error(error)
        return answer or Busy("the answer is no chat completion")

    def _check_error(self, error: Exception) -> Busy:
        """Return why the request must be retried.

        Raises: as `_send`.
        """
        status = getattr(error, "status_code", None)
        why = without_keys(" ".join(str(error).split()))[:300]
        lacks_key = "missing" in why.lower() and ("api key" in why.lower() or "credentials" in why.lower())
        if status in (400, 403, 422) and is_filtered(
            type(error).__name__.replace("ContentPolicy", "content_policy"), why
        ):
            raise ContentFilterError(why) from None
        if status in (401, 403, 404) or lacks_key:
            raise EndpointError(f"{self.client.where} refuses: {why}") from None
        if type(error).__name__ == "ContextWindowExceededError":
            raise PromptTooLongError from None
        if status in (408, 409, 429) or (isinstance(status, int) and status >= 500):
            return Busy(why, retry_after(getattr(getattr(error, "response", None), "headers", None) or {}))
        raise RequestRefusedError(why) from None


def _import() -> Any:
    """Import litellm without the table of prices from the network, which is in the package, too."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    litellm.suppress_debug_info = True
    return litellm


def _cost(litellm: Any, response: Any) -> float | None:
    """Return what a response cost in dollars; None if the model's price is unknown."""
    try:
        return float(litellm.completion_cost(completion_response=response))
    except Exception:  # litellm raises many kinds for a model without a price
        return None
