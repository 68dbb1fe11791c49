from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from agentgym_py.agents import AgentReply, Episode, ExpertAgent, RandomAgent
from agentgym_py.collection import Collector, Job, PlayConfig, jobs_for
from agentgym_py.collection.job import attempts_for_agent
from agentgym_py.collection.replay import replay_all
from agentgym_py.env import EnvSpec, Reply, StopReason, Task, TextEnv
from agentgym_py.errors import ConfigError, InfrastructureError, UnknownNameError
from agentgym_py.evaluation import summarise
from agentgym_py.evaluation.stats import wilson
from agentgym_py.evaluation.text import failure_note
from agentgym_py.trajectory import Trajectory, store

SHOP = EnvSpec("shop")


def same(first: Sequence[Trajectory], second: Sequence[Trajectory]) -> bool:
    """Whether two collections are equal in everything."""
    return list(first) == list(second)


def test_the_result_does_not_depend_on_the_slots() -> None:
    """One slot, few or many: the same trajectories in the order of the jobs."""
    jobs = jobs_for([SHOP], "train", range(12), attempts=2)
    runs = [Collector(RandomAgent(), PlayConfig(slots=slots, seed=3)).collect_batch(jobs) for slots in (1, 5, 64)]
    assert same(runs[0], runs[1]) and same(runs[0], runs[2])
    assert [t.task_id for t in runs[0]] == [f"shop/train/medium/{n}" for n in range(12) for _ in range(2)]


def test_tries_at_one_task_differ_and_a_seed_repeats_them() -> None:
    """Two attempts draw other actions; the collector's seed decides which."""
    jobs = jobs_for([SHOP], "train", [4], attempts=2)
    first, second = Collector(RandomAgent(), PlayConfig(seed=1)).collect_batch(jobs)
    assert first.steps != second.steps and first.provenance.seed != second.provenance.seed
    assert same([first, second], Collector(RandomAgent(), PlayConfig(seed=1)).collect_batch(jobs))
    assert not same([first, second], Collector(RandomAgent(), PlayConfig(seed=2)).collect_batch(jobs))


def test_attempts_of_several_agents_differ_in_id_and_seed() -> None:
    """Each agent plays every job, in the jobs' order, with attempts that no other agent has."""
    jobs = jobs_for([SHOP, EnvSpec("maze")], "train", range(3), attempts=2)
    by_agent = [attempts_for_agent(jobs, agent, 3) for agent in range(3)]
    for agent, its_jobs in enumerate(by_agent):
        assert [(job.env, job.task, job.split) for job in its_jobs] == [(job.env, job.task, job.split) for job in jobs]
        assert [job.attempt for job in its_jobs] == [agent, 3 + agent] * 6
    parts = [Collector(RandomAgent(), PlayConfig(slots=2, seed=1)).collect_batch(its_jobs) for its_jobs in by_agent]
    trajectories = [trajectory for part in parts for trajectory in part]
    assert [t.task_id for t in parts[0]] == [t.task_id for t in parts[1]] == [t.task_id for t in parts[2]]
    assert len({t.id for t in trajectories}) == len({t.provenance.seed for t in trajectories}) == 36
    first_task = [tuple(step.reply for step in t.steps) for t in trajectories if t.task_id == trajectories[0].task_id]
    assert len(first_task) == 6 and len(set(first_task)) > 1
    assert attempts_for_agent(jobs, 0, 1) == jobs


def test_a_trajectory_says_where_it_came_from() -> None:
    """Provenance names world, version, arguments, task, agent, prompt; steps hold what was seen and said."""
    trajectory = Collector(ExpertAgent(), PlayConfig(prompt="full")).collect(
        Job(EnvSpec("shop", {"difficulty": "easy"}), 3, "test")
    )
    origin = trajectory.provenance
    assert (origin.env_id, origin.env_kwargs, origin.task_id) == (
        "AgentShop-v0", {"difficulty": "easy"}, "shop/test/easy/3",
    )  # fmt: skip
    assert (origin.agent, origin.policy_digest, origin.prompt) == ("expert", None, "full")
    assert trajectory.success and trajectory.reward == 1.0 and trajectory.terminated and not trajectory.truncated
    assert trajectory.rules.startswith("You are shopping") and trajectory.instruction in trajectory.steps[0].observation
    assert all(step.action and step.valid for step in trajectory.steps) and any(
        step.thought for step in trajectory.steps
    )
    assert trajectory.optimal_steps == len(trajectory.steps)


def test_a_world_that_breaks_is_no_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception in reset or step is recorded as an infrastructure error, not as reward 0; the rest continues."""
    from agentgym_envs.shop.env import ShopEnv

    step = ShopEnv.step

    def breaks(self: ShopEnv, action: str) -> Any:
        if self.current_task is not None and self.current_task.id.endswith("/1") and self.steps == 1:
            raise TimeoutError("the world hangs")
        return step(self, action)

    monkeypatch.setattr(ShopEnv, "step", breaks)
    played = Collector(ExpertAgent()).collect_batch(jobs_for([SHOP], "train", range(3)))
    assert [t.error is None for t in played] == [True, False, True]
    assert re.fullmatch(
        r"TimeoutError\('the world hangs'\) \(test_collector.py, line \d+, in breaks\)", str(played[1].error)
    )
    said = summarise(played)
    assert (said.errors, said.success.n, said.success.value) == (1, 2, 1.0)


def test_a_world_that_fails_is_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As often as `retries` says, in a fresh world; an episode that comes about then is as if nothing had been."""
    from agentgym_envs.shop.env import ShopEnv

    step, begin, failures = ShopEnv.step, ShopEnv.begin, Counter[str]()

    def fails(self: ShopEnv, task: Task | None, times: int) -> None:
        if task and failures[task.id] < times:
            failures[task.id] += 1
            raise OSError("no world")

    def breaks(self: ShopEnv, action: str) -> Any:
        fails(self, self.current_task, 2 * (self.current_task is not None and self.current_task.id.endswith("/1")))
        return step(self, action)

    def begins(self: ShopEnv, task: Task) -> str:
        fails(self, task, 2 * task.id.endswith("/3"))
        return begin(self, task)

    jobs = jobs_for([SHOP], "train", range(5))
    whole = Collector(RandomAgent(), PlayConfig(slots=2)).collect_batch(jobs)
    monkeypatch.setattr(ShopEnv, "step", breaks)
    monkeypatch.setattr(ShopEnv, "begin", begins)
    assert Collector(RandomAgent(), PlayConfig(slots=2, retries=2)).collect_batch(jobs) == whole
    for retries in (0, 1):
        failures.clear()
        played = Collector(RandomAgent(), PlayConfig(slots=2, retries=retries)).collect_batch(jobs)
        assert [each.error is None for each in played] == [True, False, True, False, True]
        assert all("OSError('no world') (test_collector.py" in str(played[i].error) for i in (1, 3))
        assert set(failures.values()) == {retries + 1}
        assert [played[i] for i in (0, 2, 4)] == [whole[i] for i in (0, 2, 4)]


def test_a_world_that_cannot_be_made_for_now_is_no_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made again, as often as `retries` says, and ends its own episode alone; wrong arguments are an error."""
    made, make = list[bool](), EnvSpec.make

    def fails(self: EnvSpec) -> TextEnv:
        made.append(True)
        if len(made) in (2, 3):
            raise OSError("no port is free")
        return make(self)

    monkeypatch.setattr(EnvSpec, "make", fails)
    played = Collector(ExpertAgent(), PlayConfig(slots=2)).collect_batch(jobs_for([SHOP], "train", range(4)))
    assert [each.error for each in played] == [None, None, None, None] and len(made) == 4
    made.clear()
    played = Collector(ExpertAgent(), PlayConfig(slots=2, retries=0)).collect_batch(jobs_for([SHOP], "train", range(4)))
    assert [each.error for each in played] == [None, "OSError('no port is free')", "OSError('no port is free')", None]
    with pytest.raises(ConfigError, match="no argument 'max_step'"):
        Collector(ExpertAgent()).collect(Job(EnvSpec("shop", {"max_step": 3}), 0))


def test_a_world_that_is_late_is_no_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process it is noticed when it is back, from making it, a beginning or a step; the others go on."""
    from agentgym_envs.shop.env import ShopEnv

    step, begin, make, clock = ShopEnv.step, ShopEnv.begin, EnvSpec.make, [7.0]

    def slow(self: ShopEnv, action: str) -> Any:
        clock[0] += 3.5 * (self.current_task is not None and self.current_task.id.endswith("/1"))
        return step(self, action)

    def begins(self: ShopEnv, task: Task) -> str:
        clock[0] += 3.5 * task.id.endswith("/2")
        return begin(self, task)

    def made(self: EnvSpec) -> TextEnv:
        clock[0] += 3.5 * bool(self.kwargs)
        return make(self)

    monkeypatch.setattr(ShopEnv, "step", slow)
    monkeypatch.setattr(ShopEnv, "begin", begins)
    monkeypatch.setattr(EnvSpec, "make", made)
    monkeypatch.setattr("agentgym_py.collection.watchdog.monotonic", lambda: clock[0])
    jobs = [*jobs_for([SHOP], "train", range(4)), Job(EnvSpec("shop", {"max_steps": 14}), 0)]
    closed = list[int]()
    monkeypatch.setattr(ShopEnv, "close", lambda self: closed.append(self.max_steps))
    stream = Collector(ExpertAgent(), PlayConfig(step_timeout=3.0, retries=0)).stream(jobs[::-1])
    assert next(iter(stream))[0] == 0 and closed == [14], "one that is late in being made is used for nothing"
    played = Collector(ExpertAgent(), PlayConfig(step_timeout=3.0)).collect_batch(jobs)
    assert [each.error is None for each in played] == [True, False, False, True, False]
    said = "InfrastructureError('the world took longer than the step_timeout of 3 s')"
    assert {each.error for each in played} == {None, said} and summarise(played).success == wilson(2, 2)
    assert failure_note(played) == f"3 episodes ended by an infrastructure failure and left out; 3 of them: {said}"


def test_an_endpoint_that_gives_no_answer_is_not_asked_for_the_episode_again() -> None:
    """It asks several times by itself, and each time may cost money."""

    class Lost(RandomAgent):
        """An endpoint's agent without an endpoint."""

        asked = 0

        def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
            """No reply."""
            self.asked += len(episodes)
            return [AgentReply("", error="no answer") for _ in episodes]

    agent = Lost()
    played = Collector(agent, PlayConfig(retries=3)).collect_batch(jobs_for([SHOP], "train", range(3)))
    assert [each.error for each in played] == ["no answer"] * 3 and agent.asked == 3


def test_an_agent_whose_server_is_gone_is_no_evidence() -> None:
    """Only the episode in which it was needed ends with the error; the others are as they are without it."""

    class Lost(RandomAgent):
        """Loses a server in the second step of task 1."""

        def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
            """Reply, or raise."""
            if any(episode.task.id.endswith("/1") and episode.steps for episode in episodes):
                raise InfrastructureError("nobody answers")
            return super().act(episodes)

    class LostElsewhere(Lost):
        """The same, asked for each episode by itself."""

        is_async = True

        async def areply(self, episode: Episode) -> AgentReply | None:
            """Reply, or raise."""
            return self.act([episode])[0]

    jobs = jobs_for([SHOP], "train", range(3))
    whole = Collector(RandomAgent()).collect_batch(jobs)
    for agent in (Lost(), LostElsewhere()):
        played = Collector(agent).collect_batch(jobs)
        assert [played[0], played[2]] == [whole[0], whole[2]]
        assert (played[1].error, len(played[1].steps)) == ("InfrastructureError('nobody answers')", 1)


def test_an_agent_may_give_up() -> None:
    """An agent that answers None ends its episode as truncated, without success."""

    class Quitter(ExpertAgent):
        name = "quitter"

        def act(self, episodes: Sequence[Episode]) -> list[AgentReply | None]:
            return [
                None if episode.steps else reply for episode, reply in zip(episodes, super().act(episodes), strict=True)
            ]

    trajectory = Collector(Quitter()).collect(Job(SHOP, 0))
    assert (len(trajectory.steps), trajectory.success, trajectory.stop_reason) == (1, False, StopReason.GAVE_UP)


def test_unknown_names_raise() -> None:
    """A misspelt environment or task is a programmer's error, not an episode."""
    with pytest.raises(UnknownNameError, match="'shop'"):
        Collector(ExpertAgent()).collect(Job(EnvSpec("shp"), 0))
    with pytest.raises(UnknownNameError):
        Collector(ExpertAgent()).collect(Job(SHOP, "shop/train/medium/x"))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"slots": 0}, "slots must be at least 1, got 0"),
        ({"prompt": "breif"}, "No prompt 'breif'. Did you mean 'brief'? There are: brief, full, none."),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any], said: str) -> None:
    """Before anything is played: no slots would wait forever."""
    with pytest.raises(ConfigError, match=f"^{re.escape(said)}$"):
        Collector(ExpertAgent(), PlayConfig(**wrong))
    with pytest.raises(ConfigError, match="step_timeout must be a number of seconds above 0, got 0"):
        Collector(ExpertAgent(), PlayConfig(step_timeout=0))
    with pytest.raises(ConfigError, match="retries must be at least 0, got -1"):
        Collector(ExpertAgent(), PlayConfig(retries=-1))


def test_worlds_registered_by_hand_can_be_collected() -> None:
    """An environment that only Gymnasium knows is found by its id."""
    gymnasium.register(id="AgentShopAgain-v0", entry_point="agentgym_envs.shop.env:ShopEnv")
    assert Collector(ExpertAgent()).collect(Job(EnvSpec("AgentShopAgain-v0"), 0)).success


def test_worlds_are_closed_and_a_broken_one_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that raised in reset or step is closed and dropped; the others are used again, and closed at the end."""
    from agentgym_envs.shop.env import ShopEnv

    step, begin, used, closed = ShopEnv.step, ShopEnv.begin, list[tuple[int, str]](), list[int]()

    def breaks(self: ShopEnv, action: str) -> Any:
        assert self.current_task is not None and id(self) not in closed
        used.append((id(self), self.current_task.id))
        if self.current_task.id.endswith("/1"):
            raise TimeoutError("the world hangs")
        return step(self, action)

    def fails(self: ShopEnv, task: Task) -> str:
        if task.id.endswith("/3"):
            raise OSError("no world")
        return begin(self, task)

    monkeypatch.setattr(ShopEnv, "step", breaks)
    monkeypatch.setattr(ShopEnv, "begin", fails)
    monkeypatch.setattr(ShopEnv, "close", lambda self: closed.append(id(self)))
    keep = list[TextEnv]()  # so that no id is given twice
    make = EnvSpec.make

    def kept(self: EnvSpec) -> TextEnv:
        keep.append(make(self))
        return keep[-1]

    monkeypatch.setattr(EnvSpec, "make", kept)
    played = Collector(ExpertAgent(), PlayConfig(slots=1, retries=0)).collect_batch(jobs_for([SHOP], "train", range(6)))
    assert [t.error is None for t in played] == [True, False, True, False, True, True]
    assert len(keep) == 3 and sorted(closed) == sorted(map(id, keep)) and closed[:2] == [id(keep[0]), id(keep[1])]
    closed.clear()
    stream = Collector(ExpertAgent(), PlayConfig(slots=2)).iter_ordered(jobs_for([SHOP], "test", range(9)))
    next(stream)
    stream.close()
    assert sorted(closed) == sorted(map(id, keep[3:]))


def test_all_tries_at_a_task_start_alike_and_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    """The world's seed follows from collector and task; what it draws is stored, and drawn again in a replay."""
    from agentgym_envs.shop.env import ShopEnv

    begin = ShopEnv.begin
    monkeypatch.setattr(ShopEnv, "begin", lambda self, task: f"{begin(self, task)}\nweather {self.rng.below(1 << 40)}")
    jobs = jobs_for([SHOP], "train", range(3), attempts=2)
    played = Collector(RandomAgent(), PlayConfig(slots=3, seed=1)).collect_batch(jobs)
    opened = [t.steps[0].observation for t in played]
    assert opened[0::2] == opened[1::2] and len({text.split("weather")[1] for text in opened}) == 3
    assert len({t.provenance.env_seed for t in played}) == 3
    assert (
        Collector(RandomAgent(), PlayConfig(seed=2)).collect(jobs[0]).provenance.env_seed
        != played[0].provenance.env_seed
    )
    assert all(each.holds for each in replay_all(played))


def test_ids_are_unique_in_a_mixture(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task in worlds made with other arguments has other ids, also at a failed reset, and counts as another task."""
    specs = [SHOP, EnvSpec("shop", {"max_steps": 9}), EnvSpec("shop", {"max_steps": 10})]
    played = Collector(ExpertAgent()).collect_batch(jobs_for(specs, "train", range(2), attempts=2))
    assert len({t.id for t in played}) == 12 and len({t.task_id for t in played}) == 2
    assert summarise(played).success == wilson(6, 6)
    assert played[0].id == "shop/train/medium/0#0" and played[2].id.startswith("shop/train/medium/0@")
    from agentgym_envs.shop.env import ShopEnv

    def fails(self: ShopEnv, task: Task) -> str:
        raise OSError("no world")

    monkeypatch.setattr(ShopEnv, "begin", fails)
    failed = Collector(ExpertAgent()).collect_batch(jobs_for(specs, "train", range(2), attempts=2))
    assert len({t.id for t in failed}) == 12 and all(t.error for t in failed)


def test_the_fair_expert_looks_before_it_buys() -> None:
    """It opens what turns out wrong, goes back because of an option that is not on the page, and mostly succeeds."""
    easy = EnvSpec("shop", {"difficulty": "easy"})
    played = Collector(ExpertAgent(fair=True)).collect_batch(jobs_for([easy], "test", range(200)))
    assert 190 <= sum(t.success for t in played) <= 200
    left = [(t, i) for t in played for i, step in enumerate(t.steps) if step.action == "click[< prev]"]
    assert len({t.id for t, _ in left}) > 15
    for trajectory, i in left:
        step = trajectory.steps[i]
        missing = step.thought.removesuffix("? No. Now < prev.")
        assert f": {missing}, and price" in trajectory.instruction
        assert missing not in step.observation.split("\n", 1)[1]
    assert all(each.holds for each in replay_all(played))


def test_the_expert_speaks_as_its_world_reads() -> None:
    """A world that reads bare actions only, as WebShop's does, gets them bare."""
    strict = EnvSpec("shop", {"strict_compat": True, "observation_mode": "text"})
    played = Collector(ExpertAgent()).collect(Job(strict, 0))
    assert played.success and all(step.reply == step.action for step in played.steps)


def test_the_expert_sees_what_chance_did(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a step does not do what was planned the expert plans again instead of going on with an old plan."""
    from agentgym_envs.shop.env import ShopEnv

    act = ShopEnv.act

    def slips(self: ShopEnv, reply: Any) -> Any:
        return act(self, Reply("click[back to search]") if self.steps == 1 else reply)

    monkeypatch.setattr(ShopEnv, "act", slips)
    trajectory = Collector(ExpertAgent()).collect(Job(SHOP, 0))
    assert trajectory.success and all(step.valid for step in trajectory.steps)


def test_worlds_are_named_or_specified() -> None:
    """One or several, by name or by spec, give the same jobs; a split that is none is refused at once."""
    wanted = [Job(EnvSpec("shop"), 0, "train"), Job(EnvSpec("shop"), 1, "train")]
    for envs in ("shop", ["shop"], EnvSpec("shop"), [EnvSpec("shop")]):
        assert jobs_for(envs, "train", range(2)) == wanted
    with pytest.raises(UnknownNameError, match="trian"):
        jobs_for("shop", "trian", range(2))


@pytest.mark.parametrize("agent", ["expert", None])
def test_an_agent_that_cannot_act_is_refused_at_once(agent: Any) -> None:
    """Such as the name of one; the message says what is wanted."""
    with pytest.raises(ConfigError, match=r"an agent such as ExpertAgent\(\) is wanted"):
        Collector(agent)


def test_ordered_episodes_come_in_the_order_of_the_jobs() -> None:
    """As from `collect_batch`, one by one."""
    jobs = jobs_for([SHOP], "train", range(6))
    collector = Collector(RandomAgent(), PlayConfig(slots=3))
    assert list(collector.iter_ordered(jobs)) == collector.collect_batch(jobs)


ODD_TURNS: dict[str, Callable[[Any], Any]] = {
    "nan": lambda turn: (turn[0], float("nan"), *turn[2:]),
    "infinite": lambda turn: (turn[0], np.float32("inf"), *turn[2:]),
    "none": lambda turn: (turn[0], None, *turn[2:]),
    "text": lambda turn: (turn[0], "1.0", *turn[2:]),
    "part is nan": lambda turn: (*turn[:4], turn[4] | {"reward_parts": {"price": float("nan")}}),
    "part is none": lambda turn: (*turn[:4], turn[4] | {"reward_parts": {"price": None}}),
    "parts are none": lambda turn: (*turn[:4], turn[4] | {"reward_parts": None}),
    "no valid_action": lambda turn: (*turn[:4], {}),
    "no info": lambda turn: (*turn[:4], None),
    "no observation": lambda turn: (None, *turn[1:]),
    "four values": lambda turn: turn[:4],
}


@pytest.mark.parametrize("step_threads", [0, 2])
@pytest.mark.parametrize("odd", ODD_TURNS)
def test_values_that_no_record_holds_are_the_worlds_failure(
    odd: str, step_threads: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A reward, part or info that is no number ends its own episode with an infrastructure error, and no other."""
    from agentgym_envs.shop.env import ShopEnv

    step = ShopEnv.step

    def returns_it(self: ShopEnv, action: str) -> Any:
        turn = step(self, action)
        assert self.current_task is not None
        return ODD_TURNS[odd](turn) if self.current_task.id.endswith("/1") and self.steps == 2 else turn

    jobs = jobs_for([SHOP], "train", range(3))
    whole = Collector(ExpertAgent()).collect_batch(jobs)
    monkeypatch.setattr(ShopEnv, "step", returns_it)
    played = Collector(ExpertAgent(), PlayConfig(step_threads=step_threads)).collect_batch(jobs)
    assert [t.error is None for t in played] == [True, False, True] and len(played[1].steps) == 1
    assert same(played[::2], whole[::2]) and math.isfinite(summarise(played).reward.value)
    assert store.write(tmp_path / "a.jsonl", played) == 3


def test_numbers_of_numpy_become_floats(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Rewards, parts, flags and optimal steps of numpy's types are stored as those of Python."""
    from agentgym_envs.shop.env import ShopEnv

    step, begin = ShopEnv.step, ShopEnv.task

    def in_numpy(self: ShopEnv, action: str) -> Any:
        text, reward, terminated, truncated, info = step(self, action)
        self.succeeded = np.bool_(self.succeeded)  # type: ignore[assignment]
        parts = {name: np.float32(part) for name, part in info["reward_parts"].items()} | {"more": np.int64(2)}
        info |= {"reward_parts": parts, "valid_action": np.bool_(info["valid_action"])}
        return text, np.float64(reward), np.bool_(terminated), np.bool_(truncated), info

    def task(self: ShopEnv, *args: Any) -> Task:
        made = begin(self, *args)
        return replace(made, optimal_steps=np.int64(made.optimal_steps))  # type: ignore[arg-type]

    monkeypatch.setattr(ShopEnv, "step", in_numpy)
    monkeypatch.setattr(ShopEnv, "task", task)
    played = Collector(ExpertAgent()).collect_batch(jobs_for([SHOP], "train", range(2)))
    assert store.write(tmp_path / "a.jsonl", played) == 2 and all(t.success is True for t in played)
    assert {type(x) for t in played for s in t.steps for x in (s.reward, *s.reward_parts.values())} == {float}
    assert {type(t.optimal_steps) for t in played} == {int}


@pytest.mark.parametrize("steps", [float("nan"), "5"])
def test_a_task_without_a_number_of_steps_is_the_worlds_failure(steps: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Optimal steps that are no integer end that episode alone."""
    from agentgym_envs.shop.env import ShopEnv

    task = ShopEnv.task

    def odd(self: ShopEnv, *args: Any) -> Task:
        made = task(self, *args)
        return replace(made, optimal_steps=steps) if made.id.endswith("/1") else made

    monkeypatch.setattr(ShopEnv, "task", odd)
    played = Collector(ExpertAgent()).collect_batch(jobs_for([SHOP], "train", range(3)))
    assert [t.error is None for t in played] == [True, False, True]


@pytest.mark.parametrize("tasks", [range(10_000_001), range(10**30), range(5_000_001)])
def test_more_episodes_than_memory_holds_are_refused(tasks: range) -> None:
    """At once: the list of jobs alone would fill it."""
    with pytest.raises(ConfigError, match="more than 10,000,000 episodes"):
        jobs_for(SHOP, "train", tasks, attempts=2)
