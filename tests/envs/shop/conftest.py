"""WebShop's own recordings, read once."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Most catalogues here are small and untagged on purpose; the test of the warning asks for it."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:.*name_nouns.json has no nouns"))


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


@pytest.fixture(scope="session")
def folders(golden: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The recorded catalogue as folders: with goals and prices of `synthetic` and `human` episodes, and `bare`."""
    made = {kind: tmp_path_factory.mktemp(kind) for kind in ("synthetic", "human", "bare")}
    for kind, folder in made.items():
        files = {"items_shuffle": "items", "items_ins_v2": "items_ins_v2", "items_human_ins": "items_human_ins"}
        contents = {name: golden[key] for name, key in files.items()}
        if kind != "bare":
            contents["goals"] = golden[kind]["goals"]
            contents["prices"] = golden[kind]["product_prices"]
            contents["name_nouns"] = golden["name_nouns"]
        for name, content in contents.items():
            (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return made
