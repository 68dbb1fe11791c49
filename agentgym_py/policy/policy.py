"""A policy: a Hugging Face causal language model, its tokenizer and its chat format."""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from agentgym_py.errors import ConfigError, PolicyError
from agentgym_py.policy.adapters import is_quantized, merge_adapters, require_bits
from agentgym_py.policy.chat_format import ChatFormat, Fallback
from agentgym_py.policy.loading import (
    DTYPES,
    Quantized,
    best_device,
    first_line,
    load_model,
    require_device,
    require_model,
)
from agentgym_py.policy.quiet import without_progress_bars
from agentgym_py.policy.saving import save_checkpoint

_DEFAULT_LENGTH = 4096
Overflow = Literal["error", "drop_oldest", "summarise"]
"""What an agent does with an episode that outgrows the context: give it up, leave out the earliest turns, or put a
summary that the model writes in their place; see `agents.context`."""


class Policy:
    """A model that acts: any causal language model that transformers loads, with its tokenizer."""

    def __init__(
        self, model: Any, tokenizer: Any, name: str, *, chat_format: Fallback | None = None, context: Overflow = "error"
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.name = name
        self.context = context
        """What its agents do with an episode that outgrows the context."""
        self.chat = ChatFormat(tokenizer, fallback=chat_format)

    @classmethod
    def load(
        cls,
        name_or_path: str | os.PathLike[str],
        *,
        seed: int = 0,
        dtype: str = "float32",
        device: str | None = None,
        chat_format: Fallback | None = None,
        quantize: Quantized | None = None,
        context: Overflow = "error",
    ) -> Policy:
        """Load `tiny`, `tiny-random` (from `seed`), `smollm2`, a folder, or a model of the hub.

        `device` defaults to the GPU if there is one. `chat_format` is for a tokenizer whose own template is missing or
        unfit; `save` keeps it. `quantize` keeps the linear layers' weights in 8 or 4 bits (bitsandbytes): only adapters
        can then be trained, and `dtype` is the format that the layers compute in. `context` says what happens to an
        episode that outgrows the context: see `Overflow`.
        """
        name = os.fspath(name_or_path)
        if context not in get_args(Overflow):
            raise ConfigError(f"context must be one of {', '.join(get_args(Overflow))}, got {context!r}")
        if dtype not in DTYPES:
            raise ConfigError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
        require_bits(quantize)
        require_model(name)
        place = require_device(device or best_device())
        with without_progress_bars():
            model, tokenizer = load_model(name, dtype, seed, quantize, place)
        model = (model if quantize else model.to(place)).eval()
        if quantize:
            _run_once(model, f"the model {name!r} does not compute in {quantize} on {place}")
        return cls(model, tokenizer, name, chat_format=chat_format, context=context)

    def __repr__(self) -> str:
        return f"<Policy {self.name!r}: {self.num_parameters:,} parameters, {self.model.dtype}, {self.model.device}>"

    @property
    def num_parameters(self) -> int:
        """Number of weights; tied weights count once."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    @property
    def max_length(self) -> int:
        """The longest context, in tokens, that the model supports."""
        return _context_length(self.model.config)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of a reply, without special tokens."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))

    def digest(self) -> str:
        """Return the SHA-256 over names, types, shapes and bytes of all parameters, LoRA's included."""
        import torch

        total = hashlib.sha256()
        for name, parameter in sorted(self.model.named_parameters()):
            tensor = parameter.detach().cpu().contiguous()
            total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            total.update(memoryview(tensor.reshape(-1).view(torch.uint8).numpy()))
        return total.hexdigest()

    def is_finite(self) -> bool:
        """Whether all weights are finite; those of 8 bits and fewer are not checked."""
        checkable = (p for p in self.model.parameters() if p.is_floating_point() and p.element_size() > 1)
        return all(bool(parameter.isfinite().all()) for parameter in checkable)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write an ordinary checkpoint (safetensors, tokenizer) with LoRA adapters merged in, completely or not at all.

        It replaces an older checkpoint, and nothing else.

        Raises:
            PolicyError: `folder` is a file, or holds something other than a checkpoint.
            RunError: it cannot be written; the folder is unchanged.
        """
        save_checkpoint(self._merged(), self.tokenizer, Path(folder))

    def __reduce__(self) -> tuple[Any, ...]:
        """Send weights and settings to another process; the hooks that libraries put on a model cannot be pickled."""
        model = self._merged()
        place = (model.config, str(model.dtype).removeprefix("torch."), str(model.device))
        return _rebuild, (*place, model.state_dict(), self.tokenizer, self.name, self.chat, self.context)

    def __deepcopy__(self, memo: dict[int, Any]) -> Policy:
        """Copy the policy in this process, with adapters and hooks."""
        copied = object.__new__(type(self))
        vars(copied).update(copy.deepcopy(vars(self), memo))
        return copied

    def _merged(self) -> Any:
        adapted = hasattr(self.model, "peft_config")
        if not adapted and not is_quantized(self.model):
            return self.model
        model = copy.deepcopy(self.model)
        return merge_adapters(model) if adapted else model.dequantize()


def require_reader(folder: Path, policy: Policy, what: str) -> None:
    """Require that a model, which `what` names, has the policy's tokens and a context as long; no weights are loaded.

    Raises:
        ConfigError: the model cannot read what the policy writes.
        PolicyError: the folder holds no tokenizer or no configuration.
    """
    from transformers import AutoConfig, AutoTokenizer

    kwargs = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), **kwargs)
        config = AutoConfig.from_pretrained(str(folder), **kwargs)
    except Exception as error:  # as in `_open`
        raise PolicyError(f"{what} does not open: {first_line(error)}") from error
    if tokenizer.get_vocab() != policy.tokenizer.get_vocab():
        raise ConfigError(f"{what} has other tokens than the policy")
    if (length := _context_length(config)) < policy.max_length:
        raise ConfigError(f"{what} reads {length} tokens at most, the policy {policy.max_length}")


def _context_length(config: Any) -> int:
    return int(getattr(config.get_text_config(), "max_position_embeddings", None) or _DEFAULT_LENGTH)


def _run_once(model: Any, failed: str) -> None:
    """Run a quantized model once.

    On a CPU bitsandbytes lays its weights out in the first forward pass, which changes the digest.
    """
    import torch

    try:
        with torch.no_grad():
            model(input_ids=torch.zeros(1, 1, dtype=torch.long, device=model.device))
    except (AssertionError, RuntimeError) as error:  # layers of sizes without a layout
        raise PolicyError(f"{failed}: {first_line(error)}") from error


def _rebuild(
    config: Any, dtype: str, device: str, weights: Any, tokenizer: Any, name: str, chat: ChatFormat, context: Overflow
) -> Policy:
    """Rebuild the policy that `Policy.__reduce__` took apart."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype))
    model.load_state_dict(weights)
    policy = object.__new__(Policy)
    policy.model, policy.tokenizer, policy.name, policy.chat = model.to(device).eval(), tokenizer, name, chat
    policy.context = context
    return policy
