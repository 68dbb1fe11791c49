"""The expert wins from everywhere, and its plans are as short as a blind search finds."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_envs.shop.env import ShopEnv
from agentgym_envs.shop.session import as_query
from agentgym_envs.shop.tasks import ListedTasks
from agentgym_py.env import SPLITS
from agentgym_py.rng import Rng


def finish(env: ShopEnv) -> tuple[float, bool]:
    """Follow the expert from here: reward and success at the end."""
    last = [env.step(action) for action in env.expert()][-1]
    assert last[2]
    return last[1], last[4]["success"]


@pytest.mark.parametrize("difficulty", ["easy", "medium", "hard"])
@pytest.mark.parametrize("split", SPLITS)
def test_every_generated_task_is_won(difficulty: Any, split: str) -> None:
    """Reward 1.0 and exact success in the promised number of steps, within the step limit."""
    env = ShopEnv(difficulty=difficulty)
    for number in range(100):
        env.reset(options={"task": number, "split": split})
        steps = env.current_task.optimal_steps if env.current_task else None
        assert steps is None or steps == len(env.expert())
        assert finish(env) == (1.0, True), env.current_task


def test_every_task_of_people_is_won() -> None:
    """The embedded catalogue's human goals are solvable, each of them."""
    env = ShopEnv(goals="human")
    assert isinstance(env.tasks, ListedTasks)
    for split, places in env.tasks.places.items():
        for number in range(len(places)):
            env.reset(options={"task": number, "split": split})
            assert finish(env) == (1.0, True), env.current_task


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 100_000), steps=st.integers(0, 14), strict=st.booleans(), stray=st.booleans())
def test_the_expert_wins_from_wherever_an_agent_strayed(seed: int, steps: int, strict: bool, stray: bool) -> None:
    """After random actions and odd searches the plan still ends in an exact purchase, in either rule set."""
    env = ShopEnv(strict_compat=strict, max_steps=100, difficulty="hard" if seed % 2 else "easy")
    env.reset(seed=seed)
    rng = Rng("stray", seed)
    if stray:
        env.step(f"search[{rng.choice(['item_page', 'search_results', 'red', 'zzzz', 'done', '<q> x', '<r>'])}]")
    for _ in range(steps):
        actions = [action for action in env.actions() if action != "click[buy now]"]
        env.step(rng.choice(actions))
    assert finish(env) == (1.0, True)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("kind", ["synthetic", "human"])
def test_recorded_goals_are_won_where_they_can_be(folders: dict[str, Path], kind: Any, strict: bool) -> None:
    """Nine in ten recorded goals can be solved; the others name a colour that WebShop takes for another."""
    env = ShopEnv(catalogue=folders[kind], goals=kind, strict_compat=strict)
    assert isinstance(env.tasks, ListedTasks)
    asked = range(0, len(env.tasks.goals), 3)
    won = 0
    for number in asked:
        env.reset(options={"task": number})
        won += finish(env)[0] == 1.0
    assert won / len(asked) > 0.9


def shortest(env: ShopEnv, limit: int) -> int:
    """Steps to an exact purchase by breadth-first search over every click and the expert's own queries."""
    guide = env._guide()
    queries = [f"search[{query}]" for query in guide._queries()]
    start = env.snapshot()
    queue, seen = deque([(start, 0)]), {start_key(env)}
    while queue:
        state, steps = queue.popleft()
        env.restore(state)
        for action in [*env.actions(), *queries]:
            env.restore(state)
            *_, terminated, _, info = env.step(action)
            if terminated and info["success"]:
                env.restore(start)
                return steps + 1
            key = start_key(env)
            if not terminated and key not in seen and steps + 1 < limit:
                seen.add(key)
                queue.append((env.snapshot(), steps + 1))
    env.restore(start)
    return limit


def start_key(env: ShopEnv) -> tuple[object, ...]:
    """What decides the future of a visit."""
    session = env.session
    return session.place, session.query, session.number, session.asin, tuple(sorted(session.chosen.items()))


@pytest.mark.parametrize("seed", range(8))
def test_plans_are_shortest(folders: dict[str, Path], seed: int) -> None:
    """From random states of the small catalogue breadth-first search finds nothing shorter than the expert's plan."""
    env = ShopEnv(catalogue=folders["bare"], difficulty="easy", max_steps=10_000)
    env.reset(seed=seed)
    rng = Rng("short", seed)
    env.step(f"search[{rng.choice(['power cord', 'shoes', 'dress', env.shop_task.words])}]")
    for _ in range(rng.below(6)):
        env.step(rng.choice([action for action in env.actions() if action != "click[buy now]"]))
    plan = env.expert()
    assert shortest(env, len(plan)) == len(plan)


def test_the_expert_searches_for_the_requests_words_where_that_is_short() -> None:
    """Nine in ten plans start with words that stand in the instruction, so that an agent can learn them."""
    env = ShopEnv()
    own = 0
    for number in range(100):
        env.reset(options={"task": number, "split": "train"})
        own += env.expert()[0][7:-1] in env.shop_task.goal.instruction
    assert own >= 90


def values_of(env: ShopEnv) -> list[str]:
    return [each if isinstance(each, str) else each[1] for each in env.shop_task.goal.options]


def test_the_teacher_judges_a_page_option_by_option() -> None:
    """On a product's page the thought asks for each option up to the first that is not there, then names the action."""
    env = ShopEnv(max_steps=10_000)
    said = set()
    for seed in range(20):
        env.reset(seed=seed)
        while not env.stop_reason and env.steps < 60:
            action = Rng("words", seed, env.steps).choice(env.actions())
            thought, offers = env.expert_thought(action), env.extra_info()["clickables"]
            if env.session.place == "item":
                chosen = set(env.session.chosen.values())
                verdicts = [value in (chosen or offers) for value in values_of(env)]
                yes, no = ("Chosen", "Not yet") if chosen else ("Yes", "No")
                looked = values_of(env)[: [*verdicts, False].index(False) + 1]
                words = [f"{value}? {yes if right else no}." for value, right in zip(looked, verdicts, strict=False)]
                assert thought == " ".join([*words, f"Now {action[6:-1]}."])
                said.add((bool(chosen), *verdicts))
            else:
                assert thought == ""
            env.step(action)
    assert {(False, True), (False, False), (False, True, False), (False, True, True), (True, False, True)} <= said


@pytest.mark.parametrize("goals", ["synthetic", "human"])
def test_the_fair_expert_searches_for_what_is_asked(goals: Any, folders: dict[str, Path]) -> None:
    """Its query has the request's attributes, its kind and its options, but not its price."""
    env = ShopEnv(catalogue=folders[goals], goals=goals)
    for number in range(20):
        env.reset(options={"task": number})
        query = (env.fair_expert() or "").removeprefix("search[").removesuffix("]")
        goal = env.shop_task.goal
        names = [text for each in goal.options for text in ([each] if isinstance(each, str) else each)]
        for text in [*goal.attributes, goal.query, *names]:
            assert as_query(text) in query
        assert "price" not in query and "dollars" not in query


def test_the_fair_expert_asks_in_the_requests_own_words() -> None:
    """For a generated request the query is a piece of it."""
    env = ShopEnv(difficulty="hard")
    for number in range(50):
        env.reset(options={"task": number, "split": "train"})
        query = (env.fair_expert() or "").removeprefix("search[").removesuffix("]")
        assert env.shop_task.goal.instruction.startswith(f"Find me {query}, and price")


def test_the_fair_expert_knows_only_what_the_pages_show() -> None:
    """What it does is a function of what was seen: other attributes, texts and far products change nothing."""
    env = ShopEnv(difficulty="easy")
    opened = 0
    for number in range(60):
        env.reset(options={"task": number, "split": "test"})
        while not env.stop_reason:
            action = env.fair_expert()
            assert action is not None
            wanted = values_of(env)
            if env.session.place == "results":
                tried = env.session.seen
                shown = [p for p in env.moves.page_products(env.session) if p.asin not in tried]
                fitting = [p.asin for p in shown if max(p.prices) <= env.shop_task.goal.price_upper]
                assert action == (f"click[{fitting[0]}]" if fitting else "click[next >]")
                opened += 1
            elif env.session.place == "item":
                lacking = set(wanted) - set(env.extra_info()["clickables"])
                assert (action == "click[< prev]") == bool(lacking)
            env.step(action)
    assert opened > 70
