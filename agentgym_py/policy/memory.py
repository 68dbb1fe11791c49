"""Free memory between the phases of a run."""

from __future__ import annotations

import gc
import sys


def release_memory() -> None:
    """Free models, caches and optimizers that nothing uses any more, on a GPU too.

    Python collects reference cycles after it has made many objects, not when a GPU is full; and torch keeps freed
    memory for tensors of the same sizes, which the next phase does not have.
    """
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
