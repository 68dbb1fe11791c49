"""What the page of a run draws."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from agentgym_py.report import figures, svg

RATE = {"value": 0.5, "low": 0.4, "high": 0.6, "n": 10}
PLAYED = {"success": RATE, "reward": RATE, "steps": 4.0, "invalid": 0.25, "tokens": None}


def metrics(number: int, **more: Any) -> dict[str, Any]:
    """Of a round."""
    return {
        "round": number, "explored": PLAYED, "valid": PLAYED, "training": None,
        "selection": {"kept": 6, "dropped": {"below reward 1": 4}},
    } | more  # fmt: skip


def test_the_curves_have_their_intervals() -> None:
    """By round, those of the test split only where it was played; what is no number is a dash."""
    unknown = {"value": None, "low": None, "high": None, "n": 0}
    lost = metrics(1, valid={**PLAYED, "success": unknown, "reward": unknown})
    success, reward = figures.outcomes([metrics(0), lost], {0: PLAYED})
    assert success.rows == [
        ["0", "50.0 % [40, 60]", "50.0 % [40, 60]"], ["1", "–", "–"],
    ]  # fmt: skip
    assert "50.0 % first" in success.description and reward.rows[0][1] == "0.500 [0.40, 0.60]"

    assert list(figures.outcomes([lost], {})) == []


def test_each_of_several_worlds_has_a_curve() -> None:
    """By round, with the test split where it was played; a run of one world has none of its own."""
    high = {**PLAYED, "success": {"value": 0.9, "low": 0.8, "high": 1.0, "n": 10}}
    several = {**PLAYED, "worlds": {"maze": PLAYED, "shop": high}}
    found = {each.title: each for each in figures.outcomes([metrics(0, valid=several)], {0: several})}
    assert list(found) == ["Success", "Reward", "Success in maze", "Success in shop"]
    assert found["Success in shop"].rows == [["0", "90.0 % [80, 100]", "90.0 % [80, 100]"]]
    alone = {**PLAYED, "worlds": {"maze": PLAYED}}
    assert [each.title for each in figures.outcomes([metrics(0, valid=alone)], {})] == ["Success", "Reward"]


def test_the_funnel_says_what_became_of_every_episode() -> None:
    """Kept and dropped; what the trainer left out where it had this round's episodes only."""
    trained = {"trajectories": 5, "dropped": {"longer than 9 tokens": 1}}
    merged = {"trajectories": 25, "dropped": {"longer than 9 tokens": 1}}
    found = figures.selection([metrics(0), metrics(1, training=trained), metrics(2, training=merged)])
    assert found.header == ["", "trained on", "kept", "below reward 1", "longer than 9 tokens"]
    assert found.rows == [
        ["round 0", "0", "6", "4", "0"], ["round 1", "5", "0", "4", "1"], ["round 2", "0", "6", "4", "0"],
    ]  # fmt: skip


def test_what_trainings_logged_is_one_curve() -> None:
    """Through all rounds; of an older version its loss; a name that nothing logged has no chart."""
    rounds = [
        metrics(0, training={"loss": [3.0, 2.0], "history": []}),
        metrics(1, training={"loss": [1.0], "history": [{"loss": 1.0, "kl_old_k3": 0.01, "entropy": 0.3}]}),
    ]
    found = {each.title: each for each in figures.training(rounds)}
    assert list(found) == ["Loss", "KL divergence, nats a token", "Entropy, nats a token"]
    assert found["Loss"].rows == [["0", "1", "3"], ["0", "2", "2"], ["1", "3", "1"]]
    assert found["Entropy, nats a token"].rows == [["0", "1", "–"], ["0", "2", "–"], ["1", "3", "0.3"]]
    assert "a new round" in found["Loss"].note


def test_behaviour_is_by_round() -> None:
    """What nobody counted has no chart; the entropy of exploration stands for one that the trainer does not log."""
    explored = {**PLAYED, "surprisal": 0.7}
    titles = [each.title for each in figures.behaviour([metrics(0), metrics(1, explored=explored)])]
    assert titles == ["Steps an episode", "Invalid actions", "Entropy of exploration, nats a token"]
    logged = metrics(1, explored=explored, training={"history": [{"entropy": 0.5}]})
    assert [each.title for each in figures.behaviour([logged])] == ["Steps an episode", "Invalid actions"]
    (*_, cut) = figures.behaviour([metrics(0, explored={**explored, "cut": 0.25}) | {"training": logged["training"]}])
    assert cut.title == "Replies cut" and cut.rows == [["0", "25 %"]]


def test_rewards_and_ends_are_counted() -> None:
    """Histograms of what was explored, none of runs that did not count; ends of the valid split with successes."""
    assert not list(figures.rewards([metrics(0)]))
    (found,) = figures.rewards([metrics(0, explored={**PLAYED, "rewards": {"0.0": 3, "1.0": 1}})])
    assert found.rows == [["round 0", "0", "3"], ["round 0", "1", "1"]] and "mean 0.25" in found.description
    failed = {**PLAYED, "failures": {"looped": {"count": 5, "example": "x"}}}
    assert figures.failing([metrics(0, valid=failed)]).rows == [["round 0", "5", "5"]]
    never = {**failed, "success": {**RATE, "value": 0.0}}
    found = figures.failing([metrics(0, valid=never)])
    assert (found.header, found.rows) == (["", "success", "looped"], [["round 0", "0", "5"]])
    assert [name for colour, _, name in found.legend if colour == svg.BARS[0]] == ["success"]


def test_long_logs_have_short_tables() -> None:
    """At even distances, with the first and the last step."""
    (found,) = figures.training([metrics(0, training={"loss": [float(i) for i in range(1000)]})])
    steps = [int(row[1]) for row in found.rows]
    assert len(steps) == 40 and (steps[0], steps[-1]) == (1, 1000) and steps == sorted(set(steps))


def steps(**columns: list[float]) -> list[figures.Figure]:
    """The charts of a training that logged these columns."""
    history = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return list(figures.training([metrics(1, training={"loss": [1.0], "history": history})]))


@pytest.mark.parametrize("name", ["kl_old_k3", "loss", "grad_norm", "reply_tokens"])
@pytest.mark.parametrize("sign", [1, -1])
def test_one_outlier_does_not_rule_a_chart(monkeypatch: pytest.MonkeyPatch, name: str, sign: int) -> None:
    """It is left out, the note says so, and the table has it; the others show their shape."""
    drawn: list[Any] = []
    monkeypatch.setattr(svg, "has_matplotlib", lambda: True)

    def lines(curves: Any, *_: object, **__: object) -> str:
        drawn.append(curves)
        return ""

    monkeypatch.setattr(svg, "lines", lines)
    (found,) = steps(**{name: [0.036, sign * 7.0787, 0.041, 0.02, 0.03]})
    (curve,) = drawn[0]
    assert [math.isnan(y) for y in curve.y] == [False, True, False, False, False]
    assert re.search(rf"Beyond the chart, .*: {sign * 7.079} at 2\.$", found.note)
    assert any(f"{sign * 7.079}" in row for row in found.rows)


@pytest.mark.parametrize(
    "values",
    [[0.1, 0.2, 0.4, 0.8, 1.6], [5.0, 0.5, 0.4], [0.0, 0.0, 3.0, 0.0], [9.0, 8.0, 0.1, 0.1, 0.1], [math.nan, 1, 2, 3]],
)
def test_what_is_no_outlier_is_drawn(values: list[float]) -> None:
    """Growth, few values, nothing but zeros beside it, and several of them."""
    (found,) = steps(loss=values)
    assert "Beyond the chart" not in found.note


def test_several_outliers_of_a_long_training_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of twenty values at most."""
    (found,) = steps(loss=[0.1] * 180 + [50.0] * 8 + [0.1] * 12)
    assert "50 at 181, 50 at 182" in found.note and found.note.endswith(", ….")
    (found,) = steps(loss=[0.1] * 180 + [50.0] * 20)
    assert "Beyond the chart" not in found.note
