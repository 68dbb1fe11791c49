"""Checks of the interface: Gymnasium's own checker, `info`, ends of episodes, misuse, tasks, card."""

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
from agentgym_py.testing.failures import BrokenContractError, Moves
from agentgym_py.testing.harness import Subject, short_repr
from agentgym_py.testing.random_actions import NONSENSE

VECTORS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("sync", {}),
    ("async", {}),
    ("async", {"shared_memory": False}),
    ("async", {"context": "spawn"}),
    ("async", {"copy": False}),
)
_VECTOR = """if __name__ == "__main__":  # in a file: a spawned process imports it
    vector, alone = gymnasium.make_vec({name!r}, num_envs=2{kwargs}), (make(), make())
    print(vector.reset(seed={start})[0], "and alone", [env.reset(seed={start} + i)[0] for i, env in enumerate(alone)])
    actions = {actions!a}
    print(vector.step(actions)[0], "and alone", [env.step(action)[0] for env, action in zip(alone, actions)])
    vector.close()"""
_VECTOR_ACTIONS = (NONSENSE, "more of it: 🎉")
_NOT_STRINGS: tuple[Any, ...] = (None, 3, b"bytes", {"name": "search"}, ["look"])
_CARD = ("task", "action", "observation", "reward", "end")
_LUCK = ("floor", "luck", "chance", "random", "guess")
_TASKS_PER_SPLIT = 150


def gymnasium_check(subject: Subject) -> None:
    """Gymnasium's own checker finds no error and warns of nothing."""
    env = subject.make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            check_env(env, skip_render_check=True)
        except Exception as error:  # whatever the checker meets
            raise BrokenContractError(f"gymnasium.utils.env_checker.check_env: {error!r}") from error


def vectors(subject: Subject) -> None:
    """Two copies under `make_vec`, in this process or in others, observe what they observe alone."""
    for mode, kwargs in VECTORS:
        label = ", ".join(["make_vec", mode, *(f"{name}={value}" for name, value in kwargs.items())])
        moves = _vector_moves(subject, {"vectorization_mode": mode, "vector_kwargs": kwargs, **subject.spec.kwargs})
        try:
            _check_vector(subject, mode, kwargs, label, moves)
        except BrokenContractError:
            raise
        except Exception as error:  # a worker may die of anything
            raise BrokenContractError(f"{label}: {error!r}", moves) from error


def _check_vector(subject: Subject, mode: str, kwargs: dict[str, Any], label: str, moves: Moves) -> None:
    start = subject.seeds(1)[0]
    name = env_id(subject.spec.name)
    with _block_sigint():
        vector: Any = gymnasium.make_vec(
            name, num_envs=2, vectorization_mode=mode, vector_kwargs=kwargs, **subject.spec.kwargs
        )
    with closing(vector):
        observations, infos = vector.reset(seed=start)
        episodes = [subject.episode() for _ in range(2)]
        for i, episode in enumerate(episodes):
            same = observations[i] == episode.reset(seed=start + i) and infos["task_id"][i] == episode.info["task_id"]
            subject.require(
                same, f"{label}: after reset, copy {i} has another episode than a single environment", moves
            )
        observations = vector.step(_VECTOR_ACTIONS)[0]
        for i, episode in enumerate(episodes):
            same = observations[i] == episode.step(_VECTOR_ACTIONS[i]).observation
            subject.require(
                same, f"{label}: after a step, copy {i} has another observation than a single environment", moves
            )


def _vector_moves(subject: Subject, kwargs: Mapping[str, Any]) -> Moves:
    """Return a program that runs two copies, and the same env alone."""
    start, given = subject.seeds(1)[0], "".join(f", {key}={value!r}" for key, value in kwargs.items())
    name = env_id(subject.spec.name)
    return Moves(start, None, after=_VECTOR.format(name=name, kwargs=given, start=start, actions=_VECTOR_ACTIONS))


@contextmanager
def _block_sigint() -> Iterator[None]:
    """Start processes that ignore Ctrl-C, which a terminal sends to all of them: this process closes them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # its start unblocks SIGINT
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def interface(subject: Subject) -> None:
    """`info`, ends and errors are as `TextEnv` says: for bad actions, after the end, at the limit, without a reset."""
    env = subject.make()
    _require_error(subject, ResetNeededError, lambda: env.step("x"), "step() before the first reset")
    _require_error(subject, ResetNeededError, env.snapshot, "snapshot() before the first reset")
    episode = subject.episode()
    episode.reset(subject.seeds(1)[0])
    episode.require(episode.info["valid_action"] is True, "info of reset says valid_action False")
    turn = episode.step(NONSENSE)
    episode.require(turn.info["valid_action"] is False, f"{NONSENSE!r} counts as a valid action")
    episode.require(turn.info["success"] is False, f"{NONSENSE!r} is a success")
    _check_non_strings(subject)
    _check_stdout(subject)
    _check_max_steps(subject)
    _check_truncation(subject)
    _check_after_end(subject)


def _require_error(subject: Subject, expected: type[Exception], call: Callable[[], object], label: str) -> None:
    try:
        call()
    except expected:
        return
    except Exception as error:
        subject.require(False, f"{label} raises {error!r}, not {expected.__name__}")
    subject.require(False, f"{label} raises nothing, not {expected.__name__}")


def _check_non_strings(subject: Subject) -> None:
    episode = subject.episode()
    episode.reset(subject.seeds(1)[0])
    before = episode.snapshot()
    for value in _NOT_STRINGS:
        label = f"step({value!r})"
        _require_error(subject, ActionError, partial(episode.env.step, value), label)
        episode.require(episode.snapshot() == before, f"{label} raises an error but changes the episode")


def _check_stdout(subject: Subject) -> None:
    with redirect_stdout(StringIO()) as out:
        episode = subject.episode()
        episode.reset(subject.seeds(1)[0])
        episode.step(NONSENSE)
        if not episode.over:
            episode.follow(episode.expert())
    text = out.getvalue()
    episode.require(not text, f"the world prints to stdout: {short_repr(text)}")


def _check_max_steps(subject: Subject) -> None:
    env_class: Any = type(subject.make())
    if "max_steps" in parameters_of(env_class):
        limit = subject.make(max_steps=7).max_steps
        message = f"made with max_steps=7, the world has max_steps = {limit}: give it to super().__init__"
        subject.require(limit == 7, message)


def _check_truncation(subject: Subject) -> None:
    episode = subject.episode()
    episode.env.max_steps = 2
    episode.reset(subject.seeds(1)[0])
    ends = [episode.step(NONSENSE)[2:4] for _ in range(3)]
    label = "(terminated, truncated)"
    episode.require(ends[:2] == [(False, False), (False, True)], f"max_steps=2 ends {label} in {ends}")
    if episode.env.stops_at_end:
        episode.require(ends[2] == (False, True), f"a step after the limit says {label} = {ends[2]}")


def _check_after_end(subject: Subject) -> None:
    episode = subject.episode(subject.make_longer())
    episode.reset(subject.seeds(1)[0])
    last = episode.follow(episode.expert())
    episode.require(last.terminated, "the episode has not terminated after the last action of the expert's plan")
    if not episode.env.stops_at_end:
        return
    steps = episode.env.steps
    expected = (0.0, True, False, False, last.info["success"])
    label = "(reward, terminated, truncated, valid_action, success)"
    for action in (NONSENSE, episode.moves.actions[-1]):
        turn = episode.step(action)
        actual = (turn.reward, turn.terminated, turn.truncated, turn.info["valid_action"], turn.info["success"])
        episode.require(actual == expected, f"after the end {label} are {actual}, not {expected}")
        episode.require(episode.env.steps == steps, "a step after the end is counted")


def tasks(subject: Subject) -> None:
    """Splits share no instruction, an id always gives the same task, a wrong name raises UnknownNameError."""
    env = subject.make()
    by_split = {split: [env.task(n, split) for n in subject.tasks(split, _TASKS_PER_SPLIT)] for split in SPLITS}
    for split, split_tasks in by_split.items():
        message = f"the split {split} has no tasks: {_why_no_tasks(env, split)}"
        subject.require(bool(split_tasks), message, Moves(None, {"task": 0, "split": split}))
        for task in split_tasks:
            _check_task(subject, task, split)
        for task in split_tasks[:20]:
            again = subject.make().task(task.id)
            message = f"the id {task.id!r} gives another task the second time: {again!r:.200}, not {task!r:.200}"
            subject.require(again == task, message, _reset_to(task))
    _check_disjoint(subject, by_split)
    _check_wrong_names(subject)


def _why_no_tasks(env: TextEnv, split: str) -> str:
    try:
        env.task(0, split)
    except UnknownNameError as error:
        return f"its tasks are numbered from 0, and task(0, {split!r}) raises {error!r}"
    return "task(0) works, but not the other numbers"


def _check_task(subject: Subject, task: Task, split: str) -> None:
    message = f"the task {task.id!r} of the split {split} has the split {task.split!r}"
    subject.require(task.split == split, message, _reset_to(task))
    texts = (task.id, task.kind, task.difficulty, task.instruction)
    valid = all(isinstance(text, str) and text for text in texts)
    subject.require(
        valid,
        f"id, kind, difficulty and instruction of a task must be texts that are not empty: {task!r}",
        _reset_to(task),
    )


def _reset_to(task: Task) -> Moves:
    return Moves(None, {"task": task.id})


def _check_disjoint(subject: Subject, by_split: dict[str, list[Task]]) -> None:
    first: dict[str, Task] = {}
    for task in (task for split_tasks in by_split.values() for task in split_tasks):
        other = first.setdefault(task.instruction, task)
        message = f"{other.id!r} and {task.id!r} have the same instruction: {task.instruction!r:.200}"
        subject.require(other.split == task.split, message, _reset_to(task))


def _check_wrong_names(subject: Subject) -> None:
    wrong: tuple[dict[str, Any], ...] = (
        {"task": "no/such/task"}, {"task": ""}, {"task": None, "split": "tset"}, {"spilt": "test"}, {"task": -1},
        {"task": f"{subject.make().name}/train/no-such-difficulty/1"},
    )  # fmt: skip
    for options in wrong:
        env = subject.make()
        _require_error(subject, UnknownNameError, partial(env.reset, options=options), f"reset(options={options!r})")
    for snapshot in (b"", b"[]", b'{"format": 1}', b"\xff", b"{}"):
        _require_error(subject, SnapshotError, partial(subject.make().restore, snapshot), f"restore({snapshot!r})")


def card(subject: Subject) -> None:
    """The class docstring tells task, actions, observation, reward, end and id; rules come in three lengths."""
    env = subject.make()
    text = (inspect.getdoc(type(env)) or "").lower()
    problems = []
    if missing := [word for word in (*_CARD, env_id(subject.spec.name)) if word.lower() not in text]:
        problems.append(f"the docstring of {type(env).__name__}, its card, does not say: {', '.join(missing)}")
    lengths = [len(env.rules.get(style, "")) for style in ("full", "brief", "none")]
    if not lengths[0] > lengths[1] > lengths[2] == 0:
        rules = "full, brief and none"
        problems.append(f"`rules` needs a long text, a shorter one and an empty one as {rules}; lengths are {lengths}")
    if unnamed := [name for name in env.costs if name.lower() not in text]:
        problems.append(f"the card does not say what these costs are: {', '.join(unnamed)}")
    share = env.random_baseline
    if not 0 <= share < 1:
        problems.append(f"random_baseline must be at least 0 and below 1, not {share!r}")
    elif share > TextEnv.random_baseline and not any(word in text for word in _LUCK):
        problems.append(
            f"a random_baseline of {share:.0%} needs a reason in the card, with one of the words {', '.join(_LUCK)}"
        )
    subject.require(not problems, "; ".join(problems))
