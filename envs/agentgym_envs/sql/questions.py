"""Questions about a database, with the statements that answer them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agentgym_envs.sql.guard import Row
from agentgym_envs.sql.tables import Layout
from agentgym_py.env.wording import expand
from agentgym_py.rng import Rng

Rows = tuple[list[Row], list[Row], list[Row]]

WORDINGS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "count": {
        "train": (
            "How many {s} [are there|exist|do you find|are on record|does the database hold|are in the data]?",
            "[Count|Please count|Just count] [all |]the {s}[ in the database|].",
            "[Tell me|Say|Find out|Work out|I want to know|Check|Show] how many {s} there are.",
            "[Report|Return|Show|Get|I need|Tell me] the number of {s}[ on record|].",
            "[In total|Altogether|All in all|In this database], how many {s} [are there|do you find|do you count]?",
            "How [large|big|high] is the number of {s}?",
            "[What do you get when you count all {s}?|Please count all {s}: how many are there?]",
        ),
        "valid": ("What is the number of {s}?",),
        "test": ("Give the count of the {s}.",),
    },
    "names": {
        "train": (
            "[Name|Show|Give me|Print|Write down|Tell me|I need|Return] [all |all of |]the {s}.",
            "[Which|What] {s} [are there|are on record|do you find|does the database know]?",
            "[Show|Return|Print|I need|Write down|Get] the {label} of [all|every one of] the {s}.",
            "[Which|What] are the {s}? [List|Show|Name|Give] them by {label}.",
            "[Make|Write|Prepare] a list of [all |]the {s}.",
            "[By|With] {label}, which {s} [are there|do you find]?",
            "I am looking for the {s}. [Give|Show] [me |]the {label} of each.",
        ),
        "valid": ("List the {s} by {label}.",),
        "test": ("Give the {label} of each of the {s}.",),
    },
    "lookup": {
        "train": (
            "What is the {noun} of [the |]{one} {label}?",
            "[Look up|Find|Tell me|Show|Return|I need|Read out] the {noun} of [the |]{one} {label}.",
            "[Which|What] {noun} does [the |]{one} {label} have?",
            "One {one} is [called|named] {label}. [What is the {noun}?|Give the {noun}.|Which {noun} is stored?]",
            "In the [record|row|entry] of [the |]{one} {label}, what [is|stands as] the {noun}?",
            "[Take|Consider] the {one} {label}: what is the {noun}?",
            "The {noun} of [the |]{one} {label} is [wanted|asked for|needed].",
        ),
        "valid": ("For {one} {label}, what is the {noun}?",),
        "test": ("{label} is the {label_column} of a {one}. Find its {noun}.",),
    },
    "extreme": {
        "train": (
            "Which [one |]of the {s} has {most}?",
            "[Of|Out of|From] all {s}, which [one |]has {most}?",
            "[Show|Return|Tell me|Give|Name] the one of the {s} [with|that has] {most}.",
            "[Search|Look through|Go through|Compare] the {s}: which [one |]has {most}?",
            "What is the {label} of the one of the {s} [with|that has] {most}?",
            "[Take|Consider] all {s}. [Which one has {most}?|Name the one with {most}.|Show the one that has {most}.]",
            "[I want|I need|Return] the {label} of that one of the {s} which has {most}.",
        ),
        "valid": ("Find the {label} of the one with {most} among the {s}.",),
        "test": ("Among the {s}, name the one with {most}.",),
    },
    "average": {
        "train": (
            "[What is|How large is|How big is] the average {noun} of [the|all] {s}?",
            "[Give|Tell me|Calculate|Return|Work out|Show|I need] the average {noun} of [the|all] {s}.",
            "On average, [what|how large] is the {noun} of [the|all] {s}?",
            "[Take|Consider] [the|all] {s}: what is their average {noun}?",
            "[Average|Take the average of|Take the mean of] the {noun} over [the|all] {s}.",
            "What does the {noun} of [the|all] {s} come to on average?",
            "For [the|all] {s}, [work out|calculate|return] the [average|mean] {noun}.",
        ),
        "valid": ("Find the mean {noun} of the {s}.",),
        "test": ("Compute how high the {noun} of the {s} is on average.",),
    },
    "per": {
        "train": (
            "For [each|every] {group}, how many {s} are there? [Give|Show|Return] the {group} and the number.",
            "How many {s} [does each {group} have|are there for each {group}|belong to each {group}]? "
            "[Give|Show|Return|Print] the {group} and the number.",
            "[Break down|Split|Group|Divide] the {s} by {group}[ and count them|]. [Show|Return|Give] {group} and "
            "count.",
            "[Show|Return|Print|Tabulate] [each|every] {group} [and|together with] [how many {s} it has|its number of "
            "{s}].",
            "[I need|Show|Return] two columns: the {group}, and how many {s} [there are for it|have it].",
            "For [each|every] {group} of the {s}, [show|return|give] that {group} and [how many there are|their "
            "number].",
        ),
        "valid": ("Count the {s} by {group}: {group} first, then the number.",),
        "test": ("List every {group} with its number of {s}.",),
    },
    "busiest": {
        "train": (
            "Which {parent} has [the most|the highest number of|the greatest number of] {s}?",
            "[Name|Show|Return|Tell me|I need] the {parent} [that has|with] [the most|the highest number of] {s}.",
            "Of all {parents}, which [one |]has [the most|the greatest number of] {s}?",
            "[Compare|Go through|Look through] the {parents}: which one has the most {s}?",
            "The most {s} belong to which {parent}?",
            "[For|With] which {parent} [are there the most|do you find the most|do you count the most] {s}?",
        ),
        "valid": ("Find the {parent} with the largest number of {s}.",),
        "test": ("Who or what among the {parents} leads in {s}?",),
    },
    "share": {
        "train": (
            "[What percentage|How many percent|What percent|Which percentage] of the {s} are {part}?",
            "[Tell me|Calculate|Work out|Return|Show|I need] the percentage of the {s} that are {part}.",
            "How [large|big|high] is the [share|part|portion] of {part} among the {s}, in percent?",
            "[In percent|As a percentage|In per cent], what [part|share|portion] of the {s} are {part}?",
            "[Out of|Taking] all {s}, what percentage are {part}?",
            "[How many in a hundred|How many out of a hundred] of the {s} are {part}?",
        ),
        "valid": ("Find the percentage of {part} among the {s}.",),
        "test": ("Of the {s}, give the percentage that are {part}.",),
    },
    "above": {
        "train": (
            "Which of the {s} have more than the average {noun} of all {many}?",
            "[Name|Show|Return|Print|Tell me] the {s} whose {noun} is [above|larger than|greater than|higher than] the "
            "average of all {many}.",
            "Which [of the |]{s} [lie above|are above|beat|top] the average {noun} of all {many}?",
            "[Take|Work out] the average {noun} of all {many}. Which of the {s} [are above it|lie above it|lie "
            "higher]?",
            "[Show|Return|I need] those of the {s} that [have more than|lie above] the average {noun} of "
            "all {many}.",
        ),
        "valid": ("List the {s} that exceed the mean {noun} of all {many}.",),
        "test": ("Find the {s} with a {noun} over the average of all {many}.",),
    },
    "without": {
        "train": (
            "Which {parents} [have no|do not have any|are without|go without] {s}?",
            "[Name|Show|Return|Print|Tell me] [all |the |]{parents} that [have no|do not have any|are without] {s}.",
            "For which {parents} [are there no|do you find no|does the database hold no] {s}?",
            "Which {parents} [remain|are left] when [all|those] with {s} are [left out|taken away|dropped]?",
            "[Leave out|Drop|Remove] the {parents} that have {s}. [Which ones remain|Which are left]?",
            "[I need|Show|Return] the {parents} for which [no {s} are on record|the data has no {s}].",
        ),
        "valid": ("List all {parents} without any {s}.",),
        "test": ("Find the {parents} for which there are no {s}.",),
    },
    "several": {
        "train": (
            "Which {parents} have [at least {k}|{k} or more|not less than {k}] {s}?",
            "[Name|Show|Return|Print|Tell me] [all |the |]{parents} [that have|with] [{k} or more|at least {k}] {s}.",
            "Which {parents} [come to|reach|count] [at least {k}|{k} or more] {s}?",
            "For which {parents} [do you find|are there|do you count] [{k} or more|at least {k}] {s}?",
            "[Count the {s}.|Look at the {s}.] Which {parents} have [at least {k}|{k} or more] of them?",
            "[I need|Show|Return] the {parents} [having|that come to] [{k} {s} or more|at least {k} {s}].",
        ),
        "valid": ("List all {parents} with no fewer than {k} {s}.",),
        "test": ("Find the {parents} for which at least {k} {s} exist.",),
    },
}  # fmt: skip
"""Wordings of each kind of question by split; those of the train split are grammars."""
NOTES: Mapping[str, str] = {
    "train": (
        "[[By|With] {term} {plural} [we mean|I mean] [{plural}|those] {over}.|{Plural} {over} are called "
        "{term}.|[Here, {term}|In this question, {term}|In this database, {term}|{Term}] means {over}.|[Call|We call] "
        "{plural} {over} {term}.|[Here|In this case], {term} {plural} are [those|the ones] {over}.|[The word "
        "{term}|{Term}] stands for {plural} {over}.]"
    ),
    "valid": "{Term} {plural} are {plural} {over}.",
    "test": "{Term} {plural} are {plural} {over}.",
}
"""Definitions of an adjective in the question by split."""
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
    looked_up: tuple[str, ...]
    """What each look is about, with the value that the question names: `role keeper`."""
    tables: tuple[str, ...]
    """What the question calls a table, and its name: `players = squad`."""
    meaning: tuple[str, ...]
    """What the question is about and its columns, with the notation if it differs: `role keeper: role 'KEE'`."""


@dataclass(frozen=True, slots=True)
class _Condition:
    """A condition on the rows of one table."""

    level: int
    kind: str
    words: str
    sql: str
    about: str
    """What the column holds, with the value that the question names."""
    meaning: str
    """The column, and the notation of a value if it differs."""
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

    def add(self, level: int, kind: str) -> None:
        """Add a condition of a kind: `choice`, `amount` or `label`."""
        self.conditions.append({"choice": self._choice, "amount": self._amount, "label": self._label}[kind](level))

    def _choice(self, level: int) -> _Condition:
        names, choice = self.layout.names[level], self.layout.domain.entities[level].choice
        stored = self.cell(level, names.choice)
        value = next(word for word, text in names.stored.items() if text == stored)
        phrase = expand(self.rng, choice.which).format(value, noun=choice.noun)
        meaning = names.choice if value == stored else f"{names.choice} '{stored}'"
        about, sql = f"{choice.noun} {value}", f"{self.column(level, names.choice)} = '{stored}'"
        return _Condition(level, "choice", phrase, sql, about, meaning)

    def _label(self, level: int) -> _Condition:
        names = self.layout.names[level]
        label = str(self.cell(level, names.label))
        column = self.column(level, names.label)  # with the table, which the question may not name
        return _Condition(level, "label", label, f"{column} = '{label}'", label, column)

    def _amount(self, level: int) -> _Condition:
        names, entity = self.layout.names[level], self.layout.domain.entities[level]
        place = names.columns().index(names.amount)
        values = sorted(int(row[place] or 0) for row in self.rows[level])
        bound = values[len(values) * (3 + self.rng.below(4)) // 10]
        column, over = self.column(level, names.amount), int(self.witness[level][place] or 0) > bound
        named = self.difficulty != "easy" and over and self.rng.below(5) < 2
        phrase = self.amount_phrase(level, bound if over else bound + 1, over=over)
        if not named:
            sql = f"{column} > {bound}" if over else f"{column} < {bound + 1}"
            about = entity.amount.noun.removeprefix("number of ")
            return _Condition(level, "amount", phrase, sql, about, names.amount)
        term, plural = entity.amount.term, entity.plural
        note = expand(self.rng, NOTES[self.split]).format(
            term=term, Term=term.capitalize(), plural=plural, Plural=plural.capitalize(), over=phrase
        )
        return _Condition(level, "term", term, f"{column} > {bound}", term, names.amount, note)

    def amount_phrase(self, level: int, bound: int, *, over: bool = True) -> str:
        """Return a comparison with a number in words."""
        amount = self.layout.domain.entities[level].amount
        return expand(self.rng, amount.over if over else amount.under).format(bound, units=amount.units)

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

    def question(self, sql: str, tie: str = "", asked: str = "", **fields: object) -> Question:
        """Return the question in a wording of the split; `asked` is what it asks for, with the column."""
        entity, names = self.entity, self.names
        wording = expand(self.rng, self.rng.choice(WORDINGS[self.kind][self.split]))
        most = expand(self.rng, entity.amount.most).format(units=entity.amount.units)
        text = wording.format(
            **{"s": self.phrase(), "label": names.label, "one": entity.singular, "many": entity.plural,
               "noun": entity.amount.noun, "most": most, **fields}
        )  # fmt: skip
        text = f"{text[0].upper()}{text[1:]}"
        notes = [condition.note for condition in self.conditions if condition.note]
        if " JOIN " not in sql and "NOT IN" not in sql:  # a single table
            sql, tie = sql.replace(f"{names.table}.", ""), tie.replace(f"{names.table}.", "")
        compared = [condition for condition in self.conditions if condition.kind == "choice"]
        places = [self.layout.names[condition.level] for condition in compared]
        return Question(
            self.kind,
            " ".join([text, *notes]),
            sql,
            tie,
            tuple((table.table, table.choice) for table in places),
            tuple(condition.about for condition in compared),
            self._tables(text),
            tuple(filter(None, (asked, *(f"{condition.about}: {condition.meaning}" for condition in self.conditions)))),
        )

    def _tables(self, text: str) -> tuple[str, ...]:
        """The tables that the question names, from its own one upwards."""
        tables = []
        for level in range(self.level, -1, -1):
            entity, names = self.layout.domain.entities[level], self.layout.names[level]
            word = entity.plural if entity.plural in text else entity.singular
            if word in text:
                tables.append(f"{word} = {names.table}")
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
    return builder.question(f"SELECT COUNT(*) {builder.source()}{builder.where()}")


def _names(builder: _QuestionBuilder) -> Question:
    return builder.question(f"SELECT {builder.label} {builder.source()}{builder.where()}")


def _lookup(builder: _QuestionBuilder) -> Question:
    names, entity = builder.names, builder.entity
    noun, column = builder.rng.choice([(entity.amount.noun, names.amount), (entity.choice.noun, names.choice)])
    label = str(builder.cell(builder.level, names.label))
    sql = f"SELECT {column} {builder.source()} WHERE {names.label} = '{label}'"
    return builder.question(sql, asked=f"{noun}: {column}", noun=noun, label=label, label_column=names.label)


def _extreme(builder: _QuestionBuilder) -> Question:
    rest = f"{builder.source()}{builder.where()} ORDER BY {builder.amount} DESC LIMIT"
    asked = f"most {builder.entity.amount.noun}: {builder.names.amount}"
    return builder.question(f"SELECT {builder.label} {rest} 1", f"SELECT {builder.amount} {rest} 2", asked)


def _average(builder: _QuestionBuilder) -> Question:
    asked = f"{builder.entity.amount.noun}: {builder.names.amount}"
    return builder.question(f"SELECT AVG({builder.amount}) {builder.source()}{builder.where()}", asked=asked)


def _per(builder: _QuestionBuilder) -> Question:
    group = builder.column(builder.level, builder.names.choice)
    sql = f"SELECT {group}, COUNT(*) {builder.source()}{builder.where()} GROUP BY {group}"
    group_noun = builder.entity.choice.noun
    return builder.question(sql, asked=f"{group_noun}: {builder.names.choice}", group=group_noun)


def _busiest(builder: _QuestionBuilder) -> Question:
    rest = f"{builder.grouped_by_parent()} ORDER BY COUNT(*) DESC LIMIT"
    sql, tie = f"SELECT {builder.parent_label} {rest} 1", f"SELECT COUNT(*) {rest} 2"
    return builder.question(sql, tie, parent=builder.parent.singular, parents=builder.parent.plural)


def _share(builder: _QuestionBuilder) -> Question:
    entity, names = builder.entity, builder.names
    place = names.columns().index(names.amount)
    bound = builder.rng.choice(sorted(int(row[place] or 0) for row in builder.rows[builder.level])[2:-2])
    sql = f"SELECT 100.0 * SUM({builder.amount} > {bound}) / COUNT(*) {builder.source()}{builder.where()}"
    over = builder.amount_phrase(builder.level, bound)
    return builder.question(sql, asked=f"{over}: {names.amount}", part=f"{entity.plural} {over}")


def _above(builder: _QuestionBuilder) -> Question:
    above_average = f"{builder.amount} > (SELECT AVG({builder.names.amount}) FROM {builder.names.table})"
    asked = f"{builder.entity.amount.noun}: {builder.names.amount}"
    return builder.question(f"SELECT {builder.label} {builder.source()}{builder.where(above_average)}", asked=asked)


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
