"""What a set is measured by, by the kind of its rows. Needs no torch."""

from collections.abc import Mapping

from juzhen.core.errors import UserError
from juzhen.core.kinds import CORRELATIONS as CORRELATIONS
from juzhen.core.kinds import JUDGED, Kind
from juzhen.core.kinds import MEASURES as MEASURES
from juzhen.core.kinds import RANKINGS as RANKINGS
from juzhen.core.kinds import V_MEASURE as V_MEASURE
from juzhen.core.numerals import is_position

RANKING_NAMES = {
    "ndcg": "nDCG",
    "mrr": "RR",
    "recall": "R",
    "map": "AP",
    "precision": "P",
    "hit_rate": "Success",
}
"""What results call a measure of rankings → what ir_measures calls it."""

SPELLED = {
    spelling.casefold(): name
    for name, title in RANKING_NAMES.items()
    for spelling in (name, title, {"mrr": "MRR", "map": "MAP", "hit_rate": "HR"}.get(name, name))
}
DEEPEST = 10_000
"""Documents of a query's list that can be asked for."""

UNSCORED: Mapping[Kind, str] = {
    Kind.SENTENCE: "a sentence alone has nothing that it could be compared with; a masked language model measures "
    "how well its hidden tokens are named"
}
"""Kinds of sets of which no embedding has a measure, and why."""

UNSCORED_BY_PAIRS: Mapping[Kind, str] = {
    **UNSCORED,
    Kind.LABELLED_TEXT: "classes are told apart on embeddings, and a cross-encoder has none",
    Kind.RETRIEVAL: "a cross-encoder would have to read each query with each document; give it sets of kind reranking",
}
"""The same of a cross-encoder."""

UNSCORED_BY_TOKENS: Mapping[Kind, str] = {
    **UNSCORED,
    Kind.LABELLED_TEXT: "classes are told apart on one vector per text, and late interaction has one per token",
}
"""The same of an encoder of token vectors."""

UNSCORED_BY_WEIGHTS: Mapping[Kind, str] = {
    **UNSCORED,
    Kind.LABELLED_TEXT: "classes are told apart on the numbers of an embedding, and a sparse encoder has a weight for "
    "each token of its vocabulary",
}
"""The same of a sparse encoder."""

UNSCORED_BY_BM25: Mapping[Kind, str] = {
    kind: "BM25 puts the documents of a query in order; TF-IDF scores pairs by the characters that they share"
    for kind in Kind
    if kind not in JUDGED
}
"""The same of BM25."""

FIRST_MEASURES = tuple(dict.fromkeys(names[0] for names in MEASURES.values() if names))
"""The metrics that speak for a set, each once."""


def ranking_measure(name: str) -> tuple[str, int]:
    """The name and the cut-off of a measure of rankings. Raises UserError for what is none.

    >>> ranking_measure("recall_at_1000"), ranking_measure("nDCG@10")
    (('recall', 1000), ('ndcg', 10))
    """
    spelling, _, cutoff = name.replace("@", "_at_").partition("_at_")
    measure = SPELLED.get(spelling.casefold())
    if measure is None or not is_position(cutoff) or not 1 <= int(cutoff) <= DEEPEST:
        names = ", ".join(RANKING_NAMES.values())
        raise UserError(
            f"{name}: expected {names} with a cut-off from 1 to {DEEPEST}, such as nDCG@10 or R@1000"
        )
    return measure, int(cutoff)


def metric_key(name: str) -> str:
    """What results call a measure, however it is spelled.

    >>> metric_key("nDCG@10"), metric_key("MRR@5"), metric_key("spearman")
    ('ndcg_at_10', 'mrr_at_5', 'spearman')
    """
    return "{}_at_{}".format(*ranking_measure(name)) if "@" in name else name


def metric_title(key: str) -> str:
    """What people call a measure of results; of rankings as ir_measures does.

    >>> metric_title("ndcg_at_10"), metric_title("hit_rate_at_5"), metric_title("average_precision")
    ('nDCG@10', 'Success@5', 'average precision')
    """
    measure, _, cutoff = key.partition("_at_")
    title = RANKING_NAMES.get(measure)
    return f"{title}@{cutoff}" if title and is_position(cutoff) else key.replace("_", " ")


CLASS_MEANS = "class_mean_accuracy"
"""Share of texts that are nearest to the mean of their own class, see `juzhen.metrics.transfer`: takes no fitting."""


def chooses(kind: Kind) -> str | None:
    """The metric of a set of that kind that chooses weights while they are learnt; None where it has none.

    It is the one that speaks for the set, but for classes: a classifier at each validation costs more than training.
    """
    return CLASS_MEANS if kind is Kind.LABELLED_TEXT else first_measure(kind)


def first_measure(kind: Kind) -> str | None:
    """The metric that speaks for a set of that kind; None where there is nothing to compare."""
    return next(iter(MEASURES[kind]), None)


def is_beside(measured: str, metric: str) -> bool:
    """Whether a set with the metric `measured` belongs in a table of the metric `metric`.

    It does where `measured` speaks for a kind of sets that can have `metric`; what is measured otherwise has no place
    there. A metric that is no kind's own is asked of every set.
    """
    if (
        metric == V_MEASURE
    ):  # pairs that are classified have the metric that speaks for texts, and not this one
        return measured == metric
    kinds = {kind for kind, names in MEASURES.items() if metric in names}
    if metric.partition("_at_")[0] in RANKING_NAMES:  # at any cut-off
        kinds = {*JUDGED}
    return (
        not kinds
        or measured == metric
        or (measured in FIRST_MEASURES and any(measured == first_measure(kind) for kind in kinds))
    )
