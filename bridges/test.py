"""Test bridges against the real packages: `python bridges/test.py all|NAME... [--time] [-- pytest options]`.

Each bridge has an environment of its own, `build/bridges/NAME`, which the first test makes with the versions in
`bridges/NAME/constraints.txt`, or in those of the repository. `sources.txt` there lists packages to install without
their dependencies. `--time` prints what a step costs instead.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BRIDGES = ROOT / "bridges"
NAMES = sorted(path.parent.name for path in BRIDGES.glob("*/pyproject.toml"))
TEST_TOOLS = ("pytest", "pytest-timeout", "uv")
QUIET = {
    "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1",
}  # fmt: skip


def python_of(name: str) -> str:
    """Return the Python of a bridge's environment, which is made unless it is whole."""
    folder = ROOT / "build" / "bridges" / name
    python = str(folder / "bin" / "python")
    if not (folder / "whole").is_file():
        began = time.monotonic()
        venv.create(folder, clear=True, with_pip=True)
        own = BRIDGES / name / "constraints.txt"
        pins = own if own.is_file() else ROOT / "constraints.txt"
        install = [python, "-m", "pip", "install", "-q"]
        words = ["-c", str(pins), *TEST_TOOLS, "-e", str(ROOT), "-e", f"{BRIDGES / name}[test]"]
        subprocess.run([*install, *words], check=True)
        if (sources := BRIDGES / name / "sources.txt").is_file():
            subprocess.run([*install, "--no-deps", "-r", str(sources)], check=True)
        (folder / "whole").touch()
        print(f"{name}: installed in {time.monotonic() - began:.0f} s", flush=True)
    return python


def main() -> None:
    """Test every bridge that is named, and exit with the first failure's code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=["all", *NAMES], metavar="NAME", help=f"all, {', '.join(NAMES)}")
    parser.add_argument("--time", action="store_true", help="print what a step through the bridge costs")
    parser.add_argument("--python", help="use this Python, in which the bridge and its package are installed")
    own, options = sys.argv[1:], list[str]()
    if "--" in own:
        own, options = own[: own.index("--")], own[own.index("--") + 1 :]
    args = parser.parse_args(own)
    for name in NAMES if "all" in args.names else args.names:
        tests = BRIDGES / name / "tests"
        paths = os.pathsep.join(map(str, (BRIDGES, BRIDGES / name, tests)))
        pytest = ["-m", "pytest", "-q", "-c", str(BRIDGES / "pytest.ini"), str(tests), *options]
        words = [str(BRIDGES / "step_time.py"), name] if args.time else pytest
        python = args.python or python_of(name)
        environment = os.environ | QUIET | {"PYTHONPATH": paths}
        environment["PATH"] = os.pathsep.join((str(Path(python).parent), os.environ["PATH"]))  # for `uv`
        done = subprocess.run([python, *words], env=environment)
        if done.returncode:
            sys.exit(done.returncode)


if __name__ == "__main__":
    main()
