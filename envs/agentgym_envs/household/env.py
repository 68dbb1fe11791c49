"""AgentHousehold-v0: ALFWorld's text world in one process, with its own games or endless rooms from a seed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from agentgym_envs.household.commands import admissible, spoken, tools
from agentgym_envs.household.games import Game, Games, read_game
from agentgym_envs.household.house import QUIRKS, House
from agentgym_envs.household.room import Room
from agentgym_envs.household.words import RULES, Alfworld, Dialect, React
from agentgym_py.actions import Reply
from agentgym_py.env import Outcome, Task, checked_split
from agentgym_py.errors import ConfigError, SnapshotError, UnknownNameError, did_you_mean
from agentgym_py.generated import Draft, GeneratedEnv
from agentgym_py.rng import Rng

Mode = Literal["react", "alfworld"]
