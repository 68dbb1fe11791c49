"""The index of tools: a table of feature vectors, and the vectors of the tools; searched with NumPy alone.

    v(text) = sum over features f of  w_f E_f,  divided by its length
    score(query, tool) = v(query) . v(tool)

Its folder holds `index.json` (the tools and their texts), `features.npy` (R x D) and `tools.npy` (N x D).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym_py.errors import AgentGymError, ConfigError, DataError
from agentgym_py.files import (
    MOST_BYTES,
    add_filename,
    inside,
    load_json,
    missing_file_hint,
    replacing,
)
from agentgym_py.retrieval.features import features_of, words_of
from agentgym_py.retrieval.types import document_of

Floats = NDArray[np.float32]
_FILE, _FEATURES, _TOOLS = "index.json", "features.npy", "tools.npy"
_VERSION = 1
_DIGITS = 5
"""Decimals of a score that count, because the last bits of a sum differ between machines."""


@dataclass(frozen=True, slots=True, eq=False)
class ToolIndex:
    """Finds tools by the meaning of a text."""

    texts: Mapping[str, str]
    """The text of each of the N tools, by name."""
    features: Floats  # (R, D)
    tools: Floats  # (N, D), each of length 1
    digest: str = field(init=False)
    """First 16 hex digits of the SHA-256 of all of these: what a search finds depends on nothing else."""

    def __post_init__(self) -> None:
        total = hashlib.sha256(repr((dict(self.texts), self.features.shape)).encode())
        for vectors in (self.features, self.tools):
            total.update(np.ascontiguousarray(vectors, dtype="<f4").tobytes())
        object.__setattr__(self, "digest", total.hexdigest()[:16])

    @classmethod
    def of(cls, texts: Mapping[str, str], features: Floats) -> ToolIndex:
        """Make the index of tools from the vectors of features.

        Raises:
            ConfigError: there is no tool.
        """
        if not texts:
            raise ConfigError("an index needs at least one tool")
        return cls(dict(texts), features, embed([document_of(*tool) for tool in texts.items()], features))

    def search(self, texts: Sequence[str], k: int) -> list[list[str]]:
        """Return the names of the k best tools for each text, the best first.

        A query that is a tool's name or text, in any case, finds that tool first. Next come tools whose name or text
        has the same words. A name counts before a text, and of equal ones the earlier tool comes first.
        """
        names = list(self.texts)
        scores_QN = np.round(embed(texts, self.features) @ self.tools.T, _DIGITS)
        orders = np.argsort(-scores_QN, axis=1, kind="stable")[:, :k]
        texts_of = [*((name, name) for name in names), *((text, name) for name, text in self.texts.items())]
        exact = {text.casefold(): name for text, name in reversed(texts_of)}  # the first one wins
        plain = {words: name for text, name in reversed(texts_of) if (words := _plain(text))}
        found = list[list[str]]()
        for text, order in zip(texts, orders, strict=True):
            best = [names[place] for place in order]
            if (own := exact.get(text.casefold(), plain.get(_plain(text)))) is not None:
                best = [own, *(name for name in best if name != own)][:k]
            found.append(best)
        return found

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the index, `index.json` last; on a full disk nothing of it is left, and an older index stays."""
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        about = json.dumps({"version": _VERSION, "texts": dict(self.texts)}, indent=1, ensure_ascii=False) + "\n"
        try:
            with ExitStack() as files:  # all are written before one replaces another, the last one first
                for name, content in (
                    (_FILE, about.encode()), (_TOOLS, _saved(self.tools)), (_FEATURES, _saved(self.features))
                ):  # fmt: skip
                    files.enter_context(add_filename(path / name))
                    partial = files.enter_context(replacing(path / name))
                    partial.write_bytes(content)
        except OSError:
            with suppress(OSError):  # it holds other files
                path.rmdir()
            raise

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> ToolIndex:
        """Read an index; one that has not changed is read once.

        Raises:
            DataError: the folder holds no index, or a damaged one.
        """
        path = Path(folder).absolute()
        if not (path / _FILE).is_file():
            raise DataError(f"{folder} holds no index of tools: {missing_file_hint(path, _FILE)}")
        return _load(path, (path / _FILE).stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _load(path: Path, changed: int) -> ToolIndex:
    """Read the index of a folder that was last changed at a time."""
    del changed
    try:
        about: Any = load_json(inside(path, _FILE))
        if about["version"] != _VERSION:
            raise ValueError(f"its version is {about['version']!r}")
        texts = {str(name): str(text) for name, text in about["texts"].items()}
        features, tools = (_load_vectors(inside(path, name)) for name in (_FEATURES, _TOOLS))
        if tools.shape != (len(texts), features.shape[1]):
            raise ValueError(f"its shapes are {features.shape} and {tools.shape} for {len(texts)} tools")
        if not (np.isfinite(features).all() and np.isfinite(tools).all()):
            raise ValueError("it has numbers that are not finite")
    except (AgentGymError, OSError, ValueError, LookupError, TypeError, AttributeError, MemoryError) as error:
        raise DataError(f"{path} holds no index of tools that opens: {error}; make it again") from error
    return ToolIndex(texts, features, tools)


def _saved(vectors: Floats) -> bytes:
    """The content of a file of numpy's, which itself does not say why a file cannot be written."""
    buffer = io.BytesIO()
    np.save(buffer, vectors, allow_pickle=False)
    return buffer.getvalue()


def _load_vectors(path: Path) -> Floats:
    """Read a table of numbers; ValueError if it is none, or too large."""
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"{path.name} has more than {MOST_BYTES >> 20} MiB")
    try:
        table = np.load(path, allow_pickle=False)
    except Exception as error:  # a damaged header is parsed as Python's literals, which raises anything
        raise ValueError(f"{path.name}: {error!r:.200}") from error
    if not (isinstance(table, np.ndarray) and table.ndim == 2 and table.dtype.kind == "f" and len(table)):
        raise ValueError(f"{path.name} is no table of numbers")
    with np.errstate(over="ignore"):  # numbers beyond float32 become infinite, which is refused
        return np.asarray(table, np.float32)


def embed(texts: Iterable[str], features: Floats) -> Floats:
    """Return the vectors of N texts, (N, D), each of length 1; of a text without features it is 0."""
    rows = [features_of(text, len(features)) for text in texts]
    sums_ND = np.stack([weights @ features[places] for places, weights in rows]) if rows else features[:0]
    lengths_N1 = np.linalg.norm(sums_ND, axis=1, keepdims=True)
    return np.asarray(sums_ND / np.maximum(lengths_N1, 1e-12), dtype=np.float32)


def _plain(text: str) -> str:
    return " ".join(words_of(text))
