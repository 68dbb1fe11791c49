"""LoRA adapters, quantized layers, and what training leaves on a model.

A policy keeps its adapters apart from the weights that they adapt: adding them up in bfloat16 would round most of a
short training away. They are merged, in float32, only for a reader that knows no adapters.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

from agentgym_py.errors import ConfigError, PolicyError
from agentgym_py.policy.loading import Quantized, first_line
from agentgym_py.policy.patterns import require_quick_patterns
from agentgym_py.policy.quiet import ignore_checkpointing_warnings
from agentgym_py.registry import install_advice

_NAME = "default"
"""PEFT's name for the only adapters of a model; it stands in the name of each of their parameters."""
_WRAPPED = re.compile(r"\.(base_layer|original_module|token_adapter)(?=\.)")
"""What PEFT puts into the name of a parameter that it wraps."""
LEAST_KEPT = 0.5
"""Share of what adapters change that a number format must keep to hold them merged."""
_INT_DTYPES = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}


def is_quantized(model: Any) -> bool:
    """Whether a model has weights that are not floating-point numbers."""
    return any(not parameter.is_floating_point() for parameter in model.parameters())


def quantization_of(model: Any) -> Quantized | None:
    """Return the bits that bitsandbytes keeps a model's weights in; None if they are ordinary numbers."""
    if getattr(model, "is_loaded_in_8bit", False):
        return "8bit"
    return "4bit" if getattr(model, "is_loaded_in_4bit", False) else None


def has_adapters(model: Any) -> bool:
    """Whether a model is a PEFT model."""
    return hasattr(model, "peft_config")


def require_bits(quantize: str | None) -> None:
    """Raise ConfigError if weights cannot be quantized to `quantize`; call it before a model is loaded."""
    if quantize is None:
        return
    if quantize not in get_args(Quantized):
        raise ConfigError(f"quantize must be one of {', '.join(get_args(Quantized))}, got {quantize!r}")
    if find_spec("bitsandbytes") is None:
        raise ConfigError(f"quantize {quantize} needs bitsandbytes: {install_advice('train,quantize')}")


def require_trainable(model: Any, lora_rank: int) -> None:
    """Raise ConfigError if all weights would be trained and some are quantized, or if the model is in float16."""
    import torch

    if model.dtype == torch.float16:
        raise ConfigError("float16 does not train, because gradients underflow in it: set dtype bfloat16 or float32")
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


# ---- merging ---------------------------------------------------------------------------------------------------------


def merged_copy(model: Any) -> Any:
    """Return an ordinary copy of a model, its adapters merged in float32 and its quantized layers dequantized.

    It is in float32, or in the wider format of the model.

    Raises:
        PolicyError: the adapters change one of two tied weights, and merging them would change both; or they do not
            merge.
    """
    import torch

    _require_mergeable(model)
    copied = dequantized_copy(model) if is_quantized(model) else copy.deepcopy(model)
    if torch.finfo(copied.dtype).bits < 32:
        copied = copied.float()
    if has_adapters(copied):
        try:
            copied = copied.merge_and_unload()
        except Exception as error:  # PEFT raises whatever a stranger's settings make it raise
            raise PolicyError(f"the adapters do not merge: {first_line(error)}") from error
    return copied.requires_grad_(True)


def _require_mergeable(model: Any) -> None:
    if not has_adapters(model) or not model.config.get_text_config().tie_word_embeddings:
        return
    from peft.tuners.tuners_utils import BaseTunerLayer

    ends = model.get_input_embeddings(), model.get_output_embeddings()
    if any(isinstance(module, BaseTunerLayer) for module in ends):
        raise PolicyError(
            "adapters on the embeddings or the head do not merge, because the model ties the two: train adapters on "
            "other layers"
        )


def dequantized_copy(model: Any) -> Any:
    """Return a copy of a quantized model with ordinary weights and the same adapters, if it has any."""
    copied = copy.deepcopy(model)
    if not has_adapters(copied):
        return copied.dequantize()
    from peft import get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict

    settings, weights = copied.peft_config[_NAME], get_peft_model_state_dict(copied)
    plain = get_peft_model(copied.unload().dequantize(), settings)
    set_peft_model_state_dict(plain, weights)
    return plain


def without_adapters(model: Any) -> Any:
    """Return a copy of the base of a PEFT model, with ordinary weights."""
    copied = dequantized_copy(model) if is_quantized(model) else copy.deepcopy(model)
    base, config = dict(base_parameters(copied)), copied.config.get_text_config()
    tied, plain = config.tie_word_embeddings, copied.unload()
    for name, parameter in plain.named_parameters():  # PEFT leaves modules that were trained whole as trained
        if name in base:
            parameter.data = base[name].data
    config.tie_word_embeddings = tied
    plain.tie_weights()
    return plain


def cast_weights(model: Any, dtype: Any) -> Any:
    """Convert a model's parameters, and not its buffers, which are float32 in any format."""
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    return model


def frozen_copy(model: Any, *, share_base: bool = False) -> Any:
    """Return a copy that no training changes; `share_base`: its weights, other than adapters, are the model's own."""
    shared = dict(base_parameters(model)).values() if share_base else ()
    copied = copy.deepcopy(model, {id(parameter): parameter for parameter in shared})
    return copied.requires_grad_(False)


# ---- adding ----------------------------------------------------------------------------------------------------------


def lora_config(
    rank: int, alpha: int | None = None, dropout: float = 0.0, target_modules: str | Sequence[str] = "all-linear"
) -> Any:
    """Return the LoRA configuration, by default for all linear layers, with alpha twice the rank."""
    from peft import LoraConfig

    modules = target_modules if isinstance(target_modules, str) else list(target_modules)
    return LoraConfig(r=rank, lora_alpha=alpha or 2 * rank, lora_dropout=dropout, target_modules=modules)


def without_lm_head(model: Any) -> Any:
    """Return the model without its language-model head, but with its adapters."""
    return (model.get_base_model() if has_adapters(model) else model).base_model


def add_adapters(model: Any, rank: int, seed: int, **settings: Any) -> Any:
    """Return a model whose adapters alone are trained.

    Adapters of the same rank on the same layers are trained further. Others are merged first, and new ones are drawn by
    `seed`. `settings` are further arguments of `lora_config`.

    Raises:
        ConfigError: the model has none of the layers.
    """
    import torch
    from peft import get_peft_model

    wanted = lora_config(rank, **settings)
    if has_adapters(model):
        if _match(model, wanted):
            for name, parameter in model.named_parameters():
                parameter.requires_grad_(_is_adapter(name))
            model.peft_config[_NAME].inference_mode = False
            return model
        model = _merged_base(model, rank)
    with ignore_checkpointing_warnings(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            adapted = get_peft_model(model, wanted)
        except ValueError as error:  # PEFT names the layers that it does not find
            raise ConfigError(f"lora_target_modules: {first_line(error)}") from error
    _warn_of_fused_experts(adapted)
    return adapted


def _warn_of_fused_experts(model: Any) -> None:
    """Warn if layers of experts get no adapters: transformers holds the weights of all experts in one tensor."""
    fused = [(name, p) for name, p in base_parameters(model) if p.dim() > 2 and "experts" in name]
    if fused:
        share = sum(p.numel() for _, p in fused) / sum(p.numel() for _, p in base_parameters(model))
        warnings.warn(
            f"adapters do not change {share:.0%} of the weights of {type(model.get_base_model()).__name__}: they are "
            "on linear layers, and its experts are tensors of all experts; without lora_rank all weights are trained",
            stacklevel=3,
        )


def _merged_base(model: Any, rank: int) -> Any:
    """Return a model with its adapters merged, in its number format.

    Raises:
        ConfigError: the weights are quantized, or the format would round more than half of the adapters' change away.
    """
    import torch

    settings = model.peft_config[_NAME]
    kind = settings.peft_type.value + (f" of rank {settings.r}" if hasattr(settings, "r") else "")
    own = f"its adapters are {kind} or on other layers, and lora_rank is {rank}"
    if is_quantized(model):
        raise ConfigError(f"adapters are not merged into quantized weights, and {own}: train them further")
    merged = merged_copy(model)
    if merged.dtype != model.dtype:
        if (kept := kept_share(model, merged, model.dtype)) < LEAST_KEPT:
            raise ConfigError(
                f"{own}: merging them into {str(model.dtype).removeprefix('torch.')} would keep {100 * kept:.0f} % of "
                "what they learnt; train them further, or use dtype float32 or lora_rank 0"
            )
        merged = cast_weights(merged, model.dtype)
    assert isinstance(merged, torch.nn.Module)
    return merged


def kept_share(adapted: Any, merged: Any, dtype: Any) -> float:
    """Return how much of what a model's adapters change is left when the merged weights are rounded to a format."""
    base, kept, changed = dict(base_parameters(adapted)), 0.0, 0.0
    head = adapted.get_output_embeddings().weight  # merging adapters on tied embeddings may untie them
    for name, parameter in merged.named_parameters():
        before = base.get(name, head).detach().to(parameter.dtype)
        whole = parameter.detach()
        kept += float(((whole - before) * (whole.to(dtype).to(whole.dtype) - before)).sum())
        changed += float((whole - before).square().sum())
    return kept / changed if changed else 1.0


def _match(model: Any, wanted: Any) -> bool:
    """Whether a model's adapters are those of a configuration."""
    from peft.tuners.lora import LoraLayer
    from torch import nn

    settings = model.peft_config[_NAME]
    same = ("peft_type", "r", "lora_alpha", "lora_dropout", "bias", "use_rslora", "use_dora", "modules_to_save")
    if any(getattr(settings, name, None) != getattr(wanted, name) for name in same):
        return False
    if wanted.target_modules != "all-linear":
        return bool(settings.target_modules == wanted.target_modules)
    base, head = model.get_base_model(), model.get_base_model().get_output_embeddings()
    inside = {id(part) for layer in base.modules() if isinstance(layer, LoraLayer) for part in layer.modules()}
    linear = [module for module in base.modules() if isinstance(module, nn.Linear) and module is not head]
    return all(id(module) in inside for module in linear) and id(head) not in inside


# ---- their base ------------------------------------------------------------------------------------------------------


def _is_adapter(name: str) -> bool:
    return _NAME in name.split(".")


def base_parameters(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and parameters that a model has without its adapters."""
    if not has_adapters(model):
        yield from model.named_parameters()
        return
    for name, parameter in model.named_parameters():
        if not _is_adapter(name):
            yield _WRAPPED.sub("", name.removeprefix("base_model.model.")), parameter


def weight_sums(parameters: Any) -> list[int]:
    """Sum the bits of each parameter: any training changes the sum, however it writes.

    torch's version counter misses some writes. Values that only change places within a parameter are not noticed.
    """
    import torch

    with torch.no_grad():
        return torch.stack([_words(parameter).sum(dtype=torch.int64) for parameter in parameters]).tolist()


def _words(tensor: Any) -> Any:
    """View a tensor's memory as integers, of 8 bytes if they fit, because those are summed fastest."""
    import torch

    flat = tensor.contiguous().view(-1)
    size = flat.element_size()
    even = flat.nbytes % 8 == 0 and int(flat.storage_offset()) * size % 8 == 0
    return flat.view(torch.int64 if even else getattr(torch, _INT_DTYPES[size]))


def attach_adapters(model: Any, folder: Path) -> Any:
    """Return the model with the adapters of a folder that PEFT, trl or `Policy.save` wrote; they stay in float32.

    Raises:
        PolicyError: they do not fit the model, lack weights, are prompts, or name other adapters.
    """
    from peft import PeftConfig, PeftModel

    try:
        settings = PeftConfig.from_pretrained(str(folder), local_files_only=True)
        if settings.is_prompt_learning:
            raise PolicyError(f"the adapters in {folder} are prompts ({settings.peft_type.value}), which do not merge")
        if hasattr(settings, "adapters"):  # PEFT would fetch them from the hub
            raise PolicyError(f"the adapters in {folder} name other adapters ({settings.peft_type.value})")
        if not (folder / "adapter_model.safetensors").is_file():
            raise PolicyError(f"the adapters in {folder} have no adapter_model.safetensors; other formats are not read")
        require_quick_patterns(settings, [name for name, _ in model.named_modules()])
        _require_ranks(settings, folder / "adapter_model.safetensors")
        with ignore_checkpointing_warnings(), warnings.catch_warnings():
            warnings.filterwarnings("error", "Found missing adapter keys")  # they would be random, or do nothing
            _resize_embeddings(model, folder / "adapter_model.safetensors")
            return PeftModel.from_pretrained(model, str(folder), local_files_only=True)
    except PolicyError:
        raise
    except Exception as error:  # PEFT raises whatever its files make it raise
        raise PolicyError(f"the adapters in {folder} do not fit their base model: {first_line(error)}") from error


def _require_ranks(settings: Any, file: Path) -> None:
    """Require that no rank is above all sizes of the stored weights: PEFT makes weights of it before it reads them."""
    from safetensors import safe_open

    with safe_open(file, framework="pt") as stored:
        shapes = [stored.get_slice(key).get_shape() for key in stored.keys()]  # noqa: SIM118
    most = max((size for shape in shapes if 0 not in shape for size in shape), default=0)
    ranks = [getattr(settings, name, None) for name in ("r", "init_r", "target_r")]
    ranks += (getattr(settings, "rank_pattern", None) or {}).values()
    if wrong := [rank for rank in ranks if isinstance(rank, int) and rank > most]:
        raise PolicyError(f"the adapters in {file.parent} are of rank {max(wrong)}, and their weights are smaller")


def _resize_embeddings(model: Any, file: Path) -> None:
    """Give a model as many embeddings as were trained beside its adapters, because tokens had been added."""
    from safetensors import safe_open

    embeddings = model.get_input_embeddings()
    key = next(f"base_model.model.{name}.weight" for name, module in model.named_modules() if module is embeddings)
    with safe_open(file, framework="pt") as stored:
        if key in set(stored.keys()) and (rows := stored.get_slice(key).get_shape()[0]) != embeddings.weight.shape[0]:
            model.resize_token_embeddings(rows, mean_resizing=False)
