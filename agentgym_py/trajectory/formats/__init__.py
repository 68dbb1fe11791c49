"""Formats that other tools read: AgentTraj, TRL, OpenAI, Parquet."""
