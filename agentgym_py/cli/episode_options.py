"""The options of stored episodes that a command reads: `--data FILE --format NAME`."""

from __future__ import annotations

from agentgym_py.cli.parser import Parser, UsageError, Values
from agentgym_py.cli.runtime import read_trajectories
from agentgym_py.trajectory import Trajectory


def add_episode_options(parser: Parser, group: str) -> None:
    """Add the options to a group of the help."""
    parser.add(
        "data", default=[], item=str, metavar="FILE", group=group,
        help="Trajectories (required), in any format of docs/reference/formats.md, or the folder of a run for those of "
        "its rounds; repeated, or with commas.",
    )  # fmt: skip
    parser.add(
        "format", str | None, group=group, basic=False,
        help="Format of the --data files, if their content does not tell; docs/reference/formats.md.",
    )  # fmt: skip


def require_episode_files(args: Values, purpose: str) -> list[str]:
    """Return the files, those of a run's rounds in place of its folder; they are `args["data"]` from here on.

    Raises:
        UsageError: there are none, or one of them twice.
    """
    from agentgym_py.trajectory.reading import episode_files

    files = args["data"] = [file for name in args["data"] for file in episode_files(name)]
    if not files:
        raise UsageError(f"--data FILE is needed: trajectories to {purpose}")
    if twice := next((file for number, file in enumerate(files) if file in files[:number]), None):
        raise UsageError(f"--data has {twice} twice; remove one")
    return files


def read_episodes(args: Values) -> list[Trajectory]:
    """Read the episodes of all files."""
    return [trajectory for file in args["data"] for trajectory in read_trajectories(file, args["format"])]
