from __future__ import annotations

from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

from agentgym_py.agents import ExpertAgent
from agentgym_py.collection import Collector, jobs_for
from agentgym_py.env import EnvSpec
from agentgym_py.policy.tokens import (
    IGNORED,
    RowSize,
    encode,
    from_other_tokenizer,
    mask_cut_replies,
    pack_rows,
    why_nothing_to_learn,
)
from agentgym_py.trajectory import Tokens, Trajectory
from agentgym_py.trajectory.types import Usage


@pytest.fixture(scope="module")
def demos() -> list[Trajectory]:
    """Three expert trajectories of the shop."""
    return Collector(ExpertAgent()).collect_batch(jobs_for([EnvSpec("shop")], "train", range(3)))


def test_the_mask_covers_the_replies_and_nothing_else(tiny_policy: Any, demos: list[Trajectory]) -> None:
    """What is trained on decodes to the expert's replies with their ends of turn; what is not, to all the rest."""
    end = tiny_policy.chat.end_of_turn
    for demo in demos:
        sample = encode(demo, tiny_policy.chat)
        trained = [i for i, kept in zip(sample.input_ids, sample.mask, strict=True) if kept]
        assert trained == [i for step in demo.steps for i in tiny_policy.chat.reply(step.reply)]
        assert trained.count(end) == len(demo.steps)
        rest = tiny_policy.tokenizer.decode([i for i, k in zip(sample.input_ids, sample.mask, strict=True) if not k])
        assert all(step.observation in rest for step in demo.steps)
        assert sample.labels == [i if kept else IGNORED for i, kept in zip(sample.input_ids, sample.mask, strict=True)]


def test_sampled_tokens_are_used_as_they_are(tiny_policy: Any, demos: list[Trajectory]) -> None:
    """A token record wins over the text, even where its text would encode to other ids; forced tokens are masked."""
    record = Tokens(context=(5, 6), ids=(70, 71, 3), logprobs=(-1.0, -2.0, 0.0), mask=(1, 1, 0))
    step = replace(demos[0].steps[0], tokens=record)
    sample = encode(replace(demos[0], steps=(step,)), tiny_policy.chat)
    assert (sample.input_ids, sample.mask) == ([5, 6, 70, 71, 3], [0, 0, 1, 1, 0])


def test_a_turn_that_is_not_to_be_trained_on_is_masked(tiny_policy: Any, demos: list[Trajectory]) -> None:
    """AgentTraj's `loss: false` survives: the turn is context only, recorded or not."""
    record = Tokens(context=(5,), ids=(70, 3), logprobs=(-1.0, -1.0), mask=(1, 1))
    first, second = demos[0].steps[:2]
    steps = (replace(first, trained=False, tokens=record), replace(second, trained=False))
    assert not any(encode(replace(demos[0], steps=steps), tiny_policy.chat).mask)


def test_cut_replies_can_be_masked(tiny_policy: Any, demos: list[Trajectory]) -> None:
    """Reply, summary and the text of an endpoint are masked each by itself, and stay in the sequence as context."""
    whole = Tokens(context=(5,), ids=(70, 3), logprobs=(-1.0, -1.0), mask=(1, 1))
    cut, first = replace(whole, cut=True), demos[0].steps[0]
    usage = Usage(None, None, cut=True)
    rows = {
        (1, 1): (replace(first, tokens=whole),),
        (0, 0): (replace(first, tokens=cut),),
        (1, 1, 0, 0): (replace(first, tokens=cut, summary=whole),),
        (0, 0, 1, 1): (replace(first, tokens=whole, summary=cut),),
        (): (replace(first, usage=usage),),
    }
    for trained, steps in rows.items():
        episode = replace(demos[0], steps=steps)
        before, after = (encode(t, tiny_policy.chat) for t in (episode, mask_cut_replies(episode)))
        assert before.input_ids == after.input_ids
        assert sum(before.mask) > 0 and [bit for bit, old in zip(after.mask, before.mask, strict=True) if old] == (
            list(trained) or [0] * sum(before.mask)
        )
    why = why_nothing_to_learn(replace(demos[0], steps=rows[0, 0]))
    assert why == "without a reply to learn that was not cut at max_new_tokens"
    refused = replace(first, valid=False, trained=False)
    why = why_nothing_to_learn(replace(demos[0], steps=(refused,)))
    assert why == "without a reply to learn that was not refused by the world"


def test_another_tokenizers_record_is_noticed(tiny_policy: Any, demos: list[Trajectory]) -> None:
    """Ids that are no tokens here, and such as are another text; what differs in white space alone is our own."""
    chat, step = tiny_policy.chat, demos[0].steps[0]

    def with_ids(ids: list[int], context: tuple[int, ...] = (5, 6), reply: str = step.reply) -> Trajectory:
        record = Tokens(context, tuple(ids), (-1.0,) * len(ids), (1,) * len(ids))
        return replace(demos[0], steps=(replace(step, reply=reply, tokens=record), *demos[0].steps[1:]))

    own, size = chat.reply(step.reply), len(tiny_policy.tokenizer)
    assert not from_other_tokenizer(demos[0], chat) and not from_other_tokenizer(with_ids(own), chat)
    assert not from_other_tokenizer(with_ids(own, reply=step.reply.replace(" ", "  ").replace(":", " :") + "\n"), chat)
    assert not from_other_tokenizer(with_ids([chat.end_of_turn], reply=""), chat)
    assert from_other_tokenizer(with_ids([*own[:2], own[2] + 1, *own[3:]]), chat)
    assert from_other_tokenizer(with_ids([size, *own]), chat) and from_other_tokenizer(
        with_ids(own, context=(5, size)), chat
    )


@pytest.mark.parametrize("most", [1, 9, 40, 1000])
def test_passes_hold_no_more_than_they_may(most: int) -> None:
    """Each row goes once, with the next longer ones as long as the padded tokens fit; of no rows there is no pass."""
    lengths = [5, 1, 12, 3, 3, 9, 12, 2]
    sizes = [RowSize(1, length) for length in lengths]
    parts = list(pack_rows(sizes, most))
    assert [lengths[i] for part in parts for i in part] == sorted(lengths) and len(set(chain(*parts))) == 8
    assert all(len(part) == 1 or len(part) * lengths[part[-1]] <= most for part in parts)
    for part, after in pairwise(parts):
        assert (len(part) + 1) * lengths[after[0]] > most, "else it were one more pass than is needed"
    assert list(pack_rows([], most)) == []
    assert max(map(len, pack_rows(sizes, most, rows=3))) <= 3


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 60)), max_size=12), st.integers(1, 400))
def test_rows_of_several_sequences_fit_too(sizes: list[tuple[int, int]], most: int) -> None:
    """All sequences of a pass are padded to its longest one; only a row alone may exceed the limit."""
    rows = [RowSize(*size) for size in sizes]
    parts = list(pack_rows(rows, most))
    assert sorted(chain(*parts)) == list(range(len(rows)))
    for part in parts:
        padded = sum(rows[i].sequences for i in part) * max(rows[i].longest for i in part)
        assert padded <= most or len(part) == 1
