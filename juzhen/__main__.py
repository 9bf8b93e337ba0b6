"""Run the command line: `python -m juzhen` equals `juzhen`."""

import sys


def run() -> int:
    """Load and run the command line, and return its exit status. Ctrl-C while it is loaded gives 130, too."""
    try:
        from juzhen.cli.main import main
    except KeyboardInterrupt:
        from juzhen.core.errors import INTERRUPTED, INTERRUPTED_STATUS

        print(INTERRUPTED, file=sys.stderr)
        return INTERRUPTED_STATUS
    return main()


if __name__ == "__main__":
    sys.exit(run())
