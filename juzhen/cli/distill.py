"""`juzhen distill`: scores of a teacher as graded labels."""

from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

from juzhen.cli import options
from juzhen.core.process import without_hub


def distill(
    teacher: Annotated[
        str,
        Argument(
            help="run folder, or folder of an encoder, best of a cross-encoder · or fusion-<set>.json, which juzhen "
            "fuse writes: two runs as one teacher"
        ),
    ],
    dataset: Annotated[str, Argument(help="a set of pairs or triplets: lcqmc, snli …, or a table of them")],
    *,
    out: options.Table,
    split: options.ReadSplit = "train",
    grade: Annotated[
        Literal["logit", "probability"],
        Option(
            help="logit: as it is, for losses of order · probability: its sigmoid, for losses that meet a value, from "
            "a teacher trained with bce or ce; of a fused teacher the one that fuse has fitted on 0/1 pairs"
        ),
    ] = "logit",
    triplets: Annotated[
        bool,
        Option(
            "--triplets",
            help="write triplets with a score for each document, for margin_mse, list_kl and list_mle, in the place of "
            "pairs",
        ),
    ] = False,
    fuse: Annotated[
        tuple[str, str] | None,
        Option(metavar="RUN RUN", help="where the two runs of a fused teacher are, if they were moved"),
    ] = None,
    data_dir: options.DataDir = None,
    config_dir: options.ConfigDir = None,
    table: options.TableOptions = options.AS_IT_LOOKS,
    limit: Annotated[
        int | None, Option(min=2, help="at most so many pairs, with --triplets rows, drawn at random")
    ] = None,
    seed: options.Seed = options.SEED,
    batch_tokens: options.BatchTokens = options.BATCH_TOKENS,
) -> None:
    """Scores the pairs of a set with a finished run, or with two runs fused, and writes them as a set of graded pairs.

    Written are a table, and the configuration that reads it. Gold labels are not read, so positive pairs will do as
    well. A cross-encoder is too sure of pairs that it has learnt from itself: others make a better set. A larger
    bi-encoder can teach by its cosines too.

    juzhen distill runs/TEACHER lcqmc --out silver/lcqmc_graded.tsv
    """
    from juzhen.mining.sets import check_place, read_set, training_command

    check_place(out, f"distilled/{Path(dataset).name.partition('.')[0]}", ending="graded")
    without_hub()
    from juzhen.distillation.graded_sets import Triplets, graded, open_teacher, pairs_to_grade, write_set

    folder = options.data_folder(data_dir)
    where: dict[str, Any] = {"data_dir": folder, "config_dir": config_dir, "on_bad_row": table.on_bad_row}
    config, examples = read_set(dataset, split, out=out, reading=table.reading, **where)
    rows = Triplets.of(examples, limit=limit, seed=seed) if triplets else None
    pairs = rows.pairs if rows else pairs_to_grade(examples, limit=limit, seed=seed)
    scorer = open_teacher(teacher, grade=grade, fuse=fuse, examples=examples)
    scores = scorer.score(pairs.first, pairs.second, batch_tokens=batch_tokens, show_progress=True)
    grades, source = graded(scores, grade), f"{config.name}/{split}"
    if rows:
        written = rows.write(
            out, grades, grade=scorer.grade, source=source, like=config, graded_by=scorer.name
        )
        print(f"{len(rows.rows):,} triplets of {source} with scores: {out}")
        print(f"the positive scores above its negatives in {rows.agreement(scores):.1%} of them")
    else:
        written = write_set(
            out, pairs, grades, grade=scorer.grade, source=source, like=config, graded_by=scorer.name
        )
        print(f"{len(pairs.first):,} pairs of {source} with scores: {out}")
        if (agreement := pairs.agreement(scores)) is not None:
            print(f"Spearman of the scores with the gold labels: {100 * agreement:.2f}")
    print(f"configuration: {written}")
    data = folder if folder.is_dir() else out.parent
    print(training_command(out, written, f"loss={scorer.loss if rows else 'cosent'}", data))
