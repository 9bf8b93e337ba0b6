"""Negatives that are mined repeatedly, by the encoder in training."""

import signal
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from juzhen.core.atomic_write import atomic_write, remove_file, remove_folder
from juzhen.core.examples import Examples, Kind, negative_columns
from juzhen.core.file_guard import claim_dir
from juzhen.core.safe_open import require_file
from juzhen.data.rankings import as_ranking, as_retrieval
from juzhen.encoders.asymmetric import AsymmetricEncoder
from juzhen.encoders.save import save_encoder
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.mining.candidates import (
    Advance,
    AsymmetricRetriever,
    DenseRetriever,
    Found,
    Numbers,
    Retriever,
    Scores,
    load_source,
)
from juzhen.mining.filters import REASONS, Known, Reason, chosen
from juzhen.mining.negatives import SHARD_QUERIES
from juzhen.mining.options import OWN, MiningOptions, PositiveReference
from juzhen.mining.shard import Miner

EASIER, FAR = 1.15, 0.8
"""A negative has become easy when EASIER × its score is below that at its mining, and its size below FAR.

FAR is a cosine; dot products of sparse vectors are of any size, and the first rule alone is theirs.

(Li et al. 2024, https://arxiv.org/abs/2408.15710, who look at the mean over a query's negatives.)
"""


@dataclass(frozen=True)
class InForce:
    """Current negatives of each query, or of each positive with `positive_reference=own`, hard ones first.

    Args:
        documents: Numbers in the corpus, int32. −1 marks a missing negative.
        scores: Scores when they were mined, float32.
        is_hard: Retrieved by score, not random.
    """

    documents: Int[np.ndarray, "places negatives"]
    scores: Float[np.ndarray, "places negatives"]
    is_hard: Bool[np.ndarray, "places negatives"]

    def score(self, slots: Numbers, documents: Numbers) -> Scores:
        """Return scores when they were mined, NaN if the document is not a hard negative of that slot."""
        is_it = (self.documents[slots] == documents[:, None]) & self.is_hard[slots]
        scores = np.where(is_it, self.scores[slots], 0).sum(axis=1)
        return np.where(is_it.any(axis=1), scores, np.nan)


@dataclass(frozen=True)
class NegativesInForce:
    """A source of candidates: the current hard negatives.

    Args:
        starts: Start of each query's slots in `found`, and the end of the last.
    """

    found: InForce
    starts: Int[np.ndarray, "queries+1"]

    name = digest = "in_force"

    def search(self, queries: Int[np.ndarray, "queries"], k: int, advance: Advance) -> Found:
        """Put documents at the end of lists of `k` or more, so that a window of ranks includes them."""
        hard = np.where(self.found.is_hard, self.found.documents, -1).astype(np.int64)
        lists = [hard[self.starts[query] : self.starts[query + 1]].ravel() for query in queries.tolist()]
        width = max(k, *(len(row) for row in lists))
        documents = np.stack([np.pad(row, (width - len(row), 0), constant_values=-1) for row in lists])
        return documents, np.zeros(documents.shape, dtype=np.float32)

    def score(self, queries: Numbers, documents: Numbers) -> Scores:
        """Return NaN. The first source scores."""
        return np.full(len(queries), np.nan, dtype=np.float32)


class MinedRows:
    """Rows of positive pairs or triplets with mined negatives.

    Queries are the distinct anchors. The corpus is all distinct positives and negatives, plus the documents of the
    retrieval set that the rows were made from (`juzhen.data.rankings`).

    Args:
        positive_reference: As in `MiningOptions`.

    Raises:
        UserError: No anchor has another text for a positive.
    """

    def __init__(self, examples: Examples, *, positive_reference: PositiveReference = "lowest") -> None:
        self.examples = examples
        judged = as_retrieval(examples)
        assert judged.documents is not None  # as_retrieval names the corpus
        # As training reads the rows: without a word on who asks, all behind the prompt before every sentence.
        self.ranking = replace(as_ranking(judged), symmetric=examples.symmetric)
        self._known, self._corpus = Known(self.ranking), judged.documents
        queries, anchors = np.unique(judged.columns["query"]), examples.columns["anchor"]
        positions = np.minimum(np.searchsorted(queries, anchors), len(queries) - 1)
        self._place = np.where(queries[positions] == anchors, positions, -1)
        self._positive_reference, self._starts = positive_reference, np.arange(len(queries) + 1)
        if positive_reference == OWN:
            document = np.searchsorted(self._corpus, examples.columns["positive"])
            positions_of_positives = self._known.place(np.maximum(self._place, 0), document)
            self._place, self._starts = (
                np.where(self._place < 0, -1, positions_of_positives),
                self._known.starts,
            )

    def mined(
        self,
        encoder: SentenceEncoder | AsymmetricEncoder,
        options: MiningOptions,
        *,
        batch_tokens: int,
        before: InForce | None = None,
    ) -> InForce:
        """Mine negatives with the encoder's current weights. All draws use `options.seed`.

        Args:
            before: Negatives in use. Hard ones stay while the rules keep them and they have not become easy.
                Default: mine all from scratch.
        """
        kind: Any = AsymmetricRetriever if isinstance(encoder, AsymmetricEncoder) else DenseRetriever
        source = kind(encoder, self.ranking, batch_tokens=batch_tokens, progress=False)
        options = replace(options, positive_reference=self._positive_reference)
        sources: list[Retriever] = (
            [source] if before is None else [source, NegativesInForce(before, self._starts)]
        )
        miner = Miner(self.ranking, sources, self._known, options, None)
        starts = range(0, len(self.ranking.queries), SHARD_QUERIES)
        far = np.inf if getattr(encoder, "family", None) == "sparse" else FAR
        parts = [self._shard(miner, start, before, far=far) for start in starts]
        return InForce(*map(np.concatenate, zip(*map(astuple, parts), strict=True)))

    def _shard(self, miner: Miner, start: int, before: InForce | None, *, far: float) -> InForce:
        queries = np.arange(start, min(start + SHARD_QUERIES, len(self.ranking.queries)))
        pool, codes, _ = miner.candidates(queries, lambda count: None)
        if self._positive_reference == OWN:
            pool, codes = miner.by_row(pool, codes, miner.rows(pool, queries))
        scores, stays = pool.score, None
        if before is not None:
            then = before.score(pool.query, pool.document)
            # Never where there is no score of then.
            is_easy = (EASIER * scores < then) & (np.abs(scores) < far)
            codes[is_easy & (codes == 0)] = REASONS.index(Reason.BECOME_EASY)
            stays = ~np.isnan(then)
            scores = np.where(stays, then, scores)
        taken = np.flatnonzero(chosen(pool, codes, miner.options, staying=stays))
        first, end = self._starts[queries[0]], self._starts[queries[-1] + 1]
        rows = pool.query[taken] - first
        positions = np.arange(len(taken)) - np.searchsorted(rows, rows)
        shape = int(end - first), miner.options.num_negatives
        negatives = InForce(
            np.full(shape, -1, np.int32), np.zeros(shape, np.float32), np.zeros(shape, np.bool_)
        )
        negatives.documents[rows, positions] = pool.document[taken]
        negatives.scores[rows, positions] = scores[taken]
        negatives.is_hard[rows, positions] = pool.rank[taken] > 0
        return negatives

    def with_negatives(self, mined: InForce) -> Examples:
        """Return the rows as triplets. A missing negative is filled with the row's positive, which has no gradient."""
        columns = {name: self.examples.columns[name] for name in ("anchor", "positive")}
        documents = np.where(self._place[:, None] < 0, -1, mined.documents[self._place])
        numbers = np.where(documents < 0, columns["positive"][:, None], self._corpus[documents])
        names = negative_columns(numbers.shape[1])
        negatives = dict(zip(names, np.ascontiguousarray(numbers.T, dtype=np.int32), strict=True))
        return replace(self.examples, kind=Kind.TRIPLET, columns=columns | negatives, missing=None)

    def changed(self, before: InForce | None, after: InForce) -> float:
        """Share of rows whose negatives have changed."""
        if before is None:
            return 1.0
        is_other = (np.sort(before.documents) != np.sort(after.documents)).any(axis=1)
        return float(is_other[self._place].mean(where=self._place >= 0))


@dataclass(frozen=True)
class Request:
    """Arguments of `MinedRows.mined` without the encoder."""

    rows: MinedRows
    options: MiningOptions
    batch_tokens: int
    before: InForce | None

    def mined(self, encoder: SentenceEncoder | AsymmetricEncoder) -> InForce:
        return self.rows.mined(encoder, self.options, batch_tokens=self.batch_tokens, before=self.before)


WEIGHTS, FOUND = "encoder", "found.npz"
OF_MINING = r"(encoder|found\.npz)"


class BackgroundMiner:
    """Mines in a second process. Weights and results are files in a folder, so that a resumed session continues.

    Args:
        folder: Folder of this miner alone. It holds one request at a time.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: BaseProcess | None = None

    def begin(self, requests: Mapping[str, Request], encoder: SentenceEncoder) -> None:
        """Save the current weights and start."""
        claim_dir(self.folder)
        remove_file(self.folder / FOUND)
        save_encoder(encoder, self.folder / WEIGHTS, card={"name": "weights that negatives are mined with"})
        self.go_on(requests, device=str(encoder.device))

    def go_on(self, requests: Mapping[str, Request], *, device: str) -> None:
        """Start with saved weights. Does nothing if the result exists."""
        if (self.folder / FOUND).exists():
            return
        arguments = self.folder, dict(requests), device, torch.get_num_threads()
        self._process = get_context("spawn").Process(target=_work, args=arguments, daemon=True)
        self._process.start()

    def found(self) -> dict[str, InForce]:
        """Wait for the result and return it. The file is missing if the process ended early."""
        if self._process is not None:
            self._process.join()
            if self._process.exitcode:
                raise RuntimeError(
                    f"the process that mines negatives ended with status {self._process.exitcode}"
                )
        mined: dict[str, dict[str, np.ndarray]] = {}
        with np.load(require_file(self.folder / FOUND)) as arrays:
            for key in arrays.files:
                name, _, column = key.rpartition("/")
                mined.setdefault(name, {})[column] = arrays[key]
        return {name: InForce(**columns) for name, columns in mined.items()}

    def clear(self) -> None:
        """Remove its files."""
        remove_folder(self.folder, rf"{OF_MINING}/.*|{OF_MINING}")

    def stop(self) -> None:
        """Kill the process. Its files stay for a resumed session."""
        if self._process is not None:
            self._process.kill()
            self._process.join()


def _work(folder: Path, requests: Mapping[str, Request], device: str, threads: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is told to the first process, which ends this one
    torch.set_num_threads(threads)
    encoder = load_source(folder / WEIGHTS).train().to(device)
    mined = {
        f"{name}/{column}": values
        for name, request in requests.items()
        for column, values in vars(request.mined(encoder)).items()
    }
    with atomic_write(folder / FOUND, "wb", in_own_folder=True) as file:
        np.savez(file, **mined)
