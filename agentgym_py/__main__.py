"""`python -m agentgym_py` is `agentgym`; launchers of several processes want a module."""

import sys

from agentgym_py import distributed
from agentgym_py.cli import main

if __name__ == "__main__":
    try:
        sys.exit(main())
    except SystemExit as stop:
        distributed.exit_process(stop.code)
        raise
