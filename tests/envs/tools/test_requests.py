from __future__ import annotations

import json
import re
from collections import Counter
from datetime import date, timedelta
from functools import partial
from itertools import combinations
from typing import Any

import pytest
from guesses import best_guess

from agentgym_envs.tools import task_templates
from agentgym_envs.tools.catalogue import CORE
from agentgym_envs.tools.database import CONNECTIONS
from agentgym_envs.tools.env import ToolsEnv
from agentgym_envs.tools.plans import NAMEABLE, divisions, possible
from agentgym_envs.tools.task_templates import OFFERED, TEMPLATES
from agentgym_envs.tools.tool import rows_of
from agentgym_envs.tools.wording import wordings
from agentgym_py.env import SPLITS
from agentgym_py.env.wording import count_expansions, expand, is_expansion
from agentgym_py.rng import Rng


@pytest.mark.parametrize("difficulty", TEMPLATES)
@pytest.mark.parametrize("split", SPLITS)
def test_the_expert_knows_only_what_was_said(difficulty: str, split: str) -> None:
    """It succeeds in as many steps as the task says, with reward 1, and every value was in request or answers."""
    env = ToolsEnv(difficulty=difficulty)
    for number in range(120):
        said, _ = env.reset(options={"task": number, "split": split})
        today = env.session.puzzle.database.today
        said += "".join((today + timedelta(days=d)).isoformat() for d in (-2, -1, 1, 2))
        plan, total = env.expert(), 0.0
        assert env.current_task and env.current_task.optimal_steps in (None, len(plan))
        for action in plan:
            name, _, arguments = action.partition(" ")
            if name not in ("finish", "search_tools"):
                assert all(str(value) in said for value in json.loads(arguments).values()), (env.current_task, action)
            observation, reward, *_, info = env.step(action)
            said += observation
            total += reward
        assert info["success"] and env.stop_reason == "terminated" and total == pytest.approx(1)


def test_difficulties_differ() -> None:
    """More calls are needed from easy to hard, and each difficulty has the sorts of requests that it promises."""
    means, kinds = [], []
    for difficulty in ("easy", "medium", "hard"):
        env = ToolsEnv(difficulty=difficulty)
        tasks = [env.task(number) for number in range(200)]
        calls = [len(env.puzzle_of(task).calls) for task in tasks]
        means.append(sum(calls) / len(calls))
        kinds.append({task.kind for task in tasks})
        longest = {"easy": 2, "medium": 3, "hard": 6}[difficulty]
        assert max(calls) == longest and min(calls) == (4 if difficulty == "hard" else 0)
        assert all(len(env.puzzle_of(task).tools or ()) == OFFERED[difficulty] for task in tasks)
    assert means[0] < 1.5 < means[1] < 3 < means[2]
    assert kinds[0] == {"single", "chain", "lookalike", "change", "no_tool"} - {"chain"}
    assert kinds[1] == {"chain", "lookalike", "change", "compare", "no_tool"}
    assert kinds[2] == {"chain", "lookalike", "change", "changes", "compare"}


def test_most_tools_are_needed_somewhere() -> None:
    """All but a few tools of the databases occur in plans, and every change does."""
    used: Counter[str] = Counter()
    for difficulty in ("easy", "medium", "hard"):
        env = ToolsEnv(difficulty=difficulty)
        for number in range(300):
            used.update(call.tool for call in env.puzzle_of(env.task(number)).calls)
    assert set(CORE) - set(used) == set()
    assert min(used[name] for name, tool in CORE.items() if tool.changes) >= 5


def test_no_wording_is_in_two_splits() -> None:
    """Sentences and their parts are a split's own, but for today, tomorrow, yesterday and `on`."""
    known = wordings()
    says = [each.say for each in known.hops] + [each.say for each in known.asks]
    says += [each.say for each in known.searches.values()] + [each.say for each in known.changes]
    says += [each.ask for each in known.changes] + list(known.named.values()) + list(known.untooled.values())
    says += [say for name, say in known.frames.items() if name != "on"]
    says += [say for distance, say in known.days.items() if abs(distance) > 1]
    for say in says:
        for one, other in combinations(SPLITS, 2):
            assert not set(say[one]) & set(say[other]), say


def test_every_wording_has_its_places() -> None:
    """All splits fill in the same names: what is asked about, the day, the parameters of a change."""
    known = wordings()
    for ask in known.asks:
        for split in SPLITS:
            assert all("{x}" in text and ("{d}" in text) == bool(ask.days) for text in ask.say[split]), ask
    for change in known.changes:
        for split in SPLITS:
            assert all(f"{{{slot}}}" in text for text in change.say[split] for slot in change.slots), change
        assert [each.name for each in CORE[change.tool].parameters] == list(change.slots)
    for say in [each.say for each in known.hops] + [each.say for each in known.searches.values()]:
        assert all("{x}" in text for split in SPLITS for text in say[split]), say


def test_training_wordings_are_rich() -> None:
    """Several for every part of a request, each with the same places; no held-out wording is among them."""
    known = wordings()
    says = [hop.say for hop in known.hops] + [ask.say for ask in known.asks]
    says += [search.say for search in known.searches.values()] + list(known.untooled.values())
    says += [say for change in known.changes for say in (change.say, change.ask)]
    says += [say for name, say in known.frames.items() if name not in ("on", "clauses")]
    for say in says:
        assert sum(map(count_expansions, say["train"])) >= 3, say
        for grammar in say["train"]:
            places = [sorted(re.findall(r"\{\w+\}", expand(Rng(number), grammar))) for number in range(30)]
            assert all(found == sorted(set(re.findall(r"\{\w+\}", grammar))) for found in places), grammar
            assert not [text for split in ("valid", "test") for text in say[split] if is_expansion(text, grammar)]
    assert sum(sum(map(count_expansions, say["train"])) for say in says) > 1000


def test_divisions_spend_all_calls() -> None:
    """Each way to share calls out adds up, and gives every kind a number that it can have."""
    for kinds in (("city", "day"), ("product", "quantity", "city"), ("order:processing",), ()):
        for calls in range(6):
            for ways in divisions(kinds, calls):
                assert sum(ways) == calls and all(map(possible, kinds, ways))
    assert divisions(("city", "day"), 1) == ((0, 1), (1, 0))
    assert not possible("film", 0) and possible("film", 1) and not possible("order", 2) and "city" in NAMEABLE


def test_a_lookalike_would_answer_otherwise() -> None:
    """In a request of that kind the twin of the last tool is on offer and says something else."""
    env = ToolsEnv(difficulty="medium")
    seen = 0
    for number in range(150):
        task = env.task(number)
        if task.kind != "lookalike":
            continue
        env.reset(options={"task": number})
        puzzle = env.session.puzzle
        last = puzzle.calls[-1]
        twins = [t for t in CORE[last.tool].twins if CORE[t].parameters == CORE[last.tool].parameters]
        assert twins and all(twin in env.session.tools for twin in twins)
        for call in puzzle.calls[:-1]:
            env.step(call.text)
        observation, reward, *_ = env.step(last._replace(tool=twins[0]).text)
        assert reward == 0 and f'"{puzzle.answer}"' not in observation
        seen += 1
    assert seen >= 10


def test_in_a_chain_one_answer_feeds_the_next() -> None:
    """Of two to six calls each but the last finds what a later one needs; all but chance hides it from the request."""
    lengths: Counter[int] = Counter()
    fed = unsaid = 0
    for difficulty in ("medium", "hard"):
        env = ToolsEnv(difficulty=difficulty)
        for number in range(100):
            task = env.task(number)
            if task.kind != "chain":
                continue
            env.reset(options={"task": number})
            calls = env.session.puzzle.calls
            lengths[len(calls)] += 1
            for place, call in enumerate(calls[:-1]):
                rows = rows_of(CORE[call.tool].on(env.session._connection, call.arguments))
                needed = {value for later in calls[place + 1 :] for value in later.arguments.values()}
                found = needed & {value for row in rows for value in row.values()}
                assert found, (task, call)
                fed += 1
                unsaid += any(str(value) not in task.instruction for value in found)
    assert sorted(lengths) == [2, 3, 4, 5, 6] and min(lengths.values()) >= 5 and unsaid >= 0.97 * fed


def test_no_fewer_calls_show_what_a_plan_finds() -> None:
    """Brute force over what is listed: neither the request nor a single call shows a name that takes one call more."""
    tried: Counter[int] = Counter()
    for difficulty in ("easy", "medium"):
        env = ToolsEnv(difficulty=difficulty, split="test")
        for number in range(300):
            task, puzzle = env.task(number), env.puzzle_of(env.task(number))
            by_name = puzzle.answer[:1].isupper() and len(puzzle.answer) > 5 and "Room" not in puzzle.answer
            calls = len(puzzle.calls)
            if task.kind not in ("single", "chain", "lookalike") or not by_name or calls > 2 or tried[calls] >= 25:
                continue
            said, _ = env.reset(options={"task": number})
            assert puzzle.answer not in said
            before = env.snapshot()
            for action in env.actions() if calls == 2 else ():
                if not action.startswith("finish"):
                    assert f'"{puzzle.answer}"' not in env.step(action)[0], (task, action)
                    env.restore(before)
            tried[calls] += 1
    assert tried[1] >= 15 and tried[2] >= 10


def test_no_search_finds_what_another_answer_showed() -> None:
    """A name and the number that it is searched for stand in no row of an answer before."""
    searches = 0
    for difficulty in ("medium", "hard"):
        env = ToolsEnv(difficulty=difficulty, split="train")
        for number in (*range(150), 251, 344):
            env.reset(options={"task": number})
            seen: list[dict[str, Any]] = []
            for call in env.session.puzzle.calls:
                rows = rows_of(CORE[call.tool].on(env.session._connection, call.arguments))
                if call.tool.startswith(("search_", "find_")):
                    name = next(iter(call.arguments.values()))
                    (row,) = (each for each in rows if name in each.values())
                    found = next(value for column, value in row.items() if column.endswith("_id"))
                    assert not any({name, found} <= set(each.values()) for each in seen), (env.current_task, call)
                    searches += 1
                seen += rows
    assert searches > 150


def test_the_plan_is_listed() -> None:
    """Each call of the expert is among the actions when its turn comes, and the first of a chain only is at once."""
    env = ToolsEnv(difficulty="hard")
    for number in range(60):
        env.reset(options={"task": number})
        plan = env.expert()
        assert plan[-2] not in env.actions() or "chain" not in str(env.current_task)
        for action in plan[:-1]:
            assert action in env.actions(), (env.current_task, action)
            env.step(action)


def test_no_tool_questions_have_no_listed_answer() -> None:
    """Their answer must be reckoned, so that drawing from the list never succeeds; calling a tool halves the reward."""
    env = ToolsEnv(difficulty="easy")
    seen = 0
    for number in range(150):
        if env.task(number).kind != "no_tool":
            continue
        env.reset(options={"task": number})
        assert env.session.puzzle.answer not in "\n".join(env.actions())
        (answer,) = env.expert()
        _, reward, *_, info = env.step(answer)
        assert info["success"] and reward == 1 and info["tools_needed"] == []
        env.reset(options={"task": number})
        call = next((each for each in env.actions() if not each.startswith("finish")), None)
        if call:
            env.step(call)
            assert env.step(answer)[1] == 0.5
            seen += 1
    assert seen >= 3


def test_thoughtless_agents_fail() -> None:
    """Drawing from the listed actions succeeds in few episodes."""
    for difficulty, maximum in (("easy", 0.06), ("medium", 0.03), ("retrieval", 0.04)):
        env = ToolsEnv(difficulty=difficulty)
        rng = Rng("thoughtless")
        wins = 0
        for seed in range(150):
            env.reset(seed=seed)
            while not env.stop_reason:
                env.step(rng.choice(env.actions()))
            wins += env.succeeded
        assert wins / 150 <= maximum, difficulty


def test_dates_are_in_reach() -> None:
    """A day that a request names can be asked about: the forecast of it, or the record, exists."""
    env = ToolsEnv(difficulty="easy")
    for number in range(100):
        puzzle: Any = env.puzzle_of(env.task(number))
        for day in puzzle.named.get("day", ()):
            assert -7 <= (date.fromisoformat(day) - puzzle.database.today).days <= 6


@pytest.mark.parametrize("split", SPLITS)
def test_no_guess_answers_a_question(split: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither one answer nor a word of the request; changes are left out, because no answer alone fulfils them."""
    for ask in wordings().asks:
        calls = next(number for number in range(1, 4) if possible(ask.source, number - 1))
        monkeypatch.setattr(
            task_templates, "TEMPLATES", {"hard": (partial(task_templates._question, ask=ask, calls=calls, kind=""),)}
        )
        drafts = [task_templates.draft(CONNECTIONS, Rng("guess", n), split, "hard") for n in range(200)]
        asked = [(draft.puzzle.database.key, draft.instruction, draft.puzzle.answer) for draft in drafts]
        assert best_guess(asked) <= 0.3, (ask.tool, ask.field)
