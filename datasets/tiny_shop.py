"""The shop's part of the training text of the base of `tiny`: random walks and exercises.

- Walks: a customer acts at random in training tasks, with product numbers drawn again for each walk. They teach which
  actions a page has and how to write them. Searches are for words of the catalogue or for the request. On a product's
  page the customer first thinks which requested options it lacks, as the teacher does.
- Exercises: questions with answers about made-up requests and about what a page lacks: reading, as a base LLM has
  learnt it elsewhere.

No task of the valid or test split, and no target product of one, occurs in an exercise or as the task of a walk.
Actions are random, with three hints. Half of the searches in walks, and all in exercises, are for the request with all
or some of its options. Half of the options clicked on made-up pages, if possible, are requested ones. Walks seldom
leave a product.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentgym_envs.shop.catalogue import Product, load_catalogue
from agentgym_envs.shop.env import ShopEnv
from agentgym_envs.shop.expert import checklist
from agentgym_envs.shop.tasks import DIFFICULTIES, Difficulty, split_of
from agentgym_py.env.actions import format_reply
from agentgym_py.rng import Rng

_ASIN = re.compile(r"\b[Bb]\d{4}\b")
Turns = list[tuple[str, str]]
"""A document: pairs of a user turn and the assistant's turn after it."""
ANNOUNCED = ("I try {}.", "Now {}.", "Perhaps {}.", "What about {}?", "{}, why not.", "Let me see {}.")
"""Announcements of an action without a reason."""


@dataclass(frozen=True)
class Library:
    """The source of documents: the embedded catalogue without the products of held-out tasks."""

    products: tuple[Product, ...]
    kinds: tuple[str, ...]
    attributes: tuple[str, ...]
    brands: tuple[str, ...]
    options: tuple[tuple[str, tuple[str, ...]], ...]
    """Option names with their values."""
    words: tuple[str, ...]
    """All words of the products' texts, for phrases that cannot be guessed and must be read."""


def load_library() -> Library:
    """Collect words and products of the training split."""
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


def make_shops() -> dict[Difficulty, ShopEnv]:
    """Make the shops of the walks."""
    return {difficulty: ShopEnv(difficulty=difficulty, max_steps=50) for difficulty in DIFFICULTIES}


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]{2,}", text.lower())


def _phrases(rng: Rng, library: Library, phrases: Sequence[str], number: int) -> list[str]:
    """Draw different phrases: from a list or, just as often, of random words."""
    if rng.below(2):
        return rng.sample(phrases, min(number, len(phrases)))
    return _random_phrases(rng, library, number)


def _random_phrases(rng: Rng, library: Library, number: int) -> list[str]:
    """Draw phrases of one or two words with different first words."""
    return [
        f"{word} {rng.choice(library.words)}" if rng.below(2) else word for word in rng.sample(library.words, number)
    ]


def _line(rng: Rng, library: Library, kind: str, common: Sequence[str], number: int) -> str:
    """Write a made-up product as a line of results."""
    pool = [*rng.sample(common, min(len(common), 2)), *_phrases(rng, library, library.attributes, 2)]
    attributes = dict.fromkeys(rng.sample(pool, 1 + rng.below(3)))
    name = " ".join([rng.choice(library.brands), *(a.title() for a in attributes), kind.title()])
    return f"B{number:04d} {name} ${round(4 + 10 ** (0.7 + 1.6 * rng.uniform()), 2)}"


# ---- walks ----------------------------------------------------------------------------------------------------------


def walk(rng: Rng, library: Library, envs: Mapping[Difficulty, ShopEnv]) -> Turns:
    """Walk as a random customer: search for words of titles and requests, click anything."""
    difficulty = rng.choice(list(DIFFICULTIES))
    env = envs[difficulty]
    turns: Turns = []
    observation, _ = env.reset(options={"task": rng.below(1 << 31), "split": "train"})
    for _ in range(3 + rng.below(8)):
        action = _wander(rng, library, env)
        thought = env.expert_thought(action)
        turns.append((observation, format_reply(action, thought) if thought else _format_action(rng, action)))
        observation = env.step(action)[0]
        if env.stop_reason:
            break
    turns.append((observation, ""))
    new: dict[str, str] = {}
    fresh = [f"{number:04d}" for number in rng.sample(range(10_000), 400)]

    def renumber(match: re.Match[str]) -> str:
        return match[0][0] + new.setdefault(match[0][1:], fresh.pop())

    return [(_ASIN.sub(renumber, user), _ASIN.sub(renumber, answer)) for user, answer in turns]


def _format_action(rng: Rng, action: str) -> str:
    """Write an action bare, after `Action:`, or also after a thought that announces it."""
    form = rng.below(4)
    name = action.partition("[")[2].rstrip("]")
    thought = rng.choice(ANNOUNCED).format(name) if form < 2 else ""
    return format_reply(action, thought) if form < 3 else action


def _wander(rng: Rng, library: Library, env: ShopEnv) -> str:
    actions = env.actions()
    if any(action.startswith("search[") for action in actions):
        if rng.below(2):
            return f"search[{_request_part(rng, env.shop_task.goal.instruction)}]"
        product = rng.choice(library.products)
        source = rng.choice([product.title, product.query, " ".join(product.attributes)])
        return f"search[{_piece(rng, source.lower())}]"
    unlikely = ("click[back to search]", "click[buy now]", "click[reviews]")
    allowed = [action for action in actions if not _opens_held_out(action, env)]
    likely = [action for action in allowed if action not in unlikely] or allowed
    return rng.choice(likely if rng.uniform() < 0.9 else allowed)


def _request_part(rng: Rng, request: str) -> str:
    """Return a request without its price and with some of its options; all of them is twice as likely."""
    parts = request.removeprefix("Find me ").split(", and price")[0].split(", and ")
    return ", and ".join(parts[: 1 + rng.below(len(parts) + 1)])


def _piece(rng: Rng, text: str) -> str:
    """Draw up to ten consecutive words."""
    words = text.split()
    start = rng.below(len(words))
    return " ".join(words[start : start + 1 + rng.below(10)])


def _opens_held_out(action: str, env: ShopEnv) -> bool:
    product = env.catalogue.by_asin.get(action[6:-1])
    return product is not None and split_of(product) != "train"


# ---- exercises ------------------------------------------------------------------------------------------------------


def exercise(rng: Rng, library: Library, between: int = 0) -> Turns:
    """Draw a request and questions about it and about pages; `between` result lines may come first."""
    requested = ", ".join(_phrases(rng, library, library.attributes, 1 + rng.below(3)))
    requested += " " + _phrases(rng, library, library.kinds, 1)[0]
    groups = dict(_group(rng, library) for _ in range(1 + rng.below(3)))
    limit = f"{10 * (1 + rng.below(30))}.00"
    options = ", and ".join(f"{name}: {values[0]}" for name, values in groups.items())
    text = f"Find me {requested} with {options}, and price lower than {limit} dollars"
    if between:
        search = (f"{text}\n[search]", _format_action(rng, f"search[{_request_part(rng, text)}]"))
        pages = [_page(rng, library, groups) for _ in range(5)]
        return [search, _results(rng, library, between), *(turn for page in pages for turn in page)]
    questions = [("What is wanted?", requested), ("Up to what price?", limit)]
    questions += [(f"Which {name}?", values[0]) for name, values in groups.items()]
    parts = [*([question] for question in rng.sample(questions, 2)), *(_page(rng, library, groups) for _ in range(3))]
    first, *rest = [turn for part in rng.sample(parts, len(parts)) for turn in part]
    return [(f"{text}\n{first[0]}", first[1]), *rest]


def _results(rng: Rng, library: Library, number: int) -> tuple[str, str]:
    """Draw a page of results and a click on one of them."""
    kind, common = rng.choice(library.kinds), _phrases(rng, library, library.attributes, 3)
    lines = [_line(rng, library, kind, common, n) for n in rng.sample(range(10_000), number)]
    page = "\n".join(["Page 1 of 5", *lines, "[next >] [back to search]"])
    return page, _format_action(rng, f"click[{rng.choice(lines).split()[0]}]")


def _page(rng: Rng, library: Library, groups: Mapping[str, Sequence[str]]) -> Turns:
    """Draw a page that offers some of the requested options, and a customer who clicks there at random."""
    requested = {name: values[0] for name, values in groups.items()}
    offers = {name: values[1:] if rng.below(3) == 0 else values for name, values in groups.items() if rng.below(4)}
    if rng.below(3) == 0:
        offers = dict([_group(rng, library)]) | offers
    offers = {name: rng.sample(offers[name], len(offers[name])) for name in rng.sample(list(offers), len(offers))}
    lines = [f"{name}: {' | '.join(values)}" for name, values in offers.items()]
    if rng.below(2) or not lines:
        about = _phrases(rng, library, library.attributes, 2)
        first = _line(rng, library, rng.choice(library.kinds), about, rng.below(10_000))
        lines = [first, *lines, f"[{'] ['.join(_BUTTONS)}]"]
    turns, observation, chosen = [], "\n".join(lines), dict[str, str]()
    for name in [*list(offers)[: rng.below(3)], ""]:
        present = [
            (value, value in (chosen.values() if chosen else offers.get(key, ()))) for key, value in requested.items()
        ]
        matching = [value for key, value in requested.items() if key == name and value in offers[name]]
        button = rng.choice(matching if matching and rng.below(2) else offers.get(name, _BUTTONS))
        thought = checklist(present, button, choosing=bool(chosen))
        turns.append((observation, format_reply(f"click[{button}]", thought)))
        observation, chosen[name] = f"{name}: {button} is selected.", button
    return turns


_BUTTONS = ("description", "features", "< prev", "back to search", "buy now")


def _group(rng: Rng, library: Library) -> tuple[str, list[str]]:
    """Draw an option's name and two to six values, of the shop or made up; the first value is requested."""
    if rng.below(2):
        name, values = rng.choice(library.options)
        return name, rng.sample(values, min(len(values), 2 + rng.below(5)))
    return rng.choice(library.words), _random_phrases(rng, library, 2 + rng.below(5))
