from __future__ import annotations

import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import gymnasium
import pytest

from agentgym_py import registry
from agentgym_py.env import registration
from agentgym_py.env.registration import env_plugins
from agentgym_py.errors import UnknownNameError

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """A function that installs a stranger's package: its entry points and its module's text."""

    def make(package: str, points: str, module: str = "") -> None:
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(textwrap.dedent(points))
        (tmp_path / f"{package}.py").write_text(module)
        registry.entry_points_of.cache_clear()

    monkeypatch.syspath_prepend(tmp_path)
    before = set(gymnasium.registry)
    yield make
    for name in set(gymnasium.registry) - before:
        del gymnasium.registry[name]
    registry.entry_points_of.cache_clear()


def run(code: str, *paths: Path) -> str:
    """What a fresh interpreter prints."""
    head = f"import sys; sys.path[:0] = {[str(path) for path in paths]!r}\n"
    done = subprocess.run([sys.executable, "-c", head + textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_strangers_plugin_registers_as_the_built_ins_do(install: Install) -> None:
    """Two lines of metadata and a module: it is listed, loaded by name, and known to Gymnasium."""
    install(
        "stranger",
        """
        [agentgym.envs]
        AgentCave-v0 = stranger:Cave
        [agentgym.trainers]
        luck = stranger:Luck
        [agentgym.rewards]
        tidy = stranger:tidy
        [agentgym.curricula]
        steep = stranger:Luck
        """,
        "class Cave: pass\nclass Luck: pass\ndef tidy(trajectory): return 1.0\n",
    )
    assert registry.load("agentgym.rewards", "tidy").__name__ == "tidy" and "tidy" in registry.names("agentgym.rewards")
    assert registry.load("agentgym.curricula", "steep").__name__ == "Luck"
    assert "AgentCave-v0" in registry.names("agentgym.envs") and "luck" in registry.names("agentgym.trainers")
    assert registry.load("agentgym.trainers", "luck").__name__ == "Luck"
    assert registration.env_id("cave") == registration.env_id("AgentCave-v0") == "AgentCave-v0"
    registration.register_envs()
    assert "AgentCave-v0" in gymnasium.registry
    result = {each.name: each for each in registry.plugins("agentgym.trainers")}["luck"]
    assert (result.package, result.target, result.broken) == ("stranger", "stranger:Luck", None)


@pytest.mark.parametrize(
    "module", ["raise RuntimeError('boom')", "import nothing_of_that_name", "syntax error", "", "raise SystemExit(3)"]
)
def test_a_broken_plugin_warns_and_is_listed(install: Install, module: str) -> None:
    """Whatever its module does at import, the list says that it is broken and why; the others are fine."""
    install("broken", "[agentgym.agents]\nbad = broken:Bad\n", module)
    with pytest.warns(UserWarning, match=r"agent plugin 'bad' \(broken:Bad\) is broken"):
        result = {each.name: each.broken for each in registry.plugins("agentgym.agents")}
    assert result["bad"] and result["expert"] is None
    with pytest.raises(UnknownNameError, match=r"'bad' \(broken:Bad\) does not load"):
        registry.load("agentgym.agents", "bad")
    sys.modules.pop("broken", None)


def test_a_name_that_gymnasium_refuses_warns(install: Install) -> None:
    """A stranger's bad id does not break `import agentgym_py`."""
    install("badname", "[agentgym.envs]\nno such id! = badname:Env\n")
    with pytest.warns(UserWarning, match="'no such id!'"):
        registration.register_envs()


def test_two_packages_of_one_name_warn(install: Install) -> None:
    """The first one found is used, and the warning says which."""
    install("first", "[agentgym.agents]\ntwin = first:A\n", "class A: pass\n")
    install("second", "[agentgym.agents]\ntwin = second:A\n", "class A: pass\n")
    with pytest.warns(UserWarning, match=r"Two packages register 'twin'.*(first and second|second and first).*is used"):
        registry.names("agentgym.agents")


def test_a_warning_at_import_is_one_line(install: Install, tmp_path: Path) -> None:
    """Without the line of Python that gave it."""
    install("first", "[agentgym.envs]\nTwin-v0 = first:A\n")
    install("second", "[agentgym.envs]\nTwin-v0 = second:A\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import agentgym_py"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr.count("\n") == 1 and "Two packages register 'Twin-v0'" in done.stderr


@pytest.mark.parametrize(
    ("name", "module", "why"),
    [
        ("AgentCave-v0", "class Cave: pass", "it is not a TextEnv"),
        ("AgentCave-v0", "Cave = 3", "it is not a TextEnv"),
        ("Cave", "from agentgym_py.env.base import TextEnv\nclass Cave(TextEnv): pass", "no version such as Cave-v0"),
    ],
)
def test_an_entry_point_that_is_no_world_is_listed_as_broken(
    install: Install, name: str, module: str, why: str
) -> None:
    """Another class, another thing, or a world whose id has no version, which is not told to Gymnasium."""
    install("stranger", f"[agentgym.envs]\n{name} = stranger:Cave\n", module)
    sys.modules.pop("stranger", None)
    with pytest.warns(UserWarning, match=why):
        result = {each.name: each.broken for each in env_plugins()}
    assert why in (result[name] or "") and result["AgentShop-v0"] is None
    sys.modules.pop("stranger", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        registration.register_envs()
    assert (name in gymnasium.registry) == name.endswith("-v0")


@pytest.mark.parametrize(
    ("group", "name", "message"),
    [
        ("agentgym.trainers", "filterd_bc", "No trainer 'filterd_bc' is installed. Did you mean 'filtered_bc'"),
        ("agentgym.agents", "Expert", "Did you mean 'expert'"),
        ("agentgym.envs", "nothing like it", "Installed: .*AgentShop-v0"),
    ],
)
def test_an_unknown_name_is_answered(group: registry.Group, name: str, message: str) -> None:
    """The nearest name, and what is installed."""
    with pytest.raises(UnknownNameError, match=message):
        registry.load(group, name)


def test_env_ids() -> None:
    """Short names and ids both name an environment; a near one is suggested."""
    assert registration.short_name("AgentShop-v0") == "shop"
    assert registration.env_id("shop") == registration.env_id("AgentShop-v0") == "AgentShop-v0"
    with pytest.raises(UnknownNameError, match="Did you mean 'shop'"):
        registration.env_id("shpo")


def test_built_ins_all_load() -> None:
    """Nothing that this distribution registers is broken."""
    pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for group in get_args(registry.Group):
            assert registry.plugins(group)


def test_import_reads_names_only() -> None:
    """`import agentgym_py` makes the ids known to Gymnasium and imports no world, no trainer and nothing heavy."""
    heavy = (
        "torch",
        "transformers",
        "datasets",
        "trl",
        "pyarrow",
        "pandas",
        "scipy",
        "agentgym_envs",
        "agentgym_trainers",
    )
    code = f"""
        import agentgym_py, gymnasium
        assert "AgentShop-v0" in gymnasium.registry
        print(*[name for name in {heavy!r} if name in sys.modules])
    """
    assert run(code) == ""


def test_the_formats_need_nothing_heavy() -> None:
    """Store, formats, dataset, selectors, exporters and statistics import without torch, datasets and pyarrow."""
    code = """
        from agentgym_py.evaluation import stats
        from agentgym_py.trajectory import dataset, selectors, store
        from agentgym_py.trajectory.formats import agenttraj, openai, parquet, rows, trl
        print(*[name for name in ("torch", "datasets", "pyarrow", "pandas", "scipy") if name in sys.modules])
    """
    assert run(code) == ""


def test_a_broken_plugin_does_not_break_the_import(install: Install, tmp_path: Path) -> None:
    """A fresh interpreter with a broken environment beside imports the package and lists the rest."""
    install("broken", "[agentgym.envs]\nAgentBad-v0 = broken:Bad\n", "raise RuntimeError('boom')")
    code = """
        import agentgym_py
        from agentgym_py import registry
        print("broken" in sys.modules, *registry.names("agentgym.envs"))
    """
    printed = run(code, tmp_path)
    assert printed.startswith("False ") and "AgentBad-v0" in printed and "AgentShop-v0" in printed


def test_an_extra_is_got_where_the_package_came_from(tmp_path: Path) -> None:
    """In a clone by its constraints, from its folder; elsewhere by the package's name, or by the file it came as."""
    package = tmp_path / "my clone" / "agentgym_py"
    package.mkdir(parents=True)
    assert registry.install_advice("train", package).startswith("pip install 'agentgym-py[train]' (")
    for name in ("pyproject.toml", "constraints.txt"):
        (package.parent / name).touch()
    expected = f"cd '{package.parent}' && pip install -c constraints.txt -e \".[train]\""
    assert registry.install_advice("train", package) == expected
    assert "constraints.txt" in registry.install_advice("train")  # these tests run in a clone
