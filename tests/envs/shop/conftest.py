"""WebShop's own recordings, read once."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

_RECORDINGS = Path(__file__).parents[2] / "fixtures" / "webshop"


def _read(name: str) -> dict[str, Any]:
    with gzip.open(_RECORDINGS / f"{name}.json.gz", "rt", encoding="utf-8") as file:
        recording: dict[str, Any] = json.load(file)
    return recording


@pytest.fixture(scope="session")
def golden() -> dict[str, Any]:
    """A catalogue in WebShop's formats, its goals, recorded episodes and Lucene's rankings."""
    return _read("golden_traces")


@pytest.fixture(scope="session")
def reward_cases() -> dict[str, Any]:
    """Purchases with every part of WebShop's reward, and rows of `token_set_ratio` and `normalize_color`."""
    return _read("reward_cases")
