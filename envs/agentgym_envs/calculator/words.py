"""The words of the problems: each wording, name and thing belongs to one split."""

from __future__ import annotations

from collections.abc import Mapping

NAMES: Mapping[str, tuple[str, ...]] = {
    "train": ("Ana", "Bruno", "Carla", "David", "Elena", "Farid", "Greta", "Hugo", "Ines", "Jonas", "Katya", "Liam"),
    "valid": ("Mira", "Nils", "Olga", "Pavel", "Rosa", "Simon", "Tessa", "Umar"),
    "test": ("Vera", "Wim", "Xenia", "Yusuf", "Zoe", "Aron", "Britta", "Cyril"),
}
GOODS: Mapping[str, tuple[str, ...]] = {
    "train": ("apples", "pencils", "candles", "buttons", "marbles", "tiles", "rolls", "stamps", "bolts", "tulips"),
    "valid": ("oranges", "crayons", "beads", "screws", "postcards", "muffins"),
    "test": ("lemons", "markers", "shells", "hinges", "badges", "pretzels"),
}
FOODS: Mapping[str, tuple[str, ...]] = {
    "train": ("flour", "rice", "sugar", "cocoa", "butter", "oatmeal"),
    "valid": ("semolina", "barley", "honey", "salt"),
    "test": ("polenta", "millet", "couscous", "cornmeal"),
}

WORDINGS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    # things that are counted
    "stock has": {
        "train": ("{name} has {a} {goods}.", "There are {a} {goods} in the shop of {name}."),
        "valid": ("{name} owns {a} {goods}.",),
        "test": ("At first {name} counts {a} {goods}.",),
    },
    "stock boxes": {
        "train": ("{name} fills {a} boxes with {b} {goods} each.", "{name} has {a} bags, and {b} {goods} in each."),
        "valid": ("On {a} shelves of {name} lie {b} {goods} each.",),
        "test": ("{name} starts with {a} crates that hold {b} {goods} apiece.",),
    },
    "stock more": {
        "train": ("{name} buys {a} more {goods}.", "Then {name} gets {a} more {goods}."),
        "valid": ("A friend brings {name} {a} further {goods}.",),
        "test": ("Another {a} {goods} are added.",),
    },
    "stock packs": {
        "train": ("Then {a} packs of {b} {goods} each arrive.", "{name} buys {a} packs with {b} {goods} in each."),
        "valid": ("A van delivers {a} cartons, every one with {b} {goods}.",),
        "test": ("To these come {a} sacks that hold {b} {goods} apiece.",),
    },
    "stock give": {
        "train": ("{name} gives away {a} of the {goods}.", "{a} of the {goods} are lost."),
        "valid": ("A cousin takes {a} of the {goods} home.",),
        "test": ("Of all these, {a} {goods} break and are thrown away.",),
    },
    "stock percent": {
        "train": ("Then {p} percent of the {goods} are sold.", "{name} sells {p} percent of the {goods}."),
        "valid": ("Of the {goods} then there, {p} percent go to a school.",),
        "test": ("After that, {p} percent of all {goods} so far are returned to the maker.",),
    },
    "stock one in": {
        "train": ("One in every {k} of the {goods} is bad and is thrown out.",),
        "valid": ("For every {k} of the {goods} one has a fault and is sorted out.",),
        "test": ("One out of {k} of the {goods} does not pass a check and is taken out.",),
    },
    "stock times": {
        "train": ("A month later {name} has {k} times as many {goods}.",),
        "valid": ("Within a year the number of {goods} grows to {k} times what it was.",),
        "test": ("By summer there are {k} times as many {goods} as before.",),
    },
    "stock count": {
        "train": ("How many {goods} does {name} have now?", "How many {goods} are there now?"),
        "valid": ("What number of {goods} is left in the end?",),
        "test": ("With how many {goods} does that end?",),
    },
    "stock share": {
        "train": ("The {goods} are shared equally among {k} children. How many {goods} does each child get?",),
        "valid": ("All {goods} are split evenly between {k} tables. What number of {goods} is on one table?",),
        "test": ("They are laid out in {k} rows of equal length. With how many {goods} is a row filled?",),
    },
    "stock price": {
        "train": ("All the {goods} are sold for {p} euros each. How many euros does {name} get?",),
        "valid": ("Each one fetches {p} euros at the market. What is the total in euros?",),
        "test": ("Somebody pays {p} euros apiece for all of them. To how many euros does that come?",),
    },
    "stock weight": {
        "train": ("Each weighs {g} grams. How many kilograms do the {goods} weigh together?",),
        "valid": ("One of the {goods} has a weight of {g} grams. What is the weight of all, in kilograms?",),
        "test": ("Given {g} grams apiece, to how many kilograms do the {goods} add up?",),
    },
    "stock time": {
        "train": ("It takes {m} minutes to wrap one. How many hours does it take to wrap all the {goods}?",),
        "valid": ("Painting one takes {m} minutes. What time do all the {goods} need, in hours?",),
        "test": ("Given {m} minutes to label one, for how many hours do the {goods} keep a worker busy?",),
    },
    # money
    "money has": {
        "train": ("{name} has {a} euros.", "{name} has saved {a} euros."),
        "valid": ("{name} owns {a} euros.",),
        "test": ("At first {name} counts {a} euros.",),
    },
    "money wage": {
        "train": ("{name} works {a} hours a day on {b} days and is paid {p} euros an hour.",),
        "valid": ("On {b} days {name} works for {a} hours each, and one hour pays {p} euros.",),
        "test": ("For {p} euros an hour {name} helps out on {b} days, {a} hours on each.",),
    },
    "money earn": {
        "train": ("{name} earns {p} euros more.", "Then {name} is given {p} euros."),
        "valid": ("An aunt sends {name} {p} euros.",),
        "test": ("A further {p} euros come in.",),
    },
    "money weeks": {
        "train": ("In each of the next {a} weeks {name} gets {p} euros more.",),
        "valid": ("For {a} weeks {name} then puts {p} euros a week aside as well.",),
        "test": ("Over {a} weeks another {p} euros a week come in.",),
    },
    "money spend": {
        "train": ("{name} spends {p} euros on shoes.", "{name} pays {p} euros for a ticket."),
        "valid": ("A repair costs {name} {p} euros of it.",),
        "test": ("Of this, {p} euros go on a new lamp.",),
    },
    "money buy": {
        "train": ("{name} buys {a} books for {p} euros each.",),
        "valid": ("For {a} friends {name} then pays {p} euros each at the cinema.",),
        "test": ("Of this, {a} plants at {p} euros apiece are paid.",),
    },
    "money tax": {
        "train": ("Of the money, {t} percent goes away as tax.", "{name} gives {t} percent of the money to charity."),
        "valid": ("A club gets {t} percent of what {name} then has.",),
        "test": ("After that, {t} percent of all the money so far is lost to fees.",),
    },
    "money interest": {
        "train": ("The bank adds {t} percent interest to the money.",),
        "valid": ("Within a year what {name} has grows by {t} percent.",),
        "test": ("By summer the sum is {t} percent larger than before.",),
    },
    "money left": {
        "train": ("How many euros does {name} have now?",),
        "valid": ("What sum is left in the end, in euros?",),
        "test": ("With how many euros does that end?",),
    },
    "money share": {
        "train": ("The money is shared equally among {k} people. How many euros does each one get?",),
        "valid": ("All of it is split evenly between {k} heirs. What does one of them get, in euros?",),
        "test": ("It is paid out in {k} equal parts. To how many euros does a part come?",),
    },
    "money cents": {
        "train": ("How many cents is that?",),
        "valid": ("What sum is that in cents?",),
        "test": ("To how many cents does it come in the end?",),
    },
    # ways
    "trip far": {
        "train": ("{name} rides {a} kilometres.", "{name} drives {a} kilometres."),
        "valid": ("{name} travels {a} kilometres by bus.",),
        "test": ("At first {name} goes {a} kilometres by train.",),
    },
    "trip hours": {
        "train": ("{name} drives for {h} hours at {v} kilometres an hour.",),
        "valid": ("At {v} kilometres an hour {name} is on the road for {h} hours.",),
        "test": ("At first {name} goes {h} hours by train, which makes {v} kilometres an hour.",),
    },
    "trip leg": {
        "train": ("Then {name} drives for {m} minutes at {v} kilometres an hour.",),
        "valid": ("There follow {m} minutes by car at {v} kilometres an hour.",),
        "test": ("A bus that makes {v} kilometres an hour is taken for another {m} minutes.",),
    },
    "trip more": {
        "train": ("After a rest {name} goes on for {a} kilometres.",),
        "valid": ("There follow {a} kilometres on a bicycle.",),
        "test": ("A taxi adds another {a} kilometres.",),
    },
    "trip walk": {
        "train": ("Then {name} walks {w} metres.",),
        "valid": ("There follow {w} metres on foot.",),
        "test": ("A path adds another {w} metres.",),
    },
    "trip back": {
        "train": ("{name} goes the whole way back again.",),
        "valid": ("After that {name} returns by exactly the same way.",),
        "test": ("The way home is exactly as long as all this.",),
    },
    "trip days": {
        "train": ("{name} does all of this on {k} days.",),
        "valid": ("The same is travelled by {name} on each of {k} days.",),
        "test": ("All this is gone through {k} times in the same manner.",),
    },
    "trip length": {
        "train": ("How many kilometres is that in all?",),
        "valid": ("What is the whole distance in kilometres?",),
        "test": ("To how many kilometres does that come?",),
    },
    "trip fuel": {
        "train": ("A car needs {l} litres of fuel for 100 kilometres. How many litres is that for the whole way?",),
        "valid": ("Given {l} litres for 100 kilometres, what does a car use for that distance, in litres?",),
        "test": ("To drive all that with {l} litres for each 100 kilometres, how many litres are burnt?",),
    },
    "trip cost": {
        "train": ("A car needs {l} litres for 100 kilometres at {p} euros a litre. How many euros is that in all?",),
        "valid": ("Given {l} litres for 100 kilometres and {p} euros a litre, what is the price in euros?",),
        "test": ("With {l} litres for each 100 kilometres and {p} euros a litre, how many euros are due?",),
    },
    "trip time": {
        "train": ("How many hours does the same way take at {v} kilometres an hour?",),
        "valid": ("What time does that distance take at {v} kilometres an hour, in hours?",),
        "test": ("For how many hours does one travel that far at {v} kilometres an hour?",),
    },
    # areas
    "area wall": {
        "train": ("{name} paints a wall of {a} by {b} metres.",),
        "valid": ("In the flat of {name} a wall measures {a} by {b} metres.",),
        "test": ("One wall, {a} metres long and {b} metres high, is to be done by {name}.",),
    },
    "area floor": {
        "train": ("{name} tiles a floor that is {a} metres long and {c} centimetres wide.",),
        "valid": ("In the flat of {name} a floor measures {a} metres by {c} centimetres.",),
        "test": ("One floor, {c} centimetres by {a} metres, is to be done by {name}.",),
    },
    "area without": {
        "train": ("A part of {d} by {e} metres is left out.",),
        "valid": ("A piece that measures {d} by {e} metres stays as it is.",),
        "test": ("Of this, {d} by {e} metres are under a cupboard and need nothing.",),
    },
    "area and": {
        "train": ("Another part of {d} by {e} metres comes to it.",),
        "valid": ("There is also a niche that measures {d} by {e} metres.",),
        "test": ("To this comes a corner of {d} by {e} metres.",),
    },
    "area rooms": {
        "train": ("There are {k} such rooms.",),
        "valid": ("The house of {name} has {k} rooms like this.",),
        "test": ("The same is to be done {k} times over.",),
    },
    "area waste": {
        "train": ("To be safe {name} reckons with {t} percent more.",),
        "valid": ("For waste {t} percent of the area is put on top.",),
        "test": ("By way of reserve, {t} percent is added.",),
    },
    "area size": {
        "train": ("How many square metres is that?",),
        "valid": ("What is the area in square metres?",),
        "test": ("To how many square metres does that come?",),
    },
    "area price": {
        "train": ("A square metre costs {p} euros. How many euros is that in all?",),
        "valid": ("Given {p} euros a square metre, what is the price in euros?",),
        "test": ("At {p} euros a square metre, how many euros are due?",),
    },
    "area paint": {
        "train": ("A litre is enough for {k} square metres. How many litres are needed?",),
        "valid": ("Given that a litre covers {k} square metres, what is needed, in litres?",),
        "test": ("One litre serves for {k} square metres; how many litres does that make?",),
    },
    # cooking
    "food has": {
        "train": ("{name} has {g} grams of {food}.",),
        "valid": ("{name} owns a jar with {g} grams of {food}.",),
        "test": ("At first {name} weighs out {g} grams of {food}.",),
    },
    "food recipe": {
        "train": ("A recipe for {k} people needs {g} grams of {food}, and {name} cooks for {b} people.",),
        "valid": ("{name} expects {b} guests and takes a recipe for {k} that asks for {g} grams of {food}.",),
        "test": ("For {k} eaters a dish takes {g} grams of {food}; {name} makes it for {b} eaters.",),
    },
    "food more": {
        "train": ("{name} adds {s} kilograms of {food}.",),
        "valid": ("There is another bag with {s} kilograms of {food}, which goes in too.",),
        "test": ("A further {s} kilograms of {food} are put in.",),
    },
    "food spoons": {
        "train": ("Then {name} adds {a} spoons of {food}, {b} grams each.",),
        "valid": ("There go in {a} cups of {food} as well, every one of {b} grams.",),
        "test": ("To this come {a} ladles that hold {b} grams of {food} apiece.",),
    },
    "food less": {
        "train": ("{name} spills {w} grams of the {food}.",),
        "valid": ("A neighbour borrows {w} grams of the {food}.",),
        "test": ("Of this, {w} grams of {food} go to the birds.",),
    },
    "food percent": {
        "train": ("Of the {food}, {t} percent is eaten.",),
        "valid": ("Moths spoil {t} percent of the {food} that is there by then.",),
        "test": ("After that, {t} percent of all {food} so far is given away.",),
    },
    "food times": {
        "train": ("{name} makes {k} times as much.",),
        "valid": ("Since there are more guests, {name} takes {k} times that amount of {food}.",),
        "test": ("For a feast the amount of {food} is taken {k} times.",),
    },
    "food grams": {
        "train": ("How many grams of {food} is that?",),
        "valid": ("What amount of {food} is that in the end, in grams?",),
        "test": ("To how many grams of {food} does it come?",),
    },
    "food kilograms": {
        "train": ("How many kilograms of {food} is that?",),
        "valid": ("What amount of {food} is that in the end, in kilograms?",),
        "test": ("To how many kilograms of {food} does it come?",),
    },
    "food bowls": {
        "train": ("The {food} is shared equally among {k} bowls. How many grams are in each bowl?",),
        "valid": ("All the {food} is split evenly between {k} plates. What amount is on a plate, in grams?",),
        "test": ("It is filled into {k} equal jars. With how many grams of {food} is a jar filled?",),
    },
    "food cost": {
        "train": ("A kilogram of {food} costs {p} euros. How many euros is that in all?",),
        "valid": ("Given {p} euros for a kilogram of {food}, what does it cost, in euros?",),
        "test": ("At {p} euros a kilogram, how many euros is the {food} worth?",),
    },
}  # fmt: skip
"""Wordings by sentence and split."""

IRRELEVANT: Mapping[str, tuple[str, ...]] = {
    "train": (
        "{name} is {n} years old.", "The house of {name} has {n} windows.", "{name} has {n} cousins.",
        "It is {n} days until the holidays.", "The radio has been on for {n} minutes.",
        "{name} got up {n} minutes late.", "The nearest town is {n} kilometres away.",
        "A clock on the wall cost {n} euros.",
    ),
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
    "train": "An error of up to 0.01 is allowed.",
    "valid": "The answer may be off by 0.01 at most.",
    "test": "Answers that are wrong by no more than 0.01 count.",
}
