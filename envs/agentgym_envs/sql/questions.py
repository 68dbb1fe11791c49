"""Questions about a database, with the statements that answer them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agentgym_envs.sql.guard import Row
from agentgym_envs.sql.tables import Layout
from agentgym_py.rng import Rng

Rows = tuple[list[Row], list[Row], list[Row]]

# Two wordings in train, one each in valid and test.
_WORDINGS: Mapping[str, tuple[str, str, str, str]] = {
    "count": ("How many {s} are there?", "Count the {s}.", "What is the number of {s}?", "Give the count of the {s}."),
    "names": ("Name the {s}.", "Which are the {s}? List them by {label}.", "List the {s} by {label}.",
              "Give the {label} of each of the {s}."),
    "lookup": ("What is the {noun} of {one} {label}?", "Look up the {noun} of {one} {label}.",
               "For {one} {label}, what is the {noun}?", "{label} is the {label_column} of a {one}. Find its {noun}."),
    "extreme": ("Which of the {s} has {most}?", "Of all {s}, which one has {most}?",
                "Find the {label} of the one with {most} among the {s}.", "Among the {s}, name the one with {most}."),
    "average": ("What is the average {noun} of the {s}?", "Give the average {noun} of the {s}.",
                "Find the mean {noun} of the {s}.", "Compute how high the {noun} of the {s} is on average."),
    "per": ("For each {group}, how many {s} are there? Give the {group} and the number.",
            "How many {s} does each {group} have? Give the {group} and the number.",
            "Count the {s} by {group}: {group} first, then the number.",
            "List every {group} with its number of {s}."),
    "busiest": ("Which {parent} has the most {s}?", "Name the {parent} that has the most {s}.",
                "Find the {parent} with the largest number of {s}.", "Who or what among the {parents} leads in {s}?"),
    "share": ("What percentage of the {s} are {part}?", "How many percent of the {s} are {part}?",
              "Find the percentage of {part} among the {s}.", "Of the {s}, give the percentage that are {part}."),
    "above": ("Which of the {s} have a {noun} above the average of all {many}?",
              "Name the {s} whose {noun} is above the average of all {many}.",
              "List the {s} that exceed the mean {noun} of all {many}.",
              "Find the {s} with a {noun} over the average of all {many}."),
    "without": ("Which {parents} have no {s}?", "Name the {parents} that have no {s}.",
                "List all {parents} without any {s}.", "Find the {parents} for which there are no {s}."),
    "several": ("Which {parents} have at least {k} {s}?", "Name the {parents} that have {k} or more {s}.",
                "List all {parents} with no fewer than {k} {s}.",
                "Find the {parents} for which at least {k} {s} exist."),
}  # fmt: skip
_WORDINGS_OF = {"train": (0, 1), "valid": (2,), "test": (3,)}
KINDS = {
    "easy": ("count", "names", "lookup", "extreme"),
    "medium": ("count", "names", "extreme", "average", "per"),
    "hard": ("count", "busiest", "share", "above", "without", "several"),
}


@dataclass(frozen=True, slots=True)
class Question:
    """A question and its answer."""

    kind: str
    words: str
    sql: str
    tie: str
    """A statement whose two rows must differ so that the answer is unique; empty if it always is."""
    looks: tuple[tuple[str, str], ...]
    """Tables and columns that the statement compares with a word."""


@dataclass(frozen=True, slots=True)
class _Condition:
    """A condition on the rows of one table."""

    level: int
    kind: str
    words: str
    sql: str
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
        self.parent = layout.domain.entities[level - 1]
        """What the previous table holds; meaningless in the first."""
        self.conditions: list[_Condition] = []
        row = rng.choice(rows[level])
        self.witness: dict[int, Row] = {level: row}
        for above in range(level - 1, -1, -1):
            row = rows[above][int(row[-1] or 0) - 1]
            self.witness[above] = row

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

    def add(self, level: int, kind: str) -> None:
        """Add a condition of a kind: `choice`, `amount` or `label`."""
        self.conditions.append({"choice": self._choice, "amount": self._amount, "label": self._label}[kind](level))

    def _choice(self, level: int) -> _Condition:
        names, choice = self.layout.names[level], self.layout.domain.entities[level].choice
        stored = self.cell(level, names.choice)
        value = next(word for word, text in names.stored.items() if text == stored)
        return _Condition(
            level, "choice", choice.which.format(value), f"{self.column(level, names.choice)} = '{stored}'"
        )

    def _label(self, level: int) -> _Condition:
        names = self.layout.names[level]
        label = str(self.cell(level, names.label))
        return _Condition(level, "label", label, f"{self.column(level, names.label)} = '{label}'")

    def _amount(self, level: int) -> _Condition:
        names, entity = self.layout.names[level], self.layout.domain.entities[level]
        place = names.columns().index(names.amount)
        values = sorted(int(row[place] or 0) for row in self.rows[level])
        bound = values[len(values) * (3 + self.rng.below(4)) // 10]
        column, over = self.column(level, names.amount), int(self.witness[level][place] or 0) > bound
        named = self.difficulty != "easy" and over and self.rng.below(5) < 2
        if not named:
            phrase = entity.amount.over if over else entity.amount.under
            bound += 0 if over else 1
            return _Condition(level, "amount", phrase.format(bound), f"{column} {'>' if over else '<'} {bound}")
        note = (
            f"{entity.amount.term.capitalize()} {entity.plural} are {entity.plural} {entity.amount.over.format(bound)}."
        )
        return _Condition(level, "term", entity.amount.term, f"{column} > {bound}", note)

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

    def question(self, sql: str, tie: str = "", **fields: object) -> Question:
        """Return the question in the wording of the split."""
        entity, names = self.entity, self.names
        wording = _WORDINGS[self.kind][self.rng.choice(_WORDINGS_OF[self.split])]
        text = wording.format(
            **{"s": self.phrase(), "label": names.label, "one": entity.singular, "many": entity.plural,
               "noun": entity.amount.noun, "most": entity.amount.most, **fields}
        )  # fmt: skip
        notes = [condition.note for condition in self.conditions if condition.note]
        compared = [self.layout.names[condition.level] for condition in self.conditions if condition.kind == "choice"]
        if " JOIN " not in sql and "NOT IN" not in sql:  # a single table
            sql, tie = sql.replace(f"{names.table}.", ""), tie.replace(f"{names.table}.", "")
        return Question(
            self.kind, " ".join([text, *notes]), sql, tie, tuple((table.table, table.choice) for table in compared)
        )


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
    return builder.question(f"SELECT COUNT(*) {builder.source()}{builder.where()}")


def _names(builder: _QuestionBuilder) -> Question:
    return builder.question(f"SELECT {builder.label} {builder.source()}{builder.where()}")


def _lookup(builder: _QuestionBuilder) -> Question:
    names, entity = builder.names, builder.entity
    noun, column = builder.rng.choice([(entity.amount.noun, names.amount), (entity.choice.noun, names.choice)])
    label = str(builder.cell(builder.level, names.label))
    sql = f"SELECT {column} {builder.source()} WHERE {names.label} = '{label}'"
    return builder.question(sql, noun=noun, label=label, label_column=names.label)


def _extreme(builder: _QuestionBuilder) -> Question:
    rest = f"{builder.source()}{builder.where()} ORDER BY {builder.amount} DESC LIMIT"
    return builder.question(f"SELECT {builder.label} {rest} 1", f"SELECT {builder.amount} {rest} 2")


def _average(builder: _QuestionBuilder) -> Question:
    return builder.question(f"SELECT AVG({builder.amount}) {builder.source()}{builder.where()}")


def _per(builder: _QuestionBuilder) -> Question:
    group = builder.column(builder.level, builder.names.choice)
    sql = f"SELECT {group}, COUNT(*) {builder.source()}{builder.where()} GROUP BY {group}"
    return builder.question(sql, group=builder.entity.choice.noun)


def _busiest(builder: _QuestionBuilder) -> Question:
    rest = f"{builder.grouped_by_parent()} ORDER BY COUNT(*) DESC LIMIT"
    sql, tie = f"SELECT {builder.parent_label} {rest} 1", f"SELECT COUNT(*) {rest} 2"
    return builder.question(sql, tie, parent=builder.parent.singular, parents=builder.parent.plural)


def _share(builder: _QuestionBuilder) -> Question:
    entity, names = builder.entity, builder.names
    place = names.columns().index(names.amount)
    bound = builder.rng.choice(sorted(int(row[place] or 0) for row in builder.rows[builder.level])[2:-2])
    sql = f"SELECT 100.0 * SUM({builder.amount} > {bound}) / COUNT(*) {builder.source()}{builder.where()}"
    return builder.question(sql, part=f"{entity.plural} {entity.amount.over.format(bound)}")


def _above(builder: _QuestionBuilder) -> Question:
    above_average = f"{builder.amount} > (SELECT AVG({builder.names.amount}) FROM {builder.names.table})"
    return builder.question(f"SELECT {builder.label} {builder.source()}{builder.where(above_average)}")


def _without(builder: _QuestionBuilder) -> Question:
    parent, table = builder.layout.names[builder.level - 1], builder.names.table
    inner = f"SELECT {builder.names.link} {builder.source()}{builder.where()}".replace(f"{table}.", "")
    sql = f"SELECT {parent.label} FROM {parent.table} WHERE id NOT IN ({inner})"
    return builder.question(sql, parents=builder.parent.plural)


def _several(builder: _QuestionBuilder) -> Question:
    least = 2 + builder.rng.below(2)
    sql = f"SELECT {builder.parent_label} {builder.grouped_by_parent()} HAVING COUNT(*) >= {least}"
    return builder.question(sql, parents=builder.parent.plural, k=least)


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
