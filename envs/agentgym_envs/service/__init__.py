"""AgentService: serve a customer by tools under a written policy."""
