"""Files as columns: tsv, csv, JSON lines, parquet and Arrow, each also compressed.

The suffix decides: .tsv .txt .csv .json .jsonl .parquet .arrow .feather, with .zst or .gz behind it or not; what is
packed unpacks to no more than a text can hold. Nothing is guessed from the content, no text is taken for a missing
value, and every row knows its line, which the readers of pyarrow do not tell of rows that cannot be read.
"""

import csv
import gzip
import io
import itertools
import json
import mmap
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zstandard

from juzhen.core.errors import UserError
from juzhen.core.paths import BUILTIN
from juzhen.core.safe_open import open_regular_file
from juzhen.core.text import short
from juzhen.data.spec import Source

if TYPE_CHECKING:
    from mmap import mmap

    import pyarrow
    from pyarrow import parquet


BUILTIN_DATA = BUILTIN / "data"
COMPRESSIONS = (".zst", ".gz")


def on_disk(path: Path) -> Path | None:
    """The file, compressed as it is named or otherwise; None when it is not there.

    Raises UserError when only other forms are there, and more than one.
    """
    if path.exists():
        return path
    present = present_forms(path)
    if len(present) > 1:
        raise UserError(
            f"{path}: not there, but {' and '.join(form.name for form in present)} are; keep only one"
        )
    return present[0] if present else None


def present_forms(path: Path) -> list[Path]:
    """The files that are there under that name, packed or not."""
    plain = path.with_suffix("") if path.suffix in COMPRESSIONS else path
    forms = [plain, *(plain.with_name(plain.name + suffix) for suffix in COMPRESSIONS)]
    return [form for form in forms if form.exists()]


def has_split(described: Mapping[str, Any], split: str, *, source: str, data_dir: str | Path) -> bool:
    """Whether a split can be read now: all of its files are there, or the hub has it.

    described  a DatasetConfig as plain containers
    source     the job's; the set's own goes before it

    Opens no file. Raises UserError where it is not clear which file is meant.
    """
    if (described.get("source") or source) == Source.HUB:
        return split in ((described.get("hub") or {}).get("splits") or {})
    paths = _found(described, split, source=source, data_dir=data_dir)
    return bool(paths) and all(paths)


def files_of(
    described: Mapping[str, Any], split: str, *, source: str, data_dir: str | Path
) -> list[Path] | None:
    """The files that a split is read from; None where one of them is missing, or it is read from the hub.

    Arguments and errors: as `has_split`. A dev split that is held out of the lines of train is read from that file.
    """
    if (described.get("source") or source) == Source.HUB:
        return None
    paths = _found(described, split, source=source, data_dir=data_dir)
    if not paths and split == "dev":
        paths = _found(described, "train", source=source, data_dir=data_dir)
    present = [path for path in paths if path is not None]
    return present if paths and len(present) == len(paths) else None


def _found(
    described: Mapping[str, Any], split: str, *, source: str, data_dir: str | Path
) -> list[Path | None]:
    """Where each file of a split lies, None for one that is missing; empty where the layout names none."""
    is_builtin = (described.get("source") or source) == Source.BUILTIN
    folder = BUILTIN_DATA if is_builtin else Path(data_dir).expanduser()
    layout = described["layouts"].get(described["layout"]) or {}
    files = layout.get("files") or {}
    named = files.get(split) or []
    named = [named] if isinstance(named, str) else named
    beside = [files[part] for part in ("queries", "corpus") if part in files] if named else []
    return [on_disk(folder / path) for path in (*named, *beside)]


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


LONGEST_LINE = 2**24
"""Characters of a line, 16 million: a text of a book's length. What is longer has no line ends, or is no table."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MARKS = {b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
"""How files of other encodings begin; the longer first, since that of UTF-32 begins like that of UTF-16."""


def decompressed(path: Path) -> bytes:
    """The bytes of the file, unpacked; a file cut short is an error, not a short file."""
    with open_regular_file(path) as file:
        raw = file.read()
    suffix = path.suffix.lower()
    if suffix not in COMPRESSIONS:
        return raw
    try:
        return _unzstd(raw) if suffix == ".zst" else gzip.decompress(raw)
    except (EOFError, OSError, zlib.error, zstandard.ZstdError) as error:
        reason = "the compressed file is cut short" if isinstance(error, EOFError) else f"damaged ({error})"
        raise UserError(f"{path}: {reason}, or not compressed as its suffix says; fetch it again") from error


def mapped(path: Path) -> mmap.mmap:
    """The file's bytes, of which only those that are looked at take room. Errors: as `decompressed`."""
    with open_regular_file(path) as file:
        if not os.fstat(file.fileno()).st_size:
            raise UserError(f"{path}: the file is empty")
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def require_utf8(path: Path, start: bytes) -> None:
    """Raises UserError where a file, which begins so, is UTF-16 or UTF-32 by its mark, as spreadsheets write it."""
    if encoding := next((name for mark, name in MARKS.items() if start.startswith(mark)), None):
        raise UserError(
            f"{path}: this is {encoding.upper()}, and UTF-8 is expected; convert it: iconv -f {encoding} -t utf-8"
        )


def undecodable_lines(raw: bytes, *, first_line: int = 1) -> dict[int, str]:
    """Line → the first byte of it that is not UTF-8."""
    faults = {}
    for number, line in enumerate(raw.split(b"\n"), start=first_line):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            faults[number] = (
                f"byte {error.start + 1} of the line is 0x{line[error.start]:02x}, which is not UTF-8; "
                "a GBK file is converted by `iconv -f gb18030 -t utf-8`"
            )
    return faults


def _unzstd(raw: bytes) -> bytes:
    """All frames of a zstd file, one by one: the stream reader takes a truncated file for a short one."""
    parts = []
    while raw:
        frame = zstandard.ZstdDecompressor().decompressobj()
        parts.append(frame.decompress(raw))
        if not frame.eof:
            raise EOFError
        raw = frame.unused_data
    return b"".join(parts)


DELIMITERS = {".tsv": "\t", ".txt": "\t", ".csv": ","}


@dataclass
class FileTable:
    """The rows of one file or hub split, column by column.

    place    what was read, for messages
    names    column names, None where the file has none
    columns  the values of each column, a sequence or what has `to_pylist`; a JSON field that a row lacks is None
    lines    int32 (rows,): line on which each row starts, 1-based; its number where there are no lines
    faults   line → why it could not become a row; such rows are not among the columns
    classes  column name → names of its class numbers, where the file has them
    needs_mark  whether its program takes a text for UTF-8 only where a byte order mark stands before it, as Excel does
    format   how the file is written, for people
    notes    what a person may know better, one sentence each
    delimiter, quoted  of a text table: the sign between cells, and whether cells are in quotes
    sheets   names of the sheets of an Excel file, that which was read first
    """

    place: str
    names: list[str] | None
    columns: Sequence[Any]
    lines: np.ndarray
    faults: dict[int, str] = field(default_factory=dict)
    has_lines: bool = True
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    needs_mark: bool = False
    format: str = ""
    notes: tuple[str, ...] = ()
    delimiter: str = ""
    quoted: bool = False
    sheets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.names is not None:  # blanks around a name are seen by nobody
            self.names = [name.strip() for name in self.names]

    def class_names(self, column: str | int) -> Sequence[str]:
        """Names of the class numbers in a column; empty where they have none."""
        name = column if isinstance(column, str) else self.names[column] if self.names else ""
        return self.classes.get(name, ())

    def at(self, line: int) -> str:
        """`file:line`, or `file, row number`."""
        return f"{self.place}:{line}" if self.has_lines else f"{self.place}, row {line}"


def suffix_of(path: Path) -> str:
    """The suffix that says the format, in small letters: that before .gz or .zst, where the file is packed.

    >>> suffix_of(Path("faq.v2.CSV.gz")), suffix_of(Path("faq"))
    ('.csv', '')
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return "".join(suffixes[-2:-1] if suffixes and suffixes[-1] in COMPRESSIONS else suffixes[-1:])


def plain_name(path: Path) -> str:
    """The name of a file without the suffix that says its format, and without what stands behind it.

    >>> plain_name(Path("faq.v2.CSV.gz")), plain_name(Path("faq"))
    ('faq.v2', 'faq')
    """
    suffix = suffix_of(path)
    return path.name[: path.name.lower().rindex(suffix)] if suffix else path.name


def read_table(path: Path, *, header: bool, quoted: bool) -> FileTable:
    """The file as columns, as a description says it. Raises UserError for a file that is not what its suffix says.

    header, quoted  as in LayoutConfig; they concern .tsv, .txt and .csv only
    """
    kind = suffix_of(path)
    if kind not in (*DELIMITERS, ".json", ".jsonl", *COLUMNAR):
        raise UserError(
            f"{path}: the suffix says no format that can be read; expected .tsv, .txt, .csv, .json, "
            f".jsonl, {', '.join(COLUMNAR)}, and .zst or .gz behind it if compressed"
        )
    if kind in COLUMNAR:
        return columnar_table(path)
    raw = decompressed(path)
    require_utf8(path, raw)
    text, undecodable = _decoded(raw)
    if not text.strip():
        raise UserError(f"{path}: the file is empty")
    if kind in DELIMITERS:
        return _delimited(path, text, undecodable, DELIMITERS[kind], header=header, quoted=quoted)
    return json_table(path, text, undecodable)


def columnar_table(path: Path) -> FileTable:
    """A parquet or Arrow file. Raises UserError where it is none."""
    content = decompressed(path) if path.suffix.lower() in COMPRESSIONS else mapped(path)
    file = read_columnar(path, suffix_of(path), content)
    numbers = np.arange(1, file.num_rows + 1, dtype=np.int32)
    return FileTable(str(path), file.names, file.columns, numbers, has_lines=False, classes=file.classes)


def require_short_lines(path: Path, rows: Sequence[str]) -> None:
    """Raises UserError that names the first line which is longer than any text."""
    if max(map(len, rows), default=0) > LONGEST_LINE:
        number, length = next((line, len(row)) for line, row in enumerate(rows, 1) if len(row) > LONGEST_LINE)
        raise UserError(
            f"{path}:{number}: the line has {length:,} characters; expected {LONGEST_LINE:,} at most"
        )


def decoded(path: Path, raw: bytes) -> tuple[str, str]:
    """The text of a file and the name of its encoding. Raises UserError, with the line, where it is none of them.

    A mark at the start decides; then UTF-16 is known by its zero bytes, UTF-8 by being valid, and all else is GB18030,
    of which GBK and GB2312 are parts.
    """
    mark = next((name for mark, name in MARKS.items() if raw.startswith(mark)), None) or _utf16_by_zeros(raw)
    if mark is None and b"\0" in raw:
        line = raw.count(b"\n", 0, raw.index(b"\0")) + 1
        raise UserError(f"{path}:{line}: no text but binary data; is the suffix {path.suffix} right?")
    encodings = {mark: mark.upper()} if mark else {"utf-8": "UTF-8", "gb18030": "GBK"}
    raw = raw.removeprefix(BYTE_ORDER_MARK)
    line_numbers = []
    for encoding, name in encodings.items():
        try:
            return raw.decode(encoding).removeprefix("\ufeff"), name
        except UnicodeDecodeError as error:
            line_numbers.append(raw.count(b"\n", 0, error.start) + 1)
    raise UserError(f"{path}:{max(line_numbers)}: not UTF-8, UTF-16 or GBK; save the file as CSV in UTF-8")


def _utf16_by_zeros(raw: bytes) -> str | None:
    """The byte order in which a text that has zero bytes, and no mark, reads as one."""
    start = raw[: 2**16]
    if b"\0" in start:
        for name in ("utf-16-le", "utf-16-be"):
            text = start.decode(name, "ignore")
            if "\0" not in text and re.search("[\t\n,]", text):
                return name
    return None


def _decoded(raw: bytes) -> tuple[str, dict[int, str]]:
    """The text without byte order mark, and the lines that are not UTF-8 with the first bad byte of each."""
    raw = raw.removeprefix(BYTE_ORDER_MARK)
    try:
        return raw.decode("utf-8"), {}
    except UnicodeDecodeError:
        return raw.decode("utf-8", "surrogateescape"), undecodable_lines(raw)


def _delimited(
    path: Path, text: str, undecodable: dict[int, str], delimiter: str, *, header: bool, quoted: bool
) -> FileTable:
    """Table of a tsv or csv text; rows must have as many fields as the header, or else as most rows."""
    text = text.replace("\r\n", "\n").rstrip("\n")
    if quoted:
        advice = "; if this file has no quoting, set quoted: false in its layout"
        numbered = [*csv_records(path, text, delimiter, advice=advice)]
        records = [cells for _, cells in numbered]
        line_numbers = np.array([line for line, _ in numbered], dtype=np.int32)
        counts = np.fromiter(map(len, records), np.int32, len(records))
    else:
        rows = text.split("\n")
        line_numbers = np.arange(1, len(rows) + 1, dtype=np.int32)
        require_short_lines(path, rows)
        counts = np.fromiter(map(str.count, rows, itertools.repeat(delimiter)), np.int32, len(rows)) + 1
    width = int(counts[0] if header else np.bincount(counts).argmax())
    faults = {}
    for row in np.flatnonzero(counts != width).tolist():
        faults[int(line_numbers[row])] = f"the row has {counts[row]} fields, expected {width}"
        if not quoted and counts[row] > width and '"' in rows[row]:
            faults[int(line_numbers[row])] += "; fields in double quotes want quoted: true in the layout"
    for line in reversed(undecodable):  # a quoted row may span several of them: the first one is named
        faults[int(line_numbers[np.searchsorted(line_numbers, line, side="right") - 1])] = undecodable[line]
    if header and 1 in faults:
        raise UserError(f"{path}:1: the line with the column names cannot be read: {faults[1]}")
    if faults:
        good = [row for row in range(len(line_numbers)) if int(line_numbers[row]) not in faults]
        line_numbers = line_numbers[good]
        if quoted:
            records = [records[row] for row in good]
        else:
            rows = [rows[row] for row in good]
    # Splitting the joined text once is five times faster than splitting line by line.
    cells = list(itertools.chain.from_iterable(records)) if quoted else delimiter.join(rows).split(delimiter)
    cells = cells if len(line_numbers) else []
    columns = [cells[position + (width if header else 0) :: width] for position in range(width)]
    names = cells[:width] if header else None
    return FileTable(str(path), names, columns, line_numbers[1:] if header else line_numbers, faults)


def csv_records(
    path: Path, text: str, delimiter: str, *, advice: str = ""
) -> Iterator[tuple[int, list[str]]]:
    """Line and cells of each record of a text with quoted fields, which may span lines; lines end in a line feed.

    The module csv ends a record at a carriage return, too, which is a sign of a text here: another sign that the text
    does not have takes its place meanwhile.

    advice  end of the message: what can be done beside closing quotes

    Raises UserError, with the line, for quotes that are not closed.
    """
    mark = (
        next((chr(code) for code in range(0xE000, 0xF8FF) if chr(code) not in text), "")
        if "\r" in text
        else ""
    )
    marked = text.replace("\r", mark) if mark else text
    reader = csv.reader(io.StringIO(marked, newline="\n"), delimiter=delimiter, strict=True)
    line = 1
    try:
        for cells in reader:
            yield line, [cell.replace(mark, "\r") for cell in cells] if mark else cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise UserError(
            f"{path}:{line}: no quoted field that can be read ({error}); are the quotes unbalanced? A quote inside a "
            f"quoted field is written twice{advice}"
        ) from error


def json_table(path: Path, text: str, undecodable: Mapping[int, str]) -> FileTable:
    """Table of JSON objects, one per line."""
    if text.lstrip().startswith("["):
        raise UserError(
            f"{path}: expected one JSON object per line, this is a JSON array; convert it with `jq -c '.[]'`"
        )
    records, line_numbers, faults = [], [], dict(undecodable)
    rows = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    require_short_lines(path, rows)
    for number, line in enumerate(rows, start=1):
        if number in faults:
            continue
        try:
            record = json.loads(line, object_pairs_hook=_keys_once)
        except (ValueError, RecursionError) as error:
            faults[number] = f"not JSON ({error})"
            continue
        if isinstance(record, dict):
            records.append(record)
            line_numbers.append(number)
        else:
            faults[number] = 'not a JSON object such as {"sentence1": …}'
    names = list(dict.fromkeys(itertools.chain.from_iterable(records)))
    columns = [_Field(records, name) for name in names]
    return FileTable(str(path), names, columns, np.asarray(line_numbers, dtype=np.int32), faults)


def _keys_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object. Raises ValueError for a key that stands twice in it: the parser would silently take the last."""
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {short(twice)!r} stands twice in the object")
    return record


@dataclass(frozen=True)
class _Field:
    """One key of JSON objects as a column, spelt out when it is read: objects may have any number of other keys."""

    records: list[dict[str, object]]
    name: str

    def __len__(self) -> int:
        return len(self.records)

    def to_pylist(self) -> list[object]:
        return [record.get(self.name) for record in self.records]
