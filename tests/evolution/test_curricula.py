"""Curricula: which levels a round explores, the levels that worlds have, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import pytest

from agentgym_py import registry
from agentgym_py.cli.parser import field_docs
from agentgym_py.env import EnvSpec, registration
from agentgym_py.env.registration import env_plugins
from agentgym_py.errors import ConfigError
from agentgym_py.evolution import EvolveConfig
from agentgym_py.evolution.config import require_levels
from agentgym_py.evolution.curricula import Curriculum, Difficulty, Level, Outcomes, find_levels, level_weights
from agentgym_py.rng import Rng

LEVELS = ["easy", "medium", "hard"]
NAMES = registry.names("agentgym.curricula")


def history(*rounds: Sequence[tuple[int, int]]) -> list[dict[str, Outcomes]]:
    """The outcomes of rounds: episodes and successes of each level."""
    return [dict(zip(LEVELS, (Outcomes(*pair) for pair in of_round), strict=True)) for of_round in rounds]


# ---- every curriculum ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_curriculum_keeps_the_contract(name: str) -> None:
    """A dataclass with documented settings; weights for any outcomes, the same each time; it leaves its input alone."""
    assert is_dataclass(registry.load("agentgym.curricula", name))
    target = registry.load("agentgym.curricula", name)
    assert all(field_docs(target).get(field.name) for field in fields(target))
    curriculum = target()
    assert isinstance(curriculum, Curriculum) and EvolveConfig(curriculum=curriculum).curriculum is curriculum
    rng = Rng(0)
    for rounds in range(12):
        counts = [[rng.choice([0, 1, 7, 100]) for _ in LEVELS] for _ in range(rounds)]
        past = history(*([(n, rng.below(n + 1)) for n in row] for row in counts))
        before = [dict(outcomes) for outcomes in past]
        weights = list(curriculum.weights(LEVELS, past))
        assert len(weights) == len(LEVELS) and min(weights) >= 0 and max(weights) > 0
        assert weights == list(target().weights(LEVELS, past)) and past == before
        assert len(curriculum.weights(["only"], [{"only": Outcomes()}] * rounds)) == 1


# ---- the built-in ones -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rounds", "level"),
    [
        ([], 0),
        ([(10, 7)], 0), ([(10, 8)], 1), ([(10, 8), (5, 4)], 2), ([(10, 10)] * 5, 2),
        ([(10, 8), (10, 1)], 0), ([(10, 8), (10, 2)], 1), ([(10, 0)], 0), ([(10, 9), (10, 0), (10, 9)], 1),
        ([(0, 0)], 0), ([(10, 8), (0, 0)], 1),
    ],
)  # fmt: skip
def test_levels_advance_at_the_threshold_and_fall_back(rounds: list[tuple[int, int]], level: int) -> None:
    """By the success at the round's own level; the first and last are the ends; without episodes nothing changes."""
    past = list[dict[str, Outcomes]]()
    for outcome in rounds:
        current = list(Difficulty().weights(LEVELS, past)).index(1.0)
        other = [(9, 9)] * 3
        past += history([outcome if number == current else other[number] for number in range(3)])
    assert list(Difficulty().weights(LEVELS, past)) == [float(number == level) for number in range(3)]


def test_thresholds_are_settings() -> None:
    """Of the whole range; the level never falls at 0."""
    low = Difficulty(threshold=0.5, fall_back=0.0)
    assert list(low.weights(LEVELS, history([(2, 1), (0, 0), (0, 0)], [(0, 0), (9, 0), (0, 0)]))) == [0.0, 1.0, 0.0]
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"threshold": 1.5}, "threshold must be a number above 0 and at most 1, got 1.5"),
        ({"threshold": 0.0}, "threshold must be a number above 0"),
        ({"threshold": float("nan")}, "threshold must be a number above 0"),
        ({"threshold": "high"}, "threshold must be a number, not 'high'"),
        ({"fall_back": 0.9}, "fall_back must be at least 0 and below the threshold 0.8, got 0.9"),
        ({"fall_back": -0.1}, "fall_back must be at least 0"),
    ]
    for settings, message in wrong:
        with pytest.raises(ConfigError, match=message):
            Difficulty(**settings)


# ---- a curriculum of one's own ---------------------------------------------------------------------------------------


@dataclass
class Odd:
    """Returns, or raises, a value."""

    value: Any

    def weights(self, levels: Sequence[str], history: Sequence[Mapping[str, Outcomes]]) -> Any:
        """Return the value."""
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1.0, 2.0], r"Odd must return a weight .* each of easy, medium, hard.*; it returned \[1.0, 2.0\]"),
        ([1.0, -1.0, 1.0], "weight of at least 0"), ([0, 0, 0], "not all of them 0"),
        ([1.0, float("nan"), 0.0], "returned"), (["x", 1, 1], "Odd failed: .*could not convert"), (None, "Odd failed"),
        (ZeroDivisionError("oh"), r"the curriculum Odd failed: .*oh"),
    ],
)  # fmt: skip
def test_what_is_no_weight_is_an_error(value: Any, message: str) -> None:
    """In one line that names the curriculum."""
    levels = [Level("maze", name, EnvSpec("maze")) for name in LEVELS]
    with pytest.raises(ConfigError, match=message):
        level_weights(Odd(value), levels, [{}])
    assert level_weights(Odd([1, 2, 3]), levels, [{}]) == [1.0, 2.0, 3.0]


# ---- levels ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [plugin.name for plugin in env_plugins()])
def test_the_difficulties_of_every_world_are_levels(name: str) -> None:
    """Each can be made, with tasks of that difficulty; the world's own level is the world as it is."""
    spec = EnvSpec(name)
    env = spec.make()
    if not env.difficulties:
        pytest.skip("it has no difficulties")
    levels = find_levels(spec)
    assert [level.difficulty for level in levels] == list(env.difficulties)
    assert {level.world for level in levels} == {registration.short_name(name)}
    own = [level.difficulty for level in levels if level.spec == spec]
    assert own == [env.task(0, "train").difficulty]


@pytest.mark.parametrize(
    ("spec", "names", "message"),
    [
        (EnvSpec("maze"), ["easy", "hart"], "levels: maze: difficulty must be one of .*Did you mean 'hard'"),
        (EnvSpec("shop"), ["eazy"], "levels: shop: .*difficulty must be one of .*Did you mean 'easy'"),
        (EnvSpec("shop", {"goals": "human"}), [], "curriculum needs a world with difficulties, and shop has none"),
        (EnvSpec("shop", {"goals": "human"}), ["easy"], "levels: shop: goals='human' has no difficulties"),
    ],
)  # fmt: skip
def test_a_level_that_a_world_lacks_is_refused(spec: EnvSpec, names: list[str], message: str) -> None:
    """Before anything runs, with the world's name; a run without rounds explores none."""
    config = EvolveConfig(curriculum=Difficulty(), levels=names)
    with pytest.raises(ConfigError, match=message):
        require_levels(config, [EnvSpec("todo"), spec] if not names else [spec])
    require_levels(replace(config, rounds=0), [spec])
    require_levels(EvolveConfig(), [spec])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"levels": ["easy"]}, "levels needs curriculum=NAME"),
        ({"levels": ["easy", "hard", "easy"], "curriculum": Difficulty()}, "levels has easy twice"),
        ({"horizon": [10, 20]}, "horizon needs one number, or one for each round: it has 2 for 3 rounds"),
        ({"horizon": [10, 20, 30, 40]}, "it has 4 for 3 rounds"),
        ({"horizon": [0]}, "horizon must be whole numbers of at least 1, got 0"),
        ({"horizon": [10, 2.5, 9]}, "horizon must be whole numbers of at least 1, got 10, 2.5, 9"),
        ({"curriculum": "difficulty"}, "curriculum must be Curriculum or None, not 'difficulty'"),
    ],
)  # fmt: skip
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    """In one line; without rounds a horizon may have any length."""
    with pytest.raises(ConfigError, match=message):
        EvolveConfig(**settings)
    assert EvolveConfig(rounds=0, horizon=[1, 2]).rounds == 0
