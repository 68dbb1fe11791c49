"""The start of the command `agentgym`: from here on Ctrl-C and SIGTERM end it with one line.

Importing the command takes a quarter of a second. A signal within that time would show the traceback of an import, so
this module imports nothing before it has set its handlers. The command then sets its own, and these come back at its
end. Python's own end is skipped: there a signal is lost, and threads that are in a request or a world are waited for.
"""

import atexit
import os
import signal
import sys
from contextlib import suppress
from types import FrameType

_DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


def main() -> None:
    """Run the command line and end the process with its exit status."""
    for number, default in _DEFAULTS.items():
        if signal.getsignal(number) is default:
            signal.signal(number, _end)
    from agentgym_py.cli import main as command

    status = command()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(status)


def _end(number: int, _: FrameType | None) -> None:
    """End the process at once: the command has not begun, or has ended."""
    os.write(2, b"\nagentgym: interrupted\n")
    os._exit(128 + number)
