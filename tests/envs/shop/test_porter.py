from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_envs.shop.porter import stem

# words by the step that makes the difference; the stems are those of Martin Porter's own program
STEMS = {
    "plurals": "caresses:caress ponies:poni ties:ti caress:caress cats:cat gas:ga",
    "ed and ing": "feed:feed agreed:agre plastered:plaster bled:bled motoring:motor sing:sing",
    "tidied": "conflated:conflat troubled:troubl sized:size hopping:hop tanned:tan falling:fall hissing:hiss "
    "fizzed:fizz failing:fail filing:file trekking:trek",
    "y": "happy:happi sky:sky yet:yet playing:plai toys:toi",
    "step 2": "relational:relat conditional:condit valenci:valenc digitizer:digit radically:radic differently:differ "
    "vilely:vile analogously:analog vietnamization:vietnam operator:oper decisiveness:decis hopefulness:hope "
    "callousness:callous formality:formal sensitivity:sensit sensibility:sensibl",
    "departures": "possibly:possibl conformably:conform apology:apolog ecologies:ecolog",
    "step 3": "triplicate:triplic formative:form formalize:formal electricity:electr electrical:electr hopeful:hope "
    "goodness:good",
    "step 4": "revival:reviv allowance:allow inference:infer airliner:airlin adjustable:adjust defensible:defens "
    "irritant:irrit replacement:replac adjustment:adjust dependent:depend adoption:adopt opinion:opinion "
    "communism:commun activate:activ homologous:homolog effective:effect bowdlerize:bowdler",
    "step 5": "probate:probat rate:rate cease:ceas controlling:control roll:roll",
    "short": "is:is as:as by:by s:s ed:ed",
}


@pytest.mark.parametrize("step", STEMS)
def test_words_are_stemmed_as_porters_program_does(step: str) -> None:
    """Each step of the algorithm, with Martin Porter's two departures, gives the stem that his program gives."""
    pairs = [pair.split(":") for pair in STEMS[step].split()]
    assert {word: stem(word) for word, _ in pairs} == dict(pairs)


@given(st.text())
def test_any_text_has_a_stem_that_is_no_longer(text: str) -> None:
    """Stemming never fails and adds at most the e that a removed ending left behind."""
    assert len(stem(text)) <= max(len(text), 1)
