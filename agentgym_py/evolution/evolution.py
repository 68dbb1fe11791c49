"""AgentEvol: explore, select, evolve, evaluate, in rounds (Xi et al., arXiv:2406.04151).

Round 0 clones the expert on a few training tasks: Agent_v0 (a trainer that learns from more than successes has a
`cloner` for that). Each later round lets the agent of the last round explore new training tasks, selects the
trajectories that did well, trains on them, and evaluates on held-out tasks. What a round trains on (`merge`) and from
where (`restart`) are both settings: the paper merges with the initial data and restarts from the base; its public code
does neither.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_py import distributed
from agentgym_py.agents import Agent, ExpertAgent, ModelAgent
from agentgym_py.collection import Collector, Executor, Job, PlayConfig
from agentgym_py.collection.branching import branch_jobs
from agentgym_py.collection.rollouts import Rollouts, Scorer
from agentgym_py.engine import SamplingParams
from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError, DataError, NothingToTrainOnError, PolicyError, RunError, TrainingError
from agentgym_py.evaluation import evaluate
from agentgym_py.evaluation.evaluate import summary_dict
from agentgym_py.evolution.config import EvolveConfig, require_cloner, require_fit, require_reachable
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.evolution.task_sampling import jobs_of, shares
from agentgym_py.rewards.reward_model import require_reward_model
from agentgym_py.rng import seed_of
from agentgym_py.training import OnPolicyTrainer, Trainer, TrainReport
from agentgym_py.training.checkpoints import clear, until_saved
from agentgym_py.training.progress import Reporter
from agentgym_py.training.rl.guards import diversity, noticed
from agentgym_py.training.trainer import checked, last_good_kept, require_policy_trainer
from agentgym_py.trajectory import Trajectory, store
from agentgym_py.trajectory.selectors import SelectConfig, Selection, build_selector

if TYPE_CHECKING:
    from agentgym_py.engine import Engine
    from agentgym_py.policy import Policy

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Evolution:
    """One AgentEvol run in its folder; `run` resumes from the state of the folder."""

    folder: RunFolder
    envs: Sequence[EnvSpec]
    config: EvolveConfig
    trainer: Trainer | OnPolicyTrainer
    load_policy: Callable[[str | None], Policy]
    """Loads the base policy (None) or a checkpoint folder."""
    reporter: Reporter
    cloner: Trainer | None = None
    """Makes Agent_v0 of the expert's successes; None: the trainer itself does, of what `select` leaves."""
    executor: Executor | None = None
    """Where episodes run; None: in this process."""
    engine: Callable[[Policy], Engine] | None = None
    """Gives the engine that plays a policy; by default a new `HFEngine`."""

    def __post_init__(self) -> None:
        require_policy_trainer(self.trainer)

    def run(self) -> dict[str, Any]:
        """Run every round that is not over yet, then the test; returns the test's result."""
        require_fit(self.config, self.trainer, len(self.envs))
        require_reachable(self.config, self.trainer, self.envs)
        require_reward_model(self.config.reward_model)
        if not distributed.on_rank_zero(self.folder.done, 0):
            require_cloner(self.config, self.trainer, self.cloner)
        self._shares()
        for number in range(self.config.rounds + 1):
            if not distributed.on_rank_zero(self.folder.done, number):
                self._round(number)
            self.reporter.round(number, self.folder.metrics(number))
            if self._out_of_patience(number):
                log.info("no better round for %d rounds: stopped after round %d", self.config.patience, number)
                break
        return self._test()

    # ---- one round ----------------------------------------------------------------------------------------------

    def _round(self, number: int) -> None:
        """Each part is written down when it is over, and read where a killed run had come so far."""
        began = time.monotonic()
        distributed.on_rank_zero(self.folder.begun, number)
        if number and isinstance(trainer := self.trainer, OnPolicyTrainer):
            policy, training = self._trained(number, partial(self._improve, number, trainer))
            explored = list(store.read(self._path(number, "trajectories")))
            nothing = {} if training else {"with nothing to learn from": len(explored)}
            selection = Selection(tuple(explored) if training else (), nothing)
        else:
            explore = partial(self._explore, number) if number else self._demonstrate
            explored = self._written(number, "trajectories", explore, self._episodes(number), self._forks(number))
            cloned = number == 0 and self.cloner is not None
            selection = build_selector(SelectConfig() if cloned else self.config.select)(explored)
            log.info("round %d: %s", number, selection.line)
            policy, training = self._trained(number, partial(self._train, number, selection.kept))
        varied = diversity(explored) if self.config.temperature else {}
        notes = list(training.get("notes", ())) if training else []
        for text in noticed(self.trainer, varied, notes):
            log.warning("round %d: %s", number, text)
            notes.append(text)
        metrics = {
            "round": number,
            "player": f"the {self.config.expert} expert" if number == 0 else f"Agent_v{number - 1}",
            "explored": summary_dict(explored) | varied,
            "selection": {"kept": len(selection.kept), "dropped": dict(selection.dropped), "line": selection.line},
            "training": training and training | {"notes": notes},
            "valid": self._evaluate(number, policy, "valid", self.config.valid_tasks),
            "policy_digest": distributed.require_same("weights", policy.digest()),
            "seconds": time.monotonic() - began,
        }
        distributed.on_rank_zero(self.folder.finish, number, metrics)

    def _written(
        self, number: int, name: str, play: Callable[[], list[Trajectory]], episodes: int, forks: int = 0
    ) -> list[Trajectory]:
        """Episodes of a round: those that stand in its folder, or else they are played now."""
        path = self._path(number, name)
        if distributed.on_rank_zero(path.is_file):
            return _whole(path, episodes, forks, self.config.fork_attempts)
        played = play()
        _store(path, played)
        return played

    def _episodes(self, number: int) -> int:
        """How many a round's trainer that does not play itself has of it, but for those that go on from forks."""
        return sum(self._shares()) * self.config.attempts if number else len(self.envs) * self.config.expert_tasks

    def _forks(self, number: int) -> int:
        """States of each of them from which others go on; the expert's from none."""
        return self.config.forks if number else 0

    def _trained(
        self, number: int, train: Callable[[], tuple[Policy, TrainReport | None]]
    ) -> tuple[Policy, dict[str, Any] | None]:
        """The agent of a round and the report of its training, which is done now unless it stands there."""
        if distributed.on_rank_zero(self.folder.trained, number):
            clear(self.folder.round(number) / "training" / "states")  # where it was killed just before
            return self._agent_of(number), self.folder.training(number)["report"]
        with until_saved():
            policy, done = train()
            report, digest = asdict(done) if done else None, distributed.require_same("weights", policy.digest())
            if distributed.is_rank_zero():
                policy.save(self.folder.round(number) / "checkpoint")
                self.folder.finish_training(number, {"report": report, "policy_digest": digest})
        return policy, report

    def _agent_of(self, number: int) -> Policy:
        """The agent that a round left.

        Raises:
            RunError: it cannot be loaded, or its weights are not those that were trained.
        """
        path = self.folder.round(number) / "checkpoint"
        way_out = f"delete {path.parent} and what came after it to make them again"
        try:
            policy = self.load_policy(str(path))
        except PolicyError as error:
            raise RunError(f"{path} is damaged: {error}; {way_out}") from error
        held = self.folder.metrics(number) if self.folder.done(number) else self.folder.training(number)
        if policy.digest() != held["policy_digest"]:
            raise RunError(f"{path} is damaged: its weights are not those that were saved; {way_out}")
        return policy

    def _demonstrate(self) -> list[Trajectory]:
        jobs = self._train_jobs(0)
        expert = partial(ExpertAgent, fair=self.config.expert == "fair", thoughts=self.config.expert_thoughts)
        return self._collect(0, "expert", expert, jobs, f"{self.config.expert} expert") if jobs else []

    def _explore(self, number: int) -> list[Trajectory]:
        policy = self._agent_of(number - 1)
        jobs = self._train_jobs(number, self.config.attempts)
        agent = partial(self._agent, number - 1, policy, self.config.temperature)
        played, config = self._collect(number, "explore", agent, jobs), self.config
        seed, first = seed_of(config.seed, "forks", number), config.attempts
        branches = branch_jobs(jobs, played, config.forks, config.fork_attempts, seed=seed, first_attempt=first)
        later = [job for family in branches for job in family]
        return played + (self._collect(number, "forks", agent, later) if later else [])

    def _improve(self, number: int, trainer: OnPolicyTrainer) -> tuple[Policy, TrainReport | None]:
        """A round of a trainer that plays itself, on as many episodes as another's round explores; they are stored."""
        policy = self._agent_of(number - 1)
        jobs = self._train_jobs(number)
        episodes = len(jobs) * self.config.attempts
        rollouts = Rollouts(
            policy, self._engine_for(policy),
            SamplingParams(temperature=self.config.temperature, max_new_tokens=self.config.max_new_tokens),
            jobs, episodes, name=f"Agent_v{number - 1}", play_config=self._play("explore", number),
            progress=self.reporter.phase(number, "improve", episodes), scorer=self._scorer(policy),
        )  # fmt: skip
        seed, report = seed_of(self.config.seed, "train", number) % (1 << 31), None
        try:
            with self._last_good(number, policy):
                done = trainer.improve(policy, rollouts, seed=seed, output_dir=self.folder.round(number) / "training")
                report = checked(done, trainer, policy)
        except NothingToTrainOnError as error:
            if not self.config.allow_empty:
                raise NothingToTrainOnError(
                    f"round {number}: {error} ({self._path(number, 'trajectories')} holds what was played); "
                    "try a higher --temperature, more --explore_tasks or --allow_empty"
                ) from error
            log.warning("round %d: %s", number, error)
        finally:
            _store(self._path(number, "trajectories"), rollouts.episodes)
        return policy, report

    def _scorer(self, policy: Policy) -> Scorer | None:
        """Who scores episodes in place of the world."""
        if self.config.reward_model is None:
            return None
        from agentgym_py.rewards.reward_model import RewardModel

        require_reward_model(self.config.reward_model, policy)
        model = RewardModel.load(self.config.reward_model, device=str(policy.model.device))
        return lambda trajectories: model.score(trajectories).tolist()

    def _train(self, number: int, kept: Sequence[Trajectory]) -> tuple[Policy, TrainReport | None]:
        if not number and not self.config.expert_tasks:
            return self.load_policy(None), None
        if not kept:
            if not self.config.allow_empty or not number:
                raise NothingToTrainOnError(
                    f"round {number} selected no trajectory ({self.folder.round(number) / 'trajectories.jsonl'} holds "
                    "what was explored); try a lower --select.threshold, more --attempts, "
                    "another --temperature or --allow_empty"
                )
            return self._agent_of(number - 1), None
        data = self._merged(number, kept)
        goes_on = number and self.config.restart == "previous"
        policy = self._agent_of(number - 1) if goes_on else self.load_policy(None)
        with self._last_good(number, policy):
            try:
                trainer = self._offline(number)
                done = trainer.train(
                    policy,
                    data,
                    seed=seed_of(self.config.seed, "train", number) % (1 << 31),
                    output_dir=self.folder.round(number) / "training",
                    progress=self.reporter.training(number, len(data)),
                )
                return policy, checked(done, trainer, policy)
            except NothingToTrainOnError as error:
                if not self.config.allow_empty or not number:
                    raise NothingToTrainOnError(
                        f"round {number}: {error}; try more --attempts, a higher --temperature or --allow_empty"
                    ) from error
                log.warning("round %d: %s", number, error)
                return self._agent_of(number - 1), None

    @contextmanager
    def _last_good(self, number: int, policy: Policy) -> Iterator[None]:
        """A training that goes wrong leaves what was last good in the round's folder, and says what else there is."""
        try:
            with last_good_kept(policy, self.folder.round(number) / "last_good"):
                yield
        except TrainingError as error:
            before = f"; of the round before: {self.folder.round(number - 1) / 'checkpoint'}" if number else ""
            raise TrainingError(f"round {number}: {error}{before}") from error

    def _offline(self, number: int) -> Trainer:
        """Who trains on what a round collected."""
        trainer = self.trainer if number or self.cloner is None else self.cloner
        if isinstance(trainer, OnPolicyTrainer):
            raise ConfigError("this trainer plays itself: Agent_v0 needs a cloner")
        return trainer

    def _merged(self, number: int, kept: Sequence[Trajectory]) -> list[Trajectory]:
        earlier = {"all": range(number), "last": range(0), "initial+last": range(min(number, 1))}[self.config.merge]
        select = build_selector(self.config.select)
        data = [t for r in earlier for t in select(self._stored(r)).kept]
        return data + list(kept)

    def _stored(self, number: int) -> list[Trajectory]:
        """What a round played that is over."""
        path = self._path(number, "trajectories")
        if number and isinstance(self.trainer, OnPolicyTrainer):  # it need not spend all of its budget
            return list(store.read(path))
        return _whole(path, self._episodes(number), self._forks(number), self.config.fork_attempts)

    def _path(self, number: int, name: str) -> Path:
        return self.folder.round(number) / f"{name}.jsonl"

    # ---- episodes -----------------------------------------------------------------------------------------------

    def _shares(self) -> list[int]:
        """How many tasks of each world a round explores."""
        return shares(self.envs, self.config.explore_weights, self.config.explore_tasks)

    def _train_jobs(self, number: int, tries: int = 1) -> list[Job]:
        """A round's training tasks of every world."""
        return jobs_of(self.config, self.envs, number, self._stored, tries)

    def _play(self, phase: str, number: int) -> PlayConfig:
        """Return how episodes of a round's phase are played: each phase has a seed of its own."""
        return self.config.play(seed_of(self.config.seed, phase, number), self.executor)

    def _agent(self, version: int, policy: Policy, temperature: float) -> ModelAgent:
        params = SamplingParams(temperature=temperature, max_new_tokens=self.config.max_new_tokens)
        return ModelAgent(policy, self._engine_for(policy), params, name=f"Agent_v{version}")

    def _engine_for(self, policy: Policy) -> Engine:
        from agentgym_py.engine import HFEngine

        return self.engine(policy) if self.engine else HFEngine(policy, slots=self.config.slots)

    def _collect(
        self, number: int, what: str, make: Callable[[], Agent], jobs: Sequence[Job], shown: str = ""
    ) -> list[Trajectory]:
        """Episodes of a phase, whose name is part of their seed; `shown` is what the reporter hears.

        Many are played in parts, each written down when it is over, and each by an agent that was just made: what an
        engine has in its cache rounds the last digit of a log-probability.
        """
        tell, size = self.reporter.phase(number, shown or what, len(jobs)), self.config.save_episodes

        def play(part: Sequence[Job]) -> list[Trajectory]:
            return Collector(make(), self._play(what, number)).collect_batch(part, tell)

        if len(jobs) <= size:
            return play(jobs)
        played = []
        for at in range(0, len(jobs), size):
            name = f"parts/{what}-{at:06d}"
            there = distributed.on_rank_zero(self._path(number, name).is_file)
            part = self._written(number, name, partial(play, jobs[at : at + size]), len(jobs[at : at + size]))
            for each in part if there else ():
                tell(each)
            played += part
        return played

    def _evaluate(self, number: int, policy: Policy, split: str, tasks: int) -> dict[str, Any]:
        def play() -> list[Trajectory]:
            return evaluate(
                self._agent(number, policy, 0.0), self.envs, split, range(tasks), play=self._play(split, number),
                progress=self.reporter.phase(number, split, len(self.envs) * tasks),
            )[1]  # fmt: skip

        return summary_dict(self._written(number, split, play, len(self.envs) * tasks))

    # ---- the end ------------------------------------------------------------------------------------------------

    def _out_of_patience(self, number: int) -> bool:
        return 0 < self.config.patience <= number - self.folder.best(number)

    def _test(self) -> dict[str, Any]:
        if distributed.on_rank_zero(lambda: self.folder.finished):
            return self.folder.read_json("test.json")
        began = time.monotonic()
        last = max(r for r in range(self.config.rounds + 1) if self.folder.done(r))
        best = self.folder.best(last)
        result: dict[str, Any] = {"last": last, "best": best, "tasks": self.config.test_tasks, "rounds": {}}
        if self.config.test_tasks:
            before = {n for n in range(last) if self._path(n, "test").is_file()}  # when the run had fewer rounds
            for number in sorted({0, best, last} | before):
                policy = self._agent_of(number)
                result["rounds"][str(number)] = self._evaluate(number, policy, "test", self.config.test_tasks)
        result["seconds"] = time.monotonic() - began
        distributed.on_rank_zero(self.folder.write_json, "test.json", result)
        return result


def _whole(path: Path, episodes: int, forks: int = 0, fork_attempts: int = 0) -> list[Trajectory]:
    """The episodes of a file that was renamed when it was whole; RunError where it has lost some since.

    After the first `episodes` stand `fork_attempts` from each of up to `forks` states within each of them.
    """
    try:
        played = list(store.read(path, warn=False))
        midst = [len(each.steps) - 1 for each in played[:episodes] if each.steps and each.is_evidence]
        episodes += sum(min(forks, states) for states in midst) * fork_attempts
        why = f"holds {len(played)} of {episodes} episodes"
    except DataError as error:
        played, why = [], str(error)
    if len(played) != episodes:
        raise RunError(f"{path} is damaged ({why}); delete it to have its episodes played again")
    return played


def _store(path: str | Path, trajectories: Sequence[Trajectory]) -> None:
    """Write a store, in one of the processes that hold these trajectories."""
    if distributed.is_rank_zero():
        store.write(path, trajectories)
