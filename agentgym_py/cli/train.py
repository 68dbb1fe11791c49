"""`agentgym train`: offline training on stored trajectories."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_py import distributed
from agentgym_py.checks import Basic
from agentgym_py.cli import interrupt_status, print_interrupted, write_errors_with
from agentgym_py.cli.agent_options import ModelOptions
from agentgym_py.cli.coreset_options import CORESET
from agentgym_py.cli.interrupts import interruptible, no_interrupt_lost
from agentgym_py.cli.parser import Parser, UsageError, Values, add_config, peek_options, read_options
from agentgym_py.cli.runtime import console, prepare_torch, print_json, provenance, read_trajectories
from agentgym_py.cli.saved_settings import absolute_model_path
from agentgym_py.cli.trainer_options import add_trainer_options, read_trainer, trainer_class
from agentgym_py.cli.values import nest_options
from agentgym_py.env.base import require_seed
from agentgym_py.errors import ConfigError, NothingToTrainOnError, RunError, setting
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.feedback.learning import Learnable, learn_from
from agentgym_py.feedback.store import read_feedback
from agentgym_py.files import claimed, new_folder, remove_partial_files
from agentgym_py.registry import absolute_source
from agentgym_py.rewards.functions import absolute_reward, absolute_settings, build_reward
from agentgym_py.training import Trainer, coreset, tracking
from agentgym_py.training.checkpoints import keep_states_until_exit
from agentgym_py.training.logprob_check import LogprobCheck
from agentgym_py.training.trainer import (
    info_of,
    require_several_processes,
    require_single_trajectories,
    saving_last_good,
    select_defaults,
    validate_report,
)
from agentgym_py.trajectory.scores import apply_scores, mean_parts
from agentgym_py.trajectory.selectors import SelectConfig, build_selector

if TYPE_CHECKING:
    from agentgym_py.trajectory import Trajectory
    from agentgym_py.trajectory.selectors import Selection


_STATES = "trainer"
"""Folder for the states of a trainer whose output is a policy."""
_REPORT = "train.json"
"""Written when the training has finished."""
_UNFINISHED = (".checkpoint.", f".{_REPORT}.", f".{coreset.FILE}.")
"""Prefixes of half-written files of a killed process."""


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """The training."""

    out: Basic[str | None] = None
    """Folder (required) for `train.json` and `checkpoint/`, or another output of the trainer; it must be new or
    empty, or hold the same training interrupted, which then resumes."""
    seed: Basic[int] = 0
    """Seed of the training, and of the weights of `tiny-random`."""
    reward: str | None = None
    """What --select and the trainer read in place of the world's reward: agent, accuracy, FILE.py:NAME and others, or a
    weighted sum such as "agent + 0.1*my.py:score"; see docs/guides/rewards.md."""
    reward_kwargs: dict[str, Any] = field(default_factory=dict)
    """Settings of the reward functions by name, such as --reward_kwargs.alpha 0.01."""
    feedback: str | None = None
    """File of `agentgym judge`, which the trainer learns from in place of the world's reward: scores, comparisons or
    corrections; see docs/guides/feedback.md."""
    format: str | None = None
    """Format of the --data files, if their content does not tell; docs/reference/formats.md."""
    track: tracking.Service | None = None
    """Service that logs every training step offline: `tensorboard`, `trackio` or `wandb`; docs/guides/tracking.md."""
    json: Basic[bool] = False
    """Print train.json, for a program."""

    def __post_init__(self) -> None:
        require_seed(self.seed)
        if self.feedback and self.reward:
            raise ConfigError("feedback and reward cannot be combined; give one of them")


def options(parser: Parser) -> None:
    """Add the options of `train`."""
    add_config(parser)
    parser.add(
        "data", default=[], item=str, metavar="FILE", group="The training",
        help="Trajectories (required), in any format of docs/reference/formats.md; repeated, or with commas.",
    )  # fmt: skip
    parser.add_dataclass(TrainOptions)
    parser.add_dataclass(ModelOptions, skip={"ray"})
    parser.add_dataclass(SelectConfig, "select.", "Which trajectories to train on", basic=False)
    first = peek_options(parser.argv)
    CORESET.add(parser, first.get("coreset"))
    trainer = first.get("trainer", "filtered_bc")
    add_trainer_options(parser, trainer)
    parser.set_defaults(select_defaults(trainer_class(trainer)))


def states_folder(trainer: Trainer | type) -> str:
    """Return the name of the folder that a trainer writes to: its output, or its states if it trains a policy."""
    output = info_of(trainer).output
    return _STATES if output == "policy" else output


def is_interrupted(out: Path, states: str) -> bool:
    """Return whether a folder holds an interrupted training and nothing else."""
    names = {path.name for path in out.iterdir() if not path.name.startswith(_UNFINISHED)} if out.is_dir() else set()
    others = {tracking.FOLDER, coreset.FILE}
    has_begun = any((out / states).rglob("state-*")) or names <= {_STATES} | others or _has_only(out / states)
    return bool(names) and names <= {states, "checkpoint"} | others and has_begun


def _has_only(folder: Path) -> bool:
    """Return whether a trainer's folder holds only states, the first of which was being written."""
    files = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return folder.is_dir() and all("states" in path.parts[:-1] for path in files)


def foreign_policy_note(data: Sequence[Trajectory], digest: str) -> str:
    """Describe how many trajectories were sampled by other weights than those of `digest`; empty if there are none.

    Weights of another data type count as others.
    """
    names = Counter(t.provenance.agent for t in data if t.provenance.policy_digest not in (None, "", digest))
    return f"{names.total()} of {len(data)} were sampled by other weights ({', '.join(names)})" if names else ""


def _prepare_folder(path: str, states: str) -> Path:
    """Return a new folder, or that of an interrupted training without its half-written files."""
    if (Path(path) / _REPORT).is_file():
        raise RunError(f"{path} already holds a finished training; choose another --out")
    if not is_interrupted(Path(path), states):
        return new_folder(path)
    remove_partial_files(Path(path))
    return Path(path)


def _select(config: SelectConfig, data: Sequence[Trajectory], more: Sequence[Trajectory] = ()) -> Selection:
    """Select trajectories; raise NothingToTrainOnError if none are left and there are no others."""
    selection = build_selector(config)(data)
    if not selection.kept and not more:
        best = max((trajectory.reward for trajectory in data if trajectory.is_evidence), default=math.nan)
        raise NothingToTrainOnError(
            f"--select {selection.line}; the best return is {best:g}. To train on failed episodes, too: "
            "--select.success_only false --select.threshold -inf"
        )
    return selection


def _learnable(trajectories: Sequence[Trajectory], file: str | None, trainer: Trainer) -> Learnable:
    """Return what the trainer learns from of the feedback in a file; the episodes as they are without one."""
    if file is None:
        return Learnable(list(trajectories))
    return learn_from(trajectories, read_feedback(file), info_of(trainer).feedback)


def read_plan(args: Values) -> tuple[TrainOptions, ModelOptions, Trainer, list[str]]:
    """Read and check the options before anything is loaded or written; the last value is the data files."""
    chosen, trainer = read_options(TrainOptions, args), read_trainer(args)
    model = read_options(ModelOptions, args, ray=None)
    if not isinstance(trainer, Trainer):
        name = args["trainer.name"]
        raise UsageError(f"{name} is on-policy and does not train on files: use agentgym evolve --trainer {name}")
    if not (files := args["data"]):
        raise UsageError("--data FILE is needed: trajectories to train on")
    if twice := next((file for number, file in enumerate(files) if file in files[:number]), None):
        raise UsageError(f"--data has {twice} twice; remove one")
    read_options(SelectConfig, args, "select.")
    if CORESET.read(args):
        require_single_trajectories(trainer, "coreset")
    if getattr(trainer, "ewc_lambda", 0.0) and getattr(trainer, "ewc_anchor", None) is None:
        anchor = f"{setting('trainer.ewc_anchor', 'FILE')}: anchors/NN.safetensors of a sequence"
        raise UsageError(f"{setting('trainer.ewc_lambda')} needs {anchor}")
    build_reward(chosen.reward, chosen.reward_kwargs)
    if chosen.feedback and not chosen.feedback.startswith("$"):  # in a pipeline an earlier stage may make it
        read_feedback(chosen.feedback)
    require_several_processes(trainer)
    tracking.require_service(chosen.track)
    return chosen, model, trainer, files


def run(args: Values) -> int:
    """Train, save, report; 130 after Ctrl-C."""
    chosen, model, trainer, files = read_plan(args)
    if chosen.out is None:
        raise UsageError("--out DIR is needed")
    out = Path(chosen.out)

    def advice() -> str:
        has_state = any((out / states_folder(trainer)).rglob("state-*"))
        outcome = "resumes from the saved state" if has_state else "starts again, because no state was saved"
        return f"the same command {outcome}"

    try:
        with write_errors_with(advice), no_interrupt_lost(), ExitStack() as stack:
            distributed.init_process_group(model.device)
            distributed.on_rank_zero(lambda: stack.enter_context(claimed(out)))
            return _run(args, chosen, model, trainer, files)
    except KeyboardInterrupt as stop:
        if distributed.is_rank_zero():
            print_interrupted(advice())
        return interrupt_status(stop)


def _run(args: Values, chosen: TrainOptions, model: ModelOptions, trainer: Trainer, files: Sequence[str]) -> int:
    from agentgym_py.trajectory.dataset import AgentTrajDataset

    assert chosen.out is not None
    out = distributed.on_rank_zero(_prepare_folder, chosen.out, states_folder(trainer))
    select = read_options(SelectConfig, args, "select.")
    scorer = build_reward(chosen.reward, chosen.reward_kwargs)
    scored = apply_scores([t for file in files for t in read_trajectories(file, chosen.format)], scorer)
    learnable = _learnable(scored, chosen.feedback, trainer)
    selection = _select(select, AgentTrajDataset(learnable.episodes), learnable.corrections)
    prepare_torch(model.model, model.threads)
    policy = model.load(chosen.seed)
    kept = [*selection.kept, *learnable.corrections]
    part = coreset.choose(CORESET.read(args), policy, kept, trainer, seed=chosen.seed, folder=out)
    data = AgentTrajDataset(part.trajectories)
    run_provenance = provenance() | {"base_policy": policy.digest()}
    from agentgym_py.report.terminal import Phases, loss_text

    began, output_dir, trains_policy = (
        time.monotonic(),
        out / states_folder(trainer),
        info_of(trainer).output == "policy",
    )
    settings = {
        "data": [str(Path(file).absolute()) for file in files], "seed": chosen.seed, **asdict(model),
        "model": absolute_model_path(model.model), "select": asdict(select),
        "reward": chosen.reward and absolute_reward(chosen.reward),
        "reward_kwargs": absolute_settings(chosen.reward_kwargs),
        "feedback": chosen.feedback and str(Path(chosen.feedback).absolute()),
        "trainer": nest_options(args)["trainer"] | {"name": absolute_source(args["trainer.name"])},
    }  # fmt: skip
    if args["coreset.name"]:
        settings["coreset"] = nest_options(args)["coreset"] | {"name": absolute_source(args["coreset.name"])}
    tracker = tracking.Tracker(chosen.track, out, settings) if chosen.track else None
    with Phases(console(chosen.json)) as phases, tracker.listening() if tracker else nullcontext():
        if any(output_dir.rglob("state-*")):
            phases.console.print(f"Resuming from the saved state in {output_dir}.", soft_wrap=True)
        if chosen.feedback:
            phases.console.print(f"Feedback: {learnable.line}", soft_wrap=True)
        if selection.dropped:
            phases.console.print(f"{selection.line} (--select)", soft_wrap=True)
        if line := coreset.coreset_line(part.metrics):
            phases.console.print(f"{line}; {out / coreset.FILE} has each of them", soft_wrap=True)
        if note := foreign_policy_note(data, run_provenance["base_policy"]):
            phases.console.print(f"{note}; --model {policy.name} is trained.", soft_wrap=True)
        progress = interruptible(phases.training(f"train {policy.name} on {len(data)} trajectories"))
        with keep_states_until_exit():
            check = LogprobCheck(policy, data if trains_policy else [])
            with saving_last_good(policy, out / "last_good") if trains_policy else nullcontext():
                trained = trainer.train(policy, data, seed=chosen.seed, output_dir=output_dir, progress=progress)
            report = validate_report(trained, trainer, policy)
            report = part.add_to(report)
            report = replace(report, metrics={**report.metrics, **(mean_parts(scored) if scorer else {})})
            digest = distributed.require_same("weights", policy.digest())
            if trains_policy and distributed.is_rank_zero():
                policy.save(out / "checkpoint")
                report = check.require_saved(report, policy, out / "checkpoint", partial(model.load, chosen.seed))
            result: dict[str, Any] = {
                "settings": settings, "training": asdict(report),
                "policy_digest": digest,
                "selection": {"kept": len(selection.kept), "dropped": dict(selection.dropped), "line": selection.line},
                "provenance": run_provenance,
            }  # fmt: skip
            if distributed.is_rank_zero():
                RunFolder(out).write_json(_REPORT, result)
    if not distributed.is_rank_zero():
        return 0
    if chosen.json:
        print_json(result)
    else:
        loss = f"loss {loss_text(report.loss[0])} → {loss_text(report.loss[-1])}, " if report.loss else ""
        target = out / "checkpoint" if trains_policy else output_dir
        print(f"{target}: {report.trajectories} trajectories, {loss}{time.monotonic() - began:.0f} s")
        if report.dropped:
            print(f"  left out: {', '.join(f'{number} {reason}' for reason, number in report.dropped.items())}")
    return 0
