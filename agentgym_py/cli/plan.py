"""`agentgym plan`: the memory of playing and training, without weights."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from agentgym_py.cli.argv import peek_options
from agentgym_py.cli.parser import JSON_HELP, Parser, UsageError, Values, read_options
from agentgym_py.cli.runtime import console, print_json
from agentgym_py.cli.trainer_options import add_trainer_options, read_trainer
from agentgym_py.training.memory_plan.memory import GIB, RESERVED_GIB, MemoryPlan, Workload

if TYPE_CHECKING:
    from agentgym_py.training.memory_plan import Verdict

_CONTEXT = 4096
"""Longest episode, unless the model's context is shorter or `--max_context` says otherwise."""


def options(parser: Parser) -> None:
    """Add the options of `plan`."""
    parser.add(
        "model", str, "", "A folder, a config.json, `tiny`, `smollm2`, a model of the hub's cache, or a known name, as "
        "Qwen2.5-7B; nothing is downloaded.", metavar="NAME", group="The model",
    )  # fmt: skip
    parser.add_dataclass(Workload, title="What is played and trained, and where")
    add_trainer_options(parser, peek_options(parser.argv).get("trainer", "grpo"))
    parser.set_defaults({"max_context": None})
    parser.add(
        "table", bool, False, "Print what fits where, for models of 1.5 and 7 billion weights, and nothing else."
    )
    parser.add("json", bool, False, JSON_HELP)


def run(args: Values) -> int:
    """Plan and print."""
    if args["table"]:
        from agentgym_py.training.memory_plan.table import what_fits_where

        print(what_fits_where())
        return 0
    if not args["model"]:
        raise UsageError("--model NAME is needed, for example --model Qwen2.5-7B")
    workload, trainer = read_options(Workload, args, max_context=args["max_context"] or _CONTEXT), read_trainer(args)
    from agentgym_py.training.memory_plan import judge, open_config

    model = open_config(args["model"])
    if not args["max_context"]:
        workload = replace(workload, max_context=min(_CONTEXT, model.context_length))
    verdict = judge(model, trainer, workload)
    if args["json"]:
        print_json(verdict.as_dict())
    else:
        _print(verdict, args["trainer.name"])
    return 0


def _print(verdict: Verdict, trainer: str) -> None:
    from agentgym_py.report.terminal import print_table

    out, plan = console(), verdict.plan
    out.print(_title(plan, trainer), style="bold", soft_wrap=True)
    shown = [part for part in plan.parts if max(part.playing, part.training) >= GIB / 100]
    rows = [[part.name, _gib(part.playing), _gib(part.training)] for part in shown]
    totals = ["sum", *(f"{phase.gib:.2f}" for phase in plan.phases)]
    reserved = [f"left of {plan.workload.gpu_memory_gib:g}, less {RESERVED_GIB:g} for CUDA"]
    print_table(
        out, ["GiB of one GPU", "playing", "training"],
        [*rows, totals, [*reserved, *(f"{phase.spare_gib:.2f}" for phase in plan.phases)]],
    )  # fmt: skip
    out.print(verdict.sentence, soft_wrap=True)


def _title(plan: MemoryPlan, trainer: str) -> str:
    work = plan.workload
    numbers = work.quantize or work.dtype
    what = "all weights" if plan.trained == plan.weights else f"adapters of {plan.trained / 1e6:.0f} million weights"
    return (
        f"{plan.model}, {plan.weights / 1e9:.3g} billion weights in {numbers}: {trainer} trains {what} on episodes of "
        f"{work.max_context:,} tokens"
    )


def _gib(number: int) -> str:
    return f"{number / GIB:.2f}" if number else "–"
