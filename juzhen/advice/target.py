"""The target of an advice, the sources that may help it, and the panel of sets that must not suffer.

Reading is bounded: the head of a huge file, and a deadline for all of it.
"""

import tempfile
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from gzip import GzipFile
from io import BufferedReader
from pathlib import Path

import numpy as np
import zstandard

from juzhen.core.atomic_write import atomic_write
from juzhen.core.errors import UserError
from juzhen.core.examples import JUDGED, Examples, Kind
from juzhen.core.kinds import UNSCORED, chooses, main_metric
from juzhen.core.lazy_names import offered
from juzhen.core.paths import DATASETS, is_table, suffix_of
from juzhen.core.safe_open import open_regular_file
from juzhen.data.convert import convert_rows
from juzhen.data.excel import EXCEL
from juzhen.data.leaks import LeakFilter
from juzhen.data.loading import cut
from juzhen.data.readers import COLUMNAR, decompressed, files_of, has_split, plain_name
from juzhen.data.rows import own_set, set_name
from juzhen.data.source import load_examples
from juzhen.data.spec import (
    DatasetConfig,
    Source,
    configured_set,
    described_sets,
    read_description,
    require_set,
)
from juzhen.data.tables import TableReading

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

    @property
    def options(self) -> tuple[object, ...]:
        """Options of `juzhen dataset` that read a table like this."""
        columns = ",".join(f"{field}={column}" for field, column in self.table.columns.items())
        values: dict[str, object] = {"columns": columns, "sheet": self.table.sheet}
        values |= {"split-cells": self.table.split_cells, "config-dir": self.config_dir}
        chosen = {
            name: value for name in ("header", "quoted") if (value := getattr(self.table, name)) is not None
        }
        switches = [f"--{'no-' * (not value)}{name}" for name, value in chosen.items()]
        return (*switches, *(word for key, value in values.items() if value for word in (f"--{key}", value)))

    def split(self, config: DatasetConfig, split: str) -> Examples | None:
        """Read a split of a set, or the head of its file.

        Args:
            config: Description of the set. Its file may have any size.
            split: Such as "train". Only of "train" a head is read.

        Returns:
            The rows. None without a file.

        Raises:
            UserError: An Arrow file that is too large to read in time, or rows that cannot be read.
        """
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
        """Read a user's file, or its head.

        Args:
            path: A table, or a folder of the three files of judgements.

        Returns:
            The description of the rows, and the rows.

        Raises:
            UserError: As of `split`.
        """
        path = path.expanduser()
        if not path.is_file():
            return own_set(path, self.table, "train")
        with tempfile.TemporaryDirectory(prefix="juzhen_") as folder:
            config, rows = own_set(self._head(path, Path(folder)), self.table, "train")
        return replace(config, name=set_name(path)), replace(rows, name=set_name(path))

    def place_of(self, config: DatasetConfig) -> Path | None:
        """Return the training file of a set whose name is not ASCII, because keys of train.py are ASCII.

        Args:
            config: Description of the set.

        Returns:
            The first file. None for an ASCII name and without a file.
        """
        if config.name.isascii():
            return None
        files = files_of(asdict(config), "train", source=Source.LOCAL, data_dir=self.data_dir)
        return files[0] if files else None

    def sampled(self, examples: Examples, limit: int) -> Examples:
        """Draw some rows, the same for the same seed, with a table of their sentences alone.

        Args:
            examples: Rows of a split.
            limit: Largest number of rows.

        Returns:
            At most `limit` rows.
        """
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

    # A fault is named by the file's reader.
    with suppress(OSError, pyarrow.ArrowException), open_regular_file(path) as file:
        table = parquet.ParquetFile(file)
        if table.metadata.num_rows > HEAD_ROWS:
            batches = [next(table.iter_batches(batch_size=HEAD_ROWS))]
            parquet.write_table(pyarrow.Table.from_batches(batches), head)
            return f"the first {HEAD_ROWS:,} rows"
    return ""


DEV_SHARE = 0.4
"""Share of the rows of a user's file that score trainings on the other rows."""

LEAST_ROWS, LEAST_QUERIES = 60, 24
"""Rows of a target, and scored queries, below which even large differences stay undecided."""

MOST_DEV, MOST_TRAIN, MOST_PANEL = 600, 8000, 150
"""Rows that are scored of the target, kept of each source, and scored of each panel set: each costs time."""

MOST_DOCUMENTS = 2000
"""Documents that a query of the target is searched in: each training encodes them anew."""

LEARNS_BY = {
    Kind.SCORED_PAIR: "cosine",
    Kind.LABELLED_PAIR: "online_contrastive",
    Kind.POSITIVE_PAIR: "info_nce",
    Kind.TRIPLET: "info_nce",
}
"""Kind of a source's rows → loss. Classes of NLI are read as triplets: under the classifier of the published report
small encoders lose up to 40 points on other sets (results/transfer)."""


@dataclass(frozen=True)
class TrainingSet:
    """Rows that may be trained on.

    Args:
        name: Set, or stem of a file.
        rows: In the kind that the loss takes.
        loss: Option of `fit`.
        place: The file of a source that is not a set, or None.
        made_by: Options of `juzhen dataset` that make a set of several files.
        total: Rows that the source has without leaks, of which `rows` are at most MOST_TRAIN.
        leaky: Rows left out because the target has them too, of at most twice MOST_TRAIN that were compared.
        config: Description of the set.
    """

    name: str
    rows: Examples
    loss: str
    total: int
    leaky: int = 0
    place: Path | None = None
    config: DatasetConfig | None = None
    made_by: tuple[object, ...] = ()


@dataclass(frozen=True)
class Target:
    """Data on which the encoder must improve.

    Args:
        name: Set, or stem of the file.
        scored: Rows that trainings on other sources are scored on.
        own: Rows of the target to train on, with their loss. None without training rows.
        is_dev: bool array over `scored`: rows that no training on `own` has seen.
        metric: Main metric of its kind.
        place: The user's file. None for a set.
        config: Description of the set.
    """

    name: str
    scored: Examples
    own: TrainingSet | None
    is_dev: np.ndarray
    metric: str
    place: Path | None
    config: DatasetConfig

    @property
    def num_scored(self) -> int:
        """Number of scored rows, or of queries."""
        return _num_scores(self.scored)

    @property
    def num_dev(self) -> int:
        """Number of those that no training on `own` has seen."""
        return self.num_scored if self.is_dev.all() else int(self.is_dev.sum())


def read_target(word: str, reading: Reading) -> Target:
    """Read a user's file, or a set of conf/dataset by its name.

    A file is divided with the seed: DEV_SHARE of it scores the trainings on the rest. Sets already have
    splits.

    Args:
        word: Path of a table, or name of a set.
        reading: How it is read.

    Returns:
        The target.

    Raises:
        UserError: A file or a set that is missing, rows that nothing measures, or fewer than LEAST_ROWS.
    """
    draw = np.random.default_rng(reading.seed)
    if is_table(word) or Path(word).suffix:
        place = Path(word).expanduser()
        config, rows = reading.own(place)
        _require_scored(rows, word)
        is_held_out = _held_out(rows, reading.seed)
        order = draw.permutation(np.flatnonzero(is_held_out))
        held_out = np.sort(order[:MOST_DEV])
        # What is not scored for want of time is not trained on either: it may share texts with the scored rows.
        not_held_out = np.flatnonzero(~is_held_out)
        train = with_rows(rows, not_held_out)
        # Sources are compared on all rows: they have learnt from none of them.
        others = draw.permutation(not_held_out)[: MOST_DEV - len(held_out)]
        scored = np.concatenate([held_out, np.sort(others)])
        is_dev = np.arange(len(scored)) < len(held_out)
        dev = replace(with_rows(rows, scored), split="dev", name=config.name)
        own = source_of(replace(train, name=config.name), place=place, config=config)
        return Target(config.name, dev, own, is_dev, _metric(rows.kind), place, config)
    config = configured_set(word, config_dir=reading.config_dir)
    rows_of_dev = reading.split(config, "dev")
    if rows_of_dev is None:
        raise UserError(
            f"{word}: its dev split has no file below {reading.data_dir}. Give a table of pairs, or data_dir=<folder>"
        )
    _require_scored(rows_of_dev, word)
    dev = with_fewer_documents(reading.sampled(rows_of_dev, MOST_DEV), reading.seed)
    own_rows: Examples | None = None
    if has_split(asdict(config), "train", source=Source.LOCAL, data_dir=reading.data_dir):
        own_rows = reading.split(config, "train")
    own_set_rows = None
    if own_rows is not None:
        own_set_rows = _without_leaks(
            source_of(own_rows, place=reading.place_of(config), config=config), dev, reading
        )
    return Target(word, dev, own_set_rows, np.ones(len(dev), bool), _metric(dev.kind), None, config)


def read_search_target(tables: Mapping[str, Path], reading: Reading) -> Target:
    """Read a target of queries and a corpus. The other queries are trained on, with their answers.

    Args:
        tables: "queries", "corpus" and, if the answers are not a column of the queries, "answers" → table.
        reading: How they are read.

    Returns:
        The target. Scored are DEV_SHARE of the queries, over the corpus.

    Raises:
        UserError: Columns that are not clear, no answer, or fewer than LEAST_ROWS scored queries.
    """
    name = set_name(tables["queries"])
    places = (tables["queries"], tables["corpus"], tables.get("answers"))
    search = offered("tables", "search_of_tables")(name, *places, reading.table)
    judged = search.splits(dev=DEV_SHARE, test=0.0, seed=reading.seed)
    with tempfile.TemporaryDirectory(prefix="juzhen_") as folder:
        path = offered("tables", "write_search")(
            search,
            judged,
            data_dir=Path(folder) / "data",
            descriptions=Path(folder),
            origin=offered("tables", "Origin")("", ""),
        )
        config = read_description(path)
        splits = {split: reading.split(config, split) for split in ("dev", "train")}
    # The set that the command of the answer makes.
    found = offered("tables", "files_of")(name, judged, reading.data_dir)
    files = {part: str(file) for part, file in found.items()}
    layout = replace(config.layouts[config.layout], files=files)
    config = replace(config, layouts={config.layout: layout})
    scored, train = splits["dev"], splits["train"]
    assert scored is not None  # `splits` leaves neither empty
    assert train is not None
    _require_scored(scored, str(tables["queries"]))
    if _num_scores(scored) > MOST_DEV:
        scored = reading.sampled(scored, MOST_DEV)
    dev = with_fewer_documents(scored, reading.seed)
    words = [word for part, path in tables.items() for word in (f"--{part}", path)]
    own = replace(
        source_of(train, place=tables["queries"], config=config),
        made_by=(*words, "--dev", "0.1", "--test", "0.1", *reading.options),
    )
    return Target(name, dev, own, np.ones(len(dev), bool), _metric(dev.kind), tables["queries"], config)


def _num_scores(rows: Examples) -> int:
    """Number of scores of an evaluation: one per query of judgements, else one per row."""
    return len(np.unique(rows.columns["query"])) if rows.kind in JUDGED else len(rows)


def with_fewer_documents(rows: Examples, seed: int) -> Examples:
    """Keep the judged documents of a corpus and a sample of the others, MOST_DOCUMENTS in all.

    Args:
        rows: Rows of a set. Without a corpus they stay.
        seed: Draws the sample.

    Returns:
        Rows with a corpus of at most MOST_DOCUMENTS, or of the judged ones if these are more.
    """
    if rows.documents is None or len(rows.documents) <= MOST_DOCUMENTS:
        return rows
    judged = np.unique(rows.columns["document"])
    others = np.setdiff1d(rows.documents, judged)
    count = min(max(MOST_DOCUMENTS - len(judged), 0), len(others))
    sample = np.random.default_rng(seed).choice(others, count, replace=False)
    kept = np.union1d(judged, sample)
    used = np.union1d(
        kept, np.union1d(rows.columns["query"], [*rows.unreachable, *rows.own.values()]).astype(int)
    )
    number = {int(place): now for now, place in enumerate(used.tolist())}
    return replace(
        _with_sentences(rows, used),
        documents=np.searchsorted(used, kept).astype(np.int32),
        unreachable={number[query]: gains for query, gains in rows.unreachable.items()},
        own={number[query]: number[document] for query, document in rows.own.items() if query in number},
    )


def read_sources(
    names: Sequence[str] | None, target: Target, reading: Reading
) -> tuple[list[TrainingSet], dict[str, str]]:
    """Read the training sets, without the rows that the target has too.

    Args:
        names: Sets and files. None: every set that has a training file, in the language of the target.
        target: The target.
        reading: How they are read.

    Returns:
        The sources, and name → why a set is not one.

    Raises:
        UserError: A name that is not a set, or no source at all.
    """
    described = described_sets(DATASETS, reading.config_dir)
    sources: list[TrainingSet] = []
    left_out: dict[str, str] = {}
    for name in _sets_at_hand(described, target, reading) if names is None else names:
        if reading.is_over and (sources or target.own is not None):
            left_out[name] = "the time for reading was over. Name it as a source, or give more minutes"
            continue
        place: Path | None = Path(name)
        if is_table(name):
            config, rows = reading.own(Path(name))
        else:
            require_set("sources", name, described)
            config = read_description(described[name])
            read = reading.split(config, "train")
            if read is None:
                left_out[name] = f"its training file is not below {reading.data_dir}"
                continue
            place, rows = reading.place_of(config), read
        if rows.kind not in {*LEARNS_BY, Kind.NLI_PAIR}:
            left_out[name] = f"{rows.kind.replace('_', ' ')}s cannot be trained on here"
            continue
        source = _without_leaks(source_of(rows, place=place, config=config), target.scored, reading)
        if len(source.rows) < LEAST_ROWS:
            left_out[name] = (
                f"{len(source.rows)} rows without those of the target; at least {LEAST_ROWS} are needed"
            )
            continue
        sources.append(source)
    if not sources and target.own is None:
        reasons = "; ".join(f"{name}: {why}" for name, why in left_out.items()) or "no set"
        raise UserError(
            f"sources: nothing to train on ({reasons}). Give files, or data_dir=<folder that holds the sets>"
        )
    return sources, left_out


def with_rows(examples: Examples, rows: np.ndarray) -> Examples:
    """Take some rows with a table of their sentences alone: a table of a whole set would be encoded whole.

    Args:
        examples: Rows of a split.
        rows: Indices, or a mask over all rows.

    Returns:
        The rows in the order of the indices.
    """
    chosen = examples.select(rows)
    return _with_sentences(chosen, np.unique(np.concatenate(list(chosen.columns.values()))))


def _with_sentences(rows: Examples, used: np.ndarray) -> Examples:
    """Leave out the sentences that are not used, of which no column has one."""
    return replace(
        rows,
        sentences=[rows.sentences[place] for place in used.tolist()],
        columns={
            name: np.searchsorted(used, values).astype(np.int32) for name, values in rows.columns.items()
        },
        sides=None if rows.sides is None else rows.sides[used],
    )


def source_of(
    rows: Examples, *, place: Path | None = None, config: DatasetConfig | None = None
) -> TrainingSet:
    """Return rows in the kind that a bi-encoder learns from, with their loss.

    Args:
        rows: Rows of any kind.
        place: The user's file. None for a set of conf/dataset.
        config: Its description. None if it has none.

    Returns:
        NLI pairs as triplets, and judgements as positive pairs. Other kinds stay.
    """
    if rows.kind is Kind.NLI_PAIR:
        rows = convert_rows(rows, Kind.TRIPLET)
    if rows.kind in JUDGED:
        rows = replace(convert_rows(rows, Kind.POSITIVE_PAIR), documents=None, unreachable={}, own={})
    loss = LEARNS_BY.get(rows.kind, "info_nce")
    return TrainingSet(rows.name, rows, loss, len(rows), place=place, config=config)


def read_panel(
    target: Target, sources: Sequence[TrainingSet], reading: Reading, *, most: int = 6
) -> list[Examples]:
    """Read dev splits of other sets, MOST_PANEL rows each, on which a training may lose.

    The sets of the sources come first, then other sets of the language. Demo sets are only used without other
    sets.

    Args:
        target: Set to be scored on, which is never in the panel.
        sources: Training sets to choose from.
        reading: Options with which files and sets are read.
        most: Largest number of sets.

    Returns:
        Dev rows of sets that are scored by Spearman's correlation.
    """
    described = described_sets(DATASETS, reading.config_dir)
    first = [source.name for source in sources if source.place is None]
    names = dict.fromkeys([*first, *_sets_at_hand(described, target, reading, split="dev")])
    panel: list[Examples] = []
    for name in names:
        if len(panel) == most:
            break
        if name == target.name or name not in described:
            continue
        config = read_description(described[name])
        has_dev = has_split(asdict(config), "dev", source=Source.LOCAL, data_dir=reading.data_dir)
        dev = reading.split(config, "dev") if has_dev else None
        if dev is not None and main_metric(dev.kind) == "spearman":
            panel.append(reading.sampled(dev, MOST_PANEL))
    return panel


def _sets_at_hand(
    described: Mapping[str, Path], target: Target, reading: Reading, *, split: str = "train"
) -> list[str]:
    """Sets of the target's language with a file of a split. Demo sets are only used without other sets."""
    found = []
    for name, path in described.items():
        config = read_description(path)
        if config.kind not in {*LEARNS_BY, Kind.NLI_PAIR} or name == target.name:
            continue
        if config.language == target.config.language and has_split(
            asdict(config), split, source=Source.LOCAL, data_dir=reading.data_dir
        ):
            found.append(name)
    real = [name for name in found if not name.startswith("demo_")]
    return real or found


def _without_leaks(source: TrainingSet, scored: Examples, reading: Reading) -> TrainingSet:
    """Leave out rows that equal scored rows exactly or nearly, and keep at most MOST_TRAIN.

    `total` is estimated from twice as many rows, so that a set of a quarter of a million is not searched whole.
    """
    looked_at = reading.sampled(source.rows, 2 * MOST_TRAIN)
    leaky = LeakFilter([scored]).leaky_rows_of(looked_at)
    rows = with_rows(looked_at, np.setdiff1d(np.arange(len(looked_at)), leaky)) if len(leaky) else looked_at
    total = round(len(source.rows) * len(rows) / max(len(looked_at), 1))
    return replace(source, rows=reading.sampled(rows, MOST_TRAIN), total=total, leaky=len(leaky))


def _held_out(rows: Examples, seed: int) -> np.ndarray:
    """Rows that score trainings on the others, bool array (rows,). No text is on both sides, where that is possible."""
    labels = rows.targets if rows.kind in (Kind.LABELLED_PAIR, Kind.NLI_PAIR) else None
    classes = np.zeros(len(rows), int) if labels is None else np.unique(labels, return_inverse=True)[1]
    groups = offered("tables", "connected_groups")([values.tolist() for values in rows.columns.values()])
    shares = {"train": 1 - DEV_SHARE, "dev": DEV_SHARE}
    is_dev = offered("tables", "split_groups")(groups, classes, shares, seed) == "dev"
    if is_dev.sum() < DEV_SHARE * len(rows) / 2:  # nearly all rows are connected
        is_dev = np.random.default_rng(seed).permutation(len(rows)) < round(DEV_SHARE * len(rows))
    return np.asarray(is_dev)


def _metric(kind: Kind) -> str:
    metric = chooses(kind)
    assert metric is not None  # rows were required to have one
    return metric


def _require_scored(rows: Examples, word: str) -> None:
    if rows.kind is Kind.LABELLED_TEXT or chooses(rows.kind) is None:
        why = UNSCORED.get(rows.kind, "texts with classes are scored by a classifier")
        raise UserError(f"{word}: {why}. Give pairs with labels, pairs that belong together, or triplets")
    unit, least = ("scored queries", LEAST_QUERIES) if rows.kind in JUDGED else ("rows", LEAST_ROWS)
    if _num_scores(rows) < least:
        raise UserError(
            f"{word}: too few {unit} ({_num_scores(rows)}) to compare trainings. Give at least {least}"
        )
