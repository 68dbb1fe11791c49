"""Problems are solved by their calculations, and by nothing less."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_envs.calculator.env import CalculatorEnv, read_answer
from agentgym_envs.calculator.expressions import evaluate, format_number, round_number
from agentgym_envs.calculator.problems import _POOLS, ASIDES, STEPS, THEMES, TOLERANCE, _draw_word
from agentgym_envs.calculator.words import FOODS, GOODS, IRRELEVANT, NAMES, TOLERANCE_NOTES, WORDINGS
from agentgym_py.env import SPLITS
from agentgym_py.env.wording import count_expansions, expand, grammar_regex, is_expansion
from agentgym_py.errors import SnapshotError
from agentgym_py.rng import Rng

LEVELS = ("easy", "medium", "hard")


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("difficulty", LEVELS)
def test_the_expert_solves_every_problem(difficulty: str, split: str) -> None:
    """In as many calculations as the difficulty says, each of which uses only numbers that were told or computed."""
    env = CalculatorEnv(difficulty=difficulty, split=split)
    for number in range(150):
        told, _ = env.reset(options={"task": number})
        known = set(re.findall(r"\d+(?:\.\d+)?", told)) | {"1", "2", "60", "100", "1000"}
        plan = env.expert()
        low, high = STEPS[difficulty]
        assert low <= len(plan) - 1 <= high and len(plan) <= env.max_steps
        for action in plan[:-1]:
            assert set(re.findall(r"\d+(?:\.\d+)?", action)) <= known, (env.current_task, action)
            known.add(env.step(action)[0])
        assert env.fair_expert() == plan[-1]
        assert env.step(plan[-1])[1:3] == (1.0, True) and env.succeeded and env.expert() == []
        assert len(told) < 1200


def fields_as_words(regex: str) -> str:
    """Let fields of a wording match any word or number."""
    return re.sub(r"\\\{\w+\\\}", r"[\\w.]+", regex)


ASIDE = re.compile("|".join(fields_as_words(grammar_regex(text)) for text in IRRELEVANT["train"]))


@pytest.mark.parametrize("difficulty", LEVELS)
def test_a_thought_says_what_is_calculated(difficulty: str) -> None:
    """Its numbers were told or computed, the quantity so far among them; the last one says that nothing is left."""
    env = CalculatorEnv(difficulty=difficulty)
    for number in range(60):
        told, _ = env.reset(options={"task": number, "split": SPLITS[number % 3]})
        known = set(re.findall(r"\d+(?:\.\d+)?", told)) | {"1", "2", "60", "100", "1000"}
        answer = env.expert()[-1]
        assert not env.expert_thought(answer)
        while (action := env.fair_expert()) != answer:
            thought = env.expert_thought(action or "")
            assert action and re.fullmatch(r"(So far [\d./]+; )?\w.*\.", thought)
            assert set(re.findall(r"\d+(?:\.\d+)?", thought)) <= known
            known.add(env.step(action)[0])
            assert not env.expert_thought(action)  # it is made
        assert env.expert_thought(answer) == f"Nothing is left: {answer[len('finish[') : -1]} {env.puzzle.unit}."


@pytest.mark.parametrize("difficulty", LEVELS)
def test_asides_and_tolerance_are_as_promised(difficulty: str) -> None:
    """Several sentences that do not matter; an error is allowed just where the answer is no short decimal."""
    env, rough = CalculatorEnv(difficulty=difficulty), 0
    for number in range(100):
        task = env.task(number)
        problem = env.puzzle_of(task)
        asides = len(ASIDE.findall(task.instruction))
        assert ASIDES[difficulty][0] <= asides <= ASIDES[difficulty][1], task
        note = re.search(grammar_regex(TOLERANCE_NOTES["train"]), task.instruction)
        assert problem.tolerance == (TOLERANCE if note else 0)
        assert bool(problem.tolerance) == (1000 % problem.answer.denominator != 0)
        rough += bool(problem.tolerance)
    assert rough


def test_the_card_says_what_differs() -> None:
    """The table of difficulties is that of the constants."""
    for level in LEVELS:
        calculations, asides = (" to ".join(map(str, table[level])) for table in (STEPS, ASIDES))
        row = f"| {level} | {calculations} | {asides} | {CalculatorEnv.limits[level]} |"
        assert row in (CalculatorEnv.__doc__ or "")


def test_all_themes_are_told() -> None:
    """And every sentence of theirs, in every split."""
    for split in SPLITS:
        told = " ".join(
            CalculatorEnv(difficulty=level).task(n, split).instruction for level in LEVELS for n in range(200)
        )
        for theme in THEMES.values():
            for sentence in (*theme.starts, *theme.middles, *theme.ends):
                wordings = [fields_as_words(grammar_regex(text)) for text in WORDINGS[sentence.key][split]]
                assert re.search("|".join(wordings), told), (split, sentence.key)


@pytest.mark.parametrize("difficulty", LEVELS)
def test_each_calculation_is_needed(difficulty: str) -> None:
    """A plan that finishes with an earlier result is wrong, but for the few where numbers fall together."""
    env, right = CalculatorEnv(difficulty=difficulty), 0
    for number in range(100):
        env.reset(options={"task": number})
        values = env.puzzle.values
        right += abs((values[-2] if len(values) > 1 else Fraction(0)) - values[-1]) <= env.puzzle.tolerance
    assert right <= 1


def test_one_expression_can_hold_all() -> None:
    """Who computes the answer at once needs no step more, and a step that was made is not asked for again."""
    env = CalculatorEnv(difficulty="hard")
    env.reset(seed=1)
    problem = env.puzzle
    env.step(f"calculate[{problem.calculations[0]}]")
    assert env.expert()[0] == f"calculate[{problem.calculations[1]}]"
    env.step(f"calculate[0 + {problem.answer.numerator} / {problem.answer.denominator}]")
    assert len(env.expert()) == 1


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("12", "rolls", "12"),
        (" 12.50 ", "euros", "12.5"),
        ("€12.5", "euros", "12.5"),
        ("12.5 euros", "euros", "12.5"),
        ("12 km", "kilometres", "12"),
        ("1,250", "grams", "1250"),
        ("1,250.5 g", "grams", "1250.5"),
        ("1/3", "hours", "1/3"),
        ("-3", "grams", "-3"),
        ("3 rolls", "rolls", "3"),
        (".5", "hours", "0.5"),
        ("12 m²", "square metres", "12"),
        ("12 m^2", "square metres", "12"),
        ("12 sqm", "square metres", "12"),
        ("12 square meters.", "square metres", "12"),
        ("3 liters", "litres", "3"),
        ("3 kilometers", "kilometres", "3"),
        ("12.", "rolls", "12"),
        ("12..", "rolls", None),
        ("12 km", "litres", None),
        ("1,25", "grams", None),
        ("twelve", "rolls", None),
        ("", "rolls", None),
        ("/", "g", None),
        ("1/0", "hours", None),
        ("1e3", "grams", None),
        ("3*4", "rolls", None),
        ("9" * 100, "rolls", None),
        ("٣", "rolls", None),
    ],
)
def test_what_an_answer_is(text: str, unit: str, value: str | None) -> None:
    """A number, with the unit asked for or without; no expression and no other unit."""
    assert read_answer(text, unit) == (None if value is None else Fraction(value))


UNITS = ("rolls", "euros", "grams", "kilograms", "hours", "litres", "square metres", "cents", "kilometres")


@given(st.text(max_size=80) | st.text(st.sampled_from("0123456789.,/-+ €eurosg²"), max_size=20), st.sampled_from(UNITS))
def test_any_answer_is_a_number_or_none(text: str, unit: str) -> None:
    """No text is an error, whatever the unit."""
    assert isinstance(read_answer(text, unit), Fraction | None)


@given(st.fractions(-100_000, 100_000, max_denominator=9999), st.sampled_from(UNITS), st.booleans())
def test_a_number_is_read_as_it_is_shown(value: Fraction, unit: str, named: bool) -> None:
    """As a decimal or a fraction, with its unit or without."""
    assert read_answer(format_number(value) + f" {unit}" * named, unit) == value


@pytest.mark.parametrize("difficulty", LEVELS)
def test_the_answer_is_secret_until_it_is_computed(difficulty: str) -> None:
    """It stands in nothing that is seen before it is computed, and is no secret then."""
    env = CalculatorEnv(difficulty=difficulty)
    for number in range(60):
        env.reset(options={"task": number})
        env.step("nonsense")
        assert format_number(env.puzzle.answer) in env.secrets()
        for action in env.expert()[:-1]:
            assert not any(re.search(rf"(?<!\w){re.escape(each)}(?!\w)", env._last) for each in env.secrets())
            env.step(action)
        assert format_number(env.puzzle.answer) not in env.secrets()
        env.step(env.expert()[0])
        assert env.secrets() == []


def test_an_answer_that_is_no_number_can_be_mended() -> None:
    """It ends nothing; a wrong number does, without success."""
    env = CalculatorEnv()
    env.reset(seed=1)
    observation, _, terminated, _, info = env.step("finish[many]")
    assert "the number of" in observation and not terminated and not info["valid_action"]
    before = env.snapshot()
    assert env.step("finish[-1]")[1:3] == (0.0, True) and not env.succeeded
    env.restore(before)
    assert env.step(json.dumps({"name": "finish", "arguments": {"answer": str(env.puzzle.answer)}}))[1] == 1.0


def test_a_rounded_answer_is_wrong_and_the_rules_say_so() -> None:
    """If the answer has three decimals and the problem allows no error, two decimals are too few."""
    env = CalculatorEnv(difficulty="hard")
    assert "Do not round it, unless the problem allows an error." in env.rules["full"]
    long = 0
    for number in range(100):
        env.reset(options={"task": number, "split": "test"})
        answer = env.puzzle.answer
        if not env.puzzle.tolerance and 100 % answer.denominator:
            env.step(f"finish[{format_number(round_number(answer, 2))}]")
            assert env.stop_reason == "terminated" and not env.succeeded
            long += 1
    assert long > 5


@pytest.mark.parametrize("wrong", [Fraction(1, 99), Fraction(1, 101), Fraction(0)])
def test_the_tolerance_is_what_is_said(wrong: Fraction) -> None:
    """A hundredth where it is allowed, nothing else."""
    env = CalculatorEnv(difficulty="hard")
    for number in range(30):
        env.reset(options={"task": number})
        answer = env.puzzle.answer + wrong
        env.step(f"finish[{answer.numerator}/{answer.denominator}]")
        assert env.succeeded == (wrong <= env.puzzle.tolerance)


@pytest.mark.parametrize("difficulty", LEVELS)
def test_who_does_not_think_fails(difficulty: str) -> None:
    """Chance, silence, one answer forever, the problem itself and its first number."""
    env = CalculatorEnv(difficulty=difficulty)
    won = dict.fromkeys(("finish[1]", "finish[100]", "", "chance", "echo", "first number"), 0)
    for number in range(100):
        for player in won:
            told, _ = env.reset(options={"task": number})
            rng = Rng(player, number)
            message = {"echo": told, "first number": f"finish[{re.findall(r'[0-9.]+[0-9]|[0-9]', told)[0]}]"}.get(
                player, player
            )
            while not env.stop_reason:
                env.step(rng.choice(env.actions()) if player == "chance" else message)
            won[player] += env.succeeded
    assert max(won.values()) <= 5, won


def test_each_split_has_its_own_words() -> None:
    """No wording, name or thing belongs to two; and all wordings of a sentence hold the same numbers, once."""
    notes = {split: (text,) for split, text in TOLERANCE_NOTES.items()}
    for table in (NAMES, GOODS, FOODS):
        texts = [text for split in SPLITS for text in table[split]]
        assert len(set(texts)) == len(texts)
    for table in (*WORDINGS.values(), IRRELEVANT, notes):
        held_out = [text for split in ("valid", "test") for text in table[split]]
        assert len(set(held_out)) == len(held_out)
        for text in held_out:
            assert not any(is_expansion(text, grammar) for grammar in table["train"])
    for key, table in WORDINGS.items():
        rng = Rng(key)
        expanded = [expand(rng, text) for text in table["train"] for _ in range(20)]
        held = {tuple(sorted(re.findall(r"\{(\w)\}", text))) for text in (*expanded, *table["valid"], *table["test"])}
        assert len(held) == 1, (key, held)


def test_training_problems_are_rich() -> None:
    """Each sentence has hundreds of wordings; names and things are hundreds, many of them made up."""
    counts = {key: sum(map(count_expansions, table["train"])) for key, table in WORDINGS.items()}
    assert min(counts.values()) >= 200, counts
    assert sum(map(count_expansions, IRRELEVANT["train"])) > 600
    drawn = {key: {_draw_word(Rng(key, number), key, "train") for number in range(600)} for key in _POOLS}
    for key, pool in _POOLS.items():
        assert len(drawn[key] - set(pool["train"])) > 150
        assert not drawn[key] & {*pool["valid"], *pool["test"]}


def test_no_problem_stands_in_two_splits() -> None:
    """And few stand twice in one."""
    for difficulty in LEVELS:
        told = [
            {CalculatorEnv(difficulty=difficulty).task(n, split).instruction for n in range(120)} for split in SPLITS
        ]
        assert not told[0] & told[1] and not told[0] & told[2] and not told[1] & told[2]
        assert all(len(each) > 110 for each in told)


def test_listed_actions_can_be_done() -> None:
    """After any walk; those that go on with the last result follow it."""
    env = CalculatorEnv(difficulty="medium", max_steps=1000)
    env.reset(seed=4)
    rng = Rng("walk")
    for _ in range(8):
        here = env.snapshot()
        for action in env.actions():
            observation, *_, info = env.step(action)
            assert info["valid_action"] or "zero" in observation, action
            env.restore(here)
        env.step(rng.choice([each for each in env.actions() if each.startswith("calculate")]))


def test_a_fraction_comes_with_a_decimal_near_it() -> None:
    """The exact value first."""
    env = CalculatorEnv()
    env.reset(seed=1)
    assert env.step("calculate[22/7]")[0] == "22/7, about 3.142857"
    assert evaluate("22/7") == Fraction(22, 7)


@pytest.mark.parametrize(
    "change",
    [{"made": [99]}, {"made": [0, 0]}, {"made": [True]}, {"result": "x"}, {"result": "1e9"}, {"result": "1.50"},
     {"result": "9" * 5000}, {"result": "2/4"}, {"over": 1}],
)  # fmt: skip
def test_a_state_that_cannot_be_is_refused(change: dict[str, Any]) -> None:
    """Before anything is taken up."""
    env = CalculatorEnv()
    env.reset(seed=3)
    env.step("calculate[1/3]")
    before = env.snapshot()
    good = json.loads(before)
    with pytest.raises(SnapshotError):
        env.restore(json.dumps(good | {"state": good["state"] | change}).encode())
    assert env.snapshot() == before


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("difficulty", LEVELS)
def test_no_aside_stands_before_a_reference(difficulty: str, split: str) -> None:
    """`Of this` and the like mean the quantity, not what an irrelevant sentence names."""
    asides = [fields_as_words(grammar_regex(text)) for text in IRRELEVANT[split]]
    after = re.compile(rf"(?:{'|'.join(asides)}) ([^.?]+[.?])", re.IGNORECASE)
    env = CalculatorEnv(difficulty=difficulty)
    followers = [text for n in range(200) for text in after.findall(env.task(n, split).instruction)]
    wrong = re.compile(r"(Of this|Of all these|To these|To this|The same|All this|After that|All of it)\b")
    assert followers and not [text for text in followers if wrong.match(text)]


def test_a_percentage_is_of_what_is_there_by_then() -> None:
    """No wording of valid and test may mean all that there ever was."""
    for key in ("stock percent", "money tax", "food percent"):
        for split in ("valid", "test"):
            assert not [text for text in WORDINGS[key][split] if "so far" in text or " all " in text]
