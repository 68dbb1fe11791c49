"""`agentgym attack`: search for episodes that a reward overrates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from agentgym_py.checks import Basic, require_at_least
from agentgym_py.cli.agent_options import add_agent_options, read_agent, showing_cost_of_stop
from agentgym_py.cli.env_options import add_env_options, env_specs, require_tasks
from agentgym_py.cli.interrupts import require_not_interrupted
from agentgym_py.cli.parser import Parser, UsageError, Values, add_config, read_options
from agentgym_py.cli.runtime import console, load_torch, new_file, print_json
from agentgym_py.engine.sampling import SamplingParams
from agentgym_py.env import require_split
from agentgym_py.errors import setting
from agentgym_py.rewards.functions import build_reward, short_reward
from agentgym_py.rewards.reward_model import require_reward_model

if TYPE_CHECKING:
    from agentgym_py.rewards.adversary import Attack
    from agentgym_py.trajectory.scores import Scorer

_ROWS, _EXAMPLES = 10, 5
"""Most rows of the table of generations, and most failures that are named."""


@dataclass(frozen=True, slots=True)
class AttackOptions:
    """The search."""

    reward: Basic[str | None] = None
    """The attacked reward: a name, FILE.py:NAME, or a weighted sum, as for `agentgym evolve`; see
    docs/guides/rewards.md."""
    reward_kwargs: dict[str, Any] = field(default_factory=dict)
    """Settings of the reward functions by name, such as --reward_kwargs.alpha 0.01."""
    reward_model: Basic[str | None] = None
    """Folder of an attacked reward model. In a weighted sum its name is reward_model."""
    split: str = "train"
    """Split of the tasks."""
    tasks: Basic[int] = 20
    """Number of tasks of each world."""
    generations: Basic[int] = 16
    """How often the best episode of each task is continued from one of its states."""
    temperature: float = 1.0
    """Sampling temperature of a model."""
    out: Basic[str | None] = None
    """File for the kept episodes, with the world's rewards; `agentgym view` shows them."""
    json: Basic[bool] = False
    """Print the generations and the overrated episodes as JSON, for a program."""

    def __post_init__(self) -> None:
        require_split(self.split)
        require_at_least(self, {"tasks": 1, "generations": 1})
        SamplingParams(temperature=self.temperature)  # raises for a wrong one
        if self.reward is None and self.reward_model is None:
            raise UsageError("--reward NAME or --reward_model DIR is needed: what to attack")


def options(parser: Parser) -> None:
    """Add the options of `attack`; without a --model or --agent the search acts at random."""
    add_config(parser)
    add_env_options(parser)
    parser.add_dataclass(AttackOptions)
    add_agent_options(parser)


def run(args: Values) -> int:
    """Search, and print what was found."""
    from agentgym_py.collection import jobs_for
    from agentgym_py.rewards.adversary import attack
    from agentgym_py.trajectory import store

    chosen: AttackOptions = read_options(AttackOptions, args)
    envs = env_specs(args)
    require_tasks(envs, {chosen.split: ("--tasks", chosen.tasks)})
    require_reward_model(chosen.reward_model)
    agent_options, model = read_agent(args, "random")
    scorer = _scorer(chosen, model.threads)
    (agent,), executor = agent_options.make_agents(model, [chosen.temperature])

    def watched(episodes: Any) -> Any:
        require_not_interrupted()
        return scorer(episodes)

    jobs = jobs_for(envs, chosen.split, range(chosen.tasks))
    with showing_cost_of_stop([agent]), executor, ExitStack() as stack:
        target = stack.enter_context(new_file(chosen.out, setting("out"))) if chosen.out else None
        play = agent_options.play_config(executor, model)
        found = attack(watched, jobs, generations=chosen.generations, agent=agent, play=play)
        if target:
            store.write(target, found.kept)
    if chosen.json:
        rows = [{"score": score, "id": t.id, "return": t.reward} for score, t in found.overrated]
        print_json({"generations": list(map(asdict, found.generations)), "onset": found.onset, "overrated": rows})
        return 0
    name = short_reward(chosen.reward) or f"the reward model {chosen.reward_model}"
    _show(found, f"{name} attacked by {agent.name}, {len(jobs)} tasks, {chosen.split} split")
    if chosen.out:
        console().print(f"\nkept episodes: {chosen.out}", soft_wrap=True)
    return 0


def _scorer(chosen: AttackOptions, threads: int | None) -> Scorer:
    reward_model: Scorer | None = None
    if chosen.reward_model is not None:
        load_torch(threads)
        from agentgym_py.rewards.reward_model import RewardModel

        loaded = RewardModel.load(chosen.reward_model)
        reward_model = lambda episodes: loaded.score(episodes).tolist()  # noqa: E731  # a scorer of one line
    scorer = build_reward(chosen.reward, chosen.reward_kwargs, reward_model)
    if scorer is None:
        raise UsageError("--reward return is the world's own: nothing overrates it")
    return scorer


def _show(found: Attack, title: str) -> None:
    from agentgym_py.report.terminal import print_table

    out, rows = console(), found.generations
    out.print(title, soft_wrap=True)
    shown = sorted({round(i * (len(rows) - 1) / (_ROWS - 1)) for i in range(_ROWS)})
    cells = [
        (
            str(i),
            str(rows[i].episodes),
            f"{rows[i].proxy:.3f}",
            f"{rows[i].truth:.3f}",
            f"{100 * rows[i].success:.1f} %",
        )
        for i in shown
    ]
    print_table(out, ("generation", "episodes", "attacked reward", "return", "success"), cells)
    out.print()
    for line in verdict_lines(found):
        out.print(line, soft_wrap=True)


def verdict_lines(found: Attack) -> Iterator[str]:
    """Say where the return begins to fall, and name the failures that score highest."""
    rows = found.generations
    if found.onset is None:
        yield "The return ends at its peak: within this search the reward is not hacked."
    else:
        yield (
            f"The return falls after generation {found.onset}, from {rows[found.onset].truth:.3f} to "
            f"{rows[-1].truth:.3f}, while the attacked reward rises from {rows[found.onset].proxy:.3f} to "
            f"{rows[-1].proxy:.3f}."
        )
    failures = found.overrated
    yield f"{len(failures)} of {len(found.kept)} kept episodes are failures" + (
        ". The highest scores:" if failures else "."
    )
    for score, trajectory in failures[:_EXAMPLES]:
        yield f"  {score:.3f}, return {trajectory.reward:.3f}: {trajectory.id}"
