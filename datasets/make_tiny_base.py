"""Train a base of `tiny`'s size: a small Llama that has read the worlds' language, a stand-in for a base LLM.

    python datasets/make_tiny_base.py --state runs/base [--out datasets/agentgym_data/tiny-worlds] [--base FOLDER]

Training starts with drills (repeated random tokens) until the model copies from its context. Next are short documents
of `tiny_documents.py`, whose many questions teach it to read, then documents about as long as episodes. Last come
documents whose agents think as an expert and act at random, so that acting is left to learn. Longer drills are mixed
in, and tables of random names to look up. The loss covers only the answers. Training takes several hours on two cores
and ends with an exam on unseen questions; the card beside the weights has the results. It keeps its state in
`--state`, and the same command resumes it. With `--base` another base is trained further. Under `torchrun
--nproc_per_node 2` two processes share each batch.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from tiny_documents import Documents
from tiny_household import room_questions
from tiny_shop import Turns, exercise
from tiny_worlds import DIFFICULTIES, WORLDS, Unlearned, reset, wander

from agentgym_py.engine import HFEngine, SamplingParams
from agentgym_py.files import write_atomic
from agentgym_py.policy import Policy
from agentgym_py.policy.tiny import build_model, build_tokenizer, tiny_config
from agentgym_py.policy.tokens import IGNORED
from agentgym_py.rng import Rng, seed_of

Batch = tuple[torch.Tensor, torch.Tensor]
"""Ids and labels, each (B, S)."""
_RANK, _PROCESSES = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
_VOCAB = 1536
_SHORT, _LONG = (6400, 640), (5376, 1344)
"""Tokens of a batch, and maximum tokens of a row."""
_LOOKUPS, _REPEATS = 0.02, 0.02
"""Shares of two kinds of drills among the batches after the first drill. Their gradients are many times as large."""
_COPY_LOSS, _MAX_DRILLS = 0.4, 3000
"""The loss of drills at which a model copies, and the maximum number of batches until then."""
_SAVE_STEPS = 200
_EXAM = 1 << 40
"""Seed of the exam, which no batch has."""


@dataclass(frozen=True)
class Stage:
    """A part of the training: documents of one kind."""

    name: str
    draw: Callable[[Rng], Turns]
    tokens: int
    """Tokens of a batch, of all processes."""
    width: int
    """Maximum tokens of a row."""
    steps: int
    first: float
    """Learning rate at the start."""
    last: float
    """Learning rate at the end."""


def encode_turns(turns: Turns, policy: Policy) -> tuple[list[int], list[int]]:
    """Encode a document as the ids of a conversation and labels of the answers."""
    ids: list[int] = []
    labels: list[int] = []
    for number, (user, answer) in enumerate(turns):
        context = policy.chat.turn(user) if number else policy.chat.opening(user)
        reply = policy.chat.reply(answer) if answer else []
        ids += context + reply
        labels += [IGNORED] * len(context) + ([IGNORED] * len(reply) if isinstance(answer, Unlearned) else reply)
    return ids, labels


def repeats(generator: torch.Generator, vocab: int, rows: int, width: int, shortest: int, longest: int) -> Batch:
    """Draw rows that repeat a random segment of `shortest` to `longest` tokens; the first segment has no labels."""
    ids = torch.randint(4, vocab, (rows, width), generator=generator)
    length = torch.randint(shortest, longest + 1, (rows, 1), generator=generator)
    place = torch.arange(width)[None]
    ids = ids.gather(1, place % length)
    return ids, ids.masked_fill(place <= length, IGNORED)


def lookups(rng: Rng, vocab: int, rows: int, width: int) -> Batch:
    """Draw rows of tables of names and values; after each, every name with its value, which alone has labels."""
    ids, labels = (torch.zeros((rows, width), dtype=torch.long) for _ in range(2))
    for row in range(rows):
        place = 0
        while place < width:
            table, learned = _table(rng, vocab)
            end = min(width, place + len(table))
            ids[row, place:end] = torch.tensor(table[: end - place])
            labels[row, place:end] = torch.tensor(learned[: end - place])
            place = end
    return ids, labels


def _table(rng: Rng, vocab: int) -> tuple[list[int], list[int]]:
    """Draw a table and its questions, as ids and labels.

    Names are one to three of sixteen tokens, so that many share a beginning, as made-up names do. In half of the tables
    a value is one of four tokens and stands before the name, as a count does; in the others it is a name and follows.
    """
    mark, end, *tokens = rng.sample(range(4, vocab), 22)
    letters, counts = tokens[:16], tokens[16:]
    before = rng.below(2) == 0

    def name() -> tuple[int, ...]:
        return tuple(rng.choice(letters) for _ in range(1 + rng.below(3)))

    table = {name(): (rng.choice(counts),) if before else name() for _ in range(4 + rng.below(17))}
    ids: list[int] = []
    for key, value in table.items():
        ids += [*value, *key, end] if before else [*key, mark, *value, end]
    labels = [IGNORED] * len(ids)
    for key in rng.sample([*table], len(table)):
        ids += [*key, mark, *table[key], end]
        labels += [*[IGNORED] * (len(key) + 1), *table[key], end]
    return ids, labels


def drill(policy: Policy, seed: int) -> float:
    """Train on rows of 64 that repeat a random segment of 8 to 32 tokens until the model copies; return the loss.

    Copying emerges suddenly: with a vocabulary of 1,024 or 1,536 between batches 500 and 700 (the loss falls from 6 to
    0.5), with a larger vocabulary later, and it does not transfer to new tokens. So the vocabulary of `tiny` is small.
    """
    generator = torch.Generator().manual_seed(seed)
    trainer, vocab = Training(policy, _MAX_DRILLS, 3e-3, 3e-3), len(policy.tokenizer)
    for _ in range(_MAX_DRILLS):
        ids, labels = repeats(generator, vocab, 32, 64, 8, 32)
        if trainer.step([(ids[_RANK::_PROCESSES], labels[_RANK::_PROCESSES])]) < _COPY_LOSS:
            break
    return trainer.smoothed


def stage_batch(stage: Stage, step: int, policy: Policy, seed: int) -> list[Batch]:
    """Draw this process's share of a batch; one in 25 batches is a drill, of repeats or of lookups.

    The share depends on the batch's number and the number of processes alone. Its last document is cut to fit.
    """
    share = stage.tokens // _PROCESSES
    kind = Rng(seed, stage.name, step).uniform()
    vocab, rows = len(policy.tokenizer), share // stage.width
    if kind < _LOOKUPS:
        return [lookups(Rng(seed, stage.name, "lookups", step, _RANK), vocab, rows, stage.width)]
    if kind < _LOOKUPS + _REPEATS:
        generator = torch.Generator().manual_seed(seed_of(seed, stage.name, step, _RANK) >> 1)
        return [repeats(generator, vocab, rows, stage.width, 12, stage.width // 2)]
    rng = Rng(seed, stage.name, step, _RANK)
    documents = []
    while share > 0:
        ids, labels = (part[: min(share, stage.width)] for part in encode_turns(stage.draw(rng), policy))
        documents.append((ids, labels))
        share -= len(ids)
    return [(torch.tensor([ids]), torch.tensor([labels])) for ids, labels in documents]


def _cosine(done: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


class Muon(torch.optim.Optimizer):
    """Muon (Jordan et al. 2024) with the learning rates of AdamW (arXiv:2502.16982), as `torch.optim.Muon`.

    It orthogonalizes in float32. PyTorch's own does so in bfloat16, which takes 16 times as long without AVX-512.
    """

    def __init__(self, parameters: Sequence[torch.nn.Parameter], lr: float, weight_decay: float) -> None:
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Take a step: Nesterov momentum of 0.95, made orthogonal, with a root mean square of 0.2."""
        for group in self.param_groups:
            for parameter in group["params"]:
                momentum = self.state[parameter].setdefault("momentum", torch.zeros_like(parameter))
                momentum.lerp_(parameter.grad, 0.05)
                update = orthogonalize(parameter.grad.lerp(momentum, 0.95))
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.add_(update, alpha=-0.2 * math.sqrt(max(parameter.shape)) * group["lr"])


def orthogonalize(matrix: torch.Tensor) -> torch.Tensor:
    """Bring the singular values of a matrix near 1, by five Newton-Schulz iterations."""
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    wide = wide / wide.norm().clamp(min=1e-7)
    for _ in range(5):
        gram = wide @ wide.T
        gram = torch.addmm(gram, gram, gram, beta=-4.7750, alpha=2.0315)
        wide = torch.addmm(wide, gram, wide, beta=3.4445)
    return wide if matrix.shape[0] <= matrix.shape[1] else wide.T


class Training:
    """Muon for the layers' matrices and AdamW for the rest, both with a cosine schedule from `peak` to `last`."""

    def __init__(self, policy: Policy, steps: int, peak: float, last: float) -> None:
        self.model: Any = policy.model.train()
        matrices = [parameter for parameter in self.model.model.layers.parameters() if parameter.ndim == 2]
        others = [parameter for parameter in self.model.parameters() if all(parameter is not m for m in matrices)]
        self.optimizers = [
            Muon(matrices, lr=peak, weight_decay=0.01),
            torch.optim.AdamW(others, lr=peak, betas=(0.9, 0.95), weight_decay=0.01, fused=True),
        ]

        def rate(step: int) -> float:
            return min(1.0, (step + 1) / 100) * (last + (peak - last) * _cosine(step / steps)) / peak

        self.schedules = [torch.optim.lr_scheduler.LambdaLR(optimizer, rate) for optimizer in self.optimizers]
        self.smoothed, self.done = 10.0, 0

    def step(self, batch: Sequence[Batch]) -> float:
        """Take a step on the batch of all processes; return the smoothed loss."""
        total, labelled = torch.zeros(()), torch.zeros(())
        for ids, labels in batch:
            loss = _loss(self.model, ids, labels)
            loss.backward()
            total += loss.detach()
            labelled += (labels[:, 1:] != IGNORED).sum()
        gradients = [parameter.grad for parameter in self.model.parameters()]
        _all_reduce([total, labelled, *gradients])
        for gradient in gradients:
            gradient /= labelled
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer, schedule in zip(self.optimizers, self.schedules, strict=True):
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        self.smoothed = 0.95 * self.smoothed + 0.05 * (total / labelled).item()
        self.done += 1
        return self.smoothed

    def save(self, path: Path, stage: str) -> None:
        """Write all that a resumed training needs."""
        state: dict[str, Any] = {
            "processes": _PROCESSES,
            "stage": stage,
            "done": self.done,
            "smoothed": self.smoothed,
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "schedules": [schedule.state_dict() for schedule in self.schedules],
        }
        temporary = path.with_suffix(".part")
        torch.save(state, temporary)
        temporary.replace(path)

    def load(self, state: dict[str, Any]) -> None:
        """Continue from a saved state."""
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        for schedule, saved in zip(self.schedules, state["schedules"], strict=True):
            schedule.load_state_dict(saved)
        self.smoothed, self.done = state["smoothed"], state["done"]


def train(policy: Policy, stage: Stage, seed: int, path: Path, state: dict[str, Any]) -> None:
    """Train on a stage, from `state` if it is of this stage, and save to `path` on the way."""
    training = Training(policy, stage.steps, stage.first, stage.last)
    if state.get("stage") == stage.name:
        training.load(state)
    began, before = time.monotonic(), training.done
    while training.done < stage.steps:
        training.step(stage_batch(stage, training.done, policy, seed))
        if _RANK == 0 and (training.done % _SAVE_STEPS == 0 or training.done == stage.steps):
            training.save(path, stage.name)
            speed = (training.done - before) * stage.tokens / (time.monotonic() - began)
            print(
                f"{stage.name} {training.done} of {stage.steps}  loss {training.smoothed:.3f}  {speed:.0f} tokens/s",
                flush=True,
            )
    policy.model.eval()


def _loss(model: Any, ids: torch.Tensor, labels: torch.Tensor) -> Any:
    """Sum the cross-entropies of the labelled tokens; only their logits are computed, which saves a quarter."""
    labelled = labels[:, 1:] != IGNORED
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1][labelled]
    return torch.nn.functional.cross_entropy(model.lm_head(hidden), labels[:, 1:][labelled], reduction="sum")


def _all_reduce(tensors: Sequence[torch.Tensor]) -> None:
    """Sum each tensor over the processes, in place."""
    for tensor in tensors if _PROCESSES > 1 else ():
        dist.all_reduce(tensor)


def exam(policy: Policy, exercises: int = 400) -> dict[str, tuple[int, int]]:
    """Answer unseen questions greedily; return right answers and questions, by kind of question."""
    prompts, answers, kinds = [], [], []
    for source, turns in exam_documents(exercises):
        ids: list[int] = []
        for number, (user, answer) in enumerate(turns):
            ids = ids + policy.chat.turn(user) if number else policy.chat.opening(user)
            if kind := _kind(source, user, answer):
                kinds.append(f"{source}: {kind}")
                prompts.append(ids)
                answers.append(answer)
            ids = ids + policy.chat.reply(answer)
    replies = HFEngine(policy, slots=128).generate(prompts, SamplingParams(temperature=0.0, max_new_tokens=100))
    score: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for kind, answer, reply in zip(kinds, answers, replies, strict=True):
        right, asked = score[kind]
        texts = (_thought(text) for text in (policy.decode(reply.ids), answer))
        score[kind] = right + (len(set(texts)) == 1), asked + 1
    return dict(sorted(score.items()))


def _thought(reply: str) -> str:
    """Return what a reply says before its action, which is random; all of an answer without a thought."""
    return re.split(r" Now |\nAction:", reply, maxsplit=1)[0]


def exam_documents(exercises: int) -> Iterator[tuple[str, Turns]]:
    """Yield documents with questions: of the shop (half of them after results), of rooms, and easy aimless attempts."""
    documents, rng = Documents(), Rng("exam", _EXAM)
    library = documents.library
    for number in range(exercises):
        yield ("shop, after results", exercise(rng, library, 8)) if number % 2 else ("shop", exercise(rng, library))
        if number % 2:
            yield "household", room_questions(rng, documents.homes)
        name = list(WORLDS)[number % len(WORLDS)]
        env = documents.worlds[name, DIFFICULTIES[0]]
        yield name, wander(env, reset(rng, env), rng)


def _kind(source: str, user: str, answer: str) -> str:
    """Return the kind of question of a turn; empty if it is none."""
    if source in WORLDS:
        return "the expert's thought" if answer.startswith("Thought:") else ""
    question = user.split("\n")[-1]
    if re.match(r"Thought: .+\? (Yes|No|Chosen|Not yet)\. Now ", answer):
        return "options of a page"
    if not question.endswith("?"):
        return ""
    absent = ", none there" if answer == "none" else ""
    return f"{question.partition(' ')[0]} …?{absent}" if question.startswith(("Which", "Were")) else question


CARD = """# The base `{name}`

A Llama of {parameters} weights ({config}), and a byte-level BPE tokenizer of {vocab} tokens.
A stand-in for the base LLM of the papers: `agentgym evolve` starts from it.

- **Training**: drills until it copied, then tokens of short documents and of long ones, with drills in one of 25
  batches, by these commands, in order (… is a folder, or the result of the command before):

{commands}

- **Data**: only text that this project generates, from training tasks (`datasets/tiny_documents.py`): repeated random
  tokens and tables of random names; random walks through the shop, and questions with answers about made-up requests
  and pages; attempts in the household, and questions about tasks and pages; attempts in seven other worlds, and
  questions about recipes, sums and words. The loss covers only the assistant's turns.
- **Shop.** In walks and on made-up pages the customer first thinks which requested options a product's page has (in the
  form of Agent_v0's teacher, `ShopEnv.expert_thought`) and then clicks at random. There are three hints. Half of the
  searches in walks, and all in exercises, are for the request with all or some of its options; in four of five medium
  tasks that is the teacher's own search. Half of the options clicked on made-up pages are requested ones. Nine of ten
  clicks in walks avoid buy now, back to search and reviews. Exercises go from a search over a click on a result to a
  page, as episodes do.
- **Household.** Attempts follow the fair expert, with random detours. Three of four pursue another task's goal than the
  given one; they state it at once and give the teacher's reasons (`HouseholdEnv.expert_thought`). One of four pursues
  the given goal and gives no reasons. In two of five attempts, and in half of the questions, things and receptacles
  have made-up names.
- **Calculator, maze, SQL, TextCraft, todo, tools, Wordle.** Attempts follow the fair expert; seven of eight give the
  teacher's reasons. These are solutions of training tasks, but half of the attempts with reasons in the maze and in
  TextCraft pursue another goal than the given one. In the last documents three of four attempts give the teacher's
  reasons and act at random, and the others follow the expert without reasons. So the base reads and thinks like the
  teacher, and an agent has to learn to act on what it thinks.
- **SQL, TextCraft, tools.** Half of the documents put several questions, goals or requests to one first observation.
- **Detours** in attempts are random, and the loss does not cover them.
- **Wordle's** whole list of words is spelt, as it is known to every player; hints are given only of words that training
  tasks hide.
- **Not in the data**: tasks of the valid or test split and, except in lines of results, products that a held-out task
  asks for.
- **Licence**: the project's own, MIT. **Digest** of the weights: `{digest}`.

Exam: greedy answers to {asked} unseen questions, which count only if they match literally. Actions are random, so they
are not compared. In the seven other worlds the question is an easy training task after some random actions, and the
answer is the expert's thought.

| question | right |
|---|---|
{rows}
"""


def main() -> None:
    """Train tokenizer and model, run the exam, write everything and the card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "agentgym_data" / "tiny-worlds")
    parser.add_argument("--state", type=Path, required=True, help="a folder for the state of the training")
    parser.add_argument("--short", type=int, default=30_000_000, help="tokens of short documents")
    parser.add_argument("--tokens", type=int, default=60_000_000, help="tokens of long documents")
    parser.add_argument("--aimless", type=int, default=3_000_000, help="tokens of documents that act at random")
    parser.add_argument("--rate", type=float, default=2e-3, help="learning rate at the start of the first two stages")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--base", type=Path, help="a base to train further; by default a new one")
    args = parser.parse_args()
    torch.set_num_threads(1)  # as fast as two threads, and reproducible
    if _PROCESSES > 1:
        dist.init_process_group("gloo")
    documents = Documents()
    stages = [
        Stage("short", documents.short, *_SHORT, args.short // _SHORT[0], args.rate, 2e-4),
        Stage("long", documents.long, *_LONG, args.tokens // _LONG[0], args.rate, 1e-4),
        Stage("aimless", documents.aimless, *_LONG, args.aimless // _LONG[0], 5e-4, 5e-5),
    ]
    args.state.mkdir(parents=True, exist_ok=True)
    path = args.state / "state.pt"
    policy = begin(args.state / "start", documents, args.base, args.seed)
    state = torch.load(path, weights_only=True) if path.is_file() else {}
    if state and state["processes"] != _PROCESSES:
        raise SystemExit(f"{path} was written by {state['processes']} processes, not {_PROCESSES}")
    names = [stage.name for stage in stages]
    for stage in stages[names.index(state["stage"]) if state else 0 :]:
        if stage.steps:
            train(policy, stage, args.seed, path, state)
    if _RANK > 0:
        return
    policy.save(args.out)
    command = (
        f"      {'python' if _PROCESSES == 1 else f'torchrun --nproc_per_node {_PROCESSES}'} datasets/make_tiny_base.py"
    )
    command += f" --state … --short {args.short} --tokens {args.tokens} --aimless {args.aimless} --seed {args.seed}"
    command += f" --rate {args.rate}" + " --base …" * bool(args.base)
    earlier = _commands(args.base / "CARD.md") if args.base else []
    write_card(policy, args.out, [*earlier, command])


def begin(folder: Path, documents: Documents, base: Path | None, seed: int) -> Policy:
    """Return the policy that training starts from; a new one copies from its context and is kept in `folder`."""
    if base:
        return Policy.load(base)
    if not (folder / "done").is_file():
        policy = new_policy(documents, seed)
        if _RANK == 0:
            policy.save(folder)
            write_atomic(folder / "done", "")
        if _PROCESSES > 1:
            dist.barrier()
    return Policy.load(folder)


def new_policy(documents: Documents, seed: int) -> Policy:
    """Make a tokenizer and a model that copies from its context."""
    texts = (text for number in range(3000) for turn in documents.long(Rng(seed, "words", number)) for text in turn)
    tokenizer = build_tokenizer(texts, _VOCAB)
    policy = Policy(build_model(tiny_config(len(tokenizer), kv_heads=2), seed), tokenizer, "tiny")
    loss = drill(policy, seed)
    if loss > _COPY_LOSS:
        raise SystemExit(
            f"The model does not copy after {_MAX_DRILLS} batches of drills (loss {loss:.2f}): use another --seed"
        )
    return policy


def _commands(card: Path) -> list[str]:
    return [line for line in card.read_text(encoding="utf-8").split("\n") if "make_tiny_base.py" in line]


def write_card(policy: Policy, folder: Path, commands: list[str]) -> None:
    """Run the exam and write the card."""
    score, config = exam(policy), policy.model.config
    rows = [f"| {kind} | {100 * right / asked:.0f} % of {asked} |" for kind, (right, asked) in score.items()]
    print("\n".join(rows))
    card = CARD.format(
        name=folder.name,
        parameters=f"{policy.num_parameters:,}",
        config=f"{config.num_hidden_layers} layers of {config.hidden_size}, {config.num_attention_heads} heads, "
        f"{config.num_key_value_heads} of keys and values",
        vocab=len(policy.tokenizer),
        commands="\n".join(commands),
        digest=policy.digest(),
        asked=sum(asked for _, asked in score.values()),
        rows="\n".join(rows),
    )
    (folder / "CARD.md").write_text(card, encoding="utf-8")


if __name__ == "__main__":
    main()
