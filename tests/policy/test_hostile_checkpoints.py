"""Checkpoints and adapters of a stranger: nothing is fetched for them, and loading them ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from agentgym_py.errors import PolicyError
from agentgym_py.policy import Policy, patterns
from agentgym_py.policy.adapters import add_adapters
from agentgym_py.policy.loading import read_config
from agentgym_py.training.memory_plan.models import open_config

KERNEL = "stranger/kernel"


pytestmark = pytest.mark.filterwarnings("ignore:Unexpected keyword arguments", "ignore:No value was provided")


@pytest.fixture
def checkpoint(tiny_policy: Policy, tmp_path: Path) -> Callable[..., Path]:
    """Save a model, and change values of its `config.json`."""

    def make(**values: Any) -> Path:
        tiny_policy.save(tmp_path / "model")
        change(tmp_path / "model" / "config.json", values)
        return tmp_path / "model"

    return make


def change(file: Path, values: Mapping[str, Any]) -> None:
    """Change values of a JSON file."""
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


@pytest.mark.parametrize("name", ["attn_implementation", "_attn_implementation"])
@pytest.mark.parametrize("attention", [KERNEL, {"": KERNEL}, f"paged|{KERNEL}", "flash_attention_2"], ids=str)
def test_a_config_chooses_no_kernel_of_the_hub(name: str, attention: Any, checkpoint: Callable[..., Path]) -> None:
    """The library would fetch it, and run it."""
    policy = Policy.load(str(checkpoint(**{name: attention})))
    assert policy.model.config._attn_implementation in ("eager", "sdpa")


def test_no_part_of_a_config_chooses_one_either(tmp_path: Path) -> None:
    """That of a model which reads images."""
    text = {"model_type": "gemma3_text", "attn_implementation": KERNEL, "pad_token_id": -1}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gemma3", "text_config": text}))
    assert read_config(str(tmp_path)).text_config._attn_implementation is None


def test_a_config_keeps_attention_that_fetches_nothing(checkpoint: Callable[..., Path]) -> None:
    """Some models need the slow one."""
    assert Policy.load(str(checkpoint(attn_implementation="eager"))).model.config._attn_implementation == "eager"


@pytest.mark.parametrize(
    "values",
    [
        {"num_hidden_layers": 10**9}, {"model_type": "qwen2", "num_hidden_layers": 10**9},
        {"model_type": "bart", "decoder_layers": 10**9, "encoder_layers": 2},
        {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "num_hidden_layers": 10**9}},
    ],
    ids=str,
)  # fmt: skip
def test_a_model_of_a_billion_layers_is_refused(values: dict[str, Any], checkpoint: Callable[..., Path]) -> None:
    """They would be made one by one, or listed by the configuration's class."""
    folder = checkpoint(**values)
    with pytest.raises(PolicyError, match="has 1000000000 layers, and at most 1000"):
        Policy.load(str(folder))
    with pytest.raises(PolicyError, match="has 1000000000 layers, and at most 1000"):
        open_config(str(folder))


@pytest.mark.parametrize("kind", ["RagTokenizer", "MecabTokenizer"])
def test_a_class_that_is_no_tokenizer_is_refused(kind: str, checkpoint: Callable[..., Path]) -> None:
    """Some classes of transformers have such names."""
    folder = checkpoint()
    change(folder / "tokenizer_config.json", {"tokenizer_class": kind})
    with pytest.raises(PolicyError):
        Policy.load(str(folder))


@pytest.mark.parametrize("name", ["../precious", "/etc/passwd", "pytorch_model.bin", "../x.safetensors"])
def test_an_index_of_weights_names_nothing_else(name: str, checkpoint: Callable[..., Path]) -> None:
    """Neither a file elsewhere nor pickled weights."""
    folder = checkpoint()
    (folder / "model.safetensors").unlink()
    index = {"metadata": {}, "weight_map": {"model.embed_tokens.weight": name}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(PolicyError, match="and only its own safetensors are read"):
        Policy.load(str(folder))


@pytest.mark.parametrize("name", ["../precious.safetensors", "pytorch_model.bin"])
def test_a_config_names_no_index_of_weights(name: str, checkpoint: Callable[..., Path]) -> None:
    """What such a file names is not looked at."""
    folder = checkpoint(transformers_weights="other.safetensors.index.json")
    index = {"metadata": {}, "weight_map": {"model.embed_tokens.weight": name}}
    (folder / "other.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(PolicyError, match="as its weights' index"):
        Policy.load(str(folder))


def test_a_model_in_several_files_is_read(tiny_policy: Policy, tmp_path: Path) -> None:
    """An ordinary index."""
    tiny_policy.save(tmp_path)
    digest = Policy.load(str(tmp_path)).digest()
    names = dict.fromkeys(load_file(tmp_path / "model.safetensors"), "model-1.safetensors")
    (tmp_path / "model.safetensors").rename(tmp_path / "model-1.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": names}))
    assert Policy.load(str(tmp_path)).digest() == digest


def test_a_model_without_its_weights_is_refused(checkpoint: Callable[..., Path]) -> None:
    """They would be random, and a figure would be of another model."""
    folder = checkpoint()
    weights = load_file(folder / "model.safetensors")
    del weights["model.norm.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(PolicyError, match="lacks 1 of its weights"):
        Policy.load(str(folder))


def test_a_model_in_the_cache_is_read_without_the_hub(
    tiny_policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are there, and nothing but a request of `huggingface_hub` itself asks whether there are newer ones."""
    repo, revision = tmp_path / "models--stranger--model", "0" * 40
    (repo / "refs").mkdir(parents=True)
    (repo / "refs" / "main").write_text(revision)
    tiny_policy.save(repo / "snapshots" / revision)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.file_exists", unreachable)
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: pytest.fail("the hub is asked"))
    assert Policy.load("stranger/model").digest() == Policy.load(str(repo / "snapshots" / revision)).digest()


def unreachable(*_: Any) -> bool:
    """As without a network."""
    raise ConnectionError("there is no network")


def test_a_tokenizer_that_panics_is_refused(checkpoint: Callable[..., Path]) -> None:
    """An error of its Rust code is no `Exception`."""
    folder = checkpoint()
    grow = {"type": "Replace", "pattern": {"String": ""}, "content": "aaaaaaaaaa"}
    change(folder / "tokenizer.json", {"normalizer": grow})
    with pytest.raises(PolicyError, match="the tokenizer does not encode a text of"):
        Policy.load(str(folder))


@pytest.mark.parametrize(
    "settings",
    [
        {"exclude_modules": "(.*.*.*.*.*.*.*.*.*.*)*!"}, {"target_modules": "(.*.*.*.*.*.*.*.*.*.*)*!"},
        {"rank_pattern": {"(([a-z._]*)*)*!": 4}}, {"alpha_pattern": {"(([a-z._]*)*)*!": 4}},
        {"modules_to_save": ["(([a-z._]*)*)*!"]}, {"exclude_modules": "(.|[^!])" * 30 + "!"},
    ],
    ids=str,
)  # fmt: skip
def test_a_pattern_of_adapters_that_takes_minutes_is_refused(
    settings: dict[str, Any], tiny_policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's own matching would go on for years."""
    folder = adapters(tiny_policy, tmp_path)
    change(folder / "adapter_config.json", settings)
    monkeypatch.setattr(patterns, "_SECONDS", 1.0)
    with pytest.raises(PolicyError, match="their patterns take more than 1 s"):
        Policy.load(str(folder))


def test_a_pattern_of_adapters_is_read(tiny_policy: Policy, tmp_path: Path) -> None:
    """Other programs write some."""
    folder = adapters(tiny_policy, tmp_path)
    before = Policy.load(str(folder)).digest()
    change(
        folder / "adapter_config.json", {"target_modules": r".*\.(self_attn|mlp)\.\w+_proj", "exclude_modules": "x+"}
    )
    assert Policy.load(str(folder)).digest() == before


@pytest.mark.parametrize(
    "settings",
    [{"r": 10**9}, {"rank_pattern": {"q_proj": 10**9}}, {"peft_type": "ADALORA", "init_r": 10**9, "total_step": 9}],
    ids=str,
)
def test_a_rank_without_weights_is_refused(settings: dict[str, Any], tiny_policy: Policy, tmp_path: Path) -> None:
    """PEFT would make weights of that size first; a stored shape without elements costs its writer nothing."""
    folder = adapters(tiny_policy, tmp_path)
    weights = load_file(folder / "adapter_model.safetensors")
    save_file(weights | {"empty": torch.zeros(10**9, 0)}, folder / "adapter_model.safetensors")
    change(folder / "adapter_config.json", settings)
    with pytest.raises(PolicyError, match="are of rank 1000000000, and their weights are smaller"):
        Policy.load(str(folder))


@pytest.mark.parametrize("kind", ["POLY", "IA3", "RANDLORA", "LN_TUNING", "TRAINABLE_TOKENS"])
def test_adapters_without_their_weights_are_refused(kind: str, tiny_policy: Policy, tmp_path: Path) -> None:
    """They would be random, or do nothing, and a figure would be of another model."""
    folder = adapters(tiny_policy, tmp_path)
    change(folder / "adapter_config.json", {"peft_type": kind})
    with pytest.raises(PolicyError, match="do not fit"):
        Policy.load(str(folder))


def test_adapters_that_name_others_are_refused(tiny_policy: Policy, tmp_path: Path) -> None:
    """PEFT would fetch them from the hub."""
    folder = adapters(tiny_policy, tmp_path)
    change(folder / "adapter_config.json", {"peft_type": "XLORA", "hidden_size": 8, "adapters": {"0": "stranger/x"}})
    with pytest.raises(PolicyError, match=r"name other adapters \(XLORA\)"):
        Policy.load(str(folder))


def test_an_error_of_merging_is_one_line(tiny_policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some kinds of adapters do not merge."""
    from peft.tuners.lora import Linear

    def fails(*_: Any, **__: Any) -> None:
        raise NotImplementedError("as planned")

    policy = Policy.load(str(adapters(tiny_policy, tmp_path)))
    monkeypatch.setattr(Linear, "merge", fails)
    with pytest.raises(PolicyError, match="the adapters do not merge: as planned"):
        policy.merged()


def adapters(policy: Policy, folder: Path) -> Path:
    """Save a model with adapters, and return their folder."""
    policy.save(folder / "base")
    adapted = Policy.load(str(folder / "base"))
    adapted.model = add_adapters(adapted.model, 2, 0)
    adapted.save(folder / "adapters")
    return folder / "adapters"
