"""Subjects of databases: three tables each; the second refers to the first, and the third to the second.

`DOMAINS` are those of valid and test tasks; `subjects` draws those of training tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Amount:
    """A column of integers, and phrases about it."""

    names: tuple[str, ...]
    """Possible names of the column."""
    low: int
    high: int
    noun: str
    """`number of pages`, after "the"."""
    over: str
    """`with more than {} pages`; like all phrases, it may be a grammar, and `{units}` stands for the units."""
    under: str
    most: str
    """`the most pages`, after "Which book has"."""
    term: str
    """An adjective for large values: `thick`."""
    units: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """A column with one of a few values."""

    names: tuple[str, ...]
    noun: str
    which: str
    """`from {}`, where `{noun}` stands for the noun."""
    values: tuple[str, ...]
    """Different in their first three letters."""


@dataclass(frozen=True, slots=True)
class Extra:
    """A column that no question is about."""

    name: str
    values: Sequence[str | int]


@dataclass(frozen=True, slots=True)
class Entity:
    """The kind of thing that a table holds."""

    names: tuple[str, ...]
    """Possible names of the table."""
    singular: str
    plural: str
    labels: Literal["people", "titles", ""]
    """Source of the rows' names; the third table has none."""
    amount: Amount
    choice: Choice
    of: str = ""
    """The preposition before a phrase about the previous table: `by`."""
    label: str = ""
    """The column with the rows' names; if empty, `name` or `title`."""
    extras: tuple[Extra, ...] = ()
    order: tuple[int, ...] = ()
    """Order of the columns, as positions in the usual order; empty for that."""


@dataclass(frozen=True, slots=True)
class Domain:
    """The subject of a database."""

    name: str
    entities: tuple[Entity, Entity, Entity]
    distractor: Entity | None = None
    """The kind of thing in a fourth table that no question is about."""
    order: tuple[int, ...] = (0, 1, 2)
    """Order of the tables."""


def _amount(names: str, low: int, high: int, noun: str, units: str, term: str, verb: str = "with") -> Amount:
    over, under = (f"{verb} {word} than {{}} {units}" for word in ("more", "fewer"))
    first, second = names.split()
    return Amount((first, second), low, high, noun, over, under, f"the most {units}", term)


def _choice(names: str, noun: str, which: str, values: str) -> Choice:
    first, second = names.split()
    return Choice((first, second), noun, which, tuple(values.replace("_", " ").split("|")))


_COUNTRIES = "Norway|Italy|Kenya|Japan|Peru|Canada"
_CITIES = "Lisbon|Dublin|Osaka|Cairo|Quito|Boston"
_DAYS = "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday"

DOMAINS = (
    Domain(
        "library",
        (
            Entity(("author", "writers"), "author", "authors", "people",
                 _amount("prizes awards_won", 0, 30, "number of prizes", "prizes", "celebrated"),
                 _choice("country nation", "country", "from {}", _COUNTRIES)),
            Entity(("book", "titles"), "book", "books", "titles",
                 _amount("pages page_count", 80, 900, "number of pages", "pages", "thick"),
                 _choice("genre category", "genre", "of the genre {}", "crime|poetry|travel|history|science|fantasy"),
                 "by"),
            Entity(("loan", "lendings"), "loan", "loans", "",
                 _amount("days duration_days", 1, 60, "number of days", "days", "long", "of"),
                 _choice("branch library_branch", "branch", "at the {} branch", "Harbour|Station|Castle|Market|Park"),
                 "of"),
        ),
    ),
    Domain(
        "football",
        (
            Entity(("club", "teams"), "club", "clubs", "titles",
                 _amount("members member_count", 200, 9000, "number of members", "members", "popular"),
                 _choice("city town", "city", "from {}", _CITIES)),
            Entity(("player", "squad"), "player", "players", "people",
                 _amount("goals goals_scored", 0, 40, "number of goals", "goals", "prolific"),
                 _choice("position role", "position", "in the position {}", "keeper|defender|midfield|wing|striker"),
                 "of"),
            Entity(("injury", "absences"), "injury", "injuries", "",
                 _amount("days days_out", 2, 120, "number of days", "days", "serious", "of"),
                 _choice("part body_part", "part of the body", "to the {}", "knee|ankle|shoulder|back|hand"), "of"),
        ),
    ),
    Domain(
        "cinema",
        (
            Entity(("studio", "producers"), "studio", "studios", "titles",
                 _amount("staff employees", 10, 900, "number of employees", "employees", "large"),
                 _choice("country home_country", "country", "from {}", _COUNTRIES)),
            Entity(("film", "movies"), "film", "films", "titles",
                 _amount("minutes running_time", 60, 210, "number of minutes", "minutes", "lengthy"),
                 _choice("genre kind", "genre", "of the genre {}", "drama|comedy|western|horror|musical|thriller"),
                 "by"),
            Entity(("screening", "shows"), "screening", "screenings", "",
                 _amount("visitors tickets_sold", 5, 400, "number of visitors", "visitors", "crowded"),
                 _choice("city place", "city", "in {}", _CITIES), "of"),
        ),
    ),
    Domain(
        "farming",
        (
            Entity(("farm", "estates"), "farm", "farms", "titles",
                 _amount("hectares area", 10, 700, "number of hectares", "hectares", "big"),
                 _choice("region county", "region", "in the region {}", "north|south|coast|highland|delta")),
            Entity(("field", "plots"), "field", "fields", "titles",
                 _amount("rows row_count", 20, 300, "number of rows", "rows", "wide"),
                 _choice("soil ground", "soil", "with the soil {}", "clay|sand|loam|chalk|peat"), "of"),
            Entity(("harvest", "yields"), "harvest", "harvests", "",
                 _amount("tonnes weight_tonnes", 1, 90, "number of tonnes", "tonnes", "rich", "of"),
                 _choice("crop produce", "crop", "with the crop {}", "wheat|barley|maize|potato|rye"), "from"),
        ),
    ),
    Domain(
        "clinic",
        (
            Entity(("ward", "departments"), "ward", "wards", "titles",
                 _amount("beds bed_count", 4, 60, "number of beds", "beds", "spacious"),
                 _choice("wing building", "wing", "in the {} wing", "east|west|north|south")),
            Entity(("doctor", "physicians"), "doctor", "doctors", "people",
                 _amount("years experience", 1, 40, "number of years of work", "years of work", "senior"),
                 _choice("field speciality", "speciality", "for the speciality {}",
                         "surgery|cardiology|pediatrics|neurology|radiology"), "of"),
            Entity(("visit", "appointments"), "visit", "visits", "",
                 _amount("minutes length", 5, 90, "number of minutes", "minutes", "extended", "of"),
                 _choice("day weekday", "day", "on {}", _DAYS), "to"),
        ),
    ),
    Domain(
        "museum",
        (
            Entity(("painter", "artists"), "painter", "painters", "people",
                 _amount("pupils students", 0, 50, "number of pupils", "pupils", "influential"),
                 _choice("country origin", "country", "from {}", _COUNTRIES)),
            Entity(("painting", "works"), "painting", "paintings", "titles",
                 _amount("visitors viewers", 100, 9000, "number of visitors", "visitors", "famous"),
                 _choice("style movement", "style", "in the style {}", "baroque|cubist|realist|gothic|abstract"),
                 "by"),
            Entity(("exhibition", "displays"), "exhibition", "exhibitions", "",
                 _amount("weeks week_count", 1, 50, "number of weeks", "weeks", "lasting", "of"),
                 _choice("city venue", "city", "in {}", _CITIES), "of"),
        ),
    ),
    Domain(
        "railway",
        (
            Entity(("line", "routes"), "line", "lines", "titles",
                 _amount("stations stops", 4, 80, "number of stations", "stations", "winding"),
                 _choice("region area", "region", "in the region {}", "north|south|coast|mountain|plain")),
            Entity(("train", "trains_run"), "train", "trains", "titles",
                 _amount("seats seat_count", 40, 900, "number of seats", "seats", "roomy"),
                 _choice("type service", "type", "of the type {}", "express|night|freight|local|steam"), "on"),
            Entity(("delay", "incidents"), "delay", "delays", "",
                 _amount("minutes minutes_late", 2, 180, "number of minutes", "minutes", "grave", "of"),
                 _choice("cause reason", "cause", "caused by {}", "snow|signal|crowd|strike|fog"), "of"),
        ),
    ),
    Domain(
        "music",
        (
            Entity(("band", "groups"), "band", "bands", "titles",
                 _amount("members member_count", 1, 14, "number of members", "members", "numerous"),
                 _choice("country nation", "country", "from {}", _COUNTRIES)),
            Entity(("album", "records"), "album", "albums", "titles",
                 _amount("tracks track_count", 5, 30, "number of tracks", "tracks", "full"),
                 _choice("genre style", "genre", "of the genre {}", "jazz|rock|folk|soul|blues|metal"), "by"),
            Entity(("sale", "purchases"), "sale", "sales", "",
                 _amount("copies copies_sold", 1, 500, "number of copies", "copies", "strong", "of"),
                 _choice("shop store", "shop", "at the shop {}", "Arcade|Corner|Central|Vinyl|Bazaar"), "of"),
        ),
    ),
)  # fmt: skip
