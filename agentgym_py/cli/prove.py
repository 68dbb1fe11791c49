"""`agentgym prove`: check a trainer against exact truth on a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_py import registry
from agentgym_py.checks import Basic, require_at_least
from agentgym_py.cli.check import FAILED, read_only
from agentgym_py.cli.interrupts import no_interrupt_lost, require_not_interrupted
from agentgym_py.cli.parser import JSON_HELP, Parser, Values, read_options
from agentgym_py.cli.runtime import console, load_torch, new_file_if_named, print_json
from agentgym_py.cli.trainer_options import path_settings, trainer_class
from agentgym_py.env.arguments import require_seed
from agentgym_py.errors import setting
from agentgym_py.training.settings import ordered_fields

if TYPE_CHECKING:
    from agentgym_py.proof import Result


@dataclass(frozen=True, slots=True)
class ProveOptions:
    """The proof."""

    seed: Basic[int] = 0
    """Seed of all that is drawn."""
    seeds: Basic[int] = 5
    """Trainings of the learning curve, at least 2."""
    episodes: int | None = None
    """Episodes of each of them: an on-policy trainer's budget (by default 640), or an offline trainer's data (160)."""
    reference: str | None = None
    """Trainer whose learning curve stands beside it, or `none`; by default grpo for an on-policy trainer and
    filtered_bc for an offline one."""
    report: Basic[str | None] = None
    """HTML file for the checks and the learning curves."""
    threads: int = 1
    """Threads of torch; tables are small, so more of them are slower."""

    def __post_init__(self) -> None:
        require_seed(self.seed)
        require_at_least(self, {"seeds": 2})


def options(parser: Parser) -> None:
    """Add the options of `prove`, and those of the trainer that is named."""
    parser.add_positional("name", "An installed trainer, or a source (FILE.py:Class, module:Class).")
    parser.add(
        "only", default=[], item=str, metavar="CHECK", group="The proof",
        help="Run only these checks; repeated, or with commas. docs/guides/prove.md lists them.",
    )  # fmt: skip
    parser.add_dataclass(ProveOptions)
    parser.add("json", bool, False, JSON_HELP, group="The proof")
    if name := named_trainer(parser.argv):
        trainer = trainer_class(name)
        parser.add_dataclass(trainer, "trainer.", f"The trainer {name}", basic=False, ordered=ordered_fields(trainer))


def named_trainer(argv: Sequence[str]) -> str | None:
    """Return the first word that names a trainer, or could."""
    names = registry.names("agentgym.trainers")
    return next((word for word in argv if word in names or (word[:1] != "-" and registry.is_source(word))), None)


def run(args: Values) -> int:
    """Prove a trainer; return 1 if a check failed."""
    chosen: ProveOptions = read_options(ProveOptions, args)
    name = args["name"]
    paths = {key: str(Path(value).absolute()) for key in path_settings(name) if (value := args[f"trainer.{key}"])}
    trainer: Any = read_options(trainer_class(name), args, "trainer.", **paths)
    load_torch(chosen.threads)
    from agentgym_py.proof import CHECKS, prove
    from agentgym_py.proof.page import write_proof
    from agentgym_py.report.terminal import print_table

    checks = read_only(args, CHECKS)
    out = console(args["json"])

    def show(result: Result) -> None:
        require_not_interrupted()
        out.print(result.line, soft_wrap=True)

    with new_file_if_named(chosen.report, setting("report")) as target, no_interrupt_lost():
        proof = prove(
            trainer, checks, seed=chosen.seed, seeds=chosen.seeds, episodes=chosen.episodes,
            reference=chosen.reference, on_result=show,
        )  # fmt: skip
        proof = replace(proof, trainer=name)
        if target:
            write_proof(target, proof)
    if proof.curve:
        out.print()
        print_table(out, *proof.curve_rows())
    if args["json"]:
        print_json(proof.as_dict())
    if chosen.report:
        out.print(f"written: {chosen.report}", soft_wrap=True)
    out.print(f"\n{name}: proof {proof.verdict}", soft_wrap=True)
    return FAILED if proof.failed else 0
