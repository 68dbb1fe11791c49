"""What a customer hears in what they are told: amounts, days and addresses.

Amounts are digits or number words, and `none`, `no data` and `nothing left` are 0. A lone `one` is an amount only
before `left` or a unit, because it is mostly a pronoun. Days are `2027-10-03`, `03.10.2027` or `October 3, 2027`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from datetime import date
from functools import lru_cache

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    "(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_NUMBER, _YEAR = "(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?", "(?:,? (?P<year>[0-9]{4}))?(?![0-9])"
_DAYS = (
    re.compile(r"(?<!\w)(?P<year>[0-9]{4})[-/](?P<month>[0-9]{1,2})[-/](?P<day>[0-9]{1,2})(?!\w)"),
    re.compile(r"(?<![\w.])(?P<day>[0-9]{1,2})\.(?P<month>[0-9]{1,2})\.(?P<year>[0-9]{4})(?!\w)"),
    re.compile(rf"\b{_MONTH} (?:the )?{_NUMBER}{_YEAR}"),
    re.compile(rf"(?<!\w){_NUMBER} (?:of )?{_MONTH}{_YEAR}"),
)
_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
)
_SMALL += "eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_VALUES = {word: number for number, word in enumerate(_SMALL.split())}
_VALUES |= {word: 10 * number for number, word in enumerate(_TENS.split(), 2)}
_HUNDRED = rf"(?:(?:{_TENS.replace(' ', '|')})(?:[ -](?:{'|'.join(_SMALL.split()[1:10])}))?|{_SMALL.replace(' ', '|')})"
_THOUSAND = rf"(?:(?:an?|{_HUNDRED}) hundred(?:(?: and)? {_HUNDRED})?|{_HUNDRED})"
_IN_WORDS = re.compile(rf"\b(?:(?:an?|{_THOUSAND}) thousand(?:(?: and)? {_THOUSAND})?|{_THOUSAND})\b")
_UNIT = r"(?:gb|gigabytes?|dollars?|euros?)\b"
_ONE = re.compile(rf"\bone(?= (?:{_UNIT}|left\b))|^one\W*$")
_NONE = re.compile(rf"\bno (?:more )?(?:data|volume|{_UNIT})|\bnothing (?:is )?left\b|\bnone\b(?! of)|^no(?=\W*$)")
_TOKEN = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})(?![0-9])"
    r"|(?P<amount>(?:(?<!\w)-)?(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?)|(?P<word>[^\W_]+)"
)


@lru_cache(maxsize=2_048)
def read(text: str, today: str) -> tuple[str, ...]:
    """Return the words of a text in lower case, amounts without needless signs, and days as YYYY-MM-DD.

    A day without a year is the one next to `today`.
    """
    plain = " ".join(text.casefold().split())
    for pattern in _DAYS:
        plain = pattern.sub(lambda match: _day(match, today), plain)
    plain = _IN_WORDS.sub(_number, _ONE.sub("1", _NONE.sub("0", plain)))
    return tuple(_amount(match[0]) if match["amount"] else match[0] for match in _TOKEN.finditer(plain))


def _day(match: re.Match[str], today: str) -> str:
    now, name = date.fromisoformat(today), match["month"]
    month = int(name) if name.isdigit() else _MONTHS.index(name[:3]) + 1
    years = [int(match["year"])] if match["year"] else [now.year, now.year - 1, now.year + 1]
    days = list[date]()
    for year in years:
        with suppress(ValueError):  # 29 February
            days.append(date(year, month, int(match["day"])))
    return min(days, key=lambda day: abs(day - now)).isoformat() if days else match[0]


def _number(match: re.Match[str]) -> str:
    """Write a number in digits, except a lone `one`."""
    if match[0] == "one":
        return match[0]
    total = part = 0
    for word in re.findall("[a-z]+", match[0]):
        if word == "thousand":
            total, part = 1_000 * max(part, 1), 0
        elif word == "hundred":
            part = 100 * max(part, 1)
        else:
            part += _VALUES.get(word, 0)
    return str(total + part)


def _amount(text: str) -> str:
    text = text.replace(",", "")
    return text.rstrip("0").rstrip(".") if "." in text else text


def answers(text: str, answer: str, today: str, ignored: Collection[str], said: Collection[str]) -> list[str]:
    """Return the different answers that a text may give to a question.

    Only what is like the right answer counts: days if it is a day, otherwise numbers, with the words of an address
    after them. The right answer is among them if the text has it. Other values in `ignored` are no answers, and those
    in `said` only if there are no others.
    """
    words, wanted = read(text, today), read(answer, today)
    values, place = dict[str, str](), 0
    while place < len(words):
        word, phrase = words[place], words[place : place + len(wanted)]
        if phrase == wanted:
            values[answer] = " ".join(phrase)
        elif _kind(word) == _kind(wanted[0]) and word not in ignored:
            values[" ".join(phrase)] = word
        place += len(wanted) if phrase == wanted else 1
    return [value for value, word in values.items() if word not in said] or [*values]


def _kind(word: str) -> str:
    """Tell days, amounts and words apart; a number with a zero before it, as of a telephone, is no amount."""
    digits = word.removeprefix("-")
    if not digits[0].isdigit() or (digits[0] == "0" and digits[1:2].isdigit()):
        return "word"
    return "day" if "-" in digits else "amount"
