"""The customer: what they answer to each act of the agent. It depends on the conversation alone and never errs.

A customer speaks of one wish at a time: the first that they have said and that is not settled. They tell facts only
when asked, except those that they mention at once. They say yes to a change only if it is what they want now. They
change their mind about a wish at most once, when the change that they asked for at first is proposed. They do not know
the answers to their questions, so they believe the first one. They leave after a second needless step on their phone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentgym_envs.service.answers import answers, read
from agentgym_envs.service.conversation import PATIENCE, Conversation
from agentgym_envs.service.desk import Call
from agentgym_envs.service.tool import Tool


def open_conversation(talk: Conversation) -> str:
    """Return the customer's first words: greeting, wishes and the facts that they mention at once."""
    puzzle = talk.puzzle
    sentences = [puzzle.speak("hello")]
    if puzzle.says_identity:
        sentences += map(puzzle.state_fact, puzzle.identity.values())
    for number in range(puzzle.together):
        sentences += [puzzle.speak("also")] * bool(number) + [_say_wish(talk, number)]
    return " ".join(sentences)


def _say_wish(talk: Conversation, number: int) -> str:
    puzzle, wish, facts = talk.puzzle, talk.puzzle.wishes[number], talk.facts(number)
    words = puzzle.speak(f"{puzzle.domain.name} {wish.kind}")
    return " ".join((words, *(puzzle.state_fact(facts[topic]) for topic in wish.given)))


def ask(talk: Conversation, about: str) -> str:
    """Answer a question."""
    puzzle, present = talk.puzzle, talk.current()
    numbers = range(talk.raised) if present is None else (present, *range(talk.raised))
    number = next((number for number in numbers if about in talk.facts(number)), None)
    if about != "identity" and number is None:
        return puzzle.speak("unknown")
    if (about == "identity" or number == present) and about not in talk.asked:
        talk.asked.append(about)
    if number is None:
        return " ".join(map(puzzle.state_fact, puzzle.identity.values()))
    return puzzle.state_fact(talk.facts(number)[about])


def propose(talk: Conversation, change: str, details: Mapping[str, Any]) -> str:
    """Say yes to the change that is wanted, no to another one; or change one's mind."""
    tool = talk.tools[change]
    puzzle = talk.puzzle
    call = change, puzzle.spell(tool.check(details))
    for number in range(talk.raised):
        wish = puzzle.wishes[number]
        if wish.call and not talk.is_settled(number):
            if wish.first and number not in talk.switched and _same(tool, call, wish.first):
                talk.switched.append(number)
                return f"{puzzle.speak('switch')} {puzzle.state_fact(wish.facts[wish.new_topic])}"
            if _same(tool, call, wish.call):
                if wish.first and number not in talk.switched:
                    talk.switched.append(number)
                if call not in talk.confirmed:
                    talk.confirmed.append(call)
                return puzzle.speak("yes")
    return puzzle.speak("no")


def _same(tool: Tool, call: Call, wanted: Call) -> bool:
    """Compare all that the customer knows: not the amounts that the agent computes."""
    known = [name for name in tool.parameters if name not in tool.computed]
    return call[0] == wanted[0] and all(call[1][name] == wanted[1][name] for name in known)


def tell(talk: Conversation, text: str) -> str:
    """Take note of an answer, whether it is right or wrong; ask for it again if there is none or several.

    An answer to another question than the present one counts too, a wrong one only if it does not answer the present.
    """
    puzzle, asks = talk.puzzle, talk.current()
    closed = (*talk.told, *talk.misinformed)
    questions = [number for number in range(talk.raised) if puzzle.wishes[number].answer and number not in closed]
    heard = {number: _hear(talk, number, text) for number in questions}
    present = heard.get(asks, []) if asks is not None else []
    if len(present) > 1:
        return puzzle.speak("which")
    right = [number for number in questions if heard[number] == [puzzle.wishes[number].answer]]
    wrong = [n for n in questions if n not in right and len(heard[n]) == 1 and (n == asks or not present)]
    talk.told += right
    talk.misinformed += wrong
    talk.costs["unidentified"] += bool(right) and not talk.found
    return puzzle.speak("told" if right or wrong or asks not in questions else "again")


def _hear(talk: Conversation, number: int, text: str) -> list[str]:
    """Return the answers to a question that a text may give.

    What identifies the customer or the row in question, and answers to other questions, are none.
    """
    puzzle, wish = talk.puzzle, talk.puzzle.wishes[number]
    others = [puzzle.wishes[other] for other in range(talk.raised) if other != number]
    known = [
        *puzzle.names,
        *(value for _, value in wish.all_facts),
        *(puzzle.wishes[told].answer for told in talk.told),
    ]
    said = [value for other in others for _, value in other.all_facts]
    ignored, mentioned = ({word for value in values for word in read(value, puzzle.today)} for values in (known, said))
    return answers(text, wish.answer, puzzle.today, ignored, mentioned)


def refuse(talk: Conversation, rule: str) -> str:
    """Accept a refusal by a rule that forbids a wish; leave after any other one."""
    puzzle = talk.puzzle
    for number in range(talk.raised):
        if number not in talk.refused and rule in puzzle.wishes[number].codes:
            talk.refused.append(number)
            words = puzzle.speak("refused")
            following = number + 1
            if following == talk.raised < len(puzzle.wishes) and puzzle.wishes[following].is_fallback:
                talk.raised += 1
                words = f"{words} {puzzle.speak('instead')} {_say_wish(talk, following)}"
            return words
    talk.ending = "left"
    talk.costs["wrong_refusal"] += 1
    return puzzle.speak("leave")


def instruct(talk: Conversation, step: str) -> str:
    """Do something on one's own device and say what happened; leave after too many steps in vain."""
    puzzle, steps, faults = talk.puzzle, talk.puzzle.domain.steps or {}, talk.faults()
    if step == "check_phone":
        seen = " and ".join(puzzle.phrase(f"fault {fault}") for fault in faults)
        return puzzle.speak("faults", value=seen) if faults else puzzle.speak("no faults")
    if steps[step] in faults:
        talk.fixed.append(steps[step])
        return puzzle.speak("done" if talk.faults() else "works")
    talk.needless += 1
    if talk.needless > PATIENCE:
        talk.ending = "left"
        return puzzle.speak("impatient")
    return puzzle.speak("in vain")


def transfer(talk: Conversation) -> str:
    """Be transferred, which ends the conversation."""
    number = talk.current()
    talk.ending = "transferred"
    talk.costs["needless_transfer"] += number is None or not talk.puzzle.wishes[number].no_tool
    return talk.puzzle.speak("transferred")


def close(talk: Conversation) -> str:
    """Say the next wish, or goodbye."""
    puzzle, following = talk.puzzle, talk.raised
    if following < len(puzzle.wishes) and not puzzle.wishes[following].is_fallback:
        talk.raised += 1
        return f"{puzzle.speak('more')} {_say_wish(talk, following)}"
    talk.ending = "closed"
    return puzzle.speak("bye" if talk.current() is None else "bye unsettled")


ACTS: Mapping[str, Callable[..., str]] = {
    "ask": ask, "propose": propose, "tell": tell, "refuse": refuse, "instruct": instruct, "transfer": transfer,
    "close": close,
}  # fmt: skip
"""Act of the agent to the customer's answer."""
