"""`--roles` and partners on the command line and in a pipeline."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentgym_py.collection.replay import replay
from agentgym_py.multiagent import MultiAgentEnv
from agentgym_py.multiagent.partners import PartnerSettings, _load, load_partner
from agentgym_py.trajectory import Trajectory, store
from agentgym_trainers.filtered_bc import FilteredBC

Run = Callable[..., tuple[int, str, str]]
SMALL = (
    "--max_new_tokens", "4", "--env_kwargs.max_steps", "2", "--env_kwargs.difficulty", "easy", "--expert_tasks", "1",
    "--explore_tasks", "4", "--valid_tasks", "1", "--test_tasks", "1", "--threads", "1",
)  # fmt: skip


def roles_of(trajectories: list[Trajectory]) -> Counter[str]:
    """Count the episodes of each role."""
    return Counter(t.provenance.env_kwargs["role"] for t in trajectories)


def require_exact_tokens(folder: str, model: str) -> None:
    """Require sampled episodes of both roles, whose replies are what their token ids say."""
    from agentgym_py.policy import Policy

    tokenizer = Policy.load(model).tokenizer
    trajectories = [t for path in Path(folder).glob("*.jsonl*") for t in store.read(path)]
    explored = [t for t in trajectories if t.provenance.agent != "expert"]
    assert set(roles_of(explored)) == {"client", "shopper"}
    for step in (step for trajectory in explored for step in trajectory.steps):
        tokens = step.tokens
        assert tokens and len(tokens.ids) == len(tokens.logprobs)
        assert tokenizer.decode(tokens.ids, skip_special_tokens=True) == step.reply


def test_each_role_is_collected(agentgym: Run) -> None:
    """The same tasks in every role, told apart by their ids, and each can be replayed."""
    words = ("--env", "twentyquestions", "--roles", "asker,answerer", "--agent", "expert", "--expert", "fair")
    assert agentgym("collect", *words, "--tasks", "3", "--out", "both.jsonl")[0] == 0
    trajectories = list(store.read("both.jsonl"))
    assert roles_of(trajectories) == {"asker": 3, "answerer": 3} and len({t.id for t in trajectories}) == 6
    assert len({t.task_id for t in trajectories}) == 3 and all(replay(t).holds for t in trajectories)


def test_an_evaluation_has_a_line_for_each_role(agentgym: Run) -> None:
    """And a pipeline takes the same setting."""
    stage = {"stage": "evaluate", "agent": "expert", "roles": ["client", "shopper"], "tasks": 2}
    Path("run.yaml").write_text(yaml.safe_dump({"out": "p", "defaults": {"env": "errand"}, "stages": [stage]}), "utf-8")
    status, out, err = agentgym("pipeline", "run.yaml")
    assert status == 0, err
    assert all(f'"role": "{role}"' in out + err for role in ("client", "shopper"))


def test_in_self_play_the_last_agent_is_the_partner(
    agentgym: Run, small_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In exploration alone, and in every round the newest one; the run says so and resumes with it.

    No partner is in memory while a round trains.
    """
    monkeypatch.setattr(MultiAgentEnv, "partner_moves", 1)  # the small model never comes to an end
    loaded, train = list[int](), FilteredBC.train

    def count_partners_and_train(*args: Any, **kwargs: Any) -> Any:
        loaded.append(_load.cache_info().currsize)
        return train(*args, **kwargs)

    monkeypatch.setattr(FilteredBC, "train", count_partners_and_train)
    words = ("--env", "errand", "--roles", "client,shopper", "--self_play", "true", "--allow_empty", "true")
    status, out, err = agentgym("evolve", *words, *SMALL, "--rounds", "1", "--model", small_model, "--out", "run")
    assert status == 0 and "Self-play: the last round's agent plays the other roles" in out, err
    assert agentgym("evolve", "--resume", "run", "--rounds", "2")[0] == 0
    digests = [json.loads(Path(f"run/rounds/0{n}/metrics.json").read_text())["policy_digest"] for n in range(3)]
    for number in range(3):
        folder = Path(f"run/rounds/0{number}")
        explored, valid = (list(store.read(folder / f"{name}.jsonl")) for name in ("trajectories", "valid"))
        partners = {t.partner.digest if t.partner else None for t in explored}
        assert partners == ({digests[number - 1]} if number else {None})
        assert {t.partner for t in valid} == {None}
    assert loaded and not any(loaded)
    shutil.rmtree("run/rounds/01/checkpoint")
    assert all(replay(t).holds for t in store.read("run/rounds/02/trajectories.jsonl"))


@pytest.mark.parametrize(
    ("words", "why"),
    [(("--env", "shop", "--roles", "asker"), "--roles needs worlds of several roles; shop has one"),
     (("--env", "errand", "--roles", "cleint"), "errand has no role 'cleint'. Did you mean 'client'?"),
     (("--env", "errand", "--roles", "client", "--env_kwargs.role", "client"), "give one of them"),
     (("--env", "errand", "--roles", "client,client"), "twice with the same arguments")],
)  # fmt: skip
def test_wrong_roles_end_in_one_line(agentgym: Run, words: tuple[str, ...], why: str) -> None:
    """Which says what to do."""
    status, _, err = agentgym("eval", *words, "--agent", "expert", "--tasks", "1", "--out", "e")
    assert status == 2 and why in err and len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "why"),
    [(("--env", "shop", "--self_play", "true"), "--self_play needs worlds of several roles, and shop has one"),
     (("--env", "errand", "--self_play", "true", "--explore_order", "hard"), "--explore_order must not be hard with"),
     (("--env", "errand", "--judge.model", "m"), "did you mean --reward_kwargs.model?"),
     (("--env", "errand", "--trainer.replay", "0.3"), "did you mean --replay_ratio?"),
     (("--env", "errand", "--trainer.ewc", "1"), "did you mean --trainer.ewc_lambda?")],
)  # fmt: skip
def test_wrong_settings_of_a_run_end_in_one_line(agentgym: Run, words: tuple[str, ...], why: str) -> None:
    """With the setting to use."""
    status, _, err = agentgym("evolve", *words, "--out", "e")
    assert status == 2 and why in err and len(err.splitlines()) == 1


def test_a_policy_learns_roles_by_reward_and_becomes_a_partner(agentgym: Run, small_model: str) -> None:
    """Its tokens are exact in each role; the run resumes with its roles; its checkpoint plays the other role."""
    words = ("--env", "errand", "--roles", "client,shopper", "--trainer", "grpo", "--trainer.group_size", "2")
    small = (*SMALL, "--trainer.tasks_per_iteration", "2", "--rounds", "1", "--model", small_model)
    status, _, err = agentgym("evolve", *words, *small, "--out", "run")
    assert status == 0, err
    require_exact_tokens("run/rounds/01", small_model)
    assert agentgym("evolve", "--resume", "run", "--rounds", "2")[0] == 0
    assert yaml.safe_load(Path("run/run.yaml").read_text("utf-8"))["roles"] == ["client", "shopper"]
    require_exact_tokens("run/rounds/02", small_model)
    checkpoint = Path("run/rounds/02/checkpoint").absolute()
    partner = ("--env_kwargs.partner_model", "run/rounds/02/checkpoint", "--env_kwargs.max_steps", "1")
    words = ("--env", "errand", "--roles", "shopper", "--agent", "expert", "--tasks", "1")
    assert agentgym("collect", *words, *partner, "--out", "e.jsonl")[0] == 0
    (trajectory,) = store.read("e.jsonl")
    assert trajectory.provenance.env_kwargs["partner_model"] == str(checkpoint) and replay(trajectory).holds
    settings = ("--max_new_tokens", "3", "--dtype", "bfloat16", "--device", "cpu")
    assert agentgym("collect", *words, *partner, *settings, "--out", "b.jsonl")[0] == 0
    (short,) = store.read("b.jsonl")
    hits = _load.cache_info().hits  # of the partners that are in memory
    follows = load_partner(checkpoint, PartnerSettings(dtype="bfloat16", device="cpu", max_new_tokens=3, slots=128))
    assert _load.cache_info().hits == hits + 1
    assert short.partner and short.partner.digest == follows.identity
