"""Makes the embedded catalogue of AgentShop-v0 from the word lists in `shop_words/`: `python datasets/make_shop_catalogue.py`.

The same seed and lists give the same bytes. Every product belongs to a kind (`trail running shoes`) that owns a pool of
attributes; a product has 3 to 5 of them, some in its title, the others only in its first bullet or its description, and its
text names none that it does not have. Most products come in families that differ in an attribute or two, in price and options.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
WORDS = HERE / "shop_words"
OUT = HERE / "agentgym_data" / "shop"
SEED = 20240607
PER_DEPARTMENT = 120
RANGES, MISSING = 96, 24
ASKED_PRODUCTS, ASKED_TWICE = 250, 50
CHEAPEST, DEAREST = 3.99, 299.99
# What a sentence says of an attribute by its class, of one thing and of several.
VERBS = {
    "is": ("is", "are"),
    "offers": ("offers", "offer"),
    "of": ("is made of", "are made of"),
    "in": ("is made with", "are made with"),
    "has": ("comes with", "come with"),
}
ACRONYMS = frozenset("bpa dpi fm gmo led ph rgb stem tpe usb usda uv".split())


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of product, as its department's file describes it."""

    department: str
    query: str
    path: str
    price: tuple[float, float]
    this: str
    """How a sentence calls it: `these shoes`."""
    names: dict[str, str]
    """Title form to determiner: `Trail Shoes` to `a pair of`."""
    words: list[str]
    uses: list[str]
    occasions: list[str]
    forms: dict[str, tuple[str, str]]
    """Attribute to its class (a key of `VERBS`) and its form with an article (`a rubber sole`)."""
    either: list[list[str]]
    options: dict[str, list[str]]
    lines: list[str]
    brands: list[str]


@dataclass(frozen=True, slots=True)
class Product:
    """What a product is; its text is written from this."""

    kind: Kind
    brand: str
    name: str
    word: str
    use: str
    front: bool
    """Whether the attributes stand before the name in the title."""
    attributes: tuple[str, ...]
    shown: int
    """How many of the attributes stand in the title."""
    groups: tuple[str, ...]
    price: float

    @property
    def hidden(self) -> tuple[str, ...]:
        """The attributes that the title does not tell."""
        return self.attributes[self.shown :]


@dataclass(frozen=True, slots=True)
class Words:
    """What all departments share."""

    values: dict[str, list[str]]
    lines: list[str]
    clauses: list[str]
    intros: list[str]
    phrases: list[list[str]]
    requests: list[str]
    not_nouns: frozenset[str]
    card: str


def read_yaml(path: Path) -> Any:
    """A file whose every leaf is a string: `no` and `6.5` stay what they are."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)  # noqa: S506  # a safe loader: makes only strings


def read_words() -> Words:
    """The shared lists."""
    data = read_yaml(WORDS / "common.yaml")
    return Words(**{**data, "not_nouns": frozenset(data["not_nouns"].split())})


def read_kinds(words: Words) -> list[Kind]:
    """All kinds, department by department."""
    paths = sorted(path for path in WORDS.glob("*.yaml") if path.stem != "common")
    return [kind for path in paths for kind in _department(path.stem, read_yaml(path), words)]


def _department(name: str, data: dict[str, Any], words: Words) -> Iterator[Kind]:
    for query, raw in data["kinds"].items():
        forms = {bare(form): (role, form) for role in VERBS for form in raw.get(role, [])}
        options = {k: words.values[v] if isinstance(v, str) else v for k, v in raw["options"].items()}
        low, high = map(float, raw["price"])
        yield Kind(
            department=name,
            query=query,
            path=" › ".join([data["path"], *raw["path"]]),
            price=(low, high),
            this=raw["this"],
            names=raw["names"],
            words=raw["words"],
            uses=raw["uses"],
            occasions=raw["for"],
            forms=forms,
            either=raw.get("either", []),
            options=options,
            lines=raw["lines"] + data["lines"],
            brands=data["brands"],
        )


def bare(form: str) -> str:
    """A form without its article."""
    return re.sub(r"^(an?|the) ", "", form)


def cased(text: str) -> str:
    """Title case that keeps acronyms and leaves what stands behind a hyphen."""
    return " ".join(word.upper() if word in ACRONYMS else word[:1].upper() + word[1:] for word in text.split())


def listed(parts: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


# Products


def fits(kind: Kind, attributes: tuple[str, ...]) -> bool:
    """Whether one product can have all of these: it is made of one material."""
    materials = sum(kind.forms[name][0] == "of" for name in attributes)
    return materials <= 1 and not any(set(pair) <= set(attributes) for pair in kind.either)


def draw_attributes(rng: Random, kind: Kind, size: int) -> tuple[str, ...]:
    """Attributes that go together."""
    while True:
        drawn = tuple(rng.sample(list(kind.forms), size))
        if fits(kind, drawn):
            return drawn


def draw_groups(rng: Random, kind: Kind) -> tuple[str, ...]:
    """The option groups: one, two or all three of the kind's, the first of them nearly always."""
    names = list(kind.options)
    size = rng.choices((1, 2, 3), (30, 50, 20))[0]
    if size == 1:
        return (names[0] if rng.random() < 0.75 else names[1],)
    return tuple(names) if size == 3 else (names[0], rng.choice(names[1:]))


def round_price(rng: Random, price: float) -> float:
    """A price as shops write it."""
    price = min(max(price, CHEAPEST), DEAREST)
    return min(max(math.floor(price) + rng.choice((0.99, 0.99, 0.99, 0.49, 0.95)), CHEAPEST), DEAREST)


def draw_product(rng: Random, kind: Kind) -> Product:
    """A product with a title of fair length."""
    while True:
        size = rng.choice((3, 4, 4, 5))
        shown = rng.choice((2, 3)) if size == 4 else 2 + size // 5
        low, high = kind.price
        price = round_price(rng, math.exp(rng.uniform(math.log(low), math.log(high))))
        product = Product(
            kind=kind,
            brand=rng.choice(kind.brands),
            name=rng.choice(list(kind.names)),
            word=rng.choice([*kind.words, ""]),
            use=rng.choice([*kind.uses, ""]),
            front=rng.random() < 0.75,
            attributes=draw_attributes(rng, kind, size),
            shown=shown,
            groups=draw_groups(rng, kind),
            price=price,
        )
        if fair_title(product):
            return product


def sibling(rng: Random, base: Product, copied: bool) -> Product:
    """A near-duplicate: one or two other attributes, another price, and sometimes another use or (a copy) another brand."""
    kind = base.kind
    while True:
        attributes = list(base.attributes)
        places = rng.sample(range(len(attributes)), rng.choice((1, 1, 2)))
        spare = rng.sample([name for name in kind.forms if name not in attributes], len(places))
        for place, name in zip(places, spare, strict=True):
            attributes[place] = name
        factor = 1 + rng.uniform(0.06, 0.55)
        up = rng.random() < 0.5 if base.price / factor > CHEAPEST + 1 and base.price * factor < DEAREST - 1 else base.price < 50
        product = replace(
            base,
            attributes=tuple(attributes),
            price=round_price(rng, base.price * factor if up else base.price / factor),
            use=rng.choice([*kind.uses, ""]) if rng.random() < 0.3 else base.use,
            brand=rng.choice(kind.brands) if copied else base.brand,
        )
        if fits(kind, product.attributes) and fair_title(product) and 1.05 <= ratio(product.price, base.price) <= 1.6:
            return product


def ratio(a: float, b: float) -> float:
    """How far apart two prices are, at least 1."""
    return max(a, b) / min(a, b)


def draw_kind(rng: Random, kind: Kind, count: int) -> list[Product]:
    """The products of a kind, most of them in families of 3 to 6."""
    products: list[Product] = []
    seen: set[tuple[str, frozenset[str]]] = set()
    while len(products) < count:
        left = count - len(products)
        size = rng.randint(3, min(left, 6)) if left >= 3 and rng.random() < 0.85 else 1
        base, copied = draw_product(rng, kind), rng.random() < 0.25
        for number in range(size):
            product = base if number == 0 else sibling(rng, base, copied)
            while (key := (title(product), frozenset(product.attributes))) in seen:
                product = sibling(rng, base, copied)
            seen.add(key)
            products.append(product)
    return products


def draw_all(rng: Random, kinds: list[Kind]) -> list[Product]:
    """All products, the same number in every department, in an order that says nothing."""
    products = []
    for department in dict.fromkeys(kind.department for kind in kinds):
        own = [kind for kind in kinds if kind.department == department]
        for number, kind in enumerate(own):
            count = PER_DEPARTMENT // len(own) + (number < PER_DEPARTMENT % len(own))
            products += draw_kind(rng, kind, count)
    rng.shuffle(products)
    return products


# Text


def split_shown(product: Product) -> tuple[list[str], list[str]]:
    """The title's attributes: those that can stand before the name, and those that need a `with`."""
    shown, forms = product.attributes[: product.shown], product.kind.forms
    has = [name for name in shown if forms[name][0] == "has"]
    return [name for name in shown if name not in has], has


def title(product: Product) -> str:
    """`Norvale Waterproof Mesh Trail Shoes with Rubber Sole for Women`."""
    before, behind = split_shown(product)
    tail = f"with {listed(behind)} " if behind else ""
    tail += f"for {product.use}" if product.use else ""
    if product.front or not before:
        head = f"{product.brand} {' '.join(before)} {product.word} {product.name} {tail}"
    else:
        head = f"{product.brand} {product.word} {product.name}, {listed(before)}, {tail}"
    text = " ".join(head.split()).rstrip(",")
    return " ".join(word if word in ("with", "for", "and") else cased(word) for word in text.split())


def fair_title(product: Product) -> bool:
    """Whether the title has 5 to 10 words, and none twice."""
    words = [word for word in re.findall(r"[a-z0-9-]+", title(product).lower()) if word not in ("and", "with", "for")]
    return 5 <= len(title(product).split()) <= 10 and len(set(words)) == len(words)


def clause(kind: Kind, attributes: tuple[str, ...], plural: bool) -> str:
    """`is oil free, is made with shea butter and comes with a travel case`."""
    parts = []
    for role, verbs in VERBS.items():
        forms = [kind.forms[name][1] for name in attributes if kind.forms[name][0] == role]
        if forms:
            parts.append(f"{verbs[plural]} {listed(forms)}")
    return listed(parts)


def fill(rng: Random, template: str, product: Product, attributes: tuple[str, ...]) -> str:
    """A sentence about the product."""
    plural = product.kind.this.startswith("these")
    sentence = template.format(
        these=product.kind.this,
        These=product.kind.this.capitalize(),
        clause=clause(product.kind, attributes, plural) if attributes else "",
        are="are" if plural else "is",
        they="they" if plural else "it",
        them="them" if plural else "it",
        suit="suit" if plural else "suits",
        brand=product.brand,
        bare=f"{product.kind.names[product.name]} {product.name.lower()}",
        **{"for": rng.choice(product.kind.occasions)},
    )
    return sentence[0].upper() + sentence[1:]


def body(rng: Random, product: Product, words: Words) -> tuple[list[str], str]:
    """The bullets and the description; the first bullet or the description names what the title hides."""

    def tell(attributes: tuple[str, ...]) -> str:
        while True:
            sentence = fill(rng, rng.choice(words.clauses), product, attributes)
            if 6 <= len(sentence.split()) <= 14:
                return sentence

    first = rng.random() < 0.6
    own, common = product.kind.lines[:3], product.kind.lines[3:] + words.lines
    tail = rng.sample(common, 3)
    bullets = [tell(product.hidden if first else product.attributes[:2]), *rng.sample(own, 2), *tail[: rng.choice((0, 1, 1))]]
    description = [fill(rng, rng.choice(words.intros), product, ()), tail[2]]
    if not first:
        description.insert(1, tell(product.hidden))
    elif rng.random() < 0.4:
        description.insert(1, tail[1])
    return bullets, " ".join(description)


def check(product: Product, texts: list[str]) -> None:
    """Raises where a text names an attribute of the kind that the product does not have."""
    text = " ".join(texts).lower()
    wrong = [name for name in product.kind.forms if name not in product.attributes and name in text]
    missing = [name for name in product.attributes if name not in text]
    if wrong or missing:
        raise ValueError(f"{product.kind.query}: wrong {wrong}, missing {missing}: {texts}")


def nouns(text: str, words: Words) -> list[str]:
    """The nouns of a title, lower-cased: all its words but those listed as something else."""
    return [word for word in re.findall(r"[a-z0-9]+", text.lower()) if word not in words.not_nouns]


# Requests


def option_phrase(words: Words, group: str, value: str) -> str:
    """How a buyer says it: `in navy blue`, `in size 9`."""
    for groups, pattern, phrase in words.phrases:
        if re.fullmatch(groups, group) and re.fullmatch(pattern, value):
            return phrase.replace("{v}", value).replace("@", group.lower())
    raise ValueError(f"no phrase for {group}: {value}")


def request(rng: Random, product: Product, item: dict[str, Any], words: Words) -> dict[str, Any]:
    """A request for a product as a person would write it, and what it asks for."""
    kind, name = product.kind, product.name.lower()
    asked = tuple(rng.sample(product.attributes, rng.choice((1, 2, 2, 3))))
    custom: dict[str, list[dict[str, str]]] = item["customization_options"]
    groups = sorted(rng.sample(list(custom), rng.randint(1, len(custom))), key=list(custom).index)
    options = {group: rng.choice(custom[group])["value"] for group in groups}
    determiner = kind.names[product.name]
    plural = determiner not in ("a", "an") and kind.this.startswith("these")
    front = [a for a in asked if kind.forms[a][0] != "has"]
    back = [kind.forms[a][1] for a in asked if kind.forms[a][0] == "has"]
    full = " ".join([*front, name]) + (f" with {listed(back)}" if back else "")
    text = rng.choice(words.requests).format(
        full=f"{article(determiner, full)} {full}",
        bare=f"{determiner} {name}",
        clause=clause(kind, asked, plural),
        it="they" if plural else "it",
        opts=rng.choice((", ", " and ")).join(option_phrase(words, *pair) for pair in options.items()),
    )
    return {
        "instruction": text,
        "instruction_attributes": list(asked),
        "instruction_options": list(options.values()),
        "options": [f"{group.lower()}: {value}" for group, value in options.items()],
    }


def article(determiner: str, text: str) -> str:
    """`a` or `an` by the next letter, where the determiner is one of them."""
    if determiner not in ("a", "an"):
        return determiner
    return "an" if text[0] in "aeiou" and not text.startswith(("usda", "usb", "uv")) else "a"


# Files


def item_of(rng: Random, product: Product, asin: str, words: Words) -> dict[str, Any]:
    """A product in WebShop's form."""
    bullets, description = body(rng, product, words)
    name, options = title(product), product.kind.options
    check(product, [name, description, *bullets])
    chosen = {g: rng.sample(options[g], rng.randint(2, min(5, len(options[g])))) for g in product.groups}
    return {
        "name": name,
        "full_description": description,
        "pricing": f"${product.price:.2f}",
        "product_category": product.kind.path,
        "small_description": bullets,
        "customization_options": {
            group: [{"value": value} for value in sorted(values, key=options[group].index)] for group, values in chosen.items()
        },
        "asin": asin,
        "category": product.kind.department,
        "query": product.kind.query,
        "images": [],
        "average_rating": round(rng.uniform(3.2, 4.9), 1),
        "total_reviews": 0,
    }


def reprice(rng: Random, items: list[dict[str, Any]]) -> None:
    """Gives some products a range of prices, and some none, as WebShop writes them: `$17.17$25.52` and an empty string."""
    chosen = rng.sample(items, RANGES + MISSING)
    for item in chosen[:MISSING]:
        item["pricing"] = ""
    for item in chosen[MISSING:]:
        low = min(float(item["pricing"][1:]), DEAREST / 1.5)
        item["pricing"] = f"${low:.2f}${round_price(rng, low * rng.uniform(1.15, 1.5) + 1):.2f}"


def requests(rng: Random, pairs: list[tuple[Product, dict[str, Any]]], words: Words) -> dict[str, list[dict[str, Any]]]:
    """The requests in WebShop's form: one for most of the chosen products, two for some."""
    chosen = rng.sample(pairs, ASKED_PRODUCTS)
    found: dict[str, list[dict[str, Any]]] = {}
    for product, item in chosen + chosen[:ASKED_TWICE]:
        same = {"asin": item["asin"], "attributes": list(product.attributes), "assignment_id": "A", "worker_id": "template"}
        found.setdefault(item["asin"], []).append(same | request(rng, product, item, words))
    return found


def synthetic(rng: Random, product: Product) -> dict[str, Any]:
    """The attributes of a product and WebShop's plain request for it."""
    asked = rng.sample(product.attributes, rng.choice((1, 2, 2, 3)))
    return {
        "attributes": list(product.attributes),
        "instruction": f"Find me {', '.join(asked)} {product.kind.query}",
        "instruction_attributes": asked,
    }


def make(seed: int = SEED) -> dict[str, Any]:
    """The contents of the four files."""
    rng, words = Random(seed), read_words()
    products = draw_all(rng, read_kinds(words))
    asins = [f"B{number:04}" for number in rng.sample(range(10_000), len(products))]
    items = [item_of(rng, product, asin, words) for product, asin in zip(products, asins, strict=True)]
    reprice(rng, items)
    return {
        "items_shuffle": items,
        "items_ins_v2": {item["asin"]: synthetic(rng, p) for p, item in zip(products, items, strict=True)},
        "items_human_ins": requests(rng, list(zip(products, items, strict=True)), words),
        "name_nouns": {item["asin"]: nouns(item["name"], words) for item in items},
    }


def packed(value: Any) -> bytes:
    """JSON, gzipped without time and file name."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0) as file:
        file.write(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
    return buffer.getvalue()


def card(data: dict[str, Any]) -> str:
    """The catalogue's card."""
    counts = Counter(item["category"] for item in data["items_shuffle"])
    kinds = Counter(category for category, _ in {(item["category"], item["query"]) for item in data["items_shuffle"]})
    rows = "".join(f"| {name} | {counts[name]} | {kinds[name]} |\n" for name in sorted(counts))
    asked = sum(map(len, data["items_human_ins"].values()))
    return read_words().card.format(rows=rows, products=sum(counts.values()), kinds=sum(kinds.values()), requests=asked, seed=SEED)


def main(arguments: list[str] | None = None) -> None:
    """Writes the catalogue."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--out", type=Path, default=OUT, help="the folder that gets the files")
    out: Path = parser.parse_args(arguments).out
    out.mkdir(parents=True, exist_ok=True)
    data = make()
    for name, value in data.items():
        (out / f"{name}.json.gz").write_bytes(packed(value))
    (out / "CARD.md").write_text(card(data), encoding="utf-8")


if __name__ == "__main__":
    main()
