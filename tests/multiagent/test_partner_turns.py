"""A model as partner: its moves in many episodes are sampled together, and replays need no model."""

from __future__ import annotations

import gc
import re
import shutil
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from agentgym_py.agents import AgentReply, Episode, ExpertAgent
from agentgym_py.collection import Collector, Job, PlayConfig
from agentgym_py.collection.branching import snapshots_at
from agentgym_py.collection.processes import Workers
from agentgym_py.collection.replay import replay, replay_all
from agentgym_py.env import EnvSpec, PartnerRecord
from agentgym_py.errors import ConfigError, PolicyError, SnapshotError
from agentgym_py.evaluation.experts_comparison import compare_with_experts
from agentgym_py.evaluation.first_fault import fault_or_reason
from agentgym_py.multiagent import MultiAgentEnv
from agentgym_py.multiagent.game import Asking, ask
from agentgym_py.multiagent.partners import FrozenModel, Partner, PartnerSettings, load_partner, release_partners
from agentgym_py.rewards.state_values import exact_values
from agentgym_py.trajectory import Trajectory
from agentgym_py.trajectory.store import from_line, to_line
from agentgym_py.viewer.live import plans

ROLES = [("errand", "client"), ("errand", "shopper"), ("twentyquestions", "asker"), ("householdteam", "planner")]


class Model(ExpertAgent):
    """The fair expert in place of a checkpoint; it counts how many episodes it is asked for at once."""

    def __init__(self) -> None:
        super().__init__(fair=True, thoughts=False)
        self.batches: list[int] = []
        self.fails = ""
        """Id of a task in which it fails."""

    def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
        self.batches.append(len(episodes))
        failure = AgentReply("", error="out of memory")
        return [failure if each.task.id == self.fails else self.reply(each.env) for each in episodes]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    """Any folder holds this model."""
    agent = Model()
    monkeypatch.setattr("agentgym_py.multiagent.env.require_checkpoint", Path)
    monkeypatch.setattr("agentgym_py.multiagent.env.load_partner", lambda folder, settings: Partner(agent, "4f"))
    return agent


@pytest.fixture
def gone(model: Model, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Call it to delete the model."""

    def require(folder: Path) -> Path:
        raise ConfigError("partner_model must be the folder of a checkpoint")

    return lambda: monkeypatch.setattr("agentgym_py.multiagent.env.require_checkpoint", require)


def jobs(name: str, role: str, number: int = 6, **kwargs: Any) -> list[Job]:
    """The first tasks, with a model as partner."""
    spec = EnvSpec(name, {"role": role, "difficulty": "easy", "partner_model": "folder"} | kwargs)
    return [Job(spec, task) for task in range(number)]


def played(name: str, role: str, number: int = 6, threads: int = 0, **kwargs: Any) -> list[Trajectory]:
    """Episodes of a role with a model as partner; the role's own agent is the fair expert."""
    play = PlayConfig(step_threads=threads)
    return Collector(ExpertAgent(fair=True), play).collect_batch(jobs(name, role, number, **kwargs))


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize(("name", "role"), ROLES)
def test_a_model_is_asked_for_many_episodes_at_once(model: Model, name: str, role: str, threads: int) -> None:
    """Also for moves before the agent's first one; the episodes are those of one partner each."""
    together = played(name, role, threads=threads)
    largest = max(model.batches)
    assert largest > 1 if threads else largest == 6
    spec = EnvSpec(name, {"role": role, "difficulty": "easy"})
    alone = Collector(ExpertAgent(fair=True)).collect_batch([Job(spec, task) for task in range(6)])
    for one, other in zip(together, alone, strict=True):
        assert (one.steps, one.final_observation, one.success) == (other.steps, other.final_observation, True)
        assert one.partner and one.partner.digest == "4f" and other.partner is None
        assert [move for move in one.partner.moves if move is not None]


def test_a_step_outside_a_collection_asks_the_model_itself(model: Model) -> None:
    """So the world works in a loop of one's own."""
    (trajectory,) = played("errand", "shopper", 1)
    with closing(jobs("errand", "shopper")[0].env.make()) as env:
        assert env.reset(options={"task": 0})[0] == trajectory.steps[0].observation
        while not env.stop_reason:
            env.step(env.fair_expert() or "")
        assert env.succeeded and env.partner_record == trajectory.partner


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("role", ["client", "shopper"])
def test_a_failing_model_fails_one_episode(model: Model, role: str, threads: int) -> None:
    """It is no evidence, and is begun again once; the others are as before."""
    expected = played("errand", role)
    model.fails = expected[2].task_id
    found = played("errand", role, threads=threads)
    mover = "shopper" if role == "client" else "client"
    assert f"the partner folder failed as {mover}: out of memory" in str(found[2].error) and found[2].partner is None
    assert [t for t in found if t.is_evidence] == [*expected[:2], *expected[3:]]


@pytest.mark.parametrize(("name", "role"), ROLES)
def test_what_looks_at_an_episode_again_needs_no_model(
    model: Model, gone: Callable[[], None], name: str, role: str
) -> None:
    """Replays, states, experts' plans and values, first faults and comparisons, also of a stored file."""
    stored = [from_line(to_line(t)) for t in played(name, role, 3)]
    model.batches.clear()
    gone()
    assert all(result.holds for result in replay_all(stored)) and not model.batches
    for trajectory in stored:
        assert len(snapshots_at(trajectory, range(len(trajectory.steps)))) == len(plans(trajectory))
        assert exact_values(trajectory)[-1] == 1
        with closing(trajectory.replay_spec().make()) as env:
            assert fault_or_reason(trajectory, env, "exact", 2)
    assert compare_with_experts(stored).efficiency.value > 0
    with pytest.raises(ConfigError, match="folder of a checkpoint"):
        stored[0].env_spec().make()


def test_a_replay_finds_a_changed_move(model: Model) -> None:
    """The recorded moves must lead to the recorded observations."""
    trajectory = played("errand", "client", 1, difficulty="hard")[0]
    assert trajectory.partner and len(trajectory.steps) > 1 and replay(trajectory).holds
    moves = [
        re.sub(r"say\[(size|colour|material|kind)\]", "say[again]", move or "") for move in trajectory.partner.moves
    ]
    changed = replace(trajectory, partner=PartnerRecord("4f", tuple(moves)))
    assert changed != trajectory and "observation" in str(replay(changed).difference)


def test_an_older_file_replays_with_its_model(model: Model, gone: Callable[[], None]) -> None:
    """It does not hold the moves; without the model it is skipped with the reason."""
    (trajectory,) = played("errand", "client", 1)
    line = to_line(replace(trajectory, partner=None))
    assert b'"partner"' not in line
    old = from_line(line)
    assert replay(old).holds
    gone()
    assert "folder of a checkpoint" in str(replay(old).skipped)


def test_an_episode_continues_from_a_replayed_state_with_the_model(model: Model) -> None:
    """The state fits the world that has the model, and the moves before it are part of the new episode."""
    (trunk,) = played("errand", "client", 1, difficulty="hard")
    (state,) = snapshots_at(trunk, [1])
    model.batches.clear()
    (job,) = jobs("errand", "client", 1, difficulty="hard")
    branch = Collector(ExpertAgent(fair=True)).collect(replace(job, start=state))
    assert model.batches and branch.partner == trunk.partner and branch.final_observation == trunk.final_observation
    assert replay(branch).holds


def test_a_record_of_another_model_is_not_used(model: Model) -> None:
    """The world then asks its own one; and only the object is taken, so that no client can choose a partner's moves."""
    with closing(jobs("errand", "shopper")[0].env.make()) as env:
        assert isinstance(env, MultiAgentEnv)
        other = PartnerRecord("another", ("say[nonsense]",))
        assert "nonsense" not in env.reset(options={"task": 0, "partner": other})[0] and model.batches
        assert "nonsense" in env.reset(options={"task": 0, "partner": replace(other, digest="4f")})[0]
        with pytest.raises(ConfigError, match="must be a PartnerRecord"):
            env.reset(options={"task": 0, "partner": {"digest": "4f", "moves": []}})
        with pytest.raises(SnapshotError, match="its partner is 'fair'"):
            fair = EnvSpec("errand", {"role": "shopper", "difficulty": "easy"}).make()
            fair.reset(options={"task": 0})
            env.restore(fair.snapshot())


def test_only_the_moves_of_a_record_are_recorded(model: Model) -> None:
    """An env for replays has the exact expert without a record, also after a replay; its moves are not the model's."""
    (trajectory,) = played("errand", "shopper", 1)
    with closing(trajectory.replay_spec().make()) as env:
        for record in (None, trajectory.partner, None):
            env.reset(options={"task": 0, **({"partner": record} if record else {})})
            assert (env.partner_record and env.partner_record.digest) == (record and "4f")


def test_an_agents_own_error_is_no_end_of_a_call() -> None:
    """A StopIteration of a partner reaches the caller, who would otherwise read None as an observation."""

    class Exhausted(Model):
        def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
            return [next(iter(()))]

    def call() -> Asking[str]:
        yield cast("Episode", None)
        return "never"

    with pytest.raises(StopIteration):
        ask(call(), Exhausted())


# ---- checkpoints -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A small policy with random weights."""
    pytest.importorskip("torch")
    from agentgym_py.policy import Policy

    folder = tmp_path_factory.mktemp("partner")
    Policy.load("tiny-random", seed=0).save(folder)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("play", [PlayConfig(slots=1), PlayConfig(step_threads=2)], ids=["one by one", "threads"])
def test_the_batch_changes_no_episode(checkpoint: Path, play: PlayConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is sampled together."""
    monkeypatch.setattr(MultiAgentEnv, "partner_moves", 2)  # random weights never come to an end
    asked = jobs("errand", "shopper", 6, partner_model=str(checkpoint), max_steps=2)
    together = Collector(ExpertAgent(fair=True)).collect_batch(asked)
    assert all(t.partner and t.partner.moves for t in together)
    assert Collector(ExpertAgent(fair=True), play).collect_batch(asked) == together


@pytest.mark.slow
def test_workers_have_the_model_each(checkpoint: Path) -> None:
    """They play the same episodes."""
    asked = jobs("errand", "client", 4, partner_model=str(checkpoint), max_steps=1)
    with Workers(2) as workers:
        play = PlayConfig(executor=workers, step_timeout=300.0)
        found = Collector(ExpertAgent(fair=True), play).collect_batch(asked)
    assert found == Collector(ExpertAgent(fair=True)).collect_batch(asked) and all(t.partner for t in found)


def test_a_checkpoint_that_is_asked_by_two_threads(checkpoint: Path) -> None:
    """It samples for one after the other."""
    from concurrent.futures import ThreadPoolExecutor

    asked = jobs("twentyquestions", "answerer", 2, partner_model=str(checkpoint), max_steps=1)
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(2) as threads:
        patch.setattr(MultiAgentEnv, "partner_moves", 1)
        first, second = threads.map(lambda _: Collector(ExpertAgent()).collect_batch(asked), range(2))
    assert first == second and not any(t.error for t in first)


def test_a_checkpoint_keeps_no_cache_after_a_collection(checkpoint: Path) -> None:
    """A training that follows has the memory; a collection beside another one leaves that its own."""
    from agentgym_py.engine import HFEngine

    partner = load_partner(checkpoint).agent
    assert isinstance(partner, FrozenModel) and isinstance(partner._engine, HFEngine)
    asked = jobs("twentyquestions", "answerer", 1, partner_model=str(checkpoint), max_steps=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MultiAgentEnv, "partner_moves", 1)
        other = partner.reply_stream()
        Collector(ExpertAgent()).collect_batch(asked)
        assert other and any(map(len, partner._engine.runner.places.book.contents))
        partner.release()
        assert not any(map(len, partner._engine.runner.places.book.contents))


def test_a_checkpoint_follows_the_settings_of_the_collection(checkpoint: Path) -> None:
    """Its number format and the length of its moves, also in another process."""
    import torch

    from agentgym_py.engine import HFEngine

    settings = PartnerSettings(dtype="bfloat16", device="cpu", max_new_tokens=3, slots=2, kv_cache_gib=0.5)
    partner = load_partner(checkpoint, settings)
    assert isinstance(partner.agent, FrozenModel) and isinstance(partner.agent._engine, HFEngine)
    assert partner.agent.policy.model.dtype == torch.bfloat16 and partner.agent.params.max_new_tokens == 3
    assert (partner.agent._engine.slots, partner.agent._engine.kv_cache_gib) == (2, 0.5)
    assert partner.identity != load_partner(checkpoint).identity
    asked = jobs("twentyquestions", "answerer", 2, partner_model=str(checkpoint), max_steps=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MultiAgentEnv, "partner_moves", 2)
        found = Collector(ExpertAgent(), PlayConfig(partner=settings)).collect_batch(asked)
    for record in (t.partner for t in found):
        assert record and record.digest == partner.identity
        lengths = [len(partner.agent.policy.tokenizer(move or "")["input_ids"]) for move in record.moves]
        assert lengths and max(lengths) <= 9  # a token that is no text is read as the three bytes of its mark


def test_settings_of_a_partner_that_do_not_exist_are_refused() -> None:
    """Before a model is loaded."""
    with pytest.raises(ConfigError, match="dtype must be"):
        PartnerSettings(dtype="float8")  # type: ignore[arg-type]


def test_released_weights_are_gone(checkpoint: Path) -> None:
    """A training then has their memory; the next collection loads them again, to the same episodes."""
    asked = jobs("twentyquestions", "answerer", 1, partner_model=str(checkpoint), max_steps=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MultiAgentEnv, "partner_moves", 1)
        before = Collector(ExpertAgent()).collect_batch(asked)
        partner = load_partner(checkpoint).agent
        assert isinstance(partner, FrozenModel)
        model = weakref.ref(partner.policy.model)
        del partner
        release_partners()
        gc.collect()
        assert model() is None
        assert Collector(ExpertAgent()).collect_batch(asked) == before


def test_a_world_is_made_without_the_weights(checkpoint: Path, tmp_path: Path) -> None:
    """A command makes worlds to check its settings; a folder that is no model is refused then."""
    release_partners()
    with closing(jobs("errand", "client", 1, partner_model=str(checkpoint))[0].env.make()) as env:
        assert isinstance(env, MultiAgentEnv) and env.has_model_partner and env._loaded_partner is None
    with pytest.raises(PolicyError, match=r"is not a model: it holds no config\.json"):
        jobs("errand", "client", 1, partner_model=str(tmp_path))[0].env.make()
