"""The part of thirteen worlds in the training text of a base: attempts at training tasks, and short questions.

Calculator, errand, grid, lab, maze, service, sheet, SQL, TextCraft, todo, tools, twentyquestions and Wordle. In an
attempt an agent acts as the world's fair expert does, with random detours that are not learned from, with the expert's
thoughts or without reasons. In the maze and in TextCraft half of the attempts with thoughts pursue another goal than
the one that the text gives, so that they teach how to act for a stated goal. Where a first observation is long, half of
the documents put several tasks to it. Training tasks have many wordings and made-up names of their own, so nothing is
renamed here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tiny_shop import ANNOUNCED, Turns

from agentgym_envs.calculator.env import CalculatorEnv
from agentgym_envs.errand.env import ErrandEnv
from agentgym_envs.grid.env import GridEnv
from agentgym_envs.grid.mission import Clause, Description, Mission, Verb
from agentgym_envs.grid.wording import word
from agentgym_envs.lab.env import LabEnv
from agentgym_envs.maze.env import MazeEnv
from agentgym_envs.service.env import ServiceEnv
from agentgym_envs.sheet.env import SheetEnv
from agentgym_envs.sheet.requests import first_replies
from agentgym_envs.sql.env import SQLEnv, page
from agentgym_envs.sql.questions import draw_question
from agentgym_envs.textcraft.env import TextCraftEnv
from agentgym_envs.textcraft.parts import describe_rest, list_commands, plan_part
from agentgym_envs.todo.env import TodoEnv
from agentgym_envs.tools.catalogue import ORDER
from agentgym_envs.tools.database import CONNECTIONS
from agentgym_envs.tools.env import ToolsEnv
from agentgym_envs.tools.session import Session
from agentgym_envs.tools.task_templates import draft_on
from agentgym_envs.twentyquestions.env import TwentyQuestionsEnv
from agentgym_envs.wordle.env import WordleEnv
from agentgym_envs.wordle.solver import LETTERS, Hints, describe_letters, marks, may_be_hidden, words
from agentgym_py.agents.expert import format_expert_reply
from agentgym_py.env import TextEnv
from agentgym_py.env.actions import format_reply
from agentgym_py.rng import Rng

DIFFICULTIES = (*8 * ("easy",), "medium", "hard")
"""Most attempts are at easy tasks, which a model of this size can learn."""
MAX_STEPS, _AIMLESS_STEPS = 30, 6
_RULES = 0.25
"""Share of attempts that begin with the brief rules."""


@dataclass(frozen=True)
class World:
    """A world, in one role if it has several, and its share of the attempts.

    Worlds with short attempts have larger shares, because tokens count, not attempts.
    """

    make: Callable[..., TextEnv]
    weight: int


WORLDS: Mapping[str, World] = {
    "calculator": World(CalculatorEnv, 66),
    "errand, client": World(partial(ErrandEnv, role="client"), 5),
    "errand, shopper": World(partial(ErrandEnv, role="shopper"), 5),
    "grid": World(GridEnv, 17),
    "lab": World(LabEnv, 9),
    "maze": World(MazeEnv, 9),
    "service": World(ServiceEnv, 6),
    "sheet": World(SheetEnv, 11),
    "sql": World(SQLEnv, 10),
    "textcraft": World(TextCraftEnv, 24),
    "todo": World(TodoEnv, 30),
    "tools": World(ToolsEnv, 20),
    "twentyquestions, asker": World(partial(TwentyQuestionsEnv, role="asker"), 9),
    "twentyquestions, answerer": World(partial(TwentyQuestionsEnv, role="answerer"), 1),
    "wordle": World(WordleEnv, 40),
}


class Unlearned(str):
    """A reply that is read but not learned from, because chance chose it."""

    __slots__ = ()


Envs = Mapping[tuple[str, str], TextEnv]
"""Environments by world and difficulty."""


def make_envs(only: Collection[str] = ()) -> dict[tuple[str, str], TextEnv]:
    """Make the environments of every world, or of these only; a document resets the one that it needs."""
    return {
        (name, difficulty): world.make(difficulty=difficulty)
        for name, world in WORLDS.items()
        for difficulty in dict.fromkeys(DIFFICULTIES)
        if not only or name in only
    }


# ---- attempts -------------------------------------------------------------------------------------------------------


def world_attempt(rng: Rng, envs: Envs) -> Turns:
    """Draw an attempt at a training task of any of the worlds."""
    name = _draw_world(rng, envs)
    if name in _OTHER_DOCUMENTS and rng.below(2):
        return _OTHER_DOCUMENTS[name](rng, envs)
    env = envs[name, rng.choice(DIFFICULTIES)]
    first = reset(rng, env)
    thinks = rng.below(8) > 0
    if thinks and rng.below(2):
        first = _with_another_goal(rng, env, first)
    return attempt(rng, env, first, thinks=thinks, rules=_RULES)


def aimless_attempt(rng: Rng, envs: Envs) -> Turns:
    """Draw an attempt that thinks as the fair expert does and acts at random, or one that only acts as it does."""
    env = envs[_draw_world(rng, envs), rng.choice(DIFFICULTIES)]
    first = reset(rng, env)
    if rng.below(4) == 0:
        return attempt(rng, env, first, thinks=False, rules=_RULES)
    return wander(env, _with_rules(rng, env, first, _RULES), rng)


def _draw_world(rng: Rng, envs: Envs) -> str:
    """Draw one of the worlds that have environments, by its weight."""
    return rng.choice([name for name, world in WORLDS.items() if (name, "easy") in envs for _ in range(world.weight)])


def wander(env: Any, observation: str, rng: Rng) -> Turns:
    """Think as the fair expert does, and act at random, for a few steps."""
    turns: Turns = []
    while len(turns) < _AIMLESS_STEPS and not env.stop_reason:
        expert = env.fair_expert() or next(iter(env.expert()), None)
        if expert is None:
            break
        reply = format_expert_reply(env, rng.choice(env.actions() or [expert]), env.expert_thought(expert))
        turns.append((observation, reply))
        observation = env.step(reply)[0]
    return [*turns, (observation, "")]


def attempt(rng: Rng, env: Any, first: str, *, thinks: bool, rules: float) -> Turns:
    """Act as the fair expert does, with random detours in some attempts; `rules` is the share with the brief rules."""
    turns: Turns = []
    actions: list[str] = []
    observation = _with_rules(rng, env, first, rules)
    detours = rng.choice((0, 0, 0.1, 0.25))
    while len(turns) < MAX_STEPS and not env.stop_reason:
        action = _detour(rng, env, actions) if actions and rng.uniform() < detours else None
        if action:
            reply: str = Unlearned(format_reply(action, rng.choice(ANNOUNCED).format(action)))
        else:
            action = env.fair_expert() or next(iter(env.expert()), None)
            if action is None:
                break
            reply = format_expert_reply(env, action, env.expert_thought(action) if thinks else "")
        turns.append((observation, reply))
        actions.append(action)
        observation = env.step(reply)[0]
    return [*turns, (observation, "")]


def _with_rules(rng: Rng, env: Any, first: str, share: float) -> str:
    return f"{env.rules['brief']}\n\n{first}" if rng.uniform() < share else first


def reset(rng: Rng, env: Any) -> str:
    """Begin a random training task; return the first observation."""
    observation: str = env.reset(options={"task": rng.below(1 << 31), "split": "train"})[0]
    return observation


def _detour(rng: Rng, env: Any, actions: list[str]) -> str:
    """Draw a random action, one with a wrong number or a slip of the pen, or the last one again."""
    possible = [action for action in env.actions() or () if not action.startswith("help")]
    kind = rng.below(5)
    if kind == 0:
        return actions[-1]
    action = rng.choice(possible or actions[-1:])
    if kind == 1 or not possible:
        return _slip(rng, action)
    numbered = re.fullmatch(r"(.*?)(\d+)", action)
    return f"{numbered[1]}{int(numbered[2]) + 1 + rng.below(5)}" if kind == 2 and numbered else action


def _slip(rng: Rng, action: str) -> str:
    """Leave out or change a character of an action, so that the world answers what is wrong with it."""
    place = rng.below(len(action))
    other = rng.choice(("", rng.choice([*action]), rng.choice([*"aeiorstln"])))
    return f"{action[:place]}{other}{action[place + 1 :]}"


def _with_another_goal(rng: Rng, env: TextEnv, first: str) -> str:
    """Name another metal or thing in the request; other worlds' requests stay."""
    if isinstance(env, MazeEnv):
        goal, others = env.puzzle.metal, [metal for metal in env.puzzle.keys if metal != env.puzzle.metal]
    elif isinstance(env, TextCraftEnv):
        goal, others = env.puzzle.target, [item for item in env.puzzle.book if item != env.puzzle.target]
    else:
        return first
    task = env.current_task
    assert task is not None
    other = re.sub(rf"\b{re.escape(goal)}\b", rng.choice(others), task.instruction, flags=re.IGNORECASE)
    return first.replace(task.instruction, other)


# ---- several tasks on a page ----------------------------------------------------------------------------------------


def questions_to_database(rng: Rng, envs: Envs) -> Turns:
    """Draw a database, and several questions to it with the fair expert's looks and answers."""
    env: Any = envs["sql", "easy"]
    tables = reset(rng, env).rpartition("\n")[2]
    layout, rows = env.puzzle.layout, env.puzzle.rows
    turns: Turns = []
    for number in range(6):
        question = draw_question(layout, rows, rng, "train", "easy")
        shown = f"{question.words}\n{tables}" if number == 0 or rng.below(4) == 0 else question.words
        for place, look in enumerate(question.looks):
            turns.append((shown, format_expert_reply(env, f"query[{look.statement}]", question.look_thought(place))))
            shown = page(env.database.run(look.statement))
        turns.append((shown, format_expert_reply(env, f"answer[{question.sql}]", question.answer_thought)))
    return turns


def requests_to_tools(rng: Rng, envs: Envs) -> Turns:
    """Draw a database and tools, and several requests with the expert's calls and answers."""
    env: Any = envs["tools", "easy"]
    first = reset(rng, env)
    drafts = [draft_on(env.puzzle.database, CONNECTIONS, rng, "train", "easy") for _ in range(5)]
    names = {name for draft in drafts for name in draft.puzzle.names}
    names |= set(rng.sample(env.puzzle.tools, 4))
    offered = tuple(sorted(names, key=ORDER.__getitem__))
    turns: Turns = []
    before = first.split("\n")[0]
    for request, puzzle in ((draft.instruction, draft.puzzle) for draft in drafts):
        session = Session(replace(puzzle, tools=offered), CONNECTIONS, request)
        tools = "\n".join(tool.line for tool in session.tools.values())
        observation = f"{before}\n{request}" if turns else f"{before}\n{request}\nTools:\n{tools}"
        for call in puzzle.calls:
            note = session.note(session.plan())
            turns.append((observation, format_expert_reply(env, call.text, note[:1].upper() + note[1:])))
            observation = session.do(session.tools[call.tool], call.arguments)
        turns.append((observation, format_expert_reply(env, session.plan()[0], puzzle.answer_note)))
        session.close()
        before = "Done: that is right."
    return turns


def requests_to_workbook(rng: Rng, envs: Envs) -> Turns:
    """Draw a workbook and several requests to it, each with the fair expert's first reply, which finds the columns."""
    env = envs["sheet", "easy"]
    page, asked = first_replies(rng, 7)
    turns: Turns = []
    for number, (request, action, note) in enumerate(asked):
        shown = f"{request}\n{page}" if number == 0 or rng.below(5) == 0 else request
        turns.append((shown, format_expert_reply(env, action, note)))
    return turns


def missions_in_a_view(rng: Rng, envs: Envs) -> Turns:
    """Draw a view of a grid and several missions, to things in view and others, each with the expert's first reply."""
    env: Any = envs["grid", "easy"]
    page = reset(rng, env).rpartition("\n")[2]
    things = [thing for thing in env.puzzle.things if thing.inside < 0]
    turns: Turns = []
    for _ in range(6):
        thing = rng.choice(things)
        verb = rng.choice((Verb.GO_TO, Verb.OPEN if thing.kind == "door" else Verb.PICK_UP))
        described = Description(thing.kind, rng.choice((None, thing.color, thing.color)))
        fitting = frozenset(
            number for number, other in enumerate(env.puzzle.things)
            if other.kind == thing.kind and described.color in (None, other.color)
        )  # fmt: skip
        mission = Mission((Clause(verb, described, fitting),), ((0,),))
        env.turn_to(mission)
        if action := env.fair_expert():
            text = word(rng, "train", mission)
            shown = text if turns and rng.below(5) else f"{text}\n{page}"
            turns.append((shown, format_expert_reply(env, action, env.expert_thought(action))))
    return turns or missions_in_a_view(rng, envs)


def requests_to_lists(rng: Rng, envs: Envs) -> Turns:
    """Draw several requests to lists of tasks, each with the fair expert's first reply, which tells what is asked."""
    env, turns = envs["todo", "easy"], list[tuple[str, str]]()
    for _ in range(6):
        first = reset(rng, env)
        action = env.fair_expert()
        assert action is not None
        turns.append((first, format_expert_reply(env, action, env.expert_thought(action))))
    return turns


def goals_of_recipes(rng: Rng, envs: Envs) -> Turns:
    """Draw recipes, and several goals with the first reply of the expert to each."""
    env: Any = envs["textcraft", "easy"]
    page, puzzle = reset(rng, env).rpartition("Goal: ")[0], env.puzzle
    turns: Turns = []
    for item in rng.sample([*puzzle.book], min(5, len(puzzle.book))):
        goal = env.current_task.instruction.replace(puzzle.target, item)
        part = plan_part(puzzle.book, item, 1, Counter())
        turns.append((f"{page}Goal: {goal}", format_expert_reply(env, list_commands(part)[0], describe_rest(part, 0))))
        page = ""
    return turns


# ---- short questions ------------------------------------------------------------------------------------------------


def word_questions(rng: Rng, envs: Envs) -> Turns:
    """Draw training tasks and guesses, and ask for words of Wordle's whole list that fit all marks."""
    env: Any = envs["wordle", "easy"]
    turns: Turns = []
    while len(turns) < 25:
        reset(rng, env)
        hidden, pattern = env.puzzle
        hints: Hints = ()
        fitting = [word for word in words() if may_be_hidden(word, pattern, hints)]
        for _ in range(1 + rng.below(4)):
            answers = rng.sample(fitting, min(4, len(fitting)))
            turns.append((describe_letters(pattern, hints), ", ".join(" ".join(word) for word in answers)))
            guess = rng.choice(fitting)
            hints += ((guess, marks(guess, hidden)),)
            fitting = [word for word in fitting if may_be_hidden(word, pattern, hints)]
            if guess == hidden:
                break
    return turns


def spelling(rng: Rng, envs: Envs) -> Turns:
    """Spell given words of Wordle's whole list, or words of one's own choice, as a reader of English knows them."""
    del envs
    listed = rng.sample(words(), 8)
    if rng.below(2):
        return [("Name eight words.", ", ".join(" ".join(word) for word in listed))]
    return [(f"Spell {word}.", " ".join(word)) for word in listed]


def fitting_words(rng: Rng, envs: Envs) -> Turns:
    """Show letters of words, and ask for words of Wordle's whole list that fit, as a reader of English knows them."""
    del envs
    turns: Turns = []
    for _ in range(10):
        shown = rng.sample(range(LETTERS), 1 + rng.below(3))
        word = rng.choice(words())
        fitting = [other for other in words() if all(other[place] == word[place] for place in shown)]
        pattern = " ".join(letter if place in shown else "." for place, letter in enumerate(word))
        answer = ", ".join(" ".join(other) for other in rng.sample(fitting, min(8, len(fitting))))
        turns.append((f"Words like {pattern}?", answer))
    return turns


def recipe_questions(rng: Rng, envs: Envs) -> Turns:
    """Draw recipes, and ask what some things take and which are raw."""
    env: Any = envs["textcraft", rng.choice(("easy", "medium"))]
    page = reset(rng, env).partition("\nGoal:")[0]
    turns: Turns = []
    for item in rng.sample([*env.puzzle.book, *env.puzzle.raw], 5):
        recipe = env.puzzle.book.get(item)
        takes = ", ".join(f"{count} {need}" for need, count in recipe.needs) if recipe else "raw"
        turns.append((f"{page}\nWhat does {item} take?".lstrip(), takes))
        page = ""
    return turns


def sum_questions(rng: Rng, envs: Envs) -> Turns:
    """Draw sums and products of small numbers."""
    del envs
    turns: Turns = []
    for _ in range(6):
        a, b, times = 1 + rng.below(20), 1 + rng.below(20), 2 + rng.below(4)
        turns.append((f"{a} + {b}?", str(a + b)) if rng.below(2) else (f"{times} times {a}?", str(times * a)))
    return turns


def short_worlds(rng: Rng, envs: Envs) -> Turns:
    """Draw short questions, several tasks on a page, or an easy attempt of few steps."""
    make = rng.choice(_SHORT_DOCUMENTS)
    if make:
        return make(rng, envs)
    env = envs[rng.choice(("calculator", "calculator", "sql", "wordle")), "easy"]
    return attempt(rng, env, reset(rng, env), thinks=rng.below(4) > 0, rules=0.1)


_SHORT_DOCUMENTS: tuple[Callable[[Rng, Envs], Turns] | None, ...] = (
    *2 * (word_questions, spelling, recipe_questions, questions_to_database),
    sum_questions,
    goals_of_recipes,
    requests_to_lists,
    *5 * (None,),
)
_OTHER_DOCUMENTS: Mapping[str, Callable[[Rng, Envs], Turns]] = {
    "grid": missions_in_a_view,
    "sheet": requests_to_workbook,
    "sql": questions_to_database,
    "textcraft": goals_of_recipes,
    "todo": requests_to_lists,
    "tools": requests_to_tools,
    "wordle": lambda rng, envs: rng.choice((fitting_words, *3 * (word_questions,)))(rng, envs),
}
"""Half of the documents of these worlds: several tasks, most on one long first page, and questions about words."""
