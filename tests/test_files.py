"""Folders and files that come from a stranger: nothing leads out of them, nothing hangs."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import agentgym_py
from agentgym_py import files
from agentgym_py.cli.parser import UsageError, read_yaml
from agentgym_py.env import EnvSpec
from agentgym_py.errors import AgentGymError, DataError, InfrastructureError, RunError
from agentgym_py.evaluation.folder import EvalFolder
from agentgym_py.evolution.run_folder import RunFolder
from agentgym_py.feedback import store as feedback
from agentgym_py.feedback import verdicts
from agentgym_py.feedback.types import EpisodeRef
from agentgym_py.files import (
    DEEPEST,
    JsonFolder,
    append_line,
    files_below,
    inside,
    load_json,
    new_folder,
    parse_json,
    parse_yaml,
    read_text,
    reading,
    replacing,
    require_inside,
    require_ordinary,
    walk,
    write_atomic,
)
from agentgym_py.http_client import MOST_ANSWER_VALUES, read_json
from agentgym_py.retrieval import ToolIndex
from agentgym_py.rewards.judge_client import read_pairs
from agentgym_py.serving.client import parse_answer
from agentgym_py.trajectory import Trajectory, store
from agentgym_py.trajectory.reading import detect, episode_files, read_any
from agentgym_py.viewer import index
from agentgym_py.viewer.index import Index
from agentgym_py.viewer.live import checkpoints
from agentgym_py.viewer.source import Source


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder beside a file that it must not reach."""
    (tmp_path / "precious").write_text("{}")
    (tmp_path / "theirs" / "rounds").mkdir(parents=True)
    return tmp_path / "theirs"


def link(folder: Path) -> None:
    """To a file outside."""
    (folder / "x").symlink_to("../precious")


def dangling(folder: Path) -> None:
    """To a file that would be created."""
    (folder / "x").symlink_to("../created")


def linked_folder(folder: Path) -> None:
    """To a folder outside."""
    (folder / "rounds" / "x").symlink_to(folder.parent)


def circle(folder: Path) -> None:
    """To itself."""
    (folder / "x").symlink_to("x")


def pipe(folder: Path) -> None:
    """Whoever opens it waits."""
    os.mkfifo(folder / "x")


def holes(folder: Path) -> None:
    """A terabyte that takes no room on the disk."""
    (folder / "x").touch()
    os.truncate(folder / "x", 1 << 40)


@pytest.mark.skipif(os.name != "posix", reason="links and pipes of POSIX")
@pytest.mark.parametrize("trap", [link, dangling, linked_folder, circle, pipe, holes])
def test_nothing_of_a_folder_leads_out_of_it(trap: Callable[[Path], None], folder: Path) -> None:
    """A run is not opened, and no folder is locked for writing; nothing outside changes."""
    write_atomic(folder / "run.yaml", "rounds: 1\n")
    RunFolder.open(folder)
    trap(folder)
    with pytest.raises(RunError, match=r"leads out of|no ordinary file|cannot be read"):
        RunFolder.open(folder)
    for kind in (JsonFolder, EvalFolder):
        with pytest.raises(RunError), kind(folder).locked():
            pass
    assert (folder.parent / "precious").read_text() == "{}" and not (folder.parent / "created").exists()


@pytest.mark.parametrize("name", ["../precious", "/etc/passwd", "rounds/../../precious", "a\0b"])
def test_no_name_leads_out_of_a_folder(name: str, folder: Path) -> None:
    """Neither relative nor absolute."""
    with pytest.raises(RunError):
        inside(folder, name)
    with pytest.raises(RunError):
        JsonFolder(folder).read_json(name)


def test_a_file_that_is_not_there_is_named_once(folder: Path) -> None:
    """With the reason in words, without its number."""
    with pytest.raises(RunError) as error:
        JsonFolder(folder).read_json("none.json")
    assert str(error.value) == f"{folder / 'none.json'} cannot be read: No such file or directory"


def test_a_new_folder_is_neither_a_file_nor_full(folder: Path) -> None:
    """The error says which, and what to do."""
    (folder / "a").write_text("x")
    with pytest.raises(RunError, match=r"a is a file; choose another name for the folder$"):
        new_folder(folder / "a")
    with pytest.raises(RunError, match=r"already holds other files; choose another folder$"):
        new_folder(folder)
    (folder / "run.yaml").write_text("rounds: 1")
    with pytest.raises(RunError, match=r"already holds a run; choose another folder$"):
        new_folder(folder)
    assert new_folder(folder / "none") == folder / "none"


def test_a_thousand_folders_in_folders_end_no_walk(folder: Path, episode: Callable[..., Trajectory]) -> None:
    """The viewer shows what lies above them, and other commands say it."""
    store.write(folder / "a.jsonl", [episode("a")])
    places = [f"{folder}{'/b' * depth}" for depth in range(1, 1200)]
    for place in places:
        os.mkdir(place)  # noqa: PTH102  # Path.mkdir would make a long list of parents
    try:
        with pytest.raises(RunError, match="has folders in folders, more than 64 levels"):
            require_inside(folder)
        assert Source.from_paths([folder]).files() == [folder / "a.jsonl"] and checkpoints(folder) == []
        with pytest.raises(DataError, match=r"a folder, not a file; name one of .*a\.jsonl"):
            store.require_file(folder)
        assert len(list(walk(folder))) == 2 + DEEPEST
    finally:
        for place in reversed(places):  # pytest's own removal calls itself for each level, too
            os.rmdir(place)  # noqa: PTH106


def test_a_journal_that_names_a_file_is_refused(folder: Path) -> None:
    """SQLite, in a library that tracks a run, would delete that file; other journals are those of killed processes."""
    journal = folder / "rounds" / "track.db-journal"
    journal.write_bytes(b"\0" * 600)
    require_inside(folder)
    journal.write_bytes(b"\0" * 600 + b"/home/x/.bashrc" + bytes.fromhex("0000000f00000551d9d505f920a163d7"))
    with pytest.raises(RunError, match="names a file elsewhere, which SQLite would delete"):
        require_inside(folder)


def test_a_search_for_files_ends(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger's settings may name `/` as the folder of a world's games or recipes."""
    for name in ("b/x.json", "a/y.json", "a/z.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    assert files_below(folder, ".json") == [folder / "a/y.json", folder / "b/x.json"]
    monkeypatch.setattr("agentgym_py.files.folders.MOST_ENTRIES", 3)
    with pytest.raises(RunError, match="has more than 3 files and folders"):
        files_below(folder, ".json")
    for world in ({"recipes": str(folder)}, {"games": str(folder)}):
        with pytest.raises(RunError, match="has more than 3 files and folders"):
            EnvSpec("textcraft" if "recipes" in world else "household", world).make()


def test_links_within_a_folder_are_followed(folder: Path) -> None:
    """Also if the folder itself is reached by a link."""
    (folder / "a").write_text("{}")
    (folder / "b").symlink_to("a")
    (folder.parent / "mine").symlink_to(folder)
    require_inside(folder.parent / "mine")
    assert JsonFolder(folder.parent / "mine").read_json("b") == {}


def test_a_temporary_file_is_not_written_through_a_link(folder: Path) -> None:
    """Its name can be guessed."""
    (folder / f".a.{os.getpid()}.tmp").symlink_to("../precious")
    write_atomic(folder / "a", "new")
    assert (folder / "a").read_text() == "new" and (folder.parent / "precious").read_text() == "{}"


def _append(path: Path) -> None:
    append_line(path, b"new")


def _collect(path: Path) -> None:
    store.TrajectoryWriter(path).close()


def _judge(path: Path) -> None:
    refs = [EpisodeRef("a", "b")]
    feedback.FeedbackFile(path, feedback.header_of("x", {}, refs, {}))


@pytest.mark.parametrize("write", [_append, _collect, _judge])
def test_no_file_is_changed_through_a_hard_link(write: Callable[[Path], None], tmp_path: Path) -> None:
    """An unpacked archive may have one to a file outside, and a copy by `cp -al` has one for each file."""
    path, other = tmp_path / "x.jsonl", tmp_path / "other.jsonl"
    write(path)
    with path.open("ab") as file:
        file.write(b'{"torn')
    other.hardlink_to(path)
    before = other.read_bytes()
    with pytest.raises(OSError, match="it has hard links"):
        write(path)
    assert other.read_bytes() == before
    other.unlink()
    write(path)  # the last name changes nothing else


def test_files_that_are_replaced_leave_hard_links_as_they_are(tmp_path: Path) -> None:
    """The new file takes the name; the old one keeps its others."""
    (tmp_path / "other").write_text("old")
    vectors = ("features.npy", "tools.npy")
    for name in ("a", "b", f"b.{os.getpid()}.partial", f".a.{os.getpid()}.tmp", *vectors):
        (tmp_path / name).hardlink_to(tmp_path / "other")
    write_atomic(tmp_path / "a", "new")
    with replacing(tmp_path / "b") as partial:
        partial.write_text("new")
    ToolIndex.of({"x": "y"}, np.ones((8, 4), np.float32)).save(tmp_path)
    assert (tmp_path / "other").read_text() == "old" and (tmp_path / "other").stat().st_nlink == 1
    assert all((tmp_path / name).read_bytes() != b"old" for name in ("a", "b", *vectors))


def test_two_processes_that_replace_a_file_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each writes a file of its own; the one that ends last has the name."""
    target, process = tmp_path / "a", os.getpid()
    with replacing(target) as partial, partial.open("w") as file:
        file.write("one, ")
        monkeypatch.setattr(os, "getpid", lambda: process + 1)
        with replacing(target) as other:
            other.write_text("two")
        assert target.read_text() == "two"
        file.write("whole")
    assert target.read_text() == "one, whole" and [*tmp_path.iterdir()] == [target]


def test_a_json_file_holds_half_a_surrogate_pair(tmp_path: Path) -> None:
    """As in the name of a file that is not UTF-8; other texts are written as they are."""
    folder, value = JsonFolder(tmp_path), {"é🙂": ["\udcff", "\ud83d x"]}
    folder.write_json("a.json", value)
    assert folder.read_json("a.json") == value and "é🙂" in (tmp_path / "a.json").read_text(encoding="utf-8")


def test_a_lock_removes_what_a_killed_process_left(tmp_path: Path) -> None:
    """Files, folders, and links without what they lead to."""
    (tmp_path / "run" / ".checkpoint.7.tmp" / "state").mkdir(parents=True)
    (tmp_path / "run" / ".a.7.tmp").touch()
    (tmp_path / "run" / "kept").mkdir()
    (tmp_path / "run" / ".b.7.tmp").symlink_to(tmp_path / "run" / "kept")
    with JsonFolder(tmp_path / "run").locked():
        assert {path.name for path in (tmp_path / "run").iterdir()} == {".lock", "kept"}
    (tmp_path / "run" / "a.jsonl.7.partial").touch()
    files.remove_partial_files(tmp_path / "run")
    assert {path.name for path in (tmp_path / "run").iterdir()} == {".lock", "kept"}


BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join(10 * [f'*{old}'])}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_or_a_device_is_not_replaced(tmp_path: Path) -> None:
    """Root could put a file in the place of /dev/zero, and all other programs would read that."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="it is no ordinary file"):
        write_atomic(pipe, "new")
    with pytest.raises(OSError, match="it is no ordinary file"), replacing(pipe) as partial:
        partial.write_text("new")
    assert stat.S_ISFIFO(pipe.stat().st_mode) and [*tmp_path.iterdir()] == [pipe]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_nothing_is_appended_to_a_pipe_or_a_device(tmp_path: Path, no_waiting: None) -> None:
    """A pipe would wait for a reader, and a device would lose it."""
    pipe, device = tmp_path / "pipe", tmp_path / "device"
    os.mkfifo(pipe)
    device.symlink_to("/dev/null")
    for path in (pipe, device):
        with pytest.raises(OSError, match="it is no ordinary file"):
            append_line(path, b"new")
        with pytest.raises(OSError, match="it is no ordinary file"):
            store.TrajectoryWriter(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nstages: [\n  b: c: d\n", "line 3, column 7: expected ',' or ']', but got ':'"),
        ("a: b: c", "line 1, column 5: mapping values are not allowed here"),
        ("a: !!python/object:os.system", "line 1, column 4: could not determine a constructor"),
        ("a: \x01", "unacceptable character #x0001: special characters are not allowed in position 3"),
    ],
)
def test_errors_of_yaml_name_the_line(text: str, message: str) -> None:
    """The message is short, and does not call the file a string."""
    with pytest.raises(ValueError) as caught:
        parse_yaml(text)
    assert message in str(caught.value) and "<" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        BOMB, "&a {x: *a}", "&a [*a]", "[" * 1000, "{a: " * 1000, "1" * 5000, "- 2020-99-99", "a: !!bool maybe",
        "a: !!int ''", "a: !!float x", "a: !!timestamp x", "a: !!binary é", "a: 0x" + 5000 * "f",
        "a: 1" + 80_000 * ":1", "a: 1" + 400 * ":1" + ".5", "a: !!set [1]", "a: !!omap {b: 1}", "a: !!pairs x",
        "? [a]\n: 1",
    ],
    ids=lambda text: text[:16],
)  # fmt: skip
def test_no_yaml_fills_the_memory(text: str, folder: Path) -> None:
    """Aliases, values within themselves, deep nesting, long numbers, tags that do not fit: errors of one line."""
    (folder / "run.yaml").write_text(text)
    with pytest.raises(ValueError):
        parse_yaml(text)
    with pytest.raises(UsageError, match="is not readable as YAML"):
        read_yaml(str(folder / "run.yaml"))
    with pytest.raises(AgentGymError, match="is broken"):
        RunFolder(folder).stored_config()


def test_a_yaml_that_takes_minutes_to_parse_is_refused(folder: Path) -> None:
    """Python parses some 100,000 values a second."""
    (folder / "run.yaml").write_text("x:\n" + "- a\n" * 1_000_000)
    with pytest.raises(AgentGymError, match="is broken: it has more than 1 MiB of YAML"):
        RunFolder(folder).stored_config()


VALUES_MANY = b'{"x": [' + b"[]," * files.MOST_VALUES + b"[]]}"
"""Three bytes a value, which takes 25 times as much of the memory."""


def test_values_without_number_fill_no_memory(tmp_path: Path) -> None:
    """A file below the limit of size is refused before it is parsed, wherever JSON is read."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(VALUES_MANY + b"\n")
    many = f"it has more than {files.MOST_VALUES} values"
    with pytest.raises(ValueError, match=many):
        load_json(path)
    readers: tuple[Callable[[Path], object], ...] = (
        lambda path: list(store.read(path)), lambda path: list(read_any(path, "agenttraj")),
    )  # fmt: skip
    for read in readers:
        with pytest.raises(DataError, match=many):
            read(path)
    assert many in store.verify(path).bad[1]
    with pytest.raises(RunError, match=many):
        JsonFolder(tmp_path).read_json(path.name)
    answer = VALUES_MANY[: MOST_ANSWER_VALUES * 3 + 30] + b"]}"
    assert read_json(answer) is None
    with pytest.raises(InfrastructureError, match="is not an environment server"):
        parse_answer("http://x", 200, answer)
    assert files.parse_json(b'{"a": ",,,,,[[[["}', most=18) == {"a": ",,,,,[[[["}
    with pytest.raises(ValueError, match="more than 2 values"):
        files.parse_json("[1, 2, 3]", most=2)


def test_small_aliases_are_read() -> None:
    """As `yaml.safe_dump` writes them for values that stand in several places."""
    assert parse_yaml("a: &x [1, 2]\nb: *x\n") == {"a": [1, 2], "b": [1, 2]}
    assert parse_yaml("") is None


@pytest.mark.parametrize("text", ["[" * 100_000, "1" * 5000, "[1]", "{"])
def test_no_json_file_ends_in_a_traceback(text: str, folder: Path) -> None:
    """One RunError."""
    (folder / "metrics.json").write_text(text)
    with pytest.raises(RunError):
        JsonFolder(folder).read_json("metrics.json")


WALL_CLOCK = {"feedback/verdicts.py": 1, "cli/runtime.py": 1, "cli/eval.py": 1, "http_client.py": 1}
"""Modules that read the wall clock, to write it down, or for a date of another server; and how often."""


def test_nothing_is_ordered_or_measured_by_the_wall_clock() -> None:
    """A clock that is set back changes no duration, no order and no name of a file."""
    root, found = Path(agentgym_py.__file__).parent, dict[str, int]()
    folders = [root, root.parent / "trainers", root.parent / "envs"]
    for path in (path for folder in folders for path in folder.rglob("*.py")):
        text = path.read_text("utf-8")
        if reads := re.findall(r"\btime\.time(?:_ns)?\(|datetime\.now\(|date\.today\(|time\.localtime\(", text):
            found[path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name] = len(reads)
    assert found == WALL_CLOCK


# ---- what has no end -------------------------------------------------------------------------------------------------

posix = pytest.mark.skipif(os.name != "posix", reason="pipes and sparse files of POSIX")
LIMIT = 1 << 20


@pytest.fixture
def no_waiting() -> Iterator[None]:
    """Fail after a minute instead of waiting for a pipe."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it waits"))
    signal.alarm(60)
    yield
    signal.alarm(0)


@pytest.fixture
def sparse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of 64 GiB that takes no room on the disk."""
    for module in (reading, store, feedback, index):
        monkeypatch.setattr(module, "MOST_BYTES", LIMIT)
    path = tmp_path / "a.jsonl"
    with path.open("wb") as file:
        file.truncate(64 << 30)
    return path


@posix
def test_a_sparse_file_fills_no_memory(sparse: Path) -> None:
    """Settings, results, stores, feedback, verdicts and answers: it is refused before it is read."""
    readers: tuple[Callable[[Path], object], ...] = (
        read_text, load_json, lambda path: RunFolder(path.parent).read_json(path.name),
        lambda path: read_pairs(path, "x"),
    )  # fmt: skip
    for read in readers:
        with pytest.raises((OSError, RunError), match="it has more than 1 MiB"):
            read(sparse)
    for read in (lambda path: list(store.read(path)), feedback.read_feedback):
        with pytest.raises(DataError, match=r"a\.jsonl:1: .* of more than 1 MiB"):
            read(sparse)
    assert store.verify(sparse).bad == {1: "an episode of more than 1 MiB"}
    with pytest.raises(DataError, match="nothing was changed"):
        store.append(sparse, [])
    sparse.rename(sparse.with_name(verdicts.FILE))
    with pytest.warns(UserWarning, match="left out"):
        assert not verdicts.read(sparse.parent).preferences


@posix
def test_a_sparse_end_spoils_no_other_line(sparse: Path, episode: Callable[..., Trajectory]) -> None:
    """The episodes before it are verified, salvaged and shown; an episode as long is not written."""
    sparse.unlink()
    store.append(sparse, [episode("a")])
    with sparse.open("ab") as file:
        file.truncate(64 << 30)
    assert store.verify(sparse).episodes == 1
    assert store.salvage(sparse, sparse.with_name("b.jsonl")).bad == {2: "an episode of more than 1 MiB"}
    assert list(store.read(sparse.with_name("b.jsonl"))) == [episode("a")]
    with closing(Index(Source.from_paths([sparse]))) as shown:
        shown.update()
        assert shown.find()[0] == 1 and [line.why for line in shown.broken()] == ["an episode of more than 1 MiB"]
    with pytest.raises(DataError, match="an episode of more than 1 MiB"):
        store.to_line(episode("x" * LIMIT))


@posix
@pytest.mark.usefixtures("no_waiting")
def test_a_pipe_is_not_waited_for(folder: Path) -> None:
    """Neither as a named file, nor in a folder that is named in place of a file, nor in a model's."""
    os.mkfifo(folder / "a.jsonl")
    for read in (store.read, detect, feedback.read_feedback):
        for path in (folder, folder / "a.jsonl"):
            with pytest.raises(DataError):
                read(path)
    with pytest.raises(OSError, match="no ordinary file"):
        read_text(folder / "a.jsonl")
    with pytest.raises(OSError, match="no ordinary file"):
        read_pairs(folder / "a.jsonl", "x")
    with pytest.raises(RunError, match="no ordinary file"):
        require_ordinary(folder)
    with pytest.raises(RunError, match="no ordinary file"):
        require_ordinary(folder.parent)
    require_ordinary(folder / "rounds")


def test_a_file_of_something_else_is_no_file_of_answers(tmp_path: Path) -> None:
    """Only a line of answers that was cut off is removed."""
    path = tmp_path / "answers.jsonl"
    path.write_text('{"key": "a", "mark": 1}\n{"key": "b", "ma')
    assert read_pairs(path, "mark") == {"a": 1} and path.read_text() == '{"key": "a", "mark": 1}\n'
    for content in (b"alias a=b\nalias x=y", b"\xff\n"):
        path.write_bytes(content)
        with pytest.raises(DataError, match="no file of answers"):
            read_pairs(path, "mark")
        assert path.read_bytes() == content


@posix
def test_episodes_of_a_run_are_not_read_through_a_link(folder: Path, episode: Callable[..., Trajectory]) -> None:
    """Those of its rounds, which a command reads in place of the folder."""
    store.write(folder / "secret.jsonl", [episode("a")])
    (folder / "run" / "rounds" / "01").mkdir(parents=True)
    (folder / "run" / "rounds" / "01" / "trajectories.jsonl").symlink_to("../../../secret.jsonl")
    with pytest.raises(RunError, match="leads out of"):
        episode_files(str(folder / "run"))
    assert episode_files(str(folder / "secret.jsonl")) == [str(folder / "secret.jsonl")]


def test_signs_within_strings_are_no_values() -> None:
    """A text of a million commas is one value; one without its end is not searched again and again."""
    for text in ('["' + ",[{" * 20 + '", "\\\\", "\\",[{,"]', '{"a": "' + "," * 40 + '"}'):
        assert parse_json(text, most=4) == parse_json(text.encode(), most=4) == json.loads(text)
    for text in ("[" + "1," * 5 + "1]", '["a", "b", ",", "\\"", [], {}]'):
        for same in (text, text.encode()):
            with pytest.raises(ValueError, match="more than 4 values"):
                parse_json(same, most=4)
    with pytest.raises(ValueError, match="Unterminated string"):
        parse_json('"' + ',\\"' * 1_000_000, most=4)


@posix
def test_an_evaluation_is_not_read_through_a_link(folder: Path) -> None:
    """As a run is not."""
    for name in ("manifest.json", "result.json"):
        (folder / name).write_text("{}")
    (folder / "trajectories.jsonl").symlink_to("../precious")
    with pytest.raises(RunError, match="leads out of"):
        EvalFolder.finished(folder)
