"""Write docs/envs/NAME.md for every installed world: its card, difficulties, rules, an episode that was really played.

    python docs/env_pages.py

The figures are those of docs/benchmarks.md. `tests/test_docs.py` fails when a page is not what this script would write.
"""

from __future__ import annotations

import inspect
import textwrap
from pathlib import Path

from agentgym_py import registry
from agentgym_py.agents import ExpertAgent
from agentgym_py.collection import Collector, Job, PlayConfig
from agentgym_py.env import EnvSpec, registration

PAGES = Path(__file__).parent / "envs"
FIGURES = Path(__file__).parent / "benchmarks.md"
COLUMNS = ("expert's steps", "expert", "fair expert", "random")
"""Those of the table "Every world" that a page repeats."""

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
        "easy": "trees 1 or 2 deep, plans of up to 6, 8 recipes that do not help, 10 steps",
        "medium": "trees 3 or 4 deep, plans of up to 14, 6 recipes that do not help, 30 steps",
        "hard": "trees 5 or 6 deep, plans of up to 24, 5 recipes that do not help, 50 steps",
    },
    "wordle": {
        "easy": "two letters are shown in their places; 6 tries in 10 steps",
        "medium": "nothing is shown; 6 tries in 10 steps",
        "hard": "nothing is shown, a guess must use every hint; 6 tries in 6 steps",
    },
}
"""What a difficulty is, by world."""

EXACT = {
    "maze": "The expert's plan is a shortest one from every state (the tests compare it with a search over all "
    "actions); `optimal_steps` is exact. The fair expert finds its way room by room and is no optimum of "
    "anything.",
    "shop": "The expert's plan is a shortest one for somebody who knows every product and searches only for words of "
    "the request, its options or a title of a product that fits; where it takes 3 steps and one for each "
    "option it is shortest outright, because each of these clicks is needed. `success` is exact: whatever was "
    "asked for, to the letter, of any product that has it. The reward is WebShop's, which pays for what is "
    "nearly right. The fair expert sees the pages alone and may miss a product.",
    "textcraft": "The expert's plan is a shortest one from every state (each thing has one recipe, so that nothing "
    "is to be chosen; the tests compare it with a blind search); `optimal_steps` is exact. With a folder of recipes "
    "it is so for the recipes that are shown.",
    "wordle": "The expert knows the word, so that its one step says nothing of how hard the word is. The fair expert "
    "is the one to compare with: its guess has the largest entropy over the words that may still be hidden "
    "(summed in whole millionths of a bit, so that ties fall alike on every machine). That is the best next "
    "guess by this measure, not a proof that no strategy needs fewer tries.",
}
"""What of the experts is exact, by world, where the card does not say all of it."""


def page(env_id: str) -> str:
    """The page of one world."""
    spec = EnvSpec(env_id)
    env = spec.make()
    played = Collector(ExpertAgent(fair=True), PlayConfig(prompt="none")).collect(Job(spec, 0, "test"))
    lines = [f"# {env_id}", "", inspect.cleandoc(type(env).__doc__ or ""), "", *difficulties(env.name)]
    lines += ["## Rules that open an episode", ""]
    for style in ("full", "brief"):
        lines += [f"`--prompt {style}`:", "", "```", env.rules[style], "```", ""]
    who = "The fair expert, which knows only what the episode has shown,"
    lines += ["## An episode", "", f"{who} in `{played.task_id}`, as it was played.", "", "```"]
    for step in played.steps:
        lines += [step.observation, "", *(f"> {line}" for line in step.reply.split("\n")), ""]
    lines += [played.final_observation, "```", "", f"Return {played.reward:g}, success: {played.success}.", ""]
    return "\n".join(lines)


def difficulties(world: str) -> list[str]:
    """The section with a row for each difficulty that was measured; nothing where none was."""
    rows = measured().get(world, [])
    if not rows:
        return []
    differs = DIFFERS.get(world, {})
    head = ["difficulty", *(["what it is"] if differs else []), *COLUMNS]
    lines = ["## Difficulties", "", f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in rows:
        cells = [
            row["difficulty"],
            *([differs[row["difficulty"]]] if differs else []),
            *(row[each] for each in COLUMNS),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "Success in 300 test tasks, mean length of the expert's plans: from [the benchmarks](../benchmarks.md).",
        "",
    ]
    return [*lines, *textwrap.wrap(EXACT[world], 120), ""] if world in EXACT else lines


def measured() -> dict[str, list[dict[str, str]]]:
    """The rows of the benchmarks' table "Every world", by world."""
    table = FIGURES.read_text(encoding="utf-8").partition("\n## Every world\n")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")
    ]
    found: dict[str, list[dict[str, str]]] = {}
    for row in rows[2:]:
        found.setdefault(row[0], []).append(dict(zip(rows[0], row, strict=True)))
    return found


if __name__ == "__main__":
    PAGES.mkdir(exist_ok=True)
    for name in registry.names("agentgym.envs"):
        (PAGES / f"{registration.short_name(name)}.md").write_text(page(name), encoding="utf-8")
