"""GRPO's learning step beside that of trl's GRPOTrainer: `python benchmarks/grpo.py [--models tiny] [--betas 0 0.04]`.

Agent_v0 of the shop plays groups of tries, once; those whose tries did not all come to the same are stored, and both
sides take their steps on them: trl gets them from its `rollout_func`, observations masked by `env_mask`; ours from
rollouts that play nothing. Another model than the tiny one gets the same episodes in its own tokens, cut to their first
turns.

On the clock is all from the moment the rollouts are handed over to the end of the optimizer's step: rewards and
advantages, padding, the pass through the reference where beta is not 0, forward, loss, backward, clipping, AdamW. One
step of the optimizer a batch, so that trl needs no pass for old log-probabilities; passes of as many padded tokens on
both sides, float32, the same learning rate, betas and clipping. Each side runs in a process of its own, and they step
in turn; the first step of each is a warm-up, whose gradients are compared. Memory is the process's largest
resident set, and how much of it came after the first batch was handed over.
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
    """How much of a batch a model gets."""

    tasks: int
    tries: int
    turns: int
    rows: int
    """Trajectories a pass."""


SIZES = {"tiny": Size(4, 8, 15, 8), "smollm2": Size(2, 2, 3, 4)}


@dataclass(frozen=True)
class Case:
    """What both sides are given."""

    folder: Path
    size: Size
    longest: int
    """Tokens of the longest trajectory."""
    beta: float
    steps: int
    threads: int

    def policy(self) -> Policy:
        """A copy of what is trained."""
        return Policy.load(self.folder / "policy", device="cpu")

    def groups(self) -> list[list[Trajectory]]:
        """The batch."""
        stored, tries = list(store.read(self.folder / "rollouts.jsonl")), self.size.tries
        return [stored[at : at + tries] for at in range(0, len(stored), tries)]


# ---------------------------------------------------------------------------------------------------------- the batch


def agent_v0() -> Policy:
    """The tiny base after twelve episodes of the fair expert, as rounds begin with."""
    policy = Policy.load("tiny", device="cpu")
    demos = Collector(ExpertAgent(fair=True)).collect_batch(jobs_for([SHOP], "train", range(12)))
    with TemporaryDirectory() as folder:
        FilteredBC().train(policy, demos, seed=0, output_dir=Path(folder))
    return policy


def telling(policy: Policy, tries: int) -> Iterator[list[Trajectory]]:
    """Groups whose tries did not all come to the same."""
    rollouts = Rollouts(policy, HFEngine(policy), SAMPLED, jobs_for([SHOP], "train", range(100, 1000)), 10_000)
    while True:
        for group in rollouts.groups(8, tries):
            if len({each.reward for each in group}) > 1:
                yield group


def transcribed(trajectory: Trajectory, policy: Policy) -> Trajectory:
    """The trajectory in the tokens of another policy, as likely as that policy finds them."""
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


def stored(player: Policy, name: str, size: Size, folder: Path) -> list[Sample]:
    """Put the policy and the batch of a model into `folder`; the batch in tokens."""
    played = [each for group in islice(telling(player, size.tries), size.tasks) for each in group]
    learner = player if name == "tiny" else Policy.load(name, device="cpu")
    batch = [replace(each, steps=each.steps[: size.turns]) for each in played]
    if learner is not player:
        batch = [transcribed(each, learner) for each in batch]
    learner.save(folder / "policy")
    store.write(folder / "rollouts.jsonl", batch)
    return [encode(each, learner.chat) for each in batch]


# ---------------------------------------------------------------------------------------------------------- the sides


class Done(NamedTuple):
    """What a side has to say at its end."""

    loss: float
    """Of the first step."""
    norm: float
    """Of its gradient, before it was clipped."""
    peak: float
    """MiB."""
    before: float
    """MiB when the first batch was handed over."""


class Clock:
    """A side's end of the line: waits for its turn, measures a step, keeps the first one's gradient."""

    def __init__(self, line: Connection, kept: Path) -> None:
        self.line, self.kept = line, kept
        self.before = self._began = 0.0

    def begin(self) -> None:
        """Call when the rollouts are handed over."""
        self.line.recv()
        if not self.before:
            self.before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20
        self._began = time.perf_counter()

    def end(self) -> None:
        """Call after the optimizer's step."""
        self.line.send(time.perf_counter() - self._began)

    def keep(self, model: Any) -> None:
        """The gradient of the first step."""
        if not self.kept.exists():
            torch.save({name: p.grad for name, p in model.named_parameters()}, self.kept)

    def done(self, first: Mapping[str, float]) -> None:
        """Say what is to be said, with what was logged of the first step."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
        self.line.send(Done(first["loss"], first["grad_norm"], peak, self.before))


@dataclass(slots=True)
class Replayed(Rollouts):
    """Rollouts that hand over the same groups again and again."""

    same: list[list[Trajectory]] | None = None
    clock: Clock | None = None

    def sync(self) -> None:
        """Nobody plays."""

    def groups(self, tasks: int, size: int) -> list[list[Trajectory]]:
        """All of them, however many are asked for."""
        assert self.same and self.clock
        self.episodes += [each for group in self.same for each in group]
        self.clock.begin()
        return self.same


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
    rollouts = Replayed(policy, engine, SAMPLED, [], budget, same=case.groups(), clock=clock)

    def after(done: int, of: int) -> None:
        clock.end()
        clock.keep(policy.model)

    report = settings.improve(policy, rollouts, seed=0, output_dir=case.folder, progress=after)
    clock.done(report.history[0])


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
    groups = [[trl_row(each, policy.chat) for each in group] for group in case.groups()]

    def rollout_func(prompts: list[str], trainer: Any) -> dict[str, list[Any]]:
        tries = [iter(group) for group in groups]
        rows = [next(tries[int(prompt)]) for prompt in prompts]
        found = {name: [row[name] for row in rows] for name in rows[0]}
        clock.begin()
        return found

    class Tell(TrainerCallback):  # type: ignore[misc]  # transformers is untyped here
        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            clock.keep(kwargs["model"])

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
        callbacks=[Tell()],
    )  # fmt: skip
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    clock.done(trainer.state.log_history[0])


# ------------------------------------------------------------------------------------------------------ the comparison


class Measured(NamedTuple):
    """A side's steps."""

    seconds: list[float]
    done: Done


def measure(case: Case) -> list[Measured]:
    """Both sides' steps in turn, ours first; without the warm-up."""
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
    found = []
    for process, line, seconds in sides:
        found.append(Measured(seconds[1:], line.recv()))
        process.join()
    return found


def apart(case: Case) -> float:
    """The length of the difference between both sides' first gradients, as a share of theirs."""
    ours, theirs = (torch.load(case.folder / f"{side}-{case.beta}.pt") for side in ("ours", "theirs"))
    assert ours.keys() == theirs.keys()
    difference = sum(float((ours[name] - theirs[name]).double().square().sum()) for name in theirs)
    return float((difference / sum(float(each.double().square().sum()) for each in theirs.values())) ** 0.5)


def row(name: str, case: Case) -> str:
    """A row of the table."""
    mine, other = measure(case)
    seconds = [statistics.median(side.seconds) for side in (mine, other)]
    ratios = [theirs / ours for ours, theirs in zip(mine.seconds, other.seconds, strict=True)]
    added = [side.done.peak - side.done.before for side in (mine, other)]
    cells = [
        name, f"{case.beta:g}", *(f"{each:.2f}" for each in seconds),
        f"**{statistics.median(ratios):.2f}** ({min(ratios):.2f} to {max(ratios):.2f})",
        *(f"{side.done.peak:.0f} ({more:.0f})" for side, more in zip((mine, other), added, strict=True)),
        f"{mine.done.loss:.7f}, {other.done.loss:.7f}", f"{mine.done.norm:.6f}, {other.done.norm:.6f}",
        f"{apart(case):.1e}",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print a row a model and beta."""
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
            batch = stored(player, name, size, Path(place))
            longest, tokens = max(len(each.input_ids) for each in batch), sum(len(each.input_ids) for each in batch)
            batches.append(
                f"{name}: {len(batch)} trajectories, {tokens} tokens, {longest * len(batch)} if all were as long as "
                f"the longest; {sum(sum(each.mask) for each in batch)} the agent's"
            )
            for beta in args.betas:
                case = Case(Path(place), size, longest, beta, 1 + args.repeats, args.threads)
                print(row(name, case), flush=True)
    print("", *batches, sep="\n")


if __name__ == "__main__":
    main()
