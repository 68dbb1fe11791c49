"""The stages of a pipeline's file: what each gets of those before it, and what is wrong with it before any runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from agentgym_py.cli import module
from agentgym_py.cli.parser import Parser, UsageError, suggestion
from agentgym_py.cli.runtime import require_model_files
from agentgym_py.cli.trainer_options import trainer_class
from agentgym_py.cli.values import as_list, load_yaml
from agentgym_py.errors import AgentGymError, UnknownNameError, did_you_mean
from agentgym_py.training import tracking
from agentgym_py.training.trainer import info_of, require_policy_trainer

if TYPE_CHECKING:
    from agentgym_py.cli.parser import Values

KINDS = {
    "sft": "train", "collect": "collect", "reward_model": "train", "rl": "evolve", "evaluate": "eval",
    "export": "export",
}  # fmt: skip
"""The command that a stage of each kind runs; an `sft` without data is `evolve` without rounds, on an expert's."""
POLICIES = ("sft", "rl")
_KEYS = {"out", "defaults", "stages"}
_OWN = {"out", "resume", "config", "manifest", "print_config", "json"}
"""Options that the pipeline gives itself."""
_MADE = {
    "sft": "policy", "rl": "policy", "export": "policy", "collect": "trajectories", "evaluate": "evaluation",
}  # fmt: skip
"""What stages of a kind make, where it is not their trainer that says it."""
_INPUTS = {
    "model": "policy", "data": "trajectories", "reward_model": "reward_model", "prm": "process_reward",
}  # fmt: skip
"""Settings that name a file or a folder, and what that must be."""


class Stage(NamedTuple):
    """One stage of a file."""

    name: str
    kind: str
    command: str
    settings: dict[str, Any]
    """What its command gets, `out` and the products of earlier stages still to be put in."""
    folder: str
    """Its name among those of the pipeline."""

    @property
    def trainer(self) -> type:
        """The class of the trainer that a stage of training has."""
        return trainer_class(parsed(self, self.settings)["trainer.name"])

    @property
    def makes(self) -> str:
        """What its product is."""
        return _MADE.get(self.kind) or info_of(self.trainer).output


# ------------------------------------------------------------------------------------------------------------ the file


def read_file(file: str) -> dict[str, Any]:
    """What a pipeline's file says, of the right form."""
    try:
        held = load_yaml(Path(file).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is no YAML: {error}") from error
    if not isinstance(held, dict) or not isinstance(held.get("stages"), list) or not held["stages"]:
        raise UsageError(f"{file} holds no pipeline: wanted is a mapping with a list of `stages`")
    if wrong := next((key for key in held if key not in _KEYS), None):
        raise UsageError(
            f"{file}: no key {wrong!r}; there are {', '.join(sorted(_KEYS))}{suggestion(str(wrong), _KEYS)}"
        )
    held = {key: value for key, value in held.items() if value is not None}
    if not isinstance(held.get("defaults", {}), dict):
        raise UsageError(f"{file}: defaults must be a mapping of options")
    if not isinstance(held.get("out", ""), str):
        raise UsageError(f"{file}: out must be a folder's name, got {held['out']!r}")
    return held


def stages_of(held: Mapping[str, Any], file: str) -> list[Stage]:
    """The stages, with what they say and the defaults that their commands take; references are checked."""
    defaults, taken, found = _spelled(held.get("defaults", {})), set[str](), list[Stage]()
    for number, row in enumerate(held["stages"], 1):
        if not isinstance(row, dict) or "stage" not in row:
            raise UsageError(f"{file}: stage {number} is no mapping with `stage: KIND`; kinds: {', '.join(KINDS)}")
        kind, name = str(row["stage"]), str(row.get("name", row["stage"]))
        if kind not in KINDS:
            raise UsageError(
                f"{file}: no kind of stage {kind!r}; there are {', '.join(KINDS)}{suggestion(kind, KINDS)}"
            )
        if not name.replace("_", "").replace("-", "").isalnum() or name in [each.name for each in found]:
            raise UsageError(
                f"{file}: stage {number} needs a name of its own, of letters, digits, - and _; got {name!r}"
            )
        own = {key: value for key, value in _spelled(row).items() if key not in ("stage", "name")}
        with _in_stage(f"{file}: stage {name}"):
            command, settings, known = _settings(kind, own, defaults, found)
            put_in(settings, {each.name: "" for each in found})
        taken |= known
        found.append(Stage(name, kind, command, settings, f"{number:02d}-{name}"))
    if left := next((key for key in defaults if key not in taken), None):
        raise UsageError(f"{file}: no stage takes the default {left!r}{suggestion(str(left), taken)}")
    return found


def _spelled(args: Mapping[Any, Any]) -> dict[str, Any]:
    """Options with `trainer: NAME` written out, as a command's own file may have it."""
    trainer = {"trainer": {"name": args["trainer"]}} if isinstance(args.get("trainer"), str) else {}
    return {str(key): value for key, value in args.items()} | trainer


@contextmanager
def _in_stage(where: str) -> Iterator[None]:
    """A complaint says where in the file it belongs."""
    try:
        yield
    except AgentGymError as error:
        raise UsageError(f"{where}: {error}") from error


def _settings(
    kind: str, own: dict[str, Any], defaults: Mapping[str, Any], before: Sequence[Stage]
) -> tuple[str, dict[str, Any], set[str]]:
    """A stage's command, what that gets, and which settings it knows."""
    settings = {**own, **{key: value for key, value in _inputs(kind, own, before).items() if key not in own}}
    command = "evolve" if kind == "sft" and "data" not in settings else KINDS[kind]
    if command == "evolve" and kind == "sft":
        settings = {"rounds": 0, **settings}  # what makes it an sft; `rounds` in the defaults are those of an rl stage
        defaults = {"test_tasks": 0, **defaults}
    known = {name.partition(".")[0] for name in _parser(command, {**defaults, **settings}).options} - _OWN
    wanted = known - ({"model"} if "agent" in settings else set())
    return command, {**{key: value for key, value in defaults.items() if key in wanted}, **settings}, known


def _inputs(kind: str, own: Mapping[str, Any], before: Sequence[Stage]) -> dict[str, Any]:
    """What a stage gets of those before it: the last policy, the last trajectories."""
    policy = next((f"${each.name}" for each in reversed(before) if each.kind in POLICIES), None)
    played = next((f"${each.name}" for each in reversed(before) if each.kind == "collect"), None)
    found: dict[str, Any] = {}
    if policy and "agent" not in own:
        found["model"] = policy
    if played and kind in ("sft", "reward_model"):
        found["data"] = played
    if kind == "reward_model":
        found["trainer"] = {"name": "reward_model"}
    if policy and kind == "rl" and str(own.get("model", policy)).startswith("$"):
        found["expert_tasks"] = 0  # a base of its own has learnt nothing yet
    return found


def put_in(value: Any, products: Mapping[str, str]) -> Any:
    """`value` with the product of a stage in the place of `$NAME`."""
    if isinstance(value, Mapping):
        return {key: put_in(each, products) for key, each in value.items()}
    if isinstance(value, list):
        return [put_in(each, products) for each in value]
    if not (isinstance(value, str) and value.startswith("$")):
        return value
    if value[1:] not in products:
        hint = did_you_mean(value[1:], products, "Before it stand")
        raise UnknownNameError(f"{value} is the product of no stage before the one that wants it.{hint}")
    return products[value[1:]]


def _parser(command: str, settings: Mapping[str, Any]) -> Parser:
    """The command's parser, for the trainer and the preset that are wanted."""
    trainer = settings.get("trainer")
    name = trainer.get("name") if isinstance(trainer, Mapping) else trainer
    argv = [word for key, value in (("--trainer.name", name), ("--preset", settings.get("preset"))) if value
            for word in (key, str(value))]  # fmt: skip
    parser = Parser(f"agentgym {command}")
    module(command).options(parser, argv)
    return parser


def parsed(stage: Stage, settings: Mapping[str, Any]) -> Values:
    """The settings as the command line would give them to the command."""
    return _parser(stage.command, settings).read_mapping(settings, "")


# ----------------------------------------------------------------------------------------------------------- the check


def check(stage: Stage, stages: Sequence[Stage], file: str) -> None:
    """Complain of what the stage's command would refuse, and of inputs that are not there, before any stage runs."""
    with _in_stage(f"{file}: stage {stage.name}"):
        if wrong := next((key for key in stage.settings if key in _OWN), None):
            raise UsageError(f"{wrong} is not a stage's to say")
        args = parsed(stage, _without_products(stage.settings))
        _check_inputs(stage.settings, {each.name: each for each in stages})
        read = module(stage.command).read
        if stage.command == "evolve":
            read(args, args)
        else:
            read(args)
        tracking.need(args.get("track"))
        _check_trainer(stage)
        _check_model(stage, args)


def _without_products(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without what a trainer gets of earlier stages: nothing is there yet to look at."""
    return {
        key: {name: one for name, one in value.items() if not str(one).startswith("$")}
        if isinstance(value, Mapping) else value for key, value in settings.items()
    }  # fmt: skip


def _check_trainer(stage: Stage) -> None:
    """What a stage makes is what those after it take it for."""
    if stage.kind in POLICIES:
        require_policy_trainer(stage.trainer)
    elif stage.kind == "reward_model" and stage.makes == "policy":
        raise UsageError("the trainer makes a policy; wanted is one of a reward model: reward_model, process_reward")


def _check_model(stage: Stage, args: Values) -> None:
    """A model that is not the product of a stage must be there."""
    from agentgym_py.report.export import find

    model = str(args["model"])
    if not model or model.startswith("$") or args.get("agent") not in (None, "model"):
        return
    if stage.kind == "export":
        find(model, args["round"])
    else:
        require_model_files(model)


def _check_inputs(settings: Mapping[str, Any], stages: Mapping[str, Stage]) -> None:
    """What settings name is there, or is what the stage that they name makes."""
    for key, value in settings.items():
        if isinstance(value, Mapping) and not key.endswith("_kwargs"):
            _check_inputs(value, stages)
        elif key in _INPUTS and isinstance(value, str | list):
            for name in as_list(value):
                _check_input(key, name, stages if name == value or isinstance(value, list) else {})


def _check_input(key: str, name: str, stages: Mapping[str, Stage]) -> None:
    wanted = _INPUTS[key]
    if name.startswith("$") and name[1:] in stages:
        if (made := stages[name[1:]].makes) != wanted:
            raise UsageError(f"{key} must be of a stage that makes a {wanted}, and {name} makes a {made}")
    elif key == "data" and not Path(name).exists():
        raise UsageError(f"{key}: there is no file {name!r}")
    elif key not in ("data", "model") and not (Path(name) / f"{wanted}.json").is_file():
        raise UsageError(f"{key}: {name!r} holds no {wanted} ({wanted}.json is not there)")
