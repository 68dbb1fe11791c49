"""Requests are fulfilled by the experts, and by nothing less."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_envs.todo.app import App
from agentgym_envs.todo.board import same_board, shift
from agentgym_envs.todo.env import TodoEnv, normalize
from agentgym_envs.todo.plan import format_call, write_sum_of_days
from agentgym_envs.todo.task_templates import MANY, SIZES
from agentgym_envs.todo.tools import TOOLS, call
from agentgym_envs.todo.training_words import WORDS
from agentgym_envs.todo.wording import ASK, COUNT, DO, EXCEPT, IF, WHAT
from agentgym_envs.todo.words import FILL
from agentgym_py.env import SPLITS
from agentgym_py.env.actions import format_reply, parse_reply
from agentgym_py.env.tools import RefusedError
from agentgym_py.env.wording import count_expansions, is_expansion
from agentgym_py.errors import SnapshotError
from agentgym_py.rng import Rng

LEVELS = ("easy", "medium", "hard")


def play(env: TodoEnv, actions: list[str]) -> tuple[float, bool]:
    """Reward and success at the end of a plan, all of whose actions are valid."""
    steps = [env.step(action) for action in actions]
    assert all(step[4]["valid_action"] for step in steps), env.current_task
    return steps[-1][1], steps[-1][4]["success"]


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("difficulty", LEVELS)
def test_both_experts_fulfil_every_request(difficulty: str, split: str) -> None:
    """In the promised number of steps; the fair one within the limit, and in a text that a small model can hold."""
    env = TodoEnv(difficulty=difficulty, split=split)
    for number in range(50):
        first, _ = env.reset(options={"task": number})
        size = len(first)
        assert env.current_task and env.current_task.optimal_steps == len(env.expert())
        assert play(env, env.expert()) == (1.0, True), env.current_task
        env.reset(options={"task": number})
        while not env.stop_reason:
            action = env.fair_expert()
            assert action is not None
            size += len(action) + len(env.step(action)[0])
        assert env.succeeded and size < 8000, env.current_task
        assert env.expert() == [] and env.fair_expert() is None


@pytest.mark.parametrize("difficulty", LEVELS)
def test_the_expert_mends_whatever_was_broken(difficulty: str) -> None:
    """After random calls of every tool, names and texts included, odd ones too, its plan still succeeds."""
    env = TodoEnv(difficulty=difficulty, max_steps=1000)
    for number in range(60):
        env.reset(options={"task": number})
        rng = Rng("break", number)
        for _ in range(rng.below(60)):
            env.step(stray(env, rng))
        assert play(env, env.expert()) == (1.0, True), (number, env.current_task)


def stray(env: TodoEnv, rng: Rng) -> str:
    """A call of any tool but `finish`, with arguments that may fit."""
    app = env._app
    names = [*app.board.projects, *app.board.labels, *(each for names in app.board.sections.values() for each in names)]
    texts = ["x", "Action: y", "My Action: {[", "<tool_call>{", '"\\', "Thought: \ud800", *rng.sample(names, 3)]
    project = rng.choice(list(app.board.projects))
    pools: dict[str, list[Any]] = {
        "task": list(app.board.tasks), "project": [project, texts[0]], "label": [*app.board.labels, rng.choice(texts)],
        "section": [*app.board.sections[project], rng.choice(texts)], "labels": [[]], "priority": [1, 2], "number": [1],
        "date": ["2026-08-01", app.today], "due": [app.today], "every": ["week", "day"], "page": [1],
    }  # fmt: skip
    tool = TOOLS[rng.choice([name for name in TOOLS if name != "finish"])]
    given = {each: rng.choice(pools.get(each, texts)) for each in (*tool.needs, *tool.takes)}
    return format_call(tool.name, given)


ODD = ["Action: x", "Action Input:", "<tool_call>{", "[[[{{{" * 20, '"', "\\", "é", "\ud800", "Observation:", "``` "]
texts = st.lists(st.sampled_from(ODD) | st.text(max_size=8), max_size=5).map(" ".join)


@settings(max_examples=100, deadline=None)
@given(text=texts, label=texts)
def test_a_written_call_reads_the_same(text: str, label: str) -> None:
    """Bare or in a frame, whatever labels, brackets and quotes stand in its texts."""
    arguments = {"task": "t1", "text": text, "labels": [label], "priority": 2}
    for said in (format_call("add_comment", arguments), format_reply(format_call("add_comment", arguments), "so")):
        reply = parse_reply(said)
        assert (reply.action, reply.arguments) == ("add_comment", arguments)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.sampled_from(["", "t1", "Inbox", "Work", "2026-03-02", "week"]),
    lambda inner: st.lists(inner, max_size=10) | st.dictionaries(st.sampled_from(["t1", "t99", "Inbox", "x"]), inner),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(key=st.sampled_from(["projects", "sections", "labels", "tasks", "over", "read"]), value=json_values)
def test_any_state_is_taken_up_whole_or_refused(key: str, value: Any) -> None:
    """Whatever JSON stands in a part of it; what is taken up gives the same snapshot again and can be played."""
    env = TodoEnv(difficulty="easy")
    env.reset(options={"task": 1})
    before = env.snapshot()
    whole = json.loads(before)
    whole["state"][key] = value
    try:
        env.restore(json.dumps(whole).encode())
    except SnapshotError:
        assert env.snapshot() == before
    else:
        assert json.loads(env.snapshot())["state"][key] == value
        assert play(env, env.expert()) == (1.0, True)


def test_no_shorter_way_is_found_by_search() -> None:
    """Among all changes of all tasks, sections and labels, none alone and no two do what three were promised for."""
    env, searched = TodoEnv(), 0
    for number in range(60):
        env.reset(options={"task": number})
        if env.current_task and env.current_task.optimal_steps == 4:
            searched += 1
            assert not reachable(env, changes(env)), env.current_task
    assert searched >= 5


def changes(env: TodoEnv) -> list[tuple[str, dict[str, Any]]]:
    """Calls that may help: what the plan does, and everything that touches several tasks at once."""
    plan = [parse_reply(action) for action in env.expert()[:-1]]
    found = [(reply.action, dict(reply.arguments or {})) for reply in plan]
    board = env._app.board
    found += [("delete_label", {"label": label}) for label in board.labels]
    found += [("add_label", {"label": label}) for label in board.labels]
    found += [("rename_label", {"label": a, "name": b}) for a in board.labels for b in board.labels]
    for project, sections in board.sections.items():
        found += [("delete_section", {"project": project, "section": each}) for each in sections]
        found += [("rename_section", {"project": project, "section": a, "name": b}) for a in sections for b in sections]
    found += [("delete_project", {"project": each}) for each in board.projects]
    ids = sorted({reply.arguments["task"] for reply in plan if reply.arguments and "task" in reply.arguments})
    for tid in ids:
        found += [(name, {"task": tid}) for name in ("complete_task", "delete_task", "reopen_task", "clear_due")]
    return found


def reachable(env: TodoEnv, calls: list[tuple[str, dict[str, Any]]]) -> bool:
    """Whether two of the calls make the board what it should be."""
    puzzle = env._puzzle
    for first in calls:
        for second in calls:
            app = App(puzzle.start.copy(), puzzle.today)
            try:
                call(app, *first)
                call(app, *second)
            except RefusedError:
                continue
            if same_board(app.board, puzzle.goal, puzzle.start):
                return True
    return False


def test_collateral_changes_count() -> None:
    """A task too many, or one left out, is no success and costs reward; undone, it costs nothing."""
    env = TodoEnv(difficulty="medium")
    env.reset(options={"task": next(n for n in range(99) if env.task(n).kind == "delete")})
    plan = env.expert()
    start = env.snapshot()
    spare = next(tid for tid, row in env._puzzle.goal.tasks.items() if row.open)
    delete, restore = (format_call(name, {"task": spare}) for name in ("delete_task", "restore_task"))
    for extra, wanted in (([delete], (0.0, 0.6)), ([], (1.0, 1.0))):
        env.restore(start)
        reward, success = play(env, [*extra, *plan])
        assert success == (not extra) and wanted[0] <= reward <= wanted[1]
    env.restore(start)
    reward, success = play(env, plan[1:])
    assert not success and 0 < reward < 1
    env.restore(start)
    play(env, [delete, restore])
    assert play(env, plan) == (1.0, True)


def test_a_wrong_answer_is_no_success() -> None:
    """Though the board is right; case, quotes and a full stop do not matter."""
    env = TodoEnv(difficulty="medium")
    asked = [n for n in range(99) if env.task(n).kind == "question"]
    number = next(n for n in asked if not env.puzzle_of(env.task(n)).answer.isdigit())
    for change, right in ((str.upper, True), (lambda text: f' "{text}." ', True), (lambda text: text[:-1], False)):
        env.reset(options={"task": number})
        answer = change(env._puzzle.answer)
        assert env.step(format_call("finish", {"answer": answer}))[4]["success"] is right
    assert normalize(" 'A  b.' ") == "a b"


@pytest.mark.parametrize("difficulty", LEVELS)
def test_who_does_not_think_fails(difficulty: str) -> None:
    """Chance, silence, one answer forever, and the request itself."""
    env = TodoEnv(difficulty=difficulty)
    finishes = [format_call("finish", {"answer": answer}) for answer in ("", "1", "2", "3", "4", "done", "Work", "yes")]
    won = dict.fromkeys((*finishes, "chance", "echo"), 0)
    for number in range(60):
        for player in won:
            first, _ = env.reset(options={"task": number})
            rng = Rng(player, number)
            while not env.stop_reason:
                env.step(player if player in finishes else first if player == "echo" else rng.choice(env.actions()))
            won[player] += env.succeeded
    assert max(won.values()) <= 4, won


def test_each_split_has_its_own_words() -> None:
    """No wording, and no word that fills it, belongs to two splits; and every wording takes what it is given."""
    tables = [*DO.values(), *WHAT.values(), *ASK.values(), EXCEPT, COUNT, IF]
    for table in tables:
        texts = [text for split in SPLITS for text in table[split]]
        assert len(set(texts)) == len(texts)
    for slot in FILL["train"]:
        words = [word.casefold() for split in SPLITS for word in FILL[split][slot]]
        assert len(set(words)) == len(words), slot


def test_the_card_says_what_differs() -> None:
    """The table of difficulties is that of the constants."""
    card = " ".join((TodoEnv.__doc__ or "").split())
    for level in LEVELS:
        by_filter = "" if level == "easy" else "{} to {} ".format(*MANY[level])
        assert "| {}, {} | {}| {} |".format(*SIZES[level], by_filter, TodoEnv.limits[level]) in card
        assert f"| {level} |" in card


def test_every_kind_of_request_has_several_wordings() -> None:
    """Two at least in each split, and all wordings of a kind hold the same fields but for the forms of a day."""
    for name, table in {**DO, **WHAT, **ASK, "except": EXCEPT, "count": COUNT, "if": IF}.items():
        assert all(len(table[split]) >= 2 for split in SPLITS), name
        held = {
            frozenset(re.findall(r"\{(\w+)\}", text.replace("{on}", "{when}")))
            for split in SPLITS
            for text in table[split]
        }
        assert len(held) == 1, name


def test_requests_use_all_that_the_application_has() -> None:
    """Sections, labels, priorities, days, repetitions and comments are asked for in every difficulty and split."""
    words = {"section": "section|keeps under|open under", "label": "label|tagged", "priority": "priority",
             "day": "due|overdue|day set|planned|dates", "repeat": "repeat|recur", "comment": "comment|I wrote",
             "project": "project", "trash": "trash|[Dd]iscard|[Dd]elet|Throw away|Get rid"}  # fmt: skip
    for difficulty in LEVELS:
        env = TodoEnv(difficulty=difficulty)
        for split in SPLITS:
            told = [env.task(number, split).instruction for number in range(150)]
            for what, wording in words.items():
                asked = sum(bool(re.search(wording, each)) for each in told)
                assert asked >= 5, (difficulty, split, what, asked)


def test_the_answer_is_a_secret_at_the_start() -> None:
    """It is named then, and stands in nothing that the world says before a tool is called."""
    env, by_title = TodoEnv(difficulty="medium"), 0
    for number in range(80):
        told, _ = env.reset(options={"task": number})
        secrets = env.secrets()
        assert set(secrets) <= {env.puzzle.answer}
        day = told.split("\n")[0]
        assert not any(re.search(rf"(?<!\w){re.escape(each)}(?!\w)", day) for each in secrets)
        by_title += bool(secrets)
        env.step("list_labels")
        assert env.secrets() == []
    assert by_title > 20


def test_no_request_stands_in_two_splits() -> None:
    """And few stand twice in one."""
    for difficulty in LEVELS:
        told = [{TodoEnv(difficulty=difficulty).task(n, split).instruction for n in range(80)} for split in SPLITS]
        assert not told[0] & told[1] and not told[0] & told[2] and not told[1] & told[2]
        assert all(len(each) > 65 for each in told)


def test_tool_calls_and_wrong_input() -> None:
    """OpenAI's form does the same; input that is no object is refused with an example."""
    env = TodoEnv()
    env.reset(seed=1)
    assert env.step(json.dumps({"name": "list_labels", "arguments": {}}))[4]["valid_action"]
    for text in ("Action: list_tasks\nAction Input: Work", "list_tasks\nAction Input: [1]", "Action: show_task"):
        observation, *_, info = env.step(text)
        assert not info["valid_action"] and ("JSON object" in observation or "needs 'task'" in observation)


def test_listed_actions_can_be_done() -> None:
    """Every one, after any walk."""
    env = TodoEnv(difficulty="hard", max_steps=1000)
    for seed in range(2):
        env.reset(seed=seed)
        rng = Rng("walk", seed)
        for _ in range(4):
            here = env.snapshot()
            for action in env.actions():
                assert env.step(action)[4]["valid_action"], action
                env.restore(here)
            env.step(rng.choice([each for each in env.actions() if each != "finish"]))


@pytest.mark.parametrize(
    "change",
    [{"tasks": {"t1": ["x"]}}, {"tasks": {"t99": None}}, {"tasks": {"t0": []}}, {"over": 1}, {"read": [9]},
     {"read": [0, 0]}, {"labels": ["a", "a"]}, {"labels": []}, {"projects": {"Inbox": True}},
     {"sections": {"Inbox": []}}],
)  # fmt: skip
def test_a_board_that_cannot_be_is_refused(change: dict[str, Any]) -> None:
    """Rows, ids, names and places are checked before anything is taken up."""
    env = TodoEnv()
    env.reset(seed=3)
    env.step(env.actions()[-1])
    before = env.snapshot()
    good = json.loads(before)
    with pytest.raises(SnapshotError):
        env.restore(json.dumps(good | {"state": good["state"] | change}).encode())
    assert env.snapshot() == before


def test_a_call_may_stand_in_one_line() -> None:
    """It does what the same call on two lines does."""
    env = TodoEnv()
    env.reset(options={"task": 0})
    before = env.snapshot()
    for one, two in (
        ("list_projects()", "list_projects"),
        ('show_task {"task": "t1"}', 'show_task\nAction Input: {"task": "t1"}'),
    ):
        env.restore(before)
        first = env.step(two)
        env.restore(before)
        assert env.step(one) == first and first[4]["valid_action"]


def test_training_wordings_are_rich() -> None:
    """Dozens for every kind of request, eight for every filter, and no held-out wording among them."""
    several = {"except": EXCEPT, "count": COUNT, "if": IF}
    for name, table in {**DO, **ASK, **several, **WHAT}.items():
        grammars = table["train"]
        assert sum(map(count_expansions, grammars)) >= (8 if name in WHAT or name in several else 12), name
        held_out = [text for split in ("valid", "test") for text in table[split]]
        assert not [text for text in held_out for grammar in grammars if is_expansion(text, grammar)]


def test_training_names_are_rich() -> None:
    """Hundreds of names, many of them made up; none is a held-out one."""
    env = TodoEnv(difficulty="easy")
    boards = [env.puzzle_of(env.task(number, "train")).start for number in range(150)]
    listed = {word.casefold() for words in WORDS.values() for word in words}
    held_out = {word.casefold() for split in ("valid", "test") for words in FILL[split].values() for word in words}
    for names in (
        {project for board in boards for project in board.projects},
        {section for board in boards for sections in board.sections.values() for section in sections},
        {label for board in boards for label in board.labels},
    ):
        made_up = [name for name in names if name.casefold() not in listed]
        assert len(names) > 100 and 0.3 < len(made_up) / len(names) < 0.5
        assert not {name.casefold() for name in names} & held_out
    titles = {row.title for board in boards for row in board.tasks.values()}
    assert len(titles) > 1500
    held_out_words = {word for slot in ("person", "city", "plant") for word in FILL["valid"][slot] + FILL["test"][slot]}
    assert not [title for title in titles if held_out_words & set(re.findall(r"[\w]+", title))]


@pytest.mark.parametrize("difficulty", LEVELS)
def test_thoughts_say_what_is_asked_and_what_is_left(difficulty: str) -> None:
    """The fair expert's thoughts name only tasks and answers that were shown, and at the end the answer."""
    env = TodoEnv(difficulty=difficulty, split="valid")
    for number in range(30):
        seen, _ = env.reset(options={"task": number})
        thoughts: list[str] = []
        while not env.stop_reason:
            action = env.fair_expert()
            assert action is not None
            assert env.expert_thought("list_labels") == ""
            thoughts.append(env.expert_thought(action))
            assert set(re.findall(r"\bt[0-9]+", thoughts[-1])) <= set(re.findall(r"\bt[0-9]+", seen)), thoughts[-1]
            if "Left: " in thoughts[-1]:
                left = thoughts[-1].rpartition("Left: ")[2]
                calls = [call.partition("\n") for call in env.expert()[:-1]]
                assert all(name in left for name, _, _ in calls)
                assert re.findall(r"\bt[0-9]+", left).count("t1") == sum('"t1"' in text for _, _, text in calls)
            seen += env.step(action)[0]
        assert thoughts[0].startswith("Asked: " if env.puzzle.notes else "Left: ")
        answer = env.puzzle.answer
        assert thoughts[-1].endswith(f"Answer: {answer}." if answer else "All is done.")


def test_thoughts_name_the_arguments_of_a_new_task_and_of_a_new_name() -> None:
    """All but a title, in the order of the call."""
    env = TodoEnv(difficulty="easy")
    kinds: set[str] = set()
    for number in range(300):
        env.reset(options={"task": number, "split": "train"})
        assert env.current_task is not None
        kind, action = env.current_task.kind, env.expert()[0]
        asked = env.expert_thought(action).partition(" Left: ")[0]
        name, *texts = action.split("\nAction Input: ")
        arguments = json.loads(texts[0]) if texts else {}
        if name == "add_task":
            wanted = [f"{key} {value}" for key, value in arguments.items() if key not in ("title", "labels")]
            wanted += [f"label {label}" for label in arguments.get("labels", ())]
            assert asked == f"Asked: new task, {', '.join(wanted)}."
        elif name in ("rename_project", "rename_section", "rename_label"):
            what = name.removeprefix("rename_")
            inside = f" of {arguments['project']}" if what == "section" else ""
            assert asked == f"Asked: {what} {arguments[what]}{inside}, new name {arguments['name']}."
        else:
            continue
        kinds.add(kind)
    assert kinds == {"add", "rename project", "rename section", "rename label"}


@pytest.mark.parametrize(
    ("old", "new", "written"),
    [
        ("2027-01-26", "2027-01-28", "26 + 2 = 28"),
        ("2039-05-26", "2039-06-02", "26 + 7 = 33, 33 - 31 = 2"),
        ("2028-02-28", "2028-03-01", "28 + 2 = 30, 30 - 29 = 1"),
    ],
)
def test_a_sum_of_days_is_written_out(old: str, new: str, written: str) -> None:
    """Within a month, and into the next one of 31 and of 29 days."""
    assert write_sum_of_days(old, new) == written


@pytest.mark.parametrize("difficulty", LEVELS)
def test_only_a_day_that_is_put_off_is_counted(difficulty: str) -> None:
    """From the day at the start, by the days asked for; not after a wrong day was set."""
    env, counted = TodoEnv(difficulty=difficulty), 0
    for number in range(400):
        env.reset(options={"task": number, "split": "train"})
        assert env.current_task is not None
        if "postpone" not in env.current_task.kind:
            continue
        asked = {int(days) for note in env.puzzle.notes for days in re.findall(r"due date \+ (\d+)", note)}
        while action := env.fair_expert():
            thought = env.expert_thought(action)
            if found := re.search(r"(t\d+) due: \S+, \d+ \+ (\d+) = .*? -> (\S+)\. Left", thought):
                assert int(found[2]) in asked and shift(env.puzzle.start.tasks[found[1]].due, int(found[2])) == found[3]
                counted += 1
                before = env.snapshot()
                env.step(f'set_due\nAction Input: {{"task": "{found[1]}", "date": "2001-01-01"}}')
                again = next(call for call in env.expert() if f'"{found[1]}"' in call)
                assert " = " not in env.expert_thought(again)
                env.restore(before)
            env.step(action)
    assert counted > 5


def test_what_is_due_today_is_open() -> None:
    """Held-out wordings say so, because a task that is done may be due, too."""
    assert all("open" in text for split in ("valid", "test") for text in WHAT["today"][split])
