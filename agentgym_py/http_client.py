"""Concurrent HTTP requests to a model server, each retried until it is answered.

The key comes from the environment variable `OPENAI_API_KEY` and is sent in the header only.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
import time
import weakref
import zlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

from agentgym_py import trust
from agentgym_py.errors import ConfigError, EndpointError
from agentgym_py.files import parse_json
from agentgym_py.registry import install_advice
from agentgym_py.rng import Rng

if TYPE_CHECKING:
    import ssl

    import httpx2

T = TypeVar("T")
log = logging.getLogger(__name__)

KEY = "OPENAI_API_KEY"
DEFAULT_ADDRESS = "https://api.openai.com/v1"
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 120.0
"""Seconds before the first retry (doubled each time), and the longest wait that a server may ask for."""
MAX_ANSWER = 16 << 20
"""Largest answer of a server in bytes, unpacked."""
MOST_ANSWER_VALUES = 2_000_000
"""Largest number of JSON values of an answer, such as token ids and log-probabilities."""
_CONNECT_SECONDS = 3.0
"""Longest wait for a connection."""
_MAX_FAILURES = 5
"""Number of failed requests, with no answered one between them, after which the server counts as broken."""
_SO_MANY_FAILED = f"{_MAX_FAILURES} requests failed with no answered one between them"
_GATEWAY_ERRORS = (502, 503, 504)
"""Status codes of a proxy whose server is gone; a server itself may send the second."""
_FILTER_WORDS = (
    "content filter", "content policy", "content management policy", "responsibleaipolicy", "input was flagged",
    "prompt was flagged", "data inspection failed", "inappropriate content",
)  # fmt: skip
"""Words of a refusal by a content filter."""
_OLD_LIMIT, _NEW_LIMIT = "max_tokens", "max_completion_tokens"
"""Field for the longest reply: most servers know only the old name, OpenAI's reasoning models only the new one."""
_PARALLEL = "parallel_tool_calls"
"""Field that asks for one tool call per reply, if it is false; OpenAI's reasoning models refuse it."""


class PromptTooLongError(Exception):
    """The prompt is longer than the model's context."""


class RequestFailedError(Exception):
    """A request stayed unanswered after all retries."""


class RequestRefusedError(RequestFailedError):
    """The server refused a request, for example with status 400; a retry would not help."""


class ContentFilterError(RequestRefusedError):
    """The provider's content filter refused a request, which is the model's outcome and no fault of the endpoint."""


class NotFoundError(EndpointError):
    """Nothing exists at this address (status 404)."""


class Timed(NamedTuple, Generic[T]):
    """The result of a request."""

    result: T
    latency: float
    """Seconds from the last request to its answer, without waits and earlier attempts."""
    retries: int
    """Number of earlier attempts."""


class RetryingClient:
    """Repeats requests to one server until they are answered, with at most `concurrency` at once.

    Before a retry it waits as long as the server asks, or 1, 2, 4, … seconds less up to half at random. Five failed
    requests with no answered one between them, also simultaneous ones, raise EndpointError. The first retry before the
    first answer is logged.

    Args:
        where: Name of the server in errors.
        concurrency: Largest number of simultaneous requests.
        timeout: Seconds for one answer.
        retries: Largest number of retries of a request.

    Raises:
        ConfigError: a value is out of range.
    """

    def __init__(self, where: str, *, concurrency: int, timeout: float, retries: int) -> None:
        require_limits(concurrency, timeout, retries)
        self.where = where
        self.answered = False
        """Whether any request was answered yet."""
        self._gate, self._timeout, self._retries = asyncio.Semaphore(concurrency), timeout, retries
        self._failures = 0
        self._outages = 0
        """Number of times that the server counted as broken."""
        self._logged = False
        """Whether a retry was logged."""

    async def until_answered(self, send: Callable[[], Awaitable[T | Busy]], seed: int = 0) -> Timed[T]:
        """Return the result of `send`, which is called again while the server is busy.

        Raises:
            EndpointError: the server refuses, or is broken.
            PromptTooLongError: the prompt is longer than the context.
            ContentFilterError: a content filter refused the request.
            RequestFailedError: this request got no answer.
        """
        outages = self._outages
        try:
            async with self._gate:
                if self._outages > outages:  # it broke while this request waited
                    raise EndpointError(f"{self.where}: {_SO_MANY_FAILED}")
                result = await self._retry(send, seed)
        except ContentFilterError:
            self.answered, self._failures = True, 0
            raise
        except RequestFailedError as error:
            self._failures += 1
            outcome = "refused a request" if isinstance(error, RequestRefusedError) else "gave no answer"
            message = f"{self.where} {outcome}: {error}"
            if self._failures < _MAX_FAILURES:
                raise RequestFailedError(message) from None
            self._outages += 1
            raise EndpointError(f"{message}; {_SO_MANY_FAILED}") from None
        self.answered, self._failures = True, 0
        return result

    async def _retry(self, send: Callable[[], Awaitable[T | Busy]], seed: int) -> Timed[T]:
        attempts = 0
        while True:
            start = time.monotonic()
            result = await send()
            if not isinstance(result, Busy):
                return Timed(result, time.monotonic() - start, attempts)
            attempts += 1
            if result.wait is not None and result.wait > _LONGEST_WAIT:
                raise RequestFailedError(f"{result.why}; it asks to wait {result.wait:.0f} s")
            if attempts > self._retries:
                raise RequestFailedError(f"{result.why} (attempts: {attempts})")
            if not (self.answered or self._logged):
                self._logged = True
                log.warning("%s gave no answer: %s; retrying up to %d times", self.where, result.why, self._retries)
            jitter = Rng("wait", seed, attempts).uniform()
            doubled = _FIRST_WAIT * 2 ** min(attempts - 1, 6)
            await asyncio.sleep(result.wait * (1 + jitter / 10) if result.wait else doubled * (1 - jitter / 2))


class HttpClient(RetryingClient):
    """Sends HTTP requests to one server.

    A request is retried if the server is busy (408, 409, 429, 5xx), does not answer in time, cannot be reached or gives
    an unusable answer. A wrong key or address raises EndpointError at once, as does a refused connection to a server
    that has not answered yet. A request whose refusal names `max_tokens` is sent again with `max_completion_tokens`, as
    are all later ones if the server answers it; likewise without `parallel_tool_calls: false`.

    Args:
        where: Name of the server in errors.
        concurrency: Largest number of simultaneous requests.
        timeout: Seconds for one answer.
        retries: Largest number of retries of a request.
        advice: What the error of a wrong address adds.

    Raises:
        ConfigError: a value is out of range, or httpx2 is not installed.
    """

    def __init__(self, where: str, *, concurrency: int, timeout: float, retries: int, advice: str) -> None:
        if find_spec("httpx2") is None:
            raise ConfigError(f"endpoints need httpx2, of the extra `api`: {install_advice('api')}")
        super().__init__(where, concurrency=concurrency, timeout=timeout, retries=retries)
        self.breaks = 0
        """Number of failed connections so far."""
        self._advice = advice
        self._client: httpx2.AsyncClient | None = None
        self._renames_limit = False
        """Whether the server demands `max_completion_tokens`."""
        self._drops_parallel = False
        """Whether the server refuses `parallel_tool_calls: false`."""

    async def ask(
        self, url: str, body: Mapping[str, Any], read: Callable[[Any], T | None], what: str, seed: int = 0
    ) -> T:
        """Return what `read` makes of the answer, with retries; if `read` returns None, the answer is unusable.

        Raises: as `until_answered`.
        """
        return (await self.ask_timed(url, body, read, what, seed)).result

    async def ask_timed(
        self, url: str, body: Mapping[str, Any], read: Callable[[Any], T | None], what: str, seed: int = 0
    ) -> Timed[T]:
        """Do as `ask`, and return the latency and the retries, too."""
        return await self.until_answered(lambda: self._send(url, body, read, what), seed)

    async def _send(self, url: str, body: Mapping[str, Any], read: Callable[[Any], T | None], what: str) -> T | Busy:
        """Post a request; once more without `parallel_tool_calls: false` if the server refuses it."""
        is_optional = body.get(_PARALLEL) is False
        others = {name: value for name, value in body.items() if name != _PARALLEL or not is_optional}
        sent = others if self._drops_parallel else body
        try:
            return await self._send_limit(url, sent, read, what)
        except RequestRefusedError as error:
            if len(sent) == len(others) or _PARALLEL not in str(error):
                raise
        result = await self._send_limit(url, others, read, what)
        self._drops_parallel = not isinstance(result, Busy)
        return result

    async def _send_limit(
        self, url: str, body: Mapping[str, Any], read: Callable[[Any], T | None], what: str
    ) -> T | Busy:
        """Post a request; once more with `max_completion_tokens` if the server refuses `max_tokens`."""
        sent = _with_new_limit(body) if self._renames_limit else body
        try:
            return await self._post(url, json.dumps(sent), read, what)
        except RequestRefusedError as error:
            if _OLD_LIMIT not in sent or _NEW_LIMIT in sent or not _names_limit(error):
                raise
            refusal = error
        try:
            result = await self._post(url, json.dumps(_with_new_limit(body)), read, what)
        except RequestRefusedError as error:
            raise refusal if _NEW_LIMIT in str(error) else error from None
        self._renames_limit = not isinstance(result, Busy)
        return result

    async def _post(self, url: str, body: str, read: Callable[[Any], T | None], what: str) -> T | Busy:
        import httpx2

        trust.require_online(url)
        try:
            async with asyncio.timeout(self._timeout):
                client = self._connect(url)
                response = await client.send(client.build_request("POST", url, content=body), stream=True)
                try:
                    content = await _read_limited(response)
                finally:
                    await response.aclose()
        except TimeoutError:
            return Busy(f"no answer within {self._timeout:g} s")
        except httpx2.RequestError as error:
            self.breaks += 1
            why = without_keys(f"{type(error).__name__}: {error}".rstrip(": "))
            if isinstance(error, httpx2.ConnectError) and not self.answered:
                raise EndpointError(
                    f"{self.where} gave no answer: {why}. Start the server or correct the address"
                ) from None
            return Busy(why)
        except zlib.error as error:
            return Busy(f"the answer cannot be unpacked: {error}")
        data = read_json(content)
        message = without_keys(_error_message(data, content.decode("utf-8", "replace")))
        if busy := self._check_status(response, data, message):
            return busy
        result = read(data)
        return Busy(f"the answer is no {what}: {message}") if result is None else result

    def _connect(self, url: str) -> httpx2.AsyncClient:
        import httpx2

        if self._client is None:
            key = os.environ.get(KEY, "").strip()
            if not (key.isascii() and key.isprintable()):
                raise EndpointError(f"the key in {KEY} holds characters that are not printable ASCII")
            headers = {"Content-Type": "application/json", "Accept-Encoding": "gzip"}
            headers |= {"Authorization": f"Bearer {key}"} if key else {}
            trust_env = not trust.is_loopback(trust.host(url) or "")  # a proxy would get the key of a local server
            self._client = httpx2.AsyncClient(
                headers=headers, timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS), verify=_tls_context(trust_env),
                limits=httpx2.Limits(max_connections=None), follow_redirects=False, trust_env=trust_env,
            )  # fmt: skip  # `asyncio.timeout` bounds the whole answer, the semaphore the connections
            weakref.finalize(self, _close, self._client).atexit = False
        return self._client

    def _check_status(self, response: httpx2.Response, data: object, message: str) -> Busy | None:
        """Return why the request must be retried, or None if it succeeded.

        Raises:
            EndpointError: the key, the address or the model is wrong.
            PromptTooLongError, ContentFilterError, RequestRefusedError: this request is wrong.
        """
        status = response.status_code
        why = f"{status} {response.reason_phrase}".strip() + (f": {message}" if message else "")
        if status in (400, 403, 422) and is_filtered(_code(data), message):
            raise ContentFilterError(why)
        if status in (401, 403):
            key = "is wrong or has no access" if os.environ.get(KEY) else "is not set"
            raise EndpointError(f"{self.where} refuses: {why}. The key in the environment variable {KEY} {key}")
        if status == 404:
            raise NotFoundError(f"{self.where} is not there: {why}. {self._advice}")
        if "insufficient_quota" in _code(data):
            raise EndpointError(f"{self.where} refuses: {why}")
        if status in (408, 409, 429) or status >= 500:
            self.breaks += status in _GATEWAY_ERRORS
            return Busy(why, retry_after(response.headers))
        if status >= 300:
            raise PromptTooLongError if _is_prompt_too_long(_code(data), message) else RequestRefusedError(why)
        return None


@cache
def _tls_context(trust_env: bool) -> ssl.SSLContext:
    """Return httpx2's own TLS context: reading the certificates takes 20 ms, so all clients share it."""
    import httpx2

    return httpx2.create_ssl_context(trust_env=trust_env)


def _names_limit(error: RequestRefusedError) -> bool:
    return _OLD_LIMIT in str(error) or _NEW_LIMIT in str(error)


def _with_new_limit(body: Mapping[str, Any]) -> dict[str, Any]:
    return {_NEW_LIMIT if name == _OLD_LIMIT else name: value for name, value in body.items()}


async def _read_limited(response: httpx2.Response) -> bytes:
    """Return the unpacked body.

    Raises:
        RequestFailedError: it is too large, or packed in an unknown way.
        zlib.error: it cannot be unpacked.
    """
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise RequestFailedError(f"its answer is packed as {encoding[:40]!r}, which was not asked for")
    unpacker = zlib.decompressobj(wbits=47) if encoding not in ("", "identity") else None  # gzip or zlib
    content = bytearray()
    async for chunk in response.aiter_raw():
        content += unpacker.decompress(chunk, MAX_ANSWER + 1 - len(content)) if unpacker else chunk
        if len(content) > MAX_ANSWER:
            raise RequestFailedError(f"its answer is larger than {MAX_ANSWER >> 20} MiB")
    return bytes(content)


def require_limits(concurrency: int = 1, timeout: float = 1.0, retries: int = 0) -> None:
    """Raise ConfigError if a limit of an `HttpClient` is out of range."""
    if concurrency < 1:
        raise ConfigError(f"concurrency must be at least 1, got {concurrency}")
    if not timeout > 0:
        raise ConfigError(f"timeout must be above 0, got {timeout}")
    if retries < 0:
        raise ConfigError(f"retries must be at least 0, got {retries}")


def _close(client: httpx2.AsyncClient) -> None:
    """Close the connections of a client that was garbage-collected."""
    asyncio.run_coroutine_threadsafe(client.aclose(), event_loop())


@dataclass(frozen=True, slots=True)
class Busy:
    """The request must be sent again."""

    why: str
    wait: float | None = None
    """Seconds that the server asks to wait."""


# ---- the loop -------------------------------------------------------------------------------------------------------


@cache
def event_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of all clients. It has its own thread, because notebooks run one."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="endpoints", daemon=True).start()
    return loop


def run_in_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in that loop and return its result; Ctrl-C cancels it."""
    future = asyncio.run_coroutine_threadsafe(coroutine, event_loop())
    try:
        return future.result()
    except BaseException:  # also Ctrl-C
        future.cancel()
        raise


async def gather_all(coroutines: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Await all coroutines at once; if one fails, cancel the others."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


# ---- addresses and answers -------------------------------------------------------------------------------------------


def checked_address(url: str) -> str:
    """Return an address without its final slash. It is written to files, so it must hold nothing secret."""
    try:
        parts = urlsplit(url)
        wrong = parts.scheme not in ("http", "https") or not parts.hostname or (parts.port == 0)
    except ValueError:
        wrong = True
    if wrong or parts.query or parts.fragment or not (url.isascii() and url.isprintable() and " " not in url):
        raise ConfigError("base_url must be an address such as http://localhost:8000/v1, without ? and #")
    if "@" in parts.netloc:
        raise ConfigError(
            f"base_url must hold no user and no password; put the key into the environment variable {KEY}"
        )
    if url.rstrip("/") != DEFAULT_ADDRESS:  # its key belongs there
        trust.require_host(url)
    return url.rstrip("/")


def require_key(url: str) -> None:
    """Raise ConfigError if an address is OpenAI's and there is no key."""
    if urlsplit(url).hostname == "api.openai.com" and not os.environ.get(KEY, "").strip():
        raise ConfigError(
            f"{url} needs a key in the environment variable {KEY}, which is not set; to use your own server, give its "
            "address (base_url)"
        )


def read_json(content: bytes) -> object:
    """Parse JSON; return None if it is invalid."""
    try:
        return parse_json(content, MOST_ANSWER_VALUES)
    except ValueError:
        return None


def without_keys(text: str) -> str:
    """Return a text without the keys in environment variables such as `OPENAI_API_KEY`."""
    keys = [value.strip() for name, value in os.environ.items() if name.endswith("_API_KEY")]
    for key in keys:
        text = text.replace(key, "…") if len(key) > 7 else text  # shorter ones are placeholders: `x`, `none`, `EMPTY`
    return text


def _error_message(data: object, text: str) -> str:
    """Return a server's error message in one line, cut to 300 characters."""
    error = data.get("error", data.get("detail", data.get("message"))) if isinstance(data, dict) else None
    if isinstance(error, dict):
        error = error.get("message")
    return " ".join((error if isinstance(error, str) else text).split())[:300]


def _code(data: object) -> str:
    error = data.get("error") if isinstance(data, dict) else None
    return f"{error.get('code')} {error.get('type')}" if isinstance(error, dict) else ""


def _is_prompt_too_long(code: str, message: str) -> bool:
    """Return whether a refusal means that the prompt is too long; covers OpenAI, vLLM, llama.cpp and others."""
    text = f"{code} {message}".lower().replace("_", " ")
    return "context" in text and any(word in text for word in ("length", "size", "window", "exceed"))


def is_filtered(code: str, message: str) -> bool:
    """Return whether a refusal is that of a content filter; covers OpenAI, Azure, OpenRouter, litellm and others."""
    text = " ".join(f"{code} {message}".lower().replace("_", " ").split())
    return any(words in text for words in _FILTER_WORDS)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of `Retry-After`, which is a number or a date; None without it."""
    value = headers.get("retry-after", "")
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None
