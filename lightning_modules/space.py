"""How healthy an embedding space is, on a fixed sample of dev pairs."""

import numpy as np

from juzhen.core.errors import UserError
from juzhen.data.probe import Probe
from juzhen.encoders import SentenceEncoder
from juzhen.encoders.texts import batches_by_length
from juzhen.metrics.geometry import measure_space, unit
from lightning_modules.score_summary import score_counts, score_summary


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
        """Name → number; None where one is not defined for this probe. Raises UserError for NaN and infinity."""
        self._embeddings = self._encode()
        if not np.isfinite(self._embeddings).all():
            raise UserError(
                "the embeddings of dev sentences are no finite numbers any more: training has left what the precision "
                "can hold. Usual causes: optimizer.lr too high, or 16-bit precision (hardware.precision=32-true)"
            )
        pairs, grades = self._probe.pairs, self._probe.grades
        spread = score_summary(self._cosines(), grades, called="cosine")
        return measure_space(self._embeddings, pairs=pairs, grades=grades) | spread

    def histogram(self) -> dict[str, list[float]]:
        """Cosines of positive and of other pairs, counted in bins, as last measured."""
        return score_counts(self._cosines(), self._probe.grades, low=-1, high=1)

    def _cosines(self) -> np.ndarray:
        first, second = unit(self._embeddings)[self._probe.pairs]
        return np.einsum("rd,rd->r", first, second)

    def _encode(self) -> np.ndarray:
        embeddings = np.empty((len(self._probe.sentences), self._encoder.dim), dtype=np.float32)
        for rows, token_lists in self._batches:
            embeddings[rows] = self._encoder.infer(self._encoder.collate(token_lists))
        return embeddings
