from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from agentgym_envs.maze.env import MazeEnv
from agentgym_py import registry
from agentgym_py.agents import ExpertAgent, RandomAgent
from agentgym_py.collection import Collector, PlayConfig, jobs_for
from agentgym_py.collection.replay import replay
from agentgym_py.env import EnvSpec, PartnerRecord
from agentgym_py.errors import (
    ActionError,
    AgentGymError,
    ConfigError,
    EndpointError,
    InfrastructureError,
    PolicyError,
    ResetNeededError,
    SnapshotError,
    UnknownNameError,
)
from agentgym_py.evaluation import evaluate
from agentgym_py.evaluation.folder import make_manifest
from agentgym_py.multiagent.partners import Partner
from agentgym_py.rng import Rng
from agentgym_py.serving import client
from agentgym_py.serving.client import RemoteEnv
from agentgym_py.serving.sessions import Offer
from agentgym_py.testing.harness import Settings
from agentgym_py.testing.random_actions import NONSENSE, any_action
from agentgym_py.testing.runner import run_check

WORLDS = registry.names("agentgym.envs")
TOKEN = "a-token-for-tests"
AWKWARD = ("", "\ud800", "\x00\u2028\U0001f389", '{"name": "x", "arguments": "{"}', "Thought: so\nAction: look")


@pytest.mark.parametrize("world", WORLDS)
def test_an_episode_is_the_same_through_the_server(server: Any, world: str) -> None:
    """Everything that a world says, of random, senseless and awkward replies; snapshots to the byte, both ways."""
    here, there, back = EnvSpec(world).make(), server.env(world), EnvSpec(world).make()
    rng = Rng("served", world)
    for seed in range(2):
        first = here.reset(seed=seed)
        assert there.reset(seed=seed) == first
        text = first[0]
        for number in range(8):
            for name in ("current_task", "steps", "stop_reason", "last_reply"):
                assert getattr(there, name) == getattr(here, name)
            if here.stop_reason:
                break
            assert _asked(there) == _asked(here)
            action = (NONSENSE, *AWKWARD)[(seed * 4 + number // 2) % 6] if number % 2 else any_action(here, rng, text)
            turn = here.step(action)
            assert there.step(action) == turn
            assert there.read(action) == here.read(action)
            text = turn[0]
    snapshot = there.snapshot()
    assert snapshot == here.snapshot()
    back.restore(snapshot)
    there.reset(seed=5)
    there.restore(back.snapshot())
    assert (there.snapshot(), there.state()) == (snapshot, json.loads(json.dumps(here.state())))
    there.close()


def test_the_moves_of_a_served_model_are_recorded(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its episodes replay without server and model; a client cannot choose the model's moves."""
    model = Partner(ExpertAgent(fair=True, thoughts=False), "4f")
    monkeypatch.setattr("agentgym_py.multiagent.env.require_checkpoint", Path)
    monkeypatch.setattr("agentgym_py.multiagent.env.load_partner", lambda folder, settings: model)
    target = serve(EnvSpec("errand", {"partner_model": "folder"}), experts=True, allow=["role"])
    arguments = {"role": "shopper", "difficulty": "easy"}
    spec = EnvSpec("remote", {"url": target.url, "env": "errand", "token": TOKEN, **arguments})
    (trajectory,) = Collector(ExpertAgent(fair=True)).collect_batch(jobs_for(spec, "test", [0]))
    assert trajectory.success and trajectory.partner and trajectory.partner.digest == "4f"
    assert "partner_model" not in trajectory.provenance.env_kwargs and replay(trajectory).holds
    with closing(target.env("errand", **arguments)) as there:
        options = {"task": 0, "split": "test", "partner": PartnerRecord("4f", ("say[nonsense]",))}
        assert there.reset(options=options)[0] == trajectory.steps[0].observation


def _asked(env: Any) -> Any:
    plan = env.expert()
    return plan, env.fair_expert(), env.actions(), env.tools(), env.secrets(), env.expert_thought(plan[0])


@pytest.mark.parametrize("world", WORLDS)
def test_a_fork_goes_its_own_way(server: Any, world: str) -> None:
    """It begins in the same state, and what either does the other does not see."""
    env = server.env(world)
    env.reset(seed=3)
    env.step(env.expert()[0])
    before = env.snapshot()
    fork = env.fork()
    assert (fork.snapshot(), fork.steps, fork.current_task) == (before, env.steps, env.current_task)
    for action in (NONSENSE, *(fork.expert() if not fork.stop_reason else [])):
        fork.step(action)
    assert env.snapshot() == before != fork.snapshot()
    if not env.stop_reason:
        rest = env.expert()
        assert rest and [env.step(action) for action in rest][-1][4]["success"]
    fork.close()
    env.close()
    with pytest.raises(InfrastructureError, match="no such session"):
        env.fork()


def test_collected_episodes_are_those_of_the_world(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last field, provenance too, which names neither a server nor a token; so they replay without one."""
    monkeypatch.setenv("AGENTGYM_TOKEN", TOKEN)
    for agent in (ExpertAgent(fair=True), RandomAgent()):
        played = [
            Collector(agent, PlayConfig(slots=4)).collect_batch(jobs_for([spec], "train", range(6), 2))
            for spec in (
                EnvSpec("textcraft", {"difficulty": "easy"}),
                EnvSpec("remote", {"url": server.url, "env": "textcraft", "difficulty": "easy"}),
            )
        ]
        assert played[0] == played[1]
    assert played[0][0].provenance.env_id == "AgentTextCraft-v0"


def test_a_server_that_fixes_what_its_client_does_not_name_is_refused(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trajectories would not replay; they do when it names the same. What the world does by default need not be."""
    monkeypatch.setenv("AGENTGYM_TOKEN", TOKEN)
    server = serve(EnvSpec("shop", {"max_steps": 3, "split": "test"}), EnvSpec("maze", {"difficulty": "medium"}))
    with pytest.raises(ConfigError, match="this server fixes max_steps of shop: give the client the same"):
        server.env("shop")
    with closing(server.env("maze")), closing(server.env("shop", max_steps=3)):
        assert server.ask("GET")["sessions"] == 2
    spec = EnvSpec("remote", {"url": server.url, "env": "shop", "max_steps": 3})
    trajectories = Collector(RandomAgent()).collect_batch(jobs_for(spec, "train", range(2)))
    assert all(replay(trajectory).holds for trajectory in trajectories)


@pytest.mark.parametrize("fixed", [("a", "b"), frozenset({"a", "b"})], ids=["tuple", "frozenset"])
def test_a_fixed_argument_is_compared_as_json(fixed: Any) -> None:
    """A client can send nothing but a list."""
    offer = Offer(EnvSpec("maze"), ())
    offer.spec = EnvSpec("maze", {"rooms": fixed})
    assert offer.with_arguments({"rooms": ["a", "b"]}).kwargs == {"rooms": ["a", "b"]}
    with pytest.raises(ConfigError, match="rooms of maze is fixed by this server to another value"):
        offer.with_arguments({"rooms": ["a"]})


def test_a_fixed_step_limit_may_be_lowered(serve: Any) -> None:
    """But not raised, in a fork neither."""
    server = serve(EnvSpec("maze", {"max_steps": 5}))
    with closing(server.env("maze", max_steps=5)) as env:
        env.reset(seed=0)
        with closing(env.fork()) as fork:
            for each in (env, fork):
                with pytest.raises(ConfigError, match="is fixed by this server: it is 5, not 1000"):
                    each.max_steps = 1000
                each.max_steps = 2
                assert [each.step("x")[3] for _ in range(2)] == [False, True]


@pytest.mark.parametrize("world", WORLDS)
def test_it_says_of_a_world_what_its_class_says(server: Any, world: str) -> None:
    """What settings, reports and trainers ask of a world."""
    here = EnvSpec(world).make()
    with closing(server.env(world)) as there:
        for name in ("max_return", "reading_actions", "difficulties", "held_out_version", "files_digest", "costs"):
            assert getattr(there, name) == getattr(here, name), name


def test_an_earlier_server_describes_less(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client then knows what any world has."""
    real = client.parse_answer
    added = {"max_return", "reading_actions", "difficulties", "held_out_version", "files_digest", "costs", "fixed"}

    def earlier(url: str, status: int, raw: bytes) -> Any:
        answer = real(url, status, raw)
        return {key: value for key, value in answer.items() if key not in added}

    monkeypatch.setattr(client, "parse_answer", earlier)
    with closing(server.env("maze")) as env:
        facts = (
            env.max_return,
            env.reading_actions,
            env.difficulties,
            env.held_out_version,
            env.files_digest,
            env.costs,
        )
    assert facts == (None, (), (), None, None, {})


def test_agents_are_measured_through_it(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`evaluate` takes it as any world."""
    monkeypatch.setenv("AGENTGYM_TOKEN", TOKEN)
    spec = EnvSpec("AgentRemote-v0", {"url": server.url, "env": "maze"})
    found, _ = evaluate(ExpertAgent(), spec, "test", range(4))
    assert (found.success.value, found.errors) == (1.0, 0)


@pytest.mark.parametrize("check", ["interface", "tasks", "card", "futures", "forks"])
def test_it_keeps_the_contract(server: Any, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The conformance kit finds nothing."""
    monkeypatch.setenv("AGENTGYM_TOKEN", TOKEN)
    spec = EnvSpec("AgentRemote-v0", {"url": server.url, "env": "wordle"})
    found = run_check(check, spec, Settings(episodes=4))
    assert found.status == "passed", found


@pytest.mark.filterwarnings("error")
def test_gymnasium_makes_and_checks_it(server: Any) -> None:
    """By its id and this package's name."""
    given = {"url": server.url, "token": TOKEN, "env": "shop"}
    with closing(gymnasium.make("agentgym_py:AgentRemote-v0", **given)) as env:
        check_env(env.unwrapped, skip_render_check=True)
    with closing(EnvSpec("remote", {**given, "render_mode": "ansi"}).make()) as shown:
        assert shown.reset(seed=0)[0] == shown.render()


def test_what_a_world_refuses_is_raised_again(server: Any) -> None:
    """By the same errors, with the same words, and the session continues."""
    here, there = EnvSpec("maze").make(), server.env("maze")
    refused: tuple[tuple[Callable[[Any], object], type[Exception]], ...] = (
        (lambda env: env.step("x"), ResetNeededError),
        (lambda env: env.snapshot(), ResetNeededError),
        (lambda env: env.reset(options={"task": "no/such/task"}), UnknownNameError),
        (lambda env: env.reset(options={"spilt": "test"}), UnknownNameError),
        (lambda env: env.task(None), UnknownNameError),
        (lambda env: env.restore(b"{}"), SnapshotError),
        (lambda env: env.restore(b"\xff"), SnapshotError),
        (lambda env: env.reset(seed=0) and env.step(3), ActionError),
    )
    for do, kind in refused:
        said = []
        for env in (here, there):
            with pytest.raises(kind) as caught:
                do(env)
            said.append(str(caught.value).replace("RemoteEnv", "MazeEnv"))
        assert said[0] == said[1]
    assert there.reset(seed=1) == here.reset(seed=1)
    there.close()


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"env": "shpo"}, UnknownNameError, "Did you mean 'shop'"),
        ({"difficulty": "hrad"}, ConfigError, "difficulty"),
        ({"dificulty": "hard"}, ConfigError, "Did you mean 'difficulty'"),
        ({"token": "wrong"}, ConfigError, "AGENTGYM_TOKEN"),
        ({"token": ""}, ConfigError, "AGENTGYM_TOKEN"),
        ({"token": f"{TOKEN}\n"}, ConfigError, "printable"),
        ({"url": "127.0.0.1:80"}, ConfigError, "url must be an address such as"),
        ({"url": "http:127.0.0.1:80"}, ConfigError, "url must be an address such as"),
        ({"url": "http://127.0.0.1:x"}, ConfigError, "url must be an address such as"),
        ({"timeout": 0.0}, ConfigError, "timeout must be above 0"),
        ({"difficulty": {1}}, ConfigError, "plain data"),
    ],
)
def test_wrong_arguments_are_said(server: Any, given: dict[str, Any], kind: type[Exception], message: str) -> None:
    """In words that name them."""
    with pytest.raises(kind, match=message):
        RemoteEnv(**{"url": server.url, "env": "shop", "token": TOKEN, "retries": 0} | given)


def test_a_reply_that_is_too_long_is_not_sent(serve: Any) -> None:
    """The space says how long one may be; beyond the server's limit the client refuses it, and continues."""
    env = serve("maze", request_bytes=2000).env("maze")
    env.reset(seed=0)
    longest = "🎉" * env.action_space.max_length
    assert env.action_space.contains(longest)
    assert env.step(longest)[4]["valid_action"] is False
    with pytest.raises(ConfigError, match="--request_bytes"):
        env.step("x" * 2000)
    assert env.steps == 1
    assert env.step("x")[4]["valid_action"] is False


def test_an_evaluation_through_a_server_is_of_the_world_itself(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its manifest is that of the same world here, so that the two can be compared."""
    monkeypatch.setenv("AGENTGYM_TOKEN", TOKEN)
    specs = [EnvSpec("maze"), EnvSpec("remote", {"url": server.url, "env": "maze"})]
    here, there = (make_manifest(RandomAgent(), [spec], "test", range(3), 1, "brief", 0) for spec in specs)
    assert here == there


# ------------------------------------------------------------------------------------------- a server that is not well


def test_a_server_that_died_is_no_failure_of_the_agent(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Episodes end with an error, which counts as no evidence; those that come later too, and the collector lives."""
    monkeypatch.setenv("AGENTGYM_TOKEN", TOKEN)
    server = serve("maze")
    spec = EnvSpec("remote", {"url": server.url, "env": "maze", "retries": 0})

    class Killer(RandomAgent):
        """Ends the server in the third turn."""

        turns = 0

        def act(self, episodes: Any) -> Any:
            """Reply, or kill."""
            self.turns += 1
            if self.turns == 3:
                server.stop()
            return super().act(episodes)

    evaluation, played = evaluate(Killer(), spec, "test", range(6), play=PlayConfig(slots=2))
    assert [t.error is not None for t in played] == [True] * 6
    assert "InfrastructureError" in str(played[0].error)
    assert (evaluation.errors, evaluation.success.n) == (6, 0)
    assert {t.provenance.env_id for t in played} == {"AgentMaze-v0"}


@pytest.mark.parametrize("kind", [ConfigError, EndpointError, UnknownNameError, PolicyError])
@pytest.mark.parametrize("call", ["reset", "step", "task"])
def test_what_a_server_claims_ends_one_episode(
    kind: type[AgentGymError], call: str, serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever error it names; the others are played."""
    monkeypatch.setenv("AGENTGYM_TOKEN", TOKEN)
    world, calls = MazeEnv, [0]
    real = getattr(world, call)

    def lies(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        if calls[0] == 3:
            raise kind("lies")
        return real(*args, **kwargs)

    server = serve("maze")
    spec = EnvSpec("remote", {"url": server.url, "env": "maze"})
    monkeypatch.setattr(world, call, lies)
    _, played = evaluate(RandomAgent(), spec, "test", range(4), play=PlayConfig(slots=1))
    assert len(played) == 4 and calls[0] > 3
    assert sum(t.error is not None for t in played) <= 1


def test_a_server_that_stays_away_ends_the_command(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fifth request in a row without an answer, over so long, is more than an episode's trouble."""
    monkeypatch.setattr(client, "_PATIENCE", 0.0)
    first = serve("maze")
    env = first.env("maze", retries=0)
    env.reset(seed=0)
    first.stop()
    for _ in range(4):
        with pytest.raises(InfrastructureError, match="no answer"):
            env.step("x")
    monkeypatch.setattr(client, "_PATIENCE", 60.0)
    with pytest.raises(InfrastructureError):
        env.step("x")
    monkeypatch.setattr(client, "_PATIENCE", 0.0)
    spec = EnvSpec("remote", {"url": first.url, "env": "maze", "token": TOKEN, "retries": 0})
    with pytest.raises(EndpointError, match=r"no answer from .* for 0 s"):
        evaluate(RandomAgent(), spec, "test", range(6))
    env.close()
    again = serve("maze", port=int(first.url.rpartition(":")[2]))
    assert evaluate(RandomAgent(), spec, "test", range(2))[0].errors == 0
    again.stop()
    with pytest.raises(InfrastructureError):
        spec.make()


def test_it_goes_on_with_a_server_that_was_started_anew(serve: Any) -> None:
    """The episode is lost, and `step` says so; `reset` and `restore` go on in a new session, max_steps and all."""
    first = serve("maze")
    env = first.env("maze")
    env.max_steps = 2
    env.reset(seed=0)
    snapshot = env.snapshot()
    first.stop()
    with pytest.raises(InfrastructureError, match="no answer"):
        env.step("x")
    serve("maze", port=int(first.url.rpartition(":")[2]))
    with pytest.raises(InfrastructureError, match="no such session"):
        env.step("x")
    env.restore(snapshot)
    assert env.snapshot() == snapshot
    assert [env.step("x")[3] for _ in range(2)] == [False, True]
    assert env.reset(seed=0) == EnvSpec("maze").make().reset(seed=0)


def test_ctrl_c_does_not_leave_the_session_behind(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection that waited for an answer is given up; `close` still reaches the server."""
    server = serve("maze")
    env = server.env("maze")
    with monkeypatch.context() as patched:
        patched.setattr(http.client.HTTPConnection, "getresponse", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            env.reset(seed=0)
    env.close()
    assert server.ask("GET")["sessions"] == 0


def _interrupted(_: object) -> None:
    raise KeyboardInterrupt


@contextmanager
def between(url: str, losses: list[str]) -> Iterator[str]:
    """A proxy that loses, for each word of `losses`, a request (`ask`) or an answer (`answer`), a connection each."""
    target = url.rpartition("/")[2].split(":")
    stop = threading.Event()

    def pass_on(client: socket.socket) -> None:
        loss = losses.pop(0) if losses else ""
        with client, socket.create_connection((target[0], int(target[1]))) as upstream:
            client.settimeout(0.5)
            upstream.settimeout(0.5)
            while not stop.is_set():
                for one, other in ((client, upstream), (upstream, client)):
                    try:
                        data = one.recv(1 << 20)
                    except TimeoutError:
                        continue
                    if not data or loss == ("ask" if one is client else "answer"):
                        return
                    other.sendall(data)
                    if one is client and b"content-length: 0" not in data.lower() and b"\r\n\r\n" in data[-4:]:
                        other.sendall(client.recv(1 << 20))

    def accept() -> None:
        while not stop.is_set():
            try:
                client, _ = door.accept()
            except OSError:
                return
            threading.Thread(target=pass_on, args=(client,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as door:
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{door.getsockname()[1]}"
        stop.set()


@pytest.mark.parametrize("lost", ["ask", "answer"])
def test_what_is_sent_twice_is_done_once(serve: Any, lost: str) -> None:
    """Whether the request or its answer was lost: the step is counted once, and its answer is the first one's."""
    server = serve("OddForTests-v0")
    losses: list[str] = []
    with between(server.url, losses) as url:
        env = RemoteEnv(url=url, env="OddForTests-v0", token=TOKEN, retries=3)
        env.reset(seed=0)
        for expected in ("1", "2", "3"):
            losses[:] = [lost, lost]
            env._link._http.http.sock.close()  # so that the next request goes over a new connection
            env._link.close()
            assert env.step("x")[0] == expected
            assert losses == []
        assert env.state() == {"count": 3}
        env.close()


def test_retries_wait_longer_and_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three times as long each time; then the error."""
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(InfrastructureError, match="no answer"):
        RemoteEnv(url=f"http://127.0.0.1:{port}", env="maze", retries=4)
    assert len(waits) == 4
    assert all(later == pytest.approx(3 * earlier) for earlier, later in pairwise(waits))


def test_a_server_that_says_nothing_is_not_waited_for(serve: Any) -> None:
    """Longer than the timeout."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        with pytest.raises(InfrastructureError, match=r"timed out|TimeoutError"):
            RemoteEnv(url=f"http://127.0.0.1:{silent.getsockname()[1]}", env="maze", timeout=0.2, retries=0)
        assert time.monotonic() - began < 5


def test_another_server_is_said(server: Any) -> None:
    """Something that answers, and is none of ours."""
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer() -> None:
            client, _ = other.accept()
            with client:
                client.recv(1 << 16)
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(InfrastructureError, match="not an environment server"):
            RemoteEnv(url=f"http://127.0.0.1:{other.getsockname()[1]}", env="maze", retries=0)
