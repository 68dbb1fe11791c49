"""A model's card: how to open it, and how it was made, without paths of this machine.

The folder that a model lies in (a run, a training, a stage of a pipeline) tells what made it. The card follows its
base, data and reward model in the same way, as far as their folders still exist.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from agentgym_py import registry
from agentgym_py.errors import AgentGymError
from agentgym_py.evaluation.text import format_mean, format_rate
from agentgym_py.evolution.run_folder import RunFolder, read_estimate
from agentgym_py.training.trainer import info_of
from agentgym_py.version import __version__

if TYPE_CHECKING:
    from agentgym_py.policy import Policy

_TOLD = ("command", "trainer", "Agent_v0", "base", "data", "expert", "exploration", "reward model", "trained on")
"""Rows of an origin that are shown for what something else was made from."""


class Origin(NamedTuple):
    """What made a model, a reward model or trajectories."""

    name: str
    place: Path
    rows: dict[str, Any]
    """Facts by name; empty ones are left out."""
    inputs: list[tuple[str, str]]
    """What it was made from: `base`, `data` or another setting's name, with the path or the name."""
    tables: tuple[str, ...] = ()
    """Lines of Markdown."""


def card(origin: Origin | None, policy: Policy, name: str, weights: str) -> str:
    """The README.md of a model that is exported as `name` from `weights`."""
    what = "trained with agentgym-py" if origin else "exported by agentgym-py, which knows nothing of its training"
    head = {"library_name": "transformers", "pipeline_tag": "text-generation", "tags": ["agentgym-py"]}
    made = origin.rows if origin else {"exported from": _short(weights), "base": _base(policy, weights)}
    made = {**made, "weights (SHA-256)": policy.digest(), "parameters": f"{policy.num_parameters:,}"}
    return "\n".join([
        "---", yaml.safe_dump(head, sort_keys=False).strip(), "---", "", f"# {name}", "",
        f"A language model, {what}. The chat template is in the tokenizer.", "",
        "```python", "from transformers import AutoModelForCausalLM, AutoTokenizer", "",
        f'model = AutoModelForCausalLM.from_pretrained("{name}")',
        f'tokenizer = AutoTokenizer.from_pretrained("{name}")', "```", "",
        "## Provenance", "", "| | |", "|---|---|", *_lines(made | {"exported by": f"agentgym-py {__version__}"}), "",
        *(_chain(origin) if origin else ()), *(origin.tables if origin else ()),
    ]).rstrip() + "\n"  # fmt: skip


def _lines(rows: Mapping[str, Any]) -> list[str]:
    return [f"| {key} | {_cell(value)} |" for key, value in rows.items() if value not in (None, "")]


def _cell(value: Any) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")


def _base(policy: Policy, weights: str) -> str:
    """What adapters were merged into; of other weights nothing is known."""
    return "" if _short(policy.name) == _short(weights) else _short(policy.name)


def _chain(origin: Origin) -> list[str]:
    """Tables of what a model was made from, and that in turn, as far as it is known."""
    rows, seen, todo = list[str](), {origin.place}, list(origin.inputs)
    while todo:
        what, path = todo.pop(0)
        found = origin_of(path)
        if found is None or found.place in seen:
            continue
        seen.add(found.place)
        told = [f"{key}: {_cell(found.rows[key])}" for key in _TOLD if found.rows.get(key) not in (None, "")]
        rows.append(f"| {what} | {found.name} | {'; '.join(told)} |")
        todo += found.inputs
    return ["## What it was made from", "", "| | | |", "|---|---|---|", *rows, ""] if rows else []


# ---------------------------------------------------------------------------------------------------- who made a thing


def origin_of(path: str) -> Origin | None:
    """What made the thing at this path; None if that is unknown or broken."""
    folder = Path(path).absolute()
    if not folder.exists():
        return None
    with suppress(AgentGymError, LookupError, TypeError, ValueError):  # from an older version or another program
        if (folder / "run.yaml").is_file():
            return of_round(run := RunFolder(folder), run.best_round(max(rounds_of(run))))
        if found := round_at(folder):
            return of_round(*found)
        if made := training_at(folder):
            return of_training(made)
        return _of_stage(folder)
    return None


def rounds_of(run: RunFolder) -> list[int]:
    """The finished rounds of a run."""
    return [int(each.parent.name) for each in sorted((run.path / "rounds").glob("*/metrics.json"))]


def round_at(folder: Path) -> tuple[RunFolder, int] | None:
    """The run and the round that this folder is the checkpoint of."""
    number, run = folder.parent, folder.parent.parent.parent
    known = folder.name == "checkpoint" and number.parent.name == "rounds" and number.name.isdigit()
    return (RunFolder(run), int(number.name)) if known and (run / "run.yaml").is_file() else None


def training_at(folder: Path) -> Path | None:
    """The folder of `agentgym train` that this is, or whose checkpoint or judge it is."""
    judge = (folder / f"{folder.name}.json").is_file()
    made = folder.parent if folder.name == "checkpoint" or judge else folder
    return made if (made / "train.json").is_file() else None


def of_training(folder: Path) -> Origin:
    """The origin of an output of `agentgym train`."""
    held = RunFolder(folder).read_json("train.json")
    settings, report, made_with = held["settings"], held["training"], held.get("provenance", {})
    rows = {
        "training": folder.name, "base": _name(settings["model"]),
        "base weights (SHA-256)": made_with.get("base_policy"), "trainer": _trainer(settings["trainer"]),
        "data": ", ".join(_name(each) for each in settings["data"]),
        "trained on": f"{report['trajectories']} trajectories, {report['agent_tokens']:,} agent tokens",
        "left out": ", ".join(f"{number} {reason}" for reason, number in report["dropped"].items()),
        "notes": "; ".join(report.get("notes", ())), "seed": settings["seed"], **_when(made_with),
    }  # fmt: skip
    data = [("data", str(each)) for each in settings["data"]]
    inputs = [("base", str(settings["model"])), *_paths(settings["trainer"]), *data]
    return Origin(folder.name, folder, rows, inputs)


def of_round(run: RunFolder, number: int) -> Origin:
    """The origin of a round of a run."""
    config, made_with = run.config(), run.read_json("provenance.json")
    trained = run.metrics(number)["training"] or {}
    name, judge = run.path.absolute().name, config.get("reward_model")
    rows = {
        "run": name, "round": f"{number}, {_why(run, number)}", "base": _name(config.get("model")),
        "base weights (SHA-256)": made_with.get("base_policy"), **_trainers(config, number),
        "worlds": ", ".join(f"{world} {version}" for world, version in made_with.get("env_versions", {}).items()),
        "worlds' arguments": _said(config.get("env_kwargs", {})), **_played(config, number),
        "reward model": _name(judge) if judge and number else "",
        "trained on": f"{trained['trajectories']} trajectories in this round" if trained else "nothing in this round",
        "notes": "; ".join(trained.get("notes", ())), "seed": config.get("seed"), **_when(made_with),
    }  # fmt: skip
    inputs = [("base", str(config.get("model"))), *([("reward model", str(judge))] if judge and number else [])]
    inputs += _paths(config.get("trainer")) if number else []
    return Origin(f"{name}, round {number}", run.round(number).absolute(), rows, inputs, tuple(_results(run, number)))


def _of_stage(path: Path) -> Origin | None:
    """The origin of files, such as trajectories, that a stage of a pipeline made."""
    folder = path.parent
    if not (folder.parent / "pipeline.json").is_file():
        return None
    stages = RunFolder(folder.parent).read_json("pipeline.json")["stages"]
    folders = {each["name"]: f"{number:02d}-{each['name']}" for number, each in enumerate(stages, 1)}
    stage = {folders[each["name"]]: each for each in stages}[folder.name]
    settings = {
        key: folders[value[1:]] if isinstance(value, str) and value.startswith("$") else value
        for key, value in stage["settings"].items()
    }
    rows = {"command": f"{stage['command']} ({_said(settings)})"}
    played = str(stage["settings"].get("model", "")).startswith("$")
    return Origin(folder.name, folder, rows, [("agent", str(folder.parent / settings["model"]))] if played else [])


# ------------------------------------------------------------------------------------------------- what is said of it


def _trainers(config: Mapping[str, Any], number: int) -> dict[str, str]:
    """The trainer of a round's weights: for Agent_v0 the warm start, if the trainer has one."""
    trainer, experts = config.get("trainer", {}), config.get("expert_tasks", 0)
    first = _trainer({"name": _cloner(trainer), **config["cloner"]}) if "cloner" in config else _trainer(trainer)
    if not number:
        return {"trainer": first if experts else ""}
    return {"trainer": _trainer(trainer), "Agent_v0": first if experts and "cloner" in config else ""}


def _cloner(trainer: Any) -> str:
    with suppress(AgentGymError):
        return str(info_of(registry.load("agentgym.trainers", trainer["name"])).warm_start or trainer["name"])
    return "cloner"


def _played(config: Mapping[str, Any], number: int) -> dict[str, str]:
    """Who played the episodes that a round learnt from, and what was selected."""
    thoughts = "with" if config.get("expert_thoughts") else "without"
    explored = "{explore_tasks} tasks a round, {attempts} attempts each, temperature {temperature}"
    with suppress(KeyError):
        return {
            "expert": f"{config['expert']}, {config['expert_tasks']} tasks a world, {thoughts} thoughts"
            if config["expert_tasks"] else "",
            "exploration": explored.format_map(config) if number else "",
            "selection": _said({key: config[key] for key in ("select", "merge", "restart")}) if number else "",
        }  # fmt: skip
    return {}


def _when(made_with: Mapping[str, Any]) -> dict[str, Any]:
    packages = made_with.get("packages", {})
    return {
        "started": made_with.get("started"),
        "made with": ", ".join(f"{name} {version}" for name, version in packages.items()),
    }


def _paths(trainer: Any) -> Iterator[tuple[str, str]]:
    """Settings of a trainer that may be paths."""
    for key, value in trainer.items() if isinstance(trainer, Mapping) else ():
        if isinstance(value, str) and os.sep in value:
            yield key, value


def _name(path: Any) -> str:
    """What is known to have made the thing at this path, or else its name."""
    found = origin_of(str(path))
    return found.name if found else _short(path)


def _short(name: Any) -> str:
    """A name without the folders of this machine."""
    text = str(name)
    if "://" in text:
        return "(an address)"
    path = Path(text)
    ours = path.is_absolute() or text.startswith((".", "~")) or (os.sep in text and path.exists())
    return path.name if ours else text


def _said(value: Any) -> str:
    """Settings in a line: `kind grpo, select (threshold 1.0, dedupe True)`."""
    if isinstance(value, Mapping):
        parts = {key: f"({_said(each)})" if isinstance(each, Mapping) else _said(each) for key, each in value.items()}
        return ", ".join(f"{_short(key)} {part}" for key, part in parts.items() if value[key] not in (None, {}, []))
    return ", ".join(map(_said, value)) if isinstance(value, list | tuple) else _short(value)


def _trainer(trainer: Any) -> str:
    """`grpo (kind grpo, group_size 8, …)`."""
    if not isinstance(trainer, Mapping):
        return str(trainer)
    rest = _said({key: value for key, value in trainer.items() if key != "name"})
    return f"{trainer.get('name')} ({rest})" if rest else str(trainer.get("name"))


def _why(run: RunFolder, number: int) -> str:
    last = max(rounds_of(run))
    return (
        f"the best of 0 to {last} by valid success"
        if number == run.best_round(last)
        else f"of 0 to {last}, not the best"
    )


def _results(run: RunFolder, number: int) -> list[str]:
    """A table of the round's greedy results on held-out tasks."""
    found = {"valid": run.metrics(number)["valid"]}
    if run.finished:
        test = run.read_json("test.json")["rounds"]
        found |= {"test": test[str(number)]} if str(number) in test else {}
        found |= {"test, Agent_v0": test["0"]} if "0" in test and number else {}
    rows = [
        f"| {split} | {each['success']['n']} | {format_rate(read_estimate(each['success']))} "
        f"| {format_mean(read_estimate(each['reward']))} | {each['steps']:.1f} |"
        for split, each in found.items()
    ]
    head = [
        "## Held-out tasks",
        "",
        "| split | tasks | success [95 %] | reward [95 %] | steps |",
        "|---|---|---|---|---|",
    ]
    return [*head, *rows]
