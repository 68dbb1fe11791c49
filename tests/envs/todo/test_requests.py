"""Requests of two parts, which no other calls fulfil in fewer steps."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from datetime import date

import pytest
from guesses import best_guess

from agentgym_envs.todo import edits, requests
from agentgym_envs.todo.app import App
from agentgym_envs.todo.board import same_board
from agentgym_envs.todo.task_templates import Drafter, NoFitError, Part, Puzzle
from agentgym_envs.todo.tools import TOOLS
from agentgym_py.env import SPLITS
from agentgym_py.env.tools import RefusedError
from agentgym_py.rng import Rng


def _drawn(monkeypatch: pytest.MonkeyPatch, kind: str, seed: int) -> list[tuple[Puzzle, int]]:
    """Requests of two changes of a kind each, and how many calls they take."""

    def part(drafter: Drafter) -> Part:
        return edits.change(drafter, kind, drafter.by_filter(*drafter.many))

    monkeypatch.setattr(requests, "_PARTS", (part, part))
    drafter, found = Drafter(Rng("x", kind, kind, seed), "train", "hard"), []
    for _ in range(3):
        with suppress(NoFitError, RefusedError):
            draft = requests._draft(drafter, requests._two_parts(drafter))
            found.append((draft.puzzle, (draft.optimal_steps or 0) - 1))
    return found


@pytest.mark.parametrize("seed", [171, *range(40)])
def test_a_label_put_anew_is_no_shorter(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Two parts that take a label from tasks: to delete it and put it where it stays takes as many calls at least."""
    for puzzle, calls in _drawn(monkeypatch, "unlabel", seed):
        for label in puzzle.start.labels:
            app, rows = App(puzzle.start.copy(), puzzle.today), puzzle.goal.tasks
            kept = [tid for tid, row in rows.items() if label in row.labels and not row.deleted]
            TOOLS["delete_label"].run(app, label=label)
            TOOLS["add_label"].run(app, label=label)
            for tid in kept:
                TOOLS["label_task"].run(app, task=tid, label=label)
            assert not same_board(app.board, puzzle.goal, puzzle.start) or 2 + len(kept) >= calls


@pytest.mark.parametrize("seed", [4423, *range(40)])
def test_a_section_named_anew_is_no_shorter(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Two parts that move tasks: to name their section as one that the other part empties saves no call."""
    for puzzle, _ in _drawn(monkeypatch, "move", seed):
        ways: Counter[tuple[str, str, str, str]] = Counter()
        for tid, row in puzzle.start.tasks.items():
            if not row.deleted:
                ways[row.project, row.section, puzzle.goal.tasks[tid].project, puzzle.goal.tasks[tid].section] += 1
        for (project, here, to, there), moved in ways.items():
            if project == to and here and there and here != there and not ways[project, there, project, there]:
                assert moved <= 3 + ways[project, here, project, here], puzzle


@pytest.mark.parametrize("kind", ["when", "where", "note", "count", "which"])
@pytest.mark.parametrize("split", SPLITS)
def test_no_guess_answers_a_question(split: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither one answer, nor a word of the request, nor a number of days from today."""
    template = {"count": requests._count, "which": requests._which}.get(kind, requests._lookup)
    level = "medium" if kind in ("count", "which") else "easy"
    monkeypatch.setattr(requests, "_TEMPLATES", {level: (template,)})
    asked = []
    for number in range(300 if template is not requests._lookup else 900):
        draft = requests.draft(Rng("guess", number), split, level)
        puzzle = draft.puzzle
        if puzzle.notes[0].startswith(f"Asked: {requests._AIMS[kind]}."):
            asked.append((number, draft.instruction, puzzle.answer))
            if kind == "when":
                days = date.fromisoformat(puzzle.answer) - date.fromisoformat(puzzle.today)
                asked[-1] = (number, draft.instruction, str(days.days))
    assert len(asked) >= 50 and best_guess(asked) <= 0.3
