"""Ours beside the originals: the same commands to both, how many answers agree, and the time of both in one run.

    python benchmarks/originals.py [babyai scienceworld alfworld textworld] [--layouts 5] [--games 12] [--steps 30]

Run it in an environment that has `bridges/originals` with the originals; one that is missing is listed as such.

- babyai: AgentGrid-v0 draws a mission of each level, BabyAI's engine gets the same rooms, things and mission, and both
  get the same moves: the expert's with random ones between. A view, a reward and an end are one answer each.
- scienceworld: AgentLab-v0 gets a kitchen with ScienceWorld's names, and both get the same commands, once. For each
  command one answer is whether it did something, and one whether it ended the task; after commands on the pot, one
  more is the state of the water in it. Temperatures are not compared: rooms have 20 degrees here and 10 there, and heat
  flows at other rates, so the script waits until nothing changes.
- alfworld: AgentHousehold-v0 and ALFWorld play the same games with the same commands: random admissible ones, and then
  the planner's. A text, a list of admissible commands and a reward with its end are one answer each.
- textworld: no world of ours has its rules. AgentTextWorld-v0 and TextWorld's own interpreter play the same games with
  the same commands, random ones and then the policy's, so the times say what the bridge adds to a step.

Times are CPU seconds in `step`, the list of actions included for ALFWorld, and Java for ScienceWorld.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from peers import RECORDED, Speed

import agentgym_py
from agentgym_envs.lab.env import LabEnv
from agentgym_envs.lab.site import Goal, Puzzle, Site, floor
from agentgym_py.env import EnvSpec, TextEnv
from agentgym_py.env.generated import Draft
from agentgym_py.errors import ConfigError
from agentgym_py.rng import Rng

Args = argparse.Namespace
OURS = f"agentgym-py {agentgym_py.__version__}"
UNLIMITED = 10**6


class Answers:
    """Counts of equal answers by kind, and the first that differ."""

    def __init__(self) -> None:
        self.equal, self.total, self.different = Counter[str](), Counter[str](), list[str]()

    def compare(self, kind: str, where: str, ours: object, theirs: object) -> None:
        """Count an answer of both."""
        self.total[kind] += 1
        self.equal[kind] += ours == theirs
        if ours != theirs:
            self.different.append(f"{kind} after {where}: ours {ours!r:.200}; theirs {theirs!r:.200}")

    def __str__(self) -> str:
        rows = [f"| {kind} | {self.equal[kind]:,} of {count:,} |" for kind, count in self.total.items()]
        rows.append(f"| all | {self.equal.total():,} of {self.total.total():,} |")
        differing = [f"- {line}" for line in self.different]
        return "\n".join(["| answers | equal |", "|---|--:|", *rows, *([""] if differing else []), *differing])


Result = tuple[Answers, Sequence[Speed]]

# ---------------------------------------------------------------------------------------------------- BabyAI, AgentGrid


def babyai(args: Args) -> Result:
    """Play missions of every level in both engines."""
    import agentgym_babyai
    from babyai_layout import Original

    from agentgym_envs.grid.env import GridEnv
    from agentgym_envs.grid.levels import LEVELS

    class Twin(agentgym_babyai.BabyAIEnv):
        """BabyAI in the layout of `grid`'s current task."""

        def connect(self) -> Any:
            assert grid.current_task
            return agentgym_babyai.Session(Original(grid.puzzle_of(grid.current_task)))

    answers, words = Answers(), "each move in words"
    speeds = [
        Speed(OURS, f"AgentGrid-v0, {words}"),
        Speed(f"minigrid {version('minigrid')}", f"AgentBabyAI-v0, {words}"),
    ]
    for level in LEVELS:
        grid = GridEnv(level=level, max_steps=UNLIMITED)
        for number in range(args.layouts):
            with closing(Twin(max_steps=UNLIMITED)) as twin:
                _mission(grid, twin, number, answers, speeds)
    return answers, speeds


def _mission(grid: Any, twin: TextEnv, number: int, answers: Answers, speeds: Sequence[Speed]) -> None:
    """Play one mission: random moves, the expert's, random ones again, and the expert's to the end."""
    from agentgym_babyai import MOVES

    from agentgym_envs.grid.planner import plan

    first = grid.reset(options={"task": number, "split": "test"})[0]
    answers.compare("mission and first view", grid.current_task.id, first, twin.reset(options={"task": 0})[0])
    rng, moves = Rng("originals", grid.level, number), list[int]()
    for step in range(200):
        if step in (8, 60):
            moves = plan(grid._world)
        elif step == 30:
            moves = []
        move = MOVES[moves.pop(0) if moves else rng.below(len(MOVES))]
        view, reward, over, _, info = speeds[0].step(partial(grid.step, move))
        theirs, its_reward, its_over, _, its_info = speeds[1].step(partial(twin.step, move))
        where = f"{grid.current_task.id}, step {step + 1}, {move}"
        answers.compare("end and success", where, (over, info["success"]), (its_over, its_info["success"]))
        answers.compare("reward", where, round(reward, 9), round(its_reward, 9))
        if over or its_over:
            break
        answers.compare("view", where, view.removeprefix("Nothing happens. "), theirs)


# ----------------------------------------------------------------------------------------------- ScienceWorld, AgentLab

COMMANDS = """
look around; go to kitchen; open door to kitchen; open door to kitchen; go to kitchen; look around;
pick up thermometer; inventory; put down thermometer; pick up thermometer; pick up stove; pick up moon;
look in cupboard; open cupboard; open cupboard; look in cupboard; close cupboard; close cupboard; open cupboard;
pick up metal pot; look in metal pot; use thermometer on metal pot; use metal pot on thermometer; mix metal pot;
activate sink; activate sink; dunk metal pot into sink; move metal pot to sink; deactivate sink; deactivate sink;
look in metal pot; use thermometer on metal pot; mix metal pot; read thermometer; eat metal pot; activate table;
move metal pot to stove; activate stove; activate stove; WAIT; look in metal pot; pick up metal pot; deactivate stove;
open freezer; move metal pot to freezer; look in freezer; WAIT; WAIT; look in metal pot; pick up metal pot;
move metal pot to stove; activate stove; WAIT; look in metal pot; pick up metal pot; deactivate stove;
pour metal pot into sink; connect metal pot to stove; disconnect stove; look at metal pot; go to bedroom;
open door to hallway; go to hallway; close door to kitchen; close door to kitchen; go to kitchen; open door to kitchen;
go to kitchen; wait1; dance; focus on thermometer""".replace("WAIT", "; ".join(["wait"] * 10))
_REFUSED = re.compile(
    r"No known action|already|isn't open|not open|not moveable|not sure how|does not contain|not something|not clear|"
    r"not edible|is empty|not appear|can't|cannot"
)
_STATES = {"ice": "solid", "water": "liquid", "steam": "gaseous"}


class Kitchen(LabEnv):
    """A hallway and a kitchen with the names of ScienceWorld's, where a task is to boil water."""

    def draft(self, rng: Rng, split: str) -> Draft[Puzzle]:
        """Furnish the kitchen."""
        site = Site(rng, split, self.difficulty)
        site.rooms, site.doors, site.things = ["outside", "kitchen", "hallway"], [(0, 1), (1, 2)], []
        water, kitchen = site.substance("water", melts=0, boils=100), floor(1)
        site.add("surface", "table", kitchen)
        cupboard = site.add("cupboard", "cupboard", kitchen)
        site.add("cup", "metal pot", cupboard)
        site.add("heater", "stove", kitchen, value=500)
        site.add("cooler", "freezer", kitchen, value=-20, on=True)
        site.add("tap", "sink", kitchen, stock=water)
        site.add("thermometer", "thermometer", kitchen)
        return Draft("boil water", replace(site.build(Goal("boil", (water,))), start=2), "boil")


def scienceworld(args: Args) -> Result:
    """Send the commands to both laboratories."""
    del args
    answers = Answers()
    speeds = [
        Speed(OURS, "AgentLab-v0, the commands", clock="engine"),
        Speed(f"scienceworld {version('scienceworld')}", "AgentScienceWorld-v0, the commands", clock="engine"),
    ]
    settings = {"task_name": "boil", "max_steps": UNLIMITED}
    with (
        closing(Kitchen(difficulty="hard", max_steps=UNLIMITED)) as ours,
        closing(EnvSpec("scienceworld", settings).make()) as theirs,
    ):
        for env in (ours, theirs):
            env.reset(options={"task": 0})
        for command in re.split(r";\s*", COMMANDS):
            _, _, over, _, info = speeds[0].step(partial(ours.step, command))
            its_text, _, its_over, _, _ = speeds[1].step(partial(theirs.step, command))
            verb = command.partition(" ")[0]
            answers.compare("done or refused", command, info["valid_action"], not _REFUSED.search(its_text))
            answers.compare("end", command, over, its_over)
            if verb in ("look", "pick", "pour", "dunk", "move") and "metal pot" in command:
                looks = [env.step("look in metal pot")[0] for env in (ours, theirs)]
                answers.compare("state of the water", command, *map(_state, looks))
    return answers, speeds


def _state(text: str) -> str:
    """Read the state of the water that a text tells."""
    words = re.findall(r"\b(solid|liquid|gaseous|melting|boiling|ice|steam|water)\b", text)
    return _STATES.get(words[0], words[0]) if words else "none"


# --------------------------------------------------------------------------------------------- ALFWorld, AgentHousehold


def alfworld(args: Args) -> Result:
    """Play the recorded games in both engines."""
    answers = Answers()
    with tempfile.TemporaryDirectory(prefix="originals") as folder:
        for name, text in json.loads(gzip.decompress((RECORDED / "games.json.gz").read_bytes())).items():
            if name.endswith(".tw-pddl"):
                Path(folder, name).write_text(text, encoding="utf-8")
        ours = EnvSpec("household", {"games": folder, "observation_mode": "alfworld", "max_steps": UNLIMITED}).make()
        theirs = EnvSpec("alfworld", {"games": folder, "max_steps": UNLIMITED}).make()
        speeds = [
            Speed(OURS, "AgentHousehold-v0, ALFWorld's games, with the list of actions"),
            Speed(f"alfworld {version('alfworld')}", "AgentALFWorld-v0, the same"),
        ]
        with closing(ours), closing(theirs):
            for number in range(args.games):
                with suppress(LookupError):  # there are fewer games
                    _game(ours, theirs, number, args.steps, answers, speeds)
    return answers, speeds


def _game(ours: TextEnv, theirs: Any, number: int, steps: int, answers: Answers, speeds: Sequence[Speed]) -> None:
    """Play a game with random admissible commands, and then by the planner."""
    first = speeds[1].reset(partial(theirs.reset, options={"task": number}))[0]
    name = theirs.games["train"][number].name.removesuffix(".tw-pddl")
    answers.compare(
        "text", name, speeds[0].reset(partial(ours.reset, options={"task": name}))[0].strip(), first.strip()
    )
    rng, plan = Rng("originals", name), list[str]()
    for step in range(2 * steps):
        if step == steps:
            plan = theirs.expert()
        command = (plan.pop(0) if plan else rng.choice(theirs.actions())) if step != 3 else "fly to the moon"
        turns = [
            speed.step(partial(_step_and_list, env, command)) for speed, env in zip(speeds, (ours, theirs), strict=True)
        ]
        (text, reward, over, listed), (its_text, its_reward, its_over, its_listed) = turns
        where = f"{name}, step {step + 1}, {command}"
        answers.compare("text", where, text.strip(), its_text.strip())
        answers.compare("reward and end", where, (reward, over), (its_reward, its_over))
        if over or its_over:
            break
        answers.compare("admissible commands", where, sorted(listed), sorted(its_listed))


def _step_and_list(env: TextEnv, command: str) -> tuple[str, float, bool, list[str]]:
    text, reward, over, _, _ = env.step(command)
    return text, reward, over, [] if over else env.actions() or []


# ------------------------------------------------------------------------------------- TextWorld, through its bridge


def textworld(args: Args) -> Result:
    """Play games by the bridge and by TextWorld's interpreter."""
    package = importlib.import_module("textworld")
    from agentgym_textworld import INFOS
    from agentgym_textworld_games import game_file, quiet

    answers, who = Answers(), f"textworld {version('textworld')}"
    speeds = [Speed(who, "AgentTextWorld-v0"), Speed(who, "its interpreter")]
    with closing(EnvSpec("textworld", {"max_steps": UNLIMITED}).make()) as bridge:
        for number in range(args.games):
            speeds[0].reset(partial(bridge.reset, options={"task": number}))
            file = game_file(package, "treasure_hunter", {}, "train", number)
            with quiet(), closing(package.start(file, package.EnvInfos(**dict.fromkeys(INFOS, True)))) as game:
                state = speeds[1].reset(game.reset)
                rng, plan = Rng("originals", str(number)), list[str]()
                for step in range(2 * args.steps):
                    plan = bridge.expert() if step == args.steps else plan
                    command = plan.pop(0) if plan else rng.choice(bridge.actions() or [])
                    before = state.score
                    _, reward, over, _, _ = speeds[0].step(partial(bridge.step, command))
                    state, _, ends = speeds[1].step(partial(game.step, command))
                    where = f"game {number}, step {step + 1}, {command}"
                    gain = (state.score - before) / max(1, state.max_score)
                    answers.compare("reward and end", where, (reward, over), (gain, ends))
                    if over or ends:
                        break
                    listed = sorted(state.admissible_commands)
                    answers.compare("admissible commands", where, sorted(bridge.actions() or []), listed)
    return answers, speeds


# ------------------------------------------------------------------------------------------------------------- the run

PARTS: dict[str, Callable[[Args], Result]] = {
    "babyai": babyai, "scienceworld": scienceworld, "alfworld": alfworld, "textworld": textworld,
}  # fmt: skip


def rows(speeds: Sequence[Speed]) -> Iterator[str]:
    """Write the speeds as a table."""
    yield "| package | world | steps/s | steps |"
    yield "|---|---|--:|--:|"
    for speed in speeds:
        yield f"| {speed.who} | {speed.world} | {speed.steps_a_second:,.0f} | {speed.steps:,} |"


def main() -> None:
    """Compare the parts that are named, or all of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--layouts", type=int, default=5, help="missions of each of BabyAI's levels")
    parser.add_argument("--games", type=int, default=12, help="games of ALFWorld and TextWorld")
    parser.add_argument("--steps", type=int, default=30, help="random commands in a game of the two")
    args = parser.parse_args()
    if unknown := set(args.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    for name in args.parts or PARTS:
        print(f"\n{name}\n")
        try:
            answers, speeds = PARTS[name](args)
        except (ImportError, ConfigError) as error:
            print(f"not installed: {error}")
        else:
            print(answers, "", *rows(speeds), sep="\n", flush=True)


if __name__ == "__main__":
    main()
