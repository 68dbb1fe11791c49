"""AgentWordle-v0: find a hidden word."""
