"""`juzhen leaks`: the audit of what training sets share with evaluation sets."""

import sys
from collections.abc import Sequence
from pathlib import Path

from juzhen.cli.arguments import VerbParser, data_folder
from juzhen.core.errors import UserError
from juzhen.core.places import DATASETS


def parser() -> VerbParser:
    parser = VerbParser(
        "leaks",
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
    parser.add_data_dir()
    parser.add_config_dir()
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="default: runs/leaks")
    parser.add_number("--threshold", "Jaccard index of near duplicates (default: 0.7)", example=0.7)
    parser.add_argument("--counts", action="store_true", help="leave row numbers out of the json file")
    about, expected = "also quote N rows per cell", "a number of rows, such as 3"
    parser.add_count("--examples", about, least=0, expected=expected, metavar="N")
    parser.add_argument("--no-progress", action="store_true", help="no progress bars")
    return parser


def run(
    *,
    train: Sequence[str] | None = None,
    all: bool = False,
    text: Sequence[str] = (),
    run_folder: str | Path | None = None,
    evaluate: Sequence[str] | None = None,
    data_dir: Path | None = None,
    config_dir: Path | None = None,
    output: Path = Path("runs/leaks"),
    threshold: float | None = None,
    counts: bool = False,
    examples: int = 0,
    no_progress: bool = False,
) -> None:
    """Reads, compares, writes two files and prints the second of them. One of the first four says what is looked at."""
    # Here, because --help should not wait for numpy and scipy.
    from juzhen.data.audit.pairs import Detail
    from juzhen.data.audit.report import write_report
    from juzhen.data.audit.sources import ConfiguredSets

    _check(threshold, of_text=bool(text or run_folder))
    if data_dir and not data_dir.is_dir():
        raise UserError(f"--data-dir {data_dir}: no such folder; expected the one that holds lcqmc, atec, …")
    sets = ConfiguredSets(DATASETS, data_folder(data_dir), config_dir=config_dir)
    detail = Detail(counts, examples, progress=not no_progress)
    if text or run_folder:
        from juzhen.data.audit.report import text_markdown
        from juzhen.data.audit.sources import read_lines
        from juzhen.data.audit.text import audit_text
        from juzhen.evaluation.trained_rows import texts_of_run

        if run_folder:
            sources = texts_of_run(run_folder, data_dir=data_dir)
        else:
            sources = {name: read_lines(name, sets) for name in text}
        report = audit_text(sources, sets.evaluation(evaluate), detail=detail)
        name, markdown = "text", text_markdown(report)
    else:
        from juzhen.data.audit.pairs import audit_pairs
        from juzhen.data.audit.report import pairs_markdown

        both = sets.training(train), sets.evaluation(evaluate)
        report = audit_pairs(*both, sets.absent, threshold=threshold, detail=detail)
        name, markdown = "pairs", pairs_markdown(report)
    written = write_report(report, markdown, output, name)
    print(markdown)
    print(f"written to {' and '.join(map(str, written))}", file=sys.stderr)


def _check(threshold: float | None, *, of_text: bool) -> None:
    """Raises UserError for a threshold outside of its range, and for one that nothing reads."""
    if threshold is not None and not 0 < threshold <= 1:
        raise UserError(
            f"--threshold {threshold:g}: expected more than 0 and at most 1, such as 0.7 (1: the same letters)"
        )
    if threshold is not None and of_text:
        raise UserError(
            "--threshold: running text is searched for whole sentences; leave it out with --text and --run"
        )
