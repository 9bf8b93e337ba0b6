"""Scores of a finished run's evaluation pairs, computed again with the encoder that it left behind."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from juzhen.core.errors import UserError, nearest
from juzhen.core.examples import TEXT_COLUMNS, Examples, Kind
from juzhen.core.result import Result
from juzhen.core.weights import weights_digest
from juzhen.data.loading import load_split
from juzhen.encoders.locate import ENCODER_FOLDER
from juzhen.evaluation.settings import EvaluationSettings
from juzhen.families import PairScorer
from juzhen.metrics.threshold import halves


@dataclass(frozen=True)
class ScoredSet:
    """One split of one set: its rows, and the run's score of each, float64."""

    examples: Examples
    scores: np.ndarray

    @property
    def gold(self) -> np.ndarray:
        """The gold value of each row: a grade, a 0/1 label or a class number."""
        assert self.examples.targets is not None  # sets are chosen by kinds that have one
        return self.examples.targets

    def select(self, rows: np.ndarray) -> "ScoredSet":
        return ScoredSet(self.examples.select(rows), self.scores[rows])


class ScoredRun:
    """A finished run, as far as its scores are concerned.

    data_dir  where sets are read from; None: where the run read them

    A Result holds no scores of single rows, so they are computed here, without gradients and in float32.
    """

    def __init__(self, folder: str | Path, *, data_dir: Path | None, batch_tokens: int) -> None:
        self.folder = Path(folder)
        self.result = Result.read(folder)
        self._scorer = PairScorer(folder)
        self._data_dir = data_dir or Path(self.result.config["data_dir"])
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
        names_of_kinds = " or ".join(f"{kind}s".replace("_", " ") for kind in kinds)
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
        if f"{split}/{name}" not in self.result.data:
            return None
        examples = self._examples(name, split)
        first, second, *_ = (examples.texts(column) for column in TEXT_COLUMNS[examples.kind])
        self._scorer.require_order(examples)
        scores = self._scorer(first, second, batch_tokens=self._batch_tokens, progress=True)
        return ScoredSet(examples, scores)

    @property
    def weights(self) -> str:
        return weights_digest(self.folder / ENCODER_FOLDER)

    def _examples(self, name: str, split: str) -> Examples:
        stored = {key: self.result.config[key] for key in ("source", "on_bad_row")}
        changes = {"data_dir": str(self._data_dir), "evaluate": {name: self.result.described(name)}}
        settings = EvaluationSettings.of(stored | changes)
        examples = load_split(settings, settings.evaluate[name], split, required=True)
        assert examples is not None  # a file that is required is there, or there is a UserError
        recorded = self.result.data[f"{split}/{name}"]
        if examples.fingerprint != recorded["fingerprint"]:
            raise UserError(
                f"{name}/{split} below {self._data_dir} holds other rows than the run {self.folder} has seen; point "
                "--data-dir at the same files"
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
