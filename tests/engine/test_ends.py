from __future__ import annotations

import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("fastapi")
pytest.importorskip("httpx2")

from agentgym_py.agents import ModelAgent
from agentgym_py.collection import Collector, PlayConfig, jobs_for
from agentgym_py.engine import HFEngine, SamplingParams
from agentgym_py.engine.server import ServerEngine
from agentgym_py.env import EnvSpec
from agentgym_py.policy import Policy
from agentgym_py.policy.tokens import encode
from agentgym_py.testing.model_server import ModelServer, serving
from agentgym_py.trajectory import Tokens

PARAMS = SamplingParams(max_new_tokens=20)
GREEDY = SamplingParams(temperature=0, max_new_tokens=12)


@pytest.fixture(scope="module")
def policy(zoo: Any) -> Policy:
    """Two ends in its generation config; each is sampled often."""
    made: Policy = zoo.miniature("qwen2.5")
    with torch.no_grad():
        weight = made.model.get_output_embeddings().weight
        first, second = made.ends
        weight[first] *= 8
        weight[second] = -weight[first]
    return made


@pytest.fixture(scope="module")
def greedy_turns(policy: Policy) -> list[Tokens]:
    """The greedy turns of a few episodes, as this process plays them."""
    return play(policy, HFEngine(policy), GREEDY, 4)


def play(policy: Policy, engine: Any, params: SamplingParams = PARAMS, episodes: int = 16) -> list[Tokens]:
    """The turns of a few episodes in a maze."""
    jobs = jobs_for(EnvSpec("maze", {"difficulty": "easy", "max_steps": 4}), "train", range(episodes))
    played = Collector(ModelAgent(policy, engine, params), PlayConfig(seed=3)).collect_batch(jobs)
    assert all(
        encode(t, policy.chat).mask.count(1) == sum(len(s.tokens.ids) for s in t.steps if s.tokens) for t in played
    )
    return [step.tokens for t in played for step in t.steps if step.tokens]


def test_every_end_ends_a_reply(policy: Policy) -> None:
    """An end other than the end of turn is followed by the end of turn, in the next context, as after a cut reply."""
    turns, other = play(policy, HFEngine(policy, slots=4)), policy.ends - {policy.chat.end_of_turn}
    assert len(other) == 1 and {turn.ids[-1] for turn in turns} > policy.ends
    for turn in turns:
        assert not policy.ends & set(turn.ids[:-1]) and set(turn.mask) == {1}
    after = [b.context[0] for a, b in pairwise(turns) if a.ids[-1] in other]
    assert after and set(after) <= {policy.chat.end_of_turn, policy.chat.opening("")[0]}


def test_another_end_is_a_stop_and_a_cut_reply_is_not(policy: Policy) -> None:
    """`finish_reason` says which."""
    replies = HFEngine(policy).generate([policy.chat.opening("a")] * 30, PARAMS, range(30))
    for reply in replies:
        assert (reply.finish_reason == "stop") == (reply.ids[-1] in policy.ends)
        assert reply.finish_reason == "stop" or len(reply.ids) == PARAMS.max_new_tokens


@pytest.mark.parametrize("kind", ["vllm", "sglang", "llamacpp"])
def test_servers_end_replies_alike(policy: Policy, greedy_turns: list[Tokens], kind: Any) -> None:
    """Greedy turns are equal; the request names every end."""
    with serving(ModelServer(policy)) as server:
        there = play(policy, ServerEngine(policy, server.url, kind), GREEDY, 4)
        _, body = server.bodies[-1]
    assert [(turn.context, turn.ids) for turn in there] == [(turn.context, turn.ids) for turn in greedy_turns]
    if kind != "llamacpp":  # its model file names them
        assert body.get("sampling_params", body)["stop_token_ids"] == sorted(policy.ends)


def test_the_ends_are_kept(policy: Policy, tmp_path: Path) -> None:
    """By a checkpoint and in another process."""
    policy.save(tmp_path)
    assert Policy.load(tmp_path, device="cpu").ends == policy.ends
    assert pickle.loads(pickle.dumps(policy)).ends == policy.ends  # noqa: S301  # made here
