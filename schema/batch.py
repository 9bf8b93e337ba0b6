"""Batch: the tensors of one step.

Axis legend, used in every shape annotation of the project:

    batch      rows of the dataset in this step (pairs, triplets, …)
    sentences  distinct sentences of the step; each is encoded once
    length     tokens of a sentence, padding included
    dim        size of an embedding
    negatives  explicit negatives of a row
    classes    classes of a classification head
    candidates texts that an anchor is compared with
"""

from dataclasses import dataclass, fields

import torch
from jaxtyping import Float, Int
from torch import Tensor

from schema.examples import Kind


@dataclass
class Tokens:
    """Token numbers of several sentences, padded on the right.

    attention_mask is 1 on tokens and 0 on padding. token_type_ids is absent for backbones without segments.
    """

    input_ids: Int[Tensor, "sentences length"]
    attention_mask: Int[Tensor, "sentences length"]
    token_type_ids: Int[Tensor, "sentences length"] | None = None

    def __len__(self) -> int:
        return self.input_ids.shape[0]

    def to(self, device: torch.device, **options: object) -> "Tokens":
        return _moved(self, device, **options)

    def as_inputs(self) -> dict[str, Tensor]:
        """Keyword arguments of a Hugging Face encoder."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in given.items() if value is not None}


@dataclass
class Batch:
    """Rows of one dataset, ready for a model.

    task          dataset key; it chooses the loss in a mixture
    tokens        the distinct sentences of the step
    sentence_ids  number of each distinct sentence in the dataset's table; equal numbers = equal texts
    columns       text column → position of its sentence in `tokens`, per row
    targets       gold value per row (see Examples.targets), None for kinds without one
    rows          row numbers in the dataset, to name a batch in a message
    """

    task: str
    kind: Kind
    tokens: Tokens
    sentence_ids: Int[Tensor, "sentences"]
    columns: dict[str, Int[Tensor, "batch"]]
    targets: Float[Tensor, "batch"] | None
    rows: Int[Tensor, "batch"]

    def __len__(self) -> int:
        return self.rows.shape[0]

    def to(self, device: torch.device, **options: object) -> "Batch":
        return _moved(self, device, **options)


@dataclass
class Encoded:
    """What a model hands to a loss: one row per example, whatever the model.

    embeddings  text column → embedding (not normalised unless the encoder normalises); empty for a cross-encoder
    text_ids    text column → number of the text; equal numbers = equal texts (masks false negatives)
    scores      the model's similarity per row, higher = closer (cosine, or a cross-encoder's logit)
    targets     gold value per row, as in Batch
    """

    kind: Kind
    embeddings: dict[str, Float[Tensor, "batch dim"]]
    text_ids: dict[str, Int[Tensor, "batch"]]
    scores: Float[Tensor, "batch"] | None
    targets: Float[Tensor, "batch"] | None


def _moved(value: object, device: torch.device, **options: object) -> object:
    """The same dataclass with every tensor on `device`."""

    def move(item: object) -> object:
        if isinstance(item, dict):
            return {key: move(inner) for key, inner in item.items()}
        return item.to(device, **options) if hasattr(item, "to") else item

    return type(value)(**{field.name: move(getattr(value, field.name)) for field in fields(value)})
