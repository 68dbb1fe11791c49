"""What the page of a run draws."""

from __future__ import annotations

import math
import re
from importlib.resources import files
from typing import Any

import pytest

from agentgym_py.evaluation.failures import FAILURES
from agentgym_py.report import charts, comparison, figures, svg, training_figures
from agentgym_py.report.html import _templates
from agentgym_py.report.terminal import explored_episodes, percent_text, round_cells

RATE = {"value": 0.5, "low": 0.4, "high": 0.6, "n": 10}
PLAYED = {"success": RATE, "reward": RATE, "steps": 4.0, "invalid": 0.25, "tokens": None}


@pytest.fixture(autouse=True)
def _without_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """`test_svg` draws some; here they would take most of the time."""
    monkeypatch.setattr(svg, "has_matplotlib", lambda: False)


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
    assert found.header == ["", "kept", "below reward 1", "longer than 9 tokens"]
    assert found.rows == [
        ["round 0", "6", "4", "0"], ["round 1", "5", "4", "1"], ["round 2", "6", "4", "0"],
    ]  # fmt: skip


def test_what_trainings_logged_is_one_curve() -> None:
    """Through all rounds; of an older version its loss; a name that nothing logged has no chart."""
    rounds = [
        metrics(0, training={"loss": [3.0, 2.0], "history": []}),
        metrics(1, training={"loss": [1.0], "history": [{"loss": 1.0, "kl_old_k3": 0.01, "entropy": 0.3}]}),
    ]
    found = {each.title: each for each in training_figures.training(rounds)}
    assert list(found) == ["Loss", "KL divergence, nats per token", "Entropy, nats per token"]
    assert found["Loss"].rows == [["0", "1", "3"], ["0", "2", "2"], ["1", "3", "1"]]
    assert found["Entropy, nats per token"].rows == [["0", "1", "–"], ["0", "2", "–"], ["1", "3", "0.3"]]
    assert "a new round" in found["Loss"].note


def test_the_cloning_before_an_on_policy_training_has_its_own_charts() -> None:
    """Its loss is another one, so no curve joins them."""
    logged = [{"loss": 0.01, "success": 0.2}, {"loss": -0.02, "success": 0.4}]
    rounds = [
        metrics(0, training={"history": [{"loss": 3.0}, {"loss": 2.0}]}),
        metrics(1, training={"history": logged}),
    ]
    found = {each.title: each for each in training_figures.training(rounds)}
    assert list(found) == ["Loss", "Success of the training episodes", "Loss, cloning of the expert"]
    assert found["Loss"].rows == [["1", "1", "0.01"], ["1", "2", "-0.02"]]
    assert found["Loss, cloning of the expert"].rows == [["0", "1", "3"], ["0", "2", "2"]]


def test_behaviour_is_by_round() -> None:
    """What nobody counted has no chart; the entropy of exploration stands for one that the trainer does not log."""
    explored = {**PLAYED, "surprisal": 0.7}
    titles = [each.title for each in figures.behaviour([metrics(0), metrics(1, explored=explored)])]
    assert titles == ["Steps per episode", "Invalid actions", "Entropy of exploration, nats per token"]
    logged = metrics(1, explored=explored, training={"history": [{"entropy": 0.5}]})
    assert [each.title for each in figures.behaviour([logged])] == ["Steps per episode", "Invalid actions"]
    (*_, cut) = figures.behaviour([metrics(0, explored={**explored, "cut": 0.25}) | {"training": logged["training"]}])
    assert cut.title == "Replies cut off" and cut.rows == [["0", "25 %"]]


def test_a_share_of_nothing_is_a_dash() -> None:
    """Not a dash with a percent sign: in charts by round, and in the table of the test split."""
    none = {**PLAYED, "invalid": None}
    *_, found = figures.behaviour([metrics(0, valid=none), metrics(1)])
    assert found.rows == [["0", "25 %", "–", "–"], ["1", "–", "25 %", "25 %"]]
    assert percent_text(None) == percent_text(math.nan) == "–" and percent_text(0.125) == "12.5 %"
    assert comparison._row("agent", {**none, "steps": None})[3:] == ["–", "–"]


def test_retries_are_not_explored() -> None:
    """The page and the terminal leave them out of the explored episodes, though they are selected with them."""
    retried = metrics(1, reflection={"retries": 3}, seconds=1.0)
    assert explored_episodes(retried) == 7 and round_cells(1, retried)[1] == "7 at 50.0 %"
    template = _templates().from_string("{{ metrics | explored_episodes }}")
    assert template.render(metrics=retried) == "7"
    assert "{{ each | explored_episodes }}" in files("agentgym_py.report").joinpath("templates/report.html").read_text()


def test_the_expert_is_a_point_of_its_own() -> None:
    """No line joins the expert's round 0 to the agents that explore later."""
    (found, *_) = figures.behaviour([metrics(0), metrics(1), metrics(2)])
    assert found.header == ["round", "expert", "explored", "valid"]
    assert found.rows == [["0", "4", "–", "4"], ["1", "–", "4", "4"], ["2", "–", "4", "4"]]
    assert [name for _, _, name in found.legend] == ["expert", "explored", "valid"]


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
    assert [name for colour, _, name in found.legend if colour == 2] == ["success"]


def test_rewards_have_the_colour_of_exploration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the expert and of the explored episodes in the other charts, not that of the valid split."""
    monkeypatch.setattr(svg, "has_matplotlib", lambda: True)
    monkeypatch.setattr(svg, "histograms", lambda rows, x, colours, top: f"<svg {colours} {top}>")
    monkeypatch.setattr(svg, "lines", lambda *_, **__: "<svg>")
    rounds = [metrics(number, explored={**PLAYED, "rewards": {"0.0": 3}}) for number in range(2)]
    (histogram,) = figures.rewards(rounds, 2.0)
    colours = {name: colour for figure in figures.behaviour(rounds) for colour, _, name in figure.legend}
    assert histogram.svg == f"<svg { {'round 0': colours['expert'], 'round 1': colours['explored']} } 2.0>"
    assert len(set(colours.values())) == len(colours) == 3
    assert [(colour, name) for colour, _, name in histogram.legend] == [
        (colours["expert"], "expert"), (colours["explored"], "explored"),
    ]  # fmt: skip


def ends(*kinds: str) -> charts.Figure:
    """The chart of a valid split with failures of these kinds."""
    failed = {**PLAYED, "failures": {kind: {"count": 1, "example": "x"} for kind in kinds}}
    return figures.failing([metrics(0, valid=failed)])


def test_a_name_has_the_same_colour_in_every_chart() -> None:
    """Whichever other kinds of failure, reasons or curves a run has; no two parts of a chart share a colour."""
    everything = {name: colour for colour, _, name in ends(*FAILURES).legend}
    assert len(set(everything.values())) == len(FAILURES) + 1
    for kind in FAILURES:
        assert {name: colour for colour, _, name in ends(kind).legend} == {
            "success": everything["success"], kind: everything[kind],
        }  # fmt: skip
    reasons = ["z", "longer than 9 tokens", "a", "below reward 1", "beyond the best 2 of their task"]
    legend = figures.selection([metrics(0, selection={"kept": 1, "dropped": dict.fromkeys(reasons, 1)})]).legend
    colours = {name: colour for colour, _, name in legend}
    assert len(set(colours.values())) == len(colours) == 6
    same = figures.selection([metrics(0, selection={"kept": 0, "dropped": {"longer than 4 tokens": 1}})]).legend
    assert [colour for colour, _, name in same if name.startswith("longer")] == [colours["longer than 9 tokens"]]
    both, alone = (
        {name: colour for figure in list(found) for colour, _, name in figure.legend}
        for found in (figures.behaviour([metrics(0), metrics(1)]), figures.outcomes([metrics(0)], {0: PLAYED}))
    )
    assert (both["valid"], alone["valid split"], alone["test split"], both["explored"]) == (0, 0, 1, 3)


def test_figures_of_one_point_are_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without charts; figures of two rounds and of several logged steps are drawn."""
    monkeypatch.setattr(svg, "has_matplotlib", lambda: True)
    monkeypatch.setattr(svg, "lines", lambda *_, **__: "<svg>")
    only = [metrics(0, training={"loss": [3.0, 2.0], "history": []})]
    found = list(figures.outcomes(only, {}))
    assert [(figure.svg, figure.is_single) for figure in found] == [("", True)] * 2
    assert charts.single_table(found) == (
        ["", "valid [95 %]"], [["Success", "50.0 % [40, 60]"], ["Reward", "0.500 [0.40, 0.60]"]],
    )  # fmt: skip
    assert charts.single_table(list(figures.behaviour(only))) == (
        ["", "expert", "valid"], [["Steps per episode", "4", "4"], ["Invalid actions", "25 %", "25 %"]],
    )  # fmt: skip
    once = steps(loss=[0.5], entropy=[0.25])
    assert charts.single_table(once) == (["", "value"], [["Loss", "0.5"], ["Entropy, nats per token", "0.25"]])
    entropy = list(figures.behaviour([metrics(0), metrics(1, explored={**PLAYED, "surprisal": 0.7})]))[-1:]
    assert charts.single_table(entropy) == (
        ["", "explored"], [["Entropy of exploration, nats per token (round 1)", "0.7"]],
    )  # fmt: skip
    drawn = [*training_figures.training(only), *figures.outcomes([*only, metrics(1)], {})]
    assert [figure.svg for figure in drawn] == ["<svg>"] * 3 and not any(figure.is_single for figure in drawn)


@pytest.mark.parametrize(
    ("shares", "remark"),
    [
        ([0.076, 0.1, 0.213], "rose from 7.6 % (round 0) to 21.3 % (round 2)"),
        ([0.3, 0.1, 0.2], "from 10.0 % (round 1)"),
        ([0.2, 0.1, 0.12], ""),
        ([0.2], ""),
        ([0.1, None], ""),
    ],
)
def test_a_rise_of_invalid_actions_is_remarked(shares: list[float | None], remark: str) -> None:
    """From the round with the fewest to the last; not a small rise, nor a round without a counted episode."""
    unknown = {"value": None, "low": None, "high": None, "n": 0}
    valid = [
        {**PLAYED, "invalid": s} if s is not None else {**PLAYED, "invalid": s, "success": unknown} for s in shares
    ]
    found = figures.invalid_remark([metrics(i, valid=each) for i, each in enumerate(valid)])
    assert remark in found and bool(found) == bool(remark)


def test_the_parts_of_a_reward_are_drawn() -> None:
    """By logged step if a trainer logs them, else by round; at most as many in a chart as there are colours."""
    names = [f"rewards/f/{number}/mean" for number in range(svg.COLOURS + 1)]
    rows = [{"loss": 1.0, **dict.fromkeys(names, value)} for value in (0.5, 0.25)]
    logged = metrics(1, training={"history": rows, "metrics": rows[-1]})
    *_, first, second = training_figures.training([logged])
    assert first.title == "Parts of the reward" and first.header[:3] == ["round", "step", "f/0"]
    assert second.title == "Parts of the reward, continued" and second.rows == [["1", "1", "0.5"], ["1", "2", "0.25"]]
    assert not list(training_figures.reward_parts([logged])) and not list(training_figures.reward_parts([metrics(0)]))
    (found,) = training_figures.reward_parts(
        [metrics(0), metrics(1, training={"metrics": {names[0]: 2.0, "loss": 1.0}})]
    )
    assert found.header == ["round", "f/0"] and found.rows == [["1", "2"]]


def test_costs_are_drawn_beside_their_limits() -> None:
    """Of rounds that have them, with the test split; a cost that never occurs only if it has a limit."""
    assert not list(figures.costs([metrics(0)], {}, {}))
    none, some = ({"value": value, "low": None, "high": None, "n": 10} for value in (0.0, 0.2))
    played = {**PLAYED, "costs": {"deletions": some, "noise": none}}
    rounds = [metrics(0, valid=played, explored=played), metrics(1, valid=played)]
    (found,) = figures.costs(rounds, {1: played}, {})
    assert found.title == "Cost per episode: deletions" and found.header == [
        "round",
        "valid split",
        "explored",
        "test split",
    ]
    assert found.rows == [["0", "0.200", "0.200", "–"], ["1", "0.200", "–", "0.200"]]
    first, second = figures.costs(rounds, {}, {"noise": 0.1})
    assert first.title.endswith("deletions") and second.title == "Cost per episode: noise, at most 0.1"
    assert "limit: 0.1 first" in second.description and "limit" not in first.description


def test_what_a_trainer_logs_by_names_of_its_own_is_drawn() -> None:
    """Each name that no chart above draws and whose value changes; the cloning before it has others."""
    cloned = metrics(0, training={"history": [{"loss": 2.0, "mine/cloned": 1.0}, {"loss": 1.0, "mine/cloned": 2.0}]})
    rows = [{"success": 0.5, "mine/margin": 1.0, "same": 3.0}, {"success": 0.7, "mine/margin": None, "same": 3.0},
            {"success": 0.8, "mine/margin": 2.0, "same": 3.0}]  # fmt: skip
    (margin,) = training_figures.other_logs([cloned, metrics(1, training={"history": rows})])
    assert margin.title == "mine/margin" and [row[-1] for row in margin.rows] == ["1", "–", "2"]
    (alone,) = training_figures.other_logs([cloned])
    assert alone.title == "mine/cloned"
    assert not list(training_figures.other_logs([metrics(0)]))


def test_costs_and_multipliers_of_a_training_are_drawn() -> None:
    """By logged step, each in a chart of its own with the names of the costs."""
    rows = [{"loss": 1.0, "cost/a": 0.5, "multiplier/a": 0.0}, {"loss": 1.0, "cost/a": 0.25, "multiplier/a": 0.75}]
    *_, costs, multipliers = training_figures.training([metrics(1, training={"history": rows})])
    assert costs.title == "Costs of the training episodes" and costs.header == ["round", "step", "a"]
    assert multipliers.title == "Lagrange multipliers" and multipliers.rows == [["1", "1", "0"], ["1", "2", "0.75"]]


def test_the_levels_and_the_horizon_are_drawn() -> None:
    """Of rounds that have them: the mean level, the success at each level, in each of several worlds, the steps."""
    assert not list(figures.curriculum([metrics(0), metrics(1)]))
    none = {"value": None, "low": None, "high": None, "n": 0}
    rounds = [
        metrics(0),
        metrics(1, curriculum={"horizon": 10, "levels": {"maze": {"easy": RATE, "hard": none}}}),
        metrics(2, curriculum={"horizon": 20, "levels": {"maze": {"easy": {**RATE, "n": 30}, "hard": RATE}}}),
    ]
    level, success, horizon = figures.curriculum(rounds)
    assert level.title == "Level of exploration, from 1" and level.header == ["round", "maze"]
    assert level.rows == [["1", f"{RATE['n']} easy"], ["2", f"30 easy, {RATE['n']} hard"]]
    assert f"maze: 1 first, {(30 + 2 * RATE['n']) / (30 + RATE['n']):.4g} last" in level.description
    assert success.title == "Success of exploration by level" and success.header == ["round", "easy", "hard"]
    assert [row[2] for row in success.rows] == ["–", success.rows[1][1]] and "–" not in success.rows[1]
    assert horizon.rows == [["1", "10"], ["2", "20"]]
    both = {"levels": {"maze": {"easy": RATE}, "shop": {"easy": RATE}}}
    titles = [figure.title for figure in figures.curriculum([metrics(1, curriculum=both)])]
    assert titles[1:] == ["Success of exploration by level in maze", "Success of exploration by level in shop"]


def test_rounds_of_other_worlds_have_levels_of_their_own() -> None:
    """An older version named a role's world `errand`; a sequence changes its world."""
    names = {1: "errand", 2: "errand:client"}
    level, *successes = figures.curriculum(
        [metrics(n, curriculum={"levels": {name: {"easy": RATE}}}) for n, name in names.items()]
    )
    assert level.header == ["round", "errand", "errand:client"]
    assert level.rows == [["1", "10 easy", "–"], ["2", "–", "10 easy"]]
    assert [[row[0] for row in figure.rows] for figure in successes] == [["1"], ["2"]]


def test_long_logs_have_short_tables() -> None:
    """At even distances, with the first and the last step."""
    (found,) = training_figures.training([metrics(0, training={"loss": [float(i) for i in range(1000)]})])
    steps = [int(row[1]) for row in found.rows]
    assert len(steps) == 40 and (steps[0], steps[-1]) == (1, 1000) and steps == sorted(set(steps))


def steps(**columns: list[float]) -> list[charts.Figure]:
    """The charts of a training that logged these columns."""
    history = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return list(training_figures.training([metrics(1, training={"loss": [1.0], "history": history})]))


def test_success_of_a_training_is_in_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its chart goes to 100 %, so that a change is not larger than it is; other charts but the loss begin at 0."""
    drawn = list[dict[str, Any]]()
    monkeypatch.setattr(svg, "has_matplotlib", lambda: True)

    def lines(curves: object, x: str, **options: Any) -> str:
        drawn.append(options)
        return ""

    monkeypatch.setattr(svg, "lines", lines)
    rows = {figure.title: figure.rows for figure in steps(success=[0.125, 0.0625], loss=[1.0, 0.9], entropy=[0.4, 0.5])}
    assert rows["Success of the training episodes"] == [["1", "1", "12.5 %"], ["1", "2", "6.25 %"]]
    assert [(each["percent"], each["from_zero"]) for each in drawn] == [(False, False), (False, True), (True, True)]


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
