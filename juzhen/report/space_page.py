"""The page and the picture of an embedding analysis: maps with texts, numbers, word overlap and cosines."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from juzhen.core.atomic_write import write_text
from juzhen.core.space import TITLES, EmbeddingAnalysis, WordPairs
from juzhen.report.html_shell import part, render
from juzhen.report.table import MISSING, Words

SCRIPTS = ("page.js", "figure.js", "space.js", "tables.js")
"""Files that form one program, in order."""
PAGE, PICTURE = "index.html", "space.svg"

SERIES = ("#1261a8", "#c2410c", "#2f7d4f", "#7b4bb3", "#8a6d00", "#0e7c86")
SHAPES = ("circle", "square", "triangle", "diamond")
"""A group has a colour and a shape, so this many groups can be distinguished."""
OTHERS = "others"

ROOM, GAP = 420, 24
"""Pixels of a map in the picture, and between two maps."""


def write_space(space: EmbeddingAnalysis, folder: str | Path) -> list[Path]:
    """Write the page and the picture into a folder.

    Args:
        space: The analysis.
        folder: Folder for index.html and space.svg.

    Returns:
        The paths.
    """
    folder = Path(folder)
    paths = {folder / PAGE: html(space), folder / PICTURE: svg(space)}
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in paths.items():
        write_text(path, text)
    return list(paths)


def number_text(value: float | int | None) -> str:
    """Format a metric.

    Args:
        value: Number, or None for a missing one.

    Returns:
        Integers with commas, other numbers with four significant digits, or MISSING.
    """
    if value is None:
        return MISSING
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _sample_text(space: EmbeddingAnalysis) -> str:
    """Describe the sample: `1,000 of 2,010 texts of tnews (test), seed 42`."""
    parts = [
        f"{taken:,} of {of:,} texts of {name}" if taken < of else f"{taken:,} texts of {name}"
        for name, (taken, of) in space.sample.items()
    ]
    return f"{', '.join(parts)}, seed {space.seed}"


def html(space: EmbeddingAnalysis) -> str:
    """Write the page of an analysis.

    Args:
        space: Embeddings of some texts.

    Returns:
        HTML that needs no other file.
    """
    labels, data = _run_labels(space), _page_data(space)
    tables = [
        (
            name,
            [
                (measure, [number_text(numbers.get(measure)) for numbers in of_runs], meaning)
                for measure, meaning in space.meanings.items()
                if any(numbers.get(measure) is not None for numbers in of_runs)
            ],
            [
                (space.meanings[measure], number_text(value))
                for measure, value in space.together.get(name, {}).items()
            ],
        )
        for name, of_runs in reversed(space.numbers.items())
    ]
    return render(
        "space.html",
        scripts=SCRIPTS,
        words=_words(data),
        title=f"The space of {' and '.join(labels)}",
        maker="juzhen space",
        first=("maps", "To the maps"),
        panel="One text",
        counts=[f"{_sample_text(space)}."],
        labels=labels,
        runs=space.runs,
        tables=tables,
        data=data,
    )


def _words(data: dict[str, Any]) -> Words:
    """Texts of the scripts, and texts that these show."""
    words = Words(*map(part, SCRIPTS))
    notes = [note for notes in data["notes"].values() for note in notes]
    for text in dict.fromkeys(
        [data["colour"], OTHERS, *notes, *(pairs["are"] for pairs in data["pairs"].values())]
    ):
        words.say(text)
    for name in (*data["spectra"], *data["pairs"]):
        words.say(name, name=True)
    return words


def _run_labels(space: EmbeddingAnalysis) -> list[str]:
    """Last part of each name, or whole names if these are equal."""
    short = [name.rstrip("/").rpartition("/")[2] for name in space.runs]
    short = [
        f"start of {label}" if name.startswith("start of ") else label
        for name, label in zip(space.runs, short, strict=True)
    ]
    return short if len(set(short)) == len(short) else list(space.runs)


def _page_data(space: EmbeddingAnalysis) -> dict[str, Any]:
    """Data for the script: places between −0.5 and 0.5, on one scale for both maps of a projection."""
    groups, names = shown_groups(space)
    return {
        "runs": _run_labels(space),
        "texts": list(space.texts),
        "groups": groups.tolist(),
        "names": names,
        "rest": names.index(OTHERS) if len(names) < len(space.group_names) else None,
        "colour": space.colour,
        "maps": {
            method: {
                "title": TITLES[method],
                "places": [points.T.round(4).tolist() for points in scaled(maps)],
            }
            for method, maps in space.maps.items()
        },
        "shares": [None if share is None else f"{100 * share:.1f} %" for share in space.shares],
        "nearest": [numbers.tolist() for numbers in space.nearest],
        "spectra": {
            name: [np.round(numbers["spectrum"], 5).tolist() for numbers in of_runs]
            for name, of_runs in reversed(space.numbers.items())
        },
        "pairs": {name: _plain_pairs(pairs) for name, pairs in space.pairs.items()},
        "notes": {name: [_overlap_note(numbers) for numbers in space.numbers[name]] for name in space.pairs},
    }


def shown_groups(space: EmbeddingAnalysis) -> tuple[np.ndarray, list[str]]:
    """Return the group of each text, and the names of the groups.

    Args:
        space: Embeddings of some texts.

    Returns:
        Indices into the names (texts,), and the names. The smallest of too many groups are joined.
    """
    most = len(SERIES) * len(SHAPES)
    if len(space.group_names) <= most:
        return space.groups, list(space.group_names)
    largest = [number for number, _ in Counter(space.groups.tolist()).most_common(most - 1)]
    place = {number: position for position, number in enumerate(sorted(largest))}
    groups = np.array([place.get(number, most - 1) for number in space.groups.tolist()])
    return groups, [*(space.group_names[number] for number in place), OTHERS]


def scaled(maps: Any) -> list[np.ndarray]:
    """Centre maps at 0, and scale the larger side of the largest to 1.

    Args:
        maps: An array (texts, 2) for each encoder.

    Returns:
        New arrays, whose values are between −0.5 and 0.5.
    """
    middles = [(points.max(axis=0) + points.min(axis=0)) / 2 for points in maps]
    size = max(float(np.ptp(points, axis=0).max()) for points in maps) or 1.0
    return [(points - middle) / size for points, middle in zip(maps, middles, strict=True)]


def svg(space: EmbeddingAnalysis) -> str:
    """Draw all maps: a row for each projection, a column for each encoder.

    Args:
        space: Embeddings of some texts.

    Returns:
        The picture as text.
    """
    groups, names = shown_groups(space)
    styles = [(SERIES[number % len(SERIES)], SHAPES[number // len(SERIES)]) for number in range(len(names))]
    width, foot = GAP + len(space.runs) * (ROOM + GAP), 64 + len(space.maps) * (ROOM + GAP + 20)
    beside = width // 215
    panels = []
    for row, (method, maps) in enumerate(space.maps.items()):
        for column, points in enumerate(scaled(maps)):
            left, top = GAP + column * (ROOM + GAP), 64 + row * (ROOM + GAP + 20)
            places = (points * [1, -1] + 0.5) * (ROOM - 20) + [left + 10, top + 10]
            title = f"{_run_labels(space)[column]}, {TITLES[method]}"
            panels.append(
                (left, top, title, list(zip(places.round(1).tolist(), groups.tolist(), strict=True)))
            )
    return render(
        "space.svg",
        width=width,
        height=foot + 20 * -(-len(names) // beside),
        foot=foot,
        room=ROOM,
        note=_sample_text(space),
        panels=panels,
        legend=[
            (GAP + 215 * (number % beside), 20 * (number // beside), name, number)
            for number, name in enumerate(names)
        ],
        styles=styles,
    )


def _plain_pairs(pairs: WordPairs) -> dict[str, Any]:
    return {
        "rows": pairs.rows.tolist(),
        "overlap": pairs.overlap.astype(float).round(4).tolist(),
        "cosines": [cosines.astype(float).round(4).tolist() for cosines in pairs.cosines],
        "close": None if pairs.grades is None else (pairs.grades > 0.5).astype(int).tolist(),
        "are": pairs.are,
    }


def _overlap_note(numbers: Any) -> str:
    parts = [
        ("overlap_cosine", "overlap and cosine"),
        ("overlap_gold", "overlap and gold"),
        ("cosine_gold", "cosine and gold"),
    ]
    text = ", ".join(f"{words} {number_text(numbers.get(key))}" for key, words in parts if key in numbers)
    beyond = numbers.get("beyond_overlap")
    return f"Spearman: {text}." + (
        f" Beyond word overlap: {number_text(beyond)}." if beyond is not None else ""
    )
