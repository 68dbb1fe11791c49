"""Make the base of the model `tiny`: a small Llama that has read the worlds' language, a stand-in for a base LLM.

    python datasets/make_tiny_base.py [--out datasets/agentgym_data/tiny] [--tokens 30000000] [--seed 0]

It reads three kinds of text, in equal numbers of documents:

- walks: a customer who clicks and searches at random in tasks of the training split (what pages follow what actions);
- exercises: questions about pages and requests made for the purpose (which of these are waterproof and cost less
  than 40.00 dollars?), with their answers: reading, as a base LLM has learnt it elsewhere;
- products: a title, then its details.

No task of the valid or test split, and no product that such a task asks for, stands in an exercise or as a task of a
walk; no text holds an expert's action. The card that it writes beside the weights says so with the figures.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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
from agentgym_py.tiny import build_model, build_tokenizer, tiny_config

Turns = list[tuple[str, str]]
"""A document: what stands in each user turn, and in the assistant's after it."""


@dataclass(frozen=True)
class Library:
    """What the documents are drawn from."""

    products: tuple[Product, ...]  # all that are no valid or test target
    by_kind: dict[str, list[Product]]
    by_department: dict[str, list[Product]]


def library() -> Library:
    """The embedded catalogue without the products that held-out tasks ask for."""
    products = tuple(p for p in load_catalogue().products if split_of(p) == "train")
    kinds: dict[str, list[Product]] = {}
    departments: dict[str, list[Product]] = {}
    for product in products:
        kinds.setdefault(product.query, []).append(product)
        departments.setdefault(product.category, []).append(product)
    return Library(products, kinds, departments)


# ---- walks ----------------------------------------------------------------------------------------------------------


def walk(rng: Rng, books: Library, env: Any) -> Turns:
    """A random customer: searches for words out of titles and requests, clicks whatever there is."""
    difficulty = rng.choice(["easy", "medium", "hard"])
    observation, _ = env[difficulty].reset(options={"task": rng.below(1 << 31), "split": "train"})
    world, turns = env[difficulty], []
    for _ in range(3 + rng.below(8)):
        action = _wander(rng, books, world)
        turns.append((observation, action))
        observation = world.step(action)[0]
        if world.ended:
            break
    turns.append((observation, ""))
    return turns


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
    """A page of products and three questions about it, or a request and questions about that."""
    if rng.uniform() < 0.3:
        return _about_request(rng, books)
    shelf = _shelf(rng, books)
    page = "\n".join(product_line(p) for p in shelf)
    turns: Turns = []
    for number in range(3):
        question, answer = rng.choice(_QUESTIONS)(rng, shelf)
        turns.append((f"{page}\n{question}" if number == 0 else question, answer))
    return turns


def _shelf(rng: Rng, books: Library) -> list[Product]:
    kind = books.by_kind[rng.choice(sorted(books.by_kind))]
    shelf = rng.sample(kind, min(len(kind), 3 + rng.below(7)))
    others = rng.sample(books.products, 10 - len(shelf))
    return rng.sample(shelf + others, 10) if rng.uniform() < 0.3 else shelf + others


def _names(products: Sequence[Product]) -> str:
    return " ".join(p.asin for p in products) or "none"


def _shown(product: Product) -> list[str]:
    return [a for a in product.attributes if a.lower() in product.title.lower()]


def _limit(rng: Rng, product: Product) -> float:
    return 10.0 * (1 + math.floor(product.price / 10) + rng.below(4) - rng.below(2))


def _with(shelf: Sequence[Product], *attributes: str) -> list[Product]:
    return [p for p in shelf if all(a.lower() in p.title.lower() for a in attributes)]


def _ask_attribute(rng: Rng, shelf: Sequence[Product]) -> tuple[str, str]:
    wanted = rng.choice(_shown(rng.choice(shelf)) or ["new"])
    return f"Which are {wanted}?", _names(_with(shelf, wanted))


def _ask_two(rng: Rng, shelf: Sequence[Product]) -> tuple[str, str]:
    known = _shown(rng.choice(shelf)) or ["new"]
    wanted = rng.sample(known, min(2, len(known)))
    return f"Which are {' and '.join(wanted)}?", _names(_with(shelf, *wanted))


def _ask_price(rng: Rng, shelf: Sequence[Product]) -> tuple[str, str]:
    limit = _limit(rng, rng.choice(shelf))
    return f"Which cost less than {limit:.2f} dollars?", _names([p for p in shelf if p.price <= limit])


def _ask_all(rng: Rng, shelf: Sequence[Product]) -> tuple[str, str]:
    target = rng.choice(shelf)
    known = _shown(target) or ["new"]
    wanted, limit = rng.sample(known, min(1 + rng.below(2), len(known))), _limit(rng, target)
    found = [p for p in _with(shelf, *wanted) if p.price <= limit and p.query == target.query]
    return f"Find {', '.join(wanted)} {target.query}, price lower than {limit:.2f} dollars.", _names(found)


def _ask_line(rng: Rng, shelf: Sequence[Product]) -> tuple[str, str]:
    target = rng.choice(shelf)
    return f"What is {target.asin}?", product_line(target)


def _ask_cost(rng: Rng, shelf: Sequence[Product]) -> tuple[str, str]:
    target = rng.choice(shelf)
    return f"What does {target.asin} cost?", target.price_text


def _ask_cheapest(rng: Rng, shelf: Sequence[Product]) -> tuple[str, str]:
    few = rng.sample(shelf, 3)
    return f"Which is cheapest: {_names(few)}?", min(few, key=lambda p: p.price).asin


_QUESTIONS: list[Callable[[Rng, Sequence[Product]], tuple[str, str]]] = [
    _ask_attribute, _ask_two, _ask_two, _ask_price, _ask_all, _ask_all, _ask_line, _ask_cost, _ask_cheapest,
]  # fmt: skip


def _about_request(rng: Rng, books: Library) -> Turns:
    """A request in the shop's words, and what it asks for."""
    product = rng.choice(books.products)
    wanted = rng.sample(product.attributes, min(len(product.attributes), 1 + rng.below(3)))
    chosen = {name: rng.choice(values) for name, values in product.options.items()}
    limit = _limit(rng, product)
    options = ", and ".join(f"{name}: {value}" for name, value in chosen.items())
    text = f"Find me {', '.join(wanted)} {product.query} with {options}, and price lower than {limit:.2f} dollars"
    questions = [("What is wanted?", product.query), ("Of what kind?", ", ".join(wanted))]
    questions += [("Up to which price?", f"{limit:.2f}")]
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


def documents(seed: int, kinds: Sequence[int] = (3, 3, 1)) -> Iterator[Turns]:
    """Documents without end, in a fixed mixture."""
    books, rng = library(), Rng("tiny base", seed)
    env = {d: EnvSpec("shop", {"difficulty": d, "max_steps": 50}).make() for d in ("easy", "medium", "hard")}
    makers = [lambda: walk(rng, books, env), lambda: exercise(rng, books), lambda: product_page(rng, books)]
    while True:
        for maker, number in zip(makers, kinds, strict=True):
            for _ in range(number):
                yield maker()


def encode(turns: Turns, policy: Policy) -> list[int]:
    """A document as the ids of a conversation."""
    ids: list[int] = []
    for number, (said, answer) in enumerate(turns):
        ids += policy.chat.opening(said) if number == 0 else policy.chat.turn(said)
        ids += policy.chat.reply(answer) if answer else []
    return ids


def batches(policy: Policy, seed: int, tokens: int, width: int) -> Iterator[torch.Tensor]:
    """Rows of `width` ids cut from the stream of documents: (B, width)."""
    stream, rows = documents(seed), tokens // width
    ids: list[int] = []
    batch: list[list[int]] = []
    for _ in range(rows):
        while len(ids) < width:
            ids += encode(next(stream), policy)
        batch.append(ids[:width])
        ids = ids[width:]
        if len(batch) == 16:
            yield torch.tensor(batch)
            batch = []


def train(policy: Policy, seed: int, tokens: int, width: int, peak: float) -> list[float]:
    """Plain next-token training with AdamW and a cosine schedule; returns the smoothed loss every 100 steps."""
    model, steps = policy.model.train(), tokens // width // 16
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, betas=(0.9, 0.95), weight_decay=0.05, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda i: min(1.0, (i + 1) / 100) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * i / steps)))
    )
    losses, recent, began = [], 0.0, time.monotonic()
    for step, ids in enumerate(batches(policy, seed, tokens, width)):
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        recent = loss.item() if step == 0 else 0.98 * recent + 0.02 * loss.item()
        if step % 100 == 99:
            losses.append(recent)
            speed = (step + 1) * ids.numel() / (time.monotonic() - began)
            print(f"step {step + 1} of {steps}  loss {recent:.3f}  {speed:.0f} tokens/s", flush=True)
    return losses


def main() -> None:
    """Make the tokenizer, train the model, write both and the card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "agentgym_data" / "tiny")
    parser.add_argument("--tokens", type=int, default=30_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--vocab", type=int, default=3072)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--kv-heads", type=int, default=2)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    sample = documents(args.seed + 1)
    texts = [text for _ in range(6000) for said, answer in next(sample) for text in (said, format_reply(answer, "I go."))]
    tokenizer = build_tokenizer(texts, args.vocab)
    config = tiny_config(len(tokenizer), hidden_size=args.hidden, layers=args.layers, kv_heads=args.kv_heads)
    policy = Policy(build_model(config, args.seed), tokenizer, "tiny")
    print(f"{policy.num_parameters} parameters", flush=True)
    losses = train(policy, args.seed, args.tokens, 512, args.lr)
    policy.model.eval()
    policy.save(args.out)
    print(json.dumps({"loss": losses[-1:], "digest": policy.digest()}))


if __name__ == "__main__":
    main()
