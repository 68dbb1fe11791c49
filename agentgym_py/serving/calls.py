"""What a session can be asked and told: the requests, and the environment's answers."""

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
    """One call."""

    asks: type
    """The request, of `protocol`; a `Change` changes the episode."""
    answer: Callable[[TextEnv, Any], Any]
    tells: bool = False
    """Whether it tells what only an expert knows."""


def where(env: TextEnv) -> dict[str, Any]:
    """Where an episode stands; its observation is the last one."""
    task = asdict(env.current_task) if env.current_task else None
    return {
        "task": task, "steps": env.steps, "stop_reason": env.stop_reason, "success": env.succeeded,
        "observation": env.render(),
    }  # fmt: skip


def _reset(env: TextEnv, asked: Reset) -> Any:
    _, info = env.reset(seed=asked.seed, options=asked.options)
    return {**where(env), "info": info}


def _step(env: TextEnv, asked: Step) -> Any:
    observation, reward, terminated, truncated, info = env.step(asked.action)
    return {
        "observation": observation, "reward": reward, "terminated": terminated, "truncated": truncated, "info": info,
        "steps": env.steps, "read": asdict(env.last_reply) if env.last_reply else None,
    }  # fmt: skip


def _restore(env: TextEnv, asked: Restore) -> Any:
    try:
        snapshot = base64.b64decode(asked.snapshot, validate=True)
    except (binascii.Error, ValueError) as error:
        raise SnapshotError(f"a snapshot's bytes are wanted in base64: {error}") from error
    env.restore(snapshot)
    return where(env)


def _limit(env: TextEnv, asked: Limit) -> Any:
    if asked.max_steps < 1:
        raise ConfigError(f"max_steps must be at least 1, got {asked.max_steps}")
    env.max_steps = asked.max_steps
    return {}


CALLS: Mapping[str, Call] = {
    "reset": Call(Reset, _reset),
    "step": Call(Step, _step),
    "restore": Call(Restore, _restore),
    "limit": Call(Limit, _limit),
    "snapshot": Call(Ask, lambda env, _: base64.b64encode(env.snapshot()).decode()),
    "actions": Call(Ask, lambda env, _: env.actions()),
    "tools": Call(Ask, lambda env, _: env.tools()),
    "task": Call(FindTask, lambda env, asked: asdict(env.task(asked.name, asked.split))),
    "read": Call(Read, lambda env, asked: asdict(env.read(asked.text))),
    "expert": Call(Ask, lambda env, _: env.expert(), tells=True),
    "fair_expert": Call(Ask, lambda env, _: env.fair_expert(), tells=True),
    "expert_thought": Call(ExpertThought, lambda env, asked: env.expert_thought(asked.action), tells=True),
    "secrets": Call(Ask, lambda env, _: env.secrets(), tells=True),
}
"""Every call by its name."""
