"""Themes of projects and the words of their titles; each word belongs to one split."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym_envs.todo import training_words

_THEMES = {
    "Work": (
        "Planning, Reports, Meetings, Hiring",
        (
            "Email {person} about the {topic}, Prepare slides on the {topic}, Review the draft of the {topic}, Call "
            "{person} about the {topic}, Send {person} the {topic}, Book a room for the {topic}, Update the figures "
            "in the {topic}, Ask {person} to sign the {topic}"
        ),
    ),
    "Home": (
        "Repairs, Cleaning, Kitchen",
        (
            "Fix the {thing}, Clean the {thing}, Paint the {thing}, Replace the {thing}, Measure the {thing}, Ask "
            "{person} about the {thing}, Order parts for the {thing}"
        ),
    ),
    "Shopping": (
        "Groceries, Gifts, Hardware",
        (
            "Buy {food}, Order {food}, Compare prices of {food}, Buy a gift for {person}, Return the {thing}, Pick up"
            " {food} for {person}"
        ),
    ),
    "Garden": (
        "Beds, Lawn, Greenhouse",
        (
            "Plant the {plant}, Water the {plant}, Cut back the {plant}, Feed the {plant}, Give {person} some "
            "{plant}, Put the {plant} into pots"
        ),
    ),
    "Travel": (
        "Bookings, Packing, Papers",
        (
            "Book a hotel in {city}, Book a train to {city}, Read about {city}, Buy a map of {city}, Ask {person} "
            "about {city}, Find a tour of {city}"
        ),
    ),
    "Studies": (
        "Reading, Exercises, Exams",
        (
            "Read a chapter on {subject}, Revise {subject}, Write notes on {subject}, Do the exercises on {subject}, "
            "Ask {person} for help with {subject}, Make flash cards for {subject}"
        ),
    ),
    "Club": (
        "Events, Members, Money",
        (
            "Invite {person} to the {event}, Print flyers for the {event}, Find a hall for the {event}, Thank "
            "{person} for the {event}, Buy prizes for the {event}, Plan the {event}"
        ),
    ),
    "Family": (
        "School, Birthdays, Weekend",
        (
            "Phone {person}, Write a card to {person}, Look at photos with {person}, Cook {food} with {person}, Take "
            "{person} to the {event}, Bake a cake for {person}"
        ),
    ),
}
_FILL = {
    "valid": {
        "person": "Mira, Nils, Olga, Pavel, Rosa, Simon, Tessa, Umar",
        "topic": (
            "invoice template, staff handbook, office move, insurance offer, patent, trade fair, roster, annual meeting"
        ),
        "thing": "kitchen shelf, heater, doorbell, sofa, mirror, toaster, letter box, curtain rail",
        "food": "oranges, pasta, salt, butter, lentils, walnuts, spinach, jam",
        "plant": "peonies, radishes, thyme, peas, daffodils, cherry tree, ivy, pumpkins",
        "city": "Ghent, Riga, Naples, Bergen, Zagreb, Toulouse, Osaka, Cork",
        "subject": "topology, Greek myths, ecology, Spanish grammar, probability, acoustics, drama, ethics",
        "event": "harvest dinner, table tennis evening, concert, flea market, charity run, reading circle",
        "text": (
            "check the size first, needs a signature, closed on Mondays, the number is in the diary, ask whether it "
            "is free, take the tram"
        ),
        "project": "Allotment, Reunion, Short film, Kayak",
        "section": "Someday, Open questions, Next quarter, Drafts",
        "label": "desk, important, blocked, outside, letter, easy, costs, evening",
    },
    "test": {
        "person": "Vera, Wim, Xenia, Yusuf, Zoe, Aron, Britta, Cyril",
        "topic": "pension scheme, safety check, customer letter, job advert, press release, stock list, help page",
        "thing": "roof window, piano, freezer, wardrobe, garden gate, hall light, coffee grinder, desk chair",
        "food": "lemons, barley, yoghurt, pepper, mushrooms, almonds, leeks, vinegar",
        "plant": "dahlias, beetroot, sage, lettuce, crocuses, pear tree, bamboo, courgettes",
        "city": "Bruges, Vilnius, Palermo, Turku, Split, Nantes, Nara, Galway",
        "subject": "calculus, Norse sagas, botany, Latin nouns, game theory, mechanics, rhetoric, aesthetics",
        "event": "spring ball, darts evening, lecture, auction, boat race, pottery course",
        "text": (
            "look for the old bill, ring twice, not during the holidays, the code is on the box, compare three "
            "offers, wear boots"
        ),
        "project": "House swap, Marathon, Photo book, Bee hive",
        "section": "Backlog, Under way, Spare time, Follow-up",
        "label": "call, vip, paused, town, post, short, bank, computer",
    },
}


def _listed(text: str) -> tuple[str, ...]:
    return tuple(text.split(", "))


THEMES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    name: (_listed(sections), _listed(patterns)) for name, (sections, patterns) in _THEMES.items()
}
"""Project to its sections and the patterns of its tasks' titles."""
FILL: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    split: {slot: _listed(words) for slot, words in slots.items()} for split, slots in _FILL.items()
}
FILL = {
    "train": training_words.draw_words(
        {word.casefold() for slots in FILL.values() for words in slots.values() for word in words}
    ),
    **FILL,
}
"""Split to slot to its words."""
TRAINING_PATTERNS = (
    *(pattern for _, patterns in THEMES.values() for pattern in patterns),
    *training_words.PATTERNS,
)
"""Grammars of the patterns of titles in a training project that is not among the themes."""
