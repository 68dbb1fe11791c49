"""agentgym-py: forkable text worlds with exact experts, and trainers for language-model agents.

`import agentgym_py` registers every installed environment with Gymnasium, by name only, so that
`gymnasium.make("AgentShop-v0")` works; it imports neither torch nor any world or trainer.
"""

from agentgym_py.env import Outcome, Task, TextEnv
from agentgym_py.env.registration import register_envs
from agentgym_py.errors import AgentGymError
from agentgym_py.trajectory import Provenance, Step, Tokens, Trajectory
from agentgym_py.version import __version__

__all__ = ["AgentGymError", "Outcome", "Provenance", "Step", "Task", "TextEnv", "Tokens", "Trajectory", "__version__"]

register_envs()
