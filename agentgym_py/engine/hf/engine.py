"""An engine on a Hugging Face model: the options, the weights in use, and batches of replies."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from agentgym_py.engine.base import Generation
from agentgym_py.engine.hf.batch import HFBatch
from agentgym_py.engine.hf.runner import ModelRunner
from agentgym_py.engine.sampling import SamplingParams, seeds_for
from agentgym_py.errors import ConfigError
from agentgym_py.policy import Policy


class HFEngine:
    """Batch all live episodes on one model.

    The slot of a prompt is found by its prefix. `slots` episodes are cached; further prompts wait for a place.
    `prefill_tokens` bounds the prompt tokens of one forward pass. `kv_cache_gib` bounds the memory of keys and values,
    in GiB; None is half of a GPU's free memory, and no bound on a CPU. Call `sync` after the weights change.
    """

    def __init__(
        self,
        policy: Policy,
        slots: int = 64,
        *,
        prefill_tokens: int = 1024,
        seed: int = 0,
        kv_cache_gib: float | None = None,
    ) -> None:
        if slots < 1 or prefill_tokens < 1:
            raise ConfigError(f"slots and prefill_tokens must be at least 1, got {slots!r} and {prefill_tokens!r}")
        if kv_cache_gib is not None and not 0 < kv_cache_gib < math.inf:
            raise ConfigError(f"kv_cache_gib must be above 0, got {kv_cache_gib!r}")
        self.slots, self.prefill_tokens, self.kv_cache_gib = slots, prefill_tokens, kv_cache_gib
        self._seeds = np.random.default_rng(seed)
        self.policy, self.version = policy, 0
        self.runner = ModelRunner(policy, slots, prefill_tokens, kv_cache_gib)
        self._digest: str | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Give another process the weights and an empty cache."""
        return _rebuild, (self.policy, self.version, self.slots, self.prefill_tokens, self._seeds, self.kv_cache_gib)

    def sync(self, policy: Policy, version: int) -> None:
        """Use these weights from now on, and drop everything computed with the old ones."""
        self.policy, self.version, self._digest = policy, version, None
        self.runner.load(policy)

    def release(self) -> None:
        """Drop the cached keys and values, so that a training has their memory."""
        self.runner.release()

    @property
    def prefilled(self) -> int:
        """Number of prompt tokens computed so far; cached ones do not count."""
        return self.runner.prefilled

    @property
    def digest(self) -> str:
        """SHA-256 of the weights in use, as `Policy.digest`."""
        if self._digest is None:
            self.runner.require_synced()
            self._digest = self.policy.digest()
        return self._digest

    def generate(
        self, prompts: Sequence[Sequence[int]], params: SamplingParams, seeds: Sequence[int] | None = None
    ) -> list[Generation]:
        """Return one reply per prompt, in order; without `seeds` they come from the engine's own generator."""
        batch = self.batch(params)
        for i, (prompt, seed) in enumerate(zip(prompts, seeds_for(prompts, seeds, self._seeds), strict=True)):
            batch.add(i, prompt, seed)
        replies: dict[Hashable, Generation] = {}
        while len(replies) < len(prompts):
            replies.update(batch.take_ended())
        return [replies[i] for i in range(len(prompts))]

    def batch(self, params: SamplingParams) -> HFBatch:
        """Return a batch that prompts can join at any time and leave when answered."""
        return HFBatch(self.runner, params)


def _rebuild(
    policy: Policy,
    version: int,
    slots: int,
    prefill_tokens: int,
    seeds: np.random.Generator,
    kv_cache_gib: float | None,
) -> HFEngine:
    engine = HFEngine(policy, slots, prefill_tokens=prefill_tokens, kv_cache_gib=kv_cache_gib)
    engine.version, engine._seeds = version, seeds
    return engine
