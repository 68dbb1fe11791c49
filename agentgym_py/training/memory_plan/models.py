"""The configuration of a model by name, without its weights and without a download."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from agentgym_py.errors import PolicyError, UnknownNameError, did_you_mean
from agentgym_py.policy.loading import adapter_base, first_line, read_config
from agentgym_py.policy.tiny import BASES, base_folder

_LENGTH = 4096
"""Context of a model whose configuration names none, as for a policy."""


def _llama(hidden: int, inner: int, layers: int, heads: int, kv_heads: int, words: int, tied: bool) -> dict[str, Any]:
    return {
        "hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "vocab_size": words, "tie_word_embeddings": tied,
    }  # fmt: skip


def _qwen2(*sizes: Any) -> dict[str, Any]:
    return {"model_type": "qwen2", "max_position_embeddings": 32_768, **_llama(*sizes)}


def _llama3(*sizes: Any) -> dict[str, Any]:
    return {"model_type": "llama", "max_position_embeddings": 131_072, **_llama(*sizes)}


def _smollm2(length: int, *sizes: Any) -> dict[str, Any]:
    return {"model_type": "llama", "max_position_embeddings": length, **_llama(*sizes)}


PUBLISHED: Mapping[str, Mapping[str, Any]] = {
    "Qwen2.5-0.5B": _qwen2(896, 4864, 24, 14, 2, 151_936, True),
    "Qwen2.5-1.5B": _qwen2(1536, 8960, 28, 12, 2, 151_936, True),
    "Qwen2.5-3B": _qwen2(2048, 11_008, 36, 16, 2, 151_936, True),
    "Qwen2.5-7B": _qwen2(3584, 18_944, 28, 28, 4, 152_064, False),
    "Qwen2.5-14B": _qwen2(5120, 13_824, 48, 40, 8, 152_064, False),
    "Llama-3.2-1B": _llama3(2048, 8192, 16, 32, 8, 128_256, True),
    "Llama-3.1-8B": _llama3(4096, 14_336, 32, 32, 8, 128_256, False),
    "SmolLM2-135M": _smollm2(8192, 576, 1536, 30, 9, 3, 49_152, True),
    "SmolLM2-360M": _smollm2(8192, 960, 2560, 32, 15, 5, 49_152, True),
    "SmolLM2-1.7B": _smollm2(8192, 2048, 8192, 24, 32, 32, 49_152, True),
}
"""Published configurations, for models that are not on this machine."""


class ModelConfig(NamedTuple):
    """A model's name and its configuration as JSON, by which traces of it are cached."""

    name: str
    text: str

    def load(self) -> Any:
        """Return transformers' configuration."""
        from transformers import AutoConfig

        values = json.loads(self.text)
        return AutoConfig.for_model(values.pop("model_type"), **values)

    @property
    def layers(self) -> int:
        """Number of layers."""
        return int(json.loads(self.text)["num_hidden_layers"])

    def with_layers(self, number: int) -> ModelConfig:
        """Return the configuration of the model's first layers."""
        values, layers = json.loads(self.text), self.layers
        for name, value in values.items():
            if isinstance(value, list) and len(value) == layers:  # one entry per layer
                values[name] = value[:number]
        return ModelConfig(self.name, json.dumps(values | {"num_hidden_layers": number}))

    @property
    def context_length(self) -> int:
        """The model's context in tokens."""
        return int(getattr(self.load().get_text_config(), "max_position_embeddings", None) or _LENGTH)


def open_config(name: str) -> ModelConfig:
    """Open a configuration: a folder, a config.json, one of `BASES`, a cached hub model or one of `PUBLISHED`.

    A folder of adapters has the configuration of its base.

    Raises:
        UnknownNameError: none of these has the name.
        PolicyError: the file does not open.
    """
    if published := _published(name):
        return ModelConfig(name, json.dumps(published))
    name_of_base = "tiny" if name == "tiny-random" else name
    with base_folder(name_of_base) if name_of_base in BASES else nullcontext(Path(name)) as path:
        if base := adapter_base(str(path)):
            return open_config(base.name)._replace(name=name)
        file = path if path.suffix == ".json" else path / "config.json"
        return _read(name, file if file.is_file() else _cached(name))


def _published(name: str) -> Mapping[str, Any] | None:
    if Path(name).exists():
        return None
    short = {"smollm2": "SmolLM2-135M"}.get(name, name.rpartition("/")[2])
    return PUBLISHED.get(short.removesuffix("-Instruct").removeprefix("Meta-"))


def _cached(name: str) -> Path:
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    if Path(name).is_dir():
        raise PolicyError(f"the folder {name!r} is not a model: it holds no config.json")
    try:
        found = try_to_load_from_cache(name, "config.json") if "/" in name else None
    except HFValidationError:
        found = None
    if isinstance(found, str):
        return Path(found)
    near = did_you_mean(name, [*BASES, "smollm2", *PUBLISHED], "Known without their files")
    raise UnknownNameError(f"no model {name!r}: neither a folder, nor a config.json, nor in the hub's cache.{near}")


def _read(name: str, file: Path) -> ModelConfig:
    try:
        config = read_config(str(file), local_files_only=True, trust_remote_code=False)
        text = config.get_text_config().to_json_string(use_diff=False)
    except Exception as error:  # transformers raises whatever the file makes it raise
        raise PolicyError(f"{str(file)!r} is no configuration of a model: {first_line(error)}") from error
    return ModelConfig(name, text)
