"""Types of the numbers that a configuration gives a loss: a wrong value is named before anything is trained.

A loss annotates its numbers with them (`temperature: Temperature = 0.05`). pydantic refuses other values, where the
loss is made and before that where a command line is checked.
"""

from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, Field

from juzhen.core.schema import Number


def _rising(ends: Sequence[float]) -> tuple[float, ...]:
    if ends[0] >= ends[1]:
        raise ValueError("expected the lower number first")
    return tuple(ends)


Weight = Annotated[Number, Field(ge=0)]
Positive = Annotated[Number, Field(gt=0)]
Temperature = Positive
"""It divides scores: 0.05 is customary for cosines, 1 for logits."""
Share = Annotated[Number, Field(ge=0, le=1)]
Cosine = Annotated[Number, Field(ge=-1, le=1)]
CosineMargin = Annotated[Number, Field(ge=-2, le=2)]
"""A difference of two cosines."""
Count = Annotated[int, Field(ge=1)]

Counts = Annotated[Sequence[Count], AfterValidator(tuple)]
Weights = Annotated[Sequence[Weight], AfterValidator(tuple)]
Shares = Annotated[Sequence[Annotated[Number, Field(gt=0, le=1)]], AfterValidator(tuple)]
Interval = Annotated[Sequence[Cosine], Field(min_length=2, max_length=2), AfterValidator(_rising)]
"""The lower and the upper end of a range of cosines."""
Range = Annotated[Sequence[Weight], Field(min_length=2, max_length=2), AfterValidator(_rising)]
