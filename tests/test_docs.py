"""What the docs say of the command line is what the command line does."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from scripts import load_script

import agentgym_py
from agentgym_py import files, registry
from agentgym_py.cli import COMMANDS, build_parser
from agentgym_py.cli.argv import normalize_argv
from agentgym_py.cli.trainers import module_docstring
from agentgym_py.env import TextEnv, registration
from agentgym_py.env.registration import env_plugins

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGE = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
TRAINERS = sorted((DOCS / "reference" / "trainers").glob("*.md"))
"""Pages of trainers, some with commands to type."""


def parsers() -> Iterator[tuple[str, Any]]:
    """Every command and subcommand that can be run, with its parser."""
    for name in COMMANDS:
        parser = build_parser(name, [])
        inner = parser.commands
        yield from ((f"{name} {each}", inner[each]) for each in inner) if inner else [(name, parser)]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_section(name: str) -> None:
    """With its examples, and a row in the table at the top."""
    assert f"\n## agentgym {name}\n\n<!-- examples: {name} -->\n\n```\n# " in PAGE
    assert f"\n| [`{name}`](#agentgym-{name}) |" in PAGE


def test_every_promise_names_tests_that_exist() -> None:
    """Each row of the table of docs/guides/security.md."""
    page = (ROOT / "docs" / "guides" / "security.md").read_text(encoding="utf-8")
    _, _, table = page.partition("| a stranger sends |")
    rows = [line for line in table.split("\n\n")[0].splitlines()[2:] if line.startswith("|")]
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    named = [re.findall(r"`(test_\w+)`", row) for row in rows]
    assert len(rows) > 20 and all(named)
    assert [name for names in named for name in names if f"def {name}(" not in tests] == []


def test_the_table_of_bridges_counts_their_lines() -> None:
    """Of every module of `bridges/` and of `rollout_func`, each in one row."""
    page = (DOCS / "guides" / "bridges.md").read_text(encoding="utf-8")
    sources = {path.stem: path for path in (ROOT / "bridges").glob("*/agentgym_*.py")}
    sources["trl_rollout"] = ROOT / "agentgym_py" / "training" / "trl_rollout.py"
    lines = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in sources.items()}
    rows = [(int(count), re.findall(r"`(\w+)`", names)) for count, names in re.findall(r"\| (\d+): (`.*?`) \|", page)]
    assert sorted(name for _, names in rows for name in names) == sorted(lines)
    assert [count for count, _ in rows] == [sum(lines[name] for name in names) for _, names in rows]


def test_the_installed_plugins_are_those_of_the_source() -> None:
    """The help lists installed trainers and agents, so an old installation would leave some out of the page."""
    source = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    for group, entries in source.items():
        assert set(entries) <= set(registry.names(group)), "run pip install -e . again, then docs/cli_help.py"


def test_pages_have_the_help_and_examples_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the letter, defaults and all; one page has an example of every command."""
    monkeypatch.setenv("COLUMNS", "0")  # put back afterwards, whatever the script sets
    cli_help = load_script("docs/cli_help.py")
    texts = [page.read_text(encoding="utf-8") for page in cli_help.PAGES]
    for text in texts:
        assert cli_help.with_help(text) == text, "run docs/cli_help.py"
    assert "<!-- examples: first -->" in texts[1] and all(f"\nagentgym {name} " in texts[1] for name in COMMANDS)


@pytest.mark.parametrize(("command", "parser"), list(parsers()), ids=lambda each: each if isinstance(each, str) else "")
def test_every_option_has_help(command: str, parser: Any) -> None:
    """And every command stands in the page."""
    assert f"<!-- help: {command} -->" in PAGE
    assert parser.about
    for option in [*parser.options.values(), *parser.positionals]:
        assert option.help, f"{command}: {option.name} has no help"


PAGES = [
    *("README.md", "README.zh-CN.md", "examples/plugin/README.md"),
    *(path.relative_to(ROOT).as_posix() for path in sorted(DOCS.rglob("*.md"))),
]


NOT_INSTALLED = (
    "shortest", "my_curriculum.py", "my_coreset.py", "my_source.py", "my_reflection.py", "runs/rm/reward_model",
)  # fmt: skip
"""What commands of the docs name that only a reader has: the trainer of an example's package, and files."""


@pytest.mark.usefixtures("own_sources")
@pytest.mark.parametrize("page", PAGES)
def test_commands_in_the_docs_can_be_typed(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser of its command takes every `agentgym …` line in a block, with its options and their values."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    files.write_atomic(tmp_path / "runs" / "mine" / "run.yaml", "rounds: 1\n")
    text = re.sub(r" \\\n +", " ", (ROOT / page).read_text(encoding="utf-8"))
    lines = re.findall(r"^(?:    )?(?:.*&& |[A-Z_]+=\S+ )?agentgym ([a-z].*?)(?:  .*)?$", text, re.MULTILINE)
    assert lines or page not in ("README.md", "README.zh-CN.md", "docs/reference/cli.md")
    for line in lines:
        name, *words = normalize_argv(shlex.split(line, comments=True))
        assert name in COMMANDS, line
        if not set(NOT_INSTALLED) & set(words):
            build_parser(name, words).parse(words)


# ---- settings of trainers -------------------------------------------------------------------------------------------


def stated(page: str, column: int = 1) -> dict[str, Any]:
    """The defaults in a page's tables of settings: `| `name`, `other` | 1, 2 | ...`; None where a cell is empty."""
    text, found = (DOCS / "reference" / "trainers" / f"{page}.md").read_text(encoding="utf-8"), dict[str, Any]()
    for table in re.findall(r"^\| setting \|.*\n\|[-|:]+\n((?:\|.*\n)+)", text, re.MULTILINE):
        for line in table.splitlines():
            cells = [cell.strip() for cell in line[1:].split("|")]
            names, cell = re.findall(r"`(\w+)`", cells[0]), cells[column]
            values = cell.split(", ") if len(names) > 1 and cell != "–" else [cell] * len(names)
            found |= {name: value_of(value) for name, value in zip(names, values, strict=True) if value != "–"}
    return found


def value_of(said: str) -> Any:
    """What a cell says."""
    try:
        return float(said)
    except ValueError:
        return yaml.safe_load(said)


def defaults(settings: type[Any]) -> dict[str, Any]:
    """Those of a dataclass; None for an empty one."""
    every = {f.name: f.default if f.default_factory is MISSING else f.default_factory() for f in fields(settings)}
    return {name: None if value == {} else value for name, value in every.items()}


def test_shared_settings_have_the_defaults_that_their_table_says() -> None:
    """All of them, of either kind of trainer."""
    from agentgym_py.training.settings import OfflineSettings, OnPolicySettings

    assert stated("README", 1) == defaults(OfflineSettings)
    assert stated("README", 2) == defaults(OnPolicySettings)


TRL_PAGE = ("trl_sft", "trl_dpo", "trl_grpo")
"""Columns of the table on the page of trl's trainers."""


def test_every_trainer_has_a_page_with_its_defaults() -> None:
    """Each setting stands there, on the page of the trainer that it builds on, or in the table of shared ones."""
    from agentgym_py.training.settings import OfflineSettings, TrlSettings

    ours = {
        plugin.name: registry.load("agentgym.trainers", plugin.name)
        for plugin in registry.plugins("agentgym.trainers")
        if plugin.target.startswith("agentgym_trainers.")
    }
    of_trl = {name: trainer for name, trainer in ours.items() if issubclass(trainer, TrlSettings)}
    for column, (name, trainer) in enumerate(sorted(of_trl.items(), key=lambda item: TRL_PAGE.index(item[0])), 1):
        assert stated("trl", column) == defaults(trainer), name
        del ours[name]
    assert set(ours) == {path.stem for path in TRAINERS} - {"README", "trl"}
    for name, trainer in ours.items():
        said = stated("README", 1 if issubclass(trainer, OfflineSettings) else 2)
        for other, each in ours.items():
            shared = [base for base in each.__mro__ if base.__module__ == each.__module__ and issubclass(trainer, base)]
            said |= stated(other) if shared and other != name else {}
        said |= stated(name)
        assert said == defaults(trainer), name


@pytest.mark.parametrize("plugin", registry.plugins("agentgym.trainers"), ids=lambda plugin: plugin.name)
def test_pages_of_trainers_have_the_formulas_of_agentgym_trainers_show(plugin: registry.Plugin) -> None:
    """Word for word; a formula has names of settings, not the paper's Greek letter for one."""
    if not plugin.target.startswith("agentgym_trainers."):
        pytest.skip("another package's, without a page")
    trainer = registry.load("agentgym.trainers", plugin.name)
    text = module_docstring(trainer) + "\n"
    page = "trl" if plugin.name in TRL_PAGE else plugin.name
    written = (DOCS / "reference" / "trainers" / f"{page}.md").read_text(encoding="utf-8")
    formulas = re.findall(r"(?<=\n\n)(?:    .*\n(?:\n(?=    ))?)+", text)
    assert formulas or plugin.name == "reverse_curriculum", "of GRPO alone"
    for formula in formulas:
        assert formula.rstrip() in written
        assert not re.search(r"\b(lambda|gamma KL|c_v|c_e|eps|eps_low|eps_high|w_good|w_bad)\b", formula)


def test_every_page_is_in_the_navigation() -> None:
    """The site's navigation lists each page once, and none that is missing."""
    listed: list[str] = []

    def visit(entries: list[Any]) -> None:
        for entry in entries:
            target = next(iter(entry.values())) if isinstance(entry, dict) else entry
            visit(target) if isinstance(target, list) else listed.append(target)

    visit(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    notebooks = (path.with_suffix(".md") for path in load_script("docs/notebook_pages.py").NOTEBOOKS)
    assert sorted(listed) == sorted(path.relative_to(DOCS).as_posix() for path in (*DOCS.rglob("*.md"), *notebooks))


def test_the_citation_names_this_version() -> None:
    """`CITATION.cff` is YAML with the version of the package, and the changelog has its section with the same date."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["cff-version"], citation["version"]) == ("1.2.0", agentgym_py.__version__)
    assert f"\n## {agentgym_py.__version__} - {citation['date-released']}\n" in (ROOT / "CHANGELOG.md").read_text(
        encoding="utf-8"
    )


@pytest.fixture
def tutorials(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module `.ci/tutorials.py`."""
    monkeypatch.syspath_prepend(ROOT / ".ci")
    return importlib.import_module("tutorials")


@pytest.mark.parametrize(
    ("page", "sources"),
    [
        ("first-world", ["my_world.py"]),
        ("first-trainer", ["plugin/odd_coin/trainer.py", "my_reinforce.py"]),
        ("rlhf", ["pipelines/rlhf.yaml"]),
    ],
)
def test_tutorials_show_code_of_the_examples(tutorials: Any, page: str, sources: list[str]) -> None:
    """Each block of Python or YAML in a tutorial stands in an example, which other tests run."""
    text = (DOCS / "tutorials" / f"{page}.md").read_text(encoding="utf-8")
    code = [(ROOT / "examples" / source).read_text(encoding="utf-8") for source in sources]
    blocks = re.findall(r"^```(?:python|yaml)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        assert any(tutorials.stands_in(block, each) for each in code), block


def test_every_block_of_a_tutorial_runs_in_ci(tutorials: Any) -> None:
    """Each is a command, a program or part of an example; a block that does not run comes after its reason."""
    shown = list[str]()
    for page in tutorials.PAGES:
        text = page.read_text(encoding="utf-8")
        found = tutorials.blocks(text)
        assert len(found) * 2 == len(re.findall(r"^```", text, re.MULTILINE)), page
        assert {block.language for block in found} <= {"", "python", "yaml", "json", "text", "toml"}, page
        assert text.count("<!-- not run") == sum(not block.runs for block in found), page
        for program in tutorials.programs(text):
            ast.parse(program)
        shown += tutorials.commands(text)
    assert len(shown) >= 20 and all(line.startswith(("agentgym ", "python ", "ls ")) for line in shown), shown
    assert {*tutorials.SMALL, *tutorials.FIRST} <= set(shown)
    assert "python .ci/tutorials.py" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_a_page_runs_in_its_order(tutorials: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python blocks between two commands are one program, of few tasks; a command has its small form."""
    calls = list[Any]()
    monkeypatch.setattr(tutorials, "run", calls.append)
    monkeypatch.setattr(tutorials, "SMALL", {"a --tasks 9": "--tasks 1"})
    monkeypatch.setattr(tutorials, "FIRST", {"b": "before b"})
    blocks = ["```python\nx = f(tasks=300)\n```", "```\na --tasks 9\n```", "```python\nf(x)\n```",
              "```text\nout\n```", "```python\ng(x)\n```", "```\nb\n```"]  # fmt: skip
    page = tmp_path / "page.md"
    page.write_text("\n\n".join(blocks) + "\n")
    tutorials.run_page(page)
    program = [sys.executable, "-c"]
    assert calls == [
        [*program, "x = f(tasks=4)\n"], ["a", "--tasks", "9", "--tasks", "1"], [*program, "f(x)\n\ng(x)\n"],
        ["before", "b"], ["b"],
    ]  # fmt: skip


def test_all_pages_run_but_those_that_scripts_write(tutorials: Any) -> None:
    """A new page of these parts of the docs is among them; `readme.py` runs the page of commands."""
    parts = ("tutorials", "get-started", "guides", "concepts", "reference")
    left_out = {page for part in parts for page in (DOCS / part).rglob("*.md")} - set(tutorials.PAGES)
    generated = {*(DOCS / "reference" / "worlds").glob("*.md"), *(DOCS / "reference" / "api").glob("*.md")}
    assert left_out == {*generated, DOCS / "reference" / "cli.md", DOCS / "get-started" / "commands.md"}


def test_commands_of_the_readme_have_small_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    """CI runs each line of the README and of the page of commands in its small form, and none that is gone."""
    monkeypatch.syspath_prepend(ROOT / ".ci")
    readme = importlib.import_module("readme")
    lines = readme.commands("\n".join((ROOT / page).read_text(encoding="utf-8") for page in readme.PAGES))
    assert set(lines) == set(readme.SMALL) and set(readme.FIRST) <= set(lines)


def test_the_runner_finds_commands_and_programs(tutorials: Any) -> None:
    """Continued lines are one command; output, data and blocks with a reason are none."""
    shown = ["```\na \\\n  --b  # why\nc\n```", "<!-- not run: GPU -->\n\n```\nd\n```", "```text\ne\n```"]
    page = "\n\n".join([*shown, "```python\nf()\n```\n"])
    assert tutorials.commands(page) == ["a --b", "c"]
    assert tutorials.programs(page) == ["f()\n"]


def test_notebooks_are_stored_without_outputs() -> None:
    """Their cells are valid Python, and the page on notebooks links to each."""
    page = (DOCS / "tutorials" / "notebooks.md").read_text(encoding="utf-8")
    notebooks = load_script("docs/notebook_pages.py").NOTEBOOKS
    assert len(notebooks) >= 2
    for notebook in notebooks:
        assert f"({notebook.name})" in page
        for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code":
                ast.parse("".join(cell["source"]))
                assert cell["outputs"] == [] and cell["execution_count"] is None, notebook


def test_a_notebook_is_a_page_with_its_outputs() -> None:
    """Text, code, what it printed and returned; an object without a text is only named, and stderr is left out."""
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": "printed\n"},
        {"output_type": "stream", "name": "stderr", "text": "warned"},
        {
            "output_type": "display_data",
            "data": {"text/html": "<pre>shown</pre>", "text/plain": "\x1b[1mshown\x1b[0m\n"},
        },
        {"output_type": "execute_result", "data": {"text/plain": "['a', 'b']"}},
        {"output_type": "display_data", "data": {"text/html": "<iframe>", "text/plain": "<lib.IFrame at 0x7f>"}},
    ]
    cells = [{"cell_type": "markdown", "source": "# Title"}, {"cell_type": "code", "source": "f()", "outputs": outputs}]
    written = load_script("docs/notebook_pages.py").page({"cells": cells}, "title.ipynb")
    assert written.startswith("# Title\n\n[Download the notebook](title.ipynb).\n\n```python\nf()\n```\n")
    assert "```text\nprinted\nshown\n['a', 'b']\n```\n\n*The notebook shows a page here.*\n" in written
    assert "iframe" not in written.lower() and "warned" not in written


def python_blocks(page: Path) -> str:
    """Return all Python blocks of a page as one program, in order."""
    return "\n".join(re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))


WITH_PYTHON = [page for page in sorted(DOCS.rglob("*.md")) if python_blocks(page)]


def test_python_blocks_define_what_they_use(tmp_path: Path) -> None:
    """A reader can run the blocks of a page one after another; parts of the examples in tutorials are tested apart."""
    for number, page in enumerate(page for page in WITH_PYTHON if page.parent.name != "tutorials"):
        (tmp_path / f"{page.stem}_{number}.py").write_text(python_blocks(page), encoding="utf-8")
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_names_that_pages_import_are_on_the_api_pages() -> None:
    """Each exists, and the reference documents its module with this name among the members."""
    listed = list[tuple[str, set[str]]]()
    for page in sorted((DOCS / "reference" / "api").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        for module, options in re.findall(r"^::: (\S+)\n((?: {4}.*\n)*)", text, re.MULTILINE):
            found = importlib.import_module(module)
            members = (yaml.safe_load(options) or {"options": {}})["options"].get("members")
            assert all(hasattr(found, member) for member in members or ()), module
            listed.append((module, set(members or getattr(found, "__all__", vars(found)))))
    documented = {f"{module}.{member}" for module, members in listed for member in members}
    imported = set[str]()
    for page in WITH_PYTHON:
        for node in ast.walk(ast.parse(python_blocks(page))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("agentgym_py"):
                imported |= {f"{node.module}.{alias.name}" for alias in node.names}
    assert len(imported) >= 15
    modules = {module for module, _ in listed}
    assert {name for name in imported - documented if name not in modules} <= INTERNAL


INTERNAL = {"agentgym_py.rng.Rng", "agentgym_py.errors.UnknownNameError"}
"""Imported on pages, but documented by their own page or docstring."""


def test_the_page_of_metrics_has_every_name() -> None:
    """Those of an evaluation, of an endpoint, beside the experts, and of a training's report."""
    from agentgym_py.evaluation.evaluate import ApiUsage, Evaluation
    from agentgym_py.evaluation.experts_comparison import ExpertsComparison
    from agentgym_py.evaluation.stats import Estimate
    from agentgym_py.training import TrainReport

    page = (DOCS / "reference" / "metrics.md").read_text(encoding="utf-8")
    names = {name for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE) for name in re.findall(r"`(\S+)`", row)}
    for described in (Estimate, Evaluation, ApiUsage, ExpertsComparison, TrainReport):
        assert {each.name for each in fields(described)} <= names, described


def test_links_lead_somewhere() -> None:
    """Each to a file of the repository, and to a heading that stands in it."""
    pages = [page for folder in ("docs", "examples", "datasets") for page in (ROOT / folder).rglob("*.md")]
    links = [
        (page, link)
        for page in (*pages, *ROOT.glob("*.md"))
        for link in re.findall(r"\]\((?!\w+:)([^)\s]+)\)", page.read_text(encoding="utf-8"))
    ]
    assert len(links) > 50
    for page, link in links:
        name, _, heading = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), f"{page}: {link}"
        if heading and target.suffix == ".md":  # of a picture it is the mode: #only-dark
            heads = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in heads}, link


@pytest.mark.parametrize("page", ["README.md", "docs/get-started/commands.md", "docs/reference/cli.md"])
def test_what_the_examples_write_is_no_change_for_git(page: str) -> None:
    """Who types them in a checkout finds nothing to commit."""
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout")
    text = (ROOT / page).read_text(encoding="utf-8")
    written = re.findall(r"^agentgym .*--out (\S+)", text, re.MULTILINE)
    written += re.findall(r"^agentgym data convert \S+ (\S+)", text, re.MULTILINE)
    assert written
    done = subprocess.run(["git", "check-ignore", *written], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.split() == written


def test_world_pages_show_episodes_that_were_played() -> None:
    """Every installed world has a page, and it is what `python docs/env_pages.py` writes today."""
    pages = load_script("docs/env_pages.py")
    for name in registry.names("agentgym.envs"):
        written = (DOCS / "reference" / "worlds" / f"{registration.short_name(name)}.md").read_text(encoding="utf-8")
        assert written == pages.page(name), "run docs/env_pages.py"


def test_world_pages_say_how_hard_it_is() -> None:
    """Every built-in world has a row for each difficulty; what is said of one is said of all of its difficulties."""
    pages = load_script("docs/env_pages.py")
    from agentgym_py.env import EnvSpec

    for plugin in env_plugins():
        if plugin.target.startswith("agentgym_envs."):
            env = EnvSpec(plugin.name).make()
            levels = set(getattr(env, "limits", ("easy", "medium", "hard")))
            assert {row["difficulty"] for row in pages.measured()[env.name]} == levels
            assert set(pages.DIFFERS.get(env.name, levels)) == levels


def test_every_world_was_measured_in_its_version() -> None:
    """If this fails, run `python benchmarks/worlds.py NAME`, docs/figures.py and docs/env_pages.py."""
    from agentgym_py.env import EnvSpec

    lines = [json.loads(line) for line in (ROOT / "benchmarks" / "worlds.jsonl").read_text().splitlines()]
    worlds = [EnvSpec(plugin.name).make() for plugin in env_plugins() if plugin.target.startswith("agentgym_envs.")]
    assert {line["world"]: line["version"] for line in lines} == {world.name: world.version for world in worlds}


def test_cards_have_the_figures_of_the_benchmarks() -> None:
    """An expert's steps and a random agent's success in a card are those of benchmarks/worlds.jsonl."""
    measured = load_script("docs/env_pages.py").measured()
    from agentgym_py.env import EnvSpec

    compared = 0
    for name in registry.names("agentgym.envs"):
        env = EnvSpec(name).make()
        lines = [line.strip() for line in (env.__doc__ or "").splitlines()]
        head, *table = [[cell.strip("` ") for cell in line[1:-1].split("|")] for line in lines if line[:1] == "|"] or [
            []
        ]
        for row in measured.get(env.name, ()):
            for said in (dict(zip(head, cells, strict=True)) for cells in table if cells[0] == row["difficulty"]):
                for column in ("expert's steps", "random"):
                    text = said.get(column, said.get(f"{column} success"))
                    if text is not None:
                        assert float(text.rstrip(" %")) == float(row[column].rstrip(" %")), (name, column)
                        compared += 1
    assert compared >= 17


def test_the_python_page_has_every_public_name() -> None:
    """And its examples use none that there is not."""
    page = (DOCS / "reference" / "python.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\bag\.(\w+)", page)) == set(agentgym_py.__all__) - {"__version__"}


def test_the_page_on_worlds_lists_what_a_world_must_define() -> None:
    """The abstract methods of `TextEnv`, with its name and `__init__`; what it mentions beside exists."""
    page = (DOCS / "guides" / "worlds.md").read_text(encoding="utf-8")
    table, _, rest = page.partition("## What `agentgym check` also needs")
    rows = re.findall(r"^\| `(\w+)[^`]*` \|", table, re.MULTILINE)
    abstract = [name for name, value in vars(TextEnv).items() if getattr(value, "__isabstractmethod__", False)]
    assert rows == ["name", "__init__", *abstract]
    methods = re.findall(r"`(\w+)\(", rest.partition("## What a world can define")[2])
    assert len(methods) >= 7 and all(callable(getattr(TextEnv, name)) for name in methods)


# ---- README and figures ---------------------------------------------------------------------------------------------

READMES = ("README.md", "README.zh-CN.md")


def test_figures_are_those_of_the_benchmarks_lines() -> None:
    """READMEs, pages of results and both pictures are what `python docs/figures.py` writes today."""
    written = load_script("docs/figures.py").written()
    assert {path.suffix for path in written} == {".md", ".svg"}
    for path, content in written.items():
        assert path.read_text(encoding="utf-8") == content, f"run docs/figures.py: {path.name}"


def test_tables_of_trainers_are_written_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block of trainers names a comparison and one of its tables; other figures leave it as it is."""
    figures = load_script("docs/figures.py")
    page, lines = (DOCS / "results" / "trainers.md").read_text(encoding="utf-8"), figures.learning().read()
    blocks = re.findall(r"figures: trainers (\w+) (\w+) ", page)
    assert {name for name, _ in blocks} == set(figures.COMPARISONS) and len(set(blocks)) == len(blocks)
    full = ("shop", "household", "more")
    assert {(name, part) for name in full for part in figures.PARTS} <= set(blocks)
    monkeypatch.setattr(figures, "trainer_tables", lambda name: [f"| {name} {part} |" for part in figures.PARTS])
    assert figures.filled(page, lines) == page
    new = figures.filled(page, lines, figures.COMPARISONS)
    assert all(f"| {name} {part} |" in new for name, part in blocks) and "| filtered_bc | dpo |" not in new
    one = figures.filled(page, lines, ["weak"])
    assert "| weak gains |" in one and "| shop gains |" not in one and "| filtered_bc | dpo |" in one


def test_the_page_of_results_has_four_tables() -> None:
    """Each is a short form of tables on another page, with a command above and intervals in it."""
    page = (DOCS / "results" / "index.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    assert [section.splitlines()[0] for section in sections][-1] == "Method" and len(sections) == 5
    for section in sections[:-1]:
        assert "agentgym " in section or "`python benchmarks/" in section.partition("\n| ")[0]
        assert re.search(r"\[-?\d[\d.]*, \d[\d.]*\]", section), section
    assert len(sections[-1].splitlines()) <= 30


def test_the_time_of_the_main_job_is_that_of_its_runs() -> None:
    """A page says it in its own language."""
    figures = load_script("docs/figures.py")
    lines = [{"env": "shop", "seed": seed, "seconds": seconds} for seed, seconds in enumerate((100, 571, 601))]
    assert figures.filled("<!-- minutes -->9 to 99 minutes<!-- end -->", lines) == (
        "<!-- minutes -->2 to 11 minutes<!-- end -->"
    )


def test_figures_of_a_former_base_are_marked(tmp_path: Path) -> None:
    """Without runs from the shipped base there is no picture, and the error names the command that makes them."""
    figures = load_script("docs/figures.py")
    old = tmp_path / "old.jsonl"
    old.write_text("".join(json.dumps({**line, "base": "0f"}) + "\n" for line in figures.learning().read()))
    lines = figures.learning().read(old)
    assert lines and all(line["former"] for line in lines)
    assert all(cell.endswith(" †") for cell in figures.world_cells(lines)["maze"][1:4])
    with pytest.raises(SystemExit, match=r"benchmarks/learning\.py --env shop"):
        figures.main_job(lines)


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_picture_shows_the_rounds_of_the_lines(mode: str) -> None:
    """Each curve has a point per round at its height, and the band goes through the ends of the intervals."""
    figures = load_script("docs/figures.py")
    runs = figures.main_job(figures.learning().read())
    svg = ElementTree.fromstring(figures.picture(runs, mode))  # noqa: S314  # made here
    shapes = {kind: svg.findall(f"{{http://www.w3.org/2000/svg}}{kind}") for kind in ("polyline", "polygon", "text")}
    heights = [[float(point.split(",")[1]) for point in each.attrib["points"].split()] for each in shapes["polyline"]]
    bottom, height = figures.BOTTOM, figures.BOTTOM - figures.TOP
    expected = [[bottom - height * row["valid"]["value"] for row in run["rounds"]] for run in (*runs[1:], runs[0])]
    assert heights == [pytest.approx(curve, abs=0.1) for curve in expected]
    assert len(shapes["polygon"][0].attrib["points"].split()) == 2 * len(runs[0]["rounds"])
    for each in (text for text in shapes["text"] if text.attrib["text-anchor"] == "start"):
        width = 0.58 * float(each.attrib["font-size"]) * len(each.text or "")  # of an average letter
        assert float(each.attrib["x"]) + width < figures.WIDTH, each.text


def test_the_world_of_the_readme_works() -> None:
    """Its methods with the rest of `examples/my_world.py` are a world that forks and that the expert solves."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    code = next(code for code in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S) if "\nclass " in code)
    spaces: dict[str, Any] = {"ag": agentgym_py}
    exec(code, spaces)  # noqa: S102  # the README's own code
    example = load_script("examples/my_world.py", "readme_world")
    world = type("World", (spaces["Guess"], example.GuessEnv), {})
    env, fork = world(), world()
    for seed in range(5):
        env.reset(seed=seed)
        fork.restore(env.snapshot())
        assert fork.expert() == env.expert() and fork.step(env.expert()[0])[0] == "Found."
    assert env.step("guess[-1]")[1:3] == (0.0, False)
    assert env.step("look")[4]["valid_action"] is False
    *_, info = [env.step(action) for action in env.expert()][-1]
    assert info["success"]


def test_the_bibtex_entry_is_the_citation() -> None:
    """docs/index.md has title, author, version and licence of `CITATION.cff`."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    entry = dict(re.findall(r"^  (\w+) = \{(.*)\}", (DOCS / "index.md").read_text(encoding="utf-8"), re.MULTILINE))
    expected = {"title": "title", "version": "version", "license": "license"}
    assert {name: entry[name] for name in expected} == {name: citation[key] for name, key in expected.items()}
    assert entry["author"] == citation["authors"][0]["name"]
    assert entry["year"] == str(citation["date-released"].year)


def test_readmes_say_the_same() -> None:
    """At most 90 lines each, with the same code, links and figures, and a link to the other language."""
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in READMES]
    for text, other in zip(texts, reversed(READMES), strict=True):
        assert len(text.splitlines()) <= 90 and f"]({other})" in text
        for guide in ("first-fault", "until-decided", "certificate", "prove", "fork", "credit"):
            assert f"(docs/guides/{guide}.md)" in text, "the instruments"
    for pattern in (
        r"^```.*?^```$",
        r"`(agentgym [^`]+|--[^`]+|python [^`]+)`",
        r"(?<=\]\()(?!README)[^)]+",
        r"\d+\.\d+ % \S+ \S+",
    ):
        english, chinese = (re.findall(pattern, text, re.MULTILINE | re.DOTALL) for text in texts)
        assert english and english == chinese


def test_the_id_of_an_episode_is_that_of_the_guide() -> None:
    """The guide explains its parts."""
    from agentgym_py.agents import ExpertAgent
    from agentgym_py.collection import Collector, Job
    from agentgym_py.env import EnvSpec

    episode = Collector(ExpertAgent()).collect(Job(EnvSpec("tools", {"difficulty": "easy"}), 3, "test"))
    guide = (ROOT / "docs/guides/evaluation.md").read_text(encoding="utf-8")
    assert f"`{episode.task_id}` is task 3" in guide and f"`{episode.id}` is an episode" in guide
