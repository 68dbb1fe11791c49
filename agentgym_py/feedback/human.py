"""People's verdicts in the viewer as feedback: thumbs and stars as scores, preferences, and better replies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym_py.checks import require_field_types
from agentgym_py.errors import ConfigError
from agentgym_py.feedback import verdicts
from agentgym_py.feedback.types import ComparisonFeedback, CorrectionFeedback, EpisodeRef, Feedback, ScoreFeedback
from agentgym_py.feedback.verdicts import MAX_STARS, Ref
from agentgym_py.trajectory import Trajectory

_NAME = "human"


@dataclass(frozen=True, slots=True)
class HumanVerdicts:
    """People's verdicts in the viewer: thumbs, stars, preferences and better replies."""

    folder: str = ""
    """Folder (required) that `agentgym view` showed; its verdicts.jsonl has the verdicts."""

    def __post_init__(self) -> None:
        require_field_types(self)
        if not self.folder:
            raise ConfigError("folder must name the folder that agentgym view showed")
        if not self.input_files():
            raise ConfigError(f"folder {self.folder} holds no {verdicts.FILE}; judge episodes with agentgym view first")

    def input_files(self) -> list[Path]:
        """Return the files of the verdicts."""
        return verdicts.files_of(Path(self.folder))

    def feedback(self, trajectories: Sequence[Trajectory]) -> list[Feedback]:
        """Return the verdicts on these episodes; one without a verdict has none.

        The score is (stars - 1) / 4, or without stars 1 for a thumb up and 0 for a thumb down.

        Raises:
            DataError: broken verdicts, or a store that cannot be read.
        """
        judged = verdicts.read(Path(self.folder))
        refs = self._refs(judged, trajectories)
        feedback: list[Feedback] = [
            _score(refs[ref], judged, ref) for ref in refs if ref in judged.stars or ref in judged.thumbs
        ]
        feedback += [
            ComparisonFeedback(refs[better], refs[worse], "", _NAME)
            for better, worse in judged.preferences if better in refs and worse in refs
        ]  # fmt: skip
        replies = sorted(item for item in judged.replies.items() if item[0][0] in refs)
        return feedback + [CorrectionFeedback(refs[ref], step, reply, "", _NAME) for (ref, step), reply in replies]

    def _refs(self, judged: verdicts.Verdicts, trajectories: Sequence[Trajectory]) -> dict[Ref, EpisodeRef]:
        """Return the names of those judged episodes that are among the trajectories."""
        wanted = {EpisodeRef.of(trajectory) for trajectory in trajectories}
        ids = {ref.id for ref in wanted}
        named = {*judged.thumbs, *judged.stars, *(ref for ref, _ in judged.replies)}
        named |= {ref for pair in judged.preferences for ref in pair}
        episodes = verdicts.episodes_of(Path(self.folder), {ref for ref in named if ref.id in ids})
        refs = {ref: EpisodeRef.of(trajectory) for ref, trajectory in episodes.items()}
        return {ref: name for ref, name in refs.items() if name in wanted}


def _score(name: EpisodeRef, judged: verdicts.Verdicts, ref: Ref) -> ScoreFeedback:
    dimensions = dict[str, float]()
    if ref in judged.thumbs:
        dimensions["thumb"] = float(judged.thumbs[ref] > 0)
    if ref in judged.stars:
        dimensions["stars"] = (judged.stars[ref] - 1) / (MAX_STARS - 1)
    return ScoreFeedback(name, dimensions.get("stars", dimensions.get("thumb", 0.0)), dimensions, "", _NAME)
