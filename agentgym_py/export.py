"""Exporters: trajectories as rows for other programs. Rows are plain dicts, `datasets.Dataset.from_list` takes them.

A conversation opens with the rules and the first observation as one user turn and ends on the agent's last reply. A
reply that must not be learned from (`Step.trained` false) is never what a row asks a trainer to learn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agentgym_py.actions import format_reply
from agentgym_py.chat import opening_text
from agentgym_py.errors import DataError
from agentgym_py.registry import install_advice
from agentgym_py.store import from_json, to_json
from agentgym_py.trajectory import Preference, Step, Trajectory

if TYPE_CHECKING:
    import pyarrow

Message = dict[str, Any]
Row = dict[str, Any]
Rows = Iterable[Mapping[str, Any]]
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ROWS_AT_ONCE = 256
_AS_TEXT = ("env_kwargs", "sampling")
"""Keys of the provenance whose values have no fixed type; a parquet file holds them as JSON text."""


def write_rows(path: str | Path, rows: Rows) -> int:
    """Write rows, as JSON lines to a `.jsonl` file, else as an array; returns how many. The file appears when whole."""
    target, written = Path(path), 0
    lines, partial = target.suffix == ".jsonl", target.with_name(f"{target.name}.partial")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            file.write("" if lines else "[")
            for row in rows:
                file.write("" if lines else ",\n" if written else "\n")
                file.write(json.dumps(row, ensure_ascii=True) + ("\n" if lines else ""))
                written += 1
            file.write("" if lines else "\n]\n")
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return written


# ----------------------------------------------------------------------------------------------------------------- TRL


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


# -------------------------------------------------------------------------------------------------------------- OpenAI


def openai_chat(trajectory: Trajectory, *, tools: Sequence[dict[str, Any]] | None = None, final: bool = False) -> Row:
    """OpenAI's chat form with `tool_calls`: `{"messages": [...], "tools": [...], "parallel_tool_calls": false}`.

    An action with an input calls the tool of its name; any other calls the tool `act` with the action's text. The
    arguments are a JSON string. `final` adds the answer to the last call, which a fine-tuning file must not have.
    A reply that must not be learned from has `weight` 0. `tools` are the schemas; by default loose ones by name.
    """
    turns: list[Message] = []
    for i, step in enumerate(trajectory.steps):
        if i == 0:
            turns.append({"role": "user", "content": opening_text(trajectory.rules, step.observation)})
        else:
            turns.append(tool_answer(i - 1, step.observation))
        turns.append(tool_call(i, step) | ({} if step.trained else {"weight": 0}))
    if final and trajectory.steps:
        turns.append(tool_answer(len(trajectory.steps) - 1, trajectory.final_observation))
    known = list(tools) if tools is not None else _loose_tools(trajectory)
    return {"messages": turns, "tools": known, "parallel_tool_calls": False}


def tool_call(number: int, step: Step) -> Message:
    """The message of a step as the tool call that it makes, `call_{number}`; see `openai_chat`."""
    name, arguments = _function(step)
    call = {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": step.thought or None, "tool_calls": [call]}


def tool_answer(number: int, observation: str) -> Message:
    """The message that answers the call `call_{number}`."""
    return {"role": "tool", "tool_call_id": f"call_{number}", "content": observation}


def _function(step: Step) -> tuple[str, str]:
    """Name and arguments (JSON text of an object) of the call that a step makes."""
    if step.action_input is None or not _TOOL_NAME.fullmatch(step.action):
        text = step.action if step.action_input is None else f"{step.action}\nAction Input: {step.action_input}"
        return "act", json.dumps({"action": text}, ensure_ascii=False)
    try:
        whole = isinstance(json.loads(step.action_input), dict)
    except (ValueError, RecursionError):
        whole = False
    return step.action, step.action_input if whole else json.dumps({"input": step.action_input}, ensure_ascii=False)


def _loose_tools(trajectory: Trajectory) -> list[dict[str, Any]]:
    names = sorted({_function(step)[0] for step in trajectory.steps})
    return [{"type": "function", "function": {"name": name, "parameters": _loose(name)}} for name in names]


def _loose(name: str) -> dict[str, Any]:
    if name == "act":
        return {"type": "object", "properties": {"action": {"type": "string"}}, "required": ["action"]}
    return {"type": "object", "properties": {}}


# ---------------------------------------------------------------------------------------------------------------- text


def react_text(trajectory: Trajectory) -> str:
    """The episode as plain ReAct text: rules, then Observation, Thought and Action by turns, the last observation."""
    parts = [trajectory.rules] if trajectory.rules else []
    for step in trajectory.steps:
        parts.append(f"Observation: {step.observation}")
        parts.append(format_reply(step.action, step.thought, step.action_input))
    return "\n".join([*parts, f"Observation: {trajectory.final_observation}"]) + "\n"


# ------------------------------------------------------------------------------------------------------------- parquet


def write_parquet(path: str | Path, trajectories: Iterable[Trajectory]) -> int:
    """Write a parquet file, a block of episodes at a time; returns how many. `datasets` and pyarrow open it.

    Raises:
        DataError: a value that the columns cannot hold (a seed outside 64 bits, text that is no UTF-8).
    """
    pyarrow, parquet = _pyarrow()

    target, schema, written = Path(path), _schema(), 0
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.partial")
    rows = map(_parquet_row, trajectories)
    try:
        with parquet.ParquetWriter(partial, schema, compression="zstd") as writer:
            while block := list(islice(rows, _ROWS_AT_ONCE)):
                writer.write_table(pyarrow.Table.from_pylist(block, schema=schema))
                written += len(block)
        partial.replace(target)
    except (pyarrow.ArrowException, OverflowError, UnicodeEncodeError) as error:
        raise DataError(f"{target}: {error}") from error
    finally:
        partial.unlink(missing_ok=True)
    return written


def read_parquet(path: str | Path) -> Iterator[Trajectory]:
    """Stream the episodes of a file that `write_parquet` wrote, a block at a time.

    Raises:
        DataError: no such file, no parquet, or other columns.
    """
    pyarrow, parquet = _pyarrow()

    try:
        with parquet.ParquetFile(path) as file:
            for block in file.iter_batches(_ROWS_AT_ONCE):
                for row in block.to_pylist():
                    yield from_json(_from_parquet_row(row))
    except (pyarrow.ArrowException, FileNotFoundError, KeyError, TypeError) as error:
        raise DataError(f"{path}: no trajectories in parquet: {error}") from error


def _pyarrow() -> tuple[Any, Any]:
    """Pyarrow and its module for parquet; a DataError where they are not installed."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise DataError(f"parquet needs pyarrow, of the extra `train`: {install_advice('train')}") from error
    return pyarrow, parquet


def _schema() -> pyarrow.Schema:
    import pyarrow as pa

    text, whole, real, yes = pa.string(), pa.int64(), pa.float64(), pa.bool_()
    ids = pa.list_(whole)
    tokens = pa.struct({"context": ids, "ids": ids, "logprobs": pa.list_(real), "mask": ids})
    strings = ("observation", "reply", "thought", "action", "action_input", "reward_parts")
    usage = pa.struct({"prompt_tokens": whole, "completion_tokens": whole, "cost": real, "model": text})
    step = dict.fromkeys(strings, text)
    step |= {"reward": real, "valid": yes, "trained": yes, "tokens": tokens, "usage": usage}
    origin = dict.fromkeys(("env_id", "task_id", "agent", "policy_digest", "prompt", *_AS_TEXT), text)
    origin |= {"package_version": text, "env_version": whole, "seed": pa.uint64(), "env_seed": pa.uint64()}
    columns = dict.fromkeys(("id", "split", "kind", "difficulty", "instruction", "rules", "final_observation"), text)
    columns |= dict.fromkeys(("success", "terminated", "truncated", "given_up"), yes)
    columns |= {"reward": real, "optimal_steps": whole, "error": text}
    columns |= {"provenance": pa.struct(origin), "steps": pa.list_(pa.struct(step))}
    return pa.schema(columns)


def _parquet_row(trajectory: Trajectory) -> Row:
    row = to_json(trajectory)
    for key in _AS_TEXT:
        row["provenance"][key] = json.dumps(row["provenance"][key], ensure_ascii=False)
    for step in row["steps"]:
        step["reward_parts"] = json.dumps(step["reward_parts"], ensure_ascii=False)
    return row


def _from_parquet_row(row: Row) -> Row:
    for key in _AS_TEXT:
        row["provenance"][key] = json.loads(row["provenance"][key])
    for step in row["steps"]:
        step["reward_parts"] = json.loads(step["reward_parts"])
    return row
