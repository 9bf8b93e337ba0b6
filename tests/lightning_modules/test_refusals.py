"""What a job cannot do is refused before a row is read, in words that name the way out."""

import pytest
from jobs import forbid_reading, run_job, typed_job

from juzhen.core.errors import UserError
from lightning_modules.loss_factory import match_losses

NLI = "dataset.demo_nli.learning"
REFUSED = {
    "dataset=[demo_qmc]": {
        "loss=ce": "loss=ce needs one logit per class, and model=biencoder gives none",
        "loss=distill": "loss=distill needs the vector of a teacher .* model=biencoder gives none. "
        "Type model=distill model.teacher=<",
        "loss=info_nce_guided": "loss=info_nce_guided needs the vectors of a guide .*. "
        "Type model=guided model.teacher=",
    },
    "model=crossencoder": {
        "loss=cosine": "loss=cosine needs a cosine of two embeddings, and model=crossencoder gives none",
        "loss=softmax dataset=[demo_qmc]": "needs an embedding of each sentence",
        "loss=ce dataset=[demo_sts] dataset.demo_sts.grades=null": "grades=null: loss=ce needs classes",
        "loss=ce dataset=[demo_qmc,demo_nli]": "one head.* demo_qmc 2, demo_nli 3",
        "backbone.layer_norm=true": "backbone.layer_norm is for embeddings",
        "evaluation.backend=onnx": "evaluation.backend",
        "evaluation.cache_embeddings=true": "evaluation.cache_embeddings is for .* a cross-encoder has none",
        "dataset=[demo_nli] model.symmetric=true": "premise and hypothesis cannot be exchanged",
        "dataset=[demo_nli] model.symmetric_training=true": "premise and hypothesis",
    },
    "model=distill loss=distill model.teacher=builtin/mini_zh@2": {
        "model.teacher=nowhere/at/all": "nowhere/at/all: no such folder",
        "loss=cosent": "loss=cosent needs one score per pair, and model=distill gives none. Choose one of distill, ",
        "loss=simcse": "loss=simcse needs an embedding of each sentence, and model=distill gives none",
        "cache_dir=null": "cache_dir=null: the teacher's vectors are kept on the disk",
        "+model.score=bilinear": "loss=distill does not read the score of a pair",
        "augmentation=noise": "leave augmentation out",
    },
    "model=guided loss=info_nce_guided model.teacher=builtin/mini_zh dataset=[demo_qmc]": {
        "model.teacher=nowhere/at/all": "nowhere/at/all: no such folder",
        "loss=info_nce": "loss=info_nce needs .*, and model=guided gives none. Choose one of info_nce_guided",
        "cache_dir=null": "cache_dir=null: the teacher's vectors are kept on the disk",
        "+model.score=bilinear": "loss=info_nce_guided does not read the score of a pair",
        "dataset=[demo_sts]": "demo_sts has scored pairs, which cannot be converted",
    },
    "model=views loss=info_nce": {
        "model.views=[delte]": "model.views=delte: unknown choice. Did you mean delete",
        "model.views=[translation]": "model.translations=null: no such file",
        "model.views=[translation] model.translations=nowhere.tsv": "no such file",
        "loss=cosent": r"loss=cosent: ViewEncoder makes positive pairs.*info_nce",
    },
    "model.score=bilinear": {
        "loss=cosine": "model.score=bilinear: loss=cosine does not read the score .*model.score=cosine",
        "loss=info_nce dataset=[demo_qmc]": "loss=info_nce does not read the score of a pair",
        "loss=cosent_layers": "loss=cosent_layers does not read the score",
        "loss=by_kind dataset=[demo_nli]": "loss=softmax does not read the score",
    },
    "backbone.prompts={query:'问：'} backbone.default_prompt_name=query": {
        "model=crossencoder": r"two sentences in one input.*'问：'.*default_prompt_name=none",
        "model=simcse loss=info_nce_pool model.language=zh": r"templates.*'问：'.*default_prompt_name=none",
    },
    "augmentation=noise": {
        "model=mlm dataset=[text_lctt]": "MaskedLanguageModel learns from text alone",
        "augmentation=synonym model=views loss=info_nce": "ViewEncoder learns from text alone.*model=views",
        "loss=simcse": "the loss of demo_sts learns from single sentences",
        "augmentation=translation": "augmentation.translations=null: no such file",
        "augmentation=translation augmentation.translations=no.tsv": "augmentation.translations=no.tsv: no such",
        "augmentation.views=[delete,synonym]": r"augmentation.views.*\[synonym,delete\]",
        "augmentation.views=[synonym,translation]": r"augmentation.views.*\[translation,synonym\]",
        "augmentation.sets=[demo_stx]": "augmentation.sets=demo_stx: unknown choice. Did you mean demo_sts",
        "augmentation.sets=[]": "augmentation.sets",
        "augmentation.probability=1.5": "augmentation.probability=1.5: expected",
    },
    "dataset=[demo_nli]": {
        f"loss=info_nce_extended {NLI}.in_batch=true": "in_batch=true: loss=info_nce_extended does not ask .* "
        "Choose loss=info_nce, or type .*in_batch=null",
        f"loss=info_nce_own {NLI}.in_batch=true": "loss=info_nce_own does not",
        f"loss=info_nce loss.symmetric=true {NLI}.in_batch=false": "loss.symmetric=True is about texts of other rows",
        f"loss=info_nce loss.false_negative_margin=0 {NLI}.in_batch=false": "loss.false_negative_margin=0 is about "
        "texts of other rows",
        f"loss=info_nce dataset.demo_nli.convert_to=positive_pair {NLI}.in_batch=false": "rows are read as positive "
        "pairs, which have no negatives of their own. Have them read as triplets",
        f"loss=cosent {NLI}.num_negatives=1": "rows are read as NLI pairs",
        f"loss=triplet {NLI}.temperature=0.1": "loss=triplet has none. Choose",
        f"model=crossencoder loss=cosent {NLI}.temperature=0.1": r"divides cosines, .* Type loss.temperature=…, or "
        "type dataset.demo_nli.learning.temperature=null",
        f"loss=cosent_adaptive {NLI}.temperature=0.1": "divides cosines, and loss=cosent_adaptive gets",
        f"model=mlm {NLI}.temperature=0.1": "model=mlm has none",
        f"model=views loss=info_nce {NLI}.in_batch=false": "read as sentences",
    },
}
"""Words that make the job → further words → what is said."""
CASES = [(f"{job} {more}", message) for job, cases in REFUSED.items() for more, message in cases.items()]


@pytest.mark.parametrize(("words", "message"), CASES, ids=[words for words, _ in CASES])
@pytest.mark.sampled(6)
def test_refusals_come_before_rows_are_read(words, message, tmp_path, tiny_backbone, monkeypatch):
    forbid_reading(monkeypatch)
    with pytest.raises(UserError, match=message):
        run_job(tmp_path, tiny_backbone, *words.split())


QLORA, BFLOAT16 = "+backbone.adapter={kind:lora,base:nf4}", "+backbone.adapter={kind:lora,base:bfloat16}"
UNSUITABLE = {
    "": {
        "dataset=[demo_nli] loss=softmax dataset.demo_nli.convert_to=triplet": "softmax needs NLI pairs",
        "dataset=[demo_retrieval] loss=by_kind dataset.demo_retrieval.convert_to=sentence": "convert_to="
        "positive_pair, or loss=<name>, one of simcse",
        "dataset=[demo_qmc] training.stratify_by=label_length loss=info_nce": r"\(demo_qmc as positive pairs\).* "
        r"training\.stratify_by=length",
        "dataset=[demo_sts] model=views training.stratify_by=label_length loss=info_nce": "as sentences",
        "loss=spread_out loss@loss.of=distill": "cannot be inside, as it reads teacher",
        "dataset=[demo_qmc] loss=matryoshka loss@loss.of=info_nce_queue": "owns a head of one size",
    },
    "model=mlm dataset=[demo_sts]": {
        "+loss@schedule.sets.demo_sts.loss=cosent": "schedule.sets.demo_sts.loss: model=mlm learns without",
        "schedule=serial +loss@schedule.stages.demo_sts.loss=cosent": "schedule.stages.demo_sts.loss: model=mlm",
    },
    "model=crossencoder loss=ce": {
        "dataset=[demo_qmc] loss=spread_out": "loss=spread_out needs an embedding",
        "dataset=[stsb_en]": r"dataset.stsb_en.grades=null: loss=ce needs classes.*grades=\[0,2.5,5\]",
        "dataset=[csts] dataset.csts.grades=[0,1,2,7]": r"two or more numbers that rise, within score_range \[0, 5\]",
        "dataset=[csts,demo_nli]": "one head, .*: csts 6, demo_nli 3",
    },
    "model=cot dataset=[demo_sts]": {
        "loss=cosent": "info_nce_pool",
        "loss=triplet": "positive pairs",
        "loss=info_nce model.language=fr": "language=fr",
        "loss=info_nce model.templates.zh.anchor=no": r"expected one \[X\]",
        "loss=info_nce +model.templates.zh.anchr=no": "Did you mean anchor",
        "loss=info_nce model.templates.zh.positive=null": "template for the positive",
    },
    "model=reranker": {
        "loss=ce dataset=[demo_nli]": "loss=ce needs one logit per class",
        "loss=info_nce dataset=[demo_qmc]": "loss=info_nce needs",
        "loss=bce augmentation=noise dataset=[demo_qmc]": "augmentation.views=.* augmentation out",
    },
    "model=colbert": {
        "loss=triplet dataset=[demo_qmc]": "loss=triplet needs an embedding of each sentence.*Choose one of bce",
        "loss=spread_out loss@loss.of=info_nce dataset=[demo_qmc]": "loss=spread_out needs an embedding",
        "loss=ce dataset=[demo_nli]": "loss=ce needs one logit per class",
        "loss=info_nce augmentation=noise dataset=[demo_qmc]": "augmentation.views=.* augmentation out",
        f"loss=cosent {QLORA}": "adapter.base=nf4: model=colbert .* backbone.adapter.base=float32",
        f"loss=cosent {BFLOAT16}": "base=bfloat16: model=colbert",
    },
    "model=splade": {
        "loss=triplet dataset=[demo_qmc]": "loss=triplet needs an embedding of each sentence",
        "loss=matryoshka loss@loss.of=info_nce dataset=[demo_qmc]": "loss=matryoshka needs",
        "loss=contrastive dataset=[demo_qmc]": "needs a cosine of two embeddings",
        "loss=info_nce_weighted dataset=[demo_qmc]": "hardness_strength multiplies cosines",
        "loss=bce dataset=[demo_qmc]": "never below 0. Type loss=cosent",
        "loss=mse": "never below 0",
        "loss=ce dataset=[demo_nli]": "loss=ce needs one logit per class",
        f"loss=cosent {QLORA}": "adapter.base=nf4: model=splade .* backbone.adapter.base=float32",
        f"loss=cosent {BFLOAT16}": "base=bfloat16: model=splade",
        "loss=cosent model.pooling=mean": r"model\.pooling=mean: expected one of max, sum",
        "loss=cosent model.query_flops=-1": r"model\.query_flops=-1: expected a number from 0",
        "loss=info_nce dataset=[demo_qmc] +dataset.demo_qmc.learning={temperature:0.05}": "divides cosines",
    },
    "hardware=cuda_fsdp": {
        "hardware.precision=16-mixed": "hardware.precision=bf16-mixed",
        "callbacks=[default,ema]": "callbacks.ema=null",
        "mining=dynamic dataset=[demo_qmc] loss=info_nce": "callbacks.mining=null",
        "adapter=qlora": "adapter=lora",
    },
}
"""The same of losses and models that do not suit, which a job says before it begins."""
MISMATCHES = [
    (f"{job} {more}", message) for job, cases in UNSUITABLE.items() for more, message in cases.items()
]


@pytest.mark.parametrize(("words", "message"), MISMATCHES, ids=[words for words, _ in MISMATCHES])
@pytest.mark.sampled(2)
def test_models_and_losses_that_do_not_suit_are_refused(words, message):
    with pytest.raises(UserError, match=message):
        match_losses(typed_job("benchmark=none", *words.split()))
