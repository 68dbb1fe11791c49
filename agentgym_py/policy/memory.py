"""Garbage collections: between the phases of a run, not during imports, and without what is frozen."""

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


@contextmanager
def unfreeze_afterwards() -> Iterator[None]:
    """Undo `gc.freeze` within the block at its end, so that the caller's cyclic garbage is collected again.

    If objects were frozen before the block, all stay frozen, because Python unfreezes all or none.
    """
    are_frozen = gc.get_freeze_count() > 0
    try:
        yield
    finally:
        if not are_frozen:
            gc.unfreeze()


def release_memory() -> None:
    """Free models, caches and optimizers that nothing uses any more, on a GPU too.

    Python collects reference cycles after it has made many objects, not when a GPU is full; and torch keeps freed
    memory for tensors of the same sizes, which the next phase does not have.
    """
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
