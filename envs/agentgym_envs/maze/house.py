"""Random houses: rooms in a grid with doors, keys and gates; and shortest paths through them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agentgym_py.env.wording import sample_names
from agentgym_py.rng import Rng

STEPS = {"north": (0, -1), "east": (1, 0), "south": (0, 1), "west": (-1, 0)}
SIZES = {"easy": 3, "medium": 4, "hard": 5}
KEYS = {"easy": 3, "medium": 4, "hard": 4}
_EXTRA_DOORS = {"easy": 2, "medium": 3, "hard": 4}
_MADE_UP = 0.4
"""Share of made-up names in training houses, so that names must be read."""
ROOMS: Mapping[str, str] = {
    "train": "attic bakery bathroom bedroom cabin cellar chapel closet corridor den dining_room dressing_room gallery "
    "garage hall kitchen larder laundry library lobby lounge music_room nursery office pantry parlour alcove "
    "annex back_room barn bar billiard_room blue_room boathouse book_room box_room breakfast_room bunk_room "
    "buttery cafe card_room carport chamber chart_room clock_room coach_house common_room control_room "
    "courtyard court crawlspace day_room deck dovecote entrance family_room fire_room fitting_room "
    "garden_room glass_room green_room guest_room gun_room gym hayloft hobby_room hut junk_room kennel "
    "lamp_room lecture_room linen_room living_room locker_room long_room mailroom meeting_room mud_room nook "
    "organ_room outhouse paint_room passage patio plant_room pool_room post_room pump_room quiet_room "
    "reading_room red_room sauna saloon sewing_room shed shop_floor showroom sick_room silo sitting_room snug "
    "spare_room stable staff_room staircase still_room stockroom store studio study suite summer_room sunroom "
    "tack_room tea_room tool_room toilet tower treasury trophy_room tunnel veranda waiting_room ward wardrobe "
    "washroom winter_room workshop yard arcade ante_room aviary bakehouse barrack blacksmiths_shop board_room "
    "bottle_room bower bridge_room bunker bungalow bureau candle_room carpentry cave chemists_shop china_room "
    "choir_loft cider_press cinema classroom clinic coffee_corner colonnade computer_room copy_room cottage "
    "council_room counting_house dance_floor diner dispensary dock dome dungeon entry factory_floor farmhouse "
    "ferry_landing fish_pond fort guardhouse hangar harness_shop haven hen_house herb_garden jail kiosk "
    "lake_house latrine lift lodge maids_quarters manger mint_house monks_cell morgue north_wing nuns_cell "
    "orangery orchard outlook parade_ground pavilion pier pigsty plaza pond_side pottery prayer_niche "
    "printing_shop prison queens_bedchamber quay rectory refuge residence rest_area roof_garden rose_garden "
    "sail_loft sand_pit sanctuary servants_quarters shelter shrine smoking_corner solarium south_wing spa "
    "stage stairwell stall strong_room swimming_bath tailors_shop tavern tent terrace theatre ticket_booth "
    "tomb top_floor toy_corner trading_post transept tree_house turret vegetable_patch vestibule vicarage "
    "villa vinery walkway watch_post west_wing wharf wigwam windmill woodshed zoo",
    "valid": "armoury ballroom cloakroom conservatory crypt dairy darkroom dormitory engine_room forge foyer "
    "greenhouse guardroom herb_room infirmary landing map_room mill observatory playroom porch refectory robing_room "
    "salon scullery",
    "test": "apse archive atrium boiler_room brewery canteen cloister coal_store drawing_room field_office "
    "game_room grotto harness_room ice_house keep loft mews muniment_room oratory oven_room rotunda sacristy smithy "
    "solar vault",
}
METALS: Mapping[str, str] = {
    "train": "brass copper iron silver tin gold aluminium cobalt titanium tungsten mercury magnesium amber ivory jade "
    "marble granite slate oak pine cedar birch elm ash maple walnut glass crystal clay bone coral pearl ruby "
    "emerald sapphire opal topaz onyx garnet quartz flint chalk amethyst ebony willow cherry basalt beech "
    "bamboo brick cast_iron concrete copal diamond elder enamel felt ferrite fir gilt hazel hickory horn "
    "indium iridium jasper jet larch leather lime limestone mahogany mica moonstone nacre neon obsidian palm "
    "paper plaster poplar porcelain pyrite radium resin rock rosewood rubber salt sandstone satin shell silk "
    "silicon spruce stone straw sulphur tantalum teak terracotta thorn tourmaline turquoise vanadium velvet "
    "wax wicker wood wool yew zircon aspen agate alabaster alder asphalt balsa barium beeswax beryllium "
    "bismuth blackthorn boxwood bristle burlap cadmium calcium camphor cane canvas carbon cardboard celluloid "
    "ceramic cesium chalcedony chestnut chromite cinnabar citrine clinker coal cork corundum cotton cypress "
    "denim dogwood dolomite electrum fabric faience feather fibre fleece foil fur galena gallium gneiss "
    "graphite gravel gypsum heather hematite hemlock hemp hessian holly hornbeam ice ironwood jute kaolin "
    "kelp lacquer lapis lava laurel lichen lilac linen linoleum lithium malachite manganese meerschaum "
    "molybdenum moss mud nephrite niobium nylon oakum olivine osmium osier paraffin parchment peat pebble "
    "peridot plastic plexiglas plywood polyester porphyry potassium pumice putty quicksilver raffia rattan "
    "reed rhodium rope ruthenium sand scandium selenium serpentine shale silverwood sinew snow soapstone "
    "sodium spinel stucco suede sugar syenite talc tar tarmac tinsel thatch tile travertine tuff tulle twine "
    "umber uranium vellum vinyl wenge whalebone wire wolfram yarn ytterbium yttrium zirconium blue_glass "
    "black_marble white_marble red_clay green_jade red_oak white_oak black_pearl smoked_glass bog_oak "
    "cut_glass plate_glass raw_silk white_gold red_gold rose_gold black_iron pig_iron sheet_copper blue_slate "
    "green_slate grey_granite red_granite brown_leather red_leather spun_glass river_stone sea_coral "
    "burnt_clay red_brick yellow_brick",
    "valid": "bronze steel lead nickel",
    "test": "zinc pewter chrome platinum",
}


@dataclass(frozen=True, slots=True)
class House:
    """A house of numbered rooms; a key opens the gate of the same metal."""

    rooms: tuple[str, ...]
    """Names of the rooms."""
    doors: tuple[Mapping[str, int], ...]
    """For each room, the neighbour by direction."""
    start: int
    keys: Mapping[str, int]
    """Initial room of each key, by metal."""
    gates: Mapping[int, str]
    """Metal of the gate in a room, at most one per room."""
    metal: str
    """The metal of the gate to open."""

    @property
    def gate(self) -> int:
        """The room of the gate to open."""
        return next(room for room, metal in self.gates.items() if metal == self.metal)


def draw_house(rng: Rng, split: str, difficulty: str) -> House:
    """Draw a house in which the start, the right key and its gate lie apart."""
    size, count = SIZES[difficulty], KEYS[difficulty]
    names = tuple(_sample(rng, ROOMS, split, size * size))
    doors = _doors(rng, size, _EXTRA_DOORS[difficulty])
    while True:
        places = rng.sample(range(size * size), 1 + 2 * count)
        metals = _sample(rng, METALS, split, count)
        start, metal = places[0], metals[0]
        keys, gates = dict(zip(metals, places[1:], strict=False)), dict(zip(places[1 + count :], metals, strict=True))
        house = House(names, doors, start, keys, gates, metal)
        if min(len(path(house, start, keys[metal])), len(path(house, keys[metal], house.gate))) >= size - 1:
            return house


def _sample(rng: Rng, words: Mapping[str, str], split: str, count: int) -> list[str]:
    """Draw different words of a split; in training houses some are made up."""
    if split == "train":
        held_out = f"{words['valid']} {words['test']}".split()
        names = sample_names(rng, words[split].split(), count, _MADE_UP, avoid=held_out)
    else:
        names = rng.sample(words[split].split(), count)
    return [name.replace("_", " ") for name in names]


def _doors(rng: Rng, size: int, extra: int) -> tuple[Mapping[str, int], ...]:
    """A spanning tree of the grid, drawn by a random walk that backtracks, and some extra doors."""
    doors: list[dict[str, int]] = [{} for _ in range(size * size)]
    trail, visited = [0], {0}
    while trail:
        fresh = [(direction, room) for direction, room in _around(trail[-1], size) if room not in visited]
        if not fresh:
            trail.pop()
            continue
        direction, room = rng.choice(fresh)
        _join(doors, trail[-1], direction, room)
        trail.append(room)
        visited.add(room)
    pairs = [(a, direction, b) for a in range(size * size) for direction, b in _around(a, size) if a < b]
    walls = [(a, direction, b) for a, direction, b in pairs if direction not in doors[a]]
    for a, direction, b in rng.sample(walls, min(extra, len(walls))):
        _join(doors, a, direction, b)
    return tuple({direction: door[direction] for direction in STEPS if direction in door} for door in doors)


def _around(room: int, size: int) -> list[tuple[str, int]]:
    x, y = room % size, room // size
    cells = ((direction, x + dx, y + dy) for direction, (dx, dy) in STEPS.items())
    return [(direction, b * size + a) for direction, a, b in cells if 0 <= a < size and 0 <= b < size]


def _join(doors: list[dict[str, int]], a: int, direction: str, b: int) -> None:
    doors[a][direction] = b
    dx, dy = STEPS[direction]
    doors[b][next(opposite for opposite, step in STEPS.items() if step == (-dx, -dy))] = a


def path(house: House, start: int, goal: int) -> list[str]:
    """Return the directions of a shortest path."""
    return path_to_nearest(house.doors, start, lambda room: room == goal) or []


def path_to_nearest(
    doors: Sequence[Mapping[str, int]],
    start: int,
    is_goal: Callable[[int], bool],
    may_cross: Callable[[int], bool] | None = None,
) -> list[str] | None:
    """Return the directions of a shortest path to a goal, through rooms that `may_cross` allows; None without one."""
    origin: dict[int, tuple[int, str]] = {start: (-1, "")}
    queue = deque([start])
    while queue:
        room = queue.popleft()
        if is_goal(room):
            return _directions(origin, room)
        if may_cross is not None and not may_cross(room):
            continue
        for direction, other in doors[room].items():
            if other not in origin:
                origin[other] = room, direction
                queue.append(other)
    return None


def _directions(origin: Mapping[int, tuple[int, str]], room: int) -> list[str]:
    steps: list[str] = []
    while origin[room][0] >= 0:
        room, direction = origin[room]
        steps.append(direction)
    return steps[::-1]
