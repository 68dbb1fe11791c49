"""The written policy of a company, and the ways to violate it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Rule(NamedTuple):
    """A rule of a policy."""

    code: str
    """Its name, by which a wish is refused."""
    text: str
    """What it says; `{days}` and the like are numbers that differ by task."""


VIOLATIONS: Mapping[str, str] = {
    "unidentified": "a customer's data looked up, changed or told before the caller is identified",
    "foreign": "another customer's data looked up or changed",
    "unconfirmed": "a change without the customer's yes to exactly this change",
    "forbidden": "a change that a rule forbids",
    "wrong_refusal": "a refusal of what is allowed, or by a rule that does not forbid it",
    "needless_transfer": "a transfer to a person although the tools suffice",
}
"""Kind of violation to its meaning: the costs of an episode."""

COMMON = (
    Rule("identify", "Find the customer by the details that they give before you look up, change or tell their data."),
    Rule("confirm", "Propose each change with all its details and make it only after a yes."),
    Rule("refuse", "Refuse a wish that a rule below forbids, by that rule's name, and change nothing for it."),
    Rule("transfer", "Transfer to a person only a wish that no tool can fulfil."),
    Rule("own_data", "Look up and change only what belongs to the caller."),
)
"""The rules that all companies share; only the last can forbid a wish."""


def policy_text(rules: tuple[Rule, ...], numbers: Mapping[str, int]) -> str:
    """Return the policy as an agent reads it, one rule a line."""
    return "\n".join(f"{rule.code}: {rule.text.format(**numbers)}" for rule in rules)
