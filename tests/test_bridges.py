"""The script that tests bridges; the bridges' own tests need their frameworks."""

from __future__ import annotations

from pathlib import Path
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
