"""The report of a mining in words, and what is wrong with a threshold that does not fit."""

from collections.abc import Mapping
from typing import Any

from juzhen.core.text import percent

FEWEST_ROWS, FEWEST_REFUSED = 0.1, 0.001
"""Shares, of the rows that there would be without a fitted threshold and of the candidates that come to it, below which
the pairs that it was fitted on are taken for others than those that are mined."""


def report_lines(report: Mapping[str, Any]) -> list[str]:
    """What `Mined.report` has counted, a line for each kind of number."""
    sentences = [
        "candidates: " + ", ".join(f"{count:,} {reason}" for reason, count in report["reasons"].items())
    ]
    sentences += [*filter(None, [fewer_line(report)])]
    sentences += [
        f"recall of the index of {name}: {100 * value:.2f} %"
        for name, value in report["index_recall"].items()
    ]
    sentences += [
        f"{name} reads queries behind {query!r} and documents behind {document!r}"
        for name, (query, document) in report.get("prompts", {}).items()
    ]
    if (fitted := report.get("threshold")) is not None:
        sentences.append(
            f"threshold {fitted['value']:.4f}, fitted on {fitted['positives']:,} pairs with label 1, of which "
            f"{100 * fitted['kept_positives']:.1f} % lie below, and {fitted['negatives']:,} with label 0, of which "
            f"{100 * fitted['refused_negatives']:.1f} % do not"
        )
    before, after = report["known_before"], report["known_after"]
    wrong, wrong_after = report["false_negatives_before"], report["false_negatives_after"]
    if not before:
        return [*sentences, "false negatives: no candidate of a query with two positives has a known label"]
    right = before - wrong
    rules = {"all rules": [wrong, wrong_after, right, right - (after - wrong_after)]}
    if len(report["rules"]) < 2:
        rules = {}
    rules = report["rules"] | rules or {"no rule": [wrong, wrong_after, right, 0]}
    sentences += [
        f"where labels are known, {name}: {_of(through, answers)} answers kept by mistake, "
        f"{_of(refused, negatives)} true negatives refused"
        for name, (answers, through, negatives, refused) in rules.items()
    ]
    rate = f"{100 * wrong_after / after:.1f} % ({wrong_after:,} of {after:,})" if after else "none is kept"
    return [
        *sentences,
        f"false negatives among candidates whose label is known: {100 * wrong / before:.1f} % ({wrong:,} of "
        f"{before:,}) before these rules, {rate} after",
    ]


def fewer_line(report: Mapping[str, Any]) -> str:
    """How many rows have fewer negatives than asked for, and how many positives no row; "" where all have enough."""
    rows, reasons = report["rows"], report["reasons"]
    parts = [f"{rows['fewer']:,} rows have fewer than {rows['negatives']} negatives"] if rows["fewer"] else []
    parts += [f"{rows['none']:,} positives have none and no row"] if rows["none"] else []
    if not parts:
        return ""
    refused = {name: count for name, count in reasons.items() if name != "kept"}
    why = max(refused, key=lambda name: refused[name], default="")
    why = (
        f"most candidates are refused as {why} ({refused[why]:,})" if why else "there are no more candidates"
    )
    return f"{', '.join(parts)}: {why}; a larger depth or milder rules leave more"


def misfit(report: Mapping[str, Any], calibrated_on: str | None) -> str | None:
    """What tells that a fitted threshold does not fit what was mined, and the way out; None: it may fit."""
    if (fitted := report.get("threshold")) is None:
        return None
    counts = report["left"]
    rows, without, candidates, refused = (
        counts[name] for name in ("rows", "rows_without", "candidates", "refused")
    )
    way_out = "calibrate on pairs of the same kind and field, or take --share or --threshold in its place"
    start = (
        f"--calibrate-on {calibrated_on}: the threshold {fitted['value']:.4f} refuses {_of(refused, candidates)} "
        "candidates"
    )
    if rows < FEWEST_ROWS * without:
        return f"{start} and leaves {_of(rows, without)} rows; {way_out}"
    if refused < FEWEST_REFUSED * candidates:
        return f"{start}, next to nothing; {way_out}"
    return None


def _of(part: int, total: int) -> str:
    """A part, and its share: 967 of 1,086 (89.0 %)."""
    return f"{part:,} of {total:,}" + (f" ({percent(part, total)})" if total else "")
