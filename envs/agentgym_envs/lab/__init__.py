"""AgentLab-v0: experiments in a text laboratory."""
