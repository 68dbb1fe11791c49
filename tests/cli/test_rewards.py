"""`--reward` of `evolve` and `train`: what is learnt from, what is stored, logged and drawn, and how it resumes."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentgym_py.trajectory import store

pytest.importorskip("torch")
Run = Callable[..., tuple[int, str, str]]
SMALL = (
    "--env", "GUESS", "--preset", "smoke", "--max_new_tokens", "8", "--expert_tasks", "0", "--explore_tasks", "4",
    "--attempts", "2", "--valid_tasks", "2", "--test_tasks", "0", "--env_kwargs.max_steps", "2", "--threads", "1",
)  # fmt: skip
KEEP = ("--trainer.mask_truncated_completions", "false")  # a reply of 8 random tokens is always cut
REWARD = '''
def letters(trajectory, *, price=0.01):
    """Replies with other letters are worth other rewards, so that groups differ."""
    return {"letters": [-price * sum(map(ord, step.reply)) for step in trajectory.steps]}
'''


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A file with a reward function; a process imports a name once, so no other test's file has its name."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    name = f"reward_{abs(hash(request.node.nodeid)):x}.py"
    (tmp_path / name).write_text(REWARD)
    return name


def test_a_run_learns_from_a_weighted_sum_and_resumes_with_it(agentgym: Run, small_model: str, source: str) -> None:
    """By GRPO: stored rewards are the world's, the parts are logged and drawn, a resumed run is bit-identical."""
    reward = f"success+0.5*{source}:letters"
    argv = ("evolve", *SMALL, "--trainer", "grpo", "--model", small_model, "--out", "run", *KEEP)
    status, _, err = agentgym(*argv, "--reward", reward, "--reward_kwargs.price", "0.02")
    assert status == 0, err
    settings = yaml.safe_load(Path("run/run.yaml").read_text())
    assert settings["reward"] == f"success + 0.5*{Path(source).absolute()}:letters"
    assert settings["reward_kwargs"] == {"price": 0.02} and "reward" not in settings["trainer"]
    training = json.loads(Path("run/rounds/01/metrics.json").read_text())["training"]
    row, played = training["history"][0], list(store.read("run/rounds/01/trajectories.jsonl"))
    letters = [-0.01 * sum(ord(letter) for step in t.steps for letter in step.reply) for t in played]
    assert row[f"rewards/{source}:letters/letters/mean"] == pytest.approx(sum(letters) / len(letters))
    assert row["return"] == pytest.approx(sum(value for name, value in row.items() if name.startswith("rewards/")))
    assert all(t.reward in (0.0, 1.0) and not any("letters" in step.reward_parts for step in t.steps) for t in played)
    page = Path("run/report.html").read_text(encoding="utf-8")
    assert "Parts of the reward" in page and f"{source}:letters/letters" in page
    digest = json.loads(Path("run/rounds/01/metrics.json").read_text())["policy_digest"]
    for name in ("rounds/01", "test.json"):
        path = Path("run") / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    status, _, err = agentgym("evolve", "--resume", "run")
    assert status == 2 and f"add --trust {Path(source).absolute()}" in err
    status, _, err = agentgym("evolve", "--resume", "run", "--trust", str(Path(source).absolute()))
    assert status == 0 and json.loads(Path("run/rounds/01/metrics.json").read_text())["policy_digest"] == digest, err
    Path(source).write_text(REWARD + "# another one\n")
    status, _, err = agentgym("evolve", "--resume", "run", "--trust", str(Path(source).absolute()))
    assert status == 2 and f"began with another {Path(source).absolute()}" in err


def test_stored_trajectories_are_selected_and_weighted_by_a_reward(
    agentgym: Run, small_model: str, source: str
) -> None:
    """`train --reward`: the threshold, the weights and the parts in train.json are of the reward; an error is said."""
    assert agentgym("collect", "--env", "GUESS", "--agent", "random", "--tasks", "6", "--out", "data.jsonl")[0] == 0
    argv = ("train", "--data", "data.jsonl", "--model", small_model, "--trainer", "weighted_bc", "--threads", "1")
    name = f"{source}:letters"
    status, out, err = agentgym(*argv, "--reward", name, "--select.threshold", "0", "--out", "none")
    assert status == 2 and "below reward 0; the best return is -" in err, (out, err)
    status, _, err = agentgym(*argv, "--reward", name, "--out", "trained")
    assert status == 0, err
    record = json.loads(Path("trained/train.json").read_text())
    assert record["settings"]["reward"] == f"{Path(source).absolute()}:letters"
    metrics = record["training"]["metrics"]
    assert metrics[f"rewards/{name}/letters/mean"] < 0 and metrics["weights/min"] < metrics["weights/max"]
    status, _, err = agentgym(*argv, "--reward", "length_penalty", "--out", "failed")
    assert (
        status == 2
        and "the reward length_penalty failed for 6 of 6 episodes" in err
        and "6 ended by an infrastructure error" in err
    )


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--reward", "agnt"), "No reward function 'agnt' is installed. Did you mean 'agent'"),
        (("--reward", "agent-2*step"), "--reward 'agent-2*step': 'agent-2*step' is not NAME or WEIGHT*NAME"),
        (("--reward", "agent", "--reward_kwargs.tool", "1"), "takes no setting 'tool'. Did you mean 'tools'"),
        (("--reward", "reward_model"), "needs the folder of a reward model"),
        (("--trainer", "r3", "--trainer.alpha", "0", "--reward", "agent"), "needs a trainer that learns from returns"),
        (("--trainer", "grpo", "--trainer.reward", "success"), "no such option"),
    ],
)
def test_a_wrong_reward_is_refused(agentgym: Run, argv: tuple[str, ...], message: str) -> None:
    """In one line, before anything is loaded."""
    status, _, err = agentgym("evolve", *SMALL, *argv)
    assert status == 2 and message in err and err.count("\n") == 1


# ---- a relative judge ------------------------------------------------------------------------------------------------


def test_a_run_learns_from_a_judge_that_was_gone(
    agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A judge that does not answer ends the run in one line; with `--resume` the run goes to its end by its scores."""
    pytest.importorskip("httpx2")
    pytest.importorskip("uvicorn")
    from agentgym_py import http_client
    from agentgym_py.policy import Policy
    from agentgym_py.testing.model_server import ModelServer, serving

    def reply(body: dict[str, Any]) -> str:
        tries = len(re.findall(r"^# Try \d+$", body["messages"][0]["content"], re.MULTILINE))
        rows = [{"try": n + 1, "reason": "So.", "score": n / tries} for n in range(tries)]
        return json.dumps({"scores": rows})

    monkeypatch.delenv(http_client.KEY, raising=False)
    with serving(ModelServer(Policy.load(small_model), chat_reply=reply)) as server:
        settings = {"model": "m", "base_url": server.url, "retries": "0", "answers": "answers.jsonl"}
        words = [word for name, value in settings.items() for word in (f"--reward_kwargs.{name}", value)]
        server.breaks_after = 0
        argv = ("evolve", *SMALL, "--trainer", "grpo", "--model", small_model, "--out", "run", *KEEP)
        status, _, err = agentgym(*argv, "--reward", "judge", *words)
        assert status == 2 and "the judge at" in err and "gave no answer: 500" in err, err
        server.breaks_after = None
        status, _, err = agentgym("evolve", "--resume", "run")
        assert status == 2 and "answers: a path that comes from a file" in err, err
        status, _, err = agentgym("evolve", "--resume", "run", "--trust", "answers.jsonl")
        assert status == 0, err
    row = json.loads(Path("run/rounds/01/metrics.json").read_text())["training"]["history"][0]
    assert 0 < row["rewards/judge/mean"] < 1 and len(Path("answers.jsonl").read_text().splitlines()) == 4
    played = list(store.read("run/rounds/01/trajectories.jsonl"))
    assert all(t.reward in (0.0, 1.0) for t in played), "stored episodes keep the world's reward"
