"""What the base of the model `tiny` reads of the household, todo, calculator and tools: attempts, and rooms read.

- attempts: somebody acts in a task of the training split as the world's fair expert would, and now and then does
  anything at all (an action at random, one that cannot be done, the last one again), after which they go on. In the
  household three of four pursue another task's goal than the one that they were told, and say so at once, and their
  reasons, as the teacher does (`HouseholdEnv.expert_thought`): how one acts for a goal that one stated is to be read
  there, that it should be the goal told is not; the fourth, and everybody in other worlds, does what was told and
  says no reason;
- rooms read: questions about what a household's task asks for, and about what its pages name, with their answers.

In two of five attempts and in half of the rooms things have names that are made up, so that they must be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tiny_shop import ANNOUNCED, Turns

from agentgym_envs.calculator.env import CalculatorEnv
from agentgym_envs.household.env import HouseholdEnv
from agentgym_envs.household.room import Room
from agentgym_envs.todo.env import TodoEnv
from agentgym_envs.tools.env import ToolsEnv
from agentgym_py.agents.expert import format_expert_reply
from agentgym_py.env.actions import format_reply
from agentgym_py.rng import Rng

DIFFICULTIES = ("easy", "medium", "hard")
_STEPS = 30


@dataclass(frozen=True)
class Worlds:
    """The worlds of the attempts, one of each difficulty, and a household whose tasks are pursued elsewhere."""

    homes: dict[str, HouseholdEnv]
    pursued: dict[str, HouseholdEnv]
    others: tuple[dict[str, Any], ...]


def worlds() -> Worlds:
    """A set of worlds to draw documents from; a document resets the ones it needs."""

    def each(make: type[Any], **settings: Any) -> dict[str, Any]:
        return {difficulty: make(difficulty=difficulty, **settings) for difficulty in DIFFICULTIES}

    home = {"max_steps": 2 * _STEPS}
    return Worlds(
        homes=each(HouseholdEnv, **home),
        pursued=each(HouseholdEnv, **home),
        others=(each(TodoEnv), each(CalculatorEnv), each(ToolsEnv)),
    )


# ---- attempts -------------------------------------------------------------------------------------------------------


def attempt_at_home(rng: Rng, known: Worlds) -> Turns:
    """Somebody in a household who, three times out of four, is after something else than they were told."""
    difficulty = rng.choice(DIFFICULTIES)
    env, other = known.homes[difficulty], known.pursued[difficulty]
    first = _reset(rng, env)
    names = _kinds(env.house.room)
    elsewhere = rng.below(4) > 0
    if elsewhere:
        _reset(rng, other)
        first = first.replace(env.house.room.instruction, other.house.room.instruction)
        names |= _kinds(other.house.room)
    turns = _attempt(rng, env, first, thinks=elsewhere, rules=0.6)
    return _renamed(rng, turns, names) if rng.uniform() < 0.4 else turns


def attempt_elsewhere(rng: Rng, known: Worlds) -> Turns:
    """Somebody who does a task of todo, calculator or tools, with a detour here and there."""
    number = rng.choice((0, 0, 0, 1, 1, 2))
    env = known.others[number][rng.choice(DIFFICULTIES)]
    first = _reset(rng, env)
    turns = _attempt(rng, env, first, thinks=False, rules=(0.15, 0.7, 0.5)[number])
    actions = " ".join(reply.partition("Action: ")[2] for _, reply in turns)
    names = {name for name in re.findall("[A-Z][a-z]{3,}", first.split("Tools:")[0]) if name in actions}
    return _renamed(rng, turns, names) if rng.uniform() < 0.4 else turns


def _attempt(rng: Rng, env: Any, first: str, *, thinks: bool, rules: float) -> Turns:
    turns: Turns = []
    actions: list[str] = []
    seen = f"{env.rules['brief']}\n\n{first}" if rng.uniform() < rules else first
    detours = rng.choice((0, 0, 0.1, 0.25))
    while len(turns) < _STEPS and not env.stop_reason:
        action = _detour(rng, env, actions) if actions and rng.uniform() < detours else None
        if action:
            reply = format_reply(action, rng.choice(ANNOUNCED).format(action))
        else:
            action = env.fair_expert() or next(iter(env.expert()), None)
            if action is None:
                break
            reply = format_expert_reply(env, action, env.expert_thought(action) if thinks else "")
        turns.append((seen, reply))
        actions.append(action)
        seen = env.step(reply)[0]
    return [*turns, (seen, "")]


def _detour(rng: Rng, env: Any, actions: list[str]) -> str | None:
    """An action at random, with another number than can be meant, or the last one again; never the first of all."""
    possible = [action for action in env.actions() or () if not action.startswith("help")]
    kind = rng.below(4)
    if kind == 0:
        return actions[-1]
    if not possible:
        return None
    action = rng.choice(possible)
    numbered = re.fullmatch(r"(.*?)(\d+)", action)
    return f"{numbered[1]}{int(numbered[2]) + 1 + rng.below(5)}" if kind == 1 and numbered else action


def _reset(rng: Rng, env: Any) -> str:
    observation: str = env.reset(options={"task": rng.below(1 << 31), "split": "train"})[0]
    return observation


# ---- rooms read -----------------------------------------------------------------------------------------------------


def room_read(rng: Rng, known: Worlds, pages: int = 5, rules: float = 0.3) -> Turns:
    """What a task asks for, what a few receptacles hold of some kinds of things, and which of them were seen."""
    env = known.homes[rng.choice(DIFFICULTIES)]
    first = _reset(rng, env)
    room = env.house.room
    turns = _task_read(rng, room, f"{env.rules['brief']}\n\n{first}" if rng.uniform() < rules else first)
    kinds, places = sorted({thing.kind for thing in room.things}), [each.name for each in room.receptacles]
    full = [place for place in places if _held(env, place)]
    visited: set[str] = set()
    for _ in range(pages):
        place = rng.choice(places if rng.below(3) == 0 else full)
        page = env.step(f"Action: go to {place}")[0]
        if "closed" in page:
            page = env.step(f"Action: open {place}")[0]
        visited.add(place)
        named = {name.rpartition(" ")[0]: name for name in sorted(_held(env, place), reverse=True)}
        asked = [*rng.sample(sorted(named), min(1, len(named))), *rng.sample(kinds, min(2, len(kinds)))]
        for kind in rng.sample(list(dict.fromkeys(asked)), len(set(asked))):
            turns.append((f"{page}\nWhich {kind}?".lstrip(), named.get(kind, "none")))
            page = ""
        if rng.below(3) == 0:
            place = rng.choice(places)
            turns.append((f"Were you at {place}?", "yes" if place in visited else "no"))
    return _renamed(rng, turns, _kinds(room)) if rng.below(2) else turns


def _task_read(rng: Rng, room: Room, seen: str) -> Turns:
    goal = room.goal
    treated = {"hot": "heat", "cool": "cool", "clean": "clean"}.get(goal.state)
    asked = [
        ("What is to be found?", goal.thing),
        ("How many?", "two" if goal.count == 2 else "one"),
        ("What is done with it?", treated or ("look" if goal.lamp else "nothing")),
        ("Where is it brought?", goal.lamp or goal.place),
    ]
    (question, answer), *rest = rng.sample(asked, 3)
    return [(f"{seen}\n{question}", answer), *rest]


def _held(env: HouseholdEnv, place: str) -> list[str]:
    room = env.house.room
    return [room.things[thing].name for thing in env.house.contents[room.by_name[place]]]


# ---- made-up names --------------------------------------------------------------------------------------------------


def _kinds(room: Room) -> set[str]:
    """The kinds of things and receptacles that a room and its task speak of; the desk lamp keeps its name."""
    goal = room.goal
    named = {thing.kind for thing in room.things} | {each.kind for each in room.receptacles} | {goal.thing, goal.place}
    return named - {"", "desklamp"}


def _renamed(rng: Rng, turns: Turns, names: set[str]) -> Turns:
    """The same document about things that are called otherwise."""
    if not names:
        return turns
    new = {name.lower(): _name(rng) for name in sorted(names)}
    pattern = re.compile(rf"\b({'|'.join(sorted(map(re.escape, names), key=len, reverse=True))})\b", re.IGNORECASE)

    def call(found: re.Match[str]) -> str:
        name = new[found[0].lower()]
        return name.capitalize() if found[0][0].isupper() else name

    return [(pattern.sub(call, said), pattern.sub(call, reply)) for said, reply in turns]


def _name(rng: Rng) -> str:
    syllables = [rng.choice("bcdfghklmnprstvwz") + rng.choice("aeiou") for _ in range(2 + rng.below(2))]
    return "".join(syllables) + rng.choice(("", "", "n", "r", "s", "t", "l", "ck"))


# ---- all of them ----------------------------------------------------------------------------------------------------


def attempts(seed: int) -> Iterator[Turns]:
    """Documents without end: of ten, five or six attempts at home, two or three rooms read, two attempts elsewhere."""
    rng, known = Rng("tiny attempts", seed), worlds()
    while True:
        kind = rng.below(100)
        make = attempt_at_home if kind < 55 else room_read if kind < 80 else attempt_elsewhere
        yield make(rng, known)


def short_rooms(seed: int) -> Iterator[Turns]:
    """Rooms read without end, two pages each."""
    rng, known = Rng("short rooms", seed), worlds()
    while True:
        yield room_read(rng, known, pages=3, rules=0.1)
