"""Shortest plans in BabyAI's moves, by breadth-first search over states.

A node is a pose (cell and facing) within a *variant*: a state of everything else. Turning and walking change the pose;
picking up, dropping, toggling and fulfilling a clause lead to another variant. All moves cost 1, so the first node that
fulfils the mission ends a shortest plan among those considered. These move only what the mission names, keys, and, if
there is no other way, what blocks it; put an unneeded thing down at one of the `_DROPS` nearest places; and count a
closed door, once opened, as closed when it is passed again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from agentgym_envs.grid.mission import Verb
from agentgym_envs.grid.view import SIDE, seen_cells
from agentgym_envs.grid.world import (
    CLOSED,
    DROP,
    FORWARD,
    FREE,
    LOCKED,
    OPEN,
    PICKUP,
    TOGGLE,
    TURNS,
    UNKNOWN,
    WALL,
    World,
)

ENTER = TOGGLE + 1
"""Toggle the door ahead unless it is open by now; stands in plans only."""
_DROPS = 4
_MOST_NODES = 60_000
_ROUNDS = 12


def plan(world: World) -> list[int]:
    """Return the moves that fulfil the mission; empty if no plan is found."""
    world, moves = world.copy(), list[int]()
    for _ in range(_ROUNDS):  # what is done on the way, such as opening a door, may change what is left to do
        boxes = frozenset(box for box in world.layout.hidden if not world.gone >> box & 1)
        found = _with_blockers(world, boxes, _is_done)
        if found is None:  # too much to search for at once
            goals = (_leads_on(world), _unlocks(world))
            found = next(filter(None, (_Search(world, boxes, goal, frees_hands=True).run() for goal in goals)), None)
            found = found or _clear(world)
        if found is None:
            return []
        moves += follow(world, found)
        if world.is_done:
            return moves
    return []


def _leads_on(world: World) -> Callable[[World], bool]:
    """A goal: one more clause is done."""
    done = world.done
    return lambda other: other.done != done


def _unlocks(world: World) -> Callable[[World], bool]:
    """A goal: one more locked door is open."""
    locked = world.doors.count(LOCKED)
    return lambda other: other.doors.count(LOCKED) < locked


def _is_done(world: World) -> bool:
    return world.is_done


def follow(world: World, found: Iterable[int]) -> list[int]:
    """Do the moves of a search, and return those that were done: open doors need no `ENTER`."""
    done = list[int]()
    for move in found:
        if world.is_done:
            break
        real = TOGGLE if move == ENTER else move
        if move != ENTER or not world.is_passable(world.front):
            world.do(real)
            done.append(real)
    return done


def fair_plan(world: World, seen: int) -> list[int]:
    """Return moves that lead on, as far as seen cells tell (bits of `seen`): to a clause, else to an unseen cell.

    If nothing else is left, they move what blocks the way, and open boxes that the mission does not name.
    """
    masked = _mask(world, seen)
    gone, none = masked.gone, frozenset[int]()
    found = _Search(masked, none, _leads_on(masked)).run() if _knows_enough(masked) else None
    if found is None:
        found = _Search(masked, none, None).run()
    if found is None:
        goals = (_leads_on(masked), _unlocks(masked))
        found = next(filter(None, (_Search(masked, none, goal, frees_hands=True).run() for goal in goals)), None)
        found = found or _clear(masked)
    if found is None:
        named = {thing for clause in world.open_clauses for thing in clause.things | clause.others}
        boxes = {index for index, thing in enumerate(world.layout.things) if thing.kind == "box"} - named
        found = _Search(masked, frozenset(boxes), lambda other: other.gone != gone).run()
    return follow(world.copy(), found or [])


def looking_plan(world: World, seen: int) -> list[int]:
    """Return the moves that fulfil the mission by `fair_plan` alone; empty if none do within BabyAI's limit.

    They solve missions whose way is blocked by several things, for which `plan` finds nothing.
    """
    world, moves = world.copy(), list[int]()
    while not world.is_done and len(moves) < world.layout.limit:
        found = fair_plan(world, seen)
        if not found:
            return []
        for move in found:
            world.do(move)
            for cell in seen_cells(world):
                seen |= 1 << cell
        moves += found
    return moves if world.is_done else []


def _knows_enough(world: World) -> bool:
    """Whether what some clause names was seen."""
    return any(
        all(any(world.marks[thing] or world.carried == thing for thing in group) for group in groups)
        for clause in world.pending
        for groups in [(clause.things, clause.others) if clause.others else (clause.things,)]
    )


def _mask(world: World, seen: int) -> World:
    """The world without what was not seen."""
    masked = world.copy()
    for cell, content in enumerate(masked.cells):
        if not seen >> cell & 1:
            masked.cells[cell] = UNKNOWN
            if content > 0:
                masked.places[content - 1] = 0
    masked.marks = [mark if seen >> mark & 1 else 0 for mark in masked.marks]
    return masked


def _with_blockers(world: World, boxes: frozenset[int], is_goal: Callable[[World], bool]) -> list[int] | None:
    """Search, and if there is no plan, again with what blocks the way."""
    search = _Search(world, boxes, is_goal)
    found = search.run()
    if found is None and (blocking := search.blockers()):
        found = _Search(world, boxes, is_goal, blocking, frees_hands=True).run()
    return found


def _clear(world: World) -> list[int] | None:
    """Move something so that more cells can be reached; for states in which a whole plan is too much to search for."""
    search = _Search(world, frozenset(), _never)
    search.run()
    reached = _count_reachable(world)

    def is_cleared(other: World) -> bool:
        count = _count_reachable(other)
        return other.carried < 0 and (count > reached or (world.carried >= 0 and count == reached))

    return _Search(world, frozenset(), is_cleared, search.blockers(), frees_hands=True, only_blocking=True).run()


def _never(world: World) -> bool:
    del world
    return False


def _count_reachable(world: World) -> int:
    """Count the cells that can be walked to or touched if every door opens, unseen ones included."""
    things, reached, queue = world.layout.things, {world.at}, [world.at]
    for cell in queue:
        for step in world.layout.steps:
            content = world.cells[cell + step]
            if content != WALL and cell + step not in reached:
                reached.add(cell + step)
                if content == FREE or (content > 0 and things[content - 1].kind == "door"):
                    queue.append(cell + step)
    return len(reached)


def _relevant(world: World) -> frozenset[int]:
    """Things to carry: those that the mission names, and keys of locked doors."""
    picks = set(_keys(world))
    for clause in world.open_clauses:
        if clause.verb is Verb.PUT or (clause.verb is Verb.PICK_UP and clause in world.pending):
            picks |= clause.things
    return frozenset(picks)


def _keys(world: World) -> frozenset[int]:
    things = world.layout.things
    colors = {things[door].color for door in _locked(world)}
    return frozenset(index for index, thing in enumerate(things) if thing.kind == "key" and thing.color in colors)


def _locked(world: World) -> list[int]:
    return [door for door, state in enumerate(world.doors) if state == LOCKED and world.places[door]]


@dataclass(slots=True)
class _Variant:
    """A state without its pose."""

    world: World
    faced: frozenset[int]
    """Cells that fulfil a clause when faced."""
    tracked: frozenset[int]
    """Doors whose toggling makes another variant."""
    takes: frozenset[int]
    """Things to pick up."""
    may_drop: bool
    """Whether the carried thing may be put down anywhere, because it is of no use now."""
    beside: frozenset[int]
    """Where dropping the carried thing fulfils a clause."""
    dropped: frozenset[int]
    """Things that were put down anywhere on the way to this state."""
    drops: int = 0


class _Node(NamedTuple):
    """A pose in a variant."""

    number: int
    """Variant and pose in one number."""
    variant: _Variant
    at: int
    facing: int
    entering: bool
    """Whether the door ahead was just opened by `ENTER`."""


@dataclass(slots=True)
class _Search:
    """One search; without a goal it looks for a place from which an unseen cell is ahead."""

    start: World
    boxes: frozenset[int]
    """Boxes that may be opened."""
    is_goal: Callable[[World], bool] | None
    blocking: frozenset[int] = frozenset()
    """Other things that may be moved out of the way, each once."""
    frees_hands: bool = False
    """Whether a thing that is of use may be put down too, once."""
    only_blocking: bool = False
    """Whether nothing else may be moved, and only one of them."""
    _variants: list[_Variant] = field(default_factory=list)
    _known: dict[object, int] = field(default_factory=dict)
    _parents: dict[int, tuple[int, int]] = field(default_factory=dict)
    _queue: deque[int] = field(default_factory=deque)
    _found: int = -1

    def run(self) -> list[int] | None:
        """Return the moves, or None."""
        poses, parents, queue = self._poses, self._parents, self._queue
        start = self._add(self.start, frozenset()) * poses + self.start.at * 8 + self.start.facing * 2
        self._reach(start, -1, -1)
        while queue and len(parents) < _MOST_NODES:
            number = queue.popleft()
            variant, pose = divmod(number, poses)
            node = _Node(number, self._variants[variant], pose >> 3, pose >> 1 & 3, bool(pose & 1))
            if self.is_goal is None and self._sees_unknown(node.variant.world, node.at, node.facing):
                return self._path(number)
            if not node.entering:
                self._turn(node)
            self._walk(node)
            if not node.entering:
                self._act(node)
            if self._found >= 0:
                return self._path(self._found)
        return None

    @property
    def _poses(self) -> int:
        """Poses of a variant: cell, facing, and whether the agent is about to enter the door ahead."""
        return 8 * len(self.start.cells)

    def _reach(self, number: int, before: int, move: int) -> None:
        """Add a node unless it was reached in fewer moves."""
        if number not in self._parents:
            self._parents[number] = before, move
            self._queue.append(number)

    def _turn(self, node: _Node) -> None:
        number, variant, at, facing, _ = node
        steps, faced = variant.world.layout.steps, variant.faced
        for move, by in TURNS:
            turned = (facing + by) & 3
            if at + steps[turned] in faced:
                self._event(node, move)
            else:
                self._reach(number + (turned - facing) * 2, number, move)

    def _walk(self, node: _Node) -> None:
        number, variant, at, facing, entering = node
        step = variant.world.layout.steps[facing]
        if entering or variant.world.is_passable(at + step):
            if at + 2 * step in variant.faced:
                self._event(node, FORWARD)
            else:
                self._reach(number - entering + 8 * step, number, FORWARD)

    def _act(self, node: _Node) -> None:
        """Toggle, pick up or drop what is ahead."""
        number, variant, at, facing, _ = node
        world = variant.world
        front = at + world.layout.steps[facing]
        thing = world.cells[front] - 1
        if thing < 0 and world.carried < 0:
            return
        if thing >= 0 and world.layout.things[thing].kind == "door":
            if thing in variant.tracked:
                if world.doors[thing] != LOCKED or world.has_key(thing):
                    self._event(node, TOGGLE)
            elif world.doors[thing] == CLOSED:
                self._reach(number + 1, number, ENTER)
        elif thing >= 0:
            if thing in self.boxes:
                self._event(node, TOGGLE)
            if world.carried < 0 and self._may_take(variant, thing):
                self._event(node, PICKUP)
        elif world.cells[front] == FREE and world.carried >= 0:
            if front in variant.beside:
                self._event(node, DROP)
            elif variant.may_drop and variant.drops < _DROPS:
                variant.drops += 1
                self._event(node, DROP, dropped=variant.dropped | {world.carried})

    def _sees_unknown(self, world: World, at: int, facing: int) -> bool:
        """Whether an unseen cell lies straight ahead, in sight."""
        step, cell = world.layout.steps[facing], at
        for _ in range(SIDE - 1):
            cell += step
            content = world.cells[cell]
            if content == UNKNOWN:
                return True
            if content == WALL or (
                content > 0 and world.layout.things[content - 1].kind == "door" and world.doors[content - 1] != OPEN
            ):
                return False
        return False

    def _may_take(self, variant: _Variant, thing: int) -> bool:
        if self.only_blocking and len(variant.dropped) > (self.start.carried >= 0):
            return False
        return thing in variant.takes or (thing in self.blocking and thing not in variant.dropped)

    def _event(self, node: _Node, move: int, dropped: frozenset[int] | None = None) -> None:
        """Do a move that leads to another variant."""
        world = node.variant.world.copy()
        world.at, world.facing = node.at, node.facing
        if node.entering:
            world.doors[world.cells[world.front] - 1] = OPEN
        world.do(move)
        number = self._add(world, node.variant.dropped if dropped is None else dropped)
        other = number * self._poses + world.at * 8 + world.facing * 2
        is_new = other not in self._parents
        self._reach(other, node.number, move)
        if is_new and self._found < 0 and self.is_goal is not None and self.is_goal(world):
            self._found = other

    def _add(self, world: World, dropped: frozenset[int]) -> int:
        """The number of a state's variant."""
        key = (tuple(world.places), tuple(world.marks), tuple(world.doors), world.carried, world.gone, world.done)
        if key not in self._known:
            self._known[key] = len(self._variants)
            self._variants.append(self._variant(world, dropped))
        return self._known[key]

    def _variant(self, world: World, dropped: frozenset[int]) -> _Variant:
        faced, tracked, beside = set[int](), set(_locked(world)), set[int]()
        steps, carried = world.layout.steps, world.carried
        useful = carried in _keys(world)
        for clause in world.open_clauses:
            useful |= clause.verb is Verb.PUT and carried in clause.things
        may_drop = not useful or carried == self.start.carried or self.frees_hands
        for clause in world.pending:
            if clause.verb is Verb.GO_TO:
                faced |= {world.marks[thing] for thing in clause.things}
            elif clause.verb is Verb.OPEN:
                tracked |= clause.things
            elif clause.verb is Verb.PUT and carried in clause.things:
                cells = [world.places[thing] for thing in clause.others if world.places[thing]]
                beside |= {cell + step for cell in cells for step in steps}
        may_drop &= carried not in dropped
        takes = frozenset[int]() if self.only_blocking else _keys(world) if self.is_goal is None else _relevant(world)
        return _Variant(world, frozenset(faced - {0}), frozenset(tracked), takes, may_drop, frozenset(beside), dropped)

    def _path(self, node: int) -> list[int]:
        moves = list[int]()
        while (step := self._parents[node])[0] >= 0:
            moves.append(step[1])
            node = step[0]
        return moves[::-1]

    def blockers(self) -> frozenset[int]:
        """Return things that lie between cells that were reached and others."""
        poses, world = self._poses, self.start
        reached = {node % poses >> 3 for node in self._parents}
        steps, things, found = world.layout.steps, world.layout.things, set[int]()
        for cell in reached:
            for step in steps:
                content = world.cells[cell + step]
                if content > 0 and things[content - 1].kind != "door":
                    around = [cell + step + other for other in steps]
                    if any(other not in reached and world.cells[other] != WALL for other in around):
                        found.add(content - 1)
        return frozenset(found)
