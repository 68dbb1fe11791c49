"""What trainers make of feedback: rewards, pairs as they were judged, and single steps with the rest masked."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentgym_py.env import StopReason
from agentgym_py.errors import ConfigError, NothingToTrainOnError
from agentgym_py.feedback import ComparisonFeedback, CorrectionFeedback, EpisodeRef, Feedback, ScoreFeedback
from agentgym_py.feedback.learning import learn_from, with_correction
from agentgym_py.trajectory import Tokens, Trajectory, preferences, store

Make = Callable[..., Trajectory]
SCORES, PAIRS = ("scores",), ("comparisons", "scores")


@pytest.fixture
def tries(episode: Make) -> list[Trajectory]:
    """Four attempts at a task; the world likes the first one."""
    return [episode("x", str(n), id=str(n), reward=float(n == 0), success=n == 0) for n in range(4)]


def refs(tries: list[Trajectory]) -> list[EpisodeRef]:
    """Their names."""
    return [EpisodeRef.of(each) for each in tries]


def test_scores_are_rewards(tries: list[Trajectory]) -> None:
    """Paid at the end, with success from a half; an episode without one is left out, one that broke as well."""
    broken = replace(tries[3], stop_reason=StopReason.ERROR, error="gone")
    names = refs(tries)
    feedback: list[Feedback] = [
        ScoreFeedback(names[0], 0.0), ScoreFeedback(names[1], 0.2), ScoreFeedback(names[1], 0.5),
        ScoreFeedback(names[3], 1.0),
    ]  # fmt: skip
    found = learn_from([*tries[:3], broken], feedback, SCORES)
    assert [(t.id, t.reward, t.success) for t in found.episodes] == [("0", 0.0, False), ("1", 0.5, True)]
    assert [step.reward for step in found.episodes[1].steps] == [0.0, 0.5]
    assert found.episodes[1].steps[-1].reward_parts == {"feedback": 0.5} and not found.corrections
    assert dict(found.dropped) == {"without a score": 1, "ended by an infrastructure error": 1}
    assert found.line.startswith("2 of 4 episodes have a score; left out: ")
    with pytest.raises(NothingToTrainOnError, match="no scores on these episodes: 4 without a score"):
        learn_from(tries, [], SCORES)
    with pytest.raises(ConfigError, match="not marks"):
        learn_from(tries, feedback, ("marks",))


def test_comparisons_are_paired_as_they_were_judged(tries: list[Trajectory], episode: Make) -> None:
    """Also where they go round in a circle, which sums of rewards could not say; contradictions say nothing."""
    a, b, c, d = refs(tries)
    other = episode("y", id="other", task="shop/train/easy/2")
    feedback = [ComparisonFeedback(*pair) for pair in ((a, b), (b, c), (c, a), (a, d), (d, a), (a, b))]
    feedback += [ComparisonFeedback(a, EpisodeRef.of(other)), ComparisonFeedback(a, EpisodeRef("?", "?"))]
    found = learn_from([*tries, other], feedback, PAIRS)
    built = preferences.build_pairs(found.episodes, max_pairs=None)
    pairs = [(found.episodes[pair.chosen].id, found.episodes[pair.rejected].id) for pair in built.pairs]
    assert pairs == [("0", "1"), ("1", "2"), ("2", "0")] and built.ties == 0
    assert dict(found.dropped) == {
        "comparisons that contradict another one": 2, "comparisons of other episodes": 1,
        "comparisons of episodes that do not start alike": 1,
    }  # fmt: skip
    scores = [ScoreFeedback(name, n / 4) for n, name in enumerate((a, b, c, d))]
    assert len(learn_from(tries, [*feedback, *scores], PAIRS).episodes) == 6, "comparisons come first"
    assert [t.reward for t in learn_from(tries, scores, PAIRS).episodes] == [0.0, 0.25, 0.5, 0.75]


def test_a_correction_is_its_step_alone(episode: Make) -> None:
    """The episode up to there is context; the reply is read as any; the last one at a step counts."""
    whole = episode("a", "b", "c", success=False, reward=0.0, optimal_steps=3)
    name = EpisodeRef.of(whole)
    feedback: list[Feedback] = [
        CorrectionFeedback(name, 1, "Action: old"), CorrectionFeedback(name, 1, "Thought: so\nAction: z[1]"),
        CorrectionFeedback(name, 3, "Action: late"), CorrectionFeedback(EpisodeRef("?", "?"), 0, "Action: x"),
    ]  # fmt: skip
    found = learn_from([whole], feedback, ("corrections",))
    (corrected,) = found.corrections
    assert found.episodes == [whole] and corrected.id == "t0^1" and corrected.reward == 1 and corrected.success
    assert [(step.trained, step.reply) for step in corrected.steps] == [
        (False, whole.steps[0].reply), (True, "Thought: so\nAction: z[1]"),
    ]  # fmt: skip
    assert (corrected.steps[1].thought, corrected.steps[1].action) == ("so", "z[1]")
    assert corrected.steps[1].observation == whole.steps[1].observation and corrected.is_evidence
    assert dict(found.dropped) == {
        "corrections after the end of their episode": 1, "corrections of other episodes": 1,
    }  # fmt: skip


def test_a_correction_follows_the_tokens_before_it(episode: Make) -> None:
    """Where the context was cut or began again, the text of a reply cannot follow."""
    tokens = Tokens((1,), (2,), (0.0,), (1,))
    whole = episode("a", "b", "c")
    steps = whole.steps
    for changed, learnt in (
        ((replace(steps[0], tokens=tokens), steps[1], steps[2]), 1),
        ((replace(steps[0], tokens=replace(tokens, cut=True)), steps[1], steps[2]), 0),
        ((steps[0], replace(steps[1], tokens=replace(tokens, starts_sequence=True)), steps[2]), 0),
    ):
        trajectory = replace(whole, steps=changed)
        feedback = [CorrectionFeedback(EpisodeRef.of(trajectory), 1, "Action: z")]
        if learnt:
            assert learn_from([trajectory], feedback, ("corrections",)).corrections[0].steps[0].tokens == tokens
        else:
            with pytest.raises(NothingToTrainOnError, match="1 corrections where the context was cut"):
                learn_from([trajectory], feedback, ("corrections",))


def test_corrected_episodes_can_be_stored(episode: Make, tmp_path: Path) -> None:
    """As any other trajectory."""
    corrected = with_correction(episode("a", "b"), 1, "Action: z")
    store.write(tmp_path / "c.jsonl", [corrected])
    assert list(store.read(tmp_path / "c.jsonl")) == [corrected]


# ---- trainers --------------------------------------------------------------------------------------------------------


def logprob(policy: Any, trajectory: Trajectory, step: int, reply: str) -> float:
    """Log-probability of a reply at a step."""
    from agentgym_py.policy.logprobs import sample_logprobs
    from agentgym_py.policy.tokens import encode

    return float(sample_logprobs(policy.model, [encode(with_correction(trajectory, step, reply), policy.chat)], 1)[0])


def test_filtered_bc_imitates_a_correction(tiny_policy: Any, episode: Make, tmp_path: Path) -> None:
    """The better reply gets likelier at its step; of the failed episode nothing else is learnt."""
    from agentgym_py.policy.tokens import encode
    from agentgym_trainers.filtered_bc import FilteredBC

    whole, reply = episode("click[a]", "click[b]", success=False, reward=0.0), "Action: search[red cup]"
    found = learn_from([whole], [CorrectionFeedback(EpisodeRef.of(whole), 1, reply)], FilteredBC.info.feedback)
    (corrected,) = found.corrections
    sample = encode(corrected, tiny_policy.chat)
    assert sum(sample.mask) == len(tiny_policy.chat.reply(reply)), "the reply alone has a loss"
    policy = deepcopy(tiny_policy)
    before = logprob(policy, whole, 1, reply)
    report = FilteredBC(epochs=20, learning_rate=0.005).train(policy, found.corrections, seed=0, output_dir=tmp_path)
    assert report.trajectories == 1 and logprob(policy, whole, 1, reply) > before + 1


def test_weighted_bc_weighs_by_scores(tries: list[Trajectory]) -> None:
    """As by any return."""
    from agentgym_trainers.weighted_bc import WeightedBC

    feedback = [ScoreFeedback(name, score) for name, score in zip(refs(tries), (0.0, 0.25, 0.5, 1.0), strict=True)]
    found = learn_from(tries, feedback, WeightedBC.info.feedback)
    assert WeightedBC(mode="agentevol").weights(found.episodes) == [0.0, 0.25, 0.5, 1.0]


def test_kto_and_dpo_train_on_feedback(tiny_policy: Any, tries: list[Trajectory], tmp_path: Path) -> None:
    """Scores are KTO's good and bad episodes, comparisons DPO's pairs."""
    from agentgym_trainers.dpo import DPO
    from agentgym_trainers.kto import KTO

    names = refs(tries)
    scores = [ScoreFeedback(name, score) for name, score in zip(names, (0.1, 0.2, 0.9, 0.8), strict=True)]
    episodes = learn_from(tries, scores, KTO.info.feedback).episodes
    report = KTO(epochs=1).train(deepcopy(tiny_policy), episodes, seed=0, output_dir=tmp_path / "kto")
    assert (report.metrics["good"], report.metrics["bad"]) == (2, 2)
    pairs = [ComparisonFeedback(names[1], names[0]), ComparisonFeedback(names[2], names[0])]
    episodes = learn_from(tries, pairs, DPO.info.feedback).episodes
    report = DPO(epochs=1).train(deepcopy(tiny_policy), episodes, seed=0, output_dir=tmp_path / "dpo")
    assert report.metrics["pairs"] == 2
