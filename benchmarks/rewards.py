"""Rewards beside each other: `python benchmarks/rewards.py [STUDY ...] [--seeds 0 1 2] [--out runs/rewards]`.

| study | world, trainer | rewards | question |
|---|---|---|---|
| parts | shop, grpo | success, return, agent | held-out success and steps |
| shaping | shop, ppo | success, return, potential | does a potential learn faster at equal episodes? |
| length | calculator, grpo | success, length_penalty | are replies shorter at equal success? |

All rewards spend the same number of episodes in one round, from the same Agent_v0. (grpo compares the returns of whole
episodes, which a potential does not change, so only ppo tries one.) The agents then play the same test tasks, greedy.
The first table has the improvement of success over Agent_v0 and over the agent of the study's first reward on the same
tasks, with intervals over seeds, and the steps and agent tokens of a test episode. The second has the success of the
training episodes in each tenth of the budget. Both count the world's success, whatever an agent learnt from.

Further options are those of `agentgym evolve`, for every run. See `studies.py` for what is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from studies import Row, Study, by_arm, by_seed, gain_over, parse, parser_of, report, study_rows, tested

from agentgym_py.evaluation.stats import improvement
from agentgym_py.evaluation.text import format_mean
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.trajectory import store

TENTHS = 10


STUDIES: Mapping[str, Study] = {
    "parts": Study(
        "--env shop --expert_tasks 12", "--trainer grpo --rounds 1 --explore_tasks 1000 --temperature 0.8",
        {name: f"--reward {name}" for name in ("success", "return", "agent")},
    ),
    "shaping": Study(
        "--env shop --expert_tasks 12", "--trainer ppo --rounds 1 --explore_tasks 1000 --temperature 0.8",
        {name: f"--reward {name}" for name in ("success", "return", "potential")},
    ),
    "length": Study(
        "--env calculator --env_kwargs.difficulty easy --expert_tasks 100",
        "--trainer grpo --rounds 1 --explore_tasks 1000 --temperature 0.8",
        {"success": "--reward success", "length_penalty": "--reward length_penalty --reward_kwargs.target 30"},
    ),
}  # fmt: skip


def row(study: str, reward: str, seed: int, run: RunFolder) -> dict[str, Any]:
    """Return the figures of a run of one round."""
    played, test = (list(store.read(run.round(1) / f"{name}.jsonl")) for name in ("trajectories", "test"))
    records = [[record for step in t.steps for record in step.token_records] for t in test]
    size = max(len(played) // TENTHS, 1)
    return {
        "study": study, "arm": reward, "seed": seed, "before": tested(run, 0), "after": tested(run, 1),
        "steps": fmean(len(t.steps) for t in test),
        "tokens": fmean(sum(sum(record.mask) for record in episode) for episode in records),
        "return": fmean(t.reward for t in test),
        "curve": [fmean(t.success for t in played[at : at + size]) for at in range(0, size * TENTHS, size)
                  if played[at : at + size]],
    }  # fmt: skip


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of both tables."""
    groups = by_arm(rows)
    yield (
        "| study | reward | seeds | success before | after | improvement | beside the first reward | return | steps | "
        "agent tokens |"
    )
    yield "|---|---|--:|--:|--:|---|---|--:|--:|--:|"
    for (study, reward), group in groups.items():
        of_study = by_seed(row for row in rows if row["study"] == study)
        beside = gain_over(next(iter(of_study)), reward, of_study)
        gain = improvement([(r["before"], r["after"]) for r in group])
        means = [fmean(r[name] for r in group) for name in ("return", "steps", "tokens")]
        rates = [100 * fmean(fmean(r[name]) for r in group) for name in ("before", "after")]
        yield (
            f"| {study} | {reward} | {len(group)} | {rates[0]:.1f} % | {rates[1]:.1f} % | {format_mean(gain)} | "
            f"{beside} | {means[0]:.3f} | {means[1]:.2f} | {means[2]:.0f} |"
        )
    yield ""
    yield f"| study | reward | success of the training episodes, in % of each of {TENTHS} parts |"
    yield "|---|---|---|"
    for (study, reward), group in groups.items():
        parts = zip(*(r["curve"] for r in group), strict=False)
        yield f"| {study} | {reward} | {' '.join(f'{100 * fmean(part):.0f}' for part in parts)} |"


def main(argv: Sequence[str] | None = None) -> None:
    """Run the studies and print their tables."""
    args, more = parse(parser_of(__doc__, STUDIES, "runs/rewards"), argv)
    more += ["--valid_tasks", "1"]
    report(args, study_rows(STUDIES, row, args, more), tables)


if __name__ == "__main__":
    main()
