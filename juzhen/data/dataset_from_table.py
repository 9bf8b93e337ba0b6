"""Make a data set from one table: bad rows left out, splits without common sentences, and a description."""

import hashlib
import itertools
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import yaml
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from juzhen.core.atomic_write import write_text
from juzhen.core.errors import UserError, command, require_number
from juzhen.core.examples import TEACHER_SCORE
from juzhen.core.file_guard import check_overwritable
from juzhen.core.kinds import Kind
from juzhen.core.paths import DATASETS
from juzhen.core.safe_open import csv_text, open_regular_file, read_bytes, read_text
from juzhen.core.text import counted, name_fault, short, text_fault
from juzhen.data.headers import language_of
from juzhen.data.leaks.matching import normalize
from juzhen.data.row_kinds import Guess, RawTable
from juzhen.data.spec import NAME

SPLITS = ("train", "dev", "test")
SCORE_BINS = 5
"""Equal parts of the score range. Each split has its share of every part."""

ORIGIN = "# Made of: "
"""Line of a description with the command and the content that its set was made from."""

MIRRORED = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR, Kind.POSITIVE_PAIR)
"""Kinds of pairs that mean the same with their texts exchanged."""


@dataclass(frozen=True)
class NewSet:
    """A set that is about to be written.

    Args:
        name: Name of the set.
        guess: Detected columns and kind of the table.
        splits: Split → rows, with the columns of `guess.columns`.
        left_out: Line → reason, of rows in no split.
    """

    name: str
    guess: Guess
    splits: dict[str, pd.DataFrame]
    left_out: dict[int, str]


def make_set(
    name: str, table: RawTable, guess: Guess, *, dev: float = 0.1, test: float = 0.1, seed: int = 0
) -> NewSet:
    """Clean and split the rows of a table. Single sentences cannot be scored and all go to training.

    Args:
        name: Name of the set.
        table: The rows.
        guess: Their columns and kind.
        dev: Share of the rows for dev.
        test: Share of the rows for test.
        seed: Seed of the split.

    Returns:
        Rows of each split, and the lines that were left out with their reasons.

    Raises:
        UserError: An invalid name, no good row, or a split without rows because all rows share sentences.
    """
    if not NAME.fullmatch(name) or name_fault(name):
        raise UserError(f"name={short(name)}: expected letters, digits, _ and -")
    require_number("dev + test", dev + test, 0, 1, open_high=True)
    rows, left_out = clean(table, guess)
    faults = [f"Line {line}: {reason}" for line, reason in left_out.items()]
    if rows.empty:
        raise UserError(f"{table.place}: no row can be used. {faults[0]}")
    shares = {"train": 1 - dev - test, "dev": dev, "test": test}
    if guess.kind is Kind.SENTENCE:
        return NewSet(name, guess, {"train": rows}, left_out)
    # Negatives come from a pool that many rows share: they would join all rows into one group.
    groups = connected_groups([rows[field].map(normalize) for field in guess.texts[:2]])
    splits = split_groups(groups, strata(rows, guess), shares, seed)
    if empty := [split for split in SPLITS if shares[split] and split not in splits]:
        joined, count = np.bincount(groups).max(), len(rows)
        why = (
            f"{joined} of {count} rows share sentences and must be in one split"
            if joined > 1
            else f"only {counted(count, 'rows')} can be used"
        )
        problem = f"{table.place}: no row is left for {' and '.join(empty)}, because {why}"
        remedy = "Add rows, or type --dev 0 --test 0 to juzhen dataset and score on another set"
        raise UserError(". ".join([problem, *faults[:1], remedy]))
    parts = {split: rows[splits == split] for split in SPLITS if split in splits}
    return NewSet(name, guess, parts, left_out)


def clean(table: RawTable, guess: Guess) -> tuple[pd.DataFrame, dict[int, str]]:
    """Separate the rows to train on from all others.

    Left out are rows without a text or label, rows that repeat an earlier one, all rows that contradict one another
    (the same texts, another label), and rows that pair a text with itself where that teaches nothing.

    Args:
        table: Cells of the file, with faulty lines.
        guess: Columns and kind of the rows.

    Returns:
        The rows, with a column for each field and line numbers as index, and line → reason of all others.
    """
    rows = table.cells[[*guess.columns.values()]].set_axis([*guess.columns], axis=1)
    line_numbers, rows = rows.index, rows.reset_index(drop=True)  # several rows may come from one line
    reasons = pd.Series([table.faults.get(line, "") for line in line_numbers], rows.index, dtype=object)

    def refuse(where: pd.Series, reason: str | pd.Series) -> None:
        reasons[where & (reasons == "")] = reason

    lacks = _lacking(rows, guess)
    for field in guess.texts:
        faults = rows[field].map(text_fault).mask(lacks[field], None)
        refuse(faults.notna(), f"{field} " + faults.fillna(""))
    for field in guess.teacher_scores:
        is_number = np.isfinite(pd.to_numeric(rows[field], errors="coerce"))
        refuse(~is_number & ~lacks[field], f"{field} is " + rows[field] + ", which is no number")
    if guess.target:
        rows = rows.assign(**{guess.target: _written_labels(rows[guess.target], guess, refuse)})
    keys = pd.DataFrame({field: rows[field].map(normalize) for field in guess.texts})
    if guess.kind in (Kind.LABELLED_PAIR, Kind.POSITIVE_PAIR, Kind.TRIPLET):
        same = sum(
            ((keys[a] == keys[b]) & ~lacks[a] for a, b in itertools.combinations(keys, 2)), start=False
        )
        refuse(same & (rows["label"] == "0" if guess.target else True), "two of its texts are the same")
    if guess.kind in MIRRORED:
        keys = pd.DataFrame(np.sort(keys.to_numpy(object), axis=1), index=keys.index)
    good = keys[reasons == ""]
    if guess.target:
        labels = rows.loc[good.index, guess.target].groupby([*good.to_numpy(object).T])
        refuse(labels.transform("nunique").reindex(rows.index, fill_value=0) > 1, "contradicts another row")
    refuse(good.duplicated().reindex(rows.index, fill_value=False), "repeats an earlier row")
    is_good = (reasons == "").to_numpy()
    left_out = table.faults | dict(zip(line_numbers[~is_good].tolist(), reasons[~is_good], strict=True))
    return rows[is_good].set_axis(line_numbers[is_good], axis=0), dict(sorted(left_out.items()))


def _lacking(rows: pd.DataFrame, guess: Guess) -> pd.DataFrame:
    """Texts, and scores of them, that a row may lack: negatives, if it has another one."""
    negatives = guess.texts[2:] if guess.kind is Kind.TRIPLET else []
    lacks = rows.eq("") & rows.columns.isin(negatives)
    lacks.loc[lacks[negatives].all(axis=1)] = False
    for field in guess.teacher_scores:
        of = field.removeprefix(TEACHER_SCORE.format(""))
        lacks[field] = lacks[of] & rows[field].eq("")
        lacks[of] &= lacks[field]
    return lacks


def _written_labels(labels: pd.Series, guess: Guess, refuse: Any) -> pd.Series:
    """Labels and scores in their written form. Others are refused."""
    refuse(labels == "", f"{guess.target} is empty")
    if guess.labels is not None:
        refuse(~labels.isin(guess.labels), "label is " + labels + ", which is none of the classes")
        return labels.map(guess.labels).fillna("")
    numbers = pd.to_numeric(labels, errors="coerce")
    refuse(~np.isfinite(numbers), "score is " + labels + ", which is no number")
    return numbers.map("{:.10g}".format)


def connected_groups(columns: Sequence[Sequence[str]]) -> np.ndarray:
    """Group rows that share a text, in any column, directly or through other rows.

    Args:
        columns: Texts of all rows, one list for each column.

    Returns:
        Number of the group of each row, int (rows,), from 0 in order of appearance.

    >>> connected_groups([["a", "c", "b", "d"], ["b", "d", "e", "f"]]).tolist()
    [0, 1, 0, 1]
    """
    num_rows = len(columns[0])
    texts = pd.factorize(np.concatenate([np.asarray(column, object) for column in columns]))[0]
    rows = np.tile(np.arange(num_rows), len(columns))
    size = num_rows + texts.max() + 1
    graph = coo_array((np.ones(len(texts)), (rows, num_rows + texts)), shape=(size, size))
    return pd.factorize(connected_components(graph, directed=False)[1][:num_rows])[0]


def strata(rows: pd.DataFrame, guess: Guess) -> np.ndarray:
    """Compute the stratum of each row. Each split gets the same share of every stratum.

    Args:
        rows: Output of `clean`.
        guess: Without a target all rows are in one stratum. Scores are divided into SCORE_BINS parts of their range.

    Returns:
        int (rows,), from 0.
    """
    if guess.target is None:
        return np.zeros(len(rows), int)
    if guess.score_range is None:
        return pd.factorize(rows[guess.target])[0]
    lowest, highest = guess.score_range
    part = (rows[guess.target].to_numpy(float) - lowest) / (highest - lowest)
    return np.minimum((part * SCORE_BINS).astype(int), SCORE_BINS - 1)


def split_groups(
    groups: np.ndarray, classes: np.ndarray, shares: Mapping[str, float], seed: int
) -> np.ndarray:
    """Divide rows into splits by whole groups.

    In random order each group goes to the split that lacks most of its classes. A group that would overfill dev or test
    goes to train.

    Args:
        groups: Number of the group of each row, int (rows,).
        classes: Number of the class of each row, int (rows,).
        shares: Split → share of the rows. The first split takes the groups that are too large for others.
        seed: Of the order of the groups.

    Returns:
        Name of the split of each row, (rows,).
    """
    order = np.argsort(groups, kind="stable")
    members = np.split(classes[order], np.flatnonzero(np.diff(groups[order])) + 1)
    splits = [split for split in shares if shares[split] > 0]
    aims = np.outer([float(shares[split]) for split in splits], np.bincount(classes))
    lacking, room, chosen = aims.copy(), aims.sum(axis=1), np.zeros(len(members), int)
    room[0] = np.inf
    for group in np.random.default_rng(seed).permutation(len(members)):
        rows = members[group]
        need = (lacking[:, rows] / aims[:, rows]).sum(axis=1)
        chosen[group] = np.where(room >= len(rows) / 2, need, -np.inf).argmax()
        np.subtract.at(lacking[chosen[group]], rows, 1)
        room[chosen[group]] -= len(rows)
    return np.array(splits)[chosen[groups]]


class Origin(NamedTuple):
    """Origin of a set that was made from a table.

    Args:
        content: SHA-256 of the table.
        command: Command that made the set.
    """

    content: str
    command: str

    @property
    def path(self) -> str:
        return shlex.split(self.command)[2]


def origin_of(path: Path, words: Sequence[str]) -> Origin:
    """Return the origin of the set that `juzhen dataset` makes from a table with these options.

    Args:
        path: The table.
        words: Options of the command line.

    Returns:
        Digest of the file, and the command that makes the set.
    """
    with open_regular_file(path) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Origin(digest, command("juzhen", "dataset", path.resolve(), *words))


def read_origin(name: str, descriptions: Path, table: Path) -> Origin | None:
    """Return the origin of an existing set, which is requested for `table`, or None.

    Args:
        name: Name of the set.
        descriptions: Folder of the descriptions of sets.
        table: The table that the set is requested for.

    Returns:
        None if no set has this name.

    Raises:
        UserError: `juzhen dataset` did not make the set here. Of two sets with one name Hydra takes that of the clone.
    """
    path = descriptions / f"{name}.yaml"
    first = next((file for file in (DATASETS / path.name, path) if file.is_file()), None)
    if first is None:
        return None
    match = re.search(rf"^{ORIGIN}(\w+) (.+)$", read_text(first), re.MULTILINE)
    if match is None or first.resolve() != path.resolve():
        other = command("juzhen", "dataset", table, "--name", f"my_{name}")
        raise UserError(f"{name}: there is a data set of this name. Choose another: {other}")
    made_by = re.sub(r"^(juzhen) new ", r"\1 dataset ", match[2])  # the name of the verb until 0.2
    return Origin(match[1], made_by)


def description(new: NewSet, files: Mapping[str, Path], origin: Origin) -> str:
    """Return the set's YAML, without keys that have a default.

    Paths are absolute: `data_dir` stays free for other sets.

    Args:
        new: The set.
        files: Split → its file.
        origin: Noted in the second line, so that the same command may replace the set.

    Returns:
        YAML text with the origin above its keys.
    """
    guess, rows = new.guess, new.splits["train"].head(1000)
    layout = {
        "files": {split: str(file) for split, file in files.items()},
        "columns": {field: field for field in guess.columns},
        "quoted": True,
    }
    keys: dict[str, Any] = {
        "name": new.name,
        "kind": str(guess.kind),
        "language": language_of(rows[field].tolist() for field in guess.texts),
        "source": "local",
        "layout": "csv",
        "layouts": {"csv": layout},
    }
    if guess.labels:
        keys["labels"] = {label: number for number, label in enumerate(guess.classes)}
    if guess.score_range:
        keys["score_range"] = [*guess.score_range]
    head = f"# @package dataset.{new.name}\n{ORIGIN}{' '.join(origin)}\n"
    return head + yaml.safe_dump(keys, allow_unicode=True, sort_keys=False, width=120)


def files_of(new: NewSet, data_dir: Path) -> dict[str, Path]:
    """Return split → its output file.

    Args:
        new: The set.
        data_dir: Folder of the data sets.

    Returns:
        Absolute paths, `data_dir/NAME/SPLIT.csv`.
    """
    return {split: (data_dir / new.name).resolve() / f"{split}.csv" for split in new.splits}


def write_set(new: NewSet, *, data_dir: Path, descriptions: Path, origin: Origin) -> Path:
    """Write the splits below `data_dir`, and the description next to those of other sets.

    Args:
        new: The set.
        data_dir: Folder of the data sets.
        descriptions: Folder of the descriptions of sets.
        origin: Command and table that the set is made from.

    Returns:
        Path of the description.

    Raises:
        UserError: A file exists that juzhen did not write.
    """
    path, files = descriptions / f"{new.name}.yaml", files_of(new, data_dir)
    texts = {
        file: csv_text([[*new.guess.columns], *new.splits[split].to_numpy().tolist()])
        for split, file in files.items()
    }
    write_described(path, description(new, files, origin), texts, folder=data_dir / new.name)
    return path


def write_described(path: Path, description: str, texts: Mapping[Path, str], *, folder: Path) -> None:
    """Write the files of a set, then its description. A file with the same text stays untouched.

    Args:
        path: The description.
        description: Its text.
        texts: Text of each file of rows.
        folder: Folder of these files, for the message.

    Raises:
        UserError: Rows of another set, or a file that juzhen did not write.
    """

    def differs(file: Path, text: str) -> bool:
        return read_bytes(file) != text.encode()

    if not path.exists() and any(file.is_file() and differs(file, text) for file, text in texts.items()):
        raise UserError(
            f"{folder}: holds the rows of another set. Choose another: juzhen dataset <file> --name {folder.name}_2"
        )
    texts = {**texts, path: description}
    check_overwritable(*texts)
    for file, text in texts.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.is_file() or differs(file, text):
            write_text(file, text)
