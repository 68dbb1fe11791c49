"""What the benchmarks share that run `agentgym evolve`: resumable runs, and studies whose arms start from one agent.

For each seed `agentgym evolve --rounds 0` trains Agent_v0, from which every arm starts. Finished runs stay in `--out`
and are not run again, so the tables of a study can be made in several sessions. Each row of figures is kept as a line
of `--results` with its settings, by default of `rows.jsonl` in `--out`. The same command with `--tables` runs nothing
and prints the tables of these lines.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import takewhile
from pathlib import Path
from typing import Any

from agentgym_py.cli import main as agentgym
from agentgym_py.evaluation.stats import improvement
from agentgym_py.evaluation.text import format_mean
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.files import write_atomic
from agentgym_py.trajectory import store

Row = Mapping[str, Any]
"""The figures of a run, with `study`, `arm` and `seed`; a benchmark of arms has no `study`."""
_NO_SETTINGS = frozenset({
    "names", "all_names", "noun", "seeds", "out", "results", "tables", "index", "base_url", "target"
})  # fmt: skip
"""Arguments of the benchmarks that change no figure of a row: which rows, where they are, and how they are shown."""


def evolve(path: Path, options: Sequence[str], *where: str, trusted: Sequence[str] = ()) -> RunFolder:
    """Finish a run of `agentgym evolve` in this folder, resuming it if it exists; options in `where` may change.

    `trusted` are the Python files that its options name.
    """
    require_same_options(path, options)
    exists = (path / "run.yaml").is_file()
    words = ["--resume", str(path)] if exists else [*options, *where, "--out", str(path)]
    if agentgym(["evolve", *words, *(word for file in trusted for word in ("--trust", file))]):
        raise SystemExit(f"evolve failed in {path}")
    return RunFolder.open(path)


def fork(run: RunFolder, after: int, path: Path, changes: Sequence[str]) -> RunFolder:
    """Finish a fork of a run after a round with changes such as `select.threshold=0.5`, resuming it if it exists."""
    require_same_options(path, [f"{run.path.name}@{after}", *changes])
    words = [word for change in changes for word in ("--set", change)]
    begun = (path / "run.yaml").is_file()
    command = (
        ["evolve", "--resume", str(path)] if begun else ["fork", f"{run.path}@{after}", *words, "--out", str(path)]
    )
    if agentgym(command):
        raise SystemExit(f"the fork in {path} failed")
    return RunFolder.open(path)


def require_same_options(path: Path, options: Sequence[str]) -> None:
    """Record the options of a run beside its folder; SystemExit if the folder was made with other ones.

    A folder without recorded options is accepted.
    """
    record = path.with_name(f"{path.name}.settings.json")
    if not path.exists():
        write_atomic(record, json.dumps(list(options)) + "\n")
    elif record.is_file() and (before := json.loads(record.read_text("utf-8"))) != list(options):
        raise SystemExit(
            f"{path} was begun with {' '.join(before)}, not with {' '.join(options)}: move it, or use another --out"
        )


def shipped_base(name: str = "tiny") -> str:
    """Return a shipped base's digest from its card, without loading weights, which would count as memory."""
    card = resources.files("agentgym_data").joinpath(name, "CARD.md").read_text("utf-8")
    return str(re.findall(r"Digest\*\* of the weights: `(\w+)`", card)[0])


@dataclass(frozen=True)
class Study:
    """A comparison of runs from the same Agent_v0."""

    first: str
    """Options of Agent_v0, and of every run from it."""
    options: str
    """Further options of every run from it."""
    arms: Mapping[str, str]
    """Options of each arm, by its name in the tables."""
    trusted: Sequence[str] = ()
    """Python files that the arms' options name."""

    def words(self, arm: str, model: str, options: Sequence[str] = ()) -> list[str]:
        """Return the options of an arm that starts from a model, in whose place none of `options` can come."""
        words = [*self.first.split(), *self.options.split(), *self.arms[arm].split()]
        return [*words, *options, *starting_from(model)]

    def start(self, folder: Path, seed: int, options: Sequence[str]) -> Path:
        """Return Agent_v0 of a seed, which is trained if it is missing."""
        words = [*self.first.split(), "--seed", str(seed), "--threads", "1", *options, "--rounds", "0"]
        return evolve(folder / "v0", words).round(0) / "checkpoint"

    def runs(self, folder: Path, seed: int, options: Sequence[str]) -> Iterator[tuple[str, RunFolder]]:
        """Finish the runs of a seed; yield each arm with its run. Settings in `options` replace those of the study."""
        agent = str(self.start(folder, seed, options))
        for arm in self.arms:
            words = self.words(arm, agent, ["--seed", str(seed), "--threads", "1", *options])
            yield arm, evolve(folder / arm, words, trusted=self.trusted)


def starting_from(model: str) -> list[str]:
    """Return the last options of a run that continues an agent: it begins without demonstrations."""
    return ["--model", model, "--expert_tasks", "0", "--allow_empty"]


def run_command(*words: str) -> None:
    """Run a command of agentgym, and end if it fails."""
    if agentgym(words):
        raise SystemExit(f"agentgym {words[0]} failed")


def collect(file: Path, *words: str) -> Path:
    """Return the file of the episodes of `agentgym collect`, which collects them if it is missing."""
    if not file.is_file():
        part = file.with_name(f"{file.stem}.part.jsonl")
        part.unlink(missing_ok=True)
        run_command("collect", *words, "--threads", "1", "--out", str(part))
        part.rename(file)
    return file


def reward_model_of(agent: Path, world: Sequence[str], folder: Path, seed: int, tasks: int) -> Path:
    """Return the reward model of an agent's four tries at each of some training tasks, trained if it is missing."""
    target = folder / "rm"
    words = [*world, "--model", str(agent), "--split", "train", "--tasks", str(tasks), "--attempts", "4"]
    tries = collect(folder / "tries.jsonl", *words, "--seed", str(1000 + seed))
    if not (target / "train.json").is_file():
        words = ["--trainer", "reward_model", "--data", str(tries), "--model", str(agent), "--seed", str(seed)]
        run_command("train", *words, "--threads", "1", "--out", str(target))
    return target / "reward_model"


def tested(run: RunFolder, number: int) -> list[int]:
    """Return the successes of a round's agent on the test tasks, as 0 or 1."""
    return [int(trajectory.success) for trajectory in store.read(run.round(number) / "test.jsonl")]


def by_arm(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    """Group rows by study and arm."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["study"], row["arm"]), []).append(row)
    return groups


def by_seed(rows: Iterable[Row]) -> dict[str, dict[int, Row]]:
    """Group the rows of a benchmark of arms by arm and seed."""
    groups: dict[str, dict[int, Row]] = {}
    for row in rows:
        groups.setdefault(row["arm"], {})[row["seed"]] = row
    return groups


def gain_over(baseline: str, arm: str, groups: Mapping[str, Mapping[int, Row]]) -> str:
    """Return the gain of an arm's agents over those of another arm on the same tasks, with its interval."""
    before, after = groups.get(baseline, {}), groups[arm]
    pairs = [(before[seed]["after"], after[seed]["after"]) for seed in after if seed in before]
    return format_mean(improvement(pairs)) if pairs and arm != baseline else "–"


def parser_of(doc: str | None, names: Iterable[str], out: str, noun: str = "study") -> argparse.ArgumentParser:
    """Return the parser of a benchmark of studies or arms; `parse` reads their names, which come first."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
        usage=f"%(prog)s [{noun.upper()} ...] [OPTION ...] [OPTION OF agentgym evolve ...]",
        epilog=f"{noun.upper()} is of {', '.join(names)}; by default all.",
    )  # fmt: skip
    parser.set_defaults(all_names=list(names), noun=noun)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tasks", type=int, default=300, help="test tasks of each world")
    parser.add_argument("--out", type=Path, default=Path(out))
    parser.add_argument("--results", type=Path, help="file that keeps the rows; by default OUT/rows.jsonl")
    parser.add_argument("--tables", action="store_true", help="run nothing; print the tables of the kept rows")
    return parser


def parse(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    """Return the arguments, with the chosen names, and the options for `agentgym evolve`."""
    words = sys.argv[1:] if argv is None else argv
    names = list(takewhile(lambda word: not word.startswith("-"), words))
    args, more = parser.parse_known_args(words[len(names) :])
    if unknown := set(names) - set(args.all_names):
        parser.error(f"no {args.noun} {', '.join(sorted(unknown))}; choose from {', '.join(args.all_names)}")
    args.names = names or args.all_names
    args.results = args.results or args.out / "rows.jsonl"
    args.options = [*more, "--test_tasks", str(args.tasks)]
    return args, args.options


def study_rows(
    studies: Mapping[str, Study], row: Callable[[str, str, int, RunFolder], Row], args: argparse.Namespace,
    options: Sequence[str],
) -> Iterator[Row]:  # fmt: skip
    """Finish the runs of the chosen studies; yield what `row` makes of study, arm, seed and run."""
    for name in args.names:
        for seed in args.seeds:
            for arm, run in studies[name].runs(args.out / name / f"s{seed}", seed, options):
                yield row(name, arm, seed, run)


# ---- results ---------------------------------------------------------------------------------------------------------


def report(args: argparse.Namespace, rows: Iterable[Row], tables: Callable[[Sequence[Row]], Iterable[str]]) -> None:
    """Print the tables of rows, each of which is kept as soon as it is made; with `--tables` none is made."""
    found = stored_rows(args) if args.tables else [store_row(args, row) for row in rows]
    print(*tables(found), sep="\n")


def store_row(args: argparse.Namespace, row: Row) -> Row:
    """Write a row into the file of results, in place of one of the same study, arm, seed and settings; return it."""
    lines = [*_read_lines(args.results), {**row, "settings": settings_of(args)}]
    newest = {json.dumps([line.get("study"), line["arm"], line["seed"], line["settings"]]): line for line in lines}
    write_atomic(args.results, "".join(f"{json.dumps(line)}\n" for line in newest.values()))
    return row


def stored_rows(args: argparse.Namespace) -> list[Row]:
    """Return the kept rows of the chosen studies or arms, of the seeds, and of these settings; SystemExit if none is.

    They have the order of the names, then that of the file.
    """
    lines = [line for line in _read_lines(args.results) if line["settings"] == settings_of(args)]
    rows: list[Row] = [
        line for name in args.names for line in lines
        if line.get("study", line["arm"]) == name and line["seed"] in args.seeds
    ]  # fmt: skip
    if not rows:
        raise SystemExit(f"{args.results} has no line of these names, seeds and settings: {settings_of(args)}")
    return rows


def settings_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return what the rows of a benchmark depend on, beside study, arm and seed, as JSON values."""
    return {name: value for name, value in sorted(vars(args).items()) if name not in _NO_SETTINGS}


def _read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.is_file() else []
