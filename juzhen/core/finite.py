"""NaN and infinity are refused where they arise, before anyone compares, stores or averages them."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from juzhen.core.errors import UserError
from juzhen.core.texts import short


def sound_rows(
    numbers: Float[np.ndarray, "rows *dim"], *, may_be_zero: bool = True
) -> Bool[np.ndarray, "rows"]:
    """Which rows can be compared: their squared length is a finite float32 number.

    One pass finds NaN, infinity, and vectors so long that bringing them to length 1 makes zeros of them.

    Args:
        numbers: Vectors, or one number a row.
        may_be_zero: False: a row of zeros is refused, too.
    """
    rows = numbers[:, None] if numbers.ndim == 1 else numbers
    with np.errstate(all="ignore"):
        lengths = np.einsum("rd,rd->r", rows, rows)
    return np.isfinite(lengths) & (may_be_zero | (lengths > 0))


def require_finite(
    numbers: Float[np.ndarray, "rows *dim"],
    texts: Sequence[Any],
    *,
    owners: Int[np.ndarray, "rows"] | None = None,
    key: str = "text",
    giver: str = "the encoder",
    may_be_zero: bool = True,
) -> None:
    """Check numbers computed from texts.

    Args:
        numbers: A row for each text, or several.
        texts: Texts, or pairs of texts.
        owners: The number of each row's text; None: there is a row for each.
        key: What one of `texts` is called.
        giver: What computed the numbers.
        may_be_zero: As of `sound_rows`.

    Raises:
        UserError: A row with NaN or infinity, naming its text.
    """
    if not (sound := sound_rows(numbers, may_be_zero=may_be_zero)).all():
        row = int(sound.argmin())
        raise UserError(
            f"{key}={short(repr(texts[row if owners is None else int(owners[row])]))}: {giver} gives NaN or "
            f"infinity ({int((~sound).sum()):,} of {len(sound):,} rows). Compute in float32, or replace the weights."
        )


def require_finite_weights(
    tensors: Iterable[tuple[str, Any]], source: object, *, remedy: str = "Copy the weights again"
) -> None:
    """Check named tensors of torch.

    Args:
        tensors: Name and tensor of each.
        source: The file or folder they come from.
        remedy: What to do.

    Raises:
        UserError: A tensor with NaN or infinity, naming it.
    """
    for name, values in tensors:
        if values.is_floating_point() and not values.isfinite().all():
            raise UserError(f"{source}: {name} holds NaN or infinite numbers. {remedy}.")
