"""What is no score, no grade, no label and no measure is refused by its row, its set or its name."""

import numpy as np
import pytest
from test_ranking import ranked
from test_scoring import answers, examples, measured

from juzhen.core.errors import UserError
from juzhen.core.examples import Kind
from juzhen.data.rankings import RankingSet
from juzhen.evaluation.encoding_plan import ranked_lists
from juzhen.evaluation.evaluators import LexicalEvaluator
from juzhen.evaluation.scoring import score_sets
from juzhen.evaluation.space import require_maps
from juzhen.metrics.correlation import pearson, spearman
from juzhen.metrics.lexical import lexical_scores
from juzhen.metrics.ranking import query_numbers
from juzhen.metrics.threshold import fit_threshold

NO_METHOD = r"method=jacard: unknown choice. Did you mean jaccard"
NO_MEASURES = ("ndcg", "ndcg_at_0", "nDCG@", "nDCG@x", "ndcg_at_x", "f1_at_10", "recall_at_1000000")


def fitted(scores, labels):
    fit_threshold(np.array(scores), np.array(labels), objective="f1")


def searched(*scores):
    one = RankingSet("some", "dev", ["q"], ["q", "a", "b"], [{2: 1.0}], own=np.array([0]))
    ranked_lists(one, lambda some, others: np.array([scores]), depth=2)


def answered():
    """Scores of answers, of which those that are left out are no numbers."""
    pairs, scores = answers()
    broken = np.where(np.isneginf(scores[0]), np.nan, scores[0])
    score_sets([pairs], [broken], bootstrap_samples=0, seed=0, seen={})


REFUSED = {
    ValueError: [
        *(
            row
            for function in (spearman, pearson)
            for row in (
                (
                    lambda function=function: function(
                        np.array([0.1, np.nan, np.nan]), np.array([0.0, 1.0, 1.0])
                    ),
                    r"row 1: the score is nan \(2 such rows\)",
                ),
                (
                    lambda function=function: function(
                        np.array([0.1, 0.2, 0.3]), np.array([0.0, 1.0, np.inf])
                    ),
                    "row 2: the grade is inf",
                ),
            )
        ),
        *(
            (lambda broken=broken: ranked([[0.9, 0.1], broken]), "row 1: a score is not a number")
            for broken in ([np.nan, 0.1], [0.1, np.nan], [np.inf, 0.1])
        ),
        *(
            (
                lambda kind=kind: measured([[0.9, 0.1], [np.nan, 0.1]], examples("dev", None, kind=kind)),
                "lcqmc/dev: row 1: a score is not a number",
            )
            for kind in (Kind.TRIPLET, Kind.POSITIVE_PAIR)
        ),
        (
            lambda: measured([0.5, 0.6, np.nan, 0.95], examples("test", [0, 0, 1, 1])),
            "lcqmc/test: row 2: the score is nan",
        ),
        (lambda: fitted([0.1, 0.2], [0, 2]), "row 1: the label is 2, expected 0 or 1"),
        (lambda: fitted([np.nan, 0.2], [0, 1]), r"row 0: the score is nan \(1 such rows\)"),
    ],
    UserError: [
        (answered, "dev/faq: the scores are not finite"),
        *(
            row
            for function in (spearman, pearson)
            for row in (
                (
                    lambda function=function: function(np.array(["a", "b"]), np.ones(2)),
                    "^scores: expected a column",
                ),
                (lambda function=function: function(np.arange(3.0), np.ones(2)), "3 scores, 2 grades"),
                (lambda function=function: function(np.eye(3), np.eye(3)), "^scores: expected a column"),
            )
        ),
        (lambda: searched(9.0, np.nan, 2.0), "dev/some: the scores are not finite"),
        *(
            (
                lambda name=name: query_numbers(np.zeros((1, 1), np.int64), [{0: 1.0}], [name]),
                f"{name}: expected nDCG, RR, R, AP, P, Success with a cut-off",
            )
            for name in NO_MEASURES
        ),
        (lambda: LexicalEvaluator(method="jacard"), NO_METHOD),
        (lambda: lexical_scores(["a"], ["b"], method="jacard"), NO_METHOD),
        (lambda: require_maps(["pca", "tsne"], 5), "t-SNE of 5 texts: it needs at least 10"),
        (lambda: require_maps(["pca"], 2), "PCA of 2 texts"),
        (lambda: require_maps(["tnse"], 50), r"maps=tnse: unknown choice. Did you mean tsne"),
        (lambda: require_maps(["umap"], 50), r"maps=umap: .*tsne"),
    ],
}


@pytest.mark.parametrize(
    ("error", "call", "told"), [(error, *row) for error, rows in REFUSED.items() for row in rows]
)
def test_what_cannot_be_measured_is_refused_by_its_row_or_name(error, call, told):
    with pytest.raises(error, match=told):
        call()
