"""AgentHousehold: ALFWorld's text world."""
