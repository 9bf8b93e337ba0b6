"""Check whether rows suit a loss: a batch has a gradient only if its rows differ in what the loss compares."""

import numpy as np

from juzhen.core.errors import UserError
from juzhen.core.examples import Examples
from juzhen.losses.listwise import ListMLE
from juzhen.losses.loss import Contrast, Loss


def compares(examples: Examples, rows: np.ndarray, loss: Loss) -> bool:
    """True if a batch of these rows has a gradient. `Contrast` defines what rows must differ in.

    Without it, momentum and weight decay alone would move weights.

    Args:
        examples: The set.
        rows: Row numbers of a batch, int (batch,).
        loss: Its `contrast` names the values that must differ.

    Returns:
        False if the loss is constant on these rows.
    """
    columns = [values[rows] for values in examples.columns.values()]
    match loss.contrast:
        case Contrast.ORDER:
            assert examples.targets is not None  # such a loss takes kinds that have some
            return differ(examples.targets[rows])
        case Contrast.TEXTS if "negative" not in examples.columns:
            return all(map(differ, columns))
        case Contrast.SOME_TEXTS if "negative" not in examples.columns:
            return any(map(differ, columns))
        case Contrast.NEGATIVES if isinstance(loss, ListMLE) and examples.teacher_scores is not None:
            return bool(np.ptp(examples.teacher_scores[rows], axis=1).any())
        case Contrast.NEGATIVES:
            _, positive, *negatives = columns
            return any((negative != positive).any() for negative in negatives)
    return True


def require_equal_lists(examples: Examples, loss: Loss, said: str) -> None:
    """Refuse rows with different numbers of negatives if the loss cannot read a mask.

    Args:
        examples: Training rows.
        loss: Their loss.
        said: Name of the loss for the message, such as `loss=triplet`.

    Raises:
        UserError: The numbers differ, and the loss reads negatives without a mask.
    """
    if examples.missing is None or "negatives" not in loss.inputs or "text_ids" in loss.inputs:
        return
    counts = (~examples.missing[:, 1:]).sum(axis=1)
    raise UserError(
        f"{said}: it takes as many negatives of each row, and rows of {examples.name} have {counts.min()} to "
        f"{counts.max()}. Choose info_nce, info_nce_own, triplet or list_mle, which take rows of different lengths, or "
        f"give each row {counts.min()}"
    )


def differ(values: np.ndarray) -> bool:
    """True if an array has two different rows.

    Args:
        values: Array whose first axis has the rows. It may be empty.
    """
    return bool((values != values[:1]).any())
