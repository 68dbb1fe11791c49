"""`agentgym plan`: the memory of a model by its configuration, and what would fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.cli import main
from agentgym_py.errors import PolicyError
from agentgym_py.policy import Policy
from agentgym_py.policy.adapters import add_adapters
from agentgym_py.policy.tiny import BASES
from agentgym_py.training.memory_plan.models import ModelConfig, open_config
from agentgym_py.training.memory_plan.table import MODELS, rows_of
from agentgym_py.training.memory_plan.tracing import count_weights, trace_prefill

SCALING = Path(__file__).parents[2] / "docs" / "guides" / "scaling.md"


def planned(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    """The JSON of a plan."""
    assert main(["plan", "--json", *words]) == 0
    result: dict[str, object] = json.loads(capsys.readouterr().out)
    return result


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("Qwen2.5-0.5B", 494_032_768), ("Qwen/Qwen2.5-7B-Instruct", 7_615_616_512),
        ("meta-llama/Llama-3.1-8B", 8_030_261_248), ("smollm2", 134_515_008),
    ],
)  # fmt: skip
def test_known_models_have_their_published_number_of_weights(name: str, weights: int) -> None:
    """By their configuration alone, with and without an owner."""
    assert count_weights(open_config(name), 0).weights == weights


@pytest.mark.parametrize("name", [*BASES, "tiny-random"])
def test_a_base_is_planned_by_its_own_name(name: str) -> None:
    """Its layers may be of several kinds; all are counted."""
    assert count_weights(open_config(name), 0).weights == Policy.load(name, device="cpu").num_parameters


@pytest.mark.parametrize("dense", [2, 5])
def test_a_model_with_unequal_layers_is_counted_whole(dense: int) -> None:
    """The first layers of a mixture of experts may have none, and stand for no other.

    torch's grouped matrix product, which experts use, traces no float32: that is an error of one line.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(
        "glm4_moe", hidden_size=64, intermediate_size=128, moe_intermediate_size=32, num_hidden_layers=8,
        first_k_dense_replace=dense, n_routed_experts=16, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=500, head_dim=16,
    )  # fmt: skip
    model = ModelConfig("moe", config.to_json_string(use_diff=False))
    with torch.device("meta"):
        built = AutoModelForCausalLM.from_config(config)
    assert count_weights(model, 0).weights == sum(p.numel() for p in built.parameters())
    adapted = add_adapters(built, 4, 0)
    assert count_weights(model, 4).adapters == sum(p.numel() for p in adapted.parameters() if p.requires_grad)
    with pytest.raises(PolicyError, match='models of type "glm4_moe" cannot be planned'):
        trace_prefill(model, "float32", 16)
    assert trace_prefill(model, "bfloat16", 16)


def test_a_folder_is_planned_and_printed(
    tiny_policy: object, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A folder needs its config.json alone; the table has the sums, the last line the verdict."""
    config = tiny_policy.model.config  # type: ignore[attr-defined]
    config.save_pretrained(tmp_path)
    for name in (str(tmp_path), str(tmp_path / "config.json")):
        assert main(["plan", "--model", name, "--slots", "4", "--gpu_memory_gib", "4"]) == 0
        text = capsys.readouterr().out
        assert "grpo trains all weights" in text and "It fits 1 GPU of 4 GiB" in text.splitlines()[-1]
    result = planned(capsys, "--model", str(tmp_path))
    assert result["weights"] == sum(p.numel() for p in tiny_policy.model.parameters())  # type: ignore[attr-defined]


def test_settings_that_fit_are_proposed(capsys: pytest.CaptureFixture[str]) -> None:
    """The proposed settings fit, none of them can be left out, and cards and methods that cannot are said so."""
    words = ["--model", "Qwen2.5-0.5B", "--trainer", "filtered_bc", "--gpu_memory_gib", "10", "--slots", "8"]
    result = planned(capsys, *words)
    changes = result["changes"]
    assert not result["fits"] and isinstance(changes, dict) and changes
    options = [word for name, value in changes.items() for word in (f"--{name}", str(value).lower())]
    assert planned(capsys, *words, *options)["fits"]
    small = planned(capsys, "--model", "Qwen2.5-7B", "--gpu_memory_gib", "2", "--trainer.lora_rank", "8")
    assert not small["changes"] and "no settings were found" in str(small["verdict"])


def test_gpus_shard_a_training(capsys: pytest.CaptureFixture[str]) -> None:
    """FSDP takes less of each GPU than the whole training, and keeps the whole policy there."""
    words = ["--model", "Qwen2.5-0.5B", "--gpus", "4", "--trainer.gradient_checkpointing", "true"]
    whole, sharded = planned(capsys, *words), planned(capsys, *words, "--sharding", "fsdp")
    assert whole["phases"][1]["gib"] > sharded["phases"][1]["gib"] > 4 * 494_032_768 / 2**30  # type: ignore[index]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--model NAME is needed"),
        (["--model", "Qwen2.5-7b"], "Did you mean 'Qwen2.5-7B'"),
        (["--model", "tiny", "--quantize", "4bit"], "set lora_rank above 0"),
        (["--model", "tiny", "--sharding", "fsdp"], "--sharding fsdp needs several GPUs"),
        (["--model", "tiny", "--max_context", "1000000"], "max_context must be at most the model's 4096"),
        (["--model", "tiny", "--trainer", "trl_sft"], "the memory of a trainer of trl is not planned"),
        (["--model", "tiny", "--agent_share", "0"], "--agent_share must be above 0"),
    ],
)
def test_mistakes_are_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong, and what to do."""
    assert main(["plan", *words]) == 2
    error = capsys.readouterr().err.strip()
    assert message in error and "\n" not in error


@pytest.mark.parametrize("model", [MODELS[0], pytest.param(MODELS[1], marks=pytest.mark.slow)])
def test_the_docs_say_what_fits_where(model: str) -> None:
    """`agentgym plan --table` prints the rows of docs/guides/scaling.md."""
    page = SCALING.read_text(encoding="utf-8")
    for row in rows_of(model):
        assert row in page, "run agentgym plan --table"
