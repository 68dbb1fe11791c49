"""Speeds of these worlds and of others' that install from the package index, in one run on one machine.

    python benchmarks/peers.py --python peers/bin/python [--household DIR] [--seconds 10]

How `peers` is made, docs/benchmarks.md says. DIR holds `games/*.tw-pddl` and `transcripts.json`; by default they are
the recordings of tests/envs/household.

Each world is measured in a process of its own, one after another: alone `reset` and `step` are on the clock, not the
choice of an action. The clock counts what the process computes, with the engine that it started where it has one
(ScienceWorld's Java): other jobs on the machine do not slow one side more than the other. Where a world gives the
admissible actions with a step (ALFWorld, ours) so does the other. On ALFWorld's games both play the commands that were
recorded, and their answers are compared with the recording. ALFWorld reads and translates a game's file at every
reset; ours keeps what it has read, so that its resets are measured with that and, in a row of their own, without.
A peer that does not install or run is listed with the reason.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import os
import random  # noqa: TID251  # this runs among others' packages too, and seeds nothing of ours
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parents[1] / "tests" / "envs" / "household" / "recorded"
TEXTARENA = ("Wordle-v0", "GuessTheNumber-v0", "Mastermind-v0", "FrozenLake-v0", "TowerOfHanoi-v0")
GEM = (
    "Wordle-v0-hard", "GuessTheNumber-v0-hard", "Mastermind-v0-hard", "Minesweeper-v0-hard", "FifteenPuzzle-v0-easy",
    "Sokoban-v0-easy", "Game2048-v0-easy",
)  # fmt: skip
_WORDS = """about above actor acute admit adopt adult after again agent agree ahead alarm album alert alike alive allow
alone along angle apple apply arena argue arise aside asset audio avoid award aware badly baker bases basic basis beach
begin being below bench birth black blame blind block blood board bread break brick brief bring broad brown build chair
chart chase cheap check chest chief child claim class clean clear click clock close coach coast could count"""
WORDS = _WORDS.split()
"""What stands in for a word list that a peer would download."""
COLD = "AgentHousehold-v0, ALFWorld's games, each file read anew"
_PATIENCE = 900
_WALL_SECONDS = 10
"""A world is given up after so many times the seconds that it should compute."""


def _engine_time() -> float:
    """CPU seconds of this process and of those that it started, as the system counts them: in hundredths."""
    pids = [os.getpid(), *map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())]
    ticks = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13] for pid in pids]
    return sum(int(each) for pair in ticks for each in pair) / os.sysconf("SC_CLK_TCK")


_CLOCKS = {"process": time.process_time, "engine": _engine_time}


@dataclass(slots=True)
class Speed:
    """What was measured of one world."""

    who: str
    """The package."""
    world: str
    steps: int = 0
    step_seconds: float = 0.0
    resets: int = 0
    reset_seconds: float = 0.0
    note: str = ""
    clock: str = "process"
    """`engine` counts processes that this one started, too."""
    began: float = field(default_factory=time.monotonic)

    @property
    def steps_a_second(self) -> float:
        """Of the time in `step` alone."""
        return self.steps / self.step_seconds if self.steps else float("nan")

    @property
    def resets_a_second(self) -> float:
        """Of the time in `reset` alone."""
        return self.resets / self.reset_seconds if self.resets else float("nan")

    def reset(self, call: Callable[[], Any]) -> Any:
        """Call it on the clock."""
        began = _CLOCKS[self.clock]()
        found = call()
        self.reset_seconds += _CLOCKS[self.clock]() - began
        self.resets += 1
        return found

    def step(self, call: Callable[[], Any]) -> Any:
        """Call it on the clock."""
        began = _CLOCKS[self.clock]()
        found = call()
        self.step_seconds += _CLOCKS[self.clock]() - began
        self.steps += 1
        return found

    @property
    def seconds(self) -> float:
        """On the clock so far, or a share of those that have passed if the machine gives it few."""
        return max(self.step_seconds + self.reset_seconds, (time.monotonic() - self.began) / _WALL_SECONDS)


Given = argparse.Namespace

# ---------------------------------------------------------------------------------------- ALFWorld's games, both sides


def recorded(folder: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Games and their recorded steps, up to the first end."""
    for each in json.loads((folder / "transcripts.json").read_text(encoding="utf-8"))["transcripts"]:
        steps = each["steps"]
        done = next((number for number, step in enumerate(steps, 1) if step["done"]), len(steps))
        yield each["game"], steps[:done]


def played(
    speed: Speed, given: Given, reset: Callable[[str], Any], step: Callable[[str], tuple[str, list[str]]]
) -> Iterator[Speed]:
    """Every recorded game once, or again and again until the time is up; the answers are compared."""
    alike = 0
    while speed.seconds < given.seconds:
        for game, steps in recorded(given.household):
            speed.reset(partial(reset, game))
            for each in steps:
                feedback, admissible = speed.step(partial(step, each["command"]))
                same = feedback.strip() == each["feedback"].strip()
                alike += same and sorted(admissible) == sorted(each["admissible"])
            if speed.seconds > given.seconds * given.slow:
                break
    speed.note = f"{alike:,} of {speed.steps:,} answers as recorded"
    yield speed


def alfworld(given: Given) -> Iterator[Speed]:
    """ALFWorld's text engine, as its AlfredTWEnv makes it."""
    textworld = importlib.import_module("textworld")
    textworld_gym = importlib.import_module("textworld.gym")
    of_alfworld = importlib.import_module("alfworld.agents.environment.alfred_tw_env")
    wrappers = [of_alfworld.AlfredDemangler(shuffle=False), of_alfworld.AlfredInfos]
    asked = textworld.EnvInfos(won=True, admissible_commands=True, extras=["gamefile"])
    files = {path.name.removesuffix(".tw-pddl"): str(path) for path in (given.household / "games").glob("*.tw-pddl")}
    envs: dict[str, Any] = {}
    live: list[Any] = []

    def reset(game: str) -> None:
        if game not in envs:
            name = textworld_gym.register_game(files[game], asked, max_episode_steps=10**9, wrappers=wrappers)
            envs[game] = textworld_gym.make(name)
        live[:] = [envs[game]]
        envs[game].reset()

    def step(command: str) -> tuple[str, list[str]]:
        feedback, _, _, info = live[0].step(command)
        return feedback, info["admissible_commands"]

    yield from played(Speed(_package("alfworld"), "its games, recorded commands"), given, reset, step)


def household(given: Given) -> Iterator[Speed]:
    """AgentHousehold-v0 on the same games, with the same commands."""
    import agentgym_py
    from agentgym_py.env import EnvSpec

    kwargs = {"games": str(given.household / "games"), "observation_mode": "alfworld", "max_steps": 10**9}
    spec = EnvSpec("AgentHousehold-v0", kwargs)
    env = spec.make()

    def reset(game: str) -> Any:
        return env.reset(options={"task": game})

    def step(command: str) -> tuple[str, list[str]]:
        feedback, _, _, _, info = env.step(command)
        return feedback, info["admissible_commands"]

    who = f"agentgym-py {agentgym_py.__version__}"
    yield from played(Speed(who, "AgentHousehold-v0, ALFWorld's games, recorded commands"), given, reset, step)
    cold = Speed(who, COLD)
    while cold.seconds < given.seconds / 2:
        for game in dict.fromkeys(game for game, _ in recorded(given.household)):
            unread = spec.make()
            cold.reset(partial(unread.reset, options={"task": game}))
    yield cold


# ------------------------------------------------------------------------------------------------------ random actions


def ours(given: Given) -> Iterator[Speed]:
    """Every installed world; a step is one with a random admissible action, and with the list of those that follow."""
    import agentgym_py
    from agentgym_py import registry
    from agentgym_py.env import EnvSpec, StopReason
    from agentgym_py.rng import Rng
    from agentgym_py.testing.harness import any_action

    for name in registry.names("agentgym.envs"):
        env, rng = EnvSpec(name).make(), Rng("peers")
        speed = Speed(f"agentgym-py {agentgym_py.__version__}", name)
        text = env.reset(seed=0)[0]  # loads what is loaded once
        env.stop_reason = StopReason.TRUNCATED
        while speed.seconds < given.seconds:
            if env.stop_reason:
                text = speed.reset(env.reset)[0]
            action = any_action(env, rng, text)
            text = speed.step(partial(_step_and_list, env, action))[0]
        yield speed


def _step_and_list(env: Any, action: str) -> Any:
    return *env.step(action), env.actions()


def textarena(given: Given) -> Iterator[Speed]:
    """TextArena's games of one player; a reset or step ends with the observation."""
    note = _words()
    ta = importlib.import_module("textarena")
    rng = random.Random(0)
    makers: dict[str, Callable[[], str]] = {
        "Wordle-v0": lambda: f"[{rng.choice(WORDS)}]",
        "GuessTheNumber-v0": lambda: f"[{rng.randint(1, 20)}]",
        "Mastermind-v0": lambda: f"[{' '.join(map(str, rng.sample(range(1, 7), 4)))}]",
        "FrozenLake-v0": lambda: f"[{rng.choice(['up', 'down', 'left', 'right'])}]",
        "TowerOfHanoi-v0": lambda: f"[{rng.choice('ABC')} {rng.choice('ABC')}]",
    }
    for name in TEXTARENA:
        speed = Speed(_package("textarena"), name, note=note if name == "Wordle-v0" else "")
        yield _measured(speed, partial(_arena, speed, ta.make, name, makers[name], given.seconds))


def _arena(speed: Speed, make: Callable[[str], Any], name: str, action: Callable[[], str], seconds: float) -> None:
    env, done = make(name), True

    def step(said: str) -> bool:
        over = bool(env.step(action=said)[0])
        env.get_observation()
        return over

    while speed.seconds < seconds:
        if done:
            speed.reset(lambda: (env.reset(num_players=1), env.get_observation()))
        done = speed.step(partial(step, action()))


def gem(given: Given) -> Iterator[Speed]:
    """GEM's games, by their own random actions."""
    note = _words()
    package = importlib.import_module("gem")
    importlib.import_module("gem.envs")
    for name in GEM:
        speed = Speed(_package("gem-llm"), name, note=note if name.startswith("Wordle") else "")

        def play(speed: Speed = speed, name: str = name) -> None:
            env, over = package.make(f"game:{name}"), True
            while speed.seconds < given.seconds:
                if over:
                    speed.reset(env.reset)
                _, _, terminated, truncated, _ = speed.step(partial(env.step, env.sample_random_action()))
                over = terminated or truncated

        yield _measured(speed, play)


def scienceworld(given: Given) -> Iterator[Speed]:
    """ScienceWorld, whose engine is a Java program behind a socket: steps alone, and with the list of valid actions."""
    made: Any = importlib.import_module("scienceworld").ScienceWorldEnv("", envStepLimit=100)
    rng = random.Random(0)
    made.load("boil", 0)
    for listing in (False, True):
        speed = Speed(_package("scienceworld"), f"boil, {'with' if listing else 'without'} the list of actions")
        speed.clock = "engine"

        def step(said: str, listing: bool = listing) -> bool:
            over = bool(made.step(said)[2])
            if listing:
                made.get_valid_action_object_combinations()
            return over

        done, valid = True, list[str]()
        while speed.seconds < given.seconds:
            if done:
                speed.reset(made.reset)
                valid = made.get_valid_action_object_combinations()
            done = speed.step(partial(step, rng.choice(valid)))
        yield speed
    made.close()


def _measured(speed: Speed, play: Callable[[], None]) -> Speed:
    """A peer's game, or why it does not run."""
    try:
        play()
    except Exception as error:  # others' code may raise anything
        speed.note = f"does not run: {' '.join(repr(error).split())[:120]}"
    return speed


def _words() -> str:
    """Puts a list of words where nltk looks for the one that it would download; returns what to say of it."""
    nltk: Any = importlib.import_module("nltk")
    nltk.download = lambda *_, **__: False
    try:
        importlib.import_module("nltk.corpus").words.words("en-basic")
        return ""
    except LookupError:
        folder = Path(tempfile.mkdtemp(prefix="peers"))
        (folder / "corpora" / "words").mkdir(parents=True)
        for name in ("en", "en-basic"):
            (folder / "corpora" / "words" / name).write_text("\n".join(WORDS))
        nltk.data.path.insert(0, str(folder))
        nltk.pos_tag = lambda words: [(word, "NN") for word in words]
        importlib.reload(importlib.import_module("nltk.corpus"))
        return f"its words are a download: {len(WORDS)} others stand in"


def _package(name: str) -> str:
    return f"{name} {version(name)}"


# ------------------------------------------------------------------------------------------------------------- the run

PEERS: dict[str, Callable[[Given], Iterator[Speed]]] = {
    "alfworld": alfworld, "textarena": textarena, "gem-llm": gem, "scienceworld": scienceworld,
}  # fmt: skip
OURS: dict[str, Callable[[Given], Iterator[Speed]]] = {"household": household, "ours": ours}


def measure(given: Given) -> None:
    """In a process of its own: one source, a JSON line a world; what the packages print goes to stderr."""
    out = sys.stdout
    with redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for speed in (PEERS | OURS)[given.measure](given):
            print(json.dumps(asdict(speed)), file=out, flush=True)


def asked(name: str, python: str, given: Given) -> list[Speed]:
    """What a fresh process measures; a row that says why, where it cannot."""
    argv = [python, __file__, "--measure", name, "--seconds", str(given.seconds), "--household", str(given.household)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    if name in PEERS:
        env.pop("PYTHONPATH", None)  # theirs is another environment
    try:
        done = subprocess.run(argv, capture_output=True, text=True, env=env, timeout=_PATIENCE, check=False)  # noqa: S603  # this file
    except (OSError, subprocess.TimeoutExpired) as error:
        return [Speed(name, "", note=f"does not run: {error}")]
    rows = [Speed(**json.loads(line)) for line in done.stdout.splitlines()]
    if done.returncode:
        rows.append(Speed(name, "", note=f"does not run: {(done.stderr.strip().splitlines() or ['?'])[-1][:160]}"))
    return rows


def installed(name: str, python: str) -> bool:
    """Whether that Python has the package."""
    code = f"from importlib.metadata import version; version({name!r})"
    return not subprocess.run([python, "-c", code], capture_output=True, check=False).returncode  # noqa: S603  # ours


def table(rows: list[Speed]) -> str:
    """The rows as Markdown."""
    lines = ["| package | world | steps/s | resets/s | steps | resets | |", "|---|---|--:|--:|--:|--:|---|"]
    for each in rows:
        speeds = f"{_short(each.steps_a_second)} | {_short(each.resets_a_second)} | {each.steps:,} | {each.resets:,}"
        lines.append(f"| {each.who} | {each.world} | {speeds} | {each.note} |")
    return "\n".join(lines)


def _short(value: float) -> str:
    return "" if value != value else f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def main() -> None:
    """Measure everything, or in a child process one package."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="the Python that has the peers")
    parser.add_argument("--household", type=Path, help="folder of games/ and transcripts.json")
    parser.add_argument("--seconds", type=float, default=10.0, help="on the clock, for each world")
    parser.add_argument("--slow", type=float, default=6.0, help=argparse.SUPPRESS)
    parser.add_argument("--measure", choices=[*PEERS, *OURS], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        measure(given)
        return
    with tempfile.TemporaryDirectory(prefix="peers") as folder:
        given.household = given.household or unpacked(Path(folder))
        compare(given)


def unpacked(folder: Path) -> Path:
    """The recordings of the tests, as files."""
    (folder / "games").mkdir()
    for name, text in json.loads(gzip.decompress((RECORDED / "games.json.gz").read_bytes())).items():
        (folder / "games" / name).write_text(text, encoding="utf-8")
    (folder / "transcripts.json").write_bytes(gzip.decompress((RECORDED / "transcripts.json.gz").read_bytes()))
    return folder


def compare(given: Given) -> None:
    """Measure peers and ours in turn, print the table and how often theirs goes into ours on ALFWorld's games."""
    rows: list[Speed] = []
    for name in ("alfworld", "household", "textarena", "gem-llm", "ours", "scienceworld"):
        if name in PEERS and not installed(name, given.python):
            rows.append(Speed(name, "", note="not installed"))
        else:
            rows += asked(name, sys.executable if name in OURS else given.python, given)
        print(f"{name}: {rows[-1]}", file=sys.stderr, flush=True)
    print(table(rows))
    by_world = {(each.who.split()[0], each.world.partition(", ")[2]): each for each in rows}
    theirs = next((each for (who, _), each in by_world.items() if who == "alfworld"), None)
    mine = by_world.get(("agentgym-py", "ALFWorld's games, recorded commands"))
    cold = by_world.get(("agentgym-py", COLD.partition(", ")[2]))
    if theirs and theirs.steps and mine and cold:
        steps = mine.steps_a_second / theirs.steps_a_second
        resets, anew = (each.resets_a_second / theirs.resets_a_second for each in (mine, cold))
        print(
            f"\nOn ALFWorld's games, same commands: {steps:,.0f} x its steps and {resets:,.0f} x its resets a second;",
            end=" ",
        )
        print(f"{anew:,.0f} x where our file is read anew too.")


if __name__ == "__main__":
    main()
