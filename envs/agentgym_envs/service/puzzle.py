"""A task: a customer, their wishes and a database."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agentgym_envs.service.desk import Call, Desk, Key, Row, Tables
from agentgym_envs.service.domain import Domain, Fact, Wish
from agentgym_envs.service.tool import plain
from agentgym_envs.service.wording import WORDINGS
from agentgym_py.env.wording import expand
from agentgym_py.rng import Rng

_START = re.compile(r"(?:^|[.?!] )[a-z]")


@dataclass(frozen=True, slots=True)
class Puzzle:
    """The hidden part of a task."""

    domain: Domain
    split: str
    today: str
    numbers: Mapping[str, int]
    tables: Tables
    caller: str
    """The customer's id."""
    identity: Mapping[str, Fact]
    """What identifies the customer."""
    find: Call
    """The call that identifies the customer."""
    says_identity: bool
    """Whether the customer says at once who they are."""
    wishes: tuple[Wish, ...]
    together: int
    """The number of wishes that the customer says at once."""
    goal: Mapping[Key, Row]
    """The rows that differ from the start when all wishes are fulfilled."""
    spellings: Mapping[str, str]
    """Ids and texts of the task, and their plain forms, to how the task spells them."""
    voice: int
    """Seed of the customer's paraphrases, which are therefore frozen: the same act gets the same answer."""

    def desk(self) -> Desk:
        """Return the database at the start."""
        return Desk(self.tables, self.today, self.numbers)

    @property
    def names(self) -> list[str]:
        """What identifies the customer, in all ways."""
        row, tools = self.tables["customers"][self.caller], self.domain.tools.values()
        fields = {name for tool in tools if tool.name.startswith("find_") for name in tool.parameters}
        return [row[name] for name in fields]

    def spell(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments with their texts as the task spells them, if it knows them."""
        known = self.spellings
        return {
            name: known.get(value) or known.get(plain(value), value) if isinstance(value, str) else value
            for name, value in arguments.items()
        }

    def speak(self, key: str, **fields: str) -> str:
        """Return the customer's words for a key of the wordings."""
        return speak(self.split, self.voice, key, **fields)

    def phrase(self, key: str) -> str:
        """Return the customer's words for a key, to stand within a sentence."""
        return _paraphrase(self.split, self.voice, key)

    def state_fact(self, fact: Fact) -> str:
        """Return the sentence that states a fact."""
        return self.speak(f"fact {fact[0]}", value=fact[1])


def spellings(tables: Tables, facts: Iterable[Fact]) -> dict[str, str]:
    """Return the texts of tables and facts, and their plain forms, with how they are spelt; the first one counts."""
    texts = [value for _, value in facts]
    for table in tables.values():
        for rid, row in table.items():
            texts.append(rid)
            for value in row.values():
                texts += value if isinstance(value, tuple) else [value] if isinstance(value, str) else []
    return {plain(text): text for text in reversed(texts) if text} | {text: text for text in texts}


def speak(split: str, voice: int, key: str, **fields: str) -> str:
    """Return sentences, each with a capital at its beginning, that depend on nothing but the arguments."""
    text = _START.sub(lambda match: match[0].upper(), _paraphrase(split, voice, key))
    return text.format(**fields) if fields else text


def _paraphrase(split: str, voice: int, key: str) -> str:
    rng = Rng("service", voice, key)
    return expand(rng, rng.choice(WORDINGS[key][split]))
