"""Train the base of `tiny`: a small Llama that has read the worlds' language, a stand-in for a base LLM.

    python datasets/make_tiny_base.py [--out datasets/agentgym_data/tiny] [--seed 0] [--base FOLDER]

Training starts with drills (repeated random tokens) until the model copies from its context. Next are the short
documents of `tiny_documents.py`, whose many questions teach it to read, then documents of all kinds, about as long as
episodes. Longer drills are mixed in. The loss covers only the answers. Training takes two hours on two cores and ends
with an exam on unseen questions; the card beside the weights has the results. With `--base` another base is trained
further (use another seed, because the documents depend on it). Under `torchrun --nproc_per_node 2` two processes share
each batch.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import time
from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from tiny_attempts import make_envs, room_questions
from tiny_documents import documents, short_documents
from tiny_shop import Turns, exercise, load_library

from agentgym_py.engine import HFEngine, SamplingParams
from agentgym_py.policy import Policy
from agentgym_py.policy.tiny import build_model, build_tokenizer, tiny_config
from agentgym_py.policy.tokens import IGNORED
from agentgym_py.rng import Rng

Batch = tuple[torch.Tensor, torch.Tensor]
"""Ids and labels, each (B, S)."""
Batches = Generator[Batch, float, None]
"""A generator of batches that is sent the smoothed loss after each."""
_RANK, _PROCESSES = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
_VOCAB = 1536
_SHORT, _LONG = (16, 400), (4, 1344)
"""Rows of a batch and tokens of a row."""
_DRILLS = 0.1
"""The share of drills among the batches after the first stage."""
_COPY_LOSS, _MAX_DRILLS = 0.4, 3000
"""The loss of drills at which a model copies, and the maximum number of batches until then."""


def encode_turns(turns: Turns, policy: Policy) -> tuple[list[int], list[int]]:
    """Encode a document as the ids of a conversation and labels of the answers."""
    ids: list[int] = []
    labels: list[int] = []
    for number, (user, answer) in enumerate(turns):
        context = policy.chat.turn(user) if number else policy.chat.opening(user)
        reply = policy.chat.reply(answer) if answer else []
        ids += context + reply
        labels += [IGNORED] * len(context) + reply
    return ids, labels


def repeats(generator: torch.Generator, vocab: int, rows: int, width: int, shortest: int, longest: int) -> Batch:
    """Draw rows that repeat a random segment of `shortest` to `longest` tokens; the first segment has no labels."""
    ids = torch.randint(4, vocab, (rows, width), generator=generator)
    length = torch.randint(shortest, longest + 1, (rows, 1), generator=generator)
    place = torch.arange(width)[None]
    ids = ids.gather(1, place % length)
    return ids, ids.masked_fill(place <= length, IGNORED)


def drills(seed: int, vocab: int, most: int) -> Batches:
    """Yield rows of 64 that repeat a random segment of 8 to 32 tokens, until the model copies, at most `most` batches.

    Copying emerges suddenly: with a vocabulary of 1,024 or 1,536 between batches 500 and 700 (the loss falls from 6 to
    0.5), with a larger vocabulary later, and it does not transfer to new tokens. So the vocabulary of `tiny` is small.
    """
    generator = torch.Generator().manual_seed(seed)
    for _ in range(most):
        if (yield repeats(generator, vocab, 32, 64, 8, 32)) < _COPY_LOSS:
            return


def rows_of(stream: Iterator[Turns], policy: Policy, shape: tuple[int, int], tokens: int) -> Batches:
    """Yield batches of rows that each start with a new document; the last document of a row is cut."""
    rows, width = shape

    def row() -> tuple[list[int], list[int]]:
        ids: list[int] = []
        labels: list[int] = []
        while len(ids) < width:
            document = encode_turns(next(stream), policy)
            ids += document[0]
            labels += document[1]
        return ids[:width], labels[:width]

    for _ in range(tokens // (rows * width)):
        ids, labels = zip(*(row() for _ in range(rows)), strict=True)
        yield torch.tensor(ids), torch.tensor(labels)


def with_drills(batches: Batches, shape: tuple[int, int], vocab: int, seed: int) -> Batches:
    """Mix in batches of drills that repeat up to half a row."""
    generator = torch.Generator().manual_seed(seed)
    for batch in batches:
        yield batch
        while torch.rand((), generator=generator) < _DRILLS:
            yield repeats(generator, vocab, *shape, 12, shape[1] // 2)


def _cosine(done: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def train(policy: Policy, batches: Batches, steps: int, peak: float, last: float) -> float:
    """Train with AdamW and a cosine schedule from `peak` to `last`; return the smoothed loss."""
    model = policy.model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, betas=(0.9, 0.95), weight_decay=0.01, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda i: min(1.0, (i + 1) / 100) * (last + (peak - last) * _cosine(i / steps)) / peak
    )
    smoothed, began, tokens, batch = 10.0, time.monotonic(), 0, next(batches, None)
    for step in count(1):
        if batch is None:
            break
        ids, labels = (part[_RANK::_PROCESSES] for part in batch)
        labelled = (batch[1][:, 1:] != IGNORED).sum()
        loss = _loss(model, ids, labels) / labelled
        loss.backward()
        total = loss.detach()
        _all_reduce([total, *(p.grad for p in model.parameters())])
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        smoothed, tokens = 0.95 * smoothed + 0.05 * total.item(), tokens + batch[0].numel()
        if step % 100 == 0 and _RANK == 0:
            print(f"step {step}  loss {smoothed:.3f}  {tokens / (time.monotonic() - began):.0f} tokens/s", flush=True)
        try:
            batch = batches.send(smoothed)
        except StopIteration:
            batch = None
    model.eval()
    return smoothed


def _loss(model: Any, ids: torch.Tensor, labels: torch.Tensor) -> Any:
    """Sum the cross-entropies of the labelled tokens; only their logits are computed, which saves a quarter."""
    labelled = labels[:, 1:] != IGNORED
    with torch.autocast("cpu", torch.bfloat16):
        hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1][labelled]
        logits = model.lm_head(hidden)
    return torch.nn.functional.cross_entropy(logits.float(), labels[:, 1:][labelled], reduction="sum")


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
            if kind := _kind(user, answer):
                kinds.append(f"{source}: {kind}")
                prompts.append(ids)
                answers.append(answer)
            ids = ids + policy.chat.reply(answer)
    replies = HFEngine(policy, slots=128).generate(prompts, SamplingParams(temperature=0.0, max_new_tokens=40))
    score: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for kind, answer, reply in zip(kinds, answers, replies, strict=True):
        right, asked = score[kind]
        texts = (text.partition(" Now ")[0] for text in (policy.decode(reply.ids), answer))  # the click is random
        score[kind] = right + (len(set(texts)) == 1), asked + 1
    return dict(sorted(score.items()))


def exam_documents(exercises: int) -> Iterator[tuple[str, Turns]]:
    """Yield documents with questions: shop exercises, half of them after results, and half as many rooms."""
    library, rng, envs = load_library(), Rng("exam", 1), make_envs()
    for number in range(exercises):
        yield ("shop, after results", exercise(rng, library, 8)) if number % 2 else ("shop", exercise(rng, library))
        if number % 2:
            yield "household", room_questions(rng, envs)


def _kind(user: str, answer: str) -> str:
    """Return the kind of question of a turn; empty if it is none."""
    question = user.split("\n")[-1]
    if re.match(r"Thought: .+\? (Yes|No|Chosen|Not yet)\. Now ", answer):
        return "options of a page"
    if not question.endswith("?"):
        return ""
    absent = ", none there" if answer == "none" else ""
    return f"{question.partition(' ')[0]} …?{absent}" if question.startswith(("Which", "Were")) else question


CARD = """# The base of `tiny`

A Llama of {parameters} weights ({config}), and a byte-level BPE tokenizer of {vocab} tokens.
A stand-in for the base LLM of the papers: `agentgym evolve` starts from it, and it can neither shop nor keep house
before training.

- **Training**: drills until it copied, then tokens of short documents and of long ones, with drills in a tenth of the
  batches, by these commands, in order (… is the result of the command before):

{commands}

- **Data**: only text that this project generates (`datasets/tiny_shop.py`, `datasets/tiny_attempts.py`). It consists of
  repeated random tokens; random walks through training tasks of the shop, and questions with answers about made-up
  requests and pages; attempts at training tasks of the household, and questions about tasks and pages; attempts at
  training tasks of todo, calculator and tools. The loss covers only the assistant's turns.
- **Shop.** In walks and on made-up pages the customer first thinks which requested options a product's page has (in the
  form of Agent_v0's teacher, `ShopEnv.expert_thought`) and then clicks at random. There are three hints. Half of the
  searches in walks, and all in exercises, are for the request with all or some of its options; in four of five medium
  tasks that is the teacher's own search. Half of the options clicked on made-up pages are requested ones. Nine of ten
  clicks in walks avoid buy now, back to search and reviews. Exercises go from a search over a click on a result to a
  page, as episodes do.
- **Household.** Attempts follow the fair expert, with random detours. Three of four pursue another task's goal than the
  given one; they state it at once and give the teacher's reasons (`HouseholdEnv.expert_thought`). One of four pursues
  the given goal and gives no reasons. So the data shows how to act for a stated goal, seldom that it should be the
  given one, and never a reply of Agent_v0's teacher to the task at hand. In two of five attempts, and in half of the
  questions, things and receptacles have made-up names.
- **Todo, calculator, tools.** Attempts follow the expert, with detours and without reasons: solutions of training
  tasks, two of five with other names.
- **Not in the data**: tasks of the valid or test split and, except in lines of results, products that a held-out task
  asks for.
- **Licence**: the project's own, MIT. **Digest** of the weights: `{digest}`.

Exam: greedy answers to {asked} unseen questions, which count only if they match literally. Answers about a
product's page are compared without the click, which is random.

| question | right |
|---|---|
{rows}
"""


def main() -> None:
    """Train tokenizer and model, run the exam, write everything and the card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "agentgym_data" / "tiny")
    parser.add_argument("--short", type=int, default=28_000_000, help="tokens of short documents")
    parser.add_argument("--tokens", type=int, default=30_000_000, help="tokens of documents")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--base", type=Path, help="a base to train further; by default a new one")
    args = parser.parse_args()
    torch.set_num_threads(1)  # as fast as two threads, and reproducible
    if _PROCESSES > 1:
        dist.init_process_group("gloo")
    earlier = _commands(args.base / "CARD.md") if args.base else []
    policy = Policy.load(args.base) if args.base else new_policy(args.seed)
    for source, tokens, shape, last in (
        (short_documents, args.short, _SHORT, 2e-4),
        (documents, args.tokens, _LONG, 1e-4),
    ):
        if tokens:
            steps = int(tokens // math.prod(shape) / (1 - _DRILLS))
            batches = rows_of(source(args.seed), policy, shape, tokens)
            batches = with_drills(batches, shape, len(policy.tokenizer), args.seed + 5)
            train(policy, batches, steps, 2e-3, last)
            if _RANK == 0:
                policy.save(args.out)
    if _RANK > 0:
        return
    command = (
        f"      {'python' if _PROCESSES == 1 else f'torchrun --nproc_per_node {_PROCESSES}'} datasets/make_tiny_base.py"
    )
    command += f" --short {args.short} --tokens {args.tokens} --seed {args.seed}" + " --base …" * bool(args.base)
    write_card(policy, args.out, [*earlier, command])


def new_policy(seed: int) -> Policy:
    """Make a tokenizer and a model that copies from its context."""
    torch.manual_seed(seed)
    sample = documents(seed + 1)
    tokenizer = build_tokenizer((text for _ in range(3000) for turn in next(sample) for text in turn), _VOCAB)
    policy = Policy(build_model(tiny_config(len(tokenizer), kv_heads=2), seed), tokenizer, "tiny")
    loss = train(policy, drills(seed, len(tokenizer), _MAX_DRILLS), _MAX_DRILLS, 3e-3, 3e-3)
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
