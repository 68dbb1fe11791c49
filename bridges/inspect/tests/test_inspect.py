"""agentgym_inspect against the real Inspect."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from agentgym_inspect import agentgym
from checks import FAILURE, fail, note_closed, note_starts
from inspect_ai._cli.util import parse_cli_args
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.log import read_eval_log
from inspect_ai.model._call_tools import parse_tool_call
from scripted import SHOP, TODO, WORLDS, World, only_return, plays_as_directly, scripts
from through import play, read, run

from agentgym_py.evaluation.foreign import load
from agentgym_py.trajectory.types import BY_TOOLS


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_inspect_plays_as_one_plays_directly(world: World) -> None:
    """50 tasks, by tool calls or in text."""
    plays_as_directly(world, play, visible=only_return)


def test_every_epoch_starts_in_the_same_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the state that the task has in a direct episode, to the byte."""
    played, starts = scripts(SHOP, 5), note_starts(monkeypatch)
    run(SHOP, played, epochs=3)
    assert starts == {script.episode.task: [script.start] * 3 for script in played}


def test_an_infrastructure_failure_has_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sample has an error, and success is the mean of the others."""
    played = scripts(SHOP, 5)
    fail(monkeypatch, step=played[0].episode.task)
    assert run(SHOP, played).status == "error", "as after any error of a sample"
    log = run(SHOP, played, fail_on_error=False)
    assert log.status == "success" and log.samples and log.results
    lost, *others = sorted(log.samples, key=lambda sample: sample.id != played[0].episode.task)
    assert lost.error is not None and FAILURE in lost.error.message and not lost.scores
    assert len(others) == 4 and not any(sample.error for sample in others)
    success = next(score for score in log.results.scores if score.name == "success")
    assert success.metrics["mean"].value == sum(script.episode.success for script in played[1:]) / 4 == 0.5
    assert success.scored_samples == 4
    scored = run(SHOP, played, fail_on_error=False, score_on_error=True)
    assert scored.samples and sum(bool(sample.scores) for sample in scored.samples) == 4, "Inspect asks the scorer"


def test_a_failing_endpoint_has_no_score() -> None:
    """Although Inspect asks the scorer: the sample has an error, and success is the mean of the others."""
    played = scripts(SHOP, 5)
    first, *others = played
    object.__setattr__(first, "calls", (first.calls[0], RuntimeError("503: overloaded")))
    log = run(SHOP, played, fail_on_error=False, score_on_error=True)
    assert log.samples and log.results
    (lost,) = (sample for sample in log.samples if sample.id == first.episode.task)
    assert lost.error is not None and "no outcome" in lost.error.message and not lost.scores
    success = next(score for score in log.results.scores if score.name == "success")
    assert success.scored_samples == 4
    assert success.metrics["mean"].value == sum(script.episode.success for script in others) / 4


def test_a_world_that_hangs_has_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    """A time limit within its call ends the sample, and does not close the world during the call."""
    played, closed = scripts(SHOP, 2), note_closed(monkeypatch)
    release = fail(monkeypatch, hang=played[0].episode.task)
    try:
        log = run(SHOP, played, fail_on_error=False, time_limit=10)
        assert closed == [played[1].episode.task]
    finally:
        release.set()
    assert log.samples is not None
    lost, whole = sorted(log.samples, key=lambda sample: sample.id != played[0].episode.task)
    assert lost.error is not None and "no outcome" in lost.error.message and not lost.scores
    assert read(whole, SHOP) == only_return(played[1].episode)


def test_a_call_with_broken_json_is_one_invalid_step() -> None:
    """Although Inspect makes it a call without arguments, which `list_tasks` accepts."""
    played = scripts(TODO, 1)
    broken = parse_tool_call("1", "list_tasks", '{"broken": ')
    object.__setattr__(played[0], "calls", [("list_tasks", {}), broken])
    (sample,) = run(TODO, played).samples or ()
    whole, error = [message.text for message in sample.messages if message.role == "tool"]
    assert broken.parse_error and "list_tasks" in error and "JSON" in error and error != whole
    assert (sample.scores or {})["outcome"].metadata == {"steps": 2, "stop_reason": "gave_up"}


def test_a_limit_of_inspect_gives_up() -> None:
    """What was gained until then counts."""
    played = scripts(SHOP, 3)
    log = run(SHOP, played, message_limit=4)
    for sample in log.samples or ():
        score = (sample.scores or {})["outcome"]
        assert score.metadata is not None and score.metadata["stop_reason"] == "gave_up"
        assert score.value == {"success": 0.0, "return": 0.0} and 1 <= score.metadata["steps"] <= 2


def test_logs_are_compared_by_sample(tmp_path: Path) -> None:
    """`agentgym compare` reads success and prints the paired statistics of two logs."""
    played = scripts(SHOP, 20)
    one = run(SHOP, played, log_dir=str(tmp_path / "one"))
    worse = [script for script in played if script.episode.success][:3]
    for script in worse:
        object.__setattr__(script, "calls", script.calls[:1])
    other = run(SHOP, played, log_dir=str(tmp_path / "other"))
    paths = [log.location.removeprefix("file://") for log in (one, other)]
    outcomes = load(paths[0], "outcome/success").outcomes
    assert {key[2]: value for key, value in outcomes.items()} == {
        script.episode.task: [script.episode.success] for script in played
    }
    words = [sys.executable, "-m", "agentgym_py", "compare", *paths, "--score", "outcome/success"]
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert re.search(r"[-+−]?15\.0", shown) and "20 tasks" in shown, shown


def test_wrong_arguments_are_errors_at_once() -> None:
    """Before the first sample; of an error of this kind Inspect prints the message alone."""
    with pytest.raises(PrerequisiteError, match="shop"):
        agentgym(env="shopp")
    with pytest.raises(PrerequisiteError, match="test"):
        agentgym(split="tset")
    with pytest.raises(PrerequisiteError, match="tasks is empty"):
        agentgym(tasks=0)
    with pytest.raises(PrerequisiteError, match="tasks must be"):
        agentgym(tasks=["0", "five"])
    with pytest.raises(PrerequisiteError, match="no argument 'split_'"):
        agentgym(split_="test")


def test_a_wrong_argument_is_a_message_on_the_command_line() -> None:
    """Without a traceback, whatever its kind; brackets in it are kept."""
    wrong = {
        "wrong_name=1": "no argument 'wrong_name'", "env=[x]": "not ['x']", "env=shopp": "'shopp' is installed",
        "env_kwargs=abc": "env_kwargs must be", "tools=maybe": "tools must be true or false", "seed=x": "seed must be",
        "seed=-1": "seed must be",
    }  # fmt: skip
    main = "import sys; from inspect_ai._cli.main import main; sys.argv[0] = 'inspect'; main()"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # the installed package
    for argument, message in wrong.items():
        words = ["eval", "agentgym_inspect/agentgym", "--model", "mockllm/model", "-T", argument]
        command = [sys.executable, "-c", main, *words]
        shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert message in " ".join(shown.stdout.split()) and "Traceback" not in shown.stdout + shown.stderr, argument
        assert shown.returncode


@pytest.mark.parametrize("tools", [True, False])
def test_the_rules_say_that_calls_replace_the_text(tools: bool) -> None:
    """Only if the model is offered tools."""
    (sample,) = agentgym(tasks=1, tools=tools).dataset
    assert str(sample.input).count(BY_TOOLS) == tools


def test_a_list_of_tasks_may_be_that_of_inspects_command_line() -> None:
    """`-T tasks=0,5` gives texts."""
    tasks = parse_cli_args(["tasks=0,5"])["tasks"]
    assert tasks == ["0", "5"]
    assert [sample.id for sample in agentgym(tasks=tasks).dataset] == [f"shop/test/medium/{n}" for n in (0, 5)]


def test_the_example_of_the_guide_runs(tmp_path: Path) -> None:
    """Its two episodes end by the limit of their world."""
    guide = (Path(__file__).resolve().parents[3] / "docs" / "guides" / "bridges.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(from agentgym_inspect import .*?)^```", guide, re.M | re.S)
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=True)
    (path,) = (tmp_path / "logs").glob("*.eval")
    log = read_eval_log(str(path))
    assert log.status == "success" and len(log.samples or ()) == 2
    for sample in log.samples or ():
        answers = [message.text for message in sample.messages if message.role == "tool"]
        assert (sample.scores or {})["outcome"].metadata == {"steps": len(answers), "stop_reason": "truncated"}
        assert len(answers) > 2 and answers[1] == answers[3] != answers[2]
