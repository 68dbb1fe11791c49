"""Dates of tasks that repeat, and when two boards are the same."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agentgym_envs.todo.board import EVERY, Board, Row, facts, is_day, next_due, same_board, shift, weekday

DAYS = st.dates(date(2000, 1, 1), date(2090, 12, 31)).map(date.isoformat)


@given(due=DAYS | st.just(""), every=st.sampled_from(EVERY), today=DAYS)
def test_a_task_that_repeats_is_next_due_after_today_and_after_its_day(due: str, every: str, today: str) -> None:
    """And on one of its own days: that many days on, a weekday, or the same day of a month."""
    found, start = next_due(due, every, today), due or today
    assert found > today and found > due and is_day(found)
    apart = (date.fromisoformat(found) - date.fromisoformat(start)).days
    assert every not in ("week", "2 weeks") or apart % {"week": 7, "2 weeks": 14}[every] == 0
    assert every != "weekday" or weekday(found) not in ("Saturday", "Sunday")
    if every == "month":
        last = (date.fromisoformat(found[:8] + "28") + timedelta(4)).replace(day=1) - timedelta(1)
        assert int(found[8:]) == min(int(start[8:]), last.day)


@given(due=DAYS, every=st.sampled_from(EVERY[:4]), late=st.integers(-40, 40))
def test_no_day_of_it_is_left_out(due: str, every: str, late: int) -> None:
    """Counting day by day from its day finds the same."""
    today, day = shift(due, late), due
    while True:
        day = shift(day, {"week": 7, "2 weeks": 14}.get(every, 1))
        if day > today and (every != "weekday" or weekday(day) not in ("Saturday", "Sunday")):
            break
    assert next_due(due, every, today) == day


@pytest.mark.parametrize(
    ("due", "today", "wanted"),
    [("2026-01-31", "2026-01-31", "2026-02-28"), ("2026-01-31", "2026-02-28", "2026-03-31"),
     ("2025-12-05", "2026-03-05", "2026-04-05"), ("2026-05-05", "2026-03-01", "2026-06-05")],
)  # fmt: skip
def test_months_that_are_too_short_give_their_last_day(due: str, today: str, wanted: str) -> None:
    """And the next one has the day again."""
    assert next_due(due, "month", today) == wanted


@pytest.mark.parametrize(
    "text", ["2026-02-30", "2026-13-01", "20260101", "2026-W01-1", "1999-12-31", "2100-01-01", "٢٠٢٦-01-01", ""]
)
def test_what_is_no_day(text: str) -> None:
    """Neither other ways to write one nor years beyond the calendar."""
    assert not is_day(text) and is_day("2028-02-29")


@given(st.text(max_size=12) | st.text(st.sampled_from("0129-"), min_size=8, max_size=10) | DAYS)
def test_a_day_is_what_the_calendar_has(text: str) -> None:
    """As Python's own calendar says, in the one form and between the first and the last year."""
    try:
        known = date.fromisoformat(text)
    except ValueError:
        assert not is_day(text)
    else:
        assert is_day(text) == (known.isoformat() == text and 2000 <= known.year <= 2099)


def board(*rows: Row) -> Board:
    """A board with some tasks."""
    tasks = {f"t{n}": row for n, row in enumerate(rows, 1)}
    return Board({"Inbox": False, "Work": False}, {"Inbox": (), "Work": ("A", "B")}, ("x", "y"), tasks)


def test_order_does_not_matter_and_all_else_does() -> None:
    """Sections, labels, comments and new tasks in any order make the same board; any field makes another."""
    start = board(Row("One", comments=("a", "b")))
    new, other = Row("New", "Work"), Row("New", due="2026-01-01")
    left, right = start.copy(), start.copy()
    left.tasks |= {"t2": new, "t3": other}
    right.tasks |= {"t1": Row("One", comments=("b", "a")), "t2": Row("Slip", deleted=True), "t3": other, "t4": new}
    right.sections["Work"], right.labels = ("B", "A"), ("y", "x")
    assert same_board(left, right, start) and same_board(right, left, start)
    for change in ({"title": "X"}, {"due": "2026-01-02"}, {"priority": 1}, {"labels": ("x",)}, {"done": True},
                   {"every": "day"}, {"deleted": True}, {"section": "A"}, {"comments": ()}):  # fmt: skip
        changed = left.copy()
        changed.tasks["t1"] = start.tasks["t1"]._replace(**change)
        assert not same_board(changed, left, start) and facts(changed, start) != facts(left, start), change
    for name in ("projects", "sections", "labels"):
        changed = left.copy()
        setattr(changed, name, {"projects": left.projects | {"Work": True}, "sections": left.sections | {"Work": ()},
                                "labels": ("x",)}[name])  # fmt: skip
        assert not same_board(changed, left, start) and facts(changed, start) != facts(left, start), name


ROWS = st.builds(
    Row, st.sampled_from(["One", "Two"]), section=st.sampled_from(["", "A"]), priority=st.sampled_from([1, 4]),
    comments=st.sampled_from([(), ("a", "b"), ("b", "a")]), done=st.booleans(), deleted=st.booleans(),
)  # fmt: skip


@given(st.lists(ROWS, max_size=3), st.lists(ROWS, min_size=1, max_size=4), st.lists(ROWS, min_size=1, max_size=4))
def test_boards_are_the_same_just_when_their_facts_are(old: list[Row], left: list[Row], right: list[Row]) -> None:
    """So that full reward and success never fall apart, where no two new tasks have one title."""
    start = board(*old)
    one, two = (board(*(rows + old)[: max(len(rows), len(old))]) for rows in (left, right))
    for each in (one, two):
        new = [row.title for tid, row in each.tasks.items() if tid not in start.tasks and not row.deleted]
        assume(len(set(new)) == len(new))
    assert same_board(one, two, start) == (facts(one, start) == facts(two, start))


def test_what_is_in_the_trash_is_only_that() -> None:
    """A task that was changed and then deleted is as deleted as another."""
    start = board(Row("One"))
    one, two = start.copy(), start.copy()
    one.tasks["t1"] = Row("One", deleted=True)
    two.tasks["t1"] = Row("Two", priority=1, deleted=True)
    assert same_board(one, two, start) and facts(one, start) == facts(two, start)
