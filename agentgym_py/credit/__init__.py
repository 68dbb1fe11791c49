"""The credit lab: advantage estimators beside the exact advantages of a policy, which worlds that fork can give."""

from agentgym_py.credit.estimators import CreditSample, Estimator
from agentgym_py.credit.judge import Judge
from agentgym_py.credit.lab import CreditReport, measure_credit, measure_estimator
from agentgym_py.credit.probes import CreditConfig, collect_probes

__all__ = [
    "CreditConfig", "CreditReport", "CreditSample", "Estimator", "Judge", "collect_probes", "measure_credit",
    "measure_estimator",
]  # fmt: skip
