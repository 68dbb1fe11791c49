"""A policy: a Hugging Face causal language model, its tokenizer and its chat format."""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, get_args

from agentgym_py.env.thoughts import split_thought
from agentgym_py.errors import ConfigError, PolicyError
from agentgym_py.files import load_json, require_ordinary
from agentgym_py.policy.adapters import (
    attach_adapters,
    base_parameters,
    cast_weights,
    dequantized_copy,
    has_adapters,
    is_quantized,
    merged_copy,
    require_bits,
    weight_sums,
    without_adapters,
)
from agentgym_py.policy.chat_format import ChatFormat, Fallback
from agentgym_py.policy.chat_template import Thinking, require_thinking
from agentgym_py.policy.loading import (
    DTYPES,
    Quantized,
    adapter_base,
    align,
    best_device,
    first_line,
    load_model,
    open_tokenizer,
    read_config,
    require_device,
    require_model,
    set_attention,
)
from agentgym_py.policy.quiet import ignore_checkpointing_warnings, without_progress_bars
from agentgym_py.policy.rope import fix_rope
from agentgym_py.policy.saving import AdapterBase, save_adapters, save_checkpoint
from agentgym_py.policy.vocabulary import limit_vocabulary, train_padding_row, vocab_size_of
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.few_shot import few_shot_messages

_DEFAULT_LENGTH = 4096
Overflow = Literal["error", "drop_oldest", "summarise"]
"""What an agent does with an episode that outgrows the context: give it up, leave out the earliest turns, or put a
summary that the model writes in their place; see `agents.context`."""


class Policy:
    """A model that acts: any causal language model that transformers loads, with its tokenizer."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        name: str,
        *,
        chat_format: Fallback | None = None,
        context: Overflow = "error",
        max_context: int | None = None,
        thinking: Thinking = "auto",
        chat_template_kwargs: Mapping[str, Any] | None = None,
        system_prompt: str | None = None,
        few_shot: Sequence[Trajectory] = (),
    ) -> None:
        limit_vocabulary(model, tokenizer, name)
        train_padding_row(model)
        self.model = model
        self.tokenizer = tokenizer
        self.name = name
        self.context = context
        """What its agents do with an episode that outgrows the context."""
        self.max_context = max_context
        """Largest number of tokens to use of the model's context; None uses all."""
        _require_context(max_context, _context_length(model.config))
        fix_rope(model, self.max_length)
        self.chat = ChatFormat(
            tokenizer, fallback=chat_format, thinking=thinking, template_kwargs=chat_template_kwargs,
            system_prompt=system_prompt, few_shot=few_shot_messages(few_shot),
        )  # fmt: skip
        self._stored: tuple[str, list[int]] | None = None
        self._masters: Mapping[str, Any] = {}
        self._digests: dict[str, tuple[Any, str]] = {}
        """By what they are of: what identifies the weights, and their digest."""

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
        thinking: Thinking = "auto",
        chat_template_kwargs: Mapping[str, Any] | None = None,
        base: str | None = None,
        max_context: int | None = None,
        attn_implementation: str | None = None,
        system_prompt: str | None = None,
        few_shot: Sequence[Trajectory] = (),
    ) -> Policy:
        """Load one of `BASES`, `tiny-random` (from `seed`), `smollm2`, a folder, or a model of the hub.

        A folder of adapters is opened with the model that they name, or with `base`; they stay apart from its weights.
        `base` must have the weights that they were trained on; other folders have no `base`.

        `device` defaults to the GPU if there is one. `chat_format` is for a tokenizer whose own template is missing or
        unfit; `save` keeps it. `quantize` keeps the linear layers' weights in 8 or 4 bits (bitsandbytes): only adapters
        can then be trained, and `dtype` is the format that the layers compute in. `context` says what happens to an
        episode that outgrows the context: see `Overflow`. `max_context` limits the context to this number of tokens,
        because the memory of playing and training grows with it. `thinking` and `chat_template_kwargs` are settings of
        the chat template (see `ChatFormat`), which `save` keeps. So are `system_prompt` and `few_shot`, episodes that
        stand as examples before each conversation.
        `attn_implementation` is transformers' attention for training, such as `sdpa` or `flash_attention_2`; the engine
        has its own.
        """
        name = os.fspath(name_or_path)
        if context not in get_args(Overflow):
            raise ConfigError(f"context must be one of {', '.join(get_args(Overflow))}, got {context!r}")
        if dtype not in DTYPES:
            raise ConfigError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
        require_thinking(thinking)
        require_bits(quantize)
        adapted = adapter_base(name, base)
        require_model(base or name)
        place = require_device(device or best_device())
        plain = adapted.name if adapted else name
        model, tokenizer = _load_plain(plain, dtype, seed, quantize, place, attn_implementation)
        sums = weight_sums(model.parameters())
        if adapted:
            model, tokenizer = _with_adapters(model, tokenizer, adapted, name)
        policy = cls(
            model, tokenizer, name, chat_format=chat_format, context=context, max_context=max_context,
            thinking=thinking, chat_template_kwargs=chat_template_kwargs, system_prompt=system_prompt,
            few_shot=few_shot,
        )  # fmt: skip
        if plain != "tiny-random":
            policy._stored = (str(Path(plain).resolve()) if Path(plain).is_dir() else plain, sums)
        return policy

    def __repr__(self) -> str:
        return f"<Policy {self.name!r}: {self.num_parameters:,} parameters, {self.model.dtype}, {self.model.device}>"

    @property
    def num_parameters(self) -> int:
        """Number of weights; tied weights count once."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    @property
    def learning_rate_scale(self) -> float:
        """Factor of the default learning rates, above 0 and at most 1, which the model's config may name.

        A base that has read much forgets by steps that suit one that has not.

        Raises:
            PolicyError: the config names no such number.
        """
        scale = getattr(self.model.config, "learning_rate_scale", 1.0)
        if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0 < scale <= 1:
            raise PolicyError(
                f"learning_rate_scale in the config of {self.name} must be above 0 and at most 1, got {scale!r:.80}"
            )
        return float(scale)

    @property
    def max_length(self) -> int:
        """The longest context, in tokens: the model's, or `max_context`."""
        return self.max_context or _context_length(self.model.config)

    @property
    def vocab_size(self) -> int:
        """Number of rows of the head that a reply is sampled from: the tokens, without the rows that only pad it."""
        size = vocab_size_of(self.model)
        assert size is not None
        return size

    @property
    def ends(self) -> frozenset[int]:
        """The tokens that end a reply: the end of turn, the tokenizer's end of sequence, the generation config's."""
        named = getattr(getattr(self.model, "generation_config", None), "eos_token_id", None)
        named = named if isinstance(named, list) else [named]
        return frozenset({self.chat.end_of_turn, self.tokenizer.eos_token_id, *named} - {None})

    def decode(self, ids: Sequence[int]) -> str:
        """Text of a reply, without special tokens other than those around a thought."""
        return self.chat.decode(ids)

    def answer(self, ids: Sequence[int]) -> str:
        """Text of a reply that is no action, such as a summary, without its thought."""
        return split_thought(self.chat.opened + self.decode(ids))[1].strip()

    def digest(self) -> str:
        """Return the SHA-256 over names, types, shapes and bytes of all parameters, adapters included.

        It is computed once for the same weights, because hashing a large model takes long.
        """
        return self._digest_once("all", self.model.named_parameters())

    def _digest_once(self, which: str, parameters: Iterable[tuple[str, Any]]) -> str:
        named = list(parameters)
        versions = [0 if p.is_inference() else p._version for _, p in named]
        key = [name for name, _ in named], versions, weight_sums(p for _, p in named)
        if which not in self._digests or self._digests[which][0] != key:
            self._digests[which] = key, _digest(named)
        return self._digests[which][1]

    def is_finite(self) -> bool:
        """Whether all weights are finite; those of 8 bits and fewer are not checked."""
        checkable = (p for p in self.model.parameters() if p.is_floating_point() and p.element_size() > 1)
        return all(bool(parameter.isfinite().all()) for parameter in checkable)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write a checkpoint, completely or not at all; it replaces an older checkpoint, and nothing else.

        After a training of all weights in bfloat16 it holds the float32 master weights.

        Adapters are written as adapters, with the name of their base or its relative path. A base that is stored
        nowhere else is written into the folder `base`. `merged` makes a policy of ordinary weights to save.

        Raises:
            PolicyError: `folder` is a file, or holds something other than a checkpoint.
            RunError: it cannot be written; the folder is unchanged.
        """
        target = Path(folder)
        if not has_adapters(self.model):
            model = merged_copy(self.model) if is_quantized(self.model) else self.model
            return save_checkpoint(model, self.tokenizer, target, self._master_state())
        digest = self._digest_once("base", base_parameters(self.model))
        base = AdapterBase(self._base_outside(target), _format_of(self.model), digest)
        plain = None if base.name else without_adapters(self.model)
        return save_adapters(self.model, self.tokenizer, target, base, plain)

    def _base_outside(self, target: Path) -> str:
        """Return the name of the base if it is stored and outlives a replaced `target`; else an empty string."""
        if self._stored is None:
            return ""
        name, sums = self._stored
        parameters = [parameter for _, parameter in base_parameters(self.model)]
        replaced = Path(name).is_dir() and Path(name).is_relative_to(target.resolve())
        return "" if replaced or weight_sums(parameters) != sums else name

    # ---- float32 master weights ----------------------------------------------------------------------------------

    def load_masters(self, needed: bool = True) -> dict[int, Any]:
        """Return float32 weights that may round to the model's, by the id of the weight; none if it is in float32.

        They are those of the last training, or else those of the file that the model was loaded from.
        """
        import torch

        if not needed or self.model.dtype != torch.bfloat16 or is_quantized(self.model) or has_adapters(self.model):
            return {}
        masters = self._masters
        if not masters and self._stored and weight_sums(self.model.parameters()) == self._stored[1]:
            with without_progress_bars():
                masters = dict(load_model(self._stored[0], "float32", 0, None, None)[0].named_parameters())
        return {id(p): masters[name] for name, p in self.model.named_parameters() if name in masters}

    def keep_masters(self, masters: Mapping[str, Any]) -> None:
        """Keep the float32 weights of a training in the CPU's memory, for the next one and for `save`."""
        self._masters = {name: master.detach().to("cpu", copy=True) for name, master in masters.items()}

    def forget_files(self) -> None:
        """Keep in memory what is read from the model's files later; call it if they will be deleted."""
        masters = self.load_masters()
        self.keep_masters({name: masters[id(p)] for name, p in self.model.named_parameters() if id(p) in masters})
        self._stored = None

    def merge_adapters(self) -> None:
        """Merge the adapters into the model; what its number format rounds away is kept in master weights."""
        dtype, self.model, self._stored = self.model.dtype, merged_copy(self.model), None
        if self.model.dtype != dtype:
            self.keep_masters(dict(self.model.named_parameters()))
            cast_weights(self.model, dtype)

    def _master_state(self) -> dict[str, Any] | None:
        """Return the state dict of the master weights; None if there are none, or the model was changed since."""
        weights = dict(self.model.named_parameters())
        if not self._masters or any(
            name not in weights or not self._masters[name].to(weights[name].dtype).equal(weights[name].detach().cpu())
            for name in self._masters
        ):
            return None
        masters = {id(weights[name]): master for name, master in self._masters.items()}
        state = self.model.state_dict(keep_vars=True)
        return {name: masters.get(id(tensor), tensor.detach()) for name, tensor in state.items()}

    # ---- copies --------------------------------------------------------------------------------------------------

    def merged(self, dtype: Any = None) -> Policy:
        """Return this policy without adapters and quantized layers, a copy if it has any.

        Adapters are merged in float32, which rounds nothing away. `dtype` is the copy's number format in the end.
        """
        if not has_adapters(self.model) and not is_quantized(self.model):
            return self
        policy = copy.copy(self)
        policy.model, policy._stored, policy._masters, policy._digests = merged_copy(self.model), None, {}, {}
        if dtype is not None:
            policy.model = policy.model.to(dtype)
        return policy

    def __reduce__(self) -> tuple[Any, ...]:
        """Send weights and settings to another process; the hooks that libraries put on a model cannot be pickled."""
        model = dequantized_copy(self.model) if is_quantized(self.model) else self.model
        adapters = model.peft_config["default"] if has_adapters(model) else None
        config, ends = model.config, getattr(model, "generation_config", None)
        place = (config, ends, str(model.dtype).removeprefix("torch."), str(model.device))
        settings = {name: vars(self)[name] for name in ("tokenizer", "name", "chat", "context", "max_context")}
        return _rebuild, (*place, adapters, model.state_dict(), settings)

    def __deepcopy__(self, memo: dict[int, Any]) -> Policy:
        """Copy the policy in this process, with adapters and hooks."""
        copied = object.__new__(type(self))
        vars(copied).update(copy.deepcopy(vars(self), memo))
        return copied


def require_reader(folder: Path, policy: Policy, what: str, about: Path | None = None) -> None:
    """Require that a model, which `what` names, has the policy's tokens and a context as long; no weights are loaded.

    `about` is a JSON file that may name the model's `max_context`.

    Raises:
        ConfigError: the model cannot read what the policy writes.
        PolicyError: the folder holds no tokenizer or no configuration.
    """
    kwargs: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        require_ordinary(folder)
        tokenizer = open_tokenizer(str(folder), **kwargs)
        adapted = adapter_base(str(folder))
        config = read_config(adapted.name if adapted else str(folder), **kwargs)
        max_context = stored_max_context(load_json(about)) if about else None
    except Exception as error:  # as in `_open`
        raise PolicyError(f"{what} does not open: {first_line(error)}") from error
    if tokenizer.get_vocab() != policy.tokenizer.get_vocab():
        raise ConfigError(f"{what} has other tokens than the policy")
    if (length := max_context or _context_length(config)) < policy.max_length:
        raise ConfigError(f"{what} reads {length} tokens at most, the policy {policy.max_length}")


def stored_max_context(about: Mapping[str, Any]) -> int | None:
    """Return the `max_context` in a model's JSON file; ValueError unless it is null or an integer above 0."""
    max_context = about.get("max_context")
    if max_context is not None and (type(max_context) is not int or max_context < 1):
        raise ValueError(f"its max_context is {max_context!r:.60}, not a whole number of at least 1")
    return max_context


def _load_plain(
    name: str, dtype: str, seed: int, quantize: Quantized | None, place: str, attention: str | None
) -> tuple[Any, Any]:
    """Load a model without adapters onto a device, and its tokenizer."""
    with without_progress_bars():
        model, tokenizer = load_model(name, dtype, seed, quantize, place)
    model = (model if quantize else model.to(place)).eval()
    align(model)
    if attention is not None:
        set_attention(model, attention)
    if quantize:
        _run_once(model, f"the model {name!r} does not compute in {quantize} on {place}")
    return model, tokenizer


def _with_adapters(model: Any, tokenizer: Any, base: AdapterBase, folder: str) -> tuple[Any, Any]:
    """Attach the adapters in a folder to their base; return the model, and the tokenizer that they were trained with.

    Raises:
        PolicyError: the model is another one than that of which they are adapters.
    """
    digest = _digest(model.named_parameters()) if base.format == _format_of(model) else base.digest
    adapted = attach_adapters(model, Path(folder)).eval()
    if digest != base.digest:
        raise PolicyError(f"the base {base.name!r} has other weights than the adapters in {folder!r} were trained on")
    return adapted, _own_tokenizer(Path(folder)) or tokenizer


def _own_tokenizer(folder: Path) -> Any:
    """Return the tokenizer in a folder of adapters; None if it is the base model's."""
    if not (folder / "tokenizer_config.json").is_file():
        return None
    try:
        return open_tokenizer(str(folder), local_files_only=True, trust_remote_code=False)
    except Exception as error:  # as in `require_reader`
        raise PolicyError(f"the tokenizer in {folder} does not open: {first_line(error)}") from error


def _digest(parameters: Iterable[tuple[str, Any]]) -> str:
    import torch

    total = hashlib.sha256()
    for name, parameter in sorted(parameters, key=itemgetter(0)):
        tensor = parameter.detach().cpu().contiguous()
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        total.update(memoryview(tensor.reshape(-1).view(torch.uint8).numpy()))
    return total.hexdigest()


def _format_of(model: Any) -> str:
    """Describe the number format of a model's weights without its adapters."""
    return ", ".join(sorted({str(parameter.dtype) for _, parameter in base_parameters(model)}))


def _require_context(max_context: int | None, length: int) -> None:
    if max_context is not None and not 1 <= max_context <= length:
        raise ConfigError(f"max_context must be between 1 and the model's {length} tokens, got {max_context}")


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
    config: Any, generation_config: Any, dtype: str, device: str, adapters: Any, weights: Any,
    settings: Mapping[str, Any],
) -> Policy:  # fmt: skip
    """Rebuild the policy that `Policy.__reduce__` took apart."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype))
    model.generation_config = generation_config
    if adapters is not None:
        from peft import get_peft_model

        with ignore_checkpointing_warnings():
            model = get_peft_model(model, adapters)
    model.load_state_dict(weights)
    limit_vocabulary(model, settings["tokenizer"], settings["name"])
    train_padding_row(model)
    policy = object.__new__(Policy)
    vars(policy).update(settings, model=model.to(device).eval(), _stored=None, _masters={}, _digests={})
    fix_rope(model, policy.max_length)
    return policy
