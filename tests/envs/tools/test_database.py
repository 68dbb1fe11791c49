from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

import pytest

from agentgym_envs.tools.database import ConnectionPool, Database, database_of, dump
from agentgym_envs.tools.words import WORDS
from agentgym_py.env import SPLITS


def test_a_world_follows_from_its_number() -> None:
    """Made twice, a database is the same to the byte; another number or split gives another."""
    again = database_of.__wrapped__("train", 3, False)
    assert again.image == database_of("train", 3, False).image and again.names == database_of("train", 3, False).names
    assert len({database_of(split, n, False).image for split in SPLITS for n in range(3)}) == 9


def test_splits_share_no_name() -> None:
    """Places, people, films, topics, goods, meetings and things of a split are in no other."""
    for one, other in combinations(WORDS.values(), 2):
        for kind in one.__slots__:
            assert not set(getattr(one, kind)) & set(getattr(other, kind)), kind


@pytest.mark.parametrize("split", SPLITS)
def test_words_do_for_every_world(split: str) -> None:
    """Each kind of name is there in number, none twice."""
    for number in range(8):
        names = database_of(split, number, True).names
        for kind in ("city", "film", "person", "paper", "author", "event", "product"):
            assert len(set(names[kind])) == len(names[kind]) >= 8, kind
        assert len(names["customer"]) >= 5 and len(names["topic"]) >= 3 and len(names["theme:bank"]) == 5


def test_training_names_are_rich() -> None:
    """Hundreds of names, many of them made up; none is a held-out one."""
    names = [database_of("train", number, False).names for number in range(16)]
    surnames = {name.split()[-1] for each in names for kind in ("person", "author", "guest") for name in each[kind]}
    listed = set(WORDS["train"].surnames)
    assert len(surnames & listed) > 150 and len(surnames - listed) > 150
    assert not surnames & {*WORDS["valid"].surnames, *WORDS["test"].surnames}
    assert len({city for each in names for city in each["city"]}) > 150
    assert len({country for each in names for country in each["country"]}) > 30


def rows(connection: sqlite3.Connection) -> int:
    """How many events there are."""
    return int(connection.execute("SELECT count(*) FROM events").fetchone()[0])


def test_a_loan_is_as_new() -> None:
    """What was done to a copy within a transaction is gone when it is lent again."""
    connections, database = ConnectionPool(), database_of("train", 0, False)
    connection = connections.acquire(database)
    before = dump(connection)
    connection.execute("BEGIN")
    connection.execute("DELETE FROM events")
    assert rows(connection) == 0 and dump(connection) != before
    connections.release(database, connection)
    assert connections.acquire(database) is connection and dump(connection) == before


def test_two_loans_are_two_databases() -> None:
    """A change in one copy is not seen in another that is lent at the same time."""
    connections, database = ConnectionPool(), database_of("train", 0, False)
    one, other = connections.acquire(database), connections.acquire(database)
    one.execute("BEGIN")
    one.execute("DELETE FROM events")
    assert rows(one) == 0 and rows(other) == 9


def test_copies_above_the_limits_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than two of a database, and those of the database that was used least recently."""
    connections, databases = ConnectionPool(), [database_of("train", n, False) for n in range(2)]
    monkeypatch.setattr("agentgym_envs.tools.database._MAX_POOLED", 1)
    copies = [connections.acquire(databases[0]) for _ in range(3)]
    for copy in copies:
        connections.release(databases[0], copy)
    assert not any(map(is_closed, copies[:2])) and is_closed(copies[2])
    last = connections.acquire(databases[1])
    connections.release(databases[1], last)
    assert all(map(is_closed, copies)) and not is_closed(last)


def is_closed(connection: sqlite3.Connection) -> bool:
    """Whether it is."""
    try:
        rows(connection)
    except sqlite3.ProgrammingError:
        return True
    return False


def test_threads_share_a_desk() -> None:
    """Two borrowers at the same time never hold the same copy."""
    connections, databases = ConnectionPool(), [database_of("train", n, False) for n in range(3)]

    def borrow(turn: int) -> bool:
        database: Database = databases[turn % 3]
        connection = connections.acquire(database)
        connection.execute("BEGIN")
        alone = rows(connection) == 9
        connection.execute("DELETE FROM events")
        connections.release(database, connection)
        return alone

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(borrow, range(400)))
