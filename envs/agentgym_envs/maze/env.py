"""AgentMaze-v0: a house of rooms, seen one at a time, a key and a gate to find."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from agentgym_envs.maze.house import STEPS, House, build, nearest, way
from agentgym_py.env import GeneratedEnv, Outcome, Reply, Task, function_tool, text_parameter
from agentgym_py.env.generated import Draft
from agentgym_py.rng import Rng

_LONGEST = 100
_FORMS = "Write go north (or east, south, west), take METAL key, open METAL gate, or look."
_WAYS = {
    "train": ("Leave the house by the {m} gate.", "Get out through the {m} gate.", "Find your way out: the {m} gate."),
    "valid": ("The {m} gate is the one to leave by.",),
    "test": ("Go home, by no other gate than the {m} one.",),
}


class MazeEnv(GeneratedEnv[House]):
    """AgentMaze-v0: find a key and the gate that it opens.

    The house is seen a room at a time.

    Task: leave by the gate of a metal, with the key of that metal. A house has 3 x 3 (easy), 4 x 4 (medium) or 5 x 5
    (hard) rooms in a grid, joined by a random tree of doors and a few doors more; three or four keys and as many gates,
    of which one pair is wanted. One key can be carried: taking another leaves the first. Names of rooms, metals and
    ways to ask are divided among the splits.

    Actions: `go north` (`east`, `south`, `west`; the direction alone will do), `take brass key`, `open brass gate`,
    `look`. As tools: `go(direction)`, `take(key)`, `open(gate)`, `look()`.

    Observation: the room, its doors, the keys and the gate in it; nothing of other rooms.

    Reward: 1 for the gate that is asked for, else 0; `success` with it.

    End: a gate is opened, the right one or another (terminated); `max_steps` (24, 40, 64) truncates.

    The expert knows the house; its plan is a shortest one: the shortest way to the key, then from there to the gate.
    The fair expert knows the rooms that it has been in: it goes to the nearest door that it has not tried until it has
    found what it needs.

    Args:
        difficulty: `easy`, `medium` or `hard`.
        max_steps: when an episode is cut; by default as above.
        split: where tasks come from if `reset` names none.
        render_mode: `ansi` or None.

    Registered ids: AgentMaze-v0.
    """

    name: ClassVar[str] = "maze"
    max_return: ClassVar[float | None] = 1.0
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

    _opened = ""  # there before the first reset, so that what needs one says so

    # ---- tasks ------------------------------------------------------------------------------------------------------

    def draft(self, rng: Rng, split: str) -> Draft[House]:
        """A house."""
        house = build(rng, split, self.difficulty)
        words = rng.choice(_WAYS[split]).format(m=house.wanted)
        return Draft(words, house, "gate", len(_plan(house, house.start, "", house.keys)))

    def begin(self, task: Task) -> str:
        """The request and the first room."""
        house = self.puzzle_of(task)
        self._room, self._held, self._keys, self._opened = house.start, "", dict(house.keys), ""
        self._visited = {house.start}
        return f"{task.instruction}\n{self._view(house)}"

    # ---- the episode ------------------------------------------------------------------------------------------------

    def act(self, reply: Reply) -> Outcome:
        """Go, take, open or look."""
        match _words(reply):
            case [where] | ["go", where] if where in STEPS:
                return self._go(where)
            case ["take", _, *_, "key"] as words:
                return self._take(" ".join(words[1:-1]))
            case ["open", _, *_, "gate"] as words:
                return self._open(" ".join(words[1:-1]))
            case ["look"]:
                return Outcome(self._view(self.puzzle))
        return _refused(f"Not an action. {_FORMS}")

    def _go(self, where: str) -> Outcome:
        house = self.puzzle
        if where not in house.doors[self._room]:
            return _refused(f"There is no door to the {where}.")
        self._room = house.doors[self._room][where]
        self._visited.add(self._room)
        return Outcome(self._view(house))

    def _take(self, metal: str) -> Outcome:
        if self._keys.get(metal) != self._room:
            return _refused(f"There is no {metal} key here.")
        del self._keys[metal]
        left = f" You leave the {self._held} key here." if self._held else ""
        if self._held:
            self._keys[self._held] = self._room
        self._held = metal
        return Outcome(f"You take the {metal} key.{left}")

    def _open(self, metal: str) -> Outcome:
        house = self.puzzle
        if house.gates.get(self._room) != metal:
            return _refused(f"There is no {metal} gate here.")
        if self._held != metal:
            return _refused(f"The {metal} gate is locked, it takes the {metal} key.")
        self._opened = metal
        right = metal == house.wanted
        said = f"You leave by the {metal} gate."
        return Outcome(said, float(right), terminated=True, success=right)

    def _view(self, house: House) -> str:
        here = [f"{metal} key" for metal in self._keys_here()]
        if self._room in house.gates:
            here.append(f"{house.gates[self._room]} gate")
        said = f"In the {house.rooms[self._room]}. Doors: {', '.join(house.doors[self._room])}."
        return f"{said} Here: {', '.join(here)}." if here else said

    def _keys_here(self) -> list[str]:
        return sorted(metal for metal, room in self._keys.items() if room == self._room)

    def actions(self) -> list[str]:
        """The doors, the keys here, the gate here, and a look."""
        if self._opened:
            return []
        house = self.puzzle
        listed = [*(f"go {where}" for where in house.doors[self._room]), "look"]
        listed += [f"take {metal} key" for metal in self._keys_here()]
        gate = house.gates.get(self._room)
        return [*listed, f"open {gate} gate"] if gate else listed

    def tools(self) -> list[dict[str, Any]]:
        """`go(direction)`, `take(key)`, `open(gate)`, `look()`."""
        direction = {"type": "string", "enum": list(STEPS)}
        return [
            function_tool("go", "Go through a door.", {"direction": direction}),
            function_tool("take", "Take a key that lies here.", {"key": text_parameter("As in: brass key")}),
            function_tool("open", "Open a gate that is here.", {"gate": text_parameter("As in: brass gate")}),
            function_tool("look", "See the room again.", {}),
        ]

    # ---- forks and the experts --------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Where one is and has been, what one holds, where the other keys lie, which gate was opened."""
        return {
            "room": self._room,
            "held": self._held,
            "keys": dict(self._keys),
            "visited": sorted(self._visited),
            "opened": self._opened,
        }

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Go on with an episode."""
        house = self.puzzle_of(task)
        room, held, keys = state["room"], state["held"], state["keys"]
        visited, opened = state["visited"], state["opened"]
        rooms = range(len(house.rooms))
        if type(visited) is not list or any(type(each) is not int or each not in rooms for each in visited):
            raise ValueError(f"no rooms: {visited!r}")
        if type(room) is not int or visited != sorted(set(visited)) or not {room, house.start} <= set(visited):
            raise ValueError(f"room {room!r} is none that was visited")
        if held != "" and held not in house.keys:
            raise ValueError(f"no key: {held!r}")
        if type(keys) is not dict or set(keys) != set(house.keys) - {held}:
            raise ValueError(f"keys that cannot lie about: {keys!r}")
        if any(type(each) is not int or each not in rooms for each in keys.values()):
            raise ValueError(f"keys that lie nowhere: {keys!r}")
        if opened != "" and (opened != held or house.gates.get(room) != opened):
            raise ValueError(f"a gate that could not be opened: {opened!r}")
        self._room, self._held, self._keys = room, held, dict(keys)
        self._visited, self._opened = set(visited), opened

    def is_terminal(self, state: Mapping[str, Any]) -> bool:
        """Whether a gate was opened."""
        return bool(state["opened"])

    def secrets(self) -> list[str]:
        """The names of the rooms where one has not been."""
        return [name for room, name in enumerate(self.puzzle.rooms) if room not in self._visited]

    def expert(self) -> list[str]:
        """A shortest plan from here."""
        return [] if self._opened else _plan(self.puzzle, self._room, self._held, self._keys)

    def fair_expert(self) -> str | None:
        """The next step to the key, then to the gate, or to the nearest room not seen yet while they are not found."""
        if self._opened:
            return None
        house, visited = self.puzzle, self._visited
        has = self._held == house.wanted
        target = house.gate if has else self._keys[house.wanted]
        if self._room == target:
            return f"open {house.wanted} gate" if has else f"take {house.wanted} key"
        found = target in visited
        steps = nearest(
            house.doors,
            self._room,
            lambda room: room == target if found else room not in visited,
            visited.__contains__,
        )
        return f"go {steps[0]}" if steps else None


def _plan(house: House, room: int, held: str, keys: Mapping[str, int]) -> list[str]:
    """The shortest way to the key, if it is not held, and on to the gate."""
    plan: list[str] = []
    if held != house.wanted:
        plan += [*(f"go {where}" for where in way(house, room, keys[house.wanted])), f"take {house.wanted} key"]
        room = keys[house.wanted]
    return [*plan, *(f"go {where}" for where in way(house, room, house.gate)), f"open {house.wanted} gate"]


def _words(reply: Reply) -> list[str]:
    """The words of an action and its input in lower case, without articles; none if they are too long."""
    parts = [reply.action]
    if reply.arguments is not None:
        parts += map(str, reply.arguments.values())
    elif reply.action_input is not None:
        parts.append(reply.action_input)
    line = " ".join(parts).lower()
    return [word for word in line.rstrip(".").split() if word != "the"] if len(line) <= _LONGEST else []


def _refused(why: str) -> Outcome:
    return Outcome(why, valid=False)
