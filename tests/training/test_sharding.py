"""What shards a training over processes (FSDP, DeepSpeed): its settings, and what it cannot do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from agentgym_py import distributed
from agentgym_py.errors import ConfigError, RunError
from agentgym_py.training.checkpoints import Checkpoints
from agentgym_py.training.settings import OfflineSettings, OnPolicySettings

CONFIGS = Path(__file__).parents[2] / "examples" / "accelerate"


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "1"}, "needs version 2"),
        ({"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2", "FSDP_CPU_RAM_EFFICIENT_LOADING": "true"}, "fsdp_cpu_"),
        ({"ACCELERATE_USE_DEEPSPEED": "true", "ACCELERATE_DEEPSPEED_ZERO3_INIT": "true"}, "zero3_init_flag must be"),
        ({"ACCELERATE_USE_FSDP": "true", "WORLD_SIZE": "1"}, "FSDP shards a training over several"),
    ],
)
@pytest.mark.usefixtures("second_of_two", "with_deepspeed")
def test_what_an_engine_cannot_do_is_said(
    variables: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a model is loaded."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=said):
        distributed.init_process_group()


@pytest.mark.usefixtures("second_of_two")
def test_deepspeed_that_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that gets it."""
    monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    monkeypatch.setattr(distributed, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"DeepSpeed is not installed: .*train,deepspeed"):
        distributed.init_process_group()


@pytest.fixture
def with_deepspeed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if it was installed."""
    monkeypatch.setattr(distributed, "find_spec", lambda name: name)


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
@pytest.mark.usefixtures("with_deepspeed")
def test_accelerate_reads_each_of_our_files(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows every key, sets the engine that the name says, and nothing that is refused here."""
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils.launch import prepare_deepspeed_cmd_env, prepare_multi_gpu_env

    parser = launch_command_parser()
    config = load_config_from_file(str(path))
    assert {*config.fsdp_config, *config.deepspeed_config} <= {action.dest for action in parser._actions}
    given = parser.parse_args(["--config_file", str(path), "--main_process_port", "0", "-m", "agentgym_py", "evolve"])
    launched = _validate_launch_command(given)[0]
    assert (launched.num_processes, launched.mixed_precision) == (config.num_processes, "no")
    name = next((name for part, name in (("fsdp", "FSDP"), ("zero", "DeepSpeed")) if part in path.stem), None)
    if name == "DeepSpeed":
        launched.deepspeed_fields_from_accelerate_config = ""
        _, environment = prepare_deepspeed_cmd_env(launched)
        assert environment["ACCELERATE_DEEPSPEED_ZERO_STAGE"] == path.stem[-1]
    else:
        environment = prepare_multi_gpu_env(launched)
    if config.num_processes > 1:
        environment |= {"RANK": "1", "WORLD_SIZE": str(config.num_processes)}
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    assert distributed.sharding_backend() == name and distributed.world_size() == config.num_processes
    distributed._require_backend()


@pytest.mark.usefixtures("second_of_two")
def test_a_state_is_read_by_the_engine_that_wrote_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one is told how it was kept, instead of missing a file."""
    monkeypatch.setattr(distributed, "on_rank_zero", lambda call, *given: call(*given))
    Checkpoints(tmp_path, "x", 0.0).save(lambda folder: None)
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with pytest.raises(RunError, match="saved unsharded, and this training is sharded by FSDP: resume it as it began"):
        Checkpoints(tmp_path, "x", 0.0).latest()


@pytest.mark.usefixtures("second_of_two")
def test_an_engine_refuses_weights_that_it_cannot_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quantized ones; and in DeepSpeed those that are not in float32. Without an engine the model is itself."""
    import torch

    from agentgym_py.training.sharding import module_to_train

    model = torch.nn.Linear(2, 2, bias=False, dtype=torch.bfloat16)
    assert module_to_train(model) is model
    monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    with pytest.raises(ConfigError, match="DeepSpeed trains weights in float32"):
        module_to_train(model)
    model.weight = torch.nn.Parameter(model.weight.to(torch.uint8), requires_grad=False)
    with pytest.raises(ConfigError, match="cannot shard a quantized model"):
        module_to_train(model)


@pytest.mark.parametrize("backend", ["FSDP", "DeepSpeed"])
@pytest.mark.usefixtures("second_of_two")
def test_bf16_is_refused_in_a_sharded_training(tiny_policy: Any, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Offline and on-policy trainers refuse it before they change the policy."""
    from agentgym_py.training.fit import Fit
    from agentgym_py.training.rl.learner import Learner

    monkeypatch.setenv(f"ACCELERATE_USE_{backend.upper()}", "true")
    model = tiny_policy.model
    with pytest.raises(ConfigError, match=f"bf16 is not tested with a training that {backend} shards"):
        Fit("bc", tiny_policy, OfflineSettings(bf16=True, lora_rank=2), [], seed=0, output_dir=None)
    with pytest.raises(ConfigError, match=f"bf16 is not tested with a training that {backend} shards"):
        Learner(tiny_policy, OnPolicySettings(bf16=True, lora_rank=2), seed=0)
    assert tiny_policy.model is model
