"""What a set is measured by, by the kind of its rows. Needs no torch."""

from collections.abc import Collection, Iterable, Mapping

from juzhen.core.errors import UserError
from juzhen.core.kinds import CORRELATIONS as CORRELATIONS
from juzhen.core.kinds import JUDGED, Kind
from juzhen.core.kinds import MEASURES as MEASURES
from juzhen.core.kinds import RANKINGS as RANKINGS
from juzhen.core.kinds import STANDARD_RANKS as STANDARD_RANKS
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

UNSCORED_BY_SIDES: Mapping[Kind, str] = {
    **UNSCORED,
    Kind.LABELLED_TEXT: "classes are told apart on texts of one sort, and this encoder reads queries and documents by "
    "weights of their own",
}
"""The same of an encoder that reads queries and documents by weights of their own."""

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

AMONG_ALL = "recall_at_1"
"""Speaks for positive pairs: the standard question that is found is right, among all of the split."""

AMONG_FEW = "ranking_accuracy"
"""Speaks for them where a model cannot rank all of them, and in results from before there was AMONG_ALL."""

OF_ANY_TEXT = "mlm_accuracy"
"""Share of hidden tokens that a masked language model names, which every text has."""

OF_RANKS = ("ndcg_at_10", AMONG_ALL, AMONG_FEW)
"""Measures of which one speaks for a set that ranks, the preferred one first."""

FIRST_MEASURES = tuple(
    dict.fromkeys(name for names in MEASURES.values() for name in (*names[:1], *({AMONG_FEW} & {*names})))
)
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
    if "@" in name:
        return "{}_at_{}".format(*ranking_measure(name))
    return name.casefold() if name.casefold() == "mrr" else name


def metric_title(key: str) -> str:
    """What people call a measure of results; of rankings as ir_measures does.

    >>> metric_title("ndcg_at_10"), metric_title("hit_rate_at_5"), metric_title("average_precision")
    ('nDCG@10', 'Success@5', 'average precision')
    """
    if key == "mrr":
        return "MRR"
    measure, _, cutoff = key.partition("_at_")
    title = RANKING_NAMES.get(measure)
    return f"{title}@{cutoff}" if title and is_position(cutoff) else key.replace("_", " ")


CLASS_MEANS = "class_mean_accuracy"
"""Share of texts that are nearest to the mean of their own class, see `juzhen.metrics.transfer`: takes no fitting."""


def chooses(kind: Kind, unscored: Collection[Kind] = ()) -> str | None:
    """The metric of a set of that kind that chooses weights while they are learnt; None where it has none.

    It is the one that speaks for the set, but for classes: a classifier at each validation costs more than training.

    unscored  kinds that the model has no measure of
    """
    return CLASS_MEANS if kind is Kind.LABELLED_TEXT else first_measure(kind, unscored)


def first_measure(kind: Kind, unscored: Collection[Kind] = ()) -> str | None:
    """The metric that speaks for a set of that kind; None where there is nothing to compare.

    unscored  kinds that the model has no measure of: one that cannot search a corpus ranks a few texts
    """
    if kind is Kind.POSITIVE_PAIR and Kind.RETRIEVAL in unscored:
        return AMONG_FEW
    return next(iter(MEASURES[kind]), None)


def speaking(measured: Collection[str]) -> list[str]:
    """Those of the metrics of one set that speak for it.

    >>> speaking(["mrr", "recall_at_1", "ranking_accuracy"]), speaking(["pearson", "spearman", "transfer_accuracy"])
    (['recall_at_1'], ['spearman', 'transfer_accuracy'])
    """
    others = [name for name in OF_RANKS if name in measured][1:]
    return [name for name in FIRST_MEASURES if name in measured and name not in others]


def speaking_keys(keys: Iterable[str]) -> list[str]:
    """Those of the metric keys `split/dataset/metric` that speak for their column, in their order."""
    of_columns: dict[str, list[str]] = {}
    listed = [key.rpartition("/") for key in keys]
    for column, _, metric in listed:
        of_columns.setdefault(column, []).append(metric)
    chosen = {column: speaking(measured) for column, measured in of_columns.items()}
    return ["/".join((column, metric)) for column, _, metric in listed if metric in chosen[column]]


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
    if metric.partition("_at_")[0] in RANKING_NAMES and metric != "mrr":  # at any cut-off
        kinds |= {*JUDGED}
    return (
        not kinds
        or measured == metric
        or (measured in FIRST_MEASURES and any(measured == first_measure(kind) for kind in kinds))
    )
