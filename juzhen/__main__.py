"""Run the command line: `python -m juzhen` equals `juzhen`."""

import sys


def run() -> int:
    """Load and run the command line, and return its exit status. Ctrl-C and SIGTERM while it is loaded, too."""
    try:
        from juzhen.cli.program import obey_sigterm, status_of
    except KeyboardInterrupt:
        from juzhen.core.errors import INTERRUPTED, INTERRUPTED_STATUS

        print(INTERRUPTED, file=sys.stderr)
        return INTERRUPTED_STATUS
    obey_sigterm()
    return status_of(_loaded)


def _loaded() -> int:
    from juzhen.cli.main import main

    return main()


if __name__ == "__main__":
    sys.exit(run())
