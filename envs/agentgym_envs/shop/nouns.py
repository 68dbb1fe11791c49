"""The nouns of product titles: WebShop compares titles by them.

`python -m agentgym_envs.shop.nouns FOLDER` writes `name_nouns.json` for a folder of WebShop's files and prints which
tagger it used: spaCy's `en_core_web_sm`, WebShop's own, if installed (the extra `nouns`, and then
`python -m spacy download en_core_web_sm`), else `nouns_by_rule`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

_WORD = re.compile(r"[^\W\d_][\w#]*")
_NOT_NOUNS = frozenset(
    (  # noqa: SIM905  # reads better
        "a an the this that these those and or nor but if of in on at by to from for with without into onto over under "
        "up down out off as is are was be been it its you your our my their his her all any each every both more most "
        "some no not than then so very too can will just only also per via us we they he she i s t"
    ).split()
)
_MODEL = "en_core_web_sm"


def nouns_by_rule(title: str) -> tuple[str, ...]:
    """List the words of a title, lower-cased, that start with a letter and are no function words.

    Titles are mostly nouns: a tagger calls most of their adjectives proper nouns. On the tests' WebShop-like titles the
    rule finds nine in ten of spaCy's nouns.
    """
    words = (word.lower() for word in _WORD.findall(title))
    return tuple(word for word in words if word not in _NOT_NOUNS)


def spacy_nouns() -> Callable[[str], tuple[str, ...]] | None:
    """Return WebShop's own tagger, or None if spaCy or its small English model is not installed."""
    try:
        import spacy

        tag = spacy.load(_MODEL)
    except (ImportError, OSError):
        return None
    return lambda title: tuple(token.text.lower() for token in tag(title) if token.pos_ in ("NOUN", "PROPN"))


def name_nouns(titles: Iterable[tuple[str, str]], nouns: Callable[[str], tuple[str, ...]]) -> dict[str, list[str]]:
    """Return the contents of `name_nouns.json` for pairs of product id and title; the first of equal ids counts."""
    by_id: dict[str, list[str]] = {}
    for asin, title in titles:
        if asin not in by_id:
            by_id[asin] = list(nouns(title))
    return by_id


def main(arguments: list[str] | None = None) -> int:
    """Write `name_nouns.json` for a folder of WebShop's files and print which tagger was used."""
    from agentgym_envs.shop.json_checks import ITEMS, Entry, find_file, read_json
    from agentgym_py.errors import CatalogueError

    parser = argparse.ArgumentParser(prog="python -m agentgym_envs.shop.nouns", description=main.__doc__)
    parser.add_argument("folder", type=Path, help="a folder of WebShop's files, to which name_nouns.json is written")
    folder: Path = parser.parse_args(arguments).folder
    try:
        file = find_file(folder, ITEMS)
        values: list[Any] = read_json(file, list)
        items = [Entry.of(f"{file}: item {i}", value) for i, value in enumerate(values)]
        titles = [(item.text("asin"), item.text("name")) for item in items]
    except CatalogueError as error:
        print(error, file=sys.stderr)
        return 2
    tagger = spacy_nouns()
    tagged = name_nouns(titles, tagger or nouns_by_rule)
    (folder / "name_nouns.json").write_text(json.dumps(tagged, ensure_ascii=False), encoding="utf-8")
    source = f"spaCy ({_MODEL})" if tagger else f"the rule (spaCy with {_MODEL} is not installed)"
    print(f"{folder / 'name_nouns.json'}: {len(tagged)} titles, nouns by {source}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
