"""Two processes that train together: what one alone makes of it, one writer, errors that end both."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any, cast

import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file

from agentgym_py import distributed, registry
from agentgym_py.agents import RandomAgent
from agentgym_py.cli import _main, main
from agentgym_py.cli.runtime import executor_for
from agentgym_py.collection import Collector, PlayConfig, jobs_for, torchrun
from agentgym_py.errors import ConfigError, DataError, WorkerError
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.policy.tokens import Sample
from agentgym_py.training.fit import Fit
from agentgym_py.training.settings import OfflineSettings
from agentgym_py.training.trainer import info_of, require_several_processes
from agentgym_py.trajectory import store

COMMON = [
    "evolve", "--env", "ToyBandit-v0,ToyChain-v0", "--env_kwargs.max_steps", "6", "--model", "base", "--rounds", "1",
    "--explore_tasks", "6", "--attempts", "2", "--valid_tasks", "2", "--test_tasks", "1", "--temperature", "1",
    "--max_new_tokens", "2", "--slots", "8",
]  # fmt: skip
UNMASKED = ["--trainer.mask_truncated_completions", "false"]
"""For replies that are as long as they may be."""
FAILED_TOO = ["--select.success_only", "false", "--select.threshold", "-9", "--trainer.threshold", "-9"]
RUNS = {
    "filtered_bc": ["--expert_tasks", "3", "--trainer.batch_size", "5", "--trainer.learning_rate", "1e-2", *FAILED_TOO],
    "grpo": ["--expert_tasks", "0", "--trainer.group_size", "4", "--trainer.tasks_per_iteration", "4",
             "--trainer.minibatch_size", "5", "--trainer.kl_coef", "0.1", "--trainer.epochs", "2",
             "--trainer.learning_rate", "1e-2", *UNMASKED],
    "ppo": ["--expert_tasks", "0", "--trainer.tasks_per_iteration", "9", "--trainer.minibatch_size", "5",
            "--trainer.lora_rank", "2", "--trainer.learning_rate", "1e-2", "--trainer.critic_warmup", "0", *UNMASKED],
    # some weights have no gradient while the critic warms up
    "ppo_warm": ["--expert_tasks", "0", "--trainer.tasks_per_iteration", "9", "--trainer.minibatch_size", "5",
                 "--trainer.learning_rate", "1e-2", "--trainer.critic_warmup", "1", *UNMASKED],
    "weighted_bc": ["--expert_tasks", "0", "--trainer.gradient_accumulation", "2", "--trainer.batch_size", "3"],
}  # fmt: skip
"""Settings with which some process has now and then nothing to do."""
ALWAYS = ["filtered_bc", "grpo"]
"""What the default run of the tests tries in two processes; the others are slow tests."""
_PAIRS = ["--expert_tasks", "0", "--attempts", "4", "--trainer.batch_size", "3", "--trainer.learning_rate", "1e-2"]
MORE = {
    "dpo": [*_PAIRS, "--trainer.loss_type", "ipo", "--trainer.sft_weight", "0.5"],
    "kto": [*_PAIRS, "--trainer.gradient_accumulation", "2"],
    "orpo": [*_PAIRS, "--trainer.lora_rank", "2"], "ranking": _PAIRS,
    "reverse_curriculum": RUNS["grpo"],
    "dagger": ["--expert_tasks", "0", "--trainer.tasks_per_iteration", "5", "--trainer.batch_size", "3",
               "--trainer.learning_rate", "1e-2"],
    "distill": ["--expert_tasks", "0", "--trainer.teacher", "teacher", "--trainer.tasks_per_iteration", "4",
                "--trainer.minibatch_size", "5", "--trainer.learning_rate", "1e-2", *UNMASKED],
    "r3": [*RUNS["ppo_warm"], "--trainer.tasks_per_iteration", "6", "--trainer.prm_learning_rate", "1e-2"],
}  # fmt: skip
"""Of the other trainers."""
TOY_ENVS = str(Path(__file__).with_name("toy_envs.py"))
CONFIGS = Path(__file__).parents[1] / "examples" / "accelerate"
EACH_STEP = ["--trainer.checkpoint_minutes", "0"]
ZERO = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("deepspeed") is None or not which("c++"), reason="without DeepSpeed or a compiler"),
]
ENGINES = [
    pytest.param("cpu_fsdp", marks=pytest.mark.slow),
    pytest.param("cpu_zero2", marks=ZERO),
    pytest.param("cpu_zero3", marks=ZERO),
]
"""Files for accelerate by which an engine splits the training over two processes."""
PROGRAM = """
import json, shutil, sys
from importlib.util import module_from_spec, spec_from_file_location
from agentgym_py import distributed
from agentgym_py.report import svg
from agentgym_py.cli import _main

svg.has_matplotlib = lambda: False  # they take longer than the training
spec = spec_from_file_location("toy_envs", sys.argv[1])
spec.loader.exec_module(module_from_spec(spec))
with distributed.rank_zero_output():
    for words in json.loads(sys.argv[2]):
        _main(words)
    if sys.argv[3:]:  # as if it had been killed in its last round, and gone on with
        distributed.gather(None)
        if distributed.is_rank_zero():
            shutil.rmtree(sys.argv[3] + "/rounds/01")
            for name in ("test.json", "report.html"):
                (__import__("pathlib").Path(sys.argv[3]) / name).unlink()
        distributed.gather(None)
        _main(["evolve", "--resume", sys.argv[3]])
distributed.exit_process(0)
"""
JUDGES = [
    ("reward_model", []), ("process_reward", []),
    ("process_reward", ["--trainer.labels", "exact", "--trainer.gradient_accumulation", "2"]),
]  # fmt: skip
KILLED = """
import json, os, signal, sys
from importlib.util import module_from_spec, spec_from_file_location
import torch
from agentgym_py import distributed
from agentgym_py.report import svg
from agentgym_py.training.checkpoints import Checkpoints
from agentgym_py.cli import _main

svg.has_matplotlib = lambda: False
spec = spec_from_file_location("toy_envs", sys.argv[1])
spec.loader.exec_module(module_from_spec(spec))
states, save, step = [], Checkpoints.save, torch.optim.AdamW.step

def saved(self, write):
    save(self, write)
    states.append(self.folder)

def stepped(self, *given, **more):
    found = step(self, *given, **more)
    if states:
        os.kill(os.getpid(), signal.SIGKILL)
    return found

Checkpoints.save, torch.optim.AdamW.step = saved, stepped
with distributed.rank_zero_output():
    _main(json.loads(sys.argv[2]))
"""
"""Every process of the job is killed in the middle of the step after a state was kept."""
FAILS = """
import sys
from agentgym_py import distributed
from agentgym_py.cli import main
from agentgym_py.collection.episode import EpisodeLoop
from agentgym_py.errors import DataError

def broken(self, *given):
    raise DataError("the disk is broken")

if distributed.rank() == 1:
    EpisodeLoop._begin = broken
distributed.exit_process(main(sys.argv[1:]))
"""


def words_for(run: str, out: str) -> list[str]:
    """The command line of one of the runs."""
    return [*COMMON, "--trainer", trainer_of(run), *(RUNS | MORE)[run], "--out", out]


def trainer_of(run: str) -> str:
    """The trainer's name."""
    return run.removesuffix("_warm")


def in_two(folder: Path, program: str, *argv: str, config: str = "") -> subprocess.CompletedProcess[str]:
    """A program in two processes that meet on a free port of this machine, or as a file for accelerate says."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = folder / "program.py"
    path.write_text(program)
    launch = ["torch.distributed.run", "--nproc_per_node", "2", "--master_addr", "127.0.0.1", "--master_port"]
    if config:
        launch = ["accelerate.commands.launch", "--config_file", str(CONFIGS / config), "--main_process_port"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    patience = 900 if "zero" in config else 240  # DeepSpeed compiles a helper when it is used first
    return subprocess.run(
        [sys.executable, "-m", *launch, str(port), str(path), *argv],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=patience,
    )  # fmt: skip


@pytest.fixture(scope="module")
def base(toy_envs: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the policy that all runs begin with."""
    folder = tmp_path_factory.mktemp("ranks")
    toy_envs.word_policy().save(folder / "base")
    toy_envs.word_policy(seed=7).save(folder / "teacher")
    return folder


def alone(folder: Path, *runs: str) -> None:
    """Make the runs by one process that are not there yet."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        for run in runs:
            if not Path(f"{run}-1").exists():
                _main([*words_for(run, f"{run}-1"), "--threads", "1"])
    finally:
        os.chdir(before)


@pytest.fixture(scope="module")
def both(base: Path) -> tuple[Path, str]:
    """The folder with what is always tried by one process and by two, and what the two of them printed."""
    alone(base, *ALWAYS)
    words = [words_for(run, f"{run}-2") for run in ALWAYS]
    done = in_two(base, PROGRAM, TOY_ENVS, json.dumps(words), "grpo-2", config="cpu.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    return base, done.stdout


@pytest.fixture(scope="module", params=ENGINES)
def split(request: pytest.FixtureRequest, base: Path) -> tuple[Path, str]:
    """The folder with each of the runs by two processes over which an engine split the training; its name."""
    alone(base, *RUNS)
    names = {run: f"{run}-{request.param}" for run in RUNS}
    words = [words_for(run, name) for run, name in names.items() if not (base / name).exists()]
    if words:  # else this fixture was here before, and pytest-xdist mixed the order of the tests
        done = in_two(base, PROGRAM, TOY_ENVS, json.dumps(words), config=f"{request.param}.yaml")
        assert done.returncode == 0, done.stdout + done.stderr
    return base, request.param


@pytest.mark.parametrize("trainer", ALWAYS)
def test_two_processes_make_what_one_makes(both: tuple[Path, str], trainer: str) -> None:
    """The same episodes in the same order, the same losses and weights up to how sums round, the same success."""
    same(both[0], trainer, "2")


@pytest.mark.slow
def test_two_processes_of_every_other_trainer(base: Path) -> None:
    """Trainers on pairs, groups that begin on the expert's way, a critic, a process reward model that learns along."""
    others = [run for run in RUNS | MORE if run not in ALWAYS]
    alone(base, *others)
    done = in_two(base, PROGRAM, TOY_ENVS, json.dumps([words_for(run, f"{run}-2") for run in others]))
    assert done.returncode == 0, done.stdout + done.stderr
    for run in others:
        same(base, run, "2")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["", *ENGINES])
@pytest.mark.parametrize(("trainer", "more"), JUDGES)
def test_two_processes_train_what_judges(
    base: Path, trainer: str, more: list[str], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of the model that one process writes are what one alone makes, up to how sums round; split, too."""
    alone(base, "grpo")
    monkeypatch.chdir(base)
    words = ["train", "--trainer", trainer, "--model", "base", "--data", "grpo-1/rounds/01/trajectories.jsonl"]
    words += ["--trainer.batch_size", "3", "--trainer.learning_rate", "1e-2", *more, "--out"]
    names = [f"{'-'.join([trainer, *more])}-{number}" for number in ("1", how or "2")]
    if not Path(names[0]).exists():
        _main([*words, names[0]])
    done = in_two(base, PROGRAM, TOY_ENVS, json.dumps([[*words, names[1]]]), config=f"{how}.yaml" if how else "")
    assert done.returncode == 0, done.stdout + done.stderr
    one, two = ({p.relative_to(name): p for p in Path(name).rglob("*") if p.is_file()} for name in names)
    assert one.keys() == two.keys()
    weights = [name for name in one if name.suffix == ".safetensors"]
    assert len(weights) == 2
    untrained = load_file(base / "base" / "model.safetensors")
    for name in weights:
        expected, found = load_file(one[name]), load_file(two[name])
        for key, weight in expected.items():
            assert (weight - found[key]).abs().max() < 1e-4, (name, key)
        moved = [(weight - untrained[key]).abs().max() for key, weight in expected.items() if key in untrained]
        assert not moved or max(moved) > 1e-3, "nothing was learnt"


@pytest.mark.parametrize("trainer", RUNS)
def test_what_is_split_is_what_one_makes(split: tuple[Path, str], trainer: str) -> None:
    """The same, with gradients that are clipped, a reference, adapters and their absence, a critic."""
    if trainer == "ppo_warm" and "zero" in split[1]:
        pytest.skip("DeepSpeed counts a step of AdamW without a gradient; docs/guides/scaling.md")
    same(split[0], trainer, split[1])


def same(folder: Path, trainer: str, how: str) -> None:
    """What one process made in a run, and what several did."""
    one, two = (RunFolder.open(folder / f"{trainer}-{each}") for each in ("1", how))
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
        base = load_file(folder / "base" / "model.safetensors")
        weights, others = (load_file(run.round(number) / "checkpoint" / "model.safetensors") for run in (one, two))
        for name, weight in weights.items():
            assert (weight - others[name]).abs().max() < 1e-4, name
        assert max((weight - base[name]).abs().max() for name, weight in weights.items()) > 1e-3, "nothing was learnt"


def test_one_process_writes_and_prints(both: tuple[Path, str]) -> None:
    """Each line stands there once; no scratch is left, and the folder says how many processes there were."""
    folder, said = both
    heads = [line for line in said.splitlines() if line.startswith("AgentEvol on ")]
    assert len(heads) == len(ALWAYS) + 1, "grpo was gone on with"
    assert all(line.endswith("2 processes") for line in heads)
    for trainer in ALWAYS:
        names = [sorted(str(p.relative_to(run)) for p in run.rglob("*")) for run in folder.glob(f"{trainer}-?")]
        assert names[0] == names[1]
        assert RunFolder.open(folder / f"{trainer}-2").read_json("provenance.json")["processes"] == 2


def test_a_run_of_two_goes_on_in_two(both: tuple[Path, str]) -> None:
    """`grpo-2` was gone on with after round 0; that it equals one process's is tested above."""
    folder, said = both
    assert said.count("Resuming after Agent_v0.") == 1
    (again,) = RunFolder.open(folder / "grpo-2").read_json("provenance.json")["resumed"]
    assert again["processes"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("trainer", ["grpo", "filtered_bc"])
def test_kill_9_in_a_training_of_two(both: tuple[Path, str], trainer: str) -> None:
    """All processes of the job are killed; the resumed run has bit-identical weights and episodes."""
    killed_and_resumed(both[0], trainer, "2", "")


def test_what_is_split_is_what_one_makes_of_the_other_trainers(split: tuple[Path, str]) -> None:
    """Trainers on pairs, groups that begin on the expert's way, a process reward model that learns along."""
    folder, how = split
    others = [run for run in MORE if not (run == "r3" and "zero" in how)]  # it warms its critic up, as above
    alone(folder, *others)
    words = [words_for(run, f"{run}-{how}") for run in others]
    done = in_two(folder, PROGRAM, TOY_ENVS, json.dumps(words), config=f"{how}.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    for run in others:
        same(folder, run, how)


@pytest.mark.slow
@pytest.mark.parametrize("trainer", ["grpo", "filtered_bc", "ppo"])
def test_kill_9_in_a_training_that_is_split(split: tuple[Path, str], trainer: str) -> None:
    """The same, from states of which each process has written its part."""
    killed_and_resumed(split[0], trainer, split[1], f"{split[1]}.yaml")


def killed_and_resumed(folder: Path, trainer: str, whole: str, config: str) -> None:
    """A run that is killed and gone on with equals the one that was not."""
    name = f"{trainer}-{whole}-killed"
    done = in_two(folder, KILLED, TOY_ENVS, json.dumps([*words_for(trainer, name), *EACH_STEP]), config=config)
    assert done.returncode != 0 and "Signal 9 (SIGKILL)" in done.stderr, done.stderr
    (state,) = (folder / name / "rounds").glob("*/training/states/state-*")
    done = in_two(folder, PROGRAM, TOY_ENVS, json.dumps([["evolve", "--resume", name]]), config=config)
    assert done.returncode == 0 and not state.exists(), done.stdout + done.stderr
    one, two = (RunFolder.open(folder / each) for each in (f"{trainer}-{whole}", name))
    for number in (0, 1):
        assert one.metrics(number)["policy_digest"] == two.metrics(number)["policy_digest"]
        played, again = (list(store.read(run.round(number) / "trajectories.jsonl")) for run in (one, two))
        assert [[s.tokens for s in t.steps] for t in played] == [[s.tokens for s in t.steps] for t in again]


def test_an_error_in_one_process_ends_both(both: tuple[Path, str]) -> None:
    """Rank 1's error ends rank 0 in seconds, which says it in a line; the folder can be gone on with."""
    argv = ["evolve", "--env", "maze", "--model", "base", "--preset", "smoke", "--out", "broken"]
    done = in_two(both[0], FAILS, *argv)
    assert done.returncode == 1  # torchrun's own
    assert "agentgym: rank 1: the disk is broken" in done.stderr.splitlines(), done.stderr
    assert "Traceback (most recent call last)" not in done.stderr.partition("torch/distributed")[0]
    assert (both[0] / "broken" / "run.yaml").is_file() and not RunFolder.open(both[0] / "broken").done(0)


# ------------------------------------------------------------------------------------------------------- one process


def test_alone_nothing_is_waited_for() -> None:
    """One process is rank 0 of 1; what is exchanged is its own, and gradients stay as they are."""
    import torch

    assert (distributed.rank(), distributed.world_size(), distributed.is_rank_zero()) == (0, 1, True)
    assert (
        distributed.gather(3) == [3]
        and distributed.on_rank_zero(max, 1, 2) == 2
        and distributed.require_same("name", "a") == "a"
    )
    assert distributed.reduce_logs({"loss": 1.0, "ratio_max": 2.0}) == {"loss": 1.0, "ratio_max": 2.0}
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    distributed.sum_gradients([parameter])
    assert parameter.grad.tolist() == [1, 1]


class Store(dict[str, str]):
    """A key-value store, as torch's, in which nothing is waited for."""

    def set(self, key: str, value: str) -> None:
        self[key] = value

    def add(self, key: str, amount: int) -> int:
        self[key] = str(int(super().get(key, "0")) + amount)
        return int(self[key])

    def wait(self, keys: Sequence[str], timeout: object) -> None:
        if not self.keys() >= set(keys):
            raise RuntimeError("timeout")

    def check(self, keys: Sequence[str]) -> bool:
        return self.keys() >= set(keys)

    def get(self, key: str) -> bytes:  # type: ignore[override]  # torch's gives bytes
        return self[key].encode()


@pytest.mark.parametrize(
    ("failing", "outcomes"),
    [
        ((1, 0), ["rank 1: the disk is broken", SystemExit]),  # rank 0 notices that rank 1 is gone, or is killed first
        ((0, 1), ["the disk is broken", SystemExit]),  # both fail
        ((1, 2, 0), ["rank 1: the disk is broken", SystemExit, SystemExit]),
    ],
)
def test_exactly_one_process_prints_an_error(
    failing: Sequence[int], outcomes: Sequence[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first that fails, by its rank; the others end silently, whatever the order."""
    store = Store()
    monkeypatch.setattr(distributed, "_store", lambda: store)
    monkeypatch.setenv("WORLD_SIZE", "3")
    for rank, outcome in zip(failing, outcomes, strict=True):
        monkeypatch.setenv("RANK", str(rank))
        lost = rank == 0 and outcome is SystemExit  # rank 0 waits for the others
        error = WorkerError("rank 0 lost the other processes") if lost else DataError("the disk is broken")
        with pytest.raises(BaseException) as caught, distributed.rank_zero_output():  # read below
            raise error
        assert caught.type is SystemExit if outcome is SystemExit else str(caught.value) == outcome


def test_what_processes_log_adds_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums, and the largest of what is a largest; a process without rows logs nothing."""
    parts: Sequence[dict[str, float]] = [{"loss": 1.0, "ratio_max": 2.0}, {}, {"loss": 0.5, "ratio_max": 7.0}]
    monkeypatch.setattr(distributed, "gather", lambda value: parts)
    assert distributed.reduce_logs({}) == {"loss": 1.5, "ratio_max": 7.0}


def test_processes_that_went_apart_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that differ are said, instead of one rank's being written."""
    monkeypatch.setattr(distributed, "gather", lambda value: [value, "b"])
    with pytest.raises(WorkerError, match="weights must be equal in all 1 processes, got 2"):
        distributed.require_same("weights", "a")


def test_a_batch_is_dealt_out_row_by_row(toy_envs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second process takes every second row; an empty share of a split model is one pass that counts nothing."""
    rows = [Sample([k] * (k + 1), [0] * k + [1]) for k in range(4)]
    given = list[float]()
    fit = Fit("test", toy_envs.word_policy(), OfflineSettings(microbatch_tokens=1), rows, seed=0, output_dir=None)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(fit.optimization.backend, "backward", lambda loss, last: given.append(float(loss)))
    assert list(fit.microbatches(rows)) == [[rows[1]], [rows[3]]] and list(fit.microbatches(rows[:1])) == []
    fit.optimization.sharded = True
    next(iter(fit.steps([[0]])))
    for part in fit.microbatches(rows[:1]):
        assert part == [rows[0]]
        fit.backward(torch.tensor(2.0), {"logged": torch.ones(3)})
    assert given == [0.0] and not fit._part, "neither learnt nor logged"


@pytest.mark.usefixtures("second_of_two")
def test_a_process_of_several_plays_its_share_itself(tiny_policy: Any) -> None:
    """No processes of its own; however few the jobs, for all must have the same episodes."""
    workers = executor_for(tiny_policy)
    assert isinstance(workers, torchrun.Ranks) and workers.number == 2


@pytest.mark.usefixtures("second_of_two")
def test_a_share_is_played_beside_its_process_where_a_world_may_be_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that it can be ended; the episodes are those that the process plays itself."""
    jobs, beside = jobs_for("maze", "train", range(6)), list[int]()

    def gathered(value: Any) -> list[Any]:
        beside.append(len(workers._beside._running))
        return [[(0, None)], value]

    monkeypatch.setattr(torchrun, "gather", gathered)
    with torchrun.Ranks() as workers:
        itself, other = (
            list(Collector(RandomAgent(), PlayConfig(executor=workers, step_timeout=limit)).stream(jobs))
            for limit in (None, 60.0)
        )
    assert itself == other and {index for index, _ in itself} == {0, 1, 3, 5} and beside == [0, 1]
    assert not workers._beside._running


@pytest.mark.usefixtures("second_of_two")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["collect", "--agent", "random"], "collect runs in one process, but 2 were started"),
        (["evolve", "--device", "cuda:1"], "device 'cuda:1' would be used by every process"),
    ],
)
def test_what_several_processes_cannot_do_is_said(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything runs, instead of every process doing all of it."""
    assert main(words) == 2 and said in capsys.readouterr().err


@pytest.mark.usefixtures("second_of_two")
def test_a_trainer_that_does_not_share_its_work_is_refused() -> None:
    """A stranger's, which knows nothing of other processes, and trl's; those with our own loop all do."""

    class Alone:
        """Trains for itself."""

    with pytest.raises(ConfigError, match="Alone trains in one process, and here are 2"):
        require_several_processes(cast("Any", Alone()))
    found = [registry.load("agentgym.trainers", name) for name in registry.names("agentgym.trainers")]
    ours = [each for each in found if each.__module__.startswith("agentgym_trainers.") and not info_of(each).library]
    assert len(ours) >= 12
    for each in ours:
        require_several_processes(each())


def test_the_package_is_the_command_line() -> None:
    """`python -m agentgym_py` is what launchers start."""
    done = subprocess.run(
        [sys.executable, "-m", "agentgym_py", "--version"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and done.stdout.startswith("agentgym ")
