"""Define what an engine is: token ids in, token ids out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from agentgym_py.engine.sampling import SamplingParams

if TYPE_CHECKING:
    from agentgym_py.policy import Policy

ServerKind = Literal["vllm", "sglang", "llamacpp"]
"""Kinds of model servers that a `ServerEngine` can use."""
SyncWeights = Literal["auto", "full", "lora"]
"""What a model server is given of a policy with LoRA adapters."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One reply as it was sampled."""

    ids: tuple[int, ...]
    """Token ids of the reply; a sampled end is the last of them (see `Policy.ends`)."""
    logprobs: tuple[float, ...]
    """Log-probability of each token under the distribution it was drawn from (greedy: temperature 1)."""
    finish_reason: Literal["stop", "length"]
    """`stop`: the reply ended by itself; `length`: it was cut."""
    error: str | None = None
    """An infrastructure failure instead of a reply."""


class Engine(Protocol):
    """Turn prompts into replies, for one policy at a time."""

    @property
    def digest(self) -> str:
        """SHA-256 of the weights in use, as `Policy.digest`."""
        ...

    def generate(
        self, prompts: Sequence[Sequence[int]], params: SamplingParams, seeds: Sequence[int] | None = None
    ) -> list[Generation]:
        """Return one reply per prompt, in order. A reply depends on its own prompt and seed, not on the batch."""
        ...

    def sync(self, policy: Policy, version: int) -> None:
        """Use these weights from now on, and drop everything computed with the old ones."""
        ...


class GenerationBatch(Protocol):
    """Replies in progress; each is returned as soon as it ends."""

    def add(self, key: Hashable, prompt: Sequence[int], seed: int) -> None:
        """Add a prompt to be answered."""
        ...

    def take_ended(self) -> list[tuple[Hashable, Generation]]:
        """Return some of the ended replies, by key; an empty list if no prompt is open."""
        ...


@runtime_checkable
class BatchEngine(Protocol):
    """An `Engine` whose batches accept prompts while it generates."""

    def batch(self, params: SamplingParams) -> GenerationBatch:
        """Return an empty batch."""
        ...


@runtime_checkable
class CachingEngine(Protocol):
    """An `Engine` that keeps keys and values between replies."""

    def release(self) -> None:
        """Drop them."""
        ...


@runtime_checkable
class RemoteEngine(Protocol):
    """An `Engine` on a server, which answers each prompt by itself."""

    kind: str
    """The kind of server."""

    async def answer(self, prompt: Sequence[int], params: SamplingParams, seed: int) -> Generation:
        """Return one reply; awaited in the event loop of `agentgym_py.http_client`."""
        ...
