"""AgentTwentyQuestions-v0: find a thing by asking about it."""
