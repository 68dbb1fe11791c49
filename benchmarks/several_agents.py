"""Roles that learn, and a planner with an executor: `python benchmarks/several_agents.py [STUDY ...] [--seeds 0 1 2]`.

| study | world | arms | question |
|---|---|---|---|
| errand | errand | client, shopper, both, self | does each role learn, one policy for both, and one in self-play? |
| twentyquestions | twentyquestions | asker, answerer, both, self | the same |
| partner | errand | fair, trained, itself | what does a shopper reach with a client that learned, too? |
| team | household, hard | flat, executor, team | is a planner with an executor better than one agent? |

A run is `agentgym evolve --env WORLD --roles ROLE` with the world's defaults; its partner is the fair expert, except in
`partner`, and in the exploration of `self`, where one policy for both roles meets itself. In `partner`, `trained`
learns with the frozen client of the first study, and `itself` is the shopper that learned with the fair expert and now
meets that client. In `team` the executor learns with the fair planner, and then `team` learns to plan with that
executor. Both together have as many demonstrations and explored episodes as `flat`, which is one agent in `household`
with as many commands, and `--difficulty` is that of all three.

The table has test success of Agent_v0 and of the last agent, the gain with its interval over seeds and tasks, and the
last agent's difference to the study's first arm. Its tasks are others in `team` (the worlds have different ids).

Further options are those of `agentgym evolve`, for every run. See `studies.py` for what is kept.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from studies import Row, by_arm, evolve, parse, parser_of, report, starting_from, tested

from agentgym_envs.household.team import COMMANDS
from agentgym_py.evaluation.stats import improvement
from agentgym_py.evaluation.text import format_mean
from agentgym_py.evolution.run_folder import RunFolder

ROLES: Mapping[str, Mapping[str, str]] = {
    "errand": {
        "client": "client", "shopper": "shopper", "both": "client,shopper", "self": "client,shopper --self_play true",
    },
    "twentyquestions": {
        "asker": "asker", "answerer": "answerer", "both": "asker,answerer", "self": "asker,answerer --self_play true",
    },
}  # fmt: skip
"""Values of `--roles`, and what follows, by world and arm."""
_SHARE = "--rounds 2 --expert_tasks 50 --explore_tasks 250"
_WHOLE = "--rounds 2 --expert_tasks 100 --explore_tasks 500"


def row(study: str, arm: str, seed: int, run: RunFolder, before: int = 0) -> dict[str, Any]:
    """Return the outcomes on test tasks of the agent of a round and of the last one."""
    last = run.finished_rounds()[-1]
    return {"study": study, "arm": arm, "seed": seed, "before": tested(run, before), "after": tested(run, last)}


def last_agent(run: RunFolder) -> str:
    """Return the checkpoint of a run's last round."""
    return str(run.round(run.finished_rounds()[-1]) / "checkpoint")


def play(folder: Path, seed: int, words: str, more: Sequence[str], *last: str) -> RunFolder:
    """Finish a run of a seed; options in `last` stand above those of the command line."""
    return evolve(folder, [*words.split(), "--seed", str(seed), "--threads", "1", *more, *last])


def role_rows(world: str, seed: int, out: Path, more: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Let each role of a world learn, and one policy all of them."""
    for arm, roles in ROLES[world].items():
        yield row(world, arm, seed, play(out / world / f"s{seed}" / arm, seed, f"--env {world} --roles {roles}", more))


def partner_rows(seed: int, out: Path, more: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Let a shopper learn with the fair client and with a trained one, and let the first meet the trained one."""
    runs = {
        role: play(out / "errand" / f"s{seed}" / role, seed, f"--env errand --roles {role}", more)
        for role in ("client", "shopper")
    }
    yield row("partner", "fair", seed, runs["shopper"])
    words = f"--env errand --roles shopper --env_kwargs.partner_model {last_agent(runs['client'])}"
    folder = out / "partner" / f"s{seed}"
    yield row("partner", "trained", seed, play(folder / "trained", seed, words, more))
    shopper = [*starting_from(last_agent(runs["shopper"])), "--rounds", "0"]
    yield row("partner", "itself", seed, play(folder / "itself", seed, words, more, *shopper))


def team_rows(seed: int, out: Path, difficulty: str, more: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Let one agent learn the household, then an executor, and then a planner with that executor."""
    folder, level, steps = out / "team" / f"s{seed}", f"--env_kwargs.difficulty {difficulty}", COMMANDS[difficulty]
    flat = f"--env household {level} --env_kwargs.max_steps {steps} {_WHOLE}"
    yield row("team", "flat", seed, play(folder / "flat", seed, flat, more))
    words = f"--env householdteam {level} {_SHARE}"
    executor = play(folder / "executor", seed, f"{words} --roles executor", more)
    yield row("team", "executor", seed, executor)
    planner = f"{words} --roles planner --env_kwargs.partner_model {last_agent(executor)}"
    yield row("team", "team", seed, play(folder / "team", seed, planner, more))


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| study | arm | seeds | Agent_v0 | last agent | gain | beside the first arm |"
    yield "|---|---|--:|--:|--:|---|---|"
    first: dict[str, dict[int, Row]] = {}
    for (study, arm), group in by_arm(rows).items():
        base = first.setdefault(study, {r["seed"]: r for r in group})
        gain = format_mean(improvement([(r["before"], r["after"]) for r in group]))
        pairs = [(base[r["seed"]]["after"], r["after"]) for r in group if r["seed"] in base and r not in base.values()]
        beside = format_mean(improvement(pairs)) if pairs else "–"
        rates = [f"{100 * fmean(fmean(r[name]) for r in group):.1f} %" for name in ("before", "after")]
        yield f"| {study} | {arm} | {len(group)} | {' | '.join(rates)} | {gain} | {beside} |"


def run_studies(args: argparse.Namespace, more: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Finish the runs of the chosen studies; yield their rows."""
    for name in args.names:
        for seed in args.seeds:
            if name in ROLES:
                yield from role_rows(name, seed, args.out, more)
            elif name == "partner":
                yield from partner_rows(seed, args.out, more)
            else:
                yield from team_rows(seed, args.out, args.difficulty, more)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the studies and print their table."""
    parser = parser_of(__doc__, [*ROLES, "partner", "team"], "runs/several-agents")
    parser.add_argument("--difficulty", default="hard", help="of the household in the study team")
    args, more = parse(parser, argv)
    report(args, run_studies(args, more), table)


if __name__ == "__main__":
    main()
