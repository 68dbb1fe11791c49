"""AgentTraj, the format of WooooDyy/AgentGym: reader and writer, and its pairs for DPO.

A row is `{"item_id": "webshop_6", "conversations": [...]}`, in a JSON array or in JSON lines. The turns are the rules,
`"Ok."`, then observation and reply by turns; rollouts add a last observation, `reward` and `success`. What a row
leaves open is read so:

- Files hold successful demonstrations unless they say otherwise: without `success`, an episode succeeded when its
  `reward` is at least 1, or when it has none but has a reply; without `reward`, success is 1.0 and failure 0.0.
- The first reply is the answer to the rules, not a step, when its `loss` is false or its text is "Ok."; it is never
  trained on. A later reply is trained on when its `loss` is true, or stands nowhere (`Step.trained`).
- `conversations` null or empty, as in AgentEval, is a task without steps or success.
- `provenance.env_id` is `AgentGym/<env>`: a world of the original, which is not installed here, so that nothing
  claims to be replayable that is not. `kind` is the env's name, for ALFWorld the type of its task.
- What this project writes is read in the same way. A row has no place for a world, its arguments, seeds or the rewards
  of steps: what was converted cannot be replayed, the store that it was made from can.
"""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, TextIO

from agentgym_py.env import StopReason
from agentgym_py.env.actions import parse_reply
from agentgym_py.errors import DataError
from agentgym_py.trajectory.formats.rows import write_rows
from agentgym_py.trajectory.store import existing
from agentgym_py.trajectory.types import Preference, Provenance, Step, Trajectory

_ALFWORLD = re.compile(r"(?P<kind>(?:look_at_obj|pick_)[^-]*)(?:-.*)?_trial_T[0-9_]+\Z")
_INDEXED = re.compile(r"(?P<env>.+)_(?P<index>[0-9]+)\Z")
_PROMPT_TURNS = 3
AGENT = "agenttraj"
"""`provenance.agent` of what was read here; the format does not say who played."""
Row = Mapping[str, Any]


# ------------------------------------------------------------------------------------------------------------ episodes


def read(path: str | Path, *, warn: bool = True) -> Iterator[Trajectory]:
    """Stream the episodes of an AgentTraj or AgentEval file; a second row of one `item_id` gets the id `<item_id>#2`.

    JSON lines are read one at a time, and a torn last line is dropped, with a warning unless `warn` is false.
    An array is held in memory as a whole, as JSON.

    Raises:
        DataError: no such file, or a row that is not in this format; names the row and the key.
    """
    return _episodes(existing(path), warn)


def write(path: str | Path, trajectories: Iterable[Trajectory], *, rollout: bool | None = None) -> int:
    """Write episodes, as JSON lines to a `.jsonl` file, else as an array; returns how many."""
    return write_rows(Path(path), (to_row(each, rollout=rollout) for each in trajectories))


def to_row(trajectory: Trajectory, *, rollout: bool | None = None) -> dict[str, Any]:
    """AgentTraj's row: rules, "Ok.", then observation and reply by turns; it ends on a reply.

    `rollout` adds what their rollouts have: the last observation, `reward` and `success`. None adds what a reader would
    get wrong without: the outcome of an episode that is no plain success, and the last observation of a row that had
    one when it was read.
    """
    turns = [_human(trajectory.rules), {"from": "gpt", "loss": False, "value": "Ok."}]
    for step in trajectory.steps:
        turns += [_human(step.observation), {"from": "gpt", "loss": step.trained, "value": step.reply}]
    row: dict[str, Any] = {"item_id": trajectory.task_id, "conversations": turns}
    last = trajectory.provenance.agent == AGENT and trajectory.final_observation
    if rollout or (rollout is None and last):
        turns.append(_human(trajectory.final_observation))
    outcome = trajectory.success, trajectory.reward
    if rollout or (rollout is None and outcome != _outcome({}, bool(trajectory.steps))):
        row |= {"reward": trajectory.reward, "success": trajectory.success}
    return row


def from_row(row: Row, *, id: str | None = None) -> Trajectory:
    """The episode of a row; `id` is that of the trajectory, by default the `item_id`.

    Raises:
        DataError: a missing key or a value of the wrong type; names the key.
    """
    item = _item_id(row, "item_id")
    rules, steps, final = _conversation(_turns(row, "conversations"))
    success, reward = _outcome(row, bool(steps))
    env, kind = _world(item)
    return Trajectory(
        id=item if id is None else id,
        provenance=Provenance(f"AgentGym/{env}" if env else "", 0, {}, item, 0, AGENT),
        split="",
        kind=kind,
        difficulty="",
        instruction="",
        rules=rules,
        steps=_rewarded(steps, reward),
        final_observation=final,
        reward=reward,
        success=success,
        stop_reason=StopReason.TERMINATED if success else None,
    )


def _episodes(path: Path, warn: bool) -> Iterator[Trajectory]:
    seen: Counter[str] = Counter()
    for where, row in _rows(path, warn):
        try:
            item = _item_id(row, "item_id")
            seen[item] += 1
            trajectory = from_row(row, id=item if seen[item] == 1 else f"{item}#{seen[item]}")
        except DataError as error:
            raise DataError(f"{path}:{where}: {error}") from error
        yield trajectory


def _human(text: str) -> dict[str, Any]:
    return {"from": "human", "loss": None, "value": text}


def _item_id(row: Row, key: str) -> str:
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise DataError(f"missing key {key!r}" if key not in row else f"{key}: expected a string, found {value!r}")
    return str(value)


def _world(item: str) -> tuple[str, str]:
    """Env and kind of an `item_id`; both empty where it names no env."""
    alfworld = _ALFWORLD.match(item)
    if alfworld:
        return "alfworld", alfworld["kind"]
    indexed = _INDEXED.match(item)
    return (indexed["env"], indexed["env"]) if indexed else ("", "")


def _turns(row: Row, key: str) -> list[dict[str, Any]]:
    """The checked turns of a conversation; null is an empty one."""
    if key not in row:
        raise DataError(f"missing key {key!r}")
    turns = row[key]
    if turns is None:
        return []
    if not isinstance(turns, list):
        raise DataError(f"{key}: expected a list, found {type(turns).__name__}")
    for i, turn in enumerate(turns):
        _check_turn(turn, f"{key}[{i}]")
    return turns


def _check_turn(turn: object, where: str) -> None:
    if not isinstance(turn, dict):
        raise DataError(f"{where}: expected an object, found {type(turn).__name__}")
    if turn.get("from") not in ("human", "gpt"):
        raise DataError(f"{where}.from: expected 'human' or 'gpt', found {turn.get('from')!r}")
    if not isinstance(turn.get("value"), str):
        raise DataError(f"{where}.value: expected a string, found {turn.get('value')!r}")
    if not isinstance(turn.get("loss"), bool | None):
        raise DataError(f"{where}.loss: expected null, false or true, found {turn['loss']!r}")


def _conversation(turns: Sequence[dict[str, Any]]) -> tuple[str, list[Step], str]:
    """Rules, steps and last observation of turns that alternate, human first."""
    for i, turn in enumerate(turns):
        if turn["from"] != ("human", "gpt")[i % 2]:
            raise DataError(f"conversations[{i}]: two turns of {turn['from']!r} in a row, or the first is not 'human'")
    rules = ""
    if len(turns) > 1 and _acknowledges(turns[1]):
        rules, turns = turns[0]["value"], turns[2:]
    steps = [_step(turns[i]["value"], turns[i + 1]) for i in range(0, len(turns) - 1, 2)]
    return rules, steps, turns[-1]["value"] if len(turns) % 2 else ""


def _acknowledges(turn: dict[str, Any]) -> bool:
    return turn.get("loss") is False or turn["value"].strip().lower() in ("ok", "ok.")


def _step(observation: str, turn: dict[str, Any]) -> Step:
    said = parse_reply(turn["value"])
    trained = turn.get("loss", True) is True
    text = turn["value"]
    return Step(observation, text, said.thought, said.action, said.action_input, 0.0, True, trained=trained)


def _rewarded(steps: Sequence[Step], reward: float) -> tuple[Step, ...]:
    """The steps with the whole reward on the last one: the format knows no other."""
    if not steps:
        return ()
    return (*steps[:-1], replace(steps[-1], reward=reward))


def _outcome(row: Row, acted: bool) -> tuple[bool, float]:
    success, reward = row.get("success"), row.get("reward")
    if reward is not None and (isinstance(reward, bool) or not isinstance(reward, int | float) or reward - reward != 0):
        raise DataError(f"reward: expected a finite number, found {reward!r}")
    if success not in (None, True, False):
        raise DataError(f"success: expected true or false, found {success!r}")
    if success is None:
        success = acted if reward is None else reward >= 1
    return bool(success), float(success) if reward is None else float(reward)


# --------------------------------------------------------------------------------------------------------------- pairs


def read_pairs(path: str | Path) -> Iterator[Preference]:
    """Stream the pairs of a DPO file, `{id, prompt, chosen, rejected}` with a prompt of three turns.

    The chosen episode counts as a success of reward 1, the rejected one as a failure of reward 0.

    Raises:
        DataError: no such file, or a row that is not in this format; names the row and the key.
    """
    return _pairs(existing(path))


def write_pairs(path: str | Path, pairs: Iterable[Preference]) -> int:
    """Write pairs, as JSON lines to a `.jsonl` file, else as an array; returns how many."""
    return write_rows(Path(path), map(pair_to_row, pairs))


def pair_to_row(pair: Preference) -> dict[str, Any]:
    """The DPO row of a pair; an id `<env>_<index>` becomes its index, as in the original.

    Raises:
        DataError: the two episodes have no reply, or do not open with the same rules and observation.
    """
    chosen, rejected = (to_row(each, rollout=False)["conversations"] for each in (pair.chosen, pair.rejected))
    if len(chosen) <= _PROMPT_TURNS or chosen[:_PROMPT_TURNS] != rejected[:_PROMPT_TURNS]:
        raise DataError(f"pair {pair.id!r}: chosen and rejected do not open with the same rules and observation")
    return {
        "id": _row_id(pair.id),
        "prompt": chosen[:_PROMPT_TURNS],
        "chosen": chosen[_PROMPT_TURNS:],
        "rejected": rejected[_PROMPT_TURNS:],
    }


def pair_from_row(row: Row) -> Preference:
    """The pair of a DPO row.

    Raises:
        DataError: a missing key or a value of the wrong type; names the key.
    """
    name = _item_id(row, "id")
    prompt = _turns(row, "prompt")
    if len(prompt) != _PROMPT_TURNS:
        raise DataError(f"prompt: expected {_PROMPT_TURNS} turns, found {len(prompt)}")
    both = [_pair_side(row, name, prompt, key) for key in ("chosen", "rejected")]
    return Preference(name, *both)


def _pair_side(row: Row, name: str, prompt: list[dict[str, Any]], key: str) -> Trajectory:
    reward = 1.0 if key == "chosen" else 0.0
    turns = [*prompt, *_turns(row, key)]
    if len(turns) == _PROMPT_TURNS:
        raise DataError(f"{key}: expected a reply")
    whole = {"item_id": name, "conversations": turns, "reward": reward}
    return from_row(whole, id=f"{name}/{key}")


def _row_id(name: str) -> str | int:
    if _ALFWORLD.match(name):
        return name
    if re.fullmatch(r"0|[1-9][0-9]{0,17}", name, re.ASCII):
        return int(name)
    indexed = _INDEXED.match(name)
    return int(indexed["index"]) if indexed else name


def _pairs(path: Path) -> Iterator[Preference]:
    for where, row in _rows(path, warn=True):
        try:
            pair = pair_from_row(row)
        except DataError as error:
            raise DataError(f"{path}:{where}: {error}") from error
        yield pair


# --------------------------------------------------------------------------------------------------------------- files


def _rows(path: Path, warn: bool) -> Iterator[tuple[str, Row]]:
    """Each row with the words that say where it stands."""
    with path.open(encoding="utf-8-sig") as file:
        try:
            array = _first_character(file) == "["
            rows = _array(file) if array else _lines(file, path, warn)
            for where, row in rows:
                if not isinstance(row, dict):
                    raise DataError(f"{path}:{where}: expected an object, found {type(row).__name__}")
                yield where, row
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: no UTF-8: {error}") from error


def _first_character(file: TextIO) -> str:
    """The first character that is no space; the file is wound back."""
    while (character := file.read(1)).isspace():
        pass
    file.seek(0)
    return character


def _array(file: TextIO) -> Iterator[tuple[str, Any]]:
    value = _loads(file.read(), file.name)
    return ((f"row {number}", row) for number, row in enumerate(value, 1))


def _lines(file: TextIO, path: Path, warn: bool) -> Iterator[tuple[str, Any]]:
    for number in count(1):
        line = file.readline()
        if not line:
            return
        if not line.strip():
            continue
        try:
            row = _loads(line, f"{path}:{number}")
        except DataError as error:
            if line.endswith("\n"):
                raise
            if warn:
                warnings.warn(f"{path}:{number}: torn last line dropped ({error})", stacklevel=4)
            return
        yield str(number), row


def _loads(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: no JSON: {error}") from error
