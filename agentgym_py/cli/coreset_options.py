"""The option of a coreset."""

from __future__ import annotations

from agentgym_py.cli.plugin_options import PluginOption
from agentgym_py.training.coreset import coreset_class

CORESET = PluginOption(
    "coreset", "agentgym.coresets", coreset_class,
    "Which part of the selected trajectories an offline trainer learns from: {names}, or a source (FILE.py, "
    "FILE.py:Class, module:Class). `--coreset NAME --help-all` lists its settings, such as --coreset.ratio; "
    "docs/guides/coreset.md explains them. By default it learns from all.",
)  # fmt: skip
