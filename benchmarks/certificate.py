"""Certificates against planted defects: `python benchmarks/certificate.py [--episodes 30] [--only NAME ...]`.

Each defect is a patch of a copy of a world, in a temporary folder. It counts as found if a check of the certificate
fails; the check that is expected to find it runs first, and the others only if that one passes.

    python benchmarks/certificate.py --clean --worlds maze shop ...    # false alarms: the criteria on unchanged worlds
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from agentgym_py.certificate import ALL_CHECKS, CRITERIA
from agentgym_py.env import EnvSpec
from agentgym_py.env.registration import registered_id
from agentgym_py.testing.harness import Settings
from agentgym_py.testing.report import Result
from agentgym_py.testing.runner import run_check

ROOT = Path(__file__).resolve().parents[1]
WORLDS = (
    "calculator", "household", "lab", "maze", "service", "sheet", "shop", "sql", "textcraft", "todo", "tools", "wordle",
)  # fmt: skip
CLASSES = {"maze": "MazeEnv", "calculator": "CalculatorEnv", "wordle": "WordleEnv", "guess": "GuessEnv"}
SLOW = ("isolation", "vectors", "reproducible", "strings", "memory")
"""Checks that start processes or take long; they run last."""


@dataclass(frozen=True, slots=True)
class Defect:
    """A patch of a world, and the check that should find it."""

    name: str
    world: str
    check: str
    patches: tuple[tuple[str, str, str], ...]
    """File, text that it has once, and the text in its place."""


def maze(name: str, check: str, *patches: tuple[str, str]) -> Defect:
    """Return a defect of the maze's `env.py`."""
    return Defect(name, "maze", check, tuple(("env.py", old, new) for old, new in patches))


def calculator(name: str, check: str, *patches: tuple[str, str]) -> Defect:
    """Return a defect of the calculator's `env.py`."""
    return Defect(name, "calculator", check, tuple(("env.py", old, new) for old, new in patches))


_UNBOUNDED = ("max_return: ClassVar[float | None] = 1.0", "max_return: ClassVar[float | None] = None")
_LEAVE = 'return Outcome(f"You leave by the {metal} gate.", float(success), terminated=True, success=success)'
_TAKE = 'return Outcome(f"You take the {metal} key.{dropped}")'
_LOOK = "return Outcome(self._view(self.puzzle))"
_ANSWER = "return Outcome(text, float(success), terminated=True, success=success, parts="
_VALUE = "return Outcome(_with_decimal(self._result))"
_RIGHT = "success = abs(answer - problem.answer) <= problem.tolerance"
_DRAW = "house = draw_house(rng, split, self.difficulty)"
_REQUEST = "request = expand(rng, rng.choice(REQUESTS[split])).format(m=house.metal)"

DEFECTS = (
    # ---- solvable
    maze("the step limit of hard is too low", "solvable", ('"hard": 64', '"hard": 14')),
    maze("a tenth of the gates is jammed", "solvable", (
        "        self._opened = metal\n",
        '        if self.current_task.id.endswith("7"):\n            return self.invalid("It is jammed.")\n'
        "        self._opened = metal\n")),
    maze("a door sticks at random", "solvable", (
        '        self._room = house.doors[self._room][direction]\n',
        '        if self.rng.below(8) == 0:\n            return Outcome("The door sticks.")\n'
        '        self._room = house.doors[self._room][direction]\n')),
    calculator("a rounded answer is wrong where it is allowed", "solvable",
               (_RIGHT, "success = answer == problem.answer")),
    # ---- floor and ceiling
    calculator("success pays nothing", "floor_and_ceiling", (_ANSWER, _ANSWER.replace("float(success)", "0.0"))),
    maze("each step pays", "floor_and_ceiling", _UNBOUNDED,
         ("self._visited.add(self._room)\n        return Outcome(self._view(house))",
          "self._visited.add(self._room)\n        return Outcome(self._view(house), 0.2)")),
    maze("a bad action pays", "floor_and_ceiling", _UNBOUNDED,
         ('return self.invalid(f"Not an action. {_FORMS}")', 'return Outcome(_FORMS, 0.1, valid=False)')),
    maze("any gate is right", "gameable", ("success = metal == house.metal", "success = True")),
    # ---- gameable
    maze("a wrong gate pays as much", "gameable", (_LEAVE, _LEAVE.replace("float(success)", "1.0"))),
    calculator("a wrong answer pays as much", "gameable", (_ANSWER, _ANSWER.replace("float(success)", "1.0"))),
    maze("a key pays each time it is taken", "gameable", _UNBOUNDED,
         (_TAKE, _TAKE.replace('dropped}")', 'dropped}", 0.3)')),
         (_LEAVE, _LEAVE.replace("float(success)", "float(success) - 0.3"))),
    calculator("each calculation pays", "gameable", _UNBOUNDED,
               (_VALUE, "return Outcome(_with_decimal(self._result), 0.1)")),
    maze("idling to the limit pays", "gameable", (
        'return self.invalid(f"Not an action. {_FORMS}")',
        "return Outcome(_FORMS, float(self.steps + 1 >= self.max_steps), valid=False)")),
    calculator("the right number among others is accepted", "gameable", (
        "        answer = read_answer(text, problem.unit)\n",
        "        parts = [read_answer(part, problem.unit) for part in text.split(', ')]\n"
        "        numbers = [part for part in parts if part is not None]\n"
        "        answer = min(numbers, key=lambda number: abs(number - problem.answer), default=None)\n")),
    calculator("an empty answer is right", "gameable", (
        "        answer = read_answer(text, problem.unit)\n",
        "        answer = read_answer(text, problem.unit) if text else problem.answer\n")),
    calculator("what cannot be read counts as right", "gameable", (
        "        if answer is None:\n            return self.invalid(",
        "        if answer is None and text:\n            answer = problem.answer\n"
        "        if answer is None:\n            return self.invalid(")),
    # ---- learnable
    maze("the request does not name the gate", "learnable",
         (_REQUEST, _REQUEST.replace("house.metal", 'f"no. {rng.below(10**6)}"'))),
    calculator("the numbers of the problem are hidden", "learnable", (
        "        return task.instruction\n\n    def _load",
        '        return re.sub(r"\\d", "#", task.instruction)\n\n    def _load'),
        ("        return draft(rng, split, self.difficulty)",
         "        made = draft(rng, split, self.difficulty)\n"
         '        request = re.sub(r"\\d", "#", made.instruction) + f" (no. {rng.below(10**8)})"\n'
         "        return Draft(request, made.puzzle, made.kind)"),
        ("return Outcome(_with_decimal(self._result))", 'return Outcome("Done.")')),
    Defect("the pattern of the word is not shown", "wordle", "learnable", (
        ("env.py", "It looks like this: {' '.join(pattern)}", "It is number {rng.below(10**8)}."),
        ("env.py", 'observation = f"{\' \'.join(guess)}\\n{signs}\\n{result}"', "observation = result"))),
    # ---- difficulty
    Defect("easy and hard are exchanged", "maze", "difficulty", (
        ("house.py", 'SIZES = {"easy": 3, "medium": 4, "hard": 5}', 'SIZES = {"easy": 5, "medium": 4, "hard": 3}'),
        ("env.py", '"easy": 24, "medium": 40, "hard": 64', '"easy": 64, "medium": 40, "hard": 24'))),
    Defect("all difficulties are the same", "maze", "difficulty", (
        ("house.py", 'SIZES = {"easy": 3, "medium": 4, "hard": 5}', 'SIZES = {"easy": 4, "medium": 4, "hard": 4}'),
        ("house.py", 'KEYS = {"easy": 3, "medium": 4, "hard": 4}', 'KEYS = {"easy": 4, "medium": 4, "hard": 4}'),
        ("house.py", '{"easy": 2, "medium": 3, "hard": 4}', '{"easy": 3, "medium": 3, "hard": 3}'),
        ("env.py", '"easy": 24, "medium": 40, "hard": 64', '"easy": 40, "medium": 40, "hard": 40'))),
    calculator("medium is the hardest", "difficulty", (
        "return draft(rng, split, self.difficulty)",
        'return draft(rng, split, {"medium": "hard", "hard": "medium"}.get(self.difficulty, "easy"))')),
    # ---- splits
    maze("test houses are training houses, in other words", "splits", (
        _DRAW, 'house = draw_house(Rng("maze", rng.below(60)), "train", self.difficulty)')),
    maze("test tasks are training tasks with a mark", "splits",
         (_DRAW, 'house = draw_house(Rng("maze", rng.below(60)), "train", self.difficulty)'),
         (_REQUEST, '_ = f"Leave by the {house.metal} gate, please, as you did before in {split}."; request = _')),
    Defect("test instructions differ by an exclamation mark", "guess", "splits", (
        ("guess.py", '{"train": 64, "valid": 65, "test": 66}', '{"train": 64, "valid": 64, "test": 64}'),
        ("guess.py", 'f"Find a number below {LIMIT[parts[1]]}."',
         'f"Find a number below 64" + {"train": ".", "valid": "!", "test": "?"}[parts[1]]'))),
    # ---- the kit
    maze("the observation names a hidden room", "leaks", (
        'view = f"In the {house.rooms[self._room]}.',
        'view = f"The gate is in the {house.rooms[house.gate]}. In the {house.rooms[self._room]}.')),
    maze("a snapshot forgets the visited rooms", "futures", (
        '"visited": sorted(self._visited),', '"visited": sorted({self._room, self.puzzle.start}),')),
    maze("the global generator decides", "globals", (
        "        self._room = house.doors[self._room][direction]\n",
        "        import random\n        random.random()\n        self._room = house.doors[self._room][direction]\n")),
    maze("instances share their keys", "forks", (
        'dict(house.keys), ""\n        self._visited = {house.start}',
        'house.keys, ""\n        self._visited = {house.start}')),
    maze("the reward is an int", "interface", (_LEAVE, _LEAVE.replace("float(success)", "int(success)"))),
    calculator("an unreadable expression raises", "strings", (
        "            return self.invalid(str(error))", "            raise ValueError(str(error))")),
)  # fmt: skip
"""The planted defects."""


@contextmanager
def planted(defect: Defect, number: int) -> Iterator[EnvSpec]:
    """Write a patched copy of a world to a temporary folder, and register it while the block runs."""
    package, old_class = f"planted_{number}", CLASSES[defect.world]
    with TemporaryDirectory(prefix="planted") as folder:
        target = Path(folder) / package
        target.mkdir()
        for path in _sources(defect.world):
            name = "guess.py" if defect.world == "guess" else path.name
            text = path.read_text(encoding="utf-8").replace(f"agentgym_envs.{defect.world}", package)
            for file, old, new in defect.patches:
                if file == name:
                    if text.count(old) != 1:
                        raise ValueError(f"{defect.name}: {file} has {text.count(old)} times {old!r}")
                    text = text.replace(old, new)
            text = text.replace(f"Agent{defect.world.capitalize()}-v0", f"Planted{number}-v0")
            (target / name).write_text(text.replace(old_class, f"Planted{number}Env"), encoding="utf-8")
        (target / "__init__.py").touch()
        sys.path.insert(0, folder)
        try:
            module = importlib.import_module(f"{package}.{'guess' if defect.world == 'guess' else 'env'}")
            yield EnvSpec(registered_id(getattr(module, f"Planted{number}Env")))
        finally:
            sys.path.remove(folder)


def _sources(world: str) -> list[Path]:
    if world == "guess":
        return [ROOT / "examples" / "my_world.py"]
    return sorted((ROOT / "envs" / "agentgym_envs" / world).glob("*.py"))


def find(defect: Defect, number: int, settings: Settings) -> Result | None:
    """Return the first check that fails, the expected one first; None if the defect is not found."""
    others = sorted((name for name in ALL_CHECKS if name != defect.check), key=lambda name: name in SLOW)
    with planted(defect, number) as spec:
        for name in (defect.check, *others):
            result = run_check(name, spec, settings, ALL_CHECKS)
            if result.failure:
                return result
    return None


def defects(names: Sequence[str], settings: Settings) -> Iterator[str]:
    """Yield the table of planted defects."""
    yield "| world | defect | found by | what it says | seconds |\n|---|---|---|---|--:|"
    found = tried = 0
    for number, defect in enumerate(DEFECTS):
        if names and not any(name in defect.name for name in names):
            continue
        began = time.perf_counter()
        result = find(defect, number, settings)
        tried += 1
        found += result is not None
        failure = result.failure if result else None
        says = " ".join(failure.message.split())[:110].replace("|", "/") if failure else ""
        by = result.check if result else "not found"
        yield f"| {defect.world} | {defect.name} | {by} | {says} | {time.perf_counter() - began:.0f} |"
    yield f"\n{found} of {tried} defects found"


def clean(worlds: Sequence[str], checks: Sequence[str], settings: Settings) -> Iterator[str]:
    """Yield the table of false alarms: the criteria on worlds without a planted defect."""
    yield "| world | check | result | seconds | notes |\n|---|---|---|--:|---|"
    alarms = 0
    for world in worlds:
        for name in checks:
            result = run_check(name, EnvSpec(world), settings, ALL_CHECKS)
            alarms += result.failure is not None
            says = result.failure.message if result.failure else "; ".join(result.notes)
            yield f"| {world} | {name} | {result.status} | {result.seconds:.0f} | {says.replace('|', '/')} |"
    yield f"\n{alarms} false alarms in {len(worlds) * len(checks)} checks of {len(worlds)} worlds"


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=30, help="episodes of a check, as in `agentgym certify`")
    parser.add_argument("--memory_episodes", type=int, default=200)
    parser.add_argument("--only", nargs="+", default=[], help="parts of names of defects")
    parser.add_argument("--clean", action="store_true", help="worlds without a defect: count false alarms")
    parser.add_argument("--worlds", nargs="+", default=WORLDS, metavar="WORLD", help="for --clean")
    parser.add_argument("--checks", nargs="+", default=list(CRITERIA), metavar="CHECK", help="for --clean")
    args = parser.parse_args(argv)
    settings = Settings(episodes=args.episodes, memory_episodes=args.memory_episodes)
    lines = clean(args.worlds, args.checks, settings) if args.clean else defects(args.only, settings)
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    main()
