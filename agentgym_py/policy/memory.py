"""Free memory between the phases of a run, and not during imports."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collections() -> Iterator[None]:
    """Run without garbage collections, which take an eighth of the time in which torch and transformers are imported.

    Imports make many objects and no garbage, and each full collection looks at all of them.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def release_memory() -> None:
    """Free models, caches and optimizers that nothing uses any more, on a GPU too.

    Python collects reference cycles after it has made many objects, not when a GPU is full; and torch keeps freed
    memory for tensors of the same sizes, which the next phase does not have.
    """
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
