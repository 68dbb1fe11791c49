from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentgym_py.env import EnvSpec, Outcome
from agentgym_py.errors import ConfigError, DataError
from agentgym_py.rng import Rng
from agentgym_py.training.rl.constraints import (
    Constraint,
    ConstraintSettings,
    Multiplier,
    Multipliers,
    continue_multipliers,
    parse_constraints,
)
from agentgym_trainers.grpo import GRPO
from agentgym_trainers.ppo import PPO
from agentgym_trainers.r3 import R3

# ------------------------------------------------------------------------------------------------------- the settings


def test_constraints_are_read_as_they_are_written() -> None:
    """Names and limits come back, whatever they are and with any spaces."""
    rng = Rng("constraints")
    for _ in range(200):
        names = {
            "".join(rng.choice(("a", "_", "/", "x9", "-")) for _ in range(1 + rng.below(5)))
            for _ in range(rng.below(4))
        }
        constraints = [Constraint(name, rng.below(1000) / 10 ** rng.below(5)) for name in sorted(names)]
        space = " " * rng.below(3)
        text = ",".join(f"{space}{c.cost}{space}<={space}{c.limit!r}{space}" for c in constraints)
        assert parse_constraints(text) == constraints, text


@pytest.mark.parametrize(
    "text",
    [
        "deletions",
        "deletions<0.1",
        "a<=x",
        "a<=-1",
        "a<=nan",
        "a<=inf",
        "a<=1,",
        "<=1",
        "a<=1<=2",
        "a b<=1",
        "a<=",
        ",",
    ],
)
def test_other_constraints_are_refused_in_one_line(text: str) -> None:
    """The message names the part and shows how one is written."""
    with pytest.raises(ConfigError, match="is not COST<=LIMIT") as error:
        ConstraintSettings(constraint=text)
    assert "\n" not in str(error.value) and "deletions<=0.01" in str(error.value)


def test_settings_that_mean_nothing_are_refused() -> None:
    """A gain without a constraint, a constraint without a gain, one cost twice, costs without weight."""
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"lagrange_kp": 1.0}, "lagrange_kp needs a constraint"), ({"constraint": "a<=1,a<=2"}, "a is there twice"),
        ({"constraint": "a<=1", "lagrange_ki": 0.0}, "must not both be 0"),
        ({"constraint": "a<=1", "lagrange_kd": -1.0}, "lagrange_kd must be a number of at least 0"),
    ]  # fmt: skip
    for settings, message in wrong:
        for trainer in (PPO, GRPO):
            with pytest.raises(ConfigError, match=message):
                trainer(**settings)
    with pytest.raises(ConfigError, match="constraint needs alpha above 0"):
        R3(constraint="a<=1", alpha=0.0)
    with pytest.raises(ConfigError, match=r"no world of the run names this cost. Did you mean 'deletions'"):
        PPO(constraint="deletion<=0.1").check_costs({"deletions", "changes"})
    PPO(constraint="deletions<=0.1").check_costs({"deletions", "changes"})


# ------------------------------------------------------------------------------------------------------- the formulas


def slow_multipliers(costs: list[float], limit: float, kp: float, ki: float, kd: float) -> list[float]:
    """Algorithm 2 of arXiv:2007.03964 as it is written, with the integral outside of its gain."""
    integral, values = 0.0, []
    for k, cost in enumerate(costs):
        delta = cost - limit
        derivative = max(cost - costs[k - 1], 0) if k else 0.0
        integral = max(integral + delta, 0)
        values.append(max(kp * delta + ki * integral + kd * derivative, 0))
    return values


@pytest.mark.parametrize(("kp", "ki", "kd"), [(0.0, 0.3, 0.0), (0.5, 0.1, 0.2), (1.0, 0.0, 2.0)])
def test_a_multiplier_is_the_papers(kp: float, ki: float, kd: float) -> None:
    """It equals the slow loop over costs on both sides of the limit; with K_I alone it is projected dual ascent."""
    rng = Rng("costs", kp)
    costs = [rng.below(1000) / 1000 for _ in range(60)]
    multiplier, values, ascent = Multiplier(), [], 0.0
    for cost in costs:
        multiplier.update(cost, 0.6, ki=ki, kp=kp, kd=kd)
        values.append(multiplier.value)
        ascent = max(0.0, ascent + ki * (cost - 0.6))
        assert kp or multiplier.value == pytest.approx(ascent, abs=1e-12)
    assert values == pytest.approx(slow_multipliers(costs, 0.6, kp, ki, kd), abs=1e-12)
    assert min(values) == 0 < max(values)


def with_costs(toy_envs: Any, trainer: Any = None) -> Any:
    """Episodes of the two arms, both costs at different steps."""
    spec = EnvSpec("ToyCosts-v0")
    policy = toy_envs.word_policy()
    played = toy_envs.rollouts(policy, spec, 40).groups(40, 1)
    return [group[0] for group in played]


def test_rewards_are_penalized_step_by_step(costly: EnvSpec, toy_envs: Any) -> None:
    """Rewards and returns are those of the formula, the episode is not changed, and failures do not count."""
    episodes = with_costs(toy_envs)
    multipliers = Multipliers(ConstraintSettings("harm<=0.1,noise<=5", lagrange_ki=0.7))
    assert {t.costs["harm"] for t in episodes} == {0.0, 1.0} and episodes[0].steps[0].costs.keys() == {"harm", "noise"}
    broken = replace(episodes[0], error="gone", steps=(replace(episodes[0].steps[0], costs={"harm": 1e6}),))
    multipliers.update([*episodes, broken])
    mean = fmean(t.costs["harm"] for t in episodes)
    assert multipliers.values == {"harm": pytest.approx(0.7 * (mean - 0.1)), "noise": 0.0}
    value = multipliers.values["harm"]
    assert multipliers.logged == {
        "cost/harm": pytest.approx(mean), "multiplier/harm": value, "multiplier/noise": 0.0,
        "cost/noise": pytest.approx(fmean(t.costs["noise"] for t in episodes)),
    }  # fmt: skip
    for episode in episodes:
        penalized = multipliers.penalize_steps(episode)
        expected = [(step.reward - value * step.costs["harm"]) / (1 + value) for step in episode.steps]
        assert [step.reward for step in penalized.steps] == pytest.approx(expected)
        assert penalized.reward == pytest.approx(sum(expected))
        assert multipliers.penalize(episode.reward, episode.costs) == pytest.approx(sum(expected))
        assert (penalized.costs, penalized.success) == (episode.costs, episode.success)
    multipliers.update(episodes, frozen=True)
    assert multipliers.values["harm"] == value and multipliers.logged["cost/harm"] == pytest.approx(mean)
    assert Multipliers(ConstraintSettings()).penalize_steps(episodes[0]) is episodes[0]


# --------------------------------------------------------------------------------------------------- whole trainings


@pytest.fixture(scope="module")
def costly(toy_envs: Any) -> EnvSpec:
    """Two arms, one pull: right pays 1 and harms, left pays 0.4.

    With harm <= 0.3 the best policy goes right in three of ten episodes, and the multiplier is the price of harm, 0.6.
    """
    import gymnasium

    class Costs(toy_envs.Toy):  # type: ignore[misc]
        name = "costs"
        costs = {"harm": "a pull of the right arm", "noise": "any pull"}  # noqa: RUF012

        def move(self, right: bool) -> Outcome:
            return Outcome(
                "2", 1.0 if right else 0.4, terminated=True, success=right, costs={"harm": right, "noise": 1}
            )

    if "ToyCosts-v0" not in gymnasium.registry:
        gymnasium.register("ToyCosts-v0", Costs)
    return EnvSpec("ToyCosts-v0")


TRAINERS: dict[str, Any] = {
    "ppo": PPO(tasks_per_iteration=64, minibatch_size=32, learning_rate=0.003, kl_coef=0.0, constraint="harm<=0.3",
               lagrange_ki=0.15, lagrange_kp=0.5),
    "grpo": GRPO(tasks_per_iteration=16, group_size=4, minibatch_size=32, learning_rate=0.003, constraint="harm<=0.3",
                 lagrange_ki=0.15, lagrange_kp=0.5),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINERS)
def test_a_constrained_training_finds_the_constrained_optimum(name: str, costly: EnvSpec, toy_envs: Any) -> None:
    """Costs end at the limit and the multiplier near the price of harm; without a constraint all pulls harm."""
    trainer = TRAINERS[name]
    _, report, _ = toy_envs.improved(costly, trainer, 64 * 60)
    last = report.history[-25:]
    assert fmean(row["cost/harm"] for row in last) == pytest.approx(0.3, abs=0.1)
    assert fmean(row["multiplier/harm"] for row in last) == pytest.approx(0.6, abs=0.2)
    free = replace(trainer, constraint="", lagrange_ki=1.0, lagrange_kp=0.0)
    _, report, _ = toy_envs.improved(costly, free, 64 * 30)
    assert report.history[-1]["success"] > 0.8


SMALL: dict[str, Any] = {
    "ppo": PPO(tasks_per_iteration=16, minibatch_size=16, learning_rate=0.01, constraint="harm<=0.1", lagrange_kd=0.3,
               checkpoint_minutes=0.0),
    "grpo": GRPO(tasks_per_iteration=4, group_size=4, minibatch_size=16, learning_rate=0.01, constraint="harm<=0.1",
                 lagrange_kd=0.3, checkpoint_minutes=0.0),
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_multipliers_resume_and_are_kept(name: str, costly: EnvSpec, toy_envs: Any, tmp_path: Path) -> None:
    """Cut off in the middle, a training ends with the same weights and multipliers, and leaves them for the next."""
    trainer = SMALL[name]

    def improved(output: Path, cut: int | None = None) -> tuple[Any, ...]:
        policy, told = toy_envs.word_policy(), list[int]()

        def tell(done: int, total: int) -> None:
            told.append(done)
            if len(told) == cut:
                raise KeyboardInterrupt

        rollouts = toy_envs.rollouts(policy, costly, 96)
        report = trainer.improve(policy, rollouts, seed=3, output_dir=output, progress=tell)
        return (
            policy.digest(),
            [row["multiplier/harm"] for row in report.history],
            json.loads((output / "multipliers.json").read_text()),
        )

    whole = improved(tmp_path / "00" / "training")
    with pytest.raises(KeyboardInterrupt):
        improved(tmp_path / "cut", cut=3)
    assert improved(tmp_path / "cut") == whole
    path, left = tmp_path / "00" / "training" / "multipliers.json", Multiplier(**whole[2]["harm"])
    assert left.value == whole[1][-1] > 0 and left.last_cost is not None
    folders = [tmp_path / "00" / "training", tmp_path / "none"]
    assert continue_multipliers(trainer, folders) == replace(trainer, multipliers=path)
    assert continue_multipliers(trainer, folders[1:]) is trainer and continue_multipliers(PPO(), folders) == PPO()
    further = replace(continue_multipliers(trainer, folders), constraint="noise<=5,harm<=0.1")
    assert Multipliers(further).values == {"noise": 0.0, "harm": left.value}


@pytest.mark.parametrize(
    "text", ["", "[]", '{"harm": {"value": -1}}', '{"harm": {"worth": 1}}', '{"harm": {"value": NaN}}']
)
def test_a_file_of_something_else_is_refused(text: str, tmp_path: Path) -> None:
    """The message names the file."""
    path = tmp_path / "multipliers.json"
    with pytest.raises(DataError, match=r"multipliers\.json: no file of multipliers"):
        Multipliers(ConstraintSettings("harm<=1", multipliers=path))
    path.write_text(text)
    with pytest.raises(DataError, match=r"multipliers\.json: no file of multipliers"):
        Multipliers(ConstraintSettings("harm<=1", multipliers=path))
