"""AgentEvol: explore, select, evolve, evaluate, in rounds (Xi et al., arXiv:2406.04151).

Round 0 clones the expert on a few training tasks, which makes Agent_v0; a trainer that learns from more than successes
has a `cloner` for that. In each later round the last round's agent explores new training tasks, successful trajectories
are selected and trained on, and the new agent is evaluated on held-out tasks. The data of a round (`merge`) and the
model it starts from (`restart`) are settings: the paper merges with the initial data and restarts from the base; its
public code does neither.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agentgym_py import distributed
from agentgym_py.collection import Executor
from agentgym_py.collection.rollouts import Rollouts
from agentgym_py.engine import SamplingParams
from agentgym_py.env import EnvSpec
from agentgym_py.env.registration import short_name
from agentgym_py.errors import (
    ConfigError,
    NothingToTrainOnError,
    PolicyError,
    RunError,
    TrainingError,
    setting,
)
from agentgym_py.evaluation.evaluate import summary_dict
from agentgym_py.evaluation.text import all_failed_note, cut_warning
from agentgym_py.evolution.config import (
    EvolveConfig,
    demonstrations_trainer,
    ewc_strength,
    require_cloner,
    require_compatible,
    require_costs,
    require_levels,
    require_reachable,
    require_roles,
    require_sequence,
)
from agentgym_py.evolution.critic import critic_metrics
from agentgym_py.evolution.curricula import success_by_level
from agentgym_py.evolution.earlier_worlds import EarlierWorlds
from agentgym_py.evolution.episodes import RoundEpisodes, release_models
from agentgym_py.evolution.reflection import (
    forget_note,
    reflection_metrics,
    with_bare_rules,
)
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.evolution.selection import RoundSelection
from agentgym_py.evolution.sequence import Schedule, sequence_metrics, success_matrix
from agentgym_py.evolution.stopwatch import Stopwatch
from agentgym_py.evolution.task_sampling import explored_levels, tasks_per_env
from agentgym_py.files import clear_read_errors
from agentgym_py.multiagent.partners import PartnerSettings
from agentgym_py.rewards.functions import build_reward
from agentgym_py.rewards.reward_model import require_reward_model
from agentgym_py.rng import seed_of
from agentgym_py.training import OnPolicyTrainer, Trainer, TrainReport, tracking
from agentgym_py.training.checkpoints import keep_states_until_exit, remove_states
from agentgym_py.training.coreset import Coreset, choose
from agentgym_py.training.logprob_check import LogprobCheck
from agentgym_py.training.progress import Reporter
from agentgym_py.training.rl.constraints import continue_multipliers
from agentgym_py.training.rl.guards import collapse_notes, entropy_and_repetition
from agentgym_py.training.trainer import require_policy_trainer, saving_last_good, validate_report
from agentgym_py.trajectory import Trajectory, store
from agentgym_py.trajectory.scores import Scorer, mean_parts
from agentgym_py.trajectory.selectors import SelectConfig, Selection, build_selector

if TYPE_CHECKING:
    from agentgym_py.engine import Engine
    from agentgym_py.policy import Policy

log = logging.getLogger(__name__)


class _Trained(NamedTuple):
    """A round's agent, its report, and the check of its checkpoint; None if nothing or no offline trainer trained."""

    policy: Policy
    report: TrainReport | None = None
    check: LogprobCheck | None = None


@dataclass(slots=True)
class Evolution:
    """One AgentEvol run in its folder; `run` resumes from what the folder holds."""

    folder: RunFolder
    envs: Sequence[EnvSpec]
    config: EvolveConfig
    trainer: Trainer | OnPolicyTrainer
    load_policy: Callable[[str | None], Policy]
    """Loads the base policy (None) or a checkpoint folder."""
    reporter: Reporter
    cloner: Trainer | None = None
    """Trains Agent_v0 on the expert's successes; None: the trainer itself does, on what `select` keeps."""
    executor: Executor | None = None
    """Where episodes run; None: in this process."""
    engine: Callable[[Policy], Engine] | None = None
    """Makes the engine that samples from a policy; by default a new `HFEngine`."""
    kv_cache_gib: float | None = None
    """Memory for the keys and values of live episodes, if the engine is the default one; see `HFEngine`."""
    partner: PartnerSettings = field(default_factory=PartnerSettings)
    """How a checkpoint plays that is the partner in a world of several roles."""
    _stopwatch: Stopwatch | None = field(default=None, init=False)
    _episodes: RoundEpisodes = field(init=False)
    _selection: RoundSelection = field(init=False)

    def __post_init__(self) -> None:
        if self.engine and self.kv_cache_gib is not None:
            raise ConfigError("kv_cache_gib is for the default engine: give it to the engine that `engine` makes")
        require_policy_trainer(self.trainer)
        self._episodes = RoundEpisodes(
            self.folder, self.envs, self.config, isinstance(self.trainer, OnPolicyTrainer), self.reporter,
            self.executor, self._load_agent, self._engine_for, self._save_time, self.partner,
        )  # fmt: skip
        self._selection = RoundSelection(self._episodes, self.cloner is not None)

    def run(self) -> dict[str, Any]:
        """Run the remaining rounds, then the test; return the test's result."""
        require_compatible(self.config, self.trainer, len(self.envs))
        require_sequence(self.config, self.trainer, self.envs)
        require_reachable(self.config, self.trainer, self.envs)
        require_levels(self.config, self.envs)
        require_roles(self.config, self.envs)
        require_costs(self.trainer, self.envs)
        require_reward_model(self.config.reward_model)
        if self.config.sequence or not distributed.on_rank_zero(self.folder.done, 0):
            require_cloner(self.config, self.trainer, self.cloner)
        tasks_per_env(self.envs, self.config.explore_weights, self.config.explore_tasks)
        for number in range(self.schedule.rounds):
            stored = distributed.on_rank_zero(self.folder.done, number)
            if not stored:
                self._round(number)
            with clear_read_errors(self.folder.path) if stored else nullcontext():
                self.reporter.round(number, self.folder.metrics(number))
            if 0 < self.config.patience <= number - self.folder.best_round(number):
                log.info("no better round for %d rounds: stopped after round %d", self.config.patience, number)
                break
        return self._test()

    @property
    def schedule(self) -> Schedule:
        """Which stage and which of its rounds each round is."""
        return self.config.schedule(len(self.envs))

    # ---- one round ----------------------------------------------------------------------------------------------

    def _round(self, number: int) -> None:
        """Run a round; each part is saved when it is over, and loaded if a killed run has saved it."""
        distributed.on_rank_zero(self.folder.begin_round, number)
        with self._timed(self.folder.round(number)) as stopwatch:
            metrics = self._play_and_train(number)
            metrics["seconds"] = stopwatch.stop()
            distributed.on_rank_zero(self.folder.finish_round, number, metrics)

    @contextmanager
    def _timed(self, folder: Path) -> Iterator[Stopwatch]:
        """Count the seconds of a round or of the test in its folder, over all sittings of the run."""
        with Stopwatch(folder) as stopwatch:
            self._stopwatch = stopwatch
            yield stopwatch

    def _save_time(self) -> None:
        if self._stopwatch:
            self._stopwatch.save()

    def _play_and_train(self, number: int) -> dict[str, Any]:
        """Return the metrics of a round."""
        explores = self.schedule.within(number) > 0
        if explores and isinstance(trainer := self.trainer, OnPolicyTrainer):
            policy, training = self._load_or_train(number, partial(self._improve, number, trainer))
            explored = self._episodes.load_round(number)
            learnt = training and not distributed.on_rank_zero(self._episodes.path(number, "demonstrations").is_file)
            nothing = {} if learnt else {"with nothing to learn from": len(explored)}
            selection = Selection(tuple(explored) if learnt else (), nothing)
        else:
            explored = self._episodes.play_round(number)
            learnable = self._selection.learnable(number, explored)
            selection = self._selection.select(number, learnable)
            log.info("round %d: %s", number, selection.line)
            policy, training = self._load_or_train(
                number, partial(self._train, number, selection.kept, learnable.episodes, explored)
            )
            if training and explores and self._selection.reward_function():
                training["metrics"] = {**training["metrics"], **mean_parts(learnable.episodes)}
        variety = entropy_and_repetition(explored) if any(self.config.temperatures) else {}
        notes = list(training.get("notes", ())) if training else []
        for text in collapse_notes(self.trainer, variety, notes):
            log.warning("round %d: %s", number, text)
            notes.append(text)
        digest = distributed.require_same("weights", policy.digest())
        unchanged = training and number and digest == self.folder.metrics(number - 1)["policy_digest"]
        for text in filter(None, (cut_warning(explored), "the training changed no weight" if unchanged else "")):
            log.warning("round %d: %s", number, text)
            notes.append(text)
        return (
            {
                "round": number,
                "player": f"Agent_v{number - 1}" if explores else f"the {self.config.expert} expert",
                "explored": summary_dict(explored) | variety,
                "selection": {"kept": len(selection.kept), "dropped": dict(selection.dropped), "line": selection.line},
                "training": training and training | {"notes": notes},
                "valid": self._episodes.evaluate(number, policy, "valid", self.config.valid_tasks),
                "policy_digest": digest,
            }
            | (self._curriculum(number, explored) if explores else {})
            | (self._self_improvement(number, explored, selection.kept) if explores else {})
            | self._stage_of(number)
        )

    def _curriculum(self, number: int, explored: Sequence[Trajectory]) -> dict[str, Any]:
        """Return a round's horizon and its success by level, as far as the run has these."""
        horizon = self.config.horizon_of(self.schedule.within(number))
        found: dict[str, Any] = {"horizon": horizon} if self.config.horizon else {}
        if self.config.curriculum:
            levels = [level for spec in self._episodes.worlds(number) for level in explored_levels(self.config, spec)]
            found["levels"] = success_by_level(levels, explored)
        return {"curriculum": found} if found else {}

    def _self_improvement(
        self, number: int, explored: Sequence[Trajectory], kept: Sequence[Trajectory]
    ) -> dict[str, Any]:
        """Return what the world says of a round's critic and of its retries, as far as the run has these."""
        found, path = dict[str, Any](), self._episodes.path(number, "retries")
        retries = list(store.read(path)) if self.config.reflection and path.is_file() else []
        if self.config.critic:
            feedback = self._selection.judge(number, "critic", explored)
            found["critic"] = critic_metrics(explored, feedback, kept, [with_bare_rules(t) for t in retries])
        if self.config.reflection:
            found["reflection"] = reflection_metrics(retries)
        return found

    def _stage_of(self, number: int) -> dict[str, Any]:
        """Return the world that a round of a sequence learns."""
        if not self.config.sequence:
            return {}
        return {"stage": {"number": self.schedule.stage(number), "world": self._names()[self.schedule.stage(number)]}}

    def _names(self) -> list[str]:
        return [short_name(spec.local_spec.name) for spec in self.envs]

    def _load_or_train(self, number: int, train: Callable[[], _Trained]) -> tuple[Policy, dict[str, Any] | None]:
        """Return a round's agent and training report from its folder, or else train and save them."""
        if distributed.on_rank_zero(self.folder.is_trained, number):
            remove_states(self.folder.round(number) / "training" / "states")  # of a run killed just before
            return self._load_agent(number), self.folder.training(number).get("report")
        release_models()
        with keep_states_until_exit():
            policy, result, check = train()
            digest, checkpoint = distributed.require_same("weights", policy.digest()), self._checkpoint(number)
            if distributed.is_rank_zero():
                policy.save(checkpoint)
                if check and result:
                    result = check.require_saved(result, policy, checkpoint, self.load_policy)
            report = asdict(result) if result else None
            if distributed.is_rank_zero():
                self.folder.finish_training(number, {"report": report, "policy_digest": digest})
        self._save_time()
        return policy, report

    def _checkpoint(self, number: int) -> Path:
        return self.folder.round(number) / "checkpoint"

    def _load_agent(self, number: int) -> Policy:
        """Load a round's agent.

        Raises:
            RunError: it cannot be loaded, or its weights are not those that were saved.
        """
        path = self._checkpoint(number)
        remedy = f"delete {path.parent} and what came after it to make them again"
        try:
            policy = self.load_policy(str(path))
        except PolicyError as error:
            raise RunError(f"{path} is damaged: {error}; {remedy}") from error
        record = self.folder.metrics(number) if self.folder.done(number) else self.folder.training(number)
        if policy.digest() != record.get("policy_digest"):
            raise RunError(f"{path} is damaged: its weights are not those that were saved; {remedy}")
        return policy

    def _improve(self, number: int, trainer: OnPolicyTrainer) -> _Trained:
        """Run an on-policy trainer on the number of episodes that a round explores, and store them."""
        policy = self._load_agent(number - 1)
        trainer = continue_multipliers(trainer, [self.folder.round(earlier) / "training" for earlier in range(number)])
        jobs = self._episodes.jobs(number)
        episodes = len(jobs) * self.config.attempts
        rollouts = Rollouts(
            policy, self._engine_for(policy),
            SamplingParams(temperature=self.config.temperature, max_new_tokens=self.config.max_new_tokens),
            jobs, episodes, name=f"Agent_v{number - 1}", play_config=self._episodes.play_config("explore", number),
            progress=self.reporter.phase(number, "improve", episodes), scorer=self._scorer(policy),
        )  # fmt: skip
        seed, report = seed_of(self.config.seed, "train", number) % (1 << 31), None
        try:
            with self._keep_last_good(number, policy):
                result = trainer.improve(policy, rollouts, seed=seed, output_dir=self.folder.round(number) / "training")
                report = validate_report(result, trainer, policy)
        except NothingToTrainOnError as error:
            nothing = str(error)
        else:
            return _Trained(policy, report, LogprobCheck.of_rollouts(rollouts))
        finally:
            self._episodes.save(number, "trajectories", rollouts.episodes)
        if len(rollouts.failed) < len(rollouts.episodes):
            return self._train_on_demonstrations(number, nothing)
        if all(trajectory.is_evidence for trajectory in rollouts.episodes):  # the reward failed
            raise self._no_data_error(number, nothing, rollouts.failed)
        return self._train_on_demonstrations(number, nothing, rollouts.failed)

    def _scorer(self, policy: Policy) -> Scorer | None:
        """Return what replaces the env's rewards, if anything does."""
        if (folder := self.config.reward_model) is None:
            return self._selection.reward_function()
        return build_reward(self.config.reward, self.config.reward_kwargs, self._reward_model(folder, policy))

    def _reward_model(self, folder: str, policy: Policy) -> Scorer:
        from agentgym_py.policy.adapters import quantization_of
        from agentgym_py.rewards.reward_model import RewardModel

        require_reward_model(folder, policy)
        dtype = str(policy.model.dtype).removeprefix("torch.")
        model = RewardModel.load(
            folder, dtype=dtype, device=str(policy.model.device),
            quantize=quantization_of(policy.model),
        )  # fmt: skip
        return lambda trajectories: model.score(trajectories).tolist()

    def _train(
        self, number: int, selected: Sequence[Trajectory], scored: Sequence[Trajectory], played: Sequence[Trajectory]
    ) -> _Trained:
        """Train on what was selected of a round's episodes, which were `played` and then `scored`.

        Raises:
            NothingToTrainOnError: the reward failed for every episode, or there is nothing else to learn from.
        """
        explores = self.schedule.within(number) > 0
        if not explores and not self.config.expert_tasks:
            return _Trained(self._load_agent(number - 1) if number else self.load_policy(None))
        if not selected and any(t.is_evidence for t in played) and all_failed_note(scored):
            raise self._no_data_error(number, "no trajectory was selected", scored)
        if not selected and explores and not self.config.allow_empty:
            self._selection.require_scores(number, played)
        if not selected:
            return self._train_on_demonstrations(number, "no trajectory was selected", scored)
        try:
            data, coreset = self._training_data(number, selected), self.config.coreset if explores else None
            return self._fit(number, self._offline_trainer(number), data, coreset)
        except NothingToTrainOnError as error:
            return self._train_on_demonstrations(number, str(error))

    def _fit(
        self, number: int, trainer: Trainer, selected: Sequence[Trajectory], coreset: Coreset | None = None
    ) -> _Trained:
        """Train the model that a round starts from, on the coreset if there is one."""
        continues = number and self.config.restart == "previous"
        policy = self._load_agent(number - 1) if continues else self.load_policy(None)
        selected = [forget_note(trajectory, policy.chat) for trajectory in selected]
        chosen = choose(
            coreset, policy, selected, trainer, seed=seed_of(self.config.seed, "coreset", number),
            folder=self.folder.round(number),
        )  # fmt: skip
        before = self._earlier_worlds
        replayed = [forget_note(t, policy.chat) for t in before.replay(number, len(chosen.trajectories))]
        data = [*chosen.trajectories, *replayed]
        check = LogprobCheck(policy, data)
        prefix = "clone" if self.cloner is not None and trainer is not self.trainer else "train"
        with tracking.prefixed(prefix), self._keep_last_good(number, policy):
            result = before.with_penalty(number, trainer).train(
                policy, data, seed=seed_of(self.config.seed, "train", number) % (1 << 31),
                output_dir=self.folder.round(number) / "training", progress=self.reporter.training(number, len(data)),
            )  # fmt: skip
            report = chosen.add_to(validate_report(result, trainer, policy))
            if before.replays(number):
                report = replace(report, metrics={**report.metrics, "replay/trajectories": len(replayed)})
            return _Trained(policy, report, check)

    def _train_on_demonstrations(self, number: int, reason: str, played: Sequence[Trajectory] = ()) -> _Trained:
        """Train a round that has nothing to learn from on as many further demonstrations as made Agent_v0.

        With `allow_empty`, the last round's agent stays as it is.

        Raises:
            NothingToTrainOnError: it is round 0, or the run has no demonstrations.
        """
        if number and self.config.allow_empty:
            log.warning("round %d: %s", number, reason)
            return _Trained(self._load_agent(number - 1))
        if not self.schedule.within(number) or not self.config.expert_tasks:
            raise self._no_data_error(number, reason, played)
        demonstrations = self._episodes.demonstrate_more(number)
        note = f"{reason}: trained on {len(demonstrations)} further demonstrations of the {self.config.expert} expert"
        log.warning("round %d: %s", number, note)
        try:
            trainer = self._offline_trainer(self.schedule.first(self.schedule.stage(number)))
            selected = build_selector(SelectConfig(threshold=-math.inf))(demonstrations).kept
            fitted = self._fit(number, trainer, selected)
        except NothingToTrainOnError as error:
            raise self._no_data_error(number, f"{reason}, and of its demonstrations: {error}") from error
        assert fitted.report
        return fitted._replace(report=replace(fitted.report, notes=(*fitted.report.notes, note)))

    def _no_data_error(self, number: int, reason: str, played: Sequence[Trajectory] = ()) -> NothingToTrainOnError:
        """Return an error with advice on data, or with what ended all the episodes that were `played`."""
        episodes = self._episodes.path(number, "trajectories")
        if failed := all_failed_note(played):
            return NothingToTrainOnError(f"round {number}: {failed} ({episodes} holds the episodes)")
        threshold, experts = setting("select.threshold"), setting("expert_tasks")
        advice = f"more {experts}, a lower {threshold}, or {setting('trainer')} settings that leave out less"
        if self.schedule.within(number):
            advice = (
                f"a lower {threshold}, more {setting('attempts')}, another {setting('temperature')}, {experts} or "
                f"{setting('allow_empty')}"
            )
        return NothingToTrainOnError(f"round {number}: {reason} ({episodes} holds the episodes); try {advice}")

    @contextmanager
    def _keep_last_good(self, number: int, policy: Policy) -> Iterator[None]:
        """Save the last good weights in the round's folder if the training fails, and name them in the error."""
        try:
            with saving_last_good(policy, self.folder.round(number) / "last_good"):
                yield
        except TrainingError as error:
            before = f"; of the round before: {self._checkpoint(number - 1)}" if number else ""
            raise TrainingError(f"round {number}: {error}{before}") from error

    def _offline_trainer(self, number: int) -> Trainer:
        within = self.schedule.within(number)
        trainer = self.trainer if within or self.cloner is None else self.cloner
        if isinstance(trainer, OnPolicyTrainer):
            raise ConfigError("an on-policy trainer needs a cloner to make Agent_v0")
        return trainer if within else demonstrations_trainer(self.config, trainer)

    def _training_data(self, number: int, selected: Sequence[Trajectory]) -> list[Trajectory]:
        within, first = self.schedule.within(number), self.schedule.first(self.schedule.stage(number))
        earlier = {"all": range(within), "last": range(0), "initial+last": range(min(within, 1))}[self.config.merge]
        return [*(t for r in earlier for t in self._selection.selected(first + r)), *selected]

    def _engine_for(self, policy: Policy) -> Engine:
        from agentgym_py.engine import HFEngine

        if self.engine:
            return self.engine(policy)
        return HFEngine(policy, self.config.slots, kv_cache_gib=self.kv_cache_gib)

    # ---- the end ------------------------------------------------------------------------------------------------

    def _test(self) -> dict[str, Any]:
        if distributed.on_rank_zero(lambda: self.folder.finished):
            return self.folder.read_json("test.json")
        with self._timed(self.folder.path) as stopwatch:
            result = self._test_rounds()
            result["seconds"] = stopwatch.stop()
            distributed.on_rank_zero(self.folder.write_json, "test.json", result)
        return result

    def _test_rounds(self) -> dict[str, Any]:
        last = max(r for r in range(self.schedule.rounds) if self.folder.done(r))
        best = self.folder.best_round(last)
        result: dict[str, Any] = {"last": last, "best": best, "tasks": self.config.test_tasks, "rounds": {}}
        if self.config.test_tasks:
            before = {
                n for n in range(last) if self._episodes.path(n, "test").is_file()
            }  # when the run had fewer rounds
            compared = set(self._stage_ends()) if self.config.sequence else {0, best, last}
            for number in sorted(compared | before):
                policy = self._load_agent(number)
                result["rounds"][str(number)] = self._episodes.evaluate(number, policy, "test", self.config.test_tasks)
        if self.config.sequence:
            if self._earlier_worlds.ewc_lambda:
                self._earlier_worlds.anchor(self.schedule.stages - 1)  # for trainings after the run
            result["sequence"] = self._sequence_result(result["rounds"])
        return result

    # ---- a sequence of worlds ---------------------------------------------------------------------------------------

    def _stage_ends(self) -> list[int]:
        return [self.schedule.last(stage) for stage in range(self.schedule.stages)]

    def _sequence_result(self, tested: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Return the success in all worlds after each stage: on test tasks, or without any on valid tasks."""
        split = "test" if tested else "valid"
        summaries = [
            tested[str(number)] if tested else self.folder.metrics(number)["valid"] for number in self._stage_ends()
        ]
        return {"split": split, **sequence_metrics(success_matrix(summaries, self._names()), self._names())}

    @property
    def _earlier_worlds(self) -> EarlierWorlds:
        strength, folder = ewc_strength(self.config, self.trainer), self.folder.path / "anchors"
        return EarlierWorlds(self.config, self.schedule, folder, strength, self._load_agent, self._selection.selected)
