"""How alike two spaces are in which the same texts lie; their dimensions may differ."""

import numpy as np
from jaxtyping import Float

from juzhen.metrics.geometry import nearest_rows

MEANINGS = {
    "cka": "linear CKA of the two: 1 the same but for rotation and size",
    "neighbours_kept": "share of the five nearest texts that are the same",
}


def linear_cka(first: Float[np.ndarray, "rows dim"], second: Float[np.ndarray, "rows other"]) -> float | None:
    """Linear centred kernel alignment, from 0 to 1: 1 for spaces that differ by a rotation and one factor.

    ‖YᵀX‖² / (‖XᵀX‖ ‖YᵀY‖) in Frobenius norms, both centred. (Kornblith et al. 2019, section 3,
    https://arxiv.org/abs/1905.00414) With fewer rows than dimensions unrelated spaces have a high one, too. None
    where one side has no variance.
    """
    first_side, right = (np.asarray(side, dtype=np.float64) for side in (first, second))
    first_side, right = first_side - first_side.mean(axis=0), right - right.mean(axis=0)
    sizes = np.linalg.norm(first_side.T @ first_side) * np.linalg.norm(right.T @ right)
    return float(np.linalg.norm(right.T @ first_side) ** 2 / sizes) if sizes else None


def neighbours_kept(
    first: Float[np.ndarray, "rows dim"], second: Float[np.ndarray, "rows other"], *, num_neighbours: int
) -> float | None:
    """Mean share of the nearest rows of a row that are the same in both spaces; by chance k / (rows − 1).

    None unless there are more rows than neighbours.
    """
    if len(first) <= num_neighbours:
        return None
    both = [nearest_rows(side, num_neighbours=num_neighbours) for side in (first, second)]
    is_same = both[0][:, :, None] == both[1][:, None, :]
    return float(is_same.sum() / both[0].size)
