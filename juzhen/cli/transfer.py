"""`juzhen transfer`: what a classifier on frozen embeddings reaches."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from juzhen.cli.arguments import BATCH_TOKENS, SEED, VerbParser, data_folder
from juzhen.core.errors import UserError, nearest
from juzhen.core.network import without_hub
from juzhen.core.owned import require_ours
from juzhen.core.places import DATASETS
from juzhen.core.whole import write_json

if TYPE_CHECKING:  # they load numpy, and --help should not wait for that
    from juzhen.core.examples import Examples
    from juzhen.data.audit.sources import ConfiguredSets


def parser() -> VerbParser:
    parser = VerbParser(
        "transfer",
        description="Trains a logistic regression on the embeddings of an encoder, which is not changed: on train, "
        "its penalty chosen on dev, its accuracy told on test. Where splits are missing, in folds of what is there.",
    )
    parser.add_argument("encoder", help="run folder, or folder of an encoder")
    parser.add_argument(
        "sets",
        nargs="+",
        metavar="SET",
        help="0/1 pairs, NLI pairs, texts with classes: mrpc, qqp, snli, tnews …",
    )
    parser.add_data_dir()
    parser.add_config_dir()
    about = "at most this many rows of each split"
    parser.add_count("--limit", about, least=10, expected="at least 10 rows, such as 20000")
    parser.add_seed(of="drawn rows and folds")
    parser.add_batch_tokens()
    parser.add_argument("--output", type=Path, metavar="FILE", help="also write the numbers here, as JSON")
    return parser


def run(
    encoder: str | Path,
    sets: Sequence[str],
    *,
    data_dir: Path | None = None,
    config_dir: Path | None = None,
    limit: int | None = None,
    seed: int = SEED,
    batch_tokens: int = BATCH_TOKENS,
    output: Path | None = None,
) -> None:
    """Encodes, classifies, prints a table."""
    if output:
        require_ours(output)
    without_hub()
    from juzhen.data.audit.sources import ConfiguredSets
    from juzhen.encoders import load_encoder

    configured = ConfiguredSets(DATASETS, data_folder(data_dir), config_dir=config_dir)
    splits = {name: _read(configured, name) for name in sets}
    loaded = load_encoder(encoder)
    from juzhen.evaluation.transfer import transfer

    found = {}
    print("| set | accuracy | F1 | majority | rows | learnt from | how |\n|---|---|---|---|---|---|---|")
    for name in sets:
        one = transfer(loaded, splits[name], batch_tokens=batch_tokens, seed=seed, limit=limit)
        found[name] = one
        percents = " | ".join(
            "—" if value is None else f"{100 * value:.1f}" for value in (one.accuracy, one.f1, one.majority)
        )
        print(f"| {name} | {percents} | {one.rows:,} | {one.learnt_from:,} | {one.how} |", flush=True)
    if output:
        write_json(output, {name: vars(one) for name, one in found.items()})


def _read(sets: "ConfiguredSets", name: str) -> "dict[str, Examples | None]":
    """Split → rows of a set, None where there is no file. Raises UserError where there is none at all."""
    if name not in sets.files:
        raise UserError(f"{name}: no conf/dataset/{name}.yaml; {nearest(name, sets.files)}")
    splits = {split: sets.load(name, split) for split in ("train", "dev", "test")}
    if not any(one is not None for one in splits.values()):
        raise UserError(
            f"{name}: no file of it below {sets.data_dir}; type --data-dir <folder that holds the data sets>"
        )
    return splits
