"""Options that name a plugin, whose fields are options too: `--coreset NAME --coreset.FIELD VALUE`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from agentgym_py import registry
from agentgym_py.cli.parser import Parser, UsageError, Values, read_options
from agentgym_py.errors import setting


class PluginOption(NamedTuple):
    """An option that names a plugin, or none."""

    key: str
    """The option, one of `values.PLUGINS`."""
    group: registry.Group
    load: Callable[[str], type]
    """Returns the dataclass of a name or source."""
    about: str
    """Its help; `{names}` stands for the installed plugins."""
    basic: bool = False
    """Whether `--help` shows it; `--help-all` always does."""

    def add(self, parser: Parser, name: str | None) -> None:
        """Add the option, and those for the fields of the plugin `name`.

        Raises:
            UsageError: the command line has a setting of a plugin and names none.
        """
        prefix = f"--{self.key}."
        words = [word.removeprefix("--").partition("=")[0] for word in parser.argv if word.startswith(prefix)]
        if not name and (fields := [word for word in words if word != f"{self.key}.name"]):
            raise UsageError(f"{setting(fields[0])} needs {setting(self.key, 'NAME')}")
        about, title = self.about.format(names=", ".join(registry.names(self.group))), f"The {self.key}"
        parser.add(f"{self.key}.name", str | None, name, about, metavar="NAME", group=title, basic=self.basic)
        if name:
            parser.add_dataclass(self.load(name), f"{self.key}.", title, basic=self.basic)

    def read(self, args: Values) -> Any:
        """Return the plugin with its settings, or None."""
        name = args[f"{self.key}.name"]
        return read_options(self.load(name), args, f"{self.key}.") if name else None
