from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file

from agentgym_py.training.fit import Fit
from agentgym_py.trajectory import Trajectory
from agentgym_trainers.dpo import DPO
from agentgym_trainers.filtered_bc import FilteredBC
from agentgym_trainers.kto import KTO
from agentgym_trainers.orpo import ORPO
from agentgym_trainers.ranking import Ranking
from agentgym_trainers.reward_model import RewardModelling
from agentgym_trainers.weighted_bc import WeightedBC


@pytest.fixture(scope="module")
def played(episode: Any) -> list[Trajectory]:
    """Of each of four tasks a good and a bad trajectory, of different lengths."""
    said = ("search cup", "open it", "buy it", "leave")
    good = [episode(*said[: n + 1], task=f"task {n}", id=f"good {n}") for n in range(4)]
    bad = [episode("go back", *said[n:], task=f"task {n}", id=f"bad {n}", reward=0.0, success=False) for n in range(4)]
    return [*good, *bad]


def ended(kind: Any, policy: Any, played: list[Trajectory], folder: Path, **settings: Any) -> Any:
    """All weights after three epochs; of a reward model those of its files."""
    before = torch.cat([each.detach().flatten() for each in policy.model.parameters()])
    report = kind(**{"epochs": 3, "learning_rate": 1e-3} | settings).train(policy, played, seed=0, output_dir=folder)
    assert len(report.loss) == 3
    if kind is RewardModelling:
        found = [w for file in sorted(folder.rglob("*.safetensors")) for _, w in sorted(load_file(file).items())]
        assert len({each.dtype for each in found}) == 1
    else:
        found = list(policy.model.parameters())
        assert (torch.cat([each.detach().flatten() for each in found]) - before).abs().max() > 5e-4
    return torch.cat([each.detach().flatten() for each in found])


@pytest.mark.parametrize("kind", [FilteredBC, WeightedBC, DPO, ORPO, Ranking, RewardModelling])
def test_a_split_batch_makes_the_same_steps(
    kind: Any, tiny_policy: Any, played: list[Trajectory], tmp_path: Path, fresh: Any, loss_checks: Any
) -> None:
    """A step of one batch, of two or of four halves and quarters of it ends at the same weights, to 1e-6.

    Not KTO's: the reference point of its loss is a batch's own, as in the paper.
    """
    rows = len(played) if kind is WeightedBC else len(played) // 2
    weights = [
        ended(
            kind, loss_checks.doubled(fresh(tiny_policy)), played, tmp_path / str(parts),
            batch_size=rows // parts, gradient_accumulation=parts,
        )
        for parts in (1, 2, 4)
    ]  # fmt: skip
    for other in weights[1:]:
        torch.testing.assert_close(other, weights[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", [FilteredBC, WeightedBC, DPO, KTO, ORPO, Ranking, RewardModelling])
def test_microbatches_make_the_same_steps(
    kind: Any, tiny_policy: Any, played: list[Trajectory], tmp_path: Path, fresh: Any, loss_checks: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """However few tokens go through the model at once, the weights end the same, to 1e-6."""
    rows, weights, passes = len(played) if kind in (WeightedBC, KTO) else len(played) // 2, [], []
    for tokens in (100_000, 200 if kind is FilteredBC else 400, 1):
        calls, backward = list[int](), Fit.backward
        with monkeypatch.context() as patch:
            patch.setattr(
                Fit, "backward", lambda *given, calls=calls, backward=backward: calls.append(1) or backward(*given)
            )
            policy, folder = loss_checks.doubled(fresh(tiny_policy)), tmp_path / str(tokens)
            weights.append(ended(kind, policy, played, folder, batch_size=rows, microbatch_tokens=tokens))
        passes.append(len(calls))
    members = passes[0] // 3
    assert passes[0] == 3 * members < passes[1] < passes[2] == 3 * members * rows
    for other in weights[1:]:
        torch.testing.assert_close(other, weights[0], rtol=0, atol=1e-6)
