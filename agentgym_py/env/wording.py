"""Wordings from a grammar, and made-up names.

A training split with few words teaches an agent to remember them; held-out splits then show that it cannot read. So
training tasks draw their texts from grammars with many expansions, and some of their names are made up. A world keeps
its grammars in a text file, which `read_wordings` reads.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources.abc import Traversable

from agentgym_py.errors import CatalogueError
from agentgym_py.rng import Rng

Pattern = tuple["str | tuple[Pattern, ...]", ...]
"""Text parts and choices; a choice is a tuple of patterns."""
_TOKENS = re.compile(r"[\[\]|]|[^\[\]|]+")
_REFERENCE = re.compile(r"<([a-z][a-z ]*)>")
_DEFINITION = re.compile(rf"{_REFERENCE.pattern} = (.+)")
_REST = "<rest>"
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


def read_wordings(file: Traversable) -> dict[str, tuple[str, ...]]:
    """Read a file of wordings: section to its entries, in the order of the file.

    A section's name is at the margin and ends with a colon. Its entries are indented by two spaces, one per line; a
    line with four continues the one above, directly after `|` and else after a space. `#` begins a comment line::

        <then> = [|[Then|Later], ]
        <please> = [<rest>.|please <rest>.|can you <rest>?]

        # things that are counted
        stock more:
          <then>{name} buys {a} {goods} [in a shop|
            at a market|in town].
          <please> add {a} {goods}

    `<then>` stands for its definition, which is above its first use. If a definition has `<rest>`, an entry that begins
    with its name is that definition, and the rest of the entry is `<rest>`.

    Raises:
        CatalogueError: The file is malformed; the message names file and line.
    """
    sections: dict[str, list[str]] = {}
    definitions = {"rest": _REST}
    section = ""
    for number, indent, line in _lines(file):
        try:
            if indent:
                if not section:
                    raise ValueError("an entry before the first section")
                sections[section].append(_entry(line, definitions))
            elif line.startswith("<"):
                name, text = _definition(line)
                _require_new(name, definitions)
                definitions[name] = _fill(text, definitions)
            else:
                section = line.removesuffix(":")
                if section == line:
                    raise ValueError("neither `section:`, `<name> = text` nor an entry indented by two spaces")
                _require_new(section, sections)
                sections[section] = []
        except ValueError as error:
            raise CatalogueError(f"{file.name}, line {number}: {error}: {line!r:.100}") from None
    for name, entries in sections.items():
        if not entries:
            raise CatalogueError(f"{file.name}: section {name!r} is empty")
    return {name: tuple(entries) for name, entries in sections.items()}


def split_words(entries: Iterable[str]) -> tuple[str, ...]:
    """Return the words of a section whose entries are lists with commas."""
    return tuple(word for entry in entries for word in entry.removesuffix(",").split(", "))


def _lines(file: Traversable) -> Iterator[tuple[int, int, str]]:
    """The lines without comments, each with its number and its indent, joined with those that continue it."""
    start, start_indent, text = 0, 0, ""
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        words = line.strip()
        if not words or words.startswith("#"):
            continue
        indent = len(line) - len(line.lstrip())
        if indent == 4 and text:
            text += words if text.endswith("|") else f" {words}"
            continue
        if indent not in (0, 2):
            raise CatalogueError(
                f"{file.name}, line {number}: indented by {indent}, not by 0, 2 or 4 spaces: {line!r:.100}"
            )
        if text:
            yield start, start_indent, text
        start, start_indent, text = number, indent, words
    if text:
        yield start, start_indent, text


def _definition(line: str) -> tuple[str, str]:
    match = _DEFINITION.fullmatch(line)
    if not match:
        raise ValueError("not a definition, `<name> = text`")
    return match[1], match[2]


def _require_new(name: str, known: Collection[str]) -> None:
    if name in known:
        raise ValueError(f"{name!r} is there twice")


def _entry(text: str, definitions: Mapping[str, str]) -> str:
    filled = _fill(text, definitions)
    if _REST in filled:
        raise ValueError(f"a definition with {_REST} stands elsewhere than at the beginning")
    return filled


def _fill(text: str, definitions: Mapping[str, str]) -> str:
    """A text with the definitions in place of their names."""
    if text.count("[") != text.count("]"):
        raise ValueError("a bracket is not closed, or not opened")
    if "<" not in text:
        return text
    start = _REFERENCE.match(text)
    if start and start[0] != _REST and _REST in definitions.get(start[1], ""):
        return definitions[start[1]].replace(_REST, _fill(text[start.end() :].lstrip(), definitions))
    try:
        return _REFERENCE.sub(lambda match: definitions[match[1]], text)
    except KeyError as error:
        raise ValueError(f"<{error.args[0]}> is not defined above") from None


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
