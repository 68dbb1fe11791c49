from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentgym_py.cli import main
from agentgym_py.cli.attack import verdict_lines
from agentgym_py.rewards.adversary import Attack, Generation
from agentgym_py.trajectory import store

FLAWED = "def score(trajectory):\n    return float(len(trajectory.steps))\n"
MAZE = ["--env", "maze", "--env_kwargs.difficulty", "easy", "--tasks", "3", "--generations", "3"]


def test_an_attack_prints_its_generations_and_keeps_the_episodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table, the failures that score highest, and a file whose rewards are the world's; as JSON the same."""
    monkeypatch.chdir(tmp_path)
    Path("flawed.py").write_text(FLAWED)
    options = ["attack", *MAZE, "--reward", "flawed.py:score"]
    assert main([*options, "--out", "kept.jsonl"]) == 0
    text = capsys.readouterr().out
    assert "flawed.py:score attacked by random, 3 tasks, train split" in text and "generation  episodes" in text
    kept = list(store.read("kept.jsonl"))
    assert len(kept) == 3 and all(t.reward in (0.0, 1.0) for t in kept) and "kept episodes: kept.jsonl" in text
    assert main([*options, "--json"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [row["episodes"] for row in result["generations"]] == [3, 6, 9, 12]
    assert result["generations"][-1]["proxy"] == pytest.approx(sum(len(t.steps) for t in kept) / 3)
    assert {row["id"] for row in result["overrated"]} == {t.id for t in kept if not t.success}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--reward NAME or --reward_model DIR is needed"), (["--reward", "return"], "nothing overrates it"),
        (["--reward", "agnet"], "agent"), (["--reward_model", "nowhere"], "is not a reward model"),
        (["--reward", "agent", "--generations", "0"], "generations"),
    ],
)  # fmt: skip
def test_a_wrong_attack_is_refused_in_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is played."""
    assert main(["attack", *MAZE, *words]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_the_verdict_says_where_the_return_falls() -> None:
    """Or that it does not."""
    rows = [Generation(n, proxy, truth, 0.0) for n, (proxy, truth) in enumerate([(0.1, 0.2), (0.3, 0.5), (0.6, 0.4)])]
    assert "falls after generation 1, from 0.500 to 0.400" in next(verdict_lines(Attack(rows, [], [])))
    assert "is not hacked" in next(verdict_lines(Attack(rows[:2], [], [])))
