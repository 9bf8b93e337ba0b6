"""Types of a loss's numbers, and the check of the tensors that it is called with.

A loss annotates its numbers with these types (`temperature: Temperature = 0.05`). pydantic rejects other values when
the loss is made, and earlier when a command line is checked. Tensors must have the axes of the signature. Nothing is
broadcast.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import signature
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, Field
from torch import Tensor

from juzhen.core.batch import TENSORS
from juzhen.core.errors import UserError
from juzhen.core.schema import Number


def _rising(ends: Sequence[float]) -> tuple[float, ...]:
    if ends[0] >= ends[1]:
        raise ValueError("expected the lower number first")
    return tuple(ends)


def _felt(number: float) -> float:
    if 0 < number < LEAST_WEIGHT:
        raise ValueError(f"expected 0, or a number from {LEAST_WEIGHT:g} on")
    return number


LEAST_WEIGHT, MOST_WEIGHT = 1e-6, 1e6
"""Outside, a part of a sum is lost in the rounding of float32, or the others are."""

Weight = Annotated[Number, Field(ge=0, le=MOST_WEIGHT), AfterValidator(_felt)]
Positive = Annotated[Number, Field(ge=LEAST_WEIGHT, le=MOST_WEIGHT)]
Temperature = Annotated[Number, Field(ge=1e-4, le=1e4)]
"""Divides scores: 0.05 is customary for cosines, 1 for logits. Outside, all scores are equal, or gradients 0."""
Share = Annotated[Number, Field(ge=0, le=1)]
Cosine = Annotated[Number, Field(ge=-1, le=1)]
CosineMargin = Annotated[Number, Field(ge=-2, le=2)]
"""A difference of two cosines."""
Count = Annotated[int, Field(ge=1)]
Classes = Annotated[int, Field(ge=0)]

Counts = Annotated[Sequence[Count], AfterValidator(tuple)]
Weights = Annotated[Sequence[Weight], AfterValidator(tuple)]
Shares = Annotated[Sequence[Annotated[Number, Field(gt=0, le=1)]], AfterValidator(tuple)]
Interval = Annotated[Sequence[Cosine], Field(min_length=2, max_length=2), AfterValidator(_rising)]
"""The lower and the upper end of a range of cosines."""
Range = Annotated[Sequence[Weight], Field(min_length=2, max_length=2), AfterValidator(_rising)]


GOLD = ("targets", "labels", "classes", "grades", "teacher_scores")
"""Arguments that come from data, where NaN is a missing value."""

LEAST = {"batch": 1, "negatives": 1, "documents": 2, "classes": 2}
"""Axis → smallest useful size."""


def checks_arguments(function: Callable[..., Any], *, tokens: bool = False) -> Callable[..., Any]:
    """Wrap a function so that its tensors must have the axes of their annotations, or of their names in `TENSORS`.

    An axis has one size in all of them. One number per row may be a column: (N, 1) is read as (N,). Values of GOLD on a
    CPU may not be NaN, and classes must be whole. They are not checked on a GPU, because that would wait for it.

    Args:
        function: A loss function, or `with_logs`.
        tokens: Texts may have a vector per token, (…, length, dim).

    Returns:
        The wrapped function, which raises UserError for other tensors.
    """
    parameters = signature(function).parameters
    names = tuple(parameters)
    axes = {name: _axes(name, parameter.annotation) for name, parameter in parameters.items()}

    @wraps(function)
    def checked(*tensors: Any, **named: Any) -> Any:
        values = dict(zip(names, tensors, strict=False)) | named
        if len(values) != len(tensors) + len(named):
            return function(*tensors, **named)  # Python names the surplus argument
        sizes: dict[str, tuple[int, str]] = {}
        for name, expected in axes.items():
            if expected and values.get(name) is not None:
                has_tokens = (
                    tokens and expected[-1] == "dim" and getattr(values[name], "ndim", 0) > len(expected)
                )
                of_tokens = (*expected[:-1], f"length of {name}", "dim") if has_tokens else expected
                values[name] = _fitting(name, values[name], of_tokens, sizes)
        return function(**values)

    return checked


def fitting_tensors(named: Mapping[str, Any]) -> dict[str, Tensor]:
    """Check tensors by their names in `TENSORS`, as `checks_arguments` does, and drop None values.

    Args:
        named: Name in `TENSORS` → tensor or None.

    Returns:
        The present tensors. A column (N, 1) of one number per row is (N,).

    Raises:
        UserError: An axis has another size than in another tensor, a gold value is NaN, or classes are not whole.
    """
    sizes: dict[str, tuple[int, str]] = {}
    present = {name: values for name, values in named.items() if values is not None}
    return {name: _fitting(name, values, TENSORS[name].axes, sizes) for name, values in present.items()}


def _axes(name: str, annotation: Any) -> tuple[str, ...]:
    """Names of the axes of an argument, empty if they are free."""
    types = get_args(annotation) or (annotation,)
    if Tensor in types:
        return TENSORS[name].axes if name in TENSORS else ()
    axes = next((kind.dim_str for kind in types if hasattr(kind, "dim_str")), "")
    return () if "*" in axes else tuple(axes.split())


def _fitting(name: str, values: Any, axes: tuple[str, ...], sizes: dict[str, tuple[int, str]]) -> Tensor:
    """Check one argument. `sizes`: axis → its size, and the argument that fixed it."""
    if not isinstance(values, Tensor):
        raise UserError(f"{name}: expected a tensor ({', '.join(axes)}), not {type(values).__name__}")
    if axes == ("batch",) and values.ndim == 2 and values.shape[1] == 1:
        values = values.squeeze(1)
    named = dict(zip(axes, values.shape, strict=False))
    fits = values.ndim == len(axes) and all(
        size == int(axis) if axis.isdigit() else size == sizes.setdefault(axis, (size, name))[0]
        for axis, size in named.items()
    )
    if not fits:
        seen = [f"{axis} = {sizes[axis][0]} in {sizes[axis][1]}" for axis in axes if axis in sizes]
        raise UserError(
            f"{name} has the shape {tuple(values.shape)}. Expected ({', '.join(axes)})"
            + (f", {', '.join(seen)}" if seen else "")
        )
    for axis, size in named.items():
        if size < LEAST.get(axis, 0):
            expected = f"{LEAST[axis]} {axis} or more"
            raise UserError(f"{name} has the shape {tuple(values.shape)}. Expected {expected}")
    if name in GOLD and values.device.type == "cpu":
        if count := int(values.isnan().sum()):
            raise UserError(f"{name}: {count} of {values.numel()} are NaN. Leave these rows out")
        if name == "classes" and (values % 1).any():
            raise UserError("classes: expected whole numbers from 0, not grades")
    return values
