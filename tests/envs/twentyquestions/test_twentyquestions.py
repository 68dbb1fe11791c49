"""AgentTwentyQuestions: questions, answers, and the expert that halves."""

from __future__ import annotations

from itertools import product

import pytest

from agentgym_envs.things import ATTRIBUTES, WORDS, draw_things, name_of
from agentgym_envs.twentyquestions.env import QUESTIONS, REQUESTS, TwentyQuestionsEnv
from agentgym_py.env.wording import is_expansion
from agentgym_py.rng import Rng

LEVELS = ("easy", "medium", "hard")


def world(role: str = "asker", difficulty: str = "easy", task: int = 0) -> tuple[TwentyQuestionsEnv, str]:
    """A world after a reset to a test task, and its first observation."""
    env = TwentyQuestionsEnv(role=role, difficulty=difficulty)
    return env, env.reset(options={"task": task, "split": "test"})[0]


def test_no_word_is_in_two_places() -> None:
    """Neither of two splits nor of two attributes, so a word says what it is about."""
    words = [word for pools in WORDS.values() for pool in pools for word in pool]
    assert len(words) == len(set(words)) and all(len(pools) == len(ATTRIBUTES) for pools in WORDS.values())


@pytest.mark.parametrize("split", WORDS)
def test_things_are_different(split: str) -> None:
    """As many as were asked for, each attribute with at most as many values."""
    for seed in range(20):
        things = draw_things(Rng(seed), split, (2, 3, 2, 3), 12)
        assert len(set(things)) == 12
        assert all(len({t[k] for t in things}) <= most for k, most in enumerate((2, 3, 2, 3)))


def test_an_answer_is_true_of_the_thing() -> None:
    """Yes exactly if the word is in the thing's name; the question counts."""
    env, observation = world()
    assert observation.endswith(f"You have {QUESTIONS} questions.") and observation.count("\n- ") == 12
    secret = env.puzzle.secret
    for number, word in enumerate(sorted({word for thing in env.puzzle.things for word in thing}), 1):
        observation, reward, *_, info = env.step(f"ask[{word}]")
        answer = "Yes" if word in secret else "No"
        assert observation == f"Does {word} fit? {answer}. {QUESTIONS - number} questions left."
        assert (reward, info["valid_action"]) == (0, True)


def test_after_the_last_question_only_a_guess_is_left() -> None:
    """The fair expert then guesses something that fits."""
    env, _ = world()
    word = env.puzzle.things[0][0]
    for _ in range(QUESTIONS):
        observation, *_ = env.step(f"ask[{word}]")
    assert observation.endswith("No question left: guess.")
    observation, *_, info = env.step(f"ask[{word}]")
    assert observation == "No questions are left: guess." and not info["valid_action"]
    assert all(action.startswith("guess[") for action in env.actions())
    assert (env.fair_expert() or "").startswith("guess[")


@pytest.mark.parametrize("role", ["asker", "answerer"])
def test_both_roles_share_the_reward(role: str) -> None:
    """A right guess is worth 1 to each."""
    env, _ = world(role)
    total = 0.0
    while not env.stop_reason:
        total += env.step(env.fair_expert() or "")[1]
    assert total == 1 and env.succeeded and env.stop_reason == "terminated"


def test_a_wrong_guess_and_a_false_answer_end_the_game() -> None:
    """Without a reward; the thing is told then."""
    env, _ = world()
    wrong = next(thing for thing in env.puzzle.things if thing != env.puzzle.secret)
    observation, reward, terminated, *_ = env.step(f"guess[{name_of(wrong)}]")
    assert (observation, reward, terminated) == (f"Wrong: it is the {name_of(env.puzzle.secret)}.", 0, True)
    env, observation = world("answerer")
    assert observation.split("\n")[0] == f"Your thing: {name_of(env.puzzle.secret)}."
    lie = "no" if env.fair_expert() == "yes" else "yes"
    observation, reward, terminated, *_ = env.step(lie)
    assert observation.startswith(f"The answer {lie} is false") and (reward, terminated) == (0, True)


@pytest.mark.parametrize("action", ["ask[nothing]", "ask[red blue]", "guess[spoon]", "yes", "ask", "guess[]"])
def test_what_makes_no_sense_is_refused(action: str) -> None:
    """It costs a step, and no question."""
    env, _ = world()
    *_, info = env.step(action)
    assert not info["valid_action"] and env.state()["moves"] == []


@pytest.mark.parametrize(
    "action",
    ["ask @", "ask: @", "ask(@)", "Ask @.", "ask[@].", "ask[@.]", 'ask["@"]', "ask[@?]", "Action: ask[@] please",
     'Action: ask\nAction Input: {"word": "@."}'],
)  # fmt: skip
def test_a_question_is_read_in_every_form(action: str) -> None:
    """With a colon, a blank, round brackets, quotes or a full stop."""
    env, _ = world()
    word = env.puzzle.things[0][0]
    observation, *_, info = env.step(action.replace("@", word))
    assert info["valid_action"] and observation.startswith(f"Does {word} fit?")
    restored = TwentyQuestionsEnv(difficulty="easy")
    restored.restore(env.snapshot())
    assert restored.actions() == env.actions() and restored.state() == env.state()


@pytest.mark.parametrize("action", ["guess[@].", "guess @", "Guess: @!", "guess(@)"])
def test_a_guess_is_read_in_every_form(action: str) -> None:
    """As a question is."""
    env, _ = world()
    assert env.step(action.replace("@", name_of(env.puzzle.secret)))[4]["success"]


@pytest.mark.parametrize("action", ["@.", "@!", "Answer: @", "answer @.", "@()", "answer[@]", '"@"'])
def test_an_answer_is_read_in_every_form(action: str) -> None:
    """Yes and no with a full stop, or after the word answer."""
    env, _ = world("answerer")
    answer = env.fair_expert() or ""
    observation, *_, info = env.step(action.replace("@", answer.capitalize()))
    assert info["valid_action"] and env.state()["moves"] and "false" not in observation


def test_held_out_requests_have_three_wordings() -> None:
    """Each in valid and test; no training request is one of them."""
    for split in ("valid", "test"):
        env = TwentyQuestionsEnv(split=split)
        requests = {env.puzzle_of(env.task(number)).request for number in range(50)}
        assert requests == set(REQUESTS[split]) and len(requests) == 3
        assert not any(is_expansion(request, grammar) for request in requests for grammar in REQUESTS["train"])


def test_a_thought_says_what_is_known() -> None:
    """The answers so far, then words that divide what is left, or what it is; the answerer says what the thing is."""
    env, _ = world()
    known: list[str] = []
    while not env.stop_reason:
        action = env.fair_expert() or ""
        thought = env.expert_thought(action)
        fitting = [t for t in env.puzzle.things if all((w.split()[-1] in t) is (w[:4] != "not ") for w in known)]
        start = f"{', '.join(known)}. " * bool(known)
        if len(fitting) == 1:
            assert thought.lower() == f"{start}it is the {name_of(fitting[0])}."
        else:
            listed = thought.lower().removeprefix(f"{start}to ask: ").removesuffix(".").split(", ")
            halves = [abs(2 * sum(word in thing for thing in fitting) - len(fitting)) for word in listed]
            assert action == f"ask[{listed[0]}]" and halves == sorted(halves) and max(halves) < len(fitting)
        observation, *_ = env.step(action)
        known.append(f"{'' if '? Yes' in observation else 'not '}{action[4:-1]}")
    assert env.succeeded
    env, _ = world("answerer")
    assert env.expert_thought(env.fair_expert() or "") == f"It is a {name_of(env.puzzle.secret)}."


@pytest.mark.parametrize("difficulty", LEVELS)
def test_the_fair_expert_asks_what_splits_best(difficulty: str) -> None:
    """Against a slow reference that counts the things of both answers, for every question of some episodes."""
    for task in range(5):
        env, _ = world("asker", difficulty, task)
        left = list(env.puzzle.things)
        while len(left) > 1:
            words = [word for k in range(4) for word in sorted({thing[k] for thing in env.puzzle.things})]
            sizes = {
                word: max(sum((word in t) is side for t in left) for side in (True, False))
                for word, _ in product(words, "x")
            }
            action = env.fair_expert() or ""
            assert action.startswith("ask[") and sizes[action[4:-1]] == min(sizes.values())
            observation, *_ = env.step(action)
            left = [t for t in left if (action[4:-1] in t) is ("? Yes" in observation)]
        assert env.fair_expert() == f"guess[{name_of(env.puzzle.secret)}]"
