"""The public functions of `import agentgym_py as ag`; each imports what it needs when called."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias

from agentgym_py import registry
from agentgym_py.checks import require_arguments
from agentgym_py.env import EnvSpec, TextEnv
from agentgym_py.errors import ConfigError, NothingToTrainOnError
from agentgym_py.registry import is_source
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.agents import Agent
    from agentgym_py.collection import PlayConfig
    from agentgym_py.credit import CreditReport, Estimator
    from agentgym_py.evaluation import Evaluation
    from agentgym_py.evaluation.compare import Comparison
    from agentgym_py.evaluation.first_fault import Expert, FirstFaults
    from agentgym_py.feedback import Feedback, FeedbackSource
    from agentgym_py.policy import Policy
    from agentgym_py.rewards.functions import RewardFunction
    from agentgym_py.training import OnPolicyTrainer, Trainer, TrainReport
    from agentgym_py.training.coreset import Coreset
    from agentgym_py.trajectory.scores import Scorer

    Player: TypeAlias = str | Agent | Policy
    Envs: TypeAlias = str | EnvSpec | Sequence[str | EnvSpec]


@dataclass(frozen=True, slots=True)
class Result:
    """An evaluation and its episodes."""

    name: str
    """The agent's name."""
    evaluation: Evaluation
    """Success rate with its interval, return, steps, failures by kind."""
    trajectories: list[Trajectory]
    manifest: Mapping[str, Any]
    """What determines the episodes: agent, envs, tasks, seed. `compare` needs results with the same tasks."""

    def __str__(self) -> str:
        """Return the success rate with its 95 % interval: `expert: success 97.0 % [94, 99], 300 episodes`."""
        from agentgym_py.evaluation.text import format_rate

        success = self.evaluation.success
        return f"{self.name}: success {format_rate(success)}, {len(self.trajectories)} episodes"


def make(env: str, **kwargs: Any) -> TextEnv:
    """Make an environment, without Gymnasium's wrappers, which hide `snapshot`, `restore` and `expert`.

    Args:
        env: Short name or Gymnasium id, such as `shop` or `AgentShop-v0`.
        kwargs: Its arguments, such as `difficulty`, `max_steps`, `split`.

    Raises:
        UnknownNameError: No such environment is installed.
        ConfigError: It cannot be made with these arguments.
    """
    if not isinstance(env, str):
        raise ConfigError(f"env must be a name, not {env!r:.60}")
    return EnvSpec(env, kwargs).make()


def collect(
    env: Envs,
    agent: Player = "expert",
    *,
    tasks: int | Iterable[int] = 100,
    split: str = "train",
    attempts: int = 1,
    temperature: float = 1.0,
    max_new_tokens: int = 64,
    kv_cache_gib: float | None = None,
    play: PlayConfig | None = None,
    progress: Callable[[Trajectory], None] | None = None,
) -> list[Trajectory]:
    """Collect episodes of an agent.

    Args:
        env: One environment or several, by name or as `EnvSpec(name, kwargs)`.
        agent: Name of an installed agent (`expert`, `random`), an agent such as `ExpertAgent(fair=True)`, or a policy.
        tasks: How many tasks of the split, or their numbers.
        split: `train`, `valid` or `test`.
        attempts: Episodes per task.
        temperature: Sampling temperature of a policy.
        max_new_tokens: Longest reply of a policy.
        kv_cache_gib: Memory for the keys and values of a policy's live episodes, as for `HFEngine`.
        play: Seed, slots, executor, timeouts.
        progress: Called with each finished episode.

    Returns:
        Trajectories in the order of the tasks, with attempts at a task next to each other.

    Raises:
        UnknownNameError: No such environment, agent or split.
        ConfigError: An impossible number of tasks, or wrong arguments of an environment.
    """
    from agentgym_py.collection import Collector, jobs_for

    _require_counts(attempts=attempts, max_new_tokens=max_new_tokens)
    jobs = jobs_for(_specs(env), split, _task_numbers(tasks), attempts)
    play = _play_config(play)
    player = _agent(agent, temperature, max_new_tokens, play.slots, kv_cache_gib)
    trajectories = Collector(player, play).collect_batch(jobs, progress)
    _warn_of_cuts(trajectories)
    return trajectories


def judge(
    source: str | FeedbackSource,
    trajectories: Iterable[Trajectory] | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    progress: Callable[[int, int], None] | None = None,
    ask_again: bool = False,
    **settings: Any,
) -> list[Feedback]:
    """Judge stored trajectories; `train` learns from the result.

    Args:
        source: Name of an installed source, such as `environment`, `expert`, `llm`, or a source with its settings.
        trajectories: What is judged, or its file.
        out: File for the feedback. An interrupted one is resumed, a finished one is only read.
        progress: Called with the number of episodes done and the total.
        ask_again: Ask once more about the episodes for which a model gave no answer in an earlier call.
        settings: The source's settings, if `source` is a name.

    Raises:
        ConfigError: The source does not take a setting.
        RunError: The file was begun with other settings or data.
        EndpointError: A model that judges refuses, is broken or cannot be reached.
    """
    from agentgym_py.feedback.judging import judge_into

    if isinstance(source, str):
        name, source_class = source, registry.load("agentgym.feedback", source)
        require_arguments(source_class, settings)
        instance: FeedbackSource = source_class(**settings)
    else:
        name, instance = type(source).__name__, source
        if isinstance(source, type) or not hasattr(source, "feedback"):
            raise ConfigError(f"source must be a source's name, or a source such as LLMJudge(...), not {source!r:.60}")
        if settings:
            raise ConfigError(f"settings {', '.join(settings)} need the source's name; set them in the source itself")
    return judge_into(os.fspath(out), name, instance, _trajectories(trajectories), progress, ask_again=ask_again)


def train(
    trainer: str | Trainer,
    policy: str | os.PathLike[str] | Policy,
    trajectories: Iterable[Trajectory] | str | os.PathLike[str],
    *,
    select: Mapping[str, Any] | None = None,
    reward: str | RewardFunction | None = None,
    reward_kwargs: Mapping[str, Any] | None = None,
    coreset: str | Mapping[str, Any] | Coreset | None = None,
    feedback: str | os.PathLike[str] | Sequence[Feedback] | None = None,
    max_context: int | None = None,
    seed: int = 0,
    output_dir: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
    **settings: Any,
) -> tuple[Policy, TrainReport]:
    """Train a policy on stored trajectories.

    Args:
        trainer: Name of an installed trainer, or a trainer with its settings, such as `DPO(beta=1.0)`.
        policy: Trained in place; a name such as `tiny`, or a folder, is loaded first.
        trajectories: The training data, or its file: a store, AgentTraj or parquet.
        select: Which trajectories to train on, as `agentgym train --select.FIELD`: `{"success_only": False,
            "threshold": 0.5}`. The defaults are the trainer's: filtered_bc learns from successes.
        reward: What is selected by and learnt from in place of the world's reward: a name such as `agent`, a weighted
            sum such as `"agent + 0.1*my.py:score"`, or a function from a trajectory to a number or to parts by name.
        reward_kwargs: Settings of the reward functions by name.
        coreset: Which part of the selected trajectories to train on: a name such as `loss_topk`, a mapping with
            settings such as `{"name": "loss_topk", "ratio": 0.3}`, or a coreset; None: all of them.
        feedback: What `judge` returned on these trajectories, or its file: the trainer learns from scores, comparisons
            or corrections in place of the world's reward.
        max_context: Largest number of tokens of an episode, for a policy that is loaded here.
        seed: Seed of the data order and of new weights.
        output_dir: Folder for training states, from which an interrupted training resumes, and for what a trainer
            produces besides a policy, such as a reward model; None keeps none.
        progress: Called with the number of steps done and the total.
        settings: The trainer's settings, if `trainer` is a name.

    Returns:
        The policy and a report. Save the policy with `policy.save(folder)`. Its name, for tables and manifests, is
        `output_dir`, or else that of its base with the trainer's: `tiny+filtered_bc`.

    Raises:
        ConfigError: The trainer does not take a setting, needs an `output_dir`, or is on-policy: `evolve` runs it; or
            `reward` and `feedback` are both given.
        NothingToTrainOnError: No trajectory is selected, none has a token to train on, or the feedback has nothing that
            the trainer learns from.
    """
    from agentgym_py.training.coreset import choose, load_coreset
    from agentgym_py.training.offline import require_offline, require_one_reward
    from agentgym_py.training.trainer import info_of, validate_report

    instance, part_config = _offline_trainer(trainer, settings, output_dir), load_coreset(coreset)
    require_offline(instance, has_coreset=part_config is not None)
    require_one_reward(reward, feedback)
    scorer = _reward(reward, reward_kwargs or {})
    data = _training_data(instance, trajectories, select or {}, scorer, feedback)
    loaded = _policy(policy, max_context)
    with TemporaryDirectory(prefix="agentgym") if output_dir is None else nullcontext(output_dir) as folder:
        part = choose(part_config, loaded, data, instance, seed=seed, folder=Path(folder))
        report = instance.train(loaded, part.trajectories, seed=seed, output_dir=Path(folder), progress=progress)
    if info_of(instance).output == "policy":
        name = trainer if isinstance(trainer, str) else type(trainer).__name__
        loaded.name = f"{loaded.name}+{name}" if output_dir is None else os.fspath(output_dir)
    return loaded, part.add_to(validate_report(report, instance, loaded))


def evaluate(
    agent: Player,
    env: Envs,
    *,
    tasks: int = 100,
    split: str = "test",
    attempts: int = 1,
    temperature: float = 0.0,
    max_new_tokens: int = 64,
    kv_cache_gib: float | None = None,
    play: PlayConfig | None = None,
    progress: Callable[[Trajectory], None] | None = None,
) -> Result:
    """Evaluate an agent or a policy; arguments as for `collect`, and a policy replies greedily by default.

    Raises:
        ConfigError: No episode counts.
    """
    from agentgym_py.evaluation import evaluate as measure
    from agentgym_py.evaluation.folder import make_manifest

    _require_counts(tasks=tasks, attempts=attempts, max_new_tokens=max_new_tokens)
    play, specs = _play_config(play), _specs(env)
    player = _agent(agent, temperature, max_new_tokens, play.slots, kv_cache_gib)
    manifest = make_manifest(player, specs, split, range(tasks), attempts, play.prompt, play.seed)
    evaluation, episodes = measure(player, specs, split, range(tasks), attempts=attempts, play=play, progress=progress)
    _warn_of_cuts(episodes)
    return Result(player.name, evaluation, episodes, manifest)


def compare(**results: Result | str | os.PathLike[str]) -> Comparison:
    """Compare evaluations of the same tasks, paired: `compare(before=first, after=second)`.

    Args:
        results: For each name a `Result`, a folder of `agentgym eval --out`, or that of a run, whose last agent is
            compared by its test.

    Raises:
        ConfigError: There are fewer than two, or they evaluate different tasks.
    """
    from agentgym_py.evaluation.compare import Entrant, Resources
    from agentgym_py.evaluation.compare import compare as compare_entrants
    from agentgym_py.evolution.entrants import load_entrant

    def entrant(name: str, result: Result | str | os.PathLike[str]) -> Entrant:
        if isinstance(result, Result):
            resources = Resources.of(result.evaluation.as_dict())
            return Entrant.from_trajectories(name, result.manifest, result.trajectories, resources)
        if not isinstance(result, str | os.PathLike):
            raise ConfigError(f"{name} must be a Result or a folder of agentgym eval --out, not {result!r:.60}")
        return load_entrant(os.fspath(result))

    return compare_entrants([entrant(name, result) for name, result in results.items()])


def first_faults(
    trajectories: Iterable[Trajectory] | str | os.PathLike[str],
    agent: Player | None = None,
    *,
    by: Expert = "exact",
    min_regret: int = 2,
    attempts: int = 16,
    level: float = 0.05,
    temperature: float = 1.0,
    max_new_tokens: int = 64,
    play: PlayConfig | None = None,
    progress: Callable[[Trajectory], None] | None = None,
) -> FirstFaults:
    """Locate the first step of each failed episode that lost something, by an expert or by forks of an agent.

    Args:
        trajectories: Episodes or their file; successes are left out.
        agent: The agent or policy that played them: each state is continued `attempts` times, and a fault is a fall of
            the share of successes. None: an expert's plans locate the fault.
        by: The expert: `exact` knows the whole state, `fair` only what the episode has shown.
        min_regret: Steps that a step must cost to be a fault, for an expert.
        attempts: Continuations of each state, for an agent.
        level: Chance of a false fault per episode, for an agent.
        temperature: Sampling temperature of a policy; a greedy one repeats its failure.
        max_new_tokens: Longest reply of a policy.
        play: Seed, slots, executor, timeouts of the continuations.
        progress: Called with each finished continuation.

    Raises:
        ConfigError: A number is out of range, or `by` is no expert.
    """
    from agentgym_py.collection import Collector
    from agentgym_py.evaluation.first_fault import first_faults as by_expert
    from agentgym_py.evaluation.first_fault import first_faults_by_forks

    episodes = _trajectories(trajectories)
    if agent is None:
        return by_expert(episodes, by=by, min_regret=min_regret)
    play = _play_config(play)
    collector = Collector(_agent(agent, temperature, max_new_tokens, play.slots, None), play)
    return first_faults_by_forks(
        episodes, lambda jobs: collector.collect_batch(jobs, progress), attempts=attempts, level=level
    )


def credit(
    agent: Player,
    env: Envs,
    estimators: Sequence[str] | Mapping[str, Estimator] = (),
    *,
    tasks: int = 20,
    split: str = "train",
    temperature: float = 1.0,
    max_new_tokens: int = 64,
    play: PlayConfig | None = None,
    progress: Callable[[Trajectory], None] | None = None,
    **settings: Any,
) -> CreditReport:
    """Measure advantage estimators against the exact advantages of an agent or a policy.

    Args:
        agent: Name of an installed agent, an agent, or a policy.
        env: One environment or several.
        estimators: Names or sources such as `my.py:mine`, or functions by name; by default all installed ones.
        tasks: Number of tasks of each environment.
        split: Their split.
        temperature: Sampling temperature of a policy.
        max_new_tokens: Longest reply of a policy.
        play: Seed, slots, executor, timeouts.
        progress: Called with each finished episode.
        settings: Fields of `CreditConfig`, such as `group_size` and `continuations`.

    Raises:
        ConfigError: A setting is wrong, no step could be credited, or an estimator returns no number.
        UnknownNameError: No such environment, agent or estimator.
    """
    from agentgym_py.collection import Collector
    from agentgym_py.credit import CreditConfig, measure_credit
    from agentgym_py.credit.estimators import load_estimators

    _require_counts(tasks=tasks, max_new_tokens=max_new_tokens)
    require_arguments(CreditConfig, settings)
    play = _play_config(play)
    player = _agent(agent, temperature, max_new_tokens, play.slots, None)
    collector = Collector(player, play)
    return measure_credit(
        player, lambda jobs: collector.collect_batch(jobs, progress), _specs(env),
        estimators if isinstance(estimators, Mapping) else load_estimators(estimators), CreditConfig(**settings),
        tasks=range(tasks), split=split, seed=play.seed, policy=getattr(player, "policy", None),
    )  # fmt: skip


def evolve(env: Envs = "shop", *, out: str | os.PathLike[str], **options: Any) -> dict[str, Any]:
    """Run AgentEvol: rounds of explore, select, evolve and evaluate.

    The same as the command `agentgym evolve`, with its folder, checks, output and resumption.

    Args:
        env: One environment or several.
        out: The run's folder. The same call resumes an interrupted run and returns the result of a finished one; more
            `rounds` extend it.
        options: Options of `agentgym evolve` by name, groups as mappings:
            `evolve("shop", out="runs/a", rounds=2, trainer={"name": "dpo", "beta": 1.0})`.

    Returns:
        The test result, as in the run's `test.json`.

    Raises:
        ConfigError: The folder holds a run with other settings.
        AgentGymError: An option is wrong, or the run failed.
    """
    from agentgym_py.cli import run_command
    from agentgym_py.cli.evolve import RESUMABLE, require_same_settings
    from agentgym_py.cli.values import expand_plugins, plugin_names
    from agentgym_py.evolution.run_folder import RunFolder
    from agentgym_py.rewards.functions import reward_sources

    specs, folder = _specs(env), RunFolder(Path(out))
    if "env_kwargs" in options and any(spec.kwargs for spec in specs):
        raise ConfigError("env_kwargs cannot be combined with an EnvSpec that has arguments: put them in the EnvSpec")
    settings = expand_plugins(_env_settings(specs) | options)
    where = ["--out", str(out)]
    if (folder.path / "run.yaml").is_file():
        require_same_settings(folder, settings)
        sources = [name for name in (*settings["env"], *plugin_names(settings).values()) if is_source(name)]
        sources += [kind] if is_source(kind := settings.get("trainer", {}).get("step_kind") or "") else []
        sources += reward_sources(settings.get("reward"), settings.get("reward_kwargs"))
        sources += [name for key in ("critic", "reflection") for name in reward_sources(None, settings.get(key))]
        where = ["--resume", str(out), *(word for name in sources for word in ("--trust", name))]
        settings = {name: settings[name] for name in RESUMABLE if name in settings}
    run_command(["evolve", *where, *_options(settings)])
    return folder.read_json("test.json")


def fork(
    run: str | os.PathLike[str], after: int, *, out: str | os.PathLike[str] | None = None, **changes: Any
) -> dict[str, Any]:
    """Fork a run after one of its rounds: the rounds up to it are shared, those after it have other settings.

    The same as the command `agentgym fork`. `evolve(out=...)` resumes an interrupted fork; `compare` of the fork and
    the run shows the effect of the changes.

    Args:
        run: Folder of the run.
        after: Last round that both share.
        out: Folder of the fork; by default that of the run with `-fork`.
        changes: Settings of `evolve`, such as `trainer={"kl_coef": 0.1}`, and `threads`, `ray`, `base_url`.

    Returns:
        The content of the fork's `test.json`.

    Raises:
        ConfigError: A setting is wrong, or would have changed a shared round.
        RunError: The round is not over, or `out` is not empty.
    """
    from agentgym_py.cli import run_command
    from agentgym_py.cli.fork import free_folder
    from agentgym_py.cli.values import expand_plugins, flatten_options
    from agentgym_py.files import JsonFolder

    folder = free_folder(run) if out is None else os.fspath(out)
    places: dict[str, Any] = {key: changes.pop(key) for key in ("threads", "ray", "base_url") if key in changes}
    words = [f"--set={name}={_text(value)}" for name, value in flatten_options(expand_plugins(changes)).items()]
    run_command(["fork", f"{os.fspath(run)}@{after}", "--out", folder, *words, *_options(places)])
    return JsonFolder(Path(folder)).read_json("test.json")


def _env_settings(specs: Sequence[EnvSpec]) -> dict[str, Any]:
    """The options `env` and `env_kwargs` of a command; arguments of one of several environments by its name."""
    kwargs = {spec.name: dict(spec.kwargs) for spec in specs if spec.kwargs}
    settings: dict[str, Any] = {"env": [spec.name for spec in specs]}
    return settings | ({"env_kwargs": kwargs if len(specs) > 1 else dict(specs[0].kwargs)} if kwargs else {})


def _require_counts(**counts: object) -> None:
    for name, count in counts.items():
        if not isinstance(count, int) or count < 1:
            raise ConfigError(f"{name} must be a whole number, 1 or more, got {count!r:.60}")


def _task_numbers(tasks: int | Iterable[int]) -> Sequence[int]:
    if isinstance(tasks, Iterable) and not isinstance(tasks, str):
        numbers = list(tasks)
        if all(isinstance(number, int) for number in numbers):
            return numbers
        raise ConfigError(f"tasks must be a number of tasks, or their numbers in the split, not {numbers!r:.60}")
    _require_counts(tasks=tasks)
    return range(tasks)


def _play_config(play: PlayConfig | None) -> PlayConfig:
    from agentgym_py.collection import PlayConfig

    if not isinstance(play, PlayConfig | None):
        raise ConfigError(f"play must be a PlayConfig, not {play!r:.60}")
    return play or PlayConfig()


def _trajectories(source: Iterable[Trajectory] | str | os.PathLike[str]) -> list[Trajectory]:
    """Trajectories as given, or those of a file."""
    from agentgym_py.cli.runtime import read_trajectories

    if isinstance(source, str | os.PathLike):
        return list(read_trajectories(os.fspath(source)))
    trajectories = list(source) if isinstance(source, Iterable) else [source]
    if not isinstance(source, Iterable) or not all(isinstance(item, Trajectory) for item in trajectories):
        raise ConfigError(f"trajectories must be a list of Trajectory or a file, not {source!r:.60}")
    return trajectories


def _training_data(
    trainer: Trainer, source: Iterable[Trajectory] | str | os.PathLike[str], select: Mapping[str, Any],
    scorer: Scorer | None, feedback: str | os.PathLike[str] | Sequence[Feedback] | None,
) -> list[Trajectory]:  # fmt: skip
    """Return what the trainer's selection or `select` keeps, with the rewards that it learns from, and corrections."""
    from agentgym_py.feedback.store import read_feedback
    from agentgym_py.training.offline import select_training_data
    from agentgym_py.training.trainer import select_defaults
    from agentgym_py.trajectory.selectors import SelectConfig

    defaults = {name.removeprefix("select."): value for name, value in select_defaults(trainer).items()}
    settings = {**defaults, **select}
    require_arguments(SelectConfig, settings)
    if not (trajectories := _trajectories(source)):
        raise NothingToTrainOnError("there are no trajectories to train on")
    if isinstance(feedback, str | os.PathLike):
        feedback = read_feedback(feedback)
    config = SelectConfig(**settings)
    return select_training_data(trajectories, trainer, config, scorer=scorer, feedback=feedback).trajectories


def _policy(policy: str | os.PathLike[str] | Policy, max_context: int | None) -> Policy:
    """Return a policy, or load the one of a name or a folder."""
    from agentgym_py.policy import Policy

    if not isinstance(policy, Policy | str | os.PathLike):
        raise ConfigError(f"policy must be a name, a folder or a Policy, not {policy!r:.60}")
    if not isinstance(policy, Policy):
        return Policy.load(str(policy), max_context=max_context)
    if max_context is not None:
        raise ConfigError("max_context needs the name of a policy: give it to Policy.load")
    return policy


def _specs(env: Envs) -> list[EnvSpec]:
    envs = [env] if isinstance(env, str | EnvSpec) else list(env) if isinstance(env, list | tuple) else []
    if not envs or not all(isinstance(spec, str | EnvSpec) for spec in envs):
        raise ConfigError(f"env must be a name, an EnvSpec or a list of these, not {env!r:.60}")
    return [EnvSpec(spec) if isinstance(spec, str) else spec for spec in envs]


def _warn_of_cuts(trajectories: Sequence[Trajectory]) -> None:
    from agentgym_py.evaluation.text import cut_warning

    if text := cut_warning(trajectories):
        warnings.warn(text, stacklevel=3)


def _agent(player: Player, temperature: float, max_new_tokens: int, slots: int, kv_cache_gib: float | None) -> Agent:
    """An agent from a name, an agent or a policy."""
    from agentgym_py.agents import ModelAgent
    from agentgym_py.agents.base import require_agent
    from agentgym_py.policy import Policy

    if kv_cache_gib is not None and not isinstance(player, Policy):
        raise ConfigError("kv_cache_gib needs a policy as the agent: other agents have no KV cache here")
    if isinstance(player, str):
        agent: Agent = registry.load("agentgym.agents", player)()
        return agent
    if not isinstance(player, Policy):
        return require_agent(player)
    from agentgym_py.engine import HFEngine, SamplingParams

    engine = HFEngine(player, slots, kv_cache_gib=kv_cache_gib)
    return ModelAgent(player, engine, SamplingParams(temperature=temperature, max_new_tokens=max_new_tokens))


def _reward(reward: str | RewardFunction | None, settings: Mapping[str, Any]) -> Scorer | None:
    from agentgym_py.rewards.functions import build_reward, function_scorer

    if not isinstance(reward, str | None) and callable(reward):
        return function_scorer(reward, settings)
    if not isinstance(reward, str | None):
        raise ConfigError(f"reward must be a name or a function, not {reward!r:.60}")
    return build_reward(reward, settings)


def _trainer(trainer: str | Trainer, settings: Mapping[str, Any]) -> Trainer | OnPolicyTrainer:
    if isinstance(trainer, str):
        trainer_class: type[Trainer | OnPolicyTrainer] = registry.load("agentgym.trainers", trainer)
        require_arguments(trainer_class, settings)
        return trainer_class(**settings)
    if not (hasattr(trainer, "train") or hasattr(trainer, "improve")) or isinstance(trainer, type):
        raise ConfigError(f"trainer must be a trainer's name, or a trainer such as DPO(beta=1.0), not {trainer!r:.60}")
    if settings:
        raise ConfigError(f"settings {', '.join(settings)} need the trainer's name; set them in the trainer itself")
    return trainer


def _offline_trainer(
    trainer: str | Trainer, settings: Mapping[str, Any], output_dir: str | os.PathLike[str] | None
) -> Trainer:
    """Return a trainer of stored trajectories; one that makes no policy needs a folder for its output."""
    from agentgym_py.training import Trainer
    from agentgym_py.training.trainer import info_of

    instance = _trainer(trainer, settings)
    if not isinstance(instance, Trainer):
        raise ConfigError(f"{trainer} is on-policy and does not train on stored trajectories: use evolve")
    if output_dir is None and (output := info_of(instance).output) != "policy":
        raise ConfigError(f"output_dir is needed, because {type(instance).__name__} writes a {output} there")
    return instance


def _options(options: Mapping[str, Any], prefix: str = "--") -> list[str]:
    """Command-line options for keyword arguments; a mapping is a group, its `name` the option itself."""
    words: list[str] = []
    for key, value in options.items():
        if isinstance(value, Mapping):
            rest = {name: item for name, item in value.items() if name != "name"}
            words += [f"{prefix}{key}", str(value["name"])] if "name" in value else []
            words += _options(rest, f"{prefix}{key}.")
        elif isinstance(value, list | tuple):
            words += [word for item in value for word in (f"{prefix}{key}", str(item))]
        elif value is not None:
            words += [f"{prefix}{key}", _text(value)]
    return words


def _text(value: Any) -> str:
    """Return a value as on the command line."""
    if isinstance(value, list | tuple):
        return ",".join(map(_text, value))
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
