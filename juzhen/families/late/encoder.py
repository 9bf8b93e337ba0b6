"""Late-interaction encoders: `MultiVectorEncoder` (ColBERT) and `QueryDocumentEncoder` (a Router of two encoders)."""

import copy
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from tokenizers import AddedToken
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from juzhen.core.batch import Tokens
from juzhen.core.columns import as_texts, require_finite
from juzhen.core.errors import UserError, check_count
from juzhen.core.examples import Side
from juzhen.core.machine import open_device, warn_forked
from juzhen.core.progress import progress_bar
from juzhen.core.text_warnings import STRICT, reported
from juzhen.encoders.asymmetric import ROLES, AsymmetricEncoder
from juzhen.encoders.backbone import StaticTokens, evaluating, quiet, token_embeddings
from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.encoders.base_weights import around_same_weights, merged
from juzhen.encoders.chunks import note_read
from juzhen.encoders.components import num_positions, read_components, read_transformer
from juzhen.encoders.folder_settings import naming
from juzhen.encoders.forward import pack
from juzhen.encoders.layout import ROUTED, gives_routes, gives_tokens, read_chains
from juzhen.encoders.peer_options import GuardedAttributesMixin, takes_peer_options
from juzhen.encoders.pooled_encoder import Places, PooledEncoder
from juzhen.encoders.pooling import unit
from juzhen.encoders.projection import IDENTITY, OutputLayer, Projection
from juzhen.encoders.prompts import Prompts
from juzhen.encoders.resolve_path import download, encoder_folder, encoder_source, locate_folder
from juzhen.encoders.save import HubMixin
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.thresholds import ThresholdMixin
from juzhen.encoders.tokens import BATCH_TOKENS, TokenTable, batches_by_length
from juzhen.families.late.folder import (
    MARKERS,
    MultiVectorSettings,
    read_multi_vector,
    require_reading,
    write_multi_vector,
)
from juzhen.families.late.scores import TokenVectors, filled_up, hiding, row_maxsims


class MultiVectorEncoder(AsymmetricEncoder, ThresholdMixin, HubMixin, PooledEncoder):
    """backbone → projections → length 1, for each token. The score of a query and a document is their MaxSim.

    (Khattab and Zaharia 2020, https://arxiv.org/abs/2004.12832) A text is read as a document by default. Losses always
    take the mean over the tokens of the query.

    Args:
        backbone: The transformer, without a head.
        tokenizer: Its tokenizer.
        projections: Linear layers from its hidden size to the size of a vector.
        reading: Lengths, expansion of queries, and tokens without a score.
        prompts: Prompts by name.
        sums: True: the score is the sum over the tokens of the query of the nearest token of the document.
            Foreign folders with maxsim or without a setting use it. False: their mean, called meanmaxsim by
            sentence-transformers.

    Raises:
        UserError: Queries are filled up with a token that the tokenizer lacks.

    Example:
        >>> from juzhen.encoders import load_encoder
        >>> inner, reading = load_encoder("builtin/mini_zh"), MultiVectorSettings()
        >>> encoder = MultiVectorEncoder.around(inner, dim=32, reading=reading)  # not yet trained
        >>> encoder = MultiVectorEncoder.load(encoder.save("saved"))
        >>> [vectors.shape for vectors in encoder.encode(["怎么退货", "A dog."])]
        [(7, 32), (6, 32)]
    """

    family: ClassVar[str] = "multi_vector"
    settable: ClassVar[tuple[str, ...]] = ("micro_batch_tokens", "projections", "tokenizer")
    reading_of_queries: bool = False
    _skipped: Tensor

    @takes_peer_options
    def __init__(
        self,
        backbone: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        projections: Sequence[OutputLayer],
        reading: MultiVectorSettings,
        prompts: Prompts,
        sums: bool = False,
    ) -> None:
        super().__init__(
            backbone,
            tokenizer,
            pooling="mean",
            normalize=True,
            max_length=reading.document_length,
            projections=projections,
        )
        least = tokenizer.num_special_tokens_to_add() + 2
        require_reading(reading, most=num_positions(backbone), least=least)
        token = reading.token or tokenizer.mask_token or tokenizer.eos_token
        if reading.expand_to and (token is None or token not in tokenizer.get_vocab()):
            raise UserError(
                f"queries are filled up with {token or '[MASK]'}, which this tokenizer does not have. Choose "
                "expansion=false"
            )
        self.rules, self.sums = reading, sums
        self._prompts = prompts
        self._put_before(prompts.of_side(Side.DOCUMENT))
        vocabulary = tokenizer.get_vocab()
        self._expansion: int = vocabulary[token] if token and reading.expand_to else -1
        skipped = [vocabulary[word] for word in reading.skipped if word in vocabulary]
        self.register_buffer("_skipped", torch.tensor(sorted(skipped)), persistent=False)

    @classmethod
    @takes_peer_options
    def around(
        cls,
        encoder: PooledEncoder,
        *,
        dim: int,
        reading: MultiVectorSettings,
        markers: bool = True,
        seed: int = 0,
    ) -> Self:
        """Build a new encoder over the transformer of a sentence encoder, without pooling and projections.

        The weights of an adapter are merged.

        Args:
            encoder: The sentence encoder. It is not changed, and shares its weights.
            dim: Dimension of a token vector. The projection is drawn with `seed`.
            reading: Lengths of queries and documents, and other settings of the family.
            markers: Put the tokens [Q] and [D] before queries and documents if the encoder has no such
                prompts.
            seed: Seed of the projection.

        Returns:
            The encoder.

        Raises:
            UserError: Lengths that the transformer cannot read, or a static encoder.
        """
        check_count("dim", dim)
        encoder = merged(encoder)
        if isinstance(encoder.backbone, StaticTokens):
            raise UserError(
                "a static embedding has one vector for a token in all texts, and other programs cannot open its "
                "token vectors. Choose a transformer"
            )
        encoder = around_same_weights(encoder, own=token_embeddings(encoder.backbone).weight)
        backbone, tokenizer, prompts = encoder.backbone, encoder.tokenizer, encoder.prompts
        with torch.random.fork_rng(devices=[]), quiet():
            torch.default_generator.manual_seed(seed)
            layer = Projection(backbone.config.hidden_size, dim, bias=False, activation=IDENTITY)
            if markers and not prompts.texts:
                tokens = [AddedToken(text, normalized=False, special=True) for text in MARKERS.values()]
                tokenizer.add_tokens(tokens, special_tokens=True)
                backbone.resize_token_embeddings(len(tokenizer), mean_resizing=False)
                prompts = Prompts(MARKERS)
        made = cls(backbone, tokenizer, projections=[layer], reading=reading, prompts=prompts)
        made.licence = encoder.licence
        made._is_finished = True
        return made

    @classmethod
    @takes_peer_options
    def load(cls, source: str | Path, *, device: str | torch.device = "cpu") -> Self:
        """Load from a folder or a run, in float32 and in evaluation mode.

        Reads our format, that of PyLate and a MultiVectorEncoder of sentence-transformers.

        Args:
            source: A folder or a run.
            device: Device of the weights.

        Returns:
            The encoder.

        Raises:
            UserError: The source does not hold such an encoder.
        """
        place, folder = open_device(device), encoder_folder(encoder_source(source))
        if not gives_tokens(folder):
            raise UserError(
                f"{source}: holds no encoder of token vectors. Load it with SentenceEncoder.load(…)"
            )
        layout = read_multi_vector(folder)
        backbone, tokenizer = read_transformer(layout.transformer, shown=str(source))
        with naming(f"{layout.transformer}: the tokenizer does not load"):
            _keep_whole(tokenizer, layout.markers)
        limits = [size for size in (num_positions(backbone), tokenizer.model_max_length) if size]
        lengths: Any = {
            name: getattr(layout.reading, name) or min(limits) for name in ("query_length", "document_length")
        }
        encoder = cls(
            backbone,
            tokenizer,
            projections=[Projection.load(path, of_tokens=True) for path in layout.dense],
            reading=replace(layout.reading, **lengths),
            prompts=layout.prompts,
            sums=layout.sums,
        )
        return encoder._opened(source, folder, place)

    def write_files(self, folder: Path, card: dict[str, Any], place: str) -> None:
        """Fill an empty folder as `save` does. An adapter is merged into the weights.

        Args:
            folder: The empty folder.
            card: Facts for the README.
            place: Name of the encoder in the README.
        """
        write_multi_vector(merged(self), folder, card, place=place)

    @property
    def sides(self) -> Int[np.ndarray, "sides"]:
        return np.zeros_like(ROLES) if self.reading_of_queries else ROLES

    def reading(self, side: Side) -> Self:
        if not self.sides[side]:
            return self
        other = copy.copy(self)
        vars(other).update(reading_of_queries=True, max_length=self.rules.query_length)
        other._put_before(self._prompts.of_side(Side.QUERY))
        return other

    @property
    def facts(self) -> str:
        prompts = [self.reading(side).prompt for side in (Side.QUERY, Side.DOCUMENT)]
        return f"{self.rules} {prompts}{' sums' * self.sums}"

    @property
    def unpooled(self) -> int:
        """Marks texts as queries by 1. This encoder pools nothing."""
        return int(self.reading_of_queries)

    @property
    def expanded_to(self) -> int:
        """Tokens that each text has at least."""
        return self.rules.expand_to if self.reading_of_queries else 0

    def tokenize(self, texts: Iterable[str], *, progress: bool | None = False) -> TokenTable:
        table = super().tokenize(texts, progress=progress)
        return filled_up(table, self.expanded_to, self._expansion) if self.expanded_to else table

    def forward(self, tokens: Tokens) -> Float[Tensor, "sentences length dim"]:
        """Vectors of length 1 in the order in which texts were collated, 0 where no token is scored.

        Args:
            tokens: Packed tokens, as from `collate`.

        Returns:
            Vectors, (sentences, length, dim).
        """
        vectors = self.token_vectors(tokens) * self.scored(tokens).unsqueeze(-1)
        padded = vectors.new_zeros(len(tokens), tokens.longest, vectors.shape[1])
        return padded.index_put(tokens.places, vectors)[tokens.inverse_permutation]

    def token_vectors(self, tokens: Tokens) -> Float[Tensor, "tokens dim"]:
        """The vector of each token, in packed order, float32.

        Args:
            tokens: Packed tokens, as from `collate`.

        Returns:
            Vectors, (tokens, dim).
        """

        def vectors(piece: Tokens) -> Tensor:
            return F.normalize(self._projected(self._layers(piece)[-1]), dim=-1)

        return self._in_micro_batches(vectors, tokens)

    def scored(self, tokens: Tokens) -> Bool[Tensor, "tokens"]:
        """Mask of scored tokens: all of a query, and those of a document outside the skip list.

        Args:
            tokens: Packed tokens, as from `collate`.

        Returns:
            bool tensor (tokens,).
        """
        if not len(self._skipped):
            return torch.ones_like(tokens.input_ids, dtype=torch.bool)
        return self._of_queries(tokens) | ~torch.isin(tokens.input_ids, self._skipped)

    def pair_scores(
        self, first: Float[Tensor, "batch length dim"], second: Float[Tensor, "batch tokens dim"]
    ) -> Float[Tensor, "batch"]:
        with torch.autocast(first.device.type, enabled=False):
            return row_maxsims(first.float(), second.float())

    def _of_queries(self, tokens: Tokens) -> Bool[Tensor, "tokens"]:
        if isinstance(tokens.unpooled, int):
            return torch.full_like(tokens.input_ids, bool(tokens.unpooled), dtype=torch.bool)
        return (tokens.unpooled > 0)[tokens.sentence_of_token]

    def _inputs(self, tokens: Tokens) -> tuple[dict[str, Any], Places]:
        reading = self.rules
        has_queries = not isinstance(tokens.unpooled, int) or tokens.unpooled > 0
        if reading.attends or not reading.expand_to or not has_queries:
            return super()._inputs(tokens)
        hidden = self._expansions(tokens)
        if self._packs:
            return super()._inputs(hiding(tokens, hidden))
        inputs, real = super()._inputs(tokens)
        inputs["attention_mask"] = inputs["attention_mask"].index_put(tokens.places, (~hidden).long())
        return inputs, real

    def _expansions(self, tokens: Tokens) -> Bool[Tensor, "tokens"]:
        is_filling, positions = tokens.input_ids == self._expansion, tokens.positions
        sentences = tokens.sentence_of_token
        last = torch.zeros_like(tokens.lengths).scatter_reduce(
            0, sentences, positions.masked_fill(is_filling, 0), "amax"
        )
        return is_filling & (positions > last[sentences]) & self._of_queries(tokens)

    @takes_peer_options
    def encode(
        self,
        texts: str | Iterable[str],
        *,
        is_query: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        show_progress: bool | None = None,
        strict: bool = False,
    ) -> Any:
        """Encode texts into the vectors of their scored tokens, in the order of the texts.

        Args:
            texts: One text or several.
            is_query: The texts are queries. False: documents.
            batch_tokens: Tokens in a batch.
            show_progress: Show a progress bar. None: on a terminal.
            strict: Raise UserError for a text that would be truncated. False: one warning with the number of
                such texts.

        Returns:
            One float32 array (tokens, dim) for each text. For a single text one array.

        Raises:
            UserError: A text that is empty or not a string.
        """
        sentences, is_one = as_texts(texts)
        side = Side.QUERY if is_query else Side.DOCUMENT
        with reported(strict=strict, advice=STRICT):
            vectors = self.vectors(list(sentences), side, batch_tokens, show_progress)
        return vectors[0] if is_one else [vectors[row] for row in range(len(vectors))]

    def vectors(
        self, texts: Sequence[str], side: Side, batch_tokens: int = BATCH_TOKENS, progress: bool | None = None
    ) -> TokenVectors:
        warn_forked()
        reader = self.reading(side)
        vectors, table = TokenVectors(len(texts), sums=self.sums), reader.tokenize(texts)
        note_read(reader, texts, table)
        with progress_bar("encoding texts", len(texts), shown=progress) as advance:
            for rows in batches_by_length(table.lengths, batch_tokens=batch_tokens):
                found, counts = reader.infer_tokens(reader.collate(table[rows]))
                require_finite(found, texts, owners=rows.repeat(counts), may_be_zero=False)
                vectors.take(rows, found, counts)
                advance(len(rows))
        return vectors

    @torch.inference_mode()
    def infer_tokens(
        self, tokens: Tokens
    ) -> tuple[Float[np.ndarray, "tokens dim"], Int[np.ndarray, "sentences"]]:
        """Vectors of the scored tokens, text after text as collated, and their number per text.

        Args:
            tokens: Packed tokens, as from `collate`.

        Returns:
            Vectors (tokens, dim), and the number of each text, (sentences,).
        """
        with evaluating(self):
            return self.scored_vectors(tokens.to(self.device))

    def scored_vectors(
        self, tokens: Tokens
    ) -> tuple[Float[np.ndarray, "tokens dim"], Int[np.ndarray, "sentences"]]:
        """As `infer_tokens`, on the device of the encoder, with dropout in training mode.

        Args:
            tokens: Packed tokens, as from `collate`.

        Returns:
            As of `infer_tokens`.
        """
        vectors, counts = self.token_vectors(tokens), self.scored(tokens)
        of_texts = counts.cpu().numpy()
        sentences = tokens.sentence_of_token.cpu().numpy()
        order = tokens.inverse_permutation.cpu().numpy()
        place = np.empty_like(order)  # of each packed text, that in which it was collated
        place[order] = np.arange(len(order))
        rows = np.flatnonzero(of_texts)
        rows = rows[np.argsort(place[sentences[rows]], kind="stable")]
        return vectors.float().cpu().numpy()[rows], np.bincount(place[sentences[rows]], minlength=len(order))


def _keep_whole(tokenizer: PreTrainedTokenizerBase, texts: Iterable[str]) -> None:
    """Make the tokenizer read a marker of the vocabulary as one token. PyLate inserts its number."""
    vocabulary = tokenizer.get_vocab()
    markers = []
    for text in texts:
        for marker in (text, *text.split(None, 1)[:1]):
            if marker in vocabulary:
                markers += [marker] if tokenizer.tokenize(marker) != [marker] else []
                break
    if markers:
        tokens = [AddedToken(marker, normalized=False, special=True) for marker in dict.fromkeys(markers)]
        tokenizer.add_tokens(tokens, special_tokens=True)


def is_multi_vector(folder_or_run: str | Path) -> bool:
    """Return True if a run or a folder holds an encoder of token vectors, and False also for a missing folder.

    Args:
        folder_or_run: Folder of an encoder, or of a run.
    """
    folder = locate_folder(str(folder_or_run))
    return folder is not None and any(gives_tokens(path) for path in (folder, folder / "encoder"))


class QueryDocumentEncoder(AsymmetricEncoder, ThresholdMixin, HubMixin, GuardedAttributesMixin):
    """Embeddings of one space from two sentence encoders. The score is the cosine of query and document.

    It can be used and evaluated. It cannot be trained or saved.

    Args:
        query: Reads queries.
        document: Reads documents.
        default: Reads texts without a side.

    Raises:
        UserError: Encoders of different dimensions, or with a prompt that pooling leaves out.

    Example:
        >>> QueryDocumentEncoder.load("models/router").encode(["怎么退货"])  # doctest: +SKIP
        >>> query, document = (SentenceEncoder.load("builtin/mini_zh") for _ in range(2))
        >>> encoder = QueryDocumentEncoder(query, document, default=document)
        >>> encoder.encode(["怎么退货"]).shape, len(encoder.collate(encoder.tokenize(["怎么退货", "几天发货"])))
        ((1, 256), 2)
    """

    family: ClassVar[str] = "query_document"
    settable: ClassVar[tuple[str, ...]] = ("micro_batch_tokens",)
    reading_of_queries: bool = False
    sums: ClassVar[bool] = False

    @takes_peer_options
    def __init__(
        self, query: SentenceEncoder, document: SentenceEncoder, *, default: SentenceEncoder
    ) -> None:
        super().__init__()
        for one in (query, document):
            if not one.prompts.include_prompt:
                raise UserError(
                    "include_prompt=false: with separate weights for queries and documents all tokens count. "
                    "Type include_prompt=true"
                )
        if query.dim != document.dim:
            raise UserError(
                f"its queries have {query.dim} numbers and its documents {document.dim}, which have no cosine. Use one "
                "of the two by itself"
            )
        self.query, self.document = query, document
        self._default = [default]  # no part of its own
        self._is_finished = True

    @classmethod
    @takes_peer_options
    def load(
        cls, source: str | Path, *, revision: str | None = None, device: str | torch.device = "cpu"
    ) -> Self:
        """Load a sentence-transformers model with a Router from a folder or the hub, in float32.

        Args:
            source: A folder or a hub id.
            revision: Branch, tag or commit of a hub id. None: the newest.
            device: Device of the weights.

        Returns:
            The encoder.

        Raises:
            UserError: The source does not hold such an encoder.
        """
        target, path = open_device(device), encoder_source(source, revision)
        folder = locate_folder(path) or download(path, revision)
        if not gives_routes(folder):
            raise UserError(f"{source}: holds no {ROUTED}. Load it with SentenceEncoder.load(…)")
        config = BackboneConfig(path=path, revision=revision, initialize="pretrained")
        query, document = (
            SentenceEncoder.of(read_components(config, seed=0, side=side)) for side in ("query", "document")
        )
        chains = read_chains(folder)
        known = {str(chains["query"]): query, str(chains["document"]): document}
        default = known.get(str(chains[None]))
        if default is None:
            raise UserError(
                f"{folder}: default_route: neither that of queries nor that of documents. Name one of these"
            )
        return cls(query, document, default=default).to(target).eval()

    def write_files(self, folder: Path, card: dict[str, Any], place: str) -> None:
        """Refuse: such a model is not written here.

        Args:
            folder, card, place: Not used.

        Raises:
            UserError: Always.
        """
        raise UserError(f"save: a {ROUTED} is not written here. Copy the folder that it was loaded from")

    @property
    def inner(self) -> Self:
        return self

    @property
    def _reader(self) -> SentenceEncoder:
        side = Side.QUERY if self.reading_of_queries else Side.DOCUMENT
        return (self.query if self.reading_of_queries else self.document).reading(side)

    @property
    def backbone(self) -> PreTrainedModel:
        return self._reader.backbone

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        return self._reader.tokenizer

    @property
    def max_length(self) -> int:
        return int(vars(self).get("max_length", self._reader.max_length))

    @property
    def prompt(self) -> str:
        return self._reader.prompt

    @property
    def micro_batch_tokens(self) -> int | None:
        return self.document.micro_batch_tokens

    @micro_batch_tokens.setter
    def micro_batch_tokens(self, value: int | None) -> None:
        self.query.micro_batch_tokens = self.document.micro_batch_tokens = value

    @property
    def dim(self) -> int:
        return self.document.dim

    @property
    def device(self) -> torch.device:
        return self.document.device

    @property
    def sides(self) -> np.ndarray:
        return np.zeros_like(ROLES) if self.reading_of_queries else ROLES

    @property
    def unpooled(self) -> int:
        """Marks texts as queries by 1. All tokens are pooled."""
        return int(self.reading_of_queries)

    @property
    def facts(self) -> str:
        return f"{self.query.prompts} {self.query.normalize} {self.document.normalize}"

    def reading(self, side: Side) -> Self:
        """The same weights for queries. Returns itself for documents, and if it already reads queries.

        Args:
            side: Read the texts as queries or as documents.

        Returns:
            An encoder.
        """
        if not self.sides[side]:
            return self
        other = copy.copy(self)
        vars(other)["reading_of_queries"] = True
        return other

    def prompted(self, texts: Sequence[str]) -> list[str]:
        """Texts for the tokenizer.

        Args:
            texts: The texts.

        Returns:
            The texts with prompt.
        """
        return self._reader.prompted(texts)

    def beginning(self, text: str) -> str:
        """As `PooledEncoder.beginning`, for the current side.

        Args:
            text: The text.

        Returns:
            Its start, or all of it.
        """
        return self._reader.beginning(text)

    def tokenize(self, texts: Sequence[str], *, progress: bool | None = False) -> TokenTable:
        """Token numbers of each text for the current side.

        Args:
            texts: Texts without the prompt.
            progress: Progress bar. None shows it on a terminal if it takes long.

        Returns:
            Token numbers of each text.
        """
        reader = copy.copy(self._reader)
        vars(reader)["max_length"] = self.max_length  # more, where `uncut` asks
        return reader.tokenize(texts, progress=progress)

    def collate(self, token_lists: Sequence[Sequence[int] | np.ndarray]) -> Tokens:
        """Pack the tokens of several texts without padding.

        Args:
            token_lists: Token numbers of each text.

        Returns:
            The tokens as the encoder reads them.
        """
        tokens = pack(token_lists)
        tokens.unpooled = self.unpooled
        return tokens

    def forward(self, tokens: Tokens) -> Float[Tensor, "sentences dim"]:
        """Embeddings in the order in which the texts were collated, each by the encoder of its side.

        Args:
            tokens: Packed tokens, as from `collate`.

        Returns:
            Embeddings, (sentences, dim).
        """
        texts = tokens.input_ids[: int(tokens.lengths.sum())].split(tokens.lengths.tolist())
        marks = torch.as_tensor(tokens.unpooled).expand(len(texts)).tolist()
        found: list[Tensor | None] = [None] * len(texts)
        for mark, encoder in enumerate((self.document, self.query)):
            rows = [row for row, of_row in enumerate(marks) if bool(of_row) == bool(mark)]
            if rows:
                packed = pack([texts[row].cpu().numpy() for row in rows]).to(encoder.device)
                for row, embedding in zip(rows, encoder(packed), strict=True):
                    found[row] = embedding
        return torch.stack([row for row in found if row is not None])[tokens.inverse_permutation]

    @takes_peer_options
    def encode(self, texts: str | Iterable[str], *, is_query: bool | None = None, **options: Any) -> Any:
        """Encode texts into embeddings as `SentenceEncoder.encode` does.

        Args:
            texts: One text or several.
            is_query: The texts are queries. False: documents. None: the default route of the folder.
            options: Of `SentenceEncoder.encode`.

        Returns:
            Embeddings in the order of the texts. For a single text a vector.
        """
        if is_query is None:
            return self._default[0].encode(texts, **options)
        return (self.query.encode_query if is_query else self.document.encode_document)(texts, **options)

    def vectors(
        self, texts: Sequence[str], side: Side, batch_tokens: int = BATCH_TOKENS, progress: bool | None = None
    ) -> TokenVectors:
        options = {"batch_tokens": batch_tokens, "show_progress": progress}
        embeddings = unit(self.encode(list(texts), is_query=bool(ROLES[side]), **options))
        vectors = TokenVectors(len(texts))
        vectors.take(np.arange(len(texts)), embeddings, np.ones(len(texts), dtype=np.int64))
        return vectors

    def scored_vectors(
        self, tokens: Tokens
    ) -> tuple[Float[np.ndarray, "sentences dim"], Int[np.ndarray, "sentences"]]:
        """One vector of length 1 for each text as collated, and that number.

        Args:
            tokens: Packed tokens, as from `collate`.

        Returns:
            Vectors (sentences, dim), and 1 for each text.
        """
        vectors = F.normalize(self(tokens), dim=-1)
        return vectors.float().cpu().numpy(), np.ones(len(vectors), dtype=np.int64)
