"""`--engine server`: commands that play a model through a model server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx2")
pytest.importorskip("uvicorn")
pytest.importorskip("accelerate")

from agentgym_py import http_client
from agentgym_py.policy import Policy
from agentgym_py.testing.model_server import ModelServer, serving
from agentgym_py.trajectory import store

Run = Callable[..., tuple[int, str, str]]
GUESS = ("--env", "GUESS", "--env_kwargs.max_steps", "3", "--threads", "1", "--max_new_tokens", "8")


@pytest.fixture
def server(small_model: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """A server that holds the small model."""
    monkeypatch.delenv(http_client.KEY, raising=False)
    monkeypatch.setattr(http_client, "_FIRST_WAIT", 0.01)
    with serving(ModelServer(Policy.load(small_model, device="cpu"))) as made:
        yield made


def sampled(path: str) -> list[Any]:
    """The ids of each turn."""
    return [(s.tokens.context, s.tokens.ids) for t in store.read(path) for s in t.steps if s.tokens]


def test_collect_and_eval_play_through_it(agentgym: Run, small_model: str, server: ModelServer) -> None:
    """Greedy episodes are those of `--engine hf`; a manifest says by which engine, and repeats it."""
    model, served = ("--model", small_model), ("--engine", "server", "--base_url", server.url)
    greedy = (*GUESS, *model, "--tasks", "3", "--temperature", "0")
    assert agentgym("collect", *greedy, "--out", "here.jsonl")[0] == 0
    status, _, err = agentgym("collect", *greedy, *served, "--out", "there.jsonl", "--engine_kwargs.concurrency", "2")
    assert status == 0, err
    assert sampled("there.jsonl") == sampled("here.jsonl") and len(sampled("there.jsonl")) == 9
    assert server.max_live == 2
    status, _, err = agentgym(
        "eval", *GUESS, *model, *served, "--server_kind", "sglang", "--tasks", "3", "--json", "--out", "e"
    )
    assert status == 0, err
    held = json.loads(Path("e/manifest.json").read_text())
    assert held["agent"]["sampling"]["engine"] == "sglang" and held["options"]["base_url"] == server.url
    status, _, err = agentgym("eval", "--manifest", "e/manifest.json", "--json", "--out", "f")
    assert status == 0 and sampled("f/trajectories.jsonl") == sampled("e/trajectories.jsonl"), err


@pytest.mark.parametrize("trainer", ["filtered_bc", "ppo"])
def test_evolve_plays_each_rounds_weights(agentgym: Run, small_model: str, server: ModelServer, trainer: str) -> None:
    """The server is given those of every round, and of every step of a trainer that plays itself."""
    more = ["--trainer.entropy_coef", "0.05"] if trainer == "ppo" else []  # no episode of this world has a return
    more += ["--trainer.mask_truncated_completions", "false"]  # its replies are all cut
    status, _, err = agentgym(
        "evolve", *GUESS, "--preset", "smoke", "--trainer", trainer, "--model", small_model, "--expert_tasks", "8",
        "--explore_tasks", "16", "--valid_tasks", "3", "--test_tasks", "3", "--out", "run",
        "--engine", "server", "--base_url", server.url, *more,
    )  # fmt: skip
    assert status == 0, err
    agents = [Policy.load(f"run/rounds/{number:02}/checkpoint").digest() for number in range(2)]
    assert len({*agents, Policy.load(small_model).digest()}) == 3
    valid = [next(iter(store.read(f"run/rounds/{number:02}/valid.jsonl"))).provenance for number in range(2)]
    assert [each.policy_digest for each in valid] == agents and valid[0].sampling["engine"] == "vllm"
    explored = list(store.read("run/rounds/01/trajectories.jsonl"))
    assert explored[0].provenance.policy_digest == agents[0] and all(each.error is None for each in explored)
    assert server.policy.digest() in agents


def test_evolve_refuses_a_server_that_would_play_old_weights(
    agentgym: Run, small_model: str, server: ModelServer
) -> None:
    """Before there is a folder, or an episode."""
    argv = ("evolve", *GUESS, "--model", small_model, "--preset", "smoke", "--out", "run", "--engine", "server")
    served = ("--base_url", server.url)
    status, _, err = agentgym(*argv, *served, "--server_kind", "llamacpp")
    assert (
        status == 2
        and "the server cannot load new weights after a round: llama.cpp's server cannot load other weights" in err
    )
    server.loads = False
    status, _, err = agentgym(*argv, *served)
    assert status == 2 and "VLLM_SERVER_DEV_MODE=1" in err and not Path("run").exists()


def test_a_run_goes_on_with_a_server_elsewhere(agentgym: Run, small_model: str, server: ModelServer) -> None:
    """After the one that it began with broke."""
    argv = (
        "evolve", *GUESS, "--preset", "smoke", "--model", small_model, "--valid_tasks", "2", "--test_tasks", "2",
        "--expert_tasks", "4", "--explore_tasks", "2", "--out", "run", "--engine", "server",
        "--engine_kwargs.retries", "0",
    )  # fmt: skip
    with serving(ModelServer(Policy.load(small_model, device="cpu"))) as first:
        first.breaks_after = 24
        status, _, err = agentgym(*argv, "--base_url", first.url)
        assert status == 2 and "gave no answer" in err and "to resume: agentgym evolve --resume run" in err
    assert not Path("run/test.json").exists()
    status, _, err = agentgym("evolve", "--resume", "run", "--base_url", server.url)
    assert status == 0 and Path("run/test.json").exists(), err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--model", "tiny", "--engine", "server"), "--engine server needs --base_url"),
        (("--agent", "expert", "--engine", "server", "--base_url", "http://a"), "--engine server needs a --model"),
        (("--model", "tiny", "--server_kind", "sglang"), "need --engine server"),
        (("--model", "tiny", "--sync_weights", "lora"), "need --engine server"),
        (("--model", "tiny", "--engine_kwargs.timeout", "3"), "need --engine server"),
        (("--model", "tiny", "--base_url", "http://a"), "--base_url needs an endpoint"),
        (("--model", "tiny", "--kv_cache_gib", "0"), "--kv_cache_gib must be above 0"),
        (
            ("--model", "tiny", "--engine", "server", "--base_url", "http://a", "--kv_cache_gib", "1"),
            "--kv_cache_gib needs --engine hf",
        ),
    ],
)
def test_contradictions_are_refused(agentgym: Run, argv: tuple[str, ...], said: str) -> None:
    """In a line, before a model is loaded."""
    status, _, err = agentgym("eval", "--env", "GUESS", *argv)
    assert status == 2 and said in err and "Traceback" not in err


@pytest.mark.parametrize("setting", [("timeout", "soon"), ("concurency", "3"), ("concurrency", "0"), ("kind", "vllm")])
def test_wrong_settings_are_refused(
    agentgym: Run, small_model: str, server: ModelServer, setting: tuple[str, str]
) -> None:
    """By name, in a line."""
    name, value = setting
    status, _, err = agentgym(
        "eval", *GUESS, "--model", small_model, "--tasks", "1", "--engine", "server", "--base_url", server.url,
        f"--engine_kwargs.{name}", value,
    )  # fmt: skip
    assert status == 2 and name in err and "Traceback" not in err
    assert "--engine_kwargs" in err or "ServerEngine takes no argument" in err
