"""The words of the problems: each wording, name and thing belongs to one split.

Those of training problems are in `agentgym_data/calculator/training.txt`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

from agentgym_py.env.wording import read_wordings, split_words

_TRAINING = read_wordings(files("agentgym_data") / "calculator" / "training.txt")

NAMES: Mapping[str, tuple[str, ...]] = {
    "train": split_words(_TRAINING["names"]),
    "valid": ("Mira", "Nils", "Olga", "Pavel", "Rosa", "Simon", "Tessa", "Umar"),
    "test": ("Vera", "Wim", "Xenia", "Yusuf", "Zoe", "Aron", "Britta", "Cyril"),
}
GOODS: Mapping[str, tuple[str, ...]] = {
    "train": split_words(_TRAINING["goods"]),
    "valid": ("oranges", "crayons", "beads", "screws", "postcards", "muffins"),
    "test": ("lemons", "markers", "shells", "hinges", "badges", "pretzels"),
}
FOODS: Mapping[str, tuple[str, ...]] = {
    "train": split_words(_TRAINING["foods"]),
    "valid": ("semolina", "barley", "honey", "salt"),
    "test": ("polenta", "millet", "couscous", "cornmeal"),
}

_HELD_OUT: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    # things that are counted
    "stock has": {
        "valid": ("{name} owns {a} {goods}.",),
        "test": ("At first {name} counts {a} {goods}.",),
    },
    "stock boxes": {
        "valid": ("On {a} shelves of {name} lie {b} {goods} each.",),
        "test": ("{name} starts with {a} crates that hold {b} {goods} apiece.",),
    },
    "stock more": {
        "valid": ("A friend brings {name} {a} further {goods}.",),
        "test": ("Another {a} {goods} are added.",),
    },
    "stock packs": {
        "valid": ("A van delivers {a} cartons, every one with {b} {goods}.",),
        "test": ("To these come {a} sacks that hold {b} {goods} apiece.",),
    },
    "stock give": {
        "valid": ("A cousin takes {a} of the {goods} home.",),
        "test": ("Of all these, {a} {goods} break and are thrown away.",),
    },
    "stock percent": {
        "valid": ("Of the {goods} then there, {p} percent go to a school.",),
        "test": ("After that, {p} percent of whatever {goods} there are by now are returned to the maker.",),
    },
    "stock one in": {
        "valid": ("For every {k} of the {goods} one has a fault and is sorted out.",),
        "test": ("One out of {k} of the {goods} does not pass a check and is taken out.",),
    },
    "stock times": {
        "valid": ("Within a year the number of {goods} grows to {k} times what it was.",),
        "test": ("By summer there are {k} times as many {goods} as before.",),
    },
    "stock count": {
        "valid": ("What number of {goods} is left in the end?",),
        "test": ("With how many {goods} does that end?",),
    },
    "stock share": {
        "valid": ("All {goods} are split evenly between {k} tables. What number of {goods} is on one table?",),
        "test": ("They are laid out in {k} rows of equal length. With how many {goods} is a row filled?",),
    },
    "stock price": {
        "valid": ("Each one fetches {p} euros at the market. What is the total in euros?",),
        "test": ("Somebody pays {p} euros apiece for all of them. To how many euros does that come?",),
    },
    "stock weight": {
        "valid": ("One of the {goods} has a weight of {g} grams. What is the weight of all, in kilograms?",),
        "test": ("Given {g} grams apiece, to how many kilograms do the {goods} add up?",),
    },
    "stock time": {
        "valid": ("Painting one takes {m} minutes. What time do all the {goods} need, in hours?",),
        "test": ("Given {m} minutes to label one, for how many hours do the {goods} keep a worker busy?",),
    },
    # money
    "money has": {
        "valid": ("{name} owns {a} euros.",),
        "test": ("At first {name} counts {a} euros.",),
    },
    "money wage": {
        "valid": ("On {b} days {name} works for {a} hours each, and one hour pays {p} euros.",),
        "test": ("For {p} euros an hour {name} helps out on {b} days, {a} hours on each.",),
    },
    "money earn": {
        "valid": ("An aunt sends {name} {p} euros.",),
        "test": ("A further {p} euros come in.",),
    },
    "money weeks": {
        "valid": ("For {a} weeks {name} then puts {p} euros a week aside as well.",),
        "test": ("Over {a} weeks another {p} euros a week come in.",),
    },
    "money spend": {
        "valid": ("A repair costs {name} {p} euros of it.",),
        "test": ("Of this, {p} euros go on a new lamp.",),
    },
    "money buy": {
        "valid": ("For {a} friends {name} then pays {p} euros each at the cinema.",),
        "test": ("Of this, {a} plants at {p} euros apiece are paid.",),
    },
    "money tax": {
        "valid": ("A club gets {t} percent of what {name} then has.",),
        "test": ("After that, {t} percent of whatever money there is by now is lost to fees.",),
    },
    "money interest": {
        "valid": ("Within a year what {name} has grows by {t} percent.",),
        "test": ("By summer the sum is {t} percent larger than before.",),
    },
    "money left": {
        "valid": ("What sum is left in the end, in euros?",),
        "test": ("With how many euros does that end?",),
    },
    "money share": {
        "valid": ("All of it is split evenly between {k} heirs. What does one of them get, in euros?",),
        "test": ("It is paid out in {k} equal parts. To how many euros does a part come?",),
    },
    "money cents": {
        "valid": ("What sum is that in cents?",),
        "test": ("To how many cents does it come in the end?",),
    },
    # ways
    "trip far": {
        "valid": ("{name} travels {a} kilometres by bus.",),
        "test": ("At first {name} goes {a} kilometres by train.",),
    },
    "trip hours": {
        "valid": ("At {v} kilometres an hour {name} is on the road for {h} hours.",),
        "test": ("At first {name} goes {h} hours by train, which makes {v} kilometres an hour.",),
    },
    "trip leg": {
        "valid": ("There follow {m} minutes by car at {v} kilometres an hour.",),
        "test": ("A bus that makes {v} kilometres an hour is taken for another {m} minutes.",),
    },
    "trip more": {
        "valid": ("There follow {a} kilometres on a bicycle.",),
        "test": ("A taxi adds another {a} kilometres.",),
    },
    "trip walk": {
        "valid": ("There follow {w} metres on foot.",),
        "test": ("A path adds another {w} metres.",),
    },
    "trip back": {
        "valid": ("After that {name} returns by exactly the same way.",),
        "test": ("The way home is exactly as long as all this.",),
    },
    "trip days": {
        "valid": ("The same is travelled by {name} on each of {k} days.",),
        "test": ("All this is gone through {k} times in the same manner.",),
    },
    "trip length": {
        "valid": ("What is the whole distance in kilometres?",),
        "test": ("To how many kilometres does that come?",),
    },
    "trip fuel": {
        "valid": ("Given {l} litres for 100 kilometres, what does a car use for that distance, in litres?",),
        "test": ("To drive all that with {l} litres for each 100 kilometres, how many litres are burnt?",),
    },
    "trip cost": {
        "valid": ("Given {l} litres for 100 kilometres and {p} euros a litre, what is the price in euros?",),
        "test": ("With {l} litres for each 100 kilometres and {p} euros a litre, how many euros are due?",),
    },
    "trip time": {
        "valid": ("What time does that distance take at {v} kilometres an hour, in hours?",),
        "test": ("For how many hours does one travel that far at {v} kilometres an hour?",),
    },
    # areas
    "area wall": {
        "valid": ("In the flat of {name} a wall measures {a} by {b} metres.",),
        "test": ("One wall, {a} metres long and {b} metres high, is to be done by {name}.",),
    },
    "area floor": {
        "valid": ("In the flat of {name} a floor measures {a} metres by {c} centimetres.",),
        "test": ("One floor, {c} centimetres by {a} metres, is to be done by {name}.",),
    },
    "area without": {
        "valid": ("A piece that measures {d} by {e} metres stays as it is.",),
        "test": ("Of this, {d} by {e} metres are under a cupboard and need nothing.",),
    },
    "area and": {
        "valid": ("There is also a niche that measures {d} by {e} metres.",),
        "test": ("To this comes a corner of {d} by {e} metres.",),
    },
    "area rooms": {
        "valid": ("The house of {name} has {k} rooms like this.",),
        "test": ("The same is to be done {k} times over.",),
    },
    "area waste": {
        "valid": ("For waste {t} percent of the area is put on top.",),
        "test": ("By way of reserve, {t} percent is added.",),
    },
    "area size": {
        "valid": ("What is the area in square metres?",),
        "test": ("To how many square metres does that come?",),
    },
    "area price": {
        "valid": ("Given {p} euros a square metre, what is the price in euros?",),
        "test": ("At {p} euros a square metre, how many euros are due?",),
    },
    "area paint": {
        "valid": ("Given that a litre covers {k} square metres, what is needed, in litres?",),
        "test": ("One litre serves for {k} square metres; how many litres does that make?",),
    },
    # cooking
    "food has": {
        "valid": ("{name} owns a jar with {g} grams of {food}.",),
        "test": ("At first {name} weighs out {g} grams of {food}.",),
    },
    "food recipe": {
        "valid": ("{name} expects {b} guests and takes a recipe for {k} that asks for {g} grams of {food}.",),
        "test": ("For {k} eaters a dish takes {g} grams of {food}; {name} makes it for {b} eaters.",),
    },
    "food more": {
        "valid": ("There is another bag with {s} kilograms of {food}, which goes in too.",),
        "test": ("A further {s} kilograms of {food} are put in.",),
    },
    "food spoons": {
        "valid": ("There go in {a} cups of {food} as well, every one of {b} grams.",),
        "test": ("To this come {a} ladles that hold {b} grams of {food} apiece.",),
    },
    "food less": {
        "valid": ("A neighbour borrows {w} grams of the {food}.",),
        "test": ("Of this, {w} grams of {food} go to the birds.",),
    },
    "food percent": {
        "valid": ("Moths spoil {t} percent of the {food} that is there by then.",),
        "test": ("After that, {t} percent of whatever {food} there is by now is given away.",),
    },
    "food times": {
        "valid": ("Since there are more guests, {name} takes {k} times that amount of {food}.",),
        "test": ("For a feast the amount of {food} is taken {k} times.",),
    },
    "food grams": {
        "valid": ("What amount of {food} is that in the end, in grams?",),
        "test": ("To how many grams of {food} does it come?",),
    },
    "food kilograms": {
        "valid": ("What amount of {food} is that in the end, in kilograms?",),
        "test": ("To how many kilograms of {food} does it come?",),
    },
    "food bowls": {
        "valid": ("All the {food} is split evenly between {k} plates. What amount is on a plate, in grams?",),
        "test": ("It is filled into {k} equal jars. With how many grams of {food} is a jar filled?",),
    },
    "food cost": {
        "valid": ("Given {p} euros for a kilogram of {food}, what does it cost, in euros?",),
        "test": ("At {p} euros a kilogram, how many euros is the {food} worth?",),
    },
}  # fmt: skip
WORDINGS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    key: {"train": _TRAINING[key], **wordings} for key, wordings in _HELD_OUT.items()
}
"""Wordings by sentence and split; those of the train split are grammars."""

IRRELEVANT: Mapping[str, tuple[str, ...]] = {
    "train": _TRAINING["irrelevant"],
    "valid": (
        "A neighbour of {name} is {n} years old.", "{name} lives at number {n}.", "There are {n} trees in the street.",
        "The last train leaves in {n} minutes.", "A cat of {n} months looks on.", "Outside it is {n} degrees.",
    ),
    "test": (
        "{name} has read {n} books this year.", "The dog of {name} weighs {n} kilograms.",
        "A bridge near by is {n} metres long.",
        "The shop opened {n} years ago.", "On the radio they play song number {n}.", "{name} has slept {n} hours.",
    ),
}  # fmt: skip
"""Irrelevant sentences by split."""

TOLERANCE_NOTES: Mapping[str, str] = {
    "train": _TRAINING["tolerance note"][0],
    "valid": "The answer may be off by 0.01 at most.",
    "test": "Answers that are wrong by no more than 0.01 count.",
}
