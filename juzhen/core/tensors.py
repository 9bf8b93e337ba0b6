"""The tensors that a loss may read, each under one name: the arguments of its `with_logs`."""

from typing import NamedTuple


class Reading(NamedTuple):
    """axes  of the legend in `juzhen.core.batch`, in order
    is_learnt  the model that learns has made it, and gradients flow back through it; False: the data or a teacher did
    words  what it holds
    """

    axes: tuple[str, ...]
    is_learnt: bool
    words: str


def _readings(is_learnt: bool, **rows: tuple[str, str]) -> dict[str, Reading]:
    return {name: Reading(tuple(axes.split()), is_learnt, words) for name, (axes, words) in rows.items()}


TENSORS = _readings(
    True,
    scores=("batch", "a similarity per row, higher = closer"),
    layer_scores=("batch layers", "a similarity per row and layer"),
    logits=("batch classes", "one number per class"),
    embeddings=("batch dim", "single texts, which have classes"),
    first=("batch dim", "the first text of a pair"),
    second=("batch dim", "the second text of a pair"),
    anchors=("batch dim", "texts that shall find their positive"),
    positives=("batch dim", "texts that belong to the anchor of their row"),
    negatives=("batch negatives dim", "texts that do not belong to the anchor of their row"),
    student=("batch dim", "single texts, which a teacher has read too"),
    projected=("batch teacher", "the student's embeddings, brought to the teacher's space"),
    document_scores=(
        "batch documents",
        "similarities of the anchor and the texts of its row, the positive first",
    ),
) | _readings(
    False,
    targets=("batch", "the gold value that a score is held to, higher = closer"),
    classes=("batch", "the number of the class of each row, from 0"),
    teacher=("batch teacher", "what a teacher gives for single texts"),
    guide=("batch texts guide", "what another encoder gives for anchor, positive and negatives"),
    teacher_scores=(
        "batch documents",
        "what a teacher scores the texts of a row; None where the set does not say",
    ),
    text_ids=(
        "batch texts",
        "the number of each text of a row, equal for equal texts. With it, texts that come twice in a batch are not "
        "taken for negatives; without it, all count as different",
    ),
)
"""Name → what it is. `lightning_modules/base.py` finds each in what a model has encoded."""
