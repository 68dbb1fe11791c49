"""`agentgym train --trainer.labels judge`: a language model behind an endpoint says what steps are worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx2")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("torch")

from agentgym_py import http_client
from agentgym_py.policy import Policy
from agentgym_py.rewards.llm_judge import MARKS_FILE
from agentgym_py.testing.model_server import ModelServer, serving
from agentgym_py.trajectory import store

Run = Callable[..., tuple[int, str, str]]
SECRET = "sk-of-the-tests-0123456789"


def test_a_judge_from_the_command_line(
    agentgym: Run, small_model: str, episode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`agentgym train` asks it; a server that is down is one line and can be resumed; its key stands nowhere."""
    with serving(ModelServer(Policy.load(small_model), chat_reply=lambda body: "Mark: 7")) as server:
        monkeypatch.setenv(http_client.KEY, SECRET)
        monkeypatch.setattr(http_client, "_FIRST_WAIT", 0.02)
        store.write(
            "played.jsonl", [replace(episode("a", "b", "c", "d"), id="one"), replace(episode("x", "y"), id="two")]
        )
        words = ["train", "--trainer", "process_reward", "--data", "played.jsonl", "--trainer.labels", "judge"]
        words += ["--model", small_model, "--threads", "1", "--trainer.epochs", "1", "--trainer.judge.model", "m"]
        words += ["--trainer.judge.retries", "0", "--trainer.judge.concurrency", "1", "--out", "judge"]
        words += ["--trainer.judge.base_url", server.url]
        server.breaks_after = answered = 1
        status, _, err = agentgym(*words)
        assert status == 2 and err.count("\n") == 1 and "gave no answer: 500" in err, err
        server.breaks_after, before = None, len(server.bodies)
        status, out, err = agentgym(*words)
        assert status == 0 and "judge/process_reward: 2 trajectories" in out, err
        assert len(server.bodies) - before == 6 - answered
        files = [each for each in Path("judge").rglob("*") if each.is_file()]
        assert {each.name for each in files} >= {"train.json", "heads.safetensors", MARKS_FILE}
        assert not any(SECRET.encode() in each.read_bytes() for each in files)
        words[-1] = "http://127.0.0.1:1/v1"
        status, _, err = agentgym(*[*words, "--out", "none"])
        assert status == 2 and err.count("\n") == 1 and "the judge at http://127.0.0.1:1/v1" in err, err
        status, _, err = agentgym(*[*words, "--trainer.judge.concurency", "3", "--out", "none"])
        assert status == 2 and "--trainer.judge: " in err and "concurrency" in err, err
