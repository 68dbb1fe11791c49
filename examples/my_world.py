"""A custom world: guess a number in as few tries as possible.

In a package, two lines of TOML register it:

    [project.entry-points."agentgym.envs"]
    "AgentGuess-v0" = "my_package.my_world:GuessEnv"

Run `python examples/my_world.py` to watch the expert, and `agentgym check examples/my_world.py` to test the world.
"""

from __future__ import annotations

from typing import Any

import gymnasium

from agentgym_py.agents import ExpertAgent
from agentgym_py.collection import Collector, Job
from agentgym_py.env import EnvSpec, Outcome, Reply, Task, TextEnv
from agentgym_py.errors import UnknownNameError
from agentgym_py.rng import Rng

LIMIT = {"train": 64, "valid": 65, "test": 66}  # numbers below 64, 65, 66: the splits share no instruction


class GuessEnv(TextEnv):
    """AgentGuess-v0: find a hidden number in as few guesses as possible.

    Task: a number below 64 (valid: 65, test: 66) is hidden. Actions: `guess[n]`.
    Observation: higher, lower or found. Reward: 1 for the number, else 0. End: the number is found, or 10 guesses.
    """

    name = "guess"
    rules = {"full": "Find the hidden number. Write guess[n].", "brief": "Write guess[n].", "none": ""}  # noqa: RUF012  # nothing changes it
    random_baseline = 0.95  # random guesses between the bounds converge to the number

    def __init__(self, *, max_steps: int = 10, split: str = "train", render_mode: str | None = None) -> None:
        super().__init__(max_steps=max_steps, split=split, render_mode=render_mode)
        self.low, self.high, self.number = 0, 0, 0

    def task(self, name: str | int, split: str | None = None) -> Task:
        """Return the task `guess/split/n`."""
        parts = f"guess/{split or self.split}/{name}".split("/") if isinstance(name, int) else str(name).split("/")
        if len(parts) != 3 or parts[0] != "guess" or parts[1] not in LIMIT or not parts[2].isdigit():
            raise UnknownNameError(f"No task {name!r}; ids look like guess/train/0.")
        return Task("/".join(parts), parts[1], "guess", "easy", f"Find a number below {LIMIT[parts[1]]}.")

    def begin(self, task: Task) -> str:
        """Hide a number and return the first observation."""
        self.low, self.high = 0, LIMIT[task.split]
        self.number = Rng(task.id).below(self.high)
        return task.instruction

    def act(self, reply: Reply) -> Outcome:
        """Make a guess."""
        text = reply.argument or ""
        if not (reply.name == "guess" and text.isascii() and text.isdigit() and len(text) < 4):
            return self.invalid("Write guess[n].")
        guess = int(text)
        if guess == self.number:
            return Outcome("Found.", reward=1.0, terminated=True, success=True)
        if guess < self.number:
            self.low = max(self.low, guess + 1)
            return Outcome("Higher.")
        self.high = min(self.high, guess)
        return Outcome("Lower.")

    def state(self) -> dict[str, Any]:
        """Return the bounds; the number follows from the task."""
        return {"low": self.low, "high": self.high}

    def load_state(self, task: Task, state: dict[str, Any]) -> None:
        """Continue an episode."""
        low, high = state["low"], state["high"]
        if type(low) is not int or type(high) is not int or not 0 <= low <= high <= LIMIT[task.split]:
            raise ValueError(f"not a range of numbers: {low!r} to {high!r}")
        self.begin(task)
        self.low, self.high = low, high

    def expert(self) -> list[str]:
        """Guess the number itself."""
        return [f"guess[{self.number}]"]

    def fair_expert(self) -> str:
        """Guess the middle between the bounds, without knowing the number."""
        return f"guess[{(self.low + self.high) // 2}]"

    def secrets(self) -> list[str]:
        """Return the number, which no observation may contain."""
        return [str(self.number)]

    def actions(self) -> list[str]:
        """List a guess of every number between the bounds."""
        return [f"guess[{n}]" for n in range(self.low, self.high)]


if __name__ == "__main__":
    gymnasium.register(id="AgentGuess-v0", entry_point=f"{__name__}:GuessEnv")
    trajectory = Collector(ExpertAgent()).collect(Job(EnvSpec("AgentGuess-v0"), task=3, split="test"))
    for step in trajectory.steps:
        print(f"{step.observation}\n  {step.reply}")
    print(trajectory.final_observation, "success" if trajectory.success else "failure")
