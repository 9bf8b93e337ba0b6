"""Analysis of the embeddings of some texts by one encoder or two: metrics and maps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Int

PCA, TSNE = "pca", "tsne"
TITLES = {PCA: "PCA", TSNE: "t-SNE"}
"""Projection of a map → its title."""


@dataclass(frozen=True)
class WordPairs:
    """Pairs of a set, with their word overlap and their cosines.

    Args:
        rows: (2, pairs), indices into all texts.
        overlap: Jaccard index of the terms of each pair, (pairs,).
        cosines: One array (pairs,) for each encoder.
        grades: Gold similarity from 0 to 1, or 1 for equal classes. None: unknown.
        are: Kind of the pairs, in words.
    """

    rows: Int[np.ndarray, "two pairs"]
    overlap: Float[np.ndarray, "pairs"]
    cosines: Sequence[Float[np.ndarray, "pairs"]]
    grades: Float[np.ndarray, "pairs"] | None
    are: str


@dataclass(frozen=True)
class EmbeddingAnalysis:
    """Embeddings of some texts by one encoder or two.

    Args:
        runs: Names of the encoders.
        texts: Texts of all sets, one after another.
        groups: Class or set (`colour`) of each text, an index into `group_names`.
        group_names: Names of the groups, by number.
        colour: `class` or `set`: meaning of the groups.
        numbers: Set → a dictionary for each encoder: metrics, `spectrum`, and those of word overlap. With
            several sets also `all sets`, whose classes are the sets.
        together: Set → agreement of two encoders, see `juzhen.metrics.geometry`.
        maps: Name of a projection → for each encoder an array (texts, 2).
        shares: Share of the variance in each encoder's PCA map.
        nearest: For each encoder, the indices of the texts nearest to each text by cosine, (texts, five or
            less).
        pairs: Set → its WordPairs.
        sample: Set → number of drawn texts, and of all texts.
        seed: Seed of all draws.
        meanings: Metric → its meaning in words.
    """

    runs: Sequence[str]
    texts: Sequence[str]
    groups: Int[np.ndarray, "texts"]
    group_names: Sequence[str]
    colour: str
    numbers: dict[str, Sequence[Mapping[str, Any]]]
    together: Mapping[str, Mapping[str, float | None]]
    maps: Mapping[str, Sequence[Float[np.ndarray, "texts two"]]]
    shares: Sequence[float | None]
    nearest: Sequence[Int[np.ndarray, "texts neighbours"]]
    pairs: Mapping[str, WordPairs]
    sample: Mapping[str, tuple[int, int]]
    seed: int
    meanings: Mapping[str, str] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """Return the metrics as JSON has them, without coordinates and texts.

        Returns:
            Seed, maps, texts of each set, metrics of each run, and metrics that compare the runs.
        """
        return {
            "seed": self.seed,
            "maps": list(self.maps),
            "sets": {name: {"texts": taken, "of": of} for name, (taken, of) in self.sample.items()},
            "runs": [
                {"run": run, "sets": {name: dict(of_runs[number]) for name, of_runs in self.numbers.items()}}
                for number, run in enumerate(self.runs)
            ],
            "together": {name: dict(values) for name, values in self.together.items()},
        }
