"""What an engine is: token ids in, token ids out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from agentgym_py.engine.sampling import SamplingParams

if TYPE_CHECKING:
    from agentgym_py.policy import Policy

ServerKind = Literal["vllm", "sglang", "llamacpp"]
"""What a `ServerEngine` can play through."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One reply as it was sampled."""

    ids: tuple[int, ...]
    """The reply's token ids; an end-of-turn token that it sampled is the last of them."""
    logprobs: tuple[float, ...]
    """Each token's log-probability under the distribution it was drawn from (greedy: under temperature 1)."""
    finish_reason: Literal["stop", "length"]
    """`stop`: it ended its turn itself; `length`: it was cut."""
    error: str | None = None
    """An infrastructure failure in place of a reply."""


class Engine(Protocol):
    """Turns prompts into replies for one policy at a time."""

    @property
    def digest(self) -> str:
        """SHA-256 of the weights in use, as `Policy.digest`."""
        ...

    def generate(
        self, prompts: Sequence[Sequence[int]], params: SamplingParams, seeds: Sequence[int] | None = None
    ) -> list[Generation]:
        """One reply a prompt, in order; a reply depends on its own prompt and seed, not on the batch."""
        ...

    def sync(self, policy: Policy, version: int) -> None:
        """Use these weights from now on and forget everything computed with the old ones."""
        ...


class Batch(Protocol):
    """Replies in the making, each given back as soon as it may."""

    def add(self, key: Hashable, prompt: Sequence[int], seed: int) -> None:
        """A prompt to be answered."""
        ...

    def ended(self) -> list[tuple[Hashable, Generation]]:
        """Some of the replies, by key; none where there is nothing to answer."""
        ...


class BatchEngine(Engine, Protocol):
    """One whose batches others join while it answers."""

    def batch(self, params: SamplingParams) -> Batch:
        """An empty one."""
        ...


class RemoteEngine(Engine, Protocol):
    """One whose replies come from elsewhere, each as soon as it is there."""

    kind: str
    """What the replies come from."""

    async def answer(self, prompt: Sequence[int], params: SamplingParams, seed: int) -> Generation:
        """One reply; awaited in the loop of `agentgym_py.http_client`."""
        ...
