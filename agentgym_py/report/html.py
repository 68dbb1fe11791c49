"""HTML pages from the templates: one file without scripts or network."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym_py.evaluation.text import format_interval
from agentgym_py.evolution.run_folder import read_estimate
from agentgym_py.files import write_atomic
from agentgym_py.registry import install_advice
from agentgym_py.report import svg
from agentgym_py.report.charts import single_table

if TYPE_CHECKING:
    from jinja2 import Environment

_OPTION = re.compile(r"(?<!\S)--\w[\w.]*")
"""An option in a text, which no line may break."""


def write_html(path: Path, template: str, values: Mapping[str, Any]) -> Path:
    """Fill a template and write the page; every value is escaped. Returns the path."""
    page = _templates().get_template(template).render(values)
    write_atomic(path, page.encode("utf-8", "replace").decode())  # a model may write lone surrogates
    return path


@cache
def _templates() -> Environment:
    """Return the environment of the templates, which keeps them compiled: a run writes a report after each round."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup, escape

    from agentgym_py.report.terminal import explored_episodes, loss_cell, number_text, percent_text, selection_line

    env = Environment(
        loader=PackageLoader("agentgym_py.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    env.filters |= {"number": number_text, "percent": percent_text, "loss_cell": loss_cell}
    env.filters |= {"selection_line": selection_line, "explored_episodes": explored_episodes}
    env.filters["single_table"] = single_table
    env.filters["options"] = lambda text: Markup(_OPTION.sub(r'<span class="whole">\g<0></span>', str(escape(text))))  # noqa: S704  # escaped
    env.filters["interval"] = lambda estimate: format_interval(read_estimate(estimate))
    return env


def advice_on_charts() -> str:
    """Say what charts need; empty if they can be drawn."""
    return "" if svg.has_matplotlib() else f"Charts need matplotlib: {install_advice('report')}"
