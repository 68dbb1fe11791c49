"""What an engine is: token ids in, token ids out. This module imports no torch; `HFEngine` is loaded when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from agentgym_py.engine.sampling import SamplingParams

if TYPE_CHECKING:
    from agentgym_py.engine.hf import HFEngine
    from agentgym_py.policy import Policy

__all__ = ["Engine", "Generation", "HFEngine", "SamplingParams"]


@dataclass(frozen=True, slots=True)
class Generation:
    """One reply as it was sampled."""

    ids: tuple[int, ...]
    """The reply's token ids; an end-of-turn token that it sampled is the last of them."""
    logprobs: tuple[float, ...]
    """Each token's log-probability under the distribution it was drawn from (greedy: under temperature 1)."""
    finish_reason: Literal["stop", "length"]
    """`stop`: it ended its turn itself; `length`: it was cut."""


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


def __getattr__(name: str) -> Any:
    if name == "HFEngine":
        from agentgym_py.engine.hf import HFEngine

        return HFEngine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
