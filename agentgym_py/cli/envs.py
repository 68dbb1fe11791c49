"""`agentgym envs`: the installed worlds."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from agentgym_py import registry
from agentgym_py.cli.env_options import WORLD, add_env_kwargs, env_spec
from agentgym_py.cli.runtime import console, print_json
from agentgym_py.env import SPLITS, TextEnv, registration
from agentgym_py.env.registration import env_plugins

if TYPE_CHECKING:
    from agentgym_py.cli.parser import Parser, Values

KINDS = {
    "list": "List every installed world; a broken one with the reason.",
    "show": "Show a world: its card, splits, rules, tools and an example.",
}
_JSON_HELP = "Print JSON, for a program."


def options(parser: Parser, argv: Sequence[str]) -> None:
    """Add what `envs` takes."""
    del argv
    parser.add_command("list", KINDS["list"]).add("json", bool, False, _JSON_HELP)
    show = parser.add_command("show", KINDS["show"])
    show.usage = "agentgym envs show NAME [options]"
    show.add_positional("name", WORLD)
    add_env_kwargs(show)
    show.add("json", bool, False, _JSON_HELP)


def run(args: Values) -> int:
    """List or show."""
    if args["what"] == "list":
        _list(args["json"])
    else:
        _show(args["name"], args["env_kwargs"], args["json"])
    return 0


def _list(as_json: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the table says it
        found = env_plugins()
    if as_json:
        print_json([asdict(each) | {"short_name": registration.short_name(each.name)} for each in found])
        return
    from agentgym_py.report.terminal import print_table

    several = len({each.package for each in found}) > 1
    rows = [
        (registration.short_name(each.name), each.name, *[each.package] * several, _about(each))
        for each in sorted(found, key=lambda each: registration.short_name(each.name))
    ]
    out = console()
    print_table(out, ("name", "id", *["package"] * several, "what one does there"), rows)
    for each in found:
        if each.broken:
            out.print(f"{each.name} ({each.target}) is broken: {each.broken}", style="red", soft_wrap=True)


def _about(world: registry.Plugin) -> str:
    """The first sentence of a world's card, or what stands of it in the first line, without its id and its period."""
    if world.broken:
        return "broken, see below"
    line = (inspect.getdoc(registry.load("agentgym.envs", world.name)) or "").partition("\n")[0]
    line = line.removeprefix(world.name).lstrip(":,. ").removeprefix("Task:").lstrip()
    return line.partition(". ")[0].rstrip(".")


def _show(name: str, kwargs: Any, as_json: bool) -> None:
    spec = env_spec(name, kwargs)
    with closing(spec.make()) as env:
        about = describe(env, registration.env_id(spec.name))
    if as_json:
        print_json(about)
        return
    out = console()
    title = f"{about['id']} (agentgym … --env {registration.short_name(about['id'])}), version {about['version']}"
    out.print(title, style="bold", soft_wrap=True)
    out.print("\n" + about["card"], soft_wrap=True)
    splits = "; ".join(f"{split}: {example['task']}, …" for split, example in about["splits"].items())
    _part(out, "Splits", splits)
    for prompt, text in about["rules"].items():
        _part(out, f"Rules, --prompt {prompt}", text or "(none)")
    _part(out, "Tools", "\n".join(_tool_line(tool) for tool in about["tools"] or []) or "(none: actions are text)")
    _part(out, f"Example, {about['example']['task']}, as the expert plays it", _episode(about["example"]["turns"]))


def describe(env: TextEnv, env_id: str) -> dict[str, Any]:
    """A world as JSON values; its example is the expert's episode in the first training task."""
    observation, info = env.reset(seed=0, options={"task": 0, "split": "train"})
    turns = []
    for action in env.expert():
        after, reward, *_ = env.step(action)
        turns.append({"observation": observation, "action": action, "reward": reward})
        observation = after
    turns.append({"observation": observation})
    splits = {split: {"task": env.task(0, split).id, "instruction": env.task(0, split).instruction} for split in SPLITS}
    return {
        "id": env_id, "name": env.name, "version": env.version, "max_steps": env.max_steps,
        "card": inspect.getdoc(type(env)) or "", "splits": splits, "rules": dict(env.rules), "tools": env.tools(),
        "arguments": list(inspect.signature(type(env)).parameters),
        "example": {"task": info["task_id"], "turns": turns},
    }  # fmt: skip


def _part(out: Any, title: str, text: str) -> None:
    out.print(f"\n{title}", style="bold", soft_wrap=True)
    out.print(text, soft_wrap=True)


def _tool_line(tool: dict[str, Any]) -> str:
    function = tool.get("function", tool)
    arguments = ", ".join(function.get("parameters", {}).get("properties", {}))
    return f"{function.get('name')}({arguments}): {function.get('description', '')}"


def _episode(turns: Sequence[dict[str, Any]]) -> str:
    lines = []
    for turn in turns:
        lines.append(turn["observation"])
        if "action" in turn:
            reward = f"    (reward {turn['reward']:g})" if turn["reward"] else ""
            lines.append(f"> {turn['action']}{reward}")
    return "\n".join(lines)
