"""The built-in worlds of agentgym-py, each a plugin of the entry-point group `agentgym.envs`."""
