"""What files of strangers may make a command do: nothing that its user has not named."""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentgym_py import trust
from agentgym_py.cli import COMMANDS, build_parser, main
from agentgym_py.env import registration
from agentgym_py.errors import AgentGymError, ConfigError
from agentgym_py.evaluation.first_fault import worlds_of
from agentgym_py.registry import source_digest
from agentgym_py.trajectory import Step, Trajectory, store
from agentgym_py.trajectory.types import Provenance

Run = Callable[..., tuple[int, str]]
ADDRESS = "http://stranger.invalid:8000"


@pytest.fixture(autouse=True)
def forget_sources(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Other tests do not find this test's folder."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv(registration.SOURCES, "")
    yield


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command line in an empty folder; a request to any server fails the test."""
    monkeypatch.chdir(tmp_path)

    def contacted(*_: Any, **__: Any) -> None:
        pytest.fail("a server was contacted")

    monkeypatch.setattr(http.client.HTTPConnection, "connect", contacted)

    def command(*argv: str) -> tuple[int, str]:
        status = main(list(argv))
        return status, "".join(capsys.readouterr())

    return command


def episode(env_id: str, **env_kwargs: Any) -> Trajectory:
    """A stored episode that names a world."""
    origin = Provenance(env_id, 0, env_kwargs, "t", 0, "expert")
    return Trajectory("a", origin, "train", "", "", "", "", (), "", 0.0, False, None)


def evil(name: str) -> Path:
    """A world's file that leaves a trace when it is run."""
    path = Path(name)
    path.write_text("from pathlib import Path\nPath('ran').touch()\n")
    return path.absolute()


def as_config(env: str, kwargs: dict[str, Any]) -> list[str]:
    """A file of options."""
    Path("c.yaml").write_text(yaml.safe_dump({"env": env, "env_kwargs": kwargs}))
    return ["collect", "--config", "c.yaml", "--agent", "random", "--out", "o.jsonl"]


def as_pipeline(env: str, kwargs: dict[str, Any]) -> list[str]:
    """A pipeline's file."""
    stage = {"stage": "collect", "agent": "random", "env": env, "env_kwargs": kwargs}
    Path("p.yaml").write_text(yaml.safe_dump({"out": "made", "stages": [stage]}))
    return ["pipeline", "p.yaml"]


def as_manifest(env: str, kwargs: dict[str, Any]) -> list[str]:
    """The manifest of an evaluation, changed."""
    assert main(["eval", "--env", "maze", "--agent", "random", "--tasks", "1", "--out", "e"]) == 0
    manifest = json.loads(Path("e/manifest.json").read_text())
    manifest["options"] |= {"env": [env], "env_kwargs": kwargs}
    Path("e/manifest.json").write_text(json.dumps(manifest))
    return ["eval", "--manifest", "e"]


def as_run(env: str, kwargs: dict[str, Any]) -> list[str]:
    """A run folder that can be resumed."""
    pytest.importorskip("torch")
    Path("r").mkdir()
    Path("r/provenance.json").write_text("{}")
    settings = {"env": [env], "env_kwargs": kwargs, "trainer": {"name": "filtered_bc"}}
    Path("r/run.yaml").write_text(yaml.safe_dump(settings))
    return ["evolve", "--resume", "r"]


FILES = pytest.mark.parametrize("file", [as_config, as_pipeline, as_manifest, as_run])


@FILES
def test_no_server_of_a_file_is_contacted(file: Callable[..., list[str]], run: Run) -> None:
    """One line names the host and the option; with it, the command gets as far as the connection."""
    argv = file("remote", {"url": ADDRESS, "env": "shop"})
    status, said = run(*argv)
    assert status == 2 and "if you trust it, add --trust stranger.invalid" in said, said
    with pytest.raises(BaseException, match="a server was contacted"):
        run(*argv, "--trust", "stranger.invalid")


@FILES
@pytest.mark.parametrize("source", ["evil_of_files.py", "./evil_of_files.py:World", "evil_of_files:World"])
def test_no_python_of_a_file_is_run(file: Callable[..., list[str]], source: str, run: Run) -> None:
    """Neither a file nor a module."""
    evil("evil_of_files.py")
    status, said = run(*file(source, {}))
    assert status == 2 and "is Python source that a file names" in said, said
    assert not Path("ran").exists()


@pytest.mark.parametrize("command", [["evolve", "--resume", "r"], ["eval", "--manifest", "e"]])
def test_no_other_file_is_read_as_a_source_of_a_run(command: list[str], run: Run, monkeypatch: Any) -> None:
    """Nor may a stranger learn its digest; a file that the command line names is read up to a limit."""
    Path("secret.txt").write_text("x")
    if command[0] == "eval":
        as_manifest("maze", {})
        file = Path("e/manifest.json")
    else:
        as_run("maze", {})
        file = Path("r/provenance.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | {"sources": {str(Path("secret.txt").absolute()): "0"}}))
    status, said = run(*command)
    assert status == 2 and "secret.txt is Python source that a file names" in said.replace("\n", " "), said
    with trust.naming(["--trust", "pkg.mod"]):
        trust.require_source_file("/a/pkg/mod.py")
        trust.require_source_file("/a/pkg/mod/__init__.py")
        for wrong in ("/a/other/mod.py", "/a/xpkg/mod.py", "secret.txt"):
            with pytest.raises(ConfigError, match="--trust"):
                trust.require_source_file(wrong)
    monkeypatch.setattr("agentgym_py.files.reading.MOST_BYTES", 10)
    Path("long.py").write_text("x = 'a long text'")
    with pytest.raises(OSError, match="it has more than"):
        source_digest(Path("long.py"))


@pytest.mark.parametrize("key", ["agent", "trainer"])
def test_no_agent_or_trainer_of_a_file_is_run(key: str, run: Run) -> None:
    """They are sources, too."""
    evil("evil_of_agents.py")
    Path("c.yaml").write_text(yaml.safe_dump({key: "evil_of_agents.py"}))
    status, said = run(*(["eval"] if key == "agent" else ["evolve"]), "--config", "c.yaml")
    assert status == 2 and "is Python source that a file names" in said, said
    assert not Path("ran").exists()


@pytest.mark.parametrize("key", ["base_url", "agent_kwargs"])
def test_no_key_is_sent_to_an_endpoint_of_a_file(key: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever setting holds the address; OPENAI_BASE_URL names a host, too."""
    pytest.importorskip("httpx2")
    address = f"{ADDRESS}/v1"
    setting = {key: address if key == "base_url" else {"base_url": address}}
    Path("c.yaml").write_text(yaml.safe_dump({"agent": "openai", "model": "m", "env": "maze", "tasks": 1, **setting}))
    status, said = run("eval", "--config", "c.yaml")
    assert status == 2 and "if you trust it, add --trust stranger.invalid" in said, said
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    with trust.naming([]):
        trust.require_host(address)


def test_the_list_of_a_pipeline_contacts_nobody(run: Run) -> None:
    """Also no server on this machine, and it is shown all the same."""
    status, said = run(*as_pipeline("remote", {"url": "http://127.0.0.1:9", "env": "shop"}), "--list")
    assert status == 0 and "agentgym collect" in said, said


@pytest.mark.parametrize(
    "env_id",
    [
        "evil_of_episodes.py", "evil_of_episodes:World", "agentgym_py.serving.client:RemoteEnv", "remote",
        "AgentRemote-v0", "CartPole-v1", "GymV26Environment-v0", "phys2d/CartPole-v1", "nowhere",
    ],
)  # fmt: skip
def test_a_trajectory_names_only_text_worlds(env_id: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else is imported or made, in a command or in Python."""
    import gymnasium

    evil("evil_of_episodes.py")
    monkeypatch.setattr(gymnasium, "make", lambda *_, **__: pytest.fail("something was made"))
    store.write("a.jsonl", [episode(env_id, url=ADDRESS)])
    assert run("replay", "a.jsonl")[0] == 1
    assert run("view", "a.jsonl", "--export", "page.html")[0] == 0
    failed = replace(episode(env_id), steps=(Step("o", "r", "", "a", None, 0.0, True),))
    assert worlds_of([failed]) == []
    with pytest.raises(AgentGymError):
        episode(env_id).env_spec()
    assert not Path("ran").exists()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Models that the hub was asked for; it has none."""
    huggingface_hub, asked = pytest.importorskip("huggingface_hub"), list[str]()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub, "file_exists", lambda name, *_: asked.append(name))
    return asked


@pytest.mark.parametrize("setting", ["model", "adapter"])
def test_no_model_of_a_file_is_fetched(setting: str, run: Run, hub: list[str]) -> None:
    """Neither the model of a config nor the base of a folder of adapters, unless the command line names it."""
    Path("adapter").mkdir()
    Path("adapter/adapter_config.json").write_text('{"base_model_name_or_path": "stranger/model"}')
    model = "stranger/model" if setting == "model" else "adapter"
    Path("c.yaml").write_text(yaml.safe_dump({"model": model, "env": "maze", "tasks": 1}))
    status, said = run("eval", "--config", "c.yaml")
    assert status == 2 and "only a file names it; to fetch it, add --trust stranger/model" in said, said
    assert hub == []
    status, said = run("eval", "--config", "c.yaml", "--trust", "stranger/model")
    assert status == 2 and "nor is it on the hub" in said and hub == ["stranger/model"], said


def test_the_list_of_a_pipeline_asks_no_hub(run: Run, hub: list[str]) -> None:
    """It is shown all the same."""
    Path("p.yaml").write_text("out: made\nstages: [{stage: sft, model: stranger/model, env: maze}]\n")
    status, said = run("pipeline", "p.yaml", "--list")
    assert (status, hub) == (0, []) and "stranger/model" in said, said


def test_no_repository_of_a_file_gets_a_model(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the user's token, and for everybody to see; `--list` shows it."""
    pytest.importorskip("huggingface_hub")
    monkeypatch.setenv("HF_TOKEN", "hf_" + "x" * 30)
    Path("p.yaml").write_text(
        "out: made\nstages: [{stage: export, model: tiny-random, push: stranger/theirs, private: false}]\n"
    )
    status, said = run("pipeline", "p.yaml")
    assert status == 2 and "stranger/theirs comes from a file and would receive your model" in said, said
    assert "--trust stranger/theirs" in said and not Path("made").exists()
    assert run("pipeline", "p.yaml", "--list")[0] == 0
    with trust.naming(["--push", "me/mine"]):
        trust.require_upload("me/mine")
    trust.require_upload("me/mine")


def test_no_file_chooses_the_folder_of_a_servers_weights() -> None:
    """A checkpoint there would be replaced."""
    pytest.importorskip("torch")
    from agentgym_py.engine.server import ServerEngine

    policy: Any = None
    with trust.naming([]), pytest.raises(ConfigError, match="/elsewhere/model comes from a file and would be written"):
        ServerEngine(policy, "http://127.0.0.1:9", weights="/elsewhere/model")


def test_a_trajectory_names_no_path(run: Run, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Unless the command line names it, too."""
    place = str(tmp_path_factory.mktemp("elsewhere"))
    store.write("a.jsonl", [replace(episode("household", games=place), id="b")])
    status, said = run("replay", "a.jsonl")
    assert status == 1 and "b, argument games: a path that comes from a file" in said, said
    assert "a path that comes" not in run("replay", "a.jsonl", "--trust", place)[1]
    assert episode("household", games=place).env_spec().kwargs == {"games": place}


@pytest.mark.parametrize("place", ["../made", "/made-by-a-file", "inside/link/made"])
def test_no_file_chooses_a_place_elsewhere_to_write_to(place: str, run: Run, tmp_path_factory: Any) -> None:
    """By `..`, an absolute name or a link; the command line may name it, in --trust or as its own --out."""
    Path("inside").mkdir()
    Path("inside/link").symlink_to(tmp_path_factory.mktemp("elsewhere"))
    settings = {"env": "maze", "agent": "random", "tasks": 1}
    Path("c.yaml").write_text(yaml.safe_dump({**settings, "out": f"{place}.jsonl"}))
    Path("p.yaml").write_text(yaml.safe_dump({"out": place, "stages": [{"stage": "collect", **settings}]}))
    for argv in (["collect", "--config", "c.yaml"], ["pipeline", "p.yaml"]):
        status, said = run(*argv)
        assert status == 2 and "would be written outside this folder; if you trust it, add --trust" in said, said
        assert run(*argv, "--out", argv[0])[0] == 0
    assert not list(Path("inside/link").iterdir()) and not Path("../made").exists()
    with trust.naming(["--trust", place]):
        trust.require_output(place)


def test_no_command_has_another_option_of_that_name() -> None:
    """It is read before the command's own options."""
    for name in COMMANDS:
        parser = build_parser(name, [])
        for part in (parser, *parser.commands.values()):
            assert "trust" not in part.options, name


@pytest.mark.parametrize(
    ("file", "content", "argv"),
    [
        ("eval.py", {"agent": "eval:Evil"}, ["eval", "--config", "c.yaml"]),
        ("maze.py", {"agent": "maze:Evil", "env": "maze"}, ["eval", "--config", "c.yaml", "--env", "maze"]),
        ("c.py", {"agent": "c:Evil"}, ["eval", "--config", "c.yaml", "--out", "c:Evil"]),
        ("c.py", {"agent": "c:Evil"}, ["eval", "--split", "test", "--config=c:Evil"]),
        ("pipeline.py", {"stages": [{"stage": "collect", "agent": "pipeline:Evil"}]}, ["pipeline", "c.yaml", "--list"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_other_words_of_the_command_line_name_no_module(
    file: str, content: dict[str, Any], argv: list[str], run: Run
) -> None:
    """A command, a world or the stranger's own file may be called as the module that it holds."""
    evil(file)
    for name in ("c.yaml", "c:Evil"):
        Path(name).write_text(yaml.safe_dump(content))
    status, said = run(*argv)
    assert not Path("ran").exists(), said
    assert status == 2


@pytest.mark.parametrize(
    "argv",
    [
        ["collect", "--config", "stranger.py"],
        ["collect", "--config=stranger.py"],
        ["pipeline", "stranger.py"],
        ["pipeline", "stranger.py", "--list"],
        ["pipeline", "--list", "stranger.py"],
        ["collect", "--config", "stranger.py", "--env_kwargz.x", "1"],
    ],
    ids=" ".join,
)
def test_the_name_of_a_file_is_no_permission(argv: list[str], run: Run) -> None:
    """A config or pipeline may be called as Python source is, and be both."""
    sys.modules.pop("stranger", None)
    settings = '"env": ["stranger.py"], "env_kwargs": {"x": __import__("pathlib").Path("ran").touch()}'
    stages = f'{{"out": "made", "stages": [{{"stage": "collect", {settings}}}]}}'
    Path("stranger.py").write_text(stages if argv[0] == "pipeline" else f"{{{settings}}}")
    status, said = run(*argv)
    assert status == 2 and not Path("ran").exists(), said


@pytest.mark.parametrize(
    "words",
    [
        ["train", "--data", "a/evil.py"],
        ["train", "--few-shot=a/evil.py"],
        ["evolve", "--resume", "runs/x,a/evil.py"],
        ["fork", "a/evil.py@1"],
        ["view", "a/evil.py"],
        ["view", "--export", "page.html", "a/evil.py"],
        ["eval", "--model", "a/evil.py"],
        ["prove", "ppo", "--report", "a/evil.py"],
    ],
    ids=" ".join,
)
def test_a_file_of_an_option_is_no_source(words: list[str]) -> None:
    """Neither whole nor in part; only options and commands that take source name it."""
    with trust.naming(words), pytest.raises(ConfigError, match=r"--trust a/evil\.py"):
        trust.require_source("a/evil.py")
    with trust.naming([*words, "--trust", "a/evil.py"]):
        trust.require_source("a/evil.py")


def test_an_argument_of_a_command_is_its_source() -> None:
    """Also after a flag, which takes no value."""
    for command in ("certify", "check", "envs", "play", "prove", "trainers"):
        with trust.naming([command, "--json", "mine.py:World"]):
            trust.require_source("mine.py")
    with trust.naming(["fork", "runs/a@1", "--set", "trainer.step_kind=mine.py:kind"]):
        trust.require_source("mine.py")


def test_the_lists_of_trust_are_those_of_the_commands() -> None:
    """A command with another argument of source, or with subcommands, has its place in them."""
    take, subcommands = set(), set()
    for name in COMMANDS:
        parser = build_parser(name, [])
        parts = (parser, *parser.commands.values())
        subcommands |= {name} if parser.commands else set()
        take |= {name for part in parts for argument in part.positionals if "FILE.py" in argument.help}
        for part in parts:
            for option in part.options.values():
                if "FILE.py" in option.help:
                    assert option.name.partition(".")[0] in trust._OF_SOURCES, option.name
    assert (take, subcommands) == (set(trust._TAKE_SOURCES), set(trust._WITH_SUBCOMMANDS))


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (["view", "a.jsonl"], "view"),
        (["data", "verify", "a.jsonl"], "verify"),
        (["replay", "a.jsonl", "--json"], "--json"),
        (["replay", "b,c"], "c"),
    ],
)
def test_the_name_of_a_command_is_no_path(words: list[str], path: str) -> None:
    """Nor that of a subcommand or option; the command's argument is one, and whole."""
    with trust.naming(words):
        with pytest.raises(ConfigError, match="--trust"):
            trust.require_path(path, "here")
        trust.require_path(words[1 + (words[0] == "data")], "here")


@pytest.mark.parametrize("words", [["--trust"], ["--trust", "--list"], ["--trust=x", "--trust"]])
def test_trust_needs_a_value(words: list[str], run: Run) -> None:
    """It takes no option in place of it, such as the one that keeps a pipeline from running."""
    status, said = run(*as_pipeline("maze", {}), *words)
    assert status == 2 and "--trust needs a value" in said and not Path("made").exists(), said


def test_a_run_folder_names_no_module(run: Run) -> None:
    """Its own name is no permission, and a folder may be called as a source is."""
    for name in ("theirs", "theirs:World"):
        Path(name).mkdir()
        Path(name, "__init__.py").write_text(evil("evil_of_runs.py").read_text())
        Path(name, "run.yaml").write_text(yaml.safe_dump({"env": [f"{name.partition(':')[0]}:World"]}))
        run("evolve", "--resume", name)
        run("report", name)
    assert not Path("ran").exists()


def test_only_what_was_typed_names_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No path of a file's settings, no address of a variable, no word after the value of --trust; but positionals."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", "https://api.example/v1")
    with trust.naming(["certify", "--trust", "my.server", "plan", "--out=x", "theirs:World"]):
        trust.allow("x,evil:score")
        for module in ("evil", "https", "plan", "x"):
            with pytest.raises(ConfigError, match="--trust"):
                trust.require_source(module)
        trust.require_source("theirs")
        with pytest.raises(ConfigError, match="--trust"):
            trust.require_host("http://plan/x")
        trust.require_path("x,evil:score", "here")
    with trust.naming(["certify", "--out", "certs", "mymod:World"]):
        trust.require_source("mymod")
    with trust.naming(["export", "own/model", "--out", "x"]):
        assert trust.is_named("own/model")


def test_other_words_name_no_host_and_no_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A world, a folder or a file may be called as a host is, or as a repository."""
    monkeypatch.chdir(tmp_path)
    Path("lab").mkdir()
    Path("lab/p.yaml").touch()
    with trust.naming(["pipeline", "--list", "lab/p.yaml", "--env", "maze", "--resume", "results.dev"]):
        for host in ("results.dev", "maze", "pipeline"):
            with pytest.raises(ConfigError, match="--trust"):
                trust.require_host(f"https://{host}/x")
        assert not trust.is_named("lab/p.yaml") and not trust.is_named("results.dev")
    with trust.naming(["--model", "lab/p.yaml", "--trust=maze", "--judge.model", "own/judge"]):
        trust.require_host("http://maze:8000")
        assert trust.is_named("lab/p.yaml") and trust.is_named("own/judge")


@pytest.mark.parametrize("name", ["localhost", "localhost.", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_this_machine_has_many_addresses(name: str) -> None:
    """All may be contacted, and none by a proxy; an address that only looks alike is another machine."""
    with trust.naming([]):
        trust.require_host(f"http://{f'[{name}]' if ':' in name else name}:1/x")
    assert trust.is_loopback(name) and not trust.is_loopback(f"{name}.example") and not trust.is_loopback("10.0.0.1")


def test_what_the_command_line_names_is_allowed(tmp_path: Path) -> None:
    """In any option, as the file writes it or not."""
    words = ["--env=a.py,b.py:World", "--url", "https://Server.example/x", "--trust", "pkg.mod"]
    with trust.naming([*words, "--reward", "0.5*my.rewards:score"]):
        for place in ("a.py", str(Path("b.py").absolute()), "pkg.mod", "my.rewards"):
            trust.require_source(place)
        trust.require_host("http://server.example:1/y")
        trust.require_host("http://localhost:1")
        for wrong in ("c.py", "pkg", "/a.py", "my"):
            with pytest.raises(ConfigError, match="--trust"):
                trust.require_source(wrong)
        with pytest.raises(ConfigError, match="--trust"):
            trust.require_host("http://example/server.example")
    trust.require_source("c.py")
