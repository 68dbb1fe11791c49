"""Whole requests of each difficulty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from agentgym_envs.todo import edits, wording
from agentgym_envs.todo.app import App
from agentgym_envs.todo.board import Board, same_board
from agentgym_envs.todo.task_templates import FILTERS, Drafter, NoFitError, Part, Pick, Puzzle
from agentgym_envs.todo.tools import TOOLS
from agentgym_py.env.generated import Draft
from agentgym_py.env.tools import RefusedError
from agentgym_py.rng import Rng

Template = Callable[[Drafter], Part]
_TRIES = 15
"""The draws on a board before a new board is drawn."""


def draft(rng: Rng, split: str, difficulty: str) -> Draft[Puzzle]:
    """Draw a board, a request and the board that fulfils it."""
    # drawn once, so that templates that seldom fit a board are as frequent as others
    template = rng.choice(_TEMPLATES[difficulty])
    if template is _count:  # likewise, so that neither small numbers are frequent nor the filter tells the number
        template = partial(_count, name=rng.choice(FILTERS), number=1 + rng.below(4))
    while True:
        drafter = Drafter(rng, split, difficulty)
        for _ in range(_TRIES):
            try:
                return _draft(drafter, template(drafter))
            except (NoFitError, RefusedError):  # RefusedError: two parts that exclude each other
                pass


def _draft(drafter: Drafter, part: Part) -> Draft[Puzzle]:
    """Make the request; no call of its parts can be saved, so that a shortest plan is these and `finish`."""
    goal = _board_after(drafter, part)
    new = [number for number, call in enumerate(part.reads) if call not in part.reads[:number]]
    reads = tuple(part.reads[number] for number in new)
    notes = tuple(part.notes[number] for number in new) if part.reads else part.notes
    puzzle = Puzzle(drafter.today, drafter.board, goal, reads, notes, part.answer, part.ids)
    return Draft(drafter.say(wording.REQUEST, request=part.text), puzzle, part.kind, len(part.calls) + 1)


def _board_after(drafter: Drafter, part: Part, board: Board | None = None) -> Board:
    """Return the drafter's board, or another one, after the calls of a part."""
    app = App((board or drafter.board).copy(), drafter.today)
    for name, arguments in part.calls:
        TOOLS[name].run(app, **arguments)
    return app.board


# ---- easy: one task, by its title -----------------------------------------------------------------------------------


def _one(drafter: Drafter) -> Part:
    kind = drafter.rng.choice(tuple(edits.CHANGES))
    having = {"stop": "every", "uncomment": "comments"}.get(kind, "")
    pick = drafter.by_title(done=kind == "reopen", deleted=kind == "restore", having=having)
    return edits.change(drafter, kind, _with_comments(pick) if kind == "uncomment" else pick)


def _with_comments(pick: Pick) -> Pick:
    """Add lookups of the comments to a pick."""
    return replace(pick, reads=(*pick.reads, *(("show_task", {"task": tid}) for tid in pick.ids)))


def _name(drafter: Drafter) -> Part:
    return edits.rename_name(drafter) if drafter.rng.below(4) else edits.archive(drafter)


def _lookup(drafter: Drafter) -> Part:
    """Draw a question about one task."""
    pick = drafter.by_title()
    tid = pick.ids[0]
    kind = drafter.rng.choice(("when", "where", "note"))
    if kind == "where":  # so that the title does not give the project away
        place = drafter.rng.choice(tuple(drafter.board.projects))
        drafter.board.tasks[tid] = drafter.board.tasks[tid]._replace(project=place, section="")
    row = drafter.board.tasks[tid]
    answer = {"when": row.due, "where": row.project, "note": row.comments[0] if len(row.comments) == 1 else ""}[kind]
    if not answer:
        raise NoFitError
    pick = _with_comments(pick) if kind == "note" else pick
    return _question(drafter, kind, pick, answer)


def _question(drafter: Drafter, kind: str, pick: Pick, answer: str) -> Part:
    notes = pick.notes(_AIMS[kind])
    return Part(
        "question", drafter.sentence(wording.ASK[kind], what=pick.what), pick.reads, (), answer, pick.ids, notes
    )


# ---- medium: several tasks, by a common property --------------------------------------------------------------------


def _change(drafter: Drafter) -> Part:
    pick = drafter.by_filter_except(*drafter.many) if drafter.rng.below(4) == 0 else drafter.by_filter(*drafter.many)
    return _change_of(drafter, pick)


def _change_of(drafter: Drafter, pick: Pick) -> Part:
    """Draw a change that is possible for several tasks."""
    repeat = all(drafter.board.tasks[tid].every for tid in pick.ids)
    return edits.change(drafter, drafter.rng.choice((*edits.OF_SEVERAL, *("stop",) * 3 * repeat)), pick)


def _several(drafter: Drafter) -> Part:
    """Draw a change of several tasks, half of the time with a question for their number."""
    part = _change(drafter)
    if drafter.rng.below(2):
        return part
    text = f"{part.text} {drafter.sentence(wording.COUNT)}"
    notes = (f"{part.notes[0]} How many?", *part.notes[1:])
    return replace(part, text=text, answer=str(len(part.ids)), notes=notes)


def _count(drafter: Drafter, name: str = "", number: int = 1) -> Part:
    """Draw a question for the number of tasks that a filter of this name finds."""
    return _question(drafter, "count", drafter.by_filter(number, number, name), str(number))


def _which(drafter: Drafter) -> Part:
    pick = drafter.by_search()
    return _question(drafter, "which", pick, drafter.board.tasks[pick.ids[0]].title)


def _change_of_searched(drafter: Drafter) -> Part:
    """Draw a change of a task that must be searched."""
    return _change_of(drafter, drafter.by_search())


def _project(drafter: Drafter) -> Part:
    return edits.new_project(drafter, drafter.by_title() if drafter.rng.below(2) else drafter.by_filter(2, 3))


# ---- hard: two parts, or one that depends on a number ---------------------------------------------------------------


def _two_parts(drafter: Drafter) -> Part:
    templates = drafter.rng.sample(_PARTS, 2)
    first, second = (_retry(drafter, template) for template in templates)
    if set(first.ids) & set(second.ids):
        raise NoFitError
    with_first, with_second = _board_after(drafter, first), _board_after(drafter, second)
    if not same_board(
        _board_after(drafter, second, with_first), _board_after(drafter, first, with_second), drafter.board
    ):
        raise NoFitError
    _require_independent(drafter, first, with_second)
    _require_independent(drafter, second, with_first)
    answer = first.answer or second.answer
    if first.answer and second.answer:
        raise NoFitError
    part = Part(
        f"{first.kind} and {second.kind}",
        drafter.say(wording.JOIN, first=first.text, second=second.text),
        (*first.reads, *second.reads),
        (*first.calls, *second.calls),
        answer,
        (*first.ids, *second.ids),
        tuple(note for part in (first, second) if part.reads for note in part.notes),
    )
    if _shorter_by_labels(drafter, part) or _shorter_by_sections(drafter, part):
        raise NoFitError
    return part


def _shorter_by_labels(drafter: Drafter, part: Part) -> bool:
    """Tell whether it is shorter to delete a label, add it again and label the remaining tasks."""
    before, after = drafter.board.tasks, _board_after(drafter, part).tasks
    edits_of = Counter(call["label"] for name, call in part.calls if name in ("label_task", "unlabel_task"))
    removed = {call["label"] for name, call in part.calls if name == "unlabel_task"}
    remaining = Counter(label for tid in before if not after[tid].deleted for label in after[tid].labels)
    return any(2 + remaining[label] < edits_of[label] for label in removed)


def _shorter_by_sections(drafter: Drafter, part: Part) -> bool:
    """Tell whether it is shorter to delete a section that is or becomes empty and rename another one to it."""
    before, goal = drafter.board.tasks, _board_after(drafter, part)
    moves = Counter(
        (row.project, row.section, goal.tasks[tid].section)
        for tid, row in before.items()
        if row.section and not goal.tasks[tid].deleted and row.project == goal.tasks[tid].project
    )
    for (project, origin, target), moved in moves.items():
        stays = origin in goal.sections[project]  # and must be added again
        renaming = 2 + stays + moves[project, origin, origin]
        if target not in ("", origin) and not moves[project, target, target] and renaming < moved + (not stays):
            return True
    return False


def _require_independent(drafter: Drafter, part: Part, board: Board) -> None:
    """Raise NoFitError if a part means other tasks on the board that another part leaves."""
    before, after = App(drafter.board, drafter.today), App(board, drafter.today)
    for name, arguments in part.reads:
        if TOOLS[name].run(before, **arguments) != TOOLS[name].run(after, **arguments):
            raise NoFitError


def _retry(drafter: Drafter, template: Template) -> Part:
    """Draw a part of a template, with several tries."""
    for _ in range(_TRIES):
        try:
            return template(drafter)
        except NoFitError:
            pass
    raise NoFitError


def _if(drafter: Drafter) -> Part:
    """Draw one of two parts, by a number that must be counted."""
    counted = drafter.by_filter(1, 12)
    yes, no = (_retry(drafter, _change if drafter.rng.below(2) else _change_of_searched) for _ in range(2))
    limit = max(0, len(counted.ids) + (-1, -2, 0, 1)[drafter.rng.below(4)])
    chosen = yes if len(counted.ids) > limit else no
    text = drafter.sentence(wording.IF, what=counted.what, n=limit, yes=yes.text, no=no.text)
    reads = (*counted.reads, *chosen.reads)
    verdict = f"{len(counted.ids)} is {'' if chosen is yes else 'not '}more than {limit}."
    notes = (*counted.notes(f"if more than {limit}"), f"{verdict} {chosen.notes[0]}", *chosen.notes[1:])
    return Part(f"if: {chosen.kind}", text, reads, chosen.calls, ids=chosen.ids, notes=notes)


_AIMS = {
    "when": "its due date",
    "where": "its project",
    "note": "its comment",
    "count": "how many",
    "which": "its title",
}
"""The questions, for thoughts."""
_PARTS: tuple[Template, ...] = (
    _several,
    _several,
    _change_of_searched,
    _change_of_searched,
    _project,
    edits.empty_section,
    edits.add,
)
_TEMPLATES: Mapping[str, tuple[Template, ...]] = {
    "easy": (_one, _one, _one, _one, _one, _one, _lookup, edits.add, _name),
    "medium": (_several, _several, _several, _several, _several, _change_of_searched, _change_of_searched, _project,
               _count, _which, edits.empty_section),
    "hard": (_two_parts, _two_parts, _two_parts, _if),
}  # fmt: skip
