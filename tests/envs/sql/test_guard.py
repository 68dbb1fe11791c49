"""No statement writes, leaves its database, hangs or fills the memory."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_envs.sql import guard
from agentgym_envs.sql.guard import MAX_ROWS, MAX_SIZE, MAX_STATEMENT_LENGTH, GuardedDatabase, StatementError, Table
from agentgym_envs.sql.size import expanded_size

ROWS = [(number, f"title {number} {'x' * 20}", 7 * number) for number in range(1, 101)]
SECONDS = 5.0
"""Far above the limit of a statement, as other things run on a machine; what hangs takes forever."""


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
    "natural joins": "SELECT * FROM " + " NATURAL JOIN ".join(f"book b{n}" for n in range(19)),
    "full joins": "SELECT id FROM book b0 " + " ".join(f"FULL JOIN book b{n} USING (id)" for n in range(1, 60)),
    "joins in a row": f"SELECT count(*) FROM {', '.join(f'book b{n}' for n in range(60))} WHERE "
    + " AND ".join(f"b{n}.pages = b{n - 1}.pages" for n in range(1, 60)),
    "many windows": "SELECT " + " + ".join(f"sum(id) OVER (ORDER BY id + {n})" for n in range(40)) + " FROM book",
    "windows in windows": "SELECT s FROM " + "(SELECT sum(s) OVER (ORDER BY s) s FROM " * 28 + "book" + ")" * 28,
    "asked for each row": "SELECT count(*) FROM book b0 WHERE "
    + "".join(f"EXISTS (SELECT 1 FROM book b{n} WHERE b{n}.id > b{n - 1}.id AND " for n in range(1, 29))
    + "1"
    + ")" * 28,
    "unions joined": "SELECT count(*) FROM "
    + ", ".join("(SELECT id FROM book UNION ALL SELECT id FROM book)" for _ in range(14)),
    "trims": f"SELECT count(*) FROM book a, book b, book c WHERE trim({WIDE}, 'abcdefghijklmnopqrstuvwx') = b.title",
}


@pytest.mark.parametrize("name", HANG)
def test_nothing_hangs(database: GuardedDatabase, name: str) -> None:
    """Endless statements, and those that grow while they are prepared, end soon, and the database continues."""
    began = time.process_time()
    try:
        database.run(HANG[name])
    except StatementError as error:
        assert str(error)
    assert time.process_time() - began < SECONDS
    assert database.run("SELECT count(*) FROM book").rows == ((100,),)


LONG = "substr(replace(replace(a.title, 'x', 'xxxxxxx'), 'x', 'xxxxxx'), 1, 900)"
HOARD = {
    "rows kept by a recursion": f"WITH RECURSIVE c(x) AS (SELECT {LONG} FROM book a UNION ALL "
    "SELECT c.x FROM c, book b) SELECT count(*) FROM c",
    "rows told apart": f"WITH RECURSIVE c(x, n) AS (SELECT {LONG}, 1 FROM book a UNION "
    "SELECT substr(x, 1, 900) || n, n + 1 FROM c) SELECT count(*) FROM c",
    "rows sorted": f"SELECT a.id FROM book a, book b, book c ORDER BY {LONG} || b.id || c.id",
    "rows distinct": f"SELECT count(*) FROM (SELECT DISTINCT {LONG} || b.id || c.id FROM book a, book b, book c)",
    "rows in a window": f"SELECT max({LONG}) OVER (ORDER BY a.id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED "
    "FOLLOWING) FROM book a, book b, book c",
    "rows put into a part": f"WITH c AS MATERIALIZED (SELECT {LONG} AS x FROM book a, book b, book c) "
    "SELECT count(*) FROM c x, c y",
    "rows grouped": f"SELECT count(*) FROM book a, book b, book c GROUP BY {LONG} || b.id || c.id",
}
MEGABYTES = 200
"""More than any of them takes: at most one row of a kilobyte for every few of `MAX_OPS` instructions."""
_MEASURED = """
import json, resource, sys
from agentgym_envs.sql.guard import GuardedDatabase, StatementError, Table
columns, rows, statement = json.load(sys.stdin)
database = GuardedDatabase([Table("book", columns, rows)])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    database.run(statement)
    print("no error", file=sys.stderr)
except StatementError as error:
    print(error, file=sys.stderr)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kilobytes on Linux")
@pytest.mark.parametrize("name", HOARD)
def test_nothing_fills_the_memory(name: str) -> None:
    """Rows that SQLite keeps, sorts or tells apart: the process grows little before the statement is stopped."""
    given_ = json.dumps([["id INTEGER PRIMARY KEY", "title TEXT", "pages INTEGER"], ROWS, HOARD[name]])
    told = subprocess.run([sys.executable, "-c", _MEASURED], input=given_, capture_output=True, text=True, check=True)
    assert "takes too long" in told.stderr and int(told.stdout) < MEGABYTES * 1024, told


def test_a_slow_statement_is_stopped_by_the_clock(database: GuardedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also far below the number of instructions; only computing counts, so that a busy machine stops nothing."""
    statement = "SELECT count(*) FROM book a, book b"
    monkeypatch.setattr(guard, "MAX_SECONDS", 0.0)
    with pytest.raises(StatementError, match="takes too long"):
        database.run(statement)
    monkeypatch.setattr(guard, "MAX_SECONDS", 1.0)
    monkeypatch.setattr(time, "monotonic", iter(range(10**6)).__next__)
    assert database.run(statement).rows == ((10_000,),)


@pytest.mark.parametrize(
    "statement",
    ["DROP TABLE book", "DELETE FROM book", "UPDATE book SET id = 1", "CREATE TABLE x (y)", "VACUUM INTO 'x.db'",
     "ATTACH 'x.db' AS x", "PRAGMA query_only = OFF", "PRAGMA table_info(book)", "BEGIN", "REINDEX", "ANALYZE",
     "WITH a AS (SELECT 1) DELETE FROM book", "WITH a AS (SELECT 1) INSERT INTO book SELECT 1, 2, 3",
     "SELECT 1; DROP TABLE book", "EXPLAIN SELECT 1", "SELECT load_extension('x')", "SELECT readfile('/etc/passwd')",
     "SELECT writefile('x', 'y')", "SELECT * FROM pragma_table_info('book')", "SELECT * FROM pragma_database_list",
     "SELECT * FROM pragma_hard_heap_limit(1)", "SELECT * FROM json_each('[1]')", "SELECT * FROM sqlite_temp_master",
     "WITH a AS (SELECT 1) UPDATE book SET id = 3 RETURNING id", "SELECT 1; ATTACH ':memory:' AS x",
     "WITH a AS (SELECT 1) REPLACE INTO book SELECT 1, 2, 3", "SELECT * FROM temp.sqlite_schema",
     "SELECT last_insert_rowid()", "SELECT sqlite_version()", "SELECT * FROM generate_series(1, 9)",
     "SELECT title MATCH 'x' FROM book", "SELECT RAISE(IGNORE)", "SELECT * FROM pragma_table_list",
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


def test_a_question_about_columns_is_told_where_they_stand(database: GuardedDatabase) -> None:
    """Pragmas as tables are reading, so the refusal does not call them writing."""
    with pytest.raises(StatementError, match="SELECT sql FROM sqlite_master") as refusal:
        database.run("SELECT * FROM pragma_table_info('book')")
    assert "only reading" not in str(refusal.value)
    assert database.run("SELECT instr('abc', 'c')").rows == ((3,),)


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
    ("statement", "message"),
    [("", "write one SELECT"), ("SELEC 1", "write one SELECT"),
     ("SELECT * FROM boks", "no such table: boks; there are book"),
     ("SELECT page FROM book", "no such column: page"), ("SELECT ?", "too many SQL variables"),
     ("SELECT '\ud800'", "no text can hold"), ("SELECT '\0'", "null character"),
     ("SELECT 1; SELECT 2", "one statement"),
     ("SELECT CAST(x'ff' AS TEXT)", "decode"), ("SELECT " + "1" * MAX_STATEMENT_LENGTH, "this one has 4007"),
     ("SELECT noise(1)", "no such function: noise"), ("SELECT avg(", "incomplete input")],
)  # fmt: skip
def test_what_is_wrong_is_said(database: GuardedDatabase, statement: str, message: str) -> None:
    """In SQLite's words or ours."""
    with pytest.raises(StatementError, match=message):
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
    """At `MAX_ROWS`, and the result says that there were more."""
    result = database.run("SELECT a.id AS first, b.id FROM book a, book b")
    assert (len(result.rows), result.more, result.columns) == (MAX_ROWS, True, ("first", "id"))
    assert not database.run("SELECT id FROM book").more


WORDS = ("select", "from", "book", "(", ")", "with", "a", "as", ",", "*", "union", "'x", '"', "[", "--", "/*", "t.")


@settings(max_examples=75, deadline=None)
@given(st.text(max_size=60) | st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join))
def test_any_text_is_answered(text: str) -> None:
    """With a result or with an error that says something."""
    database = GuardedDatabase([Table("book", ("id INTEGER PRIMARY KEY",), [(1,)])])
    for statement in (text, f"SELECT {text}"):
        try:
            assert len(database.run(statement).rows) <= MAX_ROWS
        except StatementError as error:
            assert str(error)
    database.close()


_NAMES = st.sampled_from(["book", "a", "b", "x"])
_VALUES = st.recursive(
    st.sampled_from(["id", "title", "pages", "a.id", "1", "'x'", "NULL", "count(*)"]),
    lambda inner: (
        st.tuples(inner, st.sampled_from([" + ", " || ", " = ", " LIKE ", " AND ", ", "]), inner).map("".join)
        | inner.map(lambda text: f"max({text}) OVER (ORDER BY {text})")
        | inner.map(lambda text: f"(SELECT {text} FROM book)")
        | inner.map(lambda text: f"replace({text}, 'x', 'xxxxxxxx')")
        | inner.map(lambda text: f"CASE WHEN {text} THEN {text} ELSE 0 END")
    ),
    max_leaves=6,
)
_SOURCES = st.lists(st.tuples(_NAMES, _NAMES).map(" ".join), min_size=1, max_size=5).flatmap(
    lambda names: st.sampled_from([", ", " NATURAL JOIN ", " LEFT JOIN "]).map(lambda between: between.join(names))
)
_ENDS = st.sampled_from(["", " GROUP BY 1", " ORDER BY 1 DESC", " WHERE id IN (SELECT id FROM book)", " LIMIT -1"])
_SELECTS = st.tuples(_VALUES, _SOURCES, _ENDS).map(lambda parts: f"SELECT {parts[0]} FROM {parts[1]}{parts[2]}")
_STATEMENTS = st.tuples(_SELECTS, _SELECTS, _SELECTS, st.sampled_from([" UNION ", " UNION ALL ", " EXCEPT "])).map(
    lambda parts: f"WITH RECURSIVE a AS ({parts[0]}{parts[3]}SELECT * FROM a), b AS ({parts[1]}) {parts[2]}"
)


@settings(max_examples=60, deadline=None)
@given(_SELECTS | _STATEMENTS)
def test_any_statement_ends(statement: str) -> None:
    """Selects of selects, joins, recursive parts, windows: a result or an error, soon, and all rows are still there."""
    database = GuardedDatabase([Table("book", ("id INTEGER PRIMARY KEY", "title TEXT", "pages INTEGER"), ROWS)])
    began = time.process_time()
    try:
        assert len(database.run(statement).rows) <= MAX_ROWS
    except StatementError as error:
        assert str(error)
    assert time.process_time() - began < SECONDS
    assert database.run("SELECT count(*), sum(pages) FROM book").rows == ((100, 35350),)
    database.close()


def test_the_bound_on_growth_is_low_for_honest_statements_only() -> None:
    """It takes qualifiers for what they are, and parts that name each other for endless."""
    assert expanded_size(HONEST) < MAX_SIZE / 100
    assert expanded_size("SELECT t.a, t.b, t.c FROM t, (SELECT 1)") < 40
    assert expanded_size("WITH a AS (SELECT 1 FROM b), b AS (SELECT 1 FROM a) SELECT 1 FROM a") == float("inf")
    assert expanded_size(f"{RECURSIVE} SELECT x FROM c") < 200


@pytest.mark.parametrize("text", ["/*" * 1900, "/* */" * 790, "--\n" * 1300, " " * 3900, "--" * 1900])
def test_notes_alone_are_no_statement(database: GuardedDatabase, text: str) -> None:
    """However many stand there, that is said at once."""
    begin = time.perf_counter()
    with pytest.raises(StatementError, match="write one SELECT"):
        database.run(text)
    assert time.perf_counter() - begin < SECONDS
