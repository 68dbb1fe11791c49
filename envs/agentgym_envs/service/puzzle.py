"""A task: a customer, their wishes and a database."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from agentgym_envs.service.desk import Call, Desk, Key, Row, Tables
from agentgym_envs.service.domain import Domain, Fact, Wish
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
    voice: int
    """Seed of the customer's paraphrases, which are therefore frozen: the same act gets the same answer."""

    def desk(self) -> Desk:
        """Return the database at the start."""
        return Desk(self.tables, self.today, self.numbers)

    def speak(self, key: str, **fields: str) -> str:
        """Return the customer's words for a key of the wordings."""
        return speak(self.split, self.voice, key, **fields)

    def state_fact(self, fact: Fact) -> str:
        """Return the sentence that states a fact."""
        return self.speak(f"fact {fact[0]}", value=fact[1])


def speak(split: str, voice: int, key: str, **fields: str) -> str:
    """Return sentences, each with a capital at its beginning, that depend on nothing but the arguments."""
    texts = WORDINGS[key][split]
    rng = Rng("service", voice, key)
    text = _START.sub(lambda match: match[0].upper(), expand(rng, rng.choice(texts)))
    return text.format(**fields) if fields else text
