"""How many processes run tests (`-n auto`)."""

import os

import pytest


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """The whole suite runs in a process a core, four at most; files that are named, benchmarks too, run in this one."""
    return min(os.cpu_count() or 1, 4) if config.args_source is pytest.Config.ArgsSource.TESTPATHS else 0
