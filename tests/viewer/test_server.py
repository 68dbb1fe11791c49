from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
from fastapi.routing import APIRoute
from starlette.testclient import TestClient

from agentgym_py.errors import ExpertError, UnknownNameError
from agentgym_py.feedback import verdicts
from agentgym_py.policy import Policy
from agentgym_py.trajectory import Trajectory, store
from agentgym_py.viewer.index import Filter, Index
from agentgym_py.viewer.server import CONTINUED, EpisodeQuery, StartRequest, Viewer, app_of
from agentgym_py.viewer.show import expert_plans, path_of
from agentgym_py.viewer.source import Source

TOKEN = "a-token-for-tests"
KNOWN = {"Authorization": f"Bearer {TOKEN}"}
HOST = "http://127.0.0.1:8000"


@pytest.fixture
def client(run: Path) -> Iterator[TestClient]:
    """A client that knows the token, of a run that is indexed."""
    index = Index(Source.from_paths([run]))
    index.update()
    with TestClient(app_of(Viewer(index, Policy.load), TOKEN), base_url=HOST, headers=KNOWN) as made:
        yield made
    index.close()


def first(client: TestClient, **wanted: Any) -> dict[str, Any]:
    """The first row that fits."""
    row: dict[str, Any] = client.get("/api/episodes", params=wanted).json()["rows"][0]
    return row


def test_nothing_but_the_bare_page_is_served_without_the_token(client: TestClient) -> None:
    """Every other address, whatever it is asked, answers 401 before it looks at anything; no token nearly fits."""
    app: Any = client.app
    paths = {(route.path, method) for route in _routes(app.routes) for method in route.methods or ()}
    assert len(paths) >= 12
    open_to_all = {"/", "/static/{name}"}
    for path, method in sorted(paths):
        address = path.format(name="viewer.js", n=1, key="x")
        for wrong in ("", "Bearer ", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", f"bearer {TOKEN}", TOKEN, "Bearer é"):
            answer = client.request(method, address, headers={b"Authorization": wrong.encode()})
            assert answer.status_code == (200 if path in open_to_all else 401), (path, method, wrong)
        assert path not in open_to_all or method == "GET"
        if method == "POST":
            json = {"Authorization": "", "Content-Type": "application/json"}
            assert client.post(address, content="{broken", headers=json).status_code == 401


def _routes(routes: Any) -> Iterator[APIRoute]:
    for route in routes:
        if isinstance(route, APIRoute):
            yield route
        else:
            inner = getattr(route, "original_router", None) or getattr(route, "app", None)
            yield from _routes(getattr(inner, "routes", []))


def test_the_page_itself_holds_no_data(client: TestClient) -> None:
    """Its three files are those of the package; there are no others, and no way out of the folder."""
    pages = [client.get(path).text for path in ("/", "/static/viewer.js", "/static/viewer.css")]
    assert "shop" not in "".join(pages)
    for path in ("/static/index.html", "/static/..%2Fserver.py", "/static/%2e%2e/server.py", "/docs", "/openapi.json"):
        assert client.get(path).status_code == 404


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "192.168.0.1", ""])
def test_other_hosts_are_refused(client: TestClient, host: str) -> None:
    """A name that was made to point here reads nothing, not even with the token."""
    for path in ("/", "/api/state"):
        assert client.get(path, headers={"Host": host}).status_code == 400
    assert client.get("/api/state", headers={"Host": "localhost:1234"}).status_code == 200


def test_every_answer_has_its_policy(client: TestClient) -> None:
    """No inline script, nothing from elsewhere, no frame around it; errors too."""
    for path in ("/", "/api/state", "/api/episodes/999", "/nothing"):
        headers = client.get(path).headers
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


def test_the_state_of_a_run(client: TestClient) -> None:
    """How many episodes, what to filter by, which models may act."""
    state = client.get("/api/state").json()
    assert (state["title"], state["episodes"], state["broken"]) == ("run", 19, [])
    assert state["facets"]["round"] == [[0, 12], [1, 7]]
    assert state["models"] == ["rounds/01/checkpoint"]
    assert state["bytes"][0] == state["bytes"][1] > 0


def test_lists_are_filtered_and_paged(client: TestClient) -> None:
    """By every field of the filter; a wrong value is refused."""
    found = client.get("/api/episodes", params={"round": 1, "split": "train", "limit": 4, "offset": 4}).json()
    assert (found["total"], len(found["rows"])) == (6, 2)
    assert client.get("/api/episodes", params={"outcome": "success", "text": "buy"}).json()["total"] == 12
    assert client.get("/api/episodes", params={"text": "hostile alert observation"}).json()["total"] == 0
    assert client.get("/api/episodes", params={"text": "alert observation"}).json()["total"] == 1
    wrongs: tuple[dict[str, Any], ...] = (
        {"outcome": "won"}, {"order": "n;"}, {"limit": 0}, {"offset": -1}, {"min_reward": "x"}, {"text": "x" * 501},
    )  # fmt: skip
    for wrong in wrongs:
        assert client.get("/api/episodes", params=wrong).status_code == 422
    for name, value in (("round", "x"), ("min_reward", "x"), ("max_steps", "1.5")):
        assert client.get("/api/episodes", params={name: value}).json()["detail"] == f"{name} must be a number"
    won = client.get("/api/episodes", params={"outcome": "won"}).json()["detail"]
    assert won == "outcome must be 'success', 'failure' or 'error'"


def test_an_episode_has_neighbours_in_a_list(client: TestClient) -> None:
    """Under the filters and in the order of the list; the filters may leave the episode out."""
    wanted: dict[str, str | int] = {"round": 1, "split": "train", "order": "longest", "offset": 2}
    rows = client.get("/api/episodes", params={**wanted, "offset": 0}).json()["rows"]
    numbers = [None, *(row["n"] for row in rows), None]
    for place, n in enumerate(numbers[1:-1], 1):
        found = client.get(f"/api/episodes/{n}/neighbours", params=wanted).json()
        assert found == {"listed": True, "previous": numbers[place - 1], "next": numbers[place + 1]}
    (other,) = client.get("/api/episodes", params={"round": 0, "limit": 1}).json()["rows"]
    found = client.get(f"/api/episodes/{other['n']}/neighbours", params=wanted).json()
    assert found == {"listed": False, "previous": None, "next": None}


@pytest.mark.parametrize(
    "body",
    [
        '{"episode": 1e400, "verdict": 1}', '{"episode": NaN, "verdict": 1}', '{"episode": "\\ud800", "verdict": 1}',
        '{"\\ud800": 1}', '"\\ud800"', "[" * 100_000, '{"episode": %s, "verdict": 1}' % ("9" * 5000), "\x00", "",
    ],
    ids=lambda body: body[:20],
)  # fmt: skip
@pytest.mark.parametrize("path", ["thumb", "stars", "reply", "preference", "live"])
def test_a_body_that_json_cannot_answer_is_refused(client: TestClient, path: str, body: str) -> None:
    """A number without end, half of a surrogate pair, depth without end: the answer says what is wrong, in a line."""
    answer = client.post(f"/api/{path}", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422) and len(answer.json()["detail"]) < 600, answer.text


def test_a_list_is_asked_for_by_every_field_of_the_filter(client: TestClient) -> None:
    """What fits no episode by one field alone gives none."""
    nothing = {"outcome": "error", "max_reward": "-9", "max_steps": "-1"}
    for field in fields(Filter):
        params = {field.name: nothing.get(field.name, "99999")}
        assert client.get("/api/episodes", params=params).json()["total"] == 0, params


def test_an_episode_is_shown_whole(client: TestClient, run: Path) -> None:
    """As it stands in the store, its siblings beside it, and the text of its tokens, which is its reply."""
    row = first(client, agent="Agent_v0")
    shown = client.get(f"/api/episodes/{row['n']}").json()
    (stored, *_) = store.read(run / "rounds" / "01" / "trajectories.jsonl")
    assert shown["episode"]["instruction"] == stored.instruction
    assert len(shown["episode"]["steps"]) == len(stored.steps)
    assert len(shown["siblings"]) == 4  # two tries, the expert, and the one full of scripts
    for step in shown["episode"]["steps"]:
        tokens = step["tokens"]
        said = "".join(text for text in tokens["texts"] if not text.startswith("<|"))
        assert said == step["reply"] or "\ufffd" in said
        assert len(tokens["context_texts"]) == len(tokens["context"])


def test_what_is_no_utf_8_is_sent_all_the_same(client: TestClient) -> None:
    """Half of a surrogate pair, which a model may write, stays what it is."""
    hostile = client.get(f"/api/episodes/{first(client, split='valid')['n']}")
    assert hostile.json()["episode"]["final_observation"].endswith("\ud800")
    assert b"<script>" in hostile.content  # it is data; the page makes text of it
    assert hostile.headers["content-type"] == "application/json"


def test_the_experts_plan(client: TestClient) -> None:
    """From every state; where the world shows something else today that is said, and no plan is made up."""
    row = first(client, agent="expert")
    found = client.get(f"/api/episodes/{row['n']}/plans").json()
    assert [len(plan) for plan in found["plans"]] == list(range(row["steps"], 0, -1))
    assert found["values"] == pytest.approx([0.9**left for left in range(row["steps"], -1, -1)])
    refused = client.get(f"/api/episodes/{first(client, split='valid')['n']}/plans").json()
    assert list(refused) == ["error"]
    assert "differs on replay" in refused["error"]


def test_an_expert_that_fails_leaves_no_values(monkeypatch: pytest.MonkeyPatch, made_run: Path) -> None:
    """Its plans are shown all the same."""
    trajectory = next(iter(store.read(made_run / "rounds" / "00" / "trajectories.jsonl")))

    def fail(*_: object) -> None:
        raise ExpertError("no plan")

    monkeypatch.setattr("agentgym_py.viewer.show.exact_values", fail)
    found = expert_plans(trajectory)
    assert len(found["plans"]) == len(trajectory.steps) and found["values"] is None and found["fault"] is None


def test_the_tree_of_a_task(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each episode's path; equal actions on equal observations have equal keys. What is left out is counted."""
    row = first(client, agent="Agent_v0")
    tree = client.get(f"/api/episodes/{row['n']}/tree").json()
    by_agent = {each["row"]["agent"]: each["path"] for each in tree["episodes"]}
    assert (len(tree["episodes"]), len(by_agent), tree["left_out"]) == (4, 3, 0)
    assert [len(each["path"]) for each in tree["episodes"]] == [each["row"]["steps"] for each in tree["episodes"]]
    assert by_agent["expert"][0]["key"] != by_agent["Agent_v0"][0]["key"]
    monkeypatch.setattr("agentgym_py.viewer.server._MAX_PATHS", 2)
    tree = client.get(f"/api/episodes/{row['n']}/tree").json()
    assert row["n"] in [each["row"]["n"] for each in tree["episodes"]] and tree["left_out"] == 2
    assert client.get("/api/episodes/999/tree").status_code == 404


def test_equal_states_and_actions_have_one_key(made_run: Path) -> None:
    """Whatever was thought; another observation, action or input has another."""
    trajectory = next(iter(store.read(made_run / "rounds" / "00" / "trajectories.jsonl")))
    step = replace(trajectory.steps[0], action_input="x")
    others: list[dict[str, Any]] = [
        {}, {"thought": "else"}, {"observation": "else"}, {"action": "else"}, {"action_input": None},
    ]  # fmt: skip
    keys = [
        each["key"] for each in path_of(replace(trajectory, steps=tuple(replace(step, **other) for other in others)))
    ]
    assert keys[0] == keys[1] and len(set(keys)) == 4


def test_thumbs_are_written_to_the_store(client: TestClient, run: Path) -> None:
    """And shown in lists; the same again is the page's business, 0 takes it back."""
    n = first(client)["n"]
    assert client.post("/api/thumb", json={"episode": n, "verdict": 1}).json()["thumb"] == 1
    assert first(client)["thumb"] == 1
    assert [t.success for t in verdicts.judged(run)] == [True]
    client.post("/api/thumb", json={"episode": n, "verdict": 0})
    assert verdicts.judged(run) == []
    assert client.post("/api/thumb", json={"episode": n, "verdict": 3}).status_code == 422
    assert client.post("/api/thumb", json={"episode": 999, "verdict": 1}).status_code == 404
    assert client.post("/api/thumb", json={"episode": 1 << 70, "verdict": 1}).status_code == 409


def test_stars_and_better_replies_are_written(client: TestClient, run: Path) -> None:
    """And shown with their episode; 0 and an empty text withdraw; a step after the end is refused."""
    n = first(client)["n"]
    assert client.get(f"/api/episodes/{n}").json()["stars"] == 0
    assert client.post("/api/stars", json={"episode": n, "stars": 4}).json() == {"stars": 4}
    reply = {"episode": n, "step": 0, "reply": "Action: <b>x</b>"}
    assert client.post("/api/reply", json=reply).json() == {"step": 0, "reply": "Action: <b>x</b>"}
    found = client.get(f"/api/episodes/{n}").json()
    assert found["stars"] == 4 and found["replies"] == {"0": "Action: <b>x</b>"}
    assert client.get("/api/state").json()["feedback"] == {"thumbs": 0, "ratings": 1, "preferences": 0, "replies": 1}
    client.post("/api/stars", json={"episode": n, "stars": 0})
    assert client.post("/api/reply", json={**reply, "reply": " "}).json()["reply"] == ""
    found = client.get(f"/api/episodes/{n}").json()
    assert found["stars"] == 0 and found["replies"] == {}
    late = client.post("/api/reply", json={**reply, "step": 99})
    assert late.status_code == 409 and "there is no step 100" in late.json()["detail"]
    for path, wrong in (("stars", {"stars": 6}), ("stars", {"stars": -1}), ("reply", {"step": -1, "reply": "x"})):
        assert client.post(f"/api/{path}", json={"episode": n, **wrong}).status_code == 422


def test_preferences_are_written_where_they_can_be_used(client: TestClient, run: Path) -> None:
    """Two tries at a task, and in both directions the same; episodes of two tasks are refused."""
    a, b = [row["n"] for row in client.get("/api/episodes", params={"agent": "Agent_v0"}).json()["rows"][:2]]
    other = client.get("/api/episodes", params={"agent": "Agent_v0"}).json()["rows"][2]["n"]
    ask = {"first": b, "second": a}
    assert client.get("/api/preference", params=ask).json() == {"verdict": 0, "comparable": True}
    assert client.post("/api/preference", json={"first": a, "second": b, "verdict": -1}).json()["verdict"] == -1
    assert client.get("/api/preference", params=ask).json()["verdict"] == 1
    assert len(verdicts.preferences(run)) == 1
    refused = client.post("/api/preference", json={"first": a, "second": other, "verdict": 1})
    assert (refused.status_code, len(verdicts.preferences(run))) == (409, 1)


def test_going_on_from_a_step(client: TestClient, run: Path) -> None:
    """A person acts, the expert ends it, and the episode is kept: a store of its own, which lists show at once."""
    row = first(client, agent="Agent_v0")
    live = client.post("/api/live", json={"episode": row["n"], "at": 1}).json()
    assert len(live["episode"]["steps"]) == 1
    assert not live["over"]
    act = f"/api/live/{live['key']}/act"
    said = client.post(act, json={"by": "person", "text": "click[nothing like that]"}).json()
    assert said["episode"]["steps"][1]["valid"] is False
    ended = client.post(act, json={"by": "expert", "steps": 100}).json()
    assert (ended["over"], ended["actions"], ended["episode"]["success"]) == (True, None, True)
    kept = client.post(f"/api/live/{live['key']}/keep").json()
    (stored,) = store.read(run / CONTINUED)
    assert stored.provenance.agent == "person and expert"
    assert client.get(f"/api/episodes/{kept['n']}").json()["row"]["id"] == stored.id
    for key, status in (("unknown", 404), (live["key"], 200)):
        assert client.post(f"/api/live/{key}/act", json={"by": "person", "text": "x"}).status_code == status
    assert client.post(act, json={"by": "no such model"}).status_code == 404
    assert client.post("/api/live", json={"episode": row["n"], "at": 999}).status_code == 409


def test_a_world_that_is_not_installed_names_the_command(run: Path) -> None:
    """The expert's plan and a live episode need the world; the answer is the command that names its source."""
    (played, *_) = store.read(run / "rounds" / "00" / "trajectories.jsonl")
    provenance = replace(played.provenance, env_id="AgentNowhere-v0")
    store.write(run / "elsewhere.jsonl", [replace(played, provenance=provenance)])
    with closing(Index(Source.from_paths([run / "elsewhere.jsonl"]))) as index:
        index.update()
        for advice, expected in (
            ("agentgym view run --env my.py", "agentgym view run --env my.py"),
            ("", "name its source: env=FILE.py"),
        ):
            viewer = Viewer(index, Policy.load, advice)
            (row,) = viewer.episodes(EpisodeQuery())["rows"]
            assert expected in viewer.plans(row["n"])["error"]
            with pytest.raises(UnknownNameError, match=expected):
                viewer.start(StartRequest(episode=row["n"], at=0))


def test_a_model_goes_on(client: TestClient) -> None:
    """A checkpoint of the run, by the name that the state gave."""
    row = first(client, agent="Agent_v0")
    live = client.post("/api/live", json={"episode": row["n"], "at": 0}).json()
    act = {"by": "rounds/01/checkpoint", "steps": 2}
    said = client.post(f"/api/live/{live['key']}/act", json=act).json()
    assert [bool(step["tokens"]) for step in said["episode"]["steps"]] == [True, True]


def test_a_store_that_is_gone_is_said(run: Path) -> None:
    """In words, as an answer: before the index notices it, and after."""
    index = Index(Source.from_paths([run]))
    index.update()
    client = TestClient(app_of(Viewer(index, Policy.load), TOKEN), base_url=HOST, headers=KNOWN)  # nothing follows
    n = first(client, agent="expert")["n"]
    (run / "rounds" / "00" / "trajectories.jsonl").unlink()
    gone = client.get(f"/api/episodes/{n}")
    assert gone.status_code == 409
    assert "No such file" in gone.json()["detail"]
    index.update()
    forgotten = client.get(f"/api/episodes/{n}")
    assert forgotten.status_code == 404
    assert forgotten.json()["detail"] == f"No episode {n} is indexed."
    index.close()


def test_only_so_many_live_episodes_are_kept(client: TestClient) -> None:
    """The oldest one is forgotten, in words."""
    begin = {"episode": first(client)["n"], "at": 0}
    keys = [client.post("/api/live", json=begin).json()["key"] for _ in range(33)]
    said = [client.post(f"/api/live/{key}/act", json={"by": "person", "text": "x"}).status_code for key in keys]
    assert said == [404] + [200] * 32


def test_what_is_added_meanwhile_appears(
    run: Path, episode: Callable[..., Trajectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that continues is followed, from an index that is not there yet."""
    monkeypatch.setattr("agentgym_py.viewer.server._POLL_SECONDS", 0.05)
    index = Index(Source.from_paths([run]))
    with TestClient(app_of(Viewer(index, Policy.load), TOKEN), base_url=HOST, headers=KNOWN) as client:
        _until(lambda: client.get("/api/state").json()["episodes"] == 19)
        store.write(run / "rounds" / "02" / "trajectories.jsonl", [episode("x")])
        with (run / "rounds" / "01" / "trajectories.jsonl").open("ab") as file:
            file.write(b"broken\n")
        _until(lambda: client.get("/api/state").json()["episodes"] == 20)
        _until(lambda: len(client.get("/api/state").json()["broken"]) == 1)


@pytest.mark.filterwarnings("ignore:the index was not updated")
def test_a_look_that_fails_is_not_the_last_one(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is being rebuilt, or a disk that is full for a while."""
    monkeypatch.setattr("agentgym_py.viewer.server._POLL_SECONDS", 0.05)
    index, failures = Index(Source.from_paths([run])), [FileNotFoundError("gone"), sqlite3.OperationalError("full")]

    def update() -> None:
        if failures:
            raise failures.pop()
        Index.update(index)

    monkeypatch.setattr(index, "update", update)
    with TestClient(app_of(Viewer(index, Policy.load), TOKEN), base_url=HOST, headers=KNOWN) as client:
        _until(lambda: client.get("/api/state").json()["episodes"] == 19)


def _until(holds: Callable[[], bool]) -> None:
    for _ in range(200):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("it never came to hold")
