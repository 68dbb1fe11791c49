"""What a file may make a command do: only what its user has named.

A config, run folder, manifest, pipeline or trajectory may come from a stranger. The command line contacts a server,
fetches a model, runs Python source, reads a path of a trajectory or writes outside the current folder only if the user
named it: in an option, with `--trust NAME`, or in an environment variable. In Python nothing is restricted, because the
program names what it uses.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from shlex import quote
from typing import Any
from urllib.parse import urlsplit

from agentgym_py.errors import ConfigError

_URL = re.compile(r"https?://[^\s\"',]+", re.IGNORECASE)
_VARIABLES = ("AGENTGYM_URL", "OPENAI_BASE_URL", "AGENTGYM_ENVS")
"""Environment variables whose hosts and sources count as named."""
_OF_FILES = (
    "config", "data", "evals", "export", "feedback", "few_shot", "index", "judged", "manifest", "out", "record",
    "report", "resume", "until_decided",
)  # fmt: skip
"""Options whose value is a file or folder, which may come from a stranger, name and all."""
_OF_SOURCES = (
    "agent", "agent_kwargs", "coreset", "critic", "curriculum", "env", "env_kwargs", "estimators", "judge", "reference",
    "reflection", "reward", "reward_kwargs", "set", "source", "trainer",
)  # fmt: skip
"""Options whose value may be Python source."""
_TAKE_SOURCES = ("certify", "check", "envs", "play", "prove", "trainers")
"""Commands whose positional argument may be Python source."""
_WITH_SUBCOMMANDS = ("agents", "data", "envs", "tools", "trainers")
"""Commands whose first positional argument is the name of a subcommand."""
_MODULE = re.compile(r"([A-Za-z_][\w.]*):[A-Za-z_]\w*")
_SOURCES = (".py", "/__init__.py")
_words: tuple[str, ...] | None = None
"""What the user typed; None without a command line. Global, because threads contact servers, too."""
_trusted: tuple[str, ...] = ()
"""Values of --trust and of the environment variables."""
_allowed: tuple[str, ...] = ()
"""Paths of the command's own settings, which its trajectories name, too."""
_offline = False


@contextmanager
def naming(words: Sequence[str]) -> Iterator[None]:
    """Restrict the commands within to what these words of a command line, and the environment variables, name."""
    global _words, _trusted, _allowed
    before, variables = (_words, _trusted, _allowed), [os.environ.get(name, "") for name in _VARIABLES]
    _words = (*(_words or ()), *words, *variables)
    _trusted = (*_trusted, *(value for name, value in _values(words) if name == "trust"), *variables)
    try:
        yield
    finally:
        _words, _trusted, _allowed = before


@contextmanager
def offline() -> Iterator[None]:
    """Contact no server at all."""
    global _offline
    before, _offline = _offline, True
    try:
        yield
    finally:
        _offline = before


def is_offline() -> bool:
    """Return whether no server may be contacted."""
    return _offline


def named() -> list[str]:
    """Return the values of `--trust` on the command line."""
    variables = [os.environ.get(name, "") for name in _VARIABLES]
    return [value for value in dict.fromkeys(_trusted) if value not in variables]


def options(places: Sequence[str]) -> str:
    """Return the options of a command line that trust these places, each after a blank."""
    return "".join(f" --trust {quote(place)}" for place in places)


def places(settings: Mapping[str, Any], files: Iterable[str]) -> list[str]:
    """Return what a command that reads these settings from a file must trust: its source files, modules and servers.

    A module of the settings counts if one of the files is its source.
    """
    known, text = list(files), json.dumps(settings, default=str, ensure_ascii=False)
    endings = [(name, name.replace(".", "/")) for name in _MODULE.findall(text)]
    modules = [name for name, path in endings if any(f"/{path}{end}" in file for file in known for end in _SOURCES)]
    hosts = [name for url in _URL.findall(text) if (name := host(url)) and not is_loopback(name)]
    return list(dict.fromkeys([*known, *modules, *hosts]))


def require_host(url: str) -> None:
    """Raise ConfigError if the address comes from a file; this machine may always be contacted.

    The request would send the user's token or key, and what the user plays, to whoever wrote the file.
    """
    name = host(url)
    if _words is None or (name is not None and is_loopback(name)):
        return
    if name not in {host(found) for word in _words for found in _URL.findall(word)} | set(_parts(_trusted)):
        raise ConfigError(f"{url} comes from a file and would be contacted; if you trust it, add --trust {name}")


def is_named(name: str) -> bool:
    """Return whether the user, and not only a file, names a model or repository of the hub."""
    if _words is None or name in _parts(_trusted):
        return True
    options = {option for option, value in _values(_words) if name in _parts([value])}
    if options & {"model", "push"}:
        return True
    others = options - {*_OF_FILES, *(() if "/" in name else ("",))}
    return bool(others) and not Path(name).exists()  # `--list lab/p.yaml` names a file


def require_upload(repository: str) -> None:
    """Raise ConfigError if only a file names a repository of the hub that would receive the user's model."""
    if not (is_named(repository) or _offline):
        raise ConfigError(
            f"{repository} comes from a file and would receive your model; if you trust it, add --trust {repository}"
        )


def require_online(url: str) -> None:
    """Raise ConfigError within `offline`."""
    if _offline:
        raise ConfigError(f"{url} would be contacted, but this command contacts no server")


def require_source(place: str) -> None:
    """Raise ConfigError if a Python file, or a module by its dotted name, is named by a file only."""
    if _words is None:
        return
    if place.endswith(".py"):
        files = (part.partition(":")[0] for part in _sources())
        named = any(part.endswith(".py") and _absolute(part) == _absolute(place) for part in files)
    else:
        named = place in [*_modules(), *_parts(_trusted)]
    if not named:
        raise ConfigError(f"{place} is Python source that a file names; if you trust it, add --trust {place}")


def require_source_file(path: str) -> None:
    """Raise ConfigError as `require_source`; the user may also have named the module whose file it is."""
    modules = [*_modules(), *_parts(_trusted)]
    endings = [f"/{name.replace('.', '/')}{end}" for name in modules if name for end in _SOURCES]
    if not any(Path(path).as_posix().endswith(end) for end in endings):
        require_source(path)


def require_path(path: object, where: str) -> None:
    """Raise ConfigError if a trajectory names a path that the user has not named."""
    if _words is not None and _absolute(str(path)) not in map(_absolute, [*_places(), *_allowed]):
        raise ConfigError(f"{where}: a path that comes from a file; if you trust it, add --trust {path}")


def require_output(path: str) -> None:
    """Raise ConfigError if only a file names a place outside the current folder that a command would write to."""
    if not is_place_named(path):
        raise ConfigError(
            f"{path} comes from a file and would be written outside this folder; if you trust it, add --trust {path}"
        )


def is_place_named(path: str) -> bool:
    """Return whether a path is within the current folder, or the user named it."""
    if _words is None or _absolute(path) in map(_absolute, _places()):
        return True
    return Path(path).resolve().is_relative_to(Path.cwd().resolve())


def allow(path: str) -> None:
    """Let trajectories name a path of the command's own settings."""
    global _allowed
    _allowed = (*_allowed, path)


def _modules() -> Iterator[str]:
    """Yield the modules that the user typed as `module:Class`; a file or folder may be called so, too."""
    for part in _sources():
        if (found := _MODULE.fullmatch(part)) and not Path(part).exists():
            yield found[1]


def _sources() -> list[str]:
    """Return what the user may have named as Python source; no file that a command reads is, whatever its name."""
    values = _arguments(_words or ())
    may_be_source = [*_OF_SOURCES]
    if _command(_words or ()) in _TAKE_SOURCES:
        may_be_source += {option for option, _ in values} - {*_OF_FILES}  # `--json my.py` is a flag and a world
    return _parts([*(value for option, value in values if option in may_be_source), *_trusted])


def _places() -> list[str]:
    """Return what the user may have named as a path; the names of files are not split."""
    values = _arguments(_words or ())
    split = _parts([value for option, value in values if option and option not in _OF_FILES])
    return [*split, *(value for option, value in values if not option or option in _OF_FILES), *_trusted]


def _command(words: Sequence[str]) -> str:
    """Return the name of the command in the words of a command line."""
    return next((value for option, value in _values(words) if not option), "")


def _arguments(words: Sequence[str]) -> list[tuple[str, str]]:
    """Return the `_values` without the names of the command and of its subcommand."""
    values = list(_values(words))
    for _ in range(2 if _command(words) in _WITH_SUBCOMMANDS else 1):
        if name := next((pair for pair in values if not pair[0]), None):
            values.remove(name)
    return values


def _values(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each value with the option before it: its first name without dashes, empty for a positional one."""
    option = ""
    for word in words:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            option = name.partition(".")[0].replace("-", "_")
            if not equals:
                continue
        else:
            value, equals = word, ""
        yield option, value
        if equals or option in ("trust", *_OF_FILES):  # they take one value
            option = ""


def _parts(words: Sequence[str]) -> list[str]:
    """Return the values within the words: `--env=a.py,b.py` and `--reward=a.py+0.5*b.py` have two."""
    parts = [part.strip() for word in words for part in re.split("[=,;+*]", word)]
    return [*filter(None, parts), *words]


def _absolute(path: str) -> str:
    return os.path.normpath(Path(path).absolute())


def host(url: str) -> str | None:
    """Return the host of an address; None if it has none."""
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def is_loopback(name: str) -> bool:
    """Return whether a host is this machine: `localhost`, or an address such as 127.0.0.2 or ::1."""
    name = name.rstrip(".").lower()
    try:
        address = ip_address(name)
    except ValueError:
        return name == "localhost"
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
