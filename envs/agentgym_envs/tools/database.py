"""The databases of weather, films, papers, a calendar and orders, and the pool of their connections."""

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
from agentgym_envs.tools.training_words import MADE_UP
from agentgym_py.env.wording import sample_names
from agentgym_py.rng import Rng

DATABASES = {"train": 64, "valid": 16, "test": 16}
"""Databases per split."""
WEEK = 7
"""The days of forecasts and of past weather."""
_MAX_POOLED, _MAX_FREE = 96, 2
"""The databases of which a pool keeps copies, and the free copies of each."""

_CITIES_OF_COUNTRIES, _FILMS_OF_DIRECTORS = (0, 1, 2, 4, 5), (1, 2, 3, 4, 6)
"""The cities of each country, and the films of each director: all different, so that no number is the usual answer."""
_TRAINING_MEETINGS = 24
"""The topics of events of a training database."""
_HELD_OUT_NAMES = frozenset(
    word.casefold()
    for split in ("valid", "test")
    for kind in w.WORDS[split].__slots__
    for word in getattr(w.WORDS[split], kind)
)

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
"""Everything that tools can change."""

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Database:
    """An immutable database; a pool provides copies."""

    key: tuple[str, int, bool]
    """Split, number and whether it has the rows of the themed tools."""
    image: bytes
    """The database as SQLite serializes it."""
    today: date
    names: Mapping[str, Sequence[Any]]
    """What a request can name, by kind: titles, cities, numbers of orders by status."""


@dataclass(slots=True)
class _Builder:
    """The rows of a new database."""

    rng: Rng
    split: str
    number: int
    words: w.Words
    common: w.Common
    today: date
    meetings: Sequence[str] = ()
    """The topics of events, old and new ones."""
    tables: dict[str, Rows] = field(default_factory=dict)

    def day(self, offset: int) -> str:
        return (self.today + timedelta(days=offset)).isoformat()

    def between(self, low: int, high: int) -> int:
        """Draw a number from `low` to `high`, inclusive."""
        return low + self.rng.below(high - low + 1)

    def ids(self, count: int, low: int = 100, high: int = 1000) -> list[int]:
        return self.rng.sample(range(low, high), count)

    def names(self, words: Sequence[str], count: int) -> list[str]:
        """Draw different words; in training some are made up."""
        if self.split != "train":
            return self.rng.sample(words, count)
        names = sample_names(self.rng, words, count, MADE_UP, avoid=_HELD_OUT_NAMES)
        return [name.capitalize() if words[0].istitle() else name for name in names]

    def people(self, count: int) -> list[str]:
        """Draw full names with different surnames."""
        first_names = self.common.first_names
        return [f"{self.rng.choice(first_names)} {name}" for name in self.names(self.words.surnames, count)]

    def column(self, table: str, index: int) -> list[Any]:
        return [row[index] for row in self.tables[table]]


@lru_cache(maxsize=2 * sum(DATABASES.values()))
def database_of(split: str, number: int, wide: bool) -> Database:
    """Build database `number` of a split; a `wide` one has the rows of the themed tools, too."""
    rng = Rng("tools", split, number)
    today = date(2030, 1, 1) + timedelta(days=rng.below(1800))
    new = _Builder(rng, split, number, w.WORDS[split], w.COMMON[split], today)
    for fill in (_places, _weather, _films, _papers, _events, _shop):
        fill(new)
    new.tables["figures"] = _figures(new) if wide else []
    connection = sqlite3.connect(":memory:")
    connection.executescript(_SCHEMA)
    for table, rows in new.tables.items():
        if rows:  # table name and number of marks are constants, all values are bound
            connection.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(rows[0]))})", rows)  # noqa: S608  # see above
    connection.commit()
    image = connection.serialize()
    connection.close()
    return Database((split, number, wide), image, new.today, _names(new))


def _places(new: _Builder) -> None:
    rng = new.rng
    names, first = new.common.countries, new.number % len(_CITIES_OF_COUNTRIES)
    if new.split == "train":
        names = tuple(new.names(names, len(_CITIES_OF_COUNTRIES)))
    # the next database has another number of cities in each country
    counts = (*_CITIES_OF_COUNTRIES[first:], *_CITIES_OF_COUNTRIES[:first])
    countries = [name for name, count in zip(names, counts, strict=True) for _ in range(count)]
    new.tables["places"] = [
        (
            start + rng.choice(w.PLACE_ENDINGS),
            country,
            new.between(12, 2400) * 500,
            new.between(1, 1900),
            rng.choice(w.TIME_ZONES),
            new.between(8, 160),
            new.between(1, 300),
        )
        for start, country in zip(new.names(new.words.places, len(countries)), countries, strict=True)
    ]


def _weather(new: _Builder) -> None:
    new.tables["forecasts"], new.tables["history"] = [], []
    for city in new.column("places", 0):
        mean, rise = new.between(2, 26), new.between(280, 430)
        for table, first in (("forecasts", 0), ("history", -WEEK)):
            highs, rains = new.rng.sample(range(-6, 9), WEEK), new.rng.sample(range(30), WEEK)
            for i in range(WEEK):
                high = mean + highs[i]
                low = high - new.between(3, 11)
                row = (city, new.day(first + i), new.rng.choice(w.SKIES), high, low, rains[i], new.between(2, 70))
                sun = (clock(rise - i), clock(1440 - rise + 2 * i)) if table == "forecasts" else ()
                new.tables[table].append(row + sun)


def _films(new: _Builder) -> None:
    rng, people = new.rng, new.people(16)
    cities = new.column("places", 0)
    ids = new.ids(len(people))
    new.tables["people"] = [
        (number, name, new.between(1930, 1999), rng.choice(cities)) for number, name in zip(ids, people, strict=True)
    ]
    titles = [f"{rng.choice(new.common.film_starts)} {noun}" for noun in new.names(new.words.films, 16)]
    scores = new.between
    directors = rng.sample([ids[i] for i, count in enumerate(_FILMS_OF_DIRECTORS) for _ in range(count)], 16)
    new.tables["films"] = [
        (
            number,
            title,
            new.between(1961, 2029),
            rng.choice(w.GENRES),
            new.between(74, 196),
            director,
            scores(11, 98),
            scores(11, 98),
            scores(2, 940),
        )
        for number, title, director in zip(new.ids(16), titles, directors, strict=True)
    ]
    new.tables["roles"] = [
        (film, person, billing + 1, rng.choice(w.CHARACTERS))
        for film in new.column("films", 0)
        for billing, person in enumerate(rng.sample(ids[3 : 6 + rng.below(11)], 3))
    ]


def _papers(new: _Builder) -> None:
    rng, people = new.rng, new.people(12)
    cities = new.column("places", 0)
    authors = new.ids(len(people))
    new.tables["authors"] = [
        (number, name, f"{rng.choice(cities)} {rng.choice(w.INSTITUTIONS)}", rng.choice(cities), new.between(3, 70),
         new.between(40, 9000))
        for number, name in zip(authors, people, strict=True)
    ]  # fmt: skip
    titles = [f"{rng.choice(new.common.paper_starts)} {topic.title()}" for topic in new.names(new.words.topics, 14)]
    papers = new.ids(len(titles))
    years = sorted(new.between(1994, 2029) for _ in papers)
    new.tables["papers"] = [
        (number, title, year, rng.choice(new.common.venues), rng.choice(w.FIELDS))
        for number, title, year in zip(papers, titles, years, strict=True)
    ]
    new.tables["authorship"] = [
        (paper, author, position + 1)
        for paper in papers
        for position, author in enumerate(rng.sample(authors, new.between(1, 4)))
    ]
    new.tables["citations"] = [
        (papers[i], cited) for i in range(1, len(papers)) for cited in rng.sample(papers[:i], min(i, new.between(1, 7)))
    ]


def _events(new: _Builder) -> None:
    rng = new.rng
    cities, guests = new.column("places", 0), new.people(8)
    new.meetings = new.names(new.words.meetings, _TRAINING_MEETINGS) if new.split == "train" else new.words.meetings
    new.tables["events"] = [
        (
            number,
            topic.capitalize(),
            new.day(rng.below(WEEK)),
            clock(new.between(32, 76) * 15),
            new.between(2, 16) * 15,
            rng.choice(cities),
            rng.choice(new.common.rooms),
        )
        for number, topic in zip(new.ids(9), rng.sample(new.meetings, 9), strict=True)
    ]
    new.tables["attendees"] = [
        (event, guest) for event in new.column("events", 0) for guest in rng.sample(guests, new.between(1, 7))
    ]


def _shop(new: _Builder) -> None:
    rng = new.rng
    cities, customers = new.column("places", 0), new.people(11)
    goods = [f"{rng.choice(new.common.colours)} {noun}" for noun in new.names(new.words.goods, 10)]
    products = new.ids(len(goods))
    new.tables["products"] = [
        (number, name, new.between(6, 240), new.between(3, 90) * 50, rng.choice(new.common.makers), new.between(9, 400))
        for number, name in zip(products, goods, strict=True)
    ]
    new.tables["orders"] = [
        (
            number,
            customer,
            rng.choice(products),
            new.between(1, 8),
            status,
            rng.choice(cities),
            new.day(-new.between(1, 20)),
            rng.choice(new.common.carriers),
            rng.choice(cities),
            new.day(new.between(1, 12)),
        )
        for number, customer, status in zip(
            new.ids(16, 1000, 10000), customers + customers[:5], _statuses(new), strict=True
        )
    ]


def _statuses(new: _Builder) -> list[str]:
    """Draw the statuses of 16 orders: of each another number, at least 2 are processing and 2 delivered."""
    counts = [0]
    while sum(counts) != 16 or min(counts[0], counts[2]) < 2:
        counts = new.rng.sample(range(1, 8), 4)
    return new.rng.sample([status for i, status in enumerate(w.STATUSES[:4]) for _ in range(counts[i])], 16)


def _figures(new: _Builder) -> Rows:
    rows: Rows = []
    for theme in THEMES:
        names = new.names(new.words.things, 5)
        for attribute in theme.attributes:
            values = new.rng.sample(range(3, 990), len(names))
            rows += [(theme.noun, attribute, name, value) for name, value in zip(names, values, strict=True)]
    return rows


def _names(new: _Builder) -> dict[str, Sequence[Any]]:
    orders = new.tables["orders"]
    customers, titles = [row[1] for row in orders], new.column("events", 1)
    names: dict[str, Sequence[Any]] = {
        "city": new.column("places", 0),
        "country": sorted(set(new.column("places", 1))),
        "genre": sorted(set(new.column("films", 3))),
        "status": w.STATUSES[:4],
        "film": new.column("films", 1),
        "person": new.column("people", 1),
        "paper": new.column("papers", 1),
        "author": new.column("authors", 1),
        "event": new.column("events", 1),
        "product": new.column("products", 1),
        "customer": [name for name in customers if customers.count(name) == 1],
        "guest": sorted(set(new.column("attendees", 1))),
        "order": new.column("orders", 0),
        "author_name": new.column("authors", 1),
        "topic": [topic.capitalize() for topic in new.meetings if topic.capitalize() not in titles],
    }
    for status in w.STATUSES[:4]:
        names[f"order:{status}"] = [row[0] for row in orders if row[4] == status]
    for theme, attribute, name, _ in new.tables["figures"]:
        if attribute == _FIRST_ATTRIBUTE[theme]:
            names[f"theme:{theme}"] = [*names.get(f"theme:{theme}", ()), name]
    return names


_FIRST_ATTRIBUTE = {theme.noun: theme.attributes[0] for theme in THEMES}


def clock(minutes: int) -> str:
    """Format minutes since midnight as hh:mm."""
    return f"{minutes // 60 % 24:02d}:{minutes % 60:02d}"


class ConnectionPool:
    """A pool of connections to private copies of databases.

    A released copy is rolled back, which is far cheaper than a new copy and keeps its prepared statements. The
    environments of a process share one pool, so that they do not keep many copies each.
    """

    def __init__(self) -> None:
        self._free: OrderedDict[tuple[str, int, bool], list[sqlite3.Connection]] = OrderedDict()
        self._lock = Lock()

    def acquire(self, database: Database) -> sqlite3.Connection:
        """Return a copy of a database; make all changes to it within a transaction."""
        with self._lock:
            free = self._free.get(database.key)
            connection = free.pop() if free else None
        return connection or _copy(database.image)

    def release(self, database: Database, connection: sqlite3.Connection) -> None:
        """Roll a copy back and keep it for the next use; copies above the limits are closed."""
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        surplus = list[sqlite3.Connection]()
        with self._lock:
            free = self._free.setdefault(database.key, [])
            self._free.move_to_end(database.key)
            (free if len(free) < _MAX_FREE else surplus).append(connection)
            if len(self._free) > _MAX_POOLED:
                surplus += self._free.popitem(last=False)[1]
        for connection in surplus:
            connection.close()  # its cursor holds it, so Python would free its 200 KB late


CONNECTIONS = ConnectionPool()
"""The pool of this process."""


class _OneCursor(sqlite3.Connection):
    """A connection with a single cursor, because sqlite3 keeps references to its last 200 cursors."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._cursor = self.cursor()

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Execute as sqlite3 does; unread rows of the statement before are lost."""
        return self._cursor.execute(sql, parameters)


def _copy(image: bytes) -> sqlite3.Connection:
    # an environment may be used in several threads, though never in two at once
    connection = sqlite3.connect(
        ":memory:", isolation_level=None, cached_statements=8, check_same_thread=False, factory=_OneCursor
    )
    connection.deserialize(image)
    return connection


def dump(connection: sqlite3.Connection) -> list[Rows]:
    """Read all rows that tools can change."""
    return [connection.execute(sql).fetchall() for sql in MUTABLE]
