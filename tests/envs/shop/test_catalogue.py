"""Reading WebShop's files, and what is said when they are broken."""

from __future__ import annotations

import copy
import gzip
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentgym_envs.shop import nouns
from agentgym_envs.shop.catalogue import load_catalogue
from agentgym_envs.shop.env import ShopEnv
from agentgym_py.errors import CatalogueError

ITEM = {
    "asin": "B1",
    "name": "Acme Soft Shirt",
    "category": "fashion",
    "query": " Men's Shirts ",
    "product_category": "Clothing › Men",
    "full_description": "A shirt.",
    "small_description": ["soft"],
    "pricing": "$1,234.50",
    "customization_options": {"Color": [{"value": " Navy/Red "}], "Size": None},
    "images": ["x.jpg"],
}
INS = {"attributes": ["soft"], "instruction": "Find me soft shirts", "instruction_attributes": ["soft"]}
HUMAN = {"instruction": "a soft shirt.", "instruction_attributes": ["soft"], "instruction_options": ["navy | red"]}


GOAL = {
    "asin": "B1",
    "instruction_text": "Find me soft shirts",
    "query": "men's shirts",
    "name": "Acme Soft Shirt",
    "product_category": "Clothing › Men",
    "attributes": ["soft"],
    "price_upper": 50.0,
}


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes a catalogue of one good product, changed as told, and gives its folder."""

    def written(items: Any = None, ins: Any = None, human: Any = None, **more: Any) -> Path:
        contents = {
            "items_shuffle": [ITEM] if items is None else items,
            "items_ins_v2": {"B1": INS} if ins is None else ins,
            "items_human_ins": {"B1": [HUMAN]} if human is None else human,
        }
        for name, content in {**contents, **more}.items():
            (tmp_path / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
        return tmp_path

    return written


def without(entry: dict[str, Any], key: str) -> dict[str, Any]:
    """A copy that lacks a key."""
    return {name: value for name, value in entry.items() if name != key}


def test_a_product_is_cleaned_as_webshop_does(write: Callable[..., Path]) -> None:
    """Query and options are lower-cased and stripped, slashes become bars, empty options drop out, prices parse."""
    (product,) = load_catalogue(write()).products
    assert product.query == "men's shirts"
    assert product.options == {"color": ("navy | red",)}
    assert (product.prices, product.price_text, product.price) == ((1234.5,), "$1234.5", 1234.5)
    assert product.attributes == ("soft",) and product.bullets == ("soft",)
    assert product.nouns == ("acme", "soft", "shirt")


@pytest.mark.parametrize(("pricing", "shown"), [("$100.00", "$100.0"), ("$10.00$25.50", "$10.0 to $25.5")])
def test_a_price_is_shown_as_webshop_prints_it(write: Callable[..., Path], pricing: str, shown: str) -> None:
    """As a float of Python, however many digits the file gives."""
    (product,) = load_catalogue(write(items=[{**ITEM, "pricing": pricing}])).products
    assert product.price_text == shown


def test_every_product_of_the_recordings_is_read(folders: dict[str, Path], golden: dict[str, Any]) -> None:
    """The duplicate is dropped, the first of two counts; prices and nouns are those of the folder."""
    catalogue = load_catalogue(folders["synthetic"])
    assert [product.asin for product in catalogue.products] == list(dict.fromkeys(i["asin"] for i in golden["items"]))
    assert {p.asin: p.price for p in catalogue.products} == golden["synthetic"]["product_prices"]
    assert {p.asin: list(p.nouns) for p in catalogue.products} == golden["name_nouns"]


def test_documents_are_those_of_the_recordings(folders: dict[str, Path], golden: dict[str, Any]) -> None:
    """What is searched gives Lucene's recorded ranking for a loaded catalogue too."""
    catalogue = load_catalogue(folders["synthetic"])
    for row in golden["search"]["queries"]:
        assert [product.asin for product in catalogue.search(row["query"])] == [hit[0] for hit in row["hits"]]


def test_a_catalogue_is_read_once(folders: dict[str, Path]) -> None:
    """Environments of one folder share products and index, however the folder is named."""
    folder = folders["bare"]
    assert ShopEnv(catalogue=folder).files_digest == load_catalogue(folder).version and ShopEnv().files_digest is None
    assert ShopEnv(catalogue=folder).catalogue is ShopEnv(catalogue=str(folder / ".." / folder.name)).catalogue
    assert copy.deepcopy(load_catalogue(folder)) is load_catalogue(folder)


def test_gzipped_and_numbered_files_are_found(folders: dict[str, Path], tmp_path: Path) -> None:
    """`items_shuffle_1000.json.gz` does as well as `items_shuffle.json`, and the plain name wins."""
    for path in folders["bare"].iterdir():
        with gzip.open(tmp_path / f"{path.stem}_1000.json.gz", "wb") as file:
            file.write(path.read_bytes())
    zipped = load_catalogue(tmp_path)
    assert [p.title for p in zipped.products] == [p.title for p in load_catalogue(folders["bare"]).products]
    assert zipped.version == load_catalogue(folders["bare"]).version


def test_a_price_range_is_drawn_once(folders: dict[str, Path]) -> None:
    """Without `prices.json` a price lies in its range and is the same in every reading."""
    for product in load_catalogue(folders["bare"]).products:
        low, high = min(product.prices), max(product.prices)
        assert low <= product.price <= high
        if len(product.prices) == 2:
            assert product.price_text == f"${product.prices[0]} to ${product.prices[1]}"


@pytest.mark.parametrize("name", ["items_shuffle", "items_ins_v2", "items_human_ins"])
def test_a_missing_file_is_named(write: Callable[..., Path], name: str) -> None:
    """The message names the folder and what is not in it."""
    folder = write()
    (folder / f"{name}.json").unlink()
    with pytest.raises(CatalogueError, match=rf"{folder}.*{name}"):
        ShopEnv(catalogue=folder)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    """As is a folder that does not exist."""
    with pytest.raises(CatalogueError, match="nowhere: no such folder"):
        ShopEnv(catalogue=tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["items_shuffle", "items_ins_v2", "items_human_ins", "goals", "prices", "name_nouns"])
@pytest.mark.parametrize("content", [b"[{", b"\xff\xfe\xfa", b'"text"'])
def test_broken_json_is_named(write: Callable[..., Path], name: str, content: bytes) -> None:
    """Text that is no JSON, no UTF-8 or of the wrong kind names its file."""
    folder = write()
    (folder / f"{name}.json").write_bytes(content)
    with pytest.raises(CatalogueError, match=rf"{name}\.json"):
        ShopEnv(catalogue=folder)


def test_a_broken_gzip_file_is_named(write: Callable[..., Path]) -> None:
    """As is a file that ends in the middle."""
    folder = write()
    (folder / "items_shuffle.json").unlink()
    (folder / "items_shuffle.json.gz").write_bytes(gzip.compress(json.dumps([ITEM]).encode())[:-9])
    with pytest.raises(CatalogueError, match=r"items_shuffle\.json\.gz: cannot be read"):
        ShopEnv(catalogue=folder)


REQUIRED = ["name", "category", "query", "product_category", "full_description", "small_description"]


@pytest.mark.parametrize("key", [*REQUIRED, "customization_options"])
def test_a_missing_key_is_named(write: Callable[..., Path], key: str) -> None:
    """The message names file, product and key."""
    folder = write(items=[{**ITEM, "asin": "B0"}, without(ITEM, key)])
    with pytest.raises(CatalogueError, match=rf"items_shuffle\.json: product B1: key '{key}' is missing"):
        ShopEnv(catalogue=folder)


def test_a_missing_id_is_named_by_position(write: Callable[..., Path]) -> None:
    """A product without id is called by its number."""
    with pytest.raises(CatalogueError, match=r"items_shuffle\.json: item 1: key 'asin' is missing"):
        ShopEnv(catalogue=write(items=[ITEM, without(ITEM, "asin")]))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": 3}, "product B1: key 'name' must be a string, is int"),
        ({"pricing": "call us"}, "product B1: key 'pricing' holds no price: 'call us'"),
        ({"customization_options": {"Size": [{}]}}, "customization_options: Size 0: key 'value' is missing"),
        ({"customization_options": ["red"]}, "product B1: key 'customization_options' must be an object, is list"),
        ({"customization_options": {"Size": [3]}}, "product B1: customization_options: Size 0: must be a JSON object"),
        ({"customization_options": {"Size": "S"}}, "customization_options: key 'Size' must be a list, is str"),
        ({"small_description": [None]}, "key 'small_description' must be a list of strings, is NoneType"),
        ({"pricing": 5}, "product B1: key 'pricing' must be a string, is int"),
        ({"asin": None}, "item 0: key 'asin' must be a string, is NoneType"),
    ],
)
def test_a_wrong_value_is_named(write: Callable[..., Path], change: dict[str, Any], said: str) -> None:
    """The message names file, product and key where a value makes no sense."""
    with pytest.raises(CatalogueError) as raised:
        ShopEnv(catalogue=write(items=[{**ITEM, **change}]))
    assert said in str(raised.value) and "items_shuffle.json" in str(raised.value)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"ins": {"B1": 3}}, "items_ins_v2.json: key 'B1' must be an object, is int"),
        ({"ins": {"B1": {"attributes": "soft"}}}, "items_ins_v2.json: B1: key 'attributes' must be a list, is str"),
        ({"ins": {"B1": {"instruction": 3}}}, "items_ins_v2.json: B1: key 'instruction' must be a string, is int"),
        ({"human": {"B1": {}}}, "items_human_ins.json: key 'B1' must be a list, is dict"),
        ({"human": {"B1": [without(HUMAN, "instruction")]}}, "human_ins.json: B1 0: key 'instruction' is missing"),
        (
            {"human": {"B1": [{**HUMAN, "instruction_options": 5}]}},
            "items_human_ins.json: B1 0: key 'instruction_options' must be a list, is int",
        ),
        ({"prices": {"B1": "cheap"}}, "prices.json: key 'B1' must be a finite number, is str"),
        ({"prices": {"B1": float("nan")}}, "prices.json: key 'B1' must be a finite number, is nan"),
        ({"name_nouns": {"B1": "shirt"}}, "name_nouns.json: key 'B1' must be a list, is str"),
        ({"goals": [{**GOAL, "attributes": "soft"}]}, "goals.json: goal 0: key 'attributes' must be a list, is str"),
        ({"goals": [{**GOAL, "price_upper": float("nan")}]}, "goal 0: key 'price_upper' must be a finite number"),
        ({"goals": [{**GOAL, "goal_options": {"color": 3}}]}, "goal 0: goal_options: key 'color' must be a string"),
        ({"items": []}, "items_shuffle.json: no products"),
        ({"items": [3]}, "items_shuffle.json: item 0: must be a JSON object"),
        ({"goals": [{}]}, "goals.json: goal 0: key 'asin' is missing"),
        ({"goals": [3]}, "goals.json: goal 0: must be a JSON object"),
    ],
)
def test_the_other_files_are_named_too(write: Callable[..., Path], files: dict[str, Any], said: str) -> None:
    """Each file's own name stands in the message."""
    with pytest.raises(CatalogueError) as raised:
        ShopEnv(catalogue=write(**files))
    assert said in str(raised.value)


def test_a_goal_of_an_unknown_product_is_named(
    folders: dict[str, Path], tmp_path: Path, golden: dict[str, Any]
) -> None:
    """A goal list that belongs to another catalogue is refused."""
    folder = tmp_path / "other"
    shutil.copytree(folders["synthetic"], folder)
    goals = [{**golden["synthetic"]["goals"][0], "asin": "B9"}]
    (folder / "goals.json").write_text(json.dumps(goals), encoding="utf-8")
    with pytest.raises(CatalogueError, match=r"goal 0: product 'B9' is not in the catalogue"):
        ShopEnv(catalogue=folder)


def test_the_rule_finds_most_nouns(golden: dict[str, Any]) -> None:
    """Nine in ten of the recorded tagger's nouns come out of the rule, and little else."""
    titles = {item["asin"]: item["name"] for item in golden["items"]}
    both = by_rule = tagged = 0
    for asin, wanted in golden["name_nouns"].items():
        found = set(nouns.nouns_by_rule(titles[asin]))
        both, by_rule, tagged = both + len(found & set(wanted)), by_rule + len(found), tagged + len(set(wanted))
    assert both / tagged > 0.9 and both / by_rule > 0.9


def test_the_command_writes_nouns(write: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    """`python -m agentgym_envs.shop.nouns FOLDER` writes the file that the loader reads, and says how."""
    folder = write()
    assert nouns.main([str(folder)]) == 0
    assert "1 titles, nouns by " in capsys.readouterr().out
    assert "shirt" in json.loads((folder / "name_nouns.json").read_text(encoding="utf-8"))["B1"]


def test_spacy_is_asked_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """With spaCy and its model nouns and proper nouns count; without the model there is no tagger."""
    token = SimpleNamespace
    tagged = [token(text="Acme", pos_="PROPN"), token(text="soft", pos_="ADJ"), token(text="Shirt", pos_="NOUN")]
    monkeypatch.setitem(sys.modules, "spacy", SimpleNamespace(load=lambda _: lambda _: tagged))
    tag = nouns.spacy_nouns()
    assert tag and tag("Acme soft Shirt") == ("acme", "shirt")

    def no_model(name: str) -> None:
        raise OSError(name)

    monkeypatch.setitem(sys.modules, "spacy", SimpleNamespace(load=no_model))
    assert nouns.spacy_nouns() is None


def test_the_command_names_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder without items: one line and exit status 2."""
    assert nouns.main([str(tmp_path)]) == 2
    assert "items_shuffle" in capsys.readouterr().err


def test_nouns_by_the_rule_are_announced(write: Callable[..., Path]) -> None:
    """Without `name_nouns.json`, or with one that lacks a product, a warning names the command that mends it."""
    for nouns_file in ({}, {"name_nouns": {"B2": ["shirt"]}}):
        folder = write(**nouns_file)
        load_catalogue.__globals__["_load"].cache_clear()
        with pytest.warns(UserWarning, match=rf"1 of 1 products.*python -m agentgym_envs.shop.nouns {folder}"):
            load_catalogue(folder)
