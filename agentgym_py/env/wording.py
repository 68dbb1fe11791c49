"""Wordings from a grammar, and made-up names.

A training split with few words teaches an agent to remember them; held-out splits then show that it cannot read. So
training tasks draw their texts from grammars with many expansions, and some of their names are made up.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from functools import cache

from agentgym_py.rng import Rng

Pattern = tuple["str | tuple[Pattern, ...]", ...]
"""Text parts and choices; a choice is a tuple of patterns."""
_TOKENS = re.compile(r"[\[\]|]|[^\[\]|]+")
_SYLLABLE = (
    "b c d f g h j k l m n p r s t v w z b c d f g h k l m n p r s t bl br ch cl cr dr fl fr gl gr ph pl pr qu sc sh "
    "sk sl sm sn sp st str sw th tr tw wh",
    "a e i o u a e i o u a e i o u ai au ay ea ee ew ie oa oi oo ou ow",
    "- - - - - - - - - - - - - - ck ct ft ld lf ll lm lt mp n nd ng nk nt l l m n n r r r s t t rd rk rm rn rp rt sh "
    "sk sp ss st th x",
)
"""Onsets, vowels and codas; a hyphen stands for none."""
_ENDINGS = "- - - - - - ble dle el en er et ic ine ish it le ly on or ow tle ure y"
_RUDE = re.compile(
    "anal|anus|arse|bastar|bitch|bone|boob|butt|clit|cock|coon|crap|cum|cunt|dick|dildo|dyke|fag|fart|fuck|gook|homo|hore"
    "|jap|jew|jiz|kike|nazi|nig|orgas|paki|pedo|peni|perv|piss|poof|poo[nph]|porn|prick|pube|puss|puta|queer|rape|sex"
    "|semen|shag|shit|slag|slut|spic|suck|teat|tit|tranny|turd|twat|vagi|wank|whor"
)


def expand(rng: Rng, text: str) -> str:
    """Draw an expansion of a grammar: `[Leave|Get out of] the house[ now|].` has four.

    Brackets hold alternatives, which may be empty or hold brackets themselves; each is drawn with equal probability.
    """
    return _expand(rng, _parse(text))


def count_expansions(text: str) -> int:
    """Return the number of ways to expand a grammar; equal texts count as often as they occur."""
    return _count(_parse(text))


def grammar_regex(grammar: str) -> str:
    """Return a regular expression for the expansions of a grammar."""
    return _regex(_parse(grammar))


def is_expansion(text: str, grammar: str) -> bool:
    """Tell whether a grammar expands to a text, in any case."""
    return re.fullmatch(grammar_regex(grammar), text, re.IGNORECASE) is not None


def made_up_name(rng: Rng, avoid: Collection[str] = ()) -> str:
    """Draw a pronounceable lower-case word of 4 to 9 letters that is not in `avoid`.

    Its syllables are those of English, so that all short runs of letters occur: an agent that has only seen names such
    as "kavinu" does not copy "steel".
    """
    while True:
        parts = [*_SYLLABLE * (1 + rng.below(2)), _ENDINGS]
        name = "".join(rng.choice(choices.split()) for choices in parts).replace("-", "")
        if 4 <= len(name) <= 9 and name not in avoid and not _RUDE.search(name):
            return name


def sample_names(rng: Rng, names: Sequence[str], count: int, made_up: float, avoid: Collection[str] = ()) -> list[str]:
    """Draw `count` different names: each is made up with probability `made_up`, else one of `names`."""
    known, listed = rng.sample(names, min(count, len(names))), frozenset(names)
    drawn: list[str] = []
    while len(drawn) < count:
        if known and rng.uniform() >= made_up:
            drawn.append(known.pop())
            continue
        name = made_up_name(rng, avoid)
        while name in listed or name in drawn:
            name = made_up_name(rng, avoid)
        drawn.append(name)
    return drawn


def _expand(rng: Rng, pattern: Pattern) -> str:
    text = ""
    for part in pattern:
        text += part if isinstance(part, str) else _expand(rng, part[rng.below(len(part))])
    return text


def _count(pattern: Pattern) -> int:
    return math.prod(sum(map(_count, part)) for part in pattern if not isinstance(part, str))


def _regex(pattern: Pattern) -> str:
    return "".join(
        re.escape(part) if isinstance(part, str) else f"(?:{'|'.join(map(_regex, part))})" for part in pattern
    )


@cache
def _parse(text: str) -> Pattern:
    levels: list[list[list[str | tuple[Pattern, ...]]]] = [[[]]]  # open choices; each is a list of alternatives
    for part in _TOKENS.findall(text):
        if part == "[":
            levels.append([[]])
        elif part == "|" and len(levels) > 1:
            levels[-1].append([])
        elif part == "]" and len(levels) > 1:
            choice = tuple(map(tuple, levels.pop()))
            levels[-1][-1].append(choice)
        elif part in ("|", "]"):
            raise ValueError(f"{part!r} outside brackets: {text!r}")
        else:
            levels[-1][-1].append(part)
    if len(levels) > 1:
        raise ValueError(f"a bracket is not closed: {text!r}")
    return tuple(levels[0][0])
