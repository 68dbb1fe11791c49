"""Prepare episodes for the page, their tokens as text, and write a page that needs no server."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from agentgym_py.errors import ExpertError, RunError
from agentgym_py.evaluation.first_fault import find_first_fault
from agentgym_py.files import inside
from agentgym_py.rewards.state_values import DISCOUNT, exact_values
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.json_values import to_json
from agentgym_py.viewer.live import checkpoints, evaluated_model, plans
from agentgym_py.viewer.source import short_digest

_MOST_TOKENIZER = 256 << 20
"""Largest `tokenizer.json` in bytes; those of today's models have up to 30 MiB."""
_MOST_TOKEN, _MOST_DECODERS = 4096, 32
"""Characters of the longest token, and parts of a decoder."""
_QUICK_DECODERS = ("ByteFallback", "ByteLevel", "BPEDecoder", "CTC", "Fuse", "Metaspace", "WordPiece")
_POLICY, _DATA = ("<!-- an exported page has its policy here -->", "<!-- an exported page has its data here -->")


class TokenTexts:
    """Decodes token ids with the tokenizers of a folder's checkpoints, or with the tiny model's."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def to_json(self, trajectory: Trajectory) -> dict[str, Any]:
        """Return the episode as JSON values, its tokens with `texts` and `context_texts` if a tokenizer fits.

        A tokenizer fits if it decodes the replies' ids to the replies.
        """
        data = to_json(trajectory)
        tokenizer = self._find_tokenizer(trajectory)
        for step in data["steps"]:
            if tokenizer is not None and step["tokens"] is not None:
                for ids, name in (("ids", "texts"), ("context", "context_texts")):
                    texts = [_decode(tokenizer, [token], skip_special_tokens=False) for token in step["tokens"][ids]]
                    if None not in texts:
                        step["tokens"][name] = texts
        return data

    def _find_tokenizer(self, trajectory: Trajectory) -> Any:
        replies = [(list(step.tokens.ids), step.reply) for step in trajectory.steps if step.tokens is not None]
        for path in self._paths() if replies else ():
            tokenizer = _load_tokenizer(path)
            if tokenizer is not None and all(_decode(tokenizer, ids) == reply for ids, reply in replies):
                return tokenizer
        return None

    def _paths(self) -> Iterable[Path]:
        from agentgym_py.policy.tiny import base_folder

        for path in checkpoints(self._root):
            with suppress(RunError):
                yield inside(self._root, path.with_name("tokenizer.json").relative_to(self._root))
        if evaluated := evaluated_model(self._root):
            yield Path(evaluated) / "tokenizer.json"
        with base_folder() as folder:
            yield folder / "tokenizer.json"


@cache
def _load_tokenizer(path: Path) -> Any:
    """Load a tokenizer; None if the file is missing or broken, or `tokenizers` is not installed."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        return None
    with _no_panic():  # of a broken file
        if path.is_file() and path.stat().st_size <= _MOST_TOKENIZER:
            tokenizer = Tokenizer.from_file(str(path))
            decoder = tokenizer.decoder and json.loads(tokenizer.decoder.__getstate__())
            if _is_quick(decoder) and max(map(len, tokenizer.get_vocab()), default=0) <= _MOST_TOKEN:
                return tokenizer
    return None


def _is_quick(decoder: Any) -> bool:
    """Return whether a decoder takes no time that its file chooses: it neither searches patterns nor adds text."""
    match decoder:
        case None:
            return True
        case {"type": "Sequence", "decoders": [*parts]}:
            return len(parts) <= _MOST_DECODERS and all(
                part["type"] != "Sequence" and _is_quick(part) for part in parts
            )
        case {"type": "Replace", "pattern": {"String": str(old)}, "content": str(new)}:
            return 0 < len(old) >= len(new)
        case {"type": "Strip", "start": int(start), "stop": int(stop)}:
            return max(start, stop) <= _MOST_TOKEN
        case {"type": kind}:
            return kind in _QUICK_DECODERS
    return False


def _decode(tokenizer: Any, ids: list[int], **options: bool) -> str | None:
    """Return the text of ids; None if the tokenizer of a stranger's file fails."""
    with _no_panic():
        return str(tokenizer.decode(ids, **options))
    return None


@contextmanager
def _no_panic() -> Iterator[None]:
    """Ignore any error of the library `tokenizers`, of which a panic is no `Exception`."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # noqa: S110  # nothing is shown in place of it
        pass


def static_file(name: str) -> str:
    """Return a file of the front end."""
    return files("agentgym_py").joinpath("viewer", "static", name).read_text(encoding="utf-8")


def export_page(
    title: str, episodes: Iterable[tuple[Mapping[str, Any], Trajectory]], texts: TokenTexts, note: str
) -> str:
    """Return one HTML page of these episodes, given as index rows and trajectories, without network and server."""
    entries = [
        {"row": dict(row), "episode": texts.to_json(trajectory), "plans": expert_plans(trajectory)}
        for row, trajectory in episodes
    ]
    data = json.dumps({"title": title, "note": note, "episodes": entries}).replace("<", "\\u003c")
    style, script = static_file("viewer.css"), static_file("viewer.js")
    allowed = f"default-src 'none'; img-src data:; style-src {_digest(style)}; script-src {_digest(script)}"
    page = static_file("index.html")
    for old, new in (
        ('<link rel="stylesheet" href="/static/viewer.css">', f"<style>{style}</style>"),
        ('<script src="/static/viewer.js" defer></script>', ""),
        (_POLICY, f'<meta http-equiv="Content-Security-Policy" content="{allowed}">'),
        (_DATA, f'<script type="application/json" id="data">{data}</script>\n<script>{script}</script>'),
    ):
        assert page.count(old) == 1
        page = page.replace(old, new)
    return page


def expert_plans(trajectory: Trajectory) -> dict[str, Any]:
    """Return the expert's `plans`, one per step, the `values` of the states and the first `fault`, or the `error`."""
    try:
        fault = find_first_fault(trajectory)
        return {
            "plans": plans(trajectory), "values": _state_values(trajectory), "fault": asdict(fault) if fault else None,
        }  # fmt: skip
    except Exception as error:  # a world may raise anything for a stranger's arguments
        return {"error": str(error) or repr(error)}


def _state_values(trajectory: Trajectory) -> list[float] | None:
    """Return the value of each state, the final one included; None if the expert fails in one of them."""
    try:
        return exact_values(trajectory, DISCOUNT)
    except ExpertError:
        return None


def path_of(trajectory: Trajectory) -> list[dict[str, Any]]:
    """Return an episode's steps for the tree of its task; equal `key`s are the same action on the same observation."""
    return [
        {
            "key": short_digest("\0".join((step.observation, step.action, step.action_input or ""))),
            "action": step.action, "valid": step.valid, "reward": step.reward,
        }
        for step in trajectory.steps
    ]  # fmt: skip


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
