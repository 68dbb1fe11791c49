from __future__ import annotations

import copy
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.env import Outcome
from agentgym_py.errors import ConfigError, NothingToTrainOnError, TrainingError
from agentgym_py.policy.tokens import IGNORED
from agentgym_py.training.rl.learner import Learner
from agentgym_py.training.rl.losses import token_weights
from agentgym_trainers.grpo import (
    GRPO,
    VARIANTS,
    Variant,
    encode_group,
    grpo_loss,
    overlong_penalty,
    play_groups,
    returns_differ,
    settings_loss,
    shaped_return,
)

KINDS: list[Variant] = ["grpo", "dr_grpo", "dapo", "gspo", "cispo", "rloo"]
LENGTHS = [4, 1, 7, 2]


def slow_loss(
    kind: Variant, logps: Any, old: Any, advantages: Any, ref: Any, kl: float, low: float, high: float
) -> Any:
    """Each paper's objective, negated, sequence by sequence and token by token; B rows of ragged lengths.

    Dr. GRPO's constant is 16.
    """
    total, tokens = torch.zeros((), dtype=torch.float64), sum(len(row) for row in logps)
    for i, row in enumerate(logps):
        whole = torch.stack([row[t] - old[i][t] for t in range(len(row))]).sum()
        for t in range(len(row)):
            ratio = torch.exp({"gspo": whole / len(row), "rloo": whole}.get(kind, row[t] - old[i][t]))
            if kind == "cispo":
                gained = min(float(ratio.detach()), 1 + high) * advantages[i] * row[t]
            else:
                bounded = torch.clamp(ratio, 1 - low, 1 + high)
                gained = torch.minimum(ratio * advantages[i], bounded * advantages[i])
            lost = torch.exp(ref[i][t] - row[t]) - (ref[i][t] - row[t]) - 1
            share = {"dr_grpo": len(logps) * 16, "dapo": tokens, "cispo": tokens}.get(kind, len(logps) * len(row))
            total = total - (gained - kl * lost) / share
    return total


@pytest.fixture
def double() -> Any:
    """Weights of tokens in double precision too."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("kl", [0.0, 0.3])
@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_the_papers(loss_checks: Any, kind: Variant, kl: float) -> None:
    """Value and gradient equal the slow loop's, to 1e-9, with ratios on both sides of both bounds."""
    logps, old, ref = (loss_checks.drawn(14, seed=seed) * 0.4 - 1 for seed in (1, 2, 3))
    advantages = loss_checks.drawn(4, seed=4)
    row_N = torch.repeat_interleave(torch.arange(4), torch.tensor(LENGTHS))
    weights_N = torch.cat(token_weights(LENGTHS, VARIANTS[kind].weighting, 16.0, torch.float64))
    how: dict[str, Any] = {"variant": kind, "low": 0.2, "high": 0.28, "ref_logps_N": ref, "kl_coef": kl}

    def fast(x: Any) -> Any:
        return (grpo_loss(x, old, advantages[row_N], row_N, **how).loss_N * weights_N).sum()

    def slow(x: Any) -> Any:
        return slow_loss(kind, x.split(LENGTHS), old.split(LENGTHS), advantages, ref.split(LENGTHS), kl, 0.2, 0.28)

    loss_checks.check_formula(fast, slow, logps, checked=kind != "cispo")  # whose weight is no function of logps
    assert 0 < grpo_loss(logps, old, advantages[row_N], row_N, **how).logged_N["clip_fraction"].mean() < 1


@pytest.mark.parametrize("kind", KINDS)
def test_observations_padding_order_and_passes_do_not_matter(toy_envs: Any, loss_checks: Any, kind: Variant) -> None:
    """A step is the same in whatever order and passes records go; states before observations get no gradient."""
    settings = GRPO(variant=kind, kl_coef=0.1, max_tokens=16)
    loss_checks.check_steps(toy_envs, settings, partial(settings_loss, settings), VARIANTS[kind].weighting, 16.0)


def test_without_a_reference_there_is_no_kl(loss_checks: Any) -> None:
    """Whatever its weight; and at the policy that sampled, ratios are 1 and nothing is clipped."""
    logps, row_N = loss_checks.drawn(5, seed=1), torch.tensor([0, 0, 1, 1, 1])
    found = grpo_loss(logps, logps, torch.ones(5, dtype=torch.float64), row_N, kl_coef=9.0)
    assert found.loss_N.tolist() == [-1.0] * 5 and found.logged_N["clip_fraction"].sum() == 0


@pytest.fixture(scope="module")
def trl_trainer(toy_envs: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """TRL's own, on the model that the tests train."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    policy = toy_envs.word_policy()
    args = GRPOConfig(
        output_dir=str(tmp_path_factory.mktemp("trl")), use_cpu=True, bf16=False, gradient_checkpointing=False,
        per_device_train_batch_size=6, num_generations=2, max_completion_length=16, temperature=0.8, beta=0.0,
        epsilon=0.2, epsilon_high=0.28, use_bias_correction_kl=False, report_to="none", disable_tqdm=True,
    )  # fmt: skip
    trainer = GRPOTrainer(
        model=policy.model, reward_funcs=lambda completions, **_: [0.0] * len(completions), args=args,
        train_dataset=Dataset.from_dict({"prompt": ["0"] * 6}), processing_class=policy.tokenizer,
    )  # fmt: skip
    trainer.current_gradient_accumulation_steps = 1
    return trainer


def trl_batch(records: Any) -> dict[str, Any]:
    """Records as GRPOTrainer holds them: prompts padded at the left, the rest at the right, observations masked."""
    cuts = [int((record.labels != IGNORED).nonzero()[0]) for record in records]
    before, after = max(cuts), max(len(r.input_ids) - cut for r, cut in zip(records, cuts, strict=True))
    names = {"prompt_ids": before, "prompt_mask": before} | dict.fromkeys(
        ("completion_ids", "completion_mask", "tool_mask"), after
    )
    found = {name: torch.zeros(len(records), width, dtype=torch.long) for name, width in names.items()}
    found |= {name: torch.zeros(len(records), after) for name in ("old_per_token_logps", "ref_per_token_logps")}
    for i, (record, cut) in enumerate(zip(records, cuts, strict=True)):
        rest = len(record.input_ids) - cut
        found["prompt_ids"][i, before - cut :], found["prompt_mask"][i, before - cut :] = record.input_ids[:cut], 1
        found["completion_ids"][i, :rest], found["completion_mask"][i, :rest] = record.input_ids[cut:], 1
        own = record.labels[cut:] != IGNORED
        found["tool_mask"][i, :rest] = own
        found["old_per_token_logps"][i, :rest][own] = record.old_logps_n
        found["ref_per_token_logps"][i, :rest][own] = record.ref_logps_n
    found["advantages"] = torch.stack([record.advantages_n[0] for record in records])
    found["num_items_in_batch"] = found["tool_mask"].sum()
    return found


@pytest.mark.parametrize("beta", [0.0, 0.1])
@pytest.mark.parametrize("kind", ["grpo", "dr_grpo", "dapo", "cispo", "gspo"])
def test_loss_and_gradient_are_trls(toy_envs: Any, trl_trainer: Any, kind: Variant, beta: float) -> None:
    """On the same records of several turns, in passes, those of GRPOTrainer over whole rows."""
    policy = toy_envs.word_policy()
    records = toy_envs.random_records(policy, [[3, 1], [2], [1, 1, 4], [5], [2, 2], [1]])
    generator = torch.Generator().manual_seed(0)
    for record, advantage in zip(records, (1.2, -0.7, 0.4, -1.1, 0.3, -0.2), strict=True):
        with torch.no_grad():
            now = torch.stack(toy_envs.slow_logps(policy.model, record, 0.8))
        record.old_logps_n = now + 0.3 * torch.randn(record.n, generator=generator)
        record.ref_logps_n = now + 0.3 * torch.randn(record.n, generator=generator)
        record.advantages_n = torch.full((record.n,), advantage)
    trl_trainer.loss_type = "grpo" if kind == "gspo" else kind
    trl_trainer.importance_sampling_level = "sequence" if kind == "gspo" else "token"
    trl_trainer.epsilon_high = 1.28 if kind == "cispo" else 0.28
    trl_trainer.beta = beta
    model = trl_trainer.model.train()
    model.zero_grad()
    expected = trl_trainer._compute_loss(model, trl_batch(records))
    expected.backward()
    settings = GRPO(variant=kind, kl_coef=beta, max_tokens=16, microbatch_tokens=40, max_grad_norm=0.0)
    learner = Learner(policy, settings, seed=0, temperature=0.8)
    logged = toy_envs.step(learner, records, partial(settings_loss, settings), VARIANTS[kind].weighting, 16)
    assert logged["loss"] == pytest.approx(float(expected.detach()), abs=1e-6) and logged["clip_fraction"] > 0
    assert logged["policy_loss"] + logged["kl_loss"] == pytest.approx(logged["loss"], abs=1e-6)
    assert (logged["kl_loss"] > 1e-4) == (beta > 0)
    ours = dict(policy.model.named_parameters())
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(ours[name].grad, parameter.grad, rtol=1e-4, atol=1e-6)


def test_rloos_loss_and_gradient_are_trls(toy_envs: Any, tmp_path: Path) -> None:
    """On episodes of one turn, for trl's RLOOTrainer knows no observations."""
    from datasets import Dataset
    from trl import RLOOConfig, RLOOTrainer

    policy, other = toy_envs.word_policy(), toy_envs.word_policy()
    records = toy_envs.random_records(policy, [[3], [2], [6], [5], [2], [1]])
    generator = torch.Generator().manual_seed(0)
    for record, advantage in zip(records, (1.2, -0.7, 0.4, -1.1, 0.3, -0.2), strict=True):
        with torch.no_grad():
            now = torch.stack(toy_envs.slow_logps(policy.model, record, 0.8))
        record.old_logps_n = now + 0.2 * torch.randn(record.n, generator=generator)
        record.ref_logps_n = now
        record.advantages_n = torch.full((record.n,), advantage)
    args = RLOOConfig(
        output_dir=str(tmp_path), use_cpu=True, bf16=False, gradient_checkpointing=False, num_generations=2,
        per_device_train_batch_size=6, max_completion_length=16, temperature=0.8, beta=0.0, epsilon=0.2,
        epsilon_high=0.28, report_to="none", disable_tqdm=True,
    )  # fmt: skip
    trainer = RLOOTrainer(
        model=other.model, reward_funcs=lambda completions, **_: [0.0] * len(completions), args=args,
        train_dataset=Dataset.from_dict({"prompt": ["0"] * 6}), processing_class=other.tokenizer,
    )  # fmt: skip
    batch = trl_batch(records)
    batch |= {"completion_mask": batch["tool_mask"], "old_logps": batch["old_per_token_logps"].sum(1)}
    expected = trainer._compute_loss(other.model.train(), batch)
    expected.backward()
    settings = GRPO(variant="rloo", microbatch_tokens=40, max_grad_norm=0.0)
    learner = Learner(policy, settings, seed=0, temperature=0.8)
    logged = toy_envs.step(learner, records, partial(settings_loss, settings), VARIANTS["rloo"].weighting)
    assert logged["loss"] == pytest.approx(float(expected.detach()), abs=1e-6) and logged["clip_fraction"] > 0
    ours = dict(policy.model.named_parameters())
    for name, parameter in other.model.named_parameters():
        torch.testing.assert_close(ours[name].grad, parameter.grad, rtol=1e-4, atol=1e-6)


def test_overlong_replies_are_punished_softly() -> None:
    """Equation 13 at its corners; without a buffer nothing is."""
    assert [overlong_penalty(n, 100, 20) for n in (1, 80, 85, 90, 100, 500)] == [0, 0, -0.25, -0.5, -1, -1]
    assert overlong_penalty(500, 100, 0) == 0


# ---------------------------------------------------------------------------------------------------------- learning


def chance_of_right(toy_envs: Any, policy: Any) -> float:
    """What a policy gives the better arm."""
    ids = torch.tensor([policy.chat.opening("0")])
    with torch.no_grad():
        probabilities = torch.softmax(policy.model(input_ids=ids).logits[0, -1], -1)
    return float(sum(probabilities[policy.tokenizer.convert_tokens_to_ids(word)] for word in toy_envs.RIGHT))


@pytest.mark.parametrize("kind", KINDS)
def test_it_solves_a_bandit(toy_envs: Any, kind: Variant) -> None:
    """30 steps of 32 episodes make the better arm nearly certain, which was not, though it pays in 4 of 5 tasks only.

    Dr. GRPO divides by a constant: here, of one token.
    """
    trainer = GRPO(variant=kind, tasks_per_iteration=4, learning_rate=0.03, max_tokens=1)
    assert chance_of_right(toy_envs, toy_envs.word_policy()) < 0.6
    policy, report, _ = toy_envs.improved(toy_envs.BANDIT, trainer, 30 * 32)
    assert len(report.history) == 30 and chance_of_right(toy_envs, policy) > 0.95
    assert report.history[-1]["return"] > 0.7


def test_it_solves_a_chain(toy_envs: Any) -> None:
    """40 steps of 32 episodes: nearly the best return, 0.75, where Agent_v0 has less than nothing."""
    _, report, _ = toy_envs.improved(toy_envs.CHAIN, GRPO(tasks_per_iteration=4, learning_rate=0.02), 40 * 32)
    returns = [row["return"] for row in report.history]
    assert len(returns) == 40 and returns[0] < 0.2 and sum(returns[-5:]) / 5 > 0.7


def test_a_branch_is_compared_with_itself_alone(toy_envs: Any) -> None:
    """Each branch has its own mean; only what follows its state is learnt; whole trees are played, none is left out."""
    policy = toy_envs.word_policy()
    rollouts = toy_envs.rollouts(policy, toy_envs.CHAIN, 29, seed=3)
    trainer = GRPO(variant="dr_grpo", group_size=4, tasks_per_iteration=2, branches=2)
    groups = play_groups(trainer, rollouts)
    assert len(groups) == 6 and rollouts.remaining == 5
    compared = 0
    for number, group in enumerate(groups):
        records = encode_group(trainer, group, VARIANTS["dr_grpo"].scale, policy, Counter())
        mean = sum(each.reward for each in group) / 4
        for each, record in zip(group, records, strict=len(records) > 0):
            own = [n for n, step in enumerate(each.steps) if step.trained]
            assert record.turns == own and (own[0] > 0) == (number >= 2)
            assert record.advantages_n is not None
            assert record.advantages_n.tolist() == pytest.approx([each.reward - mean] * record.n)
            compared += number >= 2
    assert compared > 0


def test_it_solves_a_chain_by_trees(toy_envs: Any) -> None:
    """In as many episodes as without: each task of the 40 iterations has a group and a branch."""
    trainer = GRPO(tasks_per_iteration=2, branches=1, learning_rate=0.02)
    _, report, rollouts = toy_envs.improved(toy_envs.CHAIN, trainer, 40 * 32)
    whole = [each for each in rollouts.episodes if each.steps[0].trained]
    assert len(report.history) >= 40 and report.trajectories + sum(report.dropped.values()) == len(rollouts.episodes)
    assert sum(each.reward for each in whole[:32]) / 32 < 0.2 and sum(each.reward for each in whole[-80:]) / 80 > 0.7


def test_it_says_what_it_did(toy_envs: Any) -> None:
    """Counts add up to what was played; the first step's ratio is 1; the same seed gives the same weights."""
    trainer = GRPO(tasks_per_iteration=4, group_size=4, kl_coef=0.1, minibatch_size=16, learning_rate=0.02)
    found = [toy_envs.improved(toy_envs.CHAIN, trainer, 50, seed=seed, tokens=2) for seed in (1, 1, 2)]
    (policy, report, rollouts), (again, *_), (other, *_) = found
    assert policy.digest() == again.digest() != other.digest()
    assert len(rollouts.episodes) == 48 == report.trajectories + sum(report.dropped.values())
    assert all(report.dropped.values()), "no reason stands with 0"
    assert len(report.history) == 3 == len(report.loss) and 0 < report.agent_tokens < report.tokens
    first, last = report.history[0], report.history[-1]
    assert first["ratio"] == pytest.approx(1, abs=1e-4) and first["clip_fraction"] == 0
    assert abs(first["kl_ref_k3"]) < 1e-6 < 1e-5 < last["kl_ref_k3"]
    assert first["episodes"] == 16 and 0 <= first["groups_all_the_same"] < 1
    digests = {each.provenance.policy_digest for each in rollouts.episodes}
    assert len(digests) == 3, "each iteration plays with the weights of now"


@pytest.mark.parametrize("kl", [0.0, 0.1])
def test_it_plays_and_learns_with_lora(toy_envs: Any, kl: float) -> None:
    """The adapters play too, and stay apart from the base, whose weights stay as they are."""
    trainer = GRPO(tasks_per_iteration=4, lora_rank=2, kl_coef=kl, learning_rate=0.05)
    policy = toy_envs.word_policy(spread=0.2)
    before, rollouts = chance_of_right(toy_envs, policy), toy_envs.rollouts(policy, toy_envs.BANDIT, 20 * 32)
    report = trainer.improve(policy, rollouts, seed=0, output_dir=Path("unused"))
    assert chance_of_right(toy_envs, policy) > before + 0.2
    assert hasattr(policy.model, "peft_config") and len(report.history) == 20
    assert rollouts.episodes[-1].provenance.policy_digest != policy.digest()


def test_a_group_that_ties_teaches_nothing(toy_envs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is counted; where all do, that is an error that says so, and the policy stays as it is."""
    monkeypatch.setattr(toy_envs.Bandit, "move", lambda self, right: Outcome("2", 0.5, terminated=True))
    policy = toy_envs.word_policy()
    before, rollouts = policy.digest(), toy_envs.rollouts(policy, toy_envs.BANDIT, 32)
    with pytest.raises(
        NothingToTrainOnError, match=r"nothing to learn from 32 .*: 32 in a group with identical returns"
    ):
        GRPO(tasks_per_iteration=2).improve(policy, rollouts, seed=0, output_dir=Path("unused"))
    assert policy.digest() == before


def test_a_budget_without_a_group_is_refused(toy_envs: Any) -> None:
    """Before anything is played."""
    policy = toy_envs.word_policy()
    GRPO(group_size=8).check_round(8)
    with pytest.raises(ConfigError, match="group_size 4 with branches 2 takes 12 episodes per task, and there are 11"):
        GRPO(group_size=4, branches=2).check_round(11)
    with pytest.raises(ConfigError, match="group_size 8 takes 8 episodes per task, and there are 7"):
        GRPO(group_size=8).improve(
            policy, toy_envs.rollouts(policy, toy_envs.BANDIT, 7), seed=0, output_dir=Path("unused")
        )


def test_what_failed_by_infrastructure_is_not_compared(toy_envs: Any) -> None:
    """An episode with an error has no part in its group's mean; a group that has one sound try left teaches nothing."""
    policy = toy_envs.word_policy()
    (group,) = toy_envs.rollouts(policy, toy_envs.CHAIN, 4).groups(1, 4)
    group = [replace(each, reward=float(i)) for i, each in enumerate(group)]
    dropped = Counter[str]()
    broken = [*group[:3], replace(group[3], reward=99.0, error="it hangs")]
    how = GRPO(variant="dr_grpo")
    records = encode_group(how, broken, VARIANTS[how.variant].scale, policy, dropped)
    found = [record.advantages_n for record in records]
    assert [float(each[0]) for each in found if each is not None] == [-1.0, 0.0, 1.0]
    assert dropped == {"ended by an infrastructure error": 1}
    alone = [group[0], *(replace(each, error="it hangs") for each in group[1:])]
    assert encode_group(GRPO(), alone, "std", policy, dropped) == []


def test_dynamic_sampling_fills_the_batch(toy_envs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every second task cannot be won, about twice as many groups are played, and as many as wanted differ."""

    def move(self: Any, right: bool) -> Outcome:
        won = right and int(self.current_task.id.rsplit("/", 1)[1]) % 2 == 0
        return Outcome("2", float(won), terminated=True, success=won)

    monkeypatch.setattr(toy_envs.Bandit, "move", move)
    trainer = GRPO(tasks_per_iteration=4, learning_rate=1e-6, dynamic_sampling=True)
    _, report, _ = toy_envs.improved(toy_envs.BANDIT, trainer, 16 * 8)
    first = report.history[0]
    assert first["groups"] >= 7 and round(first["groups"] * (1 - first["groups_all_the_same"])) == 4
    _, plain, _ = toy_envs.improved(toy_envs.BANDIT, replace(trainer, dynamic_sampling=False), 16 * 8)
    assert plain.history[0]["groups"] == 4


def test_dynamic_sampling_fills_the_batch_with_branches_too(toy_envs: Any) -> None:
    """A batch is `tasks_per_iteration` trees of groups then."""
    trainer = GRPO(tasks_per_iteration=4, group_size=4, branches=3, learning_rate=1e-6, dynamic_sampling=True)
    _, report, _ = toy_envs.improved(toy_envs.CHAIN, trainer, 4 * 16 * 8)
    first = report.history[0]
    assert 16 <= round(first["groups"] * (1 - first["groups_all_the_same"])) < 20 and first["groups"] > 16


def test_the_return_is_compared(toy_envs: Any) -> None:
    """Less what an overlong reply costs."""
    policy = toy_envs.word_policy()
    ((episode,),) = toy_envs.rollouts(policy, toy_envs.CHAIN, 1, tokens=2).groups(1, 1)
    written = sum(len(step.tokens.ids) for step in episode.steps)
    assert shaped_return(GRPO(), episode) == episode.reward
    short = GRPO(max_tokens=written, overlong_buffer=4)
    assert shaped_return(short, episode) == pytest.approx(episode.reward - 1)


def test_a_loss_that_is_not_finite_ends_it(toy_envs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy is then as it was before that step: here, as after the first one."""
    policy = toy_envs.word_policy()
    after: list[str] = []
    annotate = Learner.annotate

    def spoils(self: Learner, records: Any) -> None:
        after.append(policy.digest())
        annotate(self, records)
        if len(after) == 2:
            records[0].advantages_n = records[0].advantages_n * float("nan")

    monkeypatch.setattr(Learner, "annotate", spoils)
    with pytest.raises(TrainingError):
        GRPO(tasks_per_iteration=4, group_size=4, learning_rate=0.1).improve(
            policy, toy_envs.rollouts(policy, toy_envs.CHAIN, 64), seed=0, output_dir=Path("unused")
        )
    assert policy.digest() == after[1] != after[0]


def test_a_reference_that_does_not_count_spoils_nothing() -> None:
    """However unlikely it says that a token is: `max_kl` and the log want one at `kl_coef` 0."""
    logps, far = torch.zeros(2, requires_grad=True), torch.tensor([0.0, 2000.0])
    found = grpo_loss(logps, torch.zeros(2), torch.ones(2), torch.tensor([0, 0]), ref_logps_N=far, kl_coef=0.0)
    torch.autograd.backward(found.loss_N.sum())
    assert logps.grad is not None and logps.grad.tolist() == [-1.0, -1.0] and not found.logged_N["kl_loss"].any()


def test_what_only_rounding_tells_apart_is_the_same(toy_envs: Any) -> None:
    """Sums of rewards in another order: no group to learn from, however large an advantage would be made of it."""
    (group,) = toy_envs.rollouts(toy_envs.word_policy(), toy_envs.BANDIT, 3).groups(1, 3)
    for returns, apart in ([0.1 + 0.2, 0.3, 0.3], False), ([0.3001, 0.3, 0.3], True), ([1.0, 1.0, 1.0], False):
        tries = [replace(each, reward=value) for each, value in zip(group, returns, strict=True)]
        assert returns_differ(GRPO(), tries) is apart
    assert not returns_differ(GRPO(), [replace(each, error="gone") for each in group])


def test_wrong_settings_are_refused(toy_envs: Any) -> None:
    """Each by its name; and sampling that it cannot learn from."""
    wrong: dict[str, Any] = {
        "group_size": 1,
        "tasks_per_iteration": 0,
        "epochs": 0,
        "clip_low": -0.1,
        "clip_high": -0.1,
    }
    wrong |= {"kl_coef": -1.0, "max_tokens": 0, "overlong_buffer": -1, "variant": "gpro"}
    wrong |= {"branches": -1, "minibatch_size": 0}
    for name, value in wrong.items():
        with pytest.raises(ConfigError, match=name):
            GRPO(**{name: value})
    with pytest.raises(ConfigError, match="overlong_buffer must be at most max_tokens 8"):
        GRPO(max_tokens=8, overlong_buffer=9)
    policy = copy.deepcopy(toy_envs.word_policy())
    with pytest.raises(ConfigError, match="whole distribution"):
        GRPO().improve(
            policy, toy_envs.rollouts(policy, toy_envs.BANDIT, 8, temperature=0.0), seed=0, output_dir=Path("x")
        )
