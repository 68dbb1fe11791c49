"""AgentErrand: notes, needs and purchases."""

from __future__ import annotations

from copy import deepcopy
from itertools import product

import pytest

from agentgym_envs.errand.env import NOTE_COST, Errand, ErrandEnv
from agentgym_envs.errand.wording import REQUESTS
from agentgym_envs.things import ATTRIBUTES, name_of
from agentgym_py.env.wording import is_expansion

LEVELS = ("easy", "medium", "hard")


def world(role: str, difficulty: str = "medium", task: int = 0, split: str = "test") -> tuple[ErrandEnv, str]:
    """A world after a reset, and its first observation."""
    env = ErrandEnv(role=role, difficulty=difficulty)
    return env, env.reset(options={"task": task, "split": split})[0]


@pytest.mark.parametrize(("difficulty", "split"), list(product(LEVELS, ("train", "valid", "test"))))
def test_one_product_meets_the_needs(difficulty: str, split: str) -> None:
    """And without any of the attributes but the kind, more than one would."""
    for task in range(30):
        env, observation = world("client", difficulty, task, split)
        order = env.puzzle
        needs = {ATTRIBUTES.index(attribute) for attribute in order.needs}
        fitting = [p for p in order.products if all(p[place] == order.target[place] for place in needs)]
        assert fitting == [order.target] and 3 in needs
        for left_out in needs - {3}:
            shared = [p for p in order.products if all(p[place] == order.target[place] for place in needs - {left_out})]
            assert len(shared) > 1, (task, order)
        assert all(order.target[place] in observation for place in needs)


def test_the_client_does_not_see_the_shop_nor_the_shopper_the_request() -> None:
    """Each sees its own half."""
    env, observation = world("client")
    assert "The shop has" not in observation and observation.startswith(env.puzzle.request)
    env, observation = world("shopper")
    assert env.puzzle.request not in observation and observation.count("\n- ") == 18


@pytest.mark.parametrize(("difficulty", "words"), [("easy", 4), ("medium", 2), ("hard", 1)])
def test_a_note_has_few_words(difficulty: str, words: int) -> None:
    """One more is refused, and so is a note without words."""
    env, observation = world("client", difficulty)
    assert f"at most {words} word{'s' * (words > 1)} to" in observation
    for note, found in (("", 0), ("?!", 0), (" ".join(["red"] * (words + 1)), words + 1)):
        observation, *_, info = env.step(f"say[{note}]")
        needed = f"1 to {words} words" if words > 1 else "1 word"
        assert observation == f"Not a note: it needs {needed}, and this has {found}." and not info["valid_action"]
    observation, reward, *_, info = env.step("say[again].")
    assert info["valid_action"] and reward == -NOTE_COST and observation.startswith("The shopper writes: ")


@pytest.mark.parametrize("sign", ["-", "_", "'", "7", "--"])
def test_no_sign_makes_one_word_of_several(sign: str) -> None:
    """So all needs do not fit into a note of one word."""
    env, _ = world("client", "hard")
    observation, *_, info = env.step(f"say[{sign.join(['beige', 'ceramic', 'tray'])}]")
    assert observation == "Not a note: it needs 1 word, and this has 3." and not info["valid_action"]


def test_every_split_asks_in_its_own_words() -> None:
    """Valid and test have three wordings each, and no training request is one of them."""
    held_out = [*REQUESTS["valid"], *REQUESTS["test"]]
    assert len(set(held_out)) == len(held_out) and min(len(REQUESTS[split]) for split in ("valid", "test")) >= 3
    assert not any(is_expansion(text, grammar) for text in held_out for grammar in REQUESTS["train"])


@pytest.mark.parametrize("role", ["client", "shopper"])
def test_a_purchase_pays_both_the_share_of_the_needs(role: str) -> None:
    """And each note costs its writer alone."""
    env, _ = world(role, "hard")
    order, total, notes = env.puzzle, 0.0, 0
    while not env.stop_reason:
        action = env.fair_expert() or ""
        notes += action.startswith("say")
        total += env.step(action)[1]
    assert env.succeeded and total == pytest.approx(1 - NOTE_COST * notes)
    env, _ = world("shopper", "hard")
    needs = [ATTRIBUTES.index(attribute) for attribute in order.needs]
    met, product_ = min((sum(p[k] == order.target[k] for k in needs), p) for p in order.products)
    observation, reward, terminated, *_ = env.step(f"buy[{name_of(product_)}]")
    assert terminated and not env.succeeded and reward == pytest.approx(met / len(needs))
    assert observation == f"Bought: {name_of(product_)}. It meets {met / len(needs):.0%} of the needs."


def test_the_experts_understand_questions_any_and_again() -> None:
    """The client answers what is asked, or says that it does not matter; a wrong word is taken back by again."""
    for task in range(30):
        env, _ = world("client", "hard", task)
        order = env.puzzle
        env.step("say[nothing]")
        asked = env._match.game.asked  # type: ignore[attr-defined]
        value = order.target[ATTRIBUTES.index(asked)] if asked in order.needs else "any"
        assert env.fair_expert() == f"say[{value}]"
        wrong = next(p[3] for p in order.products if p[3] != order.target[3])
        _, _, terminated, *_ = env.step(f"say[{wrong}]")
        assert terminated or env.fair_expert() == "say[again]"


@pytest.mark.parametrize(("role", "difficulty"), list(product(("client", "shopper"), LEVELS)))
def test_the_fair_experts_succeed_together(role: str, difficulty: str) -> None:
    """In all of 100 tasks."""
    for task in range(100):
        env, _ = world(role, difficulty, task)
        while not env.stop_reason:
            env.step(env.fair_expert() or "")
        assert env.succeeded


def test_a_thought_says_what_is_known() -> None:
    """The shopper repeats the notes and names the products that fit; the client says what is needed."""
    env, observation = world("shopper", "medium")
    while not env.stop_reason:
        game = env._match.game
        assert isinstance(game, Errand)
        said, action = " ".join(game.said.values()), env.fair_expert() or ""
        thought, fitting = (
            env.expert_thought(action),
            [name_of(p) for p in env.puzzle.products if {*said.split()} <= {*p}],
        )
        assert said in observation or action.startswith("buy")
        assert thought.lower().startswith(said) and (len(fitting) > 4 or all(name in thought for name in fitting))
        observation, *_ = env.step(action)
    assert env.succeeded
    env, observation = world("client", "easy")
    needs = env.expert_thought(env.fair_expert() or "").removeprefix("I need: ").removesuffix(".").split(", ")
    assert all(word in observation for word in needs)


def returned(env: ErrandEnv, task: int, split: str, *, fair: bool) -> float:
    """The return of an expert's episode."""
    env.reset(options={"task": task, "split": split})
    total = 0.0
    while not env.stop_reason:
        total += env.step((env.fair_expert() or "") if fair else env.expert()[0])[1]
    return total


@pytest.mark.parametrize(("role", "difficulty"), list(product(("client", "shopper"), LEVELS)))
def test_the_exact_expert_is_never_worse_than_the_fair_one(role: str, difficulty: str) -> None:
    """In none of 100 test and 100 training tasks."""
    env = ErrandEnv(role=role, difficulty=difficulty)
    for split, task in product(("test", "train"), range(100)):
        exact, fair = (returned(env, task, split, fair=fair) for fair in (False, True))
        assert exact >= fair - 1e-9, (split, task)


def fewest_notes(game: Errand, notes: list[str], most: int) -> int:
    """The fewest of all possible notes after which the fair shopper buys what is needed; `most` if fewer do not."""
    level = [game]
    for number in range(1, most):
        following: list[Errand] = []
        for before, note in product(level, notes):
            after = deepcopy(before)
            assert not after.move("say", note)
            name, _, argument = after.fair_move("shopper").partition("[")
            assert not after.move(name, argument[:-1])
            if after.success:
                return number
            following += [] if after.ended else [after]
        level = following
    return most


@pytest.mark.parametrize("difficulty", ["medium", "hard"])
def test_the_exact_client_writes_the_fewest_notes(difficulty: str) -> None:
    """No sequence of fewer notes makes the fair shopper buy what is needed, at first and after a wrong word."""
    compared = 0
    for task, wrong in product(range(12), (False, True)):
        env, _ = world("client", difficulty, task)
        order = env.puzzle
        if wrong and env.step(f"say[{next(p[3] for p in order.products if p[3] != order.target[3])}]")[2]:
            continue
        game, plan = env._match.game, env.expert()
        assert isinstance(game, Errand)
        notes = [action[4:-1] for action in game.actions("client")]
        notes += [f"{a} {b}" for a, b in product(notes, notes) if a != b] if order.words > 1 else []
        if len(plan) <= 3:
            assert fewest_notes(game, notes, len(plan)) == len(plan), (task, wrong, plan)
            compared += len(plan) > 1
    assert compared >= 5
