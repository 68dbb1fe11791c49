"""`agentgym view`: view trajectories in the browser."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentgym_py.cli.agent_options import ModelOptions
from agentgym_py.cli.env_options import add_own_envs, register_own_envs
from agentgym_py.cli.parser import Parser, Values, read_options
from agentgym_py.cli.runtime import new_file, prepare_torch
from agentgym_py.cli.saved_settings import world_advice
from agentgym_py.cli.server_options import LOOPBACK, listen, require_port, require_server, serve
from agentgym_py.errors import ConfigError, DataError, setting
from agentgym_py.files import write_atomic

if TYPE_CHECKING:
    from agentgym_py.policy import Policy
    from agentgym_py.trajectory import Trajectory
    from agentgym_py.viewer.index import Index
    from agentgym_py.viewer.source import Source


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """The viewer."""

    port: int = 0
    """Port on this machine; 0 chooses a free one."""
    browser: bool = False
    """Open the viewer in the browser of this machine."""
    export: str | None = None
    """Write one HTML file that shows the episodes offline, instead of serving them."""
    limit: int = 200
    """Number of episodes in the file of --export, in the order of the stores."""
    judged: str | None = None
    """Write the judged episodes to a store for `train`, with the verdicts as reward and success."""

    def __post_init__(self) -> None:
        require_port(self.port)
        if self.limit < 1:
            raise ConfigError(f"limit must be at least 1, got {self.limit}")
        if self.export and self.judged:
            raise ConfigError("export and judged cannot be combined; give one of them")


def options(parser: Parser) -> None:
    """Add the options of `view`."""
    parser.add_positional("path", "The folder of a run or an evaluation, or stores (.jsonl) of one folder.", item=str)
    parser.add_dataclass(ViewOptions)
    add_own_envs(parser)


def run(args: Values) -> int:
    """Serve until Ctrl-C or SIGTERM, or write a file."""
    from agentgym_py.viewer.index import Index
    from agentgym_py.viewer.source import Source

    chosen = read_options(ViewOptions, args)
    register_own_envs(args)
    source = Source.from_paths(args["path"])
    if chosen.judged:
        return _write_judged(source, chosen.judged)
    if not chosen.export:
        require_server("the viewer", "view")
    with closing(Index(source)) as index:
        if chosen.export:
            return _export(index, chosen.export, chosen.limit)
        return _serve(index, chosen, world_advice("view", args, args["path"][0]) or setting("env", "FILE.py"))


def _serve(index: Index, chosen: ViewOptions, advice: str) -> int:
    import webbrowser

    from agentgym_py.viewer.server import Viewer, app_of

    token = secrets.token_urlsafe(24)
    with listen(LOOPBACK, chosen.port) as server_socket:
        address = f"http://{LOOPBACK}:{server_socket.getsockname()[1]}/#token={token}"
        print(f"{address}\nPress Ctrl-C to stop.", flush=True)
        if chosen.browser:
            webbrowser.open(address)
        status = serve(app_of(Viewer(index, _load, advice), token), server_socket)
    print("\nstopped; judgements and continued episodes are kept", file=sys.stderr)
    return status


def _load(model: str) -> Policy:
    prepare_torch(model)
    return ModelOptions(model=model).load(0)


def _export(index: Index, target: str, limit: int) -> int:
    from agentgym_py.viewer.show import TokenTexts, export_page

    with new_file(target, "the page") as path:
        index.update()
        total, rows = index.find(limit=limit)
        note = f"the first {len(rows)} of {total} episodes" if len(rows) < total else ""
        episodes = list(_readable(index, rows))
        page = export_page(index.source.root.name, episodes, TokenTexts(index.source.root), note)
        write_atomic(path, page)
    broken = [*index.broken(), *rows[len(episodes) :]]
    print(
        f"{target}: {note or f'{total} episodes'}"
        + f" ({setting('limit', total)} exports all)" * bool(note)
        + f"; {len(broken)} broken line{'s' * (len(broken) > 1)} left out" * bool(broken)
    )
    return 0


def _readable(index: Index, rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], Trajectory]]:
    """Yield the episodes of index rows, without those that their file no longer holds."""
    for row in rows:
        with suppress(DataError, OSError):
            yield row, index.read(row["n"])


def _write_judged(source: Source, target: str) -> int:
    from agentgym_py.feedback.verdicts import judged
    from agentgym_py.trajectory import store

    trajectories = judged(source.root, [path.name for path in source.stores])
    if not trajectories:
        named = ", ".join(map(str, source.stores)) or source.root
        raise DataError(f"{named}: no judged episode; judge some with agentgym view first")
    with new_file(target, "the store") as file:
        count = store.write(file, trajectories)
    print(f"{target}: {count} judged episode{'s' * (count > 1)}")
    return 0
