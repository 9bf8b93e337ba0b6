"""Bounded reading of files and sets: the head of a huge file, and a deadline for all of it."""

import tempfile
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from gzip import GzipFile
from io import BufferedReader
from pathlib import Path

import zstandard

from juzhen.core.atomic_write import atomic_write
from juzhen.core.errors import UserError
from juzhen.core.examples import JUDGED, Examples
from juzhen.core.paths import suffix_of
from juzhen.core.safe_open import open_regular_file
from juzhen.data.loading import cut
from juzhen.data.readers import COLUMNAR, decompressed, files_of, plain_name
from juzhen.data.rows import own_set, set_name
from juzhen.data.source import load_examples
from juzhen.data.spec import DatasetConfig, Source
from juzhen.data.tables import EXCEL, TableReading

HEAD_BYTES = 32 * 2**20
"""Text that is read of a file: about 500,000 short pairs. At most 16,000 rows of a source are used."""

HEAD_ROWS = 400_000
"""Rows that are read of a parquet file with more."""

SHARE_FOR_READING = 0.2
"""Of the time. Sources whose turn comes later are left out."""

UNPACKED = 4
"""Bytes of text in a byte of a packed file, about."""


@dataclass
class Reading:
    """How files and sets are read.

    Args:
        data_dir: Folder of the sets.
        config_dir: A further folder of dataset/ files.
        table: Of files.
        seed: Draws splits and samples.
        deadline: time.monotonic() after which no further source is read. None: all are read.
        report: Called with a line for each file that is read in part.
    """

    data_dir: Path
    config_dir: Path | None = None
    table: TableReading = field(default_factory=lambda: TableReading(on_bad_row="drop"))
    seed: int = 42
    deadline: float | None = None
    report: Callable[[str], None] = lambda _: None

    @property
    def is_over(self) -> bool:
        """True if the time for reading is over."""
        return self.deadline is not None and time.monotonic() > self.deadline

    def split(self, config: DatasetConfig, split: str) -> Examples | None:
        """Read a split of a set, or the head of its file. None without a file."""
        with tempfile.TemporaryDirectory(prefix="juzhen_") as folder:
            files = files_of(asdict(config), split, source=Source.LOCAL, data_dir=self.data_dir) or []
            layout = config.layouts.get(config.layout)
            if len(files) == 1 and split == "train" and layout and config.kind not in JUDGED:
                head = self._head(files[0], Path(folder))
                if head != files[0]:
                    layout = replace(layout, files={**layout.files, split: str(head)}, rows={})
                    config = replace(config, layouts={**config.layouts, config.layout: layout})
            return load_examples(
                config, split, source=Source.LOCAL, data_dir=self.data_dir, on_bad_row=self.table.on_bad_row
            )

    def own(self, path: Path) -> tuple[DatasetConfig, Examples]:
        """Read a user's file, or its head."""
        path = path.expanduser()
        if not path.is_file():
            return own_set(path, self.table, "train")
        with tempfile.TemporaryDirectory(prefix="juzhen_") as folder:
            config, rows = own_set(self._head(path, Path(folder)), self.table, "train")
        return replace(config, name=set_name(path)), replace(rows, name=set_name(path))

    def sampled(self, examples: Examples, limit: int) -> Examples:
        """Draw at most `limit` rows, the same for the same seed, with a table of their sentences alone."""
        return cut(examples, limit, self.seed)

    def _head(self, path: Path, folder: Path) -> Path:
        """The file itself, or a file with its first rows if it is huge."""
        size, suffix = path.stat().st_size, suffix_of(path)
        is_packed = suffix != path.suffix.lower()
        if size * (UNPACKED if is_packed else 1) <= HEAD_BYTES or suffix == EXCEL:
            return path  # a workbook has a limit of its own
        head = folder / f"{plain_name(path)}{suffix or '.txt'}"
        if suffix == ".parquet":
            told = _head_of_parquet(path, head)
        elif suffix in COLUMNAR:
            raise UserError(
                f"{path}: {size / 2**20:,.0f} MiB of Arrow are too many to read in time. Save it as parquet"
            )
        else:
            told = _head_of_text(path, head)
        if not told:
            return path
        self.report(f"{path.name} is huge: {told} of it are read")
        return head


def _head_of_text(path: Path, head: Path) -> str:
    content = b""
    with open_regular_file(path) as file:
        try:
            content = _unpacked(file, path.suffix.lower()).read(HEAD_BYTES + 1)
        except (EOFError, OSError, zlib.error, zstandard.ZstdError):
            decompressed(path)  # its error names the damage
            raise
    if len(content) <= HEAD_BYTES:
        return ""
    end = content.rfind(b"\n") + 1
    while end and content.count(b'"', 0, end) % 2:  # inside a quoted cell, where a file has such
        found = content.rfind(b"\n", 0, end - 1) + 1
        if len(content) - found > HEAD_BYTES // 2:
            end = content.rfind(b"\n") + 1
            break
        end = found
    if content.startswith(b"\xff\xfe"):
        end += 1  # of UTF-16 the line feed is two bytes
    with atomic_write(head, "wb", in_own_folder=True) as out:
        out.write(content[:end])
    return f"the first {HEAD_BYTES / 2**20:.0f} MiB"


def _unpacked(
    file: BufferedReader, suffix: str
) -> BufferedReader | GzipFile | zstandard.ZstdDecompressionReader:
    if suffix == ".zst":
        return zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
    return GzipFile(fileobj=file) if suffix == ".gz" else file


def _head_of_parquet(path: Path, head: Path) -> str:
    import pyarrow
    from pyarrow import parquet

    with (
        suppress(OSError, pyarrow.ArrowException),
        open_regular_file(path) as file,
    ):  # else its reader names the fault
        table = parquet.ParquetFile(file)
        if table.metadata.num_rows > HEAD_ROWS:
            batches = [next(table.iter_batches(batch_size=HEAD_ROWS))]
            parquet.write_table(pyarrow.Table.from_batches(batches), head)
            return f"the first {HEAD_ROWS:,} rows"
    return ""
