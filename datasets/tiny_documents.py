"""All that the base of the model `tiny` reads: of the shop (`tiny_shop.py`) and of other worlds (`tiny_attempts.py`).

No task of the valid or test split stands in it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tiny_attempts import attempts, short_rooms
from tiny_shop import Turns, shop_documents, short_exercises


def documents(seed: int) -> Iterator[Turns]:
    """Documents about as long as episodes, without end: of three, one of the shop."""
    shop, others = shop_documents(seed), attempts(seed)
    while True:
        yield next(shop)
        yield next(others)
        yield next(others)


def short_documents(seed: int) -> Iterator[Turns]:
    """Questions with their answers, without end: of three documents, two of the shop."""
    shop, rooms = short_exercises(seed), short_rooms(seed)
    while True:
        yield next(shop)
        yield next(shop)
        yield next(rooms)
