"""AgentTextCraft-v0: crafting by recipes."""
