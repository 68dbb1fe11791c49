"""Rows as trl reads them: messages, prompt and completion, preferences, stepwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from agentgym_py.errors import DataError
from agentgym_py.trajectory.formats.rows import Message, Row
from agentgym_py.trajectory.types import Preference, Step, Trajectory, opening_text

if TYPE_CHECKING:
    pass


def messages(trajectory: Trajectory) -> Row:
    """TRL's conversational language-modelling row, `{"messages": [...]}`.

    Raises:
        DataError: a reply must not be learned from, which this form cannot say; `prompt_completion` can.
    """
    if not all(step.trained for step in trajectory.steps):
        raise DataError(
            f"trajectory {trajectory.id!r} has a reply that must not be trained on; 'messages' cannot say that, "
            "use 'prompt_completion'"
        )
    return {"messages": _conversation(trajectory, len(trajectory.steps))}


def prompt_completion(trajectory: Trajectory) -> list[Row]:
    """TRL's conversational rows, `{"prompt": [...], "completion": [...]}`, one a reply that may be learned from.

    One row for a whole episode would train on the observations between its replies.
    """
    turns = _conversation(trajectory, len(trajectory.steps))
    return [
        {"prompt": turns[: 2 * i + 1], "completion": [turns[2 * i + 1]]}
        for i, step in enumerate(trajectory.steps)
        if step.trained
    ]


def preference(pair: Preference, *, level: Literal["episode", "turn"] = "episode") -> Row | None:
    """TRL's conversational preference row, `{"prompt": [...], "chosen": [...], "rejected": [...]}`.

    `episode`: all that follows the first observation; TRL's DPO then scores the observations in it, too.
    `turn`: the two replies at which the episodes part; None where one is only a beginning of the other.

    Raises:
        DataError: the two do not open with the same rules and observation, or one has no reply.
    """
    chosen, rejected = (_conversation(each, len(each.steps)) for each in (pair.chosen, pair.rejected))
    if len(chosen) < 2 or len(rejected) < 2 or chosen[0] != rejected[0]:
        raise DataError(f"pair {pair.id!r}: chosen and rejected do not open with the same rules and observation")
    if level == "episode":
        return {"prompt": chosen[:1], "chosen": chosen[1:], "rejected": rejected[1:]}
    part = next((i for i, (a, b) in enumerate(zip(chosen, rejected, strict=False)) if a != b), None)
    if part is None or chosen[part]["role"] != "assistant":  # in a world of chance the observations part first
        return None
    return {"prompt": chosen[:part], "chosen": [chosen[part]], "rejected": [rejected[part]]}


def stepwise(trajectory: Trajectory, label: Callable[[Trajectory, Step], bool] | None = None) -> Row:
    """TRL's stepwise supervision row, `{"prompt": str, "completions": [str], "labels": [bool]}`.

    A completion is a reply; from the second on, the observation that it answers stands before it. `label` judges a
    step; by default a step is good when the world could do its action and the episode succeeded.
    """
    judge = label or (lambda whole, step: step.valid and whole.success)
    completions = [
        step.reply if i == 0 else f"Observation: {step.observation}\n{step.reply}"
        for i, step in enumerate(trajectory.steps)
    ]
    first = trajectory.steps[0].observation if trajectory.steps else trajectory.final_observation
    return {
        "prompt": opening_text(trajectory.rules, first),
        "completions": completions,
        "labels": [bool(judge(trajectory, step)) for step in trajectory.steps],
    }


def _conversation(trajectory: Trajectory, steps: int) -> list[Message]:
    """User and assistant turns of the first `steps` steps, 2 a step."""
    turns: list[Message] = []
    for i, step in enumerate(trajectory.steps[:steps]):
        seen = opening_text(trajectory.rules, step.observation) if i == 0 else step.observation
        turns += [{"role": "user", "content": seen}, {"role": "assistant", "content": step.reply}]
    return turns
