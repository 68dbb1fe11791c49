"""A world, a trainer and an agent for agentgym-py, found by their entry points."""
