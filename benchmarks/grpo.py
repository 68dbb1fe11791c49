"""GRPO's training step compared with trl's GRPOTrainer: `python benchmarks/grpo.py [--models tiny] [--betas 0 0.04]`.

Agent_v0 collects groups of attempts in the shop once. Groups with different returns are stored, and both sides train on
them: trl gets them from its `rollout_func`, with observations masked by `env_mask`; GRPO gets them from rollouts that
collect nothing. Models other than the tiny one get the first turns of the same episodes in their own tokens.

The time covers everything from the hand-over of the rollouts to the end of the optimizer step: rewards, advantages,
padding, the reference pass if beta is not 0, forward, loss, backward, clipping, AdamW. There is one optimizer step per
batch, so that trl needs no pass for old log-probabilities. Both sides have passes of the same number of padded tokens,
float32, and the same learning rate, betas and clipping. Each side runs in its own process, and they alternate. The
first step is a warm-up, whose gradients are compared. Memory is the process's peak resident set, and the part of it
after the hand-over of the first batch.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import resource
import statistics
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch

from agentgym_py.agents import ExpertAgent
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.collection.rollouts import Rollouts
from agentgym_py.engine import HFEngine, SamplingParams
from agentgym_py.env import EnvSpec
from agentgym_py.policy import Policy
from agentgym_py.policy.logprobs import agent_logits, agent_logprobs, pad_samples
from agentgym_py.policy.tokens import Sample, encode, encode_turns
from agentgym_py.training.trl_rollout import episode_return, trl_row
from agentgym_py.trajectory import Tokens, Trajectory, store
from agentgym_trainers.filtered_bc import FilteredBC
from agentgym_trainers.grpo import GRPO

SHOP = EnvSpec("shop")
SAMPLED = SamplingParams(temperature=1.0, max_new_tokens=32)


class Size(NamedTuple):
    """The size of a model's batch."""

    tasks: int
    tries: int
    turns: int
    rows: int
    """Trajectories per pass."""


SIZES = {"tiny": Size(4, 8, 15, 8), "smollm2": Size(2, 2, 3, 4)}


@dataclass(frozen=True)
class Case:
    """The input of both sides."""

    folder: Path
    size: Size
    longest: int
    """Tokens of the longest trajectory."""
    beta: float
    steps: int
    threads: int

    def policy(self) -> Policy:
        """Load a copy of the policy to train."""
        return Policy.load(self.folder / "policy", device="cpu")

    def groups(self) -> list[list[Trajectory]]:
        """Read the batch."""
        trajectories, tries = list(store.read(self.folder / "rollouts.jsonl")), self.size.tries
        return [trajectories[at : at + tries] for at in range(0, len(trajectories), tries)]


# ---------------------------------------------------------------------------------------------------------- the batch


def agent_v0() -> Policy:
    """Train the tiny base on twelve episodes of the fair expert, as round 0 does."""
    policy = Policy.load("tiny", device="cpu")
    demos = Collector(ExpertAgent(fair=True)).collect_batch(jobs_for([SHOP], "train", range(12)))
    with TemporaryDirectory() as folder:
        FilteredBC().train(policy, demos, seed=0, output_dir=Path(folder))
    return policy


def varied_groups(policy: Policy, tries: int) -> Iterator[list[Trajectory]]:
    """Yield groups with different returns."""
    rollouts = Rollouts(policy, HFEngine(policy), SAMPLED, jobs_for([SHOP], "train", range(100, 1000)), 10_000)
    while True:
        for group in rollouts.groups(8, tries):
            if len({trajectory.reward for trajectory in group}) > 1:
                yield group


def retokenize(trajectory: Trajectory, policy: Policy) -> Trajectory:
    """Rewrite a trajectory in another policy's tokens and log-probabilities."""
    bare = [replace(step, tokens=None) for step in trajectory.steps]
    rows = list(encode_turns(trajectory.rules, bare, policy.chat))
    with torch.no_grad():
        ids, labels = pad_samples([encode(replace(trajectory, steps=tuple(bare)), policy.chat)], policy.model.device)
        logps = iter(agent_logprobs(agent_logits(policy.model, ids, labels)).tolist())
    steps = [
        replace(step, tokens=Tokens(tuple(row.context), tuple(row.reply), tuple(islice(logps, len(row.reply))),
                                    tuple(row.mask)))
        for step, row in zip(bare, rows, strict=True)
    ]  # fmt: skip
    return replace(trajectory, steps=tuple(steps))


def store_batch(player: Policy, name: str, size: Size, folder: Path) -> list[Sample]:
    """Write a model's policy and batch to `folder`; return the encoded batch."""
    trajectories = [t for group in islice(varied_groups(player, size.tries), size.tasks) for t in group]
    learner = player if name == "tiny" else Policy.load(name, device="cpu")
    batch = [replace(t, steps=t.steps[: size.turns]) for t in trajectories]
    if learner is not player:
        batch = [retokenize(t, learner) for t in batch]
    learner.save(folder / "policy")
    store.write(folder / "rollouts.jsonl", batch)
    return [encode(t, learner.chat) for t in batch]


# ---------------------------------------------------------------------------------------------------------- the sides


class Summary(NamedTuple):
    """The measurements of a side."""

    loss: float
    """The loss of the first step."""
    norm: float
    """The norm of its gradient before clipping."""
    peak: float
    """Peak memory in MiB."""
    before: float
    """MiB at the hand-over of the first batch."""


class Clock:
    """Times a side's steps, which alternate with the other side's, and saves the first gradient."""

    def __init__(self, line: Connection, gradient: Path) -> None:
        self.line, self.gradient = line, gradient
        self.before = self._began = 0.0

    def begin(self) -> None:
        """Start the clock at the hand-over of the rollouts."""
        self.line.recv()
        if not self.before:
            self.before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20
        self._began = time.perf_counter()

    def end(self) -> None:
        """Stop the clock after the optimizer step."""
        self.line.send(time.perf_counter() - self._began)

    def save_gradient(self, model: Any) -> None:
        """Save the gradient of the first step."""
        if not self.gradient.exists():
            torch.save({name: p.grad for name, p in model.named_parameters()}, self.gradient)

    def finish(self, first: Mapping[str, float]) -> None:
        """Send the summary; `first` is the log of the first step."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
        self.line.send(Summary(first["loss"], first["grad_norm"], peak, self.before))


@dataclass(slots=True)
class Replayed(Rollouts):
    """Rollouts that return the same stored groups in every iteration."""

    stored: list[list[Trajectory]] | None = None
    clock: Clock | None = None

    def sync(self) -> None:
        """Do nothing, because nothing is sampled."""

    def groups(self, tasks: int, size: int) -> list[list[Trajectory]]:
        """Return all stored groups."""
        assert self.stored and self.clock
        self.episodes += [trajectory for group in self.stored for trajectory in group]
        self.clock.begin()
        return self.stored


def ours(case: Case, line: Connection) -> None:
    torch.set_num_threads(case.threads)
    policy, size, clock = case.policy(), case.size, Clock(line, case.folder / f"ours-{case.beta}.pt")
    settings = GRPO(
        variant="dapo", group_size=size.tries, tasks_per_iteration=size.tasks,
        minibatch_size=size.tasks * size.tries, kl_coef=case.beta, learning_rate=1e-6,
        microbatch_tokens=size.rows * case.longest,
    )  # fmt: skip
    budget = case.steps * size.tasks * size.tries
    engine: Any = None
    rollouts = Replayed(policy, engine, SAMPLED, [], budget, stored=case.groups(), clock=clock)

    def after(done: int, of: int) -> None:
        clock.end()
        clock.save_gradient(policy.model)

    report = settings.improve(policy, rollouts, seed=0, output_dir=case.folder, progress=after)
    clock.finish(report.history[0])


def theirs(case: Case, line: Connection) -> None:
    torch.set_num_threads(case.threads)
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    from datasets import Dataset
    from transformers import PrinterCallback, TrainerCallback
    from transformers.utils.logging import disable_progress_bar
    from trl import GRPOConfig, GRPOTrainer

    disable_progress_bar()
    policy, size, clock = case.policy(), case.size, Clock(line, case.folder / f"theirs-{case.beta}.pt")
    groups = [[trl_row(t, policy.chat) for t in group] for group in case.groups()]

    def rollout_func(prompts: list[str], trainer: Any) -> dict[str, list[Any]]:
        tries = [iter(group) for group in groups]
        rows = [next(tries[int(prompt)]) for prompt in prompts]
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        clock.begin()
        return columns

    class Timing(TrainerCallback):  # type: ignore[misc]  # transformers is untyped here
        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            clock.save_gradient(kwargs["model"])

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            clock.end()

    passes = size.tasks * size.tries // size.rows
    args = GRPOConfig(
        output_dir=str(case.folder), use_cpu=True, bf16=False, gradient_checkpointing=False, report_to="none",
        disable_tqdm=True, save_strategy="no", logging_steps=1, max_steps=case.steps, learning_rate=1e-6,
        lr_scheduler_type="constant", adam_beta2=0.95, max_grad_norm=1.0, per_device_train_batch_size=size.rows,
        gradient_accumulation_steps=passes, num_generations=size.tries, loss_type="dapo", beta=case.beta, epsilon=0.2,
        epsilon_high=0.28, use_bias_correction_kl=False, temperature=SAMPLED.temperature, shuffle_dataset=False,
    )  # fmt: skip
    trainer = GRPOTrainer(
        model=policy.model, reward_funcs=episode_return, args=args, processing_class=policy.tokenizer,
        train_dataset=Dataset.from_dict({"prompt": [str(i) for i in range(size.tasks)]}), rollout_func=rollout_func,
        callbacks=[Timing()],
    )  # fmt: skip
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    clock.finish(trainer.state.log_history[0])


# ------------------------------------------------------------------------------------------------------ the comparison


class Measurement(NamedTuple):
    """A side's steps."""

    seconds: list[float]
    summary: Summary


def measure(case: Case) -> list[Measurement]:
    """Run both sides' steps alternately, ours first; omit the warm-up."""
    context = multiprocessing.get_context("spawn")
    sides = []
    for side in (ours, theirs):
        here, there = context.Pipe()
        process = context.Process(target=side, args=(case, there), daemon=True)
        process.start()
        there.close()  # so that a side that dies is noticed
        sides.append((process, here, list[float]()))
    for _ in range(case.steps):
        for _, line, seconds in sides:
            line.send(None)
            seconds.append(line.recv())
    measurements = []
    for process, line, seconds in sides:
        measurements.append(Measurement(seconds[1:], line.recv()))
        process.join()
    return measurements


def gradient_difference(case: Case) -> float:
    """Return the norm of the difference of both sides' first gradients, relative to theirs."""
    ours, theirs = (torch.load(case.folder / f"{side}-{case.beta}.pt") for side in ("ours", "theirs"))
    assert ours.keys() == theirs.keys()
    difference = sum(float((ours[name] - theirs[name]).double().square().sum()) for name in theirs)
    return float((difference / sum(float(gradient.double().square().sum()) for gradient in theirs.values())) ** 0.5)


def row(name: str, case: Case) -> str:
    """Measure a row of the table."""
    our, their = measure(case)
    seconds = [statistics.median(side.seconds) for side in (our, their)]
    ratios = [theirs / ours for ours, theirs in zip(our.seconds, their.seconds, strict=True)]
    added = [side.summary.peak - side.summary.before for side in (our, their)]
    cells = [
        name, f"{case.beta:g}", *(f"{median:.2f}" for median in seconds),
        f"**{statistics.median(ratios):.2f}** ({min(ratios):.2f} to {max(ratios):.2f})",
        *(f"{side.summary.peak:.0f} ({more:.0f})" for side, more in zip((our, their), added, strict=True)),
        f"{our.summary.loss:.7f}, {their.summary.loss:.7f}", f"{our.summary.norm:.6f}, {their.summary.norm:.6f}",
        f"{gradient_difference(case):.1e}",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print a row per model and beta."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(SIZES), choices=SIZES)
    parser.add_argument("--betas", nargs="+", type=float, default=[0.0, 0.04])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    player, batches = agent_v0(), list[str]()
    print("| model | beta | s a step, ours | trl | trl / ours | peak MiB, ours (the steps') | trl", end=" ")
    print("| first loss, ours, trl | gradient norm, ours, trl | gradients differ by |")
    print("|---|" + "--:|" * 6 + "---|---|--:|", flush=True)
    for name in args.models:
        size = SIZES[name]
        with TemporaryDirectory() as place:
            batch = store_batch(player, name, size, Path(place))
            lengths = [len(sample.input_ids) for sample in batch]
            longest, tokens = max(lengths), sum(lengths)
            batches.append(
                f"{name}: {len(batch)} trajectories, {tokens} tokens, {longest * len(batch)} if all were as long as "
                f"the longest; {sum(sum(sample.mask) for sample in batch)} the agent's"
            )
            for beta in args.betas:
                case = Case(Path(place), size, longest, beta, 1 + args.repeats, args.threads)
                print(row(name, case), flush=True)
    print("", *batches, sep="\n")


if __name__ == "__main__":
    main()
