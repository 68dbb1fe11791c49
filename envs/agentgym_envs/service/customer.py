"""The customer: what they answer to each act of the agent. It depends on the conversation alone and never errs.

A customer speaks of one wish at a time: the first that they have said and that is not settled. They tell facts only
when asked, except those that they mention at once. They say yes to a change only if it is what they want now. They
change their mind about a wish at most once, when the change that they asked for at first is proposed. They do not know
the answers to their questions, but whoever tries one answer after another loses them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentgym_envs.service.answers import answers, read
from agentgym_envs.service.conversation import Conversation
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
    puzzle, number = talk.puzzle, talk.current()
    if about == "identity":
        facts = list(puzzle.identity.values())
    elif number is not None and about in talk.facts(number):
        facts = [talk.facts(number)[about]]
    else:
        return puzzle.speak("unknown")
    if about not in talk.asked:
        talk.asked.append(about)
    return " ".join(map(puzzle.state_fact, facts))


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
    """Take note of an answer; ask back if there are several, and leave at a second wrong one, because it is guessed.

    An answer to a question that is not spoken of yet counts unless another one was heard before it.
    """
    puzzle, asks = talk.puzzle, talk.current()
    questions = [number for number in range(talk.raised) if puzzle.wishes[number].answer and number not in talk.told]
    heard = {number: _hear(talk, number, text) for number in questions}
    if asks in heard and len(heard[asks]) > 1:
        return puzzle.speak("which")
    guessed = [] if asks in heard else [*talk.misinformed]
    right = [n for n in questions if heard[n] == [puzzle.wishes[n].answer] and n not in guessed]
    talk.told += right
    talk.costs["unidentified"] += bool(right) and not talk.found
    if asks is None or asks not in heard:
        for number in questions:
            if number not in right and len(heard[number]) == 1:
                talk.misinformed.setdefault(number, heard[number][0])
        return puzzle.speak("told")
    if not right and heard[asks] and talk.misinformed.setdefault(asks, heard[asks][0]) != heard[asks][0]:
        talk.ending = "left"
        return puzzle.speak("contradicted")
    return puzzle.speak("told")


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
    """Do something on one's own device and say what happened."""
    puzzle, steps = talk.puzzle, talk.puzzle.domain.steps or {}
    faults = [fault for wish in puzzle.wishes for fault in wish.faults if fault not in talk.fixed]
    if step == "check_phone":
        return puzzle.speak("faults", value=" and ".join(faults)) if faults else puzzle.speak("no faults")
    if steps[step] not in faults:
        return puzzle.speak("in vain")
    talk.fixed.append(steps[step])
    return puzzle.speak("works" if len(faults) == 1 else "done")


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
