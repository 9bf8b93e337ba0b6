"""Files of datasets as columns: tsv, csv, JSON lines, parquet and Arrow, each also compressed.

The suffix decides: .tsv .txt .csv .json .jsonl .parquet .arrow .feather, also with .zst or .gz. An unpacked
file has the size limit of a text. Nothing is guessed from the content, no text is taken for a missing value,
and every row knows its line, which pyarrow's readers do not report for rows that cannot be read.
"""

import codecs
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
from juzhen.core.paths import BUILTIN, COMPRESSIONS, suffix_of
from juzhen.core.safe_open import open_regular_file
from juzhen.core.text import keys_once, short
from juzhen.data.spec import Source

if TYPE_CHECKING:
    import pyarrow
    from pyarrow import parquet


BUILTIN_DATA = BUILTIN / "data"


def on_disk(path: Path) -> Path | None:
    """Return the file with its own or another compression. None if it is missing.

    Args:
        path: Path of the file.

    Returns:
        Path of the existing form, or None.

    Raises:
        UserError: Only other forms exist, and more than one.
    """
    if path.exists():
        return path
    present = present_forms(path)
    if len(present) > 1:
        raise UserError(
            f"{path}: several forms of this file exist: {' and '.join(form.name for form in present)}. Keep only one"
        )
    return present[0] if present else None


def present_forms(path: Path) -> list[Path]:
    """Return the existing files of that name, packed or not.

    Args:
        path: Path of the file.

    Returns:
        Paths.
    """
    plain = path.with_suffix("") if path.suffix in COMPRESSIONS else path
    forms = [plain, *(plain.with_name(plain.name + suffix) for suffix in COMPRESSIONS)]
    return [form for form in forms if form.exists()]


def has_split(described: Mapping[str, Any], split: str, *, source: str, data_dir: str | Path) -> bool:
    """True if a split can be read now: all of its files exist, or the hub has it. No file is opened.

    Args:
        described: A DatasetConfig as plain containers.
        split: The split.
        source: The job's source. The set's own source goes before it.
        data_dir: Folder of the sets.

    Returns:
        True or False.

    Raises:
        UserError: Several files could be meant.
    """
    if (described.get("source") or source) == Source.HUB:
        return split in ((described.get("hub") or {}).get("splits") or {})
    paths = _found(described, split, source=source, data_dir=data_dir)
    return bool(paths) and all(paths)


def files_of(
    described: Mapping[str, Any], split: str, *, source: str, data_dir: str | Path
) -> list[Path] | None:
    """Return the files of a split. None if one is missing, or the split is read from the hub.

    A dev split held out from the lines of train is in that file. Errors are those of `has_split`.

    Args:
        described: A DatasetConfig as plain containers.
        split: The split.
        source: The job's source.
        data_dir: Folder of the sets.

    Returns:
        Paths, or None.
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
    """The path of each file of a split, None for a missing one. Empty if the layout names none."""
    is_builtin = (described.get("source") or source) == Source.BUILTIN
    folder = BUILTIN_DATA if is_builtin else Path(data_dir).expanduser()
    files = (described["layouts"].get(described["layout"]) or {}).get("files") or {}
    named = files.get(split) or []
    named = [named] if isinstance(named, str) else named
    beside = [files[part] for part in ("queries", "corpus") if part in files] if named else []
    return [on_disk(folder / Path(path).expanduser()) for path in (*named, *beside)]


COLUMNAR = (".parquet", ".arrow", ".feather")
ARROW_FILE = b"ARROW1"
"""Start of an Arrow file and of `to_feather`'s. `Dataset.save_to_disk` writes a stream without it."""

MOST_ROWS_PER_BYTE = 64
"""With more rows per byte a file repeats few values: some kilobytes of parquet can be 10^9 rows."""


@dataclass(frozen=True)
class _Column:
    """A column that is decoded on demand. Others of the file may be large, such as embeddings."""

    path: Path
    decode: "Callable[[], pyarrow.ChunkedArray]"

    def to_pylist(self) -> list[Any]:
        with _told(self.path):
            return self.decode().to_pylist()


@dataclass(frozen=True)
class _ColumnarFile:
    """Columns of a file before any is decoded. `classes` are names of class indices that `datasets` has written."""

    names: list[str]
    columns: list[_Column]
    num_rows: int
    classes: dict[str, list[str]]


def _read_columnar(path: Path, kind: str, content: bytes | mmap.mmap) -> _ColumnarFile:
    """Open a parquet or Arrow file without decoding its columns. `kind` is a suffix of COLUMNAR."""
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
        raise UserError(f"{path}: {num_rows:,} rows in {size:,} bytes, which no text fits in. Is it damaged?")
    columns = [_Column(path, partial(decode, position)) for position in range(len(schema.names))]
    return _ColumnarFile(schema.names, columns, num_rows, _classes(schema.metadata or {}))


def _of_parquet(file: "parquet.ParquetFile", position: int) -> "pyarrow.ChunkedArray":
    names = file.schema_arrow.names
    if names.count(names[position]) > 1:
        return file.read().column(position)
    return file.read(columns=[names[position]]).column(names[position])


def _of_arrow(table: "pyarrow.Table", position: int) -> "pyarrow.ChunkedArray":
    column = table.column(position)
    column.validate(full=True)  # indices of a stranger's file may point outside of it
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
        return {}  # no readable class names: class indices stay numbers


@contextmanager
def _told(path: Path) -> Iterator[None]:
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError, ValueError, MemoryError) as error:
        reason = short(" ".join(str(error).split()), 200)
        raise UserError(
            f"{path}: damaged, or in another format than its suffix ({reason}). Fetch the file again, or rename it"
        ) from error


LONGEST_LINE = 2**24
"""Longest line, 16 million characters: a text as long as a book. A longer one has no line ends, or is not a table."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MARKS = {b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
"""Byte order marks of other encodings, the longer first: that of UTF-32 begins like that of UTF-16."""


def decompressed(path: Path) -> bytes:
    """Return the unpacked bytes of a file. A truncated archive is an error, not a short file.

    Args:
        path: The file.

    Returns:
        Its bytes.

    Raises:
        UserError: The file is truncated or damaged.
    """
    with open_regular_file(path) as file:
        raw = file.read()
    suffix = path.suffix.lower()
    if suffix not in COMPRESSIONS:
        return raw
    try:
        return _unzstd(raw) if suffix == ".zst" else gzip.decompress(raw)
    except (EOFError, OSError, zlib.error, zstandard.ZstdError) as error:
        reason = "the compressed file is cut short" if isinstance(error, EOFError) else f"damaged ({error})"
        raise UserError(
            f"{path}: {reason}, or compressed in another way than its suffix. Fetch the file again"
        ) from error


def mapped(path: Path) -> mmap.mmap:
    """Map a file into memory. Only the parts that are read take memory.

    Args:
        path: The file.

    Returns:
        The mapped bytes.

    Raises:
        UserError: The file is empty, or as in `decompressed`.
    """
    with open_regular_file(path) as file:
        if not os.fstat(file.fileno()).st_size:
            raise UserError(f"{path}: the file is empty. Give another file")
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def require_utf8(path: Path, start: bytes) -> None:
    """Check the start of a file for a mark of UTF-16 or UTF-32, which spreadsheets write.

    Args:
        path: The file, for the message.
        start: Its first bytes.

    Raises:
        UserError: Such a mark.
    """
    if encoding := next((name for mark, name in MARKS.items() if start.startswith(mark)), None):
        raise UserError(
            f"{path}: this is {encoding.upper()}, and UTF-8 is expected. Convert it: iconv -f {encoding} -t utf-8"
        )


def undecodable_lines(raw: bytes, *, first_line: int = 1) -> dict[int, str]:
    """Return line → its first byte that is not UTF-8.

    Args:
        raw: The bytes of a file.
        first_line: Number of the first line.

    Returns:
        Line number → text that names the byte.
    """
    faults = {}
    for number, line in enumerate(raw.split(b"\n"), start=first_line):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            faults[number] = (
                f"byte {error.start + 1} of the line is 0x{line[error.start]:02x}, which is not UTF-8. "
                "A GBK file is converted by `iconv -f gb18030 -t utf-8`"
            )
    return faults


def _unzstd(raw: bytes) -> bytes:
    """All frames of a zstd file, one by one: the stream reader accepts a truncated file as a short one."""
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
    """Rows of a file or a hub split, column by column.

    Args:
        place: Name of the file, for messages.
        names: Column names. None if the file has no names.
        columns: Values of each column, a sequence or an object with `to_pylist`. Missing JSON fields are None.
        lines: int32 (rows,): first line of each row, from 1. Without lines the number of the row.
        faults: Line → reason why it is not a row. Such rows are not among the columns.
        has_lines: Rows have lines in the file.
        classes: Column name → names of its class indices, if the file has them.
        needs_mark: Its program reads UTF-8 only with a byte order mark, as Excel does.
        format: Format of the file, for people.
        notes: Remarks that a person may want to check, one sentence each.
        delimiter: Character between the cells of a text table.
        quoted: True if cells of a text table are quoted.
        sheets: Names of the sheets of an Excel file, the read one first.
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
        if self.names is not None:  # spaces around a name are invisible
            self.names = [name.strip() for name in self.names]

    def class_names(self, column: str | int) -> Sequence[str]:
        """Return the names of the class indices in a column. Empty without names.

        Args:
            column: Name or position of the column.

        Returns:
            The names, by class index.
        """
        name = column if isinstance(column, str) else self.names[column] if self.names else ""
        return self.classes.get(name, ())

    def at(self, line: int) -> str:
        """Return `file:line`, or `file, row number`.

        Args:
            line: Number of the line or row, from 1.

        Returns:
            Text for a message.
        """
        return f"{self.place}:{line}" if self.has_lines else f"{self.place}, row {line}"


def plain_name(path: Path) -> str:
    """Return the name of a file without the suffix of its format and of its packing.

    Args:
        path: Path of the file.

    Returns:
        The name.

    >>> plain_name(Path("faq.v2.CSV.gz")), plain_name(Path("faq"))
    ('faq.v2', 'faq')
    """
    suffix = suffix_of(path)
    return path.name[: path.name.lower().rindex(suffix)] if suffix else path.name


def read_table(path: Path, *, header: bool, quoted: bool) -> FileTable:
    """Read a file as columns.

    Args:
        path: The file.
        header: The first line names the columns, as in LayoutConfig. Only for .tsv, .txt and .csv.
        quoted: Cells may be quoted, as in LayoutConfig. Only for .tsv, .txt and .csv.

    Returns:
        The columns.

    Raises:
        UserError: A file of another format than its suffix.
    """
    kind = suffix_of(path)
    if kind not in (*DELIMITERS, ".json", ".jsonl", *COLUMNAR):
        raise UserError(
            f"{path}: unknown suffix. Expected .tsv, .txt, .csv, .json, "
            f".jsonl, {', '.join(COLUMNAR)}, and .zst or .gz behind it if compressed"
        )
    if kind in COLUMNAR:
        return columnar_table(path)
    raw = decompressed(path)
    require_utf8(path, raw)
    text, undecodable = _decoded(raw)
    if not text.strip():
        raise UserError(f"{path}: the file is empty. Give another file")
    if kind in DELIMITERS:
        return _delimited(path, text, undecodable, DELIMITERS[kind], header=header, quoted=quoted)
    return json_table(path, text, undecodable)


def columnar_table(path: Path) -> FileTable:
    """Read a parquet or Arrow file.

    Args:
        path: The file.

    Returns:
        The columns.

    Raises:
        UserError: Any other file.
    """
    content = decompressed(path) if path.suffix.lower() in COMPRESSIONS else mapped(path)
    file = _read_columnar(path, suffix_of(path), content)
    numbers = np.arange(1, file.num_rows + 1, dtype=np.int32)
    return FileTable(str(path), file.names, file.columns, numbers, has_lines=False, classes=file.classes)


def require_short_lines(path: Path, rows: Sequence[str]) -> None:
    """Check that no line is longer than any text.

    Args:
        path: The file, for the message.
        rows: Its lines.

    Raises:
        UserError: A line that is, with its number.
    """
    if max(map(len, rows), default=0) > LONGEST_LINE:
        number, length = next((line, len(row)) for line, row in enumerate(rows, 1) if len(row) > LONGEST_LINE)
        raise UserError(
            f"{path}:{number}: the line has {length:,} characters. Expected {LONGEST_LINE:,} at most"
        )


SAMPLE_BYTES = 65_536
"""Bytes of a file by which its encoding is guessed."""


def _looks_like_big5(raw: bytes) -> bool:
    """True if a text is Big5 rather than GBK: as Big5 it holds more frequent characters, as GBK more rare ones."""
    try:
        text = codecs.getincrementaldecoder("cp950")().decode(raw[:SAMPLE_BYTES])
    except UnicodeDecodeError:
        return False
    other = codecs.getincrementaldecoder("gb18030")("ignore").decode(raw[:SAMPLE_BYTES])
    signs, others = ([sign for sign in each if "\u4e00" <= sign <= "\u9fff"] for each in (text, other))
    frequent = sum(sign.encode("cp950")[0] <= 0xC6 for sign in signs)
    common = sum(b"\xb0" <= sign.encode("gb2312", "ignore")[:1] <= b"\xd7" for sign in others)
    return len(signs) > len(others) and frequent > 0.95 * len(signs) and common < 0.75 * len(others)


def _is_chinese(text: str) -> bool:
    """False for a text that GBK decodes to rare signs or kana: Shift-JIS, EUC-JP, Latin-1, and EUC-KR, TIS-620."""
    # In 400 samples of each of seven sets 74 % of the signs or more were of GB2312's first level, in Shift-JIS none.
    codes = [sign.encode("gb2312", "ignore")[:1] for sign in text[:SAMPLE_BYTES] if sign > "\u303f"]
    codes = [code for code in codes if code != b"\xa3"]  # full-width letters and signs
    bounds = (b"\xb0", b"\xd7"), (b"\xa4", b"\xa5"), (b"\xc9", b"\xf7")
    common, kana, late = (sum(low <= code <= high for code in codes) for low, high in bounds)
    many = len(codes)  # all signs of Korean are in the first half of the first level
    thai = re.sub("[\0-\x7f]", "", text[:SAMPLE_BYTES].encode("gb18030").decode("cp874", "replace"))
    if len(thai) > 40 and sum(sign in "านรอกเงมยลวดทสตะัี่้ไิใ์" for sign in thai) > 0.7 * len(thai):
        return False  # so is 1 of 116,168 lines of Chinese, and none of 33,651 times five lines
    return common >= 0.4 * many and kana <= 0.2 * many and (many < 20 or late > 0.02 * many)


def decoded(path: Path, raw: bytes) -> tuple[str, str]:
    """Return the text of a file and the name of its encoding.

    A byte order mark decides. Otherwise zero bytes mean UTF-16, valid UTF-8 is UTF-8, and the rest is Big5 if it looks
    like it, or GB18030, which includes GBK and GB2312.

    Args:
        path: The file, for the message.
        raw: Its bytes.

    Returns:
        The text, and the encoding as Python calls it.

    Raises:
        UserError: None of these encodings. The message has the line.
    """
    mark = next((name for mark, name in MARKS.items() if raw.startswith(mark)), None) or _utf16_by_zeros(raw)
    if mark is None and b"\0" in raw:
        line = raw.count(b"\n", 0, raw.index(b"\0")) + 1
        raise UserError(f"{path}:{line}: binary data instead of text. Is the suffix {path.suffix} right?")
    encodings = {mark: mark.upper()} if mark else {"utf-8": "UTF-8", "gb18030": "GBK"}
    if mark is None and _looks_like_big5(raw):
        encodings = {"utf-8": "UTF-8", "cp950": "Big5", "gb18030": "GBK"}
    raw = raw.removeprefix(BYTE_ORDER_MARK)
    line_numbers = []
    for encoding, name in encodings.items():
        try:
            text = raw.decode(encoding)
            escape = re.search(rb"\x1b\$|~\{(?:[0-W][!-~])+~\}", raw)  # of ISO-2022, and of HZ
            if escape is None and (name != "GBK" or _is_chinese(text)):
                return text.removeprefix("\ufeff"), name
            start = escape.start() if escape else next(place for place, byte in enumerate(raw) if byte > 0x7F)
        except UnicodeDecodeError as error:
            start = error.start
        line_numbers.append(raw.count(b"\n", 0, start) + 1)
    raise UserError(
        f"{path}:{max(line_numbers)}: not UTF-8, UTF-16, GBK or Big5. Save the file as CSV in UTF-8"
    )


def _utf16_by_zeros(raw: bytes) -> str | None:
    """The byte order in which a text with zero bytes, and without a mark, can be decoded."""
    start = raw[: 2**16]
    for name in ("utf-16-le", "utf-16-be") if b"\0" in start else ():
        text = start.decode(name, "ignore")
        if "\0" not in text and re.search("[\t\n,]", text):
            return name
    return None


def _decoded(raw: bytes) -> tuple[str, dict[int, str]]:
    """The text without byte order marks, and the lines that are not UTF-8 with the first bad byte of each."""
    # Carriage returns end lines where no line feed does, as in the oldest spreadsheets.
    raw = raw.removeprefix(BYTE_ORDER_MARK).removeprefix(BYTE_ORDER_MARK)
    raw = raw if b"\n" in raw.rstrip(b"\n") else raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    try:
        return raw.decode("utf-8"), {}
    except UnicodeDecodeError:
        return raw.decode("utf-8", "surrogateescape"), undecodable_lines(raw)


def _delimited(
    path: Path, text: str, undecodable: dict[int, str], delimiter: str, *, header: bool, quoted: bool
) -> FileTable:
    """Table of a tsv or csv text. Rows must have as many fields as the header, or else as most rows."""
    text = text.replace("\r\n", "\n").rstrip("\n")
    if quoted:
        advice = ". If this file has no quoting, set quoted: false in its layout"
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
            faults[int(line_numbers[row])] += ". For fields in double quotes set quoted: true in the layout"
    for line in reversed(undecodable):  # a quoted row may span several lines: the first one is reported
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
    """Yield the line and cells of each record of a text with quoted fields, which may span lines.

    The module csv also ends a record at a carriage return. An unused character replaces it meanwhile.

    Args:
        path: The file, for the message.
        text: Its text.
        delimiter: Character between cells.
        advice: End of the message: another remedy.

    Yields:
        Pairs of line number and cells.

    Raises:
        UserError: Quotes that are not closed. The message has the line.
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
            f"{path}:{line}: a quoted field cannot be read ({error}). Are the quotes unbalanced? A quote inside a "
            f"quoted field is written twice{advice}"
        ) from error


def json_table(path: Path, text: str, undecodable: Mapping[int, str]) -> FileTable:
    """Table of JSON objects, one per line.

    Args:
        path: The file, for messages.
        text: Its text.
        undecodable: Output of `undecodable_lines`.

    Returns:
        The columns.

    Raises:
        UserError: A JSON array.
    """
    if text.lstrip().startswith("["):
        raise UserError(
            f"{path}: expected one JSON object per line, this is a JSON array. Convert it with `jq -c '.[]'`"
        )
    records, line_numbers, faults = [], [], dict(undecodable)
    rows = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    require_short_lines(path, rows)
    for number, line in enumerate(rows, start=1):
        if number in faults:
            continue
        try:
            record = json.loads(line, object_pairs_hook=keys_once)
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


@dataclass(frozen=True)
class _Field:
    """A key of JSON objects as a column, expanded on demand: objects may have any number of other keys."""

    records: list[dict[str, object]]
    name: str

    def __len__(self) -> int:
        return len(self.records)

    def to_pylist(self) -> list[object]:
        return [record.get(self.name) for record in self.records]
