"""What chooses the weights: Spearman where some dev set has it, else what measures the trained sets, else nothing."""

import numpy as np
import pytest

from datamodules.datamodule import select
from juzhen.core.errors import UserError
from juzhen.core.examples import TEXT_COLUMNS, Examples, Kind


def a_set(name, kind, split="dev"):
    columns = {column: np.zeros(2, np.int32) for column in TEXT_COLUMNS[kind]}
    return Examples(name, split, kind, ["a"], columns, np.zeros(2, np.float32))


GRADED, PAIRS = a_set("graded", Kind.SCORED_PAIR), a_set("pairs", Kind.LABELLED_PAIR)
TRIPLETS, POSITIVES = a_set("triplets", Kind.TRIPLET), a_set("positives", Kind.POSITIVE_PAIR)
TEXT, CLASSES = a_set("text", Kind.SENTENCE), a_set("classes", Kind.LABELLED_TEXT)
JUDGEMENTS, LISTS = a_set("judgements", Kind.RETRIEVAL), a_set("lists", Kind.RERANKING)
TEST = a_set("graded", Kind.SCORED_PAIR, "test")


@pytest.mark.parametrize(
    ("evaluation", "trained", "metric", "names"),
    [
        ([GRADED, PAIRS], ["pairs"], "spearman", ["pairs"]),
        ([GRADED, PAIRS], ["elsewhere"], "spearman", ["graded", "pairs"]),
        ([GRADED, TRIPLETS], ["triplets"], "triplet_accuracy", ["triplets"]),
        ([TEST, TRIPLETS], ["triplets"], "triplet_accuracy", ["triplets"]),
        ([GRADED, JUDGEMENTS], ["judgements"], "ndcg_at_10", ["judgements"]),
        ([GRADED, LISTS], ["lists"], "ndcg_at_10", ["lists"]),
        ([GRADED, CLASSES], ["classes"], "class_mean_accuracy", ["classes"]),
        ([POSITIVES, JUDGEMENTS, LISTS], ["elsewhere"], "recall_at_1", ["positives"]),
        ([TEXT, JUDGEMENTS, LISTS], ["text"], "ndcg_at_10", ["judgements", "lists"]),
        ([POSITIVES, TEXT], ["text"], "recall_at_1", ["positives"]),
        ([TEST, TEXT, CLASSES], ["text"], "spearman", []),
    ],
)
def test_what_chooses_by_itself(evaluation, trained, metric, names):
    found = select(evaluation, trained, monitor="auto", metric="spearman")
    assert (found.metric, [one.name for one in found.sets]) == (metric, names)
    assert found.key == f"dev/selection/{metric}"
    expected = f"the best {'mean ' if len(names) > 1 else ''}dev {metric} of {', '.join(names)}"
    others = "" if {*names} & {*trained} else " (no set that is trained on has a dev split that is scored)"
    assert found.in_words == (expected + others if names else "the last step")


def test_sets_of_a_mixture_are_each_judged_by_what_speaks_for_their_kind():
    trained = ["positives", "graded", "judgements", "pairs"]
    found = select(
        [GRADED, PAIRS, POSITIVES, JUDGEMENTS, TRIPLETS], trained, monitor="auto", metric="spearman"
    )
    assert found.key == "dev/selection/mean"
    assert found.columns == [
        "dev/graded/spearman",
        "dev/pairs/spearman",
        "dev/positives/recall_at_1",
        "dev/judgements/ndcg_at_10",
    ]
    words = "spearman of graded, pairs and recall_at_1 of positives and ndcg_at_10 of judgements"
    assert found.in_words == f"the best mean dev {words}"


def test_hidden_tokens_are_named_in_every_text():
    found = select([GRADED, TEXT], ["text"], monitor="auto", metric="mlm_accuracy")
    assert [one.name for one in found.sets] == ["text"]
    found = select([GRADED, TEXT], ["other"], monitor="auto", metric="mlm_accuracy")
    assert [one.name for one in found.sets] == ["graded", "text"]


def test_a_set_may_be_named():
    found = select([GRADED, TRIPLETS], ["graded"], monitor="dev/triplets/score_gap", metric="spearman")
    assert (found.metric, found.sets) == ("score_gap", [TRIPLETS])
    with pytest.raises(UserError, match=r"no dev split of csts is evaluated\. There is graded"):
        select([GRADED], ["graded"], monitor="dev/csts/spearman", metric="spearman")
