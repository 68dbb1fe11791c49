"""Write the figures of the README and of docs/results from the lines of the benchmarks: `python docs/figures.py`.

A page marks a block by `<!-- figures: NAME -->` and `<!-- end -->`. A block of results is a printed table, which is
replaced as a whole. In the README's tables only the cells with figures are replaced, so that each language keeps its
own words; so are the numbers between `<!-- minutes -->` and `<!-- end -->`. The tables of docs/results/index.md are
short forms of tables on the other pages of results. The picture of the README is drawn from the same lines, for light
and dark pages; its badges come from pyproject.toml. `tests/test_docs.py` compares all of it with the output of this
script, except the tables of trainers, whose bootstrap takes a minute: `tests/test_benchmarks.py` compares these.
"""

from __future__ import annotations

import importlib.util
import io
import json
import math
import re
import sys
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

from agentgym_py.env import registration
from agentgym_py.env.registration import env_plugins
from agentgym_py.evaluation.stats import Estimate, wilson
from agentgym_py.evaluation.text import format_interval
from agentgym_py.evolution.run_folder import read_estimate

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
RESULTS = ROOT / "docs" / "results"
PAGES = (
    "README.md", "README.zh-CN.md", "docs/index.md", "docs/get-started/first-run.md", "docs/results/trainers.md",
    "docs/results/worlds.md", "docs/results/index.md", "docs/guides/rewards.md",
    "docs/guides/feedback.md", "docs/guides/coreset.md", "docs/results/system.md",
)  # fmt: skip
SEEDS = (0, 1, 2)
BLOCK = re.compile(r"(<!-- figures: ([\w ]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
MINUTES = re.compile(r"(?<=<!-- minutes -->)[^<]*(?=<!-- end -->)")
"""How long the main job takes, in a sentence of any language."""
NOT_MEASURED, NO_BREAK = "–", "\u00a0"
COMPARISONS: Mapping[str, Sequence[str]] = {
    "shop": ["--env", "shop", "--seeds", *"01234"],
    "household": ["--env", "household", "--seeds", *"012"],
    "more": ["kto", "orpo", "ranking", "reverse_curriculum", "--env", "household", "--seeds", *"01"],
    "weak": ["grpo", "ppo", "r3", "reverse_curriculum", "--env", "household-weak", "--seeds", "0"],
    "ablation_shop": ["ppo", "r3", "r3:frozen", "--env", "shop", "--seeds", *"01234"],
    "ablation_household": ["ppo", "r3", "r3:frozen", "--env", "household", "--seeds", *"012"],
}
"""Comparisons of trainers, with the options of `benchmarks/trainers.py`."""
PARTS = ("gains", "tenths", "pairs")
"""The tables that a comparison has; a page shows some of them."""
STUDIES: Mapping[str, Sequence[str]] = {
    "rewards": ["parts", "shaping", "length"], "feedback": ["agreement"], "coreset": [],
}  # fmt: skip
"""Benchmarks with kept rows, and the studies in their tables; a block such as `study rewards 1` has the first table."""
KEPT: Mapping[str, Sequence[str]] = {
    "certificate planted": ["certificate"], "certificate clean": ["certificate", "--clean"],
    "prove planted": ["prove"], "prove clean": ["prove", "--clean"],
}  # fmt: skip
"""Benchmarks of instruments with kept rows; a block such as `certificate clean 1` has the first table."""

Line = Mapping[str, Any]


def script(path: Path) -> Any:
    """Import a script that is in no package; it imports others of its folder."""
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(f"figures_{path.stem}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@cache
def learning() -> Any:
    """Import `benchmarks/learning.py`."""
    return script(BENCHMARKS / "learning.py")


@cache
def worlds() -> Any:
    """Import `benchmarks/worlds.py`."""
    return script(BENCHMARKS / "worlds.py")


def main_job(lines: Sequence[Line]) -> list[Line]:
    """Select the runs in the shop, one per seed.

    Raises:
        SystemExit: a seed is missing, for example because the base is new.
    """
    runs = {line["seed"]: line for line in lines if line["env"] == "shop" and not line.get("former")}
    if missing := [seed for seed in SEEDS if seed not in runs]:
        raise SystemExit(f"no run of seed {missing[0]} from the shipped base: python benchmarks/learning.py --env shop")
    return [runs[seed] for seed in SEEDS]


# ---- blocks ---------------------------------------------------------------------------------------------------------


def filled(text: str, lines: Sequence[Line], comparisons: Collection[str] = ()) -> str:
    """Return a page with the figures of today in its blocks; of trainers only in those of `comparisons`."""

    def content(found: re.Match[str]) -> str:
        keep = found[2].startswith("trainers ") and found[2].split()[1] not in comparisons
        return found[0] if keep else found[1] + block(found[2], found[3], lines) + found[4]

    return MINUTES.sub(lambda found: with_minutes(found[0], lines), BLOCK.sub(content, text))


def with_minutes(words: str, lines: Sequence[Line]) -> str:
    """Put the minutes of the fastest and of the slowest main job into a text with two numbers."""
    seconds = [run["seconds"] for run in main_job(lines)]
    minutes = iter([math.floor(min(seconds) / 60 + 0.5), math.ceil(max(seconds) / 60)])
    return re.sub(r"\d+", lambda _: str(next(minutes)), words)


def block(name: str, before: str, lines: Sequence[Line]) -> str:
    """Return the content of a block."""
    if name.startswith("trainers"):
        _, comparison, part = name.split()
        return f"\n{trainer_tables(comparison)[PARTS.index(part)]}\n\n"
    if name.startswith("study"):
        _, study, number = name.split()
        return f"\n{study_tables(study)[int(number) - 1]}\n\n"
    if name == "settings of trainers":
        return f"\n{trainer_settings()}\n\n"
    if (kept := name.rpartition(" "))[0] in KEPT:
        return f"\n{kept_tables(kept[0])[int(kept[2]) - 1]}\n\n"
    if name == "main job":
        return replace_cells(before, result_cells(main_job(lines)), by_place)
    if name == "worlds":
        return replace_cells(before, world_cells(lines), world_of)
    if name == "every world":
        return f"\n{worlds().table(worlds().read())}\n\n"
    if name in SHORT_FORMS:
        return f"\n{SHORT_FORMS[name]()}\n\n"
    table_number = ("learning runs", "learning others", "learning rounds", "learning agents").index(name)
    table: str = learning().tables(lines)[table_number]
    return f"\n{table}\n\n"


@cache
def trainer_tables(comparison: str) -> list[str]:
    """Return the tables of a comparison of trainers."""
    return printed_tables("trainers", COMPARISONS[comparison])


def trainer_settings() -> str:
    """Return the options of each trainer in the comparisons, beside its defaults."""
    trainers = script(BENCHMARKS / "trainers.py")
    shown = {*trainers.TRAINERS, *(word for words in COMPARISONS.values() for word in words)}
    rows = [
        [f"`{name}`", f"`{' '.join(trainers.settings_of('shop', name, []))}`"]
        for name in trainers.SETTINGS if name in shown
    ]  # fmt: skip
    return markdown(("trainer", "options"), "ll", rows)


@cache
def study_tables(name: str) -> list[str]:
    """Return the tables of a benchmark's kept rows."""
    return printed_tables(name, [*STUDIES[name], "--results", str(BENCHMARKS / f"{name}.jsonl")])


@cache
def kept_tables(name: str) -> list[str]:
    """Return the tables of an instrument's kept rows, and the sentence that counts them."""
    benchmark, *words = KEPT[name]
    return printed_tables(benchmark, words)


def printed_tables(benchmark: str, words: Sequence[str]) -> list[str]:
    """Return what a benchmark prints of rows that it has kept."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        script(BENCHMARKS / f"{benchmark}.py").main([*words, "--tables"])
    return printed.getvalue().strip().split("\n\n")


def replace_cells(table: str, figures: Mapping[str, Sequence[str]], key: Callable[[int, str], str]) -> str:
    """Put figures into the last cells of each row of a table."""
    rows = table.splitlines()
    first = next(i for i, row in enumerate(rows) if row.startswith("|---")) + 1
    for i, row in enumerate(rows[first:], first):
        if row.startswith("|"):
            cells = row.strip("|").split("|")
            new = figures[key(i - first, row)]
            rows[i] = f"|{'|'.join([*cells[: -len(new)], *(f' {cell} ' for cell in new)])}|"
    return "\n".join([*rows, ""])


def by_place(number: int, row: str) -> str:
    """Return the number of a row as its key."""
    return str(number)


def world_of(number: int, row: str) -> str:
    """Return the world whose page a row links."""
    return str(re.findall(r"worlds/(\w+)\.md", row)[0])


def result_cells(runs: Sequence[Line]) -> dict[str, list[str]]:
    """Return the success on test tasks of four agents, a cell per seed."""
    random = interval(runs[0]["references"]["random"])
    return {
        "0": [random, *[""] * (len(runs) - 1)],
        "1": [interval(run["first"]) for run in runs],
        "2": [interval(run["more_epochs"]) for run in runs],
        "3": [f"**{interval(run['last'])}**" for run in runs],
    }


def interval(row: Mapping[str, Any]) -> str:
    """Format the success of an evaluation."""
    return format_interval(read_estimate(row["success"]))


def world_cells(lines: Sequence[Line]) -> dict[str, list[str]]:
    """Return a world's cells: random actions, the base, demonstrations, the trained agent, the fair expert."""
    measured = world_rows()
    cells = {}
    for plugin in env_plugins():
        world = registration.short_name(plugin.name)
        difficulty, agents = trained_agents(world, lines)
        row = {**measured.get((world, difficulty), {}), **measured_beside(world, lines)}
        random, base, expert = (row.get(name, NOT_MEASURED) for name in ("random", "base", "fair expert"))
        cells[world] = [random, base, *agents, expert]
    return cells


def measured_beside(world: str, lines: Sequence[Line]) -> dict[str, str]:
    """Return the success of the agents that `benchmarks/learning.py` measured beside its runs."""
    return {
        name: percent(row["success"]["value"], 1) + " †" * (name == "base" and bool(line.get("former")))
        for line in lines if line["env"] == world
        for name, row in line["references"].items()
    }  # fmt: skip


def trained_agents(world: str, lines: Sequence[Line]) -> tuple[str, list[str]]:
    """Return the difficulty and the success before and after training with seed 0.

    The run of `agentgym evolve` comes first, then the run of `filtered_bc` in the comparison of trainers.
    """
    for line in lines:
        if line["env"] == world and line["seed"] == SEEDS[0]:
            mark = " †" * bool(line.get("former"))
            return line["difficulty"], [interval(line[name]) + mark for name in ("first", "last")]
    for line in trainer_lines(world):
        if (line["trainer"], line["seed"]) == ("filtered_bc", SEEDS[0]):
            agents = [wilson(sum(line[name]), len(line[name])) for name in ("before", "after")]
            return "medium", [format_interval(agent) for agent in agents]
    return "medium", [NOT_MEASURED] * 2


def trainer_lines(world: str) -> list[Line]:
    """Read the lines of the comparison of trainers that come from the shipped base."""
    path = BENCHMARKS / f"trainers.{world}.jsonl"
    lines = [json.loads(text) for text in path.read_text("utf-8").splitlines()] if path.is_file() else []
    base = learning().shipped_base()
    return [line for line in lines if line.get("base") == base]


def world_rows() -> dict[tuple[str, str], Mapping[str, str]]:
    """Return the figures of the pages of worlds, by world and difficulty."""
    by_world = script(ROOT / "docs" / "env_pages.py").measured()
    return {(world, row["difficulty"]): row for world, rows in by_world.items() for row in rows}


# ---- docs/results/index.md ------------------------------------------------------------------------------------------


def rows_below(page: str, place: str) -> list[dict[str, str]]:
    """Read the first table below a heading or marker of a page of results: a row's cells by column.

    Of two columns with one name it is the first.

    Raises:
        ValueError: the page has no such place, or no table below it.
    """
    text = (RESULTS / page).read_text(encoding="utf-8")
    table = re.search(r"^\|.*\n\|[-:| ]+\n((?:\|.*\n)+)", text[text.index(f"{place}\n") :], re.MULTILINE)
    if table is None:
        raise ValueError(f"{page} has no table below {place!r}")
    names, _, *rows = [[cell.strip() for cell in row[1:].split("|")] for row in table[0].splitlines()]
    return [dict(reversed(list(zip(names, row, strict=True)))) for row in rows]


def markdown(columns: Sequence[str], align: str, rows: Iterable[Sequence[str]]) -> str:
    """Format a table; `align` has a letter per column, l or r."""
    rules = ["--:" if letter == "r" else "---" for letter in align]
    return "\n".join(f"| {' | '.join(row)} |" for row in (columns, rules, *rows))


def beside_peers() -> str:
    """Return our worlds and those of other packages: speed, and success of ours. Games of a peer share a row."""
    medium = {line["world"]: line for line in worlds().read() if line["difficulty"] == "medium"}
    peers, ours = dict[str, list[dict[str, str]]](), list[list[str]]()
    for row in rows_below("worlds.md", "## Beside other packages"):
        if not row["package"].startswith("agentgym-py"):
            peers.setdefault(row["package"], []).append(row)
        elif row["steps/s"]:
            line = medium.get(registration.short_name(row["world"])) if row["world"].endswith("-v0") else None
            ours.append([row["package"], row["world"], row["steps/s"], row["resets/s"], *success_cells(line)])
    rows = [[package, *together(games), *success_cells(None)] for package, games in peers.items()]
    names = ("package", "world", "steps/s", "resets/s", "random [95 %]", "fair expert [95 %]")
    return markdown(names, "llrrrr", [[row[0].replace(" ", NO_BREAK), *row[1:]] for row in (*ours, *rows)])


def success_cells(line: Line | None) -> list[str]:
    """Return the success of random actions and of the fair expert in a world."""
    if line is None:
        return [NOT_MEASURED] * 2
    return [format_interval(wilson(line["solved"][who], line["tasks"])) for who in ("random", "fair expert")]


def together(games: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the names of some games, and their smallest and largest speeds."""
    cells = [f"{len(games)} games" if len(games) > 2 else "; ".join(game["world"] for game in games)]
    for column in ("steps/s", "resets/s"):
        ordered = sorted((game[column] for game in games), key=lambda cell: float(cell.replace(",", "")))
        cells.append(" to ".join(dict.fromkeys((ordered[0], ordered[-1]))))
    return cells


def beside_trainers() -> str:
    """Return the gain of each trainer in each world, in points, with its cost."""
    found = {name: rows_below("trainers.md", f"<!-- figures: trainers {name} gains -->")
             for name in ("shop", "household", "more")}  # fmt: skip
    shop, home = ({row["trainer"]: row for row in rows} for rows in (found["shop"], found["household"] + found["more"]))
    names = ["trainer"]
    names += [f"{world}: {column}" for world in ("shop", "household") for column in ("gain [95 %]", "seeds", "seconds")]
    rows = [[f"`{name}`", *gain_cells(shop.get(name)), *gain_cells(home.get(name))] for name in shop | home]
    return markdown(names, "lrrrrrr", rows)


def gain_cells(row: Mapping[str, str] | None) -> list[str]:
    """Return the gain in points, the number of seeds, and the CPU seconds of a row of gains."""
    if row is None:
        return [NOT_MEASURED] * 3
    value, low, high = (100 * float(number) for number in re.findall(r"-?\d\.\d+", row["improvement (IQM) [95 %]"]))
    return [f"{value:+.1f} [{low:.0f}, {high:.0f}]", str(len(row["seeds"].split())), row["CPU seconds"]]


def beside_engines() -> str:
    """Return seconds of this engine beside transformers, and of this project's GRPO beside trl's."""
    others = {"generate on the history": "`generate`", "continuous batching": "continuous batching of transformers"}
    rows, played = list[list[str]](), rows_below("system.md", "## The engine beside transformers")
    ours = {(row["model"], row["episodes"]): row["seconds"] for row in played if row["engine"] == "HFEngine"}
    for row in played:
        if row["engine"] in others:
            what = f"{row['episodes']} episodes, beside {others[row['engine']]}"
            times = [ours[row["model"], row["episodes"]], row["seconds"]]
            rows.append([what, row["model"], *times, row["ratio to HFEngine"].strip("*")])
    for row in rows_below("system.md", "## GRPO beside trl"):
        ratio = row["trl / ours"].replace("**", "").replace("(", "[").replace(")", "]").replace(" to ", ", ")
        what = f"a step of GRPO beside trl, beta {row['beta']}"
        rows.append([what, row["model"], row["s a step, ours"], row["trl"], ratio])
    return markdown(("what", "model", "seconds, ours", "theirs", "theirs / ours [range]"), "llrrr", rows)


SHORT_FORMS: Mapping[str, Callable[[], str]] = {
    "beside peers": beside_peers, "beside trainers": beside_trainers, "beside engines": beside_engines,
}  # fmt: skip
"""The tables of docs/results/index.md, by their names in its markers."""


# ---- the picture ----------------------------------------------------------------------------------------------------

PICTURES = {mode: ROOT / "docs" / "assets" / f"learning-{mode}.svg" for mode in ("light", "dark")}
COLOURS = {
    "light": {"text": "#1c2127", "soft": "#5b6673", "line": "#d9dee4", "curve": "#1f6feb"},
    "dark": {"text": "#e4e8ed", "soft": "#9aa5b1", "line": "#343b44", "curve": "#6cb0ff"},
}
"""Those of the report."""
WIDTH, HEIGHT = 760, 330
LEFT, RIGHT, TOP, BOTTOM = 60, 650, 70, 290
"""The edges of the plot; labels stand to its right."""


def picture(runs: Sequence[Line], mode: str) -> str:
    """Draw the success on valid tasks by round: the first seed with its interval, the others as thin lines."""
    colours, curves = COLOURS[mode], [valid(run) for run in runs]
    if len({len(curve) for curve in curves}) > 1:
        raise SystemExit("the runs have different numbers of rounds: finish them, then draw the picture")
    rounds = len(curves[0]) - 1
    points = [[place(i, rounds, estimate.value) for i, estimate in enumerate(curve)] for curve in curves]
    band = [place(i, rounds, estimate.high) for i, estimate in enumerate(curves[0])]
    band += [place(i, rounds, estimate.low) for i, estimate in reversed(list(enumerate(curves[0])))]
    title = f"{first_demonstrations(runs)} demonstrations, then {rounds} rounds of AgentEvol"
    band_name = f"the band is the 95 % interval of seed {SEEDS[0]}"
    names = ["demonstrations", *(f"round {i}" for i in range(1, rounds + 1))]
    parts = [
        write(16, 26, title, colours["text"], size=17, bold=True),
        write(16, 46, f"success on {curves[0][0].n} valid tasks of the shop; {band_name}", colours["soft"]),
        *grid(colours),
        *(write(place(i, rounds, 0)[0], BOTTOM + 24, name, colours["soft"], "middle") for i, name in enumerate(names)),
        f'<polygon points="{coordinates(band)}" fill="{colours["curve"]}" opacity="0.2"/>',
        *(polyline(curve, colours["curve"], 1.5, 0.6) for curve in points[1:]),
        polyline(points[0], colours["curve"], 3),
        *(f'<circle cx="{x}" cy="{y}" r="4.5" fill="{colours["curve"]}"/>' for x, y in points[0]),
        *labels([curve[-1] for curve in curves], colours),
    ]
    first, last = (percent(curves[0][i].value) for i in (0, -1))
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" font-family="-apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="14">\n'
        f"<title>{title}: success rises from {first} to {last} with seed {SEEDS[0]}.</title>\n{body}\n</svg>\n"
    )


def first_demonstrations(runs: Sequence[Line]) -> int:
    """Return the number of demonstrations."""
    return int(runs[0]["rounds"][0]["explored"]["n"])


def valid(run: Line) -> list[Estimate]:
    """Return the success on valid tasks by round."""
    return [read_estimate(row["valid"]) for row in run["rounds"]]


def place(number: int, rounds: int, rate: float) -> tuple[float, float]:
    """Return the point of a rate after a round."""
    return round(LEFT + 30 + number * (RIGHT - LEFT - 60) / max(rounds, 1), 1), round(BOTTOM - rate * (BOTTOM - TOP), 1)


def grid(colours: Mapping[str, str]) -> list[str]:
    """Draw the horizontal lines with their percentages."""
    parts = []
    for percentage in (0, 25, 50, 75, 100):
        y = place(0, 1, percentage / 100)[1]
        parts.append(f'<path d="M{LEFT} {y}H{RIGHT}" stroke="{colours["line"]}"/>')
        parts.append(write(LEFT - 8, y + 5, f"{percentage} %", colours["soft"], "end"))
    return parts


def labels(ends: Sequence[Estimate], colours: Mapping[str, str]) -> list[str]:
    """Name the curves at their right ends, from top to bottom, at least a line apart."""
    parts, lowest = list[str](), 0.0
    for seed, end in sorted(zip(SEEDS, ends, strict=True), key=lambda item: -item[1].value):
        y = lowest = max(place(0, 1, end.value)[1] + 5, lowest + 19)
        is_first = seed == SEEDS[0]
        name = f"{percent(end.value)} seed {seed}"
        parts.append(write(RIGHT + 10, y, name, colours["curve" if is_first else "soft"], bold=is_first))
    return parts


def polyline(points: Sequence[tuple[float, float]], colour: str, width: float, opacity: float = 1) -> str:
    """Draw a line through points."""
    style = f'stroke="{colour}" stroke-width="{width}" opacity="{opacity}" stroke-linejoin="round"'
    return f'<polyline points="{coordinates(points)}" fill="none" {style}/>'


def coordinates(points: Sequence[tuple[float, float]]) -> str:
    """Format points."""
    return " ".join(f"{x},{y}" for x, y in points)


def write(
    x: float, y: float, content: str, colour: str, anchor: str = "start", size: int = 14, bold: bool = False
) -> str:
    """Write a line of text."""
    style = f'fill="{colour}" text-anchor="{anchor}" font-size="{size}"' + ' font-weight="600"' * bold
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{content}</text>'


def percent(rate: float, digits: int = 0) -> str:
    """Format a rate."""
    return f"{100 * rate:.{digits}f} %"


# ---- badges ---------------------------------------------------------------------------------------------------------

ASSETS = ROOT / "docs" / "assets"


def badges() -> dict[Path, str]:
    """Draw the badges of the README: licence and Python version, as pyproject.toml has them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    python = project["requires-python"].removeprefix(">=")
    values = {"licence": project["license"], "python": f"{python} or newer"}
    return {ASSETS / f"{name}.svg": badge(name, value) for name, value in values.items()}


def badge(name: str, value: str) -> str:
    """Draw a badge: a name on grey, its value on blue."""
    left, right = (8 * len(text) + 12 for text in (name, value))
    texts = ((name, left / 2), (value, left + right / 2))
    parts = [
        f'<rect width="{left + right}" height="20" rx="3" fill="#1a5fc4"/>',
        f'<path d="M3 0H{left}V20H3A3 3 0 0 1 0 17V3A3 3 0 0 1 3 0Z" fill="#50565e"/>',
        *(write(x, 14, text, "#ffffff", "middle", size=12) for text, x in texts),
    ]
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" '
        f'font-family="-apple-system, Segoe UI, Helvetica, Arial, sans-serif">\n<title>{name}: {value}</title>\n'
        f"{body}\n</svg>\n"
    )


def written(comparisons: Collection[str] = ()) -> dict[Path, str]:
    """Return everything that this script writes; tables of trainers stay as they are but for `comparisons`.

    Short forms come from the pages as they are stored.
    """
    lines = learning().read()
    pages = {ROOT / name: filled((ROOT / name).read_text(encoding="utf-8"), lines, comparisons) for name in PAGES}
    return pages | {path: picture(main_job(lines), mode) for mode, path in PICTURES.items()} | badges()


if __name__ == "__main__":
    for step in (COMPARISONS, ()):  # short forms follow the tables that the first step has written
        for path, content in written(step).items():
            path.write_text(content, encoding="utf-8")
