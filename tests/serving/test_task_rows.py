"""Rows of tasks: an episode starts from a stored row as from its settings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentgym_py.env import EnvSpec
from agentgym_py.errors import AgentGymError
from agentgym_py.serving.task_rows import require_opening, rows_with, start_row, task_rows
from agentgym_py.serving.tool_episode import EpisodeSettings, ToolEpisode

SETTINGS = EpisodeSettings(EnvSpec("maze", {"difficulty": "easy"}), split="test", seed=3, prompt="brief")


def rows(tasks: Iterable[int]) -> Iterator[dict[str, Any]]:
    """The rows of tasks by these settings."""
    return task_rows(SETTINGS.spec, tasks, split=SETTINGS.split, seed=SETTINGS.seed, prompt=SETTINGS.prompt)


def test_a_row_starts_the_episode_of_its_settings() -> None:
    """Also after JSON: the same opening and the same state of the world, byte by byte."""
    for number, row in zip((0, 7), rows((0, 7)), strict=True):
        episode, direct = start_row(json.loads(json.dumps(row))), ToolEpisode(SETTINGS, number)
        assert episode.opening == direct.opening == row["opening"]
        assert episode.env.snapshot() == direct.env.snapshot() and episode.task.id == f"maze/test/easy/{number}"


def test_rows_have_the_columns_of_a_framework() -> None:
    """In place of the opening, of which they are made; what determines the episode wins."""
    made = rows_with(lambda number, opening, row: {"number": number, "prompt": opening, "seed": -1}, "maze", range(2))
    for number, (row, plain) in enumerate(zip(made, task_rows("maze", range(2)), strict=True)):
        assert row == {"number": number, "prompt": plain.pop("opening"), **plain}


def test_parquet_stores_rows_of_a_world_without_arguments(tmp_path: Path) -> None:
    """Of which it could not store an empty object."""
    datasets = pytest.importorskip("datasets")
    made = list(task_rows("maze", range(2)))
    datasets.Dataset.from_list(made).to_parquet(tmp_path / "rows.parquet")
    stored = datasets.Dataset.from_parquet(str(tmp_path / "rows.parquet"), cache_dir=str(tmp_path))
    assert list(stored) == made
    assert start_row(stored[1]).opening == made[1]["opening"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": None}, "task"), ({"world": "mase"}, "maze"), ({"world_kwargs": "{"}, "world_kwargs"),
        ({"world_kwargs": "[]"}, "object"), ({"rules": "long"}, "prompt"), ({"task": "maze/test/easy/x"}, "maze/test"),
        ({"seed": 1.9}, "seed must be an integer"), ({"seed": True}, "seed must"), ({"seed": -1}, "at least 0, not -1"),
    ],
)  # fmt: skip
def test_a_wrong_row_is_refused(change: dict[str, Any], message: str) -> None:
    """By what is wrong in it; a column that is None here is missing."""
    row = next(rows([0])) | change
    with pytest.raises(AgentGymError, match=message):
        start_row({name: value for name, value in row.items() if value is not None})


def test_a_prompt_must_be_what_the_world_says() -> None:
    """The last message is compared: a framework may add a system message."""
    one, other = rows([0, 1])
    episode, system = start_row(one), {"role": "system", "content": "Play."}
    require_opening(one, [system, {"role": "user", "content": one["opening"]}], episode)
    for prompt in ([{"role": "user", "content": other["opening"]}], []):
        with pytest.raises(AgentGymError, match="maze/test/easy/0 has another prompt"):
            require_opening(one, prompt, episode)
