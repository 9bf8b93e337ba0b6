"""Kinds of rows: their columns, metrics, and conversions. Needs no torch.

A new kind is one line of KINDS, and the losses that name it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from juzhen.core.errors import UserError
from juzhen.core.text import is_position


class Kind(StrEnum):
    """Kind of a dataset's rows. The value is the word of configuration files."""

    SCORED_PAIR = "scored_pair"  # two sentences and a graded similarity
    LABELLED_PAIR = "labelled_pair"  # two sentences, 1 = same meaning, 0 = not
    NLI_PAIR = "nli_pair"  # premise and hypothesis, one of three classes
    POSITIVE_PAIR = "positive_pair"  # two sentences that belong together
    TRIPLET = "triplet"  # anchor, positive and one or more negatives
    SENTENCE = "sentence"  # one sentence, no label
    LABELLED_TEXT = "labelled_text"  # one text and its class
    RETRIEVAL = "retrieval"  # a judgement: a query, a document of the searched corpus, and a gain
    RERANKING = "reranking"  # a judgement: a query, a document of its candidate list, and a gain


CORRELATIONS = ("spearman", "pearson")
SPACING = ("positive_score", "negative_score", "score_gap")
"""Mean score of a row's positive, of its negatives, and their difference."""
RANKINGS = ("ndcg_at_10", "mrr_at_10", "recall_at_10", "recall_at_100", "map_at_100")
"""Ranking of a query's documents, see `juzhen.metrics.ranking.query_numbers`."""

STANDARD_RANKS = ("recall_at_1", "recall_at_10", "mrr")
"""Rank of a question's standard question among all, see `juzhen.metrics.ranking.first_answer_numbers`."""

V_MEASURE = "v_measure"
"""Agreement of k-means clusters with the classes of texts, see `juzhen.metrics.classification`."""


class KindSpec(NamedTuple):
    """Columns, conversions and metrics of a kind.

    Args:
        texts: Text columns in order. A triplet may have more: `negative_2`, `negative_3`, …
        target: Column of the gold value, or None. A `score` is scaled, a `label` has classes.
        conversions: Kinds that one conversion of `juzhen.data.convert` gives, the most natural first.
        measures: Metrics, the main one first.
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
        (*CORRELATIONS, "accuracy", "macro_f1"),  # the last two need a model with classes
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
"""Kinds whose rows are judgements: gain 0 for a document known not to answer the query, above 0 otherwise."""

RANKED = (Kind.POSITIVE_PAIR, Kind.TRIPLET)
"""Kinds in which an anchor is compared with several texts, one of which is its positive."""


RANKING_NAMES = {
    "ndcg": "nDCG",
    "mrr": "RR",
    "recall": "R",
    "map": "AP",
    "precision": "P",
    "hit_rate": "Success",
}
"""Ranking metric in results → its name in ir_measures."""

SPELLED = {
    spelling.casefold(): name
    for name, title in RANKING_NAMES.items()
    for spelling in (name, title, {"mrr": "MRR", "map": "MAP", "hit_rate": "HR"}.get(name, name))
}
DEEPEST = 10_000
"""Largest cut-off of a ranking metric."""

UNSCORED: Mapping[Kind, str] = {
    Kind.SENTENCE: "single sentences cannot be compared. A masked language model scores their hidden tokens"
}
"""Kinds without a metric for any embedding, with the reason."""

UNSCORED_BY_PAIRS: Mapping[Kind, str] = {
    **UNSCORED,
    Kind.LABELLED_TEXT: "classes are told apart on embeddings, and a cross-encoder has none",
    Kind.RETRIEVAL: "a cross-encoder would have to read each query with each document. Give it sets of kind reranking",
}
"""Kinds without a metric for cross-encoders."""

UNSCORED_BY_TOKENS: Mapping[Kind, str] = {
    **UNSCORED,
    Kind.LABELLED_TEXT: "classes are told apart on one vector per text, and late interaction has one per token",
}
"""Kinds without a metric for late interaction."""

UNSCORED_BY_SIDES: Mapping[Kind, str] = {
    **UNSCORED,
    Kind.LABELLED_TEXT: "classes are told apart on texts of one sort, and this encoder reads queries and documents by "
    "weights of their own",
}
"""Kinds without a metric for encoders with separate weights for queries and documents."""

UNSCORED_BY_WEIGHTS: Mapping[Kind, str] = {
    **UNSCORED,
    Kind.LABELLED_TEXT: "classes are told apart on the numbers of an embedding, and a sparse encoder has a weight for "
    "each token of its vocabulary",
}
"""Kinds without a metric for sparse encoders."""

UNSCORED_BY_BM25: Mapping[Kind, str] = {
    kind: "BM25 puts the documents of a query in order; TF-IDF scores pairs by the characters that they share"
    for kind in Kind
    if kind not in JUDGED
}
"""Kinds without a metric for BM25."""

AMONG_ALL = "recall_at_1"
"""Main metric of positive pairs: the positive ranks first among all documents of the split."""

AMONG_FEW = "ranking_accuracy"
"""Main metric of positive pairs for models that cannot rank all documents, and in results before AMONG_ALL."""

OF_ANY_TEXT = "mlm_accuracy"
"""Share of masked tokens that a masked language model predicts. Every text has it."""

MTEB_SCORE = "main_score"
"""Main score of a task of the package mteb whose metric is none of ours."""

OF_RANKS = ("ndcg_at_10", AMONG_ALL, AMONG_FEW)
"""Main metrics of ranked sets. A table shows the first of them that a set has."""

MAIN_METRICS = tuple(
    dict.fromkeys(name for names in MEASURES.values() for name in (*names[:1], *({AMONG_FEW} & {*names})))
)
"""All main metrics, each once."""


def ranking_measure(name: str) -> tuple[str, int]:
    """Split a ranking metric into its name and cut-off.

    Args:
        name: With @ or _at_, in upper or lower case.

    Returns:
        Name in lower case, such as "ndcg", and a cut-off from 1 to DEEPEST.

    Raises:
        UserError: Not a ranking metric.

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
    """Return the name of a metric in results, from any common spelling.

    Args:
        name: Names of no ranking metric stay as they are.

    Returns:
        Name such as `ndcg_at_10`. A name of another metric is returned unchanged.

    Raises:
        UserError: A metric of rankings with an unknown cut-off.

    Example:
        >>> metric_key("nDCG@10"), metric_key("MRR@5"), metric_key("spearman")
        ('ndcg_at_10', 'mrr_at_5', 'spearman')
    """
    if "@" in name:
        return "{}_at_{}".format(*ranking_measure(name))
    return name.casefold() if name.casefold() == "mrr" else name


def metric_title(key: str) -> str:
    """Return the title of a metric in tables. Ranking metrics have their name in ir_measures.

    Args:
        key: Name of a metric in results.

    Returns:
        Title such as `nDCG@10`. Underscores of other metrics become spaces.

    Example:
        >>> metric_title("ndcg_at_10"), metric_title("hit_rate_at_5"), metric_title("average_precision")
        ('nDCG@10', 'Success@5', 'average precision')
    """
    if key == "mrr":
        return "MRR"
    measure, _, cutoff = key.partition("_at_")
    title = RANKING_NAMES.get(measure)
    return f"{title}@{cutoff}" if title and is_position(cutoff) else key.replace("_", " ")


CLASS_MEANS = "class_mean_accuracy"
"""Share of texts nearest to the mean of their own class. It needs no classifier."""


def chooses(kind: Kind, unscored: Collection[Kind] = ()) -> str | None:
    """Return the metric of a kind that selects checkpoints during training, or None.

    It is the main metric, except for texts with classes: fitting a classifier at each validation costs more than
    training.

    Args:
        kind: Kind of the set.
        unscored: Kinds for which the model has no metric.

    Returns:
        Name of a metric in results, or None.
    """
    return CLASS_MEANS if kind is Kind.LABELLED_TEXT else main_metric(kind, unscored)


def main_metric(kind: Kind, unscored: Collection[Kind] = ()) -> str | None:
    """Return the main metric of a kind, or None if there is nothing to compare.

    Args:
        kind: Kind of the set.
        unscored: Kinds for which the model has no metric. A model that cannot search a corpus ranks a few texts.

    Returns:
        Name of a metric in results, or None.
    """
    if kind is Kind.POSITIVE_PAIR and Kind.RETRIEVAL in unscored:
        return AMONG_FEW
    return next(iter(MEASURES[kind]), None)


def speaking(measured: Collection[str]) -> list[str]:
    """Select the main metrics among the metrics of one set.

    Args:
        measured: Names of metrics in results.

    Returns:
        Names in the order of MAIN_METRICS.

    >>> speaking(["mrr", "recall_at_1", "ranking_accuracy"]), speaking(["pearson", "spearman", "transfer_accuracy"])
    (['recall_at_1'], ['spearman', 'transfer_accuracy'])
    """
    others = [name for name in OF_RANKS if name in measured][1:]
    return [name for name in MAIN_METRICS if name in measured and name not in others]


def main_metric_keys(keys: Iterable[str]) -> list[str]:
    """Select the keys `split/dataset/metric` of main metrics, in their order.

    Args:
        keys: Such as `dev/csts/spearman` and `dev/csts/pearson`.

    Returns:
        The keys whose metric `speaking` selects for their set.
    """
    of_columns: dict[str, list[str]] = {}
    listed = [key.rpartition("/") for key in keys]
    for column, _, metric in listed:
        of_columns.setdefault(column, []).append(metric)
    chosen = {column: speaking(measured) for column, measured in of_columns.items()}
    return ["/".join((column, metric)) for column, _, metric in listed if metric in chosen[column]]


def belongs_in_table(measured: str, metric: str) -> bool:
    """True if a set with the metric `measured` belongs in a table of `metric`.

    It does if `measured` is the main metric of a kind that has `metric`. A metric of no kind belongs to every set.

    Args:
        measured: Main metric of the set.
        metric: Metric of the table.

    Returns:
        False if no kind with that main metric has `metric`.
    """
    if metric == V_MEASURE:  # classified pairs have the main metric of texts, and not this one
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
    alternatives: Callable[[], Mapping[str, Sequence[Kind]]] = dict,
    chooser: str = "loss",
) -> Kind:
    """Choose the kind that a loss reads from a dataset: the dataset's own, or the first that one conversion gives.

    Args:
        dataset: Name of the dataset.
        kind: Its kind.
        loss: Name of the loss.
        input_kinds: Kinds that the loss reads.
        wanted: The dataset's `convert_to` key: take this kind or fail.
        alternatives: Gives loss → kinds it reads, to suggest losses that fit. Called for a refusal only.
        chooser: Configuration key that has `loss` as its value, for messages: a model may require a kind, too.

    Returns:
        A kind among `input_kinds`.

    Raises:
        UserError: No conversion fits. The message has the losses that read the dataset's kind.
    """
    reachable = (kind, *CONVERSIONS[kind])
    if wanted is not None:
        if wanted not in reachable:
            raise UserError(
                f"dataset.{dataset}.convert_to={wanted}: a {kind} is not converted to that. Leave it out, or choose "
                f"one of: {', '.join(reachable)}"
            )
        reachable = (Kind(wanted),)
    for candidate in reachable:
        if candidate in input_kinds:
            return candidate
    fitting = sorted(
        name for name, kinds in alternatives().items() if any(reached in kinds for reached in reachable)
    )
    raise UserError(
        f"{chooser}={loss} needs {_spoken(input_kinds)}. {dataset} has {_spoken(reachable[:1])}, which "
        "cannot be converted." + (f" Losses for {dataset}: {', '.join(fitting)}." if fitting else "")
    )


def _spoken(kinds: Sequence[Kind]) -> str:
    return " or ".join(f"{kind}s".replace("_", " ").replace("nli", "NLI") for kind in kinds)


def text_roles(kind: Kind | None, symmetric: bool | None) -> str | None:
    """Name the roles of a row's two texts if they cannot be exchanged.

    Args:
        kind: Kind of the set, None for a ranking.
        symmetric: See `Examples.symmetric`.

    Returns:
        "premise and hypothesis" or "query and document". None if they can be exchanged.
    """
    if kind is Kind.NLI_PAIR:
        return "premise and hypothesis"
    return "query and document" if symmetric is False else None
