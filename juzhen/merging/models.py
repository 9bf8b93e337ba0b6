"""Encoders of one start: what they must agree in to be merged, and the encoder that comes of it."""

import copy
from collections.abc import Sequence
from typing import Any

import torch

from juzhen.core.columns import require_finite_weights
from juzhen.core.errors import UserError
from juzhen.encoders.frozen import merged
from juzhen.merging.methods import METHODS

EXACTLY = ("pooling", "normalize", "max_length", "prompts", "templates")
"""What encoders of texts must have in common."""

OF_PAIRS = ("outputs", "segments", "symmetric", "grades")
"""The same of cross-encoders, beside what holds of their transformers."""


class Models:
    """Loaded encoders of one family, in float32, and the base that their task vectors are counted from.

    names  what messages call them
    base   an encoder of the same shapes; None: there is none

    All are in memory: 4 bytes for each number of each of them and of the merged one, and of one tensor at a time what a
    method needs. Raises UserError, before anything is computed, for encoders that do not belong together.
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
                raise UserError(f"{name}: its weights are quantised; merge models before they are")
        self._states = [encoder.state_dict() for encoder in encoders]
        self._base = None if base is None else base.state_dict()
        self.encoder = copy.deepcopy(first).eval()
        self.licences = [encoder.inner.licence for encoder in encoders]
        if len({*self.licences}) > 1:
            vars(self.encoder.inner)["licence"] = None  # the head of a card names one; the merge lists all

    def __len__(self) -> int:
        return len(self._states)

    @torch.no_grad()
    def merge(self, method: str, weights: Sequence[float], *, density: float, scale: float, seed: int) -> Any:
        """`self.encoder` with the merged weights; each call overwrites those of the one before.

        weights  one for each model; density, scale, seed: as of `juzhen.merge`
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
                    f"{method}: {name}: {error}; choose other weights or another method"
                ) from error
            require_finite_weights(
                [(name, values)], method, remedy="Choose other weights, another scale or other models"
            )
        return self.encoder


def _require_alike(first: Any, other: Any, both: str) -> None:
    if first.family != other.family:
        raise UserError(
            f"{both}: one is a {_words(first.family)} and one a {_words(other.family)}; merge one kind"
        )
    _require_same_texts(first, other, both)
    sides = [(first.inner, other.inner, key) for key in EXACTLY] + [(first, other, key) for key in OF_PAIRS]
    for one, two, key in sides:
        values = [getattr(side, key, None) for side in (one, two)]
        if values[0] != values[1]:
            raise UserError(
                f"{both}: {key} is {values[0]!r} and {values[1]!r}; only equal ones can be merged"
            )
    _require_same_shapes(first, other, *both.split(" and ", 1))


def _require_same_texts(first: Any, other: Any, both: str) -> None:
    """Raises UserError where the same text becomes other tokens."""
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
            f"{both}: their tokenizers differ ({len(one):,} and {len(two):,} tokens); only encoders that read the same "
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
                f"{name} and {other_name}: {key} is {_shape(one)} and {_shape(two)}; only models of the same shapes "
                "can be merged"
            )


def _shape(shape: tuple[int, ...] | None) -> str:
    return "not there" if shape is None else " × ".join(map(str, shape)) or "a number"


def _words(family: str) -> str:
    return family.replace("_", "-")
