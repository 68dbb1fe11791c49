"""Every family of the zoo and every registered trainer: one step on real shapes, saved and exported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from agentgym_py import registry
from agentgym_py.errors import ConfigError, TemplateError
from agentgym_py.policy import Policy
from agentgym_py.testing.zoo import FAMILIES, REFUSED, SUPPORTED, miniature
from agentgym_py.testing.zoo_checks import (
    COLUMNS,
    WAYS,
    cell,
    check_checkpoint,
    check_export,
    check_trainer,
    make_trainer,
    weights_of,
)
from agentgym_py.training.trainer import info_of

TRAINERS = registry.names("agentgym.trainers")


def rotated(number: int, trainer: str, family: str, way: str) -> bool:
    """Whether the default run has this case: each trainer once, with the next family and the next way."""
    return family == SUPPORTED[number % len(SUPPORTED)] and way == list(WAYS)[number % len(WAYS)]


CASES = [
    pytest.param(trainer, family, way, marks=[] if rotated(number, trainer, family, way) else [pytest.mark.slow])
    for number, trainer in enumerate(TRAINERS)
    for family in SUPPORTED
    for way in WAYS
]


@pytest.fixture(autouse=True)
def one_thread(zoo: Any) -> None:
    """Torch runs in one thread."""


def test_the_default_run_has_every_family_and_way() -> None:
    """So that no family is trained in slow runs alone."""
    default = [case.values for case in CASES if not case.marks]
    assert len(default) == len(TRAINERS)
    trainers, families, ways = (set(values) for values in zip(*default, strict=True))
    assert (trainers, families, ways) == (set(TRAINERS), set(SUPPORTED), set(WAYS))


@pytest.mark.parametrize(("trainer", "family", "way"), CASES)
def test_a_step_of_every_trainer(trainer: str, family: str, way: str, toy_envs: Any, tmp_path: Path) -> None:
    """It changes all weights, or adapters alone; numbers are finite; what is saved is what was trained.

    trl rounds steps of all weights to the model's format, so its trainers refuse bfloat16 without adapters.
    """
    if info_of(make_trainer(trainer, WAYS[way])).library == "trl" and way == "bf16":
        with pytest.raises(ConfigError, match=r"would round its steps to torch.bfloat16: set lora_rank"):
            check_trainer(trainer, family, WAYS[way], toy_envs.CHAIN, tmp_path)
    else:
        check_trainer(trainer, family, WAYS[way], toy_envs.CHAIN, tmp_path)


@pytest.mark.parametrize("way", ["whole", "adapters", "bf16"])
def test_a_training_without_effect_is_found(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy that did not change, or whose checkpoint holds other weights, fails the check."""
    policy = miniature("qwen2.5", WAYS[way].dtype)
    before = weights_of(policy)
    if WAYS[way].lora_rank:
        with pytest.raises(AssertionError, match="adapters were merged, or made"):
            check_checkpoint(policy, WAYS[way], before, tmp_path)
    else:
        with pytest.raises(AssertionError, match=r"weights did not change: \['model.embed_tokens.weight', "):
            check_checkpoint(policy, WAYS[way], before, tmp_path)
    monkeypatch.setattr(Policy, "load", lambda *_, **__: miniature("qwen3"))
    with pytest.raises(AssertionError, match="the checkpoint is not the policy that was trained"):
        check_checkpoint(policy, WAYS[way], before, tmp_path)


@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=[pytest.mark.slow] * (name not in ("gemma2", "phi3.5"))) for name in SUPPORTED]
)
def test_trained_adapters_are_exported(family: str, toy_envs: Any, tmp_path: Path) -> None:
    """The exported model has the log-probabilities of the adapters' checkpoint."""
    check_export(family, toy_envs.CHAIN, tmp_path)


def test_a_refused_family_is_one_line(toy_envs: Any, tmp_path: Path) -> None:
    """A cell of the table holds the error's line."""
    (family,) = REFUSED
    said = cell(family, "chat template", toy_envs.CHAIN, tmp_path)
    with pytest.raises(TemplateError, match="rewrites earlier turns"):
        miniature(family)
    assert "rewrites earlier turns" in said and "\n" not in said
    assert cell("qwen3", "chat template", toy_envs.CHAIN, tmp_path) == "works"


def test_the_table_in_the_docs_is_that_of_the_zoo() -> None:
    """It has every family and every column; `benchmarks/zoo.py` prints it."""
    page = (Path(__file__).parents[1] / "docs" / "guides" / "models.md").read_text(encoding="utf-8")
    assert "python benchmarks/zoo.py" in page
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:1] == "|"]
    header = next(n for n, row in enumerate(rows) if row[0] == "family")
    assert rows[header][1:] == list(COLUMNS)
    assert [row[0] for row in rows[header + 2 :][: len(FAMILIES)]] == list(FAMILIES)
