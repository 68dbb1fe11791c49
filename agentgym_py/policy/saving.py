"""Write a checkpoint: all of it or nothing."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentgym_py.errors import PolicyError
from agentgym_py.files import clear_read_errors, clear_write_errors, load_json
from agentgym_py.policy.quiet import without_progress_bars

ADAPTER_CONFIG = "adapter_config.json"
"""PEFT's file in a folder of adapters."""
BASE_FILE = "base.json"
"""What the adapters of a folder were trained on, beside PEFT's files."""


@dataclass(frozen=True, slots=True)
class AdapterBase:
    """What a folder of adapters was trained on."""

    name: str
    """Name of the base model, or its folder."""
    format: str = ""
    """Number format of the base when it was saved; empty if unknown."""
    digest: str = ""
    """SHA-256 of the base's weights in that format."""


def save_checkpoint(model: Any, tokenizer: Any, target: Path, weights: Any = None) -> None:
    """Write a model and its tokenizer as an ordinary checkpoint; an older checkpoint there is replaced.

    `weights` is a state dict to write in place of the model's own. Errors are those of `replace_folder`.
    """

    def write(folder: Path) -> None:
        model.save_pretrained(folder, state_dict=dict(weights) if weights else None)  # transformers empties its own
        if weights:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            config["dtype"] = str(next(iter(weights.values())).dtype).removeprefix("torch.")
            (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        tokenizer.save_pretrained(folder)

    replace_folder(target, write)


def save_adapters(model: Any, tokenizer: Any, target: Path, base: AdapterBase, plain: Any = None) -> None:
    """Write a PEFT model's adapters, its tokenizer and `base`; errors are those of `replace_folder`.

    `plain` is the base itself if it has no name; it is written as an ordinary checkpoint into the folder `base`.
    """
    inside = target.absolute() / "base"

    def write(folder: Path) -> None:
        model.save_pretrained(folder)
        (folder / "README.md").unlink(missing_ok=True)  # PEFT's form of a model card
        tokenizer.save_pretrained(folder)
        if plain is not None:
            plain.save_pretrained(folder / inside.name)
            tokenizer.save_pretrained(folder / inside.name)
        local = not base.name or Path(base.name).is_dir()
        path = os.path.relpath(base.name or inside, target.absolute()) if local else base.name
        about = asdict(base) | {"name": path}
        (folder / BASE_FILE).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        config = json.loads((folder / ADAPTER_CONFIG).read_text(encoding="utf-8"))
        config["base_model_name_or_path"] = base.name or str(inside)  # other programs know no relative paths
        (folder / ADAPTER_CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")

    replace_folder(target, write)


def relocate_adapters(copy: Path, original: Path, within: Path) -> None:
    """Let a copied folder of adapters find its base; a base in the folder `within` was copied with it."""
    file = copy / BASE_FILE
    if not file.is_file():
        return
    with clear_read_errors(original):
        about = load_json(file)
        base = (original / about["name"]).resolve()
    if base.is_dir() and not base.is_relative_to(within.resolve()):
        about["name"] = os.path.relpath(base, copy.absolute())
        file.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def replace_folder(target: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a new folder, which then replaces the checkpoint at `target`.

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
            temporary.mkdir()
            write(temporary)
            _make_readable(temporary)
            _replace(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _require_replaceable(target: Path) -> None:
    """Require a target that a checkpoint may replace."""
    if target.exists() and not target.is_dir():
        raise PolicyError(f"{target} is a file, and a checkpoint is a folder: choose another name")
    is_checkpoint = (target / "config.json").is_file() or (target / ADAPTER_CONFIG).is_file()
    if target.is_dir() and any(target.iterdir()) and not is_checkpoint:
        raise PolicyError(
            f"{target} holds other files and no checkpoint: nothing is overwritten; choose another folder"
        )


def _make_readable(folder: Path) -> None:
    """Give weight files the permissions of other new files: safetensors writes them for their owner alone."""
    probe = folder / ".permissions"
    probe.touch()
    mode = stat.S_IMODE(probe.stat().st_mode)
    probe.unlink()
    for path in folder.rglob("*.safetensors"):
        path.chmod(mode)


def _replace(new: Path, target: Path) -> None:
    old = target.with_name(f".{target.name}.{os.getpid()}.old")
    if target.exists():
        target.rename(old)
    new.rename(target)
    shutil.rmtree(old, ignore_errors=True)
