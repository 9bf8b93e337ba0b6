"""The command line of transfer tasks: `python -m analysis transfer`."""

import argparse
import os
from pathlib import Path

from juzhen.cli.arguments import add_batch_tokens, add_data_dir, add_seed
from juzhen.core.errors import UserError
from juzhen.core.numerals import whole_number
from juzhen.core.whole import write_json

CONFIGURATION = Path(__file__).resolve().parents[1] / "conf"


def add_transfer(commands: "argparse._SubParsersAction") -> None:
    """Adds the command `transfer` to a program."""
    parser = commands.add_parser(
        "transfer",
        help="classify pairs or texts by a logistic regression on frozen embeddings",
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
    add_data_dir(parser)
    parser.add_argument(
        "--limit",
        type=whole_number("--limit", least=10, expected="at least 10 rows, such as 20000"),
        help="at most this many rows of each split",
    )
    add_seed(parser, of="drawn rows and folds")
    add_batch_tokens(parser)
    parser.add_argument("--output", type=Path, metavar="FILE", help="also write the numbers here, as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Encodes, classifies, prints a table."""
    # An encoder is a folder here, the hub is never asked. transformers reads this when it is imported.
    os.environ["HF_HUB_OFFLINE"] = "1"
    from juzhen.data.audit.sources import ConfiguredSets
    from juzhen.encoders import load_encoder

    data_dir = options.data_dir or Path(os.environ.get("JUZHEN_DATA", "data"))
    sets = ConfiguredSets(CONFIGURATION / "dataset", data_dir)
    splits = {name: _read(sets, name) for name in options.sets}
    encoder = load_encoder(options.encoder)
    from juzhen.evaluation.transfer import transfer

    numbers = {"batch_tokens": options.batch_tokens, "seed": options.seed, "limit": options.limit}
    found = {}
    print("| set | accuracy | F1 | majority | rows | learnt from | how |\n|---|---|---|---|---|---|---|")
    for name in options.sets:
        one = found[name] = transfer(encoder, splits[name], **numbers)
        percents = " | ".join(f"{100 * value:.1f}" for value in (one.accuracy, one.f1, one.majority))
        print(f"| {name} | {percents} | {one.rows:,} | {one.learnt_from:,} | {one.how} |", flush=True)
    if options.output:
        write_json(options.output, {name: one.as_dict() for name, one in found.items()})


def _read(sets, name: str) -> dict:
    """Split → rows of a set, None where there is no file. Raises UserError where there is none at all."""
    from juzhen.core.errors import nearest

    if name not in sets.files:
        raise UserError(f"{name}: no conf/dataset/{name}.yaml; {nearest(name, sets.files)}")
    splits = {split: sets.load(name, split) for split in ("train", "dev", "test")}
    if not any(one is not None for one in splits.values()):
        raise UserError(
            f"{name}: no file of it below {sets.data_dir}; type --data-dir <folder that holds the data sets>"
        )
    return splits
