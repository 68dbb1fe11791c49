"""`agentgym trainers`: the installed trainers."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from dataclasses import MISSING, asdict
from functools import partial
from typing import Any, get_type_hints

from agentgym_py import registry
from agentgym_py.cli.help import format_default, format_rows
from agentgym_py.cli.parser import JSON_HELP, Parser, Values, field_docs
from agentgym_py.cli.runtime import console, print_json
from agentgym_py.cli.trainer_options import trainer_class
from agentgym_py.cli.values import as_plain, metavar_of
from agentgym_py.registry import Plugin
from agentgym_py.training.settings import ordered_fields
from agentgym_py.training.trainer import info_of


def options(parser: Parser) -> None:
    """Add the options of `trainers`."""
    about = "List every installed trainer; a broken one with the reason."
    parser.add_command("list", about).add("json", bool, False, JSON_HELP)
    show = parser.add_command("show", "Show a trainer: its method, what it needs, and its settings.")
    show.add_positional("name", "An installed trainer, or a source (FILE.py:Class, module:Class).")
    show.add("json", bool, False, JSON_HELP)


def run(args: Values) -> int:
    """List or show."""
    if args["what"] == "show":
        _show(args["name"], args["json"])
    else:
        list_by_module("agentgym.trainers", "how it learns", args["json"])
    return 0


def list_by_module(group: registry.Group, title: str, as_json: bool) -> None:
    """Print the plugins of a group with the first sentence of the docstring of each module."""

    def describe(plugin: Plugin) -> str:
        return module_docstring(registry.load(group, plugin.name)).partition("\n")[0].rstrip(".:")

    plugins = load_quietly(partial(registry.plugins, group))
    if as_json:
        print_json([asdict(plugin) for plugin in plugins])
    else:
        print_plugins(plugins, ["name"], lambda plugin: [plugin.name], title, describe)


def load_quietly(load: Callable[[], list[Plugin]]) -> list[Plugin]:
    """Load plugins without the warnings about broken ones, which the table names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load()


def print_plugins(
    plugins: Sequence[Plugin],
    columns: Sequence[str],
    names: Callable[[Plugin], Sequence[str]],
    title: str,
    describe: Callable[[Plugin], str],
) -> None:
    """Print a table of plugins: their names, their packages if there are several, and a description under `title`."""
    from agentgym_py.report.terminal import print_table

    several = len({plugin.package for plugin in plugins}) > 1
    out = console()
    rows = [
        [*names(plugin), *[plugin.package] * several, "broken, see below" if plugin.broken else describe(plugin)]
        for plugin in plugins
    ]
    print_table(out, [*columns, *["package"] * several, title], rows)
    for plugin in plugins:
        if plugin.broken:
            out.print(f"{plugin.name} ({plugin.target}) is broken: {plugin.broken}", style="red", soft_wrap=True)


def module_docstring(plugin: type) -> str:
    """Return the docstring of a plugin's module, or else its own."""
    module = inspect.getmodule(plugin)
    return inspect.getdoc(module) or inspect.getdoc(plugin) or ""


def _show(name: str, as_json: bool) -> None:
    about = describe(name)
    if as_json:
        print_json(about)
        return
    out = console()
    out.print(f"{about['name']} (agentgym {about['command']} --trainer {about['name']})", style="bold", soft_wrap=True)
    out.print("\n" + about["doc"], soft_wrap=True)
    out.print("\nNeeds", style="bold")
    out.print("\n".join(about["needs"]), soft_wrap=True)
    out.print("\nSettings", style="bold")
    lines = {
        f"--trainer.{row['name']} {row['type']}": f"{row['help']} (default: {format_default(row['default'])})"
        for row in about["settings"]
    }
    out.print(format_rows(lines, out.width), soft_wrap=True)


def describe(name: str) -> dict[str, Any]:
    """Return a trainer as JSON values."""
    trainer = trainer_class(name)
    hints, docs = get_type_hints(trainer), field_docs(trainer)
    settings = [
        {
            "name": field.name, "type": metavar_of(hints[field.name]), "help": docs.get(field.name, ""),
            "default": as_plain(field.default if field.default_factory is MISSING else field.default_factory()),
        }
        for field in ordered_fields(trainer) if field.init
    ]  # fmt: skip
    return {
        "name": name, "command": "train" if hasattr(trainer, "train") else "evolve", "makes": info_of(trainer).output,
        "doc": module_docstring(trainer), "needs": _needs(trainer), "settings": settings,
    }  # fmt: skip


def _needs(trainer: type) -> list[str]:
    """Describe what a trainer learns from, and its output."""
    if hasattr(trainer, "train"):
        lines = ["Stored trajectories: `agentgym train --data FILE`, or the rounds of `agentgym evolve`."]
    else:
        lines = ["An environment: `agentgym evolve`. It collects its own episodes and does not train on files."]
    info = info_of(trainer)
    if hasattr(trainer, "train"):
        lines.append(f"Of a file of feedback (--feedback) it learns from {', or else '.join(info.feedback)}.")
    if info.warm_start:
        lines.append(f"A policy that succeeds sometimes; `evolve` trains it on demonstrations with {info.warm_start}.")
    if info.evolve_defaults:
        defaults = ", ".join(f"--{name} {format_default(value)}" for name, value in info.evolve_defaults.items())
        lines.append(f"`evolve` changes its defaults: {defaults}.")
    if info.output != "policy":
        lines.append(f"Its output is a {info.output.replace('_', ' ')}, not a policy.")
    several = "One process, or several that train together (docs/guides/scaling.md)."
    lines.append(several if info.several_processes else "One process only.")
    return lines
