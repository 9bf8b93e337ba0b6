"""`juzhen archive`: the results of runs alone, to publish or to keep."""

from pathlib import Path

from juzhen.cli.arguments import VerbParser
from juzhen.cli.table import tell


def parser() -> VerbParser:
    parser = VerbParser(
        "archive", "Copies the results of runs, without weights, logs and folders of this machine."
    )
    parser.add_argument("folder", type=Path, help="folder that holds runs, at any depth")
    parser.add_argument("target", type=Path, help="folder that they are written to")
    return parser


def run(folder: Path, target: Path) -> None:
    """Copies every result below `folder`; one that cannot be read is named and left out."""
    from juzhen.report.collect import export

    print(f"{target}: {export(folder, target, report=tell)} results")
