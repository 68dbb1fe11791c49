"""What PPO, GRPO and R3 share: trajectories as token records, advantages, surrogates, and the learner.

Algorithms differ in how they fill a record's advantages and in their loss; each is one file of a plugin.
Everything is flat over the agent's tokens: N of a batch, row after row; observations have no place in it.
"""
