"""`juzhen transfer`: accuracy of a classifier on frozen embeddings."""

from typing import Annotated

from typer import Argument, Option

from juzhen.cli import options
from juzhen.core.atomic_write import write_json
from juzhen.core.file_guard import check_overwritable
from juzhen.core.paths import DATASETS
from juzhen.core.process import without_hub


def transfer(
    encoder: options.Encoder,
    sets: Annotated[
        list[str],
        Argument(help="sets of 0/1 pairs, NLI pairs or texts with classes, such as mrpc, qqp, snli, tnews"),
    ],
    *,
    data_dir: options.DataDir = None,
    config_dir: options.ConfigDir = None,
    on_bad_row: options.OnBadRow = "error",
    limit: Annotated[int | None, Option(min=10, help="most rows of each split")] = None,
    seed: options.Seed = options.SEED,
    batch_tokens: options.BatchTokens = options.BATCH_TOKENS,
    output: options.Numbers = None,
) -> None:
    """Trains a logistic regression on the frozen embeddings of an encoder.

    It is trained on train, its penalty is chosen on dev, and its accuracy is measured on test. If splits are missing,
    folds replace them.

    juzhen transfer runs/NAME mrpc snli tnews
    """
    if output:
        check_overwritable(output)
    without_hub()
    from juzhen.data.rows import ConfiguredSets
    from juzhen.encoders import load_encoder

    configured = ConfiguredSets(
        DATASETS, options.data_folder(data_dir), config_dir=config_dir, on_bad_row=on_bad_row
    )
    splits = {name: dict(configured.splits(name)) for name in sets}
    configured.tell_dropped()
    loaded = load_encoder(encoder)
    from juzhen.evaluation.run import transfer as classify

    scores = {}
    print("| set | accuracy | F1 | majority | rows | learnt from | how |\n|---|---|---|---|---|---|---|")
    for name in sets:
        score = classify(loaded, splits[name], batch_tokens=batch_tokens, seed=seed, limit=limit)
        scores[name] = vars(score)
        percents = " | ".join(
            "—" if value is None else f"{100 * value:.1f}"
            for value in (score.accuracy, score.f1, score.majority)
        )
        print(f"| {name} | {percents} | {score.rows:,} | {score.learnt_from:,} | {score.how} |", flush=True)
    if output:
        write_json(output, scores)
