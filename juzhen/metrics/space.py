"""What is measured of an embedding space, while it is learnt and afterwards."""

import numpy as np
from jaxtyping import Float, Int

from juzhen.metrics.geometry import (
    alignment,
    effective_rank,
    first_component_isotropy,
    iso_score,
    mean_cosine,
    neighbour_similarity,
    norms,
    silhouette,
    uniformity,
)

NUM_NEIGHBOURS = 5
POSITIVE_GRADE = 0.8
"""Pairs of at least this grade count as positive where alignment is measured: above 4 of 5, as in Gao et al. 2021."""


def measure_space(
    embeddings: Float[np.ndarray, "texts dim"],
    *,
    pairs: Int[np.ndarray, "two pairs"],
    grades: Float[np.ndarray, "pairs"],
    classes: Int[np.ndarray, "texts"] | None = None,
) -> dict[str, float | None]:
    """Name → number; None where one is not defined for these texts.

    pairs    row numbers of texts of which the similarity is known, (2, pairs), and their `grades` from 0 to 1
    classes  of each text; with them also `silhouette`
    """
    first, second = embeddings[pairs]
    close = grades >= POSITIVE_GRADE
    mean, deviation = norms(embeddings)
    found = {
        "alignment": alignment(first[close], second[close]),
        "uniformity": uniformity(embeddings),
        "mean_cosine": mean_cosine(embeddings),
        "effective_rank": effective_rank(embeddings),
        "isotropy": iso_score(embeddings),
        "first_component_isotropy": first_component_isotropy(embeddings),
        "neighbour_similarity": neighbour_similarity(embeddings, num_neighbours=NUM_NEIGHBOURS),
        "norm_mean": mean,
        "norm_deviation": deviation,
    }
    return found if classes is None else found | {"silhouette": silhouette(embeddings, classes)}
