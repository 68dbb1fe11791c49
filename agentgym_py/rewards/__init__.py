"""Where rewards come from beside the world: reward models, state values, a language model as judge."""
