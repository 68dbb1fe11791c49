"""The protocols of model servers: requests for token ids, and for loading weights.

The protocols may change. These are for vLLM 0.32, SGLang 0.5.23 and llama.cpp b11434.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from agentgym_py.checks import is_finite
from agentgym_py.engine.base import ServerKind
from agentgym_py.engine.sampling import SamplingParams
from agentgym_py.errors import EndpointError
from agentgym_py.http_client import NotFoundError, RequestFailedError

Post = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Send a body to a path; returns the JSON answer, None if it is empty."""
_FLUSHES, _BETWEEN = 100, 0.1
"""Attempts to empty a cache that abandoned replies still use, and the seconds between them."""


class Sampled(NamedTuple):
    """Token ids and their log-probabilities from a server."""

    ids: list[int]
    logprobs: list[float]
    has_ended: bool
    """Whether the reply ended by itself, and was not cut."""


class Bounds(NamedTuple):
    """What a reply may hold."""

    limit: int
    """Largest number of tokens."""
    ends: tuple[int, ...]
    """Tokens that end it."""
    padding: range = range(0)
    """Rows of the head that are no tokens, and must not be sampled."""


class ServerProtocol(Protocol):
    """The protocol of one kind of server."""

    path: str
    """Path for prompts as token ids."""
    needs: str
    """Advice how to get log-probabilities of the sampling distribution; empty if the server always gives them."""
    truncates: bool
    """Whether they also include `top_k` and `top_p`."""

    def body(self, prompt: Sequence[int], params: SamplingParams, bounds: Bounds, seed: int) -> dict[str, Any]:
        """Make a request for one reply within its bounds."""
        ...

    def read(self, prompt: Sequence[int], data: Any) -> Sampled | None:
        """Read the reply in an answer; return None if it is missing or incomplete.

        Raises:
            EndpointError: the server never gives token ids, or answered another prompt.
            RequestFailedError: this answer has no token ids.
        """
        ...

    async def may_load(self, post: Post) -> None:
        """Raise NotFoundError if the server cannot load weights."""
        ...

    async def load(self, post: Post, folder: str) -> None:
        """Make the server load the checkpoint in a folder and empty its cache.

        Raises:
            RequestFailedError: the server did not.
        """
        ...

    adapter_field: str
    """Field of a request that names LoRA adapters; empty if the server loads none."""
    adapter_needs: str
    """Advice how to start a server that loads adapters."""

    async def load_adapters(self, post: Post, name: str, folder: str) -> None:
        """Make the server load the adapters in a folder, beside its weights.

        Raises:
            NotFoundError, RequestFailedError: the server did not.
        """
        ...

    async def unload_adapters(self, post: Post, name: str) -> None:
        """Make the server forget adapters."""
        ...


class _RuntimeAdapters:
    """LoRA adapters that a server loads while it runs; the servers differ in `adapter_root` and the advice alone."""

    adapter_root: str
    """Path before `/load_lora_adapter`."""
    adapter_needs: str

    async def load_adapters(self, post: Post, name: str, folder: str) -> None:
        """See `ServerProtocol`."""
        await self._change(post, "load_lora_adapter", {"lora_name": name, "lora_path": folder})

    async def unload_adapters(self, post: Post, name: str) -> None:
        """See `ServerProtocol`."""
        await self._change(post, "unload_lora_adapter", {"lora_name": name})

    async def _change(self, post: Post, call: str, body: Mapping[str, Any]) -> None:
        path, needs = f"{self.adapter_root}/{call}", self.adapter_needs
        try:
            if _at(await post(path, body), "success") is False:
                raise RequestFailedError(f"it does not load the adapters; {needs}")
        except NotFoundError:
            raise NotFoundError(f"it has no {path}, or does not see {body.get('lora_path', 'them')}; {needs}") from None


class VLLM(_RuntimeAdapters):
    """`vllm serve`. Options that are not sent would come from the model's generation_config.json."""

    path = "/v1/completions"
    needs = "start vLLM with --logprobs-mode processed_logprobs"
    truncates = True
    adapter_field = "model"
    adapter_root = "/v1"
    adapter_needs = "start vLLM with --enable-lora, --max-lora-rank and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True"

    def body(self, prompt: Sequence[int], params: SamplingParams, bounds: Bounds, seed: int) -> dict[str, Any]:
        """See `ServerProtocol`. A reply ends with the tokens that end it in `HFEngine`."""
        body = {
            "prompt": list(prompt), "max_tokens": bounds.limit, "temperature": params.temperature,
            "top_p": params.top_p, "top_k": params.top_k, "min_p": 0.0, "repetition_penalty": 1.0,
            "presence_penalty": 0.0, "frequency_penalty": 0.0, "stop_token_ids": list(bounds.ends), "ignore_eos": True,
            "seed": seed, "logprobs": 0, "return_token_ids": True,
        }  # fmt: skip
        return body | _logit_bias(bounds)

    def read(self, prompt: Sequence[int], data: Any) -> Sampled | None:
        """See `ServerProtocol`."""
        choice = _at(data, "choices", 0)
        if _at(choice, "finish_reason") not in ("stop", "length"):
            return None
        ids = _at(choice, "token_ids")
        if ids is None:
            raise EndpointError(
                "the server gives no token ids (`return_token_ids`); it is an old vLLM or another server"
            )
        _require_same(prompt, _at(choice, "prompt_token_ids"))
        return _sampled(ids, _at(choice, "logprobs", "token_logprobs"), _at(choice, "finish_reason") == "stop")

    async def may_load(self, post: Post) -> None:
        """See `ServerProtocol`."""
        try:
            await post("/reset_prefix_cache", {})
        except NotFoundError:
            raise NotFoundError("vLLM loads other weights only if it is started with VLLM_SERVER_DEV_MODE=1") from None

    async def load(self, post: Post, folder: str) -> None:
        """See `ServerProtocol`."""
        await post("/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": folder}})
        for _ in range(_FLUSHES):
            if _at(await post("/reset_prefix_cache", {}), "success") is not False:  # old versions do not report it
                return
            await asyncio.sleep(_BETWEEN)
        raise RequestFailedError("it does not empty its cache of the old weights (/reset_prefix_cache)")


class SGLang(_RuntimeAdapters):
    """SGLang's own `/generate`. Seeds count only with `--enable-deterministic-inference`."""

    path = "/generate"
    needs = "start SGLang without SGLANG_RETURN_ORIGINAL_LOGPROB"
    truncates = False
    adapter_field = "lora_path"
    adapter_root = ""
    adapter_needs = "start SGLang with --enable-lora, --max-lora-rank and --lora-target-modules all"

    def body(self, prompt: Sequence[int], params: SamplingParams, bounds: Bounds, seed: int) -> dict[str, Any]:
        """See `ServerProtocol`. `ignore_eos` is not sent, because the server would then ignore `bounds.ends` too."""
        sampling = {
            "max_new_tokens": bounds.limit, "temperature": params.temperature, "top_p": params.top_p,
            "top_k": params.top_k or -1, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0,
            "frequency_penalty": 0.0, "stop_token_ids": list(bounds.ends), "sampling_seed": seed,
        } | _logit_bias(bounds)  # fmt: skip
        return {"input_ids": list(prompt), "sampling_params": sampling, "return_logprob": True}

    def read(self, prompt: Sequence[int], data: Any) -> Sampled | None:
        """See `ServerProtocol`."""
        meta = _at(data, "meta_info")
        if _at(meta, "finish_reason", "type") not in ("stop", "length"):
            return None
        _require_as_long(prompt, _at(meta, "prompt_tokens"))
        pairs = _at(meta, "output_token_logprobs")
        if not isinstance(pairs, list):
            return None
        has_ended = _at(meta, "finish_reason", "type") == "stop"
        return _sampled([_at(pair, 1) for pair in pairs], [_at(pair, 0) for pair in pairs], has_ended)

    async def may_load(self, post: Post) -> None:
        """See `ServerProtocol`: always."""
        del post

    async def load(self, post: Post, folder: str) -> None:
        """See `ServerProtocol`."""
        await post("/update_weights_from_disk", {"model_path": folder, "flush_cache": True, "abort_all_requests": True})


class LlamaCpp:
    """llama.cpp's `llama-server`, whose own `/completion` gives ids. It holds a GGUF file and loads no other."""

    path = "/completion"
    needs = ""
    truncates = True
    adapter_field = ""
    adapter_needs = "llama.cpp's server cannot load adapters"

    def body(self, prompt: Sequence[int], params: SamplingParams, bounds: Bounds, seed: int) -> dict[str, Any]:
        """See `ServerProtocol`. A reply ends with any end of sequence that the model file names."""
        plain = params.greedy or (params.temperature == 1 and params.top_p == 1 and not params.top_k)
        return {
            "prompt": list(prompt), "n_predict": bounds.limit, "temperature": params.temperature, "top_p": params.top_p,
            "top_k": params.top_k, "samplers": ["temperature", "top_k", "top_p"], "seed": seed, "return_tokens": True,
            "n_probs": 1, "post_sampling_probs": not plain,
        } | ({"logit_bias": [[row, False] for row in bounds.padding]} if bounds.padding else {})  # fmt: skip

    def read(self, prompt: Sequence[int], data: Any) -> Sampled | None:
        """See `ServerProtocol`."""
        if _at(data, "stop_type") not in ("eos", "limit"):
            return None
        ids, probs = _at(data, "tokens"), _at(data, "completion_probabilities")
        if not ids or not isinstance(probs, list):
            raise EndpointError("the server gives no token ids (`return_tokens`)")
        _require_as_long(prompt, _at(data, "tokens_evaluated"))
        if [_at(entry, "id") for entry in probs] != ids:
            raise RequestFailedError("the answer has no log-probability for a token that ends within a character")
        return _sampled(ids, [_logprob(entry) for entry in probs], _at(data, "stop_type") == "eos")

    async def may_load(self, post: Post) -> None:
        """See `ServerProtocol`: never."""
        del post
        raise NotFoundError("llama.cpp's server cannot load other weights than those that it was started with")

    async def load(self, post: Post, folder: str) -> None:
        """See `ServerProtocol`."""
        raise NotImplementedError

    async def load_adapters(self, post: Post, name: str, folder: str) -> None:
        """See `ServerProtocol`: never."""
        raise NotFoundError(self.adapter_needs)

    async def unload_adapters(self, post: Post, name: str) -> None:
        """See `ServerProtocol`: never."""
        raise NotFoundError(self.adapter_needs)


PROTOCOLS: Mapping[ServerKind, ServerProtocol] = {"vllm": VLLM(), "sglang": SGLang(), "llamacpp": LlamaCpp()}


def _at(data: Any, *path: str | int) -> Any:
    """Return the value at a path in JSON, or None."""
    for key in path:
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _logit_bias(bounds: Bounds) -> dict[str, Any]:
    """Return the option that keeps padding rows from being sampled: the least bias that servers take."""
    return {"logit_bias": {str(row): -100.0 for row in bounds.padding}} if bounds.padding else {}


def _sampled(ids: Any, logprobs: Any, has_ended: bool) -> Sampled | None:
    if not (isinstance(ids, list) and isinstance(logprobs, list) and len(ids) == len(logprobs) > 0):
        return None
    are_ids = all(type(token) is int and token >= 0 for token in ids)
    return Sampled(ids, logprobs, has_ended) if are_ids and all(map(is_finite, logprobs)) else None


def _logprob(entry: Any) -> Any:
    prob = _at(entry, "prob")
    return math.log(prob) if isinstance(prob, float) and prob > 0 else _at(entry, "logprob")


def _require_same(prompt: Sequence[int], read: Any) -> None:
    if read != list(prompt):
        raise EndpointError("the server received other token ids than the prompt's")


def _require_as_long(prompt: Sequence[int], read: Any) -> None:
    if read != len(prompt):
        raise EndpointError(f"the server received {read} prompt tokens, but {len(prompt)} were sent")
