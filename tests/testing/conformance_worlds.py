"""A small world that keeps the contract, and one that breaks it for each check; other processes import this module."""

from __future__ import annotations

import os
import random  # noqa: TID251  # a world that uses it must be found out
import re
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from agentgym_py.env import GeneratedEnv, Outcome, Reply, Task
from agentgym_py.env.generated import Draft
from agentgym_py.env.spaces import UnicodeText
from agentgym_py.rng import Rng

DIGITS = 4
ASKERS = {"train": "Ann", "valid": "Bob", "test": "Cem"}


class Honest(GeneratedEnv[str]):
    """ConformanceHonest-v0. Task: open a safe by its four digits. Actions: `ask[place]` for a digit, `open[digits]`.

    Observation: the digit. Reward: 1 for the right digits. End: the safe is open. Who asked is another in each split.
    """

    name = "conformance"
    limits: ClassVar[Mapping[str, int]] = {"medium": 12}
    rules: ClassVar[Mapping[str, str]] = {
        "full": "Write ask[1] or open[1234].",
        "brief": "ask[1], open[1234]",
        "none": "",
    }

    def draft(self, rng: Rng, split: str) -> Draft[str]:
        """Four digits, and a request that does not say them."""
        code = "".join(str(rng.below(10)) for _ in range(DIGITS))
        return Draft(f"Open safe {rng.below(1 << 40)} for {ASKERS[split]}.", code, "safe", 1)

    def begin(self, task: Task) -> str:
        """Nothing is known."""
        self.known: list[int] = []
        return task.instruction

    def act(self, reply: Reply) -> Outcome:
        """Ask or open."""
        name, argument = reply.name, reply.argument or ""
        if name == "open" and len(argument) == DIGITS and argument.isdigit():
            right = argument == self.puzzle
            return Outcome("Open." if right else "Closed.", float(right), terminated=right, success=right)
        if name == "ask" and argument in ("1", "2", "3", "4"):
            self.known.append(int(argument))
            return Outcome(f"Digit {argument} is {self.puzzle[int(argument) - 1]}.")
        return Outcome("Write ask[1] or open[1234].", valid=False)

    def state(self) -> dict[str, Any]:
        """What was asked."""
        return {"known": list(self.known)}

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Take it up."""
        known = state["known"]
        if type(known) is not list or not all(type(each) is int and 1 <= each <= DIGITS for each in known):
            raise ValueError(f"not places that were asked: {known!r}")
        self.known = list(known)

    def expert(self) -> list[str]:
        """Knows them."""
        return [] if self.stop_reason == "terminated" else [f"open[{self.puzzle}]"]

    def actions(self) -> list[str]:
        """Questions, and an attempt."""
        return [*(f"ask[{n}]" for n in range(1, DIGITS + 1)), "open[0000]"]

    def secrets(self) -> list[str] | None:
        """The digits."""
        return [self.puzzle]


class ByTools(Honest):
    """The same, which lists no actions but has tools."""

    def actions(self) -> None:  # type: ignore[override]  # as TextEnv has it
        """None are listed."""

    def tools(self) -> list[dict[str, Any]]:
        """One that asks, one that opens, and one of each kind of parameter."""
        kinds: dict[str, Any] = {name: {"type": name} for name in ("boolean", "number", "null", "object", "string")}
        kinds |= {
            "list": {"type": "array", "items": {"type": "integer"}},
            "either": {"type": ["integer", "string"]},
            "any": {},
        }
        place = {"place": {"type": "integer", "enum": [1, 2, 3, 4]}}
        return [
            {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}}
            for name, properties in (("ask", place), ("open", {"digits": {"type": "string"}}), ("kinds", kinds))
        ]


class Few(Honest):
    """The same, with seven tasks a split."""

    def task(self, name: str | int, split: str | None = None) -> Task:
        """Only the first ones."""
        found = super().task(name, split)
        if int(found.id.rsplit("/", 1)[1]) >= 7:
            return super().task("none")
        return found

    def sample_task(self, split: str) -> Task:
        """One of them."""
        return self.task(self.rng.below(7), split)


# ------------------------------------------------------------------------------------------------- one fault for each


class BadSpace(Honest):
    """Observes what is not in its space."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.observation_space = UnicodeText(3)


class OtherProcess(Honest):
    """Tells its process."""

    def begin(self, task: Task) -> str:
        """With a number that is another in each."""
        return f"{super().begin(task)} {os.getpid()}"


class AllValid(Honest):
    """Calls everything valid."""

    def act(self, reply: Reply) -> Outcome:
        """Whatever it was."""
        found = super().act(reply)
        return Outcome(found.observation, found.reward, found.terminated, found.success, True)


class Remembers(Honest):
    """Greets who comes again."""

    came = False

    def begin(self, task: Task) -> str:
        """The second time."""
        again = "Welcome back. " * self.came
        self.came = True
        return again + super().begin(task)


class Shared(Honest):
    """Asks the same in every split."""

    def draft(self, rng: Rng, split: str) -> Draft[str]:
        """Of one person."""
        return Draft(f"Open safe {rng.below(20)}.", super().draft(rng, split).puzzle, "safe", 1)


class NoCard(Honest):  # that is its fault
    pass


NoCard.__doc__ = "Open a safe."


class Hashed(Honest):
    """Depends on the hash seed."""

    def actions(self) -> list[str]:
        """In the order of a set."""
        return list({*super().actions()})


class Forgets(Honest):
    """A count that is in no snapshot."""

    count = 0

    def act(self, reply: Reply) -> Outcome:
        """With a number."""
        self.count += 1
        found = super().act(reply)
        return Outcome(f"{self.count}: {found.observation}", found.reward, found.terminated, found.success, found.valid)

    def begin(self, task: Task) -> str:
        """From nought."""
        self.count = 0
        return super().begin(task)


class ForgetsToForget(Honest):
    """A restored instance keeps a count that it had: only one that has played shows it."""

    count = 0

    def act(self, reply: Reply) -> Outcome:
        """With a star after five steps."""
        self.count += 1
        found = super().act(reply)
        star = "*" * (self.count > 5 and self.steps < 5)
        return Outcome(star + found.observation, found.reward, found.terminated, found.success, found.valid)

    def begin(self, task: Task) -> str:
        """From nought."""
        self.count = 0
        return super().begin(task)


class Unrestored(Honest):
    """Takes up no episode in which the fourth digit was asked for."""

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """There is no such place."""
        self.known = [[0, 1, 2, 3][place] for place in state["known"]]


class ForgetsLate(Honest):
    """A snapshot holds the first three questions."""

    def state(self) -> dict[str, Any]:
        """Cut short."""
        return {"known": self.known[:3]}

    def act(self, reply: Reply) -> Outcome:
        """With their number."""
        found = super().act(reply)
        said = f"{len(self.known)}: {found.observation}"
        return Outcome(said, found.reward, found.terminated, found.success, found.valid)


class Redraws(Honest):
    """Draws another code when it is restored, which only the expert shows: no actions are listed."""

    def begin(self, task: Task) -> str:
        """From a generator that `load_state` finds in another state."""
        self.code = f"{self.rng.below(10**DIGITS):04}"
        return super().begin(task)

    def act(self, reply: Reply) -> Outcome:
        """Open with that code."""
        right = reply.name == "open" and reply.argument == self.code
        return Outcome("Open." if right else "Closed.", float(right), terminated=right, success=right)

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Begin again."""
        self.begin(task)
        super().load_state(task, state)

    def expert(self) -> list[str]:
        """Knows the code."""
        return [] if self.stop_reason == "terminated" else [f"open[{self.code}]"]

    def actions(self) -> None:  # type: ignore[override]  # as TextEnv has it
        """None are listed."""


class RedrawsReply(Redraws):
    """The same, with an expert that has one plan for all: the step's reply is another."""

    def expert(self) -> list[str]:
        """Asks the safe itself."""
        return [] if self.stop_reason == "terminated" else ["peek"]

    def act(self, reply: Reply) -> Outcome:
        """Show the code at the end."""
        peeks = reply.name == "peek"
        return Outcome(f"It was {self.code}." if peeks else "Closed.", float(peeks), terminated=peeks, success=peeks)


class Entangled(Honest):
    """All instances share what is known."""

    asked: ClassVar[list[int]] = []

    def begin(self, task: Task) -> str:
        """The one list."""
        super().begin(task)
        self.known = self.asked
        self.known.clear()
        return task.instruction

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Into the one list."""
        super().load_state(task, state)
        self.asked[:] = self.known
        self.known = self.asked


class Questioned(Honest):
    """Draws from its generator when it is asked for a plan."""

    def expert(self) -> list[str]:
        """Right, but not for nothing."""
        self.rng.bits()
        return super().expert()


class Gullible(Honest):
    """Takes any state."""

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Whatever it is."""
        self.known = list(state["known"])

    def act(self, reply: Reply) -> Outcome:
        """Says all digits that are known."""
        found = super().act(reply)
        digits = "".join(self.puzzle[place - 1] for place in self.known)
        return Outcome(f"{digits}. {found.observation}", found.reward, found.terminated, found.success, found.valid)


class Halfway(Honest):
    """Refuses a bad state after it has taken half of it."""

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """The changes come first."""
        self.known = []
        super().load_state(task, state)


class Wrong(Honest):
    """An expert that does not know digits above 8."""

    def expert(self) -> list[str]:
        """Nearly right."""
        return [action.replace("9", "8") for action in super().expert()]


class Long(Honest):
    """An expert that is not optimal."""

    def expert(self) -> list[str]:
        """Asks first."""
        return ["ask[1]", *super().expert()]


class Pays(Honest):
    """Pays for each question: no reward is above `max_return`, but their sum is."""

    max_return: ClassVar[float | None] = 1.0

    def act(self, reply: Reply) -> Outcome:
        """Half of what the safe holds."""
        found = super().act(reply)
        return replace(found, reward=0.5) if reply.name == "ask" and found.valid else found


class Refunds(Honest):
    """Takes money for each question and gives it back at the end: no return is above `max_return`, but a reward is."""

    max_return: ClassVar[float | None] = 1.0

    def act(self, reply: Reply) -> Outcome:
        """A quarter each."""
        found = super().act(reply)
        reward = found.reward + len(self.known) / 4 if found.success else -0.25 * (reply.name == "ask" and found.valid)
        return replace(found, reward=reward)


class Jams(Honest):
    """Cannot be solved any more after three questions, and continues."""

    def act(self, reply: Reply) -> Outcome:
        """Until it jams."""
        return Outcome("Jammed.") if len(self.known) >= 3 else super().act(reply)


class Lucky(Honest):
    """Lists the right digits."""

    def actions(self) -> list[str]:
        """Among the others."""
        return [*super().actions(), *super().expert()]


class WinsByNothing(Honest):
    """Opens to who says nothing."""

    def opens(self, reply: Reply) -> bool:
        """Not a word."""
        return not reply.action

    def act(self, reply: Reply) -> Outcome:
        """Or as it should be."""
        return Outcome("Open.", 1.0, terminated=True, success=True) if self.opens(reply) else super().act(reply)


class WinsByEcho(WinsByNothing):
    """Opens to its own words, which are no instruction."""

    def opens(self, reply: Reply) -> bool:
        """Those with which an episode begins."""
        return reply.action.startswith("Somebody calls.")

    def begin(self, task: Task) -> str:
        """Before the instruction."""
        return f"Somebody calls. {super().begin(task)}"


class WinsByPatience(WinsByNothing):
    """Opens to the same question asked six times."""

    def opens(self, reply: Reply) -> bool:
        """In a row."""
        return len(self.known) >= 6 and len(set(self.known[-6:])) == 1

    def actions(self) -> list[str]:
        """Questions alone."""
        return [f"ask[{n}]" for n in range(1, DIGITS + 1)]


class WinsByParrot(WinsByNothing):
    """Opens to the instruction, which the observation does not say as it is."""

    def opens(self, reply: Reply) -> bool:
        """To the letter."""
        return reply.action == self._require_reset().instruction

    def begin(self, task: Task) -> str:
        """With more behind it."""
        return f"{super().begin(task)} Please."


class HalfLucky(Honest):
    """Lists the right digits in one task of six: too few to stand out in fifteen episodes."""

    def actions(self) -> list[str]:
        """Among the others."""
        return [*super().actions(), *(super().expert() if int(self.puzzle) % 6 == 0 else [])]


class Encodes(Honest):
    """Writes what it is told to a log, which takes no half of a pair of surrogates."""

    def act(self, reply: Reply) -> Outcome:
        """As UTF-8."""
        reply.action.encode()
        return super().act(reply)


class Overflows(Honest):
    """Has a buffer of half a megabyte."""

    def act(self, reply: Reply) -> Outcome:
        """Which overflows."""
        if len(reply.action) > 1 << 19:
            raise MemoryError("the buffer is full")
        return super().act(reply)


class Hypothetical(Honest):
    """Stumbles over letters that no list of awkward strings has."""

    def act(self, reply: Reply) -> Outcome:
        """Those beyond the basic plane, but for the one emoji that everybody tries."""
        if any(each > "\uffff" and each != "\U0001f389" for each in reply.action) and len(reply.action) < 2:
            raise KeyError(reply.action)
        return super().act(reply)


class Parses(Honest):
    """Reads numbers without care."""

    def act(self, reply: Reply) -> Outcome:
        """As if every digit were one of ten."""
        argument = reply.argument or ""
        if argument.isdigit():
            int(argument)
        return super().act(reply)


class Hangs(Honest):
    """Takes long for a long text."""

    def act(self, reply: Reply) -> Outcome:
        """Sleeps over it."""
        if len(reply.action) > 5000:
            time.sleep(30)
        return super().act(reply)


class Backtracks(Honest):
    """Looks for the end of a call with two hungry gaps in a row."""

    def act(self, reply: Reply) -> Outcome:
        """Quadratic in what stands in the brackets."""
        re.fullmatch(r"\w+\W(\s*(\{\})?\s*)\)", reply.action)
        return super().act(reply)


class Tells(Honest):
    """Says the digits in `info`."""

    def extra_info(self) -> Mapping[str, Any]:
        """A note for the developer, as it may be left over."""
        return {"debug": {"code": self.puzzle}}


class TellsUnnamed(Tells):
    """The same, and names no secrets."""

    def secrets(self) -> None:
        """None."""


class TellsLater(Honest):
    """Says the digits after a wrong attempt."""

    def act(self, reply: Reply) -> Outcome:
        """In the answer."""
        found = super().act(reply)
        if found.observation == "Closed.":
            return Outcome(f"Closed, it is {self.puzzle}.")
        return found


class TellsLaterUnnamed(TellsLater):
    """The same, and names no secrets."""

    def secrets(self) -> None:
        """None."""


class Global(Honest):
    """Draws from Python's generator."""

    def begin(self, task: Task) -> str:
        """Once."""
        random.random()
        return super().begin(task)


class GlobalLoses(Honest):
    """Draws from Python's generator, now and then beyond what there is."""

    def begin(self, task: Task) -> str:
        """The number of a note."""
        self.note = random.randrange(2)
        return super().begin(task)

    def expert(self) -> list[str]:
        """Looks at the note, of which there is one."""
        "a"[self.note]
        return super().expert()


class GlobalNumpy(Honest):
    """Seeds numpy's generator."""

    def begin(self, task: Task) -> str:
        """So that others draw from it what they drew before."""
        np.random.seed(0)  # noqa: NPY002  # a world that does so must be found out
        return super().begin(task)


class RemembersTasks(Honest):
    """A cache without bounds, by task."""

    solved: ClassVar[dict[str, str]] = {}
    much = 30_000

    def begin(self, task: Task) -> str:
        """Kept for the next time."""
        self.solved.setdefault(task.id, task.id[-1] * self.much)
        return super().begin(task)


class GrowsBig(RemembersTasks):
    """The same with a megabyte of each."""

    solved: ClassVar[dict[str, str]] = {}
    much = 1_000_000


class Raises(Honest):
    """Fails in a rare task."""

    def begin(self, task: Task) -> str:
        """One of thirty."""
        if int(self.puzzle_of(task)) % 30 == 0:
            raise ZeroDivisionError(task.id)
        return super().begin(task)


class NeverBegins(Honest):
    """ConformanceNeverBegins-v0. Task, action, observation, reward and end: none, for it raises in a helper."""

    def begin(self, task: Task) -> str:
        """By way of another method."""
        return self._opened(task.instruction)

    def _opened(self, text: str) -> str:
        return text + [text][1]


class Hoards(Honest):
    """Keeps what it has seen."""

    kept: ClassVar[list[str]] = []

    def begin(self, task: Task) -> str:
        """Forever."""
        self.kept.append(task.instruction * 10)
        return super().begin(task)


class ListsNonsense(Honest):
    """Lists what it refuses."""

    def actions(self) -> list[str]:
        """Digits that are not there."""
        return [f"ask[{n}]" for n in range(7, 20)]


class Cheats(Honest):
    """A fair expert that knows the digits, though all its safes look the same."""

    def draft(self, rng: Rng, split: str) -> Draft[str]:
        """The request says who asks, no more."""
        drawn = super().draft(rng, split)
        return Draft(f"Open a safe for {ASKERS[split]}.", drawn.puzzle, drawn.kind, drawn.optimal_steps)

    def fair_expert(self) -> str | None:
        """Asks, and opens before it could know them all."""
        return "ask[1]" if not self.known else f"open[{self.puzzle}]"


class Fair(Cheats):
    """The same, which opens when it has seen each digit: it works the secret out."""

    def fair_expert(self) -> str | None:
        """One digit after another."""
        return f"ask[{len(self.known) + 1}]" if len(self.known) < DIGITS else f"open[{self.puzzle}]"


class Unlimited(Honest):
    """Ignores its limit."""

    def __init__(self, *, max_steps: int = 12, **kwargs: Any) -> None:
        super().__init__(**kwargs)


class InfoSet(Honest):
    """Tells what JSON does not hold."""

    def extra_info(self) -> Mapping[str, Any]:
        """A set."""
        return {"places": {1, 2}}


class Prints(Honest):
    """Talks to the terminal."""

    def act(self, reply: Reply) -> Outcome:
        """Says what is done."""
        print("doing", reply.action)
        return super().act(reply)


class NoNumbers(Honest):
    """Knows its tasks by their ids alone."""

    def task(self, name: str | int, split: str | None = None) -> Task:
        """A number is no id."""
        return super().task("none" if isinstance(name, int) else name, split)


class TellsListed(Tells):
    """Names no secrets, lists the right digits among others, and tells them."""

    def actions(self) -> list[str]:
        """The answer is one of them."""
        return [*super().actions(), f"open[{self.puzzle}]"]

    def secrets(self) -> None:
        """None are named."""


class Open(Honest):
    """Hides nothing."""

    def secrets(self) -> list[str]:
        """It says so."""
        return []


class Unnamed(Honest):
    """The last action is the same in each task, and no secret is named."""

    def draft(self, rng: Rng, split: str) -> Draft[str]:
        """One code for all."""
        drawn = super().draft(rng, split)
        return Draft(drawn.instruction, "4711", drawn.kind, drawn.optimal_steps)

    def secrets(self) -> None:
        """None are named."""


class HidesLater(Honest):
    """Names its secret only when something was asked."""

    def secrets(self) -> list[str] | None:
        """Nothing at first."""
        return super().secrets() if self.known else []


class LeavesFiles(Honest):
    """Opens a file in each episode."""

    opened: ClassVar[list[Any]] = []

    def begin(self, task: Task) -> str:
        """Open one more."""
        self.opened.append(open(os.devnull))  # noqa: SIM115, PTH123  # the fault
        return super().begin(task)


class Wanders(Honest):
    """Changes the working folder."""

    def begin(self, task: Task) -> str:
        """Go up."""
        os.chdir("..")
        return super().begin(task)


class SetsVariables(Honest):
    """Sets an environment variable."""

    def begin(self, task: Task) -> str:
        """To something secret."""
        os.environ["CONFORMANCE_KEY"] = "secret"
        return super().begin(task)


class Writes(Honest):
    """Writes a file into the working folder."""

    def begin(self, task: Task) -> str:
        """Of its task."""
        Path("task.txt").write_text(task.id, encoding="utf-8")
        return super().begin(task)


class LeavesThreads(Honest):
    """Starts a thread in each episode, which does not end."""

    def begin(self, task: Task) -> str:
        """Start one more."""
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        return super().begin(task)


class LeavesProcesses(Honest):
    """Starts a process in each episode, which takes long to end."""

    def begin(self, task: Task) -> str:
        """Start one more."""
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        return super().begin(task)
