"""Substances, their states of matter, and what heat and time do to them."""

from __future__ import annotations

from dataclasses import dataclass

ROOM = 20
"""The temperature of every room, in degrees."""
SOLID, LIQUID, GAS = 0, 4, 8
"""Phases; 1 to 3 lie between solid and liquid, 5 to 7 between liquid and gas."""
STAGE = 10
"""Ticks of each stage of life."""
MOIST = 25
"""Ticks for which watered soil stays moist."""


@dataclass(frozen=True, slots=True)
class Substance:
    """A substance; seeds and eggs are substances that grow."""

    name: str
    melts: int = -100
    """Melting point in degrees."""
    boils: int = 1000
    """Boiling point in degrees."""
    stages: tuple[str, ...] = ()
    """Names in the stages of its life, the seed or egg first."""
    grows_in: str = ""
    """The kind of thing in which it grows: `planter` (with water) or `incubator` (while it is on)."""


def phase_at(substance: Substance, temperature: int) -> int:
    """Return the phase in which a substance rests at a temperature."""
    return GAS if temperature >= substance.boils else LIQUID if temperature >= substance.melts else SOLID


def state_name(phase: int) -> str:
    """Return the state of matter of a phase."""
    if phase in (SOLID, LIQUID, GAS):
        return {SOLID: "solid", LIQUID: "liquid", GAS: "gaseous"}[phase]
    return "melting" if phase < LIQUID else "boiling"


def warm(substance: Substance | None, temperature: int, phase: int, level: int) -> tuple[int, int]:
    """Return temperature and phase one tick later, in surroundings of temperature `level`.

    The temperature approaches the level in about eight ticks. On its way it stays at the melting and the boiling point
    until the whole substance has changed, one phase a tick.
    """
    rate = max(20, abs(level - ROOM) // 8)
    if substance is None:
        return _step(temperature, level, rate), phase
    if level > temperature or (level == temperature and phase % 4):
        for point, end in ((substance.melts, LIQUID), (substance.boils, GAS)):
            if phase < end and level >= point:
                return (temperature, phase + 1) if temperature >= point else (min(temperature + rate, point), phase)
    elif level < temperature:
        for point, start in ((substance.boils, LIQUID), (substance.melts, SOLID)):
            if phase > start and level < point:
                return (temperature, phase - 1) if temperature <= point else (max(temperature - rate, point), phase)
    return _step(temperature, level, rate), phase


def _step(temperature: int, level: int, rate: int) -> int:
    return min(temperature + rate, level) if level > temperature else max(temperature - rate, level)
