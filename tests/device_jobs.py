"""Jobs of every loss and model, for tests of what they do on a GPU."""

from collections.abc import Sequence
from pathlib import Path

from expected_losses import EXPECTED
from jobs import ranked_rows

QMC, NLI = "dataset=[demo_qmc]", "dataset=[demo_nli]"
TAUGHT = ["model=distill", "model.teacher=builtin/mini_zh@2"]
GUIDED = ["model=guided", "model.teacher=builtin/mini_zh@2", QMC]
ADAPTER = ["backbone=mini_zh", "backbone.path=builtin/mini_zh@2", "adapter=lora"]
ANSWER = [
    *("model=reranker", "backbone=random_decoder", "backbone.path=builtin/decoder", "backbone.layers=1"),
    *('model.true_answer="是"', 'model.false_answer="否"', 'model.template="{query}>{document}"'),
]
VIEWS = "model.views=[synonym,delete,shuffle]"

SLOW_STEPS = {"clustering", "by_kind", "triplet_batch_all"}
"""Losses of conf/loss that are among WAITS, or tried below by several sets at once."""


def _jobs(kind: str) -> list[list[str]]:
    """Every loss whose first kind of sets is `kind`, as the words of a job."""
    words = {"graded": [], "0/1": [QMC], "nli": [NLI], "classes": [], "teacher": TAUGHT}
    words |= {"guide": GUIDED, "lists": []}
    names = [name for name, one in EXPECTED.items() if one.kinds.split()[0] == kind]
    return [
        [f"loss={name}", *words[kind], *(["model=crossencoder"] if name == "ce" else [])]
        for name in names
        if name not in SLOW_STEPS
    ]


CLASSES = _jobs("classes")
"""Of texts with a class; they need a data set of these."""

LISTS = _jobs("lists")
"""Of triplets with a teacher's scores, likewise."""

GROUPS = {
    "scored pairs": _jobs("graded"),
    "labelled pairs": [
        *_jobs("0/1"),
        ["loss=info_nce", QMC, "loss.symmetric=true", "loss.false_negative_margin=0"],
        ["loss=triplet", QMC, "loss.adaptive_margin=1"],
        ["loss=triplet_online", QMC, "loss.mining=semi_hard", "loss.adaptive_margin=1"],
    ],
    "inference pairs": [
        *([f"loss={name}", NLI] for name in ("cosent", "softmax", "cosent_softmax", "bilinear")),
        ["loss=by_kind", "dataset=[demo_sts,demo_nli]"],
    ],
    "classes": CLASSES,
    "lists": LISTS,
    "a teacher": [*_jobs("teacher"), *_jobs("guide")],
    "pieces": [
        ["loss=cosent", "hardware.micro_batch_tokens=40"],
        ["loss=info_nce", QMC, "hardware.micro_batch_tokens=40"],
    ],
    "adapters": [
        ["loss=cosent", *ADAPTER],
        [
            "loss=info_nce",
            QMC,
            *ADAPTER,
            "hardware.gradient_checkpointing=true",
            "hardware.micro_batch_tokens=40",
        ],
    ],
    "models": [
        ["loss=cosent", "model.score=bilinear", "backbone.layer_norm=true"],
        ["model=crossencoder", "loss=bce", QMC],
        ["model=crossencoder", "loss=cosent"],
        ["model=crossencoder", "loss=ce", NLI],
        ["model=colbert", "loss=info_nce", QMC, "model.expansion_attends=true"],
        ["model=splade", "loss=info_nce", QMC],
        ["loss=bce", QMC, *ANSWER],
        ["model=views", "loss=info_nce", VIEWS],
        ["model=cot", "loss=info_nce_pool", "model.untrained_mask=true"],
    ],
}


WAITS = {
    "loss=clustering": "aten._unique2",  # how many classes a batch has
    "loss=triplet_batch_all": "aten.nonzero",  # which texts are of the same class
    "model=mlm": "aten.nonzero",  # how many tokens are hidden
    # which templates and lengths there are
    "model=cot_published loss=info_nce_extended model.untrained_mask=true": "aten.unique_dim",
}
"""Jobs whose steps do fetch something from the GPU, and the operator that comes first."""


def on_their_sets(words: Sequence[str], news: Sequence[str], folder: Path) -> list[str]:
    """The words of a job with those of the set that it needs: `news`, or lists that are written below the folder."""
    if [*words[:1]] in [*CLASSES, *([name] for name in WAITS)]:
        return [*words, *news]
    return [*words, *(ranked_rows(folder / "lists") if [*words[:1]] in LISTS else ())]
