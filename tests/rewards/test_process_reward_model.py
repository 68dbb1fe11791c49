from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from agentgym_py.agents import ExpertAgent, RandomAgent
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.env import EnvSpec
from agentgym_py.env.actions import parse_reply
from agentgym_py.errors import ConfigError, PolicyError
from agentgym_py.policy.tokens import encode
from agentgym_py.rewards.process_reward_model import (
    STEPS,
    ProcessRewardModel,
    encode_with_positions,
    end_of_thought,
    label_error,
    label_steps,
    new_heads,
    states_at_steps,
)
from agentgym_py.trajectory import Step, Trajectory


@pytest.fixture(scope="module")
def played() -> list[Trajectory]:
    """The shop, by an expert who thinks and by a random agent who does not."""
    jobs = jobs_for([EnvSpec("shop", {"max_steps": 6})], "train", range(3))
    return Collector(ExpertAgent()).collect_batch(jobs) + Collector(RandomAgent()).collect_batch(jobs)


@pytest.fixture
def judge(tiny_policy: Any) -> ProcessRewardModel:
    """A model of chance."""
    torch.manual_seed(0)
    return ProcessRewardModel(tiny_policy, new_heads(32, 8), {"progress": 1.0, "relevance": 0.5})


# ---- where a step is read -----------------------------------------------------------------------------------------


def test_a_step_is_read_where_its_thought_ends(tiny_policy: Any, played: list[Trajectory]) -> None:
    """The tokens up to there hold the whole thought and one token fewer does not; without one it is the last token."""
    thoughts = 0
    for trajectory in played:
        sample, marks = encode_with_positions(trajectory, tiny_policy)
        assert sample == encode(trajectory, tiny_policy.chat) and len(marks) == len(trajectory.steps)
        at = 0
        for step, mark in zip(trajectory.steps, marks, strict=True):
            upto, before = (tiny_policy.decode(sample.input_ids[at : mark + k]) for k in (1, 0))
            if step.thought:
                thoughts += 1
                assert upto.endswith(step.thought) and not before.endswith(step.thought)
            else:
                assert step.action in upto and sample.input_ids[mark] == tiny_policy.chat.end_of_turn
            assert sample.mask[mark] == 1
            at = mark + 1
    assert thoughts > 5


@pytest.mark.parametrize("thought", ["Grüße — 😀 überall", "x", "Ein\nzweiter Satz."])
def test_any_sampled_thought_has_its_end(tiny_policy: Any, thought: str) -> None:
    """Byte by byte as well, and where a thought is cut off in the middle of a reply."""
    text = f"Thought: {thought}\nAction: go"
    ids = [i for letter in text.encode() for i in tiny_policy.tokenizer.convert_tokens_to_ids([_byte(letter)])]
    assert tiny_policy.decode(ids) == text
    step = Step("", text, thought, "go", None, 0.0, True)
    end = end_of_thought(step, ids, tiny_policy)
    assert tiny_policy.decode(ids[: end + 1]) == f"Thought: {thought}"
    assert end_of_thought(replace(step, thought="never said"), ids, tiny_policy) == len(ids) - 1


@pytest.mark.parametrize(
    ("reply", "thought"),
    [
        ("<think>\nA wall.\n</think>\n\nAction: go", "A wall."),
        ("<think>\nA wall.\n</think>\n\nThought: I go.\nAction: go", "I go."),
    ],
)
def test_the_thought_of_a_thinking_model_has_its_end(reply: str, thought: str, zoo: Any) -> None:
    """Where the prompt has opened it, and where a `Thought:` follows it."""
    policy, parsed = zoo.miniature("r1-distill"), parse_reply(reply)
    assert policy.chat.opened
    step = Step("", reply, parsed.thought, parsed.action, None, 0.0, True)
    ids = policy.chat.reply(reply)
    assert policy.decode(ids[: end_of_thought(step, ids, policy) + 1]).endswith(thought)


def _byte(value: int) -> str:
    """A byte as byte-level BPE writes it."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    return str(bytes_to_unicode()[value])


# ---- what should be said ------------------------------------------------------------------------------------------


def test_labels_are_of_the_state_that_a_step_led_to(episode: Any) -> None:
    """Correctness is its value, progress what it gained, NaN where unknown; relevant is what is new and valid."""
    made = episode("a", "b", "b", "c")
    steps = [replace(step, observation="page") for step in made.steps]
    made = replace(made, steps=(*steps[:3], replace(steps[3], valid=False)))
    found = label_steps(made, [0.5, 0.25, None, 0.0, 1.0])
    expected = [[1, 0.25, -0.25], [1, math.nan, math.nan], [0, 0.0, math.nan], [0, 1.0, 1.0]]
    np.testing.assert_array_equal(found, expected)


def test_how_far_off_a_model_is() -> None:
    """Errors and correlations of what is known; where all is the same there is no correlation."""
    labels = [np.array([[1, 0.0, 0.5], [1, 1.0, math.nan]]), np.array([[0, math.nan, 0.5]])]
    said = [np.array([[0, 0.5, 0.0], [0, 0.7, 9.0]]), np.array([[0, 9.0, 1.0]])]
    found = label_error(said, labels)
    assert found == {
        "mse_correctness": pytest.approx((0.25 + 0.09) / 2), "correlation_correctness": pytest.approx(1.0),
        "mse_progress": pytest.approx(0.25),
    }  # fmt: skip


# ---- the model ----------------------------------------------------------------------------------------------------


def test_it_says_what_the_formula_says_row_by_row(judge: ProcessRewardModel, played: list[Trajectory]) -> None:
    """Linear, ReLU, Linear of the last state at each mark and the step's number, of each trajectory alone."""
    first, _, second = judge.heads
    for trajectory, said_TD in zip(played, judge.by_dimension(played, batch_size=4), strict=True):
        sample, marks = encode_with_positions(trajectory, judge.policy)
        with torch.no_grad():
            ids = torch.tensor([sample.input_ids])
            states = judge.policy.model(input_ids=ids, output_hidden_states=True).hidden_states[-1][0]
            for number, (mark, said_D) in enumerate(zip(marks, said_TD, strict=True)):
                read = torch.cat([states[mark], torch.eye(STEPS)[number]])
                hidden = (first.weight @ read + first.bias).clamp(min=0)
                expected = (second.weight @ hidden + second.bias).numpy()
                np.testing.assert_allclose(said_D, expected, rtol=1e-4, atol=1e-5)
    for scored, said_TD in zip(judge.score(played), judge.by_dimension(played[::-1], batch_size=1)[::-1], strict=True):
        np.testing.assert_allclose(scored, said_TD[:, 2] + 0.5 * said_TD[:, 0], rtol=1e-4, atol=1e-5)


def test_rows_are_read_in_any_passes(tiny_policy: Any, played: list[Trajectory]) -> None:
    """In passes of few tokens or in one: the same states, in the order of the rows, and no gradient but at marks."""
    rows = [encode_with_positions(each, tiny_policy) for each in played]
    whole = states_at_steps(tiny_policy.model, rows)
    for tokens in (1, 600):
        found = states_at_steps(tiny_policy.model, rows, pass_tokens=tokens)
        torch.testing.assert_close(found, whole, rtol=1e-4, atol=1e-5)
    assert len(whole) == sum(len(row.positions) for row in rows)


def test_the_numbers_of_steps_after_the_last_one_told_apart_count_as_it(
    tiny_policy: Any, played: list[Trajectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where three are told apart, the fourth step is read as the third."""
    monkeypatch.setattr("agentgym_py.rewards.process_reward_model.STEPS", 3)
    long = max(played, key=lambda each: len(each.steps))
    read = states_at_steps(tiny_policy.model, [encode_with_positions(long, tiny_policy)])[:, -3:]
    assert len(long.steps) > 3 and read.argmax(-1).tolist() == [0, 1, *[2] * (len(long.steps) - 2)]
    assert (read.sum(-1) == 1).all()


def test_it_is_saved_and_loads_again(judge: ProcessRewardModel, played: list[Trajectory], tmp_path: Path) -> None:
    """Says the same; a folder that holds none, or a broken one, is refused."""
    judge.save(tmp_path / "judge")
    again = ProcessRewardModel.load(tmp_path / "judge")
    assert again.weights == judge.weights and again.policy.digest() == judge.policy.digest()
    for one, other in zip(again.score(played), judge.score(played), strict=True):
        np.testing.assert_array_equal(one, other)
    replace(judge, heads=torch.nn.Sequential(torch.nn.Linear(33, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))).save(
        tmp_path / "older"
    )
    with pytest.raises(PolicyError, match="an older version"):
        ProcessRewardModel.load(tmp_path / "older")
    about = json.loads((tmp_path / "judge" / "process_reward.json").read_text())
    (tmp_path / "judge" / "process_reward.json").write_text(json.dumps({**about, "dimensions": ["taste"]}))
    for folder in (tmp_path, tmp_path / "judge"):
        with pytest.raises(PolicyError, match="holds no process reward model that opens"):
            ProcessRewardModel.load(folder)


def test_what_cannot_be_is_refused(judge: ProcessRewardModel, episode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of no dimension, of none at all; a trajectory beyond the context. One without a step has no score."""
    wrong: list[dict[str, float]] = [{"taste": 1.0}, {}, {"progress": 0.0}, {"progress": math.nan}]
    for weights in wrong:
        with pytest.raises(ConfigError, match="dimension"):
            ProcessRewardModel(judge.policy, judge.heads, weights)
    assert [len(scored) for scored in judge.score([episode(), episode("a")])] == [0, 1]
    monkeypatch.setattr(judge.policy.model.config, "max_position_embeddings", 5)
    with pytest.raises(PolicyError, match="at most 5 can be read"):
        judge.score([episode("a")])
