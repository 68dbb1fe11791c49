"""`agentgym train`: offline training on stored trajectories."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from agentgym_py.cli.common import (
    ModelOptions,
    add_trainer_options,
    console,
    need_model,
    played_in,
    print_json,
    read_trainer,
)
from agentgym_py.cli.parser import Several, UsageError, add_options, as_plain, first_look, listed, read_options
from agentgym_py.runs import RunFolder, new_folder
from agentgym_py.trainer import Trainer, last_good_kept

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser, Namespace


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """The training."""

    out: str | None = None
    """Folder that gets `checkpoint/`, or what else the trainer makes, and `train.json`; it must be new or empty."""
    seed: int = 0
    """Seed of the training, and of the weights of `tiny-random`."""
    json: bool = False
    """Print train.json, for a program."""


def options(parser: ArgumentParser, argv: Sequence[str]) -> None:
    """Add what `train` takes."""
    parser.add_argument("--config", action="config", help="YAML file with any of these options.")
    parser.add_argument(
        "--data", action=Several, default=[], metavar="FILE",
        help="Trajectories: our store, AgentTraj or parquet; several times, or with commas.",
    )  # fmt: skip
    add_options(parser, TrainOptions)
    add_options(parser, ModelOptions)
    add_trainer_options(parser, first_look(argv).get("trainer", "filtered_bc"))


def run(given: Namespace) -> int:
    """Train, save, report."""
    from agentgym_py.dataset import AgentTrajDataset
    from agentgym_py.trainer import product

    chosen, model, trainer = read_options(TrainOptions, given), read_options(ModelOptions, given), read_trainer(given)
    if not isinstance(trainer, Trainer):
        name = given["trainer.name"]
        raise UsageError(f"{name} plays itself, it does not train on files: agentgym evolve --trainer {name}")
    files = listed(given["data"])
    if not files or chosen.out is None:
        raise UsageError("--data FILE wanted: trajectories to train on" if not files else "--out DIR wanted")
    out = new_folder(chosen.out)
    data = AgentTrajDataset(each for file in files for each in played_in(file))
    need_model(model.model, model.threads)
    policy = model.load(chosen.seed)
    from agentgym_py.ui import Phases, loss_text

    began, made = time.monotonic(), product(trainer)
    extra = out / ("trainer" if made == "policy" else made)
    with Phases(console(chosen.json)) as phases:
        progress = phases.training(f"train {policy.name} on {len(data)} trajectories")
        with last_good_kept(policy, out / "last_good"):
            report = trainer.train(policy, data, seed=chosen.seed, output_dir=extra, progress=progress)
    if made == "policy":
        policy.save(out / "checkpoint")
    settings = {"data": files, "seed": chosen.seed, **asdict(model), "trainer": as_plain(given["trainer"])}
    result: dict[str, Any] = {"settings": settings, "training": asdict(report), "policy_digest": policy.digest()}
    RunFolder(out).write_json("train.json", result)
    if chosen.json:
        print_json(result)
    else:
        loss = f"loss {loss_text(report.loss[0])} → {loss_text(report.loss[-1])}, " if report.loss else ""
        where = out / "checkpoint" if made == "policy" else extra
        print(f"{where}: {report.trajectories} trajectories, {loss}{time.monotonic() - began:.0f} s")
    return 0
