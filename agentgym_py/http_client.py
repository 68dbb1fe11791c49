"""Requests to a model server over HTTP: many at once, each repeated until it is answered.

The key comes from the environment variable `OPENAI_API_KEY`, goes into the header of a request, and nowhere else.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from agentgym_py.errors import ConfigError, EndpointError
from agentgym_py.registry import install_advice
from agentgym_py.rng import Rng

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")

KEY = "OPENAI_API_KEY"
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 120.0
"""Seconds before the first repetition (doubled each time), and the longest wait that a server may ask for."""
_LOST = 5
"""Number of consecutive unanswered requests after which the server counts as broken."""
_FROM_BEFORE = (502, 503, 504)
"""Status codes of a proxy whose server is gone; a server itself may send the second."""


class FullError(Exception):
    """The prompt is longer than the model's context."""


class LostError(Exception):
    """A request that stays without an answer."""


class RequestRefusedError(LostError):
    """A request that is answered with a refusal, such as 400: asking again would not help."""


class MissingError(EndpointError):
    """Nothing exists at that address."""


class Asker:
    """A server, `concurrency` of whose answers are waited for at a time.

    A request that is refused for now (408, 409, 429, 5xx), times out, cannot connect or is answered with something else
    than what was wanted is made again, after what `Retry-After` says or after 1, 2, 4, … seconds, less up to half by
    chance. Five requests in a row that stay unanswered are an EndpointError, as are at once a wrong key and a wrong
    address.

    Args:
        where: What errors call the server.
        concurrency: Requests at once.
        timeout: Seconds for one answer.
        retries: How often a request is made again.
        advice: What an error adds where there is nothing at an address.

    Raises:
        ConfigError: a value that cannot be; httpx2 is not installed.
    """

    def __init__(self, where: str, *, concurrency: int, timeout: float, retries: int, advice: str) -> None:
        if find_spec("httpx2") is None:
            raise ConfigError(f"endpoints need httpx2, of the extra `api`: {install_advice('api')}")
        if concurrency < 1:
            raise ConfigError(f"concurrency must be at least 1, got {concurrency}")
        if timeout <= 0:
            raise ConfigError(f"timeout must be above 0, got {timeout}")
        if retries < 0:
            raise ConfigError(f"retries must be at least 0, got {retries}")
        self.where = where
        self.answered = False
        """Whether any request was answered yet."""
        self.breaks = 0
        """How often the server could not be reached, or the connection broke."""
        self._gate, self._timeout, self._retries = asyncio.Semaphore(concurrency), timeout, retries
        self._advice = advice
        self._client: httpx2.AsyncClient | None = None
        self._lost = 0

    async def ask(
        self, url: str, body: Mapping[str, Any], read: Callable[[Any], T | None], what: str, seed: int = 0
    ) -> T:
        """Return what `read` makes of the answer, after as many attempts as needed; None counts as no answer.

        Raises:
            EndpointError: the server refuses, or is broken.
            FullError: the prompt is too long.
            LostError: this request got no answer.
        """
        try:
            async with self._gate:
                found = await self._asked(url, json.dumps(body), read, what, seed)
        except LostError as lost:
            self._lost += 1
            did = "refused a request" if isinstance(lost, RequestRefusedError) else "gave no answer"
            why = f"{self.where} {did}: {lost}"
            raise (EndpointError if self._lost >= _LOST else LostError)(why) from None
        self.answered, self._lost = True, 0
        return found

    async def _asked(self, url: str, body: str, read: Callable[[Any], T | None], what: str, seed: int) -> T:
        tried = 0
        while isinstance(said := await self._once(url, body, read, what), _Busy):
            tried += 1
            if said.wait is not None and said.wait > _LONGEST_WAIT:
                raise LostError(f"{said.why}; it asks to wait {said.wait:.0f} s")
            if tried > self._retries:
                raise LostError(f"{said.why} ({tried} tries)")
            chance = Rng("wait", seed, tried).uniform()
            doubled = _FIRST_WAIT * 2 ** min(tried - 1, 6)
            await asyncio.sleep(said.wait * (1 + chance / 10) if said.wait else doubled * (1 - chance / 2))
        return said

    async def _once(self, url: str, body: str, read: Callable[[Any], T | None], what: str) -> T | _Busy:
        import httpx2

        try:
            async with asyncio.timeout(self._timeout):
                response = await self._connected().post(url, content=body)
        except TimeoutError:
            return _Busy(f"no answer within {self._timeout:g} s")
        except httpx2.RequestError as error:
            self.breaks += 1
            return _Busy(_without_key(f"{type(error).__name__}: {error}".rstrip(": ")))
        data = read_json(response.content)
        said = _without_key(_complaint(data, response.text))
        if busy := self._refused(response, data, said):
            return busy
        found = read(data)
        return _Busy(f"an answer that is no {what}: {said}") if found is None else found

    def _connected(self) -> httpx2.AsyncClient:
        import httpx2

        if self._client is None:
            key = os.environ.get(KEY, "").strip()
            if not (key.isascii() and key.isprintable()):
                raise EndpointError(f"the key in {KEY} has characters that no key has")
            headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
            self._client = httpx2.AsyncClient(
                headers=headers, timeout=None, limits=httpx2.Limits(max_connections=None)
            )  # `asyncio.timeout` bounds the whole answer, the semaphore the connections
            weakref.finalize(self, _closed, self._client).atexit = False
        return self._client

    def _refused(self, response: httpx2.Response, data: object, said: str) -> _Busy | None:
        """Say why there is no answer for now, if there is none.

        Raises:
            EndpointError: a key, an address or a model that will not work the next time either.
            FullError, LostError: this request is at fault.
        """
        status = response.status_code
        why = f"{status} {response.reason_phrase}".strip() + (f": {said}" if said else "")
        if status in (401, 403):
            key = "may not use it, or is wrong" if os.environ.get(KEY) else "is not set"
            raise EndpointError(f"{self.where} refuses: {why}. The key in the environment variable {KEY} {key}")
        if status == 404:
            raise MissingError(f"{self.where} is not there: {why}. {self._advice}")
        if "insufficient_quota" in _code(data):
            raise EndpointError(f"{self.where} refuses: {why}")
        if status in (408, 409, 429) or status >= 500:
            self.breaks += status in _FROM_BEFORE
            return _Busy(why, _asked_to_wait(response.headers))
        if status >= 300:
            raise FullError if _is_full(_code(data), said) else RequestRefusedError(why)
        return None


def _closed(client: httpx2.AsyncClient) -> None:
    """Close the connections of a client that is gone."""
    asyncio.run_coroutine_threadsafe(client.aclose(), loop())


@dataclass(frozen=True, slots=True)
class _Busy:
    """No answer for now."""

    why: str
    wait: float | None = None
    """Seconds that the server asks to wait."""


# ---- the loop -------------------------------------------------------------------------------------------------------


@cache
def loop() -> asyncio.AbstractEventLoop:
    """The event loop of all clients, in its own thread, because a notebook's main thread runs a loop already."""
    made = asyncio.new_event_loop()
    threading.Thread(target=made.run_forever, name="endpoints", daemon=True).start()
    return made


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    """Wait for a coroutine in that loop; Ctrl-C cancels it."""
    future = asyncio.run_coroutine_threadsafe(coroutine, loop())
    try:
        return future.result()
    except BaseException:  # such as Ctrl-C
        future.cancel()
        raise


async def together(coroutines: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Await all at once; if one fails, the others are cancelled."""
    tasks = [asyncio.ensure_future(each) for each in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


# ---- addresses, and what comes back: anything at all ----------------------------------------------------------------


def checked_address(url: str) -> str:
    """Check an address and strip the slash at its end. It is written to files, so it must hold nothing secret."""
    try:
        parts = urlsplit(url)
        wrong = parts.scheme not in ("http", "https") or not parts.hostname or (parts.port == 0)
    except ValueError:
        wrong = True
    if wrong or parts.query or parts.fragment or not (url.isascii() and url.isprintable() and " " not in url):
        raise ConfigError("base_url must be an address such as http://localhost:8000/v1, without ? and #")
    if "@" in parts.netloc:
        raise ConfigError(f"base_url must hold no user and no password: a key stands in the variable {KEY}")
    return url.rstrip("/")


def require_key(url: str) -> None:
    """ConfigError if an address is OpenAI's and there is no key, which would be found out only over the network."""
    if urlsplit(url).hostname == "api.openai.com" and not os.environ.get(KEY, "").strip():
        raise ConfigError(
            f"{url} needs a key in the environment variable {KEY}, which is not set; a server of your own is named by "
            "its address (base_url)"
        )


def read_json(content: bytes) -> object:
    """Parse JSON; None if it is none."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _without_key(text: str) -> str:
    key = os.environ.get(KEY, "").strip()
    return text.replace(key, "…") if len(key) > 7 else text  # shorter ones are placeholders: `x`, `none`, `EMPTY`


def _complaint(data: object, text: str) -> str:
    """What a server says is wrong, in one line, cut."""
    said = data.get("error", data.get("detail", data.get("message"))) if isinstance(data, dict) else None
    if isinstance(said, dict):
        said = said.get("message")
    return " ".join((said if isinstance(said, str) else text).split())[:300]


def _code(data: object) -> str:
    error = data.get("error") if isinstance(data, dict) else None
    return f"{error.get('code')} {error.get('type')}" if isinstance(error, dict) else ""


def _is_full(code: str, said: str) -> bool:
    """Whether a refusal means that the prompt is too long, in the words of OpenAI, vLLM, llama.cpp and others."""
    text = f"{code} {said}".lower().replace("_", " ")
    return "context" in text and any(word in text for word in ("length", "size", "window", "exceed"))


def _asked_to_wait(headers: Mapping[str, str]) -> float | None:
    """Seconds of `Retry-After`, which is a number or a date; None without it."""
    said = headers.get("retry-after", "")
    try:
        return max(0.0, float(said))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(said) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None
