"""Benchmarks that keep what they have done: what is kept is taken only for what is asked."""

from __future__ import annotations

import importlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scripts import load_script

from agentgym_py import registry
from agentgym_py.env.registration import env_class
from agentgym_py.evaluation import summarise
from agentgym_py.evaluation.stats import Estimate, wilson

ROOT = Path(__file__).parents[1]


def script(name: str, folder: Path = ROOT / "benchmarks") -> Any:
    """A module of `benchmarks/`, or of another folder, which imports others of its folder."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return load_script(f"{folder.relative_to(ROOT)}/{name}.py")


def values_of(command: str, words: Sequence[str]) -> dict[str, Any]:
    """The values of a command's words."""
    from agentgym_py.cli import build_parser
    from agentgym_py.cli.argv import normalize_argv

    argv = normalize_argv([command, *words])[1:]
    return build_parser(command, argv).parse(argv)


def plan_of(words: Sequence[str]) -> Any:
    """The checked plan of a run of `agentgym evolve`."""
    from agentgym_py.cli.evolve_settings import read_plan

    values = values_of("evolve", words)
    return read_plan(values, values)


def run_instead(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Keep the commands of studies in a list in place of running them; a file of `--out` is there afterwards."""
    commands: list[tuple[str, ...]] = []

    def run(*words: str) -> None:
        commands.append(words)
        if (out := Path(words[words.index("--out") + 1])).suffix:
            out.parent.mkdir(parents=True, exist_ok=True)
            out.touch()

    script("studies")  # puts the folder on the path
    monkeypatch.setattr(importlib.import_module("studies"), "run_command", run)
    return commands


# ---- trainers beside each other -------------------------------------------------------------------------------------


@pytest.fixture
def trainers() -> Any:
    """`benchmarks/trainers.py`."""
    return script("trainers")


def row(trainers: Any, trainer: str, seed: int, **changed: Any) -> dict[str, Any]:
    """A line of the results, of now: one more test task of eight is solved the better the trainer."""
    won = 3 + list(trainers.SETTINGS).index(trainer) + seed % 2
    return {
        "env": "shop", "trainer": trainer, "seed": seed, "settings": trainers.settings_of("shop", trainer, []),
        "base": trainers.shipped_base(), "episodes": 1000, "steps": 8000, "seconds": 120.0 + 60 * seed,
        "training_share": 0.5, "run_mib": 1000.0, "reward": [0.2, 0.4], "before": [1] * 2 + [0] * 6,
        "after": [1] * won + [0] * (8 - won), "curve": [0.1 * seed] * 10, **changed,
    }  # fmt: skip


def test_a_line_of_other_settings_or_another_base_is_not_current(
    trainers: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is done again, and left out of the tables, which is said; others are neither."""
    results, asked = tmp_path / "lines.jsonl", list[Any]()
    old = [
        row(trainers, "dpo", 0, settings=["--rounds", "3"]), row(trainers, "dpo", 1, base="0f"),
        {k: v for k, v in row(trainers, "dpo", 2).items() if k != "base"}, row(trainers, "dpo", 3),
    ]  # fmt: skip
    results.write_text("".join(json.dumps(each) + "\n" for each in old))
    monkeypatch.setattr(trainers, "run_alone", lambda *call: asked.append(call))
    trainers.main(["dpo", "--seeds", "0", "1", "2", "3", "--results", str(results)])
    assert [call[:3] for call in asked] == [("dpo", "shop", seed) for seed in (0, 1, 2)]
    said = capsys.readouterr()
    assert "3 lines left out" in said.err and "| dpo | 3 | 25.0 | 75.0 | 0.500 |" in said.out
    monkeypatch.setitem(trainers.SETTINGS, "dpo", "--rounds 3")
    assert [trainers.is_current(each, [], trainers.shipped_base()) for each in old] == [True, False, False, False]
    assert not trainers.is_current(old[0], ["--attempts", "2"], trainers.shipped_base())


def test_a_try_needs_a_file_of_its_own(trainers: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Its lines do not get among those that are reported."""
    with pytest.raises(SystemExit):
        trainers.main(["dpo", "--settings", "--tries 2"])
    assert "--settings needs --results" in capsys.readouterr().err


def test_a_run_goes_on_only_with_what_it_was_begun_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of other settings is refused; one that nothing is known of is taken."""
    studies, calls = script("studies"), list[list[str]]()

    def evolve(words: list[str]) -> int:
        calls.append(words)
        path = Path(words[words.index("--out") + 1] if "--out" in words else words[words.index("--resume") + 1])
        path.mkdir(exist_ok=True)
        (path / "run.yaml").write_text("rounds: 1\n")
        return 0

    monkeypatch.setattr(studies, "agentgym", evolve)
    path = tmp_path / "dpo"
    studies.evolve(path, ["--rounds", "2"], "--model", "here")
    studies.evolve(path, ["--rounds", "2"], "--model", "there")
    assert calls[0][-4:-2] == ["--model", "here"] and calls[1] == ["evolve", "--resume", str(path)]
    with pytest.raises(SystemExit, match="begun with --rounds 2, not with --rounds 3"):
        studies.evolve(path, ["--rounds", "3"])
    (tmp_path / "dpo.settings.json").unlink()
    studies.evolve(path, ["--rounds", "3"])
    assert len(calls) == 3


def test_all_three_tables_are_printed(
    trainers: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gains and what they cost, tenths of the training, and each two trainers on the seeds that both have."""
    results = tmp_path / "lines.jsonl"
    lines = [row(trainers, name, seed) for name in ("filtered_bc", "weighted_bc") for seed in (0, 1)]
    old = row(trainers, "dpo", 1, memory_mib=2000.0)
    lines.append({k: v for k, v in old.items() if k != "run_mib"})
    results.write_text("".join(json.dumps(each) + "\n" for each in lines))
    monkeypatch.setattr(trainers, "run_alone", lambda *call: None)
    names = ["filtered_bc", "weighted_bc", "dpo"]
    trainers.main([*names, "--seeds", "0", "1", "--results", str(results)])
    main, tenths, beside = capsys.readouterr().out.strip().split("\n\n")
    first, *_, last = main.splitlines()[2:]
    # 12.5 points in two minutes, 25 in three
    assert "| 25.0 25.0 | 37.5 50.0 |" in first and first.endswith("| 150 | 7.3 | 19 | 0.50 | 1,000 |")
    assert last.endswith("| ≤ 2,000 |"), "of older lines the memory is the whole process's"
    assert "| filtered_bc | 5 | 5 | 5 |" in tenths and "| dpo | 10 | 10 |" in tenths
    pairs = beside.splitlines()[2:]
    assert len(pairs) == 3 and pairs[0].startswith("| filtered_bc | weighted_bc | 0 1 | -0.125 [")
    assert pairs[1] == "| filtered_bc | dpo | 1 | -0.250 |"


figures = script("figures", ROOT / "docs")
"""`docs/figures.py`, which writes the tables."""


@pytest.mark.parametrize("name", figures.COMPARISONS)
def test_the_docs_have_the_tables_of_the_lines(trainers: Any, name: str) -> None:
    """As the command prints them and no row more, of every trainer of the comparison and no seed less."""
    page = (ROOT / "docs" / "results" / "trainers.md").read_text(encoding="utf-8")
    assert figures.filled(page, figures.learning().read(), [name]) == page, "run docs/figures.py"
    options = list(figures.COMPARISONS[name])
    names, seeds = options[: options.index("--env")], options[options.index("--seeds") + 1 :]
    rows = figures.trainer_tables(name)[0].splitlines()[2:]
    assert [line.split(" | ")[0].strip("| ") for line in rows] == (names or list(trainers.TRAINERS))
    assert all(line.split(" | ")[1].split() == seeds for line in rows)


OLD_BASE = "3ee21281fd3cec342ad3a7bf8274769dd19365b3c1d67290016644aa356f4f8b"
"""Lines of this base are of older versions of the benchmarks, which had other keys."""


def test_lines_of_trainers_have_the_keys_of_today(trainers: Any) -> None:
    """Those that `run_trainer` writes, and no others."""
    keys = row(trainers, "dpo", 0).keys()
    for path in sorted((ROOT / "benchmarks").glob("trainers.*.jsonl")):
        for line in trainers.read(path):
            names = {"run_mib" if name == "memory_mib" and line["base"] == OLD_BASE else name for name in line}
            assert names == keys, path.name


def test_a_runs_memory_is_neither_agent_v0s_nor_the_tests(
    trainers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agent_v0 is made in another process before it, the tests are played when it has been read."""
    happened = list[str]()
    begun = tmp_path / "s0" / "v0"
    begun.mkdir(parents=True)
    (begun / "run.yaml").write_text("max_new_tokens: 32\nrounds: 1\n")
    (begun / "provenance.json").write_text('{"base_policy": "0f"}')
    (begun / trainers.PLAYED).write_text('{"successes": [0], "reward": 0.1}')
    (begun / "rounds" / "01").mkdir(parents=True)
    (begun / "rounds" / "01" / "trajectories.jsonl").touch()
    (begun / "rounds" / "01" / "metrics.json").write_text('{"training": {"seconds": 1.0}, "seconds": 4.0}')

    def did(name: str, result: Any) -> Any:
        def call(*given: Any) -> Any:
            happened.append(name)
            return result

        return call

    folder = trainers.RunFolder.open(begun)
    monkeypatch.setattr(trainers, "run_alone", did("v0", None))
    monkeypatch.setattr(trainers, "evolve", did("run", folder))
    monkeypatch.setattr(trainers.resource, "getrusage", did("memory", type("", (), {"ru_maxrss": 2048})))
    monkeypatch.setattr(trainers, "successes", did("tests", ([1], 0.5)))
    monkeypatch.setattr(trainers, "curve", lambda played: [])
    line = trainers.run_trainer("shop", "dpo", 0, tmp_path, [])
    assert happened == ["v0", "run", "memory", "tests"]
    assert line["run_mib"] == 2.0 and line["base"] == "0f" and line["training_share"] == 0.25
    assert line.keys() == row(trainers, "dpo", 0).keys()
    with pytest.raises(SystemExit, match="comes from another base, 0f"):
        trainers.make_v0("shop", 0, tmp_path)


# ---- process rewards beside exact values ----------------------------------------------------------------------------


def test_a_folder_of_process_rewards_keeps_to_its_arguments(tmp_path: Path) -> None:
    """Another checkpoint or size is refused, and files of which nobody knows; what is named later is kept too."""
    bench, out = script("process_reward"), tmp_path / "prm"
    bench.require_same_arguments(out, {"checkpoint": "aa", "tasks": 250})
    bench.require_same_arguments(out, {"checkpoint": "aa", "tasks": 250, "judge_model": "m"})
    bench.require_same_arguments(out, {"checkpoint": "aa", "tasks": 250})
    for changed in ({"checkpoint": "bb"}, {"tasks": 10}, {"judge_model": "other"}):
        with pytest.raises(SystemExit, match=f"was made with {next(iter(changed))} "):
            bench.require_same_arguments(out, {"checkpoint": "aa", "tasks": 250, **changed})
    (out / bench.ARGUMENTS).unlink()
    (out / "valid.jsonl").touch()
    with pytest.raises(SystemExit, match=r"no arguments\.json"):
        bench.require_same_arguments(out, {"checkpoint": "aa"})


def test_labels_of_process_rewards_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt labelling is refused, and a judge without a name, before anything is played."""
    bench = script("process_reward")
    for words, said in ((["montecarlo"], "invalid choice: 'montecarlo'"), (["judge"], "--judge_model NAME")):
        with pytest.raises(SystemExit):
            bench.parse_args(["--checkpoint", "tiny", "--labels", *words])
        assert said in capsys.readouterr().err
    assert bench.error_of([[[0.0, 0.1], None, [1.0, 0.2]], [[0.5, float("nan")]]]) == pytest.approx(0.15)
    assert bench.means([[[0.0, 0.1], None]]) == [[0.0, None]]


# ---- learning in every world ----------------------------------------------------------------------------------------


def test_a_measurement_of_a_run_is_made_once(tmp_path: Path) -> None:
    """It is kept in the run's folder, under its name."""
    learning = script("learning")
    (tmp_path / "run.yaml").write_text("env_kwargs:\n  maze: {difficulty: easy}\nenv: [maze]\n")
    run = learning.Run(learning.RunFolder(tmp_path), "maze", 0)
    evaluated = summarise([])
    assert run.difficulty == "easy"
    first = run.measured("random", lambda: evaluated)
    again = run.measured("random", lambda: pytest.fail("measured again"))
    assert first["errors"] == again["errors"] == 0
    assert set(json.loads((tmp_path / "extra.json").read_text())) == {"random"}


def test_a_finished_run_of_learning_is_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is written once, holds what the tables show, and `--tables` prints it without the run's folder."""
    learning, results, out = script("learning"), tmp_path / "lines.jsonl", tmp_path / "runs"
    finished_run(out / "maze" / "seed0", learning.shipped_base("tiny-worlds"))
    monkeypatch.setattr(learning.Run, "gain", lambda run: Estimate(0.4, 0.2, 0.6, 30))
    monkeypatch.setattr(learning.Run, "version", getattr(env_class("maze"), "version", None))
    words = ["--env", "maze", "--seeds", "0", "--results", str(results)]
    for _ in range(2):
        learning.main([*words, "--out", str(out), "--other_difficulties"])
    (line,) = map(json.loads, results.read_text().splitlines())
    assert line["others"].keys() == {"medium", "hard"} and line["references"].keys() >= {"random", "fair expert"}
    for stored in map(json.loads, learning.RESULTS.read_text(encoding="utf-8").splitlines()):
        assert stored.keys() == line.keys()
        if stored["base"] != OLD_BASE:
            names = ("first", "last", "more_epochs")
            assert [stored[name].keys() for name in names] == [line[name].keys() for name in names]
            assert stored["references"].keys() == (set() if stored["seed"] else line["references"].keys())
    capsys.readouterr()
    learning.main([*words, "--tables"])
    runs, others, rounds, agents = capsys.readouterr().out.strip().split("\n\n")
    assert "| maze | easy | 0 | 20.0 % [10, 37] | 60.0 % [42, 75] | +40.0 [+20, +60] |" in runs
    assert "| maze | hard | 0 | 20.0 % [10, 37] | 20.0 % [10, 37] |" in others
    assert "| maze | 0 | 1 | 20.0 % of 30 | 6 | 60.0 % [42, 75] |" in rounds and "| maze | random | 20.0 %" in agents
    other_base = {"base": learning.shipped_base("tiny-data")}  # no default of the maze
    for changed in ({"version": -1}, {"expert_order": "uniform"}, {"expert_epochs": 3.0}, other_base, {"base": "0f"}):
        other = json.dumps({**line, **changed, "seed": 1})
        results.write_text(f"{other}\n{json.dumps(line)}\n", encoding="utf-8")
        assert [kept["seed"] for kept in learning.read(results)] == [0], "beside a line of today"
    results.write_text(f"{other}\n", encoding="utf-8")
    learning.main(["--env", "maze", "--seeds", "1", "--results", str(results), "--tables"])
    assert "| maze † | easy | 1 | 20.0 % [10, 37] |" in capsys.readouterr().out, "and alone"


def finished_run(folder: Path, base: str) -> None:
    """Write the files of a run of two rounds, whose agents are measured."""
    estimates = {rate: asdict(wilson(30 * rate, 30)) for rate in (0.2, 0.6)}
    first, last = (
        {"success": estimates[rate], "reward": estimates[rate], "steps": 5.0, "invalid": 0.1} for rate in (0.2, 0.6)
    )
    files: dict[str, Any] = {
        "run.yaml": {
            "env": ["maze"],
            "env_kwargs": {"difficulty": "easy"},
            "expert_order": "kinds",
            "expert_epochs": None,
        },
        "provenance.json": {"base_policy": base},
        "test.json": {"last": 1, "rounds": {"0": first, "1": last}},
        "extra.json": dict.fromkeys(
            ["more_epochs", "random", "base", "fair expert", "exact expert"]
            + [f"round {number}, {difficulty}" for number in (0, 1) for difficulty in ("medium", "hard")],
            first,
        ),
    }
    for number, played in enumerate((first, last)):
        files[f"rounds/{number:02d}/metrics.json"] = {
            "explored": first, "selection": {"kept": 6}, "valid": played, "seconds": 1.0,
        }  # fmt: skip
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(content))


# ---- every world ----------------------------------------------------------------------------------------------------


def test_a_measured_difficulty_replaces_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Other lines stay in their places; the tables show rates with their intervals, and measure nothing."""
    worlds, results = script("worlds"), tmp_path / "lines.jsonl"
    words = ["maze", "--tasks", "3", "--steps", "1000", "--results", str(results)]
    worlds.main(words)
    first = worlds.read(results)
    assert [line["difficulty"] for line in first] == ["easy", "medium", "hard"]
    worlds.keep({**first[1], "tasks": 300, "solved": {"expert": 300, "fair expert": 297, "random": 3}}, results)
    assert [worlds.read(results)[n] for n in (0, 2)] == [first[0], first[2]]
    capsys.readouterr()
    worlds.main([*words, "--tables"])
    row = capsys.readouterr().out.splitlines()[3]
    assert row.startswith("| maze | medium | 100.0 % | 99.0 % [97, 100] | 1.0 % [0, 3] |")
    low, middle, high = first[1]["steps_per_second"]
    assert f"| {middle:,} [{low:,}, {high:,}] |" in row and low <= middle <= high


def test_a_world_is_proved(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row counts solved tasks and equal replays; a replay that differs makes the exit status 1."""
    worlds = script("worlds")
    assert worlds.main(["maze", "--proof", "--tasks", "2", "--splits", "test"]) == 0
    rows = capsys.readouterr().out.splitlines()[2:]
    assert rows == [f"| maze | {level} | test | 2 | 2 | 2 | 2 |" for level in ("easy", "medium", "hard")]
    replay = worlds.replay
    monkeypatch.setattr(worlds, "replay", lambda env, number, *rest: replay(env, number, *rest)[number:])
    assert worlds.main(["maze", "--proof", "--tasks", "2", "--splits", "test"]) == 1
    assert capsys.readouterr().out.splitlines()[2] == "| maze | easy | test | 2 | 2 | 2 | 1 |"


def test_lines_of_worlds_have_the_keys_of_today() -> None:
    """Every installed world of ours has a line for each difficulty, of the same number of tasks."""
    lines = script("worlds").read()
    assert len({tuple(line) for line in lines}) == 1 and {line["tasks"] for line in lines} == {300}
    assert len({(line["world"], line["difficulty"]) for line in lines}) == len(lines)


# ---- rewards beside each other --------------------------------------------------------------------------------------


def test_the_runs_of_the_rewards_benchmark_can_be_started_and_tabulated() -> None:
    """Each study's options are a valid plan; a row of the tables averages its seeds."""
    rewards = script("rewards")
    for study in rewards.STUDIES.values():
        for arm, options in study.arms.items():
            assert plan_of(study.words(arm, "tiny")).config.reward == options.split()[1]
    rows = [
        {"study": "parts", "arm": "agent", "seed": seed, "before": [0, 0, 1, 0], "after": [1, seed, 1, 0],
         "steps": 4.0 + seed, "tokens": 40.0, "return": 0.5, "curve": [0.25, 0.5]}
        for seed in range(2)
    ]  # fmt: skip
    lines = list(rewards.tables(rows))
    assert lines[2].startswith("| parts | agent | 2 | 25.0 % | 62.5 % | 0.375 [")
    assert lines[2].endswith("| 0.500 | 4.50 | 40 |") and lines[-1] == "| parts | agent | 25 50 |"


# ---- constrained training beside plain training ---------------------------------------------------------------------


def test_the_runs_of_the_safety_benchmark_can_be_started_and_tabulated(tmp_path: Path) -> None:
    """Each arm is a valid plan whose constraint its world names; a row averages episodes of all seeds."""
    benchmark = script("safety")
    for name, study in benchmark.STUDIES.items():
        cost, limit = benchmark.LIMITS[name]
        for arm in study.arms:
            plan = plan_of(study.words(arm, "tiny"))
            assert plan.trainer.constraint == ("" if arm == "plain" else f"{cost}<={limit}")
            assert cost in plan.envs[0].make().costs
    rows = [
        {"study": "shop", "arm": arm, "seed": seed, "tasks": ["a", "b"], "costs": [cost, 0.0],
         "returns": [value, 0.5], "multiplier": None if arm == "plain" else 0.25}
        for seed in range(2) for arm, cost, value in (("plain", 1.0, 0.5), ("pid", 0.5, 0.3))
    ]  # fmt: skip
    plain, pid = list(benchmark.table(rows))[2:]
    assert plain == "| shop | plain | 2 | 0.500 | 0.2 | 0.500 | 100 % | – |"  # two tasks have no interval
    assert pid == "| shop | pid | 2 | 0.250 | 0.2 | 0.400 | 80 % | 0.25, 0.25 |"


def test_a_study_runs_every_arm_of_every_seed_and_keeps_each_row_at_once(tmp_path: Path) -> None:
    """In the order of studies, seeds and arms; rows before a failure are kept."""
    studies = script("studies")

    class Runs:
        def runs(self, folder: Path, seed: int, options: list[str]) -> Iterator[tuple[str, str]]:
            assert options == ["--valid_tasks", "1", "--test_tasks", "300"]
            yield from ((arm, f"{folder.relative_to(tmp_path)}/{arm}") for arm in "ab")
            if "two" in folder.parts and seed == 3:
                raise RuntimeError("killed")

    parser = studies.parser_of("Doc.", ["one", "two"], str(tmp_path))
    args, more = studies.parse(parser, ["--seeds", "0", "3", "--valid_tasks", "1"])

    def row(study: str, arm: str, seed: int, run: str) -> dict[str, Any]:
        return {"study": study, "arm": arm, "seed": seed, "run": run}

    with pytest.raises(RuntimeError, match="killed"):
        studies.report(args, studies.study_rows({"one": Runs(), "two": Runs()}, row, args, more), list)
    runs = [json.loads(line)["run"] for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert runs == [f"{study}/s{seed}/{arm}" for study in ("one", "two") for seed in (0, 3) for arm in "ab"]


def test_tables_are_printed_of_the_rows_of_a_command_without_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of its names, seeds and settings; a row that is made again takes the place of the old one."""
    studies = script("studies")
    parser = studies.parser_of("Doc.", ["one", "two"], "runs/x")

    def parse(*words: str) -> Any:
        return studies.parse(parser, [*words, "--results", str(tmp_path / "lines.jsonl")])[0]

    def tables(rows: Sequence[Any]) -> list[str]:
        return [f"{row['study']} {row['arm']} {row['seed']} {row['value']}" for row in rows]

    def rows_of(value: int) -> list[dict[str, Any]]:
        keys = [(study, arm, seed) for study in ("two", "one") for arm in "ab" for seed in (0, 1)]
        return [{"study": study, "arm": arm, "seed": seed, "value": value} for study, arm, seed in keys]

    studies.report(parse("--rounds", "2"), rows_of(7), tables)
    studies.report(parse("--tasks", "5"), rows_of(8), tables)
    studies.store_row(parse("--tasks", "5"), rows_of(9)[0])
    capsys.readouterr()
    studies.report(parse("--tasks", "5", "--tables", "--seeds", "0"), (), tables)
    assert capsys.readouterr().out.splitlines() == ["one a 0 8", "one b 0 8", "two a 0 9", "two b 0 8"]
    studies.report(parse("one", "--tables", "--rounds", "2"), (), tables)
    assert capsys.readouterr().out.splitlines() == ["one a 0 7", "one a 1 7", "one b 0 7", "one b 1 7"]
    with pytest.raises(SystemExit, match="has no line of these names, seeds and settings"):
        studies.report(parse("--tables", "--rounds", "4"), (), tables)


def test_the_names_of_studies_come_first_and_the_other_words_are_options_of_evolve(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also if an option's value follows it; a name that is none ends with the names that are some."""
    studies = script("studies")
    parser = studies.parser_of("Doc.", ["one", "two"], "runs/x")
    args, options = studies.parse(parser, ["two", "--preset", "smoke", "--seeds", "3", "4", "--tasks", "5"])
    assert (args.names, args.seeds, options) == (["two"], [3, 4], ["--preset", "smoke", "--test_tasks", "5"])
    args, options = studies.parse(parser, ["--explore_tasks", "9"])
    assert args.names == ["one", "two"] and options[:2] == ["--explore_tasks", "9"]
    with pytest.raises(SystemExit):
        studies.parse(parser, ["three"])
    assert "no study three; choose from one, two" in capsys.readouterr().err


def test_options_of_a_study_never_replace_the_agent_that_its_arms_start_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--model` and `--expert_tasks` are for Agent_v0, from which every arm starts; other options are for all runs."""
    studies = script("studies")
    plans: dict[str, dict[str, Any]] = {}

    def evolve(folder: Path, words: list[str], *, trusted: Sequence[str] = ()) -> Any:
        plans[folder.name] = values_of("evolve", words)
        return SimpleNamespace(round=lambda number: folder / f"round-{number}")

    monkeypatch.setattr(studies, "evolve", evolve)
    study = studies.Study("--env maze --expert_tasks 9", "--rounds 3 --explore_tasks 8", {"a": "", "b": "--horizon 4"})
    options = ["--model", "mine", "--expert_tasks", "2", "--rounds", "1", "--explore_tasks", "5"]
    assert [arm for arm, _ in study.runs(tmp_path, 7, options)] == ["a", "b"]
    found = {name: [plan[key] for key in ("model", "expert_tasks", "rounds", "seed")] for name, plan in plans.items()}
    start = str(tmp_path / "v0" / "round-0" / "checkpoint")
    assert found == {"v0": ["mine", 2, 0, 7], "a": [start, 0, 1, 7], "b": [start, 0, 1, 7]}
    assert plans["b"]["explore_tasks"] == 5 and plans["b"]["horizon"] == [4]


# ---- selection by a critic, and retries ------------------------------------------------------------------------------


def test_the_runs_of_the_self_improvement_benchmark_can_be_started_and_tabulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each arm is a valid plan; a row sums the retries of its seeds and averages what the critic kept."""
    benchmark = script("self_improvement")
    for name, study in benchmark.STUDIES.items():
        for arm, options in study.arms.items():
            words = study.words(arm, "tiny")
            if arm == "reward_model":  # its folder comes from a training
                assert "--critic reward_model" in options
                continue
            config = plan_of(words).config
            assert (config.critic is None, config.reflection is None) == (
                "critic" not in options, "reflection" not in options
            ), (name, arm)  # fmt: skip
    commands = run_instead(monkeypatch)
    monkeypatch.setattr(benchmark.Study, "start", lambda *of: tmp_path / "agent")
    study = benchmark.with_reward_model(benchmark.STUDIES["reward_model"], tmp_path, 3, 40, [])
    collection, training = commands
    assert values_of("collect", collection[1:])["tasks"] == 40
    assert values_of("train", training[1:])["data"] == [str(tmp_path / "tries.jsonl")]
    assert study.arms["reward_model"].endswith(str(tmp_path / "rm" / "reward_model"))
    rows = [
        {"study": "reflection", "arm": "agent", "seed": seed, "before": [0, 0, 1, 0], "after": [1, 0, 1, 0],
         "kept": [1.0, 0.5], "scores": [0.25, 0.75], "retries": 10, "turned": 2 + seed}
        for seed in range(2)
    ]  # fmt: skip
    (line,) = list(benchmark.table(rows))[2:]
    assert line.startswith("| reflection | agent | 2 | 50.0 % | 0.250 [")
    assert line.endswith("| 75.0 % | 0.25 → 0.75 | 25.0 % of 20 |")


# ---- an attacked reward ----------------------------------------------------------------------------------------------


def test_a_learnt_reward_is_attacked_on_tasks_that_it_has_not_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the agent whose tries it has learnt from; the table marks the generation of the largest return."""
    benchmark, commands = script("reward_hacking"), run_instead(monkeypatch)
    attacks: list[list[str]] = []
    truths = (0.25, 0.5, 0.375)
    rows = [{"episodes": 4 * n, "proxy": n / 4, "truth": truth, "success": 0.5} for n, truth in enumerate(truths)]

    def attacked(options: list[str]) -> dict[str, Any]:
        attacks.append(options)
        return {"generations": rows, "onset": 1}

    monkeypatch.setattr(benchmark.Study, "start", lambda *of: tmp_path / "agent")
    monkeypatch.setattr(benchmark, "attacked", attacked)
    monkeypatch.setattr(benchmark, "draw", lambda *of: None)
    words = ["--learnt", "shop", "--tries", "7", "--seed", "2", "--runs", str(tmp_path), "--tasks", "9"]
    benchmark.main(words)
    assert [values_of(words[0], words[1:])["seed"] for words in commands] == [1002, 2]
    values = values_of("attack", attacks[0])
    model = tmp_path / "shop" / "s2" / "rm" / "reward_model"
    assert (values["reward_model"], values["split"], values["tasks"], values["seed"]) == (str(model), "test", 9, 2)
    assert values["model"] == str(tmp_path / "agent")
    assert "| 1 (peak) | 4 | 0.250 | 0.500 | 50.0 % |" in capsys.readouterr().out


# ---- several agents --------------------------------------------------------------------------------------------------


def test_the_runs_of_the_several_agents_benchmark_can_be_started_and_tabulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run is a valid plan; the team's planner has the executor as its partner; a row says the gain of its arm."""
    benchmark = script("several_agents")
    (tmp_path / "checkpoint").mkdir()
    plans: dict[str, Any] = {}

    def play(folder: Path, seed: int, words: str, more: list[str], *last: str) -> str:
        values = values_of("evolve", [*words.split(), *more, *last])
        plans[f"{folder.parent.parent.name}/{folder.name}"] = values
        return folder.name

    monkeypatch.setattr(benchmark, "play", play)
    monkeypatch.setattr(benchmark, "last_agent", lambda run: str(tmp_path / "checkpoint"))
    monkeypatch.setattr(benchmark, "row", lambda study, arm, seed, run, before=0: (study, arm, run))
    found = [*benchmark.role_rows("errand", 0, tmp_path, [])]
    found += benchmark.partner_rows(0, tmp_path, ["--model", "tiny", "--rounds", "9"])
    found += benchmark.team_rows(0, tmp_path, "hard", ["--valid_tasks", "3"])
    assert [row[1] for row in found] == [
        "client", "shopper", "both", "self", "fair", "trained", "itself", "flat", "executor", "team"
    ]  # fmt: skip
    assert plans["errand/both"]["roles"] == ["client", "shopper"] and plans["team/flat"]["env"] == ["household"]
    assert plans["errand/self"]["self_play"] and not plans["errand/both"]["self_play"]
    agent = str(tmp_path / "checkpoint")
    assert (plans["partner/itself"]["model"], plans["partner/itself"]["rounds"]) == (agent, 0)
    shares = [plans[f"team/{arm}"]["explore_tasks"] for arm in ("flat", "executor", "team")]
    assert shares[0] == shares[1] + shares[2]
    monkeypatch.undo()
    rows = [
        {"study": "team", "arm": arm, "seed": seed, "before": [0, 0, 1, 0], "after": after}
        for arm, after in (("flat", [1, 0, 1, 0]), ("team", [1, 1, 1, 0])) for seed in range(2)
    ]  # fmt: skip
    flat, team = list(benchmark.table(rows))[2:]
    assert flat.startswith("| team | flat | 2 | 25.0 % | 50.0 % | 0.250 [") and flat.endswith("| – |")
    assert team.startswith("| team | team | 2 | 25.0 % | 75.0 % | 0.500 [") and "| 0.250 [" in team


# ---- curricula beside each other ------------------------------------------------------------------------------------


def test_the_runs_of_the_curriculum_benchmark_can_be_started_and_tabulated() -> None:
    """Each arm is a valid plan; the episodes to a target are interpolated, and counted only if it is reached."""
    benchmark = script("curriculum")
    for study in benchmark.STUDIES.values():
        for arm in study.arms:
            config = plan_of(study.words(arm, "tiny")).config
            assert (config.curriculum is None) == ("curriculum" not in study.arms[arm])
    assert benchmark.episodes_to(0.6, [(0, 0.2), (100, 0.5), (200, 0.7)]) == pytest.approx(150)
    assert benchmark.episodes_to(0.6, [(0, 0.6)]) == 0 and benchmark.episodes_to(0.6, [(0, 0.2), (100, 0.5)]) is None
    rows = [
        {"study": "maze", "arm": "difficulty", "seed": seed, "curve": [(0, 0.2), (100, success)],
         "before": [0, 0, 1, 0], "after": [1, 0, 1, 0]}
        for seed, success in enumerate((0.6, 0.1))
    ]  # fmt: skip
    lines = list(benchmark.tables(rows, 0.6))
    assert lines[2].startswith("| maze | difficulty | 2 | 100, never | 1 of 2 reach it | 50.0 % | ")
    assert lines[-1] == "| maze | difficulty | 0: 20, 100: 35 |"


# ---- coresets beside all the data -----------------------------------------------------------------------------------


def test_the_runs_of_the_coreset_benchmark_can_be_started_and_tabulated() -> None:
    """Each fork is a valid plan; tokens are a share of those selected, success stands beside all on the same tasks."""
    benchmark = script("coreset")
    for arm in benchmark.ARMS[1:]:
        words = [word for change in benchmark.changes_of(arm, 0.25) for word in (f"--{change}".split("="))]
        coreset = plan_of(["--env", "shop", *words]).config.coreset
        assert coreset.ratio == 0.25 and type(coreset) is registry.load("agentgym.coresets", arm)
    rows = [
        {"arm": arm, "seed": seed, "tokens": [(25.0, 100.0), (35.0, 100.0)] if arm != "all" else [(1.0, 1.0)] * 2,
         "after": [1, 1, arm == "all", 0]}
        for seed in range(2) for arm in ("all", "random")
    ]  # fmt: skip
    lines = list(benchmark.table(rows))
    assert lines[2] == "| all | 2 | 100 % | 75.0 % | – |"
    assert lines[3].startswith("| random | 2 | 30 % | 50.0 % | -0.25")


# ---- judges beside the truth ----------------------------------------------------------------------------------------


def test_the_runs_of_the_feedback_benchmark_can_be_started_and_tabulated(episode: Any) -> None:
    """Each judge is a valid plan and each source has its options; a wrong judge turns that share of the pairs round."""
    benchmark = script("feedback")
    for arm in benchmark.JUDGES.arms:
        assert plan_of(benchmark.JUDGES.words(arm, "tiny")).config.reward == ("return" if arm == "return" else "judge")
    for options in (*benchmark.SOURCES.values(), *benchmark.MODEL_SOURCES.values()):
        values_of("judge", options.split())
    groups = [[episode("a", id=f"{n}-{k}", reward=float(k)) for k in range(4)] for n in range(300)]
    assert benchmark.oracle(groups[0]) == [0.0, 1 / 3, 2 / 3, 1.0]
    assert benchmark.oracle([groups[0][0], groups[1][0]]) == [0.5, 0.5]
    for share, judge in ((0.1, benchmark.wrong10), (0.2, benchmark.wrong20), (0.3, benchmark.wrong30)):
        mean = sum(judge(group)[3] for group in groups) / len(groups)  # the best one wins its pairs but for these
        assert mean == pytest.approx(1 - share, abs=0.05) and judge(groups[0]) == judge(groups[0])
    found = {"scores": 8, "corrections": 2, "pairs": 5, "pairwise": {"value": 0.75}, "tau": 0.5,
             "calibration_error": None, "brier": 0.25}  # fmt: skip
    rows = [
        {"study": "agreement", "arm": "llm", "seed": 0, **found},
        {"study": "judges", "arm": "oracle", "seed": 0, "before": [0, 0, 1, 0], "after": [1, 0, 1, 0], "return": 0.5},
        {"study": "judges", "arm": "oracle", "seed": 1, "before": [0, 0, 1, 0], "after": [1, 1, 1, 0], "return": 0.7},
    ]
    lines = list(benchmark.tables(rows))
    assert lines[2] == "| llm | 1 | 8 | 2 | 5 | 75.0 % | 0.50 | – | 0.25 |"
    assert lines[-1].startswith("| oracle | 2 | 25.0 % | 62.5 % | 0.375 [") and lines[-1].endswith("| 0.600 |")


# ---- worlds one after another ---------------------------------------------------------------------------------------


def test_the_runs_of_the_continual_benchmark_can_be_started_and_tabulated() -> None:
    """Each arm is a valid plan; forgetting and gains stand beside those of nothing."""
    benchmark = script("continual")
    for arm in benchmark.ARMS:
        plan = plan_of(benchmark.words_of(arm, ["shop", "maze"], 0.3, 10.0))
        assert plan.config.sequence and len(plan.envs) == 2
        assert (plan.config.replay_ratio, plan.trainer.ewc_lambda) == (
            0.3 if arm in ("replay", "both") else 0.0, 10.0 if arm in ("ewc", "both") else 0.0,
        )  # fmt: skip
    rows = [
        {"arm": arm, "seed": seed, "after": [1, 0, 1, arm == "both"], "worlds": ["shop", "maze"], "average": 0.5,
         "success": [[0.9, 0.1], [0.4 + seed / 10, 0.6]], "forgetting": {"mean": 0.5 - seed / 10}}
        for seed in range(2) for arm in ("nothing", "both")
    ]  # fmt: skip
    lines = list(benchmark.tables(rows))
    assert lines[2] == "| nothing | 2 | 50.0 % | 45.0 points | – |"
    assert lines[3].startswith("| both | 2 | 50.0 % | 45.0 points | 0.250 [")
    assert lines[-1] == "| both | maze | 45.0 % | 60.0 % |" and lines[-2] == "| both | shop | 90.0 % | 10.0 % |"


# ---- first faults beside planted mistakes ---------------------------------------------------------------------------


def test_planted_mistakes_are_located() -> None:
    """Each costly one, and nothing in an episode without one; a world without costly ones is given up."""
    benchmark = script("first_fault")
    for world in ("maze", "calculator"):
        counts = benchmark.measure(world, 2, 1)
        assert counts.costly == counts.located == 2 and counts.failed == counts.located_failed
        assert counts.harmless >= 2 and counts.false_alarms == 0 and counts.episodes >= 4
        assert counts.row(world).startswith(f"| {world} | 2 of 2 | ")
    assert benchmark.measure("wordle", 1, 2).costly == 0
    _, *rows = benchmark.forks(4)
    assert len(rows) == 27 and rows[0].startswith("| 5 | 8 | 10 % | ")


# ---- comparisons that stop themselves -------------------------------------------------------------------------------


def test_comparisons_that_stop_themselves_are_tabulated() -> None:
    """Decisions as those of the class, task by task; the fixed size is that of the formula for the detectable gap."""
    import numpy as np

    from agentgym_py.evaluation.anytime import AnytimeTest

    benchmark = script("anytime")
    differences = benchmark.draw(np.random.default_rng(3), 3, 0.5, 0.4)[:, :200]
    looks, _ = benchmark.first_looks(differences)
    for row, look in zip(differences, looks, strict=True):
        test = AnytimeTest()
        for difference in row:
            test.add(float(difference))
        assert test.result.decided_at == (look if np.isfinite(look) else None)
    assert np.isfinite(looks).all()
    assert (
        benchmark.fixed_size(0.3, 0.1, 0.8) == 234 and benchmark.draw(np.random.default_rng(0), 2, 0.3, 0.1).max() == 1
    )
    # the likelihood ratio of two coins needs log(0.8 / 0.05) nats where it is right, and pays for where it is not
    nats = 0.8 * math.log(0.8 / 0.05) + 0.2 * math.log(0.2 / 0.95)
    assert benchmark.least_mean(1.0, 0.5, 0.8, 0.05) == pytest.approx(
        nats / (0.75 * math.log(1.5) - 0.25 * math.log(2))
    )
    claims, *ends = benchmark.planned_looks(benchmark.draw(np.random.default_rng(4), 3, 0.3, 0.05))
    wald, *_ = benchmark.planned_looks(differences, 0.5)
    assert np.isfinite(wald).all() and (ends[0] <= ends[1]).all() and np.isfinite(ends[0]).all()
    for row, claim, end in zip(benchmark.draw(np.random.default_rng(4), 3, 0.3, 0.05), claims, ends[0], strict=True):
        test = AnytimeTest(margin=0.1, power=0.8)
        for difference in row[: int(min(claim, end))]:
            test.add(float(difference))
        assert test.result.decided_at == min(claim, end)
        assert (test.result.verdict == "equal") == (end < claim)
    assert len(list(benchmark.planned(2))) == 1 + 2 * 2 * 3
    rows = list(benchmark.lines(2))
    assert len(rows) == 4 + 1 + 7 + 1 and rows[1].startswith("| 10 % | ") and "held the true 10 points" in rows[-1]


# ---- forked runs ----------------------------------------------------------------------------------------------------


def test_the_noise_that_forks_save_is_a_ratio_of_variances(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of differences within seeds and between them, by hand; a fork without an effect has none."""
    import numpy as np

    benchmark = script("fork")
    monkeypatch.setattr(benchmark, "SAMPLES", 50)
    runs = np.array([[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0]], dtype=float)  # 0.2, 0.4, 0.6
    forks = np.array([[1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [0, 1, 1, 1, 0]], dtype=float)  # 0.4, 0.6, 0.6
    own, other = benchmark.variances(runs, forks)
    assert own == pytest.approx(0.04 / 3) and other == pytest.approx(0.04 + 0.04 / 3)
    for pair in (benchmark.variances, benchmark.shares, benchmark.by_tasks):
        assert pair(runs, runs)[0] == 0 < pair(runs, runs)[1]
        low, high = benchmark.ratio_interval(pair, runs, forks)
        assert 0 <= low <= high
    assert benchmark.shares(runs, forks) == pytest.approx(((1 + 1 + 2) / 15, (0 + 1 + 2 + 0 + 4 + 3) / 30))
    twice = benchmark.shares(np.concatenate([runs, runs]), np.concatenate([forks, forks]))
    assert twice == pytest.approx(benchmark.shares(runs, forks)), "a seed that is drawn twice is no other one"
    assert benchmark.by_tasks(runs, forks)[0] == pytest.approx((0.2 + 0.2 + 0.5) / 5 / 3)
    _, _, first, _, variance, differ = benchmark.table(runs, forks)
    assert first == "| fork − its own run | +13.3 | 11.5 | 24.5 | 26.7 % |"
    assert variance.startswith("\nvariance of the first / of the second: 0.25 [") and "0.80 [" in differ


def test_forks_are_compared_by_all_that_they_leave(tmp_path: Path) -> None:
    """Weights and episodes of every round."""
    from agentgym_py.evolution.run_folder import RunFolder

    benchmark = script("fork")
    runs = [RunFolder.create(tmp_path / name, {"rounds": 0}) for name in "ab"]
    for run in runs:
        run.begin_round(0)
        run.finish_round(0, {"policy_digest": "d"})
        (run.round(0) / "valid.jsonl").write_text("one")
    assert benchmark.is_same(*runs)
    (runs[1].round(0) / "valid.jsonl").write_text("two")
    assert not benchmark.is_same(*runs)
    (runs[1].round(0) / "valid.jsonl").unlink()
    assert not benchmark.is_same(*runs)


# ---- hostile actions ------------------------------------------------------------------------------------------------


def test_a_hostile_action_that_raises_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ends its episode alone; blocks that are done are not played again."""
    actions, state = script("hostile_actions"), tmp_path / "state.jsonl"
    monkeypatch.setattr(actions, "BLOCK", 40)
    monkeypatch.setattr(sys, "argv", ["x", "maze", "--actions", "80", "--state", str(state)])
    assert actions.main() == 0 and "| all | 80 | 0 |" in capsys.readouterr().out
    state.write_text(state.read_text().splitlines(keepends=True)[0] + '{"world": "ma')
    step = type(actions.EnvSpec("maze").make()).step

    def fails(env: Any, action: str) -> Any:
        if env.steps == 3:
            raise RuntimeError("as planned")
        return step(env, action)

    monkeypatch.setattr(type(actions.EnvSpec("maze").make()), "step", fails)
    assert actions.main() == 1
    said = capsys.readouterr()
    assert "| maze | 80 | 10 |" in said.out and "as planned" in said.err


@pytest.mark.parametrize(("world", "count"), [("errand", 6), ("tools", 4), ("maze", 3)])
def test_hostile_actions_are_sent_in_every_difficulty_and_role(world: str, count: int) -> None:
    """The unusual difficulties, too."""
    assert len({str(spec.kwargs) for spec in script("hostile_actions").variants(world)}) == count


# ---- signals ---------------------------------------------------------------------------------------------------------


def test_moments_are_kept_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that was cut short is none; a fault counts against its command."""
    signals, state = script("signals"), tmp_path / "state.jsonl"
    good = signals.Moment("eval", 0, "SIGINT", 1.0, "", 0.25, True)
    bad = signals.Moment("eval", 1, "SIGTERM", 2.0, "a traceback", 0.5, None)
    state.write_text("".join(json.dumps(asdict(moment)) + "\n" for moment in (good, bad)) + '{"command"')
    assert signals.read_state(signals.Moment, state) == [good, bad]
    assert signals.row("eval", [good, bad]) == "| eval | 1 of 2 | 0.5 | 1 of 1 |"
    monkeypatch.setattr(sys, "argv", ["x", "eval", "--moments", "2", "--state", str(state)])
    assert signals.main() == 1


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes of Linux")
def test_a_command_that_has_exited_hears_no_signal() -> None:
    """The system may need seconds to free its memory; a signal then is none that the command ignores."""
    signals = script("signals")
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert signals.has_ended(process.pid)
    assert signals.has_ended(process.pid) and not signals.has_ended(os.getpid())


# ---- fuzzing --------------------------------------------------------------------------------------------------------


def test_fuzzed_blocks_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reader with the fewest comes next; a finding says what was read."""
    fuzz, samples, state = script("fuzz"), script("fuzz_samples"), tmp_path / "state.jsonl"
    readers = {
        "good": fuzz.Reader(samples.texts, str),
        "bad": fuzz.Reader(samples.raw, lambda data: data.decode("ascii"), ()),
    }
    monkeypatch.setattr(fuzz, "make_readers", lambda: readers)
    monkeypatch.setattr(fuzz, "BLOCK", 50)
    now = iter(range(100))
    monkeypatch.setattr(fuzz.time, "monotonic", lambda: next(now))
    monkeypatch.setattr(sys, "argv", ["x", "--state", str(state), "--seconds", "8"])
    assert fuzz.main() == 1
    said = capsys.readouterr()
    blocks = fuzz.read_state(fuzz.Block, state)
    assert [block.reader for block in blocks[:2]] == ["good", "bad"] and "UnicodeDecodeError" in said.err
    assert f"| good | {blocks[0].executions} | 0 |" in said.out and "| bad | 0 | 1 |" in said.out


@pytest.mark.skipif(os.name != "posix", reason="pipes and limits of POSIX")
def test_a_folder_is_damaged_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], episode: Any
) -> None:
    """A command that waits, raises or changes something elsewhere is a finding; executions that are done are kept."""
    from agentgym_py.trajectory import store

    folders, state = script("fuzz_folders"), tmp_path / "state.jsonl"
    (tmp_path / "samples").mkdir()
    store.write(tmp_path / "samples" / "s.jsonl", [episode("a"), episode("b")])
    (tmp_path / "samples" / "complete").touch()
    monkeypatch.setattr(folders, "COMMANDS", {"s.jsonl": [["data", "verify", "s.jsonl"]]})
    monkeypatch.setattr(folders.resource, "setrlimit", lambda *_: None)
    words = ["x", "--samples", str(tmp_path / "samples"), "--state", str(state)]
    monkeypatch.setattr(sys, "argv", [*words, "--executions", "30"])
    assert folders.main() == 0 and "| data | 30 | 0 |" in capsys.readouterr().out
    damages = [execution.damage for execution in folders.read_state(folders.Execution, state)]
    assert len(set(damages)) > 10 and all(damage.startswith("s.jsonl: ") for damage in damages)

    def raises(words: Any) -> int:
        raise KeyError(words[0])

    def waits(words: Any) -> int:
        while True:
            pass

    def leaves(words: Any) -> int:
        (Path.cwd().parent / "precious").write_text("x")
        return 0

    for number, (command, finding) in enumerate(
        ((raises, "KeyError"), (waits, "did not end in 1 s"), (leaves, "outside the folder"), (lambda _: 3, "status 3"))
    ):
        monkeypatch.setattr(folders, "agentgym", command)
        monkeypatch.setattr(sys, "argv", [*words, "--executions", str(31 + number), "--patience", "1"])
        assert folders.main() == 1 and finding in capsys.readouterr().err


# ---- the credit lab -------------------------------------------------------------------------------------------------


def test_known_biases_are_those_of_groups_that_are_counted() -> None:
    """The closed form of the turn's group is the mean over all groups of three in a world of a few steps."""
    from itertools import product

    from agentgym_py.agents import RandomAgent
    from agentgym_py.credit.exact import Enumeration
    from agentgym_py.credit.probes import Probe
    from agentgym_py.env import EnvSpec

    benchmark = script("credit")
    env, agent = EnvSpec("maze", {"difficulty": "easy", "max_steps": 3}).make(), RandomAgent()
    env.reset(seed=0, options={"task": env.task(0, "train").id})
    start, values = env.snapshot(), Enumeration(agent)
    turns = benchmark.moments(env, agent, values)
    env.restore(start)
    assert turns[0] == (1.0, values.value(env)) and len(turns) == 3
    assert all(0 < reached <= 1 for reached, _ in turns)

    episode = SimpleNamespace(steps=[SimpleNamespace(reward=0.0)] * 3)
    probe = Probe(("", "", ""), episode, 1, [], [], [], [], 0.2, (0.2, 0.2))  # type: ignore[arg-type]
    reached, mean, value, group = 0.6, 0.3, 0.5, 3
    known = benchmark.known_bias(probe, value, [(1.0, 0.4), (reached, mean)], group)
    expected = 0.0
    for alive in product((0, 1), repeat=group - 1):  # the others that reach the turn, each with the mean return there
        chance = math.prod(reached if one else 1 - reached for one in alive)
        own = value + 0.2
        expected += chance * (own - (own + sum(alive) * mean) / (1 + sum(alive)))
    assert known["turn_group"] == pytest.approx(expected - 0.2) and known["tree"] == 0
    assert known["rloo"] == pytest.approx(0.7 - 0.4 - 0.2)
    assert known["dr_grpo"] == pytest.approx((1 - 1 / 3) * (0.7 - 0.4) - 0.2)


# ---- certificates ----------------------------------------------------------------------------------------------------


def test_planted_defects_are_tabulated(tmp_path: Path) -> None:
    """A found one with its check, and how many; the patches of all fit the worlds."""
    from agentgym_py.testing import Settings

    benchmark, rows = script("certificate"), tmp_path / "planted.jsonl"
    benchmark.measure_planted(["success pays nothing"], Settings(episodes=4, memory_episodes=0), rows, again=False)
    (row,) = kept = benchmark.read_state(benchmark.PlantedRow, rows)
    assert row.message.startswith("the expert's return of 0 ")
    table, total = benchmark.planted_tables(kept)
    assert table.splitlines()[2:] == ["| calculator | success pays nothing | `floor_and_ceiling` |"]
    assert total == "1 of 1 defects are found, 1 of them by the check that was expected to."
    for number, defect in enumerate(benchmark.DEFECTS):
        with benchmark.planted(defect, number) as spec:
            assert spec.name == f"Planted{number}-v0"
    rows = tmp_path / "clean.jsonl"
    benchmark.measure_clean(["maze"], ["solvable"], Settings(episodes=4), rows, again=False)
    *_, total = benchmark.clean_tables(benchmark.read_state(benchmark.CleanRow, rows))
    assert total == "0 false alarms in 1 checks of 1 worlds."


# ---- proofs of trainers ----------------------------------------------------------------------------------------------


def test_found_bugs_and_false_alarms_are_tabulated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every failed check counts, also beside the expected one; `improves` is asked only if no other fails."""
    pytest.importorskip("torch")
    benchmark, asked = script("prove"), list[str]()
    findings = {"sign": ("failed", "coefficients | fall", {}), "improves": ("passed", "gain", {"gain": 0.5})}

    def answer(bench: Any, name: str) -> Any:
        asked.append(name)
        status, text, measured = findings.get(name, ("skipped", "not asked", {}))
        return benchmark.Result(name, "", status, 0.0, text, measured)

    def planted(name: str) -> list[str]:
        rows = tmp_path / f"{name}.jsonl"
        benchmark.measure_planted(["ppo flipped sign"], 0, rows, again=False, may_begin=lambda: True)
        table, total = benchmark.planted_tables(benchmark.read_state(benchmark.PlantedRow, rows))
        return [*table.splitlines()[2:], total]

    monkeypatch.setattr(benchmark, "run_check", answer)
    row, total = planted("found")
    assert row == "| ppo | flipped sign | `sign` |" and "improves" not in asked
    assert total == "1 of 1 bugs are found, 1 of them by the check that was written for it."
    rows = tmp_path / "clean.jsonl"
    checks = ["mask", "sign", "improves"]
    benchmark.measure_clean(["grpo"], checks, [0], rows, again=False, may_begin=lambda: True)
    table, total = benchmark.clean_tables(benchmark.read_state(benchmark.CleanRow, rows))
    assert table.splitlines()[2:] == ["| grpo | – | 50 | 2 | sign: coefficients / fall |"]
    assert total.startswith("1 of 1 proofs have a false alarm, ") and total.endswith("with 2 checks.")
    del findings["sign"]
    row, total = planted("lost")
    assert "**not found**" in row and asked[-1] == "improves" and total.startswith("0 of 1 bugs are found")


# ---- tools in the prompt --------------------------------------------------------------------------------------------


def test_the_runs_of_the_tools_in_prompt_benchmark_can_be_started_and_tabulated(tmp_path: Path) -> None:
    """Each arm is a plan of the world with that many tools; a row has the gain over the first arm."""
    pytest.importorskip("torch")
    from agentgym_py.env import EnvSpec
    from agentgym_py.retrieval.training import IndexTraining, train_index

    benchmark = script("tools_in_prompt")
    world: Any = EnvSpec("tools", {"difficulty": "retrieval"}).make()
    queries = list(world.tool_queries("train", range(4)))
    train_index(world.tool_texts(), queries, IndexTraining(epochs=1, rows=256, size=8)).save(tmp_path / "s0")
    for number in benchmark.NUMBERS:
        env = plan_of(benchmark.words_of(number, tmp_path / "s0")).envs[0].make()
        observation, _ = env.reset(seed=0)
        assert observation.split("Tools:\n")[1].count("\n") + 1 == int(number) + 3  # search, undo, finish
    rows = [
        {"arm": number, "seed": seed, "after": after, "prompt": 1000.0 * (1 + seed), "steps": 4.0}
        for number, after in (("0", [0, 0, 1, 0]), ("5", [1, 0, 1, 0])) for seed in range(2)
    ]  # fmt: skip
    search, five = list(benchmark.table(rows))[2:]
    assert search == "| 0 | 2 | 1,500 | 25.0 % | 4.0 | – |" and five.startswith(
        "| 5 | 2 | 1,500 | 50.0 % | 4.0 | 0.250 ["
    )


# ---- common random numbers ------------------------------------------------------------------------------------------


def test_chances_of_equal_tokens_are_those_of_common_random_numbers() -> None:
    """By sampling with the engine's own draw, and with Gumbel noise; no coupling exceeds the total variation bound."""
    torch = pytest.importorskip("torch")
    from agentgym_py.engine.decoding import inverse_cdf

    benchmark = script("coupling")
    p, q = (torch.tensor(row, dtype=torch.float64) for row in ([[0.5, 0.3, 0.2]], [[0.3, 0.3, 0.4]]))
    found = benchmark.agreement(p, q)
    generator = torch.Generator().manual_seed(0)
    uniforms = torch.rand(20_000, generator=generator, dtype=torch.float64)
    first, second = (inverse_cdf(x.expand(20_000, 3), uniforms)[0] for x in (p, q))
    assert float(found.inverse_N) == pytest.approx(float((first == second).double().mean()), abs=0.015)
    noise = -torch.empty(20_000, 3, dtype=torch.float64).exponential_(generator=generator).log()
    first, second = ((x.log() + noise).argmax(-1) for x in (p, q))
    assert float(found.gumbel_N) == pytest.approx(float((first == second).double().mean()), abs=0.015)
    assert float(found.largest_N) == pytest.approx(0.8) and float(found.independent_N) == pytest.approx(0.32)
    assert float(found.independent_N) < min(found.inverse_N, found.gumbel_N) <= float(found.largest_N) + 1e-12


# ---- partners -------------------------------------------------------------------------------------------------------


def test_a_partner_moves_alike_alone_and_in_a_batch(tmp_path: Path) -> None:
    """The benchmark counts it, beside a rate for each."""
    args = SimpleNamespace(
        env="twentyquestions", role="answerer", partner="tiny-random", max_new_tokens=1, tasks=2, slots=2, repeats=1
    )
    together, one_by_one, ratio = script("partners").rows(args, tmp_path)
    assert "together:" in together and "one by one:" in one_by_one and "per CPU second" in one_by_one
    assert ratio.endswith("times the episodes; 2 of 2 the same")
