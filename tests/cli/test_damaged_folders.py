"""Runs and checkpoints of other shapes: one line, no traceback."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentgym_py.cli import print_error
from agentgym_py.errors import PolicyError, RunError
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.policy.loading import adapter_base
from agentgym_py.trajectory import store

Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("command", [["report", "run"], ["export", "run", "--out", "x"]])
@pytest.mark.parametrize(
    ("settings", "metrics"),
    [
        ("rounds: 1", "{}"), ("rounds: 1", "[]"), ("rounds: 1", '{"round": 0, "valid": 3}'), ("rounds: x", "{}"),
        ("env: 5", "{}"), ("rounds: 1e400", '{"round": []}'), ("trainer: [1]", "{}"), ("[]", "{}"),
    ],
)  # fmt: skip
def test_a_damaged_run_is_one_line(agentgym: Run, command: list[str], settings: str, metrics: str) -> None:
    """Whatever its files hold."""
    Path("run/rounds/00").mkdir(parents=True)
    Path("run/run.yaml").write_text(settings)
    Path("run/rounds/00/metrics.json").write_text(metrics)
    status, out, err = agentgym(*command)
    assert (status, out, err.count("\n")) == (2, "", 1), err


@pytest.mark.parametrize(
    "state",
    [
        {"stages": [{"name": "collect", "settings": "x"}], "done": {}}, {"stages": [{"name": []}], "done": {}},
        {"stages": [], "done": {}, "begun": {"01-collect": 5}}, {"stages": [], "done": {}, "begun": [1]},
        {"stages": {}, "done": {}}, {"stages": [], "done": []},
    ],
    ids=str,
)  # fmt: skip
def test_a_damaged_pipeline_is_one_line(agentgym: Run, state: dict[str, Any]) -> None:
    """Whatever its state file holds."""
    Path("p.yaml").write_text("out: pipe\nstages: [{stage: collect, agent: random, env: maze, tasks: 1}]\n")
    Path("pipe").mkdir()
    Path("pipe/pipeline.json").write_text(json.dumps(state))
    for words in ((), ("--list",)):
        status, out, err = agentgym("pipeline", "p.yaml", *words)
        assert (status, out, err.count("\n")) == (2, "", 1) and "pipeline.json is damaged" in err, err


def test_folders_that_are_no_rounds_are_none(tmp_path: Path) -> None:
    """A digit that is no number, and a number that is written otherwise."""
    for name in ("00", "²", "٣", "7", "9" * 200):
        (tmp_path / "rounds" / name).mkdir(parents=True)
        (tmp_path / "rounds" / name / "metrics.json").write_text("{}")
    assert RunFolder(tmp_path).finished_rounds() == [0, int("9" * 200)]


@pytest.mark.parametrize("command", [["collect", "--config"], ["pipeline"]])
def test_a_pipe_or_device_in_place_of_a_file_is_one_line(agentgym: Run, command: list[str]) -> None:
    """It is not opened, so the command neither waits nor fills the memory."""
    os.mkfifo("pipe.yaml")
    Path("zero.yaml").symlink_to("/dev/zero")
    for name in ("pipe.yaml", "zero.yaml"):
        status, out, err = agentgym(*command, name)
        assert (status, out, err.count("\n")) == (2, "", 1) and "it is no ordinary file" in err, err


READING = [
    "data verify X", "data salvage X out.jsonl", "data convert X out.json", "replay X", "faults X", "compare X X",
    "view X --export x.html", "judge --data X --source environment --out out.jsonl", "report X", "export X --out out",
    "train --data X --model tiny-random --out out",
    "train --data good.jsonl --feedback X --model tiny-random --out out",
    "eval --manifest X --out out", "eval --config X", "eval --until_decided X --env maze --out out",
    "evolve --resume X", "evolve --config X", "eval --model X --env maze --tasks 1", "plan --model X", "fork X@0",
    "tools search word --index X",
]  # fmt: skip
"""Commands that read a file or folder X."""


@pytest.mark.skipif(os.name != "posix", reason="pipes and devices of POSIX")
@pytest.mark.parametrize("name", ["pipe.jsonl", "folder"])
@pytest.mark.parametrize("command", READING)
def test_no_command_waits_for_a_pipe(agentgym: Run, command: str, name: str, episode: Callable[..., Any]) -> None:
    """Neither for one that is named, nor for one in a folder that is named."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it waits"))
    signal.alarm(100)
    try:
        os.mkfifo("pipe.jsonl")
        store.write("good.jsonl", [episode("a")])
        Path("folder").mkdir()
        for file in ("a.jsonl", "run.yaml", "manifest.json", "config.json", "adapter_config.json", "index.json"):
            os.mkfifo(f"folder/{file}")
        status, _, err = agentgym(*command.replace("X", name).split())
    finally:
        signal.alarm(0)
    assert status == 2 and err.count("\n") == 1, err
    assert not Path("out").exists() and not Path("out.jsonl").exists()


@pytest.mark.parametrize("number", ["9" * 5000, "-" + "9" * 30, "²", "maze/train/medium/" + "9" * 5000])
@pytest.mark.parametrize("command", [["play", "maze"], ["mcp", "--env", "maze"]], ids=lambda words: words[0])
def test_an_absurd_task_is_one_short_line(agentgym: Run, command: list[str], number: str) -> None:
    """Also as a number that Python does not read."""
    if command[0] == "mcp":
        pytest.importorskip("mcp")
    status, out, err = agentgym(*command, "--task", number)
    assert (status, out, err.count("\n")) == (2, "", 1) and len(err) < 600, err


def test_a_message_has_no_endless_word(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever chose it; the rest of the message is as it was."""
    assert print_error(RunError(f"before {'x' * 5000}y after")) == 2
    said = capsys.readouterr().err
    assert said.startswith("agentgym: before xxx") and said.endswith("xxxy after\n") and len(said) < 400


def test_a_message_has_no_endless_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Such as the words of a server."""
    assert print_error(RunError("no world: " + "word " * 100_000 + "end")) == 2
    said = capsys.readouterr().err
    assert said.startswith("agentgym: no world: word") and said.endswith("word end\n") and len(said) < 10_000


@pytest.mark.parametrize("text", ["[]", "{", "{}", '{"base_model_name_or_path": 5}', "[" * 100_000, "1" * 5000])
def test_damaged_adapters_are_one_line(text: str, tmp_path: Path) -> None:
    """Nothing is loaded."""
    (tmp_path / "adapter_config.json").write_text(text)
    with pytest.raises(PolicyError):
        adapter_base(str(tmp_path))
