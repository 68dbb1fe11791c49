"""Customers are served by both experts, without a violation, and by nothing less."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import date, timedelta
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_envs.service.domain import Wish
from agentgym_envs.service.env import ServiceEnv
from agentgym_envs.service.policy import VIOLATIONS
from agentgym_envs.service.puzzle import Puzzle
from agentgym_envs.service.talk import DOMAINS, tools_of
from agentgym_envs.service.wording import WORDINGS
from agentgym_envs.service.words import words
from agentgym_py.env import SPLITS
from agentgym_py.env.actions import parse_tool_call
from agentgym_py.env.tools import format_call
from agentgym_py.env.wording import count_expansions, is_expansion
from agentgym_py.rng import Rng

LEVELS = ("easy", "medium", "hard")


def step(env: ServiceEnv, name: str, /, **arguments: Any) -> tuple[str, dict[str, Any]]:
    """Make a call that can be done; return the observation and the costs that are not 0."""
    observation, *_, info = env.step(format_call(name, arguments))
    assert info["valid_action"], observation
    return observation, {kind: count for kind, count in info["costs"].items() if count}


def find_task(difficulty: str, condition: Any, split: str = "test") -> ServiceEnv:
    """Return an environment at the start of the first task whose puzzle meets a condition."""
    env = ServiceEnv(difficulty=difficulty, split=split)
    for number in range(2_000):
        task = env.task(number)
        if condition(env.puzzle_of(task)):
            env.reset(options={"task": number})
            return env
    raise AssertionError("no such task")


def allowed_change(puzzle: Puzzle) -> bool:
    wish = puzzle.wishes[0]
    return bool(wish.call) and not wish.codes and not wish.first


# ---- experts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("difficulty", LEVELS)
def test_both_experts_serve_every_customer(difficulty: str, split: str) -> None:
    """Without a violation, the exact one in the promised steps, the fair one in a text that a small model can hold."""
    env = ServiceEnv(difficulty=difficulty, split=split)
    for number in range(40):
        env.reset(options={"task": number})
        plan = env.expert()
        assert env.current_task and env.current_task.optimal_steps == len(plan)
        turns = [env.step(action) for action in plan]
        assert turns[-1][1] == 1 and turns[-1][2] and env.succeeded, env.current_task
        size = len(env.reset(options={"task": number})[0])
        while not env.stop_reason:
            action = env.fair_expert()
            assert action is not None and len(env.expert_thought(action)) < 120
            turns.append(env.step(action))
            size += len(action) + len(turns[-1][0])
        assert env.succeeded and size < 7_000, env.current_task
        assert all(turn[4]["valid_action"] and not any(turn[4]["costs"].values()) for turn in turns)
        assert env.expert() == [] and env.fair_expert() is None


@pytest.mark.parametrize("difficulty", LEVELS)
def test_the_fair_expert_says_only_what_was_shown(difficulty: str) -> None:
    """Every id, name, day and address in its calls stands in an observation; amounts are computed."""
    env = ServiceEnv(difficulty=difficulty, split="test")
    for number in range(60):
        shown, _ = env.reset(options={"task": number})
        while not env.stop_reason:
            action = env.fair_expert() or ""
            arguments = parse_tool_call(action).arguments or {}
            for name, value in {**arguments, **arguments.get("details", {})}.items():
                if isinstance(value, str) and name not in ("about", "step", "change", "rule"):
                    assert value in shown, (env.current_task, action)
            shown += "\n" + env.step(action)[0]


@pytest.mark.parametrize("difficulty", LEVELS)
def test_the_expert_mends_whatever_was_done(difficulty: str) -> None:
    """After random calls that do not end the conversation, its plan still succeeds and violates nothing."""
    env, rng = ServiceEnv(difficulty=difficulty, split="test", max_steps=500), Rng("mend")
    changed = 0
    for number in range(40):
        env.reset(options={"task": number})
        env.step(format_call(*env.puzzle.find))
        for _ in range(15):
            ends = "refuse|transfer|close" + "|instruct" * env.state()["needless"]
            listed = [action for action in env.actions() if not re.match(ends, action)]
            env.step(rng.choice(listed))
        changed += len(env.state()["changes"])
        turns = [env.step(action) for action in env.expert()]
        assert env.succeeded and not any(any(turn[4]["costs"].values()) for turn in turns)
    assert changed > 40


def test_no_shorter_way_violates_nothing() -> None:
    """A search over all listed actions and those of the plan, in tasks with plans of at most four steps."""
    env, fork = ServiceEnv(difficulty="easy", split="test"), ServiceEnv(difficulty="easy", split="test")
    searched = Counter[int]()
    for number in range(40):
        env.reset(options={"task": number})
        plan = env.expert()
        if len(plan) > 4 or searched[len(plan)] >= 3:
            continue
        searched[len(plan)] += 1
        states = {json.dumps(env.state()): env.snapshot()}
        for depth in range(1, len(plan)):
            following: dict[str, bytes] = {}
            for snapshot in states.values():
                fork.restore(snapshot)
                ends = ("refuse", "transfer", "close", "tell", plan[-1])
                for action in dict.fromkeys([*fork.actions(), *plan]):
                    if depth == len(plan) - 1 and not action.startswith(ends):
                        continue  # only these can end a conversation or settle the last wish
                    fork.restore(snapshot)
                    info = fork.step(action)[4]
                    assert not fork.succeeded or any(info["costs"].values()), (env.current_task, action)
                    if not fork.stop_reason and not any(info["costs"].values()):
                        following[json.dumps(fork.state())] = fork.snapshot()
            states = following
    assert searched[2] and searched[3] and searched[4]


# ---- the customer ---------------------------------------------------------------------------------------------------


def test_facts_are_told_only_when_asked() -> None:
    """The customer says what they were asked for, and nothing of what does not belong to the wish."""
    env = find_task("medium", lambda puzzle: allowed_change(puzzle) and not puzzle.wishes[0].given)
    wish, task = env.puzzle.wishes[0], env.current_task
    assert task and wish.facts
    for topic, (_, value) in wish.facts.items():
        assert value not in task.instruction
        assert value in step(env, "ask", about=topic)[0]
        assert step(env, "ask", about=topic) == step(env, "ask", about=topic)
    foreign = next(topic for topic in env.puzzle.domain.topics if topic not in (*wish.facts, "identity"))
    answer = step(env, "ask", about=foreign)[0].removeprefix("Customer: ")
    assert answer in WORDINGS["unknown"]["test"]


def test_facts_of_any_wish_that_was_said_are_told() -> None:
    """Also of one that is not spoken of now; of one that was not said yet the customer says nothing."""
    for together in (2, 1):

        def fits(puzzle: Puzzle, together: int = together) -> bool:
            topics = [set(wish.facts) for wish in puzzle.wishes]
            is_later = puzzle.together == together and not puzzle.wishes[1].is_fallback
            return is_later and bool(topics[0]) and bool(topics[1] - topics[0])

        env = find_task("hard", fits)
        first, second = env.puzzle.wishes
        topic = next(name for name in second.facts if name not in first.facts)
        here = env.snapshot()
        heard, _ = step(env, "ask", about=topic)
        assert (heard == f"Customer: {env.puzzle.state_fact(env.conversation.facts(1)[topic])}") is (together == 2)
        assert topic not in env.conversation.asked
        env.restore(here)
        while not env.stop_reason:
            env.step(env.fair_expert() or "")
        assert env.succeeded


def test_a_customer_changes_their_mind_once() -> None:
    """When the first change is proposed; then they want the other one, and the first no more."""
    env = find_task("medium", lambda puzzle: puzzle.wishes[0].first is not None)
    wish = env.puzzle.wishes[0]
    assert wish.first and wish.call and wish.first_facts
    old, new = wish.first_facts[wish.new_topic][1], wish.facts[wish.new_topic][1]
    assert old in step(env, "ask", about=wish.new_topic)[0]
    proposal = {"change": wish.first[0], "details": wish.first[1]}
    assert new in step(env, "propose", **proposal)[0]
    assert step(env, "propose", **proposal)[0].removeprefix("Customer: ") in WORDINGS["no"]["test"]
    assert new in step(env, "ask", about=wish.new_topic)[0]
    final = {"change": wish.call[0], "details": wish.call[1]}
    assert step(env, "propose", **final)[0].removeprefix("Customer: ") in WORDINGS["yes"]["test"]


def test_whoever_does_what_was_asked_at_first_fails() -> None:
    """Without a proposal the customer has no occasion to change their mind, and the database is wrong."""
    env = find_task("medium", lambda puzzle: puzzle.wishes[0].first is not None)
    first = env.puzzle.wishes[0].first
    assert first
    step(env, env.puzzle.find[0], **env.puzzle.find[1])
    assert step(env, first[0], **first[1])[1] == {"unconfirmed": 1.0}
    step(env, "close")
    assert env.stop_reason and not env.succeeded


def test_a_second_wish_comes_at_the_end() -> None:
    """Unless it was said with the first; after the last wish the conversation ends."""
    env = find_task("hard", lambda puzzle: puzzle.together == 1 and not puzzle.wishes[1].is_fallback)
    assert env.state()["raised"] == 1
    observation, _ = step(env, "close")
    assert env.state()["raised"] == 2 and not env.stop_reason
    kind = f"{env.puzzle.domain.name} {env.puzzle.wishes[1].kind}"
    assert any(text in observation for text in WORDINGS[kind]["test"])
    step(env, "close")
    assert env.stop_reason == "terminated" and not env.succeeded


def test_after_a_refusal_the_customer_may_want_something_else() -> None:
    """The second wish comes with the refusal of the first, and not at the end."""
    env = find_task("hard", lambda puzzle: puzzle.wishes[1:] and puzzle.wishes[1].is_fallback)
    here = env.snapshot()
    step(env, "close")
    assert env.stop_reason and not env.succeeded
    env.restore(here)
    step(env, "refuse", rule=env.puzzle.wishes[0].codes[0])
    assert env.state()["raised"] == 2
    for action in env.expert():
        env.step(action)
    assert env.succeeded


def test_refunds_and_vouchers_are_not_judged_by_the_customer() -> None:
    """They say yes to any amount; the policy forbids a wrong one, and the database is wrong."""
    env = find_task("easy", lambda puzzle: allowed_change(puzzle) and puzzle.wishes[0].call[0] == "return_order")
    order = env.puzzle.wishes[0].call[1]["order"]  # type: ignore[index]  # there is a change
    step(env, env.puzzle.find[0], **env.puzzle.find[1])
    wrong = {"order": order, "refund": 1}
    step(env, "propose", change="return_order", details=wrong)
    assert step(env, "return_order", **wrong)[1] == {"forbidden": 1.0}
    step(env, "close")
    assert not env.succeeded


def test_only_the_customer_can_touch_their_phone() -> None:
    """They report every fault, repair those that they are asked to repair, and the wish is settled by the last."""
    env = find_task("easy", lambda puzzle: len(puzzle.wishes[0].faults) == 2 and not puzzle.wishes[0].symptom)
    first, second = env.puzzle.wishes[0].faults
    seen = {fault: env.puzzle.phrase(f"fault {fault}") for fault in (first, second)}
    assert all(words_ in WORDINGS[f"fault {fault}"]["test"] for fault, words_ in seen.items())
    report, _ = step(env, "instruct", step="check_phone")
    assert seen[first].casefold() in report.casefold() and seen[second] in report
    repairs = {fault: name for name, fault in (env.puzzle.domain.steps or {}).items()}
    step(env, "instruct", step="restart_phone")
    step(env, "instruct", step=repairs[first])
    report, _ = step(env, "instruct", step="check_phone")
    assert seen[first].casefold() not in report.casefold() and seen[second].casefold() in report.casefold()
    step(env, "instruct", step=repairs[second])
    step(env, "close")
    assert env.succeeded


def test_the_customer_takes_one_needless_step() -> None:
    """They leave after a second one, also in a fork and if their phone is well; checks do not count."""
    repair = find_task("easy", lambda puzzle: len(puzzle.wishes[0].faults) == 1 and not puzzle.wishes[0].symptom)
    other = find_task("easy", lambda puzzle: puzzle.domain.name == "phone" and not puzzle.wishes[0].is_repair)
    for env in (repair, other):
        for name in ("check_phone", "restart_phone", "check_phone"):
            step(env, "instruct", step=name)
        here = env.snapshot()
        env.restore(here)
        plan = env.expert()
        for done in (plan[:0], plan[:-1]):  # also if all is settled
            env.restore(here)
            for action in done:
                env.step(action)
            heard, costs = step(env, "instruct", step="restart_phone")
            assert heard.removeprefix("Customer: ") in WORDINGS["impatient"]["test"] and not costs
            assert env.conversation.ending == "left" and not env.succeeded
        env.restore(here)
        for action in plan:
            env.step(action)
        assert env.succeeded


@pytest.mark.parametrize("symptom", DOMAINS["phone"].symptoms or {})
def test_a_phone_may_need_a_change_of_its_line(symptom: str) -> None:
    """The check shows what the line causes until the line is changed; steps on the phone alone do not help."""

    def fits(puzzle: Puzzle) -> bool:
        wish = puzzle.wishes[0]
        return wish.symptom == symptom and not wish.codes and bool(wish.faults)

    env = find_task("easy", fits, "train")
    wish, puzzle = env.puzzle.wishes[0], env.puzzle
    assert wish.call
    assert puzzle.phrase(f"fault {symptom}") in step(env, "instruct", step="check_phone")[0]
    repairs = {fault: name for name, fault in (puzzle.domain.steps or {}).items()}
    assert step(env, "instruct", step=repairs[wish.faults[0]])[0] == f"Customer: {puzzle.speak('done')}"
    assert env.conversation.current() == 0
    step(env, puzzle.find[0], **puzzle.find[1])
    step(env, "propose", change=wish.call[0], details=wish.call[1])
    step(env, wish.call[0], **wish.call[1])
    assert step(env, "instruct", step="check_phone")[0] == f"Customer: {puzzle.speak('no faults')}"
    step(env, "close")
    assert env.succeeded


def test_a_phone_may_not_be_repaired() -> None:
    """If the policy forbids the change that its line needs; only the line shows it."""
    env = find_task("easy", lambda puzzle: bool(puzzle.wishes[0].symptom and puzzle.wishes[0].codes))
    while not env.stop_reason:
        env.step(env.fair_expert() or "")
    assert env.succeeded and not env.state()["changes"]


def scripts(company: str, kind: str) -> Iterator[list[str]]:
    """Yield episodes that read nothing: all repairs by up to four steps, all refusals or all small answers."""
    calls: list[list[Any]] = []
    if kind == "repair":
        steps = [name for name, fault in (DOMAINS["phone"].steps or {}).items() if fault]
        sets = (chosen for count in (1, 2, 3, 4) for chosen in combinations(steps, count))
        calls = [[("instruct", {"step": name}) for name in chosen] for chosen in sets]
    elif kind == "refuse":
        calls = [[("refuse", {"rule": rule})] for rule in DOMAINS[company].refusals]
    elif kind == "answer":
        calls = [[("tell", {"text": str(number)})] for number in range(9)]
    for each in calls:
        yield [format_call(*call) for call in (*each, ("close", {}))]


@pytest.mark.parametrize("difficulty", ["easy", "medium"])
def test_no_script_wins_without_reading(difficulty: str) -> None:
    """A fixed sequence of acts wins less than 30 % of each kind; changes need ids, and a transfer is one act itself."""
    env = ServiceEnv(difficulty=difficulty, split="test")
    tasks, wins = Counter[str](), Counter[tuple[str, str]]()
    for number in range(2_000):
        kind = env.task(number).kind
        company, what = kind.split(": ")
        if what not in ("repair", "refuse", "answer") or tasks[kind] == 80:
            continue
        tasks[kind] += 1
        for script in scripts(company, what):
            env.reset(options={"task": number})
            for action in script:
                if not env.stop_reason:
                    env.step(action)
            wins[kind, str(script)] += env.succeeded
    assert len(tasks) == 7 and min(tasks.values()) > 50
    for (kind, acts), count in wins.items():
        assert count < 0.3 * tasks[kind], (kind, acts, count, tasks[kind])


def shown(env: ServiceEnv, wish: Wish) -> str:
    """Return the answer to a question that the database shows now."""
    desk, fields = env.conversation.desk, {"ask_total": "total", "ask_address": "address", "ask_paid": "paid",
                                           "ask_data": "data", "ask_bill": "amount"}  # fmt: skip
    tool, arguments = wish.reads[-1]
    name, table = env.puzzle.domain.tools[tool].about
    row = desk.get(table, arguments[name])
    return str(desk.get("flights", row["flight"])["day"] if wish.kind == "ask_day" else row[fields[wish.kind]])


@pytest.mark.parametrize("split", SPLITS)
def test_one_wish_makes_no_other_one_false(split: str) -> None:
    """In hard tasks each answer is what the database shows then, and each description names one row of the caller."""
    env = ServiceEnv(difficulty="hard", split=split)
    told, described = 0, 0
    for number in range(400):
        env.reset(options={"task": number})
        puzzle, desk = env.puzzle, env.conversation.desk
        while not env.stop_reason:
            action = env.fair_expert() or ""
            present = env.conversation.current()
            if action.startswith("tell") and present is not None:
                assert shown(env, puzzle.wishes[present]) in action, env.current_task
                told += 1
            open_ = [wish for at, wish in enumerate(puzzle.wishes) if not env.conversation.is_settled(at)]
            for wish in (wish for wish in open_ if wish.call or wish.answer):
                tool, arguments = wish.call or wish.reads[-1]
                row = arguments[puzzle.domain.tools[tool].about[0]]
                for name, words_ in wish.facts.values():
                    if name.endswith("_with"):
                        names = puzzle.domain.described(desk, puzzle.caller)
                        assert [rid for rid, own in names.items() if words_ in own] == [row], env.current_task
                        described += 1
            env.step(action)
        for wish in puzzle.wishes:
            assert not wish.answer or shown(env, wish) == wish.answer, env.current_task
    assert told > 80 and described > 200


def question(difficulty: str, kind: str, fact: str = "") -> ServiceEnv:
    """Return an environment at the first task that asks this, with the customer found; `fact` names the row."""

    def fits(puzzle: Puzzle) -> bool:
        wish = puzzle.wishes[0]
        return wish.kind == kind and (not fact or fact in {name for name, _ in wish.facts.values()})

    env = find_task(difficulty, fits)
    step(env, env.puzzle.find[0], **env.puzzle.find[1])
    return env


def tell(env: ServiceEnv, text: str) -> str:
    """Tell a text, which violates nothing; return the customer's words."""
    observation, costs = step(env, "tell", text=text)
    assert not costs
    return observation.removeprefix("Customer: ")


def asks_back(words: str) -> bool:
    return words in WORDINGS["which"]["test"]


@pytest.mark.parametrize(
    ("said", "settled"),
    [
        ("It is {}.", True), ("{}", True), ("much", False), ("{}.00", True), ("${}.0, I see", True), ("{}GB", True),
        ("{0}, so {0}", True), ("{} or 4711", False), ("4711.50", False), ("-{}", False), ("{}1", False),
    ],
)  # fmt: skip
def test_an_answer_counts_without_others(said: str, settled: bool) -> None:
    """However the amount is written; telling everything that was looked up is no answer."""
    env = question("easy", "ask_bill")
    tell(env, said.format(env.puzzle.wishes[0].answer))
    step(env, "close")
    assert env.succeeded is settled


@pytest.mark.parametrize(
    "form",
    [
        "{0:%Y-%m-%d}",
        "{0:%B} {0.day}, {0.year}",
        "{0.day} {0:%B} {0.year}",
        "the {0.day}th of {0:%b}",
        "{0:%d.%m.%Y}",
        "{0:%B} {0.day}",
    ],
)
def test_a_day_is_told_in_any_form(form: str) -> None:
    """Telling it twice is no second answer, and of several days none is one."""
    env = question("easy", "ask_day")
    right = date.fromisoformat(env.puzzle.wishes[0].answer)
    start = env.snapshot()
    for day, settled in ((right, True), (right + timedelta(1), False)):
        env.restore(start)
        words = [tell(env, f"Your flight of 270 leaves on {form.format(day)}.") for _ in range(2)]
        assert set(words) <= set(WORDINGS["told"]["test"])
        step(env, "close")
        assert env.succeeded is settled
    env.restore(start)
    assert asks_back(tell(env, f"{form.format(right)} or {form.format(right + timedelta(1))}"))
    assert env.conversation.told == []


def test_what_names_the_customer_or_the_row_is_no_answer() -> None:
    """The PIN, the line's number and the id may be repeated, alone or beside the answer."""
    env = question("medium", "ask_data", "line_with")
    puzzle, wish = env.puzzle, env.puzzle.wishes[0]
    row = puzzle.tables["customers"][puzzle.caller]
    for text in (f"PIN {row['pin']} is right", f"Customer {row['number']}.", f"I look at {wish.facts['line'][1]}"):
        tell(env, text)
    assert not env.conversation.misinformed and not env.stop_reason
    tell(env, f"Your line {wish.facts['line'][1]} has {wish.answer} GB left, {row['pin']}.")
    step(env, "close")
    assert env.succeeded


def test_no_list_of_values_is_an_answer() -> None:
    """All values of the tables, or those that the customer has said and one more, settle no question."""
    asked = 0
    for difficulty in ("easy", "medium", "hard"):
        env = ServiceEnv(difficulty=difficulty, split="test")
        for number in range(150):
            env.reset(options={"task": number})
            puzzle, wish = env.puzzle, env.puzzle.wishes[0]
            if not wish.answer:
                continue
            asked += 1
            rows = [row for table in puzzle.tables.values() for row in table.values()]
            shown = list(dict.fromkeys(str(value) for row in rows for value in row.values() if value != ""))
            kind = {"ask_day": r"\d+-\d+-\d+", "ask_address": r"\d+ [A-Z]\D+"}.get(wish.kind, r"\d{1,3}")
            listed = [value for value in shown if re.fullmatch(kind, value)]
            assert wish.answer in listed
            said = [value for each in puzzle.wishes for _, value in each.all_facts]
            wrong = next(value for value in listed if value not in (wish.answer, *said, *puzzle.names))
            for texts in ((wrong, wish.answer), (wish.answer, wrong, *listed), (*said, wrong), (*listed[:20], wrong)):
                tell(env, " or ".join(texts)[:200])
            assert 0 not in env.conversation.told and env.conversation.ending != "closed"
    assert asked > 50


def test_an_address_has_a_number_and_a_street() -> None:
    """Another number, or the same one in another street, is another address."""
    env = question("easy", "ask_address")
    right = env.puzzle.wishes[0].answer
    number, _, street = right.partition(" ")
    other = next(name for name in words("test")["street"] if name != street)
    start = env.snapshot()
    assert asks_back(tell(env, f"{right} or {number} {other}"))
    tell(env, f"{number} {other}")
    tell(env, f"It is {number} {other}, madam.")
    assert not env.stop_reason and env.conversation.misinformed == [0]
    tell(env, right)
    step(env, "close")
    assert not env.succeeded
    env.restore(start)
    tell(env, f"order o111 goes to {right.upper()}.")
    step(env, "close")
    assert env.succeeded


def test_an_answer_cannot_be_guessed() -> None:
    """The first one is final. Other talk is no answer, and the customer does not know whether one is right."""
    for difficulty in ("easy", "hard"):
        env = find_task(difficulty, lambda puzzle: puzzle.wishes[0].answer.isdigit())
        right = env.puzzle.wishes[0].answer
        wrong = [str(number) for number in range(3) if str(number) != right]
        step(env, env.puzzle.find[0], **env.puzzle.find[1])
        start = env.snapshot()
        for texts, settled in (
            ((wrong[0], "one moment", right), False), ((wrong[0], wrong[1], right), False),
            ((f"{right} or {wrong[0]}", wrong[0], right), False), ((wrong[0], wrong[0], right), False),
            ((f"{right} or {wrong[0]}", "one moment", right), True), (("please wait", "I look", right, wrong[0]), True),
        ):  # fmt: skip
            env.restore(start)
            for text in texts:
                tell(env, text)
                env.restore(env.snapshot())
            assert not env.stop_reason and env.conversation.current() != 0
            assert (0 in env.conversation.told) is settled and (0 in env.conversation.misinformed) is not settled, texts
            words_, _ = step(env, "close")
            if len(env.puzzle.wishes) == 1:
                assert words_.removeprefix("Customer: ") in WORDINGS["bye"]["test"] and env.succeeded is settled


@pytest.mark.parametrize(
    ("kind", "text"),
    [("ask_day", "06/07/28"), ("ask_day", "30 dollars"), ("ask_data", "one moment"), ("ask_total", "order o111"),
     ("ask_address", "I look")],
)  # fmt: skip
def test_what_is_not_understood_is_asked_for_again(kind: str, text: str) -> None:
    """In words of the split's own; then the answer still counts."""
    env = question("easy", kind)
    assert tell(env, text) in WORDINGS["again"]["test"]
    assert tell(env, env.puzzle.wishes[0].answer) in WORDINGS["told"]["test"]
    step(env, "close")
    assert env.succeeded


def test_number_words_and_none_are_answers() -> None:
    """An amount of 7 may be seven, one of 0 no data at all."""
    for amount, texts in (("7", ("seven gigabytes are left", "Seven.")), ("0", ("Unfortunately you have no data left.",
                          "none", "zero GB"))):  # fmt: skip
        env = find_task("easy", lambda puzzle, amount=amount: puzzle.wishes[0].kind == "ask_data"
                        and puzzle.wishes[0].answer == amount)  # fmt: skip
        step(env, env.puzzle.find[0], **env.puzzle.find[1])
        start = env.snapshot()
        for text in texts:
            env.restore(start)
            tell(env, text)
            step(env, "close")
            assert env.succeeded, text


def test_a_question_that_waits_cannot_be_guessed() -> None:
    """While the customer speaks of a change, only the first value counts as an answer to a question after it."""

    def waits(puzzle: Puzzle) -> bool:
        change, question, *_ = [*puzzle.wishes, puzzle.wishes[0]]
        is_free = bool(change.call) and not question.is_fallback
        return is_free and question.answer.isdecimal() and 2 <= int(question.answer) < 60

    env = find_task("hard", waits)
    if env.conversation.raised == 1:
        step(env, "close")
    assert env.conversation.raised == 2 and env.conversation.current() == 0
    for value in range(60):
        if not env.stop_reason:
            step(env, "tell", text=f"It is {value}.")
    assert env.conversation.told == [] and env.conversation.misinformed == [1]


def test_an_answer_is_told_again_beside_another_question() -> None:
    """It is no answer to that one, and neither are numbers of what else the customer wants."""
    env = find_task("hard", lambda puzzle: all(wish.answer for wish in puzzle.wishes) and puzzle.together == 2)
    step(env, env.puzzle.find[0], **env.puzzle.find[1])
    first, second = (wish.answer for wish in env.puzzle.wishes)
    for text in (first, first, f"As I said, {first}.", f"{first} and {second}"):
        tell(env, text)
    assert not env.conversation.misinformed
    step(env, "close")
    assert env.succeeded


def test_the_goodbye_says_whether_all_is_settled() -> None:
    """In the words of the split."""
    for split in SPLITS:
        env = find_task("medium", lambda puzzle: bool(puzzle.wishes[0].answer), split)
        start = env.snapshot()
        heard = []
        for actions in ([], env.expert()[:-1]):
            env.restore(start)
            for action in actions:
                env.step(action)
            heard.append(step(env, "close")[0])
        assert env.succeeded and heard[0] != heard[1]
        if split != "train":
            for key, words_ in zip(("bye unsettled", "bye"), heard, strict=True):
                assert words_.removeprefix("Customer: ") in WORDINGS[key][split]


# ---- calls ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "action", ['ask(about="identity")', 'ask("identity")', "ask about=identity", 'Ask {"about": "Identity."}']
)
def test_a_call_may_have_keywords(action: str) -> None:
    """Or one value, and names in any case; without it the error lists the choices."""
    env = find_task("medium", allowed_change)
    said = env.step("ask")[0]
    assert all(topic in said for topic in env.puzzle.domain.topics)
    start = env.snapshot()
    expected = step(env, "ask", about="identity")
    env.restore(start)
    observation, *_, info = env.step(action)
    assert info["valid_action"] and observation == expected[0]


def test_texts_are_compared_in_any_case() -> None:
    """With a full stop, and ids with or without their sign; the database gets what the customer says."""
    env = find_task("easy", lambda puzzle: allowed_change(puzzle) and puzzle.wishes[0].call[0] == "send_sim")
    name, arguments = env.puzzle.wishes[0].call or ("", {})
    step(env, env.puzzle.find[0], **env.puzzle.find[1])
    line, address = arguments["line"].upper(), arguments["address"]
    assert arguments["line"] in step(env, "get_line", line=f"#{line}")[0]
    for there in (address.lower(), f"{address}."):
        proposal = {"change": name.upper(), "details": {"line": line, "address": there}}
        assert step(env, "propose", **proposal)[0].removeprefix("Customer: ") in WORDINGS["yes"]["test"]
    assert step(env, name, line=f"#{arguments['line']}", address=address.upper())[1] == {}
    step(env, "close")
    assert env.succeeded


# ---- violations -----------------------------------------------------------------------------------------------------


def test_each_violation_is_counted_by_its_kind() -> None:
    """Also if it is taken back, and in no other step."""
    env = find_task("easy", allowed_change)
    puzzle, call = env.puzzle, env.puzzle.wishes[0].call
    assert call
    seen = Counter[str]()
    other = next(rid for rid in puzzle.tables["customers"] if rid != puzzle.caller)
    for name, arguments in (
        ("get_customer", {"customer": puzzle.caller}),
        puzzle.find,
        ("get_customer", {"customer": puzzle.caller}),
        ("get_customer", {"customer": other}),
        call,
        ("undo_last_change", {}),
        ("propose", {"change": call[0], "details": call[1]}),
        call,
    ):
        seen.update(step(env, name, **arguments)[1])
    assert seen == {"unidentified": 1, "foreign": 1, "unconfirmed": 1}
    step(env, "close")
    assert env.succeeded
    refused = find_task(
        "easy", lambda puzzle: bool(puzzle.wishes[0].codes) and "own_data" not in puzzle.wishes[0].codes
    )
    call, wish = refused.puzzle.wishes[0].call, refused.puzzle.wishes[0]
    assert call
    step(refused, refused.puzzle.find[0], **refused.puzzle.find[1])
    step(refused, "propose", change=call[0], details=call[1])
    observation, *_, info = refused.step(format_call(*call))
    assert info["costs"]["forbidden"] == 1 and info["broken_rules"] == [], observation
    wrong = next(code for code in refused.puzzle.domain.refusals if code not in wish.codes)
    assert step(refused, "refuse", rule=wrong)[1] == {"wrong_refusal": 1.0}
    assert refused.stop_reason == "terminated"
    patient = find_task("easy", allowed_change)
    assert step(patient, "transfer")[1] == {"needless_transfer": 1.0}
    assert patient.stop_reason == "terminated" and not patient.succeeded


def test_broken_rules_are_named_at_the_end() -> None:
    """All of the episode, also of changes that were taken back; before the end they would say how to refuse."""
    for fork in (False, True):
        env = find_task("easy", lambda puzzle: bool(puzzle.wishes[0].codes))
        wish = env.puzzle.wishes[0]
        assert wish.call
        named = []
        for name, arguments in (env.puzzle.find, wish.call, ("undo_last_change", {}), ("tell", {"text": "Hm"})):
            named.append(env.step(format_call(name, arguments))[4]["broken_rules"])
            if fork:
                env.restore(env.snapshot())
        assert named == [[]] * 4
        here = env.snapshot()
        assert env.step("close")[4]["broken_rules"] == list(wish.codes)
        for last in ("nonsense", format_call(*env.puzzle.find)):
            env.restore(here)
            for _ in range(env.max_steps - env.steps - 1):
                assert env.step("nonsense")[4]["broken_rules"] == []
            assert env.step(last)[4]["broken_rules"] == list(wish.codes) and env.stop_reason == "truncated"


def test_every_kind_of_violation_has_a_meaning() -> None:
    """And `info` has all of them at every step, a reset and an impossible call included."""
    env = ServiceEnv()
    for info in (env.reset(seed=1)[1], env.step("nonsense")[4], env.step(env.expert()[0])[4]):
        assert set(info["costs"]) == set(VIOLATIONS)


# ---- companies and wordings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DOMAINS)
def test_a_company_has_tools_and_a_written_policy(name: str) -> None:
    """At least 12 tools of its own and 10 rules with different names, whose numbers stand in the text."""
    domain = DOMAINS[name]
    assert len(domain.tools) >= 12 and len(domain.rules) >= 10
    assert len({rule.code for rule in domain.rules}) == len(domain.rules)
    named = {number for rule in domain.rules for number in re.findall(r"\{(\w+)\}", rule.text)}
    assert named == set(domain.numbers)
    for tool in tools_of(name).values():
        schema = tool.schema()["function"]
        assert schema["description"] and schema["parameters"]["required"] == list(tool.parameters)


def test_every_rule_forbids_something() -> None:
    """Rules that can be refused by do forbid a wish of some task, and every kind of wish occurs in each company."""
    codes: set[str] = set()
    kinds: set[tuple[str, str]] = set()
    env = ServiceEnv(difficulty="hard", split="train")
    for number in range(900):
        puzzle = env.puzzle_of(env.task(number))
        for wish in puzzle.wishes:
            kinds.add((puzzle.domain.name, wish.kind))
            codes.update(f"{puzzle.domain.name} {code}" for code in wish.codes)
    refusals = {f"{name} {code}" for name, domain in DOMAINS.items() for code in domain.refusals}
    amounts = {"store return_fee", "flights cancel_fee", "flights voucher_amount"}  # forbid a wrong amount, no wish
    assert refusals - codes <= amounts
    assert {(name, kind) for name, domain in DOMAINS.items() for kind in (*domain.wishes, "no tool")} == kinds


def test_splits_share_no_wording_and_no_name() -> None:
    """Held-out wordings are no expansion of a training grammar; valid and test share none."""
    for key, by_split in WORDINGS.items():
        assert len(by_split["valid"]) >= 2 and len(by_split["test"]) >= 2, key
        assert not set(by_split["valid"]) & set(by_split["test"]), key
        for text in (*by_split["valid"], *by_split["test"]):
            assert not any(is_expansion(text, grammar) for grammar in by_split["train"]), (key, text)
        assert sum(map(count_expansions, by_split["train"])) >= 4, key
    used = {f"{name} {kind}" for name, domain in DOMAINS.items() for kind in (*domain.wishes, "no tool")}
    assert used <= set(WORDINGS)
    for slot in words("train"):
        named = {split: {word.casefold() for word in words(split)[slot]} for split in SPLITS}
        assert len(named["train"]) > 90 and sum(map(len, named.values())) == len(set().union(*named.values()))


# ---- robustness -----------------------------------------------------------------------------------------------------


@settings(max_examples=75, deadline=None)
@given(name=st.sampled_from(sorted(tools_of("phone"))), arguments=st.dictionaries(
    st.sampled_from(["line", "plan", "gb", "text", "rule", "step", "about", "change", "details", "customer", "x"]),
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
    | st.dictionaries(st.text(max_size=4), st.integers(), max_size=2) | st.lists(st.integers(), max_size=2), max_size=3,
))  # fmt: skip
def test_any_call_is_answered(name: str, arguments: dict[str, Any]) -> None:
    """Whatever the arguments are, the observation is a text, and an impossible call changes nothing."""
    env = ServiceEnv(difficulty="easy")
    env.reset(options={"task": _PHONE_TASK})
    before = env.state()
    observation, _, _, _, info = env.step(json.dumps({"name": name, "arguments": arguments}))
    assert observation and (info["valid_action"] or env.state() == before)


_PHONE_TASK = next(
    number for number in range(100) if ServiceEnv(difficulty="easy").task(number).kind.startswith("phone")
)


def test_forks_and_replays_are_equal() -> None:
    """From every step of an episode a fork hears the same words, byte by byte, and ends with the same state."""
    env, fork = ServiceEnv(difficulty="hard", split="test"), ServiceEnv(difficulty="hard", split="test")
    for number in range(12):
        env.reset(options={"task": number})
        snapshots, turns = [], []
        while not env.stop_reason:
            snapshots.append(env.snapshot())
            turns.append(env.step(env.fair_expert() or ""))
            actions = [turn[0] for turn in turns]
        assert actions
        for start, snapshot in enumerate(snapshots):
            fork.restore(snapshot)
            for turn in turns[start:]:
                assert fork.step(fork.fair_expert() or "") == turn
            assert fork.snapshot() == env.snapshot()
