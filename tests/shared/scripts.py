"""Scripts of the repository as modules: benchmarks, examples, makers of data and of docs."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def load_script(path: str, name: str | None = None) -> Any:
    """Run a script and return its module.

    Args:
        path: Its path within the repository, such as `benchmarks/fuzz.py`.
        name: The module's name, under which others find it; by default one that no other module has.
    """
    spec = spec_from_file_location(name or path.removesuffix(".py").replace("/", "_"), ROOT / path)
    assert spec and spec.loader
    module = sys.modules[spec.name] = module_from_spec(spec)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
