"""Every family of the zoo is trained, saved and exported: whole and by adapters, in float32 and bfloat16."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from agentgym_py.collection.rollouts import with_score
from agentgym_py.policy import Policy
from agentgym_py.policy.logprobs import agent_logits, agent_logprobs, pad_samples
from agentgym_py.policy.tokens import encode
from agentgym_py.report.export import export, find_source
from agentgym_py.trajectory import Trajectory
from agentgym_trainers.dpo import DPO
from agentgym_trainers.filtered_bc import FilteredBC
from agentgym_trainers.grpo import GRPO

FAMILIES = (
    "qwen2.5", "qwen3", "llama3.1", "llama3.2", "gemma2", "gemma3", "mistral", "phi3.5", "phi4-mini", "smollm2",
    "smollm3",
)  # fmt: skip
HOW = {"whole": ("float32", 0), "adapters": ("float32", 2), "bf16": ("bfloat16", 0), "bf16-adapters": ("bfloat16", 2)}
"""Number format and rank of adapters."""


def episodes(policy: Policy, toy_envs: Any, count: int = 4) -> tuple[Any, list[Trajectory]]:
    """Rollouts, and two episodes of each of two tasks, of which one is good."""
    rollouts = toy_envs.rollouts(policy, toy_envs.CHAIN, 4 + count, tasks=2, tokens=4)
    rollouts.scorer = lambda trajectories: [float(number % 2) for number in range(len(trajectories))]
    played = [trajectory for group in rollouts.groups(2, 2) for trajectory in group]
    return rollouts, [replace(with_score(t, float(n % 2)), success=bool(n % 2)) for n, t in enumerate(played)]


def logprobs(policy: Policy, trajectories: list[Trajectory]) -> Any:
    """Log-probabilities of the episodes' replies."""
    samples = [encode(trajectory, policy.chat) for trajectory in trajectories]
    with torch.no_grad():
        return agent_logprobs(agent_logits(policy.model, *pad_samples(samples)))


CASES = [
    pytest.param(name, how, marks=[] if list(HOW)[number % len(HOW)] == how else [pytest.mark.slow])
    for number, name in enumerate(FAMILIES)
    for how in HOW
]
"""Every family in every way; the default run has one way of each, and every way."""


@pytest.mark.parametrize(("name", "how"), CASES)
def test_a_family_is_trained_and_saved(name: str, how: str, zoo: Any, toy_envs: Any, tmp_path: Path) -> None:
    """A step of SFT, DPO and GRPO changes the policy, and a saved checkpoint is the policy that was trained."""
    dtype, rank = HOW[how]
    policy = zoo.miniature(name, dtype)
    rollouts, played = episodes(policy, toy_envs)
    settings: dict[str, Any] = {"learning_rate": 1e-3, "lora_rank": rank}
    before = policy.digest()
    for trainer in (FilteredBC(epochs=1, **settings), DPO(epochs=1, **settings)):
        report = trainer.train(policy, played, seed=0, output_dir=tmp_path / "training")
        assert all(torch.isfinite(torch.tensor(report.loss)))
        before, last = policy.digest(), before
        assert before != last
    grpo = GRPO(tasks_per_iteration=2, group_size=2, **settings)
    report = grpo.improve(policy, rollouts, seed=0, output_dir=tmp_path / "training")
    assert policy.digest() != before and all(torch.isfinite(torch.tensor(report.loss)))
    policy.save(tmp_path / "checkpoint")
    again = Policy.load(tmp_path / "checkpoint", dtype=dtype)
    close = {"rtol": 0, "atol": 1e-5 if dtype == "float32" else 0.05}
    torch.testing.assert_close(logprobs(again, played), logprobs(policy, played), **close)
    if how == "adapters":
        export(find_source(str(tmp_path / "checkpoint")), tmp_path / "exported")
        exported = Policy.load(tmp_path / "exported")
        torch.testing.assert_close(logprobs(exported, played), logprobs(policy, played), rtol=0, atol=1e-4)
