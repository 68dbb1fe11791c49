"""Write docs/reference/worlds/NAME.md for every installed world: its card, difficulties, rules and a recorded episode.

    python docs/env_pages.py

The figures come from benchmarks/worlds.jsonl. `tests/test_docs.py` compares the pages with the output of this script.
"""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from pathlib import Path

from agentgym_py import registry
from agentgym_py.agents import ExpertAgent
from agentgym_py.collection import Collector, Job, PlayConfig
from agentgym_py.env import EnvSpec, registration

PAGES = Path(__file__).parent / "reference" / "worlds"
FIGURES = Path(__file__).parents[1] / "benchmarks" / "worlds.jsonl"
COLUMNS = ("expert's steps", "expert", "fair expert", "random")
"""The columns of a page: mean length of the expert's plans, and success."""

DIFFERS = {
    "maze": {
        "easy": "3 x 3 rooms, 2 doors beyond a tree, 3 keys and gates, 24 steps",
        "medium": "4 x 4 rooms, 3 doors beyond a tree, 4 keys and gates, 40 steps",
        "hard": "5 x 5 rooms, 4 doors beyond a tree, 4 keys and gates, 64 steps",
    },
    "shop": {
        "easy": "1 attribute, 1 group of options",
        "medium": "2 attributes, 1 or 2 groups of options",
        "hard": "3 attributes, 2 or 3 groups of options",
    },
    "textcraft": {
        "easy": "trees 1 or 2 deep, plans of up to 6, 8 or 9 recipes that do not help, 10 steps",
        "medium": "trees 3 or 4 deep, plans of up to 14, 6 to 9 recipes that do not help, 30 steps",
        "hard": "trees 5 or 6 deep, plans of up to 24, 5 to 10 recipes that do not help, 50 steps",
    },
    "wordle": {
        "easy": "two letters are shown in their places; 6 tries in 10 steps",
        "medium": "nothing is shown; 6 tries in 10 steps",
        "hard": "nothing is shown, a guess must use every hint; 6 tries in 6 steps",
    },
}
"""World to the properties of its difficulties."""

EXACT = {
    "maze": "The expert's plan is a shortest one from every state (the tests compare it with a search over all "
    "actions); `optimal_steps` is exact. The fair expert explores room by room; it is not optimal.",
    "shop": "The expert's plan is shortest among plans that know every product but search only for the request's "
    "words, its options or the title of a suitable product. A plan of 3 steps and one per option is shortest "
    "outright, because each of these clicks is needed. `success` is exact: a purchase must match everything in the "
    "request literally, and any such product counts. The reward is WebShop's, which also pays for near matches. The "
    "fair expert sees only the pages and may miss a product; if no result is left, it follows the exact plan.",
    "textcraft": "The expert's plan is a shortest one from every state, because each thing has one recipe (the "
    "tests compare it with a blind search); `optimal_steps` is exact. With a folder of recipes this holds for the "
    "shown recipes. The fair expert goes through the recipes need by need and takes a raw thing once for each recipe "
    "that uses it, so its plans may be longer.",
    "wordle": "The expert knows the word, so its one step does not show how hard the word is. Compare agents with the "
    "fair expert: its guess has the largest entropy over the possible words (summed in integer millionths of a bit, so "
    "that ties break alike on every machine). It guesses only words that fit all marks; "
    "other words may tell more.",
}
"""World to the exactness of its experts, as far as the card does not state it."""

MORE = {
    "shop": """\
## WebShop's own files

The shop also runs on the files of WebShop.

1. `python -m agentgym_envs.shop.nouns FOLDER` prepares the folder.
2. `--env_kwargs.catalogue FOLDER` uses it.

The nouns are spaCy's, as in WebShop, after `pip install -e ".[nouns]"` and `python -m spacy download en_core_web_sm`.
The model is on no package index. Without it, a rule finds most of the same nouns.
""",
}
"""World to a section that only its page has."""


def page(env_id: str) -> str:
    """Write the page of a world."""
    spec = EnvSpec(env_id)
    env = spec.make()
    trajectory = Collector(ExpertAgent(fair=True), PlayConfig(prompt="none")).collect(Job(spec, 0, "test"))
    lines = [f"# {env_id}", "", card(type(env)), "", *difficulties(env.name)]
    lines += [MORE[env.name]] if env.name in MORE else []
    lines += ["## Rules that open an episode", ""]
    for style in ("full", "brief"):
        lines += [f"`--prompt {style}`:", "", "```", env.rules[style], "```", ""]
    intro = f"An episode of the fair expert, which knows only the observations, in `{trajectory.task_id}`:"
    lines += ["## An episode", "", intro, "", "```"]
    for step in trajectory.steps:
        lines += [step.observation, "", *(f"> {line}" for line in step.reply.split("\n")), ""]
    lines += [trajectory.final_observation, "```", ""]
    lines += [f"Return {trajectory.reward:g}, success: {trajectory.success}.", ""]
    return "\n".join(lines)


def card(world: type) -> str:
    """Return the docstring of a world, with its arguments as a list."""
    text, _, rest = inspect.cleandoc(world.__doc__ or "").partition("\nArgs:\n")
    if not rest:
        return text
    arguments, _, after = rest.partition("\n\n")
    listed = re.sub(r"^ {4}(\w+): ", r"- `\1`: ", arguments, flags=re.MULTILINE)
    return "\n".join([text, "Arguments:", "", re.sub(r"^ {8}", "  ", listed, flags=re.MULTILINE), "", after]).rstrip()


def difficulties(world: str) -> list[str]:
    """Write the section with a row for each measured difficulty; nothing if there is none."""
    rows = measured().get(world, [])
    if not rows:
        return []
    differs = DIFFERS.get(world, {})
    head = ["difficulty", *(["properties"] if differs else []), *COLUMNS]
    lines = ["## Difficulties", "", f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in rows:
        cells = [
            row["difficulty"],
            *([differs[row["difficulty"]]] if differs else []),
            *(row[column] for column in COLUMNS),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "Success on 300 test tasks and the mean length of the expert's plans, from "
        "[the results](../../results/worlds.md#every-world). The random agent of the README and of "
        "[trainers](../../results/trainers.md#learning-in-each-world) draws other actions at the same tasks.",
        "",
    ]
    return [*lines, *textwrap.wrap(EXACT[world], 120), ""] if world in EXACT else lines


def measured() -> dict[str, list[dict[str, str]]]:
    """Read the lines of `benchmarks/worlds.py` as cells, by world."""
    by_world: dict[str, list[dict[str, str]]] = {}
    for line in map(json.loads, FIGURES.read_text(encoding="utf-8").splitlines()):
        rates = {who: f"{100 * solved / line['tasks']:.1f} %" for who, solved in line["solved"].items()}
        row = {"difficulty": line["difficulty"], "expert's steps": f"{line['steps']['expert']:.1f}", **rates}
        by_world.setdefault(line["world"], []).append(row)
    return by_world


if __name__ == "__main__":
    PAGES.mkdir(exist_ok=True)
    for name in registry.names("agentgym.envs"):
        (PAGES / f"{registration.short_name(name)}.md").write_text(page(name), encoding="utf-8")
