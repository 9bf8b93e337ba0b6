"""The texts that a study of a space looks at: samples of described sets and of files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from juzhen.core.errors import UserError, nearest
from juzhen.data.audit.sources import TEXT_SUFFIXES, ConfiguredSets, text_lines
from juzhen.data.configured import read_description
from juzhen.data.probe import Probe
from juzhen.data.sniff import read_raw
from juzhen.evaluation.space import TextSet

SPLITS = ("dev", "test", "train")
"""In the order in which they are looked for."""


def read_text_sets(
    names: Sequence[str], sets: ConfiguredSets, *, split: str | None, most: int, seed: int
) -> list[TextSet]:
    """A sample of each set, or file, of at most `most` texts. Raises UserError for what is neither, or holds no text.

    names  sets that have a description; files with one text per line (.txt), or tables with a column `text`, and
           `label` where there are classes
    """
    if twice := [name for number, name in enumerate(names) if name in names[:number]]:
        raise UserError(f"--data: {twice[0]} is there twice")
    chosen = []
    for name in names:
        if name in sets.files:
            chosen.append(_described(name, sets, split=split, most=most, seed=seed))
        elif Path(name).suffix:
            chosen.append(_of_file(Path(name), most=most, seed=seed))
        else:
            raise UserError(f"--data {name}: no set of conf/dataset and no file; {nearest(name, sets.files)}")
    return chosen


def _described(name: str, sets: ConfiguredSets, *, split: str | None, most: int, seed: int) -> TextSet:
    splits = sets.splits(name, [split] if split else SPLITS, option="--data ")
    rows = next(rows for _, rows in splits if rows is not None)
    words: dict[int, str] = {}
    for word, number in (read_description(sets.files[name]).labels or {}).items():
        words.setdefault(number, word)  # a file may write a class in several ways; the first is its name
    probe = Probe.of(rows, num_sentences=most, seed=seed)
    names = [words.get(number, f"class {number}") for number in range(max(words, default=-1) + 1)]
    return TextSet(f"{name} ({rows.split})", probe, len(rows.sentences), names)


def _of_file(path: Path, *, most: int, seed: int) -> TextSet:
    classes, names = None, list[str]()
    if path.name.endswith(TEXT_SUFFIXES):
        texts = [line for line in text_lines(path, option="--data") if line.strip()]
    else:
        if not path.is_file():
            raise UserError(f"--data {path}: no such file")
        cells = read_raw(path, header=True).cells
        if "text" not in cells:
            raise UserError(
                f"--data {path}: no column `text`, but {', '.join(map(str, cells))}; name the columns text and label"
            )
        cells = cells[cells["text"].str.strip() != ""].drop_duplicates("text")
        texts = cells["text"].tolist()
        if "label" in cells:
            found, classes = np.unique(cells["label"], return_inverse=True)
            names = found.tolist()
    if classes is None:
        texts = list(dict.fromkeys(texts))
    if not texts:
        raise UserError(f"--data {path}: holds no text")
    probe = Probe.of_texts(texts, num_sentences=most, seed=seed, classes=classes)
    return TextSet(path.name, probe, len(texts), names)
