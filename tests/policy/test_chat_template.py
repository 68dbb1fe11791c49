from __future__ import annotations

from typing import Any

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")
pytest.importorskip("trl")

from agentgym_py.env.actions import parse_reply
from agentgym_py.errors import ConfigError, TemplateError
from agentgym_py.policy import Policy
from agentgym_py.policy.chat_format import ChatFormat
from agentgym_py.policy.chat_template import prompting_of, thinking_of, with_settings
from agentgym_py.policy.tokens import from_other_tokenizer

THOUGHT = "<think>\nA wall is north.\n</think>\n\nAction: go south"
BEGUN = THOUGHT.removeprefix("<think>\n")
"""As other programs store a reply whose opening mark stood in the prompt."""
NEVER_STRIPS = ("qwen3_training", "qwen3_6_training", "qwen3_5_think_training", "qwen2_5")


def tokenizer_with(zoo: Any, template: str) -> Any:
    """Qwen3's tokens with another template."""
    tokenizer = zoo.build_tokenizer(zoo.FAMILIES["qwen3"])
    tokenizer.chat_template = zoo.trl_template(template)
    return tokenizer


@pytest.mark.parametrize("reply", [THOUGHT, "Action: go south"])
@pytest.mark.parametrize("template", NEVER_STRIPS)
def test_a_reply_has_one_thought(zoo: Any, template: str, reply: str) -> None:
    """A reply with a thought of its own, or without one: turn by turn is what the template writes of the whole."""
    tokenizer = tokenizer_with(zoo, template)
    chat = ChatFormat(tokenizer)
    roles, contents = ("user", "assistant", "user"), ("a", reply, "b")
    messages = [{"role": role, "content": text} for role, text in zip(roles, contents, strict=True)]
    whole = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    ids = [*chat.opening("a"), *chat.reply(reply), *chat.turn("b")]
    assert tokenizer.decode(ids) == whole and ids == tokenizer(whole, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("reply", [THOUGHT, "Action: go south"])
@pytest.mark.parametrize("thinking", ["on", "off"])
def test_a_hybrid_keeps_its_thoughts(zoo: Any, thinking: Any, reply: str) -> None:
    """Qwen3's own template strips earlier thoughts; with a setting they stay, as in trl's template for training."""
    hybrid = ChatFormat(tokenizer_with(zoo, "qwen3"), thinking=thinking)
    training = ChatFormat(tokenizer_with(zoo, "qwen3_training"), thinking=thinking)
    for ids, expected in (
        (hybrid.opening("a"), training.opening("a")),
        (hybrid.reply(reply), training.reply(reply)),
        (hybrid.turn("b"), training.turn("b")),
    ):
        assert ids == expected
    empty = hybrid.tokenizer.decode(hybrid.opening("a")).endswith("<think>\n\n</think>\n\n")
    assert empty == (thinking == "off") and thinking_of(hybrid.tokenizer.chat_template) == thinking


def test_a_thought_that_the_prompt_opens_is_part_of_the_reply(zoo: Any, episode: Any) -> None:
    """The text of a sampled reply begins with the tag, although its tokens do not."""
    chat = ChatFormat(tokenizer_with(zoo, "qwen3_6_training"))
    assert chat.opened == "<think>\n" and chat.tokenizer.decode(chat.opening("a")).endswith(chat.opened)
    assert chat.opened + chat.tokenizer.decode(chat.reply(THOUGHT)[:-1]) == THOUGHT
    assert not from_other_tokenizer(episode("look"), chat)


@pytest.mark.parametrize("template", ["qwen3_training", "qwen3_6_training", "qwen3_5_think_training"])
def test_a_thought_without_its_opening_mark_is_one_thought(zoo: Any, template: str) -> None:
    """It is the thought of the reply; without a line break after the mark, too."""
    chat = ChatFormat(tokenizer_with(zoo, template))
    assert chat.reply(BEGUN) == chat.reply(THOUGHT)
    assert chat.tokenizer.decode(chat.reply(THOUGHT.replace("<think>\n", "<think>"))).count("<think>") == (
        0 if chat.opened else 1
    )


@pytest.mark.parametrize("template", ["deepseek_r1_distill", "nemotron_3_nano", "lfm2_2_5"])
def test_a_template_that_always_thinks_keeps_its_thoughts(zoo: Any, template: str) -> None:
    """Its render of earlier turns has no thoughts; with `thinking on` they stay. A reply without one closes it."""
    tokenizer = tokenizer_with(zoo, template)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<｜end▁of▁sentence｜>", "<|im_start|>", "<|im_end|>"]})
    with pytest.raises(TemplateError, match=r"thinking on (or off )?keeps earlier thoughts"):
        ChatFormat(tokenizer)
    chat = ChatFormat(tokenizer, thinking="on")
    text = tokenizer.decode([*chat.opening("a"), *chat.reply(THOUGHT), *chat.turn("b"), *chat.reply("go")])
    assert text.count(THOUGHT) == 1 and text.count("<think>") == text.count("</think>") == (2 if chat.opened else 1)
    assert ChatFormat(tokenizer).opening("a") == chat.opening("a")  # it is kept with the template


@pytest.mark.parametrize("is_special", [False, True])
@pytest.mark.parametrize("marks", [("[THINK]", "[/THINK]"), ("<seed:think>", "</seed:think>")])
@pytest.mark.parametrize("template", ["qwen3_training", "qwen3_6_training", "qwen3_5_think_training"])
def test_a_template_may_mark_thoughts_in_another_way(
    zoo: Any, template: str, marks: tuple[str, str], is_special: bool
) -> None:
    """It has one thought in a reply, as with `<think>`; a reply's own thought is written in the template's marks."""

    def remarked(text: str) -> str:
        return text.replace("<think>", marks[0]).replace("</think>", marks[1])

    tokenizer = tokenizer_with(zoo, template)
    if is_special:
        tokenizer.add_special_tokens({"additional_special_tokens": list(marks)}, replace_extra_special_tokens=False)
    tokenizer.chat_template = remarked(tokenizer.chat_template)
    chat, usual = ChatFormat(tokenizer), ChatFormat(tokenizer_with(zoo, template))
    assert chat.opened == remarked(usual.opened)
    for reply in (THOUGHT, BEGUN, "Action: go south"):
        expected = remarked(usual.tokenizer.decode(usual.reply(reply)))
        assert tokenizer.decode(chat.reply(remarked(reply))) == expected
        assert tokenizer.decode(chat.reply(reply)) == expected


def test_a_template_that_strips_thoughts_in_other_marks_is_refused(zoo: Any) -> None:
    """With the setting that keeps them."""
    tokenizer = tokenizer_with(zoo, "qwen3")
    tokenizer.chat_template = tokenizer.chat_template.replace("think>", "reasoning>")
    with pytest.raises(TemplateError, match="thinking on or off keeps earlier thoughts"):
        ChatFormat(tokenizer)
    chat, reply = ChatFormat(tokenizer, thinking="on"), THOUGHT.replace("think>", "reasoning>")
    assert reply in chat.decode(chat.reply(reply))


@pytest.mark.parametrize("marks", [("[THINK]", "[/THINK]"), ("<|channel>thought\n", "<channel|>")])
def test_special_tokens_around_a_thought_are_part_of_the_reply(zoo: Any, marks: tuple[str, str]) -> None:
    """Without them the thought would be read as the action; in an observation they stay text."""
    tokens = [mark.removesuffix("thought\n") for mark in marks]
    tokenizer = zoo.build_tokenizer(zoo.FAMILIES["qwen2.5"])
    tokenizer.add_special_tokens({"additional_special_tokens": tokens}, replace_extra_special_tokens=False)
    chat, (begin, end) = ChatFormat(tokenizer), tokenizer.convert_tokens_to_ids(tokens)
    reply = f"{marks[0]}Action: go north{marks[1]}go south"
    ids = chat.reply(reply)
    assert (ids.count(begin), ids.count(end), ids.count(chat.end_of_turn)) == (1, 1, 1)
    assert chat.decode(ids) == reply and parse_reply(chat.decode(ids)).action == "go south"
    assert not {begin, end} & set(chat.turn(reply))


def test_an_answer_has_no_thought(zoo: Any) -> None:
    """A summary or reflection is what follows the thought; one that was cut within its thought is empty."""
    policy = zoo.miniature("r1-distill")
    ids = policy.chat.reply("<think>\nA wall is north.\n</think>\n\nI saw a wall.")
    assert policy.answer(ids) == "I saw a wall." and policy.answer(ids[:5]) == ""
    assert zoo.miniature("qwen2.5").answer(zoo.miniature("qwen2.5").chat.reply(" I saw a wall.\n")) == "I saw a wall."


def test_settings_that_do_not_fit_are_refused(zoo: Any) -> None:
    """In one line, with what would do."""
    with pytest.raises(TemplateError, match="thinking on or off keeps earlier thoughts"):
        ChatFormat(tokenizer_with(zoo, "qwen3"))
    with pytest.raises(TemplateError, match="thinking off needs a chat template with `enable_thinking`"):
        zoo.miniature("qwen2.5", thinking="off")
    with pytest.raises(TemplateError, match="thinking on needs a chat template with `enable_thinking` or `</think>`"):
        zoo.miniature("qwen2.5", thinking="on")
    with pytest.raises(ConfigError, match="thinking must be one of auto, on, off, got 'yes'"):
        Policy.load("tiny", thinking="yes")  # type: ignore[arg-type]  # a wrong value
    with pytest.raises(TemplateError, match="must be JSON"):
        zoo.miniature("llama3.2", chat_template_kwargs={"date_string": {1}})


def test_variables_are_kept_in_the_template(zoo: Any) -> None:
    """A later call without settings keeps them; one with others replaces them; a text cannot end the comment."""
    policy = zoo.miniature("llama3.2", chat_template_kwargs={"date_string": "1 #} {{ x }}"})
    opening = policy.tokenizer.decode(policy.chat.opening("a"))
    assert "Today Date: 1 #} {{ x }}\n" in opening
    template = policy.tokenizer.chat_template
    assert with_settings(template, "auto", {}) == template
    again = ChatFormat(policy.tokenizer, template_kwargs={"date_string": "2"})
    assert "Today Date: 2\n" in policy.tokenizer.decode(again.opening("a"))
    assert "Today Date: 26 Jul 2024" in zoo.miniature("llama3.2").tokenizer.decode(
        zoo.miniature("llama3.2").chat.opening("a")
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@given(
    st.lists(st.sampled_from(["{%- set a = 'TASK' -%}\n", "{%- set b = [1] -%}\n", "\n"]), max_size=3).map("".join),
    st.dictionaries(st.from_regex(r"[a-z]{1,4}", fullmatch=True), json_values, max_size=3),
    st.sampled_from([None, "Be brief.", "{%- set x = 1 -%}\n"]),
)
def test_settings_written_again_leave_the_template(own: str, kwargs: dict[str, Any], system: str | None) -> None:
    """A template may begin with lines like ours; they stay, and the settings are written once."""
    template = own + "{{ messages }}{{ a }}"
    written = with_settings(template, "auto", kwargs, system)
    assert with_settings(written, "auto", {}) == written and written.endswith(template)
    other = with_settings(written, "auto", dict.fromkeys(kwargs, 1), "Other." if system else None)
    assert other.endswith(template) and other.count("agentgym settings") == bool(kwargs or system)


def test_a_null_within_a_value_is_none() -> None:
    """As at its top; numbers that JSON lacks are refused."""
    template = with_settings("{{ a[0] is none }} {{ a[1].x is none }} {{ b is none }}", "auto", {
        "a": [None, {"x": None}], "b": None,
    })  # fmt: skip
    assert jinja2.Environment().from_string(template).render(messages=[]) == "True True True"  # noqa: S701  # no HTML
    with pytest.raises(TemplateError, match="must be JSON"):
        with_settings("", "auto", {"a": [float("inf")]})


@pytest.mark.parametrize("family", ["qwen2.5", "llama3.2", "smollm2"])
def test_system_prompt_and_examples_stand_before_each_conversation(zoo: Any, episode: Any, family: str) -> None:
    """As the family's own template writes them; the rest of a conversation does not change."""
    plain = zoo.miniature(family)
    policy = zoo.miniature(family, system_prompt='Say "ok" %}.\nBe brief. 🙂', few_shot=[episode("look", "buy")])
    leading = policy.chat.prompting
    assert [message["role"] for message in leading["few_shot"]] == ["user", "assistant"] * 2
    system = {"role": "system", "content": leading["system_prompt"]}
    messages = [system, *leading["few_shot"], {"role": "user", "content": "a"}]
    whole = plain.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert policy.tokenizer.decode(policy.chat.opening("a")) == whole and "🙂" in whole
    assert (policy.chat.turn("b"), policy.chat.reply("c")) == (plain.chat.turn("b"), plain.chat.reply("c"))
    own = policy.tokenizer.apply_chat_template(
        [{"role": "system", "content": "Mine."}, {"role": "user", "content": "a"}], tokenize=False
    )
    assert "Mine." in own and "Be brief" not in own and "buy" in own


def test_a_checkpoint_keeps_system_prompt_and_examples(zoo: Any, episode: Any, tmp_path: Any) -> None:
    """A new system prompt replaces the old one and leaves the examples; an empty one removes it."""
    zoo.miniature("qwen2.5", system_prompt="Be brief.", few_shot=[episode("look")]).save(tmp_path / "a")
    kept = Policy.load(tmp_path / "a", device="cpu").chat
    assert kept.prompting["system_prompt"] == "Be brief." and len(kept.prompting["few_shot"]) == 2
    other = Policy.load(tmp_path / "a", device="cpu", system_prompt="Think.").chat.prompting
    assert other == kept.prompting | {"system_prompt": "Think."}
    assert Policy.load(tmp_path / "a", device="cpu", system_prompt="").chat.prompting.keys() == {"few_shot"}


def test_a_family_without_system_messages_refuses_one(zoo: Any) -> None:
    """Gemma 2's template raises an error."""
    with pytest.raises(TemplateError, match="does not render a plain conversation"):
        zoo.miniature("gemma2", system_prompt="Be brief.")


def test_a_models_episodes_record_system_prompt_and_examples(zoo: Any, episode: Any) -> None:
    """In their sampling; without them it has only the sampling parameters."""
    from agentgym_py.agents import ModelAgent
    from agentgym_py.engine import HFEngine, SamplingParams

    params = SamplingParams(max_new_tokens=4)
    policy = zoo.miniature("qwen2.5", system_prompt="Be brief.", few_shot=[episode("look")])
    assert ModelAgent(policy, HFEngine(policy), params).sampling == params.as_dict() | policy.chat.prompting
    plain = zoo.miniature("qwen2.5")
    assert ModelAgent(plain, HFEngine(plain), params).sampling == params.as_dict()


@pytest.mark.parametrize(
    "stored", ['{"a": }', '{"messages": 5}', '{"messages": ["x"]}', '{"a": ' + "[" * 100_000 + "}"]
)
def test_damaged_settings_of_a_template_are_one_line(stored: str) -> None:
    """A stranger may have written them."""
    template = f"{{#- agentgym settings {stored} -#}}\n{{{{ messages }}}}"
    for read in (thinking_of, prompting_of, lambda text: with_settings(text, "auto", {})):
        with pytest.raises(TemplateError, match="`agentgym settings` is damaged"):
            read(template)
