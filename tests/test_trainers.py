"""Every registered trainer on stored data keeps the contract of `Trainer`; a new plugin is tested unlisted.

Those that play themselves have a contract of their own: `test_on_policy_trainers.py`.
"""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py import registry
from agentgym_py.agents import ExpertAgent, RandomAgent
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError, NothingToTrainOnError
from agentgym_py.training import Trainer
from agentgym_py.training.trainer import info_of
from agentgym_py.trajectory import Trajectory

TRAINERS = [
    name
    for name in registry.names("agentgym.trainers")
    if not hasattr(registry.load("agentgym.trainers", name), "improve")
]


@pytest.fixture(scope="module")
def played() -> list[Trajectory]:
    """Good and bad episodes of each task, short ones; only read them."""
    jobs = jobs_for([EnvSpec("wordle", {"max_steps": 4})], "train", range(4))
    return Collector(ExpertAgent()).collect_batch(jobs) + Collector(RandomAgent()).collect_batch(jobs)


@pytest.fixture(params=TRAINERS)
def trainer(request: pytest.FixtureRequest) -> Any:
    """A trainer with its default settings."""
    return registry.load("agentgym.trainers", request.param)()


def test_it_is_a_dataclass_of_settings_with_train(trainer: Any) -> None:
    """Its fields are its settings, each with a default, and it satisfies the protocol."""
    assert is_dataclass(trainer) and isinstance(trainer, Trainer) and fields(trainer)
    assert replace(trainer) == trainer


def files(folder: Path) -> dict[str, bytes]:
    """What a folder holds, by name."""
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def test_it_changes_the_policy_reproducibly_and_says_what_it_did(
    trainer: Any, tiny_policy: Any, played: list[Trajectory], tmp_path: Path, fresh: Any
) -> None:
    """The same seed gives the same, changed weights; steps are told; counts add up; no empty folder stays.

    A trainer that makes something else leaves the weights, and writes the same files.
    """
    digests, written, told = [], [], list[tuple[int, int]]()
    for number in range(2):
        policy = fresh(tiny_policy)
        report = trainer.train(
            policy,
            played,
            seed=3,
            output_dir=tmp_path / f"output{number}",
            progress=lambda done, total: told.append((done, total)),
        )
        digests.append(policy.digest())
        written.append(files(tmp_path / f"output{number}"))
        assert report.trajectories + sum(report.dropped.values()) == len(played) and report.loss
        assert 0 < report.agent_tokens < report.tokens
    assert digests[0] == digests[1] and written[0] == written[1]
    assert (digests[0] != tiny_policy.digest()) == (info_of(trainer).output == "policy"), (
        "what it makes is what it says"
    )
    assert written[0] or info_of(trainer).output == "policy"
    assert told and told[-1][0] == told[-1][1]
    assert all(any(each.iterdir()) for each in tmp_path.rglob("*") if each.is_dir()), "an empty folder was left"


class Cut(KeyboardInterrupt):
    """A training is cut off."""


@pytest.mark.parametrize(
    ("trainer", "lora_rank"),
    [
        *((name, 0) for name in TRAINERS),
        *(pytest.param(name, 2, marks=[pytest.mark.slow] * (name != "dpo")) for name in TRAINERS),
    ],
    indirect=["trainer"],
)
def test_it_resumes_to_the_same_end(
    trainer: Any, tiny_policy: Any, played: list[Trajectory], tmp_path: Path, fresh: Any, lora_rank: int
) -> None:
    """Cut off in its first pass over the data and in its last, its end is bit-identical to one that was not.

    A trainer that keeps no states starts again, and ends the same; one that declares so is not tried.
    """
    if not info_of(trainer).resumes:
        pytest.skip("it declares that it starts again")
    wanted = {"epochs": 2, "batch_size": 2, "checkpoint_minutes": 0.0, "lora_rank": lora_rank}
    has = {each.name for each in fields(trainer)}
    trainer = replace(trainer, **{name: value for name, value in wanted.items() if name in has})
    keeps = info_of(trainer).output != "reward_model" and "checkpoint_minutes" in has

    def trained(output: Path, cut: float = 2.0) -> tuple[Any, ...]:
        policy, told = fresh(tiny_policy), list[int]()

        def tell(done: int, total: int) -> None:
            told.append(done)
            if done >= cut * total:
                raise Cut

        report = trainer.train(policy, played, seed=3, output_dir=output, progress=tell)
        return policy.digest(), files(output) if output.exists() else {}, report.loss, report.metrics, told

    whole, output = trained(tmp_path / "whole"), tmp_path / "cut"
    for cut in (0.4, 1.0):  # a state of the step before is kept
        with pytest.raises(Cut):
            trained(output, cut)
        assert not keeps or any(each.name.startswith("state-") for each in (output / "states").iterdir())
    resumed = trained(output)
    assert resumed[:4] == whole[:4] and (resumed[4][0] > 1 or not keeps), "it started again"


def test_it_measures_its_loss_on_held_out_data_or_refuses_to(
    trainer: Any, tiny_policy: Any, played: list[Trajectory], tmp_path: Path, fresh: Any
) -> None:
    """Each member of an ensemble, too; a trainer without such a loss says so when its settings are made."""
    wanted = {"val_size": 0.3, "early_stopping_patience": 1, "epochs": 2, "batch_size": 2, "members": 2}
    has = {each.name for each in fields(trainer)}
    if "val_size" not in has:
        pytest.skip("its training loop is trl's")
    try:
        trainer = replace(trainer, **{name: value for name, value in wanted.items() if name in has})
    except ConfigError as error:
        assert "val_size must be 0" in str(error)
        return
    whole = replace(trainer, val_size=0.0, early_stopping_patience=0)
    report, other = (
        which.train(fresh(tiny_policy), played, seed=3, output_dir=tmp_path / str(number))
        for number, which in enumerate((trainer, whole))
    )
    assert math.isfinite(report.metrics["eval_loss"]) and "eval_loss" not in other.metrics
    assert 0 < report.tokens < other.tokens


def test_nothing_to_train_on_is_an_error(trainer: Any, tiny_policy: Any, tmp_path: Path) -> None:
    """No trajectories at all never ends in a silent no-op."""
    with pytest.raises(NothingToTrainOnError):
        trainer.train(tiny_policy, [], seed=0, output_dir=tmp_path)


def test_microbatches_decide_memory_and_not_the_result(
    trainer: Any, toy_envs: Any, loss_checks: Any, tmp_path: Path
) -> None:
    """However many tokens go through the model at once, each step has the same loss, gradient and log."""
    if "microbatch_tokens" not in {each.name for each in fields(trainer)}:
        pytest.skip("a stranger's, which has no such setting")
    groups = toy_envs.rollouts(toy_envs.word_policy(), toy_envs.CHAIN, 16, tasks=4).groups(4, 4)
    chains = [each for group in groups for each in group]
    chains += Collector(ExpertAgent()).collect_batch(jobs_for([toy_envs.CHAIN], "train", range(4)))
    found = []
    for tokens in (1, 60, 100_000):
        policy = loss_checks.doubled(toy_envs.word_policy(layers=2, spread=0.2))
        how = replace(trainer, epochs=3, batch_size=3, gradient_accumulation=2, microbatch_tokens=tokens)
        report = how.train(policy, chains, seed=3, output_dir=tmp_path / str(tokens))
        report.history[0].pop("rewards/accuracies", None)  # margins are 0 before the first step, but for rounding
        found.append((report.history, [p.detach() for p in policy.model.parameters()]))
    (history, weights), *others = found
    assert len(history) > 2
    for rows, moved in others:
        assert [list(row) for row in rows] == [list(row) for row in history]
        for row, expected in zip(rows, history, strict=True):
            assert row == pytest.approx(expected, rel=1e-6, abs=1e-9)
        assert all(torch.allclose(a, b, atol=1e-7) for a, b in zip(weights, moved, strict=True))


def test_it_takes_less_memory_where_that_is_wanted(
    trainer: Any, toy_envs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In bfloat16 layers compute in it, and weights learn nearly the same; with layers computed again the very same.

    So does a second training. Nothing is left switched on. Of what judges, which is a copy, only losses are compared.
    """
    from transformers.models.llama.modeling_llama import LlamaMLP

    has = {each.name for each in fields(trainer)}
    settings = [name for name in ("bf16", "gradient_checkpointing") if name in has]
    if not settings:
        pytest.skip("a stranger's, which has no such setting")
    small = {"epochs": 1, "batch_size": 2, "learning_rate": 1e-3}
    groups = toy_envs.rollouts(toy_envs.word_policy(), toy_envs.CHAIN, 16, tasks=4).groups(4, 4)
    chains = [each for group in groups for each in group]
    chains += Collector(ExpertAgent()).collect_batch(jobs_for([toy_envs.CHAIN], "train", range(4)))
    found, seen, began, forward = dict[str, Any](), list[Any](), list[bool](), LlamaMLP.forward

    def watched(self: Any, x: Any) -> Any:
        began.append(torch.is_grad_enabled())
        out = forward(self, x)
        seen.append((out.dtype, torch.is_grad_enabled()))
        return out  # not reached where a layer is computed again, which ends with what the gradient needs

    monkeypatch.setattr(LlamaMLP, "forward", watched)
    for wanted in ("plain", *settings):
        policy = toy_envs.word_policy(layers=2, spread=0.2)
        how = replace(trainer, **small, **{setting: setting == wanted for setting in settings})
        hooks = dict(policy.model.get_input_embeddings()._forward_hooks)
        for again in ("", "again"):  # a second training of the same policy is no other one
            seen.clear()
            began.clear()
            report = how.train(policy, chains, seed=3, output_dir=tmp_path / f"{wanted}{again}")
        found[wanted] = report.loss, [p.detach().clone() for p in policy.model.parameters()], sum(began)
        assert policy.model.get_input_embeddings()._forward_hooks == hooks
        computed = {dtype for dtype, grad in seen if grad}
        assert computed == {torch.bfloat16 if wanted == "bf16" else torch.float32}
        assert {p.dtype for p in policy.model.parameters()} == {torch.float32}
        assert not any(getattr(each, "gradient_checkpointing", False) for each in policy.model.modules())
    loss, weights, grads = found["plain"]
    if "bf16" in found:
        near, others, _ = found["bf16"]
        assert near == pytest.approx(loss, rel=0.1, abs=0.02)
        if info_of(trainer).output == "policy":
            start = list(toy_envs.word_policy(layers=2, spread=0.2).model.parameters())
            moves = [torch.cat([(p - q).flatten() for p, q in zip(each, start, strict=True)])
                     for each in (weights, others)]  # fmt: skip
            assert moves[0].norm() > 0.1 and torch.cosine_similarity(moves[0], moves[1], dim=0) > 0.8
    if "gradient_checkpointing" in found:
        near, others, again = found["gradient_checkpointing"]
        assert again == 2 * grads and near == pytest.approx(loss, abs=1e-6)
        assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(weights, others, strict=True))
