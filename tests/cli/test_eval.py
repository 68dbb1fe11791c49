"""`agentgym eval` and `agentgym compare`: folders, manifests, repetition."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import fastapi.responses
import pytest

from agentgym_envs.calculator.env import CalculatorEnv
from agentgym_envs.todo.env import TodoEnv
from agentgym_py.collection import Collector
from agentgym_py.env import TextEnv
from agentgym_py.evaluation.folder import read_manifest
from agentgym_py.policy import Policy
from agentgym_py.testing.model_server import ModelServer, serving
from agentgym_py.trajectory import Trajectory, store

Run = Callable[..., tuple[int, str, str]]
SMALL = ("eval", "--env", "calculator", "--env_kwargs.difficulty", "easy", "--tasks", "4", "--attempts", "2")


def rows(folder: str) -> bytes:
    """The episodes' file."""
    return (Path(folder) / "trajectories.jsonl").read_bytes()


def test_an_evaluation_is_repeated_from_its_manifest(agentgym: Run) -> None:
    """Row by row, with its result; what it was asked stands there."""
    assert agentgym(*SMALL, "--agent", "random", "--seed", "5", "--out", "a")[0] == 0
    manifest = json.loads(Path("a/manifest.json").read_text())
    assert manifest["attempts"] == 2 and manifest["seed"] == 5 and len(manifest["worlds"][0]["tasks"]) == 4
    assert manifest["packages"]["numpy"] and manifest["threads"] is None and "commit" in manifest
    status, _, err = agentgym("eval", "--manifest", "a/manifest.json", "--out", "b")
    assert status == 0, err
    assert rows("a") == rows("b") and len(list(store.read("b/trajectories.jsonl"))) == 8
    a, b = (json.loads(Path(each, "result.json").read_text()) for each in "ab")
    assert (
        a == b
        and a["rows"] == hashlib.sha256(rows("a")).hexdigest()
        and set(a["pass_at"]) == {"1", "2"}
        and a["experts"]["timing"]["n"] == 4
    )
    assert sum(each["count"] for each in a["failures"].values()) == 8 * (1 - a["success"]["value"])


def test_an_evaluation_may_begin_at_a_later_task(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same episodes as among the others; it is resumed and repeated, and not compared with other tasks."""
    argv = ("eval", "--env", "calculator", "--agent", "random", "--tasks")
    assert agentgym(*argv, "5", "--out", "all")[0] == 0
    assert agentgym(*argv, "2", "--first", "3", "--out", "late")[0] == 0
    assert rows("late").splitlines() == rows("all").splitlines()[3:]
    assert agentgym("eval", "--manifest", "late", "--out", "again")[0] == 0 and rows("again") == rows("late")
    Path("late/result.json").unlink()
    Path("late/trajectories.jsonl").write_bytes(rows("late").splitlines(keepends=True)[0])
    assert "first: 3, and not given in the other" in agentgym(*argv, "2", "--out", "late")[2]
    assert agentgym(*argv, "2", "--first", "3", "--out", "late")[0] == 0 and rows("again") == rows("late")
    assert agentgym("compare", "late", "again")[0] == 0
    status, _, err = agentgym("compare", "late", "all")
    begins = "calculator/test/medium/3 and calculator/test/medium/0"
    assert (
        status == 2 and f"tasks: 2 in both, of 2 and 5, which begin with {begins}" in err and "first_state" not in err
    )
    assert "evaluate both" not in err


def test_a_model_replies_as_long_as_in_evolve(agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several worlds the longest counts; a repetition keeps the length that was played, if a default has changed."""
    argv = ("--env", "calculator,todo", "--model", small_model, "--tasks", "1", "--env_kwargs.max_steps", "1")
    assert agentgym("eval", *argv, "--threads", "1", "--out", "a")[0] == 0
    monkeypatch.setattr(TodoEnv, "evolve_defaults", {"max_new_tokens": 5})
    monkeypatch.setattr(CalculatorEnv, "evolve_defaults", {})
    assert agentgym("eval", "--manifest", "a", "--out", "b")[0] == 0 and rows("a") == rows("b")
    assert agentgym("eval", *argv, "--threads", "1", "--out", "c")[0] == 0
    lengths = [read_manifest(Path(each))["agent"]["sampling"]["max_new_tokens"] for each in "abc"]
    assert lengths == [128, 128, 64]


def test_a_model_is_repeated_from_its_manifest(agentgym: Run, small_model: str) -> None:
    """Sampled replies too, to the byte; other weights under the same name are refused."""
    argv = ("--env", "GUESS", "--model", small_model, "--tasks", "3", "--env_kwargs.max_steps", "2",
            "--max_new_tokens", "6", "--temperature", "1", "--attempts", "2", "--threads", "1")  # fmt: skip
    assert agentgym("eval", *argv, "--out", "a")[0] == 0
    assert json.loads(Path("a/manifest.json").read_text())["threads"] == 1
    assert agentgym("eval", "--manifest", "a/manifest.json", "--out", "b")[0] == 0 and rows("a") == rows("b")
    held = json.loads(Path("a/manifest.json").read_text())
    held["agent"]["policy_digest"] = "0" * 64
    Path("m.json").write_text(json.dumps(held))
    status, _, err = agentgym("eval", "--manifest", "m.json")
    assert status == 2 and "m.json cannot be repeated" in err and "agent's policy_digest: 000" in err
    held = json.loads(Path("a/manifest.json").read_text())
    held["packages"]["numpy"] = "0.1"
    Path("m.json").write_text(json.dumps(held))
    status, out, err = agentgym("eval", "--manifest", "m.json")
    assert status == 0 and "the rows may differ" in err and "packages's numpy: 0.1, not" in err
    assert ", sampled at temperature 1, replies of at most 6 tokens, test split" in out
    assert "tokens sampled per episode, " in out and "% of replies cut" in out
    assert "of the replies were cut at max_new_tokens 6: set a larger one, as --max_new_tokens 12" in err


def test_a_model_is_its_weights_wherever_they_lie(
    agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a relative path, from another folder, moved and shared: the repetition has the same rows, under one name."""
    Path("here").mkdir()
    shutil.copytree(small_model, "here/model")
    argv = ("--env", "GUESS", "--model", "here/model", "--tasks", "3", "--env_kwargs.max_steps", "2",
            "--max_new_tokens", "6", "--temperature", "1", "--threads", "1")  # fmt: skip
    assert agentgym("eval", *argv, "--out", "a")[0] == 0
    status, _, err = agentgym("eval", "--manifest", "a/manifest.json", "--out", "b")
    assert status == 0 and rows("a") == rows("b"), err
    monkeypatch.chdir("here")
    status, _, err = agentgym("eval", "--manifest", "../a", "--out", "c")  # its folder is named as well as its file
    assert status == 0 and rows("../a") == rows("c"), err
    shutil.move("model", "moved")
    status, _, err = agentgym("eval", "--manifest", "../a/manifest.json", "--out", "d")
    assert status == 2 and "if the model has moved, give its new place: --model FOLDER" in err
    status, _, err = agentgym("eval", "--manifest", "../a", "--model", "moved", "--out", "d")
    assert status == 0 and rows("../a") == rows("d"), err
    assert json.loads(Path("d/manifest.json").read_text())["agent"]["name"] == "here/model"
    status, _, err = agentgym("eval", "--manifest", ".")
    assert status == 2 and "manifest.json cannot be read" in err and err.count("\n") == 1


def test_an_interrupted_evaluation_of_a_moved_model_goes_on(
    agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of its rows carry one name; other weights are refused."""
    whole = Collector.iter_ordered

    def interrupted(self: Collector, jobs: Any) -> Any:
        yield from islice(whole(self, jobs), 2)
        raise KeyboardInterrupt

    shutil.copytree(small_model, "one")
    argv = ("eval", "--env", "GUESS", "--tasks", "4", "--env_kwargs.max_steps", "2", "--max_new_tokens", "6",
            "--threads", "1", "--out", "a", "--model")  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr(Collector, "iter_ordered", interrupted)
        assert agentgym(*argv, "one")[0] == 130
    status, _, err = agentgym(*argv, "tiny-random")
    said = "a holds another evaluation: agent's name: one, not tiny-random; agent's policy_digest"
    assert status == 2 and said in err
    shutil.move("one", "two")
    status, _, err = agentgym(*argv, "two")
    assert status == 0, err
    assert [each.provenance.agent for each in store.read("a/trajectories.jsonl")] == ["one"] * 4


@pytest.mark.parametrize("first", ["random", "model", "openai"])
def test_another_model_plays_the_tasks_of_a_manifest(agentgym: Run, small_model: str, first: str) -> None:
    """With the same settings; its folder has a manifest of its own, which can be repeated, and the two compared."""
    argv = ("eval", "--env", "GUESS", "--tasks", "3", "--env_kwargs.max_steps", "2", "--seed", "3", "--attempts", "2",
            "--prompt", "full", "--max_new_tokens", "6", "--out", "a")  # fmt: skip
    with serving(ModelServer(Policy.load(small_model), chat_reply=lambda body: "Action: guess[5]")) as server:
        who = {
            "random": ("--agent", "random"), "model": ("--model", "tiny-random", "--threads", "1"),
            "openai": ("--agent", "openai", "--model", "x", "--base_url", server.url),
        }[first]  # fmt: skip
        assert agentgym(*argv, *who)[0] == 0
        other = "y" if first == "openai" else small_model
        status, _, err = agentgym("eval", "--manifest", "a", "--model", other, "--threads", "1", "--out", "b")
    assert status == 0 and all("replies were cut" in line for line in err.splitlines()), err
    one, two = (read_manifest(Path(each)) for each in "ab")
    same = ("worlds", "split", "prompt", "seed", "attempts")
    assert [one[key] for key in same] == [two[key] for key in same]
    assert two["agent"]["name"] == other and two["options"]["model"] == other
    assert two["options"]["max_new_tokens"] == 6
    assert agentgym("compare", "a", "b")[0] == 0
    if first != "openai":
        assert agentgym("eval", "--manifest", "b", "--out", "c")[0] == 0 and rows("b") == rows("c")


def test_a_world_that_fails_is_told_in_a_line_and_left_out(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the most frequent reason, by eval and by collect; it is no failure of the agent."""
    step = TextEnv.step

    def breaks(self: TextEnv, action: str) -> Any:
        if self.current_task is not None and self.current_task.id.endswith(("/1", "/2")):
            raise OSError(f"no disk [for] {self.current_task.id[-1:] == '1' and 'this'}")
        return step(self, action)

    monkeypatch.setattr(TextEnv, "step", breaks)
    small = ("--env", "calculator", "--tasks", "4", "--agent", "expert")
    said = "2 episodes ended by an infrastructure failure and left out; 1 of them: OSError('no disk [for] this')"
    status, out, _ = agentgym("eval", *small)
    assert status == 0 and said in out and "2 infrastructure errors, success 100.0 %" in out
    assert agentgym("eval", *small, "--out", "a")[0] == 0
    advice = "; choose another --out, or remove its result.json to play the 2 lost episodes again\n"
    assert advice in agentgym("eval", *small, "--out", "a")[2]
    status, _, err = agentgym("collect", *small, "--split", "test", "--out", "c.jsonl")
    assert status == 0 and said in err
    assert [each.error is None for each in store.read("c.jsonl")] == [True, False, False, True]
    assert "OSError('no disk [for] this') (test_eval.py, line " in str(next(islice(store.read("c.jsonl"), 1, 2)).error)
    monkeypatch.setattr(TextEnv, "step", lambda self, _: 1 / 0)
    assert agentgym("eval", *small)[0] == agentgym("collect", *small, "--out", "d.jsonl")[0] == 1, "no evidence at all"


def interrupted_after(number: int, episodes: Iterable[Trajectory]) -> Iterator[Trajectory]:
    """Yield some episodes, then Ctrl-C comes."""
    yield from islice(episodes, number)
    raise KeyboardInterrupt


def test_lost_episodes_are_played_again(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """In their places, after the result is removed as it is said; a stop in between keeps those that ended."""
    step = TextEnv.step

    def breaks(self: TextEnv, action: str) -> Any:
        if self.current_task is not None and self.current_task.id.endswith(("/0", "/2", "/3")):
            raise OSError("no disk")
        return step(self, action)

    small = ("eval", "--env", "calculator", "--tasks", "5", "--agent", "expert")
    assert agentgym(*small, "--out", "whole")[0] == 0
    with monkeypatch.context() as broken:
        broken.setattr(TextEnv, "step", breaks)
        assert agentgym(*small, "--out", "a")[0] == 0
    Path("a/result.json").unlink()
    with monkeypatch.context() as meanwhile:
        whole = Collector.iter_ordered
        meanwhile.setattr(Collector, "iter_ordered", lambda self, jobs: interrupted_after(2, whole(self, jobs)))
        assert agentgym(*small, "--out", "a")[0] == 130
    assert [each.is_evidence for each in store.read("a/trajectories.jsonl")] == [False, True, False, False, True]
    assert len(list(store.read(next(Path("a").glob("again-*"))))) == 2
    status, out, err = agentgym(*small, "--out", "a")
    assert status == 0 and "success 100.0 %" in out, err
    assert rows("a") == rows("whole") and not list(Path("a").glob("again-*"))


def test_with_a_step_timeout_worlds_run_in_another_process(agentgym: Run) -> None:
    """The same rows; a time that cannot be is refused, and a person, who sits at this process's terminal."""
    assert agentgym(*SMALL, "--agent", "random", "--out", "a")[0] == 0
    status, _, err = agentgym(*SMALL, "--agent", "random", "--out", "b", "--step_timeout", "60")
    assert status == 0 and rows("a") == rows("b"), err
    status, _, err = agentgym(*SMALL, "--agent", "random", "--step_timeout", "0")
    assert status == 2 and "--step_timeout must be a number of seconds above 0" in err
    for option in ("--step_timeout", "--ray"):
        status, _, err = agentgym(*SMALL, "--agent", "person", option, "1")
        assert status == 2 and "--agent person cannot be used with" in err


def test_only_evidence_is_said_to_be_kept(agentgym: Run, small_model: str) -> None:
    """Episodes that an endpoint ended are none; where there is no other, nothing is kept."""
    argv = ("eval", "--env", "GUESS", "--tasks", "20", "--agent", "openai", "--model", "m", "--slots", "1",
            "--agent_kwargs.retries", "0", "--agent_kwargs.concurrency", "1", "--out", "a")  # fmt: skip
    refuses = fastapi.responses.JSONResponse({"error": {"message": "no such field"}}, 400)
    with serving(ModelServer(Policy.load(small_model), chat_reply=lambda body: "Action: guess[5]")) as server:
        server.script = [refuses] * 50
        status, _, err = agentgym(*argv, "--base_url", server.url)
        assert status == 2 and "a: no episodes are kept; start again\n" in err, err
        assert "refused a request: 400" in err and "gave no answer" not in err and not Path("a/manifest.json").exists()
        server.script = [None] * 12 + [refuses] * 50
        status, _, err = agentgym(*argv, "--base_url", server.url, "--env_kwargs.max_steps", "4")
    good = sum(each.error is None for each in store.read("a/trajectories.jsonl"))
    assert status == 2 and good and f"a: {good} episode" in err and "ended by an infrastructure failure" in err, err
    assert "the same command resumes from there" in err


@pytest.mark.parametrize("after", [0, 3])
def test_an_interrupted_evaluation_goes_on(agentgym: Run, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """With the same command, to the same rows; one that had no episode yet leaves nothing."""
    whole = Collector.iter_ordered

    def interrupted(self: Collector, jobs: Any) -> Any:
        for number, trajectory in enumerate(whole(self, jobs)):
            if number == after:
                raise KeyboardInterrupt
            yield trajectory

    argv = (*SMALL, "--agent", "random", "--out", "a")
    with monkeypatch.context() as patch:
        patch.setattr(Collector, "iter_ordered", interrupted)
        status, _, err = agentgym(*argv)
    assert status == 130 and ("3 episodes are kept; the same command resumes" in err) == (after == 3)
    assert Path("a/manifest.json").is_file() == (after == 3)
    if after:
        status, _, err = agentgym("compare", "a", "a")
        assert status == 2 and "a holds no finished evaluation: it has no result.json" in err
        status, _, err = agentgym(*argv, "--seed", "9")
        assert status == 2 and "a holds another evaluation: seed: 0, not 9" in err
    assert agentgym(*argv)[0] == 0 and agentgym(*argv[:-1], "b")[0] == 0 and rows("a") == rows("b")
    status, _, err = agentgym(*argv)
    assert status == 2 and err == "agentgym: a already holds a finished evaluation; choose another --out\n"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--manifest", "no.json"), "no.json cannot be read"),
        (("--manifest", "m.json", "--tasks", "3"), "--tasks cannot be combined with --manifest"),
        (("--manifest", "m.json"), "m.json is not a manifest of an evaluation: it has no 'worlds'"),
        (("--agent", "expert", "--samples", "3"), "--samples: no such option; did you mean --attempts?"),
        (("--agent", "expert", "--attempts", "0"), "--attempts must be a number of at least 1, got 0"),
    ],
)
def test_mistakes_are_one_line(agentgym: Run, argv: tuple[str, ...], said: str) -> None:
    """And exit status 2."""
    Path("m.json").write_text("{}")
    status, _, err = agentgym("eval", *argv)
    assert status == 2 and said in err and err.count("\n") == 1


def test_a_gate_fails_by_its_exit_status(agentgym: Run) -> None:
    """After the tables: a success rate below the one that is wanted, and an agent that is worse than another."""
    argv = ("eval", "--env", "calculator", "--env_kwargs.difficulty", "easy", "--tasks", "12", "--fail_below")
    status, out, err = agentgym(*argv, "1", "--agent", "random", "--out", "random")
    assert status == 1 and "success [95 %]" in out
    assert "the success rate is below --fail_below 1.0: 0.0 %" in err and Path("random/result.json").exists()
    assert agentgym(*argv, "1", "--agent", "expert", "--out", "expert")[0] == 0
    assert agentgym("eval", "--manifest", "random")[0] == 0
    status, out, _ = agentgym("eval", "--manifest", "random", "--fail_below", "0.5", "--json")
    assert status == 1 and json.loads(out)["success"]["value"] == 0
    assert agentgym(*argv, "80", "--agent", "expert")[2].endswith("must be above 0 and at most 1, got 80.0\n")
    for more in ((), ("--anytime",), ("--json",)):
        gate = ("--fail_if_worse", *more)
        status, out, err = agentgym("compare", "random", "expert", *gate)
        assert status == 1 and out and err.endswith("the first is significantly worse than expert\n")
        assert agentgym("compare", "expert", "random", *gate)[0] == 0
        assert agentgym("compare", "random", "expert", *more)[0] == 0
    status, _, err = agentgym("compare", "random,expert", "expert", "--fail_if_worse")
    assert status == 2 and "--fail_if_worse compares evaluations, not training algorithms" in err


def test_a_gate_fails_by_lost_episodes(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """However good the others are: by --fail_below, and in a comparison with whichever evaluation has lost them."""
    argv = ("eval", "--env", "calculator", "--env_kwargs.difficulty", "easy", "--tasks", "12")
    assert agentgym(*argv, "--agent", "expert", "--out", "whole")[0] == 0
    step = TextEnv.step

    def breaks(self: TextEnv, action: str) -> Any:
        if self.current_task is not None and self.current_task.id.endswith(("/2", "/3", "/11")):
            raise OSError("no disk")
        return step(self, action)

    monkeypatch.setattr(TextEnv, "step", breaks)
    status, out, err = agentgym(*argv, "--agent", "expert", "--out", "lost", "--fail_below", "0.9")
    lost = json.loads(Path("lost/result.json").read_text())
    assert status == 1 and lost["errors"] == 3 and lost["success"]["value"] == 1 and "success [95 %]" in out
    said = "infrastructure failures ended 3 episodes\n"
    assert err.endswith(f"the evaluation is not whole: {said}") and "is below" not in err
    for folders in (("lost", "whole"), ("whole", "lost")):
        for more in ((), ("--anytime",)):
            status, out, err = agentgym("compare", *folders, *more, "--fail_if_worse")
            assert status == 1 and out and err.endswith(f"lost is not whole: {said}")
            assert agentgym("compare", *folders, *more)[0] == 0


def test_agents_are_compared(agentgym: Run) -> None:
    """As Markdown, LaTeX and JSON, of two and of three."""
    for agent in ("expert", "random"):
        assert agentgym(*SMALL, "--agent", agent, "--out", agent)[0] == 0
    assert agentgym("eval", "--manifest", "expert/manifest.json", "--out", "again")[0] == 0
    status, out, _ = agentgym("compare", "expert", "random")
    assert status == 0 and "\n| expert − random | +" in out and "Only 4 tasks" in out
    status, out, _ = agentgym("compare", "expert", "random", "again", "--latex")
    assert status == 0 and out.count(r"\begin{tabular}") == 2 and "p (Holm)" in out
    told = json.loads(agentgym("compare", "expert", "again", "--json")[1])
    assert told["pairs"][0]["paired"]["p"] == 1 and told["pairs"][0]["paired"]["detectable"] is None
    assert [each["name"] for each in told["agents"]] == ["expert", "again"]
    status, out, _ = agentgym("compare", "expert,again", "random")
    assert status == 0 and "| expert,again | 2 |" in out and "Fewer than 5 training seeds" in out
    assert "\n| Plans | 2 |" in agentgym("compare", "Plans=expert,again", "random")[1]
    assert "\n| The plan − random | " in agentgym("compare", "The plan=expert", "random")[1]
    assert "\nCoin − expert, looked at " in "\n" + agentgym("compare", "Coin=random", "expert", "--anytime")[1]
    assert "'Plans=' names no folder" in agentgym("compare", "Plans=", "random")[2]
    assert "expert/ is given twice" in agentgym("compare", "A=expert", "B=expert/")[2]
    assert "runs/lr=1e-4: no such file or folder" in agentgym("compare", "runs/lr=1e-4", "random")[2]
    assert ": no such file or folder" in agentgym("compare", f"{'x' * 300}=y", "random")[2]
    Path("expert").rename("a=b")
    assert "\n| a=b − random | " in agentgym("compare", "a=b", "random")[1]
    Path("a=b").rename("expert")
    rows = Path("again/trajectories.jsonl")
    rows.write_bytes(b"".join(rows.read_bytes().splitlines(keepends=True)[:2]))
    status, out, err = agentgym("compare", "expert", "again")
    assert status == 2 and not out and "trajectories.jsonl has changed since the evaluation ended" in err


def test_what_cannot_be_compared_is_one_line(agentgym: Run) -> None:
    """Nothing there, other tasks, one folder, two forms at once."""
    assert agentgym(*SMALL, "--agent", "expert", "--out", "a")[0] == 0
    assert agentgym(*SMALL[:-3], "3", "--agent", "expert", "--out", "b")[0] == 0
    for argv, said in (
        (("a", "nowhere"), "nowhere: no such file or folder"),
        (
            ("a", "b"),
            "a and b cannot be compared: AgentCalculator-v0's tasks: 3 in both, of 4 and 3; "
            "evaluate both with --tasks 3\n",
        ),
        (("a",), "at least two evaluations"),
        (("a", "a/"), "a/ is given twice"),
        (("a", "b", "--score", "foo"), "a has no score 'foo': scores are of other programs' logs"),
        (("a", "b", "--anytime", "--margin", "7"), "--margin must be above 0 and below 1, got 7.0"),
        (("a", "b", "--json", "--latex"), "--latex or --json, not both"),
        ((), "FOLDER is missing: agentgym compare FOLDER ..."),
    ):
        status, _, err = agentgym("compare", *argv)
        assert status == 2 and said in err and err.count("\n") == 1, err
