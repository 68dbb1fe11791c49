"""Keep libraries silent: their progress bars and warnings."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """Turn transformers' progress bars off, because they would break those of a run."""
    from transformers.utils import logging

    before = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if before:
            logging.enable_progress_bar()


@contextmanager
def ignore_checkpointing_warnings() -> Iterator[None]:
    """Ignore deprecation warnings of transformers' gradient checkpointing, which peft calls by its old names."""
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "`(is_)?gradient_checkpointing(_enable|_disable)?` is deprecated", FutureWarning
        )
        yield
