"""AgentGrid-v0: missions in a grid of rooms, as in BabyAI."""
