"""Numbers as people write them in files and on the command line, and as they read them."""

import math
from collections.abc import Iterable

LARGEST = 2**32 - 1
"""That numpy and scikit-learn take for a seed; no number of rows or tokens is beyond it."""


def number_or_nan(text: str) -> float:
    """The number that a text spells, NaN where it spells none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def is_position(text: str) -> bool:
    """Whether `text` is a place counted from 0, in ASCII digits: isdigit() alone is also true of ² and ３."""
    return text.isascii() and text.isdigit()


def with_few_digits(text: str, others: Iterable[str]) -> str:
    """A long fraction by four digits, where these tell it from the others; any other text as it is.

    >>> with_few_digits("0.054000000000000006", ["0.054000000000000006", "0.05", "linear"])
    '0.054'
    """
    numbers = {other: other for other in (text, *others)}
    for other in numbers:
        if "." in other and len(other) > 7 and math.isfinite(number := number_or_nan(other)):
            numbers[other] = f"{number:.4g}"
    return numbers[text] if len({*numbers.values()}) == len(numbers) else text


def percent(part: float, total: float) -> str:
    """A part of a whole as people read it: with two digits below 1 %, and 100 of all alone.

    >>> percent(967, 1086), percent(10, 321800), percent(32, 32), percent(9999, 10000), percent(0, 7)
    ('89.0 %', '0.0031 %', '100.0 %', '99.9 %', '0.0 %')
    """
    share = 100 * part / total
    if part in (0, total):
        return f"{share:.1f} %"
    return f"{min(share, 99.9):.1f} %" if share >= 1 else f"{share:.2g} %"
