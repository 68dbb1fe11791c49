"""What type checkers must see of the front door; mypy and pyright read this file, nothing runs it."""

from typing import assert_type

import agentgym_py as ag
from agentgym_py.certificate import Certificate
from agentgym_py.evaluation import Evaluation
from agentgym_py.evaluation.anytime import SequentialComparison
from agentgym_py.evaluation.compare import Comparison
from agentgym_py.proof import Proof
from agentgym_py.training import TrainReport

env = ag.make("shop", difficulty="easy")
assert_type(env, ag.TextEnv)
observation, info = env.reset(seed=1, options={"split": "test"})
assert_type(observation, str)
assert_type(env.snapshot(), bytes)
assert_type(env.expert(), list[str])

demos = ag.collect("shop", ag.ExpertAgent(fair=True), tasks=20)
assert_type(demos, list[ag.Trajectory])
policy, report = ag.train("filtered_bc", "tiny", demos, epochs=1.0)
assert_type(policy, ag.Policy)
assert_type(report, TrainReport)
result = ag.evaluate(policy, ["shop", ag.EnvSpec("maze")], tasks=10, play=ag.PlayConfig(slots=8))
assert_type(result, ag.Result)
assert_type(result.evaluation, Evaluation)
assert_type(ag.compare(before=result, after="evals/b"), Comparison)
assert_type(ag.compare_anytime(before=result, after="evals/b", margin=0.1), SequentialComparison)
assert_type(ag.certify("maze", ["solvable"], episodes=10), Certificate)
assert_type(ag.prove("grpo", ["mask"], kl_coef=0.1), Proof)
test = ag.evolve("shop", out="runs/a", rounds=1, trainer={"name": "dpo", "beta": 1.0})
