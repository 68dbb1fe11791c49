"""Write docs/envs/NAME.md for every installed world: its card, its rules, and an episode that was really played.

    python docs/env_pages.py

`tests/test_docs.py` fails when a page is not what this script would write.
"""

from __future__ import annotations

import inspect
from pathlib import Path

from agentgym_py import registry
from agentgym_py.agents import ExpertAgent
from agentgym_py.collect import Collector, EnvSpec, Job

PAGES = Path(__file__).parent / "envs"
BENCHMARKS = Path(__file__).parent / "benchmarks.md"
_SHOWN = ("difficulty", "expert", "fair expert", "random", "expert's steps")


def difficulties(name: str) -> list[str]:
    """The rows of a world in the table of every world: who succeeds in each difficulty."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in BENCHMARKS.read_text("utf-8").splitlines()]
    head = next(row for row in rows if row[:2] == ["world", "difficulty"])
    shown = [dict(zip(head, row, strict=True)) for row in rows if row[:1] == [name] and len(row) == len(head)]
    if not shown:
        return []
    table = [_SHOWN, ["---"] * len(_SHOWN), *([row[key] for key in _SHOWN] for row in shown)]
    told = (
        "Success on 300 test tasks, and the mean number of the exact expert's steps ([every world](../benchmarks.md)):"
    )
    return ["## Difficulties", "", told, "", *(f"| {' | '.join(cells)} |" for cells in table), ""]


def page(env_id: str) -> str:
    """The page of one world."""
    spec = EnvSpec(env_id)
    env = spec.make()
    played = Collector(ExpertAgent(), prompt="none").collect(Job(spec, 0, "test"))
    lines = [f"# {env_id}", "", inspect.cleandoc(type(env).__doc__ or ""), ""]
    lines += [*difficulties(registry.short_name(env_id)), "## Rules that open an episode", ""]
    for style in ("full", "brief"):
        lines += [f"`--prompt {style}`:", "", "```", env.rules[style], "```", ""]
    lines += ["## An episode", "", f"The expert in `{played.task_id}`, as it was played.", "", "```"]
    for step in played.steps:
        lines += [step.observation, "", *(f"> {line}" for line in step.reply.split("\n")), ""]
    lines += [played.final_observation, "```", "", f"Return {played.reward:g}, success: {played.success}.", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGES.mkdir(exist_ok=True)
    for name in registry.names("agentgym.envs"):
        (PAGES / f"{registry.short_name(name)}.md").write_text(page(name), encoding="utf-8")
