"""The collector: many episodes at once, slots refilled as they end, results in the order of the jobs."""

from __future__ import annotations

import hashlib
import os
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from agentgym_py.agents import Agent, AgentReply, Episode
from agentgym_py.collection.env_pool import EnvPool
from agentgym_py.collection.executor import Executor
from agentgym_py.collection.job import Job, StateSnapshot
from agentgym_py.collection.watchdog import Watch, checked_timeout
from agentgym_py.env import Prompt, StopReason, TextEnv
from agentgym_py.env.base import checked_prompt
from agentgym_py.env.tracebacks import own_line
from agentgym_py.errors import AgentGymError, ConfigError, InfrastructureError, SnapshotError
from agentgym_py.files import canonical
from agentgym_py.rng import seed_of
from agentgym_py.trajectory import Provenance, Step, Trajectory

Progress = Callable[[Trajectory], None]


_Live = dict[int, tuple[Job, Episode]]
_Asked = dict[int, "Future[AgentReply | None]"]
_Reply = AgentReply | InfrastructureError | None
_Replies = Callable[[Mapping[int, Episode]], Iterable[tuple[int, _Reply]]]


@dataclass(slots=True)
class Collector:
    """Plays jobs with an agent.

    The result depends on the jobs, the agent and `seed` only: not on `slots` and `workers` (but for how sums round),
    nor on which episode ends first.
    """

    agent: Agent
    slots: int = 64
    """Episodes that are live at once."""
    prompt: Prompt = "brief"
    seed: int = 0
    workers: Executor | None = None
    """Who else plays, processes or Ray's actors, where there are jobs enough or a `step_timeout`."""
    step_timeout: float | None = None
    """Seconds that a world may take to be made, to begin or for a step; an episode of one that takes longer ends with
    an infrastructure error. Processes are ended where the world does not come back. In this process nothing can stop
    it: that it was late is noticed when it is back."""
    retries: int = 1
    """How often an episode is begun again whose world failed, was late or took its process along. (Endpoints ask
    again themselves.)"""

    def __post_init__(self) -> None:
        if not callable(getattr(self.agent, "act", None)):
            raise ConfigError(f"an agent such as ExpertAgent() is wanted, with a method act; got {self.agent!r:.100}")
        checked_prompt(self.prompt)
        if self.slots < 1:
            raise ConfigError(f"slots must be at least 1, got {self.slots}")
        checked_timeout(self.step_timeout)
        if self.retries < 0:
            raise ConfigError(f"retries must be at least 0, got {self.retries}")

    def collect(self, job: Job) -> Trajectory:
        """Play one episode."""
        return self.collect_batch([job])[0]

    def collect_batch(self, jobs: Sequence[Job], progress: Progress | None = None) -> list[Trajectory]:
        """Play every job; trajectories in the order of `jobs`."""
        done: dict[int, Trajectory] = {}
        for index, trajectory in self.stream(jobs):
            done[index] = trajectory
            if progress:
                progress(trajectory)
        return [done[i] for i in range(len(jobs))]

    def in_order(self, jobs: Sequence[Job]) -> Generator[Trajectory]:
        """Play every job; trajectories in the order of `jobs`, each as soon as all before it are over."""
        done: dict[int, Trajectory] = {}
        following = 0
        for index, trajectory in self.stream(jobs):
            done[index] = trajectory
            while following in done:
                yield done.pop(following)
                following += 1

    def stream(self, jobs: Sequence[Job], watch: Watch | None = None) -> Iterator[tuple[int, Trajectory]]:
        """Play every job; (number of the job, trajectory) as they end. `watch` shows another process what is done."""
        if self.workers and jobs and (self.step_timeout is not None or self.workers.worth(jobs)):
            yield from self.workers.stream(self, jobs)
            return
        slots = min(self.slots, getattr(self.agent, "slots", self.slots))
        queue, watch = _Queue(jobs, self.retries), watch or Watch(self.step_timeout)
        live: _Live = {}
        with closing(EnvPool(watch)) as pool, _awaited() as asked:
            replies = self._replies(asked)
            while queue.waiting or live:
                while queue.waiting and len(live) < slots:
                    index, job = queue.waiting.popleft()
                    episode, error = self._begin(job, pool, watch.of(index))
                    if episode is not None:
                        live[index] = (job, episode)
                    elif not queue.again(index, job):
                        yield index, failed(job, self, error)
                if live:
                    yield from self._turn(live, pool, replies, queue, watch)

    def _turn(
        self, live: _Live, pool: EnvPool, replies: _Replies, queue: _Queue, watch: Watch
    ) -> Iterator[tuple[int, Trajectory]]:
        for index, reply in replies({index: episode for index, (_, episode) in live.items()}):
            job, episode = live[index]
            ended, error = self._step(episode, reply, watch.of(index))
            if not ended:
                continue
            del live[index]
            if error is None:
                pool.give(job.env, episode.env)
            else:
                pool.drop(episode.env)
                tried = isinstance(reply, AgentReply) and reply.error is not None  # often enough, by the agent
                if not tried and queue.again(index, job):
                    continue
            yield index, _trajectory(job, self, episode, error)

    def _replies(self, asked: _Asked) -> _Replies:
        """How live episodes come to the agent's replies: some as soon as they are there, or all at once."""
        agent: Any = self.agent
        if getattr(agent, "elsewhere", False):
            return partial(self._arrived, asked)
        playing = agent.playing() if hasattr(agent, "playing") else None
        return playing or self._given

    def _given(self, live: Mapping[int, Episode]) -> Iterable[tuple[int, _Reply]]:
        return zip(live, self._asked(list(live.values())), strict=True)

    def _asked(self, episodes: Sequence[Episode]) -> Sequence[_Reply]:
        """The agent's replies; where it needs a server that is gone, the error, for that episode alone."""
        try:
            return self.agent.act(episodes)
        except InfrastructureError as error:
            if len(episodes) == 1:
                return [error]
            return [reply for episode in episodes for reply in self._asked([episode])]

    def _arrived(self, asked: _Asked, live: Mapping[int, Episode]) -> Iterable[tuple[int, _Reply]]:
        """The replies that are there; every live episode's is asked for, and the first one waited for."""
        import asyncio

        from agentgym_py.http_client import loop

        agent: Any = self.agent
        for index, episode in live.items():
            if index not in asked:
                asked[index] = asyncio.run_coroutine_threadsafe(agent.reply(episode), loop())
        wait(asked.values(), return_when=FIRST_COMPLETED)
        there = [index for index, future in asked.items() if future.done()]
        return [(index, _said(asked.pop(index))) for index in there]

    def _reset(self, job: Job, env: TextEnv) -> Episode:
        if job.start:
            return self._restored(job, job.start, env)
        task = env.task(job.task, job.split)
        observation, _ = env.reset(seed=_env_seed(self, task.id), options={"task": task.id})
        return Episode(env, task, seed_of(self.seed, task.id, job.attempt), env.rules[self.prompt], observation)

    def _restored(self, job: Job, start: StateSnapshot, env: TextEnv) -> Episode:
        env.restore(start.snapshot)
        task = env.current_task
        if task is None or env.snapshot() != start.snapshot:
            raise SnapshotError(f"{job.env.name} did not take up the state of {job.task!r} byte by byte")
        steps = [replace(step, trained=False) for step in start.steps]
        seed = seed_of(self.seed, task.id, job.attempt, hashlib.sha256(start.snapshot).hexdigest())
        return Episode(env, task, seed, start.rules, start.observation, steps)

    def _begin(self, job: Job, pool: EnvPool, watch: Watch) -> tuple[Episode | None, str]:
        env = None
        try:
            with watch:
                env = pool.take(job.env)
            with watch:
                return self._reset(job, env), ""
        except Exception as error:  # a stranger's world may fail anyhow: infrastructure, never reward 0
            if isinstance(error, AgentGymError) and not isinstance(error, InfrastructureError):
                raise
            if env is not None:
                pool.drop(env)
            return None, _place(error)

    def _step(self, episode: Episode, reply: _Reply, watch: Watch) -> tuple[bool, str | None]:
        if isinstance(reply, InfrastructureError):
            return True, repr(reply)
        if reply is None or reply.error is not None:
            return True, reply.error if reply else None
        try:
            with watch:
                observation, reward, terminated, truncated, info = episode.env.step(reply.text)
        except Exception as error:  # as above
            return True, _place(error)
        said = episode.env.last_reply or episode.env.read(reply.text)  # a world may override `step`
        parts = info.get("reward_parts", {})
        step = Step(episode.observation, reply.text, said.thought, said.action, said.action_input, float(reward),
                    bool(info["valid_action"]), parts, reply.tokens, usage=reply.usage)  # fmt: skip
        episode.steps.append(step)
        episode.observation = observation
        return terminated or truncated, None


class _Queue:
    """Jobs that wait, with their numbers, and how often each was begun again."""

    def __init__(self, jobs: Sequence[Job], retries: int) -> None:
        self.waiting = deque(enumerate(jobs))
        self._retries, self._tried = retries, Counter[int]()

    def again(self, index: int, job: Job) -> bool:
        """Let a failed one wait again, after all others; False where it was begun often enough."""
        self._tried[index] += 1
        if self._tried[index] > self._retries:
            return False
        self.waiting.append((index, job))
        return True


def _place(error: Exception) -> str:
    """What a world raised, and where in its own source, the folder left out: files say no more of a machine."""
    place = own_line(error).rpartition(os.sep)[2]
    return repr(error) + (f" ({place})" if place else "")


def _said(asked: Future[AgentReply | None]) -> _Reply:
    try:
        return asked.result()
    except InfrastructureError as error:
        return error


@contextmanager
def _awaited() -> Iterator[_Asked]:
    """Replies that are waited for, until nobody does any more."""
    asked: _Asked = {}
    try:
        yield asked
    finally:
        for each in asked.values():
            each.cancel()


def _env_seed(collector: Collector, task_id: str) -> int:
    return seed_of(collector.seed, "world", task_id)


def _id(job: Job, name: str) -> str:
    """Task, arguments of the world where there are any, number of the try, and after how many steps it went on."""
    kwargs = job.env.world.kwargs
    made = hashlib.sha256(canonical(kwargs).encode()).hexdigest()[:8] if kwargs else ""
    gone_on = f"+{len(job.start.steps)}" if job.start and job.start.steps else ""
    return f"{name}{made and '@'}{made}#{job.attempt}{gone_on}"


def _provenance(job: Job, collector: Collector, task_id: str, version: int, seed: int) -> Provenance:
    from agentgym_py.version import __version__

    agent, world = collector.agent, job.env.world
    return Provenance(
        env_id=world.name, env_version=version, env_kwargs=dict(world.kwargs), task_id=task_id, seed=seed,
        agent=agent.name, policy_digest=agent.policy_digest, sampling=dict(agent.sampling), prompt=collector.prompt,
        package_version=__version__, env_seed=job.start.env_seed if job.start else _env_seed(collector, task_id),
    )  # fmt: skip


def _trajectory(job: Job, collector: Collector, episode: Episode, error: str | None) -> Trajectory:
    env, task = episode.env, episode.task
    return Trajectory(
        id=_id(job, task.id),
        provenance=_provenance(job, collector, task.id, env.version, episode.seed),
        split=task.split, kind=task.kind, difficulty=task.difficulty, instruction=task.instruction,
        rules=episode.rules, steps=tuple(episode.steps), final_observation=episode.observation,
        reward=sum(step.reward for step in episode.steps), success=env.succeeded and error is None,
        stop_reason=env.stop_reason or StopReason.GAVE_UP, optimal_steps=task.optimal_steps, error=error,
    )  # fmt: skip


def failed(job: Job, collector: Collector, error: str) -> Trajectory:
    """What stands for an episode that did not come about."""
    seed = seed_of(collector.seed, job.task, job.attempt)
    return Trajectory(
        id=_id(job, job.task if isinstance(job.task, str) else f"{job.env.name}/{job.split}/{job.task}"),
        provenance=_provenance(job, collector, str(job.task), -1, seed),
        split=job.split, kind="", difficulty="", instruction="", rules="", steps=(), final_observation="",
        reward=0.0, success=False, stop_reason=StopReason.ERROR, error=error,
    )  # fmt: skip
