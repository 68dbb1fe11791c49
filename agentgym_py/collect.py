"""The collector: many episodes at once, slots refilled as they end, results in the order of the jobs."""

from __future__ import annotations

import hashlib
import inspect
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium

from agentgym_py.agents import Agent, AgentReply, Episode
from agentgym_py.env import Prompt, TextEnv, checked_prompt, checked_split
from agentgym_py.errors import AgentGymError, ConfigError, SnapshotError, UnknownNameError
from agentgym_py.registry import env_id
from agentgym_py.rng import seed_of
from agentgym_py.trajectory import Provenance, Step, Trajectory, canonical
from agentgym_py.workers import Workers

Progress = Callable[[Trajectory], None]


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """An environment and how to make it."""

    name: str
    """Short name or Gymnasium id."""
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Equal for specs that make the same environment."""
        return env_id(self.name) + canonical(self.kwargs)

    def make(self) -> TextEnv:
        """A fresh environment, without Gymnasium's wrappers (they cost more than a step).

        Raises:
            ConfigError: it cannot be made with these arguments, or is no TextEnv.
            UnknownNameError: there is no such environment.
        """
        own = inspect.signature(gymnasium.make).parameters.values()
        for each in own:
            if each.kind is not each.VAR_KEYWORD and each.name in self.kwargs:
                raise ConfigError(f"{self.name} cannot have it: gymnasium.make takes {each.name!r} for itself")
        try:
            made = gymnasium.make(env_id(self.name), disable_env_checker=True, **self.kwargs).unwrapped
        except AgentGymError:
            raise
        except (AttributeError, LookupError, TypeError, ValueError, gymnasium.error.Error) as error:
            why = error.__cause__ or error  # Gymnasium says a TypeError again, with the arguments
            raise ConfigError(f"{self.name} cannot be made with {dict(self.kwargs)}: {why}") from error
        if not isinstance(made, TextEnv):
            raise ConfigError(f"{self.name!r} makes a {type(made).__name__}, which is no TextEnv")
        return made

    def count(self, split: str, wanted: int) -> int:
        """How many of the first `wanted` tasks of a split there are: all of them, but in a world of few."""

        def missing(number: int) -> bool:
            try:
                env.task(number, split)
            except UnknownNameError:
                return True
            return False

        with closing(self.make()) as env:
            if not wanted or not missing(wanted - 1):
                return wanted
            return bisect_left(range(wanted), True, key=missing)


class EnvPool:
    """Environments that wait to be used again, by what makes them."""

    def __init__(self) -> None:
        self._free: dict[str, list[TextEnv]] = defaultdict(list)
        self._made: set[TextEnv] = set()

    def take(self, spec: EnvSpec) -> TextEnv:
        """A free environment, or a fresh one."""
        free = self._free[spec.key]
        if free:
            return free.pop()
        env = spec.make()
        self._made.add(env)
        return env

    def give(self, spec: EnvSpec, env: TextEnv) -> None:
        """Keep an environment for the next who wants one like it."""
        self._free[spec.key].append(env)

    def drop(self, env: TextEnv) -> None:
        """Close an environment that failed: nobody knows what state it is in."""
        self._made.remove(env)
        with suppress(Exception):  # it is broken: that it cannot be closed either is no news
            env.close()

    def close(self) -> None:
        """Close every environment, those in use too."""
        for env in tuple(self._made):
            self.drop(env)


@dataclass(frozen=True, slots=True)
class Fork:
    """A state of an episode from which others go on, and what led there."""

    snapshot: bytes
    """The world, as `TextEnv.snapshot` gives it."""
    rules: str
    steps: tuple[Step, ...]
    """The episode so far; none for a start. Who goes on from here does not learn from them."""
    observation: str
    """What is seen there."""
    env_seed: int
    """Seed of the world's generator at the reset."""


@dataclass(frozen=True, slots=True)
class Job:
    """One episode to be played."""

    env: EnvSpec
    task: str | int
    """Task id, or number of a task of `split`."""
    split: str = "train"
    attempt: int = 0
    """Number of the try at this task; tries differ in their seed."""
    fork: Fork | None = None
    """Where the episode goes on from, instead of from a reset."""


def jobs_for(
    envs: Sequence[EnvSpec | str] | EnvSpec | str, split: str, tasks: Iterable[int], attempts: int = 1
) -> list[Job]:
    """Every task of every environment, by its spec or its name, `attempts` times; the tries at one stand side by side.

    Raises:
        UnknownNameError: no such split.
    """
    checked_split(split)
    each = [envs] if isinstance(envs, (EnvSpec, str)) else envs
    specs = [EnvSpec(env) if isinstance(env, str) else env for env in each]
    return [Job(env, task, split, k) for task in tasks for env in specs for k in range(attempts)]


def tries_of(jobs: Iterable[Job], agent: int, agents: int) -> list[Job]:
    """The jobs of one of several agents: its tries at a task have numbers, and so seeds, of their own."""
    return [replace(job, attempt=job.attempt * agents + agent) for job in jobs]


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
    workers: Workers | None = None
    """Processes that play where there are jobs enough."""

    def __post_init__(self) -> None:
        if not callable(getattr(self.agent, "act", None)):
            raise ConfigError(f"an agent such as ExpertAgent() is wanted, with a method act; got {self.agent!r:.100}")
        checked_prompt(self.prompt)
        if self.slots < 1:
            raise ConfigError(f"slots must be at least 1, got {self.slots}")

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

    def stream(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Trajectory]]:
        """Play every job; (number of the job, trajectory) as they end."""
        if self.workers and self.workers.worth(jobs):
            yield from self.workers.stream(self, jobs)
            return
        waiting = deque(enumerate(jobs))
        live: dict[int, tuple[Job, Episode]] = {}
        with closing(EnvPool()) as pool:
            while waiting or live:
                while waiting and len(live) < self.slots:
                    index, job = waiting.popleft()
                    episode, error = self._begin(job, pool)
                    if episode is None:
                        yield index, _failed(job, self, error)
                    else:
                        live[index] = (job, episode)
                if live:
                    yield from self._turn(live, pool)

    def _turn(self, live: dict[int, tuple[Job, Episode]], pool: EnvPool) -> Iterator[tuple[int, Trajectory]]:
        order = list(live)
        replies = self.agent.act([live[index][1] for index in order])
        for index, reply in zip(order, replies, strict=True):
            job, episode = live[index]
            ended, error = self._step(episode, reply)
            if ended:
                del live[index]
                trajectory = _trajectory(job, self, episode, error)
                if error is None:
                    pool.give(job.env, episode.env)
                else:
                    pool.drop(episode.env)
                yield index, trajectory

    def start(self, job: Job) -> Fork:
        """The state that a job's episode begins in, for episodes that must begin in the very same.

        Raises:
            AgentGymError, or whatever the world raises: it does not begin.
        """
        with closing(job.env.make()) as env:
            episode = self._reset(job, env)
            env_seed = _env_seed(self, episode.task.id)
            return Fork(env.snapshot(), episode.rules, (), episode.observation, env_seed)

    def _reset(self, job: Job, env: TextEnv) -> Episode:
        if job.fork:
            return self._restored(job, job.fork, env)
        task = env.task(job.task, job.split)
        observation, _ = env.reset(seed=_env_seed(self, task.id), options={"task": task.id})
        return Episode(env, task, seed_of(self.seed, task.id, job.attempt), env.rules[self.prompt], observation)

    def _restored(self, job: Job, fork: Fork, env: TextEnv) -> Episode:
        env.restore(fork.snapshot)
        task = env.current
        if task is None or env.snapshot() != fork.snapshot:
            raise SnapshotError(f"{job.env.name} did not take up the state of {job.task!r} byte by byte")
        steps = [replace(step, trained=False) for step in fork.steps]
        seed = seed_of(self.seed, task.id, job.attempt, hashlib.sha256(fork.snapshot).hexdigest())
        return Episode(env, task, seed, fork.rules, fork.observation, steps)

    def _begin(self, job: Job, pool: EnvPool) -> tuple[Episode | None, str]:
        env = pool.take(job.env)
        try:
            return self._reset(job, env), ""
        except AgentGymError:
            raise
        except Exception as error:  # a stranger's world may fail anyhow: infrastructure, never reward 0
            pool.drop(env)
            return None, repr(error)

    def _step(self, episode: Episode, reply: AgentReply | None) -> tuple[bool, str | None]:
        if reply is None:
            return True, None
        try:
            observation, reward, terminated, truncated, info = episode.env.step(reply.text)
        except Exception as error:  # as above
            return True, repr(error)
        said = episode.env.read(reply.text)
        parts = info.get("reward_parts", {})
        step = Step(episode.observation, reply.text, said.thought, said.action, said.action_input, float(reward),
                    bool(info["valid_action"]), parts, reply.tokens)  # fmt: skip
        episode.steps.append(step)
        episode.observation = observation
        return terminated or truncated, None


def collect_with_diversity(
    agents: Sequence[Agent],
    jobs: Sequence[Job],
    *,
    slots: int = 64,
    prompt: Prompt = "brief",
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Trajectory]:
    """Play every job by each of `agents`, such as one policy at several temperatures.

    All tries at a job stand side by side and are numbered through: the seeds of any two differ.
    """
    if not agents:
        raise ConfigError("no agents to collect with")
    collectors = [Collector(agent, slots, prompt, seed) for agent in agents]
    played = [
        collector.collect_batch(tries_of(jobs, number, len(agents)), progress)
        for number, collector in enumerate(collectors)
    ]
    return [trajectory for tries in zip(*played, strict=True) for trajectory in tries]


def _env_seed(collector: Collector, task_id: str) -> int:
    return seed_of(collector.seed, "world", task_id)


def _id(job: Job, name: str) -> str:
    """Task, arguments of the world where there are any, number of the try, and after how many steps it went on."""
    made = hashlib.sha256(canonical(job.env.kwargs).encode()).hexdigest()[:8] if job.env.kwargs else ""
    gone_on = f"+{len(job.fork.steps)}" if job.fork and job.fork.steps else ""
    return f"{name}{made and '@'}{made}#{job.attempt}{gone_on}"


def _provenance(job: Job, collector: Collector, task_id: str, version: int, seed: int) -> Provenance:
    from agentgym_py import __version__

    agent = collector.agent
    return Provenance(
        env_id=env_id(job.env.name), env_version=version, env_kwargs=dict(job.env.kwargs), task_id=task_id, seed=seed,
        agent=agent.name, policy_digest=agent.policy_digest, sampling=dict(agent.sampling), prompt=collector.prompt,
        package_version=__version__, env_seed=job.fork.env_seed if job.fork else _env_seed(collector, task_id),
    )  # fmt: skip


def _trajectory(job: Job, collector: Collector, episode: Episode, error: str | None) -> Trajectory:
    env, task = episode.env, episode.task
    return Trajectory(
        id=_id(job, task.id),
        provenance=_provenance(job, collector, task.id, env.version, episode.seed),
        split=task.split, kind=task.kind, difficulty=task.difficulty, instruction=task.instruction,
        rules=episode.rules, steps=tuple(episode.steps), final_observation=episode.observation,
        reward=sum(step.reward for step in episode.steps), success=env.succeeded and error is None,
        terminated=env.ended == "terminated", truncated=env.ended != "terminated",
        optimal_steps=task.optimal_steps, given_up=not env.ended and error is None, error=error,
    )  # fmt: skip


def _failed(job: Job, collector: Collector, error: str) -> Trajectory:
    seed = seed_of(collector.seed, job.task, job.attempt)
    return Trajectory(
        id=_id(job, job.task if isinstance(job.task, str) else f"{job.env.name}/{job.split}/{job.task}"),
        provenance=_provenance(job, collector, str(job.task), -1, seed),
        split=job.split, kind="", difficulty="", instruction="", rules="", steps=(), final_observation="",
        reward=0.0, success=False, terminated=False, truncated=True, error=error,
    )  # fmt: skip
