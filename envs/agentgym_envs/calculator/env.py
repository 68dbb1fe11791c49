"""AgentCalculator-v0: word problems and a calculator that computes with exact fractions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from itertools import permutations
from typing import Any, ClassVar

from agentgym_envs.calculator.expressions import ExpressionError, evaluate, rounded, shown
from agentgym_envs.calculator.problems import Problem, draft
from agentgym_py.env import GeneratedEnv, Outcome, Reply, Task, function_tool, text_parameter
from agentgym_py.env.generated import Draft
from agentgym_py.rng import Rng

_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?(?:/\d+)?", re.ASCII)
_DIGITS = re.compile(r"\d+")
_IN_TEXT = re.compile(r"\d+(?:\.\d+)?")
_LONGEST_ANSWER = 60
_SHORT = {
    "euros": ("euro", "eur", "€"), "cents": ("cent",), "kilometres": ("km",), "kilograms": ("kg",), "grams": ("g",),
    "hours": ("h", "hour"), "litres": ("l", "litre"), "square metres": ("m2", "m²"),
}  # fmt: skip
"""Other ways to write the unit of an answer."""


class CalculatorEnv(GeneratedEnv[Problem]):
    """AgentCalculator-v0: solve word problems with a calculator.

    Task: a tale such as "Ana has 6 bags, and 12 rolls in each. Ana is 31 years old. Ana gives away 10 of the rolls. How
    many rolls are there now?", of things, money, ways, areas or food, with units that must be converted.

    | difficulty | calculations | sentences that do not matter | limit | expert's steps | random |
    |---|---|---|--:|--:|--:|
    | easy | 1 to 2 | 0 to 1 | 15 | 2.5 | 2 % |
    | medium | 3 to 5 | 1 to 2 | 20 | 4.8 | 0 % |
    | hard | 6 to 8 | 2 to 3 | 25 | 7.9 | 0 % |

    Steps and success of random actions are those of docs/benchmarks.md, 300 test tasks each.

    Action: `calculate[expression]` as often as wanted, `finish[answer]` once; as tools `calculate(expression)`,
    `finish(answer)`. Expressions have numbers, + - * / ^ ! ( ) and abs, ceil, floor, factorial, max, min, round, sqrt.
    They are parsed and computed with exact fractions; what is too long, too deep or too large is refused at once.

    Observation: the problem; then the exact value of an expression, or why there is none.

    Reward: 1 for the right number at `finish`, else 0. The answer must be exact, unless the problem says that an error
    of 0.01 is allowed. It may be a decimal or a fraction and may have the unit that is asked for.

    What is exact: all that is computed, and how an answer is judged, are fractions of whole numbers, never floats; a
    root that is no fraction is refused. Expressions have at most 300 characters, numbers 512 bits a part.

    End: `finish` with a number terminates; an answer that is no number can be mended. `max_steps` truncates.

    Splits: every sentence has its own wordings in train, valid and test, and so have names, things and food.

    Expert: the calculations of a solution in the tale's order that have not been made yet, then `finish`; it sees no
    more than the problem. Not the shortest: who knows the answer can finish at once, and one expression can hold all.

    Args:
        difficulty: easy, medium or hard.
        max_steps: when an episode is cut; by default 15, 20 or 25.
        split: where tasks come from if `reset` names none.
        render_mode: `ansi` or None.

    Registered ids: AgentCalculator-v0.
    """

    name: ClassVar[str] = "calculator"
    max_return: ClassVar[float | None] = 1.0
    version: ClassVar[int] = 1
    limits: ClassVar[Mapping[str, int]] = {"easy": 15, "medium": 20, "hard": 25}
    rules: ClassVar[Mapping[str, str]] = {
        "full": (
            "Solve the problem. Some of what it tells does not matter. Each turn you do one action:\n"
            "calculate[expression] gives an exact value: numbers, + - * / ^ ! ( ) and abs, ceil, floor, factorial, "
            "max, min, round, sqrt.\n"
            "finish[answer] gives the answer, a number in the unit asked for, and ends the episode.\n"
            "Answer in this form:\n"
            "Thought: why\n"
            "Action: calculate[expression] or finish[answer]"
        ),
        "brief": "Solve the problem with calculate[expression]; finish[answer] gives the number.",
        "none": "",
    }

    # ---- the episode ------------------------------------------------------------------------------------------------

    def draft(self, rng: Rng, split: str) -> Draft[Problem]:
        """A word problem."""
        return draft(rng, split, self.difficulty)

    def begin(self, task: Task) -> str:
        """The problem."""
        self._take(self.puzzle_of(task), [], "", over=False)
        return task.instruction

    def _take(self, problem: Problem, reached: list[int], result: str, *, over: bool) -> None:
        self._problem, self._reached, self._result, self._over = problem, reached, result, over
        self._wanted = [value.as_integer_ratio() for value in problem.values]
        self._numbers: list[str] = []
        self._listed: list[str] = []
        """Numbers of the problem, and calculations with those alone; found when they are first asked for."""

    def act(self, reply: Reply) -> Outcome:
        """Calculate or finish."""
        name, argument = reply.parts
        if name not in ("calculate", "finish") or argument is None:
            return Outcome("Not an action: write calculate[expression] or finish[answer].", valid=False)
        return self._calculate(argument) if name == "calculate" else self._finish(argument)

    def _calculate(self, text: str) -> Outcome:
        try:
            value = evaluate(text)
        except ExpressionError as error:
            return Outcome(str(error), valid=False)
        found = value.as_integer_ratio()
        if found in self._wanted:  # two calculations may have the same value
            same = [number for number, wanted in enumerate(self._wanted) if wanted == found]
            self._reached += [number for number in same if number not in self._reached]
        self._result = shown(value)
        return Outcome(_told(self._result))

    def _finish(self, text: str) -> Outcome:
        problem = self._problem
        answer = read_answer(text, problem.unit)
        if answer is None:
            return Outcome(f"Not a number: write finish[12.5], the number of {problem.unit} alone.", valid=False)
        self._over = True
        right = abs(answer - problem.answer) <= problem.tolerance
        said = f"The answer {shown(answer)} is {'right' if right else 'wrong'}."
        return Outcome(said, float(right), terminated=True, success=right, parts={"answer": float(right)})

    # ---- actions and the expert -------------------------------------------------------------------------------------

    def actions(self) -> list[str]:
        """Calculations with numbers that stand near each other, or with the last result, and that as the answer."""
        task = self._require_reset()
        if self._over:
            return []
        if not self._listed:
            self._numbers = _IN_TEXT.findall(task.instruction)
            self._listed = _calculations(self._numbers)
        result = self._result
        if not result or len(result) > _LONGEST_ANSWER:
            return list(self._listed)
        going_on = [f"calculate[({result}) {sign} {number}]" for number in self._numbers for sign in "+-*/"]
        return [*self._listed, *going_on, f"finish[{result}]"]

    def tools(self) -> list[dict[str, Any]]:
        """`calculate(expression)` and `finish(answer)`."""
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

    def expert(self) -> list[str]:
        """The calculations that are still to be made, then `finish`."""
        self._require_reset()
        if self._over:
            return []
        problem = self._problem
        last = len(problem.values) - 1
        left = [] if last in self._reached else [n for n in range(last + 1) if n not in self._reached]
        return [*(f"calculate[{problem.calculations[n]}]" for n in left), f"finish[{_rounded(problem)}]"]

    def expert_thought(self, action: str) -> str:
        """The sentence of the problem that a calculation of the solution follows from."""
        for number, calculation in enumerate(self._problem.calculations):
            if number not in self._reached and action == f"calculate[{calculation}]":
                return self._problem.reasons[number]
        return ""

    def secrets(self) -> list[str]:
        """The answer, exact and as the expert would say it, unless the last calculation shows all its digits."""
        self._require_reset()
        told = set(_DIGITS.findall(_told(self._result)))
        answers = {shown(self._problem.answer), _rounded(self._problem)}
        return [] if self._over else sorted(each for each in answers if not told.issuperset(_DIGITS.findall(each)))

    # ---- forks ------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Which calculations have been made, the last result, and whether there was an answer."""
        return {"made": list(self._reached), "result": self._result, "over": self._over}

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Take up a state."""
        problem: Problem = self.puzzle_of(task)
        made, result, over = state["made"], state["result"], state["over"]
        if not isinstance(made, list) or len(set(made)) != len(made) or type(over) is not bool:
            raise ValueError("not a list of calculations, or neither finished nor unfinished")
        if not all(type(number) is int and 0 <= number < len(problem.values) for number in made):
            raise ValueError(f"calculations that the problem does not have: {made!r:.200}")
        if type(result) is not str or len(result) > _LONGEST_RESULT or (result and not _RESULT.fullmatch(result)):
            raise ValueError(f"not a result: {result!r:.200}")
        if result and shown(Fraction(result)) != result:
            raise ValueError(f"not a result as it is shown: {result!r:.200}")
        self._take(problem, list(made), result, over=over)

    def is_terminal(self, state: Mapping[str, Any]) -> bool:
        """Whether there was an answer."""
        return bool(state["over"])


_RESULT = re.compile(r"-?\d+(?:\.\d+|/[1-9]\d*)?", re.ASCII)
_LONGEST_RESULT = 400


def _told(result: str) -> str:
    """A result as the calculator says it: of a fraction also the decimal near it."""
    return f"{result}, about {shown(rounded(Fraction(result), 6))}" if "/" in result else result


def _rounded(problem: Problem) -> str:
    """The answer as one would say it: exact, or to two decimals where that is allowed."""
    return shown(rounded(problem.answer, 2) if problem.tolerance else problem.answer)


def read_answer(text: str, unit: str) -> Fraction | None:
    """The number of an answer, with or without its unit; None where there is none or another unit."""
    if len(text) > _LONGEST_ANSWER:
        return None
    plain = text.strip().casefold()
    for name in sorted((unit, unit.removesuffix("s"), *_SHORT.get(unit, ())), key=len, reverse=True):
        if plain.endswith(name):
            plain = plain.removesuffix(name).strip()
            break
    plain = plain.removeprefix("€").strip() if unit == "euros" else plain
    if not _NUMBER.fullmatch(plain) or not any(each.isdigit() for each in plain):
        return None
    try:
        return _fraction(plain.replace(",", ""))
    except (ValueError, ZeroDivisionError):
        return None


def _fraction(text: str) -> Fraction:
    """A decimal, or two of them with a bar between."""
    above, _, below = text.partition("/")
    return Fraction(above) / Fraction(below or 1)


def _calculations(numbers: list[str]) -> list[str]:
    near = [pair for at in range(len(numbers)) for pair in permutations(numbers[at : at + 3], 2)]
    return [f"calculate[{a} {sign} {b}]" for a, b in dict.fromkeys(near) for sign in "+-*/"] or ["calculate[1 + 1]"]
