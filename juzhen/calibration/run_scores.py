"""Scores of a finished run's evaluation rows: those that it has left, or computed again with its encoder."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from juzhen.core.errors import UserError, nearest
from juzhen.core.examples import RANKED, TEXT_COLUMNS, Examples, Kind
from juzhen.core.result import Result
from juzhen.core.row_scores import RowScores, SetRows
from juzhen.core.weights import weights_digest
from juzhen.encoders.locate import ENCODER_FOLDER
from juzhen.evaluation.decisions import labelled
from juzhen.evaluation.settings import EvaluationSettings
from juzhen.metrics.threshold import halves

if TYPE_CHECKING:  # it loads torch, which scores that were kept have no need of
    from juzhen.families.registry import PairScorer


@dataclass(frozen=True)
class ScoredSet:
    """One split of one set: its rows, and the run's score of each, float64; the rows need have no texts."""

    examples: Examples
    scores: np.ndarray

    @classmethod
    def of(cls, column: str, rows: SetRows) -> "ScoredSet":
        """Pairs that a run has kept, without their texts; of a kind that ranks 0/1 pairs, as `labelled` makes them."""
        split, name = column.split("/")
        kind = Kind.LABELLED_PAIR if rows.kind in RANKED else Kind(rows.kind)
        scores, gold = labelled(rows)
        texts = dict.fromkeys(TEXT_COLUMNS[kind], np.zeros(len(scores), dtype=np.int32))
        examples = Examples(name, split, kind, ["-"], texts, gold, rows.fingerprint)
        return cls(examples, scores.astype(np.float64))

    @property
    def gold(self) -> np.ndarray:
        """The gold value of each row: a grade, a 0/1 label or a class number."""
        assert self.examples.targets is not None  # sets are chosen by kinds that have one
        return self.examples.targets

    @property
    def labelled(self) -> tuple[np.ndarray, np.ndarray]:
        return self.scores, self.gold

    def select(self, rows: np.ndarray) -> "ScoredSet":
        return ScoredSet(self.examples.select(rows), self.scores[rows])


class ScoredRun:
    """A finished run, as far as its scores are concerned.

    data_dir  where sets are read from; None: where the run read them

    What the run has kept of these weights and rows is read; the rest is computed, without gradients and in float32.
    """

    def __init__(self, folder: str | Path, *, data_dir: Path | None, batch_tokens: int) -> None:
        self.folder = Path(folder)
        self.result = Result.read(folder)
        self._data_dir = data_dir
        self._batch_tokens = batch_tokens

    def sets(self, kinds: tuple[Kind, ...]) -> list[str]:
        """Names of the sets of these kinds that the run was evaluated on and that have a dev split."""
        read = self.result.data.items()
        return [
            key.removeprefix("dev/") for key, rows in read if key.startswith("dev/") and rows["kind"] in kinds
        ]

    def choose(self, wanted: Sequence[str] | None, kinds: tuple[Kind, ...]) -> list[str]:
        """`wanted`, or every fitting set. Raises UserError when there is none, or one does not fit."""
        fitting = self.sets(kinds)
        *names, last = (f"{kind}s".replace("_", " ") for kind in kinds)
        names_of_kinds = " or ".join(filter(None, [", ".join(names), last]))
        if not fitting:
            raise UserError(
                f"{self.folder}: was evaluated on no dev split of {names_of_kinds}; run it with a suite that has one"
            )
        for name in wanted or ():
            if name not in fitting:
                raise UserError(
                    f"--sets {name}: {self.folder} has no dev split of {names_of_kinds} with this name; "
                    f"{nearest(name, fitting)}"
                )
        return list(wanted or fitting)

    def scored(self, name: str, split: str) -> ScoredSet | None:
        """The rows of a split with their scores; None where the run had no such split."""
        column = f"{split}/{name}"
        if column not in self.result.data:
            return None
        if (kept := self.row_scores.get(column)) is not None:
            return ScoredSet.of(column, kept)
        examples = read_rows(self.result, column, data_dir=self._data_dir)
        if examples.kind in RANKED:
            from juzhen.evaluation.run import evaluate

            settings = EvaluationSettings()
            settings.evaluation.bootstrap_samples = 0
            settings.hardware.eval_batch_tokens = self._batch_tokens
            return ScoredSet.of(column, evaluate(self.folder, [examples], settings=settings).rows[column])
        first, second, *_ = (examples.texts(column) for column in TEXT_COLUMNS[examples.kind])
        self._scorer.require_order(examples)
        scores = self._scorer(first, second, batch_tokens=self._batch_tokens, show_progress=True)
        return ScoredSet(examples, scores)

    @cached_property
    def row_scores(self) -> dict[str, SetRows]:
        """`split/dataset` → the rows that the run has kept of the weights that it has now; `debug_rows` are not all."""
        if self.weights != self.result.measured_weights or self.result.config.get("debug_rows") is not None:
            return {}
        return RowScores.read(self.folder).of(self.result)

    @cached_property
    def weights(self) -> str:
        return weights_digest(self.folder / ENCODER_FOLDER)

    @cached_property
    def _scorer(self) -> "PairScorer":
        from juzhen.families.registry import PairScorer

        return PairScorer(self.folder)


def read_rows(result: Result, column: str, *, data_dir: Path | None = None) -> Examples:
    """The rows of `split/dataset` that the run has scored, with their texts; of `debug_rows` all.

    data_dir  where sets are read from; None: where the run read them

    Raises UserError where there are none, or others.
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
            f"{name}/{split} below {folder} holds other rows than the run {result.name} has seen; point --data-dir at "
            "the same files"
        )
    return examples


def fitting_and_judging(run: ScoredRun, name: str) -> tuple[ScoredSet, ScoredSet, str]:
    """The rows that numbers are fitted on, those they are judged by, and in words which these are.

    dev and test; without a test split the two `halves` of dev.
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
