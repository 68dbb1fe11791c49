"""The copy of the weights that sampled."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.training.rl.backup import WeightBackup


def test_copies_reuse_their_memory() -> None:
    """A copy holds the weights of now in the memory of the copy before, and restores them."""
    layer = torch.nn.Linear(3, 2)
    backup = WeightBackup(layer.named_parameters, lambda: None, sharded=False)
    backup.take()
    places = [saved.data_ptr() for saved in backup._saved.values()]
    with torch.no_grad():
        layer.weight += 1
        expected = layer.weight.clone()
        backup.take()
        layer.weight += 1
    assert [saved.data_ptr() for saved in backup._saved.values()] == places
    assert backup.restore() == "the weights are those that sampled" and layer.weight.equal(expected)
