"""`agentgym prove`."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("torch")


def test_it_prints_a_line_per_check_and_the_verdict(agentgym: Any) -> None:
    """With settings of the trainer, and a status of 0 if nothing failed."""
    status, out, _ = agentgym("prove", "grpo", "--only", "mask,sign", "--trainer.variant", "dr_grpo")
    assert status == 0 and "passed  mask" in out and out.endswith("grpo: proof incomplete\n")


def test_it_prints_json_for_programs(agentgym: Any) -> None:
    """And what a wrong setting breaks: a temperature of the trainer's own, of advantages that are returns."""
    status, out, _ = agentgym("prove", "filtered_bc", "--only", "mask", "--json")
    proof = json.loads(out)
    assert status == 0 and proof["trainer"] == "filtered_bc" and proof["results"][0]["status"] == "passed"


def test_mistakes_are_one_line(agentgym: Any) -> None:
    """An unknown check or trainer, and a trainer that makes no policy."""
    assert "did you mean mask?" in agentgym("prove", "grpo", "--only", "masc")[2]
    assert "No trainer 'grop'" in agentgym("prove", "grop")[2]
    status, _, err = agentgym("prove", "reward_model", "--only", "mask")
    assert status == 2 and "only trainers of a policy" in err
