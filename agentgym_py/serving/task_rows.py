"""Tasks as rows of a data set, for trainers whose workers know an episode's start from a row alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, TypedDict, Unpack

from agentgym_py.env import EnvSpec, Prompt
from agentgym_py.env.arguments import require_seed
from agentgym_py.errors import ConfigError
from agentgym_py.files import parse_json
from agentgym_py.serving.tool_episode import EpisodeSettings, ToolEpisode

COLUMNS = ("world", "world_kwargs", "task", "rules", "seed")
"""Columns that determine the start of an episode. `world_kwargs` is JSON, because parquet stores no empty object."""


class RowOptions(TypedDict, total=False):
    """How the episodes of rows start."""

    split: str
    """Split of the tasks; by default `train`."""
    prompt: Prompt
    """Which rules text opens an episode; by default `full`."""
    seed: int
    """Seed of the worlds: the same seed and task start in the same state. By default 0."""


def task_rows(env: EnvSpec | str, tasks: Iterable[int], **options: Unpack[RowOptions]) -> Iterator[dict[str, Any]]:
    """Yield a row for each task: `COLUMNS`, and `opening`, which is the first user turn.

    Args:
        env: The world.
        tasks: Numbers of the tasks.
        **options: `split`, `prompt` and `seed`, as in `RowOptions`.

    Raises:
        ConfigError, UnknownNameError: an argument is wrong, or there is no such world or task.
    """
    settings = EpisodeSettings(EnvSpec(env) if isinstance(env, str) else env, **options)
    spec = settings.spec
    with closing(spec.make()) as world:
        for task in (world.task(number, settings.split).id for number in tasks):
            yield {
                "world": spec.name, "world_kwargs": json.dumps(dict(spec.kwargs)), "task": task,
                "rules": settings.prompt, "seed": settings.seed, "opening": settings.opening(world, task),
            }  # fmt: skip


def rows_with(
    columns: Callable[[int, str, Mapping[str, Any]], Mapping[str, Any]],
    env: EnvSpec | str,
    tasks: Iterable[int],
    **options: Unpack[RowOptions],
) -> list[dict[str, Any]]:
    """Return the rows of `task_rows` with a framework's columns in place of the opening.

    `columns` takes the number of a row, its opening and the row without it; the row's own columns win.
    """
    rows = enumerate(task_rows(env, tasks, **options))
    return [{**columns(number, row.pop("opening"), row), **row} for number, row in rows]


def start_row(row: Mapping[str, Any]) -> ToolEpisode:
    """Start the episode of a row.

    Raises:
        ConfigError: a column is missing or wrong.
        UnknownNameError: there is no such world or task.
        InfrastructureError: the world failed.
    """
    if missing := [name for name in COLUMNS if name not in row]:
        raise ConfigError(f"a row of tasks needs the column {missing[0]!r}; it has {', '.join(sorted(row))}")
    try:
        kwargs = parse_json(row["world_kwargs"])
    except (TypeError, ValueError) as error:
        raise ConfigError(f"world_kwargs must be JSON, got {row['world_kwargs']!r:.100}") from error
    if not isinstance(kwargs, dict):
        raise ConfigError(f"world_kwargs must be a JSON object, got {row['world_kwargs']!r:.100}")
    spec = EnvSpec(str(row["world"]), kwargs)
    return ToolEpisode(EpisodeSettings(spec, seed=require_seed(row["seed"]), prompt=row["rules"]), str(row["task"]))


def require_opening(row: Mapping[str, Any], prompt: Sequence[Mapping[str, Any]], episode: ToolEpisode) -> None:
    """Raise ConfigError unless the last message of a row's prompt is what opens its episode."""
    if not prompt or prompt[-1].get("content") != episode.opening:
        raise ConfigError(
            f"the row of {row['task']} has another prompt than its world: make the data set again with `rows`"
        )
