"""The world's expert as an agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentgym_py.agents.base import EXPERT, AgentReply, Episode
from agentgym_py.env import TextEnv
from agentgym_py.env.actions import format_reply
from agentgym_py.errors import InfrastructureError


class ExpertAgent:
    """Does the first action of the expert's plan, replanned before each step.

    The exact expert knows the whole state, the `fair` one only what the episode has shown (`TextEnv.fair_expert`). A
    policy can learn all that the fair expert does, but not what the exact one does for reasons that it cannot observe
    (the imitation gap: Weihs et al., arXiv:2007.12173). With `thoughts` a reply begins with `TextEnv.expert_thought`.
    """

    name = EXPERT
    policy_digest: str | None = None

    def __init__(self, *, fair: bool = False, thoughts: bool = True) -> None:
        self.fair, self.thoughts = fair, thoughts
        self.sampling: dict[str, Any] = {"fair": fair, "thoughts": thoughts}

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """Return the expert's next action in each episode."""
        return [self.reply_in(episode) for episode in episodes]

    def reply_in(self, episode: Episode) -> AgentReply | None:
        """Return the expert's next action in an episode, within the time of a call into its world."""
        with episode.watch():
            return self.reply(episode.env)

    def reply(self, env: TextEnv) -> AgentReply | None:
        """Return the expert's next action in the env's current state, which stays as it is; None if it has none."""
        action = env.fair_expert() if self.fair else _first_action(env)
        if action is None:
            return None
        thought = env.expert_thought(action) if self.thoughts else ""
        return AgentReply(format_expert_reply(env, _text(action, "fair_expert"), _text(thought, "expert_thought")))


def _first_action(env: TextEnv) -> str | None:
    plan = env.expert()
    if not isinstance(plan, list | tuple) or not all(isinstance(action, str) for action in plan[:1]):
        raise InfrastructureError(f"expert() is {plan!r:.60}, not a list of strings")
    return plan[0] if plan else None


def _text(value: str, method: str) -> str:
    if not isinstance(value, str):
        raise InfrastructureError(f"{method}() is {value!r:.60}, not a string")
    return value


def format_expert_reply(env: TextEnv, action: str, thought: str = "") -> str:
    """Return the ReAct text of an action; the bare action if the world does not parse ReAct text."""
    bare = env.parse(action)
    text = format_reply(bare.action, thought, bare.action_input)
    return action if env.parse(text).action == text else text
