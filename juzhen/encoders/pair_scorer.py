"""Scores of pairs by what a run has left behind, whatever its model: cosines, logits, or two runs as one."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from juzhen.core.fitted import Fusion
from juzhen.encoders.bundle import load_encoder
from juzhen.encoders.joint_bundle import load_joint_encoder
from juzhen.encoders.locate import is_joint


class PairScorer:
    """The scores of a finished run, computed without gradients in float32.

    folder  of a run, or of an encoder; a cross-encoder gives logits, every other one the cosine or its learnt form
    """

    def __init__(self, folder: str | Path) -> None:
        self.is_joint = is_joint(folder)
        self._encoder = load_joint_encoder(folder) if self.is_joint else load_encoder(folder)

    def __call__(
        self, first: Sequence[str], second: Sequence[str], *, batch_tokens: int, progress: bool
    ) -> Float[np.ndarray, "pairs"]:
        """One score per pair, float64."""
        how = {"batch_tokens": batch_tokens, "progress": progress}
        return self._encoder.scores(first, second, **how).astype(np.float64)


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
        how = {"batch_tokens": batch_tokens, "progress": progress}
        return self._fusion.fused(*(scorer(first, second, **how) for scorer in self._scorers))
