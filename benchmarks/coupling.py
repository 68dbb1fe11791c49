"""How much do two runs with common random numbers keep in common? `python benchmarks/coupling.py RUN`.

RUN is a finished run of `agentgym evolve` with a filtered_bc trainer. Two tables show what a fork gains:

- Replies. The agents of the last two rounds sample replies to the same prompts. With common random numbers the same
  uniform number draws a token from both distributions (inverse transform). The share of equal replies stands beside
  that of Gumbel noise of each token, of independent numbers, and the largest that common numbers of a token can give,
  which is 1 - the total variation distance. All are exact, not sampled.
- Data. The last round's data is trained on once more, without one row, and with another seed. The table has the mean
  total variation distance of the two policies from the first at the tokens of the last valid episodes.

    agentgym evolve --env calculator --rounds 2 --expert_tasks 12 --explore_tasks 40 --valid_tasks 40 --out runs/a
    python benchmarks/coupling.py runs/a
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch
from torch import Tensor

from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.policy import Policy
from agentgym_py.policy.tokens import encode
from agentgym_py.trajectory import Trajectory, store
from agentgym_trainers.filtered_bc import FilteredBC

_LEAST = 1e-7
"""Tokens that are less likely do not count for Gumbel noise, whose formula takes a sum for each pair of tokens."""


class Agreement(NamedTuple):
    """Chances that two agents draw the same token at N places."""

    inverse_N: Tensor
    gumbel_N: Tensor
    largest_N: Tensor
    independent_N: Tensor


def agreement(p_NV: Tensor, q_NV: Tensor) -> Agreement:
    """Return the chances of equal tokens for the distributions of two agents.

    Gumbel noise draws token i from both with the chance 1 / sum_j max(p_j / p_i, q_j / q_i) (Bavarian et al. 2020).
    """
    p_ends_NV, q_ends_NV = p_NV.cumsum(-1), q_NV.cumsum(-1)
    overlap_NV = torch.minimum(p_ends_NV, q_ends_NV) - torch.maximum(p_ends_NV - p_NV, q_ends_NV - q_NV)
    gumbel_N = torch.zeros(len(p_NV), dtype=p_NV.dtype)
    for n, (p_V, q_V) in enumerate(zip(p_NV, q_NV, strict=True)):
        likely = (p_V > _LEAST) & (q_V > _LEAST)
        ratios = torch.maximum(p_V / p_V[likely, None], q_V / q_V[likely, None])
        gumbel_N[n] = (1 / ratios.sum(-1)).sum()
    return Agreement(
        overlap_NV.clamp(min=0).sum(-1), gumbel_N, torch.minimum(p_NV, q_NV).sum(-1), (p_NV * q_NV).sum(-1)
    )


@torch.no_grad()
def distributions(policy: Policy, trajectory: Trajectory) -> tuple[Tensor, list[int]]:
    """Return a policy's probabilities (N, V) at an episode's agent tokens, and where each reply begins among them."""
    sample = encode(trajectory, policy.chat)
    mask = torch.tensor(sample.mask[1:]).bool()
    logits = policy.model(input_ids=torch.tensor([sample.input_ids])).logits[0, :-1]
    starts = [k for k, (before, now) in enumerate(pairwise([0, *sample.mask[1:]])) if now and not before]
    places = (mask.cumsum(0) - 1)[starts].tolist() if starts else []
    return logits[mask].double().softmax(-1), places


def replies(first: Policy, second: Policy, episodes: Sequence[Trajectory]) -> Iterator[str]:
    """Yield the table of equal replies."""
    shares = list[Tensor]()
    for episode in episodes:
        (p_NV, starts), (q_NV, _) = distributions(first, episode), distributions(second, episode)
        logs = torch.stack(agreement(p_NV, q_NV)).log()
        shares += [logs[:, begin:end].sum(-1).exp() for begin, end in pairwise([*starts, len(p_NV)])]
    means = torch.stack(shares).mean(0).tolist()
    yield "| random numbers | equal replies |\n|---|--:|"
    names = ("common, inverse transform (as here)", "common, Gumbel noise", "the largest possible", "independent")
    yield from (f"| {name} | {100 * mean:.1f} % |" for name, mean in zip(names, means, strict=True))
    yield f"\n{len(shares)} replies of {len(episodes)} episodes\n"


def data(run: RunFolder, last: int, episodes: Sequence[Trajectory]) -> Iterator[str]:
    """Yield the table of policies after other data, or with another seed."""
    config, rounds = run.config(), range(last + 1)
    rows = [t for number in rounds for t in store.read(run.round(number) / "trajectories.jsonl") if t.success]
    trainings = {"": (rows, 1), "one row less": (rows[: len(rows) // 2] + rows[len(rows) // 2 + 1 :], 1)}
    trainings["another seed"] = rows, 2
    found = dict[str, Tensor]()
    for name, (chosen, seed) in trainings.items():
        policy = Policy.load(config["model"])
        with TemporaryDirectory() as folder:
            FilteredBC().train(policy, chosen, seed=seed, output_dir=Path(folder))
        found[name] = torch.cat([distributions(policy, episode)[0] for episode in episodes])
    yield "| training | total variation distance |\n|---|--:|"
    for name in list(trainings)[1:]:
        yield f"| {name} | {0.5 * float((found[name] - found['']).abs().sum(-1).mean()):.4f} |"
    yield f"\n{len(rows)} rows"


def main(argv: Sequence[str] | None = None) -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    run = RunFolder.open(args.run)
    last = run.finished_rounds()[-1]
    episodes = list(store.read(run.round(last) / "valid.jsonl"))
    first, second = (Policy.load(run.round(number) / "checkpoint") for number in (last - 1, last))
    for line in replies(first, second, episodes):
        print(line, flush=True)
    for line in data(run, last, episodes):
        print(line, flush=True)


if __name__ == "__main__":
    main()
