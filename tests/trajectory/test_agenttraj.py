from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_py.errors import DataError
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.formats import agenttraj
from agentgym_py.trajectory.types import Preference

Make = Callable[..., Trajectory]
REPLY = "Thought:\nI look.\n\nAction:\nsearch[red cup]"
ROW = {
    "item_id": "webshop_6",
    "conversations": [
        {"from": "human", "loss": None, "value": "<rules>"},
        {"from": "gpt", "loss": False, "value": "Ok."},
        {"from": "human", "loss": None, "value": "<observation>"},
        {"from": "gpt", "loss": True, "value": REPLY},
    ],
}
words = st.text(max_size=12)
turns = st.lists(st.tuples(words, words, st.booleans()), max_size=4)


def row_of(item: str, rules: str, pairs: list[tuple[str, str, bool]]) -> dict[str, Any]:
    """A row in AgentTraj's first form."""
    expected_text = [{"from": "human", "loss": None, "value": rules}, {"from": "gpt", "loss": False, "value": "Ok."}]
    for observation, reply, loss in pairs:
        expected_text += [
            {"from": "human", "loss": None, "value": observation},
            {"from": "gpt", "loss": loss, "value": reply},
        ]
    return {"item_id": item, "conversations": expected_text}


def test_the_first_form_is_read() -> None:
    """Rules and "Ok." are no step; the reply is parsed, its text kept, and the episode counts as a success."""
    result = agenttraj.from_row(ROW)
    assert (result.id, result.task_id, result.kind, result.rules) == ("webshop_6", "webshop_6", "webshop", "<rules>")
    assert result.provenance.env_id == "AgentGym/webshop"
    assert [(s.observation, s.reply, s.thought, s.action) for s in result.steps] == [
        ("<observation>", REPLY, "I look.", "search[red cup]")
    ]
    assert result.success and result.reward == result.steps[0].reward == 1.0 and result.final_observation == ""


@given(st.sampled_from(["webshop_6", "lmrlgym_maze_3"]), words, turns)
def test_the_first_form_round_trips(item: str, rules: str, pairs: list[tuple[str, str, bool]]) -> None:
    """Reading a row and writing it gives the row, `loss` included."""
    row = row_of(item, rules, pairs)
    assert agenttraj.to_row(agenttraj.from_row(row)) == row


@given(turns, words, st.one_of(st.none(), st.booleans()), st.one_of(st.none(), st.floats(-10, 10)))
def test_nothing_that_a_row_holds_is_lost(
    pairs: list[tuple[str, str, bool]], final: str, success: bool | None, reward: float | None
) -> None:
    """Whatever a row says and leaves open, what is written is read as the same episode."""
    row = row_of("todo_1", "rules", pairs)
    if final:
        row["conversations"].append({"from": "human", "loss": None, "value": final})
    row |= {key: value for key, value in (("reward", reward), ("success", success)) if value is not None}
    result = agenttraj.from_row(row)
    again = agenttraj.to_row(result)
    assert agenttraj.from_row(again) == result and again["conversations"] == row["conversations"]


def test_a_failure_of_our_own_stays_one(episode: Make) -> None:
    """Its row says so; that of a success is the form of their demonstrations, which ends on a reply."""
    for success, reward in ((False, 0.0), (False, 0.5), (True, 1.0), (True, 0.75)):
        row = agenttraj.to_row(episode("search[a]", "click[b]", success=success, reward=reward))
        assert row["conversations"][-1]["from"] == "gpt" and ("success" in row) == ((success, reward) != (True, 1.0))
        result = agenttraj.from_row(row)
        assert (result.success, result.reward) == (success, reward)


@given(words, turns.filter(bool), words, st.booleans(), st.floats(-10, 10))
def test_rollouts_round_trip(
    rules: str, pairs: list[tuple[str, str, bool]], final: str, success: bool, reward: float
) -> None:
    """A rollout keeps its last observation, reward and success, through the row and through the trajectory."""
    row = row_of("todo_1", rules, pairs)
    row["conversations"].append({"from": "human", "loss": None, "value": final})
    row |= {"reward": reward, "success": success}
    result = agenttraj.from_row(row)
    assert (result.final_observation, result.reward, result.success) == (final, reward, success)
    assert agenttraj.to_row(result, rollout=True) == row
    assert agenttraj.from_row(agenttraj.to_row(result, rollout=True)) == result
    assert agenttraj.from_row(agenttraj.to_row(result)) == result, "what is not said is what a reader takes for granted"


@pytest.mark.parametrize("conversations", [None, []])
def test_agenteval_rows_are_tasks_without_steps(conversations: Any) -> None:
    """A row without a conversation is no demonstration of anything."""
    result = agenttraj.from_row({"item_id": "babyai_3", "conversations": conversations})
    assert result.steps == () and not result.success and result.reward == 0.0


@pytest.mark.parametrize(
    ("item", "env", "kind"),
    [
        ("webshop_6", "AgentGym/webshop", "webshop"),
        ("look_at_obj_in_light-AlarmClock-None-DeskLamp-301_trial_T20190907_174127_043461",
         "AgentGym/alfworld", "look_at_obj_in_light"),
        ("pick_heat_then_place_in_recep-Egg-None-Fridge-2_trial_T20190908_082736_108723",
         "AgentGym/alfworld", "pick_heat_then_place_in_recep"),
        ("lmrlgym_wordle_12", "AgentGym/lmrlgym_wordle", "lmrlgym_wordle"),
        ("strange", "", ""),
    ],
)  # fmt: skip
def test_item_ids_name_the_world(item: str, env: str, kind: str) -> None:
    """`<env>_<index>`, ALFWorld's `<task_type>_<task_id>`, and anything else without a claim."""
    result = agenttraj.from_row({**ROW, "item_id": item})
    assert (result.provenance.env_id, result.kind, result.task_id) == (env, kind, item)


@pytest.mark.parametrize(
    ("extra", "success", "reward"),
    [
        ({}, True, 1.0),
        ({"reward": 0.4}, False, 0.4),
        ({"reward": 100}, True, 100.0),
        ({"success": 0}, False, 0.0),
        ({"reward": 0.9, "success": True}, True, 0.9),
        ({"reward": None, "success": None}, True, 1.0),
    ],
)
def test_success_is_what_the_row_says(extra: dict[str, Any], success: bool, reward: float) -> None:
    """Without a word a file holds demonstrations; with one, that counts."""
    result = agenttraj.from_row({**ROW, **extra})
    assert (result.success, result.reward) == (success, reward)


def test_loss_is_honoured() -> None:
    """The answer "Ok." is no step whatever its `loss`; a reply is trained on if `loss` is true or stands nowhere."""
    for loss in (None, False, True):
        turn = {"from": "gpt", "loss": loss, "value": "Ok."}
        result = agenttraj.from_row({**ROW, "conversations": [ROW["conversations"][0], turn]})
        assert result.rules == "<rules>" and result.steps == ()
    human, reply = {"from": "human", "value": "o"}, {"from": "gpt", "value": "Action: a"}
    expected_text = [
        human,
        {**reply, "loss": True},
        human,
        {**reply, "loss": None},
        human,
        {**reply, "loss": False},
        human,
        reply,
    ]
    result = agenttraj.from_row({"item_id": "x_1", "conversations": expected_text})
    assert [step.trained for step in result.steps] == [True, False, False, True] and result.rules == ""


@pytest.mark.parametrize(
    ("reply", "action", "action_input"),
    [
        ("Thought:\nI look.\n\nAction:\nclick[a]", "click[a]", None),
        ('Thought:\nI look.\n\nAction:\nget_weather with Action Input: {"city": 1}', "get_weather", '{"city": 1}'),
        ("Thought: I look.\n\nAction: deal with Action Input: x", "deal", "x"),
        ("Thought: I look.\nAction: go with", "go with", None),
    ],
)
def test_the_forms_of_their_replies(reply: str, action: str, action_input: str | None) -> None:
    """Labels on lines of their own, and calls of their tools, whose name is followed by "with"."""
    row = row_of("weather_1", "rules", [("o", reply, True)])
    [step] = agenttraj.from_row(row).steps
    assert (step.reply, step.thought, step.action, step.action_input) == (reply, "I look.", action, action_input)


def test_another_answer_to_the_rules_is_no_step() -> None:
    """ALFWorld's "OK. I'll follow ..." has `loss` false and is dropped like "Ok."."""
    expected_text = json.loads(json.dumps(ROW["conversations"]))
    expected_text[1]["value"] = "OK. I'll follow your instructions and try my best to solve the task."
    assert agenttraj.from_row({**ROW, "conversations": expected_text}) == agenttraj.from_row(ROW)


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_files_round_trip(tmp_path: Path, name: str) -> None:
    """An array or JSON lines by the file's ending; a second row of one item gets an id of its own."""
    rows = [ROW, {**ROW, "item_id": "todo_1"}, ROW]
    one = [agenttraj.from_row(row) for row in rows]
    assert agenttraj.write(tmp_path / name, one) == 3
    text = (tmp_path / name).read_text()
    assert (json.loads(text) if name == "a.json" else [json.loads(line) for line in text.splitlines()]) == rows
    result = list(agenttraj.read(tmp_path / name))
    assert [each.id for each in result] == ["webshop_6", "todo_1", "webshop_6#2"]
    assert [replace(each, id=each.task_id) for each in result] == one


def test_an_empty_array_is_written_and_read(tmp_path: Path) -> None:
    """No episodes make an empty file in either form."""
    for name in ("a.json", "a.jsonl"):
        assert agenttraj.write(tmp_path / name, []) == 0
        assert list(agenttraj.read(tmp_path / name)) == []
    assert json.loads((tmp_path / "a.json").read_text()) == []


def test_a_byte_order_mark_and_blank_lines_are_no_harm(tmp_path: Path) -> None:
    """Files that passed through an editor on Windows are read."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(ROW).encode() + b"\r\n\r\n" + json.dumps(ROW).encode() + b"\r\n")
    assert len(list(agenttraj.read(path))) == 2
    path.write_bytes(b"\xef\xbb\xbf \n" + json.dumps([ROW], indent=4).encode())
    assert len(list(agenttraj.read(path))) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"item_id": None}, "item_id: expected a string"),
        ({"conversations": {}}, "conversations: expected a list"),
        ({"conversations": ["x"]}, r"conversations\[0\]: expected an object"),
        ({"conversations": [{"from": "system", "value": ""}]}, r"conversations\[0\]\.from: .* found 'system'"),
        ({"conversations": [{"from": "human", "value": None}]}, r"conversations\[0\]\.value: expected a string"),
        ({"conversations": [{"from": "human", "value": "", "loss": 1}]}, r"conversations\[0\]\.loss"),
        ({"conversations": [{"from": "human", "value": ""}] * 2}, r"conversations\[1\]: two turns of 'human'"),
        ({"conversations": [{"from": "gpt", "value": ""}]}, r"conversations\[0\].*the first is not 'human'"),
        ({"reward": "1"}, "reward: expected a finite number"),
        ({"reward": float("nan")}, "reward: expected a finite number"),
        ({"success": "yes"}, "success: expected true or false"),
    ],
)
def test_a_wrong_row_names_itself(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    """File, row and key of what is wrong."""
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(ROW) + "\n" + json.dumps({**ROW, **change}) + "\n")
    with pytest.raises(DataError, match=rf"a\.jsonl:2: {message}"):
        list(agenttraj.read(path))
    path.write_text(json.dumps([ROW, {**ROW, **change}]))
    with pytest.raises(DataError, match=rf"a\.jsonl:row 2: {message}"):
        list(agenttraj.read(path))


@pytest.mark.parametrize("content", [b"[{]", b"{]\n", b"[1]", b"3\n", b'"\xff"\n', b"[" * 100_000, b'{"a": 1}\n'])
def test_a_broken_file_is_a_data_error(tmp_path: Path, content: bytes) -> None:
    """No JSON, no objects, no UTF-8 or other keys: one clear error."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.jsonl"):
        list(agenttraj.read(path))


def test_a_torn_last_line_is_dropped(tmp_path: Path) -> None:
    """Rollouts of a killed process are read up to the tear, with a warning."""
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(ROW) + "\n" + json.dumps(ROW)[:50])
    with pytest.warns(UserWarning, match=r"a\.jsonl:2: torn last line"):
        assert len(list(agenttraj.read(path))) == 1
    assert len(list(agenttraj.read(path, warn=False))) == 1
    with pytest.raises(DataError, match="no such file"):
        agenttraj.read(tmp_path / "none.json")


# ---- pairs -----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10**9), words, words, turns.filter(bool), turns.filter(bool))
@settings(max_examples=50)
def test_dpo_rows_round_trip(
    number: int, rules: str, first: str, good: list[tuple[str, str, bool]], bad: list[tuple[str, str, bool]]
) -> None:
    """Reading a DPO row and writing it gives the row."""
    good[0], bad[0] = (first, *good[0][1:]), (first, *bad[0][1:])
    good_turns, bad_turns = (row_of("", rules, pairs)["conversations"] for pairs in (good, bad))
    row = {"id": number, "prompt": good_turns[:3], "chosen": good_turns[3:], "rejected": bad_turns[3:]}
    pair = agenttraj.pair_from_row(row)
    assert agenttraj.pair_to_row(pair) == row
    assert pair.chosen.success and not pair.rejected.success
    assert pair.chosen.steps[0].observation == pair.rejected.steps[0].observation == first


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_dpo_files_round_trip(tmp_path: Path, episode: Make, name: str) -> None:
    """Pairs of our own trajectories are written as the original does: an id `<env>_<index>` becomes its index."""
    pairs = [Preference("webshop_6", episode("a", "b"), episode("c")), Preference("shop/1", episode("a"), episode("c"))]
    assert agenttraj.write_pairs(tmp_path / name, pairs) == 2
    result = list(agenttraj.read_pairs(tmp_path / name))
    assert [each.id for each in result] == ["6", "shop/1"]
    assert [each.reply for each in result[0].chosen.steps] == [each.reply for each in episode("a", "b").steps]
    assert result[0].chosen.rules == "You shop."


def test_alfworld_ids_are_not_cut_to_a_number(episode: Make) -> None:
    """The original turns a trial's time stamp into an index beyond its games; here the id stays whole."""
    name = "look_at_obj_in_light-AlarmClock-None-DeskLamp-301_trial_T20190907_174127_043461"
    assert agenttraj.pair_to_row(Preference(name, episode("a"), episode("b")))["id"] == name


def test_wrong_pairs_are_refused(tmp_path: Path, episode: Make) -> None:
    """Different openings cannot be written; missing keys and prompts of other lengths cannot be read."""
    with pytest.raises(DataError, match="do not open with the same"):
        agenttraj.pair_to_row(Preference("x", episode("a"), episode("b", rules="other")))
    with pytest.raises(DataError, match="do not open with the same"):
        agenttraj.pair_to_row(Preference("x", episode(), episode()))
    row = agenttraj.pair_to_row(Preference("x", episode("a"), episode("b")))
    path = tmp_path / "a.json"
    for change, message in (
        ({"prompt": row["prompt"][:2]}, "prompt: expected 3 turns, found 2"),
        ({"chosen": []}, "chosen: expected a reply"),
        ({"id": None}, "id: expected a string"),
    ):
        path.write_text(json.dumps([{**row, **change}]))
        with pytest.raises(DataError, match=rf"a\.json:row 1: {message}"):
            list(agenttraj.read_pairs(path))
