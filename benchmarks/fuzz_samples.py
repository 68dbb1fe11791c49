"""What `benchmarks/fuzz.py` and `benchmarks/fuzz_folders.py` damage, and how."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

from hypothesis import strategies as st

from agentgym_py.feedback.llm import RUBRIC

AWKWARD: tuple[Any, ...] = (
    None, True, -1, 0, 1 << 70, 10**400, 0.5, 1e308, float("nan"), float("inf"), "", "x", "\ud800", "\x00", "9" * 5000,
    [], {}, [[]], {"a": {"b": []}}, ["x"] * 100, "../../x", "__class__", [[[[[[[[[[]]]]]]]]]],
)  # fmt: skip
"""Values that stand where others belong."""
CHATS: tuple[Any, ...] = (
    {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "q"}]},
                  {"role": "assistant", "content": "a", "weight": 1,
                   "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1]}}}]}], "reward": 0.5},
    {"conversations": [{"from": "human", "value": "q"}, {"from": "function_call", "value": '{"name": "f"}'}]},
    {"instruction": "i", "input": "j", "output": "o", "history": [["q", "a"]], "system": "s"},
    {"prompt": [{"role": "user", "content": "q"}], "completion": "a", "label": True, "id": 1},
    {"prompt": "q", "chosen": [{"role": "assistant", "content": "a"}], "rejected": "b"},
    {"id": 1, "prompt": [{"from": "human", "loss": None, "value": "r"}, {"from": "gpt", "loss": False, "value": "Ok."},
                         {"from": "human", "loss": None, "value": "o"}],
     "chosen": [{"from": "gpt", "loss": True, "value": "a"}], "rejected": [{"from": "gpt", "value": "b"}]},
)  # fmt: skip
"""A row of each format of chats."""
JUDGEMENTS: tuple[Any, ...] = (
    {"scores": [{"try": 1, "reason": "r", "score": 0.5}]}, dict.fromkeys((*RUBRIC, "reason"), 5),
)  # fmt: skip
TEMPLATE_SETTINGS = {"enable_thinking": True, "messages": {"system_prompt": "s", "few_shot": [{"role": "user"}]}}
INSPECT: Mapping[str, Any] = {
    "header.json": {"status": "success", "plan": {"config": {"temperature": 0.5, "max_tokens": 5}},
                    "eval": {"task": "t", "task_args": {}, "task_version": 0, "model": "m", "dataset": {"name": "d"}}},
    "summaries.json": [{"id": 1, "epoch": 1, "scores": {"match": {"value": "C"}, "f1": {"value": {"a": 0.5}}}}],
}  # fmt: skip
LM_EVAL = {"doc_id": 1, "filter": "none", "metrics": ["acc", "f1"], "acc": 1.0, "f1": 0.5, "doc_hash": "x"}
REF = {"file": "a.jsonl", "id": "a"}
VERDICTS: tuple[Any, ...] = (
    {"episode": REF, "verdict": 1}, {"first": REF, "second": {"file": "a.jsonl", "id": "b"}, "verdict": -1},
    {"episode": REF, "stars": 3}, {"episode": REF, "step": 0, "reply": "x"},
)  # fmt: skip
PIPELINE = {
    "out": "pipe", "defaults": {"model": "tiny-random"},
    "stages": [{"stage": "collect", "agent": "expert", "env": "maze", "env_kwargs": {"difficulty": "easy"}, "tasks": 4},
               {"stage": "train", "trainer": {"name": "filtered_bc", "epochs": 1}, "select": {"attempts": 1}}],
}  # fmt: skip
SERVERS: Mapping[Any, Any] = {
    "vllm": {"choices": [{"finish_reason": "stop", "token_ids": [3, 4], "prompt_token_ids": [1, 2],
                          "logprobs": {"token_logprobs": [-0.1, -0.2]}}]},
    "sglang": {"meta_info": {"finish_reason": {"type": "stop"}, "prompt_tokens": 2,
                             "output_token_logprobs": [[-0.1, 3, None], [-0.2, 4, None]]}},
    "llamacpp": {"stop_type": "eos", "tokens": [3, 4], "tokens_evaluated": 2,
                 "completion_probabilities": [{"id": 3, "prob": 0.5}, {"id": 4, "logprob": -0.5}]},
}  # fmt: skip
COMPLETION = {
    "model": "m", "usage": {"prompt_tokens": 5, "completion_tokens": 3},
    "choices": [{"finish_reason": "stop", "message": {
        "content": [{"type": "text", "text": "t"}],
        "tool_calls": [{"function": {"name": "add_item", "arguments": {"name": "x"}}}]}}],
}  # fmt: skip
FORKED = {
    "fork": {"run": "/a/run", "after_round": 1, "changes": {"trainer.lr": {"before": 0.1, "after": None}},
             "provenance": {"fork": {"run": "/a/b", "after_round": 0, "changes": {}, "provenance": {}}}},
}  # fmt: skip
ROW = {"world": "maze", "world_kwargs": "{}", "task": "maze/test/easy/0", "rules": "full", "seed": 0}
VIEWED: tuple[tuple[str, Any], ...] = (
    ("thumb", {"episode": 1, "verdict": 1}), ("stars", {"episode": 1, "stars": 3}),
    ("reply", {"episode": 1, "step": 0, "reply": "x"}), ("preference", {"first": 1, "second": 1, "verdict": -1}),
    ("live", {"episode": 1, "at": 1}), ("live/KEY/act", {"by": "person", "text": "look", "steps": 1}),
    ("live/KEY/act", {"by": "expert", "steps": 2, "temperature": 0.5}), ("live/KEY/keep", {}),
)  # fmt: skip
"""Requests to the viewer; KEY is a live episode."""
AGENTGYM: tuple[Any, ...] = (
    {"id": 1}, 3, {"observation": "o", "available_actions": ["look"], "reward": 0.5, "score": 1, "done": False},
    {"state": "s", "reward": 1, "done": True, "info": None}, ["o", None], "o",
)  # fmt: skip
"""Answers of servers of AgentGym."""
RECIPE = {
    "type": "minecraft:crafting_shaped", "pattern": ["#", "a"], "key": {"#": "minecraft:oak_planks", "a": {"tag": "a"}},
    "result": {"id": "minecraft:stick", "count": 4},
}  # fmt: skip
PRODUCT = {
    "name": "Socks", "full_description": "d", "pricing": "$11.99", "product_category": "a › b", "asin": "B1",
    "small_description": ["s"], "customization_options": {"Size": [{"value": "large"}]}, "category": "fashion",
    "query": "socks", "images": [], "average_rating": 3.3, "total_reviews": 0,
}  # fmt: skip
PIECES = (
    "{", "}", "[", "]", '"', ":", ",", "\\", "&a", "*a", "<<: *a", "!!python/object:x", "|", "-", "\n", "  ", "Action:",
    "Thought:", "Action Input:", "<tool_call>", "</tool_call>", "<think>", "SELECT", "FROM book", "WITH RECURSIVE", "(",
    ")", "*", "**", "/", "!", "9", "1e999", "sqrt", "\x00", "\ud800", "null", "NaN", "é", "\u202e",
)  # fmt: skip
texts = st.text(max_size=200) | st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=60).map("".join)
raw = st.binary(max_size=200) | texts.map(lambda text: text.encode("utf-8", "surrogatepass"))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value within a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


@st.composite
def damaged(draw: st.DrawFn, sample: Any) -> bytes:
    """Return the JSON of a sample in which values were replaced or removed, or bytes changed."""
    value = copy.deepcopy(sample)
    for _ in range(draw(st.integers(1, 3))):
        if not (paths := list(places(value))):
            break
        *above, last = draw(st.sampled_from(paths))
        parent = value
        for key in above:
            parent = parent[key]
        if draw(st.booleans()) and isinstance(parent, dict):
            del parent[last]
        else:
            parent[last] = copy.deepcopy(draw(st.sampled_from(AWKWARD)))
    data = bytearray(json.dumps(value).encode())
    for _ in range(draw(st.sampled_from((0, 0, 1, 5)))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 5))] = draw(raw)[:20]
    return bytes(data)


flips = st.tuples(
    st.lists(st.tuples(st.integers(0, 1 << 31), st.integers(0, 255)), min_size=1, max_size=5),
    st.just(1.0) | st.floats(0, 1),
)
"""Positions and values of bytes, and the share of a file that is left. A report shows them, and not the whole file."""


def flip(sample: bytes, change: tuple[list[tuple[int, int]], float]) -> bytes:
    """Return a sample with `flips`."""
    data = bytearray(sample)
    for at, value in change[0]:
        data[at % len(data)] = value
    return bytes(data[: round(len(data) * change[1])])
