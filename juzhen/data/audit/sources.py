"""What the audit reads: the configured sets that have a file, and lines of running text."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from juzhen.core.aliases import require_set
from juzhen.core.errors import UserError
from juzhen.core.examples import Examples, Kind
from juzhen.data.configured import described_sets, read_description
from juzhen.data.rows import own_set
from juzhen.data.source import load_examples
from juzhen.data.spec import Source
from juzhen.data.tables import TableReading, as_text, is_table, text_values

EVALUATION_SPLITS = ("dev", "test")


class ConfiguredSets:
    """The datasets of conf/dataset as they lie below `data_dir`; demo sets come with juzhen. A table is a set, too.

    config_dir  a further folder of dataset/ files; None: there is none
    on_bad_row  error: the first faulty row is a UserError · drop: such rows are left out and counted
    absent      `set/split` that has no file, in the order in which they were looked for
    """

    def __init__(
        self, folder: Path, data_dir: Path, *, config_dir: Path | None = None, on_bad_row: str = "drop"
    ) -> None:
        self.files = described_sets(folder, config_dir)
        self.data_dir = data_dir
        self.on_bad_row = on_bad_row
        self.absent: list[str] = []
        self._read: dict[str, Examples | None] = {}

    def training(self, names: Sequence[str] | None) -> list[Examples]:
        """The named sets, each its train split unless another is named; when None all that have a file.

        All are those of rows: running text, of kind `sentence`, is another audit.
        """
        return self._all(names, ("train",), option="--train")

    def evaluation(self, names: Sequence[str] | None) -> list[Examples]:
        """The dev and test splits of the named sets, or of all."""
        return self._all(names, EVALUATION_SPLITS, option="--evaluate")

    def _all(self, names: Sequence[str] | None, splits: Sequence[str], *, option: str) -> list[Examples]:
        sets: dict[str, Examples] = {}
        for name in self._of_rows() if names is None else names:
            if is_table(name):
                sets[name] = own_set(Path(name), TableReading(on_bad_row=self.on_bad_row), splits[-1])[1]
                continue
            key, _, split = name.partition("/")
            require_set(option, key, self.files)
            for split_name in [split] if split else splits:
                examples = self.load(key, split_name)
                if examples is not None:
                    sets[f"{key}/{split_name}"] = examples
        if not sets:
            raise UserError(
                f"{option}: no file of {' or '.join(splits)} of {', '.join(names or self._of_rows())} below "
                f"{self.data_dir}; type --data-dir <folder that holds the data sets>, or {option} demo_sts"
            )
        return list(sets.values())

    def _of_rows(self) -> list[str]:
        return [key for key, path in self.files.items() if read_description(path).kind != Kind.SENTENCE]

    def load(self, key: str, split: str) -> Examples | None:
        """One split; None, noted in `absent`, where there is no file."""
        name = f"{key}/{split}"
        if name not in self._read:
            config = read_description(self.files[key])
            # Without a folder there are the sets that juzhen ships, and those that say themselves where they lie.
            root = self.data_dir if self.data_dir.is_dir() else Path()
            has_files = config.source in (Source.BUILTIN, Source.LOCAL) or self.data_dir.is_dir()
            self._read[name] = None
            if has_files:
                self._read[name] = load_examples(
                    config, split, source=Source.LOCAL, data_dir=root, on_bad_row=self.on_bad_row
                )
            if self._read[name] is None:
                self.absent.append(name)
        return self._read[name]

    def tell_dropped(self) -> None:
        """Print how many faulty rows were left out of the sets that were read."""
        for name, rows in self._read.items():
            if rows is not None and rows.num_dropped:
                print(f"{name}: {rows.num_dropped:,} faulty rows are left out", file=sys.stderr)

    def splits(
        self, name: str, splits: Sequence[str] = ("train", "dev", "test"), *, option: str = ""
    ) -> Iterator[tuple[str, Examples | None]]:
        """Each split of a set and its rows, None where there is no file. Raises UserError where there is none at all.

        option  begins the message
        """
        require_set(option.strip() or "set", name, self.files)
        has_rows = False
        for split in splits:
            rows = self.load(name, split)
            has_rows = has_rows or rows is not None
            yield split, rows
        if not has_rows:
            raise UserError(
                f"{option}{name}: no file of {' or '.join(splits)} below {self.data_dir}; type --data-dir <folder that "
                "holds the data sets>"
            )


def read_lines(name: str, sets: ConfiguredSets) -> list[str]:
    """The texts of a file (lines, or a column `text`), or those of a configured training set."""
    if is_table(name):
        return [*map(as_text, text_values(Path(name)))]
    examples = sets.training([name])[0]
    if "text" not in examples.columns:
        raise UserError(f"--text {name}: its rows are {examples.kind}s, no single texts; type --train {name}")
    return examples.texts("text")
