"""Partners' turns: calls into envs that wait for a model in the world, whose replies are sampled together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from agentgym_py.agents import Agent, Episode
from agentgym_py.collection.replies import Replies, Reply, replies_of
from agentgym_py.env import TextEnv
from agentgym_py.errors import InfrastructureError
from agentgym_py.multiagent import MultiAgentEnv
from agentgym_py.multiagent.game import Asking
from agentgym_py.multiagent.partners import FrozenModel, PartnerSettings

T = TypeVar("T")


def use_settings(env: TextEnv, settings: PartnerSettings) -> None:
    """Let the model in a world play with these settings."""
    if isinstance(env, MultiAgentEnv):
        env.partner_settings = settings


def reset_call(env: TextEnv, seed: int, options: dict[str, Any]) -> Asking[Any]:
    """Reset an env. If a model plays its other roles, yield the model's turns; other partners reply within the call."""
    if isinstance(env, MultiAgentEnv) and env.has_model_partner:
        return (yield from env.resetting(seed=seed, options=options))
    return env.reset(seed=seed, options=options)


def step_call(env: TextEnv, action: str) -> Asking[Any]:
    """Do one step of an env; yield as `reset_call` does."""
    if isinstance(env, MultiAgentEnv) and env.has_model_partner:
        return (yield from env.stepping(action))
    return env.step(action)


@dataclass(slots=True, eq=False)
class EnvCall(Generic[T]):
    """A call into an env, which stops whenever a model in the world has the turn."""

    env: TextEnv
    run: Asking[T]
    episode: Episode | None = None
    """The episode that the call continues; None if it begins one."""
    seat: Episode | None = None
    """What the model sees, while it has the turn."""

    def advance(self, reply: Reply = None) -> T | EnvCall[T]:
        """Continue the call with the model's reply, or with None at its beginning.

        Returns:
            What the call returns, or itself if the model has the turn again.
        """
        try:
            self.seat = self.run.throw(reply) if isinstance(reply, InfrastructureError) else self.run.send(reply)
        except StopIteration as stop:
            value: T = stop.value
            return value
        except RuntimeError as error:
            if isinstance(error.__cause__, StopIteration):  # the env raised it, which no generator may pass on
                raise error.__cause__ from None
            raise
        return self

    @property
    def partner(self) -> Agent:
        """The model."""
        assert isinstance(self.env, MultiAgentEnv)
        return self.env.partner


class PartnerTurns(Generic[T]):
    """The calls that wait for a model's reply, by the index of their job."""

    def __init__(self) -> None:
        self._calls: dict[Agent, dict[int, EnvCall[T]]] = {}
        self._replies: dict[Agent, Replies] = {}

    def __len__(self) -> int:
        return sum(map(len, self._calls.values()))

    def add(self, index: int, call: EnvCall[T]) -> None:
        """Let a call wait."""
        self._calls.setdefault(call.partner, {})[index] = call

    def take(self) -> Iterator[tuple[int, EnvCall[T], Reply]]:
        """Take some of the calls with their replies: of each model at least one, unless no call waits."""
        for partner, calls in list(self._calls.items()):
            if not calls:
                continue
            if partner not in self._replies:
                self._replies[partner] = replies_of(partner)
            seats = {index: call.seat for index, call in calls.items() if call.seat is not None}
            for index, reply in list(self._replies[partner].get(seats)):
                yield index, calls.pop(index), reply

    def close(self) -> None:
        """Forget all calls, and release the models' memory."""
        for partner, replies in self._replies.items():
            replies.close()
            if isinstance(partner, FrozenModel):
                partner.release()
        self._calls.clear()
