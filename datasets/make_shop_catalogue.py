"""Generate the embedded catalogue of AgentShop-v0 from `shop_words/`: `python datasets/make_shop_catalogue.py`.

The output is a function of seed and word lists. A product belongs to a kind (`trail running shoes`) with a pool of
attributes. It has 3 to 5 of them: two or three in its title, the others in its first bullet or its description. Its
text names no other attribute of the pool. Most products form families that differ in one or two attributes, price and
options.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random  # noqa: TID251  # seeded; another generator would draw another catalogue
from typing import Any

import yaml

WORDS = Path(__file__).resolve().parent / "shop_words"
OUT = Path(__file__).resolve().parent / "agentgym_data" / "shop"
SEED = 20240607
PER_DEPARTMENT = 120
RANGES, MISSING = 96, 24
ASKED_PRODUCTS, ASKED_TWICE = 250, 50
CHEAPEST, DEAREST = 3.99, 299.99
ACRONYMS = {"bpa", "dpi", "fm", "gmo", "led", "ph", "rgb", "stem", "tpe", "usb", "usda", "uv"}
# Class of attribute to the verb of a sentence, singular and plural.
VERBS = {
    "is": ("is", "are"),
    "offers": ("offers", "offer"),
    "of": ("is made of", "are made of"),
    "in": ("is made with", "are made with"),
    "has": ("comes with", "come with"),
}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of product, from its department's file."""

    department: str
    query: str
    path: str
    price: tuple[float, float]
    this: str
    """Its noun in a sentence: `these shoes`."""
    names: dict[str, str]
    """Title form to determiner: `Trail Shoes` to `a pair of`."""
    words: list[str]
    uses: list[str]
    occasions: list[str]
    forms: dict[str, tuple[str, str]]
    """Attribute to its class (a key of `VERBS`) and its form with an article (`a rubber sole`)."""
    either: list[list[str]]
    """Groups of attributes that exclude each other."""
    options: dict[str, list[str]]
    own_lines: list[str]
    lines: list[str]
    brands: list[str]

    @property
    def plural(self) -> bool:
        """Tell whether it is plural in a sentence."""
        return self.this.startswith("these")


@dataclass(frozen=True, slots=True)
class Product:
    """The properties of a product, from which its text is written."""

    kind: Kind
    brand: str
    name: str
    word: str
    use: str
    front: bool
    """Whether the attributes precede the name in the title."""
    attributes: tuple[str, ...]
    shown: int
    """The number of attributes in the title."""
    groups: list[str]
    price: float


def read_yaml(name: str) -> Any:
    """Read a word list in which every leaf is a string, even `no` and `6.5`."""
    text = (WORDS / f"{name}.yaml").read_text(encoding="utf-8")
    return yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506  # BaseLoader is safe: it makes only strings


def read_kinds(words: dict[str, Any]) -> Iterator[Kind]:
    """Yield all kinds by department."""
    for department in sorted(path.stem for path in WORDS.glob("*.yaml") if path.stem != "common"):
        data = read_yaml(department)
        for query, raw in data["kinds"].items():
            forms = {re.sub("^an? ", "", form): (role, form) for role in VERBS for form in raw.get(role, [])}
            yield Kind(
                department=department,
                query=query,
                path=" › ".join([data["path"], *raw["path"]]),
                price=(float(raw["price"][0]), float(raw["price"][1])),
                this=raw["this"],
                names=raw["names"],
                words=raw["words"],
                uses=raw["uses"],
                occasions=raw["for"],
                forms=forms,
                either=raw.get("either", []),
                options={k: words["values"][v] if isinstance(v, str) else v for k, v in raw["options"].items()},
                own_lines=raw["lines"],
                lines=data["lines"] + words["lines"],
                brands=data["brands"],
            )


def enumeration(parts: list[str]) -> str:
    """Write `a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def fits(product: Product) -> bool:
    """Tell whether the attributes are compatible (at most one material) and the title has 5 to 10 different words."""
    kind, attributes, text = product.kind, product.attributes, title(product)
    words = [word for word in re.findall(r"[a-z0-9-]+", text.lower()) if word not in ("and", "with", "for")]
    materials = sum(kind.forms[name][0] == "of" for name in attributes)
    clash = materials > 1 or any(set(pair) <= set(attributes) for pair in kind.either)
    return not clash and 5 <= len(text.split()) <= 10 and len(set(words)) == len(words)


def draw_groups(rng: Random, names: list[str]) -> list[str]:
    """Draw one, two or three option groups, nearly always including the first."""
    size = rng.choices((1, 2, 3), (30, 50, 20))[0]
    if size == 1:
        return [names[0] if rng.random() < 0.75 else names[1]]
    return names if size == 3 else [names[0], rng.choice(names[1:])]


def round_price(rng: Random, price: float) -> float:
    """Round to a price that is usual in shops."""
    price = math.floor(price) + rng.choice((0.99, 0.99, 0.99, 0.49, 0.95))
    return min(max(price, CHEAPEST), DEAREST)


def draw_product(rng: Random, kind: Kind) -> Product:
    """Draw a single product or the first of a family."""
    size = rng.choice((3, 4, 4, 5))
    product = Product(
        kind=kind,
        brand=rng.choice(kind.brands),
        name=rng.choice(list(kind.names)),
        word=rng.choice([*kind.words, "", ""]),
        use=rng.choice([*kind.uses, "", ""]),
        front=rng.random() < 0.75,
        attributes=tuple(rng.sample(list(kind.forms), size)),
        shown=rng.choice((2, 3)) if size == 4 else 2 + size // 5,
        groups=draw_groups(rng, list(kind.options)),
        price=round_price(rng, math.exp(rng.uniform(*map(math.log, kind.price)))),
    )
    return product if fits(product) else draw_product(rng, kind)


def sibling(rng: Random, base: Product, copied: bool) -> Product:
    """Draw a near-duplicate: one or two other attributes, another price, sometimes another use or (`copied`) brand."""
    kind, attributes = base.kind, list(base.attributes)
    places = rng.sample(range(len(attributes)), rng.choice((1, 1, 2)))
    spare = rng.sample([name for name in kind.forms if name not in attributes], len(places))
    for place, name in zip(places, spare, strict=True):
        attributes[place] = name
    factor = rng.uniform(1.06, 1.55) ** rng.choice((1, -1))
    product = replace(
        base,
        brand=rng.choice(kind.brands) if copied else base.brand,
        use=rng.choice([*kind.uses, ""]) if rng.random() < 0.3 else base.use,
        attributes=tuple(attributes),
        price=round_price(rng, base.price * factor),
    )
    apart = max(product.price, base.price) / min(product.price, base.price)
    return product if fits(product) and 1.05 <= apart <= 1.6 else sibling(rng, base, copied)


def draw_kind(rng: Random, kind: Kind, count: int) -> list[Product]:
    """Draw the products of a kind, mostly in families of 3 to 6, with different titles or attributes."""
    products: dict[tuple[str, frozenset[str]], Product] = {}
    while missing := count - len(products):
        size = rng.randint(3, min(missing, 6)) if missing >= 3 and rng.random() < 0.85 else 1
        base, copied, end = draw_product(rng, kind), rng.random() < 0.25, len(products) + size
        products.setdefault((title(base), frozenset(base.attributes)), base)
        while len(products) < end:
            product = sibling(rng, base, copied)
            products.setdefault((title(product), frozenset(product.attributes)), product)
    return list(products.values())


def draw_all(rng: Random, kinds: list[Kind]) -> list[Product]:
    """Draw all products, the same number per department, in random order."""
    products = []
    for department in sorted({kind.department for kind in kinds}):
        members = [kind for kind in kinds if kind.department == department]
        for number, kind in enumerate(members):
            products += draw_kind(rng, kind, PER_DEPARTMENT // len(members) + (number < PER_DEPARTMENT % len(members)))
    rng.shuffle(products)
    return products


def cased(word: str) -> str:
    """Write a word in title case."""
    if word in ("with", "for", "and"):
        return word
    return word.upper() if word in ACRONYMS else word[:1].upper() + word[1:]


def title(product: Product) -> str:
    """Write a title: `Norvale Waterproof Mesh Trail Shoes with Rubber Sole for Women`."""
    roles = {name: product.kind.forms[name][0] for name in product.attributes[: product.shown]}
    before = [name for name, role in roles.items() if role != "has"]
    behind = [name for name, role in roles.items() if role == "has"]
    tail = (f"with {enumeration(behind)} " if behind else "") + (f"for {product.use}" if product.use else "")
    if product.front or not before or {roles[name] for name in before} != {"is"}:
        text = f"{product.brand} {' '.join(before)} {product.word} {product.name} {tail}"
    else:
        text = f"{product.brand} {product.word} {product.name}, {enumeration(before)}, {tail}"
    return " ".join(map(cased, text.split())).rstrip(",")


def clause(kind: Kind, attributes: tuple[str, ...], plural: bool) -> str:
    """Write a clause: `is oil free, is made with shea butter and comes with a travel case`."""
    by_role: dict[str, list[str]] = {role: [] for role in VERBS}
    for role, form in (kind.forms[name] for name in attributes):
        by_role[role].append(form)
    return enumeration([f"{VERBS[role][plural]} {enumeration(forms)}" for role, forms in by_role.items() if forms])


def fill(template: str, product: Product, attributes: tuple[str, ...], occasion: str) -> str:
    """Fill in a sentence about a product."""
    kind = product.kind
    sentence = template.format(
        these=kind.this,
        These=kind.this.capitalize(),
        clause=clause(kind, attributes, kind.plural),
        are="are" if kind.plural else "is",
        they="they" if kind.plural else "it",
        them="them" if kind.plural else "it",
        brand=product.brand,
        bare=f"{kind.names[product.name]} {product.name.lower()}",
        **{"for": occasion},
    )
    return sentence[0].upper() + sentence[1:]


def body(rng: Random, product: Product, words: dict[str, Any]) -> tuple[list[str], str]:
    """Write the bullets and the description; one of them names the attributes that are not in the title."""
    kind, visible, hidden = product.kind, product.attributes[:2], product.attributes[product.shown :]
    first, occasions, lines = rng.random() < 0.6, rng.sample(kind.occasions, 2), rng.sample(kind.lines, 3)

    def tell(attributes: tuple[str, ...]) -> str:
        sentence = fill(rng.choice(words["clauses"]), product, attributes, occasions[0])
        return sentence if 6 <= len(sentence.split()) <= 14 else tell(attributes)

    bullets = [tell(hidden if first else visible), *rng.sample(kind.own_lines, 2), *lines[: rng.choice((0, 1, 1))]]
    description = [fill(rng.choice(words["intros"]), product, (), occasions[1]), lines[2]]
    if not first:
        description.insert(1, tell(hidden))
    elif rng.random() < 0.4:
        description.insert(1, lines[1])
    return bullets, " ".join(description)


def item_of(rng: Random, product: Product, asin: str, words: dict[str, Any]) -> dict[str, Any]:
    """Write a product in WebShop's format."""
    bullets, description = body(rng, product, words)
    options = {}
    for group in product.groups:
        values = product.kind.options[group]
        chosen = set(rng.sample(values, rng.randint(2, min(5, len(values)))))
        options[group] = [{"value": value} for value in values if value in chosen]
    return {
        "name": title(product),
        "full_description": description,
        "pricing": f"${product.price:.2f}",
        "product_category": product.kind.path,
        "small_description": bullets,
        "customization_options": options,
        "asin": asin,
        "category": product.kind.department,
        "query": product.kind.query,
        "images": [],
        "average_rating": round(rng.uniform(3.2, 4.9), 1),
        "total_reviews": 0,
    }


def reprice(rng: Random, items: list[dict[str, Any]]) -> None:
    """Give some products a price range and some no price, in WebShop's format: `$17.17$25.52`, an empty string."""
    chosen = rng.sample(items, RANGES + MISSING)
    for item in chosen[:MISSING]:
        item["pricing"] = ""
    for item in chosen[MISSING:]:
        low = min(float(item["pricing"][1:]), 199.99)
        item["pricing"] = f"${low:.2f}${round_price(rng, low * rng.uniform(1.15, 1.5) + 1):.2f}"


def option_phrase(words: dict[str, Any], group: str, value: str) -> str:
    """Write an option as a buyer does: `in navy blue`, `in size 9`."""
    rows = words["phrases"]
    phrase: str = next(row[2] for row in rows if re.fullmatch(row[0], group) and re.fullmatch(row[1], value))
    return phrase.replace("{v}", value).replace("@", group.lower())


def request(rng: Random, product: Product, item: dict[str, Any], words: dict[str, Any]) -> dict[str, Any]:
    """Write a request in full sentences, in WebShop's format."""
    kind, name, custom = product.kind, product.name.lower(), item["customization_options"]
    determiner, a_or_an = kind.names[product.name], kind.names[product.name] in ("a", "an")
    chosen = tuple(rng.sample(product.attributes, rng.choice((1, 2, 2, 3))))
    groups = set(rng.sample(list(custom), rng.randint(1, len(custom))))
    options = {group: rng.choice(custom[group])["value"] for group in custom if group in groups}
    plural = kind.plural and not a_or_an
    full = " ".join([*(a for a in chosen if kind.forms[a][0] != "has"), name])
    behind = [kind.forms[a][1] for a in chosen if kind.forms[a][0] == "has"]
    article = "an" if full[0] in "aeiou" and full[:2] not in ("us", "uv") else "a"
    text = rng.choice(words["requests"]).format(
        full=f"{article if a_or_an else determiner} {full}" + (f" with {enumeration(behind)}" if behind else ""),
        bare=f"{determiner} {name}",
        clause=clause(kind, chosen, plural),
        it="they" if plural else "it",
        opts=rng.choice((", ", " and ")).join(option_phrase(words, *pair) for pair in options.items()),
    )
    return {
        "asin": item["asin"],
        "instruction": text,
        "attributes": list(product.attributes),
        "options": [f"{group.lower()}: {value}" for group, value in options.items()],
        "instruction_attributes": list(chosen),
        "instruction_options": list(options.values()),
        "assignment_id": "A",
        "worker_id": "template",
    }


def synthetic(rng: Random, product: Product) -> dict[str, Any]:
    """Write a product's attributes and WebShop's synthetic request."""
    chosen = rng.sample(product.attributes, rng.choice((1, 2, 2, 3)))
    text = f"Find me {', '.join(chosen)} {product.kind.query}"
    return {"attributes": list(product.attributes), "instruction": text, "instruction_attributes": chosen}


def make(seed: int = SEED) -> dict[str, Any]:
    """Generate the contents of the four files."""
    rng, words = Random(seed), read_yaml("common")
    products = draw_all(rng, list(read_kinds(words)))
    asins = [f"B{number:04}" for number in rng.sample(range(10_000), len(products))]
    items = [item_of(rng, product, asin, words) for product, asin in zip(products, asins, strict=True)]
    reprice(rng, items)
    chosen = rng.sample(list(zip(products, items, strict=True)), ASKED_PRODUCTS)
    human: dict[str, list[dict[str, Any]]] = {}
    for product, item in chosen + chosen[:ASKED_TWICE]:
        human.setdefault(item["asin"], []).append(request(rng, product, item, words))
    other = set(words["not_nouns"].split())
    nouns = {i["asin"]: [w for w in re.findall(r"[a-z0-9]+", i["name"].lower()) if w not in other] for i in items}
    plain = {asin: synthetic(rng, product) for product, asin in zip(products, asins, strict=True)}
    return {"items_shuffle": items, "items_ins_v2": plain, "items_human_ins": human, "name_nouns": nouns}


def packed(value: Any) -> bytes:
    """Write JSON, gzipped without time and file name."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0) as file:
        file.write(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
    return buffer.getvalue()


def card(data: dict[str, Any]) -> str:
    """Write the catalogue's card."""
    counts = Counter(item["category"] for item in data["items_shuffle"])
    kinds = Counter(name for name, _ in {(item["category"], item["query"]) for item in data["items_shuffle"]})
    rows = "".join(f"| {name} | {counts[name]} | {kinds[name]} |\n" for name in sorted(counts))
    requests = sum(map(len, data["items_human_ins"].values()))
    text: str = read_yaml("common")["card"]
    return text.format(rows=rows, products=counts.total(), kinds=kinds.total(), requests=requests, seed=SEED)


def main(out: Path = OUT) -> None:
    """Write the catalogue."""
    out.mkdir(parents=True, exist_ok=True)
    data = make()
    for name, value in data.items():
        (out / f"{name}.json.gz").write_bytes(packed(value))
    (out / "CARD.md").write_text(card(data), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
