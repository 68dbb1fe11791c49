"""What works with each model family: its miniature is played, trained, saved and exported.

    python benchmarks/zoo.py                                # every family, a few minutes
    python benchmarks/zoo.py --families qwen3 gemma3        # these

A family has a miniature with its configuration, added tokens and chat template (`agentgym_py/testing/zoo.py`). A cell
is `works`, or a number: the error below the table that refuses the family.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path

import torch
import transformers

from agentgym_py.env import EnvSpec
from agentgym_py.testing.zoo import FAMILIES
from agentgym_py.testing.zoo_checks import COLUMNS, cell

WORLD = EnvSpec("wordle", {"max_steps": 3})
"""Its observations are short: a miniature's token is a byte."""


def main() -> None:
    """Print the table, and the errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES), metavar="FAMILY")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    print(f"| family | {' | '.join(COLUMNS)} |\n|{'---|' * (1 + len(COLUMNS))}")
    errors = list[str]()
    for family in options.families:
        with tempfile.TemporaryDirectory() as folder:
            cells = [cell(family, column, WORLD, Path(folder)) for column in COLUMNS]
        errors += [error for error in dict.fromkeys(cells) if error not in ("works", *errors)]
        shown = [said if said == "works" else f"({errors.index(said) + 1})" for said in cells]
        print(f"| {family} | {' | '.join(shown)} |", flush=True)
    for number, error in enumerate(errors, 1):
        print(f"\n({number}) {error}")


if __name__ == "__main__":
    main()
