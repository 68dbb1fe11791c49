"""Test bridges against the real packages: `python bridges/test.py all|quick|NAME... [--time] [-- pytest options]`.

Each bridge has an environment of its own, `build/bridges/NAME`, with the versions in `bridges/NAME/constraints.txt`, or
in those of the repository. A test makes it first, and again after a change of these files, of `pyproject.toml` here or
there, or of `sources.txt`. The last lists packages to install without their dependencies, with paths from the root of
the repository. `tests.txt` lists tests of the repository that need the package. Bridges whose package needs a newer
Python than this one are left out of `all`. `quick` are those that install in two minutes. `--time` prints what a step
costs instead.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import time
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BRIDGES = ROOT / "bridges"
NAMES = sorted(path.parent.name for path in BRIDGES.glob("*/pyproject.toml"))
QUICK = ("inspect", "skyrl")
"""Bridges that install in two minutes on two busy cores: CI tests them."""
TEST_TOOLS = ("hypothesis", "pytest", "pytest-timeout", "uv")
QUIET = {
    "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1",
}  # fmt: skip


def oldest_python(name: str) -> tuple[int, int]:
    """Return the oldest Python that a bridge can have."""
    project = tomllib.loads((BRIDGES / name / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    major, minor = re.fullmatch(r">=(\d+)\.(\d+)", project["requires-python"]).groups()  # type: ignore[union-attr]
    return int(major), int(minor)


def python_of(name: str) -> str:
    """Return the Python of a bridge's environment, which is made unless it is whole and up to date."""
    folder = ROOT / "build" / "bridges" / name
    python, whole = str(folder / "bin" / "python"), folder / "whole"
    own, sources = BRIDGES / name / "constraints.txt", BRIDGES / name / "sources.txt"
    pins = own if own.is_file() else ROOT / "constraints.txt"
    digest = digest_of(pins, sources, BRIDGES / name / "pyproject.toml", ROOT / "pyproject.toml")
    if not whole.is_file() or whole.read_text(encoding="utf-8") != digest:
        began = time.monotonic()
        venv.create(folder, clear=True, with_pip=True)
        install = [python, "-m", "pip", "install", "-q"]
        words = ["-c", str(pins), *TEST_TOOLS, "-e", str(ROOT), "-e", f"{BRIDGES / name}[run,test]"]
        subprocess.run([*install, *words], check=True)
        if sources.is_file():
            subprocess.run([*install, "--no-deps", "-r", str(sources)], check=True, cwd=ROOT)
        whole.write_text(digest, encoding="utf-8")
        print(f"{name}: installed in {time.monotonic() - began:.0f} s", flush=True)
    return python


def digest_of(*files: Path) -> str:
    """Return a digest of the files that exist."""
    contents = {str(path): path.read_bytes() for path in files if path.is_file()}
    return hashlib.sha256(repr(contents).encode()).hexdigest()


def tests_of(name: str) -> list[str]:
    """Return the test files and folders of a bridge."""
    folder, others = BRIDGES / name / "tests", BRIDGES / name / "tests.txt"
    named = others.read_text(encoding="utf-8").split() if others.is_file() else []
    return [str(folder)] * folder.is_dir() + [str(ROOT / path) for path in named]


def bridges_of(words: Sequence[str]) -> list[str]:
    """Return the bridges that the words of the command name, each once."""
    groups = {"all": NAMES, "quick": QUICK}
    return sorted({name for word in words for name in groups.get(word, [word])})


def test(name: str, python: str | None, options: Sequence[str], *, is_timed: bool) -> int:
    """Test a bridge, or time its steps; return the exit code."""
    if is_timed and not (BRIDGES / name / "tests" / "through.py").is_file():
        print(f"{name}: nothing to time, because its tests play no scripted tasks", flush=True)
        return 0
    paths = os.pathsep.join(map(str, (BRIDGES, BRIDGES / name, BRIDGES / name / "tests", ROOT / "tests" / "shared")))
    pytest = ["-m", "pytest", "-q", "-c", str(BRIDGES / "pytest.ini"), *tests_of(name), *options]
    try:
        python = python or python_of(name)
    except subprocess.CalledProcessError as error:
        print(f"{name}: not installed: {error}", file=sys.stderr, flush=True)
        return 1
    environment = os.environ | QUIET | {"PYTHONPATH": paths}
    environment["PATH"] = os.pathsep.join((str(Path(python).parent), os.environ["PATH"]))  # for `uv`
    command = [str(BRIDGES / "step_time.py"), name] if is_timed else pytest
    return subprocess.run([python, *command], env=environment).returncode


def main() -> None:
    """Test every bridge that is named, and exit with the first failure's code at the end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = ["all", "quick", *NAMES]
    parser.add_argument("names", nargs="+", choices=words, metavar="NAME", help=f"one or more of {', '.join(words)}")
    parser.add_argument("--time", action="store_true", help="print what a step through the bridge costs")
    parser.add_argument("--python", help="use this Python, in which the bridge and its package are installed")
    own, options = sys.argv[1:], list[str]()
    if "--" in own:
        own, options = own[: own.index("--")], own[own.index("--") + 1 :]
    args = parser.parse_args(own)
    codes = dict[str, int]()
    for name in bridges_of(args.names):
        if not args.python and sys.version_info < (oldest := oldest_python(name)):
            print(f"{name}: left out, because it needs Python {oldest[0]}.{oldest[1]}", flush=True)
            codes[name] = int(name in args.names)
            continue
        codes[name] = test(name, args.python, options, is_timed=args.time)
    if failed := [name for name, code in codes.items() if code]:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
        sys.exit(codes[failed[0]])


if __name__ == "__main__":
    main()
