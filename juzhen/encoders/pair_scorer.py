"""Scores of pairs by what a run has left behind, whatever its model: cosines, logits, or two runs as one."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from juzhen.core.examples import Examples
from juzhen.core.fitted import Fusion
from juzhen.encoders.cross_encoder import CrossEncoder
from juzhen.encoders.locate import is_cross_encoder
from juzhen.encoders.sentence_encoder import SentenceEncoder


class PairScorer:
    """The scores of a finished run, or of two as one, computed without gradients in float32.

    folders  of a run, or of an encoder; a cross-encoder gives logits, every other one the cosine or its learnt form
    fusion   how `juzhen fuse` weighs two runs, which are given in the order in which they were fitted. Raises
             UserError for others
    """

    def __init__(self, *folders: str | Path, fusion: Fusion | None = None) -> None:
        if fusion is not None:
            fusion.require(folders)
        self._fusion = fusion
        self.is_cross_encoder = is_cross_encoder(folders[0])
        self._encoders = [
            (CrossEncoder if is_cross_encoder(one) else SentenceEncoder).load(one) for one in folders
        ]

    def require_order(self, examples: Examples) -> None:
        """Raises UserError for a set whose two sides may not be exchanged, where a cross-encoder reads both orders."""
        for one in self._encoders:
            if isinstance(one, CrossEncoder):
                one.require_order(f"{examples.split}/{examples.name}", examples.kind, examples.symmetric)

    def __call__(
        self, first: Sequence[str], second: Sequence[str], *, batch_tokens: int, progress: bool
    ) -> Float[np.ndarray, "pairs"]:
        """One score per pair, float64; of two runs, 0 is the mean of the set that was fitted on."""
        pairs = list(zip(first, second, strict=True))
        scores = [
            one.score(pairs, batch_tokens=batch_tokens, progress=progress).astype(np.float64)
            for one in self._encoders
        ]
        return scores[0] if self._fusion is None else self._fusion.fused(*scores)
