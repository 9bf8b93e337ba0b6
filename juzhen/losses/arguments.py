"""Tensors that a loss is called with are what its signature says, or they are refused: nothing is broadcast."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, get_args

from torch import Tensor

from juzhen.core.errors import UserError

GOLD = ("targets", "labels", "classes", "grades", "teacher_scores")
"""Arguments that come from data, in which NaN is a missing value."""

LEAST = {"batch": 1, "negatives": 1, "documents": 2, "classes": 2}
"""Axis → smallest size that leaves something to compare, or to take a mean of."""


def checks_arguments(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, whose tensors must have the axes of their annotations: an axis has one size in all of them.

    What stands for one number per row may be a column: (N, 1) is read as (N,). Of GOLD, values on a CPU may not be NaN,
    and classes must be whole; on a GPU nobody asks, since that would wait for it. Raises UserError for all else.
    """
    parameters = signature(function).parameters
    names = tuple(parameters)
    axes = {name: found for name, one in parameters.items() if (found := _axes(one.annotation))}

    @wraps(function)
    def checked(*tensors: Any, **named: Any) -> Any:
        values = dict(zip(names, tensors, strict=False)) | named
        if len(values) != len(tensors) + len(named):
            return function(*tensors, **named)  # Python says which are too many
        sizes: dict[str, tuple[int, str]] = {}
        for name, wanted in axes.items():
            if values.get(name) is not None:
                values[name] = _fitting(name, values[name], wanted, sizes)
        return function(**values)

    return checked


def _axes(annotation: Any) -> tuple[str, ...]:
    """Names of the axes of an annotated tensor, empty where they are free."""
    alternatives = get_args(annotation) or (annotation,)
    words = next((one.dim_str for one in alternatives if hasattr(one, "dim_str")), "")
    return () if "*" in words else tuple(words.split())


def _fitting(name: str, values: Any, wanted: tuple[str, ...], sizes: dict[str, tuple[int, str]]) -> Tensor:
    """The argument, a column as a row of numbers. `sizes`: axis → its size, and the argument that it is known from."""
    if not isinstance(values, Tensor):
        raise UserError(f"{name}: expected a tensor ({', '.join(wanted)}), not {type(values).__name__}")
    if wanted == ("batch",) and values.ndim == 2 and values.shape[1] == 1:
        values = values.squeeze(1)
    sizes_here = dict(zip(wanted, values.shape, strict=False))
    fits = values.ndim == len(wanted) and all(
        size == int(axis) if axis.isdigit() else size == sizes.setdefault(axis, (size, name))[0]
        for axis, size in sizes_here.items()
    )
    if not fits:
        known = [f"{axis} = {sizes[axis][0]} in {sizes[axis][1]}" for axis in wanted if axis in sizes]
        raise UserError(
            f"{name} has the shape {tuple(values.shape)}; expected ({', '.join(wanted)})"
            + (f", {', '.join(known)}" if known else "")
        )
    for axis, size in sizes_here.items():
        if size < LEAST.get(axis, 0):
            raise UserError(
                f"{name} has the shape {tuple(values.shape)}; expected {LEAST[axis]} {axis} or more"
            )
    if name in GOLD and values.device.type == "cpu" and values.isnan().any():
        raise UserError(
            f"{name}: {int(values.isnan().sum())} of {values.numel()} are NaN; leave such rows out"
        )
    if name == "classes" and values.device.type == "cpu" and (values % 1).any():
        raise UserError("classes: expected whole numbers, from 0; a grade is no class")
    return values
