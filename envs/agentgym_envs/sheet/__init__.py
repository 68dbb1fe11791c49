"""AgentSheet-v0: requests to a workbook."""
