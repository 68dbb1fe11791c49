"""The same episodes in fresh processes with other hash seeds, time zones and folders, and in a used instance."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import gymnasium

from agentgym_py.env import EnvSpec, TextEnv
from agentgym_py.env.registration import env_id, register, target_of
from agentgym_py.rng import Rng
from agentgym_py.testing.failures import (
    BrokenContractError,
    Moves,
    NotApplicableError,
    StoppedError,
    error_trace,
    report_error,
)
from agentgym_py.testing.global_generators import SEED_GLOBALS, seed_globals
from agentgym_py.testing.random_actions import NONSENSE, any_action

if TYPE_CHECKING:
    from agentgym_py.testing.harness import Subject

_STEPS = 20
_TIMEOUT = 300
_ENVIRONMENTS = (
    {"PYTHONHASHSEED": "1", "TZ": "UTC0"},
    {"PYTHONHASHSEED": "2", "TZ": "XYZ-11", "LC_ALL": "C", "COLUMNS": "31"},
)
_SETUP = f"""import os
number = int(os.environ.get('PYTHONHASHSEED', {{number}}))  # run it with 1 and with 2
{SEED_GLOBALS}"""
_USED_INSTANCE = """# and in an instance that has played before
from agentgym_py.testing.reproducibility import transcript
env = make()
for _ in transcript(env, {seeds}, 1, 3):
    pass
print(env.reset(seed={{seed}}))
for action in {{actions}}:
    print(env.step(action))
print({{call}})"""
_CALLS = {
    "admissible actions": "env.actions()", "plan of the expert": "env.expert()", "snapshot": "env.snapshot()",
    "next action of the fair expert": "env.fair_expert()", "thought": "env.expert_thought(env.expert()[0])",
}  # fmt: skip
"""The call that returns a part of a line which `step` does not return."""
Line = dict[str, Any]


def reproducible(subject: Subject) -> None:
    """Same seed, same episode: in two fresh processes (hash seed, time zone, folder differ) and in a used instance."""
    seeds = list(subject.seeds(subject.settings.few_episodes))
    state = subject.rng("fresh").state
    name = env_id(subject.spec.name)
    request = {
        "name": name, "kwargs": dict(subject.spec.kwargs), "target": target_module(name), "seeds": seeds, "rng": state,
    }  # fmt: skip
    first, second = (_transcript_of_process(request, variables) for variables in _ENVIRONMENTS)
    subject.counts["episodes"] += 3 * len(seeds)
    subject.counts["processes"] += 2
    subject.counts["steps"] += len(first) + len(second)
    both = "two fresh processes with the same seed (PYTHONHASHSEED 1 and 2, other time zone and folder)"
    _compare(first, second, both)
    lines = _transcript_of_used_instance(subject, seeds, state)
    past = _USED_INSTANCE.format(seeds=seeds[::-1])
    _compare(first, json.loads(json.dumps(lines)), "a fresh process and an instance that has played before", past)


def _transcript_of_used_instance(subject: Subject, seeds: list[int], state: int) -> list[Line]:
    env = subject.make()
    try:
        list(transcript(env, seeds[::-1], 1, 3))  # its past
        return list(transcript(env, seeds, state, 3))
    except BrokenContractError as error:
        moves = replace(error.moves or Moves(), setup=SEED_GLOBALS.format(number=3))
        raise BrokenContractError(f"in one instance for all episodes {error}", moves) from error.__cause__


def target_module(name: str) -> str:
    """Return `module:attribute` of the env, so that a process without its entry point, or with another, can make it."""
    target = target_of(name)
    if target.startswith("__main__:") or "<" in target:
        raise NotApplicableError(f"{target} cannot be imported by another process")
    return target


def _transcript_of_process(request: Mapping[str, Any], variables: Mapping[str, str]) -> list[Line]:
    code = "from agentgym_py.testing.reproducibility import main; main()"
    with TemporaryDirectory(prefix="agentgym") as folder:
        try:
            done = subprocess.run(  # noqa: S603  # this Python, and a constant program
                [sys.executable, "-P", "-c", code], input=json.dumps(request), cwd=folder,
                env=fresh_variables(variables), capture_output=True, text=True, encoding="utf-8", timeout=_TIMEOUT,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            episodes = f"{len(request['seeds'])} episodes in a fresh process"
            raise StoppedError(f"{episodes} were not over after {_TIMEOUT:g} seconds: ask for fewer") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise BrokenContractError(f"the episodes cannot be played in a fresh process: {last}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for line in lines:
        if "raised" in line:
            moves = Moves(**line["moves"] | {"actions": tuple(line["moves"]["actions"]), "setup": _setup(variables)})
            raise BrokenContractError(f"in a fresh process {line['raised']}", moves, line["trace"])
    return lines


def fresh_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of a fresh process that finds the modules of this one."""
    path = [str(Path(entry).absolute()) for entry in sys.path]  # "" is the folder of this process
    return {**os.environ, **variables, "PYTHONPATH": os.pathsep.join(path)}


def register_target(name: str, target: str) -> None:
    """Register an env in a fresh process, unless it is known there by the same entry point."""
    if name not in gymnasium.registry or target_of(name) != target:
        register(name, target)


def _setup(variables: Mapping[str, str]) -> str:
    return _SETUP.format(number=variables["PYTHONHASHSEED"])


def main() -> None:
    """Play the request on stdin in a fresh process; print a JSON line per step, and one more if the env raised."""
    request = json.load(sys.stdin)
    register_target(request["name"], request["target"])
    with closing(EnvSpec(request["name"], request["kwargs"]).make()) as env:
        try:
            for line in transcript(env, request["seeds"], request["rng"], int(os.environ["PYTHONHASHSEED"])):
                print(json.dumps(line), flush=True)
        except BrokenContractError as error:
            line = {"raised": str(error), "moves": asdict(error.moves or Moves()), "trace": error_trace(error)}
            print(json.dumps(line), flush=True)


def transcript(env: TextEnv, seeds: list[int], state: int, number: int) -> Iterator[Line]:
    """Play random episodes and yield everything that the env returns at each step, including its teachers.

    Each begins with the global generators seeded with `number`, which must not influence the env.

    Raises:
        BrokenContractError: the env raised; the moves reproduce it.
    """
    for seed in seeds:
        actions: list[str] = []
        with report_error(seed, actions), seed_globals(number):
            yield from _episode(env, seed, Rng("fresh", state, seed), actions)


def _episode(env: TextEnv, seed: int, rng: Rng, actions: list[str]) -> Iterator[Line]:
    observation, info = env.reset(seed=seed)
    yield _line(env, seed, None, observation, info)
    for _ in range(_STEPS):
        if env.stop_reason:
            break
        action = NONSENSE if rng.below(8) == 0 else any_action(env, rng, observation)
        actions.append(action)
        observation, reward, terminated, truncated, info = env.step(action)
        yield _line(env, seed, action, observation, info) | {"end": [reward, terminated, truncated]}


def _line(env: TextEnv, seed: int, action: str | None, observation: str, info: Mapping[str, Any]) -> Line:
    plan = [] if env.stop_reason else env.expert()
    task = env.current_task
    return {
        "seed": seed, "action": action, "observation": observation, "info": repr(info), "task": repr(task),
        "admissible actions": env.actions(), "plan of the expert": plan, "snapshot": env.snapshot().decode("latin-1"),
        "next action of the fair expert": None if env.stop_reason else env.fair_expert(),
        "thought": env.expert_thought(plan[0]) if plan else "",
    }  # fmt: skip


def _compare(first: list[Line], second: list[Line], label: str, past: str = "") -> None:
    actions: list[str] = []
    seed: int | None = None
    for one, other in zip(first, second, strict=False):
        if one["action"] is None:
            seed, actions = one["seed"], []
        else:
            actions.append(one["action"])
        for key in one:
            if one[key] != other.get(key):
                message = f"{label} differ in the {key}: {one[key]!r:.300} and {other.get(key)!r:.300}"
                raise BrokenContractError(message, _moves(seed, actions, key, past))
    if len(first) != len(second):
        raise BrokenContractError(f"{label} play episodes of different length", _moves(seed, actions, "", past))


def _moves(seed: int | None, actions: list[str], key: str, past: str) -> Moves:
    """Return an episode and the call that differs; with `past` also in a used instance."""
    from agentgym_py.testing.report import actions_source  # not for the fresh processes, which import this module

    call = _CALLS.get(key, "env.render()")
    again = past.format(seed=seed, actions=actions_source(actions), call=call)
    setup = _setup(_ENVIRONMENTS[0])
    return Moves(seed, None, tuple(actions), setup=setup, after=f"print({call})\n{again}".rstrip())
