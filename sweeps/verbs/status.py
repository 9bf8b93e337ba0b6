"""`juzhen status`: how far the sweeps of a folder are, and which cells failed."""

from pathlib import Path

from juzhen.cli.arguments import VerbParser


def parser() -> VerbParser:
    parser = VerbParser(
        "status", "How far the sweeps of a folder are, which cells failed, and the time left."
    )
    parser.add_argument("folder", type=Path, help="folder that holds runs, at any depth")
    return parser


def run(folder: Path) -> None:
    """Prints a line for each state of the cells."""
    from juzhen.report.terminal import terminal
    from sweeps.status import read_status, to_console

    terminal().print(to_console(read_status(folder)), highlight=False)
