"""How the fair expert reads a question: what it is certain of, and what it looks at."""

from __future__ import annotations

import pytest

from agentgym_envs.sql.domains import DOMAINS
from agentgym_envs.sql.env import SQLEnv
from agentgym_envs.sql.reading import Mention, looks_for, stems, table_note
from agentgym_envs.sql.tables import Layout, Names
from agentgym_py.env import SPLITS

LIBRARY = Layout(
    DOMAINS[0],
    (
        Names("writers", "name", "awards_won", "nation", "", {}),
        Names("book", "title", "page_count", "category", "author_id", {}),
        Names("lendings", "", "days", "branch", "book_id", {}),
    ),
    ((), (), ()),
)
"""Authors, books and loans; half of the names are synonyms."""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Copies of the bus", {"copy", "bus"}), ("no_of_pages", {"page"}), ("classes", {"classe"}),
        ("branches, annexes", {"branch", "annex"}), ("trains_run", {"train", "run"}), ("", set()),
    ],
)  # fmt: skip
def test_stems_are_words_in_the_singular(text: str, words: set[str]) -> None:
    """Without the words that names are decorated with; short words keep their s."""
    assert stems(text) == words


def test_a_table_is_found_by_name_by_link_or_as_the_rest() -> None:
    """In this order."""
    assert table_note(LIBRARY, 1, "books") == "books = book"
    assert table_note(LIBRARY, 0, "authors") == "author_id in book: authors = writers"
    assert table_note(LIBRARY, 2, "loans") == "the rest: loans = lendings"


@pytest.mark.parametrize(
    ("level", "kind", "text", "looks"),
    [
        (1, "amount", "How many books with more than 300 pages are there?", []),
        (2, "amount", "How many loans of more than 3 days are there?", []),
        (1, "choice", "How many books of the genre crime are there?", ["category"]),
        (0, "amount", "How many authors with more than 3 prizes are there?", ["nation"]),
        (0, "choice", "How many authors from Norway are there?", ["nation"]),
    ],
)  # fmt: skip
def test_a_column_that_is_not_named_is_looked_for(level: int, kind: str, text: str, looks: list[str]) -> None:
    """At the first column that may be meant, which settles the other one, too."""
    mention = Mention(level, kind, "about")  # type: ignore[arg-type]
    found = looks_for(LIBRARY, [mention], text)
    assert [look.column for look in found] == looks
    assert all(look.statement == f"SELECT DISTINCT {look.column} FROM {look.table}" for look in found)


def test_the_last_column_left_needs_no_look() -> None:
    """Pages are named, so the genre is the other column; of two unknown columns one look settles both."""
    pages, genre = Mention(1, "amount", "more than 3 pages"), Mention(1, "choice", "genre crime")
    assert looks_for(LIBRARY, [genre, pages], "Books of the genre crime with more than 3 pages") == []
    prizes, country = Mention(0, "amount", "the most prizes"), Mention(0, "choice", "country Peru")
    (look,) = looks_for(LIBRARY, [prizes, country], "the author from Peru with the most prizes")
    assert (look.table, look.column, look.about, look.is_known) == ("writers", "nation", "the most prizes", False)


@pytest.mark.parametrize("difficulty", ["easy", "medium", "hard"])
def test_an_answer_uses_only_columns_that_are_certain(difficulty: str) -> None:
    """Each is named in the question, was looked at, or is the only one that was not."""
    env = SQLEnv(difficulty=difficulty)
    for number in range(60):
        env.reset(options={"task": number, "split": SPLITS[number % 3]})
        puzzle = env.puzzle
        asked, sql = stems(puzzle.question.words), puzzle.question.sql
        seen = {(look.table, look.column) for look in puzzle.question.looks}
        for names in puzzle.layout.names:
            if names.table not in sql:
                continue
            others = [each for each in names.columns() if each not in ("id", names.label, names.link)]
            open_ = [each for each in others if not stems(each) & asked and (names.table, each) not in seen]
            assert not [each for each in open_ if each in sql.replace(names.table, "")] or len(open_) == 1
