"""The script that tests bridges; the bridges' own tests need their frameworks."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from scripts import load_script

from agentgym_py.env import EnvSpec
from agentgym_py.serving.tool_episode import EpisodeSettings, ToolEpisode


def test_an_environment_is_made_again_when_its_packages_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a change of versions, of metadata or of sources, and not otherwise."""
    script, commands = load_script("bridges/test.py"), list[list[str]]()
    bridge, whole = tmp_path / "bridges" / "one", tmp_path / "build" / "bridges" / "one" / "whole"
    for folder in (bridge, whole.parent):
        folder.mkdir(parents=True)
    (bridge / "pyproject.toml").write_text("")
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "constraints.txt").write_text("a==1")
    monkeypatch.setattr(script, "ROOT", tmp_path)
    monkeypatch.setattr(script, "BRIDGES", tmp_path / "bridges")
    monkeypatch.setattr(script.venv, "create", lambda *_, **__: whole.unlink(missing_ok=True))
    monkeypatch.setattr(script.subprocess, "run", lambda words, **_: commands.append(words))

    def installs() -> list[Any]:
        commands.clear()
        assert script.python_of("one") == str(whole.parent / "bin" / "python")
        return commands[:]

    (install,) = installs()
    assert install[-1] == f"{bridge}[run,test]" and str(tmp_path / "constraints.txt") in install
    assert installs() == []
    changed = {
        bridge / "constraints.txt": "a==2", bridge / "sources.txt": "c", bridge / "pyproject.toml": "#",
        tmp_path / "pyproject.toml": "#",
    }  # fmt: skip
    for path, text in changed.items():
        path.write_text(text)
        assert installs() and installs() == [], path
    (tmp_path / "constraints.txt").write_text("not the bridge's own")
    assert installs() == []


def test_every_bridge_that_is_named_is_tested(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also beside a group, after a failure, and where there is nothing to time or a newer Python is needed."""
    script, commands = load_script("bridges/test.py"), list[list[str]]()

    def run(words: list[str], **_: object) -> SimpleNamespace:
        commands.append(words)
        return SimpleNamespace(returncode=3 if any("inspect" in word for word in words) else 0)

    def call(*words: str) -> object:
        commands.clear()
        monkeypatch.setattr(sys, "argv", ["bridges/test.py", *words])
        with pytest.raises(SystemExit) as ended:
            script.main()
        return ended.value.code

    monkeypatch.setattr(script.subprocess, "run", run)
    monkeypatch.setattr(script, "python_of", lambda _: "python")
    assert call("quick", "trl") == 3 and len(commands) == 3
    assert "failed: inspect\n" in capsys.readouterr().err
    assert call("originals", "inspect", "--time") == 3 and len(commands) == 1
    assert "originals: nothing to time" in capsys.readouterr().out
    monkeypatch.setattr(script, "oldest_python", lambda _: (9, 9))
    assert call("trl") == 1 and not commands
    assert "trl: left out, because it needs Python 9.9" in capsys.readouterr().out


BRIDGES = Path(__file__).resolve().parents[1] / "bridges"
PINNED = sorted({path.parent.name for path in BRIDGES.glob("*/constraints.txt")} - {"prime_rl"})
"""Bridges with versions of their own; that to prime-rl is a config."""


@pytest.mark.parametrize("name", PINNED)
def test_a_bridge_is_installed_with_the_versions_that_were_tested(name: str) -> None:
    """By the command of its README, which is that of the guide."""
    command = f"pip install -c bridges/{name}/constraints.txt -e . -e bridges/{name}"
    for page in (BRIDGES / name / "README.md", BRIDGES.parent / "docs" / "guides" / "bridges.md"):
        assert command in page.read_text(encoding="utf-8"), page


def test_the_example_of_inspect_plays_tools_of_its_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step of its model is valid; bridges/inspect/tests runs it by Inspect."""
    guide = (BRIDGES.parent / "docs" / "guides" / "bridges.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(from agentgym_inspect import .*?)^```", guide, re.M | re.S)
    output = SimpleNamespace(for_tool_call=lambda _, name, arguments: SimpleNamespace(call=(name, arguments)))
    asked: dict[str, Any] = {}
    modules: dict[str, dict[str, Any]] = {
        "agentgym_inspect": {"agentgym": lambda **arguments: asked.update(arguments)},
        "inspect_ai": {"eval": lambda *_, **__: None},
        "inspect_ai.model": {
            "ModelOutput": output, "ModelUsage": SimpleNamespace,
            "get_model": lambda _, custom_outputs: asked.update(reply=custom_outputs),
        },
    }  # fmt: skip
    for name, attributes in modules.items():
        monkeypatch.setitem(sys.modules, name, cast(Any, SimpleNamespace(**attributes)))
    exec(code, {})  # noqa: S102  # the page's own example
    for task in range(asked["tasks"]):
        episode = ToolEpisode(EpisodeSettings(EnvSpec(asked["env"]), "test", calls=True), task)
        names = {tool["function"]["name"] for tool in episode.tools}
        while episode.stop_reason is None:
            tool, arguments = asked["reply"]([None] * (1 + 2 * len(episode.steps))).call
            assert tool in names and episode.call(tool, arguments).valid, (tool, arguments)
