"""Make the base of the model `tiny`: a small Llama that has read the worlds' language, a stand-in for a base LLM.

    python datasets/make_tiny_base.py [--out datasets/agentgym_data/tiny] [--seed 0] [--base FOLDER]

First drills (random tokens, repeated), until it copies from its context, which everything else builds on; then short
documents of `tiny_documents.py`: many questions in few tokens, which is what makes it read at all; then documents of
all kinds, about as long as episodes. Only the answers are learnt. Longer drills stand in between. It takes two hours
on two cores. At the end it sits an exam on questions that it has not seen; the card beside the weights says how
it did. With `--base` another base reads on (take another seed: the documents depend on it). Under
`torchrun --nproc_per_node 2` two processes share each batch.
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
from tiny_attempts import room_read, worlds
from tiny_documents import documents, short_documents
from tiny_shop import Turns, exercise, library

from agentgym_py.engine import HFEngine, SamplingParams
from agentgym_py.policy import Policy
from agentgym_py.policy.tiny import build_model, build_tokenizer, tiny_config
from agentgym_py.policy.tokens import IGNORED
from agentgym_py.rng import Rng

Batch = tuple[torch.Tensor, torch.Tensor]
"""Ids and labels, each (B, S)."""
Batches = Generator[Batch, float, None]
"""Batches; it is sent the smoothed loss after each."""
_RANK, _PROCESSES = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
_VOCAB = 1536
_SHORT, _LONG = (16, 400), (4, 1344)
"""Rows and tokens of a batch."""
_DRILLS = 0.1
"""Share of drills among the batches after the first stage."""
_COPIES, _MOST_DRILLS = 0.4, 3000
"""The loss of drills at which a model copies, and the batches that it may need."""


def encode_turns(turns: Turns, policy: Policy) -> tuple[list[int], list[int]]:
    """A document as the ids of a conversation, and its labels, which stand on the answers."""
    ids: list[int] = []
    labels: list[int] = []
    for number, (said, answer) in enumerate(turns):
        context = policy.chat.turn(said) if number else policy.chat.opening(said)
        reply = policy.chat.reply(answer) if answer else []
        ids += context + reply
        labels += [IGNORED] * len(context) + reply
    return ids, labels


def repeats(generator: torch.Generator, vocab: int, rows: int, width: int, shortest: int, longest: int) -> Batch:
    """Rows that repeat a random segment of `shortest` to `longest` tokens; the first time is not to be learnt."""
    ids = torch.randint(4, vocab, (rows, width), generator=generator)
    length = torch.randint(shortest, longest + 1, (rows, 1), generator=generator)
    place = torch.arange(width)[None]
    ids = ids.gather(1, place % length)
    return ids, ids.masked_fill(place <= length, IGNORED)


def drills(seed: int, vocab: int, most: int) -> Batches:
    """Rows of 64 that repeat a random segment of 8 to 32 tokens, until they are copied or `most` batches are over.

    Copying from the context is found at once, somewhere: with a vocabulary of 1,024 or 1,536 between batches 500 and
    700 (the loss falls from 6 to 0.5); the larger the vocabulary, the later, and what was found with few tokens does
    not carry over to others. So the vocabulary of `tiny` is small.
    """
    generator = torch.Generator().manual_seed(seed)
    for _ in range(most):
        if (yield repeats(generator, vocab, 32, 64, 8, 32)) < _COPIES:
            return


def rows_of(stream: Iterator[Turns], policy: Policy, shape: tuple[int, int], tokens: int) -> Batches:
    """Rows that each begin with a new document; the last one is cut."""
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
    """Now and then a batch of drills that repeat up to half a row."""
    generator = torch.Generator().manual_seed(seed)
    for batch in batches:
        yield batch
        while torch.rand((), generator=generator) < _DRILLS:
            yield repeats(generator, vocab, *shape, 12, shape[1] // 2)


def _cosine(done: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def train(policy: Policy, batches: Batches, steps: int, peak: float, last: float) -> float:
    """Next-token training with AdamW, the rate falling from `peak` to `last` as a cosine; returns the smoothed loss."""
    model = policy.model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, betas=(0.9, 0.95), weight_decay=0.01, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda i: min(1.0, (i + 1) / 100) * (last + (peak - last) * _cosine(i / steps)) / peak,
    )
    recent, began, seen, batch = 10.0, time.monotonic(), 0, next(batches, None)
    for step in count(1):
        if batch is None:
            break
        ids, labels = (part[_RANK::_PROCESSES] for part in batch)
        learnt = (batch[1][:, 1:] != IGNORED).sum()
        loss = _loss(model, ids, labels) / learnt
        loss.backward()
        shared = loss.detach()
        _add_up([shared, *(p.grad for p in model.parameters())])
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        recent, seen = 0.95 * recent + 0.05 * shared.item(), seen + batch[0].numel()
        if step % 100 == 0 and _RANK == 0:
            print(f"step {step}  loss {recent:.3f}  {seen / (time.monotonic() - began):.0f} tokens/s", flush=True)
        try:
            batch = batches.send(recent)
        except StopIteration:
            batch = None
    model.eval()
    return recent


def _loss(model: Any, ids: torch.Tensor, labels: torch.Tensor) -> Any:
    """The sum of the cross-entropies of what is to be learnt; logits stand only there, which saves a quarter."""
    to_learn = labels[:, 1:] != IGNORED
    with torch.autocast("cpu", torch.bfloat16):
        hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1][to_learn]
        logits = model.lm_head(hidden)
    return torch.nn.functional.cross_entropy(logits.float(), labels[:, 1:][to_learn], reduction="sum")


def _add_up(tensors: Sequence[torch.Tensor]) -> None:
    """Make each tensor the sum over the processes."""
    for tensor in tensors if _PROCESSES > 1 else ():
        dist.all_reduce(tensor)


def exam(policy: Policy, exercises: int = 400) -> dict[str, tuple[int, int]]:
    """Greedy answers to questions that were not in the reading: right ones and questions, by kind of question."""
    prompts, answers, kinds = [], [], []
    for what, turns in examined(exercises):
        ids: list[int] = []
        for number, (said, answer) in enumerate(turns):
            ids = ids + policy.chat.turn(said) if number else policy.chat.opening(said)
            if kind := _kind(said, answer):
                kinds.append(f"{what}: {kind}")
                prompts.append(ids)
                answers.append(answer)
            ids = ids + policy.chat.reply(answer)
    replies = HFEngine(policy, slots=128).generate(prompts, SamplingParams(temperature=0.0, max_new_tokens=40))
    score: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for kind, answer, reply in zip(kinds, answers, replies, strict=True):
        right, asked = score[kind]
        texts = (text.partition(" Now ")[0] for text in (policy.decode(reply.ids), answer))  # what is clicked is chance
        score[kind] = right + (len(set(texts)) == 1), asked + 1
    return dict(sorted(score.items()))


def examined(exercises: int) -> Iterator[tuple[str, Turns]]:
    """Documents with questions: exercises of the shop, half of them with results in between, and half as many rooms."""
    books, rng, known = library(), Rng("exam", 1), worlds()
    for each in range(exercises):
        yield ("shop, after results", exercise(rng, books, 8)) if each % 2 else ("shop", exercise(rng, books))
        if each % 2:
            yield "household", room_read(rng, known)


def _kind(said: str, answer: str) -> str:
    """What kind of question is answered here; empty if it is none."""
    question = said.split("\n")[-1]
    if re.match(r"Thought: .+\? (Yes|No|Chosen|Not yet)\. Now ", answer):
        return "a page judged"
    if not question.endswith("?"):
        return ""
    there = ", none there" * (answer == "none")
    return f"{question.partition(' ')[0]} …?{there}" if question.startswith(("Which", "Were")) else question


CARD = """# The base of `tiny`

A Llama of {parameters} weights ({config}), and a byte-level BPE tokenizer of {vocab} tokens.
A stand-in for the base LLM of the papers: `agentgym evolve` begins with it, and it can neither shop nor keep house
before it is trained.

- **Made by** drills until it copied, then tokens of short documents and of long ones, with drills in a tenth of the
  batches, as these commands say, in order (… is what the one before made):

{commands}

- **Read** only text that this project makes up (`datasets/tiny_shop.py`, `datasets/tiny_attempts.py`): random tokens
  repeated; of the shop, random walks through training tasks, and questions about made-up requests and pages with their
  answers; of the household, training tasks in which people act, and questions about tasks and pages; of todo,
  calculator and tools, training tasks in which people act. Only what stands in an assistant's turn was learnt.
- **Shop.** In walks and on made-up pages the customer says of each product's page what of the request is there (in the
  form of Agent_v0's teacher, `ShopEnv.think`) and then clicks what chance says. Three hints: half of the searches in
  walks, and all in exercises, are for what is wanted, with all or some of its options, which in four of five medium
  tasks is the teacher's own search; half of the options clicked on made-up pages are ones that are asked for; and nine
  of ten clicks of walks are none of buy now, back to search and reviews. Exercises go from a search over a click on a
  result to a page, as episodes do.
- **Household.** People act as the fair expert does, with detours that chance says. Three of four pursue another task's
  goal than the one that they were told: they say it at once, and give the teacher's reasons (`HouseholdEnv.think`);
  one of four does what it was told and gives no reason. So it has read how one acts for an aim that one stated, seldom
  that it should be the one told, and never a reply of Agent_v0's teacher to the task at hand. In two of five attempts,
  and in half of the questions, things and receptacles have made-up names.
- **Todo, calculator, tools.** People do what the expert does, with detours and without reasons: solutions of training
  tasks, two of five with other names in them.
- **Never read**: a task of the valid or test split, or, but for lines of result pages, a product that a held-out task
  asks for.
- **Licence**: the project's own, MIT. **Digest** of the weights: `{digest}`.

Exam: greedy answers to {asked} questions that it has not read, right only when equal to the letter; of a
page judged, up to what is clicked, which is chance.

| question | right |
|---|---|
{rows}
"""


def main() -> None:
    """Make the tokenizer, train the model, sit the exam, write all of it and the card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "agentgym_data" / "tiny")
    parser.add_argument("--short", type=int, default=28_000_000, help="tokens of short documents")
    parser.add_argument("--tokens", type=int, default=30_000_000, help="tokens of documents")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--base", type=Path, help="a base to go on from; by default a new one")
    args = parser.parse_args()
    torch.set_num_threads(1)  # as fast as two, and the same on every machine
    if _PROCESSES > 1:
        dist.init_process_group("gloo")
    before = _commands(args.base / "CARD.md") if args.base else []
    policy = Policy.load(args.base) if args.base else new_policy(args.seed)
    for read, tokens, shape, last in (
        (short_documents, args.short, _SHORT, 2e-4),
        (documents, args.tokens, _LONG, 1e-4),
    ):
        if tokens:
            steps = int(tokens // math.prod(shape) / (1 - _DRILLS))
            batches = rows_of(read(args.seed), policy, shape, tokens)
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
    write_card(policy, args.out, [*before, command])


def new_policy(seed: int) -> Policy:
    """A model that copies from its context, and its tokenizer."""
    torch.manual_seed(seed)
    sample = documents(seed + 1)
    tokenizer = build_tokenizer((text for _ in range(3000) for turn in next(sample) for text in turn), _VOCAB)
    policy = Policy(build_model(tiny_config(len(tokenizer), kv_heads=2), seed), tokenizer, "tiny")
    loss = train(policy, drills(seed, len(tokenizer), _MOST_DRILLS), _MOST_DRILLS, 3e-3, 3e-3)
    if loss > _COPIES:
        raise SystemExit(f"It does not copy after {_MOST_DRILLS} batches of drills (loss {loss:.2f}): try another seed")
    return policy


def _commands(card: Path) -> list[str]:
    return [line for line in card.read_text(encoding="utf-8").split("\n") if "make_tiny_base.py" in line]


def write_card(policy: Policy, folder: Path, commands: list[str]) -> None:
    """Sit the exam and write it down."""
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
