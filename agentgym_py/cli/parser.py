"""What the commands share of reading options: jsonargparse, set up once, and its complaints said in one line."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar, cast

import yaml
from jsonargparse import (
    ArgumentParser,
    DefaultHelpFormatter,
    Namespace,
    get_loader,
    set_loader,
    set_parsing_settings,
)

from agentgym_py.checks import fits
from agentgym_py.errors import AgentGymError, ConfigError, nearest

C = TypeVar("C")
_MODE = "agentgym"
_NEGATIVE_NUMBER = re.compile(r"-(?:\.?\d|\.?inf$)")
_FIRST = ("trainer", "preset", "config", "resume", "manifest")


class UsageError(AgentGymError, ValueError):
    """The command line, or a config file, cannot be read as what it should be."""


# ------------------------------------------------------------------------------------------------------------ building


def new_parser(prog: str, help_line: str, **kwargs: Any) -> ArgumentParser:
    """A parser that raises instead of exiting, takes whole option names only and reads our YAML."""
    set_parsing_settings(docstring_parse_attribute_docstrings=True)
    set_loader(_MODE, load_yaml, exceptions=(yaml.YAMLError,))
    parser = ArgumentParser(
        prog=prog, description=help_line, parser_mode=_MODE, exit_on_error=False, allow_abbrev=False,
        formatter_class=_Help, **kwargs,
    )  # fmt: skip
    parser._negative_number_matcher = _NEGATIVE_NUMBER  # argparse's own takes -1e-4 and -inf for options
    return parser


class _Help(DefaultHelpFormatter):
    def _format_action(self, action: argparse.Action) -> str:
        """Commands stand below their title at once; jsonargparse has a line of its own before them."""
        if isinstance(action, argparse._SubParsersAction):
            return "".join(map(self._format_action, action._get_subactions()))
        return super()._format_action(action)


def add_commands(parser: ArgumentParser, prog: str, dest: str) -> Any:
    """A place for the subcommands of `prog`; its help is the same everywhere."""
    parser.usage = f"{prog} COMMAND [options]"
    about = f"`{prog} COMMAND --help` shows a command's options."
    return parser.add_subcommands(dest=dest, title="commands", metavar="COMMAND", description=about)


def add_command(commands: Any, prog: str, name: str, help_line: str) -> ArgumentParser:
    """A subcommand's parser, hung into `commands`."""
    parser = new_parser("", help_line, usage=f"{prog} {name} [options]")
    commands.add_subcommand(name, parser, help=help_line)
    parser.prog = f"{prog} {name}"  # after add_subcommand, which sets one of its own
    return parser


def add_options(container: Any, config: type, prefix: str | None = None, skip: set[str | int] | None = None) -> None:
    """One option a field of a dataclass, named `--prefix.field`; a bool may stand without its value."""
    container.add_class_arguments(config, prefix, as_group=prefix is None, skip=skip)
    for action in getattr(container, "parser", container)._actions:
        if getattr(action, "_typehint", None) is bool:
            action.nargs, action.const, action.metavar = "?", True, "true|false"


def read_options(config: type[C], given: Namespace, prefix: str = "", **more: Any) -> C:
    """The dataclass of what `add_options` added; `more` are fields that came otherwise."""
    names = [each.name for each in fields(cast(Any, config)) if each.name not in more]
    try:
        return config(**{name: given[name] for name in names}, **more)
    except ConfigError as error:
        raise with_option_names(error, [*names, *more], prefix) from error


def with_option_names(error: ConfigError, names: Collection[str], prefix: str) -> UsageError:
    """What is wrong with the settings of these names, each written as its option: `--trainer.epochs must …`."""
    said = re.sub(r"(?<![\w./'-])\w+(?![\w/'])", lambda word: f"--{prefix}" * (word[0] in names) + word[0], str(error))
    return UsageError(said)


class Repeatable(argparse.Action):
    """An option that may stand several times, or once with commas; the command line replaces what a file says."""

    def __init__(self, *args: Any, item: Callable[[str], Any] = str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.item = item
        self._begun = False

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option_string: str | None = None
    ) -> None:
        """Add what one occurrence of the option gave."""
        del parser
        before = namespace[self.dest] if self._begun else []
        self._begun = True
        namespace[self.dest] = [*before, *self.as_list(values)]

    def as_list(self, value: Any) -> list[Any]:
        """`value`, from the command line or a file, as a list of items."""
        parts = [part for part in value.split(",") if part] if isinstance(value, str) else value
        try:
            return [self.item(part) for part in (parts if isinstance(parts, list | tuple) else [parts])]
        except (TypeError, ValueError) as error:
            raise UsageError(f"{self.option_strings[0]}: {value!r} is not what it takes ({error})") from error


def as_list(value: Any, item: Callable[[Any], Any] = str) -> list[Any]:
    """The value of a `Repeatable` option, which a config file may have given as a single item."""
    return Repeatable(["--"], "", item=item).as_list(value)


def load_yaml(text: str, **_: Any) -> Any:
    """YAML as jsonargparse reads it (`1e-4` is a number); `trainer: NAME` is short for `trainer: {name: NAME}`."""
    value = get_loader("yaml")(text)
    if isinstance(value, dict) and isinstance(value.get("trainer"), str):
        value["trainer"] = {"name": value["trainer"]}
    return value


# ------------------------------------------------------------------------------------------------------------- reading


def normalize_argv(argv: Iterable[str]) -> list[str]:
    """Option names as they are registered: hyphens are underscores, `--trainer NAME` is `--trainer.name NAME`.

    The number `-inf` gets YAML's spelling.
    """
    words = ["-.inf" if word == "-inf" else word for word in argv]
    return [_spelled(word) if word.startswith("--") and len(word) > 2 else word for word in words]


def _spelled(word: str) -> str:
    name, equals, value = word[2:].partition("=")
    first, dot, rest = name.replace("-", "_").partition(".")
    if first.endswith("_kwargs"):  # names of worlds and of their arguments are theirs
        rest = name.partition(".")[2]
    value = "-.inf" if value == "-inf" else value
    return f"--{'trainer.name' if name == 'trainer' else first + dot + rest}{equals}{value}"


class _Silent(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise argparse.ArgumentError(None, message)


def peek_options(argv: Sequence[str]) -> dict[str, str]:
    """Of `trainer`, `preset`, `config`, `resume` and `manifest` what was given: the other options depend on these.

    Complains of nothing; the real parser will.
    """
    parser = _Silent(add_help=False, allow_abbrev=False)
    for name in _FIRST:
        parser.add_argument("--trainer.name" if name == "trainer" else f"--{name}", dest=name)
    try:
        seen = {name: value for name, value in vars(parser.parse_known_args(argv)[0]).items() if value is not None}
    except argparse.ArgumentError:
        return {}
    return {**_first_of_file(seen["config"]), **seen} if "config" in seen else seen


def _first_of_file(path: str) -> dict[str, str]:
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123  # a name such as "\0" fails later, in words
            data = load_yaml(file.read())
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    if not isinstance(data, dict):
        return {}
    trainer = data.get("trainer")
    found = {"trainer": trainer.get("name") if isinstance(trainer, dict) else None, "preset": data.get("preset")}
    return {name: value for name, value in found.items() if isinstance(value, str)}


def scalar(value: Any, hint: Any = Any) -> Any:
    """A word of the command line as the YAML scalar that it writes, or as it is where only that is of a type."""
    try:
        read = yaml.safe_load(value) if isinstance(value, str) else value
    except yaml.YAMLError:
        return value
    return value if fits(value, hint) and not fits(read, hint) else read


def as_plain(value: Any) -> Any:
    """Namespaces and paths as dicts and strings, for YAML and JSON."""
    if isinstance(value, Namespace):
        value = value.as_dict()
    if isinstance(value, Mapping):
        return {str(key): as_plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(each) for each in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


# ---------------------------------------------------------------------------------------------------------- complaints

_UNKNOWN = re.compile(r"unrecognized arguments: (\S+)")
_NOT_ACCEPTED = re.compile(
    r"(?:(?:Subcommand '[\w.]+'|Group '(?P<group>\w+)') does not accept option|Option) '(?P<key>[^']+)'"
)
_KEY = re.compile(r'Parser key "(?P<key>[^"]*)":\s*(?P<rest>.*)', re.DOTALL)
_EXPECTED = re.compile(r"Expected an? (.+?)(?:\. Got value: (.*))?$", re.MULTILINE)
_CHOICE = re.compile(r"argument (\S+): invalid choice: '([^']*)'")
_REQUIRED = re.compile(r"the following arguments are required: (.*)")
_ALONE = re.compile(r"argument (\S+): expected one argument")


def humanize_parser_error(message: str, options: Sequence[str], commands: Sequence[str]) -> str:
    """A message of jsonargparse in one line, with what was probably meant."""
    if found := _UNKNOWN.search(message):
        word = found[1].partition("=")[0]
        if not word.startswith("-"):
            return f"unexpected argument {word!r}"
        return f"no option {word}{suggestion(word, options)}"
    if found := _CHOICE.search(message):
        return f"no command {found[2]!r}" + suggestion(found[2], commands)
    if found := _NOT_ACCEPTED.search(message):
        key = f"{found['group']}.{found['key']}" if found["group"] else found["key"]
        return f"no setting {key!r}" + suggestion(key, [option.removeprefix("--") for option in options])
    if found := _ALONE.search(message):
        return f"{found[1]} needs a value"
    if found := _REQUIRED.search(message):
        keys = found[1].split(", ")
        return "wanted: " + ", ".join(
            f"--{key}" if f"--{key}" in options else key.rpartition(".")[2].upper() for key in keys
        )
    if "to be one of" in message and "was not provided" in message:
        return f"say which command: {', '.join(commands)}"
    found = _KEY.search(message)
    return f"--{found['key']}: {_value(found['rest'])}" if found else " ".join(message.split())


def suggestion(name: str, choices: Iterable[str]) -> str:
    """` (did you mean …?)`, or nothing where no choice is near; `--rat` is near to `--trainer.rat` too.

    Hyphens at the start are left out of it: all options have them.
    """
    bare, known = name.lstrip("-"), sorted(choices, reverse=True)
    whole = {each.lstrip("-"): each for each in known}
    last = {each.rpartition(".")[2]: whole[each] for each in whole}
    near = bare if bare in last else nearest(bare, last | whole)
    return f" (did you mean {(last | whole)[near]}?)" if near else ""


def _value(rest: str) -> str:
    expected = [match[1] for match in _EXPECTED.finditer(rest)]
    got = re.search(r"(?:Got value|Given value): (.*)", rest)
    if not expected or got is None:
        return " ".join(rest.split())
    choices = [word for each in expected for word in re.findall(r"'([^']*)'", each) if "Literal" in each]
    wanted = " or ".join(choices or [_type_name(each) for each in dict.fromkeys(expected)])
    return f"expected {wanted}, got {got[1]!r}" + suggestion(got[1], choices)


def _type_name(text: str) -> str:
    name = re.sub(r"<class '(.*?)'>", r"\1", text).strip()
    return {"NoneType": "null", "dict": "a mapping", "list": "a list", "bool": "true or false"}.get(name, name)
