"""Looks into data and trained models.

python -m analysis leaks --all                          what training sets share with evaluation sets
python -m analysis leaks --train atec --evaluate afqmc
python -m analysis leaks --text corpus.txt.zst wiki1m   lines of running text that hold evaluation sentences
python -m analysis leaks --run runs/NAME                the same for the very text that a run has learnt from
python -m analysis calibrate runs/NAME                  scores as probabilities: temperature and Platt scaling, ECE
python -m analysis fuse runs/ONE runs/OTHER             two runs as one score, weighted by what does best on dev
python -m analysis curves runs/ONE runs/OTHER           learning curves side by side, a picture and a table
python -m analysis transfer runs/NAME mrpc snli         what a classifier on frozen embeddings reaches
python -m analysis space runs/NAME --dataset csts       where embeddings lie: lengths, spread, directions, neighbours
"""

import argparse
import sys

from juzhen.cli.arguments import Parser
from juzhen.cli.program import run_program
from juzhen.core.caches import caches_below, default_cache
from juzhen.core.errors import exit_status


def main(arguments: list[str]) -> int:
    """Runs one command; the exit status: 0, or 2 for a mistake of the user."""

    def run() -> None:
        options = _parser().parse_args(arguments)
        caches_below(default_cache())
        options.run(options)

    return exit_status(run)


def _parser() -> argparse.ArgumentParser:
    from juzhen.cli.calibrate import add_calibrate
    from juzhen.cli.curves import add_curves
    from juzhen.cli.fuse import add_fuse
    from juzhen.cli.leaks import add_leaks
    from juzhen.cli.space import add_space
    from juzhen.cli.transfer import add_transfer

    parser = Parser(
        prog="python -m analysis", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    add_leaks(commands)
    add_calibrate(commands)
    add_curves(commands)
    add_fuse(commands)
    add_transfer(commands)
    add_space(commands)
    return parser


if __name__ == "__main__":
    sys.exit(run_program(lambda: main(sys.argv[1:])))
