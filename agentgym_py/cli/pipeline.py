"""`agentgym pipeline`: stages, each a command with a folder of its own; what one makes is the next one's input.

A stage is a command with the options that its config file would have. What it does not say of model and data comes from
the stages before it; `$NAME` in its place is the product of the stage of that name.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from agentgym_py.cli import module, nested_command, sigterm_as_interrupt, status_of
from agentgym_py.cli.parser import Parser, UsageError, read_options
from agentgym_py.cli.pipeline_file import POLICIES, Stage, check, parsed, put_in, read_file, stages_of
from agentgym_py.cli.train import interrupted, states_in
from agentgym_py.cli.values import as_plain
from agentgym_py.errors import AgentGymError, NothingToTrainOnError, RunError
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.files import json_safe, with_current_names

if TYPE_CHECKING:
    from agentgym_py.cli.parser import Values

_STATE = "pipeline.json"


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """The pipeline."""

    out: str | None = None
    """Folder that gets a folder a stage; by default the file's `out`. One that this file began is gone on with."""
    list: bool = False
    """Show the stages, what each gets and how far the pipeline is, and run nothing."""


def options(parser: Parser, argv: Sequence[str]) -> None:
    """Add what `pipeline` takes."""
    del argv
    parser.usage = "agentgym pipeline FILE [options]"
    parser.add_positional("file", "YAML: the stages; see docs/pipeline.md and examples/pipelines.")
    parser.add_dataclass(PipelineOptions)


def run(args: Values) -> int:
    """Run what is not done yet, stage by stage; the first status that is not 0 ends it."""
    chosen, file = read_options(PipelineOptions, args), args["file"]
    held = read_file(file)
    stages = stages_of(held, file)
    if not (where := chosen.out or held.get("out")):
        raise UsageError(f"--out DIR wanted, or `out: DIR` in {file}")
    pipeline = Pipeline(RunFolder(Path(where)), stages, file, chosen.out is not None)
    done = pipeline.state()["done"]
    for stage in stages:
        if stage.name not in done:
            check(stage, stages, file)
    if chosen.list:
        pipeline.show()
        return 0
    return pipeline.run()


# ------------------------------------------------------------------------------------------------------------- the run


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A file's stages in their folder, which holds `pipeline.json` (what was begun, and what is done) beside theirs."""

    folder: RunFolder
    stages: Sequence[Stage]
    file: str
    elsewhere: bool = False
    """Whether the folder is another than the file says."""

    def run(self) -> int:
        """Go on from where the folder stands."""
        state = self.state()
        self.folder.path.mkdir(parents=True, exist_ok=True)
        with self.folder.locked():
            self.folder.write_json(_STATE, state)
            for number, stage in enumerate(self.stages, 1):
                head = f"stage {number} of {len(self.stages)}, {stage.name}"
                if stage.name in state["done"]:
                    print(f"{head}: done before", flush=True)
                    continue
                print(f"{head}: agentgym {stage.command}, {self.folder.path / stage.folder}", flush=True)
                state["begun"][stage.folder] = state["stages"][number - 1]
                self.folder.write_json(_STATE, state)
                began = time.monotonic()
                try:
                    with sigterm_as_interrupt(), nested_command():
                        status = self._run(stage)
                except KeyboardInterrupt as stop:
                    print(file=sys.stderr)
                    status = status_of(stop)
                if status:
                    file = self.file + f" --out {self.folder.path}" * self.elsewhere
                    print(f"stopped in stage {stage.name}; agentgym pipeline {file} resumes there", file=sys.stderr)
                    return status
                if stage.command == "evolve" and _unimproved(self.folder.path / stage.folder):
                    print("no round was better on valid tasks than what it began with: that is its product", flush=True)
                state["done"][stage.name] = {"seconds": time.monotonic() - began}
                self.folder.write_json(_STATE, state)
        print(f"{self.folder.path}: all {len(self.stages)} stages are done")
        return 0

    def show(self) -> None:
        """The stages, and how far they are."""
        done = self.state()["done"]
        for number, stage in enumerate(self.stages, 1):
            settings = yaml.safe_dump(as_plain(stage.settings), default_flow_style=True, width=10**6, sort_keys=False)
            mark = " (done)" if stage.name in done else " (begun)" if self._goes_on(stage) else ""
            print(f"{number}. {stage.name}{mark}: agentgym {stage.command}, {stage.folder}")
            print(f"   {settings.strip()}")

    def state(self) -> dict[str, Any]:
        """What stands in the folder; refused where another file, or nothing of a pipeline, made it."""
        path = self.folder.path
        mine = [
            json_safe({"name": s.name, "command": s.command, "settings": as_plain(s.settings)}) for s in self.stages
        ]
        if not (path / _STATE).is_file():
            if path.exists() and (not path.is_dir() or any(each.name != ".lock" for each in path.iterdir())):
                raise UsageError(f"--out {path} already holds other files, and no pipeline")
            return {"stages": mine, "done": {}, "begun": {}}
        state = self.folder.read_json(_STATE)
        theirs = state.get("stages")
        if not (isinstance(theirs, list) and all(map(_is_stage, theirs)) and isinstance(state.get("done"), dict)):
            raise RunError(f"{path / _STATE} is damaged: it does not say what was begun; give a new --out")
        theirs = [stage | {"settings": with_current_names(stage.get("settings") or {})} for stage in theirs]
        begun = dict(state.get("begun") or {f"{n:02d}-{each['name']}": each for n, each in enumerate(theirs, 1)})
        self._check_changes(theirs, mine, state["done"], begun)
        if gone := next((s for s in self.stages if s.name in state["done"] and not (path / s.folder).is_dir()), None):
            raise UsageError(
                f"stage {gone.name} is done, but its folder {path / gone.folder} is not there: put it back, or give a "
                "new --out"
            )
        return {"stages": mine, "done": state["done"], "begun": begun}

    def _check_changes(
        self, theirs: Sequence[Any], mine: Sequence[Any], done: Mapping[str, Any], begun: Mapping[str, Any]
    ) -> None:
        """Refuse a file that differs from the one that the folder was begun by in a stage which is done, or begun."""
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(theirs, mine, strict=False)))
        if any(old["name"] in done for old in theirs[same:]):
            raise UsageError(
                f"{self.folder.path} was begun by another pipeline than {self.file} says now: its stage "
                f"{theirs[same]['name']} differs, and is done; put the file back as it was, or give a new --out"
            )
        for stage, new in zip(self.stages, mine, strict=True):
            if stage.name not in done and begun.get(stage.folder, new) != new and self._goes_on(stage):
                target = self.folder.path / stage.folder
                raise UsageError(
                    f"{target} was begun with other settings than {self.file} says now: move it away, and the stage "
                    "starts again with these, or restore the file"
                )

    def _goes_on(self, stage: Stage) -> bool:
        """Whether a stage that is not done resumes from its folder; else it restarts."""
        target = self.folder.path / stage.folder
        if stage.command == "evolve":
            return (target / "run.yaml").is_file()
        if stage.command == "eval":
            return (target / "manifest.json").is_file() and not (target / "result.json").is_file()
        return (target / "last_good").is_dir() or (
            stage.command == "train" and interrupted(target, states_in(stage.trainer))
        )

    def _run(self, stage: Stage) -> int:
        target = self.folder.path / stage.folder
        going_on = self._goes_on(stage)
        try:
            if going_on and stage.command == "evolve":
                args = _resumed(target)
            else:
                if (target / "last_good").is_dir():  # where it would go on it would go wrong again
                    raise RunError(
                        f"{target} holds last_good, what a training that went wrong left: move {target} away, and the "
                        f"stage starts again, with what {self.file} says then"
                    )
                if not going_on:
                    shutil.rmtree(target, ignore_errors=True)  # an interrupted stage's: those that are done are not run
                settings = put_in(stage.settings, self._made_before(stage))
                args = parsed(stage, settings | {"out": str(_out(stage, target))})
            return int(module(stage.command).run(args))
        except NothingToTrainOnError as error:
            advice = f"change the stage in {self.file}, move {target} away, and run the pipeline again"
            raise NothingToTrainOnError(f"stage {stage.name}: {error}; {advice}") from error
        except AgentGymError as error:
            raise type(error)(f"stage {stage.name}: {error}") from error

    def _made_before(self, stage: Stage) -> dict[str, str]:
        """The product of each stage before this one."""
        before = takewhile(lambda each: each is not stage, self.stages)
        return {each.name: _product(each, self.folder.path / each.folder) for each in before}


def _unimproved(target: Path) -> bool:
    """Whether a run had rounds, and its best agent is the one before them."""
    from agentgym_py.report.export import find

    return bool(RunFolder.open(target).config()["rounds"]) and find(str(target)).number == 0


def _is_stage(value: Any) -> bool:
    return isinstance(value, dict) and "name" in value


def _resumed(folder: Path) -> Values:
    parser = Parser("agentgym evolve")
    module("evolve").options(parser, ["--resume", str(folder)])
    return parser.read_mapping({"resume": str(folder)}, "")


def _out(stage: Stage, target: Path) -> Path:
    """What a stage's command is told to write."""
    return target / "trajectories.jsonl" if stage.kind == "collect" else target


def _product(stage: Stage, target: Path) -> str:
    """What others get of a stage: a policy's best checkpoint, trajectories, what a trainer made, or its folder."""
    from agentgym_py.report.export import find

    if stage.kind in POLICIES:
        return str(find(str(target)).weights)
    if stage.kind == "reward_model":
        return str(target / stage.makes)
    return str(_out(stage, target))
