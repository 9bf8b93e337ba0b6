"""From the rows that a model has encoded to the arguments of a loss, which knows no batch."""

import inspect
from collections.abc import Callable
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from juzhen.core.batch import Encoded
from juzhen.core.constants import constants
from juzhen.core.errors import UserError
from juzhen.core.examples import NLI_GRADES, Kind
from juzhen.losses.loss import Loss, LossOutput


def loss_of(loss: Loss, encoded: Encoded) -> LossOutput:
    """The scalar to minimise, and what to log beside it. A loss asks for tensors by name."""
    return loss.with_logs(**{name: ARGUMENTS[name](encoded) for name in asked_for(type(loss))})


@cache
def asked_for(loss: type[Loss]) -> tuple[str, ...]:
    """Names of the tensors that a loss needs. Raises UserError for a name that nobody knows."""
    _, *names = inspect.signature(loss.with_logs).parameters
    if unknown := set(names) - set(ARGUMENTS):
        raise UserError(
            f"{loss.__name__}.with_logs: {', '.join(sorted(unknown))} is handed over by nobody; known are "
            f"{', '.join(ARGUMENTS)}"
        )
    return tuple(names)


def _graded(encoded: Encoded) -> Float[Tensor, "batch"] | None:
    """Targets in which higher means closer: NLI classes become 1, 0.5 and 0, others stay."""
    if encoded.kind is Kind.NLI_PAIR:
        return constants(NLI_GRADES, like=encoded.targets)[encoded.targets.long()]
    return encoded.targets


def _logits(encoded: Encoded) -> Float[Tensor, "batch classes"]:
    if encoded.logits is None:
        raise UserError(
            "loss=ce needs one logit per class, and this model gives none; use loss=bce for its scores, or "
            "loss=softmax, which brings a classifier over embeddings"
        )
    return encoded.logits


def _negatives(encoded: Encoded) -> Float[Tensor, "batch negatives dim"] | None:
    others = [values for column, values in encoded.embeddings.items() if column.startswith("negative")]
    return torch.stack(others, dim=1) if others else None


def _text(place: int) -> Callable[[Encoded], Float[Tensor, "batch dim"]]:
    return lambda encoded: list(encoded.embeddings.values())[place]


ARGUMENTS: dict[str, Callable[[Encoded], Tensor | None]] = {
    "scores": lambda encoded: encoded.scores,
    "layer_scores": lambda encoded: encoded.layer_scores,
    "logits": _logits,
    "targets": _graded,
    "classes": lambda encoded: encoded.targets,
    "embeddings": _text(0),
    "first": _text(0),
    "second": _text(1),
    "anchors": _text(0),
    "positives": _text(1),
    "negatives": _negatives,
    "student": _text(0),
    "projected": lambda encoded: encoded.projected,
    "teacher": lambda encoded: encoded.teacher,
    "guide": lambda encoded: encoded.guide,
    "document_scores": lambda encoded: encoded.document_scores,
    "teacher_scores": lambda encoded: encoded.teacher_scores,
    "text_ids": lambda encoded: torch.stack(list(encoded.text_ids.values()), dim=1),
}
"""Name of an argument → where it is found in what a model has encoded."""
