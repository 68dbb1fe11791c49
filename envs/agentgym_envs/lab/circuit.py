"""Electric circuits: every part has two ends, so wired parts form chains and rings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def rings(wires: Iterable[tuple[int, int]]) -> Iterator[list[int]]:
    """Yield the closed rings of parts, each with at most two neighbours."""
    neighbours: dict[int, list[int]] = {}
    for a, b in wires:
        neighbours.setdefault(a, []).append(b)
        neighbours.setdefault(b, []).append(a)
    visited: set[int] = set()
    for start in neighbours:
        if start in visited:
            continue
        chain, before, part = [start], -1, start
        visited.add(start)
        while True:
            following = [other for other in neighbours[part] if other != before]
            if not following:
                break
            before, part = part, following[0]
            if part == start:
                yield chain
                break
            if part in visited:
                break
            visited.add(part)
            chain.append(part)
