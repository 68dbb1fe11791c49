"""What `benchmarks/fuzz.py` runs: a reader, its inputs, and the errors with which it refuses them."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzz_samples import (
    flip,
    flips,
)
from hypothesis import strategies as st

from agentgym_py.errors import AgentGymError


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader, its inputs, and the errors with which it refuses them."""

    inputs: st.SearchStrategy[Any]
    read: Callable[[Any], object]
    refuses: tuple[type[Exception], ...] = (AgentGymError,)

    def accepts(self, value: Any) -> None:
        """Read a value; any error but a refusal is a finding."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with suppress(*self.refuses):
                self.read(value)


def flipped(sample: bytes, read: Callable[[bytes], None]) -> Reader:
    """Return a reader of a sample of which some bytes have changed, or the end is missing."""
    return Reader(flips, lambda change: read(flip(sample, change)))


def in_file(
    name: str, read: Callable[[Path], object], others: Mapping[str, bytes] | None = None
) -> Callable[[bytes], None]:
    """Return a reader of bytes, which are put into a file of a new folder, beside other files."""

    def reader(data: bytes) -> None:
        with tempfile.TemporaryDirectory(prefix="agentgym-fuzz") as folder:
            for place, content in {**(others or {}), name: data}.items():
                (Path(folder) / place).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / place).write_bytes(content)
            read(Path(folder) / name)

    return reader


def as_text(data: bytes) -> str:
    """Return bytes as text."""
    return data.decode("utf-8", "replace")
