"""The words of training boards: hundreds of names, two of five made up.

The listed words, and grammars of comments and titles, are in `agentgym_data/todo/training_words.txt`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib.resources import files

from agentgym_py.env.wording import expand, made_up_name, read_wordings, split_words
from agentgym_py.rng import Rng

MADE_UP = 0.4
"""Share of made-up names, so that names must be read."""
_COMMENTS = 600
"""The comments from which boards draw."""
_sections = read_wordings(files("agentgym_data") / "todo" / "training_words.txt")
COMMENTS, PATTERNS = _sections.pop("comments"), _sections.pop("patterns")
"""Grammars of comments, and of titles' patterns that only training boards have, beside those of the themes."""
WORDS: Mapping[str, tuple[str, ...]] = {slot: split_words(entries) for slot, entries in _sections.items()}
"""Slot to its listed words."""
_CAPITALS = ("person", "city", "project", "section")


def draw_words(avoid: Collection[str]) -> Mapping[str, tuple[str, ...]]:
    """Return slot to listed and made-up words, always the same; `avoid` has other splits' names in lower case."""
    rng = Rng("todo", "training words")
    listed = dict(WORDS)
    taken = {*avoid, *(word.casefold() for texts in listed.values() for word in texts)}
    for slot, texts in listed.items():
        names = [made_up_name(rng, taken) for _ in range(round(len(texts) * MADE_UP / (1 - MADE_UP)))]
        names = [name.capitalize() for name in names] if slot in _CAPITALS else names
        listed[slot] = tuple(rng.sample([*texts, *dict.fromkeys(names)], len(texts) + len(set(names))))
    comments = {_comment(rng, listed): None for _ in range(_COMMENTS)}
    return {**listed, "text": tuple(comments)}


def _comment(rng: Rng, listed: Mapping[str, tuple[str, ...]]) -> str:
    text = expand(rng, rng.choice(COMMENTS))
    number = str(2 + rng.below(98))
    return text.format(number=number, person=rng.choice(listed["person"]), thing=rng.choice(listed["thing"]))
