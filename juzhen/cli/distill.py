"""`juzhen distill` and `shrink`: scores of a teacher as graded labels, and a smaller encoder with its weights."""

from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

from juzhen.cli import options
from juzhen.cli.options import SEED, ConfigDir, DataDir, OnBadRow, Seed, data_folder
from juzhen.core.errors import UserError, command, setting
from juzhen.core.file_guard import check_overwritable, require_apart, require_outside
from juzhen.core.machine import without_hub
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


def shrink(
    teacher: Annotated[str, Argument(help="run, or folder of an encoder")],
    folder: Annotated[Path, Argument(help="folder for the student")],
    *,
    layers: Annotated[
        int | None, Option(min=1, help="layers of the student (required without --grow)")
    ] = None,
    grow: Annotated[
        str | None,
        Option(
            metavar="ENCODER",
            help="student of the teacher whose vocabulary grows to --vocabulary tokens, with every "
            "character. Its layers stay",
        ),
    ] = None,
    new_token_weight: Annotated[
        float | None,
        Option(
            min=0,
            max=1,
            help="with --grow: weight of the predicted row of a new token against the row of the unknown token",
            show_default="1",
        ),
    ] = None,
    dim: Annotated[
        int | None,
        Option(min=1, help="dimension of its states, a multiple of 64", show_default="the teacher's"),
    ] = None,
    prompt: Annotated[
        str | None,
        Option(
            metavar="TEXT",
            help="prompt of the teacher, such as 'query: ' (needs --dim below the teacher's)",
            show_default="taken from its folder",
        ),
    ] = None,
    vocabulary: Annotated[
        int | None,
        Option(
            min=1,
            help="tokens to keep, the most frequent ones in --dataset",
            show_default="all",
        ),
    ] = None,
    tokenizer: Annotated[
        str | None,
        Option(
            metavar="FOLDER",
            help="encoder whose tokenizer replaces the teacher's (needs --dim below the teacher's)",
        ),
    ] = None,
    dataset: Annotated[
        list[str] | None, Option(metavar="SET…", help="text sets for counting tokens, such as text_tatoeba")
    ] = None,
    max_length: Annotated[
        int | None, Option(min=3, help="tokens per sentence", show_default="the teacher's")
    ] = None,
    seed: Seed = SEED,
    data_dir: DataDir = None,
    config_dir: ConfigDir = None,
    on_bad_row: OnBadRow = "error",
) -> None:
    """Writes a smaller encoder with weights from a larger one, as a student for distillation.

    With the dimension of the teacher it takes every k-th layer. With a smaller dimension, each token starts at the
    teacher's embedding of that token as a text, and each layer starts as the identity.

    juzhen shrink runs/TEACHER students/small --layers 4 --dim 256
    """
    if grow is None and layers is None:
        raise UserError("--layers: missing. Type the number of layers, such as --layers 4")
    if grow is None and new_token_weight is not None:
        raise UserError("--new-token-weight needs --grow. Name the student with --grow, or leave it out")
    if grow is not None and (layers, dim, tokenizer) != (None, None, None):
        raise UserError(
            "--grow: its encoder decides layers, width and tokens. Leave --layers, --dim and --tokenizer out"
        )
    if (vocabulary is None) != (not dataset) or (grow is not None and vocabulary is None):
        ending = "" if grow else ", or neither"
        raise UserError(f"--vocabulary, --dataset: the tokens of the sets are counted. Give both{ending}")
    without_hub()
    from juzhen.encoders.resolve_path import encoder_source

    require_apart(folder, *map(encoder_source, filter(None, (teacher, tokenizer, grow))))
    require_outside(folder)
    check_overwritable(folder, are_folders=True)
    from juzhen.distillation.student import grown, student_of
    from juzhen.encoders import load_encoder, save_encoder
    from juzhen.mining.sets import read_set

    texts: list[str] = []
    where: dict[str, Any] = {"data_dir": data_folder(data_dir), "config_dir": config_dir}
    for name in dataset or ():
        _, examples = read_set(name, "train", on_bad_row=on_bad_row, **where)
        texts += list(examples.sentences)
    encoder = load_encoder(teacher).eval()
    size = encoder.backbone.config.hidden_size
    if prompt is not None and grow is None and dim in (None, size):
        raise UserError(
            "--prompt: a student as wide as its teacher copies layers, and reads no text. "
            f"Type --dim below {size}, or leave --prompt out"
        )
    reader = encoder if prompt is None else encoder.with_prompt(prompt=prompt)
    if grow is not None:
        smaller = grown(
            load_encoder(grow),
            reader,
            vocabulary=vocabulary or 0,
            texts=texts,
            seed=seed,
            new_token_weight=1.0 if new_token_weight is None else new_token_weight,
        )
    else:
        smaller = student_of(
            reader,
            layers=layers or 0,
            dim=dim,
            vocabulary=vocabulary,
            texts=texts,
            tokenizer=None if tokenizer is None else load_encoder(tokenizer).tokenizer,
            max_length=max_length,
            seed=seed,
        )
    save_encoder(smaller, folder, card={"name": folder.name, "begins_as": f"a student of {teacher}"})
    size = sum(weights.numel() for weights in smaller.backbone.parameters())
    print(
        f"{folder}: {counted(smaller.backbone.config.num_hidden_layers, 'layers')} of {smaller.dim}, "
        f"{len(smaller.tokenizer):,} tokens, {size / 1e6:.1f} million parameters"
    )
    if encoder.score_head is not None:
        print("the teacher's form uᵀWv is left out: pairs of the student are scored by the cosine")
    overrides = (
        "model=distill",
        setting("model.teacher", teacher),
        "backbone=local",
        setting("backbone.path", folder),
    )
    print(f"teach it:\n  {command('python', 'train.py', *overrides, unquoted=['…'])}")
