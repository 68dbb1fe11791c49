"""Run a policy's model over the slots of a cache."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from agentgym_py.engine.hf.cache_slots import Ids
from agentgym_py.engine.hf.forward import forward_of
from agentgym_py.engine.hf.kvcache import DecodePlan, PrefillPlan, Segment
from agentgym_py.engine.hf.places import Places
from agentgym_py.engine.hf.prefill import Job, prefill
from agentgym_py.errors import PolicyError
from agentgym_py.policy import Policy
from agentgym_py.policy.adapters import weight_sums


class ModelRunner:
    """A policy's model and the slots in which its episodes are cached.

    `prefill_tokens` bounds the prompt tokens of one forward pass, `kv_cache_gib` the memory of keys and values.
    """

    def __init__(self, policy: Policy, slots: int, prefill_tokens: int, kv_cache_gib: float | None) -> None:
        self.places = Places(slots)
        self.prefilled = 0
        """Number of prompt tokens computed so far; cached ones do not count."""
        self._prefill_tokens, self._kv_cache_gib = prefill_tokens, kv_cache_gib
        self.load(policy)

    def load(self, policy: Policy) -> None:
        """Use these weights from now on, and drop everything computed with the old ones."""
        self.policy = policy
        self._model: Any = policy.model
        self.forward = forward_of(policy.model)
        self._weights = weight_sums(policy.model.parameters())
        self.ends = policy.ends
        self.device = next(self._model.parameters()).device
        self.dtype: torch.dtype = self._model.dtype
        self.release()
        self.places.most_tokens = most_tokens(policy.model, self._kv_cache_gib)

    def release(self) -> None:
        """Drop the cached keys and values."""
        self.places.clear()
        self._owner: weakref.ref[object] | None = None  # weak: a cycle would keep the weights until a collection

    def acquire(self, batch: object) -> bool:
        """Give the slots to a batch; returns whether others have used them since it had them."""
        if self._owner is not None and self._owner() is batch:
            return False
        self._owner = weakref.ref(batch)
        return True

    def require_synced(self) -> None:
        """Raise PolicyError if the policy has other weights than those that were loaded."""
        if self.policy.model is not self._model or weight_sums(self._model.parameters()) != self._weights:
            raise PolicyError("the policy's weights changed since the engine's last sync: call sync(policy, version)")

    @contextmanager
    def inference_mode(self) -> Iterator[None]:
        """Run the model in inference mode; forget the slots after an error, because they may be half written."""
        was_training = self._model.training
        self._model.eval()
        try:
            with torch.inference_mode():
                yield
        except BaseException:
            self.places.forget()
            raise
        finally:
            self._model.train(was_training)

    def prefill(self, prompts: Sequence[Ids], slots: Sequence[int]) -> Tensor:
        """Compute the prompt tokens that the slots lack; return the logits after each prompt's last token, (B, V)."""
        return prefill(prompts, slots, self.places, self._compute, self._prefill_tokens)

    def _compute(self, pack: Sequence[Job]) -> Tensor:
        """Compute packed new tokens; return the logits after each job's last token, (jobs, V)."""
        ids_N = torch.from_numpy(np.concatenate([job.ids for job in pack])).to(self.device)
        self.prefilled += len(ids_N)
        segments = [Segment(job.slot, job.start, len(job.ids)) for job in pack]
        plan = PrefillPlan(segments, self.dtype, self.device)
        return self.forward(ids_N, plan.positions_N, plan.ends_B, self.places.cache, plan)

    def decode(self, tokens_B: Tensor, positions_B: Tensor, lengths: Sequence[int], mask_BL: Tensor) -> Tensor:
        """Compute the next token of each row, of which row b stands in slot b; return its logits, (B, V).

        `mask_BL` hides what lies beyond the rows' `lengths`, in tokens.
        """
        plan = DecodePlan(positions_B, lengths, mask_BL)
        return self.forward(tokens_B, positions_B, plan.all_B, self.places.cache, plan)


def most_tokens(model: Any, gib: float | None) -> float:
    """Count the tokens whose keys and values fit a bound; without one, half of a GPU's free memory is the bound."""
    device = next(model.parameters()).device
    if gib is None and device.type != "cuda":
        return math.inf
    size = _free_memory(device) / 2 if gib is None else gib * 2**30
    return size // kv_bytes_per_token(model.config, model.dtype)


def _free_memory(device: torch.device) -> int:
    """Count a GPU's bytes that tensors can take, those that torch keeps for later included."""
    free: int = torch.cuda.mem_get_info(device)[0]
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def kv_bytes_per_token(config: Any, dtype: torch.dtype) -> int:
    """Bytes of one token's keys and values in all layers, and of the inputs of convolutions."""
    config = config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    convolutions = (getattr(config, "layer_types", None) or []).count("conv")
    values = 2 * (config.num_hidden_layers - convolutions) * heads * size + convolutions * config.hidden_size
    return int(values * dtype.itemsize)
