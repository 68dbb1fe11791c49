"""A model behind an OpenAI-compatible endpoint as an agent.

The key comes from the environment variable `OPENAI_API_KEY` and goes only into the header of a request.
"""

from __future__ import annotations

from typing import Any

from agentgym_py.agents.chat import ChatAgent, Completion, completion
from agentgym_py.http_client import DEFAULT_ADDRESS, HttpClient, Timed, checked_address, require_key


class OpenAIAgent(ChatAgent):
    """A model that answers `POST {base_url}/chat/completions` like OpenAI's; it replies to many episodes concurrently.

    A request is retried if it is refused for now (408, 409, 429, 5xx), times out, cannot connect or gets no completion:
    after `Retry-After`, or after 1, 2, 4, … seconds, randomly shortened by up to half. What follows if all retries fail
    is that of every `ChatAgent`.

    It takes the arguments of `ChatAgent`. `base_url` is OpenAI's by default, and ends in `/v1` with most servers.

    Raises:
        ConfigError: an invalid value; a password in the address; no key for OpenAI; httpx2 is not installed.
    """

    client: HttpClient

    def make_client(self, base_url: str | None, concurrency: int, timeout: float, retries: int) -> HttpClient:
        """Return a client of the address, for which there is a key."""
        given = DEFAULT_ADDRESS if base_url is None else base_url
        self.sampling["base_url"] = address = checked_address(given)
        client = HttpClient(
            f"{address} (model {self.name!r})", concurrency=concurrency, timeout=timeout, retries=retries,
            advice="An address ends in /v1 with most servers",
        )  # fmt: skip
        require_key(given)
        self._address = f"{address}/chat/completions"
        if self.sampling["tools"]:  # one call per reply is used; `extra` may hold another value
            self._fixed.setdefault("parallel_tool_calls", False)
        return client

    async def complete(self, body: dict[str, Any], seed: int) -> Timed[Completion]:
        """Post the request, with retries."""
        return await self.client.ask_timed(self._address, body, completion, "chat completion", seed)
