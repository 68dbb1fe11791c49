"""The tiny model: a small Llama with its own byte-level BPE tokenizer, which learns on a CPU in minutes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_py.errors import ConfigError, PolicyError

if TYPE_CHECKING:
    from transformers import Lfm2Config, LlamaConfig, PreTrainedTokenizerFast

BASES = ("tiny", "tiny-worlds", "tiny-data")
"""The base models that ship with this package, by the names of their folders in `agentgym_data`."""

PAD, USER, ASSISTANT, END = SPECIAL_TOKENS = ("<|pad|>", "<|user|>", "<|assistant|>", "<|end|>")

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'assistant' -%}<|assistant|>{{ message['content'] }}<|end|>"
    "{%- elif message['role'] == 'user' -%}<|user|>{{ message['content'] }}"
    "{%- else -%}{{ raise_exception('only user and assistant messages') }}"
    "{%- endif -%}{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}"
)
"""One special token before each content, and one after an assistant's: the fewest that keep turns apart."""


def build_tokenizer(texts: Iterable[str], vocab_size: int = 2048, *, digits: int = 2) -> PreTrainedTokenizerFast:
    """Learn a byte-level BPE tokenizer from `texts`; every string round-trips.

    A token holds at most `digits` digits, so that a number is always cut the same way.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    smallest = 256 + len(SPECIAL_TOKENS)
    if vocab_size < smallest:
        raise ConfigError(f"vocab_size must be at least {smallest} (bytes and special tokens), got {vocab_size}")
    tokenizer = Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    numbers = pre_tokenizers.Split(Regex(rf"\p{{N}}{{1,{digits}}}"), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([numbers, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[USER, ASSISTANT],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def tiny_config(
    vocab_size: int,
    hidden_size: int = 128,
    layers: int = 4,
    heads: int = 4,
    kv_heads: int = 1,
    intermediate_size: int | None = None,
    max_length: int = 4096,
) -> LlamaConfig:
    """Configuration of a Llama with about a million parameters.

    It has one key-value head by default, because reading keys and values bounds the speed of decoding many episodes on
    a CPU.
    """
    from transformers import LlamaConfig

    if hidden_size % heads or heads % kv_heads:
        raise ConfigError(f"hidden_size {hidden_size} must divide by heads {heads}, and heads by kv_heads {kv_heads}")
    shape = _shape(vocab_size, hidden_size, layers, heads, kv_heads, intermediate_size, max_length)
    return LlamaConfig(**shape)


def hybrid_config(
    vocab_size: int,
    hidden_size: int = 128,
    layers: int = 6,
    heads: int = 4,
    kv_heads: int = 2,
    intermediate_size: int | None = None,
    max_length: int = 4096,
) -> Lfm2Config:
    """Configuration of an LFM2 (arXiv:2511.23404) whose layers are short convolutions and attention in turn.

    A convolution shows each token the two before it. So a small model learns to copy, and to look up a name of several
    tokens, from fewer batches than a Llama.
    """
    from transformers import Lfm2Config

    shape = _shape(vocab_size, hidden_size, layers, heads, kv_heads, intermediate_size, max_length)
    kinds = ["full_attention" if number % 2 else "conv" for number in range(layers)]
    return Lfm2Config(**shape, layer_types=kinds, block_auto_adjust_ff_dim=False)


def _shape(
    vocab_size: int, hidden_size: int, layers: int, heads: int, kv_heads: int, intermediate_size: int | None,
    max_length: int,
) -> dict[str, Any]:  # fmt: skip
    """Return what both configurations have in common."""
    return {
        "vocab_size": vocab_size, "hidden_size": hidden_size, "intermediate_size": intermediate_size or 3 * hidden_size,
        "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
        "max_position_embeddings": max_length, "tie_word_embeddings": True, "pad_token_id": 0, "bos_token_id": None,
        "eos_token_id": SPECIAL_TOKENS.index(END),
    }  # fmt: skip


def build_model(config: LlamaConfig | Lfm2Config, seed: int = 0) -> Any:
    """Initialise a model on the CPU; torch's global generator is left as it was."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return AutoModelForCausalLM.from_config(config)


@contextmanager
def base_folder(name: str = "tiny") -> Iterator[Path]:
    """The folder of one of `BASES`."""
    from importlib import resources

    folder: Any = resources.files("agentgym_data") / name
    if not (folder / "config.json").is_file():
        raise PolicyError(
            f"the base {name} is not in agentgym_data: this installation ships none (agentgym_data/{name} is missing)"
        )
    with resources.as_file(folder) as path:
        yield path
