"""Questions to a database, each with the statement that answers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agentgym_envs.sql.guard import Row
from agentgym_envs.sql.tables import Layout
from agentgym_py.rng import Rng

Filled = tuple[list[Row], list[Row], list[Row]]

# Two ways to ask in training, one each in valid and test.
_WAYS: Mapping[str, tuple[str, str, str, str]] = {
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
_WAYS_OF = {"train": (0, 1), "valid": (2,), "test": (3,)}
KINDS = {
    "easy": ("count", "names", "lookup", "extreme"),
    "medium": ("count", "names", "extreme", "average", "per"),
    "hard": ("count", "busiest", "share", "above", "without", "several"),
}


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and how it is answered."""

    kind: str
    words: str
    sql: str
    tie: str
    """A statement whose two rows must differ, or the question has no one answer; empty where it always has."""
    looks: tuple[tuple[str, str], ...]
    """Tables and columns whose values the statement compares with a word."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A condition on the rows of one table."""

    level: int
    kind: str
    words: str
    sql: str
    note: str = ""
    """What a word of the question means."""


class _Asker:
    """Draws conditions about one row, the witness, so that something is found."""

    def __init__(self, made: Layout, filled: Filled, rng: Rng, level: int, difficulty: str) -> None:
        self.made, self.filled, self.rng, self.level, self.difficulty = made, filled, rng, level, difficulty
        self.sort, self.names = made.domain.sorts[level], made.names[level]
        self.parts: list[_Part] = []
        row = rng.choice(filled[level])
        self.witness: dict[int, Row] = {level: row}
        for each in range(level, 0, -1):
            row = filled[each - 1][int(row[-1] or 0) - 1]
            self.witness[each - 1] = row

    def column(self, level: int, name: str) -> str:
        """A column, with its table where there are several."""
        return f"{self.made.names[level].table}.{name}"

    def cell(self, level: int, name: str) -> object:
        """The witness's value."""
        return self.witness[level][self.made.names[level].columns().index(name)]

    def add(self, level: int, kind: str) -> None:
        """A condition of a kind: `choice`, `amount` or `label`."""
        self.parts.append({"choice": self._choice, "amount": self._amount, "label": self._label}[kind](level))

    def _choice(self, level: int) -> _Part:
        names, choice = self.made.names[level], self.made.domain.sorts[level].choice
        stored = self.cell(level, names.choice)
        value = next(each for each, kept in names.stored.items() if kept == stored)
        return _Part(level, "choice", choice.which.format(value), f"{self.column(level, names.choice)} = '{stored}'")

    def _label(self, level: int) -> _Part:
        names = self.made.names[level]
        label = str(self.cell(level, names.label))
        return _Part(level, "label", label, f"{self.column(level, names.label)} = '{label}'")

    def _amount(self, level: int) -> _Part:
        names, sort = self.made.names[level], self.made.domain.sorts[level]
        place = names.columns().index(names.amount)
        values = sorted(int(row[place] or 0) for row in self.filled[level])
        bound = values[len(values) * (3 + self.rng.below(4)) // 10]
        column, over = self.column(level, names.amount), int(self.witness[level][place] or 0) > bound
        named = self.difficulty != "easy" and over and self.rng.below(5) < 2
        if not named:
            phrase = sort.amount.over if over else sort.amount.under
            bound += 0 if over else 1
            return _Part(level, "amount", phrase.format(bound), f"{column} {'>' if over else '<'} {bound}")
        note = f"{sort.amount.term.capitalize()} {sort.many} are {sort.many} {sort.amount.over.format(bound)}."
        return _Part(level, "term", sort.amount.term, f"{column} > {bound}", note)

    def phrase(self, level: int | None = None) -> str:
        """The rows that the conditions leave, in words."""
        level = self.level if level is None else level
        sort, own = self.made.domain.sorts[level], {part.kind: part.words for part in self.parts if part.level == level}
        if "label" in own:
            return own["label"]
        said = [own.get("term", ""), sort.many, own.get("choice", ""), own.get("amount", "")]
        if any(part.level < level for part in self.parts):
            said += [sort.of, self.phrase(level - 1)]
        return " ".join(filter(None, said))

    def source(self, also: int | None = None) -> str:
        """FROM with the joins that the conditions need, and the table `also`."""
        lowest = min([self.level, *(part.level for part in self.parts), *([] if also is None else [also])])
        text = f"FROM {self.names.table}"
        for level in range(self.level, lowest, -1):
            above, link = self.made.names[level - 1].table, self.made.names[level].link
            text += f" JOIN {above} ON {above}.id = {self.column(level, link)}"
        return text

    def where(self, *more: str) -> str:
        """WHERE with all conditions."""
        conditions = [*(part.sql for part in self.parts), *more]
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def ask(self, kind: str, split: str, sql: str, tie: str = "", **fields: object) -> Question:
        """The question in the words of a split."""
        sort, names = self.sort, self.names
        way = _WAYS[kind][self.rng.choice(_WAYS_OF[split])]
        said = way.format(
            **{"s": self.phrase(), "label": names.label, "one": sort.one, "many": sort.many, "noun": sort.amount.noun,
               "most": sort.amount.most, **fields}
        )  # fmt: skip
        notes = [part.note for part in self.parts if part.note]
        chosen = [self.made.names[part.level] for part in self.parts if part.kind == "choice"]
        single = " JOIN " not in sql and "NOT IN" not in sql
        if single:
            sql, tie = sql.replace(f"{names.table}.", ""), tie.replace(f"{names.table}.", "")
        return Question(kind, " ".join([said, *notes]), sql, tie, tuple((each.table, each.choice) for each in chosen))


def draw(made: Layout, filled: Filled, rng: Rng, split: str, difficulty: str) -> Question:
    """Draw a question; it may have no good answer, which the caller finds out."""
    kind = rng.choice(KINDS[difficulty])
    level = _level(kind, rng, difficulty)
    asker = _Asker(made, filled, rng, level, difficulty)
    _conditions(asker, kind, difficulty)
    return _KINDS[kind](asker, split)


def _level(kind: str, rng: Rng, difficulty: str) -> int:
    """Which table a question is about: one with labels where they are asked for."""
    if kind == "lookup":
        return rng.below(2)
    if kind in ("names", "extreme", "above"):
        return rng.below(2) if difficulty == "easy" else 1
    if kind == "count" and difficulty == "hard":
        return 2
    return rng.below(3) if difficulty == "easy" else 1 + rng.below(2)


def _conditions(asker: _Asker, kind: str, difficulty: str) -> None:
    rng, level = asker.rng, asker.level
    own = ["choice", "amount"]
    if kind == "lookup":
        return
    if difficulty == "easy":
        asker.add(level, "choice" if kind == "extreme" else rng.choice(own))
    elif difficulty == "medium":
        asker.add(level - 1, rng.choice(["choice", "amount", "label"]))
        if kind in ("count", "names", "average"):
            asker.add(level, rng.choice(own))
    elif kind == "count":
        asker.add(2, rng.choice(own))
        asker.add(1, rng.choice(own))
        asker.add(0, rng.choice([*own, "label"]))
    elif kind in ("share", "above"):
        asker.add(level - 1, rng.choice(own))
    else:
        asker.add(level, rng.choice(own))


def _count(asker: _Asker, split: str) -> Question:
    return asker.ask("count", split, f"SELECT COUNT(*) {asker.source()}{asker.where()}")


def _names(asker: _Asker, split: str) -> Question:
    label = asker.column(asker.level, asker.names.label)
    return asker.ask("names", split, f"SELECT {label} {asker.source()}{asker.where()}")


def _lookup(asker: _Asker, split: str) -> Question:
    names, sort, level = asker.names, asker.sort, asker.level
    noun, column = asker.rng.choice([(sort.amount.noun, names.amount), (sort.choice.noun, names.choice)])
    label = str(asker.cell(level, names.label))
    sql = f"SELECT {column} {asker.source()} WHERE {names.label} = '{label}'"
    return asker.ask("lookup", split, sql, noun=noun, label=label, label_column=names.label)


def _extreme(asker: _Asker, split: str) -> Question:
    label, amount = (asker.column(asker.level, each) for each in (asker.names.label, asker.names.amount))
    rest = f"{asker.source()}{asker.where()} ORDER BY {amount} DESC LIMIT"
    return asker.ask("extreme", split, f"SELECT {label} {rest} 1", f"SELECT {amount} {rest} 2")


def _average(asker: _Asker, split: str) -> Question:
    amount = asker.column(asker.level, asker.names.amount)
    return asker.ask("average", split, f"SELECT AVG({amount}) {asker.source()}{asker.where()}")


def _per(asker: _Asker, split: str) -> Question:
    group = asker.column(asker.level, asker.names.choice)
    sql = f"SELECT {group}, COUNT(*) {asker.source()}{asker.where()} GROUP BY {group}"
    return asker.ask("per", split, sql, group=asker.sort.choice.noun)


def _busiest(asker: _Asker, split: str) -> Question:
    above = asker.level - 1
    key, label = asker.column(above, "id"), asker.column(above, asker.made.names[above].label)
    rest = f"{asker.source(above)}{asker.where()} GROUP BY {key} ORDER BY COUNT(*) DESC LIMIT"
    sort = asker.made.domain.sorts[above]
    return asker.ask(
        "busiest", split, f"SELECT {label} {rest} 1", f"SELECT COUNT(*) {rest} 2", parent=sort.one, parents=sort.many
    )


def _share(asker: _Asker, split: str) -> Question:
    sort, names, rng = asker.sort, asker.names, asker.rng
    place = names.columns().index(names.amount)
    bound = rng.choice(sorted(int(row[place] or 0) for row in asker.filled[asker.level])[2:-2])
    amount = asker.column(asker.level, names.amount)
    sql = f"SELECT 100.0 * SUM({amount} > {bound}) / COUNT(*) {asker.source()}{asker.where()}"
    return asker.ask("share", split, sql, part=f"{sort.many} {sort.amount.over.format(bound)}")


def _above(asker: _Asker, split: str) -> Question:
    label, amount = (asker.column(asker.level, each) for each in (asker.names.label, asker.names.amount))
    mean = f"(SELECT AVG({asker.names.amount}) FROM {asker.names.table})"
    return asker.ask("above", split, f"SELECT {label} {asker.source()}{asker.where(f'{amount} > {mean}')}")


def _without(asker: _Asker, split: str) -> Question:
    above = asker.made.names[asker.level - 1]
    sort = asker.made.domain.sorts[asker.level - 1]
    inner = f"SELECT {asker.names.link} {asker.source()}{asker.where()}".replace(f"{asker.names.table}.", "")
    sql = f"SELECT {above.label} FROM {above.table} WHERE id NOT IN ({inner})"
    return asker.ask("without", split, sql, parents=sort.many)


def _several(asker: _Asker, split: str) -> Question:
    above, sort = asker.level - 1, asker.made.domain.sorts[asker.level - 1]
    key, label = asker.column(above, "id"), asker.column(above, asker.made.names[above].label)
    least = 2 + asker.rng.below(2)
    sql = f"SELECT {label} {asker.source(above)}{asker.where()} GROUP BY {key} HAVING COUNT(*) >= {least}"
    return asker.ask("several", split, sql, parents=sort.many, k=least)


_KINDS: Mapping[str, Callable[[_Asker, str], Question]] = {
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
