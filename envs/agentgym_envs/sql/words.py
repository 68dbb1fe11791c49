"""Names for the rows of a database, with separate lists for each split."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from agentgym_py.env.wording import made_up_name
from agentgym_py.rng import Rng

_MADE_UP = 0.23
"""Share of made-up words in names of the train split, so that two names of five have one."""
_TRAINING_NAMES = 2000

FIRST: Mapping[str, str] = {
    "train": "Ada Bruno Clara Dario Elena Felix Greta Hugo Ines Jonas Karin Luca Mara Nils Olga Pavel Rosa Stefan "
    "Tilda Viktor Abel Adele Aidan Alba Alma Amir Anja Arthur Astrid Axel Beatrix Ben Bianca Birgit Bjorn Bob Brenda "
    "Britta Carl Carmen Carol Casper Celia Chloe Claus Colin Conrad Cyril Dana Daphne Derek Diego Dina Dirk Dominic "
    "Dora Edgar Edwin Elias Elsa Enzo Erik Erna Esther Ethan Eva Fabio Farid Fatima Fay Fergus Finn Freya Fritz Gerda "
    "Gideon Gina Gita Gustav Hamid Harold Hazel Heidi Helga Henrik Hilda Holly Igor Ilse Ingrid Iris Isaac Ismail "
    "Jacek Jana Jasper Jean Jelena Joel Joy Julia Juri Kai Kamal Karl Kate Kerstin Kim Klaus Kurt Lars Laura Leila Leo "
    "Liam Lidia Lorna Lotte Louis Luz Magda Malik Marco Maria Matti Maya Mira Mona Nadia Nasir Neil Nina Noah Nora "
    "Omar Oscar Otto Owen Paula Peggy Petra Philip Pia Quentin Rahel Ralf Rana Raul Rene Rita Robin Rolf Ruth Samir "
    "Sara Selma Sigrid Simon Sofia Sven Tamar Tanja Thea Theo Tomas Tove Ulla Umberto Ursula Vera Vito Wanda Werner "
    "Willem Wilma Xavier Yann Yara Yusuf Zara Zeno Zoe",
    "valid": "Anton Berta Cecil Doris Emil Flora Georg Hanna Ivan Judith",
    "test": "Agnes Boris Cora David Edith Frank Gloria Henry Irene Jakob",
}
LAST: Mapping[str, str] = {
    "train": "Lund Marek Novak Olsen Prieto Quint Rossi Silva Torres Ulrich Vogel Weiss Young Zeller Abbot Brandt "
    "Castro Duval Aalto Ahmed Alvarez Amann Arden Ayala Bachmann Baldwin Barros Becker Bell Berger Bianchi Blake Bloom "
    "Bosch Bowen Braun Brooks Bryant Burke Byrne Calvo Campos Carver Chavez Chen Clarke Conti Cortez Craig Cruz Dahl "
    "Dalton Davis Decker Dixon Doyle Drake Dunn Eaton Eder Ellis Engel Esposito Evans Falk Farley Fiala Fischer Flynn "
    "Forster Fox Franco Frost Fuchs Gallo Garcia Gibson Glenn Goetz Gomez Grant Gray Greco Haas Hagen Hahn Hansen "
    "Harper Hart Hassan Heller Herrera Hirsch Hobbs Hoffman Horvat Huber Hughes Ibsen Irwin Jacobs Jansson Jarvis "
    "Jensen Kaiser Kaplan Kaur Kemp Khan Kiss Klein Koch Kovac Kramer Krause Kumar Lambert Larsen Lehmann Leone "
    "Lindgren "
    "Lopez Luna Madsen Maier Mancini Marsh Martin Mayer Meier Mendez Miller Molnar Moreno Morris Muller Murphy Nagy "
    "Nash Neumann Newton Nielsen Nolan Nunes Oliver Ortega Osman Otte Pacheco Palmer Pavlov Perez Perry Popov Porter "
    "Price Quinn Reed Reyes Ricci Riley Rivera Robson Romero Roth Rubio Ryan Salazar Santos Sato Schmidt Scott Serra "
    "Shaw Simmons Singh Sokolov Soto Stein Stone Sutton Szabo Takeda Taylor Thorne Tucker Turner Unger Vega Vidal "
    "Wagner "
    "Walsh Ward Weber Winter Wolf Wright Yilmaz Zamora Ziegler",
    "valid": "Eklund Ferrer Gruber Holm Ivers Jansen Keller Lorenz",
    "test": "Moser Nyberg Orlov Peters Ramos Sander Toledo Varga",
}
FRONT: Mapping[str, str] = {
    "train": "Amber Broken Copper Distant Empty Frozen Golden Hidden Iron Jolly Lonely Misty Narrow Open Painted Quiet "
    "Rising Silver Tall Upper Blue Red White Black Yellow Purple Scarlet Ivory Azure Pale Dark Shining Burning Flying "
    "Dancing Singing Sleeping Running Falling Wandering Laughing Waiting Turning Floating Lost Forgotten Secret Sacred "
    "Holy Royal Noble Humble Brave Bold Wild Tame Swift Slow Steady Restless Gentlest Sweet Sour Salty Warm Cold Icy "
    "Snowy Rainy Sunny Windy Stormy Cloudy Dry Wet Deep Shallow High Low Long Short Wide Thin Thick Round Square Flat "
    "Sharp Smooth Rough Soft Hard Heavy Light New Old Young Modern Last First Second Third Single Twin Triple Seven "
    "Nine Hundred Thousand Northern Southern Eastern Western Lower Middle Outer Little Big Great Grand Giant "
    "Tiny Mighty Perfect Plain Simple Strange Curious Famous Merry Proud Wise Wooden Stone Glass Steel Velvet Silken "
    "Crystal Emerald Ruby Pearl Coral Marble Granite Oaken Mossy Leafy Grassy Sandy Rocky Muddy Foggy",
    "valid": "Ancient Bright Crooked Dusty Early Fallen Gentle Hollow",
    "test": "Bitter Clever Double Endless Final Green Happy Inner",
}
BACK: Mapping[str, str] = {
    "train": "Anchor Bridge Canyon Door Echo Forest Garden Island Journey Kingdom Lantern Meadow Night Orchard "
    "Palace River Shadow Tower Valley Acorn Apple Arch Avenue Badger Balcony Barrel Basket Bay Bear Birch Boat Bottle "
    "Branch Breeze Brook Bucket Candle Cape Carpet Cat Cave Chair Chapel Cherry Chimney Circle Clock Cloud Coast Comet "
    "Cottage Creek Crow Crown Cup Dawn Deer Dove Dragon Drum Duck Eagle Elm Falcon Fern Fire Flag Flame Flower "
    "Flute Ford Fountain Fox Goose Grove Hammer Hare Harp Hawk Hedge Heron Hour House Inn Ivy Jewel Jug Kettle Key "
    "Knot "
    "Ladder Lane Lark Leaf Lily Lion Lodge Maple Mask Maze Mill Mirror Mole Moon Morning Mountain Needle Nest "
    "Oak Ocean Otter Owl Path Peak Pebble Pillar Pine Pond Pool Prairie Quarry Rabbit Raven Reef Ridge Ring Road Robin "
    "Rock Roof Rope Rose Sail Sea Ship Shore Sky Snow Spring Square Stag Star Stork Storm Stream Street Summer Sun "
    "Swan "
    "Table Thistle Thorn Tide Tree Trumpet Tulip Tunnel Vine Violet Wagon Wall Water Wave Well Wheel Willow Wind "
    "Window "
    "Winter Wolf Wood Wren Yard",
    "valid": "Arrow Beacon Castle Desert Engine Feather Glacier Hill",
    "test": "Bell Cliff Dream Ember Field Gate Horizon Lake",
}


@cache
def people(split: str) -> tuple[str, ...]:
    """Return every first name with every last name; for training a part of those, and made-up names."""
    return _names(split, FIRST, LAST)


@cache
def titles(split: str) -> tuple[str, ...]:
    """Return two-word names of books, farms, trains; for training a part of those, and made-up names."""
    return _names(split, FRONT, BACK)


def _names(split: str, first: Mapping[str, str], last: Mapping[str, str]) -> tuple[str, ...]:
    if split == "train":
        return _training_names(first, last)
    return tuple(f"{front} {back}" for front in first[split].split() for back in last[split].split())


def _training_names(first: Mapping[str, str], last: Mapping[str, str]) -> tuple[str, ...]:
    rng, pools = Rng("sql", "names", first["train"]), [first["train"].split(), last["train"].split()]
    held_out = {word.lower() for words in (first, last) for split in ("valid", "test") for word in words[split].split()}
    names: dict[str, None] = {}
    while len(names) < _TRAINING_NAMES:
        parts = [
            made_up_name(rng, held_out).capitalize() if rng.uniform() < _MADE_UP else rng.choice(pool) for pool in pools
        ]
        names[" ".join(parts)] = None
    return tuple(names)
