"""`--critic`, `--reflection` and `--explore_temperatures` of `evolve`: what is stored, said, drawn and refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from agentgym_py.cli import build_parser
from agentgym_py.cli.argv import normalize_argv
from agentgym_py.trajectory import store

pytest.importorskip("torch")
Run = Callable[..., tuple[int, str, str]]
SMALL = (
    "--env", "maze", "--preset", "smoke", "--max_new_tokens", "4", "--expert_tasks", "0", "--explore_tasks", "3",
    "--valid_tasks", "1", "--test_tasks", "0", "--env_kwargs.max_steps", "4", "--threads", "1", "--attempts", "2",
)  # fmt: skip
REFLECTION = '''
from dataclasses import dataclass

@dataclass(frozen=True)
class Turn:
    """Says to turn."""

    where: str = "left"
    """Direction."""

    def reflect(self, failures, write):
        return [f"turn {self.where}." for _ in failures]
'''


def test_a_run_judges_itself_and_resumes(
    agentgym: Run, small_model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is declared in run.yaml, said before the run and after each round, and drawn."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "turn_for_tests.py").write_text(REFLECTION)
    words = (
        "--critic", "self_consistency", "--reflection", "turn_for_tests.py", "--reflection.where", "right",
        "--explore_temperatures", "0.5,1.0", "--rounds", "2",
    )  # fmt: skip
    status, out, err = agentgym("evolve", *SMALL, "--model", small_model, "--out", "run", *words)
    assert status == 0, err
    assert "The attempts at a task have the temperatures 0.5, 1 in turn." in out
    assert "The critic self_consistency selects the explored episodes; the world's reward is only measured." in out
    assert "Failed episodes are tried once more, with a reflection by turn_for_tests.py in the prompt." in out
    assert "critic: mean score 0.00; the world counts 0.0 %" in out
    assert "6 failures tried again, 6 with a reflection: 0.0 %" in out
    source = str(Path("turn_for_tests.py").absolute())
    settings = yaml.safe_load(Path("run/run.yaml").read_text())
    assert settings["critic"] == {"name": "self_consistency", "answer": None}
    assert settings["reflection"] == {"name": source, "where": "right"}
    assert settings["explore_temperatures"] == [0.5, 1.0]
    retries = list(store.read("run/rounds/02/retries.jsonl"))
    assert len(retries) == 6 and all(t.rules.endswith("A reflection on that try: turn right.") for t in retries)
    metrics = json.loads(Path("run/rounds/02/metrics.json").read_text())
    assert metrics["critic"]["scores"] == 6 and metrics["reflection"]["retries"] == 6
    page = Path("run/report.html").read_text(encoding="utf-8")
    for text in ("The critic and the world", "Failures that turn after a reflection", "self_consistency"):
        assert text in page
    digest = metrics["policy_digest"]
    for name in ("test.json", "rounds/02/metrics.json", "rounds/02/training.json", "rounds/02/critic-retries.jsonl"):
        Path("run", name).unlink()
    status, _, err = agentgym("evolve", "--resume", "run")
    assert status == 2 and f"--trust {source}" in err
    status, _, err = agentgym("evolve", "--resume", "run", "--trust", source)
    assert status == 0, err
    assert json.loads(Path("run/rounds/02/metrics.json").read_text())["policy_digest"] == digest
    status, out, _ = agentgym("replay", "run/rounds/02/retries.jsonl")
    assert status == 0 and "6" in out, out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--critic selfconsistency", "No feedback source 'selfconsistency' is installed. Did you mean 'self_consis"),
        ("--critic .", "the feedback source '.' is a folder: name the source, such as reward_model"),
        ("--critic runs/rm", "the feedback source 'runs/rm' is a path: name the source, such as reward_model"),
        ("--critic reward_model", "--critic.folder must name the folder of a reward model"),
        ("--critic reward_model --critic.folder none", "none is not a reward model"),
        ("--critic.answer a.py:b", "--critic.answer needs --critic NAME"),
        ("--critic self_consistency --reward success", "--reward cannot be combined with --critic NAME"),
        ("--critic self_consistency --select.threshold 2", "--select.threshold must be at most 1 with a critic, got 2"),
        ("--critic self_consistency", "the critic compares the attempts at a task: set --attempts 2 or more"),
        ("--critic self_consistency --trainer grpo", "--critic needs an offline trainer"),
        ("--reflection agnet", "No reflection 'agnet' is installed. Did you mean 'agent'"),
        ("--reflection agent --reflection.tokens 0", "--reflection.tokens must be at least 1, got 0"),
        ("--reflection agent --trainer grpo", "--reflection needs an offline trainer"),
        ("--explore_temperatures 0.5,1", "--explore_temperatures has 2 for 1 attempt at a task; raise --attempts"),
        (
            "--explore_temperatures 0.5,-1 --attempts 2",
            "--explore_temperatures: temperature must be 0 (greedy) or more",
        ),
        ("--explore_temperatures hot", "--explore_temperatures: 'hot' is not what it takes"),
    ],
)
def test_wrong_settings_are_refused(agentgym: Run, words: str, message: str) -> None:
    """In one line, before anything is loaded."""
    status, _, err = agentgym("evolve", "--env", "maze", *words.split())
    assert status == 2 and message in err and err.count("\n") == 1, err


def test_scores_have_another_threshold_than_rewards() -> None:
    """0.5 with a critic, of successes and failures alike; a trainer that compares attempts keeps its own."""
    for words, threshold, success_only, mask_invalid in (
        (["--critic", "self_consistency"], 0.5, False, True),
        ([], 1.0, True, True),
        (["--critic", "self_consistency", "--trainer", "dpo"], float("-inf"), False, False),
    ):
        name, *argv = normalize_argv(["evolve", "--env", "maze", *words])
        values = build_parser(name, argv).parse(argv)
        assert (values["select.threshold"], values["select.success_only"]) == (threshold, success_only)
        assert values["select.mask_invalid"] == mask_invalid


def test_a_pipeline_checks_them(agentgym: Run) -> None:
    """By name or with settings."""
    stage = {
        "stage": "rl",
        "env": "maze",
        "attempts": 2,
        "critic": "self_consistency",
        "reflection": {"name": "agent", "tokens": 0},
    }
    Path("file.yaml").write_text(yaml.safe_dump({"out": "p", "stages": [stage]}))
    status, _, err = agentgym("pipeline", "file.yaml", "--list")
    assert status == 2 and "reflection.tokens must be at least 1" in err
    stage["reflection"] = "agent"
    Path("file.yaml").write_text(yaml.safe_dump({"out": "p", "stages": [{"stage": "sft", "env": "maze"}, stage]}))
    status, out, err = agentgym("pipeline", "file.yaml", "--list")
    assert status == 0 and "self_consistency" in out, (out, err)
