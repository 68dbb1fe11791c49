"""The command line as a whole: help, versions, and one clear line for whatever is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentgym_py import __version__
from agentgym_py.cli import COMMANDS, main, module
from agentgym_py.cli.parser import humanize_parser_error

Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(agentgym: Run, command: str) -> None:
    """`agentgym COMMAND --help` ends with status 0 and says what the command does."""
    status, out, err = agentgym(command, "--help")
    assert status == 0 and not err
    assert COMMANDS[command] in " ".join(out.split())


def test_help_names_every_command(agentgym: Run) -> None:
    """`agentgym --help` lists them all."""
    status, out, _ = agentgym("--help")
    assert status == 0 and all(f"\n  {name} " in out for name in COMMANDS)


@pytest.mark.parametrize("command", [[], ["data"], ["envs"]])
def test_helps_of_commands_that_have_commands_look_alike(agentgym: Run, command: list[str]) -> None:
    """The same usage, the same way to go on, and the commands below it without a line of the library's."""
    out, name = agentgym(*command, "--help")[1], " ".join(["agentgym", *command])
    assert out.startswith(f"usage: {name} COMMAND [options]\n")
    assert f"\ncommands:\n  `{name} COMMAND --help` shows a command's options.\n\n  " in out
    assert "vailable subcommands" not in out and "(required)" not in out


def test_version(agentgym: Run) -> None:
    """`agentgym --version` prints the package's version."""
    assert agentgym("--version")[:2] == (0, f"agentgym {__version__}\n")


def test_help_and_lists_load_no_torch() -> None:
    """What a user tries first imports neither torch nor the libraries of training, which take seconds."""
    code = (
        "import sys; from agentgym_py.cli import main; main(['envs', 'list']); main(['evolve', '--help']);"
        "print(sorted({'torch', 'transformers', 'trl', 'datasets'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "say which command: evolve, collect"),
        (["evolv"], "no command 'evolv' (did you mean evolve?)"),
        (["envs"], "say which command: list, show"),
        (["envs", "lst"], "no command 'lst' (did you mean list?)"),
        (["envs", "list", "--jsn"], "no option --jsn (did you mean --json?); see agentgym envs list --help"),
        (["evolve", "--round", "3"], "no option --round (did you mean --rounds?)"),
        (["evolve", "--rounds"], "--rounds needs a value"),
        (["evolve", "--rounds", "many"], "--rounds: expected int, got 'many'"),
        (["evolve", "--rounds", "-1"], ": --rounds must be a number of at least 0, got -1"),
        (["evolve", "--merge", "lst"], "--merge: expected all or last or initial+last, got 'lst' (did you mean last?)"),
        (["evolve", "--select.per_task", "x"], "--select.per_task: expected int or null, got 'x'"),
        (["evolve", "--select.top_ratio", "7"], ": --select.top_ratio must be in (0, 1], got 7.0"),
        (["evolve", "--learning_rate", "1"], "(did you mean --trainer.learning_rate?)"),
        (["evolve", "--trainer.learning_rat", "1"], "(did you mean --trainer.learning_rate?)"),
        (["evolve", "--trainer.learning-rate", "-1"], ": --trainer.learning_rate must be a number above 0, "),
        (
            ["train", "--data", "x", "--out", "x", "--trainer.epochs", "0"],
            ": --trainer.epochs must be a number above 0",
        ),
        (["evolve", "--temperature", "-1"], ": --temperature must be 0 (greedy) or more, got -1.0"),
        (["evolve", "--max_new_tokens", "0"], ": --max_new_tokens must be at least 1, got 0"),
        (["evolve", "--trainer", "filterd_bc"], "Did you mean 'filtered_bc'?"),
        (["evolve", "--trainer", "reward_model"], "this one makes a reward_model: `agentgym train` runs it"),
        (["evolve", "--env", "GUES"], "No environment 'GUES' is installed."),
        (["evolve", "--env", "nope"], "No environment 'nope' is installed. Installed: calculator, "),
        (["evolve", "--env", "AgentShp-v0"], "is installed. Did you mean 'shop'? Installed: calculator, "),
        (["evolve", "--verbose"], ": no option --verbose; see agentgym evolve --help\n"),
        (["eval", "--difficulty", "hard"], "no option --difficulty (did you mean --env_kwargs.difficulty?)"),
        (["eval", "--env=todo,maze", "--dificulty", "x"], "(did you mean --env_kwargs.difficulty?)"),
        (["play", "sql", "--max-step", "3"], "no option --max_step (did you mean --env_kwargs.max_steps?)"),
        (["eval", "--env", "household", "--games", "x"], "(did you mean --env_kwargs.games?)"),
        (["eval", "--env", "wordle", "--catalogue", "x"], ": no option --catalogue; see agentgym eval --help\n"),
        (["evolve", "--thresold", "1"], "(did you mean --select.threshold?)"),
        (["evolve", "--env", "GUESS", "--env_kwargs.max_step", "3"], "'max_step'"),
        (
            ["evolve", "--env", "GUESS", "--env_kwargs.max_steps", "0"],
            ": --env_kwargs.max_steps must be at least 1, got 0",
        ),
        (
            ["evolve", "--env", "GUESS", "--env_kwargs.max_steps", "x"],
            "--env_kwargs.max_steps must be int, not 'x'",
        ),
        (["evolve", "--env", "GUESS", "--env_kwargs.id", "x"], "gymnasium.make takes 'id' for itself"),
        (["evolve", "--env", "GUESS,shop,GUESS"], "--env has GuessForTests-v0 twice"),
        (["eval", "--agent", "expert", "--env", "shop,AgentShop-v0"], "--env has AgentShop-v0 twice"),
        (
            ["evolve", "--env_kwargs.goals", "human", "--expert_tasks", "200"],
            ": --expert_tasks 200 + --rounds 3 * --explore_tasks 1000 asks for 3200 train tasks, shop has 223; "
            "--valid_tasks asks for 100 valid tasks, shop has 31; --test_tasks asks for 300 test tasks, shop has 46\n",
        ),
        (
            [
                "evolve",
                "--env",
                "maze,shop",
                "--env_kwargs.shop.goals",
                "human",
                "--explore_weights.maze",
                "0",
                "--explore_tasks",
                "50",
                "--valid_tasks",
                "9",
                "--test_tasks",
                "9",
            ],
            ": --expert_tasks 12 + --rounds 3 * --explore_tasks 100, by --explore_weights, asks for 312 train tasks, "
            "shop has 223\n",
        ),
        (["evolve", "--env", "maze,shop", "--explore_weights.sop", "1"], "no world 'sop'. Did you mean 'shop'?"),
        (
            ["evolve", "--env_kwargs.goals", "human", "--expert_tasks", "200", "--rounds", "0", "--test_tasks", "0"],
            ": --valid_tasks asks for 100 valid tasks, shop has 31\n",
        ),
        (
            ["collect", "--out", "x.jsonl", "--split", "test", "--tasks", "60", "--env_kwargs.goals", "human"],
            ": --tasks asks for 60 test tasks, shop has 46\n",
        ),
        (
            ["collect", "--out", "x.jsonl", "--first", "200", "--tasks", "24", "--env_kwargs.goals", "human"],
            ": --first 200 with --tasks 24 asks for 224 train tasks, shop has 223\n",
        ),
        (
            ["eval", "--agent", "expert", "--env_kwargs.goals", "human"],
            ": --tasks asks for 300 test tasks, shop has 46\n",
        ),
        (["evolve", "--preset", "smok"], "no preset 'smok' (did you mean smoke?)"),
        (["evolve", "--config", "nowhere.yaml"], "--config: File does not exist"),
        (["evolve", "--resume", "nowhere"], "nowhere: no such folder"),
        (["evolve", "--allow_empty=perhaps"], "--allow_empty: expected true or false, got 'perhaps'"),
        (["evolve", "--threads", "0", "--env", "GUESS"], ": --threads must be at least 1, got 0"),
        (["evolve", "extra"], "unexpected argument 'extra'"),
        (
            ["evolve", "--trainer", "ppo", "--restart", "base"],
            "restart previous, got last and base",
        ),
        (["collect"], "--out FILE.jsonl wanted"),
        (["collect", "--out", "x.jsonl", "--agent", "exprt"], "No agent 'exprt' is installed. Did you mean 'expert'?"),
        (["collect", "--out", "x.jsonl", "--split", "tset"], "Did you mean 'test'? There are: test, train, valid."),
        (["collect", "--out", "x.jsonl", "--temperatures", "hot"], "--temperatures: 'hot' is not what it takes"),
        (
            ["collect", "--out", "x.jsonl", "--model", "tiny", "--temperatures", "1,-1"],
            ": --temperatures: '1,-1' is not",
        ),
        (["collect", "--out", "x.jsonl", "--agent", "expert", "--model", "tiny"], "say who plays"),
        (["collect", "--out", "x.jsonl", "--agent", "model"], "say who plays"),
        (["collect", "--out", "x.jsonl", "--temperatures", "0.7,1"], "the agent expert samples nothing"),
        (["collect", "--out", "/proc/x.jsonl", "--env", "GUESS", "--tasks", "1"], "/proc/x.jsonl"),
        (["train", "--out", "x"], "--data FILE wanted"),
        (["train", "--data", "x", "--out", "x", "--trainer", "ppo"], "ppo plays itself, it does not train on files"),
        (["train", "--out", "x", "--data", "nowhere.jsonl"], "nowhere.jsonl: no such file"),
        (["eval"], "say who plays"),
        (["eval", "--agent", "random", "--model", "tiny"], "say who plays"),
        (
            ["eval", "--agent", "random", "--agent_kwargs.x", "1", "--env", "GUESS"],
            "takes no argument 'x'. It takes: none.",
        ),
        (["eval", "--agent", "expert", "--agent_kwargs.fare", "true"], "no argument 'fare'. Did you mean 'fair'?"),
        (
            ["eval", "--agent", "expert", "--agent_kwargs.fair", "maybe"],
            "--agent_kwargs.fair must be true or false, not",
        ),
        (["play", "shop", "--env_kwargs.strict_compat", "nope"], "--env_kwargs.strict_compat must be true or false, "),
        (["play", "maze", "--env_kwargs.max_steps", "2.5"], "--env_kwargs.max_steps must be int or None, not 2.5"),
        (["play", "maze", "--task", "-1"], "'-1' is no number such as 0"),
        (["play", "--env", "maze"], "no option --env; a world is named without it: agentgym play NAME"),
        (
            ["eval", "--agent", "random", "--env", "GUESS", "--tasks", "0"],
            ": --tasks and --attempts (or --samples) must be at least 1",
        ),
        (["eval", "--model", "tiny", "--temperature", "-1"], ": --temperature must be 0 (greedy) or more, got -1.0"),
        (["eval", "--model", "tiny", "--slots", "0"], ": --slots must be at least 1, got 0"),
        (["eval", "--model", "./nope"], ": no model './nope': there is no such folder\n"),
        (["eval", "--model", "a/b/c"], ": no model 'a/b/c': there is no such folder ('a' is not there)\n"),
        (["eval", "--model", "nope"], "no model 'nope': neither a folder here nor a hub id (owner/name). There are:"),
        (["play"], "wanted: NAME"),
        (["play", "nowhere"], "No environment 'nowhere' is installed."),
        (["play", "GUESS", "--task", "nothing"], "No task 'nothing'"),
        (["play", "GUESS", "--task", "²"], "No task '²'"),
        (["play", "maze", "--env_kwargs.difficulty", "hrd"], "--env_kwargs.difficulty must be one of easy,"),
        (["play", "shop", "--env_kwargs.difficulty", "hrd"], "--env_kwargs.difficulty must be one of easy,"),
        (["evolve", "--resume", "nowhere", "--env", "GUESS"], "nowhere: no such folder"),
        (["replay", "nowhere.jsonl"], "nowhere.jsonl: no such file"),
        (["data", "verify", "nowhere.jsonl"], "nowhere.jsonl: no such file"),
        (["data", "convert", "a.jsonl", "b.xml"], "b.xml: which format? End its name in .jsonl, .json, .parquet, or"),
        (
            ["data", "convert", "a.jsonl", "b.jsonl", "--to", "tlr"],
            "--to: no format 'tlr' (did you mean trl?); there are",
        ),
        (
            ["data", "convert", "a.jsonl", "b.jsonl", "--to", "json"],
            "'json' (did you mean agenttraj?); there are store,",
        ),
        (["data", "convert", "a.jsonl", "b.jsonl", "--to", "csv"], "--to: no format 'csv'; there are store, agenttraj"),
        (["data", "convert", "a.jsonl", "b.jsonl"], "a.jsonl: no such file"),
        (["report", "."], "holds no run"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(agentgym: Run, argv: list[str], said: str) -> None:
    """Whatever the user can mend is said in one line on stderr that names it; nothing is left behind."""
    status, out, err = agentgym(*argv)
    assert status == 2 and out == ""
    assert err.startswith("agentgym: ") and err.count("\n") == 1 and "Traceback" not in err
    assert said in err
    assert not list(Path().iterdir())


def test_a_wrong_model_is_said_before_torch_is_loaded(tmp_path: Path) -> None:
    """In an empty folder, of a hub that is not reached: one line after one question, without the library's retries."""
    code = (
        "import sys; from agentgym_py.cli import main; status = main(['eval', '--model', 'nope/checkpoint']);"
        "print(status, 'torch' in sys.modules)"
    )
    nowhere = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_OFFLINE": "0", "NO_PROXY": "*", "HF_HOME": str(tmp_path)}
    pytest.importorskip("huggingface_hub")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path, env=os.environ | nowhere
    )
    said = "agentgym: no model 'nope/checkpoint': there is no such folder ('nope' is not there); nor is it reachable"
    assert done.stdout == "2 False\n" and done.stderr.startswith(said) and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rouns: 3", "no setting 'rouns' (did you mean rounds?)"),
        ("rounds: many", "--rounds: expected int, got 'many'"),
        ("select: {treshold: 1}", "no setting 'select.treshold' (did you mean select.threshold?)"),
        ("trainer: {name: filtered_bc, learning_rat: 1}", "did you mean trainer.learning_rate?"),
        ("trainer: filterd_bc", "Did you mean 'filtered_bc'?"),
        ("rounds: [1", "Problems parsing config"),
        ("just words", "Unexpected config"),
    ],
)
def test_a_mistake_in_a_config_file_is_one_line(agentgym: Run, text: str, said: str) -> None:
    """The same for a YAML file."""
    Path("c.yaml").write_text(text)
    status, _, err = agentgym("evolve", "--config", "c.yaml")
    assert (status, err.count("\n")) == (2, 1) and said in err


OPTIONS, NAMES = ["--rounds", "--trainer.learning_rate"], ["list", "show"]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("unrecognized arguments: --round=3", "no option --round (did you mean --rounds?)"),
        ("unrecognized arguments: extra", "unexpected argument 'extra'"),
        ("argument what: invalid choice: 'lst' (choose from 'list')", "no command 'lst' (did you mean list?)"),
        ("Option 'round' is not accepted", "no setting 'round' (did you mean rounds?)"),
        (
            "Group 'trainer' does not accept option 'learning_rat'",
            "no setting 'trainer.learning_rat' (did you mean trainer.learning_rate?)",
        ),
        ("argument --rounds: expected one argument", "--rounds needs a value"),
        ("the following arguments are required: play.name", "wanted: NAME"),
        ("the following arguments are required: trainer.learning_rate", "wanted: --trainer.learning_rate"),
        ('expected "what" to be one of {list,show}, but it was not provided.', "say which command: list, show"),
        ("Parser key \"rounds\": Expected a <class 'int'>. Got value: many", "--rounds: expected int, got 'many'"),
        ('Parser key "rounds": something new', "--rounds: something new"),
        ("a message that no pattern\n  knows", "a message that no pattern knows"),
    ],
)
def test_each_message_of_jsonargparse_is_said_in_our_words(message: str, said: str) -> None:
    """Pattern by pattern; what none of them knows stays as it is."""
    assert humanize_parser_error(message, OPTIONS, NAMES) == said


@pytest.mark.parametrize(
    "argv",
    [
        ["data", "verify", "a.jsonl"],
        ["envs", "show", "shop", "--json"],
        ["eval", "--env", "shop", "--agent", "expert", "--tasks", "1"],
    ],
)
def test_a_reader_that_went_away_is_no_mistake(tmp_path: Path, argv: list[str]) -> None:
    """`agentgym … | head`: nothing on stderr, and the status of a program that SIGPIPE ended."""
    (tmp_path / "a.jsonl").touch()
    code = f"import sys; from agentgym_py.cli import main; sys.exit(main({argv}))"
    pipe, buffered = subprocess.PIPE, os.environ | {"PYTHONUNBUFFERED": ""}
    running = subprocess.Popen([sys.executable, "-c", code], stdout=pipe, stderr=pipe, cwd=tmp_path, env=buffered)
    assert running.stdout and running.stderr
    running.stdout.close()
    assert running.stderr.read() == b"" and running.wait() == 141


def test_a_defect_keeps_its_traceback(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is nobody's mistake but ours is not hidden behind a polite line."""

    def fail(_: object) -> int:
        raise RuntimeError("a defect")

    monkeypatch.setattr(module("report"), "run", fail)
    with pytest.raises(RuntimeError, match="a defect"):
        main(["report", "."])


def test_ctrl_c_is_status_130(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends any command in a line."""

    def stop(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(module("report"), "run", stop)
    status, _, err = agentgym("report", ".")
    assert status == 130 and "interrupted" in err and "Traceback" not in err


def test_warnings_are_lines_without_source(agentgym: Run) -> None:
    """A torn last line is one line on stderr, not a path into our code."""
    assert agentgym("collect", "--env", "GUESS", "--tasks", "2", "--out", "a.jsonl")[0] == 0
    with Path("a.jsonl").open("ab") as file:
        file.write(b'{"torn')
    status, _, err = agentgym("replay", "a.jsonl")
    assert status == 0 and err.startswith("agentgym: warning: ") and "torn last line" in err and err.count("\n") == 1


def test_the_train_extra_is_named_where_it_is_missing(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without torch a command that needs a model says how to get it, before it makes a folder or says what it does."""
    from agentgym_py.cli import runtime

    monkeypatch.setattr(runtime, "find_spec", lambda name: None)
    status, out, err = agentgym("evolve", "--env", "GUESS")
    assert (status, out) == (2, "") and "of the extra `train`: cd " in err and '-e ".[train]"' in err
    assert not Path("runs").exists()
