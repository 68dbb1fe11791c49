"""Examples of commands, which the help shows last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

EXAMPLES: Mapping[str, Sequence[tuple[str, str]]] = {
    "": [
        ("Check in a minute that everything runs", "agentgym evolve --env shop --preset smoke"),
        ("Train an agent; the folder has a report.html", "agentgym evolve --env shop --out runs/mine"),
        ("Read its episodes in the browser", "agentgym view runs/mine"),
        ("Measure it on held-out tasks", "agentgym eval --env shop --model runs/mine/rounds/03/checkpoint"),
    ],
    "evolve": [
        ("Train with the defaults", "agentgym evolve --env shop"),
        ("Check in a minute that everything runs", "agentgym evolve --env shop --preset smoke"),
        ("Train with another algorithm", "agentgym evolve --env shop --trainer grpo --out runs/grpo"),
        ("Resume after an interruption", "agentgym evolve --resume runs/mine"),
    ],
    "collect": [
        ("Demonstrations of the expert", "agentgym collect --env shop --tasks 500 --out demos.jsonl"),
        (
            "Four attempts of a model per task",
            "agentgym collect --env shop --model runs/mine/rounds/03/checkpoint --attempts 4 --out tries.jsonl",
        ),
    ],
    "judge": [
        ("Corrections by the world's expert", "agentgym judge --source expert --data tries.jsonl --out expert.jsonl"),
        (
            "Scores by a language model",
            "agentgym judge --source llm --source.model NAME --source.base_url URL --data tries.jsonl --out llm.jsonl",
        ),
    ],
    "train": [
        ("Clone an expert", "agentgym train --model tiny --data demos.jsonl --out runs/bc"),
        (
            "Train on preferences between attempts",
            "agentgym train --trainer dpo --model runs/bc/checkpoint --data tries.jsonl --out runs/dpo",
        ),
    ],
    "eval": [
        ("A model on 300 test tasks", "agentgym eval --env shop --model runs/bc/checkpoint --out evals/a"),
        ("Another model on the same tasks", "agentgym eval --manifest evals/a --model tiny --out evals/b"),
        (
            "A model behind an API",
            "agentgym eval --env tools --prompt full --agent openai --base_url http://localhost:8000/v1 --model NAME",
        ),
    ],
    "compare": [("Test which of two agents is better", "agentgym compare evals/a evals/b")],
    "export": [("Export the best round of a run", "agentgym export runs/mine --out runs/shopper")],
    "pipeline": [
        ("Show the stages", "agentgym pipeline examples/pipelines/rlhf.yaml --list"),
        ("Run or resume them", "agentgym pipeline examples/pipelines/rlhf.yaml"),
    ],
    "envs": [("Show a world with an example", "agentgym envs show shop")],
    "envs list": [("List the worlds for a program", "agentgym envs list --json")],
    "envs show": [
        ("Show a world with an example", "agentgym envs show shop"),
        ("Show a world of your own", "agentgym envs show examples/my_world.py"),
    ],
    "trainers": [("Show a trainer with its settings", "agentgym trainers show grpo")],
    "trainers list": [("List the trainers for a program", "agentgym trainers list --json")],
    "trainers show": [("Show a trainer with its settings", "agentgym trainers show grpo")],
    "agents": [("List the agents", "agentgym agents list")],
    "agents list": [("List the agents for a program", "agentgym agents list --json")],
    "plan": [
        (
            "GRPO with adapters on eight GPUs",
            "agentgym plan --model Qwen2.5-7B --gpus 8 --trainer grpo --trainer.lora_rank 16 --dtype bfloat16",
        ),
    ],
    "check": [("Test a world of your own", "agentgym check examples/my_world.py")],
    "play": [("Play one task", "agentgym play shop --task shop/test/medium/17")],
    "replay": [("Replay a store", "agentgym replay demos.jsonl")],
    "data": [
        ("Check every line of a store", "agentgym data verify demos.jsonl"),
        ("Convert a store", "agentgym data convert demos.jsonl demos.parquet"),
    ],
    "data verify": [("Check every line of a store", "agentgym data verify demos.jsonl")],
    "data salvage": [("Copy the intact lines", "agentgym data salvage broken.jsonl intact.jsonl")],
    "data convert": [
        ("To a table of rows", "agentgym data convert demos.jsonl demos.parquet"),
        ("To messages for trl", "agentgym data convert demos.jsonl messages.jsonl --to trl"),
    ],
    "report": [("Write a report again", "agentgym report runs/mine")],
    "view": [
        ("Read a run in the browser", "agentgym view runs/mine"),
        ("Share some episodes as one file", "agentgym view runs/mine/rounds/03/test.jsonl --export test.html"),
    ],
    "serve": [("Serve two worlds", "agentgym serve --env shop --env household")],
    "mcp": [
        ("Let a client start it, one episode each", "agentgym mcp --env tools --record mcp.jsonl"),
        ("Serve many sessions", "agentgym mcp --env tools --transport http --port 8000 --record mcp.jsonl"),
    ],
}
"""What each example does, and the example, by command or subcommand; without a name those of `agentgym` itself."""
