"""The goods of a shop, read from WebShop's files exactly as WebShop cleans them."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, TypeVar

from agentgym_envs.shop.nouns import nouns_by_rule
from agentgym_envs.shop.search import SearchIndex, document
from agentgym_py.errors import CatalogueError
from agentgym_py.rng import Rng

T = TypeVar("T", list[Any], dict[str, Any])

ITEMS = "items_shuffle"
INSTRUCTIONS = "items_ins_v2"
HUMAN = "items_human_ins"
PAGE_SIZE = 10
HITS = 50
_NO_PRICE = 100.0
_LONGEST_ID = 10


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """One thing to buy. Two products are equal only when they are the same object, which makes them fast as keys."""

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
    """Option name to its values, in the order of the file."""
    prices: tuple[float, ...]
    """One price, or the ends of a range."""
    price: float
    """What it costs: the one price, or a number drawn once from the range."""
    price_text: str
    """The price as WebShop shows it."""
    nouns: tuple[str, ...]
    """The nouns of the title, lower-cased."""
    instruction: str | None = None
    """WebShop's synthetic request for it, without options and price."""
    instruction_attributes: tuple[str, ...] = ()
    instructions: tuple[Mapping[str, Any], ...] = ()
    """Requests that people wrote for it: `instruction`, `instruction_attributes`, `instruction_options`."""


@dataclass(eq=False)
class Catalogue:
    """Every product of a folder and the search over them; shared by all environments of that folder."""

    folder: str
    """Where it was read from, for messages."""
    version: str
    """A digest of the files: tasks and snapshots hold for one version only."""
    products: tuple[Product, ...]
    goals: list[dict[str, Any]] | None = None
    """The folder's own `goals.json`, where there is one."""
    by_asin: dict[str, Product] = field(init=False)
    index: SearchIndex = field(init=False)
    search: Callable[[str], tuple[Product, ...]] = field(init=False)
    """The best `HITS` products for a query; the last 20,000 queries are remembered."""

    def __post_init__(self) -> None:
        self.by_asin = {product.asin: product for product in self.products}
        texts = [document(p.title, p.description, p.bullets[0] if p.bullets else "", p.options) for p in self.products]
        self.index = SearchIndex([product.asin for product in self.products], texts)
        self.search = lru_cache(maxsize=20_000)(self._hits)

    def __deepcopy__(self, memo: object) -> Catalogue:
        return self  # products are known by identity

    def _hits(self, query: str) -> tuple[Product, ...]:
        return tuple(self.by_asin[asin] for asin, _ in self.index.search(query, HITS))


def load_catalogue(folder: str | Path | None = None) -> Catalogue:
    """The catalogue of a folder of WebShop's files, or the embedded one; read once in a process.

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
    sources = _Sources(
        items_file,
        ins_file,
        human_file,
        read_json(ins_file, dict, digest.update),
        read_json(human_file, dict, digest.update),
        read_json(prices_file, dict, digest.update) if prices_file else None,
        read_json(nouns_file, dict, digest.update) if nouns_file else None,
    )
    products = tuple(_products(items, sources))
    if not products:
        raise CatalogueError(f"{items_file}: no product in it")
    goals: list[Any] | None = read_json(goals_file, list, digest.update) if goals_file else None
    return Catalogue(folder, digest.hexdigest()[:12], products, goals)


@dataclass(frozen=True, slots=True)
class _Sources:
    """What the product cleaner reads beside an item itself."""

    file: Path
    ins_file: Path
    human_file: Path
    instructions: Mapping[str, Any]
    human: Mapping[str, Any]
    prices: Mapping[str, Any] | None
    nouns: Mapping[str, Any] | None


def find_file(folder: Path, stem: str) -> Path:
    """`stem*.json` or `stem*.json.gz` in a folder: the plain name first, else the first in alphabetical order."""
    if not folder.is_dir():
        raise CatalogueError(f"{folder}: no such folder")
    found = sorted(path for path in folder.glob(f"{stem}*.json*") if path.name.endswith((".json", ".json.gz")))
    if not found:
        raise CatalogueError(f"{folder}: no {stem}*.json or {stem}*.json.gz in it")
    return min(found, key=lambda path: (path.name.split(".")[0] != stem, path.name))


def _optional(folder: Path, stem: str) -> Path | None:
    return next((path for path in (folder / f"{stem}.json", folder / f"{stem}.json.gz") if path.is_file()), None)


def read_json(path: Path, kind: type[T], seen: Callable[[bytes], None] = lambda _: None) -> T:
    """The JSON of a file, unpacked if it is gzipped and shown to `seen`; CatalogueError names the file."""
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        seen(raw)
        value = json.loads(raw)
    except (OSError, EOFError, zlib.error) as error:
        raise CatalogueError(f"{path}: cannot be read: {error}") from error
    except ValueError as error:  # broken JSON or broken UTF-8
        raise CatalogueError(f"{path}: not valid JSON: {error}") from error
    if not isinstance(value, kind):
        wanted = "list" if kind is list else "object"
        raise CatalogueError(f"{path}: a JSON {wanted} is wanted, found {type(value).__name__}")
    return value


def _products(items: list[Any], sources: _Sources) -> Iterator[Product]:
    seen: set[str] = set()
    for number, item in enumerate(items):
        if not isinstance(item, dict):
            raise CatalogueError(f"{sources.file}: item {number} is no JSON object")
        asin = str(_key(sources.file, f"item {number}", item, "asin"))
        if asin == "nan" or len(asin) > _LONGEST_ID or asin in seen:
            continue
        seen.add(asin)
        try:
            yield _product(asin, item, sources)
        except (TypeError, ValueError, AttributeError, LookupError) as error:
            if isinstance(error, CatalogueError):
                raise
            raise CatalogueError(f"{sources.file}: product {asin}: a value of a wrong kind: {error}") from error


def _key(file: Path, who: str, item: Mapping[str, Any], key: str) -> Any:
    if key not in item:
        raise CatalogueError(f"{file}: {who}: key {key!r} is missing")
    return item[key]


def _text(file: Path, who: str, item: Mapping[str, Any], key: str) -> str:
    value = _key(file, who, item, key)
    if not isinstance(value, str):
        raise CatalogueError(f"{file}: {who}: key {key!r} must be a string, found {type(value).__name__}")
    return value


def _product(asin: str, item: Mapping[str, Any], sources: _Sources) -> Product:
    file, who = sources.file, f"product {asin}"
    title = _text(file, who, item, "name")
    bullets = _key(file, who, item, "small_description")
    prices, price_text = _prices(file, who, item.get("pricing"))
    ins = _kind(sources.ins_file, who, sources.instructions.get(asin, {}), dict)
    return Product(
        asin=asin,
        title=title,
        category=_text(file, who, item, "category"),
        query=_text(file, who, item, "query").lower().strip(),
        product_category=_text(file, who, item, "product_category"),
        description=_text(file, who, item, "full_description"),
        bullets=tuple(map(str, bullets)) if isinstance(bullets, list) else (str(bullets),),
        attributes=_names(sources.ins_file, who, ins.get("attributes", ["DUMMY_ATTR"])),
        options=_options(file, who, _key(file, who, item, "customization_options")),
        prices=prices,
        price=_price(asin, prices, sources.prices.get(asin) if sources.prices else None),
        price_text=price_text,
        nouns=tuple(sources.nouns[asin]) if sources.nouns and asin in sources.nouns else nouns_by_rule(title),
        instruction=ins.get("instruction"),
        instruction_attributes=_names(sources.ins_file, who, ins.get("instruction_attributes") or []),
        instructions=_instructions(sources.human_file, who, sources.human.get(asin, [])),
    )


def _kind(file: Path, who: str, value: Any, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise CatalogueError(f"{file}: {who}: a {kind.__name__} is wanted, found {type(value).__name__}")
    return value


def _names(file: Path, who: str, values: Any) -> tuple[str, ...]:
    return tuple(map(str, _kind(file, who, values, list)))


def _instructions(file: Path, who: str, written: Any) -> tuple[Mapping[str, Any], ...]:
    for each in _kind(file, who, written, list):
        for key in ("instruction", "instruction_attributes", "instruction_options"):
            _key(file, who, _kind(file, who, each, dict), key)
    return tuple(written)


def _prices(file: Path, who: str, pricing: Any) -> tuple[tuple[float, ...], str]:
    if not pricing:
        return (_NO_PRICE,), f"${_NO_PRICE}"
    try:
        prices = tuple(float(re.sub(r"[^\d.]", "", part)) for part in str(pricing).split("$")[1:3])
    except ValueError:
        prices = ()
    if not prices:
        raise CatalogueError(f"{file}: {who}: key 'pricing' holds no price: {pricing!r}")
    return prices, " to ".join(f"${price}" for price in prices)


def _price(asin: str, prices: tuple[float, ...], given: float | None) -> float:
    if given is not None:
        return float(given)
    low, high = prices[0], prices[-1]
    return low if len(prices) == 1 else low + (high - low) * Rng("shop price", asin).uniform()


def _options(file: Path, who: str, custom: Mapping[str, Any] | None) -> dict[str, tuple[str, ...]]:
    options = {}
    for name, contents in (custom or {}).items():
        if contents is None:
            continue
        where = f"{who}: option {name!r}"
        values = (_text(file, where, content, "value") for content in contents)
        options[name.lower()] = tuple(value.strip().replace("/", " | ").lower() for value in values)
    return options
