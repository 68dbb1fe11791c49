"""Options from dataclasses, and their values from a command line, a YAML file or a run's saved settings.

An option's name, type, default, help and place (`--help` or `--help-all`) stand once, at the dataclass's field. The
values of a command are one flat dict: `{"rounds": 3, "trainer.learning_rate": 1e-4, "env_kwargs": {...}}`.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar, cast, get_type_hints

import yaml

from agentgym_py import registry
from agentgym_py.checks import is_basic
from agentgym_py.cli.values import as_list, convert, load_yaml, nested, takes_mapping
from agentgym_py.env import registration
from agentgym_py.errors import AgentGymError, ConfigError, nearest

C = TypeVar("C")
Values = dict[str, Any]
"""What a command was given: option name to value."""

SYNONYMS = {
    "lr": "learning_rate", "samples": "attempts", "tries": "attempts", "fork_tries": "fork_attempts",
    "temperatures": "temperature", "world": "env", "checkpoint": "model", "policy": "model", "output": "out",
    "output_dir": "out", "bs": "batch_size", "num_epochs": "epochs", "num_train_epochs": "epochs",
    "lora_r": "lora_rank", "max_tokens": "max_new_tokens", "gpu": "device", "data_path": "data",
}  # fmt: skip
"""What an option is called elsewhere, and was called before: a wrong name is answered with ours."""
HELP_ALL = "--help-all"
_HELP = ("-h", "--help", "--help_all")


class UsageError(AgentGymError, ValueError):
    """The command line, or a config file, does not say what it must."""


class HelpRequest(Exception):  # noqa: N818  # no error
    """`--help` or `--help-all` stands on the command line."""

    def __init__(self, parser: Parser, everything: bool) -> None:
        super().__init__()
        self.parser, self.everything = parser, everything


# ----------------------------------------------------------------------------------------------------------- declaring


@dataclass(slots=True)
class Option:
    """One option, or a positional argument."""

    name: str
    hint: Any = str
    """Its type, as an annotation."""
    default: Any = None
    help: str = ""
    basic: bool = True
    """Whether `--help` shows it; `--help-all` shows every option."""
    group: str = ""
    """Title that it stands under in the help."""
    metavar: str | None = None
    """What stands for its value in the help; by default its type."""
    item: Callable[[Any], Any] | None = None
    """Of an option that takes several values: reads one of them."""
    required: bool = False

    @property
    def flag(self) -> str:
        """How it is written: `--trainer` for `trainer.name`."""
        return f"--{self.name.removesuffix('.name')}"

    def read(self, value: Any) -> Any:
        """The value that a text, or an object of a file, stands for.

        Raises:
            UsageError: it stands for none.
        """
        try:
            return as_list(value, self.item) if self.item else convert(value, self.hint)
        except (TypeError, ValueError) as error:
            raise UsageError(f"{self.flag}: {error}") from error


class Parser:
    """The options of a command; or its commands, such as `list` and `show` of `agentgym envs`."""

    def __init__(self, prog: str, about: str = "", usage: str = "") -> None:
        self.prog, self.about, self.usage = prog, about, usage or f"{prog} [options]"
        self.options: dict[str, Option] = {}
        self.positionals: list[Option] = []
        self.commands: dict[str, Parser] = {}
        self.command_key = ""
        self.suggest: Callable[[Sequence[str]], Iterable[str]] = lambda words: ()
        """More names that a wrong one may have been meant for, by the words of the command line."""

    def add(self, name: str, hint: Any = str, default: Any = None, help: str = "", **more: Any) -> None:
        """Add an option; `more` are fields of `Option`."""
        self.options[name] = Option(name, hint, default, help, **more)

    def add_positional(self, name: str, help: str, **more: Any) -> None:
        """Add a positional argument; with `item` it takes one or more."""
        self.positionals.append(Option(name, help=help, **{"metavar": name.upper(), **more}))

    def add_command(self, name: str, about: str, key: str = "what") -> Parser:
        """Add a command, whose name becomes the value of `key`."""
        self.command_key, self.usage = key, f"{self.prog} COMMAND [options]"
        self.commands[name] = Parser(f"{self.prog} {name}", about)
        return self.commands[name]

    def add_dataclass(
        self, config: type, prefix: str = "", title: str = "", skip: Collection[str] = (), basic: bool = True
    ) -> None:
        """Add an option for each field of a dataclass, named `--prefix.field`.

        `--help` shows the fields of type `Basic`, or all fields if none is marked; none of them without `basic`.
        """
        hints, marked = get_type_hints(config), get_type_hints(config, include_extras=True)
        title = title or (inspect.getdoc(config) or "").partition("\n")[0].rstrip(".:")
        whole = not any(map(is_basic, marked.values()))
        whole = not any(map(is_basic, marked.values()))
        for each in fields(cast(Any, config)):
            if not each.init or each.name in skip:
                continue
            default = each.default if each.default_factory is MISSING else each.default_factory()
            self.add(
                f"{prefix}{each.name}", hints[each.name], None if default is MISSING else default,
                field_docs(config).get(each.name, ""), group=title, required=default is MISSING,
                basic=basic and (whole or is_basic(marked[each.name])),
            )  # fmt: skip

    def set_defaults(self, defaults: Mapping[str, Any]) -> None:
        """Change what options are that are not given."""
        for name, value in defaults.items():
            self.options[name].default = value

    # ------------------------------------------------------------------------------------------------------- reading

    def parse(self, words: Sequence[str]) -> Values:
        """The values of a command line; a file of `--config` gives way to it.

        Raises:
            HelpRequest: it asks for help.
            UsageError: it is wrong; the message names the option.
        """
        if self.commands:
            return self._parse_command(words)
        if wants_help(words):
            raise HelpRequest(self, "--help_all" in words)
        occurrences, rest = self._split(words)
        values = self._defaults()
        for name, value in occurrences:
            if name == "config":
                values |= self.read_file(value)
        started = set[str]()
        for name, value in occurrences:
            self._put(values, name, value, started)
        self._put_positionals(values, rest)
        return self._complete(values)

    def read_file(self, path: str) -> Values:
        """The values of a YAML file."""
        try:
            held = load_yaml(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise UsageError(f"--config: there is no file {path!r}") from error
        except (ValueError, OSError) as error:
            raise UsageError(f"--config: {path} is not readable as YAML: {error}") from error
        return self._flat(_require_mapping(held, path), path)

    def read_mapping(self, held: Mapping[str, Any], where: str) -> Values:
        """The values of settings as a file holds them, with defaults for the rest; `where` names the file, if not "".

        Raises:
            UsageError: an unknown setting, or a wrong value.
        """
        return self._complete(self._defaults() | self._flat(held, where))

    def find(self, name: str) -> Option | None:
        """The option of that name, or the mapping that a name such as `env_kwargs.difficulty` is part of."""
        if name in self.options:
            return self.options[name]
        parents = (name.rsplit(".", depth)[0] for depth in range(1, name.count(".") + 1))
        found = next((self.options[each] for each in parents if each in self.options), None)
        return found if found and takes_mapping(found.hint) else None

    def _parse_command(self, words: Sequence[str]) -> Values:
        first = words[0] if words else ""
        if first in _HELP:
            raise HelpRequest(self, first == "--help_all")
        if first in self.commands:
            return {self.command_key: first, **self.commands[first].parse(words[1:])}
        if first:
            raise UsageError(f"{first}: no such command{suggestion(first, self.commands)}; see {self.prog} --help")
        raise UsageError(f"{self.prog} needs a command: {', '.join(self.commands)}")

    def _split(self, words: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
        """Options with their texts in order, and the words that belong to none."""
        occurrences, rest, left = list[tuple[str, str]](), list[str](), list(words)
        while left:
            word = left.pop(0)
            if word == "--":
                return occurrences, rest + left
            if not word.startswith("--"):
                rest.append(word)
                continue
            name, equals, value = word[2:].partition("=")
            option = self.find(name)
            if option is None:
                raise UsageError(self._unknown(name, words))
            if not equals:
                if option.hint is bool and (not left or left[0].lower() not in ("true", "false")):
                    value = "true"
                elif left and not left[0].startswith("--"):
                    value = left.pop(0)
                else:
                    raise UsageError(f"--{name} needs a value")
            occurrences.append((name, value))
        return occurrences, rest

    def _unknown(self, name: str, words: Sequence[str]) -> str:
        """What is wrong with an option that there is not."""
        if name == "env" and self.positionals:
            return f"--env: no such option; the environment is named without it: {self.usage}"
        near = suggestion(name, self._names(words))
        return f"--{name}: no such option" + (near or f"; see {self.prog} {HELP_ALL}")

    def _names(self, words: Sequence[str] = ()) -> list[str]:
        return [option.flag for option in self.options.values()] + [f"--{name}" for name in self.suggest(words)]

    def _defaults(self) -> Values:
        return {name: option.default for name, option in self.options.items()}

    def _put(self, values: Values, name: str, text: str, started: set[str]) -> None:
        """Put in one occurrence of an option: the first replaces what stands in a file, further ones add to it."""
        option = self.find(name)
        assert option is not None
        key = option.name
        if key != name:  # an entry of a mapping
            _put_entry(values, key, name[len(key) + 1 :].split("."), convert(text, Any), option)
            return
        value = option.read(text)
        again = option.item is not None and key in started
        values[key] = [*values[key], *value] if again else value
        started.add(key)

    def _put_positionals(self, values: Values, words: list[str]) -> None:
        left = list(words)
        for option in self.positionals:
            if option.item and left:
                values[option.name], left = [option.item(word) for word in left], []
            elif left:
                values[option.name] = left.pop(0)
            else:
                raise UsageError(f"{option.metavar} is missing: {self.usage}")
        if left:
            raise UsageError(f"{left[0]!r}: no argument is expected here{self._meant_as_option(left[0])}")

    def _meant_as_option(self, word: str) -> str:
        """`; did you mean --env shop?` of an argument that is the name of something installed."""
        ids = registry.names("agentgym.envs")
        known = {
            "env": {*ids, *map(registration.short_name, ids)}, "trainer.name": registry.names("agentgym.trainers"),
            "agent": registry.names("agentgym.agents"),
        }  # fmt: skip
        found = next((name for name, names in known.items() if name in self.options and word in names), None)
        return f"; did you mean {self.options[found].flag} {word}?" if found else ""

    def _complete(self, values: Values) -> Values:
        if missing := next((option for option in self.options.values()
                            if option.required and values[option.name] is None), None):  # fmt: skip
            raise UsageError(f"{missing.flag} is needed")
        return values

    def _flat(self, held: Mapping[str, Any], where: str, prefix: str = "") -> Values:
        """A nested mapping as values by option names."""
        values: Values = {}
        for key, value in held.items():
            name = f"{prefix}{key}"
            option = self.find(name) or next((each for each in self.positionals if each.name == name), None)
            is_group = any(each.startswith(f"{name}.") for each in self.options)
            if option is None and is_group and isinstance(value, Mapping):
                values |= self._flat(value, where, f"{name}.")
            elif option is None:
                near = suggestion(name, [each.removeprefix("--") for each in self._names()])
                raise UsageError(_at(where, f"{name}: no such setting{near}"))
            elif option.name != name:
                values.setdefault(option.name, {})
                _put_entry(values, option.name, name[len(option.name) + 1 :].split("."), value, option)
            else:
                try:
                    values[name] = option.read(value)
                except UsageError as error:
                    raise UsageError(_at(where, str(error))) from error
        return values


def _put_entry(values: Values, key: str, path: Sequence[str], value: Any, option: Option) -> None:
    """Put `value` into the mapping `values[key]`, which is copied, not changed."""
    values[key] = whole = dict(values[key] or {})
    inner = whole
    for part in path[:-1]:
        inner[part] = dict(inner[part]) if isinstance(inner.get(part), Mapping) else {}
        inner = inner[part]
    inner[path[-1]] = value
    try:
        values[key] = convert(whole, option.hint)
    except ValueError as error:
        raise UsageError(f"--{'.'.join([key, *path])}: {error}") from error


def _at(where: str, message: str) -> str:
    return f"{where}: {message}" if where else message


def _require_mapping(held: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(held, Mapping):
        raise UsageError(f"{where}: expected a mapping of options, got {held!r:.40}")
    return held


@lru_cache(maxsize=256)
def field_docs(config: type) -> Mapping[str, str]:
    """The docstring below each field of a dataclass, in one line."""
    found: dict[str, str] = {}
    for each in reversed(config.__mro__):
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(each)))
        except (OSError, TypeError, SyntaxError):  # made without a file
            continue
        body = cast(ast.ClassDef, tree.body[0]).body
        for node, below in pairwise(body):
            doc = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else None
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(doc, str):
                found[node.target.id] = " ".join(doc.split())
    return found


def read_options(config: type[C], args: Mapping[str, Any], prefix: str = "", **more: Any) -> C:
    """The dataclass of the values that `add_dataclass` declared; `more` are fields that came otherwise."""
    names = [each.name for each in fields(cast(Any, config)) if each.init and each.name not in more]
    try:
        return config(**{name: args[f"{prefix}{name}"] for name in names}, **more)
    except ConfigError as error:
        raise with_option_names(error, [*names, *more], prefix) from error


def with_option_names(error: ConfigError, names: Collection[str], prefix: str) -> UsageError:
    """The error with its setting, which a ConfigError begins with, written as an option: `--trainer.epochs must …`."""
    first, space, rest = str(error).partition(" ")
    option = f"--{prefix}" if first.rstrip(",:") in names else ""
    return UsageError(f"{option}{first}{space}{rest}")


def add_config(parser: Parser) -> None:
    """`--config FILE`, and `--print_config`, which prints one."""
    parser.add("config", str, None, "YAML file with any of these options.", metavar="FILE", group="Options")
    parser.add("print_config", bool, False, "Print the options as such a file.", basic=False, group="Options")


def config_text(args: Mapping[str, Any]) -> str:
    """The values as a file for `--config`."""
    held = nested({name: value for name, value in args.items() if name != "config"})
    return yaml.safe_dump(held, sort_keys=False, allow_unicode=True)


# ------------------------------------------------------------------------------------------------------------ spelling


def normalize_argv(argv: Iterable[str]) -> list[str]:
    """Option names as they are declared: hyphens are underscores, `--trainer NAME` is `--trainer.name NAME`."""
    return [_normalize(word) if word.startswith("--") and len(word) > 2 else word for word in argv]


def _normalize(word: str) -> str:
    name, equals, value = word[2:].partition("=")
    first, dot, rest = name.replace("-", "_").partition(".")
    if first.endswith("_kwargs"):  # names of worlds and of their arguments are theirs
        rest = name.partition(".")[2]
    value = "-.inf" if value == "-inf" else value
    return f"--{'trainer.name' if name == 'trainer' else first + dot + rest}{equals}{value}"


def wants_help(argv: Sequence[str]) -> bool:
    """Whether the command line asks for help."""
    return not set(_HELP).isdisjoint(argv)


def peek_options(argv: Sequence[str]) -> dict[str, str]:
    """The values of `trainer`, `preset`, `config`, `resume` and `manifest`, on which other options depend.

    Reports no mistake; the parser will.
    """
    found: dict[str, str] = {}
    for word, following in zip(argv, [*argv[1:], ""], strict=False):
        name, equals, value = word.removeprefix("--").partition("=")
        name = name.removesuffix(".name")
        if word.startswith("--") and name in ("trainer", "preset", "config", "resume", "manifest"):
            found[name] = value if equals else following
    found = {name: value for name, value in found.items() if value and not value.startswith("--")}
    return {**_peek_file(found["config"]), **found} if "config" in found else found


def _peek_file(path: str) -> dict[str, str]:
    try:
        held = load_yaml(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(held, dict):
        return {}
    trainer = held.get("trainer")
    found = {"trainer": trainer.get("name") if isinstance(trainer, dict) else None, "preset": held.get("preset")}
    return {name: value for name, value in found.items() if isinstance(value, str)}


def suggestion(name: str, choices: Iterable[str]) -> str:
    """`; did you mean …?`, or nothing when no choice is near; `--rat` is near to `--trainer.rat` too.

    Of equally good choices the first is taken. Hyphens at the start do not count: all options have them.
    """
    bare, known = name.lstrip("-"), {each.lstrip("-"): each for each in reversed(list(choices))}
    last = {each.rpartition(".")[2]: whole for each, whole in known.items()}
    prefix, dot, own = bare.rpartition(".")
    synonym = SYNONYMS.get(own, own)
    for exact in (f"{prefix}{dot}{synonym}", f"{prefix}{dot}{own}"):
        if exact in known:
            return f"; did you mean {known[exact]}?"
    near = next((each for each in (own, synonym) if each in last), None) or nearest(bare, last | known)
    return f"; did you mean {(last | known)[near]}?" if near else ""
