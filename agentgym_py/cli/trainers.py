"""`agentgym trainers`: the installed trainers."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from dataclasses import MISSING, asdict, fields
from typing import TYPE_CHECKING, Any, get_type_hints

from agentgym_py import registry
from agentgym_py.cli.help import rows, shown
from agentgym_py.cli.parser import field_docs
from agentgym_py.cli.runtime import console, print_json
from agentgym_py.cli.trainer_options import trainer_class
from agentgym_py.cli.values import as_plain, type_name
from agentgym_py.training.trainer import info_of

if TYPE_CHECKING:
    from agentgym_py.cli.parser import Parser, Values

KINDS = {
    "list": "List every installed trainer; a broken one with the reason.",
    "show": "Show a trainer: its method, what it needs, and its settings.",
}
_JSON_HELP = "Print JSON, for a program."


def options(parser: Parser, argv: Sequence[str]) -> None:
    """Add what `trainers` takes."""
    del argv
    parser.add_command("list", KINDS["list"]).add("json", bool, False, _JSON_HELP)
    show = parser.add_command("show", KINDS["show"])
    show.usage = "agentgym trainers show NAME [options]"
    show.add_positional("name", "An installed trainer, or one of your own: FILE.py:Class or module:Class.")
    show.add("json", bool, False, _JSON_HELP)


def run(args: Values) -> int:
    """List or show."""
    if args["what"] == "show":
        _show(args["name"], args["json"])
    else:
        list_plugins("agentgym.trainers", "how it learns", args["json"])
    return 0


def list_plugins(group: registry.Group, title: str, as_json: bool) -> None:
    """Print a line for each plugin: its name and the first sentence of its module's docstring."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the table says which are broken
        found = registry.plugins(group)
    if as_json:
        print_json([asdict(plugin) for plugin in found])
        return
    from agentgym_py.report.terminal import print_table

    several = len({plugin.package for plugin in found}) > 1
    out = console()
    lines = [(plugin.name, *[plugin.package] * several, _about(group, plugin)) for plugin in found]
    print_table(out, ("name", *["package"] * several, title), lines)
    for plugin in found:
        if plugin.broken:
            out.print(f"{plugin.name} ({plugin.target}) is broken: {plugin.broken}", style="red", soft_wrap=True)


def _about(group: registry.Group, plugin: registry.Plugin) -> str:
    if plugin.broken:
        return "broken, see below"
    return docstring(registry.load(group, plugin.name)).partition("\n")[0].rstrip(".:")


def docstring(plugin: type) -> str:
    """The docstring of a plugin's module, or else its own."""
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
        f"--trainer.{setting['name']} {setting['type']}": f"{setting['help']} (default: {shown(setting['default'])})"
        for setting in about["settings"]
    }
    out.print(rows(lines, out.width), soft_wrap=True)


def describe(name: str) -> dict[str, Any]:
    """A trainer as JSON values."""
    trainer = trainer_class(name)
    hints, docs = get_type_hints(trainer), field_docs(trainer)
    settings = [
        {
            "name": each.name, "type": type_name(hints[each.name]), "help": docs.get(each.name, ""),
            "default": as_plain(each.default if each.default_factory is MISSING else each.default_factory()),
        }
        for each in fields(trainer) if each.init
    ]  # fmt: skip
    return {
        "name": name, "command": "train" if hasattr(trainer, "train") else "evolve", "makes": info_of(trainer).output,
        "doc": docstring(trainer), "needs": _needs(trainer), "settings": settings,
    }  # fmt: skip


def _needs(trainer: type) -> list[str]:
    """What a trainer learns from, and what it makes."""
    lines = []
    if hasattr(trainer, "train"):
        lines.append("Stored trajectories: `agentgym train --data FILE`, or the rounds of `agentgym evolve`.")
    else:
        lines.append("An environment to play in: `agentgym evolve`; it does not train on files.")
    info = info_of(trainer)
    if cloner := info.warm_start:
        lines.append(f"A policy that succeeds now and then; `evolve` makes it of demonstrations by {cloner}.")
    if defaults := info.evolve_defaults:
        lines.append(
            "`evolve` changes its defaults: " + ", ".join(f"--{k} {shown(v)}" for k, v in defaults.items()) + "."
        )
    if (made := info.output) != "policy":
        lines.append(f"It makes a {made.replace('_', ' ')}, no policy.")
    several = "One process, or several that train together (docs/scaling.md)."
    lines.append(several if info.several_processes else "One process only.")
    return lines
