from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentgym_envs.shop.tokens import STOP_WORDS, _unicode_words, term, words

# what Lucene 8's StandardTokenizer cuts a text into, lower-cased
WORDS = {
    "6.76 fl oz., 50x96": ["6.76", "fl", "oz", "50x96"],
    "us-8 1,000.5 3. 8.x b.2 v2.0": ["us", "8", "1,000.5", "3", "8", "x", "b", "2", "v2.0"],
    "o'clock 'quoted' rock'n'roll 5'6": ["o'clock", "quoted", "rock'n'roll", "5'6"],
    "snake_case _x_ ___ a__1": ["snake_case", "_x_", "a__1"],
    "color:red 3:4 a;b": ["color:red", "3", "4", "a", "b"],
    "women\u2019s café crème": ["women\u2019s", "café", "crème"],
    "B02#Leopard [US 8] $9": ["b02", "leopard", "us", "8", "9"],
    "中文 ひら カタカナ 한국어 ไทย": ["中", "文", "ひ", "ら", "カタカナ", "한국어", "ไทย"],
    "カナabc": ["カナ", "abc"],
    "★ gold ❤️❤ logitech® ☆": ["★", "gold", "❤️", "❤", "logitech", "®"],
    "👩‍🚀👍🏽 🇩🇪🇫🇷 1️⃣ #️⃣": ["👩‍🚀", "👍🏽", "🇩🇪", "🇫🇷", "1️⃣", "#️⃣"],
    "İΣΑΣ": ["iσασ"],
    "e\u0301te\u0301": ["e\u0301te\u0301"],
    "\uff11\uff12 \uff21": ["\uff11\uff12", "\uff41"],
    "a" * 300: ["a" * 255, "a" * 45],
    "- . ' \n": [],
}


@pytest.mark.parametrize("text", WORDS)
def test_text_is_cut_as_lucene_cuts_it(text: str) -> None:
    """Digits, apostrophes, underscores, scripts without blanks and emoji are cut at Lucene's word boundaries."""
    assert words(text) == WORDS[text]


def test_possessives_and_stop_words_go_and_endings_are_stemmed() -> None:
    """A word is indexed without its possessive and its ending, and one of the 33 stop words not at all."""
    assert len(STOP_WORDS) == 33
    assert list(map(term, ["women's", "women\u2019s", "dresses", "the", "it's", "lasting"])) == [
        "women",
        "women",
        "dress",
        "",
        "",
        "last",
    ]


@given(st.text(st.sampled_from("ab1_ .,:;'\"-")))
@example("a_'b")
def test_the_pattern_for_ascii_is_the_one_for_unicode(text: str) -> None:
    """The quick pattern for ASCII texts cuts them exactly as the general one does."""
    assert words(text) == _unicode_words()(text)


@given(st.text(), st.text())
def test_any_text_has_words_and_a_blank_always_parts_them(left: str, right: str) -> None:
    """Cutting never fails, and never across a blank."""
    assert words(f"{left} {right}") == words(left) + words(right)
