"""The training text of the base of `tiny`: of the shop (`tiny_shop.py`) and of other worlds (`tiny_attempts.py`).

It contains no task of the valid or test split.
"""

from __future__ import annotations

from collections.abc import Iterator

from tiny_attempts import attempts, short_rooms
from tiny_shop import Turns, shop_documents, short_exercises


def documents(seed: int) -> Iterator[Turns]:
    """Yield documents about as long as episodes, for ever; one of three is of the shop."""
    shop, rest = shop_documents(seed), attempts(seed)
    while True:
        yield next(shop)
        yield next(rest)
        yield next(rest)


def short_documents(seed: int) -> Iterator[Turns]:
    """Yield questions with answers, for ever; two of three documents are of the shop."""
    shop, rooms = short_exercises(seed), short_rooms(seed)
    while True:
        yield next(shop)
        yield next(shop)
        yield next(rooms)
