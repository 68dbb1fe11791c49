"""AgentTwentyQuestions-v0: one asks, the other answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from agentgym_envs.things import Thing, draw_things, list_things, name_of
from agentgym_py.env import function_tool, text_parameter
from agentgym_py.env.actions import WORD_EDGES
from agentgym_py.env.generated import Draft
from agentgym_py.env.types import TINY_WORLDS_DEFAULTS
from agentgym_py.env.wording import expand
from agentgym_py.multiagent import Game, MultiAgentEnv
from agentgym_py.rng import Rng

QUESTIONS = 20
_LISTED = 4
"""Number of questions that a thought names."""
ASKER, ANSWERER = "asker", "answerer"
_IN_WORDS = re.compile(r"(ask|guess|answer)(?:\s*[:(]|\s)\s*(.+)")
_SHAPES: Mapping[str, tuple[tuple[int, int, int, int], int]] = {
    "easy": ((2, 3, 2, 3), 12),
    "medium": ((3, 3, 3, 4), 24),
    "hard": ((4, 4, 4, 6), 40),
}
"""Values of the attributes and number of things, by difficulty."""
REQUESTS = {
    "train": (
        "[Which|What] [thing|one|object|item] [of these |on this list |below |]do I [think of|have in mind|mean]?",
        "[I|We] [think of|have chosen|have picked|picked|mean|chose] one of these[ things| objects| items|]. "
        "[Find it.|Find out which.|Name it.|Ask and find it.|Which is it?|What is it?]",
        "[One|A single one|Just one] of these [is|was] [chosen|picked|meant|the right one|in my bag]. [Find out "
        "which.|Which one?|Ask about it.|Work it out.|Find it by asking.]",
        "[Ask|Put questions] [until you know|to find out] [which one|what] [I have|is in my hand|is in the box|I "
        "chose|I mean].",
        "[Let us|Let's] play a guessing game[ with these| with this list|]: [ask|put questions], [then|and] guess.",
        "[My|The|Our] [friend|sister|host|partner|teacher] [chose|picked|has chosen] one of these. [Which?|Find it by "
        "questions.|Find out which.]",
    ),
    "valid": (
        "Something of this list is hidden. Ask what it is.",
        "You see some things. Find the one that I want.",
        "A thing of this list was drawn by lot. Which one was it?",
    ),
    "test": (
        "One thing here is the secret one. Question by question, find it.",
        "Guess what I am thinking of: each question is one word.",
        "Here are some things, and only one of them wins. Can you find out which?",
    ),
}


class Secret(NamedTuple):
    """The request, the things on the list, and which one is meant."""

    request: str
    things: tuple[Thing, ...]
    secret: Thing


class TwentyQuestions(Game):
    """An episode: the answerer moves after every question."""

    def __init__(self, task: Secret) -> None:
        super().__init__(ASKER)
        self.task, self.left = task, QUESTIONS
        self.words = {word: None for place in range(4) for word in sorted({thing[place] for thing in task.things})}
        self.names = {name_of(thing): thing for thing in task.things}
        self.answers: dict[str, bool] = {}
        self.question = ""
        self.tell(ASKER, f"{task.request}\n{list_things(task.things)}\nYou have {QUESTIONS} questions.")
        self.tell(ANSWERER, f"Your thing: {name_of(task.secret)}.")

    def move(self, name: str, argument: str) -> str:
        """Ask, guess or answer; `ask red`, `ask: red` and `ask(red)` are `ask[red]`, and `answer: yes` is `yes`."""
        if not argument and (words := _IN_WORDS.fullmatch(name)):
            name, argument = words.groups()
        name, argument = name.strip(WORD_EDGES), argument.lower().strip(WORD_EDGES)
        if self.turn == ASKER:
            return self._ask(name, argument)
        return self._answer(argument, "") if name == "answer" else self._answer(name, argument)

    def _ask(self, name: str, argument: str) -> str:
        if name == "guess":
            if argument not in self.names:
                return (
                    "Not a guess: write the whole name of a thing of the list, such as guess[small red wooden spoon]."
                )
            self._guess(self.names[argument])
            return ""
        if name != "ask":
            return "Not an action: write ask[word] or guess[thing]."
        if argument not in self.words:
            return "Not a question: ask about one word of a thing of the list, such as ask[red]."
        if not self.left:
            return "No questions are left: guess."
        self.left, self.question, self.turn = self.left - 1, argument, ANSWERER
        self.tell(ANSWERER, f"Does {argument} fit?")
        return ""

    def _guess(self, thing: Thing) -> None:
        secret = name_of(self.task.secret)
        right = thing == self.task.secret
        for role in (ASKER, ANSWERER):
            self.tell(role, f"Right: {secret}." if right else f"Wrong: it is the {secret}.")
            self.pay(role, float(right))
        self.end(success=right)

    def _answer(self, name: str, argument: str) -> str:
        if name not in ("yes", "no") or argument:
            return "Not an answer: write yes or no."
        answer, self.turn = name == "yes", ASKER
        if answer is not self._truth:
            for role in (ASKER, ANSWERER):
                self.tell(role, f"The answer {name} is false: it is the {name_of(self.task.secret)}.")
            self.end(success=False)
            return ""
        self.answers[self.question] = answer
        more = f"{self.left} question{'s' * (self.left != 1)} left" if self.left else "no question left: guess"
        self.tell(ASKER, f"Does {self.question} fit? {name.capitalize()}. {more.capitalize()}.")
        return ""

    @property
    def _truth(self) -> bool:
        return self.question in self.task.secret

    @property
    def _candidates(self) -> list[Thing]:
        """The things that fit all answers."""
        return [
            thing for thing in self.task.things if all((word in thing) is yes for word, yes in self.answers.items())
        ]

    def actions(self, role: str) -> list[str]:
        """List every question and guess; both answers."""
        if role == ANSWERER:
            return ["yes", "no"]
        return [f"ask[{word}]" for word in self.words if self.left] + [f"guess[{name}]" for name in self.names]

    def expert_move(self, role: str) -> str:
        """Guess the thing; answer truthfully."""
        return f"guess[{name_of(self.task.secret)}]" if role == ASKER else self.fair_move(role)

    def fair_move(self, role: str) -> str:
        """Ask about the word that halves the things that fit, until one is left; answer truthfully."""
        if role == ANSWERER:
            return "yes" if self._truth else "no"
        things = self._candidates
        if len(things) == 1 or not self.left:
            return f"guess[{name_of(things[0])}]"
        return f"ask[{self._questions(things)[0]}]"

    def _questions(self, things: Sequence[Thing]) -> list[str]:
        """Return the words that some of the things have and others lack, the one that halves them first."""
        having = {word: sum(word in thing for thing in things) for word in self.words}
        words = [word for word in self.words if 0 < having[word] < len(things)]
        return sorted(words, key=lambda word: abs(2 * having[word] - len(things)))

    def thought(self, role: str, action: str) -> str:
        """Say what the answers were and what to ask next, at last what the thing is; the answerer says it at once."""
        if role == ANSWERER:
            return f"It is a {name_of(self.task.secret)}." if action == self.fair_move(role) else ""
        if action != self.fair_move(role):
            return ""
        known = ", ".join(word if yes else f"not {word}" for word, yes in self.answers.items())
        things = self._candidates
        found = f"It is the {name_of(things[0])}." if len(things) == 1 or not self.left else ""
        rest = found or f"To ask: {', '.join(self._questions(things)[:_LISTED])}."
        return f"{known[0].upper()}{known[1:]}. {rest}" if known else rest

    def secrets(self, role: str) -> list[str]:
        """Return what the answerer's card says."""
        return [f"Your thing: {name_of(self.task.secret)}"] if role == ASKER else []


class TwentyQuestionsEnv(MultiAgentEnv[Secret]):
    """AgentTwentyQuestions-v0: find a thing by yes-or-no questions.

    A game of two roles.

    Task: a list of things such as `small red wooden spoon`, one of which is meant. The `asker` sees the list, asks up
    to 20 questions and guesses once. The `answerer` sees the thing alone, and answers. An agent plays `role`, a partner
    the other one.

    | difficulty | things | words | limit |
    |---|--:|--:|--:|
    | easy | 12 | 10 | 24 |
    | medium | 24 | 13 | 24 |
    | hard | 40 | 18 | 24 |

    Actions: the asker writes `ask[red]` or `guess[small red wooden spoon]`, the answerer `yes` or `no`; also as tools.
    `ask: red`, `ask red` and `ask(red)` are read, too, and so are quotes and a full stop. A question is one word of a
    thing on the list. Anything else is refused and costs a step.

    Observation: the asker sees the list, then each answer and the number of questions left. The answerer sees its thing
    and the first question, then each further question.

    Reward: 1 for both roles if the guess is right, else 0; `success` likewise.

    End: a guess terminates, and so does a false answer. `max_steps` (24) truncates; it counts the role's own moves.

    Luck: a random guess hits one of 12, 24 or 40 things, and a random answerer may tell the truth three times, so
    `random_baseline` is above 5 % in easy and medium.

    Splits: each has its own words and its own wordings, three of them in valid and three in test. Three of ten kinds of
    things in training are made-up words.

    Experts: the exact asker knows the thing and guesses at once. The fair asker asks about the word that halves the
    things that fit the answers, and guesses when one is left. The answerer's experts tell the truth.

    Args:
        difficulty: `easy`, `medium` or `hard`.
        role: `asker` (the default) or `answerer`.
        partner: Agent of the other role: `fair`, `expert` or `random`.
        partner_model: Folder of a checkpoint that plays it instead, frozen and greedy.
        max_steps: Limit on the role's own moves.
        split: Where tasks come from if `reset` names no split.
        render_mode: `ansi` or None.

    Registered ids: AgentTwentyQuestions-v0.
    """

    name: ClassVar[str] = "twentyquestions"
    version: ClassVar[int] = 1
    roles: ClassVar[tuple[str, ...]] = (ASKER, ANSWERER)
    max_return: ClassVar[float | None] = 1.0
    evolve_defaults: ClassVar[Mapping[str, Any]] = {**TINY_WORLDS_DEFAULTS, "expert_tasks": 200}
    limits: ClassVar[Mapping[str, int]] = {"easy": 24, "medium": 24, "hard": 24}
    role_baselines: ClassVar[Mapping[str, Mapping[str, float]]] = {
        ASKER: {"easy": 0.15, "medium": 0.08},
        ANSWERER: {"easy": 0.2, "medium": 0.1},
    }
    role_rules: ClassVar[Mapping[str, Mapping[str, str]]] = {
        ASKER: {
            "full": (
                "One thing of a list is meant. Find it by questions of one word, which are answered by yes or no: "
                f"ask[red]. You have {QUESTIONS} questions and one guess: guess[small red wooden spoon].\n"
                "Answer in this form:\nThought: why\nAction: ask[word]"
            ),
            "brief": "Find the thing that is meant: ask[word], then guess[thing].",
            "none": "",
        },
        ANSWERER: {
            "full": (
                "You have a thing, which another one must find out by questions. Answer yes or no. A false answer ends "
                "the game.\nAnswer in this form:\nThought: why\nAction: yes"
            ),
            "brief": "Answer questions about your thing: yes or no.",
            "none": "",
        },
    }

    def draft(self, rng: Rng, split: str) -> Draft[Secret]:
        """Draw the list and the thing that is meant."""
        request = expand(rng, rng.choice(REQUESTS[split]))
        things = draw_things(rng, split, *_SHAPES[self.difficulty])
        secret = Secret(request, things, rng.choice(things))
        return Draft(f"{request} {', '.join(map(name_of, things))}", secret, "thing")

    def game(self, puzzle: Secret) -> Game:
        """Return the game of a list."""
        return TwentyQuestions(puzzle)

    def tools(self) -> list[dict[str, Any]]:
        """Return `ask(word)` and `guess(thing)`, or `yes()` and `no()`."""
        if self.role == ANSWERER:
            return [function_tool(word, f"Answer {word}.", {}) for word in ("yes", "no")]
        return [
            function_tool("ask", "Ask whether a word fits.", {"word": text_parameter("A word of a thing's name.")}),
            function_tool("guess", "Guess the thing.", {"thing": text_parameter("The whole name of a thing.")}),
        ]

    def call_forms(self) -> Mapping[str, str]:
        """See `TextEnv.call_forms`."""
        return {"ask": "ask[{word}]", "guess": "guess[{thing}]", "yes": "yes", "no": "no"}
