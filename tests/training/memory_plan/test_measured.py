"""A plan's bytes are those of the tensors that live while miniatures are trained and played on a CPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.engine import HFEngine, SamplingParams
from agentgym_py.policy.tokens import Sample
from agentgym_py.training.fit import Fit
from agentgym_py.training.memory_plan import ModelConfig, Workload, plan_memory
from agentgym_py.training.memory_plan.tracing import LiveBytes
from agentgym_py.training.rl.batch import Record
from agentgym_py.training.rl.learner import Learner
from agentgym_trainers.filtered_bc import FilteredBC
from agentgym_trainers.grpo import GRPO, settings_loss

Dtype = Literal["float32", "bfloat16"]
LENGTH, AGENT = 256, 64
WORK = Workload(max_context=LENGTH, agent_share=AGENT / LENGTH, slots=8, kv_cache_gib=1.0)
TOLERANCE = 0.2
SMALL: dict[str, Any] = {"microbatch_tokens": LENGTH}


def predicted(policy: Any, trainer: Any, phase: str, dtype: Dtype = "float32") -> int:
    """Bytes of a plan beside the weights of the policy."""
    config = ModelConfig("miniature", policy.model.config.to_json_string(use_diff=False))
    plan = plan_memory(config, trainer, replace(WORK, dtype=dtype))
    return sum(getattr(part, phase) for part in plan.parts if part.name != "policy")


def record(length: int) -> Record:
    """A trajectory whose last tokens are the agent's."""
    ids = torch.arange(length) % 50
    agent = min(AGENT, length - 1)
    labels = torch.where(torch.arange(length) >= length - agent, ids, -100)
    zeros = torch.zeros(agent)
    return Record(ids, labels, zeros.long(), zeros - 3, advantages_n=torch.ones(agent), values_n=zeros, returns_n=zeros)


def bytes_of_fit(policy: Any, trainer: Any) -> int:
    """Largest number of bytes in a step of a short and a long sequence, after one of a short sequence."""
    rows = [Sample(list(range(n)), [0] * (n - agent) + [1] * agent) for n, agent in ((4, 3), (LENGTH, AGENT))]
    with LiveBytes() as counted, Fit("test", policy, trainer, rows, seed=0, output_dir=None) as fit:
        for batch in fit.steps([[0], [0, 1]]):
            for part in fit.microbatches(batch):
                fit.backward(*trainer.loss(fit, part, AGENT))
            fit.step()
        return counted.peak


def bytes_of_learner(policy: Any, trainer: Any) -> int:
    """As `bytes_of_fit`, on policy."""
    with LiveBytes() as counted:
        learner = Learner(policy, trainer, seed=0, reference=trainer.kl_coef > 0, entropy_gradient=False)
        for records in ([record(8)], [record(8), record(LENGTH)]):
            learner.annotate(records)
            learner.begin_step(records, "sequence")
            for batch in learner.microbatches(records):
                out = learner.forward(batch)
                learner.backward(settings_loss(trainer, out, batch), out, batch)
            learner.step()
        learner.optimization.close()
        return counted.peak


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("settings", [{}, {"gradient_checkpointing": True}, {"lora_rank": 4}], ids=str)
@pytest.mark.parametrize("family", ["qwen2.5", "gemma3"])
def test_a_training_takes_what_is_planned(family: str, settings: dict[str, Any], dtype: Dtype, zoo: Any) -> None:
    """All weights and adapters, with and without checkpointing, in both formats."""
    trainer, policy = FilteredBC(**SMALL, **settings), zoo.miniature(family, dtype)
    planned = predicted(policy, trainer, "training", dtype)
    measured = bytes_of_fit(policy, trainer)
    assert planned == pytest.approx(measured, rel=TOLERANCE)


@pytest.mark.parametrize("settings", [{"kl_coef": 0.1}, {"lora_rank": 4}], ids=str)
def test_an_on_policy_training_takes_what_is_planned(settings: dict[str, Any], zoo: Any) -> None:
    """With a reference model, and with adapters."""
    trainer, policy = GRPO(max_ratio=0.0, **SMALL, **settings), zoo.miniature("qwen3")
    planned = predicted(policy, trainer, "training")
    measured = bytes_of_learner(policy, trainer)
    assert planned == pytest.approx(measured, rel=TOLERANCE)


@pytest.mark.parametrize(("family", "prefill"), [("qwen2.5", 16), ("qwen2.5", 1024), ("mistral", 1024)])
def test_playing_takes_what_is_planned(family: str, prefill: int, zoo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache of every slot, the logits, and passes over prompts, which have a shared beginning and other lengths."""
    monkeypatch.setattr("agentgym_py.training.memory_plan.memory._PREFILL", prefill)
    policy = zoo.miniature(family)
    planned = predicted(policy, FilteredBC(), "playing")
    prompts = [[1] * 40 + [2 + slot] * (LENGTH - 48 - slot) for slot in range(WORK.slots)]
    with LiveBytes() as counted:
        engine = HFEngine(policy, WORK.slots, prefill_tokens=prefill)
        engine.generate(prompts, SamplingParams(temperature=0.7, max_new_tokens=8))
        measured = counted.peak
    assert planned == pytest.approx(measured, rel=TOLERANCE)
