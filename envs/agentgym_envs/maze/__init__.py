"""AgentMaze-v0: a house of rooms, seen one at a time."""
