"""Encoding plans: which texts an evaluation encodes, once each, and how scores and ranked lists are read from them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from juzhen.backends import open_backend, require_packages
from juzhen.backends.names import BackendName
from juzhen.core.batch import Batch
from juzhen.core.errors import UserError
from juzhen.core.examples import JUDGED, TEXT_COLUMNS, Examples, Kind, SentenceUnion, Side, sides_of
from juzhen.core.kinds import UNSCORED
from juzhen.core.result import Score
from juzhen.core.text import counted
from juzhen.data.loading import TransferTask
from juzhen.data.rankings import RankingSet, StandardQuestions, as_ranking, as_standard_questions
from juzhen.encoders.chunks import Backend, computed
from juzhen.encoders.embedding_cache import CachePartition, EmbeddingCache
from juzhen.encoders.pooling import pair_scores, sides, truncate_vectors
from juzhen.encoders.projection import BilinearScore
from juzhen.encoders.search import Best
from juzhen.encoders.sentence_encoder import SentenceEncoder
from juzhen.metrics.classification import Features, combined
from juzhen.metrics.ranking import COSINE_TEMPERATURE, FirstAnswers, RankedLists

SCORES_AT_ONCE = 2**24
"""Scores of queries with a whole corpus that are held at a time, 64 MiB: never those of all queries."""

MOST_QUERIES = 256
"""Queries that are compared with a small corpus at a time."""

Matcher = Callable[[np.ndarray, np.ndarray | None], Float[np.ndarray, "queries documents"]]
"""Numbers of queries and of documents (None: all) → their scores, higher = closer."""


def ranked_lists(ranking: RankingSet, score: Matcher, *, depth: int) -> RankedLists:
    """Find the `depth` best documents of each query, and mark those with equal scores.

    Of equal scores the document with the lower number comes first, which no metric depends on.

    Args:
        ranking: Queries, corpus, and where a set has them the candidates of each query.
        score: Scores some queries with some documents. None stands for the whole corpus.
        depth: Length of a list. A smaller corpus gives shorter lists.

    Returns:
        The lists, −1 where there are fewer documents.

    Raises:
        UserError: Scores that are not finite.
    """
    queries, depth = np.arange(len(ranking.queries)), min(depth, len(ranking.corpus))
    ranked = np.full((len(queries), depth), -1, dtype=np.int32)
    values = np.full(ranked.shape, -np.inf, dtype=np.float32)
    beyond, answers = np.zeros(len(queries), dtype=np.int64), [np.empty((2, 0), dtype=np.int64)]
    at_once = 1 if ranking.candidates else _queries_at_once(ranking)
    for start in range(0, len(queries), at_once):
        portion = queries[start : start + at_once]
        documents = None if ranking.candidates is None else np.unique(ranking.candidates[start])
        scores = np.asarray(score(portion, documents), dtype=np.float32)
        require_finite(scores, ranking.column)
        numbers = np.arange(len(ranking.corpus)) if documents is None else documents
        if ranking.own is not None:
            scores = np.where(numbers == ranking.own[portion, None], np.float32(-np.inf), scores)
        best = Best(len(portion), depth)
        best.add(scores, 0)
        positions, values[portion] = best.lists()
        ranked[portion] = np.where(positions < 0, -1, numbers[positions])
        last = values[portion, -1:]
        beyond[portion] = (scores == last).sum(axis=1) - (values[portion] == last).sum(axis=1)
        beyond[portion[np.isneginf(last[:, 0])]] = 0
        for query in portion[beyond[portion] > 0].tolist():
            missing = np.setdiff1d(np.fromiter(ranking.relevant[query], np.int64), ranked[query])
            where = np.minimum(np.searchsorted(numbers, missing), len(numbers) - 1)
            missing = missing[
                (numbers[where] == missing) & (scores[query - start, where] == values[query, -1])
            ]
            answers.append(np.stack([np.full(len(missing), query), missing]))
    return RankedLists.of(ranked, values, beyond, np.concatenate(answers, axis=1))


def first_answers(ranking: RankingSet, score: Matcher) -> FirstAnswers:
    """Find the rank of the first answer of each query.

    Args:
        ranking: Queries, documents and answers.
        score: Scores queries with documents.

    Returns:
        Scores of the best answer and of the best other document, and counts of documents with higher and equal scores.

    Raises:
        UserError: Scores that are not finite.
    """
    parts = []
    at_once = _queries_at_once(ranking)
    for start in range(0, len(ranking.queries), at_once):
        relevant = ranking.relevant[start : start + at_once]
        scores = np.asarray(score(np.arange(start, start + len(relevant)), None), dtype=np.float32)
        require_finite(scores, ranking.column)
        answers = np.zeros(scores.shape, dtype=bool)
        answers[
            np.repeat(np.arange(len(relevant)), [*map(len, relevant)]),
            np.fromiter((document for documents in relevant for document in documents), dtype=np.int64),
        ] = True
        right = np.where(answers, scores, -np.inf).max(axis=1)
        other = np.where(answers, -np.inf, scores).max(axis=1)
        is_equal = scores == right[:, None]
        parts.append(
            (
                right,
                np.where(np.isneginf(other), np.nan, other),
                ((scores > right[:, None]) & ~answers).sum(axis=1),
                (is_equal & answers).sum(axis=1),
                (is_equal & ~answers).sum(axis=1),
            )
        )
    return FirstAnswers(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def _queries_at_once(ranking: RankingSet) -> int:
    return max(1, min(MOST_QUERIES, SCORES_AT_ONCE // len(ranking.corpus)))


def require_finite(scores: np.ndarray, column: str) -> None:
    """Refuse scores that are not finite.

    Args:
        scores: The scores.
        column: Name of the set, for the message.

    Raises:
        UserError: Such scores.
    """
    if not np.isfinite(scores).all():
        raise UserError(
            f"{column}: the scores are not finite: the weights have left the range of the precision. "
            "Lower the learning rate of their training, or name other weights"
        )


def embedding_matcher(
    queries: Float[np.ndarray, "queries dim"],
    embeddings: Float[np.ndarray, "sentences dim"],
    rows: Int[np.ndarray, "documents"],
) -> Matcher:
    """Score queries with documents by the products of their embeddings.

    A product of floats depends on its place in the matrix, so each row is in it once: equal texts have equal scores.

    Args:
        queries: Embeddings of the queries.
        embeddings: Embeddings of all sentences.
        rows: Row of each document in `embeddings`.

    Returns:
        A function from query numbers and candidates to scores.
    """
    distinct, row_places = np.unique(rows, return_inverse=True)
    if len(distinct) == len(rows):
        documents = embeddings[rows]
        return lambda portion, candidates: (
            queries[portion] @ (documents if candidates is None else documents[candidates]).T
        )
    documents = embeddings[distinct]

    def score(portion: np.ndarray, candidates: np.ndarray | None) -> Float[np.ndarray, "queries documents"]:
        if candidates is None:
            return (queries[portion] @ documents.T)[:, row_places]
        needed, where = np.unique(row_places[candidates], return_inverse=True)
        return (queries[portion] @ documents[needed].T)[:, where]

    return score


NOTHING = Examples("nothing", "evaluation", Kind.SENTENCE, ["-"], {"text": np.zeros(1, np.int32)}, None)
"""What passes through a model, in name, where a plan needs nothing of it; a pass without rows would be skipped."""


Sets = Sequence[Examples | RankingSet]
Tables = list[tuple[Examples, Int[np.ndarray, "sentences"]]]


class EncodingPlan(ABC):
    """Texts to encode once, and the way from outputs to scores.

    Attributes:
        sets: Sets of pairs: one score per row.
        rankings: Sets with queries and documents: one ranked list per query.
        standard_questions: Positive pairs of `sets`, as queries for their standard question.
        searched: The rankings and the `standard_questions`.
        tasks: Sets for which a classifier is trained.
        examples: Rows for the encoder, each once for all sets.
        temperature: Divides scores before a softmax: that of cosines, or 1 for logits.
        sentences: All distinct texts that the encoder reads.
        pending: Numbers of the sentences in `examples`. The others are known and need not be computed.

    Raises:
        UserError: A ranking without queries or documents, or a set that the plan cannot score.
    """

    searches: ClassVar[bool] = True
    """It scores each query with each document of a corpus."""

    temperature: float
    examples: Examples
    sentences: Sequence[str] = ()
    pending: Int[np.ndarray, "pending"] = np.arange(0)

    def __init__(self, sets: Sets, tasks: Sequence[TransferTask] = ()) -> None:
        ranked = [dataset for dataset in sets if isinstance(dataset, RankingSet) or dataset.kind in JUDGED]
        self.rankings = [
            as_ranking(dataset) if isinstance(dataset, Examples) else dataset for dataset in ranked
        ]
        for dataset in self.rankings:
            if not dataset.queries or not dataset.corpus:
                raise UserError(
                    f"{dataset.column}: {counted(len(dataset.queries), 'queries')} and "
                    f"{counted(len(dataset.corpus), 'documents')}. Expected "
                    "one of each at least"
                )
        rows = [dataset for dataset in sets if isinstance(dataset, Examples) and dataset.kind not in JUDGED]
        self.sets = [dataset for dataset in rows if len(TEXT_COLUMNS[dataset.kind]) > 1]
        pairs = [dataset for dataset in self.sets if dataset.kind is Kind.POSITIVE_PAIR and len(dataset)]
        self.standard_questions = [*map(as_standard_questions, pairs)] if self.searches else []
        self.searched = [*self.rankings, *(questions.ranking for questions in self.standard_questions)]
        self.tasks = list(tasks)
        self._given = [*sets, *tasks]

    @property
    def fingerprints(self) -> dict[str, str]:
        """`split/dataset` → fingerprint of its rows."""
        return {
            f"{dataset.split}/{dataset.name}": dataset.fingerprint
            for dataset in self._given
            if isinstance(dataset, Examples)
        }

    def is_same(self, other: "EncodingPlan | None") -> bool:
        """True if the other plan has the same sets, so that outputs for one serve both.

        Args:
            other: A plan. None: never the same.

        Returns:
            False for another class of plan, and for equal sets that are other objects.
        """
        if other is None or type(self) is not type(other):
            return False
        return [*map(id, self._given)] == [*map(id, other._given)]

    @abstractmethod
    def scores(self, outputs: np.ndarray) -> list[np.ndarray]:
        """Compute one similarity per row of each set.

        Args:
            outputs: Of the encoder for `examples`, in order.

        Returns:
            (rows,) per set; (rows, candidates) if an anchor has several texts, see `juzhen.core.examples`.
        """

    def ranked(self, outputs: np.ndarray, *, depth: int) -> list[RankedLists]:
        """List the documents of every query of each ranking, best first.

        Args:
            outputs: As in `scores`.
            depth: Documents of a list.

        Returns:
            Lists of each ranking, with −1 after the end of a list.
        """
        found = zip(self.rankings, self.matchers(outputs) if self.rankings else (), strict=False)
        return [ranked_lists(ranking, score, depth=depth) for ranking, score in found]

    def first_answers(self, outputs: np.ndarray) -> dict[str, tuple[StandardQuestions, FirstAnswers]]:
        """Find the standard question of each question of positive pairs.

        Args:
            outputs: As in `scores`.

        Returns:
            `split/dataset` → the questions, and where each finds its standard question.
        """
        if not self.standard_questions:
            return {}
        found = zip(self.standard_questions, self.matchers(outputs)[len(self.rankings) :], strict=True)
        return {
            questions.ranking.column: (questions, first_answers(questions.ranking, score))
            for questions, score in found
        }

    def features(self, outputs: np.ndarray) -> list[dict[str, Features]]:
        """Return the features of classified rows.

        Args:
            outputs: As in `scores`.

        Returns:
            For each task: split → features of its rows for a classifier.
        """
        return []

    def tables(self) -> Tables:
        """Sets, and rankings as sets of texts, with the place of each sentence in `sentences`. −1: absent.

        Returns:
            (set, places of its sentences) for each set. [] for a plan without places.
        """
        return []

    @abstractmethod
    def matchers(self, outputs: np.ndarray) -> "list[Matcher]":
        """Return functions that score queries with documents.

        Args:
            outputs: As in `scores`.

        Returns:
            A function for each of `searched`.
        """


ALIKE = np.zeros(len(Side), dtype=np.int8)
"""Sides of an encoder that reads queries and documents as every sentence."""


class CosinePlan(EncodingPlan):
    """Encodes every distinct sentence of several sets once. A score is the cosine of two embeddings.

    Attributes:
        head: Computes the score instead, with its current weights. None: the cosine.
        sides: Those of the encoder (`PooledEncoder.sides`): if queries and documents of a ranking have
            different prompts, a sentence is encoded once for each of its prompts.
        normalize: Truncated embeddings are brought to length 1, as the encoder does with its own.
        read: Side of each of `sentences`.
    """

    temperature = COSINE_TEMPERATURE

    def __init__(
        self,
        sets: Sets,
        tasks: Sequence[TransferTask] = (),
        *,
        head: BilinearScore | None = None,
        sides: Int[np.ndarray, "sides"] = ALIKE,
        normalize: bool = True,
    ) -> None:
        super().__init__(sets, tasks)
        self._normalize = normalize
        self._head = head
        of_tasks = [dataset for task in tasks for dataset in task.splits.values()]
        rows = [*self.sets, *of_tasks]
        self._union = SentenceUnion(rows, ([*dataset.queries, *dataset.corpus] for dataset in self.searched))
        self._of_rankings = self._union.numbers[len(rows) :]
        self.examples = self._union.examples
        self._asking = [sides[list(sides_of(dataset.symmetric))].tolist() for dataset in self.searched]
        self._places = np.arange(len(self.examples))[None]
        self.read = np.zeros(len(self.examples), dtype=np.int8)
        if any(map(any, self._asking)):
            self._read_apart()
        self.sentences = self.examples.sentences
        self.pending = np.arange(len(self.sentences))
        self._known: np.ndarray | None = None
        self._size: int | None = None

    def cut(self, dim: int) -> Self:
        """Return the same plan with truncated embeddings.

        Args:
            dim: Number of first dimensions that are used.

        Returns:
            A copy that shares texts and sets.
        """
        plan = copy(self)
        plan._size = dim
        return plan

    def _read_apart(self) -> None:
        """Make a row of `examples` for each sentence and each of its Sides, and map sentences to rows."""
        used = np.zeros((len(Side), len(self.examples)), dtype=bool)
        for number in range(len(self._union.sets)):
            used[Side.EVERY, np.concatenate(list(self._union.rows(number).values()))] = True
        for queries, documents, (query, document) in self._sides_of_rankings():
            used[query, queries] = used[document, documents] = True
        read, numbers = np.nonzero(used)
        self._places = np.where(used, used.ravel().cumsum().reshape(used.shape) - 1, -1)
        self.read = read.astype(np.int8)
        self.examples = replace(
            self.examples,
            sentences=[self.examples.sentences[number] for number in numbers.tolist()],
            columns={"text": np.arange(len(numbers), dtype=np.int32)},
            sides=self.read,
        )

    def recall(self, pending: np.ndarray, embeddings: Float[np.ndarray, "sentences dim"]) -> None:
        """Take known embeddings, so that only the other sentences are encoded.

        Args:
            pending: Numbers of the sentences to encode.
            embeddings: A row per sentence. Rows of pending ones are not read.
        """
        self.pending = pending
        self._known = embeddings
        # A table of its own, so that sentences that are known are not even tokenised.
        sentences = [self.sentences[number] for number in pending]
        columns = {"text": np.arange(len(sentences), dtype=np.int32)}
        sides = self.read[pending] if self.read.any() else None
        pending_rows = replace(self._union.examples, sentences=sentences, columns=columns, sides=sides)
        self.examples = pending_rows if sentences else NOTHING

    def scores(self, outputs: Float[np.ndarray, "sentences dim"]) -> list[np.ndarray]:
        embeddings = self._all(outputs)
        score = partial(pair_scores, embeddings, embeddings, head=self._head)
        return [
            self._union.comparisons(position).renumbered(self._places[Side.EVERY]).scored(score)
            for position in range(len(self.sets))
        ]

    def matchers(self, outputs: Float[np.ndarray, "sentences dim"]) -> list[Matcher]:
        firsts, right = sides(self._all(outputs), self._head)
        return [
            embedding_matcher(firsts[self._places[query][queries]], right, self._places[document][documents])
            for queries, documents, (query, document) in self._sides_of_rankings()
        ]

    def _sides_of_rankings(self) -> Iterator[tuple[np.ndarray, np.ndarray, Sequence[int]]]:
        """Numbers of queries and documents in the union, and the Sides of both, for each of `searched`."""
        for ranking, numbers, read in zip(self.searched, self._of_rankings, self._asking, strict=True):
            yield *np.split(numbers, [len(ranking.queries)]), read

    def tables(self) -> Tables:
        sets_and_numbers = zip(self.sets, self._union.numbers, strict=False)
        tables = [(examples, self._places[Side.EVERY][numbers]) for examples, numbers in sets_and_numbers]
        for ranking, (queries, documents, (query, document)) in zip(
            self.rankings, self._sides_of_rankings(), strict=False
        ):
            rows = np.concatenate([self._places[query][queries], self._places[document][documents]])
            used, rows = np.unique(rows, return_inverse=True)
            texts = [self.sentences[number] for number in used.tolist()]
            sides, columns = self.read[used], {"text": rows.astype(np.int32)}
            table = Examples(ranking.name, ranking.split, Kind.SENTENCE, texts, columns, None, sides=sides)
            tables.append((table, used))
        return tables

    def features(self, outputs: Float[np.ndarray, "sentences dim"]) -> list[dict[str, Features]]:
        outputs, number = self._all(outputs), len(self.sets)
        features: list[dict[str, Features]] = []
        for task in self.tasks:
            features.append({})
            for split in task.splits:
                texts = [
                    outputs[self._places[Side.EVERY][rows]] for rows in self._union.rows(number).values()
                ]
                features[-1][split] = combined(texts, task.kind)
                number += 1
        return features

    def _all(self, outputs: Float[np.ndarray, "pending dim"]) -> Float[np.ndarray, "sentences dim"]:
        """Embeddings of all sentences, including the known ones."""
        embeddings = outputs
        if self._known is not None:
            embeddings = self._known.copy()
            embeddings[self.pending] = outputs[: len(self.pending)]
        return (
            embeddings
            if self._size is None
            else truncate_vectors(embeddings, self._size, normalize=self._normalize)
        )


class Evaluator(ABC):
    """Evaluation of one kind of encoder: `plan` → `begin` → `output` of each batch → `measured`.

    Attributes:
        unscored: Kinds of sets without a metric, and the reason.
        plan_type: Class of its plans.
    """

    unscored: ClassVar[Mapping[Kind, str]] = UNSCORED
    plan_type: ClassVar[type[EncodingPlan]]

    @property
    def nested_dims(self) -> tuple[int, ...]:
        """Smaller sizes at which embeddings are also scored."""
        return ()

    def plan(self, sets: Sets, tasks: Sequence[TransferTask] = ()) -> EncodingPlan:
        """Plan the texts to encode.

        Args:
            sets: Sets to score.
            tasks: Sets for which a classifier is trained.

        Returns:
            The plan, which knows the texts to encode.
        """
        return self.plan_type(sets, tasks)

    @abstractmethod
    def output(self, batch: Batch) -> Float[Tensor, "batch ..."]:
        """Compute an embedding or a score for each row.

        Args:
            batch: A planned batch.

        Returns:
            (batch, dim) or (batch,).
        """

    def read_query(self, query: str, symmetric: bool | None) -> None:  # noqa: B027  most compute nothing of it
        """Compute a single query, to measure its latency.

        Args:
            query: The text.
            symmetric: Of its set: decides the prompt.
        """

    def begin(self, plan: EncodingPlan) -> None:  # noqa: B027  most have nothing to prepare
        """Prepare a pass. Called before each, because the weights may have changed.

        Args:
            plan: What the pass computes.
        """

    def finished(self, plan: EncodingPlan, outputs: np.ndarray) -> dict[str, Score]:
        """Receive the outputs of a pass, and return additional scores.

        Args:
            plan: The plan of the pass.
            outputs: For `plan.examples`, in order.

        Returns:
            Key `split/dataset/metric` → score. Empty by default.
        """
        return {}


class EmbeddingEvaluator(Evaluator):
    """Evaluation of bi-encoders and prompt encoders.

    A back end encodes the sentences of a plan, except those in the cache.

    Args:
        encoder: The encoder.
        backend: A BackendName. Any but torch must be able to export the encoder.
        cache_dir: Folder of cached embeddings. None: no cache.
        precision: Of the encoder. Embeddings of each precision are stored separately.
    """

    def __init__(
        self,
        encoder: SentenceEncoder,
        *,
        backend: str = BackendName.TORCH,
        cache_dir: str | Path | None = None,
        precision: str = "32-true",
    ) -> None:
        self.encoder = encoder
        self._name = BackendName(backend)
        require_packages(self._name)
        self._cache = None if cache_dir is None else EmbeddingCache(cache_dir)
        is_plain = self._name is not BackendName.TORCH or precision == "32-true"
        self._variant = str(self._name) if is_plain else f"{self._name} {precision}"
        self._backend: Backend | None = None
        self._partitions: dict[int, CachePartition] = {}

    @property
    def nested_dims(self) -> tuple[int, ...]:
        if self.encoder.score_head is not None:
            return ()
        size = getattr(self.encoder, "truncate_dim", None) or self.encoder.dim
        return tuple(dim for dim in getattr(self.encoder, "nested_dims", ()) if dim < size)

    def plan(self, sets: Sets, tasks: Sequence[TransferTask] = ()) -> CosinePlan:
        encoder = self.encoder
        normalize = getattr(encoder, "normalize", True)  # another family need not know sizes and lengths
        plan = CosinePlan(sets, tasks, head=encoder.score_head, sides=encoder.sides, normalize=normalize)
        size = getattr(encoder, "truncate_dim", None)
        return plan if size is None else plan.cut(size)

    def read_query(self, query: str, symmetric: bool | None) -> None:
        self.encoder.reading(sides_of(symmetric)[0]).encode(query)

    def try_out(self) -> None:
        """Export the encoder on trial, so that an error comes before training.

        Raises:
            UserError: The encoder cannot be exported.
        """
        if self._name.is_graph:
            open_backend(self.encoder, self._name)

    def begin(
        self,
        plan: EncodingPlan,
        *,
        is_first: bool = True,
        shared: Callable[[Any], Any] = lambda found: found,
    ) -> None:
        """Pass known embeddings to the plan.

        Args:
            plan: The plan.
            is_first: True for the first of several processes, which alone reads the cache.
            shared: Sends the results of the first process to all.
        """
        self._backend = None
        if self._cache is None or not isinstance(plan, CosinePlan):
            return
        recalled = None
        if is_first:
            embeddings = np.empty((len(plan.sentences), self.encoder.dim), dtype=np.float32)
            pending = [np.empty(0, dtype=np.int64)]
            for side in np.unique(plan.read).tolist():
                partition = self._cache.partition(self.encoder.reading(side), self._variant)
                rows = np.flatnonzero(plan.read == side)
                of_side = np.empty((len(rows), self.encoder.dim), dtype=np.float32)
                pending.append(rows[partition.fill([plan.sentences[row] for row in rows.tolist()], of_side)])
                embeddings[rows], self._partitions[side] = of_side, partition
            recalled = (np.sort(np.concatenate(pending)), embeddings)
        plan.recall(*shared(recalled))

    def output(self, batch: Batch) -> Float[Tensor, "batch dim"]:
        if batch.task == NOTHING.name:
            return torch.zeros(len(batch), self.encoder.dim)
        if self._name is BackendName.TORCH:
            return self.encoder(batch.tokens)[batch.columns["text"]]
        if self._backend is None:
            self._backend = open_backend(self.encoder, self._name)
        return torch.from_numpy(self._backend.encode(batch.tokens))[batch.columns["text"].cpu()]

    def chunked(
        self, examples: Examples, *, batch_tokens: int, advance: Callable[[int], None]
    ) -> Float[np.ndarray, "rows dim"]:
        """Compute embeddings of planned rows by an encoder that reads long texts in chunks.

        Args:
            examples: Rows of a plan.
            batch_tokens: Tokens that are computed at once.
            advance: Receives the number of finished texts.

        Returns:
            float32 (rows, dim), in the order of the rows.
        """
        outputs = np.empty((len(examples), self.encoder.dim), dtype=np.float32)
        numbers = examples.columns["text"]
        sides = np.zeros_like(numbers) if examples.sides is None else examples.sides[numbers]
        for side in np.unique(sides).tolist():
            rows, reader = np.flatnonzero(sides == side), self.encoder.reading(Side(side))
            compute = open_backend(reader, self._name).encode
            texts = [examples.sentences[number] for number in numbers[rows].tolist()]
            outputs[rows] = computed(reader, texts, compute, None, batch_tokens=batch_tokens, advance=advance)
        return outputs

    def finished(self, plan: EncodingPlan, outputs: np.ndarray) -> dict[str, Score]:
        self._backend = None
        if isinstance(plan, CosinePlan) and len(plan.pending):
            for side, partition in self._partitions.items():
                rows = np.flatnonzero(plan.read[plan.pending] == side)
                if len(rows):
                    partition.add([plan.examples.sentences[row] for row in rows.tolist()], outputs[rows])
        self._partitions = {}
        return {}
