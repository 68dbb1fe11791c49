"""AgentWordle: marks, the solver that reads nothing else, and the rules."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import tracemalloc
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_envs.wordle import solver
from agentgym_envs.wordle.env import REQUESTS, WordleEnv, _hidden_words
from agentgym_envs.wordle.solver import best_guess, broken_hint, marks, may_be_hidden, patterns, words
from agentgym_py.env import SPLITS
from agentgym_py.errors import SnapshotError
from agentgym_py.rng import Rng

LEVELS = ("easy", "medium", "hard")


@pytest.mark.parametrize(
    ("guess", "hidden", "signs"),
    [("crane", "crane", "====="), ("crane", "moist", "-----"), ("eerie", "crepe", "+-+-="), ("speed", "erase", "+-++-"),
     ("allow", "llama", "+=+--"), ("geese", "eagle", "++--="), ("abbey", "babes", "++==-")],
)  # fmt: skip
def test_marks_are_those_of_the_game(guess: str, hidden: str, signs: str) -> None:
    """A letter is marked as often as it is hidden, right places first."""
    assert "".join("-+="[mark] for mark in marks(guess, hidden)) == signs


def test_the_table_of_marks_says_the_same() -> None:
    """For every hidden word and some guesses, doubled letters among them."""
    table, every = patterns(), words()
    for guess in ("eerie", "geese", "abbey", "llama", "crane", "mummy", every[0], every[-1]):
        row = every.index(guess)
        for column, hidden in enumerate(every):
            assert table[row, column] == sum(mark * 3**place for place, mark in enumerate(marks(guess, hidden)))


def test_the_table_takes_little_memory() -> None:
    """A byte for each pair of words; while it is made, the truth of some more about each."""
    pairs = len(words()) ** 2
    patterns.cache_clear()
    tracemalloc.start()
    size = patterns().nbytes
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size == pairs and peak < 20 * pairs


def test_the_list_is_clean() -> None:
    """Sorted, five small letters each, none twice, and the splits divide it."""
    every = words()
    assert list(every) == sorted(set(every)) and len(every) > 1500
    assert all(len(word) == 5 and word.isascii() and word.isalpha() and word.islower() for word in every)
    parts = [set(_hidden_words(split)) for split in SPLITS]
    assert sum(map(len, parts)) == len(every) and set.union(*parts) == set(every) and min(map(len, parts)) > 100


def test_the_guess_is_the_one_of_largest_entropy() -> None:
    """Compared with a plain loop, in floats, over the words that may be hidden."""
    tried = (("slate", marks("slate", "crumb")),)
    may_be = [word for word in words() if may_be_hidden(word, ".....", tried)]

    def entropy(guess: str) -> float:
        sizes = Counter(marks(guess, hidden) for hidden in may_be).values()
        return -sum(size / len(may_be) * math.log2(size / len(may_be)) for size in sizes)

    assert len(may_be) > 5
    assert entropy(best_guess(".....", tried)) == pytest.approx(max(map(entropy, may_be)))


@pytest.mark.parametrize(("difficulty", "least"), [("easy", 40), ("medium", 40), ("hard", 38)])
def test_the_fair_expert_finds_the_word(difficulty: str, least: int) -> None:
    """In six tries, by the marks alone: with the puzzle's word hidden from it, it says the same."""
    env, solved = WordleEnv(difficulty=difficulty, split="test"), 0
    for number in range(40):
        env.reset(options={"task": number})
        while not env.stop_reason:
            assert env.step(env.fair_expert() or "")[4]["valid_action"]
        solved += env.succeeded
    assert solved >= least


def test_the_solver_sees_nothing_but_marks() -> None:
    """Two hidden words that are answered alike get the same next guess."""
    env = WordleEnv(difficulty="medium")
    guesses: dict[str, set[str | None]] = {}
    for number in range(60):
        env.reset(options={"task": number})
        seen = env.step("guess[crane]")[0]
        if not env.stop_reason:
            guesses.setdefault(seen, set()).add(env.fair_expert())
    assert len(guesses) < 40 and all(len(each) == 1 for each in guesses.values())


@pytest.mark.parametrize("difficulty", LEVELS)
def test_chance_does_not_find_the_word_but_in_hard(difficulty: str) -> None:
    """All words are listed, also those that the tries have ruled out; in hard those that it allows."""
    env, rng, solved = WordleEnv(difficulty=difficulty), Rng("chance"), 0
    for number in range(150):
        env.reset(options={"task": number})
        while not env.stop_reason:
            actions = env.actions()
            hints = env._hints if difficulty == "hard" else ()
            if number < 15:
                assert actions == [f"guess[{word}]" for word in words() if not broken_hint(word, hints)]
            assert env.step(rng.choice(actions))[4]["valid_action"]
        solved += env.succeeded
    assert solved <= env.random_baseline * 150 and (difficulty == "hard" or solved <= 3)


def test_an_episode_reads_well() -> None:
    """Letters above signs, the tries that are left, and the word when they are used."""
    env = WordleEnv(difficulty="easy")
    first, _ = env.reset(options={"task": 1})
    hidden, shown = env.puzzle
    assert first.endswith(f"It looks like this: {' '.join(shown)}\nYou have 6 tries.")
    assert [letter for letter in shown if letter != "."] == [a for a, b in zip(hidden, shown, strict=True) if b != "."]
    assert shown.count(".") == 3
    wrong = next(word for word in words() if word != hidden)
    for left in (5, 4, 3, 2):
        assert env.step(f"guess[{wrong}]")[0].endswith(f"\n{left} tries left.")
    assert env.step(wrong)[0].endswith("\n1 try left.")
    message, reward, terminated, _, info = env.step(f"GUESS[ {wrong.upper()} ]")
    assert message.endswith(f"It was {hidden}.") and (reward, terminated, info["success"]) == (0.0, True, False)


@pytest.mark.parametrize(
    "reply",
    ["guess[@]", "@", "Thought: so\nAction: guess[@]", "Action: guess\nAction Input: @", "Action: @",
     '{"name": "guess", "arguments": {"word": "@"}}', "guess: @", "guess @", "Guess : @", 'guess["@"]', "guess['@']",
     'guess "@"', "Action: guess: “@”", "guess[@].", "guess[@.]", "@.", "guess(@)", "Guess: @!",
     "Action: guess[@] now.", "guess: [@]", '"@"', '{"name": "guess", "arguments": {"word": "\\"@\\""}}'],
)  # fmt: skip
@pytest.mark.parametrize("between", ["", " "])
def test_a_guess_is_read_in_every_form(reply: str, between: str) -> None:
    """Bare, in brackets, after a colon, in quotes, as ReAct, as a tool call; as a word or spelt."""
    env = WordleEnv()
    env.reset(options={"task": 2})
    assert env.step(reply.replace("@", between.join(env.puzzle[0])))[4]["success"]


def test_the_word_is_a_secret_until_the_end() -> None:
    """By itself and letter by letter; no sentence, `info` or refusal says it, whichever word is hidden."""
    env = WordleEnv(difficulty="hard", max_steps=20)
    hidden_words = set()
    for number in range(1200):
        first, info = env.reset(options={"task": number})
        secrets, hidden = env.secrets(), env.puzzle[0]
        hidden_words.add(hidden)
        assert secrets[-1] == " ".join(hidden) and secrets[:-1] in ([], [hidden])
        seen = [first, str(info)]
        for action in ("nonsense", "guess[zzzzz]", "eerie", "eerie", "mummy", "crane", "geese", "llama"):
            if hidden not in action and not env.stop_reason:
                seen += map(str, env.step(action))
        words_shown = re.findall(r"\w+", " ".join(seen).lower())
        assert env.stop_reason or hidden not in secrets or hidden not in words_shown, hidden
        env.restore(env.snapshot())
        if not env.stop_reason:
            env.step(f"guess[{hidden}]")
        assert env.secrets() == []
    assert len(hidden_words) > 600


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(words()), st.sampled_from(words()))
def test_marks_count_each_letter(guess: str, hidden: str) -> None:
    """Right where the letters are equal; of each letter as many are marked as both words have."""
    signs = marks(guess, hidden)
    assert [mark == solver.RIGHT for mark in signs] == [a == b for a, b in zip(guess, hidden, strict=True)]
    for letter in set(guess):
        marked = sum(mark != solver.ABSENT for each, mark in zip(guess, signs, strict=True) if each == letter)
        assert marked == min(guess.count(letter), hidden.count(letter))


def test_what_is_refused_costs_no_try() -> None:
    """Words that are not in the list, other lengths, other things; max_steps cuts in the end."""
    env = WordleEnv(difficulty="medium")
    env.reset(options={"task": 2})
    for action in (
        "guess[zzzzz]",
        "guess[no]",
        "look",
        "guess[]",
        "",
        "guess[crane slate]",
        "guess[cr ane]",
        "guess[c r a n]",
    ):
        assert not env.step(action)[4]["valid_action"]
    wrong = next(word for word in words() if word != env.puzzle[0])
    assert env.step(wrong)[0].endswith("5 tries left.")
    ends = [env.step("x")[2:4] for _ in range(3)]
    assert ends[-1] == (False, True)


@pytest.mark.parametrize(
    ("action", "message"),
    [("guess: cranes", "'cranes' is not in the list"), ("guess zzzzz", "'zzzzz' is not in the list"),
     ("guess:", "Not an action"), ("guess which word it is", "Not an action"), ("guess crane slate", "Not an action"),
     ('guess[""]', "'' is not in the list"), ("guessing crane", "Not an action"), ('"', "Not an action")],
)  # fmt: skip
def test_other_words_after_guess_are_refused(action: str, message: str) -> None:
    """A single word that is not in the list is named."""
    env = WordleEnv()
    env.reset(options={"task": 2})
    observation, *_, info = env.step(action)
    assert observation.startswith(message) and not info["valid_action"]


def test_a_word_of_the_request_is_a_secret_in_letters_alone() -> None:
    """A request of training may contain the hidden word by chance."""
    env = WordleEnv(difficulty="medium")
    first, _ = env.reset(options={"task": "wordle/train/medium/756"})
    assert "Raise the veil" in first and env.puzzle[0] == "raise" and env.secrets() == ["r a i s e"]


def test_hard_counts_refused_words_as_tries() -> None:
    """No more tries are left than steps, and a refusal in the last step leaves none; other difficulties count tries."""
    env = WordleEnv(difficulty="hard")
    first, _ = env.reset(options={"task": 0})
    wrong = next(word for word in words() if not set(word) & set(env.puzzle[0]))
    assert first.endswith("You have 6 tries.")
    env.step("guess[zzzzz]")
    assert env.step(wrong)[0].endswith("\n4 tries left.")
    for _ in range(3):
        env.step("guess[zzzzz]")
    message, _, terminated, truncated, _ = env.step(wrong)
    assert message.endswith("\n0 tries left.") and (terminated, truncated) == (False, True)
    for difficulty, tries in (("hard", "1 try"), ("medium", "6 tries")):
        env = WordleEnv(difficulty=difficulty, max_steps=1)
        assert env.reset(options={"task": 0})[0].endswith(f"You have {tries}.")
    env = WordleEnv(difficulty="hard", max_steps=20)
    assert env.reset(options={"task": 0})[0].endswith("You have 6 tries.")
    env.step("guess[zzzzz]")
    assert env.step(wrong)[0].endswith("\n5 tries left.")


def test_the_rules_of_hard_say_what_is_refused_and_what_it_costs() -> None:
    """Those of the other difficulties do not; with more steps than tries a refusal costs no try."""
    easy, medium, hard = (WordleEnv(difficulty=difficulty).rules for difficulty in LEVELS)
    assert easy == medium == WordleEnv.rules
    for length in ("full", "brief"):
        assert "A refused word costs a try." in hard[length] and "A refused" not in medium[length]
        assert "must" in hard[length] and "must" not in medium[length]
    patient = WordleEnv(difficulty="hard", max_steps=20).rules
    assert all("must" in patient[length] and "costs" not in patient[length] for length in ("full", "brief"))
    assert hard["none"] == "" and hard["full"].endswith("Action: guess[word]")


def test_hard_wants_what_was_found() -> None:
    """Letters in their right places and letters found elsewhere, doubled ones twice."""
    tried = (("crane", marks("crane", "cabin")),)
    assert broken_hint("slate", tried) == "letter 1 must be c"
    assert broken_hint("cloth", tried) == "it must have a"
    assert broken_hint("canal", tried) == ""
    assert broken_hint("clean", (("geese", marks("geese", "eagle")),)) == "letter 5 must be e"
    assert broken_hint("abide", (("geese", marks("geese", "eagle")),)) == "it must have e twice"
    assert broken_hint("abide", (("eerie", (1, 1, 0, 0, 1)),)) == "it must have e three times"
    env = WordleEnv(difficulty="hard")
    for number in range(20):
        env.reset(options={"task": number})
        hidden = env.puzzle[0]
        near = next((word for word in words() if word[0] == hidden[0] and word != hidden), "")
        other = next(word for word in words() if word[0] != hidden[0])
        if near:
            env.step(near)
            message, *_, info = env.step(other)
            assert f"letter 1 must be {hidden[0]}" in message and not info["valid_action"]
            assert env.step(env.expert()[0])[4]["success"]


def test_a_snapshot_of_guesses_that_cannot_be_is_refused() -> None:
    """Unknown words, guesses after the right one, too many, an end that does not fit, against hard's rule."""
    env = WordleEnv(difficulty="hard")
    env.reset(options={"task": 0})
    hidden, whole = env.puzzle[0], json.loads(env.snapshot())
    other = next(word for word in words() if not set(word) & set(hidden))
    near = next(word for word in words() if word[0] == hidden[0] and word != hidden)
    for guesses, done in (
        (["zzzzz"], False), ([hidden, other], True), ([other] * 7, True), ([other], True), ([hidden], False),
        ([near, other], False), ([1], False), (other, False), ([other] * 6, 1),
    ):  # fmt: skip
        changed = whole | {"state": {"guesses": guesses, "done": done}, "ended": "terminated" if done else ""}
        with pytest.raises(SnapshotError):
            env.restore(json.dumps(changed).encode())
    good = {"state": {"guesses": [other] * 6, "done": True}, "ended": "terminated", "steps": 6}
    env.restore(json.dumps(whole | good).encode())


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=12))
def test_any_text_is_a_guess_or_refused(text: str) -> None:
    """Nothing raises."""
    env = WordleEnv(difficulty="hard")
    env.reset(options={"task": 0})
    assert isinstance(env.step(f"guess[{text}]")[0], str) and isinstance(env.step(text)[0], str)


def test_the_table_is_made_when_it_is_needed() -> None:
    """Neither the import nor an episode without the solver takes the time for it, or numpy's import here."""
    code = (
        "from agentgym_envs.wordle.env import WordleEnv; from agentgym_envs.wordle import solver; e = WordleEnv();"
        "e.reset(seed=1); e.step('guess[crane]'); print(solver.patterns.cache_info().currsize)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "0\n"
    assert solver.TRIES == 6


def test_a_guess_of_a_megabyte_is_read_at_once() -> None:
    """Blanks in the brackets, with and without their end; a guess may have some around it."""
    env = WordleEnv()
    env.reset(seed=3)
    for text in (f"guess[{' ' * (1 << 20)}x", f"guess[x{' ' * (1 << 20)}] x"):
        assert not env.step(text)[-1]["valid_action"]
    assert env.step("guess[  teams ]")[-1]["valid_action"]


def test_thoughts_say_what_the_marks_mean() -> None:
    """The known places, letters to place, letters to avoid as they were found, and the guess by its letters."""
    env = WordleEnv(difficulty="hard")
    env.reset(
        options={"task": next(n for n in range(5000) if env.task(n) and env.puzzle_of(env.task(n))[0] == "geese")}
    )
    assert env.expert_thought("guess[geese]") == ""  # not what the fair expert guesses first
    for guess in ("tears", "dense"):
        env.step(f"guess[{guess}]")
    assert env.fair_expert() == "guess[g e e s e]"
    assert env.expert_thought("guess[g e e s e]") == env.expert_thought("guess[geese]")
    assert env.expert_thought("guess[geese]") == ". e . s e, not t a r d n: g e e s e."


def test_training_texts_are_rich() -> None:
    """Training requests come from a grammar; none is a held-out one."""
    env = WordleEnv(difficulty="medium")
    requests = {env.task(number, "train").instruction for number in range(300)}
    assert len(requests) > 50
    assert not requests & {*REQUESTS["valid"], *REQUESTS["test"]}
    assert "Work out it" not in "".join(env.task(number, "train").instruction for number in range(2000))
