"""The household's part of the training text of `tiny`: attempts and room questions.

- Attempts: an agent acts in a training task as the fair expert does, with random detours (a random action, an
  impossible one, the last one again). Three of four attempts pursue another task's goal, state it at once and give
  reasons, as the teacher does (`HouseholdEnv.expert_thought`). So they teach how to act for a stated goal, but not that
  it should be the given one. All other attempts pursue the given goal and give no reasons.
- Room questions: questions with answers about a household's task and about its pages.

In two of five attempts and in half of the rooms things have made-up names, so that they must be read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tiny_shop import Turns
from tiny_worlds import MAX_STEPS, attempt, reset

from agentgym_envs.household.env import HouseholdEnv
from agentgym_envs.household.room import Room
from agentgym_py.rng import Rng

DIFFICULTIES = ("easy", "medium", "hard")


@dataclass(frozen=True)
class Homes:
    """Households by difficulty; `pursued` have the goals of other attempts."""

    homes: dict[str, HouseholdEnv]
    pursued: dict[str, HouseholdEnv]


def make_homes() -> Homes:
    """Make the envs; a document resets those that it needs."""

    def by_difficulty() -> dict[str, HouseholdEnv]:
        return {name: HouseholdEnv(difficulty=name, max_steps=2 * MAX_STEPS) for name in DIFFICULTIES}

    return Homes(by_difficulty(), by_difficulty())


# ---- attempts -------------------------------------------------------------------------------------------------------


def household_attempt(rng: Rng, envs: Homes) -> Turns:
    """Draw an attempt in a household, three times out of four at another task's goal."""
    difficulty = rng.choice(DIFFICULTIES)
    env, pursued = envs.homes[difficulty], envs.pursued[difficulty]
    first = reset(rng, env)
    names = _kinds(env.house.room)
    other_goal = rng.below(4) > 0
    if other_goal:
        reset(rng, pursued)
        first = first.replace(env.house.room.instruction, pursued.house.room.instruction)
        names |= _kinds(pursued.house.room)
    turns = attempt(rng, env, first, thinks=other_goal, rules=0.6)
    return _with_new_names(rng, turns, names) if rng.uniform() < 0.4 else turns


# ---- room questions -------------------------------------------------------------------------------------------------


def room_questions(rng: Rng, envs: Homes, pages: int = 5, rules: float = 0.3) -> Turns:
    """Draw questions about a task, about the things in a few receptacles, and about visited receptacles."""
    env = envs.homes[rng.choice(DIFFICULTIES)]
    first = reset(rng, env)
    room = env.house.room
    turns = _task_questions(rng, room, f"{env.rules['brief']}\n\n{first}" if rng.uniform() < rules else first)
    kinds, places = sorted({thing.kind for thing in room.things}), [place.name for place in room.receptacles]
    full = [place for place in places if _things_in(env, place)]
    visited: set[str] = set()
    for _ in range(pages):
        place = rng.choice(places if rng.below(3) == 0 else full)
        page = env.step(f"Action: go to {place}")[0]
        if "closed" in page:
            page = env.step(f"Action: open {place}")[0]
        visited.add(place)
        named = {name.rpartition(" ")[0]: name for name in sorted(_things_in(env, place), reverse=True)}
        chosen = [*rng.sample(sorted(named), min(1, len(named))), *rng.sample(kinds, min(2, len(kinds)))]
        for kind in rng.sample(list(dict.fromkeys(chosen)), len(set(chosen))):
            turns.append((f"{page}\nWhich {kind}?".lstrip(), named.get(kind, "none")))
            page = ""
        if rng.below(3) == 0:
            place = rng.choice(places)
            turns.append((f"Were you at {place}?", "yes" if place in visited else "no"))
    return _with_new_names(rng, turns, _kinds(room)) if rng.below(2) else turns


def _task_questions(rng: Rng, room: Room, text: str) -> Turns:
    goal = room.goal
    treatment = {"hot": "heat", "cool": "cool", "clean": "clean"}.get(goal.state)
    questions = [
        ("What is to be found?", goal.thing),
        ("How many?", "two" if goal.count == 2 else "one"),
        ("What is done with it?", treatment or ("look" if goal.lamp else "nothing")),
        ("Where is it brought?", goal.lamp or goal.place),
    ]
    (question, answer), *rest = rng.sample(questions, 3)
    return [(f"{text}\n{question}", answer), *rest]


def _things_in(env: HouseholdEnv, place: str) -> list[str]:
    room = env.house.room
    return [room.things[thing].name for thing in env.house.contents[room.by_name[place]]]


# ---- made-up names --------------------------------------------------------------------------------------------------


def _kinds(room: Room) -> set[str]:
    """Return the kinds of things and receptacles of a room and its task, without the desk lamp."""
    goal = room.goal
    named = (
        {thing.kind for thing in room.things} | {place.kind for place in room.receptacles} | {goal.thing, goal.place}
    )
    return named - {"", "desklamp"}


def _with_new_names(rng: Rng, turns: Turns, names: set[str]) -> Turns:
    """Rename things in a document."""
    if not names:
        return turns
    new = {name.lower(): _name(rng) for name in sorted(names)}
    pattern = re.compile(rf"\b({'|'.join(sorted(map(re.escape, names), key=len, reverse=True))})\b", re.IGNORECASE)

    def rename(match: re.Match[str]) -> str:
        name = new[match[0].lower()]
        return name.capitalize() if match[0][0].isupper() else name

    return [(pattern.sub(rename, user), pattern.sub(rename, reply)) for user, reply in turns]


def _name(rng: Rng) -> str:
    syllables = [rng.choice("bcdfghklmnprstvwz") + rng.choice("aeiou") for _ in range(2 + rng.below(2))]
    return "".join(syllables) + rng.choice(("", "", "n", "r", "s", "t", "l", "ck"))
