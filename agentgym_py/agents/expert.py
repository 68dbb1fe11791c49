"""The agent that follows the world's expert."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentgym_py.agents.base import EXPERT, AgentReply, Episode
from agentgym_py.env import TextEnv
from agentgym_py.env.actions import format_reply


class ExpertAgent:
    """Does what the world's expert says, asked again before each step.

    The exact expert knows everything; with `fair` it is the one that knows only what the episode has shown
    (`TextEnv.fair_expert`). An agent that sees no more than that can learn all that the fair one does, but not what the
    exact one does for reasons that it cannot see (Weihs et al., arXiv:2007.12173, on the imitation gap). With
    `thoughts` the teacher's thought (`TextEnv.expert_thought`) stands before an action, where there is one.
    """

    name = EXPERT
    policy_digest: str | None = None

    def __init__(self, *, fair: bool = False, thoughts: bool = True) -> None:
        self.fair, self.thoughts = fair, thoughts
        self.sampling: dict[str, Any] = {"fair": fair, "thoughts": thoughts}

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """The expert's next action from where each episode stands."""
        return [self._reply(episode.env) for episode in episodes]

    def _reply(self, env: TextEnv) -> AgentReply | None:
        action = env.fair_expert() if self.fair else next(iter(env.expert()), None)
        if action is None:
            return None
        return AgentReply(format_expert_reply(env, action, env.expert_thought(action) if self.thoughts else ""))


def format_expert_reply(env: TextEnv, action: str, thought: str = "") -> str:
    """Return the ReAct text of an action; the bare action in a world that does not read ReAct text."""
    bare = env.parse(action)
    text = format_reply(bare.action, thought, bare.action_input)
    return action if env.parse(text).action == text else text
