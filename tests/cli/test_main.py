"""The command line as a whole: help, versions, and one clear line for whatever is wrong."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

import pytest

from agentgym_py import __version__, files, registry
from agentgym_py.cli import COMMANDS, GROUPS, build_parser, command_module, main
from agentgym_py.cli.argv import normalize_argv
from agentgym_py.cli.examples import EXAMPLES, IN_HELP, examples_of
from agentgym_py.cli.parser import Parser, UsageError
from agentgym_py.cli.values import convert, metavar_of
from agentgym_py.errors import UnknownNameError, naming_options
from agentgym_py.training.settings import RENAMED
from agentgym_py.training.trainer import info_of

Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(agentgym: Run, command: str) -> None:
    """`agentgym COMMAND --help` ends with status 0 and says what the command does."""
    status, out, err = agentgym(command, "--help")
    assert status == 0 and not err
    assert COMMANDS[command] in " ".join(out.split())


def test_help_names_every_command(agentgym: Run) -> None:
    """`agentgym --help` lists each once, below the title of its group."""
    status, out, _ = agentgym("--help")
    assert status == 0 and all(out.count(f"\n  {name} ") == 1 for name in COMMANDS)
    titles = [out.index(f"\n\n{title}:\n  {names[0]} ") for title, names in GROUPS.items()]
    assert titles == sorted(titles)


@pytest.mark.parametrize("command", [[], ["data"], ["envs"]])
def test_helps_of_commands_that_have_commands_look_alike(agentgym: Run, command: list[str]) -> None:
    """The same usage, the same way to go on, and the commands below it without a line of the library's."""
    out, name = agentgym(*command, "--help")[1], " ".join(["agentgym", *command])
    assert out.startswith(f"usage: {name} COMMAND [options]\n")
    assert f"\n\n`{name} COMMAND --help` shows a command's options.\n\n" in out
    assert ("\n\nCommands:\n  " in out) == bool(command)
    assert "vailable subcommands" not in out and "(required)" not in out


@pytest.mark.parametrize("command", EXAMPLES)
def test_help_ends_with_examples_that_can_be_typed(
    agentgym: Run, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is a command line that its parser takes, with what it does; `--help` has the first ones."""
    monkeypatch.chdir(tmp_path)
    files.write_atomic(tmp_path / "runs" / "mine" / "run.yaml", "rounds: 1\n")
    (tmp_path / "examples").symlink_to(Path(__file__).parents[2] / "examples")
    lines = [f"  # {what}\n  {example}" for what, example in EXAMPLES[command]]
    for option, number in (("--help", IN_HELP), ("--help-all", None)):
        shown = "\n\nExamples:\n" + "\n".join(lines[:number]) + "\n"
        assert agentgym(*command.split(), option)[1].endswith(shown)
    for _, example in EXAMPLES[command]:
        program, name, *words = normalize_argv(shlex.split(example))
        assert program == "agentgym" and name == (command.split()[0] if command else name)
        build_parser(name, words).parse(words)


def test_every_command_and_subcommand_has_examples() -> None:
    """And there are none of others; a command with subcommands has theirs."""
    parsers = {name: build_parser(name, ()) for name in COMMANDS}
    groups = {name for name, parser in parsers.items() if parser.commands}
    leaves = {f"{name} {leaf}" for name in groups for leaf in parsers[name].commands}
    assert {"", *COMMANDS.keys() - groups, *leaves} == EXAMPLES.keys()
    assert examples_of("envs") == [*EXAMPLES["envs list"], *EXAMPLES["envs show"]]


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("train", {"grpo", "ppo", "r3"}),
        ("evolve", {"reward_model", "process_reward"}),
        ("plan", {"reward_model", "process_reward"}),
    ],
)
def test_help_names_the_trainers_that_the_command_takes(command: str, missing: set[str]) -> None:
    """`train` those that learn from files, `evolve` and `plan` those of policies; a broken plugin is none of them."""
    about = build_parser(command, ["--help"]).options["trainer.name"].help
    named = set(about.removeprefix("One of ").partition(", or a source")[0].split(", "))
    assert not named & missing and "dpo" in named
    for name in named:
        trainer = registry.load("agentgym.trainers", name)
        assert hasattr(trainer, "train") if command == "train" else info_of(trainer).output == "policy"
    assert ", ppo," in build_parser(command, []).options["trainer.name"].help


@pytest.mark.parametrize("command", ["train", "evolve"])
def test_a_wrong_trainer_is_answered_with_those_that_the_command_takes(command: str) -> None:
    """The error lists the same trainers as the help."""
    about = build_parser(command, ["--help"]).options["trainer.name"].help
    listed = about.removeprefix("One of ").partition(", or a source")[0]
    with pytest.raises(UnknownNameError, match=f": {listed}.$"):
        build_parser(command, ["--trainer.name", "nonsense"])


def test_no_command_shows_the_help(agentgym: Run) -> None:
    """`agentgym` alone prints the help of `agentgym --help` to stderr and ends with status 2."""
    assert agentgym() == (2, "", agentgym("--help")[1])


def test_help_is_a_word_too(agentgym: Run) -> None:
    """`agentgym help` and `agentgym help plan` print what `--help` does."""
    assert agentgym("help") == agentgym("--help")
    assert agentgym("help", "plan") == agentgym("plan", "--help")
    assert "evolv: no such command" in agentgym("help", "evolv")[2]


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
        (["evolv"], "evolv: no such command; did you mean evolve?\n"),
        (["envs"], "agentgym envs needs a command: list, show"),
        (["envs", "lst"], "lst: no such command; did you mean list?"),
        (["envs", "shop"], "shop: no such command; did you mean agentgym envs show shop?"),
        (["envs", "maze"], "maze: no such command; did you mean agentgym envs show maze?"),
        (["trainers", "grpo"], "grpo: no such command; did you mean agentgym trainers show grpo?"),
        (["envs", "list", "--jsn"], "--jsn: no such option; did you mean --json?"),
        (["evolve", "--round", "3"], "--round: no such option; did you mean --rounds?"),
        (["evolve", "--rounds"], "--rounds needs a value"),
        (["evolve", "--rounds", "many"], "--rounds: expected a whole number, got 'many'"),
        (
            ["eval", "--agent", "openai", "--model", "x", "--base_url", "y", "--tasks", "1"],
            ": --base_url must be an ad",
        ),
        (["evolve", "--rounds", "-1"], ": --rounds must be a number of at least 0, got -1"),
        (
            ["evolve", "--merge", "lst"],
            "--merge: expected one of all, last, initial+last, got 'lst'; did you mean last",
        ),
        (["evolve", "--select.per_task", "x"], "--select.per_task: expected a whole number or null, got 'x'"),
        (["evolve", "--select.top_ratio", "7"], ": --select.top_ratio must be in (0, 1], got 7.0"),
        (["evolve", "--learning_rate", "1"], "; did you mean --trainer.learning_rate?"),
        (["evolve", "--trainer.learning_rat", "1"], "; did you mean --trainer.learning_rate?"),
        (["evolve", "--trainer.learning-rate", "-1"], ": --trainer.learning_rate must be a number above 0, "),
        (
            ["train", "--data", "x", "--out", "x", "--trainer.epochs", "0"],
            ": --trainer.epochs must be a number above 0",
        ),
        (["evolve", "--temperature", "5000"], ": --temperature must be at most 10, got 5000.0"),
        (["evolve", "--temperature", "-1"], ": --temperature must be 0 (greedy) or more, got -1.0"),
        (["evolve", "--max_new_tokens", "0"], ": --max_new_tokens must be at least 1, got 0"),
        (["evolve", "--trainer", "filterd_bc"], "Did you mean 'filtered_bc'?"),
        (
            ["evolve", "--trainer", "reward_model"],
            "--trainer must train a policy, and RewardModelling makes a reward_model: run it with `agentgym train`",
        ),
        (["evolve", "--env", "GUES"], "No environment 'GUES' is installed."),
        (["evolve", "--env", "nope"], "No environment 'nope' is installed. Installed: calculator, "),
        (["evolve", "--trainer", "nope"], "No trainer 'nope' is installed. Trainers of evolve: dagger, "),
        (["train", "--trainer", "nope"], "No trainer 'nope' is installed. Trainers of train: dpo, "),
        (["evolve", "--env", "AgentShp-v0"], "is installed. Did you mean 'shop'? Installed: calculator, "),
        (["evolve", "--verbose"], ": --verbose: no such option; see agentgym evolve --help-all\n"),
        (["eval", "--difficulty", "hard"], "--difficulty: no such option; did you mean --env_kwargs.difficulty?"),
        (["eval", "--env_kwargs", "difficulty", "easy"], "got 'difficulty'; write --env_kwargs.NAME VALUE\n"),
        (["eval", "-env", "shop"], "'-env': no argument is expected here; did you mean --env?\n"),
        (["eval", "--episodes", "20"], "--episodes: no such option; did you mean --tasks?"),
        (["eval", "--env=todo,maze", "--dificulty", "x"], "; did you mean --env_kwargs.difficulty?"),
        (["play", "sql", "--max-step", "3"], "--max_step: no such option; did you mean --env_kwargs.max_steps?"),
        (["eval", "--env", "household", "--games", "x"], "; did you mean --env_kwargs.games?"),
        (
            ["eval", "--env", "wordle", "--catalogue", "x"],
            ": --catalogue: no such option; see agentgym eval --help-all\n",
        ),
        (["evolve", "--lr", "1"], ": --lr: no such option; did you mean --trainer.learning_rate?\n"),
        (["evolve", "--trainer.lr", "1"], ": --trainer.lr: no such option; did you mean --trainer.learning_rate?\n"),
        (["evolve", "--tries", "4"], ": --tries: no such option; did you mean --attempts?\n"),
        (["evolve", "--fork_tries", "4"], ": --fork_tries: no such option; did you mean --fork_attempts?\n"),
        (["eval", "--samples", "4"], ": --samples: no such option; did you mean --attempts?\n"),
        (["collect", "--temperatures", "1"], ": --temperatures: no such option; did you mean --temperature?\n"),
        (["evolve", "--trainer", "ppo", "--kl", "1"], ": --kl: no such option; did you mean --trainer.kl_coef?\n"),
        (["evolve", "shop"], "'shop': no argument is expected here; did you mean --env shop?\n"),
        (["train", "ppo"], "'ppo': no argument is expected here; did you mean --trainer ppo?\n"),
        (["eval", "random"], "'random': no argument is expected here; did you mean --agent random?\n"),
        (["eval", "--expert", "fair"], ": --expert fair needs --agent expert"),
        (["eval", "--agent", "expert", "--expert", "fare"], ": --expert: expected "),
        (["trainers", "show", "dop"], "Did you mean 'dpo'?"),
        (["evolve", "--thresold", "1"], "; did you mean --select.threshold?"),
        (["evolve", "--env", "GUESS", "--env_kwargs.max_step", "3"], "'max_step'"),
        (
            ["evolve", "--env", "GUESS", "--env_kwargs.max_steps", "0"],
            ": --env_kwargs.max_steps must be at least 1, got 0",
        ),
        (
            ["evolve", "--env", "GUESS", "--env_kwargs.max_steps", "x"],
            "--env_kwargs.max_steps must be a whole number, not 'x'",
        ),
        (["evolve", "--env", "GUESS", "--env_kwargs.id", "x"], "cannot take 'id': gymnasium.make reserves"),
        (["evolve", "--env", "GUESS,shop,GUESS"], "--env has GuessForTests-v0 twice"),
        (["eval", "--agent", "expert", "--env", "shop,AgentShop-v0"], "--env has AgentShop-v0 twice"),
        (
            ["evolve", "--env_kwargs.goals", "human", "--expert_tasks", "200"],
            ": --expert_tasks 200 + --rounds 3 * --explore_tasks 500 asks for 1700 train tasks, shop has 223; "
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
            ": --expert_tasks 25 + --rounds 3 * --explore_tasks 100, by --explore_weights, asks for 325 train tasks, "
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
        (["evolve", "--preset", "smok"], "no preset 'smok'; choose from default, smoke; did you mean smoke?"),
        (["evolve", "--config", "nowhere.yaml"], "--config: nowhere.yaml: no such file"),
        (["evolve", "--resume", "nowhere"], "nowhere: no such folder"),
        (["evolve", "--allow_empty=perhaps"], "--allow_empty: expected true or false, got 'perhaps'"),
        (["evolve", "--env", "errand", "--self_play", "maybe"], "--self_play: expected true or false, got 'maybe'"),
        (["evolve", "--threads", "0", "--env", "GUESS"], ": --threads must be at least 1, got 0"),
        (["evolve", "extra"], "'extra': no argument is expected here: agentgym evolve [options]"),
        (
            ["evolve", "--trainer", "ppo", "--restart", "base"],
            "continues the last round's agent on new data: set --restart previous\n",
        ),
        (["collect"], "--out FILE.jsonl is needed"),
        (["collect", "--out", "x.jsonl", "--agent", "exprt"], "No agent 'exprt' is installed. Did you mean 'expert'?"),
        (["collect", "--out", "x.jsonl", "--split", "tset"], "Did you mean 'test'? There are: test, train, valid."),
        (["collect", "--out", "x.jsonl", "--temperature", "hot"], "--temperature: 'hot' is not what it takes"),
        (
            ["collect", "--out", "x.jsonl", "--model", "tiny", "--temperature", "1,-1"],
            ": --temperature: '1,-1' is not",
        ),
        (
            ["collect", "--out", "x.jsonl", "--agent", "expert", "--model", "tiny"],
            "choose an agent: --model NAME or --agent NAME, not both\n",
        ),
        (["collect", "--out", "x.jsonl", "--agent", "model"], "choose an agent: --model NAME or --agent NAME"),
        (["collect", "--out", "x.jsonl", "--temperature", "0.7,1"], "the agent expert does not sample"),
        (["collect", "--out", "/proc/x.jsonl", "--env", "GUESS", "--tasks", "1"], "/proc/x.jsonl"),
        (["train", "--out", "x"], "--data FILE is needed"),
        (["train", "--data", "x", "--out", "x", "--trainer", "ppo"], "ppo is on-policy and does not train on files"),
        (["train", "--out", "x", "--data", "nowhere.jsonl"], "nowhere.jsonl: no such file"),
        (["eval"], "choose an agent: --model NAME or --agent NAME\n"),
        (["eval", "--agent", "random", "--model", "tiny"], "choose an agent: --model NAME or --agent NAME"),
        (
            ["eval", "--agent", "random", "--agent_kwargs.x", "1", "--env", "GUESS"],
            "takes no argument 'x'. It takes: none.",
        ),
        (["eval", "--model", "tiny", "--agent_kwargs.temperature", "1"], "--agent_kwargs.temperature needs an --agent"),
        (["eval", "--agent", "random", "--temperature", "1"], "the agent random does not sample"),
        (["eval", "--agent", "expert", "--agent_kwargs.fare", "true"], "no argument 'fare'. Did you mean 'fair'?"),
        (
            ["eval", "--agent", "expert", "--agent_kwargs.fair", "maybe"],
            "--agent_kwargs.fair must be true or false, not",
        ),
        (["play", "shop", "--env_kwargs.strict_compat", "nope"], "--env_kwargs.strict_compat must be true or false, "),
        (
            ["play", "maze", "--env_kwargs.max_steps", "2.5"],
            "max_steps must be a whole number or None, not 2.5",
        ),
        (["play", "maze", "--task", "-1"], "'-1' is not a number such as 0"),
        (["play", "--env", "maze"], "--env: no such option; give the environment's name alone: agentgym play NAME"),
        (
            ["eval", "--agent", "random", "--env", "GUESS", "--tasks", "0"],
            ": --tasks must be a number of at least 1, got 0",
        ),
        (["eval", "--model", "tiny", "--temperature", "-1"], ": --temperature must be 0 (greedy) or more, got -1.0"),
        (["eval", "--model", "tiny", "--slots", "0"], ": --slots must be at least 1, got 0"),
        (["eval", "--model", "./nope"], ": no model './nope': there is no such folder\n"),
        (["eval", "--model", "a/b/c"], ": no model 'a/b/c': there is no such folder ('a' is not there)\n"),
        (["eval", "--model", "nope"], "no model 'nope': neither a folder here nor a hub id (owner/name). There are:"),
        (["play"], "NAME is missing: agentgym play NAME"),
        (["play", "nowhere"], "No environment 'nowhere' is installed."),
        (["play", "GUESS", "--task", "nothing"], "No task 'nothing'"),
        (["play", "GUESS", "--task", "²"], "No task '²'"),
        (["play", "maze", "--env_kwargs.difficulty", "hrd"], "--env_kwargs.difficulty must be one of easy,"),
        (["play", "shop", "--env_kwargs.difficulty", "hrd"], "--env_kwargs.difficulty must be one of easy,"),
        (["evolve", "--resume", "nowhere", "--env", "GUESS"], "nowhere: no such folder"),
        (["replay", "nowhere.jsonl"], "nowhere.jsonl: no such file"),
        (["data", "verify", "nowhere.jsonl"], "nowhere.jsonl: no such file"),
        (["data", "convert", "a.jsonl", "b.xml"], "b.xml: unknown format; end the name in .jsonl, .json, .parquet, or"),
        (
            ["data", "convert", "a.jsonl", "b.jsonl", "--to", "tlr"],
            "--to: no format 'tlr'; choose from",
        ),
        (
            ["data", "convert", "a.jsonl", "b.jsonl", "--to", "json"],
            "openai; did you mean agenttraj?",
        ),
        (
            ["data", "convert", "a.jsonl", "b.jsonl", "--to", "csv"],
            "--to: no format 'csv'; choose from store, ",
        ),
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


RENAMED_OPTIONS = [
    ("filtered_bc", old, new) for old, new in files.RENAMED.items()
] + [
    (trainer, f"trainer.{old}", f"trainer.{new}") for trainer, names in RENAMED.items() for old, new in names.items()
]  # fmt: skip


@pytest.mark.parametrize(("trainer", "old", "new"), RENAMED_OPTIONS)
def test_a_former_name_leads_to_the_current_one(agentgym: Run, trainer: str, old: str, new: str) -> None:
    """On the command line and in a config file, for every renamed setting."""
    command = "train" if trainer == "process_reward" else "collect" if new == "temperature" else "evolve"
    choice = [] if command == "collect" else ["--trainer", trainer]
    err = agentgym(command, *choice, f"--{old}", "1")[2]
    assert err == f"agentgym: --{old}: no such option; did you mean --{new}?\n"
    Path("c.yaml").write_text(f"{old}: 1" if "." not in old else f"trainer: {{{old.partition('.')[2]}: 1}}")
    err = agentgym(command, *choice, "--config", "c.yaml")[2]
    assert err == f"agentgym: c.yaml: {old}: no such setting; did you mean {new}?\n"


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
    ("words", "said"),
    [
        (["evolve", "--env", "maze", "--out", "file/run"], "file/run cannot be made: Not a directory"),
        (["eval", "--env", "maze", "--model", "tiny-random", "--out", "file/run"], "file/run cannot be made: Not a"),
        (["export", "tiny-random", "--out", "file/run"], "file/run cannot be made: Not a directory"),
        (["prove", "grpo", "--seeds", "0"], "--seeds must be a number of at least 2, got 0"),
        (["plan", "--model", "Qwen2.5-7B", "--gpus", "0"], "--gpus must be a number of at least 1, got 0"),
    ],
)
def test_a_wrong_value_is_said_before_torch_is_loaded(tmp_path: Path, words: list[str], said: str) -> None:
    """Also a folder that cannot be made; the trial leaves none behind."""
    (tmp_path / "file").touch()
    code = f"import sys; from agentgym_py.cli import main; status = main({words});print(status, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "2 False\n" and done.stderr.startswith(f"agentgym: {said}") and done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rouns: 3", "rouns: no such setting; did you mean rounds?"),
        ("rounds: many", "--rounds: expected a whole number, got 'many'"),
        ("select: {treshold: 1}", "select.treshold: no such setting; did you mean select.threshold?"),
        ("trainer: {name: filtered_bc, learning_rat: 1}", "did you mean trainer.learning_rate?"),
        ("trainer: filterd_bc", "Did you mean 'filtered_bc'?"),
        ("rounds: [1", "c.yaml is not readable as YAML"),
        ("just words", "c.yaml: expected a mapping of options"),
    ],
)
def test_a_mistake_in_a_config_file_is_one_line(agentgym: Run, text: str, said: str) -> None:
    """The same for a YAML file."""
    Path("c.yaml").write_text(text)
    status, _, err = agentgym("evolve", "--config", "c.yaml")
    assert (status, err.count("\n")) == (2, 1) and said in err


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

    monkeypatch.setattr(command_module("report"), "run", fail)
    with pytest.raises(RuntimeError, match="a defect"):
        main(["report", "."])


def test_ctrl_c_is_status_130(agentgym: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends any command in a line."""

    def stop(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(command_module("report"), "run", stop)
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


def test_help_shows_what_most_people_set(agentgym: Run) -> None:
    """At most 20 options of `evolve`; `--help-all` shows every one, the trainer's and the selector's too."""
    short, long = (agentgym("evolve", how)[1] for how in ("--help", "--help-all"))
    shown, every = (re.findall(r"^  --([\w.]+)", text, re.MULTILINE) for text in (short, long))
    assert len(shown) <= 20 and {"env", "rounds", "attempts", "trainer"} <= set(shown) < set(every)
    every = [name.removesuffix(".NAME") for name in every]  # an entry of a mapping
    assert set(every) == {name.removesuffix(".name") for name in build_parser("evolve", []).options}
    assert f"`agentgym evolve --help-all` shows {len(every) - len(shown)} more options." in short
    assert "Optional[" not in long and "null" not in long and "(type:" not in long


def test_help_says_types_and_defaults(agentgym: Run) -> None:
    """As one types them; an option that takes no value has none."""
    text = agentgym("evolve", "--help-all")[1]
    for said in (
        "--rounds INT ",
        "(default: 3)",
        "--merge all|last|initial+last",
        "--allow_empty ",
        "(default: 0.05)",
    ):
        assert said in text
    assert "--allow_empty true" not in text


OF_PLUGINS = [
    *(f"evolve --trainer {name}" for name in registry.names("agentgym.trainers")),
    *(f"evolve --critic {name}" for name in registry.names("agentgym.feedback")),
    *(f"evolve --reflection {name}" for name in registry.names("agentgym.reflections")),
    *(f"judge --source {name}" for name in registry.names("agentgym.feedback")),
]
"""Commands whose help has the settings of a plugin."""


@pytest.mark.parametrize("command", [*(name for name in COMMANDS if not build_parser(name, []).commands), *OF_PLUGINS])
def test_a_placeholder_says_what_to_write(command: str, agentgym: Run) -> None:
    """It never repeats the option's name, unless that names the value."""
    text = agentgym(*command.split(), "--help-all")[1]
    pairs = re.findall(r"^  --([\w.]+) ([A-Z_]+)", text, re.MULTILINE)
    assert [pair for pair in pairs if pair[0].rpartition(".")[2].upper() == pair[1] not in ("FORMAT", "REWARD")] == []


def test_help_of_evolve_says_whose_defaults_it_shows(agentgym: Run) -> None:
    """The worlds of `--env` choose some of them."""
    for words, worlds in (([], "shop"), (["--env", "tools"], "tools"), (["--env", "shop,todo"], "shop, todo")):
        text = " ".join(agentgym("evolve", *words, "--help")[1].split())
        assert f"The defaults below are those of {worlds}; `--env NAME --help` shows those of a world." in text


def test_an_option_may_stand_several_times_or_once_with_commas() -> None:
    """The command line replaces what a file says, and adds to itself."""
    parser = Parser("agentgym test")
    parser.add("env", item=str, default=["shop"])
    parser.add("config")
    parser.add("weights", dict[str, float], {"a": 1.0})
    assert parser.parse(["--env", "a", "--env=b,c"])["env"] == ["a", "b", "c"]
    assert parser.parse([])["env"] == ["shop"]
    assert parser.parse(["--weights.b", "2"])["weights"] == {"a": 1.0, "b": 2.0}
    assert parser.options["weights"].default == {"a": 1.0}
    assert parser.parse(["--weights", "{c: 3}"])["weights"] == {"c": 3.0}
    with pytest.raises(UsageError, match=r"^weights\.b: expected a number, got 'x'$"):
        parser.parse(["--weights.b", "x"])
    with naming_options(), pytest.raises(UsageError, match=r"^--weights\.b: expected a number, got 'x'$"):
        parser.parse(["--weights.b", "x"])
    with pytest.raises(UsageError, match=r"^file: env: no such setting|^file: envs: no such setting; did you mean env"):
        parser.read_mapping({"envs": ["a"]}, "file")


@pytest.mark.parametrize(
    ("text", "hint", "value"),
    [
        ("3", int, 3), ("1e-4", float, 1e-4), ("null", int | None, None), ("none", str | None, "none"),
        ("007", str, "007"),
        ("true", bool, True), ("yes", bool, True), ("a", Literal["a", "b"], "a"), ("null", Literal["a"] | None, None),
        ("{a: 1}", dict[str, Any], {"a": 1}), ("1", Any, 1), ("x", Path, "x"), ("2", int | str, 2),
        ("q", int | str, "q"),
    ],
)  # fmt: skip
def test_texts_become_values_of_their_type(text: str, hint: Any, value: Any) -> None:
    """As an option's annotation says."""
    made = convert(text, hint)
    assert made == value and type(made) is type(value)


@pytest.mark.parametrize(
    ("value", "hint", "said"),
    [
        ("x", int, "expected a whole number, got 'x'"), (2.5, int, "expected a whole number, got 2.5"),
        ("1.5", int, "expected a whole number, got '1.5'"),
        ("-0.5", int | None, "expected a whole number or null, got '-0.5'"),
        (True, float, "expected a number, got True"),
        ("perhaps", bool, "expected true or false, got 'perhaps'"), (3, str, "expected text, got 3"),
        ("[1]", dict[str, Any], "expected a mapping, got '[1]'"),
        ("c", Literal["a", "b"], "expected one of a, b, got 'c'"),
    ],
)  # fmt: skip
def test_a_wrong_value_says_what_is_expected(value: Any, hint: Any, said: str) -> None:
    """In words that a user knows."""
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        convert(value, hint)


def test_trainers_are_listed_and_shown(agentgym: Run) -> None:
    """Each installed one is a line; one is shown with its formula, what it needs and every setting."""
    status, out, err = agentgym("trainers", "list")
    assert status == 0 and err == ""
    names = registry.names("agentgym.trainers")
    assert [line.split()[0] for line in out.splitlines()[1:]] == names
    for name in names:
        status, out, _ = agentgym("trainers", "show", name)
        trainer = registry.load("agentgym.trainers", name)
        assert status == 0 and out.startswith(f"{name} (agentgym ") and "\nNeeds\n" in out and "\nSettings\n" in out
        assert all(f"--trainer.{each.name} " in out for each in fields(trainer) if each.init)
        about = json.loads(agentgym("trainers", "show", name, "--json")[1])
        assert {each["name"] for each in about["settings"]} == {each.name for each in fields(trainer) if each.init}


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("dpo", ["match", "level", "max_pairs", "beta", "loss_type", "label_smoothing", "sft_weight"]),
        ("filtered_bc", ["threshold"]),
        ("grpo", ["variant", "group_size"]),
    ],
)
def test_a_trainer_shows_its_own_settings_first(agentgym: Run, name: str, first: list[str]) -> None:
    """Those that it shares with most trainers follow, in `trainers show` and in the help."""
    settings = [row["name"] for row in json.loads(agentgym("trainers", "show", name, "--json")[1])["settings"]]
    assert settings[: len(first)] == first and settings.index("lora_rank") >= len(first)
    out = agentgym("evolve", "--trainer", name, "--help-all")[1]
    assert re.findall(r"^  --trainer\.(\w+)", out, re.MULTILINE) == settings


def test_agents_are_listed(agentgym: Run) -> None:
    """By name, as `--agent` takes them."""
    status, out, _ = agentgym("agents", "list")
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()[1:]] == registry.names("agentgym.agents")
    assert {each["name"] for each in json.loads(agentgym("agents", "list", "--json")[1])} >= {"expert", "random"}


def test_one_thing_has_one_name_in_all_commands() -> None:
    """Episodes per task are `attempts`, the expert is `fair` or `exact`, sampling has a `temperature`."""
    for command in ("evolve", "collect", "eval"):
        names = set(build_parser(command, []).options)
        assert {"attempts", "temperature", "expert", "env", "model", "seed"} <= names
        assert not names & {"tries", "samples", "temperatures", "fork_tries"}


NEEDED = {
    "evolve": ["--env", "GUESS"],
    "collect": ["--env", "GUESS", "--out", "x", "--model", "tiny"],
    "train": ["--data", "x", "--out", "y"],
    "eval": ["--env", "GUESS", "--model", "tiny"],
}
ANY_NUMBER = {"select.threshold", "trainer.threshold", "cloner.threshold"}
"""Options for which a negative number is possible."""


@pytest.mark.parametrize("command", [*NEEDED, "evolve --trainer grpo", "evolve --trainer r3", "train --trainer dpo"])
def test_an_impossible_number_is_refused_before_a_model_is_loaded(
    agentgym: Run, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every number of a command: nothing heavy is loaded, and no file is read, before all are checked."""

    class LoadedError(Exception):
        pass

    def load(*_: object, **__: object) -> None:
        raise LoadedError

    for module in ("train", "evolve", "agent_options"):
        for name in ("prepare_torch", "load_torch", "require_model_files", "read_trajectories"):
            if hasattr(command_module(module), name):
                monkeypatch.setattr(command_module(module), name, load)
    command, *choice = command.split()
    options = build_parser(command, choice).options
    numbers = {name for name, option in options.items() if metavar_of(option.hint) in ("INT", "FLOAT")}
    assert {"max_context", "seed"} <= numbers
    accepted = []
    for name in sorted(numbers - ANY_NUMBER):
        try:
            status, _, err = agentgym(command, *NEEDED[command], *choice, f"--{name}", "-400")
        except LoadedError:
            accepted.append(name)
        else:
            assert status == 2 and f"--{name} " in err, (name, err)
    assert accepted == []


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--max_context", "32", "--max_new_tokens", "64"], "--max_context 32 must be above --max_new_tokens, which"),
        (["--engine_kwargs.retries", "-1"], "--engine_kwargs.retries must be at least 0, got -1"),
        (["--engine_kwargs.concurrency", "0"], "--engine_kwargs.concurrency must be at least 1, got 0"),
        (["--engine_kwargs.timeout", "soon"], "--engine_kwargs.timeout must be a number, not 'soon'"),
    ],
)
@pytest.mark.parametrize("command", ["evolve", "eval"])
def test_numbers_that_belong_together_are_refused_at_once(
    agentgym: Run, command: str, argv: list[str], named: str
) -> None:
    """A context without room for a prompt, and the limits of a model server."""
    server = ["--engine", "server", "--base_url", "http://localhost:1"] if "engine" in argv[0] else []
    status, _, err = agentgym(command, "--env", "GUESS", "--model", "no-such-model", *server, *argv)
    assert status == 2 and named in err


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (["train", "--preset", "smoke"], "did you mean --coreset?; --preset is an option of agentgym evolve\n"),
        (["play", "shop", "--rounds", "2"], "--rounds: no such option; it is an option of agentgym evolve\n"),
        (["eval", "--trainer.epochs", "2"], "; it is an option of agentgym evolve, agentgym train and agentgym plan\n"),
        (
            ["evolve", "--tasks", "3"],
            "; --tasks is an option of agentgym collect, agentgym eval, agentgym attack and agentgym credit\n",
        ),
        (["trainers", "list", "--preset", "x"], "; it is an option of agentgym evolve\n"),
    ],
)
def test_a_misplaced_option_names_the_commands_that_have_it(agentgym: Run, argv: list[str], hint: str) -> None:
    """Every command knows the options of the others."""
    status, _, err = agentgym(*argv)
    assert status == 2 and err.endswith(hint)
