"""A copy of the weights that sampled an iteration, which a failed step falls back on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

_FILE = "good.safetensors"


class WeightBackup:
    """The trained weights of a module, in the CPU's memory.

    `trained` yields the weights by name, and `round_into_model` is called after they were written to.
    `sharded`: the module is whole and the training works on a sharded copy of it, so the module keeps the weights that
    sampled even without a backup.
    """

    def __init__(
        self, trained: Callable[[], Iterator[tuple[str, nn.Parameter]]], round_into_model: Callable[[], None],
        sharded: bool,
    ) -> None:  # fmt: skip
        self.trained, self._round_into_model, self._sharded = trained, round_into_model, sharded
        self._saved = dict[str, Tensor]()
        self.restored = False
        """Whether the weights were restored."""

    def take(self) -> None:
        """Copy the weights of now, into the same memory each time; a GPU reads and writes it directly."""
        for name, parameter in self.trained():
            if name not in self._saved:
                on_gpu = parameter.device.type == "cuda"
                self._saved[name] = torch.empty_like(parameter, device="cpu", requires_grad=False, pin_memory=on_gpu)
            self._saved[name].copy_(parameter.detach())

    @torch.no_grad()
    def restore(self) -> str:
        """Restore the weights that were copied last; returns a sentence that says which weights there are now."""
        self.restored = True
        for name, parameter in self.trained():
            parameter.copy_(self._saved.get(name, parameter))
        self._round_into_model()
        if self._saved or self._sharded:
            return "the weights are those that sampled"
        return "the weights are those of the step before, which may be damaged too: max_ratio keeps those that sampled"

    def save(self, folder: Path) -> None:
        """Write the copy."""
        save_file(self._saved, folder / _FILE)

    def load(self, folder: Path) -> None:
        """Read the copy that `save` wrote."""
        self._saved = load_file(folder / _FILE)
