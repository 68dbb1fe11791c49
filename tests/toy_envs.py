"""Two envs with a known optimum and a fast-learning policy of twenty words; the fixture `toy_envs` loads them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import gymnasium
import torch
from torch import Tensor

from agentgym_py.collection import Job, PlayConfig
from agentgym_py.collection.rollouts import Rollouts
from agentgym_py.engine import Generation, HFEngine, SamplingParams
from agentgym_py.engine.hf import HFBatch
from agentgym_py.env import EnvSpec, Outcome, Reply, Task, TextEnv
from agentgym_py.errors import NothingToTrainOnError, UnknownNameError
from agentgym_py.policy import Policy
from agentgym_py.policy.tiny import CHAT_TEMPLATE, END, PAD, SPECIAL_TOKENS, build_model, tiny_config
from agentgym_py.policy.tokens import IGNORED
from agentgym_py.rng import Rng
from agentgym_py.training import TrainReport
from agentgym_py.training.rl.actor_critic import Output
from agentgym_py.training.rl.batch import Record, TokenBatch
from agentgym_py.training.rl.guards import StoppedEarly
from agentgym_py.training.rl.learner import Learner
from agentgym_py.training.rl.losses import Loss, Weighting

RIGHT = ("right", "east", "up", "on", "1", "3", "5", "7")
LEFT = ("left", "west", "0", "2", "4", "6")
ONE_RIGHT = [[word] for word in RIGHT]


class Toy(TextEnv):
    """Numbered tasks; a reply that begins with a word of `RIGHT` moves right, any other left."""

    rules = {"full": "", "brief": "", "none": ""}  # noqa: RUF012  # nothing changes it

    def __init__(self, *, max_steps: int = 12, split: str = "train", render_mode: str | None = None) -> None:
        super().__init__(max_steps=max_steps, split=split, render_mode=render_mode)
        self.at = 0

    def task(self, name: str | int, split: str | None = None) -> Task:
        """Return task `name/split/n`."""
        full = f"{self.name}/{split or self.split}/{name}" if isinstance(name, int) else name
        if not full.startswith(f"{self.name}/"):
            raise UnknownNameError(f"no task {name!r}")
        return Task(full, full.split("/")[1], "toy", "easy", "Go.")

    def begin(self, task: Task) -> str:
        """Start at 0."""
        self.at = 0
        return "0"

    def act(self, reply: Reply) -> Outcome:
        """Move right or left."""
        return self.move(reply.action.split()[:1] in ONE_RIGHT)

    def move(self, right: bool) -> Outcome:
        """Apply the move."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """Return the position."""
        return {"at": self.at}

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Restore the position."""
        self.at = int(state["at"])

    def expert(self) -> list[str]:
        """Move right to the end."""
        return [] if self.stop_reason else ["right"] * (5 - self.at)


class Bandit(Toy):
    """Two arms, one pull: right pays 1 in four tasks of five, left in the fifth; always right is best, 0.8."""

    name = "bandit"

    def move(self, right: bool) -> Outcome:
        """Pay for the arm."""
        assert self.current_task is not None
        pays = right == (int(self.current_task.id.rsplit("/", 1)[1]) % 5 > 0)
        return Outcome("2", float(pays), terminated=True, success=pays)


class Chain(Toy):
    """Position 5 pays 1, a step costs 0.05, left goes back: 5 times right is best, 0.75."""

    name = "chain"

    def move(self, right: bool) -> Outcome:
        """Take one step."""
        self.at = self.at + 1 if right else max(self.at - 1, 0)
        done = self.at == 5
        return Outcome(str(self.at), float(done) - 0.05, terminated=done, success=done)


worlds: dict[str, Any] = {"ToyBandit-v0": Bandit, "ToyChain-v0": Chain}
for name, world in worlds.items():
    gymnasium.register(id=name, entry_point=world)
BANDIT, CHAIN = EnvSpec("ToyBandit-v0"), EnvSpec("ToyChain-v0")


def word_policy(seed: int = 0, layers: int = 1, spread: float = 0.02, hidden_size: int = 16) -> Policy:
    """Build a random Llama of a few thousand parameters whose tokens are words.

    Input and output embeddings are tied. Adapters do not train them, so a larger `spread` gives adapters more effect.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = [*SPECIAL_TOKENS, "<unk>", *RIGHT, *LEFT]
    word_level = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    word_level.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=word_level, pad_token=PAD, eos_token=END, unk_token="<unk>",
        additional_special_tokens=list(SPECIAL_TOKENS[1:3]), chat_template=CHAT_TEMPLATE,
    )  # fmt: skip
    config = tiny_config(len(words), hidden_size=hidden_size, layers=layers, heads=2, max_length=256)
    policy = Policy(build_model(config, seed).eval(), tokenizer, "words")
    with torch.no_grad():
        policy.model.get_input_embeddings().weight *= spread / 0.02
    return policy


class ToyEngine(HFEngine):
    """An engine whose replies all count as complete, because here the longest reply is a whole action."""

    finish_reason: Literal["stop", "length"] = "stop"
    """What every reply ends by."""

    def batch(self, params: SamplingParams) -> HFBatch:
        """Return a batch that reports this reason."""
        return _ToyBatch(self, params)


class _ToyBatch(HFBatch):
    def __init__(self, engine: ToyEngine, params: SamplingParams) -> None:
        super().__init__(engine.runner, params)
        self._engine = engine

    def take_ended(self) -> list[tuple[Hashable, Generation]]:
        reason = self._engine.finish_reason
        return [(key, replace(reply, finish_reason=reason)) for key, reply in super().take_ended()]


def rollouts(
    policy: Policy, spec: EnvSpec, budget: int, *, tasks: int = 1000, tokens: int = 1, seed: int = 0, **params: Any
) -> Rollouts:
    """Make rollouts on the first tasks of an env, with replies of at most `tokens` tokens."""
    jobs = [Job(spec, n) for n in range(tasks)]
    sampling = SamplingParams(**{"temperature": 1.0, "max_new_tokens": tokens} | params)
    engine = ToyEngine(policy, slots=64)
    return Rollouts(policy, engine, sampling, jobs, budget, play_config=PlayConfig(seed=seed))


def improved(
    spec: EnvSpec, trainer: Any, budget: int, folder: Path | None = None, *, seed: int = 0, **more: Any
) -> tuple[Policy, TrainReport, Rollouts]:
    """Train a fresh policy, by default in a temporary folder; return it with its report and rollouts."""
    policy = word_policy()
    source = rollouts(policy, spec, budget, **more)
    with TemporaryDirectory(prefix="agentgym") if folder is None else contextlib.nullcontext(folder) as output:
        report = trainer.improve(policy, source, seed=seed, output_dir=Path(output))
    return policy, report, source


def random_records(policy: Policy, lengths: Sequence[Sequence[int]], seed: int = 0) -> list[Record]:
    """Make records of random tokens; `lengths` are the agent tokens of each turn of each record."""
    rng, records = Rng("records", seed), []
    for turns in lengths:
        ids, labels, at = list[int](), list[int](), list[int]()
        for turn, size in enumerate(turns):
            observation = [rng.below(policy.model.config.vocab_size) for _ in range(2 + rng.below(4))]
            reply = [rng.below(policy.model.config.vocab_size) for _ in range(size)]
            ids, labels = ids + observation + reply, labels + [IGNORED] * len(observation) + reply
            at += [turn] * size
        old = torch.tensor([-1.0 - 3 * rng.below(1000) / 1000 for _ in at])
        records.append(Record(torch.tensor(ids), torch.tensor(labels), torch.tensor(at), old))
    return records


LENGTHS = ((3, 1), (2,), (1, 1, 4), (5,), (2, 2), (1,))
"""The agent tokens of each turn, for six records."""


def records_of(policy: Policy, lengths: Sequence[Sequence[int]] = LENGTHS) -> list[Record]:
    """Make random records with an advantage for each token."""
    records = random_records(policy, lengths)
    for number, record in enumerate(records):
        record.advantages_n = torch.linspace(-1, 1, record.n) + 0.1 * number
    return records


LossOf = Callable[[Output, TokenBatch], Loss]
"""A trainer's loss of a batch's agent tokens."""


def step(
    learner: Learner, records: Sequence[Record], loss_of: LossOf, weighting: Weighting, constant: float = 1.0
) -> dict[str, float]:
    """Take one optimizer step on these records as a trainer's loop does; return its log."""
    learner.begin_step(records, weighting, constant)
    return _take(learner, records, loss_of)


def epoch(
    learner: Learner, records: Sequence[Record], loss_of: LossOf, weighting: Weighting
) -> Iterator[dict[str, float]]:
    """Pass over the records once, as a trainer's loop does; yield the log of each step."""
    for minibatch in learner.minibatches(records, weighting):
        yield _take(learner, minibatch, loss_of)


def _take(learner: Learner, minibatch: Sequence[Record], loss_of: LossOf) -> dict[str, float]:
    for batch in learner.microbatches(minibatch):
        out = learner.forward(batch)
        learner.backward(loss_of(out, batch), out, batch)
    return learner.step()


def first_records(
    trainer: Any, rollouts: Rollouts, folder: Path, monkeypatch: Any, prepare: Callable[[Learner], object] = id
) -> tuple[Learner, list[Record]]:
    """Train up to the first step; return the learner and the iteration's records.

    `prepare` is called with the learner before the first episode.
    """
    seized = list[Any]()

    class FirstStep(Learner):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            prepare(self)

        def minibatches(self, records: Sequence[Record], *args: Any, **kwargs: Any) -> Any:
            seized.extend([self, list(records)])
            raise StoppedEarly

    with monkeypatch.context() as patch:
        patch.setattr("agentgym_py.training.rl.learner.Learner", FirstStep)
        with contextlib.suppress(NothingToTrainOnError):
            trainer.improve(rollouts.policy, rollouts, seed=0, output_dir=folder)
    learner, records = seized
    return learner, records


def slow_logps(model: Any, record: Record, temperature: float = 1.0) -> list[Tensor]:
    """Compute the log-probability of each agent token by a forward pass over its prefix alone."""
    logps = []
    for t in range(1, len(record.input_ids)):
        if record.labels[t] != IGNORED:
            logits = model(input_ids=record.input_ids[None, :t], use_cache=False).logits[0, -1] / temperature
            logps.append(torch.log_softmax(logits, -1)[record.input_ids[t]])
    return logps
