"""`agentgym eval`: an agent on held-out tasks."""

from __future__ import annotations

import hashlib
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_py import registry
from agentgym_py.checks import Basic, parameters_of, require_at_least
from agentgym_py.cli import interrupted
from agentgym_py.cli.agent_options import AgentOptions, ModelOptions, add_agent_options, phases_of, read_agent, tell
from agentgym_py.cli.env_options import add_env_options, env_specs, env_versions, require_tasks
from agentgym_py.cli.interrupts import require_not_interrupted
from agentgym_py.cli.parser import Parser, UsageError, add_config, peek_options, read_options, wants_help
from agentgym_py.cli.runtime import commit, console, packages, print_json, require_model_files
from agentgym_py.cli.saved_settings import require_sources, settings_of, sources_of
from agentgym_py.engine.sampling import SamplingParams
from agentgym_py.env import require_split
from agentgym_py.errors import EndpointError, PolicyError, RunError, UnknownNameError
from agentgym_py.evaluation.folder import (
    SAME_EPISODES,
    EvalFolder,
    differences,
    make_manifest,
    read_manifest,
    same_weights,
)
from agentgym_py.files import json_safe
from agentgym_py.trajectory import store
from agentgym_py.version import __version__

if TYPE_CHECKING:
    from agentgym_py.agents import Agent
    from agentgym_py.cli.parser import Values
    from agentgym_py.collection.collector import Progress
    from agentgym_py.env import EnvSpec
    from agentgym_py.evaluation import Evaluation
    from agentgym_py.evaluation.experts_comparison import ExpertsComparison
    from agentgym_py.evaluation.stats import Estimate
    from agentgym_py.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class EvalOptions:
    """The evaluation."""

    split: Basic[str] = "test"
    """`train`, `valid` or `test`."""
    tasks: Basic[int] = 300
    """Number of tasks of each world."""
    attempts: Basic[int] = 1
    """Episodes per task; with several the intervals are clustered by task."""
    temperature: Basic[float] = 0.0
    """Sampling temperature of a model; 0 is greedy."""
    out: Basic[str | None] = None
    """Folder that gets manifest.json, trajectories.jsonl and result.json; it must be new or empty, or hold this very
    evaluation interrupted, which then resumes."""
    manifest: Basic[str | None] = None
    """Repeat the evaluation of this manifest.json, or of this folder. All settings come from there. --model NAME beside
    it evaluates another model on the same tasks; --out, --json and --threads may stand beside it too."""
    json: Basic[bool] = False
    """Print the result as JSON, for a program."""

    def __post_init__(self) -> None:
        require_split(self.split)
        require_at_least(self, {"tasks": 1, "attempts": 1})
        SamplingParams(temperature=self.temperature)  # complains of a wrong one


@dataclass(frozen=True, slots=True)
class RepeatOptions:
    """What may stand beside --manifest; all other settings come from there."""

    manifest: str
    """The manifest.json of an evaluation, or its folder."""
    model: str | None = None
    """Another model, which is evaluated on the same tasks with the same settings; or the same one in another place."""
    out: str | None = None
    """Folder of the repetition."""
    threads: int | None = None
    """CPU threads and processes; by default as many as the manifest's, since sums round otherwise with others."""
    json: bool = False
    """Print the result as JSON."""


def options(parser: Parser, argv: Sequence[str]) -> None:
    """Add what `eval` takes."""
    if "manifest" in peek_options(argv) and not wants_help(argv):
        allowed = [f"--{each.name}" for each in fields(RepeatOptions)]
        for word in argv:
            if word.startswith("--") and word.partition("=")[0] not in allowed:
                said = word.partition("=")[0]
                raise UsageError(f"{said} cannot stand beside --manifest, which says it; {', '.join(allowed[1:])} can")
        parser.add_dataclass(RepeatOptions)
        return
    add_config(parser)
    _add_settings(parser)


def _add_settings(parser: Parser) -> None:
    add_env_options(parser)
    parser.add_dataclass(EvalOptions)
    add_agent_options(parser)


def read(args: Values) -> tuple[EvalOptions, AgentOptions, ModelOptions, list[EnvSpec]]:
    """What is wanted; complains of what cannot be, before anything is loaded or written."""
    chosen = read_options(EvalOptions, args)
    who, model = read_agent(args, None)
    envs = env_specs(args)
    require_tasks(envs, {chosen.split: ("--tasks", chosen.tasks)})
    return chosen, who, model, envs


def run(args: Values) -> int:
    """Evaluate, show, write."""
    if args.get("manifest") is None:
        return _run(args, None)
    held = read_manifest(Path(args["manifest"]))
    require_sources(held.get("sources", {}), args["manifest"])
    options, parser = held["options"], Parser("agentgym eval")
    _add_settings(parser)
    own = {"out": args["out"], "json": args["json"], "threads": args["threads"] or held.get("threads")}
    if args["model"]:
        own |= _of_another(options, args["model"])
    elif options.get("agent") in (None, "model"):
        _require_there(options.get("model"), args["manifest"])
    settings = parser.read_mapping(options | own, args["manifest"])
    return _run(settings, (args["manifest"], held, bool(args["model"])))


def _of_another(held: Mapping[str, Any], model: str) -> dict[str, Any]:
    """The settings that make `model` the agent: at the endpoint of an evaluation that has one, else as weights."""
    who = held.get("agent")
    if who not in (None, "model") and "base_url" in parameters_of(registry.load("agentgym.agents", who)):
        return {"model": model}
    return {"model": model, "agent": "model", "expert": None, "agent_kwargs": {}}


def _require_there(model: Any, manifest: str) -> None:
    """Refuse to repeat an evaluation whose model is gone, and say how to name its new place."""
    try:
        require_model_files(str(model))
    except (UnknownNameError, PolicyError) as error:
        raise UsageError(f"{manifest}: {error}; if the model has moved, name its place: --model FOLDER") from error


def _run(args: Values, repeated: tuple[str, Mapping[str, Any], bool] | None) -> int:
    """Evaluate; `repeated` is a manifest's path, the manifest, and whether another agent may play it."""
    chosen, who, model, envs = read(args)
    out = EvalFolder.unfinished(chosen.out) if chosen.out else None
    world_versions = env_versions(envs, chosen.split)
    (agent,), executor = who.make(model, [chosen.temperature])
    from agentgym_py.agents.base import agent_title
    from agentgym_py.evaluation import evaluate
    from agentgym_py.evaluation.text import decoding_label

    asked = settings_of(args, envs)
    tasks = range(chosen.tasks)
    manifest = make_manifest(agent, envs, chosen.split, tasks, chosen.attempts, who.prompt, who.seed) | {
        "options": json_safe(asked), **_made_with(who.agent == "model")
    }  # fmt: skip
    manifest |= {"sources": files} if (files := sources_of(asked)) else {}
    if out and out.has_begun:
        require_sources(out.manifest().get("sources", {}), str(out.folder.path))
    if repeated:
        _check(*repeated, manifest)
    for held in ([repeated[1]] if repeated else []) + ([out.manifest()] if out and out.has_begun else []):
        if same_weights(held, manifest):  # the same agent in another place: its rows carry the name that they had
            agent.name = manifest["agent"]["name"] = held["agent"]["name"]
    title = f"{agent_title(agent.name, agent.sampling)}{decoding_label(agent.sampling)}"
    with _kept(out, manifest) as (before, keep), executor, phases_of(agent, console(chosen.json)) as phases:
        phase = phases.begin(f"{chosen.split}, {title}", len(envs) * chosen.tasks * chosen.attempts)
        for trajectory in before:
            phase(trajectory)

        def progress(trajectory: Trajectory) -> None:
            require_not_interrupted()
            keep(trajectory)
            phase(trajectory)
            tell(agent, trajectory)

        found, played = evaluate(
            agent, envs, chosen.split, tasks, attempts=chosen.attempts, play=who.play(executor), progress=progress,
            before=before,
        )  # fmt: skip
        phases.end()
        made_by = {"env_versions": world_versions, "options": asked}
        summary, experts = _result(played, agent)
        result = json_safe(summary | made_by)
        if out:
            result["rows"] = hashlib.sha256(out.trajectories.read_bytes()).hexdigest()
            out.finish(result)
    if chosen.json:
        print_json(result)
    else:
        _show(found, played, experts, f"{title}, {chosen.split} split, {len(played)} episodes")
    return int(found.errors == len(played))


def _made_with(model: bool) -> dict[str, Any]:
    """What is noted of an evaluation beside what decides it; threads matter to a model's sums."""
    threads = sys.modules["torch"].get_num_threads() if model else None
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"threads": threads, "packages": packages(), "commit": commit(), "started": now}


def _check(path: str, held: Mapping[str, Any], another: bool, now: Mapping[str, Any]) -> None:
    """Refuse what would be another evaluation than a manifest's, but for `another` agent; warn of other packages."""
    keys = [key for key in SAME_EPISODES if key != "options" and not (another and key == "agent")]
    if other := differences(held, now, keys):
        advice = ""
        if any(each.startswith("agent's policy_digest") for each in other):
            advice = "; to evaluate another model on the same tasks, name it: --model NAME"
        raise RunError(f"{path} cannot be repeated because something has changed: {'; '.join(other)}{advice}")
    if another and not same_weights(held, now):
        return
    if other := differences(held, now, ["packages"]):
        warnings.warn(f"the rows may differ from those of {path}: {'; '.join(other)}", stacklevel=2)


@contextmanager
def _kept(out: EvalFolder | None, manifest: Mapping[str, Any]) -> Iterator[tuple[list[Trajectory], Progress]]:
    """The episodes that are there before, and what keeps each that is played; says what is left after Ctrl-C."""
    if out is None:
        yield [], lambda _: None
        return
    with out.recording(manifest) as before:
        written = list[bool]()
        """Of each episode whether it is evidence, that is, no infrastructure failure ended it."""
        try:
            with store.TrajectoryWriter(out.trajectories) as writer:

                def keep(trajectory: Trajectory) -> None:
                    writer.append(trajectory)
                    written.append(trajectory.error is None)

                yield before, keep
        except BaseException as error:
            good = sum(each.error is None for each in before) + sum(written)
            if not good:
                out.discard()
            if isinstance(error, KeyboardInterrupt | EndpointError):
                lost = len(before) + len(written) - good
                said = f"{out.folder.path}: {good or 'no'} episode{'s are' if good != 1 else ' is'} kept"
                if lost:
                    said += f", {lost} ended by an infrastructure failure"
                interrupted("the same command resumes from there" if good else "start again", said)
            raise


def _result(played: Sequence[Trajectory], agent: Agent) -> tuple[dict[str, Any], ExpertsComparison]:
    from agentgym_py.evaluation.evaluate import group_by_env, summary_dict
    from agentgym_py.evaluation.experts_comparison import compare_with_experts

    experts = compare_with_experts(played)
    summary = summary_dict(played)
    groups = group_by_env(played)
    for name, group in groups.items():
        of_world = experts if len(groups) == 1 else compare_with_experts(group)
        summary["worlds"][name]["experts"] = of_world.as_dict()
    return {
        "agent": agent.name, "policy_digest": agent.policy_digest, "sampling": agent.sampling,
        "package_version": __version__, **summary, "experts": experts.as_dict(),
    }, experts  # fmt: skip


def _show(summary: Evaluation, played: Sequence[Trajectory], experts: ExpertsComparison, title: str) -> None:
    from agentgym_py.evaluation.evaluate import summarise_by_env
    from agentgym_py.evaluation.text import failure_note, format_mean, format_rate, given_up_note
    from agentgym_py.report.terminal import print_table

    lines = [("all", str(summary.success.n), format_rate(summary.success))]
    for name, by_k in (("pass@", summary.pass_at), ("pass^", summary.pass_all)):
        lines += [(f"{name}{k}", str(each.n), format_rate(each)) for k, each in by_k.items() if k > 1]
    worlds = summarise_by_env(played)
    for world, each in worlds.items():
        rows = {f"kind {key}": of_kind for key, of_kind in each.by_kind.items()}
        rows |= {f"difficulty {key}": of_difficulty for key, of_difficulty in each.by_difficulty.items()}
        if len(worlds) > 1:  # kinds of two worlds may have one name
            rows = {f"world {world}": each.success} | {f"{world}, {name}": row for name, row in rows.items()}
        lines += [(name, str(estimate.n), format_rate(estimate)) for name, estimate in rows.items()]
    out = console()
    out.print(title, soft_wrap=True)
    print_table(out, ("", "tasks", "success [95 %]"), lines)
    out.print()
    print_table(out, ("beside the experts", "tasks", "mean [95 %]"), _beside(experts))
    means = f"{summary.steps:.1f} steps an episode, {100 * summary.invalid:.1f} % invalid actions"
    tokens = "" if summary.tokens is None else f", {summary.tokens:.1f} tokens sampled an episode"
    out.print(f"\nreward {format_mean(summary.reward)}, {means}{tokens}", soft_wrap=True)
    if summary.spent:
        out.print(str(summary.spent), soft_wrap=True)
    for kind, each_kind in summary.failures.items():
        out.print(f"failed, {kind}: {each_kind.count}, such as {each_kind.example}", soft_wrap=True)
    if summary.given_up:
        out.print(
            f"{given_up_note(summary.given_up)} by the agent, whose context was full or who had nothing left to do"
        )
    if summary.errors:
        out.print(failure_note(played), soft_wrap=True)


def _beside(experts: ExpertsComparison) -> list[tuple[str, str, str]]:
    """The rows of the second table; what no world of these has is left out."""
    from agentgym_py.evaluation.text import format_mean

    rows: dict[str, Estimate] = {
        "regret": experts.regret, "success by path length": experts.weighted_success,
        "step efficiency of successes": experts.efficiency, "tool F1": experts.tool_f1,
        "plan success": experts.plan_success, "timing of tool calls": experts.timing,
    }  # fmt: skip
    return [(name, str(each.n), format_mean(each)) for name, each in rows.items() if each.n]
