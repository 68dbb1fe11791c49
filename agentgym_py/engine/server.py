"""An engine on a model server (vLLM, SGLang, llama.cpp), over HTTP, in token ids."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from agentgym_py import distributed
from agentgym_py.engine.base import Generation, ServerKind
from agentgym_py.engine.sampling import SamplingParams
from agentgym_py.engine.server_protocols import DIALECTS, Sampled
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
from agentgym_py.policy.tokens import Sample
from agentgym_py.rng import seed_of

_LOADING = 1800.0
"""Seconds that a server may take to load weights."""
_EXACT, _ROUNDING = 1e-3, 5.0
"""Largest mean difference of log-probabilities that counts as equal, and its largest growth after the first sync."""
_PROBES = ("", "0", "A b c.", "The quick brown fox")
_PROBED = SamplingParams(temperature=2.0, max_new_tokens=16)
"""A high temperature makes unlikely replies; there weights, vocabularies and kinds of log-probability differ most."""


class ServerEngine:
    """Plays a policy through a server; a reply waits for no other.

    The server is given the policy's weights (`sync`): they are written as a checkpoint that it loads from the same
    path. Then, where it cannot load any, and after it was gone for a while, it is asked for a few replies whose
    log-probabilities must be the policy's own: a server with other weights or another vocabulary is refused. A request
    that stays unanswered is an infrastructure failure of its episode.

    Args:
        policy: Whose weights are played; only its tokens and its length are needed between two calls of `sync`.
        base_url: The server's address, with `/v1` or without.
        kind: `vllm`, `sglang` or `llamacpp`.
        model: The name of the model in requests, for a server that wants one.
        push: Give it the policy's weights; else it must hold them already.
        weights: Folder for the checkpoint, which the server sees under the same path; by default a temporary one.
        concurrency: Requests at once.
        timeout: Seconds for one answer.
        retries: How often a request is made again, as by `HttpClient`.
        tolerance: How far, on average, the log-probabilities may be from the policy's: what rounding does. After a
            later `sync` no more than five times as far as they were at first, or 0.001.

    Raises:
        ConfigError: a value that cannot be; httpx2 is not installed.
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
        weights: str | None = None,
        concurrency: int = 128,
        timeout: float = 120.0,
        retries: int = 5,
        tolerance: float = 0.1,
    ) -> None:
        if kind not in DIALECTS:
            raise ConfigError(f"a server's kind must be one of {', '.join(DIALECTS)}, got {kind!r}")
        self.kind, self.version = kind, -1
        self.digest = ""
        self.mismatch = 0.0
        """Mean difference between the server's log-probabilities and the policy's at the last `sync`."""
        self._address, self._dialect = checked_address(base_url).removesuffix("/v1"), DIALECTS[kind]
        server = partial(HttpClient, f"the {kind} server at {self._address}", retries=retries)
        advice = f"A server of kind {kind} answers POST {self._dialect.path}"
        self._server = server(concurrency=concurrency, timeout=timeout, advice=advice)
        self._loader = server(
            concurrency=1, timeout=_LOADING, retries=min(retries, 1), advice="It has no such endpoint"
        )
        self._more = {} if model is None else {"model": model}
        self._weights, self._tolerance, self._push = weights, tolerance, push
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
        (held, self.digest), digest = (self.digest, ""), policy.digest()
        self.fixed = (
            distributed.on_rank_zero(self._loaded, policy) if self._push else "it was not to be given any (push)"
        )
        """Say why the server cannot load other weights; an empty string if it can."""
        if self.fixed and held not in ("", digest):
            raise PolicyError(f"{self._server.where} still has old weights: {self.fixed}")
        self._end, self._room, self._policy = policy.chat.end_of_turn, policy.max_length, weakref.ref(policy)
        try:
            run_in_loop(self._compare(policy))
        except RequestFailedError as error:
            raise EndpointError(str(error)) from None
        self.digest, self.version = digest, version

    def playing(self, policy: Policy) -> ServerEngine:
        """Return this engine once the server uses these weights."""
        if policy.digest() != self.digest:
            self.sync(policy, self.version + 1)
        return self

    def _loaded(self, policy: Policy) -> str:
        """Have the server load the weights; returns why it cannot, or an empty string."""
        if self._weights is None:
            self._weights = tempfile.mkdtemp(prefix="agentgym-")
            weakref.finalize(self, shutil.rmtree, self._weights, ignore_errors=True)
        folder = Path(self._weights).absolute() / "weights"
        try:
            run_in_loop(self._dialect.may_load(self._posted))
            policy.save(folder)
            run_in_loop(self._dialect.load(self._posted, str(folder)))
        except NotFoundError as error:
            return str(error)
        except RequestFailedError as error:
            raise EndpointError(f"{error} (it must see {folder})") from None
        return ""

    async def _posted(self, path: str, body: Mapping[str, Any]) -> Any:
        return await self._loader.ask(self._address + path, body, lambda data: data or {}, "JSON")

    async def _compare(self, policy: Policy) -> None:
        """Compare the log-probabilities of replies with the policy's own, and tell which distribution they are of."""
        breaks = self._server.breaks
        prompts = [policy.chat.opening(each) for each in _PROBES]
        probes = [self._sampled(each, _PROBED, seed_of("probe", number)) for number, each in enumerate(prompts)]
        found = await gather_all(probes)
        own = [_own_logprobs(policy, prompt, each.ids) for prompt, each in zip(prompts, found, strict=True)]
        pairs = [
            (abs(theirs - drawn), abs(theirs - plain))
            for each, ours in zip(found, own, strict=True)
            for theirs, drawn, plain in zip(each.logprobs, *ours, strict=True)
        ]
        drawn, plain = map(fmean, zip(*pairs, strict=True))
        self._plain, self.mismatch = plain < drawn, min(drawn, plain)
        if self.mismatch > self._tolerance:
            raise PolicyError(
                f"{self._server.where} does not play {policy.name!r}: its log-probabilities are {self.mismatch:.2g} "
                f"from that one's on average (tolerance {self._tolerance:g}); it has other weights or another tokenizer"
                + (f", and cannot be given these: {self.fixed}" if self.fixed else "")
            )
        self._breaks = breaks  # only now: a caller that gets a reply meanwhile waits for the result

    async def _compare_again(self) -> None:
        """Verify a server again after it was gone: it may have restarted with its original weights."""
        async with self._comparing:
            policy = self._policy()
            if self._breaks != self._server.breaks and policy is not None:
                await self._compare(policy)

    # ---- replies ----------------------------------------------------------------------------------------------------

    def generate(
        self, prompts: Sequence[Sequence[int]], params: SamplingParams, seeds: Sequence[int] | None = None
    ) -> list[Generation]:
        """Return one reply per prompt, in order; without `seeds` they come from the engine's own generator."""
        if seeds is None:
            seeds = [int(seed) for seed in self._seeds.integers(2**63, size=len(prompts))]
        if len(seeds) != len(prompts):
            raise ConfigError(f"{len(prompts)} prompts need as many seeds, got {len(seeds)}")
        asked = [self.answer(prompt, params, seed) for prompt, seed in zip(prompts, seeds, strict=True)]
        return run_in_loop(gather_all(asked))

    async def answer(self, prompt: Sequence[int], params: SamplingParams, seed: int) -> Generation:
        """Return one reply, or why the server gave none.

        Raises:
            ConfigError: the prompt is empty or leaves no room, or the server does not give such log-probabilities.
            EndpointError: the server refuses, or is broken.
        """
        self._require(params)
        try:
            ids, logprobs = await self._sampled(prompt, params, seed)
            if self._breaks != self._server.breaks:
                await self._compare_again()
        except RequestFailedError as error:
            return Generation((), (), "length", str(error))
        return Generation(tuple(ids), tuple(logprobs), "stop" if ids[-1] == self._end else "length")

    async def _sampled(self, prompt: Sequence[int], params: SamplingParams, seed: int) -> Sampled:
        limit = min(params.max_new_tokens, self._room - len(prompt))
        if not len(prompt) or limit < 1:
            raise ConfigError(f"a prompt of {len(prompt)} tokens, for a policy of {self._room}")
        body = self._dialect.body(prompt, params, limit, self._end, seed % (1 << 31)) | self._more
        read = partial(self._dialect.read, prompt)
        try:
            found = await self._server.ask(self._address + self._dialect.path, body, read, "whole reply", seed)
        except PromptTooLongError:
            raise EndpointError(
                f"{self._server.where} has a shorter context than the policy, whose {self._room} tokens it must have"
            ) from None
        stop = found.ids.index(self._end) + 1 if self._end in found.ids else limit
        return Sampled(found.ids[:stop], found.logprobs[:stop])

    def _require(self, params: SamplingParams) -> None:
        """Raise ConfigError if the log-probabilities would not be those of the sampling distribution."""
        if params.greedy:
            return
        if (params.top_k or params.top_p < 1) and not self._dialect.truncates:
            raise ConfigError(f"a server of kind {self.kind} gives no log-probabilities after top_k and top_p")
        if self._plain and (params.temperature != 1 or params.top_k or params.top_p < 1):
            raise ConfigError(
                f"{self._server.where} gives log-probabilities before the temperature: {self._dialect.needs}"
            )


def _own_logprobs(policy: Policy, prompt: Sequence[int], ids: Sequence[int]) -> tuple[list[float], list[float]]:
    """The policy's log-probabilities of a probe's reply: under the sampling distribution, and under temperature 1."""
    import torch

    from agentgym_py.engine.decoding import processed_logprobs
    from agentgym_py.policy.logprobs import agent_logits, pad_samples

    model = policy.model
    if max(ids) >= model.config.get_text_config().vocab_size:
        return (unknown := [-torch.inf] * len(ids)), unknown
    sample = Sample([*prompt, *ids], [0] * len(prompt) + [1] * len(ids))
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            said = agent_logits(model, *pad_samples([sample], model.device))
    finally:
        model.train(was_training)
    both = (processed_logprobs(said.logits_NV, _PROBED), said.logits_NV.log_softmax(-1))
    drawn, plain = (each.gather(-1, said.targets_N[:, None])[:, 0].tolist() for each in both)
    return drawn, plain
