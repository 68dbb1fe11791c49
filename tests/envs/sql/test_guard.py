"""No statement writes, leaves its database, hangs or fills the memory."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_envs.sql.guard import LONGEST_STATEMENT, MOST_ROWS, MOST_SIZE, GuardedDatabase, StatementError, Table
from agentgym_envs.sql.size import grown_size

ROWS = [(number, f"title {number} {'x' * 20}", 7 * number) for number in range(1, 101)]
SECONDS = 5.0
"""Far above the limit of a statement, as other things run on a machine; what hangs takes for ever."""


@pytest.fixture
def database() -> GuardedDatabase:
    """A table of a hundred books."""
    return GuardedDatabase([Table("book", ("id INTEGER PRIMARY KEY", "title TEXT", "pages INTEGER"), ROWS)])


def many(first: str, line: str, last: str, times: int = 24) -> str:
    """Common table expressions a0, a1, ... each made of the one before."""
    parts = [f"a0 AS ({first})", *(f"a{n} AS ({line.replace('@', f'a{n - 1}')})" for n in range(1, times + 1))]
    return f"WITH {', '.join(parts)} {last.replace('@', f'a{times}')}"


RECURSIVE = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
WIDE = "replace(replace(a.title, 'x', 'xxxxxx'), 'x', 'xxxxxx')"
HANG = {
    "endless recursion": f"{RECURSIVE} SELECT count(*) FROM c",
    "endless recursion, sorted": f"{RECURSIVE} SELECT x || 'a' FROM c ORDER BY 1",
    "cross joins": "SELECT count(*) FROM book a, book b, book c, book d, book e",
    "cross joins, sorted": "SELECT a.title FROM book a, book b, book c, book d ORDER BY a.title || b.title || c.title",
    "windows": "SELECT sum(a.id) OVER (ORDER BY a.id, b.id ROWS BETWEEN 9 PRECEDING AND 99999 FOLLOWING) "
    "FROM book a, book b, book c",
    "sixty tables": f"SELECT count(*) FROM {', '.join(f'book b{n}' for n in range(60))}",
    "parts doubled": many("SELECT id FROM book", "SELECT x.id FROM @ x, @ y", "SELECT count(*) FROM @"),
    "parts in unions": many("SELECT 1 AS id", "SELECT id FROM @ UNION ALL SELECT id FROM @", "SELECT count(*) FROM @"),
    "parts without columns": many("SELECT 1", "SELECT 1 FROM @ x, @ y", "SELECT 1 FROM @"),
    "parts with stars": many("VALUES (1)", "SELECT * FROM @ x LEFT JOIN @ y", "SELECT 1 FROM @"),
    "parts kept": many("SELECT 1 AS id", "SELECT x.id FROM @ x, @ y", "SELECT 1 FROM @").replace(
        " AS (", " AS MATERIALIZED ("
    ),
    "parts with IN": many("SELECT 1 AS id", "SELECT 1 AS id WHERE 1 IN @ AND 2 IN @", "SELECT 1 FROM @"),
    "parts as values": many(
        "SELECT 1 AS id", "SELECT (SELECT id FROM @) + (SELECT id FROM @) AS id", "SELECT 1 FROM @"
    ),
    "parts quoted": many("SELECT 1 AS id", "SELECT x.id FROM \"@\" x, '@' y", "SELECT 1 FROM [@]"),
    "parts with columns named": many("SELECT 1", "SELECT x.i FROM @ x, @ y", "SELECT 1 FROM @").replace(
        " AS (", "(i) AS /* so */ ("
    ),
    "sums of sums": "SELECT a FROM (SELECT a+a AS a FROM " * 40 + "(SELECT id AS a FROM book)" + ")" * 40,
    "sums of sums in parts": many("SELECT id AS a FROM book", "SELECT a+a+a+a+a+a AS a FROM @", "SELECT a FROM @", 9),
    "many deep": "SELECT " + "(SELECT " * 400 + "1" + ")" * 400,
    "many brackets": "SELECT " + "(" * 1900 + "1" + ")" * 1900,
    "choices": f"SELECT count(*) FROM {', '.join(f'book b{n}' for n in range(15))} WHERE "
    + " AND ".join(f"({' OR '.join(f'b{n}.id={m}' for m in range(12))})" for n in range(15)),
    "patterns": f"SELECT count(*) FROM book a, book b, book c WHERE {WIDE} LIKE '%_x%_x%_x%_x%_x%_xx%_xx%_x%_xy'",
    "globs": f"SELECT count(*) FROM book a, book b, book c WHERE {WIDE} GLOB '*x*x*x*x*x*[xy]*x*x*?*x*x*y*'",
    "trims": f"SELECT count(*) FROM book a, book b, book c WHERE trim({WIDE}, 'abcdefghijklmnopqrstuvwx') = b.title",
}


@pytest.mark.parametrize("name", HANG)
def test_nothing_hangs(database: GuardedDatabase, name: str) -> None:
    """Endless statements, and those that grow while they are prepared, end soon, and the database goes on."""
    began = time.process_time()
    try:
        database.run(HANG[name])
    except StatementError as error:
        assert str(error)
    assert time.process_time() - began < SECONDS
    assert database.run("SELECT count(*) FROM book").rows == ((100,),)


@pytest.mark.parametrize(
    "statement",
    ["DROP TABLE book", "DELETE FROM book", "UPDATE book SET id = 1", "CREATE TABLE x (y)", "VACUUM INTO 'x.db'",
     "ATTACH 'x.db' AS x", "PRAGMA query_only = OFF", "PRAGMA table_info(book)", "BEGIN", "REINDEX", "ANALYZE",
     "WITH a AS (SELECT 1) DELETE FROM book", "WITH a AS (SELECT 1) INSERT INTO book SELECT 1, 2, 3",
     "SELECT 1; DROP TABLE book", "EXPLAIN SELECT 1", "SELECT load_extension('x')", "SELECT readfile('/etc/passwd')",
     "SELECT writefile('x', 'y')", "SELECT * FROM pragma_table_info('book')", "SELECT * FROM pragma_database_list",
     "SELECT * FROM pragma_hard_heap_limit(1)", "SELECT * FROM json_each('[1]')", "SELECT * FROM sqlite_temp_master",
     "SELECT * FROM dbstat", "SELECT * FROM fsdir('.')", "SELECT fts3_tokenizer('x')"],
)  # fmt: skip
def test_nothing_but_reading_is_done(
    database: GuardedDatabase, statement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No change, no other database, no file, no setting, none of SQLite's own tables but that of the tables."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StatementError):
        database.run(statement)
    assert database.run("SELECT count(*), sum(pages) FROM book").rows == ((100, 35350),)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "expression",
    ["randomblob(1000000000)", "zeroblob(1000000000)", "printf('%1000000000d', 1)", "format('%.*c', 1000000000, 'x')",
     "hex('aaaa')", "replace(replace(replace('aaaaaaaaaa', 'a', 'aaaaaaaaaa'), 'a', 'aaaaaaaaaa'), 'a', 'aaaaaaaaaa')",
     "group_concat(title) || group_concat(title)", "random()", "date('now')", "CURRENT_TIMESTAMP", "char(55296)"],
)  # fmt: skip
def test_no_value_is_large_or_unforeseen(database: GuardedDatabase, expression: str) -> None:
    """Long values, chance and the clock are refused, and the refusal says what it is about."""
    with pytest.raises(StatementError, match=r"not available here|too big"):
        database.run(f"SELECT {expression} FROM book")


@pytest.mark.parametrize(
    ("statement", "said"),
    [("", "write one SELECT"), ("SELEC 1", "write one SELECT"),
     ("SELECT * FROM boks", "no such table: boks; there are book"),
     ("SELECT page FROM book", "no such column: page"), ("SELECT ?", "too many SQL variables"),
     ("SELECT '\ud800'", "no text can hold"), ("SELECT '\0'", "null character"),
     ("SELECT 1; SELECT 2", "one statement"),
     ("SELECT CAST(x'ff' AS TEXT)", "decode"), ("SELECT " + "1" * LONGEST_STATEMENT, "this one has 4007"),
     ("SELECT noise(1)", "no such function: noise"), ("SELECT avg(", "incomplete input")],
)  # fmt: skip
def test_what_is_wrong_is_said(database: GuardedDatabase, statement: str, said: str) -> None:
    """In SQLite's words or ours."""
    with pytest.raises(StatementError, match=said):
        database.run(statement)


HONEST = """
    WITH long AS (SELECT b.id, b.title, b.pages FROM book AS b WHERE b.pages > (SELECT avg(pages) FROM book)),
         ranked AS (SELECT l.title, l.pages, rank() OVER (ORDER BY l.pages DESC) AS place FROM long AS l),
         best AS (SELECT r.title, r.place, CASE WHEN r.place < 3 THEN 'gold' ELSE 'tin' END AS medal FROM ranked AS r)
    SELECT medal, count(*), group_concat(substr(title, 1, 8), '; ') FROM best
    WHERE place <= 4 AND title IN (SELECT title FROM long) GROUP BY medal ORDER BY medal"""


def test_honest_statements_run(database: GuardedDatabase) -> None:
    """Parts that build on parts, windows, groups; sqlite_master; values of every kind."""
    assert database.run(HONEST).rows == (("gold", 2, "title 10; title 99"), ("tin", 2, "title 98; title 97"))
    assert "title TEXT" in str(database.run("SELECT sql FROM sqlite_master").rows[0][0])
    assert database.run("SELECT 9e999, 1.5, x'00ff', NULL AS n").rows == ((float("inf"), 1.5, b"\x00\xff", None),)
    assert database.run("WITH c AS (SELECT id FROM book) SELECT count(*) FROM c").rows == ((100,),)


def test_many_rows_are_cut(database: GuardedDatabase) -> None:
    """At `MOST_ROWS`, and the result says that there were more."""
    result = database.run("SELECT a.id AS first, b.id FROM book a, book b")
    assert (len(result.rows), result.more, result.columns) == (MOST_ROWS, True, ("first", "id"))
    assert not database.run("SELECT id FROM book").more


WORDS = ("select", "from", "book", "(", ")", "with", "a", "as", ",", "*", "union", "'x", '"', "[", "--", "/*", "t.")


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60) | st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join))
def test_any_text_is_answered(text: str) -> None:
    """With a result or with an error that says something."""
    database = GuardedDatabase([Table("book", ("id INTEGER PRIMARY KEY",), [(1,)])])
    for statement in (text, f"SELECT {text}"):
        try:
            assert len(database.run(statement).rows) <= MOST_ROWS
        except StatementError as error:
            assert str(error)
    database.close()


def test_the_bound_on_growth_is_low_for_honest_statements_only() -> None:
    """It takes qualifiers for what they are, and parts that name each other for endless."""
    assert grown_size(HONEST) < MOST_SIZE / 100
    assert grown_size("SELECT t.a, t.b, t.c FROM t, (SELECT 1)") < 40
    assert grown_size("WITH a AS (SELECT 1 FROM b), b AS (SELECT 1 FROM a) SELECT 1 FROM a") == float("inf")
    assert grown_size(f"{RECURSIVE} SELECT x FROM c") < 200
