"""Result: the numbers that a stage leaves behind, as plain data. Written once, read by `sweeps` without torch."""

import hashlib
import math
import re
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from juzhen.core.atomic_write import write_json
from juzhen.core.errors import UserError
from juzhen.core.file_guard import is_own_dir
from juzhen.core.safe_open import open_regular_file, read_json
from juzhen.core.schema import Number, Text, Whole, require_form
from juzhen.core.secrets import redacted
from juzhen.core.text import short

Metric = Annotated[str, Field(pattern=r"^[^/]+/[^/]+/[^/]+$")]
Column = Annotated[str, Field(pattern=r"^[^/]+/[^/]+$")]
Plain = dict[str, Any] | list[Any] | Text | bool | Number | None


class ScoreForm(TypedDict):
    value: Number | None
    low: NotRequired[Number | None]
    high: NotRequired[Number | None]
    count: NotRequired[Whole]
    worst: NotRequired[Number | None]
    best: NotRequired[Number | None]
    why: NotRequired[Text | None]


Scores = dict[Metric, ScoreForm]


class ThresholdForm(TypedDict):
    value: Number | None
    rows: Whole
    judged_on: Text
    accuracy: NotRequired[Number | None]
    precision: NotRequired[Number | None]
    recall: NotRequired[Number | None]
    f1: NotRequired[Number | None]
    why: NotRequired[Text | None]


class LayoutForm(TypedDict, total=False):
    files: dict[str, Any] | None


class HubForm(TypedDict, total=False):
    splits: dict[str, Any] | None


class LearningForm(TypedDict, total=False):
    num_negatives: Whole | None
    in_batch: bool | None


class SetForm(TypedDict, total=False):
    name: Text
    kind: Text
    layout: Text
    layouts: dict[str, LayoutForm | None]
    source: Text | None
    hub: HubForm | None
    limit: Whole | None
    convert_to: Text | None
    view: Text | None
    learning: LearningForm | None
    symmetric: bool | None


Sets = dict[str, SetForm]


class NodeForm(TypedDict, total=False):
    _target_: Text
    name: Text | None


class BackboneForm(TypedDict, total=False):
    path: Text
    name: Text | None


class ScheduleForm(TypedDict):
    name: Text
    order: NotRequired[list[Text] | None]
    stages: NotRequired[dict[str, dict[str, Any] | None]]
    sets: NotRequired[dict[str, dict[str, Any] | None]]
    sample_by: NotRequired[Text]
    temperature: NotRequired[Number]
    weigh_loss: NotRequired[bool]


class EvaluationForm(TypedDict, total=False):
    splits: list[Text]
    backend: Text


class HardwareForm(TypedDict, total=False):
    precision: Text


class MergeForm(TypedDict):
    method: Text
    parents: list[Text]
    weights: NotRequired[Text | list[Number] | None]


class ConfigForm(TypedDict, total=False):
    model: NodeForm
    loss: NodeForm
    backbone: BackboneForm
    dataset: Sets
    evaluate: Sets | None
    schedule: Text | ScheduleForm
    evaluation: EvaluationForm
    hardware: HardwareForm | None
    logger: dict[str, Any] | None
    augmentation: dict[str, Any] | None
    source: Text
    data_dir: Text
    on_bad_row: Text
    sweep_row: Text | None
    init_from: Text | None
    merge: MergeForm
    debug_rows: Whole | None


class UnknownForm(TypedDict):
    looked_at: Whole
    texts: Whole
    pairs: Whole
    share: Number


class LeakedForm(TypedDict):
    rows: Whole
    share: Number
    by_set: NotRequired[dict[str, Whole]]


class DataForm(TypedDict, total=False):
    rows: Whole
    kind: Text
    fingerprint: Text
    unknown: UnknownForm
    leaked: LeakedForm


Data = dict[Column, DataForm]


class ParentForm(TypedDict):
    name: Text
    key: Text
    seed: Whole
    trained_on: list[Text]
    weight: NotRequired[Number]


class TrainedSetForm(TypedDict):
    batches: Whole
    rows: Whole
    share_of_batches: Number
    share_of_rows: Number
    loss: NotRequired[Number | None]
    gradient_norm: NotRequired[Number | None]
    weight: NotRequired[Number | None]
    weight_step: NotRequired[Whole]


class TrainingForm(TypedDict, total=False):
    rows_seen: Whole
    train_seconds: Number | None
    rows_per_second: Number | None
    peak_memory_mib: Number | None
    selected_on: list[Text]
    parents: list[ParentForm]
    sets: dict[str, TrainedSetForm]


class EnvironmentForm(TypedDict, total=False):
    command: list[Text] | None
    git_commit: Text | None
    device: Text | None


class FillForm(TypedDict):
    sets: Sets
    data: NotRequired[Data]
    weights: NotRequired[Text]


class ResultForm(TypedDict):
    name: Text
    key: Text
    trained_on: list[Text]
    scores: Scores
    config: ConfigForm
    data: Data
    training: TrainingForm
    environment: EnvironmentForm
    seed: Whole
    stage: NotRequired[Whole]
    untrained: NotRequired[Scores]
    finished_at: NotRequired[Text]
    weights: NotRequired[Text]
    filled: NotRequired[list[FillForm]]
    thresholds: NotRequired[dict[str, ThresholdForm]]
    transfer: NotRequired[dict[str, dict[str, Any]]]
    unscored: NotRequired[dict[str, Text]]
    format_version: NotRequired[Whole]


WEIGHT_FILES = ("*.safetensors", "*.bin")


def weights_digest(folder: str | Path) -> str:
    """16 hex digits over the files of weights below an encoder's folder; "" where there are none."""
    folder = Path(folder)
    paths = sorted(path for pattern in WEIGHT_FILES for path in folder.rglob(pattern))
    digest = hashlib.sha256()
    for path in paths:
        with open_regular_file(path) as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{path.relative_to(folder).as_posix()} {content}\n".encode())
    return digest.hexdigest()[:16] if paths else ""


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
    weights     digest of the weights that were left behind (`juzhen.core.result`), "" where there are none
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


PROGRESS_FILE = "progress.json"


@dataclass(frozen=True)
class RunProgress:
    """How far a run is that has not finished.

    work  training on SET, or what else it does
    dev   the latest score of the dev sets; `best` the best one
    left  seconds that this work will still take
    """

    work: str
    done: int
    total: int
    loss: float | None = None
    dev: float | None = None
    best: float | None = None
    left: float | None = None

    def write(self, run_dir: Path) -> None:
        """Where nothing can be written, the next checkpoint says so."""
        if is_own_dir(run_dir):
            with suppress(OSError, ValueError):
                write_json(run_dir / PROGRESS_FILE, asdict(self), in_own_folder=True)

    @staticmethod
    def read(run_dir: str | Path) -> "RunProgress | None":
        """None where there is none, or it cannot be read."""
        try:
            state = RunProgress(**read_json(Path(run_dir) / PROGRESS_FILE))
            numbers = (state.done, state.total, state.loss, state.dev, state.best, state.left)
            is_sound = all(number is None or math.isfinite(number) for number in numbers)
            return state if is_sound and isinstance(state.work, str) else None
        except (OSError, ValueError, TypeError, RecursionError, UserError):
            return None
