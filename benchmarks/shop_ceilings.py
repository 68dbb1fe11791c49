"""Success of agents without learning on the shop's test tasks: `python benchmarks/shop_ceilings.py [--tasks 500]`.

Random and expert are floor and ceiling. The others see only the observations. `first` opens the first result and never
goes back; it searches for attributes and kind, or for the whole request with its options. `fair expert` searches for
the whole request and leaves a product whose page lacks a requested option.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any

from agentgym_envs.shop.env import ShopEnv
from agentgym_py.agents import Agent, AgentReply, Episode, ExpertAgent, RandomAgent
from agentgym_py.env import EnvSpec
from agentgym_py.evaluation import evaluate
from agentgym_py.evaluation.text import format_rate


class First:
    """An agent that opens the first result, clicks the requested options and buys."""

    name = "first"
    policy_digest: str | None = None

    def __init__(self, *, whole_request: bool) -> None:
        self.whole_request = whole_request
        self.sampling: dict[str, Any] = {"whole": whole_request}

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """Return the next action of each episode."""
        return [AgentReply(_first(episode, whole_request=self.whole_request)) for episode in episodes]


def _first(episode: Episode, *, whole_request: bool) -> str:
    assert isinstance(episode.env, ShopEnv)
    shop_task, done = episode.env.shop_task, [step.action for step in episode.steps]
    if not done:
        return (whole_request and episode.env.fair_expert()) or f"search[{shop_task.words}]"
    if episode.observation.startswith("Page"):
        return f"click[{re.findall(r'^B[0-9]{4}', episode.observation, re.MULTILINE)[0]}]"
    values = [option[1] if isinstance(option, tuple) else option for option in shop_task.goal.options]
    missing = [value for value in values if f"click[{value}]" not in done]
    return f"click[{missing[0]}]" if missing else "click[buy now]"


def main() -> None:
    """Print a row per agent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=500)
    tasks = range(parser.parse_args().tasks)
    agents: dict[str, Agent] = {
        "random": RandomAgent(),
        "first, searching for attributes and kind": First(whole_request=False),
        "first, searching for the whole request": First(whole_request=True),
        "fair expert": ExpertAgent(fair=True),
        "expert": ExpertAgent(),
    }
    print("| agent | easy | medium | hard |\n|---|---|---|---|")
    for name, agent in agents.items():
        row = []
        for difficulty in ("easy", "medium", "hard"):
            shop = EnvSpec("shop", {"difficulty": difficulty})
            row.append(format_rate(evaluate(agent, [shop], "test", tasks)[0].success))
        print(f"| {name} | {' | '.join(row)} |")


if __name__ == "__main__":
    main()
