"""An engine on a model server (vLLM, SGLang, llama.cpp), over HTTP, in token ids."""

from __future__ import annotations

import asyncio
import copy
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, get_args

import numpy as np

from agentgym_py import distributed, trust
from agentgym_py.engine.base import Generation, ServerKind, SyncWeights
from agentgym_py.engine.sampling import SamplingParams, seeds_for
from agentgym_py.engine.server_protocols import PROTOCOLS, Bounds, Sampled
from agentgym_py.errors import ConfigError, EndpointError, PolicyError
from agentgym_py.http_client import (
    HttpClient,
    NotFoundError,
    PromptTooLongError,
    RequestFailedError,
    checked_address,
    gather_all,
    run_in_loop,
)
from agentgym_py.policy import Policy
from agentgym_py.policy.adapters import base_parameters, has_adapters, weight_sums, without_adapters
from agentgym_py.policy.saving import replace_folder
from agentgym_py.policy.tokens import Sample
from agentgym_py.policy.vocabulary import embedding_rows
from agentgym_py.rng import seed_of

_LOADING = 1800.0
"""Seconds that a server may take to load weights."""
_EXACT, _ROUNDING = 1e-3, 5.0
"""Largest mean difference of log-probabilities that counts as equal, and its largest growth after the first sync."""
_PROBES = ("", "0", "A b c.", "The quick brown fox")
_PROBED = SamplingParams(temperature=2.0, max_new_tokens=16)
"""A high temperature makes unlikely replies; there weights, vocabularies and kinds of log-probability differ most."""


class ServerEngine:
    """Generates replies with a model server; no reply waits for another.

    `sync` writes the policy's weights as a checkpoint, which the server loads from the same path. Of a policy with LoRA
    adapters it writes the adapters alone, if the server loads such beside the weights of their base. Afterwards, and
    after the server was unreachable, a few replies verify that its log-probabilities are those of the policy; a server
    with other weights or another vocabulary is refused. An unanswered request is an infrastructure failure of its
    episode.

    Args:
        policy: The policy; between two calls of `sync` only its tokenizer and context length are used.
        base_url: The server's address, with or without `/v1`.
        kind: `vllm`, `sglang` or `llamacpp`.
        model: Name of the model in requests, for a server that needs one.
        push: Load the policy's weights; otherwise the server must already have them.
        weights: Folder for the checkpoint, which the server sees under the same path; by default a temporary one.
        concurrency: Largest number of simultaneous requests.
        timeout: Seconds for one answer.
        retries: Largest number of retries of a request, as for `HttpClient`.
        sync_weights: What the server loads of a policy with adapters: `full` (merged weights), `lora` (the adapters; it
            was started with their base), or `auto` (the adapters if it can, else merged weights).
        tolerance: Largest mean difference between the log-probabilities of server and policy. After a later `sync` it
            is at most five times the first difference, or 0.001.

    Raises:
        ConfigError: a value is out of range, or httpx2 is not installed.
        EndpointError: the server refuses, is broken, or gives no token ids.
        PolicyError: the server does not play this policy.
    """

    def __init__(
        self,
        policy: Policy,
        base_url: str,
        kind: ServerKind = "vllm",
        *,
        model: str | None = None,
        push: bool = True,
        sync_weights: SyncWeights = "auto",
        weights: str | None = None,
        concurrency: int = 128,
        timeout: float = 120.0,
        retries: int = 5,
        tolerance: float = 0.1,
    ) -> None:
        if kind not in PROTOCOLS:
            raise ConfigError(f"a server's kind must be one of {', '.join(PROTOCOLS)}, got {kind!r}")
        if sync_weights not in get_args(SyncWeights):
            raise ConfigError(f"sync_weights must be one of {', '.join(get_args(SyncWeights))}, got {sync_weights!r}")
        if weights is not None:
            trust.require_output(weights)
        self.kind, self.version = kind, -1
        self.digest = self._verified = ""
        self.mismatch = 0.0
        """Mean difference between the server's log-probabilities and the policy's at the last `sync`."""
        self._address, self._protocol = checked_address(base_url).removesuffix("/v1"), PROTOCOLS[kind]
        server = partial(HttpClient, f"the {kind} server at {self._address}", retries=retries)
        advice = f"A server of kind {kind} answers POST {self._protocol.path}"
        self._server = server(concurrency=concurrency, timeout=timeout, advice=advice)
        self._loader = server(
            concurrency=1, timeout=_LOADING, retries=min(retries, 1), advice="It has no such endpoint"
        )
        self._more = {} if model is None else {"model": model}
        self._weights, self._tolerance, self._push = weights, tolerance, push
        self._sync_weights, self._adapters = sync_weights, ""
        self._base: list[int] | None = None
        """Sums of the weights that the server has, without adapters; None if unknown."""
        self._seeds, self._comparing = np.random.default_rng(0), asyncio.Lock()
        self.sync(policy, 0)
        self._tolerance = min(tolerance, max(_EXACT, _ROUNDING * self.mismatch))

    # ---- weights ----------------------------------------------------------------------------------------------------

    def sync(self, policy: Policy, version: int) -> None:
        """Make the server use these weights, and verify that it does.

        Raises:
            PolicyError: it cannot load other weights, or uses others.
            EndpointError: it did not load them, or is broken.
        """
        self.digest, digest = "", policy.digest()
        self.load_obstacle, self._adapters = (
            distributed.on_rank_zero(self._load_weights, policy) if self._push else ("push is false", "")
        )
        """Why the server cannot load other weights; an empty string if it can."""
        if self.load_obstacle and self._verified not in ("", digest):
            raise PolicyError(f"{self._server.where} still has old weights: {self.load_obstacle}")
        self._ends, self._room, self._policy = policy.ends, policy.max_length, weakref.ref(policy)
        self._padding = range(policy.vocab_size, embedding_rows(policy.model))
        try:
            run_in_loop(self._compare(policy))
        except RequestFailedError as error:
            raise EndpointError(str(error)) from None
        self.digest = self._verified = digest  # the last one that the server was seen to have
        self.version = version

    def for_policy(self, policy: Policy) -> ServerEngine:
        """Return this engine once the server uses these weights."""
        if policy.digest() != self.digest:
            self.sync(policy, self.version + 1)
        return self

    def _load_weights(self, policy: Policy) -> tuple[str, str]:
        """Make the server load the weights; return why it cannot, or an empty string, and the adapters' name."""
        if self._sync_weights == "lora" or (self._sync_weights == "auto" and has_adapters(policy.model)):
            try:
                return self._load_adapters(policy)
            except (NotFoundError, RequestFailedError) as error:
                if self._sync_weights == "lora":
                    raise EndpointError(f"{self._server.where} does not load adapters: {error}") from None
                self._sync_weights = "full"
        if obstacle := self._load_full(policy.merged(policy.model.dtype)):
            return obstacle, self._adapters
        self._base = None if has_adapters(policy.model) else _base_sums(policy)
        return "", ""

    def _load_full(self, policy: Policy) -> str:
        """Make the server load all weights; return why it cannot, or an empty string."""
        folder = self._folder("weights")
        try:
            run_in_loop(self._protocol.may_load(self._post))
            policy.save(folder)
            run_in_loop(self._protocol.load(self._post, str(folder)))
        except NotFoundError as error:
            return str(error)
        except RequestFailedError as error:
            raise EndpointError(f"{error} (it must see {folder})") from None
        return ""

    def _load_adapters(self, policy: Policy) -> tuple[str, str]:
        """Make the server load a policy's adapters under a new name, and their base if it has another one.

        Raises:
            NotFoundError, RequestFailedError: the server loads no adapters, or not these.
        """
        base = _base_sums(policy)
        if self._base not in (None, base) or (self._base is None and self._sync_weights == "auto"):
            if not has_adapters(policy.model):
                return "sync_weights is lora, and these weights have no adapters", ""
            plain = copy.copy(policy)
            plain.model, plain._stored = without_adapters(policy.model), None
            if (obstacle := self._load_full(plain)) and self._base is not None:
                return obstacle, self._adapters
        self._base = base
        if not has_adapters(policy.model):
            return "", ""
        name, folder = f"agentgym-{self.version + 1}-{policy.digest()[:8]}", self._folder("adapters")
        replace_folder(folder, policy.model.save_pretrained)
        if name != self._adapters:
            run_in_loop(self._protocol.load_adapters(self._post, name, str(folder)))
            if self._adapters:
                run_in_loop(self._protocol.unload_adapters(self._post, self._adapters))
        return "", name

    def _folder(self, name: str) -> Path:
        if self._weights is None:
            self._weights = tempfile.mkdtemp(prefix="agentgym-")
            weakref.finalize(self, shutil.rmtree, self._weights, ignore_errors=True)
        return Path(self._weights).absolute() / name

    async def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        return await self._loader.ask(self._address + path, body, lambda data: data or {}, "JSON")

    async def _compare(self, policy: Policy) -> None:
        """Compare the log-probabilities of a few replies with the policy's, and detect their distribution."""
        breaks = self._server.breaks
        prompts = [policy.chat.opening(text) for text in _PROBES]
        probes = [self._sample(prompt, _PROBED, seed_of("probe", number)) for number, prompt in enumerate(prompts)]
        replies = await gather_all(probes)
        ours = [_policy_logprobs(policy, prompt, reply.ids) for prompt, reply in zip(prompts, replies, strict=True)]
        pairs = [
            (abs(theirs - drawn), abs(theirs - plain))
            for reply, logprobs in zip(replies, ours, strict=True)
            for theirs, drawn, plain in zip(reply.logprobs, *logprobs, strict=True)
        ]
        drawn, plain = map(fmean, zip(*pairs, strict=True))
        self._plain, self.mismatch = plain < drawn, min(drawn, plain)
        if not self.mismatch <= self._tolerance:  # nan is no match
            raise PolicyError(
                f"{self._server.where} does not serve {policy.name!r}: its log-probabilities differ by "
                f"{self.mismatch:.2g} on average (tolerance {self._tolerance:g}); it has other weights or tokens"
                + (f"; it cannot load these weights: {self.load_obstacle}" if self.load_obstacle else "")
            )
        self._breaks = breaks  # only now, so that replies in the meantime wait for the result

    async def _verify_again(self) -> None:
        """Verify the server again after it was unreachable, because it may have restarted with other weights."""
        async with self._comparing:
            policy = self._policy()
            if self._breaks != self._server.breaks and policy is not None:
                await self._compare(policy)

    # ---- replies ----------------------------------------------------------------------------------------------------

    def generate(
        self, prompts: Sequence[Sequence[int]], params: SamplingParams, seeds: Sequence[int] | None = None
    ) -> list[Generation]:
        """Return one reply per prompt, in order; without `seeds` they come from the engine's own generator."""
        pairs = zip(prompts, seeds_for(prompts, seeds, self._seeds), strict=True)
        requests = [self.answer(prompt, params, seed) for prompt, seed in pairs]
        return run_in_loop(gather_all(requests))

    async def answer(self, prompt: Sequence[int], params: SamplingParams, seed: int) -> Generation:
        """Return one reply, or why the server gave none.

        Raises:
            ConfigError: the prompt is empty or leaves no room, or the server does not give such log-probabilities.
            EndpointError: the server refuses, or is broken.
        """
        self._require(params)
        try:
            sampled = await self._sample(prompt, params, seed)
            if self._breaks != self._server.breaks:
                await self._verify_again()
        except RequestFailedError as error:
            return Generation((), (), "length", str(error))
        return Generation(tuple(sampled.ids), tuple(sampled.logprobs), "stop" if sampled.has_ended else "length")

    async def _sample(self, prompt: Sequence[int], params: SamplingParams, seed: int) -> Sampled:
        limit = min(params.max_new_tokens, self._room - len(prompt))
        if not len(prompt) or limit < 1:
            raise ConfigError(f"a prompt of {len(prompt)} tokens, for a policy of {self._room}")
        bounds = Bounds(limit, tuple(sorted(self._ends)), self._padding)
        body = self._protocol.body(prompt, params, bounds, seed % (1 << 31)) | self._more
        if self._adapters:
            body[self._protocol.adapter_field] = self._adapters
        read = partial(self._protocol.read, prompt)
        try:
            sampled = await self._server.ask(self._address + self._protocol.path, body, read, "whole reply", seed)
        except PromptTooLongError:
            raise EndpointError(
                f"{self._server.where} has a shorter context than the policy; start it with {self._room} tokens"
            ) from None
        if max(sampled.ids) in self._padding:
            raise RequestFailedError(f"the server sampled the row {max(sampled.ids)}, which is no token")
        end = next((i for i, token in enumerate(sampled.ids, 1) if token in self._ends), None)
        by_itself = sampled.has_ended and len(sampled.ids) <= limit  # at an end of the server's own
        return Sampled(sampled.ids[: end or limit], sampled.logprobs[: end or limit], end is not None or by_itself)

    def _require(self, params: SamplingParams) -> None:
        """Raise ConfigError if the log-probabilities would not be those of the sampling distribution."""
        if params.greedy:
            return
        if (params.top_k or params.top_p < 1) and not self._protocol.truncates:
            raise ConfigError(f"a server of kind {self.kind} gives no log-probabilities after top_k and top_p")
        if self._plain and (params.temperature != 1 or params.top_k or params.top_p < 1):
            raise ConfigError(
                f"{self._server.where} gives log-probabilities before the temperature: {self._protocol.needs}"
            )


def _base_sums(policy: Policy) -> list[int]:
    """Return sums of the policy's weights without its adapters."""
    return weight_sums(parameter for _, parameter in base_parameters(policy.model))


def _policy_logprobs(policy: Policy, prompt: Sequence[int], ids: Sequence[int]) -> tuple[list[float], list[float]]:
    """Return the policy's log-probabilities of a reply, under the sampling distribution and under temperature 1."""
    import torch

    from agentgym_py.engine.decoding import processed_logprobs
    from agentgym_py.policy.logprobs import agent_logits, pad_samples

    model = policy.model
    if max(ids) >= policy.vocab_size:
        return (unknown := [-torch.inf] * len(ids)), unknown
    sample = Sample([*prompt, *ids], [0] * len(prompt) + [1] * len(ids))
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            output = agent_logits(model, *pad_samples([sample], model.device))
    finally:
        model.train(was_training)
    assert output.logits_NV is not None  # a reply is one piece
    both = (processed_logprobs(output.logits_NV, _PROBED), output.logits_NV.log_softmax(-1))
    drawn, plain = (logprobs.gather(-1, output.targets_N[:, None])[:, 0].tolist() for logprobs in both)
    return drawn, plain
