"""Playing episodes: one process, several, torchrun or Ray, and rollouts for on-policy training."""

from agentgym_py.collection.collector import Collector
from agentgym_py.collection.job import Job, jobs_for
from agentgym_py.collection.play_config import Executor, PlayConfig

__all__ = ["Collector", "Executor", "Job", "PlayConfig", "jobs_for"]
