"""Small trainings and their scores, row by row, so that two of them can be compared on the same rows."""

import hashlib
import json
import math
import time
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from juzhen.advice.target import MOST_TRAIN, Target, TrainingSet, with_rows
from juzhen.core.examples import NLI_GRADES, Examples, Kind
from juzhen.core.machine import describe_environment
from juzhen.core.result import RESULT_FILE, Result, Score
from juzhen.core.row_scores import ROWS_FILE, RowScores, SetRows
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.evaluation.run import evaluate
from juzhen.evaluation.scoring import Evaluation
from juzhen.evaluation.settings import EvaluationSettings
from juzhen.metrics.comparison import spearman_influence
from juzhen.metrics.correlation import spearman
from juzhen.training.fit import fit

OWN = "own rows"
"""What a recipe calls the rows of the target."""

BATCH_SIZE = 32


@dataclass(frozen=True)
class Recipe:
    """Sources of a training, in order.

    Args:
        stages: (source, rows), one after another. Empty: nothing is trained. A few own rows are seen several
            times, see `passes`.
        seed: Draws rows and batches.
    """

    stages: tuple[tuple[str, int], ...]
    seed: int

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.stages)

    def __str__(self) -> str:
        return " → ".join(self.sources) or "untrained"


@dataclass
class Trial:
    """A training that was made and scored.

    Args:
        recipe: Its sources.
        panel: Set → its score in points.
        seconds: Of training and scoring.
        folder: Its run folder.
        scores: "dev", and where no own row was trained on "all" → score of the target, then the influence of each
            row on it (see `measured`).
    """

    recipe: Recipe
    panel: dict[str, float]
    seconds: float
    folder: Path | None
    scores: dict[str, np.ndarray] = field(default_factory=dict)


def row_values(rows: SetRows, metric: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the inputs of a score.

    Args:
        rows: Scores of the rows of one set.
        metric: Main metric of the set.

    Returns:
        Score and gold value of each row for "spearman". Else the metric of each row, and None.
    """
    if metric != "spearman":
        return np.asarray(rows[metric], dtype=float), None
    gold = np.asarray(rows["gold"], dtype=float)
    if rows.kind == Kind.NLI_PAIR:
        gold = np.asarray(NLI_GRADES)[gold.astype(int)]
    return np.asarray(rows["score"], dtype=float), gold


def measured(
    values: Float[np.ndarray, " row"], gold: Float[np.ndarray, " row"] | None, scored: int
) -> Float[np.ndarray, " number"]:
    """Compute a score, then the influence of each row on it, in points: a mean, or Spearman's correlation.

    Scores of the first rows alone can so be subtracted from scores of all rows, row by row.

    Args:
        values: Of the first rows.
        gold: Their gold values. None: the score is the mean of the values.
        scored: Number of all rows. The influence of further ones is 0.

    Returns:
        Score and influences (1 + scored,). The influences have mean 0, and over all rows the error of the score.

    Example:
        >>> measured(np.array([0.1, 0.2, 0.3, 0.9]), np.array([0.0, 0.0, 1.0, 1.0]), 4)[0].round(1)
        np.float64(89.4)
    """
    if gold is None:
        score = float(np.nanmean(values))
        influence = np.nan_to_num(values - score)
    else:
        found = spearman(values, gold)
        score = found or 0.0
        influence = np.zeros(len(values)) if found is None else spearman_influence(values, gold)
    whole = np.zeros(1 + scored)
    whole[0], whole[1 : 1 + len(values)] = score, influence * scored / len(values)
    return 100 * whole


def passes(name: str, rows: int) -> int:
    """Return the number of times that a training sees the rows of a source.

    A few hundred own rows are too few steps for one pass.

    Args:
        name: Source. Only OWN is repeated.
        rows: Number of its rows.

    Returns:
        1, 2 or 3.
    """
    return 1 if name != OWN or rows > 3000 else 2 if rows > 1000 else 3


class TimeIsUpError(Exception):
    """A training would end, or is running, after the time that was given (`Trials.deadline`)."""


class Trials:
    """Makes trainings from one encoder, scores them on the target and on the panel, and keeps all of them.

    Args:
        encoder: Folder or built-in name of the encoder that each training begins with.
        target: The target.
        sources: Training sets to choose from.
        panel: Sets that must not suffer.
        folder: Run folders are written below it. None: they are not written.
        learning_rate: Peak learning rate. None: chosen by the size of the encoder.
        seed: Of evaluation.
    """

    def __init__(
        self,
        encoder: str,
        target: Target,
        sources: Sequence[TrainingSet],
        panel: Sequence[Examples] = (),
        *,
        folder: Path | None = None,
        learning_rate: float | None = None,
        seed: int = 42,
    ) -> None:
        self.encoder, self.target, self.panel, self.folder, self.seed = encoder, target, panel, folder, seed
        self.sources = {source.name: source for source in sources}
        if target.own is not None:
            self.sources[OWN] = target.own
        # Rows for sources alone are a set of their own, so that a table never mixes them with those that own rows have.
        self.dev, self.rest = target.scored, list[Examples]()
        if not target.is_dev.all():
            self.dev = with_rows(target.scored, np.flatnonzero(target.is_dev))
            others = with_rows(target.scored, np.flatnonzero(~target.is_dev))
            self.rest = [replace(others, name=f"{target.name}_for_sources")]
        self.base = SentenceEncoder.load(encoder).eval()
        # Small encoders take ten times the rate that is customary for a base model (conf/backbone).
        usual = 5e-4 if self.base.dim <= 256 else 5e-5 if self.base.dim <= 384 else 2e-5
        self.learning_rate = usual if learning_rate is None else learning_rate
        self.made: list[Trial] = []
        self._digests: dict[str, str] = {}
        self.num_reused, self.seconds_per_row, self.scoring_seconds = 0, 0.0, 0.0
        self.deadline = math.inf

    def make(self, recipe: Recipe, *, with_panel: bool = False) -> Trial:
        """Train by a recipe and score the result.

        Args:
            recipe: Its sources and seed.
            with_panel: Score the panel too.

        Returns:
            The trial. A finished one is returned, also of an earlier call.
        """
        if (known := self._made(recipe, with_panel)) is not None:
            return known
        if (folder := self._finished(recipe, with_panel)) is not None:
            result, rows = Result.read(folder), RowScores.read(folder).sets
            trial = self._trial(recipe, result.scores, rows, has_panel=folder == self._place(recipe, True))
            trial.folder, trial.seconds = folder, float(result.training["train_seconds"])
            self._note_speed(
                result.training["rows_seen"], trial.seconds, result.training["score_seconds"], trial
            )
            self.num_reused += 1
        else:
            trial = self._trained(recipe, with_panel)
        self.made = [other for other in self.made if other.recipe != recipe] + [trial]
        return trial

    def knows(self, recipe: Recipe, *, with_panel: bool = False) -> bool:
        """True if a trial was made, in this call or in an earlier one with the same encoder, data and settings.

        Args:
            recipe: Its sources and seed.
            with_panel: The panel must have been scored too.

        Returns:
            False for a trial that must still be trained or scored.
        """
        return self._made(recipe, with_panel) is not None or self._finished(recipe, with_panel) is not None

    def _made(self, recipe: Recipe, with_panel: bool) -> Trial | None:
        for trial in self.made:
            if trial.recipe == recipe and (trial.panel or not with_panel or not self.panel):
                return trial
        return None

    def _finished(self, recipe: Recipe, with_panel: bool) -> Path | None:
        """Run folder of an earlier call. One with scores of the panel is preferred."""
        places = [self._place(recipe, has_panel) for has_panel in ((True,) if with_panel else (True, False))]
        return next((each for each in places if each is not None and (each / RESULT_FILE).is_file()), None)

    def _trained(self, recipe: Recipe, with_panel: bool) -> Trial:
        since = time.monotonic()
        encoder = deepcopy(self.base)
        if self.made:
            encoder.register_forward_pre_hook(self._stop_in_time)
        torch.manual_seed(recipe.seed)
        for number, (name, count) in enumerate(recipe.stages):
            source = self.sources[name]
            rows = source.rows
            if count < len(rows):
                draw = np.random.default_rng(recipe.seed)
                rows = with_rows(rows, np.sort(draw.choice(len(rows), count, replace=False)))
            fit(
                encoder,
                rows,
                loss=source.loss,
                epochs=passes(name, len(rows)) * max(count / len(rows), 1.0),
                batch_size=BATCH_SIZE,
                learning_rate=self.learning_rate,
                seed=recipe.seed + number,
                progress=False,
            )
        trained = time.monotonic()
        parts = [self.dev, *(() if OWN in recipe.sources else self.rest)]
        scored = self.scored(encoder, [*parts, *(self.panel if with_panel else ())])
        trial = self._trial(recipe, scored.scores, scored.rows, has_panel=with_panel)
        ended = time.monotonic()
        trial.seconds = trained - since
        self._note_speed(self._rows_seen(recipe), trial.seconds, ended - trained, trial)
        if self.folder is not None:
            trial.folder = self._written(trial, scored, ended - trained, has_panel=with_panel)
        return trial

    def _stop_in_time(self, *_: object) -> None:
        if time.monotonic() > self.deadline:
            raise TimeIsUpError

    def _trial(
        self, recipe: Recipe, scores: Mapping[str, Score], rows: Mapping[str, SetRows], *, has_panel: bool
    ) -> Trial:
        seen_own = OWN in recipe.sources
        parts = [
            row_values(rows[f"{part.split}/{part.name}"], self.target.metric)
            for part in (self.dev, *(() if seen_own else self.rest))
        ]
        values = np.concatenate([part[0] for part in parts])
        golds = [part[1] for part in parts if part[1] is not None]
        gold = np.concatenate(golds) if golds else None
        total, num_dev = self.target.num_scored, len(parts[0][0])
        measures = {"dev": measured(values[:num_dev], None if gold is None else gold[:num_dev], total)}
        if not seen_own:
            measures["all"] = measured(values, gold, total)
        panel = {
            each.name: 100 * (scores[f"{each.split}/{each.name}/spearman"].value or 0.0)
            for each in (self.panel if has_panel else ())
        }
        return Trial(recipe, panel, 0.0, None, measures)

    def _note_speed(self, rows_seen: int, trained: float, scored: float, trial: Trial) -> None:
        if rows_seen:
            self.seconds_per_row = trained / rows_seen
        others = sum(map(len, self.panel)) if trial.panel else 0
        self.scoring_seconds = len(self.target.scored) / (len(self.target.scored) + others) * scored

    def _rows_seen(self, recipe: Recipe) -> int:
        kept = {name: len(self.sources[name].rows) for name in recipe.sources}
        return sum(passes(name, min(count, kept[name])) * count for name, count in recipe.stages)

    def scored(self, encoder: SentenceEncoder, sets: Sequence[Examples]) -> Evaluation:
        """Score an encoder without intervals.

        Args:
            encoder: The encoder.
            sets: Rows with gold values.

        Returns:
            Scores of the sets and of their rows.
        """
        settings = EvaluationSettings(seed=self.seed)
        settings.evaluation = replace(settings.evaluation, bootstrap_samples=0)
        return evaluate(encoder, list(sets), settings=settings)

    def _names(self, recipe: Recipe) -> list[str]:
        return [self.target.name if name == OWN else name for name in recipe.sources]

    def _config(self, recipe: Recipe) -> dict[str, Any]:
        names = self._names(recipe)
        used = {name: self.sources[source] for name, source in zip(names, recipe.sources, strict=True)}
        counts = dict(zip(names, (count for _, count in recipe.stages), strict=True))
        described = {
            name: asdict(source.config) | {"limit": min(counts[name], MOST_TRAIN)}
            for name, source in used.items()
            if source.config is not None
        }
        config = {
            "model": {
                "_target_": "lightning_modules.biencoder.BiEncoder",
                "name": "biencoder",
                "score": None,
            },
            "backbone": {"name": Path(self.encoder).name.partition("@")[0], "path": self.encoder},
            "loss": {"name": "+".join(dict.fromkeys(source.loss for source in used.values())) or "none"},
            "schedule": {"name": "mix", "order": None, "stages": {}, "sets": {}},
            "dataset": described,
            "evaluate": {self.target.name: asdict(self.target.config)},
            "training": {"duration": f"{self._rows_seen(recipe)} examples", "batch_size": BATCH_SIZE},
            "optimizer": {"lr": self.learning_rate},
            "evaluation": {"splits": ["dev"], "backend": "torch"},
            "seed": recipe.seed,
        }
        return dict(json.loads(json.dumps(config, default=str)))

    def _place(self, recipe: Recipe, has_panel: bool) -> Path | None:
        """Run folder of a recipe. Its key changes with everything that decides a number: weights, rows, settings."""
        if self.folder is None:
            return None
        panel = [self._digest(each) for each in self.panel] if has_panel else []
        parts = [self.dev, *(() if OWN in recipe.sources else self.rest)]
        decides = [
            self._digest(self.base),
            [self._digest(part) for part in parts],
            [[self._digest(self.sources[name].rows), self.sources[name].loss] for name in recipe.sources],
            [recipe.stages, recipe.seed, self.learning_rate, BATCH_SIZE, self.seed, panel],
        ]
        key = hashlib.sha256(json.dumps(decides).encode()).hexdigest()[:8]
        name = "-".join(self._names(recipe)) or "untrained"
        return self.folder / f"{name[:100]}-{self._rows_seen(recipe)}-s{recipe.seed}-{key}"

    def _digest(self, content: Examples | SentenceEncoder) -> str:
        """Digest of weights, or of rows with their texts. Each is computed once."""
        name = str(id(content))
        if name not in self._digests:
            digest = hashlib.sha256()
            if isinstance(content, Examples):
                digest.update("\n".join([content.name, str(content.kind), *content.sentences]).encode())
                arrays = [*content.columns.values(), content.targets, content.documents]
            else:
                arrays = [values.detach().cpu().float().numpy() for values in content.state_dict().values()]
            for values in arrays:
                digest.update(b"" if values is None else np.ascontiguousarray(values).tobytes())
            self._digests[name] = digest.hexdigest()
        return self._digests[name]

    def _written(self, trial: Trial, scored: Evaluation, score_seconds: float, *, has_panel: bool) -> Path:
        """Write the result and the scores of single rows as a run folder that `juzhen table` and `compare` read."""
        recipe, names, folder = trial.recipe, self._names(trial.recipe), self._place(trial.recipe, has_panel)
        assert folder is not None
        result = Result(
            name=folder.name[:-9],
            key=folder.name[-8:],
            trained_on=names,
            scores=dict(scored.scores),
            config=self._config(recipe),
            data={
                f"train/{each}": {"rows": count, "kind": str(self.sources[source].rows.kind)}
                for each, (source, count) in zip(names, recipe.stages, strict=True)
            },
            training={
                "rows_seen": self._rows_seen(recipe),
                "train_seconds": round(trial.seconds, 2),
                "score_seconds": round(score_seconds, 2),
            },
            environment=describe_environment() | {"device": "cpu"},
            seed=recipe.seed,
            finished_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        folder.mkdir(parents=True, exist_ok=True)
        RowScores(sets=dict(scored.rows)).write(folder / ROWS_FILE)
        result.write(folder)  # last: a folder with a result is finished
        return folder
