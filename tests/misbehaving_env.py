"""An env that misbehaves at task 1 in one of many ways, importable by worker processes."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import gymnasium
import numpy as np

from agentgym_py.agents import ExpertAgent, RandomAgent
from agentgym_py.env import Outcome, PartnerRecord, Reply, Task, TextEnv


class Fault(NamedTuple):
    """What one method does at task 1."""

    method: str
    """The method whose result is replaced; `step` misbehaves in the second step."""
    result: Callable[[Any, Any], Any]
    """A function of the env and of the honest result."""
    reason: str
    """Part of the episode's error."""


class Text(str):
    """A string of a class of its own."""


class WeirdError(BaseException):
    """No `Exception`."""


class UnspeakableError(Exception):
    """An error that cannot be printed."""

    def __repr__(self) -> str:
        """Raise."""
        raise ValueError("no words")


def raises(error: Callable[[], BaseException]) -> Callable[[Any, Any], NoReturn]:
    """Return a function that raises this error."""

    def fail(env: Any, result: Any) -> NoReturn:
        raise error()

    return fail


def reward(value: Any) -> Callable[[Any, Any], Any]:
    """Return a function that replaces the reward."""
    return lambda env, turn: (turn[0], value, *turn[2:])


def observation(value: Any) -> Callable[[Any, Any], Any]:
    """Return a function that replaces the observation of a step or a reset."""
    return lambda env, turn: (value, *turn[1:])


def info(**more: Any) -> Callable[[Any, Any], Any]:
    """Return a function that extends the info of a step or a reset."""
    return lambda env, turn: (*turn[:-1], turn[-1] | more)


def task(**wrong: Any) -> Callable[[Any, Any], Any]:
    """Return a function that changes fields of a task."""
    return lambda env, honest: replace(honest, **wrong)


def always(value: Any) -> Callable[[Any, Any], Any]:
    """Return a function that returns this value."""
    return lambda env, result: value


def attribute(name: str, value: Any) -> Callable[[Any, Any], Any]:
    """Return a function that sets an attribute of the env and returns the honest result."""

    def change(env: Any, result: Any) -> Any:
        setattr(env, name, value)
        return result

    return change


def nested(depth: int) -> list[Any]:
    """Return lists within lists."""
    value = list[Any]()
    for _ in range(depth):
        value = [value]
    return value


VALUES = {
    "reward nan": Fault("step", reward(float("nan")), "the reward is nan"),
    "reward infinite": Fault("step", reward(np.float32("-inf")), "the reward is -inf"),
    "reward none": Fault("step", reward(None), "the reward is None"),
    "reward text": Fault("step", reward("1.0"), "the reward is '1.0'"),
    "reward huge": Fault("step", reward(1e300), "the reward is 1e+300"),
    "reward too long": Fault("step", reward(10**400), "the reward is"),
    "reward list": Fault("step", reward([1.0]), "the reward is"),
    "reward of two": Fault("step", reward(np.ones(2)), "the reward is"),
    "part nan": Fault("step", info(reward_parts={"price": float("nan")}), "reward_parts['price'] is nan"),
    "parts none": Fault("step", info(reward_parts=None), "reward_parts is None"),
    "observation none": Fault("step", observation(None), "the observation is None"),
    "observation bytes": Fault("step", observation(b"1"), "the observation is b'1'"),
    "observation endless": Fault("step", observation("x" * (1 << 21)), "the observation has 2,097,152 characters"),
    "terminated text": Fault("step", lambda env, turn: (*turn[:2], "no", *turn[3:]), "terminated is 'no'"),
    "truncated none": Fault("step", lambda env, turn: (*turn[:3], None, turn[4]), "truncated is None"),
    "info none": Fault("step", lambda env, turn: (*turn[:4], None), "info is None"),
    "info empty": Fault("step", lambda env, turn: (*turn[:4], {}), "info lacks valid_action"),
    "info set": Fault("step", info(more={1, 2}), "info['more'] is not JSON"),
    "info nan": Fault("step", info(more=[float("nan")]), "info['more'] is not JSON"),
    "info key": Fault("step", lambda env, turn: (*turn[:4], turn[4] | {3: 4}), "info has the key 3"),
    "info deep": Fault("step", info(more=nested(100_000)), "info['more'] is not JSON"),
    "info success": Fault("step", info(success="yes"), "success is 'yes'"),
    "info valid": Fault("step", info(valid_action=None), "valid_action is None"),
    "four values": Fault("step", lambda env, turn: turn[:4], "step returned 4 values, not 5"),
    "six values": Fault("step", lambda env, turn: (*turn, 1), "step returned 6 values, not 5"),
    "no values": Fault("step", always(None), "step returned None"),
    "a text": Fault("step", always("12345"), "step returned '12345'"),
    "successful text": Fault("step", attribute("succeeded", "yes"), "success is 'yes'"),
    "reset none": Fault("reset", always(None), "reset returned None"),
    "reset alone": Fault("reset", lambda env, turn: turn[0], "reset returned '0'"),
    "reset three": Fault("reset", lambda env, turn: (*turn, 1), "reset returned 3 values, not 2"),
    "reset bytes": Fault("reset", observation(b"0"), "the observation is b'0'"),
    "reset info": Fault("reset", info(more=object()), "info['more'] is not JSON"),
    "task none": Fault("task", always(None), "task() is None"),
    "task kind": Fault("task", task(kind=None), "the task's kind is None"),
    "task split": Fault("task", task(split="tset"), "the task's split is 'tset'"),
    "task instruction": Fault("task", task(instruction=b"Go."), "the task's instruction is b'Go.'"),
    "task steps": Fault("task", task(optimal_steps=2.5), "optimal_steps is 2.5"),
    "rules none": Fault("task", attribute("rules", {"brief": None}), "rules['brief'] is None"),
    "rules lacking": Fault("task", attribute("rules", {}), "KeyError('brief')"),
    "task steps flag": Fault("task", task(optimal_steps=True), "optimal_steps is True"),
    "task steps huge": Fault("task", task(optimal_steps=2**200), "optimal_steps is an integer of more than 64 bits"),
    "version flag": Fault("task", attribute("version", True), "version is True"),
    "version huge": Fault("task", attribute("version", 2**63), "version is an integer of more than 64 bits"),
    "successful arrays": Fault("step", attribute("succeeded", np.ones(2)), "success is array"),
    "partner text": Fault("step", attribute("record", "x"), "partner_record is 'x'"),
    "partner moves": Fault("step", attribute("record", PartnerRecord("4f", (3,))), "a partner's move is 3"),  # type: ignore[arg-type]
    "partner digest": Fault("step", attribute("record", PartnerRecord(b"4f", ())), "digest is b'4f'"),  # type: ignore[arg-type]
    "partner list": Fault("step", attribute("record", PartnerRecord("4f", [])), "partner_record is"),  # type: ignore[arg-type]
    "partner endless": Fault("step", attribute("record", PartnerRecord("4f", (None,) * (1 << 21))), "2,097,152 moves"),
    "partner error": Fault("step", attribute("record", KeyError("moves")), "KeyError('moves')"),
    "version text": Fault("task", attribute("version", "x"), "version is 'x'"),
    "read none": Fault("read", always(None), "NoneType"),
    "read number": Fault("read", always(Reply("go", thought=3)), "the thought is 3"),  # type: ignore[arg-type]
}
"""Values that no record holds."""
ERRORS = {
    "error": Fault("step", raises(lambda: ValueError("no world")), "ValueError('no world')"),
    "system exit": Fault("step", raises(lambda: SystemExit(0)), "SystemExit(0)"),
    "exit in reset": Fault("reset", lambda env, turn: sys.exit("bye"), "SystemExit('bye')"),
    "exit in task": Fault("task", lambda env, turn: sys.exit(), "SystemExit"),
    "no exception": Fault("step", raises(WeirdError), "WeirdError()"),
    "generator exit": Fault("step", raises(GeneratorExit), "GeneratorExit()"),
    "stop iteration": Fault("step", raises(StopIteration), "StopIteration()"),
    "memory error": Fault("step", raises(MemoryError), "MemoryError()"),
    "recursion": Fault("step", lambda env, turn: env.step("again"), "RecursionError"),
    "unspeakable": Fault("step", raises(UnspeakableError), "UnspeakableError"),
    "long-winded": Fault("step", raises(lambda: ValueError("x" * 10_000_000)), "ValueError('xxx"),
    "os error": Fault("step", raises(lambda: OSError(errno.EMFILE, "Too many open files")), "OSError(24"),
    "our error": Fault("reset", raises(lambda: KeyError("no game")), "KeyError('no game')"),
}
"""Errors, of which some are none that a program expects."""
PLANS = {
    "expert error": Fault("expert", raises(lambda: IndexError("no plan")), "IndexError('no plan')"),
    "expert exit": Fault("expert", raises(SystemExit), "SystemExit()"),
    "expert none": Fault("expert", always(None), "expert() is None"),
    "expert text": Fault("expert", always("go"), "expert() is 'go'"),
    "expert numbers": Fault("expert", always([3]), "expert() is [3]"),
    "thought none": Fault("expert_thought", always(3), "expert_thought() is 3"),
    "parse error": Fault("read", raises(lambda: ValueError("no reading")), "ValueError('no reading')"),
}
"""What an expert agent asks."""
ACTIONS = {
    "actions error": Fault("actions", raises(lambda: IndexError("no list")), "IndexError('no list')"),
    "actions exit": Fault("actions", raises(SystemExit), "SystemExit()"),
    "actions text": Fault("actions", always("go"), "actions() is 'go'"),
    "actions numbers": Fault("actions", always([3]), "actions() is [3]"),
}
"""What a random agent asks."""


_LEAKED, _FORKS = list[int](), list[bool]()


def exhaust_descriptors(env: Any, result: Any) -> Any:
    """Open files forever, after lowering the limit of this process."""
    import resource

    used = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 40, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    while True:
        _LEAKED.append(os.open(os.devnull, os.O_RDONLY))


def exhaust_memory(env: Any, result: Any) -> Any:
    """Allocate forever, after setting a limit for this process."""
    import resource

    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), resource.getrlimit(resource.RLIMIT_AS)[1]))
    hoard = list[bytes]()
    while True:
        hoard.append(b"x" * (8 << 20))


def fork_and_return(env: Any, result: Any) -> Any:
    """Return in two processes, once: a copy that is not ended must not fork again."""
    if not _FORKS:
        _FORKS.append(True)
        os.fork()
    return result


def fork_and_die(env: Any, result: Any) -> Any:
    """Leave a child that keeps this process's pipes open, and die."""
    if os.fork() == 0:
        time.sleep(20)
    os._exit(3)


DEADLY = {
    "exits": Fault("step", lambda env, turn: os._exit(3), "took its process along (exit status 3)"),
    "exits cleanly": Fault("reset", lambda env, turn: os._exit(0), "took its process along (exit status 0)"),
    "forks and dies": Fault("step", fork_and_die, "took its process along (exit status 3)"),
    "descriptors": Fault("step", exhaust_descriptors, "took its process along (it used up all file descriptors)"),
    "memory": Fault("step", exhaust_memory, "MemoryError()"),
    "expert exits": Fault("expert", lambda env, plan: os._exit(3), "took its process along (exit status 3)"),
    "actions exits": Fault("actions", lambda env, listed: os._exit(3), "took its process along (exit status 3)"),
}
"""What only another process survives."""
QUESTIONS = {
    f"exits in {name}": Fault(method, lambda env, result: os._exit(3), "")
    for name, method in {
        "snapshot": "state", "restore": "load_state", "tools": "tools", "secrets": "secrets", "render": "render",
        "fair_expert": "fair_expert", "expert_thought": "expert_thought",
    }.items()
}  # fmt: skip
"""Exits in methods other than `step` and `reset`."""
FAULTS = VALUES | ERRORS | PLANS | ACTIONS | DEADLY | QUESTIONS | {
    "": Fault("", always(None), ""),
    "forks": Fault("step", fork_and_return, ""),
    "forks in snapshot": Fault("state", fork_and_return, ""),
    "prints": Fault("step", lambda env, turn: (print("{"), os.write(1, b"["), turn)[2], ""),
    "prints an escape": Fault("step", lambda env, turn: (print("\x1b]0;title\x07", flush=True), turn)[1], ""),
    "text of its own": Fault("step", lambda env, turn: (Text(turn[0]), *turn[1:]), ""),
    "hangs in C": Fault("step", lambda env, turn: sum(range(10**12)), ""),
    "exit in close": Fault("close", raises(SystemExit), ""),
}  # fmt: skip


class MisbehavingEnv(TextEnv):
    """Count words up to three, but misbehave at task 1, or `everywhere`."""

    name = "misbehaving"
    rules = {"full": "Count.", "brief": "Count.", "none": ""}  # noqa: RUF012  # nothing changes it

    def __init__(
        self,
        *,
        fault: str = "",
        everywhere: bool = False,
        max_steps: int = 9,
        split: str = "train",
        render_mode: str | None = None,
    ) -> None:
        super().__init__(max_steps=max_steps, split=split, render_mode=render_mode)
        self.fault, self.everywhere, self.count, self._asked = fault, everywhere, 0, ""
        self.record: Any = None
        if fault == "exit as it is made":
            sys.exit(4)
        if fault == "error as it is made":
            raise RuntimeError("no licence")

    @property
    def partner_record(self) -> Any:
        """Return, or raise, the partner's record."""
        if isinstance(self.record, Exception):
            raise self.record
        return self.record

    def begin(self, task: Task) -> str:
        """Start at 0."""
        self.count = 0
        return "0"

    def act(self, reply: Reply) -> Outcome:
        """Count one up and repeat the reply."""
        if not reply.action.startswith("word"):
            return Outcome("Say a word.", valid=False)
        self.count += 1
        over = self.count == 3
        return Outcome(f"{self.count} {reply.action} {self.rng.below(100)}", float(over), over, over)

    def state(self) -> dict[str, Any]:
        """Return the count."""
        return self._faulty("state", {"count": self.count})  # type: ignore[no-any-return]

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Restore the count."""
        self.count = self._faulty("load_state", int(state["count"]))

    def _faulty(self, method: str, result: Any) -> Any:
        kind = FAULTS[self.fault]
        applies = kind.method == method and (self.everywhere or self._asked.endswith("/1"))
        return kind.result(self, result) if applies and (method != "step" or self.steps >= 2) else result

    def task(self, name: str | int, split: str | None = None) -> Task:
        """Find a task."""
        self._asked = f"misbehaving/{split or self.split}/{name}" if isinstance(name, int) else name
        found = Task(self._asked, self._asked.split("/")[1], "count", "easy", "Count.")
        return self._faulty("task", found)  # type: ignore[no-any-return]

    def reset(self, **kwargs: Any) -> Any:
        """Begin."""
        return self._faulty("reset", super().reset(**kwargs))

    def step(self, action: str) -> Any:
        """Count."""
        return self._faulty("step", super().step(action))

    def read(self, text: str) -> Reply:
        """Parse."""
        return self._faulty("read", super().read(text))  # type: ignore[no-any-return]

    def actions(self) -> list[str]:
        """List."""
        return self._faulty("actions", [f"word{n}" for n in range(10)])  # type: ignore[no-any-return]

    def expert(self) -> list[str]:
        """Plan."""
        return self._faulty("expert", ["word0"] * (3 - self.count))  # type: ignore[no-any-return]

    def fair_expert(self) -> str | None:
        """Plan one action."""
        return self._faulty("fair_expert", "word0")  # type: ignore[no-any-return]

    def tools(self) -> None:
        """Have none."""
        self._faulty("tools", None)

    def secrets(self) -> None:
        """Name none."""
        self._faulty("secrets", None)

    def render(self) -> str | None:
        """Show the last observation."""
        return self._faulty("render", super().render())  # type: ignore[no-any-return]

    def expert_thought(self, action: str) -> str:
        """Think."""
        return self._faulty("expert_thought", "")  # type: ignore[no-any-return]

    def close(self) -> None:
        """Close."""
        self._faulty("close", None)


class MisbehavingAgent(RandomAgent):
    """A random agent; unpickling it imports this file and so registers the env."""


class MisbehavingExpert(ExpertAgent):
    """An expert; as `MisbehavingAgent`."""


gymnasium.register(id="Misbehaving-v0", entry_point="misbehaving_env:MisbehavingEnv")
