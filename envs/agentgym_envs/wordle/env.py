"""AgentWordle-v0: a hidden word of five letters, six tries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

from agentgym_envs.wordle.solver import (
    ABSENT,
    ELSEWHERE,
    LETTERS,
    RIGHT,
    TRIES,
    Tried,
    allowed,
    best_guess,
    broken_hint,
    known,
    marks,
    words,
)
from agentgym_py.env import GeneratedEnv, Outcome, Reply, Task, function_tool, text_parameter
from agentgym_py.env.generated import Draft
from agentgym_py.rng import Rng, seed_of

_WORD = re.compile(r"[a-z]{5}", re.IGNORECASE)
_GUESS = re.compile(r"guess\s*", re.IGNORECASE)
_SIGNS = {ABSENT: "-", ELSEWHERE: "+", RIGHT: "="}
_SPLIT_OF = ("train",) * 7 + ("valid",) + ("test",) * 2
_SHOWN_LETTERS = 2
_SAID_ANYWAY = frozenset(("false", "found", "guess", "train", "twice", "valid", "write"))
"""Words of the list that stand in this world's sentences and in `info`, whatever is hidden."""
_WAYS = {
    "train": ("Find the hidden word.", "A word is hidden. Find it.", "Guess the word that is hidden."),
    "valid": ("Which word is hidden here?",),
    "test": ("There is a secret word. Which is it?",),
}


class WordleEnv(GeneratedEnv[tuple[str, str]]):
    """AgentWordle-v0: find a hidden word of five letters in six tries.

    Task: a word is hidden, drawn from the project's own list of plain words. easy: two of its letters are shown
    in their places. medium: nothing is. hard: nothing is, and a guess must use what the tries before have found, as in
    the game's hard mode. The splits divide the hidden words and the ways to ask; every word may be guessed in all.

    Actions: `guess[crane]`, or the word alone. As a tool: `guess(word)`. What is not in the list, or against the rule
    of hard, is refused: it costs a step, no try; hard has no more steps than tries. `actions()` lists what is not
    refused: who draws from that by chance finds the word in about half of hard's tasks (a floor of 60 %), for there
    the rule does the thinking.

    Observation: the guess letter by letter, below each letter `=` (right), `+` (in the word, at another place) or `-`
    (not in it, or not that often), and how many tries are left.

    Reward: 1 for the word, else 0; `success` with it.

    End: the word is found or six tries are used (terminated); `max_steps` (10, in hard 6) truncates.

    The expert knows the word, which is a shortest plan. The fair expert is an entropy solver: it acts on the marks and
    the list of words alone, and guesses what tells most in the mean.

    Args:
        difficulty: `easy`, `medium` or `hard`.
        max_steps: when an episode is cut.
        split: where tasks come from if `reset` names none.
        render_mode: `ansi` or None.

    Registered ids: AgentWordle-v0.
    """

    name: ClassVar[str] = "wordle"
    max_return: ClassVar[float | None] = 1.0
    limits: ClassVar[Mapping[str, int]] = {"easy": 10, "medium": 10, "hard": 6}
    random_baselines: ClassVar[Mapping[str, float]] = {"hard": 0.6}
    rules: ClassVar[Mapping[str, str]] = {
        "full": (
            "Find the hidden English word of five letters in six tries. Each turn you guess one word: guess[crane].\n"
            "Below each letter of your guess stands a sign: = the letter is right, + it is in the word but at another "
            "place, - it is not in the word (or not once more).\n"
            "Answer in this form:\nThought: why\nAction: guess[word]"
        ),
        "brief": "Find the hidden word: guess[word]. = right, + elsewhere, - not in it.",
        "none": "",
    }

    _done = False  # there before the first reset, so that what needs one says so

    # ---- tasks ------------------------------------------------------------------------------------------------------

    def draft(self, rng: Rng, split: str) -> Draft[tuple[str, str]]:
        """A word to hide."""
        hidden = rng.choice(_hidden_words(split))
        places = sorted(rng.sample(range(LETTERS), _SHOWN_LETTERS))
        shown = "".join(letter if place in places else "." for place, letter in enumerate(hidden))
        asked = rng.choice(_WAYS[split])
        if self.difficulty == "easy":
            asked += f" It looks like this: {' '.join(shown)}"
        return Draft(asked, (hidden, shown if self.difficulty == "easy" else "." * LETTERS), "word", 1)

    def begin(self, task: Task) -> str:
        """What is asked."""
        self._guesses: list[str] = []
        self._done = False
        return f"{task.instruction}\nYou have {TRIES} tries."

    # ---- the episode ------------------------------------------------------------------------------------------------

    def act(self, reply: Reply) -> Outcome:
        """Guess."""
        guess, hidden = _guessed(reply), self.puzzle[0]
        if guess is None:
            return Outcome("Not an action: write guess[word].", valid=False)
        wrong = self._against_the_rules(guess)
        if wrong:
            return Outcome(f"{wrong} Guess another word.", valid=False)
        self._guesses.append(guess)
        right, left = guess == hidden, TRIES - len(self._guesses)
        self._done = right or not left
        said = f"{' '.join(guess)}\n{' '.join(_SIGNS[mark] for mark in marks(guess, hidden))}\n"
        said += (
            "Found." if right else f"{left} {'try' if left == 1 else 'tries'} left." if left else f"It was {hidden}."
        )
        return Outcome(said, float(right), terminated=self._done, success=right)

    def _against_the_rules(self, guess: str) -> str:
        if guess not in known():
            return f"{guess[:40]!r} is not in the list of words with {LETTERS} letters."
        hint = broken_hint(guess, self._tried) if self.difficulty == "hard" else ""
        return f"{guess} does not use what was found: {hint}." if hint else ""

    @property
    def _tried(self) -> Tried:
        hidden = self.puzzle[0]
        return tuple((guess, marks(guess, hidden)) for guess in self._guesses)

    def actions(self) -> list[str]:
        """A guess of every word of the list, those that cannot be right among them; in hard of those that it allows."""
        if self._done:
            return []
        guesses = _all_guesses()
        return [guesses[k] for k in allowed(self._tried)] if self.difficulty == "hard" else list(guesses)

    def tools(self) -> list[dict[str, Any]]:
        """`guess(word)`."""
        word = text_parameter("An English word of five letters.")
        return [function_tool("guess", "Guess the hidden word.", {"word": word})]

    # ---- forks and the experts --------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The guesses."""
        return {"guesses": list(self._guesses), "done": self._done}

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Go on with an episode."""
        guesses, done, hidden = state["guesses"], state["done"], self.puzzle_of(task)[0]
        if type(guesses) is not list or len(guesses) > TRIES or not known().issuperset(guesses):
            raise ValueError(f"no guesses: {guesses!r}")
        tried = tuple((guess, marks(guess, hidden)) for guess in guesses)
        if hidden in guesses[:-1] or done is not (len(guesses) == TRIES or hidden in guesses):
            raise ValueError(f"done={done!r} does not fit the guesses")
        if self.difficulty == "hard" and any(broken_hint(guess, tried[:n]) for n, guess in enumerate(guesses)):
            raise ValueError("a guess that was not allowed")
        self._guesses, self._done = list(guesses), done

    def is_terminal(self, state: Mapping[str, Any]) -> bool:
        """Whether the word is found or the tries are used."""
        return state["done"] is True

    def secrets(self) -> list[str]:
        """The hidden word, and as it would stand above marks; that alone where the world says the word anyway."""
        hidden = self.puzzle[0]
        spaced = " ".join(hidden)
        return [] if self._done else [spaced] if hidden in _SAID_ANYWAY else [hidden, spaced]

    def expert(self) -> list[str]:
        """The hidden word: a shortest plan."""
        if self._done:
            return []
        hidden = self.puzzle[0]
        return [f"guess[{hidden}]"]

    def fair_expert(self) -> str | None:
        """The guess that tells most, from the marks alone."""
        if self._done:
            return None
        return f"guess[{best_guess(self.puzzle[1], self._tried, self.difficulty == 'hard')}]"


def _guessed(reply: Reply) -> str | None:
    """The word of `guess[word]`, or the bare word; None if the reply is neither."""
    name, word = reply.parts
    if word is None:
        return name.lower() if _WORD.fullmatch(name) else None
    if "[" in word or "]" in word or not (name == "guess" or _GUESS.fullmatch(name)):
        return None
    return word.strip().lower()


@cache
def _all_guesses() -> tuple[str, ...]:
    return tuple(f"guess[{word}]" for word in words())


@cache
def _hidden_words(split: str) -> tuple[str, ...]:
    return tuple(word for word in words() if _SPLIT_OF[seed_of("wordle", word) % len(_SPLIT_OF)] == split)
