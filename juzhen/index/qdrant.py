"""An index in Qdrant, for what outgrows one machine: a copy of one on disk, searched by the same calls."""

import io
import os
import pickle
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import numpy as np
from jaxtyping import Float
from typing_extensions import TypedDict

from juzhen.core.errors import UserError, foreign_reason, require_choice, require_packages
from juzhen.core.file_guard import require_outside
from juzhen.core.schema import require_form
from juzhen.encoders.peer_options import takes_peer_options
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.index.index import Index, IndexHit, check_encoder, check_search, prepare_queries
from juzhen.index.store import Where, filter_choices

LOCAL = "qdrant:"
"""Begins the address of a folder in which Qdrant's client keeps collections without a server."""


class CopiedFacts(TypedDict):
    """Facts of an index that go with it."""

    dim: int
    encoder: str
    digest: str
    prompt_name: str | None
    prompt: str | None
    fields: list[str]
    chunk_overlap: int | None


WAY_OUT = "Remove this collection, and type juzhen index push to make it again"
POINT_CLASSES = {("qdrant_client.http.models.models", "PointStruct")}
"""What the client's local mode pickles."""

AT_ONCE = 500


def is_address(text: str) -> bool:
    """True for an address of Qdrant instead of a folder.

    Args:
        text: A folder, or an address with its scheme.

    Returns:
        False for any other text.
    """
    return text.startswith((LOCAL, "http://", "https://"))


def connect(address: str) -> tuple[Any, str]:
    """Connect to a collection. QDRANT_API_KEY is sent to a server.

    Args:
        address: `http://HOST:PORT/NAME`, or `qdrant:FOLDER/NAME` for the client's local mode.

    Returns:
        A client and the name of the collection.

    Raises:
        UserError: Another address, or the client is not installed.
    """
    require_packages(address, "qdrant_client", extra="qdrant")
    from qdrant_client import QdrantClient

    root, _, name = address.rpartition("/")
    has_place = root.removeprefix(LOCAL) if address.startswith(LOCAL) else urlsplit(root).hostname
    if not (is_address(address) and name and has_place):
        raise UserError(f"{address}: expected http://HOST:PORT/COLLECTION, or {LOCAL}FOLDER/COLLECTION")
    with _answering(address):
        if address.startswith(LOCAL):
            folder = Path(root.removeprefix(LOCAL))
            require_outside(folder / name)
            for path in sorted(folder.glob("collection/*/storage.sqlite")):
                _require_plain_points(path)
            return QdrantClient(path=str(folder)), name
        key = os.environ.get("QDRANT_API_KEY")
        return QdrantClient(url=root, api_key=key, check_compatibility=False), name


@contextmanager
def _answering(address: str) -> Iterator[None]:
    """Replace errors of the client by errors with the address and advice."""
    from qdrant_client.http.exceptions import ApiException, ResponseHandlingException

    try:
        yield
    except ResponseHandlingException as error:
        raise UserError(
            f"{address}: {foreign_reason(error)}. Start Qdrant there, or name another address"
        ) from error
    except ApiException as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{address}: {reason}. Check the address and QDRANT_API_KEY") from error
    except RuntimeError as error:  # of a local folder that another client has open
        raise UserError(f"{address}: another process uses it. Start a server of Qdrant for both") from error
    except OSError as error:
        raise UserError(f"{address}: {error.strerror or error}. Name another folder") from error
    except (sqlite3.DatabaseError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise UserError(f"{address}: damaged, or not of juzhen ({error}). {WAY_OUT}") from error


class _PointReader(pickle.Unpickler):
    """Unpickler that refuses every class but that of points. A stranger's pickle can run code."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in POINT_CLASSES:
            raise ValueError(f"{module}.{name} in a point")
        return super().find_class(module, name)


def _require_plain_points(path: Path) -> None:
    """Raise ValueError or sqlite3.DatabaseError for points that the client must not unpickle."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        for (content,) in connection.execute("SELECT point FROM points"):
            try:
                _PointReader(io.BytesIO(content)).load()
            except (pickle.UnpicklingError, EOFError) as error:
                raise ValueError(f"{path}: {error}") from error


def push(folder: Path, address: str) -> tuple[int, int]:
    """Copy an index to a collection.

    Numbers of texts are never reused, so texts with known numbers are skipped.

    Args:
        folder: The index.
        address: As `connect` takes it. A missing collection is made.

    Returns:
        Number of texts sent, and removed.

    Raises:
        UserError: The collection is not a copy of such an index.
    """
    with Index.open(folder) as index:
        client, name = connect(address)
        from qdrant_client import models

        with closing(client), _answering(address):
            facts: dict[str, Any] = {key: index.view().facts.get(key) for key in CopiedFacts.__annotations__}
            if not client.collection_exists(name):
                config = models.VectorParams(size=facts["dim"], distance=models.Distance.DOT)
                client.create_collection(name, vectors_config=config, metadata={"juzhen": facts})
            present = _facts_of_collection(client, name, address)
            if present["digest"] != facts["digest"] or present["dim"] != facts["dim"]:
                raise UserError(f"{address}: holds vectors of other weights. Choose another collection")
            there = np.fromiter(_numbers(client, name), dtype=np.int64)
            live = index.store.numbers()
            new, gone = np.setdiff1d(live, there), np.setdiff1d(there, live)
            for start in range(0, len(new), AT_ONCE):
                numbers = new[start : start + AT_ONCE]
                rows, vectors = index.store.rows(numbers.tolist()), index.store.vectors(numbers)
                points = [
                    models.PointStruct(id=number, vector=vector.tolist(), payload=rows[number]._asdict())
                    for number, vector in zip(numbers.tolist(), vectors, strict=True)
                    if not np.isnan(vector).any()
                ]
                client.upsert(name, points, wait=True)
            if len(gone):
                client.delete(name, models.PointIdsList(points=gone.tolist()), wait=True)
            client.update_collection(name, metadata={"juzhen": facts})
            return len(new), len(gone)


def _facts_of_collection(client: Any, name: str, address: str) -> dict[str, Any]:
    """Raises UserError for a collection that is not there, or not ours."""
    with _answering(address):
        metadata = client.get_collection(name).config.metadata if client.collection_exists(name) else None
        facts: dict[str, Any] | None = (metadata or {}).get("juzhen")
        if facts is not None:
            require_form(facts, CopiedFacts, "its facts")
    if facts is None:
        raise UserError(
            f"{address}: no collection of juzhen at this address. Type juzhen index push to make one"
        )
    return facts


class QdrantIndex:
    """As `Index`, with vectors alone: `mode` is dense.

    Args:
        client: Client of Qdrant.
        name: Name of the collection.
        facts: Facts about the index, such as its encoder.
        encoder: Encodes queries.
        address: Address of the server, for messages.
    """

    modes = ("dense",)

    def __init__(
        self, client: Any, name: str, facts: dict[str, Any], encoder: SentenceEncoder, address: str
    ) -> None:
        self._client, self._name, self._facts, self._encoder = client, name, facts, encoder
        self._address = address

    @classmethod
    def open(cls, address: str, encoder: SentenceEncoder) -> Self:
        """Open a collection.

        Args:
            address: As in `connect`.
            encoder: Encoder of the stored vectors.

        Returns:
            The index. Close it after use.

        Raises:
            UserError: The collection is missing, or holds vectors of other weights.
        """
        client, name = connect(address)
        try:
            facts = _facts_of_collection(client, name, address)
            encoder = check_encoder(facts, encoder, address)
        except BaseException:
            client.close()
            raise
        return cls(client, name, facts, encoder, address)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._client.close()

    def __len__(self) -> int:
        with _answering(self._address):
            return int(self._client.count(self._name).count)

    def facts(self) -> dict[str, Any]:
        """Facts of the collection, by the names of `Index.facts`.

        Returns:
            Name → value.
        """
        return {
            "texts": len(self),
            "kind": "qdrant",
            "dimension": self._facts["dim"],
            "fields": self._facts["fields"],
            "modes": [*self.modes],
            "passages": False,
            "bytes_per_vector": 4.0 * self._facts["dim"],
        }

    def warm(self) -> None:
        """Nothing is made here."""

    @takes_peer_options
    def search(
        self,
        queries: Sequence[str],
        top_k: int = 10,
        *,
        mode: str = "dense",
        where: Where | None = None,
        vectors: Float[np.ndarray, "queries dim"] | None = None,
        per_document: bool = False,
        **options: Any,
    ) -> list[list[IndexHit]]:
        """Search as `Index.search`. Qdrant orders ties.

        Args:
            queries: The queries.
            top_k: Most texts of a query.
            mode: Only dense.
            where: Metadata that a text must have.
            vectors: Embeddings of the queries from `encode_query`. None: the queries are encoded with the options.
            per_document: Must be False, because Qdrant returns passages one by one.
            **options: Of `encode_query`.

        Returns:
            A list of results for each query.

        Raises:
            UserError: An unknown mode or name of metadata, wrong vectors, `per_document`, or no answer of the
                server.
        """
        from qdrant_client import models

        require_choice("mode", mode, self.modes)
        queries = check_search(queries, top_k, where, vectors, options)
        if per_document:
            raise UserError("per_document: Qdrant returns passages one by one. Leave it out")
        if vectors is None:
            vectors = self._encoder.encode_query(queries, **options)
        condition = None if not where else models.Filter(must=[*self._conditions(where)])
        requests = [
            models.QueryRequest(query=vector.tolist(), limit=top_k, filter=condition, with_payload=True)
            for vector in prepare_queries(self._encoder, vectors, self._facts["dim"], len(queries))
        ]
        with _answering(self._address):
            replies = self._client.query_batch_points(self._name, requests)
            return [[_hit(point, rank) for rank, point in enumerate(reply.points, 1)] for reply in replies]

    def _conditions(self, where: Where) -> Iterator[Any]:
        from qdrant_client import models

        for name, value in where.items():
            choices = filter_choices(name, value, self._facts["fields"])
            yield models.Filter(should=[_condition(f"metadata.{name}", choice) for choice in choices])


def _condition(key: str, value: Any) -> Any:
    from qdrant_client import models

    if value is None:
        return models.IsNullCondition(is_null=models.PayloadField(key=key))
    if isinstance(value, float):
        return models.FieldCondition(key=key, range=models.Range(gte=value, lte=value))
    return models.FieldCondition(key=key, match=models.MatchValue(value=value))


def _hit(point: Any, rank: int) -> IndexHit:
    row, score = point.payload, float(point.score)
    span = row.get("span")  # of a passage
    span = None if span is None else (int(span[0]), int(span[1]))
    ranks = {"dense": rank}
    return IndexHit(
        int(point.id), row["id"], row["text"], row["metadata"], score, ranks, row.get("document"), span
    )


def _numbers(client: Any, name: str) -> Iterator[int]:
    offset = None
    while True:
        points, offset = client.scroll(
            name, limit=10_000, offset=offset, with_payload=False, with_vectors=False
        )
        yield from (int(point.id) for point in points)
        if offset is None:
            return
