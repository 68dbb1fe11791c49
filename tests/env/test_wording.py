"""Grammars of wordings, and made-up names."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_py.env.wording import (
    count_expansions,
    expand,
    is_expansion,
    made_up_name,
    read_wordings,
    sample_names,
    split_words,
)
from agentgym_py.errors import CatalogueError
from agentgym_py.rng import Rng

DATA = Path(__file__).parents[2] / "datasets" / "agentgym_data"


def test_every_expansion_is_drawn_and_no_other() -> None:
    """Nested and empty alternatives included."""
    text = "[Leave|Get [out|away] of] the {place}[ now|]."
    drawn = {expand(Rng("expansions", number), text) for number in range(300)}
    starts = ("Leave", "Get out of", "Get away of")
    assert drawn == {f"{start} the {{place}}{end}." for start in starts for end in (" now", "")}
    assert count_expansions(text) == len(drawn) == 6
    assert all(is_expansion(expansion.upper(), text) for expansion in drawn)
    assert not is_expansion("Get out the {place}.", text)


@given(st.text(alphabet="ab {}\n", max_size=20))
def test_text_without_brackets_is_its_only_expansion(text: str) -> None:
    """Whatever else it holds."""
    assert expand(Rng(0), text) == text
    assert count_expansions(text) == 1


@pytest.mark.parametrize("text", ["[a", "a]", "a|b", "[a|[b]"])
def test_an_unbalanced_grammar_is_an_error(text: str) -> None:
    """A typing error in a grammar must not reach a task."""
    with pytest.raises(ValueError, match="bracket"):
        expand(Rng(0), text)


def test_made_up_names_are_new_words() -> None:
    """Never a word to avoid, and nearly always another one."""
    common = {made_up_name(Rng("name", number)) for number in range(500)}
    assert len(common) > 450
    assert not any(part in name for name in common for part in ("fuck", "cock", "nazi"))
    assert all(name.isalpha() and name.islower() and 4 <= len(name) <= 9 for name in common)
    assert all(made_up_name(Rng("name", number), common) not in common for number in range(500))


@given(st.integers(0, 10**6), st.integers(0, 12), st.floats(0, 1))
def test_sampled_names_differ(seed: int, count: int, made_up: float) -> None:
    """However many are drawn, and whatever share is made up."""
    names = ("brass", "iron", "tin")
    drawn = sample_names(Rng(seed), names, count, made_up, avoid=("zinc",))
    assert len(set(drawn)) == len(drawn) == count
    assert "zinc" not in drawn
    assert made_up < 1 or not set(drawn) & set(names)


WORDS = """\
# The words of a test.
<place> = [a shop|
    a market]
<then> = [|[Then|Later], ]
<please> = [<rest>.|please <rest>.]

names:
  Ana, Bruno,
  Mrs Baker, Carla

# things that are counted
stock more:
  <then>{name} buys {a} {goods} in <place>, where they
    are [cheap|
    # a comment between two parts
    good].
  <please> add {a} {goods} from <place>
"""


def test_a_file_of_wordings_is_read(tmp_path: Path) -> None:
    """Definitions stand in place of their names, continued lines are joined, and comments are left out."""
    file = tmp_path / "words.txt"
    file.write_text(WORDS, encoding="utf-8")
    sections = read_wordings(file)
    assert list(sections) == ["names", "stock more"]
    assert split_words(sections["names"]) == ("Ana", "Bruno", "Mrs Baker", "Carla")
    assert sections["stock more"] == (
        "[|[Then|Later], ]{name} buys {a} {goods} in [a shop|a market], where they are [cheap|good].",
        "[add {a} {goods} from [a shop|a market].|please add {a} {goods} from [a shop|a market].]",
    )


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("names:", "names", "line 7: neither `section:`, .*: 'names'"),
        ("names:\n", "", "line 7: an entry before the first section: 'Ana, Bruno,'"),
        ("names:", "stock more:", "line 12: 'stock more' is there twice"),
        ("  Ana, Bruno,\n  Mrs Baker, Carla\n", "", "section 'names' is empty"),
        ("  Ana", "   Ana", "line 8: indented by 3, not by 0, 2 or 4 spaces"),
        ("  Ana", "\tAna", "line 8: indented by 1,"),
        ("<then> =", "<then>:", "line 4: not a definition"),
        ("<then> =", "<place> =", "line 4: 'place' is there twice"),
        ("<then> =", "<rest> =", "line 4: 'rest' is there twice"),
        ("in <place>", "in <town>", "line 13: <town> is not defined above: '<then>{name} buys"),
        ("  <please> add", "  so <please> add", "line 17: a definition with <rest> stands elsewhere"),
        ("[cheap|", "cheap|", "line 13: a bracket is not closed, or not opened"),
        ("[Then|Later]", "[Then|Later", "line 4: a bracket is not closed, or not opened"),
    ],
)
def test_a_malformed_file_of_wordings_is_an_error(tmp_path: Path, old: str, new: str, error: str) -> None:
    """It names the file, the line and what is wrong."""
    file = tmp_path / "words.txt"
    file.write_text(WORDS.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(CatalogueError, match=rf"words\.txt.*{error}"):
        read_wordings(file)


@pytest.mark.parametrize("name", sorted(file.relative_to(DATA).as_posix() for file in DATA.glob("*/training*.txt")))
def test_the_wordings_of_the_worlds_are_grammars(name: str) -> None:
    """Each entry of each file expands."""
    for section, entries in read_wordings(DATA / name).items():
        for entry in entries:
            assert count_expansions(entry) > 0, section
