"""Scores of evaluation rows, kept by a finished run or computed with an encoder, and paired comparison of runs.

Runs are compared on the same rows: differences with intervals, flipped pairs, and worst pairs.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import binomtest
from typing_extensions import TypedDict

from juzhen.calibration.calibration import UnfitError, calibrated, fit_weight, standardised
from juzhen.core.errors import UserError, nearest, require_choice
from juzhen.core.examples import JUDGED, RANKED, TEXT_COLUMNS, Examples, Kind
from juzhen.core.file_guard import check_overwritable
from juzhen.core.kinds import main_metric
from juzhen.core.result import RESULT_FILE, Result, weights_digest
from juzhen.core.row_scores import ROWS_OF_PAIRS, RowScores, SetRows
from juzhen.core.safe_open import read_shaped
from juzhen.core.schema import Text
from juzhen.data.rows import own_set, set_and_split
from juzhen.data.tables import TableReading
from juzhen.encoders.resolve_path import ENCODER_FOLDER, encoder_folder
from juzhen.evaluation.scoring import DECIDED, fitted_threshold, labelled, score_set
from juzhen.evaluation.settings import EvaluationSettings
from juzhen.metrics.comparison import Scored, are_same_rows, paired_gap
from juzhen.metrics.threshold import halves

if TYPE_CHECKING:
    from juzhen.families.registry import PairScorer


@dataclass(frozen=True)
class ScoredSet:
    """One split of a set with the run's scores, float64. The rows may lack their texts.

    Args:
        examples: The rows.
        scores: Score of each row, (rows,).
    """

    examples: Examples
    scores: np.ndarray

    @classmethod
    def of(cls, column: str, rows: SetRows) -> "ScoredSet":
        """Return pairs kept by a run, without texts. Ranked 0/1 pairs are converted by `labelled`.

        Args:
            column: `split/dataset`.
            rows: Scores and gold values, as `rows.parquet` has them.
        """
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
        """Select rows.

        Args:
            rows: Indices, or a mask over all rows.

        Returns:
            The rows in the order of the indices.
        """
        return ScoredSet(self.examples.select(rows), self.scores[rows])


class ScoredEncoder(ABC):
    """An encoder that scores rows without gradients and in float32.

    Args:
        source: Run, folder or built-in name.
        place: Folder of its weights.
        batch_tokens: Tokens of a batch.
    """

    def __init__(self, source: str | Path, place: Path, *, batch_tokens: int) -> None:
        self.source = source
        self._place = place
        self._batch_tokens = batch_tokens
        self._computed: dict[str, ScoredSet] = {}

    @abstractmethod
    def scored(self, name: str, split: str) -> ScoredSet | None:
        """Return the rows of a split with their scores.

        Args:
            name: Name of the set.
            split: Such as "dev".

        Returns:
            The rows. None for a missing split.
        """

    @cached_property
    def weights(self) -> str:
        return weights_digest(self._place)

    def computed(self, examples: Examples) -> ScoredSet:
        """Score rows. Each set is computed once.

        Args:
            examples: Rows with texts.

        Returns:
            The rows with their scores.

        Raises:
            UserError: Rows that the encoder cannot score.
        """
        column = f"{examples.split}/{examples.name}"
        if column not in self._computed and examples.kind in RANKED:
            from juzhen.evaluation.run import evaluate

            settings = EvaluationSettings()
            settings.evaluation.bootstrap_samples = 0
            settings.hardware.eval_batch_tokens = self._batch_tokens
            found = evaluate(self.source, [examples], settings=settings).rows[column]
            self._computed[column] = ScoredSet.of(column, found)
        elif column not in self._computed:
            first, second, *_ = (examples.texts(name) for name in TEXT_COLUMNS[examples.kind])
            self._scorer.require_order(examples)
            scores = self._scorer(first, second, batch_tokens=self._batch_tokens, show_progress=True)
            self._computed[column] = ScoredSet(examples, scores)
        return self._computed[column]

    @cached_property
    def _scorer(self) -> "PairScorer":
        from juzhen.families.registry import PairScorer

        return PairScorer(self.source)


class ScoredFiles(ScoredEncoder):
    """Tables of pairs, scored by an encoder.

    A file is a dev split. `test.csv` is the test split where the `dev.csv` of its folder is named, too.

    Args:
        files: The tables.
        reading: Options of the tables.

    Raises:
        UserError: A file that cannot be read, or has no pairs with labels 0 and 1.
    """

    def __init__(
        self, source: str | Path, files: Sequence[str | Path], *, reading: TableReading, batch_tokens: int
    ) -> None:
        super().__init__(source, encoder_folder(source), batch_tokens=batch_tokens)
        self.sets: dict[str, dict[str, Examples]] = {}
        for file in map(Path, files):
            name, split = set_and_split(file)
            rows = replace(own_set(file, reading, split)[1], name=name)
            if rows.kind not in DECIDED:
                columns = reading.spell("columns", {"text_a": "1", "text_b": "2", "label": "3"})
                raise UserError(
                    f"{file}: its rows are {str(rows.kind).replace('_', ' ')}s, and labels 0 and 1 are needed. "
                    f"Name the column of these labels: {columns}"
                )
            splits = self.sets.setdefault(name, {})
            if split in splits:
                raise UserError(f"{file}: two files are {name}/{split}. Rename one of them")
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
        folder: Folder of the run, or its result.json.
        data_dir: Where to read sets. Default: where the run read them.
    """

    def __init__(self, folder: str | Path, *, data_dir: Path | None, batch_tokens: int) -> None:
        self.folder = Path(folder).parent if Path(folder).name == RESULT_FILE else Path(folder)
        super().__init__(self.folder, self.folder / ENCODER_FOLDER, batch_tokens=batch_tokens)
        self.result = Result.read(self.folder)
        self._data_dir = data_dir

    def sets(self, kinds: tuple[Kind, ...]) -> list[str]:
        """Return the names of evaluated sets of these kinds that have a dev split.

        Args:
            kinds: Kinds of rows.
        """
        read = self.result.data.items()
        return [
            key.removeprefix("dev/") for key, rows in read if key.startswith("dev/") and rows["kind"] in kinds
        ]

    def choose(self, wanted: Sequence[str] | None, kinds: tuple[Kind, ...]) -> list[str]:
        """Choose the sets to work on.

        Args:
            wanted: Names of sets. None: all suitable ones.
            kinds: Suitable kinds of rows.

        Returns:
            Names of sets. The wanted ones in their order.

        Raises:
            UserError: No suitable set, or a wanted one is not suitable.
        """
        fitting, wanted = self.sets(kinds), [wanted] if isinstance(wanted, str) else wanted
        *names, last = (f"{kind}s".replace("_", " ") for kind in kinds)
        names_of_kinds = " or ".join(filter(None, [", ".join(names), last]))
        if not fitting:
            raise UserError(
                f"{self.folder}: was evaluated on no dev split of {names_of_kinds}. Score it on a set that has one"
            )
        for name in wanted or ():
            if name not in fitting:
                raise UserError(
                    f"set={name}: {self.folder} has no dev split of {names_of_kinds} with this name. "
                    f"{nearest(name, fitting)}"
                )
        return list(wanted or fitting)

    def scored(self, name: str, split: str) -> ScoredSet | None:
        """Return the rows of a split with their scores, as of `ScoredEncoder.scored`.

        Raises:
            UserError: The set has other rows than the run has seen.
        """
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
    """Read the rows of a split that a run has scored, with their texts. For `debug_rows` all rows.

    Args:
        result: Result of the run.
        column: `split/dataset`.
        data_dir: Where to read sets. None: where the run read them.

    Returns:
        The rows. Their fingerprint is that of the run.

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
            f"{name}/{split} below {folder} holds other rows than the run {result.name} has seen. Point data_dir at "
            "the same files"
        )
    return examples


def fitting_and_judging(run: ScoredEncoder, name: str) -> tuple[ScoredSet, ScoredSet, str]:
    """Return the rows to fit on and the rows to judge by.

    These are dev and test. Without a test split, they are the two `halves` of dev.

    Args:
        run: Its encoder scores the rows.
        name: Set with a dev split.

    Returns:
        Both, and a sentence that names them.

    Raises:
        UserError: The set has no dev split.
    """
    dev, test = run.scored(name, "dev"), run.scored(name, "test")
    if dev is None:
        raise UserError(f"set={name}: {run.source} has scored no dev split of this name. Name another set")
    if test is not None:
        return dev, test, "fitted on dev, judged on test"
    fitted, judged = halves(dev.gold)
    how = "no test split: fitted on one half of dev, judged on the other"
    return dev.select(fitted), dev.select(judged), how


BOOTSTRAP_SAMPLES = 1000


def fitted_sets(
    names: Sequence[str], fit: Callable[[str], dict[str, Any]], notes: list[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Fit on each set. Sets that nothing can be fitted on are left out.

    Args:
        names: Names of sets.
        fit: Name → report. Raises UnfitError if nothing can be fitted.
        notes: Gets a line for each set that is left out.

    Yields:
        Name and report.

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
    """Check that existing files were fitted on the same weights, before they are replaced.

    Args:
        paths: Files to write.
        weights: Digest, or those of two fused runs.

    Raises:
        UserError: A file of other runs, or a file that juzhen did not write.
    """
    check_overwritable(*paths)
    for path in paths:
        remedy = "Choose another folder for the output"
        if path.exists() and read_shaped(path, FittedOn, remedy)["weights"] != weights:
            raise UserError(f"{path}: is of other runs, and would be replaced. {remedy}")


def calibrate_set(run: ScoredEncoder, name: str) -> dict[str, Any]:
    """Fit temperature and Platt scaling on a set of 0/1 pairs, and judge them on held-out rows.

    Args:
        run: Its encoder scores the rows.
        name: Set with a dev split.

    Returns:
        The report, as the file of `juzhen calibrate` has it.

    Raises:
        UserError: As of `fitting_and_judging`.
    """
    fitted, judged, note = fitting_and_judging(run, name)
    dev, test = run.scored(name, "dev"), run.scored(name, "test")
    assert dev is not None  # it was fitted on
    scalings = calibrated(fitted.labelled, judged.labelled)  # refuses grades and classes
    threshold = fitted_threshold(dev.labelled, None if test is None else test.labelled)
    return {
        "run": str(run.source),
        "weights": run.weights,
        "set": name,
        "how": note,
        "rows": len(judged.scores),
        "rows_fitted_on": len(fitted.scores),
        "threshold": asdict(threshold),
        **scalings,
    }


def fuse_set(runs: Sequence[ScoredRun], name: str, *, seed: int) -> dict[str, Any]:
    """Fit the weight of two runs on a set, and score both runs and their fusion.

    Args:
        runs: Two runs.
        name: Set that both were scored on.
        seed: Of the bootstrap.

    Returns:
        The report, as the file of `juzhen fuse` has it.

    Raises:
        UserError: The runs were scored on different rows.
    """
    first, second = (fitting_and_judging(run, name) for run in runs)
    fitted, judged, note = first
    for rows, other_rows in zip(first[:2], second[:2], strict=True):
        if rows.examples.fingerprint != other_rows.examples.fingerprint:
            raise UserError(
                f"{name}/{rows.examples.split}: the runs were scored on different rows. Fuse runs with equal files"
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


@dataclass(frozen=True)
class RunDifference:
    """A metric of one run minus that of the first one, as fractions.

    Args:
        measure: Name of the metric.
        first, other: Metric of the first run, and of this run.
        low: Lower end of the 95 % interval of the difference. Rows (of rankings: queries) are paired.
        high: Upper end of the interval.
    """

    measure: str
    first: float
    other: float
    low: float
    high: float

    @property
    def points(self) -> float:
        return 100 * (self.other - self.first)

    @property
    def is_decided(self) -> bool:
        return not self.low <= 0 <= self.high


def require_different_folders(folders: Iterable[str | Path]) -> None:
    """Check that no folder is named twice, also by another path.

    Args:
        folders: Runs.

    Raises:
        UserError: A folder is named twice.
    """
    seen: dict[Path, str | Path] = {}
    for folder in folders:
        first = seen.setdefault(Path(folder).resolve(), folder)
        if first is not folder:
            how = "" if str(first) == str(folder) else f", also as {first}"
            raise UserError(f"{folder}: named twice{how}. Name different runs")


class PairedRuns:
    """Two or more runs. Each is compared with the first.

    Args:
        folders: Folders of the runs.
        data_dir: Folder of texts and rows that were not kept. Default: the data folder of each run.
        batch_tokens: Tokens of a batch.
        notes: Columns that could not be compared, and the reasons.

    Raises:
        UserError: Less than two folders.
    """

    def __init__(self, folders: Sequence[Path], *, data_dir: Path | None, batch_tokens: int) -> None:
        if isinstance(folders, str | Path) or len(folders) < 2:
            raise UserError("folders: two or more runs are compared. Give a list of their folders")
        require_different_folders(folders)
        self.runs = [ScoredRun(path, data_dir=data_dir, batch_tokens=batch_tokens) for path in folders]
        self._rows = [RowScores.read(run.folder).of(run.result) for run in self.runs]
        self.notes: list[str] = [
            f"{one.folder} and {two.folder} have the same weights"
            for one, two in combinations(self.runs, 2)
            if one.result.measured_weights and one.result.measured_weights == two.result.measured_weights
        ]
        self._data_dir = data_dir

    def columns(self, split: str | None, sets: Sequence[str] | None) -> list[str]:
        """Return each `split/dataset` that all runs have measured with the set's main metric.

        Args:
            split: dev, test or both. None: test if all runs have it, else dev, for each set.
            sets: Names of sets to keep. None: all.

        Raises:
            UserError: No common column, or a named set without one.
        """
        if split is not None:
            require_choice("split", split, ("dev", "test", "both"))
        sets = [sets] if isinstance(sets, str) else sets
        read = [
            [column for column in run.result.data if not column.startswith("train/")] for run in self.runs
        ]
        shared = [column for column in read[0] if all(column in columns for columns in read)]
        shared = [column for column in shared if main_metric(Kind(self.runs[0].result.data[column]["kind"]))]
        if not shared:
            raise UserError(
                "these runs have no evaluation set in common. Type juzhen evaluate to score finished runs on more"
            )
        if sets is not None:
            if absent := [name for name in sets if name not in {column.split("/")[1] for column in shared}]:
                known = nearest(absent[0], [column.split("/")[1] for column in shared])
                raise UserError(f"set={absent[0]}: not all of these runs were scored on it. {known}")
            shared = [column for column in shared if column.split("/")[1] in sets]
        if split in ("dev", "test"):
            shared = [column for column in shared if column.startswith(f"{split}/")]
        elif split is None:
            shared = [
                column
                for column in shared
                if f"test/{column.split('/')[1]}" not in shared or "test/" in column
            ]
        kept = {column.split("/")[1] for column in shared}
        if lacking := [name for name in sets or () if name not in kept] or ["any set"] * (not shared):
            raise UserError(
                f"split={split}: no such split of {lacking[0]} was scored by all of these runs. Leave it out"
            )
        return shared

    def scored(self, column: str) -> list[Scored] | None:
        """Return the rows of a column as scored by each run.

        Args:
            column: `split/dataset`.

        Returns:
            In the order of the runs. None, with a note, if the rows differ or a run has no scores of single rows.

        Raises:
            UserError: As of `columns`.
        """
        require_choice("column", column, self.columns("both", None))
        runs_scored = [self._of_run(number, column) for number in range(len(self.runs))]
        scored = [rows for rows in runs_scored if rows is not None]
        if len(scored) < len(runs_scored):
            missing = [
                str(run.folder) for run, rows in zip(self.runs, runs_scored, strict=True) if rows is None
            ]
            self.notes.append(
                f"{column}: no scores of single rows in {', '.join(missing)}; juzhen evaluate --again keeps them"
            )
            return None
        if not all(are_same_rows(scored[0].rows, other.rows) for other in scored[1:]):
            self.notes.append(f"{column}: the runs have scored other rows")
            return None
        return scored

    def _of_run(self, number: int, column: str) -> Scored | None:
        run, rows = self.runs[number], self._rows[number].get(column)
        split, name = column.split("/")
        if rows is None:
            kind, is_debug = run.result.data[column]["kind"], run.result.config.get("debug_rows") is not None
            computed = run.scored(name, split) if kind in ROWS_OF_PAIRS and not is_debug else None
            if computed is None:
                return None
            from juzhen.evaluation.scoring import rows_of_set  # loads torch

            rows = rows_of_set(computed.examples, computed.scores)
        return Scored.by(run.result, column, rows)

    def texts(self, column: str) -> dict[str, list[str]]:
        """Read the texts of a column.

        Args:
            column: `split/dataset`.

        Returns:
            Name of a text column → texts. Empty, with a note, if the set cannot be read.
        """
        from juzhen.data.loading import cut
        from juzhen.data.rankings import as_ranking

        result = self.runs[0].result
        try:
            examples = read_rows(result, column, data_dir=self._data_dir)
        except UserError as error:
            self.notes.append(f"{column}: no texts: {error}")
            return {}
        examples = cut(examples, result.config.get("debug_rows"), result.seed)
        if examples.kind in JUDGED:
            return {"query": list(as_ranking(examples).queries)}
        return {name: examples.texts(name) for name in TEXT_COLUMNS[examples.kind]}


def differences(first: Scored, other: Scored, *, metric: str | None) -> list[RunDifference]:
    """Compare two runs on one set, row by row.

    Args:
        first: The run to compare with.
        other: The same rows scored by another run.
        metric: One metric. None: the common metrics of pairs, the main metric of rankings.

    Returns:
        Other minus first, with 95 % intervals.

    Raises:
        UserError: Other rows.
    """
    _require_same_rows(first, other)
    shared = [name for name in first.measures if name in other.measures and metric in (None, name)]
    measures = shared if first.kind in ROWS_OF_PAIRS else shared[:1]
    gaps = {measure: paired_gap([other], [first], measure) for measure in measures}
    return [
        RunDifference(
            measure, float(first.value(measure) or 0), float(other.value(measure) or 0), *gap.interval
        )
        for measure, gap in gaps.items()
        if gap is not None
    ]


def flips(first: Scored, other: Scored) -> tuple[int, int, int, float] | None:
    """Count rows that only one run decides correctly, or neither.

    Args:
        first: Rows of one run.
        other: The same rows of another run.

    Returns:
        Only the first, only the other, neither, and the p-value of McNemar's exact test. None if no row is decided.

    Raises:
        UserError: Other rows.
    """
    _require_same_rows(first, other)
    if first.right is None or other.right is None:
        return None
    alone, theirs = int((first.right & ~other.right).sum()), int((other.right & ~first.right).sum())
    neither = int((~first.right & ~other.right).sum())
    p = float(binomtest(alone, alone + theirs).pvalue) if alone + theirs else 1.0
    return alone, theirs, neither, p


def _require_same_rows(first: Scored, other: Scored) -> None:
    if not are_same_rows(first.rows, other.rows):
        raise UserError("the runs have scored other rows. Compare them on one split of the same files")
