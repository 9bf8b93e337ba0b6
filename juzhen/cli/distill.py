"""`juzhen distill`: scores of a teacher as graded labels."""

from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

from juzhen.cli import options
from juzhen.core.process import without_hub
from juzhen.core.text import counted


def distill(
    teacher: Annotated[
        str,
        Argument(
            help="run, or folder of an encoder, best a cross-encoder · or fusion-<set>.json of juzhen "
            "fuse: two runs as one teacher"
        ),
    ],
    dataset: Annotated[str, Argument(help="set of pairs or triplets, such as lcqmc or snli, or a table")],
    *,
    out: options.Table,
    split: options.ReadSplit = "train",
    grade: Annotated[
        Literal["logit", "probability"],
        Option(
            help="logit: raw score, for ranking losses · probability: its sigmoid, for regression losses "
            "and teachers trained with bce or ce (a fused teacher has its own scaling, fitted on 0/1"
            " pairs)"
        ),
    ] = "logit",
    triplets: Annotated[
        bool,
        Option(
            "--triplets",
            help="write triplets with a score per document instead of pairs, for margin_mse, list_kl and list_mle",
        ),
    ] = False,
    fuse: Annotated[
        tuple[str, str] | None,
        Option(metavar="RUN RUN", help="new folders of a fused teacher's two runs, if they were moved"),
    ] = None,
    data_dir: options.DataDir = None,
    config_dir: options.ConfigDir = None,
    table: options.TableOptions = options.AS_IT_LOOKS,
    limit: Annotated[
        int | None, Option(min=2, help="draw at most this many pairs at random (rows with --triplets)")
    ] = None,
    seed: options.Seed = options.SEED,
    batch_tokens: options.BatchTokens = options.BATCH_TOKENS,
) -> None:
    """Scores the pairs of a set with a run, or with two fused runs, and writes them as a set of graded pairs.

    The verb writes a table and its configuration. It ignores gold labels, so positive pairs work as well. A
    cross-encoder is overconfident on pairs that it was trained on, so choose other pairs. A larger bi-encoder can teach
    by its cosines.

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
        print(f"{counted(len(rows.rows), 'triplets')} of {source} with scores: {out}")
        print(f"the positive scores above its negatives in {rows.agreement(scores):.1%} of them")
    else:
        written = write_set(
            out, pairs, grades, grade=scorer.grade, source=source, like=config, graded_by=scorer.name
        )
        print(f"{counted(len(pairs.first), 'pairs')} of {source} with scores: {out}")
        if (agreement := pairs.agreement(scores)) is not None:
            print(f"Spearman of the scores with the gold labels: {100 * agreement:.2f}")
    print(f"configuration: {written}")
    data = folder if folder.is_dir() else out.parent
    print(training_command(out, written, f"loss={scorer.loss if rows else 'cosent'}", data))
