"""The global generators of Python and numpy, by which an env must not draw."""

from __future__ import annotations

import random  # noqa: TID251  # to catch an env that uses it
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

_SEED_OFFSET = 771_000
"""Added to a seed, so that it is none that an env sets itself."""
SEED_GLOBALS = f"""import random, numpy
random.seed({{number}} + {_SEED_OFFSET})
numpy.random.seed({{number}} + {_SEED_OFFSET})"""
"""The lines of Python that do what `seed_globals` does."""


@contextmanager
def seed_globals(number: int) -> Iterator[None]:
    """Seed the global generators of Python and numpy inside the block, and restore their states afterwards."""
    before = random.getstate(), np.random.get_state()  # noqa: NPY002  # to restore it
    random.seed(number + _SEED_OFFSET)
    np.random.seed(number + _SEED_OFFSET)  # noqa: NPY002  # as SEED_GLOBALS
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002  # as above
