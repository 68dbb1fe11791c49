"""Miniatures of model families: random weights, the family's configuration and chat template, a tokenizer of bytes.

The tokenizer has a family's added tokens as its real one has them, special or not; a model has at most 100,000 weights.
Chat templates come with trl.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym_py.policy import Policy


@dataclass(frozen=True, slots=True)
class Family:
    """What makes the models of a family different from others."""

    name: str
    config: str
    """Name of the configuration class in transformers, without `Config`."""
    template: str
    """Name of a chat template of trl's, or the template itself."""
    special: tuple[str, ...]
    """Added tokens that are special, in the order of their ids."""
    plain: tuple[str, ...] = ()
    """Added tokens that are not special: ordinary text with an id of its own."""
    bos: str | None = None
    eos: str | None = None
    pad: str | None = None
    ends: tuple[str, ...] = ()
    """The ends of sequence in its generation configuration."""
    padding_rows: int = 0
    """Rows of the head behind the last token."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Further values of its configuration."""


FAMILIES = {
    family.name: family
    for family in (
        Family(
            "qwen2.5", "Qwen2", "qwen2_5",
            special=("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|vision_start|>"),
            plain=("<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|repo_name|>"),
            eos="<|im_end|>", pad="<|endoftext|>", ends=("<|im_end|>", "<|endoftext|>"), padding_rows=64,
            settings={"tie_word_embeddings": True, "use_sliding_window": False, "sliding_window": 131_072},
        ),
    )
}  # fmt: skip
"""Every family by name."""


def miniature(name: str, dtype: str = "float32", **settings: Any) -> Policy:
    """Build a family's miniature; `settings` are those of `Policy`."""
    import torch

    family = FAMILIES[name]
    tokenizer = build_tokenizer(family)
    return Policy(build_model(family, tokenizer).to(getattr(torch, dtype)), tokenizer, name, **settings)


def build_tokenizer(family: Family) -> Any:
    """Build a tokenizer of bytes with the family's added tokens and chat template."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    made.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in family.special])
    made.add_tokens([AddedToken(token, special=False, normalized=False) for token in family.plain])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token=family.bos, eos_token=family.eos, pad_token=family.pad,
        clean_up_tokenization_spaces=False,
    )  # fmt: skip
    tokenizer.chat_template = family.template if "{" in family.template else trl_template(family.template)
    return tokenizer


def trl_template(name: str) -> str:
    """Return a chat template that trl ships."""
    import trl

    return (Path(trl.__file__).parent / "chat_templates" / f"{name}.jinja").read_text(encoding="utf-8")


def build_model(family: Family, tokenizer: Any) -> Any:
    """Build the family's model with two layers of random weights; torch's generator is left as it was."""
    import torch
    import transformers

    sizes: dict[str, Any] = {
        "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
        "intermediate_size": 48, "max_position_embeddings": 4096, "initializer_range": 0.2,
    }  # fmt: skip
    ids = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    config = getattr(transformers, f"{family.config}Config")(
        vocab_size=len(tokenizer) + family.padding_rows, **{**sizes, **ids, **family.settings}
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
    if family.ends:
        model.generation_config.eos_token_id = tokenizer.convert_tokens_to_ids(list(family.ends))
    return model
