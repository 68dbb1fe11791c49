"""AgentHousehold-v0: ALFWorld's text world in one process, with its own games or an endless supply of rooms."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Literal

from agentgym_envs.household.commands import admissible, call_forms, command_text, tools
from agentgym_envs.household.expert import plan
from agentgym_envs.household.fair_expert import next_command, thought, undisclosed_names
from agentgym_envs.household.games import Game, Games, read_game
from agentgym_envs.household.generate import generate
from agentgym_envs.household.house import QUIRKS, House
from agentgym_envs.household.room import Room
from agentgym_envs.household.sentences import RULES, AlfworldSentences, Dialect, ReactSentences
from agentgym_py.env import GeneratedEnv, Outcome, Reply, StopReason, Task, require_split
from agentgym_py.env.generated import Draft
from agentgym_py.errors import ConfigError, SnapshotError, UnknownNameError, did_you_mean
from agentgym_py.rng import Rng

Mode = Literal["react", "alfworld"]
_CACHED_GAMES = 64
PHYSICAL = frozenset({"one_temperature"})
"""The one quirk that a real household has too."""


class HouseholdEnv(GeneratedEnv[Room]):
    """AgentHousehold-v0: find, treat and place things in rooms.

    A reimplementation of ALFWorld's text world.

    Task: six kinds, for example "put a clean mug in coffeemachine.", "find two book and put them in bed.", "look at cd
    under the desklamp." Any thing of the type counts, in any receptacle of the type; two things must lie in the same
    receptacle.
    easy: placing and looking, six receptacles, no goal thing behind a door. medium: all six kinds, up to twelve
    receptacles. hard: the five longer kinds in whole scenes of up to 47 receptacles, with no spare goal thing and goal
    things anywhere.
    Rooms follow ALFRED's scenes: 84 for train, 12 for valid, 24 for test. Each split has its own pairs of thing and
    receptacle, so that no instruction occurs in two splits. Looking, which is half of the easy tasks, has only four
    instructions in valid and four in test. All splits share ALFWorld's sentences.

    Actions: `go to R`, `open R`, `close R`, `take O from R`, `move O to R`, `clean O with R`, `heat O with R`, `cool O
    with R`, `use O`, `slice O with O`, `examine O`, `examine R`, `look`, `inventory`, `help`, with names as observed:
    `drawer 2`. As tools: `go_to(receptacle)`, `take(object, receptacle)` and so on. Every walk costs one step; the
    agent holds at most one thing; receptacles never fill up.

    Observation: ALFWorld's sentences. Mode `alfworld` has them literally with all quirks, has no synonyms, answers
    `Nothing happens.` to inadmissible commands, and lists the admissible ones in `info["admissible_commands"]`. Mode
    `react` has the same sentences, but explains errors, reads commands in any case and of both dialects, lists things
    by ascending numbers, and its `look` shows everything at the agent's place.

    Reward: 1 when the task is done, else 0; `success` is the same.

    End: a finished task terminates, `max_steps` truncates (ALFWorld's `done` is either). Mode `alfworld` continues
    after the end, as ALFWorld's engine does: it answers further actions and judges them again.

    Quirks, as named in `quirks` (all of them in mode `alfworld`, only `one_temperature` in mode `react`):
    `shared_points`: receptacles can share a place; at one of them, `go to` the other is not admissible.
    `examine_held_only`: only a held thing can be examined.
    `blind_look`: `look` names a thing only if it was put down here after it was taken from another receptacle here.
    `one_temperature`: heating removes the cold and cooling the heat.
    `lamps_stay_on`: `use` switches a lamp on and never off; a lamp that is already on counts when the thing arrives.
    `marked_openings`: only receptacles that a game marks can be opened; others of those types have no door.

    Experts: `expert` knows where everything is and returns a shortest plan from any state. `fair_expert` knows only the
    observations and searches likely places first; compare agents with it. In some of ALFWorld's games no receptacle
    takes the goal thing: once taken, it cannot be put down, and the plan is empty. Generated rooms have no such things.

    Comparing with ALFWorld: report `observation_mode="alfworld"` (all quirks; figures of mode `react` are not
    comparable), the games of `valid_seen` or `valid_unseen`, ALFWorld's 50 steps (`max_steps=50`), and the expert of
    the demonstrations, if any. ALFWorld's `info["won"]` is `info["success"]` here, its `info["admissible_commands"]`
    has the same name, its `done` is terminated or truncated. Its success rate is the share of episodes with `success`.

    Args:
        games: a folder with ALFWorld's games (`*.tw-pddl`), which become the tasks, by name (`reset(options={"task":
            NAME})`; for files called `game.tw-pddl` their folder's path) or number. The folder `train` is split train,
            `valid_seen` valid, `valid_unseen` test: `games=".../valid_unseen"` needs `split="test"`. Games outside such
            folders belong to every split. No other file is needed. As in ALFWorld, folders with `movable` or `Sliced`
            in their name are skipped.
        observation_mode: see above.
        dialect: `new`, ALFWorld's since 0.4, or `old`, up to 0.3.5 (`put O in/on R`, `You arrive at loc 12.`). None is
            the dialect of a game's grammar, and `new` for generated tasks. Mode `react` has only `new`.
        quirks: the active quirks; None is the default of the mode.
        difficulty: difficulty of generated tasks; None is medium.
        max_steps: the step at which an episode is truncated; None is 50, and 30 in easy tasks.
        split: the split of tasks if `reset` names none.
        render_mode: `ansi` or None.

    Registered ids: AgentHousehold-v0.
    """

    name: ClassVar[str] = "household"
    reading_actions: ClassVar[tuple[str, ...]] = ("look", "inventory", "examine", "help")
    max_return: ClassVar[float | None] = 1.0
    version: ClassVar[int] = 0
    rules: ClassVar[Mapping[str, str]] = RULES
    evolve_defaults: ClassVar[Mapping[str, Any]] = {
        "expert_tasks": 50, "expert_epochs": 8.0, "horizon": [20],
    }  # fmt: skip
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
            raise ConfigError("games have no difficulties: leave out difficulty")
        super().__init__(
            difficulty="medium" if difficulty is None else difficulty,
            max_steps=max_steps,
            split=split,
            render_mode=render_mode,
        )
        if observation_mode == "react" and dialect is not None:
            raise ConfigError("dialect needs observation_mode='alfworld'")
        self.observation_mode, self.dialect = observation_mode, dialect
        self.stops_at_end = observation_mode != "alfworld"
        self.quirks = _quirks(observation_mode, quirks)
        self.games = None if games is None else Games(Path(games).expanduser())
        self._read: dict[str, tuple[Room, AlfworldSentences, int | None]] = {}
        self._house: House  # from the first reset on
        self._sentences = self._sentences_in("new")

    @property
    def files_digest(self) -> str | None:
        """Return the digest of the current task's room, if it is a game's file."""
        return self.house.room.digest if self.games and self.current_task else None

    # ---- tasks ----------------------------------------------------------------------------------------------------

    def draft(self, rng: Rng, split: str) -> Draft[Room]:
        """Draw a room of this difficulty and its task."""
        room = generate(rng, split, self.difficulty, shared="shared_points" in self.quirks)
        if self.observation_mode == "alfworld":
            room = room.ordered(ascending=False)
        return Draft(room.instruction, room, room.goal.kind, self._length(room))

    def _length(self, room: Room) -> int | None:
        commands = plan(House(room, self.quirks))
        return None if commands is None else len(commands)

    def sample_task(self, split: str) -> Task:
        """Draw a random task of a split."""
        return super().sample_task(split) if self.games is None else self._task(self.games.draw(self.rng, split), split)

    @property
    def difficulties(self) -> tuple[str, ...]:
        """Those of generated tasks; games have none."""
        return super().difficulties if self.games is None else ()

    def task(self, name: str | int, split: str | None = None) -> Task:
        """Return the task of an id or a game's name, or number `name` of a split."""
        if self.games is None:
            return super().task(name, split)
        split = require_split(split or self.split)
        if isinstance(name, Integral) and not isinstance(name, bool):
            name = int(name)
        elif not isinstance(name, str):
            raise UnknownNameError(f"A game is named by its name or its number, not by {name!r}.")
        return self._task(self.games.get(name, split), split)

    def _task(self, game: Game, split: str) -> Task:
        room, _, length = self._room(game.name)
        return Task(game.name, game.split or split, room.goal.kind, "game", room.instruction, length)

    def puzzle_of(self, task: Task) -> Room:
        """Return the room of a task."""
        return super().puzzle_of(task) if self.games is None else self._room(task.id)[0]

    def _room(self, name: str) -> tuple[Room, AlfworldSentences, int | None]:
        """Return a game's room in this mode, its sentences and its optimal steps; the last games are cached."""
        assert self.games is not None
        if name not in self._read:
            room, dialect = read_game(self.games.games[name].path)
            if len(self._read) >= _CACHED_GAMES:
                del self._read[next(iter(self._read))]
            room = self._adapted(room)
            self._read[name] = room, self._sentences_in(dialect), self._length(room)
        return self._read[name]

    def _adapted(self, room: Room) -> Room:
        if "shared_points" not in self.quirks:
            room = room.without_shared_points()
        if "marked_openings" not in self.quirks:
            room = room.with_all_doors()
        return room.ordered(ascending=True) if self.observation_mode == "react" else room

    def _sentences_in(self, dialect: Dialect) -> AlfworldSentences:
        return ReactSentences() if self.observation_mode == "react" else AlfworldSentences(self.dialect or dialect)

    # ---- the episode ----------------------------------------------------------------------------------------------

    @property
    def house(self) -> House:
        """Return the state of the current episode."""
        self._require_reset()
        return self._house

    def begin(self, task: Task) -> str:
        """Observe the room and the task."""
        self._house, self._sentences = House(self.puzzle_of(task), self.quirks), self._sentences_of(task)
        return self._sentences.opening(self._house)

    def _sentences_of(self, task: Task) -> AlfworldSentences:
        return self._sentences_in("new") if self.games is None else self._room(task.id)[1]

    def act(self, reply: Reply) -> Outcome:
        """Do a command."""
        house, sentences = self._house, self._sentences
        command = sentences.read(command_text(reply, self._old))
        error = house.do(command) if command else ""
        if error or not command:
            return self.invalid(error)
        return self._outcome(house, sentences.report(house, command), valid=True)

    def invalid(self, why: str) -> Outcome:
        """Observe the refusal of a command."""
        return self._outcome(self.house, self._sentences.refusal(why.removesuffix(".")), valid=False)

    def _outcome(self, house: House, observation: str, *, valid: bool) -> Outcome:
        won = house.won()
        return Outcome(observation, float(won), terminated=won, success=won, valid=valid, info=self.extra_info())

    @property
    def _old(self) -> bool:
        return self._sentences.dialect == "old"

    def extra_info(self) -> dict[str, Any]:
        """Return the admissible commands, in mode `alfworld`."""
        return {"admissible_commands": self.actions()} if self.observation_mode == "alfworld" else {}

    def actions(self) -> list[str]:
        """List the admissible commands, sorted; none after the end, unless the mode continues."""
        if self.stops_at_end and self.stop_reason is StopReason.TERMINATED:
            return []
        return admissible(self.house, self._old)

    def tools(self) -> list[dict[str, Any]]:
        """Return a tool for each verb."""
        return tools(self._old)

    def call_forms(self) -> Mapping[str, str]:
        """See `TextEnv.call_forms`."""
        return call_forms(self._old)

    def secrets(self) -> list[str]:
        """List the names of the things that are not disclosed yet."""
        return undisclosed_names(self.house)

    # ---- forks and experts ----------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the house, its rules and its room."""
        return {"rules": self._rules(self._sentences), "room": self.house.room.digest, **self.house.to_json()}

    def _rules(self, sentences: AlfworldSentences) -> str:
        return " ".join([self.observation_mode, sentences.dialect, *sorted(self.quirks)])

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Restore a house; SnapshotError if it has other rules or another version of the game."""
        room, sentences = self.puzzle_of(task), self._sentences_of(task)
        theirs, ours = (state["rules"], state["room"]), (self._rules(sentences), room.digest)
        if theirs != ours:
            raise SnapshotError(f"Snapshot of rules and room {theirs}; this env has {ours}")
        self._house, self._sentences = House.from_json(room, self.quirks, state), sentences

    def expert(self) -> list[str]:
        """Return a shortest plan from here; empty after the end, and if the goal is out of reach."""
        return [] if self.stop_reason is StopReason.TERMINATED else plan(self.house, old=self._old) or []

    def fair_expert(self) -> str | None:
        """Return the next command of an agent that knows only the observations."""
        return None if self.stop_reason is StopReason.TERMINATED else next_command(self.house, self._old)

    def expert_thought(self, action: str) -> str:
        """Return the fair expert's thought before an action."""
        return thought(self.house, action, self._old)


def _quirks(mode: Mode, quirks: Collection[str] | None) -> frozenset[str]:
    if quirks is None:
        return frozenset(QUIRKS) if mode == "alfworld" else PHYSICAL
    names = [quirks] if isinstance(quirks, str) else list(quirks)
    for name in names:
        if name not in QUIRKS:
            raise ConfigError(f"No quirk {name!r}." + did_you_mean(str(name), QUIRKS, "There are"))
    return frozenset(names)
