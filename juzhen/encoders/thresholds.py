"""Decision thresholds: two sentences mean the same if their score reaches the fitted threshold."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn
from typing_extensions import TypedDict

from juzhen.core.atomic_write import write_json
from juzhen.core.errors import UserError, nearest, require_number
from juzhen.core.result import weights_digest
from juzhen.core.safe_open import read_shaped
from juzhen.core.schema import Number, Text
from juzhen.core.text import short
from juzhen.encoders.peer_options import takes_peer_options

THRESHOLDS_FILE = "thresholds.json"
NO_THRESHOLD = (
    "Give one, such as threshold=0.7, or fit one: by fit(…, dev=…), by a training with a dev split of pairs or "
    "triplets, or by juzhen calibrate RUN"
)


def require_reachable(key: str, value: float, encoder: Any, widest: float = 1.0) -> float:
    """Check a score that is compared with those of an encoder.

    Args:
        key: Name of the setting, for the message.
        value: The score.
        encoder: Scores cosines, unless it has a learnt form or is a cross-encoder.
        widest: Bound of the absolute value where scores are cosines.

    Returns:
        The score.

    Raises:
        UserError: The value is no cosine where scores are cosines.
    """
    are_cosines = getattr(encoder, "score_head", encoder) is None
    require_number(key, value, -widest if are_cosines else -math.inf, widest if are_cosines else math.inf)
    return value


class Thresholds(TypedDict):
    weights: Text
    default: Text | None
    sets: dict[str, Number | None]


def write_thresholds(folder: Path, facts: Mapping[str, Any]) -> None:
    """Write the thresholds of a model card next to the weights.

    The default is that of the last training set, or of the only set.

    Args:
        folder: Folder of the weights.
        facts: `thresholds` is set → score, and `trained_on` lists the stages. Without thresholds nothing is written.
    """
    sets = facts.get("thresholds") or {}
    if not sets:
        return
    last = [name for stage in list(facts.get("trained_on") or ())[-1:] for name in stage.split("+")]
    candidates = [name for name in sets if name in last] or list(sets)
    default = candidates[0] if len(candidates) == 1 else None
    content = {"weights": weights_digest(folder), "default": default, "sets": dict(sets)}
    write_json(folder / THRESHOLDS_FILE, content, indent=2, in_own_folder=True)


def _read(folder: Path) -> tuple[str | None, dict[str, float | None]]:
    """Default set, and set → threshold. Raises UserError if the folder has no thresholds or other weights."""
    path = folder / THRESHOLDS_FILE
    if not path.is_file():
        raise UserError(f"{folder}: this encoder has no threshold. {NO_THRESHOLD}")
    content = read_shaped(path, Thresholds, NO_THRESHOLD)
    if content["weights"] != weights_digest(folder):
        raise UserError(f"{path}: was fitted for other weights than those in the folder. {NO_THRESHOLD}")
    return content["default"], content["sets"]


class ThresholdMixin(nn.Module):
    """What an encoder with a `score` can decide."""

    _loaded: tuple[Path | None, int] | None = None
    _fit_scores: Any = None
    _thresholds: tuple[str | None, dict[str, float | None]] | None = None

    def _is_loaded_from(self, folder: Path | None) -> None:
        self._loaded, self._thresholds = None if folder is None else (folder, self._changes()), None

    @property
    def fit_scores(self) -> Any:
        """Dev scores before and after `juzhen.fit`, a `juzhen.training.fit.FitScores`, or None."""
        return self._fit_scores

    def keep_fit(self, scores: Any, thresholds: Mapping[str, float | None]) -> None:
        """Store the results of `juzhen.fit` for these weights: scores, and set → threshold.

        Without thresholds the encoder has none, because a fused optimizer changes weights without a new version number.

        Args:
            scores: Scores of the fit.
            thresholds: Name of the set → its threshold.
        """
        self._fit_scores = scores
        self._loaded = (None, self._changes()) if thresholds else None
        default = next(iter(thresholds)) if len(thresholds) == 1 else None
        self._thresholds = (default, dict(thresholds)) if thresholds else None

    @property
    def fitted_here(self) -> dict[str, Any]:
        """Facts for a model card: the thresholds of `keep_fit` if the weights are unchanged, else {}."""
        is_here = self._loaded == (None, self._changes()) and self._thresholds is not None
        return {"thresholds": self._thresholds[1]} if is_here and self._thresholds else {}

    def _changes(self) -> int:
        """A number that grows with each change of the weights in place."""
        return sum(parameter._version for parameter in self.parameters())

    @takes_peer_options
    def threshold(self, of: str | None = None) -> float:
        """Score from which two sentences count as the same, fitted on a dev split.

        Args:
            of: Name of the set. None takes the last training set, or the only set.

        Returns:
            The score.

        Raises:
            UserError: The encoder has no threshold, or several and no default.

        Example:
            >>> fit("builtin/mini_zh", "train.csv", dev="dev.csv").threshold()  # doctest: +SKIP
        """
        return self.fitted_threshold(of)[1]

    def fitted_threshold(self, of: str | None = None) -> tuple[str, float]:
        """The set whose threshold `threshold` gives, and the threshold.

        Args:
            of: Name of the set. None: as in `threshold`.

        Returns:
            Name of the set, and the score.

        Raises:
            UserError: As in `threshold`.
        """
        if self._loaded is None or self._loaded[1] != self._changes():
            why = "has learnt since it was loaded, or was never saved"
            raise UserError(f"threshold: this encoder {why}. {NO_THRESHOLD}")
        if self._thresholds is None:
            folder = self._loaded[0]
            assert folder is not None  # what was fitted here has thresholds
            self._thresholds = _read(folder)
        default, sets = self._thresholds
        name = of or default
        if name is None:
            raise UserError(f"threshold: name the set whose threshold is meant: {', '.join(sets)}")
        if name not in sets:
            raise UserError(
                f"threshold={name}: neither a score such as 0.7 nor a set with a threshold. "
                + nearest(name, [each for each, fitted in sets.items() if fitted is not None])
            )
        value = sets[name]
        if value is None:
            raise UserError(
                f"threshold={name}: on its dev split no threshold beats a constant answer. {NO_THRESHOLD}"
            )
        return name, value

    @takes_peer_options
    def is_same(
        self,
        pairs: Iterable[tuple[str, str]] | tuple[str, str] | str | Iterable[str],
        second: str | Iterable[str] | None = None,
        *,
        threshold: float | str | None = None,
        **options: Any,
    ) -> Any:
        """Decide whether the two sentences of each pair mean the same: their `score` reaches the threshold.

        Args:
            pairs: As in `score`.
            second: As in `score`: is_same("怎么退货", "如何退货").
            threshold: A score, or the name of a set with a fitted threshold.
            options: As in `score`.

        Returns:
            Boolean array (pairs,). One bool for a single pair.

        Raises:
            UserError: As in `score` and `threshold`.

        Example:
            >>> from juzhen import SentenceEncoder
            >>> encoder = SentenceEncoder.load("builtin/mini_zh")
            >>> encoder.is_same([("怎么退货", "如何退货"), ("怎么退货", "今天天气很好")], threshold=0.8).tolist()
            [True, False]
        """
        if threshold is None or isinstance(threshold, str):
            try:
                limit = self.threshold(threshold)
            except UserError as error:
                if threshold is None or str(error).startswith("threshold"):
                    raise
                raise UserError(f"threshold={short(threshold, 40)}: {error}") from None
        else:
            limit = require_reachable("threshold", threshold, self)
        same = np.asarray(self.score(pairs, second, **options), dtype=np.float64) >= limit  # type: ignore[operator]
        return bool(same) if same.ndim == 0 else same
