"""What a row of a set can be. A new kind of rows is one line of KINDS, and the losses that name it. Needs no torch."""

from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """What one row of a dataset is. The value is the word used in configuration files."""

    SCORED_PAIR = "scored_pair"  # two sentences and a graded similarity
    LABELLED_PAIR = "labelled_pair"  # two sentences, 1 = same meaning, 0 = not
    NLI_PAIR = "nli_pair"  # premise and hypothesis, one of three classes
    POSITIVE_PAIR = "positive_pair"  # two sentences that belong together
    TRIPLET = "triplet"  # anchor, positive and one or more negatives
    SENTENCE = "sentence"  # one sentence, no label
    LABELLED_TEXT = "labelled_text"  # one text and its class
    RETRIEVAL = "retrieval"  # a judgement: a query, a document of the corpus that is searched, and a gain
    RERANKING = "reranking"  # a judgement: a query, a document to put in order with its others, and a gain


CORRELATIONS = ("spearman", "pearson")
SPACING = ("positive_score", "negative_score", "score_gap")
"""Mean score of a row's positive and of what it is told from, and their difference."""
RANKINGS = ("ndcg_at_10", "mrr_at_10", "recall_at_10", "recall_at_100", "map_at_100")
"""How well a query's documents are put in order, see `juzhen.metrics.ranking.query_numbers`."""

STANDARD_RANKS = ("recall_at_1", "recall_at_10", "mrr")
"""How well questions find their standard question among all: `juzhen.metrics.ranking.first_answer_numbers`."""

V_MEASURE = "v_measure"
"""How well k-means finds the classes of texts again, see `juzhen.metrics.classes`."""


class KindSpec(NamedTuple):
    """texts     the text columns, in order. A triplet may have more: `negative_2`, `negative_3`, …
    target    the column that holds the gold value; None: there is none. A `score` is scaled, a `label` has classes
    views     kinds reachable by one view, the most natural first. `juzhen.data.views` holds the functions
    measures  metrics, the one that speaks for the set first
    """

    texts: tuple[str, ...]
    target: str | None
    views: tuple[Kind, ...]
    measures: tuple[str, ...]


_PAIR, _ANCHORED, _JUDGED = ("text_a", "text_b"), ("anchor", "positive"), ("query", "document")
_ALONE = (Kind.SENTENCE,)

KINDS = {
    Kind.SCORED_PAIR: KindSpec(_PAIR, "score", _ALONE, CORRELATIONS),
    Kind.LABELLED_PAIR: KindSpec(
        _PAIR,
        "label",
        (Kind.POSITIVE_PAIR, Kind.TRIPLET, Kind.SENTENCE),
        (*CORRELATIONS, "accuracy", "f1", "mcc", "average_precision", "auc"),
    ),
    Kind.NLI_PAIR: KindSpec(
        ("premise", "hypothesis"),
        "label",
        (Kind.TRIPLET, Kind.POSITIVE_PAIR, Kind.SENTENCE),
        (*CORRELATIONS, "accuracy", "macro_f1"),  # the last two need a model that names classes
    ),
    Kind.POSITIVE_PAIR: KindSpec(
        _ANCHORED, None, _ALONE, (*STANDARD_RANKS, "ranking_accuracy", "ranking_loss", *SPACING)
    ),
    Kind.TRIPLET: KindSpec(
        (*_ANCHORED, "negative"),
        None,
        (Kind.POSITIVE_PAIR, Kind.LABELLED_PAIR, Kind.SENTENCE),
        ("triplet_accuracy", *SPACING),
    ),
    Kind.SENTENCE: KindSpec(("text",), None, (), ()),
    Kind.LABELLED_TEXT: KindSpec(
        ("text",), "label", _ALONE, ("transfer_accuracy", "transfer_f1", "transfer_majority", V_MEASURE)
    ),
    Kind.RETRIEVAL: KindSpec(_JUDGED, "gain", (Kind.POSITIVE_PAIR, Kind.SENTENCE), RANKINGS),
    Kind.RERANKING: KindSpec(_JUDGED, "gain", (Kind.POSITIVE_PAIR, Kind.TRIPLET, Kind.SENTENCE), RANKINGS),
}

TEXT_COLUMNS = {kind: spec.texts for kind, spec in KINDS.items()}
TARGET_COLUMN = {kind: spec.target for kind, spec in KINDS.items() if spec.target is not None}
VIEWS = {kind: spec.views for kind, spec in KINDS.items()}
MEASURES = {kind: spec.measures for kind, spec in KINDS.items()}

JUDGED = (Kind.RETRIEVAL, Kind.RERANKING)
"""Kinds whose rows say how well a document answers a query: a gain above 0, or 0 for one that is known not to."""

RANKED = (Kind.POSITIVE_PAIR, Kind.TRIPLET)
"""Kinds in which an anchor is compared with several texts, of which one is its own."""
