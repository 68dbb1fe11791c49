"""Examples of commands, for the help, docs/reference/cli.md and docs/get-started/commands.md.

`python docs/cli_help.py` writes the pages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Example(NamedTuple):
    """A command line, and what it does."""

    what: str
    line: str


IN_HELP = 4
"""Examples that `--help` shows of a command; `--help-all` and the page show all."""
EXAMPLES: Mapping[str, Sequence[Example]] = {
    "": [
        Example("Check in a minute that everything runs", "agentgym evolve --env shop --preset smoke"),
        Example("Train an agent; the folder has a report.html", "agentgym evolve --env shop --out runs/mine"),
        Example("Read its episodes in the browser", "agentgym view runs/mine"),
        Example("Measure it on held-out tasks", "agentgym eval --env shop --model runs/mine/rounds/03/checkpoint"),
    ],
    "evolve": [
        Example("Train with the defaults", "agentgym evolve --env shop --out runs/mine"),
        Example("Check in a minute that everything runs", "agentgym evolve --env shop --preset smoke"),
        Example("Train with another algorithm", "agentgym evolve --env shop --trainer grpo --out runs/grpo"),
        Example("Resume after an interruption", "agentgym evolve --resume runs/mine"),
        Example(
            "Choose rounds, seed and learning rate",
            "agentgym evolve --env shop --rounds 5 --seed 1 --trainer.learning_rate 5e-4 --out runs/five",
        ),
    ],
    "fork": [
        Example(
            "Train the same Agent_v0 with another learning rate",
            "agentgym fork runs/mine@0 --set trainer.learning_rate=1e-4 --out runs/slower",
        ),
        Example("Share the rounds 0 to 2", "agentgym fork runs/mine@2 --set select.threshold=0.5 --out runs/lower"),
        Example("Repeat round 3 to see that it is the same", "agentgym fork runs/mine@2 --out runs/same"),
        Example(
            "Train the same Agent_v0 with another algorithm", "agentgym fork runs/mine@0 --set trainer=dpo,attempts=4"
        ),
    ],
    "collect": [
        Example(
            "Collect demonstrations of the fair expert",
            "agentgym collect --env shop --expert fair --tasks 500 --out demos.jsonl",
        ),
        Example(
            "Attempt each task four times with a model",
            "agentgym collect --env shop --model runs/mine/rounds/03/checkpoint --attempts 4 --out tries.jsonl",
        ),
        Example(
            "Sample at three temperatures",
            "agentgym collect --env shop --model tiny --temperature 0.7,1.0,1.3 --out diverse.jsonl",
        ),
    ],
    "judge": [
        Example(
            "Correct by the world's expert", "agentgym judge --source expert --data tries.jsonl --out expert.jsonl"
        ),
        Example(
            "Score by a language model",
            "agentgym judge --source llm --source.model NAME --source.base_url URL --data tries.jsonl --out llm.jsonl",
        ),
    ],
    "train": [
        Example("Clone an expert", "agentgym train --data demos.jsonl --out runs/bc"),
        Example(
            "Train on preferences between attempts",
            "agentgym train --trainer dpo --model runs/bc/checkpoint --data tries.jsonl --out runs/dpo",
        ),
        Example(
            "Mix files, and choose a setting of the trainer",
            "agentgym train --data demos.jsonl --data agenttraj.json --trainer.epochs 4 --out runs/mixed",
        ),
    ],
    "eval": [
        Example("Measure a model on test tasks", "agentgym eval --env shop --model runs/bc/checkpoint --out evals/a"),
        Example("Measure another on the same tasks", "agentgym eval --manifest evals/a --model tiny --out evals/b"),
        Example(
            "Measure a model behind an API",
            "agentgym eval --env tools --prompt full --agent openai --base_url http://localhost:8000/v1 --model NAME",
        ),
        Example("Play yourself", "agentgym eval --env maze --tasks 10 --agent person --out evals/me"),
        Example(
            "Stop when it is decided which of two is better",
            "agentgym eval --env shop --model tiny --until_decided evals/a --out evals/b",
        ),
        Example("Repeat an evaluation", "agentgym eval --manifest evals/a --out evals/again"),
        Example(
            "Sample four attempts per task, in two worlds",
            "agentgym eval --env shop --env household --model runs/bc/checkpoint --attempts 4 --temperature 0.7",
        ),
        Example(
            "Measure random actions, for a program",
            "agentgym eval --env shop --agent random --split valid --tasks 100 --json",
        ),
    ],
    "compare": [
        Example("Test which of two agents is better", "agentgym compare evals/a evals/b"),
        Example("Write the table of a paper", "agentgym compare evals/a evals/b evals/c --latex"),
        Example("Look at any time while tasks are added", "agentgym compare evals/a evals/b --anytime"),
        Example("Compare logs of Inspect", "agentgym compare logs/a.eval logs/b.eval"),
        Example(
            "Compare two algorithms, by the runs of each",
            "agentgym compare evals/ppo-1,evals/ppo-2,evals/ppo-3 evals/bc-1,evals/bc-2,evals/bc-3",
        ),
    ],
    "faults": [
        Example("Find the step that lost each episode of an evaluation", "agentgym faults evals/a"),
        Example("Do not call exploration a fault", "agentgym faults evals/a --by fair"),
        Example(
            "Ask the model itself, by forks", "agentgym faults evals/a --by forks --model runs/bc/checkpoint --first 20"
        ),
    ],
    "attack": [
        Example("See what the composite reward overrates in the shop", "agentgym attack --env shop --reward agent"),
        Example(
            "Attack a reward model by an agent, and keep what it likes best",
            "agentgym attack --env shop --reward_model runs/rm/reward_model --model runs/a/checkpoint --out best.jsonl",
        ),
    ],
    "credit": [
        Example(
            "Rank advantage estimators for an agent whose advantages can be enumerated",
            "agentgym credit --env maze --env_kwargs.difficulty easy --agent examples/noisy_expert.py",
        ),
        Example(
            "Rank some for a model, by forks", "agentgym credit --env shop --model tiny --estimators grpo,gae,tree,r3"
        ),
        Example(
            "Measure an estimator of your own",
            "agentgym credit --env maze --agent random --estimators grpo,examples/my_credit.py:hindsight",
        ),
    ],
    "export": [
        Example("Export the best round of a run", "agentgym export runs/mine --out runs/shopper"),
        Example("Export another round", "agentgym export runs/mine --round 2 --out runs/second"),
        Example(
            "Merge adapters, and write a GGUF file", "agentgym export adapters --base smollm2 --out runs/merged --gguf"
        ),
    ],
    "pipeline": [
        Example("Show the stages of a pipeline", "agentgym pipeline examples/pipelines/rlhf.yaml --list"),
        Example("Run or resume them", "agentgym pipeline examples/pipelines/rlhf.yaml"),
    ],
    "envs list": [
        Example("List the worlds", "agentgym envs list"),
        Example("List them for a program", "agentgym envs list --json"),
    ],
    "envs show": [
        Example("Show a world with an example", "agentgym envs show shop"),
        Example("Show a world of your own", "agentgym envs show examples/my_world.py"),
    ],
    "trainers list": [
        Example("List the trainers", "agentgym trainers list"),
        Example("List them for a program", "agentgym trainers list --json"),
    ],
    "trainers show": [
        Example("Show a trainer with its settings", "agentgym trainers show grpo"),
        Example("Show a trainer of your own", "agentgym trainers show my_trainer.py:MyTrainer"),
    ],
    "agents list": [
        Example("List the agents", "agentgym agents list"),
        Example("List them for a program", "agentgym agents list --json"),
    ],
    "plan": [
        Example(
            "Plan GRPO with adapters on eight GPUs",
            "agentgym plan --model Qwen2.5-7B --gpus 8 --trainer grpo --trainer.lora_rank 16 --dtype bfloat16",
        ),
        Example(
            "Plan for a checkpoint and a smaller GPU",
            "agentgym plan --model runs/mine/rounds/01/checkpoint --gpu_memory_gib 24 --max_context 2048",
        ),
        Example("Show a table of common models", "agentgym plan --table"),
    ],
    "tools index": [
        Example("Train an index of the thousand tools", "agentgym tools index --out runs/index"),
    ],
    "tools search": [
        Example("Search an index", "agentgym tools search 'how warm it was in a city' --index runs/index"),
    ],
    "prove": [
        Example("Prove an installed trainer", "agentgym prove grpo"),
        Example("Prove a trainer of your own", "agentgym prove examples/plugin/odd_coin/trainer.py:Shortest"),
        Example("Ask two things, with other settings", "agentgym prove ppo --only ratio,truncation --trainer.clip 0.1"),
    ],
    "certify": [
        Example("Certify a world of your own", "agentgym certify examples/my_world.py --episodes 20"),
        Example("Ask two things of an installed world", "agentgym certify maze --only learnable,gameable"),
        Example("Certify all worlds of a package, for a program", "agentgym certify agentgym-py --json"),
    ],
    "check": [
        Example("Test a world of your own", "agentgym check examples/my_world.py"),
        Example("Test an installed world", "agentgym check shop"),
        Example("Play more episodes, from another seed", "agentgym check shop --seed 7 --episodes 500"),
        Example(
            "Run two checks, for a program",
            "agentgym check shop --env_kwargs.difficulty hard --only expert,random_baseline --json",
        ),
    ],
    "play": [
        Example("Play a task of the shop", "agentgym play shop"),
        Example("Play a certain task", "agentgym play shop --task shop/test/medium/17"),
    ],
    "replay": [Example("Replay a store", "agentgym replay demos.jsonl")],
    "data verify": [Example("Check every line of a store", "agentgym data verify demos.jsonl")],
    "data salvage": [Example("Copy the intact lines", "agentgym data salvage broken.jsonl intact.jsonl")],
    "data convert": [
        Example("Convert to a table of rows", "agentgym data convert demos.jsonl demos.parquet"),
        Example("Convert to messages for trl", "agentgym data convert demos.jsonl messages.jsonl --to trl"),
        Example("Read AgentTraj", "agentgym data convert agenttraj.json mine.jsonl"),
        Example("Join files", "agentgym data convert demos.jsonl more.jsonl all.jsonl"),
    ],
    "report": [Example("Write a report again", "agentgym report runs/mine")],
    "view": [
        Example("Read a run in the browser", "agentgym view runs/mine"),
        Example("Share some episodes as one file", "agentgym view runs/mine/rounds/03/test.jsonl --export test.html"),
        Example("Keep your judgements in a file", "agentgym view runs/mine --judged judged.jsonl"),
    ],
    "serve": [
        Example("Serve two worlds over HTTP", "agentgym serve --env shop --env household"),
        Example(
            "Serve a hard world with its expert",
            "agentgym serve --env shop --env_kwargs.difficulty hard --experts true --port 8000",
        ),
    ],
    "mcp": [
        Example("Offer tools to a client that starts this command", "agentgym mcp --env tools --record mcp.jsonl"),
        Example("Offer tools over HTTP", "agentgym mcp --env tools --transport http --port 8000 --record mcp.jsonl"),
    ],
}
"""Examples by command or subcommand; without a name those of `agentgym` itself."""


def examples_of(command: str) -> list[Example]:
    """Return the examples of a command, or of all its subcommands."""
    below = (each for name, examples in EXAMPLES.items() if name.startswith(f"{command} ") for each in examples)
    return [*EXAMPLES.get(command, ()), *(below if command else ())]
