"""A policy with adapters: kept across trainings and checkpoints, played, trained further, and merged."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
peft = pytest.importorskip("peft")
import transformers

from agentgym_py.agents import ExpertAgent
from agentgym_py.collection import Collector, Job
from agentgym_py.engine import HFEngine, SamplingParams
from agentgym_py.engine.hf.fused import FusedForward
from agentgym_py.errors import ConfigError, PolicyError
from agentgym_py.policy import Policy
from agentgym_py.policy.adapters import add_adapters, base_parameters, has_adapters
from agentgym_py.policy.tokens import Sample
from agentgym_py.report.export import export, find_source
from agentgym_py.training.fit import Fit
from agentgym_py.training.optimization import Optimization
from agentgym_py.training.settings import OfflineSettings, OnPolicySettings, OptimizerSettings
from agentgym_trainers.filtered_bc import FilteredBC

IDS = torch.arange(12)[None]


def logits_of(policy: Policy) -> Any:
    with torch.no_grad():
        return policy.model(input_ids=IDS).logits.float()


def shift(policy: Policy, size: float = 0.3) -> Policy:
    """Give a policy's adapters an effect."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if "lora_B" in name or "modules_to_save" in name:
                parameter += size * torch.randn(parameter.shape, generator=generator)
    return policy


@pytest.fixture
def base(toy_envs: Any, tmp_path: Path) -> Path:
    """A stored policy of words."""
    toy_envs.word_policy(spread=0.2).save(tmp_path / "base")
    return tmp_path / "base"


@pytest.fixture
def demos(toy_envs: Any) -> list[Any]:
    """Four episodes of the expert."""
    return Collector(ExpertAgent()).collect_batch([Job(toy_envs.CHAIN, task) for task in range(4)])


def adapted(base: Path, rank: int = 2, **kwargs: Any) -> Policy:
    """A stored policy with new adapters that have an effect."""
    policy = Policy.load(base, device="cpu", **kwargs)
    policy.model = add_adapters(policy.model, rank, 0).eval()
    return shift(policy)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_checkpoint_of_adapters_is_the_policy(base: Path, tmp_path: Path, dtype: str) -> None:
    """It holds adapters in float32, names its base by a relative path and digest, and gives the same logits."""
    policy = adapted(base, dtype=dtype)
    policy.save(tmp_path / "run" / "checkpoint")
    files = {path.name for path in (tmp_path / "run" / "checkpoint").iterdir()}
    assert {"adapter_model.safetensors", "adapter_config.json", "base.json", "tokenizer.json"} <= files
    assert not files & {"model.safetensors", "base"}
    about = json.loads((tmp_path / "run" / "checkpoint" / "base.json").read_text())
    assert about["name"] == "../../base" and len(about["digest"]) == 64
    loaded = Policy.load(tmp_path / "run" / "checkpoint", device="cpu", dtype=dtype)
    assert loaded.digest() == policy.digest() and torch.equal(logits_of(loaded), logits_of(policy))
    assert all(p.dtype == torch.float32 for name, p in loaded.model.named_parameters() if "lora_" in name)
    loaded.save(tmp_path / "again")
    assert Policy.load(tmp_path / "again", device="cpu", dtype=dtype).digest() == policy.digest()
    shutil.move(tmp_path, moved := tmp_path.with_name(f"{tmp_path.name}-moved"))
    assert Policy.load(moved / "run" / "checkpoint", device="cpu", dtype=dtype).digest() == policy.digest()


def test_a_base_that_is_stored_nowhere_is_written_beside_the_adapters(
    base: Path, tmp_path: Path, toy_envs: Any
) -> None:
    """A base in memory, a changed one, one that the checkpoint replaces; each checkpoint opens by itself."""
    policy = toy_envs.word_policy(spread=0.2)
    policy.model = add_adapters(policy.model, 2, 0)
    changed = adapted(base)
    with torch.no_grad():
        next(parameter for _, parameter in base_parameters(changed.model))[0, 0] += 1
    for name, written in {"memory": shift(policy), "changed": changed, "base": adapted(base)}.items():
        written.save(tmp_path / name)
        assert (tmp_path / name / "base" / "model.safetensors").is_file()
        loaded = Policy.load(tmp_path / name, device="cpu")
        assert loaded.digest() == written.digest()
        loaded.save(tmp_path / name)
        assert Policy.load(tmp_path / name, device="cpu").digest() == written.digest()


def test_what_is_missing_or_wrong_is_one_line(base: Path, tmp_path: Path, toy_envs: Any) -> None:
    """A base that is gone, another base, adapters on adapters, adapters of other layers, and prompts."""
    adapted(base).save(tmp_path / "adapters")
    adapted(base).save(tmp_path / "twice")
    about = json.loads((tmp_path / "twice" / "base.json").read_text())
    (tmp_path / "twice" / "base.json").write_text(json.dumps(about | {"name": "../adapters"}))
    with pytest.raises(PolicyError, match="which holds adapters itself"):
        Policy.load(tmp_path / "twice", device="cpu")
    toy_envs.word_policy(seed=3).save(base)
    with pytest.raises(PolicyError, match=r"other weights than the adapters .* were trained on"):
        Policy.load(tmp_path / "adapters", device="cpu")
    shutil.copytree(base, tmp_path / "elsewhere")
    with pytest.raises(PolicyError, match=r"elsewhere' has other weights than the adapters .* were trained on"):
        Policy.load(tmp_path / "adapters", device="cpu", base=str(tmp_path / "elsewhere"))
    with pytest.raises(ConfigError, match=r"base is what adapters are .* attached to, and .*elsewhere holds none"):
        Policy.load(tmp_path / "elsewhere", device="cpu", base=str(base))
    toy_envs.word_policy(hidden_size=32).save(tmp_path / "wide")
    with pytest.raises(PolicyError, match="do not fit their base model"):
        Policy.load(tmp_path / "adapters", device="cpu", base=str(tmp_path / "wide"))
    shutil.rmtree(base)
    with pytest.raises(PolicyError, match=rf"need their base model: no model {str(base)!r}: there is no such folder"):
        Policy.load(tmp_path / "adapters", device="cpu")
    plain = toy_envs.word_policy()
    plain.save(base)
    prompts = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    peft.get_peft_model(plain.model, prompts).save_pretrained(tmp_path / "prompts")
    with pytest.raises(PolicyError, match="are prompts"):
        Policy.load(tmp_path / "prompts", device="cpu", base=str(base))


FOREIGN: dict[str, dict[str, Any]] = {
    "all-linear": {"r": 2, "lora_alpha": 4, "target_modules": "all-linear"},
    "two layers": {"r": 4, "lora_alpha": 4, "target_modules": ["q_proj", "v_proj"], "use_rslora": True},
    "whole modules": {"r": 2, "target_modules": ["q_proj"], "modules_to_save": ["lm_head"]},
}


@pytest.mark.parametrize("kind", FOREIGN)
@pytest.mark.parametrize("rank", [0, 2])
def test_adapters_of_other_programs_play_save_and_train(
    base: Path, tmp_path: Path, demos: list[Any], kind: str, rank: int
) -> None:
    """As PEFT and trl save them: played as the model computes them, saved, trained further, by adapters or whole."""
    plain = Policy.load(base, device="cpu")
    tuned = peft.get_peft_model(plain.model, peft.LoraConfig(**FOREIGN[kind]))
    plain.model = tuned.eval()
    expected = logits_of(shift(plain))
    tuned.save_pretrained(tmp_path / "adapters")
    about = tmp_path / "adapters" / "adapter_config.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "base_model_name_or_path": str(base)}))
    policy = Policy.load(tmp_path / "adapters", device="cpu")
    assert torch.equal(logits_of(policy), expected) and (expected - logits_of(Policy.load(base))).abs().max() > 0.01
    prompt = policy.chat.opening("bandit")
    (reply,) = HFEngine(policy).generate([prompt], SamplingParams(temperature=1, max_new_tokens=3), [0])
    with torch.no_grad():
        logps = policy.model(torch.tensor([[*prompt, *reply.ids]])).logits[0].log_softmax(-1)
    read = [float(logps[len(prompt) - 1 + k, token]) for k, token in enumerate(reply.ids)]
    assert read == pytest.approx(list(reply.logprobs), abs=1e-5)
    policy.save(tmp_path / "saved")
    assert Policy.load(tmp_path / "saved", device="cpu").digest() == policy.digest()
    report = FilteredBC(epochs=4, lora_rank=rank, learning_rate=0.02, threshold=-9.0, warmup_ratio=0.0).train(
        policy, demos, seed=0, output_dir=tmp_path / "out"
    )
    assert report.loss[-1] < report.loss[0] and has_adapters(policy.model) == (rank > 0)
    policy.save(tmp_path / "trained")
    assert torch.equal(logits_of(Policy.load(tmp_path / "trained", device="cpu")), logits_of(policy))


def store_adapters(zoo: Any, settings: Any, folder: Path) -> Path:
    """Store adapters on a model whose embeddings are tied, and the model beside them; returns the folder."""
    policy = zoo.miniature("qwen2.5")
    policy.save(folder / "base")
    tuned = peft.get_peft_model(policy.model, settings)
    with torch.no_grad():
        for weight in tuned.parameters():
            if weight.requires_grad:
                weight += 0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
    tuned.save_pretrained(folder / "adapters")
    about = json.loads((folder / "adapters" / "adapter_config.json").read_text())
    about["base_model_name_or_path"] = str(folder / "base")
    (folder / "adapters" / "adapter_config.json").write_text(json.dumps(about))
    return folder / "adapters"


@pytest.mark.filterwarnings("ignore:.*tie:UserWarning")
@pytest.mark.parametrize("kind", ["rows", "embeddings", "ia3"])
def test_adapters_on_a_model_with_tied_embeddings(kind: str, zoo: Any, tmp_path: Path) -> None:
    """New rows of the embeddings, whole embeddings, or scales: saved, merged, exported, and replaced by LoRA."""
    layers = ["q_proj", "v_proj"]
    folder = store_adapters(zoo, {
        "rows": peft.LoraConfig(r=2, trainable_token_indices=[3, 4], target_modules=layers),
        "embeddings": peft.LoraConfig(r=2, modules_to_save=["embed_tokens"], target_modules=layers),
        "ia3": peft.IA3Config(target_modules=[*layers, "down_proj"], feedforward_modules=["down_proj"]),
    }[kind], tmp_path)  # fmt: skip
    policy = Policy.load(folder, device="cpu")
    policy.save(tmp_path / "saved")
    assert Policy.load(tmp_path / "saved", device="cpu").digest() == policy.digest()
    policy._stored = None  # as of a base that no folder holds
    policy.save(tmp_path / "with base")
    assert Policy.load(tmp_path / "with base", device="cpu").digest() == policy.digest()
    export(find_source(str(folder)), tmp_path / "exported")
    for other in (Policy.load(tmp_path / "exported", device="cpu"), policy.merged()):
        torch.testing.assert_close(logits_of(other), logits_of(policy), rtol=0, atol=1e-4)
    before = logits_of(policy)
    policy.model = add_adapters(policy.model, 4, 0)
    torch.testing.assert_close(logits_of(policy), before, rtol=0, atol=1e-4)


def test_adapters_with_embeddings_of_added_tokens(zoo: Any, tmp_path: Path) -> None:
    """As trl saves a model whose chat template needed new tokens: the base has fewer embeddings."""
    policy = zoo.miniature("llama3.1")
    policy.save(tmp_path / "base")
    policy.tokenizer.add_special_tokens({"additional_special_tokens": ["<new>"]}, replace_extra_special_tokens=False)
    policy.model.resize_token_embeddings(len(policy.tokenizer) + 7)
    settings = peft.LoraConfig(r=2, target_modules=["q_proj"], modules_to_save=["embed_tokens", "lm_head"])
    tuned = Policy(peft.get_peft_model(policy.model, settings), policy.tokenizer, "tuned")
    shift(tuned).model.save_pretrained(tmp_path / "adapters")
    policy.tokenizer.save_pretrained(tmp_path / "adapters")
    about = tmp_path / "adapters" / "adapter_config.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "base_model_name_or_path": str(tmp_path / "base")}))
    again = Policy.load(tmp_path / "adapters", device="cpu")
    assert torch.equal(logits_of(again), logits_of(tuned)) and again.vocab_size == len(policy.tokenizer)
    again.save(tmp_path / "saved")
    assert Policy.load(tmp_path / "saved", device="cpu").digest() == again.digest()
    export(find_source(str(tmp_path / "adapters")), tmp_path / "exported")
    exported = Policy.load(tmp_path / "exported", device="cpu")
    torch.testing.assert_close(logits_of(exported), logits_of(tuned), rtol=0, atol=1e-4)


@pytest.mark.filterwarnings("ignore:.*(tie|embedding):UserWarning")
def test_adapters_on_one_of_two_tied_weights_are_never_merged(zoo: Any, tmp_path: Path) -> None:
    """Merging would change both weights: the policy plays, and a training or export that merges is refused."""
    folder = store_adapters(zoo, peft.LoraConfig(r=2, target_modules=["embed_tokens", "q_proj"]), tmp_path)
    policy = Policy.load(folder, device="cpu")
    HFEngine(policy).generate([policy.chat.opening("a")], SamplingParams(max_new_tokens=2), [0])
    for merge in (policy.merged, lambda: add_adapters(policy.model, 4, 0), policy.merge_adapters):
        with pytest.raises(PolicyError, match="adapters on the embeddings or the head do not merge"):
            merge()


def test_the_next_training_continues_equal_adapters_and_merges_others(base: Path) -> None:
    """The same rank: the same adapters on the same base. Another: merged, which changes no output, and new ones."""
    policy = adapted(base)
    before, weights = logits_of(policy), {name: p.clone() for name, p in policy.model.named_parameters()}
    Optimization(policy, OptimizerSettings(lora_rank=2), seed=1).close()
    assert all(torch.equal(p, weights[name]) for name, p in policy.model.named_parameters())
    assert {name for name, p in policy.model.named_parameters() if p.requires_grad} == {
        name for name in weights if "lora_" in name
    }
    Optimization(policy, OptimizerSettings(lora_rank=4), seed=1).close()
    torch.testing.assert_close(logits_of(policy), before, atol=1e-5, rtol=1e-5)
    assert policy.model.peft_config["default"].r == 4
    shift(policy)
    before = logits_of(policy)
    Optimization(policy, OptimizerSettings(), seed=1).close()
    assert not has_adapters(policy.model) and all(p.requires_grad for p in policy.model.parameters())
    torch.testing.assert_close(logits_of(policy), before, atol=1e-5, rtol=1e-5)


def test_the_fast_forward_takes_adapters(base: Path, tmp_path: Path) -> None:
    """In float32 on a CPU small Llamas with adapters run fused, and in other formats they keep the model's forward."""
    policy = adapted(base)
    assert isinstance(HFEngine(policy).runner.forward, FusedForward) and has_adapters(policy.model)
    assert not isinstance(HFEngine(adapted(base, dtype="bfloat16")).runner.forward, FusedForward)


def test_the_reference_of_continued_adapters_is_the_policy_as_it_came(toy_envs: Any, base: Path) -> None:
    """Not the base without adapters."""
    from agentgym_py.training.rl.learner import Learner
    from agentgym_py.training.settings import OnPolicySettings

    policy = adapted(base)
    records = toy_envs.records_of(policy)
    learner = Learner(policy, OnPolicySettings(lora_rank=2, learning_rate=0.1), seed=0, reference=True)
    learner.annotate(records)
    first = [record.ref_logps_n.clone() for record in records]
    own = learner._forward_all(records, learner.module, lambda out: out.logps_N)
    assert all(torch.equal(read, logps) for read, logps in zip(own, first, strict=True))
    shift(policy)
    learner.annotate(records)
    assert all(torch.equal(record.ref_logps_n, logps) for record, logps in zip(records, first, strict=True))


def test_experts_without_adapters_are_a_warning() -> None:
    """Adapters reach linear layers; the share of the weights that they leave as they are is said."""
    config: dict[str, int] = {"vocab_size": 40, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1}
    config |= {"num_attention_heads": 2, "num_key_value_heads": 2, "num_local_experts": 2}
    for family, experts in (("Mixtral", True), ("Llama", False)):
        model = getattr(transformers, f"{family}ForCausalLM")(getattr(transformers, f"{family}Config")(**config))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            add_adapters(model, 2, seed=0)
        said = [str(warning.message) for warning in caught if "experts" in str(warning.message)]
        assert len(said) == experts and all("do not change 4" in text and "% of the weights" in text for text in said)


def test_adapters_have_the_settings_of_their_training(toy_envs: Any, tmp_path: Path) -> None:
    """Alpha, dropout and layers; adapters with the same settings are trained further, others are merged first."""
    settings = OfflineSettings(lora_rank=2, lora_alpha=3, lora_dropout=0.5, lora_target_modules="q_proj, v_proj")
    policy = toy_envs.word_policy()
    with Fit("test", policy, settings, [Sample([1, 2, 3], [0, 1, 1])], seed=0, output_dir=None) as fit:
        for batch in fit.steps():
            for part in fit.microbatches(batch):
                fit.backward(-fit.row_logprobs(part).mean())
            fit.step()
    policy.save(tmp_path / "a")
    loaded = Policy.load(tmp_path / "a", device="cpu")
    config = loaded.model.peft_config["default"]
    assert (config.r, config.lora_alpha, config.lora_dropout) == (2, 3, 0.5)
    assert config.target_modules == {"q_proj", "v_proj"}
    names = [name for name, _ in loaded.model.named_parameters() if "lora_" in name]
    assert names and all("q_proj" in name or "v_proj" in name for name in names)
    assert add_adapters(loaded.model, 2, 0, **settings.lora) is loaded.model
    other = add_adapters(loaded.model, 2, 0)
    assert other is not loaded.model and other.peft_config["default"].lora_alpha == 4
    with pytest.raises(ConfigError, match=r"lora_target_modules: .*no_proj"):
        add_adapters(toy_envs.word_policy().model, 2, 0, target_modules=["no_proj"])


@pytest.mark.parametrize(
    ("kind", "values", "expected_text"),
    [
        (OfflineSettings, {"lora_alpha": 8}, "lora_alpha needs lora_rank above 0"),
        (OfflineSettings, {"lora_rank": 2, "lora_dropout": 1.0}, "lora_dropout must be below 1"),
        (OfflineSettings, {"lora_rank": 2, "lora_target_modules": " , "}, "lora_target_modules must be"),
        (OnPolicySettings, {"lora_rank": 2, "lora_dropout": 0.1}, "lora_dropout must be 0"),
    ],
)
def test_wrong_settings_of_adapters_are_refused(kind: Any, values: dict[str, Any], expected_text: str) -> None:
    """In one line."""
    with pytest.raises(ConfigError, match=expected_text):
        kind(**values)
