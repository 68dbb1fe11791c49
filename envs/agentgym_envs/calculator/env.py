"""AgentCalculator-v0: word problems and a calculator that computes with exact fractions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from itertools import permutations
from typing import Any, ClassVar

from agentgym_envs.calculator.expressions import ExpressionError, evaluate, format_number, round_number
from agentgym_envs.calculator.problems import Problem, draft
from agentgym_py.env import GeneratedEnv, Outcome, Reply, Task, function_tool, text_parameter
from agentgym_py.env.generated import Draft
from agentgym_py.env.types import TINY_WORLDS_DEFAULTS
from agentgym_py.rng import Rng

_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?(?:/\d+)?", re.ASCII)
_DIGITS = re.compile(r"\d+")
_IN_TEXT = re.compile(r"\d+(?:\.\d+)?")
_MAX_ANSWER_LENGTH = 60
_SHORT = {
    "euros": ("euro", "eur", "€"), "cents": ("cent",), "kilometres": ("km", "kilometer", "kilometers"),
    "kilograms": ("kg",), "grams": ("g",), "hours": ("h", "hour"), "litres": ("l", "litre", "liter", "liters"),
    "square metres": ("m2", "m²", "m^2", "sqm", "sq m", "square meter", "square meters"),
}  # fmt: skip
"""Other spellings of a unit in an answer."""


class CalculatorEnv(GeneratedEnv[Problem]):
    """AgentCalculator-v0: solve word problems with a calculator.

    Task: a story such as "Ana has 6 bags, and 12 rolls in each. Ana is 31 years old. Ana gives away 10 of the rolls.
    How many rolls are there now?", about things, money, distances, areas or food, with units that must be converted.

    | difficulty | calculations | irrelevant sentences | limit | expert's steps | random |
    |---|---|---|--:|--:|--:|
    | easy | 1 to 2 | 0 to 1 | 15 | 2.5 | 2 % |
    | medium | 3 to 5 | 1 to 2 | 20 | 4.8 | 0 % |
    | hard | 6 to 8 | 2 to 3 | 25 | 7.9 | 0 % |

    The last two columns, the expert's steps and random success in 300 test tasks, are those of
    docs/results/worlds.md.

    Actions: `calculate[expression]` any number of times, `finish[answer]` once; as tools `calculate(expression)`,
    `finish(answer)`. Expressions have numbers, + - * / ^ ! ( ) and abs, ceil, floor, factorial, max, min, round, sqrt.
    They are parsed and computed with exact fractions; too long, too deep or too large ones are refused.

    Observation: the problem; then the exact value of an expression, or why it has none.

    Reward: 1 for the right number at `finish`, else 0. The answer must be exact, unless the problem allows an error of
    0.01. It may be a decimal or a fraction, with or without its unit in British or American spelling, and a full stop.

    Exactness: all computations and the check of the answer use fractions of integers, never floats; an irrational root
    is refused. Expressions have at most 300 characters, numerators and denominators 512 bits.

    End: `finish` with a number terminates; after an answer that is not a number the episode continues. `max_steps`
    truncates.

    Splits: train, valid and test have different wordings of every sentence, names, things and food. Valid and
    test have one wording of each sentence, except for the irrelevant ones. Training problems have hundreds of wordings
    of every sentence and hundreds of names and things; two of five of those are made up.

    Expert: the remaining calculations of a solution in the order of the story, then `finish`; it uses only the problem.
    Its plan is not a shortest one: with the answer in mind it could finish at once, or use a single expression.

    Args:
        difficulty: `easy`, `medium` or `hard`.
        max_steps: Step limit; by default 15, 20 or 25.
        split: Where tasks come from if `reset` names no split.
        render_mode: `ansi` or None.

    Registered ids: AgentCalculator-v0.
    """

    name: ClassVar[str] = "calculator"
    max_return: ClassVar[float | None] = 1.0
    version: ClassVar[int] = 5
    evolve_defaults: ClassVar[Mapping[str, Any]] = TINY_WORLDS_DEFAULTS
    limits: ClassVar[Mapping[str, int]] = {"easy": 15, "medium": 20, "hard": 25}
    rules: ClassVar[Mapping[str, str]] = {
        "full": (
            "Solve the problem. Some of what it tells does not matter. Each turn you do one action:\n"
            "calculate[expression] gives an exact value: numbers, + - * / ^ ! ( ) and abs, ceil, floor, factorial, "
            "max, min, round, sqrt.\n"
            "finish[answer] gives the answer, a number in the unit asked for, and ends the episode. Do not round it, "
            "unless the problem allows an error.\n"
            "Answer in this form:\n"
            "Thought: why\n"
            "Action: calculate[expression] or finish[answer]"
        ),
        "brief": "Solve the problem with calculate[expression]; finish[answer] gives the number.",
        "none": "",
    }

    # ---- the episode ------------------------------------------------------------------------------------------------

    def draft(self, rng: Rng, split: str) -> Draft[Problem]:
        """Draw a word problem."""
        return draft(rng, split, self.difficulty)

    def begin(self, task: Task) -> str:
        """Return the problem."""
        self._load(self.puzzle_of(task), [], "", over=False)
        return task.instruction

    def _load(self, problem: Problem, done: list[int], result: str, *, over: bool) -> None:
        self._problem, self._done, self._result, self._over = problem, done, result, over
        self._ratios = [value.as_integer_ratio() for value in problem.values]
        self._numbers: list[str] = []
        self._calculations: list[str] = []
        """Numbers of the problem, and calculations with those alone; computed on first use."""

    def act(self, reply: Reply) -> Outcome:
        """Do `calculate` or `finish`."""
        name, argument = reply.parts
        if name not in ("calculate", "finish") or argument is None:
            return self.invalid("Not an action: write calculate[expression] or finish[answer].")
        return self._calculate(argument) if name == "calculate" else self._finish(argument)

    def _calculate(self, text: str) -> Outcome:
        try:
            value = evaluate(text)
        except ExpressionError as error:
            return self.invalid(str(error))
        ratio = value.as_integer_ratio()
        if ratio in self._ratios:  # two calculations may have the same value
            equal = [number for number, other in enumerate(self._ratios) if other == ratio]
            self._done += [number for number in equal if number not in self._done]
        self._result = format_number(value)
        return Outcome(_with_decimal(self._result))

    def _finish(self, text: str) -> Outcome:
        problem = self._problem
        answer = read_answer(text, problem.unit)
        if answer is None:
            return self.invalid(f"Not a number: write finish[12.5], the number of {problem.unit} alone.")
        self._over = True
        success = abs(answer - problem.answer) <= problem.tolerance
        text = f"The answer {format_number(answer)} is {'right' if success else 'wrong'}."
        return Outcome(text, float(success), terminated=True, success=success, parts={"answer": float(success)})

    # ---- actions and the expert -------------------------------------------------------------------------------------

    def actions(self) -> list[str]:
        """List calculations with neighbouring numbers or with the last result, and that result as the answer."""
        task = self._require_reset()
        if self._over:
            return []
        if not self._calculations:
            self._numbers = _IN_TEXT.findall(task.instruction)
            self._calculations = _calculations(self._numbers)
        result = self._result
        if not result or len(result) > _MAX_ANSWER_LENGTH:
            return list(self._calculations)
        next_calculations = [f"calculate[({result}) {sign} {number}]" for number in self._numbers for sign in "+-*/"]
        return [*self._calculations, *next_calculations, f"finish[{result}]"]

    def tools(self) -> list[dict[str, Any]]:
        """Return `calculate(expression)` and `finish(answer)`."""
        return [
            function_tool(
                "calculate",
                "Compute the exact value of an expression.",
                {"expression": text_parameter("Such as (12 + 3.5) * 4.")},
            ),
            function_tool(
                "finish",
                "Give the answer and end the episode.",
                {"answer": text_parameter("The number, in the unit asked for.")},
            ),
        ]

    def call_forms(self) -> Mapping[str, str]:
        """See `TextEnv.call_forms`."""
        return {"calculate": "calculate[{expression}]", "finish": "finish[{answer}]"}

    def expert(self) -> list[str]:
        """Return the remaining calculations, then `finish`."""
        self._require_reset()
        if self._over:
            return []
        problem = self._problem
        last = len(problem.values) - 1
        remaining = [] if last in self._done else [n for n in range(last + 1) if n not in self._done]
        return [*(f"calculate[{problem.calculations[n]}]" for n in remaining), f"finish[{_answer_text(problem)}]"]

    def expert_thought(self, action: str) -> str:
        """Return the quantity so far and what the next calculation does; at the end that nothing is left."""
        problem = self._problem
        for number, calculation in enumerate(problem.calculations):
            if number not in self._done and action == f"calculate[{calculation}]":
                return problem.reasons[number]
        if len(problem.values) - 1 in self._done and action == f"finish[{_answer_text(problem)}]":
            return f"Nothing is left: {_answer_text(problem)} {problem.unit}."
        return ""

    def secrets(self) -> list[str]:
        """Return the answer, exact and as the expert writes it, unless the last result shows all its digits."""
        self._require_reset()
        digits = set(_DIGITS.findall(_with_decimal(self._result)))
        answers = {format_number(self._problem.answer), _answer_text(self._problem)}
        return [] if self._over else sorted(text for text in answers if not digits.issuperset(_DIGITS.findall(text)))

    # ---- forks ------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return the calculations done, the last result, and whether there was an answer."""
        return {"made": list(self._done), "result": self._result, "over": self._over}

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Continue an episode."""
        problem: Problem = self.puzzle_of(task)
        done, result, over = state["made"], state["result"], state["over"]
        if not isinstance(done, list) or len(set(done)) != len(done) or type(over) is not bool:
            raise ValueError("not a list of calculations, or neither finished nor unfinished")
        if not all(type(number) is int and 0 <= number < len(problem.values) for number in done):
            raise ValueError(f"calculations that the problem does not have: {done!r:.200}")
        if type(result) is not str or len(result) > _MAX_RESULT_LENGTH or (result and not _RESULT.fullmatch(result)):
            raise ValueError(f"not a result: {result!r:.200}")
        if result and format_number(Fraction(result)) != result:
            raise ValueError(f"not a result as the calculator writes it: {result!r:.200}")
        self._load(problem, list(done), result, over=over)

    def is_terminal(self, state: Mapping[str, Any]) -> bool:
        """Return whether there was an answer."""
        return bool(state["over"])


_RESULT = re.compile(r"-?\d+(?:\.\d+|/[1-9]\d*)?", re.ASCII)
_MAX_RESULT_LENGTH = 400


def _with_decimal(result: str) -> str:
    """A result, and for a fraction also the nearest decimal."""
    return f"{result}, about {format_number(round_number(Fraction(result), 6))}" if "/" in result else result


def _answer_text(problem: Problem) -> str:
    """The answer as the expert writes it: exact, or to two decimals if that is allowed."""
    return format_number(round_number(problem.answer, 2) if problem.tolerance else problem.answer)


def read_answer(text: str, unit: str) -> Fraction | None:
    """Parse the number of an answer, with or without its unit; None if it is not a number or has another unit."""
    if len(text) > _MAX_ANSWER_LENGTH:
        return None
    plain = text.strip().removesuffix(".").casefold()
    for name in sorted((unit, unit.removesuffix("s"), *_SHORT.get(unit, ())), key=len, reverse=True):
        if plain.endswith(name):
            plain = plain.removesuffix(name).strip()
            break
    plain = plain.removeprefix("€").strip() if unit == "euros" else plain
    if not _NUMBER.fullmatch(plain) or not any(character.isdigit() for character in plain):
        return None
    try:
        return _fraction(plain.replace(",", ""))
    except (ValueError, ZeroDivisionError):
        return None


def _fraction(text: str) -> Fraction:
    """A decimal, or two of them around a slash."""
    above, _, below = text.partition("/")
    return Fraction(above) / Fraction(below or 1)


def _calculations(numbers: list[str]) -> list[str]:
    pairs = [pair for i in range(len(numbers)) for pair in permutations(numbers[i : i + 3], 2)]
    return [f"calculate[{a} {sign} {b}]" for a, b in dict.fromkeys(pairs) for sign in "+-*/"] or ["calculate[1 + 1]"]
