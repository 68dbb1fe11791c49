"""AgentTools: tool calls over an embedded database."""
