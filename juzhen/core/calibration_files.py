"""Files of `juzhen calibrate` and `juzhen fuse`, to scale scores of new pairs. Needs no torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypeVar

from typing_extensions import TypedDict

from juzhen.core.errors import UserError, foreign_reason, require_choice
from juzhen.core.result import weights_digest
from juzhen.core.safe_open import read_json
from juzhen.core.schema import Number, Text, require_form

if TYPE_CHECKING:
    import numpy as np


SCALINGS = {"temperature": 1, "platt": 2}
"""Scaling of a score to the logit of label 1, score / T or a · score + b → number of its parameters."""


class Fitted(TypedDict, total=False):
    temperature: list[Number]
    platt: list[Number]


class ThresholdFile(TypedDict):
    value: Number | None


class CalibrationFile(TypedDict):
    fitted: Fitted
    run: Text
    weights: Text
    threshold: NotRequired[ThresholdFile]


class FusionFile(TypedDict):
    runs: list[Text]
    weights: list[Text]
    means: list[Number]
    deviations: list[Number]
    fitted: Fitted
    alpha: Number
    threshold: NotRequired[ThresholdFile]


Scores = TypeVar("Scores", float, "np.ndarray")
"""A number or an array."""


@dataclass(frozen=True)
class Scaling:
    """Scaling of scores to probabilities, fitted on one set of 0/1 pairs.

    Args:
        path: File of the parameters.
        fitted: Name of SCALINGS → T, or a and b. Empty if the set has no 0/1 labels.
        threshold: Lowest score of a positive pair. None without positive pairs.
    """

    path: Path
    fitted: Mapping[str, Sequence[float]]
    threshold: float | None

    def logits(self, scores: Scores, method: str) -> Scores:
        """Scale scores to logits. A sigmoid makes probabilities of them.

        Args:
            scores: Any shape.
            method: `temperature` or `platt`.

        Returns:
            The same shape.

        Raises:
            UserError: Nothing was fitted, because the set had no labels 0 and 1.
        """
        require_choice("scaling", method, SCALINGS)
        if method not in self.fitted:
            raise UserError(
                f"scaling={method}: {self.path} was fitted on a set without 0/1 labels, so scores have no "
                "probabilities. Leave it out, or fit on a set of 0/1 pairs"
            )
        if method == "temperature":
            (temperature,) = self.fitted[method]
            return scores / temperature
        slope, shift = self.fitted[method]
        return slope * scores + shift


@dataclass(frozen=True)
class Calibration(Scaling):
    """Scaling of one run's scores.

    Args:
        weights: Digest of the run's weights.
    """

    weights: str

    @classmethod
    def read(cls, path: str | Path) -> "Calibration":
        """Read a file of `juzhen calibrate`.

        Args:
            path: `analysis/calibration-SET.json` of a run.

        Returns:
            The calibration.

        Raises:
            UserError: Any other file.
        """
        report = _report(path, CalibrationFile, "calibrate runs/NAME")
        return cls(Path(path), report["fitted"], _threshold(report), report["weights"])

    def require(self, encoder: str | Path) -> None:
        """Check that the scaling was fitted to an encoder.

        Args:
            encoder: Run, folder or built-in name.

        Raises:
            UserError: Other weights.
        """
        _require(encoder, self.weights, f"{self.path} was fitted to the scores of another encoder")


@dataclass(frozen=True)
class Fusion(Scaling):
    """Fusion of two runs: α · first + (1 − α) · second, each standardised by its mean and deviation.

    Args:
        runs: Folders of both runs, as on the command line.
        weights: Digests of their weights.
        alpha: α, weight of the first run, from 0 to 1.
        means: Mean score of each run on the fitted rows.
        deviations: Standard deviation of each run's scores on the fitted rows.
    """

    runs: tuple[str, str]
    weights: tuple[str, str]
    alpha: float
    means: tuple[float, float]
    deviations: tuple[float, float]

    @classmethod
    def read(cls, path: str | Path) -> "Fusion":
        """Read a file of `juzhen fuse`.

        Args:
            path: `analysis/fusion-SET.json` of the first run.

        Returns:
            The fusion.

        Raises:
            UserError: Any other file.
        """
        report = _report(path, FusionFile, "fuse runs/ONE runs/OTHER")
        lists = {key: tuple(report[key]) for key in ("runs", "weights", "means", "deviations")}
        return cls(Path(path), report["fitted"], _threshold(report), alpha=report["alpha"], **lists)

    def require(self, folders: Sequence[str | Path]) -> None:
        """Check that the encoders are the two fused ones.

        Args:
            folders: Two runs, in the order of the fit.

        Raises:
            UserError: Other weights, or another order.
        """
        for folder, digest, run in zip(folders, self.weights, self.runs, strict=True):
            message = f"{self.path} weighs {self.runs[0]} and then {self.runs[1]}, and this is not {run}"
            _require(folder, digest, message)

    def fused(self, first: Scores, second: Scores) -> Scores:
        """Fuse the scores of both encoders.

        Args:
            first: Scores of the first run.
            second: Scores of the second run, the same shape.

        Returns:
            The weighted mean. 0 is the mean of the set of the fit.
        """
        first_scores, other = (
            (scores - mean) / (deviation or 1.0)
            for scores, mean, deviation in zip((first, second), self.means, self.deviations, strict=True)
        )
        return self.alpha * first_scores + (1 - self.alpha) * other


def _threshold(report: Mapping[str, Any]) -> float | None:
    value: float | None = report.get("threshold", {}).get("value")
    return value


def is_fusion(path: str | Path) -> bool:
    """True for a file of a fusion, and not of a calibration.

    Args:
        path: A file of `juzhen fuse` or `juzhen calibrate`.

    Returns:
        True if the file has an `alpha`.

    Raises:
        UserError: It cannot be read.
    """
    return "alpha" in _report(path, dict[str, Any], "calibrate runs/NAME")


def _report(path: str | Path, kind: Any, command: str) -> dict[str, Any]:
    try:
        report = read_json(path)
        require_form(report, kind, "it")
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: {foreign_reason(error)}. Expected a file of juzhen {command}") from None
    return report


def _require(folder: str | Path, digest: str, message: str) -> None:
    """Raises UserError unless the weights of a run or encoder folder have the digest."""
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder. Expected a run that was fitted on")
    inner = folder / "encoder"
    if weights_digest(inner if inner.is_dir() else folder) != digest:
        raise UserError(f"{folder}: {message}. Name the folder of that run, or fit again")
