"""The calls of a session: requests, and the environment's answers."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from agentgym_py.env import TextEnv
from agentgym_py.errors import ConfigError, SnapshotError
from agentgym_py.serving.protocol import Ask, ExpertThought, FindTask, Limit, Read, Reset, Restore, Step


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a session."""

    request: type
    """Its request class in `protocol`; a `Change` changes the episode."""
    answer: Callable[[TextEnv, Any], Any]
    experts_only: bool = False
    """Whether its answer holds expert knowledge."""


def episode_state(env: TextEnv) -> dict[str, Any]:
    """Return the state of an episode, with its last observation."""
    task = asdict(env.current_task) if env.current_task else None
    return {
        "task": task, "steps": env.steps, "stop_reason": env.stop_reason, "success": env.succeeded,
        "observation": env.render(),
    }  # fmt: skip


def _reset(env: TextEnv, request: Reset) -> Any:
    _, info = env.reset(seed=request.seed, options=request.options)
    return {**episode_state(env), "info": info}


def _step(env: TextEnv, request: Step) -> Any:
    observation, reward, terminated, truncated, info = env.step(request.action)
    return {
        "observation": observation, "reward": reward, "terminated": terminated, "truncated": truncated, "info": info,
        "steps": env.steps, "read": asdict(env.last_reply) if env.last_reply else None,
    }  # fmt: skip


def _restore(env: TextEnv, request: Restore) -> Any:
    try:
        snapshot = base64.b64decode(request.snapshot, validate=True)
    except (binascii.Error, ValueError) as error:
        raise SnapshotError(f"a snapshot must be base64: {error}") from error
    env.restore(snapshot)
    return episode_state(env)


def _limit(env: TextEnv, request: Limit) -> Any:
    if request.max_steps < 1:
        raise ConfigError(f"max_steps must be at least 1, got {request.max_steps}")
    env.max_steps = request.max_steps
    return {}


CALLS: Mapping[str, Call] = {
    "reset": Call(Reset, _reset),
    "step": Call(Step, _step),
    "restore": Call(Restore, _restore),
    "limit": Call(Limit, _limit),
    "snapshot": Call(Ask, lambda env, _: base64.b64encode(env.snapshot()).decode()),
    "actions": Call(Ask, lambda env, _: env.actions()),
    "tools": Call(Ask, lambda env, _: env.tools()),
    "task": Call(FindTask, lambda env, request: asdict(env.task(request.name, request.split))),
    "read": Call(Read, lambda env, request: asdict(env.read(request.text))),
    "expert": Call(Ask, lambda env, _: env.expert(), experts_only=True),
    "fair_expert": Call(Ask, lambda env, _: env.fair_expert(), experts_only=True),
    "expert_thought": Call(ExpertThought, lambda env, request: env.expert_thought(request.action), experts_only=True),
    "secrets": Call(Ask, lambda env, _: env.secrets(), experts_only=True),
}
"""Every call by its name."""
