"""Whole requests of each difficulty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from agentgym_envs.todo import edits, wording
from agentgym_envs.todo.app import App, RefusedError
from agentgym_envs.todo.board import Board, same
from agentgym_envs.todo.task_templates import Drafter, Errand, NoneFitError, Part, Pick
from agentgym_envs.todo.tools import TOOLS
from agentgym_py.env.generated import Draft
from agentgym_py.rng import Rng

Maker = Callable[[Drafter], Part]
_TRIES = 15
"""Draws on one board before another is drawn."""


def draft(rng: Rng, split: str, difficulty: str) -> Draft[Errand]:
    """A board, a request, and how the board must be when it is fulfilled."""
    maker = rng.choice(_MAKERS[difficulty])  # once, so that what seldom fits a board is not asked less often
    while True:
        drafter = Drafter(rng, split, difficulty)
        for _ in range(_TRIES):
            try:
                return _draft(drafter, maker(drafter))
            except (NoneFitError, RefusedError):  # refused: two parts that exclude each other
                pass


def _draft(drafter: Drafter, part: Part) -> Draft[Errand]:
    """The request. No call of a part, nor of two, can be saved, so that a shortest plan has as many, and `finish`."""
    goal = _after(drafter, part)
    reads = tuple(each for n, each in enumerate(part.reads) if each not in part.reads[:n])
    errand = Errand(drafter.today, drafter.board, goal, reads, part.answer)
    return Draft(part.text, errand, part.kind, len(part.calls) + 1)


def _after(drafter: Drafter, part: Part, board: Board | None = None) -> Board:
    """The board, or another, once all the calls are done."""
    app = App((board or drafter.board).copy(), drafter.today)
    for name, arguments in part.calls:
        TOOLS[name].run(app, **arguments)
    return app.board


# ---- easy: one thing, by its name ----------------------------------------------------------------------------------


def _one(drafter: Drafter) -> Part:
    kind = drafter.rng.choice(tuple(edits.CHANGES))
    having = {"stop": "every", "uncomment": "comments"}.get(kind, "")
    pick = drafter.named(done=kind == "reopen", deleted=kind == "restore", having=having)
    return edits.change(drafter, kind, _shown(pick) if kind == "uncomment" else pick)


def _shown(pick: Pick) -> Pick:
    """The same, but whoever reads up on it also sees the comments."""
    return replace(pick, reads=(*pick.reads, *(("show_task", {"task": tid}) for tid in pick.ids)))


def _name(drafter: Drafter) -> Part:
    return edits.rename_name(drafter) if drafter.rng.below(4) else edits.archive(drafter)


def _lookup(drafter: Drafter) -> Part:
    """A question about one task."""
    pick = drafter.named()
    row = drafter.board.tasks[pick.ids[0]]
    kind = drafter.rng.choice(("when", "where", "note"))
    answer = {"when": row.due, "where": row.project, "note": row.comments[0] if len(row.comments) == 1 else ""}[kind]
    if not answer:
        raise NoneFitError
    reads = _shown(pick).reads if kind == "note" else pick.reads
    return Part("question", drafter.say(wording.ASK[kind], what=pick.what), reads, answer=answer)


# ---- medium: several things, by what they have in common -----------------------------------------------------------


def _change(drafter: Drafter) -> Part:
    pick = drafter.excepted(*drafter.many) if drafter.rng.below(4) == 0 else drafter.several(*drafter.many)
    return _done_to(drafter, pick)


def _done_to(drafter: Drafter, pick: Pick) -> Part:
    """Any change that makes sense for several tasks."""
    repeat = all(drafter.board.tasks[tid].every for tid in pick.ids)
    return edits.change(drafter, drafter.rng.choice((*edits.OF_SEVERAL, *("stop",) * 3 * repeat)), pick)


def _several(drafter: Drafter) -> Part:
    """A change of several, half of the time with the question how many there were."""
    part = _change(drafter)
    if drafter.rng.below(2):
        return part
    return replace(part, text=f"{part.text} {drafter.say(wording.COUNT)}", answer=str(len(part.ids)))


def _count(drafter: Drafter) -> Part:
    """How many; only numbers that are not too easy to guess."""
    pick = drafter.several(2, 12)
    return Part("question", drafter.say(wording.ASK["count"], what=pick.what), pick.reads, answer=str(len(pick.ids)))


def _which(drafter: Drafter) -> Part:
    pick = drafter.found_one()
    title = drafter.board.tasks[pick.ids[0]].title
    return Part("question", drafter.say(wording.ASK["which"], what=pick.what), pick.reads, answer=title)


def _found(drafter: Drafter) -> Part:
    """Something is done to a task that must be looked for."""
    return _done_to(drafter, drafter.found_one())


def _project(drafter: Drafter) -> Part:
    return edits.new_project(drafter, drafter.named() if drafter.rng.below(2) else drafter.several(2, 3))


# ---- hard: two things, or one that depends on another --------------------------------------------------------------


def _two(drafter: Drafter) -> Part:
    makers = drafter.rng.sample(_PARTS, 2)
    first, second = (_tried(drafter, maker) for maker in makers)
    if set(first.ids) & set(second.ids):
        raise NoneFitError
    with_first, with_second = _after(drafter, first), _after(drafter, second)
    if not same(_after(drafter, second, with_first), _after(drafter, first, with_second), drafter.board):
        raise NoneFitError
    _unmoved(drafter, first, with_second)
    _unmoved(drafter, second, with_first)
    text, answer = f"{first.text} {second.text}", first.answer or second.answer
    if first.answer and second.answer:
        raise NoneFitError
    both = (*first.reads, *second.reads), (*first.calls, *second.calls)
    part = Part(f"{first.kind} and {second.kind}", text, *both, answer)
    if _shorter_by_labels(drafter, part) or _shorter_by_sections(drafter, part):
        raise NoneFitError
    return part


def _shorter_by_labels(drafter: Drafter, part: Part) -> bool:
    """Whether it would be shorter to delete a label, add it again and put it where it belongs in the end."""
    before, after = drafter.board.tasks, _after(drafter, part).tasks
    given = Counter(call["label"] for name, call in part.calls if name in ("label_task", "unlabel_task"))
    taken = {call["label"] for name, call in part.calls if name == "unlabel_task"}
    kept = Counter(label for tid in before if not after[tid].deleted for label in after[tid].labels)
    return any(2 + kept[label] < given[label] for label in taken)


def _shorter_by_sections(drafter: Drafter, part: Part) -> bool:
    """Whether it would be shorter to delete a section that is or becomes empty, and give its name to another one."""
    before, goal = drafter.board.tasks, _after(drafter, part)
    ways = Counter(
        (row.project, row.section, goal.tasks[tid].section)
        for tid, row in before.items()
        if row.section and not goal.tasks[tid].deleted and row.project == goal.tasks[tid].project
    )
    for (project, here, there), moved in ways.items():
        stays = here in goal.sections[project]  # and is added again then
        renaming = 2 + stays + ways[project, here, here]
        if there not in ("", here) and not ways[project, there, there] and renaming < moved + (not stays):
            return True
    return False


def _unmoved(drafter: Drafter, part: Part, board: Board) -> None:
    """NoneFitError where a part would mean other tasks on that board, once another part is done."""
    before, after = App(drafter.board, drafter.today), App(board, drafter.today)
    for name, arguments in part.reads:
        seen = [TOOLS[name].run(app, **arguments) for app in (before, after)]
        if seen[0] != seen[1]:
            raise NoneFitError


def _tried(drafter: Drafter, maker: Maker) -> Part:
    """A part by this maker, after a few tries."""
    for _ in range(_TRIES):
        try:
            return maker(drafter)
        except NoneFitError:
            pass
    raise NoneFitError


def _if(drafter: Drafter) -> Part:
    """One of two things, by a number that must be found out."""
    asked = drafter.several(1, 12)
    yes, no = (_tried(drafter, _change if drafter.rng.below(2) else _found) for _ in range(2))
    limit = max(0, len(asked.ids) + (-1, -2, 0, 1)[drafter.rng.below(4)])
    chosen = yes if len(asked.ids) > limit else no
    text = drafter.say(wording.IF, what=asked.what, n=limit, yes=yes.text, no=no.text)
    return Part(f"if: {chosen.kind}", text, (*asked.reads, *chosen.reads), chosen.calls, ids=chosen.ids)


_PARTS: tuple[Maker, ...] = (_several, _several, _found, _found, _project, edits.empty_section, edits.add)
_MAKERS: Mapping[str, tuple[Maker, ...]] = {
    "easy": (_one, _one, _one, _one, _one, _one, _lookup, edits.add, _name),
    "medium": (_several, _several, _several, _several, _several, _found, _found, _project, _count, _which,
               edits.empty_section),
    "hard": (_two, _two, _two, _if),
}  # fmt: skip
