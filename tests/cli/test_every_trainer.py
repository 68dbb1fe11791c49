"""Every registered trainer by the command line, in a world of one step with a model of twenty words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentgym_py import registry
from agentgym_py.training.trainer import info_of

pytest.importorskip("accelerate")
Run = Callable[..., tuple[int, str, str]]
GROUP: registry.Group = "agentgym.trainers"
EXAMPLE = f"{Path(__file__).parents[2] / 'examples' / 'my_reinforce.py'}:Reinforce"
"""A trainer in a file, without a package."""
ELSEWHERE = ("filtered_bc",)
"""Whose rounds `test_evolve.py` looks at closely."""
CHANGED = {
    "distill": ("--trainer.teacher", "teacher"),
    "grpo": ("--trainer.group_size", "4", "--trainer.tasks_per_iteration", "4"),
    "ppo": ("--trainer.tasks_per_iteration", "8", "--trainer.critic_warmup", "0"),
    "r3": ("--trainer.tasks_per_iteration", "8", "--trainer.critic_warmup", "0", "--trainer.prm_labels", "outcome"),
    "reverse_curriculum": ("--trainer.group_size", "4", "--trainer.tasks_per_iteration", "4"),
    EXAMPLE: ("--trainer.group_size", "4", "--trainer.tasks", "4"),
    "trl_grpo": ("--trainer.group_size", "4", "--trainer.tasks_per_iteration", "4", "--trainer.minibatch_size", "8"),
}
"""What a run of sixteen episodes needs."""


@pytest.fixture(scope="session")
def words(toy_envs: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of the policy that knows single words."""
    folder = tmp_path_factory.mktemp("models") / "words"
    toy_envs.word_policy().save(folder)
    return str(folder)


TRAINERS = {name: registry.load(GROUP, name) for name in registry.names(GROUP)}
OF_POLICIES = [name for name, each in TRAINERS.items() if info_of(each).output == "policy" and name not in ELSEWHERE]
OF_FILES = [name for name, each in TRAINERS.items() if not hasattr(each, "improve")]


@pytest.mark.parametrize("trainer", [*OF_POLICIES, pytest.param(EXAMPLE, id="example")])
def test_a_round_of_each_trainer(agentgym: Run, words: str, trainer: str, toy_envs: Any) -> None:
    """It plays, learns from what it played and leaves other weights and a report."""
    if trainer == "distill":
        toy_envs.word_policy(seed=7, spread=0.2).save("teacher")
    status, _, err = agentgym(
        "evolve", "--env", "ToyBandit-v0", "--model", words, "--trainer", trainer, "--out", "run", "--preset", "smoke",
        "--expert_tasks", "0", "--rounds", "1", "--explore_tasks", "4", "--attempts", "4", "--temperature", "1",
        "--max_new_tokens", "1", "--valid_tasks", "2", "--test_tasks", "2", "--threads", "1", *CHANGED.get(trainer, ()),
        "--trainer.mask_truncated_completions", "false",
    )  # fmt: skip
    assert status == 0, err
    told = json.loads(Path("run/rounds/01/metrics.json").read_text())
    assert told["training"]["trajectories"] > 0 and Path("run/report.html").is_file(), told
    before, after = (Path(each, "model.safetensors").read_bytes() for each in (words, "run/rounds/01/checkpoint"))
    assert (before == after) is False, "nothing was learnt"


def row(task: int, reply: str, reward: float) -> dict[str, Any]:
    """A row in AgentTraj's form."""
    said = [("human", None, "Go."), ("gpt", False, "Ok."), ("human", None, "0"), ("gpt", True, reply)]
    turns = [{"from": who, "loss": loss, "value": text} for who, loss, text in said]
    return {"item_id": f"toy_{task}", "conversations": turns, "reward": reward, "success": reward > 0}


@pytest.mark.parametrize("trainer", OF_FILES)
def test_each_trainer_reads_agenttraj(agentgym: Run, words: str, trainer: str) -> None:
    """Successes and failures of the same tasks in AgentTraj's form train it."""
    rows = [row(task, *said) for task in range(3) for said in (("right", 1.0), ("left", 0.0))]
    Path("played.json").write_text(json.dumps(rows))
    status, _, err = agentgym(
        "train", "--trainer", trainer, "--data", "played.json", "--model", words, "--out", "made", "--threads", "1",
        "--trainer.epochs", "1", *(("--trainer.labels", "outcome") if trainer == "process_reward" else ()),
    )  # fmt: skip
    assert status == 0, err
    assert json.loads(Path("made/train.json").read_text())["training"]["trajectories"] >= 3
    made = info_of(TRAINERS[trainer]).output
    assert Path("made", "checkpoint" if made == "policy" else made).is_dir()
