"""Turns as token ids, from a tokenizer's own chat template, so that earlier turns never change.

A conversation grows by appending ids: `opening`, a reply as it was sampled, `turn`, a reply, `turn`, … This needs a
template that renders a longer conversation as a continuation of the shorter one; `ChatFormat` checks that once.
Contents are encoded as plain text: a special token that an observation spells stays text.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from agentgym_py.errors import TemplateError
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

_MARK = "ContentZq{}Zq"
_THOUGHT = "<think>\nWell.\n</think>\n\n"
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


class ChatFormat:
    """Write turns for one tokenizer; `fallback` is the format to use if its own template is missing or unfit."""

    end_of_turn: int
    """The id that ends a reply."""

    def __init__(self, tokenizer: Any, *, fallback: Fallback | None = None) -> None:
        if fallback is not None and fallback not in _FALLBACKS:
            raise TemplateError(f"no fallback chat format {fallback!r}: there are {', '.join(_FALLBACKS)}")
        self.tokenizer = tokenizer
        self.vocab_size = count_ids(tokenizer)
        """Number of ids up to the last token."""
        self.format = "template"
        """`template`, or the name of the fallback in use."""
        self._special_ids = {token.content: id_ for id_, token in tokenizer.added_tokens_decoder.items()}
        longest_first = sorted(self._special_ids, key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        self._opening_after_system: list[_Piece] | None = None
        try:
            self._read_template()
        except TemplateError as error:
            if fallback is None:
                raise TemplateError(f"{error} (chat_format chatml or plain replaces the template)") from error
            self._use_fallback(fallback)

    # ---- the ids of a conversation -------------------------------------------------------------------------------

    def opening(self, user_text: str, *, system: str | None = None) -> list[int]:
        """Encode the first user turn, up to where the reply begins."""
        if system is None:
            return self._encode(self._opening, user_text)
        if self._opening_after_system is None:
            renders = self._render_growing("", system=_MARK.format("S"))
            self._opening_after_system = self._pieces(renders.first_prompt)
        return self._encode(self._opening_after_system, system, user_text)

    def turn(self, observation: str) -> list[int]:
        """Encode what follows a reply that ended with `end_of_turn`, up to where the next reply begins."""
        return self._encode(self._turn, observation)

    def reply(self, text: str) -> list[int]:
        """Encode a reply that the model did not write (an expert's), including its end of turn."""
        return self._encode(self._reply, text)

    # ---- reading the template ------------------------------------------------------------------------------------

    def _use_fallback(self, name: Fallback) -> None:
        """Set a built-in format on the tokenizer, so that a saved checkpoint keeps it."""
        template, end = _FALLBACKS[name]
        if end is not None and end not in self._special_ids:
            raise TemplateError(f"the tokenizer has no token {end!r}, which the chat format {name} needs")
        self.format = name
        self.tokenizer.chat_template = template
        self._read_template()

    def _read_template(self) -> None:
        """Cut the template into the pieces of an opening, a reply and a turn."""
        if not getattr(self.tokenizer, "chat_template", None):
            raise TemplateError("the tokenizer has no chat template")
        renders = self._render_growing("")
        self._render_growing(_THOUGHT)
        self._opening = self._pieces(renders.first_prompt)
        after_prompt = renders.first_reply[len(renders.first_prompt) :]
        self.end_of_turn, self._reply = self._reply_pieces(after_prompt)
        end_text = next(text for text, id_ in self._special_ids.items() if id_ == self.end_of_turn)
        rest = after_prompt[after_prompt.rindex(end_text) + len(end_text) :]
        self._turn = self._pieces(rest + renders.second_prompt[len(renders.first_reply) :])
        self._require_equal_turns(renders, rest)
        self._check_ids()

    def _render(self, contents: Sequence[str], system: str | None = None) -> str:
        roles = ("user", "assistant")
        messages = [{"role": roles[i % 2], "content": content} for i, content in enumerate(contents)]
        if system is not None:
            messages.insert(0, {"role": "system", "content": system})
        try:
            prompt = len(contents) % 2 == 1
            return str(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=prompt))
        except Exception as error:  # jinja's errors, and whatever a template raises on purpose
            raise TemplateError(f"the chat template does not render a plain conversation: {error}") from error

    def _render_growing(self, thought: str, system: str | None = None) -> _Renders:
        """Render a conversation as it grows; each render must begin with the one before."""
        contents = [("" if i % 2 == 0 else thought) + _MARK.format(i) for i in range(5)]
        texts = [self._render(contents[: n + 1], system) for n in range(5)]
        for shorter, longer in pairwise(texts):
            if not longer.startswith(shorter):
                raise TemplateError(_difference(shorter, longer, thought))
        for content in contents:
            if texts[-1].count(content) != 1:
                raise TemplateError(f"the chat template does not write a message's content as it is: {texts[-1]!r}")
        return _Renders(*texts)

    def _reply_pieces(self, after_prompt: str) -> tuple[int, list[_Piece]]:
        """Return the end-of-turn id and the pieces of a reply, from what a render has after the generation prompt."""
        pieces = self._pieces(after_prompt)
        content = next(i for i, piece in enumerate(pieces) if _is_mark(piece))
        for i in range(len(pieces) - 1, content, -1):
            if isinstance(end := pieces[i], int):
                return end, pieces[: i + 1]
        raise TemplateError(f"the chat template ends a reply with no special token: {after_prompt!r}")

    def _require_equal_turns(self, renders: _Renders, rest: str) -> None:
        first = rest + renders.second_prompt[len(renders.first_reply) :]
        second = rest + renders.third_prompt[len(renders.second_reply) :]
        if first.replace(_MARK.format(2), "") != second.replace(_MARK.format(4), ""):
            raise TemplateError(f"the chat template writes the second turn {first!r} and the third {second!r}")

    def _check_ids(self) -> None:
        """Require a tokenizer that does not merge tokens across the border of two turns."""
        contents = ["Where is it?", "Look there.", "It is not there."]
        ids = [self._tokenize(self._render(contents[: n + 1]), special=True) for n in range(3)]
        for shorter, longer in pairwise(ids):
            if longer[: len(shorter)] != shorter:
                raise TemplateError(
                    "the tokenizer encodes the beginning of a conversation differently when it continues: "
                    + _difference(self.tokenizer.decode(shorter), self.tokenizer.decode(longer), "")
                )
        if [*self.opening(contents[0]), *self.reply(contents[1]), *self.turn(contents[2])] != ids[2]:
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
                pieces.extend(p for p, _ in _cut(re.compile(_MARK.format("[0-9S]")), part))
        return pieces

    def _encode(self, pieces: Sequence[_Piece], *contents: str) -> list[int]:
        """Encode the pieces with `contents` at the marks; the texts between two special tokens are encoded as one."""
        rest = iter(contents)
        ids: list[int] = []
        text = ""
        for piece in pieces:
            if isinstance(piece, int):
                ids += self._plain(text)
                ids.append(piece)
                text = ""
            else:
                text += next(rest) if _is_mark(piece) else piece
        return ids + self._plain(text)

    def _plain(self, text: str) -> list[int]:
        """Encode a text as plain text, even if it spells special tokens."""
        ids: list[int] = []
        start = 0
        for match in self._special.finditer(text):  # cut a spelled special token after its first character
            ids += self._tokenize(text[start : match.start() + 1])
            start = match.start() + 1
        return ids + self._tokenize(text[start:])

    def _tokenize(self, text: str, *, special: bool = False) -> list[int]:
        if not text:
            return []
        return list(self.tokenizer(text, add_special_tokens=False, split_special_tokens=not special)["input_ids"])


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
    return isinstance(piece, str) and re.fullmatch(_MARK.format("[0-9S]"), piece) is not None


def _difference(shorter: str, longer: str, thought: str) -> str:
    at = next((i for i, (a, b) in enumerate(zip(shorter, longer, strict=False)) if a != b), len(shorter))
    what = "strips or rewrites earlier thinking" if thought else "rewrites earlier turns"
    return (
        f"the chat template {what}: a shorter conversation has {shorter[at : at + 40]!r} "
        f"where the longer one has {longer[at : at + 40]!r}"
    )
