"""A check in a fresh process: an env neither ends, stops nor copies its process, and leaves it as it was."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import IO, TYPE_CHECKING, Any, NoReturn

from agentgym_py.env import EnvSpec, TextEnv
from agentgym_py.env.registration import env_id
from agentgym_py.env.tracebacks import error_text
from agentgym_py.rng import Rng
from agentgym_py.testing.failures import (
    BrokenContractError,
    Moves,
    NotApplicableError,
    StoppedError,
    moves_to_call,
)
from agentgym_py.testing.random_actions import NONSENSE, any_action
from agentgym_py.testing.reproducibility import fresh_variables, register_target, target_module
from agentgym_py.testing.time_limits import TIMERS

if TYPE_CHECKING:
    from agentgym_py.testing.harness import Subject

_STEPS = 20
_TIMEOUT = 300
_WARM_UP = 2
"""Episodes after which an env has opened what it keeps open."""
_MEMORY = 4 << 30
"""Bytes that an env may take beyond what the process has: more is a failure of the env, not of the machine."""
_EXHAUSTED = 1 << 20
"""Files that count as open when no further one can be opened."""


class EndsProcessError(BrokenContractError):
    """The env cannot be checked in this process."""

    ends_process = True


def isolation(subject: Subject) -> None:
    """It never exits, hangs or forks its process, and leaves folder, variables, signals and threads as they were."""
    if os.name != "posix":
        raise NotApplicableError("signals and limits are those of POSIX")
    name = env_id(subject.spec.name)
    seeds = list(subject.seeds(subject.settings.few_episodes))
    request = {
        "name": name, "kwargs": dict(subject.spec.kwargs), "target": target_module(name), "seeds": seeds,
        "rng": subject.rng("isolation").state, "longest_step": subject.settings.longest_step,
    }  # fmt: skip
    with TemporaryDirectory(prefix="agentgym") as folder:
        status, lines, errors = _play(request, Path(folder))
    subject.counts["episodes"] += len(seeds)
    subject.counts["processes"] += 1
    actions = list[str]()
    call, seed = "__init__", None
    for line in lines:
        if "problem" in line:
            error = EndsProcessError if line["ends"] else BrokenContractError
            moves = Moves(seed, None, tuple(actions))
            raise error(line["problem"], moves if line.get("is_left") else moves_to_call(moves, call))
        if "seed" in line:
            seed, actions = line["seed"], []
        actions += line.get("action", [])
        subject.counts["steps"] += len(line.get("action", []))
        call = line["call"]
    if call == "done":
        return
    if call == "__init__" and status > 0:
        last = (errors.strip().splitlines() or ["no message"])[-1]
        raise BrokenContractError(f"it cannot be made in a fresh process: {last}")
    problem = f"{call}() {_death(status, subject.settings.longest_step)}"
    raise EndsProcessError(problem, moves_to_call(Moves(seed, None, tuple(actions)), call))


def _death(status: int, longest_step: float) -> str:
    signals = {-number for _, number, _ in TIMERS}
    if status in signals:
        return f"takes longer than {longest_step:g} seconds"
    return f"ends its process by {signal.Signals(-status).name}" if status < 0 else f"ends its process, status {status}"


def _play(request: Mapping[str, Any], folder: Path) -> tuple[int, list[dict[str, Any]], str]:
    """Play the request in a fresh process; return its exit status, its lines and its last words.

    It writes to files, because a process that the env has forked would keep a pipe open.
    """
    report, errors = folder / "report", folder / "errors"
    code = "from agentgym_py.testing.isolation import main; main()"
    (folder / "request").write_text(json.dumps({**request, "report": str(report)}), encoding="utf-8")
    (folder / "cwd").mkdir()
    with (folder / "request").open() as stdin, errors.open("w") as stderr:
        process = subprocess.Popen(  # noqa: S603  # this Python, and a constant program
            [sys.executable, "-P", "-c", code], stdin=stdin, stdout=stderr, stderr=stderr, cwd=folder / "cwd",
            env=fresh_variables({}), start_new_session=True,
        )  # fmt: skip
        try:
            status = process.wait(_TIMEOUT)
        except subprocess.TimeoutExpired as error:
            episodes = f"{len(request['seeds'])} episodes in a fresh process"
            raise StoppedError(f"{episodes} were not over after {_TIMEOUT:g} seconds: ask for fewer") from error
        finally:
            _kill_session(process)
    text = report.read_text(encoding="utf-8") if report.exists() else ""
    return status, [json.loads(line) for line in text.splitlines()], errors.read_text(errors="replace")


def _kill_session(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and what its env has started."""
    with suppress(ProcessLookupError, PermissionError):  # all have ended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


# ---- in the fresh process -------------------------------------------------------------------------------------------


def main() -> None:
    """Play the request on stdin; write a JSON line before each call of the env, and one for each problem."""
    request = json.load(sys.stdin)
    register_target(request["name"], request["target"])
    _limit_memory()
    with open(request["report"], "w", encoding="utf-8") as report:  # noqa: PTH123  # only text is known here
        _Player(request, report).play()


def _limit_memory() -> None:
    import resource

    limit = _allocated() + _MEMORY
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _allocated() -> int:
    """Return the bytes of data of this process; 0 if the system does not report them."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("VmData"))


class _Player:
    """Plays episodes and reports what the env does to the process."""

    def __init__(self, request: Mapping[str, Any], report: IO[str]) -> None:
        self._request, self._report, self._pid = request, report, os.getpid()
        self._longest_step: float = request["longest_step"]

    def play(self) -> None:
        """Play every seed in one instance; compare the process with how it was before."""
        spec = EnvSpec(self._request["name"], self._request["kwargs"])
        before, usage, seeds = _surroundings(), _usage(), self._request["seeds"]
        env = spec.make()
        before["environment variables"] = dict(os.environ)  # libraries set some when they are imported
        for number, seed in enumerate(seeds):
            if number == _WARM_UP:
                usage = _usage()
            with suppress(Exception):  # other checks find and explain it
                self._episode(env, seed)
            if _open_files() == _EXHAUSTED:
                self._end("no further file can be opened: the world leaves its files open", is_deadly=True)
        left = {name: number - usage[name] for name, number in _usage().items()}
        with suppress(Exception):
            self._call("close", env.close)
        _wait_for_copies()
        for name, value in _surroundings().items():
            if value != before[name]:
                self._report_left(f"it changes the {name} of its process: {_change(before[name], value)}")
        episodes = len(seeds) - _WARM_UP
        for name, number in left.items():
            if episodes > 0 and 2 * number >= episodes:
                self._report_left(f"{number} more {name} after {episodes} episodes than before")
        self._write(call="done")

    def _episode(self, env: TextEnv, seed: int) -> None:
        """Play random and senseless actions, and then the expert's."""
        observation, _ = self._call("reset", partial(env.reset, seed=seed), seed=seed)
        self._ask(env)
        with suppress(Exception):
            self._plan(env)  # random actions may end the episode
        rng = Rng("isolation", self._request["rng"], seed)
        for _ in range(rng.below(_STEPS)):
            if env.stop_reason:
                return
            choose = partial(any_action, env, rng, str(observation))
            observation = self._step(env, NONSENSE if rng.below(5) == 0 else self._call("actions", choose))
        for action in [] if env.stop_reason else self._plan(env):
            if not env.stop_reason:
                self._step(env, action)

    def _plan(self, env: TextEnv) -> list[str]:
        """Call the experts; return the exact one's plan."""
        with suppress(Exception):
            self._call("fair_expert", env.fair_expert)
        plan: list[str] = self._call("expert", env.expert)
        with suppress(Exception):
            self._call("expert_thought", partial(env.expert_thought, plan[0]))
        return plan

    def _step(self, env: TextEnv, action: str) -> Any:
        observation = self._call("step", partial(env.step, action), action=[action])[0]
        self._ask(env)
        return observation

    def _ask(self, env: TextEnv) -> None:
        """Call what answers in every state, and restore the state."""
        for name in ("tools", "secrets", "render"):
            with suppress(Exception):
                self._call(name, getattr(env, name))
        with suppress(Exception):
            snapshot = self._call("snapshot", env.snapshot)
            self._call("restore", partial(env.restore, snapshot))

    def _call(self, name: str, call: Callable[[], Any], **what: Any) -> Any:
        """Call the env within the time limit."""
        self._write(call=name, **what)
        try:
            with _deadly_time_limit(self._longest_step):
                return call()
        except MemoryError:
            self._end(f"{name}() raised MemoryError: a world may take {_MEMORY >> 30} GiB", is_deadly=True)
        except Exception:
            raise
        except BaseException as error:
            self._end(f"{name}() raised {error_text(error)}", is_deadly=False)
        finally:
            if os.getpid() != self._pid:
                self._end(f"{name}() returns in a second process, a copy that it has forked", is_deadly=True)

    def _end(self, problem: str, is_deadly: bool) -> NoReturn:
        self._write(problem=problem, ends=is_deadly)
        os._exit(0)

    def _report_left(self, problem: str) -> None:
        """Report what no single call has done."""
        self._write(problem=problem, ends=False, is_left=True)

    def _write(self, **line: Any) -> None:
        self._report.write(json.dumps(line) + "\n")
        self._report.flush()


@contextmanager
def _deadly_time_limit(seconds: float) -> Iterator[None]:
    """Let the system end this process after `seconds`, also in C code, which no handler of Python interrupts."""
    for timer, number, factor in TIMERS:
        signal.signal(number, signal.SIG_DFL)
        signal.setitimer(timer, seconds * factor)
    try:
        yield
    finally:
        for timer, _, _ in TIMERS:
            signal.setitimer(timer, 0)


def _surroundings() -> dict[str, Any]:
    handlers = {number.name: repr(signal.getsignal(number)) for number in signal.Signals}
    for _, number, _ in TIMERS:
        del handlers[number.name]
    return {
        "working folder": str(Path.cwd()), "signal handlers": handlers, "umask": _umask(),
        "environment variables": dict(os.environ),
        "files of the working folder": {path.name: True for path in Path().iterdir()},
    }  # fmt: skip


def _change(before: Any, after: Any) -> str:
    """Return what has changed; of variables only the names, because their values may be secret."""
    if isinstance(after, dict):
        return ", ".join(sorted(key for key in before.keys() | after if before.get(key) != after.get(key)))
    return f"{after}, before {before}"


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _usage() -> dict[str, int]:
    """Count the open files, the threads and the child processes."""
    return {"files are open": _open_files(), "threads run": threading.active_count(), "processes run": _children()}


def _children() -> int:
    """Count the child processes; 0 if the system does not tell."""
    parents = list[str]()
    for process in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            parents.append(process.read_text(errors="replace").rpartition(")")[2].split()[1])
    return parents.count(str(os.getpid()))


def _open_files() -> int:
    """Count the open files, the limit if no further one can be opened; 0 if the system does not tell."""
    gc.collect()
    try:
        return len(list(Path("/proc/self/fd").iterdir()))
    except FileNotFoundError:
        return 0
    except OSError:
        return _EXHAUSTED


def _wait_for_copies() -> None:
    """Wait a moment for what copies of this process have to report."""
    until = monotonic() + 1
    with suppress(ChildProcessError):  # there are none
        while monotonic() < until:
            os.waitpid(-1, os.WNOHANG)
            sleep(0.01)
