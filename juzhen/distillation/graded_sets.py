"""A teacher's scores as graded labels (Hinton et al. 2015, https://arxiv.org/abs/1503.02531).

For sentence pairs: Thakur et al. 2021, https://arxiv.org/abs/2010.08240, who call the set that a cross-encoder has
labelled the silver one. For the documents of a query: Hofstätter et al. 2020, https://arxiv.org/abs/2010.02666.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from juzhen.core.atomic_write import write_text
from juzhen.core.calibration_files import Fusion
from juzhen.core.errors import UserError
from juzhen.core.examples import TEACHER_SCORE, Examples, Kind
from juzhen.core.kinds import CONVERSIONS
from juzhen.core.safe_open import csv_text
from juzhen.data.convert import convert_rows
from juzhen.data.spec import DatasetConfig, made_from
from juzhen.encoders.resolve_path import encoder_folder
from juzhen.families.family import AskingEncoders
from juzhen.families.registry import FAMILIES, PairScorer
from juzhen.metrics.correlation import spearman
from juzhen.mining.sets import write_description

PAIR_KINDS = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR, Kind.NLI_PAIR, Kind.POSITIVE_PAIR)
COLUMNS = ("sentence1", "sentence2", "score")


@dataclass(frozen=True)
class Pairs:
    """Distinct pairs of a set.

    Args:
        first: The first text of each pair.
        second: The second one.
        grades: Gold similarity, of the first occurrence of a pair. None without gold values.
    """

    first: list[str]
    second: list[str]
    grades: np.ndarray | None

    def agreement(self, scores: Float[np.ndarray, "pairs"]) -> float | None:
        """Spearman correlation of `scores` with the gold labels. None without gold labels.

        Args:
            scores: Score of each pair.

        Returns:
            The correlation, or None.
        """
        return None if self.grades is None else spearman(scores, self.grades)


def pairs_to_grade(examples: Examples, *, limit: int | None, seed: int) -> Pairs:
    """Return the distinct pairs of a set in order, at most `limit`. A triplet gives several pairs.

    Args:
        examples: Pairs or triplets.
        limit: Largest number of pairs. None: all.
        seed: Seed of the draws.

    Returns:
        The pairs.

    Raises:
        UserError: The set holds other rows.
    """
    if examples.kind is Kind.TRIPLET:
        examples = convert_rows(examples, Kind.LABELLED_PAIR)
    if examples.kind not in PAIR_KINDS:
        raise UserError(
            f"{examples.name} holds {examples.kind.replace('_', ' ')}s, and a cross-encoder scores pairs. "
            "Choose a set of "
            "pairs or triplets"
        )
    first, second, *_ = examples.columns.values()
    _, rows = np.unique(np.stack([first, second], axis=1), axis=0, return_index=True)
    if limit is not None and len(rows) > limit:
        rows = np.random.default_rng(seed).permutation(np.sort(rows))[:limit]
    chosen = examples.select(np.sort(rows))
    texts_a, texts_b = (chosen.texts(column) for column in list(chosen.columns)[:2])
    return Pairs(texts_a, texts_b, chosen.grades())


def graded(scores: Float[np.ndarray, "pairs"], grade: str) -> list[str]:
    """Return logits or their sigmoid.

    Args:
        scores: Logit of each pair.
        grade: "logit" or "probability".

    Returns:
        The numbers as text.

    Raises:
        UserError: All scores are equal.
    """
    values = scores.astype(np.float64)
    if grade == "probability":
        values = 1 / (1 + np.exp(-values))
    written = [f"{value:.6f}" for value in values]
    if len(set(written)) < 2:
        example = written[0] if written else "—"
        raise UserError(
            f"all {len(written)} pairs have the score {example}, from which nothing can be learnt. Is the "
            "cross-encoder trained? Type grade=logit instead of probabilities"
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
    """Write the table and its configuration in conf/dataset next to it, and return the configuration's path.

    Args:
        path: File of the new table.
        pairs: The pairs.
        written: One score per pair.
        grade: "logit" or "probability".
        source: `set/split` of the pairs.
        like: Configuration of that set, for language and license.
        graded_by: Name of the scorer.

    Returns:
        Path of the configuration.
    """
    numbers = [float(score) for score in written]
    return _write(
        path,
        Kind.SCORED_PAIR,
        dict(zip(("text_a", "text_b", "score"), COLUMNS, strict=True)),
        list(zip(pairs.first, pairs.second, written, strict=True)),
        like=like,
        about=f"Pairs of {source}, graded by {graded_by} ({grade})",
        origin=made_from("distill", source, like.origin),
        score_range=[0.0, 1.0] if grade == "probability" else [min(numbers), max(numbers)],
    )


@dataclass(frozen=True)
class Triplets:
    """Triplets with their distinct pairs of anchor and document, which a teacher scores.

    Args:
        rows: Examples of kind triplet.
        pairs: Pairs for the teacher.
        places: int array (rows, documents): the pair of each document, positive first.
    """

    rows: Examples
    pairs: Pairs
    places: Int[np.ndarray, "rows documents"]

    @classmethod
    def of(cls, examples: Examples, *, limit: int | None, seed: int) -> "Triplets":
        """Return at most `limit` triplets of a set.

        Args:
            examples: The set.
            limit: Largest number of rows. None: all.
            seed: Seed of the draws.

        Returns:
            The triplets.

        Raises:
            UserError: The set has no triplets, and its rows do not make some.
        """
        if Kind.TRIPLET not in (examples.kind, *CONVERSIONS[examples.kind]):
            raise UserError(
                f"{examples.name} holds {examples.kind.replace('_', ' ')}s, which cannot be read as triplets. Choose "
                "pairs with labels, or a set that juzhen mine has written"
            )
        rows = convert_rows(examples, Kind.TRIPLET)
        if limit is not None and len(rows) > limit:
            rows = rows.select(np.sort(np.random.default_rng(seed).permutation(len(rows))[:limit]))
        anchors, *documents = rows.columns.values()
        both = np.stack([np.repeat(anchors, len(documents)), np.stack(documents, axis=1).reshape(-1)])
        distinct, pair_of_document = np.unique(both, axis=1, return_inverse=True)
        first, second = ([rows.sentences[number] for number in side] for side in distinct)
        return cls(rows, Pairs(first, second, None), pair_of_document.reshape(len(rows), len(documents)))

    def agreement(self, scores: Float[np.ndarray, "pairs"]) -> float:
        """Share of the rows whose positive scores above every negative.

        Args:
            scores: Score of each pair.

        Returns:
            The share, from 0 to 1.
        """
        rows = scores[self.places]
        if self.rows.missing is not None:
            rows = np.where(self.rows.missing, -np.inf, rows)
        return float((rows[:, 0] > rows[:, 1:].max(axis=1)).mean())

    def write(
        self, path: Path, written: list[str], *, grade: str, source: str, like: DatasetConfig, graded_by: str
    ) -> Path:
        """Write the rows with a score per document, empty for a missing one. See `write_set`.

        Args:
            path: File of the new table.
            written: One score for each pair.
            grade: "logit" or "probability".
            source: `set/split` of the triplets.
            like: Configuration of that set.
            graded_by: Name of the scorer.

        Returns:
            Path of the configuration.
        """
        texts = list(self.rows.columns)
        names = [*texts, *(TEACHER_SCORE.format(column) for column in texts[1:])]
        anchors, *documents = (self.rows.texts(column) for column in texts)
        missing = self.rows.missing
        lacks = np.zeros(self.places.shape, dtype=bool) if missing is None else missing
        return _write(
            path,
            Kind.TRIPLET,
            dict(zip(names, names, strict=True)),
            [
                (anchor, *_unless(absent, row), *_unless(absent, [written[pair] for pair in places]))
                for anchor, row, places, absent in zip(
                    anchors, zip(*documents, strict=True), self.places, lacks.tolist(), strict=True
                )
            ],
            like=like,
            about=f"Triplets of {source}, each document scored by {graded_by} ({grade})",
            origin=made_from("distill", source, like.origin),
            symmetric=self.rows.symmetric,
        )


def _unless(absent: Sequence[bool], cells: Sequence[str]) -> list[str]:
    """Return the cells, empty for a missing document."""
    return ["" if is_absent else cell for is_absent, cell in zip(absent, cells, strict=True)]


def _write(
    path: Path, kind: Kind, columns: dict[str, str], rows: list[tuple[str, ...]], **described: Any
) -> Path:
    """Write a table and its configuration, and return the configuration's path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, csv_text([tuple(columns.values()), *rows], delimiter="\t"))
    return write_description(path, kind, columns, rows=len(rows), **described)


@dataclass(frozen=True)
class Teacher:
    """A pair scorer and the scores that it gives.

    Args:
        score: Function of first and second texts that returns one score for each pair.
        name: Name of the scorer.
        grade: "logit" or "probability".
        loss: Suitable loss for scored triplets.
    """

    score: Callable[..., np.ndarray]
    name: str
    grade: str
    loss: str = "margin_mse"


def open_teacher(
    path: str | Path, *, grade: str, fuse: Sequence[str | Path] | None, examples: Examples
) -> Teacher:
    """Open the teacher of a set.

    Args:
        path: Run folder, encoder folder, or fusion-<set>.json.
        grade: "logit" or "probability".
        fuse: The two runs of a fusion, if they were moved.
        examples: The rows to grade.

    Returns:
        The teacher.

    Raises:
        UserError: Probabilities requested from a model without logits.
    """
    if Path(path).suffix != ".json":
        if fuse is not None:
            raise UserError(f"fuse: goes with a fusion-<set>.json, and {path} is another file. Leave it out")
        encoder_folder(path)  # the hub is not asked
        scorer = PairScorer(path)
        scorer.require_order(examples)
        family = FAMILIES[scorer.family]
        asks = isinstance(family, AskingEncoders)
        if asks and grade == "logit":
            return Teacher(scorer, family.described, grade)
        if not scorer.has_embeddings and not asks:
            return Teacher(scorer, "a cross-encoder", grade)
        if grade != "logit":
            gives = f"{family.described}, gives none" if asks else "a bi-encoder, gives cosines"
            raise UserError(
                f"grade={grade}: is the sigmoid of a logit, and {path}, {gives}. Leave it out, or take a "
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
