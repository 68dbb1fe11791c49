"""What the benchmarks share that run `agentgym evolve`: resumable runs, and studies whose arms start from one agent.

For each seed `agentgym evolve --rounds 0` trains Agent_v0, from which every arm starts. Finished runs stay in `--out`
and are not run again, so the tables of a study can be made in several sessions. With `--results FILE` each row is also
a line of that file, with its options; a new line replaces an older one of the same study, arm and seed.
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
"""The figures of a run, with `study`, `arm` and `seed`."""


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
    parser.add_argument("--results", type=Path, help="a file of JSON lines that keeps the rows as well")
    return parser


def parse(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    """Return the arguments, with the chosen names, and the options for `agentgym evolve`."""
    words = sys.argv[1:] if argv is None else argv
    names = list(takewhile(lambda word: not word.startswith("-"), words))
    args, more = parser.parse_known_args(words[len(names) :])
    if unknown := set(names) - set(args.all_names):
        parser.error(f"no {args.noun} {', '.join(sorted(unknown))}; choose from {', '.join(args.all_names)}")
    args.names = names or args.all_names
    args.options = [*more, "--test_tasks", str(args.tasks)]
    return args, args.options


def study_rows(
    studies: Mapping[str, Study], row: Callable[[str, str, int, RunFolder], Row], args: argparse.Namespace,
    options: Sequence[str],
) -> list[Row]:  # fmt: skip
    """Finish the runs of the chosen studies, and write their rows beside them; `row` makes one of study, arm, seed."""
    rows = [
        row(name, arm, seed, run)
        for name in args.names
        for seed in args.seeds
        for arm, run in studies[name].runs(args.out / name / f"s{seed}", seed, options)
    ]
    save_rows(args, rows)
    return rows


def save_rows(args: argparse.Namespace, rows: Sequence[Row]) -> None:
    """Write the rows beside the runs, and into the file of results if there is one."""
    write_atomic(args.out / "rows.json", json.dumps(rows, indent=1) + "\n")
    if args.results is not None:
        before = args.results.read_text("utf-8").splitlines() if args.results.is_file() else []
        merged = [*map(json.loads, before), *({**row, "options": args.options} for row in rows)]
        newest = {(row.get("study"), row["arm"], row["seed"]): row for row in merged}
        write_atomic(args.results, "".join(f"{json.dumps(row)}\n" for row in newest.values()))
