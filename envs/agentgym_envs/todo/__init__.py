"""AgentTodo-v0: a to-do application to be worked through its tools."""
