"""Makes data sets with trained models, and models out of models.

python -m mining distil runs/CE lcqmc --out distilled/lcqmc_graded.tsv   a cross-encoder's scores as graded labels
python -m mining distil fusion-lcqmc.json lcqmc --out distilled/fused.tsv the same of two runs that analysis fuse weighs
python -m mining whiten runs/TOKENS whitened --dataset text_tatoeba      token embeddings, whitened in part
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
    from juzhen.cli.distil import add_distil
    from juzhen.cli.whiten import add_whiten

    parser = Parser(
        prog="python -m mining", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    add_distil(commands)
    add_whiten(commands)
    return parser


if __name__ == "__main__":
    sys.exit(run_program(lambda: main(sys.argv[1:])))
