"""Run by `.ci/run` where only the built wheel and its core dependencies are installed: no torch, no sources."""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path

import gymnasium

import agentgym_py

env = gymnasium.make("AgentShop-v0").unwrapped
assert isinstance(env, agentgym_py.TextEnv)
env.reset(seed=0)
ends = [env.step(action) for action in env.expert()]
assert ends[-1][4]["success"], ends[-1]
assert "torch" not in sys.modules
assert (resources.files("agentgym_data") / "tiny" / "model.safetensors").is_file()
assert (resources.files("agentgym_py") / "viewer" / "static" / "viewer.js").is_file()
assert "site-packages" in str(Path(agentgym_py.__file__)), agentgym_py.__file__
print("the wheel works: the expert bought", env.current_task.instruction if env.current_task else "")
