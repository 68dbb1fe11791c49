"""Every registered trainer on stored data keeps the contract of `Trainer`; a new plugin is tested unlisted.

Those that play themselves have a contract of their own: `test_on_policy_trainers.py`.
"""

from __future__ import annotations

import copy
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from agentgym_py import registry
from agentgym_py.agents import ExpertAgent, RandomAgent
from agentgym_py.collect import Collector, EnvSpec, jobs_for
from agentgym_py.errors import NothingToTrainOnError
from agentgym_py.policy import Policy
from agentgym_py.trainer import Trainer, product

TRAINERS = [
    name
    for name in registry.names("agentgym.trainers")
    if not hasattr(registry.load("agentgym.trainers", name), "improve")
]


@pytest.fixture(params=TRAINERS)
def trainer(request: pytest.FixtureRequest) -> Any:
    """A trainer with its default settings."""
    return registry.load("agentgym.trainers", request.param)()


def test_it_is_a_dataclass_of_settings_with_train(trainer: Any) -> None:
    """Its fields are its settings, each with a default, and it satisfies the protocol."""
    assert is_dataclass(trainer) and isinstance(trainer, Trainer) and fields(trainer)
    assert replace(trainer) == trainer


def files(folder: Path) -> dict[str, bytes]:
    """What a folder holds, by name."""
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def test_it_changes_the_policy_reproducibly_and_says_what_it_did(
    trainer: Any, tiny_policy: Any, tmp_path: Path
) -> None:
    """The same seed gives the same, changed weights; steps are told; counts add up; no empty folder stays.

    A trainer that makes something else leaves the weights, and writes the same files.
    """
    jobs = jobs_for([EnvSpec("shop", {"max_steps": 6})], "train", range(4))  # good and bad ones of each task
    played = Collector(ExpertAgent()).collect_batch(jobs) + Collector(RandomAgent()).collect_batch(jobs)
    digests, written, told = [], [], list[tuple[int, int]]()
    for number in range(2):
        policy = Policy(copy.deepcopy(tiny_policy.model), tiny_policy.tokenizer, "copy")
        report = trainer.train(
            policy,
            played,
            seed=3,
            output_dir=tmp_path / f"output{number}",
            progress=lambda done, total: told.append((done, total)),
        )
        digests.append(policy.digest())
        written.append(files(tmp_path / f"output{number}"))
        assert report.trajectories + sum(report.dropped.values()) == len(played) and report.loss
        assert 0 < report.agent_tokens < report.tokens
    assert digests[0] == digests[1] and written[0] == written[1]
    assert (digests[0] != tiny_policy.digest()) == (product(trainer) == "policy"), "what it makes is what it says"
    assert written[0] or product(trainer) == "policy"
    assert told and told[-1][0] == told[-1][1]
    assert all(any(each.iterdir()) for each in tmp_path.rglob("*") if each.is_dir()), "an empty folder was left"


def test_nothing_to_train_on_is_an_error(trainer: Any, tiny_policy: Any, tmp_path: Path) -> None:
    """No trajectories at all never ends in a silent no-op."""
    with pytest.raises(NothingToTrainOnError):
        trainer.train(tiny_policy, [], seed=0, output_dir=tmp_path)
