"""Feedback on stored episodes: its sources, its file, what trainers learn from it, and how far it is right."""

from agentgym_py.feedback.types import (
    ComparisonFeedback,
    CorrectionFeedback,
    EpisodeRef,
    Feedback,
    FeedbackSource,
    NoFeedback,
    ScoreFeedback,
)

__all__ = [
    "ComparisonFeedback", "CorrectionFeedback", "EpisodeRef", "Feedback", "FeedbackSource", "NoFeedback",
    "ScoreFeedback",
]  # fmt: skip
