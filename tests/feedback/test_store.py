"""The file of feedback: what is written is read, what is broken is refused by its line, and a kill loses one block."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym_py.errors import ConfigError, DataError, RunError
from agentgym_py.feedback import (
    ComparisonFeedback,
    CorrectionFeedback,
    EpisodeRef,
    Feedback,
    NoFeedback,
    ScoreFeedback,
    judging,
)
from agentgym_py.feedback.environment import EnvironmentOutcome
from agentgym_py.feedback.judging import blocks_of, judge_into
from agentgym_py.feedback.store import FeedbackFile, header_of, read_feedback, write_feedback
from agentgym_py.trajectory import Trajectory, store

Make = Callable[..., Trajectory]
A, B = EpisodeRef("a", "0" * 16), EpisodeRef("b", "1" * 16)
HEADER = header_of("llm", {"model": "m", "concurrency": 4}, [A, B])
texts = st.text(st.characters(), max_size=20)
refs = st.builds(EpisodeRef, texts, texts)
scores = st.floats(0, 1)
records = st.one_of(
    st.builds(ScoreFeedback, refs, scores, st.dictionaries(texts, scores, max_size=3), texts, texts),
    st.builds(ComparisonFeedback, refs, refs, texts, texts).filter(lambda c: c.better != c.worse),
    st.builds(CorrectionFeedback, refs, st.integers(0, 10**6), texts.filter(str.strip), texts, texts),
    st.builds(NoFeedback, refs, texts, texts, st.booleans()),
)


def rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(written=st.lists(records, max_size=5))
def test_whatever_is_written_is_read(written: list[Feedback], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Any text, with line breaks and half of a pair of surrogates."""
    path = tmp_path_factory.mktemp("feedback") / "f.jsonl"
    write_feedback(path, HEADER, written)
    assert read_feedback(path) == written


def test_an_episode_is_what_happened_in_it(episode: Make, tmp_path: Path) -> None:
    """Tokens, rewards and formats do not change its digest; a reply, an observation or another task does."""
    first = episode("a", "b")
    same = replace(first, reward=0.0, success=False, steps=tuple(replace(s, trained=False) for s in first.steps))
    assert EpisodeRef.of(same) == EpisodeRef.of(first) and len(EpisodeRef.of(first).digest) == 16
    store.write(tmp_path / "s.jsonl", [first])
    assert EpisodeRef.of(next(store.read(tmp_path / "s.jsonl"))) == EpisodeRef.of(first)
    others = [
        episode("a", "c"),
        episode("a", "b", final_observation="No."),
        episode("a", "b", task="shop/train/easy/2"),
    ]
    assert len({EpisodeRef.of(each).digest for each in [first, *others]}) == 4


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"kind": "score"}, "missing key 'episode'"),
        ({"kind": "grade", "episode": {}}, "kind: expected one of score, comparison, correction, none, header"),
        ({"episode": {"file": "a", "id": "b"}, "verdict": 1}, "agentgym judge with the source human"),
        (
            {"kind": "score", "episode": {"id": "a", "digest": "0"}, "score": 1.5},
            "score: expected a number from 0 to 1",
        ),
        ({"kind": "score", "episode": {"id": "a", "digest": "0"}, "score": "1"}, "score: expected a finite number"),
        ({"kind": "score", "episode": {"id": "a", "digest": "0"}, "score": True}, "score: expected a finite number"),
        ({"kind": "score", "episode": {"id": "a", "digest": "0"}, "score": 1, "x": 1}, "unknown key 'x'"),
        (
            {"kind": "score", "episode": {"id": "a", "digest": "0"}, "score": 1, "dimensions": {"logic": 2}},
            "logic: expected a number from 0 to 1",
        ),
        ({"kind": "correction", "episode": {"id": "a", "digest": "0"}, "step": -1, "reply": "x"}, "step: expected"),
        ({"kind": "correction", "episode": {"id": "a", "digest": "0"}, "step": 0, "reply": " "}, "reply: a correction"),
        (
            {"kind": "comparison", "better": {"id": "a", "digest": "0"}, "worse": {"id": "a", "digest": "0"}},
            "better and worse are the same episode",
        ),
        ({"kind": "judged", "episodes": -1}, "episodes: expected a number of at least 0"),
        ([1], "expected a JSON object"),
        ({"kind": "header", "source": "x", "settings": {}, "episodes": 1, "data": ""}, "a header is the first line"),
    ],
)
def test_a_broken_line_is_named(row: Any, message: str, tmp_path: Path) -> None:
    """With its number, what is wrong, and what to do with the viewer's own file."""
    path = tmp_path / "f.jsonl"
    write_feedback(path, HEADER, [])
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")
    with pytest.raises(DataError, match=rf"f\.jsonl:3: .*{message}"):
        read_feedback(path)


def test_files_of_other_programs_need_no_header(tmp_path: Path) -> None:
    """Lines alone are feedback; a header of a later version is refused; so is a folder."""
    path = tmp_path / "f.jsonl"
    path.write_text('\n{"kind": "score", "episode": {"id": "a", "digest": "0"}, "score": 1}\n')
    assert read_feedback(path) == [ScoreFeedback(EpisodeRef("a", "0"), 1.0)]
    with pytest.raises(RunError, match="has no header"):
        FeedbackFile(path, HEADER)
    path.write_text('{"kind": "header", "source": "x", "settings": {}, "episodes": 1, "data": "", "version": 2}\n')
    with pytest.raises(DataError, match="version 2 of the format"):
        read_feedback(path)
    for wrong, message in ((tmp_path, "a folder"), (tmp_path / "none.jsonl", "no such file")):
        with pytest.raises(DataError, match=message):
            read_feedback(wrong)


def test_a_killed_file_continues_after_its_last_block(tmp_path: Path) -> None:
    """Lines of the block that was interrupted go, torn or not; the warning counts what is judged."""
    path = tmp_path / "new" / "f.jsonl"
    first = FeedbackFile(path, HEADER)
    first.append([ScoreFeedback(A, 0.5)], 1)
    whole = path.read_bytes()
    for rest in (b'{"kind": "score", "epi', (json.dumps(rows(path)[1]) + "\n").encode()):
        path.write_bytes(whole + rest)
        with pytest.warns(UserWarning, match=r"1 of 2 episodes are judged|torn"):
            assert read_feedback(path)[0] == ScoreFeedback(A, 0.5)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            resumed = FeedbackFile(path, HEADER)
        assert resumed.judged == 1 and path.read_bytes() == whole
    resumed.append([ScoreFeedback(B, 1.0), NoFeedback(A, "why")], 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_feedback(path) == [ScoreFeedback(A, 0.5), ScoreFeedback(B, 1.0), NoFeedback(A, "why")]


def test_a_kill_in_the_header(tmp_path: Path) -> None:
    """The file begins again; one that holds something else is left alone."""
    path = tmp_path / "f.jsonl"
    FeedbackFile(path, HEADER)
    whole = path.read_bytes()
    for size in (0, 1, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert FeedbackFile(path, HEADER).judged == 0 and path.read_bytes() == whole
    path.write_bytes(b"notes without an end of line")
    with pytest.raises(RunError, match="has no header"):
        FeedbackFile(path, HEADER)
    assert path.read_bytes() == b"notes without an end of line"


def test_a_file_of_a_header_alone_is_not_begun(tmp_path: Path) -> None:
    """After a command that failed before its first block, the corrected one writes to the same file."""
    path = tmp_path / "f.jsonl"
    FeedbackFile(path, header_of("llm", {"model": "mm"}, [A]))
    FeedbackFile(path, HEADER).append([ScoreFeedback(A, 0.5)], 1)
    assert rows(path)[0]["settings"]["model"] == "m" and len(rows(path)) == 3


def test_a_file_resumes_with_what_it_was_begun_with(tmp_path: Path) -> None:
    """Another source, data or setting is refused by name; how the endpoint is asked may change."""
    path = tmp_path / "f.jsonl"
    FeedbackFile(path, HEADER).append([ScoreFeedback(A, 0.5)], 1)
    FeedbackFile(path, header_of("llm", {"model": "m", "concurrency": 1}, [A, B]))
    for source, chosen, data, message in (
        ("expert", {"model": "m"}, [A, B], "source llm, not expert"),
        ("llm", {"model": "n"}, [A, B], "model 'm', not 'n'"),
        ("llm", {"model": "m"}, [B, A], "other data"),
        ("llm", {"model": "m"}, [A], "other data"),
    ):
        with pytest.raises(RunError, match=message):
            FeedbackFile(path, header_of(source, chosen, data))
    with pytest.raises(DataError, match=r"score: expected a number from 0 to 1"):
        FeedbackFile(path, HEADER).append([ScoreFeedback(A, 2.0)], 1)


# ---- judging in blocks -----------------------------------------------------------------------------------------------


class Counting:
    """A source that notes what it is asked, and breaks at one episode."""

    def __init__(self, breaks_at: str = "") -> None:
        self.breaks_at, self.asked = breaks_at, list[str]()

    def __call__(self, trajectories: Any) -> list[Feedback]:
        """Score the episodes."""
        self.asked += [each.id for each in trajectories]
        if self.breaks_at in self.asked:
            raise RuntimeError("gone")
        return [ScoreFeedback(EpisodeRef.of(each), 1.0) for each in trajectories]


def test_blocks_hold_whole_tasks(episode: Make) -> None:
    """In the order of the tasks, whatever the order of the episodes."""
    data = [episode("a", id=f"{task}{n}", task=f"t{task}") for n in range(3) for task in range(4)]
    names = [[each.id for each in block] for block in blocks_of(data, 5)]
    assert names == [["00", "01", "02", "10", "11", "12"], ["20", "21", "22", "30", "31", "32"]]
    assert [len(block) for block in blocks_of(data, 4)] == [6, 6] and list(blocks_of([])) == []


def test_a_source_that_breaks_is_asked_for_the_rest(
    episode: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks that were judged are kept; a finished file is only read; progress counts episodes."""
    data = [episode("a", str(n), id=str(n), task=f"t{n}") for n in range(150)]
    source, path, seen = EnvironmentOutcome(), tmp_path / "f.jsonl", list[tuple[int, int]]()
    broken, whole = Counting("70"), Counting()
    monkeypatch.setattr(EnvironmentOutcome, "feedback", lambda self, trajectories: broken(trajectories))
    with pytest.raises(RuntimeError):
        judge_into(path, "environment", source, data)
    monkeypatch.setattr(EnvironmentOutcome, "feedback", lambda self, trajectories: whole(trajectories))
    found = judge_into(path, "environment", source, data, lambda done, total: seen.append((done, total)))
    assert whole.asked == [str(n) for n in range(64, 150)] and len(found) == 150
    assert seen == [(64, 150), (128, 150), (150, 150)]
    assert judge_into(path, "environment", source, data) == found and len(whole.asked) == 86
    for wrong in (None, ["good"]):
        monkeypatch.setattr(EnvironmentOutcome, "feedback", lambda self, trajectories, wrong=wrong: wrong)
        with pytest.raises(ConfigError, match="environment must return a list of feedback"):
            judge_into(tmp_path / f"{wrong}.jsonl", "environment", source, data)


@dataclass(frozen=True)
class Moody:
    """A judge of groups that leaves out some episodes until it is asked again."""

    silent: list[str]
    asked: list[list[str]] = field(default_factory=list)

    def feedback(self, trajectories: Sequence[Trajectory]) -> list[Feedback]:
        """Score each episode by the number of requests so far; never the one that is `hopeless`."""
        self.asked.append([each.id for each in trajectories])
        return [
            NoFeedback(EpisodeRef.of(each), "busy", may_succeed=each.id != "hopeless")
            if each.id in (*self.silent, "hopeless") else ScoreFeedback(EpisodeRef.of(each), len(self.asked) / 10)
            for each in trajectories
        ]  # fmt: skip


def test_what_a_judge_did_not_answer_is_asked_again(
    episode: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only on request, with the other tries at its task; what is known stays, and a file that was cut continues."""
    monkeypatch.setattr(judging, "settings_of", lambda source: {})
    monkeypatch.setattr(judging.blocks_of, "__defaults__", (2,))
    monkeypatch.setattr(judging, "BLOCK", 2)
    data = [episode("a", str(n), id=str(n), task=f"t{n // 2}") for n in range(6)]
    data.append(episode("b", id="hopeless", task="t9"))
    path = tmp_path / "f.jsonl"
    before = judge_into(path, "moody", Moody(["1", "4"]), data)
    calm = Moody([])
    assert judge_into(path, "moody", calm, data) == before and not calm.asked
    FeedbackFile(path, header_of("moody", {}, [EpisodeRef.of(each) for each in data]))
    path.write_bytes(path.read_bytes()[:-5])  # killed in the last block
    found = judge_into(path, "moody", calm, data, ask_again=True)
    assert calm.asked == [["hopeless"], ["0", "1"], ["4", "5"]]
    scores = {item.episode.id: item.score for item in found if isinstance(item, ScoreFeedback)}
    assert scores == {"0": 0.1, "1": 0.2, "2": 0.2, "3": 0.2, "4": 0.3, "5": 0.3}
    assert [item.episode.id for item in found if isinstance(item, NoFeedback)] == ["hopeless"]
    assert judge_into(path, "moody", calm, data, ask_again=True) == found and len(calm.asked) == 3
    silent = Moody(["1"])
    (tmp_path / "g.jsonl").write_bytes(path.read_bytes())
    assert judge_into(tmp_path / "g.jsonl", "moody", silent, data, ask_again=True) == found and not silent.asked
