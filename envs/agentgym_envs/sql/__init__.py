"""AgentSQL-v0: questions to a generated database."""
