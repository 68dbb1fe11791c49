"""What the check of memory takes for a leak."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from functools import lru_cache
from itertools import count
from pathlib import Path

import pytest

from agentgym_py.testing import resources
from agentgym_py.testing.resources import _NOISE, _Memory, _settled


def rounds(*traced: float) -> Iterator[_Memory]:
    """What rounds leave, the last of them forever."""
    yield from (_Memory(int(each), 0) for each in traced)
    while True:
        yield _Memory(int(traced[-1]), 0)


@pytest.mark.parametrize(
    ("left", "leaks"),
    [
        ([52_072, 38_993, 27_720, 22_056, 16_524, 14_043], False),  # measured in the to-do world, which leaks nothing
        ([40 * _NOISE * 0.8**n for n in range(40)], True),  # fades too slowly to be sure
        ([2 * _NOISE], True),
        ([_NOISE + 8 * _NOISE * 0.7**n for n in range(40)], True),  # a leak under what fades
        ([_NOISE], False),
        ([9 * _NOISE, 0], False),
        ([3 * _NOISE, 5 * _NOISE, 2 * _NOISE, 0], False),
    ],
)
def test_growth_that_fades_is_no_leak(left: list[float], leaks: bool) -> None:
    """And growth that lasts is one."""
    found = rounds(*left)
    assert (_settled(next(found), lambda: next(found)).traced > _NOISE) == leaks


def test_a_leak_is_seen_after_few_rounds() -> None:
    """Two further ones, not all that growth may take to fade."""
    played = count()
    _settled(_Memory(2 * _NOISE, 0), lambda: _Memory(2 * _NOISE + next(played), 0))
    assert next(played) == resources._LASTS


def test_a_full_cache_is_no_leak() -> None:
    """One that was filled before tracing began, and whose keys are tuples: Python hands these out again untraced."""

    @lru_cache(maxsize=1_000)
    def cached(first: int, second: int) -> tuple[int, int]:
        return second, first

    def play() -> _Memory:
        before = _Memory.now()
        for number in range(3_000):
            cached(number * 1_000, (number * 7_919) % 3_000 + 1_000)
            [(number, each) for each in range(number % 7)]
        return _Memory.now() - before

    with resources._frozen_heap():
        play()
        with resources._tracing():
            play()
            assert _settled(play(), play).traced <= _NOISE


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="sizes are read as on Linux")
def test_pages_of_files_do_not_count(tmp_path: Path) -> None:
    """How many are in memory depends on what else the machine does; the world's own memory counts, swapped or not."""
    file = tmp_path / "data"
    file.write_bytes(bytes(16 << 20))
    before = resources._resident()
    with file.open("rb") as data, mmap.mmap(data.fileno(), 0, access=mmap.ACCESS_READ) as pages:
        assert sum(pages[at] for at in range(0, len(pages), 4096)) == 0
        assert resources._resident() - before < 4 << 20
        own = bytearray(b"x" * (16 << 20))
        assert resources._resident() - before > 12 << 20
        del own
