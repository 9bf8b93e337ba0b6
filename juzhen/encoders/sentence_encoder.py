"""The sentence encoder: token numbers → transformer → pooling → one embedding per sentence."""

import gc
import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from rich.progress import Progress
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from conf.job import BackendName, backend_name
from juzhen.backends import Backend, open_backend
from juzhen.core.batch import Tokens
from juzhen.core.errors import UserError
from juzhen.encoders.dropout import use_cheap_dropout
from juzhen.encoders.layout import check_pooling
from juzhen.encoders.packing import pack, packed_inputs, padded_inputs, use_packed_attention
from juzhen.encoders.pair_score import BilinearScore, sides
from juzhen.encoders.pieces import in_pieces
from juzhen.encoders.pooling import POOLINGS, READS_FIRST_LAYER
from juzhen.encoders.projection import OutputNorm, Projection
from juzhen.encoders.token_table import TokenTable

if TYPE_CHECKING:
    from juzhen.encoders.embedding_cache import EmbeddingCache

PORTION = 65_536
"""Sentences that are encoded before their embeddings are written to a cache."""

TEXTS_PER_CALL = 4096
MANY_TEXTS = 50_000
"""More than this, and tokenising takes more than about a second."""


class SentenceEncoder(nn.Module):
    """backbone → pooling → projections (usually none) → length 1, if `normalise`.

    backbone    a Hugging Face encoder without head
    pooling     a name of juzhen.encoders.pooling.POOLINGS
    max_length  tokens per sentence, special tokens included; longer sentences are cut
    dim         size of an embedding
    piece_tokens  tokens that are encoded at a time where gradients are kept; None: all of a batch at once
    pad         number that stands for no token where sentences are padded
    takes_segments  the backbone is told which of two sentences a token belongs to
    score_head  what makes a score of two embeddings; None: it is their cosine
    """

    def __init__(
        self,
        backbone: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        pooling: str,
        normalise: bool,
        max_length: int,
        projections: Sequence[Projection | OutputNorm],
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.tokenizer = tokenizer
        self.pooling = check_pooling(pooling)
        self.normalise = normalise
        self.max_length = max_length
        self.projections = nn.ModuleList(projections)
        self.score_head: BilinearScore | None = None
        self.piece_tokens: int | None = None
        self._packs = use_packed_attention(backbone)
        use_cheap_dropout(backbone)
        self.takes_segments = "token_type_ids" in inspect.signature(backbone.forward).parameters
        # Models without padding token (GPT-2) never see the number: the mask hides it.
        pad = tokenizer.pad_token_id
        self.pad = 0 if pad is None else pad

    @property
    def dim(self) -> int:
        if self.projections:
            return self.projections[-1].out_features
        return self.backbone.config.hidden_size

    def forward(self, tokens: Tokens) -> Float[Tensor, "sentences dim"]:
        """Embeddings in float32, also under autocast, in the order in which the sentences were collated."""
        return self._finished(self._in_pieces(self._packed_order, tokens), tokens)

    def pair_scores(
        self, first: Float[Tensor, "batch dim"], second: Float[Tensor, "batch dim"]
    ) -> Float[Tensor, "batch"]:
        """Score of each pair of embeddings, higher = closer: their cosine, or what the head makes of them."""
        if self.score_head is not None:
            return self.score_head(first, second)
        return F.cosine_similarity(first.float(), second.float(), dim=-1)

    def token_states(self, tokens: Tokens) -> Float[Tensor, "tokens dim"]:
        """States of all tokens after the last layer, in packed order."""
        return self._in_pieces(lambda piece: self._layers(piece)[-1], tokens)

    def states_and_embeddings(
        self, tokens: Tokens
    ) -> tuple[Float[Tensor, "tokens dim"], Float[Tensor, "sentences dim"]]:
        """What `token_states` and `forward` give, in one pass that takes no heed of `piece_tokens`."""
        layers = self._layers(tokens)
        return layers[-1], self._finished(self._pooled(layers, tokens), tokens)

    def at_depths(
        self, tokens: Tokens, depths: Sequence[float]
    ) -> tuple[Float[Tensor, "sentences dim"], list[Float[Tensor, "sentences dim"]]]:
        """What `forward` gives, and the same pooling after layers further down, in one pass.

        depths  shares of the backbone's layers, in (0, 1]: 0.5 of 12 layers is layer 6. The last layer's is what
                `forward` gives; layers below are pooled and not projected
        """
        count = self.backbone.config.num_hidden_layers
        places = [layer_at(depth, count) for depth in depths]
        inner = sorted({place for place in places if place < count})

        def columns(piece: Tokens) -> Tensor:
            states, real = self._layer_states(piece, needs_layers=True)
            first, last = states[0][real], states[-1][real]
            pooled = [POOLINGS[self.pooling]((first, states[place - 1][real]), piece) for place in inner]
            return torch.cat([self._pooled((first, last), piece), *pooled], dim=1)

        widths = [self.dim] + [self.backbone.config.hidden_size] * len(inner)
        final, *below = self._in_pieces(columns, tokens).split(widths, dim=1)
        final = self._finished(final, tokens)
        found = {place: one[tokens.restored] for place, one in zip(inner, below, strict=True)}
        return final, [found.get(place, final) for place in places]

    def _in_pieces(self, function: Callable[[Tokens], Tensor], tokens: Tokens) -> Tensor:
        """`function` of the tokens, whose rows follow packed order, piece by piece where memory is short."""
        if self.piece_tokens is None or not torch.is_grad_enabled():
            return function(tokens)
        return in_pieces(function, tokens.pieces(self.piece_tokens))

    def _packed_order(self, tokens: Tokens) -> Float[Tensor, "sentences dim"]:
        """Embeddings from the shortest sentence to the longest, before they are normalised."""
        return self._pooled(self._layers(tokens), tokens)

    def _pooled(self, layers: tuple[Tensor, ...], tokens: Tokens) -> Float[Tensor, "sentences dim"]:
        embeddings = POOLINGS[self.pooling](layers, tokens)
        for projection in self.projections:
            embeddings = projection(embeddings)
        return embeddings.float()

    def _finished(self, embeddings: Tensor, tokens: Tokens) -> Float[Tensor, "sentences dim"]:
        """Pooled sentences in the order in which they were collated, of length 1 where that is asked for."""
        embeddings = embeddings[tokens.restored]
        return F.normalize(embeddings, dim=-1) if self.normalise else embeddings

    def _layers(self, tokens: Tokens) -> tuple[Float[Tensor, "tokens dim"], ...]:
        """Token states of the first layer, where the pooling reads it, and of the last."""
        states, real = self._layer_states(tokens, needs_layers=self.pooling in READS_FIRST_LAYER)
        return tuple(one[real] for one in (states[:1] + states[-1:] if len(states) > 1 else states))

    def _layer_states(self, tokens: Tokens, *, needs_layers: bool) -> tuple[list[Tensor], tuple]:
        """States after each layer, or after the last alone, and where among them those of the tokens are."""
        if self._packs:
            inputs = packed_inputs(self.backbone, tokens, pad=self.pad)
            output = self.backbone(**inputs, output_hidden_states=needs_layers)
            real = (0, slice(len(tokens.input_ids)))
        else:
            input_ids, mask = padded_inputs(tokens, pad=self.pad)
            segments = {"token_type_ids": torch.zeros_like(input_ids)} if self.takes_segments else {}
            if segments and tokens.segments is not None:
                segments["token_type_ids"][tokens.places] = tokens.segments
            output = self.backbone(
                input_ids=input_ids, attention_mask=mask, output_hidden_states=needs_layers, **segments
            )
            real = tokens.places
        # hidden_states[0] is the embedding layer. The last one is taken from last_hidden_state because some
        # models normalise it once more.
        inner = output.hidden_states[1:-1] if needs_layers else ()
        return [*inner, output.last_hidden_state], real

    def tokenize(self, texts: Sequence[str], *, progress: bool = False) -> TokenTable:
        """Token numbers per text with special tokens, cut to max_length, without padding.

        progress  show a bar if there are many texts
        """
        portions: list[TokenTable] = []
        shown = progress and len(texts) > MANY_TEXTS
        # In portions: the tokenizer keeps far more than the numbers until its call is over.
        with _no_garbage_collection(), Progress(disable=not shown, transient=True) as bar:
            task = bar.add_task("tokenising sentences", total=len(texts))
            for start in range(0, len(texts), TEXTS_PER_CALL):
                encoding = self.tokenizer(
                    list(texts[start : start + TEXTS_PER_CALL]),
                    truncation=True,
                    max_length=self.max_length,
                    padding=False,
                    return_attention_mask=False,
                    return_token_type_ids=False,
                )
                portions.append(TokenTable.of(encoding["input_ids"]))
                bar.advance(task, len(portions[-1]))
        return TokenTable.joined(portions)

    def collate(self, token_lists: Sequence[Sequence[int]]) -> Tokens:
        """Tokens of several sentences, packed without padding."""
        return pack(token_lists, max_group_tokens=self.piece_tokens)

    def embed(
        self,
        texts: Sequence[str],
        *,
        batch_tokens: int,
        progress: bool,
        backend: str | Backend = BackendName.TORCH,
        cache: "EmbeddingCache | None" = None,
    ) -> Float[np.ndarray, "sentences dim"]:
        """Embeddings of the texts in their order, float32, without gradients and without dropout.

        Equal texts are encoded once. Texts of like length go together, at most `batch_tokens` tokens at a
        time with padding (a longer text goes alone).

        backend  a BackendName; or one that is open, which spares ONNX another export
        cache    where embeddings are looked up first and kept afterwards; None: nowhere

        Raises UserError for a text that is empty or no string, and for a back end that cannot be opened.
        """
        check_texts(texts)
        distinct: dict[str, int] = {}
        positions = [distinct.setdefault(text, len(distinct)) for text in texts]
        sentences = list(distinct)
        name = backend_name(backend, key="backend") if isinstance(backend, str) else backend.name
        shelf = None if cache is None else cache.shelf(self, name)
        embeddings = np.empty((len(sentences), self.dim), dtype=np.float32)
        pending = np.arange(len(sentences)) if shelf is None else shelf.fill(sentences, embeddings)
        if len(pending) and isinstance(backend, str):
            backend = open_backend(name, self)
        with Progress(disable=not progress, transient=True) as bar:
            task = bar.add_task("encoding sentences", total=len(pending))
            # What is kept is kept in portions, so that a run that ends early has not worked in vain.
            size = max(len(pending), 1) if shelf is None else PORTION
            for start in range(0, len(pending), size):
                rows = pending[start : start + size]
                chosen = [sentences[row] for row in rows]
                for places, part in self._encoded(chosen, backend, batch_tokens=batch_tokens):
                    embeddings[rows[places]] = part
                    bar.advance(task, len(places))
                if shelf is not None:
                    shelf.add(chosen, embeddings[rows])
        return embeddings[positions]

    def scores(
        self, first: Sequence[str], second: Sequence[str], **how: object
    ) -> Float[np.ndarray, "pairs"]:
        """Scores of the pairs in their order, as evaluation has them; `how` and errors: as `embed`."""
        left, right = sides(self.embed([*first, *second], **how), self.score_head)
        return np.einsum("rd,rd->r", left[: len(first)], right[len(first) :])

    def _encoded(
        self, texts: Sequence[str], backend: Backend, *, batch_tokens: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Positions in `texts` and their embeddings, batch by batch."""
        table = self.tokenize(texts)
        for rows in batches_by_length(table.lengths, batch_tokens=batch_tokens):
            yield rows, backend.encode(self.collate(table[rows]))


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Keeps Python from looking for cycles, which took a third of the time of tokenising and found none."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def layer_at(depth: float, count: int) -> int:
    """The layer, from 1, that lies at a share of `count` layers, rounded up.

    >>> [layer_at(depth, 12) for depth in (0.01, 0.25, 0.7, 1)], layer_at(0.5, 1)
    ([1, 3, 9, 12], 1)
    """
    return max(math.ceil(depth * count - 1e-6), min(count, 1))


def check_texts(texts: Sequence[str]) -> None:
    """Raises UserError naming the first text that cannot be encoded."""
    if isinstance(texts, str):
        raise UserError(f"expected a list of texts, got one text: {texts[:40]!r}; write [text]")
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise UserError(f"text {position} is a {type(text).__name__} ({text!r}); expected a string")
        if not text or text.isspace():
            raise UserError(f"text {position} is empty; an empty sentence has no embedding")


def batches_by_length(lengths: Sequence[int], *, batch_tokens: int) -> Iterator[np.ndarray]:
    """Row numbers in batches of at most `batch_tokens` tokens, padding included; longest first.

    Longest first, so that a batch too large for the memory fails at once and not after an hour.
    """
    order = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable")
    start = 0
    while start < len(order):
        size = max(batch_tokens // max(lengths[order[start]], 1), 1)
        yield order[start : start + size]
        start += size
