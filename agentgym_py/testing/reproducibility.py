"""The same episodes in fresh processes, of other hash seeds, time zones and folders, and in a used instance."""

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
from typing import Any

import gymnasium

from agentgym_py.env import EnvSpec, TextEnv
from agentgym_py.env.registration import env_id, register, target_of
from agentgym_py.rng import Rng
from agentgym_py.testing.harness import (
    NONSENSE,
    SEEDED,
    BrokenContractError,
    Moves,
    NotApplicableError,
    StoppedError,
    Subject,
    any_action,
    raising,
    seeded,
    shown_raising,
    where_raised,
)
from agentgym_py.testing.report import listed

_STEPS = 20
_SECONDS = 300
_MOODS = (
    {"PYTHONHASHSEED": "1", "TZ": "UTC0"},
    {"PYTHONHASHSEED": "2", "TZ": "XYZ-11", "LC_ALL": "C", "COLUMNS": "31"},
)
_SETUP = f"import os\nnumber = int(os.environ.get('PYTHONHASHSEED', {{number}}))  # run it with 1 and with 2\n{SEEDED}"
_PAST = """# and in an instance that has played before
from agentgym_py.testing.reproducibility import transcript
env = make()
for _ in transcript(env, {seeds}, 1, 3):
    pass
print(env.reset(seed={{seed}}))
for action in {{actions}}:
    print(env.step(action))
print({{asked}})"""
_ASKED = {
    "admissible actions": "env.actions()", "plan of the expert": "env.expert()", "snapshot": "env.snapshot()",
    "next action of the fair expert": "env.fair_expert()", "thought": "env.expert_thought(env.expert()[0])",
}  # fmt: skip
"""What asks for what is no turn, by its name in a line."""
Line = dict[str, Any]


def reproducible(subject: Subject) -> None:
    """Same seed, same episode: in two fresh processes (hash seed, time zone, folder differ) and in a used instance."""
    seeds = list(subject.seeds(subject.settings.few))
    state = subject.rng("fresh").state
    asked = {
        "name": env_id(subject.spec.name),
        "kwargs": dict(subject.spec.kwargs),
        "target": _target(subject.spec.name),
        "seeds": seeds,
        "rng": state,
    }
    first, second = (_asked_of_a_process(asked, mood) for mood in _MOODS)
    subject.counts["episodes"] += 3 * len(seeds)
    subject.counts["processes"] += 2
    subject.counts["steps"] += len(first) + len(second)
    _compare(
        first, second, "two fresh processes with the same seed (PYTHONHASHSEED 1 and 2, other time zone and folder)"
    )
    here = _in_a_used_instance(subject, seeds, state)
    past = _PAST.format(seeds=seeds[::-1])
    _compare(first, json.loads(json.dumps(here)), "a fresh process and an instance that has played before", past)


def _in_a_used_instance(subject: Subject, seeds: list[int], state: int) -> list[Line]:
    used = subject.make()
    try:
        for line in transcript(used, seeds[::-1], 1, 3):
            del line  # so that it has a past
        return list(transcript(used, seeds, state, 3))
    except BrokenContractError as error:
        moves = replace(error.moves or Moves(), setup=SEEDED.format(number=3))
        raise BrokenContractError(f"in one instance for all episodes {error}", moves) from error.__cause__


def _target(name: str) -> str:
    """`module:attribute` of the world, so that a process makes it that knows no such entry point, or another."""
    target = target_of(env_id(name))
    if target.startswith("__main__:") or "<" in target:
        raise NotApplicableError(f"{target} cannot be imported by another process")
    return target


def _asked_of_a_process(asked: Mapping[str, Any], mood: Mapping[str, str]) -> list[Line]:
    here = [str(Path(each).absolute()) for each in sys.path]  # "" is the folder of this process
    env = {**os.environ, **mood, "PYTHONPATH": os.pathsep.join(here)}
    code = "from agentgym_py.testing.reproducibility import main; main()"
    with TemporaryDirectory(prefix="agentgym") as folder:
        try:
            done = subprocess.run(  # noqa: S603  # this very Python, and a constant program
                [sys.executable, "-P", "-c", code], input=json.dumps(asked), env=env, cwd=folder,
                capture_output=True, text=True, encoding="utf-8", timeout=_SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            many = f"{len(asked['seeds'])} episodes in a fresh process were not over after {_SECONDS:g} seconds"
            raise StoppedError(f"{many}: ask for fewer") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise BrokenContractError(f"the episodes cannot be played in a fresh process: {last}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for each in lines:
        if "raised" in each:
            moves = Moves(**each["moves"] | {"actions": tuple(each["moves"]["actions"]), "setup": _setup(mood)})
            raise BrokenContractError(f"in a fresh process {each['raised']}", moves, each["trace"])
    return lines


def _setup(mood: Mapping[str, str]) -> str:
    return _SETUP.format(number=mood["PYTHONHASHSEED"])


def main() -> None:
    """In the fresh process: play what stdin asks for, one JSON line a moment on stdout, the last one if it raised."""
    asked = json.load(sys.stdin)
    if asked["name"] not in gymnasium.registry or target_of(asked["name"]) != asked["target"]:
        register(asked["name"], asked["target"])
    with closing(EnvSpec(asked["name"], asked["kwargs"]).make()) as env:
        try:
            for line in transcript(env, asked["seeds"], asked["rng"], int(os.environ["PYTHONHASHSEED"])):
                print(json.dumps(line), flush=True)
        except BrokenContractError as error:
            said = {"raised": str(error), "moves": asdict(error.moves or Moves()), "trace": where_raised(error)}
            print(json.dumps(said), flush=True)


def transcript(env: TextEnv, seeds: list[int], state: int, number: int) -> Iterator[Line]:
    """Random episodes, all that the world says of each moment: what differs there differs for an agent or a teacher.

    In each the global generators are seeded with `number`, which a world must not notice.

    Raises:
        BrokenContractError: the world raised; its moves show it.
    """
    for seed in seeds:
        said: list[str] = []
        try:
            with seeded(number):
                yield from _episode(env, seed, Rng("fresh", state, seed), said)
        except Exception as error:  # the world may raise anything
            moves = Moves(seed, None, tuple(said))
            raise BrokenContractError(raising(error), shown_raising(moves, error)) from error


def _episode(env: TextEnv, seed: int, rng: Rng, said: list[str]) -> Iterator[Line]:
    observation, info = env.reset(seed=seed)
    yield _moment(env, seed, None, observation, info)
    for _ in range(_STEPS):
        if env.stop_reason:
            break
        action = NONSENSE if rng.below(8) == 0 else any_action(env, rng, observation)
        said.append(action)
        observation, reward, terminated, truncated, info = env.step(action)
        yield _moment(env, seed, action, observation, info) | {"end": [reward, terminated, truncated]}


def _moment(env: TextEnv, seed: int, action: str | None, observation: str, info: Mapping[str, Any]) -> Line:
    plan = [] if env.stop_reason else env.expert()
    task = env.current_task
    return {
        "seed": seed, "action": action, "observation": observation, "info": repr(info), "task": repr(task),
        "admissible actions": env.actions(), "plan of the expert": plan, "snapshot": env.snapshot().decode("latin-1"),
        "next action of the fair expert": None if env.stop_reason else env.fair_expert(),
        "thought": env.expert_thought(plan[0]) if plan else "",
    }  # fmt: skip


def _compare(first: list[Line], second: list[Line], who: str, past: str = "") -> None:
    said: list[str] = []
    seed: int | None = None
    for one, other in zip(first, second, strict=False):
        if one["action"] is None:
            seed, said = one["seed"], []
        else:
            said.append(one["action"])
        for key in one:
            if one[key] != other.get(key):
                what = f"{who} differ in the {key}: {one[key]!r:.300} and {other.get(key)!r:.300}"
                raise BrokenContractError(what, _both(seed, said, key, past))
    if len(first) != len(second):
        raise BrokenContractError(f"{who} play episodes of different length", _both(seed, said, "", past))


def _both(seed: int | None, said: list[str], key: str, past: str) -> Moves:
    """An episode, and what is to be asked then; with a past also in an instance that has it."""
    asked = _ASKED.get(key, "env.render()")
    again = past.format(seed=seed, actions=listed(said), asked=asked)
    return Moves(seed, None, tuple(said), setup=_setup(_MOODS[0]), after=f"print({asked})\n{again}".rstrip())
