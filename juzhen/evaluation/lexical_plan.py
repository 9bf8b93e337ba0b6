"""The evaluation of the lexical baseline, which needs no encoder."""

from functools import partial

import numpy as np
from jaxtyping import Float

from juzhen.data.comparisons import Comparisons
from juzhen.data.rankings import RankingSet
from juzhen.data.transfer import TransferTask
from juzhen.evaluation.plan import NOTHING, EvaluationPlan, Matcher
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

    def _matchers(self, outputs: np.ndarray) -> list[Matcher]:
        return [_matcher(one) for one in self.rankings]

    def features(self, outputs: np.ndarray) -> list[dict[str, Features]]:
        """Counted over the rows that a classifier learns from, or over all where it is judged in folds."""
        return [_features(task) for task in self.tasks]


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
