"""`--track` on `agentgym evolve` and `train`, with a model of a few thousand weights."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agentgym_py.evolution.run_folder import RunFolder

pytest.importorskip("accelerate")
accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
Run = Callable[..., tuple[int, str, str]]
Scalars = dict[str, list[tuple[int, float]]]
SMALL = (
    "evolve", "--env", "GUESS", "--preset", "smoke", "--max_new_tokens", "8", "--expert_tasks", "8", "--rounds", "2",
    "--explore_tasks", "4", "--valid_tasks", "3", "--test_tasks", "3", "--env_kwargs.max_steps", "3", "--threads", "1",
)  # fmt: skip


def scalars(folder: str) -> Scalars:
    """By name the steps and values that tensorboard reads there."""
    read = accumulator.EventAccumulator(f"{folder}/tracking", size_guidance={"scalars": 0})
    read.Reload()
    return {tag: [(each.step, each.value) for each in read.Scalars(tag)] for tag in read.Tags()["scalars"]}


def close(found: float | None, expected: float | None) -> bool:
    """Equal in the 32 bits that tensorboard keeps."""
    return found == pytest.approx(expected, rel=1e-6)


def test_a_run_is_tracked_and_goes_on_where_it_was(agentgym: Run, small_model: str) -> None:
    """Each step of each training, each round and the test, as the run's files say it; nothing twice after a kill."""
    status, _, err = agentgym(*SMALL, "--model", small_model, "--track", "tensorboard", "--out", "run")
    assert status == 0, err
    folder, found = RunFolder.open(Path("run")), scalars("run")
    history = [row for number in range(3) for row in (folder.metrics(number)["training"] or {"history": []})["history"]]
    assert [step for step, _ in found["train/loss"]] == list(range(1, len(history) + 1)) and len(history) > 3
    for name in ("loss", "grad_norm", "learning_rate"):
        assert all(close(value, row[name]) for (_, value), row in zip(found[f"train/{name}"], history, strict=True))
    for name in ("value", "low", "high"):
        tag = f"valid/success{'' if name == 'value' else f'_{name}'}"
        rates = [folder.metrics(number)["valid"]["success"][name] for number in range(3)]
        assert all(close(value, rate) for (_, value), rate in zip(found[tag], rates, strict=True))
    assert close(found["test/last/success"][0][1], folder.read_json("test.json")["rounds"]["2"]["success"]["value"])
    for name in ("training.json", "metrics.json", "checkpoint"):  # as a kill at the end of the last training leaves it
        path = folder.round(2) / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (folder.path / "test.json").unlink()
    assert agentgym("evolve", "--resume", "run")[0] == 0
    assert scalars("run") == found


def test_the_cloning_of_agent_v0_has_names_of_its_own(agentgym: Run, small_model: str) -> None:
    """Its loss is another one than the trainer's, and steps count on."""
    words = ("--trainer", "grpo", "--trainer.group_size", "2", "--trainer.tasks_per_iteration", "2", "--rounds", "1")
    assert agentgym(*SMALL, *words, "--model", small_model, "--track", "tensorboard", "--out", "run")[0] == 0
    found, training = scalars("run"), RunFolder.open(Path("run")).metrics(0)["training"]
    assert "clone/mean_token_accuracy" in found and "train/mean_token_accuracy" not in found
    assert [step for step, _ in found["clone/loss"]] == list(range(1, len(training["history"]) + 1))
    assert found["train/success"][0][0] == len(training["history"]) + 1


def test_tracking_changes_no_result(agentgym: Run, small_model: str) -> None:
    """The same weights; only what is logged of a training is finer."""
    words = (*SMALL, "--model", small_model)
    assert (
        agentgym(*words, "--track", "tensorboard", "--out", "with")[0] == agentgym(*words, "--out", "without")[0] == 0
    )
    both = [RunFolder.open(Path(name)) for name in ("with", "without")]
    assert len({run.metrics(2)["policy_digest"] for run in both}) == 1 and not Path("without/tracking").exists()


def test_a_training_is_tracked(agentgym: Run, small_model: str) -> None:
    """Every step of it."""
    assert agentgym("collect", "--env", "GUESS", "--agent", "expert", "--tasks", "40", "--out", "a.jsonl")[0] == 0
    words = ("train", "--data", "a.jsonl", "--model", small_model, "--trainer.batch_size", "1", "--trainer.epochs", "1")
    status, _, err = agentgym(*words, "--track", "tensorboard", "--out", "t")
    assert status == 0, err
    losses = json.loads(Path("t/train.json").read_text())["training"]["loss"]
    assert [step for step, _ in scalars("t")["train/loss"]] == list(range(1, 41)) and len(losses) == 40


def test_an_unknown_service_is_refused(agentgym: Run, small_model: str) -> None:
    """Before anything is written; those that there are, are said."""
    status, _, err = agentgym(*SMALL, "--model", small_model, "--track", "tensorbord", "--out", "run")
    assert status == 2 and "wandb" in err and not Path("run").exists()
