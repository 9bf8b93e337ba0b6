"""Lines of running text that hold evaluation sentences, and which sets these are from."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from juzhen.core.examples import Examples
from juzhen.core.progress import progress_bar
from juzhen.data.audit.pairs import FORMAT_VERSION, Detail, name_of
from juzhen.data.leaks.filter import used_sentences
from juzhen.data.leaks.text import LEAST_INSIDE, SentenceSearch


def audit_text(
    sources: Mapping[str, Sequence[str]], evaluation: Sequence[Examples], *, detail: Detail
) -> dict[str, Any]:
    """The report: per text how many lines hold evaluation sentences, altogether and by evaluation split."""
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
        texts[_short(name)] = _describe(lines, hits, sentences, owners, evaluation, detail)
    return {
        "format_version": FORMAT_VERSION,
        "what": "lines of running text that hold evaluation sentences",
        "least_characters_inside_a_line": LEAST_INSIDE,
        "evaluation": {
            name_of(examples): {
                "rows": len(examples),
                "sentences": owner.count(position),
                "fingerprint": examples.fingerprint,
            }
            for position, examples in enumerate(evaluation)
        },
        "texts": texts,
    }


def _short(name: str) -> str:
    """The file name alone: where it lies is no one's business."""
    return name.rsplit("/", 1)[-1] if name.endswith((".txt", ".zst", ".gz")) else name


def _describe(
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
            by_set[name_of(examples)] = {
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
