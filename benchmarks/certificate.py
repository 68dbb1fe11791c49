"""Certificates against planted defects, and false alarms: the tables "Does a certificate find defects?" of the docs.

    python benchmarks/certificate.py [--episodes 30] [--only NAME ...]      # defects that are planted
    python benchmarks/certificate.py --clean [--worlds maze shop ...]       # the criteria on unchanged worlds

Each defect is a patch of a copy of a world, in a temporary folder. It counts as found if a check of the certificate
fails; the check that is expected to find it runs first, and the others only if that one passes. Worlds of several roles
are tested in each role.

Rows are kept in `benchmarks/certificate.planted.jsonl` and `benchmarks/certificate.clean.jsonl`. A row of the same
number of episodes is not measured again, so the command is resumable; that of a shipped world must also be of its
version. `--again` measures all. `--tables` measures nothing and prints the tables of the rows; `python
docs/figures.py` writes them into docs/results/system.md.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from resumable import keep_row, read_state

from agentgym_py import registry
from agentgym_py.certificate import ALL_CHECKS, CRITERIA
from agentgym_py.env import EnvSpec
from agentgym_py.env.registration import env_class, registered_id, short_name
from agentgym_py.testing.harness import Settings
from agentgym_py.testing.report import Result
from agentgym_py.testing.runner import run_check

ROOT = Path(__file__).resolve().parents[1]
ROWS = {name: ROOT / "benchmarks" / f"certificate.{name}.jsonl" for name in ("planted", "clean")}
CLASSES = {"maze": "MazeEnv", "calculator": "CalculatorEnv", "wordle": "WordleEnv", "guess": "GuessEnv"}
SLOW = ("isolation", "vectors", "reproducible", "strings", "memory")
"""Checks that start processes or take long; they run last."""


@dataclass(frozen=True, slots=True)
class PlantedRow:
    """What the checks found in a world with a planted defect."""

    world: str
    defect: str
    expected: str
    """The check that should find it."""
    episodes: int
    check: str
    """The check that found it, or nothing."""
    message: str
    seconds: float

    @property
    def key(self) -> tuple[str, str]:
        """What a row is about."""
        return self.world, self.defect


@dataclass(frozen=True, slots=True)
class CleanRow:
    """What a check found in an unchanged world."""

    world: str
    role: str
    """Empty in a world of one role."""
    version: int
    """Version of the world."""
    check: str
    episodes: int
    status: str
    notes: str
    """Its notes, or what it says if it failed."""
    measured: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def key(self) -> tuple[str, str, str]:
        """What a row is about."""
        return self.world, self.role, self.check

    @property
    def title(self) -> str:
        """The world with its role."""
        return f"{self.world}, {self.role}" if self.role else self.world


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


def measure_planted(names: Sequence[str], settings: Settings, path: Path, again: bool) -> None:
    """Look for the defects with these words in their names, and keep a row for each."""
    kept = {row.key: row for row in read_state(PlantedRow, path)}
    for number, defect in enumerate(DEFECTS):
        row = kept.get((defect.world, defect.name))
        is_current = row and row.episodes == settings.episodes and not again
        if is_current or (names and not any(name in defect.name for name in names)):
            continue
        began = time.perf_counter()
        result = find(defect, number, settings)
        message = result.failure.message if result and result.failure else ""
        row = PlantedRow(
            defect.world, defect.name, defect.check, settings.episodes, result.check if result else "", message,
            round(time.perf_counter() - began, 1),
        )  # fmt: skip
        keep_row(path, row)
        print(f"{row.world}: {row.defect}: {row.check or 'not found'} {message}", file=sys.stderr)


def measure_clean(worlds: Sequence[str], checks: Sequence[str], settings: Settings, path: Path, again: bool) -> None:
    """Run checks on unchanged worlds, in each of their roles, and keep a row for each."""
    kept = {row.key: row for row in read_state(CleanRow, path)}
    wanted = [(world, role) for world in worlds for role in roles_of(world)]
    for (world, role), check in product(wanted, checks):
        spec, row = EnvSpec(world, {"role": role} if role else {}), kept.get((world, role, check))
        version = getattr(env_class(world), "version", 0)
        if row and (row.version, row.episodes) == (version, settings.episodes) and not again:
            continue
        result = run_check(check, spec, settings, ALL_CHECKS)
        notes = result.failure.message if result.failure else "; ".join(result.notes)
        row = CleanRow(
            world, role, version, check, settings.episodes, result.status, notes, result.measured,
            round(result.seconds, 1),
        )  # fmt: skip
        keep_row(path, row)
        print(f"{row.title}: {result.status} {check} {result.seconds:.0f} s {notes}", file=sys.stderr)


def roles_of(world: str) -> Sequence[str]:
    """Return the roles of a world; one of a single role has the role ''."""
    return getattr(env_class(world), "roles", ("",))


# ---- tables ----------------------------------------------------------------------------------------------------------


def planted_tables(rows: Sequence[PlantedRow]) -> Iterator[str]:
    """Yield the table of defects, in the order of `DEFECTS`, and how many are found."""
    order = [(defect.world, defect.name) for defect in DEFECTS]
    rows = sorted((row for row in rows if row.key in order), key=lambda row: order.index(row.key))
    lines = ["| world | planted defect | found by |", "|---|---|---|"]
    lines += [f"| {row.world} | {row.defect} | {f'`{row.check}`' if row.check else '**not found**'} |" for row in rows]
    yield "\n".join(lines)
    found, expected = sum(row.check != "" for row in rows), sum(row.check == row.expected for row in rows)
    yield f"{found} of {len(rows)} defects are found, {expected} of them by the check that was expected to."


def clean_tables(rows: Sequence[CleanRow]) -> Iterator[str]:
    """Yield what the criteria measure in each world, and the number of false alarms; † marks rows of old versions."""
    worlds: dict[str, dict[str, CleanRow]] = {}
    for row in sorted(rows, key=lambda row: row.key):
        worlds.setdefault(row.title, {})[row.check] = row
    names = ("world", "expert's return", "floor", "unearned return", "guessing", "after training", "CPU seconds",
             "false alarms")  # fmt: skip
    lines = [f"| {' | '.join(names)} |", f"|---{'|--:' * (len(names) - 1)}|"]
    for title, checks in worlds.items():
        measured = {name: value for row in checks.values() for name, value in row.measured.items()}
        alarms = [f"`{row.check}`" for row in checks.values() if row.status == "failed"]
        cells = [
            cell(measured.get("ceiling"), "{:.2f}"), cell(measured.get("floor"), "{:.2f}"),
            cell(measured.get("unearned_return"), "{:.0%}").replace("%", " %"),
            cell(measured.get("success_untrained"), "{:.0%}").replace("%", " %"),
            cell(measured.get("success_trained"), "{:.0%}").replace("%", " %"),
            cell(measured.get("cpu_seconds"), "{:.0f}"), ", ".join(alarms) or "0",
        ]  # fmt: skip
        is_old = any(row.version != getattr(env_class(row.world), "version", 0) for row in checks.values())
        lines.append(f"| {title}{' †' if is_old else ''} | {' | '.join(cells)} |")
    yield "\n".join(lines)
    failed, skipped = (sum(row.status == status for row in rows) for status in ("failed", "skipped"))
    rest = f"; {skipped} did not apply" if skipped else ""
    yield f"{failed} false alarms in {len(rows)} checks of {len({row.world for row in rows})} worlds{rest}."


def cell(value: float | None, form: str) -> str:
    """Format a cell."""
    return "–" if value is None else form.format(value)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=30, help="episodes of a check, as in `agentgym certify`")
    parser.add_argument("--memory_episodes", type=int, default=200)
    parser.add_argument("--only", nargs="+", default=[], help="parts of names of defects")
    parser.add_argument("--clean", action="store_true", help="worlds without a defect: count false alarms")
    worlds = [short_name(name) for name in registry.names("agentgym.envs")]
    parser.add_argument("--worlds", nargs="+", default=worlds, metavar="WORLD", help="for --clean; by default all")
    parser.add_argument("--checks", nargs="+", default=list(CRITERIA), metavar="CHECK", help="for --clean")
    parser.add_argument("--results", type=Path, help="file that keeps the rows")
    parser.add_argument("--again", action="store_true", help="measure kept rows again")
    parser.add_argument("--tables", action="store_true", help="measure nothing; print the tables of the kept rows")
    args = parser.parse_args(argv)
    settings = Settings(episodes=args.episodes, memory_episodes=args.memory_episodes)
    path = args.results or ROWS["clean" if args.clean else "planted"]
    if args.clean:
        if not args.tables:
            measure_clean(args.worlds, args.checks, settings, path, args.again)
        tables = clean_tables(read_state(CleanRow, path))
    else:
        if not args.tables:
            measure_planted(args.only, settings, path, args.again)
        tables = planted_tables(read_state(PlantedRow, path))
    print(*tables, sep="\n\n")


if __name__ == "__main__":
    main()
