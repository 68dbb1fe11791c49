"""Two processes that train together: what one alone makes of it, one writer, errors that end both."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from safetensors.torch import load_file

from agentgym_py import ranks, store
from agentgym_py.cli import _main, main
from agentgym_py.cli.common import workers_for
from agentgym_py.errors import ConfigError, WorkerError
from agentgym_py.finetune import own_rows
from agentgym_py.runs import RunFolder
from agentgym_py.samples import IGNORED

COMMON = [
    "evolve", "--env", "ToyBandit-v0,ToyChain-v0", "--env_kwargs.max_steps", "6", "--model", "base", "--rounds", "1",
    "--explore_tasks", "6", "--tries", "2", "--valid_tasks", "2", "--test_tasks", "1", "--temperature", "1",
    "--max_new_tokens", "2", "--slots", "8",
]  # fmt: skip
FAILED_TOO = ["--select.success_only", "false", "--select.threshold", "-9", "--trainer.threshold", "-9"]
RUNS = {
    "filtered_bc": ["--expert_tasks", "3", "--trainer.batch_size", "5", "--trainer.learning_rate", "1e-2", *FAILED_TOO],
    "grpo": ["--expert_tasks", "0", "--trainer.group_size", "4", "--trainer.batch_tasks", "4", "--trainer.minibatch",
             "5", "--trainer.kl", "0.1", "--trainer.epochs", "2", "--trainer.learning_rate", "1e-2"],
    "ppo": ["--expert_tasks", "0", "--trainer.batch_tasks", "9", "--trainer.minibatch", "5", "--trainer.lora_rank", "2",
            "--trainer.learning_rate", "1e-2"],
    "weighted_bc": ["--expert_tasks", "0", "--trainer.gradient_accumulation", "2", "--trainer.batch_size", "3"],
}  # fmt: skip
"""Settings with which some process has now and then nothing to do."""
PROGRAM = """
import json, shutil, sys
from importlib.util import module_from_spec, spec_from_file_location
from agentgym_py import ranks
from agentgym_py.cli import _main

spec = spec_from_file_location("toys", sys.argv[1])
spec.loader.exec_module(module_from_spec(spec))
with ranks.together():
    for words in json.loads(sys.argv[2]):
        _main(words)
    if sys.argv[3:]:  # as if it had been killed in its last round, and gone on with
        ranks.gather(None)
        if ranks.first():
            shutil.rmtree(sys.argv[3] + "/rounds/01")
            for name in ("test.json", "report.html"):
                (__import__("pathlib").Path(sys.argv[3]) / name).unlink()
        ranks.gather(None)
        _main(["evolve", "--resume", sys.argv[3]])
"""
FAILS = """
import sys
from agentgym_py import ranks
from agentgym_py.cli import main
from agentgym_py.collect import Collector
from agentgym_py.errors import DataError

def broken(self, job, pool):
    raise DataError("the disk is broken")

if ranks.rank() == 1:
    Collector._begin = broken
sys.exit(main(sys.argv[1:]))
"""


def words_for(trainer: str, out: str) -> list[str]:
    """The command line of one of the runs."""
    return [*COMMON, "--trainer", trainer, *RUNS[trainer], "--out", out]


def in_two(folder: Path, program: str, *argv: str) -> subprocess.CompletedProcess[str]:
    """A program in two processes that meet on a free port of this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = folder / "program.py"
    path.write_text(program)
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_addr", "127.0.0.1"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(
        [*launch, "--master_port", str(port), str(path), *argv],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=150,
    )  # fmt: skip


@pytest.fixture(scope="module")
def both(toys: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with each of the runs by one process and by two, and what the two of them printed."""
    folder = tmp_path_factory.mktemp("ranks")
    toys.word_policy().save(folder / "base")
    before = Path.cwd()
    os.chdir(folder)
    try:
        for trainer in RUNS:
            _main([*words_for(trainer, f"{trainer}-1"), "--threads", "1"])
    finally:
        os.chdir(before)
    words = [words_for(trainer, f"{trainer}-2") for trainer in RUNS]
    done = in_two(folder, PROGRAM, str(Path(__file__).with_name("toys.py")), json.dumps(words), "grpo-2")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


@pytest.mark.parametrize("trainer", RUNS)
def test_two_processes_make_what_one_makes(both: tuple[Path, str], trainer: str) -> None:
    """The same episodes in the same order, the same losses and weights up to how sums round, the same success."""
    one, two = (RunFolder.open(both[0] / f"{trainer}-{number}") for number in (1, 2))
    for number in (0, 1):
        for name in ("trajectories", "valid", "test"):
            played, again = (list(store.read(run.round(number) / f"{name}.jsonl")) for run in (one, two))
            assert [t.id for t in played] == [t.id for t in again]
            assert [[s.reply for s in t.steps] for t in played] == [[s.reply for s in t.steps] for t in again]
            assert played or (number, name) == (0, "trajectories")
        expected, found = (run.metrics(number) for run in (one, two))
        assert found["valid"]["success"] == expected["valid"]["success"]
        if expected["training"] is None:
            assert number == 0 and found["policy_digest"] == expected["policy_digest"]
            continue
        assert found["training"]["loss"] == pytest.approx(expected["training"]["loss"], abs=1e-5)
        for name, value in expected["training"]["metrics"].items():
            if name != "tokens_per_second":
                assert found["training"]["metrics"][name] == pytest.approx(value, rel=1e-3, abs=1e-5), name
        assert found["training"]["trajectories"] == expected["training"]["trajectories"] > 0
        base = load_file(both[0] / "base" / "model.safetensors")
        weights, others = (load_file(run.round(number) / "checkpoint" / "model.safetensors") for run in (one, two))
        for name, weight in weights.items():
            assert (weight - others[name]).abs().max() < 1e-4, name
        assert max((weight - base[name]).abs().max() for name, weight in weights.items()) > 1e-3, "nothing was learnt"


def test_one_process_writes_and_prints(both: tuple[Path, str]) -> None:
    """Each line stands there once; no scratch is left, and the folder says how many processes there were."""
    folder, said = both
    for trainer in RUNS:
        heads = [line for line in said.splitlines() if f"trainer {trainer}, model" in line]
        assert len(heads) == 1 + (trainer == "grpo") and all(line.endswith("2 processes") for line in heads)
        names = [sorted(str(p.relative_to(run)) for p in run.rglob("*")) for run in folder.glob(f"{trainer}-?")]
        assert names[0] == names[1]
        assert RunFolder.open(folder / f"{trainer}-2").read_json("provenance.json")["processes"] == 2


def test_a_run_of_two_goes_on_in_two(both: tuple[Path, str]) -> None:
    """`grpo-2` was gone on with after round 0; that it equals one process's is tested above."""
    folder, said = both
    assert said.count("Going on after Agent_v0.") == 1
    (again,) = RunFolder.open(folder / "grpo-2").read_json("provenance.json")["resumed"]
    assert again["processes"] == 2


def test_an_error_in_one_process_ends_both(both: tuple[Path, str]) -> None:
    """Rank 1's error ends rank 0 in seconds, which says it in a line; the folder can be gone on with."""
    argv = ["evolve", "--env", "maze", "--model", "base", "--preset", "smoke", "--out", "broken"]
    done = in_two(both[0], FAILS, *argv)
    assert done.returncode == 1  # torchrun's own
    assert "agentgym: rank 1: the disk is broken" in done.stderr.splitlines(), done.stderr
    assert "Traceback (most recent call last)" not in done.stderr.partition("torch/distributed")[0]
    assert (both[0] / "broken" / "run.yaml").is_file() and not RunFolder.open(both[0] / "broken").done(0)


# ------------------------------------------------------------------------------------------------------- one process


@pytest.fixture
def second_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if this was the second of two processes, which have not met."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")


def test_alone_nothing_is_waited_for() -> None:
    """One process is rank 0 of 1; what is exchanged is its own, and gradients stay as they are."""
    import torch

    assert (ranks.rank(), ranks.world(), ranks.first()) == (0, 1, True)
    assert ranks.gather(3) == [3] and ranks.once(max, 1, 2) == 2 and ranks.same("name", "a") == "a"
    assert ranks.summed({"loss": 1.0, "ratio_max": 2.0}) == {"loss": 1.0, "ratio_max": 2.0}
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    ranks.sum_gradients([parameter])
    assert parameter.grad.tolist() == [1, 1]


def test_what_processes_log_adds_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums, and the largest of what is a largest; a process without rows logs nothing."""
    parts: Sequence[dict[str, float]] = [{"loss": 1.0, "ratio_max": 2.0}, {}, {"loss": 0.5, "ratio_max": 7.0}]
    monkeypatch.setattr(ranks, "gather", lambda value: parts)
    assert ranks.summed({}) == {"loss": 1.5, "ratio_max": 7.0}


def test_processes_that_went_apart_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that differ are said, instead of one rank's being written."""
    monkeypatch.setattr(ranks, "gather", lambda value: [value, "b"])
    with pytest.raises(WorkerError, match="weights of 1 processes should be one and is 2"):
        ranks.same("weights", "a")


@pytest.mark.usefixtures("second_of_two")
def test_a_batch_is_dealt_out_row_by_row() -> None:
    """The second process takes every second row; where there is one only, that row without anything to learn."""
    rows = [{"input_ids": [k, k], "labels": [IGNORED, k], "weight": 2.0} for k in range(4)]
    assert [row["input_ids"][0] for row in own_rows(rows)] == [1, 3]
    assert own_rows(rows[:1]) == [{"input_ids": [0, 0], "labels": [IGNORED] * 2, "weight": 2.0}]


@pytest.mark.usefixtures("second_of_two")
def test_a_process_of_several_plays_its_share_itself(tiny_policy: Any) -> None:
    """No processes of its own; however few the jobs, for all must have the same episodes."""
    workers = workers_for(tiny_policy)
    assert isinstance(workers, ranks.Ranks) and workers.number == 2


@pytest.mark.usefixtures("second_of_two")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["collect", "--agent", "random"], "collect runs in one process, and here are 2"),
        (["evolve", "--trainer", "dpo"], "DPO trains in one process, and here are 2"),
        (["evolve", "--device", "cuda:1"], "device 'cuda:1' would be every process's"),
    ],
)
def test_what_several_processes_cannot_do_is_said(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything runs, instead of every process doing all of it."""
    assert main(words) == 2 and said in capsys.readouterr().err


@pytest.mark.usefixtures("second_of_two")
@pytest.mark.parametrize(
    ("variable", "engine"), [("ACCELERATE_USE_FSDP", "FSDP"), ("ACCELERATE_USE_DEEPSPEED", "Deep")]
)
def test_engines_that_split_the_model_are_refused(variable: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process computes its own part of the gradient with the whole model."""
    monkeypatch.setenv(variable, "true")
    with pytest.raises(ConfigError, match=f"{engine}.* would split the model"):
        ranks.join()


def test_the_package_is_the_command_line() -> None:
    """`python -m agentgym_py` is what launchers start."""
    done = subprocess.run(
        [sys.executable, "-m", "agentgym_py", "--version"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and done.stdout.startswith("agentgym ")
