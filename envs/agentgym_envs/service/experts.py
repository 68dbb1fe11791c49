"""The exact expert, which knows the task, and the fair one, which first finds out what the task depends on."""

from __future__ import annotations

from agentgym_envs.service.conversation import Conversation, needed_calls
from agentgym_envs.service.desk import Call


def plan(talk: Conversation) -> list[Call]:
    """Return a plan from the present state that settles all wishes and violates nothing.

    It takes back all changes from the first one on that no wish needs, then settles the wishes in their order.
    """
    if talk.ending:
        return []
    wishes = talk.puzzle.wishes
    kept = _kept(talk)
    calls: list[Call] = [("undo_last_change", {})] * (len(talk.desk.history) - len(kept))
    found = talk.found
    for number, wish in enumerate(wishes):
        if number >= talk.raised and not wish.is_fallback:
            calls.append(("close", {}))  # the customer says the next wish
        steps = _steps(talk, number, kept)
        if not found and _needs_customer(steps):
            calls.append(talk.puzzle.find)
            found = True
        calls += steps
    return calls if wishes[-1].no_tool else [*calls, ("close", {})]


def _kept(talk: Conversation) -> list[Call]:
    """Return the changes before the first one that no wish needs."""
    needed, kept = needed_calls(talk.puzzle.wishes), list[Call]()
    for call, _ in talk.desk.history:
        if call not in needed:
            break
        needed.remove(call)
        kept.append(call)
    return kept


def _steps(talk: Conversation, number: int, kept: list[Call]) -> list[Call]:
    """Return the calls that settle a wish that the customer has said."""
    wish = talk.puzzle.wishes[number]
    if wish.no_tool:
        return [("transfer", {})]
    if wish.codes:
        return [] if number in talk.refused else [("refuse", {"rule": wish.codes[0]})]
    if wish.answer:
        return [] if number in (*talk.told, *talk.misinformed) else [("tell", {"text": wish.answer})]
    repairs = {fault: step for step, fault in (talk.puzzle.domain.steps or {}).items()}
    steps: list[Call] = [("instruct", {"step": repairs[fault]}) for fault in wish.faults if fault not in talk.fixed]
    if wish.call and wish.call not in kept:
        propose: Call = ("propose", {"change": wish.call[0], "details": wish.call[1]})
        steps += [wish.call] if wish.call in talk.confirmed else [propose, wish.call]
    return steps


def _needs_customer(steps: list[Call]) -> bool:
    return any(name not in ("transfer", "refuse", "instruct") for name, _ in steps)


def fair_call(talk: Conversation) -> Call | None:
    """Return the next call of the fair expert; None after the end.

    It has a phone checked first. For the present wish it asks who calls, identifies them, asks for the facts that the
    customer has not said, and does the lookups on which the decision depends. Then it does what the exact expert does,
    except that it proposes the change that the customer has asked for.
    """
    steps = plan(talk)
    number = talk.current()
    if not steps or number is None or steps[0][0] == "undo_last_change":
        return steps[0] if steps else None
    missing = finding_out(talk, number)
    if missing:
        return missing
    wanted = talk.wanted(number)
    if wanted and wanted != talk.puzzle.wishes[number].call:
        return ("propose", {"change": wanted[0], "details": wanted[1]})
    return steps[0]


def finding_out(talk: Conversation, number: int) -> Call | None:
    """Return the next question or lookup that the present wish needs; None if there is none."""
    puzzle, wish = talk.puzzle, talk.puzzle.wishes[number]
    if wish.no_tool:
        return None
    if wish.is_repair and wish.reads[0] not in talk.reads:
        return wish.reads[0]  # the check says whether the database matters
    if not talk.found and (wish.call or wish.answer):
        if not puzzle.says_identity and "identity" not in talk.asked:
            return ("ask", {"about": "identity"})
        return puzzle.find
    asked = talk.asked if talk.present == number else []
    for topic in talk.facts(number):
        if topic not in wish.given and topic not in asked:
            return ("ask", {"about": topic})
    return next((read for read in wish.reads if read not in talk.reads), None)


_LABELS = {
    "identity": "who they are", "order": "which order", "booking": "which booking", "line": "which line",
    "bill": "which bill", "new_product": "what they want instead", "product": "which product", "new_day": "the new day",
    "new_name": "the right name", "new_email": "the new e-mail", "passenger": "which passenger",
}  # fmt: skip
"""Topics in thoughts, if they are not their own name."""


def thought(talk: Conversation, call: Call) -> str:
    """Return what a teacher thinks before a call: what is still unknown, or the facts that decide and what follows."""
    name, arguments = call
    number = talk.current()
    if name == "undo_last_change":
        return "That change was not wanted."
    if number is None or name == "close":
        return "This is settled."
    wish, wanted = talk.puzzle.wishes[number], talk.wanted(number)
    if name == "ask":
        return f"I need to know {_LABELS.get(arguments['about'], 'the ' + arguments['about'])}."
    if name.startswith("find_"):
        return "First I identify the customer."
    if name == "transfer":
        return "No tool can do that."
    if name == "tell":
        return f"The answer is {wish.answer}."
    if name == "refuse":
        return f"{_sentence(wish.why)}: {arguments['rule']} forbids it."
    if name == "propose":
        return f"{_sentence(wish.why if wanted == wish.call else wish.first_why)}: allowed."
    if name == "instruct":
        faults = talk.puzzle.domain.steps or {}
        fault = faults[arguments["step"]]
        return f"{_sentence(fault)}." if fault else "First the phone must be checked."
    if call == wanted:
        return "They said yes."
    return _LOOKUPS.get(name, "I look at {}.").format(*arguments.values()) if call in wish.reads else ""


_LOOKUPS = {
    "get_customer": "I look whether it is theirs.",
    "list_plans": "I look at the plans.",
    "list_products": "I look for a {}.",
    "search_flights": "I look for flights from {} to {}.",
}
"""Thoughts before lookups, if it is not enough to name a row."""


def _sentence(text: str) -> str:
    return text if any(char.isdigit() for char in text.split()[0]) else text[:1].upper() + text[1:]
