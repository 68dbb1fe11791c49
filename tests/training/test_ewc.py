"""EWC: Fisher information, the merged quadratic and its gradient against slow references, and trainings with it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.agents import ExpertAgent
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError, RunError
from agentgym_py.policy import Policy
from agentgym_py.policy.adapters import add_adapters
from agentgym_py.policy.tokens import Sample, encode
from agentgym_py.training.ewc import Anchor, anchor_of, fisher_information
from agentgym_py.training.progress import Progress
from agentgym_py.trajectory import Trajectory
from agentgym_trainers.filtered_bc import FilteredBC


@pytest.fixture(scope="module")
def demos() -> list[Trajectory]:
    """Four expert trajectories of the shop."""
    return Collector(ExpertAgent()).collect_batch(jobs_for([EnvSpec("shop")], "train", range(4)))


def clone(policy: Policy) -> Policy:
    """A copy that can be trained."""
    return Policy(copy.deepcopy(policy.model), policy.tokenizer, "base")


def draw(seed: int) -> Anchor:
    """A random quadratic of two weights; some of its Fisher information is 0."""
    generator = torch.Generator().manual_seed(seed)
    shapes = {"a": (3, 2), "b": (4,)}
    fisher = {name: torch.rand(shape, generator=generator).double() for name, shape in shapes.items()}
    for tensor in fisher.values():
        tensor[0] = 0
    return Anchor(fisher, {name: torch.randn(shape, generator=generator).double() for name, shape in shapes.items()})


def test_the_quadratics_of_several_tasks_are_one() -> None:
    """Merged they differ from their sum, a loop over tasks and weights, by a constant; and have its gradient."""
    tasks, strength = [draw(seed) for seed in range(3)], 0.7
    merged = tasks[0].merge(tasks[1]).merge(tasks[2])

    def slow(weights: dict[str, Any]) -> Any:
        total = torch.zeros((), dtype=torch.float64)
        for task in tasks:
            for name, weight in weights.items():
                for i in range(weight.numel()):
                    gap = weight.flatten()[i] - task.center[name].flatten()[i]
                    total = total + strength / 2 * task.fisher[name].flatten()[i] * gap**2
        return total

    differences = []
    for seed in range(4):
        points = {name: torch.nn.Parameter(tensor.float()) for name, tensor in draw(100 + seed).center.items()}
        penalty = merged.add_gradient(points, strength)
        exact = {name: point.detach().double().requires_grad_() for name, point in points.items()}
        value = slow(exact)
        value.backward()
        differences.append(float(value.detach()) - penalty)
        for name, point in points.items():
            torch.testing.assert_close(point.grad.double(), exact[name].grad, rtol=1e-4, atol=1e-5)
        before = {name: point.grad.clone() for name, point in points.items()}
        assert merged.add_gradient(points, strength, adds=False) == penalty
        merged.add_gradient(points, strength)
        for name, point in points.items():
            torch.testing.assert_close(point.grad, 2 * before[name])  # it is added, as the loss's own
    assert differences == pytest.approx([differences[0]] * 4, rel=1e-4)
    at_the_center = {name: torch.nn.Parameter(tensor.float()) for name, tensor in tasks[0].center.items()}
    assert tasks[0].add_gradient(at_the_center, strength) == pytest.approx(0.0, abs=1e-10)


def test_fisher_information_is_the_mean_of_squared_gradients(tiny_policy: Policy, demos: list[Trajectory]) -> None:
    """Against a loop over trajectories with log-probabilities of the whole softmax; the policy stays as it is."""
    policy = clone(tiny_policy)
    samples: list[Sample] = [encode(trajectory, policy.chat) for trajectory in demos]
    digest = policy.digest()
    found = fisher_information(policy, samples)
    assert policy.digest() == digest and all(p.grad is None for p in policy.model.parameters())
    weights = dict(policy.model.named_parameters())
    sums, tokens = {name: torch.zeros_like(weight) for name, weight in weights.items()}, 0
    for sample in samples:
        logits = policy.model(input_ids=torch.tensor([sample.input_ids])).logits[0]
        logps = torch.log_softmax(logits.double(), -1)
        total = torch.zeros((), dtype=torch.float64)
        for t in range(1, len(sample.input_ids)):
            if sample.mask[t]:
                total, tokens = total + logps[t - 1, sample.input_ids[t]], tokens + 1
        gradients = torch.autograd.grad(total, list(weights.values()), allow_unused=True)
        for name, gradient in zip(weights, gradients, strict=True):
            if gradient is not None:
                sums[name] += gradient**2
    assert found.keys() == weights.keys()
    for name, total in sums.items():
        torch.testing.assert_close(found[name], total / tokens, rtol=1e-3, atol=1e-7)
    assert all((tensor >= 0).all() for tensor in found.values())


def stop_after(steps: int) -> Progress:
    """Interrupts a training after some steps."""

    def progress(done: int, total: int) -> None:
        if done == steps:
            raise KeyboardInterrupt

    return progress


def test_a_training_is_held_back_and_resumes(tiny_policy: Policy, demos: list[Trajectory], tmp_path: Path) -> None:
    """The stronger the penalty, the nearer the weights stay in the metric of the Fisher information.

    A resumed training has the same weights, also from another folder; another anchor is another training.
    """
    first, second = demos[:2], demos[2:]
    start = clone(tiny_policy)
    path = tmp_path / "anchors" / "00.safetensors"
    anchor_of(start, first).save(path)
    anchor = Anchor.load(path)

    def train(strength: float, folder: str, progress: Progress | None = None, file: Path = path) -> Any:
        policy = clone(tiny_policy)
        trainer = FilteredBC(
            epochs=4, batch_size=1, checkpoint_minutes=0.0, learning_rate=2e-3, ewc_lambda=strength,
            ewc_anchor=file if strength else None,
        )  # fmt: skip
        report = trainer.train(policy, second, seed=0, output_dir=tmp_path / folder, progress=progress)
        moved = anchor.to(dict(policy.model.named_parameters())).add_gradient(
            dict(policy.model.named_parameters()), 1.0, adds=False
        )
        return policy.digest(), moved, report

    plain, weak, strong = (train(strength, f"t{strength}") for strength in (0.0, 1e2, 1e4))
    assert plain[1] > weak[1] > strong[1] > 0
    assert "ewc_penalty" in strong[2].history[0] and "ewc_penalty" not in plain[2].history[0]
    assert strong[2].history[0]["ewc_penalty"] == 0.0  # at the first step nothing has moved
    with pytest.raises(KeyboardInterrupt):
        train(1e2, "killed", stop_after(3))
    moved = tmp_path / "elsewhere.safetensors"
    path.rename(moved)
    other = tmp_path / "other.safetensors"
    anchor_of(start, second).save(other)
    with pytest.raises(RunError, match="state of another training"):
        train(1e2, "killed", file=other)
    assert train(1e2, "killed", file=moved)[0] == weak[0]


def test_wrong_anchors_are_refused(tiny_policy: Policy, demos: list[Trajectory], tmp_path: Path) -> None:
    """A missing, damaged or foreign file; adapters; a strength without an anchor, and the other way round."""
    path = tmp_path / "a.safetensors"
    path.write_bytes(b"nothing")

    def train(**settings: Any) -> None:
        FilteredBC(epochs=1, **settings).train(clone(tiny_policy), demos, seed=0, output_dir=tmp_path / "t")

    wrong: list[tuple[type[Exception], str, Callable[[], object]]] = [
        (ConfigError, "ewc_lambda needs", lambda: train(ewc_lambda=1.0)),
        (RunError, "no such file", lambda: train(ewc_lambda=1.0, ewc_anchor=tmp_path / "none")),
        (RunError, "holds no anchor", lambda: train(ewc_lambda=1.0, ewc_anchor=path)),
        (ConfigError, "ewc_anchor needs", lambda: FilteredBC(ewc_anchor=path)),
        (ConfigError, "lora_rank 0", lambda: FilteredBC(ewc_lambda=1.0, lora_rank=2)),
        (ConfigError, "ewc_lambda must be", lambda: FilteredBC(ewc_lambda=-1.0)),
    ]
    for kind, message, call in wrong:
        with pytest.raises(kind, match=message):
            call()
    draw(0).save(path)
    with pytest.raises(ConfigError, match="of another model"):
        train(ewc_lambda=1.0, ewc_anchor=path)
    adapted = clone(tiny_policy)
    adapted.model = add_adapters(adapted.model, 2, 0)
    with pytest.raises(ConfigError, match="no adapters"):
        fisher_information(adapted, [])
