"""`agentgym eval`: evaluate an agent on held-out tasks."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agentgym_py import registry
from agentgym_py.checks import Basic, parameters_of, require_at_least
from agentgym_py.cli import print_interrupted
from agentgym_py.cli.agent_options import (
    AgentOptions,
    ModelOptions,
    add_agent_options,
    phases_for,
    read_agent,
    show_outcome,
    showing_cost_of_stop,
)
from agentgym_py.cli.argv import peek_options, require_allowed
from agentgym_py.cli.env_options import (
    add_env_options,
    env_specs,
    env_versions,
    require_tasks,
    warn_of_training_tasks,
)
from agentgym_py.cli.eval_output import headline, lost_reason, show_result
from agentgym_py.cli.interrupts import no_interrupt_lost, require_not_interrupted
from agentgym_py.cli.parser import Parser, UsageError, Values, add_config, read_options, wants_help
from agentgym_py.cli.runtime import console, git_commit, package_versions, print_json, require_model_files
from agentgym_py.cli.saved_settings import require_sources, saved_settings, source_digests
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.engine.sampling import SamplingParams
from agentgym_py.env import require_split
from agentgym_py.errors import EndpointError, PolicyError, RunError, UnknownNameError, setting
from agentgym_py.evaluation.folder import (
    SAME_EPISODES,
    EvalFolder,
    differences,
    make_manifest,
    read_manifest,
    same_weights,
)
from agentgym_py.files import is_lasting, json_safe, require_creatable
from agentgym_py.trajectory import store
from agentgym_py.version import __version__

if TYPE_CHECKING:
    from agentgym_py.agents import Agent
    from agentgym_py.collection.collector import Progress
    from agentgym_py.env import EnvSpec
    from agentgym_py.evaluation.anytime import Opponent
    from agentgym_py.evaluation.evaluate import Evaluation
    from agentgym_py.evaluation.experts_comparison import ExpertsComparison
    from agentgym_py.evaluation.first_fault import FirstFaults
    from agentgym_py.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class EvalOptions:
    """The evaluation."""

    split: Basic[str] = "test"
    """Tasks to evaluate on; choose settings on `valid`, and quote `test`."""
    tasks: Basic[int] = 300
    """Number of tasks of each world, starting at --first."""
    first: Basic[int] = 0
    """Number of the first task."""
    attempts: Basic[int] = 1
    """Episodes per task; with several, intervals are clustered by task."""
    temperature: Basic[float] = 0.0
    """Sampling temperature of a model; 0 is greedy."""
    out: Basic[str | None] = None
    """Folder for manifest.json, trajectories.jsonl and result.json; it must be new or empty, or hold the same
    evaluation interrupted, which then resumes."""
    until_decided: Basic[str | None] = None
    """Folder of a finished evaluation of the same tasks: stop as soon as it is decided which of the two agents is
    better. --tasks is then the largest number of tasks."""
    margin: float | None = None
    """With --until_decided: the difference that matters, such as 0.1; stop also if theirs is smaller."""
    power: float | None = None
    """With --margin: the chance that a difference of the margin is not taken for a smaller one; by default 0.95. With
    0.8, equal agents need fewer tasks."""
    manifest: Basic[str | None] = None
    """Repeat the evaluation of this manifest.json, or of this folder, with its settings. --model NAME evaluates another
    model on the same tasks; --out, --json, --threads and --fail_below are also allowed."""
    fail_below: float | None = None
    """End with exit status 1 if the success rate itself, not its interval, is below this value, such as 0.8. Also if an
    infrastructure failure ended an episode."""
    json: Basic[bool] = False
    """Print the result as JSON, for a program."""

    def __post_init__(self) -> None:
        require_split(self.split)
        require_at_least(self, {"tasks": 1, "attempts": 1, "first": 0})
        if self.margin is not None and self.until_decided is None:
            raise UsageError("--margin needs --until_decided FOLDER")
        if self.power is not None and self.margin is None:
            raise UsageError("--power needs --margin")
        for name, value in (("margin", self.margin), ("power", self.power)):
            if value is not None and not 0 < value < 1:
                raise UsageError(f"--{name} must be above 0 and below 1, got {value}")
        if self.fail_below is not None and not 0 < self.fail_below <= 1:
            raise UsageError(f"--fail_below must be above 0 and at most 1, got {self.fail_below}")
        SamplingParams(temperature=self.temperature)  # raises for a wrong one


@dataclass(frozen=True, slots=True)
class RepeatOptions:
    """The options allowed with --manifest; all other settings come from there."""

    manifest: str
    """The manifest.json of an evaluation, or its folder."""
    model: str | None = None
    """Another model to evaluate with the same settings, or the new place of the same model."""
    out: str | None = None
    """Folder for the repeated evaluation."""
    threads: int | None = None
    """CPU threads and processes; by default those of the manifest, because another number changes rounding."""
    fail_below: float | None = None
    """End with exit status 1 if the success rate is below this value, or an infrastructure failure ended an episode."""
    json: bool = False
    """Print the result as JSON."""


def options(parser: Parser) -> None:
    """Add the options of `eval`."""
    if "manifest" in peek_options(parser.argv) and not wants_help(parser.argv):
        require_allowed(parser.argv, RepeatOptions, "its settings are repeated; to change them, evaluate without it")
        parser.add_dataclass(RepeatOptions)
        return
    add_config(parser)
    _add_settings(parser)


def _add_settings(parser: Parser) -> None:
    add_env_options(parser)
    parser.add_dataclass(EvalOptions)
    add_agent_options(parser)


def read_plan(args: Values) -> tuple[EvalOptions, AgentOptions, ModelOptions, list[EnvSpec]]:
    """Read and check the options before anything is loaded or written."""
    chosen = read_options(EvalOptions, args)
    agent_options, model = read_agent(args, None)
    if chosen.temperature:
        agent_options.require_sampling()
    envs = env_specs(args)
    option = f"--first {chosen.first} with --tasks {chosen.tasks}" if chosen.first else "--tasks"
    require_tasks(envs, {chosen.split: (option, chosen.first + chosen.tasks)}, chosen.first)
    return chosen, agent_options, model, envs


def run(args: Values) -> int:
    """Evaluate, print and write the result."""
    try:
        with no_interrupt_lost():
            return _run_or_repeat(args)
    except KeyboardInterrupt:
        if args.get("out") is None:
            print("\nno episode is kept, because --out names no folder", file=sys.stderr)
        raise


def _run_or_repeat(args: Values) -> int:
    if args.get("manifest") is None:
        return _run(args, None)
    path, manifest = args["manifest"], read_manifest(Path(args["manifest"]))
    require_sources(manifest.get("sources", {}), path)
    settings, parser = manifest["options"], Parser("agentgym eval")
    _add_settings(parser)
    played = ((manifest["agent"] or {}).get("sampling") or {}).get("max_new_tokens")
    settings = settings | ({"max_new_tokens": played} if settings.get("max_new_tokens") is None and played else {})
    changes = {name: args[name] for name in ("out", "json", "fail_below")}
    changes["threads"] = args["threads"] or manifest.get("threads")
    if args["model"]:
        changes |= _settings_of_model(settings, args["model"])
    elif settings.get("agent") in (None, "model"):
        _require_model(settings.get("model"), path)
    return _run(parser.read_mapping(settings | changes, path), Repetition(path, manifest, bool(args["model"])))


class Repetition(NamedTuple):
    """The evaluation that is repeated."""

    path: str
    manifest: Mapping[str, Any]
    other_model: bool
    """Whether --model names the agent."""


def _settings_of_model(settings: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Return the settings that make `model` the agent, at the endpoint of the evaluation if it used one."""
    agent = settings.get("agent")
    if agent not in (None, "model") and "base_url" in parameters_of(registry.load("agentgym.agents", agent)):
        return {"model": model}
    return {"model": model, "agent": "model", "expert": None, "agent_kwargs": {}}


def _require_model(model: Any, path: str) -> None:
    """Raise UsageError if the model of an evaluation is missing."""
    try:
        require_model_files(str(model))
    except (UnknownNameError, PolicyError) as error:
        raise UsageError(f"{path}: {error}; if the model has moved, give its new place: --model FOLDER") from error


def _run(args: Values, repeated: Repetition | None) -> int:
    chosen, agent_options, model, envs = read_plan(args)
    if chosen.split != "train":
        warn_of_training_tasks(envs, [chosen.split])
    out = EvalFolder.unfinished(chosen.out) if chosen.out else None
    if out:
        require_creatable(out.path)  # before the import of torch, which is slow
    versions, settings = env_versions(envs, chosen.split), saved_settings(args, envs)
    tasks = range(chosen.first, chosen.first + chosen.tasks)
    (agent,), executor = agent_options.make_agents(model, [chosen.temperature])
    from agentgym_py.agents.base import agent_title
    from agentgym_py.evaluation import evaluate
    from agentgym_py.evaluation.text import cut_warning, decoding_label

    play = agent_options.play_config(executor, model)
    manifest = make_manifest(agent, envs, chosen.split, tasks, chosen.attempts, play.prompt, play.seed)
    manifest |= _provenance(settings, agent_options.agent == "model")
    against = _opponent(chosen, manifest)
    if name := _name_before(manifest, repeated, out):
        agent.name = manifest["agent"]["name"] = name
    title = f"{agent_title(agent.name, agent.sampling)}{decoding_label(agent.sampling)}"

    def again(places: Sequence[int]) -> Iterator[Trajectory]:
        """Play the episodes at these places once more."""
        jobs = jobs_for(envs, chosen.split, tasks, chosen.attempts)
        with phases_for(agent, console(chosen.json)) as phases:
            watch = phases.begin("lost episodes, again", len(places))
            for trajectory in Collector(agent, play).iter_ordered([jobs[place] for place in places]):
                require_not_interrupted()
                yield trajectory
                watch(trajectory)
            phases.end()

    with (
        showing_cost_of_stop([agent]), executor, _open_rows(out, manifest, again) as (before, write),
        phases_for(agent, console(chosen.json)) as phases,
    ):  # fmt: skip
        phase = phases.begin(f"{chosen.split}, {title}", len(envs) * chosen.tasks * chosen.attempts)
        evaluation, trajectories = evaluate(
            agent, envs, chosen.split, tasks, attempts=chosen.attempts, play=play, before=before,
            progress=_progress(agent, phase, before, write), is_decided=against.is_decided if against else None,
        )  # fmt: skip
        phases.end()
        if warning := cut_warning(trajectories):
            warnings.warn(warning, stacklevel=2)
        summary, experts, faults = _result(trajectories, agent)
        comparison = against.compare(trajectories) if against else None
        summary |= {"comparison": comparison.as_dict()} if comparison else {}
        result = json_safe(summary | {"env_versions": versions, "options": settings})
        if out:
            result["rows"] = out.digest()
            out.finish(result)
    if chosen.json:
        print_json(result)
    else:
        show_result(evaluation, trajectories, experts, faults, headline(title, agent, play, chosen.split, trajectories))
        if comparison:
            print(f"\n{comparison}")
            if comparison.result.verdict != "undecided":
                print("Quote this interval: the others hold for a number of tasks that was fixed before any result.")
    return int(evaluation.errors == len(trajectories) or _fails_gate(evaluation, chosen.fail_below))


def _fails_gate(evaluation: Evaluation, least: float | None) -> bool:
    """Whether a result fails --fail_below; then say why."""
    if least is None:
        return False
    from agentgym_py.evaluation.text import format_rate

    reasons = [lost_reason("the evaluation", evaluation.errors)] if evaluation.errors else []
    if not evaluation.success.value >= least:
        rate = format_rate(evaluation.success)
        reasons.append(f"the success rate is below {setting('fail_below', least)}: {rate}")
    for reason in reasons:
        print(reason, file=sys.stderr)
    return bool(reasons)


def _progress(
    agent: Agent, phase: Callable[[Trajectory], object], before: Sequence[Trajectory],
    write: Callable[[Trajectory], object],
) -> Callable[[Trajectory], None]:  # fmt: skip
    """Show the episodes of before; return what writes and shows each new one."""
    for trajectory in before:
        phase(trajectory)

    def progress(trajectory: Trajectory) -> None:
        require_not_interrupted()
        write(trajectory)
        phase(trajectory)
        show_outcome(agent, trajectory)

    return progress


def _name_before(manifest: Mapping[str, Any], repeated: Repetition | None, out: EvalFolder | None) -> str | None:
    """Return the name of the same weights in the evaluation that is resumed or repeated; None if there is none.

    A model that lies in another folder now keeps its name in the rows.

    Raises:
        RunError: it would differ from that evaluation, or a source file has changed.
    """
    stored = [repeated.manifest] if repeated else []
    if repeated:
        _require_same(repeated, manifest)
    if out and out.has_begun:
        stored.append(out.manifest())
        require_sources(stored[-1].get("sources", {}), str(out.path))
    names = [earlier["agent"]["name"] for earlier in stored if same_weights(earlier, manifest)]
    return str(names[-1]) if names else None


def _opponent(chosen: EvalOptions, manifest: Mapping[str, Any]) -> Opponent | None:
    """Return the evaluation of --until_decided; ConfigError if it has other settings, or fewer tasks."""
    if chosen.until_decided is None:
        return None
    from agentgym_py.evaluation.anytime import Opponent
    from agentgym_py.evaluation.compare import Entrant

    evaluation = Entrant.load(chosen.until_decided)
    opponent = Opponent(evaluation, manifest, chosen.out or "this evaluation", chosen.margin, chosen.power)
    opponent.require_comparable(chosen.tasks)
    return opponent


def _provenance(settings: Mapping[str, Any], uses_model: bool) -> dict[str, Any]:
    """Return the settings with their source files, the software, the time, and a model's threads, which round."""
    threads = sys.modules["torch"].get_num_threads() if uses_model else None
    now, sources = datetime.now(UTC).isoformat(timespec="seconds"), source_digests(settings)
    return {
        "options": json_safe(settings), "threads": threads, "packages": package_versions(), "commit": git_commit(),
        "started": now, **({"sources": sources} if sources else {}),
    }  # fmt: skip


def _require_same(repeated: Repetition, now: Mapping[str, Any]) -> None:
    """Raise RunError if a repetition would differ from the evaluation; warn about other package versions."""
    path, manifest, other_model = repeated
    keys = [key for key in SAME_EPISODES if key != "options" and not (other_model and key == "agent")]
    if changes := differences(manifest, now, keys):
        advice = ""
        if any(change.startswith("agent's policy_digest") for change in changes):
            advice = "; to evaluate another model on the same tasks, use --model NAME"
        raise RunError(f"{path} cannot be repeated because something has changed: {'; '.join(changes)}{advice}")
    if other_model and not same_weights(manifest, now):
        return
    if changes := differences(manifest, now, ["packages"]):
        warnings.warn(f"the rows may differ from those of {path}: {'; '.join(changes)}", stacklevel=2)


@contextmanager
def _open_rows(
    out: EvalFolder | None, manifest: Mapping[str, Any], again: Callable[[Sequence[int]], Iterator[Trajectory]]
) -> Iterator[tuple[list[Trajectory], Progress]]:
    """Yield the stored episodes and a function that stores one; after an error print what is stored.

    Stored episodes that were lost are played `again` first.
    """
    if out is None:
        yield [], lambda _: None
        return
    with out.recording(manifest) as stored:
        is_evidence = [trajectory.error is None for trajectory in stored]
        try:
            before = out.replace_lost(stored, again)
            is_evidence = [trajectory.error is None for trajectory in before]
            with store.TrajectoryWriter(out.trajectories) as writer:

                def write(trajectory: Trajectory) -> None:
                    writer.append(trajectory)
                    is_evidence.append(trajectory.error is None)

                yield before, write
        except BaseException as error:
            good, failed = sum(is_evidence), is_evidence.count(False)
            if not good:
                out.discard()
            if isinstance(error, KeyboardInterrupt | EndpointError | OSError):
                message = f"{out.path}: {good or 'no'} episode{'s are' if good != 1 else ' is'} kept"
                if not good and isinstance(error, KeyboardInterrupt):
                    message += "; with a smaller --slots, episodes end earlier"
                if failed:
                    message += f", {failed} ended by an infrastructure failure"
                advice = "the same command resumes from there" if good else "start again"
                print_interrupted("" if is_lasting(error) else advice, message)
            raise


def _result(trajectories: Sequence[Trajectory], agent: Agent) -> tuple[dict[str, Any], ExpertsComparison, FirstFaults]:
    from agentgym_py.evaluation.evaluate import group_by_env, summary_dict
    from agentgym_py.evaluation.experts_comparison import compare_with_experts
    from agentgym_py.evaluation.first_fault import first_faults

    experts, faults = compare_with_experts(trajectories), first_faults(trajectories)
    summary = summary_dict(trajectories)
    groups = group_by_env(trajectories)
    for name, group in groups.items():
        of_world = experts if len(groups) == 1 else compare_with_experts(group)
        summary["worlds"][name]["experts"] = of_world.as_dict()
    return {
        "agent": agent.name, "policy_digest": agent.policy_digest, "sampling": agent.sampling,
        "package_version": __version__, **summary, "experts": experts.as_dict(), "first_faults": faults.as_dict(),
    }, experts, faults  # fmt: skip
