"""Keep libraries silent: their progress bars and warnings."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """Switch off the bars of transformers, which would break those of a run."""
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
    """Silence what transformers says of its old names for recomputation, which peft and we call: version 5 has no others."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`(is_)?gradient_checkpointing(_enable|_disable)?` is deprecated", FutureWarning)
        yield
