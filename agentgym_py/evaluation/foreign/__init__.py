"""Evaluations of other programs, for `agentgym compare`: logs of Inspect, lm-eval and verifiers, and rows of one's own.

A sample is a task, its epochs are attempts. Compared is one score, which is right or wrong in every sample. Samples
that ended with an error or have no score are left out, as after an infrastructure failure.
"""

from agentgym_py.evaluation.foreign.loading import is_foreign, is_success, load

__all__ = ["is_foreign", "is_success", "load"]
