"""The conformance kit: a world that keeps the contract passes, and each check can fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import partial
from importlib import import_module
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError, ConformanceError, SnapshotError, UnknownNameError
from agentgym_py.testing import CHECKS, Failure, Moves, Settings, check_world, run_check, run_checks
from agentgym_py.testing.agents import binomial_tail
from agentgym_py.testing.failures import BrokenContractError
from agentgym_py.testing.fuzz import MEGABYTE
from agentgym_py.testing.interface import _block_sigint
from agentgym_py.testing.report import Result, text_source
from agentgym_py.testing.time_limits import handled_alarms, time_limit

FOLDER = Path(__file__).parent
QUICK = Settings(episodes=15, memory_episodes=400)
BROKEN = [
    ("isolation", "LeavesFiles", "1 more files are open after 1 episodes than before"),
    ("isolation", "Wanders", "it changes the working folder of its process"),
    ("isolation", "SetsVariables", "it changes the environment variables of its process: CONFORMANCE_KEY"),
    ("isolation", "Writes", "it changes the files of the working folder of its process: task.txt"),
    ("isolation", "LeavesThreads", "1 more threads run after 1 episodes than before"),
    ("isolation", "LeavesProcesses", "1 more processes run after 1 episodes than before"),
    ("gymnasium", "BadSpace", "check_env"),
    ("vectors", "OtherProcess", "make_vec, async: after reset, copy 0 has another episode"),
    ("interface", "AllValid", "counts as a valid action"),
    ("tasks", "Shared", "have the same instruction"),
    ("card", "NoCard", "does not say: task, action, observation, reward, end, ConformanceNoCard-v0"),
    ("reproducible", "Hashed", "two fresh processes"),
    ("futures", "Forgets", "in another instance, action"),
    ("futures", "ForgetsLate", "in another instance, action"),
    ("futures", "ForgetsToForget", "in another instance, action"),
    ("futures", "Redraws", "in another instance, expert() is ['open["),
    ("futures", "RedrawsReply", "in another instance, action"),
    ("futures", "Unrestored", "restore() raised SnapshotError('The snapshot does not fit this environment: list"),
    ("forks", "Entangled", "what a fork does changes the original's snapshot"),
    ("forks", "Questioned", "expert() changes the episode"),
    ("corrupt", "Gullible", "is accepted, and cannot be played on"),
    ("corrupt", "Halfway", "is refused, and the episode has changed"),
    ("expert", "Wrong", "has not terminated"),
    ("expert", "Long", "the plan has 2 actions, optimal_steps is 1"),
    ("expert", "Cheats", "no observation has shown the secret '"),
    ("actions", "ListsNonsense", "none of 5 listed actions can be done, such as 'ask["),
    ("interface", "Unlimited", "made with max_steps=7, the world has max_steps = 12"),
    ("interface", "InfoSet", "info is not of JSON values: Object of type set"),
    ("interface", "Prints", "prints to stdout: 'doing"),
    ("tasks", "NoNumbers", "its tasks are numbered from 0, and task(0, 'train') raises UnknownNameError("),
    ("leaks", "TellsListed", "holds the answer in 30 of 30 tasks"),
    ("wanderer", "Jams", "has not terminated"),
    ("wanderer", "Pays", "the return is 2, and max_return says 1"),
    ("random_baseline", "Lucky", "an agent that acts at random succeeds in"),
    ("random_baseline", "WinsByNothing", "an agent that says nothing succeeds in 150 of 150"),
    ("random_baseline", "WinsByEcho", "an agent that echoes the observation succeeds in 150 of 150"),
    ("random_baseline", "WinsByPatience", "an agent that repeats one action succeeds in 150 of 150"),
    ("random_baseline", "WinsByParrot", "an agent that repeats the instruction succeeds in 150 of 150"),
    ("random_baseline", "HalfLucky", "an agent that acts at random succeeds in"),
    ("strings", "Encodes", "raised UnicodeEncodeError"),
    ("strings", "Overflows", "raised MemoryError"),
    ("strings", "Hypothetical", "raised KeyError"),
    ("strings", "Parses", "raised ValueError"),
    ("strings", "Hangs", "step takes longer than 0.5 seconds"),
    ("strings", "Backtracks", "step takes longer than 0.5 seconds"),
    ("leaks", "Tells", "stands in info['debug']"),
    ("leaks", "TellsUnnamed", "info['debug'] of reset holds the answer in 30 of 30 tasks"),
    ("leaks", "TellsLater", "stands in observation: 'Closed, it is"),
    ("leaks", "TellsLaterUnnamed", "what follows a wrong reply holds the answer"),
    ("globals", "Global", "the global generator of random is used"),
    (
        "globals",
        "GlobalLoses",
        "the global generator of random is used in this episode, in which expert() raised Index",
    ),
    ("reproducible", "GlobalLoses", "in a fresh process expert() raised IndexError('string index out of range')"),
    ("globals", "GlobalNumpy", "the global generator of numpy.random is used"),
    ("memory", "Hoards", "bytes an episode stay"),
    ("memory", "GrowsBig", "KiB stay for each of 100 new tasks, without bounds; this episode leaves 1,00"),
    ("memory", "Raises", "raised ZeroDivisionError('conformance/train/medium/"),
]
SLOW = {"Hangs", "Backtracks"}
"""Worlds that must not be waited for."""
NO_EPISODE = {"gymnasium", "card", "isolation"}
"""Checks of which a failure needs no episode to be seen."""


@pytest.fixture(autouse=True)
def worlds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The worlds of `conformance_worlds`, by name; fresh processes find them too. Speeds are measured for a moment."""
    monkeypatch.setattr("agentgym_py.testing.resources._SPEED_SECONDS", 0.01)
    monkeypatch.syspath_prepend(FOLDER)
    module = import_module("conformance_worlds")
    before = set(gymnasium.registry)
    for name, each in vars(module).items():
        if isinstance(each, type) and issubclass(each, module.Honest):
            gymnasium.register(id=f"Conformance{name}-v0", entry_point=f"conformance_worlds:{name}")
    yield
    for name in set(gymnasium.registry) - before:
        del gymnasium.registry[name]


@pytest.mark.parametrize("world", ["Honest", "ByTools"])
@pytest.mark.parametrize("check", CHECKS)
def test_a_world_that_keeps_the_contract_passes(world: str, check: str) -> None:
    """Every check, with actions that are listed and with tools alone."""
    if world == "ByTools" and check == "card":
        pytest.skip("its card is short")
    report = check_world(f"Conformance{world}-v0", check, episodes=15, memory_episodes=80)
    assert report.ok and "no failure" in report.verdict()


@pytest.mark.parametrize("check", ["tasks", "expert", "random_baseline", "leaks"])
def test_a_world_of_few_tasks_passes(check: str) -> None:
    """What counts tasks takes those that there are."""
    assert check_world("ConformanceFew-v0", check, episodes=15).ok


@pytest.mark.parametrize("check", ["wanderer", "futures", "random_baseline", "strings"])
def test_a_reward_may_be_above_the_largest_return(check: str) -> None:
    """If rewards below 0 came before it; what a check takes back does not count."""
    assert check_world("ConformanceRefunds-v0", check, episodes=15).ok


@pytest.mark.parametrize(("check", "world", "message"), BROKEN, ids=lambda each: each)
def test_each_check_can_fail(check: str, world: str, message: str) -> None:
    """A world with one fault is found out, in words that say the fault, and an episode shows it."""
    episodes = 60 if world == "Hypothetical" else QUICK.episodes  # hypothesis finds it in most, not all, of 15
    settings = Settings(episodes, QUICK.memory_episodes, longest_step=0.5 if world in SLOW else 20.0)
    spec = EnvSpec(f"Conformance{world}-v0")
    result = run_check(check, spec, settings)
    assert result.status == "failed" and result.failure
    assert message in result.failure.message
    if check not in NO_EPISODE and world not in SLOW:
        _is_shown(spec, result.failure)


def _is_shown(spec: EnvSpec, failure: Failure) -> None:
    """Seed or task and the actions lead to the moment again, or raise again what was raised."""
    assert failure.moves and (failure.moves.seed is not None or failure.moves.options)
    try:
        steps = failure.replay(spec).steps
    except Exception as error:
        assert repr(error)[:40] in failure.message or (failure.moves.snapshot and isinstance(error, SnapshotError))
    else:
        assert "raised" not in failure.message or failure.moves.after
        assert steps == len(failure.moves.actions) or failure.moves.snapshot


@pytest.mark.parametrize(
    ("check", "world", "shown"),
    [
        ("futures", "Forgets", "gives ANOTHER"),
        ("futures", "ForgetsLate", "gives ANOTHER"),
        ("futures", "ForgetsToForget", "gives ANOTHER"),
        ("futures", "Redraws", "the expert's plan is ANOTHER: ['open["),
        ("futures", "RedrawsReply", "gives ANOTHER"),
        ("futures", "Unrestored", "IndexError"),
        ("forks", "Entangled", "the original is ANOTHER"),
        ("forks", "Questioned", "then the episode is ANOTHER"),
        ("globals", "Global", "the global generators are OTHERS"),
        ("globals", "GlobalNumpy", "the global generators are OTHERS"),
        ("globals", "GlobalLoses", "IndexError"),
        ("reproducible", "GlobalLoses", "IndexError"),
        ("memory", "Raises", "ZeroDivisionError"),
    ],
)
def test_the_program_shows_what_is_wrong(check: str, world: str, shown: str) -> None:
    """Run as it is printed, in a fresh process, it says it or raises again; where the world raised, a trace says it."""
    spec = EnvSpec(f"Conformance{world}-v0")
    result = run_check(check, spec, QUICK)
    assert result.failure
    done = _run(world, result.failure.script(spec))
    assert shown in done.stdout + done.stderr, result.failure.script(spec)
    assert bool(done.returncode) == shown.endswith("Error")
    if done.returncode:
        assert shown in result.failure.traceback and "conformance_worlds.py" in result.failure.traceback


def test_the_program_of_two_processes_differs_between_them() -> None:
    """It is to be run with either hash seed, and asks for what differs."""
    spec = EnvSpec("ConformanceHashed-v0")
    failure = run_check("reproducible", spec, QUICK).failure
    assert failure and "run it with 1 and with 2" in failure.script(spec)
    told = [_run("Hashed", failure.script(spec), PYTHONHASHSEED=seed).stdout for seed in ("1", "1", "2")]
    assert told[0] == told[1] != told[2]


def test_the_program_of_a_used_instance_gives_it_its_past() -> None:
    """Two episodes are printed, the second one of an instance that has played before."""
    spec = EnvSpec("ConformanceRemembers-v0")
    failure = run_check("reproducible", spec, QUICK).failure
    assert failure and "an instance that has played before differ in the observation" in failure.message
    told = _run("Remembers", failure.script(spec)).stdout.splitlines()
    assert told[0].startswith("('Open safe") and "Welcome back" in "".join(told[1:])


def _run(world: str, script: str, **mood: str) -> subprocess.CompletedProcess[str]:
    """A program, in a fresh process of another folder than the world's."""
    assert f"gymnasium.register('Conformance{world}-v0'" in script
    return subprocess.run(
        [sys.executable, "-c", script], cwd=FOLDER.parent, capture_output=True, text=True, env=os.environ | mood
    )


def test_the_program_of_copies_plays_them_beside_the_world_alone() -> None:
    """It makes them as the check did: here the copies are in other processes, and say so."""
    spec = EnvSpec("ConformanceOtherProcess-v0")
    failure = run_check("vectors", spec, QUICK).failure
    assert failure
    done = _run("OtherProcess", failure.script(spec))
    copies, _, alone = done.stdout.splitlines()[1].partition(" and alone ")
    numbers = [{line.rsplit(" ", 1)[1] for line in eval(each)} for each in (copies, alone)]  # noqa: S307  # tuples of texts
    assert len(numbers[0]) == 2 and len(numbers[1]) == 1 and not numbers[0] & numbers[1], done.stderr


def test_a_fair_expert_may_work_a_secret_out() -> None:
    """The note says in how many tasks it did, and where there is none of the world's own."""
    fair = run_check("expert", EnvSpec("ConformanceFair-v0"), QUICK)
    assert fair.notes == (
        "the fair expert succeeds in 45 of 45 tasks; in 45, its action named a secret that no observation had shown",
    )
    assert run_check("expert", EnvSpec("ConformanceHonest-v0"), QUICK).notes == (
        "fair_expert() is not defined, so the exact expert replaces it",
    )


@pytest.mark.parametrize(("world", "why"), [("Open", "hides nothing that could show"), ("Unnamed", "define secrets()")])
def test_where_nothing_was_looked_for_nothing_passed(world: str, why: str) -> None:
    """The check is skipped, and says whether the world wants it so."""
    result = run_check("leaks", EnvSpec(f"Conformance{world}-v0"), QUICK)
    assert result.status == "skipped" and why in result.line
    assert run_check("leaks", EnvSpec("ConformanceHidesLater-v0"), QUICK).status == "passed"


def test_too_few_episodes_are_no_check_of_memory() -> None:
    """The check is skipped, and says how many it needs."""
    result = run_check("memory", EnvSpec("ConformanceHonest-v0"), Settings(memory_episodes=3))
    assert result.notes == ("it needs at least 4 memory_episodes, and there are 3",)


def test_counts_of_one_are_singular() -> None:
    """In the line of a result."""
    counts = {"processes": 1, "plans": 1, "strings": 1, "episodes": 2, "steps": 1000}
    line = Result("speed", "How fast it is.", "passed", 0.5, counts).line
    assert line.endswith("1 process, 1 expert plan, 1 string as an action, 2 episodes, 1,000 steps")


def test_every_check_was_seen_to_fail() -> None:
    """All but the measurement."""
    assert {check for check, *_ in BROKEN} == set(CHECKS) - {"speed"}


def test_a_cache_without_bounds_is_found_among_thousands_of_tasks() -> None:
    """Some kilobytes a task, which one that has bounds might keep too, go on after it would be full.

    Before it as much becomes free between other things, as in a process that has done much else.
    """
    before = [b"1" * 40_000 for _ in range(6_000)]
    del before[::2]
    found = run_check("memory", EnvSpec("ConformanceRemembersTasks-v0"), Settings(memory_episodes=4000))
    assert found.failure and "stay for each of 1,000 new tasks" in found.failure.message
    assert found.failure.moves and found.failure.moves.seed and found.failure.moves.actions


def test_speeds_are_measured() -> None:
    """Steps, resets, plans and snapshots, none of them nought."""
    measured = run_check("speed", EnvSpec("ConformanceHonest-v0"), QUICK).measured
    assert set(measured) == {
        "random steps a second", "reset µs", "expert µs", "snapshot + restore µs", "snapshot bytes"
    }  # fmt: skip
    assert all(value > 0 for value in measured.values())


def test_a_failure_can_be_shown_again() -> None:
    """Its moves do it here, its program in a fresh process."""
    spec = EnvSpec("ConformanceParses-v0")
    failure = run_check("strings", spec, QUICK).failure
    assert failure and failure.moves and failure.moves.actions and "conformance_worlds.py" in failure.traceback
    with pytest.raises(ValueError, match=r"invalid literal|integer string conversion"):
        failure.replay(spec)
    done = _run("Parses", failure.script(spec))
    assert done.returncode and "ValueError" in done.stderr.splitlines()[-1]


def test_a_bad_snapshot_is_part_of_what_is_shown() -> None:
    """The program restores it after the actions; where it is refused, it says whether the episode has changed."""
    spec = EnvSpec("ConformanceGullible-v0")
    failure = run_check("corrupt", spec, QUICK).failure
    assert failure and failure.moves and failure.moves.snapshot and "env.restore(" in failure.script(spec)
    env = failure.replay(spec)
    with pytest.raises((IndexError, TypeError)):
        env.step("anything")
    failure = run_check("corrupt", EnvSpec("ConformanceHalfway-v0"), QUICK).failure
    assert failure
    told = StringIO()
    with redirect_stdout(told):
        exec(failure.script(EnvSpec("ConformanceHalfway-v0")), {})  # noqa: S102  # the kit's own program
    assert told.getvalue().endswith("not places that were asked: None; the episode has changed: True\n")


def test_a_report_says_all_of_it() -> None:
    """As text with verdict and program, and as JSON; `check_world` raises it."""
    report = run_checks("ConformanceLong-v0", ("expert", "card"), QUICK)
    assert not report.ok and [each.check for each in report.failed] == ["expert", "card"]
    told = report.text()
    assert "FAILED expert: From the start" in told and "import agentgym_py, gymnasium\n" in told
    assert "2 of 2 checks failed" in told
    found = json.loads(json.dumps(report.as_dict()))
    assert found["ok"] is False and found["checks"][0]["failure"]["moves"]["options"] == {"task": 0, "split": "train"}
    assert "gymnasium.make" in found["checks"][0]["script"] and found["counts"]["episodes"] == 1
    with pytest.raises(ConformanceError, match="optimal_steps is 1"):
        check_world("ConformanceLong-v0", "expert")


def test_one_cause_is_told_once() -> None:
    """The checks that it failed, the trace from the world's own source on, and the shortest episode that shows it."""
    report = run_checks(
        "ConformanceNeverBegins-v0", ("gymnasium", "vectors", "interface", "card", "reproducible"), QUICK
    )
    told = report.text()
    assert "FAILED 4 checks for one reason: gymnasium, vectors, interface, reproducible\n  reset() raised Index" in told
    lines = [line.strip() for line in told.splitlines()]
    places = [line.rpartition(" in ")[2] for line in lines if line.startswith("File ")]
    assert places == ["begin", "_opened"] and lines.count("IndexError: list index out of range") == 1
    assert "Seed 0 and no actions, as a program:" in told and "4 of 5 checks failed, for 1 reason" in told


def test_what_raises_elsewhere_is_another_cause() -> None:
    """Another line, another error, or another message where nothing was raised."""
    place = '  File "world.py", line {}, in act\n    x()\n  File "{}.py", line 9, in loads\n    y()\n{}: {}'
    failures = [Failure("a", traceback=place.format(*each)) for each in (
        (3, "json", "ValueError", "x"), (3, "json", "KeyError", "x"), (4, "json", "ValueError", "x"),
    )] + [Failure("a"), Failure("b")]  # fmt: skip
    assert len({each.cause for each in failures}) == 5
    same = Failure("c", Moves(3), place.format(3, "other", "ValueError", "y"))
    assert same.cause == failures[0].cause


def test_a_check_that_is_not_over_in_time_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was stopped, and says why; nor did it pass."""
    monkeypatch.setattr("agentgym_py.testing.reproducibility._TIMEOUT", 0.01)
    report = run_checks("ConformanceHonest-v0", ("reproducible", "card"), QUICK)
    assert [each.status for each in report.results] == ["stopped", "passed"] and not report.failed and not report.ok
    assert "stopped reproducible" in report.text() and "not over after 0.01 seconds: ask for fewer" in report.text()
    assert report.verdict().endswith("no failure in the 1 of 2 checks that were done; not done: reproducible")
    with pytest.raises(ConformanceError, match="not done: reproducible"):
        check_world("ConformanceHonest-v0", "reproducible")


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="no signals to block")
def test_processes_of_a_check_do_not_hear_ctrl_c() -> None:
    """Their traces would stand between the lines of the report."""
    code = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    asked = partial(subprocess.run, [sys.executable, "-S", "-c", code], capture_output=True, text=True)
    with _block_sigint():
        assert asked().stdout == "True\n"
    assert asked().stdout == "False\n"


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_the_time_limit_of_a_test_outlives_that_of_a_step() -> None:
    """As pytest-timeout sets one; it rings afterwards."""
    handler = signal.signal(signal.SIGALRM, lambda *_: None)
    before = signal.setitimer(signal.ITIMER_REAL, 100.0)
    with time_limit(5.0, "step"):
        assert signal.getitimer(signal.ITIMER_REAL)[0] <= 50.0
    left, _ = signal.setitimer(signal.ITIMER_REAL, *before)
    signal.signal(signal.SIGALRM, handler)
    assert left > 90.0


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_a_call_that_takes_the_alarms_leaves_later_calls_their_limit() -> None:
    """A world may ignore alarms in a step; its next step is still stopped, and the handlers of before come back."""
    numbers = (signal.SIGALRM, signal.SIGVTALRM)
    before = [signal.getsignal(number) for number in numbers]
    with handled_alarms():
        with time_limit(5.0, "step"):
            for number in numbers:
                signal.signal(number, signal.SIG_IGN)
        end = time.process_time() + 20.0
        with pytest.raises(BrokenContractError, match=r"step takes longer than 0\.1"), time_limit(0.1, "step"):
            while time.process_time() < end:
                pass
    assert [signal.getsignal(number) for number in numbers] == before


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
@pytest.mark.parametrize("error", [None, ValueError("interrupted")])
def test_a_call_that_handles_the_error_of_its_limit_fails_as_it_returns(error: Exception | None) -> None:
    """A world may catch every error, and go on or raise its own; what fails before the limit is its own error."""
    with pytest.raises(BrokenContractError, match=r"step takes longer than 0\.1 seconds"), time_limit(0.1, "step"):
        end = time.process_time() + 20.0
        try:
            while time.process_time() < end:
                pass
        except Exception:
            if error:
                raise error from None
    with pytest.raises(KeyError), time_limit(5.0, "step"):
        raise KeyError


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_a_time_limit_searches_for_no_enum_member(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call of a world has one, and Python's search for the member of a handler takes longer than many a step."""
    with handled_alarms(), monkeypatch.context() as patch:
        patch.setattr("signal._int_to_enum", lambda *_: pytest.fail("it searches"))
        with time_limit(5.0, "step"):
            pass


def test_another_seed_tries_something_else() -> None:
    """Same seed, same episodes; another one, others."""
    seen = []
    for seed in (0, 0, 1):
        settings = Settings(QUICK.episodes, seed=seed)
        failure = run_check("random_baseline", EnvSpec("ConformanceLucky-v0"), settings).failure
        assert failure
        seen.append(failure.moves)
    assert seen[0] == seen[1] != seen[2]


def test_wrong_use_is_said() -> None:
    """Unknown checks and worlds, settings that cannot be."""
    with pytest.raises(UnknownNameError, match="Did you mean 'random_baseline'"):
        check_world("ConformanceHonest-v0", "random_base")
    with pytest.raises(UnknownNameError, match="No environment"):
        check_world("NoSuchWorld-v0", "card")
    with pytest.raises(ConfigError, match="at least 1"):
        Settings(episodes=0)
    part: Any = 2.5
    with pytest.raises(ConfigError, match=r"episodes must be a whole number, not 2\.5"):
        Settings(episodes=part)
    with pytest.raises(ConfigError, match="checks is empty; name at least one of isolation, gymnasium"):
        run_checks("ConformanceHonest-v0", [])


def test_a_class_is_checked_as_its_name_is() -> None:
    """Registered or not; what is no world, and no name of one, is said to be none."""
    module = import_module("conformance_worlds")
    assert check_world(module.Honest, "card").spec.name == "ConformanceHonest-v0"
    again = type("Honest", (module.Honest,), {"__doc__": module.Honest.__doc__, "__qualname__": "Again"})
    assert check_world(again, "tasks").spec.name == "Honest-v0"
    mistakes: tuple[Any, ...] = (module.Honest(), dict, 3)
    for wrong in mistakes:
        with pytest.raises(ConfigError, match="a world's class or its name is wanted"):
            check_world(wrong, "card")


@pytest.mark.parametrize("guard", ["", "if __name__ == '__main__':\n    "])
def test_a_script_without_a_guard_is_told_of_it(tmp_path: Path, guard: str) -> None:
    """In one line, before it runs again in the processes of a check; with one it is checked."""
    script = tmp_path / "script.py"
    begin = "from conformance_worlds import Honest\nfrom agentgym_py.testing import check_world\n"
    script.write_text(f"{begin}{guard}print(check_world(Honest, 'vectors').verdict())\n", encoding="utf-8")
    path = os.pathsep.join([str(FOLDER), *sys.path])
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    if guard:
        assert done.stdout.startswith("ConformanceHonest-v0: no failure"), done.stderr
    else:
        last = done.stderr.splitlines()[-1]
        assert done.returncode == 1 and "script.py again: write what it does below `if __name__ ==" in last


def test_the_kit_needs_neither_torch_nor_pytest() -> None:
    """Nor hypothesis, to be imported."""
    code = "import sys, agentgym_py.testing; print({'torch', 'pytest', 'hypothesis'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


@pytest.mark.parametrize(("n", "p"), [(1, 0.5), (6, 0.05), (9, 0.3)])
def test_the_tail_is_the_binomial_one(n: int, p: float) -> None:
    """Against the sum over every outcome of n tries."""
    for hits in range(n + 2):
        slow = sum(
            p ** sum(tries) * (1 - p) ** (n - sum(tries)) for tries in product((0, 1), repeat=n) if sum(tries) >= hits
        )
        assert binomial_tail(hits, n, p) == pytest.approx(slow, abs=1e-12)
    assert binomial_tail(1, n, 0.0) == 0.0 and binomial_tail(0, n, 0.0) == 1.0


@pytest.mark.parametrize(
    "text", ["", "x'\"\\\n", "\ud800é🎉", "a" * MEGABYTE, "[x" * 5000, "abc" * 200 + "d", "go " + "9" * MEGABYTE + "]"]
)
def test_texts_are_written_as_source_that_gives_them(text: str) -> None:
    """Whatever is in them; repetitions as a product, so that a program with a megabyte can be read."""
    space: dict[str, str] = {}
    exec(f"text = {text_source(text)}", space)  # noqa: S102  # the test's own
    assert space["text"] == text and len(text_source(text)) < 5000


def test_a_failure_without_moves_has_a_program_all_the_same() -> None:
    """It makes and resets the world."""
    assert "env.reset(seed=None, options=None)" in Failure("x").script(EnvSpec("ConformanceHonest-v0"))
    assert Moves() == Moves(None, None, ())


def test_without_hypothesis_the_note_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check passes without it, with fewer strings."""
    monkeypatch.setattr("agentgym_py.testing.fuzz.find_spec", lambda _: None)
    report = run_checks(EnvSpec("maze"), ["strings"], Settings(episodes=2))
    assert report.ok and "pip install hypothesis" in report.results[0].line


sys.path.append(str(FOLDER.parent))  # fresh processes find the worlds there
misbehaving: Any = import_module("misbehaving_env")
HERE = misbehaving.VALUES | misbehaving.ERRORS | misbehaving.PLANS | misbehaving.ACTIONS | {"prints": None}
FEW = Settings(episodes=3, memory_episodes=0, longest_step=1.0)


def misbehaving_spec(fault: str) -> EnvSpec:
    """The world that has this fault in every task."""
    return EnvSpec("Misbehaving-v0", {"fault": fault, "everywhere": True})


@pytest.mark.parametrize("fault", ["", *HERE])
def test_the_kit_finds_what_the_collector_refuses(fault: str) -> None:
    """Every fault whose episode the collector makes an infrastructure error, and nothing without a fault."""
    report = run_checks(misbehaving_spec(fault), ["interface", "expert", "actions"], FEW)
    assert bool(report.failed) == bool(fault) and not report.not_done


DEADLY = {
    "exits": "step() ends its process, status 3",
    "exits cleanly": "reset() ends its process, status 0",
    "forks and dies": "step() ends its process, status 3",
    "forks": "step() returns in a second process, a copy that it has forked",
    "hangs in C": "step() takes longer than 1 seconds",
    "descriptors": "no further file can be opened: the world leaves its files open",
    "memory": "step() raised MemoryError: a world may take 4 GiB",
    "forks in snapshot": "snapshot() returns in a second process, a copy that it has forked",
    **{fault: f"{fault.removeprefix('exits in ')}() ends its process, status 3" for fault in misbehaving.QUESTIONS},
}
"""Faults from which the checks in this process are protected, and the messages of the check `isolation`."""
QUICK_DEATHS = {"exits", "hangs in C", "exits in restore"}


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="limits are set as on Linux")
@pytest.mark.parametrize(
    "fault",
    [pytest.param(fault, marks=() if fault in QUICK_DEATHS else pytest.mark.slow) for fault in DEADLY],
)
def test_the_kit_finds_worlds_that_would_end_it(fault: str) -> None:
    """The other checks, which play in this process, are not begun."""
    report = run_checks(misbehaving_spec(fault), ["isolation", "interface"], FEW)
    (result,) = report.failed
    assert result.failure and result.failure.message == DEADLY[fault]
    if fault in misbehaving.QUESTIONS:
        assert result.failure.moves and fault.removeprefix("exits in ") in result.failure.moves.after
    assert report.not_begun == ("interface",) and "not done: interface" in report.verdict()
