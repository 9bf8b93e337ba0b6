"""Several files as one split: their rows one after another."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from juzhen.core.errors import UserError
from juzhen.core.examples import Examples
from juzhen.data.spec import DatasetConfig, LayoutConfig


def parts_of(config: DatasetConfig, layout: LayoutConfig, split: str) -> list[DatasetConfig]:
    """The dataset once for each file of a split that lists several; no promise of rows binds a part."""
    return [
        replace(config, rows={}, layouts={config.layout: replace(layout, rows=None, files={split: path})})
        for path in layout.files[split]
    ]


def joined(
    parts: Sequence[Examples | None], paths: Sequence[str], *, split: str, key: str, required: bool
) -> Examples | None:
    """The rows of all parts; None when a part has no file: a set with a part missing is another set.

    Line numbers are those of the part that a row is from. Raises UserError for a `required` split of which only some
    files are there.
    """
    missing = [path for path, part in zip(paths, parts, strict=True) if part is None]
    if missing and required and len(missing) < len(parts):
        raise UserError(
            f"{key}: {split} is read from {len(parts)} files, and {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not there; fetch what is missing, or choose another layout: "
            f"{key}.layout=…"
        )
    there = [part for part in parts if part is not None]
    if len(there) < len(parts):
        return None
    first = there[0]
    fingerprints = "".join(part.fingerprint for part in there)
    return Examples.from_texts(
        first.name,
        split,
        kind=first.kind,
        texts={column: [text for part in there for text in part.texts(column)] for column in first.columns},
        targets=None if first.targets is None else np.concatenate([part.targets for part in there]),
        fingerprint=hashlib.blake2b(fingerprints.encode(), digest_size=16).hexdigest(),
        num_dropped=sum(part.num_dropped for part in there),
        lines=np.concatenate([part.lines for part in there]),
        num_classes=first.num_classes,
    )
