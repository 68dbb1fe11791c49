"""The words of rows; words that name things belong to one split each, the train split has more of all others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentgym_envs.tools import training_words as training


@dataclass(frozen=True, slots=True)
class Words:
    """The names of one split; no other split uses them."""

    places: tuple[str, ...]
    """Beginnings of city names."""
    surnames: tuple[str, ...]
    films: tuple[str, ...]
    """Nouns of film titles."""
    topics: tuple[str, ...]
    """Topics of papers."""
    goods: tuple[str, ...]
    """Products of the shop."""
    meetings: tuple[str, ...]
    """Topics of events."""
    things: tuple[str, ...]
    """Proper names of the entries behind the themed tools."""


def _words(places: str, surnames: str, films: str, topics: str, goods: str, meetings: str, things: str) -> Words:
    topic_list, meeting_list = (tuple(part.strip() for part in text.split(",")) for text in (topics, meetings))
    return Words(
        tuple(places.split()),
        tuple(surnames.split()),
        tuple(films.split()),
        topic_list,
        tuple(goods.split()),
        meeting_list,
        tuple(things.split()),
    )


WORDS: Mapping[str, Words] = {
    "train": _words(
        training.PLACES,
        training.SURNAMES,
        training.FILMS,
        training.TOPICS,
        training.GOODS,
        training.MEETINGS,
        training.THINGS,
    ),
    "valid": _words(
        "Amber Bracken Copper Drift Ember Fern Gull Heron Ivy Jade Kestrel Lime Mist Nettle",
        "Almeida Brandt Corbin Devlin Engel Fischer Grieg Haddad Ivanov Jokinen Keller Laurent Moreau Nakamura "
        "Osei Palmer Ricci Svensson Torres Vogel Weiss Ziegler",
        "Carnival Ocean Train Painter Valley Signal Summer Ladder Kingdom Candle Border Storm Market Whisper Circle "
        "Horizon Anchor Village Rainbow Portrait",
        "glacier melt, machine translation, bridge vibration, honey bees, tax evasion, cloud physics, "
        "prime gaps, gene editing, old maps, ocean currents, crowd safety, wheat rust, image search, child language",
        "tent saucepan scarf printer ladder candle toaster bench hammer vase wallet jug",
        "press briefing, garden party, fire inspection, chess evening, launch rehearsal, parents evening, "
        "eye test, contract talk, swim lesson, quiz night, stock count, cooking class",
        "Albatross Bluebell Citadel Dynamo Everest Firefly Gemini Harvest Icarus Jubilee Kodiak Lotus",
    ),
    "test": _words(
        "Ash Bramble Crane Dove Eagle Flint Granite Holly Ink Jackdaw Kite Lark Moss Night",
        "Andersen Bianchi Carvalho Dubois Everly Ferrari Gallo Hansen Imai Jovanovic Khan Lopez Meyer Nilsen "
        "Ortega Popov Rossi Schmidt Thorsen Vidal Wagner Zhang",
        "Lighthouse Meadow Violin Engine Castle Stranger Autumn Diary Comet Harvest Tunnel Balcony Sailor Temple "
        "Puzzle Canyon Postcard Whale Ballroom Frontier",
        "volcanic ash, query planning, dark matter, forest fires, sign language, wing design, kidney stones, "
        "error codes, urban noise, rice genetics, sea ice, robot grasping, fair division, folk songs",
        "suitcase bicycle curtain guitar helmet keyboard oven racket sofa telescope broom fan",
        "wine tasting, union meeting, flu jab, piano lesson, museum tour, site visit, alumni dinner, "
        "debate round, car service, film night, charity run, language exchange",
        "Atlas Bonanza Corona Delphi Eclipse Fortuna Granada Hermes Isolde Juno Karma Lyra",
    ),
}

PLACE_ENDINGS = ("ford", "ton", "wick", "haven", "mere", "bridge", "field", "stead", "moor", "gate", "by", "port")
COUNTRIES = ("Avaria", "Belmark", "Corvia", "Dunland", "Estria")
TIME_ZONES = ("UTC-5", "UTC-3", "UTC+0", "UTC+1", "UTC+2", "UTC+3", "UTC+8")
SKIES = ("clear", "sunny spells", "cloudy", "overcast", "light rain", "heavy rain", "fog", "sleet", "snow", "thunder")
FIRST_NAMES = (
    "Ada", "Boris", "Clara", "David", "Elena", "Felix", "Greta", "Hugo", "Ines", "Jonas", "Karin", "Leon", "Mira",
    "Nils", "Olga", "Pavel", "Rosa", "Stefan", "Tilda", "Viktor", "Wanda", "Yusuf",
)  # fmt: skip
FILM_STARTS = ("The Last", "The Silent", "A Distant", "The Golden", "Beyond the", "The Hidden", "Return to the", "Our")
GENRES = ("comedy", "drama", "thriller", "western", "musical", "horror", "romance", "documentary")
CHARACTERS = ("the captain", "a detective", "the nurse", "a thief", "the mayor", "a pilot", "the twin", "a ghost")
PAPER_STARTS = ("A Survey of", "Towards", "Notes on", "Measuring", "Modelling", "The Limits of", "New Data on")
VENUES = ("Annals", "Letters", "Proceedings", "Quarterly", "Transactions", "Reports")
FIELDS = ("biology", "physics", "linguistics", "computing", "geology", "economics", "medicine", "engineering")
INSTITUTIONS = ("Institute", "Academy", "University", "Polytechnic", "Observatory", "College")
COLOURS = ("red", "blue", "green", "black", "white", "grey", "oak", "steel")
MAKERS = ("Brightway", "Cornerstone", "Everwell", "Foxhill", "Handel & Co", "Ostra", "Pinnacle", "Tamsin")
CARRIERS = ("RedPost", "SwiftLine", "ParcelBee", "NordFreight", "Hermione", "Cargonaut")
STATUSES = ("processing", "sent", "delivered", "cancelled", "returned")
ROOMS = ("Basement", "Library", "Terrace", "Room 12", "Room 27", "Hall", "Studio", "Kitchen", "Attic", "Lounge")


@dataclass(frozen=True, slots=True)
class Common:
    """Words of rows that splits share."""

    first_names: tuple[str, ...]
    countries: tuple[str, ...]
    film_starts: tuple[str, ...]
    paper_starts: tuple[str, ...]
    venues: tuple[str, ...]
    colours: tuple[str, ...]
    makers: tuple[str, ...]
    carriers: tuple[str, ...]
    rooms: tuple[str, ...]


_HELD_OUT = Common(FIRST_NAMES, COUNTRIES, FILM_STARTS, PAPER_STARTS, VENUES, COLOURS, MAKERS, CARRIERS, ROOMS)
COMMON: Mapping[str, Common] = {
    "train": Common(
        (*FIRST_NAMES, *training.FIRST_NAMES.split()),
        tuple(training.COUNTRIES.split()),
        *(
            tuple(text.split(", "))
            for text in (
                training.FILM_STARTS,
                training.PAPER_STARTS,
                training.VENUES,
                training.COLOURS,
                training.MAKERS,
                training.CARRIERS,
                training.ROOMS,
            )
        ),
    ),
    "valid": _HELD_OUT,
    "test": _HELD_OUT,
}
"""Split to its shared words; the train split has all those of the others, and more."""
