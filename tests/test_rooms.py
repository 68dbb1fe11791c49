from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = {
    "agentgym_py": ROOT / "agentgym_py",
    "agentgym_envs": ROOT / "envs" / "agentgym_envs",
    "agentgym_trainers": ROOT / "trainers" / "agentgym_trainers",
}
MAY_IMPORT = {
    "agentgym_py": {"agentgym_py"},
    "agentgym_envs": {"agentgym_envs", "agentgym_py"},
    "agentgym_trainers": {"agentgym_trainers", "agentgym_py"},
}


def sources(package: str) -> list[Path]:
    """The package's modules."""
    return sorted(FOLDERS[package].rglob("*.py"))


class Source(NamedTuple):
    """What these tests read of a module."""

    imports: list[ast.Import | ast.ImportFrom]
    """Those within functions and for type checkers included."""
    strings: list[str]
    """Text constants that are no docstrings."""


def read(path: Path) -> Source:
    """Read a module."""
    return parse(path.read_text("utf-8"))


@cache
def parse(text: str) -> Source:
    """Parse a module's text once for all tests; only what they need is kept."""
    nodes = list(ast.walk(ast.parse(text)))
    documented = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    texts = [node for node in nodes if isinstance(node, ast.Constant) and id(node) not in documented]
    return Source(
        [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)],
        [node.value for node in texts if isinstance(node.value, str)],
    )


def imported(path: Path) -> Iterator[str]:
    """Top-level names of all imports of a module."""
    for node in read(path).imports:
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif node.level == 0:
            yield (node.module or "").split(".")[0]


def test_two_modules_ask_servers() -> None:
    """They limit size and time of answers and follow no redirect; a third takes certificates of a library alone."""
    client = re.compile(
        r"import (requests|httpx2?|aiohttp|urllib3)\b|urllib\.request|HTTPS?Connection\(|[^_]HTTPConnection\b"
    )
    modules = [path for package in FOLDERS for path in sources(package)] + list((ROOT / "bridges").glob("*/*.py"))
    found = {path.name for path in modules if client.search(path.read_text(encoding="utf-8"))}
    assert found == {"http_client.py", "timed_http.py", "agentgym_verifiers.py"}


def test_the_import_loads_little_beside_gymnasium() -> None:
    """`import agentgym_py` loads no library that `import gymnasium` does not load, and few of its own modules."""
    code = (
        "import gymnasium, sys; before = set(sys.modules); import agentgym_py;"
        "print(*(name for name in set(sys.modules) - before if name.split('.')[0] not in sys.stdlib_module_names))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert {name.split(".")[0] for name in loaded} == {"agentgym_py"}
    assert len(loaded) <= 32


@pytest.mark.parametrize("package", FOLDERS)
def test_imports_stay_within_the_border(package: str) -> None:
    """Worlds and trainers import ours only from the core and themselves; the core from itself."""
    assert sources(package)
    for path in sources(package):
        ours = {name for name in imported(path) if name.startswith("agentgym")}
        assert ours <= MAY_IMPORT[package], f"{path.relative_to(ROOT)} imports {ours - MAY_IMPORT[package]}"


@pytest.mark.parametrize("package", FOLDERS)
def test_nothing_is_imported_past_the_border_by_its_name(package: str) -> None:
    """No text names another package to import it that way; entry points are how the core finds them."""
    others = {"agentgym_envs", "agentgym_trainers"} - {package}
    for path in sources(package):
        for text in read(path).strings:
            assert not any(other in text for other in others), f"{path.relative_to(ROOT)} names {text!r}"


@pytest.mark.parametrize("package", FOLDERS)
def test_no_relative_imports_leave_a_package(package: str) -> None:
    """A relative import never climbs above its own package."""
    for path in sources(package):
        depth = len(path.relative_to(FOLDERS[package]).parts)
        for node in read(path).imports:
            assert not (isinstance(node, ast.ImportFrom) and node.level > depth), path


def test_what_everybody_installs_is_imported() -> None:
    """A core dependency that no package imports, but only a test, belongs into the extra `dev`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = {re.split(r"[\[><=]", each)[0].lower() for each in project["dependencies"]}
    names = {name for package in FOLDERS for path in sources(package) for name in imported(path)}
    come_from = packages_distributions()
    assert wanted - {dist.lower() for name in names for dist in come_from.get(name, [])} == set()


def test_trl_is_a_bridge_and_nothing_stands_on_it() -> None:
    """Only the trainers `trl_…` import trl or Hugging Face's `datasets`; the core needs neither."""
    for package in FOLDERS:
        for path in sources(package):
            foreign = {"trl", "datasets"} & set(imported(path))
            assert not foreign or (package == "agentgym_trainers" and path.name.startswith("trl_")), (
                f"{path.relative_to(ROOT)} imports {foreign}"
            )


ROOMS = [
    {"env"}, {"retrieval"}, {"trajectory"}, {"policy"}, {"engine"}, {"agents"}, {"multiagent"}, {"collection"},
    {"rewards"}, {"evaluation"}, {"feedback"}, {"training"}, {"credit"}, {"evolution"}, {"report"}, {"serving"},
    {"viewer"}, {"testing"}, {"certificate"}, {"proof"}, {"cli"},
]  # fmt: skip
"""The rooms of the core, left to right: a module imports from its own room, rooms further left and the ground."""
GROUND = {"checks", "distributed", "errors", "escapes", "files", "http_client", "registry", "rng", "trust", "version"}
"""Modules at the top level that every room may import, and that import no room."""


SCRIPTS = ("tests", "benchmarks", "datasets", "examples", "docs")
"""Folders beside the packages; a script there imports modules of its own folder and of those above it."""


def modules(root: Path, packages: Iterable[Path]) -> dict[str, Path]:
    """Every module of the packages, by its dotted name, and every script of the root's folders, by its dotted path."""
    folders = [(folder.parent, folder) for folder in packages] + [(root, root / name) for name in SCRIPTS]
    return {
        ".".join(path.relative_to(parent).with_suffix("").parts).removesuffix(".__init__"): path
        for parent, folder in folders
        for path in folder.rglob("*.py")
    }


def import_graph(root: Path = ROOT, packages: Iterable[Path] = tuple(FOLDERS.values())) -> dict[str, set[str]]:
    """Which modules each module imports, also within functions and for type checkers."""
    paths = modules(root, packages)
    graph = dict[str, set[str]]()
    for module, path in paths.items():
        package = module if path.stem == "__init__" else module.rpartition(".")[0]
        above = package.split(".") if module.partition(".")[0] in SCRIPTS else []
        prefixes = ["".join(f"{part}." for part in above[:depth]) for depth in range(len(above), -1, -1)]
        names = imported_names(read(path).imports, package)
        choices = ([prefix + name for prefix in prefixes for name in either] for either in names)
        graph[module] = {next((name for name in some if name in paths), module) for some in choices} - {module}
    return graph


@pytest.fixture(scope="module")
def repository() -> dict[str, set[str]]:
    """Return the graph of this repository's imports; to read all of its modules takes seconds."""
    return import_graph()


def imported_names(imports: Iterable[ast.Import | ast.ImportFrom], package: str) -> Iterator[list[str]]:
    """Of each import the modules that it may mean: `from a import b` means the module a.b, or b of the module a."""
    for node in imports:
        if isinstance(node, ast.Import):
            yield from ([alias.name] for alias in node.names)
        else:
            source = ".".join(filter(None, [package if node.level else "", node.module]))  # lint bans `from ..`
            yield from ([f"{source}.{alias.name}", source] for alias in node.names)


def test_imports_run_one_way_along_the_rooms(repository: dict[str, set[str]]) -> None:
    """A room imports no room to its right; the ground imports no room."""
    place = {room: number for number, rooms in enumerate(ROOMS, 1) for room in rooms} | dict.fromkeys(GROUND, 0)

    def room(module: str) -> str:
        return module.partition(".")[2].partition(".")[0] or "__main__"

    inner = {module: targets for module, targets in repository.items() if module.startswith("agentgym_py.")}
    front = {"__main__", "api"}  # what stands on all rooms
    assert {room(module) for module in inner} == place.keys() | front
    backwards = [
        f"{module} -> {target}"
        for module, targets in inner.items() if room(module) not in front
        for target in targets
        if room(target) in front or (place[room(target)] >= place[room(module)] > 0 and room(target) != room(module))
        or (place[room(module)] == 0 < place[room(target)])
    ]  # fmt: skip
    assert backwards == []


def test_no_imports_go_in_circles(repository: dict[str, set[str]]) -> None:
    """All modules of the repository can be read in an order in which each needs only those before it."""
    assert {"tests.toy_envs", "benchmarks.trainers", "docs.cli_help", "examples.my_world"} <= repository.keys()
    assert repository["datasets.tiny_household"] >= {"datasets.tiny_shop", "agentgym_py.rng"}
    TopologicalSorter(repository).prepare()  # CycleError names the circle


def test_a_circle_of_imports_is_found_in_every_folder(tmp_path: Path) -> None:
    """Of scripts in one folder or in one above, and of a package's modules, also by a relative import."""
    for folder in ["pack", *SCRIPTS]:
        (tmp_path / folder / "inner").mkdir(parents=True)
    for folder in SCRIPTS:
        one, other = tmp_path / folder / "one.py", tmp_path / folder / "inner" / "other.py"
        one.write_text("from inner import other")
        other.write_text("def run():\n    from one import x")
        with pytest.raises(CycleError, match=f"{folder}.one"):
            TopologicalSorter(import_graph(tmp_path, [])).prepare()
        other.write_text("import json")
        TopologicalSorter(import_graph(tmp_path, [])).prepare()
    (tmp_path / "pack" / "a.py").write_text("import pack.b")
    (tmp_path / "pack" / "b.py").write_text("from . import a")
    with pytest.raises(CycleError, match=r"pack\.a"):
        TopologicalSorter(import_graph(tmp_path, [tmp_path / "pack"])).prepare()


def test_the_top_level_stays_small() -> None:
    """At most thirteen files lie beside the rooms."""
    assert len([path for path in FOLDERS["agentgym_py"].iterdir() if path.is_file()]) <= 13
