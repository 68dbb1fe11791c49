"""Exact values of a policy whose action probabilities are known, by enumeration of all that can follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from agentgym_py.env import TextEnv
from agentgym_py.errors import ConfigError

MOST_STATES = 200_000
"""States of a task after which an enumeration is given up."""
FEW_STATES = 20_000
"""The same where continuations can take its place: about as many states as they would play."""


class TooManyStatesError(ConfigError):
    """A task has too many states to enumerate them."""


@runtime_checkable
class KnownPolicy(Protocol):
    """An agent whose probabilities are known, such as `RandomAgent`."""

    def action_probabilities(self, env: TextEnv) -> Mapping[str, float]:
        """Return the probability of each reply in a live environment's state; none if the agent gives up there."""
        ...


class Enumeration:
    """The values of a policy in the states of one environment: expected returns to go, without a discount.

    A state is the environment's snapshot, so that two paths to the same state are one.
    """

    def __init__(self, agent: KnownPolicy, most_states: int = MOST_STATES) -> None:
        self._agent, self._most, self._values = agent, most_states, dict[bytes, float]()

    def value(self, env: TextEnv) -> float:
        """Return the value of a live environment's state, which is left as it was.

        Raises:
            TooManyStatesError: there are too many states.
        """
        if env.stop_reason:
            return 0.0
        state = env.snapshot()
        if state not in self._values:
            if len(self._values) >= self._most:
                raise TooManyStatesError(
                    f"truth cannot be exact: a task has more than {self._most:,} states; use forks"
                )
            self._values[state] = 0.0  # counts towards the limit while its successors are enumerated
            total = 0.0
            for reply, probability in self._agent.action_probabilities(env).items():
                _, reward, *_ = env.step(reply)
                total += probability * (float(reward) + self.value(env))
                env.restore(state)
            self._values[state] = total
        return self._values[state]
