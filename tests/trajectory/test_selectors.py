from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_py.env import StopReason
from agentgym_py.errors import ConfigError
from agentgym_py.trajectory import Provenance, Step, Trajectory, selectors

Make = Callable[..., Trajectory]


def make(number: int, reward: float, task: str, actions: str, error: str | None = None) -> Trajectory:
    """A trajectory of one-letter actions."""
    steps = tuple(Step("", a, "", a, None, 0.0, True) for a in actions)
    origin = Provenance("AgentShop-v0", 0, {}, task, 0, "tiny")
    return Trajectory(f"t{number}", origin, "train", "buy", "easy", "", "", steps, "", reward, reward >= 1,
                      StopReason.TERMINATED, error=error)  # fmt: skip


sets = st.lists(
    st.builds(
        make,
        st.integers(0, 99),
        st.sampled_from([0.0, 0.25, 0.5, 1.0]),
        st.sampled_from(["x", "y", "z"]),
        st.text("ab", max_size=3),
        st.sampled_from([None, None, "timeout"]),
    ),
    max_size=20,
)
any_selector = st.sampled_from(
    [
        selectors.threshold(0.5), selectors.success_only(), selectors.no_errors(), selectors.dedupe(),
        selectors.per_task(2), selectors.top_ratio(0.3), selectors.top_percentile(60),
        selectors.build_selector(selectors.SelectConfig(0.25, True, True, 1, 0.5, 10.0)),
    ]
)  # fmt: skip


@given(sets, any_selector)
def test_every_selector_accounts_for_all(trajectories: list[Trajectory], selector: selectors.Selector) -> None:
    """Kept and dropped add up, the kept keep their order, and a second pass over the same input gives the same."""
    result = selector(trajectories)
    assert len(result.kept) + sum(result.dropped.values()) == len(trajectories)
    assert all(number > 0 for number in result.dropped.values())
    places = iter(trajectories)
    assert all(any(each is other for other in places) for each in result.kept)
    assert selector(trajectories) == result
    assert result.line.startswith(f"kept {len(result.kept)} of {len(trajectories)}")


@given(sets, st.randoms(use_true_random=False))
def test_ties_do_not_depend_on_the_order(trajectories: list[Trajectory], random: object) -> None:
    """The same episodes in another order lead to the same choice, where their ids differ."""
    named = [dataclasses.replace(each, id=f"{i:03}") for i, each in enumerate(trajectories)]
    mixed = list(named)
    random.shuffle(mixed)  # type: ignore[attr-defined]  # hypothesis's seeded generator
    for selector in (selectors.dedupe(), selectors.per_task(2), selectors.top_ratio(0.4)):
        assert {each.id for each in selector(named).kept} == {each.id for each in selector(mixed).kept}


def test_threshold_includes_its_bound() -> None:
    """A reward of exactly the threshold is kept, and the reason names the threshold."""
    result = selectors.threshold(0.5)([make(0, 0.5, "x", "a"), make(1, 0.49, "x", "a")])
    assert [each.id for each in result.kept] == ["t0"]
    assert result.line == "kept 1 of 2; dropped: 1 below reward 0.5"


def test_top_ratio_rounds_up_and_breaks_ties_by_length() -> None:
    """A share of 0.1 of 30 is 3; of equal rewards the shorter episode wins."""
    same = [make(i, 1.0, str(i), "a" * (30 - i)) for i in range(30)]
    assert [each.id for each in selectors.top_ratio(0.1)(same).kept] == ["t27", "t28", "t29"]
    assert len(selectors.top_ratio(0.01)(same).kept) == 1


def test_top_percentile_keeps_all_equals() -> None:
    """Where all rewards are equal nothing is below any percentile."""
    assert len(selectors.top_percentile(90)([make(i, 0.1, "x", "a") for i in range(7)]).kept) == 7
    ten = [make(i, i / 10, "x", "a") for i in range(10)]
    assert [each.id for each in selectors.top_percentile(90)(ten).kept] == ["t9"]
    assert selectors.top_percentile(90)([]).kept == ()


def test_dedupe_looks_at_task_and_actions() -> None:
    """Thoughts and rewards do not make an episode new; another task or another world does."""
    one, same, other = make(0, 0.5, "x", "ab"), make(1, 1.0, "x", "ab"), make(2, 1.0, "y", "ab")
    assert [each.id for each in selectors.dedupe()([one, same, other]).kept] == ["t1", "t2"]
    html = dataclasses.replace(one, provenance=dataclasses.replace(one.provenance, env_kwargs={"mode": ["html"]}))
    assert len(selectors.dedupe()([one, html]).kept) == 2
    untrained, *rest = one.steps
    fork = dataclasses.replace(one, id="#10+1", steps=(dataclasses.replace(untrained, trained=False), *rest))
    trunk = dataclasses.replace(one, id="#2")
    assert selectors.dedupe()([fork, trunk]).kept == (trunk,), "it trains the replies that a fork leaves out"


def test_per_task_is_rejection_sampling() -> None:
    """Of each task the best rewards stay, and among equals the shortest."""
    tries = [make(0, 0.0, "x", "a"), make(1, 1.0, "x", "aaa"), make(2, 1.0, "x", "aa"), make(3, 0.2, "y", "a")]
    assert [each.id for each in selectors.per_task(1)(tries).kept] == ["t2", "t3"]
    assert [each.id for each in selectors.per_task(2)(tries).kept] == ["t1", "t2", "t3"]


def test_by_chance_keeps_as_often_as_the_reward_says() -> None:
    """A reward of 1 or more always, 0 or less never, 0.3 in 30 % of many; the same again, whatever stands beside."""
    tries = [make(i, (0.0, 0.3, 1.0, 2.0, -1.0)[i % 5], "x", "a") for i in range(5000)]
    kept = selectors.by_chance()(tries).kept
    counts = Counter(t.reward for t in kept)
    assert counts[1.0] == counts[2.0] == 1000 and counts[0.0] == counts[-1.0] == 0
    assert abs(counts[0.3] - 300) < 5 * (1000 * 0.3 * 0.7) ** 0.5
    assert selectors.by_chance()(tries[::-1]).kept == kept[::-1]
    config = selectors.SelectConfig(threshold=-9.0, success_only=False, dedupe=False, by_chance=True)
    assert selectors.build_selector(config)(tries).kept == kept


def test_refused_replies_are_not_learned() -> None:
    """Every trajectory is kept; only steps that the world refused lose their loss, and the originals keep it."""
    tries = [make(0, 1.0, "x", "abc"), make(1, 1.0, "y", "a")]
    steps = (dataclasses.replace(tries[0].steps[0], valid=False), *tries[0].steps[1:])
    tries[0] = dataclasses.replace(tries[0], steps=steps)
    selection = selectors.build_selector(selectors.SelectConfig())(tries)
    assert [[step.trained for step in each.steps] for each in selection.kept] == [[False, True, True], [True]]
    assert all(step.trained for each in tries for step in each.steps) and not selection.dropped
    every = selectors.build_selector(selectors.SelectConfig(mask_invalid=False))(tries)
    assert all(step.trained for each in every.kept for step in each.steps)


def test_build_says_why_in_one_line() -> None:
    """The default config: no failures of the machinery, full reward, no duplicates; reasons in that order."""
    tries = [make(0, 1.0, "x", "a"), make(1, 1.0, "x", "a"), make(2, 0.3, "x", "b"), make(3, 1.0, "y", "a", "timeout")]
    result = selectors.build_selector(selectors.SelectConfig())(tries)
    assert [each.id for each in result.kept] == ["t0"]
    assert result.line == ("kept 1 of 4; dropped: 1 ended by an infrastructure error, 1 below reward 1, 1 duplicates")
    assert selectors.build_selector(selectors.SelectConfig())([]).line == "kept 0 of 0"


@pytest.mark.parametrize(
    "wrong",
    [
        {"per_task": 0},
        {"top_ratio": 0.0},
        {"top_ratio": 1.5},
        {"top_percentile": 101.0},
        {"threshold": float("nan")},
    ],
)
def test_a_config_out_of_range_is_refused(wrong: dict[str, float]) -> None:
    """The error comes when the config is made, and names the field."""
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        selectors.SelectConfig(**wrong)  # type: ignore[arg-type]  # wrong on purpose


def test_chain_adds_reasons_and_where_takes_any_predicate() -> None:
    """The same reason twice is one entry."""
    short = selectors.where(lambda each: len(each.steps) < 3, "too long")
    longer = selectors.where(lambda each: len(each.steps) < 2, "too long")
    result = selectors.chain(short, longer)([make(i, 1.0, "x", "a" * i) for i in range(5)])
    assert result.dropped == {"too long": 3} and len(result.kept) == 2
