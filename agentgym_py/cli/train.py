"""`agentgym train`: offline training on stored trajectories."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_py import distributed
from agentgym_py.checks import Basic
from agentgym_py.cli import interrupted as say_interrupted
from agentgym_py.cli import sigterm_as_interrupt, status_of
from agentgym_py.cli.agent_options import ModelOptions
from agentgym_py.cli.interrupts import interruptible
from agentgym_py.cli.parser import UsageError, add_config, peek_options, read_options
from agentgym_py.cli.runtime import console, prepare_torch, print_json, provenance, read_trajectories
from agentgym_py.cli.saved_settings import whole_path
from agentgym_py.cli.trainer_options import add_trainer_options, read_trainer, trainer_class
from agentgym_py.cli.values import nested
from agentgym_py.env.base import require_seed
from agentgym_py.errors import NothingToTrainOnError, RunError
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.files import new_folder, remove_partial_files
from agentgym_py.registry import absolute_source
from agentgym_py.training import Trainer, tracking
from agentgym_py.training.checkpoints import until_saved
from agentgym_py.training.trainer import (
    checked,
    info_of,
    last_good_kept,
    require_several_processes,
    select_defaults,
)
from agentgym_py.trajectory.selectors import SelectConfig, build_selector

if TYPE_CHECKING:
    from agentgym_py.cli.parser import Parser, Values
    from agentgym_py.trajectory import Trajectory
    from agentgym_py.trajectory.selectors import Selection


_STATES = "trainer"
"""What a trainer of a policy writes beside it."""
_REPORT = "train.json"
"""It is over when this is there."""
_HALVES = (".checkpoint.", f".{_REPORT}.")
"""How what a kill leaves half written is named."""


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """The training."""

    out: Basic[str | None] = None
    """Folder that gets `checkpoint/`, or what else the trainer makes, and `train.json`; it must be new or empty, or
    hold this very training interrupted, which then resumes."""
    seed: Basic[int] = 0
    """Seed of the training, and of the weights of `tiny-random`."""
    track: tracking.Service | None = None
    """Where every step is logged while the training goes: `tensorboard`, `trackio` or `wandb`, offline;
    docs/tracking.md."""
    json: Basic[bool] = False
    """Print train.json, for a program."""

    def __post_init__(self) -> None:
        require_seed(self.seed)


def options(parser: Parser, argv: Sequence[str]) -> None:
    """Add what `train` takes."""
    add_config(parser)
    parser.add(
        "data", default=[], item=str, metavar="FILE", group="The training",
        help="Trajectories: our store, AgentTraj or parquet; several times, or with commas.",
    )  # fmt: skip
    parser.add_dataclass(TrainOptions)
    parser.add_dataclass(ModelOptions, skip={"ray"})
    parser.add_dataclass(SelectConfig, "select.", "Which trajectories to train on", basic=False)
    trainer = peek_options(argv).get("trainer", "filtered_bc")
    add_trainer_options(parser, trainer)
    parser.set_defaults(select_defaults(trainer_class(trainer)))


def states_in(trainer: Trainer | type) -> str:
    """The folder of a training that its trainer writes to: what it makes, or its states beside the policy."""
    return _STATES if (made := info_of(trainer).output) == "policy" else made


def interrupted(out: Path, states: str) -> bool:
    """Whether nothing but an interrupted training is in this folder; its states know it as their own."""
    names = {each.name for each in out.iterdir() if not each.name.startswith(_HALVES)} if out.is_dir() else set()
    begun = any((out / states).rglob("state-*")) or names <= {_STATES, tracking.FOLDER} or _only_begins(out / states)
    return bool(names) and names <= {states, "checkpoint", tracking.FOLDER} and begun


def _only_begins(made: Path) -> bool:
    """Whether a trainer's folder holds no file yet but of states, the first of which was being written."""
    files = (each.relative_to(made) for each in made.rglob("*") if each.is_file())
    return made.is_dir() and all("states" in each.parts[:-1] for each in files)


def sampled_by_others(data: Sequence[Trajectory], digest: str) -> str:
    """How many trajectories other weights than those of this digest sampled, and whose; empty where none.

    The same in another number format are others, too.
    """
    names = Counter(each.provenance.agent for each in data if each.provenance.policy_digest not in (None, "", digest))
    return (names and f"{names.total()} of {len(data)} were sampled by other weights ({', '.join(names)})") or ""


def _folder(path: str, states: str) -> Path:
    """A new folder, or one in which a training was interrupted."""
    if (Path(path) / _REPORT).is_file():
        raise RunError(f"{path} already holds a finished training")
    if not interrupted(Path(path), states):
        return new_folder(path)
    remove_partial_files(Path(path))
    return Path(path)


def select_config(args: Values) -> SelectConfig:
    """Which trajectories to train on."""
    return read_options(SelectConfig, args, "select.")


def selected(config: SelectConfig, data: Sequence[Trajectory]) -> Selection:
    """What the selection keeps of `data`; NothingToTrainOnError if that is nothing."""
    found = build_selector(config)(data)
    if not found.kept:
        reached = max((each.reward for each in data if each.is_evidence), default=math.nan)
        raise NothingToTrainOnError(
            f"--select {found.line}; the best return is {reached:g}. To train on failed episodes too: "
            "--select.success_only false --select.threshold -inf"
        )
    return found


def read(args: Values) -> tuple[TrainOptions, ModelOptions, Trainer, list[str]]:
    """What is wanted, and on which files; complains of what cannot be, before anything is loaded or written."""
    chosen, trainer = read_options(TrainOptions, args), read_trainer(args)
    model = read_options(ModelOptions, args, ray=None)
    if not isinstance(trainer, Trainer):
        name = args["trainer.name"]
        raise UsageError(f"{name} plays itself, it does not train on files: agentgym evolve --trainer {name}")
    if not (files := args["data"]):
        raise UsageError("--data FILE wanted: trajectories to train on")
    if twice := next((file for number, file in enumerate(files) if file in files[:number]), None):
        raise UsageError(f"--data has {twice} twice: its trajectories would count twice")
    select_config(args)
    require_several_processes(trainer)
    tracking.need(chosen.track)
    return chosen, model, trainer, files


def run(args: Values) -> int:
    """Train, save, report; 130 after Ctrl-C."""
    chosen, model, trainer, files = read(args)
    if chosen.out is None:
        raise UsageError("--out DIR wanted")
    try:
        with sigterm_as_interrupt():
            return _run(args, chosen, model, trainer, files)
    except KeyboardInterrupt as stop:
        kept = any((Path(chosen.out) / states_in(trainer)).rglob("state-*"))
        how = "resumes from the last saved state" if kept else "starts again: no state was saved"
        if distributed.is_rank_zero():
            say_interrupted(f"the same command {how}")
        return status_of(stop)


def _run(args: Values, chosen: TrainOptions, model: ModelOptions, trainer: Trainer, files: Sequence[str]) -> int:
    from agentgym_py.trajectory.dataset import AgentTrajDataset

    assert chosen.out is not None
    distributed.init_process_group(model.device)
    out = distributed.on_rank_zero(_folder, chosen.out, states_in(trainer))
    select = select_config(args)
    selection = selected(select, AgentTrajDataset(each for file in files for each in read_trajectories(file)))
    data = AgentTrajDataset(selection.kept)
    prepare_torch(model.model, model.threads)
    policy = model.load(chosen.seed)
    made_with = provenance() | {"base_policy": policy.digest()}
    from agentgym_py.report.terminal import Phases, loss_text

    began, extra = time.monotonic(), out / states_in(trainer)
    how = nested(args)["trainer"] | {"name": absolute_source(args["trainer.name"])}
    settings = {
        "data": [str(Path(file).absolute()) for file in files], "seed": chosen.seed, **asdict(model),
        "model": whole_path(model.model), "select": asdict(select), "trainer": how,
    }  # fmt: skip
    tracker = tracking.Tracker(chosen.track, out, settings) if chosen.track else None
    with Phases(console(chosen.json)) as phases, tracker.listening() if tracker else nullcontext():
        if any(extra.rglob("state-*")):
            phases.console.print(f"Going on from the state that was kept in {extra}.", soft_wrap=True)
        if selection.dropped:
            phases.console.print(f"{selection.line} (--select)", soft_wrap=True)
        if others := sampled_by_others(data, made_with["base_policy"]):
            phases.console.print(f"{others}; trained are those of {policy.name} (--model).", soft_wrap=True)
        progress = interruptible(phases.training(f"train {policy.name} on {len(data)} trajectories"))
        with until_saved():
            with last_good_kept(policy, out / "last_good") if info_of(trainer).output == "policy" else nullcontext():
                done = trainer.train(policy, data, seed=chosen.seed, output_dir=extra, progress=progress)
            report = checked(done, trainer, policy)
            digest = distributed.require_same("weights", policy.digest())
            result: dict[str, Any] = {"settings": settings, "training": asdict(report), "policy_digest": digest}
            result["selection"] = {"kept": len(data), "dropped": dict(selection.dropped), "line": selection.line}
            result["provenance"] = made_with
            if distributed.is_rank_zero():
                if info_of(trainer).output == "policy":
                    policy.save(out / "checkpoint")
                RunFolder(out).write_json(_REPORT, result)
    if not distributed.is_rank_zero():
        return 0
    if chosen.json:
        print_json(result)
    else:
        loss = f"loss {loss_text(report.loss[0])} → {loss_text(report.loss[-1])}, " if report.loss else ""
        where = out / "checkpoint" if info_of(trainer).output == "policy" else extra
        print(f"{where}: {report.trajectories} trajectories, {loss}{time.monotonic() - began:.0f} s")
        if report.dropped:
            print(f"  left out: {', '.join(f'{number} {why}' for why, number in report.dropped.items())}")
    return 0
