"""Every family of the zoo: its chat template, the engine, what is saved, every trainer."""

from __future__ import annotations

import warnings
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("trl")

from agentgym_py.errors import TemplateError
from agentgym_py.policy import Policy
from agentgym_py.testing.zoo import FAMILIES, REFUSED, SUPPORTED
from agentgym_py.testing.zoo_checks import check_engine, check_template


@pytest.fixture(params=SUPPORTED)
def family(request: pytest.FixtureRequest, zoo: Any) -> Any:
    """Each family whose template is usable."""
    return zoo.FAMILIES[request.param]


def test_the_families_are_all_here(zoo: Any) -> None:
    """One family is refused: its template ends the last reply with another token than earlier ones."""
    assert {"gpt-oss"} == REFUSED and len(SUPPORTED) == len(FAMILIES) - 1 == 13
    with pytest.raises(TemplateError, match=r"rewrites earlier turns: a shorter conversation has 'return"):
        zoo.miniature("gpt-oss")


def test_models_are_small(family: Any, zoo: Any) -> None:
    """So that a test of every family takes seconds."""
    assert zoo.miniature(family.name).num_parameters <= 100_000


def test_turns_have_the_templates_ids(family: Any) -> None:
    """Opening, reply, turn, … are the ids of the whole text that the template writes; there is no warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_template(family.name)


def test_observations_spell_no_token(family: Any, zoo: Any) -> None:
    """Special tokens in an observation stay text, and so do visible added tokens; in a reply these are ids."""
    chat = zoo.miniature(family.name).chat
    added = [token for token in (*family.special, *family.plain) if token.strip("\n▁")]
    without = [chat.turn("").count(chat.tokenizer.convert_tokens_to_ids(token)) for token in added]
    turn = chat.turn("".join(added))
    assert [turn.count(chat.tokenizer.convert_tokens_to_ids(token)) for token in added] == without
    tags = [token for token in family.plain if "think" not in token and token.strip("\n▁")]
    reply = chat.reply("".join(tags))
    assert all(reply.count(chat.tokenizer.convert_tokens_to_ids(tag)) == 1 for tag in tags)


def test_no_template_writes_todays_date(family: Any, zoo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts stay the same at midnight."""
    opening = zoo.miniature(family.name).chat.opening("a")
    assert str(datetime.now().year) not in zoo.build_tokenizer(family).decode(opening)


def test_the_engine_the_learner_and_a_forward_agree(family: Any) -> None:
    """Log-probabilities of two turns: as sampled, as a trainer computes them, and from a plain forward."""
    check_engine(family.name)


def test_a_saved_policy_is_the_same(family: Any, zoo: Any, tmp_path: Path) -> None:
    """Weights, ends and chat format; the template's settings are kept without naming them again."""
    policy = zoo.miniature(family.name)
    policy.save(tmp_path)
    again = Policy.load(tmp_path, device="cpu")
    assert (again.digest(), again.ends, again.vocab_size) == (policy.digest(), policy.ends, policy.vocab_size)
    assert again.chat.opening("a") == policy.chat.opening("a")
    assert again.chat.reply("b") + again.chat.turn("c") == policy.chat.reply("b") + policy.chat.turn("c")
