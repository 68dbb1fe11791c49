"""AgentLab-v0: find out by experiment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from agentgym_envs.lab import experts
from agentgym_envs.lab.commands import admissible, call_forms, command_text, parse, tools, without_source
from agentgym_envs.lab.families import FAMILIES
from agentgym_envs.lab.lab import Lab
from agentgym_envs.lab.saving import from_json, to_json
from agentgym_envs.lab.sentences import view
from agentgym_envs.lab.site import Puzzle, Site
from agentgym_envs.lab.verbs import do
from agentgym_envs.lab.wording import request
from agentgym_py.env import GeneratedEnv, Outcome, Reply, Task
from agentgym_py.env.generated import Draft
from agentgym_py.env.tools import RefusedError
from agentgym_py.env.types import TINY_WORLDS_DEFAULTS
from agentgym_py.rng import Rng

_EASY = (
    "boil", "melt", "freeze", "measure temperature", "power a device", "test conductivity", "find a living thing",
    "find a non-living thing", "find a plant", "find an animal", "longest-lived animal", "shortest-lived animal",
    "grow a plant", "mix chemicals", "mix a secondary paint", "steepest plane",
)  # fmt: skip
KINDS: Mapping[str, tuple[str, ...]] = {"easy": _EASY, "medium": tuple(FAMILIES), "hard": tuple(FAMILIES)}
"""Task kinds by difficulty."""


class LabEnv(GeneratedEnv[Puzzle]):
    """AgentLab-v0: find out by experiment in a laboratory.

    It is like ScienceWorld (Wang et al., 2022), with properties that differ by task, so that they must be measured.

    Task: the 30 kinds of ScienceWorld. Boil, melt, freeze or change a substance. Measure a temperature or a melting
    point. Power a device, also by a renewable source, or test whether something conducts. Find a living or non-living
    thing, a plant, an animal, or the longest- or shortest-lived animal. Grow a plant or a fruit, or follow the stages
    of a life. Cross plants to see which trait is dominant. Mix chemicals or paints. Compare inclined planes. Names of
    substances, animals, plants and unknown objects mean nothing.

    | difficulty | kinds | rooms | doors and furniture | devices | limit |
    |---|--:|--:|---|---|--:|
    | easy | 16 | 3 | open | all are strong enough | 50 |
    | medium | 30 | 5 | cupboards hide a third of the things | some are weak or broken | 80 |
    | hard | 30 | 7 | doors are closed, cupboards hide half of the things | some are weak, one is broken | 120 |

    Actions: ScienceWorld's verbs, such as `look around`, `go to kitchen`, `open cupboard`, `pick up tin cup`, `pour jar
    of adder into tin cup`, `dunk tin cup into sink`, `move tin cup to stove`, `activate stove`, `use thermometer on tin
    cup`, `connect red wire to battery`, `mix tin cup`, `read recipe sheet`, `wait`. `focus on X` declares what the task
    is about, or the answer. Other words are read, too: `put tin cup on stove`, `turn on stove`, `fill tin cup from
    sink`, `drop tin cup`. As tools: `go_to(name)`, `move(name, target)` and so on. The agent holds any number of
    things. Supplies never run out, and `drain` takes what was poured by mistake, so only a wrong focus is final.

    Observation: one or two sentences; a room shows everything in it that is not behind a door. A device shows its
    degrees, unless the task is to measure them: then what it warms cannot be taken away, and it stays on.

    Time: each command takes a moment, `wait` ten. Substances approach the temperature of their device or room, and stay
    at the melting or boiling point while they change. Seeds grow in moist soil, eggs in an incubator that is on.

    Reward: the gain of the score divided by 100. The score, `info["score"]`, has points for subgoals, 0 to 100;
    `info["subgoals"]` names those reached. A subgoal once reached keeps its points; the last one gives all 100.
    `info["success"]` is a score of 100. A wrong focus takes the score back to 0, where ScienceWorld says -100.

    End: success and a wrong focus terminate. A focus is wrong on anything that was not asked for, and as an answer
    before its measurement. So no box is right without a thermometer, no plane before all were timed, no animal
    before its guide was read, and no trait before a plant has grown. A thing to find must be looked at first. A focus
    on a supply, or on a vessel that holds one substance, is a focus on this substance. A right focus may be repeated,
    which changes nothing. A device is powered by a source only if no other source gives power in its circuit.
    `max_steps` truncates.

    Luck: a guess is right in half of the tasks with two answers, and in a quarter or less of those with more. It also
    needs the measurement, so random actions solve almost nothing.

    Differences from ScienceWorld: parts of a circuit have two equal ends. Substances are always in something. Answers
    are given by a focus on a box, never by putting a sample into one.

    Splits: each of train, valid and test has its own wordings of every request and its own invented names. Valid and
    test have three wordings of each. The train split has grammars and hundreds of names, two of five of them made up.

    Experts: `expert` knows everything and returns a successful plan from any state; it measures what an answer needs.
    Plans are not always shortest. `fair_expert` knows what the episode has shown, and how time changes it, such as
    warmth and moisture. It explores room by room, looks, reads and measures.

    Args:
        difficulty: `easy`, `medium` or `hard`.
        max_steps: the step at which an episode is truncated; by default as above.
        split: the split of tasks if `reset` names none.
        render_mode: `ansi` or None.

    Registered ids: AgentLab-v0.
    """

    name: ClassVar[str] = "lab"
    version: ClassVar[int] = 3
    reading_actions: ClassVar[tuple[str, ...]] = ("look", "read", "inventory")
    max_return: ClassVar[float | None] = 1.0
    evolve_defaults: ClassVar[Mapping[str, Any]] = TINY_WORLDS_DEFAULTS
    limits: ClassVar[Mapping[str, int]] = {"easy": 50, "medium": 80, "hard": 120}
    rules: ClassVar[Mapping[str, str]] = {
        "full": (
            "You do experiments in a laboratory of several rooms. Names mean nothing: look, read and measure. "
            "Each turn you do one command:\n"
            "look around, look at X, look in X, read X, inventory; go to ROOM, open X, close X, open door to ROOM;\n"
            "pick up X, put down X, move X to Y; you hold any number of things;\n"
            "pour X into Y (a vessel, or the drain), dunk X into Y, mix X, eat X;\n"
            "activate X, deactivate X, use X on Y (a held thermometer, stopwatch or brush); connect X to Y, "
            "disconnect X;\n"
            "wait (ten moments) or wait1 (one moment).\n"
            "focus on X declares what the task is about, or your answer. An answer before the measurement is wrong, "
            "and so is a found thing before a look at it. A wrong focus ends the task.\n"
            "A circuit is a ring of parts with a wire between any two of them. A solar panel works only in the garden. "
            "Seeds need water, eggs an incubator that is on.\n"
            "Answer in this form:\nThought: why\nAction: command"
        ),
        "brief": "Experiment by commands such as go to ROOM, pick up X, move X to Y, use X on Y. A wrong focus on X "
        "ends it.",
        "none": "",
    }

    # ---- the episode ------------------------------------------------------------------------------------------------

    def draft(self, rng: Rng, split: str) -> Draft[Puzzle]:
        """Draw a task kind and furnish a laboratory for it."""
        kind = rng.choice(KINDS[self.difficulty])
        site = Site(rng, split, self.difficulty)
        puzzle = site.build(FAMILIES[kind].draw(site, kind))
        return Draft(request(rng, split, puzzle.goal), puzzle, kind)

    def begin(self, task: Task) -> str:
        """Observe the request and the first room."""
        self._lab, self._reached, self._ended = Lab(self.puzzle_of(task)), 0, ""
        return f"{task.instruction}\n{view(self._lab)}"

    @property
    def lab(self) -> Lab:
        """Return the state of the current episode."""
        self._require_reset()
        return self._lab

    @property
    def score(self) -> int:
        """Return the points of the subgoals that were reached, 0 to 100; 0 after a wrong focus."""
        if self._ended:
            return 100 if self._ended == "solved" else 0
        points = FAMILIES[self._lab.puzzle.goal.kind].points[self._lab.puzzle.goal.kind].values()
        return sum(value for number, value in enumerate(points) if self._reached >> number & 1)

    def act(self, reply: Reply) -> Outcome:
        """Do a command."""
        command, before, foci = parse(command_text(reply)), self.score, len(self._lab.focused)
        if command is None:
            return self.invalid("Not a command. Write for example: look around, pick up X, move X to Y, wait.")
        try:
            observation = do(self._lab, without_source(self._lab, command))
        except RefusedError as error:
            return self.invalid(str(error))
        observation += self._judge(*self._lab.focused[foci:])
        ended, reward = bool(self._ended), (self.score - before) / 100
        return Outcome(observation, reward, terminated=ended, success=self._ended == "solved", info=self.extra_info())

    def _judge(self, focus: str | None = None) -> str:
        """Judge a new focus and the subgoals; return what is said about it."""
        lab = self._lab
        family = FAMILIES[lab.puzzle.goal.kind]
        if focus is not None and not family.accepts(lab, focus):
            self._ended = "failed"
            return " That is wrong: the task has failed."
        reached = family.progress(lab)
        for number, holds in enumerate(reached):
            self._reached |= holds << number
        if reached[-1]:
            self._ended = "solved"
            return " The task is solved."
        return ""

    def extra_info(self) -> dict[str, Any]:
        """Return the score and the subgoals that were reached."""
        points = FAMILIES[self._lab.puzzle.goal.kind].points[self._lab.puzzle.goal.kind]
        names = [name for number, name in enumerate(points) if self._reached >> number & 1]
        return {"score": self.score, "subgoals": names}

    def actions(self) -> list[str]:
        """List commands that can be done here."""
        self._require_reset()
        return [] if self._ended else admissible(self._lab)

    def tools(self) -> list[dict[str, Any]]:
        """Return a tool for each verb."""
        return tools()

    def call_forms(self) -> Mapping[str, str]:
        """See `TextEnv.call_forms`."""
        return call_forms()

    def secrets(self) -> list[str]:
        """Return the names of portable things that no observation and no page has shown."""
        task, lab = self._require_reset(), self._lab
        things = lab.puzzle.things
        pages = " ".join(thing.page for i, thing in enumerate(things) if f"read {i}" in lab.facts)
        return [
            thing.name for i, thing in enumerate(things)
            if thing.traits.portable and i not in lab.seen and thing.name not in f"{task.instruction} {pages}"
        ]  # fmt: skip

    # ---- forks and the experts --------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the laboratory, the subgoals that were reached, and how the task ended."""
        return {**to_json(self._lab), "reached": self._reached, "ended": self._ended}

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Restore a laboratory."""
        puzzle = self.puzzle_of(task)
        lab, reached, ended = from_json(puzzle, state), state["reached"], state["ended"]
        subgoals = len(FAMILIES[puzzle.goal.kind].points[puzzle.goal.kind])
        if type(reached) is not int or reached not in range(1 << subgoals) or ended not in ("", "solved", "failed"):
            raise ValueError(f"impossible subgoals or end: {reached!r:.60}, {ended!r:.60}")
        self._lab, self._reached, self._ended = lab, reached, ended

    def is_terminal(self, state: Mapping[str, Any]) -> bool:
        """Return whether the task is solved or has failed."""
        return bool(state["ended"])

    def expert(self) -> list[str]:
        """Return a plan that solves the task; see the class."""
        self._require_reset()
        return [] if self._ended else experts.plan(self._lab)

    def fair_expert(self) -> str | None:
        """Return the next command of a teacher that knows what the episode has shown."""
        self._require_reset()
        return None if self._ended else experts.fair_command(self._lab)

    def expert_thought(self, action: str) -> str:
        """Return what the teacher looks for, needs, or has found out; first also what is asked for."""
        task = self._require_reset()
        if self._ended:
            return ""
        thought, goal = experts.thought(self._lab, action), self._lab.puzzle.goal
        if self.steps or not thought:
            return thought
        named = (word for word in goal.slots.values() if word in task.instruction and word not in goal.kind)
        return f"Asked: {', '.join((goal.kind, *named))}. {thought}"
