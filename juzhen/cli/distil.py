"""The command line of distillation: `python -m mining distil`."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from juzhen.cli.arguments import add_batch_tokens, add_data_dir, add_seed
from juzhen.core.errors import UserError
from juzhen.core.numerals import whole_number

if TYPE_CHECKING:  # --help should not wait for it
    import numpy as np

CONFIGURATION = Path(__file__).resolve().parents[1] / "conf"


def add_distil(commands: "argparse._SubParsersAction") -> None:
    """Adds the command `distil` to a program."""
    parser = commands.add_parser(
        "distil",
        help="score the pairs of a set with a cross-encoder, as graded labels for a bi-encoder",
        description="Scores the pairs of a set with a finished cross-encoder, or with two runs fused, and writes them "
        "as a set of graded pairs: a table, and the configuration that reads it. Gold labels are not read, so positive "
        "pairs will do as well. A cross-encoder is too sure of pairs that it has learnt from itself: others make a "
        "better set.",
    )
    parser.add_argument(
        "teacher",
        help="run folder of model=crossencoder, or folder of its encoder · or fusion-<set>.json, which python -m "
        "analysis fuse writes: two runs as one teacher",
    )
    parser.add_argument("dataset", help="a set of pairs or triplets: lcqmc, snli …")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE.tsv", help="table to write; its name names the set"
    )
    parser.add_argument("--split", default="train", choices=("train", "dev", "test"), help="default: train")
    parser.add_argument(
        "--grade",
        default="logit",
        choices=("logit", "probability"),
        help="logit: as it is, for losses of order · probability: its sigmoid, for losses that meet a value, from a "
        "teacher trained with bce or ce; of a fused teacher the one that fuse has fitted on 0/1 pairs (default: logit)",
    )
    parser.add_argument(
        "--fuse", nargs=2, metavar="RUN", help="where the two runs of a fused teacher are, if they were moved"
    )
    add_data_dir(parser)
    parser.add_argument(
        "--limit",
        type=whole_number("--limit", least=2, expected="at least 2 pairs, such as 20000"),
        help="at most so many pairs, drawn at random",
    )
    add_seed(parser, of="drawn pairs")
    add_batch_tokens(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Reads, scores, writes, and says how the new set is trained on."""
    check_options(options)
    # An encoder is a folder here, the hub is never asked. transformers reads this when it is imported.
    os.environ["HF_HUB_OFFLINE"] = "1"
    from juzhen.mining.distil import distilled_pairs, graded, write_set
    from juzhen.mining.sets import read_set

    data_dir = options.data_dir or Path(os.environ.get("JUZHEN_DATA", "data"))
    config, examples = read_set(CONFIGURATION / "dataset", options.dataset, options.split, data_dir=data_dir)
    pairs = distilled_pairs(examples, limit=options.limit, seed=options.seed)
    teacher, graded_by = teacher_of(options)
    scores = teacher(pairs.first, pairs.second, batch_tokens=options.batch_tokens, progress=True)
    source = f"{options.dataset}/{options.split}"
    written = write_set(
        options.out,
        pairs,
        graded(scores, options.grade),
        grade=options.grade,
        source=source,
        like=config,
        graded_by=graded_by,
    )
    print(f"{len(pairs.first):,} pairs of {source} with scores: {options.out}")
    print(f"configuration: {written}")
    if (agreement := pairs.agreement(scores)) is not None:
        print(f"Spearman of the scores with the gold labels: {100 * agreement:.2f}")
    folder = data_dir if data_dir.is_dir() else options.out.parent
    print(
        f"train on it:\n  python train.py --config-dir {written.parents[1]} 'dataset=[{options.out.stem}]' "
        f"loss=cosent data_dir={folder}"
    )


def teacher_of(options: argparse.Namespace) -> tuple["Callable[..., np.ndarray]", str]:
    """What scores pairs, as logits where probabilities are asked for, and in words who that is.

    Raises UserError for a bi-encoder alone, which knows no more than the one that it would teach.
    """
    from juzhen.core.fitted import Fusion
    from juzhen.encoders.joint_bundle import load_joint_encoder
    from juzhen.encoders.pair_scorer import FusedScorer

    if Path(options.teacher).suffix != ".json":
        if options.fuse is not None:
            raise UserError(
                f"--fuse says where the runs of a fusion-<set>.json are, and {options.teacher} is none"
            )
        return load_joint_encoder(options.teacher).scores, "a cross-encoder"
    fusion = Fusion.read(options.teacher)
    fused = FusedScorer(fusion, options.fuse or fusion.runs)
    if options.grade == "logit":
        return fused, "two fused models"
    fusion.logits(0.0, "platt")  # refused before anything is scored, where it was not fitted
    return lambda *pairs, **how: fusion.logits(fused(*pairs, **how), "platt"), "two fused models"


def check_options(options: argparse.Namespace) -> None:
    """Raises UserError for what the file cannot be called, and for numbers that make no sense."""
    out = options.out
    name = out.stem
    if out.suffix != ".tsv" or not (name.isascii() and name.isidentifier()):
        raise UserError(
            f"--out {out}: expected a .tsv whose name is letters, digits and _, such as "
            f"distilled/{options.dataset}_graded.tsv"
        )
    if (CONFIGURATION / "dataset" / f"{name}.yaml").exists():
        raise UserError(f"--out {out}: there is a dataset {name} already; choose {name}_graded.tsv")
