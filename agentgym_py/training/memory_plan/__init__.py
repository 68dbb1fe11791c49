"""What memory a model's playing and training take, without its weights: `agentgym plan`."""

from agentgym_py.training.memory_plan.advice import Verdict, judge
from agentgym_py.training.memory_plan.memory import MemoryPlan, Part, Phase, Workload, plan_memory
from agentgym_py.training.memory_plan.models import ModelConfig, open_config

__all__ = [
    "MemoryPlan",
    "ModelConfig",
    "Part",
    "Phase",
    "Verdict",
    "Workload",
    "judge",
    "open_config",
    "plan_memory",
]
