"""`juzhen leaks`: the audit of rows shared by training and evaluation sets."""

import sys
from pathlib import Path
from typing import Annotated

from typer import Option

from juzhen.cli.options import ConfigDir, DataDir, data_folder
from juzhen.core.errors import UserError
from juzhen.core.file_guard import check_overwritable
from juzhen.core.paths import DATASETS, is_table

MOST_ABSENT = 6
"""Splits without a file that are printed. The files list all of them."""


def leaks(
    *,
    train: Annotated[list[str] | None, Option(metavar="SET…", help="training sets to audit")] = None,
    all: Annotated[bool, Option("--all", help="audit every training set that has a file")] = False,
    text: Annotated[
        list[str] | None, Option(metavar="FILE|SET…", help="running text to audit: .txt, .txt.zst, .txt.gz")
    ] = None,
    run: Annotated[
        str | None, Option(metavar="FOLDER", help="audit the text that a run was trained on")
    ] = None,
    evaluate: Annotated[
        list[str] | None,
        Option(metavar="SET…", help="evaluation sets", show_default="every dev and test split"),
    ] = None,
    data_dir: DataDir = None,
    config_dir: ConfigDir = None,
    output: Annotated[Path, Option(metavar="FOLDER", help="where to write")] = Path("runs/leaks"),
    threshold: Annotated[
        float | None, Option(help="lowest Jaccard index of near duplicates, at most 1", show_default="0.7")
    ] = None,
    counts: Annotated[bool, Option("--counts", help="omit row numbers from the json file")] = False,
    examples: Annotated[int, Option(min=0, help="quote N rows for each pair of sets")] = 0,
    no_progress: Annotated[bool, Option("--no-progress", help="hide progress bars")] = False,
) -> None:
    """Finds rows of dev and test splits in training sets: equal pairs, near duplicates, single sentences.

    It also reports different labels. --text and --run find lines of running text that contain evaluation sentences.
    Give one of --train, --all, --text and --run. Name a set as in conf/dataset, or with a split, such as csts/dev. The
    verb writes pairs.json and pairs.md, or text.json and text.md for running text. The files quote sentences only with
    --examples.

    juzhen leaks --all
    juzhen leaks --train lcqmc afqmc --evaluate csts/test --examples 3
    juzhen leaks --text corpus.txt.zst
    """
    sources_given = [
        name for name, value in {"train": train, "all": all, "text": text, "run": run}.items() if value
    ]
    if len(sources_given) != 1:
        flags = " and ".join(f"--{name}" for name in sources_given) or "nothing"
        raise UserError(f"what to audit is unclear, given {flags}. Give one of --train, --all, --text, --run")
    if threshold is not None and not 0 < threshold <= 1:
        raise UserError(
            f"--threshold {threshold:g}: not above 0 and at most 1. Give one such as 0.7 (1: equal letters)"
        )
    if threshold is not None and (text or run):
        raise UserError(
            "--threshold: running text is searched for whole sentences. Leave it out with --text and --run"
        )
    folder = data_folder(data_dir)
    from juzhen.data.leaks import audit as written
    from juzhen.data.leaks.audit import Detail, audit_pairs, audit_text
    from juzhen.data.rows import ConfiguredSets, read_lines

    name = "text" if text or run else "pairs"
    check_overwritable(output / f"{name}.json", output / f"{name}.md")
    sets = ConfiguredSets(DATASETS, folder, config_dir=config_dir)
    detail = Detail(counts, examples, progress=not no_progress)
    if text or run:
        if run:
            from juzhen.evaluation.saved_run import texts_of_run

            sources = texts_of_run(run, data_dir=data_dir)
        else:
            sources = {name: read_lines(name, sets) for name in text or ()}
        report = audit_text(sources, sets.evaluation(evaluate), detail=detail)
        markdown = written.text_markdown(report)
    else:
        places = [Path(name if is_table(name) or "/" in name else f"{name}/train") for name in train or ()]
        if same := [name for name in evaluate or () if Path(name) in places]:
            raise UserError(
                f"--evaluate {same[0]}: is also audited by --train. Name rows of another split or file"
            )
        pair = sets.training(train), sets.evaluation(evaluate)
        report = audit_pairs(*pair, sets.absent, threshold=threshold, detail=detail)
        markdown = written.pairs_markdown(report)
    paths = written.write_report(report, markdown, output, name)
    if len(absent := report.get("absent", ())) > MOST_ABSENT:
        few = [*absent[:MOST_ABSENT], f"and {len(absent) - MOST_ABSENT} more, which {paths[0]} lists"]
        markdown = written.pairs_markdown(report | {"absent": few})
    print(markdown)
    print(f"written to {' and '.join(map(str, paths))}", file=sys.stderr)
