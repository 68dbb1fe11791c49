"""The data that ships with agentgym-py: catalogues, task lists and their cards; read it with `importlib.resources`."""
