"""Merge encoders with given weights, or with the weights that score best on dev."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from scipy.optimize import minimize

from juzhen.core.columns import as_column, require_finite_weights
from juzhen.core.errors import UserError, require_choice, require_number
from juzhen.core.kinds import main_metric_keys
from juzhen.core.text import number_or_nan
from juzhen.data.loading import load_job_data
from juzhen.data.spec import configured_set
from juzhen.encoders.base_weights import merged
from juzhen.encoders.peer_options import takes_peer_options
from juzhen.evaluation.run import EvaluationRun
from juzhen.evaluation.settings import EvaluationSettings
from juzhen.families.registry import open_weights
from juzhen.merging.methods import METHODS

Score = Callable[[Sequence[float]], float]
"""Weights → what the merged model reaches on dev, higher is better."""

StateDict = Mapping[str, torch.Tensor]

GRID = 11
"""Shares that are tried of two models: 0, 0.1, … 1."""


class DevScore:
    """Mean over dev sets of each set's main metric, such as Spearman's correlation.

    Args:
        encoder: Scored with its current weights.
        settings: Sets in `evaluate` and where to find them.

    Raises:
        UserError: A set without a dev split.
    """

    def __init__(self, encoder: Any, settings: EvaluationSettings) -> None:
        self._pass = EvaluationRun(encoder, settings)
        data = load_job_data(settings, {}, unscored=self._pass.evaluator.unscored)
        self._sets = data.evaluation
        self.names = [dataset.name for dataset in data.evaluation]
        missing = [name for name in settings.evaluate if name not in self.names]
        if missing:
            raise UserError(
                f"weights are chosen on dev splits, and {', '.join(missing)} has none below "
                f"{settings.data_dir}. Name sets that have one"
            )

    def __call__(self) -> float:
        evaluation, _ = self._pass(self._sets, seen={})
        values = [evaluation.scores[key].value for key in main_metric_keys(evaluation.scores)]
        return float(np.mean([-1.0 if value is None else value for value in values]))


class Tried:
    """Caches scores: each mixture is measured once, at most `trials` in all.

    Args:
        score: Measures a mixture.
        trials: Maximal number of measurements.
    """

    def __init__(self, score: Score, trials: int) -> None:
        self._score, self._trials = score, trials
        self.values: dict[tuple[float, ...], float] = {}

    def __call__(self, weights: Sequence[float] | np.ndarray) -> float:
        key = tuple(round(float(weight), 4) for weight in weights)
        if key not in self.values:
            if len(self.values) >= self._trials:
                return -np.inf
            self.values[key] = self._score(key)
        return self.values[key]

    @property
    def best(self) -> tuple[float, ...]:
        return max(self.values, key=self.values.__getitem__)  # the first of equals


def chosen_weights(score: Score, count: int, *, method: str, trials: int) -> Tried:
    """Search the weights with the best dev score: equal weights, each model alone, then a search.

    Shares of two models are tried on a grid. Shares of more models, and factors, are searched by Nelder and
    Mead (1965), starting with each model alone.

    Args:
        score: Weights → mean dev score, higher is better.
        count: Number of models.
        method: Name of METHODS.
        trials: Number of mixtures at most.

    Returns:
        All that was tried, with the scores.
    """
    if method == "greedy_soup":
        return greedy_soup(score, count)
    tried, alone = Tried(score, trials), np.eye(count)
    is_sum = METHODS[method].is_sum
    tried(np.full(count, 1.0 if is_sum else 1 / count))
    for weights in alone:
        tried(weights)
    if count == 2 and not is_sum:
        for share in np.linspace(0, 1, GRID):
            tried([1 - share, share])
        return tried
    free = count if is_sum else count - 1  # the last share is what is left of 1

    def weights_of(point: np.ndarray) -> np.ndarray:
        point = np.clip(point, 0, None)
        if is_sum:
            return point
        whole = np.append(point, max(0.0, 1 - point.sum()))
        return whole / whole.sum()

    start = np.vstack([alone[:free, :free], np.full(free, 1.0 if is_sum else 1 / count)])
    minimize(
        lambda point: -tried(weights_of(point)) if weights_of(point).any() else np.inf,
        start[-1],
        method="Nelder-Mead",
        options={"initial_simplex": start, "maxfev": trials, "xatol": 0.01, "fatol": 1e-4},
    )
    return tried


def greedy_soup(score: Score, count: int) -> Tried:
    """Add models from best to worst. A model stays in the mean if the score does not drop.

    (Wortsman et al. 2022, https://arxiv.org/abs/2203.05482, recipe 1.)

    Args:
        score: Weights → mean dev score, higher is better.
        count: Number of models.

    Returns:
        All that was tried, the chosen mixture first.
    """
    tried = Tried(score, 2 * count)
    alone = [tried(weights) for weights in np.eye(count)]
    order = sorted(range(count), key=lambda number: -alone[number])
    soup, reached = [order[0]], alone[order[0]]
    for number in order[1:]:
        value = tried(_mean_of([*soup, number], count))
        if value >= reached:
            soup, reached = [*soup, number], value
    best = tuple(round(float(weight), 4) for weight in _mean_of(soup, count))
    tried.values = {best: tried.values.pop(best)} | tried.values  # of equals the larger soup
    return tried


def _mean_of(chosen: Sequence[int], count: int) -> list[float]:
    return [1 / len(chosen) if number in chosen else 0.0 for number in range(count)]


EXACTLY = ("pooling", "normalize", "max_length", "prompts", "templates")
"""What encoders of texts must have in common."""

OF_PAIRS = ("outputs", "segments", "symmetric", "grades")
"""The same of cross-encoders, beside what holds of their transformers."""


class Models:
    """Loaded encoders of one family in float32, and the base of their task vectors.

    All are in memory: 4 bytes per parameter of each model and of the result, plus the needs of a method for one tensor.

    Args:
        encoders: The loaded encoders.
        names: Names for messages.
        base: The encoder that the models started from.
        base_name: Name of the base for messages.

    Raises:
        UserError: Encoders that cannot be merged. Nothing has been computed then.
    """

    def __init__(
        self, encoders: Sequence[Any], names: Sequence[str], base: Any = None, base_name: str = ""
    ) -> None:
        self.names = list(names)
        encoders = [
            merged(encoder) for encoder in encoders
        ]  # the mean of two adapters is not that of their products
        base = None if base is None else merged(base)
        first = encoders[0]
        for encoder, name in zip(encoders[1:], names[1:], strict=True):
            _require_alike(first, encoder, f"{names[0]} and {name}")
        if base is not None:
            _require_same_texts(first, base, f"{names[0]} and the base {base_name}")
            _require_same_shapes(first, base, names[0], base_name)
        for encoder, name in zip([*encoders, base], [*names, base_name], strict=True):
            if encoder is not None and getattr(encoder.inner.backbone.config, "quantization_config", None):
                raise UserError(f"{name}: its weights are quantised. Merge models before they are")
        self._states = [encoder.state_dict() for encoder in encoders]
        self._base = None if base is None else base.state_dict()
        _require_different(self._states, self.names, self._base, base_name)
        self.encoder = copy.deepcopy(first).eval()
        self.licences = [encoder.inner.licence for encoder in encoders]
        if len({*self.licences}) > 1:
            vars(self.encoder.inner)["licence"] = None  # the head of a card names one; the merge lists all

    def __len__(self) -> int:
        return len(self._states)

    @torch.no_grad()
    def merge(self, method: str, weights: Sequence[float], *, density: float, scale: float, seed: int) -> Any:
        """Return `self.encoder` with merged weights. Each call overwrites the last.

        Args:
            method: A name of METHODS.
            weights: One per model.
            density, scale, seed: As in `juzhen.merge`.

        Returns:
            The encoder, which is the same object in each call.

        Raises:
            UserError: The method cannot merge these weights, or the result is not finite.
        """
        how, target = METHODS[method], self.encoder.state_dict()
        numbers = {"density": density, "scale": scale, "generator": torch.Generator().manual_seed(seed)}
        for name, values in target.items():
            if not values.is_floating_point():
                continue  # positions of tokens, equal in all
            tensors = [state[name].float() for state in self._states]
            base = self._base[name].float() if how.of_vectors and self._base is not None else None
            try:
                values.copy_(how.merge(tensors, base, weights, **numbers))
            except ValueError as error:
                raise UserError(
                    f"{method}: {name}: {error}. Choose other weights or another method"
                ) from error
            require_finite_weights(
                [(name, values)], method, remedy="Choose other weights, another scale or other models"
            )
        return self.encoder


def _require_alike(first: Any, other: Any, both: str) -> None:
    if first.family != other.family:
        raise UserError(
            f"{both}: one is a {_words(first.family)} and one a {_words(other.family)}. Merge one kind"
        )
    _require_same_texts(first, other, both)
    sides = [(first.inner, other.inner, key) for key in EXACTLY] + [(first, other, key) for key in OF_PAIRS]
    for one, two, key in sides:
        values = [getattr(side, key, None) for side in (one, two)]
        if values[0] != values[1]:
            raise UserError(
                f"{both}: {key} is {values[0]!r} and {values[1]!r}. Only equal ones can be merged"
            )
    _require_same_shapes(first, other, *both.split(" and ", 1))


def _require_same_texts(first: Any, other: Any, both: str) -> None:
    """Raise UserError if models tokenize the same text differently."""
    one, two = (encoder.inner.tokenizer for encoder in (first, other))
    same = one.get_vocab() == two.get_vocab() and one.special_tokens_map == two.special_tokens_map
    if same and one.is_fast and two.is_fast:
        steps = [
            [str(step) for step in (part.backend_tokenizer.normalizer, part.backend_tokenizer.pre_tokenizer)]
            for part in (one, two)
        ]
        same = steps[0] == steps[1]
    if not same:
        raise UserError(
            f"{both}: their tokenizers differ ({len(one):,} and {len(two):,} tokens). Only encoders that read the same "
            "tokens can be merged"
        )


def _require_same_shapes(first: Any, other: Any, name: str, other_name: str) -> None:
    shapes = [
        {key: tuple(values.shape) for key, values in model.state_dict().items()} for model in (first, other)
    ]
    for key in [*shapes[0], *shapes[1]]:
        one, two = (side.get(key) for side in shapes)
        if one != two:
            raise UserError(
                f"{name} and {other_name}: {key} is {_shape(one)} and {_shape(two)}. Merge models of equal "
                "shapes"
            )


def _require_different(
    states: Sequence[StateDict], names: Sequence[str], base: StateDict | None, base_name: str
) -> None:
    """Raise UserError for two models with the same weights, or a model with those of the base."""
    for number, state in enumerate(states):
        for other, name in zip(states[:number], names, strict=False):
            if _are_equal(state, other):
                both = name if name == names[number] else f"{name} and {names[number]}"
                raise UserError(
                    f"{both}: the same weights twice, which a merge would not change. Name each model once"
                )
        if base is not None and _are_equal(state, base):
            raise UserError(
                f"{names[number]}: has the weights of the base {base_name}, so there is no training to add. Leave it "
                "out, or name another base"
            )


def _are_equal(one: StateDict, two: StateDict) -> bool:
    return one.keys() == two.keys() and all(torch.equal(values, two[key]) for key, values in one.items())


def _shape(shape: tuple[int, ...] | None) -> str:
    return "not there" if shape is None else " × ".join(map(str, shape)) or "a number"


def _words(family: str) -> str:
    return family.replace("_", "-")


DEV = "dev"
DENSITY, TRIALS = 0.5, 30
GREEDY = "greedy_soup"

Weights = Sequence[float] | Literal["dev"] | None


@dataclass(frozen=True)
class MergeRecipe:
    """Recipe of a merge.

    Args:
        method, weights, density, scale, seed, trials: As of `merge`.

    Raises:
        UserError: A number outside its limits.
    """

    method: str = "linear"
    weights: Weights = None
    density: float = DENSITY
    scale: float = 1.0
    seed: int = 0
    trials: int = TRIALS

    def __post_init__(self) -> None:
        require_choice("method", self.method, METHODS)
        require_number("density", self.density, 0, 1, open_low=True)
        require_number("scale", self.scale, -1e4, 1e4)

    @property
    def needs_base(self) -> bool:
        return METHODS[self.method].of_vectors

    @property
    def needs_dev(self) -> bool:
        return self.weights == DEV or self.method == GREEDY

    def check(self, count: int, *, base: Any, sets: Sequence[str], finds_base: bool = False) -> None:
        """Check that models, base, sets and numbers suit the method.

        Args:
            count: Number of models.
            base: The common start, or None.
            sets: Names of the sets that choose weights.
            finds_base: True if a missing base is looked up in the runs.

        Raises:
            UserError: One of them does not suit the method.
        """
        method = METHODS[self.method]
        least, most = method.models
        if count < least or (most is not None and count > most):
            expected = f"{least}" if least == most else f"at least {least}"
            given = "1 model" if count == 1 else f"{count} models"
            raise UserError(f"method={self.method}: {given} given. Give {expected}")
        if method.of_vectors and base is None and not finds_base:
            raise UserError(
                f"{self.method} counts from the encoder that the models started from. Name it as the base"
            )
        finds_weights = not method.is_weighted or (self.method == GREEDY and self.weights != DEV)
        unread = {
            "base": base is not None and not method.of_vectors,
            "scale": self.scale != 1 and not method.of_vectors,
            "density": self.density != DENSITY and "density" not in method.takes,
            "trials (without weights=dev)": self.trials != TRIALS and not self.needs_dev,
            "dataset (without weights=dev)": bool(sets) and not self.needs_dev,
            "weights": self.weights is not None and finds_weights,
        }
        if name := next(filter(unread.get, unread), None):
            raise UserError(f"{name}: not read by method={self.method}. Leave it out")
        if self.needs_dev or self.weights is None:
            return
        numbers = [number_or_nan(each) if isinstance(each, str) else each for each in self.weights]
        if len(numbers) != count:
            raise UserError(f"weights: {len(numbers)} for {count} models. Give one for each")
        for number in numbers:
            require_number("weights", number, -1e4, 1e4)
        if not any(numbers):
            raise UserError("weights: expected numbers that are not all 0")
        if not method.is_sum and (min(numbers) < 0):
            raise UserError(f"weights: {self.method} takes shares, which are not negative")


@dataclass
class Merged:
    """A merged encoder.

    Args:
        encoder: The encoder with merged weights.
        weights: One per model.
        tried: Weights measured on dev → score. {} if none were.
        sets: Sets used to choose the weights.
        licences: Licences of the models, None if unknown.
    """

    encoder: Any
    weights: list[float]
    licences: list[str | None]
    tried: dict[tuple[float, ...], float] = field(default_factory=dict)
    sets: list[str] = field(default_factory=list)


def merge_models(models: Models, recipe: MergeRecipe, settings: EvaluationSettings | None = None) -> Merged:
    """Merge by a checked recipe.

    Args:
        models: Loaded models.
        recipe: Method and numbers.
        settings: The sets that choose weights, or None.

    Returns:
        The encoder in evaluation mode, its weights, and what was tried.

    Raises:
        UserError: The recipe needs sets and none is given, or the weights cannot be merged.
    """
    numbers: dict[str, Any] = {"density": recipe.density, "scale": recipe.scale, "seed": recipe.seed}
    count = len(models)
    if not recipe.needs_dev or not METHODS[recipe.method].is_weighted:
        is_sum = METHODS[recipe.method].is_sum
        given = [1.0 if is_sum else 1 / count] * count if recipe.weights is None else recipe.weights
        weights = [float(weight) for weight in given]
        return Merged(models.merge(recipe.method, weights, **numbers), weights, models.licences)
    if settings is None or not settings.evaluate:
        raise UserError("weights are chosen on dev sets. Name the sets")
    on_dev = DevScore(models.encoder, settings)

    def score(weights: Sequence[float]) -> float:
        models.merge(recipe.method, weights, **numbers)
        return on_dev()

    tried = chosen_weights(score, count, method=recipe.method, trials=recipe.trials)
    weights = list(tried.best)
    encoder = models.merge(recipe.method, weights, **numbers)
    return Merged(encoder, weights, models.licences, tried.values, on_dev.names)


@takes_peer_options
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
    """Merge bi-encoders or cross-encoders that started from the same weights into one.

    All models are in memory: 4 bytes per parameter of each. The merged encoder is in evaluation mode.

    Args:
        models: Runs, folders, built-in names, or loaded encoders.
        method: linear, slerp (two models), multislerp, task_arithmetic, ties, dare, model_stock or greedy_soup.
        weights: One per model: shares, normalised to sum to 1, or factors for task_arithmetic and dare. None: equal
            shares, factors of 1. "dev": the best weights on the dev splits of `dataset`.
        base: The encoder that the models started from, for task_arithmetic, ties, dare and model_stock.
        density: Share of each task vector that is kept, for ties and dare.
        scale: Factor of the merged task vector.
        seed: Seed of dare.
        dataset: Sets that choose the weights, in `data_dir` or built-in.
        data_dir: Folder of sets that are not built in.
        trials: Maximal number of mixtures measured on dev.

    Returns:
        The merged encoder. `encoder.save(folder)` writes it.

    Raises:
        UserError: Models of different family, tokenizer, pooling, prompt or shape, quantised ones, or the same weights
            twice. Nothing has been computed then.

    Example:
        >>> merge(["runs/a", "runs/b"], method="slerp", weights=[0.3, 0.7]).save("merged")  # doctest: +SKIP
    """
    models = as_column(models, "models")
    weights = weights if weights is None or isinstance(weights, str) else as_column(weights, "weights")
    dataset = [dataset] if isinstance(dataset, str) else dataset
    recipe = MergeRecipe(method, weights, density, scale, seed, trials)
    recipe.check(len(models), base=base, sets=dataset)
    opened = opened_models(models, base if recipe.needs_base else None)
    settings = None
    if recipe.needs_dev:
        settings = dev_settings([configured_set(name) for name in dataset], data_dir=data_dir)
    return merge_models(opened, recipe, settings).encoder


def opened_models(models: Sequence[Any], base: Any, base_name: str = "") -> Models:
    """Load the models and the base.

    Args:
        models: Runs, folders, built-in names, or loaded encoders.
        base: The same, or None.
        base_name: Name of the base for messages.

    Returns:
        The loaded models, checked to fit together.

    Raises:
        UserError: As of `Models`.
    """
    names = [
        str(model) if isinstance(model, str | Path) else f"model {n}"
        for n, model in enumerate(models, start=1)
    ]
    base_name = base_name or (str(base) if isinstance(base, str | Path) else "that is given")
    encoders = [open_weights(model) for model in models]
    return Models(encoders, names, None if base is None else open_weights(base), base_name)


def dev_settings(sets: Sequence[Any], **where: Any) -> EvaluationSettings:
    """Return settings that score the dev splits of some sets, without intervals.

    Args:
        sets: Descriptions of sets.
        **where: Other fields of the settings, with `data_dir`.

    Returns:
        Settings for `DevScore`.
    """
    settings = EvaluationSettings(**where | {"data_dir": str(where["data_dir"])})
    settings.evaluation.splits, settings.evaluation.bootstrap_samples = ["dev"], 0
    settings.evaluate = {each.name: each for each in sets}
    return settings
