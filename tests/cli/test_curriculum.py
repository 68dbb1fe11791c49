"""`--curriculum`, `--levels` and `--horizon` of `evolve`: what is stored, said, drawn and refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from agentgym_py.cli.evolve_settings import add_settings
from agentgym_py.cli.parser import Parser
from agentgym_py.cli.values import expand_plugins, load_yaml, plugin_names
from agentgym_py.training.settings import current_settings
from agentgym_py.trajectory import store

pytest.importorskip("torch")
Run = Callable[..., tuple[int, str, str]]
SMALL = (
    "--env", "maze", "--preset", "smoke", "--max_new_tokens", "4", "--expert_tasks", "0", "--explore_tasks", "3",
    "--valid_tasks", "1", "--test_tasks", "0", "--env_kwargs.max_steps", "4", "--threads", "1",
)  # fmt: skip
CURRICULUM = '''
from dataclasses import dataclass

@dataclass
class Steps:
    """One level further in each round."""

    skip: int = 0
    """Levels left out."""

    def weights(self, levels, history):
        return [float(number == len(history) + self.skip) for number in range(len(levels))]
'''


def test_a_run_has_a_curriculum_of_its_own_and_resumes_with_it(
    agentgym: Run, small_model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is declared in run.yaml with its horizon, said before the run and after each round, and drawn."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "steep_for_tests.py").write_text(CURRICULUM)
    words = ("--curriculum", "steep_for_tests.py", "--curriculum.skip", "1", "--horizon", "2,3", "--rounds", "2")
    status, out, err = agentgym("evolve", *SMALL, "--model", small_model, "--out", "run", *words)
    assert status == 0, err
    assert "of maze: exploration at easy, medium, hard; demonstrations and evaluations at easy." in out
    assert "Episodes of exploration end after 2 steps, then 3 steps" in out
    assert "exploration: maze medium 0.0 %" in out and "of 3, at most 3 steps" in out
    source = str(Path("steep_for_tests.py").absolute())
    settings = yaml.safe_load(Path("run/run.yaml").read_text())
    assert settings["curriculum"] == {"name": source, "skip": 1} and settings["horizon"] == [2, 3]
    assert [list(json.loads(Path(f"run/rounds/0{n}/metrics.json").read_text())["valid"]["by_difficulty"])
            for n in range(3)] == [["easy"]] * 3  # fmt: skip
    played = [list(store.read(f"run/rounds/0{n}/trajectories.jsonl")) for n in (1, 2)]
    assert [{(t.difficulty, len(t.steps)) for t in episodes} for episodes in played] == [{("medium", 2)}, {("hard", 3)}]
    page = Path("run/report.html").read_text(encoding="utf-8")
    for text in (
        "Level of exploration",
        "Success of exploration by level",
        "Horizon of exploration",
        "evaluated at easy",
    ):
        assert text in page
    Path("run/test.json").unlink()
    status, _, err = agentgym("evolve", "--resume", "run")
    assert status == 2 and f"--trust {source}" in err
    status, _, err = agentgym("evolve", "--resume", "run", "--rounds", "3", "--trust", source)
    assert status == 2 and "--horizon needs one number, or one for each round: it has 2 for 3 rounds" in err
    status, out, err = agentgym("evolve", "--resume", "run", "--trust", source)
    assert status == 0 and "exploration at easy, medium, hard" in out, err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--curriculum dificulty", "No curriculum 'dificulty' is installed. Did you mean 'difficulty'"),
        ("--curriculum difficulty --curriculum.threshold 2", "--curriculum.threshold must be a number above 0 and at"),
        ("--curriculum difficulty --curriculum.treshold 0.5", "no such option; did you mean --curriculum.threshold?"),
        ("--curriculum.threshold 0.5", "--curriculum.threshold needs --curriculum NAME"),
        ("--curriculum difficulty --levels easy,hart", "--levels: maze: difficulty must be one of easy, medium, hard"),
        ("--curriculum difficulty --env GUESS", "--curriculum needs a world with difficulties, and"),
        ("--levels easy", "--levels needs --curriculum NAME"),
        ("--horizon 10,20 --rounds 3", "--horizon needs one number, or one for each round: it has 2 for 3 rounds"),
        ("--horizon 10,many", "--horizon: '10,many' is not what it takes (expected a whole number, got 'many')"),
        ("--explore_max_steps 3", "no such option; did you mean --horizon?"),
    ],
)
def test_a_wrong_curriculum_is_refused(agentgym: Run, words: str, message: str) -> None:
    """In one line, before anything is loaded."""
    env = () if "--env" in words else ("--env", "maze")
    status, _, err = agentgym("evolve", *env, *words.split())
    assert status == 2 and message in err and err.count("\n") == 1, err


def test_a_pipeline_checks_a_curriculum(agentgym: Run) -> None:
    """By name or with settings, in a stage or in the defaults."""
    stage = {"stage": "rl", "env": "maze", "curriculum": {"name": "difficulty", "threshold": 2}}
    Path("file.yaml").write_text(yaml.safe_dump({"out": "p", "stages": [stage]}))
    status, _, err = agentgym("pipeline", "file.yaml", "--list")
    assert status == 2 and "curriculum.threshold must be a number above 0 and at most 1" in err
    defaults = {"curriculum": "difficulty", "horizon": [5, 10, 20], "levels": "easy,medium"}
    stages = [{"stage": "sft", "env": "maze"}, {"stage": "rl", "env": "maze"}]
    Path("file.yaml").write_text(yaml.safe_dump({"out": "p", "defaults": defaults, "stages": stages}))
    status, out, err = agentgym("pipeline", "file.yaml", "--list")
    assert status == 0 and "difficulty" in out, (out, err)


def test_names_of_plugins_are_short_in_files() -> None:
    """The name alone, or a mapping with the settings."""
    settings = load_yaml("trainer: dpo\ncurriculum: {name: learnable}\nrounds: 2\n")
    assert settings == {"trainer": {"name": "dpo"}, "curriculum": {"name": "learnable"}, "rounds": 2}
    assert plugin_names(settings) == {"trainer": "dpo", "curriculum": "learnable"}
    assert expand_plugins({"curriculum": None, "seed": 1}) == {"curriculum": {"name": None}, "seed": 1}
    assert plugin_names({"curriculum": None, "trainer": {"beta": 1}}) == {}


def test_the_horizon_of_an_earlier_version_is_read() -> None:
    """Its name was `explore_max_steps`, and it was one number or none."""
    for value, horizon in ((30, [30]), (None, [])):
        stored = current_settings({"explore_max_steps": value, "trainer": {"name": "filtered_bc"}})
        parser = Parser("agentgym evolve")
        add_settings(parser, "filtered_bc", {})
        assert parser.read_mapping(stored, "run.yaml")["horizon"] == horizon
