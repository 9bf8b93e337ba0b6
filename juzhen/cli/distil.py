"""`juzhen distil`: scores of a teacher as graded labels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from juzhen.cli.arguments import BATCH_TOKENS, SEED, VerbParser, data_folder
from juzhen.core.errors import UserError
from juzhen.core.network import without_hub

if TYPE_CHECKING:  # --help should not wait for it
    import numpy as np

    from juzhen.core.examples import Examples


def parser() -> VerbParser:
    parser = VerbParser(
        "distil",
        description="Scores the pairs of a set with a finished run, or with two runs fused, and writes them as a set "
        "of graded pairs: a table, and the configuration that reads it. Gold labels are not read, so positive pairs "
        "will do as well. A cross-encoder is too sure of pairs that it has learnt from itself: others make a better "
        "set. A larger bi-encoder can teach by its cosines too.",
    )
    parser.add_argument(
        "teacher",
        help="run folder, or folder of an encoder, best of a cross-encoder · or fusion-<set>.json, which juzhen fuse "
        "writes: two runs as one teacher",
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
        "--triplets",
        action="store_true",
        help="write triplets with a score for each document, for margin_mse, list_kl and list_mle, in the place of "
        "pairs",
    )
    parser.add_argument(
        "--fuse", nargs=2, metavar="RUN", help="where the two runs of a fused teacher are, if they were moved"
    )
    parser.add_data_dir()
    parser.add_config_dir()
    parser.add_on_bad_row()
    about = "at most so many pairs, with --triplets rows, drawn at random"
    parser.add_count("--limit", about, least=2, expected="at least 2 pairs, such as 20000")
    parser.add_seed(of="drawn rows")
    parser.add_batch_tokens()
    return parser


def run(
    teacher: str | Path,
    dataset: str,
    *,
    out: Path,
    split: str = "train",
    grade: str = "logit",
    triplets: bool = False,
    fuse: Sequence[str | Path] | None = None,
    data_dir: Path | None = None,
    config_dir: Path | None = None,
    on_bad_row: str = "error",
    limit: int | None = None,
    seed: int = SEED,
    batch_tokens: int = BATCH_TOKENS,
) -> None:
    """Reads, scores, writes, and says how the new set is trained on."""
    from juzhen.mining.sets import check_place, read_set, training_command

    check_place(out, f"distilled/{dataset}", ending="graded")
    without_hub()
    from juzhen.distillation.graded_sets import Triplets, graded, pairs_to_grade, write_set

    folder = data_folder(data_dir)
    config, examples = read_set(
        dataset, split, data_dir=folder, config_dir=config_dir, out=out, on_bad_row=on_bad_row
    )
    taught = Triplets.of(examples, limit=limit, seed=seed) if triplets else None
    pairs = taught.pairs if taught else pairs_to_grade(examples, limit=limit, seed=seed)
    by = _teacher(teacher, grade, fuse, examples)
    scores = by.score(pairs.first, pairs.second, batch_tokens=batch_tokens, progress=True)
    grades, source = graded(scores, grade), f"{dataset}/{split}"
    if taught:
        written = taught.write(out, grades, grade=by.grade, source=source, like=config, graded_by=by.name)
        print(f"{len(taught.rows):,} triplets of {source} with scores: {out}")
        print(f"the positive scores above its negatives in {taught.agreement(scores):.1%} of them")
    else:
        written = write_set(out, pairs, grades, grade=by.grade, source=source, like=config, graded_by=by.name)
        print(f"{len(pairs.first):,} pairs of {source} with scores: {out}")
        if (agreement := pairs.agreement(scores)) is not None:
            print(f"Spearman of the scores with the gold labels: {100 * agreement:.2f}")
    print(f"configuration: {written}")
    place = folder if folder.is_dir() else out.parent
    print(training_command(out, written, f"loss={by.loss if taught else 'cosent'}", place))


@dataclass(frozen=True)
class _Teacher:
    """What scores pairs, its name, what its scores are, and a loss for triplets that it has scored."""

    score: "Callable[..., np.ndarray]"
    name: str
    grade: str
    loss: str = "margin_mse"


def _teacher(
    teacher: str | Path, grade: str, fuse: Sequence[str | Path] | None, examples: "Examples"
) -> _Teacher:
    """Who scores the set. Raises UserError for a bi-encoder that is asked for probabilities: its scores are cosines."""
    from juzhen.core.fitted import Fusion
    from juzhen.encoders.locate import encoder_folder
    from juzhen.families import PairScorer

    if Path(teacher).suffix != ".json":
        if fuse is not None:
            raise UserError(f"--fuse says where the runs of a fusion-<set>.json are, and {teacher} is none")
        encoder_folder(teacher)  # the hub is not asked
        scorer = PairScorer(teacher)
        scorer.require_order(examples)
        if not scorer.has_embeddings:
            return _Teacher(scorer, "a cross-encoder", grade)
        if grade != "logit":
            raise UserError(
                f"--grade {grade} is the sigmoid of a logit, and {teacher}, a bi-encoder, gives cosines. Leave --grade "
                "out, or take a cross-encoder"
            )
        return _Teacher(scorer, "a bi-encoder", "cosine", loss="list_kl loss.teacher_temperature=0.01")
    fusion = Fusion.read(teacher)
    fused = PairScorer(*(fuse or fusion.runs), fusion=fusion)
    fused.require_order(examples)
    if grade == "logit":
        return _Teacher(fused, "two fused models", grade)
    fusion.logits(0.0, "platt")  # refused before anything is scored, where it was not fitted
    return _Teacher(
        lambda *pairs, **how: fusion.logits(fused(*pairs, **how), "platt"), "two fused models", grade
    )
