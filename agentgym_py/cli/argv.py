"""The words of a command line before they are parsed: how names are written, and what other options depend on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any, cast

from agentgym_py.cli.parser import UsageError, read_yaml
from agentgym_py.cli.values import PLUGINS, as_list, plugin_names


def normalize_argv(argv: Iterable[str]) -> list[str]:
    """Write option names as they are declared: with underscores, and `--trainer` as `--trainer.name` (`PLUGINS`)."""
    return [_normalize(word) if word.startswith("--") and len(word) > 2 else word for word in argv]


def _normalize(word: str) -> str:
    name, equals, value = word[2:].partition("=")
    first, dot, rest = name.replace("-", "_").partition(".")
    if first.endswith("_kwargs"):  # names of envs and of their arguments stay
        rest = name.partition(".")[2]
    value = "-.inf" if value == "-inf" else value
    return f"--{f'{name}.name' if name in PLUGINS else first + dot + rest}{equals}{value}"


def peek_options(argv: Sequence[str]) -> dict[str, str]:
    """Return the values of `PLUGINS`, `preset`, `config`, `resume` and `manifest`, on which other options depend.

    Mistakes are left to the parser.
    """
    values: dict[str, str] = {}
    for word, following in zip(argv, [*argv[1:], ""], strict=False):
        name, equals, value = word.removeprefix("--").partition("=")
        name = name.removesuffix(".name")
        if word.startswith("--") and name in (*PLUGINS, "preset", "config", "resume", "manifest"):
            values[name] = value if equals else following
    values = {name: value for name, value in values.items() if value and not value.startswith("--")}
    values = {**_peek_file(values["config"]), **values} if "config" in values else values
    optional = set(PLUGINS) - {"trainer"}
    return {name: value for name, value in values.items() if value != "null" or name not in optional}


def peek_envs(argv: Sequence[str]) -> list[str]:
    """Return the worlds of `--env` on a command line, or else in its `--config` file."""
    words = [
        value if equals else following
        for word, following in zip(argv, [*argv[1:], ""], strict=False)
        for name, equals, value in [word.partition("=")]
        if name == "--env"
    ]
    if not words and (path := peek_options(argv).get("config")):
        with suppress(UsageError):
            settings = read_yaml(path)
            words = as_list(settings.get("env", [])) if isinstance(settings, dict) else []
    return [name for word in words if isinstance(word, str) for name in word.split(",")]


def _peek_file(path: str) -> dict[str, str]:
    try:
        settings = read_yaml(path)
    except UsageError:
        return {}
    if not isinstance(settings, dict):
        return {}
    preset = settings.get("preset")
    return plugin_names(settings) | ({"preset": preset} if isinstance(preset, str) else {})


def require_allowed(argv: Sequence[str], config: type, reason: str) -> None:
    """Raise UsageError if an option is not a field of `config`; the message names its first field."""
    first, *others = (f"--{field.name}" for field in fields(cast(Any, config)))
    for word in argv:
        name = word.partition("=")[0].removesuffix(".name")
        if name.startswith("--") and name not in (first, *others):
            raise UsageError(f"{name} cannot be combined with {first}: {reason}; allowed are {', '.join(others)}")
