"""Rows for trl: messages, prompt and completion, preferences, stepwise supervision."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import Literal

from agentgym_py.errors import DataError
from agentgym_py.trajectory.formats.foreign import outcome_keys
from agentgym_py.trajectory.formats.rows import Message, Row
from agentgym_py.trajectory.types import Preference, Step, Trajectory, opening_text


def messages(trajectory: Trajectory, *, with_outcome: bool = False) -> Row:
    """Return TRL's conversational language-modelling row, `{"messages": [...]}`.

    An episode that is not a plain success has `success` and `reward` too. `with_outcome` gives them to every row,
    because all rows of a file should have the same keys.

    Raises:
        DataError: a reply must not be trained on, which only `prompt_completion` can express; or an infrastructure
            failure ended the episode.
    """
    if not all(step.trained for step in trajectory.steps):
        raise DataError(
            f"trajectory {trajectory.id!r} has a reply that must not be trained on; 'messages' cannot express that, "
            "use 'prompt_completion'"
        )
    return {"messages": conversation(trajectory), **outcome_keys(trajectory, always=with_outcome)}


def prompt_completion(trajectory: Trajectory, *, with_outcome: bool = False) -> list[Row]:
    """Return TRL's conversational rows, `{"prompt": [...], "completion": [...]}`, one per reply that is trained on.

    A single row per episode would train on the observations between its replies. `with_outcome` as for `messages`.

    Raises:
        DataError: an infrastructure failure ended the episode.
    """
    turns, outcome = conversation(trajectory), outcome_keys(trajectory, always=with_outcome)
    return [
        {"prompt": turns[: 2 * i + 1], "completion": [turns[2 * i + 1]], **outcome}
        for i, step in enumerate(trajectory.steps)
        if step.trained
    ]


def preference(pair: Preference, *, level: Literal["episode", "turn"] = "episode") -> Row | None:
    """Return TRL's conversational preference row, `{"prompt": [...], "chosen": [...], "rejected": [...]}`.

    `episode`: everything after the first observation, or after the replies before it that are not trained on; TRL's DPO
    then also scores the later observations.
    `turn`: the two replies at which the episodes diverge; None if one episode is a prefix of the other.

    Raises:
        DataError: the two do not open with the same rules and observation, or one has no reply.
    """
    chosen, rejected = conversation(pair.chosen), conversation(pair.rejected)
    start = 1 + 2 * sum(1 for _ in takewhile(lambda step: not step.trained, pair.chosen.steps))
    if min(len(chosen), len(rejected)) <= start or chosen[:start] != rejected[:start]:
        raise DataError(f"pair {pair.id!r}: chosen and rejected do not open with the same rules and observation")
    if level == "episode":
        return {"prompt": chosen[:start], "chosen": chosen[start:], "rejected": rejected[start:]}
    turn = next((i for i, (a, b) in enumerate(zip(chosen, rejected, strict=False)) if a != b), None)
    if turn is None or chosen[turn]["role"] != "assistant":  # in a random world the observations may diverge first
        return None
    return {"prompt": chosen[:turn], "chosen": [chosen[turn]], "rejected": [rejected[turn]]}


def stepwise(trajectory: Trajectory, label: Callable[[Trajectory, Step], bool] | None = None) -> Row:
    """Return TRL's stepwise supervision row, `{"prompt": str, "completions": [str], "labels": [bool]}`.

    A completion is a reply, from the second on preceded by its observation. `label` judges a step; by default a step is
    good if its action was valid and the episode succeeded.
    """
    label = label or (lambda trajectory, step: step.valid and trajectory.success)
    completions = [
        step.reply if i == 0 else f"Observation: {step.observation}\n{step.reply}"
        for i, step in enumerate(trajectory.steps)
    ]
    first = trajectory.steps[0].observation if trajectory.steps else trajectory.final_observation
    return {
        "prompt": opening_text(trajectory.rules, first),
        "completions": completions,
        "labels": [bool(label(trajectory, step)) for step in trajectory.steps],
    }


def conversation(trajectory: Trajectory) -> list[Message]:
    """Return the user and assistant turns, two per step."""
    turns: list[Message] = []
    for i, step in enumerate(trajectory.steps):
        text = opening_text(trajectory.rules, step.observation) if i == 0 else step.observation
        turns += [{"role": "user", "content": text}, {"role": "assistant", "content": step.reply}]
    return turns
