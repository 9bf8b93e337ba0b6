"""What is known of the space in which an encoder puts some texts, or of two such spaces: numbers and maps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Int


@dataclass(frozen=True)
class WordPairs:
    """Pairs of a set, by what their words share and by what an encoder says.

    rows     (2, pairs), positions among all texts
    overlap  Jaccard index of the terms of each pair, (pairs,)
    cosines  one array (pairs,) for each encoder
    grades   gold similarity from 0 to 1, or whether the classes are the same; None: not known
    are      what kind of pairs these are, in words
    """

    rows: Int[np.ndarray, "two pairs"]
    overlap: Float[np.ndarray, "pairs"]
    cosines: Sequence[Float[np.ndarray, "pairs"]]
    grades: Float[np.ndarray, "pairs"] | None
    are: str


@dataclass(frozen=True)
class EmbeddingAnalysis:
    """The embeddings of some texts by one encoder or by two.

    runs      names of the encoders
    texts     of all sets, one after another
    groups    number of the class, or of the set (`colour`), of each text; `group_names` says which
    numbers   set → a dictionary for each encoder: measures, `spectrum`, and those of word overlap; of more than one
              set also `all sets`, whose classes are the sets
    together  set → what two encoders have in common, see `juzhen.metrics.agreement`
    maps      name of a projection → for each encoder an array (texts, 2)
    shares    share of the variance that each encoder's map by PCA shows
    nearest   for each encoder, the numbers of the texts that are nearest to each text by cosine, (texts, five or less)
    pairs     set → its WordPairs
    sample    set → how many texts were taken, and of how many
    seed      of all that was drawn
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
        """The numbers as JSON has them; coordinates and texts are left out."""
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
