"""What a world's arguments and a caller's options may be: choices, tasks, seeds, splits and prompts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from numbers import Integral
from typing import get_args

from agentgym_py.env.types import SPLITS, Prompt
from agentgym_py.errors import ConfigError, UnknownNameError, did_you_mean, nearest


def require_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """ConfigError unless `value`, an argument of a world, is one of its choices."""
    if value not in choices:
        near = nearest(str(value), [choice for choice in choices if isinstance(choice, str)])
        hint = f". Did you mean {near!r}?" if near else ""
        raise ConfigError(f"{name} must be one of {', '.join(map(str, choices))}, not {value!r:.100}{hint}")


def parse_task(text: str) -> str | int:
    """Return the number or id of a task that a person or client names."""
    return int(text) if re.fullmatch("-?[0-9]{1,18}", text) else text


def unknown_task_error(name: str, env: str, difficulty: str, difficulties: Sequence[str]) -> UnknownNameError:
    """Return the error for a name that is not a task id `env/split/difficulty/number`; it says which part is wrong."""
    parts = name.split("/")
    if len(parts) != 4:
        why = "neither a number nor an id of four parts"
    elif parts[0] != env:
        why = f"its world is {parts[0]!r:.100}, here it is {env!r}"
    elif parts[1] not in SPLITS:
        why = f"split must be one of {', '.join(SPLITS)}, not {parts[1]!r:.100}"
    elif parts[2] not in difficulties:
        why = f"difficulty must be one of {', '.join(difficulties)}, not {parts[2]!r:.100}"
    elif parts[2] != difficulty:
        why = f"its difficulty is {parts[2]!r}, here it is {difficulty!r} (an argument of the world)"
    else:
        why = f"{parts[3]!r:.100} is not a number such as 0 or 17, of 18 digits at most"
    return UnknownNameError(f"No task {name!r:.100}: {why}; ids here look like '{env}/test/{difficulty}/17'.")


def require_seed(seed: object) -> int:
    """Return `seed` if it is an integer >= 0; ConfigError otherwise."""
    if not isinstance(seed, Integral) or isinstance(seed, bool) or seed < 0:
        raise ConfigError(f"seed must be an integer of at least 0, not {seed!r:.60}")
    return int(seed)


def require_split(split: str) -> str:
    """Return `split` if it is one; UnknownNameError otherwise."""
    if split not in SPLITS:
        raise UnknownNameError(f"No split {split!r}." + did_you_mean(str(split), SPLITS, "There are"))
    return split


def require_prompt(prompt: Prompt) -> Prompt:
    """Return `prompt` if it is one; ConfigError otherwise."""
    if prompt not in get_args(Prompt):
        raise ConfigError(f"No prompt {prompt!r}." + did_you_mean(str(prompt), get_args(Prompt), "There are"))
    return prompt
