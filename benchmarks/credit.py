"""The credit lab beside biases that are known in closed form: `python benchmarks/credit.py [--tasks 20] [--repeats 1]`.

The exact expert acts at random now and then (examples/noisy_expert.py), so that all values can be enumerated. With
groups of G, returns R = past + return to go, V(s0) the value of the start, and at turn t the probability p that an
episode reaches it and the mean m of its return to go there, the expectations at a step (s, a) are

    rloo        past + Q(s, a) - V(s0)
    dr_grpo     (1 - 1/G) (past + Q(s, a) - V(s0))
    turn_group  c (Q(s, a) - m),  c = 1 - (1 - (1 - p)^G) / (G p)
    tree        Q(s, a) - V(s) = A(s, a)

p and m come from an enumeration of all that can happen; the lab only plays. Its interval for the bias must hold the
known one, and so must that for the difference of both, step by step.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agentgym_py import registry
from agentgym_py.collection import Collector, PlayConfig
from agentgym_py.collection.branching import snapshots_at
from agentgym_py.collection.env_pool import EnvPool
from agentgym_py.credit import CreditConfig, collect_probes, measure_estimator
from agentgym_py.credit.estimators import dr_grpo, rloo, tree, turn_group
from agentgym_py.credit.exact import Enumeration, KnownPolicy
from agentgym_py.credit.probes import Probe, Probes
from agentgym_py.env import EnvSpec, TextEnv
from agentgym_py.evaluation.stats import Estimate, bootstrap_mean
from agentgym_py.trajectory import Trajectory

NOISY_EXPERT = Path(__file__).parents[1] / "examples" / "noisy_expert.py"
ESTIMATORS = {"turn_group": turn_group, "dr_grpo": dr_grpo, "rloo": rloo, "tree": tree}


def moments(env: TextEnv, agent: KnownPolicy, values: Enumeration) -> list[tuple[float, float]]:
    """Return, for each turn from the live environment's start, how likely it is reached, and the mean value there."""
    layer, found = {env.snapshot(): 1.0}, list[tuple[float, float]]()
    while layer:
        total, reached = 0.0, 0.0
        following: dict[bytes, float] = {}
        for state, probability in layer.items():
            env.restore(state)
            replies = agent.action_probabilities(env)
            if not replies:  # the agent gives up: there is no such turn
                continue
            reached += probability
            total += probability * values.value(env)
            for reply, chance in replies.items():
                env.step(reply)
                if not env.stop_reason:
                    after = env.snapshot()
                    following[after] = following.get(after, 0.0) + probability * chance
                env.restore(state)
        if reached:
            found.append((reached, total / reached))
        layer = following
    return found


def known_bias(probe: Probe, value: float, turns: Sequence[tuple[float, float]], group: int) -> dict[str, float]:
    """Return the bias of each estimator at a step; `value` is V(s)."""
    past = sum(step.reward for step in probe.trunk.steps[: probe.step])
    action_value, start = value + probe.advantage, turns[0][1]
    reached, mean = turns[probe.step]
    shrinkage = 1 - (1 - (1 - reached) ** group) / (group * reached)
    expectations = {
        "rloo": past + action_value - start, "dr_grpo": (1 - 1 / group) * (past + action_value - start),
        "turn_group": shrinkage * (action_value - mean), "tree": probe.advantage,
    }  # fmt: skip
    return {name: expectation - probe.advantage for name, expectation in expectations.items()}


def known_biases(probes: Probes, agent: KnownPolicy, group: int) -> dict[str, NDArray[np.float64]]:
    """Return the known bias of each estimator at each probe."""
    rows, turns = list[dict[str, float]](), dict[tuple[str, str, str], list[tuple[float, float]]]()
    with closing(EnvPool()) as pool:
        for probe in probes.probes:
            (state,) = snapshots_at(probe.trunk, [probe.step], pool)
            with pool.lent(probe.trunk.replay_spec()) as env:
                values = Enumeration(agent)
                if probe.task not in turns:
                    (start,) = snapshots_at(probe.trunk, [0])
                    env.restore(start.snapshot)
                    turns[probe.task] = moments(env, agent, values)
                env.restore(state.snapshot)
                rows.append(known_bias(probe, values.value(env), turns[probe.task], group))
    return {name: np.array([row[name] for row in rows]) for name in ESTIMATORS}


def lines(world: EnvSpec, tasks: int, config: CreditConfig, noise: float, repeats: int) -> Iterator[str]:
    """Yield the table of the first measurement, and how often the intervals of all held the known bias."""
    agent, held = registry.load("agentgym.agents", str(NOISY_EXPERT))(noise), dict.fromkeys(ESTIMATORS, 0)
    for seed in range(repeats):

        def play(jobs: Sequence[object], seed: int = seed) -> list[Trajectory]:
            return Collector(agent, PlayConfig(seed=seed)).collect_batch(jobs)  # type: ignore[arg-type]

        probes = collect_probes(agent, play, [world], config, tasks=range(tasks), seed=seed)
        known = known_biases(probes, agent, config.group_size)
        measured = {name: measure_estimator(name, one, probes, config, seed) for name, one in ESTIMATORS.items()}
        biases = {name: found.biases_2N for name, found in measured.items()}
        labels = [probe.task for probe in probes.probes]
        for name, bias_2N in biases.items():
            difference = bootstrap_mean(bias_2N.mean(0) - known[name], clusters=labels)
            held[name] += difference.low <= 0 <= difference.high
        if seed == 0:
            yield from first_table(known, biases, labels)
            yield f"\n{len(labels)} steps of {len(set(labels))} tasks, groups of {config.group_size}"
    yield "intervals of the difference that hold 0: " + ", ".join(f"{k} {v} of {repeats}" for k, v in held.items())


def first_table(
    known: Mapping[str, NDArray[np.float64]], biases: Mapping[str, NDArray[np.float64]], labels: Sequence[object]
) -> Iterator[str]:
    """Yield known and measured biases, over all steps."""
    yield "| estimator | known bias | measured [95 %] | measured − known [95 %] | known rms | measured rms [95 %] |"
    yield "|---|--:|--:|--:|--:|--:|"
    for name, known_N in known.items():
        first_N, second_N = biases[name]
        mean_N = (first_N + second_N) / 2
        measured, difference = (bootstrap_mean(values, clusters=labels) for values in (mean_N, mean_N - known_N))
        square = bootstrap_mean(first_N * second_N, clusters=labels)
        low, value, high = (max(x, 0.0) ** 0.5 for x in (square.low, square.value, square.high))
        root = Estimate(value, low, high, square.n)
        cells = [f"{known_N.mean():+.4f}", interval(measured, "+.4f"), interval(difference, "+.4f"),
                 f"{(known_N @ known_N / len(known_N)) ** 0.5:.3f}", interval(root, ".3f")]  # fmt: skip
        yield f"| {name} | {' | '.join(cells)} |"


def interval(estimate: Estimate, form: str) -> str:
    """Return a value with its interval."""
    return f"{estimate.value:{form}} [{estimate.low:{form}}, {estimate.high:{form}}]"


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=1, help="measurements with other seeds")
    parser.add_argument("--group_size", type=int, default=8)
    parser.add_argument("--continuations", type=int, default=16)
    parser.add_argument("--steps", type=int, default=4, help="credited steps per episode")
    parser.add_argument("--noise", type=float, default=0.5, help="probability of a random action")
    parser.add_argument("--max_steps", type=int, default=10, help="limit of an episode of the easy maze")
    args = parser.parse_args(argv)
    config = CreditConfig(args.group_size, 2, args.steps, args.continuations, args.continuations)
    world = EnvSpec("maze", {"difficulty": "easy", "max_steps": args.max_steps})
    for line in lines(world, args.tasks, config, args.noise, args.repeats):
        print(line, flush=True)


if __name__ == "__main__":
    main()
