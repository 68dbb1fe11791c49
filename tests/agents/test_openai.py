"""An OpenAI-compatible endpoint as an agent: against a server that does what a test says, and one that generates."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("httpx2")
fastapi = pytest.importorskip("fastapi")
uvicorn = pytest.importorskip("uvicorn")

from agentgym_py import http_client
from agentgym_py.agents import ExpertAgent, RandomAgent
from agentgym_py.agents.chat import example_messages
from agentgym_py.agents.openai import OpenAIAgent
from agentgym_py.collection import Collector, Job, PlayConfig, jobs_for
from agentgym_py.collection.branching import snapshots_at
from agentgym_py.collection.replay import replay
from agentgym_py.env import EnvSpec, Prompt
from agentgym_py.errors import ConfigError, EndpointError
from agentgym_py.evaluation import summarise
from agentgym_py.evaluation.evaluate import ApiUsage, sum_usages
from agentgym_py.trajectory import Trajectory, store
from agentgym_py.trajectory.formats import agenttraj, trl
from agentgym_py.trajectory.formats.openai import ACT_TOOL, openai_chat
from agentgym_py.trajectory.preferences import build_pairs
from agentgym_py.trajectory.types import BY_TOOLS, Usage, opening_text, tool_rules, with_template

SECRET = "sk-of-the-tests-0123456789"
MAZE = EnvSpec("maze", {"difficulty": "easy"})


@dataclass
class Server:
    """Answers by its script, an entry a request, the last one forever: a response, seconds to hang, or a function."""

    url: str = ""
    script: list[Any] = field(default_factory=list)
    asked: list[tuple[float, dict[str, str], dict[str, Any]]] = field(default_factory=list)
    """When, headers and body of each request."""

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """What was asked."""
        return [body for _, _, body in self.asked]

    def app(self) -> Any:
        """The application."""
        made = fastapi.FastAPI()

        async def completions(request: Any) -> Any:
            self.asked.append((time.monotonic(), dict(request.headers), await request.json()))
            answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
            if callable(answer) and not isinstance(answer, fastapi.Response):
                answer = await answer(self.asked[-1][2])
            if isinstance(answer, float):
                await asyncio.sleep(answer)
                return refusal(500)
            return answer

        made.add_route("/v1/chat/completions", completions, methods=["POST"])
        return made


def completion(content: Any = "look", calls: Any = None, usage: Any = (100, 10), finish_reason: str = "stop") -> Any:
    """A whole answer."""
    message = {"role": "assistant", "content": content} | ({"tool_calls": calls} if calls is not None else {})
    counted = {"prompt_tokens": usage[0], "completion_tokens": usage[1]} if usage else None
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    body = {"model": "served-1", "choices": [choice], "usage": counted}
    return fastapi.Response(json.dumps(body), media_type="application/json")


def refusal(status: int, text: str = "{}", **headers: str) -> Any:
    """Anything else."""
    return fastapi.Response(text, status, headers)


def call(name: str, arguments: Any) -> list[Any]:
    """The tool calls of a message that makes two; only the first counts."""
    made = [{"name": name, "arguments": arguments}, {"name": "finish", "arguments": "{}"}]
    return [{"id": f"x{i}", "type": "function", "function": each} for i, each in enumerate(made)]


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """The address of a server in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as own:  # listens before the thread serves
        running = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
        thread = threading.Thread(target=running.run, kwargs={"sockets": [own]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{own.getsockname()[1]}/v1"
        finally:
            running.should_exit = running.force_exit = True
            thread.join(5)


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    """One server for all tests."""
    server = Server()
    with serving(server.app()) as server.url:
        yield server


@pytest.fixture
def server(running: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server with nothing asked yet; no key is set, and a second try comes soon."""
    running.script, running.asked = [completion()], []
    monkeypatch.delenv(http_client.KEY, raising=False)
    monkeypatch.setattr(http_client, "_FIRST_WAIT", 0.02)
    return running


def play(server: Server, *, tasks: int = 1, env: EnvSpec = MAZE, steps: int = 2, **settings: Any) -> list[Trajectory]:
    """Episodes of a few steps."""
    agent = OpenAIAgent("served", server.url, **settings)
    short = EnvSpec(env.name, {**env.kwargs, "max_steps": steps})
    return Collector(agent).collect_batch(jobs_for(short, "train", range(tasks)))


def experts(name: str, difficulty: str = "medium") -> Trajectory:
    """What the expert does in a world."""
    return Collector(ExpertAgent()).collect(Job(EnvSpec(name, {"difficulty": difficulty}), 3))


# ---- conversations --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tools", "shop", "household", "todo"])
def test_an_endpoint_that_writes_the_experts_texts_is_the_expert(server: Server, name: str) -> None:
    """What it says is what the world is given, and each request has the whole conversation so far."""
    expert = experts(name)
    server.script = [completion(step.reply) for step in expert.steps]
    collector = Collector(OpenAIAgent("served", server.url, temperature=0.5, extra={"top_p": 0.9, "max_tokens": None}))
    trajectory = collector.collect(Job(EnvSpec(name), 3))
    assert [s.reply for s in trajectory.steps] == [s.reply for s in expert.steps] and trajectory.success
    last = server.bodies[-1]
    assert {key: last[key] for key in last if key != "messages"} == {
        "model": "served",
        "temperature": 0.5,
        "top_p": 0.9,
    }
    turns = [f"{expert.rules}\n\n{expert.steps[0].observation}"]
    for before, step in pairwise(expert.steps):
        turns += [before.reply, step.observation]
    assert [turn["content"] for turn in last["messages"]] == turns
    assert [turn["role"] for turn in last["messages"]] == (["user", "assistant"] * len(turns))[: len(turns)]
    assert trajectory.provenance.agent == "served" and trajectory.provenance.sampling["base_url"] == server.url


def test_system_prompt_and_examples_come_first(server: Server) -> None:
    """Each example up to its last reply, before the conversation; the episode records them."""
    example = experts("maze")
    (trajectory,) = play(server, steps=1, system_prompt="Be brief.", few_shot=[example, example])
    turns = server.bodies[0]["messages"]
    length = 2 * len(example.steps)
    assert [turn["role"] for turn in turns] == ["system", *["user", "assistant"] * length, "user"]
    assert turns[0]["content"] == "Be brief." and turns[1 : 1 + length] == turns[1 + length : -1]
    assert [turn["content"] for turn in turns[2 : 1 + length : 2]] == [step.reply for step in example.steps]
    sampling = trajectory.provenance.sampling
    assert sampling["system_prompt"] == "Be brief." and sampling["few_shot"] == turns[1:-1]
    play(server)
    assert server.bodies[-1]["messages"][0]["role"] == "user"


def test_examples_call_tools_as_the_episode_does(server: Server) -> None:
    """Each call has an answer and an id of its own, which some providers demand."""
    example = experts("tools", "hard")
    play(server, env=EnvSpec("tools"), steps=2, tools=True, few_shot=[example, example])
    turns = server.bodies[-1]["messages"]
    calls = [turn["tool_calls"][0]["id"] for turn in turns if turn.get("tool_calls")]
    answers = [turn["tool_call_id"] for turn in turns if turn["role"] == "tool"]
    assert calls == answers and len(set(calls)) == len(calls) >= 4
    assert sum(turn["content"].count(BY_TOOLS) for turn in turns if turn["role"] == "user") == 3  # two and its own


@pytest.mark.parametrize("name", ["tools", "todo"])
def test_tool_calls_do_what_the_experts_texts_do(server: Server, name: str) -> None:
    """The schemas are sent, the first call of a reply counts, and it continues as OpenAI's conversations do."""
    expert = experts(name)
    row = openai_chat(expert)
    asked = [turn for turn in row["messages"] if turn["role"] == "assistant"]
    server.script = [completion(t["content"], [t["tool_calls"][0], *call("undo", "{}")]) for t in asked]
    trajectory = Collector(OpenAIAgent("served", server.url, tools=True)).collect(Job(EnvSpec(name), 3))
    assert [s.reply for s in trajectory.steps] == [s.reply for s in expert.steps] and trajectory.success
    env = EnvSpec(name).make()
    env.reset(seed=0, options={"task": expert.task_id})
    assert server.bodies[0]["tools"] == env.tools() and server.bodies[-1]["messages"] == row["messages"][:-1]


@pytest.mark.parametrize("template", [None, "Be quick.\n{rules}", "Be quick."])
@pytest.mark.parametrize("prompt", ["full", "none"])
def test_the_rules_say_that_calls_replace_the_text(server: Server, prompt: Prompt, template: str | None) -> None:
    """After the rules, also in a fork of an episode in text; the record has the rules alone and can be replayed."""
    rules = with_template(template, MAZE.make().rules[prompt])
    said = tool_rules(rules)
    config = PlayConfig(prompt=prompt, prompt_template=template)
    server.script = [completion("", call("look", "{}"))]
    collector = Collector(OpenAIAgent("served", server.url, tools=True), config)
    text = Collector(ExpertAgent(), config).collect(Job(MAZE, 3))
    forks = [Job(MAZE, 3, start=snapshots_at(t, [1])[0]) for t in (text, collector.collect(Job(MAZE, 3)))]
    for trajectory in collector.collect_batch([Job(MAZE, 3), *forks]):
        assert trajectory.rules == rules and replay(trajectory).holds and trajectory.provenance.sampling["tools"]
    contents = [body["messages"][0]["content"] for body in server.bodies]
    assert len(contents) >= 4 and set(contents) == {opening_text(said, text.steps[0].observation)}
    assert said.count(BY_TOOLS) == bool(rules)


def test_readers_of_text_see_no_sentence_about_tools(server: Server) -> None:
    """Of episodes that tools played: as examples, in rows, in pairs with episodes in text, and in a fork of one."""
    env = EnvSpec("tools", {"difficulty": "medium"})
    texts = [replace(experts("tools"), id="text", reward=0.0, success=False)]
    server.script = [completion("", [t["tool_calls"][0]]) for t in openai_chat(experts("tools"))["messages"][1::2]]
    called = Collector(OpenAIAgent("served", server.url, tools=True)).collect(Job(env, 3))
    assert called.success and BY_TOOLS in server.bodies[0]["messages"][0]["content"]
    assert called.rules == texts[0].rules and len(build_pairs([called, *texts]).pairs) == 1
    for row in (trl.messages(called), agenttraj.to_row(called), example_messages(called)):
        assert BY_TOOLS not in json.dumps(row) and "Action:" in json.dumps(row)
    assert BY_TOOLS in json.dumps(openai_chat(called)) and BY_TOOLS in json.dumps(example_messages(called, [ACT_TOOL]))
    server.asked, server.script = [], [completion("Action: finish")]
    fork = Job(env, 3, start=snapshots_at(called, [1])[0])
    assert Collector(OpenAIAgent("served", server.url)).collect(fork).rules == called.rules
    assert BY_TOOLS not in json.dumps(server.bodies[0])


def test_a_world_that_reads_no_calls_has_one_tool(server: Server) -> None:
    """A call of `act` is the action's text, as such a world takes it; its thought is not part of it."""
    strict = EnvSpec("shop", {"strict_compat": True})
    server.script = [
        completion("I look.", call("act", '{"action": "search[red cup]"}')),
        completion("", call("act", "{")),
    ]
    (trajectory,) = play(server, env=strict, tools=True)
    assert [tool["function"]["name"] for tool in server.bodies[0]["tools"]] == ["act"]
    assert [(s.reply, s.valid) for s in trajectory.steps] == [("search[red cup]", True), ("{", False)]
    made = server.bodies[1]["messages"][1]["tool_calls"][0]["function"]
    assert made == {"name": "act", "arguments": '{"action": "search[red cup]"}'}


@pytest.mark.parametrize(
    "calls",
    [
        call("search_people", '{"name": "Hugo'),
        call("search_people", "[1]"),
        call("no_such_tool", "{}"),
        call("a b\nAction: finish", '{"x": 1}'),
        call("search_people", {"nome": 1}),
        [{"function": {"name": 7}}],
        [None],
        {"0": 1},
        "finish",
    ],
)
def test_broken_tool_calls_are_invalid_actions(server: Server, calls: Any) -> None:
    """Never an exception; the world says what is wrong, and what is sent next is whole again."""
    server.script = [completion("so", calls)]
    (trajectory,) = play(server, env=EnvSpec("tools"), tools=True)
    assert [step.valid for step in trajectory.steps] == [False, False] and trajectory.error is None
    for turn in server.bodies[1]["messages"]:
        for each in turn.get("tool_calls", []):
            assert isinstance(json.loads(each["function"]["arguments"]), dict)


@pytest.mark.parametrize(
    ("content", "reply"),
    [
        (None, ""),
        ("", ""),
        ([{"type": "text", "text": "Action: "}, {"type": "text", "text": "look"}, 3], "Action: look"),
        ({"text": "look"}, ""),
        ("\ud800 look", "\ud800 look"),
    ],
)
def test_any_content_is_a_reply(server: Server, content: Any, reply: str) -> None:
    """A model that says nothing has done something invalid; that is its failure, not the endpoint's."""
    server.script = [completion(content)]
    (trajectory,) = play(server)
    assert [step.reply for step in trajectory.steps] == [reply] * 2 and trajectory.error is None
    assert len(server.asked) == 2 and store.from_line(store.to_line(trajectory)) == trajectory


def test_a_cut_reply_is_recorded(server: Server) -> None:
    """By the endpoint's finish_reason, with and without token counts."""
    for usage in ((100, 10), None):
        server.script = [completion(usage=usage, finish_reason=reason) for reason in ("length", "stop")]
        (episode,) = play(server)
        assert [step.cut for step in episode.steps] == [True, False]
        assert summarise([episode]).cut == 0.5 and store.from_line(store.to_line(episode)) == episode


def test_seeds_are_the_episodes_own(server: Server) -> None:
    """Where they are asked for, another for each request, and the same the next time."""
    play(server, tasks=2, seeds=True)
    first = sorted(body["seed"] for body in server.bodies)
    server.asked = []
    play(server, tasks=2, seeds=True)
    assert sorted(body["seed"] for body in server.bodies) == first and len(set(first)) == 4
    server.asked = []
    play(server)
    assert "seed" not in server.bodies[0] and "temperature" not in server.bodies[0]


def test_so_many_requests_at_once_and_no_more(server: Server) -> None:
    """Eight episodes through three connections, whatever the batch is."""
    live, most = 0, 0

    async def slowly(_: Any) -> Any:
        nonlocal live, most
        live += 1
        most = max(most, live)
        await asyncio.sleep(0.05)
        live -= 1
        return completion()

    server.script = [slowly]
    assert len(play(server, tasks=8, concurrency=3)) == 8 and len(server.asked) == 16
    assert most == 3


def test_it_plays_where_a_loop_runs_already(server: Server) -> None:
    """As in a notebook."""

    async def cell() -> list[Trajectory]:
        return play(server)

    assert len(asyncio.run(cell())[0].steps) == 2


def test_it_goes_on_from_others_steps(server: Server) -> None:
    """What was done before is sent as its own, and nothing that only files for training have."""
    env = EnvSpec("tools")
    expert = Collector(ExpertAgent()).collect(Job(env, 3))
    (fork,) = snapshots_at(expert, [1])
    server.script = [completion("", call("finish", '{"answer": "x"}'))]
    (trajectory,) = Collector(OpenAIAgent("m", server.url, tools=True)).collect_batch([Job(env, 3, start=fork)])
    assert len(trajectory.steps) == 2 and server.bodies[0]["messages"] == openai_chat(expert)["messages"][:3]


# ---- faults ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        refusal(429),
        refusal(500, "<html>oh</html>"),
        refusal(503, json.dumps({"error": {"message": "busy"}})),
        refusal(408),
        refusal(200, "{garbage"),
        refusal(200, "[" * 100_000),
        refusal(200, '{"choices": []}'),
        refusal(200, '{"error": {"message": "upstream is down"}}'),
        refusal(200, '{"choices": [{"message": "look"}]}'),
        refusal(200, "\x00", **{"content-length": "100"}),
    ],
)
def test_what_fails_for_now_is_asked_again(server: Server, fault: Any) -> None:
    """The same request, until it is answered; the episode does not show it."""
    server.script = [fault, fault, completion()]
    (trajectory,) = play(server, steps=1)
    assert trajectory.error is None and [s.reply for s in trajectory.steps] == ["look"]
    assert len(server.asked) == 3 and server.bodies[0] == server.bodies[2]


def test_a_request_without_an_answer_in_time_is_sent_again(server: Server) -> None:
    """Also more than once, as on a busy machine."""
    server.script = [30.0, completion()]
    (trajectory,) = play(server, steps=1, timeout=0.5, retries=20)
    assert trajectory.error is None and [s.reply for s in trajectory.steps] == ["look"]
    assert len(server.asked) >= 2 and server.bodies[0] == server.bodies[-1]


def gaps(server: Server) -> list[float]:
    """Seconds between requests."""
    times = [at for at, _, _ in server.asked]
    return [after - before for before, after in pairwise(times)]


def test_an_agent_that_is_gone_leaves_no_connection(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connections are closed with it: a process may make many agents."""
    import httpx2

    clients, send = list[Any](), httpx2.AsyncClient.send

    async def noted(self: Any, *given: Any, **more: Any) -> Any:
        clients.append(self)
        return await send(self, *given, **more)

    monkeypatch.setattr(httpx2.AsyncClient, "send", noted)
    agent = OpenAIAgent("served", server.url)
    Collector(agent).collect(Job(EnvSpec("maze", {"max_steps": 1}), 0))
    (client,) = clients
    assert not client.is_closed
    del agent
    gc.collect()
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), http_client.event_loop()).result(10)
    assert client.is_closed


def test_waits_double_and_vary(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """From one try to the next, less up to half by chance, so that episodes that failed together part."""
    monkeypatch.setattr(http_client, "_FIRST_WAIT", 0.1)
    server.script = [refusal(500), refusal(500), refusal(500), completion()]
    play(server, steps=1)
    for gap, longest in zip(gaps(server), (0.1, 0.2, 0.4), strict=True):
        assert gap >= longest / 2
    server.script, server.asked = [refusal(500)] * 16 + [completion()], []
    play(server, steps=1, tasks=16)
    first = sorted(at for at, _, _ in server.asked[16:])
    assert first[-1] - first[0] > 0.01


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_is_honoured(server: Server, form: str) -> None:
    """As seconds or as a date: no request comes sooner."""
    until = int(time.time()) + 2
    when = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(until))
    server.script = [refusal(429, **{"retry-after": "1" if form == "seconds" else when}), completion()]
    (trajectory,) = play(server, steps=1)
    assert trajectory.error is None
    assert gaps(server)[0] >= 1.0 if form == "seconds" else time.time() >= until


def test_a_wait_of_an_hour_is_not_waited_for(server: Server) -> None:
    """The error says how long the server asks for."""
    server.script = [refusal(429, '{"error": {"message": "slow down"}}', **{"retry-after": "3600"})]
    with pytest.raises(
        EndpointError, match=r"\(model 'served'\) gave no answer: 429 .*slow down; it asks to wait 3600 s"
    ):
        play(server)
    assert len(server.asked) == 1


def test_an_endpoint_that_never_answered_is_an_error(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    """After the chosen number of retries, which are logged; a refused connection is not retried."""
    server.script = [refusal(502, '{"detail": "no model"}')]
    with pytest.raises(EndpointError, match=r"gave no answer: 502 Bad Gateway: no model \(attempts: 3\)$"):
        play(server, tasks=4, retries=2)
    (line,) = caplog.messages
    assert line.endswith("gave no answer: 502 Bad Gateway: no model; retrying up to 2 times")
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        server = Server(f"http://127.0.0.1:{nobody.getsockname()[1]}/v1")
        with pytest.raises(EndpointError, match=r"gave no answer: ConnectError: .*\. Start the server or correct"):
            play(server, tasks=4, retries=1000)  # a retry would take too long


def test_one_lost_request_is_one_lost_episode(server: Server) -> None:
    """It is no evidence; its steps, and what they cost, stay; the others go on."""
    expert = experts("maze").steps[0].observation

    async def picky(body: dict[str, Any]) -> Any:
        turns = body["messages"]
        return refusal(500) if len(turns) == 3 and expert in turns[0]["content"] else completion()

    server.script = [picky]
    trajectories = play(server, tasks=5, env=EnvSpec("maze"), retries=1)
    lost = f"{server.url} (model 'served') gave no answer: 500 Internal Server Error: {{}} (attempts: 2)"
    assert [t.error for t in trajectories] == [None, None, None, lost, None]
    evaluation = summarise(trajectories)
    assert (
        evaluation.errors == 1
        and evaluation.success.n == 4
        and evaluation.spent is not None
        and evaluation.spent.replies == 9
    )


def test_a_first_request_that_is_refused_is_not_the_endpoints_end(server: Server) -> None:
    """Where another of the same batch is answered, as where a filter dislikes one prompt."""
    others = asyncio.Event()

    async def answered(body: dict[str, Any]) -> Any:
        if len(server.asked) == 1:
            await asyncio.wait_for(others.wait(), 20)
            return refusal(400, '{"message": "a bad word"}')
        others.set()
        return completion()

    server.script = [answered]
    trajectories = play(server, tasks=3, concurrency=3)
    assert sorted("a bad word" in (t.error or "") for t in trajectories) == [False, False, True]


def test_no_episode_waits_for_anothers_reply(server: Server) -> None:
    """The first of an episode's replies comes when another episode is over: in lock-step none would ever be."""
    over = asyncio.Event()

    async def held(body: dict[str, Any]) -> Any:
        if len(server.asked) == 1:
            await asyncio.wait_for(over.wait(), 20)
        elif len(body["messages"]) == 5:
            over.set()
        return completion()

    server.script = [held]
    first, second = play(server, tasks=2, steps=3, retries=0)
    assert (len(first.steps), first.error, len(second.steps), second.error) == (3, None, 3, None)


def test_an_endpoint_that_breaks_ends_it(server: Server) -> None:
    """Five requests in a row without an answer are no bad luck."""
    server.script = [completion(), refusal(500)]
    with pytest.raises(EndpointError, match=r"gave no answer: 500.*; 5 requests failed with no answered one between"):
        play(server, tasks=12, retries=0, concurrency=1)
    assert len(server.asked) == 6


def test_no_more_episodes_than_requests_are_live(server: Server) -> None:
    """So that the first ones end early, and a stop loses few."""
    server.script = [completion()]
    agent = OpenAIAgent(model="m", base_url=server.url, concurrency=2)
    spec = replace(MAZE, kwargs={"max_steps": 4})
    assert len(Collector(agent).collect_batch(jobs_for(spec, "train", range(6)))) == 6
    openings = [str(body["messages"][0]) for _, _, body in server.asked]
    assert agent.slots == 2 and len(set(openings)) == 6 and len(set(openings[:6])) == 2


def test_requests_that_wait_for_a_broken_endpoint_are_not_sent(server: Server) -> None:
    """More episodes than requests at once may be live only if somebody sets `slots`."""
    server.script = [completion(), refusal(500)]
    agent = OpenAIAgent("served", server.url, concurrency=1, retries=0)
    agent.slots = 12
    with pytest.raises(EndpointError, match="5 requests failed with no answered one between"):
        Collector(agent).collect_batch(jobs_for(MAZE, "train", range(12)))
    assert len(server.asked) == 6


def test_a_refused_temperature_is_advised_on(server: Server) -> None:
    """Some models take none; it is never left out in silence, because that would sample otherwise than was asked."""
    server.script = [refusal(400, '{"error": {"message": "\'temperature\' does not support 0.0 with this model"}}')]
    with pytest.raises(EndpointError, match=r"this model \(agent_kwargs.temperature=null sends none\)$"):
        play(server, temperature=0.0)
    with pytest.raises(EndpointError, match=r"with this model$"):
        play(server)


@pytest.mark.parametrize(
    ("fault", "expected_text"),
    [
        (
            refusal(401, f'{{"detail": "not {SECRET}"}}'),
            "401 Unauthorized: not …. The key in",
        ),
        (
            refusal(403, "no"),
            "403 Forbidden: no. The key in the environment variable OPENAI_API_KEY is wrong or has no",
        ),
        (refusal(404, '{"detail": "Not Found"}'), "is not there: 404 Not Found: Not Found. An address ends in /v1"),
        (refusal(400, '{"message": "no such field"}'), "refused a request: 400 Bad Request: no such field"),
        (refusal(307, "", location="http://elsewhere/"), "refused a request: 307"),
        (
            refusal(429, '{"error": {"message": "pay", "code": "insufficient_quota"}}'),
            "refuses: 429 Too Many Requests: pay",
        ),
    ],
)
def test_what_will_not_mend_is_said_at_once(
    server: Server, monkeypatch: pytest.MonkeyPatch, fault: Any, expected_text: str
) -> None:
    """In a sentence, which never shows the key."""
    monkeypatch.setenv(http_client.KEY, SECRET)
    server.script = [fault]
    with pytest.raises(EndpointError) as error:
        play(server)
    assert expected_text in str(error.value) and SECRET not in str(error.value) and len(server.asked) == 1
    assert server.asked[0][1]["authorization"] == f"Bearer {SECRET}"


def test_without_a_key_none_is_sent(server: Server) -> None:
    """And where one is wanted, it is said that there is none."""
    server.script = [completion(), refusal(401)]
    with pytest.raises(EndpointError, match=r"OPENAI_API_KEY is not set$"):
        play(server)
    assert "authorization" not in server.asked[0][1]


def test_a_key_that_is_none_is_not_shown(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """One with a line feed within, as two lines of a file are."""
    monkeypatch.setenv(http_client.KEY, f"{SECRET}\nx")
    with pytest.raises(EndpointError, match="characters that are not printable ASCII") as error:
        play(server)
    assert SECRET not in str(error.value) and not server.asked


@pytest.mark.parametrize(
    "error",
    [
        {"code": "context_length_exceeded", "message": "too long"},
        {"message": "This model's maximum context length is 4096 tokens."},
        {"type": "exceed_context_size_error", "message": "the request exceeds the available context size"},
    ],
)
def test_a_full_context_gives_the_episode_up(server: Server, error: dict[str, str]) -> None:
    """As that of a local model does; such an episode counts."""
    server.script = [completion(), refusal(400, json.dumps({"error": error}))]
    (trajectory,) = play(server, steps=5)
    assert trajectory.given_up and trajectory.error is None and len(trajectory.steps) == 1


AZURE = {
    "code": "content_filter",
    "message": "The response was filtered due to Azure OpenAI's content management policy",
}
REFUSALS = [
    refusal(400, json.dumps({"error": AZURE})),
    refusal(400, '{"error": {"code": "invalid_prompt", "message": "Invalid prompt: your prompt was flagged as ..."}}'),
    refusal(403, '{"error": {"code": 403, "message": "The model requires moderation and your input was flagged"}}'),
    completion("Action: loo", finish_reason="content_filter"),
    completion(None, call("search_people", '{"name": "Hugo"}'), finish_reason="content_filter"),
    refusal(200, '{"choices": [{"finish_reason": "content_filter"}]}'),
    refusal(200, '{"choices": [{"finish_reason": "stop", "message": {"content": null, "refusal": "I cannot."}}]}'),
    refusal(200, '{"choices": [{"finish_reason": "content_filter", "message": {"content": "a", "refusal": [1]}}]}'),
]


@pytest.mark.parametrize("answer", REFUSALS, ids=range(len(REFUSALS)))
def test_a_refusal_is_an_empty_reply_and_counted(server: Server, answer: Any) -> None:
    """It is the model's outcome, however the provider says it: an invalid action, and the episode continues."""
    server.script = [answer, completion()]
    (episode,) = play(server, steps=2, tools=True, env=EnvSpec("tools"), retries=0)
    assert [step.reply for step in episode.steps] == ["", "look"] and episode.error is None
    assert not episode.steps[0].valid and len(server.asked) == 2
    refused = [step.usage.refused for step in episode.steps if step.usage]
    assert refused[0] and not refused[1] and "None" not in refused[0]
    assert store.from_line(store.to_line(episode)) == episode
    for error in (None, "lost"):
        evaluation = summarise([replace(episode, error=error)])
        calls = int(answer is REFUSALS[4] and error is None)
        assert (evaluation.refused, evaluation.errors, evaluation.extra_calls) == (1, int(error == "lost"), calls)


@pytest.mark.parametrize("env", [EnvSpec("tools"), EnvSpec("shop", {"strict_compat": True})], ids=lambda env: env.name)
@pytest.mark.parametrize("tools", [True, False])
def test_a_blank_reply_is_no_turn(server: Server, env: EnvSpec, tools: bool) -> None:
    """Many endpoints refuse one; users and assistant take turns, and every observation is read."""
    made = call("act" if env.kwargs else "search_people", "{}")
    good = completion("hm", made) if tools else completion("Action: look")
    server.script = [REFUSALS[0], completion(" \n"), good, REFUSALS[0], completion()]
    (episode,) = play(server, steps=5, tools=tools, env=env, retries=0)
    turns = server.bodies[-1]["messages"]
    assert [turn["role"] for turn in turns] == ["user", "assistant", "tool" if tools else "user"]
    assert all(turn.get("tool_calls") or turn["content"].strip() for turn in turns)
    texts = [step.observation for step in episode.steps]
    assert turns[0]["content"].endswith("\n\n".join(texts[:3])) and turns[2]["content"] == "\n\n".join(texts[3:])


def test_a_filter_that_refuses_everything_ends_no_evaluation(server: Server) -> None:
    """Five requests that only a filter refused are no outage, and the first one is none either."""
    server.script = [REFUSALS[0]]
    episodes = play(server, tasks=3, steps=3, retries=0, concurrency=1)
    assert summarise(episodes).refused == 9 and not any(episode.error for episode in episodes)


def test_calls_after_the_first_are_counted(server: Server) -> None:
    """They are not done, an endpoint is asked to make none, and `extra` can leave that request out."""
    first, second = call("search_people", '{"name": "Hugo"}')
    server.script = [completion(None, [first, second, second]), completion(None, [first])]
    (episode,) = play(server, env=EnvSpec("tools"), tools=True)
    assert [step.action for step in episode.steps] == ["search_people"] * 2 and summarise([episode]).extra_calls == 2
    assert store.from_line(store.to_line(episode)) == episode
    play(server, env=EnvSpec("tools"), tools=True, extra={"parallel_tool_calls": None})
    play(server)
    assert [body.get("parallel_tool_calls") for body in server.bodies] == [False, False, None, None, None, None]
    server.script = [refusal(400, '{"error": {"message": "Unsupported parameter: \'parallel_tool_calls\'"}}')]
    with pytest.raises(EndpointError, match=r"agent_kwargs.extra='\{\"parallel_tool_calls\": null\}' sends none\)$"):
        play(server, tools=True)


def test_an_unknown_tool_is_answered_as_a_call(server: Server) -> None:
    """The next request has the call and, as its answer, what the world says about it."""
    server.script = [completion("so", [{"function": {"name": "no_such_tool", "arguments": '{"x": 1}'}}])]
    (episode,) = play(server, env=EnvSpec("tools"), tools=True)
    made, answer = server.bodies[1]["messages"][1:]
    assert made["tool_calls"][0]["function"] == {"name": "no_such_tool", "arguments": '{"x": 1}'}
    assert answer["role"] == "tool" and answer["content"] == episode.steps[1].observation


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_does_not_wait_for_an_answer(server: Server) -> None:
    """It ends the request under way."""
    server.script = [60.0]
    timer = threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT])
    began = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        play(server)
    assert time.monotonic() - began < 10


def refuses_max_tokens(body: dict[str, Any]) -> Any:
    """What OpenAI's reasoning models answer."""
    text = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    return refusal(400, json.dumps({"error": {"message": text}})) if "max_tokens" in body else completion()


def test_a_server_that_refuses_max_tokens_gets_max_completion_tokens(server: Server) -> None:
    """The refused request is sent again, all later ones have the new name, and no episode shows it."""

    async def answer(body: dict[str, Any]) -> Any:
        return refuses_max_tokens(body)

    server.script = [answer]
    trajectories = play(server, tasks=3, steps=3, concurrency=1, retries=0, max_new_tokens=77)
    assert [trajectory.error for trajectory in trajectories] == [None] * 3
    limits = [{name: body[name] for name in body if name.startswith("max_")} for body in server.bodies]
    assert limits == [{"max_tokens": 77}] + [{"max_completion_tokens": 77}] * 9


@pytest.mark.parametrize("is_first", [True, False])
def test_a_server_that_refuses_parallel_tool_calls_gets_none(server: Server, is_first: bool) -> None:
    """The refused request is sent again, all later ones have no such field; also if it refuses `max_tokens`, too."""

    async def answer(body: dict[str, Any]) -> Any:
        text = "Unsupported parameter: 'parallel_tool_calls' is not supported with this model."
        refused = refuses(body, "parallel_tool_calls", text)
        if is_first and "parallel_tool_calls" in body:
            return refused
        return refuses_max_tokens(body) if "max_tokens" in body else refused

    server.script = [answer]
    episodes = play(server, tasks=2, steps=3, concurrency=1, retries=0, tools=True, extra={"top_p": 0.5})
    assert [episode.error for episode in episodes] == [None] * 2
    for body in server.bodies[-6:]:
        assert "parallel_tool_calls" not in body and "max_tokens" not in body and body["top_p"] == 0.5
    assert len(server.asked) == (8 if is_first else 9)
    server.asked = []
    with pytest.raises(EndpointError, match="sends none"):
        play(server, retries=0, tools=True, extra={"parallel_tool_calls": True})
    assert all(body["parallel_tool_calls"] for body in server.bodies)


def test_a_refused_field_is_left_out_of_requests_that_are_on_their_way(server: Server) -> None:
    """Their refusals come after the first one was mended."""

    async def answer(body: dict[str, Any]) -> Any:
        if "parallel_tool_calls" in body and len(server.asked) > 1:
            await asyncio.sleep(0.5)
        return refuses(body, "parallel_tool_calls", "parallel_tool_calls: unknown field")

    server.script = [answer]
    episodes = play(server, tasks=2, steps=2, concurrency=2, retries=0, tools=True)
    assert [episode.error for episode in episodes] == [None] * 2
    assert sum("parallel_tool_calls" in body for body in server.bodies) == 2


def refuses(body: dict[str, Any], name: str, text: str) -> Any:
    """A refusal of requests with a field."""
    return refusal(400, json.dumps({"error": {"message": text}})) if name in body else completion()


def test_a_refusal_that_names_max_tokens_alone_is_enough(server: Server) -> None:
    """The server need not say which name it wants."""

    async def answer(body: dict[str, Any]) -> Any:
        return refuses(body, "max_tokens", "Unrecognized request argument supplied: max_tokens")

    server.script = [answer]
    trajectories = play(server, tasks=2, steps=2, concurrency=1, retries=0)
    assert [trajectory.error for trajectory in trajectories] == [None] * 2
    assert ["max_tokens" in body for body in server.bodies] == [True] + [False] * 4


def test_a_server_that_refuses_both_names_is_quoted_on_the_old_one(server: Server) -> None:
    """It is asked twice, and the user reads what is wrong with the limit, not that a name is unknown."""

    async def answer(body: dict[str, Any]) -> Any:
        if "max_tokens" in body:
            return refuses(body, "max_tokens", "max_tokens must be at most 4096")
        return refuses(body, "max_completion_tokens", "max_completion_tokens: unknown field")

    server.script = [answer]
    with pytest.raises(EndpointError, match="max_tokens must be at most 4096"):
        play(server, retries=0)
    assert len(server.asked) == 2


def test_both_names_of_the_limit_are_left_as_they_are(server: Server) -> None:
    """A user who sets the new one beside the old gets the server's refusal."""

    async def answer(body: dict[str, Any]) -> Any:
        return refuses_max_tokens(body)

    server.script = [answer]
    with pytest.raises(EndpointError, match="Use 'max_completion_tokens' instead"):
        play(server, extra={"max_completion_tokens": 5})
    assert len(server.asked) == 1
    server.script, server.asked = [answer], []
    play(server, steps=1, extra={"max_completion_tokens": 5, "max_tokens": None})
    assert server.bodies[0]["max_completion_tokens"] == 5


# ---- counts ---------------------------------------------------------------------------------------------------------


def test_tokens_and_cost_are_counted(server: Server) -> None:
    """In each step, and in all; by the user's prices."""
    server.script = [completion(usage=(1000, 20)), completion(usage=(3000, 40))]
    (trajectory,) = play(server, prompt_price=2.0, completion_price=10.0)
    assert [s.usage for s in trajectory.steps] == [
        Usage(1000, 20, 0.0022, "served-1"), Usage(3000, 40, 0.0064, "served-1"),
    ]  # fmt: skip
    evaluation = summarise([trajectory])
    assert evaluation.spent == ApiUsage(2, 4000, 60, 0, 0.0086, ("served-1",)) and evaluation.tokens == 60
    assert str(evaluation.spent) == "2 replies, 4,000 prompt and 60 completion tokens, cost 0.0086"
    assert store.from_line(store.to_line(trajectory)) == trajectory


def test_latency_is_that_of_the_answered_request(server: Server) -> None:
    """Without waits and earlier attempts, which are counted; no file of episodes has it, so equal ones are equal."""
    server.script = [refusal(500), 0.3, completion()]
    (trajectory,) = play(server, steps=1, timeout=30)
    (step,) = trajectory.steps
    assert step.usage is not None and step.usage.latency is not None and step.usage.latency > 0
    spent = summarise([trajectory]).spent
    assert spent is not None and spent.latency == spent.latency_median == spent.latency_p95 == step.usage.latency
    assert spent.retries == step.usage.retries == 2 and "2 repeated requests" in str(spent)
    assert b"latency" not in store.to_line(trajectory) and b"retries" not in store.to_line(trajectory)


def test_latency_is_told_by_its_median_and_95th_percentile() -> None:
    """A slow reply in twenty moves the mean, not the median; stored replies have no latency."""
    usages = [Usage(1, 1, latency=second) for second in [*range(1, 21), 1000]]
    spent = sum_usages([*usages, Usage(1, 1)])
    assert spent is not None and (spent.latency_median, spent.latency_p95) == (11, 20)
    assert spent.latency == pytest.approx(1210 / 21)
    none = sum_usages([Usage(1, 1)])
    assert none is not None and none.latency is none.latency_p95 is None


def test_a_cost_that_no_store_takes_is_not_counted(server: Server) -> None:
    """The counts remain, and the episode can be written."""
    server.script = [completion(usage=(1000, 20))]
    (trajectory,) = play(server, steps=1, prompt_price=1e13, completion_price=0)
    assert trajectory.steps[0].usage == Usage(1000, 20, None, "served-1")
    assert store.from_line(store.to_line(trajectory)) == trajectory


@pytest.mark.parametrize("usage", [None, (None, 3), ("9", 3), (-1, 3), (2.5, 3), (True, 3), (2**32 + 1, 3)])
def test_what_was_not_counted_is_said(server: Server, usage: Any) -> None:
    """It is not zero."""
    server.script = [completion(usage=(100, 10)), completion(usage=usage)]
    (trajectory,) = play(server, prompt_price=1.0, completion_price=1.0)
    counted = trajectory.steps[1].usage
    assert counted is not None and counted.prompt_tokens is None and counted.cost is None
    evaluation = summarise([trajectory])
    assert evaluation.spent is not None and evaluation.tokens is None
    assert (evaluation.spent.prompt_tokens, evaluation.spent.uncounted) == (100, 1) and "1 replies not counted" in str(
        evaluation.spent
    )


def test_others_cost_nothing() -> None:
    """An agent that is no endpoint has no such figures."""
    assert summarise(Collector(RandomAgent()).collect_batch(jobs_for("maze", "train", [0]))).spent is None


# ---- settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "expected_text"),
    [
        ({"model": ""}, "model is missing"),
        ({"base_url": "localhost:8000/v1"}, "base_url must be an address such as http://localhost:8000/v1"),
        ({"base_url": "ftp://a/v1"}, "base_url must be an address"),
        ({"base_url": "http://a:99999/v1"}, "base_url must be an address"),
        ({"base_url": "http://a/v1?key=x"}, "base_url must be an address"),
        ({"base_url": "http://a/v 1"}, "base_url must be an address"),
        ({"base_url": f"https://me:{SECRET}@a/v1"}, "base_url must hold no user and no password"),
        ({"concurrency": 0}, "concurrency must be at least 1"),
        ({"timeout": 0}, "timeout must be above 0"),
        ({"prompt_price": 1.0}, "prompt_price and completion_price must be set together"),
        ({"prompt_price": -1.0, "completion_price": 1.0}, "not be negative"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], expected_text: str) -> None:
    """Before anything is sent; a password is not repeated."""
    with pytest.raises(ConfigError, match=expected_text) as error:
        OpenAIAgent(**{"model": "m", "base_url": "http://127.0.0.1:9/v1"} | settings)
    assert SECRET not in str(error.value)


def test_importing_it_loads_no_client() -> None:
    """The client is loaded when something is sent."""
    code = "import sys, agentgym_py.agents.openai; sys.exit('httpx2' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---- a server that generates ----------------------------------------------------------------------------------------


def _wait_for(port: int, seconds: float = 60) -> None:
    """Wait until a server listens at the port."""
    until = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


@pytest.mark.skipif(not (find_spec("transformers") and find_spec("openai")), reason="needs transformers[serving]")
def test_a_model_behind_a_real_server_says_what_it_says_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """`transformers serve` with the base of `tiny`: its greedy replies and counts of tokens are our engine's."""
    pytest.importorskip("torch")
    from transformers.cli.serve import Serve

    from agentgym_py.agents import ModelAgent
    from agentgym_py.engine import HFEngine, SamplingParams
    from agentgym_py.policy import Policy
    from agentgym_py.policy.tiny import base_folder

    monkeypatch.delenv(http_client.KEY, raising=False)
    with base_folder() as folder:
        with socket.socket() as own:
            own.bind(("127.0.0.1", 0))
            port = own.getsockname()[1]
        served = Serve(str(folder), host="127.0.0.1", port=port, device="cpu", log_level="error", non_blocking=True)
        try:
            _wait_for(port)
            agent = OpenAIAgent(str(folder), f"http://127.0.0.1:{port}/v1", temperature=0, max_new_tokens=16)
            jobs = jobs_for(EnvSpec("maze", {"max_steps": 3}), "train", range(3))
            there = Collector(agent).collect_batch(jobs)
        finally:
            served.kill_server()
    policy = Policy.load("tiny", device="cpu")
    local = ModelAgent(policy, HFEngine(policy), SamplingParams(temperature=0, max_new_tokens=16))
    for served_episode, episode in zip(there, Collector(local).collect_batch(jobs), strict=True):
        first, own_first = served_episode.steps[0], episode.steps[0]
        assert first.reply == own_first.reply and first.usage is not None and own_first.tokens is not None
        assert first.usage.prompt_tokens == len(own_first.tokens.context)
        assert first.usage.completion_tokens == len(own_first.tokens.ids)
        assert len(served_episode.steps) == 3 and served_episode.error is None
