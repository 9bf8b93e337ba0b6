"""Who scores the pairs of a set for `juzhen distill`: a finished run, or two of them fused."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from juzhen.core.calibration_files import Fusion
from juzhen.core.errors import UserError
from juzhen.core.examples import Examples
from juzhen.encoders.locate import encoder_folder
from juzhen.families.registry import PairScorer


@dataclass(frozen=True)
class Teacher:
    """What scores pairs, its name, what its scores are, and a loss for triplets that it has scored."""

    score: Callable[..., np.ndarray]
    name: str
    grade: str
    loss: str = "margin_mse"


def open_teacher(
    path: str | Path, *, grade: str, fuse: Sequence[str | Path] | None, examples: Examples
) -> Teacher:
    """The teacher of a set.

    path  run folder, folder of an encoder, or fusion-<set>.json
    fuse  where the two runs of a fusion are, if they were moved

    Raises UserError for what is no cross-encoder and is asked for probabilities: its scores are no logits.
    """
    if Path(path).suffix != ".json":
        if fuse is not None:
            raise UserError(f"--fuse says where the runs of a fusion-<set>.json are, and {path} is none")
        encoder_folder(path)  # the hub is not asked
        scorer = PairScorer(path)
        scorer.require_order(examples)
        kind = {
            "multi_vector": "an encoder of token vectors",
            "query_document": "an encoder with weights of their own for queries and documents",
            "sparse": "a sparse encoder",
        }.get(scorer.family)
        if kind is not None and grade == "logit":
            return Teacher(scorer, kind, grade)
        if not scorer.has_embeddings and kind is None:
            return Teacher(scorer, "a cross-encoder", grade)
        if grade != "logit":
            gives = "a bi-encoder, gives cosines" if kind is None else f"{kind}, gives none"
            raise UserError(
                f"--grade {grade} is the sigmoid of a logit, and {path}, {gives}. Leave --grade out, or take a "
                "cross-encoder"
            )
        return Teacher(scorer, "a bi-encoder", "cosine", loss="list_kl loss.teacher_temperature=0.01")
    fusion = Fusion.read(path)
    fused = PairScorer(*(fuse or fusion.runs), fusion=fusion)
    fused.require_order(examples)
    if grade == "logit":
        return Teacher(fused, "two fused models", grade)
    fusion.logits(0.0, "platt")  # refused before anything is scored, where it was not fitted
    return Teacher(
        lambda *pairs, **options: fusion.logits(fused(*pairs, **options), "platt"), "two fused models", grade
    )
