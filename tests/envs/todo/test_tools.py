"""What the tools do, say and refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_envs.todo.app import App
from agentgym_envs.todo.board import Board, Row, board_from_json
from agentgym_envs.todo.tools import ARGUMENTS, TOOLS, call
from agentgym_py.env.tools import RefusedError

WORDS = st.sampled_from(
    ["t1", "t2", "t3", "t4", "Work", "Home", "Inbox", "A", "red", "2026-03-02", "overdue", "none", "", "a  b"]
)
ANA = "t1 Call Ana | Work > A | due 2026-03-02 | p1 | #red | every week"
BRUNO = "t2 Call Bruno | Work | #blue | #red | 2 comments"
VALUES = WORDS | st.text(max_size=5) | st.integers(-2, 5) | st.none() | st.booleans() | st.lists(WORDS, max_size=2)


def app() -> App:
    """Four tasks on a Wednesday."""
    tasks = {
        "t1": Row("Call Ana", "Work", "A", "2026-03-02", 1, ("red",), "week"),
        "t2": Row("Call Bruno", "Work", labels=("blue", "red"), comments=("one", "two")),
        "t3": Row("Dig", "Home", done=True),
        "t4": Row("Lost", "Home", deleted=True),
    }
    sections: dict[str, tuple[str, ...]] = {"Inbox": (), "Work": ("A", "B"), "Home": ()}
    return App(Board(dict.fromkeys(sections, False), sections, ("blue", "red"), tasks), "2026-03-04")


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("list_tasks", {}, f"2 tasks\n{ANA}\n{BRUNO}"),
        ("list_tasks", {"due": "overdue", "priority": 1}, f"1 task\n{ANA}"),
        ("list_tasks", {"label": "blue", "due": "none"}, f"1 task\n{BRUNO}"),
        ("list_tasks", {"project": "Work", "section": "B"}, "0 tasks"),
        ("list_due", {"start": "2026-03-02", "end": "2026-03-02"}, f"1 task\n{ANA}"),
        ("list_done", {}, "1 task\nt3 Dig | Home | done"),
        ("list_trash", {}, "1 task\nt4 Lost | Home | in the trash"),
        ("search_tasks", {"text": "bruno"}, f"1 task\n{BRUNO}"),
        ("show_task", {"task": "t2"}, f"{BRUNO}\ncomment 1: one\ncomment 2: two"),
        ("list_projects", {}, "Inbox: 0 open\nWork: 2 open; sections: A, B\nHome: 0 open"),
        ("list_labels", {}, "Labels: blue, red"),
        ("complete_task", {"task": "t1"}, "t1 done for now, due: 2026-03-02 -> 2026-03-09"),
        ("complete_task", {"task": "t2"}, "t2 done"),
        ("reopen_task", {"task": "t3"}, "t3 open again"),
        ("set_due", {"task": "t2", "date": "2026-03-05"}, "t2 due: none -> 2026-03-05"),
        ("move_task", {"task": "t1", "project": "Home"}, "t1 place: Work > A -> Home"),
        ("label_task", {"task": "t1", "label": "blue"}, "t1 labels: blue, red"),
        ("unlabel_task", {"task": "t1", "label": "red"}, "t1 labels: none"),
        ("delete_comment", {"task": "t2", "number": 1}, "t2 comment 1 deleted: one"),
        ("delete_label", {"label": "red"}, "Label red deleted; it was on t1, t2"),
        ("restore_task", {"task": "t4"}, "Restored t4 Lost | Home"),
        ("add_task", {"title": " New  one ", "labels": ["red", "red"]}, "Added t5 New one | Inbox | #red"),
    ],
)  # fmt: skip
def test_what_a_tool_says(name: str, arguments: dict[str, Any], said: str) -> None:
    """Lists are one line a task; a change says what was before."""
    assert call(app(), name, arguments) == said


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("list_task", {}, "Did you mean 'list_tasks'"),
        ("show_bin", {}, "Did you mean 'show_task'"),
        ("set_due", {"task": "t1"}, r"set_due needs 'date'; it is set_due\(task, date\)"),
        ("set_due", {"task": "t1", "date": "tomorrow"}, "write YYYY-MM-DD"),
        ("set_due", {"task": "t1", "date": "2026-03-04", "x": 1}, "takes no 'x'"),
        ("set_priority", {"task": "t1", "priority": "1"}, "must be of type integer"),
        ("set_priority", {"task": "t1", "priority": True}, "must be of type integer"),
        ("set_priority", {"task": "t1", "priority": 5}, "one of 1, 2, 3, 4"),
        ("set_repeat", {"task": "t1", "every": "year"}, "one of day, weekday"),
        ("complete_task", {"task": "t9"}, "No task 't9'"),
        ("complete_task", {"task": 1}, "No task '1'"),
        ("complete_task", {"task": "t3"}, "done already"),
        ("complete_task", {"task": "t4"}, "restore_task brings it back"),
        ("move_task", {"task": "t1", "project": "Wrok"}, "Did you mean 'Work'"),
        ("move_task", {"task": "t1", "project": "Work", "section": "C"}, "No section 'C' in Work"),
        ("list_tasks", {"section": "A"}, "needs its 'project'"),
        ("list_tasks", {"page": 2}, "There is 1 page"),
        ("unlabel_task", {"task": "t1", "label": "blue"}, "it has red"),
        ("label_task", {"task": "t1", "label": "red"}, "has the label red already"),
        ("delete_comment", {"task": "t1", "number": 1}, "t1 has no comments"),
        ("delete_project", {"project": "Work"}, "still has 2 tasks"),
        ("rename_project", {"project": "Inbox", "name": "X"}, "stays as it is"),
        ("rename_project", {"project": "Work", "name": "Home"}, "already"),
        ("delete_section", {"project": "Work", "section": "A"}, "still has 1 task,"),
        ("add_label", {"label": "x" * 41}, "1 to 40 characters"),
        ("add_task", {"title": "  "}, "1 to 200 characters"),
        ("add_task", {"title": "x", "labels": [1]}, "list of strings"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_reason(name: str, arguments: dict[str, Any], why: str) -> None:
    """And nothing has changed then."""
    one = app()
    with pytest.raises(RefusedError, match=why):
        call(one, name, arguments)
    assert one == app()


@settings(max_examples=60, deadline=None)
@given(calls=st.lists(st.tuples(st.sampled_from(sorted(TOOLS)), st.data()), max_size=6))
def test_no_arguments_break_a_tool(calls: list[tuple[str, st.DataObject]]) -> None:
    """Whatever is called, it is done or refused, and the board stays one that a snapshot can hold."""
    one, start = app(), app().board
    for name, data in calls:
        tool = TOOLS[name]
        given_ = {each: data.draw(VALUES) for each in (*tool.needs, *tool.takes) if data.draw(st.integers(0, 5))}
        before = one.board.copy()
        try:
            assert call(one, name, given_)
        except RefusedError as refused:
            assert str(refused) and one.board == before
        held = json.loads(json.dumps(one.board.to_json(start)))
        assert board_from_json(held, start) == one.board


def test_renaming_keeps_what_is_inside() -> None:
    """A project's, a section's and a label's tasks follow the new name."""
    one = app()
    call(one, "rename_section", {"project": "Work", "section": "A", "name": "C"})
    call(one, "rename_project", {"project": "Work", "name": "Job"})
    call(one, "rename_label", {"label": "red", "name": "amber"})
    assert one.board.tasks["t1"][1:3] == ("Job", "C") and one.board.tasks["t2"].labels == ("amber", "blue")


def test_what_lost_its_place_is_restored_to_the_inbox() -> None:
    """A deleted task outlives its project."""
    one = app()
    call(one, "delete_task", {"task": "t3"})
    call(one, "delete_project", {"project": "Home"})
    assert call(one, "restore_task", {"task": "t4"}) == "Restored t4 Lost | Inbox"


def test_a_long_list_has_pages() -> None:
    """Twenty tasks each."""
    one = app()
    for number in range(30):
        call(one, "add_task", {"title": f"T{number}"})
    assert call(one, "list_tasks", {}).startswith("32 tasks, page 1 of 2\nt1 ")
    assert len(call(one, "list_tasks", {"page": 2}).split("\n")) == 13
    for number in range(5, 35):
        call(one, "set_due", {"task": f"t{number}", "date": "2026-03-09"})
    days = {"start": "2026-03-09", "end": "2026-03-09"}
    listed = call(one, "list_due", days).split("\n")
    assert listed[0] == "30 tasks; of fewer days more are shown. The first 20:" and len(listed) == 21


def test_an_archived_project_is_listed_only_by_its_name() -> None:
    """Its tasks are still there."""
    one = app()
    call(one, "archive_project", {"project": "Work"})
    assert call(one, "list_tasks", {}) == "0 tasks" and call(one, "list_tasks", {"project": "Work"})[0] == "2"


def test_schemas_name_every_argument() -> None:
    """Each tool is an OpenAI function whose required arguments are among its properties."""
    assert 30 <= len(TOOLS) <= 40
    for tool in TOOLS.values():
        function = tool.schema()["function"]
        assert set(function["parameters"]["required"]) <= set(function["parameters"]["properties"]) <= set(ARGUMENTS)
        assert function["description"].endswith(".") and json.dumps(function)
