"""Comparisons that may be looked at after every task: wealth against a slow reference, error rates by simulation."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_py.cli import main
from agentgym_py.errors import ConfigError
from agentgym_py.evaluation.anytime import AnytimeTest, Bets, compare_in_order
from agentgym_py.evaluation.compare import Entrant, compare
from agentgym_py.evaluation.foreign import is_foreign

DIFFERENCES = st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0])


def wealth(differences: list[float], mean: float) -> float:
    """K(m), close to its notation: the mean over the shares of the products of the bets."""
    products = []
    for node in (math.cos((2 * k + 1) * math.pi / 32) for k in range(16)):
        share = 0.5 * node / (1 + mean if node > 0 else 1 - mean)
        products.append(math.prod(1 + share * (difference - mean) for difference in differences))
    return fmean(products)


@settings(max_examples=25, deadline=None)
@given(st.lists(DIFFERENCES, min_size=1, max_size=60))
def test_the_wealth_is_that_of_the_formula(differences: list[float]) -> None:
    """Of "no difference" and of the ends of the interval, which are what no look has rejected."""
    test = AnytimeTest()
    for number, difference in enumerate(differences, 1):
        found = test.add(difference)
        assert found.difference.value == pytest.approx(fmean(differences[:number]))
    looks = [differences[:number] for number in range(1, len(differences) + 1)]
    assert found.e_value == pytest.approx(wealth(differences, 0.0))
    assert found.p == pytest.approx(min(1, 1 / max(1, *(wealth(look, 0.0) for look in looks))))
    low, high = found.difference.low, found.difference.high
    for inside in (low + 0.005, high - 0.005):  # the interval is rounded outward to the grid
        assert max(wealth(look, inside) for look in looks) < 20
    for outside in (low, high):
        assert abs(outside) == 1 or max(wealth(look, outside) for look in looks) >= 20


@settings(max_examples=25, deadline=None)
@given(st.lists(DIFFERENCES, max_size=40), st.integers(-199, 199))
def test_bets_are_fair_and_never_lose_all(before: list[float], grid: int) -> None:
    """At a mean that a coin of two differences has, the expected wealth is the wealth before; it stays above 0."""
    mean = grid / 200
    up = (1 + mean) / 2  # the chance of +1
    expected = up * wealth([*before, 1.0], mean) + (1 - up) * wealth([*before, -1.0], mean)
    assert expected == pytest.approx(wealth(before, mean)) and wealth(before, mean) > 0


def decided(first: float, second: float, rng: np.random.Generator, tasks: int, **settings: Any) -> Any:
    """A comparison of two agents who succeed independently of each other."""
    test = AnytimeTest(**settings)
    for one, other in zip(rng.random(tasks) < first, rng.random(tasks) < second, strict=True):
        if (found := test.add(float(one) - float(other))).verdict != "undecided":
            return found
    return test.result


def test_equal_agents_are_seldom_told_apart() -> None:
    """Looked at after each of 150 tasks, by at most the level, within three standard errors."""
    rng, simulations = np.random.default_rng(0), 120
    false = sum(decided(0.5, 0.5, rng, 150).verdict != "undecided" for _ in range(simulations))
    assert false <= 0.05 * simulations + 3 * math.sqrt(simulations * 0.05 * 0.95)


def test_different_agents_are_told_apart_and_close_ones_are_equal() -> None:
    """The right one wins, and the margin ends a comparison that has nothing to find."""
    rng = np.random.default_rng(1)
    found = [decided(0.8, 0.3, rng, 300) for _ in range(20)]
    assert [each.verdict for each in found] == ["first"] * 20 and all(each.decided_at < 150 for each in found)
    assert decided(0.2, 0.9, rng, 300).verdict == "second"
    equal = decided(0.02, 0.02, rng, 600, margin=0.2)
    assert equal.verdict == "equal" and max(-equal.difference.low, equal.difference.high) == pytest.approx(0.2)


def test_a_decision_stands_and_large_wealth_is_a_number() -> None:
    """As long as a difference fits what comes after it."""
    test = AnytimeTest()
    for number in range(30):
        first = test.add(float(number % 3 > 0))
    assert first.verdict == "first" and first.decided_at is not None and first.decided_at < 20
    for number in range(60):
        later = test.add(float(number % 3 - 1))
    assert (later.verdict, later.decided_at) == ("first", first.decided_at) and later.e_value < 20
    for _ in range(3000):
        last = test.add(-1.0)
    assert not last.fits and last.verdict == "undecided" and math.isfinite(last.e_value)
    assert AnytimeTest().result.verdict == "undecided" and AnytimeTest().result.p == 1


def test_bets_on_a_margin_are_walds_test_with_an_estimated_variance() -> None:
    """By a slow loop: the shares depend on the tasks before alone; several comparisons side by side do not touch."""
    rng, margin = np.random.default_rng(2), 0.1
    differences = rng.choice([-1.0, 0.0, 1.0], size=(2, 40), p=[0.1, 0.6, 0.3])
    means = np.array([-0.1, 0.0, 0.1])
    bets = Bets(means, margin, comparisons=2)
    for column in differences.T:
        bets.add(column)
    for row, found in zip(differences, bets.wealth(), strict=True):
        for mean, wealth_now in zip(means, found, strict=True):
            above = below = 1.0
            for t, d in enumerate(row):
                v = (4 + sum((x - mean) ** 2 for x in row[:t])) / (4 + t)
                above *= 1 + min(margin / v, 0.5 / (1 + mean)) * (d - mean)
                below *= 1 - min(margin / v, 0.5 / (1 - mean)) * (d - mean)
            assert wealth_now == pytest.approx(wealth(row, mean) / 2 + (above + below) / 4)


def test_less_power_ends_equal_agents_earlier_and_misses_no_more_than_it_says() -> None:
    """Of comparisons with a difference of the margin, a share of 1 - power at most ends as equal."""
    rng = np.random.default_rng(3)
    sure, quick = (decided(0.02, 0.02, np.random.default_rng(4), 600, margin=0.2, power=p) for p in (0.95, 0.5))
    assert sure.verdict == quick.verdict == "equal" and quick.decided_at < sure.decided_at
    found = [decided(0.4, 0.1, rng, 200, margin=0.3, power=0.8).verdict for _ in range(60)]
    assert found.count("equal") <= 0.2 * 60 + 3 * math.sqrt(60 * 0.2 * 0.8) and found.count("first") > 40


def test_a_power_needs_a_margin() -> None:
    """It is the chance to find a difference of that size."""
    with pytest.raises(ConfigError, match="power needs a margin"):
        AnytimeTest(power=0.8)


@pytest.mark.parametrize("arguments", [{"level": 1.0}, {"margin": 0.0}, {"margin": 1.0}, {"power": 1.0, "margin": 0.1}])
def test_wrong_settings_are_refused(arguments: dict[str, float]) -> None:
    """In words; a difference that is none, too."""
    with pytest.raises(ConfigError, match=f"{next(iter(arguments))} must be above 0 and below 1"):
        AnytimeTest(**arguments)
    with pytest.raises(ConfigError, match="between -1 and 1"):
        AnytimeTest().add(1.5)


def test_a_margin_is_at_least_two_steps_of_the_interval() -> None:
    """A smaller one would never end as equal; 0.01 does."""
    with pytest.raises(ConfigError, match=r"margin must be at least 0\.01"):
        AnytimeTest(margin=0.005)
    test = AnytimeTest(margin=0.01, power=0.5)
    assert any(test.add(0).verdict == "equal" for _ in range(2000))


# ---- evaluations ----------------------------------------------------------------------------------------------------


def entrant(name: str, outcomes: dict[str, list[bool]], tasks: int = 40) -> Entrant:
    """An evaluation of numbered tasks."""
    names = [f"t{number}" for number in range(tasks)]
    manifest = {"worlds": [{"id": "w", "tasks": names}], "split": "test", "prompt": "brief", "seed": 0, "attempts": 1,
                "agent": {"name": name, "policy_digest": None, "sampling": {}}}  # fmt: skip
    return Entrant(name, manifest, {("w", "{}", task): row for task, row in outcomes.items()})


def test_evaluations_are_compared_in_the_order_of_the_tasks() -> None:
    """The tasks that both have, with rates of several attempts; one may have more tasks."""
    good = entrant("good", {f"t{n}": [True, n % 2 == 0] for n in range(40)})
    bad = entrant("bad", {f"t{n}": [False] for n in range(30) if n != 3}, tasks=30)
    found = compare_in_order(good, bad)
    assert (found.result.verdict, found.result.difference.n) == ("first", 29)
    assert found.result.difference.value == pytest.approx(fmean(1 if n % 2 == 0 else 0.5 for n in range(30) if n != 3))
    assert str(found).startswith("good − bad, looked at after each of 29 tasks: +75.9 points [+")
    assert "tasks: good is better" in str(found)
    assert compare_in_order(bad, good).result.verdict == "second"
    assert "no task" in str(compare_in_order(good, entrant("none", {})))
    json.dumps(found.as_dict())


def test_an_order_that_depends_on_outcomes_decides_nothing() -> None:
    """All wins of one agent first, then those of the other: after them no difference fits."""
    wins = [True] * 60 + [False] * 60
    one, other = (entrant(name, {f"t{n}": [win] for n, win in enumerate(won)}, 120)
                  for name, won in (("a", wins), ("b", wins[::-1])))  # fmt: skip
    found = compare_in_order(one, other)
    assert found.result.difference.value == 0 and not found.result.fits
    assert found.result.verdict == "undecided" and found.result.decided_at is None
    assert "no difference fits all tasks" in str(found)


def test_evaluations_of_other_tasks_are_refused() -> None:
    """As by `compare`; and `compare` refuses one that stopped by what it saw."""
    one = entrant("a", {"t0": [True]})
    with pytest.raises(ConfigError, match="a is given twice"):
        compare_in_order(one, entrant("a", {"t0": [True]}))
    other = entrant("b", {"t0": [True]})
    with pytest.raises(ConfigError, match="a and b cannot be compared: split: test, not valid"):
        compare_in_order(one, Entrant("b", {**other.manifest, "split": "valid"}, other.outcomes))
    stopped = Entrant("b", {**other.manifest, "options": {"until_decided": "/a"}}, other.outcomes)
    with pytest.raises(ConfigError, match="b stopped by what it saw"):
        compare([one, stopped])
    assert compare_in_order(one, stopped).result.difference.n == 1
    assert not is_foreign("b")


@pytest.fixture
def agentgym(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """The command line in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*argv: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(list(argv))
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


WORLD = ("eval", "--env", "calculator", "--env_kwargs.difficulty", "easy", "--tasks", "64")


def test_an_evaluation_stops_when_it_is_decided(agentgym: Callable[..., Any]) -> None:
    """At the end of a block of tasks; the same command resumes, and the folders can be compared at any time."""
    assert agentgym(*WORLD, "--agent", "random", "--out", "a")[0] == 0
    argv = (*WORLD, "--agent", "expert", "--until_decided", "a", "--out", "b")
    status, out, err = agentgym(*argv)
    assert status == 0 and ": b is better\n" in out and "b − a, looked at after each of 16 tasks: +" in out, err
    result = json.loads(Path("b/result.json").read_text())
    assert result["comparison"]["result"]["verdict"] == "first" and result["success"]["n"] == 16
    rows = Path("b/trajectories.jsonl").read_text()
    Path("b/result.json").unlink()
    Path("b/trajectories.jsonl").write_text("".join(rows.splitlines(keepends=True)[:5]))
    assert agentgym(*argv)[0] == 0 and Path("b/trajectories.jsonl").read_text() == rows
    assert "\nQuote this interval: " in out
    status, _, err = agentgym("report", "b")
    assert status == 2 and "b holds no run (no run.yaml there); it holds an evaluation: agentgym view b" in err
    status, _, err = agentgym(*WORLD, "--agent", "expert", "--tasks", "99", "--until_decided", "a")
    assert status == 2 and "a has played 64 tasks, fewer than --tasks 99: give at most --tasks 64" in err
    status, _, err = agentgym(*WORLD, "--agent", "random", "--until_decided", "b")
    assert status == 2 and "b has played 16 tasks, fewer than --tasks 64: give at most --tasks 16" in err
    status, out, err = agentgym("compare", "b", "a", "--anytime", "--report", "c.html")
    assert status == 0 and "b is better" in out and "c.html" in err
    assert "after each task" in Path("c.html").read_text(encoding="utf-8")
    assert json.loads(agentgym("compare", "a", "b", "--anytime", "--json")[1])["result"]["verdict"] == "second"
    status, _, err = agentgym("compare", "a", "b")
    assert status == 2 and "agentgym compare A B --anytime" in err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ((*WORLD, "--agent", "expert", "--margin", "0.1"), "--margin needs --until_decided"),
        ((*WORLD, "--agent", "expert", "--until_decided", "missing"), "missing: no such folder"),
        (("compare", "a", "b", "--margin", "0.1"), "--margin needs --anytime"),
        (("compare", "a", "b", "--anytime", "--power", "0.8"), "--power needs --margin"),
        ((*WORLD, "--agent", "expert", "--power", "0.8"), "--power needs --margin"),
        (("compare", "a", "b", "--report", "c.html"), "--report needs --anytime"),
        (("compare", "a", "b", "c", "--anytime"), "two evaluations"),
        (("compare", "a", "b", "--anytime", "--latex"), "without --latex"),
    ],
)
def test_wrong_options_are_refused(agentgym: Callable[..., Any], argv: tuple[str, ...], message: str) -> None:
    """Before an episode is played."""
    status, _, err = agentgym(*argv)
    assert status == 2 and message in err
