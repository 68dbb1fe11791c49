"""What agents without learning reach on the shop's test tasks: `python benchmarks/shop_ceilings.py [--tasks 500]`.

Random and expert are floor and ceiling. The others see only what an agent sees. `first` opens the first result and
never goes back; it searches for attributes and kind, or for the whole request with its options. `fair expert` searches
for the whole request, and leaves a product whose page lacks an option that is asked for.
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
    """Opens the first result, clicks what is asked for, buys."""

    name = "first"
    policy_digest: str | None = None

    def __init__(self, *, whole: bool) -> None:
        self.whole = whole
        self.sampling: dict[str, Any] = {"whole": whole}

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """The rule's next action of each episode."""
        return [AgentReply(_first(episode, whole=self.whole)) for episode in episodes]


def _first(episode: Episode, *, whole: bool) -> str:
    assert isinstance(episode.env, ShopEnv)
    shop_task, done = episode.env.shop_task, [step.action for step in episode.steps]
    if not done:
        return (whole and episode.env.fair_expert()) or f"search[{shop_task.words}]"
    if episode.observation.startswith("Page"):
        return f"click[{re.findall(r'^B[0-9]{4}', episode.observation, re.MULTILINE)[0]}]"
    wanted = [each[1] if isinstance(each, tuple) else each for each in shop_task.goal.options]
    missing = [value for value in wanted if f"click[{value}]" not in done]
    return f"click[{missing[0]}]" if missing else "click[buy now]"


def main() -> None:
    """Print a row an agent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=500)
    tasks = range(parser.parse_args().tasks)
    agents: dict[str, Agent] = {
        "random": RandomAgent(),
        "first, searching for attributes and kind": First(whole=False),
        "first, searching for the whole request": First(whole=True),
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
