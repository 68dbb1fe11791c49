"""Evaluate agents: success rates with intervals, kinds of failure, paired comparisons."""

from agentgym_py.evaluation.evaluate import Evaluation, evaluate, summarise

__all__ = ["Evaluation", "evaluate", "summarise"]
