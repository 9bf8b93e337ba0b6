"""What `juzhen calibrate` and `fuse` have fitted on a set, for scores of new pairs. Needs no torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypeVar

from typing_extensions import TypedDict

from juzhen.core.errors import UserError
from juzhen.core.result import weights_digest
from juzhen.core.safe_open import read_json
from juzhen.core.schema import Number, Text, require_form
from juzhen.core.text import short

if TYPE_CHECKING:
    import numpy as np


SCALINGS = {"temperature": 1, "platt": 2}
"""Ways from a score to the logit of label 1, score / T and a · score + b → numbers that each of them has."""


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
"""A number, or an array of them."""


@dataclass(frozen=True)
class Scaling:
    """Numbers that make probabilities of scores; fitted on one set of 0/1 pairs.

    path    file that they were read from
    fitted  name of SCALINGS → T, or a and b; empty where the set has no 0/1 labels
    threshold  the score from which on a pair counts as the same; None where there is none
    """

    path: Path
    fitted: Mapping[str, Sequence[float]]
    threshold: float | None

    def logits(self, scores: Scores, method: str) -> Scores:
        """The scores, scaled; sigmoid makes probabilities of them. Raises UserError where nothing was fitted."""
        if method not in self.fitted:
            raise UserError(
                f"{self.path}: was fitted on a set without 0/1 labels, so there is no probability to scale to; leave "
                "--scaling out, or fit on a set of 0/1 pairs"
            )
        if method == "temperature":
            (temperature,) = self.fitted[method]
            return scores / temperature
        slope, shift = self.fitted[method]
        return slope * scores + shift


@dataclass(frozen=True)
class Calibration(Scaling):
    """The scaling of one run's scores.

    weights  digest of the run's weights
    """

    weights: str

    @classmethod
    def read(cls, path: str | Path) -> "Calibration":
        """Raises UserError for a file that is none of `juzhen calibrate`."""
        report = _report(path, CalibrationFile, "calibrate runs/NAME")
        return cls(Path(path), report["fitted"], _threshold(report), report["weights"])

    def require(self, encoder: str | Path) -> None:
        """Raises UserError when the encoder is not the one whose scores were looked at."""
        _require(encoder, self.weights, f"{self.path} was fitted to the scores of another encoder")


@dataclass(frozen=True)
class Fusion(Scaling):
    """Two runs as one score: α · first + (1 − α) · second, each less its mean, in units of its deviation.

    runs     folders of the two, as they were typed
    weights  digests of their weights
    """

    runs: tuple[str, str]
    weights: tuple[str, str]
    alpha: float
    means: tuple[float, float]
    deviations: tuple[float, float]

    @classmethod
    def read(cls, path: str | Path) -> "Fusion":
        """Raises UserError for a file that is none of `juzhen fuse`."""
        report = _report(path, FusionFile, "fuse runs/ONE runs/OTHER")
        lists = {key: tuple(report[key]) for key in ("runs", "weights", "means", "deviations")}
        return cls(Path(path), report["fitted"], _threshold(report), alpha=report["alpha"], **lists)

    def require(self, folders: Sequence[str | Path]) -> None:
        """Raises UserError when the encoders are not the two that were fused, in their order."""
        for folder, digest, run in zip(folders, self.weights, self.runs, strict=True):
            message = f"{self.path} weighs {self.runs[0]} and then {self.runs[1]}, and this is not {run}"
            _require(folder, digest, message)

    def fused(self, first: Scores, second: Scores) -> Scores:
        """The one score of scores of both."""
        first_scores, other = (
            (scores - mean) / (deviation or 1.0)
            for scores, mean, deviation in zip((first, second), self.means, self.deviations, strict=True)
        )
        return self.alpha * first_scores + (1 - self.alpha) * other


def _threshold(report: Mapping[str, Any]) -> float | None:
    value: float | None = report.get("threshold", {}).get("value")
    return value


def is_fusion(path: str | Path) -> bool:
    """Whether a file holds a fusion and not a calibration. Raises UserError for one that cannot be read."""
    return "alpha" in _report(path, dict[str, Any], "fuse runs/ONE runs/OTHER")


def _report(path: str | Path, kind: Any, command: str) -> dict[str, Any]:
    try:
        report = read_json(path)
        require_form(report, kind, "it")
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: {short(str(error), 200)}; expected a file of juzhen {command}") from None
    return report


def _require(folder: str | Path, digest: str, message: str) -> None:
    """Raises UserError unless the weights in a run folder, or an encoder folder, have that digest."""
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; expected a run that was fitted on")
    inner = folder / "encoder"
    if weights_digest(inner if inner.is_dir() else folder) != digest:
        raise UserError(f"{folder}: {message}; name the folder of that run, or fit again")
