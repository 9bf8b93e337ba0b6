"""Changes between two models by slices of a set: length, overlap, negation, numbers, words of order."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from juzhen.metrics.comparison import Scored, mean_difference, paired_gap
from juzhen.metrics.correlation import Gap

LEAST_ROWS = 20
"""Rows that a slice needs."""

NEGATION = re.compile(
    r"[不没无非未别勿莫]|\b(?:no|not|never|none|nothing|without|cannot)\b|n['’]t\b", re.IGNORECASE
)
NUMBER = re.compile(r"\d+(?:[.,]\d+)*|[一二两三四五六七八九十百千万亿]+")
ORDER = re.compile(
    r"先|然后|之后|之前|以前|以后|最后|首先|\b(?:before|after|first|then|later|finally|until)\b",
    re.IGNORECASE,
)


class SliceChange(NamedTuple):
    """Change on a slice.

    Attributes:
        name: Name of the slice.
        rows: Number of rows.
        flipped: Rows that the first run alone decides correctly, and those of the other. None without decisions.
        gap: The other run minus the first: of accuracy, or of the main metric without decisions.
    """

    name: str
    rows: int
    flipped: tuple[int, int] | None
    gap: Gap


def slices(first: Sequence[str], second: Sequence[str]) -> dict[str, np.ndarray]:
    """Find the slices of sentence pairs.

    Args:
        first: First text of each pair.
        second: Second text of each pair.

    Returns:
        Name → mask of its rows. Halves are split at the median.

    Example:
        >>> found = slices(["今天下雨", "他没来"], ["今天天晴", "他来了"])
        >>> found["negation in one text"].tolist()
        [False, True]
    """
    pairs = [(a.lower(), b.lower()) for a, b in zip(first, second, strict=True)]
    length = np.array([len(a) + len(b) for a, b in pairs])
    overlap = np.array([len({*a} & {*b}) / max(len({*a} | {*b}), 1) for a, b in pairs])
    one_negation = [bool(NEGATION.search(a)) != bool(NEGATION.search(b)) for a, b in pairs]
    return {
        "shorter half": length <= np.median(length),
        "longer half": length > np.median(length),
        "less overlap": overlap <= np.median(overlap),
        "more overlap": overlap > np.median(overlap),
        "negation in one text": np.array(one_negation, dtype=bool),
        "other numbers": np.array(
            [sorted(NUMBER.findall(a)) != sorted(NUMBER.findall(b)) for a, b in pairs], bool
        ),
        "words of order": np.array([bool(ORDER.search(a) or ORDER.search(b)) for a, b in pairs], bool),
        "same characters, other order": np.array([a != b and sorted(a) == sorted(b) for a, b in pairs], bool),
    }


def slice_changes(first: Scored, other: Scored, masks: Mapping[str, np.ndarray]) -> list[SliceChange]:
    """Compare two runs on each slice with at least LEAST_ROWS rows.

    Decisions keep the threshold of the whole set. The interval is paired over rows. It does not include seeds.

    Args:
        first: Rows as the first run scored them.
        other: The same rows as the other run scored them.
        masks: From `slices`.

    Returns:
        The changes. Slices with an undefined metric are absent.
    """
    found = []
    for name, mask in masks.items():
        if (rows := int(mask.sum())) < LEAST_ROWS:
            continue
        if first.right is not None and other.right is not None:
            sides = first.right[mask].astype(float), other.right[mask].astype(float)
            moved = sides[1] - sides[0]
            flipped = int((moved < 0).sum()), int((moved > 0).sum())
            found.append(SliceChange(name, rows, flipped, mean_difference(moved)))
        else:
            parts = [[_part(scored, mask)] for scored in (other, first)]
            gap = paired_gap(parts[0], parts[1], first.measures[0])
            if gap is not None:
                found.append(SliceChange(name, rows, None, gap))
    return found


def _part(scored: Scored, mask: np.ndarray) -> Scored:
    columns = {name: values[mask] for name, values in scored.rows.columns.items()}
    return Scored(replace(scored.rows, columns=columns), scored.threshold)
