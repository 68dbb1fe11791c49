"""Speed of these worlds and of others from the package index, in one run on one machine.

    python benchmarks/peers.py --python peers/bin/python [--household DIR] [--seconds 10] [--sources lab scienceworld]

See docs/results/worlds.md for how to make the environment `peers`. DIR holds `games/*.tw-pddl` and
`transcripts.json`; by default these are the recordings of tests/envs/household.

Worlds are measured one after another, each in a new process. The clock runs only in `reset` and `step`, not while an
action is chosen. It counts CPU time, including that of an engine process (ScienceWorld's Java), so that other jobs on
the machine affect all sides alike. ALFWorld and AgentHousehold both return the admissible actions with a step; on
ALFWorld's games both run the recorded commands, and their answers are compared with the recording. ALFWorld reads and
translates a game's file at every reset; AgentHousehold caches it, so a separate row has its resets without the cache.
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
"""Words in place of a list that a peer would download."""
COLD = "AgentHousehold-v0, ALFWorld's games, without cached files"
_PATIENCE = 900
_WALL_SECONDS = 10
"""A world stops after this multiple of its seconds, in wall-clock time."""


def _engine_time() -> float:
    """Return the CPU seconds of this process and its children, as the system counts them (in hundredths)."""
    pids = [os.getpid(), *map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())]
    ticks = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13] for pid in pids]
    return sum(int(tick) for pair in ticks for tick in pair) / os.sysconf("SC_CLK_TCK")


_CLOCKS = {"process": time.process_time, "engine": _engine_time}


@dataclass(slots=True)
class Speed:
    """The measurements of a world."""

    who: str
    """The package."""
    world: str
    steps: int = 0
    step_seconds: float = 0.0
    resets: int = 0
    reset_seconds: float = 0.0
    note: str = ""
    clock: str = "process"
    """`engine` includes child processes."""
    began: float = field(default_factory=time.monotonic)

    @property
    def steps_a_second(self) -> float:
        """Steps per second in `step`."""
        return self.steps / self.step_seconds if self.steps else float("nan")

    @property
    def resets_a_second(self) -> float:
        """Resets per second in `reset`."""
        return self.resets / self.reset_seconds if self.resets else float("nan")

    def reset(self, call: Callable[[], Any]) -> Any:
        """Time a reset."""
        began = _CLOCKS[self.clock]()
        result = call()
        self.reset_seconds += _CLOCKS[self.clock]() - began
        self.resets += 1
        return result

    def step(self, call: Callable[[], Any]) -> Any:
        """Time a step."""
        began = _CLOCKS[self.clock]()
        result = call()
        self.step_seconds += _CLOCKS[self.clock]() - began
        self.steps += 1
        return result

    @property
    def seconds(self) -> float:
        """Return the seconds on the clock, or a share of the wall-clock seconds if that is more."""
        return max(self.step_seconds + self.reset_seconds, (time.monotonic() - self.began) / _WALL_SECONDS)


Args = argparse.Namespace

# ---------------------------------------------------------------------------------------- ALFWorld's games, both sides


def recorded(folder: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield games and their recorded steps, up to the first end."""
    for transcript in json.loads((folder / "transcripts.json").read_text(encoding="utf-8"))["transcripts"]:
        steps = transcript["steps"]
        done = next((number for number, step in enumerate(steps, 1) if step["done"]), len(steps))
        yield transcript["game"], steps[:done]


def replay(
    speed: Speed, args: Args, reset: Callable[[str], Any], step: Callable[[str], tuple[str, list[str]]]
) -> Iterator[Speed]:
    """Replay every recorded game at least once, until the time is up, and compare the answers."""
    equal = 0
    while speed.seconds < args.seconds:
        for game, steps in recorded(args.household):
            speed.reset(partial(reset, game))
            for recording in steps:
                feedback, admissible = speed.step(partial(step, recording["command"]))
                same = feedback.strip() == recording["feedback"].strip()
                equal += same and sorted(admissible) == sorted(recording["admissible"])
            if speed.seconds > args.seconds * args.slow:
                break
    speed.note = f"{equal:,} of {speed.steps:,} answers as recorded"
    yield speed


def alfworld(args: Args) -> Iterator[Speed]:
    """Measure ALFWorld's text engine, as its AlfredTWEnv makes it."""
    textworld = importlib.import_module("textworld")
    textworld_gym = importlib.import_module("textworld.gym")
    of_alfworld = importlib.import_module("alfworld.agents.environment.alfred_tw_env")
    wrappers = [of_alfworld.AlfredDemangler(shuffle=False), of_alfworld.AlfredInfos]
    infos = textworld.EnvInfos(won=True, admissible_commands=True, extras=["gamefile"])
    files = {path.name.removesuffix(".tw-pddl"): str(path) for path in (args.household / "games").glob("*.tw-pddl")}
    envs: dict[str, Any] = {}
    live: list[Any] = []

    def reset(game: str) -> None:
        if game not in envs:
            name = textworld_gym.register_game(files[game], infos, max_episode_steps=10**9, wrappers=wrappers)
            envs[game] = textworld_gym.make(name)
        live[:] = [envs[game]]
        envs[game].reset()

    def step(command: str) -> tuple[str, list[str]]:
        feedback, _, _, info = live[0].step(command)
        return feedback, info["admissible_commands"]

    yield from replay(Speed(_package("alfworld"), "its games, recorded commands"), args, reset, step)


def household(args: Args) -> Iterator[Speed]:
    """Measure AgentHousehold-v0 on the same games, with the same commands."""
    import agentgym_py
    from agentgym_py.env import EnvSpec

    kwargs = {"games": str(args.household / "games"), "observation_mode": "alfworld", "max_steps": 10**9}
    spec = EnvSpec("AgentHousehold-v0", kwargs)
    env = spec.make()

    def reset(game: str) -> Any:
        return env.reset(options={"task": game})

    def step(command: str) -> tuple[str, list[str]]:
        feedback, _, _, _, info = env.step(command)
        return feedback, info["admissible_commands"]

    who = f"agentgym-py {agentgym_py.__version__}"
    yield from replay(Speed(who, "AgentHousehold-v0, ALFWorld's games, recorded commands"), args, reset, step)
    cold = Speed(who, COLD)
    while cold.seconds < args.seconds / 2:
        for game in dict.fromkeys(game for game, _ in recorded(args.household)):
            unread = spec.make()
            cold.reset(partial(unread.reset, options={"task": game}))
    yield cold


# ------------------------------------------------------------------------------------------------------ random actions


def ours(args: Args) -> Iterator[Speed]:
    """Measure every installed world; a step takes a random admissible action and lists the next ones."""
    import agentgym_py
    from agentgym_py import registry
    from agentgym_py.env import EnvSpec, StopReason
    from agentgym_py.rng import Rng
    from agentgym_py.testing.random_actions import any_action

    for name in registry.names("agentgym.envs"):
        env, rng = EnvSpec(name).make(), Rng("peers")
        speed = Speed(f"agentgym-py {agentgym_py.__version__}", name)
        text = env.reset(seed=0)[0]  # loads what is loaded only once
        env.stop_reason = StopReason.TRUNCATED
        while speed.seconds < args.seconds:
            if env.stop_reason:
                text = speed.reset(env.reset)[0]
            action = any_action(env, rng, text)
            text = speed.step(partial(_step_and_list, env, action))[0]
        yield speed


def lab(args: Args) -> Iterator[Speed]:
    """Measure a task of AgentLab like ScienceWorld's "boil": steps without and with the list of actions."""
    import agentgym_py
    from agentgym_py.env import EnvSpec

    env, rng = EnvSpec("lab").make(), random.Random(0)
    number = next(number for number in range(1_000) if env.task(number).kind == "boil")
    reset = partial(env.reset, options={"task": number})
    reset()  # draws the task, as ScienceWorld's `load` does before the clock runs
    for listing in (False, True):
        world = f"AgentLab-v0, boil, {'with' if listing else 'without'} the list of actions"
        speed, done, actions = Speed(f"agentgym-py {agentgym_py.__version__}", world), True, list[str]()
        while speed.seconds < args.seconds:
            if done:
                speed.reset(reset)
                actions = env.actions() or []
            action = rng.choice(actions)
            speed.step(partial(_step_and_list, env, action) if listing else partial(env.step, action))
            done = bool(env.stop_reason)
        yield speed


def _step_and_list(env: Any, action: str) -> Any:
    return *env.step(action), env.actions()


def textarena(args: Args) -> Iterator[Speed]:
    """Measure TextArena's games of one player; a reset or step includes the observation."""
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
        yield _try(speed, partial(_arena, speed, ta.make, name, makers[name], args.seconds))


def _arena(speed: Speed, make: Callable[[str], Any], name: str, action: Callable[[], str], seconds: float) -> None:
    env, done = make(name), True

    def step(text: str) -> bool:
        over = bool(env.step(action=text)[0])
        env.get_observation()
        return over

    while speed.seconds < seconds:
        if done:
            speed.reset(lambda: (env.reset(num_players=1), env.get_observation()))
        done = speed.step(partial(step, action()))


def gem(args: Args) -> Iterator[Speed]:
    """Measure GEM's games with their own random actions."""
    note = _words()
    package = importlib.import_module("gem")
    importlib.import_module("gem.envs")
    for name in GEM:
        speed = Speed(_package("gem-llm"), name, note=note if name.startswith("Wordle") else "")

        def play(speed: Speed = speed, name: str = name) -> None:
            env, over = package.make(f"game:{name}"), True
            while speed.seconds < args.seconds:
                if over:
                    speed.reset(env.reset)
                _, _, terminated, truncated, _ = speed.step(partial(env.step, env.sample_random_action()))
                over = terminated or truncated

        yield _try(speed, play)


def scienceworld(args: Args) -> Iterator[Speed]:
    """Measure ScienceWorld, a Java program behind a socket: steps without and with the list of valid actions."""
    env: Any = importlib.import_module("scienceworld").ScienceWorldEnv("", envStepLimit=100)
    rng = random.Random(0)
    env.load("boil", 0)
    for listing in (False, True):
        speed = Speed(_package("scienceworld"), f"boil, {'with' if listing else 'without'} the list of actions")
        speed.clock = "engine"

        def step(action: str, listing: bool = listing) -> bool:
            over = bool(env.step(action)[2])
            if listing:
                env.get_valid_action_object_combinations()
            return over

        done, valid = True, list[str]()
        while speed.seconds < args.seconds:
            if done:
                speed.reset(env.reset)
                valid = env.get_valid_action_object_combinations()
            done = speed.step(partial(step, rng.choice(valid)))
        yield speed
    env.close()


def _try(speed: Speed, play: Callable[[], None]) -> Speed:
    """Measure a peer's game, or note why it does not run."""
    try:
        play()
    except Exception as error:  # foreign code may raise anything
        speed.note = f"does not run: {' '.join(repr(error).split())[:120]}"
    return speed


def _words() -> str:
    """Provide nltk with words in place of its download; return a note about them."""
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

PEERS: dict[str, Callable[[Args], Iterator[Speed]]] = {
    "alfworld": alfworld, "textarena": textarena, "gem-llm": gem, "scienceworld": scienceworld,
}  # fmt: skip
OURS: dict[str, Callable[[Args], Iterator[Speed]]] = {"household": household, "ours": ours, "lab": lab}
SOURCES = ("alfworld", "household", "textarena", "gem-llm", "ours", "lab", "scienceworld")
"""Peers and ours, in the order of the table."""


def measure(args: Args) -> None:
    """Measure one source in this process; print a JSON line per world, and the packages' output to stderr."""
    out = sys.stdout
    with redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for speed in (PEERS | OURS)[args.measure](args):
            print(json.dumps(asdict(speed)), file=out, flush=True)


def measure_in_process(name: str, python: str, args: Args) -> list[Speed]:
    """Measure one source in a new process; a failure becomes a row with the reason."""
    argv = [python, __file__, "--measure", name, "--seconds", str(args.seconds), "--household", str(args.household)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    if name in PEERS:
        env.pop("PYTHONPATH", None)  # the peers have another environment
    try:
        done = subprocess.run(argv, capture_output=True, text=True, env=env, timeout=_PATIENCE, check=False)  # noqa: S603  # this file
    except (OSError, subprocess.TimeoutExpired) as error:
        return [Speed(name, "", note=f"does not run: {error}")]
    rows = [Speed(**json.loads(line)) for line in done.stdout.splitlines()]
    if done.returncode:
        rows.append(Speed(name, "", note=f"does not run: {(done.stderr.strip().splitlines() or ['?'])[-1][:160]}"))
    return rows


def installed(name: str, python: str) -> bool:
    """Tell whether a Python has a package."""
    code = f"from importlib.metadata import version; version({name!r})"
    return not subprocess.run([python, "-c", code], capture_output=True, check=False).returncode  # noqa: S603  # ours


def table(rows: list[Speed]) -> str:
    """Format the rows as Markdown."""
    lines = ["| package | world | steps/s | resets/s | steps | resets | |", "|---|---|--:|--:|--:|--:|---|"]
    for row in rows:
        speeds = f"{_short(row.steps_a_second)} | {_short(row.resets_a_second)} | {row.steps:,} | {row.resets:,}"
        lines.append(f"| {row.who} | {row.world} | {speeds} | {row.note} |")
    return "\n".join(lines)


def _short(value: float) -> str:
    return "" if value != value else f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def main() -> None:
    """Measure everything, or one package in a child process."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="the Python that has the peers")
    parser.add_argument("--household", type=Path, help="folder of games/ and transcripts.json")
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds per world")
    parser.add_argument("--sources", nargs="+", choices=SOURCES, default=SOURCES, help="what is measured")
    parser.add_argument("--slow", type=float, default=6.0, help=argparse.SUPPRESS)
    parser.add_argument("--measure", choices=[*PEERS, *OURS], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        measure(args)
        return
    with tempfile.TemporaryDirectory(prefix="peers") as folder:
        args.household = args.household or unpack(Path(folder))
        compare(args)


def unpack(folder: Path) -> Path:
    """Unpack the recordings of the tests."""
    (folder / "games").mkdir()
    for name, text in json.loads(gzip.decompress((RECORDED / "games.json.gz").read_bytes())).items():
        (folder / "games" / name).write_text(text, encoding="utf-8")
    (folder / "transcripts.json").write_bytes(gzip.decompress((RECORDED / "transcripts.json.gz").read_bytes()))
    return folder


def compare(args: Args) -> None:
    """Measure all worlds; print the table and the ratios on ALFWorld's games."""
    rows: list[Speed] = []
    for name in args.sources:
        if name in PEERS and not installed(name, args.python):
            rows.append(Speed(name, "", note="not installed"))
        else:
            rows += measure_in_process(name, sys.executable if name in OURS else args.python, args)
        print(f"{name}: {rows[-1]}", file=sys.stderr, flush=True)
    print(table(rows))
    by_world = {(row.who.split()[0], row.world.partition(", ")[2]): row for row in rows}
    theirs = next((row for (who, _), row in by_world.items() if who == "alfworld"), None)
    own = by_world.get(("agentgym-py", "ALFWorld's games, recorded commands"))
    cold = by_world.get(("agentgym-py", COLD.partition(", ")[2]))
    if theirs and theirs.steps and own and cold:
        steps = own.steps_a_second / theirs.steps_a_second
        resets, uncached = (row.resets_a_second / theirs.resets_a_second for row in (own, cold))
        print(
            f"\nOn ALFWorld's games, same commands: {steps:,.0f} x its steps and {resets:,.0f} x its resets a second;",
            end=" ",
        )
        print(f"{uncached:,.0f} x without the cached files.")


if __name__ == "__main__":
    main()
