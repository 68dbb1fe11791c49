from __future__ import annotations

import base64
import gc
import json
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("fastapi")
from starlette.testclient import TestClient

from agentgym_py import registry
from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError, InfrastructureError
from agentgym_py.serving.calls import CALLS
from agentgym_py.serving.protocol import SESSIONS
from agentgym_py.serving.server import make_app
from agentgym_py.serving.sessions import Limits, Sessions

TOKEN = "a-token-for-tests"
HOST = "http://127.0.0.1:8000"
KEY = "a-session-of-these-tests"
ODD = "OddForTests-v0"


@pytest.fixture
def client() -> Any:
    """Requests by hand, to a server of the maze and of a world that misbehaves."""
    sessions = Sessions([EnvSpec("maze"), EnvSpec(ODD)], Limits(longest=2.0, request_bytes=5000, changes=30))
    with TestClient(make_app(sessions, TOKEN, "127.0.0.1"), HOST, headers={"Authorization": f"Bearer {TOKEN}"}) as made:
        yield made


def made(client: TestClient, env: str = ODD, key: str = KEY, **kwargs: Any) -> str:
    """The address of a new session that was reset."""
    path = f"{SESSIONS}/{key}"
    answer = client.put(path, json={"env": env, "kwargs": kwargs})
    assert answer.status_code == 200, answer.text
    assert client.post(f"{path}/reset", json={"n": 1, "seed": 0}).status_code == 200
    return path


def error(answer: Any) -> tuple[int, str, str]:
    """Status, type and message."""
    said = answer.json()["error"]
    return answer.status_code, said["type"], said["message"]


# ------------------------------------------------------------------------------------------------------ who is let in


def test_nothing_is_told_without_the_token(client: TestClient) -> None:
    """Every address but /health answers 401 before it looks at anything; no token nearly fits."""
    made(client)
    asked = [("GET", SESSIONS), ("PUT", f"{SESSIONS}/{KEY}"), ("DELETE", f"{SESSIONS}/{KEY}")]
    asked += [("POST", f"{SESSIONS}/{KEY}/{call}") for call in CALLS]
    for method, path in asked:
        for wrong in ("", "Bearer ", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", f"bearer {TOKEN}", TOKEN, "Bearer é"):
            answer = client.request(method, path, headers={b"Authorization": wrong.encode()}, content=b"{")
            assert error(answer)[:2] == (401, "BadToken"), (method, path, wrong)
    assert client.get("/health", headers={"Authorization": ""}).json() == {"ok": True, "protocol": 1}
    for path in ("/", "/docs", "/openapi.json", f"{SESSIONS}/{KEY}"):
        assert client.get(path).status_code in (404, 405)


@pytest.mark.parametrize(
    ("at", "host", "status"),
    [
        ("127.0.0.1", "127.0.0.1:5", 200), ("127.0.0.1", "localhost", 200), ("127.0.0.1", "evil.example", 400),
        ("127.0.0.1", "10.0.0.5", 400), ("10.0.0.5", "10.0.0.5:80", 200), ("10.0.0.5", "evil.example", 400),
        ("0.0.0.0", "anything.example", 200),  # noqa: S104  # nothing is bound
    ],
)  # fmt: skip
def test_other_hosts_are_refused(at: str, host: str, status: int) -> None:
    """A name that was made to point here reads nothing; who listens everywhere has many names."""
    app = make_app(Sessions([EnvSpec("maze")], Limits()), TOKEN, at)
    assert TestClient(app, HOST).get("/health", headers={"Host": host}).status_code == status


def test_only_worlds_and_arguments_on_offer_are_made(client: TestClient) -> None:
    """Neither another world nor a class, a file, a fixed argument's other value, or what is Gymnasium's."""
    specs = [EnvSpec("household", {"difficulty": "easy"}), EnvSpec(ODD)]
    app = make_app(Sessions(specs, Limits(), allow=["observation_mode"]), TOKEN, "127.0.0.1")
    with TestClient(app, HOST, headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        for number, (asked, fine) in enumerate((
            ({"env": "household"}, True),
            ({"env": "AgentHousehold-v0", "kwargs": {"split": "test", "max_steps": 7}}, True),
            ({"env": "household", "kwargs": {"difficulty": "easy", "observation_mode": "alfworld"}}, True),
            ({"env": "household", "kwargs": {"difficulty": "hard"}}, False),
            ({"env": "household", "kwargs": {"games": "/etc"}}, False),
            ({"env": "household", "kwargs": {"max_steps": "7"}}, False),
            ({"env": "household", "kwargs": {"max_steps": 0}}, False),
            ({"env": "household", "kwargs": {"max_episode_steps": 3}}, False),
            ({"env": "household", "kwargs": {"render_mode": "human"}}, False),
            ({"env": "shop"}, False),
            ({"env": "CartPole-v1"}, False),
            ({"env": "os:system"}, False),
            ({"env": "odd", "kwargs": {"file": "/etc/passwd"}}, False),
        )):  # fmt: skip
            answer = client.put(f"{SESSIONS}/{KEY}{number}", json=asked)
            assert answer.status_code == (200 if fine else 400), (asked, answer.text)
            assert fine or error(answer)[1] in ("ConfigError", "UnknownNameError")
        assert client.get(SESSIONS).json()["sessions"] == 3


def test_an_argument_that_is_a_file_is_never_left_to_clients() -> None:
    """Not even if it is asked for."""
    with pytest.raises(ConfigError, match="games of household is a file or folder"):
        Sessions([EnvSpec("household")], Limits(), allow=["games"])


def test_experts_are_silent_unless_they_are_asked_to_tell(client: TestClient) -> None:
    """Plans, thoughts and secrets; the error says how to change that."""
    path = made(client, "maze")
    for call, given in (("expert", {}), ("fair_expert", {}), ("secrets", {}), ("expert_thought", {"action": "x"})):
        assert error(client.post(f"{path}/{call}", json=given))[:2] == (400, "ConfigError")
        assert "--experts true" in error(client.post(f"{path}/{call}", json=given))[2]


# ----------------------------------------------------------------------------------------------------------- requests


@pytest.mark.parametrize(
    ("call", "body", "message"),
    [
        ("step", b"", "not JSON"), ("step", b"{", "not JSON"), ("step", b"[" * 4000, "not JSON"),
        ("step", b"\xff\xfe", "not JSON"), ("step", b"[]", "must be a JSON object"),
        ("step", b'"x"', "must be a JSON object"), ("step", b"{}", "Step needs n, action"),
        ("step", b'{"n": 2, "actoin": "x"}', "Did you mean 'action'"),
        ("step", b'{"n": 2, "action": 3}', "action must be text, not 3"),
        ("step", b'{"n": true, "action": "x"}', "n must be a whole number"),
        ("step", b'{"n": "2", "action": "x"}', "n must be a whole number"),
        ("reset", b'{"n": 2, "options": []}', "options must be a mapping"),
        ("reset", b'{"n": 2, "options": {"spilt": "test"}}', "Did you mean 'split'"),
        ("restore", b'{"n": 2, "snapshot": "***"}', "base64"), ("limit", b'{"n": 2, "max_steps": 0}', "at least 1"),
        ("task", b'{"name": 1.5}', "name must be"), ("stpe", b"{}", "Did you mean 'step'"),
        ("__class__", b"{}", "No call"),
    ],
)  # fmt: skip
def test_a_wrong_request_is_said(client: TestClient, call: str, body: bytes, message: str) -> None:
    """With what is wrong in it; the session continues."""
    path = made(client)
    status, _, said = error(client.post(f"{path}/{call}", content=body))
    assert (status, message in said) == (400, True), said
    assert client.post(f"{path}/step", json={"n": 2, "action": "x"}).json()["observation"] == "1"


def test_a_request_that_is_too_long_is_refused(client: TestClient) -> None:
    """Said long or sent long."""
    path = made(client)

    def parts() -> Any:
        for _ in range(100):
            yield b"x" * 1000

    for content in (b"x" * 5001, parts()):
        assert error(client.post(f"{path}/step", content=content))[:2] == (413, "TooLong")


def test_changes_are_numbered(client: TestClient) -> None:
    """The last one again is answered as it was and not done; any other number, or another request, is refused."""
    path = made(client)
    first = client.post(f"{path}/step", json={"n": 2, "action": "x"})
    assert client.post(f"{path}/step", json={"n": 2, "action": "x"}).content == first.content
    for n, action in ((2, "other"), (1, "x"), (4, "x"), (0, "x"), (-1, "x")):
        assert error(client.post(f"{path}/step", json={"n": n, "action": action}))[:2] == (409, "OutOfOrder")
    assert client.post(f"{path}/step", json={"n": 3, "action": "x"}).json()["observation"] == "2"


def test_a_session_is_made_once(client: TestClient) -> None:
    """The same request finds it, whatever was done meanwhile; another one of its name is refused, as is a bad name."""
    path = made(client)
    again = client.put(path, json={"env": ODD, "kwargs": {}}).json()
    assert (again["changes"], again["steps"], client.get(SESSIONS).json()["made"]) == (1, 0, 1)
    assert error(client.put(path, json={"env": "maze"}))[:2] == (409, "Conflict")
    for key in ("short", "x" * 65, "with.a.dot.in.its.name"):
        assert error(client.put(f"{SESSIONS}/{key}", json={"env": ODD}))[0] == 400
    for asked in ({}, {"env": ODD, "fork": KEY}, {"fork": KEY, "kwargs": {"split": "test"}}):
        assert error(client.put(f"{SESSIONS}/another-{KEY}", json=asked))[0] == 400
    assert client.delete(path).json() == {"closed": True}
    assert client.delete(path).json() == {"closed": False}
    assert error(client.post(f"{path}/actions", json={}))[:2] == (404, "SessionGone")


def test_a_snapshot_goes_around(client: TestClient) -> None:
    """In base64; one that is none is refused, and nothing has changed."""
    path = made(client, "maze")
    snapshot = client.post(f"{path}/snapshot", json={}).json()
    assert json.loads(base64.b64decode(snapshot))["env"] == "maze"
    wrong = base64.b64encode(b"{}").decode()
    assert error(client.post(f"{path}/restore", json={"n": 2, "snapshot": wrong}))[1] == "SnapshotError"
    assert client.post(f"{path}/restore", json={"n": 2, "snapshot": snapshot}).json()["steps"] == 0
    fork = f"{SESSIONS}/fork-of-{KEY}"
    assert client.put(fork, json={"fork": KEY}).json()["task"] == client.put(fork, json={"fork": KEY}).json()["task"]
    assert client.post(f"{fork}/snapshot", json={}).json() == snapshot
    assert error(client.put(f"{fork}2", json={"fork": "no-such-session-here"}))[:2] == (404, "SessionGone")


# ------------------------------------------------------------------------------------------------------------- limits


def test_a_world_that_fails_loses_its_session_alone(client: TestClient) -> None:
    """The error tells no more than its kind; so does one whose answer is no JSON."""
    for action in ("fail", "exit", "stop", "nan"):
        path = made(client)
        other = made(client, key=f"other-{KEY}-{action}")
        status, kind, said = error(client.post(f"{path}/step", json={"n": 2, "action": action}))
        assert (status, kind) == (500, "WorldFailed")
        assert "as it was told" not in said
        assert error(client.post(f"{path}/actions", json={}))[:2] == (404, "SessionGone")
        assert client.post(f"{other}/step", json={"n": 2, "action": "x"}).status_code == 200


def test_a_world_that_hangs_loses_its_session_alone(client: TestClient, woken: threading.Event) -> None:
    """After `longest` seconds; its thread is missed until it comes back."""
    path, other = made(client), made(client, key=f"other-{KEY}")
    assert error(client.post(f"{path}/step", json={"n": 2, "action": "hang"}))[:2] == (504, "WorldHangs")
    assert error(client.post(f"{path}/actions", json={}))[:2] == (404, "SessionGone")
    assert client.post(f"{other}/step", json={"n": 2, "action": "x"}).status_code == 200
    assert client.get(SESSIONS).json()["stuck"] == 1
    woken.set()
    until(lambda: client.get(SESSIONS).json()["stuck"] == 0)


def test_a_world_that_failed_is_closed(monkeypatch: pytest.MonkeyPatch, woken: threading.Event) -> None:
    """As one that hung is when it comes back, and a fork that could not be restored: they may hold processes."""
    sessions = Sessions([EnvSpec(ODD)], Limits(longest=2.0))
    with TestClient(
        make_app(sessions, TOKEN, "127.0.0.1"), HOST, headers={"Authorization": f"Bearer {TOKEN}"}
    ) as client:
        path = made(client)
        closed, env = list[Any](), sessions._sessions[KEY].env
        monkeypatch.setattr(type(env), "close", lambda self: closed.append(self))
        client.post(f"{path}/step", json={"n": 2, "action": "fail"})
        until(lambda: closed == [env])
        path, env = made(client), sessions._sessions[KEY].env
        client.post(f"{path}/step", json={"n": 2, "action": "hang"})
        assert closed[1:] == []
        woken.set()
        until(lambda: closed[1:] == [env])
        made(client)
        monkeypatch.setattr(type(env), "restore", lambda self, snapshot: 1 / 0)
        assert client.put(f"{SESSIONS}/fork-of-{KEY}", json={"fork": KEY}).status_code == 500
        assert len(closed) == 3 and closed[2] is not sessions._sessions[KEY].env
        assert client.post(f"{path}/step", json={"n": 2, "action": "x"}).status_code == 200  # what was to be forked
        assert client.get(SESSIONS).json()["sessions"] == 1


def test_a_fork_that_hangs_is_lost_alone(monkeypatch: pytest.MonkeyPatch, woken: threading.Event) -> None:
    """What it was to be a fork of stays; its world is closed when it is back."""
    sessions, closed = Sessions([EnvSpec(ODD)], Limits(longest=2.0)), list[Any]()
    world = type(EnvSpec(ODD).make())
    monkeypatch.setattr(world, "close", lambda self: closed.append(self))
    monkeypatch.setattr(world, "restore", lambda self, snapshot: woken.wait(60))
    with TestClient(
        make_app(sessions, TOKEN, "127.0.0.1"), HOST, headers={"Authorization": f"Bearer {TOKEN}"}
    ) as client:
        path = made(client)
        before = list(closed)
        assert error(client.put(f"{SESSIONS}/fork-of-{KEY}", json={"fork": KEY}))[:2] == (504, "WorldHangs")
        assert client.post(f"{path}/step", json={"n": 2, "action": "x"}).status_code == 200
        assert closed == before
        woken.set()
        until(lambda: len(closed) == len(before) + 1)
        assert closed[-1] is not sessions._sessions[KEY].env


def test_a_world_that_hangs_as_it_is_closed_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread is missed until it comes back; other idle sessions are closed all the same."""
    sessions, back = Sessions([EnvSpec(ODD), EnvSpec("maze")], Limits(longest=2.0, idle=3.0)), threading.Event()
    monkeypatch.setattr(type(EnvSpec(ODD).make()), "close", lambda self: back.wait(60))
    with TestClient(
        make_app(sessions, TOKEN, "127.0.0.1"), HOST, headers={"Authorization": f"Bearer {TOKEN}"}
    ) as client:
        made(client)
        made(client, "maze", f"other-{KEY}")
        until(lambda: client.get(SESSIONS).json()["expired"] == 2)
        until(lambda: client.get(SESSIONS).json()["stuck"] == 1)
        back.set()
        until(lambda: client.get(SESSIONS).json()["stuck"] == 0)


def test_a_server_whose_threads_all_hang_says_so(woken: threading.Event) -> None:
    """In its health, and at once to whoever asks; it is well again when they come back."""
    app = make_app(Sessions([EnvSpec(ODD)], Limits(longest=1.0, threads=1)), TOKEN, "127.0.0.1")
    with TestClient(app, HOST, headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        path, other = made(client), made(client, key=f"other-{KEY}")
        client.post(f"{path}/step", json={"n": 2, "action": "hang"})
        assert client.get("/health").status_code == 503
        assert error(client.post(f"{other}/step", json={"n": 2, "action": "x"}))[:2] == (503, "Stuck")
        woken.set()
        until(lambda: client.get("/health").status_code == 200)
        assert client.post(f"{other}/step", json={"n": 2, "action": "x"}).status_code == 200


def test_who_waits_for_a_thread_does_not_wait_for_ever(woken: threading.Event) -> None:
    """Those who came before it was seen that the world hangs, too."""
    sessions = Sessions([EnvSpec(ODD)], Limits(longest=1.0, threads=1))
    with TestClient(
        make_app(sessions, TOKEN, "127.0.0.1"), HOST, headers={"Authorization": f"Bearer {TOKEN}"}
    ) as client:
        path, other = made(client), made(client, key=f"other-{KEY}")
        with ThreadPoolExecutor(2) as pool:
            hangs = pool.submit(client.post, f"{path}/step", json={"n": 2, "action": "hang"})
            until(lambda: sessions.threads.busy == 1)
            waits = pool.submit(client.post, f"{other}/step", json={"n": 2, "action": "x"})
            assert error(hangs.result(30))[:2] == (504, "WorldHangs")
            assert error(waits.result(30))[:2] == (503, "Busy")
        woken.set()
        until(lambda: client.get("/health").status_code == 200)
        assert client.post(f"{other}/step", json={"n": 2, "action": "x"}).status_code == 200  # it was not done


def test_who_finds_no_thread_to_be_made_or_closed_in(monkeypatch: pytest.MonkeyPatch, woken: threading.Event) -> None:
    """A session that was not made does not count; one that is closed is closed when a thread is free."""
    sessions, closed = Sessions([EnvSpec(ODD)], Limits(longest=1.5, threads=1, total=3)), list[Any]()
    with TestClient(
        make_app(sessions, TOKEN, "127.0.0.1"), HOST, headers={"Authorization": f"Bearer {TOKEN}"}
    ) as client:
        path, other = made(client), made(client, key=f"other-{KEY}")
        env = sessions._sessions[f"other-{KEY}"].env
        monkeypatch.setattr(type(env), "close", lambda self: closed.append(self))
        with ThreadPoolExecutor(2) as pool:
            monkeypatch.setattr(sessions.threads, "stuck", -1)  # it is long at work, but no one gives it up
            hangs = pool.submit(client.post, f"{path}/step", json={"n": 2, "action": "hang"})
            until(lambda: sessions.threads.busy == 1)
            late = pool.submit(client.put, f"{SESSIONS}/late-{KEY}", json={"env": ODD})
            assert client.delete(other).json() == {"closed": True}
            assert error(late.result(30))[:2] == (503, "Busy")
            assert hangs.result(30).status_code == 504 and not closed
            woken.set()
            until(lambda: env in closed)
        assert client.put(f"{SESSIONS}/late-{KEY}", json={"env": ODD}).status_code == 200


def test_a_world_is_not_closed_while_a_thread_is_in_it(monkeypatch: pytest.MonkeyPatch, woken: threading.Event) -> None:
    """Whoever ends the session of one that hangs."""
    sessions, closed = Sessions([EnvSpec(ODD)], Limits(longest=1.5)), list[bool]()
    with TestClient(
        make_app(sessions, TOKEN, "127.0.0.1"), HOST, headers={"Authorization": f"Bearer {TOKEN}"}
    ) as client:
        path = made(client)
        monkeypatch.setattr(type(sessions._sessions[KEY].env), "close", lambda self: closed.append(woken.is_set()))
        with ThreadPoolExecutor(1) as pool:
            hangs = pool.submit(client.post, f"{path}/step", json={"n": 2, "action": "hang"})
            until(lambda: sessions.threads.busy == 1)
            assert client.delete(path).json() == {"closed": True}
            assert hangs.result(30).status_code == 504
        other = made(client, key=f"other-{KEY}")
        assert client.post(f"{other}/step", json={"n": 2, "action": "x"}).status_code == 200
        woken.set()
        until(lambda: len(closed) == 1)
    assert closed[0]


def test_sessions_that_end_leave_threads_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many worlds hang as they are closed; they are closed when they can be."""
    sessions, back, closed = (
        Sessions([EnvSpec(ODD), EnvSpec("maze")], Limits(longest=1.5, threads=4)),
        threading.Event(),
        list[Any](),
    )
    monkeypatch.setattr(type(EnvSpec(ODD).make()), "close", lambda self: closed.append(back.wait(60)))
    with TestClient(
        make_app(sessions, TOKEN, "127.0.0.1"), HOST, headers={"Authorization": f"Bearer {TOKEN}"}
    ) as client:
        for number in range(6):
            client.delete(made(client, key=f"{number}-{KEY}"))
        until(lambda: sessions.threads.stuck == 2)
        path = made(client, "maze")
        assert client.post(f"{path}/actions", json={}).status_code == 200
        assert sessions.threads.busy == sessions.threads.stuck == 2
        back.set()
        until(lambda: len(closed) == 6)


def test_sessions_are_closed_as_fast_as_they_end(monkeypatch: pytest.MonkeyPatch, woken: threading.Event) -> None:
    """All that have ended are closed before the calls behind the first; otherwise they would fill a busy server."""
    sessions, done = Sessions([EnvSpec(ODD)], Limits(longest=20.0, threads=1, sessions=5)), list[str]()
    monkeypatch.setattr(type(EnvSpec(ODD).make()), "close", lambda self: done.append("close"))
    monkeypatch.setattr(type(EnvSpec(ODD).make()), "actions", lambda self: done.append("call"))
    with TestClient(
        make_app(sessions, TOKEN, "127.0.0.1"), HOST, headers={"Authorization": f"Bearer {TOKEN}"}
    ) as client:
        path = made(client)
        others = [made(client, key=f"{number}-{KEY}") for number in range(4)]
        done.clear()
        with ThreadPoolExecutor(4) as pool:
            hangs = pool.submit(client.post, f"{path}/step", json={"n": 2, "action": "hang"})
            until(lambda: sessions.threads.busy == 1)
            assert client.delete(others[0]).json() == {"closed": True}
            until(lambda: len(sessions.threads._free._waiters or ()) == 1)
            calls = [pool.submit(client.post, f"{others[1]}/actions", json={}) for _ in range(2)]
            until(lambda: len(sessions.threads._free._waiters or ()) == 2)  # the second waits for the first
            for other in others[2:]:
                client.delete(other)
            assert not done
            woken.set()
            assert {answer.result(30).status_code for answer in (hangs, *calls)} == {200}
        assert done == ["close"] * 3 + ["call"] * 2


def test_sessions_that_are_being_closed_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """To as many as may be open; when they are closed, there is room again."""
    sessions, back = Sessions([EnvSpec(ODD)], Limits(longest=20.0, threads=2, sessions=2)), threading.Event()
    monkeypatch.setattr(type(EnvSpec(ODD).make()), "close", lambda self: back.wait(60))
    with TestClient(
        make_app(sessions, TOKEN, "127.0.0.1"), HOST, headers={"Authorization": f"Bearer {TOKEN}"}
    ) as client:
        for number in range(2):
            client.delete(made(client, key=f"{number}-{KEY}"))
        refused = client.put(f"{SESSIONS}/{KEY}", json={"env": ODD})
        said = "the worlds of 2 former sessions are still being closed; try again later"
        assert error(refused) == (503, "Full", said)
        back.set()
        until(lambda: not sessions._ending)
        made(client)


def test_sessions_are_limited(serve: Any) -> None:
    """At once and in total; a closed one makes room for another."""
    server = serve("maze", sessions=2, total=3)
    first, _ = server.env("maze"), server.env("maze")
    with pytest.raises(InfrastructureError, match="all 2 sessions are in use"):
        server.env("maze")
    first.close()
    server.env("maze").close()
    with pytest.raises(InfrastructureError, match="has opened all of its 3 sessions"):
        server.env("maze")


def test_a_session_that_is_used_up_is_followed_by_another(serve: Any) -> None:
    """A step says so; `reset` continues in a new one, and the old one is closed."""
    server = serve(ODD, changes=3)
    env = server.env(ODD)
    env.reset(seed=0)
    assert [env.step("x")[0] for _ in range(2)] == ["1", "2"]
    with pytest.raises(InfrastructureError, match="--changes"):
        env.step("x")
    assert env.reset(seed=0)[0] == "0"
    state = server.ask("GET")
    assert (state["made"], state["sessions"]) == (2, 1)


def test_idle_sessions_expire(serve: Any) -> None:
    """One that is used stays; a lost one is said, and `reset` makes a new one."""
    server = serve("maze", idle=0.6)
    used, idle = server.env("maze"), server.env("maze")
    for env in (used, idle):
        env.reset(seed=0)
    began = time.monotonic()
    while time.monotonic() - began < 1.5:
        used.actions()
        time.sleep(0.1)
    state = server.ask("GET")
    assert (state["sessions"], state["expired"]) == (1, 1)
    with pytest.raises(InfrastructureError, match="without a request"):
        idle.step("x")
    assert idle.reset(seed=0) == EnvSpec("maze").make().reset(seed=0)


def test_nothing_is_kept_of_a_session_that_ended() -> None:
    """Closed or expired, forks too: world and session are free to go, and the table is empty."""
    sessions = Sessions([EnvSpec("maze")], Limits(idle=3.0))
    with TestClient(
        make_app(sessions, TOKEN, "127.0.0.1"), HOST, headers={"Authorization": f"Bearer {TOKEN}"}
    ) as client:
        for number in range(10):
            made(client, "maze", f"{KEY}-{number}")
            client.put(f"{SESSIONS}/fork-of-{KEY}-{number}", json={"fork": f"{KEY}-{number}"})
        kept = [weakref.ref(each.env) for each in sessions._sessions.values() if each.env is not None]
        assert len(kept) == 20
        for number in range(5):
            client.delete(f"{SESSIONS}/{KEY}-{number}")
        until(lambda: client.get(SESSIONS).json()["sessions"] == 0)
        assert client.get(SESSIONS).json()["expired"] == 15
        gc.collect()
        assert [each() for each in kept] == [None] * 20


# -------------------------------------------------------------------------------------------------------- concurrency


def test_steps_of_one_session_at_once_do_not_mix(server: Any) -> None:
    """Of many that claim the same number one is done; every number is done once."""
    env = server.env(ODD)
    env.reset(seed=0)
    path = f"/{env._key}/step"
    gate = threading.Barrier(8)

    def race(number: int) -> list[str]:
        seen = []
        for n in range(2, 12):
            gate.wait(30)
            try:
                body = json.dumps({"n": n, "action": f"of {number}"}).encode()
                seen.append(server.ask("POST", path, body)["observation"])
            except InfrastructureError as refused:
                assert "the next change of this session" in str(refused)
        return seen

    with ThreadPoolExecutor(8) as pool:
        seen = [text for of_one in pool.map(race, range(8)) for text in of_one]
    assert sorted(seen, key=int) == [str(n) for n in range(1, 11)]
    env._changes = 11
    assert env.step("x")[0] == "11"


def test_many_sessions_at_once_see_only_their_own(server: Any) -> None:
    """Each plays its own episode as it is alone, all worlds at once."""
    worlds = registry.names("agentgym.envs")
    before = server.ask("GET")["sessions"]

    def play(number: int) -> bool:
        world = worlds[number % len(worlds)]
        here, there = EnvSpec(world).make(), server.env(world, timeout=120.0)
        same = bool(there.reset(seed=number) == here.reset(seed=number))
        for _ in range(5):
            action = next(iter(here.actions() or []), "x")
            same = same and there.step(action) == here.step(action)
        same = same and bool(there.snapshot() == here.snapshot())
        there.close()
        return same

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(play, range(36)))
    assert server.ask("GET")["sessions"] == before


def until(holds: Callable[[], bool]) -> None:
    """Wait for it, 20 s at most."""
    for _ in range(400):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("it never came to hold")
