"""Why a job does not read a key, and what to type instead: the words for the rules of `juzhen.core.reading`."""

from typing import Any

from juzhen.core.job_facts import Job, value_at
from juzhen.core.named import name_of
from juzhen.core.reading import is_below, unread

WHY = {
    "lexical": "{model} learns nothing and has no encoder; {pick} (sets to score: 'dataset=[]' "
    "+dataset@evaluate.<name>=<name>, or a suite)",
    "tf_idf": "TF-IDF goes by characters and their pairs; {pick}, or type model.method=jaccard or dice",
    "bm25": "BM25 gives no features; {pick}",
    "nothing_learnt": "nothing is learnt with dataset=[]; {pick}, or name sets: 'dataset=[demo_sts]'",
    "init_from": "init_from={init_from} takes the place of the backbone. To change the encoder that is there, type"
    " backbone=local backbone.path=<its encoder folder> {key}=… in place of init_from; a learning "
    "rate is optimizer.lr=…",
    "learning_rate": "optimizer.lr={lr} takes its place; type one of the two",
    "backbone_revision": "{path} is a folder here, and a revision is of the hub; {pick}",
    "teacher_revision": "{teacher} is a folder here, and a revision is of the hub; {pick}",
    "pair_pooling": "a cross-encoder has no embeddings; {pick}, or choose what its head sees: model.pooling=cls or "
    "mean",
    "answer_pooling": "model=reranker reads the answer at the last token, and looks to the left; {pick}. What stands "
    "around texts is model.template",
    "pair_embeddings": "a cross-encoder has no embeddings; {pick}, or type model=biencoder",
    "token_pooling": "model=colbert has a vector for each token, of length 1, and pools none; {pick}. Its markers are "
    "backbone.prompts",
    "token_embeddings": "model=colbert has no vector of a text; {pick}, or type model=biencoder",
    "sparse_pooling": "model=splade takes the maximum of what tokens say of the vocabulary; {pick}, or type "
    "model.pooling=sum",
    "sparse_embeddings": "model=splade has no embedding of a text; {pick}, or type model=biencoder",
    "not_shared": "no sentence is encoded twice for a batch of {model}; {pick}",
    "no_loss": "{model} learns without a loss; {pick}, or choose a model that learns by one, such as model=views",
    "read_at_mask": "{model} reads a sentence at [MASK]; {pick}, or type model.read=pooling",
    "templates": "the templates are those of model.language={language}, with stage_2={stage_2} and "
    "use_negative={use_negative}, which leave it unread",
    "views": "{views} does without; {pick}",
    "hidden_tokens": "no token is hidden with model.mlm_weight=0; {pick}, or type a weight",
    "spans": "it is for model.strategy=span; {pick}",
    "augmentation": "augmentation.views={changes} does without; {pick}, or name its view there",
    "one_set": "no stage mixes several sets; {pick}",
    "equal_shares": "schedule.sample_by={sample_by} takes all sets alike; {pick}, or type schedule.sample_by=weight",
    "overruled": "every set or stage has its own in its place; {pick}",
    "overruled_in_stages": "each set of that stage has its own under schedule.sets, which would count instead; "
    "keep one of the two",
    "unused_losses": "the sets of this job have no such rows; {pick}",
    "set_temperatures": "every set has its own, dataset.<name>.learning.temperature; {pick}",
    "no_transfer": "no set is classified; {pick}, or name some: evaluation.transfer=[…]",
    "no_classes": "no set of this job has texts with classes; {pick}, or add one, such as "
    "+dataset@evaluate.tnews=tnews",
    "no_ranking": "no set of this job is ranked; {pick}, or add one, such as "
    "+dataset@evaluate.demo_retrieval=demo_retrieval",
    "only_scored": "the set is scored and not learnt from; {pick} (rows that are scored: evaluation.limit)",
    "grades": "grades are classes for model=crossencoder loss=ce alone; {pick}",
    "built_in": "every set of this job says itself where it is from; {pick}",
}
"""Name of a rule → its reason."""


def why_unread(key: str, job: Job) -> str | None:
    """Why a dotted key, or a group, is not read by a job, and what to type; None for one that is."""
    for pattern, rule in unread(job).items():
        plain = key
        # Keys of stages and sets are those of the job, but where these overrule them.
        for owner in () if rule.name == "overruled" else ("schedule.stages.", "schedule.sets."):
            if key.startswith(owner) and key.count(".") > 2 and not pattern.startswith("schedule."):
                plain = key.split(".", 3)[3]
        is_it = any(is_below(name, pattern) for name in {key, plain})
        if is_it and not any(is_below(key, pattern) for pattern in rule.but):
            return WHY[rule.name].format(key=key, pick="leave it out", **_words(job))
    return None


def _words(job: Job) -> dict[str, Any]:
    """What reasons tell of the job."""
    model, templates = job["model"], job["model"].get("templates") or {}
    return {
        "model": f"model={name_of(model)}",
        "init_from": job.get("init_from"),
        "lr": value_at(job, "optimizer.lr"),
        "path": value_at(job, "backbone.path"),
        "teacher": model.get("teacher"),
        "language": model.get("language"),
        "stage_2": "null" if value_at(templates, f"{model.get('language')}.stage_2") is None else "…",
        "use_negative": str(model.get("use_negative")).lower(),
        "sample_by": value_at(job, "schedule.sample_by"),
        "views": f"model.views={list(model.get('views') or ())}",
        "changes": list(value_at(job, "augmentation.views") or ()),
    }
