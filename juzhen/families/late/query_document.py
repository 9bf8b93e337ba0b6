"""QueryDocumentEncoder: queries and documents are read by encoders of their own (a Router of sentence-transformers)."""

import copy
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from juzhen.core.batch import Tokens
from juzhen.core.errors import UserError
from juzhen.core.examples import Side
from juzhen.core.machine import open_device
from juzhen.encoders.asymmetric import AsymmetricEncoder
from juzhen.encoders.backbone_config import BackboneConfig
from juzhen.encoders.components import read_components
from juzhen.encoders.forward import pack
from juzhen.encoders.layout import ROUTED, gives_routes, read_chains
from juzhen.encoders.pooling import unit
from juzhen.encoders.resolve_path import download, encoder_source, locate_folder
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.encoders.thresholds import ThresholdMixin
from juzhen.encoders.tokens import BATCH_TOKENS, TokenTable
from juzhen.families.late.scores import TokenVectors

ROLES = np.array([Side.EVERY, Side.QUERY, Side.EVERY, Side.QUERY], dtype=np.int8)
"""Sides: what is no query is read as a document."""


class QueryDocumentEncoder(AsymmetricEncoder, ThresholdMixin):
    """Embeddings of one space from two encoders; the score of a query and a document is their cosine.

    query, document  what reads each
    default          what reads texts of which nothing is said

    It is used and evaluated, and neither trained nor saved. Each of the two is an encoder of sentences.
    """

    family: ClassVar[str] = "query_document"
    reading_of_queries: bool = False
    sums: ClassVar[bool] = False

    def __init__(
        self, query: SentenceEncoder, document: SentenceEncoder, *, default: SentenceEncoder
    ) -> None:
        super().__init__()
        for one in (query, document):
            if not one.prompts.include_prompt:
                raise UserError(
                    "include_prompt=false: with weights of their own for queries and documents all tokens count. "
                    "Put true in its place"
                )
        if query.dim != document.dim:
            raise UserError(
                f"its queries have {query.dim} numbers and its documents {document.dim}, which have no cosine. Use one "
                "of the two by itself"
            )
        self.query, self.document = query, document
        self._default = [default]  # no part of its own

    @classmethod
    def load(
        cls, source: str | Path, *, revision: str | None = None, device: str | torch.device = "cpu"
    ) -> Self:
        """The encoder in a folder or of the hub: one of sentence-transformers with a Router, in float32.

        Raises UserError where there is none.
        """
        target, path = open_device(device), encoder_source(source)
        folder = locate_folder(path) or download(path, revision)
        if not gives_routes(folder):
            raise UserError(f"{source}: holds no {ROUTED}: SentenceEncoder.load(…)")
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

    def save(self, folder: str | Path, *, card: dict[str, Any] | None = None) -> Path:
        """Raises UserError: what it is made of is not written again."""
        raise UserError(f"save: a {ROUTED} is not written here. Copy the folder that it was loaded from")

    def write_files(self, folder: Path, card: dict[str, Any], place: str) -> None:
        """Raises UserError as `save` does."""
        self.save(folder)

    @property
    def inner(self) -> Self:
        return self

    @property
    def _reader(self) -> SentenceEncoder:
        """What reads texts now."""
        return (
            self.query.reading(Side.QUERY)
            if self.reading_of_queries
            else self.document.reading(Side.DOCUMENT)
        )

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
        """All tokens are pooled: 1 says of a text that it is a query."""
        return int(self.reading_of_queries)

    @property
    def facts(self) -> str:
        return f"{self.query.prompts} {self.query.normalize} {self.document.normalize}"

    def reading(self, side: Side) -> Self:
        """The same weights for queries; itself for documents, and where it reads queries already."""
        if not self.sides[side]:
            return self
        other = copy.copy(self)
        other.reading_of_queries = True
        return other

    def prompted(self, texts: Sequence[str]) -> list[str]:
        """The texts as the tokenizer gets them."""
        return self._reader.prompted(texts)

    def tokenize(self, texts: Sequence[str], *, progress: bool | None = False) -> TokenTable:
        """Token numbers of each text as it is read now."""
        reader = copy.copy(self._reader)
        vars(reader)["max_length"] = self.max_length  # more, where `uncut` asks
        return reader.tokenize(texts, progress=progress)

    def collate(self, token_lists: Sequence[Sequence[int] | np.ndarray]) -> Tokens:
        """Tokens of several texts, packed without padding."""
        tokens = pack(token_lists)
        tokens.unpooled = self.unpooled
        return tokens

    def forward(self, tokens: Tokens) -> Float[Tensor, "sentences dim"]:
        """Embeddings in the order in which the texts were collated, each by the encoder of its side."""
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

    def encode(self, texts: str | Iterable[str], *, is_query: bool | None = None, **options: Any) -> Any:
        """Embeddings of the texts in order, as of `SentenceEncoder.encode`; of one text a vector.

        is_query  the texts are queries; False: documents; None: nothing is said of them, as the folder has it
        """
        if is_query is None:
            return self._default[0].encode(texts, **options)
        return (self.query.encode_query if is_query else self.document.encode_document)(texts, **options)

    def vectors(
        self, texts: Sequence[str], side: Side, batch_tokens: int = BATCH_TOKENS, progress: bool | None = None
    ) -> TokenVectors:
        """One vector of length 1 for each text, read as a query or as a document."""
        options = {"batch_tokens": batch_tokens, "show_progress": progress}
        embeddings = unit(self.encode(list(texts), is_query=bool(ROLES[side]), **options))
        vectors = TokenVectors(len(texts))
        vectors.take(np.arange(len(texts)), embeddings, np.ones(len(texts), dtype=np.int64))
        return vectors

    def scored_vectors(
        self, tokens: Tokens
    ) -> tuple[Float[np.ndarray, "sentences dim"], Int[np.ndarray, "sentences"]]:
        """One vector of length 1 for each text as collated, and that number."""
        vectors = functional.normalize(self(tokens), dim=-1)
        return vectors.float().cpu().numpy(), np.ones(len(vectors), dtype=np.int64)
