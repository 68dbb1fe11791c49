"""LoRA adapters, quantized layers, and what training leaves on a model."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, get_args

from agentgym_py.errors import ConfigError
from agentgym_py.policy.loading import Quantized
from agentgym_py.policy.quiet import ignore_checkpointing_warnings
from agentgym_py.registry import install_advice


def is_quantized(model: Any) -> bool:
    """Whether a model has weights that are not floating-point numbers."""
    return any(not parameter.is_floating_point() for parameter in model.parameters())


def require_bits(quantize: str | None) -> None:
    """Raise ConfigError if weights cannot be quantized to `quantize`; call it before a model is loaded."""
    if quantize is None:
        return
    if quantize not in get_args(Quantized):
        raise ConfigError(f"quantize must be one of {', '.join(get_args(Quantized))}, got {quantize!r}")
    if find_spec("bitsandbytes") is None:
        raise ConfigError(f"quantize {quantize} needs bitsandbytes: {install_advice('train,quantize')}")


def require_trainable(model: Any, lora_rank: int) -> None:
    """Raise ConfigError if all weights would be trained and some are quantized."""
    if not lora_rank and is_quantized(model):
        raise ConfigError("a quantized model trains only through adapters: set lora_rank above 0")


def input_hooks(model: Any) -> set[int]:
    """Return the forward hooks on a model's input embeddings, for `stop_recomputing`."""
    return set(model.get_input_embeddings()._forward_hooks)


def stop_recomputing(model: Any, before: set[int]) -> None:
    """Turn gradient checkpointing off and remove the hooks that were added since `before`."""
    if any(getattr(module, "gradient_checkpointing", False) for module in model.modules()):
        with ignore_checkpointing_warnings():
            model.gradient_checkpointing_disable()
    hooks = model.get_input_embeddings()._forward_hooks
    for key in hooks.keys() - before:
        del hooks[key]


def merge_adapters(model: Any) -> Any:
    """Merge a model's adapters into it.

    A quantized model is dequantized first, because its number format would round the adapters away.
    """
    if not is_quantized(model):
        return model.merge_and_unload()
    from peft import get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict

    settings, weights = model.peft_config["default"], get_peft_model_state_dict(model)
    plain = get_peft_model(model.unload().dequantize(), settings)
    set_peft_model_state_dict(plain, weights)
    return plain.merge_and_unload()


def lora_config(rank: int) -> Any:
    """Return the LoRA configuration for all linear layers, with alpha twice the rank."""
    from peft import LoraConfig

    return LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear")


def without_lm_head(model: Any) -> Any:
    """Return the model without its language-model head, but with its adapters."""
    return (model.get_base_model() if hasattr(model, "peft_config") else model).base_model


def add_adapters(model: Any, rank: int, seed: int) -> Any:
    """Return the model with new LoRA adapters, drawn by `seed`; None for rank 0."""
    if not rank:
        return None
    import torch
    from peft import get_peft_model

    with ignore_checkpointing_warnings(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return get_peft_model(model, lora_config(rank))
