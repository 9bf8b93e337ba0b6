"""Description of a dataset in conf/dataset: its content, and the place and format of its files. Needs no torch."""

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Protocol, Self

from pydantic import Field, model_validator

from juzhen.core.aliases import option_meant, with_current_keys
from juzhen.core.errors import UserError, command, nearest
from juzhen.core.examples import TARGET_COLUMN, Kind
from juzhen.core.paths import DATASETS, is_table
from juzhen.core.safe_open import read_yaml
from juzhen.core.schema import configuration, validated

NAME = re.compile(r"\w[\w-]*")
"""Valid name of a set: it is part of keys, folders, tables and columns `split/name/metric`."""

SPLITS = ("train", "dev", "test", "trial")
TEXTS = ("queries", "corpus")
"""Splits of a set, and the files of judgements that have their texts."""


class Source(StrEnum):
    """Place of a dataset's rows. Chosen, never guessed."""

    BUILTIN = "builtin"  # part of the package
    LOCAL = "local"  # files below data_dir
    HUB = "hub"  # the Hugging Face hub, at a pinned revision


def _require_known(key: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    if unknown := [name for name in given if name not in known]:
        raise ValueError(f"{key}.{unknown[0]}: unknown split. {nearest(unknown[0].lower(), known)}")


def _require_columns(columns: Mapping[str, Any]) -> None:
    """Raises ValueError for a column that is no name and no position, and for one that fills two fields."""
    fields: dict[Any, str] = {}
    for field, column in columns.items():
        if not isinstance(column, str | int | None) or isinstance(column, bool):
            raise ValueError(
                f"columns.{field}={column}: expected the name of a column, or its position from 0"
            )
        if column is not None and fields.setdefault(column, field) != field:
            raise ValueError(
                f"columns.{field}={column}: {fields[column]} is read from the same column. Name another"
            )


@configuration
class HubConfig:
    """A dataset of the Hugging Face hub."""

    id: str = Field(description="owner/name")
    revision: str | None = Field(default=None, description="commit · null: no commit has been verified")
    subset: str | None = Field(default=None, description="configuration of the set · null: the only one")
    # Judgements have their texts in two other subsets, queries and corpus, of the same split unless one is named.
    splits: dict[str, str] = Field(description="our split → the hub's")
    columns: dict[str, Any] = Field(description="field of the example → column")

    @model_validator(mode="after")
    def _names_each_once(self) -> Self:
        _require_known("splits", self.splits, (*SPLITS, *TEXTS))
        _require_columns(self.columns)
        return self


@configuration
class LayoutConfig:
    """One format of a dataset's files."""

    # .tsv .txt .csv .json .jsonl .parquet .arrow .feather, also .gz .zst
    # Judgements have their texts in two other files: queries and corpus.
    files: dict[str, Any] = Field(
        description="split → path below data_dir, or a list of paths, read one after another"
    )
    columns: dict[str, Any] = Field(
        default_factory=dict, description="field of the example → column name, or 0-based position"
    )
    format: Literal["flag_embedding", "ms_swift", "sentence_transformers"] | None = Field(
        default=None,
        description="file format of another tool, instead of `columns` · null: by `columns`",
    )
    negatives: int | None = Field(
        default=None,
        ge=1,
        description="with `format`: negatives per row, repeated if a row has fewer · null: all",
    )
    teacher_scores: bool | None = Field(
        default=None,
        description="with `format`: true: each row must have a teacher's scores · false: they are left out · null: "
        "read where they are",
    )
    header: bool = Field(default=True, description="tsv and csv: the first line names the columns")
    quoted: bool = Field(default=False, description="tsv and csv: fields may be wrapped in double quotes")
    rows: dict[str, int | None] | None = Field(default=None, description="promised, instead of the dataset's")
    window: int | None = Field(
        default=None, ge=8, description=".txt: long lines are cut into windows of at most so many characters"
    )
    held_out_percent: float = Field(
        default=0.0, ge=0, lt=100, description="with `window`: lines that are dev, by hash"
    )
    held_out_rows: int | None = Field(default=None, ge=1, description="scored windows · null: all")
    hub: HubConfig | None = Field(
        default=None, description="place of this copy on the hub, not the set's `hub`"
    )

    @model_validator(mode="after")
    def _is_read_in_one_way(self) -> Self:
        _require_known("files", self.files, (*SPLITS, *TEXTS))
        _require_known("rows", self.rows or {}, SPLITS)
        _require_columns(self.columns)
        for split, named in self.files.items():
            paths = named if isinstance(named, list) else [named]
            are_paths = paths and all(isinstance(path, str) and Path(path).name for path in paths)
            if named is not None and not are_paths:
                raise ValueError(f"files.{split}={named}: expected the path of a file, or a list of paths")
        if self.format and self.columns:
            raise ValueError(f"format={self.format} already decides the columns. Leave `columns` out")
        if not self.format and (self.negatives or self.teacher_scores is not None):
            raise ValueError("negatives, teacher_scores: for rows of a `format`. Leave them out")
        if self.window is None and (self.held_out_percent or self.held_out_rows):
            raise ValueError(
                "held_out_percent, held_out_rows: for running text. Add `window`, or leave them out"
            )
        return self


@configuration
class LearningConfig:
    """Training options of a set, in all jobs that use it. null: as the loss decides.

    Options that do not fit are refused.
    """

    num_negatives: int | None = Field(
        default=None, ge=1, description="read only the first negatives of a row · null: all"
    )
    in_batch: bool | None = Field(
        default=None, description="false: texts of other rows are no negatives, as in info_nce_own"
    )
    temperature: float | None = Field(
        default=None, gt=0, description="divides cosines, in place of the loss's"
    )


@configuration
class DatasetConfig:
    """Description of one dataset."""

    name: str = Field(description="name in commands and tables")
    kind: Kind = Field(description="row kind")
    language: Literal["zh", "en", "en-zh"] = Field(description="zh, en, or en-zh for translations")
    about: str = Field(default="", description="one line for people")
    license: str = Field(default="", description="license of its owner")
    origin: str = Field(default="", description="source: URL or citation")
    layout: str = Field(description="layout of the local files, one of `layouts`")
    layouts: dict[str, LayoutConfig] = Field(description="layout → its files and columns")
    rows: dict[str, int | None] = Field(
        default_factory=dict, description="expected rows per split · null: not checked"
    )
    source: Source | None = Field(default=None, description="null: the job's `source`")
    hub: HubConfig | None = Field(default=None, description="its place on the Hugging Face hub")
    labels: dict[str, int] | None = Field(
        default=None, description="gold label as in the file → class number"
    )
    ignore_labels: list[str] | None = Field(
        default=None, description="rows with these labels are left out, as the authors say"
    )
    score_range: list[float] | None = Field(
        default=None, description="of gold scores: the lowest and the highest"
    )
    grades: list[float] | None = Field(
        default=None, description="the distinct scores, as classes of the loss ce · null: any number"
    )
    convert_to: Kind | None = Field(
        default=None, description="row kind to convert to for training · null: the loss chooses"
    )
    limit: int | None = Field(
        default=None, ge=1, description="train on at most this many rows, drawn with the job's seed"
    )
    learning: LearningConfig | None = Field(default=None, description="numbers of losses on this set")
    symmetric: bool | None = Field(
        default=None,
        description="false: a row's first text asks for the others, documents · true: all are of one sort, as "
        "duplicates are · null: as the kind says; only for encoders with prompts for queries",
    )

    @model_validator(mode="before")
    @classmethod
    def _by_current_names(cls, described: Any) -> Any:
        """Takes a description with the keys of 0.2, as in a file of then or in the settings of a result."""
        if isinstance(described, Mapping) and "view" in described:
            return with_current_keys({"dataset": {"": described}})["dataset"][""]
        return described

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        scores, layouts = self.score_range, self.layouts
        if not NAME.fullmatch(self.name):
            raise ValueError(f"name={self.name}: expected letters, digits, _ and -")
        if self.layout not in layouts:
            raise ValueError(f"layout={self.layout}: unknown layout. {nearest(self.layout, layouts)}")
        _require_known("rows", self.rows, SPLITS)
        target = TARGET_COLUMN.get(Kind(self.kind))
        places = [*layouts.values(), self.hub, *(layout.hub for layout in layouts.values())]
        if target == "gain" and any("label" in place.columns for place in places if place):
            target = "label"  # the judgements are pairs with labels
        for key, targets, kind in (
            ("labels", ("label",), Kind.LABELLED_PAIR),
            ("ignore_labels", ("label", "score"), Kind.LABELLED_PAIR),
            ("score_range", ("score",), Kind.SCORED_PAIR),
            ("grades", ("score",), Kind.SCORED_PAIR),
        ):
            if getattr(self, key) and target not in targets:
                raise ValueError(f"{key}: not read for a {self.kind}. Leave it out, or choose kind={kind}")
        if len(self.labels or ()) > 1 and len({*(self.labels or {}).values()}) == 1:
            raise ValueError("labels: all labels are one class. Give each class its number, from 0")
        if scores is not None and not (len(scores) == 2 and -math.inf < scores[0] < scores[1] < math.inf):
            raise ValueError(
                f"score_range={scores}: expected the lowest and then the highest score, as in [0, 5]"
            )
        return self

    @property
    def on_hub(self) -> HubConfig | None:
        """Hub dataset of the copy that `layout` names."""
        layout = self.layouts.get(self.layout)
        return (layout and layout.hub) or self.hub


@dataclasses.dataclass(frozen=True)
class SplitRequest:
    """A split of a set as a job requests it.

    Args:
        config: The dataset.
        split: The split.
        source: builtin, local or hub.
        data_dir: Folder of a layout's paths, for source=local.
        on_bad_row: "error" stops at the first faulty row, "drop" leaves faulty rows out and counts them.
        required: Raise UserError if the split is missing.
        group: Place of the set in the configuration, dataset or evaluate, for messages.
    """

    config: DatasetConfig
    split: str
    source: str
    data_dir: str | Path
    on_bad_row: str
    required: bool = False
    group: str = "dataset"

    @property
    def key(self) -> str:
        """Place of the set in the configuration, such as dataset.csts."""
        return f"{self.group}.{self.config.name}"

    @property
    def layout(self) -> LayoutConfig:
        return self.config.layouts[self.config.layout]


class EvaluationRequest(Protocol):
    """Fields of a job's evaluation that decide which rows are read, see `conf.job.EvaluationConfig`."""

    @property
    def splits(self) -> Sequence[str]: ...

    limit: int | None
    transfer: list[str]
    transfer_limit: int | None


class DataRequest(Protocol):
    """Fields of a job that decide which rows are read, see `conf.job.JobConfig`."""

    seed: int
    data_dir: str
    source: str
    on_bad_row: str
    filter_leaks: bool
    debug_rows: int | None
    dataset: dict[str, DatasetConfig]
    evaluate: dict[str, DatasetConfig]

    @property
    def evaluation(self) -> EvaluationRequest: ...


def made_from(verb: str, source: str, origin: str) -> str:
    """Return the `origin` of a set that a subcommand makes from `source`, a set/split with its origin.

    Args:
        verb: The subcommand.
        source: `set/split` of the source.
        origin: The `origin` of the source.

    Returns:
        The new `origin`.

    >>> parents(made_from("mine", "lcqmc_hard/train", made_from("distill", "lcqmc/train", "https://…")))
    ['lcqmc_hard', 'lcqmc']
    """
    return f"juzhen {verb}, from {source} ({origin})"


def parents(origin: str) -> list[str]:
    """Return the sets that a set was made from by our subcommands, by its `origin`, the nearest first.

    Args:
        origin: The `origin` of a set.

    Returns:
        Names of sets.
    """
    return re.findall(r"juzhen \w+, from ([^/\s]+)/\w+ \(", origin)


def described_sets(folder: Path, config_dir: Path | None = None) -> dict[str, Path]:
    """Return the description files of sets, by name, in order.

    Args:
        folder: Descriptions of the package.
        config_dir: Another folder with descriptions in dataset/.

    Returns:
        Name → path.

    Raises:
        UserError: `config_dir` has no description.
    """
    further = [] if config_dir is None else sorted((config_dir / "dataset").glob("*.yaml"))
    if config_dir is not None and not further:
        raise UserError(
            f"config_dir={config_dir}: no description of a set. Give the folder with dataset/<set>.yaml"
        )
    return {path.stem: path for path in [*sorted(folder.glob("*.yaml")), *further]}


def smallest(*limits: int | None) -> int | None:
    """Return the smallest limit of rows.

    Args:
        *limits: Numbers of rows. None: no limit.

    Returns:
        The smallest one, or None without a limit.
    """
    return min((limit for limit in limits if limit is not None), default=None)


def require_set(key: str, name: str, sets: Iterable[str]) -> None:
    """Refuse an unknown set.

    Args:
        key: Option that named the set, for the message.
        name: Name as typed. A folder, a table, or a name of another toolkit gets advice of that kind.
        sets: Known names.

    Raises:
        UserError: The set is unknown. The message has its name here, or the nearest one.
    """
    known = list(sets)
    if name not in known:
        if Path(name).is_dir():
            if (Path(name) / "result.json").is_file():
                raise UserError(f"{key}={name}: the folder of a run. Give a table, or the name of a set")
            tables = [path for path in sorted(Path(name).iterdir()) if is_table(path)]
            given = f"a file in it, such as {tables[0]}" if tables else "a file"
            raise UserError(f"{key}={name}: a folder. Give {given}, or the name of a set")
        meant = (option_meant("dataset", name, known) or "").removeprefix("dataset=").partition(" ")[0]
        hint = f"Type {meant}" if meant in known else nearest(name, known)
        hint = f"Make a set of the file: {command('juzhen', 'dataset', name)}" if is_table(name) else hint
        raise UserError(f"{key}={name}: unknown set. {hint}")


def configured_set(name: str, *, folder: Path = DATASETS, config_dir: Path | None = None) -> DatasetConfig:
    """Return the description of a set.

    Args:
        name: Name of the set.
        folder: Folder of descriptions.
        config_dir: Another folder with descriptions in dataset/.

    Returns:
        The description.

    Raises:
        UserError: The set is unknown, or its description is faulty. The message has the nearest name.
    """
    if not isinstance(name, str):
        raise UserError(f"set={name}: expected the name of a set. Type such as 'csts'")
    files = described_sets(folder, config_dir)
    require_set("set", name, files)
    return read_description(files[name])


def read_description(path: Path) -> DatasetConfig:
    """Read a file of conf/dataset.

    Args:
        path: The YAML file.

    Returns:
        The description.

    Raises:
        UserError: The file is not a description.
    """
    return validated(DatasetConfig, read_yaml(path), where=str(path))
