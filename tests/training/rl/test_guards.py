from __future__ import annotations

import math
import warnings
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py import registry
from agentgym_py.env import Outcome
from agentgym_py.errors import PolicyError, TrainingError
from agentgym_py.testing.zoo_checks import with_teacher
from agentgym_py.training.rl.actor_critic import Output
from agentgym_py.training.rl.batch import TokenBatch, advantage_stats, mean_logs
from agentgym_py.training.rl.guards import detect_collapse, entropy_and_repetition, is_repetitive, repetition_rate
from agentgym_py.training.rl.learner import Learner
from agentgym_py.training.rl.loop import Loop
from agentgym_py.training.rl.losses import Loss
from agentgym_py.training.settings import OnPolicySettings
from agentgym_py.training.trainer import info_of
from agentgym_py.trajectory import Tokens
from agentgym_trainers.grpo import GRPO, group_stats
from agentgym_trainers.ppo import PPO

LENGTHS = [[3, 1], [2], [1, 1, 4], [5]]
ALWAYS = {
    "loss", "grad_norm", "entropy", "ratio", "ratio_max", "clip_fraction", "kl_old_k1", "kl_old_k3", "kl_ref_k1",
    "kl_ref_k3", "advantage_mean", "advantage_std", "reply_tokens", "truncated", "given_up", "repeated",
    "tokens_per_second",
}  # fmt: skip
"""What every on-policy trainer that has a reference logs of an iteration."""
LEAST = {"loss", "grad_norm", "reply_tokens", "truncated", "given_up", "repeated"}
"""What every other one logs."""


def likelier(out: Output, batch: TokenBatch) -> Loss:
    """A loss that makes every token likelier, without any clip."""
    assert batch.advantages_N is not None
    return Loss(-out.logps_N * batch.advantages_N, {})


def records_of(toy_envs: Any, policy: Any) -> Any:
    """Random records with an advantage of 1."""
    records = toy_envs.random_records(policy, LENGTHS)
    for record in records:
        record.advantages_n = torch.ones(record.n)
    return records


# ---------------------------------------------------------------------------------------------------------------- logs


ON_POLICY = [
    name for name in registry.names("agentgym.trainers") if hasattr(registry.load("agentgym.trainers", name), "improve")
]


@pytest.mark.parametrize("name", ON_POLICY)
def test_every_on_policy_trainer_logs_what_is_always_logged(name: str, toy_envs: Any, tmp_path: Path) -> None:
    """Of an iteration in which steps were taken; with a critic its explained variance too, with groups those that tie.

    Each is a finite number; of the first iteration ratios are 1 and divergences 0.
    """
    made = registry.load("agentgym.trainers", name)
    if info_of(made).library:
        pytest.skip("another library's loop, which logs by its own names")
    known = made.__dataclass_fields__
    small = {
        "tasks_per_iteration": 3,
        "group_size": 4,
        "minibatch_size": 4,
        "epochs": 1,
        "batch_size": 16,
        "kl_coef": 0.1,
        "learning_rate": 1e-6,
    }
    trainer = made(**{key: value for key, value in small.items() if key in known})
    policy = toy_envs.word_policy()
    trainer = with_teacher(trainer, policy, tmp_path / "teacher")
    report = trainer.improve(
        policy, toy_envs.rollouts(policy, toy_envs.CHAIN, 36, tokens=2), seed=0, output_dir=tmp_path
    )
    rows = [row for row in report.history if "loss" in row]
    wanted = ALWAYS | ({"explained_variance"} if "critic_warmup" in known else set())
    wanted |= {"groups_all_the_same", "groups_all_failed", "groups_all_won"} if "group_size" in known else set()
    wanted |= {"policy_loss", "kl_loss" if "group_size" in known else "kl_penalty"}
    if "kl_coef" not in known:  # no policy gradient, and no reference
        wanted = LEAST
    assert rows and all(not wanted - row.keys() and all(map(math.isfinite, row.values())) for row in rows)
    for row in rows if "kl_coef" in known else ():
        assert row["ratio"] == pytest.approx(1, abs=1e-3) and row["ratio_max"] == pytest.approx(1, abs=1e-3)
        assert all(abs(row[f"kl_{whom}_{how}"]) < 1e-3 for whom in ("old", "ref") for how in ("k1", "k3"))


def test_ratios_and_divergences_are_their_formulas(toy_envs: Any) -> None:
    """Over all of a step's tokens, whatever the passes; a divergence from old is of the policy that sampled."""
    policy = toy_envs.word_policy()
    records = records_of(toy_envs, policy)
    for record in records:
        record.ref_logps_n = record.old_logps_n - torch.linspace(0, 1, record.n)
    new = torch.cat([torch.stack(toy_envs.slow_logps(policy.model, record)).detach() for record in records])
    old, ref = (torch.cat(x) for x in zip(*((r.old_logps_n, r.ref_logps_n) for r in records), strict=True))
    settings = OnPolicySettings(microbatch_tokens=1, max_ratio=0.0)
    logged = toy_envs.step(Learner(policy, settings, seed=0), records, likelier, "token")
    assert logged["ratio"] == pytest.approx(float((new - old).exp().mean()), rel=1e-4)
    assert logged["ratio_max"] == pytest.approx(float((new - old).exp().max()), rel=1e-4)
    assert logged["kl_old_k1"] == pytest.approx(float((old - new).mean()), abs=1e-4)
    assert logged["kl_old_k3"] == pytest.approx(float(((new - old).exp() - 1 - (new - old)).mean()), rel=1e-4)
    assert logged["kl_ref_k1"] == pytest.approx(float((new - ref).mean()), abs=1e-4)
    assert logged["kl_ref_k3"] == pytest.approx(float(((ref - new).exp() - 1 - (ref - new)).mean()), rel=1e-4)


def test_the_largest_ratio_of_an_iteration_is_the_largest_of_its_steps() -> None:
    """All else is a mean."""
    steps = [{"ratio": 1.0, "ratio_max": 1.5}, {"ratio": 2.0, "ratio_max": 9.0}, {"ratio": 3.0, "ratio_max": 3.0}]
    assert mean_logs(steps) == {"ratio": 2.0, "ratio_max": 9.0}


def test_advantages_and_explained_variance_are_of_a_whole_iteration(toy_envs: Any) -> None:
    """With a critic advantages are returns less values, where the critic is trained, whatever they were scaled to."""
    records = records_of(toy_envs, toy_envs.word_policy())
    records[0].advantages_n = torch.zeros(4)
    flat = [float(a) for r in records for a in r.advantages_n]
    found = advantage_stats(records)
    assert found["advantage_mean"] == pytest.approx(fmean(flat)) and "explained_variance" not in found
    assert found["advantage_std"] == pytest.approx(fmean((a - fmean(flat)) ** 2 for a in flat) ** 0.5)
    returns, values = list[float](), list[float]()
    for record in records:
        record.returns_n, record.values_n = torch.arange(record.n) + 1.0, torch.full((record.n,), 0.5)
        record.valued_n = record.first_of_turn_n.float()
        at = record.first_of_turn_n
        returns += record.returns_n[at].tolist()
        values += record.values_n[at].tolist()
        record.advantages_n = torch.full((record.n,), 7.0)  # scaled
    left = [r - v for r, v in zip(returns, values, strict=True)]
    found = advantage_stats(records)
    assert found["advantage_mean"] == pytest.approx(fmean(left))
    spread = fmean((r - fmean(returns)) ** 2 for r in returns)
    assert found["explained_variance"] == pytest.approx(1 - fmean((x - fmean(left)) ** 2 for x in left) / spread)


# ---------------------------------------------------------------------------------------------------------------- nets


def test_an_exploding_ratio_goes_back_to_the_weights_that_sampled(toy_envs: Any) -> None:
    """It is an error that says how large; the step is not taken, and those before it are taken back."""
    policy = toy_envs.word_policy()
    records = records_of(toy_envs, policy)
    learner = Learner(policy, OnPolicySettings(learning_rate=0.5, max_ratio=3.0), seed=0, critic_rate=1e-3)
    learner.annotate(records)
    before, steps = policy.digest(), 0
    with pytest.raises(TrainingError, match=r"exploding ratio: 17 tokens are on average [\d.e+]+ times .*max_ratio 3"):
        while steps < 50:
            toy_envs.step(learner, records, likelier, "token")
            steps += 1
    assert 0 < steps < 50 and policy.digest() == before
    free = Learner(toy_envs.word_policy(), OnPolicySettings(learning_rate=0.5, max_ratio=0.0), seed=0)
    assert max(toy_envs.step(free, records, likelier, "token")["ratio"] for _ in range(steps + 1)) > 3


def test_a_training_ends_with_the_last_weights_within_its_divergence(toy_envs: Any) -> None:
    """Where an iteration leaves it further than `max_kl` from where it began; the report says how far it was."""

    def divergence(policy: Any) -> float:
        ids = torch.tensor([policy.chat.opening("0")])
        with torch.no_grad():
            logits = [each.model(input_ids=ids).logits[0, -1] for each in (policy, toy_envs.word_policy())]
        new, old = (torch.log_softmax(each, -1) for each in logits)
        return float((new.exp() * (new - old)).sum())

    ends = {}
    for limit in (0.0, 0.05):
        policy = toy_envs.word_policy()
        rollouts = toy_envs.rollouts(policy, toy_envs.BANDIT, 30 * 32)
        trainer = GRPO(tasks_per_iteration=4, learning_rate=0.01, max_kl=limit)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            report = trainer.improve(policy, rollouts, seed=0, output_dir=Path("unused"))
        ends[limit] = report, divergence(policy), len(rollouts.episodes), [str(each.message) for each in said]
    report, found, played, texts = ends[0.05]
    assert 0 < found < 0.08 < ends[0.0][1] and played < 30 * 32 == ends[0.0][2]
    assert len(report.notes) == 1 and report.notes[0] in texts and "more than max_kl 0.05" in report.notes[0]
    assert report.dropped["played when the training was stopped"] == 32
    assert not any("stopped early" in note for note in ends[0.0][0].notes)
    assert report.trajectories + sum(report.dropped.values()) == played


@pytest.mark.parametrize(
    ("trainer", "budget"),
    [
        (GRPO(tasks_per_iteration=4, learning_rate=0.05, max_kl=0.05), 32),
        (PPO(tasks_per_iteration=32, learning_rate=0.05, max_kl=0.05, kl_coef=0.0), 64),
    ],
)
def test_the_last_iteration_is_held_against_the_divergence_too(toy_envs: Any, trainer: Any, budget: int) -> None:
    """It is the first one that trains the policy, which is then as it was."""
    policy = toy_envs.word_policy()
    before = policy.digest()
    with pytest.warns(UserWarning, match=r"stopped early: .* max_kl 0.05"):
        report = trainer.improve(
            policy, toy_envs.rollouts(policy, toy_envs.BANDIT, budget), seed=0, output_dir=Path("unused")
        )
    assert policy.digest() == before and any("stopped early" in note for note in report.notes)
    assert report.dropped["played when the training was stopped"] == 32 == budget - report.trajectories
    free = toy_envs.word_policy()
    replace(trainer, max_kl=50.0).improve(
        free, toy_envs.rollouts(free, toy_envs.BANDIT, budget), seed=0, output_dir=Path("unused")
    )
    assert free.digest() != before


def test_an_iteration_without_a_group_hides_no_divergence(toy_envs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one before it is held against `max_kl` as if it were the last."""

    def move(self: Any, right: bool) -> Outcome:
        pays = right or int(self.current_task.id.rsplit("/", 1)[1]) >= 4
        return Outcome("2", float(pays), terminated=True, success=pays)

    monkeypatch.setattr(toy_envs.Bandit, "move", move)
    policy = toy_envs.word_policy()
    before, rollouts = policy.digest(), toy_envs.rollouts(policy, toy_envs.BANDIT, 64)
    trainer = GRPO(tasks_per_iteration=4, minibatch_size=32, learning_rate=0.05, max_kl=0.05)
    with pytest.warns(UserWarning, match=r"stopped early: .* max_kl 0.05"):
        trainer.improve(policy, rollouts, seed=0, output_dir=Path("unused"))
    assert policy.digest() == before and len(rollouts.episodes) == 32


def test_ppo_stops_early_too(toy_envs: Any) -> None:
    """Without a divergence in its reward, and with adapters."""
    policy = toy_envs.word_policy(spread=0.2)
    rollouts = toy_envs.rollouts(policy, toy_envs.BANDIT, 30 * 32)
    trainer = PPO(tasks_per_iteration=32, learning_rate=0.05, max_kl=0.01, kl_coef=0.0, lora_rank=2)
    report = trainer.improve(policy, rollouts, seed=0, output_dir=Path("unused"))
    assert any("max_kl 0.01" in note for note in report.notes) and rollouts.remaining > 0
    assert report.trajectories + sum(report.dropped.values()) == len(rollouts.episodes)


def test_an_iteration_without_a_signal_is_explained(toy_envs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many groups there were, how they all ended, and what to do; said once, and training continues."""

    def move(self: Any, right: bool) -> Outcome:
        number = int(self.current_task.id.rsplit("/", 1)[1])
        won = right if number >= 8 else number % 4 == 0
        return Outcome("2", float(won), terminated=True, success=won)

    monkeypatch.setattr(toy_envs.Bandit, "move", move)
    policy = toy_envs.word_policy()
    with pytest.warns(UserWarning, match="no step was taken") as said:
        report = GRPO(tasks_per_iteration=4, learning_rate=1e-4).improve(
            policy, toy_envs.rollouts(policy, toy_envs.BANDIT, 16 * 8), seed=0, output_dir=Path("unused")
        )
    assert len([each for each in said if "no step was taken" in str(each.message)]) == 1
    assert "none of its 4 groups" in report.notes[0] and "(3 always failed, 1 always succeeded)" in report.notes[0]
    assert ["loss" in row for row in report.history] == [False, False, True, True]
    assert report.history[0]["groups_all_failed"] == 0.75 and report.history[0]["groups_all_won"] == 0.25


def test_advantages_of_nothing_are_said(toy_envs: Any) -> None:
    """Records that move nothing."""
    policy = toy_envs.word_policy()
    records = records_of(toy_envs, policy)
    learner = Learner(policy, OnPolicySettings(), seed=0)
    list(toy_envs.epoch(learner, records, likelier, "token"))
    assert not learner.notes
    for record in records:
        record.advantages_n = torch.zeros(record.n)
    with pytest.warns(UserWarning, match="nothing to learn from: all 17 tokens of an iteration"):
        list(toy_envs.epoch(learner, records, likelier, "token"))


def test_a_collapse_of_the_entropy_is_warned_of_once(toy_envs: Any) -> None:
    """A policy that has come to say one thing only; one that tries everything is left alone."""
    for spread, collapsed in ((0.02, False), (20.0, True)):
        policy = toy_envs.word_policy(spread=spread)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            report = PPO(tasks_per_iteration=8, learning_rate=1e-6, critic_warmup=0).improve(
                policy, toy_envs.rollouts(policy, toy_envs.CHAIN, 24), seed=0, output_dir=Path("unused")
            )
        found = [str(each.message) for each in said if "below 0.01" in str(each.message)]
        assert len(found) == collapsed == any(note.startswith("collapse: entropy") for note in report.notes)
        assert (report.history[0]["entropy"] < 0.01) == collapsed


def test_repeated_text_is_told_from_other_text(episode: Any) -> None:
    """Inside a reply, and of a reply to the same observation; the same reply to another one is no repetition."""
    assert is_repetitive([5, 6] * 8) and is_repetitive([1, 2, 3, 4] + [7] * 12)
    assert not is_repetitive([7] * 7) and not is_repetitive(list(range(40)))
    plain = episode("look", "look", "look", "look")
    steps = [
        replace(step, tokens=Tokens((1,), ids, (0.0,) * len(ids), (1,) * len(ids)))
        for step, ids in zip(plain.steps, [(1, 2), (1, 2), (3,) * 20, (1, 2)], strict=True)
    ]
    assert repetition_rate([replace(plain, steps=tuple(steps))]) == 0.25
    steps[3] = replace(steps[3], observation=steps[0].observation)
    assert repetition_rate([replace(plain, steps=tuple(steps))]) == 0.5
    assert repetition_rate([plain]) == 0.0, "nobody's model wrote it"


def test_how_much_replies_vary_is_read_from_what_was_sampled(episode: Any) -> None:
    """The mean of -log p over sampled tokens, of replies that are learnt; what collapsed says so by its bound."""
    plain = episode("look", "look", "buy")
    tokens = [
        Tokens((1,), (3, 4), (-0.5, -9.0), (1, 0)),
        Tokens((1,), (3,), (-0.1,), (1,)),
        Tokens((1,), (5,), (-7.0,), (1,)),
    ]
    steps = [replace(s, tokens=t, trained=n < 2) for n, (s, t) in enumerate(zip(plain.steps, tokens, strict=True))]
    found = entropy_and_repetition([replace(plain, steps=tuple(steps)), plain])
    assert found == {"entropy": pytest.approx(0.3), "repeated": 0.0} and entropy_and_repetition([plain]) == {}
    assert (
        detect_collapse({}, 1.0, 0.0)
        == detect_collapse(found, 0.2, 0.5)
        == detect_collapse({"entropy": 0.2, "repeated": 0.5}, 0.2, 0.5)
        == {}
    )
    assert "entropy 0.3 nats per token, below 0.31" in detect_collapse(found, 0.31, 0.5)["entropy"]
    assert list(detect_collapse({"entropy": 0.3, "repeated": 0.6}, 0.2, 0.5)) == ["repeated"]


def test_repeated_text_is_warned_of_once(toy_envs: Any) -> None:
    """An agent that says the same forever; the warning has the share."""
    policy = toy_envs.word_policy(spread=20.0)
    trainer = GRPO(tasks_per_iteration=2, group_size=4, learning_rate=1e-6, min_entropy=0.0)
    learner = Learner(policy, trainer, seed=0)
    groups = toy_envs.rollouts(policy, toy_envs.CHAIN, 8).groups(2, 4)
    row = group_stats(trainer, groups)
    same = fmean(len({(s.observation, s.reply) for s in t.steps}) / len(t.steps) for g in groups for t in g)
    assert row["repeated"] == pytest.approx(1 - same) and row["repeated"] > 0.5, "else it is no test"
    with pytest.warns(UserWarning, match=rf"collapse: {100 * row['repeated']:.0f} % of the replies repeat"):
        learner.check_collapse(row)
    as_it_came = dict(row)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner.check_collapse(row)
    assert row == as_it_came and len(learner.notes) == 1


@pytest.mark.parametrize("rank", [0, 2])
def test_a_loss_that_an_earlier_step_spoilt_goes_back_to_the_weights_that_sampled(toy_envs: Any, rank: int) -> None:
    """The weights before the step that is refused are spoilt already; without a copy, which is said, they stay."""
    for stop in (10.0, 0.0):
        policy = toy_envs.word_policy(spread=0.2)
        records = records_of(toy_envs, policy)
        settings = OnPolicySettings(learning_rate=1e37, max_ratio=stop, lora_rank=rank)
        learner = Learner(policy, settings, seed=0)
        learner.annotate(records)
        before = policy.digest()
        toy_envs.step(learner, records, likelier, "token")
        assert policy.digest() != before
        with pytest.raises(TrainingError, match=r"norm (nan|inf): the step was not taken; the weights are those") as e:
            toy_envs.step(learner, records, likelier, "token")
        assert (policy.digest() == before) == (stop > 0) == ("those that sampled" in str(e.value).split("; ")[-1][:50])


def test_weights_that_the_last_step_spoilt_are_found_before_they_play(toy_envs: Any) -> None:
    """Of every iteration, the last one too: the training stops with the weights that sampled, in one line."""
    for iterations in (1, 2):
        policy = toy_envs.word_policy()
        before = policy.digest()
        trainer = PPO(tasks_per_iteration=8, minibatch_size=8, epochs=1, critic_warmup=0, learning_rate=1e30)
        rollouts = toy_envs.rollouts(policy, toy_envs.CHAIN, 8 * iterations)
        with pytest.raises(TrainingError, match="damaged after an iteration's last step; the weights are those that s"):
            trainer.improve(policy, rollouts, seed=0, output_dir=Path("unused"))
        assert policy.digest() == before and len(rollouts.episodes) == 8


def test_a_policy_that_says_no_number_ends_its_training(toy_envs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only the engine finds it: the weights are those that sampled last, and others see a `PolicyError`."""
    policy = toy_envs.word_policy()
    trainer = PPO(tasks_per_iteration=8, minibatch_size=8, epochs=1, critic_warmup=0, learning_rate=1e-3)
    before, count = policy.digest(), Loop.finish_iteration

    def spoiling(self: Loop, *given: Any) -> None:
        count(self, *given)
        with torch.no_grad():
            policy.model.get_input_embeddings().weight.fill_(torch.nan)

    monkeypatch.setattr(Loop, "finish_iteration", spoiling)
    with pytest.raises(TrainingError, match=r"'words' gives nan or infinity.*; the weights are those that sampled"):
        trainer.improve(policy, toy_envs.rollouts(policy, toy_envs.CHAIN, 16), seed=0, output_dir=Path("unused"))
    assert policy.digest() == before
    with torch.no_grad():
        policy.model.get_input_embeddings().weight.fill_(torch.nan)
    with pytest.raises(PolicyError, match="'words' gives nan or infinity: its weights are damaged"):
        toy_envs.rollouts(policy, toy_envs.CHAIN, 8).groups(8, 1)


def test_a_drift_within_an_iteration_is_warned_of_once(toy_envs: Any) -> None:
    """By what its steps say, and by the weights that the last of them left, where there is but one; a sound one not."""
    for rate, drifts in ((1e-3, False), (3.0, True)):
        policy = toy_envs.word_policy()
        trainer = PPO(tasks_per_iteration=8, minibatch_size=8, epochs=1, critic_warmup=0, learning_rate=rate)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            report = trainer.improve(
                policy, toy_envs.rollouts(policy, toy_envs.CHAIN, 16), seed=0, output_dir=Path("unused")
            )
        found = [str(each.message) for each in said if "nats per token from the one that sampled" in str(each.message)]
        assert len(found) == drifts == any(note in report.notes for note in found)
        assert abs(report.history[0]["kl_old_k1"]) < 0.01, "one step alone does not see itself"
    learner = Learner(toy_envs.word_policy(), OnPolicySettings(), seed=0)
    with pytest.warns(UserWarning, match="drift: an iteration moved the policy 1.5 nats"):
        learner.check_collapse({"kl_old_k1": -1.5, "kl_old_k3": 0.3})
