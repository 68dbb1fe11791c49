"""Ask a source for feedback on stored episodes, block by block, into a file that resumes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from agentgym_py import registry
from agentgym_py.errors import ConfigError, DataError
from agentgym_py.feedback.store import KINDS, FeedbackFile, header_of, read_feedback
from agentgym_py.feedback.types import (
    ComparisonFeedback,
    EpisodeRef,
    Feedback,
    FeedbackSource,
    FileSource,
    NoFeedback,
)
from agentgym_py.trajectory import Trajectory

BLOCK = 64
"""Least number of episodes in a block, other than the last one."""


def judge_into(
    path: str | Path,
    name: str,
    source: FeedbackSource,
    trajectories: Sequence[Trajectory],
    progress: Callable[[int, int], None] | None = None,
    *,
    ask_again: bool = False,
) -> list[Feedback]:
    """Judge trajectories with a source and write the feedback to a file; return it.

    A file that was interrupted is resumed after its last block; a finished one is only read. `progress` is called with
    the number of episodes done and the total. `ask_again` asks once more for what the source did not answer, which is
    NoFeedback that `may_succeed`; the answers replace it.

    Raises:
        RunError: the file was begun with another source, other settings, other data, or other content of the files that
            the source reads.
        ConfigError: the source is no dataclass, or returned something else than feedback.
        EndpointError: as `FeedbackSource.feedback`; what was judged before is kept.
    """
    size = len(trajectories) if isinstance(source, FileSource) else BLOCK
    blocks = list(blocks_of(trajectories, size))
    refs = [EpisodeRef.of(trajectory) for block in blocks for trajectory in block]
    settings = settings_of(source)
    header = header_of(name, settings, refs, input_digests(name, settings, source))
    file, done = FeedbackFile(Path(path), header), 0
    for block in blocks:
        done += len(block)
        if done > file.judged:
            found = _ask(source, block, name)
            with _naming(name):
                file.append(found, len(block))
        if progress:
            progress(done, len(refs))
    if ask_again:
        _ask_again(file, name, source, trajectories, size)
    return read_feedback(path)


def _ask_again(
    file: FeedbackFile, name: str, source: FeedbackSource, trajectories: Sequence[Trajectory], size: int
) -> None:
    """Ask about the tasks of episodes without an answer, and keep what is new about these episodes."""
    known = read_feedback(file.path)
    missing = {item.episode.digest for item in known if isinstance(item, NoFeedback) and item.may_succeed}
    tasks = {t.provenance.task_key for t in trajectories if EpisodeRef.of(t).digest in missing}
    for block in blocks_of([t for t in trajectories if t.provenance.task_key in tasks], size):
        asked = missing & {EpisodeRef.of(trajectory).digest for trajectory in block}
        found = [item for item in _ask(source, block, name) if asked & _digests(item)]
        known = [item for item in known if not (isinstance(item, NoFeedback) and asked & _digests(item))] + found
        with _naming(name):
            file.replace(known)


def _digests(item: Feedback) -> set[str]:
    """Return the digests of the episodes that feedback is about."""
    if isinstance(item, ComparisonFeedback):
        return {item.better.digest, item.worse.digest}
    return {item.episode.digest}


def _ask(source: FeedbackSource, block: Sequence[Trajectory], name: str) -> list[Feedback]:
    return _require_feedback(source.feedback(block), name)


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Name the source in the error for a value that no reader would take."""
    try:
        yield
    except DataError as error:
        raise ConfigError(f"the feedback source {name} returned a wrong value: {error}") from error


def blocks_of(trajectories: Sequence[Trajectory], size: int = BLOCK) -> Iterator[list[Trajectory]]:
    """Yield the trajectories in blocks of at least `size`, those of a task together, in the order of the tasks."""
    tasks: dict[Hashable, list[Trajectory]] = defaultdict(list)
    for trajectory in trajectories:
        tasks[trajectory.provenance.task_key].append(trajectory)
    block = list[Trajectory]()
    for episodes in tasks.values():
        block += episodes
        if len(block) >= size:
            yield block
            block = []
    if block:
        yield block


def settings_of(source: FeedbackSource) -> Mapping[str, Any]:
    """Return the settings of a source; raise ConfigError if it has none because it is no dataclass."""
    if not is_dataclass(source) or isinstance(source, type):
        raise ConfigError(f"the feedback source {type(source).__name__} must be a dataclass, whose fields are settings")
    return asdict(source)


def input_digests(name: str, settings: Mapping[str, Any], source: FeedbackSource) -> dict[str, str]:
    """Return the files that decide what a source says, by path, with digests: those it reads, and programs."""
    files = source.input_files() if isinstance(source, FileSource) else []
    texts = [name, *(value for value in settings.values() if isinstance(value, str))]
    files += [registry.source_file(text) for text in texts if text.partition(":")[0].endswith(".py")]
    return {str(path): registry.source_digest(path) for path in files if path.is_file()}


def _require_feedback(feedback: object, name: str) -> list[Feedback]:
    if not isinstance(feedback, list | tuple):
        raise ConfigError(f"the feedback source {name} must return a list of feedback, not {feedback!r:.80}")
    if wrong := [item for item in feedback if not isinstance(item, tuple(KINDS.values()))]:
        raise ConfigError(f"the feedback source {name} must return a list of feedback; one item is {wrong[0]!r:.80}")
    return list(feedback)
