"""Held-out data of an offline training."""

from __future__ import annotations

from collections import Counter
from dataclasses import field, fields, make_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.agents import RandomAgent
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.errors import ConfigError
from agentgym_py.policy.logprobs import agent_logprobs
from agentgym_py.policy.tokens import Sample, encode
from agentgym_py.training import tracking
from agentgym_py.training.checkpoints import fingerprint
from agentgym_py.training.data import Pair, TrainingData
from agentgym_py.training.fit import Fit
from agentgym_py.training.settings import OfflineSettings
from agentgym_py.training.validation import hold_out
from agentgym_py.trajectory.types import OMIT_DEFAULT

ROWS = [Sample([1 + k % 4, 2, 3, 4 - k % 2], [0, 0, 1, 1]) for k in range(8)]
"""Two rows for each of four prompts."""


class Cut(KeyboardInterrupt):
    """A training is interrupted."""


def settings_with(**values: Any) -> OfflineSettings:
    """Return settings that hold out one prompt of four and save every step."""
    usual = {"val_size": 0.25, "batch_size": 2, "epochs": 4, "learning_rate": 0.05, "checkpoint_minutes": 0.0}
    return OfflineSettings(**{**usual, **values})


def train(
    policy: Any, settings: OfflineSettings, output: Path | None = None, cut: int = 0, spoil: bool = False
) -> Fit[Sample]:
    """Clone `ROWS`; `cut` is the step after which the training is interrupted, `spoil` makes later weights worse."""

    def progress(step: int, steps: int) -> None:
        if step == cut:
            raise Cut
        if spoil and step > 3:
            for parameter in policy.model.parameters():
                parameter.data.add_(0.5)

    with Fit("test", policy, settings, ROWS, seed=0, output_dir=output, progress=progress) as fit:
        for batch in fit.steps():
            tokens = sum(sum(sample.mask) for sample in batch)
            for part in fit.microbatches(batch):
                fit.backward(-agent_logprobs(fit.agent_logits(part)).sum() / tokens)
            fit.step()
    return fit


def losses(fit: Fit[Sample]) -> list[float]:
    """Return the measurements in order."""
    return [row["eval_loss"] for row in fit.history if "eval_loss" in row]


def test_rows_of_a_prompt_stay_on_one_side() -> None:
    """Of samples, pairs and lists of samples; without a share none is held out."""
    for rows in (ROWS, [Pair(row, row) for row in ROWS], [[row] for row in ROWS]):
        training, held_out = hold_out(rows, settings_with(), 0)
        assert (
            len(held_out) == 2 and held_out[1] - held_out[0] == 4 and sorted([*training, *held_out]) == list(range(8))
        )
    assert hold_out(ROWS, settings_with(val_size=0.0), 0) == (list(range(8)), [])
    with pytest.raises(ConfigError, match=r"val_size 0\.25 needs at least two prompts, and the data has 1"):
        hold_out(ROWS[:1], settings_with(), 0)


def test_an_untrained_first_reply_is_no_part_of_the_prompt(tiny_policy: Any) -> None:
    """Attempts at a task stay on one side, too, if their first replies were invalid and are not trained on."""
    played = Collector(RandomAgent()).collect_batch(jobs_for("maze", "train", range(4), attempts=6))
    masked = [replace(each, steps=(replace(each.steps[0], trained=False), *each.steps[1:])) for each in played]
    rows = [encode(each, tiny_policy.chat) for each in masked]
    assert len({tuple(row.input_ids[: row.mask.index(1)]) for row in rows if 1 in row.mask}) > 4
    training, held_out = hold_out(rows, settings_with(), 0)
    assert not {played[i].task_id for i in training} & {played[i].task_id for i in held_out}


def test_the_loss_is_that_of_the_held_out_rows(toy_envs: Any) -> None:
    """Once per epoch, without dropout, and no step of it: training without the measurements ends bit-identical."""
    policy, other = toy_envs.word_policy(), toy_envs.word_policy()
    fit = train(policy, settings_with())
    assert len(losses(fit)) == 4 and len(fit.history) == 12
    with torch.no_grad():
        held_out = [ROWS[i] for i in fit._held_out]
        assert losses(fit)[-1] == pytest.approx(-float(agent_logprobs(fit.agent_logits(held_out)).mean()), rel=1e-5)
    seldom = train(other, settings_with(eval_steps=12))
    assert len(losses(seldom)) == 1 and other.digest() == policy.digest() and torch.is_grad_enabled()


def test_a_tracker_gets_each_measurement_with_its_step(toy_envs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one row, because a tracker takes a step once."""
    rows = list[tuple[int | None, dict[str, float]]]()
    monkeypatch.setattr(tracking, "is_tracking", lambda: True)
    monkeypatch.setattr(tracking, "log", lambda row, step: rows.append((step, dict(row))))
    fit = train(toy_envs.word_policy(), settings_with(eval_steps=5))
    assert [row for _, row in rows] == fit.history and ["eval_loss" in row for _, row in rows].count(True) == 3


def test_it_stops_early_with_the_best_weights(toy_envs: Any) -> None:
    """After as many measurements without a lower loss as the patience."""
    policy = toy_envs.word_policy()
    fit = train(policy, settings_with(early_stopping_patience=2, epochs=9), spoil=True)
    measured = losses(fit)
    best = measured.index(min(measured))
    assert len(measured) == best + 3 < 9
    with torch.no_grad():
        held_out = [ROWS[i] for i in fit._held_out]
        assert measured[best] == pytest.approx(-float(agent_logprobs(fit.agent_logits(held_out)).mean()), rel=1e-5)


@pytest.mark.parametrize("lora_rank", [0, 2])
def test_a_resumed_training_measures_and_stops_as_an_uninterrupted_one(
    toy_envs: Any, tmp_path: Path, lora_rank: int
) -> None:
    """Interrupted before, at and after a measurement it ends bit-identical, with the same history."""
    settings = settings_with(early_stopping_patience=2, lora_rank=lora_rank, eval_steps=3)
    whole = toy_envs.word_policy()
    history = train(whole, settings, tmp_path / "whole").history
    for cut in (2, 4, 7):
        with pytest.raises(Cut):
            train(toy_envs.word_policy(), settings, tmp_path / "cut", cut=cut)
    policy = toy_envs.word_policy()
    assert train(policy, settings, tmp_path / "cut").history == history and policy.digest() == whole.digest()


@pytest.mark.parametrize(
    ("values", "expected_text"),
    [
        ({"val_size": 1.0}, "val_size must be below 1"),
        ({"val_size": 0.0, "early_stopping_patience": 1}, "early_stopping_patience needs val_size above 0"),
        ({"val_size": 0.0, "eval_steps": 5}, "eval_steps needs val_size above 0"),
        ({"eval_steps": 0}, "eval_steps must be a number of at least 1"),
    ],
)
def test_wrong_settings_are_refused(values: dict[str, Any], expected_text: str) -> None:
    """In one line, before anything is loaded."""
    with pytest.raises(ConfigError, match=expected_text):
        settings_with(**values)


def test_tokens_are_those_of_the_training(toy_envs: Any) -> None:
    """Without the held-out rows, and without the epochs after an early stop."""
    samples = TrainingData([], ROWS, Counter())
    whole, early = settings_with(), settings_with(early_stopping_patience=1)
    assert train(toy_envs.word_policy(), whole).report(samples).tokens == 4 * 6 * 4
    fit = train(toy_envs.word_policy(), early, spoil=True)
    assert len(losses(fit)) < 4 and fit.report(samples).tokens == len(losses(fit)) * 6 * 4


def test_a_new_setting_at_its_default_keeps_the_fingerprint() -> None:
    """States of a training resume after the package got a setting; a changed one is of another training."""
    earlier = make_dataclass("Settings", [("epochs", int, 3)])
    now = make_dataclass(
        "Settings", [("epochs", int, 3), ("val_size", float, field(default=0.0, metadata=OMIT_DEFAULT))]
    )
    assert fingerprint(now()) == fingerprint(earlier()) != fingerprint(now(val_size=0.1))
    omitted = {each.name for each in fields(OfflineSettings) if each.metadata == OMIT_DEFAULT}
    assert omitted >= {"val_size", "eval_steps", "early_stopping_patience", "lora_alpha", "lora_dropout"}
