"""What agents without learning reach on the shop's test tasks: `python benchmarks/shop_ceilings.py [--tasks 500]`.

Random and expert are floor and ceiling. The other two see only what an agent sees, and search for the request's own
words. `first` opens the first result and never goes back; `careful` opens the result that shows most of the wanted
attributes and whose price fits, and goes back to the next when the page lacks an option that is asked for.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any

from agentgym_envs.shop.env import ShopEnv
from agentgym_py.agents import Agent, AgentReply, Episode, ExpertAgent, RandomAgent
from agentgym_py.collect import Collector, EnvSpec, jobs_for
from agentgym_py.evaluate import percent, summarise

_LINE = re.compile(r"B\d{4} ")


class Heuristic:
    """A customer with a rule; `careful` goes back."""

    policy_digest: str | None = None

    def __init__(self, name: str) -> None:
        self.name = name
        self.sampling: dict[str, Any] = {}

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        """The rule's next action of each episode."""
        return [None if action is None else AgentReply(action) for action in map(self._action, episodes)]

    def _action(self, episode: Episode) -> str | None:
        assert isinstance(episode.env, ShopEnv)
        errand, page = episode.env.errand, episode.observation
        wanted = [each[1] if isinstance(each, tuple) else each for each in errand.goal.options]
        done = [step.action for step in episode.steps]
        if not done:
            return f"search[{errand.words}]"
        if page.startswith("Page"):
            return self._pick(page, errand.goal.attributes, errand.goal.price_upper, done)
        offers = [value for line in page.split("\n")[1:-1] for value in line.partition(": ")[2].split(" | ")]
        if self.name == "careful" and _LINE.match(page) and not set(wanted) <= set(offers):
            return "click[< prev]"
        opened = max(i for i, action in enumerate(done) if re.fullmatch(r"click\[B\d{4}\]", action))
        missing = [value for value in wanted if f"click[{value}]" not in done[opened:]]
        return f"click[{missing[0]}]" if missing else "click[buy now]"

    def _pick(self, page: str, attributes: Sequence[str], limit: float, done: Sequence[str]) -> str | None:
        lines = [line for line in page.split("\n") if _LINE.match(line) and f"click[{line[:5]}]" not in done]
        if not lines:
            return None

        def merit(line: str) -> float:
            costs = max((float(cost) for cost in re.findall(r"\$([\d.]+)", line)), default=0.0)
            return sum(name in line.lower() for name in attributes) - 5.0 * (costs > limit)

        return f"click[{(max(lines, key=merit) if self.name == 'careful' else lines[0])[:5]}]"


def main() -> None:
    """Print a row an agent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=500)
    tasks = range(parser.parse_args().tasks)
    agents: list[Agent] = [RandomAgent(), Heuristic("first"), Heuristic("careful"), ExpertAgent()]
    print("| agent | easy | medium | hard |\n|---|---|---|---|")
    for agent in agents:
        row = []
        for difficulty in ("easy", "medium", "hard"):
            jobs = jobs_for([EnvSpec("shop", {"difficulty": difficulty})], "test", tasks)
            row.append(percent(summarise(Collector(agent).collect_batch(jobs)).success))
        print(f"| {agent.name} | {' | '.join(row)} |")


if __name__ == "__main__":
    main()
