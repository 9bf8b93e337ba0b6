"""Scores of evaluation rows: kept by a finished run, or computed with an encoder."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import TypedDict

from juzhen.calibration.calibration import UnfitError, calibrated, fit_weight, standardised
from juzhen.core.errors import UserError, nearest
from juzhen.core.examples import RANKED, TEXT_COLUMNS, Examples, Kind
from juzhen.core.file_guard import check_overwritable
from juzhen.core.result import Result, weights_digest
from juzhen.core.row_scores import RowScores, SetRows
from juzhen.core.safe_open import read_shaped
from juzhen.core.schema import Text
from juzhen.data.rows import own_set, set_and_split
from juzhen.data.tables import TableReading
from juzhen.encoders.resolve_path import ENCODER_FOLDER, encoder_folder
from juzhen.evaluation.scoring import DECIDED, fitted_threshold, labelled, score_set
from juzhen.evaluation.settings import EvaluationSettings
from juzhen.metrics.threshold import halves

if TYPE_CHECKING:  # it loads torch, which scores that were kept have no need of
    from juzhen.families.registry import PairScorer


@dataclass(frozen=True)
class ScoredSet:
    """One split of a set with the run's scores, float64. The rows may lack their texts."""

    examples: Examples
    scores: np.ndarray

    @classmethod
    def of(cls, column: str, rows: SetRows) -> "ScoredSet":
        """Return pairs kept by a run, without texts. Ranked 0/1 pairs are converted by `labelled`."""
        split, name = column.split("/")
        kind = Kind.LABELLED_PAIR if rows.kind in RANKED else Kind(rows.kind)
        scores, gold = labelled(rows)
        texts = dict.fromkeys(TEXT_COLUMNS[kind], np.zeros(len(scores), dtype=np.int32))
        examples = Examples(name, split, kind, ["-"], texts, gold, rows.fingerprint)
        return cls(examples, scores.astype(np.float64))

    @property
    def gold(self) -> np.ndarray:
        """Gold value of each row: a grade, a 0/1 label or a class number."""
        assert self.examples.targets is not None  # sets are chosen by kinds that have one
        return self.examples.targets

    @property
    def labelled(self) -> tuple[np.ndarray, np.ndarray]:
        return self.scores, self.gold

    def select(self, rows: np.ndarray) -> "ScoredSet":
        return ScoredSet(self.examples.select(rows), self.scores[rows])


class ScoredEncoder(ABC):
    """An encoder that scores rows without gradients and in float32.

    Args:
        source: Run, folder or built-in name.
        place: Folder of its weights.
    """

    def __init__(self, source: str | Path, place: Path, *, batch_tokens: int) -> None:
        self.source = source
        self._place = place
        self._batch_tokens = batch_tokens
        self._computed: dict[str, ScoredSet] = {}

    @abstractmethod
    def scored(self, name: str, split: str) -> ScoredSet | None:
        """Return the rows of a split with their scores. None for a missing split."""

    @cached_property
    def weights(self) -> str:
        return weights_digest(self._place)

    def computed(self, examples: Examples) -> ScoredSet:
        """Return rows with scores, computed once. Raises UserError for rows that the encoder cannot score."""
        column = f"{examples.split}/{examples.name}"
        if column not in self._computed:
            self._computed[column] = self._with_scores(column, examples)
        return self._computed[column]

    def _with_scores(self, column: str, examples: Examples) -> ScoredSet:
        if examples.kind in RANKED:
            from juzhen.evaluation.run import evaluate

            settings = EvaluationSettings()
            settings.evaluation.bootstrap_samples = 0
            settings.hardware.eval_batch_tokens = self._batch_tokens
            return ScoredSet.of(column, evaluate(self.source, [examples], settings=settings).rows[column])
        first, second, *_ = (examples.texts(column) for column in TEXT_COLUMNS[examples.kind])
        self._scorer.require_order(examples)
        scores = self._scorer(first, second, batch_tokens=self._batch_tokens, show_progress=True)
        return ScoredSet(examples, scores)

    @cached_property
    def _scorer(self) -> "PairScorer":
        from juzhen.families.registry import PairScorer

        return PairScorer(self.source)


class ScoredFiles(ScoredEncoder):
    """Tables of pairs, scored by an encoder.

    A file is a dev split. `test.csv` is the test split where the `dev.csv` of its folder is named, too.

    Raises UserError for a file that cannot be read, or whose rows no threshold can be fitted on.
    """

    def __init__(
        self, source: str | Path, files: Sequence[Path], *, reading: TableReading, batch_tokens: int
    ) -> None:
        super().__init__(source, encoder_folder(source), batch_tokens=batch_tokens)
        self.sets: dict[str, dict[str, Examples]] = {}
        for file in files:
            name, split = set_and_split(file)
            rows = replace(own_set(file, reading, split)[1], name=name)
            if rows.kind not in DECIDED:
                columns = reading.spell("columns", {"text_a": "1", "text_b": "2", "label": "3"})
                raise UserError(
                    f"--data {file}: its rows are {rows.kind}s, and a threshold divides pairs of label 1 from pairs of "
                    f"label 0. Name the column of such labels: {columns}"
                )
            splits = self.sets.setdefault(name, {})
            if split in splits:
                raise UserError(f"--data {file}: two files are {name}/{split}. Rename one of them")
            splits[split] = rows
        for splits in self.sets.values():
            if "dev" not in splits:
                splits["dev"] = replace(splits.pop("test"), split="dev")

    def scored(self, name: str, split: str) -> ScoredSet | None:
        rows = self.sets[name].get(split)
        return None if rows is None else self.computed(rows)


class ScoredRun(ScoredEncoder):
    """A finished run and its scores.

    Scores kept for these weights and rows are read. Others are computed.

    Args:
        data_dir: Where to read sets. Default: where the run read them.
    """

    def __init__(self, folder: str | Path, *, data_dir: Path | None, batch_tokens: int) -> None:
        self.folder = Path(folder)
        super().__init__(self.folder, self.folder / ENCODER_FOLDER, batch_tokens=batch_tokens)
        self.result = Result.read(folder)
        self._data_dir = data_dir

    def sets(self, kinds: tuple[Kind, ...]) -> list[str]:
        """Return the names of evaluated sets of these kinds that have a dev split."""
        read = self.result.data.items()
        return [
            key.removeprefix("dev/") for key, rows in read if key.startswith("dev/") and rows["kind"] in kinds
        ]

    def choose(self, wanted: Sequence[str] | None, kinds: tuple[Kind, ...]) -> list[str]:
        """Return `wanted`, or every suitable set. Raises UserError without any, or for an unsuitable one."""
        fitting = self.sets(kinds)
        *names, last = (f"{kind}s".replace("_", " ") for kind in kinds)
        names_of_kinds = " or ".join(filter(None, [", ".join(names), last]))
        if not fitting:
            raise UserError(
                f"{self.folder}: was evaluated on no dev split of {names_of_kinds}. Run it with a suite that has one"
            )
        for name in wanted or ():
            if name not in fitting:
                raise UserError(
                    f"--sets {name}: {self.folder} has no dev split of {names_of_kinds} with this name. "
                    f"{nearest(name, fitting)}"
                )
        return list(wanted or fitting)

    def scored(self, name: str, split: str) -> ScoredSet | None:
        """Return the rows of a split with their scores. None if the run had no such split."""
        column = f"{split}/{name}"
        if column not in self.result.data:
            return None
        if (kept := self.row_scores.get(column)) is not None:
            return ScoredSet.of(column, kept)
        return self.computed(read_rows(self.result, column, data_dir=self._data_dir))

    @cached_property
    def row_scores(self) -> dict[str, SetRows]:
        """Return `split/dataset` → the rows kept for the current weights. `debug_rows` are not all rows."""
        if self.weights != self.result.measured_weights or self.result.config.get("debug_rows") is not None:
            return {}
        return RowScores.read(self.folder).of(self.result)


def read_rows(result: Result, column: str, *, data_dir: Path | None = None) -> Examples:
    """Read the rows of `split/dataset` that the run has scored, with their texts. For `debug_rows` all rows.

    Args:
        data_dir: Where to read sets. Default: where the run read them.

    Raises:
        UserError: No such rows, or other rows.
    """
    from juzhen.data.loading import load_split, sampled

    split, name = column.split("/")
    folder = data_dir or Path(result.config["data_dir"])
    stored = {key: result.config[key] for key in ("source", "on_bad_row")}
    changes = {"data_dir": str(folder), "evaluate": {name: result.described(name)}}
    settings = EvaluationSettings.of(stored | changes)
    examples = load_split(settings, settings.evaluate[name], split, required=True)
    assert examples is not None  # a file that is required is there, or there is a UserError
    examples = sampled(examples, (result.config.get("evaluation") or {}).get("limit"))
    if examples.fingerprint != result.data[column]["fingerprint"]:
        raise UserError(
            f"{name}/{split} below {folder} holds other rows than the run {result.name} has seen. Point --data-dir at "
            "the same files"
        )
    return examples


def fitting_and_judging(run: ScoredEncoder, name: str) -> tuple[ScoredSet, ScoredSet, str]:
    """Return the rows to fit on, the rows to judge by, and a name for them.

    These are dev and test. Without a test split, they are the two `halves` of dev.
    """
    dev, test = run.scored(name, "dev"), run.scored(name, "test")
    assert dev is not None  # `choose` gives no other sets
    if test is not None:
        return dev, test, "fitted on dev, judged on test"
    fitted, judged = halves(dev.gold)
    return (
        dev.select(fitted),
        dev.select(judged),
        "no test split: fitted on one half of dev, judged on the other",
    )


FUSED_KINDS = (Kind.SCORED_PAIR, Kind.LABELLED_PAIR, Kind.NLI_PAIR)
BOOTSTRAP_SAMPLES = 1000


def fitted_sets(
    names: Sequence[str], fit: Callable[[str], dict[str, Any]], notes: list[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the report of each set. `notes` explain sets that nothing can be fitted on.

    Raises:
        UserError: Nothing can be fitted on any set.
    """
    unfit = []
    for name in names:
        try:
            report = fit(name)
        except UnfitError as error:
            unfit.append(f"{name}: {error}")
            continue
        yield name, report
    if len(unfit) == len(names):
        raise UserError("; ".join(unfit))
    notes += unfit


class FittedOn(TypedDict):
    weights: Text | list[Text]


def require_same_weights(paths: Sequence[Path], weights: str | list[str]) -> None:
    """Check that an existing file was fitted on the same weights. Raises UserError to keep other files."""
    check_overwritable(*paths)
    for path in paths:
        remedy = "Type --output <another folder>"
        if path.exists() and read_shaped(path, FittedOn, remedy)["weights"] != weights:
            raise UserError(
                f"{path}: is of other runs, and would be replaced. Type --output <another folder>"
            )


def calibrate_set(run: ScoredEncoder, name: str) -> dict[str, Any]:
    """Return the scalings fitted on a set of 0/1 pairs, and their quality on held-out rows."""
    fitted, judged, note = fitting_and_judging(run, name)
    dev, test = run.scored(name, "dev"), run.scored(name, "test")
    assert dev is not None  # it was fitted on
    threshold = fitted_threshold(dev.labelled, None if test is None else test.labelled)
    return {
        "run": str(run.source),
        "weights": run.weights,
        "set": name,
        "how": note,
        "rows": len(judged.scores),
        "rows_fitted_on": len(fitted.scores),
        "threshold": asdict(threshold),
        **calibrated(fitted.labelled, judged.labelled),
    }


def fuse_set(runs: Sequence[ScoredRun], name: str, *, seed: int) -> dict[str, Any]:
    """Return scores of both runs and of their fusion on one set. Raises UserError for different rows."""
    first, second = (fitting_and_judging(run, name) for run in runs)
    fitted, judged, note = first
    for rows, other_rows in zip(first[:2], second[:2], strict=True):
        if rows.examples.fingerprint != other_rows.examples.fingerprint:
            raise UserError(
                f"{name}/{rows.examples.split}: the two runs have seen other rows. Fuse runs on the same files"
            )
    scores = {
        "first": standardised(fitted.scores, judged.scores),
        "second": standardised(second[0].scores, second[1].scores),
    }
    grades = fitted.examples.grades()
    assert grades is not None  # the kinds that are fused have an order
    weight = fit_weight(scores["first"][0], scores["second"][0], grades)
    scores["fused"] = tuple(weight * a + (1 - weight) * b for a, b in zip(*scores.values(), strict=True))
    measures = {
        who: score_set(
            judged_scores,
            # Half of dev is judged by thresholds of the other half, as a test split is by those of dev.
            replace(judged.examples, split="test"),
            dev=(fitted_scores, fitted.examples),
            bootstrap_samples=BOOTSTRAP_SAMPLES,
            seed=seed,
        )
        for who, (fitted_scores, judged_scores) in scores.items()
    }
    report: dict[str, Any] = {"fitted": {}}
    if judged.examples.kind is Kind.LABELLED_PAIR:
        labelled = tuple(zip(scores["fused"], (fitted.gold, judged.gold), strict=True))
        report = calibrated(*labelled) | {"threshold": asdict(fitted_threshold(*labelled))}
    return {
        "runs": [str(run.folder) for run in runs],
        "weights": [run.weights for run in runs],
        "set": name,
        "how": note,
        "rows": len(judged.scores),
        "alpha": weight,
        "means": [float(rows[0].scores.mean()) for rows in (first, second)],
        "deviations": [float(rows[0].scores.std()) for rows in (first, second)],
        **{
            who: {metric: asdict(score) for metric, score in by_metric.items()}
            for who, by_metric in measures.items()
        },
        "fitted": report.pop("fitted"),
        **({"threshold": report.pop("threshold")} if "threshold" in report else {}),
        "calibration": report,
    }
