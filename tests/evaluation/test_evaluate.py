"""Evaluations and how their figures are written."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_py.agents import AgentReply, Episode, RandomAgent
from agentgym_py.collection import Collector, PlayConfig, jobs_for
from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError
from agentgym_py.evaluation import evaluate, summarise
from agentgym_py.evaluation.evaluate import ends_in_repetition, summarise_by_env, summary_dict
from agentgym_py.evaluation.stats import Estimate
from agentgym_py.evaluation.text import (
    context_note,
    cut_warning,
    format_interval,
    format_mean,
    format_noted_mean,
    format_rate,
)
from agentgym_py.trajectory import Tokens, Trajectory
from agentgym_py.trajectory.types import Usage

RATE = Estimate(0.5612, 0.462, 0.653, 100)


@pytest.mark.parametrize(
    ("estimate", "said"),
    [
        (RATE, "56.1 % [46, 65]"),
        (replace(RATE, n=4), "56.1 % [46, 65] (only 4 tasks)"),
        (replace(RATE, n=1), "56.1 % [46, 65] (only 1 task)"),
        (Estimate(math.nan, 0.0, 1.0, 0), "– (no task)"),
    ],
)
def test_a_rate_says_how_few_its_tasks_are(estimate: Estimate, said: str) -> None:
    """The mark explains itself."""
    assert format_rate(estimate) == said


@pytest.mark.parametrize(
    ("estimate", "said"),
    [
        (RATE, "0.561 [0.46, 0.65]"),
        (Estimate(0.5, math.nan, math.nan, 9), "0.500 (n too small)"),
        (Estimate(1.0, math.nan, math.nan, 300), "1.000 (all equal)"),
        (Estimate(math.nan, math.nan, math.nan, 0), "–"),
    ],
)
def test_a_mean_without_an_interval_says_why(estimate: Estimate, said: str) -> None:
    """Never an interval of no width."""
    assert format_mean(estimate) == said
    assert "nan" not in format_interval(estimate)


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (replace(RATE, n=1), "0.561 (only 1 task)"),
        (replace(RATE, n=9), "0.561 (only 9 tasks)"),
        (replace(RATE, n=13), "0.561 [0.46, 0.65] (only 13 tasks)"),
        (replace(RATE, n=29), "0.561 [0.46, 0.65] (only 29 tasks)"),
        (replace(RATE, n=30), "0.561 [0.46, 0.65]"),
        (Estimate(math.nan, 0.0, 1.0, 0), "–"),
    ],
)
def test_a_mean_of_few_tasks_is_marked(estimate: Estimate, text: str) -> None:
    """Fewer than 30 tasks are marked, and fewer than 10 have no interval."""
    assert format_noted_mean(estimate) == text


def test_worlds_are_apart(episode: Callable[..., Trajectory]) -> None:
    """Each by its short name with its own kinds, which may have equal names; beside them all in one."""
    shop = [episode("look", success=False) for _ in range(3)]
    origin = replace(shop[0].provenance, env_id="AgentTodo-v0")
    todo = [replace(episode("look"), provenance=origin)]
    found = summary_dict([*shop, *todo])
    assert {name: each["by_kind"]["buy"]["value"] for name, each in found["worlds"].items()} == {"shop": 0, "todo": 1}
    assert found["by_kind"]["buy"]["value"] == 0.25 and found["success"]["n"] == 2 and summary_dict([])["worlds"] == {}
    hard = [replace(todo[0], provenance=replace(origin, env_kwargs={"difficulty": "hard"}))]
    assert list(summarise_by_env([*shop, *todo, *hard])) == [
        "shop",
        'todo {"max_steps": 15}',
        'todo {"difficulty": "hard"}',
    ]


def test_an_agent_is_evaluated_on_tasks_of_worlds() -> None:
    """What comes of an agent's episodes, and the episodes: each task of each world, in order, every try once."""
    worlds = [EnvSpec("shop", {"max_steps": 4}), EnvSpec("shop", {"difficulty": "easy"})]
    heard: list[Trajectory] = []
    found, played = evaluate(
        RandomAgent(),
        worlds,
        "valid",
        range(2, 5),
        attempts=2,
        progress=heard.append,
        play=PlayConfig(slots=3, prompt="full", seed=7),
    )
    assert played == Collector(RandomAgent(), PlayConfig(prompt="full", seed=7)).collect_batch(
        jobs_for(worlds, "valid", range(2, 5), 2)
    )
    assert found == summarise(played) and found.success.n == 6 and len(heard) == len(played) == 12


class Quitter(RandomAgent):
    """Gives an episode up after some steps."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """None where the episode is that old."""
        said = super().act(episodes)
        return [reply if len(each.steps) < self.steps else None for each, reply in zip(episodes, said, strict=True)]


def test_cut_replies_are_counted(episode: Any) -> None:
    """By what the engine or the endpoint recorded; above 20 % a warning names twice the length."""
    plain = episode("look", "look", "look", "buy")
    record, usage = Tokens((1,), (2, 3), (-1.0, -1.0), (1, 1)), Usage(None, None)
    for whole, cut in (
        (replace(plain.steps[0], tokens=record), replace(plain.steps[0], tokens=replace(record, cut=True))),
        (replace(plain.steps[0], usage=usage), replace(plain.steps[0], usage=replace(usage, cut=True))),
    ):
        sampling = replace(plain.provenance, sampling={"max_new_tokens": 32})
        half, fifth = (
            replace(plain, steps=(cut,) * number + (whole,) * (10 - number), provenance=sampling) for number in (5, 2)
        )
        assert (summarise([half]).cut, summarise([fifth]).cut) == (0.5, 0.2)
        assert "50 % of the replies were cut at max_new_tokens 32" in cut_warning([half])
        assert cut_warning([half]).endswith("max_new_tokens=64") and cut_warning([fifth]) == ""
        assert cut_warning([replace(half, provenance=plain.provenance)]).endswith("max_new_tokens=N")
    assert summarise([plain]).cut is None and cut_warning([plain]) == ""
    assert summarise([plain]).cut_repetitive is None


def test_a_larger_limit_is_not_advised_to_an_agent_that_repeats_itself(episode: Any) -> None:
    """If more than half of the cut replies repeat one phrase to the end; otherwise their share follows the advice."""
    plain = episode("look", "look")
    record = Tokens((1,), (2, 3), (-1.0, -1.0), (1, 1), cut=True)
    for repetitive, end in (
        (2, ": set a larger one, as max_new_tokens=N; 50 % of them repeat one phrase to the end"),
        (3, ". 75 % of them repeat one phrase to the end: the agent has learned too little, and a larger limit does not"
            " help"),
    ):  # fmt: skip
        replies = ["Action: " + "east, " * 9] * repetitive + ["Action: look under the"] * (4 - repetitive)
        cut = replace(plain, steps=tuple(replace(plain.steps[0], tokens=record, reply=reply) for reply in replies))
        assert summarise([cut]).cut_repetitive == repetitive / 4
        assert cut_warning([cut]) == f"100 % of the replies were cut{end}"


@given(st.text("ab"), st.text("ab", min_size=1, max_size=61), st.integers(1, 6), st.integers(0, 61))
def test_a_repetition_may_end_in_the_middle_of_its_phrase(start: str, phrase: str, times: int, rest: int) -> None:
    """As a slow comparison of the last characters finds it; four whole phrases of at most 60 characters are one."""
    text = start + phrase * times + phrase[:rest]
    slow = any(
        len(text) >= 4 * length and all(text[-i] == text[-i - length] for i in range(1, 3 * length + 1))
        for length in range(1, 61)
    )
    assert ends_in_repetition(text) == slow
    assert slow or times < 4 or len(phrase) > 60
    assert not ends_in_repetition("") and not ends_in_repetition("Action: look under the lamp")


def test_dropped_turns_and_summaries_are_counted(episode: Any) -> None:
    """The turns that an episode's last prompt leaves out, and the tokens of its summaries, also among those sampled."""
    plain = episode("look", "look", "look")
    reply = Tokens((1,), (2, 3), (-1.0, -1.0), (1, 1))
    later = [replace(reply, starts_sequence=True, turns_dropped=number) for number in (1, 3)]
    summary = replace(reply, ids=(4,), logprobs=(-4.0,), mask=(1,))
    steps = [replace(step, tokens=tokens) for step, tokens in zip(plain.steps, (reply, *later), strict=True)]
    long = replace(plain, steps=(*steps[:2], replace(steps[2], summary=summary)))
    short = replace(plain, steps=tuple(replace(step, tokens=reply) for step in plain.steps))
    found = summarise([long, short, short])
    assert (found.outgrown, found.turns_dropped, found.summary_tokens) == (1, 3, 1)
    assert found.tokens == pytest.approx(19 / 3) and found.surprisal == pytest.approx(22 / 19)
    assert context_note(3, found.outgrown, found.turns_dropped, found.summary_tokens) == (
        "1 of 3 episodes outgrew the context; 3 turns dropped, summaries of 1 tokens in their place"
    )
    assert context_note(3, 0, 0) == ""


def test_episodes_that_the_agent_gave_up_are_counted() -> None:
    """They count as what they are worth; one that ran out of steps was not given up."""
    shop = EnvSpec("shop", {"max_steps": 2})
    for steps, given_up in ((1, 4), (2, 0)):
        found, played = evaluate(Quitter(steps), [shop], "test", range(4))
        assert (found.given_up, found.success.n, found.steps) == (given_up, 4, float(steps))
        assert {each.given_up for each in played} == {steps == 1} and not any(each.terminated for each in played)
    with pytest.raises(ConfigError, match="random gave up all 4 episodes before its first reply"):
        evaluate(Quitter(0), [shop], "test", range(4))


def test_equal_rewards_of_a_few_tasks_claim_nothing(episode: Callable[..., Trajectory]) -> None:
    """Four failures: success keeps Wilson's width, the mean reward has no interval."""
    played = [episode("look", task=f"shop/test/easy/{i}", reward=0.0, success=False) for i in range(4)]
    found = summarise(played)
    assert (
        format_rate(found.success) == "0.0 % [0, 49] (only 4 tasks)"
        and format_mean(found.reward) == "0.000 (n too small)"
    )


@pytest.mark.parametrize(("worlds", "tasks"), [(["shop"], []), ([], range(3))])
def test_nothing_to_evaluate_is_no_evaluation(worlds: list[str], tasks: Sequence[int]) -> None:
    """No success rate comes of no episodes."""
    with pytest.raises(ConfigError, match="nothing to evaluate"):
        evaluate(RandomAgent(), worlds, "test", tasks)


def test_returns_are_counted_and_surprise_is_a_mean_over_sampled_tokens(episode: Callable[..., Trajectory]) -> None:
    """By returns of two digits; tokens that were put into a reply say nothing; JSON holds both."""
    played = [episode("a", reward=reward) for reward in (0.123, 0.12, 1.0)]
    found = summarise(played)
    assert found.rewards == {0.12: 2, 1.0: 1} and found.surprisal is None
    tokens = Tokens((1,), (2, 3, 4), (-1.0, -0.5, 0.0), (1, 1, 0))
    said = [replace(each, steps=(replace(each.steps[0], tokens=tokens),)) for each in played]
    assert summarise(said).surprisal == 0.75
    assert json.loads(json.dumps(summary_dict(said)))["rewards"] == {"0.12": 2, "1.0": 1}
    assert summarise([replace(each, error="lost") for each in played]).rewards == {}
