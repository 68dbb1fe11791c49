"""Values of steps against the exact ones: `python benchmarks/prm.py --checkpoint RUN/rounds/00/checkpoint`.

A checkpoint plays the shop, at temperature 1 and with random detours; labels come from valid tasks, what is measured
from test tasks, which nothing was trained on. The exact value of the state that a step led to is the discount to the
power of the expert's remaining steps, 0 after a wrong purchase or where too few steps are left. Measured against it:
each labelling, and a process reward model trained on each. Resumable: what is in --out is not done again.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentgym_py import store
from agentgym_py.actions import format_reply
from agentgym_py.agents import AgentReply, Episode, ModelAgent
from agentgym_py.collect import Collector, EnvSpec, jobs_for
from agentgym_py.engine import HFEngine, SamplingParams
from agentgym_py.files import write_atomic
from agentgym_py.policy import Policy
from agentgym_py.process import Floats, ProcessRewardModel, step_labels
from agentgym_py.rng import Rng
from agentgym_py.trajectory import Trajectory
from agentgym_py.values import exact_values, monte_carlo, outcome_values
from agentgym_trainers.process_reward import ProcessReward, Values

SHOP = EnvSpec("shop")
DISCOUNT = 0.9
CORRECTNESS, PROGRESS = 1, 2


class Detours:
    """A model's agent that does something at random instead, in one of five steps."""

    def __init__(self, agent: ModelAgent, share: float = 0.2) -> None:
        self.agent, self.share = agent, share
        self.name, self.sampling = f"{agent.name}, detours", {**agent.sampling, "detours": share}

    @property
    def policy_digest(self) -> str:
        """The model's."""
        return self.agent.policy_digest

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """One reply an episode; after a detour the model reads the episode anew."""
        replies: list[AgentReply | None] = [self._detour(episode) for episode in episodes]
        own = [i for i, reply in enumerate(replies) if reply is None]
        for i, reply in zip(own, self.agent.act([episodes[i] for i in own]) if own else (), strict=True):
            replies[i] = reply
        return replies

    def _detour(self, episode: Episode) -> AgentReply | None:
        rng = Rng(episode.seed, "detour", len(episode.steps))
        if not episode.steps or rng.uniform() >= self.share:
            return None
        episode.ids = []
        return AgentReply(format_reply(rng.choice(episode.env.actions() or [""])))


def agent_of(policy: Policy) -> ModelAgent:
    """The policy, at temperature 1."""
    return ModelAgent(policy, HFEngine(policy, slots=64), SamplingParams(temperature=1.0, max_new_tokens=64), "Agent")


def played(policy: Policy, split: str, tasks: int, out: Path) -> list[Trajectory]:
    """Two tries at each task, one with detours."""
    path = out / f"{split}.jsonl"
    if not path.is_file():
        jobs, agent = jobs_for([SHOP], split, range(tasks)), agent_of(policy)
        tries = [Collector(each, seed=1).collect_batch(jobs) for each in (agent, Detours(agent))]
        store.write(path, [each for pair in zip(*tries, strict=True) for each in pair])
    return list(store.read(path))


def cached(path: Path, make: Callable[[], list[Values]]) -> list[Values]:
    """What was made, or is made now."""
    if not path.is_file():
        write_atomic(path, json.dumps(make()) + "\n")
    found: list[Values] = json.loads(path.read_text(encoding="utf-8"))
    return found


def continued(policy: Policy, episodes: Sequence[Trajectory], tries: int, states: int, share: int) -> list[Values]:
    """Monte Carlo values of some states of every `share`-th episode."""
    some = list(episodes)[::share]
    collector = Collector(agent_of(policy), slots=128, seed=2)
    found = monte_carlo(some, collector.collect_batch, tries=tries, states=states, discount=DISCOUNT)
    values: list[Values] = [[None] * (len(each.steps) + 1) for each in episodes]
    for number, known in enumerate(found):  # an end is no estimate
        values[number * share] = [None if v is None or not v.tries else v.mean for v in known]
    return values


def ranks(x: Floats) -> Floats:
    """Ranks, ties at their mean."""
    order = np.argsort(x, kind="stable")
    _, inverse, counts = np.unique(x[order], return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(counts) - (counts + 1) / 2
    found = np.empty(len(x))
    found[order] = mean_rank[inverse]
    return found


def against(said: Floats, exact: Floats) -> dict[str, float]:
    """Correlations, Brier score and calibration error (ten bins) of what is said of N states."""
    known = ~np.isnan(said) & ~np.isnan(exact)
    said, exact = said[known], exact[known]
    clipped = said.clip(0, 1)
    bins = np.minimum((clipped * 10).astype(int), 9)
    off = [abs(float((clipped - exact)[bins == b].sum())) for b in range(10)]
    flat = not said.std() or not exact.std()
    return {
        "states": int(known.sum()),
        "pearson": math.nan if flat else float(np.corrcoef(said, exact)[0, 1]),
        "spearman": math.nan if flat else float(np.corrcoef(ranks(said), ranks(exact))[0, 1]),
        "brier": float(((clipped - exact) ** 2).mean()),
        "ece": sum(off) / max(len(said), 1),
    }


def steps_of(episodes: Sequence[Trajectory], values: Sequence[Values]) -> Floats:
    """The labels of all steps of all episodes, (M, 3)."""
    return np.concatenate([step_labels(each, known) for each, known in zip(episodes, values, strict=True)])


def trained(
    name: str, how: ProcessReward, policy: Policy, episodes: Sequence[Trajectory], values: Sequence[Values], out: Path
) -> ProcessRewardModel:
    """The process reward model of a labelling."""
    folder = out / name
    if not (folder / "process_reward.json").is_file():
        report = how.train_on(policy, episodes, values, seed=0, output_dir=folder)
        print(f"{name}: loss {report.loss[0]:.4f} to {report.loss[-1]:.4f} in {report.seconds:.0f} s", flush=True)
    return ProcessRewardModel.load(folder)


def main() -> None:
    """Play, label, train, measure, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--out", type=Path, default=Path("runs/prm"))
    parser.add_argument("--tasks", type=int, default=250, help="valid tasks that labels come from")
    parser.add_argument("--test_tasks", type=int, default=150)
    parser.add_argument("--tries", type=int, default=4, help="continuations of a state that a model learns from")
    parser.add_argument("--test_tries", type=int, default=16)
    parser.add_argument("--share", type=int, default=2, help="every so many episodes one is continued from")
    parser.add_argument("--epochs", type=float, default=4.0)
    parser.add_argument("--frozen", action="store_true", help="train the heads alone as well")
    parser.add_argument("--labels", nargs="+", default=["exact", "outcome", "monte_carlo"])
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    import torch

    torch.set_num_threads(asked.threads)
    asked.out.mkdir(parents=True, exist_ok=True)
    policy = Policy.load(asked.checkpoint)
    train, test = played(policy, "valid", asked.tasks, asked.out), played(policy, "test", asked.test_tasks, asked.out)
    exact = [exact_values(each, DISCOUNT) for each in train]
    exact_test = steps_of(test, [exact_values(each, DISCOUNT) for each in test])
    rows: dict[str, dict[str, Any]] = {}

    def measure(name: str, said_MD: Floats) -> None:
        on = np.concatenate([[True] * (len(each.steps) - 1) + [not each.terminated] for each in test])
        rows[name] = against(said_MD[:, CORRECTNESS], exact_test[:, CORRECTNESS])
        goes_on = against(said_MD[on, CORRECTNESS], exact_test[on, CORRECTNESS])
        progress = against(said_MD[:, PROGRESS], exact_test[:, PROGRESS])
        rows[name] |= {"goes_on": goes_on["pearson"], "progress": progress["pearson"]}
        print(name, json.dumps(rows[name]), flush=True)

    number_M = np.concatenate([np.arange(len(each.steps)) for each in test]).astype(np.float64)
    measure("label: outcome", steps_of(test, [outcome_values(each, DISCOUNT) for each in test]))
    measure("the step's number", np.stack([number_M] * 3, -1))

    def learn(name: str, values: Sequence[Values], **settings: Any) -> None:
        how = ProcessReward(**{"discount": DISCOUNT, "epochs": asked.epochs, **settings})
        model = trained(name, how, policy, train, values, asked.out)
        measure(f"model: {name}", np.concatenate(model.by_dimension(test)))

    if "exact" in asked.labels:
        learn("exact", exact)
    if asked.frozen:
        learn("exact, heads alone", exact, train_backbone=False, epochs=4 * asked.epochs)
    if "outcome" in asked.labels:
        learn("outcome", [outcome_values(each, DISCOUNT) for each in train])
    if "monte_carlo" in asked.labels:
        values = cached(asked.out / "mc.json", lambda: continued(policy, train, asked.tries, 3, asked.share))
        learn("monte_carlo", [[*v[:-1], float(each.success)] for v, each in zip(values, train, strict=True)])
        values = cached(asked.out / "mc_test.json", lambda: continued(policy, test, asked.test_tries, 2, asked.share))
        measure(f"label: monte_carlo, {asked.test_tries} tries", steps_of(test, values))
    write_atomic(asked.out / "prm.json", json.dumps(rows, indent=1) + "\n")
    print("\n| steps' values | states | Pearson | Spearman | Brier | ECE | Pearson, going on | Pearson, progress |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for name, row in rows.items():
        cells = [f"{row[key]:.2f}" for key in ("pearson", "spearman", "brier", "ece", "goes_on", "progress")]
        print(f"| {name} | {row['states']} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
