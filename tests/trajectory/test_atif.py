from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_py.env import StopReason
from agentgym_py.errors import DataError
from agentgym_py.trajectory import Provenance, Step, Tokens, Trajectory
from agentgym_py.trajectory.formats import atif
from agentgym_py.trajectory.formats.foreign import Conversation
from agentgym_py.trajectory.reading import detect, read_any
from agentgym_py.trajectory.types import Usage

Make = Callable[..., Trajectory]
EXAMPLE = Path(__file__).parents[1] / "fixtures" / "atif" / "example.json"
"""A document as another program writes it, made by hand."""
words = st.text(max_size=12)
numbers = st.floats(-10, 10)
ids = st.lists(st.integers(0, 99), min_size=1, max_size=3).map(tuple)


@st.composite
def tokens(draw: st.DrawFn) -> Tokens:
    """The token record of a reply."""
    sampled: tuple[int, ...] = draw(ids)
    more = draw(st.booleans()), draw(st.integers(0, 3)), draw(st.booleans())
    return Tokens(draw(ids), sampled, (-0.5,) * len(sampled), (1,) * len(sampled), *more)


@st.composite
def episodes(draw: st.DrawFn) -> Trajectory:
    """An episode of any agent, in a world or without one."""
    records = draw(st.sampled_from([st.none(), tokens()]))
    inputs = st.none() | words | st.just('{"a": [1, null]}') | st.just('{"a": NaN}')
    usages = st.none() | st.builds(
        Usage, st.integers(0, 9) | st.none(), st.integers(0, 9), numbers.map(abs) | st.none(), words
    )
    turns = st.builds(
        Step, words, words, words, words, inputs, numbers, st.booleans(), st.just({"x": 0.5}), records, st.booleans(),
        usages, records,
    )  # fmt: skip
    world = draw(st.sampled_from(["AgentShop-v0", ""]))
    origin = Provenance(world, 1, {"mode": None}, "shop/1", 2**64 - 1, draw(words), draw(st.none() | words))
    return Trajectory(
        draw(st.text(min_size=1, max_size=9)), origin, "test", "buy", "hard", "Buy.", draw(words),
        tuple(draw(st.lists(turns, max_size=3))), draw(words), draw(numbers), draw(st.booleans()),
        draw(st.none() | st.sampled_from(StopReason).filter(lambda reason: reason is not StopReason.ERROR)), 4,
    )  # fmt: skip


@given(episodes())
@settings(deadline=None)
def test_nothing_of_an_episode_is_lost(episode: Trajectory) -> None:
    """Whatever an episode holds, its document is read as exactly that episode."""
    row = json.loads(json.dumps(atif.to_row(episode)))
    assert atif.from_row(row) == episode


@given(episodes())
@settings(deadline=None, max_examples=30)
def test_documents_are_valid(episode: Trajectory) -> None:
    """Harbor's own model takes them, and holds all that is written."""
    harbor = pytest.importorskip("harbor.models.trajectories")
    document = harbor.Trajectory.model_validate(json.loads(json.dumps(atif.to_row(episode))))
    assert atif.from_row(document.model_dump(exclude_unset=True, mode="json")) == episode


def test_the_example_is_valid() -> None:
    """Harbor's own model takes the document that the other tests read."""
    harbor = pytest.importorskip("harbor.models.trajectories")
    harbor.Trajectory.model_validate_json(EXAMPLE.read_bytes())


def test_a_reply_is_thought_call_and_result(episode: Make) -> None:
    """Rules, observations and the parts of a reply have the places that other programs look at."""
    record = Tokens((1, 2), (3, 4), (-0.1, -0.2), (1, 1))
    tool = Step("page 1", "x", "I look.", "find", '{"title": "é"}', 0.0, True, tokens=replace(record, context=(5,)))
    trajectory = episode("buy")
    trajectory = replace(trajectory, steps=(replace(trajectory.steps[0], tokens=record), tool))
    row = atif.to_row(trajectory)
    system, user, first, second = row["steps"]
    assert [step["step_id"] for step in row["steps"]] == [1, 2, 3, 4] and row["schema_version"] == "ATIF-v1.7"
    assert (system["source"], system["message"]) == ("system", "You shop.")
    assert (user["source"], user["message"]) == ("user", "page 0")
    assert (first["message"], first["reasoning_content"], first["llm_call_count"]) == ("", "so", 1)
    assert first["tool_calls"] == [{"tool_call_id": "call_0", "function_name": "act", "arguments": {"action": "buy"}}]
    assert first["observation"] == {"results": [{"source_call_id": "call_0", "content": "page 1"}]}
    assert second["tool_calls"][0]["arguments"] == {"title": "é"}
    assert second["observation"]["results"][0]["content"] == "Thanks."
    assert first["metrics"]["prompt_token_ids"] == [1, 2] and second["metrics"]["prompt_token_ids"] == [1, 2, 3, 4, 5]
    assert row["final_metrics"]["total_completion_tokens"] == 4
    assert row["final_metrics"]["extra"] == {"reward": 1.0, "success": True}


def test_arguments_of_a_call_may_be_large_numbers(episode: Make) -> None:
    """They are the agent's own; only an episode's own numbers, such as its reward, are limited."""
    large = '{"a": 1e+16, "b": [1700000000000000000.0]}'
    base = episode("x")
    written = replace(base, steps=(replace(base.steps[0], action="find", action_input=large),))
    row = json.loads(json.dumps(atif.to_row(written)))
    assert atif.from_row(row) == written
    row["extra"]["agentgym"]["provenance"]["sampling"] = {"x": float("inf")}
    with pytest.raises(DataError, match="expected a finite number, found inf"):
        atif.from_row(row)


def test_an_expert_has_no_metrics_and_no_reasoning(episode: Make) -> None:
    """Version 1.7 forbids both without a model; the thought is the message."""
    step = atif.to_row(episode("buy"))["steps"][2]
    assert step["llm_call_count"] == 0 and step["message"] == "so"
    assert not {"metrics", "reasoning_content"} & step.keys()


def test_a_reply_of_unknown_origin_may_be_a_models(episode: Make) -> None:
    """Of a chat, or of a client by MCP: another program may train on it, and so does this one."""
    chat = episode("a", "b", provenance=Provenance("", 0, {}, "chat/1", 0, "chat"))
    for unknown in (chat, episode("buy", agent="some-client")):
        row = atif.to_row(unknown)
        agents = [step for step in row["steps"] if step["source"] == "agent"]
        assert not any("llm_call_count" in step for step in agents)
        foreign = {**row, "extra": {}, "steps": [{**step, "extra": {}} for step in row["steps"]]}
        assert all(step.trained for step in atif.from_row(foreign).steps)
    assert agents[0]["reasoning_content"] == "so"


def test_a_chat_has_messages_only(episode: Make) -> None:
    """Without a world, what the user says next is no result of a call."""
    chat = episode("a", "b", provenance=Provenance("", 0, {}, "chat/1", 0, "chat"), final_observation="Bye.")
    steps = atif.to_row(chat)["steps"]
    assert [step["source"] for step in steps] == ["system", "user", "agent", "user", "agent", "user"]
    assert steps[2]["message"] == "Thought: so\nAction: a" and "tool_calls" not in steps[2]
    assert steps[-1]["message"] == "Bye."


def test_a_document_of_another_program_is_read_as_text() -> None:
    """Texts, tool calls, usage and outcome are kept; what was not sampled for this episode is not trained on."""
    assert detect(EXAMPLE) == "atif"
    [episode] = read_any(EXAMPLE)
    assert (episode.id, episode.rules, episode.final_observation) == ("5c0f9a1e-main", "You have a shell.", "Thanks.")
    assert (episode.reward, episode.success, episode.provenance.agent) == (0.5, False, "terminal-agent")
    assert [step.trained for step in episode.steps] == [False, True, True]
    setup, look, last = episode.steps
    assert (setup.observation, setup.action, setup.action_input) == (
        "How many lines has a.txt?", "bash", '{"command": "cd /data"}'
    )  # fmt: skip
    assert look.observation == "/data" and look.reply == (
        "<think>\nwc counts lines.\n</think>\n\nI look, and count.\n"
        '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "bash", "arguments": {"command": "wc -l a.txt"}}\n</tool_call>'
    )
    assert look.usage == Usage(120, 4, 0.0002, "some-model-2026-10") and look.tokens is None
    assert (last.observation, last.reply) == ("a.txt\n\n3 a.txt", "a.txt has 3 lines.")


def test_a_reply_in_two_parts_has_the_usage_of_both() -> None:
    """Tokens and costs are added; what one part does not report is left out."""
    conversation = Conversation()
    conversation.add_observation("How many?")
    for text, usage in (("I look.", Usage(10, 2, 0.5, "m")), ("3", Usage(20, None, 0.25, "m")), ("!", None)):
        conversation.add_reply(text, usage=usage)
    [step] = conversation.steps
    assert (step.reply, step.usage) == ("I look.\n3\n!", Usage(30, 2, 0.75, "m"))


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_files_round_trip(tmp_path: Path, episode: Make, name: str) -> None:
    """One object, an array or lines; a second episode of an id gets one of its own."""
    one, two = episode("a", id="x"), episode("b", id="y")
    for episodes, expected in (([], []), ([one], ["x"]), ([one, two], ["x", "y"]), ([one, one], ["x", "x#2"])):
        assert atif.write(tmp_path / name, episodes) == len(episodes)
        assert [each.id for each in atif.read(tmp_path / name)] == expected
        assert not episodes or detect(tmp_path / name) == "atif"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": "ATIF-v2.0"}, "schema_version: 'ATIF-v2.0' cannot be read, ATIF-v1.0 to 1.8 can"),
        ({"steps": None}, "steps: expected a list, found None"),
        ({"agent": {"name": "x"}}, "missing key 'agent.version'"),
        ({"surprise": 1}, "unknown key 'surprise'"),
        ({"steps": [{"step_id": 1, "source": "tool", "message": ""}]}, r"steps\[0\]\.source: expected 'system'"),
        ({"steps": [{"step_id": 1, "source": "user", "message": [{"type": "image", "source": {}}]}]},
         r"steps\[0\]\.message\[0\]: only text can be read, found a part of type 'image'"),
        ({"extra": {"agentgym": {}}}, r"steps\[2\]\.extra: missing key 'agentgym'"),
    ],
)  # fmt: skip
def test_a_wrong_document_names_itself(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    """File, row and key of what is wrong."""
    row = json.loads(EXAMPLE.read_bytes())
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(row) + "\n" + json.dumps({**row, **change}) + "\n")
    with pytest.raises(DataError, match=rf"a\.jsonl:2: {message}"):
        list(read_any(path))


def test_what_is_kept_for_this_project_is_checked(episode: Make) -> None:
    """A value of the wrong type in `extra` is named as in a store."""
    row = atif.to_row(episode("a"))
    row["steps"][2]["extra"]["agentgym"]["reward"] = "much"
    with pytest.raises(DataError, match=r"extra\.agentgym: steps\[0\]\.reward: expected a finite number"):
        atif.from_row(row)
