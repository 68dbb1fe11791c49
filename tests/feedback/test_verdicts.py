from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentgym_py.errors import DataError
from agentgym_py.feedback import EpisodeRef, ScoreFeedback, verdicts
from agentgym_py.feedback.human import HumanVerdicts
from agentgym_py.feedback.store import header_of, read_feedback, write_feedback
from agentgym_py.feedback.verdicts import Ref
from agentgym_py.trajectory import Trajectory, preferences, store
from agentgym_py.trajectory.formats import agenttraj, trl

Make = Callable[..., Trajectory]
A, B, C = Ref("rounds/00/a.jsonl", "a"), Ref("rounds/00/a.jsonl", "b"), Ref("c.jsonl", "c")


@pytest.fixture
def folder(tmp_path: Path, episode: Make) -> Path:
    """Three tries at a task; the world liked the last one."""
    store.write(
        tmp_path / A.file, [episode("x", id="a", reward=0.0, success=False), episode("y", "z", id="b", reward=0.0)]
    )
    store.write(tmp_path / C.file, [episode("w", id="c", reward=1.0), episode("v", id="never judged")])
    return tmp_path


def test_the_last_word_holds(folder: Path) -> None:
    """On an episode, and on a pair whichever way round it was shown; 0 takes a verdict back."""
    assert verdicts.read(folder) == verdicts.Verdicts({}, ())
    for ref, verdict in ((A, 1), (B, 1), (A, -1), (B, 0)):
        verdicts.rate(folder, ref, verdict)
    verdicts.prefer(folder, A, B, 1)
    verdicts.prefer(folder, B, A, 1)
    verdicts.prefer(folder, A, C, -1)
    verdicts.prefer(folder, B, C, 1)
    verdicts.prefer(folder, C, B, 0)
    assert verdicts.read(folder) == verdicts.Verdicts({A: -1}, ((B, A), (C, A)))
    assert len((folder / verdicts.FILE).read_text().splitlines()) == 9


def test_a_line_that_was_cut_off_is_left_out(folder: Path) -> None:
    """What is written after it is read again; what is JSON but no verdict is refused with its line."""
    verdicts.rate(folder, A, 1)
    path = folder / verdicts.FILE
    with path.open("ab") as file:
        file.write(b'{"episode": {"fi')
    verdicts.rate(folder, B, -1)
    with pytest.warns(UserWarning, match=r"verdicts\.jsonl:2: a line that was cut off"):
        assert verdicts.read(folder).thumbs == {A: 1, B: -1}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert verdicts.read(folder, warn=False).thumbs == {A: 1, B: -1}
    for wrong in (
        {"verdict": 2},
        {"episode": {"file": "a", "id": 1}, "verdict": 1},
        [1],
        {"first": A._asdict(), "verdict": 1},
    ):
        path.write_text(json.dumps(wrong) + "\n")
        with pytest.raises(DataError, match=r"verdicts\.jsonl:1: no verdict"):
            verdicts.read(folder)


def test_verdicts_and_feedback_in_one_folder(folder: Path) -> None:
    """Verdicts of earlier versions are read first; a file of `agentgym judge` is neither read nor changed."""
    verdicts.rate(folder, A, 1)
    verdicts.rate(folder, B, 1)
    old = (folder / verdicts.FILE).rename(folder / "feedback.jsonl")
    before = old.read_bytes()
    verdicts.rate(folder, A, -1)
    assert verdicts.read(folder).thumbs == {A: -1, B: 1} and old.read_bytes() == before
    assert HumanVerdicts(str(folder)).input_files() == [old, folder / verdicts.FILE]
    old.unlink()
    feedback = [ScoreFeedback(EpisodeRef("a", "0"), 1.0)]
    write_feedback(old, header_of("environment", {}, [EpisodeRef("a", "0")]), feedback)
    verdicts.rate(folder, B, -1)
    assert verdicts.read(folder).thumbs == {A: -1, B: -1} and read_feedback(old) == feedback
    old.replace(folder / verdicts.FILE)
    assert verdicts.read(folder) == verdicts.Verdicts({}, ())
    with pytest.raises(DataError, match=r"verdicts\.jsonl holds feedback of agentgym judge and takes no verdicts"):
        verdicts.rate(folder, A, 1)
    assert read_feedback(folder / verdicts.FILE) == feedback


def test_wrong_verdicts_are_refused(folder: Path) -> None:
    """Before anything is written."""
    with pytest.raises(DataError):
        verdicts.rate(folder, A, 2)
    with pytest.raises(DataError):
        verdicts.prefer(folder, A, A, 1)
    assert not (folder / verdicts.FILE).exists()


def test_people_overrule_the_world(folder: Path) -> None:
    """A judged episode's reward is its thumb and its preferences, at the last step; the others are not there."""
    verdicts.rate(folder, A, 1)
    verdicts.prefer(folder, A, C, 1)
    verdicts.prefer(folder, B, C, 1)
    found = {t.id: t for t in verdicts.judged(folder)}
    assert {name: (t.reward, t.success) for name, t in found.items()} == {
        "a": (2.0, True), "b": (1.0, True), "c": (-2.0, False),
    }  # fmt: skip
    assert [(s.reward, s.reward_parts) for s in found["b"].steps] == [(0.0, {"human": 0.0}), (1.0, {"human": 1.0})]
    store.write(folder / "judged", found.values())
    assert list(store.read(folder / "judged")) == list(found.values())


def test_trainers_of_pairs_pair_as_people_did(folder: Path) -> None:
    """`pairs.build`, which DPO, ORPO and the reward model use, has the chosen episode first."""
    verdicts.prefer(folder, A, C, 1)  # the world says the opposite
    judged = verdicts.judged(folder)
    (pair,) = preferences.build_pairs(judged).pairs
    assert (judged[pair.chosen].id, judged[pair.rejected].id) == ("a", "c")


def test_dpo_and_kto_train_on_it(tmp_path: Path, tiny_policy: Any, episode: Make) -> None:
    """A preference is a pair of DPO's, thumbs are KTO's good and bad episodes."""
    from copy import deepcopy

    from agentgym_trainers.dpo import DPO
    from agentgym_trainers.kto import KTO

    name = "rounds/01/trajectories.jsonl"
    first, second, third = (episode("x", str(n), id=str(n)) for n in range(3))
    store.write(tmp_path / name, [first, second, third])
    verdicts.prefer(tmp_path, Ref(name, second.id), Ref(name, first.id), 1)
    trained = DPO(epochs=1).train(deepcopy(tiny_policy), verdicts.judged(tmp_path), seed=0, output_dir=tmp_path / "dpo")
    assert trained.metrics["pairs"] == 1
    verdicts.rate(tmp_path, Ref(name, third.id), -1)
    trained = KTO(epochs=1).train(deepcopy(tiny_policy), verdicts.judged(tmp_path), seed=0, output_dir=tmp_path / "kto")
    assert (trained.metrics["good"], trained.metrics["bad"]) == (1, 2)


def test_stars_and_better_replies(folder: Path) -> None:
    """The last ones count; 0 and an empty text withdraw; stars add (stars - 3) / 2 to the reward."""
    for stars in (1, 5):
        verdicts.give_stars(folder, A, stars)
    verdicts.give_stars(folder, B, 2)
    verdicts.give_stars(folder, C, 4)
    verdicts.give_stars(folder, C, 0)
    for step, reply in ((0, "Action: x"), (1, "Action: y"), (0, "Action: z"), (1, " ")):
        verdicts.correct(folder, B, step, reply)
    found = verdicts.read(folder)
    assert found.stars == {A: 5, B: 2} and found.replies == {(B, 0): "Action: z"}
    assert {t.id: t.reward for t in verdicts.judged(folder)} == {"a": 1.0, "b": -0.5}
    with pytest.raises(DataError):
        verdicts.give_stars(folder, A, 6)
    with pytest.raises(DataError):
        verdicts.correct(folder, A, -1, "x")
    path = folder / verdicts.FILE
    for wrong in (
        {"episode": A._asdict(), "stars": 6}, {"episode": A._asdict(), "stars": True}, {"stars": 3},
        {"episode": A._asdict(), "step": -1, "reply": "x"}, {"episode": A._asdict(), "step": 0},
    ):  # fmt: skip
        path.write_text(json.dumps(wrong) + "\n")
        with pytest.raises(DataError, match=r"verdicts\.jsonl:1: no verdict"):
            verdicts.read(folder)


def test_preferences_are_the_pairs_themselves(folder: Path, tmp_path: Path) -> None:
    """As they were chosen, for the formats of other programs."""
    verdicts.prefer(folder, C, A, -1)
    (pair,) = verdicts.preferences(folder)
    assert (pair.chosen.id, pair.rejected.id) == ("a", "c")
    row = trl.preference(pair)
    assert row is not None
    assert "Action: x" in json.dumps(row["chosen"])
    assert agenttraj.write_pairs(tmp_path / "pairs.json", [pair]) == 1


def test_episodes_that_are_gone_are_left_out(folder: Path) -> None:
    """With a warning that counts them."""
    verdicts.rate(folder, A, 1)
    verdicts.rate(folder, Ref("other.jsonl", "a"), 1)
    verdicts.rate(folder, Ref(A.file, "no such id"), 1)
    with pytest.warns(UserWarning, match="2 judged episodes no longer"):
        assert [t.id for t in verdicts.judged(folder)] == ["a"]


@pytest.mark.parametrize("absolute", [True, False])
def test_feedback_leads_nowhere_else(absolute: bool, folder: Path) -> None:
    """A file that names a store outside of its folder takes nothing from there."""
    inner = folder / "inner"
    inner.mkdir()
    verdicts.rate(inner, Ref(str(folder / C.file) if absolute else f"../{C.file}", C.id), 1)
    with pytest.warns(UserWarning, match="1 judged episode no longer"):
        assert verdicts.judged(inner) == []


def test_only_episodes_that_open_alike_are_compared(episode: Make) -> None:
    """Of another task, or without a step: no trainer could pair them."""
    assert verdicts.comparable(episode("x"), episode("y"))
    assert not verdicts.comparable(episode("x"), episode("y", task="shop/train/easy/2"))
    assert not verdicts.comparable(episode("x"), episode())
