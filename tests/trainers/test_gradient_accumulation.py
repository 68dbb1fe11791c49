from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file

from agentgym_py.trajectory import Trajectory
from agentgym_trainers.dpo import DPO
from agentgym_trainers.orpo import ORPO
from agentgym_trainers.ranking import Ranking
from agentgym_trainers.reward_model import RewardModelling


@pytest.fixture(scope="module")
def played(episode: Any) -> list[Trajectory]:
    """Of each of four tasks a good and a bad trajectory, of different lengths."""
    said = ("search cup", "open it", "buy it", "leave")
    good = [episode(*said[: n + 1], task=f"task {n}", id=f"good {n}") for n in range(4)]
    bad = [episode("go back", *said[n:], task=f"task {n}", id=f"bad {n}", reward=0.0, success=False) for n in range(4)]
    return [*good, *bad]


@pytest.mark.parametrize("kind", [DPO, ORPO, Ranking, RewardModelling])
def test_a_split_batch_makes_the_same_steps(
    kind: Any, tiny_policy: Any, played: list[Trajectory], tmp_path: Path, fresh: Any, proofs: Any
) -> None:
    """A step of one batch of four, of two of two or of four of one ends at the same weights, to 1e-6.

    Not KTO's: the reference point of its loss is a batch's own, as in the paper.
    """
    ended = []
    for size, accumulate in ((4, 1), (2, 2), (1, 4)):
        policy, folder = proofs.doubled(fresh(tiny_policy)), tmp_path / str(size)
        before = torch.cat([each.detach().flatten() for each in policy.model.parameters()])
        trainer = kind(epochs=3, batch_size=size, gradient_accumulation=accumulate, learning_rate=1e-3)
        report = trainer.train(policy, played, seed=0, output_dir=folder)
        assert len(report.loss) == 3
        if kind is RewardModelling:
            found = [w for file in sorted(folder.rglob("*.safetensors")) for _, w in sorted(load_file(file).items())]
            assert len({each.dtype for each in found}) == 1
        else:
            found = list(policy.model.parameters())
            assert (torch.cat([each.detach().flatten() for each in found]) - before).abs().max() > 5e-4
        ended.append(torch.cat([each.detach().flatten() for each in found]))
    for other in ended[1:]:
        torch.testing.assert_close(other, ended[0], rtol=0, atol=1e-6)
