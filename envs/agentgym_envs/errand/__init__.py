"""AgentErrand-v0: buy by notes what another one wants."""
