"""What a result file must be like. Versions have added keys; none of them is required that one of them lacked."""

from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from juzhen.core.schema import Number, Text, Whole

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
