from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentgym_py.agents import ExpertAgent
from agentgym_py.cli import server_options
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.feedback import verdicts
from agentgym_py.feedback.verdicts import Ref
from agentgym_py.trajectory import Trajectory, store

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def played(tmp_path: Path, guess_world: str) -> Path:
    """A store of six episodes."""
    path = tmp_path / "played" / "trajectories.jsonl"
    store.write(path, Collector(ExpertAgent()).collect_batch(jobs_for([guess_world], "train", range(6))))
    return path


def test_a_page_without_a_server(agentgym: Run, played: Path) -> None:
    """One file with the first episodes, their plans, and a policy that lets nothing in; what is left out is said."""
    status, out, _ = agentgym("view", "played", "--export", "page.html", "--limit", "4")
    assert (status, out) == (0, "page.html: the first 4 of 6 episodes (--limit 6 exports all)\n")
    page = Path("page.html").read_text(encoding="utf-8")
    assert page.count('"optimal_steps"') == 4
    assert page.count('"plans": {"plans": [[') == 4
    assert "default-src 'none'" in page
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", page)
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert agentgym("view", "played", "--export", "page.html")[0] == 2


def test_no_text_leaves_its_place_in_the_page(
    agentgym: Run, tmp_path: Path, episode: Callable[..., Trajectory]
) -> None:
    """What would end the data's element is escaped; what is no UTF-8 is written all the same."""
    store.write(
        tmp_path / "a.jsonl", [episode("</script><script>alert(1)</script>", instruction="<!--<script> \ud800")]
    )
    assert agentgym("view", "a.jsonl", "--export", "page.html")[0] == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert page.count("</script>") == 2
    assert "alert(1)" in page
    assert "<script>alert" not in page


def test_broken_lines_are_said(agentgym: Run, played: Path) -> None:
    """The others are there."""
    with played.open("ab") as file:
        file.write(b"{}\n")
    assert agentgym("view", str(played), "--export", "a.html")[1] == "a.html: 6 episodes; 1 broken line left out\n"


def test_judged_episodes_become_a_store(agentgym: Run, played: Path) -> None:
    """With people's verdicts, for `agentgym train`."""
    status, _, err = agentgym("view", "played", "--judged", "judged.jsonl")
    assert (status, "no judged episode" in err) == (2, True)
    names = [t.id for t in store.read(played)]
    verdicts.rate(played.parent, Ref(played.name, names[0]), -1)
    assert agentgym("view", "played", "--judged", "judged.jsonl")[1] == "judged.jsonl: 1 judged episode\n"
    assert [(t.id, t.reward, t.success) for t in store.read("judged.jsonl")] == [(names[0], -1.0, False)]
    other = played.with_name("other.jsonl")
    other.write_bytes(played.read_bytes())
    verdicts.rate(played.parent, Ref(other.name, names[1]), 1)
    assert agentgym("view", str(other), "--judged", "of_other.jsonl")[1] == "of_other.jsonl: 1 judged episode\n"
    assert [t.id for t in store.read("of_other.jsonl")] == [names[1]]
    assert agentgym("view", "played", "--judged", "both.jsonl")[1] == "both.jsonl: 2 judged episodes\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "nothing: no such file or folder"),
        (["played", "--port", "70000"], "--port must be from 0 to 65535"),
        (["played", "--export", "a.html", "--limit", "0"], "--limit must be at least 1"),
        (["played", "--export", "a.html", "--judged", "b.jsonl"], "cannot be combined"),
    ],
)
def test_mistakes_are_one_line(agentgym: Run, played: Path, words: list[str], message: str) -> None:
    """With the option, and nothing is written."""
    status, _, err = agentgym("view", *words)
    assert status == 2
    assert message in err
    assert err.count("\n") == 1


def test_a_port_that_is_taken(agentgym: Run, played: Path) -> None:
    """Is said by its number."""
    pytest.importorskip("fastapi")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        status, _, err = agentgym("view", "played", "--port", str(taken.getsockname()[1]))
    assert status == 2
    assert "Address already in use" in err


def test_what_is_missing_is_said(agentgym: Run, played: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra `view` pages are exported, but not served."""
    monkeypatch.setattr(server_options, "find_spec", lambda name: None)
    status, _, err = agentgym("view", "played")
    assert status == 2
    assert "[view]" in err
    assert agentgym("view", "played", "--export", "a.html")[0] == 0


def test_the_server_is_imported_only_to_serve(played: Path) -> None:
    """Neither by the package nor for the help nor for an exported page, and torch never by these."""
    code = (
        "import sys; from agentgym_py.cli import main; main(['view', '--help']);"
        f"main(['view', {str(played.parent / 'none')!r}]);"
        "import agentgym_py.viewer.show, agentgym_py.feedback.verdicts;"
        "print({'fastapi', 'uvicorn', 'torch', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"
