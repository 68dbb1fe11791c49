from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import date, timedelta

import gymnasium
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_envs.tools.env import ToolsEnv
from agentgym_envs.tools.session import same_answer
from agentgym_py.agents import ExpertAgent
from agentgym_py.collection import Collector, Job
from agentgym_py.env import EnvSpec, Task, TextEnv
from agentgym_py.env.actions import format_reply
from agentgym_py.errors import ConfigError, ResetNeededError, SnapshotError
from agentgym_py.rng import Rng


def first(env: ToolsEnv, wanted: Callable[[Task], bool]) -> Task:
    """Start the first task like that."""
    number = next(n for n in range(2000) if wanted(env.task(n)))
    env.reset(options={"task": number})
    assert env.current_task
    return env.current_task


def writing(env: ToolsEnv, tool: str) -> Task:
    """Start the first task that takes this tool."""
    return first(env, lambda task: any(call.tool == tool for call in env.puzzle_of(task).calls))


def test_every_form_of_a_call_is_the_same() -> None:
    """ReAct in two lines or one, an OpenAI tool call, and the bare line do the same."""
    env = ToolsEnv(difficulty="easy")
    writing(env, "get_forecast")
    call = env.session.puzzle.calls[-1]
    given_json = json.dumps(call.arguments)
    start = env.snapshot()
    seen = set()
    for text in (
        call.text,
        f"  {call.tool}   {given_json} ",
        format_reply(call.tool, "the forecast", given_json),
        f"Thought: so\nAction: {call.tool} {given_json}",
        json.dumps({"name": call.tool, "arguments": call.arguments}),
        json.dumps({"tool_calls": [{"function": {"name": call.tool, "arguments": given_json}}]}),
        f"<tool_call>{json.dumps({'name': call.tool, 'arguments': call.arguments})}</tool_call>",
    ):
        env.restore(start)
        observation, reward, *_, info = env.step(text)
        assert info["valid_action"] and info["tools_called"] == [call.tool], text
        seen.add((observation, reward))
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", "No tool was named."),
        ("Thought: hm", "No tool was named."),
        ("fly {}", 'There is no tool "fly" here. There are: '),
        ("Action: finish\nAction Input: Rome", "The parameters must be one JSON object"),
        ("Action: finish\nAction Input: [1]", "The parameters must be one JSON object"),
        ("finish", "finish needs answer (a string): The answer alone"),
        ('finish {"answer": ["Rome"]}', "answer must be a string, not a list."),
        ('finish {"answer": true}', "answer must be a string, not true."),
        ("finish {'answer': 3}", "The input of 'finish' must be one JSON object"),
        ("undo_last_change {}", "There is no change to take back."),
        ("search_tools {}", 'There is no tool "search_tools" here.'),
    ],
)
def test_errors_can_be_mended(text: str, wanted: str) -> None:
    """What is no call changes nothing and says what to write."""
    env = ToolsEnv(difficulty="easy")
    writing(env, "cancel_order")
    before = env.session.log.copy()
    observation, reward, terminated, _, info = env.step(text)
    assert observation.startswith(f"Error: {wanted}"), observation
    assert (reward, terminated, info["valid_action"]) == (0, False, False) and env.session.log == before


def test_an_episode_tells_what_was_called_and_needed() -> None:
    """Tools called are in every `info`, those needed only at the end, be it by answer or limit."""
    env = ToolsEnv(difficulty="medium")
    _, info = env.reset(seed=4)
    assert info["tools_called"] == []
    plan = env.expert()
    for action in plan:
        assert "tools_needed" not in info
        *_, info = env.step(action)
    assert info["tools_called"] == info["tools_needed"] == [action.split(" ")[0] for action in plan[:-1]]
    short = ToolsEnv(max_steps=1)
    short.reset(seed=4)
    assert "tools_needed" in short.step("nothing")[4]


def test_a_request_for_a_change_is_judged_by_the_database() -> None:
    """The right answer without the change, or with one more, is no success; each subgoal has its part."""
    env = ToolsEnv(difficulty="easy")
    writing(env, "cancel_order")
    (call,) = env.session.puzzle.calls
    answer = f'finish {{"answer": "{env.session.puzzle.answer}"}}'
    start = env.snapshot()
    _, reward, *_, info = env.step(answer)
    assert (reward, info["success"], info["reward_parts"]) == (0, False, {"answer": 0, "state": 0})
    env.restore(start)
    assert env.step(call.text)[1] == pytest.approx(1 / 3)
    *_, info = env.step('finish {"answer": "no idea"}')
    assert not info["success"] and info["reward_parts"] == {"answer": 0, "state": pytest.approx(1 / 3)}
    env.restore(start)
    env.step(call.text)
    _, reward, *_, info = env.step(answer)
    assert info["success"] and reward == pytest.approx(2 / 3)


def test_what_was_not_asked_for_is_no_success_until_it_is_taken_back() -> None:
    """A needless change spoils the state; undone, or done the other way round, it does not."""
    env = ToolsEnv(difficulty="hard")
    task = first(env, lambda task: task.kind == "chain" and "move_event" in (env.puzzle_of(task).tools or ()))
    event = env.session.puzzle.database.names["event"][0]
    found = (
        env._session
        and env._session._connection.execute(
            "SELECT event_id, day, start FROM events WHERE title = ?", (event,)
        ).fetchone()
    )
    assert found and task.optimal_steps
    move = 'move_event {{"event_id": {}, "day": "{}", "start": "{}"}}'
    elsewhere, back = move.format(found[0], "2035-01-01", "10:00"), move.format(*found)
    start = env.snapshot()
    for changes, right in (((elsewhere,), False), ((elsewhere, "undo_last_change"), True), ((elsewhere, back), True)):
        env.restore(start)
        for change in changes:
            assert env.step(change)[4]["valid_action"]
        assert env.session.is_state_right() is right
        assert (len(env.expert()) == task.optimal_steps) is right
        *_, info = env.step(env.expert()[-1])
        assert info["success"] is right


def test_the_expert_mends_what_others_did() -> None:
    """After random calls, changes among them, its plan takes back what is wrong and succeeds; nothing is done twice."""
    for difficulty in ("easy", "medium", "hard", "retrieval"):
        env = ToolsEnv(difficulty=difficulty, max_steps=300)
        undone = 0
        for seed in range(60):
            rng = Rng("mend", seed)
            env.reset(seed=seed)
            for _ in range(rng.below(14)):
                calls = [each for each in env.actions() if not each.startswith("finish")]
                if calls:
                    env.step(rng.choice(calls))
            plan = env.expert()
            undone += plan[0].startswith("undo")
            assert all(env.step(action)[4]["valid_action"] for action in plan), env.current_task
            assert env.succeeded, env.current_task
        assert undone or difficulty == "retrieval"


def test_undo_takes_changes_back_in_order() -> None:
    """Each undo takes back the latest change that stands, and then there is none."""
    env = ToolsEnv(difficulty="easy")
    writing(env, "add_event")
    (call,) = env.session.puzzle.calls
    before = env.session._contents()
    env.step(call.text)
    once = env.session._contents()
    env.step(call.text)
    assert env.session._contents() != once
    assert env.step("undo_last_change")[0] == "The last change, add_event, is taken back."
    assert env.session._contents() == once and env.session.is_state_right()
    env.step("undo_last_change {}")
    assert env.session._contents() == before
    assert env.step("undo_last_change")[4]["valid_action"] is False


def test_databases_of_two_environments_are_two() -> None:
    """What one episode changes another of the same task does not see, nor the next one of its own environment."""
    one, other = ToolsEnv(difficulty="easy"), ToolsEnv(difficulty="easy")
    task = writing(one, "cancel_order")
    other.reset(options={"task": task.id})
    (call,) = one.session.puzzle.calls
    look = call._replace(tool="get_order").text
    for env in (one, other):
        assert env.step(call.text)[4]["valid_action"], look
    one.reset(options={"task": task.id})
    assert one.step(call.text)[4]["valid_action"]


def test_a_closed_environment_has_released_its_database() -> None:
    """To the next one; a second close does nothing, and `reset` begins again."""
    env, other = ToolsEnv(), ToolsEnv()
    env.close()
    env.reset(seed=1)
    connection = env.session._connection
    env.close()
    env.close()
    other.reset(seed=1)
    assert other.session._connection is connection
    with pytest.raises(ResetNeededError, match="closed"):
        env.step("Action: finish")
    assert env.reset(seed=1) == other.reset(seed=1)


def test_snapshots_hold_the_calls_only() -> None:
    """A snapshot is small, and restored it has the same database, listing, rewards to come and plan."""
    env, other = ToolsEnv(difficulty="hard"), ToolsEnv(difficulty="hard")
    for seed in range(25):
        rng = Rng("snapshots", seed)
        env.reset(seed=seed)
        for _ in range(rng.below(10)):
            calls = [each for each in env.actions() if not each.startswith("finish")]
            env.step(rng.choice(calls or ["nothing"]))
        snapshot = env.snapshot()
        assert len(snapshot) < 4000
        other.restore(snapshot)
        assert other.session._contents() == env.session._contents()
        assert other.actions() == env.actions() and other.expert() == env.expert()
        assert other.session.completed == env.session.completed


@pytest.mark.parametrize(
    "calls",
    [
        [["get_film"]],
        ["get_film"],
        [[1, {}]],
        [["get_film", []]],
        [["no_such_tool", {}]],
        [["undo_last_change", {}]],
        [["finish", {"answer": "x"}]],
        [["cancel_order", {"order_id": 1}]],
        [["cancel_order", {}]],
        "cancel_order",
    ],
)
def test_calls_that_cannot_have_been_are_no_snapshot(calls: object) -> None:
    """Unknown tools, wrong arguments and calls that fail are refused, and the episode continues as it was."""
    env = ToolsEnv(difficulty="easy")
    writing(env, "cancel_order")
    before = env.snapshot()
    whole = json.loads(before)
    whole["state"]["calls"] = calls
    with pytest.raises(SnapshotError):
        env.restore(json.dumps(whole).encode())
    assert env.snapshot() == before and env.step(env.expert()[0])[4]["valid_action"]


def test_tools_must_be_found_in_retrieval() -> None:
    """At first only search, undo and finish are there; a search shows lines and schemas of tools, which then work."""
    env = ToolsEnv(difficulty="retrieval")
    observation, _ = env.reset(seed=3)
    assert [tool["function"]["name"] for tool in env.tools()] == ["search_tools", "undo_last_change", "finish"]
    assert len(observation) < 600
    call = env.session.puzzle.calls[0]
    assert "There is no tool" in env.step(call.text)[0]
    search = env.expert()[0]
    assert search.startswith("search_tools")
    observation = env.step(search)[0]
    assert f"{call.tool}(" in observation and observation.count("\n") == 4
    assert call.tool in [tool["function"]["name"] for tool in env.tools()] and len(env.tools()) == 8
    assert env.step(call.text)[1] > 0
    assert env.step('search_tools {"query": "zzzz"}')[0] == "No tool suits these words."


@pytest.mark.parametrize(
    ("given_answer", "wanted", "right"),
    [
        ("oslo", "Oslo", True),
        (" 'Oslo'. ", "Oslo", True),
        ("in Oslo", "Oslo", False),
        ("12", "12", True),
        ("12.0", "12", True),
        ("12 degrees", "12", True),
        ("12 km/h", "12", True),
        ("The answer is 12 degrees.", "12", True),
        ("Answer: 12", "12", True),
        ("it is 12", "12", True),
        ("it is not 12", "12", False),
        ("not 12", "12", False),
        ("12 not", "12", False),
        ("12 citations", "12", False),
        ("12%", "12", False),
        ("12 km", "12", False),
        ("about 12", "12", False),
        ("12 degrees or km/h degrees", "12", False),
        ("1,200,500", "1200500", True),
        ("-3", "-3", True),
        ("3", "-3", False),
        ("12 or 13", "12", False),
        ("12.5", "12", False),
        ("", "12", False),
        ("2031-05-14", "2031-05-14", True),
        ("9:30", "09:30", True),
        ("1,2", "12", False),
        ("12,00", "1200", False),
        ("1,2000", "12000", False),
        ("x" * 200, "12", False),
    ],
)
def test_answers_are_compared_without_form(given_answer: str, wanted: str, right: bool) -> None:
    """Case, quotes, full stops, a short lead and a unit that the request names do not matter; anything more does."""
    request = "Is it not windy, and how many degrees or km/h?"
    assert same_answer(given_answer, wanted, request) is right


@given(st.text(), st.text())
def test_an_answer_is_right_or_not(given_answer: str, wanted: str) -> None:
    """Any two texts compare; one that is wanted is right, also in capitals, quotes and with blanks around."""
    assert same_answer(given_answer, wanted, given_answer) in (True, False)
    assert same_answer(wanted, wanted) and same_answer(f' "{wanted}". ', wanted)


@given(
    st.integers(-(10**9), 10**9), st.integers(-(10**9), 10**9), st.sampled_from(["{}", "{:,}", "{} km", "it is {}."])
)
def test_a_number_is_no_other_number(given_answer: int, wanted: int, form: str) -> None:
    """In every way to write it, it is right exactly where it is the one wanted."""
    assert same_answer(form.format(given_answer), str(wanted), "How many km?") is (given_answer == wanted)
    assert same_answer(form.format(wanted), str(wanted), "How many km?")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None)
@given(
    st.sampled_from(["finish", "get_film", "x1"]), st.dictionaries(st.text(max_size=8), JSON, max_size=4), st.booleans()
)
def test_a_call_is_read_as_it_was_written(name: str, arguments: dict[str, object], plain: bool) -> None:
    """Whatever its JSON holds, labels and braces too: in one line, as ReAct and as a tool call it is the same."""
    written = json.dumps(arguments, ensure_ascii=plain)
    for text in (
        f"{name} {written}",
        f"{name}({written})",
        format_reply(name, "so", written),
        json.dumps({"name": name, "arguments": arguments}),
        json.dumps({"name": name, "arguments": written}),
    ):
        reply = ToolsEnv().read(text)
        assert (reply.action, reply.arguments) == (name, arguments), text


@pytest.mark.parametrize("difficulty", ["easy", "medium", "hard", "retrieval"])
def test_an_answer_is_secret_until_a_tool_says_it(difficulty: str) -> None:
    """The call that gives it is secret to the end; a name, a day or a time until a tool has shown it."""
    env = ToolsEnv(difficulty=difficulty)
    named = shown = 0
    for number in range(120):
        said, _ = env.reset(options={"task": number})
        answer = env.session.puzzle.answer
        last = env.expert()[-1]
        named += answer in env.secrets()
        for action in env.expert():
            assert env.secrets()[0] == last and (answer in env.secrets()) == (
                answer not in said and not answer.isdigit()
            )
            said += env.step(action)[0]
        shown += answer in said
        assert env.secrets() == []
    assert named >= 20 and shown >= 20


@settings(max_examples=80, deadline=None)
@given(name=st.sampled_from(["finish", "get_place", "undo_last_change", "add_event", "x"]), rest=st.text())
def test_any_input_is_a_step(name: str, rest: str) -> None:
    """Whatever stands behind a tool's name, the step gives text, and the episode can be saved and taken up again."""
    env = ToolsEnv(difficulty="easy")
    env.reset(seed=0)
    for text in (
        f"{name} {{{rest}}}",
        f"Action: {name}\nAction Input: {rest}",
        f'{name} {{"city": {json.dumps(rest)}}}',
    ):
        observation, *_ = env.step(text)
        assert isinstance(observation, str) and len(observation) < 3000
        env.restore(env.snapshot())


def test_a_megabyte_is_a_step() -> None:
    """Long names, values and nonsense are refused in few words."""
    env = ToolsEnv()
    env.reset(seed=1)
    for text in (
        "x" * 10**6,
        f'get_place {{"city": "{"x" * 10**6}"}}',
        "{" * 10**6,
        'finish {"answer": ' + "9" * 4000 + "}",
    ):
        observation, *_ = env.step(text)
        assert len(observation) < 3000


def test_the_expert_speaks_react_with_thoughts() -> None:
    """A collected episode has thought, action and action input apart, and says what each call is for."""
    played = Collector(ExpertAgent()).collect(Job(EnvSpec("AgentTools-v0"), 3, "test"))
    assert played.success
    for step in played.steps:
        assert step.reply == format_reply(step.action, step.thought, step.action_input)
        assert step.thought and step.action_input and " " not in step.action
    assert played.steps[-1].action == "finish" and played.steps[-1].thought.startswith("The answer is ")
    env = ToolsEnv()
    assert env.expert_thought("undo_last_change") == "That change was not asked for."
    assert env.expert_thought("search_tools {}") == "I need another tool." and env.expert_thought("nothing") == ""
    assert env.expert_thought('get_film {"film_id": 1}').startswith("I must get a film's title")


def test_texts_are_short_enough_for_small_models() -> None:
    """The expert's whole episode at medium stays below 3,000 characters, rules aside."""
    for number in range(60):
        played = Collector(ExpertAgent()).collect(Job(EnvSpec("AgentTools-v0"), number, "train"))
        said = [step.observation + step.reply for step in played.steps]
        assert sum(map(len, said)) + len(played.final_observation) < 3000


def test_it_is_made_by_name() -> None:
    """Gymnasium makes every difficulty, and says which there are."""
    made = gymnasium.make("AgentTools-v0", difficulty="retrieval", disable_env_checker=True).unwrapped
    assert isinstance(made, TextEnv) and made.max_steps == 24
    with pytest.raises(ConfigError, match="retrieval"):
        ToolsEnv(difficulty="harder")


@pytest.mark.parametrize("difficulty", ["easy", "medium", "hard", "retrieval"])
def test_thoughts_quote_the_request_and_what_was_found(difficulty: str) -> None:
    """Every number of a thought was said before, but for sums and days; the last thought has the answer."""
    env = ToolsEnv(difficulty=difficulty, split="valid")
    for number in range(40):
        said, _ = env.reset(options={"task": number})
        today = env.session.puzzle.database.today
        said += " ".join((today + timedelta(days=days)).isoformat() for days in (-2, -1, 1, 2))
        for action in env.expert():
            thought = env.expert_thought(action)
            assert thought
            if not action.startswith("finish"):
                assert all(figure in said for figure in re.findall(r"[0-9-]+[0-9]", thought)), thought
            elif "backwards" not in thought:
                assert env.session.puzzle.answer in thought
            said += env.step(action)[0]


def test_thoughts_count_days_and_say_that_more_is_to_come() -> None:
    """A day in words has its sum in the thought; all calls but the last begin with "First:"."""
    env, sums, firsts = ToolsEnv(difficulty="easy"), 0, 0
    for number in range(300):
        env.reset(options={"task": number})
        while plan := env.expert():
            thought = env.expert_thought(plan[0])
            for day, sign, count, result in re.findall(r"(\d{4}-\d\d-\d\d) ([+-]) (\d) = (\d{4}-\d\d-\d\d)", thought):
                days = timedelta(days=int(sign + count))
                assert date.fromisoformat(day) + days == date.fromisoformat(result)
                assert date.fromisoformat(day) == env.session.puzzle.database.today and result in plan[0]
                sums += 1
            assert thought.startswith("First: ") == (len(plan) > 2)
            firsts += len(plan) > 2
            env.step(plan[0])
    assert sums > 5 and firsts > 30


@pytest.mark.parametrize(
    ("given_answer", "wanted", "field", "right"),
    [
        ("173 metres", "173", "elevation_m", True),
        ("173m", "173", "elevation_m", True),
        ("173 grams", "173", "elevation_m", False),
        ("173 metres", "173", "", False),
        ("-4 °C", "-4", "low_c", True),
        ("-5", "UTC-5", "time_zone", True),
        ("+5", "UTC-5", "time_zone", False),
        ("6:45", "06:45", "sunrise", True),
        ("6:45", "16:45", "sunrise", False),
    ],
)
def test_an_answer_may_have_the_unit_of_its_field(given_answer: str, wanted: str, field: str, right: bool) -> None:
    """Also where the request does not name it; a time may lack a zero, an offset the letters UTC."""
    assert same_answer(given_answer, wanted, "What is it?", field) is right


def test_a_place_takes_the_unit_of_its_field() -> None:
    """The field that a request asks for stands in its puzzle."""
    env = ToolsEnv(difficulty="easy")
    puzzles = [env.puzzle_of(env.task(number, "test")) for number in range(300)]
    assert any(puzzle.field == "elevation_m" for puzzle in puzzles)
    assert all(f'"{puzzle.field}"' in puzzle.answer_note for puzzle in puzzles if puzzle.field and puzzle.calls)


def test_a_requested_change_done_twice_is_unasked() -> None:
    """If it has an effect: a second order costs, an event that is moved to the same place does not."""
    env, seen = ToolsEnv(difficulty="easy"), {"place_order": 1.0, "add_event": 1.0, "move_event": 0.0}
    left = set(seen)
    for number in range(600):
        name = next((name for name in left if any(c.tool == name for c in env.puzzle_of(env.task(number)).calls)), "")
        if name:
            env.reset(options={"task": number})
            while not (call := env.expert()[0]).startswith(name):
                env.step(call)
            costs = [env.step(call)[4]["costs"].get("unasked_changes", 0.0) for _ in range(2)]
            assert costs == [0.0, seen[name]]
            left.remove(name)
    assert not left
