from __future__ import annotations

import re
import sqlite3
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_envs.tools.catalogue import CORE, FINISH, SEARCH, UNDO, all_tools, find_tools
from agentgym_envs.tools.database import CONNECTIONS, database_of, dump
from agentgym_envs.tools.lookups import PARAMETERS
from agentgym_envs.tools.plans import pick_value
from agentgym_envs.tools.themes import THEMES
from agentgym_envs.tools.tool import Answer, ToolError, rows_of

WORLD = database_of("train", 1, True)


def run(tool: str, **arguments: Any) -> Answer:
    """What a tool says in a fresh database."""
    connection = CONNECTIONS.acquire(WORLD)
    try:
        checked = all_tools()[tool].check(arguments)
        return all_tools()[tool].on(connection, checked)
    finally:
        CONNECTIONS.release(WORLD, connection)


def column(table: str, name: str) -> list[Any]:
    """A column of the database."""
    connection = CONNECTIONS.acquire(WORLD)
    found = [row[0] for row in connection.execute(f"SELECT {name} FROM {table} ORDER BY rowid")]  # noqa: S608  # names of tests, not of users
    CONNECTIONS.release(WORLD, connection)
    return found


def an_argument(parameter: str) -> Any:
    """A value that a parameter takes and most tools know."""
    status = dict(zip(column("orders", "status"), column("orders", "order_id"), strict=True))
    tables = {"film": "films", "person": "people", "paper": "papers", "author": "authors", "event": "events"}
    if parameter == "order_id":
        return status["processing"]
    if parameter.endswith("_id"):
        return column(tables.get(parameter[:-3], "products"), parameter)[0]
    values = {"city": column("places", "city")[0], "country": column("places", "country")[0], "start": "10:00"}
    values |= {"minutes": 30, "quantity": 9, "genre": column("films", "genre")[0], "status": "sent", "title": "the"}
    return values.get(parameter, "a")


def test_there_are_a_thousand_tools() -> None:
    """52 of the databases' own, 945 themed ones, and undo, search and finish; each with a name of its own."""
    assert len(CORE) == 52 and len(all_tools()) == 1000
    assert len({theme.noun for theme in THEMES}) == len(THEMES) == 63
    lines = [tool.line for tool in all_tools().values()]
    assert len(set(lines)) == 1000 and all(re.fullmatch(r"[a-z_]+\([a-z_, ]*\): [A-Z].*[a-z]", line) for line in lines)


@pytest.mark.parametrize("name", CORE)
def test_every_tool_answers_and_only_changes_change(name: str) -> None:
    """Called with what there is, a tool answers rows or says why not; looking up leaves the database as it was."""
    tool = CORE[name]
    connection = CONNECTIONS.acquire(WORLD)
    before = dump(connection)
    day = WORLD.today.isoformat() if name != "get_past_weather" else column("history", "day")[0]
    arguments = {each.name: an_argument(each.name) for each in tool.parameters} | (
        {"day": day} if any(each.name == "day" for each in tool.parameters) else {}
    )
    if name == "return_order":
        arguments["order_id"] = WORLD.names["order:delivered"][0]
    if name == "remove_attendee":
        arguments |= dict(
            zip(("event_id", "name"), connection.execute("SELECT * FROM attendees").fetchone(), strict=True)
        )
    answer = tool.on(connection, tool.check(arguments))
    assert all(type(value) in (int, str) for row in rows_of(answer) for value in row.values())
    assert (dump(connection) != before) == tool.changes
    CONNECTIONS.release(WORLD, connection)


def test_twins_are_tools() -> None:
    """Whatever is said to look like a tool exists, and is not the tool itself."""
    assert all(twin in CORE and twin != name for name, tool in CORE.items() for twin in tool.twins)
    assert sum(bool(tool.twins) for tool in CORE.values()) >= 20


@pytest.mark.parametrize("text", ["'; DROP TABLE films; --", "%", "_", "\\", '" OR 1=1', "x' UNION SELECT 1"])
def test_values_are_never_sql(text: str) -> None:
    """Quotes, wildcards and statements are plain text in every place where text goes."""
    assert run("search_films", title=text) == []
    with pytest.raises(ToolError, match="There is no city"):
        run("get_place", city=text)
    for parameter in ("title", "name", "customer", "city", "country"):
        assert PARAMETERS[parameter].check(text) == text
    assert len(column("films", "film_id")) == 16


class Spy:
    """A connection that remembers its statements as they were written."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection, self.statements = connection, list[str]()

    @property
    def in_transaction(self) -> bool:
        """The connection's."""
        return self.connection.in_transaction

    def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
        """Remember and do."""
        self.statements.append(sql)
        return self.connection.execute(sql, parameters)


@pytest.mark.parametrize("name", [*CORE, "get_museum_ticket_price", "count_museum_ticket_price"])
def test_every_value_is_bound(name: str) -> None:
    """No statement of any tool holds a value that it was called with, neither the text nor the number."""
    tool, spy = all_tools()[name], Spy(CONNECTIONS.acquire(WORLD))
    marks = {"string": "Zq'); DELETE FROM events; --", "integer": 987_653}
    for marked in tool.parameters:
        mark = marks[marked.type] if not (marked.form or marked.choices) else an_argument(marked.name)
        arguments = {each.name: an_argument(each.name) for each in tool.parameters} | {marked.name: mark}
        with suppress(ToolError):
            tool.on(spy, {**arguments, "day": WORLD.today.isoformat(), "limit": 987_653})  # type: ignore[arg-type]
        assert spy.statements and not any(str(mark) in sql for sql in spy.statements if mark in marks.values()), mark
    assert len(spy.connection.execute("SELECT * FROM events").fetchall()) >= 8
    CONNECTIONS.release(WORLD, spy.connection)


def test_a_search_ignores_case_and_takes_parts() -> None:
    """A part of a title in any case finds it."""
    title = WORLD.names["film"][0]
    assert title in [row["title"] for row in rows_of(run("search_films", title=title.upper()[2:-1]))]


@pytest.mark.parametrize(
    ("tool", "arguments", "why"),
    [
        ("get_film", {"film_id": 1}, "There is no film 1."),
        ("get_forecast", {"city": "Nowhere", "day": "2031-01-01"}, "There is no forecast of Nowhere for 2031-01-01."),
        ("delete_event", {"event_id": 1}, "There is no event 1."),
        ("cancel_order", {"order_id": WORLD.names["order:sent"][0]}, "is sent: only one that is processing"),
        ("return_order", {"order_id": WORLD.names["order:sent"][0]}, "is sent: only one that is delivered"),
        ("change_quantity", {"order_id": WORLD.names["order:processing"][0], "quantity": 1000}, "are in stock"),
        ("change_address", {"order_id": WORLD.names["order:processing"][0], "city": "Nowhere"}, "no city Nowhere"),
        ("place_order", {"product_id": 1, "quantity": 1, "city": WORLD.names["city"][0]}, "no product 1"),
        ("get_bank_branch_count", {"name": "Nobody"}, "There is no bank Nobody."),
    ],
)
def test_what_cannot_be_is_said(tool: str, arguments: dict[str, Any], why: str) -> None:
    """Numbers that are not there and orders in the wrong state are refused in words."""
    with pytest.raises(ToolError, match=re.escape(why)):
        run(tool, **arguments)


def test_a_change_does_what_it_says() -> None:
    """Orders and events are as the request wants them, stock follows, and the answer tells what came of it."""
    connection = CONNECTIONS.acquire(WORLD)
    order = WORLD.names["order:processing"][0]
    product, quantity = connection.execute(
        "SELECT product_id, quantity FROM orders WHERE order_id = ?", (order,)
    ).fetchone()
    price, stock = connection.execute("SELECT price, stock FROM products WHERE product_id = ?", (product,)).fetchone()

    def left() -> Any:
        return connection.execute("SELECT stock FROM products WHERE product_id = ?", (product,)).fetchone()[0]

    wanted = quantity + 2
    assert CORE["change_quantity"].on(connection, {"order_id": order, "quantity": wanted}) == {
        "order_id": order,
        "quantity": wanted,
        "total": wanted * price,
    }
    assert left() == stock - 2
    assert rows_of(CORE["cancel_order"].on(connection, {"order_id": order}))[0]["refund"] == wanted * price
    assert left() == stock + quantity
    city = WORLD.names["city"][0]
    placed = rows_of(CORE["place_order"].on(connection, {"product_id": product, "quantity": 3, "city": city.upper()}))[
        0
    ]
    assert placed["total"] == 3 * price and left() == stock + quantity - 3
    made = rows_of(CORE["get_order"].on(connection, {"order_id": placed["order_id"]}))[0]
    assert (made["customer"], made["ships_to"], made["status"]) == ("me", city, "processing")
    event = {"title": "Chat", "day": "2031-05-14", "start": "23:30", "minutes": 45}
    added = rows_of(CORE["add_event"].on(connection, event))[0]
    moved = CORE["move_event"].on(connection, {"event_id": added["event_id"], "day": "2031-05-15", "start": "23:40"})
    assert rows_of(moved)[0]["ends"] == "00:25"
    CONNECTIONS.release(WORLD, connection)


def test_themed_tools_reckon_over_their_things() -> None:
    """Highest, lowest, total and count agree with the single numbers."""
    names = WORLD.names["theme:museum"]
    single = {name: rows_of(run("get_museum_ticket_price", name=name.lower()))[0]["ticket_price"] for name in names}
    assert rows_of(run("top_museum_ticket_price"))[0]["name"] == max(single, key=single.__getitem__)
    assert rows_of(run("bottom_museum_ticket_price"))[0]["name"] == min(single, key=single.__getitem__)
    assert run("total_museum_ticket_price") == {"total": sum(single.values())}
    limit = sorted(single.values())[2]
    assert run("count_museum_ticket_price", limit=limit) == {"count": 2}


def test_every_tool_is_found_by_what_it_does() -> None:
    """A search for a tool's purpose shows it among the first five; nonsense finds nothing."""
    hidden = [
        t for t in all_tools().values() if t not in (UNDO, SEARCH, FINISH) and t.name not in find_tools(t.purpose)
    ]
    assert not hidden
    assert find_tools("qwertz") == () and find_tools("") == () and len(find_tools("film")) == 5
    assert "get_forecast" in find_tools("what weather is forecast for a city")


@given(st.text())
def test_any_words_are_searched(query: str) -> None:
    """At most five tools, none twice, whatever is asked; case does not matter."""
    found = find_tools(query)
    assert len(set(found)) == len(found) <= 5 and set(found) <= set(all_tools())
    assert query.lower() != query.upper().lower() or find_tools(query.upper()) == found


def test_a_search_is_quick() -> None:
    """A megabyte of words costs less than a second."""
    began = time.process_time()
    find_tools("film museum weather " * 50_000)
    assert time.process_time() - began < 1


def test_an_answer_is_picked_only_where_it_is_the_only_one() -> None:
    """Ties for the newest, empty lists and lists that may be cut are no ground for a question."""
    from agentgym_envs.tools.plans import Redraw

    rows: list[dict[str, Any]] = [{"year": 3, "x": "a"}, {"year": 2, "x": "b"}, {"year": 2, "x": "c"}]
    assert (
        pick_value(rows, "x", "first") == "a"
        and pick_value(rows, "", "count") == 3
        and pick_value(rows[0], "x", "") == "a"
    )
    for wrong, pick in ((rows, "last"), ([], "first"), (rows * 3, "count")):
        if pick == "count":
            wrong = wrong[:8]
        with pytest.raises(Redraw):
            pick_value(wrong, "x", pick)  # type: ignore[arg-type]
