"""The table of keys that a job does not read, why, and what stands for them."""

from functools import partial

from juzhen.core.reading_jobs import (
    AS_IT_IS,
    FROM_TEXT,
    GONE,
    LEARNING_KEYS,
    Rule,
    all_sets_have,
    are_built_in,
    has_kind,
    is_here,
    is_lexical,
    is_model,
    learns,
    model_class,
    overruled,
    overruled_in_stages,
    stages_of,
    templates,
    unused_losses,
    unused_views,
)

RULES: tuple[Rule, ...] = (
    Rule(
        is_lexical,
        dict.fromkeys(
            ("backbone", "init_from", "dataset", "loss", "training", "optimizer", "augmentation", "schedule"),
            GONE,
        )
        | dict.fromkeys(("filter_leaks", "hardware.precision", "hardware.compile"), GONE)
        | {
            f"evaluation.{key}": GONE for key in ("untrained", "without_leaks", "backend", "cache_embeddings")
        },
        "{model} learns nothing and has no encoder; {pick} (sets to score: 'dataset=[]' "
        "+dataset@evaluate.<name>=<name>, or a suite)",
    ),
    Rule(lambda job: is_model(job, "BM25"), {"evaluation.transfer": GONE}, "BM25 gives no features; {pick}"),
    Rule(
        lambda job: not learns(job),
        lambda job: (
            dict.fromkeys(
                (
                    "loss",
                    "training",
                    "optimizer",
                    "augmentation",
                    "schedule",
                    "filter_leaks",
                    "callbacks.mining",
                ),
                GONE,
            )
            | {"evaluation.untrained": GONE, "evaluation.without_leaks": GONE, "backbone.learning_rate": GONE}
            | {f"model.{key}": one for key, one in LEARNING_KEYS.get(model_class(job), {}).items()}
        ),
        "nothing is learnt with dataset=[]; {pick}, or name sets: 'dataset=[demo_sts]'",
    ),
    Rule(
        lambda job: bool(job.get("init_from")),
        {"backbone": GONE},
        "init_from={init_from} takes the place of the backbone. To change the encoder that is there, type "
        "backbone=local backbone.path=<its encoder folder> {key}=… in place of init_from; a learning rate is "
        "optimizer.lr=…",
        but=("backbone.learning_rate",),
    ),
    Rule(
        lambda job: (
            (job.get("optimizer") or {}).get("lr") != (job.get("backbone") or {}).get("learning_rate")
        ),
        {"backbone.learning_rate": AS_IT_IS},
        "optimizer.lr={lr} takes its place; type one of the two",
    ),
    Rule(
        lambda job: is_here((job.get("backbone") or {}).get("path")),
        {"backbone.revision": AS_IT_IS},
        "{path} is a folder here, and a revision is of the hub; {pick}",
    ),
    Rule(
        lambda job: is_here(job["model"].get("teacher")),
        {"model.teacher_revision": AS_IT_IS},
        "{teacher} is a folder here, and a revision is of the hub; {pick}",
    ),
    Rule(
        lambda job: is_model(job, "CrossEncoder"),
        {
            "backbone.pooling": "mean",
            "backbone.normalize": False,
            "backbone.layer_norm": None,
            "backbone.include_prompt": None,
        },
        "a cross-encoder has no embeddings; {pick}, or choose what its head sees: model.pooling=cls or mean",
    ),
    Rule(
        lambda job: is_model(job, "CrossEncoder"),
        {"evaluation.backend": "torch", "evaluation.cache_embeddings": False, "evaluation.transfer": GONE},
        "a cross-encoder has no embeddings; {pick}, or type model=biencoder",
    ),
    Rule(
        lambda job: is_model(job, "CrossEncoder", *FROM_TEXT),
        {"training.share_sentences": True},
        "no sentence is encoded twice for a batch of {model}; {pick}",
    ),
    Rule(
        lambda job: is_model(job, "MaskedLanguageModel"),
        {"loss": GONE, "schedule.sets.*.loss": GONE},
        "{model} learns without a loss; {pick}, or choose a model that learns by one, such as model=views",
    ),
    Rule(
        lambda job: is_model(job, "CotEncoder") and job["model"].get("read") != "pooling",
        {"backbone.pooling": "mean"},
        "{model} reads a sentence at [MASK]; {pick}, or type model.read=pooling",
    ),
    Rule(
        lambda job: is_model(job, "CotEncoder"),
        templates,
        "the templates are those of model.language={language}, with stage_2={stage_2} and "
        "use_negative={use_negative}, which leave it unread",
    ),
    Rule(
        lambda job: is_model(job, "ViewEncoder"),
        partial(unused_views, "model"),
        "{views} does without; {pick}",
    ),
    Rule(
        lambda job: is_model(job, "CropEncoder") and not job["model"].get("mlm_weight"),
        {"model.mask_rate": 0.15},
        "no token is hidden with model.mlm_weight=0; {pick}, or type a weight",
    ),
    Rule(
        lambda job: is_model(job, "MaskedLanguageModel") and job["model"].get("strategy") != "span",
        {"model.mean_span": 2.0},
        "it is for model.strategy=span; {pick}",
    ),
    Rule(
        lambda job: bool(job.get("augmentation")),
        partial(unused_views, "augmentation"),
        "augmentation.views={changes} does without; {pick}, or name its view there",
    ),
    Rule(
        lambda job: all(len(sets) < 2 for _, sets, _ in stages_of(job)),
        {"schedule.sample_by": "size", "schedule.temperature": 1.0, "schedule.sets.*.weight": GONE},
        "no stage mixes several sets; {pick}",
    ),
    Rule(learns, overruled, "every set or stage has its own in its place; {pick}"),
    Rule(
        learns,
        overruled_in_stages,
        "a set of that stage has its own under schedule.sets, which would count instead; keep one of the two",
    ),
    Rule(learns, unused_losses, "the sets of this job have no such rows; {pick}"),
    Rule(
        lambda job: learns(job) and all_sets_have(job, "temperature"),
        {"loss.temperature": AS_IT_IS},
        "every set has its own, dataset.<name>.learning.temperature; {pick}",
    ),
    Rule(
        lambda job: not ((job.get("evaluation") or {}).get("transfer") or has_kind(job, "labelled_text")),
        {"evaluation.transfer_limit": 10000},
        "no set is classified; {pick}, or name some: evaluation.transfer=[…]",
    ),
    Rule(
        lambda job: not has_kind(job, "retrieval", "reranking"),
        {"evaluation.rankings": GONE},
        "no set of this job is ranked; {pick}, or add one, such as +dataset@evaluate.demo_retrieval=demo_retrieval",
    ),
    Rule(
        lambda job: True,
        dict.fromkeys(("evaluate.*.view", "evaluate.*.limit", "evaluate.*.learning"), GONE),
        "the set is scored and not learnt from; {pick} (rows that are scored: evaluation.limit)",
    ),
    Rule(
        are_built_in,
        {"source": AS_IT_IS},
        "every set of this job says itself where it is from; {pick}",
    ),
)
"""Rules, the first one that speaks of a key gives the reason."""
