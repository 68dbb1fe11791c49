"""Worlds, trainers and agents of one's own in a file, without a package, in every command that takes a name."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentgym_py import registry
from agentgym_py.cli.evolve import _next_steps
from agentgym_py.cli.saved_settings import world_advice
from agentgym_py.env import EnvSpec, registration
from agentgym_py.errors import UnknownNameError
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.trajectory import store

pytest.importorskip("trl")
pytestmark = pytest.mark.usefixtures("own_sources")
Run = Callable[..., tuple[int, str, str]]
EXAMPLE = Path(__file__).parents[2] / "examples" / "my_world.py"
TRAINER = '''
"""Behaviour cloning of everything, by a trainer of one's own."""

from dataclasses import dataclass

from agentgym_trainers.filtered_bc import FilteredBC


@dataclass(frozen=True, slots=True)
class CloneAll(FilteredBC):
    """Settings."""

    flavour: str = "plain"
    """What it tastes of."""
'''
AGENT = '''
"""An agent of one's own."""

from agentgym_py.agents.base import AgentReply


class Halver:
    """Guesses the same number for ever."""

    def __init__(self, number: int = 32) -> None:
        self.name, self.sampling, self.policy_digest = "halver", {}, None
        self.number = number

    def act(self, episodes):
        return [AgentReply(f"Action: guess[{self.number}]") for _ in episodes]
'''
SMALL = (
    "--preset", "smoke", "--max_new_tokens", "8", "--expert_tasks", "8", "--explore_tasks", "4", "--valid_tasks", "3",
    "--test_tasks", "3", "--env_kwargs.max_steps", "3",
)  # fmt: skip


@pytest.fixture
def sources(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """Writes files whose names no other test has: a process imports a name once."""
    mark = f"{abs(hash(request.node.nodeid)):x}"

    def write(kind: str) -> str:
        text = {"world": EXAMPLE.read_text(), "trainer": TRAINER, "agent": AGENT}[kind]
        text = text.replace("GuessEnv", f"Guess{mark}Env").replace("AgentGuess-v0", f"Own{mark}-v0")
        (tmp_path / f"{kind}_{mark}.py").write_text(text)
        return f"{kind}_{mark}.py"

    return write


def agentgym_process(*argv: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command line in a process of its own, which has imported nothing yet."""
    code = "import sys; from agentgym_py.cli import main; sys.exit(main())"
    env = {key: value for key, value in os.environ.items() if key != registration.SOURCES} | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-c", code, *argv], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )


def test_a_world_in_a_file_is_trained_in_and_resumed_elsewhere(
    agentgym: Run, tmp_path: Path, sources: Any, small_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`evolve` in a process of its own; run.yaml names the whole path, so that any folder and process resumes it."""
    world = sources("world")
    made = agentgym_process("evolve", "--env", world, "--model", small_model, *SMALL, "--threads", "1", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    (run,) = (tmp_path / "runs").iterdir()
    assert yaml.safe_load((run / "run.yaml").read_text())["env"] == [str(tmp_path / world)]
    assert run.name.startswith("own") and run.name.endswith("-filtered_bc-s0")
    (run / "test.json").unlink()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    status, _, err = agentgym("evolve", "--resume", str(run), "--trust", str(tmp_path / world))
    assert status == 0 and (run / "test.json").is_file(), err
    status, _, err = agentgym("report", str(run))
    assert status == 0, err
    (run / "test.json").unlink()
    with (tmp_path / world).open("a") as file:
        file.write("\n# another one\n")
    again = ("evolve", "--resume", str(run), "--trust", str(tmp_path / world))
    status, _, changed = agentgym(*again)
    assert status == 2 and f"began with another {tmp_path / world}: restore the file" in changed
    (tmp_path / world).unlink()
    status, _, gone = agentgym(*again)
    assert status == 2 and f"needs {tmp_path / world}, which is missing" in gone
    assert gone.count("\n") == changed.count("\n") == 1


def test_a_world_in_a_file_is_played_in_processes_and_replayed(tmp_path: Path, sources: Any, small_model: str) -> None:
    """`collect` in two processes; a stored episode names the world's id, and `replay --env FILE` finds it again."""
    world = sources("world")
    argv = ("collect", "--env", f"{world}", "--model", small_model, "--tasks", "40", "--max_new_tokens", "8")
    made = agentgym_process(*argv, "--threads", "2", "--out", "a.jsonl", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    first = json.loads((tmp_path / "a.jsonl").read_text().splitlines()[0])
    assert first["provenance"]["env_id"].startswith("Own")
    unknown = agentgym_process("replay", "a.jsonl", cwd=tmp_path)
    assert unknown.returncode == 1 and "is installed; name its source: --env FILE.py" in unknown.stderr
    found = agentgym_process("replay", "a.jsonl", "--env", world, cwd=tmp_path)
    assert found.returncode == 0 and found.stdout.startswith("40 trajectories: 40 identical"), found.stderr


@pytest.mark.parametrize("settings", ["run.yaml", "manifest.json"])
def test_the_world_of_a_run_is_named_by_the_command(agentgym: Run, episode: Any, tmp_path: Path, settings: str) -> None:
    """A run or evaluation keeps the source's path; only the command line may use it, so the advice is that command."""
    (tmp_path / "my_world.py").touch()
    worlds = {"env": [str(tmp_path / "my_world.py")]}
    folder = tmp_path / "kept" / "rounds" / "01"
    stored = episode("a")
    elsewhere = replace(stored, provenance=replace(stored.provenance, env_id="AgentNowhere-v0"))
    store.write(folder / "valid.jsonl", [elsewhere])
    (tmp_path / "kept" / settings).write_text(json.dumps(worlds if settings == "run.yaml" else {"options": worlds}))
    path = "kept/rounds/01/valid.jsonl"
    status, _, err = agentgym("replay", path)
    assert status == 1 and f"needs its source: agentgym replay {path} --env my_world.py\n" in err
    assert world_advice("view", {"env": []}, "kept") == "agentgym view kept --env my_world.py"
    assert world_advice("view", {"env": ["my_world.py"]}, "kept") == world_advice("view", {"env": []}, ".") == ""


def test_a_run_ends_with_the_command_that_evaluates_its_best_agent(tmp_path: Path, monkeypatch: Any) -> None:
    """With the checkpoint, the worlds and their arguments, so that it can be pasted."""
    monkeypatch.chdir(tmp_path)
    config = {
        "env": ["shop", str(tmp_path / "my_world.py")], "env_kwargs": {"shop": {"difficulty": "hard"}},
        "prompt": "full", "prompt_template": None, "max_context": 2048, "max_new_tokens": 32,
    }  # fmt: skip
    folder = RunFolder.create(Path("runs/mine"), config)
    assert _next_steps(folder, 2) == (
        "best agent: runs/mine/rounds/02/checkpoint\nto evaluate it: agentgym eval --model "
        "runs/mine/rounds/02/checkpoint --env shop,my_world.py --env_kwargs.shop.difficulty hard "
        "--prompt full --max_context 2048 --max_new_tokens 32"
    )


def test_an_evaluation_in_a_file_of_ones_own_is_repeated(agentgym: Run, sources: Any) -> None:
    """The manifest holds the whole path and the file's digest; a changed file is refused."""
    world = sources("world")
    assert agentgym("eval", "--env", world, "--agent", "random", "--tasks", "5", "--out", "a")[0] == 0
    manifest = json.loads(Path("a/manifest.json").read_text())
    assert manifest["options"]["env"] == [str(Path(world).absolute())]
    assert list(manifest["sources"]) == [str(Path(world).absolute())]
    assert agentgym("eval", "--manifest", "a", "--out", "b")[0] == 0
    assert Path("a/trajectories.jsonl").read_bytes() == Path("b/trajectories.jsonl").read_bytes()
    with Path(world).open("a") as file:
        file.write("\n# another one\n")
    status, _, err = agentgym("eval", "--manifest", "a", "--out", "c")
    assert status == 2 and "began with another" in err and err.count("\n") == 1


def test_a_trainer_in_a_file_trains_and_evolves(agentgym: Run, sources: Any, small_model: str) -> None:
    """Its settings are options, and `trainers show` shows them."""
    trainer = sources("trainer")
    words = ("--env", "GUESS", "--model", small_model, "--threads", "1", "--trainer.flavour", "sweet")
    assert agentgym("collect", "--env", "GUESS", "--tasks", "6", "--out", "a.jsonl")[0] == 0
    status, _, err = agentgym("train", "--trainer", trainer, "--data", "a.jsonl", *words[2:], "--out", "x")
    assert status == 0, err
    held = json.loads(Path("x/train.json").read_text())["settings"]["trainer"]
    assert (held["name"], held["flavour"]) == (str(Path(trainer).absolute()), "sweet")
    status, _, err = agentgym("evolve", "--trainer", f"{trainer}:CloneAll", *words, *SMALL)
    assert status == 0, err
    (run,) = Path("runs").iterdir()
    held = yaml.safe_load((run / "run.yaml").read_text())["trainer"]
    assert (held["name"], held["flavour"]) == (f"{Path(trainer).absolute()}:CloneAll", "sweet")
    assert run.name.endswith("-cloneall-s0")
    (run / "test.json").unlink()
    assert agentgym("evolve", "--resume", str(run), "--trust", trainer)[0] == 0 and (run / "test.json").is_file()
    status, out, _ = agentgym("trainers", "show", trainer)
    assert status == 0 and "--trainer.flavour " in out and "What it tastes of." in out
    assert "--trainer.flavour" in agentgym("train", "--trainer", trainer, "--help-all")[1]


def test_an_agent_in_a_file_is_evaluated(agentgym: Run, sources: Any) -> None:
    """With its arguments, and again by its manifest."""
    agent = sources("agent")
    argv = ("eval", "--env", "GUESS", "--agent", f"{agent}:Halver", "--agent_kwargs.number", "7", "--tasks", "4")
    status, out, err = agentgym(*argv, "--out", "a", "--json")
    assert status == 0 and json.loads(out)["agent"] == "halver", err
    assert "guess[7]" in Path("a/trajectories.jsonl").read_text()
    assert agentgym("eval", "--manifest", "a", "--out", "b", "--trust", agent)[0] == 0
    assert Path("a/trajectories.jsonl").read_bytes() == Path("b/trajectories.jsonl").read_bytes()
    assert agentgym("collect", "--env", "GUESS", "--agent", agent, "--tasks", "2", "--out", "c.jsonl")[0] == 0
    status, _, err = agentgym(*argv[:4], agent, "--agent_kwargs.nmber", "7")
    assert status == 2 and "Did you mean 'number'?" in err


def test_a_module_of_ones_own_is_found_in_this_folder(agentgym: Run, sources: Any) -> None:
    """`module:Class`, as in Python."""
    module = sources("world").removesuffix(".py")
    (name,) = re.findall(r"^class (\w+Env)\(", Path(f"{module}.py").read_text(), re.MULTILINE)
    source = f"{module}:{name}"
    assert agentgym("eval", "--env", source, "--agent", "expert", "--tasks", "2")[0] == 0
    assert agentgym("envs", "show", source)[0] == 0


def test_a_pipeline_takes_them_too(agentgym: Run, sources: Any, small_model: str) -> None:
    """In its file, as on the command line."""
    world, trainer = sources("world"), sources("trainer")
    stages = [
        {"stage": "collect", "agent": "expert", "tasks": 6},
        {"stage": "sft", "trainer": trainer, "model": small_model, "threads": 1},
        {"stage": "evaluate", "tasks": 2, "threads": 1, "max_new_tokens": 8},
    ]
    Path("p.yaml").write_text(yaml.safe_dump({"out": "made", "defaults": {"env": world}, "stages": stages}))
    status, _, err = agentgym("pipeline", "p.yaml", "--trust", world, "--trust", trainer)
    assert status == 0, err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["eval", "--env", "nowhere.py", "--agent", "expert"], "nowhere.py: no such file"),
        (["eval", "--env", "broken_own.py", "--agent", "expert"], "broken_own.py does not load: SyntaxError"),
        (
            ["evolve", "--trainer", "empty_own.py"],
            "empty_own.py defines no trainer: a trainer is a dataclass",
        ),
        (["train", "--trainer", "nowhere.py:T", "--help"], "nowhere.py: no such file"),
        (
            ["eval", "--env", "GUESS", "--agent", "empty_own.py:A"],
            "empty_own.py defines no agent: an agent is",
        ),
        (
            ["serve", "--env", "empty_own.py"],
            "empty_own.py defines no environment: an environment is",
        ),
        (["replay", "a.jsonl", "--env", "nowhere.py"], "nowhere.py: no such file"),
        (["view", "a.jsonl", "--env", "nowhere.py"], "nowhere.py: no such file"),
        (["trainers", "show", "two_own.py"], "two_own.py defines 2 trainers: name one as two_own.py:Class."),
        (["trainers", "show", "two_own.py:Tow"], "two_own.py has no trainer 'Tow'. Did you mean 'Two'?"),
    ],
)
def test_what_is_wrong_with_a_source_is_one_line(agentgym: Run, argv: list[str], said: str) -> None:
    """And exit status 2."""
    Path("broken_own.py").write_text("def\n")
    Path("empty_own.py").touch()
    Path("two_own.py").write_text(
        TRAINER + "\n\n@dataclass(frozen=True, slots=True)\nclass Two(FilteredBC):\n    pass\n"
    )
    Path("a.jsonl").touch()
    status, out, err = agentgym(*argv)
    assert (status, out, err.count("\n")) == (2, "", 1) and said in err, err


def test_python_takes_a_source_as_a_name(tmp_path: Path, sources: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`EnvSpec("mine.py")`, and a trainer's class by `registry.load`."""
    monkeypatch.chdir(tmp_path)
    world, trainer = sources("world"), sources("trainer")
    env = EnvSpec(world).make()
    env.reset(seed=0)
    assert env.name and registration.source_of(registration.env_id(world)) == str(tmp_path / world)
    assert registry.load("agentgym.trainers", trainer).__name__ == "CloneAll"
    with pytest.raises(UnknownNameError, match="no such file"):
        EnvSpec("nowhere.py").make()
