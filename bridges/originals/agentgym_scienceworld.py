"""AgentScienceWorld-v0: ScienceWorld itself, from the package scienceworld. It needs Java.

agentgym eval --env scienceworld --env_kwargs.task_name find-plant --agent expert
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from itertools import groupby
from typing import ClassVar

from agentgym_originals import OriginalEnv, import_original
from agentgym_scienceworld_engines import Engines

from agentgym_py.env import Reply
from agentgym_py.env.arguments import require_choice
from agentgym_py.env.foreign import ForeignTurn
from agentgym_py.errors import ConfigError

_OPTION = re.compile(r"^(\d+):\t(.*)$", re.MULTILINE)
_AMBIGUOUS, _UNKNOWN = "Ambiguous request", "No known action matches"


class ScienceWorldEnv(OriginalEnv):
    """AgentScienceWorld-v0: ScienceWorld's own 30 tasks, variations, commands, scores and gold paths.

    Task: a variation of `task_name`. The splits are ScienceWorld's train, dev (here valid) and test variations.

    Actions: ScienceWorld's commands, such as `open door to kitchen`, `pour X into Y`, `focus on X`. If a command has
    several meanings, ScienceWorld asks for a number.

    Observation: ScienceWorld's; the first one has the task's description. The meanings of a command, and things of one
    name, have a random order there, so they are sorted here.

    Reward: the gain of the score divided by 100; a wrong focus has the score -100. Success is a score of 100.

    End: ScienceWorld says that the task is completed, or its score is below 0. `max_steps` truncates.

    Expert: ScienceWorld's gold path, which a second Java process computes. After an action beside it the plan is empty.

    Snapshots: by repeating the commands, in a second Java process. `close` ends all of them.

    Args:
        task_name: such as `boil`, `find-plant`, `test-conductivity`.
        simplifications: ScienceWorld's, such as `easy` or `openDoors,teleportAction`.
        max_steps: step limit.
        split: where tasks come from if `reset` names no split.
        render_mode: `ansi` or None.

    Registered ids: AgentScienceWorld-v0.
    """

    name: ClassVar[str] = "scienceworld"
    max_return: ClassVar[float | None] = 1.0
    id_arguments: ClassVar[tuple[str, ...]] = ("task_name",)
    rules: ClassVar[Mapping[str, str]] = {
        "full": (
            "You do experiments in a house. Each turn you do one command:\n"
            "look around, look at X, look in X, inventory, task; go to ROOM, open X, close X; pick up X, put down X, "
            "move X to Y; pour X into Y, dunk X into Y, mix X, eat X, flush X, read X; activate X, deactivate X, use X "
            "on Y; connect X to Y, disconnect X; wait, wait1.\n"
            "focus on X declares what the task is about; a wrong focus ends it. If a command has several meanings, "
            "answer the question with a number.\nAnswer in this form:\nThought: why\nAction: command"
        ),
        "brief": "Experiment by commands such as go to ROOM, pick up X, move X to Y. A wrong focus on X ends it.",
        "none": "",
    }

    def __init__(
        self, *, task_name: str = "find-plant", simplifications: str = "", max_steps: int = 100, split: str = "train",
        render_mode: str | None = None,
    ) -> None:  # fmt: skip
        package = import_original("AgentScienceWorld-v0", "scienceworld", "scienceworld")
        names = import_original("AgentScienceWorld-v0", "scienceworld", "scienceworld.constants").ID2TASK.values()
        require_choice("task_name", task_name, sorted(names))
        if shutil.which("java") is None:
            raise ConfigError("AgentScienceWorld-v0 needs Java: install a runtime of version 8 or above")
        self._engines = Engines(package, task_name, simplifications)
        super().__init__(max_steps=max_steps, level=task_name, split=split, render_mode=render_mode)

    def task_count(self, split: str) -> int:
        """Return the number of variations in a split."""
        return len(self._engines.variations[split])

    def connect(self) -> Session:
        """Open an episode in an engine."""
        return Session(self._engines)

    def close(self) -> None:
        """End all Java processes."""
        super().close()
        self._engines.close()


class Session:
    """One episode in an engine."""

    def __init__(self, engines: Engines) -> None:
        self._engines, self._engine = engines, engines.take()
        self._variation, self._score, self._done, self._meanings = 0, 0, list[str](), dict[str, str]()

    def reset(self, split: str, number: int) -> str:
        """Load a variation and look around."""
        self._variation = self._engines.variations[split][number]
        self._score, self._done, self._meanings = 0, [], {}
        self._engines.load(self._engine, self._variation)
        server = self._engine.server  # its `step` lists all actions each time, which takes long
        return f"{server.getTaskDescription()}\n{_settle(server.step('look around'))}"

    def step(self, reply: Reply, text: str) -> ForeignTurn:
        """Do a command."""
        del text
        if not reply.action.isascii() or reply.action_input is not None:
            return ForeignTurn("Not a command. Write for example: look around, pick up X, move X to Y.", valid=False)
        self._done.append(reply.action)
        server = self._engine.server
        observation = self._sort(_settle(server.step(self._meanings.get(reply.action, reply.action))))
        score, before = round(100 * server.getScore()), self._score
        self._score = score
        over, valid = bool(server.getCompleted()) or score < 0, not observation.startswith(_UNKNOWN)
        return ForeignTurn(observation, (score - before) / 100, over, success=score >= 100, valid=valid)

    def _sort(self, observation: str) -> str:
        """Sort the meanings of a command, and note which number each has in the engine."""
        asks = observation.startswith(_AMBIGUOUS)
        options = sorted(_OPTION.findall(observation) if asks else [], key=lambda option: option[1])
        self._meanings = {str(place): number for place, (number, _) in enumerate(options)}
        lines = [f"{place}:\t{text}" for place, (_, text) in enumerate(options)]
        return "\n".join([observation.partition("\n")[0], *lines]) if lines else observation

    def actions(self) -> list[str]:
        """Return the valid commands; ScienceWorld may call a thing by another of its names each time."""
        return list(self._meanings) or sorted(self._engine.get_valid_action_object_combinations())

    def plan(self) -> list[str]:
        """Return the rest of the gold path, if the episode has followed it."""
        path, count = self._engines.gold_path(self._variation), len(self._done)
        return path[count:] if path[:count] == self._done else []

    def close(self) -> None:
        """Leave the engine to the next episode."""
        self._engines.put_back(self._engine)


def _settle(observation: str) -> str:
    """Sort neighbouring lines on things of one name, such as cups."""
    groups = groupby(observation.split("\n"), key=lambda line: line.startswith("\t") and re.split(r"[(.,]", line)[0])
    return "\n".join(line for name, lines in groups for line in (sorted(lines) if name else lines))
