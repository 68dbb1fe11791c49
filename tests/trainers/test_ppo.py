from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError, NothingToTrainOnError, TrainingError
from agentgym_py.training.rl.batch import encode_record
from agentgym_py.training.rl.learner import Learner
from agentgym_trainers import ppo
from agentgym_trainers.ppo import PPO, adapt_kl_coef, ppo_loss, settings_loss, token_rewards


def slow_loss(x: dict[str, Any], n: int, *, clip: float, value_clip: float, vf_coef: float, entropy: float) -> Any:
    """Equation 9 and the clipped value loss, negated, of token n."""
    ratio = torch.exp(x["logps"][n] - x["old_logps"][n])
    gained = torch.minimum(
        ratio * x["advantages"][n], torch.clamp(ratio, 1 - clip, 1 + clip) * x["advantages"][n]
    )  # fmt: skip
    value, old, wanted = x["values"][n], x["old_values"][n], x["returns"][n]
    near = old + torch.clamp(value - old, -value_clip, value_clip)
    lost = max((value - wanted) ** 2, (near - wanted) ** 2) / 2
    return -gained + vf_coef * lost * x["valued"][n] - entropy * x["entropy"][n]


def test_the_loss_is_the_papers(loss_checks: Any) -> None:
    """Value and gradients equal the slow loop's, to 1e-9, ratios and values on both sides of the bounds."""
    names = ("logps", "old_logps", "advantages", "values", "old_values", "returns", "entropy")
    x = {name: 0.4 * loss_checks.drawn(40, seed=seed) for seed, name in enumerate(names)}
    valued = (loss_checks.drawn(40, seed=9) > 0).double()
    how: dict[str, Any] = {"clip": 0.2, "value_clip": 0.1, "vf_coef": 0.7}
    free = ("logps", "values", "entropy")

    def fast(*given: Any) -> Any:
        y = x | dict(zip(free, given, strict=True))
        return ppo_loss(*(y[name] for name in names), entropy_coef=0.03, valued_N=valued, **how).loss_N

    def slow(*given: Any) -> Any:
        y = x | dict(zip(free, given, strict=True), valued=valued)
        return torch.stack([slow_loss(y, n, entropy=0.03, **how) for n in range(40)])

    loss_checks.check_formula(fast, slow, *(x[name] for name in free))
    assert 0 < ppo_loss(*(x[name] for name in names)).logged_N["clip_fraction"].mean() < 1


def test_observations_padding_order_and_passes_do_not_matter(toy_envs: Any, loss_checks: Any) -> None:
    """A step is the same in whatever order and passes records go; states before observations get no gradient."""
    trainer = PPO(entropy_coef=0.03)
    loss_of = partial(settings_loss, trainer)
    loss_checks.check_steps(toy_envs, trainer, loss_of, "token", critic_rate=1e-3, critic_gradient=0.5)


@pytest.mark.parametrize(
    ("measured", "target", "expected"),
    [(0.16, 0.1, 0.3), (0.14, 0.1, 0.2), (0.07, 0.1, 0.2), (0.06, 0.1, 0.2 / 1.5), (-1.0, 0.1, 0.2 / 1.5), (9, 0, 0.2)],
)
def test_the_kl_coefficient_follows_its_target(measured: float, target: float, expected: float) -> None:
    """Half as much again above 1.5 times the target, less below two thirds of it; without a target it stays."""
    assert adapt_kl_coef(0.2, measured, target) == pytest.approx(expected)


# ------------------------------------------------------------------------------------------- from episodes to records


def estimated(toy_envs: Any, loss_checks: Any, trainer: PPO, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Episodes of the chain, some truncated and some not, and their records, by a critic and a reference of chance.

    All in double precision.
    """
    monkeypatch.setattr(
        "agentgym_py.training.rl.batch.encode_record", lambda *x, **y: loss_checks.wide([encode_record(*x, **y)])[0]
    )
    policy = loss_checks.doubled(toy_envs.word_policy())

    def prepare(learner: Learner) -> None:
        torch.nn.init.normal_(learner.module.value.weight, generator=torch.Generator().manual_seed(0))
        assert learner._frozen is not None
        with torch.no_grad():
            learner._frozen.model.model.norm.weight += 0.5

    spec = type(toy_envs.CHAIN)(toy_envs.CHAIN.name, {"max_steps": 12})
    rollouts = toy_envs.rollouts(policy, spec, 24, tokens=2)
    made, records = toy_envs.first_records(trainer, rollouts, Path("unused"), monkeypatch, prepare)
    assert {each.truncated for each in rollouts.episodes} == {True, False}
    return policy, made, rollouts.episodes, records


def values_by_hand(policy: Any, made: Learner, episode: Any) -> tuple[list[float], float]:
    """The head on the state before each of the agent's tokens, and on that of the next turn's beginning."""
    ids: list[int] = []
    at: list[int] = []
    for step in episode.steps:
        ids += step.tokens.context
        at += range(len(ids) - 1, len(ids) - 1 + len(step.tokens.ids))
        ids += step.tokens.ids
    forced = [] if ids[-1] == policy.chat.end_of_turn else [policy.chat.end_of_turn]
    ids += forced + policy.chat.turn(episode.final_observation)
    with torch.no_grad():
        states = policy.model.model(input_ids=torch.tensor([ids]), use_cache=False).last_hidden_state[0]
        values = made.module.value(states)[:, 0].tolist()
    return [values[t] for t in at], values[-1]


def targets(
    toy_envs: Any, trainer: PPO, rollouts: Any, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[bool, bool, float, float]]:
    """Of each episode of a training whether it was truncated, and given up, its bootstrap and its first return."""
    found, tokenize = list[Any](), ppo.encode_episodes

    def noted(episodes: Any, *more: Any) -> Any:
        kept, records = tokenize(episodes, *more)
        found.extend(zip(episodes, records, strict=True))
        return kept, records

    with monkeypatch.context() as patch:
        patch.setattr(ppo, "encode_episodes", noted)
        trainer.improve(rollouts.policy, rollouts, seed=0, output_dir=Path("unused"))
    return [(each.truncated, each.given_up, record.bootstrap, float(record.returns_n[0])) for each, record in found]


def test_nothing_comes_after_a_score(toy_envs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reward model's is of the whole episode: a truncated one is worth it, too, and not ever more by the critic."""
    trainer = PPO(
        tasks_per_iteration=16,
        gae_lambda=1.0,
        kl_coef=0.0,
        critic_learning_rate=0.1,
        critic_gradient=0.0,
        credit_level="turn",
    )
    rollouts = toy_envs.rollouts(toy_envs.word_policy(), EnvSpec("ToyChain-v0", {"max_steps": 6}), 16 * 8)
    rollouts.scorer = lambda played: [1.0] * len(played)
    found = targets(toy_envs, trainer, rollouts, monkeypatch)
    assert sum(truncated for truncated, *_ in found) > 64
    assert all(bootstrap == 0 and first == pytest.approx(1.0) for *_, bootstrap, first in found)


def test_nothing_comes_after_an_episode_that_was_given_up(toy_envs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """For its next reply has no room; one that met the world's limit continues by the critic."""
    trainer = PPO(tasks_per_iteration=16, critic_warmup=0, critic_learning_rate=0.1)
    rollouts = toy_envs.rollouts(toy_envs.word_policy(), EnvSpec("ToyChain-v0", {"max_steps": 60}), 32, tokens=12)
    rollouts.policy.model.config.max_position_embeddings = 64
    assert all(bootstrap == 0 for _, up, bootstrap, _ in targets(toy_envs, trainer, rollouts, monkeypatch) if up)
    assert sum(each.given_up for each in rollouts.episodes) > 4
    short = toy_envs.rollouts(toy_envs.word_policy(), EnvSpec("ToyChain-v0", {"max_steps": 6}), 32)
    bootstraps = [
        bootstrap for truncated, _, bootstrap, _ in targets(toy_envs, trainer, short, monkeypatch) if truncated
    ]
    assert any(bootstraps)


@pytest.mark.parametrize("level", ["token", "turn"])
def test_advantages_are_the_closed_form_over_tokens_or_turns(
    toy_envs: Any, loss_checks: Any, level: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A truncated episode continues from the critic's value of what was shown last, a terminated one is over.

    The sum over k of (gamma lam)^k delta, by a walk over the episode's steps; then all are whitened together.
    """
    kl = 0.3
    trainer = PPO(credit_level=level, gamma=0.9, gae_lambda=0.8, kl_coef=kl, tasks_per_iteration=24, critic_warmup=0)
    policy, made, episodes, records = estimated(toy_envs, loss_checks, trainer, monkeypatch)
    raw: list[float] = []
    for episode, record in zip(episodes, records, strict=True):
        values, after = values_by_hand(policy, made, episode)
        ref, old = record.ref_logps_n.tolist(), record.old_logps_n.tolist()
        rewards = [-kl * (o - r) for o, r in zip(old, ref, strict=True)]
        sizes = [len(step.tokens.ids) for step in episode.steps]
        ends = [sum(sizes[: i + 1]) - 1 for i in range(len(sizes))]
        for end, step in zip(ends, episode.steps, strict=True):
            rewards[end] += step.reward
        starts = [end - size + 1 for end, size in zip(ends, sizes, strict=True)]
        if level == "turn":
            rewards = [sum(rewards[s : e + 1]) for s, e in zip(starts, ends, strict=True)]
            values = [values[s] for s in starts]
        following = [*values[1:], after if episode.truncated else 0.0]
        deltas = [r + 0.9 * f - v for r, f, v in zip(rewards, following, values, strict=True)]
        count = range(len(deltas))
        advantages = [sum(0.72**k * deltas[t + k] for k in range(len(deltas) - t)) for t in count]
        returns = [a + v for a, v in zip(advantages, values, strict=True)]
        if level == "turn":
            spread = [turn for turn, size in enumerate(sizes) for _ in range(size)]
            advantages, returns = [advantages[t] for t in spread], [returns[t] for t in spread]
            assert record.valued_n.tolist() == [float(n in starts) for n in range(record.n)]
        else:
            assert record.valued_n.tolist() == [1.0] * record.n
        assert record.returns_n.tolist() == pytest.approx(returns, rel=0, abs=1e-9)
        raw += advantages
    assert any(abs(values_by_hand(policy, made, e)[1]) > 0.01 for e in episodes if e.truncated), "else it is no test"
    flat = torch.tensor(raw, dtype=torch.float64)
    expected = (flat - flat.mean()) / (flat.std() + 1e-4)
    torch.testing.assert_close(torch.cat([r.advantages_n for r in records]), expected, rtol=0, atol=1e-9)


def test_what_a_reward_is(toy_envs: Any) -> None:
    """A turn's stands at its last token; the divergence from the reference costs at each."""
    policy = toy_envs.word_policy()
    ((episode,),) = toy_envs.rollouts(policy, toy_envs.CHAIN, 1, tokens=2).groups(1, 1)
    record = encode_record(episode, policy.chat)
    assert record is not None
    plain = token_rewards(episode, record, 0.5)
    assert float(plain.sum()) == pytest.approx(episode.reward)
    assert torch.equal(plain != 0, record.last_of_turn_n)
    record.ref_logps_n = record.old_logps_n - 0.2
    torch.testing.assert_close(token_rewards(episode, record, 0.5), plain - 0.1)


# ---------------------------------------------------------------------------------------------------------- learning


@pytest.mark.parametrize("level", ["token", "turn"])
def test_it_solves_a_bandit(toy_envs: Any, level: Any) -> None:
    """30 iterations of 32 episodes, 60 steps: it pulls the better arm, which pays in 4 of 5 tasks only."""
    trainer = PPO(credit_level=level, tasks_per_iteration=32, learning_rate=0.02, critic_learning_rate=0.02)
    _, report, rollouts = toy_envs.improved(toy_envs.BANDIT, trainer, 30 * 32)
    last = [each.steps[0].action in toy_envs.RIGHT for each in rollouts.episodes[-64:]]
    assert len(report.history) == 30 and sum(last) > 60
    assert sum(each.steps[0].action in toy_envs.RIGHT for each in rollouts.episodes[:64]) < 45


@pytest.mark.slow
def test_it_solves_a_chain(toy_envs: Any) -> None:
    """40 iterations of 32 episodes: nearly the best return, 0.75, and the critic foresees what is to come."""
    trainer = PPO(tasks_per_iteration=32, learning_rate=0.01, critic_learning_rate=0.02)
    _, report, _ = toy_envs.improved(toy_envs.CHAIN, trainer, 40 * 32)
    returns = [row["return"] for row in report.history]
    assert len(returns) == 40 and returns[0] < 0.2 and sum(returns[-5:]) / 5 > 0.7
    assert max(row["explained_variance"] for row in report.history) > 0.3  # 0.38 to 0.56 by processor and seed


def test_while_the_critic_warms_up_the_policy_stays(toy_envs: Any) -> None:
    """Bit for bit, whatever share of the critic's gradient reaches the trunk, and the entropy bonus with it."""
    trainer = PPO(tasks_per_iteration=8, critic_warmup=2, critic_gradient=1.0, entropy_coef=0.5, learning_rate=0.1)
    policy, report, rollouts = toy_envs.improved(toy_envs.CHAIN, trainer, 32)
    digests = [each.provenance.policy_digest for each in rollouts.episodes[::8]]
    assert digests[0] == digests[1] == digests[2] != digests[3] != policy.digest()
    assert report.history[1]["value_loss"] != report.history[0]["value_loss"]
    assert report.history[2]["ratio"] == pytest.approx(1, abs=0.5)


def test_the_logged_parts_sum_to_the_loss(toy_envs: Any) -> None:
    """With the weights that the page names; the critic's alone while it warms up, and the penalty is a product."""
    trainer = PPO(tasks_per_iteration=8, vf_coef=0.3, entropy_coef=0.5, kl_coef=0.1, learning_rate=0.01)
    _, report, _ = toy_envs.improved(toy_envs.CHAIN, trainer, 24)
    warm_up, *rows = report.history
    assert warm_up["loss"] == pytest.approx(0.3 * warm_up["value_loss"], rel=1e-5)
    for row in rows:
        parts = row["policy_loss"] + 0.3 * row["value_loss"] - 0.5 * row["entropy"]
        assert row["loss"] == pytest.approx(parts, abs=1e-5) and row["entropy"] > 0.1
        assert row["kl_penalty"] == pytest.approx(row["kl_coefficient"] * row["kl_ref"])


def test_it_says_what_it_did(toy_envs: Any) -> None:
    """Counts add up to what was played; the same seed gives the same weights; the coefficient follows its target."""
    trainer = PPO(tasks_per_iteration=16, critic_warmup=1, kl_coef=0.1, kl_target=1e-9, epochs=1, learning_rate=0.02)
    found = [toy_envs.improved(toy_envs.CHAIN, trainer, 64, seed=seed, tokens=2) for seed in (1, 1)]
    (policy, report, rollouts), (again, *_) = found
    assert policy.digest() == again.digest() != toy_envs.word_policy().digest()
    assert len(rollouts.episodes) == 64 == report.trajectories + sum(report.dropped.values())
    assert len(report.history) == 4 and 0 < report.agent_tokens < report.tokens
    first, *_, last = report.history
    assert first["ratio"] == pytest.approx(1, abs=1e-4) and first["clip_fraction"] == 0
    assert first["kl_ref"] == pytest.approx(0, abs=1e-5) and abs(last["kl_ref"]) > 1e-4
    coefficients = [row["kl_coefficient"] for row in report.history]
    assert coefficients[:3] == [0.1] * 3  # until a policy that had been trained has played
    assert coefficients[3] in (pytest.approx(0.1 / 1.5), pytest.approx(0.15))


def test_it_plays_and_learns_with_lora(toy_envs: Any) -> None:
    """The adapters play too, the reference is the model without them, and they stay apart from the base."""
    trainer = PPO(tasks_per_iteration=32, lora_rank=2, kl_coef=0.01, learning_rate=0.05, critic_learning_rate=0.02)
    policy = toy_envs.word_policy(spread=0.2)
    rollouts = toy_envs.rollouts(policy, toy_envs.BANDIT, 20 * 32)
    report = trainer.improve(policy, rollouts, seed=0, output_dir=Path("unused"))
    right = [each.steps[0].action in toy_envs.RIGHT for each in rollouts.episodes]
    assert sum(right[-64:]) > sum(right[:64]) + 10
    assert hasattr(policy.model, "peft_config") and report.history[-1]["kl_ref"] > 0.01


def test_nothing_to_learn_from_is_an_error(toy_envs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every world fails, it says so, and the policy stays; where all episodes go to the warm-up, at once."""

    def fails(self: Any, task: Any) -> str:
        raise TimeoutError("it hangs")

    monkeypatch.setattr(toy_envs.Chain, "begin", fails)
    policy = toy_envs.word_policy()
    before = policy.digest()
    with pytest.raises(NothingToTrainOnError, match="from 16 trajectories: 16 ended by an infrastructure error"):
        PPO(tasks_per_iteration=4).improve(
            policy, toy_envs.rollouts(policy, toy_envs.CHAIN, 16), seed=0, output_dir=Path("x")
        )
    rollouts = toy_envs.rollouts(policy, toy_envs.BANDIT, 16)
    with pytest.raises(ConfigError, match="critic_warmup 1 times tasks_per_iteration 16 leaves the policy none of 16"):
        PPO(tasks_per_iteration=16).improve(policy, rollouts, seed=0, output_dir=Path("x"))
    assert policy.digest() == before and not rollouts.episodes


def test_a_loss_that_is_not_finite_ends_it(toy_envs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy is then as it was before that step."""
    monkeypatch.setattr(ppo, "token_rewards", lambda episode, record, kl: torch.full((record.n,), torch.inf))
    policy = toy_envs.word_policy()
    before = policy.digest()
    with pytest.raises(TrainingError):
        PPO(tasks_per_iteration=4).improve(
            policy, toy_envs.rollouts(policy, toy_envs.CHAIN, 16), seed=0, output_dir=Path("x")
        )
    assert policy.digest() == before


def test_wrong_settings_are_refused(toy_envs: Any) -> None:
    """Each by its name; and sampling that it cannot learn from."""
    wrong: dict[str, Any] = {"tasks_per_iteration": 0, "epochs": 0, "clip": -1.0, "value_clip": -1.0, "vf_coef": -1.0}
    wrong |= {"gamma": 1.1, "gae_lambda": 1.1, "kl_coef": -1.0, "kl_target": -1.0, "critic_warmup": -1}
    wrong |= {"credit_level": "word"}
    wrong |= {"critic_learning_rate": 0.0, "critic_gradient": 1.1, "entropy_coef": -1.0, "learning_rate": 0.0}
    for name, value in wrong.items():
        with pytest.raises(ConfigError, match=name):
            PPO(**{name: value})
    with pytest.raises(ConfigError, match="vf_coef must not be 0"):
        PPO(vf_coef=0.0)
    with pytest.raises(ConfigError, match="kl_target"):
        PPO(kl_coef=0.0, kl_target=0.1)
    policy = toy_envs.word_policy()
    with pytest.raises(ConfigError, match="whole distribution"):
        PPO(tasks_per_iteration=2).improve(
            policy, toy_envs.rollouts(policy, toy_envs.BANDIT, 8, top_k=3), seed=0, output_dir=Path("x")
        )
