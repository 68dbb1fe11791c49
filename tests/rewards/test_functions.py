"""Reward functions: weighted sums, functions of one's own, trl's shape, and what fails."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentgym_py.env import StopReason
from agentgym_py.errors import ConfigError, UnknownNameError
from agentgym_py.rewards.functions import (
    Term,
    absolute_reward,
    absolute_settings,
    build_reward,
    format_reward,
    function_scorer,
    parse_reward,
    reward_sources,
    short_reward,
)
from agentgym_py.trajectory import Tokens, Trajectory
from agentgym_py.trajectory.scores import Score, apply_scores, mean_parts, with_score

Make = Callable[..., Trajectory]


def rewards_of(trajectory: Trajectory) -> list[float]:
    """Return the rewards of the steps."""
    return [step.reward for step in trajectory.steps]


# ---- sums ------------------------------------------------------------------------------------------------------------


def test_a_sum_is_parsed_and_written_again() -> None:
    """Weights come first and may be negative; sources keep their paths."""
    text = "agent+0.1*my.py:score + -2 * success"
    terms = [Term("agent"), Term("my.py:score", 0.1), Term("success", -2.0)]
    assert parse_reward(text) == terms == parse_reward(format_reward(terms))
    assert absolute_reward(text) == f"agent + 0.1*{Path.cwd() / 'my.py'}:score + -2.0*success"
    assert short_reward(absolute_reward(text)) == "agent + 0.1*my.py:score + -2.0*success" and short_reward(None) == ""
    assert reward_sources(text, {"truth": "t.py:f", "unit": "steps", "alpha": 1}) == ["my.py:score", "t.py:f"]
    assert reward_sources(None) == []


@pytest.mark.parametrize("path", ["/work/c++/my.py:score", "/a*b/+.py:f", "C:\\c++\\my.py:score", "./c++/my.py:f"])
def test_a_path_may_have_the_signs_of_a_sum(path: str) -> None:
    """Plus signs and stars in a folder's name, and in a weight, separate no terms."""
    terms = [Term("return"), Term(path, 0.5), Term("steps", 1e17)]
    assert parse_reward(format_reward(terms)) == terms
    assert parse_reward(path) == [Term(path)]


def test_settings_that_look_like_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of Python and a module that is there are sources; a model's name with a tag is not."""
    (tmp_path / "reward_module.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    settings = {"model": "llama3:latest", "phi": "reward_module:phi", "truth": "t.py", "base_url": "http://a:1/v1"}
    assert reward_sources("judge", settings) == ["reward_module:phi", "t.py"]
    assert absolute_settings(settings) == {**settings, "truth": str(Path.cwd() / "t.py")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not NAME or WEIGHT"), ("agent+", "'' is not NAME or WEIGHT"),
        ("agent - 2*step", r"is not NAME or WEIGHT\*NAME; subtract a term as \+ -WEIGHT\*NAME"),
        ("nan*agent", "'nan\\*agent' is not NAME"), ("x*agent", "is not NAME"),
        ("agent+2*agent", "agent is there twice"),
        ("a/my.py:f + 2*b/my.py:f", "two functions are called my.py:f in logs"),
        ("agnt", "No reward function 'agnt' is installed. Did you mean 'agent'"),
        ("reward_model", "needs the folder of a reward model"), ("nowhere.py:f", "nowhere.py: no such file"),
    ],
)  # fmt: skip
def test_a_wrong_sum_is_refused(text: str, message: str) -> None:
    """In one line that says what is wrong."""
    with pytest.raises((ConfigError, UnknownNameError), match=message):
        build_reward(text or "+")


def test_a_weighted_sum_adds_the_parts_of_every_step(episode: Make, own: Callable[..., None]) -> None:
    """Numbers are paid at the end, lists step by step; parts carry their function's name and their weight."""
    own(steps=lambda t: [1, 2, 3], parts=lambda t: {"end": 4.0, "each": (1.0, 0.0, -1.0)})
    (scored,) = apply_scores([episode("a", "b", "c")], build_reward("success + 10*steps + 0.5*parts"))
    assert rewards_of(scored) == [10.5, 20.0, 1 + 30 + 2 - 0.5] and scored.reward == sum(rewards_of(scored))
    assert scored.steps[2].reward_parts == {"success": 1.0, "steps": 30.0, "parts/end": 2.0, "parts/each": -0.5}
    assert scored.success and scored.final_observation == "Thanks."
    failed = episode("a", stop_reason=StopReason.ERROR)
    assert mean_parts([scored, with_score(episode("a"), 3.0), failed]) == {
        "rewards/success/mean": 0.5, "rewards/steps/mean": 30.0, "rewards/parts/end/mean": 1.0,
        "rewards/parts/each/mean": 0.0, "rewards/score/mean": 1.5,
    }  # fmt: skip


def test_a_reward_model_is_a_term(episode: Make) -> None:
    """By default it is the whole reward; another reward must name it."""
    scores = lambda trajectories: [2.0] * len(trajectories)  # noqa: E731  # a scorer as short as it can be
    played = [episode("a", "b")]
    assert rewards_of(apply_scores(played, build_reward(None, {}, scores))[0]) == [0.0, 2.0]
    assert rewards_of(apply_scores(played, build_reward("success + 0.5*reward_model", {}, scores))[0]) == [0.0, 2.0]
    with pytest.raises(
        ConfigError, match=r"reward_model needs a reward with the name reward_model \(it is 'success'\)"
    ):
        build_reward("success", {}, scores)


def test_settings_reach_the_functions_that_have_them(episode: Make, own: Callable[..., None]) -> None:
    """A function's keywords, a dataclass's fields; an unknown one is refused with a suggestion."""

    @dataclass
    class Fixed:
        value: float = 1.0
        scale: float = 1.0

        def __call__(self, trajectory: Trajectory) -> float:
            return self.scale * self.value

    own(fixed=Fixed, steps=lambda trajectory, *, scale=1.0: scale * len(trajectory.steps))
    (scored,) = apply_scores([episode("a", "b")], build_reward("fixed+steps", {"scale": 3.0, "value": 2.0}))
    assert scored.steps[-1].reward_parts == {"fixed": 6.0, "steps": 6.0}
    with pytest.raises(ConfigError, match=r"fixed \+ steps takes no setting 'valu'\. Did you mean 'value'"):
        build_reward("fixed+steps", {"valu": 2.0})
    with pytest.raises(ConfigError, match="reward length_penalty: unit must be one of tokens, steps, not 'words'"):
        build_reward("length_penalty", {"unit": "words"})
    with pytest.raises(ConfigError, match="return takes no setting 'scale'"):
        build_reward(None, {"scale": 1.0})


def test_a_file_has_reward_functions(episode: Make, tmp_path: Path) -> None:
    """By name, or the only one; private helpers and other values are none."""
    text = "LIMIT = 3\ndef _half(x):\n    return x / 2\ndef score(t):\n    return _half(len(t.steps))\n"
    (tmp_path / "own_reward_one.py").write_text(text)
    (tmp_path / "own_reward_two.py").write_text(f"{text}def other(t):\n    return 0\n")
    one, two = tmp_path / "own_reward_one.py", tmp_path / "own_reward_two.py"
    for name in f"{one}", f"{two}:score":
        (scored,) = apply_scores([episode("a", "b")], build_reward(name))
        assert rewards_of(scored) == [0.0, 1.0] and list(scored.steps[0].reward_parts) == [Path(name).name]
    with pytest.raises(UnknownNameError, match=r"defines 2 reward functions: name one as .*two.py:name"):
        build_reward(f"{two}")
    with pytest.raises(UnknownNameError, match=r"has no reward function 'scor'\. Did you mean 'score'"):
        build_reward(f"{two}:scor")


# ---- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (math.nan, "nan, not a finite number"), (math.inf, "inf, not a finite number"), ("1", "'1', not a number"),
        (None, "None, not a number"), ({}, "the reward has no part"), ({"a": math.nan}, "nan, not a finite"),
        ([1.0], "has 1 numbers for 2 steps"), ([1.0, None], "of a step is None"), (ZeroDivisionError("oh"), "oh"),
        (2e9, "beyond 1e\\+09"),
    ],
)  # fmt: skip
def test_what_is_no_number_is_an_infrastructure_error_of_its_episode(
    episode: Make, own: Callable[..., None], wrong: Any, message: str
) -> None:
    """It is said once, with its place; other episodes keep their rewards, and the stored episode is as it was."""

    def score(trajectory: Trajectory) -> Any:
        if trajectory.id == "good":
            return 1.0
        if isinstance(wrong, Exception):
            raise wrong
        return wrong

    own(odd=score)
    scorer = build_reward("success + odd")
    played = [episode("a", "b", id="bad"), episode("a", "b", id="good"), episode(id="empty")]
    with pytest.warns(UserWarning, match=f"the reward odd failed for 1 of 2 episodes, .* bad: .*{message}") as said:
        bad, good, empty = apply_scores(played, scorer)
    assert len(said) == 1 and bad.stop_reason is StopReason.ERROR and not bad.is_evidence
    assert str(bad.error).startswith("reward odd: ") and played[0].is_evidence
    assert rewards_of(good) == [0.0, 2.0] and empty is played[2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not apply_scores(played, scorer)[0].is_evidence


# ---- trl's shape -----------------------------------------------------------------------------------------------------


def test_a_function_of_trls_shape_gets_conversations_and_columns(episode: Make, own: Callable[..., None]) -> None:
    """All episodes at once; one without `**columns` gets those that it names."""
    got = dict[str, Any]()

    def all_columns(completions: Any, **columns: Any) -> list[float]:
        got.update(columns, completions=completions)
        return [float(len(messages)) for messages in completions]

    def some(prompts: Any, completions: Any, success: Any, bonus: float = 0.0) -> list[float]:
        return [
            bonus + won * prompt[0]["content"].startswith("You shop.")
            for prompt, won in zip(prompts, success, strict=True)
        ]

    own(all_columns=all_columns, some=some)
    played = [episode("a", "b"), episode("c", success=False)]
    played[0] = with_score(played[0], 0.5)
    tokens = Tokens((1,), (7, 8), (0.0, 0.0), (1, 1))
    played[1] = Trajectory(**{
        **{name: getattr(played[1], name) for name in Trajectory.__slots__},
        "steps": tuple(type(step)(step.observation, step.reply, "", "c", None, 0.0, True, tokens=tokens)
                       for step in played[1].steps),
    })  # fmt: skip
    first, second = apply_scores(played, build_reward("all_columns + some", {"bonus": 0.25}))
    assert rewards_of(first) == [0.0, 3 + 1.25] and rewards_of(second) == [1 + 0.25]
    assert [message["role"] for message in got["completions"][0]] == ["assistant", "user", "assistant"]
    assert got["prompts"][1] == [{"role": "user", "content": "You shop.\n\npage 0"}]
    assert got["completion_ids"] == [[], [7, 8]] and got["success"] == [True, False] and got["reward"] == [0.5, 1.0]
    assert got["task_id"] == ["shop/train/easy/1"] * 2 and got["trajectories"] == played


@pytest.mark.parametrize(
    ("rewards", "message", "failed"),
    [([1.0], "1 rewards for 2 episodes", [True, True]), ([1.0, None], "None, not a number", [False, True])],
)
def test_wrong_rewards_of_trls_shape(
    episode: Make, own: Callable[..., None], rewards: Any, message: str, failed: list[bool]
) -> None:
    """A wrong number of them is the error of all episodes, a missing one that of its own."""
    own(short=lambda completions, **_: rewards)
    with pytest.warns(UserWarning, match=f"the reward short failed for {sum(failed)} of 2 .*{message}"):
        scored = apply_scores([episode("a"), episode("b")], build_reward("short"))
    assert [not t.is_evidence for t in scored] == failed


# ---- in a program ----------------------------------------------------------------------------------------------------


def test_a_function_of_a_program_is_a_scorer(episode: Make) -> None:
    """By its name, with its settings."""

    def brevity(trajectory: Trajectory, *, price: float = 1.0) -> float:
        return -price * len(trajectory.steps)

    (scored,) = apply_scores([episode("a", "b")], function_scorer(brevity, {"price": 0.5}))
    assert scored.steps[-1].reward_parts == {"brevity": -1.0} and scored.reward == -1.0

    @dataclass
    class Fixed:
        value: float = 1.0

        def __call__(self, trajectory: Trajectory) -> float:
            return self.value

    (scored,) = apply_scores([episode("a")], function_scorer(Fixed(3.0)))
    assert scored.steps[-1].reward_parts == {"Fixed": 3.0}
    with pytest.raises(ConfigError, match="brevity takes no setting 'prise'"):
        function_scorer(brevity, {"prise": 0.5})


def test_a_function_with_bound_arguments_keeps_its_shape(episode: Make, tmp_path: Path) -> None:
    """A `functools.partial` of trl's shape or of several episodes is called as the function itself."""

    def brief(completions: list[Any], scale: float, **columns: Any) -> list[float]:
        return [scale * len(turns) for turns in completions]

    half = partial(brief, scale=0.5)
    (scored,) = apply_scores([episode("a")], function_scorer(half))
    assert scored.steps[-1].reward_parts == {"brief": 0.5}
    (scored,) = apply_scores([episode("a")], function_scorer(half, {"scale": 2.0}))
    assert scored.reward == 2.0
    source = tmp_path / "bound.py"
    source.write_text(
        "from functools import partial\nhalf = partial(lambda trajectories, w: [w for _ in trajectories], w=3)"
    )
    (scored,) = apply_scores([episode("a")], build_reward(f"{source}:half"))
    assert scored.reward == 3.0


def test_a_score_replaces_rewards_alone(episode: Make) -> None:
    """An error is that of the episode; without a scorer nothing changes."""
    trajectory = episode("a", "b")
    assert with_score(trajectory, Score(error="no judge")).error == "no judge"
    assert with_score(trajectory, Score()).reward == 0.0 and apply_scores([trajectory], None) == [trajectory]
