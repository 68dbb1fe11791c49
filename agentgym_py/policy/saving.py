"""Write a checkpoint: all of it or nothing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from agentgym_py.errors import PolicyError
from agentgym_py.files import clear_write_errors
from agentgym_py.policy.quiet import without_progress_bars


def save_checkpoint(model: Any, tokenizer: Any, target: Path) -> None:
    """Write a model and its tokenizer as an ordinary checkpoint; an older checkpoint there is replaced.

    Raises:
        PolicyError: `target` is a file, or holds something other than a checkpoint.
        RunError: it cannot be written; the folder is unchanged.
    """
    _require_replaceable(target)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        with clear_write_errors(target), without_progress_bars():
            target.parent.mkdir(parents=True, exist_ok=True)
            model.save_pretrained(temporary)
            tokenizer.save_pretrained(temporary)
            _replace(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _require_replaceable(target: Path) -> None:
    """Require a target that a checkpoint may replace."""
    if target.exists() and not target.is_dir():
        raise PolicyError(f"{target} is a file, and a checkpoint is a folder: choose another name")
    if target.is_dir() and any(target.iterdir()) and not (target / "config.json").is_file():
        raise PolicyError(
            f"{target} holds other files and no checkpoint: nothing is overwritten; choose another folder"
        )


def _replace(new: Path, target: Path) -> None:
    old = target.with_name(f".{target.name}.{os.getpid()}.old")
    if target.exists():
        target.rename(old)
    new.rename(target)
    shutil.rmtree(old, ignore_errors=True)
