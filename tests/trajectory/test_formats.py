from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_py.cli import main
from agentgym_py.env import PartnerRecord, StopReason
from agentgym_py.errors import DataError, RunError
from agentgym_py.trajectory import Provenance, Step, Tokens, Trajectory, store
from agentgym_py.trajectory.formats import agenttraj, openai, parquet, trl
from agentgym_py.trajectory.reading import detect, episode_files, read_any, verify_any
from agentgym_py.trajectory.types import NOT_STORED, Preference, Usage

Make = Callable[..., Trajectory]
_TEMPLATE = """{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}</s>{% endfor %}\
{% if add_generation_prompt %}<assistant>{% endif %}"""


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """A tokenizer of a few words with a chat template; it is made here, nothing is downloaded."""
    pytest.importorskip("trl")
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    plain = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    made = PreTrainedTokenizerFast(tokenizer_object=plain, unk_token="[UNK]")
    made.chat_template = _TEMPLATE
    return made


def loaded(rows: list[dict[str, Any]]) -> Any:
    """The rows as Hugging Face `datasets` takes them."""
    return pytest.importorskip("datasets").Dataset.from_list(rows)


def unlearned(trajectory: Trajectory, *numbers: int) -> Trajectory:
    """The trajectory with some replies marked as not to be trained on."""
    steps = (replace(step, trained=i not in numbers) for i, step in enumerate(trajectory.steps))
    return replace(trajectory, steps=tuple(steps))


# ---- TRL -------------------------------------------------------------------------------------------------------------


def test_messages_are_what_trl_calls_conversational(episode: Make, tokenizer: Any) -> None:
    """TRL recognises the rows and renders rules, observations and replies in order, the last reply at the end."""
    from trl.data_utils import is_conversational, maybe_apply_chat_template

    data = loaded([trl.messages(episode("a", "b")), trl.messages(episode("c"))])
    assert data.column_names == ["messages"] and is_conversational(data[0])
    assert maybe_apply_chat_template(data[0], tokenizer)["text"] == (
        "<user>You shop.\n\npage 0</s><assistant>Thought: so\nAction: a</s>"
        "<user>page 1</s><assistant>Thought: so\nAction: b</s>"
    )


def test_messages_refuse_what_they_cannot_say(episode: Make) -> None:
    """A reply that must not be trained on has no place in this form."""
    with pytest.raises(DataError, match=r"'t0'.*use 'prompt_completion'"):
        trl.messages(unlearned(episode("a", "b"), 0))


def test_rows_refuse_an_infrastructure_failure(episode: Make) -> None:
    """It is no outcome of the agent's, and these rows hold only such outcomes."""
    broken = episode("a", success=False, reward=0.0, stop_reason=StopReason.ERROR, error="timeout")
    for write in (trl.messages, trl.prompt_completion, openai.openai_chat, agenttraj.to_row):
        with pytest.raises(DataError, match="'t0': an infrastructure failure ended it"):
            write(broken)


def test_prompt_completion_trains_on_replies_only(episode: Make, tokenizer: Any) -> None:
    """One row a reply: all before it is the prompt, and no completion holds an observation."""
    from trl.data_utils import is_conversational, maybe_apply_chat_template

    rows = trl.prompt_completion(unlearned(episode("a", "b", "c"), 1))
    data = loaded(rows)
    assert len(data) == 2 and is_conversational(data[0])
    rendered = [maybe_apply_chat_template(row, tokenizer) for row in data]
    assert rendered[0] == {
        "prompt": "<user>You shop.\n\npage 0</s><assistant>",
        "completion": "Thought: so\nAction: a</s>",
    }
    assert rendered[1]["completion"] == "Thought: so\nAction: c</s>"
    assert rendered[1]["prompt"].endswith("<user>page 2</s><assistant>")
    assert all(message["role"] == "assistant" for row in rows for message in row["completion"])


def test_preferences_by_episode_and_by_turn(episode: Make, tokenizer: Any) -> None:
    """`episode` keeps everything after the first observation; `turn` the two replies at which the episodes part."""
    from trl.data_utils import is_conversational, maybe_apply_chat_template

    pair = Preference("1", episode("a", "b", "c"), episode("a", "x"))
    whole, turn = trl.preference(pair), trl.preference(pair, level="turn")
    assert whole is not None and turn is not None
    assert [len(whole[key]) for key in ("prompt", "chosen", "rejected")] == [1, 5, 3]
    assert [len(turn[key]) for key in ("prompt", "chosen", "rejected")] == [3, 1, 1]
    for row in loaded([whole, turn]):
        assert is_conversational(row)
        text = maybe_apply_chat_template(row, tokenizer)
        assert text["prompt"].startswith("<user>You shop.") and text["prompt"].endswith("<assistant>")
    assert maybe_apply_chat_template(turn, tokenizer)["rejected"] == "Thought: so\nAction: x</s>"


def test_preferences_that_do_not_part_or_do_not_meet(episode: Make) -> None:
    """A beginning of the other has no turn to compare; other openings are refused."""
    assert trl.preference(Preference("1", episode("a", "b"), episode("a")), level="turn") is None
    chance = episode("a", "b")
    other = replace(chance, steps=(chance.steps[0], replace(chance.steps[1], observation="other")))
    assert trl.preference(Preference("1", chance, other), level="turn") is None
    for wrong in (episode("a", rules="other"), episode()):
        with pytest.raises(DataError, match="do not open with the same"):
            trl.preference(Preference("1", episode("a"), wrong))


def test_stepwise_has_a_label_a_step(episode: Make) -> None:
    """`prompt` is text, `completions` and `labels` are lists of one length, with the types that TRL documents."""
    good, bad = episode("a", "b"), episode("a", success=False)
    data = loaded([trl.stepwise(good), trl.stepwise(bad), trl.stepwise(good, lambda _, s: s.action == "b")])
    assert {name: str(kind) for name, kind in data.features.items()} == {
        "prompt": "Value('string')", "completions": "List(Value('string'))", "labels": "List(Value('bool'))"
    }  # fmt: skip
    assert data[0]["prompt"] == "You shop.\n\npage 0"
    assert data[0]["completions"] == ["Thought: so\nAction: a", "Observation: page 1\nThought: so\nAction: b"]
    assert data["labels"] == [[True, True], [False], [False, True]]


# ---- OpenAI ----------------------------------------------------------------------------------------------------------


def test_openai_chat_is_what_the_client_takes(episode: Make) -> None:
    """Every message passes the types of the `openai` package; each call is answered under its id, but for the last."""
    tool = Step("page 1", "x", "I look.", "find_paper", '{"title": "é"}', 0.0, True)
    trajectory = episode("search[cup]", "buy")
    trajectory = replace(trajectory, steps=(trajectory.steps[0], tool, trajectory.steps[1]))
    row = openai.openai_chat(trajectory)
    _check_openai(row)
    assert [m["role"] for m in row["messages"]] == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    calls = [m["tool_calls"][0] for m in row["messages"] if m["role"] == "assistant"]
    assert [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in calls] == [
        ("call_0", "act", '{"action": "search[cup]"}'),
        ("call_1", "find_paper", '{"title": "é"}'),
        ("call_2", "act", '{"action": "buy"}'),
    ]
    assert [m["tool_call_id"] for m in row["messages"] if m["role"] == "tool"] == ["call_0", "call_1"]
    assert [t["function"]["name"] for t in row["tools"]] == ["act", "find_paper"]
    assert openai.openai_chat(trajectory, final=True)["messages"][-1] == {
        "role": "tool", "tool_call_id": "call_2", "content": "Thanks."
    }  # fmt: skip
    assert json.loads(json.dumps(row)) == row and loaded([row]).num_rows == 1


def test_openai_weights_and_tools(episode: Make) -> None:
    """A reply that must not be trained on weighs 0, and given schemas stand as they are."""
    schema = {"type": "function", "function": {"name": "act", "parameters": {}}}
    row = openai.openai_chat(unlearned(episode("a", "b"), 0), tools=[schema])
    assert [m.get("weight") for m in row["messages"] if m["role"] == "assistant"] == [0, None]
    assert row["tools"] == [schema]
    assert openai.openai_chat(episode())["messages"] == []


@given(st.text(max_size=20), st.none() | st.text(max_size=20) | st.sampled_from(['{"a": 1}', "[1]", "[" * 10_000]))
@settings(deadline=None)
def test_openai_arguments_are_always_an_object(action: str, action_input: str | None) -> None:
    """Whatever an agent wrote, the name is one that the service takes and the arguments are JSON text of an object."""
    name, arguments = openai.function_call(Step("", "", "", action, action_input, 0.0, True))
    assert openai._TOOL_NAME.fullmatch(name)
    assert isinstance(json.loads(arguments), dict)
    assert name == "act" or action == name


def _check_openai(row: dict[str, Any]) -> None:
    openai_types = pytest.importorskip("openai.types.chat")
    pydantic = pytest.importorskip("pydantic")
    message = pydantic.TypeAdapter(openai_types.ChatCompletionMessageParam)
    for each in row["messages"]:
        message.validate_python(each, strict=False)
    tool = pydantic.TypeAdapter(openai_types.ChatCompletionToolParam)
    for each in row["tools"]:
        tool.validate_python(each)


# ---- parquet ---------------------------------------------------------------------------------------------------------


def rich(number: int) -> Trajectory:
    """A trajectory in which nothing stands at its default."""
    record = Tokens((1, 2), (3,), (-0.25,), (1,), starts_sequence=True, turns_dropped=2, cut=True)
    step = Step(
        "page é", "Action: a", "t", "a", "in", 0.5, False, {"price": 1.0}, record, False,
        Usage(11, 7, 0.5, "m", True, "I cannot.", 2), replace(record, ids=(4,)), {"deletions": 1.0},
    )  # fmt: skip
    origin = Provenance("AgentShop-v0", 1, {"mode": ["text", None]}, "shop/1", 2**64 - 1, "tiny", "abc",
                        {"temperature": 0.7}, "brief", "0.1.0", 2**63 + 1, "{rules}",
                        note="Again.", files_digest="4f")  # fmt: skip
    made = Trajectory(f"t{number}", origin, "test", "buy", "hard", "Buy.", "rules", (step, step), "end", 0.5, True,
                      StopReason.ERROR, 4, "timeout", PartnerRecord("9c", ("say[red]", None)))  # fmt: skip
    for part in (made, origin, step, record):
        at_default = [each.name for each in fields(part) if getattr(part, each.name) in (each.default, None, {})]
        assert not at_default, at_default
    return made


def test_parquet_round_trips(tmp_path: Path, episode: Make) -> None:
    """Every field comes back, across blocks of rows, and `datasets` opens the file."""
    datasets = pytest.importorskip("datasets")
    all_of_them = [rich(i) for i in range(300)] + [episode("a"), episode()]
    path = tmp_path / "deep" / "a.parquet"
    assert parquet.write_parquet(path, iter(all_of_them)) == 302
    assert list(parquet.read_parquet(path)) == all_of_them
    data = datasets.Dataset.from_parquet(str(path), cache_dir=str(tmp_path / "cache"))
    assert data.num_rows == 302
    assert data[0]["steps"][0]["tokens"]["ids"] == [3] and data[0]["provenance"]["seed"] == 2**64 - 1
    assert data[0]["provenance"]["env_seed"] == 2**63 + 1
    assert parquet.write_parquet(path, []) == 0 and list(parquet.read_parquet(path)) == []


def test_parquet_has_a_column_for_every_field() -> None:
    """A field that a record gets one day is not silently left out of the file, at any depth."""
    pa = pytest.importorskip("pyarrow")

    def check(record: Any, column: Any) -> None:
        stored = {each.name for each in fields(record) if each.metadata != NOT_STORED}
        assert {each.name for each in column} == stored, type(record)
        for each in column:
            kind = each.type.value_type if pa.types.is_list(each.type) else each.type
            value = getattr(record, each.name)
            held = value[0] if isinstance(value, tuple) else value
            assert is_dataclass(held) == pa.types.is_struct(kind), each.name
            if is_dataclass(held):
                check(held, kind)

    check(rich(0), parquet._schema())


@pytest.mark.parametrize("wrong", [2**64, -1, "\ud800"])
def test_what_parquet_cannot_hold_is_a_data_error(tmp_path: Path, wrong: Any) -> None:
    """A seed outside 64 bits or text that is no UTF-8; no half file is left."""
    origin = rich(0).provenance
    changed = replace(origin, agent=wrong) if isinstance(wrong, str) else replace(origin, seed=wrong)
    with pytest.raises(DataError, match=r"a\.parquet"):
        parquet.write_parquet(tmp_path / "a.parquet", [replace(rich(0), provenance=changed)])
    assert list(tmp_path.iterdir()) == []


def test_the_episode_that_parquet_cannot_hold_is_named(tmp_path: Path) -> None:
    """Also among others, and in a folder."""
    rows = [rich(0), replace(rich(1), kind="\ud800"), rich(2)]
    for write, place in ((parquet.write_parquet, tmp_path / "a.parquet"), (parquet.write_dataset, tmp_path / "a")):
        with pytest.raises(DataError, match=r"a(\.parquet)?: episode 't1': .*surrogates"):
            write(place, iter(rows))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", ["a.parquet", "folder/", "openai.parquet"])
def test_half_of_a_surrogate_pair_stops_no_conversion(target: str, tmp_path: Path, monkeypatch: Any) -> None:
    """It is replaced, and the warning names the episode; all others are unchanged."""
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    first, second = (replace(rich(i), stop_reason=StopReason.GAVE_UP, error=None) for i in range(2))
    step = replace(first.steps[0], reply="a\ud800b", costs={"\udfff": 1.0})
    odd = replace(second, id="\udc00", steps=(step,))
    store.write("a.jsonl", [first, odd])
    argv = ["data", "convert", "a.jsonl", target, *(["--to", "openai"] if target.startswith("o") else [])]
    assert main(argv) == 0
    if not target.startswith("o"):
        (same, changed) = parquet.read_parquet(target)
        assert same == first and changed.id == "\ufffd"
        assert changed.steps[0].reply == "a\ufffdb" and changed.steps[0].costs == {"\ufffd": 1.0}
    with pytest.warns(UserWarning, match="half of a surrogate pair is replaced"):
        assert parquet.without_half_pairs(odd) != odd
    whole = rich(0)
    assert parquet.without_half_pairs(whole) is whole


def test_other_files_are_a_data_error(tmp_path: Path) -> None:
    """No file, no parquet, and parquet of something else."""
    pq = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    path = tmp_path / "a.parquet"
    with pytest.raises(DataError, match=r"a\.parquet"):
        list(parquet.read_parquet(path))
    path.write_text("hello")
    with pytest.raises(DataError, match=r"a\.parquet"):
        list(parquet.read_parquet(path))
    pq.write_table(pa.table({"x": [1]}), path)
    with pytest.raises(DataError, match=r"a\.parquet"):
        list(parquet.read_parquet(path))


def test_without_pyarrow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Reading and writing parquet say how to get it."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match="parquet needs pyarrow, part of the extra `train`: "):
        list(parquet.read_parquet(tmp_path / "x"))
    with pytest.raises(DataError, match="parquet needs pyarrow, part of the extra `train`: "):
        parquet.write_parquet(tmp_path / "x", [])


# ---- tables of other rows --------------------------------------------------------------------------------------------


def test_a_saved_dataset_round_trips(tmp_path: Path, episode: Make) -> None:
    """Whole trajectories come back; `datasets` opens the folder, and a dataset of its own is read by pyarrow alone."""
    datasets = pytest.importorskip("datasets")
    episodes = [rich(0), episode("a"), episode()]
    assert parquet.write_dataset(tmp_path / "mine", iter(episodes)) == 3
    assert detect(tmp_path / "mine") == "parquet" and list(read_any(tmp_path / "mine")) == episodes
    with pytest.raises(RunError, match="mine already holds other files"):
        parquet.write_dataset(tmp_path / "mine", [])
    opened = datasets.load_from_disk(str(tmp_path / "mine"))
    assert opened[0]["id"] == "t0" and opened.map(lambda row: {"id": row["id"] + "!"})[2]["id"] == "t0!"
    turns = [{"role": role, "content": text} for role, text in (("user", "p"), ("assistant", "a"), ("user", "q"))]
    datasets.Dataset.from_list([{"messages": turns}]).save_to_disk(str(tmp_path / "hf"))
    assert detect(tmp_path / "hf") == "messages"
    assert [each.final_observation for each in read_any(tmp_path / "hf")] == ["q"]
    datasets.DatasetDict({"train": datasets.load_from_disk(str(tmp_path / "hf"))}).save_to_disk(str(tmp_path / "all"))
    with pytest.raises(DataError, match=r"a dataset with the splits \['train'\]; name the folder of one of them"):
        detect(tmp_path / "all")
    assert detect(tmp_path / "all" / "train") == "messages"


def test_a_broken_table_of_a_folder_is_named(tmp_path: Path, episode: Make) -> None:
    """Not the folder alone."""
    pytest.importorskip("pyarrow")
    parquet.write_parquet(tmp_path / "a.parquet", [episode("a")])
    (tmp_path / "b.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-40])
    with pytest.raises(DataError, match=r"b\.parquet: no table"):
        list(read_any(tmp_path))
    report = verify_any(tmp_path)
    assert report.episodes == 1 and "b.parquet: no table" in report.bad[2]


@pytest.mark.parametrize("folder", ["", "data"])
def test_a_folder_of_parquet_files_is_read_in_order(tmp_path: Path, episode: Make, folder: str) -> None:
    """As data sets of a hub have them, there or in `data`; a folder of several splits is refused, a link out, too."""
    pytest.importorskip("pyarrow")
    hub = tmp_path / "hub"
    (hub / folder).mkdir(parents=True, exist_ok=True)
    episodes = [episode("a"), episode("b"), episode("c")]
    for number, each in enumerate(episodes):
        parquet.write_parquet(hub / folder / f"train-{number:05d}-of-00003.parquet", [each])
    assert detect(hub) == "parquet" and list(read_any(hub)) == episodes
    parquet.write_parquet(tmp_path / "outside.parquet", episodes)
    (hub / folder / "train-00009-of-00010.parquet").symlink_to(tmp_path / "outside.parquet")
    with pytest.raises(DataError, match="train-00009"):
        list(read_any(hub))
    (hub / folder / "train-00009-of-00010.parquet").rename(hub / folder / "test-00000-of-00001.parquet")
    with pytest.raises(DataError, match="parquet files of the splits test, train; name the files of one of them"):
        detect(hub)
    for path in (hub / folder).iterdir():
        path.unlink()
    for name in ("train.parquet", "valid.parquet"):
        parquet.write_parquet(hub / folder / name, episodes)
    with pytest.raises(DataError, match="parquet files of the splits train, valid"):
        detect(hub)
    parquet.write_dataset(tmp_path / "saved", episodes)
    parquet.write_parquet(tmp_path / "saved" / "other.parquet", episodes[:1])
    assert list(read_any(tmp_path / "saved")) == episodes


@pytest.mark.parametrize("name", ["a.parquet", "folder"])
def test_rows_for_other_programs_fit_a_table(tmp_path: Path, episode: Make, name: str) -> None:
    """What is missing in some rows is null there, and null is read as missing."""
    pytest.importorskip("pyarrow")
    tool = replace(episode("a").steps[0], action="find", action_input='{"x": [1]}')
    mixed = [unlearned(episode("a", "b"), 0), replace(episode("a"), steps=(tool,))]
    assert parquet.write_table(tmp_path / name, [openai.openai_chat(each) for each in mixed]) == 2
    assert detect(tmp_path / name) == "messages"
    again = list(read_any(tmp_path / name))
    assert [[(s.action, s.action_input, s.trained) for s in each.steps] for each in again] == [
        [(s.action, s.action_input, s.trained) for s in each.steps] for each in mixed
    ]
    assert parquet.write_table(tmp_path / "b.parquet", trl.prompt_completion(mixed[0])) == 1
    assert [len(each.steps) for each in read_any(tmp_path / "b.parquet")] == [2]
    rows: list[dict[str, Any]] = [{"x": [{"a": 1}]}, {"y": "2", "x": [{"b": "3"}]}, {}]
    assert parquet.write_table(tmp_path / f"c-{name}", rows) == 3
    assert [row for _, row in parquet.read_rows(tmp_path / f"c-{name}")] == [
        {"x": [{"a": 1, "b": None}], "y": None}, {"x": [{"a": None, "b": "3"}], "y": "2"}, {"x": None, "y": None},
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["a.parquet", "folder"])
def test_a_failure_after_a_success_stays_one_in_a_table(tmp_path: Path, episode: Make, name: str) -> None:
    """The columns are those of all rows, not of the first one."""
    pytest.importorskip("pyarrow")
    episodes = [episode("a"), episode("b", success=False, reward=0.0)]
    for write in (trl.messages, openai.openai_chat, agenttraj.to_row):
        path = tmp_path / f"{write.__name__}-{name}"
        parquet.write_table(path, map(write, episodes))
        assert [(t.success, t.reward) for t in read_any(path)] == [(True, 1.0), (False, 0.0)]


def test_a_value_in_every_row_is_not_unpacked_in_many_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of some hundred bytes holds it once, by a dictionary, and packed."""
    pa, table = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    blocks, rows_of = list[int](), parquet._rows_of

    def counted(block: Any) -> Any:
        blocks.append(block.num_rows)
        return rows_of(block)

    monkeypatch.setattr(parquet, "_rows_of", counted)
    monkeypatch.setattr(parquet, "MOST_DOCUMENT", 1 << 20)
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), pa.array(["x" * 200_000]))
    options = {"compression": "zstd", "dictionary_pagesize_limit": 1 << 20, "store_schema": False}
    table.write_table(pa.table({"messages": text}), tmp_path / "a.parquet", **options)
    assert (tmp_path / "a.parquet").stat().st_size < 1000
    assert len(list(parquet.read_rows(tmp_path / "a.parquet"))) == 1000 and max(blocks) == 5


def test_a_prepared_table_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files outside the folder, damaged buffers, rows and groups beyond the limit, other rows and types."""
    pa = pytest.importorskip("pyarrow")
    folder, table = tmp_path / "d", pa.table({"messages": [[{"role": "assistant", "content": "q" * 2000}]] * 3})
    folder.mkdir()
    with pa.OSFile(str(folder / "a.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    parquet.write_table(tmp_path / "a.parquet", table.to_pylist())
    for state, message in (
        ({"_data_files": [{"filename": "../../etc/passwd"}]}, "leads out of"),
        ({"_data_files": [{"filename": "none.arrow"}]}, "no table"),
        ({"_data_files": 1}, "no table"), ({}, "no table"), ([], "is not a JSON object"),
    ):  # fmt: skip
        (folder / "state.json").write_text(json.dumps(state))
        with pytest.raises(DataError, match=message):
            detect(folder)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "a.arrow"}]}))
    assert len(list(read_any(folder))) == 3
    raw = (folder / "a.arrow").read_bytes()
    offsets = raw.index((2000).to_bytes(4, "little") + (4000).to_bytes(4, "little"))
    (folder / "a.arrow").write_bytes(raw[:offsets] + (1 << 30).to_bytes(4, "little") + raw[offsets + 4 :])
    with pytest.raises(DataError, match="no table"):
        list(read_any(folder))
    for wrong in (pa.array([10**12], pa.timestamp("s")), pa.array([b"\xff"], pa.binary()).view(pa.string())):
        pa.parquet.write_table(pa.table({"messages": wrong}), tmp_path / "c.parquet")
        with pytest.raises(DataError, match=r"c\.parquet: no table"):
            detect(tmp_path / "c.parquet")
    monkeypatch.setattr(parquet, "MOST_LINE", 1000)
    with pytest.raises(DataError, match="a row of more than"):
        list(read_any(tmp_path / "a.parquet"))
    monkeypatch.setattr(parquet, "MOST_DOCUMENT", 10)
    with pytest.raises(DataError, match="a group of rows of more than"):
        list(read_any(tmp_path / "a.parquet"))
    with pytest.raises(DataError, match=r"b\.parquet: "):
        parquet.write_table(tmp_path / "b.parquet", [{"x": 1}, {"x": "y"}])
    assert not (tmp_path / "b.parquet").exists()


def test_the_episodes_of_a_run_come_round_by_round(tmp_path: Path) -> None:
    """Also after round 99; a file is itself."""
    files = [tmp_path / "rounds" / name / "trajectories.jsonl" for name in ("00", "02", "10", "99", "100")]
    for file in files[::-1]:
        file.parent.mkdir(parents=True)
        file.touch()
    assert episode_files(str(tmp_path)) == list(map(str, files))
    assert episode_files("demos.jsonl") == ["demos.jsonl"]
