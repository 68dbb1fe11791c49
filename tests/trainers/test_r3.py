from __future__ import annotations

import shutil
from collections import Counter
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from agentgym_py.collection import branching
from agentgym_py.errors import ConfigError, NothingToTrainOnError
from agentgym_py.policy import Policy
from agentgym_py.policy.adapters import has_adapters
from agentgym_py.policy.tokens import IGNORED
from agentgym_py.rewards.process_reward_model import ProcessRewardModel, encode_with_positions
from agentgym_py.rewards.state_values import CHANGED
from agentgym_py.training.rl.batch import Record, collate, encode_record
from agentgym_trainers.ppo import PPO, add_step_advantages, fill_advantages, settings_loss, token_rewards
from agentgym_trainers.r3 import R3, ProcessRewards, scatter_step_rewards

FEW: dict[str, Any] = {"tasks_per_iteration": 16, "prm_first_epochs": 2.0, "prm_epochs": 1.0, "learning_rate": 0.02}


# ---- what is paid, and where ----------------------------------------------------------------------------------------


def test_a_step_is_paid_where_its_thought_ends() -> None:
    """At its mark; at the agent's last token before it, where the mark's own is not learnt; else at the turn's last."""
    own = [-1, -1, 5, 6, 7, -1, 8, 9, -1, 3, 4]  # three turns, of 3, 2 and 2 tokens
    labels = torch.tensor([IGNORED if each < 0 else each for each in own])
    turns = torch.tensor([0, 0, 0, 1, 1, 2, 2])
    record = Record(labels.clamp(min=0), labels, turns, torch.zeros(7))
    found = scatter_step_rewards(record, [3, 7, 8], [0.5, -1.0, 2.0])
    assert found.tolist() == [0.0, 0.5, 0.0, 0.0, -1.0, 0.0, 2.0]
    labels[3] = IGNORED
    gap = Record(record.input_ids, labels, turns[1:], torch.zeros(6))
    assert scatter_step_rewards(gap, [3, 7, 8], [0.5, -1.0, 2.0]).tolist() == [0.5, 0.0, 0.0, -1.0, 0.0, 2.0]


def test_a_reward_is_the_sum_of_three(toy_envs: Any, loss_checks: Any) -> None:
    """R = alpha R_task + beta PRM - kl_coef KL, token by token, for an episode of several turns."""
    policy, trainer = toy_envs.word_policy(), R3(alpha=0.7, beta=0.3)
    ((episode,),) = toy_envs.rollouts(policy, toy_envs.CHAIN, 1, tokens=2).groups(1, 1)
    record = encode_record(episode, policy.chat)
    assert record is not None and len(episode.steps) > 1
    loss_checks.wide([record])
    ref = record.old_logps_n - torch.rand(record.n, generator=torch.Generator().manual_seed(0))
    paid = [0.1 * i - 0.2 for i in range(len(episode.steps))]
    record.ref_logps_n = ref
    record.process_rewards_n = scatter_step_rewards(record, encode_with_positions(episode, policy).positions, paid)
    expected, at = [], 0
    for step, of_step in zip(episode.steps, paid, strict=True):
        for k in range(len(step.tokens.ids)):
            last = k == len(step.tokens.ids) - 1  # no thought: paid at the reply's end
            reward = (0.7 * step.reward + 0.3 * of_step) * last
            expected.append(reward - 0.2 * float(record.old_logps_n[at] - ref[at]))
            at += 1
    assert trainer.rewards(episode, record, 0.2).tolist() == pytest.approx(expected, rel=0, abs=1e-9)


def test_a_process_reward_can_count_for_its_step_alone(toy_envs: Any) -> None:
    """With `prm_credit` step the advantage is PPO's plus beta times the step's own reward, at each of its tokens."""
    policy = toy_envs.word_policy()
    ((episode,),) = toy_envs.rollouts(policy, toy_envs.CHAIN, 1, tokens=2).groups(1, 1)
    record = encode_record(episode, policy.chat)
    assert record is not None and len(episode.steps) > 1
    record.values_n = torch.linspace(-0.5, 0.5, record.n)
    paid = [0.1 * i - 0.2 for i in range(len(episode.steps))]
    record.process_rewards_n = scatter_step_rewards(record, encode_with_positions(episode, policy).positions, paid)
    for level in ("turn", "token"):
        settings = R3(beta=0.3, prm_credit="step", credit_level=level)
        fill_advantages(settings, record, token_rewards(episode, record, 0.0))
        plain, returns = record.advantages_n, record.returns_n
        assert plain is not None and returns is not None
        fill_advantages(settings, record, settings.rewards(episode, record, 0.0))
        add_step_advantages(record, 0.3)
        expected = plain + 0.3 * torch.tensor([paid[turn] for turn in record.turns_n])
        assert torch.allclose(record.advantages_n, expected) and torch.equal(record.returns_n, returns)


def test_observations_get_no_gradient(
    toy_envs: Any, loss_checks: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither from the policy's loss nor from the critic's: only the states before agent tokens are read."""
    policy, trainer = (
        toy_envs.word_policy(),
        R3(**FEW | {"tasks_per_iteration": 8}, critic_warmup=0, prm_labels="outcome"),
    )
    rollouts = toy_envs.rollouts(policy, toy_envs.CHAIN, 8, tokens=2)
    learner, records = toy_envs.first_records(trainer, rollouts, tmp_path, monkeypatch)
    assert len(records) == 8 and any(record.process_rewards_n.any() for record in records)
    assert all((record.process_rewards_n != 0).sum() <= len(record.turns) for record in records)
    batch = collate(records, [torch.ones(r.n) for r in records], learner.device)

    def run() -> Any:
        return settings_loss(trainer, learner.module(batch.input_ids, batch.labels), batch).loss_N

    (gradient,) = loss_checks.state_gradients(policy.model, run)
    before_agent = torch.nn.functional.pad(batch.labels[:, 1:] != IGNORED, (0, 1))
    assert not gradient[~before_agent].any() and gradient[before_agent].any()


# ---- the process reward model along the way -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(toy_envs: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a process reward model that a training has made; only read it."""
    folder: Path = tmp_path_factory.mktemp("made")
    toy_envs.improved(toy_envs.CHAIN, R3(**FEW), 32, folder)
    return folder


def test_without_process_rewards_it_is_ppo(toy_envs: Any, tmp_path: Path) -> None:
    """Byte-equal weights after a training, and no process reward model is made."""
    names = {each.name for each in fields(PPO)}
    same = {name: value for name, value in FEW.items() if name in names}
    one = toy_envs.improved(toy_envs.CHAIN, R3(**FEW, beta=0.0), 48, tmp_path / "r3")[0]
    other = toy_envs.improved(toy_envs.CHAIN, PPO(**same), 48, tmp_path / "ppo")[0]
    paid = toy_envs.improved(toy_envs.CHAIN, R3(**FEW), 48, tmp_path / "paid")[0]
    assert one.digest() == other.digest() != paid.digest()
    assert not (tmp_path / "r3").exists() and (tmp_path / "paid" / "heads.safetensors").is_file()


def test_the_model_is_updated_frozen_or_given(toy_envs: Any, tmp_path: Path) -> None:
    """Trained on the first episodes, then every few iterations or never; one from a folder stays as it came."""
    made, few = {}, FEW | {"tasks_per_iteration": 8}
    for name, every in (("updated", 2), ("frozen", 0)):
        _, report, _ = toy_envs.improved(toy_envs.CHAIN, R3(**few, prm_every=every), 3 * 8, tmp_path / name)
        made[name] = [number for number, row in enumerate(report.history) if "prm_loss" in row]
        assert all("process" in row for row in report.history) and report.metrics["prm_episodes"] == 8
    assert made == {"updated": [0, 2], "frozen": [0]}
    later = R3(**few, prm=str(tmp_path / "frozen"), prm_every=2)
    _, report, _ = toy_envs.improved(toy_envs.CHAIN, later, 4 * 8, tmp_path / "later")
    assert [number for number, row in enumerate(report.history) if "prm_loss" in row] == [1, 3]
    gaps = R3(**few, prm_every=3, checkpoint_minutes=0.0)

    def tell(done: int, total: int) -> None:
        if done == 16:
            raise KeyboardInterrupt

    for progress in (tell, None):  # one that is taken up again knows when it learnt last
        with nullcontext() if progress is None else pytest.raises(KeyboardInterrupt):
            policy = toy_envs.word_policy()
            rollouts = toy_envs.rollouts(policy, toy_envs.CHAIN, 4 * 8)
            report = gaps.improve(policy, rollouts, seed=0, output_dir=tmp_path / "gaps", progress=progress)
    assert [number for number, row in enumerate(report.history) if "prm_loss" in row] == [0, 3]
    given = R3(**few, prm=str(tmp_path / "frozen"), prm_every=0)
    _, report, _ = toy_envs.improved(toy_envs.CHAIN, given, 16, tmp_path / "again")
    assert not any("prm_loss" in row for row in report.history)
    one, other = (ProcessRewardModel.load(tmp_path / name) for name in ("frozen", "again"))
    assert one.policy.digest() == other.policy.digest()
    for a, b in zip(one.heads.state_dict().values(), other.heads.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_an_expert_that_fails_is_warned_of(toy_envs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact labels are not there, so there is no process reward model; it neither crashes nor keeps silent."""

    def none(env: Any) -> Any:
        raise NotImplementedError("no expert here")

    monkeypatch.setattr(type(toy_envs.CHAIN.make()), "expert", none)
    with (
        pytest.warns(UserWarning, match=r"16 of 16 episodes have no labelled step \(whose expert gave no plan"),
        pytest.raises(NothingToTrainOnError),
    ):
        toy_envs.improved(toy_envs.CHAIN, R3(**FEW), 32, tmp_path)


def test_with_lora_the_model_is_whole(toy_envs: Any, tmp_path: Path) -> None:
    """The saved process reward model is an ordinary model; the policy keeps its adapters."""
    policy = toy_envs.word_policy(spread=0.2)
    rollouts = toy_envs.rollouts(policy, toy_envs.CHAIN, 48)
    report = R3(**FEW, lora_rank=2).improve(policy, rollouts, seed=0, output_dir=tmp_path)
    model = ProcessRewardModel.load(tmp_path)
    names = [{name for name, _ in each.named_parameters()} for each in (policy.merged().model, model.policy.model)]
    assert names[0] == names[1] and has_adapters(policy.model)
    assert all("process" in row for row in report.history)


def test_continuations_are_of_the_budget(toy_envs: Any, tmp_path: Path) -> None:
    """Monte Carlo labels cost episodes, which are counted; with too few left, fewer are labelled."""
    trainer = R3(**FEW, prm_labels="monte_carlo", prm_attempts=2, prm_states=2, prm_episodes=4)
    _, report, rollouts = toy_envs.improved(toy_envs.CHAIN, trainer, 120, tmp_path)
    spent = report.dropped["played on to value a state"]
    assert len(rollouts.episodes) <= 120 and report.trajectories + spent == len(rollouts.episodes)
    assert report.history[0]["prm_episodes"] == 4 and spent > 16 and spent % 2 == 0
    assert any("prm_mse_correctness" in row for row in report.history[1:])


def test_continuations_are_not_scored(toy_envs: Any, tmp_path: Path) -> None:
    """Whether they succeed is all that is asked of them: a reward model reads what the policy learns from, no more."""
    trainer = R3(**FEW, prm_labels="monte_carlo", prm_attempts=2, prm_states=2, prm_episodes=4)
    policy, scored = toy_envs.word_policy(), list[int]()
    rollouts = toy_envs.rollouts(policy, toy_envs.CHAIN, 80)

    def score(played: Any) -> list[float]:
        scored.append(len(played))
        return [1.0] * len(played)

    rollouts.scorer = score
    report = trainer.improve(policy, rollouts, seed=0, output_dir=tmp_path)
    assert sum(scored) == report.trajectories < len(rollouts.episodes)
    assert R3().uses_reward and not R3(alpha=0.0).uses_reward


def test_a_world_that_fails_as_steps_are_labelled_ends_nothing(
    toy_envs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it ends nothing while it is played."""
    snapshots_at = branching.snapshots_at
    calls = list[int]()

    def fails(*given: Any) -> Any:
        calls.append(1)
        if len(calls) % 5 == 0:
            raise TimeoutError("no world")
        return snapshots_at(*given)

    monkeypatch.setattr("agentgym_py.rewards.state_values.snapshots_at", fails)
    budgets: dict[Any, int] = {"exact": 48, "monte_carlo": 120}
    for labels, budget in budgets.items():
        trainer = R3(**FEW, prm_labels=labels, prm_attempts=2, prm_states=2)
        with pytest.warns(UserWarning, match="whose world failed as it was to play it again"):
            _, report, _ = toy_envs.improved(toy_envs.CHAIN, trainer, budget, tmp_path / labels)
        assert 0 < report.history[0]["prm_episodes"] < 16 and report.trajectories > 16


def test_the_model_foresees_what_is_to_come(toy_envs: Any, tmp_path: Path) -> None:
    """On episodes that it has not seen, its scores of steps in the chain follow the exact values."""
    trainer = R3(
        **{**FEW, "tasks_per_iteration": 32, "prm_first_epochs": 40.0, "prm_epochs": 20.0, "prm_learning_rate": 0.01}
    )
    _, report, _ = toy_envs.improved(toy_envs.CHAIN, trainer, 2 * 32, tmp_path)
    assert report.metrics["prm_correlation_correctness"] > 0.6
    assert np.isfinite(list(report.metrics.values())).all()


@pytest.mark.parametrize("warmup", [0, 2])
def test_without_any_label_it_is_no_ppo(
    toy_envs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warmup: int, made: Path
) -> None:
    """Where the world does not play its episodes again it ends, before the policy learns, and says why; warned of once.

    With a model to begin with it continues, and the report has the note.
    """
    monkeypatch.setattr(
        "agentgym_trainers.process_reward.exact_values_of_all",
        lambda given, _: ([None] * len(given), Counter({CHANGED: len(given)})),
    )
    policy = toy_envs.word_policy()
    before, rollouts = policy.digest(), toy_envs.rollouts(policy, toy_envs.CHAIN, 5 * 16)
    trainer = R3(**FEW, critic_warmup=warmup, checkpoint_minutes=0.0)
    why = r"16 of 16 episodes have no labelled step \(whose world does not play it again"
    with pytest.warns(UserWarning, match=why), pytest.raises(NothingToTrainOnError, match=why):
        trainer.improve(policy, rollouts, seed=0, output_dir=tmp_path / "none")
    assert policy.digest() == before and len(rollouts.episodes) == (warmup + 1) * 16
    assert not list(tmp_path.glob("none/**/state-*"))
    with pytest.warns(UserWarning, match=why) as said:
        _, report, _ = toy_envs.improved(toy_envs.CHAIN, R3(**FEW, prm=str(made)), 5 * 16, tmp_path / "given")
    assert len([each for each in said if "have no labelled step" in str(each.message)]) == 1
    assert any("have no labelled step" in note for note in report.notes)
    assert {row["prm_episodes"] for row in report.history} == {0.0} and report.trajectories == 5 * 16


def test_a_budget_that_is_too_small_for_continuations_is_refused(toy_envs: Any, tmp_path: Path) -> None:
    """Before anything is played; at its end, what cannot be labelled any more is noted."""
    trainer = R3(**FEW, prm_labels="monte_carlo", prm_attempts=4, prm_states=4, prm_episodes=1)
    policy = toy_envs.word_policy()
    rollouts = toy_envs.rollouts(policy, toy_envs.CHAIN, 47)
    with pytest.raises(
        ConfigError, match="too few for prm_labels monte_carlo: labelling one takes prm_attempts 4 times prm_states 4"
    ):
        trainer.improve(policy, rollouts, seed=0, output_dir=tmp_path)
    assert not rollouts.episodes
    replace(trainer, beta=0.0).check_round(47)
    many = R3(**FEW, prm_labels="monte_carlo", prm_attempts=2, prm_states=2, prm_episodes=16)
    policy, report, _ = toy_envs.improved(
        toy_envs.CHAIN, many, 56, tmp_path / "held"
    )  # enough is held back to learn from
    assert report.history[0]["prm_episodes"] == 6 and policy.digest() != toy_envs.word_policy().digest()
    with pytest.warns(UserWarning, match="episodes of the budget are left, and labelling an episode takes 16"):
        _, report, _ = toy_envs.improved(toy_envs.CHAIN, trainer, 16 + 16 + 16 + 8, tmp_path / "tight")
    assert any("13 episodes of the budget are left" in note for note in report.notes), report.notes


def test_a_model_of_other_tokens_or_none_is_refused(toy_envs: Any, tmp_path: Path, made: Path) -> None:
    """A folder without one before anything runs; one with another vocabulary as soon as there is a policy."""
    with pytest.raises(ConfigError, match="nowhere is not a process reward model"):
        R3(prm="nowhere").check_round(1000)
    shutil.copytree(made, tmp_path / "made")
    file = tmp_path / "made" / "backbone" / "tokenizer.json"
    file.write_text(file.read_text().replace('"east"', '"yonder"'))
    trainer = R3(**FEW, prm=str(tmp_path / "made"))
    trainer.check_round(1000)
    with pytest.raises(ConfigError, match="made has other tokens than the policy"):
        trainer.check_policy(toy_envs.word_policy())
    replace(trainer, beta=0.0).check_policy(toy_envs.word_policy())
    with pytest.raises(ConfigError, match="made has other tokens than the policy"):
        toy_envs.improved(toy_envs.CHAIN, trainer, 32, tmp_path / "again")
    file.write_text(file.read_text().replace('"yonder"', '"east"'))
    config = file.with_name("config.json")
    config.write_text(config.read_text().replace('"max_position_embeddings": 256', '"max_position_embeddings": 24'))
    with pytest.raises(ConfigError, match="made reads 24 tokens at most, the policy 256"):
        toy_envs.improved(toy_envs.CHAIN, trainer, 32, tmp_path / "again")


def test_a_model_comes_back_in_the_policys_format(toy_envs: Any, tmp_path: Path) -> None:
    """Else a training that was killed would be paid otherwise than one that was not."""
    toy_envs.word_policy().save(tmp_path / "policy")
    policy = Policy.load(tmp_path / "policy", dtype="bfloat16")
    rollouts = toy_envs.rollouts(policy, toy_envs.CHAIN, 16)
    episodes = [group[0] for group in rollouts.groups(16, 1)]
    judge, again = (ProcessRewards(R3(**FEW), policy, rollouts, seed=0) for _ in range(2))
    judge._train(episodes, Counter(), [])
    judge.save(tmp_path)
    again.load(tmp_path)
    assert judge.model is not None and again.model is not None
    assert again.model.policy.model.dtype == torch.bfloat16
    for said, same in zip(judge.model.by_dimension(episodes), again.model.by_dimension(episodes), strict=True):
        assert (said == same).all()


class Cut(KeyboardInterrupt):
    """A training is cut off."""


@pytest.mark.parametrize(
    ("dtype", "settings"), [("float32", {"lora_rank": 2}), ("bfloat16", {"prm_every": 3})], ids=["lora", "bfloat16"]
)
def test_a_training_resumes_twice_to_the_same_end(
    dtype: str, settings: dict[str, Any], toy_envs: Any, tmp_path: Path
) -> None:
    """A state's process reward model needs no earlier state, which is gone, and keeps its float32 master weights."""
    toy_envs.word_policy().save(tmp_path / "policy")
    few: dict[str, Any] = {"tasks_per_iteration": 4, "prm_first_epochs": 1, "prm_epochs": 1, "checkpoint_minutes": 0}

    def improve(output: Path, stop: int | None = None) -> tuple[Any, ...]:
        def tell(done: int, total: int) -> None:
            if done == stop:
                raise Cut

        policy = Policy.load(tmp_path / "policy", dtype=dtype)
        rollouts = toy_envs.rollouts(policy, toy_envs.CHAIN, 24, tokens=2)
        report = R3(**few, **settings).improve(policy, rollouts, seed=0, output_dir=output, progress=tell)
        prm = ProcessRewardModel.load(output)
        return policy.digest(), prm.policy.digest(), [row.get("prm_loss") for row in report.history]

    whole = improve(tmp_path / "whole")
    for stop in (8, 12):
        with pytest.raises(Cut):
            improve(tmp_path / "cut", stop)
    assert improve(tmp_path / "cut") == whole and len(whole[2]) == 6


# ---- learning -------------------------------------------------------------------------------------------------------


def test_it_solves_a_bandit(toy_envs: Any, tmp_path: Path) -> None:
    """As PPO does, in as many episodes: it pulls the better arm, which pays in 4 of 5 tasks only."""
    trainer = R3(
        tasks_per_iteration=32, learning_rate=0.02, critic_learning_rate=0.02, prm_labels="outcome",
        prm_first_epochs=2.0, prm_epochs=1.0, prm_weights={"correctness": 1.0}, prm_backbone=False,
    )  # fmt: skip
    _, report, rollouts = toy_envs.improved(toy_envs.BANDIT, trainer, 30 * 32, tmp_path)
    last = [each.steps[0].action in toy_envs.RIGHT for each in rollouts.episodes[-64:]]
    assert len(report.history) == 30 and sum(last) > 60
    assert sum(each.steps[0].action in toy_envs.RIGHT for each in rollouts.episodes[:64]) < 45


@pytest.mark.slow
def test_it_solves_a_chain(toy_envs: Any, tmp_path: Path) -> None:
    """40 iterations of 32 episodes at most, as PPO: nearly the best return, 0.75."""
    trainer = R3(
        tasks_per_iteration=32, learning_rate=0.01, critic_learning_rate=0.02, prm_first_epochs=2.0, prm_epochs=1.0,
        prm_every=2, prm_learning_rate=0.01,
    )  # fmt: skip
    _, report, _ = toy_envs.improved(toy_envs.CHAIN, trainer, 40 * 32, tmp_path)
    returns = [row["return"] for row in report.history]
    assert returns[0] < 0.2 and sum(returns[-5:]) / 5 > 0.7


@pytest.mark.slow
def test_it_solves_a_chain_by_process_rewards_alone(toy_envs: Any, tmp_path: Path) -> None:
    """Without the world's own rewards, which `alpha` weighs, it still learns what they pay for."""
    trainer = R3(
        tasks_per_iteration=32, learning_rate=0.002, critic_learning_rate=0.02, prm_first_epochs=20.0, prm_epochs=4.0,
        prm_every=1, prm_learning_rate=0.01, alpha=0.0,
    )  # fmt: skip
    _, report, _ = toy_envs.improved(toy_envs.CHAIN, trainer, 40 * 32, tmp_path)
    returns = [row["return"] for row in report.history]
    assert returns[0] < 0.2 and sum(returns[-5:]) / 5 > 0.5


def test_wrong_settings_are_refused() -> None:
    """Each by its name; outcome labels that say nothing of progress, too."""
    wrong: dict[str, Any] = {"alpha": -1.0, "beta": -1.0, "prm_every": -1, "prm_episodes": 0, "clip": -1.0}
    wrong |= {"prm_labels": "taste", "prm_discount": 0.0, "prm_first_epochs": 0.0, "prm_learning_rate": 0.0}
    wrong |= {"prm_attempts": 0, "prm_states": 0}
    for name, value in wrong.items():
        with pytest.raises(ConfigError, match=name.removeprefix("prm_").removeprefix("first_")):
            R3(**{name: value})
    with pytest.raises(ConfigError, match="alpha and beta must not both be 0"):
        R3(alpha=0.0, beta=0.0)
    with pytest.raises(ConfigError, match="the progress of every step is 0"):
        R3(prm_labels="outcome", prm_discount=1.0)
    with pytest.raises(ConfigError, match="taste"):
        R3(prm_weights={"taste": 1.0})
