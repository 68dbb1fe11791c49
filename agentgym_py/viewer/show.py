"""An episode as the page shows it, its tokens as text, and a page with episodes in it that needs no server."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from agentgym_py.errors import AgentGymError
from agentgym_py.trajectory import Trajectory, store
from agentgym_py.viewer.live import checkpoints, evaluated_model, plans

_POLICY, _DATA = ("<!-- an exported page has its policy here -->", "<!-- an exported page has its data here -->")


class TokenTexts:
    """Turns token ids into text by the tokenizers of a folder's checkpoints, or the tiny model's."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def shown(self, trajectory: Trajectory) -> dict[str, Any]:
        """The episode as JSON values; a step's tokens have `texts` and `context_texts` where a tokenizer fits.

        One fits when it decodes the replies' ids to the replies.
        """
        data = store.to_json(trajectory)
        tokenizer = self._fitting(trajectory)
        for step in data["steps"]:
            if tokenizer is not None and step["tokens"] is not None:
                for ids, texts in (("ids", "texts"), ("context", "context_texts")):
                    step["tokens"][texts] = [_piece(tokenizer, each) for each in step["tokens"][ids]]
        return data

    def _fitting(self, trajectory: Trajectory) -> Any:
        spoken = [step for step in trajectory.steps if step.tokens is not None]
        for path in self._paths() if spoken else ():
            tokenizer = _tokenizer(path)
            if tokenizer is not None and all(
                step.tokens is not None and tokenizer.decode(list(step.tokens.ids)) == step.reply for step in spoken
            ):
                return tokenizer
        return None

    def _paths(self) -> Iterable[Path]:
        from agentgym_py.policy.tiny import base_folder

        yield from (path.with_name("tokenizer.json") for path in checkpoints(self._root))
        if evaluated := evaluated_model(self._root):
            yield Path(evaluated) / "tokenizer.json"
        with base_folder() as folder:
            yield folder / "tokenizer.json"


@cache
def _tokenizer(path: Path) -> Any:
    """None where there is no file, or what reads it is not installed."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        return None
    return Tokenizer.from_file(str(path)) if path.is_file() else None


def _piece(tokenizer: Any, token: int) -> str:
    return str(tokenizer.decode([token], skip_special_tokens=False))


def static(name: str) -> str:
    """A file of the front end."""
    return files("agentgym_py").joinpath("viewer", "static", name).read_text(encoding="utf-8")


def export(title: str, episodes: Iterable[tuple[Mapping[str, Any], Trajectory]], texts: TokenTexts, note: str) -> str:
    """One html file that shows these episodes, rows of the index and trajectories, with no network and no server."""
    whole = [
        {"row": dict(row), "episode": texts.shown(trajectory), "plans": planned(trajectory)}
        for row, trajectory in episodes
    ]
    data = json.dumps({"title": title, "note": note, "episodes": whole}).replace("<", "\\u003c")
    style, script = static("viewer.css"), static("viewer.js")
    allowed = f"default-src 'none'; img-src data:; style-src {_digest(style)}; script-src {_digest(script)}"
    page = static("index.html")
    for old, new in (
        ('<link rel="stylesheet" href="/static/viewer.css">', f"<style>{style}</style>"),
        ('<script src="/static/viewer.js" defer></script>', ""),
        (_POLICY, f'<meta http-equiv="Content-Security-Policy" content="{allowed}">'),
        (_DATA, f'<script type="application/json" id="data">{data}</script>\n<script>{script}</script>'),
    ):
        assert page.count(old) == 1
        page = page.replace(old, new)
    return page


def planned(trajectory: Trajectory) -> dict[str, Any]:
    """The expert's `plans`, one a step, or in `error` why there are none."""
    try:
        return {"plans": plans(trajectory)}
    except AgentGymError as error:
        return {"error": str(error)}


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
