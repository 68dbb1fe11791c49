"""`agentgym train`: offline training on stored trajectories."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agentgym_py import distributed
from agentgym_py.checks import Basic
from agentgym_py.cli import run_resumable
from agentgym_py.cli.agent_options import ModelOptions
from agentgym_py.cli.argv import peek_options
from agentgym_py.cli.coreset_options import CORESET
from agentgym_py.cli.episode_options import add_episode_options, read_episodes, require_episode_files
from agentgym_py.cli.interrupts import interruptible
from agentgym_py.cli.parser import Parser, UsageError, Values, add_config, read_options
from agentgym_py.cli.runtime import console, prepare_torch, print_json, provenance
from agentgym_py.cli.saved_settings import absolute_model_path
from agentgym_py.cli.trainer_options import add_trainer_options, read_trainer, trainer_class
from agentgym_py.cli.values import nest_options
from agentgym_py.env.arguments import require_seed
from agentgym_py.errors import RunError
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.feedback.store import read_feedback
from agentgym_py.files import claimed, new_folder, remove_partial_files, require_inside
from agentgym_py.registry import absolute_source
from agentgym_py.rewards.functions import absolute_reward, absolute_settings, build_reward
from agentgym_py.training import Trainer, TrainReport, coreset, tracking
from agentgym_py.training.checkpoints import keep_states_until_exit
from agentgym_py.training.logprob_check import LogprobCheck
from agentgym_py.training.offline import TrainingData, require_offline, require_one_reward, select_training_data
from agentgym_py.training.progress import Progress
from agentgym_py.training.trainer import info_of, saving_last_good, select_defaults, validate_report
from agentgym_py.trajectory.selectors import SelectConfig

if TYPE_CHECKING:
    from agentgym_py.policy import Policy
    from agentgym_py.trajectory import Trajectory


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
    track: tracking.Service | None = None
    """Service that logs every training step offline: `tensorboard`, `trackio` or `wandb`; docs/guides/tracking.md."""
    json: Basic[bool] = False
    """Print train.json, for a program."""

    def __post_init__(self) -> None:
        require_seed(self.seed)
        require_one_reward(self.reward, self.feedback)


def options(parser: Parser) -> None:
    """Add the options of `train`."""
    add_config(parser)
    add_episode_options(parser, "The training")
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


def _prepare_folder(path: Path, states: str) -> None:
    """Make a new folder, or remove the half-written files of an interrupted training."""
    if (path / _REPORT).is_file():
        raise RunError(f"{path} already holds a finished training; choose another --out")
    require_inside(path)
    if is_interrupted(path, states):
        remove_partial_files(path)
    else:
        new_folder(path)


class TrainPlan(NamedTuple):
    """What `train` is asked for."""

    options: TrainOptions
    model: ModelOptions
    trainer: Trainer
    select: SelectConfig
    coreset: coreset.Coreset | None


def read_plan(args: Values) -> TrainPlan:
    """Read and check the options before anything is loaded or written."""
    chosen, trainer = read_options(TrainOptions, args), read_trainer(args)
    model = read_options(ModelOptions, args, ray=None)
    if not isinstance(trainer, Trainer):
        name = args["trainer.name"]
        raise UsageError(f"{name} is on-policy and does not train on files: use agentgym evolve --trainer {name}")
    require_episode_files(args, "train on")
    select, part = read_options(SelectConfig, args, "select."), CORESET.read(args)
    require_offline(trainer, has_coreset=part is not None)
    build_reward(chosen.reward, chosen.reward_kwargs)
    if chosen.feedback and not chosen.feedback.startswith("$"):  # in a pipeline an earlier stage may make it
        read_feedback(chosen.feedback)
    tracking.require_service(chosen.track)
    return TrainPlan(chosen, model, trainer, select, part)


def run(args: Values) -> int:
    """Train, save, report; 130 after Ctrl-C."""
    plan = read_plan(args)
    if plan.options.out is None:
        raise UsageError("--out DIR is needed")
    out = Path(plan.options.out)

    def advice() -> str:
        has_state = any((out / states_folder(plan.trainer)).rglob("state-*"))
        outcome = "resumes from the saved state" if has_state else "starts again, because no state was saved"
        return f"the same command {outcome}"

    def work() -> int:
        with ExitStack() as stack:
            distributed.init_process_group(plan.model.device)
            distributed.on_rank_zero(lambda: stack.enter_context(claimed(out)))
            return _train(args, plan, out)

    return run_resumable(work, advice)


def _train(args: Values, plan: TrainPlan, out: Path) -> int:
    from agentgym_py.report.terminal import Phases

    chosen, model, trainer = plan.options, plan.model, plan.trainer
    distributed.on_rank_zero(_prepare_folder, out, states_folder(trainer))
    feedback = read_feedback(chosen.feedback) if chosen.feedback else None
    scorer = build_reward(chosen.reward, chosen.reward_kwargs)
    data = select_training_data(read_episodes(args), trainer, plan.select, scorer=scorer, feedback=feedback)
    prepare_torch(model.model, model.threads)
    policy = model.load(chosen.seed)
    part = coreset.choose(plan.coreset, policy, data.trajectories, trainer, seed=chosen.seed, folder=out)
    began, selection = time.monotonic(), data.selection
    record = {
        "settings": _settings(args, plan),
        "selection": {"kept": len(selection.kept), "dropped": dict(selection.dropped), "line": selection.line},
        "provenance": provenance() | {"base_policy": policy.digest()},
    }
    tracker = tracking.Tracker(chosen.track, out, record["settings"]) if chosen.track else None
    with Phases(console(chosen.json)) as phases, tracker.listening() if tracker else nullcontext():
        for line in _data_lines(out, data, part, policy, states_folder(trainer)):
            phases.console.print(line, soft_wrap=True)
        progress = interruptible(phases.training(f"train {policy.name} on {len(part.trajectories)} trajectories"))
        report = _fit(plan, policy, part, data.reward_parts, out, progress, record)
    if distributed.is_rank_zero():
        _print_result(plan, out, report, time.monotonic() - began)
    return 0


def _settings(args: Values, plan: TrainPlan) -> dict[str, Any]:
    """Return the settings that train.json holds, with absolute paths."""
    chosen, model = plan.options, plan.model
    settings = {
        "data": [str(Path(file).absolute()) for file in args["data"]], "seed": chosen.seed, **asdict(model),
        "model": absolute_model_path(model.model), "select": asdict(plan.select),
        "reward": chosen.reward and absolute_reward(chosen.reward),
        "reward_kwargs": absolute_settings(chosen.reward_kwargs),
        "feedback": chosen.feedback and str(Path(chosen.feedback).absolute()),
        "trainer": nest_options(args)["trainer"] | {"name": absolute_source(args["trainer.name"])},
    }  # fmt: skip
    if plan.coreset:
        settings["coreset"] = nest_options(args)["coreset"] | {"name": absolute_source(args["coreset.name"])}
    return settings


def _data_lines(out: Path, data: TrainingData, part: coreset.Chosen, policy: Policy, states: str) -> Iterator[str]:
    """Yield what is said before a training about its data."""
    if any((out / states).rglob("state-*")):
        yield f"Resuming from the saved state in {out / states}."
    if data.feedback:
        yield f"Feedback: {data.feedback}"
    if data.selection.dropped:
        yield f"{data.selection.line} (--select)"
    if line := coreset.coreset_line(part.metrics):
        yield f"{line}; {out / coreset.FILE} has each of them"
    if note := foreign_policy_note(part.trajectories, policy.digest()):
        yield f"{note}; --model {policy.name} is trained."


def _fit(
    plan: TrainPlan, policy: Policy, part: coreset.Chosen, reward_parts: Mapping[str, float], out: Path,
    progress: Progress, record: Mapping[str, Any],
) -> TrainReport:  # fmt: skip
    """Train, save the checkpoint, and write train.json, which is the record with the report."""
    chosen, model, trainer = plan.options, plan.model, plan.trainer
    trains_policy = info_of(trainer).output == "policy"
    with keep_states_until_exit():
        check = LogprobCheck(policy, part.trajectories if trains_policy else [])
        with saving_last_good(policy, out / "last_good") if trains_policy else nullcontext():
            trained = trainer.train(
                policy, part.trajectories, seed=chosen.seed, output_dir=out / states_folder(trainer), progress=progress
            )
        report = part.add_to(validate_report(trained, trainer, policy))
        report = replace(report, metrics={**report.metrics, **reward_parts})
        digest = distributed.require_same("weights", policy.digest())
        if trains_policy and distributed.is_rank_zero():
            policy.save(out / "checkpoint")
            report = check.require_saved(report, policy, out / "checkpoint", partial(model.load, chosen.seed))
        if distributed.is_rank_zero():
            result = {**record, "training": asdict(report), "policy_digest": digest}
            RunFolder(out).write_json(_REPORT, result)
    return report


def _print_result(plan: TrainPlan, out: Path, report: TrainReport, seconds: float) -> None:
    from agentgym_py.report.terminal import loss_text

    if plan.options.json:
        print_json(RunFolder(out).read_json(_REPORT))
        return
    loss = f"loss {loss_text(report.loss[0])} → {loss_text(report.loss[-1])}, " if report.loss else ""
    target = out / ("checkpoint" if info_of(plan.trainer).output == "policy" else states_folder(plan.trainer))
    print(f"{target}: {report.trajectories} trajectories, {_pairs_text(plan, report)}{loss}{seconds:.0f} s")
    if report.dropped:
        print(f"  left out: {', '.join(f'{number} {reason}' for reason, number in report.dropped.items())}")


def _pairs_text(plan: TrainPlan, report: TrainReport) -> str:
    """Return how many preference pairs a policy was trained on; empty for trainers without pairs."""
    if info_of(plan.trainer).output != "policy" or not report.metrics.keys() >= {"pairs", "ties"}:
        return ""
    number = int(report.metrics["pairs"])
    return f"{number} pair{'s' * (number != 1)}, "
