"""Formats that other tools read or write: ATIF, AgentTraj, chats, trl, OpenAI, tables."""
