"""Options from dataclasses, and their values from a command line, a YAML file or a run's saved settings.

The field of a dataclass defines an option's name, type, default and help, and whether `--help` or only `--help-all`
shows it. The values of a command are one flat dict:
`{"rounds": 3, "trainer.learning_rate": 1e-4, "env_kwargs": {...}}`.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

import yaml

from agentgym_py import registry, trust
from agentgym_py.checks import is_basic
from agentgym_py.cli.values import (
    as_list,
    convert,
    is_mapping_type,
    load_yaml,
    nest_options,
)
from agentgym_py.env import registration
from agentgym_py.errors import AgentGymError, ConfigError, nearest, setting
from agentgym_py.files import RENAMED, read_text

C = TypeVar("C")
Values = dict[str, Any]
"""The values of a command, by option name."""

SYNONYMS = {
    "lr": "learning_rate", "world": "env", "checkpoint": "model", "policy": "model", "output": "out",
    "output_dir": "out", "bs": "batch_size", "num_epochs": "epochs", "num_train_epochs": "epochs",
    "lora_r": "lora_rank", "max_tokens": "max_new_tokens", "gpu": "device", "data_path": "data",
    "replay": "replay_ratio", "ewc": "ewc_lambda", "reflect": "reflection", "episodes": "tasks",
    "num_episodes": "tasks", "num_tasks": "tasks", **RENAMED,
}  # fmt: skip
"""Other names of an option, used in other packages or earlier versions, for suggestions."""
PART_SYNONYMS = {"judge": "reward_kwargs"}
"""Other names of a group of settings, for suggestions."""
HELP_ALL = "--help-all"
JSON_HELP = "Print JSON, for a program."
_OUTPUTS = {"out", "report", "resume"}
"""Options that name what a command writes."""
_LISTED = 12
"""Most settings of a part, such as a trainer, that an error lists."""
_HELP = ("-h", "--help", "--help_all")


class UsageError(AgentGymError, ValueError):
    """The command line or a config file is wrong."""


class HelpRequest(Exception):  # noqa: N818  # no error
    """The command line asks for help."""

    def __init__(self, parser: Parser, everything: bool) -> None:
        super().__init__()
        self.parser, self.everything = parser, everything


# ----------------------------------------------------------------------------------------------------------- declaring


@dataclass(slots=True)
class Option:
    """One option, or a positional argument."""

    name: str
    hint: Any = str
    """Type of its value, as an annotation."""
    default: Any = None
    help: str = ""
    basic: bool = True
    """Whether `--help` shows it; `--help-all` shows every option."""
    group: str = ""
    """Title of its section in the help."""
    metavar: str | None = None
    """Placeholder for its value in the help; by default its type."""
    item: Callable[[Any], Any] | None = None
    """Reads one value of an option that takes several."""
    required: bool = False

    @property
    def flag(self) -> str:
        """Return its name on the command line, for example `--trainer` for `trainer.name`."""
        return f"--{self.name.removesuffix('.name')}"

    def read(self, value: Any) -> Any:
        """Convert a text, or an object from a file.

        Raises:
            UsageError: `value` has another type.
        """
        try:
            return as_list(value, self.item) if self.item else convert(value, self.hint)
        except (TypeError, ValueError) as error:
            form = f"; write {self.flag}.NAME VALUE" if is_mapping_type(self.hint) and isinstance(value, str) else ""
            raise UsageError(f"{setting(self.name)}: {error}{form}") from error


class Parser:
    """The options of a command, or its subcommands, such as `list` and `show` of `agentgym envs`."""

    def __init__(self, prog: str, about: str = "", argv: Sequence[str] = ()) -> None:
        self.prog, self.about, self.argv = prog, about, argv
        self.options: dict[str, Option] = {}
        self.positionals: list[Option] = []
        self.commands: dict[str, Parser] = {}
        self.command_groups: Mapping[str, Sequence[str]] = {}
        """Titles of the help's parts and the subcommands in each; by default they are one part."""
        self.command_key = ""
        self.suggest: Callable[[Sequence[str]], Iterable[str]] = lambda words: ()
        """Returns further names to suggest for a wrong one, from the words of the command line."""
        self.other_commands: Callable[[str], Sequence[str]] = lambda name: ()
        """Returns the other commands that have an option of this name."""
        self.renamed: Mapping[str, str] = {}
        """Current names of the trainer's renamed settings, for suggestions."""

    @property
    def usage(self) -> str:
        """Return the line that shows the arguments."""
        if self.commands:
            return f"{self.prog} COMMAND [options]"
        arguments = [f"{option.metavar}{' ...' if option.item else ''}" for option in self.positionals]
        return " ".join([self.prog, *arguments, *["[options]"] * bool(self.options)])

    def add(self, name: str, hint: Any = str, default: Any = None, help: str = "", **more: Any) -> None:
        """Add an option; `more` are fields of `Option`."""
        self.options[name] = Option(name, hint, default, help, **more)

    def add_positional(self, name: str, help: str, **more: Any) -> None:
        """Add a positional argument; with `item` it takes one or more, and leaves one for each that follows."""
        self.positionals.append(Option(name, help=help, **{"metavar": name.upper(), **more}))

    def add_command(self, name: str, about: str, key: str = "what") -> Parser:
        """Add a subcommand, whose name becomes the value of `key`."""
        self.command_key = key
        self.commands[name] = Parser(f"{self.prog} {name}", about)
        return self.commands[name]

    def add_dataclass(
        self, config: type, prefix: str = "", title: str = "", skip: Collection[str] = (), basic: bool = True,
        ordered: Iterable[Field[Any]] | None = None,
    ) -> None:  # fmt: skip
        """Add an option named `--prefix.field` for each field of a dataclass, or for those `ordered`.

        `--help` shows the fields marked `Basic`, or all if none is marked. Without `basic` it shows none of them. The
        option of a list takes several values.
        """
        hints, marked = _type_hints(config)
        title = title or (inspect.getdoc(config) or "").partition("\n")[0].rstrip(".:")
        none_marked = not any(map(is_basic, marked.values()))
        for field in fields(cast(Any, config)) if ordered is None else ordered:
            if not field.init or field.name in skip:
                continue
            default = field.default if field.default_factory is MISSING else field.default_factory()
            hint = hints[field.name]
            self.add(
                f"{prefix}{field.name}", hint, None if default is MISSING else default,
                field_docs(config).get(field.name, ""), group=title, required=default is MISSING,
                basic=basic and (none_marked or is_basic(marked[field.name])),
                item=partial(convert, hint=get_args(hint)[0]) if get_origin(hint) is list else None,
            )  # fmt: skip

    def set_defaults(self, defaults: Mapping[str, Any]) -> None:
        """Change the defaults of options."""
        for name, value in defaults.items():
            self.options[name].default = value

    # ------------------------------------------------------------------------------------------------------- reading

    def parse(self, words: Sequence[str]) -> Values:
        """Return the values of a command line, which override those of its `--config` file.

        Raises:
            HelpRequest: the command line asks for help.
            UsageError: an option is unknown, or its value is wrong.
        """
        if self.commands:
            return self._parse_command(words)
        if wants_help(words):
            raise HelpRequest(self, "--help_all" in words)
        occurrences, rest = self._split(words)
        values = self._defaults()
        for name, value in occurrences:
            if name == "config":
                content = read_yaml(value, "--config: ")
                if not isinstance(content, Mapping):
                    raise UsageError(f"{value}: expected a mapping of options, got {content!r:.40}")
                values |= (stored := self.flatten(content, value))
                for output in _OUTPUTS & stored.keys() - {given for given, _ in occurrences}:
                    trust.require_output(str(stored[output] or "."))
        started = set[str]()
        for name, value in occurrences:
            self._put(values, name, value, started)
        self._put_positionals(values, rest)
        return self._require_complete(values)

    def read_mapping(self, settings: Mapping[str, Any], file: str) -> Values:
        """Return the values of nested settings, with defaults for the rest; errors name `file` unless it is empty.

        Raises:
            UsageError: a setting is unknown, or its value is wrong.
        """
        return self._require_complete(self._defaults() | self.flatten(settings, file))

    def find_option(self, name: str) -> Option | None:
        """Return the option of that name, or the mapping option that holds `env_kwargs.difficulty`."""
        if name in self.options:
            return self.options[name]
        parents = (name.rsplit(".", depth)[0] for depth in range(1, name.count(".") + 1))
        option = next((self.options[parent] for parent in parents if parent in self.options), None)
        return option if option and is_mapping_type(option.hint) else None

    def _parse_command(self, words: Sequence[str]) -> Values:
        first = words[0] if words else ""
        if first in _HELP:
            raise HelpRequest(self, first == "--help_all")
        if first in self.commands:
            return {self.command_key: first, **self.commands[first].parse(words[1:])}
        if first:
            hint = suggestion(first, self.commands)
            option = {"envs": "env", "trainers": "trainer.name"}.get(self.prog.split()[-1])
            of_kind = _plugin_names()[option] if option else ()
            if "show" in self.commands and not first.startswith("--") and (first in of_kind or not hint):
                hint = f"; did you mean {self.prog} show {first}?"
            raise UsageError(f"{first}: no such command{hint or f'; see {self.prog} --help'}")
        raise UsageError(f"{self.prog} needs a command: {', '.join(self.commands)}")

    def _split(self, words: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
        """Return the options with their texts in order, and the other words."""
        occurrences, rest, queue = list[tuple[str, str]](), list[str](), list(words)
        while queue:
            word = queue.pop(0)
            if word == "--":
                return occurrences, rest + queue
            if not word.startswith("--"):
                rest.append(word)
                continue
            name, equals, value = word[2:].partition("=")
            option = self.find_option(name)
            if option is None:
                raise UsageError(self._unknown_option(name, words))
            if not equals:
                if option.hint is bool and not self._begins_with_flag_value(queue):
                    value = "true"
                elif queue and not queue[0].startswith("--"):
                    value = queue.pop(0)
                else:
                    raise UsageError(f"{setting(name)} needs a value")
            occurrences.append((name, value))
        return occurrences, rest

    def _begins_with_flag_value(self, words: Sequence[str]) -> bool:
        """Return whether the first word is a flag's value, also a wrong one if it can be nothing else."""
        if not words or words[0].startswith("--"):
            return False
        return not self.positionals or words[0].lower() in ("true", "false")

    def _unknown_option(self, name: str, words: Sequence[str]) -> str:
        """Return the error message for an unknown option."""
        if name == "env" and self.positionals:
            return f"--env: no such option; give the environment's name alone: {self.usage}"
        names = [*self._flags(), *map(setting, self.suggest(words))]
        hint = suggestion(name, names, self.renamed)
        if not hint and (of_part := self._settings_beside(name)):
            return f"{setting(name)}: no such option of this {name.partition('.')[0]}{of_part}"
        if commands := [f"agentgym {command}" for command in self.other_commands(name)]:
            places = " and ".join(filter(None, [", ".join(commands[:-1]), commands[-1]]))
            hint += f"; {setting(name) if hint else 'it'} is an option of {places}"
        return f"{setting(name)}: no such option" + (hint or f"; see {self.prog} {HELP_ALL}")

    def _settings_beside(self, name: str) -> str:
        """Say which settings a part has, such as the chosen trainer; empty if `name` is not a setting of a part."""
        part = name.partition(".")[0]
        if part == name or f"{part}.name" not in self.options:
            return ""
        names = [key for key in self.options if key.startswith(f"{part}.") and key != f"{part}.name"]
        if not names:
            return ", which has no settings"
        listed = ", ".join(map(setting, names))
        return f", which has {listed}" if len(names) <= _LISTED else f"; see {self.prog} {HELP_ALL}"

    def _flags(self) -> list[str]:
        return list(map(setting, self.options))

    def _defaults(self) -> Values:
        return {name: option.default for name, option in self.options.items()}

    def _put(self, values: Values, name: str, text: str, started: set[str]) -> None:
        """Set one occurrence of an option: the first replaces the value of a file, further ones append."""
        option = self.find_option(name)
        assert option is not None
        key = option.name
        if key != name:  # an entry of a mapping
            _put_entry(values, key, name[len(key) + 1 :].split("."), convert(text, Any), option)
            return
        value = option.read(text)
        is_repeated = option.item is not None and key in started
        values[key] = [*values[key], *value] if is_repeated else value
        started.add(key)

    def _put_positionals(self, values: Values, words: list[str]) -> None:
        words = list(words)
        for index, option in enumerate(self.positionals, 1):
            if not words:
                raise UsageError(f"{option.metavar} is missing: {self.usage}")
            if option.item:
                number = max(1, len(words) - len(self.positionals[index:]))
                values[option.name], words = [option.item(word) for word in words[:number]], words[number:]
            else:
                values[option.name] = words.pop(0)
        if words:
            raise UsageError(
                f"{words[0]!r}: no argument is expected here{self._option_for(words[0]) or f': {self.usage}'}"
            )

    def _option_for(self, word: str) -> str:
        """Return `; did you mean --env shop?` for the name of an installed plugin, or `--env` for `-env`."""
        if word.startswith("-") and self.find_option(word[1:].partition("=")[0]):
            return f"; did you mean -{word}?"
        plugins = _plugin_names().items()
        name = next((name for name, names in plugins if name in self.options and word in names), None)
        return f"; did you mean {setting(name, word)}?" if name else ""

    def _require_complete(self, values: Values) -> Values:
        for option in self.options.values():
            if option.required and values[option.name] is None:
                raise UsageError(f"{setting(option.name)} is needed")
        return values

    def flatten(self, settings: Mapping[str, Any], file: str, prefix: str = "") -> Values:
        """Return nested settings alone as values by option name; errors name `file` unless it is empty.

        Raises:
            UsageError: a setting is unknown, or its value is wrong.
        """
        values, where = Values(), f"{file}: " if file else ""
        for key, value in settings.items():
            name = f"{prefix}{key}"
            option = self.find_option(name) or next((p for p in self.positionals if p.name == name), None)
            is_group = any(option_name.startswith(f"{name}.") for option_name in self.options)
            if option is None and is_group and isinstance(value, Mapping):
                values |= self.flatten(value, file, f"{name}.")
            elif option is None:
                near = suggestion(name, [flag.removeprefix("--") for flag in self._flags()], self.renamed)
                raise UsageError(f"{where}{name}: no such setting{near}")
            elif option.name != name:
                values.setdefault(option.name, {})
                _put_entry(values, option.name, name[len(option.name) + 1 :].split("."), value, option)
            else:
                try:
                    values[name] = option.read(value)
                except UsageError as error:
                    raise UsageError(f"{where}{error}") from error
        return values


def _plugin_names() -> dict[str, Collection[str]]:
    """Return the names of the installed plugins, by the option that takes one."""
    ids = registry.names("agentgym.envs")
    return {
        "env": {*ids, *map(registration.short_name, ids)}, "trainer.name": registry.names("agentgym.trainers"),
        "agent": registry.names("agentgym.agents"),
    }  # fmt: skip


def _put_entry(values: Values, key: str, path: Sequence[str], value: Any, option: Option) -> None:
    """Set an entry of the mapping `values[key]`, which is copied first."""
    values[key] = mapping = dict(values[key] or {})
    inner = mapping
    for part in path[:-1]:
        inner[part] = dict(inner[part]) if isinstance(inner.get(part), Mapping) else {}
        inner = inner[part]
    inner[path[-1]] = value
    try:
        values[key] = convert(mapping, option.hint)
    except ValueError as error:
        raise UsageError(f"{setting('.'.join([key, *path]))}: {error}") from error


def read_yaml(path: str, where: str = "") -> Any:
    """Return the content of a YAML file.

    Raises:
        UsageError: there is no such file, or it is not YAML; `where` begins the message.
    """
    try:
        return load_yaml(read_text(Path(path)))
    except FileNotFoundError as error:
        raise UsageError(f"{where}{path}: no such file") from error
    except (ValueError, OSError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise UsageError(f"{where}{path} is not readable as YAML: {why}") from error


@lru_cache(maxsize=256)
def _type_hints(config: type) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the types of a dataclass's fields, without and with their marks: evaluating them takes a millisecond."""
    return get_type_hints(config), get_type_hints(config, include_extras=True)


@lru_cache(maxsize=256)
def field_docs(config: type) -> Mapping[str, str]:
    """Return the docstring below each field of a dataclass, in one line."""
    docs: dict[str, str] = {}
    for base in reversed(config.__mro__):
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        except (OSError, TypeError, SyntaxError):  # the class has no source file
            continue
        body = cast(ast.ClassDef, tree.body[0]).body
        for node, below in pairwise(body):
            doc = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else None
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(doc, str):
                docs[node.target.id] = " ".join(doc.split())
    return docs


def read_options(config: type[C], args: Mapping[str, Any], prefix: str = "", **more: Any) -> C:
    """Return the dataclass with the values of its options; `more` are fields from elsewhere."""
    names = [field.name for field in fields(cast(Any, config)) if field.init and field.name not in more]
    try:
        return config(**{name: args[f"{prefix}{name}"] for name in names}, **more)
    except ConfigError as error:
        raise with_option_names(error, [*names, *more], prefix) from error


def with_option_names(error: ConfigError, names: Collection[str], prefix: str) -> UsageError:
    """Write the setting that begins a ConfigError by its full name: `--trainer.epochs must …`."""
    first, space, rest = str(error).partition(" ")
    option = setting(f"{prefix}{first}") if first.rstrip(",:") in names else first
    return UsageError(f"{option}{space}{rest}")


def add_config(parser: Parser) -> None:
    """Add `--config FILE` and `--print_config`."""
    parser.add("config", str, None, "YAML file with any of these options.", metavar="FILE", group="Options")
    parser.add("print_config", bool, False, "Print the options as a file for --config.", basic=False, group="Options")


def config_text(args: Mapping[str, Any]) -> str:
    """Return the values as a file for `--config`."""
    settings = nest_options({name: value for name, value in args.items() if name != "config"})
    return yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)


# ------------------------------------------------------------------------------------------------------------ spelling


def wants_help(argv: Sequence[str]) -> bool:
    """Return whether the command line asks for help."""
    return not set(_HELP).isdisjoint(argv)


def suggestion(name: str, choices: Iterable[str], renamed: Mapping[str, str] | None = None) -> str:
    """Return `; did you mean …?`, or an empty string if no choice is near; `--rat` is near to `--trainer.rat`.

    Among equally near choices the first wins. Leading hyphens are ignored. `renamed` adds to `SYNONYMS`.
    """
    bare, by_name = name.lstrip("-"), {choice.lstrip("-"): choice for choice in reversed(list(choices))}
    by_last_part = {full_name.rpartition(".")[2]: choice for full_name, choice in by_name.items()}
    prefix, dot, last_part = bare.rpartition(".")
    synonym = (SYNONYMS | dict(renamed or {})).get(last_part, last_part)
    for exact in (f"{prefix}{dot}{synonym}", f"{prefix}{dot}{last_part}"):
        if exact in by_name:
            return f"; did you mean {by_name[exact]}?"
    if (part := PART_SYNONYMS.get(prefix, "")) in by_name:
        return f"; did you mean {by_name[part]}.{last_part}?"
    candidates = by_last_part | by_name
    near = next((part for part in (last_part, synonym) if part in by_last_part), None) or nearest(bare, candidates)
    return f"; did you mean {candidates[near]}?" if near else ""
