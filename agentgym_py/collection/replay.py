"""Replay: run a stored trajectory again in its world and compare."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import gymnasium

from agentgym_py.agents.chat import offered_tools
from agentgym_py.collection.env_pool import EnvPool
from agentgym_py.env import StopReason, TextEnv
from agentgym_py.env.call_forms import call_of_text
from agentgym_py.env.tracebacks import describe_failure
from agentgym_py.errors import AgentGymError
from agentgym_py.trajectory import Step, Trajectory
from agentgym_py.trajectory.formats import agenttraj
from agentgym_py.trajectory.formats.foreign import ACT_NAME
from agentgym_py.trajectory.formats.openai import called_tools, possible_tools
from agentgym_py.trajectory.types import with_note, with_template

_FROM_AGENTTRAJ = (
    "AgentTraj does not hold what a replay needs (the world, its arguments and seed); "
    "replay the store that it was made from"
)
_WITHOUT_WORLD = "the episode comes from a file that names no world"

_ERROR = "error"
"""What differs when the world raises an error on replay."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference between a replay and the stored trajectory."""

    step: int
    """Number of the step, from 1; 0 for differences before the first step."""
    what: str
    """`observation`, `reward`, `valid`, `return`, ..."""
    stored: Any
    replayed: Any

    def __str__(self) -> str:
        return f"step {self.step}: {self.what} was {self.stored!r}, is {self.replayed!r}"


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of replaying one trajectory."""

    id: str
    task_id: str
    steps: int
    """Number of identical steps."""
    difference: Difference | None = None
    skipped: str | None = None
    """Why it was not replayed."""

    @property
    def holds(self) -> bool:
        """Whether it was replayed without a difference."""
        return self.difference is None and self.skipped is None


def replay(trajectory: Trajectory, env: TextEnv | None = None) -> ReplayResult:
    """Replay the stored replies and compare everything except the token records.

    `env` is the world to replay in; by default the one that the provenance names.
    """
    if env is None:
        return next(replay_all([trajectory]))
    if trajectory.stop_reason is StopReason.ERROR:
        return _result(trajectory, 0, skipped=f"ended by an infrastructure failure: {trajectory.error}")
    try:
        observation = trajectory.restart(env)
    except (AgentGymError, gymnasium.error.Error) as error:  # Gymnasium's: a seed below 0
        return _result(trajectory, 0, Difference(0, "task", trajectory.task_id, str(error)))
    except (Exception, SystemExit) as error:  # an env may raise anything
        return _result(trajectory, 0, Difference(0, _ERROR, None, describe_failure(error)))
    done = 0
    try:
        for done, difference in enumerate(_differences(trajectory, env, observation)):
            if difference:
                return _result(trajectory, max(done - 1, 0), difference)
    except (Exception, SystemExit) as error:  # an env may raise anything
        return _result(trajectory, done, Difference(done + 1, _ERROR, None, describe_failure(error)))
    return _result(trajectory, len(trajectory.steps))


def replay_all(trajectories: Iterable[Trajectory]) -> Iterator[ReplayResult]:
    """Replay trajectories in order; each world is made once."""
    with closing(EnvPool()) as pool:
        for trajectory in trajectories:
            try:
                spec = trajectory.replay_spec()
                env = pool.take(spec)
            except (Exception, SystemExit) as error:  # an env may raise anything
                yield _result(trajectory, 0, skipped=_why_skipped(trajectory, error))
                continue
            result = replay(trajectory, env)
            if result.difference and result.difference.what == _ERROR:
                pool.drop(env)
            else:
                pool.give(spec, env)
            yield result


def with_tools(
    trajectories: Iterable[Trajectory], failures: list[str]
) -> Iterator[tuple[Trajectory, list[dict[str, Any]]]]:
    """Yield trajectories in order, their actions as calls, each with the schemas of the tools that its world offered.

    An action whose text is that of a tool's call, by `TextEnv.call_forms`, becomes this call; other actions stay. If
    the world cannot be made or fails, all of them stay and the list is empty. The reason is added to `failures`, unless
    the episode comes from a file that names no world and calls no tool. Steps are only replayed if an action that may
    be a tool's name is not that of a tool at the start.
    """
    with closing(EnvPool()) as pool:
        for trajectory in trajectories:
            offered: tuple[Trajectory, list[dict[str, Any]]] = trajectory, []
            try:
                with pool.lent(trajectory.replay_spec()) as env:
                    offered = _offered(trajectory, env)
            except (Exception, SystemExit) as error:  # an env may raise anything
                if trajectory.provenance.env_id or called_tools(trajectory) - {ACT_NAME}:
                    failures.append(_why_skipped(trajectory, error))
            yield offered


def _offered(trajectory: Trajectory, env: TextEnv) -> tuple[Trajectory, list[dict[str, Any]]]:
    """Return a trajectory with its calls, and the tools that its world offered: those at the start, and later ones."""
    trajectory.restart(env)
    tools, forms = {tool["function"]["name"]: tool for tool in offered_tools(env)}, env.call_forms()
    steps = tuple(_as_call(step, forms, list(tools.values())) for step in trajectory.steps)
    called = replace(trajectory, steps=steps)
    names = possible_tools(called)
    for step in trajectory.steps:
        if names <= tools.keys():
            break
        env.step(step.reply)
        tools |= {tool["function"]["name"]: tool for tool in offered_tools(env)}
    return called, list(tools.values())


def _as_call(step: Step, forms: Mapping[str, str], tools: Sequence[Mapping[str, Any]]) -> Step:
    call = call_of_text(step.action, forms, tools) if step.action_input is None else None
    return replace(step, action=call[0], action_input=json.dumps(call[1], ensure_ascii=False)) if call else step


def _why_skipped(trajectory: Trajectory, error: BaseException) -> str:
    if trajectory.provenance.agent == agenttraj.AGENT:
        return _FROM_AGENTTRAJ
    if not trajectory.provenance.env_id:
        return _WITHOUT_WORLD
    return str(error) if isinstance(error, AgentGymError | OSError) else describe_failure(error)


def _result(
    trajectory: Trajectory, steps: int, difference: Difference | None = None, skipped: str | None = None
) -> ReplayResult:
    return ReplayResult(trajectory.id, trajectory.task_id, steps, difference, skipped)


def _differences(trajectory: Trajectory, env: TextEnv, observation: str) -> Iterator[Difference | None]:
    """Yield the difference, or None, for the start, for each step and for the end."""
    task = env.current_task
    assert task is not None
    provenance, rules = trajectory.provenance, trajectory.rules
    version, digest = provenance.env_version, provenance.files_digest
    if (text := env.rules.get(provenance.prompt)) is not None:
        rules = with_note(provenance.note, with_template(provenance.prompt_template, text))
    yield (
        _compare(0, "version of the world", version, version if env.reads_version(version, task.split) else env.version)
        or _compare(0, "files of the world", digest, env.files_digest if digest else None)
        or _compare(0, "instruction", trajectory.instruction, task.instruction)
        or _compare(0, "rules", trajectory.rules, rules)
        or _compare(0, "split", trajectory.split, task.split)
        or _compare(0, "kind", trajectory.kind, task.kind)
        or _compare(0, "difficulty", trajectory.difficulty, task.difficulty)
        or _compare(0, "optimal steps", trajectory.optimal_steps, task.optimal_steps)
    )
    total = 0.0
    for number, step in enumerate(trajectory.steps, 1):
        difference = _compare(number, "observation", step.observation, observation)
        observation, reward, _, _, info = env.step(step.reply)
        reply = env.last_reply or env.read(step.reply)  # the episode may have ended
        total += reward
        yield (
            difference
            or _compare(number, "thought", step.thought, reply.thought)
            or _compare(number, "action", step.action, reply.action)
            or _compare(number, "action input", step.action_input, reply.action_input)
            or _compare(number, "reward", step.reward, float(reward))
            or _compare(number, "reward parts", step.reward_parts, info.get("reward_parts", {}))
            or _compare(number, "costs", step.costs, info.get("costs", {}) if step.costs else {})
            or _compare(number, "valid", step.valid, bool(info["valid_action"]))
        )
    last = len(trajectory.steps)
    stop_reason = None if trajectory.stop_reason is StopReason.GAVE_UP else trajectory.stop_reason
    yield (
        _compare(last, "last observation", trajectory.final_observation, observation)
        or _compare(last, "success", trajectory.success, env.succeeded)
        or _compare(last, "stop reason", stop_reason, env.stop_reason)
        or _compare(last, "return", trajectory.reward, total)
    )


def _compare(step: int, what: str, stored: Any, replayed: Any) -> Difference | None:
    return None if _same(stored, replayed) else Difference(step, what, stored, replayed)


def _same(stored: Any, replayed: Any) -> bool:
    if isinstance(stored, float) and isinstance(replayed, float):
        return math.isclose(stored, replayed, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(stored, Mapping) and isinstance(replayed, Mapping):
        return stored.keys() == replayed.keys() and all(_same(value, replayed[name]) for name, value in stored.items())
    return bool(stored == replayed)
