"""Evaluation of cross-encoders and lexical baselines: the texts to read, and their outputs."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from juzhen.core.batch import Batch
from juzhen.core.columns import require_finite
from juzhen.core.errors import UserError, require_choice
from juzhen.core.examples import NLI_GRADES, Comparisons, Kind, SentenceUnion, Side
from juzhen.core.kinds import UNSCORED_BY_BM25, UNSCORED_BY_PAIRS
from juzhen.core.result import Score
from juzhen.core.text import counted
from juzhen.data.loading import TransferTask
from juzhen.data.rankings import RankingSet
from juzhen.encoders.pair_encoder import PairEncoder
from juzhen.encoders.projection import similarity
from juzhen.evaluation.encoding_plan import (
    ALIKE,
    NOTHING,
    CosinePlan,
    EncodingPlan,
    Evaluator,
    Matcher,
    Sets,
    Tables,
)
from juzhen.metrics import lexical
from juzhen.metrics.classification import Features, combined, score_classes
from juzhen.metrics.lexical import BM25, CHARACTERS, K1, B, cut_of
from juzhen.metrics.ranking import COSINE_TEMPERATURE


class CrossEncoderPlan(EncodingPlan):
    """Scores every distinct pair of several sets once. (a, b) and (b, a) are two pairs.

    Of the model's output for a pair, the first number is its score and the others are its class logits.

    Args:
        sets, tasks: As of `EncodingPlan`.

    Raises:
        UserError: A ranking without candidates: each query would be read with each document.
    """

    temperature = 1.0
    searches = False

    def __init__(self, sets: Sets, tasks: Sequence[TransferTask] = ()) -> None:
        super().__init__(sets)
        union = SentenceUnion(self.sets, ([*ranking.queries, *ranking.corpus] for ranking in self.rankings))
        self._compared = [union.comparisons(number) for number in range(len(self.sets))]
        pairs = [np.stack([ranking.first, ranking.second], axis=1) for ranking in self._compared]
        for number, ranking in enumerate(self.rankings, start=len(self.sets)):
            candidates = _candidates(ranking)
            queries = np.repeat(np.arange(len(ranking.queries)), [len(named) for named in candidates])
            pair_places = np.stack([queries, len(ranking.queries) + np.concatenate(candidates)], axis=1)
            pairs.append(union.numbers[number][pair_places])
        distinct, rows = np.unique(
            np.concatenate([np.empty((0, 2), np.int64), *pairs]), axis=0, return_inverse=True
        )
        self._rows = np.split(rows.ravel(), np.cumsum([len(ranking) for ranking in pairs])[:-1])[: len(pairs)]
        first, second = distinct.astype(np.int32).T
        columns = {"text_a": first, "text_b": second}
        pairs_once = replace(union.examples, kind=Kind.SCORED_PAIR, columns=columns)
        self.examples = pairs_once if len(distinct) else NOTHING
        self.sentences, self.pending = union.examples.sentences, np.arange(len(union.examples))
        self._numbers = union.numbers

    def tables(self) -> Tables:
        return list(zip(self.sets, self._numbers, strict=False))

    def scores(self, outputs: Float[np.ndarray, "pairs outputs"]) -> list[np.ndarray]:
        of_sets = zip(self._compared, self._rows, strict=False)
        return [compared.shaped(outputs[rows, 0]) for compared, rows in of_sets]

    def logits(self, outputs: Float[np.ndarray, "pairs outputs"]) -> list[Float[np.ndarray, "rows classes"]]:
        """Return the class logits per row of each set.

        Args:
            outputs: Of the model for `examples`, in order. The first number of a pair is its score.

        Returns:
            (rows, classes) per set. (rows, 0) if the model has no classes.
        """
        return [outputs[rows, 1:] for rows in self._rows[: len(self.sets)]]

    def matchers(self, outputs: Float[np.ndarray, "pairs outputs"]) -> list[Matcher]:
        of_rankings = zip(self.rankings, self._rows[len(self.sets) :], strict=True)
        return [_pair_matcher(ranking, outputs[rows, 0]) for ranking, rows in of_rankings]


def _candidates(ranking: RankingSet) -> list[Int[np.ndarray, "documents"]]:
    """Distinct candidates of each query. Raises UserError without candidates."""
    if ranking.candidates is None:
        raise UserError(
            f"{ranking.column}: a cross-encoder would read each of {counted(len(ranking.queries), 'queries')} with "
            f"each of {counted(len(ranking.corpus), 'documents')}. Give candidates, or rank with a bi-encoder"
        )
    return [np.unique(named) for named in ranking.candidates]


def _pair_matcher(ranking: RankingSet, scores: Float[np.ndarray, "pairs"]) -> Matcher:
    ends = np.cumsum([len(named) for named in _candidates(ranking)])
    of_queries = np.split(scores, ends[:-1])
    return lambda queries, documents: np.stack([of_queries[query] for query in queries])


class PairEvaluator(Evaluator):
    """A cross-encoder: the score of each pair, then its class logits if the head has classes.

    Args:
        encoder: The cross-encoder.
    """

    unscored = UNSCORED_BY_PAIRS
    plan_type = CrossEncoderPlan

    def __init__(self, encoder: PairEncoder) -> None:
        self.encoder = encoder

    def plan(self, sets: Sets, tasks: Sequence[TransferTask] = ()) -> EncodingPlan:
        for dataset in sets:
            kind = None if isinstance(dataset, RankingSet) else dataset.kind
            self.encoder.require_order(f"{dataset.split}/{dataset.name}", kind, dataset.symmetric)
        return super().plan(sets, tasks)

    def output(self, batch: Batch) -> Float[Tensor, "batch outputs"]:
        if batch.task == NOTHING.name:
            return torch.zeros(len(batch), 1)
        logits = pair_logits(self.encoder, batch)
        scores = similarity(logits, self.encoder.grades).unsqueeze(1)
        return torch.cat([scores, logits], dim=1) if logits.shape[1] > 1 else scores

    def finished(self, plan: EncodingPlan, outputs: np.ndarray) -> dict[str, Score]:
        assert isinstance(plan, CrossEncoderPlan)  # made by `plan`
        return {
            f"{dataset.split}/{dataset.name}/{metric}": score
            for dataset, logits in zip(plan.sets, plan.logits(outputs), strict=True)
            if dataset.kind is Kind.NLI_PAIR and self.encoder.grades == NLI_GRADES
            for metric, score in score_classes(logits, dataset).items()
        }


def pair_logits(encoder: PairEncoder, batch: Batch) -> Float[Tensor, "batch outputs"]:
    """Compute the logits of the pairs of a batch, as the mean over the orders in which it has each pair.

    Args:
        encoder: A cross-encoder.
        batch: A column of rows for each order.

    Returns:
        One logit for a score, or one for each class.
    """
    logits = encoder(batch.tokens)
    return torch.stack([logits[rows] for rows in batch.columns.values()]).mean(dim=0)


class LexicalPlan(EncodingPlan):
    """Scores from the texts alone, by a method of `juzhen.metrics.lexical`. Needs no network.

    Args:
        sets, tasks: As of `EncodingPlan`.
        method, tokens: As of `lexical_scores`.
    """

    temperature = COSINE_TEMPERATURE
    examples = NOTHING

    def __init__(
        self,
        sets: Sets,
        tasks: Sequence[TransferTask] = (),
        *,
        method: str = lexical.TF_IDF,
        tokens: str = CHARACTERS,
    ) -> None:
        super().__init__(sets, tasks)
        self._overlap = None if method == lexical.TF_IDF else partial(lexical.overlap, method=method)
        self._vectors, self._compare = lexical.lexical_vectors, lexical.similarities
        if self._overlap:
            self._vectors = partial(lexical.term_sets, tokens=tokens)
            self._compare = partial(lexical.overlaps, method=method)

    def scores(self, outputs: np.ndarray) -> list[np.ndarray]:
        """Score the rows of each set by terms counted over these rows, see `juzhen.metrics.lexical.lexical_scores`.

        Args:
            outputs: Unused, because no encoder runs.

        Returns:
            As `EncodingPlan.scores`.
        """
        scored = []
        for dataset in self.sets:
            counted = [text for column in dataset.columns for text in dataset.texts(column)]
            vectors = self._vectors(dataset.sentences, counted=counted)
            scored.append(Comparisons.of(dataset).scored(partial(self._compare, vectors)))
        return scored

    def matchers(self, outputs: np.ndarray) -> list[Matcher]:
        return [self._matcher(ranking) for ranking in self.searched]

    def _matcher(self, ranking: RankingSet) -> Matcher:
        """Terms are counted over the documents. Other terms of a query count for its overlap as well."""
        counted = [*ranking.queries, *ranking.corpus] if self._overlap else ranking.corpus
        queries, documents = (
            self._vectors(texts, counted=counted) for texts in (ranking.queries, ranking.corpus)
        )
        sizes = [np.asarray(side.sum(axis=1)).ravel() for side in (queries, documents)]

        def score(
            numbers: np.ndarray, candidates: np.ndarray | None
        ) -> Float[np.ndarray, "queries documents"]:
            chosen = slice(None) if candidates is None else candidates
            shared = (queries[numbers] @ documents[chosen].T).toarray()
            if self._overlap is None:
                return shared
            return self._overlap(shared, sizes[0][numbers, None], sizes[1][None, chosen])

        return score

    def features(self, outputs: np.ndarray) -> list[dict[str, Features]]:
        """Return features by terms that are counted over the classifier's training rows.

        Without a training split, which is judged in folds, they are counted over all rows.

        Args:
            outputs: Unused, because no encoder runs.

        Returns:
            For each task: split → features of length 1.
        """
        features = []
        for task in self.tasks:
            texts = {
                name: [split.texts(column) for column in split.columns] for name, split in task.splits.items()
            }
            fitted_on = [texts["train"]] if "train" in texts else texts.values()
            counted = [text for columns in fitted_on for column in columns for text in column]
            vectors = partial(self._vectors, counted=counted)
            of_splits = {name: [*map(vectors, of_split)] for name, of_split in texts.items()}
            if self._overlap:  # as long as vectors of TF-IDF, for the same penalties
                from sklearn.preprocessing import normalize

                of_splits = {name: [*map(normalize, of_split)] for name, of_split in of_splits.items()}
            features.append({name: combined(of_split, task.kind) for name, of_split in of_splits.items()})
        return features


class LexicalEvaluator(Evaluator):
    """TF-IDF or overlap of terms, without an encoder.

    Args:
        method, tokens: As of `lexical_scores`.

    Raises:
        UserError: An unknown method, or jieba is needed and not installed.
    """

    family: ClassVar[str] = "lexical"
    plan_type: ClassVar[type[EncodingPlan]] = LexicalPlan

    def __init__(self, *, method: str = lexical.TF_IDF, tokens: str = CHARACTERS) -> None:
        require_choice("method", method, lexical.METHODS)
        if method != lexical.TF_IDF:
            cut_of(tokens)
        self._make = partial(LexicalPlan, method=method, tokens=tokens)

    def plan(self, sets: Sets, tasks: Sequence[TransferTask] = ()) -> EncodingPlan:
        return self._make(sets, tasks)

    def output(self, batch: Batch) -> Float[Tensor, "batch"]:
        return torch.zeros(len(batch))


class BM25Plan(LexicalPlan):
    """Rankings by the terms that a query shares with a document, see `juzhen.metrics.lexical`.

    Documents without a term of the query come last, in their order.

    Args:
        index: Builds the BM25 of a corpus.

    Raises:
        UserError: A set that is not a ranking.
    """

    def __init__(self, sets: Sets, *, index: Callable[[Sequence[str]], BM25] = BM25) -> None:
        super().__init__(sets)
        self._index = index
        for dataset in self.sets:
            raise UserError(f"{dataset.split}/{dataset.name}: {UNSCORED_BY_BM25[dataset.kind]}")

    def matchers(self, outputs: np.ndarray) -> list[Matcher]:
        return [_bm25_matcher(ranking, self._index(ranking.corpus)) for ranking in self.rankings]


def _bm25_matcher(ranking: RankingSet, index: BM25) -> Matcher:
    def score(queries: np.ndarray, documents: np.ndarray | None) -> Float[np.ndarray, "queries documents"]:
        scores = np.stack([index.scores(ranking.queries[query]) for query in queries.tolist()])
        return scores if documents is None else scores[:, documents]

    return score


class BM25Evaluator(LexicalEvaluator):
    """BM25, without an encoder.

    Args:
        tokens, k1, b: As of `juzhen.metrics.lexical.BM25`.

    Raises:
        UserError: jieba is requested and not installed.
    """

    unscored = UNSCORED_BY_BM25

    def __init__(self, *, tokens: str = CHARACTERS, k1: float = K1, b: float = B) -> None:
        cut_of(tokens)
        self._index = partial(BM25, tokens=tokens, k1=k1, b=b)

    def plan(self, sets: Sets, tasks: Sequence[TransferTask] = ()) -> BM25Plan:
        return BM25Plan(sets, index=self._index)


THEIR_SIDES = np.array([Side.EVERY, Side.QUERY, Side.DOCUMENT, Side.QUERY], dtype=np.int8)
"""Sides of an encoder of another library that reads queries and documents by two methods."""


class VectorEvaluator(Evaluator):
    """Vectors computed elsewhere: by an encoder of another library, a server, or a function.

    `encode_query` and `encode_document` of an encoder read the two sides of a ranking.

    Args:
        encoder: A function of texts, or an object with `encode`.

    Raises:
        UserError: Output that is not vectors.
    """

    plan_type = CosinePlan

    def __init__(self, encoder: Any) -> None:
        self._encode = getattr(encoder, "encode", encoder)
        if not callable(self._encode):
            raise UserError(
                f"encoder: {type(encoder).__name__} gives no vectors. Give a path, or an object with encode(texts)"
            )
        of_sides: list[Any] = [getattr(encoder, name, None) for name in ("encode_query", "encode_document")]
        self._sides = ALIKE
        self._readers: dict[int, Callable[[list[str]], Any]] = {Side.EVERY: self._encode}
        if all(map(callable, of_sides)):
            self._sides = THEIR_SIDES
            self._readers |= dict(zip((Side.QUERY, Side.DOCUMENT), of_sides, strict=True))

    def plan(self, sets: Sets, tasks: Sequence[TransferTask] = ()) -> CosinePlan:
        return CosinePlan(sets, tasks, sides=self._sides)

    def output(self, batch: Batch) -> Float[Tensor, "batch dim"]:
        raise NotImplementedError("vectors come from elsewhere, not from batches")

    def vectors(self, plan: EncodingPlan) -> Float[np.ndarray, "sentences dim"]:
        """Encode the sentences of a plan with the encoder's own functions.

        Args:
            plan: Each sentence is encoded once, as a query, as a document, or as both are.

        Returns:
            float32, a row for each sentence of the plan.

        Raises:
            UserError: Another number of vectors, no real numbers, or values that are not finite.
        """
        assert isinstance(plan, CosinePlan)  # made by `plan`
        parts: dict[int, np.ndarray] = {}
        for side in np.unique(plan.read).tolist():
            rows = np.flatnonzero(plan.read == side)
            texts = [plan.sentences[row] for row in rows.tolist()]
            given = self._readers[side](texts)
            vectors = np.asarray(given.detach().float().cpu() if isinstance(given, Tensor) else given)
            if vectors.dtype.kind not in "fiu":
                raise UserError(
                    f"encode: gives {vectors.dtype}. Expected a vector of real numbers for each text"
                )
            vectors = vectors.astype(np.float32)
            if vectors.ndim != 2 or len(vectors) != len(texts) or not vectors.shape[1]:
                raise UserError(
                    f"encode: {counted(len(texts), 'texts')} became an array of shape {vectors.shape}. "
                    "Expected a vector for each"
                )
            require_finite(vectors, texts)
            parts[side] = vectors
        outputs = np.empty((len(plan.sentences), next(iter(parts.values())).shape[1]), dtype=np.float32)
        for side, vectors in parts.items():
            outputs[plan.read == side] = vectors
        return outputs


def embedding_cache_dir(is_kept: bool, cache_dir: str | None) -> str | None:
    """Return the folder in which embeddings are kept.

    Args:
        is_kept: `evaluation.cache_embeddings`.
        cache_dir: Folder of all caches. None: no cache.

    Returns:
        The folder, or None if embeddings are not kept.

    Raises:
        UserError: Embeddings must be kept and there is no cache.
    """
    if is_kept and cache_dir is None:
        raise UserError(
            "cache_embeddings=true: embeddings are kept below cache_dir, which is null. "
            "Choose a folder for it"
        )
    return cache_dir if is_kept else None
