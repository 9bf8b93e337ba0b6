"""The texts that a study of a space looks at: samples of described sets and of files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from juzhen.core.aliases import require_set
from juzhen.core.errors import UserError
from juzhen.data.audit.sources import ConfiguredSets
from juzhen.data.configured import read_description
from juzhen.data.probe import Probe
from juzhen.data.readers import suffix_of
from juzhen.data.row_kinds import guess, read_raw
from juzhen.data.tables import text_values
from juzhen.data.verify import listed
from juzhen.evaluation.space import TextSet

SPLITS = ("dev", "test", "train")
"""In the order in which they are looked for."""


def read_text_sets(
    names: Sequence[str], sets: ConfiguredSets, *, split: str | None, most: int, seed: int
) -> list[TextSet]:
    """A sample of each set, or file, of at most `most` texts. Raises UserError for what is neither.

    names  sets that have a description; files with one text per line (.txt), or tables with a column `text`, and
           `label` where there are classes
    """
    chosen = []
    for name in names:
        if name in sets.files:
            chosen.append(_described(name, sets, split=split, most=most, seed=seed))
        elif Path(name).suffix:
            chosen.append(_of_file(Path(name), most=most, seed=seed))
        else:
            require_set("--data", name, sets.files)
    return chosen


def _described(name: str, sets: ConfiguredSets, *, split: str | None, most: int, seed: int) -> TextSet:
    splits = sets.splits(name, [split] if split else SPLITS, option="--data ")
    rows = next(rows for _, rows in splits if rows is not None)
    labels: dict[int, str] = {}
    for word, number in (read_description(sets.files[name]).labels or {}).items():
        labels.setdefault(number, word)  # a file may write a class in several ways; the first is its name
    probe = Probe.of(rows, num_sentences=most, seed=seed)
    names = [labels.get(number, f"class {number}") for number in range(max(labels, default=-1) + 1)]
    return TextSet(f"{name} ({rows.split})", probe, len(rows.sentences), names)


def _of_file(path: Path, *, most: int, seed: int) -> TextSet:
    classes, names = None, list[str]()
    if suffix_of(path) == ".txt":
        texts = [line for line in text_values(path) if line.strip()]
    else:
        raw = read_raw(path)
        columns: dict[str, str] = {name: name for name in ("text", "label") if name in raw.names}
        if "text" not in columns:
            found = guess(raw)
            if "text" not in found.columns:
                raise UserError(
                    f"--data {path}: no column `text`, but {listed(raw.names)}; name the columns text and label"
                )
            columns = found.columns
        cells = raw.cells[[*columns.values()]].set_axis([*columns], axis=1)
        cells = cells[cells["text"] != ""].drop_duplicates("text")
        texts = cells["text"].tolist()
        if "label" in cells:
            label_names, classes = np.unique(cells["label"], return_inverse=True)
            names = label_names.tolist()
    if classes is None:
        texts = list(dict.fromkeys(texts))
    probe = Probe.of_texts(texts, num_sentences=most, seed=seed, classes=classes)
    return TextSet(path.name, probe, len(texts), names)
