"""What a data set says of itself in its file of conf/dataset: what it holds, and where and how it is written.

Importing this needs no torch.
"""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from juzhen.core.examples import Kind
from juzhen.core.option import option


class Source(StrEnum):
    """Where the rows of a dataset come from. Chosen, never guessed."""

    BUILTIN = "builtin"  # shipped with juzhen
    LOCAL = "local"  # files below data_dir
    HUB = "hub"  # the Hugging Face hub, at a pinned revision


@dataclass
class HubConfig:
    """A dataset of the Hugging Face hub."""

    id: str = option("owner/name")
    revision: str | None = option("commit; null only where none could be verified", None)
    subset: str | None = option("configuration of it; null: its only one", None)
    # Judgements have their texts in two further subsets, queries and corpus, of the same split where none is named.
    splits: dict[str, str] = option("our split → the hub's")
    columns: dict[str, Any] = option("field of the example → column")


@dataclass
class LayoutConfig:
    """One way in which a dataset's files are written."""

    # .tsv .txt .csv .json .jsonl .parquet .arrow .feather, also .gz .zst
    # Judgements have their texts in two further files: queries and corpus.
    files: dict[str, Any] = option("split → path below data_dir, or a list of paths, read one after another")
    columns: dict[str, Any] = option("field of the example → column name, or 0-based position")
    header: bool = option("tsv and csv: the first line names the columns", True)
    quoted: bool = option("tsv and csv: fields may be wrapped in double quotes", False)
    rows: dict[str, int | None] | None = option("promised, instead of the dataset's", None)
    window: int | None = option(
        ".txt: long lines are cut into windows of at most so many characters", None, at_least=8
    )
    held_out_percent: float = option("with `window`: lines that are dev, by hash", 0.0, at_least=0, below=100)
    held_out_rows: int | None = option("windows of them that are scored; null: all", None, at_least=1)
    hub: HubConfig | None = None  # where this copy is on the hub, in place of the set's `hub`


@dataclass
class LearningConfig:
    """How a set is learnt from, wherever it is trained on; null: as the loss says. What cannot be so is refused."""

    num_negatives: int | None = option("the first so many of a row's are read; null: all", None, at_least=1)
    in_batch: bool | None = option("false: texts of other rows are no negatives, as in info_nce_own", None)
    temperature: float | None = option("divides cosines, in place of the loss's", None, above=0)


@dataclass
class DatasetConfig:
    """One dataset: all that juzhen knows about it."""

    name: str = option("what commands and tables call it")
    kind: str = option("what a row is", among=tuple(Kind))
    language: str = option("zh, en, or en-zh for translations", among=("zh", "en", "en-zh"))
    about: str = option("one line for people", "")
    license: str = option("its owner's terms", "")
    origin: str = option("where it comes from: URL or citation", "")
    layout: str = option("which of `layouts` the local files follow")
    layouts: dict[str, LayoutConfig] = option("layout → how files are written in it")
    rows: dict[str, int | None] = option("rows promised per split; null = not promised", {})
    source: str | None = option("null: the job's `source`", None, among=tuple(Source))
    hub: HubConfig | None = None
    labels: dict[str, int] | None = option("gold label as in the file → class number", None)
    ignore_labels: list[str] | None = option("rows with these labels are left out, as the authors say", None)
    score_range: list[float] | None = option("of gold scores", None, interval="score, as in [0, 5]")
    grades: list[float] | None = option("few scores, the classes of the loss ce; null: any number", None)
    view: str | None = option("train on this kind; null: the loss chooses", None, among=tuple(Kind))
    limit: int | None = option("train on at most this many rows, drawn with the job's seed", None, at_least=1)
    learning: LearningConfig | None = None
    symmetric: bool | None = option(
        "false: a row's first text asks for the others, documents · true: all are of one sort, as duplicates are · "
        "null: as the kind says; only for encoders with prompts for queries",
        None,
    )

    @property
    def on_hub(self) -> HubConfig | None:
        """Where the copy that `layout` names is on the hub."""
        layout = self.layouts.get(self.layout)
        return (layout and layout.hub) or self.hub


@dataclass(frozen=True)
class SplitRequest:
    """A split of a set as a job asks for it; `juzhen.data.source.load_examples` explains the fields."""

    config: DatasetConfig
    split: str
    source: str
    data_dir: str | Path
    on_bad_row: str
    required: bool = False
    group: str = "dataset"

    @property
    def key(self) -> str:
        """Where the set stands in the configuration, such as dataset.csts."""
        return f"{self.group}.{self.config.name}"

    @property
    def layout(self) -> LayoutConfig:
        return self.config.layouts[self.config.layout]


class EvaluationRequest(Protocol):
    """What of a job's evaluation decides which rows are read; `conf.job.EvaluationConfig` has it."""

    splits: list[str]
    limit: int | None
    transfer: list[str]
    transfer_limit: int | None


class DataRequest(Protocol):
    """What of a job decides which rows are read; `conf.job.JobConfig` has it."""

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
