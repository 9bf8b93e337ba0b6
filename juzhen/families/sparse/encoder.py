"""SparseEncoder: a weight for each token of the vocabulary, most of them 0 (learned sparse retrieval, SPLADE)."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from jaxtyping import Float
from scipy import sparse
from torch import Tensor
from transformers import AutoModelForMaskedLM, PreTrainedModel, PreTrainedTokenizerBase

from juzhen.core.batch import Tokens
from juzhen.core.columns import as_texts, require_finite
from juzhen.core.errors import UserError, nearest
from juzhen.core.examples import Side
from juzhen.core.machine import open_device, warn_forked
from juzhen.core.progress import progress_bar
from juzhen.core.text_warnings import STRICT, reported
from juzhen.encoders.asymmetric import AsymmetricEncoder
from juzhen.encoders.backbone import quiet
from juzhen.encoders.base_weights import merged
from juzhen.encoders.batch_invariance import check_batch_invariance
from juzhen.encoders.chunks import note_read
from juzhen.encoders.components import num_positions, read_transformer
from juzhen.encoders.layout import gives_weights
from juzhen.encoders.masking import MaskedTokenHead
from juzhen.encoders.peer_options import check_count, takes_peer_options
from juzhen.encoders.pooled_encoder import PooledEncoder
from juzhen.encoders.prompts import Prompts
from juzhen.encoders.resolve_path import encoder_folder, encoder_source, locate_folder
from juzhen.encoders.save import HubMixin, licence_of
from juzhen.encoders.thresholds import ThresholdMixin
from juzhen.encoders.tokens import BATCH_TOKENS, batches_by_length
from juzhen.families.sparse.folder import read_sparse, write_sparse
from juzhen.families.sparse.pooling import ACTIVATIONS, POOLINGS, pooled_texts
from juzhen.families.sparse.start import name_what_is_there
from juzhen.families.sparse.vectors import SparseVectors

NEW_HEAD = (
    "the encoder holds no head for masked tokens; a new one is trained, whose matrix is the table of tokens where the "
    "architecture ties the two"
)


class SparseEncoder(AsymmetricEncoder, ThresholdMixin, HubMixin, PooledEncoder):
    """backbone → head over the vocabulary → the largest logit of each token → log(1 + relu); scored by dot products.

    (Formal et al. 2021, https://arxiv.org/abs/2109.10086)

    head        of the masked language model
    strategy    what is made of the logits of a text's tokens, special ones too: their maximum, or the sum of weights
    activation  relu: a logit x counts log(1 + relu(x)) · log1p_relu: the logarithm is taken twice

    Trained and used with a vector (texts, vocabulary) for a step; what is kept of texts is sparse.
    """

    family: ClassVar[str] = "sparse"
    settable: ClassVar[tuple[str, ...]] = (
        "default_prompt_name",
        "max_length",
        "micro_batch_tokens",
        "prompt",
        "prompts",
        "tokenizer",
    )

    def __init__(
        self,
        backbone: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        head: MaskedTokenHead,
        *,
        strategy: str = "max",
        activation: str = "relu",
        max_length: int,
        prompts: Prompts = Prompts(),  # noqa: B008  # frozen
    ) -> None:
        for value, known in ((strategy, POOLINGS), (activation, ACTIVATIONS)):
            if value not in known:
                raise UserError(
                    f"{value}: no pooling or activation of sparse vectors; {nearest(value, known)}"
                )
        super().__init__(
            backbone,
            tokenizer,
            pooling="mean",
            normalize=False,
            max_length=max_length,
            projections=(),
            prompts=prompts,
        )
        self.head = head
        self.strategy, self.activation = strategy, activation

    @classmethod
    def around(
        cls, encoder: PooledEncoder, *, strategy: str = "max", activation: str = "relu", seed: int = 0
    ) -> Self:
        """A new one over the transformer of an encoder of sentences: its pooling and projections are left out.

        Of an encoder with an adapter the merged weights are taken.

        The head is that of the folder which the transformer is from; where it has none, one is drawn with `seed`, and
        begins as `juzhen.families.sparse.start` says.
        Raises UserError for an architecture without such a head.
        """
        encoder = merged(encoder)
        backbone = encoder.backbone
        if encoder.templates is not None:
            raise UserError(
                "this encoder reads sentences through templates, which a sparse encoder has none of"
            )
        if type(backbone.config) not in AutoModelForMaskedLM._model_mapping:
            raise UserError(
                f"{backbone.config.model_type}: has no head over its vocabulary that reads both sides of a token; "
                "choose an encoder that was trained with masks, such as a BERT"
            )
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            head = MaskedTokenHead(backbone)
        made = cls(
            backbone,
            encoder.tokenizer,
            head,
            strategy=strategy,
            activation=activation,
            max_length=encoder.max_length,
            prompts=encoder.prompts,
        )
        if head.is_new:
            name_what_is_there(made, seed=seed)
        made.licence = encoder.licence
        made.load_warnings = (*encoder.load_warnings, *((NEW_HEAD,) if head.is_new else ()))
        made._is_finished = True
        return made

    @classmethod
    @takes_peer_options
    def load(cls, source: str | Path, *, device: str | torch.device = "cpu") -> Self:
        """The encoder in a folder or of a run: ours, or a SparseEncoder of sentence-transformers.

        In float32, in evaluation mode. Raises UserError where there is none.
        """
        place, folder = open_device(device), encoder_folder(encoder_source(source))
        if not gives_weights(folder):
            raise UserError(f"{source}: holds no sparse encoder; load it as a SentenceEncoder")
        layout = read_sparse(folder)
        backbone, tokenizer = read_transformer(layout.transformer, shown=str(source))
        with quiet():
            head = MaskedTokenHead(backbone)
        if head.is_new:
            raise UserError(f"{source}: its weights hold no head for masked tokens; copy them again")
        limits = (num_positions(backbone), tokenizer.model_max_length, layout.max_length)
        encoder = cls(
            backbone,
            tokenizer,
            head,
            strategy=layout.pooling,
            activation=layout.activation,
            max_length=min(size for size in limits if size),
            prompts=layout.prompts,
        )
        encoder.licence = licence_of(folder)
        if not encoder._packs:
            check_batch_invariance(encoder)
        encoder._is_finished = True
        encoder._is_loaded_from(folder)
        return encoder.to(place).eval()

    def write_files(self, folder: Path, card: dict[str, Any], place: str) -> None:
        """Fills an empty folder as `save` does; an adapter is merged into the weights."""
        write_sparse(merged(self), folder, card, place=place)

    @property
    def dim(self) -> int:
        """Tokens of the vocabulary."""
        return int(self.head.model.config.get_text_config().vocab_size)

    @property
    def unpooled(self) -> int:
        """Tokens of a prompt count, as in sentence-transformers."""
        return 0

    @property
    def facts(self) -> str:
        prompts = [self.reading(side).prompt for side in (Side.QUERY, Side.DOCUMENT)]
        return f"{self.strategy} {self.activation} {prompts}"

    def pair_scores(
        self, first: Float[Tensor, "batch dim"], second: Float[Tensor, "batch dim"]
    ) -> Float[Tensor, "batch"]:
        """The dot product of each pair of vectors."""
        return (first.float() * second.float()).sum(dim=-1)

    def _pooled(self, layers: tuple[Tensor, ...], tokens: Tokens) -> Float[Tensor, "sentences vocabulary"]:
        return torch.cat(list(self._parts(layers[-1], tokens)))

    def _parts(self, states: Float[Tensor, "tokens dim"], tokens: Tokens) -> Iterable[Tensor]:
        return pooled_texts(
            self.head,
            states,
            tokens,
            vocabulary=self.dim,
            pooling=self.strategy,
            activation=self.activation,
        )

    def sparse_rows(self, tokens: Tokens) -> sparse.csr_array:
        """Vectors of the texts as collated, as the encoder is: on its device, with or without dropout."""
        rows = []
        for part in self._parts(self._layers(tokens)[-1], tokens):
            places = part.nonzero()
            values, (texts, numbers) = part[places[:, 0], places[:, 1]].cpu().numpy(), places.cpu().numpy().T
            ends = np.bincount(texts, minlength=len(part)).cumsum()
            starts = np.concatenate([[0], ends])
            rows.append(sparse.csr_array((values, numbers.astype(np.int32), starts), shape=tuple(part.shape)))
        return sparse.vstack(rows, format="csr")[tokens.inverse_permutation.cpu().numpy()]

    @takes_peer_options
    def encode(
        self,
        texts: str | Iterable[str],
        *,
        is_query: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        show_progress: bool | None = None,
        strict: bool = False,
    ) -> sparse.csr_array:
        """Vectors of the texts in order, float32 (texts, vocabulary); of one text a table of one row.

        is_query  the texts are queries, where the encoder has a prompt for these
        strict    a text that would be truncated raises UserError; False: one warning with their number

        Raises UserError for a text that is empty or no string.
        """
        sentences, _ = as_texts(texts)
        side = Side.QUERY if is_query else Side.DOCUMENT
        with reported(strict=strict, advice=STRICT):
            return self.vectors(list(sentences), side, batch_tokens, show_progress).table

    def vectors(
        self, texts: Sequence[str], side: Side, batch_tokens: int = BATCH_TOKENS, progress: bool | None = None
    ) -> SparseVectors:
        """Those of texts, read as queries or as documents."""
        warn_forked()
        reader = self.reading(side)
        vectors, table = SparseVectors(len(texts), self.dim), reader.tokenize(texts)
        note_read(reader, texts, table)
        with progress_bar("encoding texts", len(texts), shown=progress) as advance:
            for rows in batches_by_length(table.lengths, batch_tokens=batch_tokens):
                found = reader.infer_sparse(reader.collate(table[rows]))
                require_finite(found.data, texts, owners=rows.repeat(np.diff(found.indptr)))
                vectors.take(rows, found)
                advance(len(rows))
        return vectors

    @torch.inference_mode()
    def infer_sparse(self, tokens: Tokens) -> sparse.csr_array:
        """What `sparse_rows` gives, without dropout, on the device of the weights."""
        was_training = self.training
        self.eval()
        try:
            return self.sparse_rows(tokens.to(self.device))
        finally:
            self.train(was_training)

    def decode(self, vectors: Any, top: int | None = 10) -> Any:
        """The tokens of a vector with their weights, heaviest first, at most `top` (None: all); of a table a list each.

        vectors  (vocabulary,) or (texts, vocabulary), sparse or dense; a table of one row is one vector
        """
        if top is not None:
            check_count("top", top)
        table = sparse.csr_array(np.atleast_2d(vectors) if isinstance(vectors, np.ndarray) else vectors)
        if table.ndim == 1:
            table = table.reshape(1, -1).tocsr()
        if table.shape[1] != self.dim:
            raise UserError(f"decode: {table.shape[1]} numbers, and this encoder has {self.dim} tokens")
        words = []
        for row in range(table.shape[0]):
            numbers, weights = (
                values[table.indptr[row] : table.indptr[row + 1]] for values in (table.indices, table.data)
            )
            order = np.argsort(-weights, kind="stable")[:top]
            tokens = self.tokenizer.convert_ids_to_tokens(numbers[order].tolist())
            words.append(list(zip(tokens, weights[order].tolist(), strict=True)))
        return words[0] if len(words) == 1 else words

    def words(self, query: str, document: str, top: int | None = 10) -> list[tuple[str, float]]:
        """The tokens that make the score of a query and a document, each with its part of it, largest first."""
        with reported():
            shared = self.encode_query(query).multiply(self.encode_document(document))
        return self.decode(shared, top)


def load_sparse(folder_or_run: str | Path) -> SparseEncoder:
    """The encoder in a folder or of a run, in training mode. Errors: as `SparseEncoder.load`."""
    return SparseEncoder.load(folder_or_run).train()


def is_sparse(folder_or_run: str | Path) -> bool:
    """Whether a run or a folder holds a sparse encoder; false where there is none to ask."""
    folder = locate_folder(str(folder_or_run))
    return folder is not None and any(gives_weights(path) for path in (folder, folder / "encoder"))
