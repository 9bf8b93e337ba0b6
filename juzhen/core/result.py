"""Result: the scores of a stage as plain data, its file format, and the digest of saved weights. Needs no torch.

Later versions have added keys to the file. A key that an earlier version lacked is never required.
"""

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
    """Return a digest (16 hex digits) of the weight files below an encoder's folder, or "".

    Args:
        folder: Folder of the encoder.

    Returns:
        The digest. "" without a weight file.
    """
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
"""Subfolder of a run with the files of its earlier stages."""
WITHOUT_LEAKS = "_without_leaks"
"""Suffix of a metric's name: the same metric on rows that training has not seen. Only sets with a leak have it."""


NESTED = re.compile(r"(.+)@([0-9]+)")
"""Name of a set scored with truncated embeddings: `lcqmc@64` with their first 64 dimensions."""


def nested_name(name: str, dim: int) -> str:
    """Return the name in results of a set or column that is scored with the first `dim` dimensions.

    Args:
        name: Name of the set or column.
        dim: Number of dimensions.

    Returns:
        Such as "lcqmc@64".
    """
    return f"{name}@{dim}"


def without_size(name: str) -> tuple[str, int | None]:
    """Split the name of a set or column into the name and the dimension of truncated embeddings. None: all dimensions.

    Args:
        name: Name of the set or column.

    Returns:
        The name, and the dimension or None.

    >>> without_size("test/lcqmc@64"), without_size("lcqmc")
    (('test/lcqmc', 64), ('lcqmc', None))
    """
    match = NESTED.fullmatch(name)
    return (match[1], int(match[2])) if match else (name, None)


TIED = 0.01
"""Difference between the worst and the best order of ties from which on readers are told of it."""

ORDERS = ("worst", "best")


@dataclass
class Score:
    """One metric of one evaluation set. Correlations are fractions, not percent.

    Args:
        value: None if the set could not be scored, or the metric is undefined: see `why`.
        low: Lower end of the 95 % bootstrap interval. None: not requested.
        high: Upper end of the interval.
        count: Number of rows.
        worst: Value of a ranking in the worst order of tied documents. `value` is the expected value. None if
            the order makes no difference.
        best: Value in the best order.
        why: Reason for a missing value.
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
        """True if the order of tied documents changes the value by TIED or more."""
        return self.worst is not None and self.best is not None and self.best - self.worst >= TIED

    def as_dict(self) -> dict[str, Any]:
        """Return it as written to a file, without empty orders and reasons.

        Returns:
            A dict for JSON.
        """
        return {
            name: value
            for name, value in asdict(self).items()
            if value is not None or name not in (*ORDERS, "why")
        }


@dataclass
class Threshold:
    """Decision threshold of a set, and the quality of its decisions, as fractions.

    Args:
        value: The score with the best accuracy on the dev split. None if no score is better than one answer
            for all pairs: see `why`.
        rows: Rows of dev, which it was fitted on.
        judged_on: `test`, or without a test split `halves of dev`: each half by the threshold of the other.
        accuracy: Accuracy on the evaluated rows. None if undefined.
        precision: Precision for label 1.
        recall: Recall for label 1.
        f1: F1 for label 1.
        why: Reason for a missing value.
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
    """Configuration of a run from its result, perhaps a stranger's. A missing key is a UserError."""

    place: str | Path = "the result"

    def __missing__(self, key: str) -> Any:
        raise UserError(
            f"{self.place}: the configuration of the run has no {key}. Is it the file of a whole run?"
        )


@dataclass
class Result:
    """All measurements of one stage, and the facts to reproduce them.

    Args:
        name: Name of the run, the folder name before the hash.
        key: The hash. Runs with equal keys are the same run.
        scores: Metric key `split/dataset/metric` → Score. A set that could not be scored has value None.
        trained_on: Dataset keys of this stage and of the stages before it, oldest first.
        data: `train/dataset` or `split/dataset` → rows, dropped rows, fingerprint. `cut`: number of truncated
            texts, or of truncated pairs for a cross-encoder. `leaked`, with `evaluation.without_leaks`:
            `rows` that training has seen, their `share`, and rows `by_set`.
        untrained: Scores of the weights before this run's training, with `evaluation.untrained`.
        training: Steps, pairs, seconds, pairs per second, last and best validation. `sets`: batches and rows
            of each set.
        weights: Digest of the saved weights (`weights_digest`), or "".
        filled: Evaluations after the end of the run, oldest first: date, splits, versions, and descriptions
            of the sets. Their scores and data are among those of the run.
        thresholds: Set of 0/1 pairs, positive pairs or triplets → the Threshold fitted on its dev split.
        transfer: Set with classes → its evaluated split, rows and fingerprints.
        unscored: Evaluation set → the reason why the model has no metric for it.
        config: The whole configuration, resolved.
        environment: Command, commit, versions of libraries, device.
        seed: Seed of all random draws.
        stage: Index of the stage in its curriculum, from 0.
        finished_at: Date and time.
        format_version: Version of the file format.
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
        """Folder of its file. "" if it was not read from a file."""
        place = getattr(self.config, "place", None)
        return str(Path(place).parent) if isinstance(place, Path) else ""

    @property
    def is_debug(self) -> bool:
        """True for a test of the whole program on a few rows."""
        return self.config.get("debug_rows") is not None

    @property
    def measured_weights(self) -> str:
        """Digest of the weights that were evaluated. "" without weights, or for an old result."""
        return next(filter(None, (self.weights, *(fill["weights"] for fill in self.filled))), "")

    @property
    def absent(self) -> list[str]:
        """Evaluation splits `split/dataset` without a file."""
        columns = [key.rpartition("/")[0] for key, score in self.scores.items() if score.value is None]
        return [
            column
            for column in dict.fromkeys(columns)
            if column not in self.data and self.described(column.split("/")[1]) is not None
        ]

    def described(self, name: str) -> dict[str, Any] | None:
        """Return the description of a set (a DatasetConfig as plain containers), or None if this result lacks it.

        Args:
            name: Name of the set.

        Returns:
            The description, or None.
        """
        for fill in reversed(self.filled):
            if name in fill["sets"]:
                return fill["sets"][name]
        return self.config["dataset"].get(name) or (self.config.get("evaluate") or {}).get(name)

    def write(self, folder: str | Path) -> Path:
        """Write `<folder>/result.json` atomically, and return its path.

        Args:
            folder: Existing folder.

        Returns:
            Path of the file.
        """
        path = Path(folder) / RESULT_FILE
        scores = {
            name: {key: score.as_dict() for key, score in getattr(self, name).items()}
            for name in ("scores", "untrained")
        }
        write_json(path, redacted(asdict(self) | scores), in_own_folder=True)
        return path

    @classmethod
    def read(cls, path: str | Path) -> "Result":
        """Read a result file, or the one in a folder.

        Args:
            path: The file or its folder.

        Returns:
            The result.

        Raises:
            UserError: The file is missing or broken.
        """
        given = Path(path)
        path = given / RESULT_FILE if given.is_dir() else given
        try:
            fields = read_json(path)
            require_form(fields, ResultForm, "it")
            for key, value in fields["training"].items():
                kind = Number | None if key.startswith("best_dev_") else Plain
                require_form(value, kind, f"it.training.{key}")
            if (written := fields.get("format_version", 1)) != FORMAT_VERSION:
                raise ValueError(f"it is of format {written}, and this version reads format {FORMAT_VERSION}")
            if unknown := fields.keys() - cls.__dataclass_fields__:
                raise ValueError(f"unknown key {min(unknown)}")
            for name in ("scores", "untrained"):
                fields[name] = {key: Score(**score) for key, score in fields.get(name, {}).items()}
            thresholds = fields.get("thresholds", {}).items()
            fields["thresholds"] = {name: Threshold(**threshold) for name, threshold in thresholds}
            fields["config"] = StoredConfig(fields["config"])
            fields["config"].place = path
            return cls(**fields)
        except FileNotFoundError:
            raise UserError(f"{path}: no result in this folder. Name the folder of a finished run") from None
        except (ValueError, TypeError, RecursionError) as error:
            remedy = (
                "Name the folder of a finished run" if path == given else "Remove the file, or name another"
            )
            raise UserError(f"{path}: not a result of juzhen ({short(str(error), 300)}). {remedy}") from error


PROGRESS_FILE = "progress.json"


@dataclass(frozen=True)
class RunProgress:
    """Progress of a run that has not finished. A small file in its folder, which a sweep reads.

    Args:
        work: Training on SET, or another task.
        done: Finished steps of this task.
        total: All its steps.
        loss: The latest loss.
        dev: The latest score of the dev sets.
        best: The best of these scores.
        left: Estimated seconds until the end of this task.
    """

    work: str
    done: int
    total: int
    loss: float | None = None
    dev: float | None = None
    best: float | None = None
    left: float | None = None

    def write(self, run_dir: Path) -> None:
        """Write it. Errors are ignored, because the next checkpoint reports them.

        Args:
            run_dir: The run folder.
        """
        if is_own_dir(run_dir):
            with suppress(OSError, ValueError):
                write_json(run_dir / PROGRESS_FILE, asdict(self), in_own_folder=True)

    @staticmethod
    def read(run_dir: str | Path) -> "RunProgress | None":
        """Read it. None if it is missing or broken.

        Args:
            run_dir: The run folder.

        Returns:
            The progress, or None.
        """
        try:
            state = RunProgress(**read_json(Path(run_dir) / PROGRESS_FILE))
            numbers = (state.done, state.total, state.loss, state.dev, state.best, state.left)
            is_sound = all(number is None or math.isfinite(number) for number in numbers)
            return state if is_sound and isinstance(state.work, str) else None
        except (OSError, ValueError, TypeError, RecursionError, UserError):
            return None
