"""Pipelines: each stage on what the one before made, gone on with after an interruption, and the examples."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("torch")

from agentgym_py.cli.pipeline_file import parse_settings, read_file, read_stages, substitute
from agentgym_py.policy import Policy
from agentgym_py.trajectory import store

Run = Callable[..., tuple[int, str, str]]
EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "pipelines").glob("*.yaml"))
FEW = {"valid_tasks": 2, "test_tasks": 2, "max_new_tokens": 8, "allow_empty": True}
SIZES: dict[str, dict[str, Any]] = {
    "sft": {"expert_tasks": 8, **FEW}, "collect": {"tasks": 8, "attempts": 3, "max_new_tokens": 8},
    "rl": {"rounds": 1, "explore_tasks": 16, **FEW}, "evaluate": {"tasks": 4, "max_new_tokens": 8},
}  # fmt: skip
"""Options by kind that make a stage small."""
LEARNING = {"tasks_per_iteration": 4, "epochs": 1}


def written(held: dict[str, Any], name: str = "p.yaml") -> str:
    """A file of a pipeline."""
    Path(name).write_text(yaml.safe_dump(held, sort_keys=False), encoding="utf-8")
    return name


def short(model: str, **changes: Any) -> dict[str, Any]:
    """Imitate, evaluate, export; a change is of the stage of that name."""
    stages: list[dict[str, Any]] = [
        {"stage": "sft", "expert_tasks": 4, "valid_tasks": 2, "trainer": {"epochs": 1}},
        {"stage": "evaluate", "tasks": 3},
        {"stage": "export"},
    ]
    for stage in stages:
        stage.update(changes.get(str(stage["stage"]), {}))
    common = {"env": "GuessForTests-v0", "model": model, "max_new_tokens": 8, "threads": 1}
    return {"out": "made", "defaults": common, "stages": stages}


def test_each_stage_gets_what_the_one_before_made(agentgym: Run, small_model: str) -> None:
    """In folders of their own; a second call runs nothing again, and says so."""
    file = written(short(small_model))
    status, out, err = agentgym("pipeline", file)
    assert status == 0 and err.count("\n") == 1 and "of the replies were cut" in err
    assert "stage 1 of 3, sft: agentgym evolve, made/01-sft\n" in out and out.endswith("made: all 3 stages are done\n")
    digests = {
        json.loads(Path("made/01-sft/rounds/00/metrics.json").read_text())["policy_digest"],
        json.loads(Path("made/02-evaluate/result.json").read_text())["policy_digest"],
        Policy.load("made/03-export").digest(),
    }
    assert len(digests) == 1 and digests != {Policy.load(small_model).digest()}
    assert json.loads(Path("made/02-evaluate/result.json").read_text())["success"]["n"] == 3
    assert "| run | 01-sft |" in Path("made/03-export/README.md").read_text(encoding="utf-8")
    before = {each: each.stat().st_mtime_ns for each in Path("made").rglob("*") if each.parent != Path("made")}
    status, out, _ = agentgym("pipeline", file)
    assert status == 0 and [line for line in out.splitlines() if "already done" in line] == [
        f"stage {n} of 3, {name}: already done" for n, name in enumerate(("sft", "evaluate", "export"), 1)
    ]
    assert before == {each: each.stat().st_mtime_ns for each in Path("made").rglob("*") if each.parent != Path("made")}
    status, out, _ = agentgym("pipeline", file, "--list")
    assert status == 0 and out.startswith("1. sft (done): agentgym evolve, 01-sft\n") and "model: $sft" in out


def test_a_stage_judges_and_the_next_one_learns_from_it(agentgym: Run, small_model: str) -> None:
    """The last trajectories are judged; an interrupted judgement continues, and a training gets the feedback."""
    content = short(small_model)
    content["stages"] = [
        {"stage": "collect", "agent": "random", "tasks": 4, "attempts": 2},
        {"stage": "judge", "source": "expert"},
        {"stage": "sft", "trainer": {"name": "filtered_bc", "epochs": 1}},
    ]
    file = written(content)
    status, out, err = agentgym("pipeline", file, "--list")
    assert status == 0 and "feedback: $judge" in out and "data: $collect" in out, err
    status, out, err = agentgym("pipeline", file)
    assert status == 0 and "corrections are learnt" in out and Path("made/02-judge/feedback.jsonl").is_file(), err
    settings = json.loads(Path("made/03-sft/train.json").read_text())["settings"]
    assert settings["feedback"] == str(Path("made/02-judge/feedback.jsonl").absolute())


@pytest.mark.parametrize("kind", ["sft", "collect", "rl", "evaluate"])
def test_defaults_count_unless_the_table_says_otherwise(agentgym: Run, small_model: str, kind: str) -> None:
    """Of a stage after a policy the model and what makes its kind come before the defaults; all else is theirs."""
    held = short(small_model)
    held["stages"] = [held["stages"][0], {"stage": kind, "name": "other"}]
    common = {"rounds": 3, "expert_tasks": 7, "test_tasks": 5, "valid_tasks": 6, "seed": 4, "slots": 9, "tasks": 8,
              "attempts": 2, "temperature": 0.5, "track": "tensorboard", "prompt": "full"}  # fmt: skip
    held["defaults"] |= common
    held["stages"] += [{"stage": "rl"}, {"stage": "evaluate"}]  # or no stage takes some of them
    other = read_stages(read_file(written(held)), "p.yaml")[1]
    ruled = {key for key, value in held["defaults"].items() if key in other.settings and other.settings[key] != value}
    assert ruled == {"model"} | {"sft": {"rounds"}, "rl": {"expert_tasks"}}.get(kind, set())
    table = (Path(__file__).parents[2] / "docs" / "guides" / "pipeline.md").read_text(encoding="utf-8")
    assert all(
        each in table for each in ("`evolve --rounds 0`", "`expert_tasks: 0`", "this table wins over `defaults`")
    )
    held["stages"][1] |= {"rounds": 2, "expert_tasks": 5} if kind in ("sft", "rl") else {}
    own = read_stages(read_file(written(held)), "p.yaml")[1]
    assert all(
        own.settings[key] == value for key, value in held["stages"][1].items() if key in ("rounds", "expert_tasks")
    )


def test_an_sft_is_not_tested_unless_it_is_asked_for(agentgym: Run, small_model: str) -> None:
    """By the stage, or by the defaults."""
    held = short(small_model)
    assert read_stages(read_file(written(held)), "p.yaml")[0].settings["test_tasks"] == 0
    held["defaults"]["test_tasks"] = 5
    assert read_stages(read_file(written(held)), "p.yaml")[0].settings["test_tasks"] == 5
    held["stages"][0]["test_tasks"] = 2
    assert read_stages(read_file(written(held)), "p.yaml")[0].settings["test_tasks"] == 2


@pytest.mark.parametrize(
    ("world", "kwargs"),
    [("maze", {}), ("shop", {}), (["shop", "maze"], {}), (["maze", "todo"], {"maze": {"difficulty": "hard"}})],
)
def test_a_stage_has_the_defaults_of_its_world(agentgym: Run, world: str | list[str], kwargs: dict[str, Any]) -> None:
    """As `agentgym evolve --env WORLD` has them, for one world as for several."""
    stage = {"env": world, **({"env_kwargs": kwargs} if kwargs else {})}
    Path("evolve.yaml").write_text(yaml.safe_dump(stage), encoding="utf-8")
    status, out, err = agentgym("evolve", "--config", "evolve.yaml", "--print_config")
    assert status == 0, err
    (read,) = read_stages({"stages": [{"stage": "rl", **stage}]}, "p.yaml")
    values, expected = parse_settings(read, read.settings), yaml.safe_load(out)
    for name in ("model", "expert_tasks", "explore_tasks", "max_new_tokens", "merge", "restart", "env_kwargs"):
        assert values[name] == expected[name], name


def test_advice_is_that_of_a_pipeline(agentgym: Run, small_model: str) -> None:
    """A stage with nothing to learn from names the file to change; a run of its own the option."""
    few = {"expert_tasks": 8, "valid_tasks": 2, "test_tasks": 0, "select": {"top_percentile": 100, "threshold": 0.99},
           "rounds": 1, "explore_tasks": 2, "env_kwargs": {"max_steps": 1}}  # fmt: skip
    held = short(small_model)
    held["stages"] = [{"stage": "rl", **few, "expert_tasks": 0}]
    status, _, err = agentgym("pipeline", written(held))
    said = "change the stage in p.yaml, move made/01-rl away, and run the pipeline again"
    assert status == 2 and "stage rl: round 1" in err and said in err and "--out" not in err, err
    Path("c.yaml").write_text(yaml.safe_dump({**held["defaults"], **few, "expert_tasks": 0}))
    status, _, err = agentgym("evolve", "--config", "c.yaml", "--out", "alone")
    assert status == 2 and err.endswith("; start again with another --out\n") and "pipeline" not in err, err


def test_a_changed_file_is_refused(agentgym: Run, small_model: str) -> None:
    """Where a stage that is done, or one before it, is another; in one line that names it. Nothing there is touched."""
    for folder in ("made/01-sft", "made/02-evaluate"):
        Path(folder).mkdir(parents=True)
    file = written(short(small_model))
    state = [{"name": s.name, "command": s.command, "settings": s.settings}
             for s in read_stages(read_file(file), file)]  # fmt: skip
    Path("made/pipeline.json").write_text(json.dumps({"stages": state, "done": {"sft": {}, "evaluate": {}}}))
    assert agentgym("pipeline", file, "--list")[1].startswith("1. sft (done)")
    for changes in ({"evaluate": {"tasks": 4}}, {"evaluate": {"name": "measure"}}):
        status, _, err = agentgym("pipeline", written(short(small_model, **changes)))
        assert status == 2 and "was begun with another version of p.yaml" in err and err.count("\n") == 1
        assert "its stage evaluate has changed" in err
    more = short(small_model)
    more["stages"].insert(0, {"stage": "evaluate", "name": "before", "agent": "expert", "tasks": 2})
    assert "its stage sft has changed" in agentgym("pipeline", written(more))[2]
    fewer = short(small_model)
    del fewer["stages"][1]
    assert "its stage evaluate has changed" in agentgym("pipeline", written(fewer))[2]
    Path("other").mkdir()
    Path("other/mine.txt").touch()
    status, _, err = agentgym("pipeline", file, "--out", "other")
    assert status == 2 and "already holds other files" in err
    assert sorted(each.name for each in Path("made").iterdir()) == ["01-sft", "02-evaluate", "pipeline.json"]


def test_a_folder_of_an_earlier_version_has_not_changed(agentgym: Run, small_model: str) -> None:
    """Settings of a stage and of its trainer are compared by their current names."""
    Path("made/01-rl").mkdir(parents=True)
    ppo: dict[str, Any] = {"name": "ppo", "gae_lambda": 0.9}
    held = {"out": "made", "stages": [{"stage": "rl", "model": small_model, "attempts": 2, "trainer": ppo}]}
    stage = read_stages(read_file(written(held)), "p.yaml")[0]
    trainer = dict(stage.settings["trainer"])
    settings = {**stage.settings, "tries": stage.settings["attempts"],
                "trainer": {**trainer, "lam": trainer["gae_lambda"]}}  # fmt: skip
    del settings["attempts"], settings["trainer"]["gae_lambda"]
    old = {"name": "rl", "command": stage.command, "settings": settings}
    Path("made/pipeline.json").write_text(json.dumps({"stages": [old], "done": {"rl": {}}, "begun": {"01-rl": old}}))
    assert agentgym("pipeline", "p.yaml", "--list")[1].startswith("1. rl (done)")
    ppo["gae_lambda"] = 0.8
    assert "its stage rl has changed" in agentgym("pipeline", written(held))[2]


def test_what_is_not_done_yet_may_be_changed(agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage that failed is corrected in the file; one that would be gone on with wants its folder moved first."""
    held = short(small_model, evaluate={"tasks": 3, "prompt": "full"})
    with monkeypatch.context() as patch:
        patch.setattr("agentgym_py.cli.eval._result", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            agentgym("pipeline", written(held))
    assert agentgym("pipeline", "p.yaml", "--list")[1].count("(begun)") == 1
    rows = Path("made/02-evaluate/trajectories.jsonl").read_bytes()
    held["stages"][1]["tasks"] = 2
    status, _, err = agentgym("pipeline", written(held))
    assert status == 2 and "made/02-evaluate was begun with other settings than those of p.yaml: move it away" in err
    assert Path("made/02-evaluate/trajectories.jsonl").read_bytes() == rows
    Path("made/02-evaluate").rename("aside")
    del held["stages"][2]
    held["stages"].append({"stage": "evaluate", "name": "again", "tasks": 2, "split": "valid"})
    assert agentgym("pipeline", written(held))[0] == 0
    assert len(list(store.read("made/02-evaluate/trajectories.jsonl"))) == 2 and Path("made/03-again").is_dir()
    assert not agentgym("pipeline", "p.yaml")[0]


def test_a_folder_goes_on_only_with_what_it_was_begun_with(
    agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the file was changed twice meanwhile: a run would go on by its own settings, not the file's."""
    from agentgym_py.evolution import Evolution

    with monkeypatch.context() as patch:
        patch.setattr(Evolution, "run", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            agentgym("pipeline", written(short(small_model)))
        assert Path("made/01-sft/run.yaml").is_file()
        changed = short(small_model, sft={"seed": 1})
        first = {"stage": "evaluate", "name": "first", "agent": "expert", "tasks": 2}
        patch.setattr("agentgym_py.cli.eval._result", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            agentgym("pipeline", written({**changed, "stages": [first, *changed["stages"]]}))
    status, _, err = agentgym("pipeline", written(changed))
    assert status == 2 and "made/01-sft was begun with other settings than those of p.yaml" in err
    assert agentgym("pipeline", written(short(small_model)))[0] == 0


def test_rounds_that_were_none_better_are_said(agentgym: Run, small_model: str) -> None:
    """Their product is what they began with, which a path alone would tell."""
    held = short(small_model)
    held["stages"] = [
        {"stage": "rl", "model": small_model, "expert_tasks": 0, "rounds": 1, "explore_tasks": 2, "valid_tasks": 1,
         "test_tasks": 0, "allow_empty": True, "env_kwargs": {"max_steps": 1}},
    ]  # fmt: skip
    status, out, err = agentgym("pipeline", written(held))
    assert status == 0, err
    assert "no round improved on Agent_v0 on valid tasks, so Agent_v0 is the product" in out
    assert "no round was better" not in agentgym("pipeline", written(short(small_model)), "--out", "other")[1]


def test_a_done_stages_folder_must_be_there(agentgym: Run, small_model: str) -> None:
    """Before anything runs: what it made is wanted later, or by whoever asks for it."""
    assert agentgym("pipeline", written(short(small_model)))[0] == 0
    Path("made/02-evaluate").rename("aside")
    for words in ((), ("--list",)):
        status, _, err = agentgym("pipeline", "p.yaml", *words)
        assert status == 2 and "stage evaluate is done, but its folder made/02-evaluate is missing" in err
    Path("aside").rename("made/02-evaluate")
    assert agentgym("pipeline", "p.yaml")[0] == 0


def test_whatever_is_interrupted_there_is_one_advice(
    agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pipeline's, of every stage; not the command's own beside it."""

    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    file = written(short(small_model))
    for place, stage in (
        ("agentgym_py.evolution.evolution.Evolution._round", "sft"),
        ("agentgym_py.cli.eval._result", "evaluate"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, interrupt)
            status, _, err = agentgym("pipeline", file)
        assert status == 130 and "to resume" not in err and err.count("resumes") == 1
        assert f"stopped in stage {stage}; agentgym pipeline p.yaml resumes from there\n" in err


def test_an_interrupted_evaluation_goes_on(agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its last episode, as the command itself does."""
    from agentgym_py.evaluation.folder import EvalFolder

    file = written(short(small_model))
    with monkeypatch.context() as patch:
        patch.setattr("agentgym_py.cli.eval._result", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            agentgym("pipeline", file)
    begun, before = EvalFolder.recording, list[int]()

    @contextmanager
    def noted(self: EvalFolder, manifest: Any) -> Iterator[Any]:
        with begun(self, manifest) as played:
            before.append(len(played))
            yield played

    monkeypatch.setattr(EvalFolder, "recording", noted)
    assert agentgym("pipeline", file)[0] == 0 and before == [3]


def test_an_interrupted_pipeline_goes_on(agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of rounds from its last round, another stage from its beginning; what was done stays."""
    from agentgym_py.evolution import Evolution

    held = short(small_model, sft={"rounds": 1, "explore_tasks": 4, "allow_empty": True})
    file, round_of = written(held), Evolution._round

    def interrupted(self: Evolution, number: int) -> None:
        if number == 1:
            raise KeyboardInterrupt
        round_of(self, number)

    with monkeypatch.context() as patch:
        patch.setattr(Evolution, "_round", interrupted)
        status, out, err = agentgym("pipeline", file)
    assert status == 130 and "stopped in stage sft; agentgym pipeline p.yaml resumes from there" in err
    assert "stage 2" not in out
    first = Path("made/01-sft/rounds/00/metrics.json").stat().st_mtime_ns
    Path("made/02-evaluate").mkdir()
    Path("made/02-evaluate/trajectories.jsonl").write_text("{")
    assert agentgym("pipeline", file)[0] == 0
    assert Path("made/01-sft/rounds/00/metrics.json").stat().st_mtime_ns == first
    assert Path("made/01-sft/rounds/01/metrics.json").is_file()
    assert len(list(store.read("made/02-evaluate/trajectories.jsonl"))) == 3


def stopping(done: int, total: int) -> None:
    """The progress of a training that is interrupted halfway."""
    if done == total // 2:
        raise KeyboardInterrupt


def test_an_interrupted_training_goes_on(agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its state, to the weights that it would have come to."""
    often = {"batch_size": 1, "checkpoint_minutes": 0}
    stages = [{"stage": "collect", "tasks": 8}, {"stage": "sft", "model": small_model, "trainer": often, "threads": 1}]
    file = written({"defaults": {"env": "GuessForTests-v0"}, "stages": stages})

    with monkeypatch.context() as patch:
        patch.setattr("agentgym_py.report.terminal.Phases.training", lambda *_: stopping)
        status, _, err = agentgym("pipeline", file, "--out", "made", "--trust", "a host")
    assert status == 130 and f"agentgym pipeline {file} --out made --trust 'a host' resumes from there" in err
    assert any(Path("made/02-sft/trainer").rglob("state-*"))
    status, out, _ = agentgym("pipeline", file, "--out", "made")
    assert status == 0 and "Resuming from the saved state" in out
    assert agentgym("pipeline", file, "--out", "whole")[0] == 0
    held = [json.loads(Path(out, "02-sft/train.json").read_text()) for out in ("made", "whole")]
    assert held[0]["policy_digest"] == held[1]["policy_digest"]


def test_a_training_that_was_killed_at_its_end_goes_on(
    agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its weights there, and not what is written last; what a training that went wrong left is not deleted."""
    often = {"batch_size": 1, "checkpoint_minutes": 0}
    stages = [{"stage": "collect", "tasks": 8}, {"stage": "sft", "model": small_model, "trainer": often, "threads": 1},
              {"stage": "evaluate", "tasks": 2, "max_new_tokens": 4}]  # fmt: skip
    file, save = written({"defaults": {"env": "GuessForTests-v0"}, "stages": stages}), Policy.save

    def killed(self: Policy, folder: Any) -> None:
        save(self, folder)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("agentgym_py.report.terminal.Phases.training", lambda *_: stopping)
        assert agentgym("pipeline", file, "--out", "made")[0] == 130
    with monkeypatch.context() as patch:
        patch.setattr(Policy, "save", killed)
        assert agentgym("pipeline", file, "--out", "made")[0] == 130
    assert Path("made/02-sft/checkpoint").is_dir() and not Path("made/02-sft/train.json").exists()
    Path("made/02-sft").rename("kept")
    Path("made/02-sft/last_good").mkdir(parents=True)
    status, _, err = agentgym("pipeline", file, "--out", "made")
    assert status == 2 and "made/02-sft holds last_good" in err and Path("made/02-sft/last_good").is_dir()
    assert "move made/02-sft away" in err
    Path("made/02-sft").rename("wrong")
    Path("kept").rename("made/02-sft")
    status, out, err = agentgym("pipeline", file, "--out", "made")
    assert status == 0 and "all 3 stages are done" in out, err


@pytest.mark.parametrize(
    ("held", "complaint"),
    [
        ([], "p.yaml: expected a mapping with a list of `stages`"),
        ({"stages": []}, "p.yaml: `stages` is empty; a stage has one of the kinds sft, collect"),
        (
            {"stagse": [], "stages": [{"stage": "sft"}]},
            "no key 'stagse'; the keys are defaults, out, stages; did you mean stages?",
        ),
        ({"stages": [{"stage": "sfd"}]}, "no kind of stage 'sfd'; choose from"),
        ({"stages": [{"name": "sft"}]}, "stage 1 must be a mapping with `stage: KIND`"),
        (
            {"stages": [{"stage": "evaluate"}, {"stage": "evaluate"}]},
            "stage 2 is the second one called 'evaluate'; give it a `name`",
        ),
        ({"stages": [{"stage": "evaluate", "name": "a/b"}]}, "stage 1 needs a name of letters, digits, - and _"),
        (
            {"stages": [{"stage": "sft", "expert_task": 3}]},
            "stage sft: expert_task: no such setting; did you mean expert_t",
        ),
        (
            {"stages": [{"stage": "sft", "trainer": {"epoch": 3}}]},
            "trainer.epoch: no such setting; did you mean trainer.ep",
        ),
        ({"stages": [{"stage": "sft", "expert_tasks": "some"}]}, "stage sft: --expert_tasks: expected a whole number"),
        ({"stages": [{"stage": "rl", "trainer": {"name": "ppp"}}]}, "Did you mean 'ppo'?"),
        ({"stages": [{"stage": "rl", "trainer": {"name": "ppo", "gamma": 2}}]}, "stage rl: --trainer.gamma, "),
        ({"stages": [{"stage": "rl", "reward_model": "$judge"}]}, "$judge names no earlier stage"),
        ({"stages": [{"stage": "sft", "out": "here"}]}, "stage sft: out is set by the pipeline"),
        ({"defaults": {"colour": 1}, "stages": [{"stage": "sft"}]}, "no stage takes the default 'colour'"),
        ({"out": 5, "stages": [{"stage": "sft"}]}, "p.yaml: out must be a folder's name, got 5"),
        ({"out": "", "stages": [{"stage": "sft"}]}, "--out DIR is needed, or `out: DIR` in p.yaml"),
        ({"stages": [{"stage": "rl", "trainer": "ppp"}]}, "p.yaml: stage rl: "),
        ({"stages": [{"stage": "export", "model": "$x"}]}, "p.yaml: stage export: $x names no earlier stage"),
        ({"defaults": [1], "stages": [{"stage": "sft"}]}, "p.yaml: defaults must be a mapping"),
    ],
)
def test_mistakes_are_one_line_before_anything_runs(agentgym: Run, held: Any, complaint: str) -> None:
    """With status 2, and nothing is written."""
    status, out, err = agentgym("pipeline", written({"out": "made", **held} if isinstance(held, dict) else held))
    assert status == 2 and not out and complaint in err and err.count("\n") == 1
    assert [each.name for each in Path().iterdir()] == ["p.yaml"]


def test_a_file_that_is_not_yaml_is_one_line(agentgym: Run) -> None:
    """The message names the file; there is no traceback."""
    Path("p.yaml").write_text("stages: [a")
    status, out, err = agentgym("pipeline", "p.yaml")
    assert status == 2 and not out and "p.yaml is not readable as YAML" in err and err.count("\n") == 1


SAMPLES = {"stage": "collect", "name": "samples", "tasks": 4}


@pytest.mark.parametrize(
    ("stages", "complaint"),
    [
        ([{"stage": "collect", "env": "shp"}], "stage collect: "),
        ([{"stage": "collect", "tasks": 0, "forks": -1}], "stage collect: --tasks must be a number of at least 1"),
        ([{"stage": "collect", "tasks": 1000, "env": "shop", "env_kwargs": {"goals": "human"}}],
         "--tasks asks for 1000 train tasks"),
        ([{"stage": "evaluate", "model": "tiny", "split": "nope"}], "stage evaluate: "),
        ([{"stage": "sft", "data": ["nope.jsonl"]}], "stage sft: data: nope.jsonl: no such file"),
        ([SAMPLES, {"stage": "sft", "data": "p.yaml,$samples"}], "stage sft: data: $samples: no such file"),
        ([SAMPLES, {"stage": "sft", "trainer": "grpo"}], "stage sft: grpo is on-policy"),
        ([SAMPLES, {"stage": "sft", "trainer": "reward_model"}], "stage sft: --trainer must train a policy"),
        ([SAMPLES, {"stage": "sft", "trainer": "process_reward"}], "stage sft: --trainer must train a policy"),
        ([{"stage": "rl", "trainer": "reward_model"}], "stage rl: --trainer must train a policy"),
        ([SAMPLES, {"stage": "reward_model", "trainer": "dpo"}], "stage reward_model: the trainer makes a policy"),
        ([SAMPLES, {"stage": "reward_model", "trainer": "filtered_bc"}], "the trainer makes a policy"),
        ([{"stage": "rl", "trainer": "ppo", "reward_model": "/nowhere"}], "reward_model: '/nowhere' holds no"),
        ([{"stage": "rl", "trainer": {"name": "r3", "prm": "/nowhere"}}], "stage rl: prm: '/nowhere' holds no"),
        ([SAMPLES, {"stage": "reward_model"}, {"stage": "rl", "trainer": {"name": "r3", "prm": "$reward_model"}}],
         "stage rl: prm must be the process_reward of a stage, but $reward_model makes a reward_model"),
        ([SAMPLES, {"stage": "reward_model"}, {"stage": "rl", "reward_model": "$reward_model"}],
         "stage rl: --reward_model needs an on-policy trainer"),
        ([SAMPLES, {"stage": "evaluate", "model": "$samples"}], "model must be the policy of a stage"),
        ([{"stage": "evaluate", "model": "nothing"}], "stage evaluate: no model 'nothing'"),
        ([{"stage": "export", "model": "nothing"}], "stage export: no model 'nothing'"),
        ([{"stage": "judge", "source": "expert"}], "stage judge: --data FILE is needed"),
        ([SAMPLES, {"stage": "judge", "source": {"name": "expert", "speed": 1}}], "stage judge: "),
        ([SAMPLES, {"stage": "sft", "feedback": "none.jsonl"}], "feedback: none.jsonl: no such file"),
        ([SAMPLES, {"stage": "sft", "feedback": "$samples"}],
         "stage sft: feedback must be the feedback of a stage, but $samples makes a trajectories"),
    ],
)  # fmt: skip
def test_every_command_is_asked_before_anything_runs(agentgym: Run, stages: Any, complaint: str) -> None:
    """What it would refuse, inputs that are not there, a trainer that makes something else: with --list, too."""
    plays = {"collect", "rl", "evaluate"} & {each["stage"] for each in stages}
    defaults = {"env": "GuessForTests-v0"} if plays and all("env" not in each for each in stages) else {}
    status, out, err = agentgym("pipeline", written({"out": "made", "defaults": defaults, "stages": stages}), "--list")
    assert status == 2 and not out and complaint in err and err.count("\n") == 1
    assert err.startswith("agentgym: p.yaml: stage ") and not Path("made").exists()


def test_stages_that_are_done_need_nothing_any_more(agentgym: Run) -> None:
    """What they were made of may be gone."""
    Path("played.jsonl").touch()
    held = {"out": "made", "stages": [{"stage": "sft", "data": ["played.jsonl"], "model": "tiny"}]}
    file = written(held)
    assert agentgym("pipeline", file, "--list")[0] == 0
    Path("made/01-sft").mkdir(parents=True)
    state = [{"name": s.name, "command": s.command, "settings": s.settings} for s in read_stages(read_file(file), file)]
    Path("made/pipeline.json").write_text(json.dumps({"stages": state, "done": {"sft": {}}}))
    Path("played.jsonl").unlink()
    assert agentgym("pipeline", file)[0] == 0


@pytest.mark.parametrize("text", ["{}", '{"stages": 3, "done": {}}', '{"stages": [1], "done": {}}', '{"stages": []}'])
def test_a_damaged_state_is_one_line(agentgym: Run, text: str) -> None:
    """Whatever JSON stands there."""
    Path("made").mkdir()
    Path("made/pipeline.json").write_text(text)
    status, _, err = agentgym("pipeline", written({"out": "made", "stages": [{"stage": "sft"}]}))
    assert status == 2 and "made/pipeline.json is damaged" in err and err.count("\n") == 1


def test_only_a_policy_of_an_earlier_stage_needs_no_expert(agentgym: Run) -> None:
    """A base of the stage's own is made an Agent_v0 first."""
    for own, tasks in (({}, True), ({"model": "$sft"}, True), ({"model": "tiny"}, False), ({"expert_tasks": 7}, False)):
        held = {"stages": [{"stage": "sft"}, {"stage": "rl", **own}]}
        rl = read_stages(held, "p.yaml")[1]
        assert (rl.settings.get("expert_tasks") == 0) is tasks, own


def test_defaults_yield_to_a_stage(agentgym: Run) -> None:
    """Its own trainer decides which options there are; defaults that are left empty are none."""
    defaults = {"trainer": {"name": "grpo"}, "cloner": {"epochs": 1}}
    stages = [{"stage": "sft", "name": "first", "trainer": {"name": "filtered_bc"}}, {"stage": "sft"}]
    status, out, err = agentgym("pipeline", written({"out": "made", "defaults": defaults, "stages": stages}), "--list")
    assert status == 0 and out.count("cloner") == 1, err
    Path("p.yaml").write_text("out: made\ndefaults:\nstages: [{stage: sft}]\n")
    assert agentgym("pipeline", "p.yaml", "--list")[0] == 0


def test_a_stage_that_fails_is_named(agentgym: Run, small_model: str) -> None:
    """In front of what its command says."""
    status, _, err = agentgym("pipeline", written(short("nothing-like-it")))
    assert status == 2 and err.startswith("agentgym: p.yaml: stage sft: no model 'nothing-like-it'")
    assert agentgym("pipeline", "no.yaml")[0] == 2


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_run(agentgym: Run, small_model: str, path: Path) -> None:
    """Every stage of every shipped file, made small, in a world of numbers; the file as it is is in order, too."""
    status, out, _ = agentgym("pipeline", str(path), "--list")
    held = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert status == 0 and len(out.splitlines()) == 2 * len(held["stages"])
    if path.stem in ("team", "rlhf-small"):
        return  # the world of numbers has one role; the small file has the stages of rlhf
    held["defaults"] |= {"env": "GuessForTests-v0", "model": small_model, "threads": 1}
    for stage in held["stages"]:
        stage |= SIZES.get(stage["stage"], {})
        if stage["stage"] == "rl" and stage["trainer"]["name"] != "filtered_bc":
            stage["trainer"] |= LEARNING
        elif path.stem == "rlhf" and stage["stage"] == "collect":
            del stage["temperature"]  # so small a model never does better once than at another time
            stage |= {"agent": "random", "env_kwargs": {"max_steps": 5}}
        elif stage["stage"] == "reward_model":
            stage["trainer"]["epochs"] = 1
    status, out, err = agentgym("pipeline", written(held))
    assert status == 0, err
    assert out.endswith(f"all {len(held['stages'])} stages are done\n")
    for number, stage in enumerate(held["stages"], 1):
        assert any(Path(held["out"]).glob(f"{number:02d}-*/*")), stage
    if path.stem == "rlhf":
        metrics = json.loads(next(Path(held["out"]).glob("*-rl/rounds/01/metrics.json")).read_text())
        returns = [row["return"] for row in metrics["training"]["history"]]
        assert returns and metrics["explored"]["reward"]["value"] not in returns, "it learns from the model's scores"
        card = next(Path(held["out"]).glob("*-export/README.md")).read_text(encoding="utf-8")
        assert str(Path.cwd()) not in card and str(Path(small_model).parent) not in card
        assert "| base | 01-sft, round 0 | " in card
        last = next(Path(held["out"]).glob("*-rl"))
        assert agentgym("export", str(last), "--round", "1", "--out", "last")[0] == 0
        card = Path("last/README.md").read_text(encoding="utf-8")
        for made in ("| reward model | 03-reward_model |", "| base | 01-sft, round 0 | ", "| data | 02-samples | "):
            assert made in card, card


def test_the_planner_of_the_example_learns_with_the_executor_of_the_stage_before() -> None:
    """It starts from the base, with demonstrations; its partner, and that of the evaluation, is the executor."""
    file = str(next(path for path in EXAMPLES if path.stem == "team"))
    executor, planner, evaluation = read_stages(read_file(file), file)
    assert executor.settings["roles"] == "executor" and "partner_model" not in executor.settings["env_kwargs"]
    assert planner.settings["model"] == "tiny" and planner.settings["expert_tasks"] == 50
    for stage in (planner, evaluation):
        made = substitute(stage.settings, {"executor": "folder", "planner": "other"})
        assert made["env_kwargs"] == {"difficulty": "hard", "partner_model": "folder"}


GUIDES = sorted((Path(__file__).parents[2] / "docs" / "guides").glob("*.md"))
SNIPPETS = [
    pytest.param(block, id=f"{path.stem}-{number}")
    for path in GUIDES
    for number, block in enumerate(re.findall(r"(?ms)^```yaml\n(.*?)^```", path.read_text(encoding="utf-8")))
    if re.search(r"(?m)^stages:", block)
]


@pytest.mark.parametrize("block", SNIPPETS)
def test_the_pipelines_of_the_guides_are_in_order(agentgym: Run, block: str) -> None:
    """Each YAML block with stages passes the checks before a pipeline runs."""
    Path("p.yaml").write_text(block, encoding="utf-8")
    status, out, err = agentgym("pipeline", "p.yaml", "--list", "--out", "listed")
    assert status == 0 and out.startswith("1. "), err


def test_there_are_examples() -> None:
    """Those that the docs name; the small one differs from the other in its sizes only."""
    files = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in EXAMPLES}
    assert set(files) == {"agentevol", "r3", "rlhf", "rlhf-small", "team"}
    sizes = {"expert_tasks", "valid_tasks", "test_tasks", "tasks", "rounds", "explore_tasks", "patience"}
    small, whole = (
        [{key: value for key, value in stage.items() if key not in sizes} for stage in files[name]["stages"]]
        for name in ("rlhf-small", "rlhf")
    )
    assert small[3]["trainer"].pop("tasks_per_iteration") == 16 and small == whole
