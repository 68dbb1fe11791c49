"""Subjects of training databases: combinations of tables, columns and values, many of them with made-up names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import permutations

from agentgym_envs.sql.domains import DOMAINS, Amount, Choice, Domain, Entity, Extra
from agentgym_envs.sql.vocabulary import CHAINS, FEATURES, MEASURES, TERMS, Feature, Kind, Measure, Noun
from agentgym_py.env.wording import made_up_name
from agentgym_py.rng import Rng

_MADE_UP = 0.4
"""Share of made-up tables, columns, values and adjectives."""
_POOL = 3000
_OVER = "[with|with|having] [more than|over] {} {units}"
_UNDER = "[with|with|having] [fewer than|less than|under] {} {units}"
_MOST = "[the most|the most|the largest number of|the highest number of|the greatest number of] {units}"
_COUNT_COLUMNS = (
    "{noun}",
    "{one}_count",
    "num_{noun}",
    "{noun}_total",
    "total_{noun}",
    "no_of_{noun}",
    "{noun}_number",
)
_CHOICE_COLUMNS = ("{noun}", "{noun}", "{owner}_{noun}", "{noun}_name", "{noun}_code", "{noun}_is", "the_{noun}")
_TABLES = ("{one}", "{many}", "{one}", "{many}", "{one}_list", "all_{many}", "{one}_table", "{one}_data")
_NAMED_PHRASES = (
    "[[of|with] the {noun} {value}|with {value} as [the|their] {noun}|with {noun} {value}|[filed|listed] under the "
    "{noun} "
    "{value}|marked with the {noun} {value}]"
).replace("{value}", "[{}|{}|{}|'{}'|\"{}\"]")
_KEYWORDS = "begin case delete detach like limit natural rename name title date role code"
_MIN_VALUES, _EXTRA_VALUES = 4, 3
_TERMS = tuple(TERMS.split())


@cache
def held_out_words() -> frozenset[str]:
    """Return the names of tables, columns and values of the other splits, in lower case."""
    words: set[str] = set()
    for domain in DOMAINS:
        for entity in domain.entities:
            words.update((entity.singular, entity.plural, entity.amount.term, *entity.names, *entity.amount.names))
            words.update((*entity.choice.names, *(value.lower() for value in entity.choice.values)))
    return frozenset(words)


@cache
def _orders(count: int) -> tuple[tuple[int, ...], ...]:
    return tuple(permutations(range(count)))


@cache
def _made_up_words() -> tuple[str, ...]:
    rng, avoid = Rng("sql", "made-up words"), held_out_words() | set(_KEYWORDS.split())
    words = {made_up_name(rng, avoid).rstrip("s"): None for _ in range(_POOL)}
    return tuple(word for word in words if word not in avoid and len(word) > 3)


def draw_subject(rng: Rng) -> Domain:
    """Draw a subject whose words are all different, so that a question can mean one column only."""
    builder = _SubjectBuilder(rng)
    nouns = [builder.noun(noun) for noun in rng.choice(CHAINS)]
    first, second, third = (builder.entity(noun, level) for level, noun in enumerate(nouns))
    distractor = builder.entity(builder.noun(rng.choice(rng.choice(CHAINS))), 0) if rng.below(6) == 0 else None
    count = 4 if distractor else 3
    order = rng.choice(_orders(count)) if rng.below(2) else _orders(count)[0]
    return Domain(first.singular, (first, second, third), distractor, order)


class _SubjectBuilder:
    """Draws the parts of a subject; remembers its words."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.words: set[str] = set()

    def is_new(self, *words: str) -> bool:
        """Say whether no part of the subject has one of the words."""
        return not self.words.intersection(words)

    def made_up(self) -> str:
        """Draw a made-up word."""
        while True:
            word = self.rng.choice(_made_up_words())
            if word not in self.words:
                self.words.add(word)
                return word

    def noun(self, noun: Noun) -> Noun:
        """Return what a table holds, under a made-up name if the draw says so."""
        if self.rng.uniform() < _MADE_UP or not self.is_new(noun.singular, noun.plural, *noun.synonyms):
            word = self.made_up()
            noun = Noun(word, f"{word}s", (), noun.kind, noun.of)
        self.words.update((noun.singular, noun.plural, *noun.synonyms))
        return noun

    def entity(self, noun: Noun, level: int) -> Entity:
        """Draw a table: its name, its columns and their order."""
        rng = self.rng
        forms = (*_TABLES, *noun.synonyms, *noun.synonyms)
        table = self.made_up() if rng.below(6) == 0 else rng.choice(forms)
        table = table.format(one=noun.singular, many=noun.plural)
        label = "" if noun.kind == "event" else self._label(noun)
        amount, choice = self.amount(noun), self.choice(noun)
        extras = (self.unused(noun),) if rng.below(4) == 0 else ()
        if not extras and rng.below(5) == 0:
            choice = replace(choice, names=(self.made_up(),))
        if not extras and rng.below(5) == 0:
            amount = replace(amount, names=(self.made_up(),))
        count = 3 + bool(label) + bool(level) + len(extras)
        order = rng.choice(_orders(count)) if rng.below(2) else ()
        return Entity(
            (table,),
            noun.singular.replace("_", " "),
            noun.plural.replace("_", " "),
            "" if noun.kind == "event" else "people" if noun.kind == "person" else "titles",
            amount,
            choice,
            noun.of,
            label,
            extras,
            order,
        )

    def _label(self, noun: Noun) -> str:
        other = "full_name" if noun.kind == "person" else "title"
        return self.rng.choice(("name", "name", other, other, f"{noun.singular}_name"))

    def amount(self, noun: Noun) -> Amount:
        """Draw a column of integers."""
        rng = self.rng
        measure = self._measure(noun.kind)
        text, words = measure.noun.replace("_", " "), (measure.noun, *measure.synonyms)
        if measure.over:
            column = rng.choice((measure.noun, *measure.synonyms, f"{noun.singular}_{measure.noun}"))
            over, under, most = measure.over, measure.under, measure.most
            return Amount((column,), measure.low, measure.high, text, over, under, most, self._term())
        column = rng.choice(_COUNT_COLUMNS if rng.below(2) else words)
        column = column.format(noun=measure.noun, one=measure.noun.removesuffix("s"))
        return Amount(
            (column,), measure.low, measure.high, f"number of {text}", _OVER, _UNDER, _MOST, self._term(), text
        )

    def _measure(self, kind: Kind) -> Measure:
        if self.rng.uniform() < _MADE_UP:
            low = self.rng.below(20)
            return Measure(f"{self.made_up()}s", (), low, low + 30 + self.rng.below(800))
        while True:
            measure = self.rng.choice(MEASURES[kind])
            if self.is_new(measure.noun, *measure.synonyms):
                self.words.update((measure.noun, *measure.synonyms))
                return measure

    def _term(self) -> str:
        if self.rng.uniform() >= _MADE_UP:
            term = self.rng.choice(_TERMS)
            if self.is_new(term):
                self.words.add(term)
                return term
        return self.made_up()

    def choice(self, noun: Noun) -> Choice:
        """Draw a column with one of a few values."""
        rng, feature = self.rng, self._feature(noun.kind)
        text = feature.noun.replace("_", " ")
        phrase = feature.phrase
        if not phrase or rng.below(3) == 0:
            phrase = _NAMED_PHRASES
        column = rng.choice(_CHOICE_COLUMNS if rng.below(2) else (feature.noun, *feature.synonyms))
        column = column.format(noun=feature.noun, owner=noun.singular)
        return Choice((column,), text, phrase, self._values(feature.values))

    def _feature(self, kind: Kind) -> Feature:
        if self.rng.uniform() < _MADE_UP:
            values = self.rng.choice(FEATURES[kind]).values if self.rng.below(2) else ()
            return Feature(self.made_up(), (), "", values)
        while True:
            feature = self.rng.choice(FEATURES[kind])
            if self.is_new(feature.noun, *feature.synonyms):
                self.words.update((feature.noun, *feature.synonyms))
                return feature

    def _values(self, known: Sequence[str]) -> tuple[str, ...]:
        """Draw values that differ in their first three letters; of no known ones, made-up ones."""
        count = _MIN_VALUES + self.rng.below(_EXTRA_VALUES)
        if known:
            start = self.rng.below(len(known))
            return tuple(word.replace("_", " ") for word in (*known, *known)[start : start + min(count, len(known))])
        by_start: dict[str, str] = {}
        while len(by_start) < count:
            word = self.made_up()
            by_start.setdefault(word[:3], word)
        return tuple(by_start.values())

    def unused(self, noun: Noun) -> Extra:
        """Draw a column that no question is about."""
        if self.rng.below(2):
            choice = self.choice(noun)
            return Extra(choice.names[0], choice.values)
        amount = self.amount(noun)
        return Extra(amount.names[0], range(amount.low, amount.high + 1))
