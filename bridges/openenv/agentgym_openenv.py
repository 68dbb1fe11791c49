"""Any world of agentgym-py as a server of OpenEnv.

    agentgym-openenv serve shop --port 8000
    agentgym-openenv init shop my_shop      # a package with openenv.yaml, for `openenv validate`

`reset(task="shop/test/medium/17")`, `reset(split="test", index=17)` and `reset(seed=17)` choose the task. A step takes
a whole reply. After an infrastructure failure the answer is an error, which has no reward. `state()` has a snapshot,
and `reset(injected_state=snapshot)` continues from it.
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import json
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, ConcurrencyConfig, EnvironmentMetadata, Observation, State
from pydantic import Field

from agentgym_py.env import SPLITS, Prompt, StopReason, Task, require_split
from agentgym_py.env.registration import short_name
from agentgym_py.errors import AgentGymError, InfrastructureError, ResetNeededError
from agentgym_py.serving.tool_episode import EpisodeSettings, SessionLimits, ToolEpisode

TASKS = 1000
"""Most tasks of a split that the task API lists."""


class AgentGymAction(Action):
    """A reply of the agent."""

    message: str = Field(description="The whole reply: ReAct text, a tool call as JSON, or the action alone.")


class AgentGymObservation(Observation):
    """What the world shows; `metadata` has `task_id`, `success`, `valid_action` and `truncated`."""

    text: str = Field(default="", description="The observation; the first one begins with the rules.")


class AgentGymState(State):
    """The state of an episode, for trainers; no agent may see it."""

    task_id: str | None = None
    snapshot: str | None = Field(default=None, description="The whole state, for `reset(injected_state=…)`.")


class AgentGymEnvironment(Environment[AgentGymAction, AgentGymObservation, AgentGymState]):
    """A world of agentgym-py.

    Args:
        settings: The world and how its episodes start.
        tasks: Tasks of a split that the task API lists.
        numbers: Numbers of the tasks of resets that name none, such as those that the sessions of a server share.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, settings: EpisodeSettings, tasks: int = TASKS, numbers: Iterator[int] | None = None) -> None:
        super().__init__()
        self._settings, self._tasks = settings, tasks
        self._episode: ToolEpisode | None = None
        self._episode_id: str | None = None
        self._numbers = itertools.count() if numbers is None else numbers

    # ---- the episode ------------------------------------------------------------------------------------------------

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, *, task: str | int | None = None,
        split: str | None = None, index: int | None = None, injected_state: str | None = None, **_: Any,
    ) -> AgentGymObservation:  # fmt: skip
        """Start an episode.

        Args:
            seed: Number of the task, if neither `task` nor `index` is given.
            episode_id: Name of the episode in `state`.
            task: Id of the task, or its number.
            split: Split of a number; None: the server's.
            index: Number of the task.
            injected_state: A snapshot of `state` from which to continue.

        Raises:
            UnknownNameError: there is no such task or split.
            SnapshotError: `injected_state` is no snapshot of this world.
            InfrastructureError: the world failed.
        """
        self.close()
        if task is None or isinstance(task, int):
            numbers = (number for number in (index, task, seed) if number is not None)
            number = next(numbers, None)
            number = next(self._numbers) if number is None else number
            task = self._task(number, require_split(split or self._settings.split)).id
        episode = ToolEpisode(self._settings, task)
        try:
            if injected_state is not None:
                _inject(episode, injected_state)
        except BaseException:
            episode.close()
            raise
        self._episode, self._episode_id = episode, episode_id or uuid.uuid4().hex
        return self._observe(episode.opening, None, True)

    def step(self, action: AgentGymAction, timeout_s: float | None = None, **_: Any) -> AgentGymObservation:
        """Do one step.

        Raises:
            ResetNeededError: there is no episode.
            InfrastructureError: the world failed, and the episode is lost.
        """
        del timeout_s  # a thread cannot be stopped
        episode = self._running()
        try:
            turn = episode.step(action.message)
        except InfrastructureError:
            self.close()
            raise
        return self._observe(turn.observation, turn.reward, turn.valid)

    def _observe(self, text: str, reward: float | None, valid: bool) -> AgentGymObservation:
        episode = self._running()
        about = {
            "task_id": episode.task.id, "success": bool(episode.env.succeeded), "valid_action": valid,
            "truncated": episode.stop_reason is StopReason.TRUNCATED,
        }  # fmt: skip
        return AgentGymObservation(text=text, reward=reward, done=episode.stop_reason is not None, metadata=about)

    def _running(self) -> ToolEpisode:
        if self._episode is None:
            raise ResetNeededError("there is no episode, or its world has failed: reset first")
        return self._episode

    @property
    def state(self) -> AgentGymState:
        """The state of the episode; without one, an empty state."""
        episode = self._episode
        if episode is None:
            return AgentGymState()
        snapshot = episode.env.snapshot().decode("utf-8", "surrogatepass")
        return AgentGymState(
            episode_id=self._episode_id, step_count=episode.env.steps, task_id=episode.task.id, snapshot=snapshot
        )

    def close(self) -> None:
        """Close the world."""
        episode, self._episode = self._episode, None
        if episode is not None:
            with suppress(InfrastructureError):
                episode.close()

    def get_metadata(self) -> EnvironmentMetadata:
        """Describe the world by the first line of its card."""
        with closing(self._settings.spec.make()) as env:
            card = (inspect.getdoc(type(env)) or env.name).partition("\n")[0]
            return EnvironmentMetadata(name=env.name, description=card, version=str(env.version))

    # ---- the task API -----------------------------------------------------------------------------------------------

    def list_splits(self) -> list[dict[str, str]]:
        """Return the splits; OpenEnv calls `valid` a validation split."""
        return [{"name": split, "type": "validation" if split == "valid" else split} for split in SPLITS]

    def num_tasks(self, split: str) -> int:
        """Return the number of tasks in a split, up to the server's limit."""
        return self._settings.spec.count(require_split(split), self._tasks)

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """Return one task; IndexError if the split has none of this number."""
        if not 0 <= index < self.num_tasks(split):
            raise IndexError(index)
        return {"index": index, **asdict(self._task(index, split))}

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """Return the tasks of a split, up to the server's limit."""
        return self.get_task_range(split)

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        """Return tasks by number, as a slice."""
        numbers = range(self.num_tasks(split))[start:stop]
        with closing(self._settings.spec.make()) as env:
            return [{"index": number, **asdict(env.task(number, split))} for number in numbers]

    def _task(self, number: int, split: str) -> Task:
        with closing(self._settings.spec.make()) as env:
            return env.task(number, split)


def _inject(episode: ToolEpisode, snapshot: str) -> None:
    """Continue the episode of a snapshot; SnapshotError if it is none of this world."""
    episode.env.restore(snapshot.encode("utf-8", "surrogatepass"))
    assert episode.env.current_task is not None, "a snapshot has a task"
    episode.task, episode.stop_reason = episode.env.current_task, episode.env.stop_reason
    episode.opening = episode.observation = json.loads(snapshot)["last"]


def make_app(settings: EpisodeSettings, *, tasks: int = TASKS, limits: SessionLimits | None = None) -> Any:
    """Return the FastAPI application of a world.

    Args:
        settings: The world and how its episodes start.
        tasks: Tasks of a split that the task API lists.
        limits: Number of sessions, and after how many silent seconds one is closed.
    """
    limits = limits or SessionLimits()
    sessions = ConcurrencyConfig(max_concurrent_envs=limits.sessions, session_timeout=limits.idle)
    return create_app(
        partial(AgentGymEnvironment, settings, tasks, itertools.count()), AgentGymAction, AgentGymObservation,
        env_name=short_name(settings.spec.local_spec.name), concurrency_config=sessions, state_cls=AgentGymState,
    )  # fmt: skip


def main() -> None:
    """Run the command `agentgym-openenv`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="serve a world")
    init = commands.add_parser("init", help="write a package that serves a world")
    for command in (serve, init):
        command.add_argument("env", help="name of the world")
        command.add_argument("--env-kwargs", type=json.loads, default={}, help="its arguments, as JSON")
        command.add_argument("--split", default="train", help="split of tasks that are given by seed")
        command.add_argument("--seed", type=int, default=0, help="seed of the worlds")
    init.add_argument("folder", type=Path, help="folder to write; it must not exist")
    serve.add_argument("--prompt", default="full", choices=["full", "brief", "none"], help="rules that open an episode")
    serve.add_argument("--host", default="127.0.0.1", help="address; the protocol has no token, so mind who reaches it")
    serve.add_argument("--port", type=int, default=8000)
    serve.add_argument("--sessions", type=int, default=100, help="number of simultaneous sessions")
    args = parser.parse_args()
    try:
        prompt: Prompt = getattr(args, "prompt", "full")
        settings = EpisodeSettings.of_world(args.env, args.env_kwargs, split=args.split, prompt=prompt, seed=args.seed)
        if args.command == "init":
            from agentgym_openenv_package import write_package

            write_package(settings, args.folder)
            print(f"wrote {args.folder}; next: openenv validate {args.folder} --level static")
            return
        import uvicorn

        limits = SessionLimits(sessions=args.sessions)
        uvicorn.run(make_app(settings, limits=limits), host=args.host, port=args.port, log_level="warning")
    except AgentGymError as error:
        sys.exit(f"agentgym-openenv: {error}")


if __name__ == "__main__":
    main()
