from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from agentgym_py.env import EnvSpec
from agentgym_py.errors import ConfigError
from agentgym_py.evolution import EvolveConfig
from agentgym_py.evolution.curricula import (
    Difficulty,
    Learnable,
    Level,
    count_outcomes,
    find_levels,
    learnability,
    outcomes_in,
    success_by_level,
)
from agentgym_py.evolution.task_sampling import (
    demonstration_jobs,
    round_jobs,
    sample_hard,
    task_order,
    tasks_per_env,
)
from agentgym_py.rng import Rng
from agentgym_py.trajectory import Trajectory

WORLDS = [EnvSpec("shop"), EnvSpec("AgentMaze-v0"), EnvSpec("todo")]
CONFIG = EvolveConfig(expert_tasks=3, explore_tasks=4, rounds=3)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({}, [100, 100, 100]),
        ({"maze": 4.0}, [50, 200, 50]),
        ({"shop": 0.0, "todo": 0.5}, [0, 200, 100]),
        ({"shop": 1 / 3, "maze": 1 / 3, "todo": 1 / 3}, [100, 100, 100]),
        ({"shop": 2.0, "maze": 2.0}, [120, 120, 60]),
    ],
)
def test_worlds_have_tasks_by_weight(weights: dict[str, float], expected: list[int]) -> None:
    """In all as many as without; who is not named has the weight 1."""
    assert tasks_per_env(WORLDS, weights, 100) == expected
    for tasks in range(1, 40):
        found = tasks_per_env(WORLDS, {"shop": 0.3, "maze": 1.7}, tasks)
        assert sum(found) == 3 * tasks
        assert all(abs(n - tasks * w) <= 1 for n, w in zip(found, (0.3, 1.7, 1.0), strict=True))


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({"mase": 1.0}, "Did you mean 'maze'"),
        ({"shop": -1.0}, "at least 0"),
        ({"shop": inf}, "at least 0"),
        ({"shop": 0.0, "maze": 0.0, "todo": 0.0}, "not all of them 0"),
    ],
)
def test_weights_that_cannot_be_are_refused(weights: dict[str, float], said: str) -> None:
    """With the name, and what there is."""
    with pytest.raises(ConfigError, match=said):
        tasks_per_env(WORLDS, weights, 100)


def test_worlds_take_turns_and_every_task_is_new() -> None:
    """As long as a world has some left; round 0 is the expert's, with as many tasks of each."""
    config = replace(CONFIG, explore_weights={"maze": 2.0, "todo": 0.0})
    rounds = [round_jobs(config, WORLDS, number, lambda _: [], 2) for number in range(4)]
    assert [job.env for job in rounds[0][::2]] == WORLDS * 3
    for jobs in rounds[1:]:
        shop, maze, _ = WORLDS
        assert [job.env for job in jobs[::2]] == [shop, maze] * 4 + [maze] * 4
        assert [job.attempt for job in jobs] == [0, 1] * 12
    tasks = [(job.env.name, job.task) for jobs in rounds for job in jobs[::2]]
    assert len(set(tasks)) == len(tasks) == 9 + 3 * 12
    assert [job.task for job in rounds[2][::2] if job.env == WORLDS[0]] == task_order(WORLDS[0], 11, 0)[7:]


@pytest.mark.parametrize("number", [0, 2])
def test_few_demonstrations_show_every_kind(number: int) -> None:
    """One task of each kind before a second one; what is explored has no task of theirs, and is the same otherwise."""
    todo, config = WORLDS[2], replace(CONFIG, expert_tasks=25, explore_tasks=200, expert_order="kinds")
    jobs = demonstration_jobs(config, [todo], number) if number else round_jobs(config, [todo], 0, lambda _: [], 1)
    with closing(todo.make()) as env:
        kinds = Counter(env.task(job.task, "train").kind for job in jobs)
        every = {env.task(task, "train").kind for task in task_order(todo, 500, 0)}
    assert len(jobs) == len({job.task for job in jobs}) == 25
    assert set(kinds) == every and max(kinds.values()) == 2


def test_what_was_demonstrated_biases_no_exploration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Explored are the tasks after those of which some were demonstrated; in a finite world the others come last."""
    config = replace(CONFIG, expert_tasks=25, explore_tasks=200, expert_order="kinds")

    def tasks() -> list[list[int | str]]:
        return [[job.task for job in round_jobs(config, [WORLDS[2]], n, lambda _: [], 1)] for n in range(4)]

    assert [task for round in tasks()[1:] for task in round] == task_order(WORLDS[2], 1100, 0)[500:]
    monkeypatch.setattr(EnvSpec, "count", lambda spec, split, most: min(most, 600))
    config = replace(config, explore_tasks=150)
    demonstrated, *explored = tasks()
    every, found = task_order(WORLDS[2], 600, 0), [task for round in explored for task in round]
    assert found[:100] == every[500:] and found[100:] == [t for t in every[:500] if t not in demonstrated][:350]


def test_exploration_can_be_cut_short() -> None:
    """Its tasks are the same, and neither demonstrations nor a world with an earlier limit change."""
    shop, maze, _ = WORLDS
    config = replace(CONFIG, horizon=[17])
    before, after = (
        [job for n in (0, 1) for job in round_jobs(c, WORLDS, n, lambda _: [], 1)] for c in (CONFIG, config)
    )
    assert [(job.env.name, job.task) for job in before] == [(job.env.name, job.task) for job in after]
    assert shop.make().max_steps < 17 < maze.make().max_steps
    experts = len(WORLDS) * config.expert_tasks
    for index, job in enumerate(after):
        cut = index >= experts and job.env.name != shop.name
        assert job.env.kwargs == {**before[index].env.kwargs, **({"max_steps": 17} if cut else {})}


def played(number: int, *successes: bool, **fields: Any) -> list[Trajectory]:
    """Tries at a task of the maze, made for the test."""
    from agentgym_py.agents import ExpertAgent
    from agentgym_py.collection import Collector, Job

    one = Collector(ExpertAgent()).collect(Job(WORLDS[1], number))
    return [replace(one, success=success, **fields) for success in successes]


def test_who_failed_more_is_drawn_more() -> None:
    """By (failures + 1) / (tries + 1): a new task as often as one that always failed; each once at most."""
    done = played(0, True, True, True) + played(1, False, False, False) + played(2, True, False, True)
    lost = played(3, True, True, True, error="gone")
    (middle,) = played(3, True)
    midway = [replace(middle, steps=(replace(middle.steps[0], trained=False), *middle.steps[1:]))] * 3
    elsewhere = [replace(each, provenance=replace(each.provenance, env_kwargs={"max_steps": 3})) for each in done[:3]]
    counts = dict.fromkeys(range(4), 0)
    for seed in range(600):
        (first,) = sample_hard(WORLDS[1], range(4), 1, [*done, *lost, *midway, *elsewhere], Rng(seed))
        counts[first] += 1
    total = 0.25 + 1 + 0.5 + 1
    for task, weight in enumerate((0.25, 1.0, 0.5, 1.0)):
        assert counts[task] / 600 == pytest.approx(weight / total, abs=0.06), counts
    assert sorted(sample_hard(WORLDS[1], range(4), 4, done, Rng(0))) == list(range(4))


def test_hard_rounds_draw_from_what_was_explored() -> None:
    """As many tasks as a uniform one, of all explored ones and as many new ones; the first has new ones alone."""
    config, seen = replace(CONFIG, explore_order="hard"), list[int]()

    def stored(number: int) -> list[Trajectory]:
        seen.append(number)
        return []

    rounds = [[job.task for job in round_jobs(config, [WORLDS[1]], number, stored, 1)] for number in range(4)]
    every = task_order(WORLDS[1], 15, 0)
    assert rounds[:2] == [every[:3], every[3:7]] and seen == [1, 1, 2]
    assert [len(set(tasks)) for tasks in rounds[2:]] == [4, 4]
    assert set(rounds[2]) <= set(every[3:11]) and set(rounds[3]) <= set(every[3:]) and set(rounds[3]) & set(every[3:11])
    with pytest.raises(ConfigError, match="explore_order must be one of uniform, hard, learnable, not 'easy'"):
        replace(CONFIG, explore_order="easy")  # type: ignore[arg-type]  # what is tested


def test_learnable_worlds_have_more_tasks() -> None:
    """A world that is solved half of the time has most; one that is always or never solved has few, but some."""
    shop = [replace(t, provenance=replace(t.provenance, env_id="AgentShop-v0")) for t in played(0, *[True, False] * 20)]
    lost = [replace(t, error="gone") for t in played(1, *[True] * 50)]
    maze, todo = played(0, *[False] * 40), [replace(t, provenance=replace(t.provenance, env_id="AgentTodo-v0"))
                                            for t in played(0, *[True] * 40)]  # fmt: skip
    episodes = [*shop, *maze, *todo, *lost]
    expected = {"shop": 0.25, "maze": 41 / 42 / 42, "todo": 41 / 42 / 42}
    found = {name: learnability(outcomes_in(name, count_outcomes(episodes))) for name in ("shop", "maze", "todo")}
    assert found == pytest.approx(expected)
    assert learnability(outcomes_in("shop", {})) == 0.25

    config = replace(CONFIG, explore_tasks=40, explore_order="learnable")
    rounds = [round_jobs(config, WORLDS, number, lambda _: episodes, 1) for number in range(4)]
    counts = [[sum(job.env == world for job in jobs) for world in WORLDS] for jobs in rounds]
    assert counts[:2] == [[3, 3, 3], [40, 40, 40]]
    assert all(sum(shares) == 120 and shares[0] > 90 and min(shares) > 5 for shares in counts[2:])
    tasks = [(job.env.name, job.task) for jobs in rounds for job in jobs]
    assert len(set(tasks)) == len(tasks)


ROLES = [EnvSpec("errand", {"role": role}) for role in ("client", "shopper")]


def in_role(role: str, *successes: bool) -> list[Trajectory]:
    """Episodes of a role."""
    return [
        replace(t, provenance=replace(t.provenance, env_id="AgentErrand-v0", env_kwargs={"role": role}))
        for t in played(0, *successes)
    ]


def test_each_role_of_a_world_counts_by_itself() -> None:
    """In weights, where a world's name stands for all its roles, and in what `learnable` and curricula read."""
    assert tasks_per_env(ROLES, {"errand:shopper": 3.0}, 100) == [50, 150]
    assert tasks_per_env([*ROLES, EnvSpec("shop")], {"errand": 2.0, "errand:shopper": 1.0}, 100) == [150, 75, 75]
    with pytest.raises(ConfigError, match="no world 'errand:asker'"):
        tasks_per_env(ROLES, {"errand:asker": 1.0}, 100)
    episodes = [*in_role("client", *[True, False] * 20), *in_role("shopper", *[True] * 40)]
    config = replace(CONFIG, explore_tasks=40, explore_order="learnable", explore_weights={"errand": 2.0})
    jobs = round_jobs(config, ROLES, 2, lambda _: episodes, 1)
    assert [sum(job.env == world for job in jobs) > 40 for world in ROLES] == [True, False]
    weighted = round_jobs(replace(config, explore_weights={"errand:client": 0.0}), ROLES, 2, lambda _: episodes, 1)
    assert {job.env.kwargs["role"] for job in weighted} == {"shopper"}
    levels = [Level(f"errand:{spec.kwargs['role']}", "medium", spec) for spec in ROLES]
    counted = [replace(t, difficulty="medium") for t in episodes]
    rates = success_by_level(levels, counted)
    assert [rates[level.world]["medium"]["value"] for level in levels] == [0.5, 1.0]
    assert [outcomes[1] for outcomes in count_outcomes(counted).values()] == [20, 40]
    assert find_levels(ROLES[0], ["easy"])[0].world == "errand:client"


def test_episodes_from_the_middle_of_a_task_say_nothing_of_its_level() -> None:
    """Forks, and the near starts of a reverse curriculum: success from there would lift the level too early."""
    (whole,) = played(0, False)
    near = replace(whole, steps=(replace(whole.steps[0], trained=False), *whole.steps[1:]), success=True)
    key = ("maze", whole.difficulty)
    assert count_outcomes([whole, *[near] * 9]) == {key: (1, 0)} and count_outcomes([near]) == {}
    rates = success_by_level([Level(*key, WORLDS[1])], [whole, *[near] * 9])
    assert (rates["maze"][whole.difficulty]["value"], rates["maze"][whole.difficulty]["n"]) == (0.0, 1)


def maze_round(number: int, **successes: list[bool]) -> list[Trajectory]:
    """Episodes of a round in the maze, by difficulty."""
    return [replace(t, difficulty=difficulty) for difficulty, ends in successes.items() for t in played(number, *ends)]


def test_a_curriculum_shares_the_tasks_of_a_world_among_its_levels() -> None:
    """One level at a time, of each world by itself; demonstrations keep the world's own difficulty."""
    config = replace(CONFIG, explore_tasks=6, curriculum=Difficulty(), levels=["easy", "medium"], expert_tasks=2)
    rounds = {1: maze_round(0, easy=[True] * 4 + [False]), 2: maze_round(1, medium=[True] * 4 + [False] * 2)}
    jobs = [round_jobs(config, WORLDS[:2], number, rounds.__getitem__, 1) for number in range(4)]
    levels = [{(job.env.name, job.env.kwargs.get("difficulty")) for job in of_round} for of_round in jobs]
    shop, maze = (world.name for world in WORLDS[:2])
    assert levels == [
        {(shop, None), (maze, None)}, {(shop, "easy"), (maze, "easy")}, {(shop, "easy"), (maze, None)},
        {(shop, "easy"), (maze, None)},
    ]  # fmt: skip
    assert [len(of_round) for of_round in jobs] == [4, 12, 12, 12]
    tasks = [(job.env.key, job.task) for of_round in jobs for job in of_round]
    assert len(set(tasks)) == len(tasks)


def test_levels_and_worlds_are_shared_by_what_can_be_learnt() -> None:
    """By the same formula: among worlds by `explore_order`, among a world's levels by the curriculum."""
    config = replace(CONFIG, explore_tasks=100, curriculum=Learnable(), explore_order="learnable")
    explored = maze_round(0, easy=[True] * 38, medium=[True, False] * 19, hard=[False] * 38)
    first, second = ([job.env for job in round_jobs(config, WORLDS[:2], n, lambda _: explored, 1)] for n in (1, 2))
    difficulties = [env.kwargs.get("difficulty", "medium") for env in first if env.name == WORLDS[1].name]
    assert [difficulties.count(name) for name in ("easy", "medium", "hard")] == [33, 34, 33]
    difficulties = [env.kwargs.get("difficulty", "medium") for env in second if env.name == WORLDS[1].name]
    shares = [difficulties.count(name) / len(difficulties) for name in ("easy", "medium", "hard")]
    assert shares == pytest.approx([0.0796, 0.8408, 0.0796], abs=0.01)
    p = (38 + 19 + 1) / (3 * 38 + 2)
    assert len(difficulties) / 200 == pytest.approx(p * (1 - p) / (p * (1 - p) + 0.25), abs=0.01)


def test_a_horizon_grows_with_the_rounds() -> None:
    """The tasks are the same; a world's own limit counts if it is earlier; demonstrations keep that of the world."""
    config = replace(CONFIG, horizon=[5, 20, 50])
    maze, shop = WORLDS[1], WORLDS[0]
    rounds = [round_jobs(config, WORLDS[:2], number, lambda _: [], 1) for number in range(4)]
    limits = [{job.env.name: job.env.kwargs.get("max_steps") for job in jobs} for jobs in rounds]
    assert limits == [
        {shop.name: None, maze.name: None}, {shop.name: 5, maze.name: 5}, {shop.name: None, maze.name: 20},
        {shop.name: None, maze.name: None},
    ]  # fmt: skip
    plain = [round_jobs(CONFIG, WORLDS[:2], number, lambda _: [], 1) for number in range(4)]
    assert [[job.task for job in jobs] for jobs in rounds] == [[job.task for job in jobs] for jobs in plain]
