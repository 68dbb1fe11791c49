"""What trainers learn from feedback: trajectories, made from the judged ones, that any trainer reads.

    scores        the episode's reward is its score, paid after the last step; a score of at least 0.5 is a success
    comparisons   each pair is a task of its own with two episodes, of rewards 1 and 0, so that it is paired as judged
    corrections   the episode up to the corrected step, where the better reply is imitated; what came before is masked

`TrainerInfo.feedback` names those that a trainer learns from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from agentgym_py.env.actions import parse_reply
from agentgym_py.errors import ConfigError, NothingToTrainOnError
from agentgym_py.feedback.types import (
    BROKEN,
    GOOD,
    ComparisonFeedback,
    CorrectionFeedback,
    EpisodeRef,
    Feedback,
    ScoreFeedback,
    scores_of,
)
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.preferences import opening_key
from agentgym_py.trajectory.scores import Score, paid_at_end, with_score

_KINDS: Mapping[str, type] = {
    "scores": ScoreFeedback, "comparisons": ComparisonFeedback, "corrections": CorrectionFeedback,
}  # fmt: skip
USES = tuple(_KINDS)


@dataclass(frozen=True, slots=True)
class LearningData:
    """What a trainer learns from some episodes and the feedback on them."""

    episodes: list[Trajectory]
    """Episodes to select from, with the rewards of the feedback if it has any."""
    corrections: list[Trajectory] = field(default_factory=list)
    """Corrected steps, which are learnt whatever is selected."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Feedback or episodes that are left out, by reason."""
    line: str = ""
    """What was found, in one line."""


def learn_from(trajectories: Sequence[Trajectory], feedback: Sequence[Feedback], uses: Sequence[str]) -> LearningData:
    """Turn feedback into trajectories for a trainer that learns from `uses`.

    Of scores and comparisons the trainer gets the first of `uses` that there is. A trainer of corrections keeps the
    world's rewards.

    Raises:
        NothingToTrainOnError: the feedback has nothing that the trainer learns from, or is about other episodes.
        ConfigError: `uses` has an unknown name.
    """
    if unknown := set(uses) - set(USES):
        raise ConfigError(f"a trainer learns from {', '.join(USES)}, not {', '.join(sorted(unknown))}")
    reasons = Counter[str]()
    for name in uses:
        data = _MAKERS[name](trajectories, feedback)
        if data.corrections if name == "corrections" else data.episodes:
            return data
        reasons += data.dropped
    about = ", ".join(f"{number} {reason}" for reason, number in reasons.items())
    wanted, others = " or ".join(uses), Counter(type(item) for item in feedback)
    has = ", ".join(f"{others[kind]} {name}" for name, kind in _KINDS.items() if name not in uses and others[kind])
    raise NothingToTrainOnError(
        f"the feedback has no {wanted} on these episodes" + (f": {about}" if about else "")
        + (f"; it has {has}, from which other trainers learn (docs/guides/feedback.md)" if has else "")
    )  # fmt: skip


def by_scores(trajectories: Sequence[Trajectory], feedback: Sequence[Feedback]) -> LearningData:
    """Return the episodes that have a score, with it as their reward."""
    scores, data = scores_of(feedback), LearningData([])
    for trajectory in trajectories:
        item = scores.get(EpisodeRef.of(trajectory).digest)
        if item is None:
            data.dropped["without a score"] += 1
        elif not trajectory.is_evidence:
            data.dropped[BROKEN] += 1
        else:
            data.episodes.append(_with_reward(trajectory, item.score))
    return _with_line(data, f"{len(data.episodes)} of {len(trajectories)} episodes have a score")


def by_comparisons(trajectories: Sequence[Trajectory], feedback: Sequence[Feedback]) -> LearningData:
    """Return two episodes for each comparison, the better one first, as a task of their own."""
    episodes, data = _by_digest(trajectories), LearningData([])
    pairs = dict.fromkeys((c.better.digest, c.worse.digest) for c in feedback if isinstance(c, ComparisonFeedback))
    for number, digests in enumerate(pairs):
        sides = [episodes[digest] for digest in digests if digest in episodes]
        if len(sides) < 2:
            data.dropped["comparisons of other episodes"] += 1
        elif not all(side.steps for side in sides) or opening_key(sides[0]) != opening_key(sides[1]):
            data.dropped["comparisons of episodes that do not start alike"] += 1
        elif digests[::-1] in pairs:
            data.dropped["comparisons that contradict another one"] += 1
        else:
            chosen, rejected = (_as_task(side, f"pair {number}") for side in sides)
            data.episodes.extend([_with_reward(chosen, 1.0), _with_reward(rejected, 0.0)])
    return _with_line(data, f"{len(data.episodes) // 2} of {len(pairs)} comparisons are learnt")


def by_corrections(trajectories: Sequence[Trajectory], feedback: Sequence[Feedback]) -> LearningData:
    """Return the episodes as they are, and a trajectory for each correction; of several at a step the last one."""
    episodes, data = _by_digest(trajectories), LearningData(list(trajectories))
    corrections = {(c.episode.digest, c.step): c for c in feedback if isinstance(c, CorrectionFeedback)}
    for (digest, number), correction in corrections.items():
        trajectory = episodes.get(digest)
        if trajectory is None:
            data.dropped["corrections of other episodes"] += 1
        elif number >= len(trajectory.steps):
            data.dropped["corrections after the end of their episode"] += 1
        elif not _continues_tokens(trajectory, number):
            data.dropped["corrections where the context was cut"] += 1
        else:
            data.corrections.append(with_correction(trajectory, number, correction.reply))
    return _with_line(data, f"{len(data.corrections)} of {len(corrections)} corrections are learnt")


def with_correction(trajectory: Trajectory, number: int, reply: str) -> Trajectory:
    """Return an episode up to step `number` with another reply there, the only one that is trained on.

    It counts as a success of reward 1, so that no threshold leaves it out; its world never played that reply.
    """
    read, step = parse_reply(reply), trajectory.steps[number]
    before = tuple(
        replace(earlier, trained=False, reward=0.0, reward_parts={}) for earlier in trajectory.steps[:number]
    )
    better = replace(
        step, reply=reply, thought=read.thought, action=read.action, action_input=read.action_input, reward=1.0,
        reward_parts={}, valid=True, tokens=None, summary=None, usage=None, trained=True,
    )  # fmt: skip
    return replace(
        trajectory, id=f"{trajectory.id}^{number}", steps=(*before, better), final_observation="", reward=1.0,
        success=True, stop_reason=None,
    )  # fmt: skip


_MAKERS = {"scores": by_scores, "comparisons": by_comparisons, "corrections": by_corrections}


def _with_line(data: LearningData, line: str) -> LearningData:
    reasons = ", ".join(f"{number} {reason}" for reason, number in data.dropped.items())
    return replace(data, line=f"{line}; left out: {reasons}" if reasons else line)


def _by_digest(trajectories: Sequence[Trajectory]) -> Mapping[str, Trajectory]:
    """Return the episodes by digest; those ended by an infrastructure error are left out."""
    return {EpisodeRef.of(trajectory).digest: trajectory for trajectory in trajectories if trajectory.is_evidence}


def _continues_tokens(trajectory: Trajectory, number: int) -> bool:
    """Return whether the prompt of a step is what came before, in tokens: the text of a correction follows there."""
    records = trajectory.steps[number].token_records
    cut_before = number > 0 and trajectory.steps[number - 1].cut
    return not cut_before and not any(record.starts_sequence for record in records)


def _with_reward(trajectory: Trajectory, score: float) -> Trajectory:
    paid = with_score(trajectory, Score({"feedback": paid_at_end(score, len(trajectory.steps))}))
    return replace(paid, success=score >= GOOD)


def _as_task(trajectory: Trajectory, name: str) -> Trajectory:
    task = f"{trajectory.task_id}#{name}"
    return replace(trajectory, provenance=replace(trajectory.provenance, task_id=task))
