"""Run what the docs show, page by page: each command, some in a small form, and each Python block.

A block after a comment `<!-- not run: … -->` needs a GPU, a key or a long time, and is left out. Run it in an
environment with the extras train, dev, smollm and docs: `python .ci/tutorials.py [PAGE ...]`. It works in a temporary
folder and leaves nothing behind. The notebooks run when the site is built: docs/notebook_pages.py.
"""

from __future__ import annotations

import re
import shlex
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager
from pathlib import Path
from typing import NamedTuple

from readme import run, server

ROOT = Path(__file__).parents[1]
PAGES = [
    page for part in ("tutorials", "get-started", "guides", "concepts", "reference")
    for page in sorted((ROOT / "docs" / part).rglob("*.md"))
    if page.stem not in ("cli", "commands") and page.parent.name not in ("api", "worlds")
]  # fmt: skip
"""All pages but those that scripts write and the page of commands, which `readme.py` runs."""
FEW = "--expert_tasks 4 --explore_tasks 4 --valid_tasks 2 --test_tasks 2 --threads 1 --allow_empty"
SMALL = {
    "agentgym mcp --env tools --transport http --port 8000 --record mcp.jsonl": "--port 0",
    "agentgym evolve --env shop --trainer grpo --reward examples/my_reward.py:score --reward_kwargs.step_price 0.05"
    " --rounds 1 --out runs/reward":
        f"{FEW} --expert_tasks 0 --attempts 2 --env_kwargs.max_steps 2 --max_new_tokens 8 --trainer.group_size 2"
        " --trainer.tasks_per_iteration 2",
    "agentgym evolve --env shop --trainer examples/my_reinforce.py:Reinforce --reward success --rounds 1"
    " --out runs/reinforce":
        f"{FEW} --expert_tasks 0 --attempts 2 --env_kwargs.max_steps 2 --max_new_tokens 8 --trainer.group_size 2"
        " --trainer.tasks 2",
    "agentgym evolve --env examples/my_world.py --rounds 1 --out runs/guess": FEW,
    "agentgym collect --env shop --agent expert --expert fair --tasks 200 --out demos.jsonl": "--tasks 4",
    "agentgym eval --env shop --model runs/shortest/checkpoint --tasks 100": "--tasks 2 --threads 1",
    "agentgym collect --env calculator --env_kwargs.difficulty easy --agent expert --expert fair --tasks 16"
    " --out demos.jsonl": "--tasks 2",
    "agentgym train --data demos.jsonl --model smollm2 --trainer.lora_rank 8 --trainer.learning_rate 5e-4"
    " --out runs/adapter": "--trainer.epochs 1 --threads 1",
    "agentgym eval --env calculator --env_kwargs.difficulty easy --env_kwargs.max_steps 4"
    " --model runs/adapter/checkpoint --tasks 4 --out evals/adapter":
        "--tasks 1 --env_kwargs.max_steps 1 --max_new_tokens 8 --threads 1",
    "agentgym collect --env shop --model tiny --tasks 1000 --step_timeout 30 --out played.jsonl":
        "--tasks 2 --threads 1",
    "agentgym collect --env shop --agent expert --expert fair --tasks 300 --out demos.jsonl": "--tasks 4",
}  # fmt: skip
"""What a command is run with in addition; a repeated option replaces the first. All others run as they are shown."""
FIRST = {"agentgym replay demos.jsonl": "agentgym collect --env shop --agent expert --tasks 2 --out demos.jsonl"}
"""What a command needs and its page does not show."""
SERVERS = ("agentgym view", "agentgym mcp --env tools --transport http", "python examples/guess_server.py")
"""Commands that run until they are stopped; they stay up until the end of their page."""


class Block(NamedTuple):
    """A block of code on a page."""

    language: str
    code: str
    runs: bool
    """False after the comment that says why it is not run."""


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page, in order."""
    found = re.finditer(r"^(<!-- not run: [^\n]+ -->\n\n?)?```(\w*)[^\n]*\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return [Block(each[2], each[3], not each[1]) for each in found]


class Step(NamedTuple):
    """What a page runs: a command, or a program of the Python blocks between two commands."""

    code: str
    is_program: bool


def steps(page: str) -> list[Step]:
    """Return what a page runs, in its order: lines of blocks without a language, and Python blocks of no example."""
    examples = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples").rglob("*.py"))]
    found = list[Step]()
    for block in blocks(page):
        if block.runs and not block.language:
            lines = block.code.replace(" \\\n", " ").splitlines()
            found += [Step(" ".join(line.split("  #")[0].split()), False) for line in lines if line.strip()]
        elif block.runs and block.language == "python" and not any(stands_in(block.code, each) for each in examples):
            before = f"{found.pop().code}\n" if found and found[-1].is_program else ""
            found.append(Step(before + block.code, True))
    return found


def commands(page: str) -> list[str]:
    """Return the commands of a page that run, without comments."""
    return [step.code for step in steps(page) if not step.is_program]


def programs(page: str) -> list[str]:
    """Return the programs of a page that run."""
    return [step.code for step in steps(page) if step.is_program]


def stands_in(block: str, source: str) -> bool:
    """Return whether a block is part of a source, whatever its indentation."""
    plain = re.sub(r"\n{3,}", "\n\n", block)  # two lines divide functions
    return any(textwrap.indent(plain, indent) in source for indent in ("", " " * 4, " " * 8))


@contextmanager
def serving(words: list[str]) -> Iterator[None]:
    """Run a server until the end of a page."""
    with server(words) as process:
        yield
        process.terminate()
        process.wait(60)


def run_page(page: Path) -> None:
    """Run the commands and programs of a page in its order; programs with at most four tasks."""
    text = page.read_text(encoding="utf-8")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "examples").symlink_to(ROOT / "examples")
        stack.enter_context(chdir(folder))
        for step in steps(text):
            if step.is_program:
                run([sys.executable, "-c", re.sub(r"\btasks=\d{2,}", "tasks=4", step.code)])
            elif step.code.startswith(SERVERS) and "--export" not in step.code:
                stack.enter_context(serving(words_of(step.code)))
            else:
                if step.code in FIRST:
                    run(words_of(FIRST[step.code]))
                run(words_of(step.code))


def words_of(line: str) -> list[str]:
    """Return the words of a command in its small form."""
    return shlex.split(f"{line} {SMALL.get(line, '')}")


def main(names: list[str]) -> None:
    """Run the pages of these names, or all."""
    if unknown := set(names) - {path.stem for path in PAGES}:
        sys.exit(f"no page {', '.join(sorted(unknown))}")
    for path in PAGES:
        if not names or path.stem in names:
            print(path.relative_to(ROOT), flush=True)
            run_page(path)


if __name__ == "__main__":
    main(sys.argv[1:])
