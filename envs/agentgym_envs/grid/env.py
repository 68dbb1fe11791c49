"""AgentGrid-v0: missions in rooms of a grid, as in BabyAI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar

from agentgym_envs.grid import wording
from agentgym_envs.grid.actions import NO_ACTION, Refusal, admissible, first_action, moves_of
from agentgym_envs.grid.levels import LEVELS, draw, names_of
from agentgym_envs.grid.mission import Clause, Description, Mission
from agentgym_envs.grid.planner import fair_plan, looking_plan, plan
from agentgym_envs.grid.saving import load, save
from agentgym_envs.grid.view import Sight, describe, entry_of, seen_cells, sights
from agentgym_envs.grid.world import Layout, World
from agentgym_py.env import GeneratedEnv, Outcome, Reply, Task, function_tool, text_parameter
from agentgym_py.env.arguments import require_choice
from agentgym_py.env.generated import Draft
from agentgym_py.env.types import TINY_WORLDS_DEFAULTS
from agentgym_py.rng import Rng

_MAX_LENGTH = 100
_PLACES = {"left": "on the left", "right": "on the right", "front": "in front", "behind": "behind"}
"""Places of a description in a thought, in words of no split's missions alone."""
_FORMS = "Write turn left, turn right, move forward, pick up, drop, toggle, or a walk such as go to red ball 1."


class GridEnv(GeneratedEnv[Layout]):
    """AgentGrid-v0: carry out a mission in a grid of rooms.

    It is BabyAI in AgentGym's text form: BabyAI's levels, missions, moves, view and reward.

    Task: a mission of BabyAI's grammar: go to, pick up or open a thing, put one next to another; two of these joined by
    `and`, and two parts in sequence (`then`, `after you`). A thing is a ball, box, key or door of one of six colours,
    perhaps with a location as seen from the start (`on your left`); `a` means any of several. Rooms lie in a grid;
    walls have doors, and a locked one takes a key of its colour. One thing is carried at a time. A toggled box opens:
    it is gone, and what was in it lies there.

    | difficulty | levels | limit |
    |---|---|--:|
    | easy | one room and its doors | 16 |
    | medium | two to nine rooms, one or two clauses | 80 |
    | hard | locked and blocked rooms, every sentence of the grammar | 150 |

    Easy levels: GoToObj, GoToRedBallGrey, GoToRedBall, GoToRedBlueBall, GoToLocal, GoToDoor, GoToObjDoor, OpenRedDoor,
    OpenDoor, ActionObjDoor, OneRoomS8, PickupDist, PickupLoc, PutNextLocal. Medium levels: GoToObjMaze,
    GoToObjMazeOpen, GoTo, GoToOpen, Open, OpenTwoDoors, OpenDoorsOrderN4, Pickup, PickupAbove, FindObjS6, PutNextS6N3,
    MoveTwoAcrossS5N2, UnlockLocal, UnlockLocalDist, KeyInBox, UnlockPickup, UnlockPickupDist. Hard levels:
    GoToImpUnlock, GoToSeq, Unlock, UnblockPickup, BlockedUnlockPickup, UnlockToUnlock, KeyCorridor, Synth, SynthLoc,
    SynthSeq, MiniBossLevel, BossLevelNoUnlock, BossLevel.

    Tasks of a difficulty take its levels in turn, and a task's kind is its level.

    Actions: BabyAI's moves `turn left`, `turn right`, `move forward`, `pick up`, `drop`, `toggle` act on the cell
    ahead. Walks are several moves over cells in view: `go to red ball 1` (face it), `pick up red ball 1`, `drop next to
    red ball 1`, `go through green door 1` (into the open doorway), `toggle and go through green door 1`. BabyAI's own
    words are read, too: `left`, `pickup`, `open the green door`, `put the ball next to the box` (with the ball in
    hand). `red ball` is the nearest one; `ball` is understood if only one is in view. As tools: `go_to(thing)` and so
    on.

    Observation: the things in view with their positions, the free cells ahead, to the left and to the right, and what
    is carried. The view is BabyAI's: 7 x 7 cells ahead, as far as walls and closed doors let it. Things of the same
    name are numbered, the nearest first.

    Reward: on success 1 - 0.9 t / T, as in BabyAI: t is the number of moves so far and T is BabyAI's limit for the
    mission, at most t; else 0. `success` is whether the mission is done.

    End: the mission's last clause terminates; so does opening a box that the mission cannot do without. `max_steps`
    (16, 80, 150) truncates; each action counts once, however many moves it takes. The fair expert solves 97 % of the
    tasks or more in these limits.

    Luck: an agent that acts at random among the listed walks often meets what one clause asks for. Its success is 65 %
    (easy), 50 % (medium) and 38 % (hard), its mean reward 0.54, 0.42 and 0.31. So `random_baseline` is 70, 57 and 42 %.

    Splits: test missions are in BabyAI's own words, valid missions in others, and training missions in wordings from
    grammars, with colours out of 55. Every split has its own wordings.

    Expert: it knows everything and plans in moves, by breadth-first search. Its plan is shortest among those that
    carry only what the mission names, keys, and what blocks the only way. Walks stand for moves if they take as many.
    If that search grows too large, it does one clause after the other, and the plan may be longer; if several things
    block the way, it does what the fair expert does. A plan of more moves may have fewer actions: in 24, 6 and 7 of
    100 test tasks the fair expert needs fewer. Planning takes 1 ms in easy tasks, 3 ms in medium and 70 ms in hard ones
    on average, and 2.5 s in the slowest of 100 hard ones.
    The fair expert knows only what it has seen: it goes to where it sees more until it can do the next clause.

    Args:
        difficulty: `easy`, `medium` or `hard`.
        level: Draw only tasks of this level; its difficulty replaces `difficulty`.
        max_steps: Step limit; by default as above.
        split: Where tasks come from if `reset` names no split.
        render_mode: `ansi` or None.

    Registered ids: AgentGrid-v0.
    """

    name: ClassVar[str] = "grid"
    version: ClassVar[int] = 3
    reading_actions: ClassVar[tuple[str, ...]] = ("turn",)
    max_return: ClassVar[float | None] = 1.0
    id_arguments: ClassVar[tuple[str, ...]] = ("difficulty", "level")
    evolve_defaults: ClassVar[Mapping[str, Any]] = {**TINY_WORLDS_DEFAULTS, "select.threshold": 0.0}
    limits: ClassVar[Mapping[str, int]] = {"easy": 16, "medium": 80, "hard": 150}
    random_baselines: ClassVar[Mapping[str, float]] = {"easy": 0.7, "medium": 0.57, "hard": 0.42}
    rules: ClassVar[Mapping[str, str]] = {
        "full": (
            "You are in a room of a grid of rooms and carry out a mission. You see the cells ahead of you, not through "
            "walls and closed doors. Each turn you do one action:\n"
            "turn left, turn right, move forward change where you are and what you see.\n"
            "pick up, drop, toggle act on the cell ahead. You carry one thing. toggle opens or closes a door and opens "
            "a box, which is gone then. A locked door opens if you carry a key of its colour.\n"
            "go to red ball 1 walks to a thing in view and faces it; pick up red ball 1 and drop next to red ball 1 do "
            "more.\n"
            "go through red door 1 walks into an open door; toggle and go through red door 1 opens it first.\n"
            "Answer in this form:\nThought: why\nAction: turn left, go to THING or another action"
        ),
        "brief": (
            "Carry out the mission: turn left, turn right, move forward, pick up, drop, toggle, go to THING, pick up "
            "THING, drop next to THING, go through DOOR, toggle and go through DOOR."
        ),
        "none": "",
    }

    def __init__(
        self,
        *,
        difficulty: str = "medium",
        level: str | None = None,
        max_steps: int | None = None,
        split: str = "train",
        render_mode: str | None = None,
    ) -> None:
        if level is not None:
            require_choice("level", level, list(LEVELS))
            difficulty = LEVELS[level].difficulty
        super().__init__(difficulty=difficulty, max_steps=max_steps, split=split, render_mode=render_mode)
        self._levels = names_of(difficulty)
        self.level = level
        self._drawn = self._levels[0]

    # ---- tasks ------------------------------------------------------------------------------------------------------

    def _generate(self, name: str | int, split: str | None) -> tuple[Task, Layout]:
        """Take the levels in turn; with `level`, number n is the n-th task of that level."""
        if isinstance(name, Integral) and not isinstance(name, bool) and self.level is not None:
            name = int(name) * len(self._levels) + self._levels.index(self.level)
        number = str(name).rpartition("/")[2]
        if number.isascii() and number.isdigit():
            self._drawn = self._levels[int(number[-18:]) % len(self._levels)]
        return super()._generate(name, split)

    def draft(self, rng: Rng, split: str) -> Draft[Layout]:
        """Draw rooms and a mission."""
        layout = draw(rng, self._drawn, wording.colors(rng, split))
        return Draft(wording.word(rng, split, layout.mission), layout, layout.level)

    def turn_to(self, mission: Mission) -> None:
        """Replace the mission; what is seen and where things are stays as it was at the start."""
        self._enter(World(replace(self.puzzle, mission=mission)), 0)

    def begin(self, task: Task) -> str:
        """Return the mission and the first view."""
        self._enter(World(self.puzzle_of(task)), 0)
        return f"{task.instruction}\n{self._text}"

    def _enter(self, world: World, seen: int) -> None:
        self._world, self._seen = world, seen
        self._look()

    def _look(self) -> None:
        self._view = seen_cells(self._world)
        bits = 0
        for cell in self._view:
            bits |= 1 << cell
        self._seen |= bits
        self._sights: list[Sight] = sights(self._world, self._view)

    @property
    def _text(self) -> str:
        return describe(self._world, self._sights)

    # ---- the episode ------------------------------------------------------------------------------------------------

    def act(self, reply: Reply) -> Outcome:
        """Do a move or a walk."""
        text = _action(reply)
        moves = moves_of(self._world, self._view, self._sights, text) if text else NO_ACTION
        if isinstance(moves, Refusal):
            return self.invalid(f"{moves.why}. {_FORMS if moves is NO_ACTION else self._text}")
        world, changed = self._world, not moves
        for move in moves:
            changed |= world.do(move)
            if world.is_done or world.is_lost:
                break
        self._look()
        if world.is_done:
            reward = 1 - 0.9 * min(1.0, world.moves / world.layout.limit)
            return Outcome("The mission is done.", reward, terminated=True, success=True)
        if world.is_lost:
            return Outcome("A box that the mission needs is gone.", terminated=True)
        if not changed:
            return self.invalid(f"Nothing happens. {self._text}")
        return Outcome(self._text)

    def actions(self) -> list[str]:
        """List the moves that change something, and walks to the things in view."""
        self._require_reset()
        return [] if self._is_over else admissible(self._world, self._sights)

    @property
    def _is_over(self) -> bool:
        return self._world.is_done or self._world.is_lost

    def tools(self) -> list[dict[str, Any]]:
        """Return the moves and the walks."""
        thing = {"thing": text_parameter("As in: red ball 1")}
        door = {"door": text_parameter("As in: green door 1")}
        return [
            function_tool("turn_left", "Turn left.", {}),
            function_tool("turn_right", "Turn right.", {}),
            function_tool("move_forward", "Go to the cell ahead.", {}),
            function_tool("pick_up", "Walk to a thing in view and pick it up.", thing),
            function_tool("drop", "Drop what you carry into the cell ahead.", {}),
            function_tool("toggle", "Open or close the door ahead, or open the box ahead.", {}),
            function_tool("go_to", "Walk to a thing in view and face it.", thing),
            function_tool("drop_next_to", "Walk to a thing in view and drop what you carry next to it.", thing),
            function_tool("go_through", "Walk into an open door in view.", door),
            function_tool("toggle_and_go_through", "Open a door in view and walk into it.", door),
        ]

    def call_forms(self) -> Mapping[str, str]:
        """See `TextEnv.call_forms`."""
        return {
            "turn_left": "turn left", "turn_right": "turn right", "move_forward": "move forward",
            "pick_up": "pick up {thing}", "drop": "drop", "toggle": "toggle", "go_to": "go to {thing}",
            "drop_next_to": "drop next to {thing}", "go_through": "go through {door}",
            "toggle_and_go_through": "toggle and go through {door}",
        }  # fmt: skip

    # ---- forks and the experts --------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the pose, the things' places, doors, done clauses, and the seen cells."""
        return save(self._world, self._seen)

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Continue an episode."""
        self._enter(*load(self.puzzle_of(task), state))

    def secrets(self) -> list[str]:
        """Return the names of unseen things, unless another thing of the name was seen or the mission names it."""
        task = self._require_reset()
        world = self._world
        seen = {
            thing.name
            for index, thing in enumerate(world.layout.things)
            if world.carried == index or (world.places[index] and self._seen >> world.places[index] & 1)
        }
        hidden = {thing.name for index, thing in enumerate(world.layout.things) if not world.gone >> index & 1} - seen
        return sorted(name for name in hidden if name not in task.instruction)

    def expert(self) -> list[str]:
        """Return a plan that does the mission; the class says when it is the shortest."""
        self._require_reset()
        if self._is_over:
            return []
        world, seen, listed, texts = self._world.copy(), self._view, self._sights, list[str]()
        moves = plan(world) or looking_plan(world, self._seen)
        while moves:
            text, count = first_action(world, seen, listed, moves)
            texts.append(text)
            for move in moves[:count]:
                world.do(move)
            moves = moves[count:]
            if moves:
                seen = seen_cells(world)
                listed = sights(world, seen)
        return texts

    def fair_expert(self) -> str | None:
        """Return the next step to a clause that can be done with what was seen, else to the nearest unseen cell."""
        self._require_reset()
        if self._is_over:
            return None
        moves = fair_plan(self._world, self._seen)
        return first_action(self._world, self._view, self._sights, moves)[0] if moves else None

    def expert_thought(self, action: str) -> str:
        """Return what the fair expert is about to do."""
        if self._is_over or action != self.fair_expert():
            return ""
        clause, world = self._world.pending[0], self._world
        carries = bool(clause.others) and world.carried in clause.things
        wanted = clause.others if carries else clause.things
        aim = f"{clause.verb} {' next to '.join(_groups(clause))}"
        entry = next((entry_of(world, sight) for sight in self._sights if sight.thing in wanted), "")
        seen = entry or ("not now" if self._known(wanted) else "not yet")
        return f"{aim[0].upper()}{aim[1:]}. In view: {seen}."

    def _known(self, group: frozenset[int]) -> str:
        """The name of a thing of a group that was seen or is carried; empty if there is none."""
        world = self._world
        for thing in sorted(group):
            if world.carried == thing or (world.places[thing] and self._seen >> world.places[thing] & 1):
                return world.layout.things[thing].name
        return ""


def _groups(clause: Clause) -> list[str]:
    """The descriptions of a clause."""
    return [_text_of(description) for description in (clause.thing, clause.other) if description]


def _text_of(description: Description) -> str:
    """A description in plain words, without an article: `red ball on the left`."""
    place = _PLACES[description.location] if description.location else ""
    return " ".join(word for word in (description.color, description.kind or "object", place) if word)


def _action(reply: Reply) -> str:
    """The action and its input in lower case; empty if the text is too long."""
    parts = [reply.action.replace("_", " ")]
    if reply.arguments is not None:
        parts += map(str, reply.arguments.values())
    elif reply.action_input is not None:
        parts.append(reply.action_input)
    line = " ".join(" ".join(parts).lower().split()).rstrip(".")
    return line if len(line) <= _MAX_LENGTH else ""
