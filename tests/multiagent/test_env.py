"""A game as a world of one role: partners, rewards, forks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pytest

from agentgym_py.agents import AgentReply, Episode, ExpertAgent
from agentgym_py.collection import Collector, Job
from agentgym_py.collection.replay import replay
from agentgym_py.env import EnvSpec
from agentgym_py.env.generated import Draft
from agentgym_py.errors import ConfigError, InfrastructureError, SnapshotError
from agentgym_py.multiagent import Game, MultiAgentEnv
from agentgym_py.multiagent.game import GAVE_UP, MAX_ACTION
from agentgym_py.multiagent.partners import Partner
from agentgym_py.rng import Rng
from agentgym_py.testing import check_world

GAMES = ("twentyquestions", "errand", "householdteam")
SECOND_ROLES = [
    ("AgentTwentyQuestions-v0", "answerer"),
    ("AgentErrand-v0", "shopper"),
    ("AgentHouseholdTeam-v0", "executor"),
]


class Count(Game):
    """Three roles say the next number in turn; a, b and c share 1 at six, and each has 0.1 for its own number."""

    def __init__(self) -> None:
        super().__init__("a")
        self.at = 0

    def move(self, name: str, argument: str) -> str:
        if name != str(self.at + 1):
            return f"{name!r} does not follow {self.at}."
        self.at, mover = self.at + 1, self.turn
        self.pay(mover, 0.1)
        self.turn = "abc"[self.at % 3]
        for role in "abc":
            if role != mover:
                self.tell(role, f"{mover} says {self.at}")
            if self.at == 6:
                self.pay(role, 1.0)
        if self.at == 6:
            self.end(success=True)
        return ""

    def actions(self, role: str) -> list[str]:
        return [str(number) for number in range(1, 7)]

    def expert_move(self, role: str) -> str:
        return str(self.at + 1)


class CountEnv(MultiAgentEnv[int]):
    """Count to six."""

    name = "count"
    roles = ("a", "b", "c")
    limits: ClassVar[dict[str, int]] = {"easy": 6}
    role_rules: ClassVar[dict[str, Any]] = {
        role: {"full": f"You are {role}. Count.", "brief": f"You are {role}.", "none": ""} for role in "abc"
    }

    def draft(self, rng: Rng, split: str) -> Draft[int]:
        return Draft(f"Count in {split}.", 0, "count")

    def game(self, puzzle: int) -> Game:
        return Count()


class Scripted:
    """An agent that says what it is told to, and remembers what it saw."""

    name = "scripted"
    policy_digest = None
    sampling: ClassVar[dict[str, Any]] = {}

    def __init__(self, *replies: AgentReply | str | None) -> None:
        self.replies = [AgentReply(text) if isinstance(text, str) else text for text in replies]
        self.seen: list[tuple[str, str, list[str], list[str]]] = []

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        (episode,) = episodes
        steps = episode.steps
        self.seen.append((episode.rules, episode.observation, [s.observation for s in steps], [s.reply for s in steps]))
        return [self.replies.pop(0)]


def count(role: str, partner: object = None) -> tuple[CountEnv, str]:
    """Return the counting world after a reset, and its first observation."""
    env = CountEnv(difficulty="easy", role=role)
    if partner:
        env._loaded_partner = Partner(partner, "scripted")  # type: ignore[arg-type]
    return env, env.reset(seed=0)[0]


@pytest.mark.parametrize(
    ("role", "first", "numbers"), [("a", "", "14"), ("b", "a says 1", "25"), ("c", "a says 1\nb says 2", "36")]
)
def test_each_role_is_a_world_with_its_turns_and_rewards(role: str, first: str, numbers: str) -> None:
    """Others play within the step; a role has its own rewards and the shared one, also for others' moves."""
    env, observation = count(role)
    assert observation == first and env.rules["brief"] == f"You are {role}." and env.expert() == list(numbers)
    turns = [env.step(number) for number in numbers]
    assert [turn[1] for turn in turns] == pytest.approx([0.1, 1.1]) and env.succeeded
    assert [turn[2] for turn in turns] == [False, True]


def test_a_partner_sees_its_own_rules_and_what_was_refused() -> None:
    """A refused move is an observation for the partner, and the turn stays with it."""
    partner = Scripted("Thought: hm\nAction: 2", "9", "3")
    env, _ = count("a", partner)
    assert env.step("1")[0] == "b says 2\nc says 3"
    assert partner.seen[0] == ("You are b.", "a says 1", [], [])
    assert partner.seen[2] == ("You are c.", "'9' does not follow 2.", ["a says 1\nb says 2"], ["9"])
    assert env.state()["moves"] == ["1", "Thought: hm\nAction: 2", "9", "3"]


@pytest.mark.parametrize("partner", [Scripted(None), Scripted(*["no"] * 20)], ids=["gives up", "never comes to an end"])
def test_a_partner_that_gives_up_ends_the_game(partner: Scripted) -> None:
    """So does one with too many moves in a row; the end can be restored."""
    env, _ = count("a", partner)
    observation, reward, terminated, _, info = env.step("1")
    assert GAVE_UP in observation and reward == pytest.approx(0.1) and terminated and not info["success"]
    other, _ = count("a", Scripted())
    other.restore(env.snapshot())
    assert other.stop_reason == "terminated" and other.snapshot() == env.snapshot()


def test_a_partner_that_fails_is_no_evidence() -> None:
    """Its endpoint's failure is an infrastructure error, not a lost game."""
    env, _ = count("a", Scripted(AgentReply("", error="no connection")))
    with pytest.raises(InfrastructureError, match="no connection"):
        env.step("1")


def test_a_refused_move_changes_nothing() -> None:
    """Neither does one that is too long, and snapshots do not grow by it."""
    env, _ = count("a")
    before = env.state()
    for text in ("7", "", "say[" + "x" * MAX_ACTION + "]", "Action: 1\nAction Input: {"):
        *_, info = env.step(text)
        assert not info["valid_action"] and env.state() == before


def test_what_a_move_means_is_stored_not_how_it_is_written() -> None:
    """Thoughts, spaces and tool calls of the own role are no part of the state."""
    texts = ("Thought: so\nAction: Say[ red   spoon ]", '{"name": "say", "arguments": {"note": "red spoon"}}')
    states = []
    for text in texts:
        env = EnvSpec("errand", {"difficulty": "medium"}).make()
        env.reset(seed=3)
        env.step(text)
        states.append(env.state())
    assert states[0] == states[1] and states[0]["moves"][0] == "say[red spoon]"


@pytest.mark.parametrize(
    ("change", "why"),
    [({"moves": "1"}, "a list of texts"), ({"moves": [None]}, "after the end"), ({"moves": ["1", "2"]}, "does not fit"),
     ({"moves": ["5"]}, "refused"), ({"done": True}, "contradicts"), ({"partner": "expert"}, "partner is 'expert'")],
)  # fmt: skip
def test_an_impossible_state_is_refused(change: dict[str, Any], why: str) -> None:
    """With the reason, and nothing changes."""
    env, _ = count("a")
    env.step("1")
    before = env.snapshot()
    data = json.loads(before)
    data["state"] |= change
    with pytest.raises(SnapshotError, match=why):
        env.restore(json.dumps(data).encode())
    assert env.snapshot() == before


@pytest.mark.parametrize("partner", ["fair", "expert", "random"])
@pytest.mark.parametrize("name", GAMES)
def test_a_fork_has_the_same_future(name: str, partner: str) -> None:
    """In every role, with every partner: a random one draws the same again."""
    for role in EnvSpec(name).make().roles:  # type: ignore[attr-defined]
        spec = EnvSpec(name, {"role": role, "partner": partner, "difficulty": "medium"})
        for seed in range(5):
            env, fork = spec.make(), spec.make()
            env.reset(seed=seed)
            while not env.stop_reason:
                fork.restore(env.snapshot())
                action = env.fair_expert() or ""
                assert fork.step(action) == env.step(action) and fork.snapshot() == env.snapshot()


def test_a_game_may_end_before_the_first_turn() -> None:
    """Any reply then ends the episode, with what the role has earned; before and after it restores."""
    spec = EnvSpec("twentyquestions", {"role": "answerer", "partner": "expert"})
    env, fork = spec.make(), spec.make()
    observation, _ = env.reset(seed=0)
    assert "Right: " in observation and not env.stop_reason and env.expert() == env.actions() == ["wait"]
    fork.restore(env.snapshot())
    turn = env.step("yes")
    assert fork.step("yes") == turn and turn[1:3] == (1, True) and env.succeeded and env.expert() == []
    fork.restore(env.snapshot())
    assert fork.snapshot() == env.snapshot() and fork.actions() == []


def test_the_first_role_is_the_same_with_and_without_its_name() -> None:
    """Its snapshots fit both, and no other role's."""
    plain, named, other = (EnvSpec("errand", kwargs).make() for kwargs in ({}, {"role": "client"}, {"role": "shopper"}))
    plain.reset(seed=0)
    named.restore(plain.snapshot())
    assert named.snapshot() == plain.snapshot()
    with pytest.raises(SnapshotError, match="shopper"):
        other.restore(plain.snapshot())


def test_a_role_that_does_not_exist_is_refused() -> None:
    """With the nearest one."""
    with pytest.raises(ConfigError, match=r"one of asker, answerer, not 'anwserer'\. Did you mean 'answerer'"):
        EnvSpec("twentyquestions", {"role": "anwserer"}).make()
    with pytest.raises(ConfigError, match="partner_model must be the folder of a checkpoint"):
        EnvSpec("errand", {"partner_model": "no/such/folder"}).make()


@pytest.mark.parametrize("check", ["interface", "reproducible", "futures", "forks", "corrupt", "expert", "wanderer",
                                   "random_baseline", "strings"])  # fmt: skip
@pytest.mark.parametrize(("env_id", "role"), SECOND_ROLES)
def test_the_second_role_keeps_the_contract(env_id: str, role: str, check: str) -> None:
    """As the first one, which tests/test_conformance.py checks."""
    check_world(env_id, check, env_kwargs={"role": role}, episodes=6, memory_episodes=50)


@pytest.mark.parametrize("role", ["asker", "answerer"])
def test_a_trajectory_replays(role: str) -> None:
    """It holds one role's moves, and its provenance names the role."""
    job = Job(EnvSpec("twentyquestions", {"role": role}), 0, "test")
    trajectory = Collector(ExpertAgent(fair=True)).collect(job)
    assert trajectory.success and trajectory.provenance.env_kwargs["role"] == role
    assert replay(trajectory).holds


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small policy with random weights."""
    pytest.importorskip("torch")
    from agentgym_py.policy import Policy

    folder = tmp_path_factory.mktemp("partner")
    Policy.load("tiny-random", seed=0).save(folder)
    return folder


def test_a_frozen_policy_is_a_partner(checkpoint: Path) -> None:
    """It acts from its own view, the same again in a fork, and only its own weights continue a snapshot."""
    spec = EnvSpec("twentyquestions", {"difficulty": "easy", "partner_model": str(checkpoint)})
    with closing(spec.make()) as env, closing(spec.make()) as fork:
        assert isinstance(env, MultiAgentEnv) and isinstance(fork, MultiAgentEnv)
        env.partner_moves = fork.partner_moves = 3  # type: ignore[misc]  # random weights never come to an end
        env.reset(seed=0)
        before = env.snapshot()
        turn = env.step(env.fair_expert() or "")
        fork.restore(before)
        assert fork.step(env.state()["moves"][0]) == turn and fork.snapshot() == env.snapshot()
        (seat,) = env._match.seats.values()
        assert seat.rules == env.role_rules["answerer"]["brief"] and seat.steps[0].observation.startswith("Your thing")
        assert env.state()["partner"] == fork.state()["partner"] != "fair"
        assert env.expert() == [] or env.succeeded is False
    fair = EnvSpec("twentyquestions", {"difficulty": "easy"}).make()
    with pytest.raises(SnapshotError, match="its partner is"):
        fair.restore(before)
