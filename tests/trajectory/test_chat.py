from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agentgym_py.env.actions import format_reply, parse_reply
from agentgym_py.errors import DataError
from agentgym_py.trajectory import Step, Trajectory, store
from agentgym_py.trajectory.dataset import AgentTrajDataset
from agentgym_py.trajectory.formats import agenttraj, atif, chat, openai, trl
from agentgym_py.trajectory.preferences import build_pairs
from agentgym_py.trajectory.reading import detect, read_any, verify_any
from agentgym_py.trajectory.types import Preference

Make = Callable[..., Trajectory]
Turns = list[tuple[str, str]]
RELAXED = settings(deadline=None, max_examples=50)
NAMES = ("user", "assistant")
USER = {"role": "user", "content": "q"}
HH = "\n\nHuman: Hi\n\nfriend.\n\nAssistant: Hello.\n\nHuman: Name a cup.\n\nAssistant: {}"
words = st.text(max_size=12)
turns = st.lists(st.tuples(words, words), min_size=1, max_size=4)
plain = st.from_regex(r"[a-z ]{0,9}", fullmatch=True)
calls = st.lists(st.tuples(words, plain, st.none() | st.just('{"a": 1}')), min_size=1, max_size=3)


def messages(pairs: Turns, keys: Sequence[str] = ("role", "content"), names: Sequence[str] = NAMES) -> Any:
    """Turns of a user and an assistant, by the keys and names of a format."""
    return [{keys[0]: names[i], keys[1]: text} for pair in pairs for i, text in enumerate(pair)]


def read_row(row: dict[str, Any]) -> list[Trajectory]:
    """The episodes of a row, whose format is recognized."""
    name = chat.format_of({key for key in row if row[key] is not None})
    assert name is not None
    return list(chat.PARSERS[name](row, "x"))


def texts(trajectory: Trajectory) -> list[tuple[str, str, bool]]:
    """Observation, reply and mask of each step."""
    return [(step.observation, step.reply, step.trained) for step in trajectory.steps]


@given(words, turns)
@RELAXED
def test_a_conversation_is_the_same_in_every_format(rules: str, pairs: Turns) -> None:
    """Messages, ShareGPT with either keys, Alpaca, prompt and completion differ in what is trained on at most."""
    system = {"role": "system", "content": rules}
    head, (question, answer) = pairs[:-1], pairs[-1]
    sharegpt = messages(pairs, ("from", "value"), ("human", "gpt"))
    rows: list[dict[str, Any]] = [
        {"messages": [system, *messages(pairs)]},
        {"conversations": sharegpt, "system": rules},
        {"conversation": [{"from": "system", "value": rules}, *sharegpt]},
        {"instruction": question, "output": answer, "history": [list(pair) for pair in head], "system": rules},
        {"prompt": [system, *messages(pairs)[:-1]], "completion": messages(pairs)[-1:]},
        {"prompt": [system, *messages(pairs)[:-1]], "completion": answer, "label": True},
    ]
    for i, row in enumerate(rows):
        [episode] = read_row(row)
        last = len(pairs) - 1
        assert texts(episode) == [(*pair, i < 4 or n == last) for n, pair in enumerate(pairs)]
        assert (episode.rules, episode.success, episode.final_observation) == (rules, True, "")


@given(turns, words)
@RELAXED
def test_messages_round_trip(pairs: Turns, last: str) -> None:
    """What trl's writer makes of an episode is the row that it was read from; a last user turn is kept, not written."""
    row = {"messages": messages(pairs)}
    [episode] = read_row({"messages": [*row["messages"], {"role": "user", "content": last}]})
    assert episode.final_observation == last and trl.messages(episode) == row


@given(turns, turns)
@RELAXED
def test_our_preferences_round_trip(good: Turns, bad: Turns) -> None:
    """Both sides come back, with reward 1 and 0, as attempts at one task."""
    bad = [(good[0][0], bad[0][1]), *bad[1:]]
    assume(good != bad)
    sides = [read_row({"messages": messages(side)})[0] for side in (good, bad)]
    row = trl.preference(Preference("x", *sides))
    assert row is not None
    chosen, rejected = read_row(row)
    assert [texts(chosen), texts(rejected)] == [texts(side) for side in sides]
    assert (chosen.success, chosen.reward, rejected.success, rejected.reward) == (True, 1.0, False, 0.0)
    assert chosen.task_id == rejected.task_id and (chosen.id, rejected.id) == ("x/chosen", "x/rejected")


@given(calls)
@RELAXED
def test_our_openai_rows_round_trip(parts: list[tuple[str, str, str | None]]) -> None:
    """Observation, thought, action and input come back from the tool calls."""
    steps = []
    for observation, thought, action_input in parts:
        reply = format_reply("find", thought.strip(), action_input)
        steps.append(Step(observation, reply, thought.strip(), "find", action_input, 0.0, True, trained=bool(thought)))
    [episode] = read_row({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]})
    row = openai.openai_chat(replace(episode, rules="", steps=tuple(steps)))
    [again] = read_row(json.loads(json.dumps(row)))
    kept = [(step.observation, step.thought, step.action, step.action_input, step.trained) for step in again.steps]
    assert kept == [(step.observation, step.thought, step.action, step.action_input, step.trained) for step in steps]


def test_every_role_has_its_place() -> None:
    """System before, user and tool between, assistant; what follows directly is joined, and parts of text, too."""
    row = {
        "messages": [
            {"role": "developer", "content": "A."},
            {"role": "system", "content": "B."},
            {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
            {"role": "user", "content": "three"},
            {"role": "assistant", "content": None, "reasoning_content": "hm", "weight": 0,
             "tool_calls": [{"function": {"name": "f", "arguments": '{"x": 1}'}}]},
            {"role": "tool", "content": "result", "tool_call_id": "c"},
            {"role": "system", "content": "note"},
            {"role": "assistant", "content": "a"},
            {"role": "assistant", "content": "b", "function_call": {"name": "g", "arguments": {"y": None}}},
            {"role": "user", "content": "bye"},
        ]
    }  # fmt: skip
    [episode] = read_row(row)
    assert episode.rules == "A.\n\nB." and episode.final_observation == "bye"
    call = '<tool_call>\n{"name": "%s", "arguments": %s}\n</tool_call>'
    assert texts(episode) == [
        ("one\ntwo\n\nthree", "<think>\nhm\n</think>\n\n" + call % ("f", '{"x": 1}'), False),
        ("result\n\nnote", "a\nb\n" + call % ("g", '{"y": null}'), True),
    ]
    assert (episode.steps[0].action, episode.steps[0].action_input) == ("f", '{"x": 1}')


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_has_several_names(key: str) -> None:
    """As different servers and data sets call it; null is none."""
    reply = {"role": "assistant", "content": "go", "reasoning_content": None, key: "hm"}
    [episode] = read_row({"messages": [{"role": "user", "content": "a"}, reply]})
    assert (episode.steps[0].reply, episode.steps[0].action) == ("<think>\nhm\n</think>\n\ngo", "go")


def test_sharegpt_calls_functions() -> None:
    """A turn of `function_call` is the JSON of a call, one of `observation` its result."""
    row = {
        "conversations": [
            {"from": "human", "value": "sum?"},
            {"from": "function_call", "value": '{"name": "add", "arguments": {"a": 1}}'},
            {"from": "observation", "value": "3"},
            {"from": "gpt", "value": "It is 3."},
        ]
    }
    [episode] = read_row(row)
    assert [(step.observation, step.action) for step in episode.steps] == [("sum?", "add"), ("3", "It is 3.")]


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "q", "chosen": "good", "rejected": "bad"},
        {"prompt": [{"role": "user", "content": "q"}], "chosen": [{"role": "assistant", "content": "good"}],
         "rejected": {"role": "assistant", "content": "bad"}},
        {"prompt": "q", "chosen": messages([("q", "good")]), "rejected": messages([("q", "bad")]),
         "messages": messages([("q", "good")]), "score_chosen": 8.0},
        {"prompt": None, "chosen": messages([("q", "good")]), "rejected": messages([("q", "bad")])},
        {"instruction": "q", "input": "", "chosen": "good", "rejected": "bad"},
        {"conversations": [{"from": "human", "value": "q"}], "chosen": {"from": "gpt", "value": "good"},
         "rejected": {"from": "gpt", "value": "bad"}},
    ],
)  # fmt: skip
def test_preferences_have_many_forms(row: dict[str, Any]) -> None:
    """Texts or turns, with a prompt or within both conversations, as trl, LLaMA-Factory and others write them."""
    chosen, rejected = read_row(row)
    assert texts(chosen) == [("q", "good", True)] and texts(rejected) == [("q", "bad", True)]
    assert (chosen.reward, rejected.reward) == (1.0, 0.0)
    assert len(build_pairs([chosen, rejected]).pairs) == 1


def pairs_of(path: Path, rows: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """The last replies of the pairs that are made of a file of these rows."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    pairs = AgentTrajDataset.load(path).preferences(per_task=4)
    return [(pair.chosen.steps[-1].reply, pair.rejected.steps[-1].reply) for pair in pairs]


def test_pairs_of_a_file_stay_these_pairs(tmp_path: Path) -> None:
    """Whatever rows share a prompt or an id; a row that stands twice is two pairs."""
    wanted = [("good1", "bad1"), ("good2", "bad2"), ("good3", "good1"), ("a", "b"), ("b", "a"), ("a", "b")]
    rows = [{"id": 7, "prompt": "q", "chosen": chosen, "rejected": rejected} for chosen, rejected in wanted]
    assert pairs_of(tmp_path / "a.jsonl", rows) == wanted
    assert pairs_of(tmp_path / "a.jsonl", [{k: row[k] for k in row if k != "id"} for row in rows]) == wanted
    whole = [{"chosen": messages([("q", good)]), "rejected": messages([("q", bad)])} for good, bad in wanted]
    assert pairs_of(tmp_path / "a.jsonl", whole) == wanted


def test_the_prompt_of_a_pair_stays_its_prompt(tmp_path: Path) -> None:
    """Also its replies, which are not trained on."""
    head = messages([("hi", "hello"), ("q", "")])[:-1]
    row = {"prompt": head, "chosen": messages([("", "good")])[1:], "rejected": messages([("", "bad")])[1:]}
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    assert AgentTrajDataset.load(tmp_path / "a.jsonl").to_preferences() == [row]


def test_pairs_of_agenttraj_stay_these_pairs(tmp_path: Path, episode: Make) -> None:
    """Also if they have one id."""
    wanted = [("a", "b"), ("b", "a"), ("c", "b")]
    pairs = [Preference("webshop_6", episode(good), episode(bad)) for good, bad in wanted]
    replies = [tuple(side.steps[-1].reply for side in (pair.chosen, pair.rejected)) for pair in pairs]
    assert pairs_of(tmp_path / "a.jsonl", [agenttraj.pair_to_row(pair) for pair in pairs]) == replies


def test_replies_that_both_sides_share_are_not_trained_on() -> None:
    """They belong to the prompt."""
    head = [("hi", "hello")]
    row = {"chosen": messages([*head, ("q", "good")]), "rejected": messages([*head, ("q", "bad")])}
    assert [texts(side) for side in read_row(row)] == [
        [("hi", "hello", False), ("q", "good", True)], [("hi", "hello", False), ("q", "bad", True)]
    ]  # fmt: skip


def test_a_system_text_of_the_row_is_the_rules_in_every_format() -> None:
    """Beside turns, whole conversations and a prompt."""
    good, bad = messages([("q", "good")]), messages([("q", "bad")])
    for row in (
        {"messages": good},
        {"conversations": good},
        {"prompt": "q", "completion": "good"},
        {"chosen": good, "rejected": bad},
        {"prompt": good[:1], "chosen": good[1:], "rejected": bad[1:]},
    ):
        assert {episode.rules for episode in read_row({**row, "system": "Be kind."})} == {"Be kind."}


@pytest.mark.parametrize("system", [{}, {"system": "Be kind."}])
def test_a_prompt_in_turns_that_both_sides_repeat_is_there_once(system: dict[str, Any]) -> None:
    """Also one of several turns."""
    head = messages([("hi", "hello"), ("q", "")])[:-1]
    row = {"prompt": head, "chosen": messages([("hi", "hello"), ("q", "good")]), "rejected": "bad"}
    assert [texts(side) for side in read_row(row | system)] == [
        [("hi", "hello", False), ("q", "good", True)], [("hi", "hello", False), ("q", "bad", True)]
    ]  # fmt: skip


def test_a_reply_that_continues_a_prompt_is_trained_on() -> None:
    """The beginning that is not trained on stays before it, as a step of its own."""
    begun = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "Sure, "}]
    [completion] = read_row({"prompt": begun, "completion": [{"role": "assistant", "content": "yes"}]})
    chosen, rejected = read_row({"prompt": begun, "chosen": "yes", "rejected": "no"})
    [weighted] = read_row({"messages": [begun[0], {**begun[1], "weight": 0}, {"role": "assistant", "content": "yes"}]})
    for episode in (completion, chosen, weighted):
        assert texts(episode) == [("q", "Sure, ", False), ("", "yes", True)]
    assert texts(rejected) == [("q", "Sure, ", False), ("", "no", True)] and chosen.task_id == rejected.task_id
    [before] = read_row({"messages": [begun[0], begun[1], {"role": "assistant", "content": "yes", "weight": 0}]})
    assert texts(before) == [("q", "Sure, ", True), ("", "yes", False)]


@pytest.mark.parametrize("ending", ["json", "jsonl"])
def test_verify_names_the_row(tmp_path: Path, ending: str) -> None:
    """A preference is two episodes of one row, and empty lines count as lines."""
    rows: list[dict[str, Any]] = [{"prompt": "q", "chosen": "a", "rejected": "b"} for _ in range(4)]
    rows[2]["chosen"] = 3
    path = tmp_path / f"a.{ending}"
    path.write_text(json.dumps(rows) if ending == "json" else "\n\n" + "".join(json.dumps(row) + "\n" for row in rows))
    report = verify_any(path)
    assert (report.episodes, list(report.bad)) == (6, [3 if ending == "json" else 5])
    path.write_text("".join(json.dumps(row) + "\n" for row in rows[:2]) + '{"prompt": "q')
    assert verify_any(path).torn == 3
    path.write_text("".join(json.dumps(row) + "\n" for row in rows[:2]) + '{"prompt": \n')
    assert list(verify_any(path).bad) == [3]


def test_verify_reads_on_after_a_broken_line(tmp_path: Path) -> None:
    """Lines that are no JSON, no object, no UTF-8 or no chat are all named; the reader names the first."""
    good = json.dumps({"messages": messages([("q", "caf\u00e9")])}, ensure_ascii=False)
    lines = [good, '{"messages": "cut', good, "[]", '{"messages": []}', good]
    path = tmp_path / "a.jsonl"
    path.write_bytes("".join(line + "\n" for line in lines).encode() + good.encode("latin-1") + b"\n" + good.encode())
    report = verify_any(path)
    assert (report.episodes, report.torn) == (4, None)
    assert report.bad == {
        2: "no JSON: Unterminated string starting at: line 1 column 14 (char 13)",
        4: "expected an object, found list",
        5: "no turn of the assistant",
        7: "no UTF-8: byte 0xe9; save the file as UTF-8",
    }
    for first in (good.replace("\u00e9", "e"), "", "["):
        path.write_bytes((first + "\n\n" + good).encode("latin-1"))
        with pytest.raises(DataError, match=r"a\.jsonl:3: no UTF-8: byte 0xe9"):
            list(read_any(path, "messages"))


def test_verify_says_where_it_stops(tmp_path: Path) -> None:
    """An array is one JSON value, so that nothing after a fault in its text can be read."""
    path = tmp_path / "a.json"
    path.write_text('[{"messages": []},\n{"messages" []}]')
    [why] = verify_any(path).bad.values()
    assert why.startswith("no JSON: Expecting ':'") and why.endswith("; what follows was not read")


def test_pairs_of_agenttraj_are_read(tmp_path: Path, episode: Make) -> None:
    """The rules and "Ok." stay what they are there."""
    path = tmp_path / "a.json"
    agenttraj.write_pairs(path, [Preference("webshop_6", episode("a"), episode("b"))])
    chosen, rejected = read_any(path)
    assert (chosen.rules, len(chosen.steps), chosen.success, rejected.success) == ("You shop.", 1, True, False)


def test_outcomes_and_ids_are_read(tmp_path: Path) -> None:
    """`reward`, `success` and `id` of a row count; a row without an id is named by file and number."""
    rows: list[dict[str, Any]] = [
        {"messages": messages([("q", "a")]), "reward": 0.25, "id": 7},
        {"messages": messages([("q", "b")]), "reward": 0.8, "success": True},
        {"messages": [*messages([("q", "x")]), USER], "reward": 0.0},
        {"messages": messages([("q", "c")]), "id": 7},
    ]
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    episodes = list(read_any(path))
    assert [each.id for each in episodes] == ["7", "mine-2", "mine-3", "7#2"]
    assert [(each.reward, each.success) for each in episodes] == [(0.25, False), (0.8, True), (0.0, False), (1.0, True)]
    path.write_text("".join(json.dumps(rows[0] | {"id": id}) + "\n" for id in ("a", "a", "a#2", "a", "a#2")))
    assert [each.id for each in read_any(path)] == ["a", "a#2", "a#2#2", "a#3", "a#2#3"]
    assert len({each.task_id for each in episodes}) == 1 and episodes[2].final_observation == "q"


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "q", "completion": "a"}, {"messages": messages([("q", "a")])}, {"instruction": "q", "output": "a"},
        {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("key", ["label", "kto_tag"])
def test_labels_of_kto_are_outcomes(row: dict[str, Any], key: str) -> None:
    """In every format; an outcome in the row's own words comes first, and a label that is no truth value is none."""
    for label in (True, False):
        [episode] = read_row({**row, key: label})
        assert (episode.success, episode.reward) == (label, float(label))
    [told] = read_row({**row, key: False, "reward": 0.75, "success": True})
    assert (told.success, told.reward) == (True, 0.75)
    [paid] = read_row({**row, key: True, "reward": 0.25})
    assert (paid.success, paid.reward) == (True, 0.25)
    if key == "kto_tag" or "prompt" not in row:
        [other] = read_row({**row, key: "spam"})
        assert other.success


def reply(**keys: Any) -> dict[str, Any]:
    """A turn of the assistant."""
    return {"role": "assistant", "content": "", **keys}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"messages": {}}, r"messages\[0\]\.role: None is none of system"),
        ({"messages": "x"}, "messages: expected a list, found 'x'"),
        ({"messages": ["x"]}, r"messages\[0\]: expected an object, found 'x'"),
        ({"messages": [{"from": "alien", "value": ""}]}, r"messages\[0\]\.from: 'alien' is none of"),
        ({"messages": [{"role": "user", "content": None}]}, r"messages\[0\]\.content: expected a string, found None"),
        ({"messages": [{"from": "human", "value": 1}]}, r"messages\[0\]\.value: expected a string, found 1"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
         r"messages\[0\]\.content\[0\]: only text can be read, found 'image_url'"),
        ({"messages": [USER, reply(tool_calls=[{"function": {"name": "f", "arguments": "{"}}])]},
         r"messages\[1\]\.tool_calls\[0\]: the arguments are no JSON object: '{'"),
        ({"messages": [USER, reply(tool_calls=[1])]}, r"messages\[1\]\.tool_calls\[0\]: expected a call"),
        ({"messages": [USER, reply(weight=2)]}, r"messages\[1\]\.weight: expected 0 or 1"),
        ({"messages": [USER, reply(reasoning_content=1)]}, r"messages\[1\]\.reasoning_content: expected a string"),
        ({"conversations": [{"from": "function_call", "value": "f()"}]},
         r"conversations\[0\]\.value: expected a JSON object"),
        ({"prompt": "q", "completion": "a", "label": 1}, "label: expected true or false, found 1"),
        ({"prompt": "q", "completion": 1}, "completion: expected text or a list of turns, found 1"),
        ({"prompt": 5, "completion": "a"}, "prompt: expected text or a list of turns, found 5"),
        ({"messages": []}, "no turn of the assistant"),
        ({"messages": [USER]}, "no turn of the assistant"),
        ({"prompt": "q", "completion": []}, "no turn of the assistant"),
        ({"chosen": "a", "rejected": "b"}, "missing key 'prompt'"),
        ({"chosen": HH.format("c"), "rejected": HH.format("c\n\nHuman: d\n\nAssistant: e")},
         "chosen: no reply of its own"),
        ({"chosen": HH.format("c"), "rejected": HH.replace("Hi", "Yo").format("d")},
         "chosen and rejected have different texts before their first reply"),
        ({"instruction": 1, "output": "x"}, "instruction: expected a string"),
        ({"instruction": "q", "output": "x", "history": [["a"]]}, r"history\[0\]: expected two strings"),
        ({"messages": [USER, reply()], "reward": "high"}, "reward: expected a finite number, found 'high'"),
    ],
)  # fmt: skip
def test_a_wrong_row_names_itself(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    """File, line and key of what is wrong."""
    path = tmp_path / "a.jsonl"
    name = chat.format_of(set(row))
    path.write_text("\n" + json.dumps(row) + "\n")
    assert detect(path) == name
    with pytest.raises(DataError, match=rf"a\.jsonl:2: {message}"):
        list(read_any(path))


@pytest.mark.parametrize(("form", "side"), [({}, HH), ({"prompt": "q"}, "{}")])
def test_rows_with_equal_sides_are_left_out_and_counted(tmp_path: Path, form: dict[str, Any], side: str) -> None:
    """A file of only such rows is an error, and `verify` names each."""
    path = tmp_path / "a.jsonl"

    def row(chosen: str, rejected: str) -> str:
        sides = {"chosen": side.format(chosen), "rejected": side.format(rejected)}
        return json.dumps(form | sides) + "\n"

    path.write_text(row("a", "a") + row("a", "b") + row("b", "b") + row("c", "d"))
    with pytest.warns(UserWarning, match=r"a\.jsonl: 2 rows left out, because chosen and rejected are the same"):
        pairs = list(read_any(path, "preferences"))
    assert [trajectory.success for trajectory in pairs] == [True, False, True, False]
    assert [trajectory.id for trajectory in pairs][::2] == ["a-2/chosen", "a-4/chosen"]
    assert list(verify_any(path, "preferences").bad) == [1, 3]
    path.write_text(row("a", "a") * 2)
    with pytest.raises(DataError, match=r"a\.jsonl: no row can be used, because chosen and rejected are the same"):
        list(read_any(path, "preferences"))


def test_a_deep_call_is_refused() -> None:
    """Arguments nest a hundred deep at most."""
    deep: Any = {}
    for _ in range(200):
        deep = {"x": deep}
    turn = reply(tool_calls=[{"function": {"name": "f", "arguments": deep}}])
    with pytest.raises(DataError, match="the arguments are no JSON object"):
        read_row({"messages": [USER, turn]})


def test_a_format_may_be_named(tmp_path: Path) -> None:
    """A row of two formats is read in the one that is named."""
    path = tmp_path / "a.jsonl"
    row = {"messages": messages([("q", "a")]), "prompt": "other", "completion": "b"}
    path.write_text(json.dumps(row) + "\n")
    assert detect(path) == "prompt_completion"
    assert texts(next(read_any(path, "messages"))) == [("q", "a", True)]
    assert parse_reply("b").action == next(read_any(path)).steps[0].action


def test_dialogues_of_hh_rlhf_are_read() -> None:
    """`chosen` and `rejected` as texts without a prompt: their turns are those of the same lists of turns."""
    sides = {
        key: messages([("Hi\n\nfriend.", "Hello."), ("Name a cup.", answer)])
        for key, answer in (("chosen", "Mug.\n\nOr Human:x"), ("rejected", ""))
    }
    texts = {key: HH.format(turns[-1]["content"]) for key, turns in sides.items()}
    assert read_row(texts) == read_row(sides)
    chosen, rejected = read_row({**texts, "rejected": texts["rejected"].rstrip(" ")})
    assert [(step.observation, step.reply, step.trained) for step in chosen.steps] == [
        ("Hi\n\nfriend.", "Hello.", False), ("Name a cup.", "Mug.\n\nOr Human:x", True)
    ]  # fmt: skip
    assert rejected.steps[-1].reply == "" and chosen.task_id == rejected.task_id and chosen.success > rejected.success
    beside = read_row({"prompt": "q", **texts})
    assert beside[0].steps[0].reply == texts["chosen"]


@pytest.mark.parametrize(
    "text", ["Mug.", "Human: a\n\nAssistant: b", "\n\nAssistant: b", HH.format("c\n\nHuman: d"), ""]
)
def test_other_texts_without_a_prompt_are_refused(text: str) -> None:
    """Of either side, in one line that names it."""
    for key in ("chosen", "rejected"):
        with pytest.raises(DataError, match=f"missing key 'prompt', and {key} is no dialogue") as refused:
            read_row({"chosen": HH.format("c"), "rejected": HH.format("d"), key: text})
        assert "\n" not in str(refused.value)


ROWS: dict[str, dict[str, Any]] = {
    "messages": {"messages": messages([("q", "a")])}, "alpaca": {"instruction": "q", "output": "a"},
    "sharegpt": {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]},
    "prompt_completion": {"prompt": "q", "completion": "a"}, "kto": {"prompt": "q", "completion": "a", "label": True},
    "preferences": {"prompt": "q", "chosen": "a", "rejected": "b"},
}  # fmt: skip


def test_a_file_of_two_formats_is_refused(tmp_path: Path, episode: Make) -> None:
    """`verify` names the row and both formats; a store counts the rows that it holds besides."""
    lines = {name: json.dumps(row) + "\n" for name, row in ROWS.items()}
    for name, write in {"store": store.write, "atif": atif.write, "agenttraj": agenttraj.write}.items():
        write(tmp_path / "a.jsonl", [episode("look")])
        lines[name] = (tmp_path / "a.jsonl").read_text()
    path = tmp_path / "mixed.jsonl"
    for first, second in permutations(lines, 2):
        if (first, second) == ("prompt_completion", "kto"):  # which has a key more
            continue
        path.write_text(lines[first] + lines[second])
        (number, why), *others = verify_any(path).bad.items()
        assert number == 2 and not others
        assert f"looks like a row of {second} in a file of {first}, but all rows of a file have one format" in why


def test_a_key_of_agenttraj_may_be_in_a_row_of_sharegpt(tmp_path: Path) -> None:
    """If the format is named; a file whose format is detected may be one of both."""
    (path := tmp_path / "a.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in (ROWS["sharegpt"], {**ROWS["sharegpt"], "item_id": "x_1"}))
    )
    first, second = read_any(path, "sharegpt")
    assert texts(first) == texts(second) and verify_any(path, "sharegpt").ok
    assert list(verify_any(path).bad) == [2]
