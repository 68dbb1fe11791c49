"""`agentgym pipeline`: stages, each a command with a folder of its own; what one makes is the next one's input.

A stage is a command with the options that its config file would have. What it does not say of model and data comes from
the stages before it; `$NAME` in its place is the product of the stage of that name.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from agentgym_py.cli import module
from agentgym_py.cli.common import read_cloner, read_trainer, trainer_class
from agentgym_py.cli.evolve import evolve_config
from agentgym_py.cli.parser import (
    UsageError,
    add_options,
    as_plain,
    explain,
    load_yaml,
    meant,
    new_parser,
    read_options,
)
from agentgym_py.cli.train import interrupted, states_in
from agentgym_py.errors import AgentGymError, UnknownNameError, did_you_mean
from agentgym_py.runs import RunFolder, finite

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace

KINDS = {
    "sft": "train", "collect": "collect", "reward_model": "train", "rl": "evolve", "evaluate": "eval",
    "export": "export",
}  # fmt: skip
"""The command that a stage of each kind runs; an `sft` without data is `evolve` without rounds, on an expert's."""
_POLICIES = ("sft", "rl")
_KEYS = {"out", "defaults", "stages"}
_OWN = {"out", "resume", "config", "manifest", "print_config", "json"}
"""Options that the pipeline gives itself."""


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """The pipeline."""

    out: str | None = None
    """Folder that gets a folder a stage; by default the file's `out`. One that this file began is gone on with."""
    list: bool = False
    """Show the stages, what each gets and how far the pipeline is, and run nothing."""


class Stage(NamedTuple):
    """One stage of a file."""

    name: str
    kind: str
    command: str
    settings: dict[str, Any]
    """What its command gets, `out` and the products of earlier stages still to be put in."""
    folder: str
    """Its name among those of the pipeline."""


def options(parser: ArgumentParser, argv: Sequence[str]) -> None:
    """Add what `pipeline` takes."""
    del argv
    parser.usage = "agentgym pipeline FILE [options]"
    parser.add_argument("file", metavar="FILE", help="YAML: the stages; see docs/pipeline.md and examples/pipelines.")
    add_options(parser, PipelineOptions)


def run(given: Namespace) -> int:
    """Run what is not done yet, stage by stage; the first status that is not 0 ends it."""
    chosen, file = read_options(PipelineOptions, given), given["file"]
    held = _read(file)
    stages = list(_stages(held, file))
    for stage in stages:
        _check(stage)
    where = chosen.out or held.get("out")
    if not where:
        raise UsageError(f"--out DIR wanted, or `out: DIR` in {file}")
    pipeline = Pipeline(RunFolder(Path(where)), stages, file)
    if chosen.list:
        pipeline.show()
        return 0
    return pipeline.run()


# ------------------------------------------------------------------------------------------------------------ the file


def _read(file: str) -> dict[str, Any]:
    try:
        held = load_yaml(Path(file).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is no YAML: {error}") from error
    if not isinstance(held, dict) or not isinstance(held.get("stages"), list) or not held["stages"]:
        raise UsageError(f"{file} holds no pipeline: wanted is a mapping with a list of `stages`")
    if wrong := next((key for key in held if key not in _KEYS), None):
        raise UsageError(f"{file}: no key {wrong!r}{meant(str(wrong), _KEYS)}; there are {', '.join(sorted(_KEYS))}")
    if not isinstance(held.get("defaults", {}), dict):
        raise UsageError(f"{file}: defaults must be a mapping of options")
    return held


def _stages(held: Mapping[str, Any], file: str) -> Iterator[Stage]:
    """The stages, with what they say and the defaults that their commands take; references are checked."""
    defaults, taken, before = dict(held.get("defaults", {})), set[str](), list[Stage]()
    for number, row in enumerate(held["stages"], 1):
        if not isinstance(row, dict) or "stage" not in row:
            raise UsageError(f"{file}: stage {number} is no mapping with `stage: KIND`; kinds: {', '.join(KINDS)}")
        kind, name = str(row["stage"]), str(row.get("name", row["stage"]))
        if kind not in KINDS:
            raise UsageError(f"{file}: no kind of stage {kind!r}{meant(kind, KINDS)}; there are {', '.join(KINDS)}")
        if not name.replace("_", "").replace("-", "").isalnum() or name in [each.name for each in before]:
            raise UsageError(
                f"{file}: stage {number} needs a name of its own, of letters, digits, - and _; got {name!r}"
            )
        settings = {key: value for key, value in row.items() if key not in ("stage", "name")}
        settings |= {key: value for key, value in _inputs(kind, settings, before).items() if key not in settings}
        command = "evolve" if kind == "sft" and "data" not in settings else KINDS[kind]
        if command == "evolve" and kind == "sft":
            settings = {"rounds": 0, "test_tasks": 0, **settings}
        known = {action.dest.partition(".")[0] for action in _parser(command, settings | defaults)._actions} - _OWN
        taken |= known
        known -= {"model"} if "agent" in settings else set()
        settings = {**{key: value for key, value in defaults.items() if key in known}, **settings}
        stage = Stage(name, kind, command, settings, f"{number:02d}-{name}")
        _products(settings, {each.name: "" for each in before})
        before.append(stage)
        yield stage
    if left := next((key for key in defaults if key not in taken), None):
        raise UsageError(f"{file}: no stage takes the default {left!r}{meant(str(left), taken)}")


def _inputs(kind: str, settings: Mapping[str, Any], before: Sequence[Stage]) -> dict[str, Any]:
    """What a stage gets of those before it: the last policy, the last trajectories."""
    policy = next((f"${each.name}" for each in reversed(before) if each.kind in _POLICIES), None)
    played = next((f"${each.name}" for each in reversed(before) if each.kind == "collect"), None)
    found: dict[str, Any] = {}
    if policy and "agent" not in settings:
        found["what" if kind == "export" else "model"] = policy
    if played and kind in ("sft", "reward_model"):
        found["data"] = played
    if kind == "reward_model":
        found["trainer"] = {"name": "reward_model"}
    if policy and kind == "rl":
        found["expert_tasks"] = 0
    return found


def _products(value: Any, products: Mapping[str, str]) -> Any:
    """`value` with the product of a stage in the place of `$NAME`."""
    if isinstance(value, Mapping):
        return {key: _products(each, products) for key, each in value.items()}
    if isinstance(value, list):
        return [_products(each, products) for each in value]
    if not (isinstance(value, str) and value.startswith("$")):
        return value
    if value[1:] not in products:
        hint = did_you_mean(value[1:], products, "Before it stand")
        raise UnknownNameError(f"{value} is the product of no stage before the one that wants it.{hint}")
    return products[value[1:]]


def _parser(command: str, settings: Mapping[str, Any]) -> ArgumentParser:
    """The command's parser, for the trainer and the preset that are wanted."""
    trainer = settings.get("trainer")
    name = trainer.get("name") if isinstance(trainer, Mapping) else trainer
    argv = [word for key, value in (("--trainer.name", name), ("--preset", settings.get("preset"))) if value
            for word in (key, str(value))]  # fmt: skip
    parser = new_parser(f"agentgym {command}", "")
    module(command).options(parser, argv)
    return parser


def _parsed(stage: Stage, settings: Mapping[str, Any]) -> Namespace:
    """The settings as the command line would give them to the command."""
    parser = _parser(stage.command, settings)
    known = {action.dest for action in parser._actions} - _OWN
    try:
        found: Namespace = parser.parse_object(dict(settings))
    except AgentGymError:
        raise
    except Exception as error:  # jsonargparse's own are many
        raise UsageError(explain(str(error), sorted(f"--{each}" for each in known), [])) from error
    return found


def _trainer(stage: Stage) -> type:
    """The class of the trainer that a stage of training has."""
    return trainer_class(_parsed(stage, stage.settings)["trainer.name"])


def _check(stage: Stage) -> None:
    """Complain of wrong settings before any stage runs."""
    try:
        if wrong := next((key for key in stage.settings if key in _OWN), None):
            raise UsageError(f"{wrong} is not a stage's to say")
        given = _parsed(stage, stage.settings)
        if "trainer" in given:
            read_trainer(given)
        if stage.command == "evolve":
            evolve_config(given)
            read_cloner(given)
    except AgentGymError as error:
        raise UsageError(f"stage {stage.name}: {error}") from error


# ------------------------------------------------------------------------------------------------------------- the run


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A file's stages in their folder, which holds `pipeline.json` (what was begun, and what is done) beside theirs."""

    folder: RunFolder
    stages: Sequence[Stage]
    file: str

    def run(self) -> int:
        """Go on from where the folder stands."""
        state = self._state()
        self.folder.path.mkdir(parents=True, exist_ok=True)
        with self.folder.locked():
            self.folder.write_json("pipeline.json", state)
            for number, stage in enumerate(self.stages, 1):
                head = f"stage {number} of {len(self.stages)}, {stage.name}"
                if stage.name in state["done"]:
                    print(f"{head}: done before", flush=True)
                    continue
                print(f"{head}: agentgym {stage.command}, {self.folder.path / stage.folder}", flush=True)
                began = time.monotonic()
                if status := self._run(stage):
                    print(f"stopped in stage {stage.name}; the same command goes on from there", file=sys.stderr)
                    return status
                state["done"][stage.name] = {"seconds": time.monotonic() - began}
                self.folder.write_json("pipeline.json", state)
        print(f"{self.folder.path}: all {len(self.stages)} stages are done")
        return 0

    def show(self) -> None:
        """The stages, and how far they are."""
        done = self._state()["done"]
        for number, stage in enumerate(self.stages, 1):
            settings = yaml.safe_dump(as_plain(stage.settings), default_flow_style=True, width=10**6, sort_keys=False)
            print(f"{number}. {stage.name}{' (done)' * (stage.name in done)}: agentgym {stage.command}, {stage.folder}")
            print(f"   {settings.strip()}")

    def _state(self) -> dict[str, Any]:
        """What stands in the folder; refused where another file, or nothing of a pipeline, made it."""
        path = self.folder.path
        mine = [finite({"name": s.name, "command": s.command, "settings": as_plain(s.settings)}) for s in self.stages]
        if not (path / "pipeline.json").is_file():
            if path.exists() and (not path.is_dir() or any(each.name != ".lock" for each in path.iterdir())):
                raise UsageError(f"--out {path} already holds other files, and no pipeline")
            return {"stages": mine, "done": {}}
        state = self.folder.read_json("pipeline.json")
        theirs = state["stages"]
        if theirs != mine:
            pairs = zip(theirs + [None] * len(mine), mine + [None] * len(theirs), strict=False)
            first = next((new or old)["name"] for old, new in pairs if old != new)
            raise UsageError(
                f"{path} was begun by another pipeline than {self.file} says now: its stage {first} differs; put the "
                "file back as it was, or give a new --out"
            )
        return state

    def _run(self, stage: Stage) -> int:
        target = self.folder.path / stage.folder
        going_on = stage.command == "evolve" and (target / "run.yaml").is_file()
        try:
            if going_on:
                given = _resumed(target)
            else:
                if not (stage.command == "train" and interrupted(target, states_in(_trainer(stage)))):
                    shutil.rmtree(target, ignore_errors=True)  # an interrupted stage's: those that are done are not run
                settings = _products(stage.settings, self._made())
                given = _parsed(stage, settings | {"out": str(_out(stage, target))})
            return int(module(stage.command).run(given))
        except AgentGymError as error:
            raise type(error)(f"stage {stage.name}: {error}") from error

    def _made(self) -> dict[str, str]:
        """The product of each stage, or where it will be."""
        return {stage.name: _product(stage, self.folder.path / stage.folder) for stage in self.stages}


def _resumed(folder: Path) -> Namespace:
    parser = new_parser("agentgym evolve", "")
    module("evolve").options(parser, ["--resume", str(folder)])
    given: Namespace = parser.parse_object({"resume": str(folder)})
    return given


def _out(stage: Stage, target: Path) -> Path:
    """What a stage's command is told to write."""
    return target / "trajectories.jsonl" if stage.kind == "collect" else target


def _product(stage: Stage, target: Path) -> str:
    """What others get of a stage: a policy's best checkpoint, trajectories, what a trainer made, or its folder."""
    from agentgym_py.publish import find
    from agentgym_py.trainer import product

    if stage.kind in _POLICIES:
        return str(find(str(target)).weights) if target.is_dir() else ""
    if stage.kind == "reward_model":
        return str(target / product(_trainer(stage)))
    return str(_out(stage, target))
