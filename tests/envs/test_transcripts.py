"""Seeded episodes of every built-in world, as they were when somebody last looked at them.

    python tests/envs/test_transcripts.py [NAME ...]

writes them again, for all worlds or for those named (`shop`): look at the difference before it is committed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentgym_py.env import SPLITS, EnvSpec, TextEnv, registration
from agentgym_py.env.registration import env_plugins
from agentgym_py.rng import Rng

FOLDER = Path(__file__).parent / "transcripts"
ENVS = {
    registration.short_name(each.name): each.name for each in env_plugins() if each.target.startswith("agentgym_envs.")
}
DIFFICULTIES = ("easy", "medium", "hard")
"""Of a world that does not say its own, in `limits`."""


def transcript(name: str) -> str:
    """An episode of the expert, of the fair expert and of chance, in each difficulty."""
    lines: list[str] = []
    for number, difficulty in enumerate(getattr(type(EnvSpec(ENVS[name]).make()), "limits", DIFFICULTIES)):
        env = EnvSpec(ENVS[name], {"difficulty": difficulty}).make()
        for player in ("expert", "fair expert", "chance"):
            lines += [f"==== {difficulty}, {player}", *episode(env, player, SPLITS[number % len(SPLITS)]), ""]
    return "\n".join(lines)


def episode(env: TextEnv, player: str, split: str) -> Iterator[str]:
    """The lines of one episode: task, then observations, actions, and what came of them."""
    rng = Rng("transcript", player)
    observation, _ = env.reset(seed=7, options={"split": split})
    yield f"{env.current_task}"
    yield observation
    while not env.stop_reason:
        action = _action(env, player, rng)
        observation, reward, *_, info = env.step(action)
        yield f"> {action}"
        yield observation
        parts = f" {info['reward_parts']}" if info["reward_parts"] else ""
        yield f"    reward {reward:g}{parts}{'' if info['valid_action'] else ', not valid'}"
    yield f"    {env.stop_reason}, success: {env.succeeded}"


def _action(env: TextEnv, player: str, rng: Rng) -> str:
    if player == "expert":
        return env.expert()[0]
    if player == "fair expert":
        return env.fair_expert() or "nothing is left"
    return rng.choice(env.actions() or ["nonsense"])


@pytest.mark.parametrize("name", ENVS)
def test_an_episode_is_as_it_was(name: str) -> None:
    """To the letter; whoever changes a world on purpose renews its file and raises its version."""
    expected = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    assert transcript(name) == expected, f"python tests/envs/{Path(__file__).name} {name}"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in sys.argv[1:] or ENVS:
        (FOLDER / f"{each}.txt").write_text(transcript(each), encoding="utf-8")
