"""The originals as the tests play them, each where its package is installed."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parents[3] / "tests" / "envs" / "household" / "recorded" / "games.json.gz"


@dataclass(frozen=True)
class Original:
    """A world of the tests."""

    name: str
    modules: tuple[str, ...]
    """What it imports."""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    splits: tuple[str, ...] = ("train", "valid", "test")
    programs: tuple[str, ...] = ()

    @property
    def missing(self) -> str:
        """What is not installed, or an empty text."""
        modules = [module for module in self.modules if find_spec(module) is None]
        return ", ".join([*modules, *(program for program in self.programs if shutil.which(program) is None)])


BABYAI = Original("babyai", ("minigrid",), {"level": "BossLevel", "max_steps": 60})
SCIENCEWORLD = Original("scienceworld", ("scienceworld",), {"task_name": "find-plant"}, programs=("java",))
TEXTWORLD = Original("textworld", ("textworld",), {"challenge": "treasure_hunter", "settings": {"level": 11}})
ALFWORLD = Original("alfworld", ("alfworld", "textworld", "fast_downward"), splits=("train",))
ORIGINALS = (BABYAI, SCIENCEWORLD, TEXTWORLD, ALFWORLD)


def write_games(folder: Path) -> Path:
    """Write the recorded games as ALFWorld's data lie in its folder."""
    for name, text in json.loads(gzip.decompress(RECORDED.read_bytes())).items():
        stem, _, kind = name.partition(".")
        file = folder / "train" / stem / ("traj_data.json" if kind.startswith("traj") else "game.tw-pddl")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder
