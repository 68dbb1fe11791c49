"""The stages of a pipeline file: their inputs from earlier stages, and checks before any stage runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from agentgym_py.cli import build_parser, command_module
from agentgym_py.cli.parser import UsageError, Values, read_yaml, suggestion
from agentgym_py.cli.runtime import require_model_files
from agentgym_py.cli.trainer_options import trainer_class
from agentgym_py.cli.values import as_list, expand_plugins, plugin_names
from agentgym_py.errors import AgentGymError, UnknownNameError, did_you_mean
from agentgym_py.training import tracking
from agentgym_py.training.trainer import info_of, require_policy_trainer

KINDS = {
    "sft": "train", "collect": "collect", "judge": "judge", "reward_model": "train", "rl": "evolve",
    "evaluate": "eval", "export": "export",
}  # fmt: skip
"""The command of each kind of stage. An `sft` without data is `evolve` without rounds, on the expert's episodes."""
POLICIES = ("sft", "rl")
_KEYS = {"out", "defaults", "stages"}
_RESERVED = {"out", "resume", "config", "manifest", "print_config", "json"}
"""Options that the pipeline sets itself."""
_PRODUCTS = {
    "sft": "policy", "rl": "policy", "export": "policy", "collect": "trajectories", "judge": "feedback",
    "evaluate": "evaluation",
}  # fmt: skip
"""The product of each kind of stage, unless its trainer determines it."""
_INPUTS = {
    "model": "policy", "data": "trajectories", "feedback": "feedback", "reward_model": "reward_model",
    "prm": "process_reward",
}  # fmt: skip
"""Settings that name a file or a folder, with the product that they need."""


class Stage(NamedTuple):
    """One stage of a pipeline."""

    name: str
    kind: str
    command: str
    settings: dict[str, Any]
    """Settings of its command, with `$NAME` for products of earlier stages and without `out`."""
    folder: str
    """Name of its folder in that of the pipeline."""

    @property
    def trainer(self) -> type:
        """Return the class of its trainer."""
        return trainer_class(parse_settings(self, self.settings)["trainer.name"])

    @property
    def product_kind(self) -> str:
        """Return the kind of its product."""
        return _PRODUCTS.get(self.kind) or info_of(self.trainer).output


# ------------------------------------------------------------------------------------------------------------ the file


def read_file(file: str) -> dict[str, Any]:
    """Read a pipeline file and check its form."""
    content = read_yaml(file)
    if not isinstance(content, dict) or not isinstance(content.get("stages"), list):
        raise UsageError(f"{file}: expected a mapping with a list of `stages`")
    if not content["stages"]:
        raise UsageError(f"{file}: `stages` is empty; a stage has one of the kinds {', '.join(KINDS)}")
    for key in content:
        if key not in _KEYS:
            keys = ", ".join(sorted(_KEYS))
            raise UsageError(f"{file}: no key {key!r}; the keys are {keys}{suggestion(str(key), _KEYS)}")
    content = {key: value for key, value in content.items() if value is not None}
    if not isinstance(content.get("defaults", {}), dict):
        raise UsageError(f"{file}: defaults must be a mapping of options")
    if not isinstance(content.get("out", ""), str):
        raise UsageError(f"{file}: out must be a folder's name, got {content['out']!r}")
    return content


def read_stages(content: Mapping[str, Any], file: str) -> list[Stage]:
    """Return the stages with their settings, defaults and inputs; references to stages are checked."""
    defaults, used, stages = _expand(content.get("defaults", {})), set[str](), list[Stage]()
    for number, row in enumerate(content["stages"], 1):
        if not isinstance(row, dict) or "stage" not in row:
            raise UsageError(f"{file}: stage {number} must be a mapping with `stage: KIND`; kinds: {', '.join(KINDS)}")
        kind, name = str(row["stage"]), str(row.get("name", row["stage"]))
        if kind not in KINDS:
            raise UsageError(
                f"{file}: no kind of stage {kind!r}; choose from {', '.join(KINDS)}{suggestion(kind, KINDS)}"
            )
        if not name.replace("_", "").replace("-", "").isalnum():
            raise UsageError(f"{file}: stage {number} needs a name of letters, digits, - and _; got {name!r}")
        if name in [stage.name for stage in stages]:
            raise UsageError(f"{file}: stage {number} is the second one called {name!r}; give it a `name` of its own")
        given = {key: value for key, value in _expand(row).items() if key not in ("stage", "name")}
        with _naming_stage(f"{file}: stage {name}"):
            command, settings, options = _settings(kind, given, defaults, stages)
            substitute(settings, {stage.name: "" for stage in stages})
        used |= options
        stages.append(Stage(name, kind, command, settings, f"{number:02d}-{name}"))
    for key in defaults:
        if key not in used:
            raise UsageError(f"{file}: no stage takes the default {key!r}{suggestion(str(key), used)}")
    return stages


def _expand(settings: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key): value for key, value in expand_plugins(settings).items()}


@contextmanager
def _naming_stage(where: str) -> Iterator[None]:
    """Begin errors with their place in the file."""
    try:
        yield
    except AgentGymError as error:
        raise UsageError(f"{where}: {error}") from error


def _settings(
    kind: str, given: dict[str, Any], defaults: Mapping[str, Any], before: Sequence[Stage]
) -> tuple[str, dict[str, Any], set[str]]:
    """Return a stage's command, its settings, and the options that the command has."""
    settings = given | _inputs(kind, given, before) | given
    command = "evolve" if kind == "sft" and "data" not in settings else KINDS[kind]
    if command == "evolve" and kind == "sft":
        settings = {"rounds": 0, **settings}  # before the defaults, whose `rounds` are for rl stages
        defaults = {"test_tasks": 0, **defaults}
    argv = _argv({**defaults, **settings})
    options = {name.partition(".")[0] for name in build_parser(command, argv).options} - _RESERVED
    usable = options - ({"model"} if "agent" in settings else set())
    return command, {**{key: value for key, value in defaults.items() if key in usable}, **settings}, options


def _inputs(kind: str, given: Mapping[str, Any], before: Sequence[Stage]) -> dict[str, Any]:
    """Return the inputs of a stage from those before it: the last policy, trajectories and feedback on these."""
    policy = next((f"${stage.name}" for stage in reversed(before) if stage.kind in POLICIES), None)
    data = next((f"${stage.name}" for stage in reversed(before) if stage.kind == "collect"), None)
    inputs: dict[str, Any] = {}
    if policy and kind != "judge" and "agent" not in given:
        inputs["model"] = policy
    if data and kind in ("sft", "reward_model", "judge"):
        inputs["data"] = data
    last = next((stage for stage in reversed(before) if stage.kind in ("collect", "judge")), None)
    if data and last and last.kind == "judge" and kind in ("sft", "reward_model") and "data" not in given:
        inputs["feedback"] = f"${last.name}"
    if kind == "reward_model":
        inputs["trainer"] = {"name": "reward_model"}
    if policy and kind == "rl" and str(given.get("model", policy)).startswith("$"):
        inputs["expert_tasks"] = 0  # another base would need demonstrations first
    return inputs


def substitute(value: Any, products: Mapping[str, str]) -> Any:
    """Replace `$NAME` by the product of that stage, also within mappings and lists."""
    if isinstance(value, Mapping):
        return {key: substitute(item, products) for key, item in value.items()}
    if isinstance(value, list):
        return [substitute(item, products) for item in value]
    if not (isinstance(value, str) and value.startswith("$")):
        return value
    if value[1:] not in products:
        hint = did_you_mean(value[1:], products, "Earlier stages are")
        raise UnknownNameError(f"{value} names no earlier stage.{hint}")
    return products[value[1:]]


def _argv(settings: Mapping[str, Any]) -> list[str]:
    """Return the options on which other options depend."""
    options = {f"{group}.name": name for group, name in plugin_names(settings).items()}
    options |= {"preset": settings["preset"]} if settings.get("preset") else {}
    options |= {"env": ",".join(map(str, as_list(settings["env"])))} if settings.get("env") else {}
    options |= {"env_kwargs": ""} if settings.get("env_kwargs") else {}  # that there are some decides defaults, too
    return [word for option, value in options.items() for word in (f"--{option}", str(value))]


def parse_settings(stage: Stage, settings: Mapping[str, Any]) -> Values:
    """Return the values that a stage's command gets."""
    return build_parser(stage.command, _argv(settings)).read_mapping(settings, "")


# ----------------------------------------------------------------------------------------------------------- the check


def require_valid(stage: Stage, stages: Sequence[Stage], file: str) -> None:
    """Raise the errors of a stage's command, and errors of missing inputs, before any stage runs."""
    with _naming_stage(f"{file}: stage {stage.name}"):
        for key in stage.settings:
            if key in _RESERVED:
                raise UsageError(f"{key} is set by the pipeline; remove it from the stage")
        args = parse_settings(stage, _without_products(stage.settings))
        _require_inputs(stage.settings, {other.name: other for other in stages})
        read_plan = command_module(stage.command).read_plan
        if stage.command == "evolve":
            read_plan(args, args)
        else:
            read_plan(args)
        tracking.require_service(args.get("track"))
        _require_product(stage)
        _require_model(stage, args)


def _without_products(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the trainer's settings that come from earlier stages, because they do not exist yet."""
    return {
        key: {name: item for name, item in value.items() if not str(item).startswith("$")}
        if isinstance(value, Mapping) else value for key, value in settings.items()
    }  # fmt: skip


def _require_product(stage: Stage) -> None:
    """Raise an error if the trainer's output does not fit the kind of the stage."""
    if stage.kind in POLICIES:
        require_policy_trainer(stage.trainer)
    elif stage.kind == "reward_model" and stage.product_kind == "policy":
        raise UsageError("the trainer makes a policy; use one that makes a reward model: reward_model, process_reward")


def _require_model(stage: Stage, args: Values) -> None:
    """Raise an error if the model does not exist and is not the product of a stage."""
    from agentgym_py.report.export import find_source

    model = str(args.get("model") or "")
    if not model or model.startswith("$") or args.get("agent") not in (None, "model"):
        return
    if stage.kind == "export":
        find_source(model, args["round"])
    else:
        require_model_files(model)


def _require_inputs(settings: Mapping[str, Any], stages: Mapping[str, Stage]) -> None:
    """Raise UsageError if an input does not exist, or is the wrong product of a stage."""
    for key, value in settings.items():
        if isinstance(value, Mapping) and not key.endswith("_kwargs"):
            _require_inputs(value, stages)
        elif key in _INPUTS and isinstance(value, str | list):
            for name in as_list(value):
                _require_input(key, name, stages if name == value or isinstance(value, list) else {})


def _require_input(key: str, name: str, stages: Mapping[str, Stage]) -> None:
    kind = _INPUTS[key]
    if name.startswith("$") and name[1:] in stages:
        product = stages[name[1:]].product_kind
        if product != kind:
            raise UsageError(f"{key} must be the {kind} of a stage, but {name} makes a {product}")
    elif key in ("data", "feedback") and not Path(name).exists():
        raise UsageError(f"{key}: {name}: no such file")
    elif key not in ("data", "feedback", "model") and not (Path(name) / f"{kind}.json").is_file():
        raise UsageError(f"{key}: {name!r} holds no {kind} ({kind}.json is missing)")
