"""Kinds of rows: their columns, metrics, and conversions. Needs no torch.

A new kind is one line of KINDS, and the losses that name it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from juzhen.core.errors import UserError
from juzhen.core.text import is_position


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
    conversions  kinds reachable by one conversion, the most natural first. `juzhen.data.convert` holds the functions
    measures  metrics, the one that speaks for the set first
    """

    texts: tuple[str, ...]
    target: str | None
    conversions: tuple[Kind, ...]
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
CONVERSIONS = {kind: spec.conversions for kind, spec in KINDS.items()}
MEASURES = {kind: spec.measures for kind, spec in KINDS.items()}

JUDGED = (Kind.RETRIEVAL, Kind.RERANKING)
"""Kinds whose rows say how well a document answers a query: a gain above 0, or 0 for one that is known not to."""

RANKED = (Kind.POSITIVE_PAIR, Kind.TRIPLET)
"""Kinds in which an anchor is compared with several texts, of which one is its own."""


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

MAIN_METRICS = tuple(
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
    return CLASS_MEANS if kind is Kind.LABELLED_TEXT else main_metric(kind, unscored)


def main_metric(kind: Kind, unscored: Collection[Kind] = ()) -> str | None:
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
    return [name for name in MAIN_METRICS if name in measured and name not in others]


def main_metric_keys(keys: Iterable[str]) -> list[str]:
    """Those of the metric keys `split/dataset/metric` that speak for their column, in their order."""
    of_columns: dict[str, list[str]] = {}
    listed = [key.rpartition("/") for key in keys]
    for column, _, metric in listed:
        of_columns.setdefault(column, []).append(metric)
    chosen = {column: speaking(measured) for column, measured in of_columns.items()}
    return ["/".join((column, metric)) for column, _, metric in listed if metric in chosen[column]]


def belongs_in_table(measured: str, metric: str) -> bool:
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
        or (measured in MAIN_METRICS and any(measured == main_metric(kind) for kind in kinds))
    )


def choose_conversion(
    dataset: str,
    kind: Kind,
    loss: str,
    input_kinds: Sequence[Kind],
    *,
    wanted: str | None = None,
    alternatives: Mapping[str, Sequence[Kind]] | None = None,
    chooser: str = "loss",
) -> Kind:
    """The kind of examples that `loss` is fed from `dataset`: its own kind, or the first that one view reaches.

    wanted        the dataset's `view` key: take this kind or fail
    chooser       the configuration key that `loss` is a value of, for messages: a model may ask for a kind, too
    alternatives  loss name → kinds it takes, to suggest losses that would fit

    Raises UserError naming the losses that take the dataset's kind.
    """
    reachable = (kind, *CONVERSIONS[kind])
    if wanted is not None:
        if wanted not in reachable:
            raise UserError(
                f"{dataset}: convert_to={wanted}: no view leads there from a {kind}; "
                f"possible: {', '.join(CONVERSIONS[kind])}"
            )
        reachable = (Kind(wanted),)
    for candidate in reachable:
        if candidate in input_kinds:
            return candidate
    fitting = sorted(
        name for name, kinds in (alternatives or {}).items() if any(reached in kinds for reached in reachable)
    )
    raise UserError(
        f"{chooser}={loss} needs {_spoken(input_kinds)}; {dataset} gives {_spoken(reachable[:1])} and no view leads "
        "there." + (f" Losses that take {dataset}: {', '.join(fitting)}." if fitting else "")
    )


def _spoken(kinds: Sequence[Kind]) -> str:
    """Kinds as words of a sentence: `NLI pairs or triplets`."""
    return " or ".join(f"{kind}s".replace("_", " ").replace("nli", "NLI") for kind in kinds)


def text_roles(kind: Kind | None, symmetric: bool | None) -> str | None:
    """What the two sides of a row are, where they may not be exchanged; None where they may.

    kind       of a set, None of a ranking
    symmetric  see `Examples.symmetric`
    """
    if kind is Kind.NLI_PAIR:
        return "premise and hypothesis"
    return "query and document" if symmetric is False else None
