"""Turns as token ids, from a tokenizer's own chat template, so that earlier turns never change.

A conversation grows by appending ids: `opening`, a reply as it was sampled, `turn`, a reply, `turn`, … This needs a
template that renders a longer conversation as a continuation of the shorter one; `ChatFormat` checks that once.
Contents are encoded as plain text: a special token that a content spells stays text. An added token that is not special
(Qwen's `<think>`, `<tool_call>`), or that marks a thought, is one id in a reply, as the model writes it, and text in an
observation.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import pairwise
from threading import Thread
from typing import Any, Literal

from agentgym_py.env.thoughts import CLOSING_MARK, OPENING_MARK, THOUGHT_MARKS, is_thought_mark, thought_marks_of
from agentgym_py.errors import PolicyError, TemplateError
from agentgym_py.policy.chat_template import Thinking, prompting_of, thinking_of, with_settings
from agentgym_py.policy.vocabulary import count_ids

Fallback = Literal["chatml", "plain"]

_FALLBACKS: dict[str, tuple[str, str | None]] = {
    "chatml": (
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
        "<|im_end|>",
    ),
    "plain": (
        "{% for m in messages %}{{ m['role'].capitalize() }}:{% if m['role'] == 'assistant' %}{{ m['content'] }}"
        "{{ eos_token }}\n{% else %} {{ m['content'] }}\n{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}Assistant:{% endif %}",
        None,
    ),
}
"""Template and end-of-turn token by name; None: the tokenizer's own end-of-sequence token."""

_RENDER_SECONDS = 20.0
"""Longest time that a chat template may take for a short conversation."""
_MARK = "ContentZq{}Zq"
_OPENED = re.compile(rf"(?:{OPENING_MARK})\s*\Z")
_CLOSED = re.compile(rf"(?:{CLOSING_MARK})\s*\Z")
_OWN_THOUGHT = re.compile(rf"\A\s*(?:(?:{OPENING_MARK})\n?)?(?P<thought>.*)(?:{CLOSING_MARK})(?P<space>\s*)", re.DOTALL)
"""A thought at the beginning of a reply; its opening mark may have stood in the prompt."""
_EMPTY_THOUGHT = re.compile(rf"\A\s*(?:{OPENING_MARK})\s*(?:{CLOSING_MARK})\s*")
_SPACE = " \n"
"""White space that a template may strip; one that strips both is taken to strip all white space."""
_Piece = int | str
"""A token id, a text of the template, or the place of a content (a text that looks like `_MARK`)."""


@dataclass(frozen=True, slots=True)
class _Renders:
    """One conversation of marks, rendered as it grows."""

    first_prompt: str  # [user] and generation prompt
    first_reply: str  # [user, assistant]
    second_prompt: str  # [user, assistant, user] and generation prompt
    second_reply: str
    third_prompt: str


def _within_time(render: Callable[[], str]) -> str:
    """Return what `render` returns; a template that loops is left to a thread that ends with the process.

    Raises:
        TimeoutError: it takes too long.
        Exception: what `render` raises.
    """
    result: Future[str] = Future()

    def run() -> None:
        try:
            result.set_result(render())
        except Exception as error:
            result.set_exception(error)

    Thread(target=run, name="chat template", daemon=True).start()
    try:
        return result.result(_RENDER_SECONDS)
    except TimeoutError as error:
        raise TimeoutError(f"it takes more than {_RENDER_SECONDS:g} s") from error


class ChatFormat:
    """Write turns for one tokenizer.

    Args:
        tokenizer: Its template gets the settings below, so that a saved checkpoint keeps them.
        fallback: The format to use if its own template is missing or unfit.
        thinking: The template's `enable_thinking`; `on` is also for a template that always thinks. With `on` or `off`
            a template may strip earlier thoughts when it renders a whole conversation; here they stay, as they were
            sampled.
        template_kwargs: Values of further variables of the template.
        system_prompt: System message of each conversation.
        few_shot: Messages of examples, before the first user turn.
    """

    end_of_turn: int
    """The id that ends a reply."""

    opened: str
    """The thought that the generation prompt has opened, such as `<think>\\n`; empty if it opens none."""

    def __init__(
        self,
        tokenizer: Any,
        *,
        fallback: Fallback | None = None,
        thinking: Thinking = "auto",
        template_kwargs: Mapping[str, Any] | None = None,
        system_prompt: str | None = None,
        few_shot: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        if fallback is not None and fallback not in _FALLBACKS:
            raise TemplateError(f"no fallback chat format {fallback!r}: there are {', '.join(_FALLBACKS)}")
        self.tokenizer = tokenizer
        self.vocab_size = count_ids(tokenizer)
        """Number of ids up to the last token."""
        self.format = "template"
        """`template`, or the name of the fallback in use."""
        added = tokenizer.added_tokens_decoder
        self._special_ids = {token.content: id_ for id_, token in added.items() if token.special}
        self._special = _any_of(self._special_ids)
        self._marks = _any_of(filter(is_thought_mark, self._special_ids))
        self._skipped = {id_ for text, id_ in self._special_ids.items() if not is_thought_mark(text)}
        visible = [token.content for token in added.values() if not token.special and token.content.strip(" \t\n\r▁")]
        self._added = _any_of([*self._special_ids, *visible])
        self._hidden = _any_of(text for text in self._special_ids if not is_thought_mark(text))
        self._tags = [text for text in visible if "think" not in text]
        self._eats_left = {id_ for id_, token in added.items() if token.lstrip}
        self._eats_right = {id_ for id_, token in added.items() if token.rstrip}
        self._prompting = system_prompt, few_shot
        try:
            self._read_template(thinking, template_kwargs or {})
        except TemplateError as error:
            if fallback is None or thinking != "auto":
                raise TemplateError(f"{error} ({self._advice(thinking)})") from error
            self._use_fallback(fallback)

    @property
    def prompting(self) -> dict[str, Any]:
        """The `system_prompt` and `few_shot` messages before each conversation, if there are any."""
        template = self.tokenizer.chat_template
        return prompting_of(template) if isinstance(template, str) else {}

    # ---- the ids of a conversation -------------------------------------------------------------------------------

    def opening(self, user_text: str) -> list[int]:
        """Encode the first user turn, up to where the reply begins."""
        return self._encode(self._opening, self._strip(user_text, "user"))

    def turn(self, observation: str) -> list[int]:
        """Encode what follows a reply that ended with `end_of_turn`, up to where the next reply begins."""
        return self._encode(self._turn, self._strip(observation, "user"))

    def reply(self, text: str) -> list[int]:
        """Encode a reply that the model did not write (an expert's), including its end of turn.

        A thought of its own stands in place of the empty one that a template writes, or that the prompt has opened.
        """
        text = self._strip(text, "assistant")
        own = _OWN_THOUGHT.match(text)
        if not own or not self._writes_thought:
            return self._encode(self._reply, text, in_reply=True)
        rest = text[own.end() :]
        if self._writes_thought == "reply":
            begins = bool(self.opened) and text.lstrip().startswith(self.opened)
            closed = own["thought"] + self._thought_marks.closing + own["space"] + rest
            begun = text.lstrip().removeprefix(self.opened) if begins else closed
            rest = begun if self.opened else f"{self._thought_marks.opening}\n{begun}"
        return self._encode(self._reply[self._content :], rest, in_reply=True)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of a reply, without special tokens other than those around a thought."""
        if len(self._skipped) == len(self._special_ids):
            return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))
        return str(self.tokenizer.decode([id_ for id_ in ids if id_ not in self._skipped], skip_special_tokens=False))

    # ---- reading the template ------------------------------------------------------------------------------------

    def _use_fallback(self, name: Fallback) -> None:
        """Set a built-in format on the tokenizer, so that a saved checkpoint keeps it."""
        template, end = _FALLBACKS[name]
        if end is not None and end not in self._special_ids:
            raise TemplateError(f"the tokenizer has no token {end!r}, which the chat format {name} needs")
        self.format = name
        self.tokenizer.chat_template = template
        self._read_template("auto", {})

    def _advice(self, thinking: Thinking) -> str:
        template = getattr(self.tokenizer, "chat_template", None) or ""
        if thinking == "auto" and thought_marks_of(template):
            which = "on or off" if "enable_thinking" in template else "on"
            return f"thinking {which} keeps earlier thoughts; chat_format chatml or plain replaces the template"
        return "chat_format chatml or plain replaces the template"

    def _read_template(self, thinking: Thinking, template_kwargs: Mapping[str, Any]) -> None:
        """Cut the template into the pieces of an opening, a reply and a turn."""
        template = getattr(self.tokenizer, "chat_template", None)
        if not template:
            raise TemplateError("the tokenizer has no chat template")
        if isinstance(template, str):
            template = self.tokenizer.chat_template = with_settings(
                template, thinking, template_kwargs, *self._prompting
            )
        self._keeps_thoughts = isinstance(template, str) and thinking_of(template) != "auto"
        self._thought_marks = thought_marks_of(str(template)) or THOUGHT_MARKS[0]
        renders = self._render_growing("")
        self._render_growing(f"{self._thought_marks.opening}\nWell.\n{self._thought_marks.closing}\n\n")
        self._opening = self._pieces(renders.first_prompt)
        opened = _OPENED.search(renders.first_prompt)
        self.opened = opened[0] if opened else ""
        after_prompt = self._after_prompt(renders)
        self.end_of_turn, self._reply = self._reply_pieces(after_prompt)
        self._content = next(i for i, piece in enumerate(self._reply) if _is_mark(piece))
        special = {id_: text for text, id_ in self._special_ids.items()}
        before = "".join(special[piece] if isinstance(piece, int) else piece for piece in self._reply[: self._content])
        self._writes_thought: Literal["", "prompt", "reply"] = "reply" if thought_marks_of(before) else ""
        """Where a thought ends that the template writes for a reply without one."""
        if _CLOSED.search(renders.first_prompt):
            self._writes_thought = "prompt"
        end_text = special[self.end_of_turn]
        rest = after_prompt[after_prompt.rindex(end_text) + len(end_text) :]
        turns = self._require_equal_turns(renders, end_text, rest)
        self._turn = self._pieces(turns)
        self._strips = self._read_strips()
        self._check_ids()

    def _after_prompt(self, renders: _Renders) -> str:
        """Return what a render has after the generation prompt; a thought that the prompt alone opens is closed."""
        if renders.first_reply.startswith(renders.first_prompt):
            return renders.first_reply[len(renders.first_prompt) :]
        before = renders.first_prompt.removesuffix(self.opened)
        if not self.opened or not renders.first_reply.startswith(before):
            raise TemplateError(_difference(renders.first_prompt, renders.first_reply, ""))
        return f"\n{self._thought_marks.closing}\n\n" + _EMPTY_THOUGHT.sub("", renders.first_reply[len(before) :])

    def _render(self, contents: Sequence[str]) -> str:
        roles = ("user", "assistant")
        messages = [{"role": roles[i % 2], "content": content} for i, content in enumerate(contents)]
        try:
            prompt = len(contents) % 2 == 1
            return _within_time(
                lambda: str(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=prompt))
            )
        except Exception as error:  # jinja's errors, and whatever a template raises on purpose
            raise TemplateError(f"the chat template does not render a plain conversation: {error}") from error

    def _render_growing(self, thought: str) -> _Renders:
        """Render a conversation as it grows; each render must begin with the one before."""
        contents = [("" if i % 2 == 0 else thought) + _MARK.format(i) for i in range(5)]
        texts = self._without_last_eos([self._render(contents[: n + 1]) for n in range(5)])
        for shorter, longer in pairwise(texts):
            if not longer.startswith(shorter) and not self._keeps_thoughts:
                raise TemplateError(_difference(shorter, longer, thought))
        for number, content in enumerate(contents):
            content = _MARK.format(number) if self._keeps_thoughts else content
            if texts[-1].count(content) != 1:
                raise TemplateError(f"the chat template does not write a message's content as it is: {texts[-1]!r}")
        return _Renders(*texts)

    def _without_last_eos(self, texts: list[str]) -> list[str]:
        """Remove an end of sequence from the end of a render that is none when the conversation continues (Phi-3)."""
        eos = self.tokenizer.eos_token
        for i, (shorter, longer) in enumerate(pairwise(texts)):
            if eos and shorter.endswith(eos) and not longer.startswith(shorter):
                without = shorter.removesuffix(eos)
                if without.rstrip().endswith(tuple(self._special_ids)) and longer.startswith(without):
                    texts[i] = without
        return texts

    def _read_strips(self) -> dict[str, tuple[str, str]]:
        """Return the white space that the template strips from the left and the right of a content, by role."""
        marks = [_MARK.format(i) for i in range(2)]
        plain = self._render(marks)

        def strips(place: int, content: str) -> bool:
            return self._render([content if i == place else mark for i, mark in enumerate(marks)]) == plain

        return {
            role: (
                "".join(c for c in _SPACE if strips(i, c + marks[i])),
                "".join(c for c in _SPACE if strips(i, marks[i] + c)),
            )
            for i, role in enumerate(("user", "assistant"))
        }

    def _strip(self, text: str, role: str) -> str:
        """Strip a content as the template does."""
        left, right = (None if chars == _SPACE else chars for chars in self._strips[role])  # None: any white space
        return text.lstrip(left).rstrip(right)

    def _reply_pieces(self, after_prompt: str) -> tuple[int, list[_Piece]]:
        """Return the end-of-turn id and the pieces of a reply, from what a render has after the generation prompt."""
        pieces = self._pieces(after_prompt)
        content = next(i for i, piece in enumerate(pieces) if _is_mark(piece))
        for i in range(len(pieces) - 1, content, -1):
            if isinstance(end := pieces[i], int):
                return end, pieces[: i + 1]
        raise TemplateError(f"the chat template ends a reply with no special token: {after_prompt!r}")

    def _require_equal_turns(self, renders: _Renders, end: str, rest: str) -> str:
        """Return what follows a reply's end, up to where the next begins; each turn must have the same."""
        first, second = (
            prompt[prompt.index(mark) + len(mark) :].partition(end)[2]
            for prompt, mark in ((renders.second_prompt, _MARK.format(1)), (renders.third_prompt, _MARK.format(3)))
        )
        if first.replace(_MARK.format(2), "") != second.replace(_MARK.format(4), "") or not first.startswith(rest):
            raise TemplateError(f"the chat template writes the second turn {first!r} and the third {second!r}")
        return first

    def _check_ids(self) -> None:
        """Require a tokenizer that does not merge tokens across the border of two turns."""
        contents = [
            "Where is it?\n\nSay  it.",
            f"Look there.\n\n{'then'.join(self._tags[:2])}  Go.",
            "It is\n\n\nnot  there.",
        ]
        texts = self._without_last_eos([self._render(contents[: n + 1]) for n in range(3)])
        ids = [self._tokenize(text, special=True) for text in texts]
        if self._keeps_thoughts:
            ids = ids[: 1 + texts[1].startswith(texts[0])]
        for shorter, longer in pairwise(ids):
            if longer[: len(shorter)] != shorter:
                raise TemplateError(
                    "the tokenizer encodes the beginning of a conversation differently when it continues: "
                    + _difference(self.tokenizer.decode(shorter), self.tokenizer.decode(longer), "")
                )
        ours = [*self.opening(contents[0]), *self.reply(contents[1]), *self.turn(contents[2])]
        if ours != ids[-1] and not (self._keeps_thoughts and ours[: len(ids[-1])] == ids[-1]):
            warnings.warn(
                "this tokenizer encodes a whole conversation differently from its turns one by one, which is how an "
                "agent encodes it: the model reads ids that its template would not give",
                stacklevel=4,
            )

    # ---- encoding ------------------------------------------------------------------------------------------------

    def _pieces(self, text: str) -> list[_Piece]:
        """Cut a render into special tokens as ids, texts, and the marks where contents go."""
        pieces: list[_Piece] = []
        for part, is_token in _cut(self._special, text):
            if is_token:
                pieces.append(self._special_ids[part])
            else:
                pieces.extend(p for p, _ in _cut(re.compile(_MARK.format("[0-9]")), part))
        return pieces

    def _encode(self, pieces: Sequence[_Piece], *contents: str, in_reply: bool = False) -> list[int]:
        """Encode the pieces with `contents` at the marks; the texts between two special tokens are encoded as one."""
        rest, kept = iter(contents), self._hidden if in_reply else self._added
        ids: list[int] = []
        text, spans = "", list[range]()
        for piece in pieces:
            if isinstance(piece, int):
                ids += self._plain(text.rstrip() if piece in self._eats_left else text, kept, spans)
                ids.append(piece)
                text, spans = "", []
                continue
            part = next(rest) if (is_content := _is_mark(piece)) else piece
            if not text and ids and ids[-1] in self._eats_right:
                part = part.lstrip()
            if is_content:
                spans.append(range(len(text), len(text) + len(part)))
            text += part
        return ids + self._plain(text, kept, spans)

    def _plain(self, text: str, kept: re.Pattern[str], spans: Sequence[range]) -> list[int]:
        """Encode a text; tokens that `kept` matches stay text if a character of theirs is in a content's span."""
        ids: list[int] = []
        start = 0
        for match in kept.finditer(text):
            if any(match.start() < span.stop and span.start < match.end() for span in spans):
                ids += self._tokenize(text[start : match.start() + 1])  # cut after its first character
                start = match.start() + 1
        return ids + self._tokenize(text[start:])

    def _tokenize(self, text: str, *, special: bool = False) -> list[int]:
        if special:
            return self._encode_text(text)
        ids: list[int] = []
        for part, is_mark in _cut(self._marks, text):
            if is_mark:
                ids.append(self._special_ids[part])
            else:
                ids += self._encode_text(part, split_special_tokens=True)
        return ids

    def _encode_text(self, text: str, **kwargs: bool) -> list[int]:
        """Encode a text; PolicyError for what a stranger's tokenizer raises, which may be a panic of its Rust code."""
        try:
            return list(self.tokenizer(text, add_special_tokens=False, **kwargs)["input_ids"])
        except BaseException as error:
            if isinstance(error, Exception) or type(error).__name__ == "PanicException":
                raise PolicyError(f"the tokenizer does not encode a text of {len(text)} characters: {error}") from error
            raise


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    """Match any of the texts, the longest first."""
    return re.compile("|".join(map(re.escape, sorted(texts, key=len, reverse=True))) or r"(?!)")


def _cut(pattern: re.Pattern[str], text: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a text, and whether each matches the pattern; skip empty parts."""
    start = 0
    for match in pattern.finditer(text):
        if match.start() > start:
            yield text[start : match.start()], False
        yield match.group(), True
        start = match.end()
    if start < len(text):
        yield text[start:], False


def _is_mark(piece: _Piece) -> bool:
    return isinstance(piece, str) and re.fullmatch(_MARK.format("[0-9]"), piece) is not None


def _difference(shorter: str, longer: str, thought: str) -> str:
    at = next((i for i, (a, b) in enumerate(zip(shorter, longer, strict=False)) if a != b), len(shorter))
    what = "strips or rewrites earlier thinking" if thought else "rewrites earlier turns"
    return (
        f"the chat template {what}: a shorter conversation has {shorter[at : at + 40]!r} "
        f"where the longer one has {longer[at : at + 40]!r}"
    )
