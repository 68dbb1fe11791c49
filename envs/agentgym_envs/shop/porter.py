"""Porter's stemmer as Lucene's `PorterStemFilter` runs it: the paper's rules with Martin Porter's two departures.

M. F. Porter, "An algorithm for suffix stripping", Program 14(3), 1980; the departures (`bli` for `abli`, and `logi`)
are described on https://tartarus.org/martin/PorterStemmer/. Snowball's "porter" lacks both and undoubles only a fixed
list of letters (it leaves "trekk"). NLTK has them but is a large import.
"""

from __future__ import annotations

import re

_C = "[^aeiou][^aeiouy]*"  # a run of consonants; a y after a consonant is a vowel
_V = "[aeiouy][aeiou]*"  # a run of vowels
_BEGIN = f"(?:{_C}|(?=[aeiou]))"
_has_vowel = re.compile(f"{_BEGIN}[aeiouy]").match
_m_over_0 = re.compile(f"{_BEGIN}{_V}{_C}").match
_m_over_1 = re.compile(f"{_BEGIN}{_V}{_C}{_V}{_C}").match
_ends_in_consonant = re.compile(f"(?:{_BEGIN}(?:{_V}{_C})*)?").fullmatch
_short = re.compile(f"{_C}[aeiouy][^aeiouwxy]").fullmatch  # m = 1, ends consonant-vowel-consonant

_Rules = dict[str, tuple[tuple[str, str], ...]]


def _by_ending(rules: str) -> _Rules:
    """Group `suffix:replacement` rules by the suffix's last two letters, longest suffix first."""
    pairs = sorted((rule.partition(":")[::2] for rule in rules.split()), key=lambda pair: -len(pair[0]))
    return {end: tuple(p for p in pairs if p[0].endswith(end)) for end in {suffix[-2:] for suffix, _ in pairs}}


_STEP_2 = _by_ending(
    "ational:ate tional:tion enci:ence anci:ance izer:ize bli:ble alli:al entli:ent eli:e ousli:ous ization:ize "
    "ation:ate ator:ate alism:al iveness:ive fulness:ful ousness:ous aliti:al iviti:ive biliti:ble logi:log"
)
_STEP_3 = _by_ending("icate:ic ative: alize:al iciti:ic ical:ic ful ness")
_STEP_4 = _by_ending("al ance ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize")


def stem(word: str) -> str:
    """Return the stem of a lower-case word; words of one or two letters stay."""
    if len(word) <= 2:
        return word
    if word[-1] in "sdgy":
        word = _step_1(word)
    for step in (_STEP_2, _STEP_3):
        if rules := step.get(word[-2:]):
            word = _replace(word, rules)
    for suffix, _ in _STEP_4.get(word[-2:], ()):
        if word.endswith(suffix):
            head = word[: -len(suffix)]
            if _m_over_1(head) and (suffix != "ion" or head[-1] in "st"):
                word = head
            break
    return _step_5(word) if word[-1] in "el" else word


def _replace(word: str, rules: tuple[tuple[str, str], ...]) -> str:
    """Apply step 2 or 3: replace the longest matching suffix if the measure before it is at least one."""
    for suffix, replacement in rules:
        if word.endswith(suffix):
            head = word[: -len(suffix)]
            return head + replacement if _m_over_0(head) else word
    return word


def _step_1(word: str) -> str:
    """Apply step 1: plurals, -ed and -ing, and a final y."""
    if word[-1] == "s":
        if word.endswith(("sses", "ies")):
            word = word[:-2]
        elif word[-2] != "s":
            word = word[:-1]
    if word[-2:] == "ed":
        if word[-3:] != "eed":
            word = _tidy(word[:-2]) if _has_vowel(word[:-2]) else word
        elif _m_over_0(word[:-3]):
            word = word[:-1]
    elif word[-3:] == "ing":
        word = _tidy(word[:-3]) if _has_vowel(word[:-3]) else word
    if word[-1] == "y" and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    return word


def _tidy(word: str) -> str:
    """Repair a word without its -ed or -ing: `conflat` to `conflate`, `hopp` to `hop`, `fil` to `file`."""
    if word.endswith(("at", "bl", "iz")):
        return word + "e"
    if word[-1] == word[-2:-1] and _ends_in_consonant(word):
        return word if word[-1] in "lsz" else word[:-1]
    return word + "e" if _short(word) else word


def _step_5(word: str) -> str:
    """Apply step 5: a final e and a double l."""
    if word[-1] == "e":
        head = word[:-1]
        if _m_over_1(head) or (_m_over_0(head) and not _short(head)):
            word = head
    if word[-2:] == "ll" and _m_over_1(word):
        word = word[:-1]
    return word
