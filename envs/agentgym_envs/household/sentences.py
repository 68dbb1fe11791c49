"""A household's sentences and commands: ALFWorld's literally, and this project's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from agentgym_envs.household.commands import ANY, NEW, OLD, read_command
from agentgym_envs.household.house import Command, House

Dialect = Literal["new", "old"]
"""ALFWorld's sentences since 0.4 (`move O to R`), or up to 0.3.5 (`put O in/on R`)."""
NOTHING = "Nothing happens."
WELCOME = "-= Welcome to TextWorld, ALFRED! =-\n\n"
_HELP = """Available commands:
  look:                             look around your current location
  inventory:                        check your current inventory
  go to (receptacle):               move to a receptacle
  open (receptacle):                open a receptacle
  close (receptacle):               close a receptacle
  take (object) from (receptacle):  take an object from a receptacle
  move (object) to (receptacle):  place an object in or on a receptacle
  examine (something):              examine a receptacle or an object
  use (object):                     use an object
  heat (object) with (receptacle):  heat an object using a receptacle
  clean (object) with (receptacle): clean an object using a receptacle
  cool (object) with (receptacle):  cool an object using a receptacle
  slice (object) with (object):     slice an object using a sharp object
"""
_ARTICLES = frozenset(("the", "a", "an"))
_LONGEST = 200
FORMS = (
    "go to R, open R, close R, take O from R, move O to R, clean O with R, heat O with R, cool O with R, use O, "
    "slice O with O, examine O or R, look, inventory"
)
RULES = {
    "full": (
        "You are in a room and have a task. R is a place as the first text names it (drawer 2), O is a thing (apple "
        "1). Each turn you do one action:\n"
        "go to R: walk there and see what is on it. open R, close R: what is closed shows nothing until you open it.\n"
        "take O from R, move O to R: you must be at R, and it must be open. You can hold one thing.\n"
        "clean O with R (a sinkbasin), heat O with R (a microwave), cool O with R (a fridge): hold O and be at R; it "
        "need not be open.\n"
        "use O: switch on a lamp where you are. To look at a thing under a lamp, hold it and be where the lamp is on.\n"
        "slice O with O, examine O or R, look, inventory.\n"
        "'Put two O in R' means both in the same R. Any O of the named type will do, in any R of the named type.\n"
        "Answer in this form:\n"
        "Thought: why\n"
        "Action: go to R"
    ),
    "brief": f"Do the task. Actions: {FORMS}.",
    "none": "",
}


def listing(names: Sequence[str]) -> str:
    """Write `nothing`, `a x 1`, `a x 1, and a y 1`, and so on."""
    if len(names) < 2:
        return f"a {names[0]}" if names else "nothing"
    return f"a {', a '.join(names[:-1])}, and a {names[-1]}"


@dataclass(frozen=True, slots=True)
class AlfworldSentences:
    """ALFWorld's sentences, literally."""

    dialect: Dialect = "new"

    def read(self, text: str) -> Command | None:
        """Parse a command of this dialect; ALFWorld has no synonyms."""
        new = self.dialect == "new"
        return read_command(text.strip(), NEW if new else OLD, help_=new)

    def opening(self, house: House) -> str:
        """Open an episode with the room and the task."""
        room = house.room
        facing = self._facing(house)
        middle = f"You are in the middle of a room. Looking quickly around you, you see {listing(room.listed_names)}."
        return f"{WELCOME}{facing or middle}\n\nYour task is to: {room.instruction}"

    def refusal(self, error: str) -> str:
        """Answer a command that cannot be done."""
        del error
        return NOTHING

    def report(self, house: House, command: Command) -> str:
        """Describe the effect of a command."""
        verb, first, second = command.verb, command.first, command.second
        if verb == "go":
            place = house.room.by_name[first]
            point = first if self.dialect == "new" else house.room.points[house.at]
            return f"You arrive at {point}. {describe_receptacle(house, place)}"
        if verb == "open":
            return f"You open the {first}. {describe_receptacle(house, house.room.by_name[first])}"
        if verb == "examine":
            return self._examine(house, first)
        if verb == "move":
            new = self.dialect == "new"
            return f"You move the {first} to the {second}." if new else f"You put the {first} in/on the {second}."
        return self._simple_report(house, verb, first, second)

    def _simple_report(self, house: House, verb: str, first: str, second: str) -> str:
        if verb == "take":
            return f"You pick up the {first} from the {second}."
        if verb in ("clean", "heat", "cool"):
            return f"You {verb} the {first} using the {second}."
        if verb == "close":
            return f"You close the {first}."
        if verb == "use":
            return self._use(house, first)
        if verb == "slice":
            return f"You sliced the {first} with the {second}."
        if verb == "look":
            return self._look(house)
        if verb == "inventory":
            thing = house.held
            return "You are not carrying anything." if thing < 0 else f"You are carrying: a {_thing(house, thing)}."
        return self._help()

    def _help(self) -> str:
        return _HELP

    def _use(self, house: House, name: str) -> str:
        on = house.room.thing_by_name[name] in house.lit
        return f"You turn {'on' if on else 'off'} the {name}."

    def _facing(self, house: House) -> str:
        here = house.room.at_point[house.at]
        if not here:
            return ""
        names = [house.room.receptacles[r].name for r in here]
        listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])}, and {names[-1]}"
        return f"You are facing the {listed}. Next to it, you see {listing(list(self._lying_about(house, here)))}."

    def _lying_about(self, house: House, here: Iterable[int]) -> Iterable[str]:
        """Yield ALFWorld's things lying about: put down here, and taken before from another receptacle here."""
        for thing, point in sorted(house.laid):
            if point == house.at:
                yield from (_thing(house, thing) for r in here if (thing, r) in house.left)

    def _look(self, house: House) -> str:
        middle = "You are in the middle of a room. Looking quickly around you, you see nothing."
        return self._facing(house) or middle

    def _examine(self, house: House, name: str) -> str:
        if name in house.room.by_name:
            return describe_receptacle(house, house.room.by_name[name])
        thing = house.room.thing_by_name[name]
        if house.room.things[thing].vessel:
            return f"This is a normal {name}. In it, you see {listing(house.room.things[thing].inside)}."
        return self._condition(house, thing)

    def _condition(self, house: House, thing: int) -> str:
        name = house.room.things[thing].name
        cut = "sliced " if thing in house.sliced else ""
        warm = "hot" if thing in house.hot else "cool" if thing in house.cool else ""
        if thing in house.clean:
            state = f"{warm} and clean" if warm else "clean"
        else:
            state = warm if cut or warm != "cool" else "cold"
        if state:
            return f"This is a {state} {cut}{name}."
        if thing in house.lit:
            return f"This {name} is on."
        if cut and house.room.can(thing, "sliceable"):
            return f"This is a sliced {name}."
        return f"There's nothing special about {name}."


@dataclass(frozen=True, slots=True)
class ReactSentences(AlfworldSentences):
    """The same sentences for people and language models: errors say why, and look shows what is here."""

    def read(self, text: str) -> Command | None:
        """Parse a command in any case and spacing, of either dialect, with or without articles."""
        words = text.lower().rstrip(". ").split()
        return read_command(" ".join(word for word in words if word not in _ARTICLES), ANY)

    def opening(self, house: House) -> str:
        """Open an episode with the room and the task."""
        return f"{self._look(house)}\n\nYour task is to: {house.room.instruction}"

    def refusal(self, error: str) -> str:
        """Answer a command that cannot be done; a long error (names are of any length) is cut."""
        if len(error) > _LONGEST:
            error = f"{error[:_LONGEST]}…"
        return f"Nothing happens: {error}." if error else f"Nothing happens: no such action. There are {FORMS}."

    def _help(self) -> str:
        return f"Actions: {FORMS}."

    def _look(self, house: House) -> str:
        here = house.room.at_point[house.at]
        if here:
            descriptions = " ".join(describe_receptacle(house, r) for r in here)
            return f"You are at {house.room.receptacles[here[0]].name}. {descriptions}"
        return (
            f"You are in the middle of a room. Looking quickly around you, you see {listing(house.room.listed_names)}."
        )

    def _examine(self, house: House, name: str) -> str:
        if name in house.room.by_name:
            return describe_receptacle(house, house.room.by_name[name])
        thing = house.room.thing_by_name[name]
        inside = house.room.things[thing].inside
        return self._condition(house, thing) + (f" In it, you see {listing(inside)}." if inside else "")


def _thing(house: House, thing: int) -> str:
    return house.room.things[thing].name


def describe_receptacle(house: House, place: int) -> str:
    """Describe a receptacle and its visible contents."""
    receptacle = house.room.receptacles[place]
    if receptacle.openable and place not in house.opened:
        return f"The {receptacle.name} is closed."
    things = house.room.things
    contents = listing([things[o].name for o in house.contents[place]])
    if receptacle.openable:
        return f"The {receptacle.name} is open. In it, you see {contents}."
    return f"On the {receptacle.name}, you see {contents}."
