"""Scores of single rows of a run's evaluation sets: a small parquet file next to its result. Needs no torch.

The file has numbers and no text: `set` is the split and the set, `row` the index among the scored rows, from 0, and
`line` the line in the source file. Further columns depend on the kind, see `SetRows`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import TypedDict

from juzhen.core.atomic_write import atomic_write
from juzhen.core.errors import UserError
from juzhen.core.kinds import Kind
from juzhen.core.result import Column, Result
from juzhen.core.safe_open import require_file
from juzhen.core.schema import Text, Whole, require_form
from juzhen.core.text import short

if TYPE_CHECKING:
    import pandas as pd

ROWS_FILE = "rows.parquet"
FORMAT_VERSION = 1
FACTS = b"juzhen"
"""Metadata key of the file with facts about weights and sets, as JSON."""

PLACES = ("row", "line")
ROWS_OF_PAIRS = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR, Kind.NLI_PAIR)
"""Kinds whose rows have one score and one gold value."""


class SetFacts(TypedDict):
    kind: Text
    fingerprint: Text
    rows: Whole


class Facts(TypedDict):
    format_version: Whole
    weights: Text
    sets: dict[Column, SetFacts]


@dataclass(frozen=True)
class SetRows:
    """Scores of one split of one set, row by row.

    kind         kind of its rows, a value of `juzhen.core.kinds.Kind`
    fingerprint  fingerprint of the rows as read
    columns      name → float32 array (rows,), NaN where a row has no value. `row` and `line` are int32, `line` 0 if the
                 source has no lines:
                 scored, labelled and NLI pairs   score, gold (grade from 0 to 1, label, or class index)
                 positive pairs and triplets      score, other (the highest of the other candidates), and
                                                  ranking_accuracy or triplet_accuracy of the row. If pairs are
                                                  searched in all of their split, score and other are of the
                                                  nearest right and wrong text, with recall_at_1, recall_at_10, mrr
                 rankings                         each metric of the query, such as ndcg_at_10
    """

    kind: str
    fingerprint: str
    columns: Mapping[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.columns["row"])

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[name]

    @property
    def frame(self) -> "pd.DataFrame":
        """DataFrame with a line for each row."""
        import pandas as pd

        return pd.DataFrame(dict(self.columns))


@dataclass(frozen=True)
class RowScores:
    """Scores of single rows of a run.

    Args:
        weights: Digest of the weights that computed them (`juzhen.core.result`), or "".
        sets: `split/dataset` → its rows.
    """

    weights: str = ""
    sets: Mapping[str, SetRows] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str | Path) -> "RowScores":
        """Read the file, or the one in a run folder. A missing file has no sets.

        Args:
            path: The parquet file, or the folder of a run.

        Returns:
            The scores. A missing file gives no sets.

        Raises:
            UserError: The file is not one of juzhen.
        """
        path = Path(path) / ROWS_FILE if Path(path).is_dir() else Path(path)
        if not path.exists():
            return cls()
        import pyarrow
        from pyarrow import parquet

        try:
            table = parquet.read_table(require_file(path))
            facts = json.loads((table.schema.metadata or {}).get(FACTS, b"{}"))
            require_form(facts, Facts, "it")
            if facts["format_version"] != FORMAT_VERSION:
                raise ValueError(
                    f"it is of format {facts['format_version']}, this version reads {FORMAT_VERSION}"
                )
            return cls(facts["weights"], dict(_sets(table.to_pandas(), facts["sets"])))
        except (OSError, ValueError, KeyError, TypeError, RecursionError, pyarrow.ArrowException) as error:
            raise UserError(
                f"{path}: no scores of single rows ({short(str(error), 200)}). Take the file away, and they are "
                "computed again where they are needed"
            ) from error

    def write(self, path: str | Path) -> None:
        """Write the file into a marked folder. Without sets nothing is written.

        Args:
            path: File in a folder that juzhen has marked.
        """
        if not self.sets:
            return
        import pandas as pd
        import pyarrow
        from pyarrow import parquet

        frames = {name: rows.frame for name, rows in self.sets.items()}
        frame = pd.concat(frames, names=["set"]).reset_index("set").astype({"set": "category"})
        facts = {
            "format_version": FORMAT_VERSION,
            "weights": self.weights,
            "sets": {
                name: {"kind": rows.kind, "fingerprint": rows.fingerprint, "rows": len(rows)}
                for name, rows in self.sets.items()
            },
        }
        table = pyarrow.Table.from_pandas(frame, preserve_index=False)  # NaN is written as null
        table = table.replace_schema_metadata({FACTS: json.dumps(facts)})
        with atomic_write(path, "wb", in_own_folder=True) as file:
            parquet.write_table(table, file, compression="zstd")

    def with_sets(self, weights: str, sets: Mapping[str, SetRows]) -> "RowScores":
        """Return these sets with others added, which replace those of their names.

        Scores of other weights are dropped.

        Args:
            weights: Digest of the weights that scored the new sets. If it differs, the old sets are dropped.
            sets: `split/dataset` → its rows.

        Returns:
            A new object.
        """
        return RowScores(weights, {**(self.sets if weights == self.weights else {}), **sets})

    def of(self, result: Result) -> dict[str, SetRows]:
        """Return the sets that a result was computed on with these weights and rows: `split/dataset` → rows.

        Args:
            result: Result of the same run. A set must have the same fingerprint and kind in both.

        Returns:
            `split/dataset` → rows. Empty if the weights differ.
        """
        if self.weights != result.measured_weights:
            return {}
        return {
            column: rows
            for column, rows in self.sets.items()
            if (read := result.data.get(column)) is not None
            and (read.get("fingerprint"), read.get("kind")) == (rows.fingerprint, rows.kind)
        }


def _sets(frame: "pd.DataFrame", sets: Mapping[str, Any]) -> Any:
    for name, group in frame.groupby("set", sort=False, observed=True):
        about = sets[str(name)]
        filled = [column for column in group.columns[1:] if column in PLACES or group[column].notna().any()]
        columns = {
            column: group[column].to_numpy(np.int32 if column in PLACES else np.float32) for column in filled
        }
        if about["rows"] != len(group):
            raise ValueError(f"{name} has {len(group):,} rows of {about['rows']:,}")
        is_graded = about["kind"] in ROWS_OF_PAIRS
        if is_graded and not all(np.isfinite(columns.get(each, np.nan)).all() for each in ("score", "gold")):
            raise ValueError(f"{name} lacks a score or a gold value of a row")
        yield str(name), SetRows(about["kind"], about["fingerprint"], columns)
