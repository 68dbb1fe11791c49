"""Logs of other programs, compared."""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentgym_py.errors import ConfigError, DataError, RunError
from agentgym_py.evaluation import foreign
from agentgym_py.evaluation.anytime import compare_in_order
from agentgym_py.evaluation.compare import Algorithm, Entrant, compare, compare_algorithms

SPEC: dict[str, Any] = {
    "task": "sums", "task_version": 1, "task_args": {"digits": 2}, "model": "some/model", "dataset": {"name": "d"},
}  # fmt: skip
PLAN = {"config": {"temperature": 0.5, "max_tokens": 64}}
HEADER = {"version": 2, "status": "success", "eval": SPEC, "plan": PLAN}


def summaries(values: Sequence[Sequence[Any]], **scores: Any) -> list[dict[str, Any]]:
    """A sample's summary for each value of each epoch."""
    return [
        {"id": f"q{i}", "epoch": epoch, "input": "?", "scores": {"match": {"value": value, "answer": ""}, **scores}}
        for i, row in enumerate(values)
        for epoch, value in enumerate(row, 1)
    ]


def archive(files: Mapping[str, Any], *, zstd: bool = False, size: int | None = None) -> bytes:
    """A log of these files; with zstd as Inspect writes it. `size` is what the archive claims of the sizes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED if zstd else zipfile.ZIP_DEFLATED) as made:
        for name, value in files.items():
            data = value if isinstance(value, bytes) else json.dumps(value).encode()
            made.writestr(name, pytest.importorskip("pyarrow").compress(data, "zstd", asbytes=True) if zstd else data)
    raw = bytearray(out.getvalue())
    for (name, value), info in zip(files.items(), zipfile.ZipFile(out).infolist(), strict=True):
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        central = raw.index(name.encode(), raw.index(b"PK\x01\x02")) - 46
        for start in (info.header_offset, central + 2):
            if zstd:
                struct.pack_into("<H", raw, start + 8, 93)
            struct.pack_into("<L", raw, start + 14, zlib.crc32(data))
            struct.pack_into("<L", raw, start + 22, len(data) if size is None else size)
    return bytes(raw)


def log(path: Path, values: Sequence[Sequence[Any]], *, zstd: bool = False, **header: Any) -> str:
    """Write a log, and return its path."""
    files = {"header.json": HEADER | header, "samples/q0_epoch_1.json": {}, "summaries.json": summaries(values)}
    path.write_bytes(archive(files, zstd=zstd))
    return str(path)


def samples(path: Path, values: Sequence[Mapping[str, Any]]) -> str:
    """Write a file of samples of lm-eval, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {"doc_id": i, "doc": {}, "filter": filtered, "metrics": [metric], "doc_hash": f"{i:064}", metric: value}
        for i, row in enumerate(values)
        for name, value in row.items()
        for metric, filtered in [name.split(",")]
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.mark.parametrize("zstd", [False, True])
def test_logs_of_inspect_are_compared(tmp_path: Path, zstd: bool) -> None:
    """Samples are tasks and epochs attempts; text, numbers and truth values are right or wrong."""
    a = log(tmp_path / "a.eval", [["C", "C"], ["C", "I"], [1, 1.0], [True, "yes"]], zstd=zstd)
    b = log(tmp_path / "b.eval", [["I", "I"], ["C", "I"], [0, 0.0], [False, "no"]], zstd=zstd)
    found = compare([Entrant.load(a), Entrant.load(b)])
    (pair,) = found.pairs
    assert (found.tasks, pair.paired.difference.value) == (4, 0.75)
    assert [entrant.success.value for entrant in found.entrants] == [7 / 8, 1 / 8]
    text = str(found)
    assert text.startswith("sums (4 tasks); scored by match\n")
    assert f"| {a} | some/model, sampled at temperature 0.5, replies of at most 64 tokens | 2 |" in text
    assert "scored by match" in found.latex() and found.as_dict()["tasks"] == 4


def test_errors_and_samples_without_a_score_are_left_out(tmp_path: Path) -> None:
    """They are no evidence, so that their task is not compared."""
    rows = summaries([["C"], ["C"], ["C"], ["C"]])
    rows[0]["error"], rows[1]["scores"], rows[2]["scores"]["match"]["value"] = "timeout", None, float("nan")
    (tmp_path / "a.eval").write_bytes(archive({"header.json": HEADER, "summaries.json": rows}))
    b = log(tmp_path / "b.eval", [["C"], ["I"], ["C"], ["I"]])
    found = compare([Entrant.load(tmp_path / "a.eval"), Entrant.load(b)])
    assert (found.tasks, found.left_out) == (1, 3) and [entrant.lost for entrant in found.entrants] == [3, 0]


def test_another_question_is_refused(tmp_path: Path) -> None:
    """Other samples, versions, arguments, data or programs are named."""
    a = Entrant.load(log(tmp_path / "a.eval", [["C"], ["I"]]))
    changes: list[tuple[dict[str, Any], str]] = [
        ({"task_version": 2}, "sums's version: 1, not 2"), ({"task": "more"}, "worlds: sums, not more"),
        ({"task_args": {}}, r"sums's kwargs\.arguments\.digits: 2, and not given in the other$"),
        ({"dataset": {"name": "e"}}, r"sums's kwargs\.dataset: d, not e$"),
    ]  # fmt: skip
    for i, (change, message) in enumerate(changes):
        other = Entrant.load(log(tmp_path / f"{i}.eval", [["C"], ["I"]], eval=SPEC | change))
        with pytest.raises(ConfigError, match=message):
            compare([a, other])
    with pytest.raises(ConfigError, match="sums's tasks: 2 in both, of 2 and 3"):
        compare([a, Entrant.load(log(tmp_path / "c.eval", [["C"]] * 3))])


@pytest.mark.parametrize("large", [False, True])
def test_a_log_of_millions_of_files_is_refused(large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the size of their list, before it is read; also in the form for large archives."""
    path = Path(log(tmp_path / "a.eval", [["C"], ["I"]]))
    if large:
        data = path.read_bytes()
        *_, count, size, start, _ = struct.unpack("<4s4H2LH", data[-22:])
        record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, start)
        locator = struct.pack("<4sLQL", b"PK\6\7", 0, len(data) - 22, 1)
        end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
        path.write_bytes(data[:-22] + record + locator + end)
    assert len(foreign.load(path)[1]) == 2
    monkeypatch.setattr("agentgym_py.evaluation.foreign.inspect._MOST_DIRECTORY", 100)
    with pytest.raises(DataError, match="its list of files has more than 0 MiB"):
        foreign.load(path)


def test_samples_behind_a_link_are_not_read(tmp_path: Path) -> None:
    """A folder of a stranger names no file elsewhere."""
    samples(tmp_path / "mine.jsonl", [{"acc,none": 1}])
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "samples_x.jsonl").symlink_to("../mine.jsonl")
    with pytest.raises(RunError, match="leads out of"):
        foreign.load(tmp_path / "theirs")


def test_samples_of_lm_eval_are_compared(tmp_path: Path) -> None:
    """A file, or a folder of several tasks; a score is a metric and a filter."""
    date = "2026-11-02T10-00-00.123456"
    for name, values in (("one", (1, 0, 1.0)), ("two", (0, 0, False))):
        rows = [{"exact_match,strict": value, "exact_match,flexible": 1.0, "f1,strict": 0.5} for value in values]
        for task in ("gsm8k", "arc_easy"):
            samples(tmp_path / name / f"samples_{task}_{date}.jsonl", rows)
    both = [Entrant.load(tmp_path / name, "exact_match,strict") for name in ("one", "two")]
    assert str(compare(both)).startswith("arc_easy (3 tasks), gsm8k (3 tasks); scored by exact_match,strict\n")
    assert [entrant.agent for entrant in both] == ["one", "two"]
    assert compare(both).pairs[0].paired.difference.value == pytest.approx(2 / 3)
    files = [tmp_path / name / f"samples_gsm8k_{date}.jsonl" for name in ("one", "two")]
    assert compare([Entrant.load(file, "exact_match,strict") for file in files]).tasks == 3
    runs = [Algorithm(entrant.name, [entrant]) for entrant in both]
    assert "interquartile mean" in str(compare_algorithms(runs))


def written(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_results_of_verifiers_are_compared(tmp_path: Path) -> None:
    """A folder or its file: a rollout is an attempt, one with an error is left out; another environment is refused."""
    for name, rewards in (("one", (1.0, 1.0, 1.0, 0.0)), ("two", (0.0, 1.0, 0.0, 0.0))):
        rows: list[dict[str, Any]] = [
            {"example_id": i // 2, "reward": reward, "metrics": {"turns": 3.5}, "error": None, "is_completed": True}
            for i, reward in enumerate(rewards)
        ]
        rows.append({"example_id": 2, "reward": 1.0, "error": {"error": "Timeout"}})
        written(tmp_path / name / "results.jsonl", rows)
        (tmp_path / name / "metadata.json").write_text(f'{{"env_id": "wordle", "model": "m/{name}"}}')
    both = [Entrant.load(tmp_path / "one"), Entrant.load(tmp_path / "two" / "results.jsonl")]
    comparison = compare(both)
    assert [entrant.agent for entrant in both] == ["m/one", "m/two"] and comparison.tasks == 2
    assert comparison.pairs[0].paired.difference.value == pytest.approx(0.5)
    (tmp_path / "two" / "metadata.json").write_text('{"env_id": "other"}')
    with pytest.raises(ConfigError, match="cannot be compared"):
        compare([both[0], Entrant.load(tmp_path / "two")])


def trace(key: str, reward: float, success: float, **changes: Any) -> dict[str, Any]:
    """An episode as verifiers 0.4 writes it, without its messages."""
    about = {"agent": {"config": {"model": "m/one"}}, "rewards": {"return": {"score": reward, "weight": 2.0}}}
    episode = {"env": {"id": "shop"}, "task": {"key": key}, "ok": True, "errors": []}
    return episode | {"traces": [about | {"metrics": {"success": success, "steps": 3.0}}]} | changes


def test_traces_of_verifiers_are_compared(tmp_path: Path) -> None:
    """A folder or its file: an episode is an attempt; one that failed is left out; the sum of rewards is weighted."""
    rows = [trace("a", 0.5, 1.0), trace("a", 0.0, 0.0), trace("b", 0.0, 0.0), trace("c", 0.5, 1.0, ok=False)]
    written(tmp_path / "one" / "traces.jsonl", rows)
    written(tmp_path / "two" / "traces.jsonl", [trace("b", 0.5, 1.0), trace("a", 0.5, 1.0), trace("c", 0.5, 1.0)])
    one, two = Entrant.load(tmp_path / "one", "success"), Entrant.load(tmp_path / "two" / "traces.jsonl", "success")
    assert one.agent == "m/one" and sorted(map(list, one.outcomes.values())) == [[False], [True, False]]
    assert compare([one, two]).pairs[0].paired.difference.value == -0.5, "of task a both have one attempt in common"
    assert Entrant.load(tmp_path / "one", "reward").outcomes == one.outcomes, "2 times 0.5 is 1"
    written(
        tmp_path / "odd.jsonl", [trace("a", 1.0, 1.0), trace("b", 1.0, 1.0, traces=[{"rewards": [1], "metrics": 3}])]
    )
    assert len(Entrant.load(tmp_path / "odd.jsonl", "success").outcomes) == 1, "no score, no traceback"
    for wrong, message in (
        ({"traces": []}, r"one\.jsonl:2: traces: expected one trace, found \[\]"),
        ({"task": {}}, r"one\.jsonl:2: key: expected text or a number"),
    ):
        written(tmp_path / "one.jsonl", [rows[0], trace("a", 1.0, 1.0, **wrong)])
        with pytest.raises(DataError, match=message):
            Entrant.load(tmp_path / "one.jsonl", "success")


@pytest.mark.parametrize("name", ["traces.jsonl", "results.jsonl", "metadata.json"])
def test_logs_of_verifiers_stay_in_their_folder(tmp_path: Path, name: str) -> None:
    """A link that leads out is refused."""
    folder = tmp_path / "theirs"
    written(folder / "results.jsonl", [{"example_id": 1, "reward": 1.0}])
    (folder / "metadata.json").write_text("{}")
    (tmp_path / "mine").write_text('{"model": "secret"}')
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(tmp_path / "mine")
    with pytest.raises(RunError, match="leads out of"):
        Entrant.load(folder)


def test_rows_of_ones_own_are_compared(tmp_path: Path) -> None:
    """A task and what is true or false of it, a line per attempt, in the order of the file."""
    for name, wins in (("one", (True, True, True)), ("two", (False, True, False))):
        written(tmp_path / f"{name}.jsonl", [{"task": f"t{i}", "success": win} for i, win in enumerate(wins)])
    both = [Entrant.load(tmp_path / f"{name}.jsonl") for name in ("one", "two")]
    assert compare(both).pairs[0].paired.difference.value == pytest.approx(2 / 3)
    assert compare_in_order(*both).result.difference.n == 3
    written(tmp_path / "one.jsonl", [{"task": "t0", "success": True}, {"task": None}])
    with pytest.raises(DataError, match=r"one\.jsonl:2: task: expected text or a number"):
        Entrant.load(tmp_path / "one.jsonl")


@pytest.mark.parametrize("kind", ["rows", "verifiers"])
def test_the_order_of_a_log_does_not_matter(tmp_path: Path, kind: str) -> None:
    """Programs log a task when it ends, wins first here; one log may have more tasks than the other."""

    def log(name: str, wins: dict[int, bool]) -> Entrant:
        if kind == "rows":
            written(tmp_path / f"{name}.jsonl", [{"task": f"t{i}", "success": win} for i, win in wins.items()])
            return Entrant.load(tmp_path / f"{name}.jsonl")
        written(tmp_path / name / "results.jsonl", [{"example_id": i, "reward": float(w)} for i, w in wins.items()])
        (tmp_path / name / "metadata.json").write_text(f'{{"env_id": "wordle", "model": "m/{name}"}}')
        return Entrant.load(tmp_path / name)

    first = {i: i % 2 == 0 for i in sorted(range(200), key=lambda i: i % 2)}
    second = {i: i % 2 == 1 for i in range(150)}
    one, other, shuffled = log("a", first), log("b", second), log("c", dict(sorted(first.items())))
    found = compare_in_order(one, other)
    assert found.result.difference.n == 150 and found.result.verdict == "undecided"
    again = compare_in_order(shuffled, other)
    assert again.result == found.result and again.trace == found.trace
    assert compare_in_order(other, one).result.difference.value == -found.result.difference.value
    with pytest.raises(ConfigError, match="cannot be compared"):
        compare_in_order(one, log("d", {i + 1000: True for i in range(150)}))


def test_the_score_is_chosen(tmp_path: Path) -> None:
    """The only one that is right or wrong, or the named one."""
    rows: list[dict[str, Any]] = [{"acc,none": 1, "f1,none": 0.5}, {"acc,none": 0, "f1,none": 1.0}]
    path = samples(tmp_path / "samples_x.jsonl", rows)
    assert Entrant.load(path).manifest["score"] == "acc,none"
    for score, message in (("em", "no score=em; there are acc,none, f1,none"), ("f1,none", "one has 0.5")):
        with pytest.raises(DataError, match=message):
            Entrant.load(path, score)
    samples(tmp_path / "samples_x.jsonl", [{"acc,none": 1, "acc_norm,none": 0}])
    with pytest.raises(DataError, match=r"samples_x\.jsonl: several scores; choose one with score: acc,none, acc_"):
        Entrant.load(path)
    samples(tmp_path / "samples_x.jsonl", [{"f1,none": 0.5}])
    with pytest.raises(DataError, match="no score is right or wrong in every sample; there are f1,none"):
        Entrant.load(path)
    (tmp_path / "a.eval").write_bytes(
        archive({"header.json": HEADER, "summaries.json": summaries([[{"x": "C", "y": 0.25}], [{"x": "I", "y": "P"}]])})
    )
    assert Entrant.load(tmp_path / "a.eval").manifest["score"] == "match/x"


def test_success_is_the_score_by_default(tmp_path: Path) -> None:
    """If several scores are right or wrong, such as those of the bridge to Inspect; the tables name another one."""
    values = [[{"success": "C", "return": 0.0}], [{"success": "I", "return": 1.0}]]
    both = [log(tmp_path / name, values) for name in ("a.eval", "b.eval")]
    found = compare([Entrant.load(path) for path in both])
    assert "scored by match/success" in str(found) and "| success [95 %] |" in str(found)
    assert found.as_dict()["score"] == "match/success"
    assert ", scored by match/success, looked at" in str(compare_in_order(*found.entrants))
    other = [Entrant.load(path, "match/return") for path in both]
    assert "| match/return [95 %] |" in str(compare(other))
    runs = [Algorithm(entrant.name, [entrant]) for entrant in other]
    assert "| match/return, interquartile mean [95 %] |" in str(compare_algorithms(runs))


def test_a_folder_with_one_log_stands_for_it(tmp_path: Path) -> None:
    """Of several, one must be named; rows and an evaluation of our own in the folder come first."""
    folder = tmp_path / "logs"
    folder.mkdir()
    one = log(folder / "a.eval", [["C"], ["I"]])
    assert Entrant.load(folder).outcomes == Entrant.load(one).outcomes
    log(folder / "b.eval", [["C"], ["I"]])
    with pytest.raises(DataError, match=r"logs holds 2 logs of Inspect; name one of them, such as .*b\.eval$"):
        Entrant.load(folder)
    (folder / "manifest.json").write_text("{}")
    assert not foreign.is_foreign(folder)
    samples(folder / "samples_x.jsonl", [{"acc,none": 1}])
    assert Entrant.load(folder).manifest["score"] == "acc,none"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"header.json": HEADER}, "header.json or summaries.json is missing"),
        ({"header.json": HEADER | {"status": "error"}, "summaries.json": []}, "did not finish: its status is 'error'"),
        ({"header.json": HEADER | {"eval": []}, "summaries.json": []}, "header.json: eval: expected an object"),
        ({"header.json": HEADER, "summaries.json": {}}, "summaries.json: expected a list"),
        ({"header.json": HEADER, "summaries.json": [{}]}, r"summaries.json\[0\]: id: expected text or a number"),
        ({"header.json": HEADER, "summaries.json": [{"id": 1, "scores": [1]}]}, r"summaries.json\[0\]: scores:"),
        ({"header.json": HEADER, "summaries.json": []}, "no sample has a score"),
        ({"header.json": b"[" * 100_000, "summaries.json": []}, "header.json: no JSON"),
        ({"header.json": b"\xff", "summaries.json": []}, "header.json: no JSON"),
    ],
)
def test_a_wrong_log_is_one_line(tmp_path: Path, files: Mapping[str, Any], message: str) -> None:
    """The log, the file within it and the key."""
    path = tmp_path / "a.eval"
    path.write_bytes(archive(files))
    with pytest.raises(DataError, match=rf"a\.eval: .*{message}"):
        Entrant.load(path)


@pytest.mark.parametrize("zstd", [False, True])
def test_no_log_fills_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zstd: bool) -> None:
    """A file that unpacks to more than the limit is refused, whatever size the archive claims."""
    monkeypatch.setattr("agentgym_py.evaluation.foreign.inspect.MOST_JSON", 1 << 20)
    path = tmp_path / "a.eval"
    for size, message in ((None, "summaries.json has more than 1 MiB"), (100, "summaries.json|header.json|no log")):
        files = {"header.json": HEADER, "summaries.json": b" " * (8 << 20)}
        path.write_bytes(archive(files, zstd=zstd, size=size))
        with pytest.raises(DataError, match=message):
            Entrant.load(path)


def test_a_number_beyond_all_others_is_no_score(tmp_path: Path) -> None:
    """JSON has integers that no float holds."""
    path = tmp_path / "samples_x.jsonl"
    path.write_text('{"doc_id": 1, "filter": "f", "metrics": ["acc", "f1"], "acc": 1, "f1": 1' + "0" * 400 + "}\n")
    assert Entrant.load(path).outcomes == {("x", "{}", "1/"): [True]}


def test_a_damaged_log_is_one_line(tmp_path: Path) -> None:
    """Cut, changed, encrypted or compressed by an unknown method."""
    whole = archive({"header.json": HEADER, "summaries.json": summaries([["C"]])}, zstd=True)
    name = whole.index(b"PK\x01\x02")
    encrypted, unknown, changed = bytearray(whole), bytearray(whole), bytearray(whole)
    encrypted[name + 8] |= 1
    unknown[8] = unknown[name + 10] = 98
    changed[60] ^= 0xFF
    for data in (whole[:-30], whole[:40], encrypted, unknown, changed):
        (tmp_path / "a.eval").write_bytes(bytes(data))
        with pytest.raises(DataError, match=r"a\.eval: "):
            Entrant.load(tmp_path / "a.eval")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"doc_id": 1}\n', r"samples_x\.jsonl:1: no sample of lm-eval"),
        ('{"steps": [], "provenance": {}}\n', r"samples_x\.jsonl: trajectories of agentgym; name the folder"),
        ('{"version": 2, "status": "success"}\n', "expected the keys doc_id and metrics, found status, version"),
        ('{"task_id": "a", "success": 1}\n', "lines of your own have the keys task and success$"),
        ('{"task": "a"}\n', r"samples_x\.jsonl: no sample has a score: a number, true or false$"),
        (
            '{"version": 2, "status": "success", "eval": {}}\n',
            "`inspect log convert` writes one from it",
        ),
        ('{"steps": [], "provenance": {}}\n', "Episodes of agentgym collect are no evaluation: use agentgym eval"),
        ("x\n", r"samples_x\.jsonl:1: no JSON"),
        ('{"doc_id": 1, "filter": "f", "metrics": ["acc"], "acc": 1}\n' * 2, "sample 1/ has two values of acc,f"),
    ],
)
def test_a_wrong_sample_names_itself(tmp_path: Path, text: str, message: str) -> None:
    """File, line and key."""
    path = tmp_path / "samples_x.jsonl"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        Entrant.load(path)


def test_a_log_of_inspect_as_json_is_named(tmp_path: Path) -> None:
    """As Inspect writes it, over many lines."""
    path = tmp_path / "log.json"
    path.write_text(json.dumps({"version": 2, "status": "success", "eval": {"task": "t"}, "samples": []}, indent=2))
    with pytest.raises(DataError, match=r"log\.json: a log of Inspect as JSON, and \.eval is what can be read"):
        Entrant.load(path)


def test_a_folder_with_a_task_twice_is_refused(tmp_path: Path) -> None:
    """Two evaluations are not mixed."""
    for date in ("2026-11-02T10-00-00.1", "2026-11-03T10-00-00.1"):
        samples(tmp_path / f"samples_x_{date}.jsonl", [{"acc,none": 1}])
    with pytest.raises(DataError, match="holds two evaluations of x"):
        Entrant.load(tmp_path)
