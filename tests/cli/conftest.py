"""A world that is there whatever is installed, and a model made on the spot."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import gymnasium
import pytest
from scripts import load_script

from agentgym_py.cli import main
from agentgym_py.report import svg

WORLD = "GuessForTests-v0"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _default_signals() -> Iterator[None]:
    """Commands begin with Python's handlers: Ray, in a test before, leaves one that ends the process at SIGTERM."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="session")
def guess_world() -> str:
    """Gymnasium id of the world in `examples/my_world.py`."""
    module = load_script("examples/my_world.py", "guess_for_tests")
    if WORLD not in gymnasium.registry:
        gymnasium.register(id=WORLD, entry_point=module.GuessEnv)
    return WORLD


@pytest.fixture
def agentgym(
    guess_world: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    """Runs the command line in an empty folder: exit status, stdout, stderr.

    Reports have no charts, which take longer than all else of a small run; `tests/viewer` looks at one that has.
    """
    monkeypatch.setattr(svg, "has_matplotlib", lambda: False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def run(*argv: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main([word.replace("GUESS", guess_world) for word in argv])
        said = capsys.readouterr()
        return status, said.out, said.err

    yield run


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a model of a few thousand weights that can write the world's actions."""
    pytest.importorskip("torch")
    from agentgym_py.policy import Policy
    from agentgym_py.policy.tiny import build_model, build_tokenizer, tiny_config

    tokenizer = build_tokenizer(["Action: guess[12]\nHigher. Lower. Found. Find a number below 64."] * 4, 300)
    model = build_model(tiny_config(len(tokenizer), hidden_size=32, layers=1, heads=2, max_length=512))
    folder = tmp_path_factory.mktemp("models") / "small"
    Policy(model, tokenizer, "small").save(folder)
    return str(folder)
