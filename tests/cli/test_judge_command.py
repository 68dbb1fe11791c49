"""`agentgym judge` and `agentgym train --feedback`: from episodes to feedback to a trained policy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agentgym_py.api.arguments import trajectories_of
from agentgym_py.feedback import verdicts
from agentgym_py.feedback.store import read_feedback
from agentgym_py.feedback.verdicts import Ref
from agentgym_py.trajectory import store

pytest.importorskip("torch")
Run = Callable[..., tuple[int, str, str]]
TRAIN = ("train", "--data", "tries.jsonl", "--threads", "1", "--trainer.epochs", "1")


@pytest.fixture
def tries(agentgym: Run) -> None:
    """Two attempts at six tasks."""
    words = ("--env", "GUESS", "--agent", "random", "--tasks", "6", "--attempts", "2", "--env_kwargs.max_steps", "3")
    assert agentgym("collect", *words, "--out", "tries.jsonl")[0] == 0


def test_a_judgement_is_printed_stored_and_resumed(agentgym: Run, tries: None) -> None:
    """Its agreement with the world, also as JSON; a finished one is read; other settings are refused in one line."""
    status, out, err = agentgym("judge", "--source", "environment", "--data", "tries.jsonl", "--out", "f/e.jsonl")
    assert status == 0, err
    assert "f/e.jsonl: 12 scores, 0 comparisons, 0 corrections on 12 episodes" in out
    assert "Agreement with the world:" in out and "Kendall tau-b of score and return" in out
    assert len(read_feedback("f/e.jsonl")) == 12
    before = Path("f/e.jsonl").read_bytes()
    status, out, _ = agentgym(
        "judge", "--source", "environment", "--data", "tries.jsonl", "--out", "f/e.jsonl", "--json"
    )
    found = json.loads(out)
    assert status == 0 and found["scores"] == 12 and found["source"] == "environment" and found["brier"] < 0.5
    assert Path("f/e.jsonl").read_bytes() == before
    again = ("judge", "--data", "tries.jsonl", "--out", "f/e.jsonl", "--source")
    for words, message in (
        (["expert"], "was begun with the source environment"),
        (["environment", "--source.weights.reward", "2"], "was begun with weights"),
        (["llm"], "model must name"),
        (["human"], "folder must name"),
        (["combined"], "files must name at least two"),
        (["expret"], "did you mean"),
    ):
        status, _, err = agentgym(*again, *words)
        assert status == 2 and err.count("\n") == 1 and message.lower() in err.lower(), (words, err)
    assert "--source NAME is needed: one of combined, environment" in agentgym("judge", "--data", "tries.jsonl")[2]
    for words, message in (
        (["--out", "x.jsonl"], "--data FILE is needed"),
        (["--data", "tries.jsonl"], "--out FILE.jsonl is needed"),
        (["--data", "tries.jsonl", "--out", "f"], "is a folder"),
        (
            ["--data", "tries.jsonl", "--out", "tries.jsonl"],
            "--out tries.jsonl holds trajectories; choose another file",
        ),
        (["--data", "tries.jsonl", "--data", "tries.jsonl", "--out", "x.jsonl"], "twice"),
    ):
        status, _, err = agentgym("judge", "--source", "environment", *words)
        assert status == 2 and message in err, (words, err)


def test_a_killed_judgement_continues(agentgym: Run, tries: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its last block, with the same result as one that was not interrupted."""
    from agentgym_py.feedback import judging

    monkeypatch.setattr(judging.blocks_of, "__defaults__", (4,))
    words = ("judge", "--source", "expert", "--data", "tries.jsonl", "--out")
    assert agentgym(*words, "whole.jsonl")[0] == 0
    whole = Path("whole.jsonl").read_bytes()
    for size in (len(whole) // 3, len(whole) // 2, len(whole) - 5):
        Path("cut.jsonl").write_bytes(whole[:size])
        status, _, err = agentgym(*words, "cut.jsonl")
        assert status == 0 and Path("cut.jsonl").read_bytes() == whole, err


def test_the_folder_of_a_run_stands_for_the_episodes_of_its_rounds(
    agentgym: Run, tries: None, small_model: str
) -> None:
    """On the command line and in Python; evaluations are left out."""
    episodes = list(store.read("tries.jsonl"))
    for number, part in enumerate((episodes[:5], episodes[5:])):
        store.write(Path(f"run/rounds/0{number}/trajectories.jsonl"), part)
        store.write(Path(f"run/rounds/0{number}/valid.jsonl"), part[:1])
    assert agentgym("judge", "--source", "environment", "--data", "run", "--out", "run.jsonl")[0] == 0
    assert agentgym("judge", "--source", "environment", "--data", "tries.jsonl", "--out", "all.jsonl")[0] == 0
    judged = [sorted(Path(name).read_text().splitlines()[1:]) for name in ("run.jsonl", "all.jsonl")]
    assert judged[0] == judged[1] and len(judged[0]) == 13  # with the line that ends the block
    words = ("--data", "run", "--feedback", "run.jsonl", "--model", small_model, "--trainer", "weighted_bc")
    status, out, err = agentgym("train", *words, *TRAIN[3:], "--out", "w")
    assert status == 0 and "Feedback: 12 of 12 episodes have a score" in out, err
    assert len(json.loads(Path("w/train.json").read_text())["settings"]["data"]) == 2
    status, _, err = agentgym("judge", "--source", "environment", "--data", "run,run", "--out", "twice.jsonl")
    assert status == 2 and "trajectories.jsonl twice" in err
    assert trajectories_of("run") == episodes


def test_trainers_read_feedback(agentgym: Run, tries: None, small_model: str) -> None:
    """Scores weigh, corrections are imitated; what a trainer cannot use is an error of one line."""
    for source in ("environment", "expert"):
        assert agentgym("judge", "--source", source, "--data", "tries.jsonl", "--out", f"{source}.jsonl")[0] == 0
    train = (*TRAIN, "--model", small_model)
    status, out, err = agentgym(*train, "--trainer", "weighted_bc", "--feedback", "environment.jsonl", "--out", "w")
    assert status == 0 and "Feedback: 12 of 12 episodes have a score" in out, err
    settings = json.loads(Path("w/train.json").read_text())["settings"]
    assert settings["feedback"] == str(Path("environment.jsonl").absolute())
    corrections = [
        row for row in map(json.loads, Path("expert.jsonl").read_text().splitlines()) if row["kind"] == "correction"
    ]
    status, out, err = agentgym(*train, "--trainer", "filtered_bc", "--feedback", "expert.jsonl", "--out", "c")
    assert status == 0 and f"Feedback: {len(corrections)} of {len(corrections)} corrections are learnt" in out, err
    record = json.loads(Path("c/train.json").read_text())
    assert record["training"]["trajectories"] == record["selection"]["kept"] + len(corrections)
    for words, message in (
        (
            ["--trainer", "filtered_bc", "--feedback", "environment.jsonl"],
            "no corrections on these episodes; it has 12 scores",
        ),
        (["--trainer", "kto", "--feedback", "environment.jsonl", "--reward", "agent"], "cannot be combined"),
        (["--trainer", "kto", "--feedback", "none.jsonl"], "none.jsonl: no such file"),
        (["--trainer", "kto", "--feedback", "tries.jsonl"], "the file holds trajectories, and agentgym judge writes"),
    ):
        status, _, err = agentgym(*train, *words, "--out", "none")
        assert status == 2 and err.count("\n") == 1 and message in err and not Path("none").exists(), (words, err)


def test_what_people_prefer_is_what_dpo_pairs(agentgym: Run, tries: None, small_model: str) -> None:
    """From the viewer's file, through `--source human`, to DPO and a reward model."""
    episodes = list(store.read("tries.jsonl"))
    for first, second in zip(episodes[::2], episodes[1::2], strict=True):
        verdicts.prefer(Path(), Ref("tries.jsonl", first.id), Ref("tries.jsonl", second.id), 1)
    words = ("judge", "--source", "human", "--source.folder", ".", "--data", "tries.jsonl", "--out", "h.jsonl")
    status, out, err = agentgym(*words)
    assert status == 0 and "0 scores, 6 comparisons, 0 corrections" in out, err
    for trainer, metric in (("dpo", "pairs"), ("reward_model", "pairs")):
        status, out, err = agentgym(
            *TRAIN, "--model", small_model, "--trainer", trainer, "--feedback", "h.jsonl", "--out", trainer
        )
        assert status == 0 and "Feedback: " in out, err
        metrics = json.loads(Path(trainer, "train.json").read_text())["training"]["metrics"]
        different = {(a.id, b.id) for a, b in zip(episodes[::2], episodes[1::2], strict=True) if a.steps != b.steps}
        assert metrics[metric] == len(different)


def test_the_python_functions_do_the_same(agentgym: Run, tries: None, small_model: str) -> None:
    """`ag.judge` and `ag.train(feedback=...)`."""
    import agentgym_py as ag
    from agentgym_py.errors import ConfigError
    from agentgym_py.feedback.environment import EnvironmentOutcome

    found = ag.judge("environment", "tries.jsonl", "e.jsonl", weights={"completion": 1.0})
    assert len(found) == 12
    episodes = list(store.read("tries.jsonl"))
    assert ag.judge(EnvironmentOutcome({"completion": 1.0}), episodes, "own.jsonl") == found
    _, report = ag.train("weighted_bc", small_model, "tries.jsonl", feedback=found, epochs=1.0)
    _, same = ag.train("weighted_bc", small_model, "tries.jsonl", feedback="e.jsonl", epochs=1.0)
    assert report.trajectories == same.trajectories == 12 and report.loss == same.loss
    with pytest.raises(ConfigError, match="cannot be combined"):
        ag.train("weighted_bc", small_model, "tries.jsonl", feedback=found, reward="success")
    with pytest.raises(ConfigError, match="speed"):
        ag.judge("environment", "tries.jsonl", "x.jsonl", speed=1)
    with pytest.raises(ConfigError, match="must be a source's name"):
        ag.judge(object(), "tries.jsonl", "x.jsonl")  # type: ignore[arg-type]
