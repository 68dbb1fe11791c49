from __future__ import annotations

import gzip
import json
import re
import zlib
from collections import Counter
from functools import cache
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from scripts import load_script

SCRIPT = Path(__file__).resolve().parents[2] / "datasets" / "make_shop_catalogue.py"
FILES = ("items_shuffle", "items_ins_v2", "items_human_ins", "name_nouns")
PAGE_WORDS = {
    *("description", "features", "reviews", "attributes", "buy now", "back to search", "search", "next >", "< prev")
}


@cache
def maker() -> Any:
    return load_script("datasets/make_shop_catalogue.py")


@cache
def shipped(name: str) -> Any:
    return json.loads(gzip.decompress((files("agentgym_data") / "shop" / f"{name}.json.gz").read_bytes()))


@cache
def kinds() -> dict[str, Any]:
    return {kind.query: kind for kind in maker().read_kinds(maker().read_yaml("common"))}


def texts(item: dict[str, Any]) -> str:
    return " ".join([item["name"], *item["small_description"], item["full_description"]]).lower()


def values(item: dict[str, Any]) -> list[str]:
    return [entry["value"] for entry in chain.from_iterable(item["customization_options"].values())]


def prices(item: dict[str, Any]) -> list[float]:
    return [float(part) for part in item["pricing"].split("$")[1:]]


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9']+", text.lower())


def test_regenerating_gives_the_shipped_files(tmp_path: Path) -> None:
    """The script writes the files that ship, byte for byte where Python packs with the classic zlib."""
    maker().main(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["CARD.md", *(f"{n}.json.gz" for n in FILES)])
    folder = files("agentgym_data") / "shop"
    assert (tmp_path / "CARD.md").read_bytes() == (folder / "CARD.md").read_bytes()
    for name in FILES:
        made, kept = (tmp_path / f"{name}.json.gz").read_bytes(), (folder / f"{name}.json.gz").read_bytes()
        assert gzip.decompress(made) == gzip.decompress(kept)
        if "ng" not in zlib.ZLIB_RUNTIME_VERSION:  # zlib-ng packs the same contents otherwise
            assert made == kept


def test_the_packed_files_hold_no_time_and_no_name() -> None:
    """A gzip header with neither time nor file name makes the bytes depend on the contents alone."""
    for name in FILES:
        raw = (files("agentgym_data") / "shop" / f"{name}.json.gz").read_bytes()
        assert raw[3] == 0
        assert raw[4:8] == bytes(4)


def test_the_catalogue_has_the_size_it_promises() -> None:
    """There are 1,200 products, 120 in each department, of 70 kinds, and 300 requests for 250 of them."""
    items, human = shipped("items_shuffle"), shipped("items_human_ins")
    assert Counter(item["category"] for item in items) == dict.fromkeys({k.department for k in kinds().values()}, 120)
    assert len(items) == 1200
    assert {item["query"] for item in items} == set(kinds())
    assert (len(kinds()), len(human), sum(map(len, human.values()))) == (70, 250, 300)
    assert shipped("items_ins_v2").keys() == shipped("name_nouns").keys() == {item["asin"] for item in items}


def test_it_stays_small() -> None:
    """The packed files are under 400 KB, and a small vocabulary covers every product and request."""
    folder = files("agentgym_data") / "shop"
    assert sum(len((folder / f"{name}.json.gz").read_bytes()) for name in FILES) < 400_000
    said = [texts(item) for item in shipped("items_shuffle")]
    said += [
        " ".join([item["query"], *item["customization_options"], *values(item)]) for item in shipped("items_shuffle")
    ]
    said += [entry["instruction"] for entry in chain.from_iterable(shipped("items_human_ins").values())]
    assert len({word for text in said for word in words(text)}) <= 1820


def test_ids_are_short_and_unique() -> None:
    """An id is a B and four digits and says nothing about the product."""
    asins = [item["asin"] for item in shipped("items_shuffle")]
    assert len(set(asins)) == len(asins)
    assert all(re.fullmatch(r"B\d{4}", asin) for asin in asins)


def test_pools_are_unambiguous() -> None:
    """A kind has 10 to 14 attributes of one or two words, and none of them stands inside another."""
    for kind in kinds().values():
        assert 10 <= len(kind.forms) <= 14
        assert all(len(name.split()) <= 2 for name in kind.forms)
        assert not [
            (a, b) for a in kind.forms for b in kind.forms if a != b and (a in b or set(a.split()) <= set(b.split()))
        ]


def test_a_text_names_its_own_attributes_and_no_others() -> None:
    """Of a kind's attributes, a product's texts contain exactly those that the product has."""
    for item in shipped("items_shuffle"):
        own = set(shipped("items_ins_v2")[item["asin"]]["attributes"])
        assert 3 <= len(own) <= 5
        assert {name for name in kinds()[item["query"]].forms if name in texts(item)} == own


def test_hidden_attributes_can_be_searched() -> None:
    """Two or three attributes stand in the title, all of them in what the search reads."""
    for item in shipped("items_shuffle"):
        own = shipped("items_ins_v2")[item["asin"]]["attributes"]
        assert 2 <= sum(name in item["name"].lower() for name in own) <= 3
        searched = " ".join([item["name"], item["full_description"], item["small_description"][0]]).lower()
        assert all(name in searched for name in own)


def test_titles_and_texts_have_the_promised_form() -> None:
    """Titles have 5 to 10 words, products 3 or 4 bullets of 6 to 14 words, and a path of three categories."""
    for item in shipped("items_shuffle"):
        assert 5 <= len(item["name"].split()) <= 10
        assert 3 <= len(item["small_description"]) <= 4
        assert all(6 <= len(bullet.split()) <= 14 for bullet in item["small_description"])
        assert 2 <= item["full_description"].count(".") <= 3
        assert len(item["product_category"].split(" › ")) == 3
        assert texts(item).isascii()


def test_options_can_be_clicked() -> None:
    """Option values are plain lower-case text, no two of a product are equal, and none is a button of the pages."""
    for item in shipped("items_shuffle"):
        assert 1 <= len(item["customization_options"]) <= 3
        assert len(set(values(item))) == len(values(item))
        assert not PAGE_WORDS & set(values(item))
        for value in values(item):
            assert value.isascii()
            assert value == value.lower().strip()
            assert not set('[]"/') & set(value)
        assert all(2 <= len(entries) <= 5 for entries in item["customization_options"].values())


def test_most_products_have_two_option_groups() -> None:
    """About 30 % of the products have one group of options, 50 % two and 20 % three."""
    counts = Counter(len(item["customization_options"]) for item in shipped("items_shuffle"))
    assert [counts[n] / 1200 for n in (1, 2, 3)] == pytest.approx([0.3, 0.5, 0.2], abs=0.08)


def test_prices_are_in_bounds() -> None:
    """Prices lie between 3.99 and 299.99; 8 % are ranges, written low before high, and 2 % are missing."""
    items = shipped("items_shuffle")
    assert Counter(len(prices(item)) for item in items) == {1: 1080, 2: 96, 0: 24}
    for item in items:
        assert re.fullmatch(r"(\$\d+\.\d\d){0,2}", item["pricing"])
        assert all(3.99 <= price <= 299.99 for price in prices(item))
        assert prices(item) == sorted(set(prices(item)))


def test_most_products_have_near_duplicates() -> None:
    """At least two in three products have another of their kind and brand that differs in one or two attributes."""
    items, ins = shipped("items_shuffle"), shipped("items_ins_v2")
    own = {item["asin"]: frozenset(ins[item["asin"]]["attributes"]) for item in items}
    groups: dict[tuple[str, str], list[str]] = {}
    for item in items:
        groups.setdefault((item["query"], item["name"].split()[0]), []).append(item["asin"])
    near = sum(
        any(len(own[a]) == len(own[b]) and 1 <= len(own[a] - own[b]) <= 2 for b in group)
        for group in groups.values()
        for a in group
    )
    assert near / len(items) > 2 / 3


def test_no_two_products_are_the_same() -> None:
    """Two products of one kind differ in title or attributes."""
    keys = [(i["name"], *sorted(shipped("items_ins_v2")[i["asin"]]["attributes"])) for i in shipped("items_shuffle")]
    assert len(set(keys)) == len(keys)


def test_plain_requests_ask_for_what_there_is() -> None:
    """A synthetic request names one to three of the product's attributes and its kind."""
    for item in shipped("items_shuffle"):
        ins = shipped("items_ins_v2")[item["asin"]]
        assert 1 <= len(ins["instruction_attributes"]) <= 3
        assert set(ins["instruction_attributes"]) <= set(ins["attributes"])
        assert ins["instruction"] == f"Find me {', '.join(ins['instruction_attributes'])} {item['query']}"


def test_human_requests_agree_with_their_lists() -> None:
    """A request in full sentences names, word for word, attributes and options that its product has."""
    items = {item["asin"]: item for item in shipped("items_shuffle")}
    for asin, entry in ((asin, entry) for asin, entries in shipped("items_human_ins").items() for entry in entries):
        custom = {name.lower(): [e["value"] for e in v] for name, v in items[asin]["customization_options"].items()}
        asked = [tuple(option.split(": ", 1)) for option in entry["options"]]
        assert entry["asin"] == asin
        assert entry["attributes"] == shipped("items_ins_v2")[asin]["attributes"]
        assert 1 <= len(set(entry["instruction_attributes"])) <= 3
        assert set(entry["instruction_attributes"]) <= set(entry["attributes"])
        assert entry["instruction_options"] == [value for _, value in asked]
        assert all(value in custom[name] for name, value in asked)
        assert all(
            text in entry["instruction"] for text in entry["instruction_attributes"] + entry["instruction_options"]
        )
        assert entry["instruction"] == entry["instruction"].lower()


def test_human_requests_are_varied() -> None:
    """Requests come from at least 25 templates, and nearly all differ."""
    assert len(set(maker().read_yaml("common")["requests"])) >= 25
    said = [entry["instruction"] for entries in shipped("items_human_ins").values() for entry in entries]
    assert len(set(said)) >= 295


def test_noun_lists_come_from_the_titles() -> None:
    """The nouns of a title are words of it in their order; the brand is one, and so is what the thing is called."""
    for item in shipped("items_shuffle"):
        title, nouns = words(item["name"]), shipped("name_nouns")[item["asin"]]
        rest = iter(title)
        assert all(noun in rest for noun in nouns)
        assert nouns[0] == title[0]
        heads = {words(name)[-1] for name in kinds()[item["query"]].names}
        assert heads & set(nouns)
