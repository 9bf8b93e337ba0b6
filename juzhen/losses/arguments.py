"""Types of a loss's numbers, and the check of the tensors that it is called with.

A loss annotates its numbers with these types (`temperature: Temperature = 0.05`). pydantic rejects other values when
the loss is made, and earlier when a command line is checked. Tensors must have the axes of the signature. Nothing is
broadcast.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from inspect import Signature, signature
from typing import Annotated, Any, get_args

import torch
from pydantic import AfterValidator, BaseModel, Field, create_model
from torch import Tensor

from juzhen.core.aliases import setting_meant
from juzhen.core.batch import TENSORS
from juzhen.core.errors import CallError, UserError
from juzhen.core.schema import STRICT, Number, fitting


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

LIMITS: Mapping[Any, Any] = {
    float: Number,
    float | None: Number | None,
    int: Count,
    int | None: Count | None,
    bool: bool,
}
"""Annotation of a number of a loss function → its type here."""

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
    form = signature(function)
    axes = {name: _axes(name, parameter.annotation) for name, parameter in form.parameters.items()}
    is_method = "self" in axes

    @wraps(function)
    def checked(*tensors: Any, **named: Any) -> Any:
        called = f"{type(tensors[0]).__name__}()" if is_method else function.__name__
        values = bound(called, form, tensors, named)
        if not is_method:  # those of a class were checked when it was made
            limits = _limits(function)
            fitting(limits, {name: values[name] for name in limits.model_fields})
        sizes: dict[str, tuple[Any, str]] = {}
        for name, expected in axes.items():
            if expected and (values[name] is not None or form.parameters[name].default is not None):
                has_tokens = (
                    tokens and expected[-1] == "dim" and getattr(values[name], "ndim", 0) > len(expected)
                )
                of_tokens = (*expected[:-1], f"length of {name}", "dim") if has_tokens else expected
                values[name] = _fitting(called, name, values[name], of_tokens, sizes)
        return function(**values)

    return checked


def bound(called: str, form: Signature, values: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by name, with defaults.

    Args:
        called: What is called, for the message.
        form: Its signature. The first parameter may be `self`.
        values: Arguments by position.
        named: Arguments by name.

    Returns:
        Name → value.

    Raises:
        CallError: An argument is missing, unknown, or given twice.
    """
    try:
        given = form.bind(*values, **named)
    except TypeError as error:
        known = {name: each for name, each in form.parameters.items() if name != "self"}
        listed = [f"{name}=…" if each.kind is each.KEYWORD_ONLY else name for name, each in known.items()]
        unknown = next((name for name in named if name not in known), "")
        meant = (setting_meant(unknown, str(named.get(unknown))) or "").removeprefix("loss.")
        way = meant if meant.partition("=")[0] in known else f"{called}({', '.join(listed)})"
        raise CallError(f"{called}: {error}. Type {way}.") from None
    given.apply_defaults()
    return given.arguments


@cache
def _limits(function: Callable[..., Any]) -> type[BaseModel]:
    """Model of the numbers of a loss function."""
    kinds: dict[str, Any] = {
        name: (Temperature if name.endswith("temperature") else LIMITS[each.annotation], ...)
        for name, each in signature(function).parameters.items()
        if each.annotation in LIMITS
    }
    return create_model(function.__name__, __config__=STRICT, **kinds)


def fitting_tensors(called: str, named: Mapping[str, Any]) -> dict[str, Tensor]:
    """Check tensors by their names in `TENSORS`, as `checks_arguments` does, and drop None values.

    Args:
        called: What is called, for the message.
        named: Name in `TENSORS` → tensor or None.

    Returns:
        The present tensors. A column (N, 1) of one number per row is (N,).

    Raises:
        UserError: An axis has another size than in another tensor, a gold value is NaN, or classes are not whole.
    """
    sizes: dict[str, tuple[Any, str]] = {}
    present = {name: values for name, values in named.items() if values is not None}
    return {
        name: _fitting(called, name, values, TENSORS[name].axes, sizes) for name, values in present.items()
    }


def _axes(name: str, annotation: Any) -> tuple[str, ...]:
    """Names of the axes of an argument, empty if they are free."""
    types = get_args(annotation) or (annotation,)
    if Tensor in types:
        return TENSORS[name].axes if name in TENSORS else ()
    axes = next((kind.dim_str for kind in types if hasattr(kind, "dim_str")), "")
    return () if "*" in axes else tuple(axes.split())


def _fitting(
    called: str, name: str, values: Any, axes: tuple[str, ...], sizes: dict[str, tuple[Any, str]]
) -> Tensor:
    """Check one argument. `sizes`: axis → its size, and the argument that fixed it."""
    expected = f"Expected ({', '.join(axes)})"
    if not isinstance(values, Tensor) or values.layout is not torch.strided or values.is_complex():
        kind = type(values).__name__ if not isinstance(values, Tensor) else f"{values.layout} {values.dtype}"
        raise UserError(
            f"{called}: {name}: expected a tensor, not {kind}. {expected}, as in torch.tensor({name})"
        )
    if values.dtype == torch.bool and name in GOLD:
        values = values.long() if name == "classes" else values.float()
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
            f"{called}: {name} has the shape {tuple(values.shape)}. {', '.join([expected, *seen])}"
        )
    for axis, size in named.items():
        if size < LEAST.get(axis, 0):
            raise UserError(
                f"{called}: {name} has the shape {tuple(values.shape)}. Expected {LEAST[axis]} {axis} or more"
            )
    device, first = sizes.setdefault("", (values.device, name))
    if device != values.device:
        raise UserError(
            f"{called}: {name} is on {values.device}, {first} on {device}. Type {name}.to({first}.device)"
        )
    if name in GOLD and values.device.type == "cpu":
        if count := int(values.isnan().sum()):
            raise UserError(f"{called}: {name}: {count} of {values.numel()} are NaN. Leave these rows out")
        if name == "classes" and (values % 1).any():
            raise UserError(
                f"{called}: classes: expected whole numbers from 0, not grades. Other losses read grades as targets"
            )
    return values
