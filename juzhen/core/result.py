"""Result: the numbers that a stage leaves behind, as plain data. Written once, read by `sweeps` without torch."""

import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from juzhen.core.errors import UserError
from juzhen.core.opened import read_json
from juzhen.core.result_shape import Plain, ResultForm
from juzhen.core.schema import Number, require_form
from juzhen.core.secrets import redacted
from juzhen.core.texts import short
from juzhen.core.whole import write_json

RESULT_FILE = "result.json"
FORMAT_VERSION = 2
STAGES = "stages"
"""Subfolder of a run in which the stages before its last keep their files."""
WITHOUT_LEAKS = "_without_leaks"
"""End of a metric's name: the same metric on the rows that training has not seen. Only sets with a leak have it."""


NESTED = re.compile(r"(.+)@([0-9]+)")
"""Name of a set as embeddings that are cut score on it: `lcqmc@64` by their first 64 numbers."""


def nested_name(name: str, dim: int) -> str:
    """What results call a set, or a column, that the first `dim` numbers of embeddings score on."""
    return f"{name}@{dim}"


def without_size(name: str) -> tuple[str, int | None]:
    """A set, or a column, and the size that embeddings were cut to for it; None: they were whole.

    >>> without_size("test/lcqmc@64"), without_size("lcqmc")
    (('test/lcqmc', 64), ('lcqmc', None))
    """
    match = NESTED.fullmatch(name)
    return (match[1], int(match[2])) if match else (name, None)


TIED = 0.01
"""From how wide a range on, between the worst and the best order of equals, a reader is told of it."""

ORDERS = ("worst", "best")


@dataclass
class Score:
    """One number of one evaluation set; correlations are fractions, not percent.

    value      None where the set could not be scored, or the measure is undefined: `why` says so
    low, high  95 % bootstrap interval, None where none was asked for
    count      rows it was computed from
    worst, best  of a ranking in which documents have equal scores: the value in the worst and in the best order of
               these, of which `value` is the expected one; None where their order makes no difference
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    count: int = 0
    worst: float | None = None
    best: float | None = None
    why: str | None = field(default=None, compare=False)

    @property
    def is_tied(self) -> bool:
        """Whether the order of documents of equal scores moves the value by TIED or more."""
        return self.worst is not None and self.best is not None and self.best - self.worst >= TIED

    def as_dict(self) -> dict[str, Any]:
        """As it is written: without orders and reasons where there are none."""
        return {
            name: value
            for name, value in asdict(self).items()
            if value is not None or name not in (*ORDERS, "why")
        }


@dataclass
class Threshold:
    """From which score on a pair of a set counts as the same, and how good these decisions are, as fractions.

    value      has the best accuracy on the dev split of the set; None where no score does better than calling all pairs
               the same, or none: `why` says so
    rows       of dev, which it was fitted on
    judged_on  `test`, or `halves of dev`: each half by the threshold of the other, since there is no test split
    accuracy, precision, recall, f1  of the rows it is judged on, label 1 being the class that is looked for; None where
               undefined
    """

    value: float | None
    rows: int
    judged_on: str
    accuracy: float | None = None
    precision: float | None = None
    recall: float | None = None
    f1: float | None = None
    why: str | None = None


class StoredConfig(dict[str, Any]):
    """The configuration of a run as its result tells it, perhaps a stranger's: UserError for a key that it lacks."""

    place: str | Path = "the result"

    def __missing__(self, key: str) -> Any:
        raise UserError(
            f"{self.place}: the configuration of the run has no {key}; is it the file of a whole run?"
        )


@dataclass
class Result:
    """All that one stage measured, and what it takes to get the same numbers again.

    name        what the run is called, the folder name before the hash
    key         the hash: runs with the same one are the same run
    scores      metric key `split/dataset/metric` → Score; a set that could not be scored has value None
    trained_on  dataset keys of this stage and of the stages before it, oldest first
    data        `train/dataset` or `split/dataset` → rows, dropped rows, fingerprint; `cut`: how many of its texts, or
                of its pairs for a cross-encoder, are longer than is read; with `evaluation.without_leaks` `leaked` of
                an evaluation split: `rows` that training has seen, their `share`, and rows `by_set`
    untrained   scores of the weights before this run's training, where `evaluation.untrained` asked for them
    training    steps, pairs, seconds, pairs per second, last and best validation; `sets`: batches and rows of each set
    weights     digest of the weights that were left behind (`juzhen.core.weights`), "" where there are none
    filled      what was scored after the run had ended, oldest first: when, which splits, with which versions, and the
                descriptions of the sets; scores and `data` of them are among those of the run
    thresholds  set of 0/1 pairs, positive pairs or triplets → the Threshold that was fitted on its dev split
    transfer    set whose classes a classifier told apart → the split that it was judged on, rows and fingerprints
    unscored    set that was to be evaluated on → why the model has no measure of it
    config      the whole configuration, resolved
    environment  command, commit, versions of libraries, device
    seed        of all that was drawn
    stage       number of the stage in its curriculum, from 0
    finished_at  date and time
    format_version  of the file
    """

    name: str
    key: str
    trained_on: list[str]
    scores: dict[str, Score]
    config: dict[str, Any]
    data: dict[str, dict[str, Any]]
    training: dict[str, Any]
    environment: dict[str, Any]
    seed: int
    stage: int = 0
    untrained: dict[str, Score] = field(default_factory=dict)
    finished_at: str = ""
    weights: str = ""
    filled: list[dict[str, Any]] = field(default_factory=list)
    thresholds: dict[str, Threshold] = field(default_factory=dict)
    transfer: dict[str, dict[str, Any]] = field(default_factory=dict)
    unscored: dict[str, str] = field(default_factory=dict)
    format_version: int = FORMAT_VERSION

    @property
    def folder(self) -> str:
        """Where it was read from; "" where it was not."""
        place = getattr(self.config, "place", None)
        return str(Path(place).parent) if isinstance(place, Path) else ""

    @property
    def is_debug(self) -> bool:
        """Of a job that tries whether everything runs, on some rows."""
        return self.config.get("debug_rows") is not None

    @property
    def measured_weights(self) -> str:
        """Digest of the weights that were measured; "" where there are none, or an old result does not say."""
        return next(filter(None, (self.weights, *(fill["weights"] for fill in self.filled))), "")

    @property
    def absent(self) -> list[str]:
        """`split/dataset` of the evaluation splits that had no file when they were looked for."""
        columns = [key.rpartition("/")[0] for key, score in self.scores.items() if score.value is None]
        return [
            column
            for column in dict.fromkeys(columns)
            if column not in self.data and self.described(column.split("/")[1]) is not None
        ]

    def described(self, name: str) -> dict[str, Any] | None:
        """What a set was read by, a DatasetConfig as plain containers; None for one that this result knows not of."""
        for fill in reversed(self.filled):
            if name in fill["sets"]:
                return fill["sets"][name]
        return self.config["dataset"].get(name) or (self.config.get("evaluate") or {}).get(name)

    def write(self, folder: str | Path) -> Path:
        """Writes `<folder>/result.json` in one piece: a killed process leaves the old file or the new one."""
        path = Path(folder) / RESULT_FILE
        scores = {
            name: {key: score.as_dict() for key, score in getattr(self, name).items()}
            for name in ("scores", "untrained")
        }
        write_json(path, redacted(asdict(self) | scores), in_own_folder=True)
        return path

    @classmethod
    def read(cls, path: str | Path) -> "Result":
        """Reads a result file or the folder that holds one. Raises UserError when it is missing or broken."""
        path = Path(path)
        path = path / RESULT_FILE if path.is_dir() else path
        try:
            fields = read_json(path)
            require_form(fields, ResultForm, "it")
            for key, value in fields["training"].items():
                kind = Number | None if key.startswith("best_dev_") else Plain
                require_form(value, kind, f"it.training.{key}")
            if (written := fields.get("format_version", 1)) != FORMAT_VERSION:
                raise ValueError(f"it is of format {written}, and this version reads format {FORMAT_VERSION}")
            for name in ("scores", "untrained"):
                fields[name] = {key: Score(**score) for key, score in fields.get(name, {}).items()}
            thresholds = fields.get("thresholds", {}).items()
            fields["thresholds"] = {name: Threshold(**threshold) for name, threshold in thresholds}
            fields["config"] = StoredConfig(fields["config"])
            fields["config"].place = path
            return cls(**fields)
        except FileNotFoundError:
            raise UserError(
                f"{path}: no result here; the run did not finish, or this is no run folder"
            ) from None
        except (ValueError, TypeError, RecursionError) as error:
            raise UserError(f"{path}: not a result of juzhen ({short(str(error), 300)})") from error
