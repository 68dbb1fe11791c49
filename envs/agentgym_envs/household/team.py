"""AgentHouseholdTeam-v0: a planner states sub-goals, an executor acts in the household."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

from agentgym_envs.household.commands import admissible, put_command
from agentgym_envs.household.env import PHYSICAL
from agentgym_envs.household.expert import fetch
from agentgym_envs.household.fair_expert import aim, explore, find_known_things, searching, undisclosed_names
from agentgym_envs.household.generate import generate
from agentgym_envs.household.house import Command, House, missing_treatment
from agentgym_envs.household.priors import LAMP
from agentgym_envs.household.room import ABLE, NOWHERE, STATIONS, TREATMENT, Goal, Room
from agentgym_envs.household.sentences import FORMS, ReactSentences
from agentgym_py.env import function_tool, text_parameter
from agentgym_py.env.generated import Draft
from agentgym_py.multiagent import Game, MultiAgentEnv
from agentgym_py.rng import Rng

PLANNER, EXECUTOR = "planner", "executor"
DONE = "done"
COMMANDS: Mapping[str, int] = {"easy": 30, "medium": 50, "hard": 70}
"""Commands of an episode, by difficulty."""
_ORDERS: Mapping[str, str] = {
    "find": "find a {}",
    **{verb: f"{verb} it" for verb in STATIONS},
    "put": "put it in a {}",
    "use": "use a {}",
}
"""The planner's actions as the executor reads them."""
_FORMS = f"find[mug], {', '.join(STATIONS)}, put[bed] or use[{LAMP}]"
_STATE = {verb: state for state, verb in TREATMENT.items()}
"""What a treatment makes of a thing."""


class SubGoal(NamedTuple):
    """What the planner asks for."""

    verb: str
    kind: str = ""
    """Type of thing, receptacle or lamp; empty for a treatment."""


class Housework(Game):
    """An episode: the planner states a sub-goal, the executor acts until it says `done`, and so on."""

    def __init__(self, room: Room, commands: int) -> None:
        super().__init__(PLANNER)
        self.house, self.left = House(room, PHYSICAL), commands
        self.sub_goal = SubGoal("")
        self.delivered: dict[int, int] = {}
        """Things that lie where the planner wanted them, to their receptacles, the last one last."""
        self._sentences, self._rooms = ReactSentences(), dict[SubGoal, Room]()
        self.kinds = sorted({kind for fitting in room.fitting.values() for kind in fitting})
        self.tell(PLANNER, f"{self._sentences.opening(self.house)}\n{self._count}")
        self.tell(EXECUTOR, self._sentences.report(self.house, Command("look")))

    @property
    def _count(self) -> str:
        return f"{self.left} command{'s' * (self.left != 1)} left."

    # ---- the rules --------------------------------------------------------------------------------------------------

    def move(self, name: str, argument: str) -> str:
        """State a sub-goal, do a command, or be done."""
        argument = argument.lower()
        if self.turn == PLANNER:
            return self._order(name, argument)
        if name == DONE and not argument:
            self.turn = PLANNER
            self.tell(PLANNER, f"The executor is done and holds {self._in_hand}. {self._count}")
            return ""
        return self._do(argument if name == "act" else f"{name} {argument}".strip())

    def _order(self, name: str, argument: str) -> str:
        if argument not in self._arguments(name):
            return f"Not a sub-goal: write {_FORMS}."
        self.sub_goal, self.turn = SubGoal(name, argument), EXECUTOR
        self.tell(EXECUTOR, f"Sub-goal: {_ORDERS[name].format(argument)}.")
        return ""

    def _arguments(self, verb: str) -> list[str]:
        """List what can follow a verb of the planner."""
        kinds = {"find": self.kinds, "put": sorted(self.house.room.of_kind), "use": [LAMP]}
        return kinds.get(verb, [""] if verb in STATIONS else [])

    def _do(self, text: str) -> str:
        command = self._sentences.read(text)
        error = self.house.do(command) if command else ""
        if error or not command:
            return self._sentences.refusal(error)
        self.left -= 1
        self._note_delivery(command)
        self.tell(EXECUTOR, self._sentences.report(self.house, command))
        if self.house.won():
            self._end("The task is done.", success=True)
        elif not self.left:
            self._end("No command is left.", success=False)
        return ""

    def _note_delivery(self, command: Command) -> None:
        """Take down what a command takes away or puts where the planner wants it."""
        room = self.house.room
        if command.verb == "take":
            self.delivered.pop(room.thing_by_name[command.first], None)
        elif command.verb == "move":
            place = room.by_name[command.second]
            if self.sub_goal == ("put", room.receptacles[place].kind):
                self.delivered[room.thing_by_name[command.first]] = place

    def _end(self, why: str, *, success: bool) -> None:
        for role in (PLANNER, EXECUTOR):
            self.tell(role, why)
            self.pay(role, float(success))
        self.end(success=success)

    @property
    def _in_hand(self) -> str:
        """The held thing with what was done to it, as the executor reports it."""
        house, held = self.house, self.house.held
        if held == NOWHERE:
            return "nothing"
        states = " and ".join(state for state in TREATMENT if held in house.in_state(state))
        return f"a {f'{states} ' * bool(states)}{house.room.things[held].name}"

    def actions(self, role: str) -> list[str]:
        """List every sub-goal; the admissible commands and `done`."""
        if role == EXECUTOR:
            return [*admissible(self.house), DONE]
        return [f"{verb}[{kind}]" if kind else verb for verb in _ORDERS for kind in self._arguments(verb)]

    def secrets(self, role: str) -> list[str]:
        """Return the names of things that nothing has disclosed; the executor must not see the task."""
        hidden = undisclosed_names(self.house)
        return [*hidden, self.house.room.instruction] if role == EXECUTOR else hidden

    # ---- the experts ------------------------------------------------------------------------------------------------

    def expert_move(self, role: str) -> str:
        """State the next sub-goal; do the next command of an executor that knows where everything is."""
        return self._next_order() if role == PLANNER else self._next_command(fair=False)

    def fair_move(self, role: str) -> str:
        """State the next sub-goal; do the next command of an executor that looks for things."""
        return self._next_order() if role == PLANNER else self._next_command(fair=True)

    def _next_order(self) -> str:
        """Return what is missing, which the task and the executor's reports tell."""
        house, goal = self.house, self.house.room.goal
        if house.held not in house.room.goal_things:
            return f"find[{goal.thing}]"
        return missing_treatment(house, house.held) or (f"use[{goal.lamp}]" if goal.lamp else f"put[{goal.place}]")

    def _next_command(self, *, fair: bool) -> str:
        """Return the first command of a plan, else one of a search; `done` if nothing can be done."""
        house, room = self.house, self.house.room
        plan = self._plan(find_known_things(house) if fair else range(len(room.things)))
        if plan is None and fair:
            return explore(house, self.sub_goal.kind) or DONE
        return plan[0] if plan else DONE

    def _plan(self, known: Collection[int]) -> list[str] | None:
        """Return the commands up to the sub-goal, with these things alone; None if what it names is not among them.

        It is empty if the sub-goal is reached or out of reach.
        """
        verb, kind = self.sub_goal
        if verb == "find":
            return self._find(kind, known)
        if verb == "use":
            return self._use(kind, known)
        if self.house.held == NOWHERE:
            return []
        return self._put(kind) if verb == "put" else self._treat(verb)

    def _find(self, kind: str, known: Collection[int]) -> list[str] | None:
        house = copy(self.house)
        if self.sub_goal not in self._rooms:
            self._rooms[self.sub_goal] = replace(house.room, goal=Goal("", kind))
        house.room = self._rooms[self.sub_goal]
        if house.held in house.room.goal_things:
            return []
        others = fetch(house, set(known).difference(self.delivered))
        knows_all = len(known) == len(house.room.things) or explore(house, kind) is None
        if others is not None or not knows_all:
            return others
        return next((plan for thing in self.delivered if (plan := fetch(house, {thing}))), None)

    def _use(self, kind: str, known: Collection[int]) -> list[str] | None:
        house, things = self.house, self.house.room.things
        lamps = [(o, r) for o in sorted(known) if things[o].kind == kind for r in house.places(o)]
        if not lamps:
            return None
        lamp, place = min(lamps, key=lambda pair: self._distance(pair[1]))
        return [*self._walk(place), *([] if lamp in house.lit else [f"use {things[lamp].name}"])]

    def _treat(self, verb: str) -> list[str]:
        house, room = self.house, self.house.room
        stations = room.of_kind.get(STATIONS[verb], ())
        if house.held in house.in_state(_STATE[verb]) or not room.can(house.held, ABLE[verb]) or not stations:
            return []
        station = min(stations, key=self._distance)
        thing, place = room.things[house.held].name, room.receptacles[station].name
        return [*self._walk(station), f"{verb} {thing} with {place}"]

    def _put(self, kind: str) -> list[str]:
        house, room = self.house, self.house.room
        thing = room.things[house.held]
        places = [r for r in room.of_kind.get(kind, ()) if room.takes(r, thing.kind)]
        if not places:
            return []
        delivered = [place for place in self.delivered.values() if place in places]
        place = delivered[-1] if delivered else min(places, key=self._distance)
        name = room.receptacles[place].name
        opening = [] if house.accessible(place) else [f"open {name}"]
        return [*self._walk(place), *opening, put_command(thing.name, name)]

    def _distance(self, place: int) -> int:
        """Count the commands until a receptacle is open before the agent."""
        return (not self.house.here(place)) + (not self.house.accessible(place))

    def _walk(self, place: int) -> list[str]:
        return [] if self.house.here(place) else [f"go to {self.house.room.receptacles[place].name}"]

    def thought(self, role: str, action: str) -> str:
        """Say the goal and what is held; say what comes next, or what is looked for."""
        if action != self.fair_move(role):
            return ""
        if role == PLANNER:
            return f"I am after {aim(self.house.room.goal)}. The executor holds {self._in_hand}."
        if action == DONE:
            return f"I hold {self._in_hand}."
        plan = self._plan(find_known_things(self.house))
        if plan is None:
            return searching(self.sub_goal.kind, " ".join(action.split()[-2:]))
        return f"I want to {plan[-1]}." if len(plan) > 1 else ""


class HouseholdTeamEnv(MultiAgentEnv[Room]):
    """AgentHouseholdTeam-v0: plan and act in a household as a team.

    A game of two roles.

    Task: the rooms and the six kinds of tasks of AgentHousehold-v0, with its difficulties and splits. The `planner`
    reads the task and does nothing itself. The `executor` does not know the task; it sees the room, acts, and says
    `done` when a sub-goal is reached or out of reach. An agent plays `role`, a partner the other one.

    | difficulty | commands | limit |
    |---|--:|--:|
    | easy | 30 | 40 |
    | medium | 50 | 64 |
    | hard | 70 | 90 |

    Actions: the planner writes `find[mug]` (hold one), `clean`, `heat`, `cool`, `put[bed]` or `use[desklamp]`, with
    types of things and receptacles. The executor writes the commands of AgentHousehold-v0, or `done`. The same as
    tools; the executor's are `act(command)` and `done()`.

    Observation: the planner sees the room and the task; after `done` it reads what the executor holds, what was done to
    it, and how many commands are left. The executor sees the room and the sub-goals, and what its commands show.

    Reward: 1 for both roles when the task is done, else 0; `success` is the same.

    End: a finished task terminates, and so does the last command. `max_steps` (40, 64, 90) truncates; it counts the
    role's own moves, also refused ones and `done`.

    Luck: random sub-goals complete 3 to 9 % of the tasks, because the fair executor does the rest.

    Experts: the planner asks for what is missing: the thing, its treatment, its place. The exact executor knows where
    everything is; the fair one searches as the fair expert of AgentHousehold-v0 does. A second thing is put where the
    first one lies. If all things of a type lie where the planner wanted them, the one that has lain longest is found.

    Args:
        difficulty: `easy`, `medium` or `hard`.
        role: `planner` (the default) or `executor`.
        partner: Agent of the other role: `fair`, `expert` or `random`.
        partner_model: Folder of a checkpoint that plays it instead, frozen and greedy.
        max_steps: Limit on the role's own moves; a larger one gives as many more commands.
        split: Where tasks come from if `reset` names no split.
        render_mode: `ansi` or None.

    Registered ids: AgentHouseholdTeam-v0.
    """

    name: ClassVar[str] = "householdteam"
    version: ClassVar[int] = 1
    roles: ClassVar[tuple[str, ...]] = (PLANNER, EXECUTOR)
    reading_actions: ClassVar[tuple[str, ...]] = ("look", "inventory", "examine", "help")
    max_return: ClassVar[float | None] = 1.0
    partner_moves: ClassVar[int] = 90
    limits: ClassVar[Mapping[str, int]] = {"easy": 40, "medium": 64, "hard": 90}
    role_baselines: ClassVar[Mapping[str, Mapping[str, float]]] = {PLANNER: {"easy": 0.15, "medium": 0.12, "hard": 0.1}}
    role_rules: ClassVar[Mapping[str, Mapping[str, str]]] = {
        PLANNER: {
            "full": (
                "You have a task in a room, and an executor who acts for you and does not know the task. Say one "
                "sub-goal at a time; the executor tells you when it is done:\n"
                "find[mug]: get one into the hand, which holds one thing. clean, heat, cool: treat what it holds.\n"
                "put[bed]: put it there. use[desklamp]: switch one on and stay there.\n"
                "Name types, without numbers. 'Put two O in R' means one after the other.\n"
                "Answer in this form:\nThought: why\nAction: find[mug]"
            ),
            "brief": f"Have the task done by sub-goals: {_FORMS}.",
            "none": "",
        },
        EXECUTOR: {
            "full": (
                "You are in a room, and somebody names sub-goals. Reach each by actions, then say done.\n"
                "R is a place as the first text names it (drawer 2), O is a thing (apple 1).\n"
                "To find a thing is to hold one. To use a lamp is to be where it is on. If you cannot, say done.\n"
                f"Actions: {FORMS}, done.\n"
                "Answer in this form:\nThought: why\nAction: go to R"
            ),
            "brief": f"Reach each sub-goal, then say done. Actions: {FORMS}, done.",
            "none": "",
        },
    }

    def draft(self, rng: Rng, split: str) -> Draft[Room]:
        """Draw a room and its task as AgentHousehold-v0 does."""
        room = generate(rng, split, self.difficulty, shared=False)
        return Draft(room.instruction, room, room.goal.kind)

    def game(self, puzzle: Room) -> Game:
        """Return the game of a room; a larger `max_steps` gives as many more commands."""
        more = max(0, self.max_steps - self.limits[self.difficulty])
        return Housework(puzzle, COMMANDS[self.difficulty] + more)

    def tools(self) -> list[dict[str, Any]]:
        """Return a tool for each sub-goal, or `act(command)` and `done()`."""
        if self.role == EXECUTOR:
            command = text_parameter("An action, such as go to drawer 2.")
            return [
                function_tool("act", "Do an action.", {"command": command}),
                function_tool(DONE, "Say that the sub-goal is reached, or out of reach.", {}),
            ]
        kinds = {"find": "thing", "put": "place", "use": "lamp"}
        return [
            function_tool(
                verb,
                f"Ask the executor to {order.format(kinds.get(verb))}.",
                {"type": text_parameter(f"The type of the {kinds[verb]}.")} if verb in kinds else {},
            )
            for verb, order in _ORDERS.items()
        ]

    def call_forms(self) -> Mapping[str, str]:
        """See `TextEnv.call_forms`."""
        if self.role == EXECUTOR:
            return {"act": "{command}", DONE: DONE}
        return {verb: f"{verb}[{{type}}]" if verb in ("find", "put", "use") else verb for verb in _ORDERS}
