"""`agentgym export`: export a trained model to a folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from agentgym_py.cli.parser import Parser, UsageError, Values, read_options, with_option_names
from agentgym_py.cli.runtime import prepare_torch, print_json
from agentgym_py.errors import ConfigError
from agentgym_py.files import clear_read_errors, new_folder, require_creatable


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """The export."""

    out: str | None = None
    """Folder (required) for safetensors, tokenizer, chat template and README.md; it must be new or empty."""
    round: int | None = None
    """Round of a run; by default the one with the best valid success."""
    base: str | None = None
    """Model to merge adapters into, if it is not the one that they name."""
    evals: list[str] = field(default_factory=list)
    """Folders of `agentgym eval --out` of the same weights, whose success rates the card has."""
    gguf: bool = False
    """Also write a GGUF file; needs convert_hf_to_gguf.py of llama.cpp (on PATH, or in the folder of the variable
    LLAMA_CPP), which supports only some tokenizers."""
    push: str | None = None
    """Also upload the folder to this repository of the Hugging Face hub (OWNER/NAME), which is made if it is missing.
    The token comes from `hf auth login` or the variable HF_TOKEN."""
    private: bool = True
    """Whether --push makes a private repository."""
    json: bool = False
    """Print JSON, for a program."""


def options(parser: Parser) -> None:
    """Add the options of `export`."""
    parser.add_positional(
        "model",
        "A folder of `evolve` or `train`, a checkpoint, a folder of LoRA adapters, or a model's name.",
    )
    parser.add_dataclass(ExportOptions)


def read_plan(args: Values) -> ExportOptions:
    """Read the options; raise ConfigError if the GGUF converter or what --push needs is missing."""
    from agentgym_py.report.export import find_converter, require_pushable

    chosen = read_options(ExportOptions, args)
    if chosen.push:
        require_pushable(chosen.push)
    if chosen.gguf:
        find_converter()
    return chosen


def run(args: Values) -> int:
    """Export, and print the folder."""
    if args["out"] is None:
        raise UsageError("--out DIR is needed")
    from agentgym_py.report.export import export, find_source, push

    try:
        chosen = read_plan(args)
        with clear_read_errors(Path(args["model"])):
            source = find_source(args["model"], chosen.round)
        require_creatable(new_folder(args["out"]))  # checked before the import of torch, which is slow
        prepare_torch("tiny")  # the name does not matter: this checks the packages and silences them
        folder = export(source, args["out"], base=chosen.base, gguf=chosen.gguf, evals=chosen.evals)
    except ConfigError as error:
        raise with_option_names(error, ("base", "evals", "gguf", "round", "push"), "") from error
    url = push(folder, chosen.push, private=chosen.private) if chosen.push else None
    if chosen.json:
        print_json({
            "folder": str(folder), "weights": str(source.weights), "round": source.number,
            **({"url": url} if url else {}),
        })  # fmt: skip
    else:
        which = f", round {source.number}" if source.number is not None else ""
        print(f"{folder}: {source.weights}{which}; loaded again, it replies as before")
        if url:
            print(url)
    return 0
