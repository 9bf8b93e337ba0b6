"""Batch: the tensors of one step, and the names and shapes of tensors that losses read.

Axis legend, used in every shape annotation of the project:

    batch      rows of the dataset in this step (pairs, triplets, …)
    sentences  encoded sentences of the step: the distinct ones, unless a loss needs several views
    tokens     tokens of all sentences of the step, one sentence after another, without padding
    length     tokens of a sentence, with padding
    dim        dimension of an embedding
    negatives  explicit negatives of a row
    classes    classes of a classification head
    candidates texts that an anchor is compared with
    layers     backbone layers whose scores a loss reads
    teacher    dimension of a teacher's vectors
    guide      dimension of a guide's vectors
    texts      texts of a row
    documents  texts of a row that its anchor is compared with: the positive, then its negatives
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import cosine_similarity, pad

from juzhen.core.examples import Kind


class TensorSpec(NamedTuple):
    """Shape and origin of a tensor.

    Args:
        axes: Axes of the legend above, in order.
        is_learnt: True: the trained model computes it, and gradients flow back. False: it comes from the data
            or a teacher.
        about: Its content.
    """

    axes: tuple[str, ...]
    is_learnt: bool
    about: str


def _learnt(axes: str, about: str) -> TensorSpec:
    return TensorSpec(tuple(axes.split()), True, about)


def _given(axes: str, about: str) -> TensorSpec:
    return TensorSpec(tuple(axes.split()), False, about)


TENSORS: dict[str, TensorSpec] = {
    "scores": _learnt("batch", "a similarity per row, higher = closer"),
    "layer_scores": _learnt("batch layers", "a similarity per row and layer"),
    "layer_embeddings": _learnt(
        "batch texts layers dim", "embeddings of the texts of a row at several layers"
    ),
    "logits": _learnt("batch classes", "one logit per class"),
    "embeddings": _learnt("batch dim", "single texts with a class"),
    "first": _learnt("batch dim", "the first text of a pair"),
    "second": _learnt("batch dim", "the second text of a pair"),
    "anchors": _learnt("batch dim", "texts that must find their positive"),
    "positives": _learnt("batch dim", "texts that match the anchor of their row"),
    "negatives": _learnt("batch negatives dim", "texts that do not match the anchor of their row"),
    "student": _learnt("batch dim", "single texts, encoded by the student"),
    "projected": _learnt("batch teacher", "embeddings of the student, projected to the teacher's space"),
    "document_scores": _learnt(
        "batch documents",
        "similarities of the anchor and the texts of its row, the positive first. −∞ for a missing text",
    ),
    "targets": _given("batch", "gold value of each score, higher = closer"),
    "classes": _given("batch", "class index of each row, from 0"),
    "teacher": _given("batch teacher", "embeddings of single texts by the teacher"),
    "guide": _given(
        "batch texts guide", "embeddings of anchor, positive and negatives by the guide, another encoder"
    ),
    "teacher_scores": _given(
        "batch documents", "the teacher's scores of the texts of a row. None if the set has none"
    ),
    "text_ids": _given(
        "batch texts",
        "number of each text of a row, equal for equal texts, −1 for a missing negative. With it, a repeated text of a "
        "batch is no negative of itself. Without it, all texts count as different",
    ),
}
"""Name → tensor that a loss may read, one row each. A batch has those of the data, a model adds those it computes."""


def constants(values: Sequence[float], *, like: Tensor) -> Float[Tensor, "values"]:
    """Return constants in the precision and on the device of `like`.

    The device writes them itself. `like.new_tensor(values)` would copy them there and wait for the GPU.

    Args:
        values: Numbers.
        like: A tensor of any shape.

    Returns:
        Tensor of one axis, in the order of `values`.
    """
    return torch.stack([like.new_full((), value) for value in values])


class Sharing(StrEnum):
    """Occurrences of a sentence in a batch that are encoded once, with one dropout mask.

    Without dropout all have equal embeddings, and sharing only saves time.
    """

    BATCH = "batch"  # all occurrences
    COLUMN = "column"  # those in one text column: a sentence paired with itself has two views
    NONE = "none"  # each occurrence is encoded, as in other toolkits


class Movable:
    """Dataclass of tensors that can move to another device."""

    def to(self, device: torch.device, **options: Any) -> Self:
        """Return a copy with every tensor on a device. Copies from pinned memory do not block.

        Args:
            device: The device.
            options: Of `torch.Tensor.to`.

        Returns:
            A new object of the same class.
        """
        if torch.device(device).type == "cuda":
            options.setdefault("non_blocking", True)
        return mapped(self, lambda tensor: tensor.to(device, **options))


@dataclass
class Group(Movable):
    """Neighbouring sentences of similar length, which attention processes together.

    Args:
        num_sentences: Number of its sentences.
        length: Tokens of the longest sentence.
        num_tokens: Tokens of all sentences, without padding.
        slots: Position of each token in the padded form (sentences × length), None if all have the same
            length.
        mask: True on tokens of the padded form, None if all have the same length.
        hides: The mask leaves out tokens that attend to others: only attention with a mask supports it.
    """

    num_sentences: int
    length: int
    num_tokens: int
    slots: Int[Tensor, "tokens"] | None
    mask: Bool[Tensor, "sentences 1 1 length"] | None
    hides: bool = False
    biases: dict[Any, Tensor] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What attention adds to scores, kept from the first layer that needs it."""


@dataclass
class Tokens(Movable):
    """Token ids of several sentences, packed one after another without padding, the shortest first.

    Args:
        input_ids: Token ids of all sentences, one after another.
        lengths: Tokens of each sentence, in packed order.
        inverse_permutation: Packed index of each sentence in the original order.
        groups: Packed sentences in groups of similar length.
        segments: 0 or 1 for each token: the first or second of two joined sentences. None: all are 0.
        unpooled: Tokens at the start of each sentence, those of a prompt, that pooling leaves out. If prompts
            differ, a number for each sentence, in packed order.
    """

    input_ids: Int[Tensor, "tokens"]
    lengths: Int[Tensor, "sentences"]
    inverse_permutation: Int[Tensor, "sentences"]
    groups: list[Group]
    segments: Int[Tensor, "tokens"] | None = None
    unpooled: int | Int[Tensor, "sentences"] = 0
    moves: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """From packed to padded places and back, kept from the first layer that needs them."""

    def __len__(self) -> int:
        return self.lengths.shape[0]

    def micro_batches(self, max_tokens: int) -> Iterator["Tokens"]:
        """Split the packed sentences into micro-batches of whole groups with at most `max_tokens` tokens each.

        A larger group is one micro-batch.

        Args:
            max_tokens: Tokens of a micro-batch, without padding.

        Yields:
            Sentences in the order of the batch.
        """
        runs: list[list[Group]] = [[]]
        for group in self.groups:
            if runs[-1] and sum(member.num_tokens for member in runs[-1]) + group.num_tokens > max_tokens:
                runs.append([])
            runs[-1].append(group)
        sizes = [sum(group.num_tokens for group in run) for run in runs]
        counts = [sum(group.num_sentences for group in run) for run in runs]
        input_ids, lengths = self.input_ids.split(sizes), self.lengths.split(counts)
        segments = [None] * len(runs) if self.segments is None else self.segments.split(sizes)
        unpooled_tokens = self.unpooled
        unpooled = (
            [unpooled_tokens] * len(runs)
            if isinstance(unpooled_tokens, int)
            else unpooled_tokens.split(counts)
        )
        parts = zip(runs, counts, input_ids, lengths, segments, unpooled, strict=True)
        for run, count, ids, of_run, segment, left_out in parts:
            yield Tokens(ids, of_run, torch.arange(count, device=ids.device), run, segment, left_out)

    @property
    def sentence_of_token(self) -> Int[Tensor, "tokens"]:
        """Packed index of each token's sentence."""
        order = torch.arange(len(self), device=self.lengths.device)
        # Without the size, torch would wait for the GPU.
        return order.repeat_interleave(self.lengths, output_size=self.input_ids.shape[0])

    @cached_property
    def boundaries(self) -> Int[Tensor, "sentences+1"]:
        """Index of each sentence's first token, and the number of tokens. GPU kernels need int32."""
        return pad(self.lengths.cumsum(0, dtype=torch.int32), (1, 0))

    @property
    def longest(self) -> int:
        """Tokens of the longest sentence. No value is fetched from a GPU."""
        return self.groups[-1].length

    @property
    def starts(self) -> Int[Tensor, "sentences"]:
        """Index of each sentence's first token."""
        return self.lengths.cumsum(0) - self.lengths

    @property
    def positions(self) -> Int[Tensor, "tokens"]:
        """Position of each token in its sentence, from 0."""
        indices = torch.arange(self.input_ids.shape[0], device=self.input_ids.device)
        return indices - self.starts[self.sentence_of_token]

    @property
    def num_unpooled(self) -> Int[Tensor, "sentences"]:
        """Tokens of each sentence that pooling leaves out. At least one is pooled."""
        most = (self.lengths - 1).clamp(min=0)
        return most.clamp(max=self.unpooled)

    @property
    def places(self) -> tuple[Int[Tensor, "tokens"], Int[Tensor, "tokens"]]:
        """Row and column of each token in the right-padded form. Counting a mask would wait for the GPU."""
        return self.sentence_of_token, self.positions


@dataclass
class Batch(Movable):
    """Rows of one dataset, ready for a model.

    Args:
        task: Dataset key, which chooses the loss in a mixture.
        kind: Kind of the rows.
        tokens: Sentences of the step: each distinct one once, or more often, see `Sharing`.
        sentence_ids: Index in the dataset's table of each sentence of `tokens`. Equal indices mean equal
            texts.
        columns: Text column → index of its sentence in `tokens`, per row.
        rows: Row indices in the dataset, for messages.
        tensors: Data of each row, by the names of TENSORS. A set has only some of them.
        compares: The rows of all processes differ in the value that their loss compares. Otherwise no weight
            changes.
    """

    task: str
    kind: Kind
    tokens: Tokens
    sentence_ids: Int[Tensor, "sentences"]
    columns: dict[str, Int[Tensor, "batch"]]
    rows: Int[Tensor, "batch"]
    tensors: dict[str, Tensor] = field(default_factory=dict)
    compares: bool = True

    def __len__(self) -> int:
        return self.rows.shape[0]

    def pin_memory(self) -> Self:
        """Return a copy in pinned memory. A DataLoader with `pin_memory` calls it.

        Returns:
            A new batch. It needs a CUDA device.
        """
        return mapped(self, lambda tensor: tensor.pin_memory())


LONG = 1_024
"""Tokens from which on the memory of attention, which grows with their square, limits a batch."""


def num_fitting(length: int, max_tokens: int) -> int:
    """Return the number of texts of `length` tokens, with padding, that an encoder takes at once (≥ 1).

    Up to LONG tokens each, they share `max_tokens`. For longer texts the squares of their lengths count, so that a text
    of 8,192 goes alone and no short one is padded to it.

    Args:
        length: Tokens of the longest text.
        max_tokens: Tokens of a batch, with padding.

    Returns:
        Number of texts.

    Example:
        >>> [num_fitting(length, 16_384) for length in (16, 1024, 2048, 4096, 8192)]
        [1024, 16, 4, 1, 1]
    """
    cost = length if length <= LONG else -(-length * length // LONG)
    return max(max_tokens // max(cost, 1), 1)


def text_tensors(columns: Sequence[Float[Tensor, "batch dim"]]) -> dict[str, Tensor]:
    """Return the embeddings of the text columns, in order, under every name that losses use for them.

    Args:
        columns: Embeddings of the first texts of the rows, of the second texts, and of each negative.

    Returns:
        Name → (batch, dim). `negatives` are (batch, negatives, dim).
    """
    tensors = dict.fromkeys(("embeddings", "first", "anchors", "student"), columns[0])
    if len(columns) > 1:
        tensors |= dict.fromkeys(("second", "positives"), columns[1])
    if len(columns) > 2:
        tensors["negatives"] = torch.stack(list(columns[2:]), dim=1)
    return tensors


def without_missing(
    tensors: dict[str, Tensor], missing: Bool[Tensor, "batch documents"] | None
) -> dict[str, Tensor]:
    """Mark missing documents: −∞ in `document_scores`, −1 in `text_ids`.

    Args:
        tensors: Name → tensor, as a loss reads them.
        missing: True where a row lacks a document: its positive first, then its negatives. None: no row lacks any.

    Returns:
        A copy. Other tensors are the same objects.
    """
    if missing is None:
        return tensors
    marked = {}
    if (scores := tensors.get("document_scores")) is not None:  # documents of other rows follow the row's own
        marked["document_scores"] = scores.masked_fill(
            pad(missing, (0, scores.shape[1] - missing.shape[1])), -torch.inf
        )
    if (ids := tensors.get("text_ids")) is not None:
        marked["text_ids"] = ids.masked_fill(pad(missing, (1, 0)), -1)
    return tensors | marked


def row_tensors(
    batch: Batch,
    embeddings: Float[Tensor, "sentences dim"],
    score: Callable[[Tensor, Tensor], Tensor],
    *,
    reads: Sequence[str] = (),
    layers: Sequence[Float[Tensor, "sentences dim"]] = (),
) -> dict[str, Tensor]:
    """Return the tensors of a bi-encoder for a loss, by the names of TENSORS.

    Args:
        batch: The rows. Its own tensors are among the returned ones.
        embeddings: Embeddings of its sentences.
        score: Similarity of two embeddings, row by row.
        reads: Names that the loss reads. Scores of documents are computed only if they are among them.
        layers: Embeddings of the same sentences at several depths.

    Returns:
        Name → tensor with one row for each row of the batch.
    """
    columns = [embeddings[rows] for rows in batch.columns.values()]
    tensors = batch.tensors | text_tensors(columns)
    if "document_scores" in reads:
        anchors, *documents = columns
        tensors["document_scores"] = torch.stack([score(anchors, text) for text in documents], dim=1)
    tensors["text_ids"] = torch.stack([batch.sentence_ids[rows] for rows in batch.columns.values()], dim=1)
    if len(columns) > 1:  # a single text has no score
        tensors["scores"] = score(*columns[:2])
    if "layer_embeddings" in reads:
        states = torch.stack(list(layers), dim=1)
        tensors["layer_embeddings"] = torch.stack([states[rows] for rows in batch.columns.values()], dim=1)
    elif layers:
        first, second, *_ = batch.columns.values()
        cosines = [cosine_similarity(layer[first].float(), layer[second].float(), dim=-1) for layer in layers]
        tensors["layer_scores"] = torch.stack(cosines, dim=1)
    return without_missing(tensors, batch.tensors.get("missing"))


def mapped(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Return the value with every tensor in it changed, also inside dictionaries, lists and dataclasses.

    Args:
        value: Anything. Values without tensors are returned unchanged.
        change: Tensor → tensor, for example to another device.

    Returns:
        A new object of the same type, or `value` itself if it holds no tensors.
    """
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: mapped(inner, change) for key, inner in value.items()}
    if isinstance(value, list):
        return [mapped(inner, change) for inner in value]
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(
            **{
                field.name: mapped(getattr(value, field.name), change)
                for field in fields(value)
                if field.init
            }
        )
    return value
