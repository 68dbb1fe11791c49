"""Readers of texts for `benchmarks/fuzz.py`: of agents, users, servers and worlds."""

from __future__ import annotations

import json
import sys
import tempfile
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

from fuzz_reader import Reader, as_text, in_file
from fuzz_samples import (
    AGENTGYM,
    COMPLETION,
    JUDGEMENTS,
    PRODUCT,
    RECIPE,
    ROW,
    SERVERS,
    TEMPLATE_SETTINGS,
    VIEWED,
    damaged,
    raw,
    texts,
)
from hypothesis import strategies as st

from agentgym_envs.calculator.expressions import ExpressionError, evaluate
from agentgym_envs.shop import catalogue
from agentgym_envs.sql.guard import GuardedDatabase, StatementError, Table
from agentgym_envs.textcraft import recipes
from agentgym_py import registry
from agentgym_py.agents.chat import ChatAgent, Completion, completion
from agentgym_py.agents.openai import OpenAIAgent
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.engine.server_protocols import PROTOCOLS
from agentgym_py.env import EnvSpec
from agentgym_py.env.actions import parse_reply, parse_tool_call
from agentgym_py.env.registration import short_name
from agentgym_py.errors import AgentGymError, ConfigError, PolicyError
from agentgym_py.feedback import llm
from agentgym_py.files import parse_json
from agentgym_py.http_client import RequestFailedError, Timed, read_json
from agentgym_py.policy import chat_template
from agentgym_py.rewards.functions import parse_reward
from agentgym_py.rewards.judge_client import UnreadableError
from agentgym_py.rewards.llm_judge import parse_mark
from agentgym_py.rewards.relative_judge import parse_judgements
from agentgym_py.serving.client import parse_answer
from agentgym_py.serving.protocol import (
    Ask,
    ExpertThought,
    FindTask,
    Limit,
    Make,
    Read,
    Reset,
    Restore,
    Step,
    decode,
)
from agentgym_py.serving.task_rows import start_row
from agentgym_py.training.rl.constraints import parse_constraints
from agentgym_py.trajectory import Trajectory, store
from agentgym_py.viewer.index import Index
from agentgym_py.viewer.server import Viewer, app_of
from agentgym_py.viewer.source import Source

sys.path.append(str(Path(__file__).parents[1] / "bridges" / "agentgym"))


def text_readers() -> dict[str, Reader]:
    """Readers of what an agent or a user writes."""

    def constraints(text: str) -> None:
        parse_constraints(text)

    return {
        "action parser": Reader(texts, lambda text: (parse_reply(text), parse_tool_call(text)), ()),
        "SQL guard": Reader(texts | texts.map("SELECT {}".format), _query, (StatementError,)),
        "expressions": Reader(texts, evaluate, (ExpressionError,)),
        "constraints": Reader(texts | texts.map("a<={}".format), constraints),
        "rewards": Reader(texts | texts.map("{}*agent".format), parse_reward),
        "judge's answer": Reader(texts | st.sampled_from(JUDGEMENTS).flatmap(damaged).map(as_text), _judgement, ()),
        "chat template": Reader(texts | damaged(TEMPLATE_SETTINGS).map(as_text), _template),
    }


def answer_readers(episode: Trajectory) -> dict[str, Reader]:
    """Readers of what servers answer, and of requests to ours."""
    requests = {
        Make: {"env": "maze", "kwargs": {"split": "test"}}, Step: {"n": 1, "action": "x"},
        Reset: {"n": 1, "seed": 0, "options": {"task": 0}}, Restore: {"n": 1, "snapshot": ""},
        Limit: {"n": 1, "max_steps": 3}, Ask: {}, FindTask: {"name": "maze/test/easy/0", "split": "test"},
        Read: {"text": "x"}, ExpertThought: {"action": "x"},
    }  # fmt: skip
    readers = {
        f"protocol {kind.__name__}": Reader(raw | damaged(sample), lambda data, kind=kind: decode(kind, data))  # type: ignore[misc]  # mypy infers no lambda with a default
        for kind, sample in requests.items()
    }
    refusal = {"error": {"type": "ConfigError", "message": "x"}}
    readers["environment server"] = Reader(
        st.tuples(st.sampled_from((200, 400, 401, 404, 500)), raw | damaged(refusal)),
        lambda answer: parse_answer("http://x", *answer),
    )
    for name, sample in SERVERS.items():
        readers[f"{name} server"] = Reader(
            raw | damaged(sample), lambda data, name=name: PROTOCOLS[name].read([1, 2], read_json(data)),  # type: ignore[misc]  # as above
            (AgentGymError, RequestFailedError),
        )  # fmt: skip
    readers["completion"] = Reader(raw | damaged(COMPLETION), _play_completion)
    readers["row of tasks"] = Reader(damaged(ROW), lambda data: start_row(read_object(data)).close())
    readers["request to the viewer"] = Reader(
        st.sampled_from(VIEWED).flatmap(lambda sample: st.tuples(st.just(sample[0]), raw | damaged(sample[1]))),
        _viewer(episode),
    )
    readers["AgentGym's server"] = Reader(
        st.lists(st.sampled_from(AGENTGYM).flatmap(damaged), min_size=8), _play_agentgym
    )
    return readers


def world_readers() -> dict[str, Reader]:
    """Readers of snapshots, and of the files of which worlds are made."""
    readers = {}
    for world in map(short_name, registry.names("agentgym.envs")):
        sample, restore = _restorer(world)
        readers[f"snapshot {world}"] = Reader(raw | damaged(sample), restore)
    readers["recipes"] = Reader(
        raw | damaged(RECIPE), in_file("stick.json", _read_recipes, {"tags/item/a.json": b'{"values": ["x"]}'})
    )
    readers["catalogue"] = Reader(
        raw | damaged([PRODUCT]),
        in_file("items_shuffle.json", lambda path: catalogue.load_catalogue(path.parent),
                 {"items_ins_v2.json": b"{}", "items_human_ins.json": b"{}"}),
    )  # fmt: skip
    return readers


# ---- samples, and what is done with them -----------------------------------------------------------------------------


def read_object(data: bytes) -> dict[str, Any]:
    """Return a JSON object; ConfigError if there is none."""
    try:
        value = parse_json(data)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if not isinstance(value, dict):
        raise ConfigError("no object")
    return value


def _viewer(episode: Trajectory) -> Callable[[tuple[str, bytes]], None]:
    """Return a function that sends requests to a viewer of a folder with an episode."""
    from starlette.testclient import TestClient

    folder = tempfile.TemporaryDirectory(prefix="agentgym-fuzz")
    store.write(Path(folder.name) / "a.jsonl", [episode])
    index = Index(Source.from_paths([folder.name]))
    index.update()
    client = TestClient(app_of(Viewer(index, _no_model), "token"), base_url="http://127.0.0.1")
    client.headers["Authorization"] = "Bearer token"
    weakref.finalize(client, folder.cleanup)

    def send(request: tuple[str, bytes]) -> None:
        path, body = request
        if "KEY" in path:
            started = client.post("/api/live", json={"episode": 1, "at": 1})
            path = path.replace("KEY", started.json()["key"])
        answer = client.post(f"/api/{path}", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code in (200, 400, 404, 409, 413, 422), (answer.status_code, answer.text[:200])

    return send


def _no_model(name: str) -> Any:
    raise PolicyError(f"no model {name!r:.50}")


class _Scripted:
    """A connection whose server answers one after another."""

    def __init__(self, answers: Sequence[bytes]) -> None:
        self.answers = iter(answers)

    def send(self, *_: Any) -> tuple[int, bytes]:
        """Return the next answer."""
        return 200, next(self.answers, b"{}")

    def close(self) -> None:
        """Do nothing."""


def _play_agentgym(answers: Sequence[bytes]) -> None:
    """Play an episode with a server of AgentGym that answers these."""
    bridge: Any = import_module("agentgym_agentenv_world")
    with mock.patch.object(bridge, "TimedConnection", lambda *_: _Scripted(answers)):
        for dialect in ("alfworld", "webshop", "tools"):
            env = bridge.GymServerEnv(url="http://127.0.0.1:1", dialect=dialect)
            session = env.connect()
            session.reset("train", 0)
            session.step(env.read("Action: look"), "Action: look")
            session.close()


def _read_recipes(path: Path) -> None:
    recipes.read_folder.cache_clear()
    recipes.read_folder(str(path.parent))


def _judgement(text: str) -> None:
    for parse in (llm.parse_judgement, lambda answer: parse_judgements(answer, 1), parse_mark):
        with suppress(UnreadableError):
            parse(text)


def _template(text: str) -> None:
    template = f"{{#- agentgym settings {text} -#}}\n{{{{ messages }}}}"
    for read in (chat_template.thinking_of, chat_template.prompting_of):
        read(template)
    chat_template.with_settings(template, "auto", {})


class _Answered(OpenAIAgent):
    """An agent whose endpoint answers the same bytes to every request."""

    content = b""

    async def complete(self, body: dict[str, Any], seed: int) -> Timed[Completion]:
        """Read the answer."""
        del body, seed
        if (found := completion(read_json(self.content))) is None:
            raise RequestFailedError("no completion")
        return Timed(found, 0.5, 0)


def _play_completion(content: bytes) -> None:
    """Play a step with a completion, and store it."""
    agent: ChatAgent = _AGENT
    agent.content = content  # type: ignore[attr-defined]  # an _Answered
    agent.client.answered = True  # else a failure counts as an endpoint that is down
    store.to_line(Collector(agent).collect(jobs_for(EnvSpec("todo", {"max_steps": 1}), "train", [0])[0]))


_AGENT = _Answered("m", "http://127.0.0.1:1/v1", tools=True, prompt_price=1.0, completion_price=1.0)


def _restorer(world: str) -> tuple[Any, Callable[[bytes], None]]:
    """Return a snapshot of a world and a function that restores one, and steps."""
    env = EnvSpec(world).make()
    env.reset(seed=1)
    sample = json.loads(env.snapshot())

    def restore(data: bytes) -> None:
        env.reset(seed=2)
        env.restore(data)
        env.actions()
        env.step("look")
        env.snapshot()

    return sample, restore


def _query(text: str) -> None:
    GuardedDatabase([Table("book", ("id INTEGER PRIMARY KEY", "title TEXT"), [(1, "x")])]).run(text)
