"""Every family of the zoo: its chat template, the engine, what is saved, every trainer."""

from __future__ import annotations

import warnings
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from agentgym_py.engine import HFEngine, SamplingParams
from agentgym_py.errors import TemplateError
from agentgym_py.policy import Policy
from agentgym_py.policy.logprobs import agent_logits, agent_logprobs, pad_samples
from agentgym_py.policy.tokens import Sample

FAMILIES = (
    "qwen2.5", "qwen3", "llama3.1", "llama3.2", "gemma2", "gemma3", "mistral", "phi3.5", "phi4-mini", "smollm2",
    "smollm3",
)  # fmt: skip
CONTENTS = ["Where is it?\n\nLook  there.", "Thought: so\n\nAction: go", "Not\n\n\nhere.", "Action: look", "Done."]


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest, zoo: Any) -> Any:
    """Each family whose template is usable."""
    return zoo.FAMILIES[request.param]


def test_the_families_are_all_here(zoo: Any) -> None:
    """One family is refused: its template ends the last reply with another token than earlier ones."""
    assert set(FAMILIES) | {"gpt-oss"} == set(zoo.FAMILIES)
    with pytest.raises(TemplateError, match=r"rewrites earlier turns: a shorter conversation has 'return"):
        zoo.miniature("gpt-oss")


def test_models_are_small(family: Any, zoo: Any) -> None:
    """So that a test of every family takes seconds."""
    assert zoo.miniature(family.name).num_parameters <= 100_000


def test_turns_have_the_templates_ids(family: Any, zoo: Any) -> None:
    """Opening, reply, turn, … are the ids of the whole text that the template writes; there is no warning."""
    tokenizer = zoo.build_tokenizer(family)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chat = zoo.miniature(family.name).chat
    plain = [token for token in family.plain if "think" not in token and token.strip("\n▁")][:1]
    contents = [*CONTENTS]
    contents[3] += "".join(plain)
    ids = chat.opening(contents[0])
    for reply, observation in zip(contents[1::2], contents[2::2], strict=True):
        ids += chat.reply(reply) + chat.turn(observation)
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": content} for i, content in enumerate(contents)]
    template = chat.tokenizer.chat_template
    if family.name == "qwen3":  # its own one strips earlier thoughts; trl's keeps them, as the chat format does
        template = zoo.trl_template("qwen3_training").replace(
            "{%- if tools", "{%- set enable_thinking = false -%}{%- if tools", 1
        )
    text = tokenizer.apply_chat_template(messages, chat_template=template, tokenize=False, add_generation_prompt=True)
    assert tokenizer.decode(ids) == text
    assert ids == tokenizer(text, add_special_tokens=False)["input_ids"]
    assert chat.tokenizer.added_tokens_decoder[chat.end_of_turn].special


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


def test_the_engine_the_learner_and_a_forward_agree(family: Any, zoo: Any) -> None:
    """Log-probabilities of two turns: as sampled, as a trainer computes them, and from a plain forward."""
    policy = zoo.miniature(family.name)
    engine, params = HFEngine(policy, slots=4), SamplingParams(max_new_tokens=8)
    ids, mask, sampled = policy.chat.opening("a\n\nb"), [0] * len(policy.chat.opening("a\n\nb")), list[float]()
    for turn in range(2):
        (out,) = engine.generate([ids], params, [turn])
        reply = list(out.ids)
        sampled += out.logprobs
        after = policy.chat.turn("c")
        ids, mask = ids + reply + after, mask + [1] * len(reply) + [0] * len(after)
    with torch.no_grad():
        learner = agent_logprobs(agent_logits(policy.model, *pad_samples([Sample(ids, mask)])))
        logits = policy.model(torch.tensor([ids])).logits[0, :-1, : policy.vocab_size].log_softmax(-1)
    places = [place for place, bit in enumerate(mask) if bit]
    full = torch.stack([logits[place - 1, ids[place]] for place in places])
    torch.testing.assert_close(learner, full, rtol=0, atol=1e-5)
    torch.testing.assert_close(torch.tensor(sampled), full, rtol=0, atol=1e-5)


def test_a_saved_policy_is_the_same(family: Any, zoo: Any, tmp_path: Path) -> None:
    """Weights, ends and chat format; the template's settings are kept without naming them again."""
    policy = zoo.miniature(family.name)
    policy.save(tmp_path)
    again = Policy.load(tmp_path, device="cpu")
    assert (again.digest(), again.ends, again.vocab_size) == (policy.digest(), policy.ends, policy.vocab_size)
    assert again.chat.opening("a") == policy.chat.opening("a")
    assert again.chat.reply("b") + again.chat.turn("c") == policy.chat.reply("b") + policy.chat.turn("c")
