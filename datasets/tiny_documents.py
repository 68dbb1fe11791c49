"""What the base of the model `tiny` reads: documents in the worlds' language, made up from a seed.

- walks: a customer who clicks and searches at random in tasks of the training split, with numbers of the products
  drawn anew for each walk (what can be done on which page, and how it is said), who says of a product's page what of
  the request it lacks, as the teacher does, before doing anything at all;
- exercises: questions about shelves of made-up products, about made-up requests, and what of them a page lacks, with
  their answers: reading, as a base LLM has learnt it elsewhere.

No task of the valid or test split, and no product that such a task asks for, stands in an exercise or as a task of a
walk; no action in it is an expert's choice.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agentgym_envs.shop.catalogue import Product, load_catalogue
from agentgym_envs.shop.env import ShopEnv
from agentgym_envs.shop.expert import judgement
from agentgym_envs.shop.tasks import DIFFICULTIES, Difficulty, split_of
from agentgym_py.actions import format_reply
from agentgym_py.rng import Rng

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
    words: tuple[str, ...]
    """All words of the products' texts: what is made up of them cannot be guessed, it must be read."""


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
        options=tuple((name, tuple(offered)) for name, offered in sorted(values.items()) if len(offered) > 1),
        words=tuple(sorted({word for p in products for text in (p.title, *p.bullets) for word in _words(text)})),
    )


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]{2,}", text.lower())


def _phrases(rng: Rng, books: Library, known: Sequence[str], number: int) -> list[str]:
    """Different phrases: known ones, or, just as often, words drawn at random."""
    if rng.below(2):
        return rng.sample(known, min(number, len(known)))
    return _made_up(rng, books, number)


def _made_up(rng: Rng, books: Library, number: int) -> list[str]:
    """Phrases of one or two words that begin differently."""
    return [f"{word} {rng.choice(books.words)}" if rng.below(2) else word for word in rng.sample(books.words, number)]


@dataclass(frozen=True)
class Item:
    """A made-up product."""

    asin: str
    attributes: tuple[str, ...]
    kind: str
    price: float
    line: str


def _item(rng: Rng, books: Library, kind: str, common: Sequence[str], number: int) -> Item:
    pool = [*rng.sample(common, min(len(common), 2)), *_phrases(rng, books, books.attributes, 2)]
    attributes = tuple(dict.fromkeys(rng.sample(pool, 1 + rng.below(3))))
    price = round(4 + 10 ** (0.7 + 1.6 * rng.uniform()), 2)
    shown = " ".join([rng.choice(books.brands), *(a.title() for a in attributes), kind.title()])
    asin = f"B{number:04d}"
    return Item(asin, attributes, kind, price, f"{asin} {shown} ${price}")


# ---- walks ----------------------------------------------------------------------------------------------------------


def walk(rng: Rng, books: Library, envs: Mapping[Difficulty, ShopEnv]) -> Turns:
    """A random customer: searches for words out of titles and requests, clicks whatever there is."""
    difficulty = rng.choice(list(DIFFICULTIES))
    env = envs[difficulty]
    turns: Turns = []
    observation, _ = env.reset(options={"task": rng.below(1 << 31), "split": "train"})
    for _ in range(3 + rng.below(8)):
        action = _wander(rng, books, env)
        thought = env.think(action)
        turns.append((observation, format_reply(action, thought) if thought else _said(rng, action)))
        observation = env.step(action)[0]
        if env.ended:
            break
    turns.append((observation, ""))
    new: dict[str, str] = {}
    fresh = [f"{each:04d}" for each in rng.sample(range(10_000), 400)]

    def number(found: re.Match[str]) -> str:
        return found[0][0] + new.setdefault(found[0][1:], fresh.pop())

    return [(_ASIN.sub(number, said), _ASIN.sub(number, answer)) for said, answer in turns]


def _said(rng: Rng, action: str) -> str:
    """The action bare, or after `Action:`, or after a thought that announces it too."""
    form = rng.below(4)
    name = action.partition("[")[2].rstrip("]")
    thought = rng.choice(_ANNOUNCED).format(name) if form < 2 else ""
    return format_reply(action, thought) if form < 3 else action


_ANNOUNCED = ("I try {}.", "Now {}.", "Perhaps {}.", "What about {}?", "{}, why not.", "Let me see {}.")


def _wander(rng: Rng, books: Library, env: ShopEnv) -> str:
    actions = env.actions()
    if any(action.startswith("search[") for action in actions):
        product = rng.choice(books.products)
        source = rng.choice([product.title, product.query, " ".join(product.attributes), *[env.errand.words] * 3])
        words = source.lower().replace(",", "").split()
        start = rng.below(len(words))
        return f"search[{' '.join(words[start : start + 1 + rng.below(6)])}]"
    unlikely = ("click[back to search]", "click[buy now]", "click[reviews]")
    allowed = [action for action in actions if not _opens_held_out(action, env)]
    likely = [action for action in allowed if action not in unlikely] or allowed
    return rng.choice(likely if rng.uniform() < 0.9 else allowed)


def _opens_held_out(action: str, env: ShopEnv) -> bool:
    product = env.catalogue.by_asin.get(action[6:-1])
    return product is not None and split_of(product) != "train"


# ---- exercises ------------------------------------------------------------------------------------------------------


def exercise(rng: Rng, books: Library, longest: int = 10) -> Turns:
    """A shelf of up to `longest` made-up products and questions about it, or a made-up request and what it asks for."""
    if rng.below(5):
        return about_request(rng, books)
    common, kind = _phrases(rng, books, books.attributes, 3), rng.choice(books.kinds)
    kinds = [kind if rng.uniform() < 0.7 else rng.choice(books.kinds) for _ in range(2 + rng.below(longest - 1))]
    numbers = rng.sample(range(10_000), len(kinds))
    shelf = [_item(rng, books, each, common, number) for each, number in zip(kinds, numbers, strict=True)]
    page = "\n".join(item.line for item in shelf)
    asked = [rng.choice(_QUESTIONS)(rng, shelf) for _ in range(8)]
    return [(f"{page}\n{asked[0][0]}", asked[0][1]), *asked[1:]]


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
    return f"Which cost less than {limit:.2f} dollars?", _names([item for item in shelf if item.price < limit])


def _ask_all(rng: Rng, shelf: Sequence[Item]) -> tuple[str, str]:
    target = rng.choice(shelf)
    wanted, limit = rng.sample(target.attributes, 1), _limit(rng, target.price)
    found = [item for item in _with(shelf, wanted) if item.price < limit and item.kind == target.kind]
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
    return f"Does {item.asin} cost less than {limit:.2f} dollars?", "yes" if item.price < limit else "no"


_QUESTIONS: list[Callable[[Rng, Sequence[Item]], tuple[str, str]]] = [
    _ask_attribute, _ask_first, _ask_first, _ask_price, _ask_all, _ask_all, _ask_line, _ask_cost, _ask_fits,
]  # fmt: skip


def about_request(rng: Rng, books: Library, between: int = 0) -> Turns:
    """A request in the shop's words, what it asks for, and what of it is on pages; result lines may stand between."""
    wanted = ", ".join(_phrases(rng, books, books.attributes, 1 + rng.below(3)))
    wanted += " " + _phrases(rng, books, books.kinds, 1)[0]
    chosen = list(dict(_group(rng, books) for _ in range(1 + rng.below(3))).items())
    limit = f"{10 * (1 + rng.below(30))}.00"
    options = ", and ".join(f"{name}: {values[0]}" for name, values in chosen)
    easy = [("What is wanted?", wanted), ("Up to what price?", limit)]
    easy += [(f"Which {name}?", values[0]) for name, values in chosen]
    text = f"Find me {wanted} with {options}, and price lower than {limit} dollars"
    pages = [_about_page(rng, books, chosen) for _ in range(8 if between else 5)]
    if between:
        searched = (f"{text}\n[search]", _said(rng, f"search[{rng.choice(books.kinds)}]"))
        return [searched, _results(rng, books, between), *pages]
    asked = rng.sample([*rng.sample(easy, 2), *pages], 7)
    return [(f"{text}\n{asked[0][0]}", asked[0][1]), *asked[1:]]


def _results(rng: Rng, books: Library, number: int) -> tuple[str, str]:
    """A page of results, and a click on one of them."""
    kind, common = rng.choice(books.kinds), _phrases(rng, books, books.attributes, 3)
    items = [_item(rng, books, kind, common, asin) for asin in rng.sample(range(10_000), number)]
    page = "\n".join(["Page 1 of 5", *(item.line for item in items), "[next >] [back to search]"])
    return page, _said(rng, f"click[{rng.choice(items).asin}]")


def _about_page(rng: Rng, books: Library, groups: Sequence[tuple[str, Sequence[str]]]) -> tuple[str, str]:
    """A page that offers some of what is asked for, drawn anew each time, so that no earlier answer can be repeated."""
    shown = [group for group in groups if rng.below(4)]
    if rng.below(3) == 0:
        other, unasked = _group(rng, books)
        shown += [(other, ["", *unasked])] * (other not in dict(groups))
    lines, there = [], []
    for name, values in rng.sample(shown, len(shown)):
        offers = values[1:] if rng.below(3) == 0 or not values[0] else values
        lines.append(f"{name}: {' | '.join(rng.sample(offers, len(offers)))}")
        there += [name] * (offers is values)
    if rng.below(2):
        about = _phrases(rng, books, books.attributes, 2)
        item = _item(rng, books, rng.choice(books.kinds), about, rng.below(10_000))
        lines = [item.line, *lines, "[description] [features] [< prev] [back to search] [buy now]"]
    there_is = {name: name in there for name, _ in groups}
    if rng.below(4):
        judged = judgement([(values[0], there_is[name]) for name, values in groups])
        return "\n".join(lines) or "nothing", f"Thought: {judged}"
    found = ", ".join(values[0] for name, values in groups if there_is[name]) or "nothing"
    return "\n".join([*lines, "What is there?"]), found


def _group(rng: Rng, books: Library) -> tuple[str, list[str]]:
    """An option's name and two to six values, of the shop or made up; the first is the one that is asked for."""
    if rng.below(2):
        name, values = rng.choice(books.options)
        return name, rng.sample(values, min(len(values), 2 + rng.below(5)))
    return rng.choice(books.words), _made_up(rng, books, 2 + rng.below(5))


# ---- all of them ----------------------------------------------------------------------------------------------------


def documents(seed: int) -> Iterator[Turns]:
    """Documents without end: a walk, then three long exercises, and one about a shelf or a request alone."""
    books, rng = library(), Rng("tiny base", seed)
    envs = {d: ShopEnv(difficulty=d, max_steps=50) for d in DIFFICULTIES}
    while True:
        yield walk(rng, books, envs)
        for _ in range(3):
            yield about_request(rng, books, 2 + rng.below(7))
        yield exercise(rng, books)
