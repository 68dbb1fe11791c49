"""The exact expert, which knows everything, and the fair one, which knows what the episode has shown."""

from __future__ import annotations

from agentgym_envs.lab.commands import parse
from agentgym_envs.lab.families import FAMILIES
from agentgym_envs.lab.lab import Lab
from agentgym_envs.lab.planner import LostError, Planner
from agentgym_envs.lab.verbs import do

_LONGEST_PLAN = 500


def advise(lab: Lab, fair: bool) -> tuple[str, str]:
    """Return the next command of an expert and the thought before it; LostError if the fair one is lost."""
    planner = Planner(lab, fair)
    command = FAMILIES[lab.puzzle.goal.kind].advise(planner)
    return command, planner.why


def plan(lab: Lab) -> list[str]:
    """Return a plan from the present state, by trying the advice out in a copy."""
    lab, commands = lab.copy(), list[str]()
    family = FAMILIES[lab.puzzle.goal.kind]
    while len(commands) < _LONGEST_PLAN:
        text, _ = advise(lab, fair=False)
        commands.append(text)
        command = parse(text)
        assert command is not None
        do(lab, command)
        if family.progress(lab)[-1]:
            return commands
    raise AssertionError(f"no plan in {_LONGEST_PLAN} steps for {lab.puzzle.goal}")


def fair_command(lab: Lab) -> str | None:
    """Return the next command of the fair expert; None if it has searched everywhere."""
    try:
        return advise(lab, fair=True)[0]
    except LostError:
        return None


def thought(lab: Lab, action: str) -> str:
    """Return the fair expert's thought before an action, or the exact one's; empty before other actions."""
    for fair in (True, False):
        try:
            command, why = advise(lab, fair)
        except LostError:
            continue
        if command == action:
            return why
    return ""
