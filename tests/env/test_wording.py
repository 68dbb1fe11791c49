"""Grammars of wordings, and made-up names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_py.env.wording import count_expansions, expand, is_expansion, made_up_name, sample_names
from agentgym_py.rng import Rng


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
