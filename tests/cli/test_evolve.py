"""`agentgym evolve`, `train` and `eval` with a model of a few thousand weights."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path
from threading import Barrier
from typing import Any, ClassVar

import pytest
import yaml

from agentgym_envs.maze.env import MazeEnv
from agentgym_envs.shop.env import ShopEnv
from agentgym_py import registry, trust
from agentgym_py.agents import ExpertAgent
from agentgym_py.cli import build_parser, command_module, evolve_folder, evolve_settings
from agentgym_py.cli.argv import normalize_argv
from agentgym_py.cli.curriculum_options import curriculum_lines
from agentgym_py.cli.env_options import warn_of_training_tasks
from agentgym_py.cli.evolve_defaults import chosen_by_worlds
from agentgym_py.cli.evolve_header import header, learning_rates, round_lines
from agentgym_py.cli.evolve_settings import evolve_config, read_settings
from agentgym_py.cli.saved_settings import saved_settings
from agentgym_py.cli.train import is_interrupted
from agentgym_py.cli.trainer_options import read_cloner, read_trainer
from agentgym_py.collection import Collector, Job
from agentgym_py.env import EnvSpec
from agentgym_py.env.registration import env_plugins
from agentgym_py.errors import PolicyError, RunError, naming_options
from agentgym_py.evolution import EvolveConfig
from agentgym_py.evolution.entrants import load_entrant
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.report.page import SMOKE
from agentgym_py.training import TrainReport
from agentgym_py.training.settings import RENAMED
from agentgym_py.training.trainer import TrainerInfo
from agentgym_py.trajectory import store
from agentgym_py.trajectory.selectors import SelectConfig, build_selector
from agentgym_trainers.filtered_bc import FilteredBC

pytest.importorskip("accelerate")
IDLE = """
from dataclasses import dataclass

from agentgym_py.training import TrainReport


@dataclass(frozen=True)
class Idle:
    def train(self, policy, trajectories, *, seed, output_dir, progress=None):
        return TrainReport(len(trajectories), {}, 1, 1, 0.0, [1.0])
"""
Run = Callable[..., tuple[int, str, str]]
SMALL = (
    "--env", "GUESS", "--preset", "smoke", "--max_new_tokens", "4", "--expert_tasks", "8", "--explore_tasks", "4",
    "--valid_tasks", "3", "--test_tasks", "3", "--env_kwargs.max_steps", "3", "--threads", "1",
)  # fmt: skip


def parsed(*argv: str) -> Any:
    """What the options of `evolve` come to."""
    words = normalize_argv(["evolve", *argv])
    return build_parser("evolve", words[1:]).parse(words[1:])


def config_of(*argv: str) -> Any:
    """The `EvolveConfig` of options."""
    return evolve_config(parsed(*argv))


# ------------------------------------------------------------------------------------------------------------- options


def test_options_come_with_dots_hyphens_and_underscores(agentgym: Run) -> None:
    """`--explore-tasks` is `--explore_tasks`; dots reach into the selector and the trainer."""
    given = parsed("--explore-tasks", "7", "--select.threshold=0.9", "--trainer.learning-rate", "1e-4", "--allow-empty")
    config = evolve_config(given)
    assert (config.explore_tasks, config.select.threshold, config.allow_empty) == (7, 0.9, True)
    assert given["trainer.learning_rate"] == 1e-4 and given["trainer.name"] == "filtered_bc"


def test_a_config_file_gives_way_to_the_command_line(agentgym: Run) -> None:
    """YAML sets anything; what stands on the command line wins; lists are replaced, not joined."""
    Path("c.yaml").write_text("env: [a, b]\nrounds: 9\nattempts: 2\ntrainer: filtered_bc\nselect: {per_task: 3}\n")
    given = parsed("--config", "c.yaml", "--rounds", "5", "--env", "x", "--env", "y,z")
    config = evolve_config(given)
    assert (config.rounds, config.attempts, config.select.per_task) == (5, 2, 3) and given["env"] == ["x", "y", "z"]


def test_folders_of_a_trainer_are_whole_paths(agentgym: Run) -> None:
    """In the trainer, whose states know it by its settings, and in run.yaml, which is read from any folder."""
    given = parsed("--trainer", "r3", "--trainer.prm", "judge/process_reward")
    here = str(Path("judge/process_reward").absolute())
    assert read_trainer(given).prm == saved_settings(given, [EnvSpec("shop")])["trainer"]["prm"] == here
    given = parsed("--trainer", "r3")
    assert read_trainer(given).prm is saved_settings(given, [EnvSpec("shop")])["trainer"]["prm"] is None


def test_a_preset_gives_way_to_config_and_command_line(agentgym: Run) -> None:
    """The preset only changes defaults, the trainer's too; a file may name it."""
    smoke = config_of("--preset", "smoke")
    assert smoke.rounds == 1 and parsed("--preset", "smoke")["trainer.epochs"] == 1
    Path("c.yaml").write_text("preset: smoke\nattempts: 3\n")
    config = config_of("--config", "c.yaml", "--rounds", "2")
    assert (config.rounds, config.attempts, config.expert_tasks) == (2, 3, smoke.expert_tasks)


def test_a_trainer_changes_the_defaults_of_the_rounds(agentgym: Run) -> None:
    """One that compares wants several tries and failures, too; a preset, a file and the command line win over it."""
    config = config_of("--trainer", "dpo")
    assert (config.attempts, config.explore_tasks) == (4, 250) and not config.select.success_only
    assert config.select.threshold == -math.inf and config_of() == EvolveConfig(**ShopEnv.evolve_defaults)
    assert config.attempts * config.explore_tasks == EvolveConfig().attempts * EvolveConfig().explore_tasks
    smoke = config_of("--trainer", "dpo", "--preset", "smoke")
    assert (smoke.attempts, smoke.explore_tasks, smoke.select.threshold) == (4, 8, 0.0)
    assert config_of("--trainer", "dpo", "--attempts", "2").attempts == 2
    Path("c.yaml").write_text("attempts: 3\nselect: {threshold: 0.5}\n")
    config = config_of("--config", "c.yaml", "--trainer", "dpo")
    assert (config.attempts, config.select.threshold, config.explore_tasks) == (3, 0.5, 250)


def test_a_trainer_has_its_cloner_with_settings_of_its_own(agentgym: Run) -> None:
    """`--cloner.NAME` are those of the trainer that makes Agent_v0; one without a cloner has no such options."""
    given = parsed("--trainer", "dpo", "--cloner.epochs", "5", "--trainer.epochs", "3")
    assert read_cloner(given) == FilteredBC(epochs=5) and read_cloner(parsed()) is None
    status, _, err = agentgym("evolve", "--cloner.epochs", "5")
    assert status == 2 and "--cloner.epochs" in err
    status, out, _ = agentgym("evolve", "--trainer", "dpo", "--cloner.epochs", "5", "--print_config")
    held = yaml.safe_load(out)
    assert status == 0 and held["cloner"]["epochs"] == 5 and held["select"]["threshold"] == -math.inf


def test_print_config_is_a_config_file(agentgym: Run) -> None:
    """What `--print_config` prints is read back by `--config`."""
    status, out, _ = agentgym("evolve", "--rounds", "8", "--print_config")
    Path("c.yaml").write_text(out)
    assert status == 0 and config_of("--config", "c.yaml").rounds == 8


# ------------------------------------------------------------------------------------------------------------- the run


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the run of `finished` is kept for the other tests."""
    return tmp_path_factory.mktemp("runs") / "run"


@pytest.fixture
def finished(agentgym: Run, small_model: str, original: Path) -> Path:
    """A copy of a run of one round."""
    if not original.exists():
        finish(agentgym, small_model)
        shutil.move("run", original)
    return Path(shutil.copytree(original, "run"))


def finish(agentgym: Run, small_model: str) -> None:
    """Make the run, and check what the command prints."""
    status, out, err = agentgym("evolve", *SMALL, "--model", small_model, "--out", "run")
    assert status == 0, err
    assert "test split" in out and "report: run/report.html" in out and "{'loss'" not in out
    start, _, end = out.partition("valid success")
    assert SMOKE not in start and end.count(f"\n{SMOKE}\n") == 1 and "Failed episodes are selected, too: " in start
    assert SMOKE in Path("run/report.html").read_text(encoding="utf-8").partition("<dl")[0]
    assert "\n  round 0, fair expert: 8 episodes" in out and "       the fair expert: kept 8 of 8" in out


def test_a_run_leaves_its_folder_and_can_be_repeated_from_it(agentgym: Run, finished: Path) -> None:
    """Settings, provenance, rounds, test and report are there; run.yaml is a config file."""
    for name in ("run.yaml", "provenance.json", "rounds/01/metrics.json", "test.json", "report.html"):
        assert (finished / name).is_file(), name
    settings = yaml.safe_load((finished / "run.yaml").read_text())
    assert settings["trainer"]["name"] == "filtered_bc" and settings["explore_tasks"] == 4
    config = config_of("--config", str(finished / "run.yaml"))
    assert config.explore_tasks == 4 and config.select.threshold == 0.0
    metrics = json.loads((finished / "rounds/01/metrics.json").read_text())
    assert 0.2 < metrics["explored"]["cut"] <= 1 and metrics["valid"]["outgrown"] == 0
    assert any("replies were cut at max_new_tokens 4" in note for note in metrics["training"]["notes"])
    assert json.loads((finished / "provenance.json").read_text())["packages"]["agentgym-py"]


def test_a_used_folder_is_refused_but_resumed(agentgym: Run, finished: Path) -> None:
    """--out says how to go on; --resume of a run that is over shows it again and trains nothing."""
    status, _, err = agentgym("evolve", "--env", "GUESS", "--model", "nothing", "--out", "run")
    assert status == 2 and "--resume run" in err
    before = (finished / "rounds/01/metrics.json").read_bytes()
    status, out, err = agentgym("evolve", "--resume", "run", "--json")
    assert status == 0 and json.loads(out)["last"] == 1 and "already finished" in err
    assert err.count(SMOKE) == 1
    assert "valid success" in err and "last (round 1)" in " ".join(err.split())
    assert (finished / "rounds/01/metrics.json").read_bytes() == before


@pytest.mark.parametrize(
    ("rounds", "done", "said"),
    [
        (0, 0, ["no rounds after it"]),
        (1, 0, ["then 1 round"]),
        (3, 1, ["then 3 rounds", "Resuming after Agent_v0."]),
        (3, 3, ["then 3 rounds", "Resuming after round 2."]),
        (3, 4, ["then 3 rounds", "Resuming after round 3, with the test."]),
        (0, 1, ["no rounds after it", "Resuming after Agent_v0, with the test."]),
        (3, 5, ["then 3 rounds", "This run is already finished; its result:"]),
    ],
)
def test_the_header_says_how_far_a_run_is(tmp_path: Path, rounds: int, done: int, said: list[str]) -> None:
    """In whole sentences, for one round as for many; a round more than there are stands for the test."""
    folder = RunFolder.create(tmp_path / "run", {"rounds": rounds})
    for number in range(min(done, rounds + 1)):
        folder.begin_round(number)
        folder.finish_round(number, {})
    if done > rounds + 1:
        folder.write_json("test.json", {})
    plan = f"Agent_v0 from 12 episodes of the fair expert, {said[0]}, replies of at most 64 tokens; {folder.path}"
    assert header(folder, EvolveConfig(rounds=rounds), 1) == [plan, *said[1:]]


def test_the_header_says_that_a_round_was_begun(tmp_path: Path) -> None:
    """What it has written down so far is not done again."""
    folder = RunFolder.create(tmp_path / "run", {})
    folder.begin_round(0)
    assert len(header(folder, EvolveConfig(), 1)) == 1
    (folder.round(0) / "trajectories.jsonl").write_text("")
    assert header(folder, EvolveConfig(), 1)[1:] == ["Resuming within round 0."]


def test_failed_episodes_that_were_asked_for_are_said(tmp_path: Path) -> None:
    """A setting that surprises, and in a run of no preset no word of one."""
    config = EvolveConfig(select=SelectConfig(threshold=0, success_only=False))
    said = "Failed episodes are selected, too: --select.success_only false, --select.threshold 0."
    with naming_options():
        assert header(RunFolder.create(tmp_path / "run", {}), config, 1)[1:] == [said]


@pytest.mark.parametrize(
    ("settings", "on_policy", "line"),
    [
        ({}, False, "2000 episodes of exploration; the last agent is trained on those that are selected."),
        (
            {"merge": "all", "restart": "base", "explore_tasks": 250, "attempts": 2}, False,
            "1000 episodes of exploration; the base is trained on those that all rounds selected, the expert's among "
            "them.",
        ),
        (
            {"merge": "initial+last"}, False,
            "2000 episodes of exploration; the last agent is trained on those that are selected and the expert's.",
        ),
        (
            {"sequence": True, "explore_tasks": 5}, False,
            "5 episodes of exploration; the last agent is trained on those that are selected.",
        ),
        ({}, True, "2000 episodes of training; the agent learns between them."),
    ],
)  # fmt: skip
def test_the_header_says_what_a_round_does(settings: dict[str, Any], on_policy: bool, line: str) -> None:
    """Which model is trained on which episodes, in a run in two worlds."""
    assert round_lines(EvolveConfig(**settings), 2, on_policy) == [f"A round: {line}"]
    assert not round_lines(EvolveConfig(**settings, rounds=0), 2, on_policy)


def test_the_header_names_the_limit_of_evaluations() -> None:
    """The world's own number beside that of exploration; in several worlds there is no single one."""
    config = EvolveConfig(horizon=[20])
    (line,) = curriculum_lines(config, [EnvSpec("household")], None)
    assert line == "Episodes of exploration end after 20 steps; evaluations have the world's limit of 50."
    (line,) = curriculum_lines(config, [EnvSpec("household"), EnvSpec("shop")], None)
    assert line.endswith("evaluations have each world's limit.")


def test_the_header_counts_the_episodes_of_all_worlds(tmp_path: Path) -> None:
    """200 tasks of each of two worlds are 400 episodes."""
    lines = header(RunFolder.create(tmp_path / "run", {}), EvolveConfig(expert_tasks=200), 2)
    assert lines[0].startswith(
        "Agent_v0 from 400 episodes of the fair expert, then 3 rounds, replies of at most 64 tokens; "
    )
    lines = header(RunFolder.create(tmp_path / "other", {}), EvolveConfig(expert_tasks=0), 2)
    assert lines[0].startswith(
        "Agent_v0 is the model itself, without demonstrations, then 3 rounds, replies of at most 64 tokens; "
    )


def test_the_header_names_learning_rates_that_depend_on_the_model() -> None:
    """A larger model has a smaller rate, adapters have a larger one; a rate that is set needs no line."""
    trainer = registry.load("agentgym.trainers", "filtered_bc")
    with naming_options():
        (line,) = learning_rates(134_515_008, {"trainer": ("filtered_bc", trainer())})
        assert line == (
            "Learning rate of filtered_bc: 1e-05, the default for a model of 134,515,008 weights; "
            "--trainer.learning_rate RATE changes it."
        )
        cloner, grpo = learning_rates(
            1_000_000,
            {"cloner": ("filtered_bc", trainer()), "trainer": ("grpo", registry.load("agentgym.trainers", "grpo")())},
        )
        assert cloner.startswith("Learning rate of filtered_bc: ") and "; --cloner.learning_rate RATE" in cloner
        assert grpo.startswith("Learning rate of grpo: ") and "; --trainer.learning_rate RATE" in grpo
    adapters = learning_rates(134_515_008, {"trainer": ("filtered_bc", trainer(lora_rank=8))})
    small = learning_rates(1_000_000, {"trainer": ("filtered_bc", trainer())})
    assert [lines[0].split(", ")[0] for lines in (adapters, small)] == [
        "Learning rate of filtered_bc: 0.0001", "Learning rate of filtered_bc: 0.0007",
    ]  # fmt: skip
    assert learning_rates(134_515_008, {"trainer": ("filtered_bc", trainer(learning_rate=2e-4))}) == []
    (scaled,) = learning_rates(1_000_000, {"trainer": ("filtered_bc", trainer())}, 0.5)
    assert scaled.startswith(
        "Learning rate of filtered_bc: 0.00035, the default for a model of 1,000,000 weights whose config scales rates "
        "by 0.5; "
    )


def test_what_is_no_run_is_said(agentgym: Run) -> None:
    """A file, a folder without a run, and nothing at all."""
    Path("file").write_text("")
    Path("folder").mkdir()
    for name, said in (
        ("file", "file is a file; a run is the folder that holds its run.yaml"),
        ("folder", "folder holds no run (no run.yaml there)"),
        ("nothing", "nothing: no such folder"),
    ):
        status, out, err = agentgym("evolve", "--resume", name)
        assert (status, out, err) == (2, "", f"agentgym: {said}\n")


def test_a_model_that_is_not_there_is_said_before_anything_else(agentgym: Run) -> None:
    """No headline of a run that cannot begin."""
    status, out, err = agentgym("evolve", "--env", "GUESS", "--model", "nonsuch")
    assert (status, out) == (2, "") and err.startswith("agentgym: no model 'nonsuch'") and err.count("\n") == 1


def test_resume_takes_no_other_settings(agentgym: Run, finished: Path) -> None:
    """All settings come from the run: an option beside --resume would be silently ignored."""
    for option, value in (("--tries", "9"), ("--trainer", "grpo")):
        status, _, err = agentgym("evolve", "--resume", "run", option, value)
        assert status == 2 and f"agentgym: {option} cannot be combined with --resume" in err


def test_a_run_in_use_is_refused(agentgym: Run, finished: Path) -> None:
    """Two processes never work on one run."""
    from agentgym_py.evolution.run_folder import RunFolder

    with RunFolder.open(finished).locked():
        status, _, err = agentgym("evolve", "--resume", "run")
    assert status == 2 and "in use" in err


def test_broken_settings_of_a_run_are_named(agentgym: Run, finished: Path) -> None:
    """A run.yaml that somebody edited wrongly is not half believed."""
    text = (finished / "run.yaml").read_text()
    (finished / "run.yaml").write_text(text.replace("rounds: 1", "rouns: 1"))
    status, _, err = agentgym("evolve", "--resume", "run")
    assert status == 2 and "run.yaml: rouns: no such setting" in err


def test_what_is_broken_in_a_run_is_made_again(agentgym: Run, finished: Path) -> None:
    """The message says what to delete; without it `--resume` ends where the run had ended."""
    result, last = finished / "test.json", finished / "rounds/01"
    weights = last / "checkpoint/model.safetensors"
    before, rounds = weights.read_bytes(), json.loads(result.read_text())["rounds"]

    def resumed(expected: int) -> str:
        status, _, err = agentgym("evolve", "--resume", "run")
        assert status == expected, err
        return err

    for path in (last / "metrics.json", result):
        path.write_text("{")
        assert f"{path.name} cannot be read" in (said := resumed(2)) and "delete it" in said
        path.unlink()
        resumed(0)
    weights.write_text("{")
    result.unlink()
    assert f"delete {last} and what came after it" in resumed(2)
    shutil.rmtree(last)
    resumed(0)
    assert weights.read_bytes() == before and json.loads(result.read_text())["rounds"] == rounds


def test_ctrl_c_says_how_to_go_on_and_it_goes_on(
    agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was interrupted in round 1 ends as if nothing had happened."""
    from agentgym_py.evolution.episodes import RoundEpisodes

    explore = RoundEpisodes.explore

    def interrupted(self: RoundEpisodes, number: int) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(RoundEpisodes, "explore", interrupted)
    status, _, err = agentgym("evolve", *SMALL, "--model", small_model)
    folder = Path("runs/GuessForTests-v0-filtered_bc-s0")
    assert status == 130 and f"agentgym evolve --resume {folder}" in err and (folder / "report.html").is_file()
    monkeypatch.setattr(RoundEpisodes, "explore", explore)
    status, out, _ = agentgym("evolve", "--resume", str(folder))
    assert (
        status == 0
        and "then 1 round, replies of at most 4 tokens; runs" in out
        and "Resuming after Agent_v0.\n" in out
        and (folder / "test.json").is_file()
    )


@pytest.mark.parametrize("place", ["env_specs", "load_torch", "_inputs", "start_folder"])
def test_ctrl_c_before_there_is_a_run(
    agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """While worlds, torch and the base are loaded nothing is left to go on with; the same command starts again."""

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        modules = {"_inputs": evolve_folder, "env_specs": evolve_settings}
        patch.setattr(modules.get(place, command_module("evolve")), place, interrupted)
        status, _, err = agentgym("evolve", *SMALL, "--model", small_model, "--out", "run")
    assert status == 130 and "interrupted; nothing was written yet; start it again" in err and "--resume" not in err
    assert not Path("run").exists()
    begun(agentgym, monkeypatch, "--model", small_model, "--out", "run")


def test_a_run_goes_on_with_its_threads(agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number that it began with, noted with it, unless --threads says another, which is warned of."""
    import torch

    before = begun(agentgym, monkeypatch, "--model", small_model, "--out", "run")
    assert before["threads"] == 1
    Path("run/provenance.json").write_text(json.dumps(before | {"threads": 2}))
    used: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", used.append)
    monkeypatch.setattr(command_module("evolve"), "_run_with_progress", lambda *_: {})
    for argv, warned in (((), False), (("--threads", "2"), False), (("--threads", "3"), True)):
        status, _, err = agentgym("evolve", "--resume", "run", *argv)
        assert status == 0 and ("began with 2 threads and resumes with 3" in err) == warned
    assert used == [2, 2, 3]


def test_kill_is_said_like_ctrl_c(agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM in the middle of a round: the same line, status 143, and the run continues from its last round."""
    from agentgym_py.evolution.episodes import RoundEpisodes

    def killed(self: RoundEpisodes, number: int) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("not reached")

    monkeypatch.setattr(RoundEpisodes, "explore", killed)
    status, _, err = agentgym("evolve", *SMALL, "--model", small_model, "--out", "run")
    assert status == 143 and "agentgym evolve --resume run" in err
    assert Path("run/rounds/00/metrics.json").is_file() and not Path("run/rounds/01/metrics.json").exists()


def test_a_run_goes_on_with_nothing_but_what_it_began_with(
    agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other weights or another world under the same name are refused in a line; each resumption is noted."""
    shutil.copytree(small_model, "base")
    before = begun(agentgym, monkeypatch, "--model", "base", "--out", "run")
    assert before["base_policy"] and set(before["env_versions"]) == {"GuessForTests-v0"}
    for name in ("base_policy", "env_versions"):
        Path("run/provenance.json").write_text(json.dumps(before | {name: "other"}))
        status, _, err = agentgym("evolve", "--resume", "run")
        assert (
            status == 2 and err == f"agentgym: run cannot be resumed: its {name} was other, and is {before[name]} now\n"
        )
    Path("run/provenance.json").write_text(json.dumps(before))
    assert agentgym("evolve", "--resume", "run")[0] == 0
    (again,) = json.loads(Path("run/provenance.json").read_text())["resumed"]
    assert again["started"] >= before["started"] and again["packages"] == before["packages"]


WAITS = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background is started without
from agentgym_py.cli import main
from agentgym_py.training.fit import Fit

step, trainings = Fit.step, []

def slow(fit):
    step(fit)
    if fit not in trainings:
        trainings.append(fit)
    if len(trainings) == 2 and fit._step == 1 < fit._steps:
        print("in the middle of a training", flush=True)
        time.sleep(100)

Fit.step = slow
sys.exit(main(sys.argv[1:]))
"""
"""A program that does what `agentgym` does, and waits after the first step of the second training."""


@pytest.mark.slow
def test_a_run_stopped_in_a_training_ends_as_if_nothing_had_happened(
    agentgym: Run, tiny_policy: Any, tmp_path: Path
) -> None:
    """A real Ctrl-C between two steps of round 1's optimizer: resumed, all files equal an uninterrupted run's."""
    tiny_policy.save(tmp_path / "base")
    argv = ["--env", "shop", *SMALL[2:], "--trainer.batch_size", "1", "--model", str(tmp_path / "base"), "--out"]
    assert agentgym("evolve", *argv, "whole")[0] == 0
    command = [sys.executable, "-c", WAITS, "evolve", *argv, "cut"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running,
        ExitStack() as end,
    ):
        end.callback(running.kill)  # a failure would wait for it forever
        assert running.stdout and running.stderr
        assert any("in the middle of a training" in line for line in running.stdout), running.stderr.read()
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 130 and "agentgym evolve --resume cut" in running.stderr.read()
    whole, cut = RunFolder.open(Path("whole")), RunFolder.open(Path("cut"))
    assert cut.done(0) and not cut.done(1)
    assert agentgym("evolve", "--resume", "cut")[0] == 0
    for number in (0, 1):
        for name in ("trajectories.jsonl", "valid.jsonl", "checkpoint/model.safetensors"):
            assert (whole.round(number) / name).read_bytes() == (cut.round(number) / name).read_bytes(), name
        assert whole.metrics(number)["policy_digest"] == cut.metrics(number)["policy_digest"]
    assert (whole.round(1) / "test.jsonl").read_bytes() == (cut.round(1) / "test.jsonl").read_bytes()


def begun(agentgym: Run, monkeypatch: pytest.MonkeyPatch, *argv: str) -> dict[str, Any]:
    """Provenance of a run that was interrupted at its very beginning."""
    from agentgym_py.evolution import Evolution

    def interrupted(self: Evolution, number: int) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Evolution, "_round", interrupted)
        assert agentgym("evolve", *SMALL, *argv)[0] == 130
    told: dict[str, Any] = json.loads(Path("run/provenance.json").read_text())
    return told


def test_run_yaml_has_whole_paths(agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run continues from another folder: the model's folder is found, and a world's."""
    shutil.copytree(small_model, "base")
    begun(agentgym, monkeypatch, "--model", "base", "--out", "run")
    settings = yaml.safe_load(Path("run/run.yaml").read_text())
    assert settings["model"] == str(Path("base").absolute())
    given = parsed("--env", "shop", "--env_kwargs.catalogue", "there", "--env_kwargs.goals", "human", "--model", "tiny")
    asked = saved_settings(given, [EnvSpec("shop")])
    assert asked["env_kwargs"] == {"catalogue": str(Path("there").absolute()), "goals": "human"}
    assert asked["model"] == "tiny" and not {"out", "threads", "json"} & set(asked)


def test_the_seed_decides_a_random_model(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--model tiny-random` is another model with another --seed, in every command."""
    from agentgym_py.policy import Policy

    seeds: list[int] = []

    def load(name: str, *, seed: int, **_: Any) -> Any:
        seeds.append(seed)
        raise PolicyError("no further")

    monkeypatch.setattr(Policy, "load", load)
    assert agentgym("collect", "--env", "GUESS", "--tasks", "1", "--out", "a.jsonl")[0] == 0
    for argv in (
        ("evolve", "--env", "GUESS"), ("eval", "--env", "GUESS"), ("collect", "--env", "GUESS", "--out", "b.jsonl"),
        ("train", "--data", "a.jsonl", "--out", "bc"),
    ):  # fmt: skip
        assert agentgym(*argv, "--model", "tiny-random", "--seed", "7")[0] == 2
    assert seeds == [7, 7, 7, 7]


def test_a_new_run_never_takes_an_old_folder(agentgym: Run) -> None:
    """Without --out the name gets -2, -3, …."""
    settings = {"env": ["shop", "guess"], "trainer": {"name": "dpo"}, "seed": 4}
    for name in ("shop+guess-dpo-s4", "shop+guess-dpo-s4-2"):
        assert evolve_folder._make_folder(settings) == Path("runs") / name


def test_an_interrupted_run_is_named_when_its_folder_is_not_used(agentgym: Run) -> None:
    """With the command that resumes it; a finished run, and one that is in use, are not."""
    settings = {"env": ["shop"], "trainer": {"name": "dpo"}, "seed": 4}
    make = evolve_folder._make_folder
    run = RunFolder.create(Path("runs/shop-dpo-s4"), {})
    with pytest.warns(UserWarning, match=r"agentgym evolve --resume runs/shop-dpo-s4$") as caught:
        assert make(settings) == Path("runs/shop-dpo-s4-2")
    assert len(caught) == 1 and "starts a new one in runs/shop-dpo-s4-2;" in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with run.locked():
            make(settings)
        run.write_json("test.json", {})
        make(settings)


def test_tasks_that_repeat_training_instructions_are_named(guess_world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one warning, by split; a world whose splits are disjoint causes none."""
    specs = [EnvSpec(guess_world)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_training_tasks(specs, ["valid", "test"])
    env_class = type(specs[0].make())
    original = env_class.task

    def task(self: Any, name: str | int, split: str | None = None) -> Any:
        return replace(original(self, name, split), instruction="Find a number.")

    monkeypatch.setattr(env_class, "task", task)
    with pytest.warns(UserWarning, match="50 of 50 valid tasks of .*, 50 of 50 test tasks of .* repeat") as caught:
        warn_of_training_tasks(specs, ["valid", "test"])
    assert len(caught) == 1


def test_runs_that_start_together_have_a_folder_each(agentgym: Run) -> None:
    """None is given a folder that another one has taken in the same moment."""

    def start(seed: int) -> Path:
        together.wait()
        found: Path = evolve_folder._make_folder({"env": ["shop"], "trainer": {"name": "dpo"}, "seed": seed})
        return found

    with ThreadPoolExecutor(4) as pool:
        for seed in range(50):
            together = Barrier(4)
            assert len(set(pool.map(start, [seed] * 4))) == 4


def test_a_wrong_model_is_said_before_there_is_a_folder(agentgym: Run) -> None:
    """One line, and no folder that the next try would stumble over."""
    status, _, err = agentgym("evolve", "--env", "GUESS", "--model", "tinny")
    assert status == 2 and "Did you mean 'tiny'?" in err and err.count("\n") == 1 and not Path("runs").exists()


# ------------------------------------------------------------------------------------------------------ train and eval


def test_train_and_eval_on_stored_trajectories(agentgym: Run, small_model: str) -> None:
    """Training leaves a checkpoint that `eval` loads, with its report, and `collect` samples at temperatures."""
    assert agentgym("collect", "--env", "GUESS", "--tasks", "8", "--out", "demos.jsonl")[0] == 0
    status, out, err = agentgym(
        "train",
        "--data",
        "demos.jsonl",
        "--model",
        small_model,
        "--out",
        "bc",
        "--trainer.epochs",
        "2",
        "--threads",
        "1",
    )
    assert status == 0 and "bc/checkpoint: 8 trajectories" in out, err
    told = json.loads(Path("bc/train.json").read_text())
    assert {each.name for each in Path("bc").iterdir()} == {"checkpoint", "train.json"}
    assert told["settings"]["trainer"]["epochs"] == 2 and told["training"]["trajectories"] == 8
    small = (
        "--env",
        "GUESS",
        "--model",
        "bc/checkpoint",
        "--tasks",
        "3",
        "--max_new_tokens",
        "8",
        "--env_kwargs.max_steps",
        "2",
    )
    status, out, _ = agentgym("eval", *small, "--out", "result", "--json")
    result = json.loads(out)
    assert status == 0 and result["success"]["n"] == 3 and set(result["by_difficulty"]) == {"easy"}
    assert json.loads(Path("result/result.json").read_text()) == result
    assert agentgym("replay", "result/trajectories.jsonl")[0] == 0
    status, out, _ = agentgym("collect", *small, "--temperature", "0.7,1", "--out", "d.jsonl", "--json")
    assert status == 0 and json.loads(out)["trajectories"] == 6


def test_dpo_learns_from_forks(agentgym: Run, small_model: str) -> None:
    """What `collect --forks` left has pairs of one state; without forks one try at a task has none."""
    argv = ("collect", "--env", "shop", "--agent", "random", "--tasks", "6", "--env_kwargs.max_steps", "5")
    assert agentgym(*argv, "--forks", "2", "--fork_attempts", "4", "--out", "d.jsonl")[0] == 0
    config = Path(shutil.copytree(small_model, "wide")) / "config.json"
    config.write_text(config.read_text().replace('"max_position_embeddings": 512', '"max_position_embeddings": 4096'))
    train = ("train", "--trainer", "dpo", "--trainer.level", "fork", "--trainer.epochs", "1", "--model", "wide",
             "--threads", "1")  # fmt: skip
    status, out, err = agentgym(*train, "--data", "d.jsonl", "--out", "a", "--json")
    assert status == 0 and json.loads(out)["training"]["metrics"]["pairs"] > 5, err
    assert agentgym(*argv, "--out", "e.jsonl")[0] == 0
    assert (
        "nothing left of 6 trajectories: 6 alone at their task"
        in agentgym(*train, "--data", "e.jsonl", "--out", "b")[2]
    )


def test_a_training_says_what_it_left_out(agentgym: Run, small_model: str) -> None:
    """How many, and why; on the screen, too, and not in its report alone."""
    collect = ("collect", "--env", "GUESS", "--tasks", "6")
    assert agentgym(*collect, "--out", "expert.jsonl")[0] == 0
    assert agentgym(*collect, "--agent", "random", "--env_kwargs.max_steps", "1", "--out", "random.jsonl")[0] == 0
    words = ("train", "--data", "expert.jsonl,random.jsonl", "--model", small_model, "--threads", "1")
    every = ("--select.success_only", "false", "--select.threshold", "-inf")
    _, out, _ = agentgym(*words, *every, "--trainer.threshold", "0.5", "--out", "bc")
    dropped = json.loads(Path("bc/train.json").read_text())["training"]["dropped"]
    assert dropped and all(f"{number} {why}" in out for why, number in dropped.items()) and "left out: " in out
    assert "left out" not in agentgym(*words, "--trainer.threshold", "-9", "--out", "all")[1]


def test_a_training_that_was_stopped_goes_on(agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the same command, to the same weights; another training is refused there."""
    assert agentgym("collect", "--env", "GUESS", "--tasks", "8", "--out", "demos.jsonl")[0] == 0
    often = ("--trainer.batch_size", "1", "--trainer.checkpoint_minutes", "0", "--trainer.epochs", "1")
    words = ("train", "--data", "demos.jsonl", "--model", small_model, "--threads", "1", *often)

    def stopping(done: int, total: int) -> None:
        if done == total // 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("agentgym_py.report.terminal.Phases.training", lambda *_: stopping)
        status, _, err = agentgym(*words, "--out", "bc")
        assert status == 130 and err == "\ninterrupted; the same command resumes from the saved state\n"
        status, _, err = agentgym(*words, "--trainer.checkpoint_minutes", "5", "--out", "none")
        assert status == 130 and err == "\ninterrupted; the same command starts again, because no state was saved\n"
    status, _, err = agentgym(*words, "--seed", "1", "--out", "bc")
    assert status == 2 and "the state of another training" in err
    for out in ("bc", "none", "whole"):
        status, said, _ = agentgym(*words, "--out", out)
        assert status == 0 and ("Resuming from the saved state in bc/trainer.\n" in said) == (out == "bc")
        assert {each.name for each in Path(out).iterdir()} == {"checkpoint", "train.json"}
    digests = [json.loads(Path(out, "train.json").read_text())["policy_digest"] for out in ("bc", "whole")]
    assert digests[0] == digests[1]
    assert agentgym(*words, "--out", "bc")[0] == 2


def test_a_judge_of_other_tokens_is_refused_at_once(agentgym: Run, small_model: str, toy_envs: Any) -> None:
    """Before anything is played or written: in a round it would be too late."""
    from torch import nn

    from agentgym_py.rewards.process_reward_model import ProcessRewardModel, new_heads
    from agentgym_py.rewards.reward_model import Member, RewardModel

    other = toy_envs.word_policy()
    heads = nn.Linear(other.model.config.hidden_size, 1)
    RewardModel([Member(other, heads)], {"reward": 1.0}).save("judge")
    ProcessRewardModel(other, new_heads(other.model.config.hidden_size, 8), {"progress": 1.0}).save("prm")
    for words, said in (
        (("--trainer", "grpo", "--reward_model", "judge"), "reward_model judge has other tokens than the policy"),
        (("--trainer", "r3", "--trainer.critic_warmup", "0", "--trainer.prm", "prm"), "prm has other tokens than"),
    ):
        status, _, err = agentgym("evolve", *SMALL, "--model", small_model, *words, "--out", "run")
        assert status == 2 and said in err and not Path("run").exists()


class Plain:
    """A trainer that forgets what it has to return, and misspells what it needs."""

    info: ClassVar = TrainerInfo(evolve_defaults={"atempts": 4})

    def train(self, policy: Any, trajectories: Any, **_: Any) -> Any:
        """Nothing."""


def test_a_plugins_mistakes_are_one_line(agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Defaults for an option that is none, and no report."""
    load, plain = registry.load, dataclass(Plain)
    monkeypatch.setattr(registry, "load", lambda group, name: plain if name == "dpo" else load(group, name))
    status, _, err = agentgym("evolve", *SMALL, "--trainer", "dpo")
    assert (
        status == 2
        and "the trainer dpo has evolve_defaults for 'atempts', no option of evolve; did you mean --attempts?" in err
    )
    monkeypatch.setattr(Plain, "info", TrainerInfo())
    assert agentgym("collect", "--env", "GUESS", "--tasks", "2", "--out", "demos.jsonl")[0] == 0
    said = "Plain must return a TrainReport, and returned None"
    for words in (("train", "--data", "demos.jsonl"), ("evolve", *SMALL)):
        status, _, err = agentgym(*words, "--model", small_model, "--trainer", "dpo", "--out", words[0])
        assert status == 2 and said in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("trainer", "files"),
    [
        ("filtered_bc", ["rounds/01/trainer/states/state-1/weights", "rounds/.x.tmp"]),
        ("filtered_bc", ["trainer/states/state-1/weights", "mine.txt", ".mine.tmp"]),
        ("filtered_bc", ["one/trainer/states/state-1/weights", "data.jsonl.partial"]),
        ("filtered_bc", ["checkpoint/model.safetensors"]),
        ("reward_model", ["trainer/states/state-1/weights", ".train.json.1.tmp"]),
        ("reward_model", ["reward_model/member_0/model.safetensors"]),
    ],
)
def test_a_training_leaves_other_folders_alone(
    agentgym: Run, small_model: str, trainer: str, files: Sequence[str]
) -> None:
    """A folder with anything but this training's own is refused, and nothing in it is touched."""
    assert agentgym("collect", "--env", "GUESS", "--tasks", "2", "--out", "demos.jsonl")[0] == 0
    for file in files:
        Path("out", file).parent.mkdir(parents=True, exist_ok=True)
        Path("out", file).write_text("x")
    words = ("train", "--data", "demos.jsonl", "--model", small_model, "--trainer", trainer, "--out", "out")
    status, _, err = agentgym(*words)
    assert status == 2 and "out" in err
    assert sorted(str(p.relative_to("out")) for p in Path("out").rglob("*") if p.is_file()) == sorted(files)


@dataclass
class Ruins:
    """A trainer whose weights are no numbers in the end."""

    def train(self, policy: Any, trajectories: Any, **_: Any) -> TrainReport:
        """One of them."""
        next(policy.model.parameters()).data[0] = math.nan
        return TrainReport(len(trajectories), {}, 0, 0, 0.0, loss=[math.nan])


@dataclass
class Alone:
    """A trainer that plays itself, and names nobody who makes Agent_v0."""

    def improve(self, policy: Any, rollouts: Any, **_: Any) -> TrainReport:
        """Nothing."""
        while groups := rollouts.groups(1, 3):
            assert len(groups) == 1
            rollouts.sync()
        return TrainReport(len(rollouts.episodes), {}, 0, 0, 0.0)


@dataclass
class Neither:
    """A class that trains nothing."""


def test_weights_that_are_no_numbers_are_not_saved(
    agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever left them is said, at once."""
    load = registry.load
    monkeypatch.setattr(registry, "load", lambda group, name: Ruins if name == "dpo" else load(group, name))
    assert agentgym("collect", "--env", "GUESS", "--tasks", "2", "--out", "demos.jsonl")[0] == 0
    for words in (("train", "--data", "demos.jsonl"), ("evolve", *SMALL)):
        status, _, err = agentgym(*words, "--model", small_model, "--trainer", "dpo", "--out", words[0])
        assert status == 2 and "the trainer Ruins left weights that are nan or infinite" in err
        assert ("round 0: the trainer" in err) == (words[0] == "evolve") and "last good" not in err
        assert not list(Path(words[0]).rglob("*.safetensors"))


def test_who_makes_agent_v0_is_asked_first(agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trainer that plays itself needs a cloner, or no expert; a class that trains nothing is no trainer."""
    load = registry.load
    others = {"dpo": Alone, "kto": Neither}
    monkeypatch.setattr(registry, "load", lambda group, name: others.get(name) or load(group, name))
    words = ("evolve", *SMALL, "--model", small_model, "--trainer", "dpo", "--out", "run")
    status, _, err = agentgym(*words)
    assert status == 2 and "set expert_tasks 0, or declare one (TrainerInfo(warm_start='filtered_bc')" in err
    assert not Path("run").exists()
    assert agentgym(*words, "--expert_tasks", "0")[0] == 0
    status, _, err = agentgym("train", "--trainer", "kto", "--data", "demos.jsonl", "--out", "x")
    assert status == 2 and "the trainer 'kto' must be a dataclass with a method train or improve" in err


def test_who_sampled_the_data_is_said(agentgym: Run, small_model: str) -> None:
    """Where it was another policy than the one that is trained; a file that is named twice would count twice."""
    words = ("--env", "GUESS", "--tasks", "2", "--model", small_model, "--max_new_tokens", "4")
    assert agentgym("collect", *words, "--out", "own.jsonl")[0] == 0
    train = ("train", "--trainer.threshold", "-9", "--trainer.epochs", "1", "--trainer.batch_size", "1",
             "--select.success_only", "false", "--select.threshold", "-inf",
             "--select.mask_invalid", "false")  # fmt: skip
    status, out, err = agentgym(*train, "--data", "own.jsonl", "--model", small_model, "--out", "first")
    assert status == 0 and "were sampled by" not in out, err
    status, out, _ = agentgym(*train, "--data", "own.jsonl", "--model", "first/checkpoint", "--out", "second")
    assert status == 0 and f"2 of 2 were sampled by other weights ({small_model}); --model first/" in out
    assert "first already holds a finished training" in agentgym(*train, "--data", "own.jsonl", "--out", "first")[2]
    status, _, err = agentgym(*train, "--data", "own.jsonl,own.jsonl", "--model", small_model, "--out", "third")
    assert status == 2 and "--data has own.jsonl twice" in err


@pytest.mark.parametrize("trainer", ["filtered_bc", "process_reward"])
def test_a_training_that_was_killed_as_it_kept_its_first_state_begins_anew(
    agentgym: Run, small_model: str, trainer: str
) -> None:
    """What is half written is no other's, whatever the trainer makes."""
    for agent in ("expert", "random"):
        args = ("collect", "--agent", agent, "--env", "GUESS", "--tasks", "4", "--out", f"{agent}.jsonl")
        assert agentgym(*args)[0] == 0
    half = Path("out", "trainer" if trainer == "filtered_bc" else trainer, "states", ".writing")
    half.mkdir(parents=True)
    (half / "weights").write_text("x")
    words = ("train", "--data", "expert.jsonl,random.jsonl", "--model", small_model, "--trainer", trainer)
    status, _, err = agentgym(*words, "--trainer.epochs", "1", "--out", "out")
    assert status == 0, err
    assert not half.exists() and Path("out/train.json").is_file()


def test_what_is_another_trainings_or_a_strangers_is_not_gone_on_with(tmp_path: Path) -> None:
    """Whatever the folders above are called."""
    made = tmp_path / "states" / "out" / "reward_model"
    made.mkdir(parents=True)
    assert is_interrupted(made.parent, "reward_model"), "nothing is in it yet"
    (made / "reward_model.json").touch()
    assert not is_interrupted(made.parent, "reward_model")


def test_a_reward_model_that_was_stopped_goes_on(
    agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the same command, to the same weights."""
    for agent in ("expert", "random"):
        args = ("collect", "--agent", agent, "--env", "GUESS", "--tasks", "8", "--out", f"{agent}.jsonl")
        assert agentgym(*args)[0] == 0
    words = [
        "train",
        "--data",
        "expert.jsonl,random.jsonl",
        "--model",
        small_model,
        "--trainer",
        "reward_model",
        "--threads",
        "1",
    ]
    words += ["--trainer.heads", "{steps: 1}", "--trainer.batch_size", "1", "--trainer.checkpoint_minutes", "0"]

    def stopping(done: int, total: int) -> None:
        if done == total // 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("agentgym_py.report.terminal.Phases.training", lambda *_: stopping)
        assert agentgym(*words, "--out", "run")[0] == 130
    for out in ("run", "whole"):
        assert agentgym(*words, "--out", out)[0] == 0
    one, two = (
        {p.relative_to(name): p.read_bytes() for p in Path(name, "reward_model").rglob("*") if p.is_file()}
        for name in ("run", "whole")
    )
    assert one == two


@pytest.mark.parametrize("command", ["train", "evolve"])
def test_a_run_that_was_stopped_as_it_saved_weights_goes_on(
    agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """From the last state, which is still there: the training is not lost, and what is half written is."""
    from agentgym_py.policy import Policy

    often = ["--trainer.batch_size", "1", "--trainer.checkpoint_minutes", "0", "--trainer.epochs", "1"]
    often += ["--threads", "1", "--model", small_model]
    if command == "train":
        assert agentgym("collect", "--env", "GUESS", "--tasks", "8", "--out", "demos.jsonl")[0] == 0
        words = ["train", "--data", "demos.jsonl", *often]
    else:
        words = ["evolve", "--env", "GUESS", "--rounds", "0", "--expert_tasks", "8", "--valid_tasks", "1", *often]
        words += ["--test_tasks", "1", "--max_new_tokens", "4"]
    assert agentgym(*words, "--out", "whole")[0] == 0
    save = Policy.save

    def stopped(self: Policy, folder: Any) -> None:
        if place == "after":
            save(self, folder)
        else:
            folder.with_name(".checkpoint.1.tmp").mkdir()
        raise KeyboardInterrupt

    for place in ("before", "after"):
        with monkeypatch.context() as patch:
            patch.setattr(Policy, "save", stopped)
            assert agentgym(*words, "--out", place)[0] == 130
        assert len(list(Path(place).rglob("state-*"))) == 1
        assert agentgym(*(("evolve", "--resume") if command == "evolve" else (*words, "--out")), place)[0] == 0
        one, two = ({p.relative_to(name) for p in Path(name).rglob("*")} for name in ("whole", place))
        assert one == two
        weights, again = (next(Path(name).rglob("model.safetensors")).read_bytes() for name in ("whole", place))
        assert weights == again


def test_a_trainer_of_something_else_leaves_that(agentgym: Run, small_model: str) -> None:
    """A reward model stands in its folder, and no checkpoint of the policy, which is as it was, beside it."""
    for agent in ("expert", "random"):
        args = ("collect", "--agent", agent, "--env", "GUESS", "--tasks", "3", "--out", f"{agent}.jsonl")
        assert agentgym(*args)[0] == 0
    files = ("--data", "expert.jsonl,random.jsonl", "--model", small_model, "--threads", "1")
    heads = ("--trainer.heads", "{steps: 1}")  # nobody fails here
    status, out, err = agentgym("train", *files, "--trainer", "reward_model", *heads, "--out", "x")
    assert status == 0 and "x/reward_model: " in out, err
    assert {each.name for each in Path("x").iterdir()} == {"reward_model", "train.json"}
    about = json.loads(Path("x/reward_model/reward_model.json").read_text())
    assert about["heads"] == {"steps": 1} and about["members"] == ["member_0"]


def test_the_help_says_which_trainer_keeps_no_state(agentgym: Run) -> None:
    """That of a reward model does not, so that how often is without effect."""
    for trainer, without in (("reward_model", True), ("process_reward", False), ("filtered_bc", False)):
        status, out, _ = agentgym("train", "--trainer", trainer, "--help-all")
        about = " ".join(out[out.index("--trainer.checkpoint_minutes FLOAT") :].split())
        assert status == 0 and ("No effect here: no states are saved" in about) == without


def test_a_judge_that_goes_wrong_names_no_policy(agentgym: Run, small_model: str) -> None:
    """The policy was never trained: it is not what was last good."""
    assert agentgym("collect", "--env", "GUESS", "--tasks", "6", "--out", "demos.jsonl")[0] == 0
    words = ("train", "--data", "demos.jsonl", "--model", small_model, "--threads", "1", "--trainer", "process_reward")
    status, _, err = agentgym(*words, "--trainer.learning_rate", "1e30", "--trainer.batch_size", "2", "--out", "x")
    assert status == 2 and "the step was not taken" in err and "last good" not in err
    assert not Path("x/last_good").exists()


def test_a_model_collects_at_several_temperatures(
    agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--model is the agent; one policy serves all temperatures; Ctrl-C in the second leaves the first."""
    from agentgym_py.collection import Collector
    from agentgym_py.policy import Policy

    loads: list[str] = []
    load = Policy.load

    def counted(name: str, **kwargs: Any) -> Policy:
        loads.append(name)
        return load(name, **kwargs)

    whole = Collector.iter_ordered

    def interrupted(self: Collector, jobs: Any) -> Any:
        if self.agent.sampling["temperature"] == 1.0:
            raise KeyboardInterrupt
        yield from whole(self, jobs)

    monkeypatch.setattr(Policy, "load", counted)
    small = ("--env", "GUESS", "--model", small_model, "--tasks", "2", "--max_new_tokens", "4", "--threads", "1")
    assert agentgym("collect", *small, "--temperature", "0.7,1", "--out", "a.jsonl")[0] == 0
    played = list(store.read("a.jsonl"))
    assert [(t.provenance.task_id, t.provenance.sampling["temperature"]) for t in played] == [
        ("guess/train/0", 0.7), ("guess/train/1", 0.7), ("guess/train/0", 1.0), ("guess/train/1", 1.0),
    ]  # fmt: skip
    assert len({t.id for t in played}) == len({t.provenance.seed for t in played}) == 4 and loads == [small_model]
    monkeypatch.setattr(Collector, "iter_ordered", interrupted)
    status, _, err = agentgym("collect", *small, "--temperature", "0.7,1", "--out", "b.jsonl")
    assert status == 130 and "2 of 4 trajectories were written" in err and len(list(store.read("b.jsonl"))) == 2


def test_a_figure_can_be_repeated_from_its_result(agentgym: Run, small_model: str) -> None:
    """`options` of result.json is a config file; worlds, their versions and the weights stand there."""
    argv = ("--tasks", "3", "--env_kwargs.max_steps", "2", "--max_new_tokens", "8", "--temperature", "1", "--seed", "3")
    assert agentgym("eval", "--env", "GUESS", "--model", small_model, *argv, "--out", "first")[0] == 0
    first = json.loads(Path("first/result.json").read_text())
    assert first["options"]["env_kwargs"] == {"max_steps": 2} and first["options"]["model"] == small_model
    assert first["policy_digest"] and set(first["env_versions"]) == {"GuessForTests-v0"}
    Path("c.yaml").write_text(json.dumps(first["options"]))
    assert agentgym("eval", "--config", "c.yaml", "--out", "second")[0] == 0
    assert json.loads(Path("second/result.json").read_text()) == first


def test_eval_shows_intervals_by_kind_and_difficulty(agentgym: Run) -> None:
    """A table for people; a single kind or difficulty is all there is."""
    status, out, _ = agentgym("eval", "--env", "tools", "--agent", "expert", "--tasks", "40")
    assert status == 0 and "100.0 % [91, 100]" in out and "\nkind chain " in out and "difficulty" not in out
    status, out, _ = agentgym("eval", "--env", "GUESS", "--agent", "expert", "--tasks", "4")
    assert status == 0 and "all " in out and "kind guess" not in out


def test_eval_shows_each_of_several_worlds(agentgym: Run) -> None:
    """With its own kinds and difficulties, as the JSON has them."""
    argv = ("eval", "--env", "GUESS,tools", "--agent", "expert", "--tasks", "3")
    status, out, _ = agentgym(*argv)
    assert status == 0 and "world tools " in out and "tools, kind " in out and "\nkind " not in out
    assert "world guessfortests " in out and "guessfortests, kind guess " not in out
    told = json.loads(agentgym(*argv, "--json")[1])
    assert told["success"]["n"] == 6 and {name: each["success"]["n"] for name, each in told["worlds"].items()} == {
        "guessfortests": 3, "tools": 3,
    }  # fmt: skip


@pytest.mark.parametrize("command", ["eval", "evolve"])
def test_a_reply_that_never_fits_is_said_before_anything_runs(agentgym: Run, small_model: str, command: str) -> None:
    """No table of failures: one line that names the setting, and no folder."""
    status, out, err = agentgym(command, "--env", "GUESS", "--model", small_model, "--max_new_tokens", "600")
    assert status == 2 and "%" not in out and not list(Path().iterdir())
    assert err.count("\n") == 1 and "max_new_tokens 600 leaves no room for a prompt in" in err


def test_episodes_that_a_model_gave_up_are_said(agentgym: Run, small_model: str) -> None:
    """Beside the figures: a success rate of a model without room for its episodes says little of the model."""
    argv = ("--env", "GUESS", "--model", small_model, "--tasks", "3", "--max_new_tokens")
    status, out, _ = agentgym("eval", *argv, "300", "--temperature", "1")
    assert status == 0 and "3 episodes given up by the agent (its context was full" in out
    status, out, _ = agentgym("eval", *argv, "300", "--env_kwargs.max_steps", "1", "--json")
    assert status == 0 and json.loads(out)["given_up"] == 0
    status, _, err = agentgym("eval", *argv, "505")
    assert status == 2 and "gave up all 3 episodes before its first reply" in err
    status, _, err = agentgym("collect", *argv, "300", "--out", "a.jsonl")
    assert status == 0 and "3 episodes given up by the agent (its context was full" in err


def test_a_used_folder_is_refused(agentgym: Run) -> None:
    """Neither command writes into a folder that holds something."""
    Path("there").mkdir()
    Path("there/x").touch()
    status, _, err = agentgym("eval", "--env", "GUESS", "--agent", "expert", "--out", "there")
    assert status == 2 and "already holds other files" in err


# --------------------------------------------------------------------------------------------------- earlier versions

OLD_RUN = Path(__file__).parents[1] / "fixtures" / "58a3e36" / "run.yaml"
"""What `evolve --trainer dpo --preset smoke --tries 2 --forks 1 --fork_tries 3` of commit 58a3e36 wrote."""


def test_a_run_yaml_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    """Settings that are called otherwise today keep their values."""
    (tmp_path / "run.yaml").write_text(OLD_RUN.read_text())
    config = evolve_config(read_settings(RunFolder.open(tmp_path)))
    assert (config.attempts, config.forks, config.fork_attempts, config.temperature) == (2, 1, 3, 0.5)


@pytest.mark.parametrize("name", ["r3", "reverse_curriculum"])
def test_settings_of_a_trainer_of_an_earlier_version_are_read(tmp_path: Path, name: str) -> None:
    """Each keeps its value by its current name, and none is lost."""
    written = OLD_RUN.with_name(f"run_{name}.yaml")
    (tmp_path / "run.yaml").write_text(written.read_text())
    settings = read_settings(RunFolder.open(tmp_path))
    trainer = read_trainer(settings)
    common = {"tasks_per_iteration": 3, "minibatch_size": 5, "microbatch_tokens": 300, "kl_coef": 0.05}
    common |= {"max_ratio": 9.0, "max_kl": 40.0}
    own = {
        "r3": {"gae_lambda": 0.9, "vf_coef": 0.6, "entropy_coef": 0.01, "credit_level": "token"},
        "reverse_curriculum": {"success_threshold": 0.3, "variant": "grpo", "group_size": 4},
    }[name]
    assert common | own == {key: getattr(trainer, key) for key in common | own}
    old = yaml.safe_load(written.read_text())["trainer"]
    assert settings["reward"] == old.pop("reward", None) == {"r3": None, "reverse_curriculum": "success"}[name]
    assert {RENAMED[name].get(key, key) for key in old} <= {"name", *(field.name for field in fields(trainer))}


def test_a_run_of_an_earlier_version_is_resumed_and_reported(agentgym: Run, small_model: str) -> None:
    """Its run.yaml has `tries` and `fork_tries`; the resumed round explores the same episodes."""
    argv = ("evolve", *SMALL, "--model", small_model, "--attempts", "2", "--forks", "1", "--fork_attempts", "3")
    assert agentgym(*argv, "--out", "run")[0] == 0
    rows, held = Path("run/rounds/01/trajectories.jsonl").read_bytes(), Path("run/run.yaml").read_text()
    old = held.replace("\nattempts: 2", "\ntries: 2").replace("\nfork_attempts: 3", "\nfork_tries: 3")
    assert old != held
    Path("run/run.yaml").write_text(old)
    Path("run/test.json").unlink()
    shutil.rmtree("run/rounds/01")
    status, _, err = agentgym("evolve", "--resume", "run")
    assert status == 0, err
    assert Path("run/rounds/01/trajectories.jsonl").read_bytes() == rows
    assert agentgym("report", "run")[0] == 0 and "Traceback" not in Path("run/report.html").read_text()


def test_a_world_chooses_defaults_of_its_runs(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line overrides them one by one; several worlds take the largest numbers and a model that all name.

    Of thresholds they take the smallest. A wrong name is one line.
    """

    def settings(*words: str) -> dict[str, Any]:
        status, out, err = agentgym("evolve", *words, "--print_config")
        assert status == 0, err
        config: dict[str, Any] = yaml.safe_load(out)
        return config

    usual, chosen = settings("--env", "GUESS"), settings("--env", "maze")
    assert (usual["env_kwargs"], chosen["env_kwargs"]) == ({}, {"difficulty": "easy"})
    assert (usual["model"], chosen["model"]) == ("tiny", "tiny-worlds")
    assert chosen["expert_tasks"] == MazeEnv.evolve_defaults["expert_tasks"] > usual["expert_tasks"]
    own = settings("--env", "maze", "--expert_tasks", "5", "--env_kwargs.max_steps", "9")
    assert own["expert_tasks"] == 5 and own["env_kwargs"] == {"difficulty": "easy", "max_steps": 9}
    several = settings("--env", "shop,maze")
    assert several["env_kwargs"] == {"maze": {"difficulty": "easy"}}
    assert several["expert_tasks"] == chosen["expert_tasks"] and several["model"] == "tiny-worlds"
    assert settings("--env", "shop,household")["model"] == "tiny"
    for mixed in ("sql,maze", "maze,sql", "shop,sql", "sql,wordle,maze"):
        assert settings("--env", mixed)["model"] == "tiny-worlds"
    assert settings("--env", "sql,wordle")["model"] == settings("--env", "sql")["model"] == "tiny-data"
    assert settings("--env", "shop,errand")["select"]["threshold"] == 0  # its notes cost, also in a success
    assert settings("--env", "shop,maze", "--env_kwargs.max_steps", "9")["env_kwargs"] == {"max_steps": 9}
    everything = settings("--env", "all")
    assert everything["env"] == ["all"] and everything["explore_order"] == "learnable"
    assert everything["model"] == "tiny-worlds"
    assert everything["env_kwargs"]["wordle"] == {"difficulty": "easy"}
    monkeypatch.setattr(MazeEnv, "evolve_defaults", {"expert_task": 4})
    status, _, err = agentgym("evolve", "--env", "maze")
    assert status == 2
    assert "the world maze has evolve_defaults for 'expert_task', no option of evolve; did you mean" in err


@pytest.mark.parametrize(
    ("words", "rounds"),
    [
        (("shop",), ("all", "base", 8)),
        (("shop", "--restart", "previous"), ("all", "previous", 8)),
        (("shop", "--trainer", "trl_sft"), ("all", "base", 8)),
        (("shop", "--trainer", "weighted_bc"), ("last", "previous", 8)),
        (("shop", "--trainer", "dpo"), ("last", "previous", 8)),
        (("shop", "--trainer", "grpo"), ("last", "previous", 8)),
        (("shop", "--trainer", "dagger"), ("last", "previous", 8)),
        (("shop,maze",), ("last", "previous", None)),
    ],
)
def test_a_world_chooses_what_rounds_keep_for_cloning_alone(
    agentgym: Run, words: Sequence[str], rounds: tuple[str, str, float | None]
) -> None:
    """A trainer that continues the last agent keeps its own rule; so do several worlds.

    The passes over the demonstrations hold for every trainer whose Agent_v0 is cloned.
    """
    status, out, err = agentgym("evolve", "--env", *words, "--print_config")
    assert status == 0, err
    config = yaml.safe_load(out)
    assert (config["merge"], config["restart"], config["expert_epochs"]) == rounds


@pytest.mark.parametrize("name", [each.name for each in env_plugins() if each.target.startswith("agentgym_envs.")])
def test_each_world_selects_its_demonstrations_by_default(name: str) -> None:
    """Whatever a world pays for success, its defaults of `evolve` and those of the trainer keep such an episode."""
    chosen = type(EnvSpec(name).make()).evolve_defaults
    spec = EnvSpec(name, chosen.get("env_kwargs", {}))
    played = Collector(ExpertAgent(fair=True)).collect_batch([Job(spec, task) for task in range(8)])
    config = SelectConfig(threshold=chosen.get("select.threshold", SelectConfig().threshold))
    kept = build_selector(config)(played).kept
    assert len(kept) >= 6 and all(trajectory.reward >= FilteredBC().threshold for trajectory in kept)


def test_a_run_says_what_its_world_chose_and_survives_empty_rounds(agentgym: Run, small_model: str) -> None:
    """A model that finds no word learns from further demonstrations, and the run ends well."""
    few = ("--rounds", "1", "--expert_tasks", "2", "--explore_tasks", "2", "--valid_tasks", "1", "--test_tasks", "1")
    words = ("evolve", "--env", "wordle", "--max_new_tokens", "4", *few, "--model", small_model, "--out", "run")
    status, out, err = agentgym(*words)
    assert status == 0, err
    assert "Defaults of wordle: --env_kwargs.difficulty easy --expert_order kinds\n" in out
    training = json.loads(Path("run/rounds/01/metrics.json").read_text("utf-8"))["training"]
    assert training["trajectories"] == 2
    note = "no trajectory was selected: trained on 2 further demonstrations of the fair expert"
    assert note in training["notes"]


def test_a_world_that_raises_ends_a_run_with_its_error(agentgym: Run, small_model: str) -> None:
    """The message names the line of the world, and gives no advice on data."""
    code = (Path(__file__).parents[2] / "examples" / "my_world.py").read_text(encoding="utf-8")
    Path("typo.py").write_text(code.replace("guess = int(text)", "guess = self.txt"), encoding="utf-8")
    few = ("--expert_tasks", "2", "--rounds", "0", "--model", small_model)
    status, _, err = agentgym("evolve", "--env", "typo.py", *few, "--out", "run")
    assert status == 2 and "try " not in err
    assert "round 0: all 2 episodes ended by this error: AttributeError(" in err and "no attribute 'txt'" in err
    assert "(typo.py, line 59, in act)" in err


def test_a_reward_that_always_raises_ends_a_run_with_its_error(agentgym: Run, small_model: str) -> None:
    """Its round does not go on with demonstrations in place of what it explored."""
    Path("mine.py").write_text("def score(trajectory):\n    return trajectory.rewrad\n", encoding="utf-8")
    few = ("--expert_tasks", "2", "--rounds", "1", "--explore_tasks", "2", "--valid_tasks", "1", "--test_tasks", "1")
    words = ("evolve", "--env", "GUESS", *few, "--model", small_model, "--max_new_tokens", "4", "--reward")
    status, _, err = agentgym(*words, "mine.py:score", "--out", "run")
    assert status == 2 and "further demonstrations" not in err
    assert "round 1: all 2 episodes ended by this error: reward mine.py:score: AttributeError: " in err


def test_a_training_that_changes_no_weight_is_said(agentgym: Run, small_model: str) -> None:
    """Among the notes of the round; the log has it, too."""
    Path("idle.py").write_text(IDLE, encoding="utf-8")
    few = ("--expert_tasks", "2", "--rounds", "1", "--explore_tasks", "2", "--valid_tasks", "1", "--test_tasks", "1")
    words = ("evolve", "--env", "GUESS", *few, "--model", small_model, "--max_new_tokens", "4", "--restart", "previous")
    status, _, err = agentgym(*words, "--trainer", "idle.py:Idle", "--out", "run")
    assert status == 0, err
    assert (
        "the training changed no weight"
        in json.loads(Path("run/rounds/01/metrics.json").read_text())["training"]["notes"]
    )


def test_the_header_has_a_world_s_defaults_as_they_are_typed() -> None:
    """Lists with commas, and only what the run has of them."""
    settings = {"env": ["household"], "expert_tasks": 12, "horizon": [20]}
    assert chosen_by_worlds(settings) == ["Defaults of household: --horizon 20"]
    assert chosen_by_worlds(settings | {"rounds": 0}) == []
    settings |= {"expert_tasks": 50, "horizon": []}
    assert chosen_by_worlds(settings) == ["Defaults of household: --expert_tasks 50"]


def test_the_advice_to_resume_trusts_what_the_run_names(tmp_path: Path) -> None:
    """Its own sources and its server, unless that is on this machine."""
    advice = command_module("evolve")._resume_advice
    for url, words in (("http://gpu.example:8000/v1", " --trust gpu.example"), ("http://127.0.0.1:8000", "")):
        path = tmp_path / str(len(words))
        RunFolder.create(path, {"base_url": url})
        (path / "provenance.json").write_text(json.dumps({"sources": {"/worlds/mine.py": "0f"}}))
        expected = f"to resume: agentgym evolve --resume {path} --trust /worlds/mine.py{words}"
        assert advice([RunFolder(path)]) == expected
        with pytest.raises(RunError, match=re.escape(expected.replace("resume:", "resume it:"))):
            load_entrant(path)
        with pytest.raises(RunError, match=re.escape(f"a run; {expected.replace('resume:', 'resume it:')}")):
            RunFolder.require_new(path)


def test_the_advice_to_resume_names_modules_and_all_servers(tmp_path: Path) -> None:
    """A module by its dotted name, as `--trust` takes it; and a path with a blank can be pasted."""
    settings: dict[str, Any] = {
        "env": ["worlds.mine:Cave"], "env_kwargs": {"url": "https://far.example:1/"}, "model": "other:latest",
        "reward_kwargs": {"judge": {"url": "http://localhost:9"}},
    }  # fmt: skip
    run = RunFolder.create(tmp_path / "my run", settings)
    run.write_json("provenance.json", {"sources": {"/home/me/worlds/mine.py": "0f"}})
    words = shlex.split(run.resume_command())
    assert words[:4] == ["agentgym", "evolve", "--resume", str(run.path)]
    assert words[4:] == ["--trust", "/home/me/worlds/mine.py", "--trust", "worlds.mine", "--trust", "far.example"]
    with trust.naming(words[1:]):
        trust.require_source("worlds.mine")
        trust.require_host(settings["env_kwargs"]["url"])
