"""Audit of leaks: which evaluation rows training sets and running text contain, as a report in JSON and Markdown."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from juzhen.core.atomic_write import write_text
from juzhen.core.examples import Examples, Kind
from juzhen.core.progress import progress_bar
from juzhen.core.text import in_markdown
from juzhen.data.leaks.matching import (
    LEAST_INSIDE,
    NEAR,
    Hits,
    PairIndex,
    SentenceSearch,
    normalize,
    pair_columns,
    used_sentences,
)

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Detail:
    """Level of detail of an audit.

    Args:
        counts: Leave row numbers out.
        examples: Quoted rows per cell.
        progress: Show progress bars.
    """

    counts: bool = False
    examples: int = 0
    progress: bool = False


def audit_pairs(
    train: Sequence[Examples],
    evaluation: Sequence[Examples],
    absent: Sequence[str],
    *,
    threshold: float | None = None,
    detail: Detail,
) -> dict[str, Any]:
    """Compare every training set with every evaluation split: common pairs and sentences, and contradictory labels.

    Args:
        train: Training sets.
        evaluation: Evaluation splits.
        absent: `set/split` without a file, for the record.
        threshold: Jaccard index of near duplicates. None: the usual one.
        detail: Level of detail.

    Returns:
        The report: `sets` with facts about each, `cells` with the overlap of two.
    """
    threshold = NEAR if threshold is None else threshold
    cells = []
    with progress_bar("comparing sets", 1 + len(train), shown=detail.progress) as advance:
        index = PairIndex(evaluation, threshold=threshold)
        for examples in train:
            advance(1)
            for other, hits in zip(evaluation, index.search(examples), strict=True):
                if _name_of(examples) != _name_of(other):
                    cells.append(_cell(examples, other, hits, detail))
    both = {_name_of(config): config for config in [*train, *evaluation]}
    return {
        "format_version": FORMAT_VERSION,
        "what": "leaks between training sets and evaluation splits",
        "near_threshold": threshold,
        "train": [_name_of(examples) for examples in train],
        "evaluation": [_name_of(examples) for examples in evaluation],
        "absent": sorted(absent),
        "sets": {name: _describe(examples, detail) for name, examples in sorted(both.items())},
        "cells": cells,
    }


def _name_of(examples: Examples) -> str:
    return f"{examples.name}/{examples.split}"


def _cell(train: Examples, evaluation: Examples, hits: Hits, detail: Detail) -> dict[str, Any]:
    """Counts are of evaluation rows, except `train_rows`."""
    exact, near = hits.rows()
    has_pairs = bool(pair_columns(train) and pair_columns(evaluation))
    leaky_train = np.unique(hits.train_rows)
    cell = {
        "train": _name_of(train),
        "evaluation": _name_of(evaluation),
        "rows": len(evaluation),
        "exact_pairs": len(exact) if has_pairs else None,
        "near_pairs": len(near) if has_pairs else None,
        "other_label": _at_odds(train, evaluation, hits),
        "exact_sentences": int(hits.exact_sentence.sum()),
        "near_sentences": int((hits.near_sentence & ~hits.exact_sentence).sum()),
        "train_rows": len(leaky_train) if has_pairs else None,
    }
    if not detail.counts and len(leaky_train):
        cell["lines"] = {
            "exact": lines_of(evaluation, exact),
            "near": lines_of(evaluation, near),
            "train": lines_of(train, leaky_train),
        }
    if detail.examples and len(leaky_train):
        cell["examples"] = list(_quoted(train, evaluation, hits, detail.examples))
    return cell


def _at_odds(train: Examples, evaluation: Examples, hits: Hits) -> int | None:
    """Evaluation rows whose exact pair has another label in training. None if the labels have different meanings."""
    if train.kind is not evaluation.kind or len(pair_columns(train)) != 1:
        return None
    if train.targets is None or evaluation.targets is None:
        return None
    trained = train.targets[hits.train_rows[hits.is_exact]]
    scored = evaluation.targets[hits.evaluation_rows[hits.is_exact]]
    return len(np.unique(hits.evaluation_rows[hits.is_exact][trained != scored]))


def _quoted(train: Examples, evaluation: Examples, hits: Hits, count: int) -> Iterator[dict[str, Any]]:
    """Some rows as texts, exact pairs first."""
    for hit in np.argsort(~hits.is_exact, kind="stable")[:count]:
        yield {
            "is_exact": bool(hits.is_exact[hit]),
            "train": _row(train, hits.train_rows[hit]),
            "evaluation": _row(evaluation, hits.evaluation_rows[hit]),
        }


def _row(examples: Examples, row: int) -> dict[str, Any]:
    quoted = {column: examples.sentences[values[row]] for column, values in examples.columns.items()}
    if examples.targets is not None:
        quoted["target"] = float(examples.targets[row])
    return quoted


def _describe(examples: Examples, detail: Detail) -> dict[str, Any]:
    described = {
        "rows": len(examples),
        "kind": str(examples.kind),
        "faulty_rows": examples.num_dropped,
        "fingerprint": examples.fingerprint,
    }
    if pair_columns(examples):
        repeated, groups = repeated_and_contradictory(examples)
        described["repeated_rows"] = repeated
        if examples.targets is not None:
            described["contradictory_pairs"] = len(groups)
            described["contradictory_rows"] = sum(map(len, groups))
            if not detail.counts and groups:
                described["contradictory_lines"] = [lines_of(examples, group) for group in groups]
            if detail.examples and groups:
                described["examples"] = [
                    [_row(examples, row) for row in group] for group in groups[: detail.examples]
                ]
    return described


def repeated_and_contradictory(examples: Examples) -> tuple[int, list[np.ndarray]]:
    """Return the number of rows that repeat an earlier row, and the rows of each pair with several labels.

    A pair is the same in either order, except in NLI: that a entails b does not mean that b entails a.

    Args:
        examples: Rows of pairs, compared after `normalize`.

    Returns:
        The number, and for each contradictory pair its row numbers, sorted. Sets without targets have none.
    """
    numbers: dict[str, int] = {}
    text_numbers = np.array(
        [numbers.setdefault(normalize(text), len(numbers)) for text in examples.sentences]
    )
    rows = np.stack([text_numbers[values] for values in examples.columns.values()], axis=1)
    if examples.kind in (Kind.SCORED_PAIR, Kind.LABELLED_PAIR, Kind.POSITIVE_PAIR):
        rows.sort(axis=1)
    _, group, sizes = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    repeated = len(examples) - len(sizes)
    if examples.targets is None:
        return repeated, []
    low, high = np.full(len(sizes), np.inf), np.full(len(sizes), -np.inf)
    np.minimum.at(low, group, examples.targets)
    np.maximum.at(high, group, examples.targets)
    odd = np.flatnonzero(low != high)
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], odd)
    clusters = [
        np.sort(order[start : start + sizes[cluster]]) for start, cluster in zip(starts, odd, strict=True)
    ]
    return repeated, sorted(clusters, key=lambda rows: rows[0])


def lines_of(examples: Examples, rows: np.ndarray) -> list[int]:
    """Return the places of rows in their file.

    Args:
        examples: The set.
        rows: Row numbers from 0.

    Returns:
        Line numbers from 1. Row numbers from 1 if the set has no lines, such as a set of the hub.
    """
    return (rows + 1 if examples.lines is None else examples.lines[rows]).tolist()


def audit_text(
    sources: Mapping[str, Sequence[str]], evaluation: Sequence[Examples], *, detail: Detail
) -> dict[str, Any]:
    """Return the report about running text: its lines with evaluation sentences, in total and by split.

    Args:
        sources: Name of a text → its lines.
        evaluation: Evaluation splits, whose sentences are searched.
        detail: Which counts and examples the report has.

    Returns:
        Plain data, as `write_report` stores it.
    """
    sentences: list[str] = []
    owner: list[int] = []
    for position, examples in enumerate(evaluation):
        used = used_sentences(examples)
        sentences += used
        owner += [position] * len(used)
    search, owners, texts = SentenceSearch(sentences), np.array(owner), {}
    for name, lines in sources.items():
        with progress_bar(_short(name), len(lines), shown=detail.progress) as advance:
            hits = search.search(lines, advance=advance)
        texts[_short(name)] = _describe_texts(lines, hits, sentences, owners, evaluation, detail)
    return {
        "format_version": FORMAT_VERSION,
        "what": "lines of running text that hold evaluation sentences",
        "least_characters_inside_a_line": LEAST_INSIDE,
        "evaluation": {
            _name_of(examples): {
                "rows": len(examples),
                "sentences": owner.count(position),
                "fingerprint": examples.fingerprint,
            }
            for position, examples in enumerate(evaluation)
        },
        "texts": texts,
    }


def _short(name: str) -> str:
    """The file name alone, without private folders."""
    return name.rsplit("/", 1)[-1] if name.endswith((".txt", ".zst", ".gz")) else name


def _describe_texts(
    lines: Sequence[str],
    hits: tuple[np.ndarray, np.ndarray, np.ndarray],
    sentences: Sequence[str],
    owners: np.ndarray,
    evaluation: Sequence[Examples],
    detail: Detail,
) -> dict[str, Any]:
    positions, numbers, is_whole = hits
    leaky = np.unique(positions)
    by_set = {}
    for position, examples in enumerate(evaluation):
        is_here = owners[numbers] == position
        if is_here.any():
            by_set[_name_of(examples)] = {
                "lines": len(np.unique(positions[is_here])),
                "sentences": len(np.unique(numbers[is_here])),
            }
    described: dict[str, Any] = {
        "lines": len(lines),
        "characters": sum(map(len, lines)),
        "leaky_lines": len(leaky),
        "whole_lines": len(np.unique(positions[is_whole])),
        "by_evaluation": by_set,
    }
    if not detail.counts:
        described["line_numbers"] = (leaky + 1).tolist()
    if detail.examples:
        described["examples"] = [
            {
                "line": int(positions[hit]) + 1,
                "sentence": sentences[numbers[hit]],
                "is_whole": bool(is_whole[hit]),
            }
            for hit in range(min(detail.examples, len(positions)))
        ]
    return described


EMPTY = "·"

Cell = dict[str, Any]
"""Overlap of a training set and an evaluation split."""


def pairs_markdown(report: dict[str, Any]) -> str:
    """Return the tables of `audit_pairs`.

    Args:
        report: Output of `audit_pairs`.

    Returns:
        Markdown without a final line break.
    """
    threshold = report["near_threshold"]
    return "\n\n".join(
        [
            "# Leaks between training sets and evaluation splits",
            "Row: trained on, column: evaluated on. Numbers are evaluation rows, and their share of the split. "
            f"{EMPTY} is none, – means that one of the two has no pairs, or that labels mean different things. "
            "Compared after NFKC, lower case and folding white space. Sets without any leak are left out of a table.",
            "## The same pair, in either order",
            _matrix(report, lambda cell: cell["exact_pairs"]),
            f"## The same pair, or both sentences near duplicates (Jaccard of character trigrams ≥ {threshold:g})",
            _matrix(
                report,
                lambda cell: (
                    None if cell["exact_pairs"] is None else cell["exact_pairs"] + cell["near_pairs"]
                ),
            ),
            "## One of the sentences at least",
            _matrix(report, lambda cell: cell["exact_sentences"]),
            "## The same pair with another label",
            _matrix(report, lambda cell: cell["other_label"]),
            "## Training rows that a filtered run leaves out",
            _matrix(
                report, lambda cell: cell["train_rows"], of=lambda cell: report["sets"][cell["train"]]["rows"]
            ),
            "## Within one set",
            _sets(report),
            f"Without a file, and so not looked at: {', '.join(report['absent']) or 'none'}.",
            *_examples(report),
        ]
    )


def text_markdown(report: dict[str, Any]) -> str:
    """Return the tables of `audit_text`.

    Args:
        report: Output of `audit_text`.

    Returns:
        Markdown without a final line break.
    """
    texts = report["texts"]
    columns = [
        name for name in report["evaluation"] if any(name in text["by_evaluation"] for text in texts.values())
    ]
    summary = [
        [
            name,
            *(f"{text[key]:,}" for key in ("lines", "characters", "whole_lines", "leaky_lines")),
            _percent(text["leaky_lines"], text["lines"]) if text["leaky_lines"] else EMPTY,
        ]
        for name, text in texts.items()
    ]
    by_set = [
        [name, *(_lines_and_sentences(text["by_evaluation"].get(column)) for column in columns)]
        for name, text in texts.items()
        if text["by_evaluation"]
    ]
    quoted = [
        f"- {name}:{example['line']} {in_markdown(example['sentence'])}"
        for name, text in texts.items()
        for example in text.get("examples", ())
    ]
    return "\n\n".join(
        [
            "# Evaluation sentences in running text",
            "A line holds an evaluation sentence when it is nothing else, or when the sentence stands in it and has at "
            f"least {report['least_characters_inside_a_line']} characters (a Latin word or a number counts as two). "
            "Compared after NFKC, lower case and folding white space, without the punctuation around the sentence. "
            f"Looked for: {', '.join(report['evaluation'])}.",
            _table(["text", "lines", "characters", "nothing else", "leaky lines", "share"], summary),
            "## Lines (distinct sentences) by evaluation split",
            _table(["text", *columns], by_set) if by_set else "None.",
            *(["## Examples", "\n".join(quoted)] if quoted else []),
        ]
    )


def write_report(report: dict[str, Any], markdown: str, folder: Path, name: str) -> list[Path]:
    """Write <name>.json and <name>.md into a folder and return their paths.

    Args:
        report: Output of `audit_pairs` or `audit_text`.
        markdown: The same as tables.
        folder: Made if it is missing.
        name: Stem of both files.

    Returns:
        Paths of the two files.
    """
    texts = {f"{name}.json": _json_text(report), f"{name}.md": markdown + "\n"}
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        write_text(folder / file, text)
    return [folder / file for file in texts]


def _json_text(report: dict[str, Any]) -> str:
    """Return the report with one list entry per line, so that a changed cell is a changed line.

    Args:
        report: Output of `audit_pairs` or `audit_text`.
    """
    blocks = []
    for key, value in report.items():
        text, entries = json.dumps(value, ensure_ascii=False), []
        if isinstance(value, list):
            entries = [json.dumps(item, ensure_ascii=False) for item in value]
        elif isinstance(value, dict):
            entries = [
                f"{json.dumps(name)}: {json.dumps(item, ensure_ascii=False)}" for name, item in value.items()
            ]
        if entries:
            body = ",\n  ".join(entries)
            text = f"{text[0]}\n  {body}\n {text[-1]}"
        blocks.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def _matrix(
    report: dict[str, Any],
    value: Callable[[Cell], int | None],
    of: Callable[[Cell], int] = lambda cell: cell["rows"],
) -> str:
    cells = {(cell["train"], cell["evaluation"]): cell for cell in report["cells"]}
    leaky = {key for key, cell in cells.items() if value(cell)}
    rows = [name for name in report["train"] if any(train == name for train, _ in leaky)]
    columns = [name for name in report["evaluation"] if any(evaluation == name for _, evaluation in leaky)]
    if not leaky:
        return "None."
    body = [
        [row.removesuffix("/train"), *(_cell_text(cells.get((row, column)), value, of) for column in columns)]
        for row in rows
    ]
    return _table(["", *columns], body)


def _cell_text(cell: Cell | None, value: Callable[[Cell], int | None], of: Callable[[Cell], int]) -> str:
    if cell is None or (count := value(cell)) is None:
        return "–"
    return f"{count:,} ({_percent(count, of(cell))})" if count else EMPTY


def _percent(count: int, total: int) -> str:
    share = 100 * count / total
    return f"{share:.0f} %" if share >= 9.5 else f"{share:.1f} %" if share >= 0.05 else "<0.1 %"


def _sets(report: dict[str, Any]) -> str:
    keys = ("rows", "faulty_rows", "repeated_rows", "contradictory_pairs", "contradictory_rows")
    body = [
        [name, *(f"{facts[key]:,}" if facts.get(key) is not None else "–" for key in keys)]
        for name, facts in report["sets"].items()
    ]
    columns = ("rows", "faulty rows", "rows repeating a pair", "pairs with several labels", "rows of these")
    return _table(["set", *columns], body)


def _examples(report: dict[str, Any]) -> list[str]:
    quoted = []
    for cell in report["cells"]:
        for example in cell.get("examples", ()):
            kind = "same" if example["is_exact"] else "near"
            quoted.append(
                f"- {cell['train']} → {cell['evaluation']}, {kind}: {in_markdown(str(example['train']))} | "
                f"{in_markdown(str(example['evaluation']))}"
            )
    for name, facts in report["sets"].items():
        quoted += [
            f"- {name}, several labels: {in_markdown(str(group))}" for group in facts.get("examples", ())
        ]
    return ["## Examples", "\n".join(quoted)] if quoted else []


def _table(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    rule = ["---"] + ["---:"] * (len(header) - 1)
    return "\n".join(f"| {' | '.join(map(in_markdown, row))} |" for row in [header, rule, *body])


def _lines_and_sentences(entry: dict[str, int] | None) -> str:
    return f"{entry['lines']:,} ({entry['sentences']:,})" if entry else EMPTY
