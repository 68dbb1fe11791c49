"""Print what a step through a bridge costs beside one of `TextEnv.step`: `python bridges/test.py NAME --time`.

The scripted agent plays 50 tasks of the shop both ways, three times; the least CPU time of each counts, so that other
programs disturb little. What a model would take is not in it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from importlib import import_module

from scripted import SEED, SHOP, Script, scripts

from agentgym_py.rng import seed_of

REPEATS = 3


def play_directly(shop_scripts: list[Script]) -> None:
    """Repeat the scripts by `reset` and `step`."""
    with closing(SHOP.spec.make()) as env:
        for script in shop_scripts:
            task = script.episode.task
            env.reset(seed=seed_of(SEED, "world", task), options={"task": task})
            for action in script.actions:
                env.step(action)


def best_of(play: Callable[[], object]) -> float:
    """Return the least CPU seconds of some calls."""
    times = []
    for _ in range(REPEATS):
        began = time.process_time()
        play()
        times.append(time.process_time() - began)
    return min(times)


def main() -> None:
    """Print the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    name = parser.parse_args().name
    shop_scripts, through = scripts(SHOP), import_module("through")
    steps = sum(len(script.actions) for script in shop_scripts)
    direct = best_of(lambda: play_directly(shop_scripts)) / steps
    print(f"{name}: {1e6 * direct:.0f} µs a step directly")
    for what, play in through.TIMED.items():
        print(f"{name}: {1e6 * best_of(partial(play, SHOP, shop_scripts)) / steps:.0f} µs of CPU time {what}")


if __name__ == "__main__":
    main()
