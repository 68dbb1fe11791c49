"""AgentSQL: its questions, how answers are judged, and what the fair expert looks at."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections import Counter, defaultdict
from contextlib import closing
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_envs.sql import subjects, vocabulary, wording, words
from agentgym_envs.sql.domains import DOMAINS, Entity
from agentgym_envs.sql.env import SQLEnv, _answer, _unique_answer
from agentgym_envs.sql.guard import Result
from agentgym_envs.sql.questions import Question
from agentgym_envs.sql.tables import Layout
from agentgym_py.env import SPLITS
from agentgym_py.env.wording import count_expansions, is_expansion
from agentgym_py.errors import CatalogueError, SnapshotError
from agentgym_py.rng import Rng

LEVELS = ("easy", "medium", "hard")


@pytest.mark.parametrize("difficulty", LEVELS)
def test_both_experts_answer(difficulty: str) -> None:
    """The expert at once, the fair one after the looks that it needs; none is thoughtless."""
    env = SQLEnv(difficulty=difficulty)
    looks = 0
    for number in range(60):
        env.reset(options={"task": number, "split": SPLITS[number % 3]})
        assert env.step(env.expert()[0])[4]["success"], env.current_task
        env.reset(options={"task": number, "split": SPLITS[number % 3]})
        while not env.stop_reason:
            info = env.step(env.fair_expert() or "")[4]
            assert info["valid_action"]
        assert env.succeeded
        looks += env.steps - 1
    assert looks >= (10 if difficulty == "easy" else 30)


def test_a_value_is_not_known_before_it_is_seen() -> None:
    """In medium and hard some statements compare with what the question does not say, and each such was looked up."""
    env = SQLEnv(difficulty="medium")
    hidden = 0
    for number in range(80):
        first, _ = env.reset(options={"task": number})
        statement = env.expert()[0]
        values = [part.split("'")[0] for part in statement.split(" = '")[1:]]
        unseen = [value for value in values if value not in first]
        hidden += bool(unseen)
        seen = first
        while (action := env.fair_expert()) is not None and action.startswith("query"):
            seen += env.step(action)[0]
        assert all(value in seen for value in values), (first, statement)
    assert hidden >= 10


def test_hard_shows_columns_only_on_request() -> None:
    """The names of the tables stand there, and what can be done names no column."""
    env = SQLEnv(difficulty="hard")
    first, _ = env.reset(seed=3)
    names = env.puzzle.layout.names
    assert all(each.table in first for each in names) and "(" not in first.split("Tables:")[1]
    assert not any(each.link and each.link in action for each in names for action in env.actions())
    assert env.fair_expert() == "query[SELECT sql FROM sqlite_master]"
    assert all(each.amount in env.step("query[SELECT sql FROM sqlite_master]")[0] for each in names)


def test_a_result_that_is_written_down_is_no_answer() -> None:
    """Right on the database, wrong on its twin: that ends the episode without success."""
    env = SQLEnv(difficulty="easy")
    copied = 0
    for number in range(40):
        env.reset(options={"task": number})
        if env.current_task is None or env.current_task.kind != "count":
            continue
        (count,) = env.database.run(env.puzzle.question.sql).rows[0]
        _, reward, terminated, _, info = env.step(f"answer[SELECT {count!r}]")
        assert (reward, terminated, info["success"]) == (0.0, True, False)
        assert info["reward_parts"] == {"shown": 1.0, "twin": 0.0}
        copied += 1
    assert copied > 3


def test_a_rounded_number_is_no_answer_and_the_rules_say_so() -> None:
    """A statement that rounds the right average to two decimals is wrong."""
    env = SQLEnv(difficulty="medium")
    assert "Do not round numbers." in env.rules["full"]
    rounded = 0
    for number in range(200):
        env.reset(options={"task": number, "split": "test"})
        if sql := re.fullmatch(r"SELECT (AVG\([^()]*\)) (FROM .*)", env.puzzle.question.sql):
            rounded += not env.step(f"answer[SELECT ROUND({sql[1]}, 2) {sql[2]}]")[4]["success"]
    assert rounded > 5


@pytest.mark.parametrize("difficulty", LEVELS)
def test_a_twin_answers_otherwise(difficulty: str) -> None:
    """For every task a twin is found on which the right statement gives another result."""
    env = SQLEnv(difficulty=difficulty)
    for number in range(40):
        env.reset(options={"task": number})
        sql = env.puzzle.question.sql
        twin, answer = env.twin()
        assert _answer(twin.run(sql)) == answer != _answer(env.database.run(sql)) == env.puzzle.answer, env.current_task


def test_a_twin_that_answers_the_same_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws with the same answer are passed over, however many; where all are such, that is said."""
    env = SQLEnv(difficulty="easy")
    env.reset(options={"task": 0})
    drawn, same = env._draw_twin, env.puzzle.answer
    monkeypatch.setattr(env, "_draw_twin", lambda number: drawn(number) if number == 70 else (drawn(0)[0], same))
    assert env.twin()[1] == drawn(70)[1] != same
    monkeypatch.setattr(env, "_draw_twin", lambda _: (drawn(0)[0], same))
    monkeypatch.setattr("agentgym_envs.sql.env._MAX_TWINS", 70)
    with pytest.raises(CatalogueError, match="no other rows"):
        env.twin()


def near_misses(question: Question, layout: Layout) -> dict[str, list[str]]:
    """Statements that answer another question, by what is wrong with them."""
    sql, kind, misses = question.sql, question.kind, defaultdict[str, list[str]](list)
    for bound in re.finditer(r" ([<>]) (?=\d)", sql):
        misses["bound"].append(f"{sql[: bound.start(1)]}{bound[1]}={sql[bound.end(1) :]}")
    before, where, rest = sql.rpartition(" WHERE ")
    ending = re.search(r"$" if kind == "above" else r" GROUP BY| ORDER BY|\)?$", rest)
    assert ending
    conditions = rest[: ending.start()].split(" AND ") if where and "NOT IN" not in rest else []
    for place, condition in enumerate(conditions):
        others = [*conditions[:place], *conditions[place + 1 :]]
        for name, instead in (("dropped", others or ["1"]), ("inverted", [*others, f"NOT ({condition})"])):
            misses[name].append(f"{before} WHERE {' AND '.join(instead)}{rest[ending.start() :]}")
    if " DESC" in sql:
        misses["order"].append(sql.replace(" DESC", ""))
    if kind == "above" and (found := re.search(r"(FROM .*) WHERE (.*) AND (\S+) > (\(.*\))", sql)):
        misses["average of some"].append(sql.replace(found[4], f"(SELECT AVG({found[3]}) {found[1]} WHERE {found[2]})"))
    if kind == "busiest":
        table = re.search(r"FROM (\w+)", sql)
        amount = next(names.amount for names in layout.names if table and names.table == table[1])
        misses["sum"].append(sql.replace("COUNT(*)", f"SUM({amount})"))
    if kind == "several":
        misses["number"] += [sql.replace(">= ", sign) for sign in ("= ", "> ")]
    return misses


@pytest.mark.parametrize("difficulty", LEVELS)
def test_a_near_miss_is_wrong(difficulty: str) -> None:
    """Another bound, a condition less or inverted, another order, sum or average: what holds here fails on a twin."""
    env, tried = SQLEnv(difficulty=difficulty), Counter[tuple[str, str]]()
    for number, split in product(range(60), ("train", "test")):
        env.reset(options={"task": number, "split": split})
        question = env.puzzle.question
        for name, statements in near_misses(question, env.puzzle.layout).items():
            for statement in statements:
                env.reset(options={"task": number, "split": split})
                info = env.step(f"answer[{statement}]")[4]
                assert info["valid_action"] and not info["success"], (env.current_task, statement)
                tried[question.kind, name] += info["reward_parts"]["shown"]
    wanted = {
        "easy": [("count", "bound"), ("names", "bound")],
        "medium": [("count", "bound"), ("per", "bound"), ("average", "bound")],
        "hard": [("above", "average of some"), ("busiest", "sum"), ("several", "number"), ("share", "bound")],
    }
    assert all(tried[pair] for pair in wanted[difficulty]), tried


def equivalents(question: Question) -> list[str]:
    """Other ways to write the right statement."""
    sql, others = question.sql, [question.sql.replace("COUNT(*)", "COUNT(1)")]
    others.append(re.sub(r"([\w.]+) ([<>]) (\d+)", lambda m: f"{m[3]} {'<' if m[2] == '>' else '>'} {m[1]}", sql))
    if join := re.search(r"FROM (\w+) JOIN (\w+) ON \2\.id = \1\.(\w+) WHERE", sql):
        child, parent, link = join.groups()
        parts = re.split(" GROUP BY| ORDER BY", sql[join.end() :])[0].split(" AND ")
        if "SELECT AVG" not in sql and f"SELECT {parent}." not in sql and sql.count(" JOIN ") == 1:
            own = [part.strip() for part in parts if not part.strip().startswith(f"{parent}.")]
            above = [part.strip() for part in parts if part.strip().startswith(f"{parent}.")]
            nested = f"{child}.{link} IN (SELECT id FROM {parent} WHERE {' AND '.join(above or ['1'])})"
            others.append(
                sql[: join.start()] + f"FROM {child} WHERE {' AND '.join([nested, *own])}"
                + sql[join.end() + len(" AND ".join(parts)) :]
            )  # fmt: skip
        others.append(
            re.sub(rf"\b{child}\.", "a.", sql.replace(join[0], join[0].replace(f"FROM {child}", f"FROM {child} a")))
        )
        others.append(sql.replace(f"FROM {child} JOIN {parent}", f"FROM {parent} JOIN {child}"))
    return others


@pytest.mark.parametrize("difficulty", LEVELS)
def test_the_right_statement_may_be_written_otherwise(difficulty: str) -> None:
    """With other aliases, a subquery for a join, another count, comparisons from right to left."""
    env, tried = SQLEnv(difficulty=difficulty), 0
    for number, split in product(range(16), SPLITS):
        env.reset(options={"task": number, "split": split})
        for statement in {env.puzzle.question.sql, *equivalents(env.puzzle.question)}:
            env.reset(options={"task": number, "split": split})
            assert env.step(f"answer[{statement}]")[4]["success"], (env.current_task, statement)
            tried += 1
    assert tried > 48


def test_groups_without_rows_may_be_listed() -> None:
    """A group whose number is 0 may be there or not; no other number may be."""
    env, with_zero = SQLEnv(difficulty="medium"), 0
    for number in range(60):
        env.reset(options={"task": number, "split": "test"})
        found = re.fullmatch(r"SELECT (\S+), COUNT\(\*\) (FROM .*) WHERE (.*) GROUP BY \S+", env.puzzle.question.sql)
        if not found:
            continue
        rest = f"{found[2]} GROUP BY {found[1]}"
        statement = f"SELECT {found[1]}, SUM(CASE WHEN {found[3]} THEN 1 ELSE 0 END) {rest}"
        with_zero += 0 in {row[1] for row in env.database.run(statement).rows}
        assert env.step(f"answer[{statement}]")[4]["success"], env.current_task
        env.reset(options={"task": number, "split": "test"})
        assert not env.step(f"answer[{statement.replace('ELSE 0', 'ELSE 1')}]")[4]["success"]
    assert with_zero > 3


def test_held_out_questions_suit_people_and_things() -> None:
    """A person is no "its", and the painters are none "for which"."""
    for kind, texts in wording.WORDINGS.items():
        for text in (*texts["valid"], *texts["test"]) if kind in ("lookup", "without", "several") else ():
            assert not re.search(r"\bits\b|\bfor which\b|\ba \{one\}", text), text


@pytest.mark.parametrize(
    "form",
    [
        "Thought: so\nAction: answer[\n{sql}\n]",
        "Thought: so\nAction: answer[```sql\n{sql}\n```]",
        "Action: answer[SELECT * FROM (\n{sql}\n)]\nObservation: [no]",
        "Action: answer\nAction Input: ```sql\n{sql}\n```",
        "answer[\n-- a note\n{sql}]",
        "answer[/* a note */ {sql}]",
        "answer[``` {sql}```]",
    ],
)
def test_a_statement_may_stand_on_lines_in_fences_and_under_a_note(form: str) -> None:
    """As models write it."""
    env = SQLEnv(difficulty="easy")
    env.reset(options={"task": 1})
    assert env.step(form.format(sql=env.puzzle.question.sql))[4]["success"]


def test_a_rare_condition_has_a_twin_that_finds_nothing() -> None:
    """Where no draw has an answer worth asking for, one without rows or with 0 keeps a copied result wrong."""
    env = SQLEnv(difficulty="hard")
    env.reset(options={"task": 279})
    twin, answer = env.twin()
    assert env.puzzle.answer == {(1,)} and answer == {(0,)} and _unique_answer(twin, env.puzzle.question) is None
    assert env.step("answer[SELECT 1]")[4]["reward_parts"] == {"shown": 1.0, "twin": 0.0}


@pytest.mark.parametrize(
    ("form", "right"),
    [
        ("{sql}", True),
        ("SELECT * FROM ({sql})", True),
        ("WITH r AS ({sql}) SELECT * FROM r UNION ALL SELECT * FROM r", True),
        ("WITH r AS ({sql}) SELECT * FROM r ORDER BY 1 DESC", True),
        ("WITH r AS ({sql}) SELECT *, 1 FROM r", False),
        ("WITH r AS ({sql}) SELECT * FROM r UNION ALL SELECT NULL", False),
        ("WITH r AS ({sql}) SELECT * FROM r LIMIT 0", False),
    ],
)
def test_any_statement_with_the_result_is_right(form: str, right: bool) -> None:
    """Another way to write it, its rows in another order or twice; not one column or row more or fewer."""
    env = SQLEnv(difficulty="easy")
    for number in range(10):
        env.reset(options={"task": number})
        _, reward, terminated, _, info = env.step(f"answer[{form.format(sql=env.puzzle.question.sql)}]")
        assert (reward, terminated, info["success"]) == (float(right), True, right), env.current_task


def test_the_statement_is_secret_to_the_end() -> None:
    """The names in its result are at the start alone: whoever asks well sees them."""
    env, named = SQLEnv(difficulty="hard"), 0
    for number in range(40):
        told, _ = env.reset(options={"task": number})
        statement, *names = env.secrets()
        assert statement == env.puzzle.question.sql and set(names) <= {
            cell for row in env.puzzle.answer for cell in row
        }
        assert not any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", told.split("\n")[-1]) for name in names)
        named += bool(names)
    assert named > 10
    assert env.expert() == [f"answer[{statement}]"]
    assert statement not in env.step(f"query[{statement}]")[0] and env.secrets() == [statement]
    env.step(env.expert()[0])
    assert env.secrets() == []


@given(st.text())
def test_a_statement_is_read_as_it_was_written(text: str) -> None:
    """Brackets, quotes and lines too: as a bare action or a tool call; blanks around it do not count."""
    expected = ("query", text.strip())
    for reply in (f"query[{text}]", json.dumps({"name": "query", "arguments": {"sql": text}})):
        result = SQLEnv().read(reply)
        labelled = any(label in text.lower() for label in ("action", "thought", "tool_call", "observation"))
        assert labelled or (result.name, (result.argument or "").strip()) == expected, reply


def test_what_counts_of_a_result() -> None:
    """The set of its rows: neither order nor repeated rows; columns in order, numbers to six digits."""
    rows = ((1, "a"), (2.00000001, "b"), (1, "a"))
    assert _answer(Result((), rows, False)) == _answer(Result((), ((2, "b"), (1.0, "a")), False))
    assert _answer(Result((), ((1, "a"),), False)) != _answer(Result((), (("a", 1),), False))
    assert _answer(Result((), ((0.1 + 0.2,),), False)) == _answer(Result((), ((0.3,),), False))


def test_a_statement_that_fails_can_be_mended() -> None:
    """An error is an observation, the episode continues, also where an answer was meant."""
    env = SQLEnv(difficulty="easy")
    env.reset(seed=1)
    table = env.puzzle.layout.names[0].table
    message, _, terminated, _, info = env.step("answer[SELECT what FROM nowhere]")
    assert "no such table: nowhere; there are" in message and not terminated and not info["valid_action"]
    assert "Error: only reading" in env.step(f"query[WITH a AS (SELECT 1) DELETE FROM {table}]")[0]
    assert env.step("SELECT 1")[0].startswith("Not an action")
    assert env.step(env.expert()[0])[4]["success"]


@pytest.mark.parametrize(
    "reply",
    ["Thought: so\nAction: answer[@]", "Action: answer\nAction Input: @", "answer[ @ ]", "ANSWER[@]",
     '{"name": "answer", "arguments": {"sql": "@"}}', '<tool_call>{"name": "answer", "arguments": {"sql": "@"}}'],
)  # fmt: skip
def test_an_answer_is_read_in_every_form(reply: str) -> None:
    """ReAct, its input on lines of its own, tool calls, capitals."""
    env = SQLEnv(difficulty="hard")
    env.reset(seed=5)
    assert env.step(reply.replace("@", env.puzzle.question.sql))[4]["success"]


def test_a_result_is_shown_short() -> None:
    """Twelve rows, cells and columns cut, nothing is NULL, and how much is hidden."""
    env = SQLEnv(difficulty="easy")
    env.reset(seed=1)
    table = env.puzzle.layout.names[2].table
    page = env.step(f"query[SELECT a.id FROM {table} a, {table} b]")[0]
    assert page.count("\n") == 13 and page.endswith("(at least 188 more rows)")
    assert env.step("query[SELECT NULL AS a, 0.1 AS b, x'00' AS c]")[0] == "a | b | c\nNULL | 0.1 | x'00'"
    assert env.step(f"query[SELECT id FROM {table} WHERE 0]")[0] == "id\n(no rows)"
    assert len(env.step(f"query[SELECT group_concat(id, '{'-' * 20}') FROM {table} WHERE id < 40]")[0]) < 700


def test_splits_share_no_name_and_no_way_to_ask() -> None:
    """Names of people and things differ between any two splits, and so do the sentences of every kind of question."""
    for kind, wordings in wording.WORDINGS.items():
        for text in (*wordings["valid"], *wordings["test"]):
            assert not any(is_expansion(text, grammar) for grammar in wordings["train"])
        assert not set(wordings["valid"]) & set(wordings["test"])
        assert min(len(set(wordings[split])) for split in ("valid", "test")) >= 3
        assert kind == "note" or sum(map(count_expansions, wordings["train"])) >= 24
    for made in (words.people, words.titles):
        words_of = [{word for name in made(split) for word in name.split()} for split in SPLITS]
        assert not words_of[0] & words_of[1] and not words_of[0] & words_of[2] and not words_of[1] & words_of[2]


def test_values_differ_in_their_first_letters() -> None:
    """So that a code names one value only, and every word of a domain can stand in a statement."""
    choices = [entity.choice.values for domain in DOMAINS for entity in domain.entities]
    choices += [feature.values for group in vocabulary.FEATURES.values() for feature in group]
    for values in choices:
        starts = [value[:3].lower() for value in values]
        assert len(set(starts)) == len(starts) and all("'" not in value for value in values)


def test_training_databases_are_rich() -> None:
    """Tables, columns and values of training tasks differ from task to task; none is a held-out one."""
    env = SQLEnv(difficulty="easy")
    layouts = [env.puzzle_of(env.task(number, "train")).layout for number in range(150)]
    entities = [
        (entity, names)
        for layout in layouts
        for entity, names in zip(layout.domain.entities, layout.names, strict=True)
    ]
    tables = {names.table for _, names in entities}
    values = {value.lower() for _, names in entities for value in names.stored}
    assert len(tables) > 250 and len({column for _, names in entities for column in names.columns()}) > 500
    assert len(values) > 500
    assert len({names.columns().index("id") for _, names in entities}) > 3
    assert sum(bool(layout.others) for layout in layouts) > 10
    held_out = [entity for domain in DOMAINS for entity in domain.entities]
    assert not tables & {name for entity in held_out for name in entity.names}
    assert not values & {value.lower() for entity in held_out for value in entity.choice.values}
    pairs = {pair for entity, names in entities for pair in _linked(entity, names.choice, names.amount)}
    assert not pairs & {
        pair
        for entity in held_out
        for column in (*entity.choice.names, *entity.amount.names)
        for pair in _linked(entity, column, column)
    }


def _linked(entity: Entity, choice: str, amount: str) -> list[tuple[str, str]]:
    """Nouns of a question with the names of columns that do not hold them."""
    pairs = [(entity.choice.noun, choice), (entity.amount.noun.removeprefix("number of "), amount)]
    return [(noun, column) for noun, column in pairs if noun not in column]


def test_every_name_can_stand_in_a_statement() -> None:
    """No table or column of training databases has a name that SQLite reserves."""
    nouns = [noun for chain in vocabulary.CHAINS for noun in chain]
    tables = {name for noun in nouns for name in (noun.singular, noun.plural, *noun.synonyms)}
    features = [feature for group in vocabulary.FEATURES.values() for feature in group]
    measures = [measure for group in vocabulary.MEASURES.values() for measure in group]
    columns = {name for feature in features for name in (feature.noun, *feature.synonyms)}
    columns |= {name for measure in measures for name in (measure.noun, *measure.synonyms)}
    columns |= set(subjects._made_up_words())
    with closing(sqlite3.connect(":memory:")) as database:
        assert not _can_be_created(database, "select"), "a reserved name"
        assert [name for name in sorted(tables | columns) if not _can_be_created(database, name)] == []


def _can_be_created(database: sqlite3.Connection, name: str) -> bool:
    """Create a table of this name, with a column of this name, and drop it."""
    try:
        database.execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, {name} TEXT)")
    except sqlite3.OperationalError:
        return False
    database.execute(f"DROP TABLE {name}")
    return True


@pytest.mark.parametrize("difficulty", LEVELS)
def test_thoughts_say_what_the_question_means(difficulty: str) -> None:
    """The fair expert names tables, columns and conditions, and no notation before it has seen it."""
    env = SQLEnv(difficulty=difficulty)
    for number in range(24):
        seen, _ = env.reset(options={"task": number, "split": SPLITS[number % 3]})
        question = env.puzzle.question
        while (action := env.fair_expert()) is not None:
            thought = env.expert_thought(action)
            assert env.expert_thought("query[SELECT 1]") == ""
            values = re.findall(r" '([^']*)'", thought)
            assert values == [] if action.startswith("query") else all(value in seen for value in values)
            seen += env.step(action)[0]
        assert all(meaning in thought for meaning in (*question.tables, *question.meaning))
        assert all(text.partition(" = ")[0].rpartition(": ")[2] in seen.lower() for text in question.tables)


def test_a_snapshot_keeps_what_was_looked_at() -> None:
    """And refuses looks that the task does not have."""
    env, other = SQLEnv(difficulty="hard"), SQLEnv(difficulty="hard")
    env.reset(seed=4)
    env.step(env.fair_expert() or "")
    other.restore(env.snapshot())
    assert other.fair_expert() == env.fair_expert() != "query[SELECT sql FROM sqlite_master]"
    whole = json.loads(env.snapshot())
    for looked in ([0, 0], [99], [True], [-1]):
        with pytest.raises(SnapshotError):
            other.restore(json.dumps(whole | {"state": {"looked": looked, "answered": False}}).encode())


def test_a_world_made_in_one_thread_is_played_in_another() -> None:
    """SQLite's own check of threads is off."""
    env = SQLEnv()
    env.reset(seed=1)
    infos: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: infos.append(env.step(env.expert()[0])[4]))
    thread.start()
    thread.join()
    assert infos[0]["success"]


@pytest.mark.parametrize("difficulty", LEVELS)
def test_chance_does_not_answer(difficulty: str) -> None:
    """Random admissible actions, and answers without a look at the question."""
    env = SQLEnv(difficulty=difficulty)
    rng, right = Rng("chance"), 0
    for number in range(60):
        env.reset(options={"task": number})
        while not env.stop_reason:
            env.step(rng.choice(env.actions()))
        right += env.succeeded
        env.reset(options={"task": number})
        env.step(f"answer[SELECT COUNT(*) FROM {env.puzzle.layout.names[0].table}]")
        right += env.succeeded
    assert right <= 1
