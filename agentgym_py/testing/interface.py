"""Checks of the interface: Gymnasium's own, `info`, ends, misuse, tasks, card."""

from __future__ import annotations

import inspect
import signal
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, redirect_stdout
from functools import partial
from io import StringIO
from multiprocessing import resource_tracker
from typing import Any

import gymnasium
from gymnasium.utils.env_checker import check_env

from agentgym_py.checks import parameters_of
from agentgym_py.env import SPLITS, Task, TextEnv
from agentgym_py.env.registration import env_id
from agentgym_py.errors import ActionError, ResetNeededError, SnapshotError, UnknownNameError
from agentgym_py.testing.harness import NONSENSE, BrokenContractError, Moves, Subject, shown

VECTORS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("sync", {}),
    ("async", {}),
    ("async", {"shared_memory": False}),
    ("async", {"context": "spawn"}),
    ("async", {"copy": False}),
)
_VECTOR = """if __name__ == "__main__":  # in a file: what is spawned reads it
    vector, alone = gymnasium.make_vec({name!r}, num_envs=2{given}), (make(), make())
    print(vector.reset(seed={start})[0], "and alone", [env.reset(seed={start} + i)[0] for i, env in enumerate(alone)])
    actions = {said!a}
    print(vector.step(actions)[0], "and alone", [env.step(action)[0] for env, action in zip(alone, actions)])
    vector.close()"""
_SAID = (NONSENSE, "more of it: 🎉")
_NOT_STRINGS: tuple[Any, ...] = (None, 3, b"bytes", {"name": "search"}, ["look"])
_CARD = ("task", "action", "observation", "reward", "end")
_LUCK = ("floor", "luck", "chance", "random", "guess")
_TASKS_A_SPLIT = 150


def gymnasium_check(subject: Subject) -> None:
    """Gymnasium's own checker has nothing to say, not even a warning."""
    env = subject.make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            check_env(env, skip_render_check=True)
        except Exception as error:  # it raises whatever it meets
            raise BrokenContractError(f"gymnasium.utils.env_checker.check_env: {error!r}") from error


def vectors(subject: Subject) -> None:
    """Two copies under `make_vec`, in this process or in others, see what they see alone."""
    for mode, kwargs in VECTORS:
        try:
            _vector(subject, mode, kwargs)
        except BrokenContractError:
            raise
        except Exception as error:  # a worker may die of anything
            raise BrokenContractError(
                f"{_called(mode, kwargs)}: {error!r}", _shown_by(subject, mode, kwargs)
            ) from error


def _vector(subject: Subject, mode: str, kwargs: dict[str, Any]) -> None:
    start = subject.seeds(1)[0]
    name = env_id(subject.spec.name)
    with _out_of_reach():
        made: Any = gymnasium.make_vec(
            name, num_envs=2, vectorization_mode=mode, vector_kwargs=kwargs, **subject.spec.kwargs
        )
    with closing(made) as vector:
        observations, infos = vector.reset(seed=start)
        firsts = [(play := subject.play(), play.reset(seed=start + i))[0] for i in range(2)]
        for i, play in enumerate(firsts):
            same = observations[i] == play.observation and infos["task_id"][i] == play.info["task_id"]
            message = f"{_called(mode, kwargs)}: copy {i} resets to another episode than it does alone"
            subject.need(same, message, _shown_by(subject, mode, kwargs))
        observations = vector.step(_SAID)[0]
        for i, play in enumerate(firsts):
            same = observations[i] == play.step(_SAID[i]).observation
            message = f"{_called(mode, kwargs)}: copy {i} observes something else than it does alone"
            subject.need(same, message, _shown_by(subject, mode, kwargs))


def _shown_by(subject: Subject, mode: str, kwargs: Mapping[str, Any]) -> Moves:
    """Two copies, and the same alone."""
    start, more = subject.seeds(1)[0], {"vectorization_mode": mode, "vector_kwargs": kwargs, **subject.spec.kwargs}
    name, given = env_id(subject.spec.name), "".join(f", {key}={value!r}" for key, value in more.items())
    return Moves(start, None, after=_VECTOR.format(name=name, given=given, start=start, said=_SAID))


def _called(mode: str, kwargs: dict[str, Any]) -> str:
    return ", ".join(["make_vec", mode, *(f"{name}={value}" for name, value in kwargs.items())])


@contextmanager
def _out_of_reach() -> Iterator[None]:
    """Processes that begin within do not hear Ctrl-C, which a terminal sends to all: this one closes them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # its start lets SIGINT through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def interface(subject: Subject) -> None:
    """`info`, ends and errors are as `TextEnv` says: of bad actions, after the end, at the limit, without a reset."""
    _needs_a_reset(subject)
    play = subject.play()
    play.reset(subject.seeds(1)[0])
    play.need(play.info["valid_action"] is True, "info of reset says valid_action False")
    turn = play.step(NONSENSE)
    play.need(turn.info["valid_action"] is False, f"{NONSENSE!r} counts as a valid action")
    play.need(turn.info["success"] is False, f"{NONSENSE!r} is a success")
    _refuses_what_is_no_string(subject)
    _prints_nothing(subject)
    _takes_max_steps(subject)
    _truncates(subject)
    _stays_over(subject)


def _needs_a_reset(subject: Subject) -> None:
    env = subject.make()
    _raises(subject, ResetNeededError, lambda: env.step("x"), "step() before the first reset")
    _raises(subject, ResetNeededError, env.snapshot, "snapshot() before the first reset")


def _raises(subject: Subject, wanted: type[Exception], call: Callable[[], object], what: str) -> Exception:
    """The error, which must be of the wanted kind."""
    try:
        call()
    except wanted as error:
        return error
    except Exception as error:
        subject.need(False, f"{what} raises {error!r}, not {wanted.__name__}")
    subject.need(False, f"{what} raises nothing, not {wanted.__name__}")
    raise AssertionError("unreachable")


def _refuses_what_is_no_string(subject: Subject) -> None:
    play = subject.play()
    play.reset(subject.seeds(1)[0])
    before = play.snapshot()
    for wrong in _NOT_STRINGS:
        what = f"step({wrong!r})"
        _raises(subject, ActionError, partial(play.env.step, wrong), what)
        play.need(play.snapshot() == before, f"{what} is refused and changes the episode all the same")


def _prints_nothing(subject: Subject) -> None:
    with redirect_stdout(StringIO()) as said:
        play = subject.play()
        play.reset(subject.seeds(1)[0])
        play.step(NONSENSE)
        if not play.ended:
            play.follow(play.expert())
    play.need(not said.getvalue(), f"the world prints to stdout, which is not its own: {shown(said.getvalue())}")


def _takes_max_steps(subject: Subject) -> None:
    world: Any = type(subject.make())
    if "max_steps" in parameters_of(world):
        limit = subject.make(max_steps=7).max_steps
        subject.need(
            limit == 7, f"made with max_steps=7, the world has max_steps = {limit}: give it to super().__init__"
        )


def _truncates(subject: Subject) -> None:
    play = subject.play()
    play.env.max_steps = 2
    play.reset(subject.seeds(1)[0])
    ends = [play.step(NONSENSE)[2:4] for _ in range(3)]
    play.need(ends[:2] == [(False, False), (False, True)], f"max_steps=2 ends (terminated, truncated) in {ends}")
    if play.env.stops_at_end:
        play.need(ends[2] == (False, True), f"a step after the limit says (terminated, truncated) = {ends[2]}")


def _stays_over(subject: Subject) -> None:
    play = subject.play(subject.roomy())
    play.reset(subject.seeds(1)[0])
    last = play.follow(play.expert())
    play.need(last.terminated, "the expert's plan is done, and the episode has not terminated")
    if not play.env.stops_at_end:
        return
    before = play.env.steps
    for action in (NONSENSE, play.moves.actions[-1]):
        after = play.step(action)
        said = (after.reward, after.terminated, after.truncated, after.info["valid_action"], after.info["success"])
        wanted = (0.0, True, False, False, last.info["success"])
        what = "(reward, terminated, truncated, valid_action, success)"
        play.need(said == wanted, f"after the end {what} are {said}, not {wanted}")
        play.need(play.env.steps == before, "a step after the end is counted")


def tasks(subject: Subject) -> None:
    """Splits share no instruction, an id gives its task again, a wrong name is answered with what there is."""
    env = subject.make()
    found = {split: [env.task(n, split) for n in subject.tasks(split, _TASKS_A_SPLIT)] for split in SPLITS}
    for split, of_split in found.items():
        subject.need(
            bool(of_split),
            f"the split {split} has no tasks: {_why_none(env, split)}",
            Moves(None, {"task": 0, "split": split}),
        )
        for task in of_split:
            _is_of(subject, task, split)
        for task in of_split[:20]:
            again = subject.make().task(task.id)
            told = f"the id {task.id!r} gives another task the second time: {again!r:.200}, not {task!r:.200}"
            subject.need(again == task, told, _reset_to(task))
    _share_nothing(subject, found)
    _names_are_checked(subject)


def _why_none(env: TextEnv, split: str) -> str:
    try:
        env.task(0, split)
    except UnknownNameError as error:
        return f"its tasks are numbered from 0, and task(0, {split!r}) raises {error!r}"
    return "there is number 0, yet not those that were asked for"


def _is_of(subject: Subject, task: Task, split: str) -> None:
    where = f"task {task.id!r} of the split {split} says that it is of {task.split!r}"
    subject.need(task.split == split, where, _reset_to(task))
    texts = (task.id, task.kind, task.difficulty, task.instruction)
    fine = all(isinstance(text, str) and text for text in texts)
    subject.need(fine, f"id, kind, difficulty and instruction of a task are texts: {task!r}", _reset_to(task))


def _reset_to(task: Task) -> Moves:
    return Moves(None, {"task": task.id})


def _share_nothing(subject: Subject, found: dict[str, list[Task]]) -> None:
    split_of: dict[str, Task] = {}
    for task in (task for of_split in found.values() for task in of_split):
        other = split_of.setdefault(task.instruction, task)
        told = f"{other.id!r} and {task.id!r} have the same instruction: {task.instruction!r:.200}"
        subject.need(other.split == task.split, told, _reset_to(task))


def _names_are_checked(subject: Subject) -> None:
    wrong: tuple[dict[str, Any], ...] = (
        {"task": "no/such/task"}, {"task": ""}, {"task": None, "split": "tset"}, {"spilt": "test"}, {"task": -1},
        {"task": f"{subject.make().name}/train/no-such-difficulty/1"},
    )  # fmt: skip
    for options in wrong:
        env = subject.make()
        _raises(subject, UnknownNameError, partial(env.reset, options=options), f"reset(options={options!r})")
    for broken in (b"", b"[]", b'{"format": 1}', b"\xff", b"{}"):
        _raises(subject, SnapshotError, partial(subject.make().restore, broken), f"restore({broken!r})")


def card(subject: Subject) -> None:
    """The class docstring tells task, actions, observation, reward, end and id; rules come in three lengths."""
    env = subject.make()
    text = (inspect.getdoc(type(env)) or "").lower()
    name = env_id(subject.spec.name)
    missing = [word for word in (*_CARD, name) if word.lower() not in text]
    subject.need(not missing, f"the docstring of {type(env).__name__}, its card, does not say: {', '.join(missing)}")
    lengths = [len(env.rules[style]) for style in ("full", "brief", "none")]
    fine = lengths[0] > lengths[1] > lengths[2] == 0
    subject.need(fine, f"rules full > brief > none = nothing; they have {lengths} characters")
    share = env.random_baseline
    subject.need(0 <= share < 1, f"random_baseline is a share of episodes below 1, not {share!r}")
    told = share <= TextEnv.random_baseline or any(word in text for word in _LUCK)
    subject.need(told, f"a random_baseline of {share:.0%} needs a reason in the card")
