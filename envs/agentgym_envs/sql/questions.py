"""Questions about a database, with the statements that answer them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from agentgym_envs.sql.guard import Row
from agentgym_envs.sql.reading import Look, Mention, looks_for, table_note
from agentgym_envs.sql.tables import Layout, Plant
from agentgym_envs.sql.wording import NOTES, WORDINGS
from agentgym_py.env.wording import expand
from agentgym_py.rng import Rng

Rows = tuple[list[Row], list[Row], list[Row]]
KINDS = {
    "easy": ("count", "names", "lookup", "extreme"),
    "medium": ("count", "names", "extreme", "average", "per"),
    "hard": ("count", "busiest", "share", "above", "without", "several"),
}

_BOUND = re.compile(r" [<>](?= \d)")


@dataclass(frozen=True, slots=True)
class Question:
    """A question and its answer."""

    kind: str
    words: str
    sql: str
    tie: str
    """A statement whose two rows must differ so that the answer is unique; empty if it always is."""
    looks: tuple[Look, ...]
    """What the fair expert looks at before it answers."""
    tables: tuple[str, ...]
    """What the question calls a table, and its name, with the reason: `player_id in injury: players = squad`."""
    meaning: tuple[str, ...]
    """Phrases of the question and what the statement says for them: `role keeper: role = 'KEE'`."""
    plants: tuple[Plant, ...]
    """The values with which it compares: rows with them tell "more than 12" from "at least 12"."""
    near_misses: tuple[str, ...] = ()
    """Statements that answer another question, often with the same result: "at least 12", for example."""
    near_miss_plants: tuple[Plant, ...] = ()
    """Values with which their results differ more often."""
    counts_groups: bool = False
    """Whether each row of the answer ends with a count, so that it may have rows of 0 or leave them out."""

    @property
    def answer_thought(self) -> str:
        """What the fair expert thinks before it answers."""
        return f"{'; '.join((*self.tables, *self.meaning))}."

    def look_thought(self, number: int) -> str:
        """Return what it thinks before a look."""
        look = self.looks[number]
        asked = f"{look.about}: {look.column}. How is it written?" if look.is_known else f"{look.about}: {look.column}?"
        return "; ".join((*(self.tables if number == 0 else ()), asked))


@dataclass(frozen=True, slots=True)
class _Condition:
    """A condition on the rows of one table."""

    level: int
    kind: str
    words: str
    sql: str
    about: str
    """What the question says of the column and its value."""
    plant: Plant
    """The value with which it compares."""
    note: str = ""
    """Definition of a word in the question."""


class _QuestionBuilder:
    """Draws conditions that one row, the witness, satisfies, so that the result is not empty."""

    def __init__(
        self, layout: Layout, rows: Rows, rng: Rng, level: int, difficulty: str, kind: str, split: str
    ) -> None:
        self.layout, self.rows, self.rng, self.level, self.difficulty = layout, rows, rng, level, difficulty
        self.kind, self.split = kind, split
        self.entity, self.names = layout.domain.entities[level], layout.names[level]
        self.above = layout.domain.entities[level - 1]
        """What the previous table holds; meaningless in the first."""
        self.conditions: list[_Condition] = []
        self.witness: dict[int, Row] = {level: rng.choice(rows[level])}
        for above in range(level - 1, -1, -1):
            link = self.cell(above + 1, layout.names[above + 1].link)
            self.witness[above] = rows[above][int(str(link)) - 1]

    def column(self, level: int, name: str) -> str:
        """Return a column with its table."""
        return f"{self.layout.names[level].table}.{name}"

    @property
    def label(self) -> str:
        """The column with the rows' names."""
        return self.column(self.level, self.names.label)

    @property
    def amount(self) -> str:
        """The column with the rows' amounts."""
        return self.column(self.level, self.names.amount)

    @property
    def parent_label(self) -> str:
        """The column with the names of the previous table's rows."""
        return self.column(self.level - 1, self.layout.names[self.level - 1].label)

    def cell(self, level: int, name: str) -> object:
        """Return the witness's value."""
        return self.witness[level][self.layout.names[level].columns().index(name)]

    def parent_key(self, level: int) -> int:
        """Return the key of the row in the previous table to which the witness refers."""
        return int(str(self.cell(level, self.layout.names[level].link)))

    def crowd(self, count: int) -> tuple[Plant, ...]:
        """Return plants after which a few rows of the previous table have many rows each."""
        first, keys = self.parent_key(self.level), len(self.rows[self.level - 1])
        chosen = [(first + distance) % keys + 1 for distance in range(count)]
        return tuple(Plant(self.level, self.names.link, key) for key in chosen)

    def add(self, level: int, kind: str) -> None:
        """Add a condition of a kind: `choice`, `amount` or `label`."""
        self.conditions.append({"choice": self._choice, "amount": self._amount, "label": self._label}[kind](level))

    def _choice(self, level: int) -> _Condition:
        names, choice = self.layout.names[level], self.layout.domain.entities[level].choice
        stored = str(self.cell(level, names.choice))
        value = next(word for word, text in names.stored.items() if text == stored)
        phrase = expand(self.rng, choice.which).format(value, noun=choice.noun)
        sql = f"{self.column(level, names.choice)} = '{stored}'"
        return _Condition(level, "choice", phrase, sql, f"{choice.noun} {value}", Plant(level, names.choice, stored))

    def _label(self, level: int) -> _Condition:
        names = self.layout.names[level]
        label = str(self.cell(level, names.label))
        column = self.column(level, names.label)  # with the table, which the question may not name
        plant = Plant(level + 1, self.layout.names[level + 1].link, self.parent_key(level + 1))
        return _Condition(level, "label", label, f"{column} = '{label}'", label, plant)

    def _amount(self, level: int) -> _Condition:
        names, entity = self.layout.names[level], self.layout.domain.entities[level]
        place = names.columns().index(names.amount)
        values = sorted(int(row[place] or 0) for row in self.rows[level])
        bound = values[len(values) * (3 + self.rng.below(4)) // 10]
        column, over = self.column(level, names.amount), int(self.witness[level][place] or 0) > bound
        named = self.difficulty != "easy" and over and self.rng.below(5) < 2
        bound += not over
        phrase = self.amount_phrase(level, bound, over=over)
        sql, plant = f"{column} {'>' if over else '<'} {bound}", Plant(level, names.amount, bound)
        if not named:
            return _Condition(level, "amount", phrase, sql, phrase, plant)
        term, plural = entity.amount.term, entity.plural
        note = expand(self.rng, NOTES[self.split]).format(
            term=term, Term=term.capitalize(), plural=plural, Plural=plural.capitalize(), over=phrase
        )
        return _Condition(level, "term", term, sql, term, plant, note)

    def amount_phrase(self, level: int, bound: int, *, over: bool = True) -> str:
        """Return a comparison with a number in words."""
        amount = self.layout.domain.entities[level].amount
        return expand(self.rng, amount.over if over else amount.under).format(bound, units=amount.units)

    def amount_range(self) -> tuple[int, int]:
        """Return the lowest and the highest amount that meet the conditions."""
        low, high = self.entity.amount.low, self.entity.amount.high
        for condition in self.conditions:
            if condition.level == self.level and condition.kind != "choice":
                bound = int(str(condition.plant.cell))
                low, high = (bound + 1, high) if ">" in condition.sql else (low, bound - 1)
        return low, high

    def phrase(self, level: int | None = None) -> str:
        """Return the rows that satisfy the conditions, in words."""
        level = self.level if level is None else level
        entity = self.layout.domain.entities[level]
        words = {condition.kind: condition.words for condition in self.conditions if condition.level == level}
        if "label" in words:
            return words["label"]
        phrase = [words.get("term", ""), entity.plural, words.get("choice", ""), words.get("amount", "")]
        if any(condition.level < level for condition in self.conditions):
            phrase += [entity.of, self.phrase(level - 1)]
        return " ".join(filter(None, phrase))

    def source(self, also: int | None = None) -> str:
        """Return FROM with the joins that the conditions need, down to the table `also`."""
        lowest = min(
            [self.level, *(condition.level for condition in self.conditions), *([] if also is None else [also])]
        )
        text = f"FROM {self.names.table}"
        for level in range(self.level, lowest, -1):
            above, link = self.layout.names[level - 1].table, self.layout.names[level].link
            text += f" JOIN {above} ON {above}.id = {self.column(level, link)}"
        return text

    def where(self, *more: str) -> str:
        """Return WHERE with all conditions."""
        conditions = [*(condition.sql for condition in self.conditions), *more]
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def grouped_by_parent(self) -> str:
        """Return FROM, WHERE and GROUP BY for rows grouped by their row in the previous table."""
        parent = self.level - 1
        return f"{self.source(parent)}{self.where()} GROUP BY {self.column(parent, 'id')}"

    def question(
        self,
        sql: str,
        *asked: str,
        tie: str = "",
        column: Literal["choice", "amount", ""] = "",
        plants: tuple[Plant, ...] = (),
        near_misses: tuple[str, ...] = (),
        near_miss_plants: tuple[Plant, ...] = (),
        counts_groups: bool = False,
        **fields: object,
    ) -> Question:
        """Return the question in a wording of the split.

        `asked` is what it asks for, with the columns; `column` is the kind of column among them, if there is one.
        `plants` come on top of those of the conditions.
        """
        entity, names = self.entity, self.names
        wording = expand(self.rng, self.rng.choice(WORDINGS[self.kind][self.split]))
        most = expand(self.rng, entity.amount.most).format(units=entity.amount.units)
        text = wording.format(
            **{"s": self.phrase(), "label": names.label, "one": entity.singular, "many": entity.plural,
               "noun": entity.amount.noun, "most": most, **fields}
        )  # fmt: skip
        text = f"{text[0].upper()}{text[1:]}"
        notes = [condition.note for condition in self.conditions if condition.note]
        meaning = [f"{condition.about}: {condition.sql}" for condition in self.conditions]
        if " JOIN " not in sql and "NOT IN" not in sql:  # a single table
            sql, tie, *meaning = (part.replace(f"{names.table}.", "") for part in (sql, tie, *meaning))
        words = " ".join([text, *notes])
        asked_of = [Mention(self.level, column, asked[0].partition(": ")[0])] if column else []
        near_misses += tuple(f"{sql[: sign.end()]}={sql[sign.end() :]}" for sign in _BOUND.finditer(sql))
        plants = (*plants, *(condition.plant for condition in self.conditions))
        looks = self._looks(asked_of, words)
        return Question(
            self.kind,
            words,
            sql,
            tie,
            looks,
            self._tables(text),
            (*asked, *meaning),
            plants,
            near_misses,
            near_miss_plants,
            counts_groups,
        )

    def _looks(self, asked: list[Mention], words: str) -> tuple[Look, ...]:
        """Return looks at columns that the question does not name, and at the notation of words to compare with."""
        mentions = [*asked]
        for condition in self.conditions:
            if condition.kind != "label":
                kind: Literal["choice", "amount"] = "choice" if condition.kind == "choice" else "amount"
                mentions.append(Mention(condition.level, kind, condition.about))
        looks = looks_for(self.layout, mentions, words)
        seen = {(look.table, look.column) for look in looks}
        for condition in self.conditions if self.difficulty != "easy" else ():
            names = self.layout.names[condition.level]
            if condition.kind == "choice" and (names.table, names.choice) not in seen:
                looks.append(Look(names.table, names.choice, condition.about, is_known=True))
        return tuple(looks)

    def _tables(self, text: str) -> tuple[str, ...]:
        """The tables that the question names, from its own one upwards."""
        tables, text = [], text.lower()
        for level in range(self.level, -1, -1):
            entity = self.layout.domain.entities[level]
            word = entity.plural if entity.plural in text else entity.singular
            if word in text:
                tables.append(table_note(self.layout, level, word))
        return tuple(tables)


def draw_question(layout: Layout, rows: Rows, rng: Rng, split: str, difficulty: str) -> Question:
    """Draw a question; the caller checks that it has a good answer."""
    kind = rng.choice(KINDS[difficulty])
    level = _draw_level(kind, rng, difficulty)
    builder = _QuestionBuilder(layout, rows, rng, level, difficulty, kind, split)
    _add_conditions(builder, kind, difficulty)
    return _KINDS[kind](builder)


def _draw_level(kind: str, rng: Rng, difficulty: str) -> int:
    """The table of a question; one with labels if the question asks for them."""
    if kind == "lookup":
        return rng.below(2)
    if kind in ("names", "extreme", "above"):
        return rng.below(2) if difficulty == "easy" else 1
    if kind == "count" and difficulty == "hard":
        return 2
    return rng.below(3) if difficulty == "easy" else 1 + rng.below(2)


def _add_conditions(builder: _QuestionBuilder, kind: str, difficulty: str) -> None:
    rng, level = builder.rng, builder.level
    own_kinds = ["choice", "amount"]
    if kind == "lookup":
        return
    if difficulty == "easy":
        builder.add(level, "choice" if kind == "extreme" else rng.choice(own_kinds))
    elif difficulty == "medium":
        builder.add(level - 1, rng.choice(["choice", "amount", "label"]))
        if kind in ("count", "names", "average"):
            builder.add(level, rng.choice(own_kinds))
    elif kind == "count":
        builder.add(2, rng.choice(own_kinds))
        builder.add(1, rng.choice(own_kinds))
        builder.add(0, rng.choice([*own_kinds, "label"]))
    elif kind in ("share", "above"):
        builder.add(level - 1, rng.choice(own_kinds))
    else:
        builder.add(level, rng.choice(own_kinds))


def _count(builder: _QuestionBuilder) -> Question:
    return builder.question(f"SELECT COUNT(*) {builder.source()}{builder.where()}", "how many: COUNT(*)")


def _names(builder: _QuestionBuilder) -> Question:
    asked = f"which: {builder.names.label}"
    return builder.question(f"SELECT {builder.label} {builder.source()}{builder.where()}", asked)


def _lookup(builder: _QuestionBuilder) -> Question:
    names, entity = builder.names, builder.entity
    kind: Literal["choice", "amount"] = builder.rng.choice(["amount", "choice"])
    noun, column = (entity.amount.noun, names.amount) if kind == "amount" else (entity.choice.noun, names.choice)
    label = str(builder.cell(builder.level, names.label))
    sql = f"SELECT {column} {builder.source()} WHERE {names.label} = '{label}'"
    asked = (f"{noun}: {column}", f"{label}: {names.label} = '{label}'")
    return builder.question(sql, *asked, column=kind, noun=noun, label=label, label_column=names.label)


def _extreme(builder: _QuestionBuilder) -> Question:
    rest = f"{builder.source()}{builder.where()} ORDER BY {builder.amount} DESC LIMIT"
    asked = (f"most {builder.entity.amount.noun}: {builder.names.amount}", f"which: {builder.names.label}")
    tie = f"SELECT {builder.amount} {rest} 2"
    return builder.question(f"SELECT {builder.label} {rest} 1", *asked, tie=tie, column="amount")


def _average(builder: _QuestionBuilder) -> Question:
    asked = f"{builder.entity.amount.noun}: {builder.names.amount}"
    return builder.question(f"SELECT AVG({builder.amount}) {builder.source()}{builder.where()}", asked, column="amount")


def _per(builder: _QuestionBuilder) -> Question:
    group = builder.column(builder.level, builder.names.choice)
    sql = f"SELECT {group}, COUNT(*) {builder.source()}{builder.where()} GROUP BY {group}"
    group_noun = builder.entity.choice.noun
    return builder.question(
        sql, f"{group_noun}: {builder.names.choice}", column="choice", counts_groups=True, group=group_noun
    )


def _busiest(builder: _QuestionBuilder) -> Question:
    rest = f"{builder.grouped_by_parent()} ORDER BY COUNT(*) DESC LIMIT"
    sql, tie = f"SELECT {builder.parent_label} {rest} 1", f"SELECT COUNT(*) {rest} 2"
    by_sum = sql.replace("COUNT(*)", f"SUM({builder.amount})")
    many_small, few_large = builder.crowd(2)
    low, high = builder.amount_range()
    amounts = [(many_small, low), (few_large, high)]
    plants = [Plant(builder.level, builder.names.amount, amount, int(str(link.cell))) for link, amount in amounts]
    return builder.question(
        sql, tie=tie, near_misses=(by_sum,), near_miss_plants=(many_small, few_large, *plants),
        parent=builder.above.singular, parents=builder.above.plural,
    )  # fmt: skip


def _share(builder: _QuestionBuilder) -> Question:
    entity, names = builder.entity, builder.names
    place = names.columns().index(names.amount)
    bound = builder.rng.choice(sorted(int(row[place] or 0) for row in builder.rows[builder.level])[2:-2])
    sql = f"SELECT 100.0 * SUM({builder.amount} > {bound}) / COUNT(*) {builder.source()}{builder.where()}"
    over = builder.amount_phrase(builder.level, bound)
    asked = f"{over}: {names.amount} > {bound}"
    return builder.question(
        sql, asked, column="amount", plants=(Plant(builder.level, names.amount, bound),), part=f"{entity.plural} {over}"
    )


def _above(builder: _QuestionBuilder) -> Question:
    above_average = f"{builder.amount} > (SELECT AVG({builder.names.amount}) FROM {builder.names.table})"
    asked = f"{builder.entity.amount.noun}: {builder.names.amount}"
    sql = f"SELECT {builder.label} {builder.source()}{builder.where(above_average)}"
    return builder.question(sql, asked, column="amount")


def _without(builder: _QuestionBuilder) -> Question:
    parent, table = builder.layout.names[builder.level - 1], builder.names.table
    inner = f"SELECT {builder.names.link} {builder.source()}{builder.where()}".replace(f"{table}.", "")
    sql = f"SELECT {parent.label} FROM {parent.table} WHERE id NOT IN ({inner})"
    return builder.question(sql, parents=builder.above.plural)


def _several(builder: _QuestionBuilder) -> Question:
    least = 2 + builder.rng.below(2)
    sql = f"SELECT {builder.parent_label} {builder.grouped_by_parent()} HAVING COUNT(*) >= {least}"
    exactly = sql.replace(">= ", "= ")  # no condition has >=
    return builder.question(sql, plants=builder.crowd(4), near_misses=(exactly,), parents=builder.above.plural, k=least)


_KINDS: Mapping[str, Callable[[_QuestionBuilder], Question]] = {
    "count": _count,
    "names": _names,
    "lookup": _lookup,
    "extreme": _extreme,
    "average": _average,
    "per": _per,
    "busiest": _busiest,
    "share": _share,
    "above": _above,
    "without": _without,
    "several": _several,
}
