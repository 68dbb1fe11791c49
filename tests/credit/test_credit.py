from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from statistics import fmean, variance
from typing import Any

import numpy as np
import pytest

from agentgym_py.agents import AgentReply, Episode, ExpertAgent, ModelAgent, RandomAgent
from agentgym_py.collection import Collector, Job, jobs_for
from agentgym_py.credit import (
    CreditConfig,
    CreditReport,
    CreditSample,
    Judge,
    collect_probes,
    measure_credit,
    measure_estimator,
)
from agentgym_py.credit import estimators as E  # noqa: N812  # as the functions of a table
from agentgym_py.credit.exact import Enumeration
from agentgym_py.credit.lab import mean_ranks, spearman
from agentgym_py.engine import HFEngine, SamplingParams
from agentgym_py.env import EnvSpec, StopReason, TextEnv
from agentgym_py.errors import ConfigError
from agentgym_py.feedback.types import EpisodeRef, Feedback, NoFeedback, ScoreFeedback
from agentgym_py.rng import Rng
from agentgym_py.trajectory import Trajectory

MAZE = EnvSpec("maze", {"difficulty": "easy", "max_steps": 4})


class Coin:
    """Right with a known probability, otherwise left."""

    name = "coin"
    policy_digest: str | None = None

    def __init__(self, right: float = 0.7) -> None:
        self.right = right
        self.sampling: dict[str, Any] = {}

    def action_probabilities(self, env: TextEnv) -> dict[str, float]:
        return {"right": self.right, "left": 1 - self.right}

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        return [AgentReply("right" if Rng(e.seed, len(e.steps)).uniform() < self.right else "left") for e in episodes]


Rewarded = Callable[..., Trajectory]


@pytest.fixture
def rewarded(episode: Callable[..., Trajectory]) -> Rewarded:
    """A function that makes an episode of rewards; its observations are `page 0`, `page 1`, … or those given."""

    def make(*rewards: float, pages: Sequence[str] = (), **fields: Any) -> Trajectory:
        made = episode(*["go"] * len(rewards), **fields)
        names = pages or [step.observation for step in made.steps]
        steps = [
            replace(step, reward=reward, observation=name)
            for step, reward, name in zip(made.steps, rewards, names, strict=True)
        ]
        return replace(made, steps=tuple(steps), reward=sum(rewards))

    return make


# ---- estimators -----------------------------------------------------------------------------------------------------


def test_returns_are_discounted_to_their_step(rewarded: Rewarded) -> None:
    assert E.return_to_go(rewarded(1, 2, 4), 1) == 6
    assert E.return_to_go(rewarded(1, 2, 4), 0, 0.5) == 1 + 1 + 1


def test_estimators_of_a_group_are_their_formulas(rewarded: Rewarded) -> None:
    """By hand, for a group with the returns 3, 1 and 0, of which two episodes have a second step."""
    group = [rewarded(1, 2), rewarded(1, 0), rewarded(0)]
    own = CreditSample(group, 0, 1, [rewarded(1, 0), rewarded(1, 1)])
    mean, std = 4 / 3, math.sqrt(((3 - 4 / 3) ** 2 + (1 - 4 / 3) ** 2 + (4 / 3) ** 2) / 2)
    assert E.dr_grpo(own) == pytest.approx(3 - mean)
    assert E.grpo(own) == pytest.approx((3 - mean) / std, rel=1e-3)
    assert E.rloo(own) == pytest.approx(3 - 0.5)
    assert E.turn_group(own) == pytest.approx(2 - (2 + 0) / 2)
    assert E.turn_group(own._replace(step=0)) == pytest.approx(3 - mean)
    assert E.tree(own) == pytest.approx(2 - 0.5)
    assert own.episode is group[0]


def test_gigpo_compares_steps_with_the_same_observation(rewarded: Rewarded) -> None:
    """In any turn of any episode, the own one included, with discounted returns to go."""
    group = [rewarded(0, 1, pages=("a", "b")), rewarded(0, 0, 2, pages=("b", "a", "b")), rewarded(0, pages=("c",))]
    estimate = E.GiGPO(weight=2.0, gamma=0.5)(CreditSample(group, 0, 1, []))
    in_b = [1.0, 0.25 * 2, 2.0]
    assert estimate == pytest.approx((1 - 1) + 2.0 * (1.0 - sum(in_b) / 3))


@pytest.mark.parametrize("stop", [StopReason.TERMINATED, StopReason.TRUNCATED])
def test_gae_is_the_sum_of_its_deltas(rewarded: Rewarded, stop: StopReason) -> None:
    """Beside a slow sum; a truncated episode continues with the critic's value of its last observation."""
    gae = E.GAE(gamma=0.9, lam=0.8)
    episodes = [rewarded(0, 0, 1), rewarded(0, 0.5, 0, task="b"), rewarded(1, task="c")]
    gae.fit(episodes)
    own = rewarded(0.2, 0, 1, stop_reason=stop)
    values = [gae.value(step.observation, n) for n, step in enumerate(own.steps)]
    values.append(gae.value(own.final_observation, 3) if stop is StopReason.TRUNCATED else 0.0)
    assert any(values)
    deltas = [step.reward + 0.9 * values[n + 1] - values[n] for n, step in enumerate(own.steps)]
    for step in range(3):
        slow = sum((0.9 * 0.8) ** k * delta for k, delta in enumerate(deltas[step:]))
        assert gae(CreditSample([own], 0, step, [])) == pytest.approx(slow, abs=1e-6)


def test_a_critic_learns_values_that_words_tell(rewarded: Rewarded) -> None:
    good = [rewarded(1, pages=("near the goal",)) for _ in range(20)]
    bad = [rewarded(0, pages=("far away",)) for _ in range(20)]
    gae = E.GAE()
    gae.fit([*good, *bad])
    assert gae.value("near the goal", 0) > 0.9 and gae.value("far away", 0) < 0.1


def test_progress_is_the_gain_in_the_experts_value() -> None:
    """Each of the expert's own steps in the maze gains the factor 1 / 0.9; a wasted step loses it."""
    (plan,) = Collector(ExpertAgent(thoughts=False)).collect_batch(jobs_for("maze", "train", [0]))
    progress, last = E.Progress(), len(plan.steps)
    for step in range(last):
        value = progress(CreditSample([plan], 0, step, []))
        assert value == pytest.approx(0.9 ** (last - step - 1) - 0.9 ** (last - step))
    r3 = E.R3(beta=2.0)
    r3.fit([plan])
    sample = CreditSample([plan], 0, 0, [])
    gae = E.GAE()
    gae.fit([plan])
    assert r3(sample) == pytest.approx(gae(sample) + 2 * progress(sample))
    progress.close()
    r3.close()


# ---- exact values ---------------------------------------------------------------------------------------------------


def brute_force(env: TextEnv, agent: Any) -> float:
    """The value of a state without a memory of states."""
    if env.stop_reason:
        return 0.0
    state, total = env.snapshot(), 0.0
    for reply, probability in agent.action_probabilities(env).items():
        _, reward, *_ = env.step(reply)
        total += probability * (float(reward) + brute_force(env, agent))
        env.restore(state)
    return total


def test_enumeration_is_the_sum_over_all_episodes(toy_envs: Any) -> None:
    """In two worlds; the environment is left as it was."""
    for spec, agent in ((MAZE, RandomAgent()), (EnvSpec("ToyChain-v0", {"max_steps": 6}), Coin())):
        env = spec.make()
        env.reset(seed=0, options={"task": env.task(3, "train").id})
        before = env.snapshot()
        assert Enumeration(agent).value(env) == pytest.approx(brute_force(env, agent))
        assert env.snapshot() == before


def test_an_enumeration_that_is_too_large_is_an_error(toy_envs: Any) -> None:
    env = EnvSpec("ToyChain-v0").make()
    env.reset(seed=0)
    with pytest.raises(ConfigError, match="more than 5 states; use forks"):
        Enumeration(Coin(), most_states=5).value(env)


def test_probabilities_of_a_random_agent_sum_up() -> None:
    env = MAZE.make()
    env.reset(seed=0)
    probabilities = RandomAgent().action_probabilities(env)
    assert set(probabilities) == set(env.actions() or ()) and sum(probabilities.values()) == pytest.approx(1)


class Counter:
    """A source whose scores are a tenth of an episode's valid steps; it keeps what it was asked."""

    def __init__(self, no_score: str = "", **fields: Any) -> None:
        self.no_score, self.asked = no_score, list[Trajectory]()

    def feedback(self, trajectories: Sequence[Trajectory]) -> list[Feedback]:
        self.asked += trajectories
        refs = [EpisodeRef.of(trajectory) for trajectory in trajectories]
        if self.no_score:
            return [NoFeedback(ref, self.no_score) for ref in refs]
        return [
            ScoreFeedback(ref, sum(step.valid for step in trajectory.steps) / 10)
            for ref, trajectory in zip(refs, trajectories, strict=True)
        ]


def test_a_judge_credits_the_gain_of_its_score(episode: Callable[..., Trajectory]) -> None:
    """Of the episode so far; at the first step, beside the group's first steps. It is asked once for each."""
    own, other = episode("go", "go", "go", success=True), episode("stay", "go")
    own = replace(own, steps=(own.steps[0], replace(own.steps[1], valid=False), own.steps[2]))
    other = replace(other, steps=(replace(other.steps[0], valid=False), other.steps[1]))
    source = Counter()
    judge, samples = Judge(source), [CreditSample([own, other], 0, step, []) for step in range(3)]
    judge.prepare(samples)
    assert [judge(sample) for sample in samples] == pytest.approx([0.1 - 0.05, 0.0, 0.1])
    assert sorted(len(asked.steps) for asked in source.asked) == [1, 1, 2, 3]
    beginning = next(asked for asked in source.asked if len(asked.steps) == 2)
    assert beginning.final_observation == own.steps[2].observation
    assert not beginning.success and beginning.stop_reason is None and own.success


def test_a_judge_reads_the_steps_before_a_fork_too(episode: Callable[..., Trajectory]) -> None:
    """They are not trained, and a source such as the expert scores only steps that are."""
    own = episode("go", "go", "go")
    forked = replace(own, steps=(*(replace(step, trained=False) for step in own.steps[:2]), own.steps[2]))
    source = Counter()
    Judge(source)(CreditSample([forked], 0, 2, []))
    assert [[step.trained for step in asked.steps] for asked in source.asked] == [[True] * 3, [True] * 2]


def test_a_judge_without_a_score_is_an_error(episode: Callable[..., Trajectory]) -> None:
    sample = CreditSample([episode("go", "go")], 0, 1, [])
    with pytest.raises(ConfigError, match=r"the judge has no score of .*: too long"):
        Judge(Counter("too long"))(sample)
    silent = Counter()
    silent.feedback = lambda trajectories: []  # type: ignore[method-assign]
    with pytest.raises(ConfigError, match="the judge must score episodes"):
        Judge(silent)(sample)


# ---- the lab --------------------------------------------------------------------------------------------------------


def lab(toy_envs: Any, estimators: dict[str, Any], config: CreditConfig, **more: Any) -> CreditReport:
    """A measurement in the chain, where a step costs and the fifth right move pays."""
    agent = Coin()
    return measure_credit(
        agent, Collector(agent).collect_batch, [EnvSpec("ToyChain-v0", {"max_steps": 7})], estimators, config, **more
    )


def test_the_lab_finds_what_is_unbiased(toy_envs: Any) -> None:
    """Tree rollouts have no bias, in rms either; the turn's group has one; the truth itself is perfect."""
    agent = Coin()
    config = CreditConfig(group_size=4, episodes=2, steps=3, continuations=16, redraws=32)
    spec = EnvSpec("ToyChain-v0", {"max_steps": 7})
    probes = collect_probes(agent, Collector(agent).collect_batch, [spec], config, tasks=range(12))
    assert probes.truth == "exact" and len(probes.probes) == 12 * 2 * 3

    def truth(sample: CreditSample) -> float:
        return next(p.advantage for p in probes.probes if p.trunk.steps[: p.step + 1] == steps_of(sample))

    def steps_of(sample: CreditSample) -> Any:
        return tuple(replace(step, trained=True) for step in sample.episode.steps[: sample.step + 1])

    scores = {score.name: score for score in lab(
        toy_envs, {"tree": E.tree, "turn_group": E.turn_group, "none": lambda _: 0.0}, config, tasks=range(12)
    ).scores}  # fmt: skip
    tree, turn, none = scores["tree"], scores["turn_group"], scores["none"]
    assert tree.bias.low <= 0 <= tree.bias.high and tree.rms_bias.low == 0
    assert turn.rms_bias.low > 0.02 and turn.rms_bias.value > tree.rms_bias.value
    assert none.sd == 0 and none.cosine.value == none.rank_correlation.value == 0
    assert none.bias.value == pytest.approx(-probes.advantages_N.mean())
    measured = measure_estimator("truth", truth, probes, config)
    assert np.allclose(measured.biases_2N, 0) and np.allclose(measured.single_N, probes.advantages_N)


def test_the_sd_is_that_of_independent_groups(toy_envs: Any) -> None:
    """By the variances of the episodes: Var(own) + Var(others) / (G - 1) of `rloo`, and of `tree` with its forks.

    It is 3 % less with 16 continuations, as a bootstrap's. Without replacement `rloo` had 11 % less.
    """
    agent, size = Coin(), 8
    config = CreditConfig(group_size=size, episodes=2, steps=3, continuations=16, redraws=256)
    spec = EnvSpec("ToyChain-v0", {"max_steps": 7})
    probes = collect_probes(agent, Collector(agent).collect_batch, [spec], config, tasks=range(12))

    def mean_variance(name: str, start: bool) -> float:
        return fmean(
            variance(E.return_to_go(episode, 0 if start else probe.step) for episode in getattr(probe, name))
            for probe in probes.probes
        )

    expected = {
        "rloo": mean_variance("after", start=True) + mean_variance("others", start=True) / (size - 1),
        "tree": mean_variance("after", start=False) + mean_variance("before", start=False) / (size - 1),
    }
    for name, square in expected.items():
        measured = measure_estimator(name, getattr(E, name), probes, config)
        assert math.sqrt(measured.variances_N.mean()) == pytest.approx(0.97 * math.sqrt(square), rel=0.02)


def test_advantages_by_forks_are_near_the_exact_ones(toy_envs: Any) -> None:
    """With 64 continuations of each state; each half is an estimate of its own."""
    agent, spec = Coin(), EnvSpec("ToyChain-v0", {"max_steps": 7})
    config = CreditConfig(group_size=2, episodes=1, steps=2, continuations=64, redraws=4)
    exact, forks = (
        collect_probes(agent, Collector(agent).collect_batch, [spec], replace(config, truth=truth), tasks=range(6))
        for truth in ("exact", "forks")
    )
    assert forks.truth == "forks" and len(exact.probes) == len(forks.probes)
    assert np.abs(exact.advantages_N - forks.advantages_N).max() < 0.35
    assert np.corrcoef(exact.advantages_N, forks.advantages_N)[0, 1] > 0.7
    assert any(probe.halves[0] != probe.halves[1] for probe in forks.probes)
    assert all(probe.advantage == pytest.approx(sum(probe.halves) / 2) for probe in forks.probes)


def test_too_large_tasks_are_continued_unless_the_truth_must_be_exact(
    toy_envs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`auto` gives the numbers of `forks`."""
    config = CreditConfig(group_size=2, episodes=1, steps=2, continuations=4, redraws=4)
    for name in ("FEW_STATES", "MOST_STATES"):
        monkeypatch.setattr(f"agentgym_py.credit.probes.{name}", 3)
    found, forks = (
        lab(toy_envs, {"tree": E.tree}, replace(config, truth=truth), tasks=range(3)) for truth in ("auto", "forks")
    )
    assert found.truth == "forks" and found.scores == forks.scores
    with pytest.raises(ConfigError, match="truth cannot be exact: a task has more than 3 states"):
        lab(toy_envs, {"tree": E.tree}, replace(config, truth="exact"), tasks=range(3))


def test_equal_advantages_are_nothing_to_rank() -> None:
    """The notes say so; a table of zeros looks like a result."""
    agent = RandomAgent()
    spec, config = EnvSpec("maze", {"difficulty": "easy", "max_steps": 2}), CreditConfig(2, 1, 1, 4, 4)
    report = measure_credit(agent, Collector(agent).collect_batch, [spec], {"tree": E.tree}, config, tasks=range(2))
    assert report.spread == 0 and "All true advantages are equal" in report.notes()[-1]


def test_the_same_seed_measures_the_same(toy_envs: Any) -> None:
    config = CreditConfig(group_size=2, episodes=1, steps=1, continuations=4, redraws=4)
    first, second = (lab(toy_envs, {"rloo": E.rloo, "mine": E.dr_grpo}, config, tasks=range(5)) for _ in range(2))
    assert first == second and str(first) == str(second)
    text = str(first)
    assert (
        text.startswith("| estimator | bias [95 %] |") and "5 steps of 5 tasks by coin; true advantages by enum" in text
    )
    assert first.as_dict()["cosine_of"] == "advantages"


def test_mistakes_are_named(toy_envs: Any) -> None:
    config = CreditConfig(group_size=2, episodes=1, steps=1, continuations=4, redraws=4)
    with pytest.raises(ConfigError, match="estimator mine must return a finite number, got nan"):
        lab(toy_envs, {"mine": lambda _: math.nan}, config, tasks=range(2))
    agent = ExpertAgent()
    with pytest.raises(ConfigError, match="truth cannot be exact for expert"):
        measure_credit(agent, Collector(agent).collect_batch, [MAZE], {}, replace(config, truth="exact"))
    for settings, message in (
        ({"continuations": 5}, "continuations must be even"),
        ({"group_size": 1}, "group_size"),
        ({"episodes": 9, "group_size": 4}, "episodes must be at most 8"),
    ):
        with pytest.raises(ConfigError, match=message):
            CreditConfig(**settings)  # type: ignore[arg-type]


def test_worlds_that_play_otherwise_are_left_out(toy_envs: Any) -> None:
    """Their episodes are counted; if none is left, that is an error."""
    agent = Coin()

    def changed(jobs: Sequence[Job]) -> list[Trajectory]:
        played = Collector(agent).collect_batch(jobs)
        return [replace(t, steps=(replace(t.steps[0], observation="else"), *t.steps[1:])) for t in played]

    config = CreditConfig(group_size=2, episodes=1, steps=1, continuations=4, redraws=4)
    with pytest.raises(ConfigError, match=r"no step could be credited: .*does not play it again"):
        measure_credit(agent, changed, [EnvSpec("ToyChain-v0")], {"rloo": E.rloo}, config, tasks=range(2))


def test_rank_correlation_is_that_of_its_definition() -> None:
    """Beside the pairs counted one by one for ranks, with ties; equal values have none."""
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 5, 30).astype(float), rng.random(30)

    def slow_rank(values: Sequence[float], at: int) -> float:
        return sum(v < values[at] for v in values) + (sum(v == values[at] for v in values) - 1) / 2

    for values in (first, second):
        assert mean_ranks(values).tolist() == [slow_rank(values.tolist(), n) for n in range(30)]
    expected = np.corrcoef(mean_ranks(first), mean_ranks(second))[0, 1]
    assert spearman(first, second) == pytest.approx(expected)
    assert spearman(first, np.zeros(30)) == 0 and spearman(second, np.exp(second)) == pytest.approx(1)


def test_cosines_of_a_policy_are_those_of_its_gradients(toy_envs: Any) -> None:
    """The projection keeps the angles of the whole gradients, and the gradient is that of the weighted log-probs."""
    import torch

    from agentgym_py.credit.gradients import task_gradients
    from agentgym_py.policy.logprobs import agent_logits, agent_logprobs
    from agentgym_py.training.rl.batch import collate, encode_record

    policy = toy_envs.word_policy()
    agent = ModelAgent(policy, HFEngine(policy), SamplingParams(temperature=1.0, max_new_tokens=4))
    config = CreditConfig(group_size=2, episodes=2, steps=3, continuations=4, redraws=4)
    spec = EnvSpec("ToyChain-v0", {"max_steps": 5})
    probes = collect_probes(agent, Collector(agent).collect_batch, [spec], config, tasks=range(3))
    assert probes.truth == "forks"
    columns = np.random.default_rng(1).normal(size=(3, len(probes.probes)))
    tasks, gradients = task_gradients(policy, probes.probes, columns)
    assert gradients.shape[:2] == (3, 3) and len(tasks) == 3

    weights = [weight for weight in policy.model.parameters() if weight.requires_grad]
    whole = []
    for column in columns:
        total = torch.zeros(sum(weight.numel() for weight in weights))
        for probe, advantage in zip(probes.probes, column, strict=True):
            record = encode_record(probe.trunk, policy.chat)
            assert record
            batch = collate([record], [torch.ones(record.n)], policy.model.device)
            logps = agent_logprobs(agent_logits(policy.model, batch.input_ids, batch.labels))
            loss = logps[record.turns_n == probe.step].sum() * float(advantage)
            found = torch.autograd.grad(loss, weights, allow_unused=True)
            parts = [torch.zeros_like(w) if g is None else g for w, g in zip(weights, found, strict=True)]
            total += torch.cat([part.flatten() for part in parts])
        whole.append(total.numpy())
    for one, other in combinations(range(3), 2):
        sketch = gradients.sum(0)
        near, exact = (
            v[one] @ v[other] / np.linalg.norm(v[one]) / np.linalg.norm(v[other]) for v in (sketch, np.stack(whole))
        )
        assert near == pytest.approx(exact, abs=0.08)
    report = measure_credit(
        agent, Collector(agent).collect_batch, [spec], {"tree": E.tree, "rloo": E.rloo}, config, tasks=range(5),
        policy=policy,
    )  # fmt: skip
    assert report.cosine_of == "gradients" and all(-1 <= score.cosine.value <= 1 for score in report.scores)
