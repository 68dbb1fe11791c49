"""The products of a shop, read from WebShop's files and cleaned exactly as WebShop does."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from agentgym_envs.shop.json_checks import ITEMS, Entry, find_file, read_json
from agentgym_envs.shop.nouns import nouns_by_rule
from agentgym_envs.shop.search import SearchIndex, document
from agentgym_py.errors import CatalogueError
from agentgym_py.rng import Rng

INSTRUCTIONS = "items_ins_v2"
HUMAN = "items_human_ins"
PAGE_SIZE = 10
HITS = 50
_NO_PRICE = 100.0
_LONGEST_ID = 10


@dataclass(frozen=True, slots=True)
class Request:
    """A request in full sentences, without a price."""

    words: str
    attributes: tuple[str, ...]
    options: tuple[str, ...]
    """Values of options."""


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """A product. Products are compared by identity, which makes them fast as keys."""

    asin: str
    """Its id."""
    title: str
    category: str
    """The department, one word."""
    query: str
    """What kind of thing it is, lower-cased: `women's dresses`."""
    product_category: str
    """The path of categories, split by `›`."""
    description: str
    bullets: tuple[str, ...]
    attributes: tuple[str, ...]
    options: Mapping[str, tuple[str, ...]]
    """Option name to its values, in file order."""
    prices: tuple[float, ...]
    """One price, or the ends of a range."""
    price: float
    """Its price: the one price, or a number drawn once from the range."""
    price_text: str
    """The price as WebShop shows it."""
    nouns: tuple[str, ...]
    """The nouns of the title, lower-cased."""
    instruction: str | None = None
    """WebShop's synthetic request for it, without options and price."""
    instruction_attributes: tuple[str, ...] = ()
    instructions: tuple[Request, ...] = ()
    """Requests in full sentences for it; in WebShop's files people wrote them."""


@dataclass(eq=False)
class Catalogue:
    """The products of a folder and the search in them; shared by all environments of the folder."""

    folder: str
    """Its folder, for messages."""
    version: str
    """A digest of the files: tasks and snapshots are valid for one version only."""
    products: tuple[Product, ...]
    goals: list[dict[str, Any]] | None = None
    """The folder's own `goals.json`, if it exists."""
    by_asin: dict[str, Product] = field(init=False)
    index: SearchIndex = field(init=False)
    search: Callable[[str], tuple[Product, ...]] = field(init=False)
    """The best `HITS` products for a query; the last 20,000 queries are cached."""

    def __post_init__(self) -> None:
        self.by_asin = {product.asin: product for product in self.products}
        texts = [document(p.title, p.description, p.bullets[0] if p.bullets else "", p.options) for p in self.products]
        self.index = SearchIndex([product.asin for product in self.products], texts)
        self.search = lru_cache(maxsize=20_000)(self._hits)

    def __deepcopy__(self, memo: object) -> Catalogue:
        return self  # products are compared by identity

    def _hits(self, query: str) -> tuple[Product, ...]:
        return tuple(self.by_asin[asin] for asin, _ in self.index.search(query, HITS))


def load_catalogue(folder: str | Path | None = None) -> Catalogue:
    """Load the catalogue of a folder of WebShop's files, or the embedded one, once per process.

    Raises:
        CatalogueError: a file is missing or broken; the message names the file, the product and the key.
    """
    if folder is not None:
        return _load(str(Path(folder).expanduser().resolve()))
    return _embedded()


@cache
def _embedded() -> Catalogue:
    with as_file(files("agentgym_data") / "shop") as folder:
        return _load(str(folder))


@cache
def _load(folder: str) -> Catalogue:
    place, digest = Path(folder), hashlib.sha256()
    items_file, ins_file, human_file = (find_file(place, name) for name in (ITEMS, INSTRUCTIONS, HUMAN))
    goals_file, prices_file, nouns_file = (_optional(place, name) for name in ("goals", "prices", "name_nouns"))
    items: list[Any] = read_json(items_file, list, digest.update)
    ins, human, prices, nouns = (
        Entry(str(path), read_json(path, dict, digest.update) if path else {})
        for path in (ins_file, human_file, prices_file, nouns_file)
    )
    products = tuple(_products(items_file, items, _Sources(ins, human, prices, nouns)))
    if not products:
        raise CatalogueError(f"{items_file}: no products")
    goals: list[Any] | None = read_json(goals_file, list, digest.update) if goals_file else None
    unnamed = sum(product.asin not in nouns.values for product in products)
    if unnamed:
        warnings.warn(
            f"{folder}: name_nouns.json has no nouns for {unnamed} of {len(products)} products; a rule finds them, and "
            f"r_type may differ from WebShop's. Run `python -m agentgym_envs.shop.nouns {folder}`",
            stacklevel=2,
        )
    return Catalogue(folder, digest.hexdigest()[:12], products, goals)


@dataclass(frozen=True, slots=True)
class _Sources:
    """The files by product id that complete the items; a missing file is empty."""

    instructions: Entry
    human: Entry
    prices: Entry
    nouns: Entry


def _optional(folder: Path, stem: str) -> Path | None:
    return next((path for path in (folder / f"{stem}.json", folder / f"{stem}.json.gz") if path.is_file()), None)


def _products(file: Path, items: list[Any], sources: _Sources) -> Iterator[Product]:
    asins: set[str] = set()
    for number, value in enumerate(items):
        item = Entry.of(f"{file}: item {number}", value)
        asin = item.text("asin")
        if asin == "nan" or len(asin) > _LONGEST_ID or asin in asins:
            continue
        asins.add(asin)
        yield _product(asin, Entry(f"{file}: product {asin}", item.values), sources)


def _product(asin: str, item: Entry, sources: _Sources) -> Product:
    title = item.text("name")
    bullets = item.value("small_description")
    prices, price_text = _prices(item)
    ins = sources.instructions.entry(asin) if asin in sources.instructions.values else Entry("", {})
    requests = sources.human.entries(asin) if asin in sources.human.values else []
    return Product(
        asin=asin,
        title=title,
        category=item.text("category"),
        query=item.text("query").lower().strip(),
        product_category=item.text("product_category"),
        description=item.text("full_description"),
        bullets=(bullets,) if isinstance(bullets, str) else item.texts("small_description"),
        attributes=ins.texts("attributes") if "attributes" in ins.values else ("DUMMY_ATTR",),
        options=_options(item),
        prices=prices,
        price=sources.prices.number(asin) if asin in sources.prices.values else _price(asin, prices),
        price_text=price_text,
        nouns=sources.nouns.texts(asin) if asin in sources.nouns.values else nouns_by_rule(title),
        instruction=ins.text("instruction") if ins.values.get("instruction") is not None else None,
        instruction_attributes=ins.texts("instruction_attributes") if ins.values.get("instruction_attributes") else (),
        instructions=tuple(map(_request, requests)),
    )


def _request(entry: Entry) -> Request:
    words, attributes, options = "instruction", "instruction_attributes", "instruction_options"
    return Request(entry.text(words), entry.texts(attributes), entry.texts(options))


def _prices(item: Entry) -> tuple[tuple[float, ...], str]:
    if not item.values.get("pricing"):
        return (_NO_PRICE,), f"${_NO_PRICE}"
    pricing = item.text("pricing")
    try:
        prices = tuple(float(re.sub(r"[^\d.]", "", part)) for part in pricing.split("$")[1:3])
    except ValueError:
        prices = ()
    if not prices:
        raise CatalogueError(f"{item.where}: key 'pricing' holds no price: {pricing!r}")
    return prices, " to ".join(f"${price}" for price in prices)


def _price(asin: str, prices: tuple[float, ...]) -> float:
    low, high = prices[0], prices[-1]
    return low if len(prices) == 1 else low + (high - low) * Rng("shop price", asin).uniform()


def _options(item: Entry) -> dict[str, tuple[str, ...]]:
    options = {}
    custom = item.entry("customization_options") if item.value("customization_options") else Entry("", {})
    for name in custom.values:
        if custom.values[name] is not None:
            values = (content.text("value") for content in custom.entries(name))
            options[name.lower()] = tuple(value.strip().replace("/", " | ").lower() for value in values)
    return options
