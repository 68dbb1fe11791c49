"""AgentShop: a WebShop-like shop."""
