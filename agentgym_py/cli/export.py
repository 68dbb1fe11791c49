"""`agentgym export`: a trained model as a folder for others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentgym_py.cli.parser import UsageError, read_options, with_option_names
from agentgym_py.cli.runtime import prepare_torch, print_json
from agentgym_py.errors import ConfigError

if TYPE_CHECKING:
    from agentgym_py.cli.parser import Parser, Values


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """The folder."""

    out: str | None = None
    """Folder that gets safetensors, tokenizer, chat template and README.md; it must be new or empty."""
    round: int | None = None
    """Round of a run; by default the best by valid success."""
    base: str | None = None
    """Model that adapters are merged into, where it is not the one that they name."""
    gguf: bool = False
    """Write a GGUF file, too; needs llama.cpp's convert_hf_to_gguf.py (on PATH, or in the folder named by the variable
    LLAMA_CPP), which knows some tokenizers only."""
    json: bool = False
    """Print what was written as JSON, for a program."""


def options(parser: Parser, argv: Sequence[str]) -> None:
    """Add what `export` takes."""
    del argv
    parser.usage = "agentgym export MODEL --out DIR [options]"
    parser.add_positional(
        "model",
        "A run folder, what `train` wrote, a checkpoint of either, a folder of LoRA adapters, or a model's name.",
    )
    parser.add_dataclass(ExportOptions)


def read(args: Values) -> ExportOptions:
    """What is wanted; complains of a converter that is not there."""
    from agentgym_py.report.export import converter

    chosen = read_options(ExportOptions, args)
    if chosen.gguf:
        converter()
    return chosen


def run(args: Values) -> int:
    """Export, and say where."""
    if args["out"] is None:
        raise UsageError("--out DIR wanted")
    from agentgym_py.report.export import export, find

    try:
        chosen = read(args)
        source = find(args["model"], chosen.round)
        prepare_torch("tiny")  # whatever it is: what models need, and quiet libraries
        folder = export(source, args["out"], base=chosen.base, gguf=chosen.gguf)
    except ConfigError as error:
        raise with_option_names(error, ("base", "gguf", "round"), "") from error
    if chosen.json:
        print_json({"folder": str(folder), "weights": str(source.weights), "round": source.number})
    else:
        which = f", round {source.number}" if source.number is not None else ""
        print(f"{folder}: {source.weights}{which}; loaded again, it replies as before")
    return 0
