"""What `agentgym evolve` prints before it runs: the plan, unusual settings, and how far a run is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentgym_py import distributed
from agentgym_py.cli.evolve_defaults import chosen_by_worlds
from agentgym_py.cli.parser import Values
from agentgym_py.errors import setting
from agentgym_py.evolution import EvolveConfig
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.training.settings import ModelSettings


def headline(settings: Values, config: EvolveConfig) -> str:
    """Return the title of a run."""
    processes = f", {distributed.world_size()} processes" if distributed.world_size() > 1 else ""
    details = f"trainer {settings['trainer.name']}, model {settings['model']}, seed {config.seed}"
    return f"AgentEvol on {', '.join(settings['env'])}: {details}{processes}"


def header(folder: RunFolder, config: EvolveConfig, worlds: int, more: Sequence[str] = ()) -> list[str]:
    """Describe the plan of a run, with `more` lines on it, unusual settings and its progress."""
    rounds = f"then {config.rounds} round{'s' * (config.rounds != 1)}" if config.rounds else "no rounds after it"
    demonstrated = 1 if config.sequence else worlds
    source = f"from {config.expert_tasks * demonstrated} episodes of the {config.expert} expert"
    agent = source if config.expert_tasks else "is the model itself, without demonstrations"
    longest = f"replies of at most {config.max_new_tokens} tokens"
    lines = [f"Agent_v0 {agent}, {rounds}, {longest}; {folder.path}"]
    if config.sequence:
        replayed = f"; {100 * config.replay_ratio:g} % of a training is replayed" if config.replay_ratio else ""
        lines.append(f"A sequence: {', then '.join(folder.config()['env'])}, each with these rounds{replayed}.")
    if not config.select.success_only and not config.critic:
        lines.append(
            f"Failed episodes are selected, too: {setting('select.success_only', False)}, "
            f"{setting('select.threshold', f'{config.select.threshold:g}')}."
        )
    return [*lines, *more, *chosen_by_worlds(folder.config()), *_progress(folder)]


def round_lines(config: EvolveConfig, worlds: int, on_policy: bool) -> list[str]:
    """Say what a round of a run in this number of worlds does; `on_policy` trainers learn from what they play at once.

    A run without rounds has no line.
    """
    if not config.rounds:
        return []
    explored = f"A round: {(1 if config.sequence else worlds) * config.explore_tasks * config.attempts} episodes"
    if on_policy:
        return [f"{explored} of training; the agent learns between them."]
    model = "the base" if config.restart == "base" else "the last agent"
    selected = {
        "all": "those that all rounds selected, the expert's among them", "last": "those that are selected",
        "initial+last": "those that are selected and the expert's",
    }[config.merge]  # fmt: skip
    return [f"{explored} of exploration; {model} is trained on {selected}."]


def learning_rates(weights: int, trainers: Mapping[str, tuple[str, Any]], scale: float = 1.0) -> list[str]:
    """Name the learning rate of each trainer that leaves it to the model.

    Args:
        weights: Number of the model's weights.
        trainers: Group of options (`trainer`, `cloner`) to the name and the settings of its trainer.
        scale: `Policy.learning_rate_scale`.
    """
    by_size = {
        group: (name, trainer)
        for group, (name, trainer) in trainers.items()
        if isinstance(trainer, ModelSettings) and trainer.learning_rate is None
    }
    model = f"a model of {weights:,} weights"
    if scale != 1:
        model += f" whose config scales rates by {scale:g}"
    return [
        f"Learning rate of {name}: {trainer.rate_for(weights, scale):g}, the default for {model}; "
        f"{setting(f'{group}.learning_rate', 'RATE')} changes it."
        for group, (name, trainer) in by_size.items()
    ]


def _progress(folder: RunFolder) -> list[str]:
    if folder.finished:
        return ["This run is already finished; its result:"]
    last_round = folder.planned_rounds()
    done = sum(number <= last_round for number in folder.finished_rounds())
    if done <= last_round and folder.has_begun(done):
        return [f"Resuming within round {done}."]
    last = f"round {done - 1}" if done > 1 else "Agent_v0"
    return [f"Resuming after {last}{', with the test' if done > last_round else ''}."] if done else []
