"""The evaluation of the lexical baselines, which need no encoder."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from jaxtyping import Float

from juzhen.core.errors import UserError
from juzhen.core.examples import Comparisons
from juzhen.core.measures import UNSCORED_BY_BM25
from juzhen.data.rankings import RankingSet
from juzhen.data.transfer import TransferTask
from juzhen.evaluation.plan import NOTHING, EvaluationPlan, Sets
from juzhen.evaluation.ranked_lists import Matcher
from juzhen.metrics.bm25 import BM25
from juzhen.metrics.lexical import lexical_vectors, similarities
from juzhen.metrics.ranking import COSINE_TEMPERATURE
from juzhen.metrics.transfer import Features, combined


class LexicalPlan(EvaluationPlan):
    """Nothing passes through a network: scores come from the texts alone."""

    temperature = COSINE_TEMPERATURE
    examples = NOTHING

    def scores(self, outputs: np.ndarray) -> list[np.ndarray]:
        """Counted over the rows of each set, see `juzhen.metrics.lexical.lexical_scores`."""
        scored = []
        for one in self.sets:
            counted = [text for column in one.columns for text in one.texts(column)]
            vectors = lexical_vectors(one.sentences, counted=counted)
            scored.append(Comparisons.of(one).scored(partial(similarities, vectors)))
        return scored

    def matchers(self, outputs: np.ndarray) -> list[Matcher]:
        return [_matcher(one) for one in self.rankings]

    def features(self, outputs: np.ndarray) -> list[dict[str, Features]]:
        """Counted over the rows that a classifier learns from, or over all where it is judged in folds."""
        return [_features(task) for task in self.tasks]


class BM25Plan(EvaluationPlan):
    """Rankings by the terms that a query shares with a document; see `juzhen.metrics.bm25`.

    index  makes the BM25 of a corpus

    Documents without a term of the query come last, in their order. Raises UserError for sets that are no rankings.
    """

    temperature = COSINE_TEMPERATURE
    examples = NOTHING

    def __init__(self, sets: Sets, *, index: Callable[[Sequence[str]], BM25] = BM25) -> None:
        super().__init__(sets)
        self._index = index
        for one in self.sets:
            raise UserError(f"{one.split}/{one.name}: {UNSCORED_BY_BM25[one.kind]}")

    def scores(self, outputs: np.ndarray) -> list[np.ndarray]:
        return []

    def matchers(self, outputs: np.ndarray) -> list[Matcher]:
        return [_bm25_matcher(one, self._index(one.corpus)) for one in self.rankings]


def _bm25_matcher(one: RankingSet, index: BM25) -> Matcher:
    def score(some: np.ndarray, others: np.ndarray | None) -> Float[np.ndarray, "queries documents"]:
        scores = np.stack([index.scores(one.queries[query]) for query in some.tolist()])
        return scores if others is None else scores[:, others]

    return score


def _features(task: TransferTask) -> dict[str, Features]:
    texts = {split: [one.texts(column) for column in one.columns] for split, one in task.splits.items()}
    learnt = [texts["train"]] if "train" in texts else texts.values()
    counted = [text for columns in learnt for column in columns for text in column]
    return {
        split: combined([lexical_vectors(column, counted=counted) for column in columns], task.kind)
        for split, columns in texts.items()
    }


def _matcher(one: RankingSet) -> Matcher:
    """Terms are counted over the documents."""
    queries, documents = (lexical_vectors(texts, counted=one.corpus) for texts in (one.queries, one.corpus))

    def score(some: np.ndarray, others: np.ndarray | None) -> Float[np.ndarray, "queries documents"]:
        return (queries[some] @ (documents if others is None else documents[others]).T).toarray()

    return score
