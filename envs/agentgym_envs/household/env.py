"""AgentHousehold-v0: ALFWorld's text world in one process, with its own games or endless rooms from a seed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Literal

from agentgym_envs.household.commands import admissible, spoken, tools
from agentgym_envs.household.expert import plan
from agentgym_envs.household.fair_expert import next_command, reason, untold
from agentgym_envs.household.games import Game, Games, read_game
from agentgym_envs.household.generate import generate
from agentgym_envs.household.house import QUIRKS, House
from agentgym_envs.household.room import Room
from agentgym_envs.household.sentences import RULES, Alfworld, Dialect, React
from agentgym_py.env import GeneratedEnv, Outcome, Reply, StopReason, Task, require_split
from agentgym_py.env.generated import Draft
from agentgym_py.errors import ConfigError, SnapshotError, UnknownNameError, did_you_mean
from agentgym_py.rng import Rng

Mode = Literal["react", "alfworld"]
_KEPT_GAMES = 64
_PHYSICAL = frozenset({"one_temperature"})
"""The one quirk that a real household has too."""


class HouseholdEnv(GeneratedEnv[Room]):
    """AgentHousehold-v0: find things, treat them, put them in place.

    ALFWorld's text world, a room at a time.

    Task: of six kinds, for example "put a clean mug in coffeemachine.", "find two book and put them in bed.", "look at
    cd under the desklamp." Any thing of the type counts, in any receptacle of the type; of two, both must lie in one.
    easy: placing and looking, six receptacles, nothing wanted behind a door. medium: all six kinds, up to twelve
    receptacles. hard: the five longer kinds in whole scenes of up to 47 receptacles; no wanted thing to spare, and it
    may lie anywhere.
    Rooms follow ALFRED's scenes; of these 84 are for train, 12 for valid, 24 for test, and each split has its own
    pairs of thing and receptacle, so that no instruction stands in two. Only by seeds, scenes and pairs do the splits
    differ: the sentences are ALFWorld's, the same in all of them.

    Actions: `go to R`, `open R`, `close R`, `take O from R`, `move O to R`, `clean O with R`, `heat O with R`, `cool O
    with R`, `use O`, `slice O with O`, `examine O`, `examine R`, `look`, `inventory`, `help`, with names as they are
    told: `drawer 2`. As tools: `go_to(receptacle)`, `take(object, receptacle)` and so on. Walking costs one step
    wherever it leads; one thing can be held; receptacles never fill up.

    Observation: ALFWorld's sentences. Mode `alfworld` has them to the letter with all quirks, knows no synonyms, says
    `Nothing happens.` to whatever is not admissible, and lists what is in `info["admissible_commands"]`. Mode `react`
    has the same sentences for what can be done and says what is wrong with the rest; it reads commands in any case
    and of both dialects, lists things by ascending numbers, and `look` shows what is where the agent stands.

    Reward: 1 when the task is done, else 0; `success` is the same.

    End: the task is done (terminated); `max_steps` truncates, where ALFWorld says `done` to both. Mode `alfworld`
    continues after the end, as ALFWorld's engine does: further actions are answered, and judged again.

    Quirks, each a name in `quirks` (all of them in mode `alfworld`, in mode `react` only `one_temperature`):
    `shared_points`: receptacles can share a place; at one of them, `go to` the other is not admissible.
    `examine_held_only`: what lies somewhere cannot be examined.
    `blind_look`: `look` names a thing only if it was put down here after it was taken from another receptacle here.
    `one_temperature`: heating takes the cold away and cooling the heat.
    `lamps_stay_on`: `use` switches a lamp on and never off; switched on first, it counts when the thing arrives.
    `marked_openings`: only receptacles that a game marks can be opened; others of those types have no door.

    Experts: `expert` knows where everything is and gives a shortest plan from any state. `fair_expert` knows what was
    told and searches where things are likely; it is what an agent can be compared with. A game whose thing can be put
    nowhere (generated rooms have none) cannot be solved once it is taken: the plan is then empty.

    Comparing with ALFWorld: say `observation_mode="alfworld"`, in which all quirks hold (mode `react` says more and has
    fewer of them: its figures cannot be compared), the games of `valid_seen` or `valid_unseen`, ALFWorld's 50 steps
    (`max_steps=50`), and which expert taught, if any did. ALFWorld's `info["won"]` is `info["success"]` here, its
    `info["admissible_commands"]` has the same name, its `done` is terminated or truncated; its success rate is the
    share of episodes with `success`.

    Args:
        games: a folder with ALFWorld's games (`*.tw-pddl`); tasks are then those, by name (`reset(options={"task":
            NAME})`, for files called `game.tw-pddl` their folder's path) or number. Folders called `train`
            are split train, `valid_seen` valid, `valid_unseen` test: `games=".../valid_unseen"` needs `split="test"`.
            Games outside of such folders belong to every split. Beside the file nothing is needed. As in ALFWorld,
            folders with `movable` or `Sliced` in their name are passed over.
        observation_mode: see above.
        dialect: `new`, ALFWorld's since 0.4; or `old`, until 0.3.5 (`put O in/on R`, `You arrive at loc 12.`); None is
            the one that a game's grammar speaks, and new for generated tasks. Mode `react` speaks the new one.
        quirks: names of those that hold; None is the mode's own choice.
        difficulty: of generated tasks; None is medium.
        max_steps: when an episode is cut; None is 50, and 30 in easy tasks.
        split: where tasks come from if `reset` names none.
        render_mode: `ansi` or None.

    Registered ids: AgentHousehold-v0.
    """

    name: ClassVar[str] = "household"
    max_return: ClassVar[float | None] = 1.0
    version: ClassVar[int] = 0
    rules: ClassVar[Mapping[str, str]] = RULES
    limits: ClassVar[Mapping[str, int]] = {"easy": 30, "medium": 50, "hard": 50}

    def __init__(
        self,
        *,
        games: str | Path | None = None,
        observation_mode: Mode = "react",
        dialect: Dialect | None = None,
        quirks: Collection[str] | None = None,
        difficulty: str | None = None,
        max_steps: int | None = None,
        split: str = "train",
        render_mode: str | None = None,
    ) -> None:
        if games is not None and difficulty is not None:
            raise ConfigError("difficulty is for generated tasks: leave it out with games=...")
        super().__init__(
            difficulty="medium" if difficulty is None else difficulty,
            max_steps=max_steps,
            split=split,
            render_mode=render_mode,
        )
        if observation_mode == "react" and dialect is not None:
            raise ConfigError("dialect is for observation_mode='alfworld'")
        self.observation_mode, self.dialect = observation_mode, dialect
        self.stops_at_end = observation_mode != "alfworld"
        self.quirks = _quirks(observation_mode, quirks)
        self.games = None if games is None else Games(Path(games).expanduser())
        self._read: dict[str, tuple[Room, Alfworld, int | None]] = {}
        self._house: House  # from the first reset on
        self._voice = self._speaking("new")

    # ---- tasks ----------------------------------------------------------------------------------------------------

    def draft(self, rng: Rng, split: str) -> Draft[Room]:
        """A room of this difficulty with a task in it."""
        room = generate(rng, split, self.difficulty, shared="shared_points" in self.quirks)
        if self.observation_mode == "alfworld":
            room = room.ordered(ascending=False)
        return Draft(room.instruction, room, room.goal.kind, self._length(room))

    def _length(self, room: Room) -> int | None:
        way = plan(House(room, self.quirks))
        return None if way is None else len(way)

    def sample_task(self, split: str) -> Task:
        """A random task of a split."""
        return super().sample_task(split) if self.games is None else self._task(self.games.draw(self.rng, split), split)

    def task(self, name: str | int, split: str | None = None) -> Task:
        """The task of an id or a game's name, or number `name` of a split."""
        if self.games is None:
            return super().task(name, split)
        wanted = require_split(split or self.split)
        if isinstance(name, Integral) and not isinstance(name, bool):
            name = int(name)
        elif not isinstance(name, str):
            raise UnknownNameError(f"A game is named by its name or its number, not by {name!r}.")
        return self._task(self.games.get(name, wanted), wanted)

    def _task(self, game: Game, split: str) -> Task:
        room, _, length = self._room(game.name)
        return Task(game.name, game.split or split, room.goal.kind, "game", room.instruction, length)

    def puzzle_of(self, task: Task) -> Room:
        """The room of a task."""
        return super().puzzle_of(task) if self.games is None else self._room(task.id)[0]

    def _room(self, name: str) -> tuple[Room, Alfworld, int | None]:
        """A game as it is played here, who tells of it, and its shortest plan's length; the last ones are kept."""
        assert self.games is not None
        if name not in self._read:
            room, dialect = read_game(self.games.games[name].path)
            if len(self._read) >= _KEPT_GAMES:
                del self._read[next(iter(self._read))]
            room = self._adapted(room)
            self._read[name] = room, self._speaking(dialect), self._length(room)
        return self._read[name]

    def _adapted(self, room: Room) -> Room:
        if "shared_points" not in self.quirks:
            room = room.apart()
        if "marked_openings" not in self.quirks:
            room = room.all_openable()
        return room.ordered(ascending=True) if self.observation_mode == "react" else room

    def _speaking(self, dialect: Dialect) -> Alfworld:
        return React() if self.observation_mode == "react" else Alfworld(self.dialect or dialect)

    # ---- the episode ----------------------------------------------------------------------------------------------

    @property
    def house(self) -> House:
        """The current episode's state."""
        self._require_reset()
        return self._house

    def begin(self, task: Task) -> str:
        """The room and the task."""
        self._house, self._voice = House(self.puzzle_of(task), self.quirks), self._voice_of(task)
        return self._voice.first(self._house)

    def _voice_of(self, task: Task) -> Alfworld:
        return self._speaking("new") if self.games is None else self._room(task.id)[1]

    def act(self, reply: Reply) -> Outcome:
        """Do a command."""
        house, voice = self._house, self._voice
        command = voice.read(spoken(reply, self._old))
        wrong = house.do(command) if command else ""
        if wrong or not command:
            return self.invalid(wrong)
        return self._outcome(house, voice.told(house, command), valid=True)

    def invalid(self, why: str) -> Outcome:
        """What the house says to it."""
        return self._outcome(self.house, self._voice.refusal(why.removesuffix(".")), valid=False)

    def _outcome(self, house: House, told: str, *, valid: bool) -> Outcome:
        won = house.won()
        return Outcome(told, float(won), terminated=won, success=won, valid=valid, info=self.extra_info())

    @property
    def _old(self) -> bool:
        return self._voice.dialect == "old"

    def extra_info(self) -> dict[str, Any]:
        """The admissible commands, in mode `alfworld`."""
        return {"admissible_commands": self.actions()} if self.observation_mode == "alfworld" else {}

    def actions(self) -> list[str]:
        """Every command that can be done here, sorted; none after the end, unless the mode continues."""
        if self.stops_at_end and self.stop_reason is StopReason.TERMINATED:
            return []
        return admissible(self.house, self._old)

    def tools(self) -> list[dict[str, Any]]:
        """A tool for each verb."""
        return tools(self._old)

    def secrets(self) -> list[str]:
        """The names of the things that nothing has told of yet."""
        return untold(self.house)

    # ---- forks and experts ----------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The house, and under which rules it was lived in."""
        return {"rules": self._rules(self._voice), "room": self.house.room.digest, **self.house.to_json()}

    def _rules(self, voice: Alfworld) -> str:
        return " ".join([self.observation_mode, voice.dialect, *sorted(self.quirks)])

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Go on with a house; SnapshotError if it was lived in under other rules or in another version of the game."""
        room, voice = self.puzzle_of(task), self._voice_of(task)
        made, wanted = (state["rules"], state["room"]), (self._rules(voice), room.digest)
        if made != wanted:
            raise SnapshotError(f"A snapshot of rules and room {made}, wanted {wanted}")
        self._house, self._voice = House.from_json(room, self.quirks, state), voice

    def expert(self) -> list[str]:
        """A shortest plan from here; empty after the end, and where nothing leads there any more."""
        return [] if self.stop_reason is StopReason.TERMINATED else plan(self.house, old=self._old) or []

    def fair_expert(self) -> str | None:
        """What somebody does who knows only what was told."""
        return None if self.stop_reason is StopReason.TERMINATED else next_command(self.house, self._old)

    def expert_thought(self, action: str) -> str:
        """What somebody who knows only what was told is after with an action."""
        return reason(self.house, action, self._old)


def _quirks(mode: Mode, quirks: Collection[str] | None) -> frozenset[str]:
    if quirks is None:
        return frozenset(QUIRKS) if mode == "alfworld" else _PHYSICAL
    given = [quirks] if isinstance(quirks, str) else list(quirks)
    for name in given:
        if name not in QUIRKS:
            raise ConfigError(f"No quirk {name!r}." + did_you_mean(str(name), QUIRKS, "There are"))
    return frozenset(given)
