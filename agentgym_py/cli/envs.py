"""`agentgym envs`: the installed worlds."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Any

from agentgym_py import registry
from agentgym_py.cli.env_options import ENV_HELP, add_env_kwargs, env_spec
from agentgym_py.cli.parser import JSON_HELP, Parser, Values
from agentgym_py.cli.runtime import console, print_json
from agentgym_py.cli.trainers import load_quietly, print_plugins
from agentgym_py.env import SPLITS, TextEnv, registration
from agentgym_py.env.registration import env_plugins, short_name


def options(parser: Parser) -> None:
    """Add the options of `envs`."""
    about = "List every installed world; a broken one with the reason."
    parser.add_command("list", about).add("json", bool, False, JSON_HELP)
    show = parser.add_command("show", "Show a world: its card, splits, rules, tools and an example.")
    show.add_positional("name", ENV_HELP)
    add_env_kwargs(show)
    show.add("json", bool, False, JSON_HELP)


def run(args: Values) -> int:
    """List or show."""
    if args["what"] == "list":
        _list(args["json"])
    else:
        _show(args["name"], args["env_kwargs"], args["json"])
    return 0


def _list(as_json: bool) -> None:
    plugins = load_quietly(env_plugins)
    if as_json:
        print_json([asdict(plugin) | {"short_name": short_name(plugin.name)} for plugin in plugins])
        return
    plugins.sort(key=lambda plugin: short_name(plugin.name))
    print_plugins(plugins, ["name", "id"], lambda p: [short_name(p.name), p.name], "what one does there", _about)


def _about(plugin: registry.Plugin) -> str:
    """Return the first sentence of a world's card, or its first line, without the id and the period."""
    line = (inspect.getdoc(registry.load("agentgym.envs", plugin.name)) or "").partition("\n")[0]
    line = line.removeprefix(plugin.name).lstrip(":,. ").removeprefix("Task:").lstrip()
    return line.partition(". ")[0].rstrip(".")


def _show(name: str, kwargs: Any, as_json: bool) -> None:
    spec = env_spec(name, kwargs)
    with closing(spec.make()) as env:
        about = describe(env, registration.env_id(spec.name))
    if as_json:
        print_json(about)
        return
    out = console()
    option = name if registry.is_source(name) else short_name(about["id"])
    title = f"{about['id']} (agentgym … --env {option}), version {about['version']}"
    out.print(title, style="bold", soft_wrap=True)
    out.print("\n" + about["card"], soft_wrap=True)
    splits = "; ".join(f"{split}: {example['task']}, …" for split, example in about["splits"].items())
    _part(out, "Splits", splits)
    for prompt, text in about["rules"].items():
        _part(out, f"Rules, --prompt {prompt}", text or "(none)")
    _part(out, "Tools", "\n".join(_tool_line(tool) for tool in about["tools"] or []) or "(none: actions are text)")
    _part(out, f"Example, {about['example']['task']}, as the expert plays it", _episode(about["example"]["turns"]))


def describe(env: TextEnv, env_id: str) -> dict[str, Any]:
    """Return a world as JSON values; its example is the expert's episode in the first training task."""
    observation, info = env.reset(seed=0, options={"task": 0, "split": "train"})
    turns = []
    for action in env.expert():
        following, reward, *_ = env.step(action)
        turns.append({"observation": observation, "action": action, "reward": reward})
        observation = following
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
