"""AgentWordle-v0: find a hidden word of five letters in six tries."""

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
    Hints,
    allowed_words,
    best_guess,
    broken_hint,
    describe_letters,
    marks,
    word_set,
    words,
)
from agentgym_py.env import GeneratedEnv, Outcome, Reply, Task, function_tool, text_parameter
from agentgym_py.env.actions import WORD_EDGES
from agentgym_py.env.generated import Draft
from agentgym_py.env.types import TINY_DATA_DEFAULTS
from agentgym_py.env.wording import expand
from agentgym_py.rng import Rng, seed_of

_WORD = re.compile(r"[a-z]{5}|[a-z](?: [a-z]){4}", re.IGNORECASE)
_GUESS = re.compile(r"guess\s*:?\s*", re.IGNORECASE)
_PREFIX = re.compile(r"guess(?:\s*[:(]|\s)\s*", re.IGNORECASE)
_SIGNS = {ABSENT: "-", ELSEWHERE: "+", RIGHT: "="}
_SPLIT_OF = ("train",) * 7 + ("valid",) + ("test",) * 2
_REVEALED_LETTERS = 2
_WORDS_IN_TEXTS = frozenset(("false", "found", "guess", "train", "twice", "valid", "write"))
"""Words of the list that this world's texts and `info` contain anyway, whatever the request."""
REQUESTS = {
    "train": (
        "[Find|Guess|Work out|Discover|Name|Tell me|Uncover|Figure out|Identify|Detect|Unveil|Reveal|Solve] the "
        "[hidden|unknown|missing|mystery|concealed|veiled|masked] word.",
        "A word is [hidden|concealed|covered|behind this|masked|kept dark|out of sight]. [Find it.|Guess it.|Name "
        "it.|Work it out.|Uncover it.|What is it?|Which is it?]",
        "[Guess|Find|Discover|Name|Work out] the word that [is hidden|I think of|nobody sees|you cannot see|I have "
        "chosen|was picked|I keep to myself].",
        "[I think|They think|The host thinks|My sister thinks|A friend thinks] of a word. [Guess it.|Try to guess "
        "it.|What may it be?|Find it.|Can you guess it?]",
        "[Here is a riddle:|A riddle for you:|Try this:|A puzzle:|A little game:|Let us play:] [a word|one word|a "
        "word of five letters] [to guess|to find|to discover|to work out].",
        "[What|Which] is the word [here|behind the letters|I have in mind|that I picked|on my card]?",
        "[Say|Tell me] which word [I have in mind|is behind the letters|is on my card|it is].",
        "Five letters [are hidden|make a word|form a word|stand in a row]. [Which word|What] do they [make|spell|"
        "form]?",
        "[You have to|You must|Try to|Please|It is up to you to|Your task is to|See if you can] [guess|find|tell|"
        "work out|discover] the word[.| in six tries.| in few tries.]",
        "[I picked|I wrote down|I chose|The computer picked|Someone chose|I noted] a word[ of five letters|]. "
        "[Guess it|Find it|Work it out|Name it].",
        "[Let's|Let us] play a [word game|guessing game|game of letters]: [guess|find] the word[ of five letters|].",
        "[Can|Could|Will] you [guess|find|work out|tell me|discover] [the|my] word?",
        "Guess by guess, [find|get to|close in on|approach] the word.",
        "[My|Our|The] word has five letters. [Guess it.|Find it.|What is it?]",
        "[I am|We are] thinking of a word. [Guess which.|What is it?|Find out which.]",
        "With six guesses[ at most|], [find|work out|name] the word.",
        "The marks [help you|will guide you|tell you more] [to find|on the way to] the word.",
        "[Lift|Raise] the veil[:| and see:] which word [is it|lies behind it]?",
        "[A puzzle|A quiz|A test|A challenge] with one word: [find it|guess it|solve it].",
    ),
    "valid": ("Which word is hidden here?",),
    "test": ("There is a secret word. Which is it?",),
}


_HARD_RULE = {
    "full": "A guess must keep the letters marked = in their places and use those marked +, else it is refused.",
    "brief": "Each guess must use all = and +.",
}
_HARD_COST = "A refused word costs a try."


class WordleEnv(GeneratedEnv[tuple[str, str]]):
    """AgentWordle-v0: find a hidden word in six tries.

    Task: a word of five letters is drawn from the project's own list of plain words. easy: two of its letters are
    revealed. medium: nothing is. hard: nothing is, and a guess must use all earlier hints, as in the game's hard mode.
    The splits divide the hidden words and the wordings, of which valid and test have one each. Every word may be
    guessed in all splits.

    Actions: `guess[crane]`, `guess: crane`, `guess crane`, `guess(crane)` or the word alone, with or without quotes
    and a full stop; it may be spelt: `guess[c r a n e]`. As a tool: `guess(word)`. A word that is not in the list,
    or that breaks the rule of hard, is refused: it costs a step but no try. Hard has no more steps than tries, so
    there it costs a try, too, as its rules say. `actions()` lists the words that are not refused. Random choices
    among them find the word in about half of the hard tasks (`random_baseline` is 60 %), because there the rule
    does the reasoning.

    Observation: the guess letter by letter, below each letter `=` (right), `+` (in the word, at another place) or `-`
    (not in it, or not that often), and the number of tries left. In hard it is at most the number of steps left.

    Reward: 1 for the word, else 0; `success` likewise.

    End: finding the word or using six tries terminates; `max_steps` (10, in hard 6) truncates.

    The expert knows the word, so its plan of one step is a shortest one. The fair expert is an entropy solver: it knows
    only the marks and the list of words. Of the words that fit all marks it guesses the most informative one. It
    spells its guesses, so that an agent with a tokenizer can copy them from the thought.

    Args:
        difficulty: `easy`, `medium` or `hard`.
        max_steps: Step limit.
        split: Where tasks come from if `reset` names no split.
        render_mode: `ansi` or None.

    Registered ids: AgentWordle-v0.
    """

    name: ClassVar[str] = "wordle"
    version: ClassVar[int] = 5
    held_out_version: ClassVar[int | None] = 0
    max_return: ClassVar[float | None] = 1.0
    evolve_defaults: ClassVar[Mapping[str, Any]] = TINY_DATA_DEFAULTS
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

    _done = False  # set before the first reset, so that calls before it raise ResetNeededError

    def __init__(
        self,
        *,
        difficulty: str = "medium",
        max_steps: int | None = None,
        split: str = "train",
        render_mode: str | None = None,
    ) -> None:
        super().__init__(difficulty=difficulty, max_steps=max_steps, split=split, render_mode=render_mode)
        if difficulty == "hard":
            self.rules = _hard_rules(self.rules, self.max_steps)  # type: ignore[misc]  # hard has its own

    # ---- tasks ------------------------------------------------------------------------------------------------------

    def draft(self, rng: Rng, split: str) -> Draft[tuple[str, str]]:
        """Draw a word to hide."""
        hidden = rng.choice(_hidden_words(split))
        places = sorted(rng.sample(range(LETTERS), _REVEALED_LETTERS))
        pattern = "".join(letter if place in places else "." for place, letter in enumerate(hidden))
        request = expand(rng, rng.choice(REQUESTS[split]))
        if self.difficulty != "easy":
            return Draft(request, (hidden, "." * LETTERS), "word", 1)
        return Draft(f"{request} It looks like this: {' '.join(pattern)}", (hidden, pattern), "word", 1)

    def begin(self, task: Task) -> str:
        """Return the request and the number of tries."""
        self._guesses: list[str] = []
        self._done = False
        return f"{task.instruction}\nYou have {self._tries_text(0)}."

    # ---- the episode ------------------------------------------------------------------------------------------------

    def act(self, reply: Reply) -> Outcome:
        """Make a guess."""
        guess, hidden = _word_of(reply), self.puzzle[0]
        if guess is None:
            return self.invalid("Not an action: write guess[word].")
        if problem := self._rule_violation(guess):
            return self.invalid(f"{problem} Guess another word.")
        self._guesses.append(guess)
        success, tries = guess == hidden, TRIES - len(self._guesses)
        self._done = success or not tries
        signs = " ".join(_SIGNS[mark] for mark in marks(guess, hidden))
        if success:
            result = "Found."
        elif tries:
            result = f"{self._tries_text(self.steps + 1)} left."
        else:
            result = f"It was {hidden}."
        observation = f"{' '.join(guess)}\n{signs}\n{result}"
        return Outcome(observation, float(success), terminated=self._done, success=success)

    def _tries_text(self, steps: int) -> str:
        """The number of tries left after some steps; hard counts refused words, so it has no more tries than steps."""
        tries = TRIES - len(self._guesses)
        if self.difficulty == "hard":
            tries = min(tries, self.max_steps - steps)
        return f"{tries} {'try' if tries == 1 else 'tries'}"

    def _rule_violation(self, guess: str) -> str:
        if guess not in word_set():
            return f"{guess[:40]!r} is not in the list of words with {LETTERS} letters."
        hint = broken_hint(guess, self._hints) if self.difficulty == "hard" else ""
        return f"{guess} does not use what was found: {hint}." if hint else ""

    @property
    def _hints(self) -> Hints:
        hidden = self.puzzle[0]
        return tuple((guess, marks(guess, hidden)) for guess in self._guesses)

    def actions(self) -> list[str]:
        """List a guess of every word, also of those that cannot be right; in hard only of allowed words."""
        if self._done:
            return []
        guesses = _all_guesses()
        return [guesses[k] for k in allowed_words(self._hints)] if self.difficulty == "hard" else list(guesses)

    def tools(self) -> list[dict[str, Any]]:
        """Return `guess(word)`."""
        word = text_parameter("An English word of five letters.")
        return [function_tool("guess", "Guess the hidden word.", {"word": word})]

    def call_forms(self) -> Mapping[str, str]:
        """See `TextEnv.call_forms`."""
        return {"guess": "guess[{word}]"}

    # ---- forks and the experts --------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the guesses, and whether the episode is over."""
        return {"guesses": list(self._guesses), "done": self._done}

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Continue an episode."""
        guesses, done, hidden = state["guesses"], state["done"], self.puzzle_of(task)[0]
        if type(guesses) is not list or len(guesses) > TRIES or not word_set().issuperset(guesses):
            raise ValueError(f"guesses must be up to {TRIES} words of the list: {guesses!r:.200}")
        hints = tuple((guess, marks(guess, hidden)) for guess in guesses)
        if hidden in guesses[:-1] or done is not (len(guesses) == TRIES or hidden in guesses):
            raise ValueError(f"done={done!r} does not fit the guesses")
        if self.difficulty == "hard" and any(broken_hint(guess, hints[:n]) for n, guess in enumerate(guesses)):
            raise ValueError("a guess that was not allowed")
        self._guesses, self._done = list(guesses), done

    def is_terminal(self, state: Mapping[str, Any]) -> bool:
        """Return whether the word is found or the tries are used."""
        return state["done"] is True

    def secrets(self) -> list[str]:
        """Return the hidden word, plain (unless the texts contain it anyway) and as it is written above marks."""
        hidden, request = self.puzzle[0], self._require_reset().instruction.lower()
        if self._done:
            return []
        spaced = " ".join(hidden)
        return [spaced] if hidden in _WORDS_IN_TEXTS or hidden in request else [hidden, spaced]

    def expert(self) -> list[str]:
        """Return the guess of the hidden word, which is a shortest plan."""
        return [] if self._done else [f"guess[{self.puzzle[0]}]"]

    def fair_expert(self) -> str | None:
        """Return the most informative guess that fits the marks."""
        return None if self._done else f"guess[{' '.join(self._best_guess())}]"

    def _best_guess(self) -> str:
        return best_guess(self.puzzle[1], self._hints)

    def expert_thought(self, action: str) -> str:
        """Return what the marks say: the letters at their places, letters to place, and letters to avoid."""
        guess = "" if self._done else self._best_guess()
        if self._done or action not in (f"guess[{guess}]", f"guess[{' '.join(guess)}]"):
            return ""
        return f"{describe_letters(self.puzzle[1], self._hints)}: {' '.join(guess)}."


def _hard_rules(rules: Mapping[str, str], max_steps: int) -> Mapping[str, str]:
    """The rules with those of hard; a refused word costs a try only if there are no more steps than tries."""
    cost = f" {_HARD_COST}" if max_steps <= TRIES else ""
    head, form, tail = rules["full"].partition("\nAnswer in this form:")
    return {
        **rules,
        "full": f"{head}\n{_HARD_RULE['full']}{cost}{form}{tail}",
        "brief": f"{rules['brief']} {_HARD_RULE['brief']}{cost}",
    }


def _word_of(reply: Reply) -> str | None:
    """The word of `guess[word]`, `guess: word`, `guess word` or `guess(word)`, or the bare word; None if it is none."""
    name, word = reply.bracket_parts
    if word is None:
        prefix = _PREFIX.match(name)
        word = (name[prefix.end() :] if prefix else name).strip(WORD_EDGES)
        if _WORD.fullmatch(word):
            return _unspelt(word)
        return word.lower() if prefix and word.isalpha() else None
    if "[" in word or "]" in word or not (name == "guess" or _GUESS.fullmatch(name)):
        return None
    word = word.strip().strip(WORD_EDGES)
    return _unspelt(word) if _WORD.fullmatch(word) else word.lower()


def _unspelt(word: str) -> str:
    return word.replace(" ", "").lower()


@cache
def _all_guesses() -> tuple[str, ...]:
    return tuple(f"guess[{word}]" for word in words())


@cache
def _hidden_words(split: str) -> tuple[str, ...]:
    return tuple(word for word in words() if _SPLIT_OF[seed_of("wordle", word) % len(_SPLIT_OF)] == split)
