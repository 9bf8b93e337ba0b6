"""Parquet and Arrow files as columns, read by pyarrow; a column is decoded when it is asked for.

`datasets` reads the same files through the same library, and copies a parquet file into a cache of its own before:
`docs/guides/data.md` has the seconds and the memory of both.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from juzhen.core.errors import UserError
from juzhen.core.texts import short

if TYPE_CHECKING:
    from mmap import mmap

    import pyarrow
    from pyarrow import parquet

COLUMNAR = (".parquet", ".arrow", ".feather")
ARROW_FILE = b"ARROW1"
"""How an Arrow file begins, and `to_feather`'s; what `Dataset.save_to_disk` writes is a stream without it."""

MOST_ROWS_PER_BYTE = 64
"""More rows than that are a few values repeated without end: some kilobytes of parquet can be 10^9 rows."""


@dataclass(frozen=True)
class Column:
    """A column that is decoded when it is asked for: others of the file may be large, such as embeddings."""

    path: Path
    decode: "Callable[[], pyarrow.ChunkedArray]"

    def to_pylist(self) -> list[Any]:
        with _told(self.path):
            return self.decode().to_pylist()


@dataclass(frozen=True)
class ColumnarFile:
    """What a file says of its columns, before one is decoded.

    classes  column → names of its class numbers, where `datasets` has written them beside
    """

    names: list[str]
    columns: list[Column]
    num_rows: int
    classes: dict[str, list[str]]


def read_columnar(path: Path, kind: str, content: "bytes | mmap") -> ColumnarFile:
    """The columns of a file, none of them decoded yet.

    kind  of COLUMNAR

    Raises UserError for a file that is none of its kind, and for one with more rows than texts fit in.
    """
    import pyarrow
    from pyarrow import parquet

    source, size = pyarrow.BufferReader(content), len(content)
    with _told(path):
        if kind == ".parquet":
            file = parquet.ParquetFile(source)
            schema, num_rows = file.schema_arrow, file.metadata.num_rows
            decode = partial(_of_parquet, file)
        else:
            is_file = content[: len(ARROW_FILE)] == ARROW_FILE
            table = (pyarrow.ipc.open_file if is_file else pyarrow.ipc.open_stream)(source).read_all()
            schema, num_rows = table.schema, table.num_rows
            decode = partial(_of_arrow, table)
    if num_rows > MOST_ROWS_PER_BYTE * size:
        raise UserError(f"{path}: {num_rows:,} rows in {size:,} bytes, which no text fits in; is it damaged?")
    columns = [Column(path, partial(decode, position)) for position in range(len(schema.names))]
    return ColumnarFile(schema.names, columns, num_rows, _classes(schema.metadata or {}))


def _of_parquet(file: "parquet.ParquetFile", position: int) -> "pyarrow.ChunkedArray":
    names = file.schema_arrow.names
    if names.count(names[position]) > 1:
        return file.read().column(position)
    return file.read(columns=[names[position]]).column(names[position])


def _of_arrow(table: "pyarrow.Table", position: int) -> "pyarrow.ChunkedArray":
    column = table.column(position)
    column.validate(full=True)  # numbers of a strange file may point outside of it
    return column


def _classes(metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
    try:
        features = json.loads(metadata.get(b"huggingface", b"{}"))["info"]["features"]
        return {
            name: list(map(str, feature["names"]))
            for name, feature in features.items()
            if feature.get("_type") == "ClassLabel"
        }
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}  # it says nothing that can be read: class numbers stay numbers


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Raises UserError with the file for what pyarrow raises."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError, ValueError, MemoryError) as error:
        reason = short(" ".join(str(error).split()), 200)
        raise UserError(f"{path}: damaged, or not of the format that its name says ({reason})") from error
