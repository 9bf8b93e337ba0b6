"""Training data of a result: in the terms of published figures, and the rows of evaluation sets that leak from it."""

import csv
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.core.result import WITHOUT_LEAKS, Column, Result, Score
from juzhen.core.safe_open import read_json
from juzhen.core.schema import Text, Whole, require_form
from juzhen.core.text import short
from juzhen.data.spec import parents
from juzhen.models.settings import BY_KIND, WITHOUT_BATCH, name_of
from juzhen.report.row_identity import is_curriculum

CUSTOMARY = {
    "scored_pair": "cosine",
    "labelled_pair": "online_contrastive",
    "nli_pair": "softmax",
    "positive_pair": "info_nce",
    "triplet": "info_nce",
}
"""Row type → loss of the published Chinese report, as in `loss=by_kind`."""

READINGS = {"simclue_positive": "simclue", "simclue_rank": "simclue"}
"""Sets that are variants of another set, with their own files and row type."""

WHOLE_SETS = Path(__file__).parent / "published" / "sets" / "train_rows.csv"


@dataclass(frozen=True)
class Training:
    """Training in the terms that decide whether a published figure is comparable.

    Attributes:
        family: biencoder, crossencoder, cot, …
        sets: Stages in order, `a>b`, and sets of a stage by name, `a+b`. A set with converted rows names the row type:
            `simclue[positive_pair]`.
        loss: by_kind if every set had the customary loss of its row type, otherwise names: `ce`, `cosine+softmax`.
        supervision: "none" if all training rows were sentences, otherwise "labels".
        start: Initial weights, or "" for those of the backbone.
    """

    family: str
    sets: str
    loss: str
    start: str = ""
    supervision: str = "labels"


def training_of(result: Result) -> Training:
    """Derive the training from the configuration and the row types that were read.

    Args:
        result: Result of a trained run.

    Returns:
        Family, sets, loss, start and supervision.
    """
    stages = [sorted(_lessons(result, index, names)) for index, names in enumerate(_stage_sets(result))]
    customary = all(CUSTOMARY.get(kind) == loss for stage in stages for _, kind, loss in stage)
    kinds = {kind for stage in stages for _, kind, _ in stage}
    losses = dict.fromkeys(loss for stage in stages for _, _, loss in stage)
    model = result.config["model"]
    reads_no_mask = name_of(model) == "cot" and model.get("read") == "pooling"
    return Training(
        family="biencoder" if reads_no_mask else name_of(model),
        sets=">".join("+".join(name for name, _, _ in stage) for stage in stages),
        loss=BY_KIND if customary else "+".join(losses),
        start=str(result.config.get("init_from") or ("merged models" if "merge" in result.config else "")),
        supervision="none" if kinds == {Kind.SENTENCE} else "labels",
    )


def _stage_sets(result: Result) -> list[list[str]]:
    """Sets of each stage, oldest first."""
    if is_curriculum(result):
        return [stage.split("+") for stage in result.trained_on]
    return [list(result.trained_on)] if result.trained_on else []


def set_names(sets: str) -> list[str]:
    """Return the sets of a training, without row types.

    Args:
        sets: As `Training.sets`: `>` between stages, `+` between sets.

    Returns:
        Names in order. Empty for "".

    >>> set_names("a[triplet]+b>c")
    ['a', 'b', 'c']
    """
    return re.sub(r"\[\w+\]", "", sets).replace("+", ">").split(">") if sets else []


def stand_ins(result: Result) -> list[str]:
    """Explain how the training was less than the sets' names suggest, one phrase per set.

    Args:
        result: Result of a trained run.

    Returns:
        Phrases, also on limits of the evaluation. Empty if the sets were used whole.
    """
    phrases = []
    for name in dict.fromkeys(name for stage in _stage_sets(result) for name in stage):
        described = result.config["dataset"].get(name) or {}
        less = [*_missing_files(described), *_missing_rows(result, name, described)]
        if count := (described.get("learning") or {}).get("num_negatives"):
            less.append(f"at most {count} negatives of a row")
        if less:
            phrases.append(f"{name}: {', '.join(less)}")
    limits = [result.config.get("debug_rows"), (result.config.get("evaluation") or {}).get("limit")]
    if limit := min(filter(None, limits), default=None):
        phrases.append(f"scored on at most {limit:,} rows of a split")
    if result.config.get("filter_leaks"):
        phrases.append("without the rows that an evaluation set has too")
    return phrases


def _lessons(result: Result, index: int, names: Sequence[str]) -> list[tuple[str, str, str]]:
    """For each set of a stage its name in references, the row type that was read, and the loss."""
    lessons = []
    for name in names:
        described = result.config["dataset"].get(name) or {}
        loss = _loss_node(result, index, name)
        read = result.data.get(f"train/{name}", {}).get("kind") if index == result.stage else None
        kind = read or described.get("convert_to") or described.get("view") or described.get("kind") or ""
        used = name_of(loss if "_target_" in loss else loss.get(kind, {}))
        if (described.get("learning") or {}).get("in_batch") is False:
            used = WITHOUT_BATCH.get(used, used)
        is_own = kind == described.get("kind", kind) and name not in READINGS
        lessons.append((READINGS.get(name, name) + ("" if is_own else f"[{kind}]"), kind, used))
    return lessons


def _loss_node(result: Result, index: int, name: str) -> Mapping[str, Any]:
    """Loss of a set in a stage, or the table of losses by row type.

    The result of a stage has its own loss instead of the job's. An earlier stage's loss is under `earlier`. Without
    that key it is unknown.
    """
    schedule = result.config["schedule"]
    if isinstance(schedule, str):
        return result.config["loss"]
    of_set: dict[str, Any] = (schedule.get("sets") or {}).get(name) or {}
    if of_set.get("loss"):
        return of_set["loss"]
    order = schedule["order"] or list(result.config["dataset"])
    losses: list[Any] = [((schedule.get("stages") or {}).get(stage) or {}).get("loss") for stage in order]
    if index < len(losses) and losses[index]:
        return losses[index]
    if index >= result.stage or not (result.stage < len(losses) and losses[result.stage]):
        return result.config["loss"]
    return (result.config.get("earlier") or {}).get("loss") or {"_target_": "unknown", "name": "unknown"}


def _chosen_layout(described: Mapping[str, Any]) -> Mapping[str, Any]:
    """Chosen layout of the files of a set, or {}."""
    return (described.get("layouts") or {}).get(described.get("layout") or "") or {}


def _train_files(layout: Mapping[str, Any]) -> list[str]:
    files = (layout.get("files") or {}).get("train") or []
    return [files] if isinstance(files, str) else list(files)


def _missing_files(described: Mapping[str, Any]) -> list[str]:
    """Files of a joined set that the chosen layout omits."""
    layouts = map(_train_files, (described.get("layouts") or {}).values())
    used = _train_files(_chosen_layout(described))
    published = max((files for files in layouts if set(used) < set(files)), key=len, default=[])
    if not published:
        return []
    both = (used, [file for file in published if file not in used])
    return [" without ".join(" and ".join(Path(file).parts[0] for file in files) for files in both)]


def _missing_rows(result: Result, name: str, described: Mapping[str, Any]) -> list[str]:
    """Number of training rows, if the set has more or may have more."""
    limits = [limit for limit in (described.get("limit"), result.config.get("debug_rows")) if limit]
    read, published = result.data.get(f"train/{name}", {}), whole_rows(name, described)
    converted = described.get("convert_to") or described.get("view")
    is_own = (read.get("kind") or converted or described.get("kind")) == described.get("kind")
    if limits and (published is None or not is_own):
        return [f"at most {min(limits):,} rows"]  # of another kind: so many are left after the view
    counts = [*limits, *([read["rows"]] if read and is_own else []), _promised(described)]
    count = min((count for count in counts if count is not None), default=None)
    if count is None or published is None or count >= published:
        return []
    return [f"{'' if is_own else 'made of '}{count:,} of {published:,} rows"]


def whole_rows(name: str, described: Mapping[str, Any]) -> int | None:
    """Return the number of training rows of a set as published.

    Args:
        name: Name of the set.
        described: Its description, which counts if the reference lacks the set.

    Returns:
        Number of rows. None if it is unknown.
    """
    return _on_file().get(name) or _promised(described)


def _promised(described: Mapping[str, Any]) -> int | None:
    return (_chosen_layout(described).get("rows") or described.get("rows") or {}).get("train")


@cache
def _on_file() -> dict[str, int]:
    with WHOLE_SETS.open(encoding="utf-8", newline="") as file:
        return {row["dataset"]: int(row["rows"]) for row in csv.DictReader(file)}


FORMAT_VERSION = 1
LEAKY_SHARE = 0.01
"""Share of leaked evaluation rows from which a cell is marked. Fewer can hardly move a correlation by a point."""


@dataclass(frozen=True)
class Leak:
    """Evaluation rows that a row of the matrix has seen in training.

    Attributes:
        source: Training set with the most shared rows.
        rows: Evaluation rows with an exact or near duplicate in training. An audit counts those in `source` only, so
            the true number may be larger with several sets.
        share: Share of the split, as a fraction.
        is_counted: True if the run counted on its training rows. False if an audit counted in whole training sets.
        unseen: Score without these rows, if the run has it. Its value is None if no row is left, or if it is undefined.
        score: Score on all rows, from the same results.
    """

    source: str
    rows: int
    share: float
    is_counted: bool = False
    unseen: Score | None = None
    score: float | None = None

    @property
    def is_marked(self) -> bool:
        return self.share >= LEAKY_SHARE

    @property
    def counted_by(self) -> str | None:
        return "run" if self.is_counted else "audit" if self.rows else None


NO_LEAK = Leak("", 0, 0.0)


class SetFile(TypedDict):
    fingerprint: Text


class CellFile(TypedDict):
    train: Text
    evaluation: Text
    rows: Whole
    exact_pairs: Whole | None
    near_pairs: Whole | None


class AuditFile(TypedDict):
    """Required keys of an audit file."""

    format_version: Whole
    train: list[Text]
    sets: dict[Column, SetFile]
    cells: list[CellFile]


class Audit:
    """The cells of an audit file of `juzhen leaks`. Its `lcqmc/dev` is the column `dev/lcqmc`.

    Args:
        report: Content of the file.
    """

    def __init__(self, report: Mapping[str, Any]) -> None:
        self.train = {name.split("/")[0] for name in report["train"]}
        self._sets = {_column(name): rows for name, rows in report["sets"].items()}
        self._cells = {
            (cell["train"].split("/")[0], _column(cell["evaluation"])): cell for cell in report["cells"]
        }

    @classmethod
    def read(cls, path: Path) -> "Audit":
        """Read an audit file.

        Args:
            path: JSON file that `juzhen leaks` wrote.

        Returns:
            The audit.

        Raises:
            UserError: The file is missing, or not an audit of pairs.
        """
        try:
            report = read_json(path)
            require_form(report, AuditFile, "it")
            if report["format_version"] != FORMAT_VERSION:
                raise ValueError(
                    f"format_version={report['format_version']}: this version reads {FORMAT_VERSION}. Write it again"
                )
            return cls(report)
        except OSError as error:
            problem = f"cannot be read ({error.strerror})"
        except (ValueError, RecursionError) as error:
            problem = f"not an audit of pairs ({short(str(error), 200)})"
        raise UserError(f"leaks={path}: {problem}. juzhen leaks writes one")

    def leak(self, trained: Iterable[str], column: str, fingerprint: str | None) -> Leak | None:
        """Find the largest leak from any of the training sets.

        Args:
            column: `split/dataset`.
            trained: Training sets.
            fingerprint: Fingerprint of the scored evaluation rows, or None if unknown.

        Returns:
            The leak, or None if a set was not audited, or against other rows.
        """
        audited = self._sets.get(column)
        if audited is None or fingerprint not in (None, audited["fingerprint"]):
            return None
        largest = NO_LEAK
        for name in trained:
            if name not in self.train:
                return None
            cell = self._cells.get((name, column))
            if cell is None or None in (cell["exact_pairs"], cell["near_pairs"]) or not cell["rows"]:
                continue  # one of the two has no pairs
            rows = cell["exact_pairs"] + cell["near_pairs"]
            if (share := rows / cell["rows"]) > largest.share:
                largest = Leak(name, rows, share)
        return largest


def _column(name: str) -> str:
    dataset, _, split = name.partition("/")
    return f"{split}/{dataset}"


def leak_of(
    seeds: Sequence[Sequence[Result]], key: str, sets: Sequence[str], result: Result, audit: Audit | None
) -> Leak | None:
    """Find the leak of a cell. Counts of the runs win over the audit.

    Args:
        seeds: Results of each seed, oldest first.
        key: `split/dataset/metric`.
        sets: Training sets of the row.
        result: A result that measured the cell.
        audit: Leak audit.

    Returns:
        The leak, or None if neither has it.
    """
    column = key.rpartition("/")[0]
    if leak := _counted_leak(seeds, key) if sets else None:
        return leak
    if not sets or result.config.get("filter_leaks"):
        return NO_LEAK  # nothing was learnt from, or the leaked rows were left out
    if audit is None:
        return None
    audited: list[str] = []
    for name in sets:
        parts = [part for part in parts_of(name, result.config) if part != name]
        audited += parts if name not in audit.train and parts else [name]
    return audit.leak(audited, column, result.data.get(column, {}).get("fingerprint"))


def parts_of(name: str, config: Mapping[str, Any]) -> list[str]:
    """List a set, its component sets as far as the configuration knows them, and sets that it was derived from.

    Args:
        name: Name of a set.
        config: Composed configuration of a run.

    Returns:
        Names, the set first.
    """
    described = {**(config.get("evaluate") or {}), **config["dataset"]}
    files = {other: set(_train_files(_chosen_layout(node))) for other, node in described.items()}
    inside = [other for other, names in files.items() if names and names <= files.get(name, set())]
    made_of = parents(str((described.get(name) or {}).get("origin") or ""))
    return list(dict.fromkeys([name, *inside, *made_of]))


def _counted_leak(seeds: Sequence[Sequence[Result]], key: str) -> Leak | None:
    """Read the counts of `evaluation.without_leaks`, if the results of all seeds have them.

    Several seeds, which may have drawn other rows under a limit, are averaged. An undefined rest of one seed is left
    out.
    """
    column, without = key.rpartition("/")[0], f"{key}{WITHOUT_LEAKS}"
    results = [result for runs in seeds if (result := _counting(runs, column)) is not None]
    if not results or len(results) < len(seeds):
        return None
    leaks = [result.data[column]["leaked"] for result in results]
    by_set = sum((Counter(leak.get("by_set", {})) for leak in leaks), Counter[str]())
    # None of the seeds has a second score where no row was seen, or the metric has no second number.
    pairs = [
        (result.scores[key], result.scores[without])
        for result in results
        if {key, without} <= result.scores.keys()
    ]
    defined = [pair for pair in pairs if None not in (pair[0].value, pair[1].value)]
    count = _mean([unseen.count for _, unseen in defined]) or max(
        (unseen.count for _, unseen in pairs), default=0
    )
    value, low, high = (
        _mean([getattr(unseen, name) for _, unseen in defined]) for name in ("value", "low", "high")
    )
    return Leak(
        source=max(by_set, key=by_set.__getitem__, default=""),
        rows=round(statistics.fmean(leak["rows"] for leak in leaks)),
        share=statistics.fmean(leak["share"] for leak in leaks),
        is_counted=True,
        unseen=Score(value, low, high, round(count)) if pairs else None,
        score=_mean([all_rows.value for all_rows, _ in defined or pairs]),
    )


def _counting(results: Sequence[Result], column: str) -> Result | None:
    """The latest result with counts, if the latest result of the set read the same rows."""
    read = [result for result in reversed(results) if column in result.data]
    counted = next((result for result in read if result.data[column].get("leaked")), None)
    if counted is None or counted.data[column].get("fingerprint") != read[0].data[column].get("fingerprint"):
        return None
    return counted


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return statistics.fmean(numbers) if numbers and len(numbers) == len(values) else None
