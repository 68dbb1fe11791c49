"""`agentgym pipeline`: run stages; each is a command with its own folder, whose product is an input of later stages.

A stage is a command with the options of its config file. A missing model or data comes from the stages before it;
`$NAME` stands for the product of the stage of that name.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from shlex import quote
from typing import Any

import yaml

from agentgym_py import trust
from agentgym_py.cli import build_parser, command_module, interrupt_status, nested_command, write_errors_with
from agentgym_py.cli.interrupts import no_interrupt_lost
from agentgym_py.cli.parser import Parser, UsageError, Values, read_options
from agentgym_py.cli.pipeline_file import (
    POLICIES,
    Stage,
    parse_settings,
    read_file,
    read_stages,
    require_valid,
    substitute,
)
from agentgym_py.cli.train import is_interrupted, states_folder
from agentgym_py.cli.values import as_plain
from agentgym_py.errors import AgentGymError, NothingToTrainOnError, RunError, WriteError
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.files import clear_read_errors, is_lasting, json_safe
from agentgym_py.training.settings import current_settings

_STATE = "pipeline.json"
_FILES = {"collect": "trajectories.jsonl", "judge": "feedback.jsonl"}
"""The file of each kind of stage whose product is a file."""


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """The pipeline."""

    out: str | None = None
    """Folder for the folders of the stages; by default the file's `out`. A pipeline that it holds is resumed."""
    list: bool = False
    """Show the stages, their settings and the progress of the pipeline, and run nothing."""


def options(parser: Parser) -> None:
    """Add the options of `pipeline`."""
    parser.add_positional("file", "YAML file with the stages; see docs/guides/pipeline.md and examples/pipelines.")
    parser.add_dataclass(PipelineOptions)


def run(args: Values) -> int:
    """Run the stages that are not done; return the status of the first one that fails."""
    chosen, file = read_options(PipelineOptions, args), args["file"]
    content = read_file(file)
    stages = read_stages(content, file)
    folder = chosen.out or content.get("out")
    if not folder:
        raise UsageError(f"--out DIR is needed, or `out: DIR` in {file}")
    if not chosen.out:
        trust.require_output(folder)
    pipeline = Pipeline(RunFolder(Path(folder)), stages, file, chosen.out is not None)
    done = pipeline.read_state()["done"]
    with trust.offline() if chosen.list else nullcontext():
        for stage in stages:
            if stage.name not in done:
                require_valid(stage, stages, file)
    if chosen.list:
        pipeline.show()
        return 0
    return pipeline.run()


# ------------------------------------------------------------------------------------------------------------- the run


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The stages of a file in their folder, whose `pipeline.json` records what has begun and what is done."""

    folder: RunFolder
    stages: Sequence[Stage]
    file: str
    has_own_folder: bool = False
    """Whether --out names the folder, not the file."""

    def run(self) -> int:
        """Run or resume every stage that is not done; return 130 or 143 after an interrupt."""
        try:
            return self._run()
        except KeyboardInterrupt as stop:
            print(f"\nstopped between two stages; {self._advice()}", file=sys.stderr)
            return interrupt_status(stop)

    def _run(self) -> int:
        state = self.read_state()
        with self.folder.locked():
            self.folder.write_json(_STATE, state)
            for number, stage in enumerate(self.stages, 1):
                head = f"stage {number} of {len(self.stages)}, {stage.name}"
                if stage.name in state["done"]:
                    print(f"{head}: already done", flush=True)
                    continue
                print(f"{head}: agentgym {stage.command}, {self.folder.path / stage.folder}", flush=True)
                state["begun"][stage.folder] = state["stages"][number - 1]
                self.folder.write_json(_STATE, state)
                began = time.monotonic()
                if status := self._run_interruptible(stage):
                    print(f"stopped in stage {stage.name}; {self._advice()}", file=sys.stderr)
                    return status
                if stage.command == "evolve" and _is_unimproved(self.folder.path / stage.folder):
                    print("no round improved on Agent_v0 on valid tasks, so Agent_v0 is the product", flush=True)
                state["done"][stage.name] = {"seconds": time.monotonic() - began}
                self.folder.write_json(_STATE, state)
        print(f"{self.folder.path}: all {len(self.stages)} stages are done")
        return 0

    def _advice(self) -> str:
        out = f" --out {quote(str(self.folder.path))}" if self.has_own_folder else ""
        return f"agentgym pipeline {quote(str(self.file))}{out}{trust.options(trust.named())} resumes from there"

    def _run_interruptible(self, stage: Stage) -> int:
        try:
            with no_interrupt_lost(), nested_command():
                return self._run_stage(stage)
        except KeyboardInterrupt as stop:
            print(file=sys.stderr)
            return interrupt_status(stop)

    def show(self) -> None:
        """Print the stages and their progress."""
        done = self.read_state()["done"]
        for number, stage in enumerate(self.stages, 1):
            settings = yaml.safe_dump(as_plain(stage.settings), default_flow_style=True, width=10**6, sort_keys=False)
            mark = " (done)" if stage.name in done else " (begun)" if self._is_resumable(stage) else ""
            print(f"{number}. {stage.name}{mark}: agentgym {stage.command}, {stage.folder}")
            print(f"   {settings.strip()}")

    def read_state(self) -> dict[str, Any]:
        """Read the state of the folder.

        Raises:
            UsageError: the folder belongs to another pipeline, or holds other files.
            RunError: its state is damaged.
        """
        path = self.folder.path
        stages = [
            json_safe({"name": stage.name, "command": stage.command, "settings": as_plain(stage.settings)})
            for stage in self.stages
        ]
        if not (path / _STATE).is_file():
            if path.exists() and (not path.is_dir() or any(file.name != ".lock" for file in path.iterdir())):
                raise UsageError(f"--out {path} already holds other files; choose another folder")
            return {"stages": stages, "done": {}, "begun": {}}
        state = self.folder.read_json(_STATE)
        stored: Any = state.get("stages")
        begun: Any = state.get("begun") or {}
        if not (_are_stages(stored, list) and _are_stages(begun, dict) and isinstance(state.get("done"), dict)):
            raise RunError(f"{path / _STATE} is damaged: its stages are missing; give a new --out")
        stored = [_with_current_names(stage) for stage in stored]
        begun = {folder: _with_current_names(stage) for folder, stage in begun.items()}
        begun = begun or {f"{n:02d}-{stage['name']}": stage for n, stage in enumerate(stored, 1)}
        self._require_unchanged(stored, stages, state["done"], begun)
        for stage in self.stages:
            if stage.name in state["done"] and not (path / stage.folder).is_dir():
                raise UsageError(
                    f"stage {stage.name} is done, but its folder {path / stage.folder} is missing: restore it, or give "
                    "a new --out"
                )
        return {"stages": stages, "done": state["done"], "begun": begun}

    def _require_unchanged(
        self, stored: Sequence[Any], stages: Sequence[Any], done: Mapping[str, Any], begun: Mapping[str, Any]
    ) -> None:
        """Raise UsageError if a stage that is done, or can be resumed, has changed."""
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(stored, stages, strict=False)))
        if any(stage["name"] in done for stage in stored[same:]):
            raise UsageError(
                f"{self.folder.path} was begun with another version of {self.file}: its stage {stored[same]['name']} "
                "has changed, but it or a later stage is done; restore the file, or give a new --out"
            )
        for stage, new in zip(self.stages, stages, strict=True):
            if stage.name not in done and begun.get(stage.folder, new) != new and self._is_resumable(stage):
                raise UsageError(
                    f"{self.folder.path / stage.folder} was begun with other settings than those of {self.file}: move "
                    "it away to start the stage again, or restore the file"
                )

    def _is_resumable(self, stage: Stage) -> bool:
        """Return whether an unfinished stage resumes from its folder; otherwise it starts again."""
        target = self.folder.path / stage.folder
        if stage.command == "evolve":
            return (target / "run.yaml").is_file()
        if stage.command == "eval":
            return (target / "manifest.json").is_file() and not (target / "result.json").is_file()
        if stage.command == "judge":
            return (target / _FILES["judge"]).is_file()
        return (target / "last_good").is_dir() or (
            stage.command == "train" and is_interrupted(target, states_folder(stage.trainer))
        )

    def _run_stage(self, stage: Stage) -> int:
        target = self.folder.path / stage.folder
        try:
            if stage.command == "evolve" and self._is_resumable(stage):
                resume = ["--resume", str(target)]
                args = build_parser("evolve", resume).parse(resume)
            else:
                args = self._prepare(stage, target)
            with write_errors_with(str):
                return int(command_module(stage.command).run(args))
        except NothingToTrainOnError as error:
            advice = f"change the stage in {self.file}, move {target} away, and run the pipeline again"
            raise NothingToTrainOnError(f"stage {stage.name}: {error}; {advice}") from error
        except AgentGymError as error:
            advice = f"; {self._advice()}" if isinstance(error, WriteError) and not is_lasting(error) else ""
            raise type(error)(f"stage {stage.name}: {error}{advice}") from error

    def _prepare(self, stage: Stage, target: Path) -> Values:
        """Remove what cannot be resumed, and return the values for the stage's command."""
        if (target / "last_good").is_dir():  # the same training would collapse again
            raise RunError(
                f"{target} holds last_good, the checkpoint of a collapsed training: change the stage in {self.file}, "
                f"move {target} away, and run the pipeline again"
            )
        if not self._is_resumable(stage):
            shutil.rmtree(target, ignore_errors=True)
        before = takewhile(lambda other: other is not stage, self.stages)
        products = {other.name: _product(other, self.folder.path / other.folder) for other in before}
        return parse_settings(stage, substitute(stage.settings, products) | {"out": str(_out(stage, target))})


def _is_unimproved(target: Path) -> bool:
    """Return whether a run had rounds, and Agent_v0 is its best agent."""
    from agentgym_py.report.export import find_source

    with clear_read_errors(target):
        return bool(RunFolder.open(target).config()["rounds"]) and find_source(str(target)).number == 0


def _with_current_names(stage: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored stage, which an earlier version may have written, with current names of settings."""
    return {**stage, "settings": current_settings(stage.get("settings") or {})}


def _are_stages(values: Any, kind: type[list[Any]] | type[dict[str, Any]]) -> bool:
    """Return whether a list, or an object, of the state file holds stages."""
    stages = values.values() if isinstance(values, dict) else values
    return isinstance(values, kind) and all(
        isinstance(stage, dict) and isinstance(stage.get("name"), str) and isinstance(stage.get("settings") or {}, dict)
        for stage in stages
    )


def _out(stage: Stage, target: Path) -> Path:
    """Return the --out of a stage's command."""
    return target / _FILES[stage.kind] if stage.kind in _FILES else target


def _product(stage: Stage, target: Path) -> str:
    """Return the product of a stage: its best checkpoint, its trajectories, its reward model or its folder."""
    from agentgym_py.report.export import find_source

    if stage.kind in POLICIES:
        return str(find_source(str(target)).weights)
    if stage.kind == "reward_model":
        return str(target / stage.product_kind)
    return str(_out(stage, target))
