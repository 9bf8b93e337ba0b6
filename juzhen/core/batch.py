"""Batch: the tensors of one step.

Axis legend, used in every shape annotation of the project:

    batch      rows of the dataset in this step (pairs, triplets, …)
    sentences  sentences of the step that are encoded: the distinct ones, unless a loss needs several views
    tokens     tokens of all sentences of the step, one sentence after another, without padding
    length     tokens of a sentence, padding included, where a padded form is needed
    dim        size of an embedding
    negatives  explicit negatives of a row
    classes    classes of a classification head
    candidates texts that an anchor is compared with
    layers     layers of the backbone whose scores a loss consumes
    teacher    size of a vector that a teacher gives
    guide      size of a vector that a guide gives
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
    """axes  of the legend in `juzhen.core.batch`, in order
    is_learnt  the model that learns has made it, and gradients flow back through it; False: the data or a teacher did
    about  what it holds
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
        "batch texts layers dim", "the texts of a row, as each of some layers gives them"
    ),
    "logits": _learnt("batch classes", "one number per class"),
    "embeddings": _learnt("batch dim", "single texts, which have classes"),
    "first": _learnt("batch dim", "the first text of a pair"),
    "second": _learnt("batch dim", "the second text of a pair"),
    "anchors": _learnt("batch dim", "texts that shall find their positive"),
    "positives": _learnt("batch dim", "texts that belong to the anchor of their row"),
    "negatives": _learnt("batch negatives dim", "texts that do not belong to the anchor of their row"),
    "student": _learnt("batch dim", "single texts, which a teacher has read too"),
    "projected": _learnt("batch teacher", "the student's embeddings, brought to the teacher's space"),
    "document_scores": _learnt(
        "batch documents",
        "similarities of the anchor and the texts of its row, the positive first; −∞ for one that the row lacks",
    ),
    "targets": _given("batch", "the gold value that a score is held to, higher = closer"),
    "classes": _given("batch", "the number of the class of each row, from 0"),
    "teacher": _given("batch teacher", "what a teacher gives for single texts"),
    "guide": _given("batch texts guide", "what another encoder gives for anchor, positive and negatives"),
    "teacher_scores": _given(
        "batch documents", "what a teacher scores the texts of a row; None where the set does not say"
    ),
    "text_ids": _given(
        "batch texts",
        "the number of each text of a row, equal for equal texts, and −1 for a negative that the row lacks. With it, "
        "texts that come twice in a batch are not taken for negatives; without it, all count as different",
    ),
}
"""Name → what it is."""


def constants(values: Sequence[float], *, like: Tensor) -> Float[Tensor, "values"]:
    """`values` in the precision and on the device of `like`.

    The device writes them itself. `like.new_tensor(values)` would copy them there, and the processor would wait until
    all that a GPU has been given to do is done.
    """
    return torch.stack([like.new_full((), value) for value in values])


class Sharing(StrEnum):
    """Which appearances of a sentence in a batch are one sentence to the encoder, and see one dropout mask.

    Without dropout they are all the same numbers, and sharing only saves time.
    """

    BATCH = "batch"  # all of them
    COLUMN = "column"  # those in one text column: a sentence paired with itself is seen in two views
    NONE = "none"  # each appearance is encoded, as other toolkits do


class Movable:
    """A dataclass of tensors, which can be put on another device."""

    def to(self, device: torch.device, **options: Any) -> Self:
        """The same with every tensor on `device`; out of pinned memory without waiting for it."""
        if torch.device(device).type == "cuda":
            options.setdefault("non_blocking", True)
        return mapped(self, lambda tensor: tensor.to(device, **options))


@dataclass
class Group(Movable):
    """Neighbouring sentences of like length, which attention handles together.

    slots  place of each token in the padded form (sentences × length), None when all have the same length
    mask   True on tokens of the padded form, None when all have the same length
    hides  the mask leaves tokens out that look at the others: only attention that takes a mask can do that
    """

    num_sentences: int
    length: int
    num_tokens: int
    slots: Int[Tensor, "tokens"] | None
    mask: Bool[Tensor, "sentences 1 1 length"] | None
    hides: bool = False


@dataclass
class Tokens(Movable):
    """Token numbers of several sentences, packed one after another, the shortest first; there is no padding.

    lengths   tokens of each sentence, in packed order
    inverse_permutation  for each sentence in the order given, its place in packed order
    groups    the packed sentences in runs of like length
    segments  of each token, which of two joined sentences it belongs to, 0 or 1; None: all are 0
    unpooled  tokens at the start of each sentence, those of a prompt, that pooling leaves out; where prompts differ, a
              number for each sentence, in packed order
    """

    input_ids: Int[Tensor, "tokens"]
    lengths: Int[Tensor, "sentences"]
    inverse_permutation: Int[Tensor, "sentences"]
    groups: list[Group]
    segments: Int[Tensor, "tokens"] | None = None
    unpooled: int | Int[Tensor, "sentences"] = 0

    def __len__(self) -> int:
        return self.lengths.shape[0]

    def micro_batches(self, max_tokens: int) -> Iterator["Tokens"]:
        """The same sentences in packed order, in micro-batches of whole groups with at most `max_tokens` tokens each.

        A group that is larger than that is a micro-batch of its own.
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
        """Packed place of the sentence that each token belongs to."""
        order = torch.arange(len(self), device=self.lengths.device)
        # The size is told because otherwise a GPU would have to be waited for.
        return order.repeat_interleave(self.lengths, output_size=self.input_ids.shape[0])

    @cached_property
    def boundaries(self) -> Int[Tensor, "sentences+1"]:
        """Where each sentence begins among the tokens, and where the last one ends; int32, as GPU kernels read it."""
        return pad(self.lengths.cumsum(0, dtype=torch.int32), (1, 0))

    @property
    def longest(self) -> int:
        """Tokens of the longest sentence; nothing has to be fetched from a GPU for it."""
        return self.groups[-1].length

    @property
    def starts(self) -> Int[Tensor, "sentences"]:
        """Where each sentence begins among the tokens."""
        return self.lengths.cumsum(0) - self.lengths

    @property
    def positions(self) -> Int[Tensor, "tokens"]:
        """Position of each token in its sentence, from 0."""
        indices = torch.arange(self.input_ids.shape[0], device=self.input_ids.device)
        return indices - self.starts[self.sentence_of_token]

    @property
    def num_unpooled(self) -> Int[Tensor, "sentences"]:
        """Tokens of each sentence that pooling leaves out; one is always pooled."""
        most = (self.lengths - 1).clamp(min=0)
        return most.clamp(max=self.unpooled)

    @property
    def places(self) -> tuple[Int[Tensor, "tokens"], Int[Tensor, "tokens"]]:
        """Row and column of each token where sentences are padded on the right. A mask would be counted on a GPU."""
        return self.sentence_of_token, self.positions


@dataclass
class Batch(Movable):
    """Rows of one dataset, ready for a model.

    task          dataset key; it chooses the loss in a mixture
    tokens        the sentences of the step: each distinct one once, or more often, as `Sharing` says
    sentence_ids  number in the dataset's table of each sentence of `tokens`; equal numbers = equal texts
    columns       text column → position of its sentence in `tokens`, per row
    rows          row numbers in the dataset, to name a batch in a message
    tensors       what is given of each row, by the names of `juzhen.core.batch`; what a set does not have is left out
    compares      rows of the step, over all processes, differ in what their loss compares; else it moves no weight
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
        """The same batch where a GPU fetches it by itself. A DataLoader calls this where it is asked to pin."""
        return mapped(self, lambda tensor: tensor.pin_memory())


LONG = 1_024
"""Tokens of a text from which on attention, whose memory grows with their square, decides what fits."""


def num_fitting(length: int, max_tokens: int) -> int:
    """Texts of `length` tokens, padding included, that go through an encoder together; one at least.

    Up to LONG tokens each, they have `max_tokens` together; of longer texts the squares of their lengths count, so that
    one of 8,192 goes alone and no short one is padded to it.

    >>> [num_fitting(length, 16_384) for length in (16, 1024, 2048, 4096, 8192)]
    [1024, 16, 4, 1, 1]
    """
    cost = length if length <= LONG else -(-length * length // LONG)
    return max(max_tokens // max(cost, 1), 1)


def text_tensors(columns: Sequence[Float[Tensor, "batch dim"]]) -> dict[str, Tensor]:
    """The embeddings of the text columns of rows, in order, by every name that losses have for them."""
    tensors = dict.fromkeys(("embeddings", "first", "anchors", "student"), columns[0])
    if len(columns) > 1:
        tensors |= dict.fromkeys(("second", "positives"), columns[1])
    if len(columns) > 2:
        tensors["negatives"] = torch.stack(list(columns[2:]), dim=1)
    return tensors


def without_missing(
    tensors: dict[str, Tensor], missing: Bool[Tensor, "batch documents"] | None
) -> dict[str, Tensor]:
    """The tensors with the documents that a row lacks marked: −∞ in `document_scores`, −1 in `text_ids`."""
    if missing is None:
        return tensors
    marked = {}
    if (
        scores := tensors.get("document_scores")
    ) is not None:  # documents of other rows come after the row's own
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
    """What a bi-encoder gives a loss, by the names of `juzhen.core.batch`: the batch's own, and what is made of it.

    score   of two embeddings, row by row
    reads   the scores of documents are computed where they are among these
    layers  embeddings of the same sentences at several depths
    """
    columns = [embeddings[rows] for rows in batch.columns.values()]
    tensors = batch.tensors | text_tensors(columns)
    if "document_scores" in reads:
        anchors, *documents = columns
        tensors["document_scores"] = torch.stack([score(anchors, text) for text in documents], dim=1)
    tensors["text_ids"] = torch.stack([batch.sentence_ids[rows] for rows in batch.columns.values()], dim=1)
    if len(columns) > 1:  # one text has no score
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
    """The same value with every tensor in it changed, inside dictionaries, lists and dataclasses too."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: mapped(inner, change) for key, inner in value.items()}
    if isinstance(value, list):
        return [mapped(inner, change) for inner in value]
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(
            **{field.name: mapped(getattr(value, field.name), change) for field in fields(value)}
        )
    return value
