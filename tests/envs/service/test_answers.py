"""What customers understand, as a pure function of the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_envs.service.answers import answers, read

TODAY = "2027-01-15"


@pytest.mark.parametrize(
    ("text", "heard"),
    [
        ("7 GB", "7"), ("seven gigabytes are left", "7"), ("$1,231.00", "1231"), ("twenty-one", "21"),
        ("two hundred and thirty-one", "231"), ("a thousand five hundred", "1500"), ("ninety nine", "99"),
        ("a hundred", "100"), ("three hundred five", "305"), ("zero", "0"), ("none", "0"), ("None!", "0"), ("No.", "0"),
        ("Unfortunately you have no data left.", "0"), ("There is nothing left.", "0"), ("no more gigabytes", "0"),
        ("One.", "1"), ("one GB", "1"), ("you have one left", "1"),
    ],
)  # fmt: skip
def test_amounts_are_digits_or_words(text: str, heard: str) -> None:
    """The right one is heard, and nothing else."""
    assert answers(text, heard, TODAY, (), ()) == [heard]
    assert answers(text, str(int(heard) + 1), TODAY, (), ()) == [heard]


@pytest.mark.parametrize(
    "text", ["one moment", "the first one", "No problem, wait.", "none of your lines", "I look", "line l187", "may I?"]
)
def test_other_words_are_no_amount(text: str) -> None:
    """Pronouns, ids and phrases with a number word in them."""
    assert answers(text, "1", TODAY, (), ()) == []


def test_several_amounts_are_several_answers() -> None:
    """Also if one is in words."""
    assert answers("seven or 8", "8", TODAY, (), ()) == ["7", "8"]
    assert answers("seven eight", "8", TODAY, (), ()) == ["7", "8"]
    assert answers("no data, or 3", "3", TODAY, (), ()) == ["0", "3"]


@pytest.mark.parametrize(
    "text",
    [
        "2027-10-03", "2027/10/3", "03.10.2027", "on 3.10.2027.", "October 3, 2027", "Oct 3rd 2027", "3 October 2027",
        "the 3rd of October, 2027", "October 3",
    ],
)  # fmt: skip
def test_days_have_many_forms(text: str) -> None:
    """A day without a year is the one next to the present."""
    assert answers(text, "2027-10-03", "2027-09-01", (), ()) == ["2027-10-03"]


@pytest.mark.parametrize("text", ["10/03/2027", "the third", "03.13.2027", "2027"])
def test_other_forms_are_no_day(text: str) -> None:
    """Month and day in digits could be either way round."""
    assert answers(text, "2027-10-03", TODAY, (), ()) == []


@given(st.text(max_size=40), st.sampled_from(["7", "2027-10-03", "12 Mill Lane"]))
def test_any_text_is_read(text: str, answer: str) -> None:
    """The same text always says the same."""
    assert read(text, TODAY) == read.__wrapped__(text, TODAY)
    assert isinstance(answers(text, answer, TODAY, (), ()), list)
