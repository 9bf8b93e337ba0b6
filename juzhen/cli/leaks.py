"""The command line of the audit: `python -m analysis leaks`."""

import argparse
import os
import sys
from pathlib import Path

from juzhen.cli.arguments import add_data_dir
from juzhen.core.errors import UserError
from juzhen.core.numerals import finite_number, whole_number

CONFIGURATION = Path(__file__).resolve().parents[2] / "conf"


def add_leaks(commands: "argparse._SubParsersAction") -> None:
    """Adds the command `leaks` to a program."""
    parser = commands.add_parser(
        "leaks",
        help="evaluation rows that training sets or running text give away",
        description="Which rows of dev and test splits are in training sets: the same pair, near duplicates, single "
        "sentences, other labels. With --text and --run: which lines of running text hold evaluation sentences.",
        epilog="A set is named as in conf/dataset, or with a split, such as csts/dev. Written are pairs.json and "
        "pairs.md, with --text and --run text.json and text.md; no file holds a sentence unless --examples asks for "
        "some.",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--train", nargs="+", metavar="SET", help="training sets to look at")
    what.add_argument("--all", action="store_true", help="every training set that has a file")
    what.add_argument("--text", nargs="+", metavar="FILE|SET", help="running text: .txt, .txt.zst, .txt.gz")
    what.add_argument(
        "--run", dest="run_folder", metavar="FOLDER", help="the very text that a run has learnt from"
    )
    parser.add_argument("--evaluate", nargs="+", metavar="SET", help="default: every dev and test split")
    add_data_dir(parser)
    parser.add_argument("--output", type=Path, metavar="FOLDER", default=Path("runs/leaks"))
    parser.add_argument(
        "--threshold",
        type=finite_number("--threshold", example=0.7),
        help="Jaccard index of near duplicates (default: 0.7)",
    )
    parser.add_argument("--counts", action="store_true", help="leave row numbers out of the json file")
    parser.add_argument(
        "--examples",
        type=whole_number("--examples", least=0, expected="a number of rows, such as 3"),
        default=0,
        metavar="N",
        help="also quote N rows per cell",
    )
    parser.add_argument("--no-progress", action="store_true", help="no progress bars")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Reads, compares, writes two files and prints the second of them."""
    # Here, because --help should not wait for numpy and scipy.
    from juzhen.data.audit.sources import ConfiguredSets, learnt_texts, read_lines
    from juzhen.data.audit.write import write_report

    _check(options)
    if options.data_dir and not options.data_dir.is_dir():
        raise UserError(
            f"--data-dir {options.data_dir}: no such folder; expected the one that holds lcqmc, atec, …"
        )
    data_dir = options.data_dir or Path(os.environ.get("JUZHEN_DATA", "data"))
    sets = ConfiguredSets(CONFIGURATION / "dataset", data_dir)
    if options.text or options.run_folder:
        from juzhen.data.audit.markdown import text_markdown
        from juzhen.data.audit.text import audit_text

        if options.run_folder:
            sources = learnt_texts(options.run_folder, data_dir=options.data_dir)
        else:
            sources = {name: read_lines(name, sets) for name in options.text}
        report = audit_text(sources, sets.evaluation(options.evaluate), options=options)
        name, markdown = "text", text_markdown(report)
    else:
        from juzhen.data.audit.markdown import pairs_markdown
        from juzhen.data.audit.pairs import audit_pairs

        train, evaluation = sets.training(options.train), sets.evaluation(options.evaluate)
        report = audit_pairs(train, evaluation, sets.absent, options=options)
        name, markdown = "pairs", pairs_markdown(report)
    written = write_report(report, markdown, options.output, name)
    print(markdown)
    print(f"written to {' and '.join(map(str, written))}", file=sys.stderr)


def _check(options: argparse.Namespace) -> None:
    """Raises UserError for numbers outside of their range."""
    if options.threshold is not None and not 0 < options.threshold <= 1:
        raise UserError(
            f"--threshold {options.threshold:g}: expected more than 0 and at most 1, such as 0.7 (1: the same letters)"
        )
    if options.threshold is not None and (options.text or options.run_folder):
        raise UserError(
            "--threshold: running text is searched for whole sentences; leave it out with --text and --run"
        )
