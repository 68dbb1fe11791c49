"""The truth about a table: its expected return, by enumerating every episode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import product

import torch
from torch import Tensor

from agentgym_py.env import TextEnv
from agentgym_py.policy import Policy
from agentgym_py.proof.table import ACTION_IDS, END_ID, FILLER_IDS, MAX_FILLERS
from agentgym_py.proof.world import TASKS, proof_spec

REPLIES = tuple(
    (action, *fillers, END_ID)
    for action in ACTION_IDS
    for number in range(MAX_FILLERS + 1)
    for fillers in product(FILLER_IDS, repeat=number)
)
"""Every reply that a table writes, but for those of probability below 1e-11."""


class ExactReturn:
    """The expected return of tables of one tree in the world of proofs, mean over its tasks."""

    def __init__(self, policy: Policy) -> None:
        self._tree, self._chat = policy.model.model.tree, policy.chat
        self.best = dict[int, int]()
        """The expert's word in each row in which an action is chosen."""
        rows, tokens, returns = list[list[int]](), list[list[int]](), list[float]()
        with closing(proof_spec().make()) as env:
            for number in range(TASKS):
                observation, _ = env.reset(seed=0, options={"task": number})
                opening = self._tree.rows(self._chat.opening(observation))[-1]
                for leaf_rows, leaf_tokens, total in self._leaves(policy, env, opening):
                    rows.append(leaf_rows)
                    tokens.append(leaf_tokens)
                    returns.append(total)
        longest = max(map(len, rows))
        self._rows = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        self._tokens = torch.tensor([row + [0] * (longest - len(row)) for row in tokens])
        self._mask = torch.tensor([[1.0] * len(row) + [0.0] * (longest - len(row)) for row in rows])
        self._returns = torch.tensor(returns)
        self.episodes = len(rows)
        """Number of enumerated episodes."""

    def __call__(self, policy: Policy) -> Tensor:
        """Return the expected return at temperature 1, a scalar with a gradient by the table."""
        logps = policy.model.model.logits_of(self._rows).log_softmax(-1).gather(-1, self._tokens[..., None])[..., 0]
        chances = (logps * self._mask).sum(-1).exp()
        expected: Tensor = (chances * self._returns).sum() / TASKS
        return expected

    def _leaves(self, policy: Policy, env: TextEnv, row: int) -> Iterator[tuple[list[int], list[int], float]]:
        """Yield the rows, tokens and return of every episode from the env's state, in which `row` was read."""
        state = env.snapshot()
        self.best[row] = policy.tokenizer.convert_tokens_to_ids(env.expert()[0])
        for action in ACTION_IDS:
            env.restore(state)
            observation, reward, terminated, truncated, _ = env.step(policy.decode([action]))
            after = None if terminated or truncated else env.snapshot()
            for reply in (reply for reply in REPLIES if reply[0] == action):
                behind = self._tree_rows(row, reply)
                rows = [row, *behind[:-1]]
                if after is None:
                    yield rows, list(reply), reward
                    continue
                env.restore(after)
                prompt = self._tree_rows(behind[-1], self._chat.turn(observation))
                for later_rows, later_tokens, total in self._leaves(policy, env, prompt[-1]):
                    yield rows + later_rows, list(reply) + later_tokens, reward + total

    def _tree_rows(self, row: int, ids: tuple[int, ...] | list[int]) -> list[int]:
        rows = []
        for token in ids:
            row = self._tree.child(row, token)
            rows.append(row)
        return rows
