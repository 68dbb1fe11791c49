"""Miniatures of model families: random weights, the family's configuration and chat template, a tokenizer of bytes.

The tokenizer has a family's added tokens as its real one has them, special or not; a model has at most 100,000 weights.
Chat templates come with trl.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agentgym_py.errors import ConfigError
from agentgym_py.policy import Policy
from agentgym_py.policy.chat_template import Thinking
from agentgym_py.registry import install_advice


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
    thinking: Thinking = "auto"
    """The setting under which its template is used; a hybrid needs one."""
    keeps_thoughts: str = ""
    """Name of trl's template that differs from its own in keeping earlier thoughts; empty if its own one does."""


MISTRAL = (
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + "
    "'[/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' ' + message['content'] + eos_token }}"
    "{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}"
)
"""Mistral-7B-Instruct-v0.3's without its tools."""
PHI4_MINI = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}"
)
"""Phi-4-mini-instruct's without its tools."""
SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""SmolLM2-135M-Instruct's."""
SMOLLM3 = (
    "{%- if enable_thinking is not defined -%}{%- set enable_thinking = true -%}{%- endif -%}"
    "{{- '<|im_start|>system\n## Metadata\n\nKnowledge Cutoff Date: June 2025\n' -}}"
    "{{- 'Today Date: ' ~ strftime_now('%d %B %Y') ~ '\n' -}}"
    "{{- 'Reasoning Mode: ' + ('/think' if enable_thinking else '/no_think') + '<|im_end|>\n' -}}"
    "{%- for message in messages -%}{%- if message.role == 'user' -%}"
    "{{- '<|im_start|>user\n' + message.content + '<|im_end|>\n' -}}"
    "{%- elif message.role == 'assistant' -%}{%- if enable_thinking -%}"
    "{{- '<|im_start|>assistant\n' + message.content.lstrip('\n') + '<|im_end|>\n' -}}{%- else -%}"
    "{{- '<|im_start|>assistant\n<think>\n\n</think>\n' + message.content.lstrip('\n') + '<|im_end|>\n' -}}"
    "{%- endif -%}{%- endif -%}{%- endfor -%}{%- if add_generation_prompt -%}{%- if enable_thinking -%}"
    "{{- '<|im_start|>assistant\n' -}}{%- else -%}{{- '<|im_start|>assistant\n<think>\n\n</think>\n' -}}"
    "{%- endif -%}{%- endif -%}"
)
"""SmolLM3's, abridged: without tools, system messages and the long instructions of its reasoning mode."""

_LLAMA = (
    "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>",
    "<|python_tag|>",
)  # fmt: skip
_GEMMA = ("<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>")
_PHI = ("<s>", "</s>", "<|endoftext|>", "<|assistant|>", "<|system|>", "<|end|>", "<|user|>")
_LONGROPE = {
    "rope_type": "longrope", "rope_theta": 10_000.0, "short_factor": [1.0, 1.1, 1.2, 1.3],
    "long_factor": [1.0, 2.0, 4.0, 8.0], "original_max_position_embeddings": 256,
}  # fmt: skip


def _llama_rope(factor: float) -> dict[str, Any]:
    return {
        "rope_type": "llama3", "rope_theta": 500_000.0, "factor": factor, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 256,
    }  # fmt: skip


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
        Family(
            "qwen3", "Qwen3", "qwen3",
            special=("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|vision_start|>"),
            plain=("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"),
            eos="<|im_end|>", pad="<|endoftext|>", ends=("<|im_end|>", "<|endoftext|>"), padding_rows=64,
            settings={"tie_word_embeddings": True, "use_sliding_window": False},
            thinking="off", keeps_thoughts="qwen3_training",
        ),
        Family(
            "r1-distill", "Llama", "deepseek_r1_distill",
            special=("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<|start_header_id|>", "<|eot_id|>"),
            plain=("<｜User｜>", "<｜Assistant｜>", "<think>", "</think>"), bos="<｜begin▁of▁sentence｜>",
            eos="<｜end▁of▁sentence｜>", pad="<｜end▁of▁sentence｜>", ends=("<｜end▁of▁sentence｜>",),
            settings={"rope_parameters": _llama_rope(8.0)}, thinking="on",
            keeps_thoughts="deepseek_r1_distill_training",
        ),
        Family(
            "llama3.1", "Llama", "llama3_1", special=_LLAMA, bos="<|begin_of_text|>", eos="<|eot_id|>",
            ends=("<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"), settings={"rope_parameters": _llama_rope(8.0)},
        ),
        Family(
            "llama3.2", "Llama", "llama3_2", special=_LLAMA, bos="<|begin_of_text|>", eos="<|eot_id|>",
            ends=("<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"),
            settings={"rope_parameters": _llama_rope(32.0), "tie_word_embeddings": True},
        ),
        Family(
            "gemma2", "Gemma2", "gemma", special=_GEMMA,
            plain=("\n", "\n\n", "\n\n\n", "▁▁", "▁▁▁", "<table>", "</h1>"),
            bos="<bos>", eos="<eos>", pad="<pad>", ends=("<eos>", "<end_of_turn>"),
            settings={
                "sliding_window": 16, "final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0,
                "query_pre_attn_scalar": 8, "tie_word_embeddings": True,
            },
        ),
        Family(
            "gemma3", "Gemma3Text", "gemma3", special=(*_GEMMA, "<start_of_image>"),
            plain=("\n", "\n\n", "\n\n\n", "▁▁", "▁▁▁", "<table>", "</h1>"),
            bos="<bos>", eos="<eos>", pad="<pad>", ends=("<eos>", "<end_of_turn>"),
            settings={
                "sliding_window": 16, "query_pre_attn_scalar": 8, "tie_word_embeddings": True,
                "layer_types": ["sliding_attention", "full_attention"],
            },
        ),
        Family(
            "mistral", "Mistral", MISTRAL, special=("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]"),
            bos="<s>", eos="</s>", ends=("</s>",), settings={"sliding_window": None},
        ),
        Family(
            "phi3.5", "Phi3", "phi3_5", special=_PHI, eos="<|endoftext|>", pad="<|endoftext|>",
            ends=("<|end|>", "<|assistant|>", "<|endoftext|>"), padding_rows=48,
            settings={"sliding_window": 262_144, "rope_parameters": _LONGROPE, "original_max_position_embeddings": 256},
        ),
        Family(
            "phi4-mini", "Phi3", PHI4_MINI, special=_PHI, plain=("<|tool|>", "<|tool_call|>"), eos="<|endoftext|>",
            pad="<|endoftext|>", ends=("<|end|>", "<|endoftext|>"), padding_rows=36,
            settings={"sliding_window": 262_144, "tie_word_embeddings": True},
        ),
        Family(
            "smollm2", "Llama", SMOLLM2, special=("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>"),
            bos="<|im_start|>", eos="<|im_end|>", pad="<|im_end|>", ends=("<|im_end|>",),
            settings={"tie_word_embeddings": True},
        ),
        Family(
            "smollm3", "SmolLM3", SMOLLM3,
            special=("<|begin_of_text|>", "<|end_of_text|>", "<|im_start|>", "<|im_end|>"),
            plain=("<think>", "</think>", "<tool_call>", "</tool_call>"), eos="<|im_end|>", pad="<|im_end|>",
            ends=("<|im_end|>",), settings={"tie_word_embeddings": True}, thinking="off",
        ),
        Family(
            "lfm2", "Lfm2", "lfm2",
            special=("<|pad|>", "<|startoftext|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>"),
            bos="<|startoftext|>", eos="<|im_end|>", pad="<|pad|>", ends=("<|im_end|>",),
            settings={
                "layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False,
                "tie_word_embeddings": True,
            },
        ),
        Family(
            "gpt-oss", "GptOss", "gptoss",
            special=(
                "<|startoftext|>", "<|endoftext|>", "<|return|>", "<|channel|>", "<|start|>", "<|end|>", "<|message|>",
            ),
            bos="<|startoftext|>", eos="<|return|>", pad="<|endoftext|>", ends=("<|return|>", "<|endoftext|>"),
            settings={"num_local_experts": 2, "num_experts_per_tok": 1, "sliding_window": 16},
        ),
    )
}  # fmt: skip
"""Every family by name."""
REFUSED = frozenset({"gpt-oss"})
"""Families whose chat template is refused."""
SUPPORTED = tuple(name for name in FAMILIES if name not in REFUSED)


def miniature(name: str, dtype: str = "float32", **settings: Any) -> Policy:
    """Build a family's miniature; `settings` are those of `Policy`."""
    import torch

    family = FAMILIES[name]
    tokenizer = build_tokenizer(family)
    model = build_model(family, tokenizer).to(getattr(torch, dtype))
    return Policy(model, tokenizer, name, **{"thinking": family.thinking, **settings})


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
    """Return a chat template that trl ships; trl is not imported."""
    trl = find_spec("trl")
    if trl is None or trl.origin is None:
        raise ConfigError(f"the families' chat templates come with trl: {install_advice('train,trl')}")
    return (Path(trl.origin).parent / "chat_templates" / f"{name}.jinja").read_text(encoding="utf-8")


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
