"""Playing episodes: one process, several, torchrun or Ray, and rollouts for on-policy training."""

from agentgym_py.collection.collector import Collector
from agentgym_py.collection.job import Job, jobs_for

__all__ = ["Collector", "Job", "jobs_for"]
