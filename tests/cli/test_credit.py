"""`agentgym credit`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agentgym_py import registry

ROOT = Path(__file__).parents[2]
Run = Callable[..., tuple[int, str, str]]
SMALL = (
    "credit", "--env", "maze", "--env_kwargs.difficulty", "easy", "--env_kwargs.max_steps", "4", "--tasks", "5",
    "--group_size", "2", "--episodes", "1", "--steps", "2", "--continuations", "4", "--redraws", "4",
)  # fmt: skip


def test_estimators_are_ranked(agentgym: Run, tmp_path: Path) -> None:
    """All that are installed, by default; the JSON has the table's numbers, and the page its figures."""
    status, out, err = agentgym(*SMALL, "--agent", "random")
    assert status == 0, err
    assert "\nestimator " in out and all(f"\n{name} " in out for name in registry.names("agentgym.credit"))
    assert "true advantages by enumeration" in out and "groups of 2." in out
    page = tmp_path / "credit.html"
    status, out, err = agentgym(
        *SMALL, "--agent", "random", "--json", "--estimators", "tree,rloo", "--report", str(page)
    )
    found = json.loads(out)
    assert f"written: {page}" in err and "Rank correlation" in page.read_text(encoding="utf-8")
    assert status == 0 and {score["name"] for score in found["scores"]} == {"tree", "rloo"}
    assert found["truth"] == "exact" and found["tasks"] == 5 and found["config"]["group_size"] == 2


@pytest.mark.usefixtures("own_sources")
def test_own_estimators_and_agents_are_sources(agentgym: Run) -> None:
    """The examples: an estimator of 30 lines, and an agent with known probabilities."""
    mine, noisy = ROOT / "examples" / "my_credit.py", ROOT / "examples" / "noisy_expert.py"
    assert len(mine.read_text().splitlines()) <= 30
    options = ("--agent", str(noisy), "--agent_kwargs.noise", "0.3", "--estimators", f"tree,{mine}:hindsight")
    status, out, err = agentgym(*SMALL, *options)
    assert status == 0, err
    assert "\nhindsight " in out and "by noisy expert; true advantages by enumeration" in out
    assert agentgym(*SMALL, *options, "--truth", "forks")[0] == 0


def test_a_judge_is_measured_beside_the_estimators(agentgym: Run) -> None:
    """By the name of a feedback source, with its settings."""
    status, out, err = agentgym(*SMALL, "--agent", "random", "--estimators", "tree", "--judge", "environment")
    assert status == 0, err
    assert "\njudge " in out and "\ntree " in out
    assert "--judge.weights" in agentgym("credit", "--judge", "environment", "--help-all")[1]
    status, _, err = agentgym(*SMALL, "--agent", "random", "--judge", "nobody")
    assert status == 2 and "nobody" in err


def test_a_models_gradients_are_compared(agentgym: Run, small_model: str) -> None:
    options = ("--env", "GUESS", "--env_kwargs.max_steps", "2", "--tasks", "3", "--max_new_tokens", "6")
    small = SMALL[7:]
    status, out, err = agentgym(
        "credit", *options, *small[2:], "--model", small_model, "--estimators", "rloo,tree", "--threads", "1"
    )
    assert status == 0, err
    assert "cosine: of the gradients" in out and "true advantages by 4 continuations of each state" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "choose an agent"),
        (("--agent", "random", "--estimators", "grop"), "Did you mean 'grpo'?"),
        (("--agent", "random", "--estimators", "rloo,rloo"), "estimators has rloo twice"),
        (("--agent", "random", "--continuations", "7"), "--continuations must be even"),
        (("--agent", "expert", "--truth", "exact"), "truth cannot be exact for expert"),
        (("--model", "tiny", "--temperature", "0"), "--temperature must be above 0"),
    ],
)
def test_mistakes_are_one_line(agentgym: Run, options: tuple[str, ...], message: str) -> None:
    status, _, err = agentgym(*SMALL, *options)
    assert status == 2 and message in err and err.strip().count("\n") <= 1, err
