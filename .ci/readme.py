"""Run what the README and the page of commands show: each Python block, and each `agentgym …` line in a small form.

A line that has no small form here fails, so that a new line cannot be forgotten. Run it in an environment with the
extras train, dev and smollm: `python .ci/readme.py`. It works in a temporary folder and leaves nothing behind.
"""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/get-started/commands.md")
LIMIT = 600
"""Seconds that a command may take."""
FEWER_EPISODES = "--explore_tasks 2 --valid_tasks 2 --test_tasks 2 --threads 1 --allow_empty"
SMALL = {
    "evolve --env shop": "--preset smoke --out runs/smoke",
    "evolve --resume runs/…": "",
    "evolve --env shop --out runs/mine": "--preset smoke",
    "evolve --env shop --model smollm2 --trainer.lora_rank 8 --trainer.learning_rate 3e-4 --slots 8 --explore_tasks 50"
    " --expert_tasks 50 --rounds 1 --valid_tasks 20 --test_tasks 20":
        f"{FEWER_EPISODES} --expert_tasks 2 --attempts 1 --max_new_tokens 8 --env_kwargs.difficulty easy"
        " --env_kwargs.max_steps 6",
    "fork runs/mine@0 --set trainer.learning_rate=1e-4 --out runs/slower": "--threads 1",
    "collect --env shop --expert fair --tasks 500 --out demos.jsonl": "--tasks 4",
    "evolve --env shop --trainer grpo":
        f"{FEWER_EPISODES} --rounds 1 --expert_tasks 0 --attempts 2 --env_kwargs.max_steps 2 --max_new_tokens 8"
        " --trainer.group_size 2 --trainer.tasks_per_iteration 2",
    "judge --source expert --data tries.jsonl --out expert.jsonl": "",
    "train --data demos.jsonl --out runs/bc": "--trainer.epochs 1 --threads 1",
    "eval --env shop --model runs/bc/checkpoint --out evals/a": "--tasks 2 --threads 1",
    "compare evals/a evals/b": "",
    "faults evals/a": "",
    "attack --env shop --reward agent": "--tasks 2 --generations 2",
    "credit --env maze --env_kwargs.difficulty easy --agent examples/noisy_expert.py":
        "--tasks 2 --continuations 4 --steps 2",
    "eval --env tools --prompt full --agent openai --base_url http://localhost:8000/v1 --model NAME --out evals/name":
        "--tasks 1 --base_url {server} --env_kwargs.max_steps 2",
    "export runs/mine --out runs/shopper": "",
    "pipeline examples/pipelines/rlhf.yaml --list": "",
    "envs list": "",
    "trainers list": "",
    "agents list": "",
    "plan --model Qwen2.5-7B --gpus 8 --trainer grpo --trainer.lora_rank 16 --dtype bfloat16": "",
    "tools index --out runs/index": "--tasks 20 --epochs 1 --measure_tasks 5 --threads 1",
    "certify examples/my_world.py --episodes 20": "--episodes 4 --memory_episodes 100 --only solvable,gameable",
    "prove grpo": "--only mask,sign",
    "check examples/my_world.py": "",
    "play shop": "",
    "replay demos.jsonl": "",
    "data verify demos.jsonl": "",
    "report runs/mine": "",
    "view runs/mine": "",
    "serve --env shop --env household": "",
    "mcp --env tools --record mcp.jsonl": "",
}  # fmt: skip
"""What each line is run with in addition; a repeated option replaces the first."""
KEYBOARD = {"play shop": ":quit\n"}
SERVERS = ("serve", "view")
"""Commands that run until Ctrl-C."""
FIRST = {
    "compare evals/a evals/b": "eval --env shop --agent random --tasks 2 --out evals/b",
    "judge --source expert --data tries.jsonl --out expert.jsonl":
        "collect --env shop --agent random --tasks 2 --out tries.jsonl",
}  # fmt: skip
"""What a line needs and the pages leave to the reader."""


def commands(text: str) -> list[str]:
    """The `agentgym` lines of code blocks and of inline code, in order, without comments; each once."""
    text = re.sub(r"```python\n.*?```", "", text, flags=re.DOTALL)
    blocks = "".join(re.findall(r"```\n(.*?)```", text, flags=re.DOTALL))
    lines = [part.strip() for line in blocks.splitlines() for part in line.split("#")[0].split("&&")]
    inline = [" ".join(code.split()) for code in re.findall(r"`(agentgym [a-z]+ [^`]+)`", text)]
    found = [line.removeprefix("agentgym ") for line in lines + inline if line.startswith("agentgym ")]
    return list(dict.fromkeys(found))


def run(words: list[str], keyboard: str = "") -> None:
    """Run a command to its end.

    Raises:
        SystemExit: it failed, or took longer than `LIMIT`.
    """
    started = time.monotonic()
    try:
        done = subprocess.run(words, input=keyboard, text=True, capture_output=True, timeout=LIMIT)
    except subprocess.TimeoutExpired as error:
        raise SystemExit(f"{shlex.join(words)}: no end after {LIMIT} s\n{error.stdout}\n{error.stderr}") from error
    if done.returncode:
        raise SystemExit(f"{shlex.join(words)}: exit status {done.returncode}\n{done.stdout}\n{done.stderr}")
    print(f"{time.monotonic() - started:6.1f} s  {shlex.join(words)[:110]}", flush=True)


@contextmanager
def server(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Start a server, and wait until it prints its address; it ends with the block at the latest.

    Raises:
        SystemExit: it ended without printing an address.
    """
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout
        lines = []
        try:
            for line in process.stdout:
                lines.append(line)
                if "http://127.0.0.1" in line:
                    break
            else:
                raise SystemExit(f"{shlex.join(words)}: ended\n{''.join(lines)}")
            yield process
        finally:
            process.kill()


def serve(words: list[str]) -> None:
    """Run a server until it prints its address, then press Ctrl-C.

    Raises:
        SystemExit: it did not end after Ctrl-C as it should.
    """
    with server(words) as process:
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
    if process.returncode not in (0, 130):
        raise SystemExit(f"{shlex.join(words)}: exit status {process.returncode}\n{rest}")
    print(f"          {shlex.join(words)}, until Ctrl-C", flush=True)


def main() -> None:
    """Run everything that the pages show, in their order."""
    text = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
    python = "\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL))
    lines = commands(text)
    if unknown := [line for line in lines if line not in SMALL]:
        raise SystemExit(f"the pages have commands without a small form in {Path(__file__).name}: {unknown}")
    if gone := [line for line in SMALL if line not in lines]:
        raise SystemExit(f"{Path(__file__).name} has commands that are on no page: {gone}")
    from agentgym_py.policy import Policy
    from agentgym_py.testing.model_server import ModelServer, serving

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "examples").symlink_to(ROOT / "examples")
        stack.enter_context(chdir(folder))
        run([sys.executable, "-c", re.sub(r"tasks=\d+", "tasks=4", python)])
        server = stack.enter_context(serving(ModelServer(Policy.load("tiny"))))
        for line in lines:
            for words in filter(None, (FIRST.get(line), f"{line} {SMALL[line]}")):
                command = ["agentgym", *shlex.split(words.format(server=server.url).replace("runs/…", "runs/smoke"))]
                if command[1] in SERVERS:
                    serve(command)
                else:
                    run(command, KEYBOARD.get(line, ""))


if __name__ == "__main__":
    main()
