"""A cross-encoder's scores as graded labels (Hinton et al. 2015, https://arxiv.org/abs/1503.02531).

For sentence pairs: Thakur et al. 2021, https://arxiv.org/abs/2010.08240, who call the set that a cross-encoder has
labelled the silver one.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from juzhen.core.csv_rows import csv_text
from juzhen.core.errors import UserError
from juzhen.core.examples import Examples, Kind
from juzhen.core.whole import write_text, writing_to
from juzhen.data.spec import DatasetConfig
from juzhen.data.views import apply_view
from juzhen.metrics.correlation import spearman
from juzhen.mining.written import write_description

PAIR_KINDS = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR, Kind.NLI_PAIR, Kind.POSITIVE_PAIR)
COLUMNS = ("sentence1", "sentence2", "score")


@dataclass(frozen=True)
class Pairs:
    """Pairs of sentences, each once.

    grades  gold similarity, of a pair that occurs several times the first one; None where there is none
    """

    first: list[str]
    second: list[str]
    grades: np.ndarray | None

    def agreement(self, scores: Float[np.ndarray, "pairs"]) -> float | None:
        """Spearman correlation of `scores` with the gold labels; None where there are none."""
        return None if self.grades is None else spearman(scores, self.grades)


def distilled_pairs(examples: Examples, *, limit: int | None, seed: int) -> Pairs:
    """The distinct pairs of a set, a triplet being several, in order of appearance; at most `limit` of them."""
    if examples.kind is Kind.TRIPLET:
        examples = apply_view(examples, Kind.LABELLED_PAIR)
    if examples.kind not in PAIR_KINDS:
        raise UserError(
            f"{examples.name} holds {examples.kind.replace('_', ' ')}s; a cross-encoder scores pairs. Choose a set of "
            "pairs or triplets"
        )
    first, second, *_ = examples.columns.values()
    _, places = np.unique(np.stack([first, second], axis=1), axis=0, return_index=True)
    if limit is not None and len(places) > limit:
        places = np.random.default_rng(seed).permutation(np.sort(places))[:limit]
    chosen = examples.select(np.sort(places))
    left, right = (chosen.texts(column) for column in list(chosen.columns)[:2])
    return Pairs(left, right, chosen.grades())


def graded(scores: Float[np.ndarray, "pairs"], grade: str) -> list[str]:
    """The scores as they are written: logits, or their sigmoid. Raises UserError where all are the same."""
    values = scores.astype(np.float64)
    if grade == "probability":
        values = 1 / (1 + np.exp(-values))
    written = [f"{value:.6f}" for value in values]
    if len(set(written)) < 2:
        shown = written[0] if written else "—"
        raise UserError(
            f"all {len(written)} pairs have the score {shown}, from which nothing can be learnt. Is the cross-encoder "
            "trained? With --grade probability, try --grade logit"
        )
    return written


def write_set(
    path: Path,
    pairs: Pairs,
    written: list[str],
    *,
    grade: str,
    source: str,
    like: DatasetConfig,
    graded_by: str = "a cross-encoder",
) -> Path:
    """Writes the table and, in conf/dataset beside it, the configuration, whose path it gives.

    written  a score for each pair
    source   `set/split` that the pairs are of
    like     the configuration of that set, for language and license
    graded_by  who gave the scores, in words
    """
    rows = [COLUMNS, *zip(pairs.first, pairs.second, written, strict=True)]
    numbers = [float(one) for one in written]
    with writing_to(f"--out {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, csv_text(rows, delimiter="\t"))
        return write_description(
            path,
            Kind.SCORED_PAIR,
            dict(zip(("text_a", "text_b", "score"), COLUMNS, strict=True)),
            like=like,
            about=f"Pairs of {source}, graded by {graded_by} ({grade})",
            origin=f"juzhen distil, from {source} ({like.origin})",
            rows=len(written),
            score_range=[0.0, 1.0] if grade == "probability" else [min(numbers), max(numbers)],
        )
