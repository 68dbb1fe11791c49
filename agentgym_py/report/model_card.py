"""A model's card: how to open it and how it was made, without paths of this machine.

The origin of a model is read from its folder: a run, a training, or a stage of a pipeline. The card follows its base,
data and reward model in the same way, as far as their folders still exist.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from agentgym_py import registry
from agentgym_py.errors import AgentGymError
from agentgym_py.evaluation.stats import Estimate
from agentgym_py.evaluation.text import format_mean, format_rate
from agentgym_py.evolution.run_folder import RunFolder, read_estimate
from agentgym_py.rewards.functions import short_reward
from agentgym_py.training.trainer import info_of
from agentgym_py.version import __version__

if TYPE_CHECKING:
    from agentgym_py.policy import Policy

_HUB_IDS = {"smollm2": "HuggingFaceTB/SmolLM2-135M-Instruct"}
"""Ids on the hub of models that packages hold."""
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_CHAIN_KEYS = ("command", "trainer", "Agent_v0", "base", "data", "expert", "exploration", "reward model", "trained on")
"""Rows of an origin that the table of inputs shows."""

_SELECTION = ("critic", "reflection", "select", "coreset", "merge", "restart")
"""Settings of a run that say what its rounds learnt from."""


class Origin(NamedTuple):
    """The origin of a model, a reward model or trajectories."""

    name: str
    place: Path
    rows: dict[str, Any]
    """Facts by name; the card leaves out empty ones."""
    inputs: list[tuple[str, str]]
    """Its inputs: `base`, `data` or another setting, with the path or the name."""
    tables: tuple[str, ...] = ()
    """Lines of Markdown."""
    evaluations: Mapping[str, Mapping[str, Any]] = {}
    """Summaries of the model's evaluations, by split."""
    envs: str = ""
    """The worlds of the evaluations."""


class Success(NamedTuple):
    """A model's success rate in a world."""

    world: str
    split: str
    rate: Estimate


def make_card(origin: Origin | None, policy: Policy, name: str, weights: str, evaluated: Sequence[Success] = ()) -> str:
    """Return the README.md of a model that is exported as `name` from `weights`.

    `evaluated` are results beyond those of its run.
    """
    how = "trained with agentgym-py" if origin else "exported by agentgym-py, which knows nothing of its training"
    head: dict[str, Any] = {
        "library_name": "transformers", "pipeline_tag": "text-generation", "tags": ["agentgym-py"],
    }  # fmt: skip
    if hub_id := _hub_base(origin, policy.name):
        head["base_model"] = hub_id
    if successes := [*(successes_of(origin) if origin else ()), *evaluated]:
        head["model-index"] = model_index(successes, name)
    base = _short(policy.name) if _short(policy.name) != _short(weights) else ""  # that adapters were merged into
    rows = origin.rows if origin else {"exported from": _short(weights), "base": base}
    rows = {**rows, "weights (SHA-256)": policy.digest(), "parameters": f"{policy.num_parameters:,}"}
    return "\n".join([
        "---", yaml.safe_dump(head, sort_keys=False).strip(), "---", "", f"# {name}", "",
        f"A language model, {how}. The chat template is in the tokenizer.", "",
        "```python", "from transformers import AutoModelForCausalLM, AutoTokenizer", "",
        f'model = AutoModelForCausalLM.from_pretrained("{name}")',
        f'tokenizer = AutoTokenizer.from_pretrained("{name}")', "```", "",
        "## Provenance", "", "| | |", "|---|---|", *_lines(rows | {"exported by": f"agentgym-py {__version__}"}), "",
        *(_chain(origin) if origin else ()), *(origin.tables if origin else ()), *_evaluated_table(evaluated),
    ]).rstrip() + "\n"  # fmt: skip


def successes_of(origin: Origin) -> list[Success]:
    """Return the success rates of a run's evaluations, by split and world."""
    return [
        Success(world, split, read_estimate(part["success"]))
        for split, summary in origin.evaluations.items()
        for world, part in (summary.get("worlds") or {origin.envs: summary}).items()
    ]


def model_index(successes: Sequence[Success], name: str) -> list[dict[str, Any]]:
    """Return success rates as the hub's metadata."""
    from huggingface_hub import EvalResult
    from huggingface_hub.repocard_data import eval_results_to_model_index

    results = [
        EvalResult(
            task_type="reinforcement-learning", dataset_type="agentgym-py", dataset_name=each.world,
            dataset_split=each.split, metric_type="success_rate",
            metric_name=f"success rate, 95 % interval {format_rate(each.rate)}",
            metric_value=round(each.rate.value, 4),
        )
        for each in successes
    ]  # fmt: skip
    index: list[dict[str, Any]] = eval_results_to_model_index(name, results)
    return index


def _evaluated_table(successes: Sequence[Success]) -> list[str]:
    rows = [f"| {each.world} | {each.split} | {each.rate.n} | {format_rate(each.rate)} |" for each in successes]
    header = "| world | split | tasks | success [95 %] |"
    return ["", "## Evaluations", "", header, "|---|---|---|---|", *rows] if rows else []


def _hub_base(origin: Origin | None, name: str) -> str | None:
    """Return the hub's id of the model that the first training began with; None if it is on no hub."""
    visited = set[str]()
    while origin is not None and (base := next((path for role, path in origin.inputs if role == "base"), None)):
        if base in visited:
            return None
        visited.add(base)
        name, origin = base, origin_of(base)
    if name in _HUB_IDS:
        return _HUB_IDS[name]
    return name if _HUB_ID.fullmatch(name) and not Path(name).exists() else None


def _lines(rows: Mapping[str, Any]) -> list[str]:
    return [f"| {key} | {_cell(value)} |" for key, value in rows.items() if value not in (None, "")]


def _cell(value: Any) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")


def _chain(origin: Origin) -> list[str]:
    """Return a table of a model's inputs and, recursively, their inputs."""
    rows, visited, queue = list[str](), {origin.place}, list(origin.inputs)
    while queue:
        role, path = queue.pop(0)
        part = origin_of(path)
        if part is None or part.place in visited:
            continue
        visited.add(part.place)
        facts = [f"{key}: {_cell(part.rows[key])}" for key in _CHAIN_KEYS if part.rows.get(key) not in (None, "")]
        rows.append(f"| {role} | {part.name} | {'; '.join(facts)} |")
        queue += part.inputs
    return ["## What it was made from", "", "| | | |", "|---|---|---|", *rows, ""] if rows else []


# ------------------------------------------------------------------------------------------------------------- origins


def origin_of(path: str) -> Origin | None:
    """Return the origin of what is at a path; None if it is unknown or broken."""
    folder = Path(path).absolute()
    if not folder.exists():
        return None
    with suppress(AgentGymError, LookupError, TypeError, ValueError):  # from an older version or another program
        if (folder / "run.yaml").is_file():
            return round_origin(run := RunFolder(folder), run.best_round(max(run.finished_rounds())))
        if round_ := round_at(folder):
            return round_origin(*round_)
        if training := training_at(folder):
            return _training_origin(training)
        return _stage_origin(folder)
    return None


def round_at(folder: Path) -> tuple[RunFolder, int] | None:
    """Return the run and the round of a checkpoint's folder, or None."""
    number, run = folder.parent, folder.parent.parent.parent
    matches = folder.name == "checkpoint" and number.parent.name == "rounds" and number.name.isdecimal()
    return (RunFolder(run), int(number.name)) if matches and (run / "run.yaml").is_file() else None


def training_at(folder: Path) -> Path | None:
    """Return the output folder of `agentgym train` that this is or whose checkpoint or reward model it is."""
    is_judge = (folder / f"{folder.name}.json").is_file()
    training = folder.parent if folder.name == "checkpoint" or is_judge else folder
    return training if (training / "train.json").is_file() else None


def _training_origin(folder: Path) -> Origin:
    record = RunFolder(folder).read_json("train.json")
    settings, report, provenance = record["settings"], record["training"], record.get("provenance", {})
    rows = {
        "training": folder.name, "base": _name(settings["model"]),
        "base weights (SHA-256)": provenance.get("base_policy"), "trainer": _trainer(settings["trainer"]),
        "data": ", ".join(map(_name, settings["data"])), "reward": short_reward(settings.get("reward")),
        "trained on": f"{report['trajectories']} trajectories, {report['agent_tokens']:,} agent tokens",
        "left out": ", ".join(f"{number} {reason}" for reason, number in report["dropped"].items()),
        "notes": "; ".join(report.get("notes", ())), "seed": settings["seed"], **_when(provenance),
    }  # fmt: skip
    data = [("data", str(path)) for path in settings["data"]]
    inputs = [("base", str(settings["model"])), *_path_settings(settings["trainer"]), *data]
    return Origin(folder.name, folder, rows, inputs)


def round_origin(run: RunFolder, number: int) -> Origin:
    """Return the origin of a round's checkpoint."""
    config, provenance = run.config(), run.read_json("provenance.json")
    training = run.metrics(number)["training"] or {}
    name, reward_model = run.path.absolute().name, config.get("reward_model")
    rows = {
        "run": name, "round": f"{number}, {_rank(run, number)}", "base": _name(config.get("model")),
        "base weights (SHA-256)": provenance.get("base_policy"), **_trainers(config, number),
        "worlds": ", ".join(f"{world} {version}" for world, version in provenance.get("env_versions", {}).items()),
        "worlds' arguments": _format_settings(config.get("env_kwargs", {})), **_episodes(config, number),
        "sequence": _sequence(config, run.metrics(number).get("stage")),
        "reward": short_reward(config.get("reward")) if number else "",
        "reward model": _name(reward_model) if reward_model and number else "",
        "trained on": f"{training['trajectories']} trajectories in this round" if training else "nothing in this round",
        "notes": "; ".join(training.get("notes", ())), "seed": config.get("seed"), **_when(provenance),
    }  # fmt: skip
    inputs = [("base", str(config.get("model")))]
    if number:
        inputs += [("reward model", str(reward_model))] if reward_model else []
        inputs += _path_settings(config.get("trainer"))
    return Origin(
        f"{name}, round {number}", run.round(number).absolute(), rows, inputs, tuple(_results(run, number)),
        _evaluations(run, number), ", ".join(config.get("env", ())),
    )  # fmt: skip


def _stage_origin(path: Path) -> Origin | None:
    """Return the origin of a file, such as trajectories, that a stage of a pipeline made."""
    folder = path.parent
    if not (folder.parent / "pipeline.json").is_file():
        return None
    stages = RunFolder(folder.parent).read_json("pipeline.json")["stages"]
    folders = {stage["name"]: f"{number:02d}-{stage['name']}" for number, stage in enumerate(stages, 1)}
    stage = {folders[stage["name"]]: stage for stage in stages}[folder.name]
    settings = {
        key: folders[value[1:]] if isinstance(value, str) and value.startswith("$") else value
        for key, value in stage["settings"].items()
    }
    rows = {"command": f"{stage['command']} ({_format_settings(settings)})"}
    has_agent = str(stage["settings"].get("model", "")).startswith("$")
    return Origin(folder.name, folder, rows, [("agent", str(folder.parent / settings["model"]))] if has_agent else [])


# -------------------------------------------------------------------------------------------------------------- facts


def _trainers(config: Mapping[str, Any], number: int) -> dict[str, str]:
    """Return the trainer of a round's weights; Agent_v0's is the cloner, if the trainer has one."""
    trainer, experts = config.get("trainer", {}), config.get("expert_tasks", 0)
    first = _trainer({"name": _cloner(trainer), **config["cloner"]}) if "cloner" in config else _trainer(trainer)
    if not number:
        return {"trainer": first if experts else ""}
    return {"trainer": _trainer(trainer), "Agent_v0": first if experts and "cloner" in config else ""}


def _sequence(config: Mapping[str, Any], stage: Mapping[str, Any] | None) -> str:
    """Name the worlds that were learnt one after another up to a round; empty for other runs."""
    if not stage:
        return ""
    learnt = ", then ".join(map(_short, config["env"][: stage["number"] + 1]))
    ratio = config.get("replay_ratio")
    return f"{learnt}, of {len(config['env'])} worlds" + (f"; replay ratio {ratio:g}" if ratio else "")


def _cloner(trainer: Any) -> str:
    with suppress(AgentGymError):
        return str(info_of(registry.load("agentgym.trainers", trainer["name"])).warm_start or trainer["name"])
    return "cloner"


def _episodes(config: Mapping[str, Any], number: int) -> dict[str, str]:
    """Describe the episodes that a round learnt from: expert, exploration and selection."""
    thoughts = "with" if config.get("expert_thoughts") else "without"
    explored = "{explore_tasks} tasks a round, {attempts} attempts each, temperature {temperature}"
    with suppress(KeyError):
        return {
            "expert": f"{config['expert']}, {config['expert_tasks']} tasks a world, {thoughts} thoughts"
            if config["expert_tasks"] else "",
            "exploration": explored.format_map(config) if number else "",
            "curriculum": _format_settings({key: config.get(key) for key in ("curriculum", "levels", "horizon")})
            if number else "",
            "selection": _format_settings({key: config.get(key) for key in _SELECTION})
            if number else "",
        }  # fmt: skip
    return {}


def _when(provenance: Mapping[str, Any]) -> dict[str, Any]:
    packages = provenance.get("packages", {})
    return {
        "started": provenance.get("started"),
        "made with": ", ".join(f"{name} {version}" for name, version in packages.items()),
    }


def _path_settings(trainer: Any) -> Iterator[tuple[str, str]]:
    """Yield the settings of a trainer that may be paths."""
    for key, value in trainer.items() if isinstance(trainer, Mapping) else ():
        if isinstance(value, str) and os.sep in value:
            yield key, value


def _name(path: Any) -> str:
    """Return the name of the origin of a path, or the path without the folders of this machine."""
    origin = origin_of(str(path))
    return origin.name if origin else _short(path)


def _short(name: Any) -> str:
    """Return a name without the folders of this machine."""
    text = str(name)
    if "://" in text:
        return "(an address)"
    path = Path(text)
    local = path.is_absolute() or text.startswith((".", "~")) or (os.sep in text and path.exists())
    return path.name if local else text


def _format_settings(value: Any) -> str:
    """Return settings in a line: `kind grpo, select (threshold 1.0, dedupe True)`."""
    if isinstance(value, Mapping):
        texts = {key: _format_settings(part) for key, part in value.items() if part not in (None, {}, [])}
        nested = {key: f"({text})" if isinstance(value[key], Mapping) else text for key, text in texts.items()}
        return ", ".join(f"{_short(key)} {text}" for key, text in nested.items())
    return ", ".join(map(_format_settings, value)) if isinstance(value, list | tuple) else _short(value)


def _trainer(trainer: Any) -> str:
    """Return `grpo (kind grpo, group_size 8, …)`."""
    if not isinstance(trainer, Mapping):
        return str(trainer)
    rest = _format_settings({key: value for key, value in trainer.items() if key != "name"})
    return f"{trainer.get('name')} ({rest})" if rest else str(trainer.get("name"))


def _rank(run: RunFolder, number: int) -> str:
    last = max(run.finished_rounds())
    best = number == run.best_round(last)
    return f"the best of 0 to {last} by valid success" if best else f"of 0 to {last}, not the best"


def _evaluations(run: RunFolder, number: int) -> dict[str, Any]:
    """Return the round's greedy results on held-out tasks, by split."""
    tested = _tested_rounds(run)
    return {"valid": run.metrics(number)["valid"]} | ({"test": tested[str(number)]} if str(number) in tested else {})


def _tested_rounds(run: RunFolder) -> dict[str, Any]:
    """Return the test results by round; none of an unfinished run."""
    return dict(run.read_json("test.json")["rounds"]) if run.finished else {}


def _results(run: RunFolder, number: int) -> list[str]:
    """Return a table of the round's results, and of Agent_v0's on the test split."""
    summaries, tested = _evaluations(run, number), _tested_rounds(run)
    summaries |= {"test, Agent_v0": tested["0"]} if "0" in tested and number else {}
    rows = [
        f"| {split} | {summary['success']['n']} | {format_rate(read_estimate(summary['success']))} "
        f"| {format_mean(read_estimate(summary['reward']))} | {summary['steps']:.1f} |"
        for split, summary in summaries.items()
    ]
    header = "| split | tasks | success [95 %] | reward [95 %] | steps |"
    return ["## Held-out tasks", "", header, "|---|---|---|---|---|", *rows]
