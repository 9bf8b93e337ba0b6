"""What a result says of the rows that were read: how many, of which kind, how many are cut, how many were seen."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from juzhen.core.examples import NUM_CANDIDATES, Examples, Kind
from juzhen.data.leaks import Seen
from juzhen.encoders.cut import Cut

Described = dict[str, dict[str, Any]]


def describe_rows(
    sets: Mapping[str, Examples], cut: Mapping[str, Cut], *, temperature: float | None
) -> Described:
    """`split/dataset` → what is known of its rows.

    temperature  divides the scores of positive pairs; None where none are scored
    """
    return {key: _described(one, cut.get(key), temperature) for key, one in sets.items()}


def _described(one: Examples, left_out: Cut | None, temperature: float | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if left_out is not None:
        found["cut"] = asdict(left_out) | {"share": round(left_out.share, 6)}
    found |= {
        "rows": len(one),
        "kind": str(one.kind),
        "dropped": one.num_dropped,
        "leaky": one.num_leaky,
        "fingerprint": one.fingerprint,
    }
    if one.kind is Kind.POSITIVE_PAIR and one.split != "train":
        found |= {"candidates": min(NUM_CANDIDATES, len(one)), "temperature": temperature}
    return found


def with_leaks(data: Described, seen: Mapping[str, Seen]) -> Described:
    """What is known of each split, and how much of it training has seen where that was looked for."""
    found = {
        key: {"leaked": {"rows": len(one.rows), "share": one.share, "by_set": dict(one.by_set)}}
        for key, one in seen.items()
    }
    return {key: described | found.get(key, {}) for key, described in data.items()}
