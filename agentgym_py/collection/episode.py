"""The episode loop: many episodes at once in this process."""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from agentgym_py.agents import Agent, AgentReply, Episode
from agentgym_py.collection.env_calls import CallsInLoop, CallsOnThreads, EnvCalls
from agentgym_py.collection.env_pool import EnvPool
from agentgym_py.collection.env_turn import (
    flag,
    read_digest,
    read_partner,
    read_reply,
    read_start,
    read_task,
    read_turn,
    read_version,
)
from agentgym_py.collection.job import Job, StateSnapshot
from agentgym_py.collection.partner_turns import EnvCall, PartnerTurns, reset_call, step_call, use_settings
from agentgym_py.collection.play_config import PlayConfig
from agentgym_py.collection.replies import Reply, replies_of
from agentgym_py.collection.watchdog import Watchdog
from agentgym_py.env import PartnerRecord, StopReason, TextEnv
from agentgym_py.env.tracebacks import describe_failure, env_line
from agentgym_py.errors import AgentGymError, DataError, InfrastructureError, SnapshotError
from agentgym_py.files import canonical_json
from agentgym_py.multiagent.game import Asking
from agentgym_py.rng import seed_of
from agentgym_py.trajectory import Provenance, Step, Trajectory, store
from agentgym_py.trajectory.types import with_note, with_template

_LONG = 1 << 24
"""Characters of an episode above which it is tried whether a store takes it."""


class _Ended(NamedTuple):
    """How an episode ended, or did not begin."""

    stop_reason: StopReason = StopReason.GAVE_UP
    error: str | None = None
    may_retry: bool = False
    """Whether its env failed, so that it may be begun again."""
    episode: Episode | None = None
    """What was played; None if it did not begin, or if its env has not returned."""
    success: bool = False
    partner: PartnerRecord | None = None


_Outcome: TypeAlias = "Episode | EnvCall[Episode | _Ended] | _Ended"
"""What a call into an env leads to: an episode that awaits a reply, a call that awaits a partner's, or an end."""


@dataclass(slots=True)
class EpisodeLoop:
    """Plays jobs in this process. A slot is refilled as soon as its episode ends."""

    agent: Agent
    config: PlayConfig

    def stream(self, jobs: Sequence[Job], watchdog: Watchdog | None = None) -> Iterator[tuple[int, Trajectory]]:
        """Play every job; yield (index of the job, trajectory) as episodes end.

        `watchdog` may show another process which envs are at work.
        """
        watchdog = watchdog or Watchdog(self.config.step_timeout)
        slots = min(self.config.slots, getattr(self.agent, "slots", self.config.slots))
        return self._stream(_Queue(jobs, self.config.retries), slots, watchdog)

    def _stream(self, queue: _Queue, slots: int, watchdog: Watchdog) -> Iterator[tuple[int, Trajectory]]:
        """Play: an episode is `live` (it awaits a reply), has a pending call, or asks a partner."""
        threads = min(self.config.step_threads, slots)
        calls: EnvCalls[_Outcome] = CallsOnThreads(threads, watchdog) if threads else CallsInLoop(watchdog)
        own = watchdog.for_thread(threads)  # of this thread, in which agents ask envs
        jobs, live = dict[int, Job](), dict[int, Episode]()
        partners = PartnerTurns[Episode | _Ended]()
        with closing(calls), closing(partners), closing(replies_of(self.agent)) as replies:

            def has_room() -> bool:
                return bool(queue.waiting) and len(live) + len(calls.pending) + len(partners) < slots

            def outcomes() -> Iterator[tuple[int, _Outcome]]:
                while has_room():
                    index, jobs[index] = queue.waiting.popleft()
                    yield from calls.start(index, partial(self._begin, jobs[index]))
                may_handle = replies.wait(live, calls.pending, 0.0 if partners else calls.patience)
                calls.fail_late()
                if may_handle:
                    yield from ((index, _outcome(future)) for index, future in calls.returned())
                for index, call, reply in partners.take():
                    yield from calls.start(index, partial(_advance, call, reply))
                if live and may_handle and not has_room():
                    for index, reply in replies.get(dict(live)):
                        yield from calls.start(index, partial(_step, live.pop(index), reply))

            while queue.waiting or live or calls.pending or partners:
                for index, outcome in outcomes():
                    if isinstance(outcome, Episode):
                        live[index], outcome.watch = outcome, partial(own.for_job, index)
                    elif isinstance(outcome, EnvCall):
                        partners.add(index, outcome)
                    else:
                        trajectory, episode = self._trajectory(jobs[index], outcome), outcome.episode
                        calls.finish(index, partial(_put_back, jobs[index], outcome, episode.env) if episode else None)
                        if not queue.retry(index, jobs[index], outcome):
                            yield index, trajectory

    def _trajectory(self, job: Job, ended: _Ended) -> Trajectory:
        episode, error = ended.episode, ended.error
        if episode is None:
            return failed_trajectory(self.agent, self.config, job, str(error))
        task = episode.task
        trajectory = Trajectory(
            id=_id(job, task.id),
            provenance=_provenance(
                self.agent, self.config, job, task.id, episode.version, episode.seed, episode.files_digest
            ),
            split=task.split, kind=task.kind, difficulty=task.difficulty, instruction=task.instruction,
            rules=episode.rules, steps=tuple(episode.steps), final_observation=episode.observation,
            reward=sum(step.reward for step in episode.steps), success=ended.success, stop_reason=ended.stop_reason,
            optimal_steps=task.optimal_steps, error=error, partner=ended.partner,
        )  # fmt: skip
        moves = ended.partner.moves if ended.partner else ()
        texts = sum(len(step.observation) + len(step.reply) for step in episode.steps)
        if texts + sum(len(move or "") for move in moves) > _LONG:
            try:
                store.to_line(trajectory)
            except DataError as unwritable:
                return failed_trajectory(self.agent, self.config, job, f"its world says too much: {unwritable}")
        return trajectory

    # ---- the start of an episode, maybe on its env's thread ----------------------------------------------------------

    def _begin(self, job: Job, pool: EnvPool, watchdog: Watchdog) -> _Outcome:
        """Get an env and put it at the episode's start."""
        env = None
        try:
            with watchdog:
                env = pool.take(job.env)
            use_settings(env, self.config.partner)
        except Exception as error:
            return _not_begun(error, env, pool)
        return _advance(EnvCall(env, self._beginning(job, env)), None, pool, watchdog)

    def _beginning(self, job: Job, env: TextEnv) -> Asking[Episode | _Ended]:
        return self._restore(job, job.start, env) if job.start else (yield from self._reset(job, env))

    def _reset(self, job: Job, env: TextEnv) -> Asking[Episode]:
        task = read_task(env.task(job.task, job.split))
        start = yield from _start(env, _env_seed(self.config, task.id), task.id)
        rules, observation = read_start(start, self.config.prompt, env)
        rules = with_note(job.note, with_template(self.config.prompt_template, rules))
        seed = seed_of(self.config.seed, task.id, job.attempt)
        return Episode(env, task, seed, rules, observation, files_digest=read_digest(env), version=read_version(env))

    def _restore(self, job: Job, start: StateSnapshot, env: TextEnv) -> Episode:
        wanted = read_task(env.task(job.task, job.split))
        env.restore(start.snapshot)
        task = read_task(env.current_task)
        if task.id != wanted.id:
            raise SnapshotError(f"the job is to play {wanted.id}, but its start is a state of {task.id}")
        if env.snapshot() != start.snapshot:
            raise SnapshotError(f"{job.env.name} did not restore the state of {job.task!r} byte by byte")
        steps = [replace(step, trained=False) for step in start.steps]
        seed = seed_of(self.config.seed, task.id, job.attempt, hashlib.sha256(start.snapshot).hexdigest())
        return Episode(env, task, seed, start.rules, start.observation, steps, files_digest=read_digest(env),
                       version=read_version(env))  # fmt: skip


def _start(env: TextEnv, seed: int, task: str) -> Asking[tuple[str, dict[str, Any]]]:
    """Reset an env; an error of this package that its own source raises is no error of the user's."""
    try:
        start: tuple[str, dict[str, Any]] = yield from reset_call(env, seed, {"task": task})
        return start
    except AgentGymError as error:
        if isinstance(error, InfrastructureError) or error.of_server or not env_line(error):
            raise
        raise InfrastructureError(describe_failure(error)) from error


def _not_begun(error: Exception, env: TextEnv | None, pool: EnvPool) -> _Ended:
    """Return the end of an episode whose env failed before its start; raise an error of the user's again."""
    if isinstance(error, AgentGymError) and not isinstance(error, InfrastructureError):
        is_of_server = error.of_server and env is not None  # one that cannot be made has wrong arguments
        if not is_of_server:
            raise error
    if env is not None:
        pool.drop(env)
    return _Ended(error=describe_failure(error), may_retry=True)


def _step(episode: Episode, reply: Reply, pool: EnvPool, watchdog: Watchdog) -> _Outcome:
    """Give a reply to the env."""
    if isinstance(reply, InfrastructureError):
        return _Ended(error=repr(reply), may_retry=True, episode=episode)
    if reply is not None and reply.error is not None:  # no retry, because the agent has asked again itself
        return _Ended(error=reply.error, episode=episode)
    call = _giving_up(episode) if reply is None else _stepping(episode, reply)
    return _advance(EnvCall(episode.env, call, episode), None, pool, watchdog)


def _giving_up(episode: Episode) -> Asking[_Ended]:
    """End an episode that the agent gives up, as a call into its env."""
    yield from ()
    return _end(episode, StopReason.GAVE_UP)


def _end(episode: Episode, stop_reason: StopReason) -> _Ended:
    """Return the end of an episode without an error."""
    success = flag(episode.env.succeeded, "success")
    return _Ended(stop_reason, episode=episode, success=success, partner=read_partner(episode.env))


def _stepping(episode: Episode, reply: AgentReply) -> Asking[Episode | _Ended]:
    turn = read_turn((yield from step_call(episode.env, reply.text)))
    flag(episode.env.succeeded, "success")
    reading = read_reply(episode.env.last_reply or episode.env.read(reply.text))  # an env may override `step`
    step = Step(episode.observation, reply.text, *reading, turn.reward, turn.valid, turn.parts, reply.tokens,
                usage=reply.usage, summary=reply.summary, costs=turn.costs)  # fmt: skip
    episode.steps.append(step)
    episode.observation = turn.observation
    return _end(episode, turn.stop_reason) if turn.stop_reason else episode


def _advance(call: EnvCall[Episode | _Ended], reply: Reply, pool: EnvPool, watchdog: Watchdog) -> _Outcome:
    """Continue a call into an env, at its beginning or with a partner's reply."""
    try:
        with pool.at_work(call.env), watchdog:
            return call.advance(reply)
    except Exception as error:  # an env may raise anything: an infrastructure failure, never reward 0
        if call.episode is not None:
            return _Ended(error=describe_failure(error), may_retry=True, episode=call.episode)
        return _not_begun(error, call.env, pool)


def _put_back(job: Job, ended: _Ended, env: TextEnv, pool: EnvPool, watchdog: Watchdog) -> None:
    """Return an env to the pool, or close it after an error."""
    del watchdog
    if ended.error is None:
        pool.give(job.env, env)
    else:
        pool.drop(env)


def _outcome(future: Future[_Outcome]) -> _Outcome:
    """Return what a thread made of an episode; its env is lost if the call was late and has not returned."""
    try:
        return future.result()
    except InfrastructureError as error:
        return _Ended(error=repr(error), may_retry=True)


class _Queue:
    """Jobs that wait, with their indices, and how often each was begun again."""

    def __init__(self, jobs: Sequence[Job], retries: int) -> None:
        self.waiting = deque(enumerate(jobs))
        self._retries, self._failures = retries, Counter[int]()

    def retry(self, index: int, job: Job, ended: _Ended) -> bool:
        """Queue a job whose env failed again, after all others; False when it has no retry left."""
        if not ended.may_retry:
            return False
        self._failures[index] += 1
        if self._failures[index] > self._retries:
            return False
        self.waiting.append((index, job))
        return True


# ---- trajectories ---------------------------------------------------------------------------------------------------


def failed_trajectory(agent: Agent, config: PlayConfig, job: Job, error: str) -> Trajectory:
    """Make the trajectory of an episode that has no steps because of an infrastructure failure."""
    seed = seed_of(config.seed, job.task, job.attempt)
    return Trajectory(
        id=_id(job, job.task if isinstance(job.task, str) else f"{job.env.name}/{job.split}/{job.task}"),
        provenance=_provenance(agent, config, job, str(job.task), -1, seed),
        split=job.split, kind="", difficulty="", instruction="", rules="", steps=(), final_observation="",
        reward=0.0, success=False, stop_reason=StopReason.ERROR, error=error,
    )  # fmt: skip


def _provenance(
    agent: Agent, config: PlayConfig, job: Job, task_id: str, version: int, seed: int, files_digest: str | None = None
) -> Provenance:
    from agentgym_py.version import __version__

    spec, opening = job.env.local_spec, job.start or config
    return Provenance(
        env_id=spec.name, env_version=version, env_kwargs=dict(spec.kwargs), task_id=task_id, seed=seed,
        agent=agent.name, policy_digest=agent.policy_digest, sampling=dict(agent.sampling), prompt=opening.prompt,
        prompt_template=opening.prompt_template, note=(job.start or job).note,
        package_version=__version__, env_seed=job.start.env_seed if job.start else _env_seed(config, task_id),
        files_digest=files_digest,
    )  # fmt: skip


def _env_seed(config: PlayConfig, task_id: str) -> int:
    """Seed an env's generator: the same for all attempts at a task, so that they start alike."""
    return seed_of(config.seed, "world", task_id)


def _id(job: Job, name: str) -> str:
    """Name an episode: task, digest of the env's arguments, number of the attempt, and steps before a given start."""
    kwargs = job.env.local_spec.kwargs
    digest = "@" + hashlib.sha256(canonical_json(kwargs).encode()).hexdigest()[:8] if kwargs else ""
    steps = f"+{len(job.start.steps)}" if job.start else ""
    return f"{name}{digest}#{job.attempt}{steps}"
