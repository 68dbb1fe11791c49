"""Text to terms as Lucene 8's English analyzer does it: words, possessives, lower case, stop words, Porter stems.

Source: what Apache Lucene's `StandardTokenizer`, `EnglishPossessiveFilter`, `StopFilter` and `PorterStemFilter` do, and
Unicode Standard Annex #29. The annex's words count if they hold a letter or a digit. Each ideograph and hiragana, each
run of Thai, Lao, Khmer or Burmese, and each emoji sequence is a word, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache

from agentgym_envs.shop.porter import stem

STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the "  # noqa: SIM905  # reads better
    "their then there these they this to was will with".split()
)
_LONGEST = 255  # characters; Lucene cuts longer words up
_POSSESSIVE = ("'s", "\u2019s", "\uff07s")


# WB5 to WB13b for ASCII: 50x96, 6.76, o'clock and a_1 are one word, us-8 and 8.x are two. Possessive quantifiers are
# avoided because Python before 3.11.5 gets them wrong around a group; `regex` does not.
_ascii_words = re.compile(
    "_*[a-z0-9][a-z0-9_]*(?:(?:(?<=[a-z])[:.'](?=[a-z])|(?<=[0-9])[.,;'](?=[0-9]))[a-z0-9_]+)*"
).findall


@cache
def _unicode_words() -> Callable[[str], list[str]]:
    """Build the word finder for Unicode, at the first text that is not ASCII."""
    import regex

    # Lucene has Unicode 9's words and Unicode 11's emoji: skin tones extend no word yet, ★ and its like are pictographs
    extend = r"[[\p{WB=Format}\p{WB=Extend}\p{WB=ZWJ}]--[\U0001F3FB-\U0001F3FF]]*+"
    inner = r"[[\p{WB=Format}\p{WB=Extend}]--[\U0001F3FB-\U0001F3FF\uFE0E\uFE0F\U000E0020-\U000E007F]]*+"
    hebrew = rf"\p{{WB=Hebrew_Letter}}{extend}"
    letter = (
        rf"(?:{hebrew}(?:'{extend}|\"{extend}(?=\p{{WB=Hebrew_Letter}}))?+"
        rf"|[\p{{WB=ALetter}}--[\u02C2-\u02C5\u02D2-\u02D7\u02DE\u02DF\u02E5-\u02EB\u02ED\u02EF-\u02FF]]{extend})"
    )
    digit = rf"(?:[\p{{WB=Numeric}}\uFF10-\uFF19]{extend})"
    underscore = rf"(?:\p{{WB=ExtendNumLet}}{extend})"
    mid_letter = rf"[:'\u00B7\u0387\u05F4\u2027\uFE13\uFE55\uFF1A\p{{WB=MidNumLet}}]{extend}"
    mid_digit = rf"['\p{{WB=MidNum}}\p{{WB=MidNumLet}}]{extend}"
    run = (
        rf"(?:(?:{letter}++(?:{mid_letter}{letter}++)*+|{digit}++(?:{mid_digit}{digit}++)*+)++"
        rf"|(?:\p{{WB=Katakana}}{extend})++)"
    )
    word = f"{underscore}*+{run}(?:{underscore}++{run})*+{underscore}*+"
    pictograph = (
        r"[\p{Extended_Pictographic}\u2388\u2600-\u2605\u2607-\u2612\u2614-\u2685\u2690-\u2705\u2708-\u2712\u2763-\u2767"
        r"\U0001F000-\U0001F0FF\U0001F10D-\U0001F10F\U0001F12F\U0001F16C-\U0001F171]"
    )
    emoji = (
        rf"\u200D*(?:\p{{Emoji_Modifier_Base}}{inner}[\U0001F3FB-\U0001F3FF]|{pictograph}|[\U0001F3FB-\U0001F3FF])"
        rf"{inner}\uFE0F?+"
    )
    others = (
        rf"(?:\p{{LB=SA}}{extend})++",
        rf"[\p{{Script=Han}}\p{{Script=Hiragana}}]{extend}",
        rf"{emoji}(?:[\U000E0020-\U000E007E]++\U000E007F|(?:\u200D{emoji})*+)",
        rf"(?:\p{{WB=Regional_Indicator}}{extend}){{2}}",
        rf"[#*]\uFE0F?\u20E3{extend}",
    )
    pattern = regex.compile("|".join((word, *others)), regex.VERSION1)
    return lambda text: [match.group() for match in pattern.finditer(text)]


def words(text: str) -> list[str]:
    """Split a text into lower-cased words, with stop words and endings."""
    if text.isascii():
        tokens: list[str] = _ascii_words(text.lower())
    else:  # no word spans a blank, and the ASCII pattern is five times as fast
        chunks = "".join(map(_lower, text)).split(" ")
        tokens = [word for chunk in chunks for word in (_ascii_words if chunk.isascii() else _unicode_words())(chunk)]
    if len(text) > _LONGEST and any(len(word) > _LONGEST for word in tokens):
        return [word[at : at + _LONGEST] for word in tokens for at in range(0, len(word), _LONGEST)]
    return tokens


def _lower(character: str) -> str:
    """Lower one character to one character, as Java does: İ becomes i, a final Σ is no exception."""
    return character.lower()[0]


@lru_cache(maxsize=10_000)  # requests share most of their words
def term(word: str) -> str:
    """Return the indexed term of a lower-cased word; empty for a stop word."""
    if word.endswith(_POSSESSIVE):
        word = word[:-2]
    return "" if word in STOP_WORDS else stem(word)
