"""Base classes of losses. Their declarations match data and model before anything is loaded."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cache, wraps
from inspect import signature
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)
from warnings import warn

import numpy as np
from jaxtyping import Float
from pydantic import BaseModel, create_model
from torch import Tensor, nn

from juzhen.core.aliases import LOSS_FLAGS
from juzhen.core.batch import TENSORS
from juzhen.core.errors import UserError
from juzhen.core.examples import Examples, Kind
from juzhen.core.schema import STRICT, fitting
from juzhen.losses.arguments import bound, checks_arguments

LossOutput = tuple[Float[Tensor, ""], dict[str, Tensor]]
"""The scalar to minimise, and named scalars to log (detached)."""


class Contrast(StrEnum):
    """The difference between rows without which a loss teaches nothing, most demanding first.

    Example:
        >>> from juzhen.losses import CoSENT
        >>> CoSENT().contrast.value
        'order'
    """

    ORDER = "order"  # targets, within a batch: otherwise the gradient is 0
    TEXTS = "texts"  # texts, within a batch or from the row's own negatives: otherwise the gradient is 0
    SOME_TEXTS = "some_texts"  # the same, but one differing column is enough
    NEGATIVES = "negatives"  # the row's own negatives from its positive: otherwise the gradient is 0
    CLASSES = "classes"  # classes, within the set: otherwise it learns to give one answer always
    VALUES = "values"  # targets, within the set: otherwise it learns one value
    NONE = "none"  # nothing: each row teaches by itself


def _is_limited(kind: Any) -> bool:
    return get_origin(kind) in (Annotated, Literal) or any(map(_is_limited, get_args(kind)))


@cache
def _numbers(loss: type) -> type[BaseModel]:
    """Model of the limited numbers of a loss."""
    hints = get_type_hints(loss, include_extras=True)
    own = {field.name: hints[field.name] for field in fields(loss) if field.init}
    keys: dict[str, Any] = {
        name: (kind, ...) for name, kind in own.items() if kind is bool or _is_limited(kind)
    }
    return create_model(loss.__name__, __config__=STRICT, **keys)


@dataclass_transform(kw_only_default=True, eq_default=False)
class Loss(nn.Module, ABC):
    """Base of all losses: a function of tensors with declared needs.

    `loss(scores, targets)` returns the scalar, and `loss.with_logs(…)` also returns named scalars to log. A subclass
    implements `with_logs`. Its arguments are the tensors that it reads, by their names in `juzhen.core.batch.TENSORS`.
    Shapes are checked (`juzhen.losses.arguments`): a column (N, 1) is read as (N,). Other shapes and NaN labels are
    rejected. Embeddings need not be normalised. The numbers of a loss are annotated attributes, which the constructor
    takes by name. Their types, such as `Temperature`, limit their values. Class attributes declare the needs:

    input_kinds  row kinds it can learn from, most natural first
    input_type   "scores" (one similarity per row, of any size), "cosines" (from −1 to 1), "embeddings" (one vector per
                 text), "logits" (one number per class), "layers" (a cosine per row and layer), "lists" (a similarity
                 per row and document), "drawn_lists" (with `num_drawn` documents of other rows after the row's own),
                 "teacher" (a teacher's vector per text) or "guide" (embeddings, and a guide's vector per text)
    reads_tokens  with input_type = "embeddings": True if it also takes texts with a vector per token, (batch, length,
                 dim), because it only needs similarities of the anchor
    is_batchwise  True if the loss of a row depends on the other rows of the batch. Such a batch may not be split
                 without gradient caching
    is_ranking   True if the value is one logarithm over comparisons of rows and not a mean over rows: its gradient does
                 not shrink as the batch grows, and has a useful range of lengths
    needs_two_views  True if a sentence that is paired with itself is encoded once per text column, so that dropout
                 gives two views of it (Gao et al. 2021, https://arxiv.org/abs/2104.08821). Equal sentences within one
                 column still share an encoding. False: equal sentences of a batch are encoded once, and the cosine of a
                 sentence with itself is 1, with or without dropout
    has_parameters  True if it has parameters sized by the encoder: the constructor then also takes `dim` (size of an
                 embedding) and `num_classes`, and the parameters are trained and stored with the model
    is_stateful  True if it keeps rows of earlier steps: sets do not share it
    needs_two_passes  True if a batch is encoded twice, with other dropout. `again` then has the second pass
    contrast     the difference between rows that it needs (`Contrast`). For several parts, of the least demanding one
    depths       with input_type = "layers": layers as shares of the backbone's, in (0, 1]
    needs_teacher_scores  True if it needs a teacher's score of each document of a row
    paper        source, for the table of docs/losses.md
    choose_when  when to choose it, in a few words, for the same table
    inputs       names of the tensors it is called with: the arguments of `with_logs`

    Raises:
        UserError: A number outside its limits.

    Example:
        >>> class Hinge(Loss):
        ...     input_kinds = (Kind.LABELLED_PAIR,)
        ...     input_type = "cosines"
        ...     is_batchwise = False
        ...
        ...     def with_logs(self, scores: Tensor, targets: Tensor) -> LossOutput:
        ...         return (1 - (2 * targets - 1) * scores).relu().mean(), {}
    """

    input_kinds: ClassVar[tuple[Kind, ...]]
    input_type: ClassVar[str]
    reads_tokens: ClassVar[bool] = False
    is_batchwise: bool
    is_ranking: ClassVar[bool] = False
    needs_two_views: ClassVar[bool] = False
    has_parameters: ClassVar[bool] = False
    is_stateful: ClassVar[bool] = False
    needs_two_passes: ClassVar[bool] = False
    needs_teacher_scores: ClassVar[bool] = False
    contrast: Contrast = Contrast.VALUES
    depths: Sequence[float] = ()
    paper: ClassVar[str] = ""
    choose_when: ClassVar[str] = ""
    inputs: ClassVar[tuple[str, ...]]

    def __init_subclass__(cls) -> None:
        for old in set(LOSS_FLAGS) & set(vars(cls)):
            warn(f"{cls.__name__}.{old} is {LOSS_FLAGS[old]} now", FutureWarning, stacklevel=2)
            setattr(cls, LOSS_FLAGS[old], vars(cls)[old])
        arguments = signature(cls.with_logs).parameters.values()
        # A loss around another one takes the tensors of that one, and declares them itself.
        if "with_logs" in vars(cls) and all(each.kind != each.VAR_KEYWORD for each in arguments):
            cls.inputs = tuple(each.name for each in arguments)[1:]
            if unknown := set(cls.inputs) - set(TENSORS):
                raise TypeError(
                    f"{cls.__name__}.with_logs: {', '.join(sorted(unknown))} not in juzhen/core/batch.py"
                )
            check = checks_arguments(cls.with_logs, tokens=cls.reads_tokens)
            cls.with_logs = check  # type: ignore[method-assign]
        dataclass(kw_only=True, eq=False, repr=False)(cls)
        build = cls.__init__

        @wraps(build)
        def init(self: Any, *values: Any, **options: Any) -> None:
            bound(type(self).__name__, signature(build), (self, *values), options)
            build(self, *values, **options)

        cls.__init__ = init  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        """Initialise the module and check its numbers."""
        super().__init__()
        kinds = _numbers(type(self))
        given = {name: getattr(self, name) for name in kinds.model_fields}
        for name, value in fitting(kinds, given).items():
            setattr(self, name, value)

    def forward(self, *tensors: Any, **named: Any) -> Float[Tensor, ""]:
        """Return the scalar to minimise, from the arguments of `with_logs`.

        Args:
            *tensors: Inputs in the order of `inputs`.
            **named: Inputs by name.

        Returns:
            A scalar tensor.
        """
        return self.with_logs(*tensors, **named)[0]

    @abstractmethod
    def with_logs(self, *tensors: Any, **named: Any) -> LossOutput:
        """Return the scalar loss and the scalars to log.

        Args:
            *tensors: Inputs in the order of `inputs`. Their shapes are in `juzhen.core.batch.TENSORS`.
            **named: Inputs by name.

        Returns:
            A scalar tensor, and name → scalar to log.

        Raises:
            UserError: A tensor that the options need is missing, or one is given that the loss does not read.
        """

    def has_contrast(self, examples: Examples, rows: np.ndarray) -> bool:
        """True if a batch of these rows has a gradient. `Contrast` defines what rows must differ in.

        Without it, momentum and weight decay alone would move weights.

        Args:
            examples: The set.
            rows: Row numbers of a batch, int (batch,).

        Returns:
            False if the loss is constant on these rows.
        """
        columns = [values[rows] for values in examples.columns.values()]
        match self.contrast:
            case Contrast.ORDER:
                assert examples.targets is not None  # such a loss takes kinds that have some
                return _differ(examples.targets[rows])
            case Contrast.TEXTS if "negative" not in examples.columns:
                return all(map(_differ, columns))
            case Contrast.SOME_TEXTS if "negative" not in examples.columns:
                return any(map(_differ, columns))
            case Contrast.NEGATIVES:
                _, positive, *negatives = columns
                return any((negative != positive).any() for negative in negatives)
        return True

    def require_equal_lists(self, examples: Examples, said: str) -> None:
        """Refuse rows with different numbers of negatives if the loss cannot read a mask.

        Args:
            examples: Training rows.
            said: Name of the loss for the message, such as `loss=triplet`.

        Raises:
            UserError: The numbers differ, and the loss reads negatives without a mask.
        """
        if examples.missing is None or "negatives" not in self.inputs or "text_ids" in self.inputs:
            return
        counts = (~examples.missing[:, 1:]).sum(axis=1)
        raise UserError(
            f"{said}: it takes as many negatives of each row, and rows of {examples.name} have {counts.min()} to "
            f"{counts.max()}. Choose info_nce, info_nce_own, triplet or list_mle, which take rows of different "
            f"lengths, or give each row {counts.min()}"
        )


def _differ(values: np.ndarray) -> bool:
    """True if an array has two different rows.

    Args:
        values: Array whose first axis has the rows. It may be empty.

    Returns:
        False for fewer than two rows.

    Example:
        >>> _differ(np.array([[1, 2], [1, 3]])), _differ(np.array([[1, 2], [1, 2]]))
        (True, False)
    """
    return bool((values != values[:1]).any())


class Sum(Loss):
    """Weighted sum Σ_k w_k L_k of losses of the same rows.

    A subclass returns its `parts`, and its `with_logs` passes tensors to `total`.

    Its contrast is that of the least demanding part with a weight above 0. The subclass declares everything else
    that its parts need, including `is_batchwise` and `is_ranking`.

    Example:
        >>> import torch
        >>> from juzhen.losses import CoSENT, CosineSimilarity
        >>> class Both(Sum):
        ...     input_kinds, input_type, is_batchwise = CoSENT.input_kinds, "scores", True
        ...
        ...     def parts(self):
        ...         return {"order": (1.0, CoSENT()), "error": (0.5, CosineSimilarity())}
        ...
        ...     def with_logs(self, scores, targets):
        ...         return self.total(scores=scores, targets=targets)
        >>> Both()(torch.tensor([0.9, 0.2]), torch.tensor([1.0, 0.0]))
        tensor(0.0125)
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        parts = self.parts()
        self.weights = {name: weight for name, (weight, _) in parts.items()}
        self.losses: Any = nn.ModuleDict({name: loss for name, (_, loss) in parts.items()})
        counting = [loss.contrast for weight, loss in parts.values() if weight]
        self.contrast = max(counting, key=list(Contrast).index)

    @abstractmethod
    def parts(self) -> Mapping[str, tuple[float, Loss]]:
        """Return name of each part → its weight and the loss.

        Returns:
            The parts.
        """

    def total(self, **tensors: Tensor) -> LossOutput:
        """Return the sum, with each part called with its tensors, and the logs and values of the parts.

        Args:
            **tensors: Inputs of all parts, by name.

        Returns:
            The loss and the scalars to log.
        """
        total: Any = 0
        logs: dict[str, Tensor] = {}
        for name, loss in self.losses.items():
            value, part_logs = loss.with_logs(**{key: tensors[key] for key in loss.inputs})
            total = total + self.weights[name] * value
            logs |= part_logs | {name: value.detach()}
        return total, logs
