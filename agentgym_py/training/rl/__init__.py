"""What PPO, GRPO and R3 share: trajectories as token records, advantages, surrogates, and the learner.

Algorithms differ in how they fill a record's advantages and in their loss; each is one file of a plugin.
Tensors are flat over the agent's tokens: N per batch, row after row, without observations.
"""
