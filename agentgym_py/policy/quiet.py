"""Keep libraries silent: their progress bars and warnings."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """Turn transformers' progress bars off; they would break those of a run."""
    from transformers.utils import logging

    before = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if before:
            logging.enable_progress_bar()


@contextmanager
def quiet() -> Iterator[None]:
    """Ignore warnings of old names for recomputation in transformers, which peft and we call."""
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "`(is_)?gradient_checkpointing(_enable|_disable)?` is deprecated", FutureWarning
        )
        yield
