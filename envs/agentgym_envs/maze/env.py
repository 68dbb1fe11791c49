"""AgentMaze-v0: find a key and a gate in a house that is seen one room at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from agentgym_envs.maze.house import STEPS, House, draw_house, path, path_to_nearest
from agentgym_py.env import GeneratedEnv, Outcome, Reply, Task, function_tool, text_parameter
from agentgym_py.env.generated import Draft
from agentgym_py.env.types import TINY_WORLDS_DEFAULTS
from agentgym_py.env.wording import expand
from agentgym_py.rng import Rng

_MAX_LENGTH = 100
_FORMS = "Write go north (or east, south, west), take METAL key, open METAL gate, or look."
REQUESTS = {
    "train": (
        "[Please |]leave [the|this] [house|building] [by|through|by way of] [the {m} gate|the gate of {m}].",
        "[[Get|Walk|Make your way] out[ of the house| of here|]|Escape|Depart] through the {m} gate[ only|].",
        "[Find your way out|Your way out|Here is the way out|The exit|Your exit]: [the {m} gate|the gate of {m}].",
        "[You must|You have to|You should|I want you to|Try to|Now] [leave|get out|go out] [by|through] the {m} gate[, "
        "not by another|, whatever else you see|].",
        "[Only|Just|Nothing but|No gate but] the {m} gate [leads out|lets you out|will do|is of use].",
        "[Look for|Find|Search for] the {m} gate[ in this house|] and [open it|leave by it|go through it|unlock it].",
        "[It is|It's] the {m} gate that [opens the way|has to be opened|you must open|you need].",
        "[Which gate|Which way out|By which gate]? The {m} one.",
        "[Take|Use|Choose|Unlock|Open] the {m} gate[ to leave| to go out| to get out| and be gone|].",
        "Of all [the|these] gates, [open|choose|use|unlock] the {m} one.",
        "[The|Your] key [you need|to find] is [the one of|that of|for] the {m} gate[, where you leave|, your way out].",
        "[Somebody|A friend] waits [outside|behind|beyond] the {m} gate. [Go there|Meet them|Go and open it].",
        "{m}: [that is|this is] the gate [to open|for you|you leave by].",
        "[Please |Kindly |][quit|exit|abandon|depart from|get away from|go out of|walk out of|step out of|flee] [the|"
        "this] [house|building|place|mansion|maze] [by|through|by way of|via] [the {m} gate|the gate of {m}].",
        "[Can|Could|Will|Would] you [please |][leave|get out|go out|walk out|find the way out|go outside] [by|through|"
        "via] the {m} gate?",
        "[I|We] [would like|want|need|ask|expect] you to [leave|get out|go out|walk out|exit|escape] [by|through|via] "
        "the {m} gate.",
        "[The owner|The guide|A servant|Your host|The king|The porter|An old woman] [asks|tells|begs|orders|wants|"
        "expects] you to [leave|get out|go out|walk out|exit] [by|through|via] the {m} gate.",
        "[Your task|Your job|Your goal|The aim|The task|The mission|Your duty|The plan] is [to open|to unlock|to pass|"
        "to reach and open|to get through|to find and open|to go out by|to leave by] the {m} gate.",
        "[To get out|To leave|To escape|To be free|In order to leave|If you want to get out|If you want to leave|When "
        "you leave][,|] [use|open|unlock|take|choose|pass] the {m} gate.",
        "[Freedom|The street|The garden|Daylight|Home|The open air|The world outside|The way home] [lies|is|waits|"
        "begins] [behind|beyond|on the other side of] the {m} gate.",
        "The {m} gate [is the exit|is the way out|is your exit|is your goal|is the right one|is the one to open|leads "
        "outside|leads to freedom|takes you home|is where you get out|is your target].",
        "[The exit|The way out|Your gate|Your goal|Your target] is [the {m} gate|the gate of {m}|the gate made of "
        "{m}].",
        "[The right gate|The gate to open|The gate that you need|The correct gate|The gate for you] is [the {m} one|"
        "the one of {m}|made of {m}|of {m}].",
        "[Open|Unlock|Unbolt|Find|Pass|Get through|Go through|Exit by|Step through|Reach and open] the gate [that is |"
        "which is |]made of {m}.",
        "[Fetch|Find|Get|Take|Pick up|Look for|Search for|Collect|Bring] the {m} key and [open|unlock|leave by|go out "
        "by|pass through|get out through] [its gate|the gate that it fits|the gate that goes with it|the matching "
        "gate].",
        "[With|Using] the {m} key[,|] [open|unlock|leave by|go out by|pass through] [its gate|the gate that it fits|"
        "the gate that goes with it|the matching gate].",
        "The {m} key [opens|unlocks|fits] [the way out|the exit|the gate that you need|your gate][: find it|; use it|"
        ", so find it|].",
        "[Somewhere|In one of the rooms|In this house|Hidden here|In some room] [is|lies] the {m} key; [it opens|with "
        "it you open|it unlocks] [your gate|the way out|the exit].",
        "[You are looking for|You are after|You search for|What you need is|You have to find|You want] the {m} gate[ "
        "and its key| and the key to it|].",
        "[You may|You can|You are allowed to|You will only|You shall] [leave|get out|go out|go home] [by|through|via] "
        "the {m} gate[ only| alone|].",
        "[Do not|Don't|Never] [open|unlock|touch|try] [any gate but|any gate except] the {m} one.",
        "[All gates but|All other gates than|All the gates except] the {m} one are [wrong|traps|false|useless|not for "
        "you].",
        "There are [several|many|a few|some] gates[ here| in this house|], [but|and] [you want|you need|open|only "
        "open|yours is|the right one is] the {m} one.",
        "[Several|Many|Some] gates [lead out|are locked|are here][, but|;] [yours is|choose|take|open|you need] the "
        "{m} one.",
        "[Get|Make it|Go|Run|Walk|Hurry|Find your way] [home|outside|into the open|to freedom|out] [by|through|via] "
        "the {m} gate.",
        "[It is time to go|Time to leave|The party is over|It is late|The house is closing|There is a fire]: [leave|"
        "get out|go out|exit] by the {m} gate.",
        "[You are locked in|You are trapped|You are lost in a house|You are a prisoner here|You woke up in a strange "
        "house]. [Escape|Get out|Leave|Flee|Break out] [by|through|via] the {m} gate.",
        "How do you [get|come] out[ of here|]? [By|Through|Via] the {m} gate.",
        "Where [is the exit|is the way out|do you have to go]? [At|Behind] the {m} gate.",
        "[Gate|Exit|Goal|Target|Way out|Destination]: {m}.",
        "[Destination|Exit|Goal|Target|Task|Order|Mission]: [open the {m} gate|the {m} gate|leave by the {m} gate|"
        "unlock the {m} gate].",
        "{m} is [the gate to open|the gate for you|your gate|the right gate|what your gate is made of|what the exit "
        "is made of].",
        "{m} gate, [please|and no other|that is your exit|that is the way out|there you get out].",
        "[A note|A letter|A sign|A map|The plan|A voice] [says|tells you|reads]: [leave|go out|escape|get out] by the "
        "{m} gate.",
        "[They say|It is said|An old man says|The owner says] that the {m} gate [leads out|is the exit|is the right "
        "one|is the way out].",
        "[Your carriage|A taxi|A boat|Your family|A horse|The bus|Your dog] [waits|stands|is waiting] [outside|behind|"
        "beyond] the {m} gate. [Go there|Get there|Hurry|Meet it there].",
        "[Let us|Let's] [leave|get out|go out|go home] [by|through|via] the {m} gate.",
        "The {m} gate [has to|must|should|needs to] be [opened|unlocked|found and opened|reached and opened].",
        "The {m} gate [is to be|waits to be] [opened|unlocked|found and opened].",
        "[Bring|Carry|Take] the {m} key to [its|the matching] gate [and open it|and unlock it|and leave|and go out].",
        "[First|At first][,|] [find|get|fetch|take] the {m} key; [then|after that][,|] [open|unlock|leave by] its "
        "gate.",
        "[Before you leave|Before you can go], [find|get|fetch] the {m} key: it [opens|unlocks] your gate.",
        "[Pick|Select|Decide for|Go for|Head for|Make for|Aim for|Try] the {m} gate [to get out|as your exit|to leave|"
        "and no other].",
        "[Walk|Wander|Go|Search] through the [rooms|house] until you [find|have] the {m} key, and [open|unlock] its "
        "gate.",
    ),
    "valid": ("The {m} gate is the one to leave by.",),
    "test": ("Go home, by no other gate than the {m} one.",),
}


class MazeEnv(GeneratedEnv[House]):
    """AgentMaze-v0: find a key and the gate that it opens.

    The agent sees one room of the house at a time.

    Task: leave by the gate of a given metal, with the key of that metal. A house has 3 x 3 (easy), 4 x 4 (medium) or
    5 x 5 (hard) rooms in a grid, joined by a random tree of doors and a few extra doors. It has three or four keys and
    as many gates; one pair is the right one. The agent carries one key: taking another drops the first. Names of rooms,
    metals and wordings are divided among the splits. The train split has hundreds of names, two of five made up. Valid
    and test have one wording each.

    Actions: `go north` (`east`, `south`, `west`; the direction alone is enough), `take brass key`, `open brass gate`,
    `look`; the words `key` and `gate` may be missing. As tools: `go(direction)`, `take(key)`, `open(gate)`, `look()`.

    Observation: the room, its doors, its keys and its gate; nothing of other rooms.

    Reward: 1 for the right gate, else 0; `success` likewise.

    End: opening any gate terminates; `max_steps` (24, 40, 64) truncates.

    The expert knows the house and has a shortest plan: a shortest path to the key, and from there to the gate. The fair
    expert knows only the rooms that it has visited: it goes to the nearest unvisited room until it has seen the key and
    the gate.

    Args:
        difficulty: `easy`, `medium` or `hard`.
        max_steps: Step limit; by default as above.
        split: Where tasks come from if `reset` names no split.
        render_mode: `ansi` or None.

    Registered ids: AgentMaze-v0.
    """

    name: ClassVar[str] = "maze"
    reading_actions: ClassVar[tuple[str, ...]] = ("look",)
    version: ClassVar[int] = 3
    held_out_version: ClassVar[int | None] = 0
    max_return: ClassVar[float | None] = 1.0
    evolve_defaults: ClassVar[Mapping[str, Any]] = TINY_WORLDS_DEFAULTS
    limits: ClassVar[Mapping[str, int]] = {"easy": 24, "medium": 40, "hard": 64}
    rules: ClassVar[Mapping[str, str]] = {
        "full": (
            "You are in a house of rooms that lie in a grid; you see one room at a time. Find the key and the gate of "
            "the metal that you are told, and open that gate: another gate ends the task too. "
            "Each turn you do one action:\n"
            "go north, go east, go south, go west take you through a door to the next room.\n"
            "take brass key takes a key that lies here; you carry one, the other stays behind.\n"
            "open brass gate opens a gate that is here with the key of its metal.\n"
            "look shows the room again.\n"
            "Answer in this form:\nThought: why\nAction: go north, take METAL key or open METAL gate"
        ),
        "brief": "Find the key and open the gate: go north (east, south, west), take METAL key, open METAL gate.",
        "none": "",
    }

    _opened = ""  # set before the first reset, so that calls before it raise ResetNeededError

    # ---- tasks ------------------------------------------------------------------------------------------------------

    def draft(self, rng: Rng, split: str) -> Draft[House]:
        """Draw a house."""
        house = draw_house(rng, split, self.difficulty)
        request = expand(rng, rng.choice(REQUESTS[split])).format(m=house.metal)
        request = request[0].upper() + request[1:]
        return Draft(request, house, "gate", len(_plan(house, house.start, "", house.keys)))

    def begin(self, task: Task) -> str:
        """Return the request and the first room."""
        house = self.puzzle_of(task)
        self._room, self._carried, self._keys, self._opened = house.start, "", dict(house.keys), ""
        self._visited = {house.start}
        return f"{task.instruction}\n{self._view(house)}"

    # ---- the episode ------------------------------------------------------------------------------------------------

    def act(self, reply: Reply) -> Outcome:
        """Do `go`, `take`, `open` or `look`."""
        match _words(reply):
            case [direction] | ["go", direction] if direction in STEPS:
                return self._go(direction)
            case ["take", *metal, "key"] | ["take", *metal] if metal:
                return self._take(" ".join(metal))
            case ["open", *metal, "gate"] | ["open", *metal] if metal:
                return self._open(" ".join(metal))
            case ["look"]:
                return Outcome(self._view(self.puzzle))
        return self.invalid(f"Not an action. {_FORMS}")

    def _go(self, direction: str) -> Outcome:
        house = self.puzzle
        if direction not in house.doors[self._room]:
            return self.invalid(f"There is no door to the {direction}.")
        self._room = house.doors[self._room][direction]
        self._visited.add(self._room)
        return Outcome(self._view(house))

    def _take(self, metal: str) -> Outcome:
        if metal == self._carried:
            return self.invalid(f"You carry the {metal} key already.")
        if self._keys.get(metal) != self._room:
            return self.invalid(f"There is no {metal} key here.")
        del self._keys[metal]
        dropped = f" You leave the {self._carried} key here." if self._carried else ""
        if self._carried:
            self._keys[self._carried] = self._room
        self._carried = metal
        return Outcome(f"You take the {metal} key.{dropped}")

    def _open(self, metal: str) -> Outcome:
        house = self.puzzle
        if house.gates.get(self._room) != metal:
            return self.invalid(f"There is no {metal} gate here.")
        if self._carried != metal:
            return self.invalid(f"The {metal} gate is locked, it takes the {metal} key.")
        self._opened = metal
        success = metal == house.metal
        return Outcome(f"You leave by the {metal} gate.", float(success), terminated=True, success=success)

    def _view(self, house: House) -> str:
        things = [f"{metal} key" for metal in self._keys_here()]
        if self._room in house.gates:
            things.append(f"{house.gates[self._room]} gate")
        view = f"In the {house.rooms[self._room]}. Doors: {', '.join(house.doors[self._room])}."
        return f"{view} Here: {', '.join(things)}." if things else view

    def _keys_here(self) -> list[str]:
        return sorted(metal for metal, room in self._keys.items() if room == self._room)

    def actions(self) -> list[str]:
        """List the doors, keys and gate of the room, and `look`."""
        if self._opened:
            return []
        house = self.puzzle
        actions = [*(f"go {direction}" for direction in house.doors[self._room]), "look"]
        actions += [f"take {metal} key" for metal in self._keys_here()]
        gate = house.gates.get(self._room)
        return [*actions, f"open {gate} gate"] if gate else actions

    def tools(self) -> list[dict[str, Any]]:
        """Return `go(direction)`, `take(key)`, `open(gate)`, `look()`."""
        direction = {"type": "string", "enum": list(STEPS)}
        return [
            function_tool("go", "Go through a door.", {"direction": direction}),
            function_tool("take", "Take a key that lies here.", {"key": text_parameter("As in: brass key")}),
            function_tool("open", "Open a gate that is here.", {"gate": text_parameter("As in: brass gate")}),
            function_tool("look", "See the room again.", {}),
        ]

    def call_forms(self) -> Mapping[str, str]:
        """See `TextEnv.call_forms`."""
        return {"go": "go {direction}", "take": "take {key}", "open": "open {gate}", "look": "look"}

    # ---- forks and the experts --------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the room, the visited rooms, the carried key, the places of the others, and the opened gate."""
        return {
            "room": self._room,
            "held": self._carried,
            "keys": dict(self._keys),
            "visited": sorted(self._visited),
            "opened": self._opened,
        }

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Continue an episode."""
        house = self.puzzle_of(task)
        room, carried, keys = state["room"], state["held"], state["keys"]
        visited, opened = state["visited"], state["opened"]
        rooms = range(len(house.rooms))
        if type(visited) is not list or any(type(other) is not int or other not in rooms for other in visited):
            raise ValueError(f"visited must list rooms: {visited!r}")
        if type(room) is not int or visited != sorted(set(visited)) or not {room, house.start} <= set(visited):
            raise ValueError(f"room {room!r} or the start is not among the visited rooms")
        if carried != "" and carried not in house.keys:
            raise ValueError(f"no such key: {carried!r}")
        if type(keys) is not dict or set(keys) != set(house.keys) - {carried}:
            raise ValueError(f"keys must be the others than the one held: {keys!r}")
        if any(type(place) is not int or place not in rooms for place in keys.values()):
            raise ValueError(f"keys must lie in rooms: {keys!r}")
        if opened != "" and (opened != carried or house.gates.get(room) != opened):
            raise ValueError(f"a gate that could not be opened: {opened!r}")
        self._room, self._carried, self._keys = room, carried, dict(keys)
        self._visited, self._opened = set(visited), opened

    def is_terminal(self, state: Mapping[str, Any]) -> bool:
        """Return whether a gate was opened."""
        return bool(state["opened"])

    def secrets(self) -> list[str]:
        """Return the names of unvisited rooms."""
        return [name for room, name in enumerate(self.puzzle.rooms) if room not in self._visited]

    def expert(self) -> list[str]:
        """Return a shortest plan."""
        return [] if self._opened else _plan(self.puzzle, self._room, self._carried, self._keys)

    def fair_expert(self) -> str | None:
        """Return the next step to the key, then to the gate; to the nearest unvisited room while that is not found."""
        if self._opened:
            return None
        aim, target = self._aim()
        if self._room == target:
            return f"{'open' if aim.endswith('gate') else 'take'} {aim}"
        steps = self._route(target)
        return f"go {steps[0]}" if steps else None

    def expert_thought(self, action: str) -> str:
        """Return what the fair expert looks for, and the way to it or to the nearest unvisited room."""
        if action != self.fair_expert():
            return ""
        aim, target = self._aim()
        if self._room == target:
            return f"The {aim} is here."
        way = ", ".join(self._route(target))
        return f"To the {aim}: {way}." if target in self._visited else f"No {aim} yet. Try {way}."

    def _aim(self) -> tuple[str, int]:
        """What to look for now, and the room where it is."""
        house = self.puzzle
        if self._carried == house.metal:
            return f"{house.metal} gate", house.gate
        return f"{house.metal} key", self._keys[house.metal]

    def _route(self, target: int) -> list[str]:
        """Directions through visited rooms to the target if it was seen, else to the nearest unvisited room."""
        visited = self._visited
        is_goal = (lambda room: room == target) if target in visited else (lambda room: room not in visited)
        return path_to_nearest(self.puzzle.doors, self._room, is_goal, visited.__contains__) or []


def _plan(house: House, room: int, carried: str, keys: Mapping[str, int]) -> list[str]:
    """A shortest path to the key, unless it is carried, and on to the gate."""
    plan: list[str] = []
    if carried != house.metal:
        plan += [*(f"go {direction}" for direction in path(house, room, keys[house.metal])), f"take {house.metal} key"]
        room = keys[house.metal]
    return [*plan, *(f"go {direction}" for direction in path(house, room, house.gate)), f"open {house.metal} gate"]


def _words(reply: Reply) -> list[str]:
    """The words of an action and its input in lower case, without `the` and `to`; none if the text is too long."""
    parts = [reply.action]
    if reply.arguments is not None:
        parts += map(str, reply.arguments.values())
    elif reply.action_input is not None:
        parts.append(reply.action_input)
    line = " ".join(parts).lower()
    return [word for word in line.rstrip(".").split() if word not in ("the", "to")] if len(line) <= _MAX_LENGTH else []
