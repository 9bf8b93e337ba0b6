"""`juzhen distil`: scores of a teacher as graded labels."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from juzhen.cli.arguments import BATCH_TOKENS, SEED, VerbParser, data_folder
from juzhen.core.errors import UserError
from juzhen.core.network import without_hub
from juzhen.core.numerals import whole_number
from juzhen.core.places import DATASETS

if TYPE_CHECKING:  # --help should not wait for it
    import numpy as np


def parser() -> VerbParser:
    parser = VerbParser(
        "distil",
        description="Scores the pairs of a set with a finished cross-encoder, or with two runs fused, and writes them "
        "as a set of graded pairs: a table, and the configuration that reads it. Gold labels are not read, so positive "
        "pairs will do as well. A cross-encoder is too sure of pairs that it has learnt from itself: others make a "
        "better set.",
    )
    parser.add_argument(
        "teacher",
        help="run folder of model=crossencoder, or folder of its encoder · or fusion-<set>.json, which juzhen "
        "fuse writes: two runs as one teacher",
    )
    parser.add_argument("dataset", help="a set of pairs or triplets: lcqmc, snli …")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE.tsv", help="table to write; its name names the set"
    )
    parser.add_argument("--split", choices=("train", "dev", "test"), help="default: train")
    parser.add_argument(
        "--grade",
        choices=("logit", "probability"),
        help="logit: as it is, for losses of order · probability: its sigmoid, for losses that meet a value, from a "
        "teacher trained with bce or ce; of a fused teacher the one that fuse has fitted on 0/1 pairs (default: logit)",
    )
    parser.add_argument(
        "--fuse", nargs=2, metavar="RUN", help="where the two runs of a fused teacher are, if they were moved"
    )
    parser.add_data_dir()
    parser.add_argument(
        "--limit",
        type=whole_number("--limit", least=2, expected="at least 2 pairs, such as 20000"),
        help="at most so many pairs, drawn at random",
    )
    parser.add_seed(of="drawn pairs")
    parser.add_batch_tokens()
    return parser


def run(
    teacher: str | Path,
    dataset: str,
    *,
    out: Path,
    split: str = "train",
    grade: str = "logit",
    fuse: Sequence[str | Path] | None = None,
    data_dir: Path | None = None,
    limit: int | None = None,
    seed: int = SEED,
    batch_tokens: int = BATCH_TOKENS,
) -> None:
    """Reads, scores, writes, and says how the new set is trained on."""
    from juzhen.mining.written import check_place

    check_place(out, f"distilled/{dataset}", ending="graded")
    without_hub()
    from juzhen.mining.distil import distilled_pairs, graded, write_set
    from juzhen.mining.sets import read_set

    folder = data_folder(data_dir)
    config, examples = read_set(DATASETS, dataset, split, data_dir=folder)
    pairs = distilled_pairs(examples, limit=limit, seed=seed)
    score, graded_by = _teacher(teacher, grade, fuse)
    scores = score(pairs.first, pairs.second, batch_tokens=batch_tokens, progress=True)
    source = f"{dataset}/{split}"
    written = write_set(
        out,
        pairs,
        graded(scores, grade),
        grade=grade,
        source=source,
        like=config,
        graded_by=graded_by,
    )
    print(f"{len(pairs.first):,} pairs of {source} with scores: {out}")
    print(f"configuration: {written}")
    if (agreement := pairs.agreement(scores)) is not None:
        print(f"Spearman of the scores with the gold labels: {100 * agreement:.2f}")
    print(
        f"train on it:\n  python train.py --config-dir {written.parents[1]} 'dataset=[{out.stem}]' "
        f"loss=cosent data_dir={folder if folder.is_dir() else out.parent}"
    )


def _teacher(
    teacher: str | Path, grade: str, fuse: Sequence[str | Path] | None
) -> tuple["Callable[..., np.ndarray]", str]:
    """What scores pairs, as logits where probabilities are asked for, and in words who that is.

    Raises UserError for a bi-encoder alone, which knows no more than the one that it would teach.
    """
    from juzhen.core.fitted import Fusion
    from juzhen.encoders import CrossEncoder
    from juzhen.encoders.locate import encoder_folder
    from juzhen.encoders.pair_scorer import FusedScorer

    if Path(teacher).suffix != ".json":
        if fuse is not None:
            raise UserError(f"--fuse says where the runs of a fusion-<set>.json are, and {teacher} is none")
        encoder_folder(teacher)  # the hub is not asked
        encoder = CrossEncoder.load(teacher)
        return lambda *pair, **how: encoder.score(list(zip(*pair, strict=True)), **how), "a cross-encoder"
    fusion = Fusion.read(teacher)
    fused = FusedScorer(fusion, fuse or fusion.runs)
    if grade == "logit":
        return fused, "two fused models"
    fusion.logits(0.0, "platt")  # refused before anything is scored, where it was not fitted
    return lambda *pairs, **how: fusion.logits(fused(*pairs, **how), "platt"), "two fused models"
