"""Judge episodes, train on them, prove trainers, and run or fork AgentEvol."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from agentgym_py.api.arguments import (
    command_text,
    command_words,
    env_settings,
    offline_trainer,
    policy_of,
    require_names,
    scorer_of,
    source_of,
    specs_of,
    trainer_of,
    training_data,
    trajectories_of,
)
from agentgym_py.errors import ConfigError
from agentgym_py.registry import is_source
from agentgym_py.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym_py.api.arguments import Envs
    from agentgym_py.feedback import Feedback, FeedbackSource
    from agentgym_py.policy import Policy
    from agentgym_py.proof import Proof
    from agentgym_py.proof import Result as ProofResult
    from agentgym_py.rewards.functions import RewardFunction
    from agentgym_py.training import OnPolicyTrainer, Trainer, TrainReport
    from agentgym_py.training.coreset import Coreset


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
        trajectories: What is judged, its file, or the folder of a run, whose rounds' episodes are judged.
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

    instance = source_of(source, settings)
    name = source if isinstance(source, str) else type(source).__name__
    return judge_into(os.fspath(out), name, instance, trajectories_of(trajectories), progress, ask_again=ask_again)


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
        trajectories: The training data, its file (a store, AgentTraj or parquet), or the folder of a run.
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

    instance, part_config = offline_trainer(trainer, settings, output_dir), load_coreset(coreset)
    require_offline(instance, has_coreset=part_config is not None)
    require_one_reward(reward, feedback)
    scorer = scorer_of(reward, reward_kwargs or {})
    data = training_data(instance, trajectories, select or {}, scorer, feedback)
    loaded = policy_of(policy, max_context)
    with TemporaryDirectory(prefix="agentgym") if output_dir is None else nullcontext(output_dir) as folder:
        part = choose(part_config, loaded, data, instance, seed=seed, folder=Path(folder))
        report = instance.train(loaded, part.trajectories, seed=seed, output_dir=Path(folder), progress=progress)
    if info_of(instance).output == "policy":
        name = trainer if isinstance(trainer, str) else type(trainer).__name__
        loaded.name = f"{loaded.name}+{name}" if output_dir is None else os.fspath(output_dir)
    return loaded, part.add_to(validate_report(report, instance, loaded))


def prove(
    trainer: str | type[Trainer] | type[OnPolicyTrainer] | Trainer | OnPolicyTrainer,
    checks: Sequence[str] = (),
    *,
    seed: int = 0,
    seeds: int = 5,
    episodes: int | None = None,
    reference: str | None = None,
    progress: Callable[[ProofResult], object] | None = None,
    **settings: Any,
) -> Proof:
    """Check a trainer against exact truth on tables, as `agentgym prove` does; all checks take about a minute.

    Args:
        trainer: Its name, its source such as `my_trainer.py:MyTrainer`, its class, or a trainer with its settings.
        checks: Names of checks, such as `mask`; by default all, without which no proof is `passed`.
        seed: Seed of all that is drawn.
        seeds: Trainings of the learning curve, at least 2.
        episodes: Episodes of each of them: by default 640 of an on-policy trainer, or 160 stored ones of an offline
            trainer.
        reference: Trainer whose learning curve stands beside it, or `none`; by default `grpo` for an on-policy trainer
            and `filtered_bc` for an offline one.
        progress: Called with the result of each check.
        settings: The trainer's settings, if `trainer` is a name or a source.

    Returns:
        The proof: its `verdict`, the `results` of the checks, and the learning `curve` in exact expected return.

    Raises:
        ConfigError: The trainer does not take a setting, makes something else than a policy, or trains adapters.
        UnknownNameError: No such trainer or check.
    """
    from agentgym_py.proof import prove as prove_trainer

    if settings and isinstance(trainer, type):
        raise ConfigError(f"{trainer.__name__} is a class: give an instance with these settings")
    require_names("checks", checks)
    chosen: Any = trainer if isinstance(trainer, type) else trainer_of(trainer, settings)
    proof = prove_trainer(
        chosen, checks, seed=seed, seeds=seeds, episodes=episodes, reference=reference,
        on_result=progress or (lambda _: None),
    )  # fmt: skip
    return replace(proof, trainer=trainer) if isinstance(trainer, str) else proof


def evolve(env: Envs = "shop", *, out: str | os.PathLike[str], **options: Any) -> dict[str, Any]:
    """Run AgentEvol: rounds of explore, select, evolve and evaluate.

    The same as the command `agentgym evolve`, with its folder, checks, output and resumption. It also has the world's
    `evolve_defaults`, such as an easy difficulty, which `collect` and `evaluate` have not.

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
    from agentgym_py.cli.evolve_settings import RESUMABLE, require_same_settings
    from agentgym_py.cli.values import expand_plugins, plugin_names
    from agentgym_py.evolution.run_folder import RunFolder
    from agentgym_py.rewards.functions import reward_sources

    specs, folder = specs_of(env), RunFolder(Path(out))
    if "env_kwargs" in options and any(spec.kwargs for spec in specs):
        raise ConfigError("env_kwargs cannot be combined with an EnvSpec that has arguments: put them in the EnvSpec")
    settings = expand_plugins(env_settings(specs) | options)
    where = ["--out", str(out)]
    if (folder.path / "run.yaml").is_file():
        require_same_settings(folder, settings)
        sources = [name for name in (*settings["env"], *plugin_names(settings).values()) if is_source(name)]
        sources += [kind] if is_source(kind := settings.get("trainer", {}).get("step_kind") or "") else []
        sources += reward_sources(settings.get("reward"), settings.get("reward_kwargs"))
        sources += [name for key in ("critic", "reflection") for name in reward_sources(None, settings.get(key))]
        where = ["--resume", str(out), *(word for name in sources for word in ("--trust", name))]
        settings = {name: settings[name] for name in RESUMABLE if name in settings}
    run_command(["evolve", *where, *command_words(settings)])
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
    words = [f"--set={name}={command_text(value)}" for name, value in flatten_options(expand_plugins(changes)).items()]
    run_command(["fork", f"{os.fspath(run)}@{after}", "--out", folder, *words, *command_words(places)])
    return JsonFolder(Path(folder)).read_json("test.json")
