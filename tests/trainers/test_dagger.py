from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.agents import ExpertAgent
from agentgym_py.agents.expert import format_expert_reply
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError, SnapshotError
from agentgym_py.policy.tokens import RowSize, encode, encode_steps
from agentgym_py.rewards.expert_labels import Label, label_episode
from agentgym_trainers.dagger import (
    Aggregate,
    Dagger,
    LabelledEpisode,
    encode_labels,
    label_episodes,
    label_stats,
)
from agentgym_trainers.filtered_bc import FilteredBC

SMALL = {"tasks_per_iteration": 8, "learning_rate": 0.01, "epochs": 2.0}


def played(toy_envs: Any, policy: Any, spec: EnvSpec, number: int, tokens: int = 8) -> tuple[Any, Any]:
    """A policy's episodes and their jobs."""
    rollouts = toy_envs.rollouts(policy, spec, number, tokens=tokens)
    jobs = rollouts.jobs(number, 1)
    return jobs, rollouts.play(jobs)


@pytest.mark.parametrize("fair", [True, False])
@pytest.mark.parametrize("world", ["shop", "maze"])
def test_labels_are_what_the_expert_says_in_every_state(
    toy_envs: Any, tiny_policy: Any, world: str, fair: bool
) -> None:
    """Those of stepping the env by hand; asking leaves the env byte by byte as it was."""
    spec = EnvSpec(world, {"max_steps": 5})
    jobs, episodes = played(toy_envs, tiny_policy, spec, 2, tokens=16)
    found = label_episodes(jobs, episodes, ExpertAgent(fair=fair), costs=True)
    for trajectory, labels in zip(episodes, found, strict=True):
        env = spec.make()
        env.reset(seed=trajectory.provenance.env_seed, options={"task": trajectory.task_id})
        assert len(labels) == len(trajectory.steps) > 1
        for step, label in zip(trajectory.steps, labels, strict=True):
            before = env.snapshot()
            action, left = env.fair_expert() if fair else env.expert()[0], len(env.expert())
            assert isinstance(label, Label) and action is not None
            assert label.reply == format_expert_reply(env, action, env.expert_thought(action))
            assert env.snapshot() == before
            observation, *_ = env.step(step.reply)
            assert label.regret == (0 if env.stop_reason else max(0, 1 + len(env.expert()) - left))
        assert observation == trajectory.final_observation


def test_the_regret_of_a_step(toy_envs: Any) -> None:
    """What it added to the exact plan: 0 for the expert's action, 2 for a step back, all steps for a dead end."""
    spec = EnvSpec("ToyChain-v0", {"max_steps": 9})
    (trajectory,) = Collector(ExpertAgent()).collect_batch(jobs_for([spec], "train", range(1)))
    start, *rest = trajectory.steps
    there_and_back = [start, replace(rest[0], reply="left"), replace(start), *rest]
    with spec.make() as env:
        labels = label_episode(trajectory, env, ExpertAgent(), costs=True)
        assert [label.regret for label in labels if label] == [0.0] * 5 and all(
            label.agrees for label in labels if label
        )
        episode = replace(trajectory, steps=tuple(there_and_back))
        labels = label_episode(episode, env, ExpertAgent(), costs=True)
        assert [label.regret for label in labels if label] == [0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        assert [label.agrees for label in labels if label][:3] == [True, False, True]
        with pytest.raises(SnapshotError, match="the observation of step 1 differs"):
            label_episode(replace(trajectory, steps=(replace(start, observation="?"), *rest)), env, ExpertAgent())


def slow_targets(trajectory: Any, labels: Sequence[Label], policy: Any) -> list[tuple[list[int], list[int]]]:
    """For each state its whole history in tokens, and the label's tokens: one sequence a state, none shared."""
    targets = []
    for number, label in enumerate(labels):
        step = trajectory.steps[number]
        history = encode_steps(trajectory.rules, trajectory.steps[:number], policy.chat).input_ids
        targets.append(([*history, *step.tokens.context], policy.chat.reply(label.reply)))
    return targets


def slow_loss(policy: Any, targets: Sequence[tuple[list[int], list[int]]]) -> Any:
    """The mean of -log p over the labels' tokens, by a forward pass over each token's own prefix."""
    lost = []
    for history, reply in targets:
        for n, token in enumerate(reply):
            logits = policy.model(input_ids=torch.tensor([[*history, *reply[:n]]]), use_cache=False).logits[0, -1]
            lost.append(-torch.log_softmax(logits.detach(), -1)[token])
    return torch.stack(lost).mean()


def test_each_state_has_its_label_once_after_its_own_history(toy_envs: Any, loss_checks: Any) -> None:
    """The loss equals the sum over states of the label's log-probability, one state at a time.

    A label that the agent sampled itself stands in the episode; any other ends a sequence of its own.
    """
    policy = toy_envs.word_policy(spread=0.2)
    jobs, episodes = played(toy_envs, policy, toy_envs.CHAIN, 6, tokens=2)
    loss_checks.doubled(policy)
    found, agreed, corrected = label_episodes(jobs, episodes, ExpertAgent(), costs=False), 0, 0
    for trajectory, labels in zip(episodes, found, strict=True):
        # the agent's own reply is the label now and then
        same: list[Any] = [Label(s.reply, True) if n % 3 else label for n, (s, label) in
                enumerate(zip(trajectory.steps, labels, strict=True))]  # fmt: skip
        sequences = encode_labels(trajectory, same, policy.chat, 256)
        targets = slow_targets(trajectory, same, policy)
        assert sum(len(s.weights) for s in sequences) == sum(len(reply) for _, reply in targets)
        sampled = [list(s.tokens.ids) == reply for s, (_, reply) in zip(trajectory.steps, targets, strict=True)]
        assert len(sequences) == any(sampled) + sampled.count(False)
        agreed, corrected = agreed + sum(sampled), corrected + sampled.count(False)
        wanted = {(*history, *reply): len(history) for history, reply in targets}
        for sequence in sequences:
            ids, mask = sequence.sample.input_ids, sequence.sample.mask
            ends = [n + 1 for n, bit in enumerate(mask) if bit and not [*mask[n + 1 :], 0][0]]
            assert ends[-1] == len(ids)
            for end in ends:
                start = wanted.pop(tuple(ids[:end]))
                assert all(mask[start:end]) and not (start and mask[start - 1])
        assert not wanted
        fit = loss_checks.fitted(Dagger(), policy, sequences, size_of=lambda row: RowSize(1, 1))
        loss = float(loss_checks.share(Dagger(), fit, sequences, sum(len(reply) for _, reply in targets)).detach())
        assert loss == pytest.approx(float(slow_loss(policy, targets)), rel=1e-9)
    assert agreed and corrected


def test_the_loss_is_that_of_filtered_bc_on_the_same_targets(toy_envs: Any, loss_checks: Any) -> None:
    """The expert's own episodes, labelled by it, are what behaviour cloning learns, to the last gradient."""
    jobs = jobs_for([toy_envs.CHAIN], "train", range(4))
    episodes = Collector(ExpertAgent()).collect_batch(jobs)
    found, rows = label_episodes(jobs, episodes, ExpertAgent(), costs=True), []
    policies = [loss_checks.doubled(toy_envs.word_policy()) for _ in range(2)]
    for trajectory, labels in zip(episodes, found, strict=True):
        assert not isinstance(labels, str)
        (sequence,) = encode_labels(trajectory, labels, policies[0].chat, 256, cost_weight=2.0)
        assert sequence.sample == replace(encode(trajectory, policies[0].chat), prompt=None)
        rows.append(LabelledEpisode((sequence,)))
    losses, tokens = [], sum(row.label_tokens for row in rows)
    for trainer, policy, data in (
        (Dagger(), policies[0], [s for row in rows for s in row.sequences]),
        (FilteredBC(), policies[1], [row.sequences[0].sample for row in rows]),
    ):  # fmt: skip
        fit = loss_checks.fitted(trainer, policy, data, size_of=lambda row: RowSize(1, 1))
        losses.append(loss_checks.share_gradients(trainer, fit, data, tokens))
    assert float(losses[0][0]) == pytest.approx(float(losses[1][0]), rel=1e-12)
    loss_checks.check_gradients(losses[0][1].items(), losses[1][1].items())


def test_regret_weighs_labels(toy_envs: Any) -> None:
    """By 1 + cost_weight times the regret; the weights of all label tokens have the mean 1."""
    policy = toy_envs.word_policy()
    _, (trajectory, *_) = played(toy_envs, policy, toy_envs.CHAIN, 1)
    labels = [Label("right now", False, float(n % 3)) for n in range(len(trajectory.steps))]
    sequences = encode_labels(trajectory, labels, policy.chat, 256, cost_weight=2.0)
    assert [s.weights[0] for s in sequences[:3]] == [1.0, 3.0, 5.0]
    (row,) = Aggregate([trajectory], [LabelledEpisode(tuple(sequences))]).rows()
    weights = [w for s in row.sequences for w in s.weights]
    assert sum(weights) == pytest.approx(len(weights)) and weights[3] != weights[0] * 1.5


def test_a_label_behind_the_longest_context_is_left_out(toy_envs: Any) -> None:
    """And nothing else."""
    policy = toy_envs.word_policy()
    _, (trajectory, *_) = played(toy_envs, policy, toy_envs.CHAIN, 1)
    labels = [Label("right", True)] * len(trajectory.steps)
    whole = encode_labels(trajectory, labels, policy.chat, 256)
    longest = max(len(s.sample.input_ids) for s in whole) - 1
    fewer = encode_labels(trajectory, labels, policy.chat, longest)
    assert 0 < sum(len(s.weights) for s in fewer) < sum(len(s.weights) for s in whole)
    assert max(len(s.sample.input_ids) for s in fewer) <= longest


def test_the_expert_acts_with_probability_beta(toy_envs: Any, tmp_path: Path) -> None:
    """Always at 1, never at 0; half as often in each further iteration. Its tokens are context, never sampled ones."""
    for beta, expected in ((1.0, 1.0), (0.0, 0.0)):
        trainer = Dagger(**SMALL, beta=beta, beta_decay=1.0)  # type: ignore[arg-type]
        _, report, rollouts = toy_envs.improved(toy_envs.CHAIN, trainer, 8, tmp_path / str(beta), tokens=2)
        steps = [step for t in rollouts.episodes for step in t.steps]
        assert all(step.tokens for step in steps)
        assert all(any(step.tokens.mask) == (expected == 0) for step in steps)
        if beta:
            assert all(t.success for t in rollouts.episodes) and report.history[0]["agreement"] == 1
    trainer = Dagger(**SMALL, beta=0.5, beta_decay=0.5)  # type: ignore[arg-type]
    policy, report, rollouts = toy_envs.improved(toy_envs.CHAIN, trainer, 24, tmp_path / "half", tokens=2)
    assert [row["expert_share"] for row in report.history] == [0.5, 0.25, 0.125]
    assert {t.provenance.sampling["expert_share"] for t in rollouts.episodes} == {0.5, 0.25, 0.125}
    first = [not any(step.tokens.mask) for t in rollouts.episodes[:8] for step in t.steps]
    assert 0.3 < sum(first) / len(first) < 0.7
    for trajectory in rollouts.episodes:  # a mixed episode in tokens is the one in text
        for number, step in enumerate(trajectory.steps):
            if not any(step.tokens.mask):
                history = encode_steps(trajectory.rules, trajectory.steps[:number], policy.chat).input_ids
                text = replace(step, tokens=None)
                plain = encode_steps(trajectory.rules, [*trajectory.steps[:number], text], policy.chat).input_ids
                assert (
                    plain == [*history, *step.tokens.context, *step.tokens.ids]
                    or number == 0
                    or (step.tokens.context[0] == policy.chat.end_of_turn)
                )


def test_the_data_of_all_iterations_is_learnt_again(toy_envs: Any, tmp_path: Path) -> None:
    """Tokens grow with the iterations; the agent comes to do what the expert does where it goes itself."""
    trainer = Dagger(**SMALL | {"learning_rate": 0.03}, beta=0.0)  # type: ignore[arg-type]
    policy, report, rollouts = toy_envs.improved(toy_envs.CHAIN, trainer, 40, tmp_path, tokens=2)
    agreement = [row["agreement"] for row in report.history]
    assert agreement[-1] > 0.9 > agreement[0] and report.history[-1]["success"] == 1, agreement
    assert report.trajectories == 40 and not report.dropped
    ever = sum(sum(len(policy.chat.reply("right")) for _ in t.steps) for t in rollouts.episodes[:8])
    assert report.agent_tokens > 2 * 5 * ever > 0, "the first iteration's labels count in all five"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"beta": 1.5}, "at most 1"), ({"beta_decay": -0.1}, "beta_decay"), ({"cost_weight": -1.0}, "cost_weight"),
        ({"mask_truncated_completions": True}, "learns none of the sampled replies"),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], said: str) -> None:
    """In one line."""
    with pytest.raises(ConfigError, match=said):
        Dagger(**settings)


def test_label_stats_of_nothing() -> None:
    """Episodes without labels have no agreement."""
    assert label_stats(["failed", [None]]) == {"labels": 0.0}
