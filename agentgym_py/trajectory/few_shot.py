"""Episodes as examples in a prompt (few-shot prompting)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym_py.errors import ConfigError
from agentgym_py.trajectory.types import Trajectory, opening_text

if TYPE_CHECKING:
    from agentgym_py.trajectory.formats.rows import Message


def read_few_shot(path: str | Path) -> list[Trajectory]:
    """Read the episodes of a file that serve as examples.

    Raises:
        ConfigError: there is none with a step.
        DataError: the file cannot be read.
    """
    from agentgym_py.trajectory.reading import read_any  # here, because it imports all formats

    examples = [trajectory for trajectory in read_any(path) if trajectory.steps]
    if not examples:
        raise ConfigError(f"few_shot: {path} holds no episode with a step")
    return examples


def few_shot_messages(examples: Sequence[Trajectory]) -> list[Message]:
    """Return examples as turns of a chat, up to the last reply of each."""
    turns: list[Message] = []
    for example in examples:
        for number, step in enumerate(example.steps):
            text = step.observation if number else opening_text(example.rules, step.observation)
            turns += [{"role": "user", "content": text}, {"role": "assistant", "content": step.reply}]
    return turns
