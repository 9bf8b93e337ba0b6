"""`juzhen.merge`: one encoder of several, with given weights or those that do best on dev."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from juzhen.core.errors import UserError, require_choice, require_number
from juzhen.data.spec import configured_set
from juzhen.evaluation.settings import EvaluationSettings
from juzhen.families.registry import open_encoder
from juzhen.merging.choosing import DevScore, chosen_weights
from juzhen.merging.methods import METHODS
from juzhen.merging.models import Models

DEV = "dev"
DENSITY, TRIALS = 0.5, 30
GREEDY = "greedy_soup"

Weights = Sequence[float] | Literal["dev"] | None


@dataclass(frozen=True)
class Recipe:
    """How models are merged; numbers as of `merge`. Raises UserError for numbers that make no sense."""

    method: str = "linear"
    weights: Weights = None
    density: float = DENSITY
    scale: float = 1.0
    seed: int = 0
    trials: int = TRIALS

    def __post_init__(self) -> None:
        require_choice("method", self.method, METHODS)
        require_number("density", self.density, 0, 1, open_low=True)
        require_number("scale", self.scale, -math.inf)

    @property
    def needs_base(self) -> bool:
        return METHODS[self.method].of_vectors

    @property
    def needs_dev(self) -> bool:
        return self.weights == DEV or self.method == GREEDY

    def check(self, count: int, *, has_base: bool) -> None:
        """Raises UserError for a number of models, a base or weights that do not suit the method."""
        method = METHODS[self.method]
        least, most = method.models
        if count < least or (most is not None and count > most):
            expected = f"{least}" if least == most else f"at least {least}"
            raise UserError(f"{self.method}: {count} models, expected {expected}")
        if method.of_vectors and not has_base:
            raise UserError(
                f"{self.method} counts from the encoder that the models started from; name it as the base"
            )
        if self.needs_dev or self.weights is None:
            return
        if not method.is_weighted:
            raise UserError(f"{self.method} finds its weights itself; leave them out")
        numbers = [float(weight) for weight in self.weights]
        if len(numbers) != count:
            raise UserError(f"weights: {len(numbers)} for {count} models; give one for each")
        if not all(map(math.isfinite, numbers)) or not any(numbers):
            raise UserError("weights: expected finite numbers that are not all 0")
        if not method.is_sum and (min(numbers) < 0):
            raise UserError(f"weights: {self.method} takes shares, which are not negative")


@dataclass
class Merged:
    """encoder   with the merged weights
    weights   one for each model
    tried     weights that were measured on dev → the value there; {} where none were
    sets      that the weights were chosen on
    licences  of the models, None where one names none
    """

    encoder: Any
    weights: list[float]
    licences: list[str | None]
    tried: dict[tuple[float, ...], float] = field(default_factory=dict)
    sets: list[str] = field(default_factory=list)


def merge_models(models: Models, recipe: Recipe, settings: EvaluationSettings | None = None) -> Merged:
    """The merge that a recipe describes, which `Recipe.check` has seen. settings: of the sets to choose weights on."""
    numbers: dict[str, Any] = {"density": recipe.density, "scale": recipe.scale, "seed": recipe.seed}
    count = len(models)
    if not recipe.needs_dev or not METHODS[recipe.method].is_weighted:
        is_sum = METHODS[recipe.method].is_sum
        given = [1.0 if is_sum else 1 / count] * count if recipe.weights is None else recipe.weights
        weights = [float(weight) for weight in given]
        return Merged(models.merge(recipe.method, weights, **numbers), weights, models.licences)
    if settings is None or not settings.evaluate:
        raise UserError("weights are chosen on dev sets; name the sets")
    on_dev = DevScore(models.encoder, settings)

    def score(weights: Sequence[float]) -> float:
        models.merge(recipe.method, weights, **numbers)
        return on_dev()

    tried = chosen_weights(score, count, method=recipe.method, trials=recipe.trials)
    weights = list(tried.best)
    encoder = models.merge(recipe.method, weights, **numbers)
    return Merged(encoder, weights, models.licences, tried.values, on_dev.names)


def merge(
    models: Sequence[str | Path | Any],
    *,
    method: str = "linear",
    weights: Weights = None,
    base: str | Path | Any = None,
    density: float = DENSITY,
    scale: float = 1.0,
    seed: int = 0,
    dataset: Sequence[str] = (),
    data_dir: str | Path = "data",
    trials: int = TRIALS,
) -> Any:
    """One encoder of several that started from the same weights: bi-encoders, or cross-encoders.

    models   runs, folders, built-in names, or loaded encoders
    method   linear · slerp (two models) · multislerp · task_arithmetic · ties · dare · model_stock · greedy_soup
    weights  one for each model: shares, which are made to sum to 1, and for task_arithmetic and dare factors; None:
             equal ones, factors 1; "dev": those that do best on the dev splits of `dataset`
    base     what the models started from, for task_arithmetic, ties, dare and model_stock, which count from it
    density  share of what training added that stays, for ties and dare
    scale    factor of what is added to the base
    seed     of what dare draws
    dataset  sets to choose weights on, of `data_dir`, or built-in
    trials   mixtures that are measured on dev at most

    All models are in memory at once: 4 bytes for each of their numbers. The merged encoder is in evaluation mode, and
    `encoder.save(folder)` writes it. Raises UserError, before anything is computed, for models of another family,
    tokenizer, pooling, prompt or shape, and for quantised ones.

    >>> merge(["runs/a", "runs/b"], method="slerp", weights=[0.3, 0.7]).save("merged")  # doctest: +SKIP
    """
    recipe = Recipe(method, weights, density, scale, seed, trials)
    models = list(models)
    recipe.check(len(models), has_base=base is not None)
    opened = opened_models(models, base if recipe.needs_base else None)
    settings = None
    if recipe.needs_dev:
        settings = dev_settings([configured_set(name) for name in dataset], data_dir=data_dir)
    return merge_models(opened, recipe, settings).encoder


def opened_models(models: Sequence[Any], base: Any, base_name: str = "") -> Models:
    """The models and the base, loaded; None: without a base. Errors: as `Models`."""
    names = [
        str(model) if isinstance(model, str | Path) else f"model {n}"
        for n, model in enumerate(models, start=1)
    ]
    base_name = base_name or (str(base) if isinstance(base, str | Path) else "that is given")
    encoders = [open_encoder(model) for model in models]
    return Models(encoders, names, None if base is None else open_encoder(base), base_name)


def dev_settings(sets: Sequence[Any], **where: Any) -> EvaluationSettings:
    """Dev splits of some sets, without intervals. where: other fields of the settings."""
    settings = EvaluationSettings(**where | {"data_dir": str(where["data_dir"])})
    settings.evaluation.splits, settings.evaluation.bootstrap_samples = ["dev"], 0
    settings.evaluate = {each.name: each for each in sets}
    return settings
