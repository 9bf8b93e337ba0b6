"""Makes data sets with trained models.

python -m mining distil runs/CE lcqmc --out distilled/lcqmc_graded.tsv   a cross-encoder's scores as graded labels
"""

import argparse
import sys

from schema.errors import UserError


def main(arguments: list[str]) -> int:
    """Runs one command; the exit status: 0, or 2 for a mistake of the user."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    from mining.distil_command import add_distil

    parser = argparse.ArgumentParser(
        prog="python -m mining", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    add_distil(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
