"""`agentgym collect`, `replay` and `data`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym_py.agents.chat import call_text
from agentgym_py.cli.data import FORMATS, ROWS
from agentgym_py.env import EnvSpec, StopReason
from agentgym_py.errors import DataError
from agentgym_py.trajectory import Trajectory, store
from agentgym_py.trajectory.dataset import AgentTrajDataset
from agentgym_py.trajectory.formats.openai import ACT_TOOL
from agentgym_py.trajectory.reading import detect
from agentgym_py.trajectory.types import BY_TOOLS

Run = Callable[..., tuple[int, str, str]]


def collect(agentgym: Run, *argv: str) -> str:
    """A file of expert trajectories."""
    status, _, err = agentgym("collect", "--env", "GUESS", "--tasks", "4", "--out", "a.jsonl", *argv)
    assert status == 0, err
    return "a.jsonl"


def test_the_expert_collects_in_the_shop(agentgym: Run) -> None:
    """The expert solves every task of the shop, and its trajectories replay."""
    status, out, _ = agentgym("collect", "--env", "shop", "--tasks", "3", "--out", "shop.jsonl", "--prompt", "full")
    assert status == 0 and "3 trajectories of the exact expert, success 100.0 %" in out
    assert all(each.success and each.provenance.prompt == "full" for each in store.read("shop.jsonl"))
    status, out, _ = agentgym("replay", "shop.jsonl")
    assert status == 0 and "3 trajectories: 3 identical" in out


def test_folders_on_the_way_to_a_file_are_made(agentgym: Run) -> None:
    """As the help of --out says."""
    assert "missing parent folders are created" in " ".join(agentgym("collect", "--help")[1].split())
    assert agentgym("collect", "--env", "GUESS", "--tasks", "1", "--out", "a/b/c.jsonl")[0] == 0
    assert len(list(store.read("a/b/c.jsonl"))) == 1


def test_several_worlds_and_their_own_arguments(agentgym: Run) -> None:
    """Commas or repeats mix worlds; arguments are for all, or for the one named."""
    argv = ("--env", "GUESS,shop", "--env_kwargs.GUESS.max_steps", "3", "--tasks", "2", "--out", "a.jsonl", "--json")
    status, out, _ = agentgym("collect", *argv)
    assert status == 0 and json.loads(out)["trajectories"] == 4
    given = [(each.provenance.env_id, each.provenance.env_kwargs) for each in store.read("a.jsonl")]
    assert given == [("GuessForTests-v0", {"max_steps": 3}), ("AgentShop-v0", {})] * 2


def test_json_is_alone_on_stdout(agentgym: Run) -> None:
    """What happens meanwhile goes to stderr."""
    status, out, err = agentgym(
        "collect",
        "--env",
        "GUESS",
        "--agent",
        "random",
        "--tasks",
        "5",
        "--attempts",
        "2",
        "--out",
        "a.jsonl",
        "--json",
    )
    assert status == 0 and json.loads(out)["trajectories"] == 10 and "collect: 10 episodes" in err


def test_a_file_is_never_overwritten(agentgym: Run) -> None:
    """A second collection to the same file is refused, and the file stays."""
    collect(agentgym)
    before = Path("a.jsonl").read_bytes()
    status, _, err = agentgym("collect", "--env", "GUESS", "--out", "a.jsonl")
    assert status == 2 and "exists already" in err and Path("a.jsonl").read_bytes() == before


def interrupt_after(
    episodes: int, monkeypatch: pytest.MonkeyPatch, by: BaseException | type[BaseException] = KeyboardInterrupt
) -> None:
    """Ctrl-C, or an error, comes when the given number of episodes is written."""
    from agentgym_py.collection import Collector

    whole = Collector.iter_ordered

    def interrupted(self: Collector, jobs: object) -> object:
        for number, each in enumerate(whole(self, jobs)):  # type: ignore[arg-type]  # passed on as it came
            if number == episodes:
                raise by
            yield each

    monkeypatch.setattr(Collector, "iter_ordered", interrupted)


def test_ctrl_c_leaves_what_was_played(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file holds whole trajectories, in the order of the tasks."""
    interrupt_after(2, monkeypatch)
    status, _, err = agentgym("collect", "--env", "GUESS", "--tasks", "4", "--out", "a.jsonl")
    assert status == 130 and "2 of 4 trajectories were written and are kept; the same command with --first 2" in err
    assert [each.task_id for each in store.read("a.jsonl")] == ["guess/train/0", "guess/train/1"]


def test_an_error_says_what_was_written(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that stays there, with how much is in it; a retry would stumble over it."""
    interrupt_after(2, monkeypatch, DataError("the world is broken"))
    status, _, err = agentgym("collect", "--env", "GUESS", "--tasks", "4", "--out", "a.jsonl")
    assert status == 2 and "a.jsonl: 2 of 4 trajectories were written" in err and "the world is broken" in err
    assert len(list(store.read("a.jsonl"))) == 2


def test_ctrl_c_before_the_first_end_leaves_no_file(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the same command can be tried again; as it can where a killed process left an empty file."""
    with monkeypatch.context() as meanwhile:
        interrupt_after(0, meanwhile)
        status, _, err = agentgym("collect", "--env", "GUESS", "--tasks", "4", "--out", "a.jsonl")
    assert status == 130 and "a.jsonl: no episode had ended, so there is no file" in err
    assert not list(Path().iterdir())
    Path("a.jsonl").touch()
    assert agentgym("collect", "--env", "GUESS", "--tasks", "4", "--out", "a.jsonl")[0] == 0


def test_a_tampered_file_does_not_replay(agentgym: Run) -> None:
    """Status 1, and the first difference of each trajectory is shown."""
    kept = list(store.read(collect(agentgym)))
    step = replace(kept[1].steps[0], reward=0.25)
    kept[1] = replace(kept[1], steps=(step,))
    kept[2] = replace(kept[2], final_observation="Found!\nReally.")
    store.write("b.jsonl", kept)
    status, out, _ = agentgym("replay", "b.jsonl")
    assert status == 1 and "4 trajectories: 2 identical (2 steps), 2 different" in out
    assert "guess/train/1#0 differs at step 1, reward:\n  stored   0.25\n  replayed 1.0" in out
    assert "guess/train/2#0 differs at step 1, last observation:" in out and "-Really." in out


@pytest.mark.parametrize(
    "command",
    [["replay", "FILE"], ["data", "convert", "FILE", "b.json"], ["train", "--data", "FILE", "--out", "bc"]],
    ids=lambda command: command[0],
)
@pytest.mark.parametrize(
    ("text", "said"), [("", "FILE holds no trajectory"), ('{"torn', "FILE holds no trajectory: its only line is torn")]
)
def test_a_file_without_a_trajectory_is_refused(agentgym: Run, command: list[str], text: str, said: str) -> None:
    """There is nothing to replay, to convert or to learn from: one line, status 2, and nothing is written."""
    if command[0] == "train":
        pytest.importorskip("accelerate")
    Path("FILE").write_text(text)
    assert agentgym(*command) == (2, "", f"agentgym: {said}\n")
    assert [each.name for each in Path().iterdir()] == ["FILE"]


def test_replay_counts_in_whole_sentences(agentgym: Run) -> None:
    """One trajectory is no `1 trajectories`."""
    assert agentgym("collect", "--env", "GUESS", "--tasks", "1", "--out", "one.jsonl")[0] == 0
    assert agentgym("replay", "one.jsonl")[1].startswith("1 trajectory: 1 identical (")


def test_replay_as_json(agentgym: Run) -> None:
    """Each trajectory, whether it holds, and how many do."""
    status, out, _ = agentgym("replay", collect(agentgym), "--json")
    result = json.loads(out)
    assert status == 0 and result["held"] == 4 and result["differ"] == 0
    assert all(each["holds"] for each in result["results"])


def test_verify_finds_a_flipped_byte(agentgym: Run) -> None:
    """Status 0 for a whole file, 1 for a damaged one, with the line."""
    assert agentgym("data", "verify", collect(agentgym))[:2] == (0, "a.jsonl: 4 intact episodes, 0 damaged\n")
    Path("a.jsonl").write_bytes(Path("a.jsonl").read_bytes().replace(b"Found", b"Fount", 1))
    status, out, _ = agentgym("data", "verify", "a.jsonl", "--json")
    assert status == 1 and list(json.loads(out)["bad"]) == ["1"]


def test_the_rest_of_an_interrupted_collection(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command that is named for it plays what is missing of the whole, a task that was begun once more."""
    argv = ("collect", "--env", "GUESS", "--agent", "random", "--first", "1", "--tasks", "3", "--attempts", "2")
    assert agentgym(*argv, "--out", "whole.jsonl")[0] == 0
    with monkeypatch.context() as meanwhile:
        interrupt_after(3, meanwhile)
        err = agentgym(*argv, "--out", "a.jsonl")[2]
    said = re.search(r"the same command with (--first 2 --tasks 2) --out ANOTHER.jsonl plays the other tasks", err)
    assert said, err
    assert agentgym(*argv, *said[1].split(), "--out", "b.jsonl")[0] == 0
    assert list(store.read("a.jsonl"))[:2] + list(store.read("b.jsonl")) == list(store.read("whole.jsonl"))


def test_the_rest_of_a_collection_with_forks(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing episodes are played bit-identically, because seed and task draw the states from which others fork."""
    argv = ("collect", "--env", "maze", "--agent", "random", "--env_kwargs.max_steps", "5", "--tasks", "3",
            "--attempts", "2", "--forks", "2", "--fork_attempts", "3")  # fmt: skip
    status, out, err = agentgym(*argv, "--out", "whole.jsonl")
    assert status == 0 and "whole.jsonl: 42 trajectories" in out, err
    with monkeypatch.context() as meanwhile:
        interrupt_after(6 * 3, meanwhile)  # those of three episodes: a task and a half
        err = agentgym(*argv, "--slots", "5", "--out", "a.jsonl")[2]
    said = re.search(r"21 of at most 42 .* with (--first 1 --tasks 2) --out ANOTHER.jsonl plays the other tasks", err)
    assert said, err
    assert agentgym(*argv, *said[1].split(), "--out", "b.jsonl")[0] == 0
    assert list(store.read("a.jsonl"))[:14] + list(store.read("b.jsonl")) == list(store.read("whole.jsonl"))
    for wrong in ("--forks", "-1"), ("--fork_attempts", "0"):
        assert f"{wrong[0]} must be a number of at least" in agentgym(*argv, *wrong, "--out", "c.jsonl")[2]


def test_the_whole_lines_of_a_damaged_file_are_salvaged(agentgym: Run) -> None:
    """Byte for byte, to a new file that is whole; `verify` names the command, and what is left out is counted."""
    whole = Path(collect(agentgym)).read_bytes().splitlines(keepends=True)
    Path("a.jsonl").write_bytes(whole[0].replace(b"Found", b"Fount", 1) + whole[1] + b"\n" + whole[2] + whole[3][:-9])
    status, out, _ = agentgym("data", "verify", "a.jsonl")
    assert status == 1 and "agentgym data salvage a.jsonl NEW.jsonl" in out
    said = "b.jsonl: 2 intact episodes of a.jsonl; 2 damaged lines were left out\n"
    assert agentgym("data", "salvage", "a.jsonl", "b.jsonl") == (0, said, "")
    Path("one.jsonl").write_bytes(whole[0].replace(b"Found", b"Fount", 1) + whole[1])
    said = "c.jsonl: 1 intact episode of one.jsonl; 1 damaged line was left out\n"
    assert agentgym("data", "salvage", "one.jsonl", "c.jsonl") == (0, said, "")
    assert Path("b.jsonl").read_bytes() == whole[1] + whole[2] and agentgym("data", "verify", "b.jsonl")[0] == 0
    assert "exists already" in agentgym("data", "salvage", "a.jsonl", "b.jsonl")[2]
    agentgym("data", "convert", "b.jsonl", "b.json")
    status, _, err = agentgym("data", "salvage", "b.json", "c")
    assert status == 2 and "only a store can be salvaged, this is agenttraj" in err
    Path("d.jsonl").write_bytes(whole[0].replace(b"Found", b"Fount", 1))
    assert agentgym("data", "salvage", "d.jsonl", "e.jsonl")[::2] == (2, "agentgym: d.jsonl: no line is whole\n")
    assert not Path("e.jsonl").exists()


def test_atif_is_written_verified_and_replayed(agentgym: Run) -> None:
    """It holds whole trajectories; a name that is no format, and a wrong one, are one line."""
    source = collect(agentgym)
    assert agentgym("data", "convert", source, "b.json", "--to", "atif")[1] == "b.json: 4 trajectories, atif\n"
    assert agentgym("data", "verify", "b.json", "--format", "atif")[0] == 0
    assert "4 identical" in agentgym("replay", "b.json")[1]
    assert agentgym("data", "convert", "b.json", "c.jsonl")[0] == 0
    assert list(store.read("c.jsonl")) == list(store.read(source))
    status, _, err = agentgym("data", "verify", "b.json", "--format", "atiff")
    assert status == 2 and "--format atiff: no such format. Did you mean 'atif'?" in err and err.count("\n") == 1
    status, out, _ = agentgym("data", "verify", source, "--format", "atif")
    assert status == 1 and "schema_version: None cannot be read" in out


@pytest.mark.parametrize("target", ["b.json", "b.jsonl", "b.parquet"])
def test_convert_goes_there_and_back(agentgym: Run, target: str) -> None:
    """By ending: AgentTraj, our store, parquet; replies survive each of them."""
    if target.endswith("parquet"):
        pytest.importorskip("pyarrow")
    source = collect(agentgym)
    assert agentgym("data", "convert", source, target)[0] == 0
    assert agentgym("data", "verify", target)[0] == 0
    assert agentgym("data", "convert", target, "c.out", "--to", "store")[0] == 0
    first, again = list(store.read(source)), list(store.read("c.out"))
    assert [[step.reply for step in each.steps] for each in first] == [[s.reply for s in each.steps] for each in again]


def test_every_format_stands_in_the_help(agentgym: Run) -> None:
    """By its name, as `--to` takes it."""
    said = re.findall(r"\w+", agentgym("data", "convert", "--help")[1])
    assert set(FORMATS) <= set(said)


def test_what_cannot_be_replayed_is_said(agentgym: Run) -> None:
    """AgentTraj holds neither world nor seed: one line says so, where it is written and where it is replayed."""
    status, out, _ = agentgym("data", "convert", collect(agentgym), "b.json")
    assert status == 0 and "4 trajectories, agenttraj; keep the source, because this format cannot be replayed" in out
    for again in ((), ("data", "convert", "b.json", "c.jsonl")):
        assert not again or agentgym(*again)[0] == 0
        status, out, err = agentgym("replay", "c.jsonl" if again else "b.json")
        assert status == 1 and "0 identical" in out and "4 not replayed" in out
        assert err.startswith("not replayed: AgentTraj does not hold what a replay needs") and err.count("\n") == 1


def test_verify_takes_every_form(agentgym: Run) -> None:
    """A whole file of another form is not called damaged; one that is cut off or broken is."""
    source = collect(agentgym)
    assert agentgym("data", "convert", source, "b.json")[0] == 0
    assert agentgym("data", "convert", source, "b.jsonl", "--to", "agenttraj")[0] == 0
    for whole in ("b.json", "b.jsonl"):
        assert agentgym("data", "verify", whole)[:2] == (
            0, f"{whole}: 4 intact episodes (4 without a digest), 0 damaged\n"
        )  # fmt: skip
    lines = Path("b.jsonl").read_text().splitlines(keepends=True)
    Path("b.jsonl").write_text("".join(lines)[:-20])
    status, out, _ = agentgym("data", "verify", "b.jsonl")
    assert status == 1 and "line 4: torn" in out
    assert out.startswith("b.jsonl: 3 intact episodes (3 without a digest), 0 damaged, 1 torn\n")
    Path("b.json").write_text(Path("b.json").read_text().replace('"human"', '"person"', 1))
    status, out, _ = agentgym("data", "verify", "b.json", "--json")
    assert status == 1 and "'person'" in json.loads(out)["bad"]["1"]


def test_verify_says_that_there_is_nothing(agentgym: Run) -> None:
    """An empty file is no whole one, whatever reads it; a folder is called one."""
    Path("a.jsonl").touch()
    assert agentgym("data", "verify", "a.jsonl")[:2] == (1, "a.jsonl: empty, no episodes\n")
    assert json.loads(agentgym("data", "verify", "a.jsonl", "--json")[1])["ok"] is False
    Path("here").mkdir()
    for command in (["data", "verify", "here"], ["replay", "here"], ["data", "convert", "here", "b.jsonl"]):
        assert agentgym(*command) == (2, "", "agentgym: here: a folder, not a file\n")
    for name in ("trajectories", "valid"):
        Path(f"here/rounds/01/{name}.jsonl").parent.mkdir(parents=True, exist_ok=True)
        Path(f"here/rounds/01/{name}.jsonl").touch()
    Path("here/rounds/01/critic.jsonl").write_text('{"kind": "header"}\n')
    stores = "here/rounds/01/trajectories.jsonl, here/rounds/01/valid.jsonl"
    assert agentgym("replay", "here") == (2, "", f"agentgym: here: a folder, not a file; name one of {stores}\n")
    Path("here/trajectories.jsonl").touch()
    assert agentgym("replay", "here")[2].endswith("not a file; did you mean here/trajectories.jsonl?\n")


@pytest.mark.parametrize("ending", ["json", "jsonl"])
@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("openai", "messages"),
        ("trl", "messages"),
        ("trl_prompt_completion", "prompt_completion"),
        ("trl_preferences", "preferences"),
    ],
)
def test_a_file_for_other_programs_is_read_again(agentgym: Run, form: str, name: str, ending: str) -> None:
    """Each row is recognized; the replies that were written are those that are trained on."""
    played = ("--env", "GUESS", "--agent", "random", "--tasks", "3", "--attempts", "2", "--env_kwargs.max_steps", "5")
    assert agentgym("collect", *played, "--out", "a.jsonl")[0] == 0
    assert agentgym("data", "convert", "a.jsonl", f"b.{ending}", "--to", form)[0] == 0
    assert detect(f"b.{ending}") == name and agentgym("data", "verify", f"b.{ending}", "--format", name)[0] == 0
    assert agentgym("data", "convert", f"b.{ending}", "c.jsonl")[0] == 0
    first, again = list(store.read("a.jsonl")), list(store.read("c.jsonl"))
    replies = {(step.action, step.thought) for each in first for step in each.steps}
    assert {(step.action, step.thought) for each in again for step in each.steps if step.trained} <= replies
    if form in ("openai", "trl"):
        assert [[step.action for step in each.steps] for each in again] == [[s.action for s in t.steps] for t in first]


@pytest.mark.parametrize("form", ["trl", "trl_prompt_completion", "openai", "agenttraj", "atif"])
def test_a_failure_stays_one_in_every_format(agentgym: Run, episode: Callable[..., Trajectory], form: str) -> None:
    """Its row says so. An infrastructure failure is left out and counted, unless the format has it."""
    failure, partial = episode("a", success=False, reward=0.0, id="f"), episode("b", success=False, reward=0.25, id="p")
    broken = episode("c", success=False, reward=0.0, id="e", stop_reason=StopReason.ERROR, error="timeout")
    store.write("a.jsonl", [failure, episode("d"), broken, partial])
    status, out, err = agentgym("data", "convert", "a.jsonl", "b.jsonl", "--to", form)
    assert status == 0
    assert ("3 episodes without the schemas of the tools" in err) == bool(err) == (form == "openai")  # no such task
    again = list(AgentTrajDataset.load("b.jsonl"))
    if form == "atif":
        assert again == list(store.read("a.jsonl")) and "left out" not in out
        return
    assert [(t.success, t.reward) for t in again] == [(False, 0.0), (True, 1.0), (False, 0.25)]
    assert out.endswith("; 1 left out, because an infrastructure failure ended them\n")
    store.write("c.jsonl", [broken])
    status, _, err = agentgym("data", "convert", "c.jsonl", "d.jsonl", "--to", form)
    assert status == 2 and not Path("d.jsonl").exists()
    assert "c.jsonl: an infrastructure failure ended every trajectory" in err


@pytest.mark.parametrize("target", ["b.parquet", "b/"])
def test_rows_become_a_table_by_the_name_of_the_target(agentgym: Run, target: str) -> None:
    """A parquet file, or a folder of datasets; other formats are refused there, and so is a target that exists."""
    pytest.importorskip("pyarrow")
    source = collect(agentgym)
    status, _, err = agentgym("data", "convert", source, target, "--to", "atif")
    assert status == 2 and f"{target}: --to atif writes JSON" in err
    assert agentgym("data", "convert", source, target, "--to", "trl")[1] == f"{target}: 4 rows, trl\n"
    assert agentgym("data", "verify", target)[1].startswith(f"{target}: 4 intact episodes")
    assert "exists already" in agentgym("data", "convert", source, target, "--to", "trl")[2]
    whole = target.replace("b", "c")
    assert agentgym("data", "convert", source, whole)[1] == f"{whole}: 4 trajectories, parquet\n"
    assert "4 identical" in agentgym("replay", whole)[1]
    assert not [path for path in Path().iterdir() if path.name.startswith(".")]


def test_labels_of_steps_are_not_read(agentgym: Run) -> None:
    """Their rows do not say where an observation ends; that is said."""
    assert agentgym("data", "convert", collect(agentgym), "b.json", "--to", "trl_stepwise")[0] == 0
    status, out, err = agentgym("data", "verify", "b.json")
    assert status == 2 and out == "" and "b.json: not a trajectory file: looks like labels of steps" in err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# Notes\n\nNothing here.\n", "not a trajectory file: its lines are not JSON objects"),
        ('{"name": "x", "size": 3}\n', "not a trajectory file: its first row has the keys name, size"),
        ('[{"name": "x"}]', "not a trajectory file: its first row has the keys name"),
    ],
)
def test_any_other_file_is_not_called_damaged(agentgym: Run, text: str, said: str) -> None:
    """What it is instead is said."""
    Path("x").write_text(text)
    status, out, err = agentgym("data", "verify", "x")
    assert status == 2 and out == "" and said in err


def test_a_damaged_first_line_is_damage(agentgym: Run) -> None:
    """The lines after it show what the file is."""
    Path(collect(agentgym)).write_bytes(b"\x00" + Path("a.jsonl").read_bytes())
    status, out, _ = agentgym("data", "verify", "a.jsonl")
    assert status == 1 and out.startswith("a.jsonl: 3 intact episodes, 1 damaged\n")


def test_no_pairs_are_an_error_that_says_why(agentgym: Run) -> None:
    """Tasks tried once, or always alike, make none: status 2, no file."""
    collect(agentgym)
    status, out, err = agentgym("data", "convert", "a.jsonl", "b.jsonl", "--to", "trl_preferences")
    assert status == 2 and out == "" and "here 4 alone at their task" in err
    again = ("collect", "--env", "GUESS", "--tasks", "2", "--attempts", "2", "--out", "c.jsonl")
    assert agentgym(*again)[0] == 0
    status, _, err = agentgym("data", "convert", "c.jsonl", "b.jsonl", "--to", "trl_preferences")
    assert status == 2 and "4 without a better or worse one of their task" in err and not Path("b.jsonl").exists()


def test_preferences_say_what_is_in_no_pair(agentgym: Run, episode: Callable[..., Trajectory]) -> None:
    """With the reasons of the pairing, and not a word if nothing is left out."""
    better, worse = episode("a", reward=1.0), episode("b", reward=0.0)
    alone = replace(better, provenance=replace(better.provenance, task_id="other"))
    for episodes, said in (
        ([better, worse], ""),
        ([better, worse, worse, alone], "1 alone at their task, 1 without a better or"),
    ):
        store.write("p.jsonl", [replace(each, id=str(i)) for i, each in enumerate(episodes)])
        Path("q.jsonl").unlink(missing_ok=True)
        status, out, _ = agentgym("data", "convert", "p.jsonl", "q.jsonl", "--to", "trl_preferences")
        line, *rest = out.splitlines()
        assert status == 0 and line == "q.jsonl: 1 row, trl_preferences" and len(rest) == bool(said)
        assert said in out


def test_a_reply_without_a_loss_names_the_format_for_it(agentgym: Run) -> None:
    """By the name that `--to` takes, and the file."""
    turns = [{"role": role, "content": "x", "weight": 0} for role in ("user", "assistant")]
    Path("a.jsonl").write_text(json.dumps({"messages": turns}) + "\n")
    status, _, err = agentgym("data", "convert", "a.jsonl", "b.jsonl", "--to", "trl")
    assert status == 2 and err.startswith("agentgym: a.jsonl: trajectory 'a-1' has a reply that must not be trained on")
    assert err.endswith("use --to trl_prompt_completion\n")


def test_the_summary_says_which_expert_played(agentgym: Run) -> None:
    """The exact one, unless the fair one is asked for."""
    for more, title in (((), "the exact expert"), (("--agent_kwargs.fair", "true"), "the fair expert")):
        argv = ("collect", "--env", "GUESS", "--tasks", "2", "--agent", "expert", *more)
        assert f" 2 trajectories of {title}, " in agentgym(*argv, "--out", f"{len(more)}.jsonl")[1]
        played = store.read(f"{len(more)}.jsonl")
        assert all(each.provenance.sampling["fair"] is bool(more) for each in played)
    argv = ("eval", "--env", "GUESS", "--tasks", "2", "--agent", "expert", "--agent_kwargs.fair", "true")
    assert "\nthe fair expert, test split, easy, 2 episodes\n" in agentgym(*argv)[1]


def test_verify_lists_ten_lines(agentgym: Run) -> None:
    """Of a file that is damaged all over the first ten lines are shown, and how many more there are."""
    assert agentgym("collect", "--env", "GUESS", "--tasks", "13", "--out", "a.jsonl")[0] == 0
    Path("a.jsonl").write_text(Path("a.jsonl").read_text().replace('"provenance"', '"provenanze"'))
    status, out, _ = agentgym("data", "verify", "a.jsonl")
    assert status == 1 and "0 intact episodes, 13 damaged" in out and out.endswith("  and 3 more\n")
    assert out.count("\n  line ") == 10


@pytest.mark.parametrize(
    ("form", "keys"),
    [
        ("trl", {"messages", "success", "reward"}),
        ("trl_prompt_completion", {"prompt", "completion", "success", "reward"}),
        ("trl_preferences", {"prompt", "chosen", "rejected"}),
        ("trl_stepwise", {"prompt", "completions", "labels"}),
        ("openai", {"messages", "tools", "parallel_tool_calls", "success", "reward"}),
    ],
)
def test_convert_writes_rows_for_other_programs(agentgym: Run, form: str, keys: set[str]) -> None:
    """One row an episode, a reply or a pair; lines in a `.jsonl` file, else an array."""
    played = ("--env", "GUESS", "--agent", "random", "--tasks", "3", "--attempts", "2", "--env_kwargs.max_steps", "5")
    assert agentgym("collect", *played, "--out", "a.jsonl")[0] == 0
    data = AgentTrajDataset.load("a.jsonl")
    replies, pairs = sum(len(each.steps) for each in data), len(data.preferences())
    assert replies > len(data) > pairs > 0
    rows = {"trl_prompt_completion": replies, "trl_preferences": pairs}.get(form, len(data))
    status, out, _ = agentgym("data", "convert", "a.jsonl", "b.jsonl", "--to", form)
    found = [json.loads(line) for line in Path("b.jsonl").read_text().splitlines()]
    assert status == 0 and out.splitlines()[0] == f"b.jsonl: {rows} rows, {form}"
    assert out.count("\n") == 1 or form == "trl_preferences"
    unsaid = {"success", "reward"} if form == "openai" else set()
    assert len(found) == rows and all(keys - unsaid <= row.keys() <= keys for row in found)
    assert form == "openai" or all(row.keys() == keys for row in found)
    assert agentgym("data", "convert", "a.jsonl", "b.json", "--to", form)[0] == 0
    assert json.loads(Path("b.json").read_text()) == found


def test_rows_with_equal_sides_are_left_out_and_counted(agentgym: Run) -> None:
    """Of a file in the form of HH-RLHF; the command says how many, once."""
    text = "\n\nHuman: Hi.\n\nAssistant: {}"
    sides = [("a", "b"), ("c", "c")]
    rows = [{"chosen": text.format(one), "rejected": text.format(other)} for one, other in sides]
    Path("hh.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for form, number in (("trl_preferences", "1 row"), ("openai", "2 rows"), ("store", "2 trajectories")):
        status, out, err = agentgym("data", "convert", "hh.jsonl", f"{form}.jsonl", "--to", form)
        assert (status, out) == (0, f"{form}.jsonl: {number}, {form}\n")
        assert err == "agentgym: warning: hh.jsonl: 1 row left out, because chosen and rejected are the same\n"


def test_several_files_become_one(agentgym: Run, episode: Callable[..., Trajectory]) -> None:
    """In the order of their names, each in its own format; an id that stands twice gets a number."""
    source = collect(agentgym)
    assert agentgym("data", "convert", source, "b.json", "--to", "atif")[0] == 0
    store.write("c.jsonl", [episode("look", id="last")])
    assert agentgym("data", "convert", source, "b.json", "c.jsonl", "d.jsonl")[1] == "d.jsonl: 9 trajectories, store\n"
    whole, joined = list(store.read(source)), list(store.read("d.jsonl"))
    assert joined == [*whole, *(replace(t, id=f"{t.id}#2") for t in whole), *store.read("c.jsonl")]
    assert agentgym("data", "convert", source, "c.jsonl", "e.jsonl", "--to", "trl")[1] == "e.jsonl: 5 rows, trl\n"
    assert agentgym("data", "convert", source, "d.jsonl")[0] == 2, "no file is written over"
    for words in ([], [source]):
        status, _, err = agentgym("data", "convert", *words)
        assert status == 2 and "SOURCE ... TARGET" in err and err.count("\n") == 1
    assert "nothing.jsonl: no such file" in agentgym("data", "convert", source, "nothing.jsonl", "f.jsonl")[2]
    assert not Path("f.jsonl").exists()


def test_rows_of_openai_have_tools_with_parameters(agentgym: Run) -> None:
    """Those that the world offered, also later in the episode; those of a world that is not here have none."""
    played = ("collect", "--tasks", "2", "--env")
    assert agentgym(*played, "tools", "--env_kwargs.difficulty", "retrieval", "--out", "tools.jsonl")[0] == 0
    here = list(store.read("tools.jsonl"))
    store.write("away.jsonl", [replace(t, provenance=replace(t.provenance, env_id="Away-v0")) for t in here])
    rows = {}
    for name in ("tools", "away"):
        status, _, err = agentgym("data", "convert", f"{name}.jsonl", f"{name}.json", "--to", "openai")
        assert status == 0 and (name == "away") == ("2 episodes without the schemas of the tools" in err)
        assert name != "away" or "Away-v0" in err
        rows[name] = json.loads(Path(f"{name}.json").read_text())
    for row, trajectory in zip(rows["tools"], here, strict=True):
        env = EnvSpec("tools", {"difficulty": "retrieval"}).make()
        trajectory.restart(env)
        known = {tool["function"]["name"]: tool for tool in env.tools() or []}
        called = {step.action for step in trajectory.steps}
        assert called - known.keys()
        for step in trajectory.steps:
            env.step(step.reply)
            known |= {tool["function"]["name"]: tool for tool in env.tools() or []}
        sent = {tool["function"]["name"]: tool for tool in row["tools"]}
        assert called <= sent.keys() and all(known[name] == tool for name, tool in sent.items())
        assert str(row["messages"][0]["content"]).count(BY_TOOLS) == 1
    assert agentgym(*played, "sheet", "--out", "sheet.jsonl")[0] == 0
    assert agentgym("data", "convert", "sheet.jsonl", "sheet.json", "--to", "openai")[0] == 0
    calls = [
        m["tool_calls"]
        for row in json.loads(Path("sheet.json").read_text())
        for m in row["messages"]
        if m.get("tool_calls")
    ]
    bare = {step.action for t in store.read("sheet.jsonl") for step in t.steps if step.action_input is None}
    assert bare == {call["function"]["name"] for [call] in calls if call["function"]["arguments"] == "{}"} != set()
    assert all(not tool["function"]["parameters"]["properties"] for row in rows["away"] for tool in row["tools"])


def test_texts_of_actions_are_calls_of_the_offered_tools_in_rows_of_openai(agentgym: Run) -> None:
    """Each call, sent as a tool-calling agent sends it, gives the observation of the text; ATIF keeps the text."""
    for name in ("household", "shop", "maze"):
        assert agentgym("collect", "--tasks", "2", "--env", name, "--out", f"{name}.jsonl")[0] == 0
        assert agentgym("data", "convert", f"{name}.jsonl", f"{name}.json", "--to", "openai")[1:] == (
            f"{name}.json: 2 rows, openai\n", "",
        )  # fmt: skip
        env = EnvSpec(name).make()
        rows = json.loads(Path(f"{name}.json").read_text())
        for row, trajectory in zip(rows, store.read(f"{name}.jsonl"), strict=True):
            trajectory.restart(env)
            assert row["tools"] == env.tools()
            calls = [turn["tool_calls"][0]["function"] for turn in row["messages"] if turn.get("tool_calls")]
            for call, after in zip(calls, [*trajectory.steps[1:], None], strict=True):
                observed = env.step(call_text(env, row["tools"], call["name"], call["arguments"]))
                assert observed[2] if after is None else observed[0] == after.observation
    assert agentgym("data", "convert", "shop.jsonl", "atif.json", "--to", "atif")[0] == 0
    steps = [step for episode in json.loads(Path("atif.json").read_text()) for step in episode["steps"]]
    assert {call["function_name"] for step in steps for call in step.get("tool_calls", ())} == {"act"}


def test_an_action_that_is_no_call_is_one_of_act_in_rows_of_openai(agentgym: Run) -> None:
    """Such as a refused one; its row has `act` beside the tools of its world."""
    assert agentgym("collect", "--env", "shop", "--tasks", "1", "--out", "shop.jsonl")[0] == 0
    (expert,) = store.read("shop.jsonl")
    first = replace(expert.steps[0], action="buy it", reply="Action: buy it", valid=False)
    store.write("refused.jsonl", [replace(expert, steps=(first, *expert.steps[1:]))])
    assert agentgym("data", "convert", "refused.jsonl", "refused.json", "--to", "openai")[0] == 0
    (row,) = json.loads(Path("refused.json").read_text())
    calls = [turn["tool_calls"][0]["function"] for turn in row["messages"] if turn.get("tool_calls")]
    assert calls[0] == {"name": "act", "arguments": '{"action": "buy it"}'} and calls[1]["name"] == "click"
    assert row["tools"] == [ACT_TOOL, *(EnvSpec("shop").make().tools() or [])]


def test_a_bare_action_is_the_call_of_a_tool_in_every_row_of_openai(agentgym: Run) -> None:
    """Also if no action of its episode has an input."""
    assert agentgym("collect", "--env", "todo", "--tasks", "1", "--out", "todo.jsonl")[0] == 0
    (expert,) = store.read("todo.jsonl")
    env = EnvSpec("todo").make()
    env.reset(seed=0, options={"task": expert.task_id})
    one, other = env.step("Action: list_tasks"), env.step("Action: finish")
    steps = [
        replace(expert.steps[0], reply=f"Action: {name}", thought="", action=name, action_input=None, observation=seen)
        for name, seen in (("list_tasks", expert.steps[0].observation), ("finish", one[0]))
    ]
    assert other[2]
    store.write("bare.jsonl", [replace(expert, steps=tuple(steps))])
    assert agentgym("data", "convert", "bare.jsonl", "bare.json", "--to", "openai")[0] == 0
    (row,) = json.loads(Path("bare.json").read_text())
    calls = [turn["tool_calls"][0]["function"] for turn in row["messages"] if turn.get("tool_calls")]
    assert calls == [{"name": name, "arguments": "{}"} for name in ("list_tasks", "finish")]
    assert row["tools"] == env.tools()


def test_rows_of_openai_are_not_held(episode: Callable[..., Trajectory]) -> None:
    """The first row is there before the second episode is read."""
    rows = ROWS["openai"](iter_then_fail(episode("d")))
    assert next(iter(rows))["success"]


def iter_then_fail(trajectory: Trajectory) -> Iterator[Trajectory]:
    """One episode, and none after it."""
    yield trajectory
    raise AssertionError("the second episode is read before the first row is used")


def test_rows_of_openai_have_the_same_keys(agentgym: Run, episode: Callable[..., Trajectory]) -> None:
    """All have an outcome if one episode is no plain success."""
    for name, others in {"a": [], "b": [episode("c", success=False, reward=0.0, id="f")]}.items():
        store.write(f"{name}.jsonl", [episode("d"), *others])
        assert agentgym("data", "convert", f"{name}.jsonl", f"{name}.json", "--to", "openai")[0] == 0
        keys = ["messages", "tools", "parallel_tool_calls", *(["success", "reward"] if others else [])]
        assert [list(row) for row in json.loads(Path(f"{name}.json").read_text())] == [keys] * (1 + len(others))
