"""Scores of pairs by what a run has left behind, whatever its model: cosines, logits, or two runs as one."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from juzhen.core.fitted import Fusion
from juzhen.encoders.cross_encoder import CrossEncoder
from juzhen.encoders.locate import is_cross_encoder
from juzhen.encoders.sentence_encoder import SentenceEncoder


class PairScorer:
    """The scores of a finished run, computed without gradients in float32.

    folder  of a run, or of an encoder; a cross-encoder gives logits, every other one the cosine or its learnt form
    """

    def __init__(self, folder: str | Path) -> None:
        self.is_cross_encoder = is_cross_encoder(folder)
        self._encoder = (CrossEncoder if self.is_cross_encoder else SentenceEncoder).load(folder)

    def __call__(
        self, first: Sequence[str], second: Sequence[str], *, batch_tokens: int, progress: bool
    ) -> Float[np.ndarray, "pairs"]:
        """One score per pair, float64."""
        pairs = list(zip(first, second, strict=True))
        return self._encoder.score(pairs, batch_tokens=batch_tokens, progress=progress).astype(np.float64)


class FusedScorer:
    """Two runs as one score, weighed as `juzhen fuse` has fitted it.

    folders  of the two runs, in the order in which they were fitted. Raises UserError for others.
    """

    def __init__(self, fusion: Fusion, folders: Sequence[str | Path]) -> None:
        fusion.require(folders)
        self._fusion = fusion
        self._scorers = [PairScorer(folder) for folder in folders]

    def __call__(
        self, first: Sequence[str], second: Sequence[str], *, batch_tokens: int, progress: bool
    ) -> Float[np.ndarray, "pairs"]:
        """One score per pair, float64; 0 is the mean of the set that was fitted on."""
        scores = (
            scorer(first, second, batch_tokens=batch_tokens, progress=progress) for scorer in self._scorers
        )
        return self._fusion.fused(*scores)
