"""Pipelines: each stage on what the one before made, gone on with after an interruption, and the examples."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("torch")

from agentgym_py import store
from agentgym_py.cli import pipeline
from agentgym_py.policy import Policy

Run = Callable[..., tuple[int, str, str]]
EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "pipelines").glob("*.yaml"))
FEW = {"valid_tasks": 2, "test_tasks": 2, "max_new_tokens": 8, "allow_empty": True}
SIZES: dict[str, dict[str, Any]] = {
    "sft": {"expert_tasks": 8, **FEW}, "collect": {"tasks": 8, "attempts": 3, "max_new_tokens": 8},
    "rl": {"rounds": 1, "explore_tasks": 16, **FEW}, "evaluate": {"tasks": 4, "max_new_tokens": 8},
}  # fmt: skip
"""Options by kind that make a stage small."""
LEARNING = {"batch_tasks": 4, "epochs": 1}


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
    assert status == 0 and not err
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
    assert status == 0 and [line for line in out.splitlines() if "done before" in line] == [
        f"stage {n} of 3, {name}: done before" for n, name in enumerate(("sft", "evaluate", "export"), 1)
    ]
    assert before == {each: each.stat().st_mtime_ns for each in Path("made").rglob("*") if each.parent != Path("made")}
    status, out, _ = agentgym("pipeline", file, "--list")
    assert status == 0 and out.startswith("1. sft (done): agentgym evolve, 01-sft\n") and "what: $sft" in out


def test_a_changed_file_is_refused(agentgym: Run, small_model: str) -> None:
    """In one line that names the stage; nothing of what is there is touched."""
    Path("made").mkdir()
    file = written(short(small_model))
    state = [{"name": s.name, "command": s.command, "settings": s.settings}
             for s in pipeline._stages(pipeline._read(file), file)]  # fmt: skip
    Path("made/pipeline.json").write_text(json.dumps({"stages": state, "done": {"sft": {}}}))
    assert agentgym("pipeline", file, "--list")[1].startswith("1. sft (done)")
    for changes in ({"evaluate": {"tasks": 4}}, {"evaluate": {"name": "measure"}}):
        status, _, err = agentgym("pipeline", written(short(small_model, **changes)))
        assert status == 2 and "was begun by another pipeline than p.yaml says now" in err and err.count("\n") == 1
        assert ("measure" if "name" in changes["evaluate"] else "evaluate") in err
    fewer = short(small_model)
    fewer["stages"].pop()
    assert "its stage export differs" in agentgym("pipeline", written(fewer))[2]
    Path("other").mkdir()
    Path("other/mine.txt").touch()
    status, _, err = agentgym("pipeline", file, "--out", "other")
    assert status == 2 and "already holds other files" in err
    assert [each.name for each in Path("made").iterdir()] == ["pipeline.json"]


def test_an_interrupted_pipeline_goes_on(agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of rounds from its last round, another stage from its beginning; what was done stays."""
    from agentgym_py.evolve import Evolution

    held = short(small_model, sft={"rounds": 1, "explore_tasks": 4, "allow_empty": True})
    file, round_of = written(held), Evolution._round

    def interrupted(self: Evolution, number: int) -> None:
        if number == 1:
            raise KeyboardInterrupt
        round_of(self, number)

    with monkeypatch.context() as patch:
        patch.setattr(Evolution, "_round", interrupted)
        status, out, err = agentgym("pipeline", file)
    assert status == 130 and "stopped in stage sft; the same command goes on from there" in err and "stage 2" not in out
    first = Path("made/01-sft/rounds/00/metrics.json").stat().st_mtime_ns
    Path("made/02-evaluate").mkdir()
    Path("made/02-evaluate/trajectories.jsonl").write_text("{")
    assert agentgym("pipeline", file)[0] == 0
    assert Path("made/01-sft/rounds/00/metrics.json").stat().st_mtime_ns == first
    assert Path("made/01-sft/rounds/01/metrics.json").is_file()
    assert len(list(store.read("made/02-evaluate/trajectories.jsonl"))) == 3


@pytest.mark.parametrize(
    ("held", "complaint"),
    [
        ([], "p.yaml holds no pipeline"),
        ({"stages": []}, "p.yaml holds no pipeline"),
        ({"stagse": [], "stages": [{"stage": "sft"}]}, "no key 'stagse' (did you mean stages?)"),
        ({"stages": [{"stage": "sfd"}]}, "no kind of stage 'sfd' (did you mean sft?)"),
        ({"stages": [{"name": "sft"}]}, "stage 1 is no mapping with `stage: KIND`"),
        ({"stages": [{"stage": "evaluate"}, {"stage": "evaluate"}]}, "stage 2 needs a name of its own"),
        (
            {"stages": [{"stage": "sft", "expert_task": 3}]},
            "stage sft: no setting 'expert_task' (did you mean expert_t",
        ),
        (
            {"stages": [{"stage": "sft", "trainer": {"epoch": 3}}]},
            "no setting 'trainer.epoch' (did you mean trainer.ep",
        ),
        ({"stages": [{"stage": "sft", "expert_tasks": "some"}]}, "stage sft: --expert_tasks: expected int"),
        ({"stages": [{"stage": "rl", "trainer": {"name": "ppp"}}]}, "Did you mean 'ppo'?"),
        ({"stages": [{"stage": "rl", "trainer": {"name": "ppo", "gamma": 2}}]}, "stage rl: --trainer.gamma, "),
        ({"stages": [{"stage": "rl", "reward_model": "$judge"}]}, "$judge is the product of no stage before"),
        ({"stages": [{"stage": "sft", "out": "here"}]}, "stage sft: out is not a stage's to say"),
        ({"defaults": {"colour": 1}, "stages": [{"stage": "sft"}]}, "no stage takes the default 'colour'"),
        ({"stages": [{"stage": "sft"}]}, "--out DIR wanted, or `out: DIR` in p.yaml"),
    ],
)
def test_mistakes_are_one_line_before_anything_runs(agentgym: Run, held: Any, complaint: str) -> None:
    """With status 2, and nothing is written."""
    status, out, err = agentgym("pipeline", written(held))
    assert status == 2 and not out and complaint in err and err.count("\n") == 1
    assert [each.name for each in Path().iterdir()] == ["p.yaml"]


def test_a_stage_that_fails_is_named(agentgym: Run, small_model: str) -> None:
    """In front of what its command says."""
    status, _, err = agentgym("pipeline", written(short("nothing-like-it")))
    assert status == 2 and err.startswith("agentgym: stage sft: no model 'nothing-like-it'")
    assert agentgym("pipeline", "no.yaml")[0] == 2


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_run(agentgym: Run, small_model: str, path: Path) -> None:
    """Every stage of every shipped file, made small, in a world of numbers; the file as it is is in order, too."""
    status, out, _ = agentgym("pipeline", str(path), "--list")
    held = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert status == 0 and len(out.splitlines()) == 2 * len(held["stages"])
    held["defaults"] |= {"env": "GuessForTests-v0", "model": small_model, "threads": 1}
    for stage in held["stages"]:
        stage |= SIZES.get(stage["stage"], {})
        if stage["stage"] == "rl" and stage["trainer"]["name"] != "filtered_bc":
            stage["trainer"] |= LEARNING
        elif path.stem == "rlhf" and stage["stage"] == "collect":
            del stage["temperatures"]  # so small a model never does better once than at another time
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


def test_there_are_examples() -> None:
    """The three that the docs name."""
    assert {path.stem for path in EXAMPLES} == {"agentevol", "r3", "rlhf"}
