"""What the base of the model `tiny` reads of the shop: walks and exercises, made up from a seed.

- walks: a customer who clicks at random in tasks of the training split, with numbers of the products drawn anew for
  each walk (what can be done on which page, and how it is said), who searches for words out of the catalogue or for
  what is wanted, and says of a product's page what of the request it lacks, as the teacher does, before doing anything
  at all;
- exercises: questions about made-up requests, and what of them a page lacks, with their answers: reading, as a base LLM
  has learnt it elsewhere.

No task of the valid or test split, and no product that such a task asks for, stands in an exercise or as a task of a
walk. What is done in it is chance, but for three hints: half of the searches in walks, and all in exercises, are for
what is wanted, with all or some of the options; on made-up pages half of the options clicked, where they can be, are
ones that are asked for; and walks seldom click on what leads away.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agentgym_envs.shop.catalogue import Product, load_catalogue
from agentgym_envs.shop.env import ShopEnv
from agentgym_envs.shop.expert import checklist
from agentgym_envs.shop.tasks import DIFFICULTIES, Difficulty, split_of
from agentgym_py.env.actions import format_reply
from agentgym_py.rng import Rng

_ASIN = re.compile(r"\b[Bb]\d{4}\b")
Turns = list[tuple[str, str]]
"""A document: what stands in each user turn, and in the assistant's after it."""
ANNOUNCED = ("I try {}.", "Now {}.", "Perhaps {}.", "What about {}?", "{}, why not.", "Let me see {}.")
"""How somebody announces what they do, who has no reason to tell."""


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


def _line(rng: Rng, books: Library, kind: str, common: Sequence[str], number: int) -> str:
    """A made-up product as a page of results lists it."""
    pool = [*rng.sample(common, min(len(common), 2)), *_phrases(rng, books, books.attributes, 2)]
    attributes = dict.fromkeys(rng.sample(pool, 1 + rng.below(3)))
    shown = " ".join([rng.choice(books.brands), *(a.title() for a in attributes), kind.title()])
    return f"B{number:04d} {shown} ${round(4 + 10 ** (0.7 + 1.6 * rng.uniform()), 2)}"


# ---- walks ----------------------------------------------------------------------------------------------------------


def walk(rng: Rng, books: Library, envs: Mapping[Difficulty, ShopEnv]) -> Turns:
    """A random customer: searches for words out of titles and requests, clicks whatever there is."""
    difficulty = rng.choice(list(DIFFICULTIES))
    env = envs[difficulty]
    turns: Turns = []
    observation, _ = env.reset(options={"task": rng.below(1 << 31), "split": "train"})
    for _ in range(3 + rng.below(8)):
        action = _wander(rng, books, env)
        thought = env.expert_thought(action)
        turns.append((observation, format_reply(action, thought) if thought else _said(rng, action)))
        observation = env.step(action)[0]
        if env.stop_reason:
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
    thought = rng.choice(ANNOUNCED).format(name) if form < 2 else ""
    return format_reply(action, thought) if form < 3 else action


def _wander(rng: Rng, books: Library, env: ShopEnv) -> str:
    actions = env.actions()
    if any(action.startswith("search[") for action in actions):
        if rng.below(2):
            return f"search[{_asked(rng, env.shop_task.goal.instruction)}]"
        product = rng.choice(books.products)
        source = rng.choice([product.title, product.query, " ".join(product.attributes)])
        return f"search[{_piece(rng, source.lower())}]"
    unlikely = ("click[back to search]", "click[buy now]", "click[reviews]")
    allowed = [action for action in actions if not _opens_held_out(action, env)]
    likely = [action for action in allowed if action not in unlikely] or allowed
    return rng.choice(likely if rng.uniform() < 0.9 else allowed)


def _asked(rng: Rng, request: str) -> str:
    """What a request asks for, with some of its options or, twice as likely as each other number, all; no price."""
    parts = request.removeprefix("Find me ").split(", and price")[0].split(", and ")
    return ", and ".join(parts[: 1 + rng.below(len(parts) + 1)])


def _piece(rng: Rng, text: str) -> str:
    """Up to ten words that stand together."""
    words = text.split()
    start = rng.below(len(words))
    return " ".join(words[start : start + 1 + rng.below(10)])


def _opens_held_out(action: str, env: ShopEnv) -> bool:
    product = env.catalogue.by_asin.get(action[6:-1])
    return product is not None and split_of(product) != "train"


# ---- exercises ------------------------------------------------------------------------------------------------------


def exercise(rng: Rng, books: Library, between: int = 0) -> Turns:
    """A request in the shop's words, what it asks for, and what of it is on pages; result lines may stand between."""
    wanted = ", ".join(_phrases(rng, books, books.attributes, 1 + rng.below(3)))
    wanted += " " + _phrases(rng, books, books.kinds, 1)[0]
    groups = dict(_group(rng, books) for _ in range(1 + rng.below(3)))
    limit = f"{10 * (1 + rng.below(30))}.00"
    options = ", and ".join(f"{name}: {values[0]}" for name, values in groups.items())
    text = f"Find me {wanted} with {options}, and price lower than {limit} dollars"
    if between:
        searched = (f"{text}\n[search]", _said(rng, f"search[{_asked(rng, text)}]"))
        pages = [_page(rng, books, groups) for _ in range(5)]
        return [searched, _results(rng, books, between), *(turn for page in pages for turn in page)]
    questions = [("What is wanted?", wanted), ("Up to what price?", limit)]
    questions += [(f"Which {name}?", values[0]) for name, values in groups.items()]
    parts = [*([each] for each in rng.sample(questions, 2)), *(_page(rng, books, groups) for _ in range(3))]
    first, *rest = [turn for part in rng.sample(parts, len(parts)) for turn in part]
    return [(f"{text}\n{first[0]}", first[1]), *rest]


def _results(rng: Rng, books: Library, number: int) -> tuple[str, str]:
    """A page of results, and a click on one of them."""
    kind, common = rng.choice(books.kinds), _phrases(rng, books, books.attributes, 3)
    lines = [_line(rng, books, kind, common, each) for each in rng.sample(range(10_000), number)]
    page = "\n".join(["Page 1 of 5", *lines, "[next >] [back to search]"])
    return page, _said(rng, f"click[{rng.choice(lines).split()[0]}]")


def _page(rng: Rng, books: Library, groups: Mapping[str, Sequence[str]]) -> Turns:
    """A page that offers some of what is asked for, drawn anew each time, and a customer who clicks at random there."""
    asked = {name: values[0] for name, values in groups.items()}
    offers = {name: values[1:] if rng.below(3) == 0 else values for name, values in groups.items() if rng.below(4)}
    if rng.below(3) == 0:
        offers = dict([_group(rng, books)]) | offers
    offers = {name: rng.sample(offers[name], len(offers[name])) for name in rng.sample(list(offers), len(offers))}
    lines = [f"{name}: {' | '.join(values)}" for name, values in offers.items()]
    if rng.below(2) or not lines:
        about = _phrases(rng, books, books.attributes, 2)
        first = _line(rng, books, rng.choice(books.kinds), about, rng.below(10_000))
        lines = [first, *lines, f"[{'] ['.join(_BUTTONS)}]"]
    turns, said, chosen = [], "\n".join(lines), dict[str, str]()
    for name in [*list(offers)[: rng.below(3)], ""]:
        there = [(value, value in (chosen.values() if chosen else offers.get(key, ()))) for key, value in asked.items()]
        known = [value for key, value in asked.items() if key == name and value in offers[name]]
        button = rng.choice(known if known and rng.below(2) else offers.get(name, _BUTTONS))
        turns.append((said, format_reply(f"click[{button}]", checklist(there, button, choosing=bool(chosen)))))
        said, chosen[name] = f"{name}: {button} is selected.", button
    return turns


_BUTTONS = ("description", "features", "< prev", "back to search", "buy now")


def _group(rng: Rng, books: Library) -> tuple[str, list[str]]:
    """An option's name and two to six values, of the shop or made up; the first is the one that is asked for."""
    if rng.below(2):
        name, values = rng.choice(books.options)
        return name, rng.sample(values, min(len(values), 2 + rng.below(5)))
    return rng.choice(books.words), _made_up(rng, books, 2 + rng.below(5))


# ---- all of them ----------------------------------------------------------------------------------------------------


def shop_documents(seed: int) -> Iterator[Turns]:
    """Documents without end: two walks, then two long exercises, and a short one."""
    books, rng = library(), Rng("tiny base", seed)
    envs = {d: ShopEnv(difficulty=d, max_steps=50) for d in DIFFICULTIES}
    while True:
        for _ in range(2):
            yield walk(rng, books, envs)
        for _ in range(2):
            yield exercise(rng, books, 2 + rng.below(7))
        yield exercise(rng, books)


def short_exercises(seed: int) -> Iterator[Turns]:
    """Exercises without end."""
    books, rng = library(), Rng("short exercises", seed)
    while True:
        yield exercise(rng, books)
