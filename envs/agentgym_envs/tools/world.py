"""The databases: one of weather, films, papers, a calendar and orders for each seed, and the desk that lends them."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import lru_cache
from threading import Lock
from typing import Any

from agentgym_envs.tools import words as w
from agentgym_envs.tools.themes import THEMES
from agentgym_py.rng import Rng

WORLDS = {"train": 64, "valid": 16, "test": 16}
"""How many databases a split has."""
WEEK = 7
"""Days that forecasts, and the record of past weather, reach."""
_LENT, _SPARE = 96, 2
"""Databases that a desk keeps copies of, and how many of each."""

_SCHEMA = """
CREATE TABLE places(city TEXT PRIMARY KEY COLLATE NOCASE, country TEXT COLLATE NOCASE, population INT, elevation_m INT,
    time_zone TEXT, air_index INT, pollen INT);
CREATE TABLE forecasts(city TEXT COLLATE NOCASE, day TEXT, sky TEXT, high_c INT, low_c INT, rain_mm INT, wind_kmh INT,
    sunrise TEXT, sunset TEXT, PRIMARY KEY(city, day));
CREATE TABLE history(city TEXT COLLATE NOCASE, day TEXT, sky TEXT, high_c INT, low_c INT, rain_mm INT, wind_kmh INT,
    PRIMARY KEY(city, day));
CREATE TABLE people(person_id INTEGER PRIMARY KEY, name TEXT COLLATE NOCASE, born INT, birthplace TEXT);
CREATE TABLE films(film_id INTEGER PRIMARY KEY, title TEXT COLLATE NOCASE, year INT, genre TEXT COLLATE NOCASE,
    minutes INT, director_id INT, critics INT, audience INT, gross_millions INT);
CREATE TABLE roles(film_id INT, person_id INT, billing INT, plays TEXT, PRIMARY KEY(film_id, person_id));
CREATE TABLE authors(author_id INTEGER PRIMARY KEY, name TEXT COLLATE NOCASE, institution TEXT, works_in TEXT,
    h_index INT, citations INT);
CREATE TABLE papers(paper_id INTEGER PRIMARY KEY, title TEXT COLLATE NOCASE, year INT, venue TEXT, field TEXT);
CREATE TABLE authorship(paper_id INT, author_id INT, position INT, PRIMARY KEY(paper_id, author_id));
CREATE TABLE citations(citing INT, cited INT, PRIMARY KEY(citing, cited));
CREATE TABLE events(event_id INTEGER PRIMARY KEY, title TEXT COLLATE NOCASE, day TEXT, start TEXT, minutes INT,
    city TEXT, room TEXT);
CREATE TABLE attendees(event_id INT, name TEXT COLLATE NOCASE, PRIMARY KEY(event_id, name));
CREATE TABLE products(product_id INTEGER PRIMARY KEY, name TEXT COLLATE NOCASE, price INT, weight_g INT, maker TEXT,
    stock INT);
CREATE TABLE orders(order_id INTEGER PRIMARY KEY, customer TEXT COLLATE NOCASE, product_id INT, quantity INT,
    status TEXT, ships_to TEXT, placed TEXT, carrier TEXT, parcel_in TEXT, arrives TEXT);
CREATE TABLE figures(theme TEXT, attribute TEXT, name TEXT COLLATE NOCASE, value INT,
    PRIMARY KEY(theme, attribute, name));
"""
MUTABLE = (
    "SELECT * FROM events ORDER BY event_id",
    "SELECT * FROM attendees ORDER BY event_id, name",
    "SELECT * FROM orders ORDER BY order_id",
    "SELECT product_id, stock FROM products ORDER BY product_id",
)
"""All that tools can change."""

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class World:
    """One database, never written to; a desk lends copies."""

    key: tuple[str, int, bool]
    """Split, number, and whether it has the rows of the themed tools."""
    image: bytes
    """The database as SQLite serializes it."""
    today: date
    names: Mapping[str, Sequence[Any]]
    """What a request can name outright, by kind: titles, cities, numbers of orders by status."""


@dataclass(slots=True)
class _Makings:
    """A database in the making."""

    rng: Rng
    words: w.Words
    today: date
    tables: dict[str, Rows] = field(default_factory=dict)

    def day(self, offset: int) -> str:
        return (self.today + timedelta(days=offset)).isoformat()

    def between(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        return low + self.rng.below(high - low + 1)

    def ids(self, count: int, low: int = 100, high: int = 1000) -> list[int]:
        return self.rng.sample(range(low, high), count)

    def people(self, count: int) -> list[str]:
        """Full names, each surname once."""
        return [f"{self.rng.choice(w.FIRST_NAMES)} {name}" for name in self.rng.sample(self.words.surnames, count)]

    def column(self, table: str, index: int) -> list[Any]:
        return [row[index] for row in self.tables[table]]


@lru_cache(maxsize=2 * sum(WORLDS.values()))
def world_of(split: str, number: int, wide: bool) -> World:
    """Database `number` of a split; a `wide` one has the rows of the themed tools too."""
    rng = Rng("tools", split, number)
    made = _Makings(rng, w.WORDS[split], date(2030, 1, 1) + timedelta(days=rng.below(1800)))
    for fill in (_places, _weather, _films, _papers, _events, _shop):
        fill(made)
    made.tables["figures"] = _figures(made) if wide else []
    connection = sqlite3.connect(":memory:")
    connection.executescript(_SCHEMA)
    for table, rows in made.tables.items():
        if rows:  # the table's name and the number of marks are ours, every value is bound
            connection.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(rows[0]))})", rows)  # noqa: S608  # see above
    connection.commit()
    image = connection.serialize()
    connection.close()
    return World((split, number, wide), image, made.today, _names(made))


def _places(made: _Makings) -> None:
    rng = made.rng
    made.tables["places"] = [
        (
            start + rng.choice(w.PLACE_ENDINGS),
            rng.choice(w.COUNTRIES),
            made.between(12, 2400) * 500,
            made.between(1, 1900),
            rng.choice(w.TIME_ZONES),
            made.between(8, 160),
            made.between(1, 300),
        )
        for start in rng.sample(made.words.places, 12)
    ]


def _weather(made: _Makings) -> None:
    made.tables["forecasts"], made.tables["history"] = [], []
    for city in made.column("places", 0):
        usual, rise = made.between(2, 26), made.between(280, 430)
        for table, first in (("forecasts", 0), ("history", -WEEK)):
            highs, rains = made.rng.sample(range(-6, 9), WEEK), made.rng.sample(range(30), WEEK)
            for i in range(WEEK):
                high = usual + highs[i]
                low = high - made.between(3, 11)
                row = (city, made.day(first + i), made.rng.choice(w.SKIES), high, low, rains[i], made.between(2, 70))
                sun = (clock(rise - i), clock(1440 - rise + 2 * i)) if table == "forecasts" else ()
                made.tables[table].append(row + sun)


def _films(made: _Makings) -> None:
    rng, people = made.rng, made.people(16)
    cities = made.column("places", 0)
    ids = made.ids(len(people))
    made.tables["people"] = [
        (number, name, made.between(1930, 1999), rng.choice(cities)) for number, name in zip(ids, people, strict=True)
    ]
    titles = [f"{rng.choice(w.FILM_STARTS)} {noun}" for noun in rng.sample(made.words.films, 16)]
    scores = made.between
    made.tables["films"] = [
        (
            number,
            title,
            made.between(1961, 2029),
            rng.choice(w.GENRES),
            made.between(74, 196),
            rng.choice(ids[:6]),
            scores(11, 98),
            scores(11, 98),
            scores(2, 940),
        )
        for number, title in zip(made.ids(16), titles, strict=True)
    ]
    made.tables["roles"] = [
        (film, person, billing + 1, rng.choice(w.CHARACTERS))
        for film in made.column("films", 0)
        for billing, person in enumerate(rng.sample(ids[3:], 3))
    ]


def _papers(made: _Makings) -> None:
    rng, people = made.rng, made.people(12)
    cities = made.column("places", 0)
    authors = made.ids(len(people))
    made.tables["authors"] = [
        (number, name, f"{rng.choice(cities)} {rng.choice(w.INSTITUTIONS)}", rng.choice(cities), made.between(3, 70),
         made.between(40, 9000))
        for number, name in zip(authors, people, strict=True)
    ]  # fmt: skip
    titles = [f"{rng.choice(w.PAPER_STARTS)} {topic.title()}" for topic in rng.sample(made.words.topics, 14)]
    papers = made.ids(len(titles))
    years = sorted(made.between(1994, 2029) for _ in papers)
    made.tables["papers"] = [
        (number, title, year, rng.choice(w.VENUES), rng.choice(w.FIELDS))
        for number, title, year in zip(papers, titles, years, strict=True)
    ]
    made.tables["authorship"] = [
        (paper, author, position + 1)
        for paper in papers
        for position, author in enumerate(rng.sample(authors, made.between(1, 3)))
    ]
    made.tables["citations"] = [
        (papers[i], cited)
        for i in range(1, len(papers))
        for cited in rng.sample(papers[:i], min(i, made.between(1, 4)))
    ]


def _events(made: _Makings) -> None:
    rng = made.rng
    cities, guests = made.column("places", 0), made.people(8)
    made.tables["events"] = [
        (
            number,
            topic.capitalize(),
            made.day(rng.below(WEEK)),
            clock(made.between(32, 76) * 15),
            made.between(2, 16) * 15,
            rng.choice(cities),
            rng.choice(w.ROOMS),
        )
        for number, topic in zip(made.ids(9), rng.sample(made.words.meetings, 9), strict=True)
    ]
    made.tables["attendees"] = [
        (event, guest) for event in made.column("events", 0) for guest in rng.sample(guests, made.between(2, 5))
    ]


def _shop(made: _Makings) -> None:
    rng = made.rng
    cities, customers = made.column("places", 0), made.people(11)
    goods = [f"{rng.choice(w.COLOURS)} {noun}" for noun in rng.sample(made.words.goods, 10)]
    products = made.ids(len(goods))
    made.tables["products"] = [
        (number, name, made.between(6, 240), made.between(3, 90) * 50, rng.choice(w.MAKERS), made.between(9, 400))
        for number, name in zip(products, goods, strict=True)
    ]
    made.tables["orders"] = [
        (
            number,
            customer,
            rng.choice(products),
            made.between(1, 8),
            status,
            rng.choice(cities),
            made.day(-made.between(1, 20)),
            rng.choice(w.CARRIERS),
            rng.choice(cities),
            made.day(made.between(1, 12)),
        )
        for number, customer, status in zip(
            made.ids(16, 1000, 10000), customers + customers[:5], (w.STATUSES[:4] * 4), strict=True
        )
    ]


def _figures(made: _Makings) -> Rows:
    rows: Rows = []
    for theme in THEMES:
        names = made.rng.sample(made.words.things, 5)
        for attribute in theme.attributes:
            values = made.rng.sample(range(3, 990), len(names))
            rows += [(theme.noun, attribute, name, value) for name, value in zip(names, values, strict=True)]
    return rows


def _names(made: _Makings) -> dict[str, Sequence[Any]]:
    orders = made.tables["orders"]
    customers, planned = [row[1] for row in orders], made.column("events", 1)
    names: dict[str, Sequence[Any]] = {
        "city": made.column("places", 0),
        "country": sorted(set(made.column("places", 1))),
        "genre": sorted(set(made.column("films", 3))),
        "status": w.STATUSES[:4],
        "film": made.column("films", 1),
        "person": made.column("people", 1),
        "paper": made.column("papers", 1),
        "author": made.column("authors", 1),
        "event": made.column("events", 1),
        "product": made.column("products", 1),
        "customer": [name for name in customers if customers.count(name) == 1],
        "guest": sorted(set(made.column("attendees", 1))),
        "order": made.column("orders", 0),
        "author_name": made.column("authors", 1),
        "topic": [topic.capitalize() for topic in made.words.meetings if topic.capitalize() not in planned],
    }
    for status in w.STATUSES[:4]:
        names[f"order:{status}"] = [row[0] for row in orders if row[4] == status]
    for theme, attribute, name, _ in made.tables["figures"]:
        if attribute == _FIRST_ATTRIBUTE[theme]:
            names[f"theme:{theme}"] = [*names.get(f"theme:{theme}", ()), name]
    return names


_FIRST_ATTRIBUTE = {theme.noun: theme.attributes[0] for theme in THEMES}


def clock(minutes: int) -> str:
    """Minutes since midnight as hh:mm."""
    return f"{minutes // 60 % 24:02d}:{minutes % 60:02d}"


class Desk:
    """Lends databases: each loan is a private copy, as new, to one borrower at a time.

    A copy is made as new by rolling back what was done to it, which is far cheaper than another copy and keeps its
    prepared statements. The environments of a process share a desk, so that many of them do not keep many copies each.
    """

    def __init__(self) -> None:
        self._free: OrderedDict[tuple[str, int, bool], list[sqlite3.Connection]] = OrderedDict()
        self._lock = Lock()

    def lend(self, world: World) -> sqlite3.Connection:
        """A copy of a world's database; what is done to it must be done within a transaction."""
        with self._lock:
            free = self._free.get(world.key)
            connection = free.pop() if free else None
        return connection or _copy(world.image)

    def take_back(self, world: World, connection: sqlite3.Connection) -> None:
        """Undo all that was done to a copy and keep it for the next loan."""
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        with self._lock:
            free = self._free.setdefault(world.key, [])
            self._free.move_to_end(world.key)
            if len(free) < _SPARE:
                free.append(connection)
            if len(self._free) > _LENT:
                self._free.popitem(last=False)


DESK = Desk()
"""The desk of this process."""


class _OneCursor(sqlite3.Connection):
    """A connection that executes on one cursor: sqlite3 remembers the last 200 that a connection has made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._cursor = self.cursor()

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """As sqlite3's; what the statement before has not given yet is lost."""
        return self._cursor.execute(sql, parameters)


def _copy(image: bytes) -> sqlite3.Connection:
    # an environment may be made in one thread and played in another, though never in two at once
    made = sqlite3.connect(
        ":memory:", isolation_level=None, cached_statements=8, check_same_thread=False, factory=_OneCursor
    )
    made.deserialize(image)
    return made


def dump(connection: sqlite3.Connection) -> list[Rows]:
    """All rows that tools can change."""
    return [connection.execute(sql).fetchall() for sql in MUTABLE]
