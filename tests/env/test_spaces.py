"""The text space."""

from __future__ import annotations

import copy

from agentgym_py.env.spaces import UnicodeText


def test_it_contains_every_short_string() -> None:
    """Any characters, up to the length; samples are contained and a seed repeats them."""
    space = UnicodeText(40)
    assert all(text in space for text in ("", "né 🎉\ud800", "x" * 40)) and "x" * 41 not in space and 3 not in space
    space.seed(1)
    drawn = [space.sample() for _ in range(20)]
    space.seed(1)
    assert drawn == [space.sample() for _ in range(20)] and all(text in space for text in drawn)


def test_it_is_what_its_length_is() -> None:
    """Equal spaces, their text, copies and JSON conversion."""
    space = UnicodeText(40)
    assert space == UnicodeText(40, seed=3) == copy.deepcopy(space) and space != UnicodeText(41)
    assert repr(space) == "UnicodeText(40)" and not space.is_np_flattenable
    assert space.from_jsonable(space.to_jsonable(["a", "é"])) == ["a", "é"]
