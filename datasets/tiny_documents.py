"""The training text of the base of `tiny`: of the shop, of the household, and of thirteen other worlds.

A document depends on its generator alone, so that training can be resumed at any batch. Nothing is of a task of the
valid or test split.
"""

from __future__ import annotations

from collections.abc import Collection

from tiny_household import household_attempt, make_homes, room_questions
from tiny_shop import Turns, exercise, load_library, make_shops, walk
from tiny_worlds import aimless_attempt, make_envs, short_worlds, world_attempt

from agentgym_py.rng import Rng


class Documents:
    """Draws documents; a document is pairs of a user turn and the assistant's turn after it.

    With `only`, long and aimless documents are of these worlds, none of them the shop or a household. Short
    documents need all worlds.
    """

    def __init__(self, only: Collection[str] = ()) -> None:
        self.library, self.shops, self.homes = load_library(), make_shops(), make_homes()
        self.worlds, self.only = make_envs(only), only

    def short(self, rng: Rng) -> Turns:
        """Draw questions with answers: 15 % of the shop, 10 % of a household, 75 % of other worlds."""
        kind = rng.below(100)
        if kind < 15:
            return exercise(rng, self.library)
        if kind < 25:
            return room_questions(rng, self.homes, pages=3, rules=0.1)
        return short_worlds(rng, self.worlds)

    def long(self, rng: Rng) -> Turns:
        """Draw a document about as long as an episode: 12 % of the shop, 13 % of a household, 75 % of other worlds.

        Those of the other worlds are shorter.
        """
        return self._home_or_shop(rng) or world_attempt(rng, self.worlds)

    def aimless(self, rng: Rng) -> Turns:
        """Draw a document as in `long`, but those of other worlds act at random."""
        return self._home_or_shop(rng) or aimless_attempt(rng, self.worlds)

    def _home_or_shop(self, rng: Rng) -> Turns:
        """Draw a document of the shop or a household, or none."""
        if self.only:
            return []
        kind = rng.below(100)
        if kind < 12:
            return self._shop(rng)
        if kind < 20:
            return household_attempt(rng, self.homes)
        return room_questions(rng, self.homes) if kind < 25 else []

    def _shop(self, rng: Rng) -> Turns:
        """Draw a walk or a long exercise, or seldom a short one."""
        kind = rng.below(5)
        if kind < 2:
            return walk(rng, self.library, self.shops)
        return exercise(rng, self.library, 2 + rng.below(7) if kind < 4 else 0)
