"""The agent, from the command line: a person, and a model behind an endpoint."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from agentgym_py import http_client
from agentgym_py.agents import ExpertAgent
from agentgym_py.agents.openai import OpenAIAgent
from agentgym_py.cli import command_module
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.errors import ConfigError
from agentgym_py.rewards.llm_judge import OpenAIJudge
from agentgym_py.trajectory import store

Run = Callable[..., tuple[int, str, str]]
SECRET = "sk-of-the-tests-0123456789"
MAZE = ("--env", "maze", "--env_kwargs.difficulty", "easy", "--tasks", "2")


# ---- a person -------------------------------------------------------------------------------------------------------


def solution() -> list[str]:
    """What solves the two tasks."""
    from agentgym_py.env import EnvSpec

    played = Collector(ExpertAgent()).collect_batch(jobs_for(EnvSpec("maze", {"difficulty": "easy"}), "test", range(2)))
    return [step.action for t in played for step in t.steps]


def typed(monkeypatch: pytest.MonkeyPatch, lines: list[str]) -> None:
    """What comes through the pipe."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))


def test_a_person_is_evaluated(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stdout has the result alone, the talk is on stderr, and ends of episodes are told."""
    typed(monkeypatch, solution())
    status, out, err = agentgym("eval", *MAZE, "--agent", "person", "--json", "--out", "me")
    result = json.loads(out)
    assert status == 0 and result["agent"] == "person" and result["success"]["value"] == 1.0
    assert err.count("Solved: reward 1.") == 2 and "spent" not in json.loads(Path("me/manifest.json").read_text())
    assert len(list(store.read("me/trajectories.jsonl"))) == 2


def test_who_stops_goes_on_later(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the pipe, as Ctrl-D: the episode that was over is kept, the one that was left begins again."""
    lines, argv = solution(), ("eval", *MAZE, "--agent", "person", "--out", "me")
    first = next(number for number, line in enumerate(lines) if line.startswith("open")) + 1
    typed(monkeypatch, lines[: first + 1])
    status, out, err = agentgym(*argv)
    assert status == 130 and out == "" and "me: 1 episode is kept; the same command resumes from there" in err
    typed(monkeypatch, lines[first:])
    status, out, _ = agentgym(*argv)
    assert status == 0 and "person, test split, easy, 2 episodes" in out
    assert len(list(store.read("me/trajectories.jsonl"))) == 2


def test_a_person_demonstrates(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """`collect` writes what was played."""
    typed(monkeypatch, solution())
    status, out, _ = agentgym("collect", *MAZE, "--split", "test", "--agent", "person", "--out", "me.jsonl")
    assert status == 0 and "2 trajectories of person, success 100.0 %" in out


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of its own")
def test_ctrl_d_in_a_terminal() -> None:
    """The prompt's line is ended, and the status is that of an interrupted evaluation."""
    import os
    import pty

    code = f"import sys; from agentgym_py.cli import main; sys.exit(main(['eval', *{MAZE}, '--agent', 'person']))"
    ours, theirs = pty.openpty()
    with (
        subprocess.Popen([sys.executable, "-c", code], stdin=theirs, stdout=theirs, stderr=theirs) as running,
        ExitStack() as end,
    ):
        end.callback(running.kill)  # a failure would wait for it forever
        os.close(theirs)
        said = b""
        while not said.endswith(b"> "):
            said += os.read(ours, 1024)
        os.write(ours, b"\x04")
        assert running.wait(60) == 130
    os.close(ours)


# ---- an endpoint ----------------------------------------------------------------------------------------------------


class Handler(BaseHTTPRequestHandler):
    """Answers as often as the server has answers left, then refuses."""

    def do_POST(self) -> None:
        """One request."""
        server: Any = self.server
        server.asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        server.left -= 1
        message = {"role": "assistant", "content": server.content, "refusal": server.refusal}
        body = {"choices": [{"message": message}], "usage": {"prompt_tokens": 1000, "completion_tokens": 10}}
        said = json.dumps(body if server.left >= 0 else {"error": {"message": f"not with {SECRET}"}}).encode()
        self.send_response(200 if server.left >= 0 else 500)
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A server, and a key for it."""
    monkeypatch.setenv(http_client.KEY, SECRET)
    monkeypatch.setattr(http_client, "_FIRST_WAIT", 0.01)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        made.asked, made.left, made.content = [], 1000, "Thought: so\nAction: look"  # type: ignore[attr-defined]  # ours
        made.refusal = None  # type: ignore[attr-defined]  # ours
        Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


def address(server: Any) -> str:
    """Its address."""
    return f"http://127.0.0.1:{server.server_port}/v1"


def test_an_endpoint_is_evaluated(agentgym: Run, server: Any) -> None:
    """With what it cost in result and manifest; the key stands in no file and is not shown; a manifest repeats it."""
    priced = ("--agent_kwargs.prompt_price", "2", "--agent_kwargs.completion_price", "10")
    argv = ("--agent", "openai", "--base-url", address(server), "--model", "served", *priced)
    status, out, err = agentgym("eval", *MAZE, "--env_kwargs.max_steps", "3", *argv, "--out", "a")
    assert status == 0, err
    assert "test, served, greedy, replies of at most 1024 tokens: 2 episodes" in out
    assert "6 replies, 6,000 prompt and 60 completion tokens, cost 0.0126\n" in out
    result, manifest = (json.loads(Path("a", f"{name}.json").read_text()) for name in ("result", "manifest"))
    assert result["spent"] == manifest["spent"] and result["spent"]["cost"] == pytest.approx(0.0126)
    assert manifest["agent"]["sampling"]["base_url"] == address(server) and result["tokens"] == 30
    assert server.asked[0]["temperature"] == 0 and server.asked[0]["max_tokens"] == 1024
    assert not [path for path in Path().rglob("*") if path.is_file() and SECRET in path.read_text()]
    assert SECRET not in out + err
    status, _, err = agentgym("eval", "--manifest", "a/manifest.json", "--out", "b")
    assert status == 0 and Path("a/trajectories.jsonl").read_bytes() == Path("b/trajectories.jsonl").read_bytes(), err


def test_an_endpoint_that_breaks_keeps_what_was_done(agentgym: Run, server: Any) -> None:
    """One line says what is wrong, and the same command resumes; the counts are of all episodes."""
    argv = ("eval", *MAZE[:-1], "8", "--env_kwargs.max_steps", "3", "--agent", "openai", "--base_url", address(server),
            "--model", "served", "--slots", "1", "--agent_kwargs.retries", "0", "--out", "a")  # fmt: skip
    server.left = 0
    status, _, err = agentgym(*argv)
    assert status == 2 and not Path("a/manifest.json").exists() and SECRET not in err
    assert err.endswith(f"agentgym: {address(server)} (model 'served') gave no answer: 500 Internal Server Error: "
                        "not with … (attempts: 1)\n")  # fmt: skip
    server.left = 7  # two episodes and a step: then five requests in a row are lost, with four episodes
    status, _, err = agentgym(*argv)
    assert status == 2 and "a: 2 episodes are kept, 4 ended by an infrastructure failure; the same command" in err
    assert [t.error is None for t in store.read("a/trajectories.jsonl")] == [True] * 2 + [False] * 4
    server.left = 1000
    assert agentgym(*argv)[0] == 0  # the lost ones are played again
    result = json.loads(Path("a/result.json").read_text())
    assert (result["spent"]["replies"], result["errors"], result["success"]["n"]) == (24, 0, 8)


@pytest.mark.parametrize(
    ("argv", "kept"),
    [
        (("eval",), "no episode is kept, because --out names no folder"),
        (("eval", "--out", "a"), "a: 1 episode is kept"),
        (("collect", "--out", "a.jsonl"), "a.jsonl: 1 of 2 trajectories were written and are kept"),
    ],
)
def test_an_endpoint_that_is_interrupted_has_its_price(
    agentgym: Run, server: Any, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...], kept: str
) -> None:
    """Ctrl-C says what is kept and what all replies have cost, those of other episodes, too."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command_module(argv[0]), "show_outcome", interrupt)
    priced = ("--agent_kwargs.prompt_price", "2", "--agent_kwargs.completion_price", "10")
    endpoint = ("--agent", "openai", "--base-url", address(server), "--model", "served", *priced)
    status, _, err = agentgym(*argv, *MAZE, "--env_kwargs.max_steps", "3", *endpoint)
    assert status == 130 and kept in err
    assert re.search(r"spent by this command: [3-6] replies, [3-6],000 prompt and [3-6]0 completion tokens, cost", err)


def test_an_endpoint_plays_at_several_temperatures(agentgym: Run, server: Any) -> None:
    """As a model does, with as long replies as are asked for."""
    argv = ("--agent", "openai", "--base_url", address(server), "--model", "served", "--temperature", "0.5,1",
            "--max_new_tokens", "9", "--slots", "1", "--env_kwargs.max_steps", "1",
            "--agent_kwargs.tools", "true")  # fmt: skip
    status, out, err = agentgym("collect", *MAZE, *argv, "--out", "a.jsonl")
    assert status == 0 and "4 trajectories of served" in out and "4 replies, 4,000 prompt and 40 completion" in err
    assert [body["temperature"] for body in server.asked] == [0.5, 0.5, 1.0, 1.0]
    assert all(body["max_tokens"] == 9 and body["tools"] for body in server.asked)


def test_an_endpoint_gets_system_prompt_examples_and_template(agentgym: Run, server: Any) -> None:
    """The manifest and the episodes hold them; agents without a chat refuse them."""
    maze = (*MAZE, "--env_kwargs.max_steps", "1")
    assert agentgym("collect", *MAZE, "--agent", "expert", "--tasks", "1", "--out", "examples.jsonl")[0] == 0
    prompting = ("--system_prompt", "Be brief.", "--few_shot", "examples.jsonl")
    endpoint = ("--agent", "openai", "--base_url", address(server), "--model", "served")
    argv = (*prompting, "--prompt_template", "Now: {rules}", "--out", "e")
    status, out, err = agentgym("eval", *maze, "--tasks", "1", *endpoint, *argv)
    assert status == 0, err
    assert 'tokens, system prompt "Be brief.", few-shot (' in out and ', prompt template "Now: {rules}", test' in out
    turns = server.asked[0]["messages"]
    assert turns[0] == {"role": "system", "content": "Be brief."} and turns[-1]["content"].startswith("Now: ")
    manifest = json.loads(Path("e/manifest.json").read_text())
    assert manifest["agent"]["sampling"]["few_shot"] == turns[1:-1] and len(turns) > 3
    assert manifest["options"]["prompt_template"] == "Now: {rules}"
    status, _, err = agentgym("eval", *maze, "--agent", "expert", *prompting, "--tasks", "1")
    assert status == 2 and "--system_prompt and --few_shot need a model or an endpoint" in err
    Path("empty.jsonl").write_text("")
    status, _, err = agentgym("eval", *maze, *endpoint, "--few_shot", "empty.jsonl", "--tasks", "1")
    assert status == 2 and "empty.jsonl holds no episode with a step" in err


def test_many_invalid_actions_have_a_hint(agentgym: Run, server: Any) -> None:
    """Only if the prompt is not the full one already, which the first line then says; an expert needs none."""
    argv = (*MAZE[:-1], "1", "--env_kwargs.max_steps", "2", "--base_url", address(server), "--model", "served")
    server.content = "I cannot say."
    status, out, err = agentgym("eval", *argv, "--agent", "openai")
    assert status == 0 and "most actions were invalid: --prompt full explains" in out and " prompt, " not in out, err
    status, out, _ = agentgym("eval", *argv, "--agent", "openai", "--prompt", "full")
    assert status == 0 and "100.0 % invalid" in out and "most actions" not in out and ", full prompt, test split" in out
    server.content, server.refusal = None, "I cannot help with that."
    status, out, err = agentgym("eval", *argv, "--agent", "openai")
    assert status == 0 and "100.0 % invalid" in out and "refused by the provider" in out, err
    assert "most actions" not in out, "the form of an answer is no reason for a refusal"


@pytest.mark.parametrize("command", ["eval", "collect"])
def test_a_missing_key_is_said_before_any_network(agentgym: Run, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """Of OpenAI's address, which is the default; a server of one's own may need none."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr(http_client.HttpClient, "ask", lambda *_, **__: pytest.fail("the network was asked"))
    for more in ((), ("--base_url", "https://api.openai.com/v1/")):
        argv = (command, "--env", "GUESS", "--agent", "openai", "--model", "m", "--tasks", "2", "--out", "o.jsonl")
        status, _, err = agentgym(*argv, *more)
        assert status == 2 and "needs a key in the environment variable OPENAI_API_KEY, which is not set" in err
        assert err.count("\n") == 1 and not Path("o.jsonl").exists()
    OpenAIAgent("m", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    OpenAIAgent("m")
    OpenAIJudge("m")
    monkeypatch.setenv("OPENAI_API_KEY", " ")
    for made in (OpenAIAgent, OpenAIJudge):
        with pytest.raises(ConfigError, match="needs a key"):
            made("m")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--agent", "openai"), "model is missing"),
        (("--agent", "openai", "--model", "m", "--base_url", "localhost"), "base_url must be an address such as"),
        (("--agent", "openai", "--agent_kwargs.base_url", "x"), "model is missing"),
        (("--agent", "openai", "--model", "m", "--agent_kwargs.tols", "1"), "no argument 'tols'. Did you mean 'tools'"),
        (("--agent", "openai", "--model", "m", "--agent_kwargs.api_key", SECRET), "takes no argument 'api_key'"),
        (
            ("--agent", "openai", "--model", "m", "--agent_kwargs.retries", "-1"),
            "--agent_kwargs.retries must be at least 0",
        ),
        (("--agent", "openai", "--model", "m", "--max_new_tokens", "0"), "--max_new_tokens must be at least 1, got 0"),
        (("--agent", "expert", "--base_url", "http://a/v1"), "--base_url needs an endpoint: --agent openai"),
        (("--model", "tiny", "--base_url", "http://a/v1"), "--base_url needs an endpoint: --agent openai"),
        (("--agent", "person", "--model", "tiny"), "choose an agent: --model NAME or --agent NAME"),
    ],
)
def test_mistakes_are_one_line(agentgym: Run, argv: tuple[str, ...], said: str) -> None:
    """And exit status 2, before anything is sent."""
    status, out, err = agentgym("eval", *MAZE, *argv)
    assert status == 2 and said in err and err.count("\n") == 1 and out == "" and SECRET not in err


def test_help_names_the_agents(agentgym: Run) -> None:
    """Of `eval` and of `collect`."""
    for command in ("eval", "collect"):
        out = " ".join(agentgym(command, "--help")[1].split())
        assert all(f"`{name}`" in out for name in ("expert", "random", "model", "person", "openai"))
