"""How healthy an embedding space is, on a fixed sample of dev pairs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from datamodules.union import SentenceUnion
from encoders import SentenceEncoder
from encoders.backends import open_backend
from encoders.sentence_encoder import batches_by_length
from lightning_modules.score_summary import score_counts, score_summary
from metrics.geometry import (
    alignment,
    effective_rank,
    iso_score,
    mean_cosine,
    neighbour_similarity,
    uniformity,
    unit,
)
from schema.config import BackendName
from schema.examples import Examples

NUM_NEIGHBOURS = 5
POSITIVE_GRADE = 0.8
"""Pairs of at least this grade count as positive where alignment is measured: above 4 of 5, as in Gao et al. 2021."""


@dataclass(frozen=True)
class Probe:
    """Some sentences, and pairs among them.

    pairs   (2, pairs), positions in `sentences`
    grades  similarity of each pair in the gold data, from 0 to 1
    """

    sentences: list[str]
    pairs: np.ndarray
    grades: np.ndarray

    @classmethod
    def drawn(cls, sets: Sequence[Examples], *, num_sentences: int, seed: int) -> "Probe | None":
        """Pairs of at most `num_sentences` sentences, as many of each set; None where no set has graded pairs."""
        graded = [one for one in sets if one.grades() is not None and len(one)]
        if not graded:
            return None
        share = max(num_sentences // (2 * len(graded)), 1)
        generator = np.random.default_rng(seed)
        chosen = [one.select(np.sort(generator.permutation(len(one))[:share])) for one in graded]
        union = SentenceUnion(chosen)
        columns = [list(union.rows(position).values())[:2] for position in range(len(chosen))]
        pairs = np.concatenate([np.stack(two) for two in columns], axis=1)
        # The tables of the sets are whole: only the sentences of the pairs are wanted.
        numbers, places = np.unique(pairs, return_inverse=True)
        sentences = [union.examples.sentences[number] for number in numbers]
        return cls(sentences, places.reshape(pairs.shape), np.concatenate([one.grades() for one in chosen]))


class SpaceMeter:
    """Measures one encoder's space on a probe, again and again while it learns."""

    def __init__(self, encoder: SentenceEncoder, probe: Probe, *, batch_tokens: int) -> None:
        self._encoder = encoder
        self._probe = probe
        table = encoder.tokenize(probe.sentences)
        self._batches = [
            (rows, table[rows]) for rows in batches_by_length(table.lengths, batch_tokens=batch_tokens)
        ]

    def measure(self) -> dict[str, float | None]:
        """Name → number; None where one is not defined for this probe."""
        self._embeddings = embeddings = self._encode()
        first, second = embeddings[self._probe.pairs]
        close = self._probe.grades >= POSITIVE_GRADE
        return {
            "alignment": alignment(first[close], second[close]),
            "uniformity": uniformity(embeddings),
            "mean_cosine": mean_cosine(embeddings),
            "effective_rank": effective_rank(embeddings),
            "isotropy": iso_score(embeddings),
            "neighbour_similarity": neighbour_similarity(embeddings, num_neighbours=NUM_NEIGHBOURS),
            **score_summary(self._cosines(), self._probe.grades, called="cosine"),
        }

    def histogram(self) -> dict[str, list[float]]:
        """Cosines of positive and of other pairs, counted in bins, as last measured."""
        return score_counts(self._cosines(), self._probe.grades, low=-1, high=1)

    def _cosines(self) -> np.ndarray:
        first, second = unit(self._embeddings)[self._probe.pairs]
        return np.einsum("rd,rd->r", first, second)

    def _encode(self) -> np.ndarray:
        backend = open_backend(BackendName.TORCH, self._encoder)
        embeddings = np.empty((len(self._probe.sentences), self._encoder.dim), dtype=np.float32)
        for rows, token_lists in self._batches:
            embeddings[rows] = backend.encode(self._encoder.collate(token_lists))
        return embeddings
