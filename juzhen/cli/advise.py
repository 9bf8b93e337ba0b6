"""`juzhen advise`: which data to train on for a target."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from juzhen.cli.options import (
    AS_IT_LOOKS,
    SEED,
    ConfigDir,
    DataDir,
    OnBadRow,
    Seed,
    TableOptions,
    data_folder,
)
from juzhen.core.machine import without_hub


def advise(
    target: Annotated[
        str,
        Argument(help="table of pairs or triplets, or the name of a set. With --corpus: table of queries"),
    ],
    *,
    corpus: Annotated[
        Path | None,
        Option(metavar="TABLE", help="documents that the queries are searched in", show_default=False),
    ] = None,
    answers: Annotated[
        Path | None,
        Option(
            metavar="TABLE",
            help="query and document by id or text, and optional gain",
            show_default="a column of the queries with documents",
        ),
    ] = None,
    encoder: Annotated[str, Option(help="run folder, or folder of an encoder")] = "builtin/mini_zh",
    minutes: Annotated[float, Option(help="time for all of it")] = 15.0,
    sources: Annotated[
        list[str] | None,
        Option(
            metavar="SET|FILE…",
            help="what may be trained on",
            show_default="every set with a training file in the target's language",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        Option(metavar="FOLDER", help="where to write", show_default="advice/<target>"),
    ] = None,
    learning_rate: Annotated[
        float | None, Option(help="peak learning rate", show_default="by the size of the encoder")
    ] = None,
    data_dir: DataDir = None,
    config_dir: ConfigDir = None,
    table: TableOptions = AS_IT_LOOKS,
    on_bad_row: OnBadRow = "drop",
    seed: Seed = SEED,
) -> None:
    """Says which data to train on for a target: sources, order, rows of each, gain and loss, with intervals.

    Sources are the sets with files below --data-dir, or --sources. Each is tried by a small training from the same
    encoder and scored on the target. The better ones get more rows. 60 % of the target's own rows are tried as training
    data, alone and after the best sources, and scored on the other rows. Rows of a source that the target has too are
    left out.
    Ctrl-C gives the answer so far. Repeat the command to continue. It writes the runs, advice.json, advice.md and
    index.html.

    juzhen advise faq.csv
    juzhen advise queries.csv --corpus documents.csv --answers answers.csv
    juzhen advise faq.csv --sources lcqmc bq tickets.xlsx --minutes 5
    juzhen advise csts --encoder runs/NAME
    """
    without_hub()
    from juzhen.advice.advise import advise as find_out
    from juzhen.data.rows import set_name

    folder = out or Path("advice") / set_name(Path(target))
    answer = find_out(
        target,
        corpus=corpus,
        answers=answers,
        encoder=encoder,
        minutes=minutes,
        sources=sources,
        data_dir=data_folder(data_dir),
        config_dir=config_dir,
        table=table.reading,
        out=folder,
        learning_rate=learning_rate,
        seed=seed,
    )
    print(answer)
    print(f"\nwritten to {folder}: index.html, advice.md, advice.json, runs/")
