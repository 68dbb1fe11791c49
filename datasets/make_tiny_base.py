"""Make the base of the model `tiny`: a small Llama that has read the worlds' language, a stand-in for a base LLM.

    python datasets/make_tiny_base.py [--out datasets/agentgym_data/tiny] [--tokens 30000000] [--seed 0]

It reads, in a fixed mixture:

- drills: random tokens, repeated (copying from the context, which everything else builds on; they come first);
- walks: a customer who clicks and searches at random in tasks of the training split, with numbers of the products
  drawn anew for each walk (what pages follow what actions);
- exercises: questions about shelves of made-up products and about made-up requests (which of these are waterproof and
  cost less than 40.00 dollars?), with their answers: reading, as a base LLM has learnt it elsewhere;
- products: a title, then its details.

No task of the valid or test split, and no product that such a task asks for, stands in a drill, an exercise or as a
task of a walk; no text holds an expert's action. The card that it writes beside the weights says so with the figures.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import torch

from agentgym_envs.shop.catalogue import Product, load_catalogue
from agentgym_envs.shop.react import product_line
from agentgym_envs.shop.tasks import split_of
from agentgym_py.actions import format_reply
from agentgym_py.collect import EnvSpec
from agentgym_py.policy import Policy
from agentgym_py.rng import Rng
from agentgym_py.samples import IGNORED
from agentgym_py.tiny import build_model, build_tokenizer, tiny_config

_ASIN = re.compile(r"\b[Bb]\d{4}\b")
Turns = list[tuple[str, str]]
"""A document: what stands in each user turn, and in the assistant's after it."""


@dataclass(frozen=True)
class Library:
    """What the documents are drawn from: the embedded catalogue without what held-out tasks ask for."""

    products: tuple[Product, ...]
    kinds: tuple[str, ...]
    attributes: tuple[str, ...]
    brands: tuple[str, ...]
    options: tuple[tuple[str, tuple[str, ...]], ...]
    """Groups of options: a name and its values."""


def library() -> Library:
    """Words and products of the training split."""
    products = tuple(p for p in load_catalogue().products if split_of(p) == "train")
    values: dict[str, dict[str, None]] = {}
    for product in products:
        for name, offered in product.options.items():
            values.setdefault(name, {}).update(dict.fromkeys(offered))
    return Library(
        products=products,
        kinds=tuple(sorted({p.query for p in products})),
        attributes=tuple(sorted({a for p in products for a in p.attributes})),
        brands=tuple(sorted({p.title.split()[0] for p in products})),
        options=tuple((name, tuple(offered)) for name, offered in sorted(values.items())),
    )


@dataclass(frozen=True)
class Item:
    """A made-up product."""

    asin: str
    attributes: tuple[str, ...]
    kind: str
    price: float
    line: str


def _item(rng: Rng, books: Library, kind: str, common: Sequence[str]) -> Item:
    pool = [*rng.sample(common, min(len(common), 2)), *rng.sample(books.attributes, 2)]
    attributes = tuple(dict.fromkeys(rng.sample(pool, 1 + rng.below(3))))
    price = round(4 + 10 ** (0.7 + 1.6 * rng.uniform()), 2)
    shown = " ".join([rng.choice(books.brands), *(a.title() for a in attributes), kind.title()])
    asin = f"B{rng.below(10_000):04d}"
    return Item(asin, attributes, kind, price, f"{asin} {shown} ${price}")


# ---- walks ----------------------------------------------------------------------------------------------------------


def walk(rng: Rng, books: Library, env: Any) -> Turns:
    """A random customer: searches for words out of titles and requests, clicks whatever there is."""
    difficulty = rng.choice(["easy", "medium", "hard"])
    observation, _ = env[difficulty].reset(options={"task": rng.below(1 << 31), "split": "train"})
    world, turns = env[difficulty], []
    for _ in range(3 + rng.below(8)):
        action = _wander(rng, books, world)
        turns.append((observation, _said(rng, action, books)))
        observation = world.step(action)[0]
        if world.ended:
            break
    turns.append((observation, ""))
    new: dict[str, str] = {}

    def number(found: re.Match[str]) -> str:
        return found[0][0] + new.setdefault(found[0][1:], f"{rng.below(10_000):04d}")

    return [(_ASIN.sub(number, said), _ASIN.sub(number, answer)) for said, answer in turns]


def _said(rng: Rng, action: str, books: Library) -> str:
    """The action bare, or after `Action:`, or after an aimless thought too."""
    form = rng.below(4)
    thought = rng.choice(rng.choice(books.products).bullets or ("So.",)) if form == 0 else ""
    return format_reply(action, thought) if form < 3 else action


def _wander(rng: Rng, books: Library, world: Any) -> str:
    actions = world.actions()
    if any(action.startswith("search[") for action in actions):
        product = rng.choice(books.products)
        source = rng.choice([product.title, product.query, " ".join(product.attributes), world.current.instruction])
        words = source.lower().replace(",", "").split()
        start = rng.below(len(words))
        return f"search[{' '.join(words[start : start + 1 + rng.below(6)])}]"
    unlikely = ("click[back to search]", "click[buy now]", "click[reviews]")
    likely = [action for action in actions if action not in unlikely] or actions
    return rng.choice(likely if rng.uniform() < 0.9 else actions)


# ---- exercises ------------------------------------------------------------------------------------------------------


def exercise(rng: Rng, books: Library) -> Turns:
    """A shelf of made-up products and questions about it, or a made-up request and what it asks for."""
    if rng.uniform() < 0.35:
        return _about_request(rng, books)
    common, kind = rng.sample(books.attributes, 3), rng.choice(books.kinds)
    kinds = [kind if rng.uniform() < 0.7 else rng.choice(books.kinds) for _ in range(4 + rng.below(7))]
    shelf = [_item(rng, books, each, common) for each in kinds]
    turns: Turns = []
    for number in range(8):
        question, answer = rng.choice(_QUESTIONS)(rng, shelf)
        page = "\n".join(item.line for item in shelf)
        turns.append((f"{page}\n{question}" if number == 0 else question, answer))
    return turns


def _names(items: Sequence[Item]) -> str:
    return " ".join(item.asin for item in items) or "none"


def _limit(rng: Rng, price: float) -> float:
    return 10.0 * max(1, math.floor(price / 10) + 1 + rng.below(4) - rng.below(3))


def _with(shelf: Sequence[Item], attributes: Sequence[str]) -> list[Item]:
    return [item for item in shelf if all(a in item.attributes for a in attributes)]


def _ask_attribute(rng: Rng, shelf: Sequence[Item]) -> tuple[str, str]:
    wanted = rng.choice(rng.choice(shelf).attributes)
    return f"Which are {wanted}?", _names(_with(shelf, [wanted]))


def _ask_first(rng: Rng, shelf: Sequence[Item]) -> tuple[str, str]:
    known = rng.choice(shelf).attributes
    wanted = rng.sample(known, min(2, len(known)))
    return f"Which is {', '.join(wanted)}?", _with(shelf, wanted)[0].asin


def _ask_price(rng: Rng, shelf: Sequence[Item]) -> tuple[str, str]:
    limit = _limit(rng, rng.choice(shelf).price)
    return f"Which cost less than {limit:.2f} dollars?", _names([item for item in shelf if item.price <= limit])


def _ask_all(rng: Rng, shelf: Sequence[Item]) -> tuple[str, str]:
    target = rng.choice(shelf)
    wanted, limit = rng.sample(target.attributes, 1), _limit(rng, target.price)
    found = [item for item in _with(shelf, wanted) if item.price <= limit and item.kind == target.kind]
    asked = f"Which is {', '.join(wanted)} {target.kind}, price lower than {limit:.2f} dollars?"
    return asked, found[0].asin if found else "none"


def _ask_line(rng: Rng, shelf: Sequence[Item]) -> tuple[str, str]:
    item = rng.choice(shelf)
    return f"What is {item.asin}?", item.line


def _ask_cost(rng: Rng, shelf: Sequence[Item]) -> tuple[str, str]:
    item = rng.choice(shelf)
    return f"What does {item.asin} cost?", f"${item.price}"


def _ask_fits(rng: Rng, shelf: Sequence[Item]) -> tuple[str, str]:
    item = rng.choice(shelf)
    limit = _limit(rng, item.price)
    return f"Does {item.asin} cost less than {limit:.2f} dollars?", "yes" if item.price <= limit else "no"


_QUESTIONS: list[Callable[[Rng, Sequence[Item]], tuple[str, str]]] = [
    _ask_attribute, _ask_first, _ask_first, _ask_price, _ask_all, _ask_all, _ask_line, _ask_cost, _ask_fits,
]  # fmt: skip


def _about_request(rng: Rng, books: Library) -> Turns:
    """A request in the shop's words, and what it asks for."""
    wanted, kind = rng.sample(books.attributes, 1 + rng.below(3)), rng.choice(books.kinds)
    chosen = {name: rng.choice(values) for name, values in rng.sample(books.options, 1 + rng.below(3))}
    limit = 10.0 * (1 + rng.below(30))
    options = ", and ".join(f"{name}: {value}" for name, value in chosen.items())
    text = f"Find me {', '.join(wanted)} {kind} with {options}, and price lower than {limit:.2f} dollars"
    questions = [("What is wanted?", kind), ("Of what kind?", ", ".join(wanted)), ("Up to what price?", f"{limit:.2f}")]
    questions += [(f"Which {name}?", value) for name, value in chosen.items()]
    asked = rng.sample(questions, len(questions))
    return [(f"{text}\n{asked[0][0]}", asked[0][1]), *asked[1:]]


# ---- products -------------------------------------------------------------------------------------------------------


def product_page(rng: Rng, books: Library) -> Turns:
    """Three products in full."""
    turns: Turns = []
    for product in rng.sample(books.products, 3):
        details = "\n".join([product.description, *product.bullets])
        options = "\n".join(f"{name}: {' | '.join(values)}" for name, values in product.options.items())
        turns.append((product_line(product), f"{', '.join(product.attributes)}\n{options}\n{details}"))
    return turns


# ---- training -------------------------------------------------------------------------------------------------------


def documents(seed: int) -> Iterator[tuple[Turns, bool]]:
    """Documents without end, in a fixed mixture, and whether only their answers are to be learnt."""
    books, rng = library(), Rng("tiny base", seed)
    env = {d: EnvSpec("shop", {"difficulty": d, "max_steps": 50}).make() for d in ("easy", "medium", "hard")}
    while True:
        yield walk(rng, books, env), False
        for _ in range(3):
            yield exercise(rng, books), True
        if rng.below(4) == 0:
            yield product_page(rng, books), False


def encode(turns: Turns, answers_only: bool, policy: Policy) -> tuple[list[int], list[int]]:
    """A document as the ids of a conversation, and its labels."""
    ids: list[int] = []
    labels: list[int] = []
    for number, (said, answer) in enumerate(turns):
        context = policy.chat.opening(said) if number == 0 else policy.chat.turn(said)
        reply = policy.chat.reply(answer) if answer else []
        ids += context + reply
        labels += ([IGNORED] * len(context) if answers_only else context) + reply
    return ids, labels


Batch = tuple[torch.Tensor, torch.Tensor]
"""Ids and labels, each (B, S)."""
Batches = Generator[Batch, float, None]
"""Batches; it is sent the smoothed loss after each."""


def drills(seed: int, vocab: int, most: int) -> Batches:
    """Rows of 64 that repeat a random segment of 8 to 32 tokens, until they are copied or `most` batches are over.

    Copying from the context is found at once, somewhere: with 512 or 1,020 different tokens between 600 and 800
    batches (accuracy .98 and .97), with 3,068 not within 3,000; and what was found with few tokens does not carry over
    to others. So the vocabulary of `tiny` is small. Segments shorter than 12 tokens teach to name some token of the
    context instead.
    """
    generator = torch.Generator().manual_seed(seed)
    for _ in range(most):
        ids = torch.randint(4, vocab, (32, 64), generator=generator)
        length = torch.randint(8, 33, (32, 1), generator=generator)
        ids = ids.gather(1, torch.arange(64)[None] % length)
        if (yield ids, ids.masked_fill(torch.arange(64)[None] <= length, IGNORED)) < 0.4:
            return


def reading(policy: Policy, seed: int, tokens: int, width: int = 512, rows: int = 8) -> Batches:
    """Rows cut from the stream of documents."""
    stream = documents(seed)
    ids: list[int] = []
    labels: list[int] = []
    for _ in range(tokens // (width * rows)):
        while len(ids) < width * rows:
            document = encode(*next(stream), policy)
            ids += document[0]
            labels += document[1]
        yield (
            torch.tensor(ids[: width * rows]).view(rows, width),
            torch.tensor(labels[: width * rows]).view(rows, width),
        )
        ids, labels = ids[width * rows :], labels[width * rows :]


def train(policy: Policy, batches: Batches, steps: int, peak: float, last: float) -> float:
    """Next-token training with AdamW, the rate falling from `peak` to `last` as a cosine; the smoothed last loss."""
    model = policy.model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, betas=(0.9, 0.95), weight_decay=0.01, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda i: min(1.0, (i + 1) / 100) * (last + (peak - last) * 0.5 * (1 + math.cos(math.pi * i / steps))) / peak,
    )
    recent, began, seen, batch = 10.0, time.monotonic(), 0, next(batches, None)
    for step in count(1):
        if batch is None:
            return recent
        ids, labels = batch
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        recent, seen = 0.95 * recent + 0.05 * loss.item(), seen + ids.numel()
        if step % 100 == 0:
            speed, tokens = seen / (time.monotonic() - began), len(labels.unique())
            print(f"step {step}  loss {recent:.3f}  {tokens} tokens in use  {speed:.0f} tokens/s", flush=True)
        try:
            batch = batches.send(recent)
        except StopIteration:
            batch = None
    return recent


def main() -> None:
    """Make the tokenizer, train the model, write both and the card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "agentgym_data" / "tiny")
    parser.add_argument("--tokens", type=int, default=30_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--drills", type=int, default=4000)
    parser.add_argument("--vocab", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--kv-heads", type=int, default=2)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    sample = documents(args.seed + 1)
    texts = [text for _ in range(6000) for turn in next(sample)[0] for text in turn]
    tokenizer = build_tokenizer(texts, args.vocab)
    config = tiny_config(len(tokenizer), hidden_size=args.hidden, layers=args.layers, kv_heads=args.kv_heads)
    policy = Policy(build_model(config, args.seed), tokenizer, "tiny")
    print(f"{policy.num_parameters} parameters", flush=True)
    train(policy, drills(args.seed, len(tokenizer), args.drills), args.drills, args.lr, args.lr)
    loss = train(policy, reading(policy, args.seed, args.tokens), args.tokens // 4096, args.lr, args.lr / 30)
    policy.model.eval()
    policy.save(args.out)
    print(json.dumps({"loss": loss, "digest": policy.digest()}))


if __name__ == "__main__":
    main()
