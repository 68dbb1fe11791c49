"""The script that tests bridges; the bridges' own tests need their frameworks."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scripts import load_script


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
