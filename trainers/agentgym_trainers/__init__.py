"""The built-in trainers of agentgym-py, each a plugin of the entry-point group `agentgym.trainers`."""
