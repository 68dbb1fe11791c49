"""How a request for a product is worded: grammars for training tasks, one wording each for valid and test tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_BUY = "[buy|get|bring|fetch|order|find|pick up|choose|look for|go and get|try to find|send for]"
_BEGINNING = (
    "[|||||hello, |listen: |please |one more thing: |[for|before|after] [lunch|the party|the trip|dinner|my visit], "
    "|when you are [there|in town|out], |if it is no bother, |as I [said|told you], ]"
)
_END = (
    "[||| today| before noon| before they close| in the afternoon| on your way home| when you are in town"
    "| in time for dinner| from the shop| at the market| with this money| instead of the old one"
    "| to [replace the broken one|give away|take along|cheer her up|surprise them]"
    "| for [the|my|our|a] [garden|kitchen|party|office|trip|school|workshop|flat|guest|friend|grandmother|wedding]"
    "|, [as we agreed|as ever|because ours is broken|but not at any price]]"
)
"""When, where, for whom and what for."""
_PLEA = "[||, please|, if you can|, if possible|, thank you|, would you|, and hurry]"
REQUESTS: Mapping[str, Sequence[str]] = {
    "train": (
        f"{_BEGINNING}{_BUY} {{}}{_END}{_PLEA}.",
        f"{_BEGINNING}[buy|get|bring|fetch|order|find|choose] [me|us|her|him|them] {{}}{_END}{_PLEA}.",
        "[I|We|You|They|The neighbours|Our guests] [need|want|would like|wish for|look for|could use|should buy|"
        f"dream of|have to get|miss] {{}}{_END}.",
        "[My|Our|Her|The] [neighbour|mother|friend|brother|aunt|teacher|landlord|boss|cousin|son] [asks for|needs|wants"
        f"|would like|keeps asking for|is looking for] {{}}{_END}.",
        f"{{}} is [needed|wanted|missing|what we need|on the list|to be bought|what I came for|all I ask for]{_END}.",
        f"[Can|Could|Would|Will] [you|the shopper|your friend|somebody in town] {_BUY} {{}}{_END}?",
        f"[The list says|It says here|The note reads|First on the list|Wanted|To get|Still missing]: {{}}{_END}.",
        "[There is|There should be|The shop should have|They sell] {} [there|in the shop|somewhere|at the market], "
        "[and I want it|so get it|which I need|so bring it].",
        "[Do they have|Is there|Have you seen] {}[| there| anywhere| in the shop]? [I need one|Get it, please|Then "
        "buy it|We want one].",
    ),
    "valid": ("Have somebody purchase {} for the house.",),
    "test": ("What you require is {}, nothing else.",),
}
