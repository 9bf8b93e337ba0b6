"""The tensors that a loss may read, one row each: a batch carries those that are given, a model adds those it makes.

Collating, gathering across devices, the arguments of losses, the pages and the tests go by this table.
"""

from typing import NamedTuple


class TensorSpec(NamedTuple):
    """axes  of the legend in `juzhen.core.batch`, in order
    is_learnt  the model that learns has made it, and gradients flow back through it; False: the data or a teacher did
    about  what it holds
    """

    axes: tuple[str, ...]
    is_learnt: bool
    about: str


def _learnt(axes: str, about: str) -> TensorSpec:
    return TensorSpec(tuple(axes.split()), True, about)


def _given(axes: str, about: str) -> TensorSpec:
    return TensorSpec(tuple(axes.split()), False, about)


TENSORS: dict[str, TensorSpec] = {
    "scores": _learnt("batch", "a similarity per row, higher = closer"),
    "layer_scores": _learnt("batch layers", "a similarity per row and layer"),
    "layer_embeddings": _learnt(
        "batch texts layers dim", "the texts of a row, as each of some layers gives them"
    ),
    "logits": _learnt("batch classes", "one number per class"),
    "embeddings": _learnt("batch dim", "single texts, which have classes"),
    "first": _learnt("batch dim", "the first text of a pair"),
    "second": _learnt("batch dim", "the second text of a pair"),
    "anchors": _learnt("batch dim", "texts that shall find their positive"),
    "positives": _learnt("batch dim", "texts that belong to the anchor of their row"),
    "negatives": _learnt("batch negatives dim", "texts that do not belong to the anchor of their row"),
    "student": _learnt("batch dim", "single texts, which a teacher has read too"),
    "projected": _learnt("batch teacher", "the student's embeddings, brought to the teacher's space"),
    "document_scores": _learnt(
        "batch documents",
        "similarities of the anchor and the texts of its row, the positive first; −∞ for one that the row lacks",
    ),
    "targets": _given("batch", "the gold value that a score is held to, higher = closer"),
    "classes": _given("batch", "the number of the class of each row, from 0"),
    "teacher": _given("batch teacher", "what a teacher gives for single texts"),
    "guide": _given("batch texts guide", "what another encoder gives for anchor, positive and negatives"),
    "teacher_scores": _given(
        "batch documents", "what a teacher scores the texts of a row; None where the set does not say"
    ),
    "text_ids": _given(
        "batch texts",
        "the number of each text of a row, equal for equal texts, and −1 for a negative that the row lacks. With it, "
        "texts that come twice in a batch are not taken for negatives; without it, all count as different",
    ),
}
"""Name → what it is."""
