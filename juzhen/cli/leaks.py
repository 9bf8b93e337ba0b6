"""`juzhen leaks`: the audit of what training sets share with evaluation sets."""

import sys
from pathlib import Path
from typing import Annotated

from typer import Option

from juzhen.cli.options import ConfigDir, DataDir, data_folder
from juzhen.core.errors import UserError
from juzhen.core.paths import DATASETS


def leaks(
    *,
    train: Annotated[list[str] | None, Option(metavar="SET…", help="training sets to look at")] = None,
    all: Annotated[bool, Option("--all", help="every training set that has a file")] = False,
    text: Annotated[
        list[str] | None, Option(metavar="FILE|SET…", help="running text: .txt, .txt.zst, .txt.gz")
    ] = None,
    run: Annotated[
        str | None, Option(metavar="FOLDER", help="the very text that a run has learnt from")
    ] = None,
    evaluate: Annotated[
        list[str] | None,
        Option(metavar="SET…", help="evaluation sets", show_default="every dev and test split"),
    ] = None,
    data_dir: DataDir = None,
    config_dir: ConfigDir = None,
    output: Annotated[Path, Option(metavar="FOLDER", help="where to write")] = Path("runs/leaks"),
    threshold: Annotated[
        float | None, Option(help="Jaccard index of near duplicates, at most 1", show_default="0.7")
    ] = None,
    counts: Annotated[bool, Option("--counts", help="leave row numbers out of the json file")] = False,
    examples: Annotated[int, Option(min=0, help="also quote N rows for each pair of sets")] = 0,
    no_progress: Annotated[bool, Option("--no-progress", help="no progress bars")] = False,
) -> None:
    """Which rows of dev and test splits are in training sets: the same pair, near duplicates, single sentences.

    It also tells where the labels differ. With --text and --run: which lines of running text hold evaluation sentences.
    One of --train, --all, --text and --run says what is looked at. A set is named as in conf/dataset, or with a split,
    such as csts/dev. Written are pairs.json and pairs.md, with --text and --run text.json and text.md; no file holds a
    sentence unless --examples asks for some.

    juzhen leaks --all
    juzhen leaks --train lcqmc afqmc --evaluate csts/test --examples 3
    juzhen leaks --text corpus.txt.zst
    """
    sources_given = [
        name for name, value in {"train": train, "all": all, "text": text, "run": run}.items() if value
    ]
    if len(sources_given) != 1:
        flags = " and ".join(f"--{name}" for name in sources_given) or "nothing"
        raise UserError(f"say what to look at with one of --train, --all, --text, --run; given: {flags}")
    if threshold is not None and not 0 < threshold <= 1:
        raise UserError(
            f"--threshold {threshold:g}: expected more than 0 and at most 1, such as 0.7 (1: the same letters)"
        )
    if threshold is not None and (text or run):
        raise UserError(
            "--threshold: running text is searched for whole sentences; leave it out with --text and --run"
        )
    if data_dir and not data_dir.is_dir():
        raise UserError(f"--data-dir {data_dir}: no such folder; expected the one that holds lcqmc, atec, …")
    from juzhen.data.leaks import audit as written
    from juzhen.data.leaks.audit import Detail, audit_pairs, audit_text
    from juzhen.data.rows import ConfiguredSets, read_lines

    sets = ConfiguredSets(DATASETS, data_folder(data_dir), config_dir=config_dir)
    detail = Detail(counts, examples, progress=not no_progress)
    if text or run:
        if run:
            from juzhen.evaluation.saved_run import texts_of_run

            sources = texts_of_run(run, data_dir=data_dir)
        else:
            sources = {name: read_lines(name, sets) for name in text or ()}
        report = audit_text(sources, sets.evaluation(evaluate), detail=detail)
        name, markdown = "text", written.text_markdown(report)
    else:
        pair = sets.training(train), sets.evaluation(evaluate)
        report = audit_pairs(*pair, sets.absent, threshold=threshold, detail=detail)
        name, markdown = "pairs", written.pairs_markdown(report)
    paths = written.write_report(report, markdown, output, name)
    print(markdown)
    print(f"written to {' and '.join(map(str, paths))}", file=sys.stderr)
