"""Source: one split of one dataset, from the place that was named, verified row by row."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from juzhen.core.errors import UserError, require_choice
from juzhen.core.examples import JUDGED, Examples, Kind
from juzhen.data.files import BUILTIN_DATA, on_disk, present_forms
from juzhen.data.foreign_rows import as_fields
from juzhen.data.hub import read_hub
from juzhen.data.judgements import judged, kind_of_rows
from juzhen.data.rankings import as_retrieval
from juzhen.data.readers import FileTable, decompressed, read_table
from juzhen.data.spec import DatasetConfig, Source, SplitRequest
from juzhen.data.text import load_text
from juzhen.data.verify import verified
from juzhen.data.views import with_equal_columns

ROW_POLICIES = ("error", "drop")


def load_examples(
    config: DatasetConfig,
    split: str,
    *,
    source: str,
    data_dir: str | Path,
    on_bad_row: str,
    required: bool = False,
    group: str = "dataset",
) -> Examples | None:
    """The rows of one split, verified; None when there is no file for it.

    source      builtin, local or hub; the dataset's own `source` goes before it; nothing else is tried
    data_dir    folder that the paths of a layout start from, for source=local
    on_bad_row  error: the first faulty row stops the job · drop: faulty rows are left out and counted
    required    a missing split is a UserError that says where it was looked for
    group       dataset or evaluate: where the set stands in the configuration, for what messages say to type

    A promise of rows binds files only: a hub dataset has the rows of its pinned revision.
    """
    return _loaded(
        SplitRequest(config, split, config.source or source, data_dir, on_bad_row, required, group)
    )


def _loaded(request: SplitRequest) -> Examples | None:
    """The verified rows, which know whether their pairs may be turned round; None as in `load_examples`."""
    examples = _rows(request)
    if examples is None:
        return None
    by_kind = False if examples.kind in JUDGED and examples.symmetric is None else examples.symmetric
    return replace(
        examples, symmetric=by_kind if request.config.symmetric is None else request.config.symmetric
    )


def _rows(request: SplitRequest) -> Examples | None:
    config, split, key = request.config, request.split, request.key
    require_choice("source", request.source, [member.value for member in Source])
    require_choice("on_bad_row", request.on_bad_row, ROW_POLICIES)
    if config.kind in JUDGED and (kind := kind_of_rows(_columns(config, request.source))):
        pairs = _loaded(replace(request, config=replace(config, kind=kind)))
        return None if pairs is None else _judged_pairs(pairs, Kind(config.kind))
    if request.source == Source.HUB:
        return _from_hub(request)
    folder = BUILTIN_DATA if request.source == Source.BUILTIN else Path(request.data_dir).expanduser()
    require_choice(f"{key}.layout", config.layout, config.layouts)
    layout = request.layout
    if layout.window is not None:
        return _text_from_file(request, folder)
    if not isinstance(layout.files.get(split), list):
        return _from_file(request, folder)
    if config.kind in JUDGED:
        raise UserError(f"{key}: {split} lists several files; the judgements of a {config.kind} are in one")
    parts = [_loaded(replace(request, config=part, required=False)) for part in parts_of(request)]
    rows = joined(parts, request)
    if rows is None and request.required:
        raise UserError(_absence(request, split, folder))
    return rows


def _columns(config: DatasetConfig, source: str) -> Mapping[str, Any]:
    """Which fields the rows of a set fill; nothing where the layout is not there, which others tell of."""
    if source == Source.HUB:
        return config.on_hub.columns if config.on_hub else {}
    return config.layouts[config.layout].columns if config.layout in config.layouts else {}


def _judged_pairs(pairs: Examples, kind: Kind) -> Examples:
    """Pairs as judgements; where documents are only put in order, each query has those that it is judged with."""
    retrieval = as_retrieval(pairs)
    return retrieval if kind is Kind.RETRIEVAL else replace(retrieval, kind=kind, documents=None)


def parts_of(request: SplitRequest) -> list[DatasetConfig]:
    """The dataset once for each file of a split that lists several; no promise of rows binds a part."""
    config, layout, split = request.config, request.layout, request.split
    return [
        replace(config, rows={}, layouts={config.layout: replace(layout, rows=None, files={split: path})})
        for path in layout.files[split]
    ]


def joined(parts: Sequence[Examples | None], request: SplitRequest) -> Examples | None:
    """The rows of all parts; None when a part has no file: a set with a part missing is another set.

    Line numbers are those of the part that a row is from. Raises UserError for a `required` split of which only some
    files are there.
    """
    split, key, paths = request.split, request.key, request.layout.files[request.split]
    missing = [path for path, part in zip(paths, parts, strict=True) if part is None]
    if missing and request.required and len(missing) < len(parts):
        raise UserError(
            f"{key}: {split} is read from {len(parts)} files, and {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not there; fetch what is missing, or choose another layout: "
            f"{key}.layout=…"
        )
    present = [part for part in parts if part is not None]
    if len(present) < len(parts):
        return None
    first = present[0]
    fingerprints = "".join(part.fingerprint for part in present)
    if first.kind is Kind.TRIPLET:
        present = with_equal_columns(present)
        first = present[0]
    return Examples.from_texts(
        first.name,
        split,
        kind=first.kind,
        texts={column: [text for part in present for text in part.texts(column)] for column in first.columns},
        targets=None if first.targets is None else np.concatenate([part.targets for part in present]),
        fingerprint=hashlib.blake2b(fingerprints.encode(), digest_size=16).hexdigest(),
        num_dropped=sum(part.num_dropped for part in present),
        lines=np.concatenate([part.lines for part in present]),
        num_classes=first.num_classes,
        teacher_scores=None
        if first.teacher_scores is None
        else np.concatenate([part.teacher_scores for part in present]),
        missing=None if first.missing is None else np.concatenate([part.missing for part in present]),
    )


def _from_hub(request: SplitRequest) -> Examples | None:
    config, hub, split = request.config, request.config.on_hub, request.split
    if hub is None or split not in hub.splits:
        if request.required or hub is None:
            reason = f"{hub.id} has only {', '.join(hub.splits)}" if hub else "this set is on no hub"
            raise UserError(
                f"{config.name}/{split}: {reason}; choose {request.key}.source=local, data_dir=<folder>"
            )
        return None
    table = read_hub(config.name, hub, split)
    if config.kind not in JUDGED:
        return verified(table, request, columns=hub.columns)

    def part(name: str) -> FileTable:
        subset = replace(hub, subset=name, splits={name: hub.splits.get(name, hub.splits[split])})
        return read_hub(config.name, subset, name)

    return judged(table, part, request, columns=hub.columns)


def _from_file(request: SplitRequest, folder: Path) -> Examples | None:
    config, layout = request.config, request.layout
    path = _file(request, request.split, folder, required=request.required)
    if path is None:
        return None
    promised = (config.rows if layout.rows is None else layout.rows).get(request.split)
    table, columns = read_table(path, header=layout.header, quoted=layout.quoted), layout.columns
    if layout.format is not None:
        options: Any = {"num_negatives": layout.negatives, "teacher_scores": layout.teacher_scores}
        table = as_fields(table, layout.format, Kind(config.kind), **options)
        columns = {name: name for name in table.names or ()}
    if config.kind not in JUDGED or layout.format is not None:
        return verified(table, request, columns=columns, promised=promised)

    def part(name: str) -> FileTable:
        path = _file(request, name, folder, required=True)
        assert path is not None  # or it is a UserError
        return read_table(path, header=layout.header, quoted=layout.quoted)

    return judged(table, part, request, columns=layout.columns, promised=promised)


def _text_from_file(request: SplitRequest, folder: Path) -> Examples | None:
    """The windows of a plain-text file; dev is held out from the train file where it has no file of its own."""
    layout, split = request.layout, request.split
    dev = _file(request, "dev", folder, required=False)
    holds_out = dev is None and layout.held_out_percent > 0 and split in ("train", "dev")
    path = _file(request, "train" if holds_out else split, folder, required=request.required)
    return None if path is None else load_text(path, request, holds_out=holds_out)


def _file(request: SplitRequest, split: str, folder: Path, *, required: bool) -> Path | None:
    """Where the split lies; None when it has no file and may do without."""
    named = request.layout.files.get(split)
    if not folder.is_dir() and not (named and Path(named).is_absolute()):
        raise UserError(
            f"data_dir={folder}: no such folder; choose data_dir=<folder that holds the data sets>"
        )
    path = on_disk(folder / named) if named else None
    if path is None and required:
        raise UserError(_absence(request, split, folder))
    if path is None:
        return None
    for other in present_forms(path):
        if other != path and decompressed(other) != decompressed(path):
            raise UserError(
                f"{path}: {other.name} lies beside it and holds something else, so it is not clear which is meant; "
                "keep only one"
            )
    return path


def _absence(request: SplitRequest, split: str, folder: Path) -> str:
    """Where a required split was looked for, and what to type."""
    config, layout, key = request.config, request.layout, request.key
    named = layout.files.get(split)
    named = named[0] if isinstance(named, list) else named
    looked_for = (
        f"there is no file {folder / named}"
        if named
        else f"its layout {config.layout} names no such file (only {', '.join(layout.files)})"
    )
    layouts = [name for name in config.layouts if name != config.layout]
    ways = [f"choose data_dir=<folder that holds {named}>"] if named else []
    ways += [f"{key}.layout={name}" for name in layouts]
    ways += [f"{key}.source=hub"] if config.on_hub and split in config.on_hub.splits else []
    ways += [] if named else [f"name it in {key}.layouts.{config.layout}.files.{split}=<path>"]
    return f"{config.name}/{split}: {looked_for}; {', or '.join(ways)}"
