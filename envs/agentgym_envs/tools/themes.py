"""The subjects of the themed tools: sixty-three kinds of things, each with three numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Theme:
    """A kind of thing."""

    noun: str
    attributes: tuple[str, str, str]
    """Integers that every such thing has."""


def _theme(line: str) -> Theme:
    noun, attributes = line.split(":")
    first, second, third = (part.strip() for part in attributes.split(","))
    return Theme(noun.strip(), (first, second, third))


THEMES = tuple(
    map(
        _theme,
        """
museum: ticket price, yearly visitors, paintings
hotel: room count, nightly rate, parking spaces
library: book count, reading seats, opening year
theatre: seat count, stage width, premieres
stadium: capacity, field length, floodlights
bridge: span metres, traffic load, pillars
tunnel: depth metres, lane count, emergency exits
castle: tower count, wall thickness, guided tours
airport: runway length, gate count, daily flights
harbour: berth count, water depth, crane count
ferry: deck count, crossing minutes, car places
train line: stop count, top speed, daily departures
tram line: track length, wagon count, night runs
bus route: fare zones, weekly trips, vehicle age
taxi firm: fleet size, base fare, waiting minutes
car park: level count, hourly fee, charging points
bakery: loaf price, oven count, early shift
restaurant: table count, menu price, chef stars
cafe: cup price, sugar grams, terrace seats
brewery: tank count, barrel output, hop varieties
vineyard: hectares, bottle price, harvest weeks
farm: cattle count, field acres, milk litres
orchard: apple trees, cider litres, frost nights
fishery: boat count, catch tonnes, net length
forest: tree age, trail kilometres, owl nests
lake: shore length, swim temperature, trout stock
mountain: summit metres, hut beds, climbing days
glacier: ice thickness, yearly retreat, crevasse count
volcano: crater width, last eruption, tremor count
island: coast kilometres, resident count, lighthouse age
beach: sand metres, lifeguard posts, wave height
park: lawn hectares, bench count, duck pairs
zoo: enclosure count, keeper count, species
aquarium: tank litres, shark count, feeding times
hospital: bed count, surgeon count, ambulance fleet
pharmacy: shelf count, night duty, vaccine doses
school: pupil count, classroom count, teacher count
university: lecture halls, enrolled students, founding year
laboratory: microscope count, safety level, grant money
observatory: dome diameter, mirror size, clear nights
satellite: orbit minutes, antenna count, launch mass
telescope model: focal length, lens count, shipping weight
power plant: turbine count, megawatt output, chimney height
wind farm: rotor diameter, mast count, calm days
dam: reservoir volume, spillway width, concrete age
mine: shaft depth, ore tonnes, miner count
factory: assembly lines, shift length, robot count
warehouse: rack count, pallet places, forklift count
bank: branch count, loan interest, vault weight
insurance plan: monthly premium, deductible, claim days
stock fund: share price, yearly yield, holding count
currency: exchange rate, coin types, mint output
recipe: cooking minutes, ingredient count, calories
song: tempo beats, verse count, chart weeks
orchestra: violin count, concert season, conductor age
band: album count, tour dates, drummer changes
festival: tent places, stage count, ticket sales
football club: league points, goals scored, stadium season
chess player: elo rating, tournament wins, opening moves
marathon: runner count, course climb, water stations
video game: level count, download size, player score
phone model: battery hours, camera pixels, screen inches
programming language: keyword count, release year, compiler passes
""".strip().split("\n"),
    )
)
